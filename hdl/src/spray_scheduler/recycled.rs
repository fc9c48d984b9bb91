//! The paths of a queue pair whose packets came back unmarked: a ring of eight, read and changed in one clock.
//!
//! While a path of the set is bad, all that the ring holds is used in turn; otherwise each once, the oldest first.

use spraynic_rtl::{Bundle, Module, Signal, bundle, cat_lsb_first};

/// Places of the ring.
const PLACES: u32 = 8;

bundle! {
    /// The ring of a queue pair.
    pub(super) struct Ring {
        write: 3, "place that is written next";
        fresh: 4, "the newest ones that have not been used again";
        filled: 4, "places that were ever written";
        cursor: 3, "place that is used next while frozen";
        paths: 64, "the paths, 8 bits each";
    }
}

/// What an operation does with the ring.
pub(super) struct Use<'a> {
    /// A context: the ring is new.
    pub(super) clear: Signal<'a>,
    /// A path came back.
    pub(super) push: Signal<'a>,
    /// It.
    pub(super) place: Signal<'a>,
    /// A packet takes one.
    pub(super) take: Signal<'a>,
    /// A path of the set is bad.
    pub(super) frozen: Signal<'a>,
}

/// The path that a packet may take: whether there is one, and its place.
pub(super) struct Taken<'a> {
    pub(super) any: Signal<'a>,
    pub(super) place: Signal<'a>,
}

/// The ring behind an operation, and what a packet takes from it.
pub(super) fn step<'a>(m: Module<'a>, ring: &Ring<'a>, of: &Use<'a>) -> (Ring<'a>, Taken<'a>) {
    let one = |width: u32| m.lit(1, width);
    let full = |count: Signal<'a>| count.eq_lit(PLACES);
    let more = |count: Signal<'a>| full(count).mux(count, count + one(4));
    let slots: Vec<Signal<'a>> = (0..PLACES).map(|place| ring.paths.part(8 * place, 8)).collect();
    // Three bits are enough: eight fresh ones are as far back as none.
    let oldest = ring.write - ring.fresh.part(0, 3);
    let wraps = ring.cursor.zero_extend(4).ge(ring.filled);
    let cursor = ring.cursor.gate(!wraps).named("ring_cursor_now");
    let any = of.frozen.mux(ring.filled.any(), ring.fresh.any());
    let place = of.frozen.mux(cursor, oldest).select(&slots);
    let takes = (of.take & any).named("takes_from_ring");
    let takes_fresh = takes & !of.frozen;
    let takes_cursor = takes & of.frozen;
    let written: Vec<Signal<'a>> = slots
        .iter()
        .zip(0..PLACES)
        .map(|(slot, place)| (of.push & ring.write.eq_lit(place)).mux(of.place, *slot))
        .collect();
    let keep = !of.clear;
    let next = Ring {
        write: of.push.mux(ring.write + one(3), ring.write).gate(keep),
        fresh: of
            .push
            .mux(more(ring.fresh), takes_fresh.mux(ring.fresh - one(4), ring.fresh))
            .gate(keep),
        filled: of.push.mux(more(ring.filled), ring.filled).gate(keep),
        cursor: takes_cursor.mux(cursor + one(3), ring.cursor).gate(keep),
        paths: cat_lsb_first(&written),
    };
    (next, Taken { any: takes, place })
}

/// Bits of a ring.
pub(super) fn width() -> u32 {
    Ring::packed_width()
}
