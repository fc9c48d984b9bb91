//! The report: what the window looks like behind an operation. It works on a snapshot of the bitmap that is taken with the operation's own
//! write (clock 4); its only loop is which groups have a hole, which is kept beside the bitmap.
//!
//! Clock 4: the group of the first missing PSN; the row, which has come out of its RAM. 5: words for `near` and `bitmap`; the four bits that the first
//! missing PSN is among. 6: its place; both are shifted by groups of four bits, `cumulative`.
//! 7: they are shifted by single bits.

use super::decide::{Decision, Window};
use super::op::Op;
use super::sizes::{GROUP, GROUP_BITS, Sizes, Sweep, greater_than, lowest};
use spraynic_config::descriptor::SequenceOutcome;
use spraynic_rtl::{Bundle, Module, ReadDuringWrite, Signal, bundle, cat, cat_lsb_first, index_width};

bundle! {
    /// What the report says beside the facts of the packet.
    pub(super) struct Findings {
        outcome: 4, "SequenceOutcome";
        cumulative: 24, "the PSN before the first missing one";
        beyond_gap: 11, "packets beyond it";
        far: 8, "in units of 64 PSNs behind `near`";
        near: 64, "the 64 PSNs behind `cumulative`";
        bitmap: 64, "the 64 PSNs that the packet stands among";
    }
}

/// How far a window can move, as of clock 7.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach<'a> {
    pub(super) valid: Signal<'a>,
    /// The operation was a scan.
    pub(super) scan: Signal<'a>,
    /// It was the last one of a turn; at a packet for which there is still no receive request.
    pub(super) last: Signal<'a>,
    pub(super) starved: Signal<'a>,
    pub(super) space: Signal<'a>,
    pub(super) index: Signal<'a>,
    /// The window is one with a bitmap.
    pub(super) has_row: Signal<'a>,
    pub(super) base: Signal<'a>,
    /// PSNs from the base on that have been received.
    pub(super) run: Signal<'a>,
    pub(super) credits: Signal<'a>,
    pub(super) window: Signal<'a>,
}

/// The report pipeline.
pub(super) struct Reports<'a> {
    /// Clock 7: a packet's findings.
    pub(super) valid: Signal<'a>,
    pub(super) findings: Findings<'a>,
    pub(super) reach: Reach<'a>,
}

/// Follows a value from clock to clock.
fn follow<'a>(signal: Signal<'a>, name: &str, clocks: std::ops::RangeInclusive<u32>) -> Vec<Signal<'a>> {
    let mut stages = vec![];
    let mut value = signal;
    for clock in clocks {
        value = value.delayed(&format!("{name}_{clock}"));
        value.ignore();
        stages.push(value);
    }
    stages
}

/// What clock 4 knows of the bitmap behind its operation.
struct Bitmap<'a> {
    /// The first missing PSN is in the base's group, at or behind the base.
    own: Signal<'a>,
    /// Nothing is missing: the window is full.
    full: Signal<'a>,
    /// The group that the first missing PSN is in; that of the base if the window is full.
    group: Signal<'a>,
    /// All bits, the operation's own included; none of a window that has no bitmap.
    row: Signal<'a>,
    /// By bit: the base's place in its group is behind it.
    below: Signal<'a>,
}

