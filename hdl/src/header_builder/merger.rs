//! Puts header and payload together: rotates the payload to where the header ends and chooses byte by byte.
//!
//! A beat is, from byte 0 up: header or what the last payload beat left over, payload, zeros. Where payload can begin at many places the
//! rotator takes two clocks, otherwise it stands before the output register. A frame without payload goes past a rotator that is empty.

use super::accept::Payload;
use super::geometry::{Geometry, pick};
use super::sequencer::Beat;
use spraynic_rtl::{AxiStream, Module, Signal, cat_lsb_first};

/// Rotates towards higher bytes.
fn rotate(data: Signal<'_>, bytes: u32) -> Signal<'_> {
    let by = bytes * 8 % data.width();
    if by == 0 {
        return data;
    }
    cat_lsb_first(&[data.part(data.width() - by, by), data.part(0, data.width() - by)])
}

/// Choices of bytes and ends of one beat, which follow it through the rotator.
#[derive(Clone, Copy)]
struct Marks<'a> {
    /// For each word, 2 bytes further: the bytes come from header or left-over payload. The first two bytes always do.
    low: Signal<'a>,
    /// For each byte: it is not padding or ICRC.
    data: Signal<'a>,
    /// For each word, 2 bytes further: the bytes belong to the frame. The first two always do.
    keep: Signal<'a>,
    last: Signal<'a>,
    user: Signal<'a>,
}

impl<'a> Marks<'a> {
    fn of(m: Module<'a>, geometry: &Geometry, beat: &Beat<'a>) -> Self {
        let words = geometry.beat_words();
        let places = geometry.places();
        let low = (0..words).map(|word| {
            // The last group has two bytes: payload begins there or before.
            let below: Vec<_> = places
                .iter()
                .map(|(position, code)| (*code, m.lit(*position > word, 1)))
                .collect();
            beat.all_header | pick(beat.place, &below)
        });
        let data =
            (0..geometry.beat_bytes).map(|byte| beat.full | (beat.partial & beat.data_end.gt(beat.data_end.lit(byte))));
        let keep = (0..words).map(|word| !beat.last | beat.last_words.gt(beat.last_words.lit(word)));
        Self {
            low: cat_lsb_first(&low.collect::<Vec<_>>()).named("beat_low"),
            data: cat_lsb_first(&data.collect::<Vec<_>>()).named("beat_data"),
            keep: cat_lsb_first(&keep.collect::<Vec<_>>()).named("beat_keep"),
            last: beat.last,
            user: beat.user,
        }
    }

    fn registered(&self, m: Module<'a>, prefix: &str, load: Signal<'a>) -> Self {
        let register = |name: &str, value: Signal<'a>| {
            let register = m.reg(&format!("{prefix}_{name}"), value.width());
            m.when(load, || register.set(value));
            register
        };
        Self {
            low: register("low", self.low),
            data: register("data", self.data),
            keep: register("keep", self.keep),
            last: register("last", self.last),
            user: register("user", self.user),
        }
    }
}

/// For each byte the bit of its group: the first two bytes, then 4 bytes a word, then two.
fn spread<'a>(first: Signal<'a>, groups: Signal<'a>, bits: u32) -> Signal<'a> {
    let last = groups.width() - 1;
    let mut parts = vec![first.repeat(2 * bits)];
    parts.extend((0..=last).map(|group| {
        let bytes = if group == last { 2 } else { 4 };
        groups.bit(group).repeat(bytes * bits)
    }));
    cat_lsb_first(&parts)
}

/// Low bytes from `low`, the others from `payload`, zeros behind the data.
fn choose<'a>(marks: &Marks<'a>, low: Signal<'a>, payload: Signal<'a>) -> Signal<'a> {
    let groups = marks.low.width();
    let mut parts = vec![low.part(0, 16)];
    for group in 0..groups {
        let width = if group == groups - 1 { 16 } else { 32 };
        let at = 16 + group * 32;
        parts.push(marks.low.bit(group).mux(low.part(at, width), payload.part(at, width)));
    }
    cat_lsb_first(&parts) & data_mask(marks)
}

/// Ones in the bytes that are not padding or ICRC.
fn data_mask<'a>(marks: &Marks<'a>) -> Signal<'a> {
    let bytes: Vec<_> = marks.data.to_bits().into_iter().map(|bit| bit.repeat(8)).collect();
    cat_lsb_first(&bytes)
}

/// Merges the beats of a sequencer into `output`. `enable` is a wire: beats are taken where it is 1.
pub(super) fn merger<'a>(
    m: Module<'a>,
    geometry: &Geometry,
    beat: &Beat<'a>,
    payload: Payload<'a>,
    output: AxiStream<'a>,
    enable: Signal<'a>,
) {
    let marks = Marks::of(m, geometry, beat);
    let out_valid = m.reg("out_valid", 1).reset(0);
    let (data, marks, valid) = if let [step] = &geometry.steps()[..] {
        let rotated = step
            .choose(beat.place, |words| rotate(payload.data, words * 4 + 2))
            .named("rotated");
        let left = left_over(m, geometry, rotated, beat.valid);
        let low = beat.from_header.mux(beat.header, left).named("low_bytes");
        (choose(&marks, low, rotated), marks, beat.valid)
    } else {
        two_steps(m, geometry, beat, &marks, payload, enable)
    };

    enable.set(!out_valid | output.ready);
    let out_data = m.reg("out_data", geometry.beat_bits());
    let marks = marks.registered_out(m, enable);
    m.when(enable, || {
        out_data.set(data);
        out_valid.set(valid);
    });
    output.data.set(out_data);
    output.keep.set(spread(m.high(), marks.keep, 1));
    output.last.set(marks.last);
    output.user.set(marks.user);
    output.valid.set(out_valid);
}

