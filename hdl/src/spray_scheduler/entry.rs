//! Entry to the pipeline: one context, path update, recycled path or packet a clock, in this order of preference.
//!
//! An update that changes what is known of a set waits until no packet is between entry and queue, and nothing enters behind it until the tables say so:
//! what the front half reads of a set stands still while it is used. Marks (`Skip`) change no such thing and pass like packets.

use spraynic_config::descriptor::{
    Descriptor, PacketDescriptor, PathEvent, PathEventKind, PathState, PathUpdate, SendContext, SprayPolicy,
};
use spraynic_rtl::{Bundle, Module, Signal, index_width};

use super::{Inputs, Operation, PACKETS, QueuePair};
use crate::fields::Fields;
use crate::path_sets::PathSets;
use crate::sweep::Sweep;

/// Who may enter.
pub(super) struct Gates<'a> {
    pub(super) advance: Signal<'a>,
    pub(super) sweep: Sweep<'a>,
    pub(super) has_place: Signal<'a>,
    /// A packet leaves the pipeline.
    pub(super) pushed: Signal<'a>,
    /// The tables know of the change that is under way.
    pub(super) changed: Signal<'a>,
}

/// What enters, and what is written at once.
pub(super) struct Entered<'a> {
    pub(super) enters: Signal<'a>,
    pub(super) operation: Operation<'a>,
    /// The queue pair of the operation that entered in the clock before.
    pub(super) queue_pair: QueuePair<'a>,
    pub(super) entropy_write: Signal<'a>,
    pub(super) entropy_index: Signal<'a>,
    pub(super) entropy: Signal<'a>,
    pub(super) drop_update: Signal<'a>,
}

fn ignore_all_but<D: Descriptor>(fields: &Fields<'_>, used: &[&str]) {
    for field in D::FIELDS.iter().filter(|field| !used.contains(&field.name)) {
        fields.get(field.name).ignore();
    }
}

/// Builds the entry and the table of queue pairs, and drives `ready` of all inputs.
pub(super) fn entry<'a>(
    m: Module<'a>,
    sets: PathSets,
    queue_pairs: u32,
    inputs: &Inputs<'a>,
    gates: Gates<'a>,
) -> Entered<'a> {
    let Inputs {
        packets,
        contexts,
        updates,
        recycles,
    } = *inputs;
    let packet = Fields::unpack::<PacketDescriptor>(packets.data.part(0, PacketDescriptor::width()));
    let context = Fields::unpack::<SendContext>(contexts.data);
    ignore_all_but::<SendContext>(&context, &["qpn", "policy", "path_set", "entropy"]);
    let update = Fields::unpack::<PathUpdate>(updates.data);
    ignore_all_but::<PathUpdate>(&update, &["set", "state", "path", "entropy"]);
    let event = Fields::unpack::<PathEvent>(recycles.data);

    let in_pipe = m
        .reg("packets_in_pipe", index_width(u64::from(PACKETS) + 1))
        .reset(0)
        .doc("packets between entry and queue");
    let changing = m.reg("changing", 1).reset(0).doc("a path changes: nothing enters");
    let open = (gates.advance & !gates.sweep.active & !changing).named("entry_open");
    let is_skip = update
        .get("state")
        .eq_lit(PathState::Skip as u8)
        .named("update_is_skip");
    let empty = !in_pipe.any();
    let to_updates = open & !contexts.valid;
    let to_recycles = to_updates & !updates.valid;
    let to_packets = to_recycles & !recycles.valid;
    contexts.ready.set(open);
    updates.ready.set(to_updates & (is_skip | empty));
    recycles.ready.set(to_recycles);
    packets.ready.set(to_packets & gates.has_place);
    let (takes_context, takes_update) = (contexts.fires(), updates.fires());
    let (takes_recycle, takes_packet) = (recycles.fires(), packets.fires());
    let (enters_pipe, leaves_pipe) = (takes_packet & !gates.pushed, !takes_packet & gates.pushed);
    m.when(enters_pipe, || in_pipe.set(in_pipe + in_pipe.lit(1)))
        .else_when(leaves_pipe, || in_pipe.set(in_pipe - in_pipe.lit(1)));

    let holds = sets
        .holds(update.get("set"), update.get("path"))
        .named("update_is_of_a_path");
    let changes = (takes_update & holds & !is_skip).named("takes_change");
    m.when(changes, || changing.set_lit(1))
        .else_when(gates.changed, || changing.set_lit(0));

    // Nobody reads entropy values while the pipeline is empty.
    let entropy_write = m.reg("entropy_write", 1).reset(0);
    entropy_write.set(changes);
    let entropy_index = sets.path_index(update.get("set").part(0, sets.set_bits()), update.get("path"));

    // Queue pairs: a context holds for whatever enters behind it.
    let qp_bits = queue_pairs.trailing_zeros();
    let qpn = contexts.valid.mux(
        context.get("qpn"),
        recycles.valid.mux(event.get("qpn"), packet.get("qpn")),
    );
    let known = !(qpn >> qp_bits).any();
    let policy = context.get("policy");
    let sprays = policy.ne_lit(SprayPolicy::Fixed as u8) & policy.le(m.lit(SprayPolicy::Reps as u8, 3));
    let set = context.get("path_set");
    let written = QueuePair {
        open: m.high(),
        sprays,
        has_set: sets.set_fits(set),
        policy,
        set,
        entropy: context.get("entropy"),
    };
    let table = m.memory("queue_pairs", queue_pairs, QueuePair::packed_width());
    let write_index = gates
        .sweep
        .active
        .mux(gates.sweep.index.part(0, qp_bits), context.get("qpn").part(0, qp_bits));
    let context_known = !(context.get("qpn") >> qp_bits).any();
    table.write(
        gates.sweep.active | (takes_context & context_known),
        write_index,
        written.pack().gate(!gates.sweep.active),
    );
    let read = table.read(takes_recycle | takes_packet, qpn.part(0, qp_bits));

    let is_acknowledged = event.get("kind").eq_lit(PathEventKind::Acknowledged as u8);
    let place_fits = match sets.place_bits() {
        8 => m.high(),
        bits => !(event.get("path") >> bits).any(),
    };
    let state_is = |state: PathState| update.get("state").eq_lit(state as u8);
    let operation = Operation {
        packet: takes_packet,
        context: takes_context,
        skip: takes_update & holds & is_skip,
        change: changes,
        recycle: takes_recycle & is_acknowledged & place_fits,
        known,
        qpn,
        place: updates.valid.mux(update.get("path"), event.get("path")),
        set: updates.valid.mux(update.get("set"), event.get("set")),
        good: state_is(PathState::Good),
        bad: state_is(PathState::AssumedBad),
    };
    Entered {
        enters: takes_context | takes_update | takes_recycle | takes_packet,
        operation: operation.named("entry"),
        queue_pair: QueuePair::unpack(read),
        entropy_write,
        entropy_index: entropy_index.delayed("entropy_index"),
        entropy: update.get("entropy").delayed("entropy_written"),
        drop_update: takes_update & !holds,
    }
}
