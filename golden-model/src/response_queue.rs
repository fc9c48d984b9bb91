//! `response_queue`: holds the responses of solar until the peer has them.
//!
//! It owns the READ responses and atomic ACKs that `response_engine` made: gives their packets as far as the window of their space goes, and
//! again those that `retransmit_engine` says were lost. It never decides what is lost, and stores no payload: a READ response is read again.
//! Theory of operation: `docs/src/blocks/response_queue.md`.

use std::collections::VecDeque;

use spraynic_config::descriptor::{
    PacketDescriptor, PacketOrigin, QueuePairState, RateRequest, Resend, SendContext, SendProgress,
};
use spraynic_config::{NicConfig, Profile};
use spraynic_wire::Psn;

use crate::counter::count;
use crate::response_engine::Packets;
use crate::work_queue::PACKET_COST;

/// What was generated: the part of the configuration that this block's behaviour depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Queue pairs: QPN 0 to `queue_pairs - 1`.
    pub queue_pairs: u32,
    /// Responses that are held for each queue pair: READs and atomics that the peer may have outstanding.
    pub responses: usize,
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            queue_pairs: config.send_queue_pairs(),
            responses: config.send.reads as usize,
        }
    }
}

/// Counters, as the ports `count_…` of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Responses taken.
    pub responses: u32,
    /// Packets given, those given again included.
    pub packets: u32,
    /// Packets given again.
    pub retransmissions: u32,
    /// Responses dropped: no such queue pair, or it does not receive.
    pub drop_queue_pair: u32,
    /// Responses forgotten because the peer asked for one more than the queue pair holds: it has the oldest one.
    pub implied: u32,
    /// Responses dropped: the queue pair holds as many as it can, and none has left, so the peer asked for more than it agreed to.
    pub drop_full: u32,
    /// Packets that were to be given again, but whose response has been acknowledged.
    pub drop_resend: u32,
}

#[derive(Debug, Clone)]
struct QueuePair {
    window: u32,
    class: u8,
    /// Oldest PSN that the peer does not have.
    base: Psn,
    /// Next PSN to give for the first time, and the place of its response.
    next: Psn,
    sending: usize,
    /// PSN behind the last response.
    end: Psn,
    /// The oldest first.
    responses: VecDeque<Packets>,
    /// Count of responses that are gone: their places, modulo 256.
    gone: u8,
    resends: VecDeque<Psn>,
    /// It stands among those that take turns.
    active: bool,
}

/// The block: the responses by queue pair, whose turn it is, and counters.
#[derive(Debug, Clone)]
pub struct ResponseQueue {
    config: Config,
    queue_pairs: Vec<Option<QueuePair>>,
    turns: VecDeque<u32>,
    counters: Counters,
}

impl ResponseQueue {
    /// The block after reset: no queue pair has responses, all counters are 0.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            queue_pairs: vec![None; config.queue_pairs as usize],
            turns: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes a context write. A queue pair that begins to receive has no responses, and gives its first one with the context's
    /// `sent_response_psn`; one that receives already takes window and class; one that no longer does loses its responses.
    pub fn write_context(&mut self, context: &SendContext) {
        let receives = QueuePairState::from_code(context.state).is_some_and(QueuePairState::receives)
            && context.profile == Profile::Solar.code();
        let Some(slot) = self.queue_pairs.get_mut(context.qpn as usize) else {
            return;
        };
        let (window, class) = (context.window.into(), context.class);
        match (receives, slot.as_mut()) {
            (false, _) => *slot = None,
            (true, Some(queue_pair)) => {
                queue_pair.window = window;
                queue_pair.class = class;
                self.wake(context.qpn);
            }
            (true, None) => {
                let first = Psn::new(context.sent_response_psn);
                *slot = Some(QueuePair {
                    window,
                    class,
                    base: first,
                    next: first,
                    sending: 0,
                    end: first,
                    responses: VecDeque::new(),
                    gone: 0,
                    resends: VecDeque::new(),
                    active: false,
                });
            }
        }
    }

    /// Takes the packets of a response, in the order of their PSNs; false: dropped.
    pub fn take(&mut self, qpn: u32, packets: Packets) -> bool {
        let Some(queue_pair) = self.queue_pairs.get_mut(qpn as usize).and_then(Option::as_mut) else {
            count(&mut self.counters.drop_queue_pair);
            return false;
        };
        if queue_pair.responses.len() == self.config.responses {
            // The peer asks for more only when it has an older response in full: it is acknowledged by that.
            let has_left = queue_pair.sending > 0;
            if !has_left {
                count(&mut self.counters.drop_full);
                return false;
            }
            queue_pair.forget_oldest();
            count(&mut self.counters.implied);
        }
        count(&mut self.counters.responses);
        queue_pair.end += packets.total();
        queue_pair.responses.push_back(packets);
        self.wake(qpn);
        true
    }

