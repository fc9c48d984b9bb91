//! packet_slicer: golden model and RTL give the same descriptors and counters for the same contexts and requests.

mod common;

use proptest::prelude::*;
use spraynic_config::descriptor::{Descriptor, PacketDescriptor, SliceContext, WorkRequest};
use spraynic_config::{NicConfig, Operation, Preset, Profile};
use spraynic_cosim::{Frame, Limits, ModelSource, Outcome, Pattern, SharedModel, Simulation, SinkChecks, Stimulus};
use spraynic_golden::packet_slicer::{Config, Counters, PacketSlicer};

const QUEUE_PAIRS: u32 = 16;

fn config(change: fn(&mut NicConfig)) -> NicConfig {
    let mut config = NicConfig::preset(Preset::G100);
    config.queue_pairs.count = QUEUE_PAIRS;
    change(&mut config);
    config
}

/// The configurations under test: everything, and two that lack profiles, operations and MTUs.
fn configs() -> [NicConfig; 3] {
    [
        config(|_| {}),
        config(|config| {
            config.wire.profiles = [Profile::Roce].into();
            config.wire.operations = [Operation::Write, Operation::Send, Operation::SendInvalidate].into();
            config.wire.max_mtu = 1024;
        }),
        config(|config| {
            config.wire.profiles = [Profile::Mrc].into();
            config.wire.operations = [Operation::Write, Operation::WriteImmediate].into();
            config.queue_pairs.count = 2;
        }),
    ]
}

fn source(config: &NicConfig) -> ModelSource {
    let context = spraynic_rtl::Context::new();
    ModelSource::from_definition(spraynic_hdl::packet_slicer::packet_slicer(&context, config))
}

/// A model for each of [`configs`].
static MODELS: [SharedModel; 3] = [
    SharedModel::new(|| source(&configs()[0])),
    SharedModel::new(|| source(&configs()[1])),
    SharedModel::new(|| source(&configs()[2])),
];

fn simulation(index: usize) -> Simulation {
    common::simulation(&MODELS[index])
}

/// What is given to the block, in this order.
#[derive(Debug, Clone)]
enum Step {
    Context(SliceContext),
    Request(WorkRequest),
}

