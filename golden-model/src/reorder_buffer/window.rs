//! The window of one sequence space: which PSNs have been received, and in which slot each one waits.

use bitvec::prelude::*;
use spraynic_wire::Psn;

/// Where a PSN stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Received: before the window, or its bit is set.
    Received,
    /// In the window, and not received.
    New,
    /// Behind the end of the window.
    Beyond,
}

/// PSNs from `base` on, by their low bits: a bit each, and the slot where it is set.
#[derive(Debug, Clone)]
pub(super) struct Window {
    /// The first PSN that was not given.
    base: Psn,
    /// The first PSN that was not received, at or behind `base`.
    missing: Psn,
    received: BitVec,
    /// mrc: the packet is the last one of its message.
    ends: BitVec,
    slots: Vec<u32>,
    /// roce: a packet beyond the next one came, and the next one has not come since.
    gap: bool,
}

impl Window {
    /// A window of `size` PSNs, a power of two, from `first` on.
    pub(super) fn new(first: Psn, size: u32) -> Self {
        let size = size as usize;
        Self {
            base: first,
            missing: first,
            received: bitvec![0; size],
            ends: bitvec![0; size],
            slots: vec![0; size],
            gap: false,
        }
    }

    pub(super) fn base(&self) -> Psn {
        self.base
    }

    pub(super) fn missing(&self) -> Psn {
        self.missing
    }

    fn size(&self) -> u32 {
        self.received.len() as u32
    }

    /// The place of a PSN in bitmap and map: 2^24 is a multiple of the size, so it is its low bits.
    fn index(&self, psn: Psn) -> usize {
        (psn.value() % self.size()) as usize
    }

    /// Where a PSN stands. The 2^23 PSNs before the base count as received.
    pub(super) fn place(&self, psn: Psn) -> Place {
        match psn.distance(self.base) {
            ..0 => Place::Received,
            distance if distance as u32 >= self.size() => Place::Beyond,
            _ if self.received[self.index(psn)] => Place::Received,
            _ => Place::New,
        }
    }

    /// Notes a new packet that waits in a slot.
    pub(super) fn store(&mut self, psn: Psn, slot: u32) {
        let index = self.index(psn);
        self.received.set(index, true);
        self.slots[index] = slot;
        self.find_missing();
    }

    /// Notes that the packet at the base, which was not received before, was given at once.
    pub(super) fn pass(&mut self) {
        self.base = self.base.next();
        self.missing = self.base;
        self.find_missing();
    }

    /// Notes a new packet that was given, in any order (mrc), and moves the window over what is complete. Gives the messages that
    /// are complete by it.
    pub(super) fn note(&mut self, psn: Psn, ends_message: bool) -> u32 {
        let index = self.index(psn);
        self.received.set(index, true);
        self.ends.set(index, ends_message);
        let mut messages = 0;
        while self.received[self.index(self.base)] {
            let index = self.index(self.base);
            messages += u32::from(self.ends[index]);
            self.received.set(index, false);
            self.ends.set(index, false);
            self.base = self.base.next();
        }
        self.missing = self.base;
        messages
    }

    /// roce: moves on by the PSNs of the packet at the base, which was given.
    pub(super) fn advance(&mut self, psns: u32) {
        self.base += psns;
        self.missing = self.base;
        self.gap = false;
    }

    /// roce: a packet beyond the base came; whether it is the first one since the base moved.
    pub(super) fn begin_gap(&mut self) -> bool {
        !std::mem::replace(&mut self.gap, true)
    }

    pub(super) fn is_next_stored(&self) -> bool {
        self.received[self.index(self.base)]
    }

    /// Gives the slot of the packet at the base and moves on.
    pub(super) fn release(&mut self) -> Option<u32> {
        let index = self.index(self.base);
        if !self.received[index] {
            return None;
        }
        self.received.set(index, false);
        self.base = self.base.next();
        Some(self.slots[index])
    }

    /// Slots in which packets wait.
    pub(super) fn stored(&self) -> impl Iterator<Item = u32> + '_ {
        self.received.iter_ones().map(|index| self.slots[index])
    }

    /// Packets received behind the first one that is missing.
    pub(super) fn beyond_gap(&self) -> u32 {
        self.received.count_ones() as u32 - self.missing.steps_from(self.base)
    }

    fn find_missing(&mut self) {
        while self.place(self.missing) == Place::Received {
            self.missing = self.missing.next();
        }
    }
}
