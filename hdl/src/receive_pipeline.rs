//! `receive_pipeline`: frames from the MAC in; memory writes, completions, answers, control packets and the host's frames out.
//!
//! It joins the blocks and adds one rule of its own, for queue pairs that are opened again (`context_order`). Who comes from where is in
//! docs/src/interfaces.md, the theory of operation in `docs/src/blocks/receive_pipeline.md`.

use crate::ack_engine::ack_engine;
use crate::context_order::{self, Passing};
use crate::counter::export_counters;
use crate::fields::Fields;
use crate::icrc::{Icrc, icrc_check};
use crate::joints::{has_port, join, join_axi, pass_in, pass_in_axi, pass_out, pass_out_axi, port_of};
use crate::memory_regions::memory_regions;
use crate::packet_buffer::{PacketBuffer, packet_buffer};
use crate::packet_parser::{PacketParser, packet_parser};
use crate::payload_writer::payload_writer;
use crate::qp_lookup::qp_lookup;
use crate::reorder_buffer::reorder_buffer;
use crate::responder::responder;
use crate::response_engine::response_engine;
use crate::skid_buffer;
use crate::stream_fifo;
use crate::stream_fork::fork;
use crate::write_data::WriteData;
use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Answer, Descriptor, ReceivedPacket, SequencedPacket};
use spraynic_rtl::{AxiStream, Context, Definition, InstanceHandle, Module, Signal, Stream, cat_lsb_first};

/// Beats of payload that may go ahead of the descriptors, which take longer through `responder`: without them each packet would wait for the
/// descriptor of its own.
const PAYLOAD_FIFO_BEATS: u32 = 32;

