//! packet_multiplexer: golden model and RTL give the same frames; every grant is one that the model calls legal.

#[path = "common/blocks.rs"]
mod blocks;
mod common;

use proptest::prelude::*;
use spraynic_cosim::{Frame, Limits, Outcome, Pattern, Simulation, SinkChecks, Stimulus, run};
use spraynic_golden::frame::Frame as GoldenFrame;
use spraynic_golden::packet_multiplexer::PacketMultiplexer;
use spraynic_rtl::Context;

/// Inputs and width of the data.
const SIZES: [(u32, u32); 5] = [(1, 64), (2, 512), (3, 128), (2, 1024), (5, 8)];
const USER: u32 = 3;

fn simulation((inputs, width): (u32, u32)) -> Simulation {
    let context = Context::new();
    let definition = spraynic_hdl::packet_multiplexer::packet_multiplexer(&context, inputs, width, USER);
    blocks::simulation(&context, definition)
}

fn go(size: (u32, u32), gaps: &[Pattern], stalls: Pattern, sent: &[Vec<Frame>]) -> Result<Outcome, TestCaseError> {
    let checks = SinkChecks {
        record_beats: true,
        constant_user: (1 << USER) - 1,
        no_bubble_in_frames: gaps.iter().all(|gaps| *gaps == Pattern::Always),
        ..SinkChecks::default()
    };
    let mut stimulus = Stimulus::default().sink("m_axis", stalls, checks);
    for (input, (frames, gaps)) in sent.iter().zip(gaps.iter().cycle()).enumerate() {
        stimulus = stimulus.source(&format!("s_axis_{input}"), gaps.clone(), frames.iter().cloned());
    }
    Ok(run(&mut simulation(size), &stimulus, Limits::default())?)
}

fn golden_frame(frame: &Frame) -> GoldenFrame {
    GoldenFrame {
        bytes: frame.data.clone(),
        bad: frame.user & 1 != 0,
        ipv6: frame.user & 2 != 0,
        vlan: frame.user & 4 != 0,
    }
}

/// The model, told of each offer and each grant at the clock at which the RTL saw it. Returns the inputs in the order of
/// their grants.
fn follow(sent: &[Vec<Frame>], outcome: &Outcome) -> Result<Vec<usize>, TestCaseError> {
    let mut model = PacketMultiplexer::new(sent.len());
    let timings: Vec<_> = (0..sent.len())
        .map(|input| outcome.accepted(&format!("s_axis_{input}")))
        .collect();
    let mut events = vec![];
    for (input, timings) in timings.iter().enumerate() {
        prop_assert_eq!(timings.len(), sent[input].len(), "frames accepted of input {}", input);
        for (index, timing) in timings.iter().enumerate() {
            events.push((timing.offered_cycle, false, input, index));
            events.push((timing.first_cycle, true, input, index));
        }
    }
    // In one clock all offers come before the grant, which sees them.
    events.sort_unstable();
    let mut order = vec![];
    for (cycle, is_grant, input, index) in events {
        if !is_grant {
            model.offer(input, golden_frame(&sent[input][index]));
            continue;
        }
        let granted = model.take(input);
        prop_assert!(granted.is_ok(), "cycle {}: {:?}", cycle, granted);
        let Some(received) = outcome.received("m_axis").get(order.len()) else {
            return Err(TestCaseError::fail(format!("frame {} did not come out", order.len())));
        };
        let received = golden_frame(&Frame::with_user(received.data.clone(), received.user));
        prop_assert_eq!(granted.ok(), Some(received), "frame {} of input {}", index, input);
        order.push(input);
    }
    prop_assert_eq!(outcome.received("m_axis").len(), order.len(), "frames that nobody sent");
    Ok(order)
}

fn inputs(width: u32, count: u32) -> impl Strategy<Value = Vec<Vec<Frame>>> {
    prop::collection::vec(
        blocks::frames(width as usize / 8, 6, (1 << USER) - 1, 20),
        count as usize,
    )
}

