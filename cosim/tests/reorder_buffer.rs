//! reorder_buffer: golden model and RTL give the same packets, reports and counters, whatever comes and however fast it is taken.
//!
//! What depends on time, the order of events, comes from the RTL's `m_axis_event`: the model follows it and says whether each step was legal.

mod common;
#[path = "reorder_buffer/named.rs"]
mod named;
#[path = "reorder_buffer/timing.rs"]
mod timing;
#[path = "reorder_buffer/trace.rs"]
mod trace;

use std::collections::BTreeMap;

use proptest::prelude::*;
use spraynic_config::descriptor::{Descriptor, SequenceReport, SequencedPacket};
use spraynic_config::{NicConfig, Operation, Preset, Profile};
use spraynic_cosim::{Frame, Limits, ModelSource, Outcome, Pattern, SharedModel, Simulation, SinkChecks, Stimulus};
use spraynic_golden::reorder_buffer::{self, Config, Counters, Given, Released, ReorderBuffer, Space};
use spraynic_hdl::reorder_buffer::observed;

use trace::{Knobs, Trace};

/// The configurations under test: all profiles, and each alone; the narrowest and a wide bus, a pool too small for what comes.
fn configs() -> [NicConfig; 4] {
    let config = |preset, profiles: &[Profile], window, mtu| {
        let mut config = NicConfig::preset(preset);
        config.queue_pairs.count = 8;
        config.wire.profiles = profiles.iter().copied().collect();
        if profiles == [Profile::Mrc] {
            config.wire.operations = [Operation::Write, Operation::WriteImmediate].into();
        }
        config.wire.max_mtu = mtu;
        config.receive.window = window;
        config.receive.reorder_queue_pairs = 4;
        config.receive.guaranteed_slots = (window / 4).min(64);
        config.receive.pool_slots = 2 * window;
        config.receive.receive_requests = 8;
        config.validate().unwrap_or_else(|error| panic!("{error}"));
        config
    };
    [
        config(Preset::G100, Profile::ALL, 128, 1024),
        config(Preset::Lab, &[Profile::Solar], 64, 256),
        config(Preset::G25, &[Profile::Mrc], 512, 256),
        config(Preset::Lab, &[Profile::Roce], 64, 256),
    ]
}

const ALL: usize = 0;
const SOLAR: usize = 1;
const MRC: usize = 2;
const ROCE: usize = 3;

fn source(index: usize) -> ModelSource {
    let context = spraynic_rtl::Context::new();
    let definition = spraynic_hdl::reorder_buffer::reorder_buffer(&context, &configs()[index]);
    ModelSource::from_definition(definition)
}

static MODELS: [SharedModel; 4] = [
    SharedModel::new(|| source(ALL)),
    SharedModel::new(|| source(SOLAR)),
    SharedModel::new(|| source(MRC)),
    SharedModel::new(|| source(ROCE)),
];

fn simulation(index: usize) -> Simulation {
    common::simulation(&MODELS[index])
}

/// When streams offer and take.
#[derive(Debug, Clone, Default)]
struct Patterns {
    descriptors: Pattern,
    payload: Pattern,
    credits: Pattern,
    out: Pattern,
    out_payload: Pattern,
    reports: Pattern,
}

impl Patterns {
    fn strategy() -> impl Strategy<Value = Self> {
        let pattern = Pattern::strategy;
        (pattern(), pattern(), pattern(), pattern(), pattern(), pattern()).prop_map(
            |(descriptors, payload, credits, out, out_payload, reports)| Self {
                descriptors,
                payload,
                credits,
                out,
                out_payload,
                reports,
            },
        )
    }
}

fn run(simulation: &mut Simulation, trace: &Trace, patterns: &Patterns) -> Outcome {
    let at = |not_before: u64, data: Vec<u8>| Frame {
        not_before,
        ..Frame::new(data)
    };
    let descriptors = trace
        .arrivals
        .iter()
        .map(|arrival| at(arrival.not_before, arrival.descriptor()));
    let payload = trace.arrivals.iter().filter(|arrival| !arrival.payload.is_empty());
    let payload = payload.map(|arrival| Frame::new(arrival.payload.clone()));
    let contexts = trace.contexts.iter().map(|(cycle, context)| at(*cycle, context.pack()));
    let credits = trace
        .credits
        .iter()
        .map(|(cycle, qpn)| at(*cycle, qpn.to_le_bytes()[..3].to_vec()));
    let record = SinkChecks {
        record_beats: true,
        ..SinkChecks::default()
    };
    let stimulus = Stimulus::default()
        .source("s_axis_descriptor", patterns.descriptors.clone(), descriptors)
        .source("s_axis_payload", patterns.payload.clone(), payload)
        .source("s_axis_context", Pattern::Always, contexts)
        .source("s_axis_credit", patterns.credits.clone(), credits)
        .sink("m_axis", patterns.out.clone(), SinkChecks::default())
        .sink("m_axis_payload", patterns.out_payload.clone(), record)
        .sink("m_axis_report", patterns.reports.clone(), SinkChecks::default())
        .sink("m_axis_event", Pattern::Always, SinkChecks::default());
    let limits = Limits {
        quiet_clocks: 4000,
        hang_clocks: 20_000,
        ..Limits::default()
    };
    spraynic_cosim::run(simulation, &stimulus, limits).unwrap_or_else(|error| panic!("{error}"))
}

