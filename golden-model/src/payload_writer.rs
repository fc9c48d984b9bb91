//! `payload_writer`: puts payload where `responder` says, and lets nothing of a packet be known before memory has it and all before.
//!
//! It owns the packets whose writes are on their way, in the order in which they came, and which queue pairs memory has failed. It never decides
//! where payload goes nor what is answered, and never reorders. Theory of operation: `docs/src/blocks/payload_writer.md`.

use std::collections::{BTreeSet, VecDeque};

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    Completion, CompletionStatus, MemoryWrite, PayloadWrite, QueuePairContext, WorkOpcode,
};
use spraynic_wire::{NakCode, Opcode, Operation, Syndrome};

use crate::counter::count;

/// What was generated: the part of the configuration that this block's behaviour depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Queue pairs: QPN 0 to `queue_pairs - 1`.
    pub queue_pairs: u32,
    /// Bytes of a beat: a power of two, at most 128.
    pub beat_bytes: usize,
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            queue_pairs: config.queue_pairs.count,
            beat_bytes: config.datapath.width_bits as usize / 8,
        }
    }
}

/// Counters, as the ports `count_…` of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets taken.
    pub packets: u32,
    /// Writes that memory was asked for.
    pub writes: u32,
    /// Packets with payload that was not to be written.
    pub discards: u32,
    /// Completions given.
    pub completions: u32,
    /// Writes that memory refused.
    pub write_errors: u32,
}

/// A beat of data on the way to memory: byte 0 is of an address that is a multiple of the bus width.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Beat {
    /// The bytes; those without a strobe have no meaning, and are 0 here.
    pub data: Vec<u8>,
    /// Bit i: byte i is written.
    pub strobes: u128,
}

/// A write with its data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AlignedWrite {
    /// Where it goes.
    pub write: MemoryWrite,
    /// Its data: the beats that its bytes span, at least one.
    pub beats: Vec<Beat>,
}

impl AlignedWrite {
    /// The beats that bytes span from an address on.
    ///
    /// # Panics
    /// When `beat_bytes` is 0.
    #[must_use]
    pub fn new(address: u64, bytes: &[u8], beat_bytes: usize) -> Self {
        let offset = (address % beat_bytes as u64) as usize;
        let mut beats = vec![
            Beat {
                data: vec![0; beat_bytes],
                strobes: 0,
            };
            (offset + bytes.len()).div_ceil(beat_bytes)
        ];
        for (place, byte) in (offset..).zip(bytes) {
            let beat = &mut beats[place / beat_bytes];
            beat.data[place % beat_bytes] = *byte;
            beat.strobes |= 1 << (place % beat_bytes);
        }
        Self {
            write: MemoryWrite {
                address,
                length: bytes.len() as u16,
                ..MemoryWrite::default()
            },
            beats,
        }
    }
}

/// What leaves when memory has a packet's write and all before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Done {
    /// What the host learns.
    pub completion: Option<Completion>,
    /// What `response_engine` has to answer or to execute.
    pub response: Option<PayloadWrite>,
}

/// The block: packets that wait for memory, failed queue pairs, counters.
#[derive(Debug, Clone)]
pub struct PayloadWriter {
    config: Config,
    /// Packets in their order; those that wait for a write of their own.
    waiting: VecDeque<(PayloadWrite, bool)>,
    /// Writes that memory has answered, and whether it refused them, that no packet has taken yet.
    written: VecDeque<bool>,
    failed: BTreeSet<u32>,
    counters: Counters,
}

