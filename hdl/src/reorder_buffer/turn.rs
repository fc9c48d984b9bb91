//! Turns: a window whose first packet is there gets one, in the order in which the windows became ready. In its turn it gives up to 64
//! packets from their slots (solar), or tells the ends of up to 64 packets' messages (mrc), and moves on behind them.
//!
//! A turn begins with a scan, an operation that finds out how far the window reaches; the scan of the next turn is made meanwhile. Turns
//! follow each other without a pause: an entry knows which window it is of. A window is in the queue or has its turn once at most, until
//! what left has moved it on: `active` says so.

use super::decide::{Decision, Window};
use super::entry::{Entry, MapEntry};
use super::issue::{AdvanceFields, Wanted};
use super::queue::queue;
use super::report::{Reach, row_bits};
use super::sizes::{GROUP_BITS, Sizes, Sweep};
use super::slots::ReadOut;
use crate::stream_fifo;
use spraynic_config::Profile;
use spraynic_rtl::{Bundle, Module, ReadDuringWrite, Signal, Stream, cat_lsb_first};

/// Packets of a turn: then others have theirs.
const TURN: u32 = 64;
/// Entries between the map and the read-out.
const ENTRIES: u32 = 16;

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

/// The turns, seen from the read-out.
pub(super) struct Turns<'a> {
    /// The next entry: whether there is one. `take`: it goes to the read-out, to be driven by who takes it.
    pub(super) entry_valid: Signal<'a>,
    pub(super) entry: Entry<'a>,
    pub(super) entry_taken: Signal<'a>,
    /// No window has or gets its turn.
    pub(super) idle: Signal<'a>,
    /// Nothing may leave before a window has moved on.
    pub(super) blocked: Signal<'a>,
    /// Map entry to read: enable, space, queue pair, PSN.
    pub(super) map_read: Signal<'a>,
    pub(super) map_space: Signal<'a>,
    pub(super) map_index: Signal<'a>,
    pub(super) map_psn: Signal<'a>,
}

/// Clocks from `map_read` to the map's word.
pub(super) const MAP_LATENCY: usize = 4;

/// The same flag so many clocks later.
pub(super) fn later<'a>(flag: Signal<'a>, name: &str, clocks: usize) -> Signal<'a> {
    (1..=clocks).fold(flag, |flag, clock| flag.delayed(&format!("{name}_{clock}")).reset(0))
}

/// A turn that can begin.
struct Next<'a> {
    valid: Signal<'a>,
    /// It does: to be driven.
    begins: Signal<'a>,
    index: Signal<'a>,
    space: Signal<'a>,
    mrc: Signal<'a>,
    base: Signal<'a>,
    run: Signal<'a>,
    credits: Signal<'a>,
    /// No window is on its way to its turn.
    idle: Signal<'a>,
}

