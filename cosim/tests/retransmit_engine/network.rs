//! Scenarios that go deep: senders, paths and receivers in the small, run with a golden model while they are written down.

use std::collections::VecDeque;

use spraynic_config::Profile;
use spraynic_config::descriptor::{Extension, QueuePairState, ReceivedPacket, SendContext, SentPacket};
use spraynic_golden::reorder_buffer::Space;
use spraynic_golden::retransmit_engine::{Config, RetransmitEngine};
use spraynic_wire::{
    CcState, Header, NackReason, NakCode, Neth, Opcode, PathFeedback, Psn, RnrTimer, SequenceSpace, Seth, Syndrome,
};

use super::scenario::{BEGIN, Event, QUEUE_PAIRS, config, time_at};

/// What chance decides.
#[derive(Debug, Clone)]
pub(super) struct Chances {
    pub(super) seed: u64,
    pub(super) steps: u32,
    /// PSNs of a window.
    pub(super) window: u32,
    /// Clocks between two steps, up to.
    pub(super) gap: u64,
    /// In percent.
    pub(super) loss: u64,
    pub(super) trim: u64,
    pub(super) garbage: u64,
    pub(super) context: u64,
    /// Packets sent for each that arrives.
    pub(super) eager: u64,
    pub(super) paths: u8,
    pub(super) ooo_threshold: u16,
    pub(super) base_rtt_ns: u32,
    pub(super) timeout_ns: u32,
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// One direction of a queue pair's sequence space.
#[derive(Debug, Clone, Default)]
struct Flow {
    next: u32,
    /// Packets under way, by path: PSN and entropy.
    paths: Vec<VecDeque<(u32, u16)>>,
    resends: VecDeque<(u32, u8)>,
    /// What the receiver has, from `cumulative` + 1 on.
    cumulative: u32,
    beyond: Vec<u32>,
    arrivals: u32,
    /// roce: what was sent (first PSN, PSNs, whether it is a READ, slot), the oldest PSN, and what is sent again next.
    requests: Vec<(u32, u32, bool, u8)>,
    base: u32,
    again: Option<usize>,
}

fn wrap(psn: u32) -> u32 {
    psn & 0xFF_FFFF
}

impl Flow {
    fn new(psn: u32, paths: u8) -> Self {
        Self {
            next: wrap(psn),
            base: wrap(psn),
            paths: vec![VecDeque::new(); paths.into()],
            cumulative: wrap(psn.wrapping_sub(1)),
            ..Self::default()
        }
    }

    fn has(&self, psn: u32) -> bool {
        Psn::new(psn).distance(Psn::new(self.cumulative)) <= 0 || self.beyond.contains(&psn)
    }

    fn receive(&mut self, psn: u32) {
        self.arrivals += 1;
        if !self.has(psn) {
            self.beyond.push(psn);
        }
        while let Some(found) = self.beyond.iter().position(|one| *one == wrap(self.cumulative + 1)) {
            self.beyond.swap_remove(found);
            self.cumulative = wrap(self.cumulative + 1);
        }
    }

