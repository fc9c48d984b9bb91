//! `state_table`: state in block RAM that operations read, change and write back, one a clock, also when all are of one word.
//!
//! A word is read when its operation stands in the first of three stages, judged in the third, and written back in the clock behind that. An
//! operation one, two or three clocks behind on the same word gets it by a bypass. What the words mean is the owner's business.

use spraynic_rtl::{Module, ReadDuringWrite, Signal};

use crate::sweep::Sweep;

/// Words of a memory of this many: a memory has two at least.
pub(crate) fn depth(words: u32) -> u32 {
    words.max(2)
}

/// Who stands in the three stages.
#[derive(Clone, Copy)]
pub(crate) struct Stages<'a> {
    /// There is an operation of the table.
    pub(crate) valid: [Signal<'a>; 3],
    /// Its word.
    pub(crate) index: [Signal<'a>; 3],
    /// All stages move on.
    pub(crate) advance: Signal<'a>,
}

/// The word of the operation in the third stage.
#[derive(Clone, Copy)]
pub(crate) struct StateTable<'a> {
    /// The word.
    pub(crate) word: Signal<'a>,
    /// What it becomes: a wire to drive, to the word itself where it stays.
    pub(crate) next: Signal<'a>,
}

/// A table of `words` words of `width` bits. The sweep clears it, with its low bits as index.
pub(crate) fn state_table<'a>(
    m: Module<'a>,
    name: &str,
    (words, width): (u32, u32),
    stages: Stages<'a>,
    sweep: Sweep<'a>,
) -> StateTable<'a> {
    let memory = m
        .memory(name, depth(words), width)
        .read_during_write(ReadDuringWrite::DontCare);
    let [reads, valid_1, valid_2] = stages.valid;
    let [read_index, index_1, index_2] = stages.index;
    let next = m.wire(&format!("next_{name}"), width);
    let flag = |suffix: &str| m.reg(&format!("{name}_{suffix}"), 1).reset(0);
    // The write leaves from registers: the RAM is far, and judgement is long.
    let writes = flag("writes");
    let write_index = m.reg(&format!("{name}_write_index"), index_2.width());
    let written = m.reg(&format!("{name}_written"), width);
    let before = m.reg(&format!("{name}_written_before"), width);
    let behind = ["one_behind", "two_behind", "three_behind"].map(flag);
    let read = memory.read(reads & stages.advance, read_index);
    let word = m.reg(&format!("{name}_word"), width);
    let [one, two, three] = behind;
    let in_registers = two.mux(written, before).named(&format!("{name}_in_registers"));
    m.when(stages.advance, || {
        writes.set(valid_2);
        write_index.set(index_2);
        written.set(next);
        before.set(written);
        one.set(valid_1 & read_index.eq(index_1));
        two.set(valid_2 & read_index.eq(index_2));
        three.set(writes & read_index.eq(write_index));
        word.set(one.mux(next, (two | three).mux(in_registers, read)));
    });
    let swept = sweep.index.part(0, write_index.width().min(sweep.index.width()));
    memory.write(
        writes | sweep.active,
        sweep.active.mux(swept.zero_extend(write_index.width()), write_index),
        written.gate(!sweep.active),
    );
    StateTable { word, next }
}
