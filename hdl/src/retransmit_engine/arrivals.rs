//! Steps of a SACK or ACK: whether it is believed, and the words of the bitmaps that it touches.
//!
//! What it acknowledges is marked word by word; `acknowledged.rs` looks at the single packets.

use spraynic_config::descriptor::PathEventKind;
use spraynic_rtl::{Signal, cat};

use super::bits;
use super::engine::Engine;
use super::step::{Phase, Step};

impl<'a> Engine<'a> {
    /// [`Step::Begin`] of a SACK or ACK: distances, the record of the packet that it names, and the word in which the base stands.
    pub(super) fn begin_arrivals(&self) {
        let (op, space) = (&self.op, &self.space);
        let highest = op.first + op.last.zero_extend(24);
        let [cumulative, top, generation] = self.walk.from_base;
        cumulative.set(op.psn - space.base);
        top.set(highest - space.base);
        generation.set(op.generation - space.base);
        self.read_record(op.named);
        self.walk.phase.set_lit(Phase::Acknowledge as u8);
        self.asks.word.set_lit(1);
        self.go(Step::Check);
    }

    /// [`Step::Check`].
    pub(super) fn check(&self) {
        let (m, op, space, walk) = (self.m, &self.op, &self.space, &self.walk);
        let [cumulative, top, generation] = walk.from_base;
        let psn = op.acknowledges();
        let beyond_done = psn - space.done;
        let of_ack = op.ack & !op.sack;
        let believed_sack = self.was_sent(cumulative)
            & (!op.turned.any() | self.was_sent(top))
            & (!op.counted | self.was_sent(generation));
        let believed = of_ack.mux(self.is_before_next(psn), believed_sack).named("believed");
        let stale = (of_ack & (beyond_done.msb() | (op.nak & !op.status.any()))).named("acknowledges_nothing");

        let newer = op.generation - space.generation;
        let current = (op.sack & op.counted & !newer.msb()).named("is_current");
        walk.current.set(current);
        m.when(!believed, || {
            self.count("drop_incredible");
            self.go(Step::Idle);
        })
        .else_when(stale, || {
            self.count("drop_stale");
            self.go(Step::Idle);
        })
        .otherwise(|| {
            m.when(op.sack, || {
                self.count("sacks");
                self.tell_path();
                self.deed
                    .alive
                    .set(op.probed & op.probe_id.eq(space.probes.zero_extend(16)));
            })
            .otherwise(|| {
                let through = op.psn + m.lit(1, 24);
                m.when(op.nak, || self.count("naks")).otherwise(|| self.count("acks"));
                self.deed.progressed.set(through.ne(space.done));
                space.done.set(through);
                self.deed.failed.set(op.nak);
                self.deed.status.set(op.status);
            });
            m.when(current, || space.generation.set(op.generation));
            self.asks.found.set_lit(1);
        });
    }

    /// The packet that a SACK names: what it says of its path, if the record is still that of this PSN and this entropy value.
    fn tell_path(&self) {
        let (m, op, space) = (self.m, &self.op, &self.space);
        let record = self.record();
        let back = space.next - op.named;
        let known = back.any() & back.le(space.known.zero_extend(24));
        let fits = known & record.entropy.eq(op.entropy) & !op.probed;
        m.when(fits & op.feedback.ne_lit(3), || {
            let kind = |kind: PathEventKind| m.lit(kind as u8, 4);
            self.event(PathEventKind::Acknowledged, record.path);
            self.out.event_kind.set(op.feedback.select(&[
                kind(PathEventKind::Acknowledged),
                kind(PathEventKind::Marked),
                kind(PathEventKind::SkipAlways),
                kind(PathEventKind::SkipAlways),
            ]));
        });
    }

    /// [`Step::WordRead`].
    pub(super) fn word_read(&self) {
        self.m.when(self.stages.rest(), || {
            self.asks.word.set_lit(1);
            self.go(Step::Word);
        });
    }

    /// Asks for a word of the bitmaps, and works out which of its bits are meant, of packets outstanding: those up to the cumulative PSN and in the bitmap;
    /// those that a SACK covers; or all.
    pub(super) fn ask_word(&self) {
        let (m, op, walk, space) = (self.m, &self.op, &self.walk, &self.space);
        let begins = self.step.eq_lit(Step::Begin as u8);
        let of_base = self.word_of(space.base);
        let word = begins.mux(of_base, walk.upcoming).named("asked_word_psn");
        self.read_bitmaps(word);
        walk.word_psn.set(word);

        let [first, second] = self.bitmap_words();
        let low = bits::ones_from(op.first.part(0, 6));
        let is = |other: Signal<'a>| word.part(6, 18).eq(other.part(6, 18));
        let covered = low.gate(is(first)) | (!low).gate(is(second));
        let arrived = bits::ones_until(word, op.psn) | (op.turned & covered);
        let sent = !bits::ones_since(word, space.next);
        let behind = space.base.eq(op.psn + m.lit(1, 24)) & is(of_base);
        let missing = covered | self.bit_of(space.base).gate(behind);
        let meant = (begins | self.is_phase(Phase::Acknowledge))
            .mux(arrived, self.is_phase(Phase::Timeout).mux(m.lit(u64::MAX, 64), missing));
        // Whatever a SACK names: of PSNs half their range away only those that were sent are meant.
        walk.mask.set(meant & sent & bits::ones_since(word, space.base));
    }

    /// PSNs of bit 0 of the two words in which the bitmap of a SACK stands.
    fn bitmap_words(&self) -> [Signal<'a>; 2] {
        let first = self.word_of(self.op.first);
        [first, first + self.m.lit(64, 24)]
    }

