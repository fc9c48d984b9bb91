//! payload_writer: golden model and RTL ask memory for the same writes, and give the same completions and answers behind them.

#[path = "common/blocks.rs"]
mod blocks;
mod common;
#[path = "common/memory.rs"]
mod memory;

use proptest::prelude::*;
use spraynic_config::descriptor::{
    Completion, Descriptor, MemoryWrite, PayloadWrite, QueuePairContext, QueuePairState,
};
use spraynic_config::{NicConfig, Preset};
use spraynic_cosim::{Answer, Bench, Frame, Limits, Outcome, Pattern, Received, Simulation, SinkChecks, Stimulus};
use spraynic_golden::payload_writer::{AlignedWrite, Config, PayloadWriter};
use spraynic_rtl::Context;

const QUEUE_PAIRS: u32 = 16;
/// Width of the bus and packets that wait for memory.
const SIZES: [(u32, u32); 4] = [(64, 8), (128, 64), (512, 128), (1024, 32)];
/// Clocks in which the table of failed queue pairs is cleared, and some more.
const BEGIN: u64 = QUEUE_PAIRS as u64 + 10;

fn config((width, outstanding): (u32, u32)) -> NicConfig {
    let mut config = NicConfig::preset(Preset::G100);
    config.queue_pairs.count = QUEUE_PAIRS;
    config.datapath.width_bits = width;
    config.receive.outstanding_writes = outstanding;
    config
}

fn simulation(size: (u32, u32)) -> Simulation {
    let context = Context::new();
    let writer = spraynic_hdl::payload_writer::payload_writer(&context, &config(size));
    blocks::simulation(&context, memory::payload_writer_bench(&context, writer))
}

/// What happens, in this order.
#[derive(Debug, Clone)]
struct Scenario {
    packets: Vec<(PayloadWrite, Vec<u8>)>,
    /// Gaps of packets and payload.
    gaps: [Pattern; 2],
    /// Back-pressure of writes, data, completions, responses.
    pressure: [Pattern; 4],
    /// Clocks that memory takes at least, and at most in addition; one write in so many is refused (0: none).
    memory: (u64, u64, u64),
}

fn packet() -> impl Strategy<Value = (PayloadWrite, Vec<u8>)> {
    let payload = prop_oneof![1 => Just(0), 3 => memory::length()];
    let flags = any::<[bool; 8]>();
    let opcode = prop_oneof![
        4 => prop::sample::select(vec![0x00u8, 0x04, 0x05, 0x0A, 0x0B, 0x0C, 0x13, 0x16, 0x17, 0xC8, 0xCB]),
        1 => any::<u8>(),
    ];
    let qpn = prop_oneof![20 => 0..4u32, 1 => 0..1u32 << 24];
    (
        qpn,
        opcode,
        payload,
        memory::address(),
        flags,
        any::<[u32; 6]>(),
        any::<[u64; 3]>(),
    )
        .prop_map(|(qpn, opcode, length, address, flags, numbers, wide)| {
            let [
                discard,
                answer,
                completion,
                silent,
                execute,
                duplicate,
                has_immediate,
                solicited,
            ] = flags;
            let marker = numbers[5] >> 16 & 15 == 0;
            let length = if marker { 0 } else { length };
            let packet = PayloadWrite {
                qpn,
                opcode,
                address,
                length: length as u16,
                discard: discard && numbers[5] & 3 == 0,
                answer,
                completion,
                psn: numbers[0] & 0xFF_FFFF,
                syndrome: numbers[1] as u8,
                msn: numbers[1] >> 8,
                profile: (numbers[2] % 3) as u8,
                silent,
                execute,
                duplicate,
                mtu: (numbers[2] >> 8 & 7) as u8,
                entropy: numbers[2] >> 12,
                has_immediate,
                solicited,
                marker,
                closed: marker && numbers[5] >> 20 & 1 == 1,
                status: (numbers[5] >> 8 & 3) as u8,
                byte_count: numbers[3],
                immediate: numbers[4],
                cookie: wide[0],
                compare: wide[1],
                swap_add: wide[2],
            };
            (packet, blocks::bytes(length, wide[0]))
        })
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let pattern = Pattern::strategy;
    let memory = (
        0..memory::LATENCY,
        0u64..60,
        prop_oneof![3 => Just(0u64), 1 => 3u64..30],
    );
    (
        prop::collection::vec(packet(), 1..60),
        [pattern(), pattern()],
        [pattern(), pattern(), pattern(), pattern()],
        memory,
    )
        .prop_map(|(packets, gaps, pressure, memory)| Scenario {
            packets,
            gaps,
            pressure,
            memory,
        })
}

