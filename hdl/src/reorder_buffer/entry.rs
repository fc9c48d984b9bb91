//! What the map keeps of a packet, and the entries of a turn: what of a window is to leave, in order. Layouts only.

use super::bus::NUMBER_BITS;
use super::sizes::Sizes;
use spraynic_rtl::{MemoryHandle, Module, Signal, cat, cat_lsb_first, index_width};

/// What the map keeps of a PSN whose bit is set.
#[derive(Debug, Clone, Copy)]
pub(super) struct MapEntry<'a> {
    /// solar: it takes a receive request; mrc: it has immediate data.
    pub(super) special: Signal<'a>,
    /// solar: there is payload; mrc: it ends a message.
    pub(super) whole: Signal<'a>,
    /// solar: beats less one, and slot.
    pub(super) beats: Signal<'a>,
    pub(super) slot: Signal<'a>,
    /// solar: number of the packet among those that were decided.
    pub(super) number: Signal<'a>,
}

impl<'a> MapEntry<'a> {
    fn widths(sizes: &Sizes) -> [u32; 3] {
        if sizes.solar {
            [sizes.beat_bits, sizes.slot_bits, NUMBER_BITS]
        } else {
            [1, 1, NUMBER_BITS]
        }
    }

    pub(super) fn width(sizes: &Sizes) -> u32 {
        if sizes.solar {
            2 + Self::widths(sizes).iter().sum::<u32>()
        } else {
            2
        }
    }

    pub(super) fn pack(&self, sizes: &Sizes) -> Signal<'a> {
        if sizes.solar {
            cat_lsb_first(&[self.special, self.whole, self.beats, self.slot, self.number])
        } else {
            cat_lsb_first(&[self.special, self.whole])
        }
    }

    pub(super) fn unpack(sizes: &Sizes, packed: Signal<'a>) -> Self {
        let m = packed.module();
        let [beat_bits, slot_bits, number_bits] = Self::widths(sizes);
        let (beats, slot, number) = if sizes.solar {
            (
                packed.part(2, beat_bits),
                packed.part(2 + beat_bits, slot_bits),
                packed.part(2 + beat_bits + slot_bits, number_bits),
            )
        } else {
            (m.lit(0, 1), m.lit(0, 1), m.lit(0, number_bits))
        };
        Self {
            special: packed.bit(0),
            whole: packed.bit(1),
            beats,
            slot,
            number,
        }
    }
}

/// A packet to read out, or (mrc) a PSN to retire, or the mark of the end of a turn that neither of them is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) map: MapEntry<'a>,
    pub(super) psn: Signal<'a>,
    pub(super) index: Signal<'a>,
    pub(super) space: Signal<'a>,
    /// mrc: nothing is read.
    pub(super) retires: Signal<'a>,
    /// It is a mark: nothing leaves.
    pub(super) mark: Signal<'a>,
    /// It is the last one of its turn; which ended at a packet without a receive request.
    pub(super) ends: Signal<'a>,
    pub(super) starved: Signal<'a>,
}

impl<'a> Entry<'a> {
    pub(super) fn pack(&self, sizes: &Sizes) -> Signal<'a> {
        cat_lsb_first(&[
            self.map.pack(sizes),
            self.psn,
            self.index,
            self.space,
            self.retires,
            self.mark,
            self.ends,
            self.starved,
        ])
    }

    pub(super) fn unpack(sizes: &Sizes, packed: Signal<'a>) -> Self {
        let mut low = 0;
        let mut next = |width: u32| {
            low += width;
            packed.part(low - width, width)
        };
        Self {
            map: MapEntry::unpack(sizes, next(MapEntry::width(sizes))),
            psn: next(24),
            index: next(sizes.qpn_bits),
            space: next(1),
            retires: next(1),
            mark: next(1),
            ends: next(1),
            starved: next(1),
        }
    }
}

/// Banks of the map at most, and words of one at least.
const BANKS: u32 = 8;
const BANK_WORDS: u32 = 4096;

/// The map from PSN to what is kept of the packet: a RAM that lies all over a device, in banks whose words have registers before one is chosen.
pub(super) struct Map<'a> {
    banks: Vec<MemoryHandle<'a>>,
    bank_bits: u32,
    address_bits: u32,
}

impl<'a> Map<'a> {
    pub(super) fn new(m: Module<'a>, sizes: &Sizes) -> Self {
        let words = sizes.rows() * sizes.window;
        let bank_words = words.div_ceil(BANKS).next_power_of_two().max(BANK_WORDS);
        let banks = (0..words.div_ceil(bank_words))
            .map(|bank| {
                let depth = (words - bank * bank_words).min(bank_words);
                m.memory(&format!("map_{bank}"), depth, MapEntry::width(sizes))
            })
            .collect();
        Self {
            banks,
            bank_bits: bank_words.ilog2(),
            address_bits: index_width(words.into()),
        }
    }

    /// Bits of [`map_address`].
    pub(super) fn address_width(&self) -> u32 {
        self.address_bits
    }

    /// By bank: the address is one of its words.
    fn chosen(&self, address: Signal<'a>) -> Vec<Signal<'a>> {
        if self.banks.len() == 1 {
            return vec![address.module().high()];
        }
        let number = address >> self.bank_bits;
        (0..self.banks.len() as u64).map(|bank| number.eq_lit(bank)).collect()
    }

    pub(super) fn write(&self, enable: Signal<'a>, address: Signal<'a>, word: Signal<'a>) {
        for (bank, chosen) in self.banks.iter().zip(self.chosen(address)) {
            bank.write(enable & chosen, address.resize(bank.address_width()), word);
        }
    }

    /// The word three clocks later, from a register.
    pub(super) fn read(&self, enable: Signal<'a>, address: Signal<'a>) -> Signal<'a> {
        let words = self.banks.iter().zip(self.chosen(address)).enumerate();
        let word = words.map(|(number, (bank, chosen))| {
            let name = |what: &str| format!("map_{what}_{number}");
            let word = bank.read(enable, address.resize(bank.address_width()));
            let chosen = chosen.delayed(&name("chosen")).delayed(&name("given"));
            word.delayed(&name("word")).gate(chosen)
        });
        let word = word.reduce(|any, word| any | word);
        word.unwrap_or(address.lit(0)).delayed("map_word")
    }
}

/// Bits of the address of a map entry.
pub(super) fn map_address<'a>(sizes: &Sizes, space: Signal<'a>, index: Signal<'a>, psn: Signal<'a>) -> Signal<'a> {
    let row = sizes.row_address(space, index);
    let address = cat(&[row, psn.part(0, sizes.window_bits)]);
    address.resize(index_width(u64::from(sizes.rows() * sizes.window)))
}
