//! `responder`: says of each request of a peer where its payload goes, what is to be executed, and what is due afterwards.
//!
//! It owns the messages in progress, the receive requests and the message sequence numbers. It never reads or writes memory, never answers by
//! itself (what is due leaves with the write that it waits for), and never lets a peer reach what `memory_regions` does not allow.
//! Theory of operation: `docs/src/blocks/responder.md`.

mod arrival;
mod request;

use std::collections::VecDeque;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    CompletionStatus, MemoryAccess, MemoryTranslation, PayloadWrite, QueuePairContext, QueuePairState, ReceiveRequest,
    SequencedPacket,
};
use spraynic_wire::Syndrome;

use crate::counter::count;
use arrival::Arrival;
use request::Request;

/// What was generated: the part of the configuration that this block's behaviour depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Queue pairs: QPN 0 to `queue_pairs - 1`.
    pub queue_pairs: u32,
    /// Receive requests that each holds, a power of two; in mrc also immediates that wait for the end of their message.
    pub receive_requests: u32,
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            queue_pairs: config.queue_pairs.count,
            receive_requests: config.receive.receive_requests,
        }
    }
}

/// Counters, as the ports `count_…` of the block. The packets taken are the sum of the first nine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Requests carried out.
    pub accepted: u32,
    /// mrc: messages found complete in order.
    pub retired: u32,
    /// roce: duplicate READ and atomic requests executed again.
    pub duplicates: u32,
    /// roce: duplicates that are no longer allowed, discarded.
    pub drop_duplicate: u32,
    /// Requests refused: invalid request (NAK 0x61).
    pub refused_invalid_request: u32,
    /// Requests refused: remote access error (NAK 0x62).
    pub refused_remote_access: u32,
    /// Requests refused: remote operational error (NAK 0x63), no receive request.
    pub refused_operational: u32,
    /// Requests discarded behind one that was refused.
    pub drop_failed: u32,
    /// Requests discarded: the queue pair does not receive.
    pub drop_closed: u32,
    /// Responses to own requests passed on (solar).
    pub responses: u32,
    /// Messages done: MSN steps.
    pub messages: u32,
    /// Receive requests taken over from the host, a credit given for each.
    pub receive_requests: u32,
    /// Receive requests dropped: no such queue pair, or it is in RESET.
    pub drop_receive_request: u32,
    /// Receive requests dropped: the queue pair holds as many as it can.
    pub drop_receive_request_full: u32,
    /// Receive requests given back with status `Flushed`.
    pub flushed: u32,
    /// Context writes for a QPN beyond the table.
    pub drop_context: u32,
}

/// What becomes of a receive request that the host posts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posted {
    /// It is held: a credit of this QPN goes to `reorder_buffer`.
    Credit(u32),
    /// The queue pair is in ERROR: it is given back at once.
    Flushed(PayloadWrite),
    /// Dropped: no such queue pair, or it is in RESET.
    NoQueuePair,
    /// Dropped: the queue pair holds as many as it can.
    Full,
}

/// What becomes of a packet, with its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Given {
    /// A request: to `payload_writer`.
    Request(PayloadWrite, Vec<u8>),
    /// A response to an own request (solar), untouched: to the requester.
    Response(SequencedPacket, Vec<u8>),
}

/// A message of which more packets are to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Send,
    Write,
}

/// What is known of a queue pair's requests; reset when it no longer receives.
#[derive(Debug, Clone, Copy, Default)]
struct Message {
    progress: Option<Progress>,
    /// A request was refused: nothing is carried out any more.
    failed: bool,
    /// Cookie of the receive request in use: of the SEND in progress, or taken behind a request that was refused.
    held: Option<u64>,
    /// Where the next payload goes.
    address: u64,
    /// SEND: bytes left in the buffer. WRITE: bytes left of the DMA length.
    left: u32,
    /// Bytes so far.
    received: u32,
    /// Messages done, 24 bits.
    msn: u32,
}

/// mrc: what the last packet of a message with immediate leaves for the end of the message.
#[derive(Debug, Clone, Copy)]
struct Immediate {
    immediate: u32,
    byte_count: u32,
    solicited: bool,
}

#[derive(Debug, Clone)]
struct QueuePair {
    state: QueuePairState,
    /// Receive requests, the oldest first.
    requests: VecDeque<ReceiveRequest>,
    message: Message,
    /// By the low bits of their RQMSN.
    immediates: Vec<Option<Immediate>>,
    /// RQMSN of the next message with immediate that will be complete.
    rqmsn: u16,
}

/// The block: its queue pairs and counters.
#[derive(Debug, Clone)]
pub struct Responder {
    config: Config,
    queue_pairs: Vec<QueuePair>,
    counters: Counters,
}

/// The write that gives a receive request back.
fn flush(qpn: u32, cookie: u64) -> PayloadWrite {
    PayloadWrite {
        qpn,
        discard: true,
        completion: true,
        status: CompletionStatus::Flushed as u8,
        cookie,
        ..PayloadWrite::default()
    }
}

