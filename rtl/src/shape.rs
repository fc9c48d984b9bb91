//! Parts of signals and signals side by side: slices, extension, repetition, concatenation.

use crate::bits::Bits;
use crate::context::fail;
use crate::ir::{Kind, ModuleData, NodeId, Place};
use crate::signal::Signal;
use std::panic::Location;

impl<'a> Signal<'a> {
    /// Bits `high` down to `low`, both included.
    #[track_caller]
    #[must_use]
    pub fn slice(self, high: u32, low: u32) -> Self {
        let place = Location::caller();
        let width = self.width();
        if high < low || high >= width {
            fail(
                place,
                &format!("slice [{high}:{low}] of {}, which has {width} bits", self.describe()),
            );
        }
        self.part_at(low, high - low + 1, place)
    }

    /// `width` bits from bit `low` upwards.
    #[track_caller]
    #[must_use]
    pub fn part(self, low: u32, width: u32) -> Self {
        let place = Location::caller();
        let whole = self.width();
        if width == 0 || u64::from(low) + u64::from(width) > u64::from(whole) {
            fail(
                place,
                &format!(
                    "{width} bits from bit {low} of {}, which has {whole} bits",
                    self.describe()
                ),
            );
        }
        self.part_at(low, width, place)
    }

    pub(crate) fn part_at(self, low: u32, width: u32, place: Place) -> Self {
        if low == 0 && width == self.width() {
            return self;
        }
        let kind = self.module.data().node(self.id).kind.clone();
        match kind {
            Kind::Slice { of, low: inner } => Self {
                module: self.module,
                id: of,
            }
            .part_at(inner + low, width, place),
            Kind::Constant(value) => self.module.lit(value.part(low, width), width),
            Kind::Repeat { of, .. } if self.module.data().width(of) == 1 => Self {
                module: self.module,
                id: of,
            }
            .repeat_at(width, place),
            Kind::Cat(parts) if self.module.data().node(self.id).name.is_none() => {
                let mut pieces = vec![];
                let mut base = 0;
                for id in parts.iter().rev() {
                    let piece = Self {
                        module: self.module,
                        id: *id,
                    };
                    let (from, to) = (low.max(base), (low + width).min(base + piece.width()));
                    if from < to {
                        pieces.push(piece.part_at(from - base, to - from, place));
                    }
                    base += piece.width();
                }
                pieces.reverse();
                cat_at(&pieces, place)
            }
            _ => self.make(Kind::Slice { of: self.id, low }, width, place),
        }
    }

    /// One bit.
    #[track_caller]
    #[must_use]
    pub fn bit(self, index: u32) -> Self {
        self.slice(index, index)
    }

    /// The most significant bit.
    #[track_caller]
    #[must_use]
    pub fn msb(self) -> Self {
        self.bit(self.width() - 1)
    }

    /// The bit that `index` points to; 0 beyond the width.
    #[track_caller]
    #[must_use]
    pub fn bit_at(self, index: Self) -> Self {
        (self >> index).bit(0)
    }

    /// Every bit, the least significant first.
    #[track_caller]
    #[must_use]
    pub fn to_bits(self) -> Vec<Self> {
        let place = Location::caller();
        (0..self.width()).map(|index| self.part_at(index, 1, place)).collect()
    }

    /// With zeros above, to `width` bits.
    #[track_caller]
    #[must_use]
    pub fn zero_extend(self, width: u32) -> Self {
        let place = Location::caller();
        let mine = self.width();
        if width < mine {
            fail(
                place,
                &format!("zero_extend to {width} bits of {}, which has {mine}", self.describe()),
            );
        }
        if width == mine {
            return self;
        }
        cat_at(&[self.module.lit(0, width - mine), self], place)
    }

    /// With copies of the most significant bit above, to `width` bits.
    #[track_caller]
    #[must_use]
    pub fn sign_extend(self, width: u32) -> Self {
        let place = Location::caller();
        let mine = self.width();
        if width < mine {
            fail(
                place,
                &format!("sign_extend to {width} bits of {}, which has {mine}", self.describe()),
            );
        }
        if width == mine {
            return self;
        }
        cat_at(&[self.msb().repeat(width - mine), self], place)
    }

    /// Extended by zeros or cut to `width` bits, whichever it takes.
    #[track_caller]
    #[must_use]
    pub fn resize(self, width: u32) -> Self {
        if width <= self.width() {
            self.part(0, width)
        } else {
            self.zero_extend(width)
        }
    }

