//! The decision: what becomes of a packet, in one clock, with all that the operations before it have done.
//!
//! Clock 0 reads the tables, clock 1 has their words, clock 2 finds out where the PSN stands, clock 3 decides, clock 4 writes. A word
//! that an operation in between changes is taken from there: from the registers of clock 4 in clocks 1 and 2, and of the operation directly
//! ahead from its decision. Nothing else in the block changes these tables.

use super::op::{Op, travels};
use super::sizes::{GROUP, GROUP_BITS, Sizes, Sweep};
use spraynic_config::Profile;
use spraynic_config::descriptor::SequenceOutcome;
use spraynic_rtl::{Bundle, Module, ReadDuringWrite, Signal, bundle, cat, index_width};

bundle! {
    /// What is kept of a window beside its bitmap and count.
    pub(super) struct Window {
        open: 1, "the queue pair receives";
        profile: 2, "its profile";
        gap: 1, "roce: the next packet was missed or not taken, and has not come since";
        base: 24, "the first PSN that was not given (mrc: not retired)";
    }
}

travels! {
    /// What clock 4 knows of an operation.
    Decided {
        /// What became of the packet.
        outcome,
        /// The packet is given from the bus.
        gives,
        /// As a duplicate (roce).
        duplicate,
        /// It goes into a slot.
        stored,
        /// The window as it is now.
        window,
        /// Packets received that the window has not moved over.
        count,
        /// The bits of the group as they are now, and whether they have changed.
        group,
        group_changed,
        /// The window has moved on, or begun.
        moved,
        /// The bits as they were.
        group_before,
        /// A bit was set: the packet is in slot or given.
        keeps,
        /// Credits of the queue pair.
        credits,
        /// The window was open.
        was_open,
        /// The packet's window is open.
        known,
    }
}

/// A table that each operation reads and may write.
struct Table<'a> {
    /// In clock 2, without what the operation in clock 3 does.
    early: Signal<'a>,
    /// In clock 3, exact.
    now: Signal<'a>,
    /// What the operation in clock 3 makes of it, if it changes it.
    next: Signal<'a>,
    changes: Signal<'a>,
    /// The same for the packet that is taken, which is known last: it goes before `next`.
    next_of_packet: Signal<'a>,
    packet_changes: Signal<'a>,
    /// What the next operations find.
    left: Signal<'a>,
}

impl<'a> Table<'a> {
    /// No packet changes it but by `next`.
    fn without_packets(self) -> Self {
        self.next_of_packet.set(self.next_of_packet.lit(0));
        self.packet_changes.set_lit(0);
        self
    }
}

/// Where the operations of all clocks read one table, and which of them meet.
#[derive(Debug, Clone, Copy)]
struct Places<'a> {
    read: Signal<'a>,
    write: Signal<'a>,
    /// The operation in clock 3 has the word of the one in clock 2, from a register; so on.
    same_3_2: Signal<'a>,
    /// So soon that it tells so before the register.
    same_3_1: Signal<'a>,
    same_4_1: Signal<'a>,
}

impl<'a> Places<'a> {
    fn new(name: &str, ops: &[Op<'a>; 5], address: impl Fn(&Op<'a>) -> Signal<'a>) -> Self {
        let addresses = ops.map(|op| address(&op));
        let same_3_2 = addresses[2].eq(addresses[1]).delayed(&format!("{name}_same_3_2"));
        let same_3_1 = addresses[3].eq(addresses[1]);
        same_3_2.ignore();
        same_3_1.ignore();
        Self {
            read: addresses[0],
            write: addresses[4],
            same_3_2,
            same_3_1,
            same_4_1: addresses[4].eq(addresses[1]),
        }
    }
}

