//! `qp_lookup`: finds the queue pair of a packet, checks that the packet may come to it, and says where it goes.
//!
//! Three registers from a descriptor to its port: with the read of its context (1), with the context (2), with the verdict (3); all move
//! together. In the third a packet waits until it is said that its ICRC is right; before, nothing of it is seen or counted. A context write
//! waits until no packet is between. It never looks at PSNs or keys, and changes no byte of the payload, which `payload_router` leads.
//! Theory of operation: `docs/src/blocks/qp_lookup.md`.

mod checks;
mod contexts;

use crate::counter::{Counter, count_when};
use crate::fields::Fields;
use crate::payload_router::{self, DECISION_BITS, DISCARD, PORT_0, PORT_1};
use contexts::Entry;
use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Descriptor, PacketContext, QueuePairContext, ReceivedPacket};
use spraynic_rtl::{AxiStream, Bundle, Context, Definition, Module, Signal, Stream, cat_lsb_first};

/// Name of the block.
pub const NAME: &str = "qp_lookup";

/// Packets by which the lookup may run ahead of their payload.
const DECISIONS: u32 = 16;

/// Sideband of the payload, in bits.
const PAYLOAD_USER: u32 = 1;

/// The four ports of packets in the order of the routes' codes, with the meaning of their counters.
const ROUTES: [(&str, &str, &str); 4] = [
    (
        "sequence",
        "route 0: for reorder_buffer",
        "packets given to reorder_buffer",
    ),
    (
        "feedback",
        "route 1: for the requester",
        "packets given to the requester",
    ),
    ("probe", "route 2: for ack_engine", "probes given"),
    ("endpoint", "route 3: for path management", "endpoint operations given"),
];

