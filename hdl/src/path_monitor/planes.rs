//! The planes: which backups wait and which are in use, and the way out of all updates.
//!
//! One change at a time: the word of its plane is read, the path leaves its old role and takes its new one, and one backup at most moves. A path that is to be left
//! out once changes no plane: such updates pass one a clock.

use spraynic_config::descriptor::{PathState, PathUpdate};
use spraynic_rtl::{Bundle, MemoryStyle, Module, ReadDuringWrite, Signal, Stream, bundle, cat_lsb_first, index_width};

use super::judge::Judged;
use super::{CHANGES, Change};
use crate::fields::Fields;
use crate::path_sets::{PathSets, decode, encode, lowest};
use crate::state_table::depth;
use crate::sweep::Sweep;

/// Changes in the pipeline that need a place in the queue.
const IN_PIPELINE: u32 = 4;

/// The queue of changes.
pub(super) struct Changes<'a> {
    waiting: Signal<'a>,
    step: Signal<'a>,
    /// No change is under way.
    pub(super) idle: Signal<'a>,
    /// There is room for what is in the pipeline, and one more.
    pub(super) room: Signal<'a>,
}

impl<'a> Changes<'a> {
    pub(super) fn new(m: Module<'a>) -> Self {
        let waiting = m
            .reg("changes_waiting", index_width(u64::from(CHANGES) + 1))
            .reset(0)
            .doc("changes in the queue");
        let step = m
            .reg("plane_step", 3)
            .reset(0)
            .doc("what is done with a change; 0: none is under way");
        Self {
            waiting,
            step,
            idle: !waiting.any() & !step.any(),
            room: waiting
                .le(m.lit(CHANGES - IN_PIPELINE - 1, waiting.width()))
                .delayed("changes_room"),
        }
    }
}

bundle! {
    /// Counts of a plane.
    struct Counts {
        wanted: 9, "paths that are out";
        in_use: 9, "backups in use";
    }
}

fn update<'a>(
    sets: PathSets,
    (set, place): (Signal<'a>, Signal<'a>),
    state: Signal<'a>,
    entropy: Signal<'a>,
    qpn: Signal<'a>,
) -> Signal<'a> {
    let m = set.module();
    Fields::build::<PathUpdate>(|name, width| match name {
        "set" => set,
        "state" => state,
        "path" => place,
        "port" => sets.port_of(place).zero_extend(3),
        "entropy" => entropy,
        "qpn" => qpn,
        _ => m.lit(0, width),
    })
    .pack()
}

