//! The bitmaps of a set: which paths are good, which the next rotation leaves out, which this one has not come to, which are bad.
//!
//! Clock 7: the word of the set is judged and changed, one operation a clock. Clock 8: the packet's choice among them. A path that changed is counted in
//! clocks 8 to 10, for the flags that the front half reads.

use spraynic_rtl::{Bundle, Module, Signal, bundle, cat_lsb_first};

use super::port::{FlagsWrite, Front, count_bits};
use super::{Chosen, delayed};
use crate::path_sets::{GROUP, PathSets, count_ones, decode, lowest, several};
use crate::state_table::{Stages, state_table};
use crate::sweep::Sweep;

/// A plane of a set, a bit a path.
#[derive(Clone, Copy)]
struct Plane<'a> {
    good: Signal<'a>,
    marked: Signal<'a>,
    remaining: Signal<'a>,
    bad: Signal<'a>,
}

impl<'a> Plane<'a> {
    fn unpack(word: Signal<'a>) -> Self {
        let width = word.width() / 4;
        let part = |index: u32| word.part(index * width, width);
        Self {
            good: part(0),
            marked: part(1),
            remaining: part(2),
            bad: part(3),
        }
    }

    fn pack(&self) -> Signal<'a> {
        cat_lsb_first(&[self.good, self.marked, self.remaining, self.bad])
    }
}

bundle! {
    /// The operation at the bitmaps, and what of it goes on.
    pub(super) struct Carried {
        packet: 1, "a packet";
        own: 1, "it keeps the entropy value of its descriptor";
        direct: 1, "it has no path, but the entropy value of the context";
        turn: 1, "the next path, good or bad";
        by_rank: 1, "a path by its rank among all";
        fraction: 16, "place among all paths";
        paths: 9, "good and bad paths of the port";
        set: 12, "set of paths";
        port: 3, "port";
        entropy: 32, "entropy value of the context";
    }
}

/// What the bitmaps give.
pub(super) struct Judged<'a> {
    /// Operations with a packet in clocks 6, 7 and 8, for the turns.
    pub(super) carried: [Carried<'a>; 3],
    /// Clock 8: the path of the rotation or the recycled one, one-hot in its plane.
    pub(super) picked: Signal<'a>,
    /// Clock 8: all paths of the plane.
    pub(super) all: Signal<'a>,
    pub(super) took_recycled: Signal<'a>,
    pub(super) flags: FlagsWrite<'a>,
}

fn carried<'a>(valid: Signal<'a>, chosen: &Chosen<'a>) -> Carried<'a> {
    let packet = valid & chosen.packet;
    Carried {
        packet,
        own: chosen.own,
        direct: chosen.direct,
        turn: packet & chosen.turn & !chosen.direct,
        by_rank: !chosen.rotates,
        fraction: chosen.fraction,
        paths: chosen.paths,
        set: chosen.set,
        port: chosen.port,
        entropy: chosen.entropy,
    }
}

