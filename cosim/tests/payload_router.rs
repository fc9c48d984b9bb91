//! payload_router: golden model and RTL lead the same packets to the same ports.

#[path = "common/blocks.rs"]
mod blocks;
mod common;

use proptest::prelude::*;
use spraynic_cosim::{Frame, Limits, Outcome, Pattern, Simulation, SinkChecks, Stimulus, run};
use spraynic_golden::payload_router::{Decision, PayloadRouter};
use spraynic_rtl::Context;

/// Width of the data and decisions that fit: distributed and block RAM.
const SIZES: [(u32, u32); 4] = [(64, 2), (512, 16), (1024, 4), (64, 40)];
const USER: u32 = 1;
const PORTS: [&str; 2] = ["m_axis_0", "m_axis_1"];

fn simulation((width, depth): (u32, u32)) -> Simulation {
    let context = Context::new();
    let definition = spraynic_hdl::payload_router::payload_router(&context, width, USER, depth);
    blocks::simulation(&context, definition)
}

/// Gaps of the packets and of the decisions, stalls of both ports.
type Patterns = [Pattern; 4];

/// Runs, and compares both ports with the golden model.
fn check(
    size: (u32, u32),
    patterns: &Patterns,
    packets: &[Frame],
    decisions: &[Frame],
) -> Result<Outcome, TestCaseError> {
    let [gaps, thinking, stalls @ ..] = patterns.clone();
    let mut stimulus = Stimulus::default()
        .source("s_axis", gaps, packets.iter().cloned())
        .source("s_axis_decision", thinking, decisions.iter().cloned());
    for (port, stalls) in PORTS.into_iter().zip(stalls) {
        let checks = SinkChecks {
            record_beats: true,
            ..SinkChecks::default()
        };
        stimulus = stimulus.sink(port, stalls, checks);
    }
    let outcome = run(&mut simulation(size), &stimulus, Limits::default())?;
    let mut model = PayloadRouter::default();
    packets.iter().for_each(|packet| model.push(packet.clone()));
    decisions
        .iter()
        .for_each(|decision| model.decide(Decision::from_code(decision.data[0])));
    let routed: Vec<(Decision, Frame)> = std::iter::from_fn(|| model.pop()).collect();
    for (port, wanted) in PORTS.into_iter().zip([Decision::Port0, Decision::Port1]) {
        let of_port = routed.iter().filter(|(decision, _)| *decision == wanted);
        let expected: Vec<Frame> = of_port.map(|(_, packet)| packet.clone()).collect();
        blocks::assert_same(&expected, outcome.received(port))?;
    }
    Ok(outcome)
}

fn patterns() -> impl Strategy<Value = Patterns> {
    [(); 4].map(|()| Pattern::strategy())
}

/// Packets with a decision each; runs of one decision are as common as changes.
fn routed(width: u32) -> impl Strategy<Value = (Vec<Frame>, Vec<Frame>)> {
    blocks::frames(width as usize / 8, 6, 1, 40).prop_flat_map(|packets| {
        let run = (0..4u8, 1..6usize).prop_map(|(code, length)| vec![code; length]);
        let codes = prop::collection::vec(run, packets.len());
        codes.prop_map(move |codes| {
            let codes = codes.concat().into_iter().take(packets.len());
            (packets.clone(), codes.map(|code| Frame::new([code])).collect())
        })
    })
}

proptest! {
    #![proptest_config(common::config(80, "payload_router"))]

    #[test]
    fn packets_leave_where_the_golden_model_says(
        (size, (packets, decisions)) in prop::sample::select(SIZES.to_vec())
            .prop_flat_map(|size| (Just(size), routed(size.0))),
        patterns in patterns(),
    ) {
        if common::have_verilator() {
            check(size, &patterns, &packets, &decisions)?;
        }
    }
}

const ALWAYS: Patterns = [const { Pattern::Always }; 4];

fn codes(count: usize, code: impl Fn(usize) -> u8) -> Vec<Frame> {
    (0..count).map(|index| Frame::new([code(index)])).collect()
}

