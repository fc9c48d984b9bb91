//! The window of one sequence space: which PSNs have been received, and what stands for each one.

use spraynic_wire::Psn;

/// Bits of a word of the bitmap.
const WORD: u32 = 64;

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
    /// A bit for each PSN, in words of 64, and how many are set.
    received: Vec<u64>,
    count: u32,
    kept: Vec<Kept>,
    /// roce: the next packet was missed or not taken, and it has not come since.
    gap: bool,
}

impl Window {
    /// A window of `size` PSNs, a power of two from 64 on, from `first` on.
    pub(super) fn new(first: Psn, size: u32) -> Self {
        Self {
            base: first,
            received: vec![0; size.div_ceil(WORD) as usize],
            count: 0,
            kept: vec![Kept::Slot(0); size as usize],
            gap: false,
        }
    }

    pub(super) fn base(&self) -> Psn {
        self.base
    }

    fn size(&self) -> u32 {
        self.kept.len() as u32
    }

    /// The place of a PSN in bitmap and map: 2^24 is a multiple of the size, so it is its low bits.
    fn index(&self, psn: Psn) -> usize {
        psn.value() as usize & (self.kept.len() - 1)
    }

    /// Word and bit of a PSN.
    fn bit(&self, psn: Psn) -> (usize, u64) {
        let index = self.index(psn);
        (index / WORD as usize, 1 << (index % WORD as usize))
    }

    fn is_set(&self, psn: Psn) -> bool {
        let (word, bit) = self.bit(psn);
        self.received[word] & bit != 0
    }

    /// The bits of the 64 PSNs from one on, around the end.
    fn bits(&self, first: Psn) -> u64 {
        let index = self.index(first);
        let (word, low) = (index / WORD as usize, index as u32 % WORD);
        let next = (word + 1) & (self.received.len() - 1);
        match low {
            0 => self.received[word],
            _ => self.received[word] >> low | self.received[next] << (WORD - low),
        }
    }

    /// Where a PSN stands. The 2^23 PSNs before the base count as received.
    pub(super) fn place(&self, psn: Psn) -> Place {
        match psn.distance(self.base) {
            ..0 => Place::Received,
            distance if distance as u32 >= self.size() => Place::Beyond,
            _ if self.is_set(psn) => Place::Received,
            _ => Place::New,
        }
    }

    /// Which of the 64 PSNs from `first` on have been received, as [`Self::place`] says it of each: bit i is PSN `first + i`.
    pub(super) fn places(&self, first: Psn) -> u64 {
        let ahead = first.distance(self.base);
        if ahead >= 0 && ahead as u32 + WORD <= self.size() {
            return self.bits(first);
        }
        (0..WORD).fold(0, |bitmap, bit| {
            bitmap | u64::from(self.place(first + bit) == Place::Received) << bit
        })
    }

    /// PSNs received from the base on, without a gap.
    fn run(&self) -> u32 {
        let mut run = 0;
        while run < self.size() {
            let ones = self.bits(self.base + run).trailing_ones();
            run += ones;
            if ones < WORD {
                break;
            }
        }
        run.min(self.size())
    }

    /// The first PSN that was not received, at or behind the base.
    pub(super) fn missing(&self) -> Psn {
        self.base + self.run()
    }

    /// Sets the bit of a new packet.
    pub(super) fn keep(&mut self, psn: Psn, kept: Kept) {
        let (word, bit) = self.bit(psn);
        self.count += u32::from(self.received[word] & bit == 0);
        self.received[word] |= bit;
        let index = self.index(psn);
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
        self.is_set(self.base).then(|| self.kept[self.index(self.base)])
    }

    /// Moves on by the PSN at the base, which had been received.
    pub(super) fn release(&mut self) {
        let (word, bit) = self.bit(self.base);
        self.count -= u32::from(self.received[word] & bit != 0);
        self.received[word] &= !bit;
        self.base = self.base.next();
    }

    /// Slots in which packets wait, by the low bits of their PSNs.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        let set = |index: usize| self.received[index / WORD as usize] >> (index % WORD as usize) & 1 == 1;
        let kept = self.kept.iter().enumerate().filter(move |(index, _)| set(*index));
        kept.filter_map(|(_, kept)| match kept {
            Kept::Slot(slot) => Some(*slot),
            Kept::Given { .. } => None,
        })
    }

    /// Packets received behind the first one that is missing.
    pub(super) fn beyond_gap(&self) -> u32 {
        self.count - self.run()
    }
}
