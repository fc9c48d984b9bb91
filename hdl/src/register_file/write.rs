//! The write channels: address and data come in any order; a write happens in one clock when both are there and no response waits.

use spraynic_config::registers::{ADDRESS_BITS, REGISTER_BYTES, Register, Role};
use spraynic_rtl::{Module, Signal, cat_lsb_first};

use super::{INDEX_BITS, WORD_BITS, response};

/// A write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write<'a> {
    /// It happens in this clock.
    pub(super) executes: Signal<'a>,
    /// The register's place.
    index: Signal<'a>,
    /// Data of all four bytes.
    pub(super) data: Signal<'a>,
    /// Which of them are written.
    pub(super) strobe: Signal<'a>,
    response_valid: Signal<'a>,
}

/// Writes of a register, or of several.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowed<'a> {
    /// It is the register that is written.
    pub(super) hit: Signal<'a>,
    /// It may be written now.
    pub(super) allowed: Signal<'a>,
}

impl<'a> Write<'a> {
    /// The ports of AW and W, and what waits behind them.
    pub(super) fn port(m: Module<'a>) -> Self {
        m.input("s_axil_awprot", 3).ignore();
        let address_port = m
            .input("s_axil_awaddr", ADDRESS_BITS)
            .doc("byte address; bits 1:0 are not looked at");
        let address_valid = m.input("s_axil_awvalid", 1);
        let data_port = m.input("s_axil_wdata", WORD_BITS);
        let strobe_port = m.input("s_axil_wstrb", REGISTER_BYTES);
        let data_valid = m.input("s_axil_wvalid", 1);

        let has_address = m.reg("has_address", 1).reset(0).doc("the address of a write waits");
        let has_data = m.reg("has_data", 1).reset(0).doc("the data of a write wait");
        let index = m.reg("write_index", INDEX_BITS);
        let data = m.reg("write_data", WORD_BITS);
        let strobe = m.reg("write_strobe", REGISTER_BYTES);
        let response_valid = m.reg("b_valid", 1).reset(0);
        m.output_of("s_axil_awready", !has_address);
        m.output_of("s_axil_wready", !has_data);

        let executes = (has_address & has_data & !response_valid).named("executes_write");
        let low = ADDRESS_BITS - INDEX_BITS;
        address_port.part(0, low).ignore();
        m.when(executes, || {
            has_address.set_lit(0);
            has_data.set_lit(0);
        });
        m.when(address_valid & !has_address, || {
            has_address.set_lit(1);
            index.set(address_port.part(low, INDEX_BITS));
        });
        m.when(data_valid & !has_data, || {
            has_data.set_lit(1);
            data.set(data_port);
            strobe.set(strobe_port);
        });
        Self {
            executes,
            index,
            data,
            strobe,
            response_valid,
        }
    }

    /// Whether it is this register that is written.
    pub(super) fn hits(&self, register: &Register) -> Signal<'a> {
        let hit = self.index.eq_lit(register.offset / REGISTER_BYTES);
        hit.named(&format!("writes_{}", register.name))
    }

    /// The value of `current` after a write to it: bytes without a strobe stay.
    pub(super) fn merged(&self, current: Signal<'a>) -> Signal<'a> {
        let width = current.width();
        let bytes = (0..width).step_by(8).zip(0..).map(|(low, lane)| {
            let bits = (width - low).min(8);
            let strobe = self.strobe.bit(lane);
            strobe.mux(self.data.part(low, bits), current.part(low, bits))
        });
        cat_lsb_first(&bytes.collect::<Vec<_>>())
    }

    /// Gives the response; returns whether a write is refused in this clock.
    pub(super) fn respond(&self, m: Module<'a>, registers: &[Allowed<'a>]) -> Signal<'a> {
        let allowed = registers
            .iter()
            .fold(m.low(), |sum, one| sum | (one.hit & one.allowed))
            .named("write_allowed");
        let code = m.reg("b_response", 2);
        let ready = m.input("s_axil_bready", 1);
        m.when(self.executes, || {
            self.response_valid.set_lit(1);
            code.set(response(m, allowed));
        })
        .else_when(ready, || self.response_valid.set_lit(0));
        m.output_of("s_axil_bvalid", self.response_valid);
        let _ = m
            .output_of("s_axil_bresp", code)
            .doc("0 OKAY; 2 SLVERR: nothing was written");
        (self.executes & !allowed).named("refuses_write")
    }
}

/// A register that software writes, and its ports; returns its value.
pub(super) fn setting<'a>(m: Module<'a>, register: &Register, write: &Write<'a>, hit: Signal<'a>) -> Signal<'a> {
    let width = register.width();
    let value = m
        .reg(&format!("setting_{}", register.name), width)
        .reset(register.reset.unwrap_or(0));
    let writes = write.executes & hit;
    m.when(writes, || value.set(write.merged(value)));
    let _ = m.output_of(&register.name, value).doc(&register.doc);
    if register.role == Role::Load {
        let load = m.reg(&format!("loads_{}", register.name), 1).reset(0);
        let lanes = width.div_ceil(8);
        load.set(writes & write.strobe.part(0, lanes).any());
        let _ = m
            .output_of(&format!("{}_load", register.name), load)
            .doc("1 for a clock when it was written");
    }
    value
}
