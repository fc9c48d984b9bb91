//! frame_fifo: golden model and RTL forward the same frames and count the same drops.

#[path = "common/blocks.rs"]
mod blocks;
mod common;

use proptest::prelude::*;
use spraynic_cosim::{Frame, Limits, Outcome, Pattern, Simulation, SinkChecks, Stimulus, run};
use spraynic_golden::frame::Frame as GoldenFrame;
use spraynic_golden::frame_fifo::{Config, FrameFifo};
use spraynic_rtl::Context;

/// Width of the data and depth in beats: distributed and block RAM, powers of two and others.
const SIZES: [(u32, u32); 5] = [(8, 5), (64, 40), (128, 8), (512, 33), (1024, 2)];
/// `tuser`: bad, and the two bits that travel with a frame between header_builder and icrc.
const USER: u32 = 3;
const BAD: u64 = 1;

fn simulation((width, depth): (u32, u32)) -> Simulation {
    let context = Context::new();
    blocks::simulation(
        &context,
        spraynic_hdl::frame_fifo::frame_fifo(&context, width, USER, depth),
    )
}

fn golden_frame(data: &[u8], user: u64) -> GoldenFrame {
    GoldenFrame {
        bytes: data.to_vec(),
        bad: user & BAD != 0,
        ipv6: user & 2 != 0,
        vlan: user & 4 != 0,
    }
}

/// The FIFO that prompt frames go past, and its mark in `tuser`.
fn prompt_simulation((width, depth): (u32, u32)) -> Simulation {
    let context = Context::new();
    blocks::simulation(
        &context,
        spraynic_hdl::frame_fifo::prompt_frame_fifo(&context, width, USER, depth),
    )
}

const PROMPT: u64 = 1 << USER;

/// When prompt frames may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MayPass {
    Always,
    Never,
    /// It changes each so many clocks.
    Every(u64),
}

/// Runs, and compares frames and counters with the golden model.
fn check(size: (u32, u32), gaps: Pattern, stalls: Pattern, sent: &[Frame]) -> Result<Outcome, TestCaseError> {
    let checks = SinkChecks {
        no_bubble_in_frames: true,
        record_beats: true,
        ..SinkChecks::default()
    };
    let mut stimulus = Stimulus::default()
        .source("s_axis", gaps, sent.iter().cloned())
        .sink("m_axis", stalls, checks);
    // Before the last beat `tuser` is noise: the mark of the last beat alone counts.
    stimulus.sources[0].user_last_only = true;
    let outcome = run(&mut simulation(size), &stimulus, Limits::default())?;
    compare(size, sent, &outcome)?;
    // A frame leaves only when it is whole.
    let stored = sent.iter().zip(outcome.accepted("s_axis")).filter(|(frame, _)| {
        frame.user & BAD == 0 && frame.data.len().div_ceil(size.0 as usize / 8) <= size.1 as usize
    });
    for ((_, taken), given) in stored.zip(outcome.received("m_axis")) {
        prop_assert!(taken.last_cycle < given.first_cycle);
    }
    Ok(outcome)
}

/// The same for the FIFO that prompt frames go past; frames come without a gap, as prompt ones must. `may_pass` is 1 for so many clocks and
/// then 0 for as many, or stays.
fn check_prompt(
    size: (u32, u32),
    may_pass: MayPass,
    stalls: Pattern,
    sent: &[Frame],
) -> Result<Outcome, TestCaseError> {
    let checks = SinkChecks {
        no_bubble_in_frames: true,
        ..SinkChecks::default()
    };
    let mut stimulus = Stimulus::default()
        .source("s_axis", Pattern::Always, sent.iter().cloned())
        .sink("m_axis", stalls, checks)
        .input("prompt_may_pass", u64::from(may_pass != MayPass::Never));
    if let MayPass::Every(clocks) = may_pass {
        for turn in 1..400 {
            stimulus = stimulus.input_at("prompt_may_pass", turn * clocks, turn & 1, 0);
        }
    }
    let outcome = run(&mut prompt_simulation(size), &stimulus, Limits::default())?;
    compare(size, sent, &outcome)?;
    Ok(outcome)
}

