//! Turns: a window whose first packet is there gets one, in the order in which the windows became ready. In its turn it gives up to 64
//! packets from their slots (solar), or tells the ends of up to 64 packets' messages (mrc), and moves on behind them.
//!
//! A turn begins with a scan, an operation that finds out how far the window reaches; the scan of the next turn is made meanwhile. What left
//! the block moves the window on by `advance`, so that a packet passes by only when all before it have left. A window is in the queue
//! or has its turn once at most: `active` says so.

use super::decide::{Decision, Window};
use super::issue::{AdvanceFields, Wanted};
use super::report::{Reach, row_bits};
use super::sizes::{GROUP_BITS, Sizes, Sweep};
use crate::stream_fifo;
use spraynic_config::Profile;
use spraynic_rtl::{Bundle, MemoryStyle, Module, ReadDuringWrite, Signal, Stream, cat_lsb_first, index_width};

/// Packets of a turn: then others have theirs.
const TURN: u32 = 64;
/// Entries between the map and the read-out.
const ENTRIES: u32 = 8;

/// What the map keeps of a PSN whose bit is set.
#[derive(Debug, Clone, Copy)]
pub(super) struct MapEntry<'a> {
    /// solar: it takes a receive request; mrc: it has immediate data.
    pub(super) special: Signal<'a>,
    /// solar: there is payload; mrc: it ends a message.
    pub(super) whole: Signal<'a>,
    /// solar: beats less one, and slot.
    pub(super) beats: Signal<'a>,
    pub(super) slot: Signal<'a>,
    /// solar: number of the packet among those that were decided.
    pub(super) number: Signal<'a>,
}

/// Bits of a packet's number: so many that one seldom looks as if it were on the bus again.
pub(super) const NUMBER_BITS: u32 = 12;

impl<'a> MapEntry<'a> {
    fn widths(sizes: &Sizes) -> [u32; 3] {
        if sizes.solar {
            [sizes.beat_bits, sizes.slot_bits, NUMBER_BITS]
        } else {
            [1, 1, NUMBER_BITS]
        }
    }

    pub(super) fn width(sizes: &Sizes) -> u32 {
        if sizes.solar {
            2 + Self::widths(sizes).iter().sum::<u32>()
        } else {
            2
        }
    }

    pub(super) fn pack(&self, sizes: &Sizes) -> Signal<'a> {
        if sizes.solar {
            cat_lsb_first(&[self.special, self.whole, self.beats, self.slot, self.number])
        } else {
            cat_lsb_first(&[self.special, self.whole])
        }
    }

    pub(super) fn unpack(sizes: &Sizes, packed: Signal<'a>) -> Self {
        let m = packed.module();
        let [beat_bits, slot_bits, number_bits] = Self::widths(sizes);
        let (beats, slot, number) = if sizes.solar {
            (
                packed.part(2, beat_bits),
                packed.part(2 + beat_bits, slot_bits),
                packed.part(2 + beat_bits + slot_bits, number_bits),
            )
        } else {
            (m.lit(0, 1), m.lit(0, 1), m.lit(0, number_bits))
        };
        Self {
            special: packed.bit(0),
            whole: packed.bit(1),
            beats,
            slot,
            number,
        }
    }
}

/// A queue in distributed RAM: whether it holds a word, and the oldest. It must not be pushed when full.
pub(super) fn queue<'a>(
    m: Module<'a>,
    name: &str,
    depth: u32,
    (push, word): (Signal<'a>, Signal<'a>),
    pop: Signal<'a>,
) -> (Signal<'a>, Signal<'a>) {
    let memory = m.memory(name, depth, word.width()).style(MemoryStyle::Distributed);
    let bits = memory.address_width();
    let head = m.reg(&format!("{name}_head"), bits).reset(0);
    let tail = m.reg(&format!("{name}_tail"), bits).reset(0);
    let held = m.reg(&format!("{name}_held"), bits + 1).reset(0);
    memory.write(push, tail, word);
    m.when(push, || tail.set(tail + tail.lit(1)));
    m.when(pop, || head.set(head + head.lit(1)));
    m.when(push & !pop, || held.set(held + held.lit(1)))
        .else_when(pop & !push, || held.set(held - held.lit(1)));
    m.assert(&format!("{name}_has_room"), !(push & held.eq_lit(depth)));
    m.assert(&format!("{name}_has_a_word"), !(pop & !held.any()));
    (held.any(), memory.read_now(head))
}

