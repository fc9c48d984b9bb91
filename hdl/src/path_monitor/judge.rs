//! Judgement of what is reported: the history of each path, and whether it is bad.
//!
//! Clock 1: the word of the path comes out of its RAM. Clock 2: judgement, and the word is written back. Clock 3: what changes goes to the planes.

use spraynic_config::descriptor::{PathEventKind as Kind, PathState as State};
use spraynic_rtl::{Bundle, Module, Signal, bundle, cat_lsb_first};

use super::entry::Entered;
use super::{Change, Operation, Settings};
use crate::path_sets::PathSets;
use crate::state_table::{Stages, state_table};
use crate::sweep::Sweep;

/// Reports that the history holds: that of the golden model.
const HISTORY: u32 = 64;

bundle! {
    /// What is known of a path.
    struct Path {
        valid: 1, "there is one";
        backup: 1, "it is a backup";
        denied: 1, "the administrator forbids it";
        bad: 1, "it is assumed bad";
        in_ring: 1, "it stands in the ring of paths to probe";
        losses: 7, "losses in the history";
        history: HISTORY, "the last reports, the newest at bit 0: 1 lost, 0 sent";
    }
}

/// What comes of an operation, in clock 3.
pub(super) struct Judged<'a> {
    /// There is a change for the planes.
    pub(super) changes: Signal<'a>,
    pub(super) change: Change<'a>,
    /// The path of the operation, as the ring numbers it.
    pub(super) index: Signal<'a>,
    /// It joins the ring, at its end.
    pub(super) joins_ring: Signal<'a>,
    /// It leaves the ring: it was looked at and is bad no more.
    pub(super) leaves_ring: Signal<'a>,
    /// A packet left: its queue pair is remembered for the set.
    pub(super) sent: Signal<'a>,
    pub(super) qpn: Signal<'a>,
    /// A path is written: its entropy value is kept.
    pub(super) writes_entropy: Signal<'a>,
    pub(super) entropy: Signal<'a>,
    pub(super) counters: Vec<(&'static str, &'static str, Signal<'a>)>,
}

