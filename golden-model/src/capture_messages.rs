//! The messages behind the request packets of one captured flow, by PSN and opcode.
//!
//! Packets may be missing, out of order or there several times: the first time a PSN is seen is the request's, a later
//! one a retransmission. It never asks the slicer, which it serves to test.

use std::collections::BTreeMap;

use spraynic_config::descriptor::{WorkOpcode, WorkRequest};
use spraynic_wire::{Extension, Operation, Packet};

use crate::packet_slicer::MAX_MESSAGE;

/// One message.
pub(crate) struct Message {
    /// The work request, but for queue pair and local buffer.
    pub(crate) request: WorkRequest,
    /// Payload, zero where the capture has none.
    pub(crate) payload: Vec<u8>,
    /// Index of each packet's first capture.
    pub(crate) packets: Vec<Option<usize>>,
    /// Index of the packet that begins the message.
    pub(crate) first_packet: usize,
    /// MTU code.
    pub(crate) mtu: u8,
    /// PSN of the first packet, 24 bits.
    pub(crate) psn: u32,
    /// PSNs that the message takes.
    pub(crate) psns: u32,
}

/// The messages of a flow in the order of their PSNs. `capture_mtu` is the longest payload of the whole capture; it
/// decides where no first or middle packet of the flow does.
pub(crate) fn messages(sent: &[(usize, &Packet)], capture_mtu: usize) -> Vec<Message> {
    let Some((_, origin)) = sent.first() else {
        return Vec::new();
    };
    let origin = origin.bth.psn;
    let mut by_psn: BTreeMap<i32, (usize, &Packet)> = BTreeMap::new();
    for &(index, packet) in sent {
        by_psn.entry(packet.bth.psn.distance(origin)).or_insert((index, packet));
    }
    let full = by_psn.values().find(|(_, packet)| !ends(packet));
    let mtu = mtu_code(full.map_or(capture_mtu, |(_, packet)| packet.payload.len()));

    let mut messages = Vec::new();
    let mut next = i32::MIN;
    for (&psn, &(index, packet)) in &by_psn {
        if psn < next || !begins(packet) {
            continue; // inside a message, or of one whose beginning was not captured
        }
        let (packets, length) = extent(&by_psn, psn, packet, 128 << mtu);
        let Some(length) = u32::try_from(length).ok().filter(|length| *length <= MAX_MESSAGE) else {
            continue; // no work request can ask for that
        };
        let end = psn.saturating_add(packets as i32);
        let inside: Vec<Option<&(usize, &Packet)>> = (psn..end).map(|psn| by_psn.get(&psn)).collect();
        let request = request(packet, inside.last().copied().flatten().map(|(_, last)| *last), length);
        let psns = if packet_operation(packet) == Some(Operation::ReadRequest) {
            length.div_ceil(128 << mtu).max(1)
        } else {
            packets
        };
        messages.push(Message {
            request,
            payload: payload(&inside, length, 128 << mtu, packet),
            packets: inside.iter().map(|packet| packet.map(|(index, _)| *index)).collect(),
            first_packet: index,
            mtu,
            psn: packet.bth.psn.value(),
            psns,
        });
        next = psn.saturating_add(psns as i32);
    }
    messages
}

/// The smallest MTU code that carries this payload.
fn mtu_code(payload: usize) -> u8 {
    (1..5).find(|code| payload <= 128 << code).unwrap_or(5)
}

fn packet_operation(packet: &Packet) -> Option<Operation> {
    packet.info().map(|info| info.operation)
}

fn begins(packet: &Packet) -> bool {
    packet.info().is_some_and(|info| info.position.begins_message())
}

fn ends(packet: &Packet) -> bool {
    packet.info().is_some_and(|info| info.position.ends_message())
}

/// Packets and bytes of the message that begins at `psn`.
fn extent(by_psn: &BTreeMap<i32, (usize, &Packet)>, psn: i32, first: &Packet, mtu: u64) -> (u32, u64) {
    let dma_length = first
        .extensions
        .iter()
        .find_map(|extension| extension.as_reth())
        .map(|reth| u64::from(reth.length));
    match (packet_operation(first), dma_length) {
        (Some(Operation::Write), Some(length)) => (length.div_ceil(mtu).max(1) as u32, length),
        (Some(Operation::ReadRequest), Some(length)) => (1, length),
        (Some(Operation::CompareSwap | Operation::FetchAdd), _) => (1, 8),
        _ if ends(first) => (1, first.payload.len() as u64),
        _ => {
            // SEND says its length nowhere: its last packet does, or the capture ends before it.
            let mut last_seen = psn;
            for (&at, (_, packet)) in by_psn.range(psn + 1..).take_while(|(_, (_, packet))| !begins(packet)) {
                last_seen = at;
                if ends(packet) {
                    let before = (at - psn) as u32;
                    return (before + 1, u64::from(before) * mtu + packet.payload.len() as u64);
                }
            }
            let seen = (last_seen - psn) as u32 + 1;
            (seen + 1, u64::from(seen) * mtu + 1)
        }
    }
}

fn request(first: &Packet, last: Option<&Packet>, length: u32) -> WorkRequest {
    let opcode = match packet_operation(first) {
        Some(Operation::Write) => WorkOpcode::Write,
        Some(Operation::ReadRequest) => WorkOpcode::Read,
        Some(Operation::CompareSwap) => WorkOpcode::CompareSwap,
        Some(Operation::FetchAdd) => WorkOpcode::FetchAdd,
        _ => WorkOpcode::Send,
    };
    let mut request = WorkRequest {
        opcode: opcode as u8,
        segments: 1,
        solicited: last.is_some_and(|last| last.bth.solicited),
        length,
        ..WorkRequest::default()
    };
    let last_extensions = last.map_or(&[][..], |last| &last.extensions);
    for extension in first.extensions.iter().chain(last_extensions) {
        match extension {
            Extension::Reth(reth) => {
                request.remote_address = reth.virtual_address;
                request.remote_key = reth.remote_key;
            }
            Extension::AtomicEth(atomic) => {
                request.remote_address = atomic.virtual_address;
                request.remote_key = atomic.remote_key;
                request.swap_add = atomic.swap_add;
                request.compare = atomic.compare;
            }
            Extension::ImmDt(header) => {
                request.inline_immediate = true;
                request.immediate = header.immediate;
            }
            Extension::Ieth(header) => {
                request.opcode = WorkOpcode::SendInvalidate as u8;
                request.immediate = header.remote_key;
            }
            _ => {}
        }
    }
    request
}

fn payload(inside: &[Option<&(usize, &Packet)>], length: u32, mtu: usize, first: &Packet) -> Vec<u8> {
    if !first.info().is_some_and(|info| info.has_payload) {
        return Vec::new();
    }
    let mut payload = vec![0; length as usize];
    for (packet, part) in inside.iter().zip(payload.chunks_mut(mtu)) {
        if let Some((_, packet)) = packet {
            let bytes = packet.payload.len().min(part.len());
            part[..bytes].copy_from_slice(&packet.payload[..bytes]);
        }
    }
    payload
}
