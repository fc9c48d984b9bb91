//! response_engine: golden model and RTL give the same responses, answers and changes of memory for the same requests.

#[path = "common/blocks.rs"]
mod blocks;
mod common;

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use spraynic_config::descriptor::{
    Answer, AtomicWrite, Descriptor, PacketDescriptor, PayloadWrite, QueuePairContext, QueuePairState, ResponseMessage,
};
use spraynic_config::{NicConfig, Operation, Preset, Profile};
use spraynic_cosim::{
    Answer as Reaction, Bench, BenchError, Frame, Limits, ModelSource, Outcome, Pattern, Received, Simulation,
    SinkChecks, Stimulus,
};
use spraynic_golden::response_engine::{AtomicMemory, Config, ResponseEngine};
use spraynic_hdl::response_engine::gives_messages;
use spraynic_rtl::Context;

const QUEUE_PAIRS: u32 = 16;
/// Clocks in which the table is cleared, and some more.
const BEGIN: u64 = QUEUE_PAIRS as u64 + 10;
/// Clocks from the contexts of a phase to its requests.
const SETTLE: u64 = 60;
/// Entropy value of the request that ends a phase: no other one has it.
const MARK: u32 = 0xF_FFFF;

/// Everything; one answer kept, no solar, hence no messages; no roce, hence no store.
fn configs() -> [NicConfig; 3] {
    let config = |change: fn(&mut NicConfig)| {
        let mut config = NicConfig::preset(Preset::G100);
        config.queue_pairs.count = QUEUE_PAIRS;
        change(&mut config);
        config
    };
    [
        config(|_| {}),
        config(|config| {
            config.receive.stored_atomics = 1;
            config.wire.profiles = [Profile::Roce, Profile::Mrc].into();
        }),
        config(|config| {
            config.wire.profiles = [Profile::Solar, Profile::Mrc].into();
        }),
    ]
}

fn simulation(config: &NicConfig) -> Simulation {
    let context = Context::new();
    let definition = spraynic_hdl::response_engine::response_engine(&context, config);
    blocks::simulation(&context, definition)
}

/// Memory of 8-byte numbers; where nothing was written, a number made of the address. Some addresses refuse writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Numbers(BTreeMap<u64, u64>);

impl AtomicMemory for Numbers {
    fn read(&mut self, address: u64) -> u64 {
        *self.0.entry(address).or_insert(address >> 3 & 3)
    }

    fn write(&mut self, address: u64, value: u64) -> bool {
        let takes = address >> 3 & 15 != 7;
        if takes {
            self.0.insert(address, value);
        }
        takes
    }
}

/// Contexts, then requests when they hold.
#[derive(Debug, Clone)]
struct Phase {
    contexts: Vec<QueuePairContext>,
    requests: Vec<PayloadWrite>,
}

#[derive(Debug, Clone)]
struct Scenario {
    phases: Vec<Phase>,
    gaps: Pattern,
    /// Back-pressure of responses, answers, reads and writes of memory, messages.
    pressure: [Pattern; 5],
    latency: u64,
}

fn context() -> impl Strategy<Value = QueuePairContext> {
    let state = prop_oneof![4 => Just(3u8), 1 => 0u8..=4];
    let qpn = prop_oneof![20 => 0..6u32, 1 => 0..1u32 << 24];
    (qpn, state, prop_oneof![0..1u32 << 24, Just(0xFF_FFFD)]).prop_map(|(qpn, state, sent_response_psn)| {
        QueuePairContext {
            qpn,
            state,
            sent_response_psn,
            ..QueuePairContext::default()
        }
    })
}

