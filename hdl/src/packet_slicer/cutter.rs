//! The cutter: holds one message and gives one packet descriptor of it a clock; takes the next message in the clock in which the
//! last packet leaves.

use super::Message;
use crate::extension::{AtomicEth, Ieth, ImmDt, Meth, Reth, Tseth, extension};
use crate::fields::Fields;
use spraynic_config::descriptor::{PacketDescriptor, PacketOrigin};
use spraynic_config::{NicConfig, Operation, Profile};
use spraynic_rtl::{Bundle, Module, Signal, Stream, bundle, cat};
use spraynic_wire::Opcode;

/// `ftype` of a TSETH that is a time stamp [MRC 1.0].
const TSETH_TIMESTAMP: u8 = 1;

bundle! {
    /// What is known of a slice beside its message.
    pub(super) struct Tag {
        packets: 8, "packets of the slice from the next one on";
        slot: 8, "place of the request in the send queue";
        psns: 24, "PSNs that a packet takes";
        class: 2, "traffic class";
        profile: 2, "wire profile";
        again: 1, "sent before";
        rtx: 1, "sent before, and the packet says so";
        asks: 1, "each packet asks for an acknowledgement";
        ends_asking: 1, "the last packet of the slice does";
    }
}

/// What is to be cut: a message from one of its packets on.
pub(super) struct Start<'a> {
    pub(super) message: Message<'a>,
    /// The next packet is the message's first.
    pub(super) first: Signal<'a>,
    /// Bytes of the message from that packet on.
    pub(super) remaining: Signal<'a>,
    /// Packets of the message before it, modulo 64.
    pub(super) in_interval: Signal<'a>,
    /// It ends with the slice; otherwise with the message.
    pub(super) tag: Option<Tag<'a>>,
}

/// Builds the cutter; returns the bit that says that what waits is taken. With a tag, a `PacketOrigin` stands above each packet.
pub(super) fn cutter<'a>(
    m: Module<'a>,
    config: &NicConfig,
    next: &Start<'a>,
    next_valid: Signal<'a>,
    packets: Stream<'a>,
) -> Signal<'a> {
    let active = m.reg("active", 1).reset(0).doc("a message is being cut");
    let message = Message::regs(m, "message");
    // Not every configuration reads all of it.
    message.signals().into_iter().for_each(Signal::ignore);
    let tag = next.tag.map(|_| Tag::regs(m, "slice"));
    let first = m.reg("first", 1).doc("the next packet is the message's first");
    let remaining = m
        .reg("remaining", 32)
        .doc("bytes of the message from the next packet on");
    let in_interval = m
        .reg("in_interval", 6)
        .doc("packets since the last request for an ACK in this message");

    let mtu_bytes = mtu_of(&message).named("mtu_bytes");
    // Found out one packet ahead, so that no comparison stands before the descriptor.
    let last = m.reg("last", 1).doc("the next packet is the message's last");
    let slice_ends = tag.map_or(m.low(), |tag| tag.packets.eq_lit(1));
    let ends = (last | slice_ends).named("ends");

    let out_valid = m.reg("out_valid", 1).reset(0);
    let out = m.reg("out", packets.data.width());
    let gives = (active & (!out_valid | packets.ready)).named("gives");
    let start = (next_valid & (!active | (gives & ends))).named("start");

    m.when(start, || {
        active.set_lit(1);
        message.set(&next.message);
        first.set(next.first);
        remaining.set(next.remaining);
        last.set(!has_payload(&next.message) | next.remaining.le(mtu_of(&next.message).zero_extend(32)));
        in_interval.set(next.in_interval);
        if let (Some(tag), Some(next)) = (tag, next.tag) {
            tag.set(&next);
        }
    })
    .else_when(gives, || {
        m.when(ends, || active.set_lit(0));
        first.set_lit(0);
        remaining.set(remaining - mtu_bytes.zero_extend(32));
        last.set(remaining.le(mtu_bytes.zero_extend(32) << 1));
        in_interval.set(in_interval + in_interval.lit(1));
        message.psn.set(message.psn + message.psn.lit(1));
        message
            .local_address
            .set(message.local_address + mtu_bytes.zero_extend(64));
        message
            .remote_address
            .set(message.remote_address + mtu_bytes.zero_extend(64));
        if let Some(tag) = tag {
            tag.packets.set(tag.packets - tag.packets.lit(1));
        }
    });

    let mut descriptor = describe(m, config, &message, first, last, in_interval, remaining, mtu_bytes);
    if let Some(tag) = tag {
        let asks = descriptor.get("ack_request") | tag.asks | (tag.ends_asking & slice_ends);
        descriptor = descriptor.with("retransmission", tag.rtx).with("ack_request", asks);
    }
    let origin = tag.map(|tag| {
        let fields = Fields::build::<PacketOrigin>(|name, width| match name {
            "slot" => tag.slot,
            "psns" => tag.psns,
            "class" => tag.class,
            "profile" => tag.profile,
            "last" => last,
            "retransmission" => tag.again,
            "tracked" => m.high(),
            _ => m.lit(0, width),
        });
        fields.pack()
    });
    let packed = match origin {
        Some(origin) => cat(&[origin, descriptor.pack()]),
        None => descriptor.pack(),
    };
    m.when(gives, || {
        out_valid.set_lit(1);
        out.set(packed);
    })
    .else_when(packets.ready, || out_valid.set_lit(0));
    packets.valid.set(out_valid);
    packets.data.set(out);
    start
}

