//! Steps at the head of the log: it moves over all that is settled, a word of marks at a time, and finds what is overdue.

use super::bits;
use super::engine::Engine;
use super::step::{Phase, Step};
use spraynic_rtl::{Signal, cat};

impl<'a> Engine<'a> {
    /// [`Step::HeadRead`]: as soon as nothing more is marked. (What is marked in this clock is read.)
    pub(super) fn head_read(&self, stalls: Signal<'a>) {
        let (m, stages) = (self.m, &self.stages);
        let marked = !(stages.record_valid | stalls | stages.merged_valid | stages.base_valid);
        m.when(stages.crosses, || {
            m.when(stages.rest(), || {
                self.tables.acked.read(self.word_address(self.space.base));
                stages.crosses.set_lit(0);
                self.go(Step::Advance);
            });
        })
        .else_when(marked, || {
            self.read_marks(self.space.log_head);
            self.go(Step::HeadWord);
        });
    }

    /// [`Step::HeadWord`]: where the first open sending stands in the word of the head, or the end of the log.
    pub(super) fn head_word(&self) {
        let (m, space, walk) = (self.m, &self.space, &self.walk);
        let (marks, head) = (self.marks(), space.log_head);
        let word = cat(&[head.part(6, 10), m.lit(0, 6)]);
        let ahead = bits::ones_from(head.part(0, 6));
        let stops = ahead & (marks.open | bits::ones_since(word, space.log_next));
        let (any, index) = bits::lowest(stops);
        walk.run.set(any.mux(index.zero_extend(7), m.lit(64, 7)));
        walk.dropped.set(marks.delivered & ahead & bits::below_lowest(stops));
        self.asks.delay.set_lit(1);
        self.go(Step::HeadMove);
    }

    /// [`Step::HeadMove`].
    pub(super) fn head_move(&self) {
        let (m, space, walk) = (self.m, &self.space, &self.walk);
        let word = cat(&[space.log_head.part(6, 10), m.lit(0, 6)]);
        let head = (word + walk.run.zero_extend(16)).named("moved_head");
        space.log_head.set(head);
        space
            .log_delivered
            .set(space.log_delivered - bits::ones(walk.dropped).zero_extend(11));
        let ends = head.eq(space.log_next);
        // Not less than are in the log behind the new head.
        let enough = self.passed_by();
        self.read_log(head);
        m.when(!ends & walk.run.bit(6), || self.go(Step::HeadRead))
            .else_when(!ends & walk.current & enough, || self.go(Step::HeadJudge))
            .otherwise(|| self.to_losses());
    }

    /// Whether so many sendings behind the head were delivered that it is a loss.
    fn passed_by(&self) -> Signal<'a> {
        let threshold = self.qp.ooo_threshold.zero_extend(11);
        self.space.log_delivered.gt(threshold)
    }

    /// [`Step::HeadJudge`]: the head, whose packet is awaited.
    pub(super) fn head_judge(&self) {
        let psn = self.sending().psn;
        self.read_record(psn);
        self.tables.suspect.read(self.word_address(psn));
        self.m
            .when(self.passed_by(), || self.go(Step::HeadOld))
            .otherwise(|| self.to_losses());
    }

    /// [`Step::HeadOld`]: if it was also sent long ago, its packet is suspect, and the head goes on.
    pub(super) fn head_old(&self) {
        let (m, space) = (self.m, &self.space);
        let psn = self.sending().psn;
        let overdue = self.is_old(&self.record()).named("is_overdue");
        m.when(overdue, || {
            self.write_suspect(psn, self.tables.suspect.word | self.bit_of(psn));
            space.log_head.set(space.log_head + m.lit(1, 16));
            self.go(Step::HeadRead);
        })
        .otherwise(|| self.to_losses());
    }

    /// The log is done with: what is suspect and covered is lost, if the SACK is current.
    fn to_losses(&self) {
        let (m, space, walk) = (self.m, &self.space, &self.walk);
        m.when(walk.current & space.suspects.any(), || {
            walk.phase.set_lit(Phase::Lose as u8);
            walk.upcoming.set(self.word_of(space.base));
            self.go(Step::WordRead);
        })
        .otherwise(|| {
            self.settle();
            self.go(Step::Idle);
        });
    }
}
