//! `tkeep` and the number of the last byte of a beat, one from the other; numbers against constants.

use spraynic_rtl::{Signal, cat_lsb_first};

/// Number of the last byte that `keep` marks; `keep` is contiguous from byte 0 and not 0.
pub(super) fn last_lane(keep: Signal<'_>) -> Signal<'_> {
    let lanes = keep.width();
    let is_last = |lane: u32| match lane + 1 {
        next if next == lanes => keep.bit(lane),
        next => keep.bit(lane) & !keep.bit(next),
    };
    let last: Vec<_> = (0..lanes).map(is_last).collect();
    let bits = (0..lanes.trailing_zeros()).map(|bit| {
        let set: Vec<_> = (0..lanes).filter(|lane| lane >> bit & 1 == 1).collect();
        cat_lsb_first(&set.into_iter().map(|lane| last[lane as usize]).collect::<Vec<_>>()).any()
    });
    cat_lsb_first(&bits.collect::<Vec<_>>())
}

/// `tkeep` of `lanes` bits up to this byte.
pub(super) fn keep_up_to(lane: Signal<'_>, lanes: u32) -> Signal<'_> {
    cat_lsb_first(&(0..lanes).map(|byte| at_least(lane, byte)).collect::<Vec<_>>())
}

/// Whether a number is not less than a constant that has no more bits: gates only, where a comparison would be a carry chain.
pub(super) fn at_least(number: Signal<'_>, least: u32) -> Signal<'_> {
    let bits = number.to_bits().into_iter().enumerate();
    bits.fold(number.module().high(), |lower, (bit, set)| {
        if least >> bit & 1 == 1 {
            set & lower
        } else {
            set | lower
        }
    })
}
