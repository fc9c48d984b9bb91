//! `reorder_buffer`: gives each packet of a sequence space once, and in PSN order where the profile wants it.
//!
//! It owns the windows, their bitmaps, the pool of slots and the receive requests that may be counted on. It never gives up a packet that it
//! has reported as received (but when its queue pair is closed), never lets a queue pair take the slots that others are guaranteed, and never
//! waits for a slot. Theory of operation: `docs/src/blocks/reorder_buffer.md`.

mod facts;
mod pool;
mod window;

use spraynic_config::descriptor::{
    PacketContext, QueuePairContext, QueuePairState, ReceivedPacket, SequenceOutcome, SequenceReport, SequencedPacket,
};
use spraynic_config::{NicConfig, Profile};
use spraynic_wire::{NackReason, Opcode, Psn};

use crate::reception::{self, Reception};
pub use facts::{entropy_of, is_answered_with_data, takes_receive_request, time_stamp_of};
use pool::Pool;
use window::{Kept, Place, Window};

/// What was generated: the part of the configuration that this block's behaviour depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Queue pairs: QPN 0 to `queue_pairs - 1`.
    pub queue_pairs: u32,
    /// PSNs of a window, a power of two from 64 to 1,024.
    pub window: u32,
    /// Slots of the pool.
    pub pool_slots: u32,
    /// Queue pairs, from number 0, for which slots are guaranteed.
    pub reorder_queue_pairs: u32,
    /// Slots that are guaranteed to each of them.
    pub guaranteed_slots: u32,
    /// Receive requests that a queue pair can hold: credits beyond them are not counted.
    pub receive_requests: u32,
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            queue_pairs: config.queue_pairs.count,
            window: config.receive.window,
            pool_slots: config.receive.pool_slots,
            reorder_queue_pairs: config.reorder_queue_pairs(),
            guaranteed_slots: config.receive.guaranteed_slots,
            receive_requests: config.receive.receive_requests,
        }
    }
}

/// Sequence space of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// Requests of the peer.
    Requests = 0,
    /// Responses to own requests (solar).
    Responses = 1,
}

impl Space {
    /// Both spaces.
    pub const ALL: [Self; 2] = [Self::Requests, Self::Responses];

    /// The space of a packet.
    #[must_use]
    pub fn of(context: &PacketContext) -> Self {
        if context.space { Self::Responses } else { Self::Requests }
    }
}

/// A packet that arrives: what `qp_lookup` gives of route 0, and the payload that goes with it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Arrival {
    /// Headers.
    pub packet: ReceivedPacket,
    /// What `qp_lookup` says of it.
    pub context: PacketContext,
    /// Payload without padding.
    pub payload: Vec<u8>,
}

/// A packet as the block gives it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Given {
    /// `m_axis`.
    pub packet: SequencedPacket,
    /// `m_axis_payload`: one packet where it is not empty.
    pub payload: Vec<u8>,
}

impl Arrival {
    /// The packet as it is given; `duplicate` says that it was given before.
    fn given(self, duplicate: bool) -> Given {
        let Self {
            packet,
            context,
            payload,
        } = self;
        Given {
            packet: SequencedPacket {
                qpn: packet.qpn,
                opcode: packet.opcode,
                psn: packet.psn,
                profile: context.profile,
                space: context.space,
                duplicate,
                solicited: packet.solicited,
                ack_request: packet.ack_request,
                timestamped: packet.timestamped,
                protection_domain: context.protection_domain,
                mtu: context.mtu,
                remote_write: context.remote_write,
                remote_read: context.remote_read,
                remote_atomic: context.remote_atomic,
                payload_length: packet.payload_length,
                entropy: entropy_of(&packet),
                extension: facts::request_extension(&packet),
                ..SequencedPacket::default()
            },
            payload,
        }
    }
}

/// What a call of [`ReorderBuffer::release`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// Nothing: the next packet is not there, or waits for a receive request.
    Nothing,
    /// mrc: the window moved on by a packet that was given before and ends no message.
    Moved,
    /// The window moved on, by a packet from its slot, or (mrc) over the end of a message.
    Given(Given),
}

impl Released {
    /// What was given, if anything.
    #[must_use]
    pub fn given(self) -> Option<Given> {
        match self {
            Self::Given(given) => Some(given),
            Self::Nothing | Self::Moved => None,
        }
    }
}

