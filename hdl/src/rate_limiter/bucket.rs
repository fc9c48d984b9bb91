//! One of the two buckets of a request: its tables, and the loop of two clocks from what the request ahead left to what this one leaves.
//!
//! Each request writes the time and what the bucket then holds, granted or not: so what is gained since depends on no answer, and the loop has but
//! one addition and one choice.

use super::Staged;
use super::carry_save::{compress, sum};
use super::gain::{self, WHOLE_BITS};
use crate::sweep::Sweep;
use spraynic_rtl::{MemoryHandle, MemoryStyle, Module, ReadDuringWrite, Signal, cat};

/// Bits of what a bucket holds: 24 of whole bytes above 32 of fraction.
const LEVEL_BITS: u32 = 24 + 32;

/// Width of what is known of a bucket beside its level: limited, rate, burst.
pub(super) const SETTING_BITS: u32 = 1 + 40 + 24;

/// The tables of buckets of one kind.
pub(super) struct Tables<'a> {
    name: &'static str,
    settings: MemoryHandle<'a>,
    since: MemoryHandle<'a>,
    levels: MemoryHandle<'a>,
}

impl<'a> Tables<'a> {
    pub(super) fn new(m: Module<'a>, name: &'static str, count: u32, style: MemoryStyle) -> Self {
        let memory = |what: &str, bits: u32| m.memory(&format!("{name}_{what}"), count, bits).style(style);
        let levels = memory("levels", LEVEL_BITS);
        Self {
            name,
            settings: memory("settings", SETTING_BITS),
            since: memory("since", 64),
            levels: match style {
                MemoryStyle::Distributed => levels,
                _ => levels.read_during_write(ReadDuringWrite::New),
            },
        }
    }

    /// Reads: settings and times one clock after `at_0`, levels one clock after `at_2`; each is when, and which bucket.
    pub(super) fn read(&self, at_0: (Signal<'a>, Signal<'a>), at_2: (Signal<'a>, Signal<'a>)) -> Stored<'a> {
        Stored {
            setting_1: self.settings.read(at_0.0, at_0.1),
            since_1: self.since.read(at_0.0, at_0.1),
            level_3: self.levels.read(at_2.0, at_2.1),
        }
    }

    /// Reads of small tables, in the clock in which the words are needed.
    pub(super) fn read_now(&self, index_1: Signal<'a>, index_3: Signal<'a>) -> Stored<'a> {
        Stored {
            setting_1: self.settings.read_now(index_1),
            since_1: self.since.read_now(index_1),
            level_3: self.levels.read_now(index_3),
        }
    }
}

/// What stands in the tables, in the clock in which it is used.
pub(super) struct Stored<'a> {
    setting_1: Signal<'a>,
    /// When the bucket was asked last.
    since_1: Signal<'a>,
    /// What it held then, unless the request ahead is of the same bucket.
    level_3: Signal<'a>,
}

/// What is asked of both buckets, and what the host writes.
pub(super) struct Asked<'a> {
    pub(super) time_1: Signal<'a>,
    pub(super) bytes: Staged<'a>,
    /// The request of clock 4 follows one that was refused: it finds nothing.
    pub(super) barred_4: Signal<'a>,
    /// The request of clock 5 is granted.
    pub(super) granted_5: Signal<'a>,
    /// A write, in clock 1.
    pub(super) write_1: Signal<'a>,
    pub(super) written_1: Signal<'a>,
    pub(super) burst_written_1: Signal<'a>,
    pub(super) sweep: Sweep<'a>,
}

/// Which bucket a request or a write is about.
pub(super) struct Place<'a> {
    pub(super) index: Staged<'a>,
    /// In each clock from 1 on: there is a request, and its bucket exists.
    pub(super) asked: Vec<Signal<'a>>,
    /// A bucket of this kind is written, in clock 1.
    pub(super) writes_1: Signal<'a>,
}