    /// The SACK that a packet asks for.
    fn sack(&self, psn: u32, entropy: u16, space: bool, feedback: PathFeedback) -> (Seth, CcState) {
        let distance = Psn::new(psn).distance(Psn::new(self.cumulative));
        let far = if distance > 64 { (distance - 1) / 64 } else { 0 };
        let first = self.cumulative.wrapping_add(1 + 64 * far as u32);
        let bitmap = (0..64).filter(|bit| self.beyond.contains(&wrap(first.wrapping_add(*bit))));
        let seth = Seth {
            space: if space {
                SequenceSpace::Responses
            } else {
                SequenceSpace::Requests
            },
            feedback,
            ack_psn_offset: distance as i16,
            entropy: entropy.into(),
            cack_psn: Psn::new(self.cumulative),
            sack_offset: 1 + 64 * far as i16,
            sack_bitmap: bitmap.fold(0, |bitmap, bit| bitmap | 1 << bit),
            ..Seth::default()
        };
        let state = CcState {
            ooo_count: self.beyond.len() as u16,
            ..CcState::default()
        };
        (seth, state)
    }
}

pub(super) fn packet(qpn: u32, opcode: Opcode, psn: u32, headers: &[&[u8]]) -> ReceivedPacket {
    let bytes = headers.concat();
    let mut extension = Extension::default();
    extension.0[..bytes.len()].copy_from_slice(&bytes);
    ReceivedPacket {
        qpn,
        opcode: opcode.0,
        psn: wrap(psn),
        extension_words: (bytes.len() / 4) as u8,
        extension,
        ..ReceivedPacket::default()
    }
}

struct Writer {
    chances: Chances,
    random: Random,
    cycle: u64,
    model: RetransmitEngine,
    contexts: Vec<SendContext>,
    flows: Vec<[Flow; 2]>,
    events: Vec<(u64, Event)>,
}

/// The events of a scenario. All queue pairs are reset at its end.
pub(super) fn write(chances: Chances) -> Vec<(u64, Event)> {
    let mut writer = Writer {
        random: Random(chances.seed),
        cycle: 0,
        model: RetransmitEngine::new(Config::from(&config(chances.window))),
        contexts: vec![SendContext::default(); QUEUE_PAIRS as usize],
        flows: vec![Default::default(); QUEUE_PAIRS as usize],
        events: vec![],
        chances,
    };
    for qpn in 0..QUEUE_PAIRS {
        writer.open(qpn);
    }
    for _ in 0..writer.chances.steps {
        writer.step();
    }
    writer.settle();
    writer.cycle += 3_000;
    for qpn in 0..QUEUE_PAIRS {
        let context = SendContext {
            qpn,
            ..SendContext::default()
        };
        writer.give(Event::Context(context));
    }
    writer.events
}

impl Writer {
    fn give(&mut self, event: Event) {
        let now = time_at(BEGIN + self.cycle);
        match &event {
            Event::Context(context) => self.model.write_context(context),
            Event::Sent(packet) => self.model.sent(packet, now),
            Event::Feedback(packet) => self.model.feedback(packet, &Default::default(), now),
            Event::Timer(..) => {}
        }
        self.events.push((self.cycle, event));
        self.model.expire_due(now);
        while let Some(resend) = self.model.next_resend() {
            let flow = &mut self.flows[resend.qpn as usize][usize::from(resend.space)];
            if resend.rewind {
                let holds =
                    |request: &(u32, u32, bool, u8)| Psn::new(resend.psn).is_in_window(Psn::new(request.0), request.1);
                flow.again = flow.requests.iter().position(holds);
            } else {
                flow.resends.push_back((resend.psn, resend.slot));
            }
        }
        while let Some(progress) = self.model.next_progress() {
            self.flows[progress.qpn as usize][usize::from(progress.space)].base = progress.base;
        }
        while self.model.next_path_event().is_some() {}
        while self.model.next_control().is_some() {}
        self.cycle += self.random.below(self.chances.gap + 1);
    }

    fn open(&mut self, qpn: u32) {
        let random = &mut self.random;
        let state = match random.below(10) {
            0 => QueuePairState::Error,
            1 => QueuePairState::ReadyToReceive,
            _ => QueuePairState::ReadyToSend,
        };
        let profile = match random.below(20) {
            0 => 3,
            1..7 => Profile::Mrc.code(),
            7..13 => Profile::Roce.code(),
            _ => Profile::Solar.code(),
        };
        let start = |random: &mut Random| match random.below(3) {
            0 => 0xFF_FFFF - random.below(200) as u32,
            1 => 0x7F_FFFF - random.below(200) as u32,
            _ => random.next() as u32 & 0xFF_FFFF,
        };
        let context = SendContext {
            qpn,
            state: state as u8,
            profile,
            policy: u8::from(random.below(8) > 0) * 2,
            path_set: random.below(32) as u16,
            window: self.chances.window as u16,
            retry_limit: random.below(3) as u8,
            rnr_retry: random.below(8) as u8,
            psn: start(random),
            sent_response_psn: start(random),
            peer_qpn: random.next() as u32 & 0xFF_FFFF,
            ooo_threshold: self.chances.ooo_threshold,
            base_rtt_ns: self.chances.base_rtt_ns,
            timeout_ns: self.chances.timeout_ns,
            ..SendContext::default()
        };
        self.contexts[qpn as usize] = context;
        let before = [Space::Requests, Space::Responses].map(|space| self.model.outstanding(qpn, space));
        self.give(Event::Context(context));
        let starts = [context.psn, context.sent_response_psn];
        for (index, space) in [Space::Requests, Space::Responses].into_iter().enumerate() {
            // A space that goes on keeps its numbers.
            if before[index].is_none() && self.model.outstanding(qpn, space).is_some() {
                self.flows[qpn as usize][index] = Flow::new(starts[index], self.chances.paths);
            }
        }
    }