/// What memory said of each write, in their order.
#[derive(Default)]
struct Answers {
    asked: usize,
    came: usize,
    refused: Vec<bool>,
}

fn run(size: (u32, u32), scenario: &Scenario) -> (Outcome, Vec<bool>) {
    let recorded = SinkChecks {
        record_beats: true,
        ..SinkChecks::default()
    };
    let [packet_gaps, payload_gaps] = scenario.gaps.clone();
    let [write_stalls, data_stalls, completion_stalls, response_stalls] = scenario.pressure.clone();
    let later = |bytes: Vec<u8>| Frame {
        not_before: BEGIN,
        ..Frame::new(bytes)
    };
    let packets = scenario.packets.iter().map(|(packet, _)| later(packet.pack()));
    let payload = scenario.packets.iter().filter(|(_, payload)| !payload.is_empty());
    let stimulus = Stimulus::default()
        .source("s_axis", packet_gaps, packets)
        .source(
            "s_axis_payload",
            payload_gaps,
            payload.map(|(_, payload)| later(payload.clone())),
        )
        .source("s_axis_written", Pattern::Always, [])
        .sink("m_axis_write", write_stalls, SinkChecks::default())
        .sink("m_axis_write_data", data_stalls, recorded)
        .sink("m_axis_completion", completion_stalls, SinkChecks::default())
        .sink("m_axis", response_stalls, SinkChecks::default());
    let (latency, jitter, refuses_one_in) = scenario.memory;
    let mut answers = Answers::default();
    let mut random = 7u64;
    let mut agent = |answer: &mut Answer<'_>, stream: &str, _: &Received| {
        answers.asked += usize::from(stream == "m_axis_write");
        answers.came += usize::from(stream == "m_axis_write_data");
        while answers.refused.len() < answers.asked.min(answers.came) {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let number = random >> 33;
            let refused = refuses_one_in > 0 && number.is_multiple_of(refuses_one_in);
            answers.refused.push(refused);
            let frame = Frame {
                not_before: answer.cycle + latency + number % (jitter + 1),
                ..Frame::new([u8::from(refused)])
            };
            answer
                .send("s_axis_written", frame)
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    };
    let mut simulation = simulation(size);
    let mut bench = Bench::new(
        &mut simulation,
        &stimulus,
        Limits {
            quiet_clocks: 500,
            ..Limits::default()
        },
    )
    .unwrap_or_else(|error| panic!("{error}"));
    let outcome = bench.run(&mut agent).unwrap_or_else(|error| panic!("{error}"));
    (outcome, answers.refused)
}

