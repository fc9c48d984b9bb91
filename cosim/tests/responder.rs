//! responder: golden model and RTL say the same of the same packets, receive requests and context writes.

#[path = "common/blocks.rs"]
mod blocks;
#[path = "responder/clocks.rs"]
mod clocks;
mod common;
#[path = "responder/events.rs"]
mod events;
#[path = "responder/traffic.rs"]
mod traffic;

use events::{Event, Fault, What};
use proptest::prelude::*;
use spraynic_config::descriptor::{Descriptor, MemoryAccess, PayloadWrite, QueuePairState, SequencedPacket};
use spraynic_config::{NicConfig, Preset, Profile};
use spraynic_cosim::{
    Answer, Bench, Expectation, Format, Frame, Limits, Outcome, Pattern, Received, Simulation, SinkChecks, Stimulus,
};
use spraynic_golden::memory_regions::{self, MemoryRegions};
use spraynic_golden::responder::{Config, Counters, Given, Posted, Responder};
use spraynic_rtl::Context;
use traffic::{BASE, FLEETING_KEY, KEY, Step, Traffic, context};

const OUTPUTS: [&str; 6] = [
    "m_axis",
    "m_axis_payload",
    "m_axis_access",
    "m_axis_credit",
    "m_axis_requester",
    "m_axis_requester_payload",
];

/// All profiles, and two that lack some.
fn config(index: usize) -> NicConfig {
    let mut config = NicConfig::preset(Preset::G100);
    config.queue_pairs.count = 8;
    config.receive.receive_requests = 16;
    match index {
        0 => config.datapath.width_bits = 512,
        1 => {
            config.datapath.width_bits = 64;
            config.queue_pairs.count = 4;
            config.receive.receive_requests = 2;
            config.wire.profiles = [Profile::Roce, Profile::Solar].into();
        }
        _ => {
            config.datapath.width_bits = 128;
            config.receive.receive_requests = 4;
            config.wire.profiles = [Profile::Mrc].into();
        }
    }
    config
}

fn simulation(index: usize) -> Simulation {
    let context = Context::new();
    let definition = spraynic_hdl::responder::responder(&context, &config(index));
    blocks::simulation(&context, definition)
}

/// When the inputs come, and when the outputs are taken.
#[derive(Debug, Clone)]
struct Timing {
    packets: Pattern,
    payload: Pattern,
    /// Clocks from one step to the next, at least.
    pace: u64,
    /// Clocks until `memory_regions` answers.
    regions: u64,
    sinks: [Pattern; 6],
}

const AT_ONCE: Timing = Timing {
    packets: Pattern::Always,
    payload: Pattern::Always,
    pace: 0,
    regions: 4,
    sinks: [const { Pattern::Always }; 6],
};

fn timing() -> impl Strategy<Value = Timing> {
    let sinks = [(); 6].map(|()| Pattern::strategy());
    (Pattern::strategy(), Pattern::strategy(), 0..4u64, 1..12u64, sinks).prop_map(
        |(packets, payload, pace, regions, sinks)| Timing {
            packets,
            payload,
            pace,
            regions,
            sinks,
        },
    )
}

fn payload_of(packet: &SequencedPacket) -> Vec<u8> {
    blocks::bytes(packet.payload_length.into(), packet.psn.into())
}

fn table() -> MemoryRegions {
    let mut table = MemoryRegions::new(memory_regions::Config { regions: 8 });
    traffic::regions().iter().for_each(|region| table.write_region(region));
    table
}

