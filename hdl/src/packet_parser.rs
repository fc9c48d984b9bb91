//! `packet_parser`: reads the headers of each frame from the MAC and says whose it is; one beat a clock, single-beat frames too.
//!
//! Headers run through a pipeline that never stalls (`window`, `classify`, `judge`); the beats wait beside it in two queues,
//! whose readers (`frame_reader`, `payload_reader`) act on what the pipeline found. It knows no queue pair, never judges the ICRC, and
//! never changes a frame of the host. Theory of operation: `docs/src/blocks/packet_parser.md`.

mod classify;
mod frame_reader;
mod judge;
mod lanes;
mod opcode_table;
mod payload_reader;
mod queue;
mod window;

use crate::counter::{Counter, count_when};
use queue::Queue;
use spraynic_config::descriptor::{Descriptor, ReceivedPacket};
use spraynic_config::{BTH_BYTES, ETHERNET_BYTES, IPV4_BYTES, IPV6_BYTES, NicConfig, Profile, UDP_BYTES, VLAN_BYTES};
use spraynic_rtl::{AxiStream, Context, Definition, Module, Signal, Stream, cat_lsb_first, index_width};
use spraynic_wire::opcode::OPCODES;
use spraynic_wire::{Opcode, OpcodeInfo};
use thiserror::Error;

/// Name of the block.
pub const NAME: &str = "packet_parser";

/// Bytes of the longest extension headers.
const EXTENSION_BYTES: u32 = spraynic_config::descriptor::EXTENSION_BYTES as u32;

/// Descriptors that may wait to be taken, those in the pipeline included.
const DESCRIPTORS: u32 = 16;

/// Bits of a position in a frame: an IP packet ends at most 65,535 bytes behind the longest IP header.
const POSITION_BITS: u32 = 17;

/// What the block is made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketParser {
    /// Width of the streams of frames in bits: 64, 128, 256, 512 or 1024.
    pub data_width: u32,
    /// IPv4 is read; otherwise its frames are the host's.
    pub ipv4: bool,
    /// IPv6 is read; otherwise its frames are the host's.
    pub ipv6: bool,
    /// VLAN tags are read; otherwise frames with a tag are the host's.
    pub vlan: bool,
    /// Opcodes that a profile of the configuration has.
    pub opcodes: Vec<Opcode>,
    /// Largest payload in bytes.
    pub max_payload: u32,
}

/// Why there is no such block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PacketParserError {
    /// Another width.
    #[error("packet_parser: data width {0} bits, should be 64, 128, 256, 512 or 1024")]
    DataWidth(u32),
    /// No kind of packet.
    #[error("packet_parser: neither IPv4 nor IPv6, should be at least one of them")]
    NoIp,
    /// Payload that no descriptor can tell.
    #[error("packet_parser: payload of up to {0} bytes, should be 1 to 4096")]
    MaxPayload(u32),
}

impl From<&NicConfig> for PacketParser {
    fn from(config: &NicConfig) -> Self {
        let has = |info: &OpcodeInfo| {
            [
                (Profile::Roce, spraynic_wire::Profile::Roce),
                (Profile::Solar, spraynic_wire::Profile::Solar),
                (Profile::Mrc, spraynic_wire::Profile::Mrc),
            ]
            .iter()
            .any(|(profile, wire)| config.has_profile(*profile) && info.is_in(*wire))
        };
        Self {
            data_width: config.datapath.width_bits,
            ipv4: config.wire.ipv4,
            ipv6: config.wire.ipv6,
            vlan: config.wire.vlan,
            opcodes: OPCODES
                .iter()
                .filter(|info| has(info))
                .map(|info| info.opcode)
                .collect(),
            max_payload: config.wire.max_mtu,
        }
    }
}

/// The lower headers of a packet: how many tags, which network header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    tags: u32,
    ipv6: bool,
}

impl Layout {
    /// First byte of the IP header.
    fn network(self) -> u32 {
        ETHERNET_BYTES + VLAN_BYTES * self.tags
    }

    /// First byte of the UDP header.
    fn udp(self) -> u32 {
        self.network() + if self.ipv6 { IPV6_BYTES } else { IPV4_BYTES }
    }

    /// First byte behind the BTH.
    fn bth_end(self) -> u32 {
        self.udp() + UDP_BYTES + BTH_BYTES
    }
}

impl PacketParser {
    /// Clocks from the edge that takes the last beat of a packet to the edges that give the last beat on `m_axis_frame` and its
    /// descriptor, where nothing waits and the packet came without a gap.
    ///
    /// `tags` is the number of its VLAN tags. The descriptor takes [`Self::DESCRIPTOR_LATENCY`] always.
    #[must_use]
    pub fn frame_latency(&self, ipv6: bool, tags: u32) -> u32 {
        let decided = (self.layout(ipv6, tags).bth_end() - 1) / self.beat_bytes();
        decided + 3
    }

