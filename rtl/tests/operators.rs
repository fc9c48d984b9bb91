//! `Bits` and every operator of the evaluator against plain arithmetic on `u128`.

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use spraynic_rtl::{Bits, Context, Evaluator, IntoBits, Signal, cat, cat_lsb_first, index_width};

fn mask(width: u32, value: u128) -> u128 {
    if width == 128 {
        value
    } else {
        value & ((1 << width) - 1)
    }
}

fn signed(width: u32, value: u128) -> i128 {
    ((value << (128 - width)) as i128) >> (128 - width)
}

/// A value of this width as often zero, ones or small as anything else.
fn value(width: u32) -> impl Strategy<Value = u128> {
    prop_oneof![
        any::<u128>().prop_map(move |value| mask(width, value)),
        Just(0),
        Just(mask(width, u128::MAX)),
        Just(mask(width, 1 << (width - 1))),
        (0u128..4).prop_map(move |value| mask(width, value)),
    ]
}

fn operands() -> impl Strategy<Value = (u32, u128, u128)> {
    (1u32..=128).prop_flat_map(|width| (Just(width), value(width), value(width)))
}

fn evaluate(
    width: u32,
    a: u128,
    b: u128,
    build: impl for<'a> Fn(Signal<'a>, Signal<'a>) -> Vec<Signal<'a>>,
) -> Vec<Bits> {
    let context = Context::new();
    let m = context.module("m");
    let (x, y) = (m.input("a", width), m.input("b", width));
    x.ignore();
    y.ignore();
    let outputs = build(x, y);
    for (index, output) in outputs.iter().enumerate() {
        m.output_of(&format!("y{index}"), *output);
    }
    let mut run = Evaluator::new(m.finish());
    run.set("a", a);
    run.set("b", b);
    (0..outputs.len()).map(|index| run.get(&format!("y{index}"))).collect()
}

/// The values of both with constants in place of inputs: what is simplified while building gives the same.
fn both(width: u32, a: u128, b: u128, build: impl for<'a> Fn(Signal<'a>, Signal<'a>) -> Vec<Signal<'a>>) -> Vec<u128> {
    let runs = [
        evaluate(width, a, b, |x, y| build(x, y)),
        evaluate(width, a, b, |x, _| build(x, x.lit(b))),
        evaluate(width, a, b, |x, y| build(x.lit(a), y)),
        evaluate(width, a, b, |x, _| build(x.lit(a), x.lit(b))),
    ];
    let first = &runs[0];
    runs.iter()
        .for_each(|other| assert_eq!(first, other, "constants change the value"));
    first
        .iter()
        .map(|bits| bits.to_u128().expect("no more than 128 bits"))
        .collect()
}

/// Failing cases are kept, to be run first the next time.
fn config(cases: u32) -> ProptestConfig {
    let file = FileFailurePersistence::Direct("proptest-regressions/operators.txt");
    ProptestConfig {
        failure_persistence: Some(Box::new(file)),
        ..ProptestConfig::with_cases(cases)
    }
}

