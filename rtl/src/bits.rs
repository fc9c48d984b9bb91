//! `Bits`: a value of any width, as constants and the evaluator use it.
//!
//! Little-endian words of 64 bits; bits above the width are always zero. Arithmetic is modulo 2^width.

use std::fmt;

/// A bit vector with a width of at least one bit.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Bits {
    width: u32,
    words: Vec<u64>,
}

/// Number of 64-bit words that hold `width` bits.
#[must_use]
pub(crate) const fn words_for(width: u32) -> usize {
    width.div_ceil(64) as usize
}

/// The mask of the valid bits in the most significant word.
pub(crate) const fn top_mask(width: u32) -> u64 {
    match width % 64 {
        0 => u64::MAX,
        rest => (1 << rest) - 1,
    }
}

impl Bits {
    /// Zero.
    #[must_use]
    pub fn zero(width: u32) -> Self {
        assert!(width > 0, "a bit vector has at least one bit");
        Self {
            width,
            words: vec![0; words_for(width)],
        }
    }

    /// All bits one.
    #[must_use]
    pub fn ones(width: u32) -> Self {
        Self::from_words(width, &vec![u64::MAX; words_for(width)])
    }

    /// From words, the least significant first; missing words are zero, bits above the width are cut off.
    #[must_use]
    pub fn from_words(width: u32, words: &[u64]) -> Self {
        let mut bits = Self::zero(width);
        let count = bits.words.len().min(words.len());
        bits.words[..count].copy_from_slice(&words[..count]);
        *bits.words.last_mut().expect("not empty") &= top_mask(width);
        bits
    }

    /// From a number; `None` if it does not fit.
    #[must_use]
    pub fn from_u128(width: u32, value: u128) -> Option<Self> {
        if width < 128 && value >> width != 0 {
            return None;
        }
        Some(Self::from_words(width, &[value as u64, (value >> 64) as u64]))
    }

    /// From bytes, byte 0 in bits 7:0; missing bytes are zero.
    #[must_use]
    pub fn from_bytes(width: u32, bytes: &[u8]) -> Self {
        let words: Vec<u64> = bytes
            .chunks(8)
            .map(|chunk| chunk.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
            .collect();
        Self::from_words(width, &words)
    }

    /// As bytes, bits 7:0 in byte 0.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(self.width.div_ceil(8) as usize);
        bytes
    }

    /// Width in bits.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.width
    }

    /// The words, the least significant first.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// One bit.
    #[must_use]
    pub fn bit(&self, index: u32) -> bool {
        assert!(index < self.width, "bit {index} of a value of {} bits", self.width);
        self.words[(index / 64) as usize] >> (index % 64) & 1 == 1
    }

    /// Sets one bit.
    pub fn set_bit(&mut self, index: u32, value: bool) {
        assert!(index < self.width, "bit {index} of a value of {} bits", self.width);
        let word = &mut self.words[(index / 64) as usize];
        *word = *word & !(1 << (index % 64)) | u64::from(value) << (index % 64);
    }

    /// Bits `low + width - 1` down to `low`.
    #[must_use]
    pub fn part(&self, low: u32, width: u32) -> Self {
        assert!(
            low + width <= self.width,
            "bits {low}+{width} of a value of {} bits",
            self.width
        );
        let mut out = Self::zero(width);
        for (index, word) in out.words.iter_mut().enumerate() {
            let from = low as usize + index * 64;
            let (at, shift) = (from / 64, from % 64);
            *word = self.words[at] >> shift;
            if shift != 0 && at + 1 < self.words.len() {
                *word |= self.words[at + 1] << (64 - shift);
            }
        }
        *out.words.last_mut().expect("not empty") &= top_mask(width);
        out
    }

    /// The values side by side, the first one most significant.
    #[must_use]
    pub fn cat(parts: &[Self]) -> Self {
        let width = parts.iter().map(|part| part.width).sum();
        let mut out = Self::zero(width);
        let mut low = 0u32;
        for part in parts.iter().rev() {
            for (index, word) in part.words.iter().enumerate() {
                let to = low as usize + index * 64;
                out.words[to / 64] |= word << (to % 64);
                if !to.is_multiple_of(64) && to / 64 + 1 < out.words.len() {
                    out.words[to / 64 + 1] |= word >> (64 - to % 64);
                }
            }
            low += part.width;
        }
        out
    }

    /// Whether all bits are zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Whether all bits are one.
    #[must_use]
    pub fn is_ones(&self) -> bool {
        *self == Self::ones(self.width)
    }

    /// The value as a number; `None` if it needs more than 64 bits.
    #[must_use]
    pub fn to_u64(&self) -> Option<u64> {
        self.words[1..].iter().all(|word| *word == 0).then(|| self.words[0])
    }

    /// The value as a number; `None` if it needs more than 128 bits.
    #[must_use]
    pub fn to_u128(&self) -> Option<u128> {
        let high = self.words.get(1).copied().unwrap_or(0);
        let rest = self.words.get(2..).unwrap_or(&[]);
        rest.iter()
            .all(|word| *word == 0)
            .then(|| u128::from(high) << 64 | u128::from(self.words[0]))
    }
}

/// By width, then as unsigned numbers.
impl Ord for Bits {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let width = self.width.cmp(&other.width);
        width.then_with(|| self.words.iter().rev().cmp(other.words.iter().rev()))
    }
}

impl PartialOrd for Bits {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::LowerHex for Bits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.width.div_ceil(4) as usize;
        let text: String = self.words.iter().rev().map(|word| format!("{word:016x}")).collect();
        formatter.write_str(&text[text.len() - digits..])
    }
}

impl fmt::Debug for Bits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}'h{self:x}", self.width)
    }
}

/// What can stand for a constant: integers, `bool`, [`Bits`].
pub trait IntoBits {
    /// The constant at this width; `None` if it does not fit.
    fn into_bits(self, width: u32) -> Option<Bits>;
}

macro_rules! into_bits {
    ($($ty:ty)*) => {$(
        impl IntoBits for $ty {
            fn into_bits(self, width: u32) -> Option<Bits> {
                u128::try_from(self).ok().and_then(|value| Bits::from_u128(width, value))
            }
        }
    )*};
}
into_bits!(i32 u8 u16 u32 u64 u128 usize);

impl IntoBits for bool {
    fn into_bits(self, width: u32) -> Option<Bits> {
        Bits::from_u128(width, u128::from(self))
    }
}

impl IntoBits for Bits {
    fn into_bits(self, width: u32) -> Option<Bits> {
        (self.width == width).then_some(self)
    }
}

/// Number of bits that hold the values `0..count`; at least 1.
#[must_use]
pub const fn index_width(count: u64) -> u32 {
    if count <= 2 {
        1
    } else {
        64 - (count - 1).leading_zeros()
    }
}
