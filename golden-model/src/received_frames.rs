//! Frames for the tests of the receive path: any packet that the wire can carry, and damage to it.
//!
//! For tests of this crate, and with the feature `strategies` for those of others.

use proptest::prelude::*;
use spraynic_wire::opcode::OPCODES;
use spraynic_wire::{Bth, Ethernet, HeaderKind, Ip, Ipv4, Ipv6, Opcode, Packet, Psn, VlanTag, network};

use crate::frame::Frame;
use crate::packet_parser::{Config, DropReason, PacketParser, Parsed, TrimmedDscp};

/// A packet with this opcode, its extension headers zero, from 10.0.0.2 to 10.0.0.1 (or such in IPv6).
///
/// # Panics
/// When no profile has the opcode.
#[must_use]
pub fn frame(opcode: u8, ipv6: bool, tags: usize, payload: &[u8]) -> Packet {
    let info = Opcode(opcode).info().expect("a known opcode");
    let ip = if ipv6 {
        Ip::V6(Ipv6 {
            source: (0xFE80u128 << 112 | 2).into(),
            destination: (0xFE80u128 << 112 | 1).into(),
            flow_label: 0xC_BEEF,
            ..Ipv6::default()
        })
    } else {
        Ip::V4(Ipv4 {
            source: [10, 0, 0, 2].into(),
            destination: [10, 0, 0, 1].into(),
            ..Ipv4::default()
        })
    };
    let ethernet = Ethernet {
        vlans: vec![VlanTag { tpid: 0x8100, tci: 5 }; tags],
        ..Ethernet::default()
    };
    let bth = Bth {
        opcode: info.opcode,
        destination_qpn: 3,
        psn: Psn::new(0x12_3456),
        ..Bth::default()
    };
    let (extensions, _) = HeaderKind::parse_all(info.headers(false), &[0; 64]).expect("64 bytes suffice");
    Packet::new(ethernet, ip, 0xBEEF, bth, extensions).with_payload(payload.to_vec())
}

/// What a parser with everything generated makes of a frame.
///
/// # Errors
/// As [`PacketParser::receive`].
pub fn parse(bytes: &[u8]) -> Result<Parsed, DropReason> {
    PacketParser::new(Config::full()).receive(&Frame::plain(bytes.to_vec()), TrimmedDscp::default())
}

/// Any packet of any profile, with any header fields.
pub fn any_packet() -> impl Strategy<Value = Packet> {
    let length = prop_oneof![4 => 0usize..70, 1 => 0usize..=4096, 1 => Just(4096)];
    let headers = (
        any::<[u8; 12]>(),
        any::<[u8; 64]>(),
        any::<[u8; 40]>(),
        any::<(u16, u16)>(),
    );
    let tags = prop::collection::vec((prop_oneof![Just(0x8100u16), Just(0x88A8)], any::<u16>()), 0..=2);
    let body = (length, any::<u8>(), prop_oneof![Just(0), 0usize..20]);
    (0..OPCODES.len(), any::<bool>(), tags, headers, body).prop_map(
        |(index, ipv6, tags, (bth, extension, ip, ports), (length, seed, trailer))| {
            let info = &OPCODES[index];
            let mut packet = frame(info.opcode.0, ipv6, 0, &[]);
            packet.ethernet.vlans = tags.into_iter().map(|(tpid, tci)| VlanTag { tpid, tci }).collect();
            let address = |at: usize| u128::from_be_bytes(std::array::from_fn(|byte| ip[at + byte]));
            packet.ip = if ipv6 {
                Ip::V6(Ipv6 {
                    traffic_class: ip[0],
                    flow_label: address(1) as u32 & 0xF_FFFF,
                    hop_limit: ip[2],
                    source: address(4).into(),
                    destination: address(20).into(),
                })
            } else {
                Ip::V4(Ipv4 {
                    tos: ip[0],
                    identification: u16::from_be_bytes([ip[1], ip[2]]),
                    dont_fragment: ip[3] & 1 == 1,
                    ttl: ip[4],
                    checksum: None,
                    source: (address(4) as u32).into(),
                    destination: (address(20) as u32).into(),
                })
            };
            (packet.udp_source_port, packet.udp_checksum) = ports;
            let order = packet.bit_order;
            packet.bth = Bth {
                opcode: info.opcode,
                version: 0,
                pad_count: 0,
                ..spraynic_wire::Header::parse(&bth).expect("12 bytes")
            };
            packet.bit_order = order;
            let kinds = info.headers(packet.bth.timestamped);
            packet.extensions = HeaderKind::parse_all(kinds, &extension).expect("64 bytes suffice").0;
            packet.trailer = vec![seed; trailer];
            let length = if info.has_payload { length } else { 0 };
            packet.with_payload(
                (0..length)
                    .map(|at| seed.wrapping_mul(31).wrapping_add(at as u8))
                    .collect(),
            )
        },
    )
}

/// One change of a frame's bytes.
#[derive(Debug, Clone)]
pub enum Damage {
    /// One byte becomes another, near the begin or anywhere.
    Byte(prop::sample::Index, bool, u8),
    /// One bit is flipped.
    Bit(prop::sample::Index, bool, u8),
    /// The frame ends early.
    Cut(prop::sample::Index),
    /// The frame is longer.
    Append(Vec<u8>),
    /// The IPv4 checksum is made right again.
    Mend,
}

impl Damage {
    /// Makes the change.
    pub fn apply(&self, bytes: &mut Vec<u8>) {
        let reach = |near: bool, length: usize| if near { length.min(90) } else { length };
        match self {
            Self::Byte(index, near, value) if !bytes.is_empty() => {
                let at = index.index(reach(*near, bytes.len()));
                bytes[at] = *value;
            }
            Self::Bit(index, near, bit) if !bytes.is_empty() => {
                let at = index.index(reach(*near, bytes.len()));
                bytes[at] ^= 1 << (bit & 7);
            }
            Self::Cut(index) => bytes.truncate(index.index(bytes.len() + 1)),
            Self::Append(more) => bytes.extend_from_slice(more),
            Self::Mend => mend(bytes),
            Self::Byte(..) | Self::Bit(..) => {}
        }
    }
}

/// Makes the checksum of an IPv4 header behind up to two tags right, so that deeper checks are met.
pub fn mend(bytes: &mut [u8]) {
    for at in [14, 18, 22] {
        let is_ipv4 = bytes.get(at - 2..at) == Some(&[0x08, 0x00]);
        if let Some(header) = bytes.get_mut(at..at + 20).filter(|header| is_ipv4 && header[0] == 0x45) {
            let checksum = network::ipv4_checksum((&*header).try_into().expect("20 bytes"));
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            return;
        }
    }
}

/// None to a few changes; often the checksum is mended behind them.
pub fn any_damage() -> impl Strategy<Value = Vec<Damage>> {
    let index = any::<prop::sample::Index>;
    let byte = prop_oneof![any::<u8>(), Just(0), Just(0xFF)];
    let damage = prop_oneof![
        4 => (index(), any::<bool>(), byte).prop_map(|(at, near, value)| Damage::Byte(at, near, value)),
        4 => (index(), any::<bool>(), any::<u8>()).prop_map(|(at, near, bit)| Damage::Bit(at, near, bit)),
        1 => index().prop_map(Damage::Cut),
        1 => prop::collection::vec(any::<u8>(), 0..64).prop_map(Damage::Append),
    ];
    (prop::collection::vec(damage, 0..4), any::<bool>()).prop_map(|(mut changes, mend)| {
        changes.extend(mend.then_some(Damage::Mend));
        changes
    })
}
