//! Whose turn it is, and who waits for tokens: two rings in RAM with room for every queue pair, each of which stands in one place at most.

use spraynic_rtl::{Module, Signal, cat};

/// Nanoseconds after which whoever had no token is asked for again: as in the model, and in `work_queue`.
const RETRY_NS: u32 = 1024;

/// Bits of time that are enough to tell before from after.
const TIME_BITS: u32 = 32;

/// A FIFO that has room for all that can come.
pub(super) struct Ring<'a> {
    /// Puts `value` in, in this clock.
    push: Signal<'a>,
    value: Signal<'a>,
    /// The first one is taken off, in this clock.
    pop: Signal<'a>,
    /// There is something in it.
    pub(super) any: Signal<'a>,
    /// There is a first one, and what it is. It takes two clocks from `push`.
    pub(super) valid: Signal<'a>,
    pub(super) front: Signal<'a>,
}

impl<'a> Ring<'a> {
    #[track_caller]
    fn new(m: Module<'a>, name: &str, index_bits: u32, width: u32) -> Self {
        let wire = |suffix: &str, width: u32| {
            let wire = m.wire(&format!("{name}_{suffix}"), width);
            wire.set_lit(0);
            wire
        };
        let reg = |suffix: &str, width: u32| m.reg(&format!("{name}_{suffix}"), width).reset(0);
        let (push, value, pop) = (wire("push", 1), wire("value", width), wire("pop", 1));
        let (first, free) = (reg("first", index_bits), reg("free", index_bits));
        let count = reg("count", index_bits + 1);
        let memory = m.memory(name, 1 << index_bits, width);
        memory.write(push, free, value);
        m.when(push, || free.set(free + free.lit(1)));
        m.when(pop, || first.set(first + first.lit(1)));
        count.set(count + push.zero_extend(index_bits + 1) - pop.zero_extend(index_bits + 1));
        let valid = reg("valid", 1);
        valid.set(count.any() & !pop);
        m.assert(&format!("{name}_has_room"), !(push & count.msb()));
        Self {
            push,
            value,
            pop,
            any: count.any(),
            valid,
            front: memory.read(m.high(), first),
        }
    }

    pub(super) fn push(&self, value: Signal<'a>) {
        self.push.set_lit(1);
        self.value.set(value);
    }

    pub(super) fn pop(&self) {
        self.pop.set_lit(1);
    }
}

/// The rings and the time.
pub(super) struct Turns<'a> {
    /// Queue pairs that have something to give.
    pub(super) turns: Ring<'a>,
    waiting: Ring<'a>,
    now: Signal<'a>,
    /// A queue pair has waited long enough for tokens; which. `due_taken` takes it off.
    pub(super) due: Signal<'a>,
    pub(super) due_qpn: Signal<'a>,
}

impl<'a> Turns<'a> {
    pub(super) fn new(m: Module<'a>, index_bits: u32) -> Self {
        let time = m.input("time_ns", 64).doc("time in nanoseconds");
        let now = time.part(0, TIME_BITS);
        time.ignore();
        let waiting = Ring::new(m, "waiting", index_bits, index_bits + TIME_BITS);
        let reached = !(now - waiting.front.part(index_bits, TIME_BITS)).msb();
        Self {
            turns: Ring::new(m, "turns", index_bits, index_bits),
            now,
            due: (waiting.valid & reached).named("due"),
            due_qpn: waiting.front.part(0, index_bits),
            waiting,
        }
    }

    /// A queue pair has no tokens.
    pub(super) fn park(&self, index: Signal<'a>) {
        self.waiting.push(cat(&[self.now + self.now.lit(RETRY_NS), index]));
    }

    pub(super) fn due_taken(&self) {
        self.waiting.pop();
    }
}
