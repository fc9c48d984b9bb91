//! stream_fifo: golden model and RTL hold the same words, in the same order, up to the same depth.

#[path = "common/blocks.rs"]
mod blocks;
mod common;

use proptest::prelude::*;
use spraynic_cosim::{Frame, Limits, Outcome, Pattern, Simulation, SinkChecks, Stimulus, run};
use spraynic_golden::stream_fifo::StreamFifo;
use spraynic_rtl::Context;

/// Width of the data and depth: distributed and block RAM, powers of two and others.
const SIZES: [(u32, u32); 4] = [(64, 16), (128, 48), (512, 64), (1024, 5)];
const PACKED_WIDTH: u32 = 24;
const PACKED_DEPTHS: [u32; 3] = [2, 33, 64];

fn axi(width: u32, depth: u32) -> Simulation {
    let context = Context::new();
    blocks::simulation(
        &context,
        spraynic_hdl::stream_fifo::axi_stream_fifo(&context, width, 2, depth),
    )
}

fn packed(depth: u32) -> Simulation {
    let context = Context::new();
    blocks::simulation(
        &context,
        spraynic_hdl::stream_fifo::stream_fifo(&context, PACKED_WIDTH, depth),
    )
}

fn stimulus(gaps: Pattern, stalls: Pattern, sent: &[Frame]) -> Stimulus {
    let checks = SinkChecks {
        record_beats: true,
        ..SinkChecks::default()
    };
    Stimulus::default()
        .source("s_axis", gaps, sent.iter().cloned())
        .sink("m_axis", stalls, checks)
}

fn go(simulation: &mut Simulation, stimulus: &Stimulus) -> Outcome {
    let outcome = run(simulation, stimulus, Limits::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(simulation.get_by_name("count"), Ok(0), "empty at the end");
    outcome
}

fn words(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Frame>> {
    prop::collection::vec(any::<[u8; 3]>().prop_map(Frame::new), count)
}

/// The golden model, moved as the RTL moved: it must have had room, and give what the RTL gave. Returns the highest fill.
fn follow(depth: u32, sent: &[Frame], outcome: &Outcome) -> Result<usize, TestCaseError> {
    let mut model = StreamFifo::new(depth as usize);
    let (pushes, pops) = (outcome.accepted("s_axis"), outcome.beat_cycles("m_axis"));
    let (mut pushed, mut popped, mut highest) = (0, 0, 0);
    for cycle in 0..outcome.cycles {
        let pops_now = pops.get(popped) == Some(&cycle);
        let given = pops_now.then(|| model.clone().pop());
        if pushes.get(pushed).is_some_and(|push| push.last_cycle == cycle) {
            prop_assert!(model.push(pushed).is_ok(), "accepted while full, cycle {}", cycle);
            pushed += 1;
        }
        if let Some(given) = given {
            model.pop();
            prop_assert_eq!(given, Some(popped));
            prop_assert_eq!(&sent[popped].data, &outcome.received("m_axis")[popped].data);
            popped += 1;
        }
        highest = highest.max(model.count());
    }
    prop_assert_eq!((pushed, popped), (sent.len(), sent.len()));
    Ok(highest)
}

proptest! {
    #![proptest_config(common::config(60, "stream_fifo"))]

    #[test]
    fn frames_pass_unchanged_at_every_width(
        ((width, depth), sent) in prop::sample::select(SIZES.to_vec())
            .prop_flat_map(|size| (Just(size), blocks::frames(size.0 as usize / 8, 12, 3, 40))),
        gaps in Pattern::strategy(), stalls in Pattern::strategy(), user_last_only: bool,
    ) {
        if common::have_verilator() {
            let mut stimulus = stimulus(gaps, stalls, &sent);
            stimulus.sources[0].user_last_only = user_last_only;
            let outcome = go(&mut axi(width, depth), &stimulus);
            blocks::assert_same(&sent, outcome.received("m_axis"))?;
        }
    }

    #[test]
    fn words_follow_the_golden_model_clock_by_clock(
        depth in prop::sample::select(PACKED_DEPTHS.to_vec()), sent in words(0..200),
        gaps in Pattern::strategy(), stalls in Pattern::strategy(),
    ) {
        if common::have_verilator() {
            let outcome = go(&mut packed(depth), &stimulus(gaps, stalls, &sent));
            follow(depth, &sent, &outcome)?;
        }
    }
}

#[test]
fn it_fills_to_its_depth_and_not_beyond() {
    if !common::have_verilator() {
        return;
    }
    for depth in PACKED_DEPTHS {
        let sent: Vec<Frame> = (0..100u8).map(|byte| Frame::new([byte, !byte, 7])).collect();
        let outcome = go(
            &mut packed(depth),
            &stimulus(Pattern::Always, Pattern::After { clocks: 90 }, &sent),
        );
        assert_eq!(follow(depth, &sent, &outcome).unwrap(), depth as usize);
        let early = outcome
            .accepted("s_axis")
            .iter()
            .filter(|timing| timing.last_cycle < 90);
        assert_eq!(early.count(), depth as usize);
    }
}

/// Single-beat frames back to back, one a clock, at any fill.
#[test]
fn one_beat_a_clock_from_empty_and_from_full() {
    if !common::have_verilator() {
        return;
    }
    for (width, depth) in SIZES {
        let sent = blocks::whole_beats(width as usize / 8, [1; 150]);
        for pause in [0, 100] {
            let stimulus = stimulus(Pattern::Always, Pattern::After { clocks: pause }, &sent);
            let outcome = go(&mut axi(width, depth), &stimulus);
            blocks::assert_same(&sent, outcome.received("m_axis")).unwrap();
            let beats = outcome.beat_cycles("m_axis");
            assert_eq!(
                beats,
                (beats[0]..beats[0] + 150).collect::<Vec<_>>(),
                "{width} x {depth}"
            );
            if pause == 0 {
                // Ready rises after the reset, then two clocks (distributed RAM) or three (block RAM).
                assert!(beats[0] <= if depth <= 32 { 3 } else { 4 }, "latency {}", beats[0]);
            }
        }
    }
}

/// The last beat leaves with the bytes that it had.
#[test]
fn the_last_beat_keeps_its_bytes() {
    if !common::have_verilator() {
        return;
    }
    let sent: Vec<Frame> = [1, 63, 64, 65, 78, 127, 129, 250]
        .map(|length| Frame::with_user(blocks::bytes(length, length as u64), length as u64 % 4))
        .to_vec();
    let outcome = go(&mut axi(512, 64), &stimulus(Pattern::Always, Pattern::Always, &sent));
    blocks::assert_same(&sent, outcome.received("m_axis")).unwrap();
}