/// Frames and counters are those of the golden model.
fn compare(size: (u32, u32), sent: &[Frame], outcome: &Outcome) -> Result<(), TestCaseError> {
    let mut model = FrameFifo::new(Config {
        depth_beats: size.1 as usize,
        beat_bytes: size.0 as usize / 8,
    });
    let mut expected = vec![];
    for frame in sent {
        model.push(golden_frame(&frame.data, frame.user));
        expected.extend(model.pop());
    }
    let received = outcome.received("m_axis");
    for (index, (expected, received)) in expected.iter().zip(received).enumerate() {
        prop_assert_eq!(
            expected,
            &golden_frame(&received.data, received.user),
            "frame {}",
            index
        );
    }
    prop_assert_eq!(expected.len(), received.len(), "count of frames");
    let counters = model.counters();
    let named = [
        ("forwarded", counters.forwarded),
        ("drop_bad", counters.drop_bad),
        ("drop_too_long", counters.drop_too_long),
    ];
    prop_assert_eq!(outcome.counters.len(), named.len(), "every counter is compared");
    for (name, value) in named {
        prop_assert_eq!(outcome.counters[name], u64::from(value), "count_{}", name);
    }
    Ok(())
}

proptest! {
    #![proptest_config(common::config(100, "frame_fifo"))]

    /// Prompt frames among others, at every fill of the FIFO.
    #[test]
    fn prompt_frames_keep_their_place_among_others(
        (size, sent) in prop::sample::select(SIZES.to_vec()).prop_flat_map(|(width, depth)| {
            let frames = blocks::frames(width as usize / 8, depth as usize * 2, 15, 60);
            (Just((width, depth)), frames)
        }),
        may_pass in prop_oneof![Just(MayPass::Always), Just(MayPass::Never), (1..9u64).prop_map(MayPass::Every)],
        stalls in Pattern::strategy(),
    ) {
        let may_be_prompt = |frame: &Frame| {
            frame.user & BAD == 0 && frame.data.len().div_ceil(size.0 as usize / 8) <= size.1 as usize
        };
        let sent: Vec<Frame> = sent
            .into_iter()
            .map(|frame| if may_be_prompt(&frame) { frame } else { Frame { user: frame.user & !PROMPT, ..frame } })
            .collect();
        if common::have_verilator() {
            check_prompt(size, may_pass, stalls, &sent)?;
        }
    }

    #[test]
    fn frames_and_counters_equal_the_golden_model(
        (size, sent) in prop::sample::select(SIZES.to_vec()).prop_flat_map(|(width, depth)| {
            let around = (depth as usize).saturating_sub(1)..=depth as usize + 2;
            let frames = blocks::frames(width as usize / 8, depth as usize * 2, 7, 40);
            let near = prop::collection::vec(
                (around, any::<u64>(), 0..8u64).prop_map(move |(beats, seed, user)| {
                    Frame::with_user(blocks::bytes(beats * width as usize / 8, seed), user)
                }),
                0..8,
            );
            let mixed = (frames, near).prop_map(|(frames, near)| [frames, near].concat()).prop_shuffle();
            (Just((width, depth)), mixed)
        }),
        gaps in Pattern::strategy(), stalls in Pattern::strategy(),
    ) {
        if common::have_verilator() {
            check(size, gaps, stalls, &sent)?;
        }
    }
}

/// A prompt frame that finds the FIFO empty leaves in the clocks in which it comes; behind a frame that is stored it waits for its turn.
#[test]
fn a_prompt_frame_leaves_as_it_comes() {
    if !common::have_verilator() {
        return;
    }
    for size in [(64, 40), (512, 33), (128, 8)] {
        let beat = size.0 as usize / 8;
        let mut sent = blocks::whole_beats(beat, [1, 2, 5, 1, 1, 4, 3, 1]);
        sent[..6].iter_mut().for_each(|frame| frame.user = PROMPT);
        sent[7].user = PROMPT;
        let outcome = check_prompt(size, MayPass::Always, Pattern::Always, &sent).unwrap();
        let (taken, given) = (outcome.accepted("s_axis"), outcome.received("m_axis"));
        for (taken, given) in taken.iter().zip(given).take(6) {
            assert_eq!(
                (given.first_cycle, given.last_cycle),
                (taken.first_cycle, taken.last_cycle)
            );
        }
        assert!(taken[6].last_cycle < given[6].first_cycle, "it is stored");
        assert_eq!(given[7].first_cycle, given[6].last_cycle + 1);
    }
}