/// PSNs are few, so that duplicates find what is kept; addresses too, so that compares succeed and writes are refused.
fn request() -> impl Strategy<Value = PayloadWrite> {
    let opcode = prop_oneof![3 => Just(0x0Cu8), 3 => Just(0x13), 3 => Just(0x14), 3 => Just(0x0A), 1 => any::<u8>()];
    let length = prop_oneof![3 => 0..600u32, 2 => (0..20u32, -1..=1i32).prop_map(|(count, off)| (count * 256).saturating_add_signed(off))];
    let qpn = prop_oneof![30 => 0..6u32, 1 => 0..1u32 << 24];
    let profile = prop_oneof![6 => Just(0u8), 4 => Just(1u8), 1 => 2u8..4];
    let numbers = (0u32..6, any::<u64>(), 0u64..4, 0u64..4, 0u32..MARK, any::<u8>());
    (qpn, opcode, profile, length, 1..8u8, any::<[bool; 4]>(), numbers).prop_map(
        |(
            qpn,
            opcode,
            profile,
            byte_count,
            mtu,
            [answer, silent, duplicate, wide],
            (psn, address, compare, swap_add, entropy, syndrome),
        )| {
            // One in 16 of what asks for nothing is a marker.
            let marker = opcode == 0x0A && syndrome & 15 == 0;
            let execute = opcode != 0x0A;
            let atomic = matches!(opcode, 0x13 | 0x14);
            PayloadWrite {
                qpn,
                opcode,
                address: if atomic { (address % 16) * 8 } else { address },
                answer: (answer || !execute) && !marker,
                marker,
                execute,
                psn: if atomic { psn } else { (address & 0xFF_FFFF) as u32 },
                syndrome,
                profile,
                silent,
                duplicate,
                mtu,
                entropy,
                byte_count,
                compare,
                swap_add: if wide { address } else { swap_add },
                ..PayloadWrite::default()
            }
        },
    )
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let phase = (
        prop::collection::vec(context(), 0..8),
        prop::collection::vec(request(), 1..30),
    )
        .prop_map(|(contexts, requests)| Phase { contexts, requests });
    let pattern = Pattern::strategy;
    (
        prop::collection::vec(phase, 1..4),
        pattern(),
        [pattern(), pattern(), pattern(), pattern(), pattern()],
        prop_oneof![0..20u64, Just(250)],
    )
        .prop_map(|(mut phases, gaps, pressure, latency)| {
            let open = (0..6).map(|qpn| QueuePairContext {
                qpn,
                state: QueuePairState::ReadyToReceive as u8,
                sent_response_psn: 0xFF_FFFE,
                ..QueuePairContext::default()
            });
            phases[0].contexts.splice(0..0, open);
            let mut msn = 0;
            for phase in &mut phases {
                phase.requests.push(PayloadWrite {
                    answer: true,
                    entropy: MARK,
                    ..PayloadWrite::default()
                });
                // The MSN tells requests apart.
                for request in &mut phase.requests {
                    request.msn = msn;
                    msn += 1;
                }
            }
            Scenario {
                phases,
                gaps,
                pressure,
                latency,
            }
        })
}

/// Sends the phases one behind the other, and is memory.
struct World {
    phases: VecDeque<Phase>,
    memory: Numbers,
    latency: u64,
}

impl World {
    fn react(&mut self, reaction: &mut Reaction<'_>, stream: &str, frame: &Received) -> Result<(), String> {
        let mut send = |stream: &str, delay: u64, data: Vec<u8>| {
            let frame = Frame {
                not_before: reaction.cycle + delay,
                ..Frame::new(data)
            };
            reaction.send(stream, frame).map_err(|error| error.to_string())
        };
        match stream {
            "m_axis_response" if PacketDescriptor::unpack(&frame.data).entropy == MARK => {
                let Some(phase) = self.phases.pop_front() else {
                    return Ok(());
                };
                for context in &phase.contexts {
                    send("s_axis_context", 1, context.pack())?;
                }
                for request in &phase.requests {
                    send("s_axis", SETTLE, request.pack())?;
                }
            }
            "m_axis_atomic_read" => {
                let address = u64::from_le_bytes(frame.data[..8].try_into().expect("8 bytes"));
                let value = self.memory.read(address);
                send("s_axis_atomic_data", self.latency, value.to_le_bytes().to_vec())?;
            }
            "m_axis_atomic_write" => {
                let write = AtomicWrite::unpack(&frame.data);
                let takes = self.memory.write(write.address, write.data);
                send("s_axis_atomic_written", self.latency, vec![u8::from(!takes)])?;
            }
            _ => {}
        }
        Ok(())
    }
}

