//! request_ring: golden model and RTL read the same entries and give the same requests, when the model is told in which order the RTL began its
//! operations.

#[path = "common/blocks.rs"]
mod blocks;
mod common;
#[path = "common/memory.rs"]
mod memory;

use proptest::prelude::*;
use spraynic_config::descriptor::{Descriptor, Doorbell, PayloadRequest, RequestRing, RingProgress, WorkRequest};
use spraynic_config::{NicConfig, Preset};
use spraynic_cosim::{Answer, Bench, Frame, Limits, Outcome, Pattern, Received, Simulation, SinkChecks, Stimulus};
use spraynic_golden::request_ring::{Config, Counters, ENTRY_BYTES, READS, RequestRings};
use spraynic_hdl::axi_read_master;
use spraynic_hdl::request_ring::{BUS_BITS, request_ring};
use spraynic_rtl::{AxiStream, Context, Definition, Stream};

const QUEUE_PAIRS: u32 = 4;

fn config() -> NicConfig {
    let mut config = NicConfig::preset(Preset::G100);
    config.send.queue_pairs = QUEUE_PAIRS;
    config
}

fn simulation() -> Simulation {
    let context = Context::new();
    blocks::simulation(&context, request_ring(&context, &config()))
}

fn ring(qpn: u32, entries_log2: u8) -> RequestRing {
    RequestRing {
        qpn,
        entries_log2,
        valid: true,
        base: (u64::from(qpn) + 1) << 24 | 0x40,
        ..RequestRing::default()
    }
}

fn bell(qpn: u32, producer: u16) -> Doorbell {
    Doorbell {
        qpn,
        producer,
        ..Doorbell::default()
    }
}

/// What memory does with a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gives {
    Entry,
    /// So many bytes, and `tuser` as it is.
    Refuses(usize, u64),
}

impl Gives {
    fn frame(self, seed: u64) -> Frame {
        match self {
            Self::Entry => Frame::new(blocks::bytes(ENTRY_BYTES.into(), seed)),
            Self::Refuses(bytes, user) => Frame::with_user(blocks::bytes(bytes, seed), user),
        }
    }
}

/// Memory: answers each read after a time.
#[derive(Debug, Clone)]
struct Memory {
    latency: u64,
    /// Clocks more, and what is given, of one read after the other, again from the first one.
    answers: Vec<(u64, Gives)>,
    given: Vec<Frame>,
}

impl Memory {
    fn new(latency: u64, answers: Vec<(u64, Gives)>) -> Self {
        Self {
            latency,
            answers,
            given: vec![],
        }
    }

    fn on_frame(&mut self, answer: &mut Answer<'_>, stream: &str) -> Result<(), String> {
        if stream != "m_axis_ring_read" {
            return Ok(());
        }
        let number = self.given.len();
        let (more, gives) = self.answers[number % self.answers.len()];
        let mut frame = gives.frame(number as u64);
        self.given.push(frame.clone());
        frame.not_before = answer.cycle + self.latency + more;
        answer
            .send("s_axis_ring_data", frame)
            .map_err(|error| error.to_string())
    }
}

#[derive(Debug, Clone)]
struct Trace {
    /// With the first cycle of each.
    rings: Vec<(RequestRing, u64)>,
    doorbells: Vec<(Doorbell, u64)>,
    memory: Memory,
    /// Of ring writes, doorbells and data.
    gaps: [Pattern; 3],
    /// Of reads and requests.
    pressure: [Pattern; 2],
}

/// A step of the host.
#[derive(Debug, Clone)]
enum Step {
    Write(RequestRing),
    /// So many entries more than the last doorbell said.
    More(u32, u16),
    Any(Doorbell),
}

fn step() -> impl Strategy<Value = Step> {
    let qpn = || prop_oneof![20 => 0..QUEUE_PAIRS, 1 => any::<u32>().prop_map(|qpn| qpn & 0xff_ffff)];
    let write = (
        qpn(),
        0..16u8,
        prop::bool::weighted(0.9),
        prop::bool::weighted(0.1),
        any::<u64>(),
    );
    let write = write.prop_map(|(qpn, entries_log2, valid, crooked, base)| RequestRing {
        valid,
        base: (base & !63) | u64::from(crooked) << 3,
        // Small ones more often.
        ..ring(
            qpn,
            if entries_log2 > 10 {
                entries_log2
            } else {
                entries_log2 / 2
            },
        )
    });
    prop_oneof![
        2 => write.prop_map(Step::Write),
        16 => (0..QUEUE_PAIRS, 0..4u16).prop_map(|(qpn, more)| Step::More(qpn, more)),
        2 => (0..QUEUE_PAIRS, 0..40u16).prop_map(|(qpn, more)| Step::More(qpn, more)),
        1 => (qpn(), any::<u16>()).prop_map(|(qpn, producer)| Step::Any(bell(qpn, producer))),
    ]
}

