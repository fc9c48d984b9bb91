//! Rate times time, 40 by 64 bits, in four clocks: twelve products of 14 by 16 bits, one multiplier each, and their sum.

use spraynic_rtl::{Module, Signal, cat};

/// Bits of the product.
pub(super) const PRODUCT_BITS: u32 = 104;

/// The product, four registers behind its operands.
pub(super) fn product<'a>(m: Module<'a>, name: &str, rate: Signal<'a>, time: Signal<'a>) -> Signal<'a> {
    let rate = rate.zero_extend(42);
    let mut columns = vec![];
    for place in 0..4 {
        let part = time.part(16 * place, 16);
        let products: Vec<Signal<'a>> = (0..3)
            .map(|digit| {
                let product = rate.part(14 * digit, 14).mul_wide(part);
                product.delayed(&format!("{name}_product_{place}_{digit}"))
            })
            .collect();
        // Each has 30 bits and stands 14 bits above the one before.
        let low = cat(&[products[2], m.lit(0, 28)]).zero_extend(58);
        let sum = products[0].zero_extend(58) + (products[1].zero_extend(58) << 14) + low;
        columns.push(sum.delayed(&format!("{name}_column_{place}")));
    }
    let pair = |low: Signal<'a>, high: Signal<'a>, name: String| {
        let sum = low.zero_extend(74) + cat(&[high, m.lit(0, 16)]);
        sum.delayed(&name)
    };
    let low = pair(columns[0], columns[1], format!("{name}_low"));
    let high = pair(columns[2], columns[3], format!("{name}_high"));
    // The upper pair stands 32 bits above; the product has no more than 104.
    let upper = low.zero_extend(PRODUCT_BITS).part(32, PRODUCT_BITS - 32) + high.part(0, PRODUCT_BITS - 32);
    cat(&[upper, low.part(0, 32)]).delayed(&format!("{name}_gained"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spraynic_rtl::{Bits, Context, Evaluator};

    #[test]
    fn products_are_exact() {
        let context = Context::new();
        let m = context.module("product_probe");
        let gained = product(m, "own", m.input("rate", 40), m.input("time_ns", 64));
        m.output_of("gained", gained);
        let mut run = Evaluator::new(m.finish());
        run.reset();
        let rates = [0, 1, 0x3fff, 0x4000, 0x12_3456_789a, (1 << 40) - 1];
        let times = [0, 1, 0xffff, 0x1_0000, 0x1234_5678_9abc_def0, u64::MAX];
        for (rate, time) in rates.iter().flat_map(|rate| times.map(|time| (*rate, time))) {
            run.set("rate", Bits::from_words(40, &[rate]));
            run.set("time_ns", Bits::from_words(64, &[time]));
            (0..4).for_each(|_| run.clock());
            assert_eq!(run.get("gained").to_u128(), Some(u128::from(rate) * u128::from(time)));
        }
    }
}
