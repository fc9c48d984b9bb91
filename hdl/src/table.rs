//! A table in block RAM whose words are read, judged and written back by a pipeline, one a clock, also the same word in every clock.
//!
//! A word is read when its operation enters, and judged two or three clocks later. Its write leaves from registers a clock after that; an operation
//! behind on the same word gets it by a bypass. What the words mean is the owner's business.

use spraynic_rtl::{Bundle, Module, ReadDuringWrite, Signal};

use crate::sweep::Sweep;

/// An operation in one stage of the pipeline: whether there is one, and the word that it concerns.
#[derive(Clone, Copy)]
pub(crate) struct Stage<'a> {
    pub(crate) valid: Signal<'a>,
    pub(crate) word: Signal<'a>,
}

/// Where a table is read and written: tables of the same words share it.
#[derive(Clone, Copy)]
pub(crate) struct Access<'a> {
    entry: Stage<'a>,
    judged: Stage<'a>,
    /// One clock before judgement: the operation ahead is of the same word.
    one: Signal<'a>,
    /// Likewise: so is the one ahead of it. There where a clock more lies between entry and judgement than the RAM needs.
    two: Option<Signal<'a>>,
    /// When the RAM's word comes out: the word is in the register that is written to the RAM.
    in_written: Signal<'a>,
    /// Likewise: it is there, or was a clock ago.
    in_registers: Signal<'a>,
    stands: Option<Signal<'a>>,
}

impl<'a> Access<'a> {
    /// The stages from entry to judgement, three or four; the fourth is for a clock more behind the RAM.
    pub(crate) fn new(m: Module<'a>, name: &str, stages: &[Stage<'a>]) -> Self {
        assert!(
            matches!(stages.len(), 3 | 4),
            "two or three clocks from entry to judgement"
        );
        let (entry, judged) = (stages[0], stages[stages.len() - 1]);
        let valid_before = m.reg(&format!("{name}_written"), 1).reset(0);
        valid_before.set(judged.valid);
        let before = Stage {
            valid: valid_before,
            word: judged.word.delayed(&format!("{name}_index")),
        };
        // Compared in the clock of entry, so that what chooses the word is a register.
        let same: Vec<_> = stages[1..]
            .iter()
            .chain([&before])
            .map(|ahead| ahead.valid & entry.word.eq(ahead.word))
            .collect();
        let [in_written, in_before] = [same.len() - 2, same.len() - 1].map(|index| same[index]);
        let wait = |signal: Signal<'a>, what: &str, clocks: usize| {
            (1..=clocks).fold(signal, |signal, clock| {
                signal.delayed(&format!("{name}_{what}_{clock}"))
            })
        };
        let clocks = stages.len() - 2;
        Self {
            entry,
            judged,
            one: wait(same[0], "one_behind", clocks),
            two: (clocks == 2).then(|| wait(same[1], "two_behind", clocks)),
            in_written: wait(in_written, "in_written", 1),
            in_registers: wait(in_written | in_before, "in_registers", 1),
            stands: None,
        }
    }

    /// The operation in judgement stays there while `stands` is 1, with none behind it.
    pub(crate) fn standing(self, stands: Signal<'a>) -> Self {
        Self {
            stands: Some(stands),
            ..self
        }
    }
}

/// A table of plain bits, with the word of the operation in judgement.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    /// The word is `written`, not `kept`.
    is_written: Signal<'a>,
    written: Signal<'a>,
    kept: Signal<'a>,
}

impl<'a> Words<'a> {
    /// A table of `depth` words, which become `next`, the word itself where it stays; `sweep` clears it.
    pub(crate) fn new(
        m: Module<'a>,
        name: &str,
        depth: u32,
        access: Access<'a>,
        sweep: Option<Sweep<'a>>,
        next: Signal<'a>,
    ) -> Self {
        let memory = m
            .memory(name, depth, next.width())
            .read_during_write(ReadDuringWrite::DontCare);
        let read = memory.read(access.entry.valid, access.entry.word);
        // The write leaves from registers: the RAM is far, and judgement is long.
        let (enable, address, data) = match sweep {
            None => (access.judged.valid, access.judged.word, next),
            Some(sweep) => {
                let bits = access.judged.word.width();
                let index = sweep.index.part(sweep.index.width() - bits, bits);
                (
                    access.judged.valid | sweep.active,
                    sweep.active.mux(index, access.judged.word),
                    next.gate(!sweep.active),
                )
            }
        };
        let writes = m.reg(&format!("{name}_writes"), 1).reset(0);
        writes.set(enable);
        let index = address.delayed(&format!("{name}_index"));
        let written = data.delayed(&format!("{name}_written"));
        memory.write(writes, index, written);
        let before = written.delayed(&format!("{name}_written_before"));

        // The RAM's word comes late, so that one choice alone stands behind it. The word that the operation ahead is about to write is chosen in
        // judgement.
        let registered = access
            .in_written
            .mux(written, before)
            .named(&format!("{name}_in_registers"));
        let arrived = access.in_registers.mux(registered, read);
        let kept = m.reg(&format!("{name}_kept"), next.width());
        let is_written = m.reg(&format!("{name}_is_written"), 1).reset(0);
        let words = Self {
            is_written,
            written,
            kept,
        };
        let next_kept = match access.two {
            None => arrived,
            Some(two) => two.mux(written, arrived.delayed(&format!("{name}_fetched"))),
        };
        match access.stands {
            None => {
                kept.set(next_kept);
                is_written.set(access.one);
            }
            Some(stands) => {
                kept.set(stands.mux(words.word(), next_kept));
                is_written.set(access.one & !stands);
            }
        }
        words
    }

    /// The word.
    pub(crate) fn word(&self) -> Signal<'a> {
        self.is_written.mux(self.written, self.kept)
    }
}

/// A table of bundles.
pub(crate) struct Table<'a, B> {
    /// The word of the operation in judgement.
    pub(crate) word: B,
    /// What it becomes: wires to drive, to the word itself where it stays.
    pub(crate) next: B,
    words: Words<'a>,
}

impl<'a, B: Bundle<'a>> Table<'a, B> {
    /// A table of `depth` words; `sweep` clears it.
    pub(crate) fn new(m: Module<'a>, name: &str, depth: u32, access: Access<'a>, sweep: Option<Sweep<'a>>) -> Self {
        let next = B::wires(m, &format!("next_{name}"));
        let words = Words::new(m, name, depth, access, sweep, next.pack());
        Self {
            word: B::unpack(words.word()).named(name),
            next,
            words,
        }
    }

    /// What `of` makes of the word, for what takes long: made of both words that it may be, and chosen then.
    pub(crate) fn of_either(&self, of: impl Fn(&B) -> Signal<'a>) -> Signal<'a> {
        let Words {
            is_written,
            written,
            kept,
        } = self.words;
        is_written.mux(of(&B::unpack(written)), of(&B::unpack(kept)))
    }
}
