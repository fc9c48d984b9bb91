//! What is held of one queue pair: its responses, how far they have been given and acknowledged, and what is to be given again.

use std::collections::{BTreeSet, VecDeque};

use spraynic_config::Profile;
use spraynic_config::descriptor::{PacketOrigin, ResponseMessage};
use spraynic_wire::Psn;

use super::Slice;
use crate::packet_slicer::mtu_bytes;
use crate::response_engine::Packets;
use crate::work_queue::SLICE_BYTES;

/// Two PSNs of a queue pair have an order if they are less than half of all PSNs apart.
const HALF: u32 = 1 << 23;

/// What a queue pair may give now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// Which of its responses, the oldest being 0, and from which packet on.
    place: usize,
    index: u32,
    pub(super) packets: u32,
    /// Bytes of payload of these packets.
    pub(super) payload: u32,
    pub(super) class: u8,
    pub(super) retransmission: bool,
}

/// A queue pair that receives.
#[derive(Debug, Clone)]
pub(super) struct QueuePair {
    /// 1 to the largest window.
    pub(super) window: u32,
    pub(super) class: u8,
    /// Oldest PSN that is not acknowledged.
    base: Psn,
    /// Oldest PSN that may be given again: not acknowledged, and its response is held.
    floor: Psn,
    /// Next PSN to give for the first time, and the place of its response.
    next: Psn,
    pub(super) sending: usize,
    /// PSN behind the last response.
    pub(super) end: Psn,
    /// The oldest first; their PSNs follow each other.
    pub(super) responses: VecDeque<ResponseMessage>,
    /// Count of responses that are gone: their places, modulo 256.
    gone: u8,
    /// PSNs from `floor` to `next` to be given again: one bit for each PSN of the window.
    resends: BTreeSet<u32>,
}

impl QueuePair {
    pub(super) fn new(first: Psn) -> Self {
        Self {
            window: 1,
            class: 0,
            base: first,
            floor: first,
            next: first,
            sending: 0,
            end: first,
            responses: VecDeque::new(),
            gone: 0,
            resends: BTreeSet::new(),
        }
    }

    pub(super) fn push(&mut self, message: &ResponseMessage) {
        self.end += message.packets;
        self.responses.push_back(*message);
    }

    /// The oldest response is the peer's: none of its packets is given again.
    pub(super) fn forget_oldest(&mut self) {
        if let Some(oldest) = self.responses.pop_front() {
            let end = Psn::new(oldest.psn) + oldest.packets;
            self.gone = self.gone.wrapping_add(1);
            self.sending = self.sending.saturating_sub(1);
            self.raise_floor(end);
        }
    }

    /// The floor never sinks; what lies below it is not given again.
    fn raise_floor(&mut self, to: Psn) {
        if to.steps_from(self.floor) < HALF {
            self.floor = to;
        }
        let (floor, given) = (self.floor, self.next.steps_from(self.floor));
        self.resends.retain(|psn| Psn::new(*psn).steps_from(floor) < given);
    }

    /// The peer has all before this PSN; false: that was not given.
    pub(super) fn progress(&mut self, base: Psn) -> bool {
        let ahead = base.steps_from(self.base);
        if ahead > self.next.steps_from(self.base) {
            // What lags is no news.
            return ahead >= HALF;
        }
        self.base = base;
        self.raise_floor(base);
        while let Some(oldest) = self.responses.front() {
            if self.floor.steps_from(Psn::new(oldest.psn)) < oldest.packets {
                break;
            }
            self.forget_oldest();
        }
        true
    }

    /// A PSN is to be given again; false: it was acknowledged or not given.
    pub(super) fn resend(&mut self, psn: Psn) -> bool {
        let good = psn.steps_from(self.floor) < self.next.steps_from(self.floor);
        if good {
            self.resends.insert(psn.value());
        }
        good
    }

    /// It has something to give, if not now.
    pub(super) fn has_work(&self) -> bool {
        !self.resends.is_empty() || self.sending < self.responses.len()
    }

    /// The lowest PSN to be given again, alone, else the next new ones of one response that the window has room for.
    pub(super) fn candidate(&self) -> Option<Candidate> {
        let lost = self.resends.iter().map(|psn| Psn::new(*psn));
        if let Some(psn) = lost.min_by_key(|psn| psn.steps_from(self.floor)) {
            let is_in = |response: &ResponseMessage| psn.steps_from(Psn::new(response.psn)) < response.packets;
            let place = self.responses.iter().position(is_in)?;
            return self.cut(place, psn, 1, true);
        }
        let room = self.window.checked_sub(self.next.steps_from(self.base))?;
        (room > 0).then(|| self.cut(self.sending, self.next, room, false))?
    }

    /// Packets of one response from a PSN on, `most` at most.
    fn cut(&self, place: usize, psn: Psn, most: u32, retransmission: bool) -> Option<Candidate> {
        let response = self.responses.get(place)?;
        let mtu = mtu_bytes(response.mtu.clamp(1, 5)).unwrap_or(256);
        let index = psn.steps_from(Psn::new(response.psn));
        let left = response.packets - index;
        let packets = most.min(left).min(SLICE_BYTES / mtu);
        let payload = if response.atomic {
            0
        } else if packets == left {
            response.byte_count - index * mtu
        } else {
            packets * mtu
        };
        Some(Candidate {
            place,
            index,
            packets,
            payload,
            class: self.class,
            retransmission,
        })
    }

    /// These packets are given.
    pub(super) fn begin(&mut self, candidate: &Candidate) -> Slice {
        let response = &self.responses[candidate.place];
        let packets = Packets::of_message(response);
        if candidate.retransmission {
            let psn = Psn::new(response.psn) + candidate.index;
            self.resends.remove(&psn.value());
        } else {
            self.next += candidate.packets;
            let ends = candidate.index + candidate.packets == response.packets;
            self.sending += usize::from(ends);
        }
        Slice {
            packets,
            index: candidate.index,
            left: candidate.packets,
            origin: PacketOrigin {
                slot: self.gone.wrapping_add(candidate.place as u8),
                psns: 1,
                class: self.class,
                profile: Profile::Solar.code(),
                space: true,
                last: false,
                retransmission: candidate.retransmission,
                tracked: true,
            },
        }
    }
}
