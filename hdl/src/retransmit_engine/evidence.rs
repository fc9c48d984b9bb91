//! Steps that find losses: what a SACK covers, NACKs and timeouts.

use spraynic_config::descriptor::{CompletionStatus, PathEventKind};

use super::engine::Engine;
use super::layout::Record;
use super::step::{Phase, Step};
use super::tables::in_window;
use spraynic_rtl::Bundle;

impl<'a> Engine<'a> {
    /// [`Step::Lose`]: a packet that is lost; of a timeout, if it is the oldest, or old.
    pub(super) fn lose(&self) {
        let (m, walk, deed) = (self.m, &self.walk, &self.deed);
        let record = self.record();
        let timeout = self.is_phase(Phase::Timeout);
        let oldest = walk.psn.eq(self.space.base);
        m.when(!timeout | oldest | self.is_old(&record), || {
            self.resend(walk.psn, record.slot);
            m.when(timeout, || {
                self.count("lost_timer");
                walk.lost.set(walk.lost | self.bit_of(walk.psn));
                deed.first.set_lit(0);
                self.close(record.order);
            })
            .otherwise(|| self.count("lost_sack"));
            let blames = !record.refused & (!timeout | deed.first);
            m.when(blames, || self.event(PathEventKind::Lost, record.path));
        });
        self.go(Step::Pick);
    }

    /// [`Step::Begin`] of a NACK.
    pub(super) fn begin_nack(&self) {
        self.read_record(self.op.psn);
        self.read_bitmaps(self.op.psn);
        self.go(Step::Refused);
    }

    /// [`Step::Refused`]: a NACK.
    pub(super) fn refused(&self) {
        let (m, op) = (self.m, &self.op);
        let record = self.record();
        let sent = self.is_before_next(op.psn);
        let fits = record.entropy.eq(op.entropy);
        let newer = record
            .copies
            .select(&[m.high(), fits, fits & self.is_old(&record), m.low()]);
        let taken = (self.is_live(op.psn) & newer).named("is_refused");
        let trimmed = op.trimmed | op.last_hop;
        let waits = (!trimmed & op.psn.ne(self.space.base)).named("waits_for_room");
        let bit = self.bit_of(op.psn);
        m.when(!sent, || {
            self.count("drop_incredible");
            self.go(Step::Idle);
        })
        .else_when(taken, || {
            self.count("nacks");
            self.close(record.order);
            m.when(waits, || {
                self.write_suspect(op.psn, self.tables.suspect.word | bit);
            })
            .otherwise(|| {
                self.count("lost_nack");
                self.tables
                    .lost
                    .write(self.word_address(op.psn), self.tables.lost.word | bit);
                self.resend(op.psn, record.slot);
            });
            m.when(!trimmed, || {
                let refused = Record {
                    refused: m.high(),
                    ..record
                };
                self.tables
                    .records
                    .write(in_window(&self.sizes, self.index, op.psn), refused.pack());
            });
            m.when(fits & trimmed, || {
                self.event(PathEventKind::Trimmed, record.path);
                self.out.event_kind.set(op.last_hop.mux(
                    m.lit(PathEventKind::TrimmedLastHop as u8, 4),
                    m.lit(PathEventKind::Trimmed as u8, 4),
                ));
            });
            self.deed.alive.set(!trimmed);
            self.delay();
        })
        .otherwise(|| {
            self.count("drop_stale");
            self.go(Step::Idle);
        });
    }

    /// [`Step::Begin`] of a timer.
    pub(super) fn begin_timer(&self) {
        let due = self.space.armed & self.op.now.ge(self.space.deadline);
        self.read_bitmaps(self.space.base);
        self.m
            .when(due, || {
                self.out.fired.set_lit(1);
                self.go(Step::Fire);
            })
            .otherwise(|| self.go(Step::Idle));
    }

    /// [`Step::Fire`].
    pub(super) fn fire(&self) {
        let (m, space, walk) = (self.m, &self.space, &self.walk);
        let roce = self.is_roce();
        let is_lost = (self.tables.lost.word & self.bit_of(space.base)).any();
        let waits = roce
            .mux(space.rewinding, space.base.ne(space.next) & is_lost)
            .named("base_waits");
        self.deed.restart.set_lit(1);
        m.when(space.rnr_wait, || {
            space.rnr_wait.set_lit(0);
            self.fire_rewind();
        })
        .else_when(waits, || self.end())
        .else_when(space.retries.ge(self.qp.retry_limit), || {
            self.deed.failed.set_lit(1);
            self.deed.status.set_lit(CompletionStatus::RetryExceeded as u8);
            self.end();
        })
        .otherwise(|| {
            self.count("timeouts");
            space.retries.set(space.retries + m.lit(1, 3));
            m.when(!space.backoff.all(), || space.backoff.set(space.backoff + m.lit(1, 3)));
            m.when(roce, || self.fire_rewind())
                .else_when(space.base.eq(space.next), || {
                    let turn = space.probes.part(0, 3).zero_extend(11);
                    let back = turn.gate(turn.lt(space.known)).zero_extend(24);
                    self.read_record(space.next - m.lit(1, 24) - back);
                    self.go(Step::Probe);
                })
                .otherwise(|| {
                    walk.phase.set_lit(Phase::Timeout as u8);
                    walk.upcoming.set(self.word_of(space.base));
                    self.go(Step::WordRead);
                });
        });
    }

    /// [`Step::Probe`].
    pub(super) fn probe(&self) {
        let record = self.record();
        self.out.probe.set_lit(1);
        self.out.probe_entropy.set(record.entropy);
        self.out.probe_port.set(record.port);
        self.space.probes.set(self.space.probes + self.m.lit(1, 14));
        self.end();
    }
}
