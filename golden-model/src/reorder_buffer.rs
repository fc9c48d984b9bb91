//! `reorder_buffer`: gives each packet of a sequence space once, and in PSN order where the profile wants it.
//!
//! It owns the windows, their bitmaps and the pool of slots. It never gives up a packet that it has reported as received (but
//! when its queue pair is closed), never lets a queue pair take the slots that others are guaranteed, and never waits for a slot.
//! Theory of operation: `docs/src/blocks/reorder_buffer.md`.

mod pool;
mod window;

use spraynic_config::descriptor::{PacketContext, QueuePairContext, QueuePairState, ReceivedPacket};
use spraynic_config::{NicConfig, Profile};
use spraynic_wire::{NackReason, Opcode, Operation, Psn};

use crate::packet_slicer::{MAX_MESSAGE, mtu_bytes};
use pool::Pool;
use window::{Place, Window};

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
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            queue_pairs: config.queue_pairs.count,
            window: config.receive.window,
            pool_slots: config.receive.pool_slots,
            reorder_queue_pairs: config.reorder_queue_pairs(),
            guaranteed_slots: config.receive.guaranteed_slots,
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

/// A packet with its context and payload, as it comes and as it is given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SequencedPacket {
    /// Headers.
    pub packet: ReceivedPacket,
    /// What `qp_lookup` says of it.
    pub context: PacketContext,
    /// Payload without padding.
    pub payload: Vec<u8>,
    /// roce: a READ or atomic request that was given before, to be answered again.
    pub duplicate: bool,
}

/// Why a packet was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Its queue pair does not receive.
    Closed,
    /// Its PSN is beyond the window.
    OutOfWindow,
    /// A switch trimmed it.
    Trimmed,
    /// The last switch trimmed it.
    TrimmedLastHop,
    /// It is not next, or cannot be taken now, and no slot is free for its queue pair.
    NoSlot,
    /// It cannot be taken now, and its profile keeps no payload (roce, mrc).
    Blocked,
    /// roce: packets before it are missing; `first` says that it is the first one behind this gap, which is answered by
    /// a NAK (PSN sequence error).
    Sequence {
        /// The first packet behind the gap.
        first: bool,
    },
}

impl Refusal {
    /// The reason of the NACK that answers it (solar, mrc); `None` where no NACK does.
    #[must_use]
    pub fn nack_reason(self) -> Option<NackReason> {
        match self {
            Self::Closed | Self::Sequence { .. } => None,
            Self::OutOfWindow => Some(NackReason::PsnOutOfWindow),
            Self::Trimmed => Some(NackReason::Trimmed),
            Self::TrimmedLastHop => Some(NackReason::TrimmedLastHop),
            Self::NoSlot | Self::Blocked => Some(NackReason::NoPacketBuffer),
        }
    }
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It was given at once: the next one of its window, or any new one of mrc.
    Passed,
    /// It waits in a slot.
    Stored,
    /// It had been received before.
    Duplicate,
    /// It is not kept; whoever sent it must send it again.
    Refused(Refusal),
}

/// What `ack_engine` is told of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// What became of it.
    pub outcome: Outcome,
    /// Cumulative acknowledgement behind it: the PSN before the first one that is missing; `None` where the queue pair
    /// does not receive.
    pub cumulative: Option<Psn>,
    /// mrc: messages that are complete by this packet, all before them complete too.
    pub messages: u32,
    /// Packets received beyond the first gap, after this one.
    pub beyond_gap: u32,
    /// Which of the 64 PSNs behind `cumulative` have been received: bit i is PSN `cumulative + 1 + i`. Bit 0 is never set.
    pub near: u64,
    /// Where the packet's PSN is farther: the 64 PSNs that it stands among. In units of 64 PSNs behind `near`; 0: it is in
    /// `near`, or was received before.
    pub far: u32,
    /// Which of those have been received: bit i is PSN `cumulative + 1 + 64 far + i`. `near` where `far` is 0.
    pub bitmap: u64,
}

/// Counters, as the ports `count_…` of the block. The packets taken are the sum of all but `released` and `flushed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets given at once.
    pub passed: u32,
    /// Packets put into a slot.
    pub stored: u32,
    /// Packets received before.
    pub duplicates: u32,
    /// Packets refused, see [`Refusal::Closed`].
    pub drop_closed: u32,
    /// Packets refused, see [`Refusal::OutOfWindow`].
    pub drop_out_of_window: u32,
    /// Packets refused, see [`Refusal::Trimmed`] and [`Refusal::TrimmedLastHop`].
    pub drop_trimmed: u32,
    /// Packets refused, see [`Refusal::NoSlot`].
    pub drop_no_slot: u32,
    /// Packets refused, see [`Refusal::Blocked`].
    pub drop_blocked: u32,
    /// Packets refused, see [`Refusal::Sequence`].
    pub drop_sequence: u32,
    /// Packets given from a slot.
    pub released: u32,
    /// Packets in slots whose queue pair was closed.
    pub flushed: u32,
}

