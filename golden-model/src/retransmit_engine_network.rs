//! A sender, paths and an honest receiver around the model: what comes of loss, reordering and duplication.
//!
//! The receiver is made of the golden `reorder_buffer` and `ack_engine`; the sender stands for `work_queue` and `spray_scheduler` in a few lines.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use spraynic_config::descriptor::{Answer, PathEventKind, QueuePairContext, SequenceReport};
use spraynic_wire::Syndrome;

use super::*;
use crate::ack_engine::{self, AckEngine, Pacing};
use crate::reorder_buffer::{self, Arrival, ReorderBuffer};

/// Deterministic numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn hits(&mut self, per_million: u32) -> bool {
        self.below(1_000_000) < per_million.into()
    }
}

#[derive(Debug, Clone)]
pub(super) struct Scene {
    pub(super) seed: u64,
    pub(super) mrc: bool,
    pub(super) start: u32,
    pub(super) packets: u32,
    /// Packets of a message.
    pub(super) message: u32,
    pub(super) window: u32,
    /// One-way delay of each path; each keeps its order.
    pub(super) delays_ns: Vec<u64>,
    /// Up to so much is added to the delay of each packet.
    pub(super) jitter_ns: u64,
    /// A path for each packet at random instead of one after the other.
    pub(super) random: bool,
    /// Time between two packets.
    pub(super) gap_ns: u64,
    /// Per million.
    pub(super) loss: u32,
    pub(super) feedback_loss: u32,
    pub(super) duplication: u32,
    pub(super) ooo_threshold: u16,
    pub(super) base_rtt_ns: u32,
    pub(super) timeout_ns: u32,
    pub(super) retry_limit: u8,
    /// Both directions are dead from the first to the second time.
    pub(super) outage_ns: (u64, u64),
    /// All feedback before this time is lost.
    pub(super) feedback_from_ns: u64,
    /// The packet this far from the start is lost so many times.
    pub(super) victim: (u32, u32),
    /// A path that delivers nothing; a packet that was sent by it before takes another one.
    pub(super) dead_path: Option<usize>,
}

