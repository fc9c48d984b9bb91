//! From captured frames back to what makes a NIC send them: contexts, templates, work requests, descriptors, payload.
//!
//! One [`Replay`] for each sender. Requests are found by PSN arithmetic and opcodes alone, never by asking the model
//! what it would send, so that replaying them is a test of the model. A packet that was captured again is a
//! retransmission, which no work request makes: it becomes a descriptor, as do acknowledgements and responses.
//! Requests of the roce profile only; it reads no files.

use std::collections::BTreeMap;

use spraynic_config::descriptor::{EXTENSION_BYTES, WorkRequest};
use spraynic_config::descriptor::{Extension, HeaderTemplate, PacketDescriptor, PayloadRequest, SliceContext};
use spraynic_wire::{Ip, MacAddress, Opcode, Packet, ParseError, icrc};
use thiserror::Error;

use crate::capture_messages::{Message, messages};
use crate::header_builder::{ETHERNET_BYTES, IPV4_BYTES};
use crate::transmit_pipeline::Memory;

/// Local buffers of the messages begin at multiples of this.
const BUFFER_ALIGNMENT: u64 = 4096;

/// A frame that cannot be sent again by this NIC.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("frame {index}: {problem}")]
pub struct ReplayError {
    /// Index of the frame, from 0.
    pub index: usize,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What keeps a frame from being sent again.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// It is not a RoCEv2 packet that parses.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// It is shorter than an Ethernet header.
    #[error("{0} bytes are no Ethernet frame: 14 at least")]
    NoEthernet(usize),
    /// `header_builder` cannot give it.
    #[error("{0}: this NIC does not send that")]
    NotSent(&'static str),
}

/// What is given to the NIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A context write, where messages between two requests were not captured.
    Context(SliceContext),
    /// A work request.
    Request(WorkRequest),
    /// A descriptor of `s_axis_response`: a READ response, or a request packet that was sent again.
    Response(PacketDescriptor),
    /// A descriptor of `s_axis_control`: an acknowledgement.
    Control(PacketDescriptor),
    /// A frame of `s_axis_slow_path`: not RoCEv2.
    SlowPath(Vec<u8>),
}

/// A captured frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// Index in the capture, from 0.
    pub index: usize,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// An action and the frames that must come of it, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What is given to the NIC.
    pub action: Action,
    /// What comes out; `None` for a frame that the capture does not have.
    pub frames: Vec<Option<Captured>>,
}

/// Payload by local address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CaptureMemory {
    buffers: BTreeMap<u64, Vec<u8>>,
    next: u64,
}

impl CaptureMemory {
    fn add(&mut self, payload: Vec<u8>) -> u64 {
        let address = self.next;
        self.next += (payload.len() as u64 + 1).next_multiple_of(BUFFER_ALIGNMENT);
        self.buffers.insert(address, payload);
        address
    }

    /// The buffers, by address: to fill another memory.
    pub fn buffers(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.buffers.iter().map(|(address, bytes)| (*address, bytes.as_slice()))
    }
}

impl Memory for CaptureMemory {
    fn read(&mut self, request: &PayloadRequest) -> Vec<u8> {
        let Some((base, buffer)) = self.buffers.range(..=request.address).next_back() else {
            return Vec::new();
        };
        let from = usize::try_from(request.address - base).map_or(buffer.len(), |at| at.min(buffer.len()));
        let to = (from + usize::from(request.length)).min(buffer.len());
        buffer[from..to].to_vec()
    }
}

/// What makes one NIC send the frames that one sender sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// Ethernet address of the sender.
    pub sender: MacAddress,
    /// Slicing contexts, one a queue pair that sent requests. QPNs count from 0 in the order of the capture.
    pub contexts: Vec<SliceContext>,
    /// Header templates, one a queue pair.
    pub templates: Vec<HeaderTemplate>,
    /// What to give, in order.
    pub steps: Vec<Step>,
    /// Payload of requests and responses.
    pub memory: CaptureMemory,
    /// IPv4 identification of the first frame, if it is IPv4.
    pub identification: Option<u16>,
}

