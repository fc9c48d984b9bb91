//! Messages of peers on a bad network: what is sent, the frames that come of it (reordered, lost, repeated, damaged), and what must be in memory
//! in the end.
//!
//! The peers are golden transmit pipelines. Nothing here knows what the receive path does with a frame: each packet comes until it must have
//! been taken, and what is expected follows from the messages alone.

use std::collections::BTreeMap;

use spraynic_config::descriptor::{
    HeaderTemplate, MemoryRegion, PayloadRequest, QueuePairContext, QueuePairState, ReceiveRequest, SliceContext,
    WorkOpcode, WorkRequest,
};
use spraynic_config::{NicConfig, Profile};
use spraynic_golden::transmit_pipeline::{Config, Memory, TransmitPipeline};

use super::Scenario;
use crate::stream::{Frame, Random};

/// Address of the NIC under test, and of its peers.
const LOCAL_IP: u128 = 0x0A00_0001;
const PEER_IP: u128 = 0x0A00_0002;
/// R_Key of the one region: index 1, generation 7.
const KEY: u32 = 0x0000_0107;
/// Virtual address of memory address 0.
const BASE: u64 = 0xFFFF_FFFF_0000_0000;
/// Bytes between the buffers of two messages: what is written beside one is seen.
const GUARD: u64 = 8;
/// Value of memory that nothing is written to.
const UNTOUCHED: u8 = 0x5A;

/// What a message does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// SEND into a receive request.
    Send,
    /// SEND with immediate.
    SendImmediate,
    /// WRITE.
    Write,
    /// WRITE with immediate, which takes a receive request.
    WriteImmediate,
    /// READ of memory that nobody writes.
    Read,
    /// Fetch and add to a cell of the queue pair.
    FetchAdd,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Send,
        Self::SendImmediate,
        Self::Write,
        Self::WriteImmediate,
        Self::Read,
        Self::FetchAdd,
    ];

    fn takes_receive_request(self) -> bool {
        matches!(self, Self::Send | Self::SendImmediate | Self::WriteImmediate)
    }
}

/// A message of a peer.
#[derive(Debug, Clone, Copy)]
pub struct Message {
    /// Queue pair, modulo those there are.
    pub qpn: u32,
    /// What it does; WRITEs alone in mrc.
    pub kind: Kind,
    /// Bytes.
    pub length: u32,
    /// Offset of its buffer from a multiple of 128.
    pub offset: u32,
}

/// What the network does.
#[derive(Debug, Clone, Copy)]
pub struct Network {
    /// Seed of all that is left to chance.
    pub seed: u64,
    /// Of 256 frames so many are lost.
    pub lost: u8,
    /// Of 256 frames so many come twice.
    pub repeated: u8,
    /// Of 256 frames so many have a byte changed, anywhere.
    pub damaged: u8,
    /// A frame comes by so many places later than it was sent, at most (solar, mrc).
    pub reordered: u32,
}

/// What must come of a [`Scenario`].
#[derive(Debug, Clone, Default)]
pub struct Expected {
    /// Memory at the end.
    pub memory: Vec<u8>,
    /// Cookies of the completions of each queue pair, in order.
    pub completions: BTreeMap<u32, Vec<u64>>,
    /// READs and atomics of each queue pair.
    pub executed: BTreeMap<u32, usize>,
}

/// Payload at a local address of the peers.
struct PeerMemory;

