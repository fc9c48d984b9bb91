//! Descriptors that software writes: one set of words, and a stream for each target on which they leave.

use spraynic_config::registers::{RegisterMap, Role, TARGETS};
use spraynic_rtl::{Module, Signal, Stream, cat_lsb_first};

use super::WORD_BITS;
use super::write::{Allowed, Write};

/// Bits of a target's code.
const CODE_BITS: u32 = 4;

/// The words and what became of them.
#[derive(Debug)]
pub(super) struct Descriptors<'a> {
    words: Vec<Signal<'a>>,
    target: Signal<'a>,
    busy: Signal<'a>,
    taken: Signal<'a>,
    writes: Allowed<'a>,
}

impl<'a> Descriptors<'a> {
    pub(super) fn new(m: Module<'a>, map: &RegisterMap, write: &Write<'a>) -> Self {
        let busy = m
            .reg("descriptor_busy", 1)
            .reset(0)
            .doc("a descriptor waits for its target");
        let target = m.reg("descriptor_target", CODE_BITS).reset(0).doc("the last target");
        let mut words = vec![];
        let mut word_hit = m.low();
        let mut commit_hit = m.low();
        for register in &map.registers {
            match register.role {
                Role::Descriptor(place) => {
                    let word = m.reg(&format!("descriptor_word_{place}"), WORD_BITS).reset(0);
                    let hit = write.hits(register);
                    m.when(write.executes & hit & !busy, || word.set(write.merged(word)));
                    word_hit = word_hit | hit;
                    words.push(word);
                }
                Role::Commit => commit_hit = write.hits(register),
                _ => {}
            }
        }

        // A write without its first byte sends nothing.
        let code = write.data.part(0, CODE_BITS).named("commit_code");
        let sends = write.strobe.bit(0);
        let known = TARGETS
            .iter()
            .fold(m.low(), |sum, one| sum | code.eq_lit(one.code))
            .named("commit_is_known");
        let commits = (write.executes & commit_hit & sends & known & !busy).named("commits");
        let all = cat_lsb_first(&words);
        let mut taken = m.low();
        for one in TARGETS {
            let doc = format!("{} that software wrote", one.layout.name);
            let stream = Stream::master(m, &one.stream(), 8 * one.layout.bytes(), &doc);
            let offered = m.reg(&format!("offers_{}", one.name), 1).reset(0);
            m.when(commits & code.eq_lit(one.code), || offered.set_lit(1))
                .else_when(stream.ready, || offered.set_lit(0));
            stream.valid.set(offered);
            stream.data.set(all.part(0, stream.data.width()));
            taken = taken | stream.fires();
        }
        let taken = taken.named("descriptor_taken");
        m.when(commits, || {
            busy.set_lit(1);
            target.set(code);
        })
        .else_when(taken, || busy.set_lit(0));
        m.assert("only_what_is_busy_is_taken", !taken | busy);
        let writes = Allowed {
            hit: (word_hit | commit_hit).named("writes_descriptor"),
            allowed: !busy & (!commit_hit | !sends | known),
        };
        Self {
            words,
            target,
            busy,
            taken,
            writes,
        }
    }

    /// A word, as it stands.
    pub(super) fn word(&self, place: u32) -> Signal<'a> {
        self.words[place as usize]
    }

    /// Code of the last target.
    pub(super) fn target(&self) -> Signal<'a> {
        self.target
    }

    /// Whether the last descriptor waits.
    pub(super) fn busy(&self) -> Signal<'a> {
        self.busy
    }

    /// A descriptor is taken in this clock.
    pub(super) fn taken(&self) -> Signal<'a> {
        self.taken
    }

    /// Writes of words and of the commit register.
    pub(super) fn writes(&self) -> Allowed<'a> {
        self.writes
    }
}
