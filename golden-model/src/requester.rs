//! `requester`: takes the responses to own READs and atomics, puts them into memory and says when they are done.
//!
//! It owns what responses a queue pair waits for. It never asks again for one that is missing (`retransmit_engine` does) and gives no
//! completions (`work_queue` does). Theory of operation: `docs/src/blocks/requester.md`.

use std::collections::VecDeque;

use spraynic_config::descriptor::{
    CompletionStatus, ExpectedResponse, PayloadWrite, QueuePairState, ReceivedPacket, ResponseDone, SendContext,
    SequencedPacket, WorkOpcode, WorkRequest, WorkSlice,
};
use spraynic_config::{NicConfig, Profile};
use spraynic_wire::{NakCode, Opcode, Operation, Psn, Syndrome};

use crate::counter::count;
use crate::packet_slicer::mtu_bytes;

/// What was generated: the part of the configuration that this block's behaviour depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Queue pairs: QPN 0 to `queue_pairs - 1`.
    pub queue_pairs: u32,
    /// READs and atomics that a queue pair may wait for.
    pub reads: usize,
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            queue_pairs: config.send_queue_pairs(),
            reads: config.send.reads as usize,
        }
    }
}

/// Counters, as the ports `count_…` of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Response packets that were expected, in their turn.
    pub packets: u32,
    /// READs and atomics done.
    pub done: u32,
    /// Of these, those whose response was not what was asked for.
    pub failed: u32,
    /// roce: response packets that are not the next one: repeated, or behind a gap.
    pub drop_sequence: u32,
    /// Response packets that nobody waits for, and those behind a failure.
    pub drop_unexpected: u32,
    /// READs and atomics that were to be expected, but the queue pair does not send, or waits for as many as it can.
    pub drop_expected: u32,
}

/// A READ or atomic that waits for its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Expected {
    slot: u8,
    atomic: bool,
    /// PSN of the next packet of its response (roce).
    psn: Psn,
    /// Where the next payload goes.
    address: u64,
    /// Bytes that are missing. The last packet is the one that may bring all of them.
    left: u32,
    /// The first packet has not come.
    fresh: bool,
}

#[derive(Debug, Clone)]
struct QueuePair {
    profile: Profile,
    mtu: u32,
    /// The oldest first.
    expected: VecDeque<Expected>,
    failed: bool,
}

/// What becomes of a response packet that was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Given {
    /// To `payload_writer`. It answers where a READ or an atomic ends with it; `cookie` is its slot, `status` how it ended.
    pub write: PayloadWrite,
    /// Atomics: the 8 bytes that are written in place of payload.
    pub original: Option<[u8; 8]>,
}

/// The block: what each queue pair waits for, and counters.
#[derive(Debug, Clone)]
pub struct Requester {
    config: Config,
    queue_pairs: Vec<Option<QueuePair>>,
    counters: Counters,
}

impl Requester {
    /// The block after reset: nothing is expected, all counters are 0.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            queue_pairs: vec![None; config.queue_pairs as usize],
            counters: Counters::default(),
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes a context write: a queue pair that leaves RTS waits for nothing any more.
    pub fn write_context(&mut self, context: &SendContext) {
        let sends = context.state == QueuePairState::ReadyToSend as u8;
        let profile = Profile::from_code(context.profile).filter(|profile| sends && *profile != Profile::Mrc);
        let Some(slot) = self.queue_pairs.get_mut(context.qpn as usize) else {
            return;
        };
        match (profile.zip(mtu_bytes(context.mtu)), &slot) {
            (None, _) => *slot = None,
            (Some(_), Some(_)) => {}
            (Some((profile, mtu)), None) => {
                *slot = Some(QueuePair {
                    profile,
                    mtu,
                    expected: VecDeque::new(),
                    failed: false,
                });
            }
        }
    }

    /// Takes a READ or an atomic that is sent for the first time.
    pub fn expect(&mut self, request: &ExpectedResponse) {
        let found = self
            .queue_pairs
            .get_mut(request.qpn as usize)
            .and_then(Option::as_mut)
            .filter(|queue_pair| queue_pair.expected.len() < self.config.reads);
        let Some(queue_pair) = found else {
            count(&mut self.counters.drop_expected);
            return;
        };
        queue_pair.expected.push_back(Expected {
            slot: request.slot,
            atomic: request.atomic,
            psn: Psn::new(request.psn),
            address: request.address,
            left: request.length,
            fresh: true,
        });
    }

    /// solar: a packet of the response space, each once and in order. `None`: it is dropped, with its payload.
    pub fn response(&mut self, packet: &SequencedPacket) -> Option<Given> {
        self.take(&Arrived {
            qpn: packet.qpn,
            opcode: Opcode(packet.opcode),
            psn: Psn::new(packet.psn),
            roce: false,
            length: packet.payload_length,
            extension: &packet.extension.0,
        })
    }

    /// roce: feedback of the peer, as it comes. READ responses and atomic ACKs alone are taken.
    pub fn feedback(&mut self, packet: &ReceivedPacket) -> Option<Given> {
        let operation = Opcode(packet.opcode).info().map(|info| info.operation);
        if !matches!(operation, Some(Operation::ReadResponse | Operation::AtomicAcknowledge)) {
            return None;
        }
        self.take(&Arrived {
            qpn: packet.qpn,
            opcode: Opcode(packet.opcode),
            psn: Psn::new(packet.psn),
            roce: true,
            length: packet.payload_length,
            extension: &packet.extension.0,
        })
    }

