//! `response_queue`: holds the responses of solar until the peer has them.
//!
//! It owns the READ responses and atomic ACKs that `response_engine` made: gives their packets as far as the window of their space goes, and
//! again those that `retransmit_engine` says were lost. It never decides what is lost, and stores no payload: a READ response is read again.
//! Theory of operation: `docs/src/blocks/response_queue.md`.

mod held;

use std::collections::VecDeque;

use spraynic_config::descriptor::{
    PacketDescriptor, PacketOrigin, QueuePairState, RateRequest, Resend, ResponseMessage, SendContext, SendProgress,
};
use spraynic_config::{NicConfig, Profile};
use spraynic_wire::Psn;

use crate::counter::count;
use crate::response_engine::Packets;
use crate::work_queue::{PACKET_COST, RETRY_NS};
use held::{Candidate, QueuePair};

/// What was generated: the part of the configuration that this block's behaviour depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Queue pairs: QPN 0 to `queue_pairs - 1`.
    pub queue_pairs: u32,
    /// Responses that are held for each queue pair: READs and atomics that the peer may have outstanding.
    pub responses: usize,
    /// PSNs of the largest window.
    pub window: u32,
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            queue_pairs: config.send_queue_pairs(),
            responses: config.send.reads as usize,
            window: config.send.window,
        }
    }
}

/// Counters, as the ports `count_…` of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Responses taken.
    pub responses: u32,
    /// Packets of slices begun, those given again included.
    pub packets: u32,
    /// Packets given again.
    pub retransmissions: u32,
    /// Responses forgotten because the peer asked for one more than the queue pair holds: it has the oldest one.
    pub implied: u32,
    /// Responses dropped: no such queue pair, or it does not receive.
    pub drop_queue_pair: u32,
    /// Responses dropped: their first PSN does not follow the last response.
    pub drop_sequence: u32,
    /// Responses dropped: the queue pair holds as many as it can, and none has left, so the peer asked for more than it agreed to.
    pub drop_full: u32,
    /// SendProgress of what was not sent.
    pub drop_progress: u32,
    /// PSNs that were to be given again, but are acknowledged or were never given.
    pub drop_resend: u32,
}

/// Packets of one response that are given one behind the other.
#[derive(Debug, Clone)]
pub struct Slice {
    packets: Packets,
    index: u32,
    left: u32,
    origin: PacketOrigin,
}

impl Iterator for Slice {
    type Item = (PacketDescriptor, PacketOrigin);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let index = self.index;
        self.index += 1;
        let origin = PacketOrigin {
            last: index + 1 == self.packets.total(),
            ..self.origin
        };
        Some((self.packets.at(index), origin))
    }
}

/// The block: the responses by queue pair, whose turn it is, and counters.
#[derive(Debug, Clone)]
pub struct ResponseQueue {
    config: Config,
    queue_pairs: Vec<Option<QueuePair>>,
    /// A queue pair has a turn, or waits for tokens. It keeps that when it closes.
    listed: Vec<bool>,
    turns: VecDeque<u32>,
    /// Those without tokens, with the time to ask again: in the order of that time.
    waiting: VecDeque<(u64, u32)>,
    slice: Option<Slice>,
    counters: Counters,
}

