//! The verdict on an operation: what becomes of its queue pair, whether its packet is taken, what is counted.

use super::expected::Found;
use super::operation::{CONTEXT, EXPECTED, RESPONSE};
use super::{Module, Signal, Stage, State};

/// What an operation does. All of it is formed in one clock, from registers.
pub(super) struct Verdict<'a> {
    /// The state behind it.
    pub(super) state: State<'a>,
    /// The head of the ring moves on.
    pub(super) advances: Signal<'a>,
    /// What is to be expected is.
    pub(super) stores: Signal<'a>,
    /// It is a response packet.
    pub(super) is_response: Signal<'a>,
    /// A packet is taken: a PayloadWrite is given.
    pub(super) taken: Signal<'a>,
    /// It is what was asked for.
    pub(super) right: Signal<'a>,
    /// Its READ or atomic ends with it.
    pub(super) ends: Signal<'a>,
    /// Name, meaning and event of each counter.
    pub(super) counters: Vec<(&'static str, &'static str, Signal<'a>)>,
}

/// Judges the operation in `stage`, whose state and oldest entry are `state` and `found`.
pub(super) fn judge<'a>(
    m: Module<'a>,
    reads: u32,
    stage: &Stage<'a>,
    state: &State<'a>,
    found: &Found<'a>,
) -> Verdict<'a> {
    let operation = &stage.operation;
    let is = |kind: u32| stage.valid & operation.kind.eq_lit(kind);

    // A response packet. An atomic has a last packet alone.
    let response = is(RESPONSE);
    let waits = response & stage.in_table & state.sends & !state.failed & state.count.any();
    let waits = (waits & state.roce.eq(operation.roce)).named("waits");
    let in_turn = (!operation.roce | found.psn_ahead.eq(state.taken)).named("in_turn");
    let taken = (waits & in_turn).named("taken");
    let is_last = state.taken.eq(found.last).named("is_last");
    let has_place = found.begins | state.taken.any();
    let read_is_right = has_place & is_last.mux(found.right_last, found.right_before_last);
    let right = (found.right_atomic | read_is_right).named("is_right");
    let good = (taken & right).named("is_good");
    let wrong = (taken & !right).named("is_wrong");
    let advances = good & is_last;
    let ends = (advances | wrong).named("entry_is_gone");

    // Something to expect, and a context.
    let full = state.count.eq_lit(reads);
    let may_expect = stage.in_table & state.sends & !full;
    let expects = (is(EXPECTED) & may_expect).named("expects");
    let context = is(CONTEXT);
    let opens = (context & operation.sends & !state.sends).named("opens");
    let renewed = (opens | (context & !operation.sends)).named("renewed");

    let one = state.count.lit(1);
    let count = ends.mux(state.count - one, expects.mux(state.count + one, state.count));
    let taken_before = good.mux(state.taken + state.taken.lit(1), state.taken);
    let after = State {
        sends: context.mux(operation.sends, state.sends),
        roce: opens.mux(operation.roce, state.roce),
        failed: (state.failed | wrong) & !renewed,
        mtu: opens.mux(operation.mtu, state.mtu),
        // It stays where it is when nothing is expected any more: any place may be the first one.
        head: (state.head + advances.zero_extend(4)) & m.lit(reads - 1, 4),
        count: count.gate(!renewed),
        taken: taken_before.gate(!(renewed | advances)),
    };
    Verdict {
        state: after,
        advances,
        stores: expects,
        is_response: response,
        taken,
        right,
        ends,
        counters: vec![
            ("packets", "response packets that were expected, in their turn", taken),
            ("done", "READs and atomics done", ends),
            (
                "failed",
                "of these, those whose response was not what was asked for",
                wrong,
            ),
            (
                "drop_sequence",
                "roce: response packets that are not the next one: repeated, or behind a gap",
                waits & !in_turn,
            ),
            (
                "drop_unexpected",
                "response packets that nobody waits for, and those behind a failure",
                response & !waits,
            ),
            (
                "drop_expected",
                "READs and atomics that were to be expected, but the queue pair does not send, or waits for as many as it can",
                is(EXPECTED) & !may_expect,
            ),
        ],
    }
}
