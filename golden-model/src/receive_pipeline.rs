//! `receive_pipeline`: frames from the MAC in; packets in order, control packets and the host's frames out.
//!
//! It composes the blocks from `packet_parser` to `ack_engine` and adds no rule of its own. What depends on time it is told: when a
//! credit comes, which window moves on, and when a timer's SACK is sent.
//! [`path::ReceivePath`] adds the blocks behind, up to memory. Theory of operation: `docs/src/blocks/receive_pipeline.md`.

pub mod path;
pub mod requests;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    Answer, PacketContext, PacketDescriptor, QueuePairContext, ReceivedPacket, SequenceReport,
};

use crate::ack_engine::{self, AckEngine, NotDue, Pacing};
use crate::frame::Frame;
use crate::icrc::check::{self, IcrcCheck};
use crate::packet_parser::{self, PacketParser, Parsed, TrimmedDscp};
use crate::qp_lookup::{self, QpLookup, Route};
use crate::reorder_buffer::{self, Arrival, Given, Released, ReorderBuffer, Space};

/// What was generated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The parser's part.
    pub packet_parser: packet_parser::Config,
    /// The lookup's part.
    pub qp_lookup: qp_lookup::Config,
    /// The reorder buffer's part.
    pub reorder_buffer: reorder_buffer::Config,
    /// The acknowledgement engine's part.
    pub ack_engine: ack_engine::Config,
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            packet_parser: config.into(),
            qp_lookup: config.into(),
            reorder_buffer: config.into(),
            ack_engine: config.into(),
        }
    }
}

/// Counters of the blocks inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Of `packet_parser`.
    pub packet_parser: packet_parser::Counters,
    /// Of `icrc`.
    pub icrc: check::Counters,
    /// Of `qp_lookup`.
    pub qp_lookup: qp_lookup::Counters,
    /// Of `reorder_buffer`.
    pub reorder_buffer: reorder_buffer::Counters,
    /// Of `ack_engine`.
    pub ack_engine: ack_engine::Counters,
}

/// Where a frame ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// It is the host's.
    SlowPath(Vec<u8>),
    /// `packet_parser` dropped it.
    Malformed(packet_parser::DropReason),
    /// `icrc` dropped it.
    WrongIcrc,
    /// `qp_lookup` dropped it.
    Refused(qp_lookup::DropReason),
    /// It takes a PSN: `reorder_buffer` says what became of it.
    Sequence(SequenceReport),
    /// It is for the requester, with its payload (roce: READ responses).
    Feedback(Box<ReceivedPacket>, PacketContext, Vec<u8>),
    /// It asks for a SACK.
    Probe(Box<ReceivedPacket>),
    /// It is for path management.
    Endpoint(Box<ReceivedPacket>),
}

/// What comes of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Where it ended.
    pub destination: Destination,
    /// The packet, if it is given at once.
    pub given: Option<Given>,
    /// Control packets that are due by it.
    pub control: Vec<PacketDescriptor>,
}

/// What is told about the moment at which a frame comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moment {
    /// DSCPs of trimmed packets.
    pub trimmed_dscp: TrimmedDscp,
    /// When to acknowledge.
    pub pacing: Pacing,
    /// Time in nanoseconds.
    pub now_ns: u64,
}

/// The composition of the receive blocks.
#[derive(Debug, Clone)]
pub struct ReceivePipeline {
    parser: PacketParser,
    icrc: IcrcCheck,
    lookup: QpLookup,
    buffer: ReorderBuffer,
    acks: AckEngine,
}

impl ReceivePipeline {
    /// The pipeline after reset.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            parser: PacketParser::new(config.packet_parser),
            icrc: IcrcCheck::new(),
            lookup: QpLookup::new(config.qp_lookup),
            buffer: ReorderBuffer::new(config.reorder_buffer),
            acks: AckEngine::new(config.ack_engine),
        }
    }

    /// Writes a queue pair's context; it holds for all frames taken from then on. Gives what stands in the table now, for the blocks behind;
    /// `None`: no such queue pair.
    pub fn write_context(&mut self, context: &QueuePairContext) -> Option<QueuePairContext> {
        let written = self.lookup.write_context(context)?;
        self.buffer.write_context(&written);
        self.acks.write_context(&written);
        Some(written)
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            packet_parser: *self.parser.counters(),
            icrc: *self.icrc.counters(),
            qp_lookup: *self.lookup.counters(),
            reorder_buffer: *self.buffer.counters(),
            ack_engine: *self.acks.counters(),
        }
    }

    /// The reorder buffer, to look at.
    #[must_use]
    pub fn reorder_buffer(&self) -> &ReorderBuffer {
        &self.buffer
    }

    /// Takes a frame.
    pub fn receive(&mut self, frame: &Frame, moment: &Moment) -> Received {
        let mut control = Vec::new();
        let (destination, given) = self.receive_into(frame, moment, &mut control);
        Received {
            destination,
            given,
            control,
        }
    }

    /// As [`Self::receive`]; control packets that are due are put behind those that are there.
    pub fn receive_into(
        &mut self,
        frame: &Frame,
        moment: &Moment,
        control: &mut Vec<PacketDescriptor>,
    ) -> (Destination, Option<Given>) {
        let only = |destination| (destination, None);
        let (packet, payload) = match self.parser.receive(frame, moment.trimmed_dscp) {
            Ok(Parsed::Packet { packet, payload }) => (packet, payload),
            Ok(Parsed::SlowPath(bytes)) => return only(Destination::SlowPath(bytes)),
            Err(reason) => return only(Destination::Malformed(reason)),
        };
        if !self.icrc.check(&frame.bytes, &packet).passes() {
            return only(Destination::WrongIcrc);
        }
        let context = match self.lookup.look_up(&packet) {
            Ok(context) => context,
            Err(reason) => return only(Destination::Refused(reason)),
        };
        match Route::ALL[usize::from(context.route & 3)] {
            Route::Feedback => only(Destination::Feedback(packet, context, payload)),
            Route::Endpoint => only(Destination::Endpoint(packet)),
            Route::Probe => {
                control.extend(self.acks.probe(&packet));
                only(Destination::Probe(packet))
            }
            Route::Sequence => {
                let (report, given) = self.buffer.receive(Arrival {
                    packet: *packet,
                    context,
                    payload,
                });
                self.acks.report_into(&report, &moment.pacing, moment.now_ns, control);
                (Destination::Sequence(report), given)
            }
        }
    }

    /// Takes a credit of `responder`: the queue pair has one receive request more.
    pub fn credit(&mut self, qpn: u32) {
        self.buffer.credit(qpn);
    }

    /// Moves the window of a space on by one PSN, if it can.
    pub fn release(&mut self, qpn: u32, space: Space) -> Released {
        self.buffer.release(qpn, space)
    }

    /// Takes an answer of `responder`.
    pub fn answer(&mut self, answer: &Answer) -> Option<PacketDescriptor> {
        self.acks.answer(answer)
    }

    /// When the timer's SACK of a space becomes legal; `None`: nothing is unreported.
    #[must_use]
    pub fn due_ns(&self, qpn: u32, space: Space) -> Option<u64> {
        self.acks.due_ns(qpn, space)
    }

    /// The SACK of the timer, given at `now_ns`.
    ///
    /// # Errors
    /// [`NotDue`]: it may not be sent at this time.
    pub fn expire(&mut self, qpn: u32, space: Space, now_ns: u64) -> Result<PacketDescriptor, NotDue> {
        self.acks.expire(qpn, space, now_ns)
    }
}

#[cfg(test)]
#[path = "receive_pipeline_tests.rs"]
mod tests;
