//! What the block is asked to do, one operation at a time: a context write, feedback, a packet that was sent, a timer.
//!
//! It reads the headers and decides nothing that depends on a window.

use spraynic_config::Profile;
use spraynic_config::descriptor::{
    CompletionStatus, Descriptor, PacketContext, QueuePairState, ReceivedPacket, SendContext, SentPacket, SprayPolicy,
};
use spraynic_rtl::{Bundle, Signal, bundle, cat};
use spraynic_wire::{CcState, Header, NackReason, NakCode, Opcode, Seth};

use super::bits;
use super::layout::{QueuePair, Sizes};
use crate::fields::Fields;

bundle! {
    /// An operation.
    pub(super) struct Operation {
        context: 1, "a context write";
        sack: 1, "a SACK";
        ack: 1, "an ACK, or a NAK that fails the queue pair";
        nack: 1, "a NACK";
        sent: 1, "a packet that was sent";
        timer: 1, "a timer that may be due";
        stale: 1, "feedback that means nothing here";
        outside: 1, "there is no such queue pair or sequence space";
        qpn: 24, "queue pair number";
        space: 1, "sequence space";
        now: 64, "time in nanoseconds";
        psn: 24, "PSN of the packet; of a SACK the cumulative one; of a NAK the one before it";
        first: 24, "SACK: PSN of bit 0 of the bitmap";
        turned: 64, "SACK: bitmap, turned so that its bits stand where those of their PSNs do in words of 64";
        last: 6, "SACK: highest bit of the bitmap";
        counted: 1, "SACK: CC_STATE is there";
        generation: 24, "SACK: cumulative PSN and packets beyond the gap";
        named: 24, "SACK: PSN of the packet that asked for it";
        entropy: 16, "entropy value of the packet, or that it names";
        feedback: 2, "SACK: state of the path";
        probed: 1, "SACK: answers a probe";
        probe_id: 16, "SACK: the probe's id";
        nak: 1, "ACK: it fails the queue pair";
        status: 8, "ACK: status of the failure";
        trimmed: 1, "NACK: trimmed";
        last_hop: 1, "NACK: trimmed at the last hop";
        slot: 8, "sent: slot of the request";
        path: 8, "sent: path";
        port: 3, "sent: port";
        class: 2, "sent: traffic class";
        wants_ack: 1, "sent: last packet of a message that an ACK ends";
        psns: 24, "sent: PSNs that it takes";
        has_response: 1, "sent: a READ request or an atomic";
        response: 1, "a READ response or an atomic ACK (roce)";
        sequence: 1, "ACK: NAK (PSN sequence error)";
        rnr: 1, "ACK: RNR NAK";
        rnr_timer: 5, "ACK: timer code of an RNR NAK";
    }
}

impl<'a> Operation<'a> {
    /// ACK: the PSN that the packet names. That of a NAK which fails the queue pair is the one behind `psn`.
    pub(super) fn acknowledges(&self) -> Signal<'a> {
        let refuses = self.nak & self.status.any();
        refuses.mux(self.psn + self.psn.lit(1), self.psn)
    }
}

fn ignore_others<D: Descriptor>(fields: &Fields<'_>, used: &[&str]) {
    for field in D::FIELDS.iter().filter(|field| !used.contains(&field.name)) {
        fields.get(field.name).ignore();
    }
}