/// Frames longer than the FIFO are dropped, whatever is stored before them and however slowly that leaves.
#[test]
fn a_frame_longer_than_the_fifo_is_dropped_and_does_not_block() {
    if !common::have_verilator() {
        return;
    }
    for size in SIZES {
        let (beat, depth) = (size.0 as usize / 8, size.1 as usize);
        let sent = blocks::whole_beats(beat, [1, depth + 1, depth, 10 * depth, 1, depth + 1, depth + 1, 2]);
        for stalls in [
            Pattern::Always,
            Pattern::After { clocks: 200 },
            Pattern::Bursts { on: 1, off: 5 },
        ] {
            let outcome = check(size, Pattern::Always, stalls, &sent).unwrap();
            assert_eq!(outcome.counters["drop_too_long"], 4);
        }
    }
}

/// A frame that takes every beat of the FIFO passes, also behind another one of that size.
#[test]
fn the_whole_fifo_is_usable() {
    if !common::have_verilator() {
        return;
    }
    for size in SIZES {
        let sent = blocks::whole_beats(size.0 as usize / 8, [size.1 as usize; 4]);
        for stalls in [Pattern::Always, Pattern::After { clocks: 150 }] {
            let outcome = check(size, Pattern::Always, stalls, &sent).unwrap();
            assert_eq!(outcome.counters["forwarded"], 4);
        }
    }
}

/// Single-beat frames back to back, one a clock in and out; a dropped one between them costs its own clock.
#[test]
fn single_beat_frames_pass_at_one_a_clock() {
    if !common::have_verilator() {
        return;
    }
    for size in [(8, 5), (512, 33)] {
        let sent = blocks::whole_beats(size.0 as usize / 8, [1; 100]);
        let outcome = check(size, Pattern::Always, Pattern::Always, &sent).unwrap();
        let beats = outcome.beat_cycles("m_axis");
        assert_eq!(beats, (beats[0]..beats[0] + 100).collect::<Vec<_>>());
        // Ready rises after the reset, then two clocks (distributed RAM) or three (block RAM).
        assert!(beats[0] <= if size.1 <= 32 { 3 } else { 4 }, "latency {}", beats[0]);

        let mut marked = sent;
        marked.iter_mut().step_by(3).for_each(|frame| frame.user = BAD);
        let outcome = check(size, Pattern::Always, Pattern::Always, &marked).unwrap();
        let taken = outcome.accepted("s_axis");
        assert_eq!(
            taken[99].last_cycle - taken[0].first_cycle,
            99,
            "drops take no clock more"
        );
    }
}

/// Whole frames leave one behind the other without a bubble.
#[test]
fn no_bubble_between_frames_that_are_whole() {
    if !common::have_verilator() {
        return;
    }
    let sent = blocks::whole_beats(8, [3, 1, 7, 1, 1, 12, 5]);
    let outcome = check((64, 40), Pattern::Always, Pattern::After { clocks: 80 }, &sent).unwrap();
    let beats = outcome.beat_cycles("m_axis");
    assert_eq!(beats, (beats[0]..beats[0] + 30).collect::<Vec<_>>());
}

/// The last beat leaves with the bytes that it had, be it one, all but one or all.
#[test]
fn the_last_beat_keeps_its_bytes() {
    if !common::have_verilator() {
        return;
    }
    let sent: Vec<Frame> = [1, 63, 64, 65, 78, 127, 129, 250, 33 * 64 - 1]
        .map(|length| Frame::new(blocks::bytes(length, length as u64)))
        .to_vec();
    check((512, 33), Pattern::Always, Pattern::Always, &sent).unwrap();
}
