//! transmit_pipeline: every frame and counter of the Verilated pipeline against the golden model, for random work of all kinds.

mod common;

use proptest::prelude::*;
use spraynic_config::descriptor::{HeaderTemplate, PacketDescriptor, SliceContext, WorkRequest};
use spraynic_config::{NicConfig, Preset};
use spraynic_cosim::transmit::strategy::{Size, scenario};
use spraynic_cosim::transmit::{MemoryTiming, Scenario};
use spraynic_cosim::{Bench, Builder, Limits, ModelSource, Outcome, Pattern, SharedModel, Simulation};
use spraynic_wire::Packet;

/// The presets with a table of few queue pairs, so that it is cleared soon after reset.
fn config(preset: Preset) -> NicConfig {
    let mut config = NicConfig::preset(preset);
    config.queue_pairs.count = 16;
    config
}

fn source(config: &NicConfig) -> ModelSource {
    let context = spraynic_rtl::Context::new();
    ModelSource::from_definition(spraynic_hdl::transmit_pipeline::transmit_pipeline(&context, config))
}

static LAB: SharedModel = SharedModel::new(|| source(&config(Preset::Lab)));
static G25: SharedModel = SharedModel::new(|| source(&config(Preset::G25)));
static G100: SharedModel = SharedModel::new(|| source(&config(Preset::G100)));
static G400: SharedModel = SharedModel::new(|| source(&config(Preset::G400)));

fn simulation(preset: Preset) -> Simulation {
    common::simulation(match preset {
        Preset::Lab => &LAB,
        Preset::G25 => &G25,
        Preset::G100 => &G100,
        Preset::G400 => &G400,
    })
}

fn run(preset: Preset, scenario: &Scenario) -> Outcome {
    let config = config(preset);
    let mut simulation = simulation(preset);
    Bench::new(
        &mut simulation,
        &scenario.stimulus(&config),
        Limits {
            quiet_clocks: 600,
            ..Limits::default()
        },
    )
    .and_then(|mut bench| bench.run(&mut scenario.memory()))
    .unwrap_or_else(|error| panic!("{error}"))
}

fn check(preset: Preset, scenario: &Scenario) -> Result<Outcome, TestCaseError> {
    let outcome = run(preset, scenario);
    scenario
        .judge(&config(preset), &outcome)
        .map_err(|difference| TestCaseError::fail(difference.to_string()))?;
    Ok(outcome)
}

proptest! {
    #![proptest_config(common::config(40, "transmit_pipeline"))]
    #[test]
    fn frames_and_counters_equal_the_golden_model_at_64_bits(work in scenario(&config(Preset::Lab), Size::default())) {
        if common::have_verilator() {
            check(Preset::Lab, &work)?;
        }
    }

    #[test]
    fn frames_and_counters_equal_the_golden_model_at_128_bits(work in scenario(&config(Preset::G25), Size::default())) {
        if common::have_verilator() {
            check(Preset::G25, &work)?;
        }
    }

    #[test]
    fn frames_and_counters_equal_the_golden_model_at_512_bits(work in scenario(&config(Preset::G100), Size::default())) {
        if common::have_verilator() {
            check(Preset::G100, &work)?;
        }
    }

    #[test]
    fn frames_and_counters_equal_the_golden_model_at_1024_bits(work in scenario(&config(Preset::G400), Size::default())) {
        if common::have_verilator() {
            check(Preset::G400, &work)?;
        }
    }
}

/// Every counter that can move has moved in the scenarios of one seed, so that comparing them means something. A frame too long for the FIFO
/// cannot come: the configuration refuses such a FIFO.
#[test]
fn every_counter_is_moved_by_the_random_work() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    if !common::have_verilator() {
        return;
    }
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut still = std::collections::BTreeSet::new();
    let strategy = scenario(&config(Preset::Lab), Size::default());
    for turn in 0..60 {
        let work = strategy.new_tree(&mut runner).expect("a scenario").current();
        let outcome = check(Preset::Lab, &work).unwrap_or_else(|error| panic!("{error}"));
        let unmoved = outcome
            .counters
            .into_iter()
            .filter(|(_, value)| *value == 0)
            .map(|(name, _)| name)
            .collect();
        still = if turn == 0 { unmoved } else { &still & &unmoved };
    }
    let expected = ["frame_fifo_drop_too_long".to_owned()].into();
    assert_eq!(still, expected, "counters that never moved");
}

