//! The second half of `receive_pipeline`: packets in order in; memory, completions and answers out.
//!
//! `responder`, `memory_regions`, `payload_writer` and `response_engine` in a row, on a memory that answers at once. It adds no rule of its own.

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    Answer, Completion, MemoryRegion, PacketDescriptor, PayloadWrite, QueuePairContext, ReceiveRequest, SequencedPacket,
};

use crate::memory_regions::{self, MemoryRegions};
use crate::payload_writer::{self, PayloadWriter};
use crate::reorder_buffer;
use crate::responder::{self, Given, Posted, Responder};
use crate::response_engine::{self, AtomicMemory, Packets, ResponseEngine};

/// Memory as the receive path sees it.
pub trait Memory: AtomicMemory {
    /// Writes payload; false: refused.
    fn write_payload(&mut self, address: u64, bytes: &[u8]) -> bool;
}

impl Memory for Vec<u8> {
    fn write_payload(&mut self, address: u64, bytes: &[u8]) -> bool {
        let place = usize::try_from(address).ok();
        let slice = place.and_then(|start| self.get_mut(start..start.checked_add(bytes.len())?));
        slice.map(|slice| slice.copy_from_slice(bytes)).is_some()
    }
}

/// What was generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The responder's part.
    pub responder: responder::Config,
    /// The region table's part.
    pub memory_regions: memory_regions::Config,
    /// The writer's part.
    pub payload_writer: payload_writer::Config,
    /// The response engine's part.
    pub response_engine: response_engine::Config,
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            responder: config.into(),
            memory_regions: config.into(),
            payload_writer: config.into(),
            response_engine: config.into(),
        }
    }
}

/// Counters of the blocks inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Of `responder`.
    pub responder: responder::Counters,
    /// Of `memory_regions`.
    pub memory_regions: memory_regions::Counters,
    /// Of `payload_writer`.
    pub payload_writer: payload_writer::Counters,
    /// Of `response_engine`.
    pub response_engine: response_engine::Counters,
}

/// What leaves, in the order in which each port gives it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effects {
    /// To the host.
    pub completions: Vec<Completion>,
    /// To the transmit path, with payload from memory: the packets of one response each.
    pub responses: Vec<Packets>,
    /// To `ack_engine`.
    pub answers: Vec<Answer>,
    /// solar: responses to own requests, to the requester.
    pub requester: Vec<(SequencedPacket, Vec<u8>)>,
}

/// The composition.
#[derive(Debug, Clone)]
pub struct Requests {
    responder: Responder,
    regions: MemoryRegions,
    writer: PayloadWriter,
    engine: ResponseEngine,
}

impl Effects {
    /// The packets of all responses, in their order.
    pub fn response_packets(&self) -> impl Iterator<Item = PacketDescriptor> + '_ {
        self.responses.iter().flat_map(Clone::clone)
    }
}

impl Requests {
    /// The blocks after reset.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            responder: Responder::new(config.responder),
            regions: MemoryRegions::new(config.memory_regions),
            writer: PayloadWriter::new(config.payload_writer),
            engine: ResponseEngine::new(config.response_engine),
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            responder: *self.responder.counters(),
            memory_regions: *self.regions.counters(),
            payload_writer: *self.writer.counters(),
            response_engine: *self.engine.counters(),
        }
    }

    /// Writes a memory region: it holds for all packets given from then on.
    pub fn write_region(&mut self, region: &MemoryRegion) {
        self.regions.write_region(region);
    }

    /// Takes a context write that `qp_lookup` passed on.
    pub fn write_context(&mut self, context: &QueuePairContext, memory: &mut impl Memory) -> Effects {
        let mut effects = Effects::default();
        let flushed = self.responder.write_context(context);
        self.writer.write_context(context);
        self.engine.write_context(context);
        for write in flushed {
            self.commit(&write, &[], memory, &mut effects);
        }
        effects
    }

    /// Takes a receive request of the host; true: `reorder_buffer` gets a credit for it.
    pub fn post(&mut self, request: &ReceiveRequest, memory: &mut impl Memory) -> (bool, Effects) {
        let mut effects = Effects::default();
        let posted = self.responder.post(request);
        if let Posted::Flushed(write) = posted {
            self.commit(&write, &[], memory, &mut effects);
        }
        (matches!(posted, Posted::Credit(_)), effects)
    }

    /// Takes a packet of `reorder_buffer`.
    pub fn take(&mut self, given: reorder_buffer::Given, memory: &mut impl Memory, effects: &mut Effects) {
        let regions = &mut self.regions;
        match self
            .responder
            .receive(&given.packet, given.payload, |access| regions.access(access))
        {
            Given::Request(write, payload) => self.commit(&write, &payload, memory, effects),
            Given::Response(packet, payload) => effects.requester.push((packet, payload)),
        }
    }

    fn commit(&mut self, write: &PayloadWrite, payload: &[u8], memory: &mut impl Memory, effects: &mut Effects) {
        if let Some(asked) = self.writer.accept(write) {
            self.writer.written(!memory.write_payload(asked.address, payload));
        }
        while let Some(done) = self.writer.release() {
            effects.completions.extend(done.completion);
            if let Some(response) = done.response {
                let given = self.engine.take(&response, memory);
                if given.packets.total() > 0 {
                    effects.responses.push(given.packets);
                }
                effects.answers.extend(given.answer.filter(|answer| !answer.marker));
            }
        }
    }
}
