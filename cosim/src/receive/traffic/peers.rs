//! The peers: they turn messages into frames, and say what must come of each.

use spraynic_config::descriptor::{
    Extension, HeaderTemplate, MemoryRegion, PacketDescriptor, PayloadRequest, PayloadWrite, QueuePairContext,
    QueuePairState, ReceiveRequest, SliceContext, WorkOpcode, WorkRequest,
};
use spraynic_config::{NicConfig, Profile};
use spraynic_golden::response_engine::{self, ResponseEngine};
use spraynic_golden::transmit_pipeline::{Config, Memory, TransmitPipeline};
use spraynic_wire::{BitOrder, Opcode};

use super::expected::{Closed, Expected};
use super::network::Sent;
use super::{
    BASE, COMMON, Closing, FIRST_FLEETING, GUARD, Kind, LOCAL_IP, Message, OWN, PEER_IP, UNTOUCHED, key_of, profile_of,
    region,
};
use crate::stream::Random;

/// Generations of the own region of the closed queue pair, before and behind.
const GENERATION: u8 = 7;
const RENEWED: u8 = 8;
/// PSNs from the first one before a queue pair is closed to the first one behind: more than all messages before have.
const REOPENED_FURTHER: u32 = 20_000;

/// When a message belongs to a queue pair that is closed: before that, or to the time that lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    Before,
    Last,
}

/// A receive request, with the era where the queue pair is closed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Posted {
    pub(super) request: ReceiveRequest,
    pub(super) era: Option<Era>,
}

/// What the peers send, and what the host writes for it.
pub(super) struct Finished {
    pub(super) contexts: Vec<QueuePairContext>,
    /// The region of all, that of the closed queue pair, and those that are invalidated.
    pub(super) regions: Vec<MemoryRegion>,
    pub(super) requests: Vec<Posted>,
    pub(super) expected: Expected,
    /// Of the closed queue pair: what was sent before.
    pub(super) before: Vec<Option<Vec<Sent>>>,
    pub(super) last: Vec<Vec<Sent>>,
}

/// The context with which a closed queue pair is opened again.
pub(super) fn reopened(context: &QueuePairContext) -> QueuePairContext {
    QueuePairContext {
        psn: context.psn.wrapping_add(REOPENED_FURTHER) & 0xFF_FFFF,
        response_psn: context.response_psn.wrapping_add(REOPENED_FURTHER) & 0xFF_FFFF,
        sent_response_psn: context.sent_response_psn.wrapping_add(REOPENED_FURTHER) & 0xFF_FFFF,
        ..*context
    }
}

/// The region of the closed queue pair, when it is opened again.
pub(super) fn renewed(region: &MemoryRegion) -> MemoryRegion {
    MemoryRegion {
        generation: RENEWED,
        ..*region
    }
}

/// Payload at a local address of the peers.
struct PeerMemory;