/// The replays of all senders of a capture, in the order in which they first send.
///
/// # Errors
/// [`ReplayError`] for the first frame that this NIC cannot send.
pub fn replays(frames: &[Vec<u8>]) -> Result<Vec<Replay>, ReplayError> {
    let mut senders: Vec<(MacAddress, Vec<usize>)> = Vec::new();
    let mut packets = Vec::with_capacity(frames.len());
    for (index, frame) in frames.iter().enumerate() {
        let fail = |problem| ReplayError { index, problem };
        let sender = sender_of(frame).ok_or_else(|| fail(Problem::NoEthernet(frame.len())))?;
        packets.push(parse(frame).map_err(fail)?);
        match senders.iter_mut().find(|(mac, _)| *mac == sender) {
            Some((_, sent)) => sent.push(index),
            None => senders.push((sender, vec![index])),
        }
    }
    let mtu = packets
        .iter()
        .flatten()
        .map(|packet| packet.payload.len())
        .max()
        .unwrap_or(0);
    Ok(senders
        .into_iter()
        .map(|(sender, sent)| Builder::new(frames, &packets, mtu).replay(sender, &sent))
        .collect())
}

fn sender_of(frame: &[u8]) -> Option<MacAddress> {
    let bytes = frame.get(..ETHERNET_BYTES)?.get(6..12)?;
    bytes.try_into().ok().map(MacAddress)
}

