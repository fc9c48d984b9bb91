//! The engine: one operation at a time on one sequence space, whose state stands in registers while it is worked on.
//!
//! Here is what all steps share: registers, outputs, what is true of a PSN or an order, and the end of an operation. The steps themselves are in the files
//! beside this one, by what they do.

use spraynic_config::descriptor::PathEventKind;
use spraynic_rtl::{Bundle, Module, Signal};

use super::layout::{Deadline, ORDER_BITS, QueuePair, Record, STAMP_BITS, STAMP_SHIFT, Sending, Sizes, Space};
use super::operation::Operation;
use super::tables::{Tables, in_window};

/// Steps of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Step {
    /// An operation may begin.
    Idle,
    /// The state of the sequence space comes from its table.
    Load,
    /// The first look at it.
    Begin,
    /// A SACK or ACK is believed or not.
    Check,
    /// A word of the bitmaps is asked for.
    WordRead,
    /// A word of the bitmaps is there.
    Word,
    /// The next bit of the word.
    Pick,
    /// The record of a packet that was acknowledged.
    Acknowledged,
    /// Its place in the log.
    Delivered,
    /// A sending before it on the same path.
    Link,
    /// Whether its packet is still awaited.
    Suspect,
    /// The word in which the base stands is asked for.
    AdvanceRead,
    /// How far the base moves in it.
    Advance,
    /// It moves.
    Advanced,
    /// The head of the log is asked for.
    ForgetRead,
    /// The head of the log.
    Forget,
    /// Whether it is settled, or overdue.
    Forgotten,
    /// A packet that is lost.
    Lose,
    /// A NACK.
    Refused,
    /// A packet that was sent, but not the plain next one.
    Sent,
    /// A timer fires.
    Fire,
    /// A probe leaves.
    Probe,
    /// A context: what a space becomes.
    Context,
    /// A context: a word of the bitmaps is cleared.
    Clear,
    /// A context: the second space comes from its table.
    Second,
    /// roce: a packet that was sent.
    RoceSent,
    /// roce: how far an answer moves the base.
    RoceAnswer,
    /// roce: what it asks for beside.
    RoceJudge,
    /// roce: what is lost is sent again, with all behind it.
    RoceRewind,
    /// The timer's delay.
    Delay,
    /// The timer is set, and what changed is told.
    Settle,
}

impl Step {
    pub(super) const BITS: u32 = 5;
    pub(super) const ALL: [Self; 31] = [
        Self::Idle,
        Self::Load,
        Self::Begin,
        Self::Check,
        Self::WordRead,
        Self::Word,
        Self::Pick,
        Self::Acknowledged,
        Self::Delivered,
        Self::Link,
        Self::Suspect,
        Self::AdvanceRead,
        Self::Advance,
        Self::Advanced,
        Self::ForgetRead,
        Self::Forget,
        Self::Forgotten,
        Self::Lose,
        Self::Refused,
        Self::Sent,
        Self::Fire,
        Self::Probe,
        Self::Context,
        Self::Clear,
        Self::Second,
        Self::RoceSent,
        Self::RoceAnswer,
        Self::RoceJudge,
        Self::RoceRewind,
        Self::Delay,
        Self::Settle,
    ];
}

/// What is done with the words of the bitmaps that are gone through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// All up to the cumulative PSN are acknowledged.
    Cumulative,
    /// Those of the SACK's bitmap are acknowledged: its first word.
    Bitmap,
    /// Its second word.
    BitmapEnd,
    /// The base, if it is the PSN behind the cumulative one, is declared lost if it is suspect.
    LoseBase,
    /// Likewise what the bitmap covers: its first word.
    LoseCovered,
    /// Its second word.
    LoseCoveredEnd,
    /// A timeout: all that is old is lost.
    Timeout,
}

impl Step {
    /// Whether only queue pairs of roce come here.
    pub(super) fn is_roce(self) -> bool {
        matches!(
            self,
            Self::RoceSent | Self::RoceAnswer | Self::RoceJudge | Self::RoceRewind
        )
    }
}

impl Phase {
    pub(super) const BITS: u32 = 3;
}

/// An event of the output ports: wires to drive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outputs<'a> {
    /// A PathEvent, where the queue pair spreads its packets.
    pub(super) event: Signal<'a>,
    pub(super) event_kind: Signal<'a>,
    pub(super) event_path: Signal<'a>,
    /// A Resend.
    pub(super) resend: Signal<'a>,
    pub(super) resend_psn: Signal<'a>,
    pub(super) resend_slot: Signal<'a>,
    pub(super) rewind: Signal<'a>,
    /// A SendProgress.
    pub(super) progress: Signal<'a>,
    /// A probe.
    pub(super) probe: Signal<'a>,
    pub(super) probe_entropy: Signal<'a>,
    pub(super) probe_port: Signal<'a>,
    /// A timer fired.
    pub(super) fired: Signal<'a>,
}

