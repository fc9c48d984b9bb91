//! The network: frames interleaved by chance, lost, repeated, damaged at any byte, trimmed, marked, late, and late by exactly the window.

use spraynic_config::{NicConfig, Profile};
use spraynic_wire::{Ip, Opcode, Operation, Packet, Psn};

use super::super::{TRIMMED, TRIMMED_LAST_HOP};
use super::profile_of;
use crate::stream::{Frame, Random};

/// What the network does.
#[derive(Debug, Clone, Default)]
pub struct Network {
    /// Seed of all that is left to chance.
    pub seed: u64,
    /// Times that all frames come over a bad network, before they come twice over a good one. 0: once over a good one.
    pub bad_passes: u8,
    /// Of 256 frames so many are lost.
    pub lost: u8,
    /// Of 256 frames so many come twice.
    pub repeated: u8,
    /// Of 256 frames so many have a bit of one byte changed: of the bytes of the headers and of the ICRC one after the other, or of any byte.
    pub damaged: u8,
    /// Of 256 frames so many are marked bad by the MAC.
    pub bad: u8,
    /// Of 256 frames so many are marked: they met congestion.
    pub marked: u8,
    /// Of 256 data frames so many are trimmed.
    pub trimmed: u8,
    /// A frame comes by so many places later than it was sent, at most (solar, mrc).
    pub reordered: u32,
    /// Queue pairs whose first request packet comes just behind the one that stands beyond the end of its window, in the first pass (solar, mrc).
    pub held: Vec<u32>,
}

/// What the network has done.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// Frames lost.
    pub lost: usize,
    /// Frames that came twice.
    pub repeated: usize,
    /// Frames marked bad by the MAC.
    pub bad: usize,
    /// Frames marked by congestion.
    pub marked: usize,
    /// Frames trimmed.
    pub trimmed: usize,
    /// Frames that came behind one that was sent later by the same peer.
    pub late: usize,
    /// First packets that came behind the one beyond the window.
    pub held: usize,
    /// Byte changed, and bytes of the frame.
    pub damaged: Vec<(usize, usize)>,
}

/// A frame as a peer sends it.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) bytes: Vec<u8>,
    /// PSN of a request; `None`: a response or a control packet.
    psn: Option<Psn>,
    /// Bytes behind the headers: payload, padding and ICRC. 0: a frame of the host.
    tail: usize,
}

impl Sent {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        let Ok(packet) = Packet::parse(&bytes, None) else {
            // A frame of the host.
            return Self {
                bytes,
                psn: None,
                tail: 0,
            };
        };
        Self {
            psn: is_request(packet.bth.opcode).then_some(packet.bth.psn),
            tail: packet.payload.len() + usize::from(packet.bth.pad_count) + 4,
            bytes,
        }
    }
}

fn is_request(opcode: Opcode) -> bool {
    let operation = opcode.info().map(|info| info.operation);
    matches!(
        operation,
        Some(
            Operation::Send | Operation::Write | Operation::ReadRequest | Operation::CompareSwap | Operation::FetchAdd
        )
    )
}

impl Network {
    /// The passes; true: over the bad network.
    pub(super) fn passes(&self) -> Vec<bool> {
        let mut passes = vec![true; self.bad_passes.into()];
        passes.push(false);
        if self.bad_passes > 0 {
            passes.push(false);
        }
        passes
    }
}

/// Bytes at the start of a frame that hold all headers: Ethernet, a VLAN tag, IPv6, UDP, BTH and the longest extension headers.
pub const HEADER_BYTES: usize = 14 + 4 + 40 + 8 + 12 + 28;
/// Bytes at the end: the ICRC.
pub const ICRC_BYTES: usize = 4;

