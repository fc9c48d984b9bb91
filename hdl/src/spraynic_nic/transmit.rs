//! From packets without a path to frames on a port, and control packets before them.

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Descriptor, PacketDescriptor, PacketOrigin, PayloadRequest};
use spraynic_rtl::{AxiStream, Module, Signal, Stream, cat_lsb_first};

use super::merge::{merge, with_data};
use super::{Blocks, Ports};
use crate::fields::Fields;
use crate::joints::{drain, from, has_stream, into, join, join_axi};
use crate::packet_multiplexer::packet_multiplexer;
use crate::path_sets::{encode, first_from};
use crate::spray_scheduler::{RANDOM_SEED, next_random};
use crate::transmit_pipeline::payload_request;
use crate::{skid_buffer, stream_fifo};

/// Beats of packets that have a path and wait for their headers, as far as they are let in: a path is chosen no earlier. What is inside
/// `spray_scheduler` for its latency is covered by so many packets of one beat.
const BEATS_AHEAD: u32 = 32;

/// Bits of the port of a frame.
const PORT_BITS: u32 = 3;

/// Packets of `sources` get a path and headers.
pub(super) fn packets<'a>(m: Module<'a>, config: &NicConfig, blocks: &Blocks<'a>, sources: &[Stream<'a>]) {
    let packets = merge(m, "packet", sources);
    let packets = with_payload_requested(m, config, blocks, packets);
    let spray = blocks.at("send_spray_scheduler");
    let builder = blocks.at("transmit_header_builder");
    let chosen = from(spray, "m_axis");

    // A path is chosen as late as headers allow: a packet enters when little stands before it.
    let ahead = m
        .reg("beats_ahead", BEATS_BITS)
        .reset(0)
        .doc("beats of the packets that have entered spray_scheduler and not left it");
    let may_enter = ahead.lt(ahead.lit(BEATS_AHEAD)).named("packet_may_enter");
    let entry = into(spray, "s_axis");
    entry.data.set(packets.data);
    entry.valid.set(packets.valid & may_enter);
    packets.ready.set(entry.ready & may_enter);
    let (enters, leaves) = (entry.fires(), chosen.fires());
    let (come, gone) = (beats_of(config, packets.data), beats_of(config, chosen.data));
    ahead.set(ahead + come.gate(enters) - gone.gate(leaves));
    chosen.connect(into(builder, "s_axis_descriptor"));
    join(spray, "m_axis_sent", blocks.at("send_retransmit_engine"), "s_axis_sent");
    join_axi(blocks.at("memory_read"), "m_axis_payload", builder, "s_axis_payload");
}

/// Bits of the counts of beats ahead: of up to 1 MiB, and a packet, on a bus of 8 bytes at the least.
const BEATS_BITS: u32 = 18;

/// Asks memory for the payload of each packet, in their order, and gives them on.
fn with_payload_requested<'a>(
    m: Module<'a>,
    config: &NicConfig,
    blocks: &Blocks<'a>,
    packets: Stream<'a>,
) -> Stream<'a> {
    let fields = Fields::unpack::<PacketDescriptor>(packets.data.part(0, PacketDescriptor::width()));
    let has_payload = fields.get("payload_length").any().named("packet_has_payload");
    let requested = Stream::wires(m, "payload_request", PayloadRequest::width());
    let queued = Stream::wires(m, "queued_packet", packets.data.width());
    // The order of packets is decided here. As much is decided ahead as covers memory's latency, and no more: what is lost, or goes before others,
    // must not wait behind a queue of packets that a slow port empties.
    let ahead = m
        .reg("payload_beats_ahead", BEATS_BITS)
        .reset(0)
        .doc("beats of the packets whose payload was asked for and that have no path yet");
    let most = config.transmit.payload_ahead_bytes / config.beat_bytes();
    let may_ask = ahead.lt(ahead.lit(most)).named("payload_may_be_asked");
    // A packet moves into both queues or into none.
    requested.data.set(payload_request(m, &fields));
    requested
        .valid
        .set(packets.valid & has_payload & queued.ready & may_ask);
    queued.data.set(packets.data);
    queued
        .valid
        .set(packets.valid & (requested.ready | !has_payload) & may_ask);
    packets
        .ready
        .set(queued.ready & (requested.ready | !has_payload) & may_ask);
    let enters = queued.fires();
    skid_buffer::register(m, "u_payload_request_skid_buffer", requested)
        .connect(into(blocks.at("memory_read"), "s_axis_payload_request"));
    let waiting = stream_fifo::buffer(m, "u_packet_fifo", queued, config.transmit.descriptor_fifo_depth);
    let come = beats_of(config, packets.data).gate(enters);
    let gone = beats_of(config, waiting.data).gate(waiting.fires());
    ahead.set(ahead + come - gone);
    waiting
}

/// Beats of a packet's payload, and two for its headers.
fn beats_of<'a>(config: &NicConfig, packet: Signal<'a>) -> Signal<'a> {
    let fields = Fields::unpack::<PacketDescriptor>(packet.part(0, PacketDescriptor::width()));
    let whole = fields.get("payload_length") >> config.beat_bytes().trailing_zeros();
    let beats = whole.resize(BEATS_BITS);
    beats + beats.lit(2)
}