/// The reason of the NACK that answers a packet with this outcome (solar, mrc); `None` where no NACK does.
#[must_use]
pub fn nack_reason(outcome: SequenceOutcome) -> Option<NackReason> {
    use SequenceOutcome::*;
    match outcome {
        OutOfWindow => Some(NackReason::PsnOutOfWindow),
        Trimmed => Some(NackReason::Trimmed),
        TrimmedLastHop => Some(NackReason::TrimmedLastHop),
        NoSlot => Some(NackReason::NoPacketBuffer),
        NotReady => Some(NackReason::NoResource),
        Passed | Stored | Duplicate | Closed | SequenceFirst | Sequence => None,
    }
}

/// What became of the packet that a report is about; `None`: no outcome has this code.
#[must_use]
pub fn outcome_of(report: &SequenceReport) -> Option<SequenceOutcome> {
    SequenceOutcome::from_code(report.outcome)
}

/// Counters, as the ports `count_…` of the block. The packets taken are the sum of all but the last three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets given at once, see [`SequenceOutcome::Passed`].
    pub passed: u32,
    /// Packets put into a slot.
    pub stored: u32,
    /// Packets received before.
    pub duplicates: u32,
    /// Packets refused, see [`SequenceOutcome::Closed`].
    pub drop_closed: u32,
    /// Packets refused, see [`SequenceOutcome::OutOfWindow`].
    pub drop_out_of_window: u32,
    /// Packets refused, see [`SequenceOutcome::Trimmed`] and [`SequenceOutcome::TrimmedLastHop`].
    pub drop_trimmed: u32,
    /// Packets refused, see [`SequenceOutcome::NoSlot`].
    pub drop_no_slot: u32,
    /// Packets refused, see [`SequenceOutcome::NotReady`].
    pub drop_not_ready: u32,
    /// Packets refused, see [`SequenceOutcome::SequenceFirst`] and [`SequenceOutcome::Sequence`].
    pub drop_sequence: u32,
    /// Packets given from a slot.
    pub released: u32,
    /// mrc: ends of messages told.
    pub retired: u32,
    /// Packets in slots whose queue pair was closed.
    pub flushed: u32,
}

impl Counters {
    fn count(&mut self, outcome: SequenceOutcome) {
        use SequenceOutcome::*;
        let counter = match outcome {
            Passed => &mut self.passed,
            Stored => &mut self.stored,
            Duplicate => &mut self.duplicates,
            Closed => &mut self.drop_closed,
            OutOfWindow => &mut self.drop_out_of_window,
            Trimmed | TrimmedLastHop => &mut self.drop_trimmed,
            NoSlot => &mut self.drop_no_slot,
            NotReady => &mut self.drop_not_ready,
            SequenceFirst | Sequence => &mut self.drop_sequence,
        };
        *counter = counter.wrapping_add(1);
    }
}

/// What a queue pair is to this block while it receives.
#[derive(Debug, Clone)]
struct Open {
    profile: Profile,
    windows: [Window; 2],
}

impl Open {
    /// Whether the queue pair has this space: only solar has one of responses.
    fn has(&self, space: Space) -> bool {
        space == Space::Requests || self.profile == Profile::Solar
    }
}

/// The block: windows of the queue pairs, the pool, and counters.
#[derive(Debug, Clone)]
pub struct ReorderBuffer {
    config: Config,
    queue_pairs: Vec<Option<Open>>,
    /// Receive requests of each queue pair that no packet has taken.
    credits: Vec<u32>,
    pool: Pool,
    counters: Counters,
}

impl ReorderBuffer {
    /// The block after reset: no queue pair receives, all slots are free, all counters are 0.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            queue_pairs: vec![None; config.queue_pairs as usize],
            credits: vec![0; config.queue_pairs as usize],
            pool: Pool::new(config.pool_slots, config.reorder_queue_pairs, config.guaranteed_slots),
            counters: Counters::default(),
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Slots that hold no packet.
    #[must_use]
    pub fn free_slots(&self) -> u32 {
        self.pool.free()
    }

    /// Slots that hold packets of a queue pair, both spaces together.
    #[must_use]
    pub fn used_slots(&self, qpn: u32) -> u32 {
        self.pool.used(qpn)
    }

    /// Receive requests of a queue pair that no packet has taken.
    #[must_use]
    pub fn credits(&self, qpn: u32) -> u32 {
        self.credits.get(qpn as usize).copied().unwrap_or(0)
    }

    /// Takes a credit: the queue pair has one receive request more, in whatever state it is. A number beyond the table is ignored.
    pub fn credit(&mut self, qpn: u32) {
        if let Some(credits) = self.credits.get_mut(qpn as usize) {
            *credits = (*credits + 1).min(self.config.receive_requests);
        }
    }

