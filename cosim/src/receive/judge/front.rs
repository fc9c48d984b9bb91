//! The golden models from the parser to the reorder buffer, in step with the RTL's `qp_lookup` (packets and context writes) and
//! `reorder_buffer` (what took effect, credits and moved windows).

use std::collections::{BTreeMap, VecDeque};

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{PacketContext, QueuePairContext, ReceivedPacket, SequenceReport};
use spraynic_golden::packet_parser::TrimmedDscp;
use spraynic_golden::receive_pipeline::{Config, Counters, Destination, Moment, ReceivePipeline};
use spraynic_golden::reorder_buffer::{Given, Released, Space};
use spraynic_hdl::reorder_buffer::observed;

use super::super::{Result as Run, Scenario, TRIMMED, TRIMMED_LAST_HOP};
use super::Difference;
use super::lives::Lives;
use super::order::{LookedUp, Way, bits_of};
use crate::stream::Frame;

/// What comes to the reorder buffer.
enum Reached {
    Packet(SequenceReport),
    Context(QueuePairContext),
}

/// The models and what they have given.
pub(super) struct Front<'s> {
    pipeline: ReceivePipeline,
    lookup: VecDeque<LookedUp>,
    frames: Box<dyn Iterator<Item = &'s Frame> + 's>,
    contexts: VecDeque<QueuePairContext>,
    /// Context writes that `qp_lookup` passed on.
    pub(super) written: Vec<QueuePairContext>,
    /// Reports, each with the life of its queue pair in which the packet came.
    pub(super) reports: VecDeque<(usize, SequenceReport)>,
    lives: Lives,
    pub(super) probes: VecDeque<ReceivedPacket>,
    /// What the reorder buffer has given, oldest first.
    pub(super) given: BTreeMap<Way, VecDeque<Given>>,
    /// Credits counted, by queue pair.
    pub(super) credits: BTreeMap<u32, u32>,
    pub(super) slow_path: Vec<Vec<u8>>,
    pub(super) feedback: Vec<(ReceivedPacket, PacketContext)>,
    pub(super) feedback_payload: Vec<Vec<u8>>,
    pub(super) endpoint: Vec<ReceivedPacket>,
}

impl<'s> Front<'s> {
    pub(super) fn new(config: &NicConfig, scenario: &'s Scenario, lookup: VecDeque<LookedUp>) -> Self {
        Self {
            pipeline: ReceivePipeline::new(Config::from(config)),
            lookup,
            frames: Box::new(scenario.all_frames()),
            contexts: scenario.context_writes().copied().collect(),
            written: Vec::new(),
            reports: VecDeque::new(),
            lives: Lives::default(),
            probes: VecDeque::new(),
            given: BTreeMap::new(),
            credits: BTreeMap::new(),
            slow_path: Vec::new(),
            feedback: Vec::new(),
            feedback_payload: Vec::new(),
            endpoint: Vec::new(),
        }
    }

    pub(super) fn counters(&self) -> Counters {
        self.pipeline.counters()
    }

    /// Gives the models all frames and context writes, as the RTL took them.
    pub(super) fn follow(&mut self, run: &Run) -> Result<(), Difference> {
        let events = run.outcome.received("m_axis_event");
        for (index, event) in events.iter().enumerate() {
            self.event(bits_of(&event.data)).map_err(|problem| Difference::Event {
                block: "reorder_buffer",
                index,
                problem,
            })?;
        }
        self.finish().map_err(|problem| Difference::Event {
            block: "reorder_buffer",
            index: events.len(),
            problem,
        })
    }