fn run(simulation: &mut Simulation, steps: &[Step], timing: &Timing) -> Outcome {
    // The queue pairs are closed after reset, one a clock.
    let begin = 40;
    let frames = |pick: &dyn Fn(&Step) -> Option<Vec<u8>>| -> Vec<Frame> {
        let places = steps.iter().zip(0u64..);
        let picked = places.filter_map(|(step, place)| {
            let frame = Frame::new(pick(step)?);
            Some(Frame {
                not_before: begin + place * timing.pace,
                ..frame
            })
        });
        picked.collect()
    };
    let packets = frames(&|step| match step {
        Step::Packet(packet) => Some(packet.pack()),
        _ => None,
    });
    let payload = frames(&|step| match step {
        Step::Packet(packet) => Some(payload_of(packet)).filter(|bytes| !bytes.is_empty()),
        _ => None,
    });
    let requests = frames(&|step| match step {
        Step::Request(request) => Some(request.pack()),
        _ => None,
    });
    let contexts = frames(&|step| match step {
        Step::Context(context) => Some(context.pack()),
        _ => None,
    });
    let mut stimulus = Stimulus::default()
        .source("s_axis", timing.packets.clone(), packets)
        .source("s_axis_payload", timing.payload.clone(), payload)
        .source("s_axis_receive_request", Pattern::Always, requests)
        .source("s_axis_context", Pattern::Always, contexts)
        .source("s_axis_translation", Pattern::Always, []);
    for (output, pattern) in OUTPUTS.into_iter().zip(timing.sinks.clone()) {
        let checks = SinkChecks {
            record_beats: true,
            ..SinkChecks::default()
        };
        stimulus = stimulus.sink(output, pattern, checks);
    }
    let mut table = table();
    let mut regions = |answer: &mut Answer<'_>, stream: &str, frame: &Received| {
        if stream == "m_axis_access" {
            let translation = table.access(&MemoryAccess::unpack(&frame.data));
            let reply = Frame {
                not_before: answer.cycle + timing.regions,
                ..Frame::new(translation.pack())
            };
            answer
                .send("s_axis_translation", reply)
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    };
    Bench::new(simulation, &stimulus, Limits::default())
        .and_then(|mut bench| bench.run(&mut regions))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// What the golden model gives.
#[derive(Default)]
struct Golden {
    outputs: [Vec<Frame>; 6],
    counters: Counters,
}

/// The steps in the order in which the RTL accepted them.
fn accepted<'a>(steps: &'a [Step], outcome: &Outcome) -> Vec<&'a Step> {
    let mut order: Vec<(u64, &Step)> = vec![];
    for (stream, is_of) in [
        ("s_axis", (|step| matches!(step, Step::Packet(_))) as fn(&Step) -> bool),
        ("s_axis_receive_request", |step| matches!(step, Step::Request(_))),
        ("s_axis_context", |step| matches!(step, Step::Context(_))),
    ] {
        let accepted = outcome.accepted(stream).iter().map(|timing| timing.last_cycle);
        order.extend(accepted.zip(steps.iter().filter(|step| is_of(step))));
    }
    assert_eq!(order.len(), steps.len(), "everything is accepted");
    order.sort_by_key(|(cycle, _)| *cycle);
    assert!(order.windows(2).all(|pair| pair[0].0 < pair[1].0), "one a clock");
    order.into_iter().map(|(_, step)| step).collect()
}

fn keep(frames: &mut Vec<Frame>, bytes: Vec<u8>) {
    if !bytes.is_empty() {
        frames.push(Frame::new(bytes));
    }
}

impl Golden {
    fn run(&mut self, config: &NicConfig, steps: &[&Step]) {
        let mut model = Responder::new(Config::from(config));
        let mut table = table();
        let [writes, payloads, accesses, credits, responses, response_payloads] = &mut self.outputs;
        for step in steps {
            match step {
                Step::Context(context) => {
                    let flushed = model.write_context(context);
                    flushed.iter().for_each(|write| keep(writes, write.pack()));
                }
                Step::Request(request) => match model.post(request) {
                    Posted::Credit(qpn) => keep(credits, qpn.to_le_bytes()[..3].to_vec()),
                    Posted::Flushed(write) => keep(writes, write.pack()),
                    Posted::NoQueuePair | Posted::Full => {}
                },
                Step::Packet(packet) => {
                    let ask = |access: &MemoryAccess| {
                        accesses.push(Frame::new(access.pack()));
                        table.access(access)
                    };
                    match model.receive(packet, payload_of(packet), ask) {
                        Given::Request(write, payload) => {
                            keep(writes, write.pack());
                            keep(payloads, payload);
                        }
                        Given::Response(response, payload) => {
                            keep(responses, response.pack());
                            keep(response_payloads, payload);
                        }
                    }
                }
            }
        }
        self.counters = *model.counters();
    }
}