/// The pipeline for this configuration.
#[must_use]
pub fn receive_pipeline<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let width = config.datapath.width_bits;
    let m = context.module(&format!("receive_pipeline_w{width}"));
    m.doc("Receive path: frames from the MAC in (no preamble, no FCS); memory writes, completions, answers and control packets\nfor the transmit path, and the frames of the host out.");

    // Frames become packets whose headers and ICRC are right.
    let parser = PacketParser::from(config);
    let parser = m.instance(
        "u_packet_parser",
        packet_parser(context, &parser).expect("a valid configuration has a packet_parser"),
    );
    let check = m.instance(
        "u_icrc_check",
        icrc_check(context, &Icrc::from(config)).expect("a valid configuration has an icrc"),
    );
    let buffer = m.instance("u_packet_buffer", packet_buffer(context, &PacketBuffer::from(config)));
    pass_in_axi(m, parser, "s_axis", "s_axis");
    pass_out_axi(m, parser, "m_axis_slow_path", "m_axis_slow_path");
    join_axi(parser, "m_axis_frame", check, "s_axis");
    join(parser, "m_axis_descriptor", buffer, "s_axis_descriptor");
    join_axi(parser, "m_axis_payload", buffer, "s_axis_payload");
    join(check, "m_axis_verdict", buffer, "s_axis_verdict");

    // Packets find their queue pair, and leave in order.
    let lookup = m.instance("u_qp_lookup", qp_lookup(context, config));
    let reorder = m.instance("u_reorder_buffer", reorder_buffer(context, config));
    let acks = m.instance("u_ack_engine", ack_engine(context, config));
    join(buffer, "m_axis_descriptor", lookup, "s_axis_descriptor");
    join(buffer, "m_axis_passed", lookup, "s_axis_passed");
    join_axi(buffer, "m_axis_payload", lookup, "s_axis_payload");
    let (context_bits, context_doc) = port_of(lookup, "s_axis_context_tdata");
    let contexts = Stream::slave(m, "s_axis_context", context_bits, &context_doc);
    let sequence = Stream::from_instance(lookup, "m_axis_sequence");
    sequence.connect(Stream::into_instance(reorder, "s_axis_descriptor"));
    let sequence_payload = AxiStream::from_instance(lookup, "m_axis_sequence_payload");
    sequence_payload.connect(AxiStream::into_instance(reorder, "s_axis_payload"));
    join(lookup, "m_axis_probe", acks, "s_axis_probe");
    pass_out(m, lookup, "m_axis_feedback", "m_axis_feedback");
    pass_out_axi(m, lookup, "m_axis_feedback_payload", "m_axis_feedback_payload");
    pass_out(m, lookup, "m_axis_endpoint", "m_axis_endpoint");
    let reports = Stream::from_instance(reorder, "m_axis_report");
    reports.connect(Stream::into_instance(acks, "s_axis_report"));
    pass_out(m, reorder, "m_axis_event", "m_axis_event");
    pass_out(m, acks, "m_axis", "m_axis_control");
    pass_out(m, acks, "m_axis_event", "m_axis_control_event");
    // Only solar has slots.
    if has_port(reorder, "free_slots") {
        let (_, doc) = port_of(reorder, "free_slots");
        let _ = m.output_of("free_slots", reorder.output("free_slots")).doc(&doc);
    }

    // Requests go to memory, and are answered when it has them.
    let responder = m.instance("u_responder", responder(context, config));
    let regions = m.instance("u_memory_regions", memory_regions(context, config));
    let writer = m.instance("u_payload_writer", payload_writer(context, config));
    let engine = m.instance("u_response_engine", response_engine(context, config));
    let given = Stream::from_instance(reorder, "m_axis");
    let sequenced = skid_buffer::register(m, "u_sequenced", given);
    sequenced.connect(Stream::into_instance(responder, "s_axis"));
    let payload = AxiStream::from_instance(reorder, "m_axis_payload");
    stream_fifo::buffer_axi(m, "u_sequenced_payload_fifo", payload, PAYLOAD_FIFO_BEATS)
        .connect(AxiStream::into_instance(responder, "s_axis_payload"));
    pass_in(m, responder, "s_axis_receive_request", "s_axis_receive_request");
    pass_in(m, regions, "s_axis_region", "s_axis_region");
    join(responder, "m_axis_access", regions, "s_axis_access");
    join(regions, "m_axis_translation", responder, "s_axis_translation");
    join(responder, "m_axis_credit", reorder, "s_axis_credit");
    join(responder, "m_axis", writer, "s_axis");
    join_axi(responder, "m_axis_payload", writer, "s_axis_payload");
    pass_out(m, responder, "m_axis_requester", "m_axis_requester");
    pass_out_axi(m, responder, "m_axis_requester_payload", "m_axis_requester_payload");
    pass_out(m, writer, "m_axis_write", "m_axis_write");
    WriteData::from_instance(writer, "m_axis_write_data").connect(WriteData::master(m, "m_axis_write_data", width));
    pass_in(m, writer, "s_axis_written", "s_axis_written");
    pass_out(m, writer, "m_axis_completion", "m_axis_completion");
    join(writer, "m_axis", engine, "s_axis");
    pass_out(m, engine, "m_axis_response", "m_axis_response");
    if has_port(engine, "m_axis_message_tdata") {
        pass_out(m, engine, "m_axis_message", "m_axis_message");
    }
    // Markers of context writes have come to their end.
    let answers = Stream::from_instance(engine, "m_axis_answer");
    let marker = Fields::unpack::<Answer>(answers.data).get("marker");
    let answered = Stream::into_instance(acks, "s_axis_answer");
    answered.data.set(answers.data);
    answered.valid.set(answers.valid & !marker);
    answers.ready.set(marker | answered.ready);
    if has_port(engine, "m_axis_atomic_read_tdata") {
        pass_out(m, engine, "m_axis_atomic_read", "m_axis_atomic_read");
        pass_in(m, engine, "s_axis_atomic_data", "s_axis_atomic_data");
        pass_out(m, engine, "m_axis_atomic_write", "m_axis_atomic_write");
        pass_in(m, engine, "s_axis_atomic_written", "s_axis_atomic_written");
    }

    // What qp_lookup keeps of a context, the blocks behind take.
    let takers = [
        ("reorder_buffer", reorder),
        ("ack_engine", acks),
        ("responder", responder),
        ("payload_writer", writer),
        ("response_engine", engine),
    ];
    let names = takers.map(|(name, _)| name);
    let passed_on = Stream::from_instance(lookup, "m_axis_context");
    let copies = fork(m, passed_on, &names);
    let has_payload = Fields::unpack::<ReceivedPacket>(sequence.data.part(0, ReceivedPacket::width()))
        .get("payload_length")
        .any();
    let payload_due = context_order::payload_due(
        m,
        sequence.fires() & has_payload,
        sequence_payload.fires() & sequence_payload.last,
    );
    let something_given = given.valid | payload.valid | sequenced.valid | payload_due;
    let by_reorder = copies[0].fires();
    for (copy, (name, taker)) in copies.into_iter().zip(takers) {
        let copy = if name == "responder" {
            context_order::behind_given(m, copy, by_reorder, something_given.named("something_given"))
        } else {
            copy
        };
        copy.connect(Stream::into_instance(taker, "s_axis_context"));
    }
    let passing = Passing {
        offered: passed_on.valid,
        passed_on: passed_on.fires(),
        comes_out: answers.fires() & marker,
        enters: sequence.fires(),
        reported: reports.fires(),
    };
    context_order::admit(m, contexts, &passing).connect(Stream::into_instance(lookup, "s_axis_context"));
    let fires = |block: InstanceHandle<'a>, port: &str| Stream::into_instance(block, port).fires();
    observe(
        m,
        sequenced,
        [
            sequenced.fires(),
            fires(responder, "s_axis_context"),
            fires(responder, "s_axis_receive_request"),
            fires(lookup, "s_axis_descriptor"),
            fires(lookup, "s_axis_context"),
            fires(regions, "s_axis_access"),
            fires(regions, "s_axis_region"),
        ],
    );

    for block in [parser, acks] {
        pass_settings(m, block);
    }
    let counted = [
        ("packet_parser", parser),
        ("icrc", check),
        ("packet_buffer", buffer),
        ("qp_lookup", lookup),
        ("reorder_buffer", reorder),
        ("ack_engine", acks),
        ("responder", responder),
        ("memory_regions", regions),
        ("payload_writer", writer),
        ("response_engine", engine),
    ];
    for (block, instance) in counted {
        export_counters(m, block, instance);
    }
    m.finish()
}