fn run(config: &NicConfig, scenario: &Scenario) -> Result<(Outcome, World), BenchError> {
    let mut phases: VecDeque<Phase> = scenario.phases.clone().into();
    let first = phases.pop_front().expect("one at least");
    let at = |cycle: u64, bytes: Vec<u8>| Frame {
        not_before: cycle,
        ..Frame::new(bytes)
    };
    let [responses, answers, reads, writes, messages] = scenario.pressure.clone();
    let requests = first.requests.iter().map(|request| at(BEGIN + SETTLE, request.pack()));
    let recorded = SinkChecks {
        record_beats: true,
        ..SinkChecks::default()
    };
    let mut stimulus = Stimulus::default()
        .source(
            "s_axis_context",
            Pattern::Always,
            first.contexts.iter().map(|context| at(BEGIN, context.pack())),
        )
        .source("s_axis", scenario.gaps.clone(), requests)
        .source("s_axis_atomic_data", Pattern::Always, [])
        .source("s_axis_atomic_written", Pattern::Always, [])
        .sink("m_axis_response", responses, recorded.clone())
        .sink("m_axis_answer", answers, recorded.clone())
        .sink("m_axis_atomic_read", reads, SinkChecks::default())
        .sink("m_axis_atomic_write", writes, SinkChecks::default());
    if gives_messages(config) {
        stimulus = stimulus.sink("m_axis_message", messages, recorded);
    }
    let mut world = World {
        phases,
        memory: Numbers::default(),
        latency: scenario.latency,
    };
    let mut simulation = simulation(config);
    let limits = Limits {
        quiet_clocks: 700,
        ..Limits::default()
    };
    let mut agent = |reaction: &mut Reaction<'_>, stream: &str, frame: &Received| world.react(reaction, stream, frame);
    let outcome = Bench::new(&mut simulation, &stimulus, limits)?.run(&mut agent)?;
    Ok((outcome, world))
}

fn check(config: &NicConfig, scenario: &Scenario) -> Result<Outcome, TestCaseError> {
    let (outcome, world) = run(config, scenario).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let mut model = ResponseEngine::new(Config::from(config));
    let mut memory = Numbers::default();
    let (mut packets, mut messages) = (Vec::new(), Vec::new());
    let (mut executed, mut at_once) = (Vec::new(), Vec::new());
    for phase in &scenario.phases {
        phase.contexts.iter().for_each(|context| model.write_context(context));
        for request in &phase.requests {
            let given = model.take(request, &mut memory);
            match given.packets.message() {
                Some(message) => messages.push(message),
                None => packets.extend(given.packets),
            }
            let queued = request.execute || request.marker || request.profile == Profile::Roce.code();
            if queued { &mut executed } else { &mut at_once }.extend(given.answer);
        }
    }
    let received = outcome.received("m_axis_response");
    for (place, (expected, given)) in packets.iter().zip(received).enumerate() {
        prop_assert_eq!(expected, &PacketDescriptor::unpack(&given.data), "response {}", place);
    }
    prop_assert_eq!(packets.len(), received.len(), "count of responses");
    let received = outcome.received("m_axis_message").iter();
    let received: Vec<_> = received.map(|frame| ResponseMessage::unpack(&frame.data)).collect();
    prop_assert_eq!(received, messages, "messages");
    // Answers at once may overtake those that were executed; within each kind the order holds.
    let is_at_once: std::collections::BTreeSet<u32> = at_once.iter().map(|answer: &Answer| answer.msn).collect();
    let answers = outcome
        .received("m_axis_answer")
        .iter()
        .map(|frame| Answer::unpack(&frame.data));
    let (given_at_once, given): (Vec<Answer>, Vec<Answer>) =
        answers.partition(|answer| is_at_once.contains(&answer.msn));
    prop_assert_eq!(given_at_once, at_once, "answers at once");
    prop_assert_eq!(given, executed, "answers of what was executed");
    prop_assert_eq!(&world.memory, &memory, "memory");
    prop_assert!(world.phases.is_empty());
    let counters = model.counters();
    let named = [
        ("answers", counters.answers),
        ("acks", counters.acks),
        ("naks", counters.naks),
        ("reads", counters.reads),
        ("read_responses", counters.read_responses),
        ("atomics", counters.atomics),
        ("repeated_atomics", counters.repeated_atomics),
        ("atomic_errors", counters.atomic_errors),
        ("drop_queue_pair", counters.drop_queue_pair),
        ("drop_opcode", counters.drop_opcode),
        ("drop_duplicate", counters.drop_duplicate),
    ];
    prop_assert_eq!(outcome.counters.len(), named.len(), "every counter is compared");
    for (name, value) in named {
        prop_assert_eq!(outcome.counters[name], u64::from(value), "count_{}", name);
    }
    Ok(outcome)
}

