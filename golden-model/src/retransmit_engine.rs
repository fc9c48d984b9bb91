//! `retransmit_engine`: what the own requester knows of packets on their way: which have arrived, which are lost and must be sent again, and when.
//!
//! It owns the windows of all queue pairs that send, with a record for each PSN, and their timers. It never holds payload (what is lost is cut again
//! from its request), never chooses a path, and never sends data. Theory of operation: `docs/src/blocks/retransmit_engine.md`.

mod go_back_n;
mod sending;
mod timer;
mod window;

use std::collections::VecDeque;

use spraynic_config::descriptor::{
    PacketContext, PacketDescriptor, PathEvent, QueuePairState, ReceivedPacket, Resend, SendContext, SendProgress,
    SentPacket,
};
use spraynic_config::{NicConfig, Profile};
use spraynic_wire::opcode::Operation;
use spraynic_wire::{Opcode, Psn};
use thiserror::Error;

use crate::counter::count;
pub use crate::reorder_buffer::Space;
use sending::{Sending, Step, Taken, Track};
use timer::Deadlines;
use window::Noted;

/// What was generated: the part of the configuration that this block's behaviour depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Queue pairs that can send: QPN 0 to `queue_pairs - 1`.
    pub queue_pairs: u32,
    /// PSNs of a window, a power of two from 64 to 1,024.
    pub window: u32,
    /// Paths of a set, a power of two from 8 to 256.
    pub paths: u32,
    /// READs and atomics that a queue pair may have outstanding.
    pub reads: u32,
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            queue_pairs: config.send_queue_pairs(),
            window: config.send.window,
            paths: config.paths.entries,
            reads: config.send.reads,
        }
    }
}

/// Counters, as the ports `count_…` of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets sent for the first time.
    pub sent: u32,
    /// Packets sent again.
    pub sent_again: u32,
    /// Sent packets that have no place in a window: acknowledged meanwhile, or their queue pair no longer sends.
    pub sent_ignored: u32,
    /// SACKs taken, answers to probes included.
    pub sacks: u32,
    /// ACKs taken.
    pub acks: u32,
    /// NACKs taken: a packet is lost by it, or the peer has no room for it.
    pub nacks: u32,
    /// NAKs taken, RNR NAKs too.
    pub naks: u32,
    /// roce: READ responses and atomic ACKs taken.
    pub responses: u32,
    /// Feedback that speaks of what was never sent.
    pub drop_incredible: u32,
    /// Feedback without effect: its queue pair does not send, it speaks of what is settled, or its kind means nothing here.
    pub drop_stale: u32,
    /// Packets to be sent again, by SACKs.
    pub lost_sack: u32,
    /// Packets to be sent again, by NACKs.
    pub lost_nack: u32,
    /// Packets to be sent again, by the timer.
    pub lost_timer: u32,
    /// roce: rewinds.
    pub rewinds: u32,
    /// Timeouts.
    pub timeouts: u32,
    /// Probes given.
    pub probes: u32,
    /// Queue pairs that failed.
    pub failures: u32,
}

/// A timer was asked for that is not due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotDue {
    /// Nothing is awaited.
    #[error("nothing is awaited")]
    Nothing,
    /// It is too early.
    #[error("{now_ns} ns: the timer is due at {due_ns} ns")]
    Early {
        /// Time asked for.
        now_ns: u64,
        /// Time at which it becomes legal.
        due_ns: u64,
    },
}

#[derive(Debug, Clone)]
struct QueuePair {
    context: SendContext,
    profile: Profile,
    spaces: [Option<Box<Sending>>; 2],
    failed: bool,
}

/// The block.
#[derive(Debug, Clone)]
pub struct RetransmitEngine {
    config: Config,
    queue_pairs: Vec<Option<QueuePair>>,
    deadlines: Deadlines,
    counters: Counters,
    progress: VecDeque<SendProgress>,
    resends: VecDeque<Resend>,
    events: VecDeque<PathEvent>,
    control: VecDeque<PacketDescriptor>,
}

