//! `work_queue`: owns the work requests of each queue pair from being posted to their completion, and gives them in slices.
//!
//! It decides which queue pair sends next, and what: lost packets first, never beyond the window, the READ limit, a fence or a token
//! bucket. It never touches payload and keeps nothing of a packet but one bit, when it is to be sent again.
//! Theory of operation: `docs/src/blocks/work_queue.md`.

mod send_queue;
mod turns;

use std::collections::VecDeque;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    Completion, CompletionStatus, QueuePairState, RateRequest, Resend, ResponseDone, SendContext, SendProgress,
    SliceContext, WorkRequest, WorkSlice,
};

use crate::counter::count;
use crate::packet_slicer::{self, DropReason, Packets};
use crate::rate_limiter::Grant;
use send_queue::{Candidate, Credible, Limits, SendQueue, completion, has_payload};
use turns::Turns;

pub use send_queue::{MAX_SPAN, PACKET_COST, SLICE_BYTES};
pub use turns::{Classes, RETRY_NS};

/// What was generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Queue pairs that can send: number 0 to `queue_pairs - 1`.
    pub queue_pairs: u32,
    /// Requests that a queue pair holds, a power of two up to 256.
    pub work_requests: u32,
    /// PSNs outstanding, a power of two from 64 on.
    pub window: u32,
    /// READs and atomics outstanding.
    pub reads: u32,
    /// Which requests can be.
    pub checks: packet_slicer::Config,
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            queue_pairs: config.send_queue_pairs(),
            work_requests: config.send.work_requests,
            window: config.send.window,
            reads: config.send.reads,
            checks: config.into(),
        }
    }
}

impl Config {
    fn limits(&self) -> Limits {
        Limits {
            slots: self.work_requests,
            window: self.window,
            reads: self.reads,
        }
    }
}

/// Counters, as the ports `count_…` of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Requests accepted, the wrong ones not among them.
    pub messages: u32,
    /// Slices given.
    pub slices: u32,
    /// Packets of slices given.
    pub packets: u32,
    /// Packets of them that were sent before.
    pub retransmissions: u32,
    /// Completions given.
    pub completions: u32,
    /// Completions of them with `Flushed`, or with the status of a failure of the queue pair.
    pub failed: u32,
    /// Context writes for a queue pair beyond the table, or of no known state.
    pub drop_context: u32,
    /// Requests for a queue pair beyond the table or in RESET.
    pub drop_queue_pair: u32,
    /// Requests that found no slot.
    pub drop_full: u32,
    /// Requests that are wrong, see [`DropReason::Opcode`].
    pub drop_opcode: u32,
    /// Requests that are wrong, see [`DropReason::Segments`].
    pub drop_segments: u32,
    /// Requests that are wrong, see [`DropReason::Immediate`].
    pub drop_immediate: u32,
    /// Requests that are wrong, see [`DropReason::Length`].
    pub drop_length: u32,
    /// Requests that are wrong, see [`DropReason::Alignment`].
    pub drop_alignment: u32,
    /// Requests that are wrong, see [`DropReason::Mtu`].
    pub drop_mtu: u32,
    /// Progress of what was not sent, or is complete; failures that name a PSN of that kind count as failures nevertheless.
    pub drop_progress: u32,
    /// PSNs to be sent again that are not outstanding.
    pub drop_resend: u32,
    /// Responses of no outstanding READ or atomic.
    pub drop_response: u32,
}

/// The block.
#[derive(Debug, Clone)]
pub struct WorkQueue {
    config: Config,
    queues: Vec<SendQueue>,
    turns: Turns,
    completions: VecDeque<Completion>,
    counters: Counters,
}

impl WorkQueue {
    /// The block after reset: all queue pairs are in RESET, no class is strict, all have a weight of 1.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            queues: vec![SendQueue::default(); config.queue_pairs as usize],
            turns: Turns::new(config.queue_pairs),
            completions: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Sets `class_strict` and `class_weight`.
    pub fn set_classes(&mut self, classes: Classes) {
        self.turns.classes = classes;
    }

