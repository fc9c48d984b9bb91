//! Queues in distributed RAM whose flags are registers: nothing but the flag stands between a queue and who asks.

use spraynic_rtl::{MemoryStyle, Module, Signal};

/// A queue: what is known of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queue<'a> {
    /// It holds a word: a register.
    pub(super) valid: Signal<'a>,
    /// The oldest word, out of the RAM.
    pub(super) word: Signal<'a>,
    /// Words that it holds: a register.
    pub(super) held: Signal<'a>,
}

/// A queue of `depth` words, a power of two. A word stands at its end in the clock behind `push`.
pub(super) fn queue<'a>(
    m: Module<'a>,
    name: &str,
    depth: u32,
    (push, word): (Signal<'a>, Signal<'a>),
    pop: Signal<'a>,
) -> Queue<'a> {
    let memory = m.memory(name, depth, word.width()).style(MemoryStyle::Distributed);
    let bits = memory.address_width();
    let head = m.reg(&format!("{name}_head"), bits).reset(0);
    let tail = m.reg(&format!("{name}_tail"), bits).reset(0);
    let held = m.reg(&format!("{name}_held"), bits + 1).reset(0);
    let valid = m.reg(&format!("{name}_valid"), 1).reset(0);
    memory.write(push, tail, word);
    m.when(push, || tail.set(tail + tail.lit(1)));
    m.when(pop, || head.set(head + head.lit(1)));
    m.when(push & !pop, || {
        held.set(held + held.lit(1));
        valid.set_lit(1);
    })
    .else_when(pop & !push, || {
        held.set(held - held.lit(1));
        valid.set(held.ne_lit(1));
    });
    m.assert(&format!("{name}_has_room"), !(push & held.msb()));
    m.assert(&format!("{name}_has_a_word"), !(pop & !valid));
    Queue {
        valid,
        word: memory.read_now(head),
        held,
    }
}

/// As [`queue`], but the oldest word stands in a register, ahead of the RAM, for words that choose: whether it is there, and the word.
pub(super) fn registered_queue<'a>(
    m: Module<'a>,
    name: &str,
    depth: u32,
    (push, word): (Signal<'a>, Signal<'a>),
    pop: Signal<'a>,
) -> (Signal<'a>, Signal<'a>) {
    let first = m.reg(&format!("{name}_first"), word.width()).doc("the oldest word");
    let valid = m.reg(&format!("{name}_first_valid"), 1).reset(0);
    let follows = m.wire(&format!("{name}_follows"), 1);
    let refills = m.wire(&format!("{name}_refills"), 1);
    let behind = queue(m, name, depth, (follows, word), refills);
    follows.set(push & valid & (!pop | behind.valid));
    refills.set(pop & behind.valid);
    m.when(!valid | pop, || first.set(behind.valid.mux(behind.word, word)));
    valid.set(push | behind.valid | (valid & !pop));
    m.assert(&format!("{name}_has_a_first_word"), !(pop & !valid));
    m.assert(&format!("{name}_is_in_order"), valid | !behind.valid);
    (valid, first)
}

/// Counts what has entered and not left, 0 to `most`; says in a register whether it is `most`.
pub(super) fn counted<'a>(m: Module<'a>, name: &str, enters: Signal<'a>, leaves: Signal<'a>, most: u32) -> Signal<'a> {
    let count = m.reg(name, most.ilog2() + 1).reset(0);
    let full = m.reg(&format!("{name}_full"), 1).reset(0);
    m.when(enters & !leaves, || {
        count.set(count + count.lit(1));
        full.set(count.eq_lit(most - 1));
    })
    .else_when(leaves & !enters, || {
        count.set(count - count.lit(1));
        full.set_lit(0);
    });
    full
}
