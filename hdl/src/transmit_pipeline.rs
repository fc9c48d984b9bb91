//! `transmit_pipeline`: work requests and payload in, whole frames for the MAC out.
//!
//! It joins the blocks and adds no rule of its own: who comes from where is in docs/src/interfaces.md, the theory of operation in
//! `docs/src/blocks/transmit_pipeline.md`.

use crate::counter::export_counters;
use crate::fields::Fields;
use crate::frame_fifo::prompt_frame_fifo;
use crate::header_builder::header_builder;
use crate::icrc::{Icrc, icrc};
use crate::packet_multiplexer::packet_multiplexer;
use crate::packet_slicer::packet_slicer;
use crate::round_robin_arbiter::arbitrate;
use crate::{skid_buffer, stream_fifo};
use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    Descriptor, HeaderTemplate, PacketDescriptor, PayloadRequest, SliceContext, WorkRequest,
};
use spraynic_rtl::{AxiStream, Context, Definition, Module, Signal, Stream, cat};

/// Name of the block.
pub const NAME: &str = "transmit_pipeline";

/// The pipeline for this configuration.
#[must_use]
pub fn transmit_pipeline<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let width = config.datapath.width_bits;
    let m = context.module(&format!("transmit_pipeline_w{width}"));
    m.doc("Transmit path: work requests and payload in, frames for the MAC out (no preamble, no FCS).\nA frame leaves without a gap once it has begun.");

    let requests = Stream::slave(m, "s_axis_work_request", WorkRequest::width(), "WorkRequest");
    let contexts = Stream::slave(
        m,
        "s_axis_context",
        SliceContext::width(),
        "SliceContext: writes a queue pair's context",
    );
    let templates = Stream::slave(
        m,
        "s_axis_template",
        HeaderTemplate::width(),
        "HeaderTemplate: writes a queue pair's headers",
    );
    let responses = Stream::slave(
        m,
        "s_axis_response",
        PacketDescriptor::width(),
        "PacketDescriptor with payload from the responder",
    );
    let control = config.wire.control.then(|| {
        Stream::slave(
            m,
            "s_axis_control",
            PacketDescriptor::width(),
            "PacketDescriptor without payload; goes first",
        )
    });
    let payload_requests = Stream::master(
        m,
        "m_axis_payload_request",
        PayloadRequest::width(),
        "PayloadRequest: a read of memory",
    );
    let payload = AxiStream::slave(
        m,
        "s_axis_payload",
        width,
        1,
        "payload, one packet for each PayloadRequest, in order; tuser is not used",
    );
    let slow_path = AxiStream::slave(
        m,
        "s_axis_slow_path",
        width,
        1,
        "whole frames from the host; tuser: bad",
    );
    let frames = AxiStream::master(m, "m_axis", width, 1, "frames for the MAC; tuser: bad");

    // Work requests become descriptors.
    let slicer = m.instance("u_packet_slicer", packet_slicer(context, config));
    requests.connect(Stream::into_instance(slicer, "s_axis_work_request"));
    contexts.connect(Stream::into_instance(slicer, "s_axis_context"));
    let packets = Stream::from_instance(slicer, "m_axis");
    let descriptors = merge(
        m,
        packets,
        responses,
        payload_requests,
        config.transmit.descriptor_fifo_depth,
    );

    // Descriptors and payload become frames.
    let builder = m.instance("u_header_builder", header_builder(context, config));
    descriptors.connect(Stream::into_instance(builder, "s_axis_descriptor"));
    if let Some(control) = control {
        let control = stream_fifo::falling_through(m, "u_control_fifo", control, config.transmit.control_fifo_depth);
        control.connect(Stream::into_instance(builder, "s_axis_control"));
    }
    templates.connect(Stream::into_instance(builder, "s_axis_template"));
    let payload = skid_buffer::register_axi(m, "u_payload_skid_buffer", payload);
    payload.connect(AxiStream::into_instance(builder, "s_axis_payload"));
    let time = m.input("time_ns", 64).doc("time in nanoseconds, for the stamps of mrc");
    let load = m
        .input("identification_load", 1)
        .doc("set the identification of the next IPv4 frame");
    let identification = m.input("identification", 16).doc("value to set");
    builder
        .connect("time_ns", time)
        .connect("identification_load", load)
        .connect("identification", identification);

    let icrc = m.instance(
        "u_icrc",
        icrc(context, &Icrc::from(config)).expect("a valid configuration has an icrc"),
    );
    AxiStream::from_instance(builder, "m_axis").connect(AxiStream::into_instance(icrc, "s_axis"));
    let fifo = m.instance(
        "u_frame_fifo",
        prompt_frame_fifo(context, width, 1, config.frame_fifo_beats()),
    );
    // There is one port here: which one a descriptor says is not looked at.
    let frames_built = AxiStream::from_instance(icrc, "m_axis");
    let frames_built = AxiStream {
        user: frames_built.user.part(0, 2),
        ..frames_built
    };
    frames_built.connect(AxiStream::into_instance(fifo, "s_axis"));

    // Frames of the pipeline and of the host leave in turn. While one of the host leaves, all others are stored.
    let multiplexer = m.instance("u_packet_multiplexer", packet_multiplexer(context, 2, width, 1));
    fifo.connect("prompt_may_pass", multiplexer.output("s_axis_0_tready"));
    AxiStream::from_instance(fifo, "m_axis").connect(AxiStream::into_instance(multiplexer, "s_axis_0"));
    slow_path.connect(AxiStream::into_instance(multiplexer, "s_axis_1"));
    AxiStream::from_instance(multiplexer, "m_axis").connect(frames);

    let counted = [
        ("packet_slicer", slicer),
        ("header_builder", builder),
        ("icrc", icrc),
        ("frame_fifo", fifo),
    ];
    for (block, instance) in counted {
        export_counters(m, block, instance);
    }
    m.finish()
}