fn check(size: (u32, u32), scenario: &Scenario) -> Result<Outcome, TestCaseError> {
    let (outcome, refused) = run(size, scenario);
    let mut model = PayloadWriter::new(Config::from(&config(size)));
    let beat_bytes = size.0 as usize / 8;
    let writes: Vec<AlignedWrite> = scenario
        .packets
        .iter()
        .filter_map(|(packet, payload)| model.take(packet, payload))
        .collect();
    refused.iter().for_each(|refused| model.written(*refused));
    let done: Vec<_> = std::iter::from_fn(|| model.release()).collect();
    prop_assert_eq!(done.len(), scenario.packets.len());

    let (asked, data) = (outcome.received("m_axis_write"), outcome.received("m_axis_write_data"));
    prop_assert_eq!((asked.len(), data.len()), (writes.len(), writes.len()), "writes");
    for (place, ((asked, data), expected)) in asked.iter().zip(data).zip(&writes).enumerate() {
        prop_assert_eq!(MemoryWrite::unpack(&asked.data), expected.write, "write {}", place);
        prop_assert_eq!(
            &memory::beats(&data.data, beat_bytes),
            &expected.beats,
            "data of write {}",
            place
        );
    }
    let completions: Vec<_> = done.iter().filter_map(|done| done.completion).collect();
    let given: Vec<_> = outcome
        .received("m_axis_completion")
        .iter()
        .map(|frame| Completion::unpack(&frame.data))
        .collect();
    prop_assert_eq!(given, completions, "completions");
    let responses: Vec<_> = done.iter().filter_map(|done| done.response).collect();
    let given: Vec<_> = outcome
        .received("m_axis")
        .iter()
        .map(|frame| PayloadWrite::unpack(&frame.data))
        .collect();
    prop_assert_eq!(given.len(), responses.len(), "count of responses");
    for (place, (given, expected)) in given.iter().zip(&responses).enumerate() {
        prop_assert_eq!(given, expected, "response {}", place);
    }
    behind_their_writes(scenario, &done, &outcome)?;
    let counters = model.counters();
    let named = [
        ("packets", counters.packets),
        ("writes", counters.writes),
        ("discards", counters.discards),
        ("completions", counters.completions),
        ("write_errors", counters.write_errors),
    ];
    prop_assert_eq!(outcome.counters.len(), named.len(), "every counter is compared");
    for (name, value) in named {
        prop_assert_eq!(outcome.counters[name], u64::from(value), "count_{}", name);
    }
    Ok(outcome)
}