    fn step(&mut self) {
        if self.random.below(1_000) < self.chances.context {
            let qpn = self.random.below(QUEUE_PAIRS.into()) as u32;
            return self.open(qpn);
        }
        let queue_pairs = if self.random.percent(70) {
            1
        } else {
            u64::from(QUEUE_PAIRS)
        };
        let qpn = self.random.below(queue_pairs) as u32;
        let space = self.random.percent(25);
        if self.random.percent(self.chances.garbage) {
            return self.garbage(qpn);
        }
        if self.flows[qpn as usize][usize::from(space)].paths.is_empty() {
            return;
        }
        let sends = self.random.below(self.chances.eager + 10) >= 10;
        if self.contexts[qpn as usize].profile == Profile::Roce.code() {
            if sends {
                self.send_roce(qpn);
            } else {
                self.answer_roce(qpn);
            }
        } else if sends {
            self.send(qpn, space);
        } else {
            self.arrive(qpn, space);
        }
    }

    fn send(&mut self, qpn: u32, space: bool) {
        let which = if space { Space::Responses } else { Space::Requests };
        let path = self.random.below(self.chances.paths.into()) as u8;
        let entropy = 0x4000 + u16::from(path);
        let last = self.random.percent(20);
        let response = self.random.percent(20);
        let lost = self.random.percent(self.chances.loss);
        let outstanding = self.model.outstanding(qpn, which).unwrap_or(0);
        let flow = &mut self.flows[qpn as usize][usize::from(space)];
        let (psn, slot, again) = match flow.resends.pop_front() {
            Some((psn, slot)) => (psn, slot, true),
            None if outstanding >= self.chances.window => return,
            None => {
                flow.next = wrap(flow.next + 1);
                (wrap(flow.next.wrapping_sub(1)), flow.next as u8, false)
            }
        };
        if !lost {
            flow.paths[usize::from(path)].push_back((psn, entropy));
        }
        let sent = SentPacket {
            qpn,
            psn,
            psns: 1,
            slot,
            path,
            port: path % 8,
            class: u8::from(path == 3 && psn % 16 == 0),
            space,
            last,
            retransmission: again,
            response,
            entropy,
            ..SentPacket::default()
        };
        self.give(Event::Sent(sent));
    }

    /// What is under way arrives, and what was lost is sent again and arrives; but no ACK of a message.
    fn settle(&mut self) {
        (self.chances.loss, self.chances.trim) = (0, 0);
        for _ in 0..6 {
            for qpn in 0..QUEUE_PAIRS {
                for space in [false, true] {
                    if self.contexts[qpn as usize].profile != Profile::Roce.code() {
                        self.deliver_all(qpn, space);
                    }
                }
            }
        }
    }

    fn deliver_all(&mut self, qpn: u32, space: bool) {
        while !self.flows[qpn as usize][usize::from(space)].resends.is_empty() {
            self.send(qpn, space);
        }
        let flow = &mut self.flows[qpn as usize][usize::from(space)];
        let mut last = None;
        for path in 0..flow.paths.len() {
            while let Some(packet) = flow.paths[path].pop_front() {
                flow.receive(packet.0);
                last = Some(packet);
            }
        }
        if let Some((psn, entropy)) = last {
            let (seth, state) = flow.sack(psn, entropy, space, PathFeedback::Good);
            let sack = packet(qpn, Opcode::SACK, 0, &[&seth.to_bytes(), &state.to_bytes()]);
            self.give(Event::Feedback(sack));
        }
    }

