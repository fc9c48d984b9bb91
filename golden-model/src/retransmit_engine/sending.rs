//! A sequence space that sends: what each kind of feedback does to its window, its timer and its messages.
//!
//! It tells what follows (SendProgress, Resend, PathEvent, probes) into the queues of a [`Step`].

use std::collections::VecDeque;

use spraynic_config::Profile;
use spraynic_config::descriptor::{
    CompletionStatus, Extension, PacketDescriptor, PathEvent, PathEventKind, ReceivedPacket, Resend, SendContext,
    SendProgress, SentPacket, SprayPolicy,
};
use spraynic_wire::mrc::FTYPE_TIMESTAMP;
use spraynic_wire::{
    CcState, Header, NackReason, NakCode, Neth, Opcode, PathFeedback, Peth, Psn, RnrTimer, SequenceSpace, Seth,
    Syndrome,
};

use super::go_back_n::{self, GoBackN};
use super::timer::Timer;
use super::window::{Arrivals, Found, Noted, Refusal, Rules, Window};
use super::{Config, Counters, Space};
use crate::counter::count;

/// `rnr_retry` that never gives up (IBA volume 1, section 9.7.5.2.8).
const RNR_RETRY_WITHOUT_END: u8 = 7;
/// Extension words of a SACK with CC_STATE.
const SACK_WORDS: u8 = ((Seth::LENGTH + CcState::LENGTH) / 4) as u8;
/// So far at most `done` stays behind the base where no ACK moves it: sixteen of the largest windows, so no NAK is that late; and far less than half of all
/// PSNs, within which two can be compared.
const DONE_LAG: u32 = 1 << 14;
/// Place of the time stamp in a probe: see `PacketDescriptor::stamp`.
const STAMP_PETH: u8 = 2;

/// What became of feedback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    Yes,
    /// It has no effect.
    Stale,
    /// It speaks of what was never sent.
    Incredible,
}

#[derive(Debug, Clone)]
pub(super) enum Track {
    Selective(Window),
    GoBackN(GoBackN),
}

/// A step of a sequence space: what it may know beside its own state, and where it tells what follows.
pub(super) struct Step<'a> {
    pub(super) qpn: u32,
    pub(super) space: Space,
    pub(super) context: SendContext,
    pub(super) now_ns: u64,
    pub(super) counters: &'a mut Counters,
    pub(super) progress: &'a mut VecDeque<SendProgress>,
    pub(super) resends: &'a mut VecDeque<Resend>,
    pub(super) events: &'a mut VecDeque<PathEvent>,
    pub(super) control: &'a mut VecDeque<PacketDescriptor>,
    /// Something was acknowledged.
    pub(super) progressed: bool,
    /// The peer showed that it is there, though nothing was acknowledged.
    pub(super) alive: bool,
    /// The queue pair fails: the request at this PSN ends so.
    pub(super) failure: Option<(Psn, CompletionStatus)>,
}