impl<'a> Marks<'a> {
    /// `other` where `choose_other` is 1.
    fn or(&self, choose_other: Signal<'a>, other: &Self) -> Self {
        let either = |own: Signal<'a>, other: Signal<'a>| choose_other.mux(other, own);
        Self {
            low: either(self.low, other.low),
            data: either(self.data, other.data),
            keep: either(self.keep, other.keep),
            last: either(self.last, other.last),
            user: either(self.user, other.user),
        }
    }

    /// The marks that leave with the data.
    fn registered_out(&self, m: Module<'a>, load: Signal<'a>) -> Self {
        let register = |name: &str, value: Signal<'a>| {
            let register = m.reg(name, value.width());
            m.when(load, || register.set(value));
            register
        };
        Self {
            keep: register("out_keep", self.keep),
            last: register("out_last", self.last),
            user: register("out_user", self.user),
            ..*self
        }
    }
}

/// What a payload beat leaves for the next one: as many bytes as a header can take of a beat.
fn left_over<'a>(m: Module<'a>, geometry: &Geometry, rotated: Signal<'a>, load: Signal<'a>) -> Signal<'a> {
    let most = geometry.positions().last().map_or(2, |position| position * 4 + 2);
    let left = m
        .reg("left_over", most * 8)
        .doc("payload that the last beat had no room for");
    m.when(load, || left.set(rotated.part(0, most * 8)));
    left.zero_extend(geometry.beat_bits())
}

/// Rotates by groups of four words, then by single words, a register behind each.
fn two_steps<'a>(
    m: Module<'a>,
    geometry: &Geometry,
    beat: &Beat<'a>,
    beat_marks: &Marks<'a>,
    payload: Payload<'a>,
    enable: Signal<'a>,
) -> (Signal<'a>, Marks<'a>, Signal<'a>) {
    let [coarse, fine] = &geometry.steps()[..] else {
        unreachable!("called where there are two steps")
    };
    let register = |name: &str, load: Signal<'a>, value: Signal<'a>| {
        let register = m.reg(name, value.width());
        m.when(load, || register.set(value));
        register
    };
    let valid_register = |name: &str, valid: Signal<'a>| {
        let register = m.reg(name, 1).reset(0);
        m.when(enable, || register.set(valid));
        register
    };
    // Nothing of a frame without payload is rotated. While the steps are empty its beats go straight to the output: those of one frame
    // all do or none does, because they follow each other and what goes straight leaves the steps empty.
    let (step_1_holds, step_2_holds) = (m.wire("step_1_holds", 1), m.wire("step_2_holds", 1));
    let direct = (beat.prompt & !step_1_holds & !step_2_holds).named("goes_direct");
    let step_1_valid = valid_register("step_1_valid", beat.valid & !direct);
    let rotated = coarse.choose(beat.place, |words| rotate(payload.data, words * 4 + 2));
    let step_1 = register("step_1_payload", enable, rotated);
    let header = register("step_1_header", enable, beat.header);
    let from_header = register("step_1_from_header", enable, beat.from_header);
    let place = fine
        .field(beat.place)
        .map_or(beat.place.lit(0), |field| register("step_1_place", enable, field));
    let marks = beat_marks.registered(m, "step_1", enable);

    // A gap between the beats of a frame leaves what the next beat needs.
    let load = enable & step_1_valid;
    let step_2_valid = valid_register("step_2_valid", step_1_valid);
    let step_2 = register(
        "step_2_payload",
        load,
        fine.choose(place, |words| rotate(step_1, words * 4)),
    );
    let low = register("step_2_low", load, from_header.mux(header, step_2));
    let step_2_marks = marks.registered(m, "step_2", load);
    step_1_holds.set(step_1_valid);
    step_2_holds.set(step_2_valid);
    let header_alone = beat.header & data_mask(beat_marks);
    (
        direct.mux(header_alone, choose(&step_2_marks, low, step_2)),
        step_2_marks.or(direct, beat_marks),
        step_2_valid | (beat.valid & direct),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use spraynic_config::{NicConfig, Preset};
    use spraynic_rtl::{Bits, Context, Evaluator};

    /// Both steps together bring byte 0 to where the header ends, for each place, at every width.
    #[test]
    fn the_steps_rotate_to_every_position() {
        for preset in Preset::ALL {
            let geometry = Geometry::new(&NicConfig::preset(*preset));
            let context = Context::new();
            let m = context.module("probe");
            let data = m.input("data", geometry.beat_bits());
            let place = m.input("place", geometry.place_bits().max(1));
            let mut rotated = rotate(data, 2);
            for step in geometry.steps() {
                rotated = step.choose(place, |words| rotate(rotated, words * 4));
            }
            m.output_of("rotated", rotated);
            let mut run = Evaluator::new(m.finish());
            let bytes: Vec<u8> = (0..geometry.beat_bytes as u8).collect();
            run.set("data", Bits::from_bytes(geometry.beat_bits(), &bytes));
            for (position, code) in geometry.places() {
                run.set("place", code);
                let mut expected = bytes.clone();
                expected.rotate_right((position * 4 + 2) as usize);
                assert_eq!(
                    run.get("rotated").to_bytes(),
                    expected,
                    "{preset:?}, position {position}"
                );
            }
        }
    }
}