proptest! {
    #![proptest_config(common::config(60, "packet_multiplexer"))]

    #[test]
    fn frames_are_whole_in_order_and_granted_legally(
        (size, sent) in prop::sample::select(SIZES.to_vec())
            .prop_flat_map(|(count, width)| (Just((count, width)), inputs(width, count))),
        gaps in prop::collection::vec(Pattern::strategy(), 1..5), stalls in Pattern::strategy(),
    ) {
        if common::have_verilator() {
            let outcome = go(size, &gaps, stalls, &sent)?;
            follow(&sent, &outcome)?;
        }
    }

    /// Where every input always has its next frame ready, the order is that of the golden arbiter exactly.
    #[test]
    fn the_order_is_exact_where_nobody_pauses(
        (size, sent) in prop::sample::select(SIZES.to_vec())
            .prop_flat_map(|(count, width)| (Just((count, width)), inputs(width, count))),
        stalls in Pattern::strategy(),
    ) {
        if common::have_verilator() {
            let outcome = go(size, &[Pattern::Always], stalls, &sent)?;
            let order = follow(&sent, &outcome)?;
            let mut model = PacketMultiplexer::new(sent.len());
            for (input, frames) in sent.iter().enumerate() {
                frames.iter().for_each(|frame| model.offer(input, golden_frame(frame)));
            }
            let expected: Vec<_> = std::iter::from_fn(|| model.next()).map(|(input, _)| input).collect();
            prop_assert_eq!(order, expected);
        }
    }
}

/// The clocks from the first beat to the last.
fn clocks(outcome: &Outcome) -> u64 {
    let beats = outcome.beat_cycles("m_axis");
    beats[beats.len() - 1] - beats[0] + 1
}

/// A short frame followed at once by a long one of another input: neither takes the other's length or `tlast`.
#[test]
fn a_short_frame_then_a_long_one_of_another_input_keep_their_lengths() {
    if !common::have_verilator() {
        return;
    }
    for (first, second) in [(1, 30), (30, 1), (2, 3), (1, 1)] {
        let sent = [
            blocks::whole_beats(64, [first; 10]),
            blocks::whole_beats(64, [second; 10]),
        ];
        for stalls in [Pattern::Always, Pattern::Bursts { on: 2, off: 3 }] {
            let outcome = go((2, 512), &[Pattern::Always], stalls, &sent).unwrap();
            let order = follow(&sent, &outcome).unwrap();
            assert_eq!(order, [0, 1].repeat(10));
        }
    }
}

/// Single-beat frames of different inputs back to back, one a clock.
#[test]
fn no_bubble_between_frames_of_different_inputs() {
    if !common::have_verilator() {
        return;
    }
    for size in SIZES {
        for beats in [[1, 1], [1, 4], [3, 2]] {
            let sent: Vec<_> = (0..size.0)
                .map(|input| blocks::whole_beats(size.1 as usize / 8, [beats[input as usize % 2]; 20]))
                .collect();
            let outcome = go(size, &[Pattern::Always], Pattern::Always, &sent).unwrap();
            follow(&sent, &outcome).unwrap();
            assert_eq!(clocks(&outcome) as usize, outcome.beat_cycles("m_axis").len());
        }
    }
}

/// An input that is alone has every clock of the output, single-beat frames too.
#[test]
fn one_active_input_has_the_whole_output() {
    if !common::have_verilator() {
        return;
    }
    for active in 0..3 {
        let mut sent = vec![vec![]; 3];
        sent[active] = blocks::whole_beats(16, [1; 100]);
        let outcome = go((3, 128), &[Pattern::Always], Pattern::Always, &sent).unwrap();
        assert_eq!(follow(&sent, &outcome).unwrap().len(), 100);
        assert_eq!(clocks(&outcome), 100);
    }
}

/// The last beat leaves with the bytes that it had, whoever comes next.
#[test]
fn the_last_beat_keeps_its_bytes() {
    if !common::have_verilator() {
        return;
    }
    let lengths = [1, 63, 64, 65, 78, 127, 129, 250];
    let frames = |seed| {
        lengths
            .map(|length| Frame::new(blocks::bytes(length, seed + length as u64)))
            .to_vec()
    };
    let sent = [frames(1), frames(1000)];
    let outcome = go((2, 512), &[Pattern::Always], Pattern::Always, &sent).unwrap();
    follow(&sent, &outcome).unwrap();
}
