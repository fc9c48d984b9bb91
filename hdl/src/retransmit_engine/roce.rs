//! Steps of roce: cumulative acknowledgements, responses that acknowledge, and going back.
//!
//! The oldest READ or atomic stands in the state of the sequence space, the others in their table.

use spraynic_config::Profile;
use spraynic_config::descriptor::CompletionStatus;
use spraynic_rtl::{Bundle, Signal};
use spraynic_wire::RnrTimer;

use super::engine::Engine;
use super::layout::{Read, Record};
use super::step::Step;
use super::tables::in_window;

/// `rnr_retry` that never gives up (IBA volume 1, section 9.7.5.2.8).
const RNR_RETRY_WITHOUT_END: u8 = 7;
/// Bits of the longest wait of an RNR NAK in nanoseconds.
const RNR_BITS: u32 = 30;

impl<'a> Engine<'a> {
    pub(super) fn is_roce(&self) -> Signal<'a> {
        if self.sizes.roce {
            self.qp.profile.eq_lit(Profile::Roce.code())
        } else {
            self.m.low()
        }
    }

    fn place_of(&self, place: Signal<'a>) -> Signal<'a> {
        self.sizes.read_address(self.op.qpn, place)
    }

    /// [`Step::RoceSent`].
    pub(super) fn roce_sent(&self) {
        let (m, op, space) = (self.m, &self.op, &self.space);
        let next = op.psn + op.psns;
        let ends = self.outstanding.add_wide(op.psns);
        let fits = !self.outstanding.any() | ends.le(m.lit(self.sizes.window, ends.width()));
        let full = op.has_response & space.reads.eq_lit(self.sizes.reads);
        let is_next = op.psn.eq(space.next);
        let first = (is_next & fits & !full).named("roce_is_first_time");
        let again = !is_next & self.is_outstanding(op.psn);
        self.deed
            .restart
            .set((first | again) & self.deed.starts & !space.rnr_wait);
        m.when(first, || {
            self.count("sent");
            space.next.set(next);
            m.when(op.has_response, || {
                space.reads.set(space.reads + m.lit(1, 5));
                let read = Read {
                    psn: op.psn,
                    end: next,
                    slot: op.slot,
                };
                if let Some(reads) = self.tables.reads {
                    reads.write(self.place_of(space.first_read + space.reads.part(0, 4)), read.pack());
                }
                m.when(!space.reads.any(), || {
                    space.missing.set(op.psn);
                    space.read_end.set(next);
                    space.read_slot.set(op.slot);
                });
            })
            .otherwise(|| {
                let mut zeros = vec![];
                for (_, width, _) in Record::fields() {
                    zeros.push(m.lit(0, width));
                }
                let record = Record {
                    slot: op.slot,
                    ..Record::from_signals(&zeros)
                };
                let address = in_window(&self.sizes, self.index, op.psn);
                self.tables.records.write(address, record.pack());
            });
        })
        .else_when(again, || {
            self.count("sent_again");
            m.when(op.psn.eq(space.base), || {
                space.rewinding.set_lit(0);
                space.resent.set_lit(1);
                space.resent_psn.set(op.psn);
                space.resent_at.set(self.stamp());
            });
        })
        .otherwise(|| self.count("sent_ignored"));
        self.end();
    }

    /// [`Step::Begin`] of an answer: distances from the base.
    pub(super) fn begin_answer(&self) {
        let (m, op, space) = (self.m, &self.op, &self.space);
        let psn = op.acknowledges();
        let end = (op.ack & !op.nak).mux(psn + m.lit(1, 24), psn);
        let [of_psn, of_end, of_missing] = self.walk.from_base;
        of_psn.set(psn - space.base);
        of_end.set(end - space.base);
        of_missing.set(space.missing - space.base);
        self.walk.psn.set(psn);
        self.go(Step::RoceAnswer);
    }

    /// [`Step::RoceAnswer`]: how far the base moves.
    pub(super) fn roce_answer(&self) {
        let (m, op, space, deed) = (self.m, &self.op, &self.space, &self.deed);
        let [of_psn, of_end, of_missing] = self.walk.from_base;
        let known = !op.nak | op.status.any() | op.sequence | op.rnr;
        let waits = space.reads.any();
        let stops = waits & of_missing.lt(of_end);
        let steps = stops.mux(of_missing, of_end);
        let awaited = (op.response & waits & of_missing.eq(of_psn)).named("is_awaited_response");
        let base = awaited
            .mux(self.walk.psn + m.lit(1, 24), space.base + steps)
            .named("roce_base");
        let moved = awaited | steps.any();
        let missing = space.missing + m.lit(1, 24);
        let ends = awaited & missing.eq(space.read_end);
        if let Some(reads) = self.tables.reads {
            reads.read(self.place_of(space.first_read + m.lit(1, 4)));
        }
        m.when(!self.is_before_next(self.walk.psn), || {
            self.count("drop_incredible");
            self.go(Step::Idle);
        })
        .else_when(of_psn.msb() | !known, || {
            self.count("drop_stale");
            self.go(Step::Idle);
        })
        .otherwise(|| {
            m.when(op.response, || self.count("responses"))
                .else_when(op.nak, || self.count("naks"))
                .otherwise(|| self.count("acks"));
            space.base.set(base);
            m.when(base.eq(space.next), || space.rewinding.set_lit(0));
            m.when(awaited, || space.missing.set(missing));
            m.when(ends, || {
                space.reads.set(space.reads - m.lit(1, 5));
                space.first_read.set(space.first_read + m.lit(1, 4));
            });
            m.when(moved, || {
                deed.progressed.set_lit(1);
                space.rnr_wait.set_lit(0);
                space.rnr_retries.set_lit(0);
            });
            deed.gap.set(stops);
            deed.popped.set(ends);
            self.go(Step::RoceJudge);
        });
    }

    /// [`Step::RoceJudge`]: what an answer asks for beside.
    pub(super) fn roce_judge(&self) {
        let (m, op, space, deed, qp) = (self.m, &self.op, &self.space, &self.deed, &self.qp);
        if let Some(reads) = self.tables.reads {
            let read = Read::unpack(reads.word);
            m.when(deed.popped, || {
                space.missing.set(read.psn);
                space.read_end.set(read.end);
                space.read_slot.set(read.slot);
            });
        }
        let free = !space.rnr_wait;
        let at_base = !deed.gap;
        let back = (free & (deed.gap | op.sequence)).named("asks_to_go_back");
        let not_ready = (op.rnr & at_base & free).named("is_not_ready");
        let limit = qp.rnr_retry.ne_lit(RNR_RETRY_WITHOUT_END) & space.rnr_retries.ge(qp.rnr_retry);
        m.when(op.status.any(), || {
            deed.failed.set_lit(1);
            deed.status.set(op.status);
        })
        .else_when(not_ready & limit, || {
            deed.failed.set_lit(1);
            deed.status.set_lit(CompletionStatus::RnrRetryExceeded as u8);
        })
        .else_when(not_ready, || {
            m.when(!space.rnr_retries.all(), || {
                space.rnr_retries.set(space.rnr_retries + m.lit(1, 3));
            });
            space.rnr_wait.set_lit(1);
            deed.rnr.set_lit(1);
        });
        deed.forced.set_lit(0);
        self.read_record(space.base);
        m.when(back, || self.go(Step::RoceRewind)).otherwise(|| self.end());
    }

    /// [`Step::RoceRewind`]: asks to send again from the base on, unless that was asked already, or may be under way still.
    pub(super) fn roce_rewind(&self) {
        let (m, space) = (self.m, &self.space);
        let record = self.record();
        let resent = Record {
            sent: space.resent_at,
            ..record
        };
        let under_way = space.resent & space.resent_psn.eq(space.base) & !self.is_old(&resent);
        let nothing = space.base.eq(space.next) | space.rewinding | (under_way & !self.deed.forced);
        let of_read = space.reads.any() & space.missing.eq(space.base);
        m.when(!nothing, || {
            space.rewinding.set_lit(1);
            self.count("rewinds");
            self.resend(space.base, of_read.mux(space.read_slot, record.slot));
            self.out.rewind.set_lit(1);
        });
        self.end();
    }

    /// A timer fires that is not to be excused: goes back.
    pub(super) fn fire_rewind(&self) {
        self.deed.forced.set_lit(1);
        self.read_record(self.space.base);
        self.go(Step::RoceRewind);
    }

    /// What an RNR NAK's timer code means, in nanoseconds.
    pub(super) fn rnr_wait_ns(&self) -> Signal<'a> {
        let mut waits = vec![];
        for microseconds in RnrTimer::MICROSECONDS {
            waits.push(self.m.lit(microseconds * 1_000, RNR_BITS));
        }
        self.op.rnr_timer.select(&waits)
    }
}