proptest! {
    #![proptest_config(common::config(100, "response_engine"))]
    #[test]
    fn responses_answers_and_memory_equal_the_golden_model(index in 0..3usize, scenario in scenario()) {
        if common::have_verilator() {
            check(&configs()[index], &scenario)?;
        }
    }
}

/// One phase with queue pair 1 open, under no back-pressure.
fn plain(requests: impl IntoIterator<Item = PayloadWrite>) -> Scenario {
    let context = QueuePairContext {
        qpn: 1,
        state: QueuePairState::ReadyToReceive as u8,
        ..QueuePairContext::default()
    };
    let requests = requests.into_iter().zip(0..).map(|(request, msn)| PayloadWrite {
        qpn: 1,
        msn,
        mtu: 1,
        ..request
    });
    Scenario {
        phases: vec![Phase {
            contexts: vec![context],
            requests: requests.collect(),
        }],
        gaps: Pattern::Always,
        pressure: Default::default(),
        latency: 0,
    }
}

fn clocks(cycles: &[u64]) -> u64 {
    cycles[cycles.len() - 1] - cycles[0] + 1
}

#[test]
fn one_descriptor_a_clock() {
    if !common::have_verilator() {
        return;
    }
    let config = &configs()[0];
    let answer = |profile: Profile| PayloadWrite {
        answer: true,
        profile: profile.code(),
        ..PayloadWrite::default()
    };
    let read = |profile: Profile, byte_count| PayloadWrite {
        execute: true,
        opcode: 0x0C,
        byte_count,
        profile: profile.code(),
        ..PayloadWrite::default()
    };
    let taken = |outcome: &Outcome| outcome.accepted("s_axis")[0].last_cycle;
    // ACKs: a packet and an answer a clock.
    let outcome = check(config, &plain(vec![answer(Profile::Roce); 200])).unwrap();
    for stream in ["m_axis_response", "m_axis_answer"] {
        let beats = outcome.beat_cycles(stream);
        assert_eq!((beats.len(), clocks(beats)), (200, 200), "{stream}");
        assert_eq!(
            beats[0] - taken(&outcome),
            4,
            "clocks from request to ACK, as documented"
        );
    }
    for profile in [Profile::Solar, Profile::Mrc] {
        let outcome = check(config, &plain(vec![answer(profile); 200])).unwrap();
        let beats = outcome.beat_cycles("m_axis_answer");
        assert_eq!((beats.len(), clocks(beats)), (200, 200));
        assert_eq!(
            beats[0] - taken(&outcome),
            1,
            "clocks from request to Answer, as documented"
        );
    }
    // READs of three packets or more follow each other without a gap; shorter ones, and those of solar, take three clocks.
    for profile in [Profile::Roce, Profile::Solar] {
        for (length, packets) in [(64, 1), (512, 2), (768, 3), (2049, 9)] {
            let outcome = check(config, &plain(vec![read(profile, length); 60])).unwrap();
            let (stream, packets) = match profile {
                Profile::Solar => ("m_axis_message", 1),
                _ => ("m_axis_response", packets),
            };
            let beats = outcome.beat_cycles(stream);
            println!(
                "{profile:?}, {length} bytes: {} responses in {} clocks",
                beats.len(),
                clocks(beats)
            );
            assert_eq!(beats.len(), 60 * packets);
            let each = packets.max(3) as u64;
            assert_eq!(clocks(beats), 59 * each + packets as u64, "{length} bytes");
            assert_eq!(
                beats[0] - taken(&outcome),
                6,
                "clocks from READ to response, as documented"
            );
        }
    }
}