/// Keeps the bitmap, and which of its groups have a hole; `own` is kept too, because only who reads the base's group could tell it.
fn bitmap<'a>(
    m: Module<'a>,
    sizes: &Sizes,
    decision: &Decision<'a>,
    sweep: &Sweep<'a>,
    has_row: Signal<'a>,
) -> Bitmap<'a> {
    let (op_2, op_3, op_4, at_4) = (decision.op_2, decision.op_3, decision.op_4, decision.at_4);
    let row_of = |op: &Op<'a>| sizes.row_address(op.space, op.index);
    let (clears, clear_address) = sweep.of(sizes.rows());
    let groups = sizes.groups();
    let base = Window::unpack(at_4.window).base;
    let base_group = sizes.group_of(base);
    let base_bit = base.part(0, GROUP_BITS);
    let group = sizes.group_of(op_4.psn);
    let here: Vec<_> = (0..groups).map(|index| group.eq_lit(index)).collect();

    // Holes: of the operation directly ahead from clock 4, of the one before from the register behind it, of others out of the RAM, which is
    // written from that register because it lies where there is room for it.
    let holes = m
        .memory("holes", sizes.rows(), groups + 1)
        .read_during_write(ReadDuringWrite::New);
    let next = m.wire("holes_next", groups + 1);
    let changes = (at_4.valid & has_row & (at_4.group_changed | at_4.moved)).named("holes_change");
    let same = row_of(&op_3).eq(row_of(&op_2)).delayed("row_same_4_3");
    let kept = holes.read(m.high(), row_of(&op_2));
    let next_5 = next.delayed("holes_5");
    let from_5 = (changes & row_of(&op_4).eq(row_of(&op_2)))
        .delayed("holes_from_5")
        .reset(0);
    let kept_4 = (changes & same).mux(next, from_5.mux(next_5, kept)).delayed("holes_4");
    let changed_5 = changes.delayed("holes_changed_5").reset(0);
    holes.write(
        clears | changed_5,
        clears.mux(clear_address, row_of(&op_4).delayed("holes_row_5")),
        next_5 | clears.repeat(groups + 1),
    );
    let (others, own_before) = (kept_4.part(0, groups), kept_4.msb());
    let hole_here = (!at_4.group.all()).named("group_has_hole");
    let with = |hole: Signal<'a>| {
        let bits: Vec<_> = others
            .to_bits()
            .into_iter()
            .zip(&here)
            .map(|(other, here)| here.mux(hole, other))
            .collect();
        cat_lsb_first(&bits)
    };
    let below = cat_lsb_first(&greater_than(base_bit, GROUP));
    let own_of_group = (!at_4.group & !below).any();
    let own_of_next = at_4.moved.mux(base_group.select(&others.to_bits()), own_before);
    let own = group.eq(base_group).mux(own_of_group, own_of_next);
    next.set(cat(&[own, with(hole_here)]));
    let own = (own | !has_row).named("own_group_has_hole");

    // The first group with a hole behind the base's one, which comes last; for both cases of the operation's own group.
    let reaches: Vec<_> = greater_than(base_group, groups - 1);
    let reaches: Vec<_> = std::iter::once(m.high()).chain(reaches).collect();
    let search = |holes: Signal<'a>| {
        let behind: Vec<_> = (0..groups)
            .zip(&reaches)
            .map(|(index, reaches)| holes.bit(index) & !*reaches)
            .collect();
        let ((behind, behind_group), (any, first_group)) = (lowest(&behind), lowest(&holes.to_bits()));
        (any, behind.mux(behind_group, first_group))
    };
    let (_, with_hole) = search(with(m.high()));
    let (others_any, without_hole) = search(with(m.low()));
    let full = (!own & !hole_here & !others_any).named("window_is_full");
    let found = hole_here.mux(with_hole, without_hole);
    let group = (own | full).mux(base_group, found).named("missing_group");

    // The row is read two clocks before, because it comes from many RAMs, and has a register; what the operation directly ahead writes meanwhile
    // is put in from there.
    let rows = m
        .memory("rows", sizes.rows(), sizes.window)
        .strobes(GROUP)
        .read_during_write(ReadDuringWrite::New);
    let strobe = cat_lsb_first(&here);
    rows.write_strobed(
        clears | at_4.group_changed,
        clears.mux(clear_address, row_of(&op_4)),
        at_4.group.gate(!clears).repeat(groups),
        clears.mux(strobe.lit(0), strobe) | clears.repeat(groups),
    );
    let row = rows.read(m.high(), row_of(&op_2)).delayed("row_4");
    let ahead = strobe.gate(same & at_4.group_changed).delayed("group_written_ahead");
    let of_ahead = at_4.group.delayed("group_ahead");
    let words: Vec<_> = (0..groups)
        .zip(&here)
        .map(|(index, here)| {
            let before = ahead.bit(index).mux(of_ahead, row.part(index * GROUP, GROUP));
            here.mux(at_4.group, before).gate(has_row)
        })
        .collect();
    Bitmap {
        own,
        full,
        group,
        row: cat_lsb_first(&words),
        below,
    }
}