fn payload_byte(address: u64) -> u8 {
    (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

impl Memory for PeerMemory {
    fn read(&mut self, request: &PayloadRequest) -> Vec<u8> {
        (0..u64::from(request.length))
            .map(|offset| payload_byte(request.address + offset))
            .collect()
    }
}

/// The profile of a queue pair: all that are generated, in turn.
#[must_use]
pub fn profile_of(config: &NicConfig, qpn: u32) -> Profile {
    let profiles: Vec<Profile> = config.wire.profiles.iter().copied().collect();
    profiles[qpn as usize % profiles.len()]
}

/// Everything of `queue_pairs` peers whose messages go over this network, and what must come of it.
#[must_use]
pub fn scenario(config: &NicConfig, queue_pairs: u32, messages: &[Message], network: Network) -> (Scenario, Expected) {
    let mut random = Random::new(network.seed);
    let mut build = Build::new(config, queue_pairs, &mut random);
    for message in messages {
        build.message(message);
    }
    let memory = vec![UNTOUCHED; build.memory_end as usize];
    let mut expected = build.expected;
    expected.memory = memory.clone();
    for (address, bytes) in &build.written {
        expected.memory[*address as usize..][..bytes.len()].copy_from_slice(bytes);
    }
    for (cell, added) in &build.cells {
        let start = *cell as usize;
        let value = u64::from_le_bytes([UNTOUCHED; 8]).wrapping_add(*added);
        expected.memory[start..start + 8].copy_from_slice(&value.to_le_bytes());
    }
    let sent: Vec<Vec<Vec<u8>>> = build.peers.iter_mut().map(frames_of).collect();
    let scenario = Scenario {
        contexts: build.contexts,
        regions: vec![MemoryRegion {
            generation: KEY as u8,
            index: KEY >> 8,
            valid: true,
            remote_write: true,
            remote_read: true,
            remote_atomic: true,
            base: BASE,
            length: build.memory_end,
            ..MemoryRegion::default()
        }],
        receive_requests: build.receive_requests,
        memory,
        frames: deliver(config, &sent, network, &mut random),
        memory_latency: 30,
        ..Scenario::default()
    };
    (scenario, expected)
}

/// All frames that a peer sends, in order.
fn frames_of(peer: &mut TransmitPipeline) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| peer.transmit(&mut PeerMemory, 0).map(|(_, frame)| frame)).collect()
}

/// A scenario in the making.
struct Build<'a> {
    config: &'a NicConfig,
    peers: Vec<TransmitPipeline>,
    contexts: Vec<QueuePairContext>,
    receive_requests: Vec<ReceiveRequest>,
    expected: Expected,
    written: Vec<(u64, Vec<u8>)>,
    /// Cell of each queue pair's atomics, and the sum of what is added to it.
    cells: Vec<(u64, u64)>,
    memory_end: u64,
}

impl<'a> Build<'a> {
    fn new(config: &'a NicConfig, queue_pairs: u32, random: &mut Random) -> Self {
        let mut build = Self {
            config,
            peers: Vec::new(),
            contexts: Vec::new(),
            receive_requests: Vec::new(),
            expected: Expected::default(),
            written: Vec::new(),
            cells: Vec::new(),
            memory_end: 0,
        };
        for qpn in 0..queue_pairs {
            build.open(qpn, random.next());
        }
        build
    }

    fn open(&mut self, qpn: u32, chance: u64) {
        let profile = profile_of(self.config, qpn).code();
        let mtu = 1 + (chance % u64::from(self.config.max_mtu_code())) as u8;
        // Half of the queue pairs begin just before the wrap.
        let psn = if chance & 0x100 == 0 {
            0xFF_FFF0
        } else {
            (chance >> 16) as u32 & 0xFF_FFFF
        };
        let ipv6 = self.config.wire.ipv6 && chance & 0x200 != 0;
        let mut peer = TransmitPipeline::new(Config::from(self.config));
        peer.write_context(&SliceContext {
            qpn,
            open: true,
            profile,
            mtu,
            timestamps: chance & 0x400 != 0,
            entropy: (chance >> 40) as u32,
            psn,
            ..SliceContext::default()
        });
        peer.write_template(&HeaderTemplate {
            qpn,
            ipv6,
            vlan: self.config.wire.vlan && chance & 0x800 != 0,
            traffic_class: 2,
            hop_limit: 64,
            source_ip: PEER_IP,
            destination_ip: LOCAL_IP,
            partition_key: 0xFFFF,
            destination_qpn: qpn,
            ..HeaderTemplate::default()
        });
        self.peers.push(peer);
        self.contexts.push(QueuePairContext {
            qpn,
            state: QueuePairState::ReadyToSend as u8,
            profile,
            mtu,
            remote_write: true,
            remote_read: true,
            remote_atomic: true,
            ipv6,
            partition_key: 0xFFFF,
            rnr_timer: 1,
            psn,
            peer_ip: PEER_IP,
            local_ip: LOCAL_IP,
            ..QueuePairContext::default()
        });
        let cell = self.place(8, 0);
        self.cells.push((cell, 0));
    }

    /// Room for a buffer, `offset` bytes behind a multiple of 128.
    fn place(&mut self, length: u32, offset: u32) -> u64 {
        let start = self.memory_end.next_multiple_of(128) + u64::from(offset % 128);
        self.memory_end = start + u64::from(length) + GUARD;
        start
    }

