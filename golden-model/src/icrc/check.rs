//! `icrc` (check): says of each packet that `packet_parser` gives whether its invariant CRC is right.
//!
//! It finds the CRC by what the parser found and by the IP length, and never changes or holds back a byte: who buffers
//! the payload acts on the verdict. Theory of operation: `docs/src/blocks/icrc.md`.

use spraynic_config::descriptor::ReceivedPacket;
use spraynic_wire::icrc;

use crate::header_builder::{ETHERNET_BYTES, ICRC_BYTES, IPV6_BYTES, VLAN_BYTES};

/// Counters, as the ports `count_…` of the block. Their sum is the packets taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets whose ICRC is right.
    pub right: u32,
    /// Packets whose ICRC is wrong: they are dropped.
    pub drop_icrc: u32,
    /// Trimmed packets: what the ICRC covered is not all there.
    pub unchecked: u32,
}

/// What is known of a packet's ICRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It is right.
    Right,
    /// It is wrong: the packet is dropped.
    Wrong,
    /// The packet is trimmed: its headers may be used, but only to ask for it again.
    Unchecked,
}

impl Verdict {
    /// Whether the packet goes on.
    #[must_use]
    pub fn passes(self) -> bool {
        self != Self::Wrong
    }
}

/// The block: it keeps nothing between packets but its counters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IcrcCheck {
    counters: Counters,
}

impl IcrcCheck {
    /// The block after reset.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Judges the frame behind a descriptor of `packet_parser`.
    pub fn check(&mut self, frame: &[u8], packet: &ReceivedPacket) -> Verdict {
        let (verdict, counter) = match packet.trimmed {
            0 if is_right(frame, packet) => (Verdict::Right, &mut self.counters.right),
            0 => (Verdict::Wrong, &mut self.counters.drop_icrc),
            _ => (Verdict::Unchecked, &mut self.counters.unchecked),
        };
        *counter = counter.wrapping_add(1);
        verdict
    }
}

/// A frame that does not hold what the descriptor says has no right ICRC.
fn is_right(frame: &[u8], packet: &ReceivedPacket) -> bool {
    let start = ETHERNET_BYTES + VLAN_BYTES * usize::from(packet.vlan_tags);
    let (length_at, add) = if packet.ipv6 { (4, IPV6_BYTES) } else { (2, 0) };
    let ip_packet = frame
        .get(start + length_at..start + length_at + 2)
        .map(|length| add + usize::from(u16::from_be_bytes([length[0], length[1]])))
        .and_then(|length| frame.get(start..start + length));
    let Some((covered, found)) = ip_packet.and_then(|bytes| bytes.split_last_chunk::<ICRC_BYTES>()) else {
        return false;
    };
    icrc::of_ip_packet(covered).is_ok_and(|right| right == u32::from_le_bytes(*found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet_parser::Parsed;
    use crate::received_frames::{frame, parse};

    /// Bytes that the ICRC covers but does not read as ones, by hand: all of the IP packet but those.
    fn changeable(packet: &ReceivedPacket, at: usize) -> bool {
        let ip = ETHERNET_BYTES + VLAN_BYTES * usize::from(packet.vlan_tags);
        let udp = ip + if packet.ipv6 { 40 } else { 20 };
        let masked_ip: &[usize] = if packet.ipv6 { &[1, 2, 3, 7] } else { &[1, 8, 10, 11] };
        at < ip || masked_ip.iter().any(|byte| ip + byte == at) || [udp + 6, udp + 7, udp + 8 + 4].contains(&at)
    }

    #[test]
    fn every_byte_but_those_that_may_change_on_the_way_is_covered() {
        for (ipv6, tags) in [(false, 0), (false, 1), (true, 0), (true, 2)] {
            let original = frame(0x0A, ipv6, tags, &[7; 13]).emit();
            let Ok(Parsed::Packet { packet, .. }) = parse(&original) else {
                panic!("a good frame");
            };
            let mut block = IcrcCheck::new();
            assert_eq!(block.check(&original, &packet), Verdict::Right);
            for at in 0..original.len() {
                let mut damaged = original.clone();
                damaged[at] ^= 0x10;
                // The IP length says where the ICRC is; IPv6 byte 0 is half version, half traffic class.
                let expected = changeable(&packet, at);
                assert_eq!(
                    block.check(&damaged, &packet).passes(),
                    expected,
                    "byte {at}, IPv6 {ipv6}"
                );
            }
            let counters = block.counters();
            assert_eq!(counters.right + counters.drop_icrc, original.len() as u32 + 1);
        }
    }

    #[test]
    fn padding_of_a_short_frame_is_not_covered() {
        let mut bytes = frame(0x11, false, 0, &[]).emit();
        assert_eq!(bytes.len(), 62, "an ACK, without FCS");
        bytes.extend_from_slice(&[0xEE; 4]);
        let Ok(Parsed::Packet { packet, .. }) = parse(&bytes) else {
            panic!("a good frame");
        };
        assert_eq!(IcrcCheck::new().check(&bytes, &packet), Verdict::Right);
    }

    #[test]
    fn trimmed_packets_are_not_judged_and_other_frames_are_wrong() {
        let mut block = IcrcCheck::new();
        let trimmed = ReceivedPacket {
            trimmed: 1,
            ..ReceivedPacket::default()
        };
        assert_eq!(block.check(&[0; 60], &trimmed), Verdict::Unchecked);
        for length in 0..64 {
            assert_eq!(
                block.check(&vec![0x45; length], &ReceivedPacket::default()),
                Verdict::Wrong
            );
        }
        assert_eq!((block.counters().unchecked, block.counters().drop_icrc), (1, 64));
    }
}