/// A pipeline without control packets: another set of ports.
#[test]
fn a_pipeline_without_control_packets_equals_the_golden_model() {
    use proptest::test_runner::TestRunner;
    if !common::have_verilator() {
        return;
    }
    let mut config = config(Preset::Lab);
    config.wire.control = false;
    let model = Builder::new()
        .build(&source(&config))
        .unwrap_or_else(|error| panic!("{error}"));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(20));
    let result = runner.run(&scenario(&config, Size::default()), |mut work| {
        work.control.clear();
        let mut simulation = Simulation::new(&model, 1);
        let limits = Limits {
            quiet_clocks: 600,
            ..Limits::default()
        };
        let outcome = Bench::new(&mut simulation, &work.stimulus(&config), limits)
            .and_then(|mut bench| bench.run(&mut work.memory()))
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        work.judge(&config, &outcome)
            .map_err(|difference| TestCaseError::fail(difference.to_string()))
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// One queue pair, open, with an IPv4 template and the largest MTU.
fn one_queue_pair(preset: Preset) -> Scenario {
    let mtu = config(preset).max_mtu_code();
    Scenario {
        contexts: vec![SliceContext {
            qpn: 1,
            open: true,
            mtu,
            ..SliceContext::default()
        }],
        templates: vec![HeaderTemplate {
            qpn: 1,
            source_ip: 0x0a4d_0001,
            destination_ip: 0x0a4d_0002,
            ..HeaderTemplate::default()
        }],
        ..Scenario::default()
    }
}

fn write_of(length: u32) -> WorkRequest {
    WorkRequest {
        opcode: 2,
        segments: 1,
        qpn: 1,
        length,
        ..WorkRequest::default()
    }
}

/// Two packets of 4096 bytes and one of a byte, each a frame with its own end; the short write behind it is its own frame, then a long one.
#[test]
fn a_write_longer_than_8_kib_is_whole_frames_and_so_is_what_follows_it() {
    if !common::have_verilator() {
        return;
    }
    let mut scenario = one_queue_pair(Preset::G100);
    scenario.requests = [8193, 1, 9000].map(write_of).to_vec();
    let outcome = check(Preset::G100, &scenario).unwrap_or_else(|error| panic!("{error}"));
    let payloads: Vec<usize> = outcome
        .received("m_axis")
        .iter()
        .map(|frame| Packet::parse(&frame.data, None).expect("a packet").payload.len())
        .collect();
    assert_eq!(payloads, [4096, 4096, 1, 1, 4096, 4096, 808]);
}

/// Far more packets than the queue of descriptors and the FIFO of frames have room for, while the MAC takes none and memory is slow.
#[test]
fn more_packets_than_descriptors_fit_wait_and_all_leave() {
    if !common::have_verilator() {
        return;
    }
    let mut scenario = one_queue_pair(Preset::G100);
    let packets = 8 * config(Preset::G100).transmit.descriptor_fifo_depth;
    scenario.requests = vec![write_of(1); packets as usize];
    scenario.memory.latency = 300;
    scenario.pressure[1] = Pattern::After { clocks: 3000 };
    let outcome = check(Preset::G100, &scenario).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.received("m_axis").len() as u32, packets);
}

/// Clocks from the first beat out to the last, and the beats.
fn clocks_and_beats(preset: Preset, scenario: &Scenario) -> (u64, u64) {
    let outcome = check(preset, scenario).unwrap_or_else(|error| panic!("{error}"));
    let frames = outcome.received("m_axis");
    let beat = u64::from(config(preset).beat_bytes());
    let beats = frames
        .iter()
        .map(|frame| (frame.data.len() as u64).div_ceil(beat))
        .sum();
    (frames[frames.len() - 1].last_cycle - frames[0].first_cycle + 1, beats)
}

/// Once the path is full, a beat leaves in every clock: messages of one packet and of many, and of lengths around the MTU,
/// among them writes beyond 8 KiB.
#[test]
fn a_beat_leaves_in_every_clock() {
    if !common::have_verilator() {
        return;
    }
    for preset in Preset::ALL {
        for length in [64u32, 256, 1023, 4096, 4097, 20_000] {
            let mut scenario = one_queue_pair(*preset);
            let request = WorkRequest {
                opcode: 2,
                segments: 1,
                qpn: 1,
                length,
                ..WorkRequest::default()
            };
            scenario.requests = vec![request; (60_000 / length as usize).clamp(4, 200)];
            let (clocks, beats) = clocks_and_beats(*preset, &scenario);
            assert_eq!(clocks, beats, "{preset:?}, messages of {length} bytes");
        }
    }
}

/// ACKs over IPv4 have one beat at 512 bits: one leaves in every clock.
#[test]
fn a_single_beat_frame_leaves_in_every_clock() {
    if !common::have_verilator() {
        return;
    }
    let mut scenario = one_queue_pair(Preset::G100);
    let ack = PacketDescriptor {
        qpn: 1,
        opcode: 0x11,
        extension_words: 1,
        ..PacketDescriptor::default()
    };
    scenario.control = (0..300).map(|psn| PacketDescriptor { psn, ..ack }).collect();
    let (clocks, beats) = clocks_and_beats(Preset::G100, &scenario);
    assert_eq!((clocks, beats), (300, 300));
}

/// A SACK of `ack_engine` on an idle port: clocks from its descriptor to the first beat of its frame.
#[test]
fn a_control_packet_leaves_within_clocks() {
    if !common::have_verilator() {
        return;
    }
    for (preset, stated) in [(Preset::G100, 10), (Preset::Lab, 9)] {
        let mut scenario = one_queue_pair(preset);
        scenario.control = vec![PacketDescriptor {
            qpn: 1,
            opcode: 0xDC,
            mrc: true,
            extension_words: 9,
            ..PacketDescriptor::default()
        }];
        let outcome = check(preset, &scenario).unwrap_or_else(|error| panic!("{error}"));
        let given = outcome.accepted("s_axis_control")[0].last_cycle;
        let clocks = outcome.received("m_axis")[0].first_cycle - given;
        println!("{preset:?}: {clocks} clocks from the descriptor to the frame");
        assert_eq!(
            clocks, stated,
            "{preset:?}: other clocks than docs/src/blocks/transmit_pipeline.md says"
        );
    }
}

/// A memory that answers after a microsecond costs latency, not throughput.
#[test]
fn slow_memory_costs_no_throughput() {
    if !common::have_verilator() {
        return;
    }
    let mut scenario = one_queue_pair(Preset::G100);
    scenario.memory = MemoryTiming {
        latency: 250,
        ..MemoryTiming::default()
    };
    scenario.requests = vec![
        WorkRequest {
            opcode: 2,
            segments: 1,
            qpn: 1,
            length: 8192,
            ..WorkRequest::default()
        };
        40
    ];
    let (clocks, beats) = clocks_and_beats(Preset::G100, &scenario);
    assert_eq!(clocks, beats);
}

/// Back-pressure of the MAC for a long time stops everything and loses nothing.
#[test]
fn a_mac_that_waits_loses_nothing() {
    if !common::have_verilator() {
        return;
    }
    let mut scenario = one_queue_pair(Preset::G100);
    scenario.requests = vec![
        WorkRequest {
            opcode: 2,
            segments: 1,
            qpn: 1,
            length: 5000,
            ..WorkRequest::default()
        };
        60
    ];
    scenario.pressure[1] = Pattern::After { clocks: 3000 };
    check(Preset::G100, &scenario).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn linters_have_nothing_to_say() {
    if !common::have_verilator() {
        return;
    }
    for preset in Preset::ALL {
        spraynic_cosim::lint(&source(&NicConfig::preset(*preset))).unwrap_or_else(|error| panic!("{error}"));
    }
}