/// Builds queue and scan.
#[expect(clippy::too_many_arguments, reason = "each is another part of the block")]
fn next_turn<'a>(
    m: Module<'a>,
    sizes: &Sizes,
    scan: &Wanted<'a>,
    decision: &Decision<'a>,
    reach: Reach<'a>,
    hold: Signal<'a>,
    done: Signal<'a>,
    sweep: &Sweep<'a>,
) -> Next<'a> {
    let window = Window::unpack(reach.window);
    window.signals().into_iter().for_each(Signal::ignore);

    // Clock 8: whether a window that can move is in the queue, or has its turn. Clock 9: if it is not, it joins.
    let can_move = reach.valid & reach.has_row & window.open & reach.run.any() & !(reach.last & reach.starved);
    let row = sizes.row_address(reach.space, reach.index);
    let row_8 = row.delayed("row_8");
    let active = m
        .memory("active", sizes.rows(), 1)
        .read_during_write(ReadDuringWrite::New);
    let was_active = active.read(m.high(), row);
    let can_move_8 = can_move.delayed("can_move_8").reset(0);
    let last_8 = (reach.valid & reach.last & reach.has_row).delayed("last_8").reset(0);
    let (clears, clear_address) = sweep.of(sizes.rows());
    active.write(
        clears | can_move_8 | last_8,
        clears.mux(clear_address, row_8),
        can_move_8 & !clears,
    );
    let name_8 = cat_lsb_first(&[reach.index, reach.space]).delayed("window_8");
    let joining = Stream::wires(m, "joining", sizes.qpn_bits + 1);
    let is_last_9 = last_8.delayed("last_9");
    let was_active_9 = was_active.delayed("was_active_9");
    let may_join_9 = can_move_8.delayed("may_join_9").reset(0);
    joining
        .valid
        .set((may_join_9 & (is_last_9 | !was_active_9)).named("joins_queue"));
    joining.data.set(name_8.delayed("window_9"));
    m.assert("queue_of_windows_has_room", !joining.valid | joining.ready);
    let ready = stream_fifo::buffer(m, "u_ready_windows", joining, 1 << row_bits(sizes));

    // The scan of the next turn.
    let scanning = m.reg("scanning", 1).reset(0);
    let next_valid = m.reg("next_valid", 1).reset(0).doc("the next turn is known");
    let name = ready.data;
    let may_scan = !hold & !scanning & !next_valid;
    ready.ready.set(may_scan);
    // It asks from registers, because who may be issued is known late.
    let asks = m.reg("scan_asks", 1).reset(0).doc("the scan asks to be issued");
    let asks_name = m.reg("scan_window", name.width());
    m.when(may_scan, || asks_name.set(name));
    m.when(ready.fires(), || {
        asks.set_lit(1);
        scanning.set_lit(1);
    })
    .else_when(scan.issued, || asks.set_lit(0));
    scan.valid.set(asks);
    scan.index.set(asks_name.part(0, sizes.qpn_bits));
    scan.space.set(asks_name.msb());
    scan.psn.set_lit(0);

    // What had passed by when the scan came must have left before the turn begins; what is stored, before it is read out.
    let undone = m
        .reg("undone", 5)
        .reset(0)
        .doc("packets that were decided and are still on the bus");
    let before_pass = m
        .reg("before_pass", 5)
        .reset(0)
        .doc("packets on the bus up to the last one that passes by");
    let (op_4, at_4) = (decision.op_4, decision.at_4);
    // All of this a clock late: a scan is found out about three clocks behind clock 4.
    let late = |flag: Signal<'a>, name: &str| flag.delayed(name).reset(0);
    let done = late(done, "done_late");
    let arrives = late(op_4.valid & op_4.packet, "arrives");
    let given = late(op_4.valid & op_4.packet & at_4.gives, "given_arrives");
    let scans = late(op_4.valid & op_4.scan, "scan_late");
    m.when(arrives & !done, || undone.set(undone + undone.lit(1)))
        .else_when(!arrives & done, || undone.set(undone - undone.lit(1)));
    let still = |count: Signal<'a>| count - (done & count.any()).zero_extend(5);
    before_pass.set(still(before_pass));
    m.when(given, || {
        before_pass.set(undone - done.zero_extend(5) + undone.lit(1));
    });
    let before_turn = m
        .reg("before_turn", 5)
        .reset(0)
        .doc("packets to be done with before the next turn");
    before_turn.set(still(before_turn));
    m.when(scans, || before_turn.set(still(before_pass)));

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
    let begins = m.wire("turn_begins", 1);
    m.when(begins, || next_valid.set_lit(0));
    Next {
        valid: next_valid & !before_turn.any(),
        begins,
        index: next_index,
        space: next_space,
        mrc: next_mrc,
        base: next_base,
        run: next_run,
        credits: next_credits,
        idle: !next_valid & !scanning,
    }
}

/// Builds the turns. `map_word` is the map's word, `MAP_LATENCY` clocks behind `map_read`; `done`: a packet of the bus is done with.
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
    done: Signal<'a>,
    sweep: &Sweep<'a>,
) -> Turns<'a> {
    let next = next_turn(m, sizes, &wires.scan, decision, reach, hold, done, sweep);
    let moving = move_on(m, wires, read_out);

    // The turn: a PSN a clock is looked up.
    let index = m.reg("turn_index", sizes.qpn_bits);
    let space = m.reg("turn_space", 1);
    let mrc = m.reg("turn_is_mrc", 1);
    let psn = m.reg("turn_psn", 24).doc("the next PSN to look up");
    let remaining = m
        .reg("turn_remaining", sizes.count_bits())
        .doc("PSNs to look up: at least 1 at first");
    let looking = m.reg("turn_looks_up", 1).reset(0).doc("there are some");
    let nothing = m.reg("turn_of_nothing", 1).doc("its window has nothing to give");
    let credits = m.reg("turn_credits", sizes.credit_bits());
    let starved = m.reg("turn_starved", 1).doc("a packet found no receive request");
    let held = m
        .reg("entries_held", 5)
        .reset(0)
        .doc("entries between here and the read-out");
    let looks = (looking & !held.msb()).named("looks_up");
    let flying: Vec<_> = (0..MAP_LATENCY)
        .scan(looks, |flag, clock| {
            *flag = flag.delayed(&format!("looked_up_{}", clock + 1)).reset(0);
            Some(*flag)
        })
        .collect();
    let looked = flying[MAP_LATENCY - 1];
    let in_flight = flying.iter().fold(m.low(), |any, flag| any | *flag);
    let last = remaining.eq_lit(1) | nothing;
    m.when(looks, || {
        psn.set(psn + psn.lit(1));
        remaining.set(remaining - remaining.lit(1));
        looking.set(!last);
    });
    let follow = |signal: Signal<'a>, name: &str| {
        (1..=MAP_LATENCY).fold(signal, |signal, clock| signal.delayed(&format!("{name}_{clock}")))
    };
    let looked_last = follow(last, "looked_up_last");
    let looked_psn = follow(psn, "looked_up_psn");
    next.begins.set(next.valid & !looking & !in_flight);
    m.when(next.begins, || {
        index.set(next.index);
        space.set(next.space);
        mrc.set(next.mrc);
        psn.set(next.base);
        remaining.set(next.run);
        looking.set_lit(1);
        nothing.set(!next.run.any());
        credits.set(next.credits);
        starved.set_lit(0);
    });

    // Its entries. What was looked up behind a packet without a receive request is dropped; a mark says how the turn ended.
    let found = MapEntry::unpack(sizes, map_word);
    let takes_credit = found.special & !mrc;
    let starves = (takes_credit & !credits.any() & !nothing).named("starves");
    let enters = (looked & !starved).named("entry_made");
    m.when(enters & starves, || {
        starved.set_lit(1);
        looking.set_lit(0);
    });
    m.when(enters & takes_credit, || credits.set(credits - credits.lit(1)));
    let made = Entry {
        map: found,
        psn: looked_psn,
        index,
        space,
        retires: mrc,
        mark: starves | nothing,
        ends: looked_last | starves,
        starved: starves,
    };
    let taken = m.wire("entry_taken", 1);
    let entries = queue(m, "entries", ENTRIES, (enters, made.pack(sizes)), taken);
    let dropped = looked & starved;
    held.set(held + looks.zero_extend(5) - taken.zero_extend(5) - dropped.zero_extend(5));

    // An entry is in the read-out for some clocks, so that what these registers still say costs nothing.
    let busy = (looking | held.any() | read_out.busy).delayed("turns_busy").reset(1);
    Turns {
        entry_valid: entries.valid,
        entry: Entry::unpack(sizes, entries.word),
        entry_taken: taken,
        idle: (next.idle & !looking & !busy & moving.idle).named("turns_idle"),
        blocked: moving.blocked,
        map_read: looks,
        map_space: space,
        map_index: index,
        map_psn: psn,
    }
}