fn gives() -> impl Strategy<Value = Gives> {
    prop_oneof![
        12 => Just(Gives::Entry),
        1 => Just(Gives::Refuses(63, 1)),
        1 => (prop_oneof![Just(64usize), 1..140usize], 0..2u64).prop_map(|(bytes, user)| {
            // What has all bytes and no mark is an entry.
            Gives::Refuses(bytes, if bytes == 64 { 1 } else { user })
        }),
    ]
}

fn trace() -> impl Strategy<Value = Trace> {
    let wait = prop_oneof![6 => Just(0u64), 2 => 0..12u64, 1 => 0..200u64];
    let steps = prop::collection::vec((step(), wait), 1..120);
    let jitter = prop_oneof![3 => Just(0u64), 1 => 0..40u64];
    let answers = prop::collection::vec((jitter, gives()), 1..40);
    let latency = prop_oneof![Just(1u64), 1..60u64];
    let sizes = [(); QUEUE_PAIRS as usize].map(|()| 0..7u8);
    let gaps = [Pattern::strategy(), Pattern::strategy(), Pattern::strategy()];
    let pressure = [Pattern::strategy(), Pattern::strategy()];
    (steps, answers, latency, sizes, gaps, pressure).prop_map(|(steps, answers, latency, sizes, gaps, pressure)| {
        let first = (0..QUEUE_PAIRS).zip(sizes).map(|(qpn, size)| (ring(qpn, size), 0));
        let mut rings: Vec<(RequestRing, u64)> = first.collect();
        let mut doorbells = vec![];
        let mut producers = [0u16; QUEUE_PAIRS as usize];
        // The table is clean and the first rings are written.
        let mut cycle = 60;
        for (step, wait) in steps {
            cycle += wait;
            match step {
                Step::Write(write) => {
                    if let Some(producer) = producers.get_mut(write.qpn as usize) {
                        *producer = 0;
                    }
                    rings.push((write, cycle));
                }
                Step::More(qpn, more) => {
                    let producer = &mut producers[qpn as usize];
                    *producer = producer.wrapping_add(more);
                    doorbells.push((bell(qpn, *producer), cycle));
                }
                Step::Any(doorbell) => doorbells.push((doorbell, cycle)),
            }
        }
        Trace {
            rings,
            doorbells,
            memory: Memory::new(latency, answers),
            gaps,
            pressure,
        }
    })
}

fn frames<D: Descriptor>(steps: &[(D, u64)]) -> impl Iterator<Item = Frame> {
    steps.iter().map(|(step, cycle)| Frame {
        not_before: *cycle,
        ..Frame::new(step.pack())
    })
}

/// What came out, and what memory gave.
fn run(trace: &Trace) -> (Outcome, Vec<Frame>) {
    let [ring_gaps, doorbell_gaps, data_gaps] = trace.gaps.clone();
    let [read_pressure, request_pressure] = trace.pressure.clone();
    let mut stimulus = Stimulus::default()
        .source("s_axis_ring", ring_gaps, frames(&trace.rings))
        .source("s_axis_doorbell", doorbell_gaps, frames(&trace.doorbells))
        .source("s_axis_ring_data", data_gaps, [])
        .sink("m_axis_ring_read", read_pressure, SinkChecks::default())
        .sink("m_axis", request_pressure, SinkChecks::default())
        .sink("m_axis_progress", Pattern::Always, SinkChecks::default())
        .sink("m_axis_turn", Pattern::Always, SinkChecks::default());
    stimulus.sources[2].user_last_only = true;
    let limits = Limits {
        quiet_clocks: 1_000,
        ..Limits::default()
    };
    let mut memory = trace.memory.clone();
    let mut simulation = simulation();
    let mut agent = |answer: &mut Answer<'_>, stream: &str, _: &Received| memory.on_frame(answer, stream);
    let mut bench = Bench::new(&mut simulation, &stimulus, limits).unwrap_or_else(|error| panic!("{error}"));
    let outcome = bench.run(&mut agent).unwrap_or_else(|error| panic!("{error}"));
    drop(bench);
    (outcome, memory.given)
}