/// A table of `depth` words.
fn table<'a>(
    m: Module<'a>,
    name: &str,
    (depth, width): (u32, u32),
    places: Places<'a>,
    sweep: &Sweep<'a>,
) -> Table<'a> {
    let memory = m.memory(name, depth, width).read_during_write(ReadDuringWrite::New);
    let read = memory.read(m.high(), places.read);
    let wire = |what: &str, width| m.wire(&format!("{name}_{what}"), width);
    let (next, changes) = (wire("next", width), wire("changes", 1));
    let (next_of_packet, packet_changes) = (wire("next_of_packet", width), wire("packet_changes", 1));
    let left = packet_changes.mux(next_of_packet, next);
    let (next_4, changes_4) = (
        left.delayed(&format!("{name}_4")),
        (changes | packet_changes).delayed(&format!("{name}_changed")).reset(0),
    );
    let word_2 = (changes_4 & places.same_4_1)
        .mux(next_4, read)
        .delayed(&format!("{name}_2"));
    // Whether the operation in clock 4 has changed the word of the one in clock 2 is known in a register: a subtraction comes behind.
    let from_4 = ((changes | packet_changes) & places.same_3_1).delayed(&format!("{name}_from_4"));
    let early = from_4.mux(next_4, word_2);
    let same = places.same_3_2;
    let otherwise = (changes & same).mux(next, early);
    let now = (packet_changes & same)
        .mux(next_of_packet, otherwise)
        .delayed(&format!("{name}_3"));
    let (clears, clear_address) = sweep.of(depth);
    memory.write(
        clears | changes_4,
        clears.mux(clear_address, places.write),
        next_4.gate(!clears),
    );
    Table {
        early,
        now,
        next,
        changes,
        next_of_packet,
        packet_changes,
        left,
    }
}

/// What the decision gives to the rest.
pub(super) struct Decision<'a> {
    pub(super) op_2: Op<'a>,
    pub(super) op_3: Op<'a>,
    pub(super) op_4: Op<'a>,
    pub(super) at_4: Decided<'a>,
}