/// Packets of one order: queue pair, space, and whether they tell of a retired message.
type Way = (u32, bool, bool);

fn way_of(packet: &SequencedPacket) -> Way {
    (packet.qpn, packet.space, packet.retired)
}

/// What the golden model gives, following the RTL's events.
struct Expected {
    reports: Vec<SequenceReport>,
    given: BTreeMap<Way, Vec<Given>>,
    model: ReorderBuffer,
}

fn follow(config: &NicConfig, trace: &Trace, outcome: &Outcome) -> Result<Expected, TestCaseError> {
    let mut model = ReorderBuffer::new(Config::from(config));
    let mut arrivals = trace.arrivals.iter();
    let known = |qpn: u32| qpn < config.queue_pairs.count;
    let mut contexts = trace
        .contexts
        .iter()
        .map(|(_, context)| context)
        .filter(|context| known(context.qpn));
    let mut credits = BTreeMap::<u32, u32>::new();
    for (_, qpn) in trace.credits.iter().filter(|(_, qpn)| known(*qpn)) {
        *credits.entry(*qpn).or_default() += 1;
    }
    let (mut reports, mut given) = (vec![], BTreeMap::<Way, Vec<Given>>::new());
    let mut give = |packet: Given| given.entry(way_of(&packet.packet)).or_default().push(packet);
    for event in outcome.received("m_axis_event") {
        let word = u64::from_le_bytes(std::array::from_fn(|byte| event.data.get(byte).copied().unwrap_or(0)));
        let (qpn, kind, space, count) = (
            word as u32 & 0xFF_FFFF,
            (word >> 24) as u8 & 3,
            word >> 26 & 1,
            word >> 27,
        );
        let space = Space::ALL[space as usize];
        match kind {
            observed::PACKET => {
                let arrival = arrivals.next().expect("a packet of the trace");
                let (report, packet) = model.receive(arrival.of_model());
                reports.push(report);
                packet.into_iter().for_each(&mut give);
            }
            observed::CONTEXT => model.write_context(contexts.next().expect("a write of the trace")),
            observed::CREDIT => {
                let left = credits.entry(qpn).or_default();
                *left = left.checked_sub(count as u32).expect("credits of the trace");
                (0..count).for_each(|_| model.credit(qpn));
            }
            _ => {
                for step in 0..count {
                    let released = model.release(qpn, space);
                    prop_assert!(released != Released::Nothing, "step {} of {:?} {}", step, space, qpn);
                    released.given().into_iter().for_each(&mut give);
                }
            }
        }
    }
    prop_assert!(
        arrivals.next().is_none() && contexts.next().is_none(),
        "everything takes effect"
    );
    prop_assert!(credits.values().all(|left| *left == 0), "{:?}", credits);
    Ok(Expected { reports, given, model })
}

/// What the RTL gave: descriptors with their payload.
fn given(outcome: &Outcome) -> Vec<Given> {
    let mut payloads = outcome.received("m_axis_payload").iter();
    let packets = outcome.received("m_axis").iter().map(|frame| {
        let packet = SequencedPacket::unpack(&frame.data);
        let payload = match packet.payload_length {
            0 => vec![],
            _ => payloads.next().expect("payload of the packet").data.clone(),
        };
        Given { packet, payload }
    });
    let packets = packets.collect();
    assert!(payloads.next().is_none(), "no payload without a packet");
    packets
}

fn counters(outcome: &Outcome) -> Counters {
    let counter = |name: &str| outcome.counters[name] as u32;
    Counters {
        passed: counter("passed"),
        stored: counter("stored"),
        duplicates: counter("duplicates"),
        drop_closed: counter("drop_closed"),
        drop_out_of_window: counter("drop_out_of_window"),
        drop_trimmed: counter("drop_trimmed"),
        drop_no_slot: counter("drop_no_slot"),
        drop_not_ready: counter("drop_not_ready"),
        drop_sequence: counter("drop_sequence"),
        released: counter("released"),
        retired: counter("retired"),
        flushed: counter("flushed"),
    }
}