    /// Takes a context write that `qp_lookup` passed on. A queue pair that begins to receive starts from the PSNs of the context;
    /// one that receives already keeps its windows; one that no longer does loses windows and slots, and its credits too if it goes to RESET
    /// or ERROR. A solar queue pair for which no slots are guaranteed does not open.
    pub fn write_context(&mut self, context: &QueuePairContext) {
        let state = QueuePairState::from_code(context.state);
        let receives = context.receives();
        let reorders = context.qpn < self.config.reorder_queue_pairs;
        let profile =
            Profile::from_code(context.profile).filter(|profile| receives && (*profile != Profile::Solar || reorders));
        if let Some(credits) = self.credits.get_mut(context.qpn as usize) {
            let keeps = receives || state == Some(QueuePairState::Init);
            *credits = if keeps { *credits } else { 0 };
        }
        let Some(slot) = self.queue_pairs.get_mut(context.qpn as usize) else {
            return;
        };
        let window = |psn| Window::new(Psn::new(psn), self.config.window);
        let written = reception::write(slot, profile.is_some(), || Open {
            profile: profile.unwrap_or(Profile::Roce),
            windows: [window(context.psn), window(context.response_psn)],
        });
        if let Reception::Ends(Some(open)) = written {
            for stored in open.windows.iter().flat_map(Window::slots) {
                self.pool.take(context.qpn, stored);
                self.counters.flushed = self.counters.flushed.wrapping_add(1);
            }
        }
    }

    /// Takes a packet of route 0; it is given if it may be.
    pub fn receive(&mut self, arrival: Arrival) -> (SequenceReport, Option<Given>) {
        let facts = facts::report(&arrival.packet, &arrival.context);
        let (outcome, given) = self.place(arrival);
        self.counters.count(outcome);
        (self.report(facts, outcome), given)
    }

    /// Adds to what a report says of the packet what it says of its space.
    fn report(&self, facts: SequenceReport, outcome: SequenceOutcome) -> SequenceReport {
        let facts = SequenceReport {
            outcome: outcome as u8,
            ..facts
        };
        let qpn = facts.qpn;
        let space = if facts.space { Space::Responses } else { Space::Requests };
        let Some(window) = self.window(qpn, space) else {
            return facts;
        };
        let cumulative = window.missing() - 1;
        let first = cumulative.next();
        // A refused packet may stand anywhere: what is said of others stays near.
        let distance = match outcome.is_refusal() {
            true => 0,
            false => Psn::new(facts.psn).distance(first).max(0) as u32,
        };
        let far = distance / 64;
        SequenceReport {
            cumulative: cumulative.value(),
            beyond_gap: window.beyond_gap() as u16,
            near: window.places(first),
            far: far as u8,
            bitmap: window.places(first + 64 * far),
            ..facts
        }
    }

    fn place(&mut self, arrival: Arrival) -> (SequenceOutcome, Option<Given>) {
        use SequenceOutcome::*;
        let qpn = arrival.packet.qpn;
        let space = Space::of(&arrival.context);
        let found = self.queue_pairs.get_mut(qpn as usize).and_then(Option::as_mut);
        let Some(open) = found.filter(|open| open.has(space)) else {
            return (Closed, None);
        };
        let credits = &mut self.credits[qpn as usize];
        let needs = u32::from(takes_receive_request(arrival.packet.opcode));
        let ready = *credits >= needs;
        let window = &mut open.windows[space as usize];
        if open.profile == Profile::Roce {
            let (outcome, given) = go_back_n(window, arrival, ready);
            *credits -= if outcome == Passed { needs } else { 0 };
            return (outcome, given);
        }
        let psn = Psn::new(arrival.packet.psn);
        match window.place(psn) {
            Place::Received => (Duplicate, None),
            Place::Beyond => (OutOfWindow, None),
            Place::New if arrival.packet.trimmed != 0 => (trimmed(&arrival.packet), None),
            Place::New if open.profile == Profile::Mrc => {
                if !ready {
                    return (NotReady, None);
                }
                *credits -= needs;
                window.keep(
                    psn,
                    Kept::Given {
                        ends_message: facts::ends_message(&arrival.packet),
                        immediate: needs == 1,
                    },
                );
                (Passed, Some(arrival.given(false)))
            }
            Place::New if ready && psn == window.base() => {
                *credits -= needs;
                window.pass(1);
                (Passed, Some(arrival.given(false)))
            }
            Place::New => match self.pool.put(qpn, arrival.given(false)) {
                Some(slot) => {
                    window.keep(psn, Kept::Slot(slot));
                    (Stored, None)
                }
                None => (NoSlot, None),
            },
        }
    }

