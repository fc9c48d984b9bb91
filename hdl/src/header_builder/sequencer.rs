//! One frame at a time, one beat a clock: says what each beat is made of and takes payload for it.
//!
//! It holds the header of the frame, shifts it out beat by beat, counts the payload and finds out whether it is as long as announced. It
//! does not move payload bytes: `merger` does.

use super::accept::{Payload, Stage};
use super::fields::{self, Lengths};
use super::geometry::{Geometry, pick};
use super::ipv4::{Ipv4, with_checksum};
use super::stage::Taken;
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
    /// `tuser`: bad, IPv6, VLAN, prompt; the port, where there are several.
    pub(super) user: Signal<'a>,
    /// Of a frame without payload: it is surely good, and nothing makes it wait.
    pub(super) prompt: Signal<'a>,
}

/// Ports that the sequencer reads beside the streams.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) time_ns: Signal<'a>,
    pub(super) identification_load: Signal<'a>,
    pub(super) identification: Signal<'a>,
}

/// What is known of a frame when its header is built, and stays so.
struct Announced<'a> {
    place: Signal<'a>,
    last_words: Signal<'a>,
    data_end: Signal<'a>,
    tail_alone: Signal<'a>,
    has_payload: Signal<'a>,
    last_byte: Signal<'a>,
}

fn announced<'a>(
    m: Module<'a>,
    geometry: &Geometry,
    taken: &Taken<'a>,
    lengths: &Lengths<'a>,
    free: Signal<'a>,
) -> Announced<'a> {
    let (byte_bits, word_bits) = (geometry.byte_bits(), geometry.word_bits());
    let register = |name: &str, text: &str, value: Signal<'a>| {
        let register = m.reg(name, value.width()).doc(text);
        m.when(free, || register.set(value));
        register
    };
    let position = lengths.header_words.part(0, word_bits);
    let codes: Vec<_> = (geometry.places().into_iter())
        .map(|(position, code)| (position, m.lit(code, geometry.place_bits().max(1))))
        .collect();
    let place = match codes[..] {
        [(_, single)] => single,
        _ => register(
            "payload_place",
            "where payload begins, as a code",
            pick(position, &codes),
        ),
    };
    let last_words = lengths.frame_words.part(0, word_bits);
    let tail_alone = !last_words.any() | last_words.eq_lit(1) & lengths.pad.all();
    let payload_end = taken.payload_length.part(0, byte_bits);
    Announced {
        place,
        last_words: register("last_words", "words of the last beat, less 2 bytes", last_words),
        data_end: register(
            "data_end",
            "bytes of header and payload in the beat in which they end",
            payload_end + cat(&[position, m.lit(2, 2)]),
        ),
        tail_alone: register("tail_alone", "the last beat has only padding and ICRC", tail_alone),
        has_payload: register("frame_has_payload", "there is payload", taken.has_payload),
        last_byte: register(
            "expected_last_byte",
            "number of the last byte of the last payload beat",
            payload_end - payload_end.lit(1),
        ),
    }
}

/// Whole beats of header that are left; not there where no header fills a beat.
#[derive(Clone, Copy)]
struct WholeBeats<'a> {
    /// The header to be loaded has some.
    first: Signal<'a>,
    /// This beat is one.
    now: Signal<'a>,
    /// This beat is the last one.
    last: Signal<'a>,
}