impl<'a> Outputs<'a> {
    pub(super) fn new(m: Module<'a>) -> Self {
        let wire = |name: &str, width| {
            let wire = m.wire(name, width);
            wire.set_lit(0);
            wire
        };
        Self {
            event: wire("path_event", 1),
            event_kind: wire("path_event_kind", 4),
            event_path: wire("path_event_path", 8),
            resend: wire("resend", 1),
            resend_psn: wire("resend_psn", 24),
            resend_slot: wire("resend_slot", 8),
            rewind: wire("resend_rewinds", 1),
            progress: wire("progress", 1),
            probe: wire("probe", 1),
            probe_entropy: wire("probe_entropy", 16),
            probe_port: wire("probe_port", 3),
            fired: wire("fired", 1),
        }
    }
}

/// Registers of the word that is gone through, and of the walks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walk<'a> {
    pub(super) phase: Signal<'a>,
    /// PSN of bit 0 of the word.
    pub(super) word_psn: Signal<'a>,
    /// Bits that are meant.
    pub(super) mask: Signal<'a>,
    /// Bits that are still to be looked at.
    pub(super) pending: Signal<'a>,
    /// The bit that is looked at: its PSN.
    pub(super) psn: Signal<'a>,
    /// PSN behind the cumulative one, within what was sent.
    pub(super) through: Signal<'a>,
    /// The bitmap, turned so that its bits stand where those of the PSNs do.
    pub(super) turned: Signal<'a>,
    /// The SACK is as new as any before it.
    pub(super) current: Signal<'a>,
    /// The link that is followed: order of the sending, and path and class of the list.
    pub(super) link: Signal<'a>,
    pub(super) link_path: Signal<'a>,
    pub(super) link_class: Signal<'a>,
    /// Bits by which the base moves.
    pub(super) run: Signal<'a>,
    /// The word of the lost bitmap as it becomes (timeouts).
    pub(super) lost: Signal<'a>,
    /// Count of words (clearing).
    pub(super) count: Signal<'a>,
    /// Distances from the base: of the cumulative PSN, the highest of the bitmap, the generation.
    pub(super) from_base: [Signal<'a>; 3],
}

/// Registers of what an operation did.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deed<'a> {
    pub(super) progressed: Signal<'a>,
    pub(super) alive: Signal<'a>,
    pub(super) restart: Signal<'a>,
    pub(super) failed: Signal<'a>,
    pub(super) status: Signal<'a>,
    /// What SendProgress said before.
    pub(super) base: Signal<'a>,
    pub(super) done: Signal<'a>,
    /// What the timer is set by.
    pub(super) delay: Signal<'a>,
    /// The timeout has declared nothing lost yet.
    pub(super) first: Signal<'a>,
    /// Context: it is the second space.
    pub(super) second: Signal<'a>,
    /// A packet that was sent begins a wait.
    pub(super) starts: Signal<'a>,
    /// SendProgress said `wait` before.
    pub(super) wait: Signal<'a>,
    /// roce: a response is missing; the oldest READ has all of its own; going back is not to be excused; an RNR wait begins.
    pub(super) gap: Signal<'a>,
    pub(super) popped: Signal<'a>,
    pub(super) forced: Signal<'a>,
    pub(super) rnr: Signal<'a>,
}

/// A packet that got its order, on the way into the tables: registers, one clock long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Store<'a> {
    pub(super) valid: Signal<'a>,
    pub(super) space: Signal<'a>,
    pub(super) record: Record<'a>,
    pub(super) psn: Signal<'a>,
    pub(super) class: Signal<'a>,
    pub(super) head: Signal<'a>,
}

/// Wires that count.
#[derive(Debug, Clone)]
pub(super) struct Counts<'a>(Vec<(&'static str, &'static str, Signal<'a>)>);

