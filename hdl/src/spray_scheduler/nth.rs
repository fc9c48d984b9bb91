//! The path of a packet by its rank: the next one in turn of all paths of a port, or the one at a fraction of them.
//!
//! Clock 8: the rank in turn, read and moved on, one a clock. From clock 9 on, the path that has so many before it is looked for: its group of 16 first, where
//! there are several groups. Paths that the bitmaps picked go beside it.

use spraynic_rtl::{Bundle, Module, Signal, bundle, cat_lsb_first};

use super::bitmaps::{Carried, Judged};
use super::delayed;
use crate::path_sets::{GROUP, PathSets, count_ones, encode};
use crate::state_table::{Stages, state_table};
use crate::sweep::Sweep;

bundle! {
    /// A packet with its path.
    pub(super) struct Found {
        packet: 1, "a packet";
        own: 1, "it keeps the entropy value of its descriptor";
        direct: 1, "it has no path, but the entropy value of the context";
        set: 12, "set of paths";
        port: 3, "port";
        place: 8, "place of the path in the set";
        entropy: 32, "entropy value of the context";
    }
}

/// Bits of a rank: 0 to 255, and one more for a count.
const RANK: u32 = 9;

/// Finds the path of each packet behind the bitmaps.
pub(super) fn path<'a>(m: Module<'a>, sets: PathSets, judged: &Judged<'a>, sweep: Sweep<'a>) -> Found<'a> {
    let set_bits = sets.set_bits();
    let port_bits = sets.port_bits();
    let [op_6, op_7, op_8] = judged.carried;
    for carried in [op_6, op_7] {
        for unread in carried.signals() {
            unread.ignore();
        }
    }
    let index = |op: Carried<'a>| sets.plane_index(op.set.part(0, set_bits), op.port.part(0, port_bits));
    let turns = state_table(
        m,
        "turn",
        (sets.all_planes(), RANK),
        Stages {
            valid: [op_6.turn, op_7.turn, op_8.turn],
            index: [op_6, op_7, op_8].map(index),
            advance: m.high(),
        },
        sweep,
    );
    let wraps = turns.word.ge(op_8.paths);
    let turn = turns.word.gate(!wraps).named("turn_now");
    turns.next.set(turn + turn.lit(1));
    let product = op_7.fraction.mul_wide(op_7.paths).delayed("fraction_of_paths");
    let rank = op_8.turn.mux(turn, product.part(16, RANK)).delayed("rank_9");

    let (by_rank, clocks) = nth(m, judged.all.delayed("all_paths_9"), rank);
    let beyond = 9 + clocks;
    let picked = encode(judged.picked).delayed("picked_9");
    let picked = delayed(picked, "picked", 9..beyond);
    let later = |signal: Signal<'a>, name: &str| delayed(signal, name, 8..beyond);
    let uses_rank = later(op_8.by_rank, "by_rank");
    let bit = uses_rank.mux(by_rank.resize(picked.width()), picked);
    let port = later(op_8.port, "port");
    let found = Found::regs(m, "found");
    let is_packet = (8..beyond).fold(op_8.packet, |packet, clock| {
        let register = m.reg(&format!("packet_{}", clock + 1), 1).reset(0);
        register.set(packet);
        register
    });
    let packet = m.reg("found_a_packet", 1).reset(0);
    packet.set(is_packet);
    let values = Found {
        packet: is_packet,
        own: later(op_8.own, "own"),
        direct: later(op_8.direct, "direct"),
        set: later(op_8.set, "set"),
        port,
        place: sets.place(bit, port.part(0, port_bits)),
        entropy: later(op_8.entropy, "entropy"),
    };
    found.set(&values);
    found.packet.ignore();
    Found { packet, ..found }
}

/// The number of the bit that has `rank` set ones below it, and the clocks that takes; `vector` and `rank` are registers.
fn nth<'a>(m: Module<'a>, vector: Signal<'a>, rank: Signal<'a>) -> (Signal<'a>, u32) {
    let width = vector.width();
    if width <= GROUP {
        let (bit, clocks) = nth_of_group(m, vector, rank.part(0, 5));
        return (bit, clocks);
    }
    let groups: Vec<Signal<'a>> = (0..width)
        .step_by(GROUP as usize)
        .map(|low| vector.part(low, GROUP))
        .collect();
    // Clock 1: ones of each group. Clock 2: ones up to its end. Clock 3: which group. Clock 4: the group.
    let ones: Vec<Signal<'a>> = groups
        .iter()
        .enumerate()
        .map(|(index, group)| count_ones(*group, RANK).delayed(&format!("group_{index}_ones")))
        .collect();
    let mut ends: Vec<Signal<'a>> = vec![];
    for (index, group) in ones.iter().enumerate() {
        let sum = match index {
            0 => *group,
            _ => tree_sum(&ones[..=index]),
        };
        ends.push(sum.delayed(&format!("group_{index}_end")));
    }
    let rank_2 = delayed(rank, "rank_of_group", 0..2);
    let before: Vec<Signal<'a>> = ends
        .iter()
        .enumerate()
        .map(|(index, end)| rank_2.lt(*end).delayed(&format!("ends_behind_{index}")))
        .collect();
    let starts_3: Vec<Signal<'a>> = ends[..ends.len() - 1]
        .iter()
        .enumerate()
        .map(|(index, end)| end.delayed(&format!("group_{index}_end_3")))
        .collect();
    let rank_3 = rank_2.delayed("rank_of_group_3");
    let vector_3 = delayed(vector, "vector", 0..3);
    let mut group = m.lit(0, GROUP);
    let mut start = m.lit(0, RANK);
    let mut chosen = vec![];
    for index in 0..groups.len() {
        let is = match index {
            0 => before[0],
            _ => before[index] & !before[index - 1],
        };
        group = group | vector_3.part(index as u32 * GROUP, GROUP).gate(is);
        if index > 0 {
            start = start | starts_3[index - 1].gate(is);
        }
        chosen.push(is);
    }
    let number = encode(cat_lsb_first(&chosen)).delayed("group_number");
    let group = group.delayed("group");
    let local = (rank_3 - start).part(0, 5).delayed("rank_in_group");
    let (bit, clocks) = nth_of_group(m, group, local);
    let number = delayed(number, "group_number_of_bit", 0..clocks);
    (cat_lsb_first(&[bit, number]), 4 + clocks)
}

/// A sum as a balanced tree.
fn tree_sum<'a>(numbers: &[Signal<'a>]) -> Signal<'a> {
    match numbers {
        [one] => *one,
        _ => {
            let (low, high) = numbers.split_at(numbers.len() / 2);
            tree_sum(low) + tree_sum(high)
        }
    }
}

/// The same within 16 bits, in two clocks: how many are below each, then which of them is the one.
fn nth_of_group<'a>(m: Module<'a>, vector: Signal<'a>, rank: Signal<'a>) -> (Signal<'a>, u32) {
    let matches: Vec<Signal<'a>> = (0..vector.width())
        .map(|index| {
            let below = match index {
                0 => m.lit(0, 5),
                _ => count_ones(vector.part(0, index), 5),
            };
            below.delayed(&format!("ones_below_{index}"))
        })
        .collect();
    let vector = vector.delayed("group_1");
    let rank = rank.delayed("rank_in_group_1");
    let one_hot: Vec<Signal<'a>> = matches
        .iter()
        .enumerate()
        .map(|(index, below)| vector.bit(index as u32) & below.eq(rank))
        .collect();
    let one_hot = cat_lsb_first(&one_hot).delayed("one_hot_in_group");
    (encode(one_hot), 2)
}
