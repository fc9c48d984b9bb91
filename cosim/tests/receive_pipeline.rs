//! The whole receive path in Verilog: messages of all profiles over a network that loses, repeats, damages and reorders end in memory, each exactly
//! once; and each frame is counted in one place.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use spraynic_config::descriptor::{HeaderTemplate, MemoryRegion, PacketDescriptor, QueuePairContext, ReceiveRequest};
use spraynic_config::{NicConfig, Preset, Profile};
use spraynic_cosim::receive::judge::judge;
use spraynic_cosim::receive::traffic::{Expected, Kind, Message, Network, profile_of, scenario};
use spraynic_cosim::receive::{Result, Scenario, small, source};
use spraynic_cosim::{Bench, Builder, Frame, Limits, Model, ModelSource, Pattern, Simulation, Verilator};
use spraynic_golden::ack_engine::Pacing;
use spraynic_golden::received_frames::{Damage, any_damage, any_packet};
use spraynic_wire::{Extension, Ip, Packet, Psn};

const QUEUE_PAIRS: u32 = 6;

/// The model; `None`, with a message, where there is no Verilator. Under CI that is a failure.
fn model(preset: Preset) -> Option<Arc<Model>> {
    static MODELS: [OnceLock<Arc<Model>>; 4] = [const { OnceLock::new() }; 4];
    if let Err(error) = Verilator::find() {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci.is_empty()), "{error}");
        eprintln!("skipped: {error}");
        return None;
    }
    let model = MODELS[preset as usize].get_or_init(|| {
        Builder::new()
            .build(&source(&small(preset)))
            .unwrap_or_else(|error| panic!("{error}"))
    });
    Some(Arc::clone(model))
}

fn counter(result: &Result, name: &str) -> u64 {
    *result
        .outcome
        .counters
        .get(name)
        .unwrap_or_else(|| panic!("no counter {name}"))
}

/// The sum of all counters whose name begins so.
fn sum(result: &Result, prefix: &str) -> u64 {
    let counters = result.outcome.counters.iter();
    counters
        .filter(|(name, _)| name.starts_with(prefix))
        .map(|(_, value)| value)
        .sum()
}

/// Each frame is counted in one place, block by block.
fn check_places(result: &Result, frames: usize) -> std::result::Result<(), TestCaseError> {
    let c = |name| counter(result, name);
    prop_assert_eq!(c("packet_parser_frames"), frames as u64);
    let parsed = c("packet_parser_slow_path") + sum(result, "packet_parser_drop_") + c("packet_parser_packets");
    prop_assert_eq!(parsed, frames as u64, "parser");
    let checked = c("icrc_right") + c("icrc_unchecked") + c("icrc_drop_icrc");
    prop_assert_eq!(checked, c("packet_parser_packets"), "icrc");
    let routes = c("qp_lookup_sequence") + c("qp_lookup_feedback") + c("qp_lookup_probe") + c("qp_lookup_endpoint");
    let refused = sum(result, "qp_lookup_drop_") - c("qp_lookup_drop_context");
    prop_assert_eq!(routes + refused, c("icrc_right") + c("icrc_unchecked"), "qp_lookup");
    let kept = c("reorder_buffer_passed") + c("reorder_buffer_stored") + c("reorder_buffer_duplicates");
    prop_assert_eq!(
        kept + sum(result, "reorder_buffer_drop_"),
        c("qp_lookup_sequence"),
        "reorder_buffer"
    );
    Ok(())
}

fn check(
    config: &NicConfig,
    scenario: &Scenario,
    expected: &Expected,
    result: &Result,
) -> std::result::Result<(), TestCaseError> {
    let different = result
        .memory
        .iter()
        .zip(&expected.memory)
        .position(|(rtl, sent)| rtl != sent);
    prop_assert_eq!(
        different,
        None,
        "memory differs from what was sent from this address on"
    );
    let mut completions: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for completion in &result.completions {
        prop_assert_eq!(completion.status, 0, "{:?}", completion);
        completions.entry(completion.qpn).or_default().push(completion.cookie);
    }
    prop_assert_eq!(&completions, &expected.completions, "completions, in their order");
    for (qpn, executed) in &expected.executed {
        let responses = result.responses.iter().filter(|given| {
            // First or only packet of a READ response, atomic ACK.
            given.packet.qpn == *qpn && matches!(given.packet.opcode, 0x0D | 0x10 | 0x12)
        });
        let responses = responses.count();
        match profile_of(config, *qpn) {
            Profile::Roce => prop_assert!(responses >= *executed, "{} of {}", responses, executed),
            _ => prop_assert_eq!(responses, *executed, "queue pair {}", qpn),
        }
    }
    prop_assert_eq!(sum(result, "responder_refused_"), 0);
    prop_assert_eq!(
        counter(result, "reorder_buffer_stored"),
        counter(result, "reorder_buffer_released"),
        "slots that never came free"
    );
    check_places(result, scenario.frames.len())
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let length = prop_oneof![3 => 0u32..300, 2 => 0u32..5000, 1 => Just(1024), 1 => Just(4096)];
    let message = (
        0..QUEUE_PAIRS,
        prop::sample::select(Kind::ALL.to_vec()),
        length,
        0u32..128,
    )
        .prop_map(|(qpn, kind, length, offset)| Message {
            qpn,
            kind,
            length,
            offset,
        });
    prop::collection::vec(message, 1..40)
}