/// Builds clocks 1 to 6 of one bucket. Returns, in clock 5: it holds what is asked for.
pub(super) fn bucket<'a>(
    m: Module<'a>,
    tables: &Tables<'a>,
    stored: &Stored<'a>,
    place: &mut Place<'a>,
    asked: &mut Asked<'a>,
) -> Signal<'a> {
    let name = tables.name;
    let named = |what: &str| format!("{name}_{what}");
    let setting_1 = stored.setting_1;
    let gain = gain::gain(m, name, setting_1.part(1, 40), asked.time_1, stored.since_1);
    let mut limited = Staged::new(named("limited"), setting_1.bit(0));
    let mut burst = Staged::new(named("burst"), setting_1.part(41, 24));
    let at = |clock: usize| clock - 1;

    // Clock 3: whole bytes that come and go: what is gained, and that without what is asked for, and without the burst.
    let [low, crossed, even] = gain.whole_3;
    let odd = even | m.lit(1, WHOLE_BITS);
    let gained_4 = sum(&gain.whole_3).delayed(&named("gained_4"));
    let without = |bytes: Signal<'a>| sum(&[low, crossed, odd, !bytes.zero_extend(WHOLE_BITS)]);
    let kept_4 = without(asked.bytes.after(at(3))).delayed(&named("kept_4"));
    let beyond_burst_4 = without(burst.after(at(3))).delayed(&named("beyond_burst_4"));
    let last = m
        .reg(&named("last"), place.index.after(0).width())
        .doc("the bucket that was asked last");
    let last_is_known = m.reg(&named("last_is_known"), 1).reset(0);
    m.when(asked.write_1, || last_is_known.set_lit(0));
    let (asked_4, index_4) = (place.asked[at(4)], place.index.after(at(4)));
    m.when(asked_4, || {
        last.set(index_4);
        last_is_known.set_lit(1);
    });
    let same_4 = (last_is_known & place.index.after(at(3)).eq(last)).delayed(&named("same_4"));
    let stored_4 = stored.level_3.delayed(&named("stored_4"));

    // Clock 4: what it would hold if no burst bounded it, if the bytes were taken, and above a full one.
    let level_6 = m.reg(&named("level_6"), LEVEL_BITS);
    let level = same_4.mux(level_6, stored_4).named(&named("level"));
    let fine = gain.fine_4;
    let whole = |value: Signal<'a>| value.part(32, 24).zero_extend(WHOLE_BITS);
    let total = |whole_bytes: Signal<'a>| {
        let [left, right] = compress([whole(level), whole(fine), whole_bytes]);
        cat(&[left, level.part(0, 32)]) + cat(&[right, fine.part(0, 32)])
    };
    let holds = total(gained_4);
    let keeps = total(kept_4).part(32, WHOLE_BITS);
    let holds_5 = holds.part(0, LEVEL_BITS).delayed(&named("holds_5"));
    let keeps_5 = keeps.part(0, 24).delayed(&named("keeps_5"));
    let short_5 = keeps.msb().delayed(&named("short_5"));
    let below_burst_5 = total(beyond_burst_4).msb().delayed(&named("below_burst_5"));
    let over_5 = (gain.over_4 | fine.part(56, 16).any()).delayed(&named("over_5"));
    let (burst_4, bytes_4) = (burst.after(at(4)), asked.bytes.after(at(4)));
    let full_keeps = burst_4.zero_extend(25) - bytes_4.zero_extend(25);
    let full_keeps_5 = full_keeps.part(0, 24).delayed(&named("full_keeps_5"));
    let may_4 = (asked_4 & !asked.barred_4).named(&named("asked_and_not_barred"));
    let full_holds_5 = (may_4 & !full_keeps.msb()).delayed(&named("full_holds_5"));
    let unlimited_5 = (may_4 & !limited.after(at(4))).delayed(&named("unlimited_5"));

    // Clock 5: the answer, and what is left.
    let grants = unlimited_5 | (full_holds_5 & (over_5 | !short_5));
    let full = (over_5 | !below_burst_5).named(&named("is_full"));
    let left = asked.granted_5.mux(
        full.mux(full_keeps_5, keeps_5),
        full.mux(burst.after(at(5)), holds_5.part(32, 24)),
    );
    let asked_5 = place.asked[at(5)];
    m.when(asked_5, || {
        level_6.set(cat(&[left, holds_5.part(0, 32).gate(!full)]));
    });

    // Writes: of a setting, with a full bucket; of the time of each request; of what it left.
    let (index_1, sweep) = (place.index.after(0), asked.sweep);
    let swept = sweep.index.part(0, index_1.width());
    tables.settings.write(
        sweep.active | place.writes_1,
        sweep.active.mux(swept, index_1),
        asked.written_1.gate(!sweep.active),
    );
    tables
        .since
        .write(place.asked[at(1)] | place.writes_1, index_1, asked.time_1);
    tables.levels.write(
        place.asked[at(6)] | place.writes_1,
        place.writes_1.mux(index_1, last.delayed(&named("last_6"))),
        place.writes_1.mux(cat(&[asked.burst_written_1, m.lit(0, 32)]), level_6),
    );
    grants.named(&named("bucket_holds"))
}
