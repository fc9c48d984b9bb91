//! `spraynic_nic`: the whole NIC. Frames, requests and table writes in; frames, completions and memory out.
//!
//! It composes the blocks and adds no rule of its own but two: which of several sources a port serves (control first, then requests, responses
//! of solar and responses of roce in turn, then the host's frames), and how a probe of a path is asked and recognised. It knows no clock: what
//! depends on time it is told in nanoseconds. Theory of operation: `docs/src/blocks/spraynic_nic.md`.

mod host;
mod probe;
mod receive;
mod transmit;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Completion, PacketDescriptor, PathEventKind, PathUpdate, SendProgress};

use crate::ack_engine::Pacing;
use crate::header_builder::{self, HeaderBuilder};
use crate::icrc::{self, IcrcInsert};
use crate::packet_parser::TrimmedDscp;
use crate::path_monitor::{self, PathMonitor};
use crate::payload_writer::{self, PayloadWriter};
use crate::rate_limiter::{self, Grant, RateLimiter};
use crate::receive_pipeline::path::{Outcome, ReceivePath};
use crate::receive_pipeline::{self, requests};
use crate::reorder_buffer::Space;
use crate::request_ring::{self, RequestRings};
use crate::requester::{self, Requester};
use crate::response_queue::{self, ResponseQueue};
use crate::retransmit_engine::{self, RetransmitEngine};
use crate::spray_scheduler::{self, RANDOM_SEED, SprayScheduler};
use crate::work_queue::{self, WorkQueue};

pub use host::HostMemory;
use transmit::Sources;

/// What the host sets in registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// When to acknowledge.
    pub pacing: Pacing,
    /// DSCPs of trimmed packets.
    pub trimmed_dscp: TrimmedDscp,
    /// Order of the traffic classes.
    pub classes: work_queue::Classes,
    /// How paths are judged.
    pub paths: path_monitor::Settings,
}

/// Counters of the blocks inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// From the parser to the acknowledgements.
    pub receive: receive_pipeline::Counters,
    /// From the responder to the answers.
    pub requests: requests::Counters,
    /// Of `request_ring`.
    pub request_ring: request_ring::Counters,
    /// Of `work_queue`.
    pub work_queue: work_queue::Counters,
    /// Of `rate_limiter`.
    pub rate_limiter: rate_limiter::Counters,
    /// Of `spray_scheduler`.
    pub spray_scheduler: spray_scheduler::Counters,
    /// Of `path_monitor`.
    pub path_monitor: path_monitor::Counters,
    /// Of `retransmit_engine`.
    pub retransmit_engine: retransmit_engine::Counters,
    /// Of `requester`.
    pub requester: requester::Counters,
    /// Of the `payload_writer` behind it.
    pub response_writer: payload_writer::Counters,
    /// Of `response_queue`.
    pub response_queue: response_queue::Counters,
    /// Of `header_builder`.
    pub header_builder: header_builder::Counters,
    /// Of `icrc` (insert).
    pub icrc: icrc::Counters,
}

/// The NIC.
#[derive(Debug, Clone)]
pub struct SpraynicNic {
    config: NicConfig,
    settings: Settings,
    receive: ReceivePath,
    /// What came of the frame that is looked at: empty between frames, and kept so that nothing is allocated for each.
    outcome: Outcome,
    rings: RequestRings,
    work: WorkQueue,
    limiter: RateLimiter,
    spray: SprayScheduler,
    monitor: PathMonitor,
    retransmit: RetransmitEngine,
    requester: Requester,
    /// Payload of responses on its way to memory.
    response_writer: PayloadWriter,
    responses: ResponseQueue,
    builder: HeaderBuilder,
    icrc: IcrcInsert,
    sources: Sources,
    control: VecDeque<PacketDescriptor>,
    ports_up: u8,
    /// Chooses the ports of answers.
    answer_random: u32,
    completions: VecDeque<Completion>,
    to_host: VecDeque<Vec<u8>>,
    /// When SACKs of the timer fall due: those that have been sent since are still in it.
    sack_timers: BinaryHeap<Reverse<(u64, u32, bool)>>,
}

impl SpraynicNic {
    /// The NIC after reset, all ports up.
    #[must_use]
    pub fn new(config: &NicConfig, settings: Settings) -> Self {
        let mut work = WorkQueue::new(config.into());
        work.set_classes(settings.classes);
        Self {
            config: config.clone(),
            settings,
            receive: ReceivePath::new(config.into()),
            outcome: Outcome::default(),
            rings: RequestRings::new(config.into()),
            work,
            limiter: RateLimiter::new(config.into()),
            spray: SprayScheduler::new(config.into()),
            monitor: PathMonitor::new(config.into(), settings.paths),
            retransmit: RetransmitEngine::new(config.into()),
            requester: Requester::new(config.into()),
            response_writer: PayloadWriter::new(config.into()),
            responses: ResponseQueue::new(config.into()),
            builder: HeaderBuilder::new(config.into()),
            icrc: IcrcInsert::new(),
            sources: Sources::default(),
            control: VecDeque::new(),
            ports_up: ((1u16 << config.paths.ports) - 1) as u8,
            answer_random: RANDOM_SEED,
            completions: VecDeque::new(),
            to_host: VecDeque::new(),
            sack_timers: BinaryHeap::new(),
        }
    }

