//! `requester`: takes the responses to own READs and atomics, puts them into memory and says when they are done.
//!
//! It owns what responses a queue pair waits for. It never asks again for one that is missing (`retransmit_engine` does) and gives no
//! completions (`work_queue` does). Theory of operation: `docs/src/blocks/requester.md`.

use std::collections::VecDeque;

use spraynic_config::descriptor::{
    CompletionStatus, MemoryWrite, QueuePairState, ReceivedPacket, ResponseDone, SendContext, SequencedPacket,
    WorkOpcode, WorkRequest, WorkSlice,
};
use spraynic_config::{NicConfig, Profile};
use spraynic_wire::{Opcode, Psn};

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
    /// Bytes of payload that went to memory.
    pub bytes: u64,
    /// READs and atomics done.
    pub done: u32,
    /// Of these, those that failed: the response was not what was asked for, or memory refused it.
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
    /// PSN of its first response (roce).
    psn: Psn,
    /// Where the next payload goes.
    address: u64,
    /// Bytes that are missing.
    left: u32,
    /// Packets that are missing.
    packets: u32,
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
    refused: bool,
}

/// What becomes of a response packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Given {
    /// Where its payload goes; atomics: the 8 bytes of `original`.
    pub write: Option<MemoryWrite>,
    /// Atomics: the value that memory had, as a little-endian number.
    pub original: Option<u64>,
    /// The READ or atomic that ends with it, once memory has answered this write and all before it: see [`Requester::settle`].
    pub done: Option<ResponseDone>,
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
                    refused: false,
                });
            }
        }
    }

    /// A READ or an atomic that is sent for the first time. What is sent again changes nothing.
    pub fn expect(&mut self, request: &WorkRequest, slice: &WorkSlice) {
        let atomic = match WorkOpcode::from_code(request.opcode) {
            Some(WorkOpcode::Read) => false,
            Some(WorkOpcode::CompareSwap | WorkOpcode::FetchAdd) => true,
            _ => return,
        };
        if slice.retransmission {
            return;
        }
        let found = self
            .queue_pairs
            .get_mut(request.qpn as usize)
            .and_then(Option::as_mut)
            .filter(|queue_pair| queue_pair.expected.len() < self.config.reads);
        let Some(queue_pair) = found else {
            step(&mut self.counters.drop_expected);
            return;
        };
        queue_pair.expected.push_back(Expected {
            slot: slice.slot,
            atomic,
            psn: Psn::new(slice.psn),
            address: request.local_address,
            left: request.length,
            packets: if atomic {
                1
            } else {
                request.length.div_ceil(queue_pair.mtu).max(1)
            },
            fresh: true,
        });
    }

    /// solar: a packet of the response space, each once and in order.
    pub fn response(&mut self, packet: &SequencedPacket) -> Given {
        let opcode = Opcode(packet.opcode);
        self.take(packet.qpn, opcode, None, packet.payload_length, &packet.extension.0)
    }

    /// roce: a READ response or an atomic ACK, as it comes.
    pub fn feedback(&mut self, packet: &ReceivedPacket) -> Given {
        let psn = Some(Psn::new(packet.psn));
        self.take(
            packet.qpn,
            Opcode(packet.opcode),
            psn,
            packet.payload_length,
            &packet.extension.0,
        )
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

    fn take(&mut self, qpn: u32, opcode: Opcode, psn: Option<Psn>, length: u16, extension: &[u8]) -> Given {
        let counters = &mut self.counters;
        let queue_pair = self.queue_pairs.get_mut(qpn as usize).and_then(Option::as_mut);
        let fits =
            |queue_pair: &&mut QueuePair| !queue_pair.failed && (queue_pair.profile == Profile::Roce) == psn.is_some();
        let Some(queue_pair) = queue_pair.filter(fits) else {
            step(&mut counters.drop_unexpected);
            return Given::default();
        };
        let mtu = queue_pair.mtu;
        let Some(expected) = queue_pair.expected.front_mut() else {
            step(&mut counters.drop_unexpected);
            return Given::default();
        };
        if psn.is_some_and(|psn| psn != expected.psn) {
            step(&mut counters.drop_sequence);
            return Given::default();
        }
        step(&mut counters.packets);
        let whole = expected.left.min(mtu);
        let asked_for = if expected.atomic {
            opcode == Opcode::ATOMIC_ACKNOWLEDGE && length == 0
        } else {
            expected.is_its_opcode(opcode) && u32::from(length) == whole
        };
        if !asked_for {
            queue_pair.failed = true;
            step(&mut counters.done);
            step(&mut counters.failed);
            return Given {
                done: Some(ResponseDone {
                    qpn,
                    slot: expected.slot,
                    status: CompletionStatus::BadResponse as u8,
                }),
                ..Given::default()
            };
        }
        let original = expected.atomic.then(|| {
            // Behind the AETH stands the AtomicAckETH.
            let bytes = extension.get(4..12).and_then(|bytes| bytes.try_into().ok());
            u64::from_be_bytes(bytes.unwrap_or_default())
        });
        let bytes = if expected.atomic { 8 } else { length };
        let write = (bytes > 0).then(|| MemoryWrite {
            address: expected.address,
            length: bytes,
            ..MemoryWrite::default()
        });
        counters.bytes = counters.bytes.wrapping_add(bytes.into());
        expected.fresh = false;
        expected.psn += 1;
        expected.packets -= 1;
        expected.left -= u32::from(bytes);
        expected.address = expected.address.wrapping_add(bytes.into());
        let done = (expected.packets == 0).then(|| {
            step(&mut counters.done);
            ResponseDone {
                qpn,
                slot: expected.slot,
                status: CompletionStatus::Success as u8,
            }
        });
        if done.is_some() {
            queue_pair.expected.pop_front();
        }
        Given { write, original, done }
    }

    /// Memory refused a write of this queue pair: what it waits for cannot be relied on from then on.
    pub fn refuse(&mut self, qpn: u32) {
        if let Some(Some(queue_pair)) = self.queue_pairs.get_mut(qpn as usize) {
            queue_pair.refused = true;
        }
    }

    /// Takes a `done` once memory has answered all writes up to it, and gives it as it goes to `work_queue`: with status `LocalMemory` if
    /// memory refused one.
    pub fn settle(&mut self, done: ResponseDone) -> ResponseDone {
        let refused = match self.queue_pairs.get(done.qpn as usize) {
            Some(Some(queue_pair)) => queue_pair.refused && done.status == CompletionStatus::Success as u8,
            _ => false,
        };
        if !refused {
            return done;
        }
        step(&mut self.counters.failed);
        ResponseDone {
            status: CompletionStatus::LocalMemory as u8,
            ..done
        }
    }
}

impl Expected {
    /// The opcode that the next packet must have. A READ that was asked for again (roce) may begin anew in its middle, with `first` or `only`,
    /// because its responder knows only the rest.
    fn is_its_opcode(&self, opcode: Opcode) -> bool {
        let last = self.packets == 1;
        match opcode {
            Opcode::READ_RESPONSE_FIRST => !last,
            Opcode::READ_RESPONSE_MIDDLE => !self.fresh && !last,
            Opcode::READ_RESPONSE_LAST => !self.fresh && last,
            Opcode::READ_RESPONSE_ONLY => last,
            _ => false,
        }
    }
}

fn step(counter: &mut u32) {
    *counter = counter.wrapping_add(1);
}

#[cfg(test)]
#[path = "requester_tests.rs"]
mod tests;
