//! A queue in distributed RAM: what is pushed in one clock can be read in the next, or at once. Who pushes has seen to it that there is room.

use spraynic_rtl::{MemoryStyle, Module, Signal, index_width};

/// The reading side of a queue.
#[derive(Clone, Copy)]
pub(super) struct Queue<'a> {
    /// The oldest word.
    pub(super) head: Signal<'a>,
    /// There is one.
    pub(super) valid: Signal<'a>,
    /// A wire: the oldest word is taken. To be driven.
    pub(super) pop: Signal<'a>,
}

impl<'a> Queue<'a> {
    #[track_caller]
    pub(super) fn new(m: Module<'a>, name: &str, depth: u32, push: Signal<'a>, word: Signal<'a>) -> Self {
        Self::written_early(m, name, depth, (push, push), word)
    }

    /// What is pushed can be read in the same clock where the queue is empty.
    #[track_caller]
    pub(super) fn falling_through(m: Module<'a>, name: &str, depth: u32, push: Signal<'a>, word: Signal<'a>) -> Self {
        let pop = m.wire(&format!("{name}_taken"), 1);
        let keep = m.wire(&format!("{name}_keep"), 1).doc("it is not taken at once");
        let stored = Self::new(m, name, depth, keep, word);
        keep.set(push & (stored.valid | !pop));
        stored.pop.set(pop & stored.valid);
        Self {
            head: stored.valid.mux(stored.head, word),
            valid: stored.valid | push,
            pop,
        }
    }

    /// Writes where the first bit is 1, and keeps what was written where the second is 1 too: it may come late.
    #[track_caller]
    pub(super) fn written_early(
        m: Module<'a>,
        name: &str,
        depth: u32,
        (write, push): (Signal<'a>, Signal<'a>),
        word: Signal<'a>,
    ) -> Self {
        let memory = m.memory(name, depth, word.width()).style(MemoryStyle::Distributed);
        let pointer = |end: &str, step: Signal<'a>| {
            let pointer = m.reg(&format!("{name}_{end}"), memory.address_width()).reset(0);
            m.when(step, || pointer.set(pointer + pointer.lit(1)));
            pointer
        };
        let pop = m.wire(&format!("{name}_pop"), 1);
        memory.write(write, pointer("tail", push), word);
        let head = memory.read_now(pointer("head", pop));
        let count = m
            .reg(&format!("{name}_count"), index_width(u64::from(depth) + 1))
            .reset(0)
            .doc("words in the queue");
        let valid = m.reg(&format!("{name}_valid"), 1).reset(0).doc("there is one");
        m.when(push & !pop, || {
            count.set(count + count.lit(1));
            valid.set_lit(1);
        })
        .else_when(!push & pop, || {
            count.set(count - count.lit(1));
            valid.set(count.ne_lit(1));
        });
        m.assert(&format!("{name}_has_room"), !(write & count.eq_lit(depth)));
        m.assert(&format!("{name}_keeps_what_is_written"), write | !push);
        m.assert(&format!("{name}_is_not_empty"), !(pop & !valid));
        Self { head, valid, pop }
    }
}
