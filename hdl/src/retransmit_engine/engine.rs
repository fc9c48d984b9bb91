//! The engine: one operation at a time on one sequence space, whose state stands in registers while it is worked on.
//!
//! Here is what all steps share: what is true of a PSN or an order, and the end of an operation. The steps themselves are in the files beside this one, by
//! what they do.

use spraynic_config::descriptor::PathEventKind;
use spraynic_rtl::{Bundle, Module, Signal};

use super::layout::{Deadline, Marks, QueuePair, Record, STAMP_BITS, STAMP_SHIFT, Sending, Sizes, Space};
use super::operation::Operation;
use super::registers::{Asks, Counts, Deed, Outputs, Stages, Store, Walk};
use super::step::{Phase, Step};
use super::tables::{Tables, in_window};

/// Bit of the distance from the base up to which `done` may stay behind where no ACK moves it. See the golden model.
const DONE_LAG_BIT: u32 = 14;

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Engine<'a> {
    pub(super) m: Module<'a>,
    pub(super) sizes: Sizes,
    pub(super) tables: Tables<'a>,
    pub(super) out: Outputs<'a>,
    pub(super) counts: Counts<'a>,
    pub(super) step: Signal<'a>,
    pub(super) op: Operation<'a>,
    /// The queue pair of the operation.
    pub(super) qp: QueuePair<'a>,
    /// The sequence space in registers, its index, and whether there is one.
    pub(super) space: Space<'a>,
    pub(super) index: Signal<'a>,
    pub(super) held: Signal<'a>,
    /// The context write that is under way.
    pub(super) written: QueuePair<'a>,
    pub(super) first_psns: [Signal<'a>; 2],
    pub(super) walk: Walk<'a>,
    pub(super) stages: Stages<'a>,
    pub(super) asks: Asks<'a>,
    pub(super) deed: Deed<'a>,
    pub(super) store: Store<'a>,
    /// PSNs that are outstanding.
    pub(super) outstanding: Signal<'a>,
}

impl<'a> Engine<'a> {
    pub(super) fn new(m: Module<'a>, sizes: Sizes) -> Self {
        let reg = |name: &str, width| m.reg(name, width);
        let index_bits = sizes.space_bits();
        let deed = Deed::new(m, sizes.roce);
        let space = Space::regs(m, "space");
        let (op, written) = (Operation::regs(m, "op"), QueuePair::regs(m, "written"));
        // What there is not enters no register; a context write is of no failed queue pair.
        op.outside.ignore();
        written.failed.ignore();
        if !sizes.roce {
            // What only roce looks at.
            for of_roce in [op.psns, op.has_response, op.sequence, op.rnr, op.rnr_timer, deed.forced] {
                of_roce.ignore();
            }
        }
        Self {
            m,
            sizes,
            tables: Tables::new(m, &sizes),
            out: Outputs::new(m),
            counts: Counts::new(m),
            step: reg("step", Step::BITS).reset(Step::Idle as u8),
            op,
            qp: QueuePair::regs(m, "qp"),
            space,
            index: reg("space_index", index_bits),
            held: m
                .reg("space_held", 1)
                .reset(0)
                .doc("a sequence space stands in the registers"),
            written,
            first_psns: [reg("first_request_psn", 24), reg("first_response_psn", 24)],
            walk: Walk::new(m),
            stages: Stages::new(m),
            asks: Asks::new(m),
            deed,
            store: Store::new(m, index_bits),
            outstanding: (space.next - space.base).named("outstanding"),
        }
    }

    pub(super) fn go(&self, step: Step) {
        self.step.set_lit(step as u8);
    }

    pub(super) fn count(&self, name: &str) {
        let found = self.counts.all().iter().find(|(counter, ..)| *counter == name);
        let (_, _, wire) = found.unwrap_or_else(|| panic!("no counter {name}"));
        wire.set_lit(1);
    }

    pub(super) fn event(&self, kind: PathEventKind, path: Signal<'a>) {
        self.out.event.set_lit(1);
        self.out.event_kind.set_lit(kind as u8);
        self.out.event_path.set(path);
    }

    pub(super) fn resend(&self, psn: Signal<'a>, slot: Signal<'a>) {
        self.out.resend.set_lit(1);
        self.out.resend_psn.set(psn);
        self.out.resend_slot.set(slot);
    }

