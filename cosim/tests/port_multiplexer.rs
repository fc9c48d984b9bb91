//! port_multiplexer: golden model and RTL give the same frames by the same ports, also while links go down and ports are paused.

#[path = "common/blocks.rs"]
mod blocks;
mod common;

use proptest::prelude::*;
use spraynic_cosim::{Frame, Limits, Outcome, Pattern, Simulation, SinkChecks, Stimulus};
use spraynic_golden::frame::Frame as GoldenFrame;
use spraynic_golden::frame_fifo;
use spraynic_golden::port_multiplexer::{Config, Counters, Port, PortMultiplexer, Turn};
use spraynic_rtl::Context;

/// Ports, data bits and beats of a queue.
const SIZES: [(u32, u32, u32); 3] = [(1, 64, 16), (2, 512, 64), (5, 32, 20)];

/// Beats of the longest frame.
const LONGEST: u32 = 8;

/// Clocks from the last beat of a frame to the first beat at its port, in a queue of block RAM and of distributed RAM.
const LATENCY: [u64; 3] = [2, 3, 2];

fn simulation((ports, width, depth): (u32, u32, u32)) -> Simulation {
    let context = Context::new();
    let size = spraynic_hdl::port_multiplexer::PortMultiplexer {
        width,
        ports,
        depth,
        longest: LONGEST,
    };
    let definition = spraynic_hdl::port_multiplexer::port_multiplexer(&context, &size);
    blocks::simulation(&context, definition)
}

fn model((ports, width, depth): (u32, u32, u32)) -> PortMultiplexer {
    PortMultiplexer::new(Config {
        ports: ports as usize,
        fifo: frame_fifo::Config {
            depth_beats: depth as usize,
            beat_bytes: width as usize / 8,
        },
        longest_frame_beats: LONGEST as usize,
    })
}

/// What goes in: frames with their `tuser` (port above bad), gaps, stalls of each port, and when ports are up and paused.
#[derive(Debug, Clone)]
struct Given {
    frames: Vec<Frame>,
    gaps: Pattern,
    stalls: Vec<Pattern>,
    up: Vec<(u64, u8)>,
    pause: Vec<(u64, u8)>,
}

fn run(size: (u32, u32, u32), given: &Given) -> Result<Outcome, TestCaseError> {
    let mut stimulus = Stimulus::default().source("s_axis", given.gaps.clone(), given.frames.iter().cloned());
    for port in 0..size.0 {
        let checks = SinkChecks {
            record_beats: true,
            no_bubble_in_frames: true,
            ..SinkChecks::default()
        };
        let stalls = given.stalls[port as usize % given.stalls.len()].clone();
        stimulus = stimulus.sink(&format!("m_axis_{port}"), stalls, checks);
    }
    for (cycle, up) in &given.up {
        stimulus = stimulus.input_at("port_up", *cycle, u64::from(*up), 0);
    }
    for (cycle, pause) in &given.pause {
        stimulus = stimulus.input_at("port_pause", *cycle, u64::from(*pause), 0);
    }
    Ok(spraynic_cosim::run(
        &mut simulation(size),
        &stimulus,
        Limits::default(),
    )?)
}

fn golden_frame(frame: &Frame) -> GoldenFrame {
    GoldenFrame {
        bad: frame.user & 1 != 0,
        ..GoldenFrame::plain(frame.data.clone())
    }
}

fn at(schedule: &[(u64, u8)], cycle: u64) -> u8 {
    let latest = schedule.iter().rev().find(|(from, _)| *from <= cycle);
    latest.map_or(0, |(_, value)| *value)
}

