//! Random scenarios for the transmit pipeline, by proptest: what a host asks for, in any mixture the configuration allows, and some of what it
//! must not ask for.

use proptest::prelude::*;
use proptest::sample::select;

use spraynic_config::descriptor::{Extension, HeaderTemplate, PacketDescriptor, SliceContext, WorkOpcode, WorkRequest};
use spraynic_config::{NicConfig, Operation, Profile};
use spraynic_wire::Opcode;

use super::{MemoryTiming, Scenario};
use crate::stream::Pattern;

/// Queue pairs that scenarios use.
const QUEUE_PAIRS: u32 = 4;

/// A queue pair that is open, with an MTU code that is none.
const WITHOUT_MTU: u32 = QUEUE_PAIRS;

/// A queue pair without a header template.
const WITHOUT_TEMPLATE: u32 = QUEUE_PAIRS + 1;

/// No table is so large.
const BEYOND_THE_TABLE: u32 = 0xff_fff0;

/// How much there is in a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Most work requests.
    pub requests: usize,
    /// Most descriptors or frames of each other source.
    pub others: usize,
    /// Longest message in bytes.
    pub message_bytes: u32,
}

impl Default for Size {
    fn default() -> Self {
        Self {
            requests: 24,
            others: 8,
            message_bytes: 9000,
        }
    }
}

/// Scenarios for a NIC of this configuration.
pub fn scenario(config: &NicConfig, size: Size) -> impl Strategy<Value = Scenario> + use<> {
    let profiles: Vec<Profile> = config.wire.profiles.iter().copied().collect();
    let contexts: Vec<_> = (0..QUEUE_PAIRS)
        .map(|qpn| context(qpn, profiles.clone(), config.max_mtu_code()))
        .collect();
    let templates: Vec<_> = (0..QUEUE_PAIRS).map(|qpn| template(qpn, config)).collect();
    let patterns = (
        [
            Pattern::strategy(),
            Pattern::strategy(),
            Pattern::strategy(),
            Pattern::strategy(),
        ],
        [Pattern::strategy(), Pattern::strategy()],
    );
    let sources = (
        prop::collection::vec(request(config, size.message_bytes), 0..=size.requests),
        prop::collection::vec(response(config), 0..=size.others),
        prop::collection::vec(control(config), 0..=size.others),
        prop::collection::vec(prop::collection::vec(any::<u8>(), 60..300), 0..=size.others),
    );
    // Shrinking goes from left to right: first less work, then simpler numbers.
    (
        sources,
        patterns,
        memory(),
        contexts,
        templates,
        any::<u16>(),
        any::<u32>(),
    )
        .prop_map(
            |(
                (requests, responses, control, slow_path),
                patterns,
                memory,
                contexts,
                templates,
                identification,
                time,
            )| {
                let mut scenario = Scenario {
                    contexts,
                    templates,
                    identification,
                    time_ns: u64::from(time),
                    requests,
                    responses,
                    control,
                    slow_path: slow_path.into_iter().map(not_ours).collect(),
                    memory,
                    gaps: patterns.0,
                    pressure: patterns.1,
                };
                add_wrong_writes(&mut scenario);
                scenario
            },
        )
}

/// Table writes that are counted and change nothing, or that make a queue pair useless.
fn add_wrong_writes(scenario: &mut Scenario) {
    let context = scenario.contexts[0];
    let without_mtu = SliceContext {
        qpn: WITHOUT_MTU,
        mtu: 0,
        ..context
    };
    let beyond = SliceContext {
        qpn: BEYOND_THE_TABLE,
        ..context
    };
    scenario.contexts.extend([without_mtu, beyond]);
    let beyond = HeaderTemplate {
        qpn: BEYOND_THE_TABLE,
        ..scenario.templates[0]
    };
    scenario.templates.push(beyond);
}