/// A packet of a stream of descriptors that came from no request of this side: it is not tracked.
pub(super) fn untracked<'a>(m: Module<'a>, name: &str, packets: Stream<'a>) -> Stream<'a> {
    let word = cat_lsb_first(&[packets.data, m.lit(0, PacketOrigin::width())]);
    with_data(m, name, packets, word)
}

/// What a peer is answered gets a port that is up, by chance: a plane that is dead beyond its first link takes some answers with it, but never
/// all of a kind.
pub(super) fn answers<'a>(m: Module<'a>, ports: &Ports<'a>, answers: Stream<'a>) -> Stream<'a> {
    let number = ports.up.width();
    if number == 1 {
        return answers;
    }
    let random = m
        .reg("answer_random", 32)
        .reset(RANDOM_SEED)
        .doc("random numbers: xorshift32");
    m.when(answers.fires(), || random.set(next_random(random)));
    let up = ports.up.zero_extend(number.next_power_of_two());
    let port = encode(first_from(up, random.part(0, up.width().trailing_zeros())));
    let fields = Fields::unpack::<PacketDescriptor>(answers.data);
    fields.get("port").ignore();
    let led = fields.with("port", port.resize(PORT_BITS).named("answer_port"));
    with_data(m, "answer", answers, led.pack())
}

/// Control packets go first, by their port; or, where that is down or paused, by the lowest one that is open. So a port that is paused for long holds
/// back nobody's acknowledgements, behind which all that is received would wait in the end.
pub(super) fn control<'a>(
    m: Module<'a>,
    config: &NicConfig,
    blocks: &Blocks<'a>,
    ports: &Ports<'a>,
    sources: &[Stream<'a>],
) {
    let control = merge(m, "control", sources);
    let builder = blocks.at("transmit_header_builder");
    if !has_stream(builder, "s_axis_control") {
        drain(control);
        return;
    }
    let control = stream_fifo::falling_through(m, "u_control_fifo", control, config.transmit.control_fifo_depth);
    let fields = Fields::unpack::<PacketDescriptor>(control.data);
    let own = fields.get("port");
    let is_in = |of: Signal<'a>| {
        let places = 0..config.paths.ports;
        places.fold(m.low(), |any, port| any | own.eq_lit(port) & of.bit(port))
    };
    // Where all that are up are paused it waits in the queue of its own.
    let keeps = is_in(ports.open) | (is_in(ports.up) & !ports.open.any());
    let port = keeps.mux(own, ports.lowest_open).named("control_port");
    with_data(m, "control_led", control, fields.with("port", port).pack()).connect(into(builder, "s_axis_control"));
}

/// Frames of `icrc` and of the host go to their ports.
pub(super) fn frames<'a>(m: Module<'a>, config: &NicConfig, blocks: &Blocks<'a>, ports: &Ports<'a>) {
    let width = config.datapath.width_bits;
    let several = config.paths.ports > 1;
    let icrc = blocks.at("transmit_icrc");
    join_axi(blocks.at("transmit_header_builder"), "m_axis", icrc, "s_axis");
    let of_host = AxiStream::slave(
        m,
        "s_axis_slow_path",
        width,
        1,
        "whole frames from the host; tuser: bad",
    );
    let multiplexer = m.instance(
        "u_packet_multiplexer",
        packet_multiplexer(m.context(), 2, width, 1 + PORT_BITS),
    );
    let built = AxiStream::from_instance(icrc, "m_axis");
    let port = match several {
        true => built.user.part(2, PORT_BITS),
        false => m.lit(0, PORT_BITS),
    };
    built.user.ignore();
    led(built, built.user.bit(0), port).connect(AxiStream::into_instance(multiplexer, "s_axis_0"));

    // A frame of the host leaves by the lowest port that is open when it begins.
    let in_frame = m.reg("host_in_frame", 1).reset(0);
    let kept = m
        .reg("host_port", PORT_BITS)
        .doc("port of the frame of the host under way");
    let port = in_frame.mux(kept, ports.lowest_open).named("host_port_now");
    let begins = of_host.valid & !in_frame;
    m.when(begins, || {
        in_frame.set_lit(1);
        kept.set(ports.lowest_open);
    });
    m.when(of_host.fires() & of_host.last, || in_frame.set_lit(0));
    led(of_host, of_host.user, port).connect(AxiStream::into_instance(multiplexer, "s_axis_1"));

    let to_ports = blocks.at("transmit_port_multiplexer");
    join_axi(multiplexer, "m_axis", to_ports, "s_axis");
    blocks
        .at("send_spray_scheduler")
        .connect("port_room", to_ports.output("port_room"));
    for port in 0..config.paths.ports {
        let name = format!("m_axis_{port}");
        AxiStream::from_instance(to_ports, &name).connect(AxiStream::master(
            m,
            &name,
            width,
            1,
            &format!("frames for the MAC of port {port}; tuser: bad"),
        ));
    }
}

/// A stream of frames with its port in the sideband.
fn led<'a>(frames: AxiStream<'a>, bad: Signal<'a>, port: Signal<'a>) -> AxiStream<'a> {
    AxiStream {
        user: cat_lsb_first(&[bad, port]),
        ..frames
    }
}
