//! `ack_engine`: makes the control packets that answer what arrived: ACK, NAK, SACK, NACK and CNP.
//!
//! It owns what has not been acknowledged yet, and the last answer of each queue pair. It never decides what is accepted (`reorder_buffer`
//! does) nor what a request means (`responder` does), and never sends data. Theory of operation: `docs/src/blocks/ack_engine.md`.

use spraynic_config::descriptor::{
    Answer, Extension, PacketDescriptor, QueuePairContext, ReceivedPacket, SequenceOutcome, SequenceReport,
};
use spraynic_config::{NicConfig, Profile};
use spraynic_wire::mrc::{MPR_UNIT, NETH_CC_TYPE, RCVD_BYTES_UNIT};
use spraynic_wire::{
    BitOrder, CcState, Header, NackReason, NakCode, Neth, Opcode, PathFeedback, Psn, RnrTimer, SequenceSpace, Seth,
    Syndrome,
};
use thiserror::Error;

use crate::reception::{self, Reception};
use crate::reorder_buffer::{Space, entropy_of, is_answered_with_data, nack_reason, outcome_of, time_stamp_of};

/// ECN field of a packet that met congestion \[RFC 3168\].
const CONGESTION_EXPERIENCED: u8 = 3;

/// Bytes of a CNP behind its BTH, all zero \[IBA annex A17\].
const CNP_BYTES: usize = 16;

/// What was generated: the part of the configuration that this block's behaviour depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Queue pairs: QPN 0 to `queue_pairs - 1`.
    pub queue_pairs: u32,
    /// PSNs of a window: what SACKs announce.
    pub window: u32,
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            queue_pairs: config.queue_pairs.count,
            window: config.receive.window,
        }
    }
}

/// When to acknowledge: the ports of the same names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacing {
    /// A SACK after this many packets, 1 to 255; 0 counts as 1.
    pub sack_every: u8,
    /// A SACK after this many bytes of payload, 24 bits; 0: bytes do not count.
    pub sack_bytes: u32,
    /// A SACK this long after the first packet that no SACK has reported, in nanoseconds.
    pub sack_timer_ns: u32,
    /// Shortest time between two CNPs of a queue pair, in nanoseconds.
    pub cnp_interval_ns: u32,
}

impl Default for Pacing {
    /// The defaults: 4 packets, no byte count, 4 us; CNPs 50 us apart.
    fn default() -> Self {
        Self {
            sack_every: 4,
            sack_bytes: 0,
            sack_timer_ns: 4_000,
            cnp_interval_ns: 50_000,
        }
    }
}

/// Counters, as the ports `count_…` of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// ACKs given, repeated ones included.
    pub acks: u32,
    /// NAKs and RNR NAKs given, repeated ones included.
    pub naks: u32,
    /// SACKs given.
    pub sacks: u32,
    /// Of these, those of the timer.
    pub timer_sacks: u32,
    /// NACKs given.
    pub nacks: u32,
    /// CNPs given.
    pub cnps: u32,
    /// Packets that met congestion, but within the interval of the last CNP.
    pub cnps_spared: u32,
    /// Probes and answers dropped: the queue pair does not receive, or has no such sequence space.
    pub drop_request: u32,
}

/// A SACK by the timer was asked for that is not due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotDue {
    /// Everything has been reported, or the queue pair does not receive.
    #[error("nothing is unreported")]
    Nothing,
    /// It is too early.
    #[error("{now_ns} ns: the SACK is due at {due_ns} ns")]
    Early {
        /// Time asked for.
        now_ns: u64,
        /// Time at which it becomes legal.
        due_ns: u64,
    },
}

