//! `lost_psns`: a bit in RAM for each PSN of a window that is to be sent again, in words of 64, for many queue pairs; the lowest one comes first.
//!
//! A flag for each word, which the owner keeps with what else it has of a queue pair, says whether the word holds anything: so nothing is cleared
//! when a queue pair opens. The owner has the steps; each of them is a call here. It never decides what is lost.

use spraynic_rtl::{MemoryHandle, Module, Signal, cat};

/// The RAM and its registers.
pub(crate) struct LostPsns<'a> {
    m: Module<'a>,
    /// Bits of a PSN in the window, and words of the window.
    window: u32,
    words: u32,
    /// The flags of the queue pair at hand: a register of the owner.
    flags: Signal<'a>,
    /// Word at hand, and what stands in it.
    word: Signal<'a>,
    data: Signal<'a>,
    read: Signal<'a>,
    write: Signal<'a>,
    value: Signal<'a>,
    /// The bit that was found.
    found: Signal<'a>,
    /// The scan stands at the word in which it began, for the first time.
    scan_first: Signal<'a>,
    /// First PSN whose bit is to be taken back.
    clear_from: Signal<'a>,
}

impl<'a> LostPsns<'a> {
    /// Windows of `window` PSNs, a power of two of at least 64. `index` is the queue pair at hand, `flags` its register of a bit a word.
    #[track_caller]
    pub(crate) fn new(m: Module<'a>, window: u32, index: Signal<'a>, flags: Signal<'a>) -> Self {
        let words = window / 64;
        let word_bits = words.trailing_zeros();
        let window = window.trailing_zeros();
        let address = |word: Signal<'a>| {
            if word_bits == 0 {
                index
            } else {
                cat(&[index, word.part(0, word_bits)])
            }
        };
        let wire = |name: &str, width: u32| {
            let wire = m.wire(name, width);
            wire.set_lit(0);
            wire
        };
        let ram: MemoryHandle<'a> = m.memory("lost", 1 << (index.width() + word_bits), 64);
        let (read, write, value) = (wire("lost_read", 1), wire("lost_write", 1), wire("lost_value", 64));
        let word = m.reg("lost_word", window).doc("word of 64 PSNs");
        ram.write(write, address(word), value);
        Self {
            m,
            window,
            words,
            flags,
            word,
            data: ram.read(read, address(word)),
            read,
            write,
            value,
            found: m.reg("lost_found", 64).doc("the lowest lost packet of the word"),
            scan_first: m
                .reg("scan_first", 1)
                .doc("the word in which the scan began, for the first time"),
            clear_from: m.reg("clear_from", 24).doc("first PSN whose bit is to be taken back"),
        }
    }

    /// Something is to be sent again.
    pub(crate) fn any(&self) -> Signal<'a> {
        self.flags.any()
    }

    /// Turns to the word of a PSN; a scan begins there.
    pub(crate) fn go_to(&self, psn: Signal<'a>) {
        self.word.set(psn.part(0, self.window) >> 6);
        self.scan_first.set_lit(1);
    }

    /// Reads the word at hand: it is there in the next clock, and stays.
    pub(crate) fn fetch(&self) {
        self.read.set_lit(1);
    }

    fn flag(&self) -> Signal<'a> {
        self.flags.zero_extend(16).bit_at(self.word.resize(4))
    }

    fn store(&self, value: Signal<'a>, flag: Signal<'a>) {
        self.write.set_lit(1);
        self.value.set(value);
        let mask = (self.m.lit(1, 16) << self.word.resize(4)).part(0, self.words);
        self.flags.set(flag.mux(self.flags | mask, self.flags & !mask));
    }

    /// Sets the bit of a PSN in the word that was read.
    pub(crate) fn mark(&self, psn: Signal<'a>) {
        let before = self.data.gate(self.flag());
        self.store(before | (self.m.lit(1, 64) << psn.part(0, 6)), self.m.high());
    }

    /// One step of a scan from the word of `go_to` on: 1 if the word at hand may hold something, and is fetched; otherwise the next one is at hand.
    pub(crate) fn look(&self) -> Signal<'a> {
        let flag = self.flag();
        self.m.when(flag, || self.fetch()).otherwise(|| self.next_word());
        flag
    }

    fn next_word(&self) {
        let words = self.word.lit(self.words - 1);
        self.word.set((self.word + self.word.lit(1)) & words);
        self.scan_first.set_lit(0);
    }

    /// Looks for the lowest bit in the word that was read, from the PSN `first` on where the scan began: 1 if there is one; otherwise the next
    /// word is at hand.
    pub(crate) fn find(&self, first: Signal<'a>) -> Signal<'a> {
        let all = self.m.lit(u64::MAX, 64);
        let from_first = all << first.part(0, 6);
        let candidates = (self.data & self.scan_first.mux(from_first, all)).named("lost_candidates");
        self.found.set(candidates & (!candidates + self.m.lit(1, 64)));
        let any = candidates.any();
        self.m.when(!any, || self.next_word());
        any
    }

    /// PSN of the bit that was found, in the window that begins at `first`.
    pub(crate) fn found_psn(&self, first: Signal<'a>) -> Signal<'a> {
        let bits: Vec<Signal<'a>> = (0..6u32)
            .map(|bit| {
                let places = (0..64u32).filter(|place| place >> bit & 1 == 1);
                places.fold(self.m.low(), |any, place| any | self.found.bit(place))
            })
            .collect();
        let low = cat(&bits.into_iter().rev().collect::<Vec<_>>());
        let place = (self.word.zero_extend(16) << 6).part(0, self.window) | low.zero_extend(self.window);
        let ahead = place - first.part(0, self.window);
        first + ahead.zero_extend(24)
    }

    /// Takes the bit that was found back: its packet is sent.
    pub(crate) fn take(&self) {
        let kept = self.data & !self.found;
        self.store(kept, kept.any());
    }

    /// From now on `clear_…` takes the bits from this PSN on back.
    pub(crate) fn clear_from(&self, psn: Signal<'a>) {
        self.clear_from.set(psn);
    }

    /// One step: the word of the next bit to be taken back, up to but not with `to`, is at hand; 1 if there is none.
    pub(crate) fn clear_next(&self, to: Signal<'a>) -> Signal<'a> {
        self.word.set(self.clear_from.part(0, self.window) >> 6);
        self.clear_from.eq(to)
    }

    /// Takes them back in the word that was read.
    pub(crate) fn clear_word(&self, to: Signal<'a>) {
        let m = self.m;
        let from = self.clear_from;
        let left = (to - from).named("clear_left");
        let bit = from.part(0, 6);
        let to_boundary = (m.lit(64, 7) - bit.zero_extend(7)).named("clear_to_boundary");
        let ends = left.le(to_boundary.zero_extend(24));
        let all = m.lit(u64::MAX, 64);
        let end = (bit.zero_extend(7) + left.part(0, 7)).named("clear_end");
        let above_end = end.bit(6).mux(m.lit(0, 64), all << end.part(0, 6));
        let mask = ((all << bit) & !above_end.gate(ends)).named("clear_mask");
        let kept = self.data & !mask;
        // A word without its flag holds nothing, whatever stands in it.
        self.store(kept, self.flag() & kept.any());
        from.set(ends.mux(to, from + to_boundary.zero_extend(24)));
    }
}