    /// roce: the next request, or what was to be sent again.
    fn send_roce(&mut self, qpn: u32) {
        let outstanding = self.model.outstanding(qpn, Space::Requests).unwrap_or(0);
        let response = self.random.percent(30);
        let psns = if response { 1 + self.random.below(6) as u32 } else { 1 };
        let flow = &mut self.flows[qpn as usize][0];
        let (psn, psns, response, slot, retransmission) = match flow.again {
            Some(index) => {
                flow.again = (index + 1 < flow.requests.len()).then_some(index + 1);
                let (psn, psns, response, slot) = flow.requests[index];
                // A READ from its first missing response.
                let done = Psn::new(flow.base).distance(Psn::new(psn)).clamp(0, psns as i32 - 1) as u32;
                (wrap(psn + done), psns - done, response, slot, true)
            }
            None if outstanding + psns > self.chances.window => return,
            None => {
                let psn = flow.next;
                flow.next = wrap(psn + psns);
                flow.requests.push((psn, psns, response, psn as u8));
                (psn, psns, response, psn as u8, false)
            }
        };
        self.give(Event::Sent(SentPacket {
            qpn,
            psn,
            psns,
            slot,
            response,
            retransmission,
            last: true,
            ..SentPacket::default()
        }));
    }

    /// roce: an answer that stands near the oldest PSN.
    fn answer_roce(&mut self, qpn: u32) {
        let base = self.flows[qpn as usize][0].base;
        let random = &mut self.random;
        let psn = wrap(base.wrapping_add(random.below(4) as u32));
        let ack = |syndrome: Syndrome| packet(qpn, Opcode::ACKNOWLEDGE, psn, &[&[syndrome.byte(), 0, 0, 0]]);
        let answer = match random.below(40) {
            0..14 => ack(Syndrome::ACK),
            14 => packet(qpn, Opcode::ACKNOWLEDGE, base.wrapping_sub(1), &[&[0x1F, 0, 0, 0]]),
            15..20 => ack(Syndrome::Nak(NakCode::PsnSequenceError)),
            20..23 => ack(Syndrome::RnrNak(RnrTimer::from_code(1))),
            23 if random.percent(30) => ack(Syndrome::Nak(NakCode::ALL[random.below(5) as usize])),
            _ => {
                let opcode = Opcode([0x0D, 0x0E, 0x0F, 0x10, 0x12][random.below(5) as usize]);
                let near = wrap(base.wrapping_add(random.below(3) as u32));
                packet(qpn, opcode, near, &[&[random.next() as u8, 0, 0, 0]])
            }
        };
        self.give(Event::Feedback(answer));
    }

    fn arrive(&mut self, qpn: u32, space: bool) {
        let path = self.random.below(self.chances.paths.into()) as usize;
        let (trimmed, asks, marked) = (
            self.random.percent(self.chances.trim),
            self.random.percent(25),
            self.random.below(6),
        );
        let answers_late = self.random.percent(10);
        let flow = &mut self.flows[qpn as usize][usize::from(space)];
        let Some((psn, entropy)) = flow.paths[path].pop_front() else {
            return;
        };
        if trimmed {
            let reasons = NackReason::ALL;
            let neth = Neth {
                space: if space {
                    SequenceSpace::Responses
                } else {
                    SequenceSpace::Requests
                },
                reason: reasons[self.random.below(reasons.len() as u64) as usize],
                entropy: entropy.into(),
                nack_psn: Psn::new(psn),
                ..Neth::default()
            };
            let nack = packet(qpn, Opcode::NACK, psn, &[&neth.to_bytes()]);
            return self.give(Event::Feedback(nack));
        }
        // A SACK may be of the state before, and come behind newer ones.
        let feedback = PathFeedback::from_code(marked.saturating_sub(2) as u8 & 3);
        let old = flow.sack(psn, entropy, space, feedback);
        flow.receive(psn);
        let far = Psn::new(psn).distance(Psn::new(flow.cumulative)) > 64;
        let due = asks || far || flow.arrivals.is_multiple_of(4);
        let (seth, state) = if answers_late {
            old
        } else {
            flow.sack(psn, entropy, space, feedback)
        };
        let acks = !space && flow.arrivals.is_multiple_of(6);
        let cumulative = flow.cumulative;
        if due {
            let sack = packet(qpn, Opcode::SACK, 0, &[&seth.to_bytes(), &state.to_bytes()]);
            self.give(Event::Feedback(sack));
        }
        if acks {
            let opcode = if self.random.percent(50) {
                Opcode::ACKNOWLEDGE
            } else {
                Opcode::MRC_ACKNOWLEDGE
            };
            let ack = packet(qpn, opcode, cumulative, &[&[Syndrome::ACK.byte(), 0, 0, 0]]);
            self.give(Event::Feedback(ack));
        }
    }

