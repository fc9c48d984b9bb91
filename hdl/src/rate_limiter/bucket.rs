//! One of the two buckets of a request. Its level is kept as the value that "rate times time" had when it was empty: then nothing of what a
//! request needs depends on the request before it but one comparison, and a bucket can be asked in each clock.

use super::product::PRODUCT_BITS;
use spraynic_rtl::{Module, Signal, cat};

/// Bits of a level: those of the product and a sign, because a bucket was full before time began.
pub(super) const LEVEL_BITS: u32 = PRODUCT_BITS + 1;

/// What a request is compared with, in the register of clock 9.
pub(super) struct Levels<'a> {
    limited: Signal<'a>,
    /// Empty since then, it would be full now.
    full: Signal<'a>,
    /// Empty since then, it would hold just the bytes of the request.
    enough: Signal<'a>,
    /// Empty since then, it was full before the request and has lost its bytes.
    after_full: Signal<'a>,
    /// A full one holds the bytes.
    burst_holds: Signal<'a>,
    bytes: Signal<'a>,
}

/// A level with whole bytes added or taken.
fn plus<'a>(level: Signal<'a>, bytes: Signal<'a>) -> Signal<'a> {
    let whole = level.part(32, LEVEL_BITS - 32) + bytes.sign_extend(LEVEL_BITS - 32);
    cat(&[whole, level.part(0, 32)])
}

impl<'a> Levels<'a> {
    /// From what is known in clock 7: rate times time, the bucket's setting, the bytes asked for.
    pub(super) fn new(m: Module<'a>, name: &str, gained: Signal<'a>, setting: Signal<'a>, bytes: Signal<'a>) -> Self {
        let at = |what: &str, clock: u32| format!("{name}_{what}_{clock}");
        let burst = setting.part(41, 24);
        // Clock 8.
        let gained_8 = gained.delayed(&at("gained", 8)).zero_extend(LEVEL_BITS);
        let burst_8 = burst.delayed(&at("burst", 8));
        let bytes_8 = bytes.delayed(&at("bytes", 8));
        let spare = bytes.zero_extend(25) - burst.zero_extend(25);
        let spare_8 = spare.delayed(&at("spare", 8));
        let limited_8 = setting.bit(0).delayed(&at("limited", 8));
        let minus = |bytes: Signal<'a>| m.lit(0, 25) - bytes.zero_extend(25);
        Self {
            limited: limited_8.delayed(&at("limited", 9)),
            full: plus(gained_8, minus(burst_8)).delayed(&at("full", 9)),
            enough: plus(gained_8, minus(bytes_8)).delayed(&at("enough", 9)),
            after_full: plus(gained_8, spare_8).delayed(&at("after_full", 9)),
            burst_holds: (spare_8.msb() | !spare_8.any()).delayed(&at("burst_holds", 9)),
            bytes: bytes_8.delayed(&at("bytes", 9)),
        }
    }
}

/// The level in the table, in clock 8, and whose it is.
pub(super) struct State<'a> {
    pub(super) stored_8: Signal<'a>,
    /// The request of clock 8 asks the same bucket as that of clock 10, or of clock 9.
    pub(super) same_8_10: Signal<'a>,
    pub(super) same_8_9: Signal<'a>,
}

/// What the bucket says in clock 9, and what is written in clock 10.
pub(super) struct Bucket<'a> {
    pub(super) holds: Signal<'a>,
    pub(super) write_10: Signal<'a>,
    pub(super) level_10: Signal<'a>,
}

/// Builds the decision. `writes`: the level changes, by the bytes of the request or, where `fills`, to a full bucket.
pub(super) fn bucket<'a>(
    m: Module<'a>,
    name: &str,
    state: State<'a>,
    levels: Levels<'a>,
    writes: Signal<'a>,
    fills: Signal<'a>,
) -> Bucket<'a> {
    let level_10 = m.reg(&format!("{name}_empty_since_10"), LEVEL_BITS);
    let write_10 = m.reg(&format!("{name}_write_10"), 1).reset(0);
    let fresh = write_10 & state.same_8_10;
    let stored_9 = fresh.mux(level_10, state.stored_8).delayed(&format!("{name}_stored_9"));
    let behind_9 = state.same_8_9.delayed(&format!("{name}_behind_9"));
    let empty_since = (write_10 & behind_9)
        .mux(level_10, stored_9)
        .named(&format!("{name}_empty_since"));

    let is_full = empty_since.lt_signed(levels.full).named(&format!("{name}_is_full"));
    let holds = !levels.limited | is_full.mux(levels.burst_holds, empty_since.le_signed(levels.enough));
    let bytes = cat(&[m.lit(0, 1), levels.bytes]);
    let taken = is_full.mux(levels.after_full, plus(empty_since, bytes));
    m.when(writes, || level_10.set(fills.mux(levels.full, taken)));
    write_10.set(writes);
    Bucket {
        holds: holds.named(&format!("{name}_bucket_holds")),
        write_10,
        level_10,
    }
}