/// What SACKs of a space say, and what they have not said yet.
#[derive(Debug, Clone, Copy, Default)]
struct SpaceState {
    /// Packets that no SACK has reported, and their bytes of payload.
    packets: u32,
    bytes: u32,
    /// When they must be reported.
    due_ns: u64,
    /// The last report.
    cumulative: Psn,
    near: u64,
    beyond_gap: u32,
    /// The last packet that was coalesced.
    psn: Psn,
    entropy: u32,
    time_stamp: u16,
    /// Bytes of payload received, each packet once.
    received_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct QueuePair {
    profile: Profile,
    peer_qpn: u32,
    rnr_timer: RnrTimer,
    spaces: [SpaceState; 2],
    last: LastAnswer,
    /// From when on a CNP may be sent.
    cnp_from_ns: u64,
}

/// What a queue pair says again when it is asked: its last ACK, in solar and mrc its last NAK too, behind which nothing is carried out.
/// Before the first, what a responder that has done nothing yet acknowledges: the PSN before the first request, and no message.
#[derive(Debug, Clone, Copy)]
struct LastAnswer {
    /// There was one.
    given: bool,
    psn: Psn,
    syndrome: Syndrome,
    /// MSN of the last answer of any kind.
    msn: u32,
}

/// The block: what is unreported, by queue pair and space, and counters.
#[derive(Debug, Clone)]
pub struct AckEngine {
    config: Config,
    queue_pairs: Vec<Option<QueuePair>>,
    counters: Counters,
}

/// A control packet of these extension headers.
fn control(qpn: u32, opcode: Opcode, psn: Psn, entropy: u32, extension: &[u8]) -> PacketDescriptor {
    let mut headers = Extension::default();
    headers.0[..extension.len()].copy_from_slice(extension);
    PacketDescriptor {
        qpn,
        opcode: opcode.0,
        psn: psn.value(),
        mrc: opcode.bit_order() == BitOrder::Mrc,
        extension_words: (extension.len() / 4) as u8,
        entropy,
        extension: headers,
        ..PacketDescriptor::default()
    }
}

fn wire_space(space: Space) -> SequenceSpace {
    match space {
        Space::Requests => SequenceSpace::Requests,
        Space::Responses => SequenceSpace::Responses,
    }
}

fn saturate(distance: i32) -> i16 {
    distance.clamp(i16::MIN.into(), i16::MAX.into()) as i16
}

impl AckEngine {
    /// The block after reset: no queue pair receives, all counters are 0.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            queue_pairs: vec![None; config.queue_pairs as usize],
            counters: Counters::default(),
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes a context write that `qp_lookup` passed on. A queue pair that begins to receive has nothing to report; one that receives
    /// already keeps what it has, but for the RNR timer; one that no longer does loses it.
    pub fn write_context(&mut self, context: &QueuePairContext) {
        let profile = Profile::from_code(context.profile);
        let receives = context.receives() && profile.is_some();
        let Some(slot) = self.queue_pairs.get_mut(context.qpn as usize) else {
            return;
        };
        let space = |psn| SpaceState {
            cumulative: Psn::new(psn) - 1,
            ..SpaceState::default()
        };
        let written = reception::write(slot, receives, || QueuePair {
            profile: profile.unwrap_or(Profile::Roce),
            peer_qpn: context.peer_qpn,
            rnr_timer: RnrTimer::from_code(context.rnr_timer),
            spaces: [space(context.psn), space(context.response_psn)],
            last: LastAnswer {
                given: false,
                psn: Psn::new(context.psn) - 1,
                syndrome: Syndrome::ACK,
                msn: 0,
            },
            cnp_from_ns: 0,
        });
        if let Reception::GoesOn(queue_pair) = written {
            queue_pair.rnr_timer = RnrTimer::from_code(context.rnr_timer);
        }
    }

    /// Takes the report on a packet and gives what must be sent at once, at most an answer and a CNP.
    pub fn report(&mut self, report: &SequenceReport, pacing: &Pacing, now_ns: u64) -> Vec<PacketDescriptor> {
        let mut given = Vec::new();
        self.report_into(report, pacing, now_ns, &mut given);
        given
    }

    /// As [`Self::report`]; what must be sent is put behind what is there.
    pub fn report_into(
        &mut self,
        report: &SequenceReport,
        pacing: &Pacing,
        now_ns: u64,
        given: &mut Vec<PacketDescriptor>,
    ) {
        let qpn = report.qpn;
        let (Some(mut queue_pair), Some(outcome)) = (self.queue_pair(qpn), outcome_of(report)) else {
            return;
        };
        if outcome == SequenceOutcome::Closed {
            return;
        }
        let answer = match queue_pair.profile {
            Profile::Roce => self.answer_roce(qpn, &queue_pair, report, outcome),
            Profile::Solar | Profile::Mrc => {
                let space = if report.space {
                    Space::Responses
                } else {
                    Space::Requests
                };
                let state = &mut queue_pair.spaces[space as usize];
                state.note(report, outcome, pacing, now_ns);
                let due = state.is_due(report, outcome, pacing);
                match nack_reason(outcome) {
                    Some(reason) => Some(self.nack(qpn, &queue_pair, space, report, reason)),
                    None if due && !outcome.is_refusal() => Some(self.sack(qpn, &mut queue_pair, space, report)),
                    None => None,
                }
            }
        };
        let congested = report.ecn == CONGESTION_EXPERIENCED && queue_pair.profile == Profile::Roce;
        let cnp = congested
            .then(|| self.cnp(qpn, &mut queue_pair, report, pacing, now_ns))
            .flatten();
        self.queue_pairs[qpn as usize] = Some(queue_pair);
        given.extend(answer);
        given.extend(cnp);
    }