impl Responder {
    /// The block after reset: all queue pairs are in RESET, all counters are 0.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let queue_pair = QueuePair {
            state: QueuePairState::Reset,
            requests: VecDeque::new(),
            message: Message::default(),
            immediates: vec![None; config.receive_requests as usize],
            rqmsn: 0,
        };
        Self {
            config,
            queue_pairs: vec![queue_pair; config.queue_pairs as usize],
            counters: Counters::default(),
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Receive requests that a queue pair holds, those in use not among them.
    #[must_use]
    pub fn receive_requests(&self, qpn: u32) -> usize {
        self.queue_pairs
            .get(qpn as usize)
            .map_or(0, |queue_pair| queue_pair.requests.len())
    }

    /// Takes a context write that `qp_lookup` passed on; of the context the state counts alone. A queue pair that no longer receives forgets its message and its MSN.
    /// RESET drops its receive requests, ERROR gives them back in order, INIT the one in use alone; what is given back is what this
    /// gives. Between RTR and RTS nothing changes. A code that is no state counts as RESET. The last write is the marker of this context.
    pub fn write_context(&mut self, context: &QueuePairContext) -> Vec<PayloadWrite> {
        let mut writes = self.close_or_open(context);
        let mut marker = match QueuePairState::from_code(context.state) {
            // One write gives back the receive request in use, and marks.
            Some(QueuePairState::Init) => writes.pop(),
            _ => None,
        }
        .unwrap_or(PayloadWrite {
            qpn: context.qpn,
            discard: true,
            ..PayloadWrite::default()
        });
        marker.marker = true;
        marker.closed = !context.receives();
        writes.push(marker);
        writes
    }

    /// What a context write changes; gives the receive requests that it gives back.
    fn close_or_open(&mut self, context: &QueuePairContext) -> Vec<PayloadWrite> {
        let qpn = context.qpn;
        let Some(queue_pair) = self.queue_pairs.get_mut(qpn as usize) else {
            count(&mut self.counters.drop_context);
            return Vec::new();
        };
        let state = QueuePairState::from_code(context.state).unwrap_or(QueuePairState::Reset);
        let received = std::mem::replace(&mut queue_pair.state, state).receives();
        if state.receives() {
            if !received {
                queue_pair.immediates.fill(None);
                queue_pair.rqmsn = 0;
            }
            return Vec::new();
        }
        let held = std::mem::take(&mut queue_pair.message).held;
        let posted = match state {
            QueuePairState::Init => VecDeque::new(),
            _ => std::mem::take(&mut queue_pair.requests),
        };
        if state == QueuePairState::Reset {
            return Vec::new();
        }
        let cookies = held.into_iter().chain(posted.iter().map(|request| request.cookie));
        let flushed: Vec<_> = cookies.map(|cookie| flush(qpn, cookie)).collect();
        self.counters.flushed = self.counters.flushed.wrapping_add(flushed.len() as u32);
        flushed
    }

    /// Takes a receive request of the host.
    pub fn post(&mut self, request: &ReceiveRequest) -> Posted {
        let qpn = request.qpn;
        let found = self.queue_pairs.get_mut(qpn as usize);
        let Some(queue_pair) = found.filter(|queue_pair| queue_pair.state != QueuePairState::Reset) else {
            count(&mut self.counters.drop_receive_request);
            return Posted::NoQueuePair;
        };
        if queue_pair.state == QueuePairState::Error {
            count(&mut self.counters.flushed);
            return Posted::Flushed(flush(qpn, request.cookie));
        }
        if queue_pair.requests.len() >= self.config.receive_requests as usize {
            count(&mut self.counters.drop_receive_request_full);
            return Posted::Full;
        }
        queue_pair.requests.push_back(*request);
        count(&mut self.counters.receive_requests);
        Posted::Credit(qpn)
    }

    /// Takes a packet with its payload. `regions` answers as `memory_regions` does; it is asked at most once: for each packet that names memory,
    /// whatever becomes of the packet, and for a SEND with invalidate that passed all other checks.
    pub fn receive(
        &mut self,
        packet: &SequencedPacket,
        payload: Vec<u8>,
        mut regions: impl FnMut(&MemoryAccess) -> MemoryTranslation,
    ) -> Given {
        if packet.space {
            count(&mut self.counters.responses);
            return Given::Response(*packet, payload);
        }
        let request = Request::of(packet);
        let translation = request.access(packet).map(|access| regions(&access));
        let write = PayloadWrite {
            qpn: packet.qpn,
            opcode: packet.opcode,
            length: packet.payload_length,
            psn: packet.psn,
            syndrome: Syndrome::ACK.byte(),
            profile: packet.profile,
            mtu: packet.mtu,
            entropy: packet.entropy,
            solicited: packet.solicited,
            ..PayloadWrite::default()
        };
        let found = self.queue_pairs.get_mut(packet.qpn as usize);
        let write = match found.filter(|queue_pair| queue_pair.state.receives()) {
            Some(queue_pair) => {
                let write = PayloadWrite {
                    msn: queue_pair.message.msn,
                    ..write
                };
                let mut arrival = Arrival {
                    packet,
                    request,
                    translation,
                    queue_pair,
                    counters: &mut self.counters,
                };
                arrival.carry_out(write, regions)
            }
            None => {
                count(&mut self.counters.drop_closed);
                PayloadWrite { discard: true, ..write }
            }
        };
        Given::Request(write, payload)
    }
}

#[cfg(test)]
#[path = "responder_tests.rs"]
mod tests;
