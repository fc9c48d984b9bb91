//! `packet_buffer`: holds each packet's payload until the verdict on its ICRC is there; what is wrong never comes out.
//!
//! Here a packet meets its verdict; the payload's ring is `packet_buffer/ring.rs`. It changes nothing and keeps the order. Descriptors go
//! ahead, so that their queue pair can be looked up meanwhile; whether a packet passed follows on a stream of its own.
//! Theory of operation: `docs/src/blocks/packet_buffer.md`.

mod ring;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Descriptor, ReceivedPacket};
use spraynic_rtl::{AxiStream, Context, Definition, Module, Stream};

use crate::counter::{Counter, count_when};
use crate::fields::Fields;
use crate::icrc::check::{VERDICT_WIDTH, WRONG};
use crate::stream_fifo::{buffer, falling_through};

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
    /// Clocks from the edge that takes a verdict to the edge that says whether the packet passed, where nothing waits.
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
/// `tuser[0]` of the last beat: no descriptor comes, it is discarded) and `s_axis_verdict` in; `m_axis_descriptor` of all packets, `m_axis_passed`
/// (1 bit: of each, whether it passed) and `m_axis_payload` of packets that passed, whose verdict is not wrong, out.
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
        "Holds payload ({} beats) until the verdict is there, for {DESCRIPTORS} packets. Descriptors go ahead; whether a packet passed is said one\n\
         clock after its verdict, once its payload is whole.",
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
        "ReceivedPacket of each packet, before it is known whether it passes",
    );
    let passed_out = Stream::master(
        m,
        "m_axis_passed",
        1,
        "of each descriptor, in order: 1 its packet passed, and its payload comes; 0 it is to be forgotten",
    );
    let payload_out = AxiStream::master(m, "m_axis_payload", data_width, 1, "payload of packets that passed");
    let _ = payload_out.user.doc("zero");

    let ring = m.instance("u_ring", ring::payload_ring(context, size));
    payload_in.connect(AxiStream::into_instance(ring, "s_axis"));
    AxiStream::from_instance(ring, "m_axis").connect(payload_out);

    // A packet meets its verdict, and its payload is whole. Of a descriptor that went ahead the length stays here.
    let [ahead, lengths] = split(m, descriptor_in);
    falling_through(m, "u_descriptors", ahead, DESCRIPTORS).connect(descriptor_out);
    let head = buffer(m, "u_lengths", lengths, DESCRIPTORS);
    let length = head.data;
    let has_payload = length.any().named("has_payload");
    let payload_is_there = (!has_payload | ring.output("whole")).named("payload_is_there");
    let wrong = verdict.data.eq_lit(WRONG).named("wrong");

    let offered = m.reg("offered", 1).reset(0).doc("`passed` is valid");
    let passed = m.reg("passed", 1).doc("whether the packet passed");
    let free = (!offered | passed_out.ready).named("free");
    let may_go = (payload_is_there & free).named("may_go");
    head.ready.set(may_go & verdict.valid);
    verdict.ready.set(may_go & head.valid);
    let judged = (may_go & head.valid & verdict.valid).named("judged");
    let passes = (judged & !wrong).named("passes");
    m.when(free, || {
        passed.set(!wrong);
        offered.set(judged);
    });
    passed_out.data.set(passed);
    passed_out.valid.set(offered);
    ring.connect("claim", judged & has_payload)
        .connect("claim_length", length)
        .connect("claim_passes", !wrong);

    count_when(
        m,
        Counter("passed", "packets that passed: ICRC right, or not checked"),
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

/// The descriptors, and their payload lengths: each is taken by both or by none.
fn split<'a>(m: Module<'a>, descriptors: Stream<'a>) -> [Stream<'a>; 2] {
    let length = Fields::unpack::<ReceivedPacket>(descriptors.data).get("payload_length");
    let ahead = Stream::wires(m, "ahead", descriptors.data.width());
    let lengths = Stream::wires(m, "length", length.width());
    ahead.data.set(descriptors.data);
    lengths.data.set(length);
    ahead.valid.set(descriptors.valid & lengths.ready);
    lengths.valid.set(descriptors.valid & ahead.ready);
    descriptors.ready.set(ahead.ready & lengths.ready);
    [ahead, lengths]
}