    /// Whether the window of a space can move on: its next packet is there (mrc: was given), and if it takes a receive request, so is that.
    #[must_use]
    pub fn is_releasable(&self, qpn: u32, space: Space) -> bool {
        match self.window(qpn, space).and_then(Window::next_kept) {
            None => false,
            Some(Kept::Given { .. }) => true,
            Some(Kept::Slot(slot)) => self.credits(qpn) > 0 || !self.pool.takes_receive_request(slot),
        }
    }

    /// Moves the window of a space on by one PSN, if it can: gives the packet from its slot, or tells (mrc) that a message is complete.
    /// Which window is next, and when, is a matter of time and arbitration, so the model is told.
    pub fn release(&mut self, qpn: u32, space: Space) -> Released {
        if !self.is_releasable(qpn, space) {
            return Released::Nothing;
        }
        let open = self.queue_pairs.get_mut(qpn as usize).and_then(Option::as_mut);
        let Some((window, kept)) = open
            .map(|open| &mut open.windows[space as usize])
            .and_then(|window| window.next_kept().map(|kept| (window, kept)))
        else {
            return Released::Nothing;
        };
        let psn = window.base();
        window.release();
        match kept {
            Kept::Slot(slot) => {
                let needs = u32::from(self.pool.takes_receive_request(slot));
                self.credits[qpn as usize] -= needs;
                self.counters.released = self.counters.released.wrapping_add(1);
                self.pool.take(qpn, slot).map_or(Released::Nothing, Released::Given)
            }
            Kept::Given {
                ends_message: false, ..
            } => Released::Moved,
            Kept::Given { immediate, .. } => {
                self.counters.retired = self.counters.retired.wrapping_add(1);
                let opcode = if immediate {
                    Opcode::MRC_WRITE_LAST_IMMEDIATE
                } else {
                    Opcode::MRC_WRITE_LAST
                };
                Released::Given(Given {
                    packet: SequencedPacket {
                        qpn,
                        opcode: opcode.0,
                        psn: psn.value(),
                        profile: Profile::Mrc.code(),
                        retired: true,
                        ..SequencedPacket::default()
                    },
                    payload: Vec::new(),
                })
            }
        }
    }

    /// The PSN before the first one that is missing; `None`: the queue pair does not receive.
    #[must_use]
    pub fn cumulative(&self, qpn: u32, space: Space) -> Option<Psn> {
        self.window(qpn, space).map(|window| window.missing() - 1)
    }

    /// The first PSN that was not given yet (mrc: not retired): the window reaches from it. `None`: the queue pair does not receive.
    #[must_use]
    pub fn base(&self, qpn: u32, space: Space) -> Option<Psn> {
        self.window(qpn, space).map(Window::base)
    }

    /// Which of the 64 PSNs from `first` on have been received: bit i is PSN `first + i`, as in a SACK.
    #[must_use]
    pub fn sack_bitmap(&self, qpn: u32, space: Space, first: Psn) -> u64 {
        self.window(qpn, space).map_or(0, |window| window.places(first))
    }

    /// Packets received beyond the first gap: `ooo_count` of a SACK.
    #[must_use]
    pub fn beyond_gap(&self, qpn: u32, space: Space) -> u32 {
        self.window(qpn, space).map_or(0, Window::beyond_gap)
    }

    fn window(&self, qpn: u32, space: Space) -> Option<&Window> {
        let open = self.queue_pairs.get(qpn as usize)?.as_ref()?;
        open.has(space).then(|| &open.windows[space as usize])
    }
}

/// roce: the next packet is given, an older one was received, and one beyond it is asked for again.
fn go_back_n(window: &mut Window, arrival: Arrival, ready: bool) -> (SequenceOutcome, Option<Given>) {
    use SequenceOutcome::*;
    let distance = Psn::new(arrival.packet.psn).distance(window.base());
    let is_trimmed = arrival.packet.trimmed != 0;
    match distance {
        ..0 => {
            let answered_again = !is_trimmed && is_answered_with_data(arrival.packet.opcode);
            (Duplicate, answered_again.then(|| arrival.given(true)))
        }
        // Its rest is asked for as if it had been lost.
        _ if is_trimmed => (trimmed(&arrival.packet), None),
        0 if !ready => {
            window.begin_gap();
            (NotReady, None)
        }
        0 => {
            window.pass(facts::psns(&arrival.packet, &arrival.context));
            (Passed, Some(arrival.given(false)))
        }
        _ if window.begin_gap() => (SequenceFirst, None),
        _ => (Sequence, None),
    }
}

fn trimmed(packet: &ReceivedPacket) -> SequenceOutcome {
    match packet.trimmed {
        1 => SequenceOutcome::Trimmed,
        _ => SequenceOutcome::TrimmedLastHop,
    }
}

#[cfg(test)]
#[path = "reorder_buffer_tests.rs"]
mod tests;