    /// Feedback and packets that nobody should send.
    fn garbage(&mut self, qpn: u32) {
        let near = {
            let flow = &self.flows[qpn as usize][0];
            wrap(
                flow.cumulative
                    .wrapping_add(self.random.below(300) as u32)
                    .wrapping_sub(100),
            )
        };
        let random = &mut self.random;
        let qpn = if random.percent(10) {
            QUEUE_PAIRS + random.below(3) as u32
        } else {
            qpn
        };
        let event = match random.below(8) {
            0 => {
                let seth = Seth {
                    cack_psn: Psn::new(near),
                    sack_offset: random.below(200) as i16 - 100,
                    sack_bitmap: random.next() & random.next() & random.next(),
                    probe_response: random.percent(50),
                    ack_psn_offset: random.below(4) as i16,
                    ..Seth::default()
                };
                let state = CcState {
                    ooo_count: random.below(40) as u16,
                    ..CcState::default()
                };
                let (seth, state) = (seth.to_bytes(), state.to_bytes());
                let headers: [&[u8]; 2] = [&seth, &state];
                let count = 1 + random.below(2) as usize;
                Event::Feedback(packet(qpn, Opcode::SACK, 0, &headers[..count]))
            }
            1 => {
                let mut bytes = [0u8; 36];
                for byte in &mut bytes {
                    *byte = random.next() as u8;
                }
                bytes[0] &= 0x3F;
                let opcodes = [
                    Opcode::SACK,
                    Opcode::NACK,
                    Opcode::ACKNOWLEDGE,
                    Opcode::CNP,
                    Opcode(0x0E),
                ];
                let opcode = opcodes[random.below(5) as usize];
                Event::Feedback(packet(qpn, opcode, near, &[&bytes]))
            }
            2 => {
                let trimmed = random.below(3) as u8;
                let ack = packet(qpn, Opcode::ACKNOWLEDGE, near, &[&[Syndrome::ACK.byte(), 0, 0, 0]]);
                Event::Feedback(ReceivedPacket { trimmed, ..ack })
            }
            3 if random.percent(15) => {
                let code = NakCode::ALL[random.below(5) as usize];
                let nak = packet(
                    qpn,
                    Opcode::ACKNOWLEDGE,
                    near,
                    &[&[Syndrome::Nak(code).byte(), 0, 0, 0]],
                );
                Event::Feedback(nak)
            }
            4 | 5 => Event::Sent(SentPacket {
                qpn,
                psn: near,
                psns: 1,
                path: random.next() as u8,
                entropy: random.next() as u16,
                retransmission: true,
                ..SentPacket::default()
            }),
            _ => {
                let neth = Neth {
                    reason: NackReason::from_code(random.below(16) as u8),
                    entropy: 0x4000 + random.below(4) as u32,
                    nack_psn: Psn::new(near),
                    ..Neth::default()
                };
                Event::Feedback(packet(qpn, Opcode::NACK, near, &[&neth.to_bytes()]))
            }
        };
        self.give(event);
    }
}
