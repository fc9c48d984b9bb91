//! Frames of any kind, right, wrong, damaged, noise: no harm is done, and each ends in one place.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use spraynic_config::descriptor::{MemoryRegion, QueuePairContext, ReceiveRequest};
use spraynic_config::{NicConfig, Preset};
use spraynic_cosim::receive::judge::judge;
use spraynic_cosim::receive::patterns::Patterns;
use spraynic_cosim::receive::traffic::profile_of;
use spraynic_cosim::receive::traffic::strategy::QUEUE_PAIRS;
use spraynic_cosim::receive::{Scenario, small};
use spraynic_cosim::{Frame, Simulation};
use spraynic_golden::received_frames::{Damage, any_damage, any_packet};
use spraynic_wire::{Extension, Ip, Psn};

use super::{LIMITS, check_places, model};

/// Frames in a run of hostile bytes; a queue pair that was refused takes nothing more, so runs are short.
const HOSTILE_FRAMES: usize = 500;
/// Where peers may write. Atomics work at its end, where no WRITE goes: what an atomic finds of a WRITE behind it is a matter of time.
const REGION: std::ops::Range<u64> = 4096..24_576;
const ATOMICS: u64 = REGION.end - 4096;
/// Receive requests, each of 64 bytes, behind it.
const BUFFERS: std::ops::Range<u64> = REGION.end..REGION.end + 64 * 32;
const FIRST_PSN: u32 = 0xFF_FFF8;
/// Addresses of the peer and of this side; as IPv6 addresses, with zeros before.
const PEER_IP: u128 = 0x0A00_0002;
const LOCAL_IP: u128 = 0x0A00_0001;

/// Memory that a hostile packet names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Right,
    Key,
    Bounds,
    Anything,
}

/// A frame as a peer might send it, or somebody else: right ones, wrong ones, damaged ones, noise.
fn hostile_frame() -> impl Strategy<Value = Frame> {
    let psn = prop_oneof![6 => 0u32..24, 1 => 0u32..200, 1 => any::<u32>()];
    let fields = (
        0u32..8,
        psn,
        prop::bool::weighted(0.9),
        prop_oneof![16 => Just(Named::Right), 1 => Just(Named::Key), 1 => Just(Named::Bounds), 1 => Just(Named::Anything)],
        0u64..8192,
        prop::bool::weighted(0.01),
    );
    let damage = prop_oneof![3 => Just(Vec::new()), 1 => any_damage()];
    let packet =
        (any_packet(), fields, damage).prop_map(|(mut packet, (qpn, psn, from_peer, named, at, bad), damage)| {
            let mrc = packet.bth.opcode.0 >= 0xC0;
            let suited = if mrc { 2 } else { qpn & 1 } + if matches!(packet.ip, Ip::V6(_)) { 3 } else { 0 };
            packet.bth.destination_qpn = if from_peer { suited } else { qpn };
            packet.bth.psn = Psn::new(FIRST_PSN.wrapping_add(psn));
            packet.bth.partition_key |= 0x7FFF;
            match &mut packet.ip {
                Ip::V4(ip) if from_peer => (ip.source, ip.destination) = ([10, 0, 0, 2].into(), [10, 0, 0, 1].into()),
                Ip::V6(ip) if from_peer => (ip.source, ip.destination) = (PEER_IP.into(), LOCAL_IP.into()),
                _ => {}
            }
            let bytes = packet.payload.len() as u32;
            let (address, key) = match named {
                Named::Bounds => (REGION.end - u64::from(bytes / 2), HOSTILE_KEY),
                Named::Key => (REGION.start + at, HOSTILE_KEY ^ 1),
                _ => (REGION.start + at, HOSTILE_KEY),
            };
            for extension in packet.extensions.iter_mut().filter(|_| named != Named::Anything) {
                match extension {
                    Extension::Reth(reth) => {
                        (reth.virtual_address, reth.remote_key, reth.length) = (address, key, bytes);
                    }
                    Extension::AtomicEth(atomic) => {
                        let cell = ATOMICS + 64 * u64::from(suited) + (at & 0x38);
                        let address = if named == Named::Bounds { REGION.end } else { cell };
                        (atomic.virtual_address, atomic.remote_key) = (address, key);
                    }
                    _ => {}
                }
            }
            let mut bytes = packet.emit();
            damage.iter().for_each(|damage: &Damage| damage.apply(&mut bytes));
            bytes.resize(bytes.len().max(1), 0);
            Frame {
                user: u64::from(bad),
                ..Frame::new(bytes)
            }
        });
    let noise = prop::collection::vec(any::<u8>(), 1..200).prop_map(Frame::new);
    prop_oneof![30 => packet, 1 => noise]
}

