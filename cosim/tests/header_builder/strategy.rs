//! Strategies for what the block is given: templates and descriptors, mostly of what the configuration has, some not, and payload of the right or
//! a wrong length.

use std::collections::BTreeSet;

use proptest::prelude::*;
use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Extension, HeaderTemplate, PacketDescriptor};

use super::{Packet, Patterns, QUEUE_PAIRS, Scenario, configs};

fn qpn() -> impl Strategy<Value = u32> {
    prop_oneof![30 => 0..QUEUE_PAIRS, 1 => 0..1u32 << 24]
}

/// Mostly templates that the configuration has the headers for.
fn template(config: &NicConfig) -> impl Strategy<Value = HeaderTemplate> + use<> {
    let (ipv4, all) = (config.wire.ipv4, config.wire.ipv4 && config.wire.ipv6);
    let vlan = if config.wire.vlan { 0.5 } else { 0.1 };
    let ipv6 = match (ipv4, all) {
        (_, true) => 0.5,
        (true, _) => 0.1,
        _ => 0.9,
    };
    let flags = (
        prop::bool::weighted(vlan),
        prop::bool::weighted(ipv6),
        any::<bool>(),
        any::<bool>(),
    );
    // Words of ones make the checksum carry.
    let address = || {
        prop_oneof![
            any::<u128>(),
            any::<u32>().prop_map(|low| u128::MAX << 32 | u128::from(low | 0xFFFF))
        ]
    };
    let small = (
        any::<u16>(),
        any::<u8>(),
        any::<u8>(),
        0..1u32 << 20,
        any::<u16>(),
        0..1u32 << 24,
    );
    let macs = (0..1u64 << 48, 0..1u64 << 48);
    (qpn(), flags, macs, address(), address(), small).prop_map(
        |(qpn, (vlan, ipv6, spray, migration), macs, source_ip, destination_ip, small)| {
            let (vlan_tci, traffic_class, hop_limit, flow_label, partition_key, destination_qpn) = small;
            HeaderTemplate {
                qpn,
                vlan,
                ipv6,
                spray,
                migration,
                destination_mac: macs.0,
                source_mac: macs.1,
                vlan_tci,
                traffic_class,
                hop_limit,
                flow_label,
                source_ip,
                destination_ip,
                partition_key,
                destination_qpn,
                ..HeaderTemplate::default()
            }
        },
    )
}

/// Mostly one of these lengths, sometimes any number of words.
fn extension_words(lengths: &BTreeSet<u32>) -> BoxedStrategy<u8> {
    let words: Vec<u8> = lengths.iter().map(|bytes| (bytes / 4) as u8).collect();
    match words.is_empty() {
        true => (0..16u8).boxed(),
        false => prop_oneof![20 => prop::sample::select(words), 1 => 0..16u8].boxed(),
    }
}

fn descriptor(config: &NicConfig, payload: bool) -> impl Strategy<Value = PacketDescriptor> + use<> {
    let max = config.wire.max_mtu as u16;
    let length = match payload {
        false => Just(0).boxed(),
        true => prop_oneof![
            12 => 1..300u16,
            2 => 1..=max,
            2 => (0..8u16).prop_map(move |less| max - less),
            1 => 1..8192u16,
        ]
        .boxed(),
    };
    let words = match payload {
        true => extension_words(&config.payload_extension_lengths()),
        false => extension_words(&config.extension_lengths()),
    };
    let flags = prop::array::uniform6(any::<bool>());
    let numbers = (any::<u8>(), 0..1u32 << 24, any::<u32>(), any::<u64>());
    (qpn(), numbers, flags, 0..4u8, words, length, any::<[u8; 36]>()).prop_map(
        |(qpn, (opcode, psn, entropy, local_address), flags, stamp, extension_words, payload_length, extension)| {
            let [solicited, ack_request, retransmission, timestamped, mrc, becn] = flags;
            PacketDescriptor {
                qpn,
                opcode,
                psn,
                solicited,
                ack_request,
                retransmission,
                timestamped,
                mrc,
                becn,
                stamp,
                extension_words,
                entropy,
                port: (psn & 7) as u8,
                payload_length,
                local_key: entropy ^ psn,
                local_address,
                extension: Extension(extension),
                ..PacketDescriptor::default()
            }
        },
    )
}

/// A packet; sometimes its payload has another length than it says.
fn packet(config: &NicConfig) -> impl Strategy<Value = Packet> + use<> {
    let descriptor = prop_oneof![1 => descriptor(config, false), 4 => descriptor(config, true)];
    let delivered = prop_oneof![
        10 => Just(None),
        1 => (1..70i32).prop_map(Some),
        1 => (-70..0i32).prop_map(Some),
        1 => (1..5000i32).prop_map(|length| Some(10_000 + length)),
    ];
    (descriptor, delivered, any::<u8>()).prop_map(|(descriptor, delivered, seed)| {
        let announced = i32::from(descriptor.payload_length);
        let length = match delivered {
            None => announced,
            Some(any) if any > 10_000 => any - 10_000,
            Some(change) => (announced + change).max(1),
        };
        let length = if announced == 0 { 0 } else { length };
        let byte = |index: i32| (index.wrapping_mul(7) as u8).wrapping_add((index >> 5) as u8) ^ seed;
        Packet {
            descriptor,
            payload: (0..length).map(byte).collect(),
            payload_from: 0,
        }
    })
}

pub(super) fn scenario(index: usize) -> impl Strategy<Value = Scenario> {
    let config = &configs()[index];
    let first = prop::collection::vec(template(config), QUEUE_PAIRS as usize);
    let rewrites = prop::collection::vec((0..1500u64, template(config)), 0..6);
    let packets = prop::collection::vec(packet(config), 0..25);
    let most = if config.wire.control { 25 } else { 1 };
    let control = prop::collection::vec((0..1500u64, descriptor(config, true)), 0..most);
    (first, rewrites, packets, control, any::<u16>(), Patterns::strategy()).prop_map(
        |(first, mut rewrites, packets, mut control, identification, patterns)| {
            let first = first.into_iter().zip(0..QUEUE_PAIRS);
            let mut templates: Vec<_> = first
                .map(|(template, qpn)| (0, HeaderTemplate { qpn, ..template }))
                .collect();
            rewrites.sort_by_key(|(cycle, _)| *cycle);
            control.sort_by_key(|(cycle, _)| *cycle);
            templates.extend(rewrites);
            Scenario {
                templates,
                packets,
                control,
                identification,
                patterns,
            }
        },
    )
}
