//! packet_buffer: golden model and RTL give the same packets and counters, whichever of descriptor, payload and verdict comes late.

#[path = "common/blocks.rs"]
mod blocks;
mod common;

use proptest::prelude::*;
use spraynic_config::descriptor::{Descriptor, ReceivedPacket};
use spraynic_cosim::{Frame, Limits, Outcome, Pattern, Simulation, SinkChecks, Stimulus};
use spraynic_golden::icrc::check::Verdict;
use spraynic_golden::packet_buffer::{PacketBuffer as Model, Passed};
use spraynic_hdl::packet_buffer::{PacketBuffer, packet_buffer};

/// Width of the data in bits and largest payload in bytes.
const SIZES: [(u32, u32); 5] = [(64, 256), (64, 4096), (128, 1024), (512, 4096), (1024, 4096)];

fn block((data_width, max_payload): (u32, u32)) -> PacketBuffer {
    PacketBuffer {
        data_width,
        max_payload,
    }
}

fn simulation(size: (u32, u32)) -> Simulation {
    let context = spraynic_rtl::Context::new();
    blocks::simulation(&context, packet_buffer(&context, &block(size)))
}

/// A packet, and the payloads before it that have no descriptor.
#[derive(Debug, Clone)]
struct Step {
    verdict: Verdict,
    length: usize,
    discarded: Vec<usize>,
}

fn step(verdict: Verdict, length: usize) -> Step {
    Step {
        verdict,
        length,
        discarded: vec![],
    }
}

fn any_steps(max_payload: usize) -> impl Strategy<Value = Vec<Step>> {
    let length = move || {
        prop_oneof![
            4 => Just(0usize),
            4 => 1..200usize,
            2 => 1..=max_payload,
            1 => Just(max_payload),
        ]
    };
    let verdict = prop_oneof![5 => Just(Verdict::Right), 3 => Just(Verdict::Wrong), 1 => Just(Verdict::Unchecked)];
    let discarded = prop::collection::vec(length().prop_map(|length| length.max(1)), 0..2);
    let step =
        (verdict, length(), prop::option::weighted(0.2, discarded)).prop_map(|(verdict, length, discarded)| Step {
            verdict,
            length,
            discarded: discarded.unwrap_or_default(),
        });
    prop::collection::vec(step, 1..60)
}

/// What goes in for the steps, by stream.
#[derive(Debug, Default)]
struct Sent {
    descriptors: Vec<Frame>,
    payloads: Vec<Frame>,
    verdicts: Vec<Frame>,
}

fn sent(steps: &[Step]) -> Sent {
    let mut sent = Sent::default();
    for (index, step) in steps.iter().enumerate() {
        for (at, length) in step.discarded.iter().enumerate() {
            let bytes = blocks::bytes(*length, (1000 * index + at) as u64);
            sent.payloads.push(Frame::with_user(bytes, 1));
        }
        if step.length > 0 {
            sent.payloads.push(Frame::new(payload(index, step)));
        }
        sent.descriptors.push(Frame::new(packet(index, step).pack()));
        sent.verdicts.push(Frame::new([u8::from(step.verdict)]));
    }
    sent
}

fn payload(index: usize, step: &Step) -> Vec<u8> {
    blocks::bytes(step.length, 77 + index as u64)
}

/// All fields differ from packet to packet, the last bits too.
fn packet(index: usize, step: &Step) -> ReceivedPacket {
    let width = ReceivedPacket::width() as usize / 8;
    ReceivedPacket {
        payload_length: step.length as u16,
        ..ReceivedPacket::unpack(&blocks::bytes(width, index as u64))
    }
}

/// When each stream moves.
#[derive(Debug, Clone)]
struct Patterns {
    descriptors: Pattern,
    payloads: Pattern,
    verdicts: Pattern,
    packets_out: Pattern,
    passed_out: Pattern,
    payloads_out: Pattern,
}

const ALWAYS: Patterns = Patterns {
    descriptors: Pattern::Always,
    payloads: Pattern::Always,
    verdicts: Pattern::Always,
    packets_out: Pattern::Always,
    passed_out: Pattern::Always,
    payloads_out: Pattern::Always,
};

fn any_patterns() -> impl Strategy<Value = Patterns> {
    let pattern = Pattern::strategy;
    let inputs = (pattern(), pattern(), pattern());
    let outputs = (pattern(), pattern(), pattern());
    (inputs, outputs).prop_map(
        |((descriptors, payloads, verdicts), (packets_out, passed_out, payloads_out))| Patterns {
            descriptors,
            payloads,
            verdicts,
            packets_out,
            passed_out,
            payloads_out,
        },
    )
}

