//! Steps of a SACK or ACK: whether it is believed, what it acknowledges, what was sent earlier on the same paths, and how far the base moves.

use spraynic_config::descriptor::PathEventKind;
use spraynic_rtl::{Bundle, Signal, cat};

use super::bits;
use super::engine::{Engine, Phase, Step};
use super::layout::{Record, Sending};

impl<'a> Engine<'a> {
    /// [`Step::Begin`] of a SACK or ACK: distances, and the record of the packet that it names.
    pub(super) fn begin_arrivals(&self) {
        let (op, space) = (&self.op, &self.space);
        let highest = op.first + op.last.zero_extend(24);
        let [cumulative, top, generation] = self.walk.from_base;
        cumulative.set(op.psn - space.base);
        top.set(highest - space.base);
        generation.set(op.generation - space.base);
        self.walk.turned.set(bits::rotated(op.bitmap, op.first.part(0, 6)));
        self.read_record(op.named);
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
            & (!op.bitmap.any() | self.was_sent(top))
            & (!op.counted | self.was_sent(generation));
        let believed = of_ack
            .mux(self.was_sent(psn - space.base), believed_sack)
            .named("believed");
        let stale = (of_ack & (beyond_done.msb() | (op.nak & !op.status.any()))).named("acknowledges_nothing");

        // All up to the cumulative PSN, within what was sent.
        let through = op.psn + m.lit(1, 24);
        let ahead = !cumulative.msb();
        walk.through.set(ahead.mux(through, space.base));
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
                m.when(op.nak, || self.count("naks")).otherwise(|| self.count("acks"));
                self.deed.progressed.set(through.ne(space.done));
                space.done.set(through);
                self.deed.failed.set(op.nak);
                self.deed.status.set(op.status);
            });
            m.when(current, || space.generation.set(op.generation));
            m.when(ahead, || {
                walk.phase.set_lit(Phase::Cumulative as u8);
                walk.word_psn.set(self.word_of(space.base));
                self.go(Step::WordRead);
            })
            .otherwise(|| self.to_bitmap());
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

    fn to_bitmap(&self) {
        self.m
            .when(self.op.bitmap.any(), || {
                self.walk.phase.set_lit(Phase::Bitmap as u8);
                self.walk.word_psn.set(self.word_of(self.op.first));
                self.go(Step::WordRead);
            })
            .otherwise(|| self.go(Step::AdvanceRead));
    }

    /// [`Step::WordRead`]: asks for a word, and works out which of its bits are meant.
    pub(super) fn word_read(&self) {
        let (m, walk, space) = (self.m, &self.walk, &self.space);
        self.read_bitmaps(walk.word_psn);
        let is = |phase| self.is_phase(phase);
        let start = bits::ones_since(walk.word_psn, space.base);
        let alone = space.base + m.lit(1, 24);
        let cumulative = is(Phase::Cumulative);
        let end = cumulative
            .mux(walk.through, is(Phase::LoseBase).mux(alone, space.next))
            .named("range_end");
        let range = start & !bits::ones_since(walk.word_psn, end);
        let low = bits::ones_from(self.op.first.part(0, 6));
        let (first, second) = (is(Phase::Bitmap), is(Phase::BitmapEnd));
        let bitmap = walk.turned & first.mux(low, !low);
        let (covers, covers_end) = (is(Phase::LoseCovered), is(Phase::LoseCoveredEnd));
        let all = m.lit(u64::MAX, 64);
        let covered = covers.mux(low, covers_end.mux(!low, all));
        walk.mask.set(range & (first | second).mux(bitmap, covered));
        self.go(Step::Word);
    }

    /// [`Step::Word`].
    pub(super) fn word(&self) {
        let (m, walk, tables) = (self.m, &self.walk, &self.tables);
        let is = |phase| self.is_phase(phase);
        let acknowledges = is(Phase::Cumulative) | is(Phase::Bitmap) | is(Phase::BitmapEnd);
        let (acked, lost) = (tables.acked.word, tables.lost.word);
        let new = (walk.mask & !acked).named("newly_acknowledged");
        let live = (walk.mask & !acked & !lost).named("live");
        let holes = (live & tables.suspect.word).named("holes");
        let address = self.word_address(walk.word_psn);
        let timeout = is(Phase::Timeout);
        let found = acknowledges.mux(new, timeout.mux(live, holes));
        walk.pending.set(found);
        walk.lost.set(lost);
        m.when(found.any(), || {
            m.when(acknowledges, || {
                tables.acked.write(address, acked | new);
                self.deed.progressed.set_lit(1);
            })
            .else_when(!timeout, || tables.lost.write(address, lost | holes));
            self.go(Step::Pick);
        })
        .otherwise(|| self.next_word());
    }

    /// [`Step::Pick`]: the next bit of a word, or the next word.
    pub(super) fn pick(&self) {
        let (m, walk) = (self.m, &self.walk);
        let (any, lowest) = bits::lowest(walk.pending);
        let psn = cat(&[walk.word_psn.part(6, 18), lowest]);
        let timeout = self.is_phase(Phase::Timeout);
        let acknowledges = walk.phase.le(walk.phase.lit(Phase::BitmapEnd as u8));
        walk.psn.set(psn);
        walk.pending.set(walk.pending & (walk.pending - walk.pending.lit(1)));
        self.read_record(psn);
        m.when(any, || {
            m.when(acknowledges, || self.go(Step::Acknowledged))
                .otherwise(|| self.go(Step::Lose));
        })
        .otherwise(|| {
            m.when(timeout, || {
                self.tables.lost.write(self.word_address(walk.word_psn), walk.lost);
            });
            self.next_word();
        });
    }

    fn next_word(&self) {
        let (m, walk) = (self.m, &self.walk);
        let next = walk.word_psn + m.lit(64, 24);
        let steps = |end: Signal<'a>| (end - m.lit(1, 24) - next).msb();
        walk.word_psn.set(next);
        let go_on = |phase: Phase| {
            walk.phase.set_lit(phase as u8);
            self.go(Step::WordRead);
        };
        m.switch(walk.phase, |switch| {
            switch.case(Phase::Cumulative as u8, || {
                m.when(steps(walk.through), || self.to_bitmap())
                    .otherwise(|| self.go(Step::WordRead));
            });
            switch.case(Phase::Bitmap as u8, || go_on(Phase::BitmapEnd));
            switch.case(Phase::BitmapEnd as u8, || self.go(Step::AdvanceRead));
            switch.case(Phase::LoseBase as u8, || self.to_covered());
            switch.case(Phase::LoseCovered as u8, || go_on(Phase::LoseCoveredEnd));
            switch.case(Phase::Timeout as u8, || {
                m.when(steps(self.space.next), || self.end())
                    .otherwise(|| self.go(Step::WordRead));
            });
            switch.default(|| self.end());
        });
    }

    pub(super) fn to_covered(&self) {
        self.walk.phase.set_lit(Phase::LoseCovered as u8);
        self.walk.word_psn.set(self.word_of(self.op.first));
        self.go(Step::WordRead);
    }

    /// [`Step::Acknowledged`].
    pub(super) fn acknowledged(&self) {
        let (m, op, walk) = (self.m, &self.op, &self.walk);
        let record = self.record();
        let named = op.sack & !op.probed & op.named.eq(walk.psn) & op.entropy.eq(record.entropy);
        let clear = (record.copies.eq_lit(0) | (record.copies.eq_lit(1) & named)).named("is_this_copy");
        walk.link.set(record.order);
        m.when(clear, || self.event(PathEventKind::Delivered, record.path));
        self.read_log(record.order);
        m.when(clear & self.in_log(record.order), || self.go(Step::Delivered))
            .otherwise(|| self.go(Step::Pick));
    }

    /// [`Step::Delivered`]: notes it in the log, and begins to follow the list of its path.
    pub(super) fn delivered(&self) {
        let (m, walk, space) = (self.m, &self.walk, &self.space);
        let sending = self.sending();
        self.write_log(
            walk.link,
            &Sending {
                linked: m.low(),
                delivered: m.high(),
                ..sending
            },
        );
        space.log_delivered.set(space.log_delivered + m.lit(1, 11));
        walk.link_path.set(sending.path);
        walk.link_class.set(sending.class);
        self.follow(&sending);
    }

    fn follow(&self, sending: &Sending<'a>) {
        self.walk.link.set(sending.previous);
        self.read_log(sending.previous);
        self.m
            .when(sending.linked & self.in_log(sending.previous), || self.go(Step::Link))
            .otherwise(|| self.go(Step::Pick));
    }

    /// [`Step::Link`]: a sending before.
    pub(super) fn link(&self) {
        let (m, walk) = (self.m, &self.walk);
        let sending = self.sending();
        let same = sending.path.eq(walk.link_path) & sending.class.eq(walk.link_class);
        m.when(same, || {
            self.write_log(
                walk.link,
                &Sending {
                    linked: m.low(),
                    ..sending
                },
            );
            self.read_record(sending.psn);
            self.read_bitmaps(sending.psn);
            self.go(Step::Suspect);
        })
        .otherwise(|| self.go(Step::Pick));
    }

    /// [`Step::Suspect`]: its packet is suspect if it is still awaited.
    pub(super) fn suspect(&self) {
        let sending = self.sending();
        self.m.when(self.is_awaited(&sending, self.walk.link), || {
            self.tables.suspect.write(
                self.word_address(sending.psn),
                self.tables.suspect.word | self.bit_of(sending.psn),
            );
        });
        self.follow(&sending);
    }

    /// Whether a sending is the last one of a packet that is still awaited, by its record and the words that were read.
    pub(super) fn is_awaited(&self, sending: &Sending<'a>, order: Signal<'a>) -> Signal<'a> {
        self.is_live(sending.psn) & Record::unpack(self.tables.records.word).order.eq(order)
    }

    /// [`Step::AdvanceRead`].
    pub(super) fn advance_read(&self) {
        self.read_bitmaps(self.space.base);
        self.go(Step::Advance);
    }

    /// [`Step::Advance`]: how many PSNs from the base on were acknowledged, in its word.
    pub(super) fn advance(&self) {
        let base = self.space.base;
        let low = bits::ones_from(base.part(0, 6));
        let (any, index) = bits::lowest(low & !self.tables.acked.word);
        let to_end = self.m.lit(64, 7);
        let run = any.mux(index.zero_extend(7), to_end) - base.part(0, 6).zero_extend(7);
        self.walk.run.set(run);
        self.m
            .when(run.any(), || self.go(Step::Advanced))
            .otherwise(|| self.go(Step::ForgetRead));
    }

    /// [`Step::Advanced`]: the base moves, and the bits that it passes are cleared.
    pub(super) fn advanced(&self) {
        let (m, space, tables) = (self.m, &self.space, &self.tables);
        let base = space.base;
        let next = base + self.walk.run.zero_extend(24);
        let passed = bits::ones_from(base.part(0, 6)) & !bits::ones_since(self.word_of(base), next);
        let address = self.word_address(base);
        for table in [tables.acked, tables.lost, tables.suspect] {
            table.write(address, table.word & !passed);
        }
        space.base.set(next);
        m.when(next.eq(space.next) | next.part(0, 6).any(), || {
            self.go(Step::ForgetRead);
        })
        .otherwise(|| self.go(Step::AdvanceRead));
    }
}