    /// roce: one NAK for each gap; an RNR NAK where a receive request is missing; a duplicate that is not executed again is acknowledged by
    /// the last ACK.
    fn answer_roce(
        &mut self,
        qpn: u32,
        queue_pair: &QueuePair,
        report: &SequenceReport,
        outcome: SequenceOutcome,
    ) -> Option<PacketDescriptor> {
        let last = queue_pair.last;
        let (psn, syndrome) = match outcome {
            SequenceOutcome::SequenceFirst => (
                Psn::new(report.cumulative).next(),
                Syndrome::Nak(NakCode::PsnSequenceError),
            ),
            SequenceOutcome::NotReady => (Psn::new(report.psn), Syndrome::RnrNak(queue_pair.rnr_timer)),
            SequenceOutcome::Duplicate if !is_answered_with_data(report.opcode) => (last.psn, last.syndrome),
            _ => return None,
        };
        Some(self.acknowledge(qpn, queue_pair.profile, psn, syndrome, last.msn, report.entropy))
    }

    /// Takes an answer: it becomes the last one, and in solar and mrc a packet unless it is silent. (In roce the packet stands
    /// in the stream of the READ responses: `response_engine` makes it.) In mrc a message is complete by whatever packet fills the last gap,
    /// and its answer knows of none: it takes the path of the last packet that was noted.
    pub fn answer(&mut self, answer: &Answer) -> Option<PacketDescriptor> {
        let Some(queue_pair) = self.queue_pairs.get_mut(answer.qpn as usize).and_then(Option::as_mut) else {
            self.counters.drop_request = self.counters.drop_request.wrapping_add(1);
            return None;
        };
        let syndrome = Syndrome::from_byte(answer.syndrome);
        let psn = Psn::new(answer.psn);
        let profile = queue_pair.profile;
        let last = &mut queue_pair.last;
        last.msn = answer.msn;
        if syndrome.is_ack() || profile != Profile::Roce {
            (last.given, last.psn, last.syndrome) = (true, psn, syndrome);
        }
        let entropy = match profile {
            Profile::Mrc => queue_pair.spaces[Space::Requests as usize].entropy,
            Profile::Roce | Profile::Solar => answer.entropy,
        };
        (profile != Profile::Roce && !answer.silent)
            .then(|| self.acknowledge(answer.qpn, profile, psn, syndrome, answer.msn, entropy))
    }

    /// Takes a probe: gives a SACK that answers it, and the last answer once more, in case it was lost: both by the path of the probe, for the one
    /// that the last answer took may be dead.
    pub fn probe(&mut self, packet: &ReceivedPacket) -> Vec<PacketDescriptor> {
        let qpn = packet.qpn;
        let space = match packet.extension.0[0] >> 4 {
            0 => Some(Space::Requests),
            1 => Some(Space::Responses),
            _ => None,
        };
        let found = self
            .queue_pair(qpn)
            .zip(space)
            .filter(|(queue_pair, space)| match queue_pair.profile {
                Profile::Roce => false,
                Profile::Solar => true,
                Profile::Mrc => *space == Space::Requests,
            });
        let Some((mut queue_pair, space)) = found else {
            self.counters.drop_request = self.counters.drop_request.wrapping_add(1);
            return Vec::new();
        };
        let id = i16::from_be_bytes([packet.extension.0[4], packet.extension.0[5]]);
        let state = &mut queue_pair.spaces[space as usize];
        state.reported();
        let seth = Seth {
            probe_response: true,
            ack_psn_offset: id,
            ..state.seth(self.config.window)
        };
        let entropy = entropy_of(packet);
        let sack = self.finish_sack(qpn, &queue_pair, space, seth, entropy, time_stamp_of(packet));
        self.queue_pairs[qpn as usize] = Some(queue_pair);
        let last = queue_pair.last;
        let again = (space == Space::Requests && last.given)
            .then(|| self.acknowledge(qpn, queue_pair.profile, last.psn, last.syndrome, last.msn, entropy));
        [sack].into_iter().chain(again).collect()
    }

