//! What a bucket gains: its rate times the time since it was asked last, exact as far as a bucket can hold it.
//!
//! The lower half of the time, four seconds, times the rate of 40 bits takes six multipliers. The upper half counts whole bytes for each
//! unit of the rate, and matters only up to the largest burst, so 24 bits of both are enough: three multipliers. Anything above fills the bucket.

use super::carry_save::sum;
use spraynic_rtl::{Module, Signal, cat};

/// Bits of whole bytes, with a sign: of levels to compare, and of what is added to them.
pub(super) const WHOLE_BITS: u32 = 28;

/// What is gained: `fine` and `whole` together, or more than any bucket holds.
pub(super) struct Gain<'a> {
    /// 72 bits of 2^-32 bytes, in clock 4.
    pub(super) fine_4: Signal<'a>,
    /// Whole bytes, as three numbers of `WHOLE_BITS` bits, in clock 3. The last one is even.
    pub(super) whole_3: [Signal<'a>; 3],
    /// It is more than any burst, in clock 4.
    pub(super) over_4: Signal<'a>,
}

/// The gain of what is known in clock 1: the bucket's rate and the time at which it was asked last. Time that went back gains nothing.
pub(super) fn gain<'a>(
    m: Module<'a>,
    name: &str,
    rate_1: Signal<'a>,
    time_1: Signal<'a>,
    since_1: Signal<'a>,
) -> Gain<'a> {
    let named = |what: &str| format!("{name}_{what}");
    // Clock 1: the time since then; its upper half with and without what the lower half borrows.
    let half = |time: Signal<'a>, low: u32| time.part(low, 32).zero_extend(33);
    let low_1 = half(time_1, 0) - half(since_1, 0);
    let high_1 = half(time_1, 32) - half(since_1, 32);
    let borrowed_1 = cat(&[half(time_1, 32), m.lit(0, 1)]) - cat(&[half(since_1, 32), m.lit(1, 1)]);
    let rate = rate_1.delayed(&named("rate_2"));
    let low = low_1.part(0, 32).delayed(&named("elapsed_low_2"));
    let borrows = low_1.msb().delayed(&named("elapsed_borrows_2"));
    let high = borrows
        .mux(
            borrowed_1.part(1, 33).delayed(&named("elapsed_borrowed_2")),
            high_1.delayed(&named("elapsed_kept_2")),
        )
        .named(&named("elapsed_high"));

    // Clock 2: products.
    let goes_back = high.msb().named(&named("time_goes_back"));
    let product = |what: &str, rate: Signal<'a>, time: Signal<'a>| {
        let product = rate.mul_wide(time);
        goes_back
            .mux(m.lit(0, product.width()), product)
            .delayed(&named(&format!("{what}_3")))
    };
    let digits = [(0, 16), (16, 16), (32, 8)].map(|(low, width)| rate.part(low, width));
    let fine = [0, 1].map(|place| {
        let time = low.part(16 * place, 16);
        [0, 1, 2].map(|digit| product(&format!("product_{place}_{digit}"), digits[digit], time))
    });
    let (rate_low, rate_high) = (rate.part(0, 12), rate.part(12, 12));
    let (high_low, high_high) = (high.part(0, 12), high.part(12, 12));
    let whole_low = product("whole_low", rate_low, high_low);
    let crossed = [
        product("whole_crossed_0", rate_high, high_low),
        product("whole_crossed_1", rate_low, high_high),
    ];
    let beyond = ((rate >> 24).any() & high.part(0, 32).any())
        | (rate.any() & high.part(24, 8).any())
        | (rate_high.any() & high_high.any());
    let beyond_3 = (beyond & !goes_back).delayed(&named("beyond_3"));

    // Clock 3: the sum of the products.
    let zeros = |bits: u32| m.lit(0, bits);
    let [[p00, p01, p02], [p10, p11, p12]] = fine;
    let rows = [
        cat(&[p02, p00]).zero_extend(72),
        cat(&[p12, p01, zeros(16)]),
        cat(&[p10, zeros(16)]).zero_extend(72),
        cat(&[p11, zeros(32)]).zero_extend(72),
    ];
    let over = crossed
        .iter()
        .fold(beyond_3, |over, part| over | part.part(12, 12).any());
    let [crossed_0, crossed_1] = crossed.map(|part| cat(&[part.part(0, 12), zeros(12)]).zero_extend(WHOLE_BITS));
    Gain {
        fine_4: sum(&rows).delayed(&named("fine_4")),
        whole_3: [whole_low.zero_extend(WHOLE_BITS), crossed_0, crossed_1],
        over_4: over.delayed(&named("over_4")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spraynic_rtl::{Bits, Context, Evaluator};

    /// Bytes above which every bucket is full.
    const LARGEST: u128 = 1 << 56;

    #[test]
    fn gains_are_exact_up_to_the_largest_burst() {
        let context = Context::new();
        let m = context.module("gain_probe");
        let gain = gain(
            m,
            "own",
            m.input("rate", 40),
            m.input("time_ns", 64),
            m.input("since_ns", 64),
        );
        m.output_of("fine", gain.fine_4);
        m.output_of("whole", sum(&gain.whole_3).delayed("whole_4"));
        m.output_of("over", gain.over_4);
        let mut run = Evaluator::new(m.finish());
        run.reset();
        let full = (1u64 << 40) - 1;
        let rates = [
            0,
            1,
            3,
            0xfff,
            0x1000,
            0xffff,
            0xff_ffff,
            0x100_0000,
            0x12_3456_789a,
            full,
        ];
        let times = [
            0,
            1,
            0xffff,
            0x1234_5678,
            (1 << 32) - 1,
            1 << 32,
            0xfff_ffff_ffff,
            0x1000_ffff_ffff,
            (1 << 56) - 1,
            1 << 56,
            u64::MAX,
        ];
        let sinces = [0u64, 1, 0xffff_ffff, 0x1234_5678_9abc_def0];
        let (mut small, mut large) = (0, 0);
        for (rate, elapsed) in rates.iter().flat_map(|rate| times.map(|time| (*rate, time))) {
            for since in sinces {
                let time = since.wrapping_add(elapsed);
                run.set("rate", Bits::from_words(40, &[rate]));
                run.set("time_ns", Bits::from_words(64, &[time]));
                run.set("since_ns", Bits::from_words(64, &[since]));
                (0..3).for_each(|_| run.clock());
                let mut value = |name: &str| run.get(name).to_u128().expect("no more than 128 bits");
                let exact = if time < since {
                    0
                } else {
                    u128::from(rate) * u128::from(time - since)
                };
                let gained = value("fine") + (value("whole") << 32);
                if exact < LARGEST {
                    small += 1;
                    assert_eq!((gained, value("over")), (exact, 0), "{rate} times {elapsed}");
                } else {
                    large += 1;
                    assert!(gained >= LARGEST || value("over") == 1, "{rate} times {elapsed}");
                }
            }
        }
        assert!(small > 50 && large > 50, "{small} and {large}");
    }
}