/// Builds the table of paths and the judgement behind the entry.
pub(super) fn judge<'a>(
    m: Module<'a>,
    sets: PathSets,
    entered: &Entered<'a>,
    settings: Settings<'a>,
    sweep: Sweep<'a>,
) -> Judged<'a> {
    let [valid_1, valid] = entered.valid;
    let ahead = Operation::regs(m, "ahead");
    ahead.set(&entered.operation);
    let operation = Operation::regs(m, "operation");
    operation.set(&ahead);
    let index_of = |operation: &Operation<'a>| sets.path_index(operation.set.part(0, sets.set_bits()), operation.place);
    let stages = [&entered.operation, &ahead, &operation];
    let table = state_table(
        m,
        "paths",
        (sets.paths(), Path::packed_width()),
        Stages {
            valid: [entered.enters, valid_1, valid],
            index: stages.map(index_of),
            advance: m.high(),
        },
        sweep,
    );
    let path = Path::unpack(table.word).named("path");
    let kind_is = |kind: Kind| operation.kind.eq_lit(kind as u8);
    let is_any = |kinds: &[Kind]| cat_lsb_first(&kinds.iter().map(|kind| kind_is(*kind)).collect::<Vec<_>>()).any();

    // Events. What depends on the kind alone is known a clock before.
    let event = (operation.event & operation.holds & path.valid).named("event_of_a_path");
    let known_kind = operation.kind.lt(m.lit(Kind::ALL.len() as u32, 4));
    let counted = (event & known_kind).named("counted_event");
    let out = path.denied | path.bad;
    let judged = (counted & !out).named("judged_event");
    let (lost, sent) = (kind_is(Kind::Lost), kind_is(Kind::Sent));
    let arrived = is_any(&[
        Kind::Acknowledged,
        Kind::Marked,
        Kind::Trimmed,
        Kind::TrimmedLastHop,
        Kind::Delivered,
    ]);
    let forgets = (arrived & settings.delivered_clears).named("forgets_losses");
    let limit = settings
        .bad_after
        .any()
        .mux(settings.bad_after, m.lit(1, 7))
        .delayed("loss_limit");
    let oldest = path.history.bit(HISTORY - 1);
    let losses_if_lost = oldest.mux(path.losses, path.losses + m.lit(1, 7));
    let by_loss = (judged & lost & losses_if_lost.ge(limit)).named("bad_by_loss");
    let by_peer = (judged & kind_is(Kind::SkipAlways)).named("bad_by_peer");
    let becomes_bad = (by_loss | by_peer).named("becomes_bad");
    let recovers = (counted & path.bad & kind_is(Kind::ProbeAnswered)).named("recovers");
    let skips = (judged & is_any(&[Kind::Marked, Kind::Trimmed])).named("skips");
    let shifts = judged & (lost | sent);
    let shifted = cat_lsb_first(&[lost, path.history.part(0, HISTORY - 1)]);
    let losses_if_sent = path.losses - oldest.zero_extend(7);
    let fresh = (becomes_bad | operation.clear | operation.write | (judged & forgets)).named("history_is_cleared");

    // Entries and visits.
    let gone = operation.clear;
    let stays_bad = path.valid & path.bad;
    let visit_again = (operation.visit & stays_bad).named("probes");
    let visit_over = operation.visit & !stays_bad;
    let bad = (path.bad | becomes_bad) & !recovers & !gone & !operation.write;
    let next = Path {
        valid: operation.write | (path.valid & !gone),
        backup: operation.write.mux(operation.backup, path.backup & !gone),
        denied: operation.write.mux(operation.denied, path.denied & !gone),
        bad,
        in_ring: (path.in_ring | becomes_bad) & !visit_over,
        losses: shifts
            .mux(lost.mux(losses_if_lost, losses_if_sent), path.losses)
            .gate(!fresh),
        history: shifts.mux(shifted, path.history).gate(!fresh),
    };
    table.next.set(next.pack());

    // What the planes are told.
    let role = |path: &Path<'a>| {
        let usable = !path.denied & !path.bad;
        (path.valid & !path.backup & !usable, path.valid & path.backup & usable)
    };
    let (was_out, was_spare) = role(&path);
    let (is_out, is_spare) = role(&next);
    let lit = |state: State| m.lit(state as u8, 3);
    let state = next.bad.mux(
        lit(State::AssumedBad),
        next.denied.mux(
            lit(State::Denied),
            next.backup.mux(lit(State::Backup), lit(State::Good)),
        ),
    );
    let state = next.valid.mux(state, lit(State::Absent));
    let change = Change {
        skip: skips,
        probe: visit_again,
        was_out,
        was_spare,
        is_out,
        is_spare,
        state: skips.mux(lit(State::Skip), state),
        set: operation.set,
        place: operation.place,
    };
    let changes = becomes_bad | recovers | skips | visit_again | (gone & path.valid) | operation.write;
    let registered = Change::regs(m, "change");
    registered.set(&change);
    let flag = |name: &str, value: Signal<'a>| {
        let register = m.reg(name, 1).reset(0);
        register.set(value & valid);
        register
    };
    let dropped = operation.event & !(operation.holds & path.valid & known_kind);
    Judged {
        changes: flag("changes", changes),
        change: registered,
        index: index_of(&operation).delayed("judged_index"),
        joins_ring: flag("joins_ring", (becomes_bad & !path.in_ring) | visit_again),
        leaves_ring: flag("leaves_ring", visit_over),
        sent: flag("sent", counted & sent),
        qpn: operation.qpn.delayed("sent_qpn"),
        writes_entropy: flag("writes_entropy", operation.write),
        entropy: operation.entropy.delayed("entropy_written"),
        counters: vec![
            (
                "bad_by_loss",
                "paths that became bad by losses",
                flag("counts_by_loss", by_loss),
            ),
            (
                "bad_by_peer",
                "paths that became bad because the peer said so",
                flag("counts_by_peer", by_peer),
            ),
            (
                "recovered",
                "bad paths that an answered probe brought back",
                flag("counts_recovered", recovers),
            ),
            (
                "skipped",
                "congestion that made a path be left out once: marks and trims",
                flag("counts_skipped", skips),
            ),
            (
                "drop_event",
                "events of no path, or of no known kind",
                flag("counts_drop_event", dropped),
            ),
        ],
    }
}
