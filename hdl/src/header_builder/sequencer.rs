//! One frame at a time, one beat a clock: says what each beat is made of and takes payload for it.
//!
//! It holds the header of the frame, shifts it out beat by beat, counts the payload and finds out whether it is as long as announced. It
//! does not move payload bytes: `merger` does.

use super::accept::{Payload, Stage};
use super::fields;
use super::geometry::{Geometry, pick};
use super::ipv4::{Ipv4, with_checksum};
use crate::counter::{Counter, count_when};
use spraynic_rtl::{Module, Signal, cat, cat_lsb_first};

/// What one beat of a frame is made of.
#[derive(Clone, Copy)]
pub(super) struct Beat<'a> {
    /// The beat exists (in this clock, if the merger can take it).
    pub(super) valid: Signal<'a>,
    /// The next beat of the header, byte 0 in bits 7:0.
    pub(super) header: Signal<'a>,
    /// Bytes below the payload's are those of the header, otherwise those that the last beat of payload left.
    pub(super) from_header: Signal<'a>,
    /// All bytes come from the header.
    pub(super) all_header: Signal<'a>,
    /// Code of the place where payload begins: see [`Geometry::places`].
    pub(super) place: Signal<'a>,
    /// Every byte is header or payload: none is padding or ICRC.
    pub(super) full: Signal<'a>,
    /// Only the bytes below `data_end` are header or payload, the others zero. Neither: all are zero.
    pub(super) partial: Signal<'a>,
    /// See `partial`.
    pub(super) data_end: Signal<'a>,
    /// The last beat.
    pub(super) last: Signal<'a>,
    /// Words of the last beat, less 2 bytes.
    pub(super) last_words: Signal<'a>,
    /// `tuser`: bad, IPv6, VLAN.
    pub(super) user: Signal<'a>,
}

/// Ports that the sequencer reads beside the streams.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) time_ns: Signal<'a>,
    pub(super) identification_load: Signal<'a>,
    pub(super) identification: Signal<'a>,
}