/// Nothing of a packet is known in a clock in which memory has not said yet that it has its write and all before.
fn behind_their_writes(
    scenario: &Scenario,
    done: &[spraynic_golden::payload_writer::Done],
    outcome: &Outcome,
) -> Result<(), TestCaseError> {
    let written = outcome.accepted("s_axis_written");
    let mut completions = outcome.received("m_axis_completion").iter();
    let mut responses = outcome.received("m_axis").iter();
    let mut writes = 0;
    for ((packet, _), done) in scenario.packets.iter().zip(done) {
        writes += usize::from(packet.length > 0 && !packet.discard);
        let since = writes.checked_sub(1).map_or(0, |last| written[last].last_cycle);
        let completion = done.completion.and_then(|_| completions.next());
        let response = done.response.and_then(|_| responses.next());
        for frame in completion.into_iter().chain(response) {
            prop_assert!(frame.first_cycle > since, "{} not behind {}", frame.first_cycle, since);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(common::config(80, "payload_writer"))]
    #[test]
    fn writes_completions_and_answers_equal_the_golden_model(
        size in prop::sample::select(SIZES.to_vec()), scenario in scenario(),
    ) {
        if common::have_verilator() {
            check(size, &scenario)?;
        }
    }
}

/// Packets of one length at one offset in a beat, under no back-pressure.
fn stream_of(size: (u32, u32), length: usize, offset: u64, count: usize) -> Scenario {
    let packets = (0..count as u64).map(|number| {
        let packet = PayloadWrite {
            qpn: 1,
            opcode: 0x0A,
            address: number * 8192 + offset,
            length: length as u16,
            answer: true,
            ..PayloadWrite::default()
        };
        (packet, blocks::bytes(length, number))
    });
    Scenario {
        packets: packets.collect(),
        gaps: Default::default(),
        pressure: Default::default(),
        // So near that the packets that may wait cover it, whatever their length.
        memory: (u64::from(size.1) / 2, 0, 0),
    }
}

#[test]
fn one_beat_a_clock_and_one_more_only_where_bytes_span_one_more() {
    if !common::have_verilator() {
        return;
    }
    for (size, length, offset) in [
        ((64, 64), 8, 0),
        ((64, 64), 1000, 3),
        ((128, 64), 256, 0),
        ((512, 128), 64, 0),
        ((512, 128), 63, 1),
        ((512, 128), 65, 63),
        ((512, 128), 4096, 1),
        ((1024, 32), 128, 0),
        ((1024, 32), 129, 127),
    ] {
        let scenario = stream_of(size, length, offset, 200);
        let outcome = check(size, &scenario).unwrap();
        let beats = outcome.beat_cycles("m_axis_write_data");
        let bytes = size.0 as usize / 8;
        let expected = 200 * (length + offset as usize).div_ceil(bytes);
        assert_eq!(beats.len(), expected);
        let clocks = (beats[beats.len() - 1] - beats[0] + 1) as usize;
        println!("{size:?}, {length} bytes at {offset}: {expected} beats in {clocks} clocks");
        assert_eq!(clocks, expected, "{size:?}, {length} bytes at {offset}");
        let payload = outcome.accepted("s_axis_payload")[0].first_cycle;
        assert_eq!(beats[0] - payload, 3, "clocks from payload to data, as documented");
        let packet = outcome.accepted("s_axis")[0].last_cycle;
        let asked = outcome.received("m_axis_write")[0].first_cycle;
        assert_eq!(
            asked - packet,
            2,
            "clocks from a PayloadWrite to its MemoryWrite, as documented"
        );
        let written = outcome.accepted("s_axis_written")[0].last_cycle;
        assert_eq!(
            outcome.received("m_axis")[0].first_cycle - written,
            1,
            "clocks from memory to the answer"
        );
    }
}

/// The sizes of the presets hold line rate with memory 1 us away: packets of 256 bytes, and all of the largest MTU.
#[test]
fn the_default_number_of_outstanding_writes_covers_a_microsecond() {
    if !common::have_verilator() {
        return;
    }
    let size = (512, 128);
    for length in [256, 1024, 4096] {
        let scenario = Scenario {
            memory: (memory::LATENCY, 20, 0),
            ..stream_of(size, length, 0, 400)
        };
        let outcome = check(size, &scenario).unwrap();
        let beats = outcome.beat_cycles("m_axis_write_data");
        let clocks = (beats[beats.len() - 1] - beats[0] + 1) as usize;
        println!("{length} bytes: {} beats in {clocks} clocks", beats.len());
        assert_eq!(clocks, beats.len(), "{length} bytes");
    }
}

#[test]
fn one_packet_a_clock_without_payload() {
    if !common::have_verilator() {
        return;
    }
    for size in SIZES {
        let outcome = check(size, &stream_of(size, 0, 0, 200)).unwrap();
        let frames = outcome.received("m_axis");
        assert_eq!(frames[199].first_cycle - frames[0].first_cycle, 199, "{size:?}");
        let latency = frames[0].first_cycle - outcome.accepted("s_axis")[0].last_cycle;
        assert_eq!(
            latency,
            if size.1 > 32 { 7 } else { 6 },
            "clocks from PayloadWrite to answer, as documented"
        );
    }
}

/// A queue pair that memory has failed is well again when it has stopped to receive, and not by any other write of its context.
#[test]
fn a_failed_queue_pair_recovers_by_its_context_alone() {
    if !common::have_verilator() {
        return;
    }
    let packet = |qpn, length, not_before: u64| {
        let packet = PayloadWrite {
            qpn,
            answer: true,
            syndrome: 0x1F,
            length,
            ..PayloadWrite::default()
        };
        Frame {
            not_before,
            ..Frame::new(packet.pack())
        }
    };
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
    let size = SIZES[1];
    let stimulus = Stimulus::default()
        .source(
            "s_axis",
            Pattern::Always,
            [
                packet(5, 1, BEGIN),
                packet(5, 0, 200),
                packet(4, 0, 200),
                packet(5, 0, 300),
                packet(5, 0, 400),
            ],
        )
        .source("s_axis_payload", Pattern::Always, [Frame::new([1])])
        .source(
            "s_axis_written",
            Pattern::Always,
            [Frame {
                not_before: 100,
                ..Frame::new([1])
            }],
        )
        .source(
            "s_axis_context",
            Pattern::Always,
            [
                context(5, QueuePairState::ReadyToSend, 220),
                context(4, QueuePairState::Reset, 230),
                context(5 + QUEUE_PAIRS, QueuePairState::Reset, 240),
                context(5, QueuePairState::Error, 350),
            ],
        );
    let outcome = spraynic_cosim::run(
        &mut simulation(size),
        &stimulus,
        Limits {
            quiet_clocks: 500,
            ..Limits::default()
        },
    )
    .unwrap_or_else(|error| panic!("{error}"));
    let syndromes: Vec<u8> = outcome
        .received("m_axis")
        .iter()
        .map(|frame| PayloadWrite::unpack(&frame.data).syndrome)
        .collect();
    assert_eq!(syndromes, [0x63, 0x63, 0x1F, 0x63, 0x1F]);
}