/// The read of memory that gives a packet its payload: a packed PayloadRequest.
pub(crate) fn payload_request<'a>(m: Module<'a>, descriptor: &Fields<'a>) -> Signal<'a> {
    let request = Fields::build::<PayloadRequest>(|name, width| match name {
        "local_key" => descriptor.get("local_key"),
        "length" => descriptor.get("payload_length"),
        "address" => descriptor.get("local_address"),
        _ => m.lit(0, width),
    });
    request.pack()
}

/// Joins the two sources of descriptors with payload, in turn, and issues the payload requests in the order of the joint queue.
fn merge<'a>(
    m: Module<'a>,
    packets: Stream<'a>,
    responses: Stream<'a>,
    payload_requests: Stream<'a>,
    depth: u32,
) -> Stream<'a> {
    let advance = m.wire("descriptor_taken", 1);
    let grant = arbitrate(
        m,
        "u_descriptor_arbiter",
        cat(&[responses.valid, packets.valid]),
        advance,
    )
    .named("descriptor_grant");
    let chosen = grant.bit(1).mux(responses.data, packets.data);
    let fields = Fields::unpack::<PacketDescriptor>(chosen);
    let has_payload = fields.get("payload_length").any().named("descriptor_has_payload");

    let requested = Stream::wires(m, "payload_request", PayloadRequest::width());
    let queued = Stream::wires(m, "descriptor", chosen.width());
    // A descriptor moves into both queues or into none.
    let room = queued.ready & (requested.ready | !has_payload);
    advance.set(grant.any() & room);
    requested.data.set(payload_request(m, &fields));
    requested.valid.set(advance & has_payload);
    queued.data.set(chosen);
    queued.valid.set(advance);
    packets.ready.set(grant.bit(0) & room);
    responses.ready.set(grant.bit(1) & room);

    skid_buffer::register(m, "u_payload_request_skid_buffer", requested).connect(payload_requests);
    stream_fifo::buffer(m, "u_descriptor_fifo", queued, depth)
}
