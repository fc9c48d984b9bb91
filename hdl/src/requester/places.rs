//! Where the oldest entry of a response packet's queue pair will stand when the packet is judged: the ring is read three clocks before.
//!
//! The head of the ring was read when the packet entered. It moves on with each packet ahead that ends a READ or an atomic of the same queue pair.
//! Of a packet of solar the opcode says that: it is taken if anything is expected at all, and behind a wrong one nothing is taken any more. One of
//! roce may be a repeated one, so that who comes behind it stands until it has been judged. So does who comes behind something to expect, until
//! that is in the ring.

use super::operation::{EXPECTED, RESPONSE};
use super::{Module, Signal, Stage};
use crate::state_table;
use crate::sweep::Sweep;
use spraynic_rtl::bundle;
use spraynic_wire::Opcode;

bundle! {
    /// What the operation judged in the clock before did to its ring.
    pub(super) struct Advance {
        valid: 1, "the head moved on";
        head: 4, "where it stands";
    }
}

/// Gives the place of the oldest entry for the operation in stage 2, and drives `moves`: 0 while that one is held. `entering`: the word of the
/// operation that enters. `advance`: of the operation in the stage behind judgement, with its word.
pub(super) fn places<'a>(
    m: Module<'a>,
    reads: u32,
    stages: &[Stage<'a>],
    (moves, entering): (Signal<'a>, Signal<'a>),
    (advance, advanced_index): (Advance<'a>, Signal<'a>),
    sweep: Sweep<'a>,
) -> Signal<'a> {
    let first = stages[0];
    let is = |kind: u32| first.valid & first.in_table & first.operation.kind.eq_lit(kind);
    let finds = first.valid & first.operation.kind.eq_lit(RESPONSE);
    let ahead = &stages[1..];
    let same: Vec<Signal<'a>> = (2..)
        .zip(ahead)
        .map(|(number, stage)| (finds & first.index.eq(stage.index)).named(&format!("same_as_{number}")))
        .collect();

    // Who stores an entry: written to the ring in the clock behind judgement.
    let stores = follow(m, "stores", is(EXPECTED), moves);
    let awaited: Vec<_> = same.iter().zip(&stores).map(|(same, stores)| *same & *stores).collect();
    let mut holds = when_second(m, "entry_awaited", moves, &awaited);

    let place = if reads == 1 {
        // There is one place.
        for signal in [advance.valid, advance.head, advanced_index] {
            signal.ignore();
        }
        m.lit(0, 4)
    } else {
        let has = |opcode: Opcode| first.operation.opcode.eq_lit(opcode.0);
        let ends = has(Opcode::READ_RESPONSE_LAST) | has(Opcode::READ_RESPONSE_ONLY) | has(Opcode::ATOMIC_ACKNOWLEDGE);
        let ending = follow(m, "ending", is(RESPONSE) & ends, moves);
        let ending: Vec<_> = same.iter().zip(&ending).map(|(same, ending)| *same & *ending).collect();
        let ended = when_second(m, "ended_ahead", moves, &ending);
        let unsure: Vec<_> = (ending.iter().zip(ahead).take(3))
            .map(|(ending, stage)| *ending & (stage.operation.roce | first.operation.roce))
            .collect();
        holds.extend(when_second(m, "ended_perhaps", moves, &unsure));

        // The head as it stood in the clock before; what was written in that clock is in a register.
        let heads = m.memory("heads", state_table::depth(1 << entering.width()), 4);
        heads.write(
            advance.valid | sweep.active,
            sweep.active.mux(sweep.index, advanced_index),
            advance.head.gate(!sweep.active),
        );
        let read = heads.read(m.high(), moves.mux(entering, first.index));
        let before = Advance {
            valid: advance.valid.delayed("before_advanced_valid"),
            head: advance.head.delayed("before_advanced_head"),
        };
        let is_before = before.valid & first.index.eq(advanced_index.delayed("before_advanced_index"));
        let moved = (advance.valid & first.index.eq(advanced_index)).named("head_has_moved");
        let steps = ending
            .iter()
            .fold(moved.zero_extend(3), |sum, one| sum + one.zero_extend(3))
            .named("head_steps");
        let (head, later) = (m.reg("head_2", 4), m.reg("head_steps_2", 3));
        // An end ahead that was none after all.
        let less = (ended[3] & !advance.valid).named("no_end_after_all");
        let left = later - less.zero_extend(3);
        m.when(moves, || {
            head.set(is_before.mux(before.head, read));
            later.set(steps);
        })
        .otherwise(|| later.set(left));
        (head + left.zero_extend(4)) & m.lit(reads - 1, 4)
    };
    let held = holds.into_iter().fold(m.low(), |any, one| any | one).named("held");
    moves.set(!held);
    place.named("place")
}

/// A property of the operation in stage 1 as it goes through stages 2 to 5.
fn follow<'a>(m: Module<'a>, name: &str, first: Signal<'a>, moves: Signal<'a>) -> Vec<Signal<'a>> {
    let second = m.reg(&format!("{name}_2"), 1).reset(0);
    m.when(moves, || second.set(first));
    let mut stages = vec![second];
    let mut before = second & moves;
    for number in 3..=5 {
        let register = m.reg(&format!("{name}_{number}"), 1).reset(0);
        register.set(before);
        stages.push(register);
        before = register;
    }
    stages
}

/// What the operation in stage 1 finds in stages 2 to 5 at most, when it stands in stage 2 and they in 3 to 6; they go on while it is held.
fn when_second<'a>(m: Module<'a>, name: &str, moves: Signal<'a>, found: &[Signal<'a>]) -> Vec<Signal<'a>> {
    let mut stages = vec![];
    let mut before = m.low();
    for (number, found) in (3..).zip(found) {
        let register = m.reg(&format!("{name}_{number}"), 1).reset(0);
        register.set(moves.mux(*found, before));
        stages.push(register);
        before = register;
    }
    stages
}
