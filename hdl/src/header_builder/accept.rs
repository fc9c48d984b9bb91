//! Takes descriptors, control first, and reads their templates.
//!
//! Where there are control packets, payload waits in a short queue, and a descriptor is taken only when the first beat of its payload has
//! arrived there: a control packet never stands behind payload that nobody has sent yet.

use super::geometry::{DATAGRAM_WORDS, Geometry};
use super::stage::{Taken, Template};
use super::templates::Templates;
use crate::fields::Fields;
use spraynic_config::NicConfig;
use spraynic_config::descriptor::PacketDescriptor;
use spraynic_rtl::{AxiStream, MemoryStyle, Module, Signal, Stream, cat, cat_lsb_first};

/// Beats of payload that may wait: a first beat is seen 5 clocks before it is needed.
const QUEUE_DEPTH: u32 = 16;

/// A beat of payload with its bytes counted.
#[derive(Clone, Copy)]
pub(super) struct Payload<'a> {
    pub(super) data: Signal<'a>,
    /// Number of the last valid byte.
    pub(super) last_byte: Signal<'a>,
    pub(super) last: Signal<'a>,
    pub(super) valid: Signal<'a>,
    /// A wire that the taker drives.
    pub(super) ready: Signal<'a>,
}

/// Number of the last valid byte of a beat, from its `tkeep`, whose ones are contiguous from bit 0: halves it again and again.
fn last_byte<'a>(keep: Signal<'a>) -> Signal<'a> {
    let mut rest = keep;
    let mut bits = vec![];
    while rest.width() > 1 {
        let half = rest.width() / 2;
        let upper = rest.bit(half);
        rest = upper.mux(rest.part(half, half), rest.part(0, half));
        if half > 1 {
            rest = rest.named(&format!("keep_of_{half}"));
        }
        bits.push(upper);
    }
    cat(&bits)
}

/// The payload as it comes, without a queue.
pub(super) fn direct_payload<'a>(m: Module<'a>, stream: AxiStream<'a>) -> Payload<'a> {
    let ready = m.wire("payload_ready", 1);
    stream.ready.set(ready);
    stream.user.ignore();
    Payload {
        data: stream.data,
        last_byte: last_byte(stream.keep).named("payload_last_byte"),
        last: stream.last,
        valid: stream.valid,
        ready,
    }
}

/// The payload behind a queue. The second signal is 1 while a payload packet has begun to arrive whose descriptor was not
/// taken yet; `claimed` is the wire that says that a descriptor with payload is taken.
pub(super) fn queued_payload<'a>(
    m: Module<'a>,
    stream: AxiStream<'a>,
    claimed: Signal<'a>,
) -> (Payload<'a>, Signal<'a>) {
    let bits = QUEUE_DEPTH.trailing_zeros();
    let last_byte = last_byte(stream.keep).named("payload_last_byte");
    let word = cat_lsb_first(&[stream.data, last_byte, stream.last]);
    stream.user.ignore();
    let queue = m
        .memory("payload_queue", QUEUE_DEPTH, word.width())
        .style(MemoryStyle::Distributed);
    let (head, tail) = (
        m.reg("payload_head", bits).reset(0),
        m.reg("payload_tail", bits).reset(0),
    );
    let waiting = m.reg("payload_waiting", bits + 1).reset(0).doc("beats in the queue");
    let valid = m.reg("payload_valid", 1).reset(0).doc("the queue is not empty");
    let begun = m
        .reg("payload_begun", bits + 1)
        .reset(0)
        .doc("payload packets begun and not claimed by a descriptor");
    let at_start = m
        .reg("payload_at_start", 1)
        .reset(1)
        .doc("the next beat begins a packet");
    let ready = m.wire("payload_ready", 1);

    stream.ready.set(!waiting.msb());
    let push = stream.fires().named("payload_push");
    let pop = (valid & ready).named("payload_pop");
    queue.write(push, tail, word);
    m.when(push, || {
        tail.set(tail + tail.lit(1));
        at_start.set(stream.last);
    });
    m.when(pop, || head.set(head + head.lit(1)));
    let step = |count: Signal<'a>, up: Signal<'a>, down: Signal<'a>| {
        m.when(up & !down, || count.set(count + count.lit(1)))
            .else_when(down & !up, || count.set(count - count.lit(1)));
    };
    step(waiting, push, pop);
    valid.set(push | valid & !(pop & waiting.eq_lit(1)));
    step(begun, push & at_start, claimed);
    m.assert("claims_only_what_has_begun", !(claimed & !begun.any()));

    let word = queue.read_now(head);
    let (data_bits, byte_bits) = (stream.data.width(), last_byte.width());
    let payload = Payload {
        data: word.part(0, data_bits),
        last_byte: word.part(data_bits, byte_bits),
        last: word.msb(),
        valid,
        ready,
    };
    (payload, begun.any())
}

/// The stage behind: a descriptor and its template, valid, and the wire that says they are taken.
#[derive(Clone, Copy)]
pub(super) struct Stage<'a> {
    pub(super) taken: Taken<'a>,
    pub(super) template: Template<'a>,
    pub(super) valid: Signal<'a>,
    pub(super) moves: Signal<'a>,
}