    fn message(&mut self, message: &Message) {
        let queue_pairs = self.peers.len() as u32;
        let qpn = message.qpn % queue_pairs;
        let posted = self
            .receive_requests
            .iter()
            .filter(|request| request.qpn == qpn)
            .count();
        let kind = match (profile_of(self.config, qpn), message.kind) {
            (Profile::Mrc, Kind::WriteImmediate) => Kind::WriteImmediate,
            (Profile::Mrc, _) => Kind::Write,
            (_, kind) => kind,
        };
        // Only as many receive requests as the queue pair holds: all are posted before the first frame.
        let full = posted == self.config.receive.receive_requests as usize;
        let kind = if full && kind.takes_receive_request() {
            Kind::Write
        } else {
            kind
        };
        let local_address = self.memory_end ^ u64::from(qpn) << 32;
        let length = message.length;
        let mut request = WorkRequest {
            segments: 1,
            qpn,
            length,
            local_address,
            remote_key: KEY,
            ..WorkRequest::default()
        };
        let payload = |length: u32| {
            (0..u64::from(length))
                .map(|offset| payload_byte(local_address + offset))
                .collect()
        };
        match kind {
            Kind::Send | Kind::SendImmediate => {
                request.opcode = WorkOpcode::Send as u8;
                let start = self.place(length, message.offset);
                self.written.push((start, payload(length)));
                self.post(qpn, start, length);
            }
            Kind::Write | Kind::WriteImmediate => {
                request.opcode = WorkOpcode::Write as u8;
                let start = self.place(length, message.offset);
                self.written.push((start, payload(length)));
                request.remote_address = BASE + start;
                if kind == Kind::WriteImmediate {
                    self.post(qpn, 0, 0);
                }
            }
            Kind::Read => {
                request.opcode = WorkOpcode::Read as u8;
                request.remote_address = BASE + self.place(length, message.offset);
                *self.expected.executed.entry(qpn).or_default() += 1;
            }
            Kind::FetchAdd => {
                let (cell, added) = &mut self.cells[qpn as usize];
                *added = added.wrapping_add(u64::from(length) + 1);
                request = WorkRequest {
                    opcode: WorkOpcode::FetchAdd as u8,
                    length: 8,
                    remote_address: BASE + *cell,
                    swap_add: u64::from(length) + 1,
                    ..request
                };
                *self.expected.executed.entry(qpn).or_default() += 1;
            }
        }
        request.inline_immediate = matches!(kind, Kind::SendImmediate | Kind::WriteImmediate);
        request.immediate = length;
        self.peers[qpn as usize]
            .request(&request)
            .unwrap_or_else(|reason| panic!("a right work request: {reason}"));
    }

    fn post(&mut self, qpn: u32, address: u64, length: u32) {
        let cookie = self.receive_requests.len() as u64;
        self.receive_requests.push(ReceiveRequest {
            qpn,
            length,
            address,
            cookie,
            ..ReceiveRequest::default()
        });
        self.expected.completions.entry(qpn).or_default().push(cookie);
    }
}

/// The frames as they come: three times over a bad network, then twice over a good one, so that each packet comes when it is next.
fn deliver(config: &NicConfig, sent: &[Vec<Vec<u8>>], network: Network, random: &mut Random) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut now = 0;
    for pass in 0..5 {
        let bad = pass < 3;
        // Position of each frame in the pass: interleaved by chance, in order within a queue pair, but for what is late.
        let mut order: Vec<(u64, usize, usize)> = Vec::new();
        for (qpn, of_peer) in sent.iter().enumerate() {
            let may_reorder = profile_of(config, qpn as u32) != Profile::Roce;
            let mut position = 0;
            for index in 0..of_peer.len() {
                position += 1 + random.next() % (2 * sent.len() as u64);
                let late = match bad && may_reorder {
                    true => random.next() % (u64::from(network.reordered) * sent.len() as u64 + 1),
                    false => 0,
                };
                if bad && (random.next() as u8) < network.lost {
                    continue;
                }
                order.push((position + late, qpn, index));
                if bad && (random.next() as u8) < network.repeated {
                    order.push((position + late + random.next() % 50, qpn, index));
                }
            }
        }
        order.sort_unstable();
        for (_, qpn, index) in order {
            let mut bytes = sent[qpn][index].clone();
            if bad && (random.next() as u8) < network.damaged {
                let at = random.next() as usize % bytes.len();
                bytes[at] ^= 1 << (random.next() % 8);
            }
            frames.push(Frame {
                not_before: now,
                ..Frame::new(bytes)
            });
        }
        // What is in slots leaves before the next pass begins.
        let beats: usize = frames
            .iter()
            .map(|frame| frame.data.len().div_ceil(config.datapath.width_bits as usize / 8))
            .sum();
        now = (2 * beats) as u64 + 4000 * (pass + 1);
    }
    frames
}
