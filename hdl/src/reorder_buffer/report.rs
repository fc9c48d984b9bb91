//! The report: what the window looks like behind an operation. It has no loop: a snapshot of the bitmap, taken in the clock of the write
//! (clock 4), goes through the search for the first missing PSN and two cuts of 64 bits.
//!
//! Clock 5: the row comes out of the RAM. 6: full groups, and the base's own group. 7: the group of the first missing PSN. 8: its place in the
//! group. 9: its distance from the base and from the packet; words for `near`. 10: `cumulative`, `near`; words for `bitmap`. 11: `bitmap`.

use super::decide::{Decision, Window};
use super::sizes::{GROUP, GROUP_BITS, Sizes, Sweep, lowest};
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

/// How far a window can move, as of clock 10.
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
    /// Clock 11: a packet's findings.
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

/// The three words of the row from a group on: whichever bit of the first one 64 bits begin at, they hold them.
fn words_from<'a>(sizes: &Sizes, row: Signal<'a>, group: Signal<'a>) -> Signal<'a> {
    let groups = sizes.groups();
    let words: Vec<_> = (0..3)
        .map(|step| {
            let choices: Vec<_> = (0..groups)
                .map(|index| row.part((index + step) % groups * GROUP, GROUP))
                .collect();
            group.select(&choices)
        })
        .collect();
    cat_lsb_first(&words)
}

/// The 64 bits from the place in the first word on, as far as the window reaches: `room` PSNs.
fn cut<'a>(words: Signal<'a>, place: Signal<'a>, room: Signal<'a>) -> Signal<'a> {
    let m = place.module();
    let shifted = (words >> place).part(0, 64);
    let all = (room >> 6).any();
    let few = room.part(0, 6);
    let inside: Vec<_> = (0..64u32).map(|bit| all | few.gt(m.lit(bit, 6))).collect();
    shifted & cat_lsb_first(&inside)
}