    pub(super) fn is_phase(&self, phase: Phase) -> Signal<'a> {
        self.walk.phase.eq_lit(phase as u8)
    }

    /// Whether a distance from the base is that of something that was sent: negative, or less than what is outstanding.
    pub(super) fn was_sent(&self, from_base: Signal<'a>) -> Signal<'a> {
        from_base.msb() | from_base.lt(self.outstanding)
    }

    /// Whether a PSN stands before the next one: within half of all PSNs.
    pub(super) fn is_before_next(&self, psn: Signal<'a>) -> Signal<'a> {
        (psn - self.space.next).msb()
    }

    pub(super) fn is_outstanding(&self, psn: Signal<'a>) -> Signal<'a> {
        (psn - self.space.base).lt(self.outstanding)
    }

    pub(super) fn in_log(&self, order: Signal<'a>) -> Signal<'a> {
        (order - self.space.log_head).lt(self.space.log_next - self.space.log_head)
    }

    /// Whether what a record tells was sent more than a round trip ago.
    pub(super) fn is_old(&self, record: &Record<'a>) -> Signal<'a> {
        let age = self.stamp() - record.sent;
        age.gt(self
            .qp
            .base_rtt
            .part(STAMP_SHIFT, 24 - STAMP_SHIFT)
            .zero_extend(STAMP_BITS))
    }

    pub(super) fn stamp(&self) -> Signal<'a> {
        self.op.now.part(STAMP_SHIFT, STAMP_BITS)
    }

    pub(super) fn record(&self) -> Record<'a> {
        Record::unpack(self.tables.records.word)
    }

    pub(super) fn sending(&self) -> Sending<'a> {
        Sending::unpack(self.tables.log.word)
    }

    pub(super) fn read_record(&self, psn: Signal<'a>) {
        self.tables.records.read(in_window(&self.sizes, self.index, psn));
    }

    pub(super) fn read_log(&self, order: Signal<'a>) {
        self.tables.log.read(in_window(&self.sizes, self.index, order));
    }

    pub(super) fn write_log(&self, order: Signal<'a>, sending: &Sending<'a>) {
        self.tables
            .log
            .write(in_window(&self.sizes, self.index, order), sending.pack());
    }

    /// Asks for the words of all bitmaps that hold a PSN.
    pub(super) fn read_bitmaps(&self, psn: Signal<'a>) {
        let address = self.sizes.word_address(self.index, psn);
        self.tables.acked.read(address);
        self.tables.lost.read(address);
        self.tables.suspect.read(address);
    }

    pub(super) fn word_address(&self, psn: Signal<'a>) -> Signal<'a> {
        self.sizes.word_address(self.index, psn)
    }

    /// The bit of a PSN or an order in its word.
    pub(super) fn bit_of(&self, psn: Signal<'a>) -> Signal<'a> {
        let mut bits = vec![];
        for bit in 0..64u32 {
            bits.push(psn.part(0, 6).eq_lit(bit));
        }
        spraynic_rtl::cat_lsb_first(&bits)
    }

    /// Whether a PSN is outstanding, not acknowledged and not declared lost, by the words that were read for it.
    pub(super) fn is_live(&self, psn: Signal<'a>) -> Signal<'a> {
        let settled = (self.tables.acked.word | self.tables.lost.word) & self.bit_of(psn);
        self.is_outstanding(psn) & !settled.any()
    }

    /// First PSN of the word in which a PSN stands.
    pub(super) fn word_of(&self, psn: Signal<'a>) -> Signal<'a> {
        spraynic_rtl::cat(&[psn.part(6, 18), self.m.lit(0, 6)])
    }

    /// Asks for the marks of what was sent in this order.
    pub(super) fn read_marks(&self, order: Signal<'a>) {
        self.tables.marks.read(self.sizes.word_address(self.index, order));
    }

    /// The marks that were read: which sendings are open, and which were delivered.
    pub(super) fn marks(&self) -> Marks<'a> {
        Marks::unpack(self.tables.marks.word)
    }

    pub(super) fn write_marks(&self, space: Signal<'a>, order: Signal<'a>, marks: &Marks<'a>) {
        self.tables
            .marks
            .write(self.sizes.word_address(space, order), marks.pack());
    }

    /// Writes a word of the suspect bitmap, and notes whether anything is in it.
    pub(super) fn write_suspect(&self, psn: Signal<'a>, word: Signal<'a>) {
        self.tables.suspect.write(self.word_address(psn), word);
        let words = self.space.suspects;
        let bits = self.sizes.word_bits();
        let any = word.any();
        let mut noted = vec![];
        for index in 0..words.width() {
            noted.push(if index >> bits != 0 {
                self.m.low()
            } else if bits == 0 {
                any
            } else {
                psn.part(6, bits).eq_lit(index).mux(any, words.bit(index))
            });
        }
        words.set(spraynic_rtl::cat_lsb_first(&noted));
    }

    /// The operation did something: its end, by way of the timer's delay.
    pub(super) fn end(&self) {
        self.go(Step::Delay);
    }

    /// [`Step::Settle`].
    pub(super) fn settle(&self) {
        self.asks.settle.set_lit(1);
    }

    /// [`Step::Delay`].
    pub(super) fn delay(&self) {
        self.asks.delay.set_lit(1);
        self.go(Step::Settle);
    }

    /// Writes of a packet that got its order.
    pub(super) fn storing(&self) {
        let Store {
            valid,
            space,
            record,
            psn,
            class,
            head,
        } = self.store;
        let last = self.tables.paths.word;
        self.m.when(valid, || {
            let sending = Sending {
                psn,
                path: record.path,
                class,
                previous: last,
                linked: (last - head).lt(record.order - head),
            };
            let (marks, bit) = (self.marks(), self.bit_of(record.order));
            self.write_marks(
                space,
                record.order,
                &Marks {
                    open: marks.open | bit,
                    delivered: marks.delivered & !bit,
                },
            );
            self.tables
                .records
                .write(in_window(&self.sizes, space, psn), record.pack());
            self.tables
                .log
                .write(in_window(&self.sizes, space, record.order), sending.pack());
            let path = record.path.part(0, self.sizes.path_bits());
            self.tables.paths.write(spraynic_rtl::cat(&[space, path]), record.order);
        });
    }

    /// The time to wait, by what the operation did.
    pub(super) fn work_out_delay(&self) {
        let timeout = self.qp.timeout.zero_extend(40);
        let doubled = (0..3).fold(timeout, |delay, bit| {
            let by = 1 << bit;
            self.space.backoff.bit(bit).mux(delay << by, delay)
        });
        let delay = self.deed.progressed.mux(timeout, doubled);
        let delay = if self.sizes.roce {
            self.deed.rnr.mux(self.rnr_wait_ns().zero_extend(40), delay)
        } else {
            delay
        };
        self.deed.delay.set(delay);
    }

    /// The timer, and what changed.
    pub(super) fn end_operation(&self) {
        let (space, deed) = (&self.space, &self.deed);
        let ack_is_missing = self.ack_is_missing();
        self.keep_within_reach(ack_is_missing);
        let awaits = (space.base.ne(space.next) | ack_is_missing).named("awaits");
        let at = (self.op.now + deed.delay.zero_extend(64)).named("new_deadline");
        let starts = deed.progressed | deed.restart | deed.rnr;
        let deadline = Deadline {
            armed: awaits & (starts | space.armed) & !deed.failed,
            at: starts.mux(at, space.deadline),
        };
        space.armed.set(deadline.armed);
        space.deadline.set(deadline.at);
        self.m
            .when(!awaits | deed.progressed, || {
                space.backoff.set_lit(0);
                space.retries.set_lit(0);
            })
            .else_when(deed.alive, || space.retries.set_lit(0));
        self.tables.deadlines.write(self.index, deadline.pack());
        // `done` is pulled along only by what has changed anyway.
        let changed = space.base.ne(deed.base) | self.told(space.done).ne(deed.done) | space.rnr_wait.ne(deed.wait);
        self.out.progress.set(changed | deed.failed);
        self.m.when(deed.failed, || {
            self.count("failures");
            self.qp.failed.set_lit(1);
            let failed = QueuePair {
                failed: self.m.high(),
                ..self.qp
            };
            let address = self.op.qpn.part(0, self.sizes.queue_pair_bits);
            self.tables.queue_pairs.write(address, failed.pack());
        });
    }

    /// What SendProgress calls done at the end of an operation: by ACKs for requests, what arrived for responses and in roce.
    pub(super) fn told_done(&self) -> Signal<'a> {
        self.told(self.pulled_done(self.ack_is_missing()))
    }

    /// The same of this `done`.
    pub(super) fn told(&self, done: Signal<'a>) -> Signal<'a> {
        (self.op.space | self.is_roce()).mux(self.space.base, done)
    }

    fn ack_is_missing(&self) -> Signal<'a> {
        let unacknowledged = self.space.ack_wanted - self.space.done;
        !unacknowledged.msb() & unacknowledged.any()
    }

    /// `done`, which stays behind the base by 2^14 at most where no ACK moves it.
    fn pulled_done(&self, ack_is_missing: Signal<'a>) -> Signal<'a> {
        let space = &self.space;
        let lag = space.base - space.done;
        let too_far = !lag.msb() & lag.part(DONE_LAG_BIT, 23 - DONE_LAG_BIT).any();
        (too_far & !ack_is_missing).mux(space.base - self.m.lit(1 << DONE_LAG_BIT, 24), space.done)
    }

    /// PSNs that are compared with the base follow it, so that they never come half of all PSNs apart.
    fn keep_within_reach(&self, ack_is_missing: Signal<'a>) {
        let (m, space) = (self.m, &self.space);
        let done = self.pulled_done(ack_is_missing);
        space.done.set(done);
        m.when(!ack_is_missing, || space.ack_wanted.set(done));
        let ahead = space.base - space.generation;
        m.when(!ahead.msb() & ahead.any(), || {
            space.generation.set(space.base - m.lit(1, 24));
        });
    }
}