/// What the RTL did in a clock.
#[derive(Debug, Clone, Copy)]
enum Event {
    Leaves,
    Write(usize),
    Bell(usize),
    Turn(u32),
}

/// The model's part of a run.
#[derive(Debug, Default)]
struct Golden {
    reads: Vec<PayloadRequest>,
    requests: Vec<WorkRequest>,
    progress: Vec<RingProgress>,
    counters: Counters,
}

fn golden(trace: &Trace, outcome: &Outcome, given: &[Frame]) -> Result<Golden, TestCaseError> {
    let taken = |stream: &str| outcome.accepted(stream).iter().map(|timing| timing.last_cycle).zip(0..);
    let came = |stream: &str| outcome.received(stream).iter();
    let turns = came("m_axis_turn").map(|turn| {
        let qpn = u32::from_le_bytes([turn.data[0], turn.data[1], turn.data[2], 0]);
        (turn.last_cycle, Event::Turn(qpn))
    });
    let mut events: Vec<(u64, Event)> = came("m_axis").map(|entry| (entry.last_cycle, Event::Leaves)).collect();
    events.extend(taken("s_axis_ring").map(|(cycle, place)| (cycle, Event::Write(place))));
    events.extend(taken("s_axis_doorbell").map(|(cycle, place)| (cycle, Event::Bell(place))));
    events.extend(turns);
    // An entry that leaves in the clock of an operation is first.
    events.sort_by_key(|(cycle, _)| *cycle);

    let mut model = RequestRings::new(Config::from(&config()));
    let mut golden = Golden::default();
    let mut data = given.iter();
    for (cycle, event) in events {
        match event {
            Event::Leaves => {
                let frame = data.next();
                prop_assert!(frame.is_some(), "cycle {}: a request of no read", cycle);
                let (request, progress) = frame
                    .and_then(|frame| model.data(&frame.data, frame.user == 1))
                    .ok_or_else(|| TestCaseError::fail(format!("cycle {cycle}: a request of no read")))?;
                golden.requests.push(request);
                golden.progress.push(progress);
            }
            Event::Write(place) => {
                prop_assert_eq!(model.reads(), 0, "cycle {}: a ring is written under a read", cycle);
                model.write_ring(&trace.rings[place].0);
            }
            Event::Bell(place) => model.doorbell(&trace.doorbells[place].0),
            Event::Turn(qpn) => {
                let turn = model.turn();
                prop_assert_eq!(turn.map(|turn| turn.qpn), Some(qpn), "cycle {}: whose turn", cycle);
                golden.reads.extend(turn.and_then(|turn| turn.read));
            }
        }
    }
    prop_assert_eq!(model.turn(), None, "all that was told of is read");
    prop_assert_eq!(model.reads(), 0, "all that was read is given");
    golden.counters = *model.counters();
    Ok(golden)
}

fn unpacked<D: Descriptor>(outcome: &Outcome, stream: &str) -> Vec<D> {
    let frames = outcome.received(stream).iter();
    frames.map(|frame| D::unpack(&frame.data)).collect()
}

fn check(trace: &Trace) -> Result<(Outcome, Golden), TestCaseError> {
    let (outcome, given) = run(trace);
    let golden = golden(trace, &outcome, &given)?;
    prop_assert_eq!(&unpacked::<PayloadRequest>(&outcome, "m_axis_ring_read"), &golden.reads);
    prop_assert_eq!(&unpacked::<WorkRequest>(&outcome, "m_axis"), &golden.requests);
    prop_assert_eq!(&unpacked::<RingProgress>(&outcome, "m_axis_progress"), &golden.progress);
    let counters = golden.counters;
    let named = [
        ("drop_ring", counters.drop_ring),
        ("doorbells", counters.doorbells),
        ("drop_queue_pair", counters.drop_queue_pair),
        ("drop_producer", counters.drop_producer),
        ("entries", counters.entries),
        ("refused", counters.refused),
    ];
    prop_assert_eq!(outcome.counters.len(), named.len(), "every counter is compared");
    for (name, value) in named {
        prop_assert_eq!(outcome.counters[name], u64::from(value), "count_{}", name);
    }
    Ok((outcome, golden))
}