fn network() -> impl Strategy<Value = Network> {
    let share = || prop_oneof![Just(0u8), 0u8..60];
    let reordered = prop_oneof![Just(0u32), 1u32..10, 40u32..120];
    (any::<u64>(), share(), share(), share(), reordered).prop_map(|(seed, lost, repeated, damaged, reordered)| {
        Network {
            seed,
            lost,
            repeated,
            damaged,
            reordered,
        }
    })
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(24)
}

fn arrive(preset: Preset) {
    let Some(model) = model(preset) else { return };
    let config = small(preset);
    let inputs = (messages(), network(), Pattern::strategy(), Pattern::strategy());
    let proptest = ProptestConfig {
        cases: cases(),
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    };
    proptest!(proptest, |((messages, network, gaps, pressure) in inputs)| {
        let (scenario, expected) = scenario(&config, QUEUE_PAIRS, &messages, network);
        let scenario = Scenario { gaps, pressure, ..scenario };
        let result = scenario
            .run(&mut Simulation::new(&model, 1), &config, Limits { quiet_clocks: 3000, hang_clocks: 20_000, ..Limits::default() })
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        check(&config, &scenario, &expected, &result)?;
        judge(&config, &scenario, &result).map_err(|difference| TestCaseError::fail(difference.to_string()))?;
    });
}

#[test]
fn messages_arrive_exactly_once_at_512_bits() {
    arrive(Preset::G100);
}

#[test]
fn messages_arrive_exactly_once_at_64_bits() {
    arrive(Preset::Lab);
}

/// 512 and 64 bits; with `SPRAYNIC_ALL_WIDTHS` in the environment 128 and 1024 too, whose models take a minute to build.
fn presets() -> Vec<Preset> {
    let all = std::env::var_os("SPRAYNIC_ALL_WIDTHS").is_some();
    let more = [Preset::G25, Preset::G400].into_iter().filter(|_| all);
    [Preset::G100, Preset::Lab].into_iter().chain(more).collect()
}

/// Frames back to back, in order, to one queue pair of each profile in turn: the MAC never waits, and the last byte is in memory soon after.
#[test]
fn whole_packets_come_at_one_beat_a_clock_from_wire_to_memory() {
    for preset in presets() {
        let Some(model) = model(preset) else { return };
        let config = small(preset);
        let beat = config.datapath.width_bits as usize / 8;
        for qpn in 0..3 {
            let messages = [Message {
                qpn,
                kind: Kind::Write,
                length: 4096,
                offset: 0,
            }; 24];
            let quiet = Network {
                seed: 3,
                lost: 0,
                repeated: 0,
                damaged: 0,
                reordered: 0,
            };
            let (scenario, expected) = scenario(&config, QUEUE_PAIRS, &messages, quiet);
            // The first of five passes: each frame once.
            let frames = scenario.frames[..scenario.frames.len() / 5].to_vec();
            let beats: usize = frames.iter().map(|frame| frame.data.len().div_ceil(beat)).sum();
            let scenario = Scenario { frames, ..scenario };
            let result = scenario
                .run(&mut Simulation::new(&model, 1), &config, Limits::default())
                .unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(result.memory, expected.memory);
            let accepted = result.outcome.accepted("s_axis");
            let (first, last) = (accepted[0].first_cycle, accepted[accepted.len() - 1].last_cycle);
            let written = result.outcome.received("m_axis_write_data");
            let arrived = written[written.len() - 1].last_cycle;
            let profile = profile_of(&config, qpn);
            println!(
                "{preset:?} {profile:?}: {beats} beats in {} clocks, in memory {} clocks later",
                last - first + 1,
                arrived - last
            );
            assert_eq!(last - first + 1, beats as u64, "{preset:?} {profile:?}: the MAC waited");
            // A packet is held until its ICRC has been judged.
            let most = 4096 / beat as u64 + 100;
            assert!(
                arrived - last <= most,
                "{preset:?} {profile:?}: {} clocks to memory",
                arrived - last
            );
        }
    }
}