/// Sequences the frames of `stage`; `enable` is 1 where the merger takes a beat.
pub(super) fn sequencer<'a>(
    m: Module<'a>,
    geometry: &Geometry,
    stage: &Stage<'a>,
    payload: Payload<'a>,
    inputs: Inputs<'a>,
    enable: Signal<'a>,
) -> Beat<'a> {
    let (taken, template) = (&stage.taken, &stage.template);
    let (byte_bits, word_bits) = (geometry.byte_bits(), geometry.word_bits());
    let beat = geometry.beat_bits();
    let register = |name: &str, text: &str, load: Signal<'a>, value: Signal<'a>| {
        let register = m.reg(name, value.width()).doc(text);
        m.when(load, || register.set(value));
        register
    };

    // The frame that is being sent.
    let valid = m.reg("frame_valid", 1).reset(0).doc("a frame, or one to drop, is here");
    let leaves = m.wire("frame_leaves", 1);
    let free = !valid | leaves;
    stage.moves.set(stage.valid & free);
    let load = (stage.valid & free).named("frame_loads");
    m.when(free, || valid.set(stage.valid));

    let no_template = taken.unknown_qpn | !template.valid;
    let drop_template = register("drop_template", "it is dropped: no template", load, no_template);
    let drop_descriptor = register(
        "drop_descriptor",
        "it is dropped: lengths that were not generated",
        load,
        !no_template & taken.refused,
    );
    let drop = drop_template | drop_descriptor;
    let is_control = match taken.control.constant() {
        Some(_) => taken.control,
        None => register("frame_control", "control frame", load, taken.control),
    };
    let flag = |name: &str, value: Signal<'a>| match value.constant() {
        Some(_) => value,
        None => register(name, "", load, value),
    };
    let (ipv6, vlan) = (flag("frame_ipv6", template.ipv6), flag("frame_vlan", template.vlan));

    // Lengths.
    let lengths = fields::lengths(geometry, taken, template);
    let position = lengths.header_words.part(0, word_bits);
    let last_words = lengths.frame_words.part(0, word_bits);
    let length = taken.payload_length;
    let in_beat = |bytes: Signal<'a>| bytes.part(0, byte_bits);
    let payload_end = in_beat(length.zero_extend(byte_bits.max(13)));
    let data_end = payload_end + in_beat(cat(&[position, m.lit(2, 2)]));
    let pad_is_3 = lengths.pad.all();
    let tail_alone = !last_words.any() | last_words.eq_lit(1) & pad_is_3;
    let beats = lengths.frame_words.slice(11, word_bits);
    let payload_sum = length.zero_extend(14) + m.lit(geometry.beat_bytes - 1, 14);
    let payload_beats = payload_sum.slice(13, byte_bits);

    let codes: Vec<_> = (geometry.places().into_iter())
        .map(|(position, code)| (position, m.lit(code, geometry.place_bits().max(1))))
        .collect();
    let place = match codes[..] {
        [(_, single)] => single,
        _ => register(
            "payload_place",
            "where payload begins, as a code",
            load,
            pick(position, &codes),
        ),
    };
    let last_words = register("last_words", "words of the last beat, less 2 bytes", load, last_words);
    let data_end = register(
        "data_end",
        "bytes of header and payload in the beat in which they end",
        load,
        data_end,
    );
    let tail_alone = register(
        "tail_alone",
        "the last beat has only padding and ICRC",
        load,
        tail_alone,
    );
    let has_payload = register("frame_has_payload", "there is payload", load, taken.has_payload);
    let expected = register(
        "expected_last_byte",
        "number of the last byte of the last payload beat",
        load,
        payload_end - payload_end.lit(1),
    );

    // What is left of it.
    let beats_left = m.reg("beats_left", beats.width()).doc("beats behind this one");
    let payload_left = m.reg("payload_left", payload_beats.width()).doc("payload beats");
    let body = m.reg("in_body", 1).doc("the header is sent");
    let (fires, take) = (m.wire("beat_fires", 1), m.wire("payload_take", 1));
    let header_left = (geometry.header_beats() > 1 && geometry.max_header_bytes() > geometry.beat_bytes).then(|| {
        let whole = lengths
            .header_words
            .part(word_bits, 5u32.saturating_sub(word_bits).max(1));
        let left = m.reg("header_left", whole.width()).doc("whole header beats");
        m.when(load, || left.set(whole))
            .else_when(fires & left.any(), || left.set(left - left.lit(1)));
        left.any()
    });
    let header_whole = header_left.unwrap_or(m.low()).named("header_whole");
    m.when(load, || {
        beats_left.set(beats);
        payload_left.set(payload_beats);
        body.set_lit(0);
    })
    .else_when(fires, || {
        beats_left.set(beats_left - beats_left.lit(1));
        m.when(!header_whole, || {
            body.set_lit(1);
            m.when(payload_left.any(), || {
                payload_left.set(payload_left - payload_left.lit(1));
            });
        });
    });

    // The payload, and whether it is as long as announced.
    let exhausted = m.reg("payload_exhausted", 1).doc("it ended before its time");
    let discarding = m
        .reg("discarding", 1)
        .reset(0)
        .doc("the rest of a payload packet is being discarded");
    let mismatch = m.reg("payload_mismatch", 1).doc("payload has another length so far");
    let is_frame = (valid & !drop).named("is_frame");
    let wants = (!header_whole & payload_left.any() & !exhausted).named("wants_payload");
    let last_payload = payload_left.eq_lit(1).named("last_payload_beat");
    fires.set(is_frame & (!wants | payload.valid & !discarding) & enable);
    take.set(fires & wants);
    payload.ready.set(discarding | is_frame & wants & enable);
    let wrong_end = !payload.last | payload.last_byte.ne(expected);
    let wrong = take & last_payload.mux(wrong_end, payload.last);
    let bad = (mismatch | wrong).named("frame_bad");
    let early = take & payload.last & !last_payload;
    m.when(load, || {
        exhausted.set_lit(0);
        mismatch.set_lit(0);
    })
    .otherwise(|| {
        m.when(early, || exhausted.set_lit(1));
        m.when(wrong, || mismatch.set_lit(1));
    });
    let drop_leaves = valid & drop & !(has_payload & discarding);
    m.when(discarding, || {
        m.when(payload.valid & payload.last, || discarding.set_lit(0));
    })
    .else_when(take & last_payload & !payload.last | drop_leaves & has_payload, || {
        discarding.set_lit(1);
    });

    let last = (!beats_left.any()).named("last_beat");
    let ends = (fires & last).named("frame_ends");
    leaves.set(ends | drop_leaves);

    // The header.
    let has_ipv4 = geometry.layouts.iter().any(|layout| !layout.ipv6);
    let numbers = has_ipv4.then(|| Ipv4::new(m, inputs, load, is_frame & !ipv6));
    let number = numbers.as_ref().map_or(m.lit(0, 16), Ipv4::identification);
    let built = fields::header(geometry, taken, template, &lengths, number, inputs.time_ns);
    let header = m.reg("header", built.width()).doc("the header, less what is sent");
    let view = numbers.map_or(header, |numbers| {
        let at_start = m.reg("header_at_start", 1).doc("nothing of the header is sent");
        m.when(load, || at_start.set_lit(1))
            .else_when(fires, || at_start.set_lit(0));
        let checksum = numbers.checksum(load, lengths.ipv4_words, template.checksum);
        with_checksum(geometry, header, checksum, |layout| {
            let here = !ipv6 & (if layout.vlan { vlan } else { !vlan });
            here & at_start
        })
    });
    m.when(load, || header.set(built)).else_when(fires & !body, || {
        if header.width() > beat {
            header.set(view >> beat);
        }
    });

    events(
        m,
        [
            ("frames", "frames given, control and bad ones included", ends),
            (
                "control_frames",
                "of these, those of control descriptors",
                ends & is_control,
            ),
            (
                "payload_mismatch",
                "frames that left bad because their payload has another length",
                ends & bad,
            ),
            (
                "drop_template",
                "descriptors dropped, with their payload: no template",
                drop_leaves & drop_template,
            ),
            (
                "drop_descriptor",
                "descriptors dropped, with their payload: lengths that were not generated",
                drop_leaves & drop_descriptor,
            ),
        ],
    );

    let second_last = beats_left.eq_lit(1);
    let full = !last & !(second_last & tail_alone);
    Beat {
        valid: fires,
        header: view.resize(beat),
        from_header: !body,
        all_header: !body & (header_whole | !has_payload),
        place,
        full,
        partial: last.mux(!tail_alone, tail_alone & second_last),
        data_end,
        last,
        last_words,
        user: cat_lsb_first(&[bad, ipv6, vlan]),
    }
}

/// Counters behind a register each, so that what counts need not be there early in the clock.
fn events<'a>(m: Module<'a>, counters: [(&'static str, &'static str, Signal<'a>); 5]) {
    for (name, doc, event) in counters {
        if event.constant().is_some() {
            continue;
        }
        let seen = m.reg(&format!("saw_{name}"), 1).reset(0);
        seen.set(event);
        count_when(m, Counter(name, doc), seen);
    }
}
