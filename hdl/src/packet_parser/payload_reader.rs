//! Gives payload, moved to byte 0, and the frames of the host; passes over the rest.
//!
//! A payload beat is made of two beats of the frame (it never begins at byte 0 there): the first waits, rotated, for the second or for
//! the end of the frame. The last payload beat waits in the output register until the frame has ended.

use super::judge::Place;
use super::lanes::{at_least, keep_up_to};
use super::queue::Queue;
use super::{Beat, PacketParser};
use crate::skid_buffer;
use spraynic_rtl::{AxiStream, Module, Signal, Stream, cat_lsb_first};

/// What it reads.
#[derive(Clone, Copy)]
pub(super) struct Sources<'a> {
    /// Beats of all frames.
    pub(super) beats: Queue<'a>,
    /// For each frame, when its route is decided, whether it is the host's.
    pub(super) slow_path: Queue<'a>,
    /// A [`Place`] for each frame, one clock after its route.
    pub(super) places: Queue<'a>,
    /// For each frame, when it has ended, whether it is dropped.
    pub(super) ends: Queue<'a>,
}

/// A beat of a frame with payload, on its way through the rotator.
#[derive(Clone, Copy)]
struct Step<'a> {
    valid: Signal<'a>,
    /// Words to rotate by.
    words: Signal<'a>,
    data: Signal<'a>,
    /// A payload beat begins in it.
    payload: Signal<'a>,
    /// That payload beat is the last one.
    payload_last: Signal<'a>,
    /// Last byte of that payload beat.
    lane: Signal<'a>,
    /// The frame ends with it.
    last: Signal<'a>,
    /// The frame is dropped, where `last` is 1.
    dropped: Signal<'a>,
}

impl<'a> Step<'a> {
    fn map(&self, mut with: impl FnMut(&str, Signal<'a>) -> Signal<'a>) -> Self {
        Self {
            valid: self.valid,
            words: with("words", self.words),
            data: with("data", self.data),
            payload: with("payload", self.payload),
            payload_last: with("payload_last", self.payload_last),
            lane: with("lane", self.lane),
            last: with("last", self.last),
            dropped: with("dropped", self.dropped),
        }
    }

    /// The same behind a skid buffer, and whether that takes it: a register, so that what stops the payload does not reach as far as
    /// the queues in the same clock. `free`: the other end takes it.
    fn skid(&self, m: Module<'a>, name: &str, free: Signal<'a>) -> (Self, Signal<'a>) {
        let mut fields = vec![];
        let _ = self.map(|_, value| {
            fields.push(value);
            value
        });
        let fields = cat_lsb_first(&fields);
        let stream = Stream::wires(m, "entering", fields.width());
        stream.data.set(fields);
        stream.valid.set(self.valid);
        let out = skid_buffer::register(m, name, stream);
        out.ready.set(free);
        let mut low = 0;
        let unpacked = self.map(|_, value| {
            low += value.width();
            out.data.part(low - value.width(), value.width())
        });
        let behind = Self {
            valid: out.valid,
            ..unpacked
        };
        (behind, stream.ready)
    }

    /// The same in registers, valid from the clock after `self.valid & load` on until the next `load`.
    fn registered(&self, m: Module<'a>, prefix: &str, load: Signal<'a>) -> Self {
        let valid = m.reg(&format!("{prefix}_valid"), 1).reset(0);
        m.when(load, || valid.set(self.valid));
        let fields = self.map(|name, value| {
            let register = m.reg(&format!("{prefix}_{name}"), value.width());
            m.when(load, || register.set(value));
            register
        });
        Self { valid, ..fields }
    }
}

/// Towards byte 0.
fn rotate(data: Signal<'_>, bytes: u32) -> Signal<'_> {
    match bytes * 8 % data.width() {
        0 => data,
        by => cat_lsb_first(&[data.part(by, data.width() - by), data.part(0, by)]),
    }
}

/// Rotates by groups of four words.
fn rotate_coarse<'a>(data: Signal<'a>, words: Signal<'a>) -> Signal<'a> {
    if words.width() <= 2 {
        return data;
    }
    let groups = words.part(2, words.width() - 2);
    let choices: Vec<_> = (0..1 << groups.width()).map(|group| rotate(data, group * 16)).collect();
    groups.select(&choices)
}

/// Rotates by the words that are left, and the two bytes that every header ends behind a multiple of four.
fn rotate_fine<'a>(data: Signal<'a>, words: Signal<'a>) -> Signal<'a> {
    let fine = words.part(0, words.width().min(2));
    let choices: Vec<_> = (0..1 << fine.width()).map(|word| rotate(data, word * 4 + 2)).collect();
    fine.select(&choices)
}

/// Both steps at once.
#[cfg(test)]
pub(super) fn rotated<'a>(data: Signal<'a>, words: Signal<'a>) -> Signal<'a> {
    rotate_fine(rotate_coarse(data, words), words)
}

/// A payload beat: as many bytes of `first` as it has from the beginning of the payload on, then those of `second`.
pub(super) fn merge<'a>(words: Signal<'a>, first: Signal<'a>, second: Signal<'a>) -> Signal<'a> {
    let count = first.width() / 32;
    // Rotated by 4 * words + 2 bytes, the first has all but so many at the bottom.
    let mut parts = vec![first.part(0, 16)];
    for word in 1..count {
        let from_first = !at_least(words, count - word);
        let low = 32 * word - 16;
        parts.push(from_first.mux(first.part(low, 32), second.part(low, 32)));
    }
    parts.push(second.part(32 * count - 16, 16));
    cat_lsb_first(&parts)
}