/// Clocks from the last beat of a packet to the SACK's descriptor, and from there to the first beat of its frame, that
/// docs/src/blocks/receive_pipeline.md states.
const SACK_CLOCKS: [(Preset, u64, u64); 2] = [(Preset::G100, 25, 10), (Preset::Lab, 33, 9)];

/// A single packet that asks for a SACK, on an idle NIC: clocks from its last beat to the SACK's descriptor, and through the transmit path to
/// the first beat of the SACK on the wire. `m_axis_control` of one is `s_axis_control` of the other, so the clocks add up.
#[test]
fn a_sack_leaves_within_clocks() {
    for (preset, to_descriptor, to_frame) in SACK_CLOCKS {
        let Some(model) = model(preset) else { return };
        let config = small(preset);
        let solar = (0..QUEUE_PAIRS)
            .find(|qpn| profile_of(&config, *qpn) == Profile::Solar)
            .unwrap();
        let message = Message {
            qpn: solar,
            kind: Kind::Write,
            length: 64,
            offset: 0,
        };
        let quiet = Network {
            seed: 5,
            lost: 0,
            repeated: 0,
            damaged: 0,
            reordered: 0,
        };
        let (scenario, _) = scenario(&config, QUEUE_PAIRS, &[message], quiet);
        let scenario = Scenario {
            frames: vec![Frame {
                not_before: 500,
                ..scenario.frames[0].clone()
            }],
            pacing: Pacing::default(),
            ..scenario
        };
        let result = scenario
            .run(&mut Simulation::new(&model, 1), &config, Limits::default())
            .unwrap_or_else(|error| panic!("{error}"));
        let last_in = result.outcome.accepted("s_axis")[0].last_cycle;
        let sack = result.outcome.received("m_axis_control")[0].first_cycle;
        assert_eq!(result.control[0].packet.opcode, 0xDC, "a SACK");
        let frame = Packet::parse(&scenario.frames[0].data, None).unwrap();
        let ipv6 = matches!(frame.ip, Ip::V6(_));
        let sending = sending_clocks(preset, result.control[0].packet, ipv6);
        println!("{preset:?}: {} + {sending} clocks after {frame}", sack - last_in);
        assert!(
            sack - last_in <= to_descriptor && sending <= to_frame,
            "{preset:?}: more clocks than docs/src/blocks/receive_pipeline.md says"
        );
    }
}

/// Clocks that the idle transmit path takes from this descriptor to the first beat of its frame.
fn sending_clocks(preset: Preset, sack: PacketDescriptor, ipv6: bool) -> u64 {
    // The configuration of the tests of transmit_pipeline, whose model is built anyway.
    let mut config = NicConfig::preset(preset);
    config.queue_pairs.count = 16;
    let context = spraynic_rtl::Context::new();
    let pipeline = spraynic_hdl::transmit_pipeline::transmit_pipeline(&context, &config);
    let model = Builder::new()
        .build(&ModelSource::from_definition(pipeline))
        .unwrap_or_else(|error| panic!("{error}"));
    let work = spraynic_cosim::transmit::Scenario {
        templates: vec![HeaderTemplate {
            qpn: sack.qpn,
            ipv6,
            ..HeaderTemplate::default()
        }],
        control: vec![sack],
        ..spraynic_cosim::transmit::Scenario::default()
    };
    let mut simulation = Simulation::new(&model, 1);
    let outcome = Bench::new(&mut simulation, &work.stimulus(&config), Limits::default())
        .and_then(|mut bench| bench.run(&mut work.memory()))
        .unwrap_or_else(|error| panic!("{error}"));
    work.judge(&config, &outcome).unwrap_or_else(|error| panic!("{error}"));
    outcome.received("m_axis")[0].first_cycle - outcome.accepted("s_axis_control")[0].last_cycle
}

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

fn hostile_scenario(config: &NicConfig, frames: Vec<Frame>, [gaps, pressure]: [Pattern; 2]) -> Scenario {
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
        gaps,
        pressure,
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
        Pattern::strategy(),
        Pattern::strategy(),
    );
    let mut reached: BTreeMap<String, u64> = BTreeMap::new();
    for run in 0..frames.div_ceil(HOSTILE_FRAMES as u64) {
        let at = format!("SPRAYNIC_SEED={seed} SPRAYNIC_FRAMES={frames}, run {run}");
        let (frames, gaps, pressure) = inputs.new_tree(&mut runner).expect("a value").current();
        let scenario = hostile_scenario(&config, frames, [gaps, pressure]);
        let limits = Limits {
            quiet_clocks: 3000,
            hang_clocks: 20_000,
            ..Limits::default()
        };
        let result = scenario
            .run(&mut Simulation::new(&model, 1), &config, limits)
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
