//! `path_monitor`: knows of each path whether it can be used, and tells `spray_scheduler` when that changes.
//!
//! Events pass a pipeline of three clocks, one a clock. What changes a path goes through a queue to the planes, where one change at a time moves a
//! backup in or out. Bad paths stand in a ring, which is gone through once in each round of probes. It never sees a packet.
//! Theory of operation: `docs/src/blocks/path_monitor.md`.

mod entry;
mod judge;
mod planes;
mod ring;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Descriptor, PathEntry, PathEvent, PathUpdate};
use spraynic_rtl::{Context, Definition, Signal, Stream, bundle};

use crate::counter::{Counter, count_when};
use crate::path_sets::PathSets;
use crate::sweep;

/// Name of the block.
pub const NAME: &str = "path_monitor";

/// Changes that wait for the planes.
const CHANGES: u32 = 16;

bundle! {
    /// What enters the pipeline.
    pub(crate) struct Operation {
        event: 1, "an event";
        clear: 1, "first half of an entry: what stands there is gone";
        write: 1, "second half of an entry: the path is there";
        visit: 1, "a path of the ring, in a round of probes";
        holds: 1, "event: set and place are in the tables";
        set: 12, "set of paths";
        place: 8, "place in the set";
        kind: 4, "event: PathEventKind";
        qpn: 24, "event: queue pair";
        backup: 1, "write: the path is a backup";
        denied: 1, "write: the administrator forbids it";
        entropy: 32, "write: entropy value";
    }
}

bundle! {
    /// What the planes are told.
    pub(crate) struct Change {
        skip: 1, "the path is to be left out once";
        probe: 1, "the path wants a probe";
        was_out: 1, "the path stood for a backup that is wanted";
        was_spare: 1, "the path was a backup that can be used";
        is_out: 1, "the path stands for a backup that is wanted";
        is_spare: 1, "the path is a backup that can be used";
        state: 3, "PathState";
        set: 12, "set of paths";
        place: 8, "place in the set";
    }
}

/// Inputs that say how paths are judged.
#[derive(Clone, Copy)]
struct Settings<'a> {
    bad_after: Signal<'a>,
    delivered_clears: Signal<'a>,
    probe_interval_ns: Signal<'a>,
    time_ns: Signal<'a>,
}

/// The block for this configuration.
#[must_use]
pub fn path_monitor<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let sets = PathSets::from(config);
    let m = context.module(&format!("{NAME}_s{}_e{}_p{}", sets.sets, sets.entries, sets.ports));
    m.doc(
        "Judges paths by what is reported of them, replaces those that are out by backups of the same plane, and asks for\n\
         probes of bad ones.",
    );
    let events = Stream::slave(
        m,
        "s_axis_event",
        PathEvent::width(),
        "PathEvent: what happened on a path",
    );
    let entries = Stream::slave(m, "s_axis_entry", PathEntry::width(), "PathEntry: writes a path");
    let settings = Settings {
        time_ns: m.input("time_ns", 64).doc("time in nanoseconds, from 0"),
        bad_after: m
            .input("bad_after", 7)
            .doc("losses in the history of a path that make it bad, 1 to 64; 0 counts as 1"),
        delivered_clears: m
            .input("delivered_clears", 1)
            .doc("a packet that arrives clears the history of its path"),
        probe_interval_ns: m
            .input("probe_interval_ns", 32)
            .doc("time between two rounds of probes; 0 counts as 1"),
    };
    let paths = Stream::master(m, "m_axis_path", PathUpdate::width(), "PathUpdate: a path changes");
    let probes = Stream::master(
        m,
        "m_axis_probe",
        PathUpdate::width(),
        "PathUpdate: a bad path wants a probe",
    );

    // Every table is cleared after reset.
    let sweep = sweep::after_reset(m, sets.set_bits() + sets.place_bits());
    let ring = ring::Ring::new(m, sets, settings);
    let changes = planes::Changes::new(m);
    let entered = entry::entry(
        m,
        sets,
        events,
        entries,
        entry::Gates {
            sweep,
            idle: changes.idle,
            room: changes.room,
            visit: ring.visit,
            visit_index: ring.head,
        },
    );
    let judged = judge::judge(m, sets, &entered, settings, sweep);
    ring.connect(entered.visits, &judged, probes.fires());
    planes::planes(m, sets, &changes, &judged, sweep, paths, probes);

    let mut counters = judged.counters.clone();
    counters.push(("probes", "probes asked for", probes.fires()));
    counters.push((
        "drop_entry",
        "entries refused: set, place or port beyond the configuration, or a port that is not the place's",
        entered.drop_entry,
    ));
    for (name, doc, event) in counters {
        count_when(m, Counter(name, doc), event);
    }
    m.finish()
}
