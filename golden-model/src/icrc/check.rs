//! `icrc` (check): says of each packet that `packet_parser` gives whether its invariant CRC is right.
//!
//! It finds the IP header by what the parser found, and the CRC at the end of the IP packet. It never changes or holds back a byte:
//! who buffers the payload acts on the verdict. Theory of operation: `docs/src/blocks/icrc.md`.

use spraynic_config::descriptor::ReceivedPacket;
use spraynic_wire::icrc;

use crate::header_builder::{ETHERNET_BYTES, ICRC_BYTES, IPV6_BYTES, VLAN_BYTES};
use crate::packet_parser::MAX_VLAN_TAGS;

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

impl From<Verdict> for u8 {
    /// The code on `m_axis_verdict`.
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Right => 0,
            Verdict::Wrong => 1,
            Verdict::Unchecked => 2,
        }
    }
}

/// A frame as it goes from `packet_parser` to `icrc`: `s_axis`, with its `tuser`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct FrameToCheck {
    /// From the first byte of the Ethernet header to the last one of the IP packet: padding is cut off.
    pub bytes: Vec<u8>,
    /// `tuser[0]` of the last beat: the frame was dropped, no verdict is wanted.
    pub dropped: bool,
    /// `tuser[1]`: the network header is IPv6.
    pub ipv6: bool,
    /// `tuser[3:2]`: VLAN tags, 0 to 2.
    pub vlan_tags: u8,
    /// `tuser[4]`: trimmed, not to be judged.
    pub trimmed: bool,
}

impl FrameToCheck {
    /// What the parser gives of a frame that it has a descriptor for. One that does not hold its IP packet (the parser gives none)
    /// is empty here.
    #[must_use]
    pub fn of(frame: &[u8], packet: &ReceivedPacket) -> Self {
        Self {
            bytes: up_to_ip_end(frame, packet).to_vec(),
            dropped: false,
            ipv6: packet.ipv6,
            vlan_tags: packet.vlan_tags,
            trimmed: packet.trimmed != 0,
        }
    }

    /// `tuser` of the last beat.
    #[must_use]
    pub fn user(&self) -> u8 {
        u8::from(self.dropped) | u8::from(self.ipv6) << 1 | (self.vlan_tags & 3) << 2 | u8::from(self.trimmed) << 4
    }
}

/// A frame as [`FrameToCheck::bytes`] has it.
fn up_to_ip_end<'a>(frame: &'a [u8], packet: &ReceivedPacket) -> &'a [u8] {
    let start = ip_offset(packet.vlan_tags);
    let (length_at, add) = if packet.ipv6 { (4, IPV6_BYTES) } else { (2, 0) };
    let length = frame
        .get(start + length_at..start + length_at + 2)
        .map(|length| add + usize::from(u16::from_be_bytes([length[0], length[1]])));
    let bytes = length.and_then(|length| frame.get(..start + length));
    bytes.unwrap_or_default()
}

/// A frame that is not what its sideband says, or is too short for its headers and an ICRC, has no right one.
fn is_right(bytes: &[u8], ipv6: bool, vlan_tags: u8) -> bool {
    let packet = bytes.get(ip_offset(vlan_tags)..).unwrap_or_default();
    let version = if ipv6 { 6 } else { 4 };
    let Some((covered, found)) = packet.split_last_chunk::<ICRC_BYTES>() else {
        return false;
    };
    usize::from(vlan_tags) <= MAX_VLAN_TAGS
        && packet[0] >> 4 == version
        && icrc::of_ip_packet(covered).is_ok_and(|right| right == u32::from_le_bytes(*found))
}

/// Where the IP header begins.
fn ip_offset(vlan_tags: u8) -> usize {
    ETHERNET_BYTES + VLAN_BYTES * usize::from(vlan_tags)
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

    /// Takes a frame; `None`: it was dropped, and has no verdict.
    pub fn take(&mut self, frame: &FrameToCheck) -> Option<Verdict> {
        if frame.dropped {
            return None;
        }
        Some(self.judge(&frame.bytes, frame.ipv6, frame.vlan_tags, frame.trimmed))
    }

    /// Judges the frame behind a descriptor of `packet_parser`, which was not dropped.
    pub fn check(&mut self, frame: &[u8], packet: &ReceivedPacket) -> Verdict {
        let bytes = up_to_ip_end(frame, packet);
        self.judge(bytes, packet.ipv6, packet.vlan_tags, packet.trimmed != 0)
    }

    fn judge(&mut self, bytes: &[u8], ipv6: bool, vlan_tags: u8, trimmed: bool) -> Verdict {
        let (verdict, counter) = if trimmed {
            (Verdict::Unchecked, &mut self.counters.unchecked)
        } else if is_right(bytes, ipv6, vlan_tags) {
            (Verdict::Right, &mut self.counters.right)
        } else {
            (Verdict::Wrong, &mut self.counters.drop_icrc)
        };
        *counter = counter.wrapping_add(1);
        verdict
    }
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

    #[test]
    fn frames_that_are_not_what_the_sideband_says_are_wrong_and_dropped_ones_have_no_verdict() {
        let original = frame(0x0A, false, 1, &[7; 13]).emit();
        let Ok(Parsed::Packet { packet, .. }) = parse(&original) else {
            panic!("a good frame");
        };
        let good = FrameToCheck::of(&original, &packet);
        let mut block = IcrcCheck::new();
        assert_eq!(block.take(&good), Some(Verdict::Right));
        for vlan_tags in [0, 2, 3] {
            let other = FrameToCheck {
                vlan_tags,
                ..good.clone()
            };
            assert_eq!(block.take(&other), Some(Verdict::Wrong), "{vlan_tags} tags");
        }
        let other = FrameToCheck {
            ipv6: true,
            ..good.clone()
        };
        assert_eq!(block.take(&other), Some(Verdict::Wrong));
        let dropped = FrameToCheck { dropped: true, ..good };
        assert_eq!(block.take(&dropped), None);
        assert_eq!((block.counters().right, block.counters().drop_icrc), (1, 4));
    }

    /// A CRC that is right over what is there does not make an ICRC of a frame that ends in its headers.
    #[test]
    fn a_frame_too_short_for_its_headers_is_wrong_whatever_its_crc() {
        for length in 1..62usize {
            let mut bytes = vec![0; length];
            if length > ETHERNET_BYTES {
                bytes[ETHERNET_BYTES] = 0x45;
            }
            let mut covered = bytes.get(ETHERNET_BYTES..).unwrap_or_default().to_vec();
            for at in [1, 8, 10, 11, 26, 27, 32] {
                covered.get_mut(at).into_iter().for_each(|byte| *byte = 0xFF);
            }
            let mut crc = crc32fast::Hasher::new_with_initial(!icrc::STATE_AFTER_PREFIX);
            crc.update(&covered);
            bytes.extend_from_slice(&crc.finalize().to_le_bytes());
            let frame = FrameToCheck {
                bytes,
                ..FrameToCheck::default()
            };
            let expected = if length < 54 { Verdict::Wrong } else { Verdict::Right };
            assert_eq!(
                IcrcCheck::new().take(&frame),
                Some(expected),
                "{length} bytes before the CRC"
            );
        }
    }
}
