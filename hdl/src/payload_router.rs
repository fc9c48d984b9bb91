//! `payload_router`: leads each payload packet to one of two ports, or discards it, as decided for it elsewhere.
//!
//! It decides nothing, changes no byte, and keeps packets and decisions in their order.
//! Theory of operation: `docs/src/blocks/payload_router.md`.

use crate::{skid_buffer, stream_fifo};
use spraynic_rtl::{AxiStream, Context, Definition, Module, Stream};

/// Name of the block.
pub const NAME: &str = "payload_router";

/// Decision: the packet leaves on `m_axis_0`.
pub const PORT_0: u32 = 0;
/// Decision: the packet leaves on `m_axis_1`.
pub const PORT_1: u32 = 1;
/// Decision: the packet is taken and forgotten. So does 3, which nobody should send.
pub const DISCARD: u32 = 2;

/// Bits of a decision.
pub const DECISION_BITS: u32 = 2;

/// The router for packets of `width` data bits and `user` sideband bits, with room for `depth` decisions: ports `s_axis_…`,
/// `s_axis_decision_…`, `m_axis_0_…`, `m_axis_1_…`.
///
/// # Panics
/// When `width` is no multiple of 8, `width` or `user` is 0, or `depth` less than 2.
#[must_use]
pub fn payload_router(context: &Context, width: u32, user: u32, depth: u32) -> Definition<'_> {
    let m = context.module(&format!("{NAME}_w{width}_u{user}_d{depth}"));
    m.doc(&format!(
        "Leads each packet to one of two ports or discards it: one decision a packet, in order; {depth} decisions fit.\n\
         The beat that leaves is a register; which `tvalid` it raises is that of two more."
    ));
    let packets = AxiStream::slave(m, "s_axis", width, user, "packets");
    let decisions = Stream::slave(
        m,
        "s_axis_decision",
        DECISION_BITS,
        "of the next packet without one: 0 to m_axis_0, 1 to m_axis_1, 2 or 3 discarded",
    );
    let outputs = ["m_axis_0", "m_axis_1"]
        .map(|name| AxiStream::master(m, name, width, user, "packets with this decision, unchanged"));

    let beat = skid_buffer::register_axi(m, "u_beat", packets);
    let decision = stream_fifo::buffer(m, "u_decisions", decisions, depth);
    let chosen = [PORT_0, PORT_1].map(|port| decision.data.eq_lit(port));
    let discard = decision.data.bit(1).named("discard");
    let mut taken = discard;
    for (output, chosen) in outputs.into_iter().zip(chosen) {
        output.set_packed(beat.pack());
        output.valid.set(beat.valid & decision.valid & chosen);
        taken = taken | (chosen & output.ready);
    }
    // Each is taken with the other: the beat needs its decision, the decision stays until the last beat.
    let taken = taken.named("taken");
    beat.ready.set(taken & decision.valid);
    decision.ready.set(taken & beat.valid & beat.last);
    m.finish()
}

/// Puts a [`payload_router`] named `name` behind `packets` and `decisions` and returns its two outputs, whose `ready` are to be driven.
#[must_use]
#[track_caller]
pub fn route<'a>(
    m: Module<'a>,
    name: &str,
    packets: AxiStream<'a>,
    decisions: Stream<'a>,
    depth: u32,
) -> [AxiStream<'a>; 2] {
    let definition = payload_router(m.context(), packets.data.width(), packets.user.width(), depth);
    let instance = m.instance(name, definition);
    packets.connect(AxiStream::into_instance(instance, "s_axis"));
    decisions.connect(Stream::into_instance(instance, "s_axis_decision"));
    ["m_axis_0", "m_axis_1"].map(|output| AxiStream::from_instance(instance, output))
}