    /// An event of `m_axis_event`: see `hdl/src/reorder_buffer.rs`.
    fn event(&mut self, bits: u128) -> Result<(), String> {
        let qpn = bits as u32 & 0xFF_FFFF;
        let space = Space::ALL[(bits >> 26) as usize & 1];
        let count = (bits >> 27) as u32 & 63;
        match (bits >> 24) as u8 & 3 {
            observed::CREDIT => {
                *self.credits.entry(qpn).or_default() += count;
                (0..count).for_each(|_| self.pipeline.credit(qpn));
            }
            observed::RELEASE => {
                for step in 0..count {
                    match self.pipeline.release(qpn, space) {
                        Released::Nothing => {
                            return Err(format!(
                                "the window of queue pair {qpn}, {space:?}, cannot move on by more than {step}"
                            ));
                        }
                        Released::Moved => {}
                        Released::Given(given) => self.give(given),
                    }
                }
            }
            kind => match (self.advance()?, kind) {
                (Some(Reached::Packet(report)), observed::PACKET) if report.qpn == qpn => {}
                (Some(Reached::Context(context)), observed::CONTEXT) if context.qpn == qpn => {}
                (Some(Reached::Packet(report)), _) => return Err(format!("golden has a packet: {report:?}")),
                (Some(Reached::Context(context)), _) => return Err(format!("golden has a context: {context:?}")),
                (None, _) => return Err("golden has nothing more".to_owned()),
            },
        }
        Ok(())
    }

    /// What stands behind the last thing that reaches the reorder buffer makes no event.
    fn finish(&mut self) -> Result<(), String> {
        match self.advance()? {
            Some(Reached::Packet(report)) => return Err(format!("the RTL has lost a packet: {report:?}")),
            Some(Reached::Context(context)) => return Err(format!("the RTL has lost a context: {context:?}")),
            None => {}
        }
        if self.next_packet().is_some() {
            return Err("the RTL's qp_lookup has lost a packet".to_owned());
        }
        match self.contexts.front() {
            Some(context) => Err(format!("a context was not taken: {context:?}")),
            None => Ok(()),
        }
    }

    /// Gives the models what `qp_lookup` took, until something reaches the reorder buffer.
    fn advance(&mut self) -> Result<Option<Reached>, String> {
        while let Some(looked_up) = self.lookup.pop_front() {
            if looked_up == LookedUp::Context {
                let context = self.contexts.pop_front().ok_or("a context that nobody wrote")?;
                if let Some(written) = self.pipeline.write_context(&context) {
                    self.written.push(written);
                    self.lives.write(&written);
                    return Ok(Some(Reached::Context(written)));
                }
                continue;
            }
            let destination = self
                .next_packet()
                .ok_or("qp_lookup took a packet, but no frame is left")?;
            match destination {
                Destination::Sequence(report) => {
                    self.reports.push_back((self.lives.of(report.qpn), report));
                    return Ok(Some(Reached::Packet(report)));
                }
                Destination::Probe(packet) => self.probes.push_back(*packet),
                Destination::Endpoint(packet) => self.endpoint.push(*packet),
                Destination::Feedback(packet, context, payload) => {
                    self.feedback.push((*packet, context));
                    if !payload.is_empty() {
                        self.feedback_payload.push(payload);
                    }
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Gives the models frames until one comes to `qp_lookup`, which takes those of a wrong ICRC too, and drops them when it hears of that.
    fn next_packet(&mut self) -> Option<Destination> {
        loop {
            match self.receive()? {
                Destination::SlowPath(bytes) => self.slow_path.push(bytes),
                Destination::Malformed(_) => {}
                destination => return Some(destination),
            }
        }
    }

    fn receive(&mut self) -> Option<Destination> {
        let frame = self.frames.next()?;
        let moment = Moment {
            trimmed_dscp: TrimmedDscp {
                trimmed: TRIMMED,
                last_hop: TRIMMED_LAST_HOP,
            },
            ..Moment::default()
        };
        let frame = spraynic_golden::frame::Frame {
            bad: frame.user & 1 == 1,
            ..spraynic_golden::frame::Frame::plain(frame.data.clone())
        };
        // Its control packets are of another time: `Acks` makes them.
        let received = self.pipeline.receive(&frame, &moment);
        if let Some(given) = received.given {
            self.give(given);
        }
        Some(received.destination)
    }

    fn give(&mut self, given: Given) {
        let packet = &given.packet;
        let way = Way {
            qpn: packet.qpn,
            space: packet.space,
            retired: packet.retired,
        };
        self.given.entry(way).or_default().push_back(given);
    }
}