impl Default for Scene {
    fn default() -> Self {
        Self {
            seed: 1,
            mrc: false,
            start: 0xFF_FFC0,
            packets: 1_000,
            message: 16,
            window: 128,
            delays_ns: vec![2_000, 2_100, 2_700, 3_000],
            jitter_ns: 0,
            random: false,
            gap_ns: 80,
            loss: 0,
            feedback_loss: 0,
            duplication: 0,
            ooo_threshold: 32,
            base_rtt_ns: 12_000,
            timeout_ns: 100_000,
            retry_limit: 7,
            outage_ns: (0, 0),
            feedback_from_ns: 0,
            victim: (0, 0),
            dead_path: None,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    pub(super) transmissions: u32,
    /// Packets sent again although a copy had arrived or was about to.
    pub(super) spurious: u32,
    pub(super) counters: Counters,
    pub(super) finished_ns: u64,
    pub(super) failed: Option<u8>,
    /// Longest time in which nothing new was done.
    pub(super) longest_rest_ns: u64,
    /// Path events by kind.
    pub(super) events: [u32; 9],
    /// Events `Lost` by path.
    pub(super) lost_of_path: [u32; 16],
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Send,
    Arrive { psn: u32, path: u8 },
    Timer,
    Feedback(u32),
    Fire,
}

const QPN: u32 = 1;

struct Network {
    scene: Scene,
    random: Random,
    queue: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    engine: RetransmitEngine,
    reorder: ReorderBuffer,
    acks: AckEngine,
    pacing: Pacing,
    /// Feedback on its way.
    feedback: Vec<Option<PacketDescriptor>>,
    /// When each path last delivered, forward.
    last_ns: Vec<u64>,
    resends: VecDeque<u32>,
    next: u32,
    base: u32,
    done: u32,
    answered: u32,
    round: usize,
    sending: bool,
    /// A copy has arrived or will.
    arrives: Vec<bool>,
    victim_left: u32,
    outcome: Outcome,
    last_done_ns: u64,
    armed: Option<u64>,
}

impl Network {
    fn new(scene: Scene) -> Self {
        let context = SendContext {
            qpn: QPN,
            state: QueuePairState::ReadyToSend as u8,
            profile: if scene.mrc { Profile::Mrc } else { Profile::Solar }.code(),
            policy: 2,
            window: scene.window as u16,
            retry_limit: scene.retry_limit,
            psn: scene.start,
            ooo_threshold: scene.ooo_threshold,
            base_rtt_ns: scene.base_rtt_ns,
            timeout_ns: scene.timeout_ns,
            ..SendContext::default()
        };
        let receive = QueuePairContext {
            qpn: QPN,
            state: QueuePairState::ReadyToSend as u8,
            profile: context.profile,
            mtu: 5,
            psn: scene.start,
            ..QueuePairContext::default()
        };
        let mut engine = RetransmitEngine::new(Config {
            queue_pairs: 2,
            window: scene.window,
            paths: 16,
            reads: 4,
        });
        engine.write_context(&context);
        let mut reorder = ReorderBuffer::new(reorder_buffer::Config {
            queue_pairs: 2,
            window: scene.window,
            pool_slots: scene.window * 2,
            reorder_queue_pairs: 2,
            guaranteed_slots: 1,
            receive_requests: 2,
        });
        reorder.write_context(&receive);
        let mut acks = AckEngine::new(ack_engine::Config {
            queue_pairs: 2,
            window: scene.window,
        });
        acks.write_context(&receive);
        Self {
            random: Random(scene.seed),
            queue: BinaryHeap::new(),
            sequence: 0,
            engine,
            reorder,
            acks,
            pacing: Pacing::default(),
            feedback: Vec::new(),
            last_ns: vec![0; scene.delays_ns.len()],
            resends: VecDeque::new(),
            next: 0,
            base: 0,
            done: 0,
            answered: 0,
            round: 0,
            sending: false,
            arrives: vec![false; scene.packets as usize],
            victim_left: scene.victim.1,
            outcome: Outcome::default(),
            last_done_ns: 0,
            armed: None,
            scene,
        }
    }

    fn at(&mut self, time_ns: u64, event: Event) {
        self.sequence += 1;
        self.queue.push(Reverse((time_ns, self.sequence, event)));
    }

    fn psn(&self, packet: u32) -> u32 {
        Psn::new(self.scene.start + packet).value()
    }

    fn packet(&self, psn: u32) -> u32 {
        Psn::new(psn).steps_from(Psn::new(self.scene.start))
    }

    fn is_dead(&self, now_ns: u64) -> bool {
        (self.scene.outage_ns.0..self.scene.outage_ns.1).contains(&now_ns)
    }

    /// Runs until all is done, the queue pair fails, or nothing happens any more.
    fn run(mut self) -> Outcome {
        self.at(0, Event::Send);
        self.sending = true;
        while let Some(Reverse((now_ns, _, event))) = self.queue.pop() {
            match event {
                Event::Send => self.send(now_ns),
                Event::Arrive { psn, path } => self.arrive(psn, path, now_ns),
                Event::Timer => {
                    if let Ok(sack) = self.acks.expire(QPN, reorder_buffer::Space::Requests, now_ns) {
                        self.answer(sack, now_ns);
                    }
                }
                Event::Feedback(index) => {
                    let sack = self.feedback[index as usize].take().expect("once");
                    let packet = ReceivedPacket {
                        qpn: QPN,
                        opcode: sack.opcode,
                        psn: sack.psn,
                        extension_words: sack.extension_words,
                        extension: sack.extension,
                        ..ReceivedPacket::default()
                    };
                    self.engine.feedback(&packet, &PacketContext::default(), now_ns);
                }
                Event::Fire => {
                    self.armed = None;
                    self.engine.expire_due(now_ns);
                }
            }
            self.drain(now_ns);
            if self.done == self.scene.packets || self.outcome.failed.is_some() {
                self.outcome.finished_ns = now_ns;
                break;
            }
        }
        self.outcome.counters = *self.engine.counters();
        self.outcome
    }

    fn drain(&mut self, now_ns: u64) {
        while let Some(progress) = self.engine.next_progress() {
            self.base = self.packet(progress.base);
            let done = self.packet(progress.done);
            if done > self.done {
                self.done = done;
                self.outcome.longest_rest_ns = self.outcome.longest_rest_ns.max(now_ns - self.last_done_ns);
                self.last_done_ns = now_ns;
            }
            if progress.failed {
                self.outcome.failed = Some(progress.status);
            }
        }
        while let Some(resend) = self.engine.next_resend() {
            assert_eq!(
                u32::from(resend.slot),
                self.packet(resend.psn) / self.scene.message % 256
            );
            self.resends.push_back(resend.psn);
        }
        while let Some(event) = self.engine.next_path_event() {
            self.outcome.events[usize::from(event.kind)] += 1;
            if event.kind == PathEventKind::Lost as u8 {
                self.outcome.lost_of_path[usize::from(event.path)] += 1;
            }
        }
        while let Some(probe) = self.engine.next_control() {
            let packet = ReceivedPacket {
                qpn: QPN,
                opcode: probe.opcode,
                extension: probe.extension,
                extension_words: probe.extension_words,
                udp_source_port: probe.entropy as u16,
                ..ReceivedPacket::default()
            };
            // On its way at once: probes are few.
            if !self.is_dead(now_ns) && now_ns >= self.scene.feedback_from_ns {
                for answer in self.acks.probe(&packet) {
                    self.answer(answer, now_ns + self.scene.delays_ns[0]);
                }
            }
        }
        if let Some(due_ns) = self.engine.next_deadline_ns()
            && self.armed.is_none_or(|armed| due_ns < armed)
        {
            self.armed = Some(due_ns);
            self.at(due_ns.max(now_ns), Event::Fire);
        }
        if !self.sending && self.has_work() {
            self.sending = true;
            self.at(now_ns, Event::Send);
        }
    }

    fn has_work(&self) -> bool {
        !self.resends.is_empty() || (self.next < self.scene.packets && self.next - self.base < self.scene.window)
    }

    fn send(&mut self, now_ns: u64) {
        self.sending = false;
        if !self.has_work() {
            return;
        }
        let again = self.resends.pop_front();
        let psn = again.unwrap_or_else(|| {
            self.next += 1;
            self.psn(self.next - 1)
        });
        let packet = self.packet(psn);
        let paths = self.scene.delays_ns.len();
        self.round += 1;
        let path = if self.scene.random {
            self.random.below(paths as u64) as usize
        } else {
            self.round % paths
        };
        let path = match self.scene.dead_path {
            Some(dead) if again.is_some() && path == dead => (path + 1) % paths,
            _ => path,
        };
        self.outcome.transmissions += 1;
        self.outcome.spurious += u32::from(again.is_some() && self.arrives[packet as usize]);
        self.engine.sent(
            &SentPacket {
                qpn: QPN,
                psn,
                psns: 1,
                slot: (packet / self.scene.message) as u8,
                path: path as u8,
                last: packet % self.scene.message == self.scene.message - 1 || packet == self.scene.packets - 1,
                retransmission: again.is_some(),
                entropy: 0x100 + path as u16,
                ..SentPacket::default()
            },
            now_ns,
        );
        let victim = packet == self.scene.victim.0 && self.victim_left > 0;
        self.victim_left -= u32::from(victim);
        if !victim && self.scene.dead_path != Some(path) && !self.random.hits(self.scene.loss) && !self.is_dead(now_ns)
        {
            self.arrives[packet as usize] = true;
            let jitter = self.random.below(self.scene.jitter_ns + 1);
            let time_ns = (now_ns + self.scene.delays_ns[path] + jitter).max(self.last_ns[path]);
            self.last_ns[path] = time_ns;
            let path = path as u8;
            self.at(time_ns, Event::Arrive { psn, path });
            if self.random.hits(self.scene.duplication) {
                self.at(time_ns, Event::Arrive { psn, path });
            }
        }
        if self.has_work() {
            self.sending = true;
            self.at(now_ns + self.scene.gap_ns, Event::Send);
        }
    }

    fn arrive(&mut self, psn: u32, path: u8, now_ns: u64) {
        let arrival = Arrival {
            packet: ReceivedPacket {
                qpn: QPN,
                opcode: if self.scene.mrc { 0xC7 } else { 0x07 },
                psn,
                payload_length: 1_024,
                udp_source_port: 0x100 + u16::from(path),
                ..ReceivedPacket::default()
            },
            context: PacketContext {
                profile: if self.scene.mrc { Profile::Mrc } else { Profile::Solar }.code(),
                mtu: 5,
                ..PacketContext::default()
            },
            payload: vec![0; 1_024],
        };
        let (report, _): (SequenceReport, _) = self.reorder.receive(arrival);
        while self.reorder.is_releasable(QPN, reorder_buffer::Space::Requests) {
            self.reorder.release(QPN, reorder_buffer::Space::Requests);
        }
        for sack in self.acks.report(&report, &self.pacing, now_ns) {
            self.answer(sack, now_ns);
        }
        if let Some(due_ns) = self.acks.due_ns(QPN, reorder_buffer::Space::Requests) {
            self.at(due_ns, Event::Timer);
        }
        // An ACK for each message that is whole.
        let received = self.packet(report.cumulative).wrapping_add(1) & 0xFF_FFFF;
        let ended = if received == self.scene.packets {
            received
        } else {
            received / self.scene.message * self.scene.message
        };
        if ended > self.answered {
            self.answered = ended;
            let ack = self.acks.answer(&Answer {
                qpn: QPN,
                psn: self.psn(ended - 1),
                syndrome: Syndrome::ACK.byte(),
                ..Answer::default()
            });
            self.answer(ack.expect("solar and mrc acknowledge"), now_ns);
        }
    }

    /// Feedback takes another way each time, and may overtake.
    fn answer(&mut self, sack: PacketDescriptor, now_ns: u64) {
        if self.random.hits(self.scene.feedback_loss) || self.is_dead(now_ns) || now_ns < self.scene.feedback_from_ns {
            return;
        }
        self.feedback.push(Some(sack));
        let way = self.random.below(self.scene.delays_ns.len() as u64) as usize;
        let index = self.feedback.len() as u32 - 1;
        self.at(now_ns + self.scene.delays_ns[way], Event::Feedback(index));
    }
}

/// Runs a scene to its end: all done, or the queue pair failed.
pub(super) fn run(scene: Scene) -> Outcome {
    let outcome = Network::new(scene).run();
    assert!(outcome.finished_ns > 0, "stuck: {outcome:?}");
    outcome
}