/// An operation with nothing in it.
pub(super) fn nothing(now: Signal<'_>) -> Operation<'_> {
    let m = now.module();
    let mut zeros = vec![];
    for (_, width, _) in Operation::fields() {
        zeros.push(m.lit(0, width));
    }
    Operation {
        now,
        ..Operation::from_signals(&zeros)
    }
}

fn outside<'a>(sizes: &Sizes, qpn: Signal<'a>, space: Signal<'a>) -> Signal<'a> {
    let bits = sizes.queue_pair_bits;
    let beyond = qpn.part(bits, 24 - bits).any();
    let m = qpn.module();
    let count = m.lit(sizes.queue_pairs, 24);
    let beyond = if sizes.queue_pairs.is_power_of_two() {
        beyond
    } else {
        qpn.ge(count)
    };
    if sizes.responses { beyond } else { beyond | space }
}

/// A packet that was sent.
pub(super) fn of_sent<'a>(sizes: &Sizes, packet: Signal<'a>, now: Signal<'a>) -> Operation<'a> {
    let fields = Fields::unpack::<SentPacket>(packet);
    let used = [
        "qpn", "psn", "slot", "path", "port", "class", "space", "last", "response", "entropy",
    ];
    ignore_others::<SentPacket>(&fields, &used);
    let get = |name| fields.get(name);
    Operation {
        sent: now.module().high(),
        outside: outside(sizes, get("qpn"), get("space")),
        qpn: get("qpn"),
        space: get("space"),
        psn: get("psn"),
        slot: get("slot"),
        path: get("path"),
        port: get("port"),
        class: get("class"),
        entropy: get("entropy"),
        wants_ack: get("last") & !get("response") & !get("space"),
        psns: get("psns"),
        has_response: get("response"),
        ..nothing(now)
    }
}

/// A timer of a sequence space.
pub(super) fn of_timer<'a>(sizes: &Sizes, index: Signal<'a>, now: Signal<'a>) -> Operation<'a> {
    let m = now.module();
    let (qpn, space) = if sizes.responses {
        (index.part(1, sizes.queue_pair_bits), index.bit(0))
    } else {
        (index, m.low())
    };
    Operation {
        timer: m.high(),
        qpn: qpn.zero_extend(24),
        space,
        ..nothing(now)
    }
}

/// A context write.
pub(super) fn of_context<'a>(sizes: &Sizes, context: Signal<'a>, now: Signal<'a>) -> Operation<'a> {
    let m = now.module();
    let qpn = Fields::unpack::<SendContext>(context).get("qpn");
    Operation {
        context: m.high(),
        outside: outside(sizes, qpn, m.low()),
        qpn,
        ..nothing(now)
    }
}

/// What a context write makes of a queue pair, and the first PSNs of its spaces.
pub(super) fn queue_pair_of<'a>(context: Signal<'a>) -> (QueuePair<'a>, Signal<'a>, Signal<'a>) {
    let fields = Fields::unpack::<SendContext>(context);
    let used = [
        "qpn",
        "state",
        "profile",
        "policy",
        "path_set",
        "retry_limit",
        "rnr_retry",
        "psn",
        "sent_response_psn",
        "peer_qpn",
        "ooo_threshold",
        "base_rtt_ns",
        "timeout_ns",
    ];
    ignore_others::<SendContext>(&fields, &used);
    let get = |name| fields.get(name);
    let m = context.module();
    let state = |state: QueuePairState| get("state").eq_lit(state as u8);
    let known = !get("profile").all();
    let sends = state(QueuePairState::ReadyToSend) & known;
    let receives = sends | (state(QueuePairState::ReadyToReceive) & known);
    get("peer_qpn").ignore();
    let queue_pair = QueuePair {
        sends,
        receives,
        failed: m.low(),
        profile: get("profile"),
        spreads: get("policy").ne_lit(SprayPolicy::Fixed as u8),
        path_set: get("path_set"),
        retry_limit: get("retry_limit"),
        ooo_threshold: get("ooo_threshold"),
        base_rtt: get("base_rtt_ns"),
        timeout: get("timeout_ns"),
        peer: get("peer_qpn").part(0, 16),
        rnr_retry: get("rnr_retry"),
    };
    (queue_pair, get("psn"), get("sent_response_psn"))
}