    /// Clocks from the edge that takes the last beat of a packet to the edge that gives its descriptor.
    pub const DESCRIPTOR_LATENCY: u32 = 4;

    fn beat_bytes(&self) -> u32 {
        self.data_width / 8
    }

    /// Bits that number the bytes of a beat.
    fn lane_bits(&self) -> u32 {
        self.beat_bytes().trailing_zeros()
    }

    /// Bits that number the beats of a frame as far as it matters.
    fn beat_bits(&self) -> u32 {
        POSITION_BITS - self.lane_bits()
    }

    /// Most tags that are read.
    fn max_tags(&self) -> u32 {
        if self.vlan { 2 } else { 0 }
    }

    fn layout(&self, ipv6: bool, tags: u32) -> Layout {
        Layout { tags, ipv6 }
    }

    /// Bytes of a frame up to the end of the longest headers.
    fn window_bytes(&self) -> u32 {
        self.layout(self.ipv6, self.max_tags()).bth_end() + EXTENSION_BYTES
    }

    /// Beats that may wait until the headers are read, and a few more.
    fn depth(&self) -> u32 {
        if self.data_width == 64 { 32 } else { 16 }
    }

    /// `packet_parser_w512_ipv4_ipv6_vlan`.
    fn module_name(&self) -> String {
        let parts = [(self.ipv4, "_ipv4"), (self.ipv6, "_ipv6"), (self.vlan, "_vlan")];
        let parts: String = parts.into_iter().filter(|(on, _)| *on).map(|(_, part)| part).collect();
        format!("{NAME}_w{}{parts}", self.data_width)
    }

    fn check(&self) -> Result<(), PacketParserError> {
        if ![64, 128, 256, 512, 1024].contains(&self.data_width) {
            return Err(PacketParserError::DataWidth(self.data_width));
        }
        if !self.ipv4 && !self.ipv6 {
            return Err(PacketParserError::NoIp);
        }
        if !(1..=4096).contains(&self.max_payload) {
            return Err(PacketParserError::MaxPayload(self.max_payload));
        }
        Ok(())
    }
}

/// A beat as it waits in a queue.
#[derive(Clone, Copy)]
struct Beat<'a> {
    data: Signal<'a>,
    /// Its last byte.
    lane: Signal<'a>,
    last: Signal<'a>,
}

impl<'a> Beat<'a> {
    fn pack(&self) -> Signal<'a> {
        cat_lsb_first(&[self.data, self.lane, self.last])
    }

    fn unpack(packed: Signal<'a>, parser: &PacketParser) -> Self {
        let (data, lane) = (parser.data_width, parser.lane_bits());
        Self {
            data: packed.part(0, data),
            lane: packed.part(data, lane),
            last: packed.bit(data + lane),
        }
    }
}