/// One beat a clock, whatever the decisions: single-beat packets, and no bubble where a packet ends.
#[test]
fn one_beat_a_clock_and_the_latency_documented() {
    if !common::have_verilator() {
        return;
    }
    for size in [(512, 16), (64, 40)] {
        for beats in [[1, 1, 1], [1, 4, 2]] {
            let packets = blocks::whole_beats(size.0 as usize / 8, beats.into_iter().cycle().take(99));
            let decisions = codes(99, |index| [0, 1, 2, 0, 0, 1][index % 6]);
            // The decisions are there before the packets.
            let patterns = [
                Pattern::After { clocks: 30 },
                Pattern::Always,
                Pattern::Always,
                Pattern::Always,
            ];
            let outcome = check(size, &patterns, &packets, &decisions).unwrap();
            let taken = outcome.accepted("s_axis");
            let total: usize = beats.iter().sum::<usize>() * 33;
            assert_eq!(taken[98].last_cycle - taken[0].first_cycle + 1, total as u64);
            let first = outcome.received("m_axis_0")[0].first_cycle;
            assert_eq!(first - taken[0].first_cycle, 1, "clocks from a beat in to the beat out");
        }
    }
    for (size, clocks) in [((512, 16), 2), ((64, 40), 3)] {
        // The packets are there before the decisions.
        let packets = blocks::whole_beats(size.0 as usize / 8, [1; 20]);
        let patterns = [
            Pattern::Always,
            Pattern::After { clocks: 30 },
            Pattern::Always,
            Pattern::Always,
        ];
        let outcome = check(size, &patterns, &packets, &codes(20, |_| 1)).unwrap();
        let first = outcome.received("m_axis_1")[0].first_cycle;
        let decided = outcome.accepted("s_axis_decision")[0].first_cycle;
        assert_eq!(first - decided, clocks, "clocks from a decision to the beat");
        let beats = outcome.beat_cycles("m_axis_1");
        assert_eq!(beats[19] - beats[0], 19);
    }
}

/// A port that does not take holds up what comes behind, and nothing is led past it or lost.
#[test]
fn a_blocked_port_keeps_the_order() {
    if !common::have_verilator() {
        return;
    }
    for size in SIZES {
        let packets = blocks::whole_beats(size.0 as usize / 8, [2, 1, 3, 1, 1, 2]);
        let decisions = codes(6, |index| [1, 0, 2, 0, 1, 0][index]);
        let mut patterns = ALWAYS;
        patterns[3] = Pattern::After { clocks: 200 };
        let outcome = check(size, &patterns, &packets, &decisions).unwrap();
        let (zero, one) = (outcome.received("m_axis_0"), outcome.received("m_axis_1"));
        assert!(one[0].last_cycle >= 200 && zero[0].first_cycle > one[0].last_cycle);
    }
}

/// Discarded packets need no port: with both ports shut they are taken, one beat a clock.
#[test]
fn discarded_packets_wait_for_nobody() {
    if !common::have_verilator() {
        return;
    }
    let shut = Pattern::After { clocks: 400 };
    let patterns = [Pattern::After { clocks: 30 }, Pattern::Always, shut.clone(), shut];
    for code in [2, 3] {
        let packets = blocks::whole_beats(64, [1, 2, 3].into_iter().cycle().take(60));
        let outcome = check((512, 16), &patterns, &packets, &codes(60, |_| code)).unwrap();
        let taken = outcome.accepted("s_axis");
        assert_eq!(taken[59].last_cycle - taken[0].first_cycle + 1, 120);
    }
}

/// The last beat leaves with the bytes and the sideband that it had.
#[test]
fn the_last_beat_keeps_its_bytes() {
    if !common::have_verilator() {
        return;
    }
    let lengths = [1, 63, 64, 65, 78, 127, 129, 250, 4096];
    let packets = lengths.map(|length| Frame::with_user(blocks::bytes(length, length as u64), length as u64 & 1));
    check((512, 16), &ALWAYS, &packets, &codes(9, |index| index as u8 & 1)).unwrap();
}