/// Bytes of the message's MTU.
fn mtu_of<'a>(message: &Message<'a>) -> Signal<'a> {
    let m = message.mtu.module();
    let sizes: Vec<Signal<'a>> = (0..8u32).map(|code| m.lit(128u32 << code.clamp(1, 5), 13)).collect();
    message.mtu.select(&sizes)
}

fn has_payload<'a>(message: &Message<'a>) -> Signal<'a> {
    message.send | message.write
}

/// The descriptor of the packet at hand.
#[allow(clippy::too_many_arguments)]
fn describe<'a>(
    m: Module<'a>,
    config: &NicConfig,
    message: &Message<'a>,
    first: Signal<'a>,
    last: Signal<'a>,
    in_interval: Signal<'a>,
    remaining: Signal<'a>,
    mtu_bytes: Signal<'a>,
) -> Fields<'a> {
    let has_payload = has_payload(message);
    let payload_length = last
        .mux(remaining.part(0, 13), mtu_bytes)
        .gate(has_payload)
        .named("payload_length");
    let (headers, words) = headers(m, config, message, first, last);
    Fields::build::<PacketDescriptor>(|name, width| match name {
        "qpn" => message.qpn,
        "opcode" => opcode(message, first, last),
        "psn" => message.psn,
        "solicited" => message.solicited & last,
        "ack_request" => last | in_interval.all(),
        "timestamped" => message.timestamps,
        "mrc" => message.mrc,
        "stamp" => message.timestamps.zero_extend(2),
        "extension_words" => words,
        "entropy" => message.entropy,
        "payload_length" => payload_length,
        "local_key" => message.local_key,
        "local_address" => message.local_address,
        "extension" => headers,
        _ => m.lit(0, width),
    })
}

/// BTH opcode. SEND and WRITE groups share one order: first, middle, last, last with immediate, only, only with immediate.
fn opcode<'a>(message: &Message<'a>, first: Signal<'a>, last: Signal<'a>) -> Signal<'a> {
    let m = first.module();
    let lit = |opcode: Opcode| m.lit(opcode.0, 8);
    let immediate = (message.immediate_flag & last).zero_extend(8);
    let in_group = last.mux(
        first.mux(m.lit(4, 8), m.lit(2, 8)) + immediate,
        first.mux(m.lit(0, 8), m.lit(1, 8)),
    );
    let write = message.mrc.mux(lit(Opcode::MRC_WRITE_FIRST), lit(Opcode::WRITE_FIRST));
    let group = message.send.mux(lit(Opcode::SEND_FIRST), write) + in_group;
    let invalidate = first.mux(lit(Opcode::SEND_ONLY_INVALIDATE), lit(Opcode::SEND_LAST_INVALIDATE));
    let atomic = message.fetch_add.mux(lit(Opcode::FETCH_ADD), lit(Opcode::COMPARE_SWAP));
    let single = message.read.mux(lit(Opcode::READ_REQUEST), atomic);
    let has_payload = has_payload(message);
    (message.invalidate & last)
        .mux(invalidate, has_payload.mux(group, single))
        .named("bth_opcode")
}

/// Extension headers and their length in words of 4 bytes.
fn headers<'a>(
    m: Module<'a>,
    config: &NicConfig,
    message: &Message<'a>,
    first: Signal<'a>,
    last: Signal<'a>,
) -> (Signal<'a>, Signal<'a>) {
    let reth = Reth {
        virtual_address: message.remote_address,
        remote_key: message.remote_key,
        length: message.length,
    };
    let with_immediate = message.immediate_flag & last;
    // ImmDt and IETH are the same field of the request.
    let immediate = ImmDt {
        immediate: message.immediate,
    }
    .emit()
    .gate(with_immediate);
    let invalidate = Ieth {
        remote_key: message.immediate,
    }
    .emit();
    let none = extension(&[m.lit(0, 32)]);
    let reth_words = m.lit(Reth::LENGTH / 4, 4);
    let more = with_immediate.zero_extend(4);

    let mut chosen = (none, m.lit(0, 4));
    let mut choose = |condition: Signal<'a>, headers: &[Signal<'a>], words: Signal<'a>| {
        chosen = (
            condition.mux(extension(headers), chosen.0),
            condition.mux(words, chosen.1),
        );
    };
    if config.has_standard_opcodes() {
        choose(with_immediate, &[immediate], more);
        if config.has_operation(Operation::SendInvalidate) {
            choose(message.invalidate & last, &[invalidate], m.lit(1, 4));
        }
        if config.has_operation(Operation::Write) || config.has_operation(Operation::Read) {
            let begins = (message.write & first) | message.read;
            choose(begins, &[reth.emit(), immediate], reth_words + more);
        }
        if config.has_operation(Operation::Atomic) {
            let atomic = AtomicEth {
                virtual_address: message.remote_address,
                remote_key: message.remote_key,
                swap_add: message.swap_add,
                compare: message.compare,
            };
            choose(
                !(message.send | message.write | message.read),
                &[atomic.emit()],
                m.lit(AtomicEth::LENGTH / 4, 4),
            );
        }
    }
    if config.has_profile(Profile::Mrc) {
        let meth = Meth {
            rqmsn: message.rqmsn,
            msn: message.msn,
        }
        .emit();
        let tseth =
            Tseth::from_fields(|name, width| m.lit(if name == "ftype" { TSETH_TIMESTAMP } else { 0 }, width)).emit();
        let words = m.lit(Meth::LENGTH / 4, 4) + reth_words + more;
        choose(message.mrc, &[meth, reth.emit(), immediate], words);
        choose(
            message.timestamps,
            &[meth, tseth, reth.emit(), immediate],
            words + m.lit(Tseth::LENGTH / 4, 4),
        );
    }
    chosen
}
