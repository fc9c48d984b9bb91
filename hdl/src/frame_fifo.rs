//! `frame_fifo`: store and forward; only whole, good frames that fit come out, without a gap inside.
//!
//! A frame that finds too little room waits; only one that is bad or longer than the FIFO is dropped, and counted. A frame whose owner
//! vouches for it (prompt) goes past an empty FIFO.
//! Theory of operation: `docs/src/blocks/frame_fifo.md`.

use spraynic_rtl::{AxiStream, Context, Definition, Module, Signal};

use crate::stream_fifo::{next_index, outlet, style};

/// Name of the block.
pub const NAME: &str = "frame_fifo";

/// The FIFO for `depth` beats of `width` data bits and `user` sideband bits: ports `s_axis_…`, `m_axis_…`, `count_…`. `tuser[0]` of
/// the last beat says that the frame is bad.
///
/// # Panics
/// When `width` is no multiple of 8, `width` or `user` is 0, or `depth` less than 2.
#[must_use]
pub fn frame_fifo(context: &Context, width: u32, user: u32, depth: u32) -> Definition<'_> {
    build(context, width, user, depth, false)
}

/// The same FIFO with one more bit in `s_axis_tuser`, above the others: the frame is prompt. It is good, fits, and comes without a gap, so
/// that it need not be stored: where the FIFO is empty and the input `prompt_may_pass` is 1 when its first beat comes, it goes past the
/// FIFO, each beat in the clock in which it comes.
///
/// # Panics
/// As [`frame_fifo`].
#[must_use]
pub fn prompt_frame_fifo(context: &Context, width: u32, user: u32, depth: u32) -> Definition<'_> {
    build(context, width, user, depth, true)
}

fn build(context: &Context, width: u32, user: u32, depth: u32, has_prompt: bool) -> Definition<'_> {
    let prefix = if has_prompt { "prompt_" } else { "" };
    let m = context.module(&format!("{prefix}{NAME}_w{width}_u{user}_d{depth}"));
    let prompt_doc = match has_prompt {
        true => "\nA prompt frame goes past the FIFO where that is empty and prompt_may_pass is 1.",
        false => "",
    };
    m.doc(&format!(
        "Stores frames in {depth} beats of RAM and forwards them when they are whole.\n\
         A bad frame (s_axis_tuser[0] of the last beat) and one of more than {depth} beats are dropped and counted.{prompt_doc}"
    ));
    let user_in = user + u32::from(has_prompt);
    let input = AxiStream::slave(m, "s_axis", width, user_in, "frames; tuser[0] of the last beat: bad");
    let output = AxiStream::master(m, "m_axis", width, user, "whole frames");

    let ready = m.reg("ready", 1).reset(0).doc("there is room");
    let full = m.reg("full", 1).reset(0).doc("no beat is free");
    let discarding = m
        .reg("discarding", 1)
        .reset(0)
        .doc("the frame is too long: its rest is forgotten");
    let whole = m.reg("whole", 1).reset(0).doc("the RAM holds a beat of a whole frame");
    let memory = m.memory("beats", depth, output.pack().width()).style(style(depth));
    let index = |name, doc| m.reg(name, memory.address_width()).reset(0).doc(doc);
    let write_index = index("write_index", "where the next beat goes");
    let frame_start = index(
        "frame_start",
        "first beat of the frame that comes in; all before are of whole frames",
    );
    let read_index = index("read_index", "the next beat to leave");

    // The beat that comes in. A frame that has taken every beat and goes on is too long: nothing else is in the RAM then, so
    // nobody can make room for it.
    let goes_by = has_prompt.then(|| {
        let may_pass = m
            .input("prompt_may_pass", 1)
            .doc("a prompt frame that begins in this clock may pass: the taker has nothing else to do");
        let empty = m.wire("empty_at_start", 1);
        (passes(m, &input, output.ready, empty & may_pass), empty)
    });
    let passes = goes_by.map(|(passes, _)| passes);
    let input_ready = passes.map_or(ready, |passes| ready & (!passes | output.ready));
    let taken = (input.valid & input_ready).named("taken");
    let stored = taken & !discarding;
    let store = passes.map_or(stored, |passes| stored & !passes).named("store");
    let next_write_index = next_index(write_index, depth).named("next_write_index");
    let takes_all = next_write_index.eq(frame_start).named("takes_all");
    let ends = (store & input.last).named("ends");
    let bad = input.user.bit(0);
    let commit = (ends & !bad).named("commit");
    let drop_bad = (ends & bad).named("drop_bad");
    let drop_too_long = (store & !input.last & takes_all).named("drop_too_long");
    let rewind = (drop_bad | drop_too_long).named("rewind");
    let beat = input.pack().part(0, output.pack().width());
    memory.write(store, write_index, beat);
    m.when(rewind, || write_index.set(frame_start))
        .else_when(store, || write_index.set(next_write_index));
    m.when(commit, || frame_start.set(next_write_index));
    m.when(drop_too_long, || discarding.set_lit(1))
        .else_when(taken & input.last, || discarding.set_lit(0));

    // The beats that leave.
    let outlet = outlet(m, memory, depth, whole, read_index, output.ready);
    let next_read_index = next_index(read_index, depth).named("next_read_index");
    m.when(outlet.read, || read_index.set(next_read_index));
    let last_whole = next_read_index.eq(frame_start).named("last_whole");
    whole.set(commit | (whole & !(outlet.read & last_whole)));

    // Room. What is rewound leaves at least the beat just taken.
    let takes_last = next_write_index.eq(read_index).named("takes_last_free_beat");
    let full_next = (!rewind & !outlet.read & store.mux(takes_last, full)).named("full_next");
    full.set(full_next);
    ready.set(!full_next);

    input.ready.set(input_ready);
    match goes_by {
        None => {
            output.valid.set(outlet.offered);
            output.set_packed(outlet.word);
        }
        Some((passes, empty)) => {
            empty.set(!(whole | outlet.holds));
            output.valid.set(outlet.offered | (passes & input.valid & ready));
            output.set_packed(passes.mux(beat, outlet.word));
            m.assert(
                "only_good_frames_pass_and_nothing_is_before_them",
                !(passes & input.valid) | !(outlet.offered | whole | (input.last & bad)),
            );
        }
    }
    counter(m, "forwarded", output.fires() & output.last, "frames given");
    counter(
        m,
        "drop_bad",
        drop_bad,
        "frames dropped because their last beat said bad",
    );
    counter(
        m,
        "drop_too_long",
        drop_too_long,
        "frames dropped because they have more beats than the FIFO",
    );

    let empty = (write_index.eq(read_index) & !full).named("empty");
    m.assert("ready_means_room", !(ready & full));
    m.assert(
        "nothing_else_is_stored_beside_a_frame_too_long",
        !(drop_too_long & whole),
    );
    m.assert("a_whole_frame_is_not_nothing", !(whole & empty));
    m.assert(
        "what_is_discarded_is_not_stored",
        !discarding | write_index.eq(frame_start),
    );
    m.assert("offered_means_held", !outlet.offered | outlet.holds);
    m.finish()
}