    /// PSN of the response packet that comes next (roce), if one is expected.
    #[must_use]
    pub fn next_psn(&self, qpn: u32) -> Option<Psn> {
        let queue_pair = self.queue_pairs.get(qpn as usize)?.as_ref()?;
        queue_pair.expected.front().map(|expected| expected.psn)
    }

    /// What a queue pair waits for.
    #[must_use]
    pub fn expected(&self, qpn: u32) -> usize {
        let queue_pair = self.queue_pairs.get(qpn as usize).and_then(Option::as_ref);
        queue_pair.map_or(0, |queue_pair| queue_pair.expected.len())
    }

    fn take(&mut self, packet: &Arrived<'_>) -> Option<Given> {
        let counters = &mut self.counters;
        let queue_pair = self.queue_pairs.get_mut(packet.qpn as usize).and_then(Option::as_mut);
        let queue_pair = queue_pair.filter(|queue_pair| {
            !queue_pair.failed
                && (queue_pair.profile == Profile::Roce) == packet.roce
                && !queue_pair.expected.is_empty()
        });
        let Some(queue_pair) = queue_pair else {
            count(&mut counters.drop_unexpected);
            return None;
        };
        let mtu = queue_pair.mtu;
        let expected = queue_pair.expected.front_mut()?;
        if packet.roce && packet.psn != expected.psn {
            count(&mut counters.drop_sequence);
            return None;
        }
        count(&mut counters.packets);
        let last = expected.atomic || expected.left <= mtu;
        let is_right = expected.fits(packet, mtu);
        let done = last || !is_right;
        let length = match (is_right, expected.atomic) {
            (false, _) => 0,
            (true, true) => 8,
            (true, false) => packet.length,
        };
        let status = if is_right {
            CompletionStatus::Success
        } else {
            CompletionStatus::BadResponse
        };
        let write = PayloadWrite {
            qpn: packet.qpn,
            opcode: packet.opcode.0,
            address: expected.address,
            length,
            answer: done,
            psn: packet.psn.value(),
            syndrome: Syndrome::ACK.byte(),
            profile: queue_pair.profile.code(),
            status: status as u8,
            cookie: expected.slot.into(),
            ..PayloadWrite::default()
        };
        // Behind the AETH stands the AtomicAckETH, most significant byte first.
        let original = (is_right && expected.atomic).then(|| {
            let bytes = packet.extension.get(4..12).and_then(|bytes| bytes.try_into().ok());
            u64::from_be_bytes(bytes.unwrap_or_default()).to_le_bytes()
        });
        expected.fresh = false;
        expected.psn += 1;
        expected.left = expected.left.wrapping_sub(length.into());
        expected.address = expected.address.wrapping_add(length.into());
        queue_pair.failed = !is_right;
        if done {
            count(&mut counters.done);
            queue_pair.expected.pop_front();
        }
        if !is_right {
            count(&mut counters.failed);
        }
        Some(Given { write, original })
    }
}

/// What a READ or an atomic makes `requester` expect; `None` for other requests, and for what was sent before.
#[must_use]
pub fn expected_response(request: &WorkRequest, slice: &WorkSlice) -> Option<ExpectedResponse> {
    let atomic = match WorkOpcode::from_code(request.opcode)? {
        WorkOpcode::Read => false,
        WorkOpcode::CompareSwap | WorkOpcode::FetchAdd => true,
        _ => return None,
    };
    (!slice.retransmission).then(|| ExpectedResponse {
        qpn: request.qpn,
        slot: slice.slot,
        psn: slice.psn,
        atomic,
        address: request.local_address,
        length: request.length,
        ..ExpectedResponse::default()
    })
}

/// The end of a READ or an atomic, of what `payload_writer` answers once memory has all of it. A write that memory refused makes it a NAK.
#[must_use]
pub fn response_done(written: &PayloadWrite) -> ResponseDone {
    let refused = written.syndrome == Syndrome::Nak(NakCode::RemoteOperationalError).byte();
    let success = written.status == CompletionStatus::Success as u8;
    ResponseDone {
        qpn: written.qpn,
        slot: written.cookie as u8,
        status: if refused && success {
            CompletionStatus::LocalMemory as u8
        } else {
            written.status
        },
    }
}

/// A response packet, of either profile.
struct Arrived<'a> {
    qpn: u32,
    opcode: Opcode,
    psn: Psn,
    roce: bool,
    length: u16,
    extension: &'a [u8],
}

impl Expected {
    /// Whether a packet is what comes next. A READ that was asked for again (roce) may begin anew in its middle, with `first` or `only`,
    /// because its responder knows only the rest.
    fn fits(&self, packet: &Arrived<'_>, mtu: u32) -> bool {
        let length = u32::from(packet.length);
        if self.atomic {
            return packet.opcode == Opcode::ATOMIC_ACKNOWLEDGE && length == 0;
        }
        let last = self.left <= mtu;
        let has_place = match packet.opcode {
            Opcode::READ_RESPONSE_FIRST => !last,
            Opcode::READ_RESPONSE_MIDDLE => !self.fresh && !last,
            Opcode::READ_RESPONSE_LAST => !self.fresh && last,
            Opcode::READ_RESPONSE_ONLY => last,
            _ => false,
        };
        has_place && length == self.left.min(mtu)
    }
}

#[cfg(test)]
#[path = "requester_tests.rs"]
mod tests;