proptest! {
    #![proptest_config(config(128))]

    #[test]
    fn arithmetic_and_logic((width, a, b) in operands()) {
        let got = both(width, a, b, |x, y| vec![x + y, x - y, x & y, x | y, x ^ y, !x]);
        let expected = [a.wrapping_add(b), a.wrapping_sub(b), a & b, a | b, a ^ b, !a].map(|value| mask(width, value));
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn comparisons((width, a, b) in operands()) {
        let got = both(width, a, b, |x, y| {
            vec![x.eq(y), x.ne(y), x.lt(y), x.le(y), x.gt(y), x.ge(y), x.lt_signed(y), x.le_signed(y), x.eq(x), x.lt(x)]
        });
        let (s, t) = (signed(width, a), signed(width, b));
        let expected = [a == b, a != b, a < b, a <= b, a > b, a >= b, s < t, s <= t, true, false].map(u128::from);
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn reductions((width, a, b) in operands()) {
        let got = both(width, a, b, |x, _| vec![x.all(), x.any(), x.parity(), x.msb()]);
        let expected = [a == mask(width, u128::MAX), a != 0, a.count_ones() % 2 == 1, a >> (width - 1) == 1].map(u128::from);
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn wide_results((width, a, b) in (1u32..=64).prop_flat_map(|width| (Just(width), value(width), value(width)))) {
        let got = both(width, a, b, |x, y| vec![x.add_wide(y), x.mul_wide(y)]);
        prop_assert_eq!(got, [a + b, a * b]);
    }

    #[test]
    fn shifts((width, a, b) in operands(), by in 0u32..140) {
        let got = both(width, a, b, |x, y| vec![x << y, x >> y, x.bit_at(y), x << by, x >> by]);
        let by_b = u32::try_from(b).unwrap_or(u32::MAX);
        let left = |by: u32| if by >= width { 0 } else { mask(width, a << by) };
        let right = |by: u32| if by >= width { 0 } else { a >> by };
        prop_assert_eq!(got, [left(by_b), right(by_b), right(by_b) & 1, left(by), right(by)]);
    }

    #[test]
    fn parts_and_neighbours((width, a, b) in (1u32..=42).prop_flat_map(|width| (Just(width), value(width), value(width))),
                            from in any::<u32>(), size in any::<u32>(), count in 1u32..4) {
        let low = from % width;
        let part = size % (width - low) + 1;
        let got = both(width, a, b, |x, y| vec![
            x.part(low, part),
            x.slice(low + part - 1, low),
            cat(&[x, y]),
            cat_lsb_first(&[x, y]),
            // Across both, so that parts of parts and of neighbours are found.
            cat(&[x, y]).part(low, width),
            cat(&[x.part(low, part), y.part(low, part)]),
            x.repeat(count),
            x.repeat(count).part(low, part),
            x.zero_extend(width + count),
            x.sign_extend(width + count),
            x.resize(part),
        ]);
        let shifted = (a << width | b) >> low;
        let repeated = (0..count).fold(0, |sum, index| sum | a << (index * width));
        let expected = [
            mask(part, a >> low),
            mask(part, a >> low),
            a << width | b,
            b << width | a,
            mask(width, shifted),
            mask(part, a >> low) << part | mask(part, b >> low),
            repeated,
            mask(part, repeated >> low),
            a,
            mask(width + count, signed(width, a) as u128),
            mask(part, a),
        ];
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn choices((width, a, b) in operands(), index in 0u64..16, count in 1u64..12) {
        let got = both(width, a, b, |x, y| {
            let m = x.module();
            let choices: Vec<_> = (0..count).map(|at| if at % 2 == 0 { x } else { y + y.lit(u128::from(at % 2)) }).collect();
            vec![m.lit(index, 4).select(&choices), x.any().mux(y, x), x.gate(y.any())]
        });
        let chosen = if index.min(count - 1) % 2 == 0 { a } else { mask(width, b.wrapping_add(1)) };
        prop_assert_eq!(got, [chosen, if a != 0 { b } else { a }, if b != 0 { a } else { 0 }]);
    }

    #[test]
    fn bits_hold_what_is_put_in((width, a, b) in operands(), low in any::<u32>(), size in any::<u32>()) {
        let (x, y) = (Bits::from_u128(width, a).expect("it fits"), Bits::from_u128(width, b).expect("it fits"));
        prop_assert_eq!(x.to_u128(), Some(a));
        prop_assert_eq!(x.to_u64(), u64::try_from(a).ok());
        prop_assert_eq!(Bits::from_bytes(width, &x.to_bytes()), x.clone());
        prop_assert_eq!(Bits::from_words(width, x.words()), x.clone());
        prop_assert_eq!(format!("{x:x}"), format!("{a:0digits$x}", digits = width.div_ceil(4) as usize));
        prop_assert_eq!((x.is_zero(), x.is_ones()), (a == 0, a == mask(width, u128::MAX)));
        prop_assert_eq!(x.cmp(&y), a.cmp(&b), "values of one width are ordered as numbers");
        let low = low % width;
        let size = size % (width - low) + 1;
        prop_assert_eq!(x.part(low, size).to_u128(), Some(mask(size, a >> low)));
        let whole = Bits::cat(&[y, x.clone()]);
        prop_assert_eq!(whole.part(0, width), x.clone());
        prop_assert_eq!(whole.part(width, width).to_u128(), Some(b));
        let mut other = x.clone();
        other.set_bit(low, !x.bit(low));
        prop_assert_eq!(other.to_u128(), Some(a ^ 1 << low));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    assert_eq!(Bits::from_u128(3, 8), None);
    assert_eq!(8u32.into_bits(3), None);
    assert_eq!((-1i32).into_bits(64), None);
    assert_eq!(Bits::zero(4).into_bits(5), None);
    assert_eq!(true.into_bits(2), Bits::from_u128(2, 1));
    assert_eq!(u128::MAX.into_bits(128), Some(Bits::ones(128)));
}

#[test]
fn an_index_has_as_many_bits_as_it_needs() {
    for (count, bits) in [
        (0, 1),
        (1, 1),
        (2, 1),
        (3, 2),
        (4, 2),
        (5, 3),
        (1024, 10),
        (1025, 11),
        (u64::MAX, 64),
    ] {
        assert_eq!(index_width(count), bits, "{count}");
    }
}
