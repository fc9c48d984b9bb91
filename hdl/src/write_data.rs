//! `WriteData`: the ports of data on the way to memory: aligned to the bus, with a strobe for each byte.
//!
//! It is AXI4-Stream with `tstrb` in the place of `tkeep`: the bytes to write may begin in the middle of the first beat. It decides nothing.

use spraynic_rtl::{InstanceHandle, Module, Signal, cat_lsb_first};

/// One packet of data for each memory write.
#[derive(Debug, Clone, Copy)]
pub struct WriteData<'a> {
    /// Byte 0 has an address that is a multiple of the bus width.
    pub data: Signal<'a>,
    /// One bit for each byte: it is written.
    pub strobe: Signal<'a>,
    /// The beat is the last one of its write.
    pub last: Signal<'a>,
    /// The beat is valid; does not wait for `ready`.
    pub valid: Signal<'a>,
    /// The beat is taken at the next clock edge if it is valid.
    pub ready: Signal<'a>,
}

impl<'a> WriteData<'a> {
    fn of(ready: Signal<'a>, mut forward: impl FnMut(&'static str) -> Signal<'a>) -> Self {
        Self {
            data: forward("tdata"),
            strobe: forward("tstrb"),
            last: forward("tlast"),
            valid: forward("tvalid"),
            ready,
        }
    }

    fn width_of(name: &str, width: u32) -> u32 {
        match name {
            "tdata" => width,
            "tstrb" => width / 8,
            _ => 1,
        }
    }

    /// The ports of data that the module takes: `width` data bits. Drive `ready`.
    #[track_caller]
    #[must_use]
    pub fn slave(module: Module<'a>, prefix: &str, width: u32) -> Self {
        let ready = module.output(&format!("{prefix}_tready"), 1);
        let stream = Self::of(ready, |name| {
            module.input(&format!("{prefix}_{name}"), Self::width_of(name, width))
        });
        stream.documented()
    }

    /// The ports of data that the module gives: `width` data bits. Drive all but `ready`.
    #[track_caller]
    #[must_use]
    pub fn master(module: Module<'a>, prefix: &str, width: u32) -> Self {
        let ready = module.input(&format!("{prefix}_tready"), 1);
        let stream = Self::of(ready, |name| {
            module.output(&format!("{prefix}_{name}"), Self::width_of(name, width))
        });
        stream.documented()
    }

    fn documented(self) -> Self {
        let _ = self.data.doc("data aligned to the bus, a packet for each MemoryWrite");
        let _ = self.strobe.doc("the bytes to write");
        self
    }

    /// The data that an instance takes. Drive all but `ready`.
    #[track_caller]
    #[must_use]
    pub fn into_instance(instance: InstanceHandle<'a>, prefix: &str) -> Self {
        let ready = instance.output(&format!("{prefix}_tready"));
        Self::of(ready, |name| instance.input(&format!("{prefix}_{name}")))
    }

    /// The data that an instance gives. Drive `ready`.
    #[track_caller]
    #[must_use]
    pub fn from_instance(instance: InstanceHandle<'a>, prefix: &str) -> Self {
        let ready = instance.input(&format!("{prefix}_tready"));
        Self::of(ready, |name| instance.output(&format!("{prefix}_{name}")))
    }

    /// Passes the data on to `to`.
    #[track_caller]
    pub fn connect(&self, to: Self) {
        to.data.set(self.data);
        to.strobe.set(self.strobe);
        to.last.set(self.last);
        to.valid.set(self.valid);
        self.ready.set(to.ready);
    }

    /// Data and strobes side by side, data at bit 0.
    #[must_use]
    pub fn pack(&self) -> Signal<'a> {
        cat_lsb_first(&[self.data, self.strobe])
    }

    /// One bit: a beat moves at the next clock edge.
    #[track_caller]
    #[must_use]
    pub fn fires(&self) -> Signal<'a> {
        self.valid & self.ready
    }
}
