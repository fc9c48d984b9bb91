//! What takes more than one pass: a context write, which flushes receive requests and clears places of immediates, and a SEND with invalidate,
//! which waits in clock 6 for `memory_regions`.

use super::judge::Joined;
use super::operation::{self, ERROR, Operation, RECEIVES};
use super::receive_requests::Rings;
use spraynic_config::descriptor::{Descriptor, MemoryAccess};
use spraynic_config::{NicConfig, Profile};
use spraynic_rtl::{Module, Signal, Stream};

/// Phases of a context write, which stays at the head of the queue until it is done.
const ISSUES: u8 = 0;
const IN_PIPELINE: u8 = 1;
const FLUSHES: u8 = 2;
const FLUSH_IN_PIPELINE: u8 = 3;
const CLEARS: u8 = 4;
const DONE: u8 = 5;

/// Issues what is at the head of the queue, a context write as often as it needs.
pub(super) struct Sequencer<'a> {
    /// What is issued.
    pub(super) operation: Operation<'a>,
    pub(super) may_issue: Signal<'a>,
    /// Places of immediates are cleared, this one now.
    pub(super) sweeps: Signal<'a>,
    pub(super) place: Signal<'a>,
    phase: Signal<'a>,
    immediates: bool,
    issue: Signal<'a>,
    context: Signal<'a>,
}

/// Builds the sequencer, and takes operations from `waiting`.
pub(super) fn sequencer<'a>(
    m: Module<'a>,
    config: &NicConfig,
    waiting: Stream<'a>,
    oldest: &Operation<'a>,
    issue: Signal<'a>,
) -> Sequencer<'a> {
    let phase = m
        .reg("phase", 3)
        .reset(0)
        .doc("of the context write at the head of the queue");
    let place = m
        .reg("cleared_place", config.receive.receive_requests.trailing_zeros())
        .reset(0)
        .doc("place of an immediate to clear");
    let context = oldest.kind.eq_lit(operation::CONTEXT).named("context_is_next");
    let flushes = phase.eq_lit(FLUSHES);
    waiting.ready.set((issue & !context) | phase.eq_lit(DONE));
    place.ignore();
    Sequencer {
        operation: Operation {
            kind: flushes.mux(phase.module().lit(operation::FLUSH, 2), oldest.kind),
            ..*oldest
        },
        may_issue: (phase.eq_lit(ISSUES) | flushes).named("phase_issues"),
        sweeps: phase.eq_lit(CLEARS),
        place,
        phase,
        immediates: config.has_profile(Profile::Mrc),
        issue,
        context,
    }
}

impl<'a> Sequencer<'a> {
    /// Moves the phase on by what is found in clock 2.
    pub(super) fn tell(&self, m: Module<'a>, two: &Operation<'a>, valid_2: Signal<'a>, rings: &Rings<'a>) {
        let phase = self.phase;
        let reached = |kind: u8| valid_2 & two.kind.eq_lit(kind);
        let clears = if self.immediates { CLEARS } else { DONE };
        rings.begins.ignore();
        m.switch(phase, |arms| {
            arms.case(ISSUES, || {
                m.when(self.issue & self.context, || phase.set_lit(IN_PIPELINE));
            });
            arms.case(IN_PIPELINE, || {
                m.when(reached(operation::CONTEXT), || {
                    m.when(two.state.eq_lit(ERROR), || phase.set_lit(FLUSHES))
                        .else_when(two.state.eq_lit(RECEIVES) & rings.begins, || phase.set_lit(clears))
                        .otherwise(|| phase.set_lit(DONE));
                });
            });
            arms.case(FLUSHES, || {
                m.when(self.issue, || phase.set_lit(FLUSH_IN_PIPELINE));
            });
            arms.case(FLUSH_IN_PIPELINE, || {
                m.when(reached(operation::FLUSH), || {
                    m.when(rings.takes, || phase.set_lit(FLUSHES))
                        .otherwise(|| phase.set_lit(DONE));
                });
            });
            arms.case(CLEARS, || {
                self.place.set(self.place + self.place.lit(1));
                m.when(self.place.all(), || phase.set_lit(DONE));
            });
            arms.case(DONE, || phase.set_lit(ISSUES));
        });
    }
}

/// Phases of an invalidation.
const NONE: u8 = 0;
const IS_JUDGED: u8 = 1;
const ASKS: u8 = 2;
const WAITS: u8 = 3;

/// The SEND with invalidate in clock 6.
pub(super) struct Invalidation<'a> {
    /// Clock 6 stands still.
    pub(super) holds: Signal<'a>,
    /// The key could not be invalidated.
    pub(super) key_stays: Signal<'a>,
    /// The operation goes on; what is behind it may enter.
    pub(super) done: Signal<'a>,
    /// An access is wanted, this one.
    pub(super) asks: Signal<'a>,
    pub(super) access: Signal<'a>,
    /// To be driven: the access is taken.
    pub(super) asked: Signal<'a>,
    /// The translation is the invalidation's.
    pub(super) takes_translation: Signal<'a>,
    /// To be driven: it is there, and it is a refusal.
    pub(super) answered: Signal<'a>,
    pub(super) refused: Signal<'a>,
    phase: Signal<'a>,
    release: Signal<'a>,
}

impl<'a> Invalidation<'a> {
    pub(super) fn new(m: Module<'a>) -> Self {
        let phase = m.reg("invalidation_phase", 2).reset(0);
        let release = m
            .reg("invalidation_release", 1)
            .reset(0)
            .doc("the SEND with invalidate goes on");
        Self {
            holds: m.wire("invalidation_holds", 1),
            key_stays: m.reg("key_stays", 1).reset(0).doc("the key could not be invalidated"),
            done: release,
            asks: phase.eq_lit(ASKS),
            access: m.wire("invalidation_access", MemoryAccess::width()),
            asked: m.wire("invalidation_asked", 1),
            takes_translation: phase.eq_lit(WAITS),
            answered: m.wire("invalidation_answered", 1),
            refused: m.wire("invalidation_refused", 1),
            phase,
            release,
        }
    }

    /// Drives it by the operation in clock 6.
    pub(super) fn drive(&self, m: Module<'a>, at_6: &Joined<'a>, may_invalidate: Signal<'a>) {
        let here = at_6.valid & at_6.operation.invalidates;
        let right = may_invalidate.delayed("may_invalidate_7");
        self.holds.set(here & !self.release);
        self.access.set(operation::invalidation(m, &at_6.operation));
        let (phase, release) = (self.phase, self.release);
        release.set_lit(0);
        m.when(release, || self.key_stays.set_lit(0));
        m.switch(phase, |arms| {
            arms.case(NONE, || {
                m.when(here & !release, || phase.set_lit(IS_JUDGED));
            });
            arms.case(IS_JUDGED, || {
                m.when(right, || phase.set_lit(ASKS)).otherwise(|| {
                    phase.set_lit(NONE);
                    release.set_lit(1);
                });
            });
            arms.case(ASKS, || {
                m.when(self.asked, || phase.set_lit(WAITS));
            });
            arms.case(WAITS, || {
                m.when(self.answered, || {
                    phase.set_lit(NONE);
                    release.set_lit(1);
                    self.key_stays.set(self.refused);
                });
            });
        });
    }
}
