//! `icrc` (insert): puts the invariant CRC into the last 4 bytes of a frame; [`check`] judges those that arrive.
//!
//! It finds the IP header by the sideband, not by parsing, and never changes another byte, the length or the mark of a
//! bad frame. Theory of operation: `docs/src/blocks/icrc.md`; the CRC itself is `spraynic_wire::icrc`.

pub mod check;

use spraynic_wire::icrc;

use crate::frame::Frame;
use crate::header_builder::{ETHERNET_BYTES, ICRC_BYTES, VLAN_BYTES};

/// Counters, as the ports `count_…` of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Frames given, bad ones included.
    pub frames: u32,
}

/// The block: it keeps nothing between frames but its counters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IcrcInsert {
    counters: Counters,
}

impl IcrcInsert {
    /// The block after reset.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a frame and gives it with its ICRC, see [`insert`].
    pub fn insert(&mut self, frame: Frame) -> Frame {
        self.counters.frames = self.counters.frames.wrapping_add(1);
        insert(frame)
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// The frame with its ICRC in place, and only `bad` left of its sideband.
///
/// Good frames come from `header_builder` and hold an IP, UDP and base transport header; what is shorter, or does not
/// begin with the IP version that the sideband names, leaves as it came but bad.
#[must_use]
pub fn insert(frame: Frame) -> Frame {
    let Frame {
        mut bytes,
        bad,
        ipv6,
        vlan,
    } = frame;
    let packet_start = ETHERNET_BYTES + if vlan { VLAN_BYTES } else { 0 };
    let version = if ipv6 { 6 } else { 4 };
    let packet_end = bytes.len().saturating_sub(ICRC_BYTES);
    let icrc = bytes
        .get(packet_start..packet_end)
        .filter(|packet| packet.first().is_some_and(|byte| byte >> 4 == version))
        .and_then(|packet| icrc::of_ip_packet(packet).ok());
    if let Some(icrc) = icrc {
        bytes[packet_end..].copy_from_slice(&icrc.to_le_bytes());
    }
    Frame {
        bytes,
        bad: bad || icrc.is_none(),
        ..Frame::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_icrc_of_a_cnp_is_that_of_the_bitwise_computation() {
        let mut bytes = vec![0; ETHERNET_BYTES];
        bytes.extend_from_slice(&[
            0x45, 0, 0, 0x3C, 0, 1, 0, 0, 0x40, 17, 0x7C, 0xAF, 127, 0, 0, 1, 127, 0, 0, 1, // IPv4
        ]);
        bytes.extend_from_slice(&[0, 0, 0x12, 0xB7, 0, 0x28, 0, 0]);
        bytes.extend_from_slice(&[0x81, 0, 0xFF, 0xFF, 0x40, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&[0; 16 + 4]);
        let bitwise = bitwise_icrc(&bytes[ETHERNET_BYTES..bytes.len() - 4]);
        let mut block = IcrcInsert::new();
        let frame = block.insert(Frame::plain(bytes));
        assert_eq!(block.counters().frames, 1);
        assert_eq!(frame.bytes[frame.bytes.len() - 4..], bitwise.to_le_bytes());
        assert!(!frame.bad);
    }

    /// CRC-32 bit by bit, as IBA annex A17 words it: the check of the table-driven one.
    fn bitwise_icrc(packet: &[u8]) -> u32 {
        let mut bytes = vec![0xFF; 8];
        bytes.extend_from_slice(packet);
        let ip = &mut bytes[8..];
        for at in [1, 8, 10, 11, 26, 27, 32] {
            ip[at] = 0xFF;
        }
        let mut crc = u32::MAX;
        for byte in bytes {
            crc ^= u32::from(byte);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
            }
        }
        !crc
    }

    #[test]
    fn bad_frames_stay_bad_and_short_ones_become_bad() {
        for length in 0..60 {
            let good = insert(Frame::plain(vec![0x45; length]));
            assert_eq!(good.bytes.len(), length);
            assert_eq!(good.bad, length < 58, "{length}");
            let bad = Frame {
                bad: true,
                ..Frame::plain(vec![0x45; length])
            };
            assert!(insert(bad).bad);
        }
    }

    #[test]
    fn sideband_is_spent() {
        let mut bytes = vec![0; ETHERNET_BYTES + VLAN_BYTES];
        bytes.extend_from_slice(&[0x60; 64]);
        let frame = insert(Frame {
            ipv6: true,
            vlan: true,
            ..Frame::plain(bytes)
        });
        assert!(!frame.ipv6 && !frame.vlan && !frame.bad);
    }
}
