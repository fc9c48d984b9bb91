//! `packet_multiplexer`: several streams of frames become one; it switches at frame boundaries only, round robin.
//!
//! It never cuts, mixes or changes a frame, and costs no clock between frames, whichever inputs they come from. Output and `tready` are
//! registered by a skid buffer.
//! Theory of operation: `docs/src/blocks/packet_multiplexer.md`.

use spraynic_rtl::{AxiStream, Context, Definition, Signal, cat_lsb_first};

use crate::round_robin_arbiter::arbitrate;
use crate::skid_buffer::register_axi;

/// Name of the block.
pub const NAME: &str = "packet_multiplexer";

/// The multiplexer of `inputs` streams of `width` data bits and `user` sideband bits: ports `s_axis_0_…` and up, `m_axis_…`.
///
/// # Panics
/// When `inputs` is 0, `width` is no multiple of 8, or `width` or `user` is 0.
#[must_use]
pub fn packet_multiplexer(context: &Context, inputs: u32, width: u32, user: u32) -> Definition<'_> {
    assert!(inputs > 0, "a packet_multiplexer has at least 1 input");
    let m = context.module(&format!("{NAME}_n{inputs}_w{width}_u{user}"));
    m.doc(&format!(
        "One stream from {inputs}: a whole frame of one input, then of the next that has one, round robin."
    ));
    let streams: Vec<AxiStream<'_>> = (0..inputs)
        .map(|index| {
            AxiStream::slave(
                m,
                &format!("s_axis_{index}"),
                width,
                user,
                &format!("frames of input {index}"),
            )
        })
        .collect();
    let output = AxiStream::master(m, "m_axis", width, user, "all frames, registered");

    // Who has the output is a register, so that no arbitration stands before the data. It is chosen one clock ahead, among
    // those who wait already: they will still wait then. Where nobody waits, input 0 has it, whose frames so never wait for that clock.
    let selected = m
        .reg("selected", inputs)
        .reset(1)
        .doc("input that has the output, one-hot");
    let in_frame = m.reg("in_frame", 1).reset(0).doc("a frame of it is under way");
    let chosen = AxiStream::wires(m, "chosen", width, user);

    let request = cat_lsb_first(&streams.iter().map(|stream| stream.valid).collect::<Vec<_>>()).named("request");
    let valid = (request & selected).any().named("valid");
    let selection = selected.to_bits();
    let beat = joined(streams.iter().map(AxiStream::pack).zip(selection.clone())).named("beat");
    let last = joined(streams.iter().map(|stream| stream.last).zip(selection.clone())).named("last");
    for (stream, selected) in streams.iter().zip(selection) {
        stream.ready.set(selected & chosen.ready);
    }
    let moves = (valid & chosen.ready).named("moves");
    m.when(moves, || in_frame.set(!last));

    let may_switch = ((moves & last) | (!in_frame & !valid)).named("may_switch");
    let others = (request & !selected).named("others");
    let switches = (may_switch & others.any()).named("switches");
    let grant = arbitrate(m, "u_arbiter", others, switches);
    m.when(switches, || selected.set(grant))
        .else_when(!in_frame & !valid, || selected.set_lit(1));

    chosen.set_packed(beat);
    chosen.valid.set(valid);
    register_axi(m, "u_output", chosen).connect(output);

    m.assert(
        "one_input_is_selected",
        selected.any() & (selected & (selected - selected.lit(1))).eq_lit(0),
    );
    m.finish()
}

/// Of values with a bit each, of which one at most is set: the value of that one, else 0.
fn joined<'a>(values: impl Iterator<Item = (Signal<'a>, Signal<'a>)>) -> Signal<'a> {
    values
        .map(|(value, selected)| value & selected.repeat(value.width()))
        .reduce(|left, right| left | right)
        .expect("at least one input")
}

#[cfg(test)]
mod tests {
    use spraynic_rtl::Evaluator;

    use super::*;