impl Step<'_> {
    fn rules(&self) -> Rules {
        Rules {
            ooo_threshold: self.context.ooo_threshold,
            base_rtt_ns: self.context.base_rtt_ns,
        }
    }

    fn event(&mut self, kind: PathEventKind, path: u8) {
        if self.context.policy != SprayPolicy::Fixed as u8 {
            self.events.push_back(PathEvent {
                set: self.context.path_set,
                kind: kind as u8,
                path,
                qpn: self.qpn,
            });
        }
    }

    fn resend(&mut self, resend: Resend) {
        self.resends.push_back(Resend {
            qpn: self.qpn,
            space: self.space == Space::Responses,
            ..resend
        });
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Sending {
    pub(super) track: Track,
    pub(super) timer: Timer,
    /// All before it is done: by ACKs, or as far as it was acknowledged where no ACK is due (roce, responses).
    done: Psn,
    /// PSN behind the last packet that wants an ACK (solar and mrc requests).
    ack_wanted: Psn,
    /// Probes so far: the id of the last one.
    probes: u16,
    /// roce: the peer had no receive request, and the timer ends the wait.
    rnr_wait: bool,
    rnr_retries: u8,
}

impl Sending {
    pub(super) fn new(profile: Profile, psn: Psn, config: &Config) -> Self {
        let track = match profile {
            Profile::Roce => Track::GoBackN(GoBackN::new(psn, config.window, config.reads)),
            Profile::Solar | Profile::Mrc => Track::Selective(Window::new(psn, config.window, config.paths)),
        };
        Self {
            track,
            timer: Timer::default(),
            done: psn,
            ack_wanted: psn,
            probes: 0,
            rnr_wait: false,
            rnr_retries: 0,
        }
    }

    pub(super) fn base(&self) -> Psn {
        match &self.track {
            Track::Selective(window) => window.base(),
            Track::GoBackN(window) => window.base(),
        }
    }

    pub(super) fn next(&self) -> Psn {
        match &self.track {
            Track::Selective(window) => window.next(),
            Track::GoBackN(window) => window.next(),
        }
    }

    fn base_waits(&self) -> bool {
        match &self.track {
            Track::Selective(window) => window.base_waits(),
            Track::GoBackN(window) => window.base_waits(),
        }
    }

    fn done(&self, space: Space) -> Psn {
        match &self.track {
            Track::Selective(_) if space == Space::Requests => self.done,
            _ => self.base(),
        }
    }

    /// What a SendProgress would say.
    pub(super) fn state(&self, space: Space) -> (Psn, Psn, bool) {
        (self.base(), self.done(space), self.rnr_wait)
    }

    fn ack_is_missing(&self) -> bool {
        self.ack_wanted.is_after(self.done)
    }

    fn awaits(&self) -> bool {
        self.base() != self.next() || self.ack_is_missing()
    }

    /// Keeps PSNs within reach of each other where no ACK comes: of READs, atomics and messages that have not ended.
    fn pull_done_along(&mut self) {
        if !self.ack_is_missing() {
            let base = self.base();
            if base.distance(self.done) > DONE_LAG as i32 {
                self.done = base - DONE_LAG;
            }
            self.ack_wanted = self.done;
        }
    }

    /// Ends a step: sets the timer, and tells what changed since `before`.
    pub(super) fn settle(&mut self, before: (Psn, Psn, bool), step: &mut Step<'_>) {
        let timeout_ns = step.context.timeout_ns;
        self.pull_done_along();
        if !self.awaits() {
            self.timer = Timer::default();
        } else if !self.rnr_wait && step.progressed {
            self.timer.progress();
            self.timer.start(timeout_ns, step.now_ns);
        } else if step.alive {
            // It is there, but what is lost stays lost: the timer goes on.
            self.timer.retries = 0;
        }
        let (base, done, wait) = self.state(step.space);
        if (base, done, wait) != before || step.failure.is_some() {
            let done = step.failure.map_or(done, |(psn, _)| psn);
            step.progress.push_back(SendProgress {
                qpn: step.qpn,
                base: base.value(),
                done: done.value(),
                space: step.space == Space::Responses,
                failed: step.failure.is_some(),
                wait,
                status: step.failure.map_or(0, |(_, status)| status as u8),
                ..SendProgress::default()
            });
        }
    }

    pub(super) fn sent(&mut self, packet: &SentPacket, step: &mut Step<'_>) -> Noted {
        let psn = Psn::new(packet.psn);
        let starts = psn == self.base() || self.timer.deadline_ns.is_none();
        let noted = match &mut self.track {
            Track::Selective(window) => {
                step.event(PathEventKind::Sent, packet.path);
                window.sent(packet, step.now_ns)
            }
            Track::GoBackN(window) => window.sent(packet, step.now_ns),
        };
        let ends_with_ack = step.space == Space::Requests && packet.last && !packet.response;
        if noted == Noted::New && ends_with_ack && matches!(self.track, Track::Selective(_)) {
            self.ack_wanted = psn.next();
        }
        if noted != Noted::Ignored && starts && !self.rnr_wait {
            self.timer.start(step.context.timeout_ns, step.now_ns);
        }
        noted
    }

    pub(super) fn sack(&mut self, packet: &ReceivedPacket, step: &mut Step<'_>) -> Taken {
        let (Track::Selective(window), Ok(seth)) = (&mut self.track, Seth::parse(&packet.extension.0)) else {
            return Taken::Stale;
        };
        if matches!(seth.space, SequenceSpace::Other(_)) {
            return Taken::Stale;
        }
        let cc_state = CcState::parse(&packet.extension.0[Seth::LENGTH..])
            .ok()
            .filter(|_| packet.extension_words >= SACK_WORDS);
        let offset = |steps: i16| Psn::new(seth.cack_psn.value().wrapping_add(i32::from(steps) as u32));
        let entropy = seth.entropy as u16;
        let named = (!seth.probe_response).then(|| (offset(seth.ack_psn_offset), entropy));
        let arrivals = Arrivals {
            cumulative: seth.cack_psn,
            first: offset(seth.sack_offset),
            bitmap: seth.sack_bitmap,
            generation: cc_state.map(|state| seth.cack_psn + u32::from(state.ooo_count)),
            named,
        };
        if !window.is_credible(&arrivals) {
            return Taken::Incredible;
        }
        count(&mut step.counters.sacks);
        if let Some(path) = named.and_then(|(psn, entropy)| window.path_of(psn, entropy)) {
            match seth.feedback {
                PathFeedback::Good => step.event(PathEventKind::Acknowledged, path),
                PathFeedback::SkipOnce => step.event(PathEventKind::Marked, path),
                PathFeedback::SkipAlways => step.event(PathEventKind::SkipAlways, path),
                PathFeedback::Other(_) => {}
            }
        }
        step.alive |= seth.probe_response && seth.ack_psn_offset as u16 == self.probes;
        Self::arrived(window, &arrivals, step);
        Taken::Yes
    }

    fn arrived(window: &mut Window, arrivals: &Arrivals, step: &mut Step<'_>) {
        let (rules, now_ns) = (step.rules(), step.now_ns);
        let news = window.arrived(arrivals, &rules, now_ns, &mut |found| match found {
            Found::Delivered { path } => step.event(PathEventKind::Delivered, path),
            Found::Lost { resend, path, blamed } => {
                count(&mut step.counters.lost_sack);
                step.resend(resend);
                if blamed {
                    step.event(PathEventKind::Lost, path);
                }
            }
        });
        step.progressed |= news;
    }

    pub(super) fn nack(&mut self, packet: &ReceivedPacket, step: &mut Step<'_>) -> Taken {
        let (Track::Selective(window), Ok(neth)) = (&mut self.track, Neth::parse(&packet.extension.0)) else {
            return Taken::Stale;
        };
        if matches!(neth.reason, NackReason::Other(_)) || matches!(neth.space, SequenceSpace::Other(_)) {
            return Taken::Stale;
        }
        let psn = neth.nack_psn;
        if psn.distance(window.next()) >= 0 {
            return Taken::Incredible;
        }
        let (rules, now_ns) = (step.rules(), step.now_ns);
        let refusal = Refusal {
            psn,
            entropy: neth.entropy as u16,
            no_room: !matches!(neth.reason, NackReason::Trimmed | NackReason::TrimmedLastHop),
        };
        let (taken, path) = window.refused(&refusal, &rules, now_ns, &mut |found| {
            if let Found::Lost { resend, .. } = found {
                count(&mut step.counters.lost_nack);
                step.resend(resend);
            }
        });
        if let Some(path) = path {
            match neth.reason {
                NackReason::Trimmed => step.event(PathEventKind::Trimmed, path),
                NackReason::TrimmedLastHop => step.event(PathEventKind::TrimmedLastHop, path),
                _ => {}
            }
        }
        // Where the peer only has no room, patience is due, not failure.
        step.alive |= taken && refusal.no_room;
        if !taken {
            return Taken::Stale;
        }
        count(&mut step.counters.nacks);
        Taken::Yes
    }

    /// ACK, NAK and RNR NAK.
    pub(super) fn acknowledge(&mut self, packet: &ReceivedPacket, step: &mut Step<'_>) -> Taken {
        let psn = Psn::new(packet.psn);
        if psn.distance(self.next()) >= 0 {
            return Taken::Incredible;
        }
        if psn.distance(self.done(step.space)) < 0 {
            return Taken::Stale;
        }
        let status = match Syndrome::from_byte(packet.extension.0[0]) {
            Syndrome::Ack(_) => {
                count(&mut step.counters.acks);
                self.acknowledged_before(psn.next(), step);
                return Taken::Yes;
            }
            Syndrome::RnrNak(timer) => return self.not_ready(psn, timer, step),
            Syndrome::Nak(NakCode::PsnSequenceError) => return self.sequence_error(psn, step),
            Syndrome::Nak(NakCode::InvalidRequest) => CompletionStatus::RemoteInvalidRequest,
            Syndrome::Nak(NakCode::RemoteAccessError) => CompletionStatus::RemoteAccess,
            Syndrome::Nak(NakCode::RemoteOperationalError) => CompletionStatus::RemoteOperational,
            Syndrome::Nak(NakCode::InvalidRdRequest) | Syndrome::Reserved(_) => return Taken::Stale,
        };
        count(&mut step.counters.naks);
        self.acknowledged_before(psn, step);
        step.failure = Some((psn, status));
        Taken::Yes
    }

    /// All requests before `end` are done, but for READs and atomics.
    fn acknowledged_before(&mut self, end: Psn, step: &mut Step<'_>) {
        match &mut self.track {
            Track::Selective(window) => {
                step.progressed |= end != self.done;
                self.done = end;
                let arrivals = Arrivals {
                    cumulative: end - 1,
                    first: end,
                    bitmap: 0,
                    generation: None,
                    named: None,
                };
                Self::arrived(window, &arrivals, step);
            }
            Track::GoBackN(window) => {
                let progress = window.acknowledged_before(end);
                self.moved(progress, step);
            }
        }
    }

    /// roce: what an answer of any kind did.
    fn moved(&mut self, progress: go_back_n::Progress, step: &mut Step<'_>) {
        if progress.moved {
            step.progressed = true;
            self.rnr_wait = false;
            self.rnr_retries = 0;
        }
        if progress.gap && !self.rnr_wait {
            self.rewind(false, step);
        }
    }

    fn rewind(&mut self, forced: bool, step: &mut Step<'_>) {
        let Track::GoBackN(window) = &mut self.track else {
            return;
        };
        if let Some(resend) = window.rewind(forced, step.context.base_rtt_ns, step.now_ns) {
            count(&mut step.counters.rewinds);
            step.resend(resend);
        }
    }

    /// roce: NAK (PSN sequence error).
    fn sequence_error(&mut self, psn: Psn, step: &mut Step<'_>) -> Taken {
        if matches!(self.track, Track::Selective(_)) {
            return Taken::Stale;
        }
        count(&mut step.counters.naks);
        self.acknowledged_before(psn, step);
        if self.base() == psn && !self.rnr_wait {
            self.rewind(false, step);
        }
        Taken::Yes
    }

    /// roce: RNR NAK.
    fn not_ready(&mut self, psn: Psn, timer: RnrTimer, step: &mut Step<'_>) -> Taken {
        if matches!(self.track, Track::Selective(_)) {
            return Taken::Stale;
        }
        count(&mut step.counters.naks);
        self.acknowledged_before(psn, step);
        if self.base() != psn || self.rnr_wait {
            return Taken::Yes;
        }
        let limit = step.context.rnr_retry;
        if limit != RNR_RETRY_WITHOUT_END && self.rnr_retries >= limit {
            step.failure = Some((psn, CompletionStatus::RnrRetryExceeded));
            return Taken::Yes;
        }
        self.rnr_retries = (self.rnr_retries + 1).min(RNR_RETRY_WITHOUT_END);
        self.rnr_wait = true;
        self.timer.progress();
        self.timer.deadline_ns = Some(step.now_ns.wrapping_add(u64::from(timer.microseconds()) * 1_000));
        Taken::Yes
    }

    /// roce: a READ response or an atomic ACK.
    pub(super) fn response(&mut self, packet: &ReceivedPacket, step: &mut Step<'_>) -> Taken {
        let psn = Psn::new(packet.psn);
        let Track::GoBackN(window) = &mut self.track else {
            return Taken::Stale;
        };
        if psn.distance(window.next()) >= 0 {
            return Taken::Incredible;
        }
        if psn.distance(window.base()) < 0 {
            return Taken::Stale;
        }
        let progress = window.response(psn);
        count(&mut step.counters.responses);
        self.moved(progress, step);
        Taken::Yes
    }

    pub(super) fn timed_out(&mut self, step: &mut Step<'_>) {
        if self.rnr_wait {
            self.rnr_wait = false;
            self.rewind(true, step);
        } else if !self.base_waits() {
            if !self.timer.retry(step.context.retry_limit) {
                step.failure = Some((self.done(step.space), CompletionStatus::RetryExceeded));
                return;
            }
            count(&mut step.counters.timeouts);
            if self.base() == self.next() {
                self.probe(step);
            } else {
                self.send_again(step);
            }
        }
        self.timer.start(step.context.timeout_ns, step.now_ns);
    }

    fn send_again(&mut self, step: &mut Step<'_>) {
        let (rules, now_ns) = (step.rules(), step.now_ns);
        let Track::Selective(window) = &mut self.track else {
            return self.rewind(true, step);
        };
        let mut first = true;
        window.timed_out(&rules, now_ns, &mut |found| {
            if let Found::Lost { resend, path, blamed } = found {
                count(&mut step.counters.lost_timer);
                step.resend(resend);
                // A timeout is no evidence against the paths of all: feedback may be what is lost.
                if first && blamed {
                    step.event(PathEventKind::Lost, path);
                }
                first = false;
            }
        });
    }

    /// Everything arrived, but the ACK of a message is missing: asks for it, each time by the way of another packet.
    fn probe(&mut self, step: &mut Step<'_>) {
        let Track::Selective(window) = &mut self.track else {
            return;
        };
        let (entropy, port) = window.way_of_recent(u32::from(self.probes));
        // Ids from 0x4000 on are those of probes of paths.
        self.probes = (self.probes + 1) & 0x3FFF;
        let peth = Peth {
            probe_id: self.probes,
            spdcid: step.qpn as u16,
            dpdcid: step.context.peer_qpn as u16,
            ftype: FTYPE_TIMESTAMP,
            ..Peth::default()
        };
        let mut extension = Extension::default();
        peth.emit(&mut extension.0);
        count(&mut step.counters.probes);
        step.control.push_back(PacketDescriptor {
            qpn: step.qpn,
            opcode: Opcode::PROBE.0,
            mrc: true,
            stamp: STAMP_PETH,
            extension_words: (Peth::LENGTH / 4) as u8,
            entropy: entropy.into(),
            port,
            extension,
            ..PacketDescriptor::default()
        });
    }
}
