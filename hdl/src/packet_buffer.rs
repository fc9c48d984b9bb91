//! `packet_buffer`: holds each packet's payload until the verdict on its ICRC is there; what is wrong never comes out.
//!
//! Here a descriptor meets its verdict; the payload's ring is `packet_buffer/ring.rs`. It changes nothing and keeps the order.
//! Theory of operation: `docs/src/blocks/packet_buffer.md`.

mod ring;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Descriptor, ReceivedPacket};
use spraynic_rtl::{AxiStream, Context, Definition, Stream};

use crate::counter::{Counter, count_when};
use crate::fields::Fields;
use crate::icrc::check::{VERDICT_WIDTH, WRONG};
use crate::stream_fifo::buffer;

/// Name of the block.
pub const NAME: &str = "packet_buffer";

/// Descriptors that wait for their verdict at most.
const DESCRIPTORS: u32 = 32;

/// Least beats of the ring: while the largest payload of few beats is written and one waits for its verdict, others pass.
const LEAST_BEATS: u32 = 64;

/// What the block is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PacketBuffer {
    /// Width of the payload's stream in bits: 64 to 1024, a power of two.
    pub data_width: u32,
    /// Largest payload in bytes, a power of two.
    pub max_payload: u32,
}

impl From<&NicConfig> for PacketBuffer {
    fn from(config: &NicConfig) -> Self {
        Self {
            data_width: config.datapath.width_bits,
            max_payload: config.wire.max_mtu,
        }
    }
}

impl PacketBuffer {
    /// Clocks from the edge that takes a verdict to the edge that gives the descriptor, where nothing waits.
    pub const LATENCY: u32 = 1;

    /// Clocks from the edge that takes a verdict to the edge that gives the first beat of the payload, where nothing waits.
    pub const PAYLOAD_LATENCY: u32 = 5;

    /// Bytes of a beat.
    fn beat_bytes(&self) -> u32 {
        self.data_width / 8
    }

    /// Beats of payload that it holds, behind which two registers follow.
    #[must_use]
    pub fn beats(&self) -> u32 {
        (2 * self.max_payload / self.beat_bytes()).max(LEAST_BEATS)
    }
}

/// The block: `s_axis_descriptor` ([`ReceivedPacket`]), `s_axis_payload` (one packet for each descriptor whose `payload_length` is not 0;
/// `tuser[0]` of the last beat: no descriptor comes, it is discarded) and `s_axis_verdict` in; `m_axis_descriptor` and `m_axis_payload`
/// of packets whose verdict is not wrong out.
///
/// # Panics
/// When width or payload is no power of two, or the width not 64 to 1024 bits.
#[must_use]
pub fn packet_buffer<'a>(context: &'a Context, size: &PacketBuffer) -> Definition<'a> {
    let PacketBuffer {
        data_width,
        max_payload,
    } = *size;
    assert!(
        data_width.is_power_of_two() && (64..=1024).contains(&data_width) && max_payload.is_power_of_two(),
        "a packet_buffer of {data_width} bits for payloads of {max_payload} bytes"
    );
    let m = context.module(&format!("{NAME}_w{data_width}_p{max_payload}"));
    m.doc(&format!(
        "Holds payload ({} beats) and descriptors ({DESCRIPTORS}) until the verdict is there. A descriptor leaves one clock after its verdict,\n\
         once its payload is whole; a packet whose verdict is wrong leaves nothing.",
        size.beats()
    ));
    let descriptor_in = Stream::slave(m, "s_axis_descriptor", ReceivedPacket::width(), "ReceivedPacket");
    let payload_in = AxiStream::slave(
        m,
        "s_axis_payload",
        data_width,
        1,
        "payload, in the order of the descriptors",
    );
    let _ = payload_in
        .user
        .doc("last beat: no descriptor comes, the payload is discarded");
    let verdict = Stream::slave(
        m,
        "s_axis_verdict",
        VERDICT_WIDTH,
        "of each descriptor, in order: 0 right, 1 wrong, 2 not checked",
    );
    let descriptor_out = Stream::master(
        m,
        "m_axis_descriptor",
        ReceivedPacket::width(),
        "ReceivedPacket of a packet that passed",
    );
    let payload_out = AxiStream::master(m, "m_axis_payload", data_width, 1, "payload of packets that passed");
    let _ = payload_out.user.doc("zero");

    let ring = m.instance("u_ring", ring::payload_ring(context, size));
    payload_in.connect(AxiStream::into_instance(ring, "s_axis"));
    AxiStream::from_instance(ring, "m_axis").connect(payload_out);

    // A descriptor meets its verdict, and its payload is whole.
    let head = buffer(m, "u_descriptors", descriptor_in, DESCRIPTORS);
    let length = Fields::unpack::<ReceivedPacket>(head.data).get("payload_length");
    let has_payload = length.any().named("has_payload");
    let payload_is_there = (!has_payload | ring.output("whole")).named("payload_is_there");
    let wrong = verdict.data.eq_lit(WRONG).named("wrong");

    let offered = m.reg("offered", 1).reset(0).doc("`descriptor` is valid");
    let descriptor = m.reg("descriptor", head.data.width()).doc("the one that is offered");
    let free = (!offered | descriptor_out.ready).named("free");
    let may_go = (payload_is_there & (wrong | free)).named("may_go");
    head.ready.set(may_go & verdict.valid);
    verdict.ready.set(may_go & head.valid);
    let judged = (may_go & head.valid & verdict.valid).named("judged");
    let passes = (judged & !wrong).named("passes");
    m.when(free, || {
        descriptor.set(head.data);
        offered.set(passes);
    });
    descriptor_out.data.set(descriptor);
    descriptor_out.valid.set(offered);
    ring.connect("claim", judged & has_payload)
        .connect("claim_length", length)
        .connect("claim_passes", !wrong);

    count_when(
        m,
        Counter("passed", "packets given: ICRC right, or not checked"),
        passes,
    );
    count_when(m, Counter("dropped", "packets dropped: ICRC wrong"), judged & wrong);
    count_when(
        m,
        Counter(
            "discarded",
            "payloads without a descriptor, of frames that were dropped before",
        ),
        ring.output("discards"),
    );
    m.finish()
}