/// The counters by the names of their ports.
fn named(c: &Counters) -> [(&'static str, u32); 16] {
    [
        ("accepted", c.accepted),
        ("retired", c.retired),
        ("duplicates", c.duplicates),
        ("drop_duplicate", c.drop_duplicate),
        ("refused_invalid_request", c.refused_invalid_request),
        ("refused_remote_access", c.refused_remote_access),
        ("refused_operational", c.refused_operational),
        ("drop_failed", c.drop_failed),
        ("drop_closed", c.drop_closed),
        ("responses", c.responses),
        ("messages", c.messages),
        ("receive_requests", c.receive_requests),
        ("drop_receive_request", c.drop_receive_request),
        ("drop_receive_request_full", c.drop_receive_request_full),
        ("flushed", c.flushed),
        ("drop_context", c.drop_context),
    ]
}

/// Runs, and compares every output and every counter.
fn check(index: usize, steps: &[Step], timing: &Timing) -> Result<Outcome, TestCaseError> {
    let outcome = run(&mut simulation(index), steps, timing);
    let mut golden = Golden::default();
    golden.run(&config(index), &accepted(steps, &outcome));
    let formats = [
        Format::descriptor::<PayloadWrite>(),
        Format::default(),
        Format::descriptor::<MemoryAccess>(),
        Format::default(),
        Format::descriptor::<SequencedPacket>(),
        Format::default(),
    ];
    let counters = named(&golden.counters);
    let mut expected = Expectation::default();
    for ((output, format), frames) in OUTPUTS.into_iter().zip(formats).zip(golden.outputs) {
        expected = expected.stream(output, format, frames);
    }
    for (name, value) in counters {
        expected = expected.counter(name, value.into());
    }
    prop_assert_eq!(outcome.counters.len(), counters.len(), "every counter is compared");
    expected
        .check(&outcome)
        .map_err(|mismatch| TestCaseError::fail(mismatch.to_string()))?;
    Ok(outcome)
}

/// Queue pairs 0 to 3 receive.
fn opened(steps: impl IntoIterator<Item = Step>) -> Vec<Step> {
    let open = (0..4).map(|qpn| context(qpn, QueuePairState::ReadyToSend));
    open.chain(steps).collect()
}

proptest! {
    #![proptest_config(common::config(120, "responder"))]
    #[test]
    fn all_outputs_and_counters_equal_the_golden_model(
        events in events::events(), seed in any::<u64>(), timing in timing(),
    ) {
        if common::have_verilator() {
            let steps = opened(Traffic::new(&config(0)).steps(&events, seed));
            check(0, &steps, &timing)?;
        }
    }

    #[test]
    fn smaller_configurations_equal_it_too(
        index in 1..3usize, events in events::events(), seed in any::<u64>(), timing in timing(),
    ) {
        if common::have_verilator() {
            let steps = opened(Traffic::new(&config(index)).steps(&events, seed));
            check(index, &steps, &timing)?;
        }
    }
}

/// The traffic of the properties is not all of one kind: each counter goes up many times, by the model alone.
#[test]
fn the_traffic_reaches_every_counter() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut sums = std::collections::BTreeMap::new();
    for seed in 0..300 {
        let events = events::events().new_tree(&mut runner).expect("events").current();
        let index = seed % 3;
        let steps = opened(Traffic::new(&config(index)).steps(&events, seed as u64));
        let mut golden = Golden::default();
        golden.run(&config(index), &steps.iter().collect::<Vec<_>>());
        for (name, value) in named(&golden.counters) {
            *sums.entry(name).or_insert(0) += value;
        }
    }
    for (name, sum) in sums {
        assert!(sum >= 10, "{name}: {sum}");
    }
}