impl Counters {
    fn count(&mut self, outcome: Outcome) {
        let counter = match outcome {
            Outcome::Passed => &mut self.passed,
            Outcome::Stored => &mut self.stored,
            Outcome::Duplicate => &mut self.duplicates,
            Outcome::Refused(Refusal::Closed) => &mut self.drop_closed,
            Outcome::Refused(Refusal::OutOfWindow) => &mut self.drop_out_of_window,
            Outcome::Refused(Refusal::Trimmed | Refusal::TrimmedLastHop) => &mut self.drop_trimmed,
            Outcome::Refused(Refusal::NoSlot) => &mut self.drop_no_slot,
            Outcome::Refused(Refusal::Blocked) => &mut self.drop_blocked,
            Outcome::Refused(Refusal::Sequence { .. }) => &mut self.drop_sequence,
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

/// The block: windows of the queue pairs, the pool, and counters.
#[derive(Debug, Clone)]
pub struct ReorderBuffer {
    config: Config,
    queue_pairs: Vec<Option<Open>>,
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

    /// Takes a context write that `qp_lookup` passed on. A queue pair that begins to receive starts from the PSNs of the context;
    /// one that receives already keeps its windows; one that no longer does loses windows and slots.
    pub fn write_context(&mut self, context: &QueuePairContext) {
        let receives = QueuePairState::from_code(context.state).is_some_and(QueuePairState::receives);
        let profile = Profile::from_code(context.profile).filter(|_| receives);
        let Some(slot) = self.queue_pairs.get_mut(context.qpn as usize) else {
            return;
        };
        match (profile, &slot) {
            (Some(_), Some(_)) => {}
            (Some(profile), None) => {
                let window = |psn| Window::new(Psn::new(psn), self.config.window);
                *slot = Some(Open {
                    profile,
                    windows: [window(context.psn), window(context.response_psn)],
                });
            }
            (None, _) => {
                // Only solar's windows have slots.
                if let Some(open) = slot.take().filter(|open| open.profile == Profile::Solar) {
                    for stored in open.windows.iter().flat_map(Window::stored) {
                        self.pool.take(context.qpn, stored);
                        self.counters.flushed = self.counters.flushed.wrapping_add(1);
                    }
                }
            }
        }
    }

    /// Takes a packet of route 0. `takes` says whether the blocks behind take a packet of this queue pair and space now; the packet
    /// is given if it may be.
    pub fn receive(&mut self, packet: SequencedPacket, takes: bool) -> (Report, Option<SequencedPacket>) {
        let qpn = packet.packet.qpn;
        let space = Space::of(&packet.context);
        let psn = Psn::new(packet.packet.psn);
        let (outcome, given, messages) = self.place(packet, takes);
        self.counters.count(outcome);
        let cumulative = self.cumulative(qpn, space);
        let first = cumulative.unwrap_or_default().next();
        // A refused packet may stand anywhere: what is said of others stays near.
        let distance = match outcome {
            Outcome::Refused(_) => 0,
            _ => psn.distance(first).max(0) as u32,
        };
        let far = distance / 64;
        let report = Report {
            outcome,
            cumulative,
            messages,
            beyond_gap: self.beyond_gap(qpn, space),
            near: self.sack_bitmap(qpn, space, first),
            far,
            bitmap: self.sack_bitmap(qpn, space, first + 64 * far),
        };
        (report, given)
    }

    fn place(&mut self, packet: SequencedPacket, takes: bool) -> (Outcome, Option<SequencedPacket>, u32) {
        let refused = |reason| (Outcome::Refused(reason), None, 0);
        let qpn = packet.packet.qpn;
        let Some(open) = self.queue_pairs.get_mut(qpn as usize).and_then(Option::as_mut) else {
            return refused(Refusal::Closed);
        };
        let window = &mut open.windows[Space::of(&packet.context) as usize];
        if open.profile == Profile::Roce {
            return go_back_n(window, packet, takes);
        }
        let psn = Psn::new(packet.packet.psn);
        match window.place(psn) {
            Place::Received => (Outcome::Duplicate, None, 0),
            Place::Beyond => refused(Refusal::OutOfWindow),
            Place::New if packet.packet.trimmed == 1 => refused(Refusal::Trimmed),
            Place::New if packet.packet.trimmed != 0 => refused(Refusal::TrimmedLastHop),
            Place::New if open.profile == Profile::Mrc => {
                if !takes {
                    return refused(Refusal::Blocked);
                }
                let messages = window.note(psn, ends_message(&packet.packet));
                (Outcome::Passed, Some(packet), messages)
            }
            Place::New if takes && psn == window.base() => {
                window.pass();
                (Outcome::Passed, Some(packet), 0)
            }
            Place::New => match self.pool.put(qpn, packet) {
                Some(slot) => {
                    window.store(psn, slot);
                    (Outcome::Stored, None, 0)
                }
                None => refused(Refusal::NoSlot),
            },
        }
    }

    /// Whether the next packet of a space waits in a slot.
    #[must_use]
    pub fn is_releasable(&self, qpn: u32, space: Space) -> bool {
        self.window(qpn, space).is_some_and(Window::is_next_stored)
    }

    /// Gives the next packet of a space from its slot; `None`: it is not there yet. Which queue pair is next is a
    /// matter of time and arbitration, so the model is told.
    pub fn release(&mut self, qpn: u32, space: Space) -> Option<SequencedPacket> {
        let open = self.queue_pairs.get_mut(qpn as usize)?.as_mut()?;
        let slot = open.windows[space as usize].release()?;
        self.counters.released = self.counters.released.wrapping_add(1);
        self.pool.take(qpn, slot)
    }

    /// The PSN before the first one that is missing; `None`: the queue pair does not receive.
    #[must_use]
    pub fn cumulative(&self, qpn: u32, space: Space) -> Option<Psn> {
        self.window(qpn, space).map(|window| window.missing() - 1)
    }

    /// The first PSN that was not given yet: the window reaches from it. `None`: the queue pair does not receive.
    #[must_use]
    pub fn base(&self, qpn: u32, space: Space) -> Option<Psn> {
        self.window(qpn, space).map(Window::base)
    }

    /// Which of the 64 PSNs from `first` on have been received: bit i is PSN `first + i`, as in a SACK.
    #[must_use]
    pub fn sack_bitmap(&self, qpn: u32, space: Space, first: Psn) -> u64 {
        self.window(qpn, space).map_or(0, |window| {
            (0..64).fold(0, |bitmap, bit| {
                bitmap | u64::from(window.place(first + bit) == Place::Received) << bit
            })
        })
    }

    /// Packets received beyond the first gap: `ooo_count` of a SACK.
    #[must_use]
    pub fn beyond_gap(&self, qpn: u32, space: Space) -> u32 {
        self.window(qpn, space).map_or(0, Window::beyond_gap)
    }

    fn window(&self, qpn: u32, space: Space) -> Option<&Window> {
        let open = self.queue_pairs.get(qpn as usize)?.as_ref()?;
        Some(&open.windows[space as usize])
    }
}

/// roce: the next packet is given, an older one was received, and one beyond it is asked for again.
fn go_back_n(window: &mut Window, packet: SequencedPacket, takes: bool) -> (Outcome, Option<SequencedPacket>, u32) {
    let refused = |reason| (Outcome::Refused(reason), None, 0);
    let distance = Psn::new(packet.packet.psn).distance(window.base());
    if packet.packet.trimmed != 0 && distance >= 0 {
        // Its rest is asked for as if it had been lost.
        return refused(if packet.packet.trimmed == 1 {
            Refusal::Trimmed
        } else {
            Refusal::TrimmedLastHop
        });
    }
    match distance {
        ..0 => {
            let answered_again = takes && packet.packet.trimmed == 0 && is_answered_with_data(&packet.packet);
            let given = answered_again.then_some(SequencedPacket {
                duplicate: true,
                ..packet
            });
            (Outcome::Duplicate, given, 0)
        }
        0 if !takes => refused(Refusal::Blocked),
        0 => {
            window.advance(psns(&packet));
            (Outcome::Passed, Some(packet), 0)
        }
        _ => refused(Refusal::Sequence {
            first: window.begin_gap(),
        }),
    }
}

fn operation(packet: &ReceivedPacket) -> Option<Operation> {
    Opcode(packet.opcode).info().map(|info| info.operation)
}

fn is_answered_with_data(packet: &ReceivedPacket) -> bool {
    use Operation::{CompareSwap, FetchAdd, ReadRequest};
    matches!(operation(packet), Some(ReadRequest | CompareSwap | FetchAdd))
}

fn ends_message(packet: &ReceivedPacket) -> bool {
    Opcode(packet.opcode)
        .info()
        .is_some_and(|info| info.position.ends_message())
}

/// PSNs that a request of roce takes: a READ as many as it has response packets, of which the last has the remainder. A READ of more than the
/// longest message, which the responder refuses, counts as the longest.
fn psns(packet: &SequencedPacket) -> u32 {
    if operation(&packet.packet) != Some(Operation::ReadRequest) {
        return 1;
    }
    let reth = &packet.packet.extension.0;
    let length = u32::from_be_bytes([reth[12], reth[13], reth[14], reth[15]]).min(MAX_MESSAGE);
    mtu_bytes(packet.context.mtu).map_or(1, |mtu| length.div_ceil(mtu).max(1))
}

#[cfg(test)]
#[path = "reorder_buffer_tests.rs"]
mod tests;
