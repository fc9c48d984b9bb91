//! The golden models from the responder to the answers, in step with the RTL's `responder` (packets, context writes, receive requests) and
//! `memory_regions` (accesses, region writes).

use std::collections::{BTreeMap, VecDeque};

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    Answer, Completion, MemoryRegion, PacketDescriptor, PayloadWrite, QueuePairContext, ReceiveRequest,
    ResponseMessage, SequencedPacket,
};
use spraynic_golden::memory_regions::MemoryRegions;
use spraynic_golden::payload_writer::PayloadWriter;
use spraynic_golden::receive_pipeline::requests::{Config, Counters, Memory};
use spraynic_golden::responder::{Given, Posted, Responder};
use spraynic_golden::response_engine::ResponseEngine;

use super::super::Scenario;
use super::Difference;
use super::front::Front;
use super::lives::Lives;
use super::order::{AtRegions, Taken};

/// The models and what they have given.
pub(super) struct Back {
    responder: Responder,
    regions: MemoryRegions,
    writer: PayloadWriter,
    engine: ResponseEngine,
    region_writes: VecDeque<MemoryRegion>,
    pub(super) memory: Vec<u8>,
    pub(super) completions: Vec<Completion>,
    pub(super) responses: Vec<PacketDescriptor>,
    pub(super) messages: Vec<ResponseMessage>,
    /// Answers to `ack_engine`, by queue pair: between them the order is a matter of time.
    /// Each with the life of its queue pair in which the packet came.
    pub(super) answers: BTreeMap<u32, VecDeque<(usize, Answer)>>,
    lives: Lives,
    pub(super) requester: Vec<SequencedPacket>,
    pub(super) requester_payload: Vec<Vec<u8>>,
    /// Credits given, by queue pair.
    credits: BTreeMap<u32, u32>,
}

impl Back {
    pub(super) fn new(config: &NicConfig, scenario: &Scenario) -> Self {
        let config = Config::from(config);
        Self {
            responder: Responder::new(config.responder),
            regions: MemoryRegions::new(config.memory_regions),
            writer: PayloadWriter::new(config.payload_writer),
            engine: ResponseEngine::new(config.response_engine),
            region_writes: scenario.region_writes().copied().collect(),
            memory: scenario.memory.clone(),
            completions: Vec::new(),
            responses: Vec::new(),
            messages: Vec::new(),
            answers: BTreeMap::new(),
            lives: Lives::default(),
            requester: Vec::new(),
            requester_payload: Vec::new(),
            credits: BTreeMap::new(),
        }
    }

    pub(super) fn counters(&self) -> Counters {
        Counters {
            responder: *self.responder.counters(),
            memory_regions: *self.regions.counters(),
            payload_writer: *self.writer.counters(),
            response_engine: *self.engine.counters(),
        }
    }

    /// Gives the models everything, as the RTL took it.
    pub(super) fn follow(
        &mut self,
        scenario: &Scenario,
        front: &mut Front<'_>,
        order: VecDeque<Taken>,
        mut at_regions: VecDeque<AtRegions>,
    ) -> Result<(), Difference> {
        let fail = |block: &'static str, index: usize, problem: String| Difference::Event { block, index, problem };
        let mut contexts = front.written.iter();
        let mut posted = scenario.posted_requests();
        let count = order.len();
        for (index, taken) in order.into_iter().enumerate() {
            let problem = match taken {
                Taken::Packet(way) => match front.given.get_mut(&way).and_then(VecDeque::pop_front) {
                    Some(given) => self.packet(&given.packet, given.payload, &mut at_regions).err(),
                    None => Some(format!("golden has not given such a packet: {way:?}")),
                },
                Taken::Context => match contexts.next() {
                    Some(context) => {
                        self.context(context);
                        None
                    }
                    None => Some("a context that nobody wrote".to_owned()),
                },
                Taken::Request => match posted.next() {
                    Some(request) => {
                        self.post(request);
                        None
                    }
                    None => Some("a receive request that nobody posted".to_owned()),
                },
            };
            if let Some(problem) = problem {
                return Err(fail("responder", index, problem));
            }
        }
        if let Some(given) = front.given.values().flatten().next() {
            return Err(fail("responder", count, format!("lost: {:?}", given.packet)));
        }
        if contexts.next().is_some() || posted.next().is_some() {
            return Err(fail(
                "responder",
                count,
                "a context or receive request was not taken".to_owned(),
            ));
        }
        self.write_regions(&mut at_regions);
        if !at_regions.is_empty() || !self.region_writes.is_empty() {
            let problem = format!("left over: {at_regions:?}, region writes {:?}", self.region_writes);
            return Err(fail("memory_regions", 0, problem));
        }
        if self.credits != front.credits {
            let problem = format!("credits counted {:?}, given {:?}", front.credits, self.credits);
            return Err(fail("reorder_buffer", 0, problem));
        }
        Ok(())
    }

    /// The region writes that came before the next access.
    fn write_regions(&mut self, at_regions: &mut VecDeque<AtRegions>) {
        while at_regions.front() == Some(&AtRegions::Write)
            && let Some(region) = self.region_writes.pop_front()
        {
            at_regions.pop_front();
            self.regions.write_region(&region);
        }
    }

    fn packet(
        &mut self,
        packet: &SequencedPacket,
        payload: Vec<u8>,
        at_regions: &mut VecDeque<AtRegions>,
    ) -> Result<(), String> {
        self.write_regions(at_regions);
        let Self {
            responder,
            regions,
            region_writes,
            ..
        } = self;
        let mut missing = false;
        let given = responder.receive(packet, payload, |access| {
            while at_regions.front() == Some(&AtRegions::Write)
                && let Some(region) = region_writes.pop_front()
            {
                at_regions.pop_front();
                regions.write_region(&region);
            }
            missing |= at_regions.pop_front() != Some(AtRegions::Access);
            regions.access(access)
        });
        if missing {
            return Err(format!("memory_regions was not asked: {packet:?}"));
        }
        match given {
            Given::Request(write, payload) => self.commit(&write, &payload),
            Given::Response(packet, payload) => {
                self.requester.push(packet);
                if !payload.is_empty() {
                    self.requester_payload.push(payload);
                }
            }
        }
        Ok(())
    }

    fn context(&mut self, context: &QueuePairContext) {
        self.lives.write(context);
        let flushed = self.responder.write_context(context);
        self.writer.write_context(context);
        self.engine.write_context(context);
        for write in flushed {
            self.commit(&write, &[]);
        }
    }

    fn post(&mut self, request: &ReceiveRequest) {
        match self.responder.post(request) {
            Posted::Credit(qpn) => *self.credits.entry(qpn).or_default() += 1,
            Posted::Flushed(write) => self.commit(&write, &[]),
            Posted::NoQueuePair | Posted::Full => {}
        }
    }

    fn commit(&mut self, write: &PayloadWrite, payload: &[u8]) {
        if let Some(aligned) = self.writer.take(write, payload) {
            let done = self.memory.write_payload(aligned.write.address, payload);
            self.writer.written(!done);
        }
        while let Some(done) = self.writer.release() {
            self.completions.extend(done.completion);
            if let Some(response) = done.response {
                let given = self.engine.take(&response, &mut self.memory);
                match given.packets.message() {
                    Some(message) => self.messages.push(message),
                    None => self.responses.extend(given.packets),
                }
                // Markers end in `receive_pipeline` itself.
                if let Some(answer) = given.answer.filter(|answer| !answer.marker) {
                    let life = self.lives.of(answer.qpn);
                    self.answers.entry(answer.qpn).or_default().push_back((life, answer));
                }
            }
        }
    }
}