    /// When the timer's SACK of a space becomes legal; `None`: nothing is unreported.
    #[must_use]
    pub fn due_ns(&self, qpn: u32, space: Space) -> Option<u64> {
        let queue_pair = self.queue_pairs.get(qpn as usize)?.as_ref()?;
        let state = &queue_pair.spaces[space as usize];
        (state.packets > 0).then_some(state.due_ns)
    }

    /// The SACK of the timer, given at `now_ns`.
    ///
    /// # Errors
    /// [`NotDue`]: the SACK may not be sent at this time.
    pub fn expire(&mut self, qpn: u32, space: Space, now_ns: u64) -> Result<PacketDescriptor, NotDue> {
        let due_ns = self.due_ns(qpn, space).ok_or(NotDue::Nothing)?;
        let mut queue_pair = self.queue_pair(qpn).ok_or(NotDue::Nothing)?;
        if now_ns < due_ns {
            return Err(NotDue::Early { now_ns, due_ns });
        }
        let state = &mut queue_pair.spaces[space as usize];
        state.reported();
        let (entropy, time_stamp) = (state.entropy, state.time_stamp);
        let seth = Seth {
            ack_psn_offset: saturate(state.psn.distance(state.cumulative)),
            ..state.seth(self.config.window)
        };
        self.counters.timer_sacks = self.counters.timer_sacks.wrapping_add(1);
        let sack = self.finish_sack(qpn, &queue_pair, space, seth, entropy, time_stamp);
        self.queue_pairs[qpn as usize] = Some(queue_pair);
        Ok(sack)
    }

    fn queue_pair(&self, qpn: u32) -> Option<QueuePair> {
        self.queue_pairs.get(qpn as usize).copied().flatten()
    }

    fn acknowledge(
        &mut self,
        qpn: u32,
        profile: Profile,
        psn: Psn,
        syndrome: Syndrome,
        msn: u32,
        entropy: u32,
    ) -> PacketDescriptor {
        let counter = if syndrome.is_ack() {
            &mut self.counters.acks
        } else {
            &mut self.counters.naks
        };
        *counter = counter.wrapping_add(1);
        let opcode = match profile {
            Profile::Mrc => Opcode::MRC_ACKNOWLEDGE,
            Profile::Roce | Profile::Solar => Opcode::ACKNOWLEDGE,
        };
        let mut aeth = msn.to_be_bytes();
        aeth[0] = syndrome.byte();
        control(qpn, opcode, psn, entropy, &aeth)
    }

    /// The SACK that a packet makes due: of the 64 PSNs that it stands among.
    fn sack(
        &mut self,
        qpn: u32,
        queue_pair: &mut QueuePair,
        space: Space,
        report: &SequenceReport,
    ) -> PacketDescriptor {
        let state = &mut queue_pair.spaces[space as usize];
        if report.far == 0 {
            state.reported();
        }
        let marked = report.ecn == CONGESTION_EXPERIENCED;
        let seth = Seth {
            feedback: if marked {
                PathFeedback::SkipOnce
            } else {
                PathFeedback::Good
            },
            ack_psn_offset: saturate(Psn::new(report.psn).distance(state.cumulative)),
            sack_offset: saturate(1 + 64 * i32::from(report.far)),
            sack_bitmap: report.bitmap,
            ..state.seth(self.config.window)
        };
        self.finish_sack(qpn, queue_pair, space, seth, report.entropy, report.time_stamp)
    }

