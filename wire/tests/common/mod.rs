//! What the tests of the crate share: the captures, random packets, and what must hold of any bytes.
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(unreachable_pub, reason = "shared by several test crates")]

pub mod check;

use std::path::PathBuf;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use spraynic_wire::opcode::OPCODES;
use spraynic_wire::pcap::{CapturedFrame, Reader};
use spraynic_wire::{
    BitOrder, Bth, Ethernet, Header, HeaderKind, Ip, Ipv4, Ipv6, MacAddress, OpcodeInfo, Packet, Profile, VlanTag,
    pad_count,
};

/// A failing case is printed and kept in `file`, from which the next run begins.
pub fn config(file: &'static str) -> ProptestConfig {
    ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..ProptestConfig::default()
    }
}

/// Directory of the captures.
pub fn data_directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/data")
}

/// All frames of a capture in `tests/data`.
pub fn capture(name: &str) -> Vec<CapturedFrame> {
    Reader::read_all(&data_directory().join(name)).expect(name)
}

/// Every capture in `tests/data`, by name.
pub fn captures() -> Vec<(String, Vec<CapturedFrame>)> {
    let mut names: Vec<String> = std::fs::read_dir(data_directory())
        .expect("tests/data")
        .map(|entry| entry.expect("entry").file_name().into_string().expect("name"))
        .filter(|name| name.ends_with(".pcap"))
        .collect();
    names.sort();
    assert_eq!(names.len(), 8, "the captures of tests/data/README.md");
    names.into_iter().map(|name| (name.clone(), capture(&name))).collect()
}

fn ethernet() -> impl Strategy<Value = Ethernet> {
    let tag = (prop_oneof![Just(0x8100), Just(0x88A8)], any::<u16>()).prop_map(|(tpid, tci)| VlanTag { tpid, tci });
    (any::<[u8; 6]>(), any::<[u8; 6]>(), prop::collection::vec(tag, 0..=2)).prop_map(|(destination, source, vlans)| {
        Ethernet {
            destination: MacAddress(destination),
            source: MacAddress(source),
            vlans,
        }
    })
}

fn ip() -> impl Strategy<Value = Ip> {
    let v4 = (
        any::<u8>(),
        any::<u16>(),
        any::<bool>(),
        any::<u8>(),
        any::<[u8; 4]>(),
        any::<[u8; 4]>(),
    )
        .prop_map(|(tos, identification, dont_fragment, ttl, source, destination)| {
            let (source, destination) = (source.into(), destination.into());
            Ip::V4(Ipv4 {
                tos,
                identification,
                dont_fragment,
                ttl,
                checksum: None,
                source,
                destination,
            })
        });
    let v6 = (
        any::<u8>(),
        0u32..1 << 20,
        any::<u8>(),
        any::<[u8; 16]>(),
        any::<[u8; 16]>(),
    )
        .prop_map(|(traffic_class, flow_label, hop_limit, source, destination)| {
            let (source, destination) = (source.into(), destination.into());
            Ip::V6(Ipv6 {
                traffic_class,
                flow_label,
                hop_limit,
                source,
                destination,
            })
        });
    prop_oneof![v4, v6]
}

/// The profile to parse a packet with, and the packet, checksum and ICRC to be computed.
pub fn packet() -> impl Strategy<Value = (Option<Profile>, Packet)> {
    let profile = (0..OPCODES.len(), any::<prop::sample::Index>(), any::<bool>()).prop_map(|(at, index, known)| {
        let info = &OPCODES[at];
        (info, known.then(|| *index.get(info.profiles)))
    });
    (
        profile,
        ethernet(),
        ip(),
        any::<(u16, u16)>(),
        any::<[u8; 12]>(),
        any::<[u8; 64]>(),
        payload(),
    )
        .prop_map(
            |((info, profile), ethernet, ip, ports, bth, headers, (payload, pad, trailer))| {
                build(
                    info,
                    profile,
                    ethernet,
                    ip,
                    ports,
                    bth,
                    &headers,
                    (payload, pad, trailer),
                )
            },
        )
}

type Body = (Vec<u8>, [u8; 3], Vec<u8>);

fn payload() -> impl Strategy<Value = Body> {
    let length = prop_oneof![4 => 0usize..80, 1 => 0usize..=4096];
    let bytes = length.prop_flat_map(|length| prop::collection::vec(any::<u8>(), length));
    (bytes, any::<[u8; 3]>(), prop::collection::vec(any::<u8>(), 0..20))
}

#[expect(clippy::too_many_arguments, reason = "the parts of a packet")]
fn build(
    info: &OpcodeInfo,
    profile: Option<Profile>,
    ethernet: Ethernet,
    ip: Ip,
    (udp_source_port, udp_checksum): (u16, u16),
    bth: [u8; 12],
    headers: &[u8],
    (payload, pad, trailer): Body,
) -> (Option<Profile>, Packet) {
    let mut bth = Bth {
        opcode: info.opcode,
        version: 0,
        ..Bth::parse(&bth).expect("12 bytes")
    };
    let payload = if info.has_payload { payload } else { Vec::new() };
    bth.pad_count = pad_count(payload.len());
    let mut kept = [0; 3];
    kept[..usize::from(bth.pad_count)].copy_from_slice(&pad[..usize::from(bth.pad_count)]);
    let (extensions, _) = HeaderKind::parse_all(info.headers(bth.timestamped), headers).expect("64 bytes suffice");
    let bit_order = if profile == Some(Profile::Mrc) {
        BitOrder::Mrc
    } else {
        info.opcode.bit_order()
    };
    let packet = Packet {
        ethernet,
        ip,
        udp_source_port,
        udp_checksum,
        bit_order,
        bth,
        extensions,
        payload,
        pad: kept,
        icrc: None,
        trailer,
    };
    (profile, packet)
}
