//! Frames that come in: to the receive path, and what it gives on to where it belongs.

use std::cmp::Reverse;

use spraynic_config::descriptor::{PacketContext, ReceivedPacket};

use super::{HostMemory, SpraynicNic};
use crate::frame::Frame;
use crate::receive_pipeline::path::Outcome;
use crate::receive_pipeline::{Destination, Moment};
use crate::reorder_buffer::Space;
use crate::requester;

impl SpraynicNic {
    /// Takes a frame of a port.
    pub fn receive(&mut self, frame: &Frame, memory: &mut impl HostMemory, now_ns: u64) {
        let moment = Moment {
            trimmed_dscp: self.settings.trimmed_dscp,
            pacing: self.settings.pacing,
            now_ns,
        };
        let mut outcome = std::mem::take(&mut self.outcome);
        self.receive.receive_into(frame, &moment, memory, &mut outcome);
        self.take_outcome(&mut outcome, memory, now_ns);
        self.outcome = outcome;
        self.settle();
    }

    /// What the receive path gave; nothing is left of it.
    pub(super) fn take_outcome(&mut self, outcome: &mut Outcome, memory: &mut impl HostMemory, now_ns: u64) {
        outcome.control.drain(..).for_each(|answer| self.answer(answer));
        let effects = &mut outcome.effects;
        // `ack_engine` has taken them.
        effects.answers.clear();
        if !effects.completions.is_empty() {
            self.completions.extend(effects.completions.drain(..));
        }
        for packets in effects.responses.drain(..) {
            match packets.message() {
                Some(message) => {
                    self.responses.take(&message);
                }
                None => self.sources.direct.push_back(packets),
            }
        }
        for (packet, payload) in effects.requester.drain(..) {
            let given = self.requester.response(&packet);
            self.place_response(given, &payload, memory);
        }
        match outcome.destination.take() {
            Some(Destination::SlowPath(bytes)) => self.to_host.push_back(bytes),
            Some(Destination::Sequence(report)) => {
                let space = if report.space {
                    Space::Responses
                } else {
                    Space::Requests
                };
                if let Some(due_ns) = self.receive.due_ns(report.qpn, space) {
                    self.sack_timers.push(Reverse((due_ns, report.qpn, report.space)));
                }
            }
            Some(Destination::Feedback(packet, context, payload)) => {
                self.take_feedback(&packet, &context, &payload, memory, now_ns);
            }
            _ => {}
        }
    }

    /// What the peer says of own requests. Responses of roce are taken by `requester` too, and first: it tells those that come out of turn.
    fn take_feedback(
        &mut self,
        packet: &ReceivedPacket,
        context: &PacketContext,
        payload: &[u8],
        memory: &mut impl HostMemory,
        now_ns: u64,
    ) {
        let given = self.requester.feedback(packet);
        self.place_response(given, payload, memory);
        if let Some(event) = self.answered_probe(packet) {
            for update in self.monitor.event(&event) {
                self.update_path(&update);
            }
        }
        self.retransmit.feedback(packet, context, now_ns);
    }

    /// Payload of a response goes to memory, which answers at once.
    fn place_response(&mut self, given: Option<requester::Given>, payload: &[u8], memory: &mut impl HostMemory) {
        let Some(given) = given else {
            return;
        };
        if let Some(asked) = self.response_writer.accept(&given.write) {
            let bytes = given.original.as_ref().map_or(payload, |bytes| bytes.as_slice());
            self.response_writer
                .written(!memory.write_payload(asked.address, bytes));
        }
        while let Some(done) = self.response_writer.release() {
            if let Some(written) = done.response {
                self.work.response_done(&requester::response_done(&written));
            }
        }
    }
}
