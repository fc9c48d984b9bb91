//! Sums of several numbers with one carry chain: three numbers become two with the same sum, bit by bit, until two are left.

use spraynic_rtl::{Signal, cat};

/// Two numbers whose sum is that of the three, modulo their width, which is one.
pub(super) fn compress<'a>([a, b, c]: [Signal<'a>; 3]) -> [Signal<'a>; 2] {
    let carry = (a & b) | (a & c) | (b & c);
    let carry = cat(&[carry.part(0, carry.width() - 1), carry.module().lit(0, 1)]);
    [a ^ b ^ c, carry]
}

/// The sum of two numbers or more, all of one width, modulo that width.
pub(super) fn sum<'a>(numbers: &[Signal<'a>]) -> Signal<'a> {
    let mut left = numbers.to_vec();
    while let [a, b, c, ..] = left[..] {
        left.drain(..3);
        left.extend(compress([a, b, c]));
    }
    left[0] + left[1]
}