fn payload_byte(address: u64) -> u8 {
    (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

fn payload(address: u64, length: u32) -> Vec<u8> {
    (0..u64::from(length))
        .map(|offset| payload_byte(address + offset))
        .collect()
}

impl Memory for PeerMemory {
    fn read(&mut self, request: &PayloadRequest) -> Vec<u8> {
        payload(request.address, request.length.into())
    }
}

struct Peer {
    transmit: TransmitPipeline,
    responses: ResponseEngine,
    /// Where atomics work, and what stands there.
    cell: u64,
    value: u64,
}

/// Peers whose messages are being made.
pub(super) struct Peers<'a> {
    config: &'a NicConfig,
    closing: Option<Closing>,
    peers: Vec<Peer>,
    contexts: Vec<QueuePairContext>,
    fleeting: Vec<MemoryRegion>,
    requests: Vec<Posted>,
    expected: Expected,
    before: Option<Vec<Sent>>,
}

impl<'a> Peers<'a> {
    pub(super) fn new(config: &'a NicConfig, queue_pairs: u32, closing: Option<Closing>, random: &mut Random) -> Self {
        let mut peers = Self {
            config,
            closing,
            peers: Vec::new(),
            contexts: Vec::new(),
            fleeting: Vec::new(),
            requests: Vec::new(),
            expected: Expected {
                closed: closing.map(|closing| Closed {
                    qpn: closing.qpn,
                    error: closing.error,
                    refused: closing.refused,
                    ..Closed::default()
                }),
                ..Expected::default()
            },
            before: None,
        };
        for qpn in 0..queue_pairs {
            peers.open(qpn, random.next());
        }
        peers
    }

    fn open(&mut self, qpn: u32, chance: u64) {
        let mtu = 1 + (chance % u64::from(self.config.max_mtu_code())) as u8;
        // Half of the queue pairs begin just before the wrap.
        let psn = if chance & 0x100 == 0 {
            0xFF_FFF0
        } else {
            (chance >> 16) as u32 & 0xFF_FFFF
        };
        let response_psn = psn ^ 0x80_0007;
        let context = QueuePairContext {
            qpn,
            state: QueuePairState::ReadyToSend as u8,
            profile: profile_of(self.config, qpn).code(),
            mtu,
            remote_write: true,
            remote_read: true,
            remote_atomic: true,
            ipv6: self.config.wire.ipv6 && chance & 0x200 != 0,
            partition_key: 0xFFFF,
            rnr_timer: 1,
            psn,
            response_psn,
            sent_response_psn: response_psn,
            peer_qpn: 0xAB_0000 | qpn,
            peer_ip: PEER_IP,
            local_ip: LOCAL_IP,
            ..QueuePairContext::default()
        };
        let mut transmit = TransmitPipeline::new(Config::from(self.config));
        transmit.write_template(&HeaderTemplate {
            qpn,
            ipv6: context.ipv6,
            vlan: self.config.wire.vlan && chance & 0x800 != 0,
            traffic_class: 2,
            hop_limit: 64,
            source_ip: PEER_IP,
            destination_ip: LOCAL_IP,
            partition_key: 0xFFFF,
            destination_qpn: qpn,
            ..HeaderTemplate::default()
        });
        let cell = self.place(8, 0);
        let mut peer = Peer {
            transmit,
            responses: ResponseEngine::new(response_engine::Config::from(self.config)),
            cell,
            value: u64::from_le_bytes([UNTOUCHED; 8]),
        };
        peer.begin(&context, chance & 0x400 != 0, (chance >> 40) as u32);
        self.peers.push(peer);
        self.contexts.push(context);
    }

    /// Room for a buffer, `offset` bytes behind a multiple of 128.
    fn place(&mut self, length: u32, offset: u32) -> u64 {
        let start = self.expected.end.next_multiple_of(128) + u64::from(offset % 128);
        self.expected.end = start + u64::from(length) + GUARD;
        start
    }

    /// The closed queue pair is opened again: what it has sent so far was before.
    fn reopen(&mut self, qpn: u32) {
        let peer = &mut self.peers[qpn as usize];
        if self.closing.is_some_and(|closing| closing.refused) {
            // A WRITE by a key that there is not.
            peer.request(&WorkRequest {
                opcode: WorkOpcode::Write as u8,
                segments: 1,
                qpn,
                length: 40,
                remote_key: key_of(&region(OWN, GENERATION ^ 0x80)),
                remote_address: BASE,
                ..WorkRequest::default()
            });
        }
        self.before = Some(peer.frames());
        peer.begin(&reopened(&self.contexts[qpn as usize]), false, 0x5_1234);
    }

    /// Makes a message. Those of the time before come first.
    pub(super) fn message(&mut self, message: &Message, era: Era) {
        let qpn = message.qpn % self.peers.len() as u32;
        let is_closed = self.closing.is_some_and(|closing| closing.qpn == qpn);
        if is_closed && era == Era::Last && self.before.is_none() {
            self.reopen(qpn);
        }
        let profile = profile_of(self.config, qpn);
        let kind = self.kind_of(message, profile, qpn, era);
        let local_address = self.expected.end ^ u64::from(qpn) << 32;
        let own = region(OWN, if era == Era::Before { GENERATION } else { RENEWED });
        let key = key_of(&if is_closed { own } else { region(COMMON, GENERATION) });
        let length = message.length;
        let mut request = WorkRequest {
            segments: 1,
            qpn,
            length,
            local_address,
            remote_key: key,
            ..WorkRequest::default()
        };
        request.immediate = length;
        let (opcode, remote) = match kind {
            Kind::Send | Kind::SendImmediate | Kind::SendInvalidate => {
                let start = self.place(length, message.offset);
                self.writes(start, payload(local_address, length), era);
                self.post(qpn, start, length, era);
                if kind == Kind::SendInvalidate {
                    request.immediate = self.fleeting_key();
                    (WorkOpcode::SendInvalidate, 0)
                } else {
                    (WorkOpcode::Send, 0)
                }
            }
            Kind::Write | Kind::WriteImmediate => {
                let start = self.place(length, message.offset);
                self.writes(start, payload(local_address, length), era);
                if kind == Kind::WriteImmediate {
                    self.post(qpn, 0, 0, era);
                }
                (WorkOpcode::Write, start)
            }
            Kind::Read => {
                *self.expected.executed.entry(qpn).or_default() += 1;
                (WorkOpcode::Read, self.place(length, message.offset))
            }
            Kind::FetchAdd | Kind::CompareSwap => {
                *self.expected.executed.entry(qpn).or_default() += 1;
                request.length = 8;
                let peer = &mut self.peers[qpn as usize];
                request.swap_add = (u64::from(length) << 20) + u64::from(message.offset) + 1;
                if kind == Kind::FetchAdd {
                    peer.value = peer.value.wrapping_add(request.swap_add);
                    (WorkOpcode::FetchAdd, peer.cell)
                } else {
                    request.compare = peer.value ^ u64::from(message.offset & 1);
                    if request.compare == peer.value {
                        peer.value = request.swap_add;
                    }
                    (WorkOpcode::CompareSwap, peer.cell)
                }
            }
            Kind::Response => {
                if profile == Profile::Solar {
                    let bytes = payload(local_address, length);
                    self.expected.responses.entry(qpn).or_default().extend(bytes);
                }
                return self.peers[qpn as usize].answer_read(&self.contexts[qpn as usize], local_address, length);
            }
            Kind::Host => return self.peers[qpn as usize].host_frame(length),
            Kind::Probe | Kind::Acknowledge | Kind::Endpoint => {
                return self.peers[qpn as usize].control(qpn, profile, kind, length);
            }
        };
        request.opcode = opcode as u8;
        request.remote_address = BASE + remote;
        request.inline_immediate = matches!(kind, Kind::SendImmediate | Kind::WriteImmediate);
        self.peers[qpn as usize].request(&request);
    }

    /// What a message does, where the queue pair can do it.
    fn kind_of(&self, message: &Message, profile: Profile, qpn: u32, era: Era) -> Kind {
        let kind = message.kind.in_profile(profile);
        let posted = self.requests.iter().filter(|posted| posted.request.qpn == qpn);
        let posted = posted.filter(|posted| posted.era.is_none_or(|of| of == era)).count();
        // Only as many receive requests as the queue pair holds.
        let full = posted == self.config.receive.receive_requests as usize;
        let room_for_key = FIRST_FLEETING + (self.fleeting.len() as u32) < self.config.receive.memory_regions;
        match kind {
            _ if full && kind.takes_receive_request() => Kind::Write,
            Kind::SendInvalidate if !room_for_key || era == Era::Before => Kind::Send,
            // Whether they were executed before the queue pair was closed is a matter of time; so is how far the requester's side came.
            Kind::Read | Kind::FetchAdd | Kind::CompareSwap | Kind::Response if era == Era::Before => Kind::Write,
            Kind::Endpoint if qpn != ENDPOINT_QPN => Kind::Write,
            kind => kind,
        }
    }

    fn writes(&mut self, start: u64, bytes: Vec<u8>, era: Era) {
        if let Some(closed) = &mut self.expected.closed
            && era == Era::Before
        {
            closed.loose.push((start, bytes.len()));
        }
        self.expected.written.push((start, bytes));
    }

    fn post(&mut self, qpn: u32, address: u64, length: u32, era: Era) {
        let cookie = self.requests.len() as u64;
        let is_closed = self.closing.is_some_and(|closing| closing.qpn == qpn);
        self.requests.push(Posted {
            request: ReceiveRequest {
                qpn,
                length,
                address,
                cookie,
                ..ReceiveRequest::default()
            },
            era: is_closed.then_some(era),
        });
        match &mut self.expected.closed {
            Some(closed) if era == Era::Before => closed.posted.push(cookie),
            _ => self.expected.completions.entry(qpn).or_default().push(cookie),
        }
    }

    /// A key that the message invalidates.
    fn fleeting_key(&mut self) -> u32 {
        let region = region(FIRST_FLEETING + self.fleeting.len() as u32, 0x40);
        self.fleeting.push(region);
        self.expected.invalidated += 1;
        key_of(&region)
    }

    pub(super) fn finish(mut self) -> Finished {
        if let Some(closing) = self.closing
            && self.before.is_none()
        {
            self.reopen(closing.qpn);
        }
        let mut regions = vec![region(COMMON, GENERATION), region(OWN, GENERATION)];
        regions.extend(self.fleeting);
        for region in &mut regions {
            region.length = self.expected.end;
        }
        for peer in &self.peers {
            self.expected
                .written
                .push((peer.cell, peer.value.to_le_bytes().to_vec()));
        }
        let mut before: Vec<Option<Vec<Sent>>> = self.peers.iter().map(|_| None).collect();
        if let Some(closing) = self.closing {
            before[closing.qpn as usize] = self.before;
        }
        Finished {
            contexts: self.contexts,
            regions,
            requests: self.requests,
            expected: self.expected,
            before,
            last: self.peers.iter_mut().map(Peer::frames).collect(),
        }
    }
}

/// Queue pair number that endpoint operations go to.
const ENDPOINT_QPN: u32 = spraynic_wire::mrc::ENDPOINT_QPN;

impl Peer {
    /// Begins with these numbers.
    fn begin(&mut self, context: &QueuePairContext, timestamps: bool, entropy: u32) {
        self.transmit.write_context(&SliceContext {
            qpn: context.qpn,
            open: true,
            profile: context.profile,
            mtu: context.mtu,
            timestamps,
            entropy,
            psn: context.psn,
            ..SliceContext::default()
        });
        // The peer's answers are the responses that come: it begins anew with their first PSN.
        for state in [QueuePairState::Reset, QueuePairState::ReadyToSend] {
            self.responses.write_context(&QueuePairContext {
                state: state as u8,
                sent_response_psn: context.response_psn,
                ..*context
            });
        }
    }

    /// All frames that it sends, in order.
    fn frames(&mut self) -> Vec<Sent> {
        let frames = std::iter::from_fn(|| self.transmit.transmit(&mut PeerMemory, 0));
        frames.map(|(_, frame)| Sent::new(frame)).collect()
    }

    fn request(&mut self, request: &WorkRequest) {
        self.transmit
            .request(request)
            .unwrap_or_else(|reason| panic!("a right work request: {reason}"));
    }

    /// Answers a READ of this side.
    fn answer_read(&mut self, context: &QueuePairContext, address: u64, length: u32) {
        let read = PayloadWrite {
            qpn: context.qpn,
            opcode: Opcode::READ_REQUEST.0,
            execute: true,
            profile: context.profile,
            mtu: context.mtu,
            psn: length & 0xFF_FFFF,
            byte_count: length,
            address,
            ..PayloadWrite::default()
        };
        let given = self.responses.take(&read, &mut Vec::new());
        for packet in given.packets {
            self.transmit.response(packet);
        }
    }

    /// A frame that is no RoCE packet: of an Ethernet type that nobody has.
    fn host_frame(&mut self, chance: u32) {
        let mut bytes = payload(u64::from(chance) << 20, 60 + chance % 200);
        bytes[12..14].copy_from_slice(&[0x88, 0xB5]);
        self.transmit.slow_path(bytes);
    }

    /// A control packet, with numbers made of `chance`.
    fn control(&mut self, qpn: u32, profile: Profile, kind: Kind, chance: u32) {
        let opcode = match (kind, profile) {
            (Kind::Probe, _) => Opcode::PROBE,
            (Kind::Endpoint, _) => Opcode::ENDPOINT_REQUEST,
            (_, Profile::Mrc) => Opcode::MRC_ACKNOWLEDGE,
            _ => Opcode::ACKNOWLEDGE,
        };
        let info = opcode.info().unwrap_or_else(|| panic!("{opcode:?} is known"));
        let bytes: usize = info.headers(false).map(spraynic_wire::HeaderKind::length).sum();
        let mut extension = Extension::default();
        for (index, byte) in extension.0[..bytes].iter_mut().enumerate() {
            *byte = payload_byte(u64::from(chance) << 8 | index as u64);
        }
        if kind == Kind::Probe {
            // The sequence space: requests or responses, and seldom none that there is.
            extension.0[0] = (chance % 9 / 4) as u8 * 16;
        }
        self.transmit.control(PacketDescriptor {
            qpn,
            opcode: opcode.0,
            psn: chance & 0xFF_FFFF,
            mrc: opcode.bit_order() == BitOrder::Mrc,
            extension_words: (bytes / 4) as u8,
            extension,
            entropy: chance,
            ..PacketDescriptor::default()
        });
    }
}