impl<'a> Counts<'a> {
    const NAMED: [(&'static str, &'static str); 16] = [
        ("sent", "packets sent for the first time"),
        ("sent_again", "packets sent again"),
        ("sent_ignored", "sent packets that have no place in a window"),
        ("sacks", "SACKs taken"),
        ("acks", "ACKs taken"),
        ("nacks", "NACKs that a packet is declared lost by"),
        ("naks", "NAKs taken"),
        ("drop_incredible", "feedback that speaks of what was never sent"),
        ("drop_stale", "feedback without effect"),
        ("lost_sack", "packets to be sent again, by SACKs"),
        ("lost_nack", "packets to be sent again, by NACKs"),
        ("lost_timer", "packets to be sent again, by the timer"),
        ("responses", "roce: READ responses and atomic ACKs taken"),
        ("rewinds", "roce: rewinds"),
        ("timeouts", "timeouts"),
        ("failures", "queue pairs that failed"),
    ];

    pub(super) fn new(m: Module<'a>) -> Self {
        let mut wires = vec![];
        for (name, doc) in Self::NAMED {
            let wire = m.wire(&format!("counts_{name}"), 1);
            wire.set_lit(0);
            wires.push((name, doc, wire));
        }
        Self(wires)
    }

    pub(super) fn all(&self) -> &[(&'static str, &'static str, Signal<'a>)] {
        &self.0
    }
}

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
    pub(super) deed: Deed<'a>,
    pub(super) store: Store<'a>,
    /// PSNs that are outstanding.
    pub(super) outstanding: Signal<'a>,
}

impl<'a> Engine<'a> {
    pub(super) fn new(m: Module<'a>, sizes: Sizes) -> Self {
        let reg = |name: &str, width| m.reg(name, width);
        let of_roce = |name: &str| if sizes.roce { reg(name, 1) } else { m.low() };
        let index_bits = sizes.space_bits();
        let walk = Walk {
            phase: reg("phase", Phase::BITS),
            word_psn: reg("word_psn", 24),
            mask: reg("word_mask", 64),
            pending: reg("pending", 64),
            psn: reg("bit_psn", 24),
            through: reg("through", 24),
            turned: reg("turned_bitmap", 64),
            current: reg("current", 1),
            link: reg("link", ORDER_BITS),
            link_path: reg("link_path", 8),
            link_class: reg("link_class", 2),
            run: reg("run", 7),
            lost: reg("lost_word", 64),
            count: reg("cleared", 8),
            from_base: [
                reg("cumulative_from_base", 24),
                reg("highest_from_base", 24),
                reg("generation_from_base", 24),
            ],
        };
        let deed = Deed {
            progressed: reg("progressed", 1),
            alive: reg("alive", 1),
            restart: reg("restart", 1),
            failed: reg("fails", 1),
            status: reg("fails_with", 8),
            base: reg("base_before", 24),
            done: reg("done_before", 24),
            delay: reg("delay", 40),
            first: reg("first_loss", 1),
            second: reg("second_space", 1),
            starts: reg("starts_wait", 1),
            wait: reg("wait_before", 1),
            gap: of_roce("response_is_missing"),
            popped: of_roce("read_ends"),
            forced: reg("rewind_is_forced", 1),
            rnr: reg("rnr_wait_begins", 1),
        };
        let store = Store {
            valid: reg("store_valid", 1).reset(0),
            space: reg("store_space", index_bits),
            record: Record::regs(m, "store"),
            psn: reg("store_psn", 24),
            class: reg("store_class", 2),
            head: reg("store_head", ORDER_BITS),
        };
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
            walk,
            deed,
            store,
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

    /// The bit of a PSN in its word.
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

    /// The operation did something: its end.
    pub(super) fn end(&self) {
        self.go(Step::Delay);
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
                delivered: self.m.low(),
            };
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

    /// [`Step::Delay`]: the time to wait, by what the operation did.
    pub(super) fn delay(&self) {
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
        self.go(Step::Settle);
    }

    /// [`Step::Settle`]: the timer, and what changed.
    pub(super) fn settle(&self) {
        let (space, deed) = (&self.space, &self.deed);
        let unacknowledged = space.ack_wanted - space.done;
        let ack_is_missing = !unacknowledged.msb() & unacknowledged.any();
        let awaits = (space.base.ne(space.next) | ack_is_missing).named("awaits");
        let at = (self.op.now + deed.delay.zero_extend(64)).named("new_deadline");
        let starts = deed.progressed | deed.alive | deed.restart | deed.rnr;
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
        let changed = space.base.ne(deed.base) | self.told_done().ne(deed.done) | space.rnr_wait.ne(deed.wait);
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
        self.go(Step::Idle);
    }

    /// What SendProgress calls done: by ACKs for requests, what arrived for responses and in roce.
    pub(super) fn told_done(&self) -> Signal<'a> {
        (self.op.space | self.is_roce()).mux(self.space.base, self.space.done)
    }
}