    /// Whether there is no completion to be taken.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.completions.is_empty()
    }

    /// The next completion, in the order in which they leave.
    pub fn pop_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// Requests of a queue pair that are not complete; 0 for one that is not there.
    #[must_use]
    pub fn waiting(&self, qpn: u32) -> u32 {
        self.queues.get(qpn as usize).map_or(0, SendQueue::waiting)
    }

    /// Writes a queue pair's context, which may open, fail or reset it.
    pub fn write_context(&mut self, context: &SendContext) {
        let state = QueuePairState::from_code(context.state);
        let (Some(queue), Some(state)) = (self.queues.get_mut(context.qpn as usize), state) else {
            count(&mut self.counters.drop_context);
            return;
        };
        let goes_on = state == QueuePairState::ReadyToSend && queue.sends();
        if !goes_on {
            self.turns.remove(context.qpn);
        }
        match state {
            QueuePairState::ReadyToSend if goes_on => queue.change(context),
            QueuePairState::ReadyToSend => queue.open(context, self.config.limits()),
            QueuePairState::Reset => queue.forget(),
            _ => self.fail(context.qpn, None, CompletionStatus::Flushed as u8),
        }
        self.queues[context.qpn as usize].state = Some(state);
        self.settle(context.qpn);
    }

    /// Takes a work request.
    pub fn post(&mut self, request: &WorkRequest) {
        let limits = self.config.limits();
        let Some(queue) = self.queues.get_mut(request.qpn as usize) else {
            count(&mut self.counters.drop_queue_pair);
            return;
        };
        match queue.state {
            None | Some(QueuePairState::Reset) => count(&mut self.counters.drop_queue_pair),
            Some(QueuePairState::ReadyToSend) if queue.waiting() == limits.slots => {
                count(&mut self.counters.drop_full);
                self.complete(completion(request, CompletionStatus::QueueFull));
            }
            Some(QueuePairState::ReadyToSend) => {
                let checked = Self::check(&self.config, queue, request);
                queue.post(request, checked.ok(), limits);
                match checked {
                    Ok(_) => count(&mut self.counters.messages),
                    Err(reason) => self.counters.count_wrong(reason),
                }
                self.settle(request.qpn);
            }
            Some(_) => {
                count(&mut self.counters.failed);
                self.complete(completion(request, CompletionStatus::Flushed));
            }
        }
    }

    /// The PSNs that a request takes.
    fn check(config: &Config, queue: &SendQueue, request: &WorkRequest) -> Result<u32, DropReason> {
        let (profile_code, mtu_code) = (queue.context.profile, queue.context.mtu);
        let none_allowed = !has_payload(request) && queue.reads_allowed(config.limits()) == 0;
        let (profile, operation, mtu) = config.checks.check(profile_code, mtu_code, request)?;
        if none_allowed {
            return Err(DropReason::Opcode {
                opcode: request.opcode,
                profile: profile_code,
            });
        }
        Ok(Packets::new(SliceContext::default(), profile, operation, *request, mtu).psns())
    }

    /// How far the packets of a queue pair have come. Those of the response space are not this block's.
    pub fn progress(&mut self, progress: &SendProgress) {
        let Some(queue) = self.sending(progress.qpn) else {
            return;
        };
        // PSNs of responses say nothing of requests.
        if !progress.space {
            let credible = queue.progress(progress.base, progress.done);
            queue.waits = progress.wait;
            queue.advance();
            if credible == Credible::No {
                count(&mut self.counters.drop_progress);
            }
        }
        if progress.failed {
            self.retire(progress.qpn);
            let place = self.queues[progress.qpn as usize].place_of_failure();
            self.fail(progress.qpn, Some(place), progress.status);
        }
        self.settle(progress.qpn);
    }

    /// A packet is to be sent again (roce: and all behind it).
    pub fn resend(&mut self, resend: &Resend) {
        let Some(queue) = self.sending(resend.qpn) else {
            return;
        };
        if queue.resend(resend.psn) == Credible::No {
            count(&mut self.counters.drop_resend);
        }
        self.settle(resend.qpn);
    }

    /// The response of a READ or an atomic has come, or failed.
    pub fn response_done(&mut self, done: &ResponseDone) {
        let limits = self.config.limits();
        let Some(queue) = self.sending(done.qpn) else {
            return;
        };
        match queue.outstanding(done.slot, limits) {
            None => count(&mut self.counters.drop_response),
            Some(place) if done.status == 0 => queue.respond(place),
            Some(place) => self.fail(done.qpn, Some(place), done.status),
        }
        self.settle(done.qpn);
    }

    /// A queue pair that sends; what comes for others comes late and means nothing.
    fn sending(&mut self, qpn: u32) -> Option<&mut SendQueue> {
        self.queues.get_mut(qpn as usize).filter(|queue| queue.sends())
    }

    fn complete(&mut self, completion: Completion) {
        count(&mut self.counters.completions);
        self.completions.push_back(completion);
    }

    fn fail(&mut self, qpn: u32, place: Option<u32>, status: u8) {
        let Self {
            queues,
            completions,
            counters,
            ..
        } = self;
        let queue = &mut queues[qpn as usize];
        queue.fail(place, status, |completion| {
            count(&mut counters.completions);
            count(&mut counters.failed);
            completions.push_back(completion);
        });
        queue.state = Some(QueuePairState::Error);
        self.turns.remove(qpn);
    }

    fn retire(&mut self, qpn: u32) {
        while let Some(completion) = self.queues[qpn as usize].retire() {
            if let Some(completion) = completion {
                self.complete(completion);
            }
        }
    }

    /// After any event of a queue pair: requests that have ended complete, and if it may send, it gets its turn.
    fn settle(&mut self, qpn: u32) {
        self.queues[qpn as usize].advance();
        self.retire(qpn);
        self.wake(qpn);
    }

    fn wake(&mut self, qpn: u32) {
        let queue = &self.queues[qpn as usize];
        if !self.turns.listed(qpn) && queue.candidate(self.config.limits()).is_some() {
            self.turns.list(qpn, queue.context.class);
        }
    }

    /// Whether a queue pair could send if it had the tokens, and what it would ask for.
    #[must_use]
    pub fn offer(&self, qpn: u32) -> Option<RateRequest> {
        let queue = self.queues.get(qpn as usize)?;
        let candidate = queue.candidate(self.config.limits())?;
        Some(rate_request(qpn, queue, &candidate))
    }

    /// Gives the next slice of a named queue pair, its tokens granted: the choice of an RTL that the model follows. `None`: it may not send.
    pub fn take(&mut self, qpn: u32) -> Option<(WorkRequest, WorkSlice)> {
        let candidate = self.queues.get(qpn as usize)?.candidate(self.config.limits())?;
        let given = self.commit(qpn, &candidate);
        self.wake(qpn);
        Some(given)
    }

    fn commit(&mut self, qpn: u32, candidate: &Candidate) -> (WorkRequest, WorkSlice) {
        let given = self.queues[qpn as usize].commit(candidate, self.config.limits());
        // A wrong request may be the oldest now that the cut has passed those before it.
        self.retire(qpn);
        let packets = u32::from(given.1.packets);
        count(&mut self.counters.slices);
        self.counters.packets = self.counters.packets.wrapping_add(packets);
        if given.1.retransmission {
            self.counters.retransmissions = self.counters.retransmissions.wrapping_add(packets);
        }
        given
    }

    /// Whether [`Self::next_slice`] surely gives nothing, and changes nothing.
    #[must_use]
    pub fn gives_nothing(&self) -> bool {
        self.turns.is_idle()
    }

    /// The next slice, if a queue pair may send. `ask` is `rate_limiter`, at time `now_ns`. Called again until there is none; then
    /// again after any event, or at [`Self::wakes_at`].
    pub fn next_slice(
        &mut self,
        now_ns: u64,
        mut ask: impl FnMut(&RateRequest) -> Grant,
    ) -> Option<(WorkRequest, WorkSlice)> {
        while let Some(qpn) = self.turns.due(now_ns) {
            self.wake(qpn);
        }
        let mut idle = 0;
        while let Some(class) = self.turns.class(&mut idle, now_ns) {
            if let Some(given) = self.serve(class, now_ns, &mut ask) {
                return Some(given);
            }
            self.turns.pass(class, &mut idle);
        }
        None
    }

    /// The next slice of a class.
    fn serve(
        &mut self,
        class: usize,
        now_ns: u64,
        ask: &mut impl FnMut(&RateRequest) -> Grant,
    ) -> Option<(WorkRequest, WorkSlice)> {
        while let Some(qpn) = self.turns.head(class) {
            let queue = &self.queues[qpn as usize];
            let Some(candidate) = queue.candidate(self.config.limits()) else {
                self.turns.unlist(class);
                continue;
            };
            if !self.turns.has_credit(class, queue.context.weight) {
                continue;
            }
            match ask(&rate_request(qpn, queue, &candidate)) {
                Grant::Granted => {
                    let given = self.commit(qpn, &candidate);
                    self.turns.charge(class, candidate.cost);
                    return Some(given);
                }
                Grant::QueuePair => self.turns.park(class, now_ns),
                Grant::Class => {
                    self.turns.rest(class, now_ns);
                    return None;
                }
            }
        }
        None
    }

    /// When a queue pair or class that had no token is to be asked for again: time for the next [`Self::next_slice`] if no event comes before.
    #[must_use]
    pub fn wakes_at(&self) -> Option<u64> {
        self.turns.wakes_at()
    }
}

fn rate_request(qpn: u32, queue: &SendQueue, candidate: &Candidate) -> RateRequest {
    RateRequest {
        qpn,
        class: queue.context.class,
        bytes: candidate.cost,
        ..RateRequest::default()
    }
}

impl Counters {
    fn count_wrong(&mut self, reason: DropReason) {
        count(match reason {
            DropReason::QueuePair { .. } => &mut self.drop_queue_pair,
            DropReason::Opcode { .. } => &mut self.drop_opcode,
            DropReason::Segments { .. } => &mut self.drop_segments,
            DropReason::Immediate { .. } => &mut self.drop_immediate,
            DropReason::Length { .. } => &mut self.drop_length,
            DropReason::Alignment { .. } => &mut self.drop_alignment,
            DropReason::Mtu { .. } => &mut self.drop_mtu,
        });
    }
}

#[cfg(test)]
#[path = "work_queue_properties.rs"]
mod properties;
#[cfg(test)]
#[path = "work_queue_tests.rs"]
mod tests;
