//! Messages of peers on a bad network: what is sent, the frames that come of it (reordered, lost, repeated, damaged, trimmed, marked), what the
//! host does meanwhile, and what must be in memory in the end.
//!
//! The peers are golden transmit pipelines. Nothing here knows what the receive path does with a frame: each packet comes until it must have
//! been taken, and what is expected follows from the messages alone.

mod expected;
mod network;
mod peers;
pub mod strategy;

use spraynic_config::descriptor::{MemoryRegion, QueuePairContext, QueuePairState, ReceiveRequest};
use spraynic_config::{NicConfig, Profile};
use spraynic_golden::ack_engine::Pacing;

pub use expected::Expected;
use network::Sent;
pub use network::{Faults, HEADER_BYTES, ICRC_BYTES, Network};
use peers::{Era, Peers, Posted};

use super::patterns::Patterns;
use super::{Batch, Scenario, at};
use crate::stream::{Frame, Random};

/// Address of the NIC under test, and of its peers.
const LOCAL_IP: u128 = 0x0A00_0001;
const PEER_IP: u128 = 0x0A00_0002;
/// Virtual address of memory address 0.
const BASE: u64 = 0xFFFF_FFFF_0000_0000;
/// Bytes between the buffers of two messages: what is written beside one is seen.
const GUARD: u64 = 8;
/// Value of memory that nothing is written to.
const UNTOUCHED: u8 = 0x5A;
/// Index of the region that all use, and of the one that belongs to the queue pair that is closed. Behind them stand those that SENDs invalidate.
const COMMON: u32 = 1;
const OWN: u32 = 2;
const FIRST_FLEETING: u32 = 3;

/// What a message does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// SEND into a receive request.
    Send,
    /// SEND with immediate.
    SendImmediate,
    /// SEND with invalidate, of a region that nobody else uses.
    SendInvalidate,
    /// WRITE.
    Write,
    /// WRITE with immediate, which takes a receive request.
    WriteImmediate,
    /// READ of memory that nobody writes.
    Read,
    /// Fetch and add to a cell of the queue pair.
    FetchAdd,
    /// Compare and swap of that cell; in every second one the comparison fails.
    CompareSwap,
    /// The peer's answer to a READ of this side.
    Response,
    /// A probe.
    Probe,
    /// An acknowledgement of requests of this side.
    Acknowledge,
    /// An endpoint operation.
    Endpoint,
    /// A frame that is the host's: no RoCE packet.
    Host,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::Send,
        Self::SendImmediate,
        Self::SendInvalidate,
        Self::Write,
        Self::WriteImmediate,
        Self::Read,
        Self::FetchAdd,
        Self::CompareSwap,
        Self::Response,
        Self::Probe,
        Self::Acknowledge,
        Self::Endpoint,
        Self::Host,
    ];

    fn takes_receive_request(self) -> bool {
        matches!(
            self,
            Self::Send | Self::SendImmediate | Self::SendInvalidate | Self::WriteImmediate
        )
    }

    /// What a queue pair of this profile does instead, if it has no such message.
    #[must_use]
    pub fn in_profile(self, profile: Profile) -> Self {
        match (profile, self) {
            (_, Self::Host) => self,
            (Profile::Mrc, Self::WriteImmediate | Self::Probe | Self::Acknowledge | Self::Endpoint) => self,
            (Profile::Mrc, _) | (_, Self::Endpoint) | (Profile::Roce, Self::Probe) => Self::Write,
            _ => self,
        }
    }
}

/// A message of a peer.
#[derive(Debug, Clone, Copy)]
pub struct Message {
    /// Queue pair, modulo those there are.
    pub qpn: u32,
    /// What it does; where the profile has no such thing, it is a WRITE.
    pub kind: Kind,
    /// Bytes.
    pub length: u32,
    /// Offset of its buffer from a multiple of 128.
    pub offset: u32,
}

/// A queue pair is closed while its messages are under way, and opened again with other numbers and another key.
#[derive(Debug, Clone, Copy)]
pub struct Closing {
    /// Queue pair, modulo those there are.
    pub qpn: u32,
    /// Of 256 parts of the messages, those before this one are of the time before.
    pub messages: u8,
    /// In this pass over the bad network, 0 or 1.
    pub pass: u8,
    /// So far into the pass, of 256.
    pub at: u8,
    /// To ERROR, where receive requests are given back; otherwise to RESET.
    pub error: bool,
    /// The last message before names a key that there is not, as far as it comes: the queue pair fails first.
    pub refused: bool,
}