/// One pass of all frames.
pub(super) fn deliver(
    config: &NicConfig,
    sent: &[Vec<Sent>],
    network: &Network,
    bad: bool,
    random: &mut Random,
    faults: &mut Faults,
) -> Vec<Frame> {
    let peers = sent.len() as u64;
    // Position of each frame in the pass: interleaved by chance, in order within a queue pair, but for what is late.
    let mut order: Vec<(u64, usize, usize)> = Vec::new();
    for (qpn, of_peer) in sent.iter().enumerate() {
        let may_reorder = bad && profile_of(config, qpn as u32) != Profile::Roce;
        let holds = may_reorder && network.held.contains(&(qpn as u32));
        let beyond = holds.then(|| beyond_window(config, of_peer)).flatten();
        let mut position = 0;
        let mut place_beyond = 0;
        for index in 0..of_peer.len() {
            position += 1 + random.next() % (2 * peers);
            let late = random.next() % (u64::from(network.reordered) * peers + 1);
            let (is_lost, repeats) = (
                (random.next() as u8) < network.lost,
                (random.next() as u8) < network.repeated,
            );
            let repeated_by = random.next() % 50;
            if let Some((_, beyond)) = beyond
                && index <= beyond
            {
                // Up to there they come in order, but for the first one.
                order.push((position, qpn, index));
                place_beyond = position;
                continue;
            }
            if bad && is_lost {
                faults.lost += 1;
                continue;
            }
            let late = if may_reorder { late } else { 0 };
            order.push((position + late, qpn, index));
            if bad && repeats {
                faults.repeated += 1;
                order.push((position + late + repeated_by, qpn, index));
            }
        }
        if let Some((first, _)) = beyond
            && let Some(held) = order.iter_mut().find(|place| (place.1, place.2) == (qpn, first))
        {
            held.0 = place_beyond + 1 + random.next() % 8;
            faults.held += 1;
        }
    }
    order.sort_unstable();
    let mut newest = vec![0; sent.len()];
    for (_, qpn, index) in &order {
        faults.late += usize::from(*index < newest[*qpn]);
        newest[*qpn] = newest[*qpn].max(*index);
    }
    let mut walk = random.next() as usize;
    let frames = order.into_iter().map(|(_, qpn, index)| {
        let sent = &sent[qpn][index];
        let mut frame = Frame::new(sent.bytes.clone());
        if !bad {
            return frame;
        }
        let bytes = &mut frame.data;
        if (random.next() as u8) < network.marked && sent.tail > 0 {
            faults.marked += 1;
            *bytes = marked(bytes, 3, 3);
        }
        if (random.next() as u8) < network.trimmed && sent.tail > ICRC_BYTES {
            faults.trimmed += 1;
            let last_hop = random.next() & 1 == 1;
            *bytes = trimmed(bytes, sent.tail, if last_hop { TRIMMED_LAST_HOP } else { TRIMMED });
        }
        if (random.next() as u8) < network.damaged {
            let at = match random.next() & 1 {
                0 => random.next() as usize % bytes.len(),
                _ => {
                    walk += 1;
                    byte_of_headers(walk, bytes.len())
                }
            };
            bytes[at] ^= 1 << (random.next() % 8);
            faults.damaged.push((at, bytes.len()));
        }
        if (random.next() as u8) < network.bad {
            faults.bad += 1;
            frame.user = 1;
        }
        frame
    });
    frames.collect()
}

/// The `step`th of the bytes of headers and ICRC, over and over.
fn byte_of_headers(step: usize, length: usize) -> usize {
    let headers = HEADER_BYTES.min(length - ICRC_BYTES);
    let place = step % (headers + ICRC_BYTES);
    if place < headers {
        place
    } else {
        length - 1 - (place - headers)
    }
}

/// Indices of the first request packet, and of the one whose PSN is by the window further on.
fn beyond_window(config: &NicConfig, sent: &[Sent]) -> Option<(usize, usize)> {
    let first = sent.iter().position(|sent| sent.psn.is_some())?;
    let psn = sent[first].psn? + config.receive.window;
    let beyond = sent.iter().position(|sent| sent.psn == Some(psn))?;
    Some((first, beyond))
}

/// A frame with bits of its traffic class changed on the way, where a router computes the checksum of IPv4 anew.
fn marked(bytes: &[u8], mask: u8, value: u8) -> Vec<u8> {
    let mut packet = Packet::parse(bytes, None).unwrap_or_else(|error| panic!("a right frame: {error}"));
    match &mut packet.ip {
        Ip::V4(ip) => {
            ip.tos = ip.tos & !mask | value;
            ip.checksum = None;
        }
        Ip::V6(ip) => ip.traffic_class = ip.traffic_class & !mask | value,
    }
    packet.emit()
}

/// A frame whose payload a switch has cut off.
fn trimmed(bytes: &[u8], tail: usize, dscp: u8) -> Vec<u8> {
    let mut bytes = marked(bytes, 0xFC, dscp << 2);
    bytes.truncate(bytes.len() - tail);
    bytes
}
