//! Brings payload to where its address stands in a beat: rotates it in two steps, puts what the last beat had no room for below, and marks the
//! bytes to write. A beat a clock; a packet takes one beat more out than in only where its bytes span one more.

use spraynic_rtl::{AxiStream, Module, Signal, cat_lsb_first};

use crate::fields::Fields;
use crate::write_data::WriteData;

/// Bits of the offset that the second step rotates by: within 8 bytes.
const FINE_BITS: u32 = 3;

/// Where the bytes of a packet lie in the beats.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    /// A payload packet comes with it.
    pub(super) has_payload: Signal<'a>,
    /// Byte of the first beat in which the first byte goes.
    offset: Signal<'a>,
    /// Byte of the last beat in which the last byte goes.
    end: Signal<'a>,
    /// The bytes span one beat more than they came in.
    spills: Signal<'a>,
}

impl<'a> Place<'a> {
    pub(super) fn of(m: Module<'a>, width: u32, packet: &Fields<'a>) -> Self {
        let bits = (width / 8).trailing_zeros();
        let length = packet.get("length");
        let offset = packet.get("address").part(0, bits);
        let last = length.part(0, bits) - m.lit(1, bits);
        let end = offset.add_wide(last).named("end_of_packet");
        Self {
            has_payload: length.any(),
            offset,
            end: end.part(0, bits),
            spills: end.msb(),
        }
    }

    pub(super) fn registered(&self, m: Module<'a>, load: Signal<'a>) -> Self {
        let register = |name: &str, value: Signal<'a>| {
            let register = m.reg(name, value.width());
            m.when(load, || register.set(value));
            register
        };
        Self {
            has_payload: register("has_payload", self.has_payload)
                .doc("a payload packet comes with the packet at hand"),
            offset: register("first_byte", self.offset).doc("byte of the first beat in which its first byte goes"),
            end: register("last_byte", self.end).doc("byte of the last beat in which its last byte goes"),
            spills: register("spills", self.spills).doc("its bytes span one beat more than they come in"),
        }
    }
}

/// What the aligner is told of the packet at hand.
pub(super) struct Control<'a> {
    /// There is one, and it has payload.
    pub(super) active: Signal<'a>,
    /// Its payload is not written.
    pub(super) discard: Signal<'a>,
    /// Its first beat may be taken.
    pub(super) may_begin: Signal<'a>,
    /// Where its bytes go.
    pub(super) place: Place<'a>,
}

/// What happens in a clock to the packet at hand.
pub(super) struct Steps<'a> {
    /// Its first beat is taken.
    pub(super) begins: Signal<'a>,
    /// All of it has been taken and passed on.
    pub(super) ends: Signal<'a>,
}

/// Rotates towards higher bytes.
fn rotate(data: Signal<'_>, bytes: u32) -> Signal<'_> {
    let by = bytes * 8;
    if by == 0 {
        return data;
    }
    cat_lsb_first(&[data.part(data.width() - by, by), data.part(0, data.width() - by)])
}

/// Rotates by `unit` times as many bytes as `by` says.
fn rotate_by<'a>(data: Signal<'a>, by: Signal<'a>, unit: u32) -> Signal<'a> {
    let choices: Vec<_> = (0..1 << by.width()).map(|count| rotate(data, count * unit)).collect();
    by.select(&choices)
}

/// Drives `payload.ready` and `output`.
pub(super) fn aligner<'a>(
    m: Module<'a>,
    width: u32,
    control: &Control<'a>,
    payload: AxiStream<'a>,
    output: WriteData<'a>,
) -> Steps<'a> {
    let bytes = width / 8;
    let bits = bytes.trailing_zeros();
    let place = control.place;
    let first = m.reg("first", 1).reset(1).doc("the next beat is the packet's first");
    let spilling = m
        .reg("spilling", 1)
        .reset(0)
        .doc("what the last beat left over goes out alone");

    // Output register and rotator move together.
    let out_valid = m.reg("out_valid", 1).reset(0);
    let enable = (!out_valid | output.ready).named("enable");
    payload
        .ready
        .set(control.active & !spilling & enable & (!first | control.may_begin));
    let takes = payload.fires().named("takes_beat");
    let spills = (spilling & enable).named("spills_now");
    let spill_follows = (place.spills & !control.discard).named("spill_follows");
    m.when(takes, || {
        first.set(payload.last);
        spilling.set(payload.last & spill_follows);
    });
    m.when(spills, || spilling.set_lit(0));

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
    let coarse = if bits > FINE_BITS {
        rotate_by(
            payload.data,
            place.offset.part(FINE_BITS, bits - FINE_BITS),
            1 << FINE_BITS,
        )
    } else {
        payload.data
    };
    let step_1 = clocked("step_1_data", coarse);
    let offset_1 = clocked("step_1_offset", place.offset);
    let end_1 = clocked("step_1_end", place.end);
    let first_1 = clocked("step_1_first", first & !spilling);
    let last_1 = clocked("step_1_last", spilling | (payload.last & !spill_follows));
    let valid_1 = valid_register("step_1_valid", spills | (takes & !control.discard));

    // Step 2: by single bytes; which bytes come from the beat before, and which are written.
    let fine_bits = bits.min(FINE_BITS);
    let rotated = rotate_by(step_1, offset_1.part(0, fine_bits), 1);
    let step_2 = clocked("step_2_data", rotated);
    let below: Vec<_> = (0..bytes).map(|byte| offset_1.gt(offset_1.lit(byte))).collect();
    let below = cat_lsb_first(&below).named("below_offset");
    let within: Vec<_> = (0..bytes).map(|byte| !last_1 | end_1.ge(end_1.lit(byte))).collect();
    let within = cat_lsb_first(&within);
    let from_before = clocked("step_2_from_before", below);
    let strobe_2 = clocked("step_2_strobe", within & !(below & first_1.repeat(bytes)));
    let last_2 = clocked("step_2_last", last_1);
    let valid_2 = valid_register("step_2_valid", valid_1);

    // Output: a gap between the beats of a packet leaves what the next beat needs.
    let before = m
        .reg("left_over", width)
        .doc("the last beat, rotated: what it had no room for goes below");
    m.when(enable & valid_2, || before.set(step_2));
    let chosen: Vec<_> = (0..bytes)
        .map(|byte| {
            let at = byte * 8;
            from_before.bit(byte).mux(before.part(at, 8), step_2.part(at, 8))
        })
        .collect();
    output.data.set(clocked("out_data", cat_lsb_first(&chosen)));
    output.strobe.set(clocked("out_strobe", strobe_2));
    output.last.set(clocked("out_last", last_2));
    m.when(enable, || out_valid.set(valid_2));
    output.valid.set(out_valid);

    Steps {
        begins: takes & first,
        ends: spills | (takes & payload.last & !spill_follows),
    }
}