impl<'a> Stage<'a> {
    /// The same one clock later.
    pub(super) fn registered(&self, m: Module<'a>, prefix: &str) -> Self {
        let valid = m.reg(&format!("{prefix}_valid"), 1).reset(0);
        let moves = m.wire(&format!("{prefix}_moves"), 1);
        let free = (!valid | moves).named(&format!("{prefix}_free"));
        self.moves.set(self.valid & free);
        m.when(free, || valid.set(self.valid));
        Self {
            taken: self.taken.registered(m, prefix, free),
            template: self.template.registered(m, prefix, free),
            valid,
            moves,
        }
    }
}

/// Takes from `control` and `descriptors`. `payload_begun` and `claimed` belong to [`queued_payload`].
pub(super) fn accept<'a>(
    m: Module<'a>,
    config: &NicConfig,
    geometry: &Geometry,
    (control, descriptors): (Option<Stream<'a>>, Stream<'a>),
    templates: &Templates<'a>,
    queue: Option<(Signal<'a>, Signal<'a>)>,
) -> Stage<'a> {
    let valid = m.reg("taken_valid", 1).reset(0);
    let moves = m.wire("taken_moves", 1);
    let free = ((!valid | moves) & !templates.busy).named("can_take");

    let data_fields = Fields::unpack::<PacketDescriptor>(descriptors.data);
    let has_payload = data_fields.get("payload_length").any();
    let is_control = control.map_or(m.low(), |control| control.valid);
    let payload_there = queue.map_or(m.high(), |(begun, _)| begun | !has_payload);
    let data_ready = (free & !is_control & payload_there).named("takes_data");
    descriptors.ready.set(data_ready);
    if let Some(control) = control {
        control.ready.set(free);
    }
    if let Some((_, claimed)) = queue {
        claimed.set(data_ready & descriptors.valid & has_payload);
    }
    let takes = (is_control & free | descriptors.valid & data_ready).named("takes");
    m.when(free | moves, || valid.set(takes));

    let fields = match control {
        None => data_fields,
        Some(control) => {
            let fields = Fields::unpack::<PacketDescriptor>(is_control.mux(control.data, descriptors.data));
            let length = fields.get("payload_length").gate(!is_control);
            fields.with("payload_length", length)
        }
    };
    let qpn = fields.get("qpn");
    let index_bits = config.qpn_bits();
    let template = templates.read(free, qpn.part(0, index_bits));

    let (length, words) = (fields.get("payload_length"), fields.get("extension_words"));
    let has_payload = length.any();
    let one_of = |set: &std::collections::BTreeSet<u32>| {
        let hits = set.iter().map(|number| words.eq_lit(*number));
        hits.fold(m.low(), |any, hit| any | hit)
    };
    let known = has_payload.mux(
        one_of(&geometry.payload_extension_words),
        one_of(&geometry.extension_words),
    );
    let payload_words = (length.zero_extend(14) + m.lit(3, 14)).slice(13, 2);
    let taken = Taken {
        control: is_control,
        unknown_qpn: qpn.slice(23, index_bits).any(),
        refused: !known | length.gt(m.lit(geometry.max_payload, 13)),
        opcode: fields.get("opcode"),
        psn: fields.get("psn"),
        solicited: fields.get("solicited"),
        ack_request: fields.get("ack_request"),
        retransmission: fields.get("retransmission"),
        timestamped: fields.get("timestamped"),
        mrc: fields.get("mrc"),
        becn: fields.get("becn"),
        port: match geometry.has_port {
            true => fields.get("port"),
            false => m.lit(0, 3),
        },
        stamp: match geometry.time_stamps {
            true => fields.get("stamp"),
            false => m.lit(0, 2),
        },
        entropy: fields.get("entropy").part(0, if config.wire.ipv6 { 20 } else { 16 }),
        payload_length: length,
        has_payload,
        datagram_words: payload_words + (words.zero_extend(12) + m.lit(DATAGRAM_WORDS, 12)),
        extension_words: words,
        extension: match geometry.max_extension_words() {
            0 => m.low(),
            words => fields.get("extension").part(0, words * 32),
        },
    };
    Stage {
        taken: taken.registered(m, "taken", free),
        template,
        valid,
        moves,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spraynic_rtl::{Bits, Context, Evaluator};

    #[test]
    fn the_last_byte_of_every_contiguous_keep_is_found() {
        for bytes in [8, 16, 32, 64, 128] {
            let context = Context::new();
            let m = context.module("probe");
            m.output_of("last_byte", last_byte(m.input("keep", bytes)));
            let mut run = Evaluator::new(m.finish());
            for last in 0..bytes {
                let mut keep = Bits::zero(bytes);
                (0..=last).for_each(|byte| keep.set_bit(byte, true));
                run.set("keep", keep);
                assert_eq!(run.get_u64("last_byte"), u64::from(last), "of {bytes}");
            }
        }
    }
}