fn run(size: (u32, u32), sent: Sent, patterns: &Patterns) -> Outcome {
    let checks = || SinkChecks {
        record_beats: true,
        ..SinkChecks::default()
    };
    let mut stimulus = Stimulus::default()
        .source("s_axis_descriptor", patterns.descriptors.clone(), sent.descriptors)
        .source("s_axis_payload", patterns.payloads.clone(), sent.payloads)
        .source("s_axis_verdict", patterns.verdicts.clone(), sent.verdicts)
        .sink("m_axis_descriptor", patterns.packets_out.clone(), checks())
        .sink("m_axis_passed", patterns.passed_out.clone(), checks())
        .sink("m_axis_payload", patterns.payloads_out.clone(), checks());
    // Before the last beat `tuser` is noise: the mark of the last beat alone counts.
    stimulus.sources[1].user_last_only = true;
    let outcome = spraynic_cosim::run(&mut simulation(size), &stimulus, Limits::default());
    outcome.unwrap_or_else(|error| panic!("{error}"))
}

/// Packets and counters are those of the golden model.
fn compare(steps: &[Step], outcome: &Outcome) -> Result<(), TestCaseError> {
    let mut model = Model::new();
    let mut expected: Vec<Passed> = vec![];
    for (index, step) in steps.iter().enumerate() {
        for length in &step.discarded {
            model.take_payload(vec![0; *length], true);
        }
        if step.length > 0 {
            model.take_payload(payload(index, step), false);
        }
        let judged = model.judge(&packet(index, step), step.verdict);
        expected.extend(judged.map_err(|broken| TestCaseError::fail(broken.to_string()))?);
    }
    let (packets, passed) = (outcome.received("m_axis_descriptor"), outcome.received("m_axis_passed"));
    prop_assert_eq!(
        (packets.len(), passed.len()),
        (steps.len(), steps.len()),
        "all go ahead"
    );
    let verdicts = outcome.accepted("s_axis_verdict");
    let packets = packets.iter().zip(passed).zip(verdicts);
    let packets: Vec<_> = packets
        .filter(|((_, passed), verdict)| {
            assert!(passed.first_cycle > verdict.last_cycle, "passed before its verdict");
            passed.data[0] & 1 == 1
        })
        .map(|((packet, _), _)| ReceivedPacket::unpack(&packet.data))
        .collect();
    for (at, (expected, received)) in expected.iter().zip(&packets).enumerate() {
        prop_assert_eq!(&expected.packet, received, "descriptor {}", at);
    }
    prop_assert_eq!(packets.len(), expected.len(), "count of packets that passed");
    let payloads = outcome.received("m_axis_payload");
    let expected: Vec<&Passed> = expected.iter().filter(|passed| !passed.payload.is_empty()).collect();
    for (at, (expected, received)) in expected.iter().zip(payloads).enumerate() {
        prop_assert_eq!(&expected.payload, &received.data, "payload {}", at);
    }
    prop_assert_eq!(payloads.len(), expected.len(), "count of payloads");
    let counters = model.counters();
    let named = [
        ("passed", counters.passed),
        ("dropped", counters.dropped),
        ("discarded", counters.discarded),
    ];
    prop_assert_eq!(outcome.counters.len(), named.len(), "every counter is compared");
    for (name, value) in named {
        prop_assert_eq!(outcome.counters[name], u64::from(value), "count_{}", name);
    }
    Ok(())
}

fn check(size: (u32, u32), steps: &[Step], patterns: &Patterns) -> Outcome {
    let outcome = run(size, sent(steps), patterns);
    compare(steps, &outcome).unwrap_or_else(|error| panic!("{size:?}: {error}"));
    outcome
}

proptest! {
    #![proptest_config(common::config(80, "packet_buffer"))]

    #[test]
    fn packets_and_counters_equal_the_golden_model(
        (size, steps) in prop::sample::select(&SIZES[..])
            .prop_flat_map(|size| (Just(size), any_steps(size.1 as usize))),
        patterns in any_patterns(),
    ) {
        if common::have_verilator() {
            let outcome = run(size, sent(&steps), &patterns);
            compare(&steps, &outcome)?;
        }
    }
}

