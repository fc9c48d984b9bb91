//! The send queue of one queue pair: its requests from being posted to their completion, and what may be sent of them now.
//! It knows nothing of other queue pairs, classes and tokens.

use spraynic_config::Profile;
use spraynic_config::descriptor::{
    Completion, CompletionStatus, QueuePairState, SendContext, WorkOpcode, WorkRequest, WorkSlice,
};

use crate::packet_slicer::mtu_bytes;

/// PSNs are numbers of 24 bits.
pub(super) const PSN_MASK: u32 = 0xFF_FFFF;

/// From the first PSN of the oldest request that is not complete to the next one to be sent there are at most so many, so that two
/// always have an order.
pub const MAX_SPAN: u32 = 1 << 23;

/// Payload bytes of a slice, at most.
pub const SLICE_BYTES: u32 = 4096;

/// What a packet costs beside its payload, in bytes: headers, ICRC, and what the link takes between frames, in round figures.
pub const PACKET_COST: u32 = 64;

/// A request in its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) request: WorkRequest,
    /// Its first PSN, and how many it takes: 0 if it is wrong.
    pub(super) first_psn: u32,
    pub(super) psns: u32,
    pub(super) msn: u16,
    pub(super) rqmsn: u16,
    /// A READ or an atomic: it ends with its response.
    pub(super) responds: bool,
    pub(super) responded: bool,
    /// It is wrong.
    pub(super) wrong: bool,
}

/// What would be sent next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Place of the request, as a free-running count.
    place: u32,
    index: u32,
    packets: u32,
    psn: u32,
    psns: u32,
    kind: Kind,
    /// Bytes that are asked of the buckets.
    pub(super) cost: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It was not sent before.
    New,
    /// roce: it lies behind the PSN to which the cut went back.
    Rewound,
    /// solar, mrc: one PSN that was lost.
    Lost,
}

/// What a queue pair may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) slots: u32,
    pub(super) window: u32,
    pub(super) reads: u32,
}

#[derive(Debug, Clone, Default)]
pub(super) struct SendQueue {
    pub(super) state: Option<QueuePairState>,
    pub(super) context: SendContext,
    slots: Vec<Slot>,
    /// Free-running counts: the oldest request, the one to be cut next, the first one not sent wholly, the next free place.
    head: u32,
    cut: u32,
    frontier: u32,
    tail: u32,
    /// First PSN of the request at `head`.
    head_psn: u32,
    base: u32,
    done: u32,
    /// PSN of the next packet to be cut, and of the next one never sent: they differ while the cut has gone back.
    cut_psn: u32,
    next_psn: u32,
    /// Numbers of the next request posted.
    post_psn: u32,
    msn: u16,
    rqmsn: u16,
    reads: u32,
    /// roce: the peer has no receive request; what is sent now is sent in vain.
    pub(super) waits: bool,
    /// PSNs to be sent again, by PSN modulo the window.
    lost: Vec<u64>,
    lost_count: u32,
}

/// What a `SendProgress` or `Resend` was worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Credible {
    Yes,
    No,
}

impl SendQueue {
    pub(super) fn sends(&self) -> bool {
        self.state == Some(QueuePairState::ReadyToSend)
    }

