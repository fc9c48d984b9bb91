//! What this block reads from the headers of a packet: path, time stamp, the PSNs and the receive request that it takes.
//! It knows bytes and opcodes only, and no queue pair.

use spraynic_config::descriptor::{PacketContext, ReceivedPacket, RequestExtension, SequenceReport};
use spraynic_wire::{HeaderKind, Opcode, Operation};

use crate::packet_slicer::{MAX_MESSAGE, mtu_bytes};

/// The entropy value of a packet's path: what [`spraynic_wire::path_fields`] made of it, as far as it can be known: EV[15:0] from the
/// UDP source port, with IPv6 EV[19:16] from the flow label.
#[must_use]
pub fn entropy_of(packet: &ReceivedPacket) -> u32 {
    packet.flow_label & 0xF_0000 | u32::from(packet.udp_source_port)
}

/// The time stamp that a packet carries for its echo: TSETH of mrc data, PETH of a probe; 0 without one.
#[must_use]
pub fn time_stamp_of(packet: &ReceivedPacket) -> u16 {
    let opcode = Opcode(packet.opcode);
    let has = |kind| opcode.info().is_some_and(|info| info.has(kind));
    let at = match packet.extension_words {
        0 => return 0,
        _ if has(HeaderKind::Peth) => 12,
        _ if packet.timestamped && has(HeaderKind::Tseth) => 4,
        _ => return 0,
    };
    u16::from_be_bytes([packet.extension.0[at], packet.extension.0[at + 1]])
}

/// What a report says of the packet alone.
pub(super) fn report(packet: &ReceivedPacket, context: &PacketContext) -> SequenceReport {
    SequenceReport {
        qpn: packet.qpn,
        opcode: packet.opcode,
        psn: packet.psn,
        profile: context.profile,
        space: context.space,
        entropy: entropy_of(packet),
        payload_length: packet.payload_length,
        ecn: packet.ecn,
        ack_request: packet.ack_request,
        retransmission: packet.retransmission,
        time_stamp: time_stamp_of(packet),
        ..SequenceReport::default()
    }
}

/// Extension headers as far as a `SequencedPacket` carries them.
pub(super) fn request_extension(packet: &ReceivedPacket) -> RequestExtension {
    let mut extension = RequestExtension::default();
    let bytes = extension.0.len();
    extension.0.copy_from_slice(&packet.extension.0[..bytes]);
    extension
}

/// READ and atomic requests: roce gives their duplicates again.
#[must_use]
pub fn is_answered_with_data(opcode: u8) -> bool {
    use Operation::{CompareSwap, FetchAdd, ReadRequest};
    let operation = Opcode(opcode).info().map(|info| info.operation);
    matches!(operation, Some(ReadRequest | CompareSwap | FetchAdd))
}

/// Whether a packet takes a receive request: the first one of a SEND, the last one of a WRITE with immediate.
#[must_use]
pub fn takes_receive_request(opcode: u8) -> bool {
    Opcode(opcode).info().is_some_and(|info| match info.operation {
        Operation::Send => info.position.begins_message(),
        Operation::Write => info.has(HeaderKind::ImmDt),
        _ => false,
    })
}

/// Whether a message ends with this packet.
pub(super) fn ends_message(packet: &ReceivedPacket) -> bool {
    Opcode(packet.opcode)
        .info()
        .is_some_and(|info| info.position.ends_message())
}

/// PSNs that a request of roce takes: a READ as many as it has response packets, of which the last has the remainder. A READ of more than the
/// longest message, which the responder refuses, counts as the longest.
pub(super) fn psns(packet: &ReceivedPacket, context: &PacketContext) -> u32 {
    if Opcode(packet.opcode).info().map(|info| info.operation) != Some(Operation::ReadRequest) {
        return 1;
    }
    let reth = &packet.extension.0;
    let length = u32::from_be_bytes([reth[12], reth[13], reth[14], reth[15]]).min(MAX_MESSAGE);
    mtu_bytes(context.mtu).map_or(1, |mtu| length.div_ceil(mtu).max(1))
}