/// Builds clocks 0 to 4 for the operations of clock 0.
pub(super) fn decide<'a>(m: Module<'a>, sizes: &Sizes, op_0: Op<'a>, sweep: &Sweep<'a>) -> Decision<'a> {
    let op_1 = op_0.delayed("1");
    let op_2 = op_1.delayed("2");
    let op_3 = op_2.delayed("3");
    let op_4 = op_3.delayed("4");
    let ops = [op_0, op_1, op_2, op_3, op_4];
    let windows = Places::new("window", &ops, |op| sizes.window_address(op.space, op.index));
    let window_table = table(m, "windows", (sizes.windows(), Window::packed_width()), windows, sweep).without_packets();
    let count_table = sizes
        .has_rows()
        .then(|| table(m, "counts", (sizes.windows(), sizes.count_bits()), windows, sweep));
    let credit_table = table(
        m,
        "credits",
        (sizes.queue_pairs, sizes.credit_bits()),
        Places::new("queue_pair", &ops, |op| op.index),
        sweep,
    );
    let groups = Places::new("group", &ops, |op| group_address(sizes, op));
    let depth = sizes.rows().max(1) * sizes.groups();
    let group_table = sizes
        .has_rows()
        .then(|| table(m, "groups", (depth, GROUP), groups, sweep));

    // Clock 2: where the PSN stands, for both cases of what the operation in clock 3 does to the base.
    let base_2 = Window::unpack(window_table.early).base;
    Window::unpack(window_table.early)
        .signals()
        .into_iter()
        .for_each(Signal::ignore);
    let psns_2 = op_1.read.mux(responses(&op_1), m.lit(1, 24)).delayed("psns_2");
    let steps_2 = op_2.advance.mux(op_2.amount.zero_extend(24), psns_2);
    let steps_3 = steps_2
        .delayed("steps_3")
        .doc("by how much the operation moves the base, if it does");
    // Clock 1 already knows by how much the operation ahead may move the base, so that clock 2 subtracts once.
    let psn_less_steps_2 = (op_1.psn - steps_2).delayed("psn_less_steps_2");
    let moves = m.wire("moves", 1);
    let moved = (moves & windows.same_3_2).named("base_moves_ahead");
    let distance = (op_2.psn - base_2).named("distance_2");
    let distance_moved = (psn_less_steps_2 - base_2).named("distance_moved_2");
    let place = |distance: Signal<'a>, is_next: Signal<'a>| {
        let older = distance.msb();
        let beyond = !older & distance.part(sizes.window_bits, 23 - sizes.window_bits).any();
        cat(&[older, beyond, is_next])
    };
    // Whether it is the base is compared beside the subtraction.
    let unmoved = place(distance, op_2.psn.eq(base_2));
    let after_move = place(distance_moved, psn_less_steps_2.eq(base_2));
    let place_3 = moved.mux(after_move, unmoved).delayed("place_3");
    let (older, beyond, is_next) = (place_3.bit(2), place_3.bit(1), place_3.bit(0));

    let bit_index = |op: &Op<'a>| op.psn.part(0, GROUP_BITS);
    let (one_hot, clear_mask, received) = if let Some(table) = &group_table {
        let one_hot = (m.lit(1, GROUP) << bit_index(&op_2)).delayed("one_hot_3");
        let first = bit_index(&op_2).zero_extend(GROUP_BITS + 1);
        let end = first + op_2.amount;
        let mask: Vec<_> = (0..GROUP)
            .map(|bit| first.le(first.lit(bit)) & end.gt(end.lit(bit)))
            .collect();
        let clear_mask = spraynic_rtl::cat_lsb_first(&mask).delayed("clear_mask_3");
        let sets = m.wire("sets_bit", 1);
        let same = groups.same_3_2;
        let set_ahead = sets & same & bit_index(&op_3).eq(bit_index(&op_2));
        let cleared_ahead = op_3.valid & op_3.advance & same & clear_mask.bit_at(bit_index(&op_2));
        let early = table.early.bit_at(bit_index(&op_2));
        let received = ((early & !cleared_ahead) | set_ahead).delayed("received_3");
        (one_hot, Some((clear_mask, sets)), received)
    } else {
        (m.lit(0, GROUP), None, m.low())
    };

    // Clock 3: the decision.
    let window = Window::unpack(window_table.now);
    let is = |profile: Profile, generated: bool| {
        if generated {
            window.profile.eq_lit(profile.code())
        } else {
            m.low()
        }
    };
    let roce = is(Profile::Roce, sizes.roce);
    let solar = is(Profile::Solar, sizes.solar);
    let mrc = is(Profile::Mrc, sizes.mrc);
    let packet_2 = op_2.valid & op_2.packet;
    let packet = packet_2.delayed("is_packet_3").reset(0);
    let of_table = (packet_2 & op_2.in_table).delayed("packet_of_table_3");
    let whole = (packet_2 & op_2.in_table & !op_2.trimmed.any()).delayed("whole_packet_3");
    let known = (of_table & window.open).named("known");
    let duplicate = known & (older | (!roce & !beyond & received));
    let out_of_window = known & !roce & !older & beyond;
    let fresh = window.open & !older & (roce | (!beyond & !received));
    let trimmed = fresh & of_table & !whole;
    let candidate = (fresh & whole).named("candidate");
    let ready = (!op_3.needs | credit_table.now.any()).named("has_credit");
    let passes = (candidate & ready & (mrc | is_next)).named("passes");
    let not_ready = candidate & !ready & (mrc | (roce & is_next));
    let sequence = candidate & roce & !is_next;
    let wants_slot = candidate & solar & !(ready & is_next);
    let slot_free = m.wire("slot_free", 1);
    slot_free.ignore();
    let stored = (wants_slot & slot_free).named("stores");
    let repeats = duplicate & roce & !op_3.trimmed.any() & op_3.answered;
    let outcomes = [
        (SequenceOutcome::Stored, stored),
        (SequenceOutcome::Duplicate, duplicate),
        (SequenceOutcome::OutOfWindow, out_of_window),
        (SequenceOutcome::Trimmed, trimmed & op_3.trimmed.eq_lit(1)),
        (SequenceOutcome::TrimmedLastHop, trimmed & op_3.trimmed.ne_lit(1)),
        (SequenceOutcome::NoSlot, wants_slot & !slot_free),
        (SequenceOutcome::NotReady, not_ready),
        (SequenceOutcome::SequenceFirst, sequence & !window.gap),
        (SequenceOutcome::Sequence, sequence & window.gap),
        (SequenceOutcome::Closed, packet & !known),
    ];
    let outcome = outcomes.iter().fold(m.lit(0, 4), |code, (outcome, condition)| {
        code | m.lit(*outcome as u8, 4).gate(*condition)
    });

    // What it does to the tables.
    let kind_3 = |kind: Signal<'a>, name: &str| (op_2.valid & kind).delayed(&format!("is_{name}_3")).reset(0);
    let advance = kind_3(op_2.advance, "advance");
    let opens = (kind_3(op_2.open & op_2.in_table, "open") & !window.open).named("opens");
    let closes = kind_3(op_2.close & op_2.in_table, "close");
    moves.set((passes & !mrc) | (advance & window.open));
    let next_window = Window {
        open: opens | (window.open & !closes),
        profile: opens.mux(op_3.profile, window.profile),
        gap: !opens & (not_ready | sequence | (window.gap & !passes)),
        base: opens.mux(op_3.psn, moves.mux(window.base + steps_3, window.base)),
    };
    window_table.next.set(next_window.pack());
    window_table
        .changes
        .set(known | (advance & window.open) | opens | closes);

    let keeps = ((passes & mrc) | stored).named("keeps");
    let count = match count_table {
        None => m.lit(0, sizes.count_bits()),
        Some(table) => {
            let left = table.now - op_3.amount.resize(sizes.count_bits());
            // What is known late only chooses.
            let more = table.now + table.now.lit(1);
            // As it is where nothing changes it, because the report takes it from here.
            table.next.set(advance.mux(left, table.now).gate(!(opens | closes)));
            table.changes.set(advance | opens | closes);
            table.next_of_packet.set(more);
            table.packet_changes.set(keeps);
            table.early.ignore();
            table.left
        }
    };

    let credits = credit_table.now;
    let wide = sizes.credit_bits().max(6) + 1;
    let added = credits.zero_extend(wide) + op_3.credits.zero_extend(wide);
    let limit = added.lit(sizes.receive_requests);
    let added = added.gt(limit).mux(limit, added).part(0, sizes.credit_bits());
    let takes_credit = (passes & op_3.needs).named("takes_credit");
    let without_one = credits - credits.lit(1);
    let without_all = (credits.zero_extend(wide) - op_3.credits.zero_extend(wide)).part(0, sizes.credit_bits());
    let drops = closes & op_3.drop_credits;
    let adds = kind_3(op_2.credit, "credit");
    let unless_added = advance.mux(without_all, credits);
    credit_table.next.set(adds.mux(added, unless_added).gate(!drops));
    credit_table.changes.set(drops | adds | advance);
    credit_table.next_of_packet.set(without_one);
    credit_table.packet_changes.set(takes_credit);

    let (group, group_changed, group_before) = match (&group_table, clear_mask) {
        (Some(table), Some((clear_mask, sets))) => {
            sets.set(keeps);
            let walks = kind_3(op_2.walk, "walk");
            // As it is where nothing changes it, because the report takes it from here.
            let clears = advance & window.open;
            table.next.set((table.now & !clear_mask.gate(clears)).gate(!walks));
            let changes = walks | clears;
            table.changes.set(changes);
            table.next_of_packet.set(table.now | one_hot);
            table.packet_changes.set(keeps);
            (table.left, changes | keeps, table.now)
        }
        _ => (m.lit(0, GROUP), m.low(), m.lit(0, GROUP)),
    };

    if sizes.solar {
        let account = Account {
            m,
            sizes,
            op_2: &op_2,
            op_3: &op_3,
            stored,
            frees_all: closes & op_3.first,
            frees: advance & solar,
        };
        let places = Places::new("account", &ops, |op| op.index.resize(sizes.reorder_bits()));
        account.build(slot_free, places, sweep);
    } else {
        slot_free.set_lit(0);
    }

    let at_3 = Decided {
        valid: op_3.valid,
        outcome,
        gives: passes | repeats,
        duplicate: repeats,
        stored,
        window: window_table.next,
        count,
        group,
        group_changed,
        moved: (moves & !roce) | opens,
        group_before,
        keeps,
        credits: credit_table.left,
        was_open: op_3.in_table & window.open,
        known,
    };
    Decision {
        op_2,
        op_3,
        op_4,
        at_4: at_3.delayed("decided"),
    }
}