/// What moves windows on.
struct Moving<'a> {
    idle: Signal<'a>,
    blocked: Signal<'a>,
}

/// Counts what leaves and asks for `advance`: what leaves of one group of one window is told together, as soon as it can be.
fn move_on<'a>(m: Module<'a>, wires: &TurnWires<'a>, read_out: ReadOut<'a>) -> Moving<'a> {
    let left = m
        .reg("left", 1)
        .reset(0)
        .doc("something left that `advance` does not know of");
    let closed = m
        .reg("left_is_whole", 1)
        .reset(0)
        .doc("what leaves next is of another group or window");
    let wanted = m.reg("advance_waits", 1).reset(0).doc("an `advance` asks to be issued");
    let hands_on = (left & !wanted).named("left_is_handed_on");
    let blocked = m.reg("read_out_blocked", 1).reset(0).doc("both of them");
    let leaves = read_out.leaves;
    left.set((left & !hands_on) | leaves);
    let closes = leaves.mux(read_out.ends_group | read_out.ends, closed & !hands_on);
    closed.set(closes);
    let waits = (wanted & !wires.advance.issued) | hands_on;
    wanted.set(waits);
    blocked.set(closes & waits);
    let begins = leaves & (hands_on | !left);
    let keep = |signal: Signal<'a>, name: &str| {
        let register = m.reg(&format!("left_{name}"), signal.width());
        m.when(begins, || register.set(signal));
        let waits = m.reg(&format!("advance_waits_{name}"), signal.width());
        m.when(hands_on, || waits.set(register));
        waits
    };
    let sum = |event: Signal<'a>, name: &str, width: u32| {
        let register = m.reg(&format!("left_{name}"), width).reset(0);
        register.set(register.gate(!hands_on) + (event & leaves).zero_extend(width));
        let waits = m.reg(&format!("advance_waits_{name}"), width);
        m.when(hands_on, || waits.set(register));
        (register, waits)
    };
    let ((amount, amount_told), (_, credits_told)) =
        (sum(!read_out.mark, "amount", 6), sum(read_out.needs, "credits", 6));
    // At most one of these of what is told together.
    let ((_, last_told), (_, starved_told)) = (sum(read_out.ends, "ends", 1), sum(read_out.starved, "starved", 1));
    wires.advance.valid.set(wanted);
    wires.advance.psn.set(keep(read_out.psn, "psn"));
    wires.advance.index.set(keep(read_out.index, "index"));
    wires.advance.space.set(keep(read_out.space, "space"));
    wires.fields.amount.set(amount_told);
    wires.fields.credits.set(credits_told);
    wires.fields.last.set(last_told);
    wires.fields.starved.set(starved_told);
    m.assert("nothing_leaves_where_the_window_must_move_first", !(leaves & blocked));
    m.assert(
        "what_is_told_together_is_of_one_group",
        amount.le(amount.lit(1 << GROUP_BITS)),
    );
    Moving {
        idle: !left & !wanted,
        blocked,
    }
}