    pub(super) fn waiting(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    pub(super) fn reads_allowed(&self, limits: Limits) -> u32 {
        u32::from(self.context.reads).min(limits.reads)
    }

    fn window(&self, limits: Limits) -> u32 {
        u32::from(self.context.window).clamp(1, limits.window)
    }

    fn offset(&self, psn: u32) -> u32 {
        psn.wrapping_sub(self.head_psn) & PSN_MASK
    }

    fn slot(&self, place: u32) -> &Slot {
        &self.slots[place as usize % self.slots.len()]
    }

    fn roce(&self) -> bool {
        self.context.profile == Profile::Roce.code()
    }

    /// Begins at the PSN of the context, with nothing posted.
    pub(super) fn open(&mut self, context: &SendContext, limits: Limits) {
        let psn = context.psn & PSN_MASK;
        let (mut slots, mut lost) = (std::mem::take(&mut self.slots), std::mem::take(&mut self.lost));
        slots.clear();
        slots.reserve_exact(limits.slots as usize);
        lost.clear();
        lost.resize(limits.window.div_ceil(64) as usize, 0);
        *self = Self {
            state: Some(QueuePairState::ReadyToSend),
            context: *context,
            slots,
            lost,
            head_psn: psn,
            base: psn,
            done: psn,
            cut_psn: psn,
            next_psn: psn,
            post_psn: psn,
            ..Self::default()
        };
    }

    /// What of a context may change while the queue pair sends.
    pub(super) fn change(&mut self, context: &SendContext) {
        let kept = self.context;
        self.context = SendContext {
            profile: kept.profile,
            mtu: kept.mtu,
            class: kept.class,
            ..*context
        };
    }

    /// Takes a request, of which there is room for one more. `checked`: the PSNs that it takes, or that it is wrong.
    pub(super) fn post(&mut self, request: &WorkRequest, psns: Option<u32>, limits: Limits) {
        let responds = !has_payload(request);
        let slot = Slot {
            request: *request,
            first_psn: self.post_psn,
            psns: psns.unwrap_or(0),
            msn: self.msn,
            rqmsn: self.rqmsn,
            responds,
            responded: false,
            wrong: psns.is_none(),
        };
        if let Some(psns) = psns {
            self.post_psn = self.post_psn.wrapping_add(psns) & PSN_MASK;
            if self.context.profile == Profile::Mrc.code() {
                self.msn = self.msn.wrapping_add(1);
                self.rqmsn = self.rqmsn.wrapping_add(u16::from(request.inline_immediate));
            }
        }
        let place = (self.tail % limits.slots) as usize;
        if place == self.slots.len() {
            self.slots.push(slot);
        } else {
            self.slots[place] = slot;
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Where a PSN of a `SendProgress` stands, counted from the oldest request that is not complete; one that lags behind it counts as that.
    /// `None`: it was never sent.
    fn reached(&self, psn: u32) -> Option<u32> {
        let at = self.offset(psn);
        match at {
            _ if at <= self.offset(self.next_psn) => Some(at),
            _ if at >= MAX_SPAN => Some(0),
            _ => None,
        }
    }

    pub(super) fn progress(&mut self, base: u32, done: u32) -> Credible {
        let (Some(base_at), Some(done_at)) = (self.reached(base), self.reached(done)) else {
            return Credible::No;
        };
        if done_at > self.offset(self.done) {
            self.done = done & PSN_MASK;
        }
        // What is done has been received.
        let (base_at, base) = if done_at > base_at {
            (done_at, done)
        } else {
            (base_at, base)
        };
        if base_at > self.offset(self.base) {
            self.forget_lost(base & PSN_MASK);
            self.base = base & PSN_MASK;
        }
        Credible::Yes
    }

    /// What was acknowledged meanwhile is not sent again.
    fn forget_lost(&mut self, to: u32) {
        let mask = self.lost.len() as u32 * 64 - 1;
        let mut psn = self.base;
        let steps = (to.wrapping_sub(psn) & PSN_MASK).min(mask + 1);
        for _ in 0..steps {
            if self.lost_count == 0 {
                return;
            }
            self.set_lost(psn & mask, false);
            psn = psn.wrapping_add(1) & PSN_MASK;
        }
    }

    fn set_lost(&mut self, bit: u32, lost: bool) {
        let word = &mut self.lost[bit as usize / 64];
        let mask = 1 << (bit % 64);
        let was = *word & mask != 0;
        if lost && !was {
            *word |= mask;
            self.lost_count += 1;
        } else if !lost && was {
            *word &= !mask;
            self.lost_count -= 1;
        }
    }

    pub(super) fn resend(&mut self, psn: u32) -> Credible {
        self.waits = false;
        let at = self.offset(psn);
        if at < self.offset(self.base) || at >= self.offset(self.next_psn) {
            return Credible::No;
        }
        if !self.roce() {
            let mask = self.lost.len() as u32 * 64 - 1;
            self.set_lost(psn & mask, true);
        } else if at < self.offset(self.cut_psn) {
            self.cut = self.place_of(psn);
            self.cut_psn = psn & PSN_MASK;
        }
        Credible::Yes
    }

    /// The request of a PSN that was sent and is not complete.
    fn place_of(&self, psn: u32) -> u32 {
        let mut place = self.head;
        while place != self.tail {
            let slot = self.slot(place);
            if psn.wrapping_sub(slot.first_psn) & PSN_MASK < slot.psns {
                break;
            }
            place = place.wrapping_add(1);
        }
        place
    }

    /// Passes the cut on over what needs not be sent: what `base` has passed, requests cut wholly, and wrong ones.
    pub(super) fn advance(&mut self) {
        if self.offset(self.cut_psn) < self.offset(self.base) {
            self.cut_psn = self.base;
        }
        while self.cut != self.tail {
            let slot = self.slot(self.cut);
            if self.cut_psn.wrapping_sub(slot.first_psn) & PSN_MASK < slot.psns {
                break;
            }
            self.cut = self.cut.wrapping_add(1);
        }
        if self.cut_psn == self.next_psn {
            self.frontier = self.cut;
        }
    }

    /// Takes the response of a READ or atomic. `None`: there is none outstanding in that slot.
    pub(super) fn outstanding(&self, slot: u8, limits: Limits) -> Option<u32> {
        let ahead = u32::from(slot).wrapping_sub(self.head) & (limits.slots - 1);
        let place = self.head.wrapping_add(ahead);
        let sent = ahead < self.frontier.wrapping_sub(self.head);
        (u32::from(slot) < limits.slots && sent)
            .then(|| self.slot(place))
            .filter(|slot| slot.responds && !slot.responded && !slot.wrong)
            .map(|_| place)
    }

    pub(super) fn respond(&mut self, place: u32) {
        let index = place as usize % self.slots.len();
        self.slots[index].responded = true;
        self.reads -= 1;
    }

    /// The completion of the oldest request, if it has ended: `Some(None)` for one that wants none.
    pub(super) fn retire(&mut self) -> Option<Option<Completion>> {
        if self.head == self.tail {
            return None;
        }
        let slot = self.slot(self.head);
        let received = self.offset(self.base) >= slot.psns;
        let ended = if slot.responds && !slot.wrong {
            slot.responded && received
        } else {
            self.offset(self.done) >= slot.psns
        };
        if !ended {
            return None;
        }
        let status = if slot.wrong {
            CompletionStatus::LocalInvalidRequest
        } else {
            CompletionStatus::Success
        };
        let completion = completion(&slot.request, status);
        let wanted = slot.wrong || slot.request.signalled;
        let head_psn = self.head_psn.wrapping_add(slot.psns) & PSN_MASK;
        // A READ can end before `done` has passed it.
        if self.offset(self.done) < slot.psns {
            self.done = head_psn;
        }
        self.head_psn = head_psn;
        if self.cut == self.head {
            self.cut = self.cut.wrapping_add(1);
        }
        if self.frontier == self.head {
            self.frontier = self.frontier.wrapping_add(1);
        }
        self.head = self.head.wrapping_add(1);
        Some(wanted.then_some(completion))
    }

    /// The request that a failure at PSN `done` names: the oldest one where none has that PSN.
    pub(super) fn place_of_failure(&self) -> u32 {
        let place = self.place_of(self.done);
        if place == self.tail { self.head } else { place }
    }

    /// Ends all requests: the one at `place` with `status`, the others flushed.
    pub(super) fn fail(&mut self, place: Option<u32>, status: u8, mut give: impl FnMut(Completion)) {
        while self.head != self.tail {
            let mut flushed = completion(&self.slot(self.head).request, CompletionStatus::Flushed);
            if place == Some(self.head) {
                flushed.status = status;
            }
            give(flushed);
            self.head = self.head.wrapping_add(1);
        }
        self.forget();
    }

    /// Forgets all requests.
    pub(super) fn forget(&mut self) {
        self.head = self.tail;
        self.cut = self.tail;
        self.frontier = self.tail;
        self.reads = 0;
        self.lost_count = 0;
        self.lost.fill(0);
    }

    /// What would be sent next, but for tokens.
    pub(super) fn candidate(&self, limits: Limits) -> Option<Candidate> {
        if !self.sends() || self.waits {
            return None;
        }
        if self.lost_count > 0 {
            return self.lowest_lost().map(|psn| self.lost_packet(psn));
        }
        if self.cut == self.tail {
            return None;
        }
        let slot = self.slot(self.cut);
        let mtu = mtu_bytes(self.context.mtu)?;
        let index = self.cut_psn.wrapping_sub(slot.first_psn) & PSN_MASK;
        let left = slot.psns - index;
        let again = self.cut_psn != self.next_psn;
        let room = if again {
            self.next_psn.wrapping_sub(self.cut_psn) & PSN_MASK
        } else {
            self.room(slot, index, left, limits)?
        };
        let (packets, psns) = if slot.responds {
            (1, left)
        } else {
            let packets = left.min(SLICE_BYTES / mtu).min(room);
            (packets, packets)
        };
        let payload = if slot.responds {
            0
        } else {
            (packets * mtu).min(slot.request.length - index * mtu)
        };
        Some(Candidate {
            place: self.cut,
            index,
            packets,
            psn: self.cut_psn,
            psns,
            kind: if again { Kind::Rewound } else { Kind::New },
            cost: payload + packets * PACKET_COST,
        })
    }

    /// Packets of a request never sent that may be sent now, at least 1; any number for a READ or atomic.
    fn room(&self, slot: &Slot, index: u32, left: u32, limits: Limits) -> Option<u32> {
        if index == 0 {
            let blocked =
                (slot.request.fence && self.reads > 0) || (slot.responds && self.reads >= self.reads_allowed(limits));
            if blocked {
                return None;
            }
        }
        let flying = self.next_psn.wrapping_sub(self.base) & PSN_MASK;
        let room = self.window(limits).saturating_sub(flying);
        let span = MAX_SPAN - self.offset(self.next_psn);
        if slot.responds {
            return ((left <= room || flying == 0) && left <= span).then_some(left);
        }
        Some(room.min(span)).filter(|room| *room > 0)
    }

    fn lowest_lost(&self) -> Option<u32> {
        let words = self.lost.len();
        let bits = words as u32 * 64;
        let start = self.base & (bits - 1);
        let (word, bit) = (start as usize / 64, start % 64);
        let above = self.lost[word] & (u64::MAX << bit);
        let found = if above != 0 {
            word as u32 * 64 + above.trailing_zeros()
        } else {
            // Cyclic from the next word; the first one comes last, with what lies below the start.
            (1..=words)
                .map(|step| (word + step) % words)
                .find(|place| self.lost[*place] != 0)
                .map(|place| place as u32 * 64 + self.lost[place].trailing_zeros())?
        };
        Some(self.base.wrapping_add(found.wrapping_sub(start) & (bits - 1)) & PSN_MASK)
    }

    fn lost_packet(&self, psn: u32) -> Candidate {
        let place = self.place_of(psn);
        let slot = self.slot(place);
        let index = psn.wrapping_sub(slot.first_psn) & PSN_MASK;
        let mtu = mtu_bytes(self.context.mtu).unwrap_or(SLICE_BYTES);
        let payload = if slot.responds {
            0
        } else {
            mtu.min(slot.request.length - index * mtu)
        };
        Candidate {
            place,
            index,
            packets: 1,
            psn,
            psns: 1,
            kind: Kind::Lost,
            cost: payload + PACKET_COST,
        }
    }

    /// Whether what has been cut fills the window.
    fn is_full(&self, limits: Limits) -> bool {
        self.cut_psn.wrapping_sub(self.base) & PSN_MASK >= self.window(limits)
    }

    /// Sends a candidate.
    pub(super) fn commit(&mut self, candidate: &Candidate, limits: Limits) -> (WorkRequest, WorkSlice) {
        let slot = *self.slot(candidate.place);
        match candidate.kind {
            Kind::Lost => {
                let mask = self.lost.len() as u32 * 64 - 1;
                self.set_lost(candidate.psn & mask, false);
            }
            Kind::Rewound | Kind::New => {
                self.cut_psn = candidate.psn.wrapping_add(candidate.psns) & PSN_MASK;
                if candidate.kind == Kind::New {
                    self.next_psn = self.cut_psn;
                    self.reads += u32::from(slot.responds);
                }
                self.advance();
            }
        }
        let context = &self.context;
        let slice = WorkSlice {
            index: candidate.index,
            packets: candidate.packets as u8,
            psn: candidate.psn,
            slot: (candidate.place % limits.slots) as u8,
            msn: slot.msn,
            rqmsn: slot.rqmsn,
            entropy: context.entropy,
            profile: context.profile,
            mtu: context.mtu,
            timestamps: context.timestamps,
            class: context.class,
            retransmission: candidate.kind != Kind::New,
            ask: candidate.kind != Kind::Lost && self.is_full(limits),
            ..WorkSlice::default()
        };
        (slot.request, slice)
    }
}

/// Whether packets of the request carry payload; the others end with a response.
pub(super) fn has_payload(request: &WorkRequest) -> bool {
    matches!(
        WorkOpcode::from_code(request.opcode),
        Some(WorkOpcode::Send | WorkOpcode::SendInvalidate | WorkOpcode::Write)
    )
}

/// The completion of a request.
pub(super) fn completion(request: &WorkRequest, status: CompletionStatus) -> Completion {
    Completion {
        cookie: request.cookie,
        qpn: request.qpn,
        status: status as u8,
        opcode: request.opcode,
        byte_count: request.length,
        ..Completion::default()
    }
}