fn context() -> impl Strategy<Value = SliceContext> {
    let numbers = (
        prop_oneof![Just(0xff_fff0u32), 0..1u32 << 24],
        any::<u16>(),
        prop_oneof![Just(u16::MAX), any::<u16>()],
    );
    let qpn = prop_oneof![20 => 0..4u32, 1 => 0..1u32 << 24];
    (
        qpn,
        prop::bool::weighted(0.95),
        0..3u8,
        prop_oneof![12 => 1..=5u8, 1 => 0..8u8],
        any::<bool>(),
        any::<u32>(),
        numbers,
    )
        .prop_map(
            |(qpn, open, profile, mtu, timestamps, entropy, (psn, msn, rqmsn))| SliceContext {
                qpn,
                open,
                profile,
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

/// Lengths around the MTUs, around 2^31 (only where one packet results: those of READ and those refused), and atomics' 8.
fn length() -> impl Strategy<Value = u32> {
    prop_oneof![
        6 => 0..600u32,
        3 => (8..=12u32, 0..6u32, -1..=1i32).prop_map(|(shift, count, off)| ((1 << shift) * count).saturating_add_signed(off)),
        2 => Just(8u32),
        1 => 0..70_000u32,
    ]
}

fn request() -> impl Strategy<Value = WorkRequest> {
    let qpn = prop_oneof![30 => 0..4u32, 1 => 0..1u32 << 24];
    let opcode = prop_oneof![20 => 0..6u8, 1 => any::<u8>()];
    let flags = (prop::bool::weighted(0.3), any::<bool>(), any::<bool>());
    let address = prop_oneof![
        any::<u64>(),
        any::<u64>().prop_map(|address| address & !7),
        Just(u64::MAX - 100)
    ];
    let rest = (
        any::<u64>(),
        any::<u32>(),
        any::<u32>(),
        any::<u32>(),
        any::<u64>(),
        any::<u64>(),
    );
    (
        qpn,
        opcode,
        prop_oneof![20 => Just(1u8), 1 => any::<u8>()],
        flags,
        length(),
        prop::bool::weighted(0.02),
        address,
        rest,
    )
        .prop_map(
            |(qpn, opcode, segments, (inline_immediate, solicited, signalled), length, long, remote_address, rest)| {
                let (local_address, local_key, remote_key, immediate, compare, swap_add) = rest;
                // A READ is one packet whatever its length; anything else may be refused for it.
                let length = match (long, opcode) {
                    (true, 3) => 1 << 31,
                    (true, _) => (1 << 31) + 1 + length,
                    _ => length,
                };
                WorkRequest {
                    opcode,
                    signalled,
                    solicited,
                    inline_immediate,
                    segments,
                    qpn,
                    local_address,
                    local_key,
                    length,
                    remote_address,
                    remote_key,
                    immediate,
                    compare,
                    swap_add,
                    cookie: local_address,
                    ..WorkRequest::default()
                }
            },
        )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![1 => context().prop_map(Step::Context), 8 => request().prop_map(Step::Request)];
    (prop::collection::vec(context(), 4), prop::collection::vec(step, 1..80)).prop_map(|(first, steps)| {
        let opened = first
            .into_iter()
            .zip(0..)
            .map(|(context, qpn)| Step::Context(SliceContext { qpn, ..context }));
        opened.chain(steps).collect()
    })
}

fn run(simulation: &mut Simulation, steps: &[Step], gaps: &Pattern, pressure: &Pattern) -> Outcome {
    let contexts = steps.iter().filter_map(|step| match step {
        Step::Context(context) => Some(Frame::new(context.pack())),
        Step::Request(_) => None,
    });
    let requests = steps.iter().filter_map(|step| match step {
        Step::Request(request) => Some(Frame::new(request.pack())),
        Step::Context(_) => None,
    });
    let stimulus = Stimulus::default()
        .source("s_axis_context", Pattern::Always, contexts)
        .source("s_axis_work_request", gaps.clone(), requests)
        .sink("m_axis", pressure.clone(), SinkChecks::default());
    spraynic_cosim::run(simulation, &stimulus, Limits::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// The golden model, given contexts and requests in the order in which the RTL accepted them.
fn golden(config: &NicConfig, steps: &[Step], outcome: &Outcome) -> (Vec<PacketDescriptor>, Counters) {
    let mut model = PacketSlicer::new(Config::from(config));
    let mut accepted: Vec<(u64, &Step)> = vec![];
    let is_context = |step: &&Step| matches!(step, Step::Context(_));
    let timed = |stream: &str| {
        outcome
            .accepted(stream)
            .iter()
            .map(|timing| timing.last_cycle)
            .collect::<Vec<_>>()
    };
    accepted.extend(
        timed("s_axis_context")
            .into_iter()
            .zip(steps.iter().filter(|step| is_context(step))),
    );
    accepted.extend(
        timed("s_axis_work_request")
            .into_iter()
            .zip(steps.iter().filter(|step| !is_context(step))),
    );
    accepted.sort_by_key(|(cycle, _)| *cycle);
    assert_eq!(accepted.len(), steps.len(), "everything is accepted");
    let mut packets = vec![];
    for (_, step) in accepted {
        match step {
            Step::Context(context) => model.write_context(context),
            Step::Request(request) => packets.extend(model.request(request).into_iter().flatten()),
        }
    }
    (packets, *model.counters())
}

fn check(index: usize, steps: &[Step], gaps: &Pattern, pressure: &Pattern) -> Result<(), TestCaseError> {
    let config = &configs()[index];
    let outcome = run(&mut simulation(index), steps, gaps, pressure);
    let (expected, counters) = golden(config, steps, &outcome);
    let received: Vec<PacketDescriptor> = outcome
        .received("m_axis")
        .iter()
        .map(|frame| PacketDescriptor::unpack(&frame.data))
        .collect();
    for (place, (golden, rtl)) in expected.iter().zip(&received).enumerate() {
        prop_assert_eq!(golden, rtl, "descriptor {}", place);
    }
    prop_assert_eq!(expected.len(), received.len(), "count of descriptors");
    let named = [
        ("packets", counters.packets),
        ("messages", counters.messages),
        ("drop_context", counters.drop_context),
        ("drop_queue_pair", counters.drop_queue_pair),
        ("drop_opcode", counters.drop_opcode),
        ("drop_segments", counters.drop_segments),
        ("drop_immediate", counters.drop_immediate),
        ("drop_length", counters.drop_length),
        ("drop_alignment", counters.drop_alignment),
        ("drop_mtu", counters.drop_mtu),
    ];
    prop_assert_eq!(outcome.counters.len(), named.len(), "every counter is compared");
    for (name, value) in named {
        prop_assert_eq!(outcome.counters[name], u64::from(value), "count_{}", name);
    }
    Ok(())
}

proptest! {
    #![proptest_config(common::config(150, "packet_slicer"))]
    #[test]
    fn descriptors_and_counters_equal_the_golden_model(
        steps in steps(), gaps in Pattern::strategy(), pressure in Pattern::strategy(),
    ) {
        if common::have_verilator() {
            check(0, &steps, &gaps, &pressure)?;
        }
    }

    #[test]
    fn a_smaller_configuration_drops_what_it_has_not(
        index in 1..3usize, steps in steps(), gaps in Pattern::strategy(), pressure in Pattern::strategy(),
    ) {
        if common::have_verilator() {
            check(index, &steps, &gaps, &pressure)?;
        }
    }
}

/// The PSN wraps in the middle of a message, and goes on behind a READ that takes many.
#[test]
fn psns_go_on_over_the_wrap_and_behind_a_read() {
    if !common::have_verilator() {
        return;
    }
    let context = SliceContext {
        qpn: 1,
        open: true,
        mtu: 1,
        psn: 0xff_fffe,
        ..SliceContext::default()
    };
    let request = WorkRequest {
        segments: 1,
        qpn: 1,
        ..WorkRequest::default()
    };
    let steps = [
        Step::Context(context),
        Step::Request(WorkRequest {
            opcode: 2,
            length: 1000,
            ..request
        }),
        Step::Request(WorkRequest {
            opcode: 3,
            length: 1 << 31,
            ..request
        }),
        Step::Request(WorkRequest {
            opcode: 0,
            length: 0,
            ..request
        }),
    ];
    let outcome = run(&mut simulation(0), &steps, &Pattern::Always, &Pattern::Always);
    let psns: Vec<u32> = outcome
        .received("m_axis")
        .iter()
        .map(|frame| PacketDescriptor::unpack(&frame.data).psn)
        .collect();
    assert_eq!(psns, [0xff_fffe, 0xff_ffff, 0, 1, 2, 2 + (1 << 23)]);
}

/// A queue pair that is closed and opened again starts at the PSN it is given, whatever it had.
#[test]
fn a_queue_pair_opened_again_starts_at_its_new_psn() {
    if !common::have_verilator() {
        return;
    }
    let open = SliceContext {
        qpn: 2,
        open: true,
        mtu: 5,
        psn: 100,
        ..SliceContext::default()
    };
    let request = Step::Request(WorkRequest {
        opcode: 2,
        segments: 1,
        qpn: 2,
        length: 1,
        ..WorkRequest::default()
    });
    for psn in [100, 7] {
        let mut model = simulation(0);
        let steps = [Step::Context(open), request.clone(), request.clone()];
        run(&mut model, &steps, &Pattern::Always, &Pattern::Always);
        let steps = [
            Step::Context(SliceContext { open: false, ..open }),
            Step::Context(SliceContext { psn, ..open }),
            request.clone(),
        ];
        let outcome = run(&mut model, &steps, &Pattern::After { clocks: 40 }, &Pattern::Always);
        let first = PacketDescriptor::unpack(&outcome.received("m_axis")[0].data);
        assert_eq!(first.psn, psn);
    }
}

/// One request and one descriptor a clock, all of one queue pair; and one descriptor a clock within and between long messages.
#[test]
fn one_descriptor_a_clock() {
    if !common::have_verilator() {
        return;
    }
    for length in [64, 256, 257, 5000] {
        let context = SliceContext {
            qpn: 5,
            open: true,
            mtu: 1,
            ..SliceContext::default()
        };
        let request = WorkRequest {
            opcode: 2,
            segments: 1,
            qpn: 5,
            length,
            ..WorkRequest::default()
        };
        let requests = 400;
        let mut steps = vec![Step::Context(context)];
        steps.extend(std::iter::repeat_n(Step::Request(request), requests));
        let outcome = run(
            &mut simulation(0),
            &steps,
            &Pattern::After { clocks: 40 },
            &Pattern::Always,
        );
        let frames = outcome.received("m_axis");
        assert_eq!(frames.len(), requests * length.div_ceil(256) as usize);
        let clocks = frames[frames.len() - 1].last_cycle - frames[0].last_cycle + 1;
        assert_eq!(clocks, frames.len() as u64, "{length} bytes a message");
        if length <= 256 {
            let taken = outcome.accepted("s_axis_work_request");
            assert_eq!(
                taken[requests - 1].last_cycle - taken[0].last_cycle + 1,
                requests as u64
            );
            let latency = frames[0].last_cycle - taken[0].last_cycle;
            assert_eq!(latency, 7, "clocks from request to descriptor, as documented");
        }
    }
}

#[test]
fn linters_have_nothing_to_say() {
    if !common::have_verilator() {
        return;
    }
    for config in configs() {
        let context = spraynic_rtl::Context::new();
        let source = ModelSource::from_definition(spraynic_hdl::packet_slicer::packet_slicer(&context, &config));
        spraynic_cosim::lint(&source).unwrap_or_else(|error| panic!("{error}"));
    }
}