/// Builds clocks 4 to 11.
pub(super) fn report<'a>(m: Module<'a>, sizes: &Sizes, decision: &Decision<'a>, sweep: &Sweep<'a>) -> Reports<'a> {
    let (op_4, at_4) = (decision.op_4, decision.at_4);
    let window_4 = Window::unpack(at_4.window);
    let packet = follow(op_4.valid & op_4.packet, "packet", 5..=11);
    for stage in &packet {
        let _ = stage.reset(0);
    }
    let outcome = follow(at_4.outcome, "outcome", 5..=11);
    let known = follow(at_4.known, "known", 5..=11);
    let base = follow(window_4.base, "base", 5..=10);
    let count = follow(at_4.count, "count", 5..=10);

    if !sizes.has_rows() {
        // roce alone: the first missing PSN is the base.
        let cumulative = base[5] - base[5].lit(1);
        let cumulative = cumulative.gate(known[5]).delayed("cumulative_11");
        return Reports {
            valid: packet[6],
            findings: Findings {
                outcome: outcome[6],
                cumulative,
                beyond_gap: m.lit(0, 11),
                far: m.lit(0, 8),
                near: m.lit(0, 64),
                bitmap: m.lit(0, 64),
            },
            reach: no_reach(m, sizes),
        };
    }

    // Clock 4: the write, and the read behind it.
    let rows = m
        .memory("rows", sizes.rows(), sizes.window)
        .strobes(GROUP)
        .read_during_write(ReadDuringWrite::New);
    let row_address = sizes.row_address(op_4.space, op_4.index);
    let has_row = if sizes.mrc {
        m.high()
    } else {
        sizes.may_reorder(m, op_4.index)
    };
    let (clears, clear_address) = sweep.of(sizes.rows());
    let group_4 = op_4.psn.part(GROUP_BITS, sizes.group_index_bits());
    let strobe = m.lit(1, sizes.groups()) << group_4;
    rows.write_strobed(
        clears | at_4.group_changed,
        clears.mux(clear_address, row_address),
        at_4.group.gate(!clears).repeat(sizes.groups()),
        clears.mux(strobe.lit(0), strobe) | clears.repeat(sizes.groups()),
    );
    let has_rows = follow(has_row, "has_row", 5..=10);
    let row_5 = rows.read(m.high(), row_address).gate(has_rows[0]);
    let row = follow(row_5, "row", 6..=10);
    let from_base = follow(op_4.psn - window_4.base, "from_base", 5..=10);
    let psn_place = follow(op_4.psn.part(0, sizes.window_bits), "psn_place", 5..=9);

    // Clock 6.
    let (base_group, base_bit) = {
        let place = base[1].part(0, sizes.window_bits);
        (
            place.part(GROUP_BITS, sizes.group_index_bits()),
            place.part(0, GROUP_BITS),
        )
    };
    let words: Vec<_> = (0..sizes.groups())
        .map(|group| row[0].part(group * GROUP, GROUP))
        .collect();
    let holes: Vec<_> = words.iter().map(|word| !word.all()).collect();
    let holes_7 = cat_lsb_first(&holes).delayed("groups_with_holes_7");
    let below: Vec<_> = (0..GROUP).map(|bit| base_bit.gt(base_bit.lit(bit))).collect();
    let own_free = (!base_group.select(&words) & !cat_lsb_first(&below)).delayed("own_free_7");
    let base_group_7 = base_group.delayed("base_group_7");
    // Clock 7.
    let own = own_free.any();
    let is_behind: Vec<_> = (0..sizes.groups())
        .map(|group| holes_7.bit(group) & base_group_7.lt(base_group_7.lit(group)))
        .collect();
    let (behind, behind_index) = lowest(&is_behind);
    let (before, before_index) = lowest(&holes_7.to_bits());
    let chosen = own.mux(base_group_7, behind.mux(behind_index, before_index));
    let group_8 = chosen.delayed("missing_group_8");
    let own_8 = own.delayed("own_group_8");
    let own_free_8 = own_free.delayed("own_free_8");
    let full_8 = (!own & !behind & !before).delayed("window_full_8");
    // Clock 8.
    let words_8: Vec<_> = (0..sizes.groups())
        .map(|group| row[2].part(group * GROUP, GROUP))
        .collect();
    let free = own_8.mux(own_free_8, !group_8.select(&words_8));
    let (_, free_bit) = lowest(&free.to_bits());
    let missing_9 = cat(&[group_8, free_bit]).delayed("missing_place_9");
    let full_9 = full_8.delayed("window_full_9");
    // Clock 9: a full window is as long as it is; there is no room behind it, so that its `missing_place` says nothing.
    let base_place = base[4].part(0, sizes.window_bits);
    let steps = (missing_9 - base_place).gate(!full_9);
    let run_10 = cat(&[full_9, steps]).delayed("run_10");
    let empty = missing_9.eq(base_place).named("nothing_behind_base");
    let room = cat(&[empty, base_place - missing_9]).gate(!full_9);
    let room_10 = room.delayed("room_10");
    let missing_10 = missing_9.delayed("missing_place_10");
    let base_less_one_10 = (base[4] - base[4].lit(1)).delayed("base_less_one_10");
    let group_of = |place: Signal<'a>| place.part(GROUP_BITS, sizes.group_index_bits());
    let ahead_10 = (psn_place[4] - missing_9).delayed("psns_ahead_of_missing_10");
    let near_words = words_from(sizes, row[3], group_of(missing_9)).delayed("near_words_10");
    // Clock 10.
    let near = cut(near_words, missing_10.part(0, GROUP_BITS), room_10);
    let near_11 = near.delayed("near_11");
    let cumulative = base_less_one_10 + run_10.zero_extend(24);
    let cumulative_11 = cumulative.delayed("cumulative_11");
    let beyond_11 = (count[5] - run_10).delayed("beyond_gap_11");
    // A PSN of the window is ahead of the first missing one if it comes before the window's end.
    let refused = outcome[5].ge(outcome[5].lit(SequenceOutcome::Closed as u8));
    let is_ahead = ahead_10.zero_extend(sizes.count_bits()).lt(room_10);
    let is_far = (!from_base[5].msb() & is_ahead & !refused).named("packet_ahead_of_missing");
    // So many groups further on, a multiple of 64 PSNs: chosen only at the end, because whether it is ahead is known last.
    let blocks = (ahead_10 >> 6).named("blocks_ahead");
    let far_11 = blocks.gate(is_far).delayed("far_11");
    let skipped = (blocks << 6).gate(is_far).named("psns_before_bitmap");
    let far_group = group_of(missing_10) + group_of(blocks << 6);
    let far_words = words_from(sizes, row[4], far_group);
    let bitmap_words = is_far.mux(far_words, near_words).delayed("bitmap_words_11");
    let room_11 = (room_10 - skipped.zero_extend(sizes.count_bits())).delayed("room_11");
    let place_11 = missing_10.part(0, GROUP_BITS).delayed("bitmap_bit_11");
    // Clock 11.
    let bitmap = cut(bitmap_words, place_11, room_11);
    let of_known = |signal: Signal<'a>| signal.gate(known[6]);
    let findings = Findings {
        outcome: outcome[6],
        cumulative: of_known(cumulative_11),
        beyond_gap: of_known(beyond_11.resize(11)),
        far: of_known(far_11.resize(8)),
        near: of_known(near_11),
        bitmap: of_known(bitmap),
    };
    let carry = |signal: Signal<'a>, name: &str| follow(signal, name, 5..=10)[5];
    let valid = follow(op_4.valid, "reach_valid", 5..=10);
    for stage in &valid {
        let _ = stage.reset(0);
    }
    let starved = op_4.starved & !at_4.credits.any();
    Reports {
        valid: packet[6],
        findings,
        reach: Reach {
            valid: valid[5],
            scan: carry(op_4.scan, "reach_scan"),
            last: carry(op_4.advance & op_4.last, "reach_last"),
            starved: carry(starved, "reach_starved"),
            space: carry(op_4.space, "reach_space"),
            index: carry(op_4.index, "reach_index"),
            has_row: has_rows[5] & carry(op_4.in_table, "reach_in_table"),
            base: base[5],
            run: run_10,
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
