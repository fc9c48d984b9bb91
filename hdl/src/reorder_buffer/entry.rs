//! What the map keeps of a packet, and the entries of a turn: what of a window is to leave, in order. Layouts only.

use super::bus::NUMBER_BITS;
use super::sizes::Sizes;
use spraynic_rtl::{Signal, cat, cat_lsb_first, index_width};

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

/// Bits of the address of a map entry.
pub(super) fn map_address<'a>(sizes: &Sizes, space: Signal<'a>, index: Signal<'a>, psn: Signal<'a>) -> Signal<'a> {
    let row = sizes.row_address(space, index);
    let address = cat(&[row, psn.part(0, sizes.window_bits)]);
    address.resize(index_width(u64::from(sizes.rows() * sizes.window)))
}