/// The wires to the issue, made before the pipeline is.
pub(super) struct TurnWires<'a> {
    pub(super) scan: Wanted<'a>,
    pub(super) advance: Wanted<'a>,
    pub(super) fields: AdvanceFields<'a>,
}

impl<'a> TurnWires<'a> {
    pub(super) fn new(m: Module<'a>, sizes: &Sizes) -> Self {
        let wire = |name: &str, width| m.wire(&format!("advance_{name}"), width);
        Self {
            scan: Wanted::wires(m, sizes, "scan"),
            advance: Wanted::wires(m, sizes, "advance"),
            fields: AdvanceFields {
                amount: wire("amount", 6),
                credits: wire("credits", 6),
                last: wire("is_last", 1),
                starved: wire("is_starved", 1),
            },
        }
    }

    /// Without windows that hold anything, nobody has a turn.
    pub(super) fn never(&self, m: Module<'a>) {
        for wanted in [&self.scan, &self.advance] {
            wanted.valid.set(m.low());
            wanted.space.set(m.low());
            wanted.index.set(wanted.index.lit(0));
            wanted.psn.set(wanted.psn.lit(0));
            wanted.issued.ignore();
        }
        self.fields.amount.set_lit(0);
        self.fields.credits.set_lit(0);
        self.fields.last.set_lit(0);
        self.fields.starved.set_lit(0);
    }
}

/// A packet to read out, or (mrc) a PSN to retire.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    /// There is one.
    pub(super) valid: Signal<'a>,
    /// It may not be in its slot yet: it must not begin.
    pub(super) on_bus: Signal<'a>,
    pub(super) map: MapEntry<'a>,
    pub(super) psn: Signal<'a>,
    /// mrc: nothing is read.
    pub(super) retires: Signal<'a>,
    pub(super) index: Signal<'a>,
}

/// The turns, seen from the read-out.
pub(super) struct Turns<'a> {
    /// The next packet to read out.
    pub(super) entry: Entry<'a>,
    /// No window has or gets its turn.
    pub(super) idle: Signal<'a>,
    /// Nothing may leave before the window has moved on.
    pub(super) blocked: Signal<'a>,
    /// Map entry to read: enable, space, queue pair, PSN.
    pub(super) map_read: Signal<'a>,
    pub(super) map_space: Signal<'a>,
    pub(super) map_index: Signal<'a>,
    pub(super) map_psn: Signal<'a>,
}

/// What the read-out tells the turns: wires.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadOut<'a> {
    /// The entry was taken.
    pub(super) takes: Signal<'a>,
    /// The read-out holds one.
    pub(super) busy: Signal<'a>,
    /// One has left: that took a receive request; that was the last one of its group.
    pub(super) leaves: Signal<'a>,
    pub(super) leaves_needs: Signal<'a>,
    pub(super) leaves_ends_group: Signal<'a>,
    /// A packet of the bus is done with.
    pub(super) arrival_done: Signal<'a>,
}