/// The golden model is told how the ports were one clock before: when the first beat of a frame came, and when one left. What waits while its port is down
/// is dropped before the next frame of the port leaves.
fn check(size: (u32, u32, u32), given: &Given) -> Result<Outcome, TestCaseError> {
    let outcome = run(size, given)?;
    let mut model = model(size);
    let accepted = outcome.accepted("s_axis");
    prop_assert_eq!(accepted.len(), given.frames.len());
    for (frame, timing) in given.frames.iter().zip(accepted) {
        let port = (frame.user >> 1) as u8;
        // Decided with the first beat as it is taken, by the state of the clock before.
        let up = at(&given.up, timing.first_cycle.saturating_sub(1));
        model.push(port, golden_frame(frame), up >> port & 1 == 1);
    }
    let (up, down) = (
        Port {
            up: true,
            paused: false,
        },
        Port {
            up: false,
            paused: false,
        },
    );
    let down_for_a_time = given.up.len() > 1;
    for port in 0..size.0 as u8 {
        let takes_at_once = given.stalls[usize::from(port) % given.stalls.len()] == Pattern::Always;
        for (index, received) in outcome.received(&format!("m_axis_{port}")).iter().enumerate() {
            // Of a taker that never waits it is known when a frame was offered.
            if takes_at_once {
                let before = received.first_cycle.saturating_sub(1);
                let (paused, link) = (at(&given.pause, before), at(&given.up, before));
                prop_assert!(
                    paused >> port & 1 == 0,
                    "port {}: frame {} begins while it is paused",
                    port,
                    index
                );
                prop_assert!(
                    link >> port & 1 == 1,
                    "port {}: frame {} begins while it is down",
                    port,
                    index
                );
            }
            loop {
                // Those of the same port before it that did not come were dropped.
                let mut ahead = model.clone();
                let Turn::Given(frame) = ahead.take(port, up) else {
                    return Err(TestCaseError::fail(format!(
                        "port {port}: frame {index} was never sent, or is out of order"
                    )));
                };
                if frame.bytes == received.data {
                    model = ahead;
                    break;
                }
                prop_assert!(down_for_a_time, "port {}: frame {} is another one", port, index);
                model.take(port, down);
            }
            prop_assert_eq!(received.user & 1, 0);
        }
        while model.take(port, down) == Turn::Dropped {
            prop_assert!(down_for_a_time, "port {}: a frame did not come", port);
        }
    }
    compare(&outcome, model.counters())?;
    Ok(outcome)
}

fn compare(outcome: &Outcome, counters: &Counters) -> Result<(), TestCaseError> {
    let named = [
        ("forwarded", counters.forwarded),
        ("drop_down", counters.drop_down),
        ("drop_stored", counters.drop_stored),
        ("drop_bad", counters.drop_bad),
        ("drop_too_long", counters.drop_too_long),
    ];
    prop_assert_eq!(outcome.counters.len(), named.len(), "every counter is compared");
    for (name, value) in named {
        prop_assert_eq!(outcome.counters[name], u64::from(value), "count_{}", name);
    }
    Ok(())
}

/// Frames with their own number in the first bytes, of 1 to 8 beats, some bad, some of a port that there is not, a few too long.
fn frames((ports, width, depth): (u32, u32, u32)) -> impl Strategy<Value = Vec<Frame>> {
    let beat = width as usize / 8;
    let beats = prop_oneof![3 => Just(1), 3 => 1..=LONGEST as usize, 1 => depth as usize - 1..=depth as usize + 3];
    let port = prop_oneof![12 => 0..u64::from(ports), 1 => 0..8u64];
    let one = (beats, 1..=beat, prop::bool::weighted(0.1), port);
    prop::collection::vec(one, 0..120).prop_map(move |frames| {
        let numbered = frames.into_iter().zip(0u64..);
        numbered
            .map(|((beats, last, bad, port), seed)| {
                let mut data = blocks::bytes(((beats - 1) * beat + last).max(4), seed);
                data[..4].copy_from_slice(&(seed as u32).to_le_bytes());
                Frame::with_user(data, u64::from(bad) | port << 1)
            })
            .collect()
    })
}