/// Events of queue pair `qpn` alone, all right.
fn of(qpn: u32, whats: impl IntoIterator<Item = What>) -> Vec<Step> {
    let numbered = whats.into_iter().zip((2..).step_by(2));
    let events: Vec<Event> = numbered.map(|(what, number)| Event { qpn, what, number }).collect();
    opened(Traffic::new(&config(0)).steps(&events, 1))
}

/// The writes with the clocks in which they were given, without the markers of context writes.
fn given(outcome: &Outcome) -> Vec<(u64, PayloadWrite)> {
    let frames = outcome.received("m_axis").iter();
    let writes = frames.map(|frame| (frame.last_cycle, PayloadWrite::unpack(&frame.data)));
    writes.filter(|(_, write)| !write.marker).collect()
}

fn writes(outcome: &Outcome) -> Vec<PayloadWrite> {
    given(outcome).into_iter().map(|(_, write)| write).collect()
}

/// roce, solar and mrc.
const QPNS: [u32; 3] = [0, 1, 2];

fn write(length: u16) -> What {
    What::Write {
        length,
        immediate: false,
    }
}

fn send(length: u16) -> What {
    What::Send {
        length,
        immediate: false,
        invalidate: false,
    }
}

#[test]
fn a_zero_length_write_or_send_takes_one_psn_and_needs_no_key() {
    if !common::have_verilator() {
        return;
    }
    for qpn in [0, 1] {
        let whats = [
            What::Request { length: 0 },
            What::Fault(Fault::Key(0xDEAD_BEEF)),
            write(0),
            send(0),
        ];
        let outcome = check(0, &of(qpn, whats), &AT_ONCE).unwrap();
        let found: Vec<_> = writes(&outcome)
            .iter()
            .map(|write| (write.psn, write.msn, write.discard, write.completion, write.answer))
            .collect();
        assert_eq!(
            found,
            [(0xFF_FFF1, 1, false, false, true), (0xFF_FFF2, 2, false, true, true)]
        );
    }
}

#[test]
fn a_write_longer_than_8_kib_keeps_every_byte_and_its_place() {
    if !common::have_verilator() {
        return;
    }
    for qpn in QPNS {
        let outcome = check(0, &of(qpn, [write(8193), write(1)]), &AT_ONCE).unwrap();
        let writes = writes(&outcome);
        let data: Vec<_> = writes.iter().filter(|write| write.length > 0).collect();
        assert_eq!(data.len(), 34);
        for pair in data[..33].windows(2) {
            assert_eq!(pair[1].address, pair[0].address + u64::from(pair[0].length));
        }
        assert_eq!(writes[writes.len() - 1].msn, 2);
    }
}

/// The same READ over and over while a SEND is in progress, a clock apart.
#[test]
fn a_duplicate_read_while_the_first_is_answered_is_executed_again() {
    if !common::have_verilator() {
        return;
    }
    let steps = of(
        0,
        [
            What::Request { length: 9000 },
            What::Read { length: 700 },
            send(600),
            write(4),
        ],
    );
    let read = steps.iter().find_map(|step| match step {
        Step::Packet(packet) => Some(*packet),
        _ => None,
    });
    let again = Step::Packet(SequencedPacket {
        duplicate: true,
        ..read.expect("the READ")
    });
    let mut with_duplicates = Vec::new();
    for step in steps {
        let packet = matches!(step, Step::Packet(_));
        with_duplicates.push(step);
        if packet {
            with_duplicates.extend([again.clone(), again.clone()]);
        }
    }
    let outcome = check(0, &with_duplicates, &AT_ONCE).unwrap();
    let writes = writes(&outcome);
    let executed: Vec<_> = writes.iter().filter(|write| write.execute).collect();
    assert_eq!(executed.len(), 11);
    assert!(
        executed
            .iter()
            .all(|write| write.byte_count == 700 && write.address == executed[0].address)
    );
    assert_eq!(writes.iter().map(|write| write.msn).max(), Some(3));
    assert!(writes.iter().all(|write| !write.discard));
}

