//! Steps of what is sent, and of context writes; and how an operation begins.

use spraynic_config::Profile;
use spraynic_config::descriptor::PathEventKind;
use spraynic_rtl::{Bundle, Signal};

use super::engine::Engine;
use super::layout::{Deadline, QueuePair, Record, Space};
use super::operation::{Operation, is_selective};
use super::step::Step;

impl<'a> Engine<'a> {
    /// Whether the sequence space in the registers sends, as far as its queue pair has not failed.
    fn is_open(&self) -> Signal<'a> {
        self.space.open & !self.qp.failed
    }

    /// Whether a packet of this sequence space is the plain next one: something is outstanding, so that the timer runs, and there is room.
    pub(super) fn is_plain(&self, index: Signal<'a>, psn: Signal<'a>) -> Signal<'a> {
        let space = &self.space;
        let full = (space.log_next - space.log_head).eq_lit(self.sizes.window);
        let room = self.outstanding.lt(self.m.lit(self.sizes.window, 24));
        let mine = self.held & self.is_open() & !self.is_roce() & self.index.eq(index);
        mine & psn.eq(space.next) & self.outstanding.any() & room & !full
    }

    /// Takes the next order for a packet: the tables follow in the next clock.
    pub(super) fn take_order(&self, packet: &Operation<'a>, copies: Signal<'a>) {
        let (m, space, store, index) = (self.m, &self.space, &self.store, self.index);
        let stamp = packet.now.part(super::layout::STAMP_SHIFT, super::layout::STAMP_BITS);
        let path = packet.path.part(0, self.sizes.path_bits()).zero_extend(8);
        store.valid.set_lit(1);
        store.space.set(index);
        store.psn.set(packet.psn);
        store.class.set(packet.class);
        store.head.set(space.log_head);
        store.record.set(&Record {
            order: space.log_next,
            slot: packet.slot,
            path,
            port: packet.port,
            entropy: packet.entropy,
            sent: stamp,
            copies,
            refused: m.low(),
        });
        space.log_next.set(space.log_next + m.lit(1, 16));
        let address = packet.path.part(0, self.sizes.path_bits());
        self.tables.paths.read(spraynic_rtl::cat(&[index, address]));
        self.tables.marks.read(self.sizes.word_address(index, space.log_next));
    }

    /// The plain next packet of the sequence space in the registers: all at once.
    pub(super) fn take_plain(&self, packet: &Operation<'a>) {
        self.take_order(packet, self.m.lit(0, 2));
        self.take_next(packet);
        self.event(PathEventKind::Sent, packet.path);
    }

    /// A packet is sent for the first time.
    pub(super) fn take_next(&self, packet: &Operation<'a>) {
        let (m, space) = (self.m, &self.space);
        let behind = packet.psn + m.lit(1, 24);
        space.next.set(behind);
        m.when(space.known.ne_lit(self.sizes.window), || {
            space.known.set(space.known + m.lit(1, 11));
        });
        m.when(packet.wants_ack, || space.ack_wanted.set(behind));
        self.count("sent");
    }

    /// [`Step::Begin`]: the first look of an operation at its sequence space.
    pub(super) fn begin(&self) {
        let (m, op, deed) = (self.m, &self.op, &self.deed);
        let roce = self.is_roce();
        deed.progressed.set_lit(0);
        deed.alive.set_lit(0);
        deed.restart.set_lit(0);
        deed.failed.set_lit(0);
        deed.status.set_lit(0);
        deed.first.set_lit(1);
        deed.second.set_lit(0);
        deed.base.set(self.space.base);
        deed.done.set(self.told(self.space.done));
        deed.wait.set(self.space.rnr_wait);
        deed.rnr.set_lit(0);
        self.walk.current.set_lit(0);
        m.when(op.context, || self.go(Step::Context))
            .else_when(!self.is_open(), || {
                m.when(op.sent, || self.count("sent_ignored"))
                    .else_when(!op.timer, || self.count("drop_stale"));
                self.go(Step::Idle);
            })
            .else_when(op.stale | (op.response & !roce) | ((op.sack | op.nack) & roce), || {
                self.count("drop_stale");
                self.go(Step::Idle);
            })
            .else_when(roce & (op.ack | op.response), || self.begin_answer())
            .else_when(op.sack | op.ack, || self.begin_arrivals())
            .else_when(op.nack, || self.begin_nack())
            .else_when(op.sent & self.is_plain(self.index, op.psn), || {
                self.take_plain(op);
                self.go(Step::Idle);
            })
            .else_when(op.sent, || {
                self.read_record(op.psn);
                self.read_bitmaps(op.psn);
                self.read_marks(self.space.log_head);
                deed.starts.set(op.psn.eq(self.space.base) | !self.space.armed);
                m.when(roce, || self.go(Step::RoceSent))
                    .otherwise(|| self.go(Step::Sent));
            })
            .otherwise(|| self.begin_timer());
    }

    /// [`Step::Sent`]: a packet that is sent again, or as the first of those outstanding, or when the log is full.
    pub(super) fn sent(&self) {
        let (m, op, space) = (self.m, &self.op, &self.space);
        let old = self.record();
        let bit = self.bit_of(op.psn);
        let is_next = op.psn.eq(space.next) & self.outstanding.lt(m.lit(self.sizes.window, 24));
        let acked = (self.tables.acked.word & bit).any();
        let again = !is_next & self.is_outstanding(op.psn) & !acked;
        let told_apart = old.copies.eq_lit(0) & old.entropy.ne(op.entropy);
        let full = (space.log_next - space.log_head).eq_lit(self.sizes.window);
        m.when(is_next | again, || {
            m.when(full, || {
                // The oldest falls out: evidence does not reach back further than a window of sendings.
                let head = space.log_head;
                let delivered = (self.marks().delivered & self.bit_of(head)).any();
                space.log_head.set(head + m.lit(1, 16));
                space.log_delivered.set(space.log_delivered - delivered.zero_extend(11));
            });
            self.deed.restart.set(self.deed.starts);
            m.when(is_next, || {
                self.take_order(op, m.lit(0, 2));
                // The head as it becomes.
                self.store.head.set(space.log_head + full.zero_extend(16));
                self.take_next(op);
            })
            .otherwise(|| {
                self.count("sent_again");
                self.tables
                    .lost
                    .write(self.word_address(op.psn), self.tables.lost.word & !bit);
                self.write_suspect(op.psn, self.tables.suspect.word & !bit);
                self.deed.told_apart.set(told_apart);
                self.close(old.order);
            });
        })
        .otherwise(|| self.count("sent_ignored"));
        self.event(PathEventKind::Sent, op.path);
        self.delay();
        m.when(again, || self.go(Step::Again));
    }

    /// [`Step::Again`]: a packet that is sent again gets its new order, while the old one is closed.
    pub(super) fn again(&self) {
        let m = self.m;
        let copies = self.deed.told_apart.mux(m.lit(1, 2), m.lit(2, 2));
        self.take_order(&self.op, copies);
        self.go(Step::Settle);
    }

    /// [`Step::Context`]: opens, closes or keeps a sequence space.
    pub(super) fn context(&self) {
        let (m, space, written, old) = (self.m, &self.space, &self.written, &self.qp);
        let second = self.deed.second;
        let known = if self.sizes.roce {
            m.high()
        } else {
            is_selective(written.profile)
        };
        let solar = written.profile.eq_lit(Profile::Solar.code());
        let sends = second.mux(written.receives & solar, written.sends & known);
        let was_open = space.open & !old.failed & old.profile.eq(written.profile);
        let fails_still = old.failed & written.sends;
        let opens = (sends & !was_open & !fails_still).named("opens");
        let psn = second.mux(self.first_psns[1], self.first_psns[0]);
        let keeps = sends & was_open;
        m.when(opens, || {
            let zero = |width| m.lit(0, width);
            space.set(&Space {
                open: m.high(),
                base: psn,
                next: psn,
                known: zero(11),
                log_head: zero(16),
                log_next: zero(16),
                log_delivered: zero(11),
                suspects: zero(16),
                generation: psn - m.lit(1, 24),
                done: psn,
                ack_wanted: psn,
                armed: m.low(),
                deadline: zero(64),
                backoff: zero(3),
                retries: zero(3),
                probes: zero(14),
                rewinding: m.low(),
                resent: m.low(),
                resent_psn: zero(24),
                resent_at: zero(20),
                rnr_wait: m.low(),
                rnr_retries: zero(3),
                reads: zero(5),
                first_read: zero(4),
                missing: zero(24),
                read_end: zero(24),
                read_slot: zero(8),
            });
        })
        .otherwise(|| {
            space.open.set(keeps);
            m.when(!keeps, || space.armed.set_lit(0));
        });
        let deadline = Deadline {
            armed: keeps & space.armed,
            at: space.deadline,
        };
        self.tables.deadlines.write(self.index, deadline.pack());
        self.walk.count.set_lit(0);
        m.when(opens, || self.go(Step::Clear)).otherwise(|| self.context_done());
    }

    /// [`Step::Clear`]: the bitmaps of a space that opens, word by word; and the paths' last orders, so that nothing of the time before delays anyone.
    pub(super) fn clear(&self) {
        let (m, sizes, count) = (self.m, &self.sizes, self.walk.count);
        let last = (sizes.window / super::layout::WORD).max(sizes.paths) - 1;
        let address = if sizes.word_bits() == 0 {
            self.index
        } else {
            spraynic_rtl::cat(&[self.index, count.part(0, sizes.word_bits())])
        };
        for table in [self.tables.acked, self.tables.lost, self.tables.suspect] {
            table.write(address, m.lit(0, 64));
        }
        let path = spraynic_rtl::cat(&[self.index, count.part(0, sizes.path_bits())]);
        self.tables.paths.write(path, m.lit(0, super::layout::ORDER_BITS));
        count.set(count + m.lit(1, 8));
        m.when(count.eq_lit(last), || self.context_done());
    }

    /// On to the second space, or to the end.
    fn context_done(&self) {
        let (m, written) = (self.m, &self.written);
        let finish = || {
            let queue_pair = QueuePair {
                failed: self.qp.failed & written.sends,
                ..*written
            };
            self.tables
                .queue_pairs
                .write(self.op.qpn.part(0, self.sizes.queue_pair_bits), queue_pair.pack());
            self.qp.set(&queue_pair);
            self.go(Step::Idle);
        };
        if self.sizes.responses {
            m.when(self.deed.second, finish).otherwise(|| self.go(Step::Second));
        } else {
            finish();
        }
    }

    /// [`Step::Second`]: the first space goes back to its table, and the second one comes.
    pub(super) fn second(&self) {
        self.swap(&self.op, self.m.high());
        self.deed.second.set_lit(1);
    }

    /// The sequence space in the registers, if there is one, goes back to its table, and another one comes.
    pub(super) fn swap(&self, op: &Operation<'a>, space: Signal<'a>) {
        let index = self.sizes.space_index(op.qpn, space);
        self.m.when(self.held, || {
            self.tables.spaces.write(self.index, self.space.pack());
        });
        self.tables.spaces.read(index);
        self.tables.queue_pairs.read(op.qpn.part(0, self.sizes.queue_pair_bits));
        self.index.set(index);
        self.held.set_lit(1);
        self.deed.second.set_lit(0);
        self.go(Step::Load);
    }

    /// [`Step::Load`].
    pub(super) fn load(&self) {
        let m = self.m;
        self.space.set(&Space::unpack(self.tables.spaces.word));
        m.when(self.deed.second & self.op.context, || self.go(Step::Context))
            .otherwise(|| {
                self.qp.set(&QueuePair::unpack(self.tables.queue_pairs.word));
                self.go(Step::Begin);
            });
    }
}