/// The block for this configuration.
#[must_use]
pub fn qp_lookup<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let width = config.datapath.width_bits;
    let m = context.module(&format!("{NAME}_qp{}_w{width}", config.queue_pairs.count));
    m.doc("Finds the queue pair of each packet, checks state, opcode, addresses and P_Key, and gives the packet on one of four\nports. Its payload goes the same way, or is discarded with it. Owns the contexts of the queue pairs.");
    let packets = Stream::slave(
        m,
        "s_axis_descriptor",
        ReceivedPacket::width(),
        "ReceivedPacket: see descriptors",
    );
    let passed = Stream::slave(
        m,
        "s_axis_passed",
        1,
        "of each descriptor, in order: 1 its ICRC is right, 0 it is forgotten; may come later",
    );
    let payload = AxiStream::slave(
        m,
        "s_axis_payload",
        width,
        PAYLOAD_USER,
        "one packet for each descriptor whose payload_length is not 0, in their order",
    );
    let writes = Stream::slave(
        m,
        "s_axis_context",
        QueuePairContext::width(),
        "QueuePairContext: writes a queue pair's context; holds for every packet taken later",
    );
    let outputs = ROUTES.map(|(name, doc, _)| {
        let doc = format!("ReceivedPacket in the low bits, PacketContext above; {doc}");
        Stream::master(m, &format!("m_axis_{name}"), width_of_output(), &doc)
    });
    let payload_outputs = ["sequence", "feedback"].map(|name| {
        let doc = format!("payload of the packets of m_axis_{name}");
        AxiStream::master(m, &format!("m_axis_{name}_payload"), width, PAYLOAD_USER, &doc)
    });
    let passed_on = Stream::master(
        m,
        "m_axis_context",
        QueuePairContext::width(),
        "QueuePairContext as it stands in the table after a write",
    );

    let valid = |name, doc| m.reg(name, 1).reset(0).doc(doc);
    let valid_1 = valid("valid_1", "a packet's context comes out of the RAM");
    let valid_2 = valid("valid_2", "a packet is being checked");
    let valid_3 = valid("valid_3", "a packet is checked");
    let empty = !(valid_1 | valid_2 | valid_3).named("holds_packets");
    let table = contexts::contexts(m, config, writes, passed_on, empty);

    // All move on when the packet that is checked has left: it is forgotten, was dropped, or its port takes it.
    let leaves = m.wire("leaves", 1);
    let advance = (!valid_3 | leaves).named("advance");
    packets.ready.set(advance & !table.blocked);

    // Register 1: the packet; its context is being read.
    let packet_1 = m.reg("packet_1", packets.data.width());
    let qpn_of = |packet: Signal<'a>| Fields::unpack::<ReceivedPacket>(packet).get("qpn");
    let entry = table
        .memory
        .read(packets.fires(), qpn_of(packets.data).part(0, config.qpn_bits()));
    m.when(advance, || {
        valid_1.set(packets.fires());
        valid_2.set(valid_1);
        packet_1.set(packets.data);
    });

    // Register 2: the packet with its context. What its opcode means in each profile is known by then.
    let packet_2 = m.reg("packet_2", packets.data.width());
    let entry_2 = Entry::regs(m, "context_2");
    let addresses_2 = m.reg("context_2_addresses", entry.width() - Entry::packed_width());
    let decoded_2 = checks::decode(m, config, packet_1, advance);
    m.when(advance, || {
        packet_2.set(packet_1);
        entry_2.set(&Entry::unpack(entry.part(0, Entry::packed_width())));
        addresses_2.set(entry.part(Entry::packed_width(), addresses_2.width()));
    });
    let packet = Fields::unpack::<ReceivedPacket>(packet_2);
    let same_peer = checks::same_peer(config, &packet, addresses_2);
    let verdict = checks::check(m, &packet, &decoded_2, &entry_2, same_peer);

    // Register 3: the packet for its port; one register for all ports, because one is offered at a time.
    let out = m
        .reg("out", width_of_output())
        .doc("the packet that is offered, on whichever port");
    let register_3 = |name: &str, value: Signal<'a>| {
        let register = m.reg(name, 1);
        m.when(advance, || register.set(value));
        register
    };
    m.when(advance, || {
        valid_3.set(valid_2);
        out.set(cat_lsb_first(&[
            packet_2,
            packet_context(m, &verdict, &decoded_2, &entry_2),
        ]));
    });
    let routes = [0, 1, 2, 3].map(|route| register_3(&format!("to_{}", ROUTES[route].0), verdict.routes[route]));
    let has_payload = register_3("has_payload_3", decoded_2.has_payload);

    // The payload follows in the clock in which its packet passes. The packet is offered from the clock on in which that is decided.
    let decisions = Stream::wires(m, "decision", DECISION_BITS);
    let passes = (valid_3 & passed.valid & passed.data).named("passes");
    let decided = m.reg("decided", 1).reset(0).doc("the payload has its decision");
    let [sequence, feedback, ..] = routes;
    decisions.valid.set(passes & has_payload & !decided);
    decisions.data.set(sequence.mux(
        m.lit(PORT_0, DECISION_BITS),
        feedback.mux(m.lit(PORT_1, DECISION_BITS), m.lit(DISCARD, DECISION_BITS)),
    ));
    decided.set((decided | decisions.fires()) & !leaves);
    let payload_led = (!has_payload | decided | decisions.ready).named("payload_led");
    let offered = routes.map(|route| passes & payload_led & route);
    for (output, offered) in outputs.into_iter().zip(offered) {
        output.data.set(out);
        output.valid.set(offered);
    }
    let stays = any(m, (0..4).map(|route| routes[route] & !outputs[route].ready)).named("port_waits");
    leaves.set(valid_3 & passed.valid & (!passed.data | (payload_led & !stays)));
    passed.ready.set(leaves);
    let routed = payload_router::route(m, "u_payload_router", payload, decisions, DECISIONS);
    for (from, to) in routed.into_iter().zip(payload_outputs) {
        from.connect(to);
    }

    let counted = m
        .reg("counted", 1)
        .reset(0)
        .doc("a packet was given or dropped in the clock before");
    counted.set(passes & leaves);
    for ((name, _, doc), route) in ROUTES.into_iter().zip(routes) {
        count_when(
            m,
            Counter(name, doc),
            counted & route.delayed(&format!("counted_as_{name}")),
        );
    }
    for (name, doc, reason) in verdict.drops {
        count_when(
            m,
            Counter(name, doc),
            counted & register_3(&format!("is_{name}"), reason).delayed(&format!("counted_as_{name}")),
        );
    }
    let [a, b, c, d] = offered;
    m.assert("one_port_at_a_time", !((a & (b | c | d)) | (b & (c | d)) | (c & d)));
    m.assert("no_packet_passes_a_context_write", !(table.writes & !empty));
    m.finish()
}

/// Bits of the ports of packets.
fn width_of_output() -> u32 {
    ReceivedPacket::width() + PacketContext::width()
}

fn any<'a>(m: Module<'a>, conditions: impl IntoIterator<Item = Signal<'a>>) -> Signal<'a> {
    conditions.into_iter().fold(m.low(), |sum, condition| sum | condition)
}

/// What goes with the packet. Endpoint operations have no queue pair, and nothing of one.
fn packet_context<'a>(
    m: Module<'a>,
    verdict: &checks::Verdict<'a>,
    decoded: &checks::Decoded<'a>,
    entry: &Entry<'a>,
) -> Signal<'a> {
    let [_, feedback, probe, endpoint] = verdict.routes;
    let has_queue_pair = !decoded.endpoint;
    Fields::build::<PacketContext>(|name, width| match name {
        "route" => cat_lsb_first(&[feedback | endpoint, probe | endpoint]),
        "space" => verdict.responses & has_queue_pair,
        "profile" => entry.profile.gate(has_queue_pair),
        "mtu" => entry.mtu.gate(has_queue_pair),
        "remote_write" => entry.remote_write & has_queue_pair,
        "remote_read" => entry.remote_read & has_queue_pair,
        "remote_atomic" => entry.remote_atomic & has_queue_pair,
        "protection_domain" => entry.protection_domain.gate(has_queue_pair),
        _ => m.lit(0, width),
    })
    .pack()
}