/// Whether the beat that is offered goes past the FIFO: one of a prompt frame whose first beat found that it may. That beat stays offered, and
/// the rest of its frame follows, as the taker takes it.
fn passes<'a>(m: Module<'a>, input: &AxiStream<'a>, taker_ready: Signal<'a>, may_pass: Signal<'a>) -> Signal<'a> {
    let at_start = m.reg("at_start", 1).reset(1).doc("the next beat begins a frame");
    let passing = m
        .reg("passing", 1)
        .reset(0)
        .doc("the frame whose beat is offered goes past the FIFO");
    let prompt = input.user.msb().named("prompt");
    let passes = (passing | (at_start & prompt & may_pass)).named("passes");
    m.when(input.fires(), || {
        at_start.set(input.last);
        passing.set(passes & !input.last);
    })
    .else_when(input.valid & passes & !taker_ready, || passing.set_lit(1));
    passes
}

/// A counter of 32 bits that wraps, with its port.
fn counter<'a>(m: Module<'a>, name: &str, event: Signal<'a>, doc: &str) {
    let port = m.output(&format!("count_{name}"), 32).doc(doc);
    let count = m.reg(&format!("{name}_counter"), 32).reset(0);
    m.when(event, || count.set(count + count.lit(1)));
    port.set(count);
}

#[cfg(test)]
mod tests {
    use spraynic_rtl::Evaluator;

    use super::*;

    const DEPTHS: [u32; 5] = [2, 5, 8, 40, 64];

    /// Frames by their beats and marks through the FIFO; what came out as (frame, beats) and the clocks of each beat.
    struct Run {
        given: Vec<(u64, u32)>,
        beat_clocks: Vec<u32>,
        counters: [u64; 3],
        accept_clocks: Vec<u32>,
    }

