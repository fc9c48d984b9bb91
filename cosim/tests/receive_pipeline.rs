//! The whole receive path in Verilog: messages of all profiles over a network that loses, repeats, damages and reorders end in memory, each exactly
//! once; and each frame is counted in one place.

mod common;
#[path = "receive_pipeline/coverage.rs"]
mod coverage;
#[path = "receive_pipeline/hostile.rs"]
mod hostile;
#[path = "receive_pipeline/reopening.rs"]
mod reopening;
#[path = "receive_pipeline/sharing.rs"]
mod sharing;

use std::sync::Arc;

use proptest::prelude::*;
use spraynic_config::descriptor::{HeaderTemplate, PacketDescriptor};
use spraynic_config::{NicConfig, Preset, Profile};
use spraynic_cosim::receive::judge::judge;
use spraynic_cosim::receive::patterns::Patterns;
use spraynic_cosim::receive::traffic::strategy::{CASES, QUEUE_PAIRS, traffic};
use spraynic_cosim::receive::traffic::{Kind, Message, Traffic, profile_of, scenario};
use spraynic_cosim::receive::{Result, Scenario, small, source};
use spraynic_cosim::{Bench, Builder, Frame, Limits, Model, ModelSource, SharedModel, Simulation};
use spraynic_wire::{Ip, Packet};

/// No packet, timer or memory takes as long as nothing moves before a run is over.
const LIMITS: Limits = Limits {
    quiet_clocks: 3_000,
    hang_clocks: 20_000,
    most_clocks: 50_000_000,
};

static LAB: SharedModel = SharedModel::new(|| source(&small(Preset::Lab)));
static G25: SharedModel = SharedModel::new(|| source(&small(Preset::G25)));
static G100: SharedModel = SharedModel::new(|| source(&small(Preset::G100)));
static G400: SharedModel = SharedModel::new(|| source(&small(Preset::G400)));

fn model(preset: Preset) -> Option<Arc<Model>> {
    let model = match preset {
        Preset::Lab => &LAB,
        Preset::G25 => &G25,
        Preset::G100 => &G100,
        Preset::G400 => &G400,
    };
    model.get().unwrap_or_else(|error| panic!("{error}"))
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

fn arrive(preset: Preset) {
    let Some(model) = model(preset) else { return };
    let config = small(preset);
    let inputs = (traffic(), Patterns::strategy());
    let settings = ProptestConfig {
        max_shrink_iters: 200,
        ..common::config(CASES, "receive_pipeline")
    };
    proptest!(settings, |((traffic, patterns) in inputs)| {
        let (scenario, expected) = scenario(&config, QUEUE_PAIRS, &traffic, patterns);
        let result = scenario
            .run(&mut Simulation::new(&model, 1), &config, LIMITS)
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        expected.check(&config, &result).map_err(TestCaseError::fail)?;
        check_places(&result, scenario.all_frames().count())?;
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
            let (scenario, expected) = scenario(&config, QUEUE_PAIRS, &Traffic::quiet(messages), Patterns::default());
            let frames = &scenario.frames;
            let beats: usize = frames.iter().map(|frame| frame.data.len().div_ceil(beat)).sum();
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
const SACK_CLOCKS: [(Preset, u64, u64); 2] = [(Preset::G100, 21, 10), (Preset::Lab, 29, 9)];

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
        let (scenario, _) = scenario(&config, QUEUE_PAIRS, &Traffic::quiet([message]), Patterns::default());
        let scenario = Scenario {
            frames: vec![Frame {
                not_before: 500,
                ..scenario.frames[0].clone()
            }],
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
