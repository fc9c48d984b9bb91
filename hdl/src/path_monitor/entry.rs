//! Entry to the pipeline: entries of the host first, then paths of the ring, then events, one a clock.
//!
//! An entry takes two clocks, and waits until nothing of before is under way: so what the planes read of a path is what stood there at its change.

use spraynic_config::descriptor::{PathEntry, PathEvent};
use spraynic_rtl::{Bundle, Module, Signal, Stream};

use super::Operation;
use crate::fields::Fields;
use crate::path_sets::PathSets;
use crate::sweep::Sweep;

/// Who may enter.
pub(super) struct Gates<'a> {
    pub(super) sweep: Sweep<'a>,
    /// No change is under way behind the pipeline.
    pub(super) idle: Signal<'a>,
    /// There is room for the changes of whatever is in the pipeline, and one more.
    pub(super) room: Signal<'a>,
    /// A path of the ring is to be looked at.
    pub(super) visit: Signal<'a>,
    pub(super) visit_index: Signal<'a>,
}

/// What enters in this clock.
pub(super) struct Entered<'a> {
    pub(super) enters: Signal<'a>,
    pub(super) visits: Signal<'a>,
    pub(super) operation: Operation<'a>,
    pub(super) drop_entry: Signal<'a>,
    /// Clocks 1 and 2 of the pipeline hold an operation.
    pub(super) valid: [Signal<'a>; 2],
}

/// Builds the entry and drives `ready` of both inputs.
pub(super) fn entry<'a>(
    m: Module<'a>,
    sets: PathSets,
    events: Stream<'a>,
    entries: Stream<'a>,
    gates: Gates<'a>,
) -> Entered<'a> {
    let event = Fields::unpack::<PathEvent>(events.data);
    let entry = Fields::unpack::<PathEntry>(entries.data);
    for reserved in ["reserved_0", "reserved_1"] {
        entry.get(reserved).ignore();
    }
    let valid = ["valid_1", "valid_2", "valid_3"].map(|name| m.reg(name, 1).reset(0));
    let second = m
        .reg("entry_second", 1)
        .reset(0)
        .doc("the first half of an entry has entered");
    let open = (!gates.sweep.active & gates.room).named("entry_open");
    let quiet = gates.idle & !valid[0] & !valid[1] & !valid[2];
    let entry_enters = (entries.valid & !gates.sweep.active & (quiet | second)).named("entry_enters");
    entries.ready.set(!gates.sweep.active & second);
    m.when(entry_enters, || second.set(!second));
    let visits = (open & !entries.valid & gates.visit).named("ring_enters");
    let to_events = open & !entries.valid & !gates.visit;
    events.ready.set(to_events);
    let event_enters = events.fires();

    let (set, place) = (entry.get("set"), entry.get("path"));
    let port_is_right = entry.get("port").eq(sets.port_of(place).zero_extend(3));
    let fits = (sets.holds(set, place) & port_is_right).named("entry_fits");
    let (first_half, second_half) = (entry_enters & !second, entry_enters & second);
    let bits = sets.place_bits();
    let ring_place = gates.visit_index.part(0, bits).zero_extend(8);
    let ring_set = gates.visit_index.part(bits, sets.set_bits()).zero_extend(12);
    let pick = |of_entry: Signal<'a>, of_ring: Signal<'a>, of_event: Signal<'a>| {
        entries.valid.mux(of_entry, gates.visit.mux(of_ring, of_event))
    };
    let operation = Operation {
        event: event_enters,
        clear: first_half & fits,
        write: second_half & fits & entry.get("valid"),
        visit: visits,
        holds: sets.holds(event.get("set"), event.get("path")),
        set: pick(set, ring_set, event.get("set")),
        place: pick(place, ring_place, event.get("path")),
        kind: event.get("kind"),
        qpn: event.get("qpn"),
        backup: entry.get("backup"),
        denied: entry.get("denied"),
        entropy: entry.get("entropy"),
    };
    let enters = (entry_enters | visits | event_enters).named("enters");
    valid[0].set(enters);
    valid[1].set(valid[0]);
    valid[2].set(valid[1]);
    Entered {
        enters,
        visits,
        operation: operation.named("entry"),
        drop_entry: second_half & !fits,
        valid: [valid[0], valid[1]],
    }
}