fn given(size: (u32, u32, u32)) -> impl Strategy<Value = Given> {
    let all = ((1u16 << size.0) - 1) as u8;
    let change = move || prop::collection::vec((1u64..80, 0..=all), 0..12);
    let links = prop_oneof![1 => Just(vec![]), 1 => change()];
    let schedule = |first: u8, changes: Vec<(u64, u8)>, last: u8| {
        let mut cycle = 0;
        let mut schedule = vec![(0, first)];
        for (after, value) in changes {
            cycle += after;
            schedule.push((cycle, value));
        }
        if schedule.len() > 1 {
            schedule.push((cycle + 100, last));
        }
        schedule
    };
    let stalls = prop::collection::vec(Pattern::strategy(), 5);
    (frames(size), Pattern::strategy(), stalls, links, change()).prop_map(move |(frames, gaps, stalls, up, pause)| {
        Given {
            frames,
            gaps,
            stalls,
            up: schedule(all, up, all),
            pause: schedule(0, pause, 0),
        }
    })
}

#[test]
fn frames_and_counters_equal_the_golden_model() {
    if !common::have_verilator() {
        return;
    }
    let cases = prop::sample::select(&SIZES[..]).prop_flat_map(|size| (Just(size), given(size)));
    proptest!(common::config(80, "port_multiplexer"), |((size, given) in cases)| {
        check(size, &given)?;
    });
}

/// One beat a clock, also of frames of one beat of one port or of all in turn; and the clocks to the port.
#[test]
fn one_beat_a_clock_to_one_port_or_to_all() {
    if !common::have_verilator() {
        return;
    }
    for (size, latency) in SIZES.into_iter().zip(LATENCY) {
        for spread in [1, u64::from(size.0)] {
            let beat = size.1 as usize / 8;
            let frames = blocks::whole_beats(beat, [1; 300]);
            let frames: Vec<Frame> = frames
                .into_iter()
                .zip(0u64..)
                .map(|(frame, index)| Frame::with_user(frame.data, (index % spread) << 1))
                .collect();
            let given = Given {
                frames,
                gaps: Pattern::Always,
                stalls: vec![Pattern::Always],
                up: vec![(0, 0xFF >> (8 - size.0))],
                pause: vec![(0, 0)],
            };
            let outcome = check(size, &given).unwrap();
            let taken = outcome.accepted("s_axis");
            assert_eq!(taken[299].last_cycle - taken[0].last_cycle, 299);
            let first = &outcome.received("m_axis_0")[0];
            assert_eq!(
                first.last_cycle - taken[0].last_cycle,
                latency,
                "clocks to the port, as documented"
            );
        }
    }
}

/// A port whose link dies loses what waits and what comes, the others nothing; its full queue holds nobody up.
#[test]
fn a_dead_port_holds_up_nobody() {
    if !common::have_verilator() {
        return;
    }
    let size = SIZES[1];
    let beat = size.1 as usize / 8;
    let frames: Vec<Frame> = blocks::whole_beats(beat, [4; 200])
        .into_iter()
        .zip(0u64..)
        .map(|(frame, index)| Frame::with_user(frame.data, (index % 2) << 1))
        .collect();
    let given = Given {
        frames,
        gaps: Pattern::Always,
        stalls: vec![Pattern::Always, Pattern::After { clocks: 2000 }],
        up: vec![(0, 0b11), (120, 0b01)],
        pause: vec![(0, 0)],
    };
    let outcome = check(size, &given).unwrap();
    assert_eq!(outcome.received("m_axis_0").len(), 100);
    // The frame that was offered when the link died waits for its taker; all others are gone.
    assert_eq!(outcome.received("m_axis_1").len(), 1);
    assert_eq!(outcome.counters["drop_down"] + outcome.counters["drop_stored"], 99);
    assert!(outcome.counters["drop_stored"] >= 10);
    let taken = outcome.accepted("s_axis");
    assert!(taken[199].last_cycle < 1000, "nobody waits for the dead port");
}
