//! The whole receive path: frames in; memory, completions, answers and the host's frames out.
//!
//! Both halves of `receive_pipeline`, with every window moved on as soon as it can and a memory that answers at once: one legal order of all
//! that the RTL may do. Queue pairs are independent of each other, so that it is the only one where nothing is refused for want of a slot.

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{MemoryRegion, PacketDescriptor, QueuePairContext, ReceiveRequest};

use super::requests::{self, Effects, Memory, Requests};
use super::{Destination, Moment, ReceivePipeline};
use crate::ack_engine::NotDue;
use crate::frame::Frame;
use crate::reorder_buffer::{Released, Space};

/// What was generated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// From the parser to the acknowledgements.
    pub pipeline: super::Config,
    /// From the responder to the answers.
    pub requests: requests::Config,
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            pipeline: config.into(),
            requests: config.into(),
        }
    }
}

/// What comes of a frame, or of a write of the host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Where the frame ended; `None` where there was no frame.
    pub destination: Option<Destination>,
    /// Control packets of `ack_engine`.
    pub control: Vec<PacketDescriptor>,
    /// What the requests behind it did.
    pub effects: Effects,
}

/// The composition.
#[derive(Debug, Clone)]
pub struct ReceivePath {
    pipeline: ReceivePipeline,
    requests: Requests,
}

impl ReceivePath {
    /// The path after reset.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            pipeline: ReceivePipeline::new(config.pipeline),
            requests: Requests::new(config.requests),
        }
    }

    /// Counters of both halves.
    #[must_use]
    pub fn counters(&self) -> (super::Counters, requests::Counters) {
        (self.pipeline.counters(), self.requests.counters())
    }

    /// The first half, to look at.
    #[must_use]
    pub fn pipeline(&self) -> &ReceivePipeline {
        &self.pipeline
    }

    /// Writes a queue pair's context.
    pub fn write_context(&mut self, context: &QueuePairContext, memory: &mut impl Memory) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(written) = self.pipeline.write_context(context) {
            outcome.effects = self.requests.write_context(&written, memory);
            self.answer(&mut outcome);
        }
        outcome
    }

    /// Writes a memory region.
    pub fn write_region(&mut self, region: &MemoryRegion) {
        self.requests.write_region(region);
    }

    /// Takes a receive request of the host; packets that waited for it move on.
    pub fn post(&mut self, request: &ReceiveRequest, memory: &mut impl Memory) -> Outcome {
        let (credit, effects) = self.requests.post(request, memory);
        let mut outcome = Outcome {
            effects,
            ..Outcome::default()
        };
        if credit {
            self.pipeline.credit(request.qpn);
            self.move_on(request.qpn, memory, &mut outcome);
        }
        self.answer(&mut outcome);
        outcome
    }

    /// Takes a frame.
    pub fn receive(&mut self, frame: &Frame, moment: &Moment, memory: &mut impl Memory) -> Outcome {
        let mut outcome = Outcome::default();
        self.receive_into(frame, moment, memory, &mut outcome);
        outcome
    }

    /// As [`Self::receive`], into an outcome that is empty.
    pub fn receive_into(&mut self, frame: &Frame, moment: &Moment, memory: &mut impl Memory, outcome: &mut Outcome) {
        let (destination, given) = self.pipeline.receive_into(frame, moment, &mut outcome.control);
        if let Some(given) = given {
            self.requests.take(given, memory, &mut outcome.effects);
        }
        if let Destination::Sequence(report) = &destination {
            self.move_on(report.qpn, memory, outcome);
        }
        outcome.destination = Some(destination);
        self.answer(outcome);
    }

    /// When the timer's SACK of a space becomes legal; `None`: nothing is unreported.
    #[must_use]
    pub fn due_ns(&self, qpn: u32, space: Space) -> Option<u64> {
        self.pipeline.due_ns(qpn, space)
    }

    /// The SACK of the timer, given at `now_ns`.
    ///
    /// # Errors
    /// [`NotDue`]: it may not be sent at this time.
    pub fn expire(&mut self, qpn: u32, space: Space, now_ns: u64) -> Result<PacketDescriptor, NotDue> {
        self.pipeline.expire(qpn, space, now_ns)
    }

    fn move_on(&mut self, qpn: u32, memory: &mut impl Memory, outcome: &mut Outcome) {
        for space in Space::ALL {
            loop {
                match self.pipeline.release(qpn, space) {
                    Released::Nothing => break,
                    Released::Moved => {}
                    Released::Given(given) => self.requests.take(given, memory, &mut outcome.effects),
                }
            }
        }
    }

    fn answer(&mut self, outcome: &mut Outcome) {
        for answer in &outcome.effects.answers {
            outcome.control.extend(self.pipeline.answer(answer));
        }
    }
}
