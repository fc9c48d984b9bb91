//! `packet_slicer`: cuts one work request into packet descriptors of at most one MTU, one a clock.
//!
//! Requests pass an admission pipeline that never stalls (a request enters only when the queue behind it has room), in which
//! they meet their context, are checked, and take their PSNs. The cutter behind the queue gives the descriptors. It never touches
//! payload. Theory of operation: `docs/src/blocks/packet_slicer.md`.

pub(crate) mod admission;
mod cutter;
mod slices;

pub use slices::packet_slicer_slices;

use crate::counter::{Counter, count_when};
use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Descriptor, PacketDescriptor, SliceContext, WorkRequest};
use spraynic_rtl::{Bundle, Context, Definition, MemoryStyle, Stream, bundle};

/// Admitted requests that may wait for the cutter, the ones in the admission pipeline included: the pipeline takes four clocks, the queue
/// and the cutter one each, so eight keep one request a clock going.
const QUEUE_DEPTH: u32 = 8;

bundle! {
    /// What the cutter knows of a message: the checked request with the state its queue pair gave it.
    pub(crate) struct Message {
        qpn: 24, "queue pair number";
        mrc: 1, "profile mrc";
        send: 1, "SEND or SEND with invalidate";
        write: 1, "WRITE";
        read: 1, "READ";
        invalidate: 1, "SEND with invalidate";
        fetch_add: 1, "FetchAdd";
        immediate_flag: 1, "the message carries immediate data";
        solicited: 1, "solicited event wanted, where the operation can have it";
        timestamps: 1, "mrc: a TSETH in each packet";
        mtu: 3, "MTU code";
        entropy: 32, "entropy value";
        psn: 24, "PSN of the first packet";
        msn: 16, "MSN of the message";
        rqmsn: 16, "RQMSN of the message";
        local_address: 64, "address of the payload";
        local_key: 32, "L_Key of the payload";
        length: 32, "bytes of the message";
        remote_address: 64, "address at the peer";
        remote_key: 32, "R_Key at the peer";
        immediate: 32, "immediate data or R_Key to invalidate";
        compare: 64, "compare operand";
        swap_add: 64, "swap operand or addend";
    }
}

/// The block for this configuration.
#[must_use]
pub fn packet_slicer<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let m = context.module(&format!("packet_slicer_qp{}", config.queue_pairs.count));
    m.doc("Cuts work requests into packet descriptors, one a clock. Owns the next PSN (and MSN, RQMSN of mrc) of each\nqueue pair. Requests that are wrong are dropped and counted by the first reason that applies.");
    let requests = Stream::slave(
        m,
        "s_axis_work_request",
        WorkRequest::width(),
        "WorkRequest: see descriptors",
    );
    let contexts = Stream::slave(
        m,
        "s_axis_context",
        SliceContext::width(),
        "SliceContext: writes a queue pair's context",
    );
    let packets = Stream::master(
        m,
        "m_axis",
        PacketDescriptor::width(),
        "PacketDescriptor: one packet to build",
    );

    // A request enters when it has a place in the queue, counted from its entry on.
    let taken = m.reg("taken", 4).reset(0).doc("requests in admission and queue");
    let has_place = taken.ne_lit(QUEUE_DEPTH).named("has_place");
    let admission = admission::admission(m, config, requests, contexts, has_place);

    let queue = m
        .memory("queue", QUEUE_DEPTH, Message::packed_width())
        .style(MemoryStyle::Distributed);
    let (head, tail) = (m.reg("queue_head", 3).reset(0), m.reg("queue_tail", 3).reset(0));
    let waiting = m.reg("waiting", 4).reset(0).doc("messages in the queue");
    queue.write(admission.admitted, tail, admission.message.pack());
    let pop = m.wire("pop", 1);
    m.when(admission.admitted, || tail.set(tail + tail.lit(1)));
    m.when(pop, || head.set(head + head.lit(1)));
    m.when(admission.admitted & !pop, || waiting.set(waiting + waiting.lit(1)))
        .else_when(!admission.admitted & pop, || waiting.set(waiting - waiting.lit(1)));
    let leaves = pop.zero_extend(4) + admission.dropped.zero_extend(4);
    taken.set(taken + requests.fires().zero_extend(4) - leaves);
    m.assert("queue_has_room", !(admission.admitted & waiting.eq_lit(QUEUE_DEPTH)));

    let message = Message::unpack(queue.read_now(head));
    let next = cutter::Start {
        message,
        first: m.high(),
        remaining: message.length,
        in_interval: m.lit(0, 6),
        tag: None,
    };
    let started = cutter::cutter(m, config, &next, waiting.any(), packets);
    pop.set(started);

    count_when(m, Counter("packets", "packet descriptors given"), packets.fires());
    count_when(m, Counter("messages", "requests accepted"), admission.admitted);
    for (name, doc, event) in admission.drops {
        count_when(m, Counter(name, doc), event);
    }
    m.finish()
}

#[cfg(test)]
mod tests;
