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
    // A frame leaves only when it is whole.
    let stored = sent.iter().zip(outcome.accepted("s_axis")).filter(|(frame, _)| {
        frame.user & BAD == 0 && frame.data.len().div_ceil(size.0 as usize / 8) <= size.1 as usize
    });
    for ((_, taken), given) in stored.zip(received) {
        prop_assert!(taken.last_cycle < given.first_cycle);
    }
    Ok(outcome)
}

proptest! {
    #![proptest_config(common::config(100, "frame_fifo"))]

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
