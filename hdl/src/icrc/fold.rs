//! Folding: makes a polynomial of many bits shorter without changing it modulo that of CRC-32.
//!
//! A multiple of the CRC's polynomial with few terms, x^d + x^a + ... + 1, replaces each of the highest powers by a handful
//! of lower ones. Where no power lands in what is folded, all of them are folded at once: one exclusive or of five to ten bits.
//! Half the logic of taking the remainder directly, of which each bit is a parity of half of all bits.

use spraynic_rtl::Signal;

/// One fold: so many of the highest powers away, by a multiple with these exponents, the highest first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fold {
    /// Powers that are folded away.
    count: u32,
    /// Exponents of the multiple.
    multiple: &'static [u32],
}

// Found by an exhaustive search for the fewest terms below a gap of `count`; the test shows that they are multiples.
const M644: &[u32] = &[644, 245, 114, 97, 8, 0];
const M444: &[u32] = &[444, 203, 105, 78, 6, 0];
const M274: &[u32] = &[274, 93, 75, 19, 11, 0];
const M212: &[u32] = &[212, 83, 74, 62, 43, 29, 0];
const M139: &[u32] = &[139, 62, 59, 51, 28, 13, 8, 0];
const M137: &[u32] = &[137, 37, 34, 32, 19, 16, 14, 3, 0];
const M85: &[u32] = &[85, 48, 41, 39, 17, 13, 6, 3, 0];

/// The folds of a beat of `width` bits in order; what is left fits one parity for each bit of the register.
pub(crate) fn folds(width: u32) -> Vec<Fold> {
    let list: &[(u32, &'static [u32])] = match width {
        1024 => &[(320, M644), (240, M444), (160, M274), (92, M212), (72, M139), (37, M85)],
        512 => &[(176, M274), (120, M212), (72, M139), (37, M85)],
        256 => &[(96, M137), (37, M85)],
        128 => &[(37, M85)],
        _ => &[],
    };
    let fold = |(count, multiple): &(u32, &'static [u32])| Fold {
        count: *count,
        multiple,
    };
    list.iter().map(fold).collect()
}

/// Bits that are left of a beat of `width` bits by these folds.
pub(crate) fn width_after(width: u32, folds: &[Fold]) -> u32 {
    width - folds.iter().map(|fold| fold.count).sum::<u32>()
}

impl Fold {
    /// The shorter polynomial. Bit 0 is the highest power, as the first bit on the wire is.
    pub(crate) fn apply<'a>(&self, polynomial: Signal<'a>) -> Signal<'a> {
        let left = polynomial.width() - self.count;
        let high = polynomial.part(0, self.count);
        let low = polynomial.part(self.count, left);
        let shifted = self.shifts().map(|shift| high.zero_extend(left) << shift);
        shifted.fold(low, |sum, term| sum ^ term)
    }

    /// Where the highest power lands, counted from the highest that is left, for each term.
    fn shifts(&self) -> impl Iterator<Item = u32> + use<> {
        let Self { count, multiple } = *self;
        multiple[1..].iter().map(move |exponent| multiple[0] - exponent - count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::icrc::gf2::power_of_x;

    #[test]
    fn all_are_multiples_and_nothing_lands_in_what_is_folded() {
        for width in [64, 128, 256, 512, 1024] {
            let mut left = width;
            for Fold { count, multiple } in folds(width) {
                let remainder = multiple.iter().fold(0, |sum, exponent| sum ^ power_of_x(*exponent));
                assert_eq!(remainder, 0, "{multiple:?} is no multiple of the CRC's polynomial");
                assert!(
                    multiple[0] - multiple[1] >= count,
                    "{multiple:?} needs a gap of {count}"
                );
                left -= count;
                assert!(multiple[0] <= left, "{multiple:?} is too long for {left} bits");
            }
            assert!(left <= 123, "{left} bits are left of {width}");
        }
    }
}
