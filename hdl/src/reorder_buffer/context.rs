//! Context writes: opening and closing the windows of a queue pair, and the walk that frees the slots of one that is closed.
//!
//! A write is accepted when all of it is done. Before a queue pair is closed, the turns of all windows end, so that no packet is on its way
//! out of a slot; during the walk no window takes a turn, while packets go on.

use super::decide::Decision;
use super::issue::{ContextFields, Wanted};
use super::sizes::{GROUP, GROUP_BITS, Sizes, lowest};
use super::turn::{MAP_LATENCY, later};
use crate::fields::Fields;
use spraynic_config::Profile;
use spraynic_config::descriptor::{Descriptor, QueuePairContext, QueuePairState};
use spraynic_rtl::{Module, Signal, Stream, cat};

/// States of a context write.
mod state {
    pub(super) const IDLE: u64 = 0;
    /// Turns end.
    pub(super) const DRAIN: u64 = 1;
    pub(super) const FIRST: u64 = 2;
    pub(super) const FIRST_RESULT: u64 = 3;
    pub(super) const SECOND: u64 = 4;
    pub(super) const SECOND_RESULT: u64 = 5;
    pub(super) const WALK: u64 = 6;
    pub(super) const WALK_RESULT: u64 = 7;
    pub(super) const WALK_BITS: u64 = 8;
    pub(super) const DONE: u64 = 9;
}

/// What a context write tells the rest of the block.
pub(super) struct ContextWriter<'a> {
    /// No turn may begin.
    pub(super) hold: Signal<'a>,
    /// A queue pair is being closed: more slots may be free by the account than in the list.
    pub(super) account_ahead: Signal<'a>,
    /// Map entry to read: enable, space, queue pair, PSN.
    pub(super) map_read: Signal<'a>,
    pub(super) map_space: Signal<'a>,
    pub(super) map_index: Signal<'a>,
    pub(super) map_psn: Signal<'a>,
    /// A slot that is freed: the one of the entry that was read `MAP_LATENCY` clocks before.
    pub(super) frees: Signal<'a>,
}

/// The wires to the issue, made before the pipeline is.
pub(super) struct ContextWires<'a> {
    pub(super) context: Wanted<'a>,
    pub(super) walk: Wanted<'a>,
    pub(super) fields: ContextFields<'a>,
}

impl<'a> ContextWires<'a> {
    pub(super) fn new(m: Module<'a>, sizes: &Sizes) -> Self {
        let wire = |name: &str, width| m.wire(&format!("context_{name}"), width);
        Self {
            context: Wanted::wires(m, sizes, "context"),
            walk: Wanted::wires(m, sizes, "walk"),
            fields: ContextFields {
                opens: wire("opens", 1),
                profile: wire("profile", 2),
                drop_credits: wire("drop_credits", 1),
                first: wire("is_first", 1),
                exclusive: wire("exclusive", 1),
            },
        }
    }
}