/// A frame that no NIC of ours would build: the EtherType is a local experiment's.
fn not_ours(mut frame: Vec<u8>) -> Vec<u8> {
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

fn memory() -> impl Strategy<Value = MemoryTiming> {
    let latency = prop_oneof![Just(0u64), 0..20u64, Just(250u64)];
    let wrong = prop_oneof![3 => Just(0u32), 1 => 2..20u32];
    (latency, Pattern::strategy(), wrong).prop_map(|(latency, gaps, wrong_one_in)| MemoryTiming {
        latency,
        gaps,
        wrong_one_in,
    })
}

fn context(qpn: u32, profiles: Vec<Profile>, max_mtu: u8) -> impl Strategy<Value = SliceContext> {
    let psn = prop_oneof![Just(0xff_fffau32), 0..1u32 << 24];
    (
        select(profiles),
        1..=max_mtu,
        any::<bool>(),
        any::<u32>(),
        psn,
        any::<(u16, u16)>(),
    )
        .prop_map(
            move |(profile, mtu, timestamps, entropy, psn, (msn, rqmsn))| SliceContext {
                qpn,
                open: true,
                profile: profile.code(),
                mtu,
                timestamps,
                entropy,
                psn,
                msn,
                rqmsn,
                ..SliceContext::default()
            },
        )
}

fn template(qpn: u32, config: &NicConfig) -> impl Strategy<Value = HeaderTemplate> + use<> {
    let versions: Vec<bool> = [(config.wire.ipv4, false), (config.wire.ipv6, true)]
        .into_iter()
        .filter_map(|(generated, ipv6)| generated.then_some(ipv6))
        .collect();
    let vlan = if config.wire.vlan {
        vec![false, true]
    } else {
        vec![false]
    };
    let flags = (select(vlan), select(versions), any::<bool>(), any::<bool>());
    let numbers = (
        any::<u64>(),
        any::<u64>(),
        any::<u16>(),
        any::<u8>(),
        any::<u8>(),
        any::<u32>(),
    );
    (flags, numbers, any::<(u128, u128, u16, u32)>()).prop_map(
        move |(
            (vlan, ipv6, spray, migration),
            numbers,
            (source_ip, destination_ip, partition_key, destination_qpn),
        )| {
            let (destination_mac, source_mac, vlan_tci, traffic_class, hop_limit, flow_label) = numbers;
            let address = |ip: u128| if ipv6 { ip } else { ip & 0xffff_ffff };
            HeaderTemplate {
                qpn,
                vlan,
                ipv6,
                spray,
                migration,
                destination_mac: destination_mac & 0xffff_ffff_ffff,
                source_mac: source_mac & 0xffff_ffff_ffff,
                vlan_tci,
                traffic_class,
                hop_limit,
                flow_label: flow_label & 0xf_ffff,
                source_ip: address(source_ip),
                destination_ip: address(destination_ip),
                partition_key,
                destination_qpn: destination_qpn & 0xff_ffff,
                ..HeaderTemplate::default()
            }
        },
    )
}

fn request(config: &NicConfig, message_bytes: u32) -> impl Strategy<Value = WorkRequest> + use<> {
    let mut kinds = vec![];
    for operation in &config.wire.operations {
        kinds.push(match operation {
            Operation::Send => (WorkOpcode::Send, false),
            Operation::SendImmediate => (WorkOpcode::Send, true),
            Operation::SendInvalidate => (WorkOpcode::SendInvalidate, false),
            Operation::Write => (WorkOpcode::Write, false),
            Operation::WriteImmediate => (WorkOpcode::Write, true),
            Operation::Read => (WorkOpcode::Read, false),
            Operation::Atomic => (WorkOpcode::CompareSwap, false),
        });
    }
    if config.wire.operations.contains(&Operation::Atomic) {
        kinds.push((WorkOpcode::FetchAdd, false));
    }
    let length = prop_oneof![
        4 => 0..300u32,
        2 => (8..=12u32, 0..3u32, -1..=1i32).prop_map(|(shift, count, off)| ((1 << shift) * count).saturating_add_signed(off)),
        1 => 0..=message_bytes,
    ];
    let length = length.prop_map(move |length| length.min(message_bytes));
    // One in many is wrong and must be dropped: an unknown queue pair or operation, two segments, an immediate where none can be.
    // a length or an address that an atomic or no message can have, a queue pair whose MTU is none.
    let wrong = prop_oneof![15 => Just(0u8), 1 => 1..9u8];
    let addresses = (any::<u64>(), any::<u64>(), any::<[u32; 3]>(), any::<[u64; 3]>());
    (
        select(kinds),
        0..QUEUE_PAIRS,
        length,
        any::<(bool, bool)>(),
        wrong,
        addresses,
    )
        .prop_map(
            |((opcode, inline_immediate), qpn, length, (solicited, signalled), wrong, (local, remote, keys, rest))| {
                let atomic = matches!(opcode, WorkOpcode::CompareSwap | WorkOpcode::FetchAdd);
                WorkRequest {
                    opcode: if wrong == 1 { 0x77 } else { opcode as u8 },
                    signalled,
                    solicited,
                    inline_immediate: inline_immediate || wrong == 2,
                    segments: if wrong == 3 { 2 } else { 1 },
                    qpn: match wrong {
                        4 => 0xff_ffff,
                        5 => WITHOUT_MTU,
                        _ => qpn,
                    },
                    local_address: local,
                    local_key: keys[0],
                    length: match wrong {
                        6 => (1 << 31) + 1 + length,
                        7 if atomic => 7,
                        _ if atomic => 8,
                        _ => length,
                    },
                    remote_address: match wrong {
                        8 if atomic => remote | 1,
                        _ if atomic => remote & !7,
                        _ => remote,
                    },
                    remote_key: keys[1],
                    immediate: keys[2],
                    compare: rest[0],
                    swap_add: rest[1],
                    cookie: rest[2],
                    ..WorkRequest::default()
                }
            },
        )
}

/// A descriptor with an opcode of the wire and any bytes as its extension headers.
fn descriptor(opcode: Opcode, words: u8, payload_length: u16) -> impl Strategy<Value = PacketDescriptor> {
    let qpn = prop_oneof![15 => 0..QUEUE_PAIRS, 1 => Just(WITHOUT_TEMPLATE)];
    let numbers = (qpn, 0..1u32 << 24, any::<u32>(), any::<u32>(), any::<u64>());
    (
        numbers,
        any::<(bool, bool)>(),
        prop::array::uniform32(any::<u8>()),
        any::<u32>(),
    )
        .prop_map(
            move |((qpn, psn, entropy, local_key, local_address), (solicited, ack_request), low, high)| {
                let mut bytes = [0; 36];
                bytes[..32].copy_from_slice(&low);
                bytes[32..].copy_from_slice(&high.to_le_bytes());
                bytes[usize::from(words) * 4..].fill(0);
                PacketDescriptor {
                    qpn,
                    opcode: opcode.0,
                    psn,
                    solicited,
                    ack_request,
                    extension_words: words,
                    entropy,
                    payload_length,
                    local_key,
                    local_address,
                    extension: Extension(bytes),
                    ..PacketDescriptor::default()
                }
            },
        )
}

/// A packet with payload from the responder; where no READ is possible, one that looks like a WRITE sent again.
fn response(config: &NicConfig) -> impl Strategy<Value = PacketDescriptor> + use<> {
    let words: Vec<u8> = config
        .payload_extension_lengths()
        .into_iter()
        .map(|bytes| (bytes / 4) as u8)
        .collect();
    (select(words), 1..=config.wire.max_mtu as u16)
        .prop_flat_map(|(words, length)| descriptor(Opcode::READ_RESPONSE_MIDDLE, words, length))
}

/// A packet without payload: one in some has a length of headers that was not generated.
fn control(config: &NicConfig) -> impl Strategy<Value = PacketDescriptor> + use<> {
    let words: Vec<u8> = config
        .extension_lengths()
        .into_iter()
        .map(|bytes| (bytes / 4) as u8)
        .collect();
    prop_oneof![9 => select(words), 1 => 0..=9u8].prop_flat_map(|words| descriptor(Opcode::ACKNOWLEDGE, words, 0))
}