impl PayloadWriter {
    /// The block after reset: nothing waits, all counters are 0.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            waiting: VecDeque::new(),
            written: VecDeque::new(),
            failed: BTreeSet::new(),
            counters: Counters::default(),
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Packets that have not left: [`Self::release`] gives them when memory has what they wait for.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes a context write that `qp_lookup` passed on: a queue pair that does not receive is no longer failed. (Its marker, behind the
    /// packets of before, ends what those have made fail since.)
    pub fn write_context(&mut self, context: &QueuePairContext) {
        if !context.receives() {
            self.failed.remove(&context.qpn);
        }
    }

    /// Takes a packet with its payload, `length` bytes, and gives the write that memory is asked for, as beats, if there is one.
    pub fn take(&mut self, packet: &PayloadWrite, payload: &[u8]) -> Option<AlignedWrite> {
        debug_assert_eq!(payload.len(), usize::from(packet.length));
        let write = self.accept(packet)?;
        Some(AlignedWrite::new(write.address, payload, self.config.beat_bytes))
    }

    /// Takes a packet whose payload does not matter, and gives the write that memory is asked for, if there is one.
    pub fn accept(&mut self, packet: &PayloadWrite) -> Option<MemoryWrite> {
        let writes = packet.length != 0 && !packet.discard;
        self.waiting.push_back((*packet, writes));
        count(&mut self.counters.packets);
        if packet.length != 0 && packet.discard {
            count(&mut self.counters.discards);
        }
        writes.then(|| {
            count(&mut self.counters.writes);
            MemoryWrite {
                address: packet.address,
                length: packet.length,
                ..MemoryWrite::default()
            }
        })
    }

    /// Memory has answered the oldest write that it had not answered yet.
    pub fn written(&mut self, refused: bool) {
        self.written.push_back(refused);
    }

    /// The next packet that may leave: memory has its write, and it is the oldest one.
    pub fn release(&mut self) -> Option<Done> {
        let (packet, writes) = *self.waiting.front()?;
        let refused = if writes { self.written.pop_front()? } else { false };
        self.waiting.pop_front();
        if refused {
            count(&mut self.counters.write_errors);
            if packet.qpn < self.config.queue_pairs {
                self.failed.insert(packet.qpn);
            }
        }
        if packet.marker && packet.closed {
            self.failed.remove(&packet.qpn);
        }
        let failed = refused || self.failed.contains(&packet.qpn);
        let packet = if failed { fail(packet, refused) } else { packet };
        let completion = packet.completion.then(|| {
            count(&mut self.counters.completions);
            completion_of(&packet)
        });
        Some(Done {
            completion,
            response: (packet.answer || packet.execute || packet.marker).then_some(packet),
        })
    }
}

/// A packet of a queue pair that memory has failed: what would be acknowledged or executed is refused as the responder's own fault
/// (IBA volume 1, table 62: remote operational error), and the packet whose write was refused says so at once.
fn fail(packet: PayloadWrite, refused: bool) -> PayloadWrite {
    let status = if packet.status == CompletionStatus::Success as u8 {
        CompletionStatus::LocalMemory as u8
    } else {
        packet.status
    };
    PayloadWrite {
        answer: packet.answer || packet.execute || refused,
        execute: false,
        silent: false,
        syndrome: Syndrome::Nak(NakCode::RemoteOperationalError).byte(),
        status,
        ..packet
    }
}

/// The completion of the receive request that a packet used up.
#[must_use]
pub fn completion_of(packet: &PayloadWrite) -> Completion {
    Completion {
        cookie: packet.cookie,
        qpn: packet.qpn,
        status: packet.status,
        opcode: work_opcode(packet.opcode) as u8,
        solicited: packet.solicited,
        has_immediate: packet.has_immediate,
        byte_count: packet.byte_count,
        immediate: packet.immediate,
        ..Completion::default()
    }
}

/// The operation that the peer asked for, by the BTH opcode of a packet of it: what the peer's own completion says too. SEND, if it is
/// neither a SEND with invalidate nor a WRITE.
#[must_use]
pub fn work_opcode(opcode: u8) -> WorkOpcode {
    let opcode = Opcode(opcode);
    match opcode.info().map(|info| info.operation) {
        Some(Operation::Write) => WorkOpcode::Write,
        _ if opcode == Opcode::SEND_LAST_INVALIDATE || opcode == Opcode::SEND_ONLY_INVALIDATE => {
            WorkOpcode::SendInvalidate
        }
        _ => WorkOpcode::Send,
    }
}

#[cfg(test)]
#[path = "payload_writer_tests.rs"]
mod tests;