proptest! {
    #![proptest_config(common::config(100, "request_ring"))]
    #[test]
    fn reads_requests_and_counters_equal_the_golden_model(trace in trace()) {
        if !common::have_verilator() {
            return Ok(());
        }
        check(&trace)?;
    }
}

/// Nothing in the way: memory that answers after `latency` clocks.
fn undisturbed(rings: Vec<(RequestRing, u64)>, doorbells: Vec<(Doorbell, u64)>, latency: u64) -> Trace {
    Trace {
        rings,
        doorbells,
        memory: Memory::new(latency, vec![(0, Gives::Entry)]),
        gaps: [Pattern::Always, Pattern::Always, Pattern::Always],
        pressure: [Pattern::Always, Pattern::Always],
    }
}

/// Clocks between entries of one queue pair, and of four, by the latency of memory; and the way of a single one.
#[test]
fn an_entry_in_eight_clocks() {
    if !common::have_verilator() {
        return;
    }
    for queue_pairs in [1, QUEUE_PAIRS] {
        for latency in [1, 16, 60] {
            let rings = (0..queue_pairs).map(|qpn| (ring(qpn, 8), 0)).collect();
            let doorbells = (0..queue_pairs).map(|qpn| (bell(qpn, 100), 60)).collect();
            let trace = undisturbed(rings, doorbells, latency);
            let (outcome, golden) = check(&trace).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(golden.requests.len() as u32, 100 * queue_pairs);
            let came = outcome.received("m_axis");
            let clocks = came[came.len() - 1].last_cycle - came[4].last_cycle;
            let per_entry = clocks as f64 / (came.len() - 5) as f64;
            println!("{queue_pairs} queue pairs, latency {latency}: {per_entry} clocks an entry");
            // Eight beats, or four reads in the time that one takes, with up to 13 clocks in the block and for its beats.
            let expected = f64::max(8.0, (latency as f64 + 13.0) / READS as f64);
            assert!(per_entry <= expected + 0.01, "{per_entry} against {expected}");
        }
    }
    let trace = undisturbed(vec![(ring(2, 0), 0)], vec![(bell(2, 1), 60)], 1);
    let (outcome, _) = check(&trace).unwrap_or_else(|error| panic!("{error}"));
    let told = outcome.accepted("s_axis_doorbell")[0].last_cycle;
    let read = outcome.received("m_axis_ring_read")[0].last_cycle;
    let data = outcome.accepted("s_axis_ring_data")[0].last_cycle;
    let given = outcome.received("m_axis")[0].last_cycle;
    assert_eq!((read - told, given - data), (9, 1), "clocks, as documented");
}

/// A doorbell in every clock that takes one leaves every other operation to entries.
#[test]
fn doorbells_do_not_starve_entries() {
    if !common::have_verilator() {
        return;
    }
    let doorbells = (0..1_000).map(|_| (bell(0, 100), 60)).collect();
    let trace = undisturbed(vec![(ring(0, 7), 0)], doorbells, 1);
    let (outcome, _) = check(&trace).unwrap_or_else(|error| panic!("{error}"));
    let came = outcome.received("m_axis");
    let clocks = came[99].last_cycle - came[4].last_cycle;
    assert_eq!(clocks, 95 * 8, "clocks for 95 entries");
    let bells = outcome.accepted("s_axis_doorbell");
    let between = bells[999].last_cycle - came[99].last_cycle.max(bells[0].last_cycle);
    assert!(between > 0, "doorbells came to the end");
}