impl RetransmitEngine {
    /// The block after reset: no queue pair sends, all counters are 0.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            queue_pairs: vec![None; config.queue_pairs as usize],
            deadlines: Deadlines::new(config.queue_pairs * 2),
            counters: Counters::default(),
            progress: VecDeque::new(),
            resends: VecDeque::new(),
            events: VecDeque::new(),
            control: VecDeque::new(),
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The next SendProgress, in the order in which they were made (`m_axis_progress`).
    pub fn next_progress(&mut self) -> Option<SendProgress> {
        self.progress.pop_front()
    }

    /// The next Resend (`m_axis_resend`).
    pub fn next_resend(&mut self) -> Option<Resend> {
        self.resends.pop_front()
    }

    /// The next PathEvent (`m_axis_path`).
    pub fn next_path_event(&mut self) -> Option<PathEvent> {
        self.events.pop_front()
    }

    /// The next probe (`m_axis_control`).
    pub fn next_control(&mut self) -> Option<PacketDescriptor> {
        self.control.pop_front()
    }

    /// Nothing is there to be taken: no SendProgress, Resend, PathEvent or probe.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.progress.is_empty() && self.resends.is_empty() && self.events.is_empty() && self.control.is_empty()
    }

    /// Packets of a sequence space between the oldest that was not acknowledged and the last one sent; `None`: it does not send.
    #[must_use]
    pub fn outstanding(&self, qpn: u32, space: Space) -> Option<u32> {
        let sending = self.sending(qpn, space)?;
        Some(sending.next().steps_from(sending.base()))
    }

    /// Takes a context write. Requests are tracked from the write of RTS on, responses of solar from the first state that receives on; what is tracked
    /// goes on when the context is written again, and ends with a state that does not send. A queue pair that failed tracks nothing until it has left RTS.
    pub fn write_context(&mut self, context: &SendContext) {
        let Some(queue_pair) = self.queue_pairs.get_mut(context.qpn as usize) else {
            return;
        };
        let state = QueuePairState::from_code(context.state).filter(|state| state.receives());
        let (Some(state), Some(profile)) = (state, Profile::from_code(context.profile)) else {
            *queue_pair = None;
            return;
        };
        let queue_pair = queue_pair.get_or_insert_with(|| QueuePair {
            context: *context,
            profile,
            spaces: [None, None],
            failed: false,
        });
        let sends = state == QueuePairState::ReadyToSend;
        queue_pair.failed &= sends;
        if !sends {
            queue_pair.spaces[0] = None;
        }
        if queue_pair.profile != profile {
            queue_pair.spaces = [None, None];
        }
        queue_pair.context = *context;
        queue_pair.profile = profile;
        let opened = [sends, profile == Profile::Solar];
        for (space, psn) in [(0, context.psn), (1, context.sent_response_psn)] {
            if opened[space] && !queue_pair.failed && queue_pair.spaces[space].is_none() {
                queue_pair.spaces[space] = Some(Box::new(Sending::new(profile, Psn::new(psn), &self.config)));
            }
        }
    }

    /// Notes that a packet leaves.
    pub fn sent(&mut self, packet: &SentPacket, now_ns: u64) {
        let space = if packet.space {
            Space::Responses
        } else {
            Space::Requests
        };
        let mut noted = Noted::Ignored;
        self.step(packet.qpn, space, now_ns, |sending, step| {
            noted = sending.sent(packet, step);
        });
        count(match noted {
            Noted::New => &mut self.counters.sent,
            Noted::Again => &mut self.counters.sent_again,
            Noted::Ignored => &mut self.counters.sent_ignored,
        });
    }

    /// Takes what the peer says of own packets: route 1 of `qp_lookup`.
    pub fn feedback(&mut self, packet: &ReceivedPacket, _context: &PacketContext, now_ns: u64) {
        let operation = Opcode(packet.opcode).info().map(|info| info.operation);
        let responses = matches!(operation, Some(Operation::Sack | Operation::Nack)) && packet.extension.0[0] >> 4 == 1;
        let space = if responses { Space::Responses } else { Space::Requests };
        let mut taken = Taken::Stale;
        if packet.trimmed == 0 {
            self.step(packet.qpn, space, now_ns, |sending, step| {
                taken = match (operation, &sending.track) {
                    (Some(Operation::Sack), Track::Selective(_)) => sending.sack(packet, step),
                    (Some(Operation::Nack), Track::Selective(_)) => sending.nack(packet, step),
                    (Some(Operation::Acknowledge), _) => sending.acknowledge(packet, step),
                    (Some(Operation::ReadResponse | Operation::AtomicAcknowledge), Track::GoBackN(_)) => {
                        sending.response(packet, step)
                    }
                    _ => Taken::Stale,
                };
            });
        }
        match taken {
            Taken::Yes => {}
            Taken::Stale => count(&mut self.counters.drop_stale),
            Taken::Incredible => count(&mut self.counters.drop_incredible),
        }
    }

    /// When the timer of a sequence space fires; `None`: nothing is awaited.
    #[must_use]
    pub fn due_ns(&self, qpn: u32, space: Space) -> Option<u64> {
        self.sending(qpn, space)?.timer.deadline_ns
    }

    /// The earliest deadline of all timers.
    pub fn next_deadline_ns(&mut self) -> Option<u64> {
        self.earliest().map(|(deadline_ns, _)| deadline_ns)
    }

    fn earliest(&mut self) -> Option<(u64, u32)> {
        let queue_pairs = &self.queue_pairs;
        self.deadlines.earliest(|timer| {
            let queue_pair = queue_pairs[(timer / 2) as usize].as_ref()?;
            queue_pair.spaces[(timer % 2) as usize].as_ref()?.timer.deadline_ns
        })
    }

    /// Fires the timer of a sequence space.
    ///
    /// # Errors
    /// [`NotDue`]: it may not fire at this time.
    pub fn expire(&mut self, qpn: u32, space: Space, now_ns: u64) -> Result<(), NotDue> {
        let due_ns = self.due_ns(qpn, space).ok_or(NotDue::Nothing)?;
        if now_ns < due_ns {
            return Err(NotDue::Early { now_ns, due_ns });
        }
        self.step(qpn, space, now_ns, |sending, step| sending.timed_out(step));
        Ok(())
    }

    /// Fires all timers that are due, the earliest first. (In hardware a sweep finds them: [`RetransmitEngine::expire`].)
    pub fn expire_due(&mut self, now_ns: u64) {
        if self.deadlines.none_until(now_ns) {
            return;
        }
        while let Some((_, timer)) = self.earliest().filter(|(due_ns, _)| *due_ns <= now_ns) {
            let space = Space::ALL[(timer % 2) as usize];
            if self.expire(timer / 2, space, now_ns).is_err() {
                return;
            }
        }
    }

    fn sending(&self, qpn: u32, space: Space) -> Option<&Sending> {
        self.queue_pairs.get(qpn as usize)?.as_ref()?.spaces[space as usize].as_deref()
    }

    /// A step of a sequence space that sends; then tells what changed.
    fn step(&mut self, qpn: u32, space: Space, now_ns: u64, act: impl FnOnce(&mut Sending, &mut Step<'_>)) {
        let Some(queue_pair) = self.queue_pairs.get_mut(qpn as usize).and_then(Option::as_mut) else {
            return;
        };
        let Some(sending) = queue_pair.spaces[space as usize].as_mut() else {
            return;
        };
        let mut step = Step {
            qpn,
            space,
            context: queue_pair.context,
            now_ns,
            counters: &mut self.counters,
            progress: &mut self.progress,
            resends: &mut self.resends,
            events: &mut self.events,
            control: &mut self.control,
            progressed: false,
            alive: false,
            failure: None,
        };
        let before = sending.state(space);
        act(sending, &mut step);
        sending.settle(before, &mut step);
        let failed = step.failure.is_some();
        if let Some(deadline_ns) = sending.timer.deadline_ns {
            self.deadlines.set(qpn * 2 + space as u32, deadline_ns);
        }
        if failed {
            count(&mut self.counters.failures);
            queue_pair.failed = true;
            queue_pair.spaces = [None, None];
        }
    }
}

#[cfg(test)]
#[path = "retransmit_engine_tests.rs"]
mod tests;