/// All that goes on.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    /// Messages, in the order in which they are posted.
    pub messages: Vec<Message>,
    /// What the network does.
    pub network: Network,
    /// Of 256 receive requests so many come late: packets that need them have to wait, or come again.
    pub late_requests: u8,
    /// A queue pair that is closed meanwhile.
    pub closing: Option<Closing>,
    /// How often the region that all use is written again, with what stands there.
    pub region_writes: u8,
    /// When to acknowledge.
    pub pacing: Pacing,
    /// Clocks that memory takes to answer.
    pub memory_latency: u64,
}

impl Traffic {
    /// These messages over a good network, once.
    #[must_use]
    pub fn quiet(messages: impl Into<Vec<Message>>) -> Self {
        Self {
            messages: messages.into(),
            memory_latency: 30,
            ..Self::default()
        }
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
pub fn scenario(config: &NicConfig, queue_pairs: u32, traffic: &Traffic, patterns: Patterns) -> (Scenario, Expected) {
    let mut random = Random::new(traffic.network.seed);
    let closing = traffic.closing.map(|closing| Closing {
        qpn: closing.qpn % queue_pairs,
        ..closing
    });
    let mut peers = Peers::new(config, queue_pairs, closing, &mut random);
    let before = closing.map_or(traffic.messages.len(), |closing| {
        traffic.messages.len() * usize::from(closing.messages) / 256
    });
    for (index, message) in traffic.messages.iter().enumerate() {
        let qpn = message.qpn % queue_pairs;
        let closed = closing.is_some_and(|closing| closing.qpn == qpn);
        peers.message(
            message,
            if closed && index < before {
                Era::Before
            } else {
                Era::Last
            },
        );
    }
    let peers = peers.finish();
    Script {
        config,
        traffic,
        closing,
        patterns,
        random,
        faults: Faults::default(),
    }
    .play(peers)
}

/// Puts what the peers, the network and the host do on one line of time.
struct Script<'a> {
    config: &'a NicConfig,
    traffic: &'a Traffic,
    closing: Option<Closing>,
    patterns: Patterns,
    random: Random,
    faults: Faults,
}

/// Clocks between two passes, in which what stands in slots leaves.
const PAUSE: u64 = 3000;
/// Clocks from the context that opens a queue pair again, when it has come to the end, to its receive requests, and to frames.
const SETTLE: u64 = 64;

impl Script<'_> {
    fn play(mut self, peers: peers::Finished) -> (Scenario, Expected) {
        let peers::Finished {
            contexts,
            regions,
            requests,
            mut expected,
            before,
            last,
        } = peers;
        expected.memory_end();
        let (now, later) = self.late(&requests);
        let passes = self.traffic.network.passes();
        let split = self
            .closing
            .map_or(passes.len(), |closing| usize::from(closing.pass) + 1);

        // The first passes; the closed queue pair sends what it sent before.
        let first: Vec<Vec<Sent>> = last
            .iter()
            .zip(&before)
            .map(|(last, before)| before.as_ref().unwrap_or(last).clone())
            .collect();
        let mut begins = vec![];
        let mut frames = vec![];
        let mut clock = 0;
        for bad in &passes[..split] {
            begins.push(clock);
            clock = self.pass(&first, *bad, clock, &mut frames);
        }
        let mut meanwhile = Batch {
            receive_requests: later.into_iter().map(|request| (clock / 2, request)).collect(),
            ..Batch::default()
        };
        for _ in 0..self.traffic.region_writes {
            let at = self.random.next() % (clock + 1);
            meanwhile.regions.push((at, regions[0]));
        }
        meanwhile.regions.sort_by_key(|(at, _)| *at);

        let mut batches = vec![];
        let mut initial = now;
        if let Some(closing) = self.closing {
            let (begin, end) = (*begins.last().unwrap_or(&0), clock);
            let close_at = begin + (end - begin - PAUSE) * u64::from(closing.at) / 256;
            let context = contexts[closing.qpn as usize];
            let state = if closing.error {
                QueuePairState::Error
            } else {
                QueuePairState::Reset
            };
            meanwhile.contexts.push((
                close_at,
                QueuePairContext {
                    state: state as u8,
                    ..context
                },
            ));
            let of_closed = requests.iter().filter(|posted| posted.era.is_some());
            let (before_closing, after): (Vec<&Posted>, Vec<&Posted>) =
                of_closed.partition(|posted| posted.era == Some(Era::Before));
            // The last of them are posted just when the queue pair is closed.
            let early = before_closing.len().saturating_sub(1 + usize::from(closing.at) % 4);
            initial.extend(before_closing[..early].iter().map(|posted| posted.request));
            let mut at = close_at.saturating_sub(20);
            for posted in &before_closing[early..] {
                at += self.random.next() % 24;
                meanwhile.receive_requests.push((at, posted.request));
            }
            meanwhile.receive_requests.sort_by_key(|(at, _)| *at);

            // What was given to the blocks behind has left by then, whatever the ports do.
            let beat = u64::from(self.config.datapath.width_bits / 8);
            let left = self
                .patterns
                .most_clocks(3 * u64::from(self.config.wire.max_mtu) / beat + 100);
            let reopen = Batch {
                after_contexts: contexts.len() + 1,
                contexts: vec![(PAUSE + left, peers::reopened(&context))],
                regions: vec![(PAUSE + left, peers::renewed(&regions[1]))],
                ..Batch::default()
            };
            let mut again = Batch {
                after_contexts: contexts.len() + 2,
                receive_requests: after.iter().map(|posted| (SETTLE, posted.request)).collect(),
                ..Batch::default()
            };
            let mut clock = 2 * SETTLE + 8 * after.len() as u64;
            for bad in &passes[split..] {
                clock = self.pass(&last, *bad, clock, &mut again.frames);
                if *bad {
                    self.stale(&before, &mut again.frames);
                }
            }
            batches.extend([reopen, again]);
        }
        batches.insert(0, meanwhile);
        expected.faults = self.faults;
        let scenario = Scenario {
            contexts,
            regions,
            receive_requests: initial,
            memory: vec![UNTOUCHED; expected.memory.len()],
            frames,
            batches,
            pacing: self.traffic.pacing,
            memory_latency: self.traffic.memory_latency,
            patterns: self.patterns,
        };
        (scenario, expected)
    }