/// Builds clocks 2 to 7.
pub(super) fn report<'a>(m: Module<'a>, sizes: &Sizes, decision: &Decision<'a>, sweep: &Sweep<'a>) -> Reports<'a> {
    let (op_4, at_4) = (decision.op_4, decision.at_4);
    let base_4 = Window::unpack(at_4.window).base;
    let packet = follow(op_4.valid & op_4.packet, "packet", 5..=7);
    for stage in &packet {
        let _ = stage.reset(0);
    }
    let outcome = follow(at_4.outcome, "outcome", 5..=7);
    let known = follow(at_4.known, "known", 5..=6);
    let base = follow(base_4, "base", 5..=7);
    let base_5 = base[0];
    let of_known = |signal: Signal<'a>| signal.gate(known[1]);

    if !sizes.has_rows() {
        // roce alone: the first missing PSN is the base.
        let cumulative = (base_5 - base_5.lit(1)).delayed("cumulative_6");
        return Reports {
            valid: packet[2],
            findings: Findings {
                outcome: outcome[2],
                cumulative: of_known(cumulative).delayed("cumulative_7"),
                beyond_gap: m.lit(0, 11),
                far: m.lit(0, 8),
                near: m.lit(0, 64),
                bitmap: m.lit(0, 64),
            },
            reach: no_reach(m, sizes),
        };
    }

    // Clock 4.
    let has_row = if sizes.mrc {
        m.high()
    } else {
        sizes.may_reorder(m, op_4.index)
    };
    let bitmap = bitmap(m, sizes, decision, sweep, has_row);
    let groups = sizes.groups();
    let psn_bit = op_4.psn.part(0, GROUP_BITS);
    let base_bit = base_4.part(0, GROUP_BITS);
    let refused = at_4.outcome.ge(at_4.outcome.lit(SequenceOutcome::Closed as u8));
    let older = (op_4.psn - base_4).msb();
    let up_to: Vec<_> = std::iter::once(m.high())
        .chain(greater_than(psn_bit, GROUP - 1))
        .collect();
    let row_5 = bitmap.row.delayed("row_5");
    let below_5 = bitmap.below.delayed("below_base_5");
    let up_to_psn_5 = cat_lsb_first(&up_to).delayed("up_to_psn_5");
    let psn_below_base_5 = psn_bit.lt(base_bit).delayed("psn_below_base_5");
    let may_be_ahead_5 = (!refused & !older & !bitmap.full).delayed("psn_may_be_ahead_5");
    let own_5 = bitmap.own.delayed("own_group_5");
    let full_5 = bitmap.full.delayed("window_full_5");
    let group_5 = bitmap.group.delayed("missing_group_5");
    // It chooses hundreds of bits; the inverse has a register of its own, and chooses half of them.
    let group_copy_5 = !(!bitmap.group).delayed("missing_group_inverse_5");
    let psn_group_5 = sizes.group_of(op_4.psn).delayed("psn_group_5");
    // Where the window ends, seen from the packet's group: so many groups behind it, before the base's own bit.
    let psn_to_end = sizes.group_of(base_4) - sizes.group_of(op_4.psn);
    let psn_to_end_5 = |step: u32| {
        let at = psn_to_end
            .eq_lit(u64::from(step))
            .delayed(&format!("window_ends_{step}_behind_psn_5"));
        let further = psn_to_end
            .gt(psn_to_end.lit(step))
            .delayed(&format!("window_goes_on_{step}_behind_psn_5"));
        (at, further)
    };
    let base_group_less_5 = [1u32, 2].map(|step| {
        let group = sizes.group_of(base_4);
        (group - group.lit(step % groups)).delayed(&format!("base_group_less_{step}_5"))
    });
    let base_group_5 = sizes.group_of(base_5);
    let base_place_5 = base_5.part(0, sizes.window_bits);
    let count_5 = at_4.count.delayed("count_5");

    // Clock 5. Groups are counted from the one of the first missing PSN on; the window ends in that of the base, before the base's own bit.
    let groups_to = |group: Signal<'a>| group - group_5;
    let at_end = base_group_5.eq(group_5);
    let end = cat(&[at_end & own_5, groups_to(base_group_5)]).named("groups_to_end");
    let psn_there = psn_group_5.eq(group_5);
    let second = (psn_there & at_end & own_5 & psn_below_base_5).named("psn_at_the_far_end");
    let to_psn = cat(&[second, groups_to(psn_group_5)]).named("groups_to_psn");
    let before_end = to_psn.lt(end) | (to_psn.eq(end) & psn_below_base_5);
    let ahead = (may_be_ahead_5 & (second | (!psn_there & before_end))).named("psn_is_ahead");
    // So many blocks of two groups ahead, if the PSN's bit is below the missing one's; one more if not, where the count of groups is even.
    let blocks = ((to_psn - to_psn.lit(1)) >> 1).named("blocks_to_psn");
    let words: Vec<_> = (0..groups).map(|index| row_5.part(index * GROUP, GROUP)).collect();
    // The word so many groups behind another; what of it is in the window, where the window ends in it or goes on behind it.
    let word = |group: Signal<'a>, step: u32| {
        let rotated: Vec<_> = (0..groups)
            .map(|index| words[((index + step) % groups) as usize])
            .collect();
        group.select(&rotated)
    };
    let inside = |word: Signal<'a>, ends: Signal<'a>, goes_on: Signal<'a>| {
        word & (goes_on.repeat(GROUP) | (below_5 & ends.repeat(GROUP)))
    };
    let ends_at = [
        at_end & !own_5,
        group_5.eq(base_group_less_5[0]),
        group_5.eq(base_group_less_5[1]),
    ];
    let nothing_5 = full_5 | !known[0];
    let near_words: Vec<_> = (0..3usize)
        .map(|step| {
            let before = ends_at[..step].iter().fold(nothing_5, |any, ends| any | *ends);
            inside(
                word(if step == 0 { group_5 } else { group_copy_5 }, step as u32),
                !before & ends_at[step],
                !before & !ends_at[step],
            )
        })
        .collect();
    // Blocks begin at the packet's group or the one before, the block behind two groups later.
    let around: Vec<_> = (0..6u32)
        .map(|place| {
            let found = word(psn_group_5, (place + 2 * groups - 2) % groups);
            let Some(step) = place.checked_sub(2) else {
                return found;
            };
            // Round the whole window nobody looks.
            let (ends, goes_on) = psn_to_end_5(step.min(groups - 1));
            inside(found, ends, goes_on)
        })
        .collect();
    let one_before = to_psn.bit(0).named("block_begins_one_before_psn");
    let far_words: Vec<_> = (0..5usize)
        .map(|step| one_before.mux(around[step + 1], around[step]))
        .collect();
    let near_6 = cat_lsb_first(&near_words).delayed("near_words_6");
    let far_6 = cat_lsb_first(&far_words).delayed("far_words_6");
    let free = (!group_5.select(&words) & !(below_5 & own_5.repeat(GROUP))).named("missing_in_group");
    let nibbles: Vec<_> = (0..GROUP / 4).map(|nibble| free.part(4 * nibble, 4).any()).collect();
    let nibble = lowest(&nibbles).1;
    let nibble_6 = nibble.delayed("missing_nibble_6");
    // That one shifts; the inverse, a register of its own, makes the place.
    let nibble_copy_6 = !(!nibble).delayed("missing_nibble_inverse_6");
    let bits_6: Vec<_> = (0..GROUP / 4)
        .map(|nibble| {
            let (_, bit) = lowest(&free.part(4 * nibble, 4).to_bits());
            bit.delayed(&format!("missing_in_nibble_{nibble}_6"))
        })
        .collect();
    let borrows_6 = (!(free & up_to_psn_5).any()).delayed("psn_below_missing_6");
    let even_6 = (!to_psn.bit(0)).delayed("psn_even_6");
    let ahead_6 = ahead.delayed("psn_ahead_6");
    let blocks_6 = blocks.delayed("blocks_6");
    let one_more_6 = (blocks + blocks.lit(1)).delayed("blocks_and_one_6");
    let group_6 = group_5.delayed("missing_group_6");
    let full_6 = full_5.delayed("window_full_6");
    let base_place_6 = base_place_5.delayed("base_place_6");
    let count_from_base_6 = (count_5.part(0, sizes.window_bits) + base_place_5).delayed("count_from_base_6");
    // The first missing PSN's high bits, and those of the PSN before it if they differ.
    let wraps = group_5.lt(base_group_5) | (at_end & !own_5);
    let high = base_5.part(sizes.window_bits, 24 - sizes.window_bits);
    let high_6 = (high + wraps.zero_extend(high.width())).delayed("missing_high_6");
    let high_less_6 = (high - (!wraps).zero_extend(high.width())).delayed("missing_high_less_one_6");

    // Clock 6.
    let bit = nibble_copy_6.select(&bits_6);
    let bit_7 = bit.delayed("missing_bit_7");
    let shift = |words: Signal<'a>, name: &str| {
        let by_nibbles = (words >> cat(&[nibble_6, m.lit(0, 2)])).part(0, 67);
        (by_nibbles.delayed(name) >> bit_7).part(0, 64)
    };
    let more = (even_6 & !borrows_6).named("psn_in_the_block_behind");
    let far_words = more.mux(far_6.part(2 * GROUP, 3 * GROUP), far_6.part(0, 3 * GROUP));
    let bitmap_words = ahead_6.mux(far_words, near_6);
    let found = cat(&[group_6, nibble_copy_6, bit]);
    let place = full_6.mux(base_place_6, found).named("missing_place");
    let cumulative = cat(&[place.any().mux(high_6, high_less_6), place - place.lit(1)]);
    let run = cat(&[full_6, place - base_place_6]);
    let beyond = (count_from_base_6 - place).gate(!full_6);
    let findings = Findings {
        outcome: outcome[2],
        cumulative: of_known(cumulative).delayed("cumulative_7"),
        beyond_gap: of_known(beyond.resize(11)).delayed("beyond_gap_7"),
        far: more.mux(one_more_6, blocks_6).gate(ahead_6).resize(8).delayed("far_7"),
        near: shift(near_6, "near_7"),
        bitmap: shift(bitmap_words, "bitmap_7"),
    };
    let carry = |signal: Signal<'a>, name: &str| follow(signal, name, 5..=7)[2];
    let valid = follow(op_4.valid, "reach_valid", 5..=7);
    for stage in &valid {
        let _ = stage.reset(0);
    }
    Reports {
        valid: packet[2],
        findings,
        reach: Reach {
            valid: valid[2],
            scan: carry(op_4.scan, "reach_scan"),
            last: carry(op_4.advance & op_4.last, "reach_last"),
            starved: carry(op_4.starved & !at_4.credits.any(), "reach_starved"),
            space: carry(op_4.space, "reach_space"),
            index: carry(op_4.index, "reach_index"),
            has_row: carry(has_row & op_4.in_table, "reach_has_row"),
            base: base[2],
            run: run.delayed("run_7"),
            credits: carry(at_4.credits, "reach_credits"),
            window: carry(at_4.window, "reach_window"),
        },
    }
}

fn no_reach<'a>(m: Module<'a>, sizes: &Sizes) -> Reach<'a> {
    Reach {
        valid: m.low(),
        scan: m.low(),
        last: m.low(),
        starved: m.low(),
        space: m.low(),
        index: m.lit(0, sizes.qpn_bits),
        has_row: m.low(),
        base: m.lit(0, 24),
        run: m.lit(0, sizes.count_bits()),
        credits: m.lit(0, sizes.credit_bits()),
        window: m.lit(0, Window::packed_width()),
    }
}

/// Bits of a row's number.
pub(super) fn row_bits(sizes: &Sizes) -> u32 {
    index_width(sizes.rows().into())
}
