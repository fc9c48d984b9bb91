//! Bits of a word of 64: the lowest and highest that are set, shifts by a signal, and masks of a range of PSNs.

use spraynic_rtl::{Signal, cat, cat_lsb_first};

/// Whether a bit is set, and the index of the lowest one. The width is a power of two.
pub(super) fn lowest(word: Signal<'_>) -> (Signal<'_>, Signal<'_>) {
    if word.width() == 2 {
        return (word.any(), !word.bit(0));
    }
    let half = word.width() / 2;
    let (low_any, low) = lowest(word.part(0, half));
    let (high_any, high) = lowest(word.part(half, half));
    (low_any | high_any, cat(&[!low_any, low_any.mux(low, high)]))
}

/// The index of the highest bit that is set; that of the lowest bit if none is.
pub(super) fn highest(word: Signal<'_>) -> Signal<'_> {
    let mirrored: Vec<_> = word.to_bits().into_iter().rev().collect();
    let (any, index) = lowest(cat_lsb_first(&mirrored));
    (!index).gate(any)
}

/// The word turned left by `amount` bits, 0 to 63.
pub(super) fn rotated<'a>(word: Signal<'a>, amount: Signal<'a>) -> Signal<'a> {
    let width = word.width();
    (0..amount.width()).fold(word, |word, bit| {
        let by = 1 << bit;
        let turned = cat(&[word.part(0, width - by), word.part(width - by, by)]);
        amount.bit(bit).mux(turned, word)
    })
}

/// Ones from bit `from` on (0 to 63).
pub(super) fn ones_from(from: Signal<'_>) -> Signal<'_> {
    let m = from.module();
    let bits: Vec<_> = (0..64u32).map(|bit| from.le(m.lit(bit, 6))).collect();
    cat_lsb_first(&bits)
}

/// Ones at the bits of a word, whose bit 0 is PSN (or order) `word`, that stand for `start` or later.
pub(super) fn ones_since<'a>(word: Signal<'a>, start: Signal<'a>) -> Signal<'a> {
    let m = word.module();
    let ahead = (start - word).named("steps_into_word");
    let before = ahead.msb();
    let beyond = !before & ahead.part(6, ahead.width() - 7).any();
    let ones = ones_from(ahead.part(0, 6));
    before.mux(m.lit(u64::MAX, 64), ones.gate(!beyond))
}

/// Ones at the bits of such a word that stand for PSN `last` or earlier.
pub(super) fn ones_until<'a>(word: Signal<'a>, last: Signal<'a>) -> Signal<'a> {
    let m = word.module();
    let ahead = (last - word).named("steps_to_last");
    let beyond = ahead.part(6, ahead.width() - 7).any();
    let bits: Vec<_> = (0..64u32).map(|bit| ahead.part(0, 6).ge(m.lit(bit, 6))).collect();
    let ones = beyond.mux(m.lit(u64::MAX, 64), cat_lsb_first(&bits));
    ones.gate(!ahead.msb())
}

/// Ones below the lowest bit that is set; ones everywhere if none is.
pub(super) fn below_lowest(word: Signal<'_>) -> Signal<'_> {
    (word - word.lit(1)) & !word
}

/// How many bits are set. The width is a power of two.
pub(super) fn ones(word: Signal<'_>) -> Signal<'_> {
    if word.width() == 1 {
        return word;
    }
    let half = word.width() / 2;
    ones(word.part(0, half)).add_wide(ones(word.part(half, half)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spraynic_rtl::{Bits, Context, Evaluator};

    #[derive(Debug, PartialEq)]
    struct Found {
        any: u64,
        low: u64,
        high: u64,
        turned: u64,
        since: u64,
        until: u64,
        below: u64,
        ones: u64,
    }

    fn run(word: u64, amount: u64, psn: u64, start: u64) -> Found {
        let context = Context::new();
        let m = context.module("bits");
        let (word_in, amount_in) = (m.input("word", 64), m.input("amount", 6));
        let (psn_in, start_in) = (m.input("psn", 24), m.input("start", 24));
        let (any, low) = lowest(word_in);
        m.output_of("any", any);
        m.output_of("low", low);
        m.output_of("high", highest(word_in));
        m.output_of("turned", rotated(word_in, amount_in));
        m.output_of("since", ones_since(psn_in, start_in));
        m.output_of("ones_until", ones_until(psn_in, start_in));
        m.output_of("below", below_lowest(word_in));
        m.output_of("ones", ones(word_in));
        let mut run = Evaluator::new(m.finish());
        for (name, width, value) in [
            ("word", 64, word),
            ("amount", 6, amount),
            ("psn", 24, psn),
            ("start", 24, start),
        ] {
            run.set(name, Bits::from_words(width, &[value]));
        }
        let mut get = |name: &str| run.get_u64(name);
        Found {
            any: get("any"),
            low: get("low"),
            high: get("high"),
            turned: get("turned"),
            since: get("since"),
            until: get("ones_until"),
            below: get("below"),
            ones: get("ones"),
        }
    }

    #[test]
    fn bits_are_found_and_moved() {
        for word in [1u64, 1 << 63, 0x8000_0001_0000_0000, 0xFFFF_0000, u64::MAX, 6] {
            for amount in [0, 1, 31, 63] {
                let found = run(word, amount, 0, 0);
                assert_eq!(
                    (found.any, found.low, found.high),
                    (1, word.trailing_zeros().into(), (63 - word.leading_zeros()).into())
                );
                assert_eq!(found.turned, word.rotate_left(amount as u32));
                assert_eq!(found.below, (1 << word.trailing_zeros()) - 1);
                assert_eq!(found.ones, word.count_ones().into());
            }
        }
        let nothing = run(0, 0, 0, 0);
        assert_eq!((nothing.any, nothing.below, nothing.ones), (0, u64::MAX, 0));
    }

    #[test]
    fn a_range_begins_and_ends_where_its_psn_stands() {
        for (psn, place, since, until) in [
            (64, 64, u64::MAX, 1),
            (64, 70, u64::MAX << 6, 0x7F),
            (64, 127, 1 << 63, u64::MAX),
            (64, 128, 0, u64::MAX),
            (64, 10, u64::MAX, 0),
            (0xFF_FFC0, 2, 0, u64::MAX),
            (0, 0xFF_FFFE, u64::MAX, 0),
        ] {
            let found = run(0, 0, psn, place);
            assert_eq!((found.since, found.until), (since, until), "{psn:x} {place:x}");
        }
    }
}
