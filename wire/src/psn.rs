//! Packet sequence numbers: 24 bits, compared modulo 2^24 (IBA volume 1, section 9.7.2).
//!
//! A PSN has no order of its own, so [`Psn`] is not `Ord`: every comparison here says in which window it holds.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// A packet sequence number, 24 bits. Sums and differences wrap at 2^24.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(from = "u32", into = "u32")]
pub struct Psn(u32);

impl Psn {
    /// Width in bits.
    pub const BITS: u32 = 24;
    /// Count of PSNs: 2^24.
    pub const COUNT: u32 = 1 << Self::BITS;
    /// The largest PSN, 0xFFFFFF; the next one is 0.
    pub const MAX: Self = Self(Self::COUNT - 1);
    /// Half of the sequence space, 2^23: the largest window in which two PSNs can be compared.
    pub const HALF: u32 = 1 << (Self::BITS - 1);

    /// The PSN with the low 24 bits of `value`.
    #[must_use]
    pub const fn new(value: u32) -> Self {
        Self(value & (Self::COUNT - 1))
    }

    /// The number, below 2^24.
    #[must_use]
    pub const fn value(self) -> u32 {
        self.0
    }

    /// The next PSN.
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0.wrapping_add(1))
    }

    /// How far `self` stands behind `origin` in the sequence: positive when newer, negative when older, in
    /// [-2^23, 2^23). A distance of exactly 2^23 is ambiguous and counts as older: it gives -2^23 from both sides.
    #[must_use]
    pub const fn distance(self, origin: Self) -> i32 {
        ((self.0.wrapping_sub(origin.0) << 8) as i32) >> 8
    }

    /// How many steps forward lead from `origin` to `self`, 0 to 2^24 - 1, whatever is older.
    #[must_use]
    pub const fn steps_from(self, origin: Self) -> u32 {
        self.0.wrapping_sub(origin.0) & (Self::COUNT - 1)
    }

    /// Whether `self` is older than `other`. Window: the 2^23 PSNs before `other`, the farthest included.
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        self.distance(other) < 0
    }

    /// Whether `self` is newer than `other`. Window: the 2^23 - 1 PSNs after `other`.
    #[must_use]
    pub const fn is_after(self, other: Self) -> bool {
        self.distance(other) > 0
    }

    /// Whether `self` is one of the `size` PSNs that begin with `start`: the window [start, start + size).
    /// A size of 2^24 or more holds every PSN.
    #[must_use]
    pub const fn is_in_window(self, start: Self, size: u32) -> bool {
        self.steps_from(start) < size
    }
}

impl From<u32> for Psn {
    /// Takes the low 24 bits.
    fn from(value: u32) -> Self {
        Self::new(value)
    }
}

impl From<Psn> for u32 {
    fn from(psn: Psn) -> Self {
        psn.0
    }
}

impl Add<u32> for Psn {
    type Output = Self;
    fn add(self, steps: u32) -> Self {
        Self::new(self.0.wrapping_add(steps))
    }
}

impl AddAssign<u32> for Psn {
    fn add_assign(&mut self, steps: u32) {
        *self = *self + steps;
    }
}

impl Sub<u32> for Psn {
    type Output = Self;
    fn sub(self, steps: u32) -> Self {
        Self::new(self.0.wrapping_sub(steps))
    }
}

impl SubAssign<u32> for Psn {
    fn sub_assign(&mut self, steps: u32) {
        *self = *self - steps;
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::LowerHex for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn half_the_space_counts_as_older_from_both_sides() {
        let (low, high) = (Psn::new(5), Psn::new(5 + Psn::HALF));
        assert_eq!(high.distance(low), -(1 << 23));
        assert_eq!(low.distance(high), -(1 << 23));
        assert!(high.is_before(low) && low.is_before(high));
        assert_eq!((high - 1).distance(low), (1 << 23) - 1);
        assert_eq!((high + 1).distance(low), -(1 << 23) + 1);
    }

    #[test]
    fn the_sequence_wraps_from_the_largest_to_zero() {
        assert_eq!(Psn::MAX.next(), Psn::new(0));
        assert_eq!(Psn::new(0) - 1, Psn::MAX);
        assert_eq!(Psn::new(2).distance(Psn::MAX), 3);
        assert_eq!(Psn::MAX.distance(Psn::new(2)), -3);
        assert!(Psn::MAX.is_before(Psn::new(0)));
        assert!(Psn::new(3).is_in_window(Psn::new(0xFF_FFF0), 20));
        assert!(!Psn::new(4).is_in_window(Psn::new(0xFF_FFF0), 20));
        assert!(!Psn::new(0xFF_FFEF).is_in_window(Psn::new(0xFF_FFF0), 20));
    }

    #[test]
    fn a_window_of_128_that_starts_at_13_ends_at_140() {
        let start = Psn::new(13);
        assert!(Psn::new(140).is_in_window(start, 128));
        for psn in 141..=144 {
            assert!(!Psn::new(psn).is_in_window(start, 128));
        }
        assert!(!start.is_in_window(start, 0));
    }

    proptest! {
        #[test]
        fn distance_undoes_addition(start: u32, steps in -(1i32 << 23)..(1i32 << 23)) {
            let start = Psn::new(start);
            let end = start + steps as u32;
            prop_assert_eq!(end.distance(start), steps);
            prop_assert_eq!(end - steps as u32, start);
            prop_assert_eq!(end.is_before(start), steps < 0);
            prop_assert_eq!(end.is_after(start), steps > 0);
            prop_assert_eq!(end.steps_from(start), (steps as u32) & 0xFF_FFFF);
            prop_assert_eq!(end.is_in_window(start, Psn::HALF), steps >= 0);
        }
    }
}
