//! Registers of the engine beside the state of the sequence space, and the wires by which its steps say what follows.

use spraynic_rtl::{Bundle, Module, Signal};

use super::layout::{ORDER_BITS, Record};
use super::step::Phase;

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

/// Registers of the word that is gone through, and of the head of the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walk<'a> {
    pub(super) phase: Signal<'a>,
    /// PSN of bit 0 of the word.
    pub(super) word_psn: Signal<'a>,
    /// PSN of bit 0 of the next one, and whether there is one.
    pub(super) upcoming: Signal<'a>,
    pub(super) goes_on: Signal<'a>,
    /// Bits that are meant.
    pub(super) mask: Signal<'a>,
    /// Bits that are still to be looked at.
    pub(super) pending: Signal<'a>,
    /// The bit that is looked at: its PSN.
    pub(super) psn: Signal<'a>,
    /// The SACK is as new as any before it.
    pub(super) current: Signal<'a>,
    /// Orders by which the head of the log moves, and which of them were delivered.
    pub(super) run: Signal<'a>,
    pub(super) dropped: Signal<'a>,
    /// The word of the lost bitmap as it becomes (timeouts).
    pub(super) lost: Signal<'a>,
    /// Count of words (clearing).
    pub(super) count: Signal<'a>,
    /// Distances from the base: of the cumulative PSN, the highest of the bitmap, the generation.
    pub(super) from_base: [Signal<'a>; 3],
}

/// Registers of the stages behind [`super::step::Step::Pick`]: see `acknowledged.rs`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stages<'a> {
    /// The record of `Walk::psn` is there.
    pub(super) record_valid: Signal<'a>,
    /// The place in the log of what was sent in this order is there: it is settled, or delivered.
    pub(super) log_valid: Signal<'a>,
    pub(super) order: Signal<'a>,
    pub(super) delivers: Signal<'a>,
    /// A sending before on the same path is there: its order, and path and class of the list.
    pub(super) link_valid: Signal<'a>,
    pub(super) link: Signal<'a>,
    pub(super) path: Signal<'a>,
    pub(super) class: Signal<'a>,
    /// Its packet becomes suspect, unless it was acknowledged meanwhile.
    pub(super) suspect_valid: Signal<'a>,
    pub(super) suspect: Signal<'a>,
    /// The word of the base has changed: as it became, then how far the base moves, and the bits that it passes.
    pub(super) merged_valid: Signal<'a>,
    pub(super) merged: Signal<'a>,
    pub(super) base_valid: Signal<'a>,
    pub(super) base_run: Signal<'a>,
    pub(super) remains: Signal<'a>,
    /// The base has reached the end of a word, and there is more behind it.
    pub(super) crosses: Signal<'a>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(m: Module<'a>) -> Self {
        let reg = |name: &str, width| m.reg(name, width);
        Self {
            phase: reg("phase", Phase::BITS),
            word_psn: reg("word_psn", 24),
            upcoming: reg("upcoming_word_psn", 24),
            goes_on: reg("upcoming_word", 1),
            mask: reg("word_mask", 64),
            pending: reg("pending", 64),
            psn: reg("bit_psn", 24),
            current: reg("current", 1),
            run: reg("head_run", 7),
            dropped: reg("dropped_deliveries", 64),
            lost: reg("lost_word", 64),
            count: reg("cleared", 8),
            from_base: [
                reg("cumulative_from_base", 24),
                reg("highest_from_base", 24),
                reg("generation_from_base", 24),
            ],
        }
    }
}

impl<'a> Stages<'a> {
    pub(super) fn new(m: Module<'a>) -> Self {
        let reg = |name: &str, width| m.reg(name, width);
        let valid = |name: &str| m.reg(name, 1).reset(0);
        Self {
            record_valid: valid("record_valid"),
            log_valid: valid("log_valid"),
            order: reg("log_order", ORDER_BITS),
            delivers: reg("log_delivers", 1),
            link_valid: valid("link_valid"),
            link: reg("link_order", ORDER_BITS),
            path: reg("link_path", 8),
            class: reg("link_class", 2),
            suspect_valid: valid("suspect_valid"),
            suspect: reg("suspect_psn", 24),
            merged_valid: valid("merged_valid"),
            merged: reg("merged", 64),
            base_valid: valid("base_valid"),
            base_run: reg("base_run", 7),
            remains: reg("remains_acknowledged", 64),
            crosses: valid("base_crosses"),
        }
    }

    /// No packet is in any stage.
    pub(super) fn rest(&self) -> Signal<'a> {
        !(self.record_valid
            | self.log_valid
            | self.link_valid
            | self.suspect_valid
            | self.merged_valid
            | self.base_valid)
    }
}

/// Wires by which steps ask for what several of them do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asks<'a> {
    /// A word of the bitmaps is to be read.
    pub(super) word: Signal<'a>,
    /// A word of the bitmaps is to be gone through.
    pub(super) found: Signal<'a>,
    /// The timer's delay is to be worked out.
    pub(super) delay: Signal<'a>,
    /// The operation ends.
    pub(super) settle: Signal<'a>,
}

impl<'a> Asks<'a> {
    pub(super) fn new(m: Module<'a>) -> Self {
        let wire = |name: &str| {
            let wire = m.wire(name, 1);
            wire.set_lit(0);
            wire
        };
        Self {
            word: wire("asks_word"),
            found: wire("word_found"),
            delay: wire("asks_delay"),
            settle: wire("settles"),
        }
    }
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
    /// A packet that is sent again can be told apart from its first copy.
    pub(super) told_apart: Signal<'a>,
    /// SendProgress said `wait` before.
    pub(super) wait: Signal<'a>,
    /// roce: a response is missing; the oldest READ has all of its own; going back is not to be excused; an RNR wait begins.
    pub(super) gap: Signal<'a>,
    pub(super) popped: Signal<'a>,
    pub(super) forced: Signal<'a>,
    pub(super) rnr: Signal<'a>,
}

impl<'a> Deed<'a> {
    pub(super) fn new(m: Module<'a>, roce: bool) -> Self {
        let reg = |name: &str, width| m.reg(name, width);
        let of_roce = |name: &str| if roce { reg(name, 1) } else { m.low() };
        Self {
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
            told_apart: reg("told_apart", 1),
            wait: reg("wait_before", 1),
            gap: of_roce("response_is_missing"),
            popped: of_roce("read_ends"),
            forced: reg("rewind_is_forced", 1),
            rnr: reg("rnr_wait_begins", 1),
        }
    }
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

impl<'a> Store<'a> {
    pub(super) fn new(m: Module<'a>, index_bits: u32) -> Self {
        let reg = |name: &str, width| m.reg(name, width);
        Self {
            valid: reg("store_valid", 1).reset(0),
            space: reg("store_space", index_bits),
            record: Record::regs(m, "store"),
            psn: reg("store_psn", 24),
            class: reg("store_class", 2),
            head: reg("store_head", ORDER_BITS),
        }
    }
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
        (
            "nacks",
            "NACKs taken: a packet is lost by it, or the peer has no room for it",
        ),
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
