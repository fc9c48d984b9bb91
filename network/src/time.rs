//! Time of the simulation, in picoseconds: a 64-byte frame at 400 Gb/s takes 1,760 of them.

use std::ops::Add;

/// A time, or a span of it, in picoseconds; 2^64 of them are 213 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Picoseconds(pub u64);

impl Picoseconds {
    /// Nanoseconds as picoseconds.
    #[must_use]
    pub const fn of_ns(ns: u64) -> Self {
        Self(ns * 1_000)
    }

    /// What so many bytes take at a rate in Mb/s, not 0; rounded up.
    #[must_use]
    pub const fn of_bytes(bytes: u64, mbps: u64) -> Self {
        Self((bytes * 8_000_000).div_ceil(mbps))
    }

    /// Whole nanoseconds.
    #[must_use]
    pub const fn ns(self) -> u64 {
        self.0 / 1_000
    }

    /// What has passed since an earlier time; nothing if it is a later one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// Bytes that leave in this span at a rate in Mb/s.
    #[must_use]
    pub const fn bytes_at(self, mbps: u64) -> u64 {
        // 128 bits only where they are needed: their division takes a hundred clocks.
        match self.0.checked_mul(mbps) {
            Some(product) => product / 8_000_000,
            None => (self.0 as u128 * mbps as u128 / 8_000_000) as u64,
        }
    }
}

impl Add for Picoseconds {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_64_bytes_and_its_gap_takes_1_760_ps_at_400_gbps() {
        assert_eq!(Picoseconds::of_bytes(88, 400_000), Picoseconds(1_760));
        assert_eq!(Picoseconds(1_760).bytes_at(400_000), 88);
        assert_eq!(Picoseconds::of_bytes(1, 3).0, 2_666_667);
    }

    #[test]
    fn bytes_of_a_span_are_counted_where_its_product_with_the_rate_has_more_than_64_bits() {
        let second = Picoseconds::of_ns(1_000_000_000);
        assert_eq!(second.bytes_at(10_000_000), 1_250_000_000_000);
        assert_eq!(second.bytes_at(400_000), 50_000_000_000);
        assert_eq!(Picoseconds(u64::MAX).bytes_at(8_000_000), u64::MAX);
    }
}