    /// Frames of each input by their beats. Returns (input, frame, beats) in the order in which they came out and the
    /// clocks it took from the first beat to the last.
    fn run(inputs: &[Vec<u32>], take: impl Fn(u32) -> bool) -> (Vec<(usize, usize, u32)>, u32) {
        let context = Context::new();
        let mut sim = Evaluator::new(packet_multiplexer(&context, inputs.len() as u32, 32, 1));
        sim.reset();
        sim.clock();
        let mut at = vec![(0usize, 0u32); inputs.len()];
        let mut given: Vec<(usize, usize, u32)> = vec![];
        let (mut beats, mut first, mut last_clock) = (0, None, 0);
        for clock in 0..20_000 {
            for (input, frames) in inputs.iter().enumerate() {
                let (frame, beat) = at[input];
                let offered = frames.get(frame);
                sim.set(&format!("s_axis_{input}_tvalid"), u64::from(offered.is_some()));
                let last = offered.is_some_and(|length| beat + 1 == *length);
                let word = (input as u64) << 28 | (frame as u64) << 16 | u64::from(beat);
                sim.set(&format!("s_axis_{input}_tdata"), word);
                sim.set(&format!("s_axis_{input}_tlast"), u64::from(last));
            }
            sim.set("m_axis_tready", u64::from(take(clock)));
            for (input, frames) in inputs.iter().enumerate() {
                let offered = at[input].0 < frames.len();
                if offered && sim.get_u64(&format!("s_axis_{input}_tready")) == 1 {
                    at[input].1 += 1;
                    if at[input].1 == frames[at[input].0] {
                        at[input] = (at[input].0 + 1, 0);
                    }
                }
            }
            if take(clock) && sim.get_u64("m_axis_tvalid") == 1 {
                let word = sim.get_u64("m_axis_tdata");
                assert_eq!(word & 0xffff, u64::from(beats), "beats out of order or mixed");
                first = first.or(Some(clock));
                last_clock = clock;
                beats += 1;
                if sim.get_u64("m_axis_tlast") == 1 {
                    given.push(((word >> 28) as usize, (word >> 16 & 0xfff) as usize, beats));
                    beats = 0;
                }
            }
            sim.clock();
        }
        (given, last_clock - first.unwrap_or(0) + 1)
    }

    #[test]
    fn inputs_take_turns_without_a_bubble() {
        let (given, clocks) = run(&[vec![1, 3, 2], vec![2], vec![1, 1]], |_| true);
        assert_eq!(
            given,
            [(0, 0, 1), (1, 0, 2), (2, 0, 1), (0, 1, 3), (2, 1, 1), (0, 2, 2)]
        );
        assert_eq!(clocks, 10);
    }

    #[test]
    fn a_short_frame_before_a_long_one_of_another_input_keeps_its_length() {
        for (first, second) in [(1, 40), (2, 1), (1, 1), (40, 1)] {
            let (given, clocks) = run(&[vec![first; 3], vec![second; 3]], |clock| clock % 3 != 1);
            let expected: Vec<_> = (0..3)
                .flat_map(|frame| [(0, frame, first), (1, frame, second)])
                .collect();
            assert_eq!(given, expected);
            assert!(clocks > 3 * (first + second));
        }
    }

    #[test]
    fn a_frame_of_input_0_does_not_wait_for_the_choice() {
        let context = Context::new();
        let mut sim = Evaluator::new(packet_multiplexer(&context, 2, 32, 1));
        sim.reset();
        sim.clock();
        sim.set("m_axis_tready", 1u64);
        let offer = |sim: &mut Evaluator, input: u32, valid: bool| {
            sim.set(&format!("s_axis_{input}_tvalid"), u64::from(valid));
            sim.set(&format!("s_axis_{input}_tlast"), u64::from(valid));
        };
        // A frame of input 1 waits a clock; then the output is with input 1, until nobody waits.
        for clock in 0..4 {
            offer(&mut sim, 1, clock < 2);
            assert_eq!(
                sim.get_u64("s_axis_1_tready"),
                u64::from(clock == 1 || clock == 2),
                "clock {clock}"
            );
            sim.clock();
        }
        assert_eq!(sim.get_u64("s_axis_0_tready"), 1, "input 0 has it again");
        offer(&mut sim, 0, true);
        sim.clock();
        assert_eq!(sim.get_u64("m_axis_tvalid"), 1, "one clock later");
    }

    #[test]
    fn one_active_input_has_the_whole_output() {
        for inputs in [1usize, 2, 5] {
            let mut frames = vec![vec![]; inputs];
            frames[inputs - 1] = vec![1; 200];
            let (given, clocks) = run(&frames, |_| true);
            assert_eq!((given.len(), clocks), (200, 200), "{inputs} inputs");
        }
    }
}
