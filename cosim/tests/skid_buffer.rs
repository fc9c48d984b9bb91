//! skid_buffer: golden model and RTL give the same beats, at every width and under every pattern of gaps and back-pressure.

#[path = "common/blocks.rs"]
mod blocks;
mod common;

use proptest::prelude::*;
use spraynic_cosim::{BenchError, Frame, Limits, Outcome, Pattern, Simulation, SinkChecks, Stimulus, run};
use spraynic_rtl::Context;

const WIDTHS: [u32; 5] = [8, 64, 128, 512, 1024];
const USER: u32 = 3;

fn axi(width: u32) -> Simulation {
    let context = Context::new();
    blocks::simulation(
        &context,
        spraynic_hdl::skid_buffer::axi_skid_buffer(&context, width, USER),
    )
}

fn packed(width: u32) -> Simulation {
    let context = Context::new();
    blocks::simulation(&context, spraynic_hdl::skid_buffer::skid_buffer(&context, width))
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

fn check(simulation: &mut Simulation, stimulus: &Stimulus) -> Result<Outcome, BenchError> {
    run(simulation, stimulus, Limits::default())
}

proptest! {
    #![proptest_config(common::config(60, "skid_buffer"))]

    #[test]
    fn frames_pass_unchanged_at_every_width(
        (width, sent) in prop::sample::select(WIDTHS.to_vec())
            .prop_flat_map(|width| (Just(width), blocks::frames(width as usize / 8, 6, (1 << USER) - 1, 30))),
        gaps in Pattern::strategy(), stalls in Pattern::strategy(), user_last_only: bool,
    ) {
        if common::have_verilator() {
            let mut stimulus = stimulus(gaps, stalls, &sent);
            stimulus.sources[0].user_last_only = user_last_only;
            let outcome = check(&mut axi(width), &stimulus)?;
            blocks::assert_same(&sent, outcome.received("m_axis"))?;
        }
    }

    /// Each word at the clock in which it was accepted and given: the golden model has room for the one and gives the other.
    #[test]
    fn words_follow_the_golden_model_clock_by_clock(
        words in prop::collection::vec(any::<[u8; 5]>(), 0..80),
        gaps in Pattern::strategy(), stalls in Pattern::strategy(),
    ) {
        if common::have_verilator() {
            let sent: Vec<Frame> = words.iter().map(|word| {
                let mut word = *word;
                word[4] &= 31;
                Frame::new(word)
            }).collect();
            let outcome = check(&mut packed(37), &stimulus(gaps, stalls, &sent))?;
            blocks::assert_same(&sent, outcome.received("m_axis"))?;
            let mut model = spraynic_golden::skid_buffer::skid_buffer();
            let (pushes, pops) = (outcome.accepted("s_axis"), outcome.beat_cycles("m_axis"));
            for cycle in 0..outcome.cycles {
                // What is taken out in this clock was put in before it; what is put in finds room without its leaving.
                let popped = pops.iter().position(|pop| *pop == cycle);
                if let Some(index) = popped {
                    prop_assert_eq!(model.clone().pop(), Some(index), "cycle {}", cycle);
                }
                if let Some(index) = pushes.iter().position(|push| push.last_cycle == cycle) {
                    prop_assert!(model.push(index).is_ok(), "accepted while full, cycle {}", cycle);
                }
                if popped.is_some() {
                    model.pop();
                }
            }
            prop_assert_eq!(model.count(), 0);
        }
    }
}

/// Single-beat frames back to back, none lost, one a clock.
#[test]
fn single_beat_frames_back_to_back_take_one_clock_each() {
    if !common::have_verilator() {
        return;
    }
    for width in [8, 1024] {
        let sent = blocks::whole_beats(width as usize / 8, [1; 100]);
        let outcome = check(&mut axi(width), &stimulus(Pattern::Always, Pattern::Always, &sent)).unwrap();
        blocks::assert_same(&sent, outcome.received("m_axis")).unwrap();
        // Ready rises after the reset; one clock of latency; then one beat a clock.
        let first = outcome.beat_cycles("m_axis")[0];
        assert!(first <= 2, "latency {first}");
        assert_eq!(outcome.beat_cycles("m_axis"), (first..first + 100).collect::<Vec<_>>());
    }
}

/// One byte in the last beat stays one byte.
#[test]
fn the_last_beat_keeps_its_bytes() {
    if !common::have_verilator() {
        return;
    }
    for length in [1, 63, 64, 65, 78, 127, 129, 250] {
        let sent = [
            Frame::with_user(blocks::bytes(length, 7), 5),
            Frame::new(blocks::bytes(3, 8)),
        ];
        let outcome = check(&mut axi(512), &stimulus(Pattern::Always, Pattern::Always, &sent)).unwrap();
        blocks::assert_same(&sent, outcome.received("m_axis")).unwrap();
    }
}

/// A pause of the taker costs the clocks of the pause and no more.
#[test]
fn a_pause_of_the_taker_costs_its_own_clocks_only() {
    if !common::have_verilator() {
        return;
    }
    let sent = blocks::whole_beats(64, [1; 64]);
    let run = |stalls| {
        let outcome = check(&mut axi(512), &stimulus(Pattern::Always, stalls, &sent)).unwrap();
        *outcome.beat_cycles("m_axis").last().unwrap()
    };
    let half = Pattern::List(vec![true, false]);
    let free = run(Pattern::Always);
    let halved = run(half);
    assert!(halved <= 2 * 64 + free - 63, "{halved} clocks against {free}");
}