fn whole_beats<'a>(
    m: Module<'a>,
    geometry: &Geometry,
    header_words: Signal<'a>,
    free: Signal<'a>,
    fires: Signal<'a>,
) -> Option<WholeBeats<'a>> {
    if geometry.max_header_bytes() < geometry.beat_bytes {
        return None;
    }
    let whole = header_words.slice(header_words.width() - 1, geometry.word_bits());
    let left = m.reg("header_left", whole.width()).doc("whole beats of header");
    let now = left.any().named("header_whole");
    m.when(free, || left.set(whole))
        .else_when(fires & now, || left.set(left - left.lit(1)));
    Some(WholeBeats {
        first: whole.any(),
        now,
        last: left.eq_lit(1),
    })
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
    let lengths = fields::lengths(geometry, taken, template);

    // What the handshake hangs on stands in registers of one bit, each made one clock before it is needed.
    let is_frame = m.reg("is_frame", 1).reset(0).doc("a frame is being sent");
    let is_drop = m.reg("is_drop", 1).reset(0).doc("a descriptor is being dropped");
    let leaves = m.wire("frame_leaves", 1);
    let free = (!(is_frame | is_drop) | leaves).named("frame_free");
    let load = (stage.valid & free).named("frame_loads");
    stage.moves.set(load);
    let flag = |name: &str, text: &str, value: Signal<'a>| match value.constant() {
        Some(_) => value,
        None => {
            let flag = m.reg(name, value.width()).doc(text);
            m.when(free, || flag.set(value));
            flag
        }
    };
    let no_template = taken.unknown_qpn | !template.valid;
    let drops = no_template | taken.refused;
    m.when(free, || {
        is_frame.set(stage.valid & !drops);
        is_drop.set(stage.valid & drops);
    });
    let without_template = flag(
        "without_template",
        "if it is dropped, for want of a template",
        no_template,
    );
    let is_control = flag("frame_control", "of a control descriptor", taken.control);
    let (ipv6, vlan) = (
        flag("frame_ipv6", "IPv6", template.ipv6),
        flag("frame_vlan", "VLAN tag", template.vlan),
    );
    let port = flag("frame_port", "port by which it leaves", taken.port);
    let frame = announced(m, geometry, taken, &lengths, free);

    // What is left of it.
    let beats = lengths.frame_words.slice(11, geometry.word_bits());
    let payload_beats =
        (taken.payload_length.zero_extend(14) + m.lit(geometry.beat_bytes - 1, 14)).slice(13, geometry.byte_bits());
    let beats_left = m.reg("beats_left", beats.width()).doc("beats behind this one");
    let last = m.reg("last_beat", 1).doc("no beat behind this one");
    let payload_left = m.reg("payload_left", payload_beats.width()).doc("beats of payload");
    let wants = m.reg("wants_payload", 1).doc("this beat takes payload");
    let body = m.reg("in_body", 1).doc("the header is sent");
    let exhausted = m
        .reg("payload_exhausted", 1)
        .doc("the payload packet has ended before its time");
    let fires = m.wire("beat_fires", 1);
    let take = (fires & wants).named("payload_take");
    let last_payload = payload_left.eq_lit(1).named("last_payload_beat");
    let exhausts = (exhausted | take & payload.last & !last_payload).named("payload_exhausts");
    let more_payload = payload_left.slice(payload_left.width() - 1, 1).any() & !exhausts;
    let whole = whole_beats(m, geometry, lengths.header_words, free, fires);
    let header_whole = whole.map_or(m.low(), |whole| whole.now);
    m.when(free, || {
        beats_left.set(beats);
        last.set(!beats.any());
        payload_left.set(payload_beats);
        wants.set(match whole {
            Some(whole) => taken.has_payload & !whole.first,
            None => taken.has_payload,
        });
        body.set_lit(0);
        exhausted.set_lit(0);
    })
    .else_when(fires, || {
        beats_left.set(beats_left - beats_left.lit(1));
        last.set(beats_left.eq_lit(1));
        exhausted.set(exhausts);
        body.set(!header_whole);
        wants.set(match whole {
            Some(whole) => whole.now.mux(frame.has_payload & whole.last, more_payload),
            None => more_payload,
        });
        m.when(!header_whole & payload_left.any(), || {
            payload_left.set(payload_left - payload_left.lit(1));
        });
    });

    // The payload, and whether it is as long as announced.
    let discarding = m
        .reg("discarding", 1)
        .reset(0)
        .doc("the rest of a payload packet is being discarded");
    fires.set(is_frame & (!wants | payload.valid & !discarding) & enable);
    payload.ready.set(discarding | is_frame & wants & enable);
    let wrong_end = !payload.last | payload.last_byte.ne(frame.last_byte);
    let wrong = take & last_payload.mux(wrong_end, payload.last);
    let mismatch = m.reg("payload_mismatch", 1).doc("payload has another length so far");
    let bad = (mismatch | wrong).named("frame_bad");
    m.when(free, || mismatch.set_lit(0)).otherwise(|| mismatch.set(bad));
    let drop_leaves = is_drop & !(frame.has_payload & discarding);
    let too_long = take & last_payload & !payload.last;
    m.when(discarding, || {
        m.when(payload.valid & payload.last, || discarding.set_lit(0));
    })
    .else_when(too_long | drop_leaves & frame.has_payload, || {
        discarding.set_lit(1);
    });
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
        m.when(free, || at_start.set_lit(1))
            .else_when(fires, || at_start.set_lit(0));
        let checksum = numbers.checksum(free, lengths.ipv4_words, template.checksum);
        with_checksum(geometry, header, checksum, |layout| {
            let here = !ipv6 & (if layout.vlan { vlan } else { !vlan });
            here & at_start
        })
    });
    let beat = geometry.beat_bits();
    m.when(free, || header.set(built)).else_when(fires & !body, || {
        if header.width() > beat {
            header.set(view >> beat);
        }
    });

    let events = [
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
            drop_leaves & without_template,
        ),
        (
            "drop_descriptor",
            "descriptors dropped, with their payload: lengths that were not generated",
            drop_leaves & !without_template,
        ),
    ];
    count(m, events);

    let second_last = beats_left.eq_lit(1);
    Beat {
        valid: fires,
        header: view.resize(beat),
        from_header: !body,
        all_header: !body & (header_whole | !frame.has_payload),
        place: frame.place,
        full: !last & !(second_last & frame.tail_alone),
        partial: last.mux(!frame.tail_alone, frame.tail_alone & second_last),
        data_end: frame.data_end,
        last,
        last_words: frame.last_words,
        user: match geometry.has_port {
            true => cat_lsb_first(&[bad, ipv6, vlan, !frame.has_payload, port]),
            false => cat_lsb_first(&[bad, ipv6, vlan, !frame.has_payload]),
        },
        prompt: !frame.has_payload,
    }
}

/// Counters behind a register each, so that what counts need not be there early in the clock.
fn count<'a>(m: Module<'a>, counters: [(&'static str, &'static str, Signal<'a>); 5]) {
    for (name, doc, event) in counters {
        if event.constant().is_some() {
            continue;
        }
        let seen = m.reg(&format!("saw_{name}"), 1).reset(0);
        seen.set(event);
        count_when(m, Counter(name, doc), seen);
    }
}