    /// Takes how far the peer has come: responses that it has in full are forgotten.
    pub fn progress(&mut self, progress: &SendProgress) {
        let qpn = progress.qpn;
        let Some(queue_pair) = self.queue_pairs.get_mut(qpn as usize).and_then(Option::as_mut) else {
            return;
        };
        if progress.failed {
            self.queue_pairs[qpn as usize] = None;
            return;
        }
        queue_pair.base = Psn::new(progress.base);
        while let Some(oldest) = queue_pair.responses.front() {
            if (oldest.first_psn() + oldest.total()).is_after(queue_pair.base) {
                break;
            }
            queue_pair.forget_oldest();
        }
        self.wake(qpn);
    }

    /// Takes a PSN that is to be given again.
    pub fn resend(&mut self, resend: &Resend) {
        let Some(queue_pair) = self.queue_pairs.get_mut(resend.qpn as usize).and_then(Option::as_mut) else {
            return;
        };
        queue_pair.resends.push_back(Psn::new(resend.psn));
        self.wake(resend.qpn);
    }

    /// Whether nothing is held for a queue pair.
    #[must_use]
    pub fn is_idle(&self, qpn: u32) -> bool {
        let queue_pair = self.queue_pairs.get(qpn as usize).and_then(Option::as_ref);
        queue_pair.is_none_or(|queue_pair| queue_pair.responses.is_empty())
    }

    /// The next packet, queue pair by queue pair in turn; what was lost goes before what is new. `ask` answers as `rate_limiter` does.
    pub fn give(&mut self, mut ask: impl FnMut(&RateRequest) -> bool) -> Option<(PacketDescriptor, PacketOrigin)> {
        for _ in 0..self.turns.len() {
            let qpn = self.turns.pop_front()?;
            let Some(queue_pair) = self.queue_pairs.get_mut(qpn as usize).and_then(Option::as_mut) else {
                continue;
            };
            let Some((packet, origin)) = queue_pair.peek(&mut self.counters) else {
                queue_pair.active = false;
                continue;
            };
            let asked = RateRequest {
                qpn,
                class: queue_pair.class,
                bytes: u32::from(packet.payload_length) + PACKET_COST,
                ..RateRequest::default()
            };
            self.turns.push_back(qpn);
            if ask(&asked) {
                queue_pair.advance(&origin);
                count(&mut self.counters.packets);
                if origin.retransmission {
                    count(&mut self.counters.retransmissions);
                }
                return Some((packet, origin));
            }
        }
        None
    }

    fn wake(&mut self, qpn: u32) {
        if let Some(Some(queue_pair)) = self.queue_pairs.get_mut(qpn as usize)
            && !queue_pair.active
        {
            queue_pair.active = true;
            self.turns.push_back(qpn);
        }
    }
}

impl QueuePair {
    fn forget_oldest(&mut self) {
        self.responses.pop_front();
        self.gone = self.gone.wrapping_add(1);
        self.sending = self.sending.saturating_sub(1);
    }

    /// What would be given now: the oldest PSN to be given again that is still held, else the next new one that the window has room for.
    fn peek(&mut self, counters: &mut Counters) -> Option<(PacketDescriptor, PacketOrigin)> {
        while let Some(&psn) = self.resends.front() {
            if let Some(found) = self.packet(psn, true) {
                return Some(found);
            }
            self.resends.pop_front();
            count(&mut counters.drop_resend);
        }
        let is_open = self.next != self.end && self.next.steps_from(self.base) < self.window;
        is_open.then(|| self.packet(self.next, false)).flatten()
    }

    /// The packet of a PSN that was taken and not acknowledged in full.
    fn packet(&self, psn: Psn, retransmission: bool) -> Option<(PacketDescriptor, PacketOrigin)> {
        let from = if retransmission { 0 } else { self.sending };
        let (place, response) = self
            .responses
            .iter()
            .enumerate()
            .skip(from)
            .find(|(_, response)| psn.is_in_window(response.first_psn(), response.total()))?;
        let index = psn.steps_from(response.first_psn());
        let origin = PacketOrigin {
            slot: self.gone.wrapping_add(place as u8),
            psns: 1,
            class: self.class,
            profile: Profile::Solar.code(),
            space: true,
            last: index + 1 == response.total(),
            retransmission,
            tracked: true,
        };
        Some((response.at(index), origin))
    }

    fn advance(&mut self, origin: &PacketOrigin) {
        if origin.retransmission {
            self.resends.pop_front();
        } else {
            self.next += 1;
            self.sending += usize::from(origin.last);
        }
    }
}

#[cfg(test)]
#[path = "response_queue_tests.rs"]
mod tests;