impl ResponseQueue {
    /// The block after reset: no queue pair has responses, all counters are 0.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            queue_pairs: vec![None; config.queue_pairs as usize],
            listed: vec![false; config.queue_pairs as usize],
            turns: VecDeque::new(),
            waiting: VecDeque::new(),
            slice: None,
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
        if !receives {
            *slot = None;
            return;
        }
        let first = Psn::new(context.sent_response_psn);
        let queue_pair = slot.get_or_insert_with(|| QueuePair::new(first));
        queue_pair.window = u32::from(context.window).clamp(1, self.config.window);
        queue_pair.class = context.class;
        self.wake(context.qpn);
    }

    fn held(&mut self, qpn: u32) -> Option<&mut QueuePair> {
        self.queue_pairs.get_mut(qpn as usize).and_then(Option::as_mut)
    }

    /// Takes a response; false: dropped.
    pub fn take(&mut self, message: &ResponseMessage) -> bool {
        let most = self.config.responses;
        let Some(queue_pair) = self.held(message.qpn) else {
            count(&mut self.counters.drop_queue_pair);
            return false;
        };
        if Psn::new(message.psn) != queue_pair.end {
            count(&mut self.counters.drop_sequence);
            return false;
        }
        let full = queue_pair.responses.len() == most;
        if full {
            // The peer asks for more only when it has an older response in full: it is acknowledged by that.
            let has_left = queue_pair.sending > 0;
            if !has_left {
                count(&mut self.counters.drop_full);
                return false;
            }
            queue_pair.forget_oldest();
        }
        queue_pair.push(message);
        self.counters.implied = self.counters.implied.wrapping_add(full.into());
        count(&mut self.counters.responses);
        self.wake(message.qpn);
        true
    }

    /// Takes how far the peer has come: responses that it has in full are forgotten.
    pub fn progress(&mut self, progress: &SendProgress) {
        let qpn = progress.qpn;
        let Some(queue_pair) = self.held(qpn) else {
            return;
        };
        if !queue_pair.progress(Psn::new(progress.base)) {
            count(&mut self.counters.drop_progress);
        }
        if progress.failed {
            self.queue_pairs[qpn as usize] = None;
        }
        self.wake(qpn);
    }

    /// Takes a PSN that is to be given again.
    pub fn resend(&mut self, resend: &Resend) {
        let Some(queue_pair) = self.held(resend.qpn) else {
            return;
        };
        if !queue_pair.resend(Psn::new(resend.psn)) {
            count(&mut self.counters.drop_resend);
        }
        self.wake(resend.qpn);
    }

    /// Whether nothing is held for a queue pair.
    #[must_use]
    pub fn is_idle(&self, qpn: u32) -> bool {
        let queue_pair = self.queue_pairs.get(qpn as usize).and_then(Option::as_ref);
        queue_pair.is_none_or(|queue_pair| queue_pair.responses.is_empty())
    }

    /// Whether [`Self::give`] surely gives nothing, and changes nothing.
    #[must_use]
    pub fn gives_nothing(&self) -> bool {
        self.slice.is_none() && self.turns.is_empty() && self.waiting.is_empty()
    }

    /// The next packet, queue pair by queue pair in turn, slice by slice; what was lost goes before what is new. `ask` answers as `rate_limiter`
    /// does. Called again until there is none; then again after any event, or at [`Self::wakes_at`].
    pub fn give(
        &mut self,
        now_ns: u64,
        mut ask: impl FnMut(&RateRequest) -> bool,
    ) -> Option<(PacketDescriptor, PacketOrigin)> {
        if let Some(slice) = &mut self.slice {
            if let Some(packet) = slice.next() {
                return Some(packet);
            }
            self.slice = None;
        }
        while let Some((_, qpn)) = self.waiting.pop_front_if(|(due, _)| *due <= now_ns) {
            self.listed[qpn as usize] = false;
            self.wake(qpn);
        }
        while let Some(qpn) = self.turns.pop_front() {
            let Some(asked) = self.offer(qpn) else {
                self.listed[qpn as usize] = false;
                continue;
            };
            if ask(&asked) {
                self.turns.push_back(qpn);
                self.slice = self.begin(qpn);
                return self.slice.as_mut().and_then(Iterator::next);
            }
            self.waiting.push_back((now_ns.saturating_add(RETRY_NS), qpn));
        }
        None
    }

    /// When a queue pair that had no tokens is to be asked for again.
    #[must_use]
    pub fn wakes_at(&self) -> Option<u64> {
        self.waiting.front().map(|(due, _)| *due)
    }

    fn candidate(&self, qpn: u32) -> Option<Candidate> {
        self.queue_pairs.get(qpn as usize)?.as_ref()?.candidate()
    }

    /// What a queue pair would ask for; `None`: it may give nothing.
    #[must_use]
    pub fn offer(&self, qpn: u32) -> Option<RateRequest> {
        let candidate = self.candidate(qpn)?;
        Some(RateRequest {
            qpn,
            class: candidate.class,
            bytes: candidate.payload + candidate.packets * PACKET_COST,
            responses: true,
            ..RateRequest::default()
        })
    }

    /// Begins the next slice of a named queue pair, its tokens granted: also the choice of an RTL that the model follows. `None`: it may not.
    pub fn begin(&mut self, qpn: u32) -> Option<Slice> {
        let candidate = self.candidate(qpn)?;
        let queue_pair = self.held(qpn)?;
        let slice = queue_pair.begin(&candidate);
        self.counters.packets = self.counters.packets.wrapping_add(candidate.packets);
        if candidate.retransmission {
            count(&mut self.counters.retransmissions);
        }
        Some(slice)
    }

    fn wake(&mut self, qpn: u32) {
        let listed = &mut self.listed[qpn as usize];
        if !*listed && self.queue_pairs[qpn as usize].as_ref().is_some_and(QueuePair::has_work) {
            *listed = true;
            self.turns.push_back(qpn);
        }
    }
}

#[cfg(test)]
#[path = "response_queue_tests.rs"]
mod tests;