    fn run(depth: u32, frames: &[(u32, bool)], take: impl Fn(u32) -> bool) -> Run {
        let context = Context::new();
        let mut sim = Evaluator::new(frame_fifo(&context, 32, 1, depth));
        sim.reset();
        sim.clock();
        let mut run = Run {
            given: vec![],
            beat_clocks: vec![],
            counters: [0; 3],
            accept_clocks: vec![],
        };
        let (mut frame, mut beat, mut quiet, mut out_beat) = (0, 0, 0, 0);
        for clock in 0.. {
            let offer = frames.get(frame);
            sim.set("s_axis_tvalid", u64::from(offer.is_some()));
            if let Some((beats, bad)) = offer {
                let last = beat + 1 == *beats;
                sim.set("s_axis_tdata", (frame as u64) << 16 | u64::from(beat));
                sim.set("s_axis_tkeep", 15);
                sim.set("s_axis_tlast", u64::from(last));
                sim.set("s_axis_tuser", u64::from(*bad && last));
            }
            sim.set("m_axis_tready", u64::from(take(clock)));
            quiet += 1;
            if sim.get_u64("m_axis_tvalid") == 1 && take(clock) {
                let word = sim.get_u64("m_axis_tdata");
                assert_eq!(
                    word & 0xffff,
                    u64::from(out_beat),
                    "a beat of frame {} is missing",
                    word >> 16
                );
                out_beat += 1;
                run.beat_clocks.push(clock);
                if sim.get_u64("m_axis_tlast") == 1 {
                    run.given.push((word >> 16, out_beat));
                    out_beat = 0;
                }
                quiet = 0;
            }
            if let Some((beats, _)) = offer
                && sim.get_u64("s_axis_tready") == 1
            {
                run.accept_clocks.push(clock);
                beat += 1;
                if beat == *beats {
                    (frame, beat) = (frame + 1, 0);
                }
                quiet = 0;
            }
            sim.clock();
            if quiet > 100 {
                assert_eq!(frame, frames.len(), "stuck in frame {frame}, beat {beat}");
                break;
            }
        }
        run.counters = ["count_forwarded", "count_drop_bad", "count_drop_too_long"].map(|port| sim.get_u64(port));
        run
    }

    #[test]
    fn only_whole_good_frames_that_fit_come_out() {
        for depth in DEPTHS {
            let frames = [
                (depth, false),
                (1, false),
                (depth, true),
                (depth + 1, false),
                (depth + 1, true),
                (1, true),
                (2, false),
                (3 * depth + 1, false),
                (depth, false),
                (depth, false),
                (1, false),
            ];
            for take in [!0u32, 0x1111_1111, 0xffff_0000] {
                let run = run(depth, &frames, |clock| take >> (clock % 32) & 1 == 1);
                let expected = [(0, depth), (1, 1), (6, 2), (8, depth), (9, depth), (10, 1)];
                assert_eq!(run.given, expected, "depth {depth}");
                assert_eq!(run.counters, [6, 2, 3], "depth {depth}");
            }
        }
    }

    #[test]
    fn the_whole_fifo_is_usable() {
        for depth in DEPTHS {
            // Nobody takes for long: single-beat frames fill the RAM and the registers behind it.
            let frames = vec![(1, false); depth as usize + 10];
            let run = run(depth, &frames, |clock| clock > 90);
            let early = run.accept_clocks.iter().filter(|clock| **clock < 90).count() as u32;
            let behind = if depth <= 32 { 1 } else { 2 };
            assert_eq!(early, depth + behind);
        }
    }

    #[test]
    fn single_beat_frames_pass_at_one_a_clock() {
        for depth in [5, 40] {
            let run = run(depth, &vec![(1, false); 100], |_| true);
            assert_eq!(run.accept_clocks, (0..100).collect::<Vec<_>>());
            let first = run.beat_clocks[0];
            assert_eq!(run.beat_clocks, (first..first + 100).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_whole_frame_leaves_without_a_gap() {
        let run = run(64, &[(20, false), (20, false), (20, false)], |_| true);
        let first = run.beat_clocks[0];
        assert!(first > 20, "the first frame is whole before it leaves");
        assert_eq!(run.beat_clocks, (first..first + 60).collect::<Vec<_>>());
    }

    #[test]
    fn frames_too_long_never_hold_up_the_stream() {
        let run = run(8, &[(9, false), (1000, false), (8, false)], |_| true);
        assert_eq!(run.accept_clocks, (0..1017).collect::<Vec<_>>());
        assert_eq!((run.given, run.counters), (vec![(2, 8)], [1, 0, 2]));
    }
}