    fn finish_sack(
        &mut self,
        qpn: u32,
        queue_pair: &QueuePair,
        space: Space,
        seth: Seth,
        entropy: u32,
        time_stamp: u16,
    ) -> PacketDescriptor {
        self.counters.sacks = self.counters.sacks.wrapping_add(1);
        let state = &queue_pair.spaces[space as usize];
        let seth = Seth {
            space: wire_space(space),
            entropy,
            spdcid: qpn as u16,
            dpdcid: queue_pair.peer_qpn as u16,
            ..seth
        };
        let cc_state = CcState {
            tx_timestamp: time_stamp,
            ooo_count: state.beyond_gap as u16,
            rcvd_bytes: (state.received_bytes / u64::from(RCVD_BYTES_UNIT)) as u32 & 0xFF_FFFF,
            ..CcState::default()
        };
        let mut headers = [0; Seth::LENGTH + CcState::LENGTH];
        let (first, second) = headers.split_at_mut(Seth::LENGTH);
        seth.emit(first);
        cc_state.emit(second);
        control(qpn, Opcode::SACK, seth.cack_psn, entropy, &headers)
    }

    fn nack(
        &mut self,
        qpn: u32,
        queue_pair: &QueuePair,
        space: Space,
        report: &SequenceReport,
        reason: NackReason,
    ) -> PacketDescriptor {
        self.counters.nacks = self.counters.nacks.wrapping_add(1);
        let entropy = report.entropy;
        let neth = Neth {
            space: wire_space(space),
            reason,
            entropy,
            spdcid: qpn as u16,
            dpdcid: queue_pair.peer_qpn as u16,
            nack_psn: Psn::new(report.psn),
            cc_type: NETH_CC_TYPE,
            tx_timestamp: report.time_stamp,
            ..Neth::default()
        };
        let mut header = [0; Neth::LENGTH];
        neth.emit(&mut header);
        control(qpn, Opcode::NACK, neth.nack_psn, entropy, &header)
    }

    fn cnp(
        &mut self,
        qpn: u32,
        queue_pair: &mut QueuePair,
        report: &SequenceReport,
        pacing: &Pacing,
        now_ns: u64,
    ) -> Option<PacketDescriptor> {
        if now_ns < queue_pair.cnp_from_ns {
            self.counters.cnps_spared = self.counters.cnps_spared.wrapping_add(1);
            return None;
        }
        queue_pair.cnp_from_ns = now_ns.wrapping_add(pacing.cnp_interval_ns.into());
        self.counters.cnps = self.counters.cnps.wrapping_add(1);
        Some(PacketDescriptor {
            becn: true,
            ..control(qpn, Opcode::CNP, Psn::default(), report.entropy, &[0; CNP_BYTES])
        })
    }
}

impl SpaceState {
    /// Notes what a report says.
    fn note(&mut self, report: &SequenceReport, outcome: SequenceOutcome, pacing: &Pacing, now_ns: u64) {
        self.cumulative = Psn::new(report.cumulative);
        self.near = report.near;
        self.beyond_gap = report.beyond_gap.into();
        if !matches!(outcome, SequenceOutcome::Passed | SequenceOutcome::Stored) {
            return;
        }
        self.received_bytes = self.received_bytes.wrapping_add(report.payload_length.into());
        if report.far == 0 {
            if self.packets == 0 {
                self.due_ns = now_ns.wrapping_add(pacing.sack_timer_ns.into());
            }
            self.packets += 1;
            self.bytes = self.bytes.saturating_add(report.payload_length.into());
            self.psn = Psn::new(report.psn);
            self.entropy = report.entropy;
            self.time_stamp = report.time_stamp;
        }
    }

    /// Whether a packet that was not refused is answered by a SACK at once.
    fn is_due(&self, report: &SequenceReport, outcome: SequenceOutcome, pacing: &Pacing) -> bool {
        let enough = self.packets >= u32::from(pacing.sack_every.max(1))
            || (pacing.sack_bytes > 0 && self.bytes >= pacing.sack_bytes);
        enough
            || report.far > 0
            || report.ack_request
            || report.retransmission
            || report.ecn == CONGESTION_EXPERIENCED
            || outcome == SequenceOutcome::Duplicate
    }

    /// All that is near has been reported.
    fn reported(&mut self) {
        self.packets = 0;
        self.bytes = 0;
    }

    /// A SACK of the PSNs behind the cumulative one.
    fn seth(&self, window: u32) -> Seth {
        Seth {
            cack_psn: self.cumulative,
            mpr: (window / MPR_UNIT) as u8,
            sack_offset: 1,
            sack_bitmap: self.near,
            ..Seth::default()
        }
    }
}

#[cfg(test)]
#[path = "ack_engine_tests.rs"]
mod tests;