/// Feedback of the peer.
pub(super) fn of_feedback<'a>(sizes: &Sizes, packet: Signal<'a>, now: Signal<'a>) -> Operation<'a> {
    let m = now.module();
    packet.part(ReceivedPacket::width(), PacketContext::width()).ignore();
    let fields = Fields::unpack::<ReceivedPacket>(packet.part(0, ReceivedPacket::width()));
    ignore_others::<ReceivedPacket>(
        &fields,
        &["qpn", "opcode", "psn", "trimmed", "extension_words", "extension"],
    );
    let get = |name| fields.get(name);
    let opcode = |opcode: Opcode| get("opcode").eq_lit(opcode.0);
    let byte = |index: u32| get("extension").part(8 * index, 8);
    // Big-endian on the wire.
    let number = |first: u32, bytes: u32| {
        let mut parts = vec![];
        for index in first..first + bytes {
            parts.push(byte(index));
        }
        cat(&parts)
    };
    let whole = !get("trimmed").any();
    let other_space = byte(0).part(5, 3).any();
    let is_sack = (whole & opcode(Opcode::SACK)).named("is_sack");
    let is_nack = (whole & opcode(Opcode::NACK)).named("is_nack");
    let is_ack = whole & (opcode(Opcode::ACKNOWLEDGE) | opcode(Opcode::MRC_ACKNOWLEDGE));
    let is_response = whole
        & (opcode(Opcode::READ_RESPONSE_FIRST)
            | opcode(Opcode::READ_RESPONSE_MIDDLE)
            | opcode(Opcode::READ_RESPONSE_LAST)
            | opcode(Opcode::READ_RESPONSE_ONLY)
            | opcode(Opcode::ATOMIC_ACKNOWLEDGE));
    let space = (is_sack | is_nack) & byte(0).bit(4) & !other_space;

    let cumulative = number(13, 3);
    let sack_offset = number(18, 2).sign_extend(24);
    let ack_psn_offset = number(2, 2);
    let bitmap = number(20, 8).gate(is_sack);
    let first = cumulative + sack_offset;
    let state = Seth::LENGTH as u32;
    let beyond_gap = number(state + 2, 2).part(0, 15).zero_extend(24);
    let words = m.lit((Seth::LENGTH + CcState::LENGTH) / 4, 4);

    // Syndrome: 000xxxxx acknowledges, 011 and a code refuses.
    let syndrome = byte(0);
    let positive = !syndrome.part(5, 3).any();
    let code_is = |code: NakCode| syndrome.eq_lit(0x60 | code as u8);
    let (invalid, access, operational) = (
        code_is(NakCode::InvalidRequest),
        code_is(NakCode::RemoteAccessError),
        code_is(NakCode::RemoteOperationalError),
    );
    let negative = invalid | access | operational;
    let status = |status: CompletionStatus| m.lit(status as u8, 8);
    let reason = byte(2);
    let mut known_reason = m.low();
    for known in NackReason::ALL {
        known_reason = known_reason | reason.eq_lit(known.code());
    }

    let (sack, nack) = (is_sack & !other_space, is_nack & !other_space & known_reason);
    let psn = is_sack.mux(
        cumulative,
        is_nack.mux(
            number(13, 3),
            (is_ack & negative).mux(get("psn") - m.lit(1, 24), get("psn")),
        ),
    );
    Operation {
        sack,
        nack,
        ack: is_ack,
        response: is_response,
        sequence: is_ack & code_is(NakCode::PsnSequenceError),
        rnr: is_ack & syndrome.part(5, 3).eq_lit(1),
        rnr_timer: syndrome.part(0, 5),
        stale: !(sack | nack | is_ack | is_response),
        outside: outside(sizes, get("qpn"), space),
        qpn: get("qpn"),
        space,
        psn,
        first,
        turned: bits::rotated(bitmap, first.part(0, 6)),
        last: bits::highest(bitmap),
        counted: get("extension_words").ge(words),
        generation: cumulative + beyond_gap,
        named: cumulative + ack_psn_offset.sign_extend(24),
        entropy: number(6, 2),
        feedback: cat(&[byte(1).bit(6), byte(1).bit(5)]),
        probed: byte(1).bit(1),
        probe_id: ack_psn_offset,
        nak: is_ack & !positive,
        status: invalid
            .mux(
                status(CompletionStatus::RemoteInvalidRequest),
                access.mux(
                    status(CompletionStatus::RemoteAccess),
                    operational.mux(status(CompletionStatus::RemoteOperational), m.lit(0, 8)),
                ),
            )
            .gate(is_ack),
        trimmed: reason.eq_lit(NackReason::Trimmed.code()),
        last_hop: reason.eq_lit(NackReason::TrimmedLastHop.code()),
        ..nothing(now)
    }
}

/// Whether a profile sends packets one by one.
pub(super) fn is_selective(profile: Signal<'_>) -> Signal<'_> {
    profile.ne_lit(Profile::Roce.code())
}