/// Clocks from the first to the last of these cycles, both included.
fn span(cycles: &[u64]) -> usize {
    (cycles[cycles.len() - 1] - cycles[0] + 1) as usize
}

fn taken(outcome: &Outcome, stream: &str) -> Vec<u64> {
    outcome
        .accepted(stream)
        .iter()
        .map(|timing| timing.last_cycle)
        .collect()
}

/// One descriptor a clock without payload, whatever the verdicts are.
#[test]
fn one_descriptor_a_clock() {
    if !common::have_verilator() {
        return;
    }
    let all = |verdicts: &[Verdict]| -> Vec<Step> {
        let verdicts = verdicts.iter().cycle().take(300);
        verdicts.map(|verdict| step(*verdict, 0)).collect()
    };
    for verdicts in [
        &[Verdict::Right][..],
        &[Verdict::Wrong],
        &[Verdict::Right, Verdict::Wrong, Verdict::Unchecked, Verdict::Wrong],
    ] {
        let outcome = check((512, 4096), &all(verdicts), &ALWAYS);
        for stream in ["s_axis_descriptor", "s_axis_verdict"] {
            assert_eq!(span(&taken(&outcome, stream)), 300, "{stream}, {verdicts:?}");
        }
    }
}

/// Payload goes in and out one beat a clock, with each verdict as late behind the last beat as parser and check make it: of one beat,
/// of some, of the largest size; with packets between that are wrong, discarded or without payload.
#[test]
fn one_beat_a_clock() {
    if !common::have_verilator() {
        return;
    }
    const VERDICT_DELAY: u64 = 12;
    for size in SIZES {
        let (beat, most) = (size.0 as usize / 8, size.1 as usize);
        let repeat = |lengths: &[usize]| -> Vec<Step> {
            let lengths = lengths.iter().cycle().take(if most == 4096 { 40 } else { 200 });
            lengths.map(|length| step(Verdict::Right, *length)).collect()
        };
        let mut mixed = repeat(&[3, most, 1, beat + 1, 0, most - 1, 2 * beat]);
        for (at, step) in mixed.iter_mut().enumerate() {
            if at % 4 == 1 {
                step.verdict = Verdict::Wrong;
            }
            if at % 5 == 1 {
                step.discarded = vec![most, 1];
            }
        }
        // The largest first: behind a short packet the next one would have to be whole before it can follow.
        let all_pass = [repeat(&[beat]), repeat(&[most]), repeat(&[most, beat + 1, beat])];
        for (index, steps) in all_pass.iter().chain([&mixed]).enumerate() {
            let mut streams = sent(steps);
            // The clock in which a payload ends, where nothing holds it up; the descriptor comes with it.
            let start = 8u64;
            let (mut ends, mut cycle) = (vec![], start);
            streams.payloads[0].not_before = start;
            for step in steps {
                let all = step.discarded.iter().chain([&step.length]);
                cycle += all.map(|length| length.div_ceil(beat)).sum::<usize>() as u64;
                ends.push(cycle);
            }
            for (at, end) in ends.iter().enumerate() {
                streams.descriptors[at].not_before = *end;
                streams.verdicts[at].not_before = end + VERDICT_DELAY;
            }
            let outcome = run(size, streams, &ALWAYS);
            compare(steps, &outcome).unwrap_or_else(|error| panic!("{size:?}: {error}"));
            let (first, last) = (outcome.accepted("s_axis_payload"), taken(&outcome, "s_axis_payload"));
            let beats = ends[ends.len() - 1] - start;
            assert_eq!(
                last[last.len() - 1] - first[0].first_cycle + 1,
                beats,
                "{size:?}, run {index}: clocks for the payload taken"
            );
            let out = outcome.beat_cycles("m_axis_payload");
            if index < all_pass.len() {
                assert_eq!(
                    span(out),
                    out.len(),
                    "{size:?}, run {index}: clocks for the payload given"
                );
                assert_eq!(out.len() as u64, beats);
            }
        }
    }
}

/// A wrong packet costs one clock of the verdicts, however long its payload is, and none of what is read.
#[test]
fn wrong_packets_cost_one_clock() {
    if !common::have_verilator() {
        return;
    }
    // Nothing is judged before all payload is there.
    let steps: Vec<Step> = (0..16)
        .map(|at| step(if at % 4 == 0 { Verdict::Right } else { Verdict::Wrong }, 500))
        .collect();
    let patterns = Patterns {
        verdicts: Pattern::After { clocks: 200 },
        ..ALWAYS
    };
    let outcome = check((512, 4096), &steps, &patterns);
    assert_eq!(span(&taken(&outcome, "s_axis_verdict")), 16);
    let out = outcome.beat_cycles("m_axis_payload");
    assert_eq!(
        (out.len(), span(out)),
        (4 * 8, 4 * 8),
        "no bubble where wrong ones lie between"
    );
}