    /// Whether a word is to be gone through behind the one that is, and which.
    fn following_word(&self) -> (Signal<'a>, Signal<'a>) {
        let (m, op, walk) = (self.m, &self.op, &self.walk);
        let next = walk.word_psn + m.lit(64, 24);
        let not_after = |other: Signal<'a>| !(other - next).msb();
        let [first, second] = self.bitmap_words();
        let low = bits::ones_from(op.first.part(0, 6));
        let (loses, timeout) = (self.is_phase(Phase::Lose), self.is_phase(Phase::Timeout));
        let last = timeout.mux(self.space.next - m.lit(1, 24), op.psn);
        let [cumulative, ..] = walk.from_base;
        let goes_on = !loses & (timeout | !cumulative.msb()) & not_after(last);
        let to_first = !timeout & not_after(first) & (loses | (op.turned & low).any());
        let to_second = !timeout & not_after(second) & (loses | (op.turned & !low).any());
        let word = goes_on.mux(next, to_first.mux(first, second));
        ((goes_on | to_first | to_second).named("word_follows"), word)
    }

    /// [`Step::Check`] of what is believed, and [`Step::Word`]: what of a word is new. What is acknowledged is neither lost nor suspect.
    pub(super) fn word_found(&self) {
        let (m, walk, tables, stages) = (self.m, &self.walk, &self.tables, &self.stages);
        let (acknowledges, timeout) = (self.is_phase(Phase::Acknowledge), self.is_phase(Phase::Timeout));
        let (acked, lost, suspect) = (tables.acked.word, tables.lost.word, tables.suspect.word);
        m.assert(
            "what_is_acknowledged_is_not_lost",
            !self.asks.found | !(acked & (lost | suspect)).any(),
        );
        let new = (walk.mask & !acked).named("newly_acknowledged");
        let live = (new & !lost).named("live");
        let holes = (live & suspect).named("holes");
        let address = self.word_address(walk.word_psn);
        let found = acknowledges.mux(new, timeout.mux(live, holes));
        let (goes_on, upcoming) = self.following_word();
        walk.pending.set(found);
        walk.lost.set(lost);
        walk.upcoming.set(upcoming);
        walk.goes_on.set(goes_on);
        let merged = acked | new;
        stages.merged.set(merged);
        m.when(found.any(), || {
            m.when(acknowledges, || {
                tables.acked.write(address, merged);
                tables.lost.write(address, lost & !new);
                self.write_suspect(walk.word_psn, suspect & !new);
                stages.merged_valid.set(walk.word_psn.eq(self.word_of(self.space.base)));
                self.deed.progressed.set_lit(1);
            })
            .else_when(!timeout, || tables.lost.write(address, lost | holes));
            self.go(Step::Pick);
        })
        .otherwise(|| self.to_following(goes_on));
    }

    /// [`Step::Pick`]: the next bit of a word, or the next word.
    pub(super) fn pick(&self, stalls: Signal<'a>) {
        let (m, walk) = (self.m, &self.walk);
        let (any, lowest) = bits::lowest(walk.pending);
        let rest = walk.pending & (walk.pending - walk.pending.lit(1));
        let take = || {
            let psn = cat(&[walk.word_psn.part(6, 18), lowest]);
            walk.psn.set(psn);
            walk.pending.set(rest);
            self.read_record(psn);
        };
        m.when(self.is_phase(Phase::Acknowledge), || {
            m.when(!stalls, || {
                take();
                self.stages.record_valid.set_lit(1);
                m.when(!rest.any(), || self.to_following(walk.goes_on));
            });
        })
        .else_when(any, || {
            take();
            self.go(Step::Lose);
        })
        .otherwise(|| {
            m.when(self.is_phase(Phase::Timeout), || {
                self.tables.lost.write(self.word_address(walk.word_psn), walk.lost);
            });
            self.to_following(walk.goes_on);
        });
    }

    /// On to the next word, or to what follows the last one.
    fn to_following(&self, goes_on: Signal<'a>) {
        let m = self.m;
        m.when(goes_on, || self.go(Step::WordRead))
            .else_when(self.is_phase(Phase::Acknowledge), || self.go(Step::HeadRead))
            .else_when(self.is_phase(Phase::Timeout), || self.end())
            .otherwise(|| self.go(Step::Settle));
    }

    /// [`Step::Advance`]: the base stands at the beginning of a word.
    pub(super) fn advance(&self) {
        self.stages.merged.set(self.tables.acked.word);
        self.stages.merged_valid.set_lit(1);
        self.go(Step::HeadRead);
    }

    /// The base moves to the first packet of its word that was not acknowledged, and the bits that it passes are cleared; two clocks behind that word.
    pub(super) fn move_base(&self) {
        let (m, space, stages) = (self.m, &self.space, &self.stages);
        let base = space.base;
        stages.merged_valid.set_lit(0);
        stages.base_valid.set(stages.merged_valid);
        let ahead = bits::ones_from(base.part(0, 6));
        let stops = ahead & !stages.merged;
        let (any, index) = bits::lowest(stops);
        stages.base_run.set(any.mux(index.zero_extend(7), m.lit(64, 7)));
        stages.remains.set(stages.merged & !(ahead & bits::below_lowest(stops)));
        m.when(stages.base_valid, || {
            let next = (self.word_of(base) + stages.base_run.zero_extend(24)).named("moved_base");
            space.base.set(next);
            self.tables.acked.write(self.word_address(base), stages.remains);
            stages.crosses.set(stages.base_run.bit(6) & next.ne(space.next));
        });
    }
}