/// Returns the bit that says that a beat leaves the queue.
pub(super) fn payload_reader<'a>(
    m: Module<'a>,
    parser: &PacketParser,
    from: Sources<'a>,
    payload: AxiStream<'a>,
    slow_path: AxiStream<'a>,
) -> Signal<'a> {
    let beat = Beat::unpack(from.beats.head, parser);
    let place = Place::unpack(from.places.head);
    let dropped = from.ends.head;
    let known = from.beats.valid & from.slow_path.valid & from.places.valid & (!beat.last | from.ends.valid);

    // Where the frame has payload: counts up to the beat in which it begins, then the payload's own beats.
    let word_bits = parser.lane_bits() - 2;
    let words = place.word.part(0, word_bits.min(place.word.width())).resize(word_bits);
    let begin = match place.word.width().saturating_sub(word_bits) {
        0 => m.lit(0, 1),
        bits => place.word.part(word_bits, bits),
    };
    let lane_bits = parser.lane_bits();
    let beats_less_1 = place
        .length_less_1
        .part(lane_bits, place.length_less_1.width() - lane_bits);
    let before = m
        .reg("beats_before_payload", begin.width())
        .reset(0)
        .doc("beats of the frame that have passed; stays where payload begins");
    let given = m
        .reg("payload_beats_given", beats_less_1.width() + 1)
        .reset(0)
        .doc("payload beats of the frame that have begun; one more than the last: all");
    let begun = before.eq(begin);
    let in_payload = (begun & given.le(beats_less_1.zero_extend(given.width()))).named("in_payload");
    let is_last = given.eq(beats_less_1.zero_extend(given.width()));
    let tail = place.length_less_1.part(0, lane_bits);

    let slow_valid = m.reg("slow_path_valid", 1).reset(0);
    let slow_free = (!slow_valid | slow_path.ready).named("slow_path_free");
    let rotator_free = m.wire("rotator_free", 1);
    let takes = place.any & (begun | beat.last);
    let to_host = from.slow_path.head;
    let free = to_host.mux(slow_free, !takes | rotator_free);
    let pop = (known & free).named("payload_pops");
    from.beats.pop.set(pop);
    from.slow_path.pop.set(pop & beat.last);
    from.places.pop.set(pop & beat.last);
    from.ends.pop.set(pop & beat.last);
    m.when(pop, || {
        m.when(beat.last, || {
            before.set_lit(0);
            given.set_lit(0);
        })
        .otherwise(|| {
            m.when(!begun, || before.set(before + before.lit(1)));
            m.when(in_payload, || given.set(given + given.lit(1)));
        });
    });

    // The host's.
    let slow = |name: &str, width| m.reg(&format!("slow_path_{name}"), width);
    let (data, keep, last, bad) = (
        slow("data", parser.data_width),
        slow("keep", parser.beat_bytes()),
        slow("last", 1),
        slow("bad", 1),
    );
    m.when(slow_free, || {
        slow_valid.set(known & to_host);
        data.set(beat.data);
        keep.set(keep_up_to(beat.lane, parser.beat_bytes()));
        last.set(beat.last);
        bad.set(beat.last & dropped);
    });
    slow_path.data.set(data);
    slow_path.keep.set(keep);
    slow_path.last.set(last);
    slow_path.user.set(bad);
    slow_path.valid.set(slow_valid);

    // The rotator.
    let waits = m.wire("second_beat_free", 1);
    let entering = Step {
        valid: known & !to_host & takes,
        words,
        data: rotate_coarse(beat.data, words),
        payload: in_payload,
        // What ends with the frame has lost its rest: it is dropped.
        payload_last: is_last | beat.last,
        lane: is_last.mux(tail, tail.lit((1u32 << lane_bits) - 1)),
        last: beat.last,
        dropped: beat.last & dropped,
    };
    let (second, takes_next) = entering.skid(m, "u_second", waits);
    rotator_free.set(takes_next);
    let rotated = rotate_fine(second.data, second.words).named("rotated");
    let first = Step {
        data: rotated,
        ..second
    }
    .registered(m, "first", waits);

    let out_valid = m.reg("payload_valid", 1).reset(0);
    let out_waits = m
        .reg("payload_waits", 1)
        .reset(0)
        .doc("the output register holds a last beat, and the frame has not ended");
    let out_dropped = m.reg("payload_dropped", 1);
    let out = |name: &str, width| m.reg(&format!("payload_{name}"), width);
    let (data, keep, last) = (
        out("data", parser.data_width),
        out("keep", parser.beat_bytes()),
        out("last", 1),
    );
    let out_free = (!out_waits & (!out_valid | payload.ready)).named("payload_out_free");
    let complete = first.last | second.valid;
    let leaves = (first.valid & (!first.payload | (complete & out_free))).named("first_leaves");
    waits.set(!first.valid | leaves);
    // The frame has ended with this beat or with the one behind it.
    let ended = first.last | second.last;
    m.when(leaves & first.payload, || {
        data.set(merge(first.words, first.data, rotated));
        keep.set(keep_up_to(first.lane, parser.beat_bytes()));
        last.set(first.payload_last);
        out_dropped.set(first.payload_last & first.last.mux(first.dropped, second.last & second.dropped));
        out_valid.set(!first.payload_last | ended);
        out_waits.set(first.payload_last & !ended);
    })
    .else_when(leaves & first.last & out_waits, || {
        out_dropped.set(first.dropped);
        out_valid.set_lit(1);
        out_waits.set_lit(0);
    })
    .else_when(payload.ready, || out_valid.set_lit(0));
    m.assert("payload_that_waits_is_not_valid", !(out_waits & out_valid));

    payload.data.set(data);
    payload.keep.set(keep);
    payload.last.set(last);
    payload.user.set(out_dropped);
    payload.valid.set(out_valid);
    pop
}