/// Bits of `m_axis_taken`: 0 to 23 QPN, 24 space, 25 retired, of the packet that `responder` takes; then what is taken in this clock.
pub mod taken {
    /// Bits in all; those not named are 0.
    pub const BITS: u32 = 40;
    /// `responder` takes a packet.
    pub const RESPONDER_PACKET: u32 = 26;
    /// `responder` takes a context write. It takes one thing a clock.
    pub const RESPONDER_CONTEXT: u32 = 27;
    /// `responder` takes a receive request.
    pub const RESPONDER_REQUEST: u32 = 28;
    /// `qp_lookup` takes a packet; it goes before a context write of the same clock.
    pub const LOOKUP_PACKET: u32 = 29;
    /// `qp_lookup` takes a context write.
    pub const LOOKUP_CONTEXT: u32 = 30;
    /// `memory_regions` takes an access; it goes before a region write of the same clock.
    pub const REGIONS_ACCESS: u32 = 31;
    /// `memory_regions` takes a region write.
    pub const REGIONS_WRITE: u32 = 32;
}

/// The order in which blocks take what comes to them on several ports, for a model that follows it: a stream that does not wait.
fn observe<'a>(m: Module<'a>, sequenced: Stream<'a>, fires: [Signal<'a>; 7]) {
    let order = Stream::master(
        m,
        "m_axis_taken",
        taken::BITS,
        "what blocks take in this clock, for models that follow the order: responder a packet (QPN 24 bits, space, retired; bit 26), a context write (27) or receive request (28); qp_lookup a packet (29), context write (30); memory_regions an access (31), region write (32); tready is not looked at",
    );
    let fields = Fields::unpack::<SequencedPacket>(sequenced.data);
    let packet = cat_lsb_first(&[fields.get("qpn"), fields.get("space"), fields.get("retired")]);
    let fires = cat_lsb_first(&fires);
    order.data.set(cat_lsb_first(&[packet, fires]).zero_extend(taken::BITS));
    order.valid.set(fires.any());
    order.ready.ignore();
}

/// Passes on the inputs of a block that are no streams: time, pacing, DSCPs.
fn pass_settings<'a>(m: Module<'a>, block: InstanceHandle<'a>) {
    for port in block.definition().ports() {
        let own = ["clk", "rst"].contains(&port.name.as_str());
        let stream = port.name.starts_with("s_axis") || port.name.starts_with("m_axis");
        if !port.output && !own && !stream {
            block.connect(&port.name, m.input(&port.name, port.width).doc(&port.doc));
        }
    }
}
