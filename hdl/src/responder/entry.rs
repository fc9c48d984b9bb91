//! The entry: takes packets, receive requests and context writes one a clock, asks `memory_regions` what a packet names, and queues the operation.
//!
//! Responses to own requests leave here. Behind a SEND with invalidate nothing is taken until it is done, so that no access overtakes it.

use super::operation::{self, Operation};
use super::sequence::Invalidation;
use crate::payload_router;
use spraynic_config::NicConfig;
use spraynic_rtl::{Bundle, Module, Signal, Stream};

/// What the entry takes.
pub(super) struct Inputs<'a> {
    pub(super) packets: Stream<'a>,
    pub(super) receive_requests: Stream<'a>,
    pub(super) contexts: Stream<'a>,
}

/// What it gives.
pub(super) struct Entered<'a> {
    /// Operations, packed.
    pub(super) operations: Stream<'a>,
    /// Where the payload of each packet goes.
    pub(super) decisions: Stream<'a>,
    /// A response leaves.
    pub(super) response: Signal<'a>,
}

/// Builds the entry; drives the inputs' `ready`, the accesses and the requester's packets.
pub(super) fn entry<'a>(
    m: Module<'a>,
    config: &NicConfig,
    inputs: &Inputs<'a>,
    clearing: Signal<'a>,
    accesses: Stream<'a>,
    requester: Stream<'a>,
    invalidation: &Invalidation<'a>,
) -> Entered<'a> {
    let Inputs {
        packets,
        receive_requests,
        contexts,
    } = *inputs;
    let operations = Stream::wires(m, "operation", Operation::packed_width());
    let decisions = Stream::wires(m, "payload_decision", payload_router::DECISION_BITS);

    // One register for what comes first: packets are decoded behind it.
    let packet_valid = m.reg("packet_valid", 1).reset(0).doc("`packet` is valid");
    let packet = m.reg("packet", packets.data.width());
    let other_valid = m
        .reg("other_valid", 1)
        .reset(0)
        .doc("`other` is valid, and before any packet");
    let other = m
        .reg("other", Operation::packed_width())
        .doc("receive request or context write");
    let blocked = m
        .reg("blocked", 1)
        .reset(0)
        .doc("a SEND with invalidate is not done: nothing may pass it");
    let response_valid = m.reg("response_valid", 1).reset(0);
    let response = m
        .reg("response", packets.data.width())
        .doc("a response to an own request");
    let access_valid = m.reg("access_valid", 1).reset(0);
    let access = m.reg("access", accesses.data.width());

    // What decides whether a packet may leave is found out when it enters.
    let class = operation::Leaving::new(m, config, packets.data);
    let leaving = operation::Leaving::regs(m, "packet");
    m.when(packets.fires(), || leaving.set(&class));
    let (decoded, asked) = operation::packet(m, config, packet);
    let is_response = leaving.response;
    let has_payload = leaving.has_payload;
    let invalidates = (packet_valid & leaving.invalidates).named("invalidation_enters");
    m.assert(
        "leaving_is_of_the_packet",
        !packet_valid | is_response | decoded.asks.eq(leaving.asks),
    );
    let access_free = !access_valid | accesses.ready;
    let response_free = !response_valid | requester.ready;
    let can_leave = is_response.mux(response_free, operations.ready & (access_free | !leaving.asks))
        & (decisions.ready | !has_payload);
    let packet_leaves = (packet_valid & can_leave).named("packet_leaves");
    let other_leaves = other_valid & operations.ready;
    let queues = packet_leaves & !is_response;

    // One of the three a clock. Receive requests and packets in turn, context writes before both; only one register is ever full.
    let free = ((!packet_valid | packet_leaves) & (!other_valid | other_leaves) & !blocked & !invalidates & !clearing)
        .named("entry_free");
    let packet_turn = m
        .reg("packet_turn", 1)
        .reset(0)
        .doc("a packet before a receive request");
    let takes_request = receive_requests.valid & !(packet_turn & packets.valid);
    contexts.ready.set(free);
    receive_requests
        .ready
        .set(free & !contexts.valid & !(packet_turn & packets.valid));
    packets.ready.set(free & !contexts.valid & !takes_request);
    m.when(receive_requests.fires(), || packet_turn.set_lit(1))
        .else_when(packets.fires(), || packet_turn.set_lit(0));

    m.when(free | packet_leaves, || packet_valid.set(packets.fires()));
    m.when(packets.fires(), || packet.set(packets.data));
    let takes_other = receive_requests.fires() | contexts.fires();
    m.when(free | other_leaves, || other_valid.set(takes_other));
    let request = operation::receive_request(m, receive_requests.data).pack();
    let context = operation::context_write(m, contexts.data).pack();
    // Loaded whenever it is empty or emptied: its enable reaches far, and need not know whether something comes.
    m.when(!other_valid | operations.ready, || {
        other.set(contexts.valid.mux(context, request));
    });
    m.assert("one_enters_at_a_time", !(packet_valid & other_valid));

    operations
        .valid
        .set(other_valid | (packet_valid & !is_response & can_leave));
    operations.data.set(other_valid.mux(other, decoded.pack()));
    decisions.valid.set(packet_leaves & has_payload);
    let to_requester = m.lit(payload_router::PORT_1, payload_router::DECISION_BITS);
    let to_writer = m.lit(payload_router::PORT_0, payload_router::DECISION_BITS);
    decisions.data.set(is_response.mux(to_requester, to_writer));

    m.when(queues & leaving.invalidates, || blocked.set_lit(1))
        .else_when(invalidation.done, || blocked.set_lit(0));
    m.when(packet_leaves & is_response, || {
        response_valid.set_lit(1);
        response.set(packet);
    })
    .else_when(requester.ready, || response_valid.set_lit(0));
    requester.valid.set(response_valid);
    requester.data.set(response);

    // An invalidation is asked when nothing else is under way.
    m.when(queues & leaving.asks, || {
        access_valid.set_lit(1);
        access.set(asked);
    })
    .else_when(invalidation.asks & access_free, || {
        access_valid.set_lit(1);
        access.set(invalidation.access);
    })
    .else_when(accesses.ready, || access_valid.set_lit(0));
    invalidation.asked.set(invalidation.asks & access_free);
    m.assert("an_invalidation_asks_alone", !(invalidation.asks & queues));
    accesses.valid.set(access_valid);
    accesses.data.set(access);

    Entered {
        operations,
        decisions,
        response: packet_leaves & is_response,
    }
}