/// Builds the writer. `turns_idle`: no turn is under way.
pub(super) fn context_writer<'a>(
    m: Module<'a>,
    sizes: &Sizes,
    contexts: Stream<'a>,
    wires: &ContextWires<'a>,
    decision: &Decision<'a>,
    turns_idle: Signal<'a>,
    sweeping: Signal<'a>,
) -> ContextWriter<'a> {
    let state = m.reg("context_state", 4).reset(state::IDLE);
    let is = |wanted: u64| state.eq_lit(wanted);
    let fields = Fields::unpack::<QueuePairContext>(contexts.data);
    for field in QueuePairContext::FIELDS {
        fields.get(field.name).ignore();
    }
    let index = fields.get("qpn").part(0, sizes.qpn_bits);
    let exists = !(fields.get("qpn") >> sizes.qpn_bits).any();
    let in_state = |wanted: QueuePairState| fields.get("state").eq_lit(wanted as u8);
    let receives = in_state(QueuePairState::ReadyToReceive) | in_state(QueuePairState::ReadyToSend);
    let profile = fields.get("profile");
    let of = |wanted: Profile, generated: bool| {
        if generated {
            profile.eq_lit(wanted.code())
        } else {
            m.low()
        }
    };
    let solar = of(Profile::Solar, sizes.solar);
    let may_reorder = sizes.may_reorder(m, index);
    let served = of(Profile::Roce, sizes.roce) | of(Profile::Mrc, sizes.mrc) | (solar & may_reorder);
    let opens = (receives & served).named("context_begins");

    // What the first operation found.
    let (result, at_4) = (decision.op_4, decision.at_4);
    let answer = result.valid & (result.open | result.close);
    let window = spraynic_rtl::Bundle::unpack(at_4.window);
    let super::decide::Window { profile: was, .. } = window;
    spraynic_rtl::Bundle::signals(&window)
        .into_iter()
        .for_each(Signal::ignore);
    let was_solar = at_4.was_open
        & if sizes.solar {
            was.eq_lit(Profile::Solar.code())
        } else {
            m.low()
        };
    let was_mrc = at_4.was_open
        & if sizes.mrc {
            was.eq_lit(Profile::Mrc.code())
        } else {
            m.low()
        };
    let both = opens.mux(solar & !at_4.was_open, was_solar).named("both_windows");
    let walks_both = m.reg("walks_both", 1);
    let walk_space = m.reg("walk_space_now", 1);
    let group_bits = sizes.group_index_bits().max(1);
    let walk_group = m.reg("walk_group", group_bits);
    let bits = m
        .reg("walk_bits", GROUP)
        .doc("slots of the group that are not free yet");
    let slots_in_walk = m.reg("walk_has_slots", 1);

    let (context, walk) = (&wires.context, &wires.walk);
    context.valid.set(is(state::FIRST) | is(state::SECOND));
    context.space.set(is(state::SECOND));
    context.index.set(index);
    context
        .psn
        .set(is(state::SECOND).mux(fields.get("response_psn"), fields.get("psn")));
    let keeps = receives | in_state(QueuePairState::Init);
    wires.fields.opens.set(opens);
    wires.fields.profile.set(profile);
    wires.fields.drop_credits.set(!keeps);
    wires.fields.first.set(is(state::FIRST));
    wires.fields.exclusive.set(is(state::FIRST_RESULT) | is(state::SECOND));
    let psn_of_walk = |low: Signal<'a>| {
        let psn = if sizes.has_rows() { cat(&[walk_group, low]) } else { low };
        psn.zero_extend(24)
    };
    walk.valid.set(is(state::WALK));
    walk.space.set(walk_space);
    walk.index.set(index);
    walk.psn.set(psn_of_walk(m.lit(0, GROUP_BITS)));

    m.when(is(state::IDLE) & contexts.valid & !sweeping, || {
        let next = exists.mux(
            opens.mux(state.lit(state::FIRST), state.lit(state::DRAIN)),
            state.lit(state::DONE),
        );
        state.set(next);
    });
    m.when(is(state::DRAIN) & turns_idle, || state.set_lit(state::FIRST));
    m.when(context.issued, || {
        state.set(is(state::FIRST).mux(state.lit(state::FIRST_RESULT), state.lit(state::SECOND_RESULT)));
    });
    let done_or_walk = |walks: Signal<'a>| walks.mux(state.lit(state::WALK), state.lit(state::DONE));
    m.when(is(state::FIRST_RESULT) & answer, || {
        walks_both.set(was_solar);
        walk_space.set_lit(0);
        walk_group.set_lit(0);
        slots_in_walk.set(was_solar);
        let alone = done_or_walk(!opens & (was_solar | was_mrc));
        state.set(both.mux(state.lit(state::SECOND), alone));
    });
    m.when(is(state::SECOND_RESULT) & answer, || state.set(done_or_walk(!opens)));
    m.when(walk.issued, || state.set_lit(state::WALK_RESULT));
    m.when(is(state::WALK_RESULT) & result.valid & result.walk, || {
        bits.set(at_4.group_before.gate(slots_in_walk));
        state.set_lit(state::WALK_BITS);
    });
    let (any, lowest_bit) = lowest(&bits.to_bits());
    let reads = (is(state::WALK_BITS) & any).named("walk_reads");
    m.when(reads, || bits.set(bits & (bits - bits.lit(1))));
    m.when(is(state::WALK_BITS) & !any, || {
        walk_group.set(walk_group + walk_group.lit(1));
        let group_is_last = walk_group.eq_lit(sizes.groups().max(1) - 1);
        m.when(group_is_last, || {
            walk_group.set_lit(0);
            walk_space.set_lit(1);
        });
        let ends = group_is_last & (walk_space | !walks_both);
        state.set(ends.mux(state.lit(state::DONE), state.lit(state::WALK)));
    });
    m.when(is(state::DONE), || state.set_lit(state::IDLE));
    contexts.ready.set(is(state::DONE));
    m.assert("context_waits_for_its_write", contexts.valid | is(state::IDLE));

    let walking = is(state::WALK) | is(state::WALK_RESULT) | is(state::WALK_BITS);
    let writes = is(state::FIRST) | is(state::FIRST_RESULT) | is(state::SECOND) | is(state::SECOND_RESULT);
    let account_ahead = ((writes & !opens) | walking).named("account_ahead");
    ContextWriter {
        hold: (is(state::DRAIN) | account_ahead).named("turns_held"),
        account_ahead,
        map_read: reads,
        map_space: walk_space,
        map_index: index,
        map_psn: psn_of_walk(lowest_bit),
        frees: later(reads, "walk_read", MAP_LATENCY),
    }
}