/// `None` for what is not RoCEv2.
fn parse(frame: &[u8]) -> Result<Option<Packet>, Problem> {
    let packet = match Packet::parse(frame, None) {
        Ok(packet) => packet,
        Err(ParseError::NotIp(_) | ParseError::NotUdp(_) | ParseError::NotRoce(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let bth = &packet.bth;
    let not_sent = [
        (packet.udp_checksum != 0, "a UDP checksum"),
        (!packet.trailer.is_empty(), "bytes behind the IP packet"),
        (packet.ethernet.vlans.len() > 1, "two VLAN tags"),
        (
            packet.ethernet.vlans.iter().any(|tag| tag.tpid != 0x8100),
            "a service VLAN tag",
        ),
        (packet.pad != [0; 3], "padding that is not zero"),
        (
            bth.fecn || bth.reserved_congestion != 0,
            "BTH byte 4 with more than BECN",
        ),
        (
            bth.reserved_path || bth.reserved_ack != 0,
            "reserved bits of BTH byte 8",
        ),
        (matches!(packet.ip, Ip::V4(ip) if !ip.dont_fragment), "IPv4 without DF"),
    ];
    match not_sent.into_iter().find(|(found, _)| *found) {
        Some((_, what)) => Err(Problem::NotSent(what)),
        None => Ok(Some(packet)),
    }
}

/// One queue pair of a sender: what its packets share.
struct Flow {
    template: HeaderTemplate,
    requests: Vec<usize>,
}

struct Builder<'a> {
    frames: &'a [Vec<u8>],
    packets: &'a [Option<Packet>],
    /// Longest payload of the capture: decides the MTU of a flow that shows none itself.
    mtu: usize,
    flows: Vec<Flow>,
    memory: CaptureMemory,
    contexts: Vec<SliceContext>,
}

impl<'a> Builder<'a> {
    fn new(frames: &'a [Vec<u8>], packets: &'a [Option<Packet>], mtu: usize) -> Self {
        Self {
            frames,
            packets,
            mtu,
            flows: Vec::new(),
            memory: CaptureMemory::default(),
            contexts: Vec::new(),
        }
    }

    fn replay(mut self, sender: MacAddress, sent: &[usize]) -> Replay {
        let flow_of: BTreeMap<usize, usize> = sent
            .iter()
            .filter_map(|&index| Some((index, self.flow(index, self.packets[index].as_ref()?))))
            .collect();
        // Steps by the index of the first frame that they give.
        let mut steps: BTreeMap<usize, Vec<Step>> = BTreeMap::new();
        let mut given = vec![false; self.frames.len()];
        for flow in 0..self.flows.len() {
            for (index, made) in self.requests(flow) {
                let captured = made.iter().flat_map(|step| step.frames.iter().flatten());
                captured.for_each(|captured| given[captured.index] = true);
                steps.insert(index, made);
            }
        }
        for &index in sent.iter().filter(|&&index| !given[index]) {
            let step = self.single(index, flow_of.get(&index).copied());
            steps.entry(index).or_default().push(step);
        }
        let steps: Vec<Step> = steps.into_values().flatten().collect();
        let identification = steps
            .iter()
            .flat_map(|step| step.frames.iter().flatten())
            .find(|captured| self.packets[captured.index].is_some())
            .and_then(|captured| identification(&captured.bytes));
        Replay {
            sender,
            contexts: self.contexts,
            templates: self.flows.iter().map(|flow| flow.template).collect(),
            steps,
            memory: self.memory,
            identification,
        }
    }

    /// The flow of a packet, by all that its template holds.
    fn flow(&mut self, index: usize, packet: &Packet) -> usize {
        let template = template_of(packet);
        let same = |flow: &Flow| {
            HeaderTemplate {
                qpn: 0,
                ..flow.template
            } == template
        };
        let flow = self.flows.iter().position(same).unwrap_or_else(|| {
            let qpn = self.flows.len() as u32;
            self.flows.push(Flow {
                template: HeaderTemplate { qpn, ..template },
                requests: Vec::new(),
            });
            self.flows.len() - 1
        });
        if packet.info().is_some_and(|info| info.operation.is_request()) && packet.bth.opcode.0 < 0x20 {
            self.flows[flow].requests.push(index);
        }
        flow
    }

    /// The steps of a flow's messages, by the index of their first frame.
    fn requests(&mut self, flow: usize) -> Vec<(usize, Vec<Step>)> {
        let sent: Vec<(usize, &Packet)> = self.flows[flow]
            .requests
            .iter()
            .filter_map(|&index| Some((index, self.packets[index].as_ref()?)))
            .collect();
        let mut steps = Vec::new();
        let mut context: Option<SliceContext> = None;
        for message in messages(&sent, self.mtu) {
            let Message {
                first_packet, mtu, psn, ..
            } = message;
            let packet = sent
                .iter()
                .find(|(index, _)| *index == first_packet)
                .map(|(_, packet)| packet);
            let Some(packet) = packet else { continue };
            let mut made = Vec::new();
            let next = SliceContext {
                qpn: flow as u32,
                open: true,
                mtu,
                entropy: u32::from(packet.udp_source_port),
                psn,
                ..SliceContext::default()
            };
            match context {
                None => self.contexts.push(next),
                Some(held) if held != next => made.push(Step {
                    action: Action::Context(next),
                    frames: Vec::new(),
                }),
                Some(_) => {}
            }
            context = Some(SliceContext {
                psn: (psn + message.psns) & 0xFF_FFFF,
                ..next
            });
            let captured = |index: &Option<usize>| {
                index.map(|index| Captured {
                    index,
                    bytes: self.frames[index].clone(),
                })
            };
            let frames = message.packets.iter().map(captured).collect();
            let local_address = self.memory.add(message.payload);
            made.push(Step {
                action: Action::Request(WorkRequest {
                    qpn: flow as u32,
                    local_address,
                    local_key: flow as u32,
                    ..message.request
                }),
                frames,
            });
            steps.push((
                message.packets.iter().flatten().copied().min().unwrap_or(first_packet),
                made,
            ));
        }
        steps
    }

    /// The step of a frame that no work request makes.
    fn single(&mut self, index: usize, flow: Option<usize>) -> Step {
        let bytes = self.frames[index].clone();
        let action = match (&self.packets[index], flow) {
            (Some(packet), Some(flow)) => {
                let mut descriptor = descriptor_of(packet, flow as u32);
                let sliced = packet
                    .info()
                    .is_some_and(|info| info.operation.is_request() || info.has_payload);
                if packet.payload.is_empty() {
                    descriptor.payload_length = 0;
                } else {
                    descriptor.local_address = self.memory.add(packet.payload.clone());
                }
                if sliced {
                    Action::Response(descriptor)
                } else {
                    Action::Control(descriptor)
                }
            }
            _ => Action::SlowPath(bytes.clone()),
        };
        Step {
            action,
            frames: vec![Some(Captured { index, bytes })],
        }
    }
}

fn template_of(packet: &Packet) -> HeaderTemplate {
    let mac = |mac: MacAddress| mac.0.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let tag = packet.ethernet.vlans.first();
    let template = HeaderTemplate {
        vlan: tag.is_some(),
        vlan_tci: tag.map_or(0, |tag| tag.tci),
        migration: packet.bth.migration,
        destination_mac: mac(packet.ethernet.destination),
        source_mac: mac(packet.ethernet.source),
        partition_key: packet.bth.partition_key,
        destination_qpn: packet.bth.destination_qpn,
        ..HeaderTemplate::default()
    };
    match &packet.ip {
        Ip::V4(ip) => HeaderTemplate {
            traffic_class: ip.tos,
            hop_limit: ip.ttl,
            source_ip: u32::from(ip.source).into(),
            destination_ip: u32::from(ip.destination).into(),
            ..template
        },
        Ip::V6(ip) => HeaderTemplate {
            ipv6: true,
            traffic_class: ip.traffic_class,
            hop_limit: ip.hop_limit,
            flow_label: ip.flow_label,
            source_ip: ip.source.into(),
            destination_ip: ip.destination.into(),
            ..template
        },
    }
}

fn descriptor_of(packet: &Packet, qpn: u32) -> PacketDescriptor {
    let mut extension = Extension::default();
    let mut length = 0;
    for header in &packet.extensions {
        let bytes = header.kind().length();
        // The longest combination of any opcode fits: wire's table is bounded by EXTENSION_BYTES.
        if length + bytes <= EXTENSION_BYTES {
            header.emit(&mut extension.0[length..length + bytes]);
            length += bytes;
        }
    }
    PacketDescriptor {
        qpn,
        opcode: packet.bth.opcode.0,
        psn: packet.bth.psn.value(),
        solicited: packet.bth.solicited,
        ack_request: packet.bth.ack_request,
        retransmission: packet.bth.retransmission,
        timestamped: packet.bth.timestamped,
        mrc: packet.bth.opcode.bit_order() == spraynic_wire::BitOrder::Mrc,
        becn: packet.bth.becn,
        extension_words: (length / 4) as u8,
        entropy: u32::from(packet.udp_source_port),
        payload_length: packet.payload.len() as u16,
        extension,
        ..PacketDescriptor::default()
    }
}

/// Whether a frame's opcode asks for something, by a work request or again.
#[must_use]
pub fn is_request(frame: &[u8]) -> bool {
    let info = Packet::parse(frame, None)
        .ok()
        .and_then(|packet| Opcode(packet.bth.opcode.0).info());
    info.is_some_and(|info| info.operation.is_request())
}

/// Offset of the IPv4 header of a frame, if it has one.
fn ipv4_offset(frame: &[u8]) -> Option<usize> {
    let offset = if frame.get(12..14)? == [0x81, 0x00] {
        18
    } else {
        ETHERNET_BYTES
    };
    let ether_type = frame.get(offset - 2..offset)?;
    (ether_type == [0x08, 0x00] && frame.len() >= offset + IPV4_BYTES).then_some(offset)
}

/// IPv4 identification of a frame.
#[must_use]
pub fn identification(frame: &[u8]) -> Option<u16> {
    let at = ipv4_offset(frame)? + 4;
    Some(u16::from_be_bytes([frame[at], frame[at + 1]]))
}

/// The same frame with another IPv4 identification: header checksum and ICRC follow. What has none stays as it is.
#[must_use]
pub fn renumber(frame: &[u8], identification: u16) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if let Some(ip) = ipv4_offset(&frame) {
        frame[ip + 4..ip + 6].copy_from_slice(&identification.to_be_bytes());
        let mut header = [0; IPV4_BYTES];
        header.copy_from_slice(&frame[ip..ip + IPV4_BYTES]);
        let checksum = spraynic_wire::network::ipv4_checksum(&header);
        frame[ip + 10..ip + 12].copy_from_slice(&checksum.to_be_bytes());
        // A frame that is no RoCEv2 packet has no ICRC to follow.
        let _ = icrc::insert(&mut frame);
    }
    frame
}
