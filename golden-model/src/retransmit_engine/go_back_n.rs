//! The window of a roce queue pair: acknowledgements are cumulative, and what is lost is sent again together with all behind it.
//!
//! It knows where READs and atomics stand among the PSNs, because their responses alone acknowledge them. It keeps no record of single packets but the
//! slot of each. Theory: `docs/src/blocks/retransmit_engine.md`.

use std::collections::VecDeque;

use spraynic_config::descriptor::{Resend, SentPacket};
use spraynic_wire::Psn;

use super::window::{Noted, Stamp};

/// A READ or an atomic whose responses are awaited.
#[derive(Debug, Clone, Copy)]
struct Awaited {
    /// PSN of the first response that has not come.
    missing: Psn,
    /// PSN behind the last response.
    end: Psn,
    slot: u8,
}

/// What an answer did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Progress {
    /// The base moved.
    pub(super) moved: bool,
    /// It says that a response is missing.
    pub(super) gap: bool,
}

#[derive(Debug, Clone)]
pub(super) struct GoBackN {
    base: Psn,
    next: Psn,
    /// Slot of the request, by PSN; those of READs and atomics stand in `reads`.
    slots: Vec<u8>,
    reads: VecDeque<Awaited>,
    read_limit: usize,
    /// It was asked to send again from `base` on, and that has not begun.
    rewinding: bool,
    /// The packet that last was sent again as the first one, and when.
    resent: Option<(Psn, Stamp)>,
}

impl GoBackN {
    pub(super) fn new(psn: Psn, window: u32, read_limit: u32) -> Self {
        Self {
            base: psn,
            next: psn,
            slots: vec![0; window as usize],
            reads: VecDeque::with_capacity(read_limit as usize),
            read_limit: read_limit as usize,
            rewinding: false,
            resent: None,
        }
    }

    pub(super) fn base(&self) -> Psn {
        self.base
    }

    pub(super) fn next(&self) -> Psn {
        self.next
    }

    /// Whether the oldest packet waits to be sent again.
    pub(super) fn base_waits(&self) -> bool {
        self.rewinding
    }

    /// Notes that a packet leaves.
    pub(super) fn sent(&mut self, packet: &SentPacket, now_ns: u64) -> Noted {
        let psn = Psn::new(packet.psn);
        let outstanding = self.next.steps_from(self.base);
        let window = self.slots.len() as u32;
        if psn == self.next {
            let fits = outstanding == 0 || outstanding + packet.psns <= window;
            if !fits || (packet.response && self.reads.len() == self.read_limit) {
                return Noted::Ignored;
            }
            self.next = psn + packet.psns;
            if packet.response {
                self.reads.push_back(Awaited {
                    missing: psn,
                    end: self.next,
                    slot: packet.slot,
                });
            } else {
                let index = psn.value() as usize & (self.slots.len() - 1);
                self.slots[index] = packet.slot;
            }
            Noted::New
        } else if psn.steps_from(self.base) < outstanding {
            if psn == self.base {
                self.rewinding = false;
                self.resent = Some((psn, Stamp::of(now_ns)));
            }
            Noted::Again
        } else {
            Noted::Ignored
        }
    }

    /// All before `end` arrived; READs and atomics among it only as far as their responses came.
    pub(super) fn acknowledged_before(&mut self, end: Psn) -> Progress {
        let ahead = end.distance(self.base);
        if ahead <= 0 {
            return Progress::default();
        }
        let limit = self.reads.front().map(|read| read.missing.steps_from(self.base));
        let steps = limit.map_or(ahead as u32, |limit| limit.min(ahead as u32));
        self.move_to(self.base + steps);
        Progress {
            moved: steps > 0,
            gap: steps < ahead as u32,
        }
    }

    fn move_to(&mut self, base: Psn) {
        self.base = base;
        // With nothing left, what was asked for never begins.
        self.rewinding &= base != self.next;
    }

    /// A response came, with a PSN that is outstanding. Where none is awaited, it acknowledges no more than an ACK of what is before it.
    pub(super) fn response(&mut self, psn: Psn) -> Progress {
        let before = self.acknowledged_before(psn);
        let Some(read) = self.reads.front_mut().filter(|read| read.missing == psn) else {
            return before;
        };
        read.missing = psn.next();
        if read.missing == read.end {
            self.reads.pop_front();
        }
        self.move_to(psn.next());
        Progress {
            moved: true,
            gap: false,
        }
    }

    /// Asks to send again from the base on; `None`: nothing is outstanding, it was asked already, or what was sent again may be under way still.
    pub(super) fn rewind(&mut self, forced: bool, base_rtt_ns: u32, now_ns: u64) -> Option<Resend> {
        let under_way = self
            .resent
            .is_some_and(|(psn, sent)| psn == self.base && !sent.is_older_than(base_rtt_ns, now_ns));
        if self.base == self.next || self.rewinding || (under_way && !forced) {
            return None;
        }
        self.rewinding = true;
        let read = self.reads.front().filter(|read| read.missing == self.base);
        let index = self.base.value() as usize & (self.slots.len() - 1);
        Some(Resend {
            psn: self.base.value(),
            slot: read.map_or(self.slots[index], |read| read.slot),
            rewind: true,
            ..Resend::default()
        })
    }
}
