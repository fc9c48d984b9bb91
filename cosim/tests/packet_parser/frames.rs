//! Frames that a MAC may give: packets of every kind, packets damaged, packets of the host, and noise.

use proptest::prelude::*;
use spraynic_golden::frame::Frame;
use spraynic_golden::packet_parser::TrimmedDscp;
use spraynic_golden::received_frames::{any_damage, any_packet, mend};
use spraynic_wire::{Ip, Packet};

/// Any frame, for a block whose ports say this of trimmed packets. Never empty.
pub(crate) fn any_frame(trimmed: TrimmedDscp) -> impl Strategy<Value = Frame> {
    let bytes = prop_oneof![
        6 => packet(trimmed),
        2 => (packet(trimmed), any::<prop::sample::Index>(), any::<bool>()).prop_map(|(bytes, change, mended)| {
            for_the_host(bytes, change.index(HOST_CHANGES), mended)
        }),
        1 => prop::collection::vec(any::<u8>(), 1..200),
    ];
    (bytes, prop::bool::weighted(0.05)).prop_map(|(mut bytes, bad)| {
        if bytes.is_empty() {
            bytes.push(0);
        }
        Frame {
            bad,
            ..Frame::plain(bytes)
        }
    })
}

/// A packet as its sender or a switch may have left it, whole or damaged, padded to the shortest frame or not.
fn packet(trimmed: TrimmedDscp) -> impl Strategy<Value = Vec<u8>> {
    let dscp = prop_oneof![4 => Just(None), 1 => Just(Some(trimmed.trimmed)), 1 => Just(Some(trimmed.last_hop))];
    let damage = prop_oneof![1 => Just(vec![]), 1 => any_damage()];
    (any_packet(), dscp, damage, any::<bool>()).prop_map(|(mut packet, dscp, damage, padded)| {
        if let Some(dscp) = dscp {
            set_dscp(&mut packet, dscp);
        }
        let mut bytes = packet.emit();
        if padded {
            bytes.resize(bytes.len().max(60), 0xEE);
        }
        damage.iter().for_each(|damage| damage.apply(&mut bytes));
        bytes
    })
}

fn set_dscp(packet: &mut Packet, dscp: u8) {
    match &mut packet.ip {
        Ip::V4(ip) => ip.tos = dscp << 2 | ip.tos & 3,
        Ip::V6(ip) => ip.traffic_class = dscp << 2 | ip.traffic_class & 3,
    }
}

/// Ways in which [`for_the_host`] changes a packet.
const HOST_CHANGES: usize = 12;

/// A packet that becomes the host's by one change of its headers.
fn for_the_host(mut bytes: Vec<u8>, change: usize, mended: bool) -> Vec<u8> {
    let ip = [14, 18, 22]
        .into_iter()
        .find(|at| matches!(bytes.get(at - 2..*at), Some([0x08, 0] | [0x86, 0xDD])));
    let ip = ip.unwrap_or(14);
    let ipv6 = bytes.get(ip).is_some_and(|first| first >> 4 == 6);
    let udp = ip + if ipv6 { 40 } else { 20 };
    let mut set = |at: usize, value: u8| {
        if let Some(byte) = bytes.get_mut(at) {
            *byte = value;
        }
    };
    match change {
        0 => set(ip - 1, 0x06), // ARP
        1 => set(ip, if ipv6 { 0x45 } else { 0x65 }),
        2 => set(ip, 0x46),                              // options
        3 => set(ip, 0x44),                              // header of 4 words
        4 => set(ip + 6, 0x20),                          // more fragments; IPv6: another next header
        5 => set(ip + 7, 0x01),                          // at an offset; IPv6: hop limit
        6 => set(ip + 6, 0x80),                          // reserved flag
        7 => set(if ipv6 { ip + 6 } else { ip + 9 }, 6), // TCP
        8 => set(if ipv6 { ip + 6 } else { ip + 9 }, 0), // hop by hop
        9 => set(udp + 2, 0x13),
        10 => set(udp + 3, 0x35),
        _ => {
            let tags = [0x81, 0, 0, 1].repeat(3);
            bytes.splice(12.min(bytes.len())..12.min(bytes.len()), tags);
        }
    }
    if mended {
        mend(&mut bytes);
    }
    bytes
}
