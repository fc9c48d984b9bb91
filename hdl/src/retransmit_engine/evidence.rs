//! Steps that find losses: the head of the log, what a SACK covers, NACKs and timeouts.

use spraynic_config::descriptor::{CompletionStatus, PathEventKind};

use super::engine::{Engine, Phase, Step};
use super::layout::Sending;

impl<'a> Engine<'a> {
    /// [`Step::ForgetRead`].
    pub(super) fn forget_read(&self) {
        self.read_log(self.space.log_head);
        self.m
            .when(self.space.log_head.eq(self.space.log_next), || self.forgot())
            .otherwise(|| self.go(Step::Forget));
    }

    /// [`Step::Forget`]: the head of the log is there.
    pub(super) fn forget(&self) {
        let sending = self.sending();
        self.read_record(sending.psn);
        self.read_bitmaps(sending.psn);
        self.go(Step::Forgotten);
    }

    /// [`Step::Forgotten`]: it leaves if it is settled, or makes its packet suspect.
    pub(super) fn forgotten(&self) {
        let (m, space, walk) = (self.m, &self.space, &self.walk);
        let sending = self.sending();
        let bit = self.bit_of(sending.psn);
        let suspect = self.tables.suspect.word;
        let awaited = self.is_awaited(&sending, space.log_head) & !(suspect & bit).any();
        let passed_by = space.log_delivered.gt(self.qp.ooo_threshold.zero_extend(11));
        let overdue = (walk.current & passed_by & self.is_old(&self.record())).named("is_overdue");
        m.when(awaited & !overdue, || self.forgot()).otherwise(|| {
            m.when(awaited, || {
                self.tables.suspect.write(self.word_address(sending.psn), suspect | bit);
            });
            self.drop_head(&sending);
            let next = space.log_head + m.lit(1, 16);
            self.read_log(next);
            m.when(next.eq(space.log_next), || self.forgot())
                .otherwise(|| self.go(Step::Forget));
        });
    }

    pub(super) fn drop_head(&self, head: &Sending<'a>) {
        let space = &self.space;
        space.log_head.set(space.log_head + self.m.lit(1, 16));
        space
            .log_delivered
            .set(space.log_delivered - head.delivered.zero_extend(11));
    }

    /// The log is done with: what is suspect and covered is lost, if the SACK is current.
    fn forgot(&self) {
        let behind = self.op.psn + self.m.lit(1, 24);
        self.m
            .when(self.walk.current, || {
                self.m
                    .when(self.space.base.eq(behind), || {
                        self.walk.phase.set_lit(Phase::LoseBase as u8);
                        self.walk.word_psn.set(self.word_of(self.space.base));
                        self.go(Step::WordRead);
                    })
                    .otherwise(|| self.to_covered());
            })
            .otherwise(|| self.end());
    }

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
            })
            .otherwise(|| self.count("lost_sack"));
            m.when(!timeout | deed.first, || self.event(PathEventKind::Lost, record.path));
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
        let (m, op, space) = (self.m, &self.op, &self.space);
        let record = self.record();
        let sent = (op.psn - space.next).msb();
        let fits = record.entropy.eq(op.entropy);
        let newer = record
            .copies
            .select(&[m.high(), fits, fits & self.is_old(&record), m.low()]);
        let lost = (self.is_live(op.psn) & newer).named("is_lost_by_nack");
        let trimmed = op.trimmed | op.last_hop;
        m.when(!sent, || {
            self.count("drop_incredible");
            self.go(Step::Idle);
        })
        .else_when(lost, || {
            self.count("nacks");
            self.count("lost_nack");
            self.tables
                .lost
                .write(self.word_address(op.psn), self.tables.lost.word | self.bit_of(op.psn));
            self.resend(op.psn, record.slot);
            m.when(fits & trimmed, || {
                self.event(PathEventKind::Trimmed, record.path);
                self.out.event_kind.set(op.last_hop.mux(
                    m.lit(PathEventKind::TrimmedLastHop as u8, 4),
                    m.lit(PathEventKind::Trimmed as u8, 4),
                ));
            });
            self.deed.alive.set(!trimmed);
            self.end();
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
                    walk.word_psn.set(self.word_of(space.base));
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