/// The block with the `axi_read_master` that stands behind it in the NIC; AR and R as plain streams.
fn behind_axi<'a>(context: &'a Context) -> Definition<'a> {
    let m = context.module("request_ring_behind_axi");
    let rings = m.instance("u_rings", request_ring(context, &config()));
    let master = axi_read_master::build(context, BUS_BITS, READS as u32);
    let bus = m.instance("u_bus", memory::axi_read_master_bench(context, master, BUS_BITS));
    memory::take(m, rings, "s_axis_ring");
    memory::take(m, rings, "s_axis_doorbell");
    Stream::from_instance(rings, "m_axis_ring_read").connect(Stream::into_instance(bus, "s_axis_payload_request"));
    AxiStream::from_instance(bus, "m_axis_payload").connect(AxiStream::into_instance(rings, "s_axis_ring_data"));
    for (giver, name) in [
        (rings, "m_axis"),
        (rings, "m_axis_progress"),
        (rings, "m_axis_turn"),
        (bus, "m_axis_ar"),
    ] {
        let stream = Stream::from_instance(giver, name);
        stream.connect(Stream::master(m, name, stream.data.width(), "as the block"));
    }
    memory::take(m, bus, "s_axis_r");
    memory::counters(m, rings);
    for port in bus.definition().ports() {
        if port.name.starts_with("count_") {
            bus.output(&port.name).ignore();
        }
    }
    m.finish()
}

/// Bursts are answered beat by beat; one beat in `refuses_one_in` is an error.
fn answer_burst(answer: &mut Answer<'_>, burst: &Received, refuses_one_in: u64) -> Result<bool, String> {
    let address = u64::from_le_bytes(burst.data[..8].try_into().map_err(|_| "a short AR")?);
    if address % u64::from(ENTRY_BYTES) != 0 || burst.data[8] != 7 {
        return Err(format!(
            "a burst of {} beats at {address:#x}",
            u32::from(burst.data[8]) + 1
        ));
    }
    let mut refused = false;
    for (beat, data) in (0..).zip(blocks::bytes(ENTRY_BYTES.into(), address).chunks(8)) {
        let error = (address / 64 + beat) % refuses_one_in == 0;
        refused |= error;
        let response = if error { 2 } else { 0 };
        let frame = Frame {
            not_before: answer.cycle + 20,
            ..Frame::new([data, &[response]].concat())
        };
        answer.send("s_axis_r", frame).map_err(|error| error.to_string())?;
    }
    Ok(refused)
}

/// As in the NIC: an entry is one aligned burst of eight beats, and an error of any of them is a request of no operation.
#[test]
fn behind_axi_an_entry_is_one_burst_and_an_error_of_a_beat_refuses_it() {
    if !common::have_verilator() {
        return;
    }
    let context = Context::new();
    let mut simulation = blocks::simulation(&context, behind_axi(&context));
    let ring = RequestRing {
        base: 0x0fc0,
        ..ring(1, 6)
    };
    let doorbells = [(bell(1, 10), 60), (bell(1, 25), 70), (bell(1, 60), 400)];
    let stimulus = Stimulus::default()
        .source("s_axis_ring", Pattern::Always, frames(&[(ring, 0)]))
        .source("s_axis_doorbell", Pattern::Always, frames(&doorbells))
        .source("s_axis_r", Pattern::Always, [])
        .sink("m_axis_ar", Pattern::Always, SinkChecks::default())
        .sink("m_axis", Pattern::Bursts { on: 3, off: 2 }, SinkChecks::default());
    let limits = Limits {
        quiet_clocks: 1_000,
        ..Limits::default()
    };
    let mut refusals = vec![];
    let mut agent = |answer: &mut Answer<'_>, stream: &str, frame: &Received| {
        if stream == "m_axis_ar" {
            refusals.push(answer_burst(answer, frame, 37)?);
        }
        Ok(())
    };
    let mut bench = Bench::new(&mut simulation, &stimulus, limits).unwrap_or_else(|error| panic!("{error}"));
    let outcome = bench.run(&mut agent).unwrap_or_else(|error| panic!("{error}"));
    drop(bench);

    let mut model = RequestRings::new(Config::from(&config()));
    model.write_ring(&ring);
    model.doorbell(&bell(1, 60));
    let mut expected = vec![];
    for refused in &refusals {
        let read = model.turn().and_then(|turn| turn.read);
        let address = read.map_or(0, |read| read.address);
        let given = model.data(&blocks::bytes(ENTRY_BYTES.into(), address), *refused);
        expected.extend(given.map(|(request, _)| request));
    }
    assert_eq!(expected.len(), 60, "all entries are read");
    assert_eq!(unpacked::<WorkRequest>(&outcome, "m_axis"), expected);
    let refused = refusals.iter().filter(|refused| **refused).count() as u64;
    assert!(refused > 5 && refused < 30, "{refused}");
    assert_eq!(outcome.counters["refused"], refused);
}