/// Two payloads of the largest size find room although nobody judges them, and single beats fill the ring to the last one.
#[test]
fn the_ring_holds_two_of_the_largest_payloads() {
    if !common::have_verilator() {
        return;
    }
    for size in SIZES {
        let (beat, most) = (size.0 as usize / 8, size.1 as usize);
        let patterns = Patterns {
            verdicts: Pattern::After { clocks: 3000 },
            ..ALWAYS
        };
        for length in [most, beat] {
            let beats = block(size).beats() as usize;
            let count = 2 + beats * beat / length;
            let steps = vec![step(Verdict::Right, length); count];
            let outcome = check(size, &steps, &patterns);
            let payloads = taken(&outcome, "s_axis_payload");
            let early = payloads.iter().filter(|cycle| **cycle < 3000).count();
            assert_eq!(early, beats * beat / length, "{size:?}, payloads of {length} bytes");
            assert!(early >= 2);
            assert!(
                outcome.beat_cycles("m_axis_payload")[0] > 3000,
                "nothing leaves before its verdict"
            );
        }
    }
}

/// Packets pass while nobody takes payload, as long as payload finds room.
#[test]
fn a_packet_does_not_wait_for_payload_to_be_taken() {
    if !common::have_verilator() {
        return;
    }
    for (length, count) in [(64, 120), (4096, 2), (0, 200)] {
        let steps = vec![step(Verdict::Right, length); count];
        let patterns = Patterns {
            payloads_out: Pattern::After { clocks: 1500 },
            ..ALWAYS
        };
        let outcome = check((512, 4096), &steps, &patterns);
        let last = outcome.received("m_axis_passed")[count - 1].last_cycle;
        assert!(
            last < 600,
            "payloads of {length} bytes: the last one passes in clock {last}"
        );
    }
}

/// Payload that is discarded leaves its room at once, also where it fills the ring again and again and nobody judges anything.
#[test]
fn discarded_payload_leaves_its_room() {
    if !common::have_verilator() {
        return;
    }
    for size in SIZES {
        let (beat, most) = (size.0 as usize / 8, size.1 as usize);
        let mut steps = vec![step(Verdict::Right, most); 2];
        steps[1].discarded = vec![most - 1; 20];
        let patterns = Patterns {
            verdicts: Pattern::After {
                clocks: 22 * (most / beat) as u32 + 50,
            },
            ..ALWAYS
        };
        let outcome = check(size, &steps, &patterns);
        let payloads = outcome.accepted("s_axis_payload");
        let clocks = payloads[21].last_cycle - payloads[0].first_cycle + 1;
        assert_eq!(clocks, 22 * (most / beat) as u64, "{size:?}");
    }
}

/// The latencies that docs/src/blocks/packet_buffer.md states, where descriptor and payload are there before the verdict.
#[test]
fn latencies_are_the_documented_ones() {
    if !common::have_verilator() {
        return;
    }
    for size in SIZES {
        let steps = [step(Verdict::Right, 0), step(Verdict::Right, 100)];
        for step in steps {
            let patterns = Patterns {
                verdicts: Pattern::After { clocks: 60 },
                ..ALWAYS
            };
            let outcome = check(size, std::slice::from_ref(&step), &patterns);
            let verdict = taken(&outcome, "s_axis_verdict")[0];
            assert!(verdict >= 60);
            let passed = outcome.received("m_axis_passed")[0].last_cycle;
            assert_eq!(passed - verdict, u64::from(PacketBuffer::LATENCY));
            let descriptor = outcome.received("m_axis_descriptor")[0].first_cycle;
            assert_eq!(descriptor, taken(&outcome, "s_axis_descriptor")[0], "it goes ahead");
            if let Some(first) = outcome.beat_cycles("m_axis_payload").first() {
                assert_eq!(first - verdict, u64::from(PacketBuffer::PAYLOAD_LATENCY), "{size:?}");
            }
        }
    }
    assert_eq!((PacketBuffer::LATENCY, PacketBuffer::PAYLOAD_LATENCY), (1, 5));
}
