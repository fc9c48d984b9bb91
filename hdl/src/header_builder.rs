//! `header_builder`: puts Ethernet, VLAN, IP, UDP, BTH and extension headers before a packet's payload, one beat a clock.
//!
//! It covers the header lengths of the configuration and no others. It never computes the ICRC, never chooses a path and never stores a
//! packet. Theory of operation: `docs/src/blocks/header_builder.md`.

mod accept;
mod fields;
mod geometry;
mod ipv4;
mod merger;
mod sequencer;
mod stage;
mod templates;

use accept::{accept, direct_payload, queued_payload};
use geometry::Geometry;
use merger::merger;
use sequencer::{Inputs, sequencer};
use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Descriptor, HeaderTemplate, PacketDescriptor};
use spraynic_rtl::{AxiStream, Context, Definition, Stream};
use templates::templates;

/// Bits of `tuser` that lead a frame to its port: none where there is one port.
#[must_use]
pub(crate) fn port_sideband(config: &NicConfig) -> u32 {
    if config.paths.ports > 1 { 3 } else { 0 }
}

/// The block for this configuration. `s_axis_control` and `count_control_frames` are there where `wire.control` is.
#[must_use]
pub fn header_builder<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let width = config.datapath.width_bits;
    let m = context.module(&format!("header_builder_w{width}_qp{}", config.queue_pairs.count));
    m.doc(
        "Builds frames from packet descriptors, header templates and payload. The last 4 bytes of a frame are zero: the\nplace of the ICRC. Control descriptors go first, at frame boundaries.",
    );
    let geometry = Geometry::new(config);
    let descriptors = Stream::slave(
        m,
        "s_axis_descriptor",
        PacketDescriptor::width(),
        "PacketDescriptor: one packet to build",
    );
    let control = config.wire.control.then(|| {
        Stream::slave(
            m,
            "s_axis_control",
            PacketDescriptor::width(),
            "PacketDescriptor of a control packet, without payload",
        )
    });
    let payload = AxiStream::slave(
        m,
        "s_axis_payload",
        width,
        1,
        "payload: one packet for each descriptor with payload, in their order",
    );
    let writes = Stream::slave(
        m,
        "s_axis_template",
        HeaderTemplate::width(),
        "HeaderTemplate: writes a queue pair's template",
    );
    let inputs = Inputs {
        time_ns: m.input("time_ns", 64).doc("time in nanoseconds"),
        identification_load: m
            .input("identification_load", 1)
            .doc("headers built from this clock on count from `identification`"),
        identification: m.input("identification", 16).doc("IPv4 identification to load"),
    };
    let output = AxiStream::master(
        m,
        "m_axis",
        width,
        4 + port_sideband(config),
        "frames; tuser[0] bad (in the last beat), tuser[1] IPv6, tuser[2] VLAN tag, tuser[3] prompt: without payload; above, where there are several: the port",
    );
    for input in [inputs.time_ns, inputs.identification_load, inputs.identification] {
        input.ignore(); // Without time stamps or IPv4 nobody reads them.
    }
    for stream in control.iter().chain([&descriptors]) {
        stream.data.ignore(); // Keys and addresses are for those who read payload.
    }

    let templates = templates(m, config, writes);
    let (payload, queue) = match config.wire.control {
        true => {
            let claimed = m.wire("payload_claimed", 1);
            let (payload, begun) = queued_payload(m, payload, claimed);
            (payload, Some((begun, claimed)))
        }
        false => (direct_payload(m, payload), None),
    };
    let mut stage = accept(m, config, &geometry, (control, descriptors), &templates, queue);
    if geometry.layouts.len() > 1 {
        // The template decides where everything stands: it comes late out of the RAM, so it gets a clock.
        stage = stage.registered(m, "read");
    }
    let enable = m.wire("merger_enable", 1);
    let beat = sequencer(m, &geometry, &stage, payload, inputs, enable);
    merger(m, &geometry, &beat, payload, output, enable);
    m.finish()
}

#[cfg(test)]
mod tests;
