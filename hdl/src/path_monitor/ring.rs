//! The ring of bad paths, and the rounds in which each of them is probed once.
//!
//! It holds paths by their number, each once, some of which are bad no more: those leave when a round comes to them. One path of a round is looked at when the
//! probe of the one before has been taken.

use spraynic_rtl::{Module, Signal, Stream, index_width};

use super::Settings;
use super::judge::Judged;
use crate::path_sets::PathSets;
use crate::stream_fifo;

/// The ring.
pub(super) struct Ring<'a> {
    m: Module<'a>,
    joins: Stream<'a>,
    first: Stream<'a>,
    count: Signal<'a>,
    left: Signal<'a>,
    busy: Signal<'a>,
    next_round: Signal<'a>,
    settings: Settings<'a>,
    /// A path is to be looked at.
    pub(super) visit: Signal<'a>,
    /// Its number.
    pub(super) head: Signal<'a>,
}

impl<'a> Ring<'a> {
    pub(super) fn new(m: Module<'a>, sets: PathSets, settings: Settings<'a>) -> Self {
        let bits = sets.set_bits() + sets.place_bits();
        let joins = Stream::wires(m, "ring_in", bits);
        // Each path at most once, so the FIFO is never full.
        let first = stream_fifo::buffer(m, "u_ring", joins, sets.paths());
        let counter = |name: &str, doc| m.reg(name, index_width(u64::from(sets.paths()) + 1)).reset(0).doc(doc);
        let count = counter("ring_count", "paths in the ring");
        let left = counter("round_left", "paths that this round has not looked at");
        let busy = m
            .reg("visit_busy", 1)
            .reset(0)
            .doc("a path is being looked at, or its probe waits");
        let visit = (left.any() & first.valid & !busy).named("ring_visit");
        Self {
            m,
            joins,
            first,
            count,
            left,
            busy,
            next_round: m.reg("next_round_ns", 64).reset(0).doc("when the next round begins"),
            settings,
            visit,
            head: first.data,
        }
    }

    /// Connects what comes of the visits. `probed`: a probe was taken.
    pub(super) fn connect(&self, visits: Signal<'a>, judged: &Judged<'a>, probed: Signal<'a>) {
        let (m, count, left) = (self.m, self.count, self.left);
        self.first.ready.set(visits);
        self.joins.data.set(judged.index);
        self.joins.valid.set(judged.joins_ring);
        m.assert("ring_has_room", !judged.joins_ring | self.joins.ready);
        m.when(judged.joins_ring & !visits, || count.set(count + count.lit(1)))
            .else_when(!judged.joins_ring & visits, || count.set(count - count.lit(1)));
        m.when(visits, || self.busy.set_lit(1))
            .else_when(judged.leaves_ring | probed, || self.busy.set_lit(0));

        // The comparison of 64 bits has a clock of its own.
        let time = self.settings.time_ns.delayed("time_now");
        let interval = self.settings.probe_interval_ns;
        let interval = interval.any().mux(interval, m.lit(1, 32)).delayed("probe_interval_now");
        let is_time = time.ge(self.next_round).delayed("round_is_due");
        let after = (time + interval.zero_extend(64)).delayed("round_after");
        let settled = m
            .reg("round_settled", 1)
            .reset(0)
            .doc("`round_is_due` knows of the last round");
        let begins = (is_time & settled & !left.any() & !self.busy).named("round_begins");
        settled.set(!begins);
        m.when(begins, || {
            left.set(count);
            self.next_round.set(after);
        })
        .else_when(visits, || left.set(left - left.lit(1)));
    }
}
