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

/// Ones at the bits of a word, whose bit 0 is PSN `word`, that stand for PSN `start` or later.
pub(super) fn ones_since<'a>(word: Signal<'a>, start: Signal<'a>) -> Signal<'a> {
    let m = word.module();
    let ahead = (start - word).named("steps_into_word");
    let before = ahead.msb();
    let beyond = !before & ahead.part(6, 17).any();
    let ones = ones_from(ahead.part(0, 6));
    before.mux(m.lit(u64::MAX, 64), ones.gate(!beyond))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spraynic_rtl::{Bits, Context, Evaluator};

    fn run(word: u64, amount: u64, psn: u64, start: u64) -> (u64, u64, u64, u64, u64) {
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
        (get("any"), get("low"), get("high"), get("turned"), get("since"))
    }

    #[test]
    fn bits_are_found_and_moved() {
        for word in [1u64, 1 << 63, 0x8000_0001_0000_0000, 0xFFFF_0000, u64::MAX, 6] {
            for amount in [0, 1, 31, 63] {
                let (any, low, high, turned, _) = run(word, amount, 0, 0);
                assert_eq!(
                    (any, low, high),
                    (1, word.trailing_zeros().into(), (63 - word.leading_zeros()).into())
                );
                assert_eq!(turned, word.rotate_left(amount as u32));
            }
        }
        assert_eq!(run(0, 0, 0, 0).0, 0);
    }

    #[test]
    fn a_range_begins_where_its_psn_stands() {
        for (psn, start, expected) in [
            (64, 64, u64::MAX),
            (64, 70, u64::MAX << 6),
            (64, 127, 1 << 63),
            (64, 128, 0),
            (64, 10, u64::MAX),
            (0xFF_FFC0, 2, 0),
            (0, 0xFF_FFFE, u64::MAX),
        ] {
            assert_eq!(run(0, 0, psn, start).4, expected, "{psn:x} {start:x}");
        }
    }
}