fn check(index: usize, trace: &Trace, patterns: &Patterns) -> Result<(Outcome, Counters), TestCaseError> {
    let config = &configs()[index];
    let mut simulation = simulation(index);
    let outcome = run(&mut simulation, trace, patterns);
    let expected = follow(config, trace, &outcome)?;
    let reports = outcome.received("m_axis_report");
    for (place, (golden, rtl)) in expected.reports.iter().zip(reports).enumerate() {
        prop_assert_eq!(golden, &SequenceReport::unpack(&rtl.data), "report {}", place);
    }
    prop_assert_eq!(expected.reports.len(), reports.len(), "count of reports");
    let mut ways = BTreeMap::<Way, Vec<Given>>::new();
    let mut passed = BTreeMap::<u32, Vec<u32>>::new();
    for packet in given(&outcome) {
        // The end of a message is told behind its last packet.
        let psns = passed.entry(packet.packet.qpn).or_default();
        if packet.packet.retired {
            prop_assert!(psns.contains(&packet.packet.psn), "told too early: {:?}", packet.packet);
        } else {
            psns.push(packet.packet.psn);
        }
        ways.entry(way_of(&packet.packet)).or_default().push(packet);
    }
    for (way, golden) in &expected.given {
        let rtl = ways.remove(way).unwrap_or_default();
        for (place, (golden, rtl)) in golden.iter().zip(&rtl).enumerate() {
            prop_assert_eq!(golden, rtl, "packet {} of {:?}", place, way);
        }
        prop_assert_eq!(golden.len(), rtl.len(), "packets of {:?}", way);
    }
    prop_assert!(ways.is_empty(), "nobody expects {:?}", ways);
    prop_assert_eq!(expected.model.counters(), &counters(&outcome));
    if config.has_profile(Profile::Solar) {
        let free = simulation.get_by_name("free_slots").expect("an output");
        prop_assert_eq!(free, u64::from(expected.model.free_slots()));
    }
    // What can move has moved: nothing is left behind.
    for qpn in 0..config.queue_pairs.count {
        for space in Space::ALL {
            prop_assert!(
                !expected.model.is_releasable(qpn, space),
                "{:?} of {} waits for ever",
                space,
                qpn
            );
        }
    }
    let counted = counters(&outcome);
    Ok((outcome, counted))
}

proptest! {
    #![proptest_config(common::config(24, "reorder_buffer"))]
    #[test]
    fn packets_reports_and_counters_equal_the_golden_model(knobs in Knobs::strategy(), patterns in Patterns::strategy()) {
        if common::have_verilator() {
            check(ALL, &Trace::new(&configs()[ALL], &knobs), &patterns)?;
        }
    }

    #[test]
    fn so_they_do_for_solar_alone(knobs in Knobs::strategy(), patterns in Patterns::strategy()) {
        if common::have_verilator() {
            check(SOLAR, &Trace::new(&configs()[SOLAR], &knobs), &patterns)?;
        }
    }

    #[test]
    fn so_they_do_for_mrc_alone(knobs in Knobs::strategy(), patterns in Patterns::strategy()) {
        if common::have_verilator() {
            check(MRC, &Trace::new(&configs()[MRC], &knobs), &patterns)?;
        }
    }

    #[test]
    fn so_they_do_for_roce_alone(knobs in Knobs::strategy(), patterns in Patterns::strategy()) {
        if common::have_verilator() {
            check(ROCE, &Trace::new(&configs()[ROCE], &knobs), &patterns)?;
        }
    }
}

/// Every counter moves under the traces of a few seeds, so that comparing them means something.
#[test]
fn every_counter_is_moved_by_the_random_traces() {
    if !common::have_verilator() {
        return;
    }
    let mut sum = [0u64; 12];
    for seed in 0..6 {
        let trace = Trace::new(
            &configs()[ALL],
            &Knobs {
                seed,
                packets: [700, 2400][seed as usize % 2],
                block: [24, 200][seed as usize % 2],
                ..Knobs::default()
            },
        );
        let (_, c) = check(ALL, &trace, &Patterns::default()).unwrap_or_else(|error| panic!("{error}"));
        let all = [
            c.passed,
            c.stored,
            c.duplicates,
            c.drop_closed,
            c.drop_out_of_window,
            c.drop_trimmed,
            c.drop_no_slot,
            c.drop_not_ready,
            c.drop_sequence,
            c.released,
            c.retired,
            c.flushed,
        ];
        sum.iter_mut()
            .zip(all)
            .for_each(|(sum, count)| *sum += u64::from(count));
    }
    assert!(sum.iter().all(|count| *count > 5), "{sum:?}");
}

/// Of a window of 512, each place of the bitmap of 64 PSNs around the packet is met, and is right.
#[test]
fn packets_are_reported_in_every_block_of_a_long_window() {
    if !common::have_verilator() {
        return;
    }
    let knobs = Knobs {
        packets: 6000,
        block: 480,
        lost: 24,
        writes: 0,
        ..Knobs::default()
    };
    let trace = Trace::new(&configs()[MRC], &knobs);
    let (outcome, _) = check(MRC, &trace, &Patterns::default()).unwrap_or_else(|error| panic!("{error}"));
    let mut met = [0; 8];
    for report in outcome.received("m_axis_report") {
        met[SequenceReport::unpack(&report.data).far as usize] += 1;
    }
    assert!(met[..7].iter().all(|count| *count > 5), "{met:?}");
}