fn group_address<'a>(sizes: &Sizes, op: &Op<'a>) -> Signal<'a> {
    if !sizes.has_rows() {
        return op.index;
    }
    let group = op.psn.part(GROUP_BITS, sizes.group_index_bits());
    let address = cat(&[sizes.row_address(op.space, op.index), group]);
    address.resize(index_width(u64::from(sizes.rows() * sizes.groups())))
}

/// PSNs of the responses to a READ request of roce: length / MTU rounded up, at least 1. What is longer than 2^31 counts as 2^31.
fn responses<'a>(op: &Op<'a>) -> Signal<'a> {
    let longest = op.length.bit(31);
    let choices = (0..8u32).map(|code| {
        let shift = 7 + code.clamp(1, 5);
        let whole = (op.length >> shift).part(0, 24);
        let more = op.length.part(0, shift).any() | !whole.any();
        let all = op.length.lit(1u32 << (31 - shift)).part(0, 24);
        let none = op.length.module().low();
        let known = (1..=5).contains(&code);
        let counted = cat(&[longest.mux(all, whole), more & !longest]);
        if known { counted } else { cat(&[all.lit(0), !none]) }
    });
    let chosen = op.mtu.select(&choices.collect::<Vec<_>>());
    (chosen.part(1, 24) + chosen.bit(0).zero_extend(24)).named("responses_of_read")
}