/// Builds queue, scan, enumeration and advance. `map_word` is the map's word, two clocks behind `map_read`.
#[expect(clippy::too_many_arguments, reason = "each is another part of the block")]
pub(super) fn turns<'a>(
    m: Module<'a>,
    sizes: &Sizes,
    wires: &TurnWires<'a>,
    decision: &Decision<'a>,
    reach: Reach<'a>,
    hold: Signal<'a>,
    map_word: Signal<'a>,
    read_out: ReadOut<'a>,
    sweep: &Sweep<'a>,
) -> Turns<'a> {
    let window = Window::unpack(reach.window);
    window.signals().into_iter().for_each(Signal::ignore);

    // Clock 11: a window that can move joins the queue, if it is not in it and has no turn.
    let can_move = reach.valid & reach.has_row & window.open & reach.run.any() & !(reach.last & reach.starved);
    let row = sizes.row_address(reach.space, reach.index);
    let row_11 = row.delayed("row_11");
    let active = m
        .memory("active", sizes.rows(), 1)
        .read_during_write(ReadDuringWrite::New);
    let was_active = active.read(m.high(), row);
    let can_move_11 = can_move.delayed("can_move_11").reset(0);
    let last_11 = (reach.valid & reach.last & reach.has_row).delayed("last_11").reset(0);
    let joins = (can_move_11 & (last_11 | !was_active)).named("joins_queue");
    let (clears, clear_address) = sweep.of(sizes.rows());
    active.write(
        clears | can_move_11 | last_11,
        clears.mux(clear_address, row_11),
        can_move_11 & !clears,
    );
    let name_11 = cat_lsb_first(&[reach.index, reach.space]).delayed("window_11");
    let joining = Stream::wires(m, "joining", sizes.qpn_bits + 1);
    joining.valid.set(joins);
    joining.data.set(name_11);
    m.assert("queue_of_windows_has_room", !joining.valid | joining.ready);
    let ready = stream_fifo::buffer(m, "u_ready_windows", joining, 1 << row_bits(sizes));

    // The scan of the next turn.
    let scanning = m.reg("scanning", 1).reset(0);
    let next_valid = m.reg("next_valid", 1).reset(0).doc("the next turn is known");
    let name = ready.data;
    wires.scan.valid.set(ready.valid & !hold & !scanning & !next_valid);
    wires.scan.index.set(name.part(0, sizes.qpn_bits));
    wires.scan.space.set(name.msb());
    wires.scan.psn.set_lit(0);
    ready.ready.set(wires.scan.issued);
    m.when(wires.scan.issued, || scanning.set_lit(1));

    // What had passed by when the scan came must have left before the turn begins; what is stored, before it is read out.
    let undone = m
        .reg("undone", 5)
        .reset(0)
        .doc("packets that were decided and are still on the bus");
    let first_undone = m
        .reg("first_undone", NUMBER_BITS)
        .reset(0)
        .doc("number of the first of them");
    let before_pass = m
        .reg("before_pass", 5)
        .reset(0)
        .doc("packets on the bus up to the last one that passes by");
    let arrives = decision.op_3.valid & decision.op_3.packet;
    m.when(arrives & !read_out.arrival_done, || undone.set(undone + undone.lit(1)))
        .else_when(!arrives & read_out.arrival_done, || undone.set(undone - undone.lit(1)));
    m.when(read_out.arrival_done, || {
        first_undone.set(first_undone + first_undone.lit(1));
    });
    let before_turn = m
        .reg("before_turn", 5)
        .reset(0)
        .doc("packets to be done with before the next turn");
    let still = |count: Signal<'a>| count - (read_out.arrival_done & count.any()).zero_extend(5);
    before_pass.set(still(before_pass));
    m.when(decision.passes, || {
        before_pass.set(undone - read_out.arrival_done.zero_extend(5) + undone.lit(1));
    });
    before_turn.set(still(before_turn));
    m.when(decision.op_3.valid & decision.op_3.scan, || {
        before_turn.set(still(before_pass));
    });

    let run_limit = reach.run.lit(TURN);
    let run = reach.run.gt(run_limit).mux(run_limit, reach.run).gate(window.open);
    let scanned = (reach.valid & reach.scan).named("scanned");
    let keep = |signal: Signal<'a>, name: &str| {
        let kept = m.reg(name, signal.width());
        m.when(scanned, || kept.set(signal));
        kept
    };
    let next_index = keep(reach.index, "next_index");
    let next_space = keep(reach.space, "next_space");
    let next_base = keep(reach.base, "next_base");
    let next_run = keep(run, "next_run");
    let next_credits = keep(reach.credits, "next_credits");
    let is_mrc = if sizes.mrc {
        window.profile.eq_lit(Profile::Mrc.code())
    } else {
        m.low()
    };
    let next_mrc = keep(is_mrc, "next_is_mrc");
    m.when(scanned, || {
        scanning.set_lit(0);
        next_valid.set_lit(1);
    });

    // The turn.
    let turn = m.reg("turn", 1).reset(0).doc("a window has its turn");
    let index = m.reg("turn_index", sizes.qpn_bits);
    let space = m.reg("turn_space", 1);
    let mrc = m.reg("turn_is_mrc", 1);
    let psn = m.reg("turn_psn", 24).doc("the next PSN to look up");
    let remaining = m
        .reg("turn_remaining", sizes.count_bits())
        .reset(0)
        .doc("PSNs to look up");
    let has_remaining = m.reg("turn_has_remaining", 1).reset(0).doc("it is not 0");
    let credits = m.reg("turn_credits", sizes.credit_bits());
    let starved = m.reg("turn_starved", 1);
    let base = m.reg("turn_base", 24).doc("what `advance` has not moved over");
    let moved = m
        .reg("turn_moved", 6)
        .reset(0)
        .doc("PSNs that have left and `advance` has not told");
    let has_moved = m.reg("turn_has_moved", 1).reset(0).doc("it is not 0");
    let moved_credits = m.reg("turn_moved_credits", 6).reset(0);
    let blocked = m.reg("turn_blocked", 1).reset(0).doc("the last of them ends its group");
    let begins = (next_valid & !turn & !before_turn.any()).named("turn_begins");
    m.when(begins, || {
        next_valid.set_lit(0);
        turn.set_lit(1);
        index.set(next_index);
        space.set(next_space);
        mrc.set(next_mrc);
        psn.set(next_base);
        base.set(next_base);
        remaining.set(next_run);
        has_remaining.set(next_run.any());
        credits.set(next_credits);
        starved.set_lit(0);
    });

    // Enumeration: a PSN a clock.
    let held = m
        .reg("entries_ahead", 4)
        .reset(0)
        .doc("entries between here and the read-out");
    let looks = (has_remaining & held.ne_lit(ENTRIES)).named("looks_up");
    m.when(looks, || {
        psn.set(psn + psn.lit(1));
        remaining.set(remaining - remaining.lit(1));
        has_remaining.set(remaining.ne_lit(1));
    });
    let looked = looks.delayed("looks_up_1").reset(0).delayed("looked_up").reset(0);
    let looked_psn = psn.delayed("looks_up_psn_1").delayed("looked_up_psn");
    let found = MapEntry::unpack(sizes, map_word);
    let takes_credit = found.special & !mrc;
    let starves = (looked & !starved & takes_credit & !credits.any()).named("starves");
    let enters = (looked & !starved & !starves).named("entry_made");
    m.when(starves, || {
        starved.set_lit(1);
        remaining.set_lit(0);
        has_remaining.set_lit(0);
    });
    m.when(enters & takes_credit, || credits.set(credits - credits.lit(1)));
    let dropped = looked & !enters;
    let out = read_out.takes.zero_extend(4) + dropped.zero_extend(4);
    held.set(held + looks.zero_extend(4) - out);
    let word = cat_lsb_first(&[map_word, looked_psn]);
    let (entry_valid, entry_word) = queue(m, "entries", ENTRIES, (enters, word), read_out.takes);
    let map_bits = MapEntry::width(sizes);
    let map = MapEntry::unpack(sizes, entry_word.part(0, map_bits));
    // A number that came around again only waits for packets that are done with soon.
    let on_bus = (map.number - first_undone).lt(undone.zero_extend(NUMBER_BITS)) & !mrc;
    let entry = Entry {
        valid: entry_valid,
        on_bus: on_bus.named("entry_is_on_the_bus"),
        map,
        psn: entry_word.part(map_bits, 24),
        retires: mrc,
        index,
    };

    // Moving on.
    // An entry is in the read-out for a clock at least, so that what this register still says then costs nothing.
    let has_entries = (looks | held.any()).delayed("turn_has_entries").reset(0);
    let finished = (turn & !has_remaining & !has_entries & !read_out.busy).named("turn_finished");
    let leaves = read_out.leaves;
    let one = |bit: Signal<'a>| bit.zero_extend(6);
    let issued = wires.advance.issued;
    wires.advance.valid.set(turn & (finished | has_moved));
    wires.advance.index.set(index);
    wires.advance.space.set(space);
    wires.advance.psn.set(base);
    wires.fields.amount.set(moved);
    wires.fields.credits.set(moved_credits);
    wires.fields.last.set(finished);
    wires.fields.starved.set(starved);
    moved.set(moved.gate(!issued) + one(leaves));
    has_moved.set((has_moved & !issued) | leaves);
    moved_credits.set(moved_credits.gate(!issued) + one(leaves & read_out.leaves_needs & !mrc));
    blocked.set((blocked & !issued) | (leaves & read_out.leaves_ends_group));
    m.when(issued, || base.set(base + moved.zero_extend(24)));
    m.when(issued & finished, || turn.set_lit(0));
    m.assert("nothing_leaves_where_the_window_must_move_first", !(leaves & blocked));
    m.assert("a_turn_stays_in_its_group", moved.le(moved.lit(1 << GROUP_BITS)));

    Turns {
        entry,
        idle: (!turn & !next_valid & !scanning).named("turns_idle"),
        blocked,
        map_read: looks,
        map_space: space,
        map_index: index,
        map_psn: psn,
    }
}

/// Bits of the address of a map entry.
pub(super) fn map_address<'a>(sizes: &Sizes, space: Signal<'a>, index: Signal<'a>, psn: Signal<'a>) -> Signal<'a> {
    let row = sizes.row_address(space, index);
    let address = spraynic_rtl::cat(&[row, psn.part(0, sizes.window_bits)]);
    address.resize(index_width(u64::from(sizes.rows() * sizes.window)))
}
