//! Memories: one write port and one read port, read registered or (small ones) in the same cycle.
//!
//! Each kind is one wrapper module in the Verilog (`ram_block_new`, …), so that a vendor macro, an ECC or a black box can take
//! its place. Contents are not reset.

use crate::bits::index_width;
use crate::context::fail;
use crate::ir::{Kind, Memory, MemoryStyle, ReadDuringWrite, ReadPort, WritePort};
use crate::module::Module;
use crate::signal::Signal;
use std::panic::Location;

/// A memory of a module.
#[derive(Debug, Clone, Copy)]
pub struct MemoryHandle<'a> {
    module: Module<'a>,
    index: u32,
}

impl<'a> Module<'a> {
    /// A memory of `depth` words of `width` bits: block RAM, [`ReadDuringWrite::DontCare`], unless said otherwise.
    #[track_caller]
    #[must_use]
    pub fn memory(&self, name: &str, depth: u32, width: u32) -> MemoryHandle<'a> {
        let place = Location::caller();
        crate::keywords::check_identifier(name, place);
        if depth < 2 || width == 0 {
            fail(
                place,
                &format!("memory `{name}` of {depth} words of {width} bits: at least 2 words of 1 bit"),
            );
        }
        self.editable(place);
        let mut data = self.data_mut();
        let name = data.free_name(name);
        data.memories.push(Memory {
            name,
            width,
            depth,
            style: MemoryStyle::Block,
            policy: ReadDuringWrite::DontCare,
            granule: width,
            write: None,
            read: None,
            place,
        });
        MemoryHandle {
            module: *self,
            index: (data.memories.len() - 1) as u32,
        }
    }
}

impl<'a> MemoryHandle<'a> {
    fn change(&self, change: impl FnOnce(&mut Memory)) -> Self {
        change(&mut self.module.data_mut().memories[self.index as usize]);
        *self
    }

    fn get(&self) -> Memory {
        self.module.data().memories[self.index as usize].clone()
    }

    /// Chooses the resource.
    #[must_use]
    pub fn style(&self, style: MemoryStyle) -> Self {
        self.change(|memory| memory.style = style)
    }

    /// Chooses what a read of the word being written returns.
    #[must_use]
    pub fn read_during_write(&self, policy: ReadDuringWrite) -> Self {
        self.change(|memory| memory.policy = policy)
    }

    /// Gives each `granule` bits of the word a write strobe of their own.
    ///
    /// # Panics
    /// When the width is no multiple of it.
    #[track_caller]
    #[must_use]
    pub fn strobes(&self, granule: u32) -> Self {
        let memory = self.get();
        if granule == 0 || !memory.width.is_multiple_of(granule) {
            fail(
                Location::caller(),
                &format!(
                    "memory `{}`: {} bits are no whole number of granules of {granule}",
                    memory.name, memory.width
                ),
            );
        }
        self.change(|memory| memory.granule = granule)
    }

    /// Width of its addresses.
    #[must_use]
    pub fn address_width(&self) -> u32 {
        index_width(u64::from(self.get().depth))
    }

    #[track_caller]
    fn check(&self, what: &str, signal: Signal<'a>, width: u32) {
        self.module.owns(signal, Location::caller());
        self.module.editable(Location::caller());
        if signal.width() != width {
            let name = self.get().name;
            fail(
                Location::caller(),
                &format!("memory `{name}`: {what} has {width} bits, not those of {signal:?}"),
            );
        }
    }

    #[track_caller]
    fn write_port(&self, port: WritePort) {
        if self.get().write.is_some() {
            fail(
                Location::caller(),
                &format!("memory `{}` has its write port already", self.get().name),
            );
        }
        self.change(|memory| memory.write = Some(port));
    }

    /// The write port: the word at `address` becomes `data` where `enable` is 1.
    #[track_caller]
    pub fn write(&self, enable: Signal<'a>, address: Signal<'a>, data: Signal<'a>) {
        self.check("write enable", enable, 1);
        self.check("write address", address, self.address_width());
        self.check("write data", data, self.get().width);
        let memory = self.get();
        if memory.granule != memory.width {
            fail(
                Location::caller(),
                &format!("memory `{}` has strobes: use write_strobed", memory.name),
            );
        }
        self.write_port(WritePort {
            enable: enable.id,
            address: address.id,
            data: data.id,
            strobe: None,
        });
    }

    /// The write port with a strobe for each granule, the least significant granule at bit 0.
    #[track_caller]
    pub fn write_strobed(&self, enable: Signal<'a>, address: Signal<'a>, data: Signal<'a>, strobe: Signal<'a>) {
        let memory = self.get();
        self.check("write enable", enable, 1);
        self.check("write address", address, self.address_width());
        self.check("write data", data, memory.width);
        self.check("write strobe", strobe, memory.width / memory.granule);
        self.write_port(WritePort {
            enable: enable.id,
            address: address.id,
            data: data.id,
            strobe: Some(strobe.id),
        });
    }

    #[track_caller]
    fn read_port(&self, enable: Option<Signal<'a>>, address: Signal<'a>) -> Signal<'a> {
        let place = Location::caller();
        let memory = self.get();
        self.check("read address", address, self.address_width());
        if memory.read.is_some() {
            fail(place, &format!("memory `{}` has its read port already", memory.name));
        }
        let name = self.module.data_mut().free_name(&format!("{}_read_data", memory.name));
        let id = self
            .module
            .push(Kind::MemoryRead { memory: self.index }, memory.width, Some(name), place);
        let enable = enable.map(|signal| signal.id);
        self.change(|memory| {
            memory.read = Some(ReadPort {
                enable,
                address: address.id,
                data: id,
            });
        });
        Signal {
            module: self.module,
            id,
        }
    }

    /// The read port: one clock after `enable` the data are those at `address`, and stay until the next read.
    #[track_caller]
    #[must_use]
    pub fn read(&self, enable: Signal<'a>, address: Signal<'a>) -> Signal<'a> {
        self.check("read enable", enable, 1);
        self.read_port(Some(enable), address)
    }

    /// The read port of a distributed memory, without a register: the data follow the address in the same cycle.
    ///
    /// # Panics
    /// When the memory is not distributed.
    #[track_caller]
    #[must_use]
    pub fn read_now(&self, address: Signal<'a>) -> Signal<'a> {
        let memory = self.get();
        if memory.style != MemoryStyle::Distributed {
            fail(
                Location::caller(),
                &format!(
                    "memory `{}`: only a distributed memory is read in the same cycle",
                    memory.name
                ),
            );
        }
        self.read_port(None, address)
    }
}