/// What an atomic takes where memory answers in the next clock: from the first request to its answer and from one to the next.
#[test]
fn an_atomic_takes_as_long_as_documented() {
    if !common::have_verilator() {
        return;
    }
    let atomic = PayloadWrite {
        execute: true,
        opcode: 0x14,
        ..PayloadWrite::default()
    };
    let outcome = check(&configs()[0], &plain(vec![atomic; 3])).unwrap();
    let beats = outcome.beat_cycles("m_axis_response");
    let taken = outcome.accepted("s_axis")[0].last_cycle;
    assert_eq!(
        (beats[0] - taken, beats[1] - beats[0], beats[2] - beats[1]),
        (13, 10, 10)
    );
}

/// An answer of solar does not wait behind a READ of roce, however long.
#[test]
fn answers_of_solar_pass_a_read() {
    if !common::have_verilator() {
        return;
    }
    let read = PayloadWrite {
        execute: true,
        opcode: 0x0C,
        byte_count: 50_000,
        profile: Profile::Roce.code(),
        ..PayloadWrite::default()
    };
    let answer = PayloadWrite {
        answer: true,
        profile: Profile::Solar.code(),
        ..PayloadWrite::default()
    };
    let outcome = check(&configs()[0], &plain([read, answer])).unwrap();
    let beats = outcome.beat_cycles("m_axis_response");
    assert!(outcome.beat_cycles("m_axis_answer")[0] < beats[0]);
}

/// A READ of 2^31 bytes ends soon after its queue pair was closed, and what comes behind it is answered.
#[test]
fn a_read_ends_with_its_queue_pair() {
    if !common::have_verilator() {
        return;
    }
    let context = |qpn, state: QueuePairState, not_before| {
        let context = QueuePairContext {
            qpn,
            state: state as u8,
            ..QueuePairContext::default()
        };
        Frame {
            not_before,
            ..Frame::new(context.pack())
        }
    };
    let request = |qpn, byte_count| {
        let read = PayloadWrite {
            qpn,
            execute: true,
            opcode: 0x0C,
            byte_count,
            mtu: 1,
            ..PayloadWrite::default()
        };
        Frame {
            not_before: BEGIN + SETTLE,
            ..Frame::new(read.pack())
        }
    };
    let stimulus = Stimulus::default()
        .source(
            "s_axis_context",
            Pattern::Always,
            [
                context(1, QueuePairState::ReadyToReceive, BEGIN),
                context(2, QueuePairState::ReadyToReceive, BEGIN),
                // Others than that of the READ, and a state that receives, change nothing.
                context(3, QueuePairState::Reset, 200),
                context(1 + QUEUE_PAIRS, QueuePairState::Reset, 210),
                context(1, QueuePairState::ReadyToSend, 220),
                context(1, QueuePairState::Reset, 300),
            ],
        )
        .source(
            "s_axis",
            Pattern::Always,
            [request(1, 1 << 31), request(1, 1), request(2, 1)],
        );
    let outcome = spraynic_cosim::run(&mut simulation(&configs()[0]), &stimulus, Limits::default())
        .unwrap_or_else(|error| panic!("{error}"));
    let responses: Vec<_> = outcome
        .received("m_axis_response")
        .iter()
        .map(|frame| (PacketDescriptor::unpack(&frame.data), frame.last_cycle))
        .collect();
    let (of_closed, of_other): (Vec<_>, Vec<_>) = responses.into_iter().partition(|(packet, _)| packet.qpn == 1);
    let last = of_closed[of_closed.len() - 1].1;
    assert!((300..=306).contains(&last), "it ended in cycle {last}");
    assert_eq!(of_other.len(), 1);
    assert_eq!(
        outcome.counters["drop_queue_pair"], 1,
        "the second READ of the closed queue pair"
    );
    assert_eq!(outcome.counters["reads"], 2);
}

#[test]
fn linters_have_nothing_to_say() {
    if !common::have_verilator() {
        return;
    }
    let mut writes_alone = configs()[0].clone();
    writes_alone.wire.operations = [Operation::Write].into();
    let mut mrc_alone = writes_alone.clone();
    mrc_alone.wire.profiles = [Profile::Mrc].into();
    for config in [writes_alone, mrc_alone] {
        let context = Context::new();
        let source = ModelSource::from_definition(spraynic_hdl::response_engine::response_engine(&context, &config));
        spraynic_cosim::lint(&source).unwrap_or_else(|error| panic!("{error}"));
    }
}