    /// Receive requests that are there at the start, and those that come late: from some one on, of each queue pair that stays open.
    fn late(&mut self, requests: &[Posted]) -> (Vec<ReceiveRequest>, Vec<ReceiveRequest>) {
        let (mut now, mut later): (Vec<ReceiveRequest>, Vec<ReceiveRequest>) = (vec![], vec![]);
        for Posted { request, .. } in requests.iter().filter(|posted| posted.era.is_none()) {
            let waits = later.iter().any(|late| late.qpn == request.qpn);
            let is_late = (self.random.next() as u8) < self.traffic.late_requests;
            if waits || is_late { &mut later } else { &mut now }.push(*request);
        }
        (now, later)
    }

    /// One pass of all frames over the network; gives the clock at which the next one may begin.
    fn pass(&mut self, sent: &[Vec<Sent>], bad: bool, begin: u64, frames: &mut Vec<Frame>) -> u64 {
        let network = &self.traffic.network;
        let delivered = network::deliver(self.config, sent, network, bad, &mut self.random, &mut self.faults);
        let beat = self.config.datapath.width_bits as usize / 8;
        let beats: usize = delivered.iter().map(|frame| frame.data.len().div_ceil(beat)).sum();
        frames.extend(delivered.into_iter().map(|frame| at(begin, frame)));
        begin + beats as u64 + PAUSE
    }

    /// A few packets of the time before the queue pair was closed come late.
    fn stale(&mut self, before: &[Option<Vec<Sent>>], frames: &mut Vec<Frame>) {
        let not_before = frames.last().map_or(0, |frame| frame.not_before);
        for sent in before.iter().flatten().flatten() {
            if self.random.next().is_multiple_of(8) {
                frames.push(at(not_before, sent.bytes.clone()));
            }
        }
    }
}

/// A region that peers may use: all of memory.
fn region(index: u32, generation: u8) -> MemoryRegion {
    MemoryRegion {
        generation,
        index,
        valid: true,
        remote_write: true,
        remote_read: true,
        remote_atomic: true,
        base: BASE,
        ..MemoryRegion::default()
    }
}

/// The R_Key of a region.
fn key_of(region: &MemoryRegion) -> u32 {
    region.index << 8 | u32::from(region.generation)
}
