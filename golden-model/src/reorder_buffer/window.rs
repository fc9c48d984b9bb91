//! The window of one sequence space: which PSNs have been received, and what stands for each one.

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

/// What is kept of a PSN whose bit is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// solar: the packet waits in this slot.
    Slot(u32),
    /// mrc: it was given; whether it ended a message, and with immediate.
    Given { ends_message: bool, immediate: bool },
}

/// PSNs from `base` on, by their low bits: a bit each, and what is kept where it is set.
#[derive(Debug, Clone)]
pub(super) struct Window {
    /// The first PSN that was not given (mrc: not retired).
    base: Psn,
    received: BitVec,
    kept: Vec<Kept>,
    /// roce: the next packet was missed or not taken, and it has not come since.
    gap: bool,
}

impl Window {
    /// A window of `size` PSNs, a power of two, from `first` on.
    pub(super) fn new(first: Psn, size: u32) -> Self {
        let size = size as usize;
        Self {
            base: first,
            received: bitvec![0; size],
            kept: vec![Kept::Slot(0); size],
            gap: false,
        }
    }

    pub(super) fn base(&self) -> Psn {
        self.base
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

    /// The first PSN that was not received, at or behind the base.
    pub(super) fn missing(&self) -> Psn {
        let run = (0..self.size()).take_while(|step| self.place(self.base + *step) == Place::Received);
        self.base + run.count() as u32
    }

    /// Sets the bit of a new packet.
    pub(super) fn keep(&mut self, psn: Psn, kept: Kept) {
        let index = self.index(psn);
        self.received.set(index, true);
        self.kept[index] = kept;
    }

    /// Moves on by the PSNs of the packet at the base, which was given at once.
    pub(super) fn pass(&mut self, psns: u32) {
        self.base += psns;
        self.gap = false;
    }

    /// roce: the packet at the base is missing, or was not taken; whether this is the first packet to say so since the base moved.
    pub(super) fn begin_gap(&mut self) -> bool {
        !std::mem::replace(&mut self.gap, true)
    }

    /// What is kept of the PSN at the base, if it has been received.
    pub(super) fn next_kept(&self) -> Option<Kept> {
        let index = self.index(self.base);
        self.received[index].then(|| self.kept[index])
    }

    /// Moves on by the PSN at the base, which had been received.
    pub(super) fn release(&mut self) {
        let index = self.index(self.base);
        self.received.set(index, false);
        self.base = self.base.next();
    }

    /// Slots in which packets wait.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.received.iter_ones().filter_map(|index| match self.kept[index] {
            Kept::Slot(slot) => Some(slot),
            Kept::Given { .. } => None,
        })
    }

    /// Packets received behind the first one that is missing.
    pub(super) fn beyond_gap(&self) -> u32 {
        self.received.count_ones() as u32 - self.missing().steps_from(self.base)
    }
}