/// R_Key of the region: index 2, generation 9.
const HOSTILE_KEY: u32 = 0x0000_0209;

fn hostile_scenario(config: &NicConfig, frames: Vec<Frame>, patterns: Patterns) -> Scenario {
    let contexts = (0..QUEUE_PAIRS).map(|qpn| QueuePairContext {
        qpn,
        state: if qpn == 4 { 2 } else { 3 },
        ipv6: qpn >= 3,
        profile: profile_of(config, qpn).code(),
        mtu: 3,
        remote_write: true,
        remote_read: true,
        remote_atomic: true,
        partition_key: 0xFFFF,
        psn: FIRST_PSN,
        response_psn: FIRST_PSN,
        peer_ip: PEER_IP,
        local_ip: LOCAL_IP,
        ..QueuePairContext::default()
    });
    let receive_requests = (0..32).map(|index: u64| ReceiveRequest {
        qpn: index as u32 % QUEUE_PAIRS,
        length: 64,
        address: BUFFERS.start + 64 * index,
        cookie: index,
        ..ReceiveRequest::default()
    });
    Scenario {
        contexts: contexts.collect(),
        regions: vec![MemoryRegion {
            generation: HOSTILE_KEY as u8,
            index: HOSTILE_KEY >> 8,
            valid: true,
            remote_write: true,
            remote_read: true,
            remote_atomic: true,
            base: REGION.start,
            length: REGION.end - REGION.start,
            address: REGION.start,
            ..MemoryRegion::default()
        }],
        receive_requests: receive_requests.collect(),
        memory: vec![0x5A; BUFFERS.end as usize + 4096],
        frames,
        memory_latency: 30,
        patterns,
        ..Scenario::default()
    }
}

/// Frames of any kind: no hang, nothing outside of regions and buffers is written, each frame is counted in one place, and all is as the golden
/// models say. `SPRAYNIC_FRAMES=1000000` for a million frames; `SPRAYNIC_SEED` for other ones.
#[test]
fn hostile_frames_do_no_harm() {
    let Some(model) = model(Preset::G100) else { return };
    let config = small(Preset::G100);
    let number = |name: &str, otherwise: u64| {
        let value = std::env::var(name).ok();
        value.map_or(otherwise, |value| {
            value.parse().unwrap_or_else(|_| panic!("{name}={value}: no number"))
        })
    };
    let (frames, seed) = (number("SPRAYNIC_FRAMES", 3000), number("SPRAYNIC_SEED", 1));
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(
        ProptestConfig::default(),
        TestRng::from_seed(RngAlgorithm::ChaCha, &bytes),
    );
    let inputs = (
        prop::collection::vec(hostile_frame(), HOSTILE_FRAMES),
        Patterns::strategy(),
    );
    let mut reached: BTreeMap<String, u64> = BTreeMap::new();
    for run in 0..frames.div_ceil(HOSTILE_FRAMES as u64) {
        let at = format!("SPRAYNIC_SEED={seed} SPRAYNIC_FRAMES={frames}, run {run}");
        let (frames, patterns) = inputs.new_tree(&mut runner).expect("a value").current();
        let scenario = hostile_scenario(&config, frames, patterns);
        let result = scenario
            .run(&mut Simulation::new(&model, 1), &config, LIMITS)
            .unwrap_or_else(|error| panic!("{at}: {error}"));
        for (address, byte) in result.memory.iter().enumerate() {
            let reachable = REGION.contains(&(address as u64)) || BUFFERS.contains(&(address as u64));
            assert!(reachable || *byte == 0x5A, "{at}: address {address:#x} was written");
        }
        check_places(&result, scenario.frames.len()).unwrap_or_else(|error| panic!("{at}: {error}"));
        judge(&config, &scenario, &result).unwrap_or_else(|difference| panic!("{at}: {difference}"));
        for (name, value) in result.outcome.counters {
            *reached.entry(name).or_default() += value;
        }
    }
    for name in [
        "packet_parser_slow_path",
        "icrc_drop_icrc",
        "qp_lookup_drop_peer",
        "reorder_buffer_stored",
        "reorder_buffer_duplicates",
        "responder_accepted",
        "responder_refused_remote_access",
        "responder_refused_invalid_request",
        "payload_writer_writes",
        "response_engine_read_responses",
    ] {
        assert!(reached[name] > 0, "no frame came as far as {name}: {reached:?}");
    }
}