    /// Counters of all blocks.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let (receive, requests) = self.receive.counters();
        Counters {
            receive,
            requests,
            request_ring: *self.rings.counters(),
            work_queue: *self.work.counters(),
            rate_limiter: *self.limiter.counters(),
            spray_scheduler: *self.spray.counters(),
            path_monitor: *self.monitor.counters(),
            retransmit_engine: *self.retransmit.counters(),
            requester: *self.requester.counters(),
            response_writer: *self.response_writer.counters(),
            response_queue: *self.responses.counters(),
            header_builder: *self.builder.counters(),
            icrc: *self.icrc.counters(),
        }
    }

    /// What was generated.
    #[must_use]
    pub fn config(&self) -> &NicConfig {
        &self.config
    }

    /// The next completion.
    pub fn completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// The next frame for the host.
    pub fn slow_path(&mut self) -> Option<Vec<u8>> {
        self.to_host.pop_front()
    }

    /// A port's link goes down or comes up.
    pub fn set_port(&mut self, port: u8, up: bool) {
        let bit = 1u8.checked_shl(port.into()).unwrap_or(0);
        if up {
            self.ports_up |= bit;
        } else {
            self.ports_up &= !bit;
        }
    }

    /// When the timers have to be looked at, if nothing else happens before.
    pub fn wake_ns(&mut self) -> Option<u64> {
        let sack = self.sack_timers.peek().map(|Reverse((due_ns, ..))| *due_ns);
        let probe = self.monitor.next_probe_ns();
        let times = [
            probe,
            self.retransmit.next_deadline_ns(),
            self.work.wakes_at(),
            self.responses.wakes_at(),
        ];
        times.into_iter().fold(sack, earlier)
    }

    /// All timers go on to this time.
    pub fn advance(&mut self, now_ns: u64) {
        while let Some(Reverse((due_ns, qpn, responses))) = self.sack_timers.peek().copied()
            && due_ns <= now_ns
        {
            self.sack_timers.pop();
            let space = if responses { Space::Responses } else { Space::Requests };
            // One that was sent since is not due any more.
            if let Ok(sack) = self.receive.expire(qpn, space, now_ns) {
                self.answer(sack);
            }
        }
        self.retransmit.expire_due(now_ns);
        self.settle();
        self.probe_paths(now_ns);
    }

    /// What `retransmit_engine` and `work_queue` have to say goes where it belongs.
    fn settle(&mut self) {
        if self.retransmit.is_silent() && self.work.is_silent() {
            return;
        }
        while let Some(progress) = self.retransmit.next_progress() {
            self.progress(&progress);
        }
        while let Some(resend) = self.retransmit.next_resend() {
            if resend.space {
                self.responses.resend(&resend);
            } else {
                self.work.resend(&resend);
            }
        }
        while let Some(event) = self.retransmit.next_path_event() {
            if event.kind == PathEventKind::Acknowledged as u8 {
                self.spray.recycle(&event);
            }
            for update in self.monitor.event(&event).as_slice() {
                self.spray.update(update);
            }
        }
        while let Some(probe) = self.retransmit.next_control() {
            self.control.push_back(probe);
        }
        while let Some(completion) = self.work.pop_completion() {
            self.completions.push_back(completion);
        }
    }

    fn progress(&mut self, progress: &SendProgress) {
        if progress.space {
            self.responses.progress(progress);
        }
        // A failure in either space is one of the queue pair.
        if !progress.space || progress.failed {
            self.work.progress(progress);
        }
    }

    fn update_path(&mut self, update: &PathUpdate) {
        self.spray.update(update);
    }

    fn granted(grant: Grant) -> bool {
        grant == Grant::Granted
    }

    /// What is held for queue pairs, as text; empty: no slot, no place in a window, no request, no response.
    #[must_use]
    pub fn leftovers(&self) -> String {
        let mut held = Vec::new();
        let buffer = self.receive.pipeline().reorder_buffer();
        for qpn in 0..self.config.send_queue_pairs() {
            let outstanding = Space::ALL.map(|space| self.retransmit.outstanding(qpn, space).unwrap_or(0));
            let counts = [
                ("slots of the pool", buffer.used_slots(qpn)),
                ("requests that are not complete", self.work.waiting(qpn)),
                ("requests outstanding", outstanding[0]),
                ("responses outstanding", outstanding[1]),
                ("responses awaited", self.requester.expected(qpn) as u32),
                ("responses held", u32::from(!self.responses.is_idle(qpn))),
            ];
            let named = counts.iter().filter(|(_, count)| *count > 0);
            held.extend(named.map(|(what, count)| format!("queue pair {qpn}: {what}: {count}")));
        }
        held.join(", ")
    }
}

/// The earlier of two times, where there are any.
fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, None) => one,
        (None, other) => other,
    }
}