/// The account of slots: who holds how many, and how many are left for all.
struct Account<'a, 'b> {
    m: Module<'a>,
    sizes: &'b Sizes,
    op_2: &'b Op<'a>,
    op_3: &'b Op<'a>,
    /// The packet takes one.
    stored: Signal<'a>,
    /// The queue pair gives up all.
    frees_all: Signal<'a>,
    /// It gives up `amount`.
    frees: Signal<'a>,
}

impl<'a> Account<'a, '_> {
    fn build(&self, slot_free: Signal<'a>, places: Places<'a>, sweep: &Sweep<'a>) {
        let Self { m, sizes, .. } = *self;
        let bits = sizes.used_bits();
        let shared_at_first = sizes.slots - sizes.reorder * sizes.guaranteed;
        let shared = m
            .reg("shared_slots", bits)
            .reset(shared_at_first)
            .doc("slots that are free and guaranteed to nobody");
        let may = sizes.may_reorder(m, self.op_3.index);
        // Beside the count stands whether the guarantee is used up, so that no comparison stands before the decision.
        let used = table(m, "used_slots", (sizes.reorder, bits + 1), places, sweep);
        used.early.ignore();
        let (held, used_up) = (used.now.part(0, bits), used.now.msb());
        let own = (!used_up).named("has_guaranteed_slot");
        let some_shared = m.reg("shared_slots_left", 1).reset(1).doc("`shared_slots` is not 0");
        slot_free.set(may & (own | some_shared));

        // Those beyond the guarantee go back to all, `amount` of them at most. Sums are made of registers; comparisons only choose.
        let amount = self.op_3.amount.resize(bits);
        let guarantee_and_amount = self.op_2.amount.zero_extend(bits + 1) + m.lit(sizes.guaranteed, bits + 1);
        let guarantee_and_amount = guarantee_and_amount.delayed("guarantee_and_amount_3");
        let few_beyond = held.zero_extend(bits + 1).lt(guarantee_and_amount);
        let few_beyond = few_beyond.named("fewer_than_amount_beyond_guarantee");
        let frees_all = self.frees_all & may;
        let with_beyond = shared + (held - held.lit(sizes.guaranteed));
        let with_returned = (self.frees_all | few_beyond).mux(with_beyond, shared + amount);
        let some_returned = (self.frees_all | few_beyond).mux(held.ne_lit(sizes.guaranteed), amount.any());
        m.when((frees_all | self.frees) & !own, || {
            shared.set(with_returned);
            some_shared.set(some_shared | some_returned);
        })
        .else_when(self.stored & !own, || {
            shared.set(shared - shared.lit(1));
            some_shared.set(shared.ne_lit(1));
        });
        let fewer = cat(&[!few_beyond, held - amount]);
        used.next.set(fewer.gate(!frees_all));
        used.changes.set(frees_all | self.frees);
        let uses_up = used_up | held.eq_lit(sizes.guaranteed - 1);
        used.next_of_packet.set(cat(&[uses_up, held + held.lit(1)]));
        used.packet_changes.set(self.stored);
        used.left.ignore();
        m.assert(
            "guarantee_is_used_up_says_so",
            !self.op_3.valid | own.eq(held.lt(held.lit(sizes.guaranteed))),
        );
        m.assert("shared_slots_left_says_whether_some_are", some_shared.eq(shared.any()));
        m.assert(
            "no_more_slots_are_shared_than_there_are",
            shared.le(shared.lit(shared_at_first)),
        );
    }
}
