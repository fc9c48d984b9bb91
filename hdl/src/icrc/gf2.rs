//! Linear maps of 32 bits over GF(2), and those of CRC-32: the zero bit, squaring, and products of them.
//!
//! The state of a CRC register is a polynomial modulo that of CRC-32; reflected, the bit 31 - k of the register is the
//! coefficient of x^k. This file computes constants; no signal passes here.

/// Polynomial of CRC-32 (IEEE 802.3, section 3.2.9) without x^32, reflected: x^0 at bit 31.
pub(crate) const POLYNOMIAL: u32 = 0xEDB8_8320;

/// A linear map of 32 bits to 32 bits: the image of each bit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Map([u32; 32]);

/// One zero bit shifted into the register: multiplication by x.
pub(crate) fn times_x(state: u32) -> u32 {
    state >> 1 ^ if state & 1 == 1 { POLYNOMIAL } else { 0 }
}

/// The inverse of [`times_x`]. The polynomial has the term 1, so the top bit says whether it was subtracted.
fn divided_by_x(state: u32) -> u32 {
    if state >> 31 == 1 {
        (state ^ POLYNOMIAL) << 1 | 1
    } else {
        state << 1
    }
}

/// x^exponent modulo the polynomial.
pub(crate) fn power_of_x(exponent: u32) -> u32 {
    (0..exponent).fold(1 << 31, |state, _| times_x(state))
}

impl Map {
    /// The map that does this to each single bit.
    fn of(image: impl Fn(u32) -> u32) -> Self {
        Self(std::array::from_fn(|bit| image(1 << bit)))
    }

    /// Nothing changes.
    pub(crate) fn identity() -> Self {
        Self::of(|bit| bit)
    }

    /// `exponent` zero bits shifted in; a negative exponent takes them back.
    pub(crate) fn times_power_of_x(exponent: i64) -> Self {
        let step = Self::of(if exponent < 0 { divided_by_x } else { times_x });
        step.power(exponent.unsigned_abs())
    }

    /// Squaring: linear over GF(2), and multiplicative, so that it turns a product by x^n into one by x^2n.
    pub(crate) fn squaring() -> Self {
        Self::of(|bit| power_of_x(2 * (31 - bit.trailing_zeros())))
    }

    /// The inverse of squaring `times` times: the field has 2^32 elements, so squaring 32 times changes nothing.
    pub(crate) fn root(times: u32) -> Self {
        Self::squaring().power(u64::from(32 - times))
    }

    /// The image of a value.
    pub(crate) fn apply(&self, value: u32) -> u32 {
        let images = self.0.iter().enumerate().filter(|(bit, _)| value >> bit & 1 == 1);
        images.fold(0, |sum, (_, image)| sum ^ image)
    }

    /// This map after `first`.
    pub(crate) fn after(&self, first: &Self) -> Self {
        Self(first.0.map(|image| self.apply(image)))
    }

    /// This map `times` times.
    pub(crate) fn power(&self, times: u64) -> Self {
        let mut result = Self::identity();
        let mut square = self.clone();
        let mut rest = times;
        while rest > 0 {
            if rest & 1 == 1 {
                result = square.after(&result);
            }
            square = square.after(&square);
            rest >>= 1;
        }
        result
    }

    /// The images of the single bits, bit 0 first.
    pub(crate) fn columns(&self) -> &[u32; 32] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: [u32; 5] = [1, 0x8000_0000, 0xDEBB_20E3, 0x0123_4567, u32::MAX];

    /// Product of two polynomials by the school's method.
    fn product(left: u32, right: u32) -> u32 {
        let mut factor = left;
        let mut sum = 0;
        for power in 0..32 {
            if right >> (31 - power) & 1 == 1 {
                sum ^= factor;
            }
            factor = times_x(factor);
        }
        sum
    }

    #[test]
    fn zero_bits_are_taken_back() {
        for sample in SAMPLES {
            assert_eq!(divided_by_x(times_x(sample)), sample);
            let there = Map::times_power_of_x(4097).apply(sample);
            assert_eq!(Map::times_power_of_x(-4097).apply(there), sample);
        }
    }

    #[test]
    fn zero_bytes_lead_where_the_software_crc_goes() {
        for count in [1, 4, 61, 128] {
            // A CRC register of the hasher is the complement of its result.
            let mut hasher = crc32fast::Hasher::new_with_initial(!0xDEBB_20E3);
            hasher.update(&vec![0; count]);
            let map = Map::times_power_of_x(8 * count as i64);
            assert_eq!(map.apply(0xDEBB_20E3), !hasher.finalize());
        }
    }

    #[test]
    fn squaring_squares_and_roots_undo_it() {
        for sample in SAMPLES {
            assert_eq!(Map::squaring().apply(sample), product(sample, sample));
            for times in 1..12 {
                let power = Map::squaring().power(times.into()).apply(sample);
                assert_eq!(Map::root(times).apply(power), sample);
            }
        }
    }

    #[test]
    fn between_roots_a_long_shift_is_a_short_one() {
        for times in 5..10 {
            let long = Map::root(times).after(&Map::times_power_of_x(1 << times));
            assert_eq!(long, Map::times_power_of_x(1).after(&Map::root(times)));
        }
    }
}