/// `packet_parser`.
///
/// Ports: `s_axis`, `trimmed_dscp`, `trimmed_last_hop_dscp`, `m_axis_descriptor`, `m_axis_payload`, `m_axis_frame`, `m_axis_slow_path` and
/// counters, as the page of the block says.
///
/// # Errors
/// [`PacketParserError`] for a width, a choice of packets or a payload that does not exist.
pub fn packet_parser<'a>(context: &'a Context, parser: &PacketParser) -> Result<Definition<'a>, PacketParserError> {
    parser.check()?;
    let width = parser.data_width;
    let m = context.module(&parser.module_name());
    m.doc(
        "Reads Ethernet, VLAN, IP, UDP, BTH and extension headers. A frame goes to the datapath (descriptor, payload and the frame\n\
         itself), to the host, or is dropped and counted by the first reason that applies. Headers run through a\n\
         pipeline that never stalls; the beats wait beside it.",
    );
    let input = AxiStream::slave(m, "s_axis", width, 1, "frames from the MAC");
    let _ = input.user.doc("bad (last beat)");
    let port = |name, doc| m.input(name, 6).doc(doc);
    let trimmed = port(
        "trimmed_dscp",
        "DSCP of trimmed packets, 0: none; read at the first beat of a frame",
    );
    let last_hop = port(
        "trimmed_last_hop_dscp",
        "DSCP of packets that the last hop trimmed, likewise",
    );
    let descriptors = Stream::master(
        m,
        "m_axis_descriptor",
        ReceivedPacket::width(),
        "ReceivedPacket: a packet for the datapath",
    );
    let payload = AxiStream::master(m, "m_axis_payload", width, 1, "payload without padding");
    let _ = payload.user.doc("dropped (last beat): there is no descriptor");
    let frames = AxiStream::master(
        m,
        "m_axis_frame",
        width,
        5,
        "frames up to the end of the IP packet, for icrc",
    );
    let _ = frames
        .user
        .doc("bit 0: dropped (last beat), 1: IPv6, 3:2: VLAN tags, 4: trimmed; bits 4 to 1 constant over a frame");
    let slow_path = AxiStream::master(m, "m_axis_slow_path", width, 1, "frames for the host, as they came");
    let _ = slow_path.user.doc("bad (last beat)");

    let ready = m
        .reg("input_ready", 1)
        .reset(0)
        .doc("there is room for a beat and its descriptor");
    input.ready.set(ready);
    let taken = (input.valid & ready).named("taken");
    let beat = Beat {
        data: input.data,
        lane: lanes::last_lane(input.keep).named("last_lane"),
        last: input.last,
    };

    // Headers.
    let window = window::window(m, parser, &input, beat.lane, taken, [trimmed, last_hop]);
    let classified = classify::classify(m, parser, &window);
    let judged = judge::judge(m, parser, &classified);

    // Beats, and what is known of their frames, for two readers.
    let frame_pop = frame_reader::frame_reader(
        m,
        parser,
        frame_reader::Sources {
            beats: Queue::new(m, "frame_beats", parser.depth(), taken, beat.pack()),
            routes: Queue::new(
                m,
                "frame_routes",
                parser.depth(),
                classified.decided,
                classified.route.pack(),
            ),
            ends: Queue::falling_through(m, "frame_ends", parser.depth(), judged.ended, judged.dropped),
        },
        frames,
    );
    let payload_pop = payload_reader::payload_reader(
        m,
        parser,
        payload_reader::Sources {
            beats: Queue::new(m, "payload_beats", parser.depth(), taken, beat.pack()),
            slow_path: Queue::new(
                m,
                "payload_routes",
                parser.depth(),
                classified.decided,
                classified.route.slow_path,
            ),
            places: Queue::new(m, "payload_places", parser.depth(), judged.placed, judged.place.pack()),
            ends: Queue::new(m, "payload_ends", parser.depth(), judged.ended, judged.dropped),
        },
        payload,
        slow_path,
    );

    // Descriptors.
    let queue = Queue::written_early(
        m,
        "descriptors",
        DESCRIPTORS,
        (judged.ended, judged.accepted),
        judged.descriptor,
    );
    let out_valid = m.reg("descriptor_valid", 1).reset(0);
    let out = m.reg("descriptor", ReceivedPacket::width());
    let load = (!out_valid | descriptors.ready).named("descriptor_load");
    let descriptor_pop = (load & queue.valid).named("descriptor_pop");
    queue.pop.set(descriptor_pop);
    m.when(load, || {
        out_valid.set(queue.valid);
        out.set(judge::clear_behind_extension(queue.head));
    });
    descriptors.data.set(out);
    descriptors.valid.set(out_valid);

    // Room: each queue of beats, and a place for the descriptor of each frame whose end was taken.
    // What leaves late in a clock is counted in the next one.
    let left = |name: &str, pop: Signal<'a>| {
        let left = m.reg(name, 1).reset(0);
        left.set(pop);
        left
    };
    let (frame_left, payload_left) = (left("frame_left", frame_pop), left("payload_left", payload_pop));
    let frame_room = room(m, "frame_beats", parser.depth(), taken, frame_left, m.low());
    let payload_room = room(m, "payload_beats", parser.depth(), taken, payload_left, m.low());
    let descriptor_room = room(
        m,
        "descriptors",
        DESCRIPTORS,
        taken & input.last,
        descriptor_pop,
        judged.refused,
    );
    ready.set(frame_room & payload_room & descriptor_room);

    for (counter, event) in judged.counters {
        count_when(m, counter, event);
    }
    Ok(m.finish())
}

/// Whether there is room in the next clock, whatever happens in this one: one more is `taken`, and up to two leave.
fn room<'a>(
    m: Module<'a>,
    what: &str,
    depth: u32,
    taken: Signal<'a>,
    leaves: Signal<'a>,
    leaves_too: Signal<'a>,
) -> Signal<'a> {
    let width = index_width(u64::from(depth) + 1);
    let inside = m
        .reg(&format!("{what}_inside"), width)
        .reset(0)
        .doc("those taken that have not left");
    let leaving = leaves.zero_extend(width) + leaves_too.zero_extend(width);
    inside.set(inside + taken.zero_extend(width) - leaving);
    m.assert(&format!("{what}_fit"), inside.le(inside.lit(depth)));
    !lanes::at_least(inside, depth - 1)
}

/// Counters, in the order of the table of the block's page.
fn counter(name: &'static str, doc: &'static str) -> Counter {
    Counter(name, doc)
}

#[cfg(test)]
#[path = "packet_parser/tests.rs"]
mod tests;
