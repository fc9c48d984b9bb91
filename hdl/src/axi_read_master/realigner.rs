//! Brings payload to byte 0: rotates each beat in two steps and puts the next beat's first bytes above it. It takes a beat a clock.
//!
//! A beat waits for the one behind it, but for the last of a packet that needs none: that one leaves in the clock in which the next packet's
//! first beat comes, so that no clock is lost between packets.

use spraynic_rtl::{AxiStream, Module, Signal, cat_lsb_first};

use super::Beats;

/// Bits of the offset that the second step rotates by: within 8 bytes.
const FINE_BITS: u32 = 3;

/// Rotates towards lower bytes.
fn rotate(data: Signal<'_>, bytes: u32) -> Signal<'_> {
    let by = bytes * 8;
    if by == 0 {
        return data;
    }
    cat_lsb_first(&[data.part(by, data.width() - by), data.part(0, by)])
}

/// Rotates by `unit` times as many bytes as `by` says.
fn rotate_by<'a>(data: Signal<'a>, by: Signal<'a>, unit: u32) -> Signal<'a> {
    let choices: Vec<_> = (0..1 << by.width()).map(|count| rotate(data, count * unit)).collect();
    by.select(&choices)
}

/// What goes through the rotator with the data.
#[derive(Debug, Clone, Copy)]
struct Marks<'a> {
    end: Signal<'a>,
    tail: Signal<'a>,
    first: Signal<'a>,
    last: Signal<'a>,
    error: Signal<'a>,
}

impl<'a> Marks<'a> {
    fn registered(&self, m: Module<'a>, step: &str, enable: Signal<'a>) -> Self {
        let register = |name: &str, value: Signal<'a>| {
            let register = m.reg(&format!("{step}_{name}"), value.width());
            m.when(enable, || register.set(value));
            register
        };
        Self {
            end: register("end", self.end),
            tail: register("tail", self.tail),
            first: register("first", self.first),
            last: register("last", self.last),
            error: register("error", self.error),
        }
    }
}

/// Drives `output`; returns whether a beat can be taken.
pub(super) fn realigner<'a>(m: Module<'a>, width: u32, beats: &Beats<'a>, output: AxiStream<'a>) -> Signal<'a> {
    let bytes = width / 8;
    let bits = bytes.trailing_zeros();
    // All steps move together.
    let out_valid = m.reg("out_valid", 1).reset(0);
    let enable = (!out_valid | output.ready).named("enable");
    let clocked = |name: &str, value: Signal<'a>| {
        let register = m.reg(name, value.width());
        m.when(enable, || register.set(value));
        register
    };
    let valid_register = |name: &str, value: Signal<'a>| {
        let register = m.reg(name, 1).reset(0);
        m.when(enable, || register.set(value));
        register
    };

    // Step 1: by multiples of 8 bytes.
    let order = &beats.order;
    let coarse = if bits > FINE_BITS {
        let by = order.offset.part(FINE_BITS, bits - FINE_BITS);
        rotate_by(beats.data, by, 1 << FINE_BITS)
    } else {
        beats.data
    };
    let data_1 = clocked("step_1_data", coarse);
    let valid_1 = valid_register("step_1_valid", beats.valid);
    let offset_1 = clocked("step_1_offset", order.offset);
    let marks_1 = Marks {
        end: order.end,
        tail: order.tail,
        first: beats.first,
        last: beats.last,
        error: beats.error,
    }
    .registered(m, "step_1", enable);

    // Step 2: by single bytes; which bytes come from the beat behind.
    let data_2 = clocked(
        "step_2_data",
        rotate_by(data_1, offset_1.part(0, bits.min(FINE_BITS)), 1),
    );
    let from_next: Vec<_> = (0..bytes)
        .map(|byte| {
            // Byte `byte` of the packet's beat has the place `byte + offset`: in the beat behind where that is beyond the bus.
            match bytes - byte {
                room if room == bytes => m.low(),
                room => offset_1.ge(offset_1.lit(room)),
            }
        })
        .collect();
    let from_next_2 = clocked("step_2_from_next", cat_lsb_first(&from_next));
    let valid_2 = valid_register("step_2_valid", valid_1);
    let marks_2 = marks_1.registered(m, "step_2", enable);

    // The beat that waits for what comes behind it.
    let held = m.reg("held_data", width).doc("a rotated beat that has not left");
    let held_from_next = m
        .reg("held_from_next", bytes)
        .doc("which of its bytes come from the beat behind");
    let held_end = m.reg("held_end", bits).doc("byte at which its packet ends");
    let held_error = m.reg("held_error", 1).doc("memory refused a part of its packet so far");
    let pending = m
        .reg("tail_waits", 1)
        .reset(0)
        .doc("it is the last of its packet and needs nothing behind it");
    let error = (marks_2.error | (held_error & !marks_2.first)).named("error_so_far");
    m.when(enable, || pending.set(valid_2 & marks_2.last & marks_2.tail));
    m.when(enable & valid_2, || {
        held.set(data_2);
        held_from_next.set(from_next_2);
        held_end.set(marks_2.end);
        held_error.set(error);
    });

    let joins = (valid_2 & !marks_2.first).named("joins_next");
    let gives = (pending | joins).named("gives_beat");
    let ends = (pending | (marks_2.last & !marks_2.tail)).named("gives_last");
    let bad = pending.mux(held_error, error);
    m.assert("a_tail_is_followed_by_another_packet", !(pending & joins));
    let chosen: Vec<_> = (0..bytes)
        .map(|byte| {
            let at = byte * 8;
            held_from_next.bit(byte).mux(data_2.part(at, 8), held.part(at, 8))
        })
        .collect();
    output.data.set(clocked("out_data", cat_lsb_first(&chosen)));
    let last = clocked("out_last", ends);
    let refused = clocked("out_refused", ends & bad);
    // A byte too many, or where the beat is full one too few: who knows the length sees that the packet is bad.
    let full = held_end.all();
    let wrong = full.mux(held_end - held_end.lit(1), held_end + held_end.lit(1));
    let end = clocked("out_end", bad.mux(wrong, held_end));
    m.when(enable, || out_valid.set(gives));
    let keep: Vec<_> = (0..bytes).map(|byte| !last | end.ge(end.lit(byte))).collect();
    output.keep.set(cat_lsb_first(&keep));
    output.last.set(last);
    output.user.set(refused);
    output.valid.set(out_valid);
    enable
}