#[test]
fn no_access_leaves_its_region_at_the_end_of_the_address_space() {
    if !common::have_verilator() {
        return;
    }
    for qpn in QPNS {
        for offset in [
            u64::MAX - BASE,
            u64::MAX - BASE - 3,
            0x1_0000 - 3,
            u64::MAX,
            BASE.wrapping_neg(),
        ] {
            let whats = [write(4), What::Fault(Fault::Offset(offset)), write(4), write(4)];
            let outcome = check(0, &of(qpn, whats), &AT_ONCE).unwrap();
            let refused: Vec<_> = writes(&outcome)
                .iter()
                .filter(|write| write.length > 0)
                .map(|write| (write.discard, write.answer && write.syndrome == 0x62))
                .collect();
            assert_eq!(refused, [(false, false), (true, true), (true, false)], "{offset:#x}");
        }
    }
}

#[test]
fn a_retry_with_the_other_generation_of_a_key_is_judged_by_itself() {
    if !common::have_verilator() {
        return;
    }
    let whats = [
        What::Fault(Fault::Key(KEY ^ 1)),
        write(8),
        write(8),
        What::State(QueuePairState::Error),
        What::State(QueuePairState::ReadyToSend),
        write(8),
    ];
    let timing = Timing { pace: 20, ..AT_ONCE };
    let outcome = check(0, &of(1, whats), &timing).unwrap();
    let found: Vec<_> = writes(&outcome)
        .iter()
        .map(|write| (write.discard, write.answer, write.msn))
        .collect();
    assert_eq!(found, [(true, true, 0), (true, false, 0), (false, true, 1)]);
}

/// The access of the WRITE must not overtake the invalidation, however close it comes.
#[test]
fn a_write_right_behind_a_send_with_invalidate_finds_the_key_dead() {
    if !common::have_verilator() {
        return;
    }
    let invalidates = What::Send {
        length: 4,
        immediate: false,
        invalidate: true,
    };
    for regions in 1..12 {
        let whats = [
            What::Request { length: 9000 },
            write(8),
            What::Fault(Fault::Key(FLEETING_KEY)),
            write(8),
            invalidates,
            write(8),
            What::Fault(Fault::Key(FLEETING_KEY)),
            write(8),
        ];
        let timing = Timing { regions, ..AT_ONCE };
        let outcome = check(0, &of(1, whats), &timing).unwrap();
        let found: Vec<_> = writes(&outcome)
            .iter()
            .map(|write| (write.discard, write.syndrome))
            .collect();
        assert_eq!(
            found,
            [(false, 0x1F), (false, 0x1F), (false, 0x1F), (false, 0x1F), (true, 0x62)]
        );
    }
}

/// A flush of a full ring, with a SEND in progress, into an output that is seldom ready.
#[test]
fn a_failed_queue_pair_gives_every_receive_request_back_in_order() {
    if !common::have_verilator() {
        return;
    }
    let requests = (0..16).map(|_| What::Request { length: 9000 });
    let whats = requests
        .chain([What::Fault(Fault::MissingLast), send(600)])
        .chain([send(1), send(2)])
        .chain([What::State(QueuePairState::Error)]);
    let mut timing = AT_ONCE;
    timing.sinks[0] = Pattern::Bursts { on: 1, off: 7 };
    timing.pace = 20;
    let outcome = check(0, &of(1, whats), &timing).unwrap();
    let ended: Vec<u64> = writes(&outcome)
        .iter()
        .filter(|write| write.completion)
        .map(|write| write.cookie)
        .collect();
    assert_eq!(ended, (1..=16).map(|number| 2 * number).collect::<Vec<u64>>());
}