    /// `count` copies side by side.
    #[track_caller]
    #[must_use]
    pub fn repeat(self, count: u32) -> Self {
        self.repeat_at(count, Location::caller())
    }

    fn repeat_at(self, count: u32, place: Place) -> Self {
        if count == 0 {
            fail(place, "repeat 0 times has no bits");
        }
        if count == 1 {
            return self;
        }
        if let Some(value) = self.constant() {
            let whole = Bits::cat(&vec![value; count as usize]);
            let width = whole.width();
            return self.module.lit(whole, width);
        }
        let width = possible(u64::from(self.width()) * u64::from(count), place);
        self.make(Kind::Repeat { of: self.id, count }, width, place)
    }
}

/// The values side by side, the first one most significant.
#[track_caller]
#[must_use]
pub fn cat<'a>(parts: &[Signal<'a>]) -> Signal<'a> {
    cat_at(parts, Location::caller())
}

/// The values side by side, the first one least significant.
#[track_caller]
#[must_use]
pub fn cat_lsb_first<'a>(parts: &[Signal<'a>]) -> Signal<'a> {
    let place = Location::caller();
    cat_at(&parts.iter().rev().copied().collect::<Vec<_>>(), place)
}

pub(crate) fn cat_at<'a>(parts: &[Signal<'a>], place: Place) -> Signal<'a> {
    let Some(first) = parts.first() else {
        fail(place, "cat needs at least one part")
    };
    let module = first.module;
    // Flat, with neighbouring constants and neighbouring slices of one signal joined.
    let mut pieces: Vec<Piece> = vec![];
    for part in parts {
        first.same_module(*part, place);
        let data = module.data();
        let node = data.node(part.id);
        match &node.kind {
            Kind::Cat(inner) if node.name.is_none() => inner.iter().for_each(|id| append(&data, &mut pieces, *id)),
            _ => append(&data, &mut pieces, part.id),
        }
    }
    let flat: Vec<NodeId> = pieces
        .into_iter()
        .map(|piece| match piece {
            Piece::Whole(id) => id,
            Piece::Constant(values) => {
                let value = Bits::cat(&values);
                let width = value.width();
                module.shared(Kind::Constant(value), width, place).id
            }
            Piece::Slice { of, low, width } => Signal { module, id: of }.part_at(low, width, place).id,
        })
        .collect();
    if let [single] = flat[..] {
        return Signal { module, id: single };
    }
    let width = total(flat.iter().map(|id| module.data().width(*id)), place);
    module.shared(Kind::Cat(flat), width, place)
}

/// Widest value that can be built: 16 Mbit, far beyond what tools take.
const WIDEST: u64 = 1 << 24;

/// The sum of widths; stops where no tool could follow.
pub(crate) fn total(widths: impl IntoIterator<Item = u32>, place: Place) -> u32 {
    possible(widths.into_iter().map(u64::from).sum(), place)
}

pub(crate) fn possible(width: u64, place: Place) -> u32 {
    if width > WIDEST {
        fail(
            place,
            &format!("{width} bits side by side; the widest value has {WIDEST}"),
        );
    }
    width as u32
}

/// A part of a concatenation.
enum Piece {
    Whole(NodeId),
    /// The first one most significant.
    Constant(Vec<Bits>),
    Slice {
        of: NodeId,
        low: u32,
        width: u32,
    },
}

/// Appends a part below the others, joined with its neighbour where both are one piece.
fn append(data: &ModuleData, pieces: &mut Vec<Piece>, id: NodeId) {
    let node = data.node(id);
    match (&node.kind, pieces.last_mut()) {
        (Kind::Constant(value), Some(Piece::Constant(values))) => values.push(value.clone()),
        (Kind::Constant(value), _) => pieces.push(Piece::Constant(vec![value.clone()])),
        (
            Kind::Slice { of, low },
            Some(Piece::Slice {
                of: same,
                low: above,
                width,
            }),
        ) if node.name.is_none() && of == same && *above == low + node.width => {
            *above = *low;
            *width += node.width;
        }
        (Kind::Slice { of, low }, _) if node.name.is_none() => pieces.push(Piece::Slice {
            of: *of,
            low: *low,
            width: node.width,
        }),
        _ => pieces.push(Piece::Whole(id)),
    }
}