/// Builds the queue, the planes and the outputs.
pub(super) fn planes<'a>(
    m: Module<'a>,
    sets: PathSets,
    changes: &Changes<'a>,
    judged: &Judged<'a>,
    sweep: Sweep<'a>,
    paths: Stream<'a>,
    probes: Stream<'a>,
) {
    let set_bits = sets.set_bits();
    let width = sets.plane_places();
    let (waiting, step) = (changes.waiting, changes.step);
    let is_step = |number: u32| step.eq_lit(number);

    // The queue.
    let bits = index_width(u64::from(CHANGES));
    let queue = m
        .memory("changes_queue", CHANGES, Change::packed_width())
        .style(MemoryStyle::Distributed);
    let pop = m.wire("change_pop", 1);
    let pointer = |name: &str, moves: Signal<'a>| {
        let pointer = m.reg(name, bits).reset(0);
        m.when(moves, || pointer.set(pointer + pointer.lit(1)));
        pointer
    };
    queue.write(
        judged.changes,
        pointer("changes_tail", judged.changes),
        judged.change.pack(),
    );
    let head = Change::unpack(queue.read_now(pointer("changes_head", pop))).named("head_change");
    m.when(judged.changes & !pop, || waiting.set(waiting + waiting.lit(1)))
        .else_when(!judged.changes & pop, || waiting.set(waiting - waiting.lit(1)));
    m.assert("changes_have_room", !(judged.changes & waiting.eq_lit(CHANGES)));

    // What leaves.
    let given = m.reg("update_given", 1).reset(0);
    let update_data = m.reg("update_data", paths.data.width());
    paths.valid.set(given);
    paths.data.set(update_data);
    let free = (!given | paths.ready).named("update_free");
    let probe_given = m.reg("probe_given", 1).reset(0);
    let probe_data = m.reg("probe_data", probes.data.width());
    probes.valid.set(probe_given);
    probes.data.set(probe_data);
    m.when(paths.ready, || given.set_lit(0));
    m.when(probes.ready, || probe_given.set_lit(0));

    let has_head = waiting.any() & is_step(0);
    let passes = (has_head & head.skip & free).named("skip_passes");
    let starts = (has_head & !head.skip).named("change_starts");
    pop.set(passes | starts);
    let current = Change::regs(m, "current");
    m.when(starts, || {
        current.set(&head);
        step.set_lit(1);
    });
    let none = m.lit(0, 32);
    let nobody = m.lit(0, 24);
    m.when(passes, || {
        given.set_lit(1);
        update_data.set(update(sets, (head.set, head.place), head.state, none, nobody));
    });
    current.skip.ignore();

    // Tables: entropy values, planes, who sent last.
    let moved_place = m.wire("moved_place", 8).doc("backup that moves");
    let reads_moved = is_step(4);
    let entropies = m
        .memory("entropies", sets.paths(), 32)
        .read_during_write(ReadDuringWrite::DontCare);
    entropies.write(judged.writes_entropy, judged.index, judged.entropy);
    let place_read = reads_moved.mux(moved_place, head.place);
    let set_read = reads_moved.mux(current.set, head.set).part(0, set_bits);
    let entropy = entropies.read(starts | reads_moved, sets.path_index(set_read, place_read));
    let senders = m
        .memory("senders", depth(sets.sets), 24)
        .read_during_write(ReadDuringWrite::Old);
    let swept = |bits: u32| sweep.index.part(0, bits);
    senders.write(
        judged.sent | sweep.active,
        sweep.active.mux(swept(set_bits), judged.change.set.part(0, set_bits)),
        judged.qpn.gate(!sweep.active),
    );
    let sender = senders.read(starts, head.set.part(0, set_bits));
    let plane_index = |change: &Change<'a>| sets.plane_index(change.set.part(0, set_bits), sets.port_of(change.place));
    let table = m.memory("planes", sets.all_planes(), Counts::packed_width() + 2 * width);
    let read = table.read(starts, plane_index(&head));

    // Step 1: what was read is there; the path's own update, or the probe, leaves.
    let own_entropy = entropy.gate(current.state.ne_lit(PathState::Absent as u8));
    let own = (current.set, current.place);
    let goes_on = (is_step(1) & (current.probe | free)).named("own_update_leaves");
    let counts_1 = Counts::regs(m, "counts_before");
    let (idle_1, active_1) = (m.reg("idle_before", width), m.reg("active_before", width));
    m.when(goes_on & current.probe, || {
        probe_given.set_lit(1);
        probe_data.set(update(sets, own, current.state, entropy, sender));
        step.set_lit(0);
    })
    .else_when(goes_on, || {
        given.set_lit(1);
        update_data.set(update(sets, own, current.state, own_entropy, nobody));
        counts_1.set(&Counts::unpack(read.part(0, Counts::packed_width())));
        idle_1.set(read.part(Counts::packed_width(), width));
        active_1.set(read.part(Counts::packed_width() + width, width));
        step.set_lit(2);
    });

    // Step 2: the path leaves its old role and takes its new one.
    let bit = decode(m, sets.bit_of(current.place), width).delayed("place_one_hot");
    let was_active = (bit & active_1).any();
    let one = |flag: Signal<'a>| flag.zero_extend(9);
    let counts_2 = Counts::regs(m, "counts");
    let (idle_2, active_2) = (m.reg("idle", width), m.reg("active", width));
    let leaves = bit.gate(current.was_spare);
    m.when(is_step(2), || {
        counts_2
            .wanted
            .set(counts_1.wanted - one(current.was_out) + one(current.is_out));
        counts_2
            .in_use
            .set(counts_1.in_use - one(current.was_spare & was_active));
        idle_2.set((idle_1 & !leaves) | bit.gate(current.is_spare));
        active_2.set(active_1 & !leaves);
        step.set_lit(3);
    });

    // Step 3: is there one too few, or one too many, and which would move? Step 4: it moves.
    let wants = counts_2.in_use.lt(counts_2.wanted) & idle_2.any();
    let spares = counts_2.in_use.gt(counts_2.wanted);
    let to_use = m.reg("to_use", 1).doc("the backup goes into use");
    let moves = m.reg("backup_moves", 1);
    m.when(is_step(3), || {
        to_use.set(wants);
        moves.set(wants | spares);
        step.set_lit(4);
    });
    let port = sets.port_of(current.place);
    // Both answers are sought before it is known which is wanted. `idle` and `active` stand still from step 3 on, and so do these from step 4 on.
    let lowest_of = |name: &str, role: Signal<'a>| {
        let first = lowest(role);
        let place = sets.place(encode(first), port);
        (
            first.delayed(&format!("lowest_{name}")),
            place.delayed(&format!("lowest_{name}_place")),
        )
    };
    let (lowest_idle, idle_place) = lowest_of("idle", idle_2);
    let (lowest_active, active_place) = lowest_of("active", active_2);
    let goes_back = moves & !to_use;
    moved_place.set(to_use.mux(idle_place, active_place));
    let next = cat_lsb_first(&[
        counts_2.wanted,
        moves.mux(
            to_use.mux(counts_2.in_use + m.lit(1, 9), counts_2.in_use - m.lit(1, 9)),
            counts_2.in_use,
        ),
        (idle_2 & !lowest_idle.gate(to_use)) | lowest_active.gate(goes_back),
        (active_2 | lowest_idle.gate(to_use)) & !lowest_active.gate(goes_back),
    ]);
    let plane_bits = sets.plane_index(m.lit(0, set_bits), m.lit(0, sets.port_bits())).width();
    table.write(
        is_step(4) | sweep.active,
        sweep.active.mux(swept(plane_bits), plane_index(&current)),
        next.gate(!sweep.active),
    );
    m.when(is_step(4), || step.set(moves.mux(m.lit(5, 3), m.lit(0, 3))));

    // Step 5: the update of the backup leaves.
    let state = to_use.mux(m.lit(PathState::Good as u8, 3), m.lit(PathState::Backup as u8, 3));
    m.when(is_step(5) & free, || {
        given.set_lit(1);
        update_data.set(update(sets, (current.set, moved_place), state, entropy, nobody));
        step.set_lit(0);
    });
}