/// Builds the bitmaps behind the front half.
pub(super) fn bitmaps<'a>(m: Module<'a>, sets: PathSets, front: &Front<'a>, sweep: Sweep<'a>) -> Judged<'a> {
    let (set_bits, planes, width) = (sets.set_bits(), sets.planes(), sets.plane_places());
    let port_bits = sets.port_bits();
    let flag = |name: &str, value: Signal<'a>| {
        let register = m.reg(name, 1).reset(0);
        register.set(value);
        register
    };
    let valid_7 = flag("valid_7", front.valid);
    let op_6 = front.chosen;
    let op_7 = Chosen::regs(m, "op_7");
    op_7.set(&op_6);
    let table = state_table(
        m,
        "path_bitmaps",
        (sets.sets, 4 * width * planes),
        Stages {
            valid: [front.leaves, front.valid, valid_7],
            index: [front.set, op_6.set.part(0, set_bits), op_7.set.part(0, set_bits)],
            advance: m.high(),
        },
        sweep,
    );
    let words: Vec<Signal<'a>> = (0..planes)
        .map(|plane| table.word.part(plane * 4 * width, 4 * width))
        .collect();
    let port = op_7.port.part(0, port_bits);
    let plane = Plane::unpack(port.select(&words));
    let place_bit = decode(m, sets.bit_of(op_6.place), width).delayed("place_one_hot_7");

    // A packet: the recycled path if it is good, or the next one of the rotation.
    let lowest = lowest(plane.remaining).named("lowest_remaining");
    let recycled_is_good = (place_bit & plane.good).any();
    let takes_recycled = (op_7.recycled & recycled_is_good & op_7.packet).named("takes_recycled");
    let rotates = (op_7.packet & op_7.rotates & !takes_recycled).named("moves_rotation");
    let last_one = !several(plane.remaining);

    // An update: one bit.
    let in_remaining = (place_bit & plane.remaining).any();
    let clears_one = op_7.change | op_7.skip;
    let cleared = place_bit.gate(clears_one);
    let kept = plane.remaining & !cleared;
    let sets_good = op_7.change & op_7.good;
    let good = ((plane.good & !place_bit.gate(op_7.change)) | place_bit.gate(sets_good)).named("good_then");
    let marks = op_7.skip & !in_remaining;
    let marked = (plane.marked & !place_bit.gate(op_7.change)) | (place_bit & plane.good).gate(marks);
    let bad = (plane.bad & !place_bit.gate(op_7.change)) | place_bit.gate(op_7.change & op_7.bad);
    let remaining = (kept & !lowest.gate(rotates)) | place_bit.gate(sets_good);

    // A rotation that is over begins anew.
    let update_ends = clears_one & !sets_good & !kept.any();
    let over = ((rotates & last_one) | update_ends).named("rotation_is_over");
    let unmarked = good & !marked;
    let renewed = unmarked.any().mux(unmarked, good);
    let next = Plane {
        good,
        marked: marked.gate(!over),
        remaining: over.mux(renewed, remaining),
        bad,
    };
    let mine = decode(m, port, planes).named("plane_of_operation");
    let next_words: Vec<Signal<'a>> = words
        .iter()
        .zip(mine.to_bits())
        .map(|(word, mine)| mine.mux(next.pack(), *word))
        .collect();
    // An operation without a set's path changes nothing: a packet that rotates not, a recycled path.
    let touches = op_7.skip | op_7.change | rotates;
    table.next.set(touches.mux(cat_lsb_first(&next_words), table.word));

    let picked = takes_recycled.mux(place_bit, lowest).delayed("picked_8");
    let all = (plane.good | plane.bad).delayed("all_paths_8");

    // The flags of a plane that changed.
    let changed = (valid_7 & op_7.change).delayed("changed_8");
    let (good_8, bad_8) = (next.good.delayed("good_8"), next.bad.delayed("bad_8"));
    let count = count_in_clocks(m, good_8 | bad_8, count_bits(sets), "changed");
    let later = |signal: Signal<'a>, name: &str| delayed(signal, name, 8..10);
    let flags = cat_lsb_first(&[
        later(good_8.any(), "changed_good"),
        later(bad_8.any(), "changed_bad"),
        count,
    ]);
    let carried_6 = carried(front.valid, &op_6);
    let carried_7 = carried(valid_7, &op_7);
    let registers = Carried::regs(m, "op_8");
    registers.set(&carried_7);
    for unread in [registers.packet, registers.turn, registers.fraction, op_7.place] {
        unread.ignore();
    }
    let carried_8 = Carried {
        packet: flag("packet_8", carried_7.packet),
        turn: flag("turn_8", carried_7.turn),
        ..registers
    };
    Judged {
        carried: [carried_6, carried_7, carried_8],
        picked,
        all,
        took_recycled: flag("took_recycled", takes_recycled & valid_7),
        flags: FlagsWrite {
            write: delayed(changed, "changed", 8..10),
            set: later(carried_8.set.part(0, set_bits), "changed_set"),
            planes: later(mine.delayed("changed_plane_8"), "changed_plane"),
            flags,
        },
    }
}

/// Counts the bits of a vector in two clocks: groups first.
fn count_in_clocks<'a>(m: Module<'a>, vector: Signal<'a>, width: u32, name: &str) -> Signal<'a> {
    let sums: Vec<Signal<'a>> = (0..vector.width())
        .step_by(GROUP as usize)
        .map(|low| {
            let group = vector.part(low, GROUP.min(vector.width() - low));
            count_ones(group, 5).delayed(&format!("{name}_ones_{low}"))
        })
        .collect();
    let total = sums.iter().fold(m.lit(0, 9), |total, sum| total + sum.zero_extend(9));
    total.resize(width).delayed(&format!("{name}_paths"))
}
