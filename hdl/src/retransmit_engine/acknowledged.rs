//! The stages that look at each packet that was newly acknowledged, one a clock: its record, its place in the log, and what was sent earlier on its path.
//!
//! [`super::step::Step::Pick`] feeds them. A sending before on the same path that has not been looked at takes a clock for itself, in which no other
//! packet moves on.

use spraynic_config::descriptor::PathEventKind;
use spraynic_rtl::Signal;

use super::engine::Engine;
use super::layout::{Marks, Sending};

impl<'a> Engine<'a> {
    /// All stages; gives whether the earlier ones stand still, because a sending before is asked for.
    pub(super) fn acknowledged(&self) -> Signal<'a> {
        let (m, stages) = (self.m, &self.stages);
        let sending = self.sending();
        let same = sending.path.eq(stages.path) & sending.class.eq(stages.class);
        let follows = (stages.log_valid & stages.delivers) | (stages.link_valid & same);
        let stalls = (follows & sending.linked & self.in_log(sending.previous)).named("follows_link");

        stages.log_valid.set_lit(0);
        m.when(stages.record_valid & !stalls, || self.record_stage());
        m.when(stages.log_valid, || self.log_stage(&sending));
        stages.suspect_valid.set_lit(0);
        m.when(stages.link_valid & same, || self.link_stage(&sending));
        stages.link_valid.set(stalls);
        m.when(stalls, || {
            stages.link.set(sending.previous);
            self.read_log(sending.previous);
            self.read_marks(sending.previous);
        });
        m.when(stages.suspect_valid, || self.suspect_stage());
        stalls
    }

    /// Its record: whether another copy can be meant.
    fn record_stage(&self) {
        let (m, op, walk, stages) = (self.m, &self.op, &self.walk, &self.stages);
        let record = self.record();
        let named = op.sack & !op.probed & op.named.eq(walk.psn) & op.entropy.eq(record.entropy);
        let clear = (record.copies.eq_lit(0) | (record.copies.eq_lit(1) & named)).named("is_this_copy");
        m.when(clear, || self.event(PathEventKind::Delivered, record.path));
        stages.record_valid.set_lit(0);
        self.close(record.order);
        stages.delivers.set(clear);
        self.read_log(record.order);
    }

    /// A sending is open no more: its marks are asked for, and written in the next clock.
    pub(super) fn close(&self, order: Signal<'a>) {
        let stages = &self.stages;
        stages.log_valid.set(self.in_log(order));
        stages.order.set(order);
        stages.delivers.set_lit(0);
        self.read_marks(order);
    }

    /// Its place in the log.
    fn log_stage(&self, sending: &Sending<'a>) {
        let (m, space, stages) = (self.m, &self.space, &self.stages);
        let (marks, bit) = (self.marks(), self.bit_of(stages.order));
        let marks = Marks {
            open: marks.open & !bit,
            delivered: marks.delivered | bit.gate(stages.delivers),
        };
        self.write_marks(self.index, stages.order, &marks);
        m.when(stages.delivers, || {
            space.log_delivered.set(space.log_delivered + m.lit(1, 11));
            stages.path.set(sending.path);
            stages.class.set(sending.class);
            self.unlink(stages.order, sending);
        });
    }

    fn unlink(&self, order: Signal<'a>, sending: &Sending<'a>) {
        let linked = self.m.low();
        self.write_log(order, &Sending { linked, ..*sending });
    }

    /// A sending before on the same path: each link is followed once.
    fn link_stage(&self, sending: &Sending<'a>) {
        let (m, stages) = (self.m, &self.stages);
        let (marks, bit) = (self.marks(), self.bit_of(stages.link));
        let is_open = (marks.open & bit).any().named("earlier_is_open");
        self.unlink(stages.link, sending);
        stages.suspect_valid.set(is_open);
        stages.suspect.set(sending.psn);
        m.when(is_open, || {
            let open = marks.open & !bit;
            self.write_marks(self.index, stages.link, &Marks { open, ..marks });
            let address = self.word_address(sending.psn);
            self.tables.suspect.read(address);
            self.tables.acked.read(address);
        });
    }

    /// Its packet is suspect, unless this very SACK acknowledges it.
    fn suspect_stage(&self) {
        let (psn, tables) = (self.stages.suspect, &self.tables);
        let bit = self.bit_of(psn);
        let awaited = self.is_outstanding(psn) & !(tables.acked.word & bit).any();
        self.m.when(awaited, || {
            self.write_suspect(psn, tables.suspect.word | bit);
        });
    }
}
