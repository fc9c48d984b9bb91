//! A request that arrives at a queue pair that receives: its checks in their order, and what it changes.
//!
//! It asks `memory_regions` for nothing but an invalidation; what the packet names was asked for before.

use spraynic_config::Profile;
use spraynic_config::descriptor::{
    CompletionStatus, MemoryAccess, MemoryTranslation, PayloadWrite, ReceiveRequest, SequencedPacket,
};
use spraynic_wire::{NakCode, Syndrome};

use super::request::{Kind, Request};
use super::{Counters, Immediate, Progress, QueuePair};
use crate::counter::count;

/// Why a request is refused, and how the receive request in use ends.
struct Refusal {
    code: NakCode,
    status: CompletionStatus,
}

const INVALID_REQUEST: Refusal = Refusal {
    code: NakCode::InvalidRequest,
    status: CompletionStatus::RemoteInvalidRequest,
};
const BUFFER_TOO_SHORT: Refusal = Refusal {
    code: NakCode::InvalidRequest,
    status: CompletionStatus::LocalLength,
};
const REMOTE_ACCESS: Refusal = Refusal {
    code: NakCode::RemoteAccessError,
    status: CompletionStatus::RemoteAccess,
};
const NO_RECEIVE_REQUEST: Refusal = Refusal {
    code: NakCode::RemoteOperationalError,
    status: CompletionStatus::RemoteInvalidRequest,
};

/// A packet of a queue pair that receives.
pub(super) struct Arrival<'a> {
    pub(super) packet: &'a SequencedPacket,
    pub(super) request: Request,
    /// What `memory_regions` said; `None`: it was not asked.
    pub(super) translation: Option<MemoryTranslation>,
    pub(super) queue_pair: &'a mut QueuePair,
    pub(super) counters: &'a mut Counters,
}

impl Arrival<'_> {
    /// What becomes of it. `write` has what is of the packet alone, and the MSN before it.
    pub(super) fn carry_out(
        &mut self,
        write: PayloadWrite,
        regions: impl FnMut(&MemoryAccess) -> MemoryTranslation,
    ) -> PayloadWrite {
        let discarded = PayloadWrite { discard: true, ..write };
        if self.packet.duplicate {
            return self.execute_again(write, discarded);
        }
        // The oldest receive request is taken by each packet that needs one, as it was given against a credit.
        let needs = self.request.needs_receive_request();
        let taken = needs.then(|| self.queue_pair.requests.pop_front()).flatten();
        if self.queue_pair.message.failed {
            count(&mut self.counters.drop_failed);
            return self.give_up(discarded, taken, CompletionStatus::Flushed);
        }
        let carried_out = match self.request.kind {
            Kind::Retired { immediate } => self.retire(write, taken, immediate),
            _ => self
                .check(taken)
                .and_then(|()| self.invalidate(regions))
                .map(|()| self.advance(write, taken)),
        };
        carried_out.unwrap_or_else(|refusal| {
            let counter = match refusal.code {
                NakCode::RemoteAccessError => &mut self.counters.refused_remote_access,
                NakCode::RemoteOperationalError => &mut self.counters.refused_operational,
                _ => &mut self.counters.refused_invalid_request,
            };
            count(counter);
            self.queue_pair.message.failed = true;
            let refused = PayloadWrite {
                answer: true,
                syndrome: Syndrome::Nak(refusal.code).byte(),
                ..discarded
            };
            self.give_up(refused, taken, refusal.status)
        })
    }

    /// Ends a receive request of a failed queue pair: the one in use, else the one that this packet took. If there are both, the latter becomes
    /// the one in use, so that all end in order.
    fn give_up(
        &mut self,
        write: PayloadWrite,
        taken: Option<ReceiveRequest>,
        status: CompletionStatus,
    ) -> PayloadWrite {
        let message = &mut self.queue_pair.message;
        let taken = taken.map(|request| request.cookie);
        let (ended, held) = match message.held {
            Some(held) => (Some(held), taken),
            None => (taken, None),
        };
        message.held = held;
        let Some(cookie) = ended else {
            return write;
        };
        if status == CompletionStatus::Flushed {
            count(&mut self.counters.flushed);
        }
        PayloadWrite {
            completion: true,
            status: status as u8,
            cookie,
            ..write
        }
    }

    /// A duplicate of roce changes nothing: it is executed again, or discarded where it would not be allowed now.
    fn execute_again(&mut self, write: PayloadWrite, discarded: PayloadWrite) -> PayloadWrite {
        let executes = matches!(self.request.kind, Kind::Read | Kind::Atomic);
        if self.queue_pair.message.failed {
            count(&mut self.counters.drop_failed);
            return discarded;
        }
        let request = &self.request;
        let right = executes
            && request.is_permitted(self.packet)
            && request.is_well_formed()
            && request.has_length_of_its_place(self.packet)
            && !self.is_refused();
        if !right {
            count(&mut self.counters.drop_duplicate);
            return discarded;
        }
        count(&mut self.counters.duplicates);
        PayloadWrite {
            duplicate: true,
            ..self.executed(write)
        }
    }

    fn is_refused(&self) -> bool {
        self.translation.is_some_and(|translation| translation.refusal != 0)
    }

    /// Bytes that the payload may have: what is left of the message, from this packet on.
    fn remaining(&self, taken: Option<ReceiveRequest>) -> u32 {
        match self.request.kind {
            Kind::Send if self.request.begins => taken.map_or(0, |request| request.length),
            Kind::Send => self.queue_pair.message.left,
            _ if self.request.names_memory() => self.request.length,
            _ => self.queue_pair.message.left,
        }
    }

    /// The checks of a request, in their order.
    fn check(&self, taken: Option<ReceiveRequest>) -> Result<(), Refusal> {
        let request = &self.request;
        let mrc = self.packet.profile == Profile::Mrc.code();
        let expected = match request.kind {
            Kind::Unknown | Kind::Retired { .. } => return Err(INVALID_REQUEST),
            Kind::Send if !request.begins => Some(Progress::Send),
            Kind::Write if !request.begins && !mrc => Some(Progress::Write),
            _ => None,
        };
        if self.queue_pair.message.progress != expected || !request.is_permitted(self.packet) {
            return Err(INVALID_REQUEST);
        }
        if request.needs_receive_request() && taken.is_none() {
            return Err(NO_RECEIVE_REQUEST);
        }
        if !request.is_well_formed() || !request.has_length_of_its_place(self.packet) {
            return Err(INVALID_REQUEST);
        }
        let payload = u32::from(self.packet.payload_length);
        let remaining = self.remaining(taken);
        match request.kind {
            Kind::Send if payload > remaining => return Err(BUFFER_TOO_SHORT),
            Kind::Write => {
                let fits = match (request.begins, request.ends) {
                    (_, false) => payload < remaining,
                    // The address of mrc's packets says how much came before, and it is not looked at.
                    (false, true) if mrc => payload <= remaining,
                    (_, true) => payload == remaining,
                };
                if !fits {
                    return Err(INVALID_REQUEST);
                }
            }
            _ => {}
        }
        if mrc && request.immediate.is_some() && self.immediate_slot(request.rqmsn).is_none() {
            return Err(INVALID_REQUEST);
        }
        if self.is_refused() {
            return Err(REMOTE_ACCESS);
        }
        Ok(())
    }

    /// A key is invalidated when nothing else can go wrong.
    fn invalidate(&self, mut regions: impl FnMut(&MemoryAccess) -> MemoryTranslation) -> Result<(), Refusal> {
        let asked = self.request.invalidation(self.packet).map(|access| regions(&access));
        match asked {
            Some(MemoryTranslation { refusal: 1.., .. }) => Err(REMOTE_ACCESS),
            _ => Ok(()),
        }
    }

    /// mrc: the place of an immediate, if its message is one of those that may be under way.
    fn immediate_slot(&self, rqmsn: u16) -> Option<usize> {
        let places = self.queue_pair.immediates.len();
        (usize::from(rqmsn.wrapping_sub(self.queue_pair.rqmsn)) < places).then(|| usize::from(rqmsn) % places)
    }

    /// What a READ or an atomic that passed its checks asks for.
    fn executed(&self, write: PayloadWrite) -> PayloadWrite {
        let request = &self.request;
        let atomic = request.kind == Kind::Atomic;
        PayloadWrite {
            address: self.translation.map_or(0, |translation| translation.address),
            execute: true,
            byte_count: request.length,
            compare: if atomic { request.compare } else { 0 },
            swap_add: if atomic { request.swap_add } else { 0 },
            ..write
        }
    }

    /// A message is done; gives the MSN behind it.
    fn finish_message(&mut self) -> u32 {
        count(&mut self.counters.messages);
        let message = &mut self.queue_pair.message;
        message.msn = (message.msn + 1) & 0xFF_FFFF;
        message.msn
    }

    /// Carries out a request that passed all checks.
    fn advance(&mut self, write: PayloadWrite, taken: Option<ReceiveRequest>) -> PayloadWrite {
        count(&mut self.counters.accepted);
        let request = self.request;
        if matches!(request.kind, Kind::Read | Kind::Atomic) {
            let write = self.executed(write);
            let msn = self.finish_message();
            return PayloadWrite { msn, ..write };
        }
        let payload = u32::from(self.packet.payload_length);
        let remaining = self.remaining(taken);
        let message = &mut self.queue_pair.message;
        let named = self.translation.map(|translation| translation.address);
        let address = match request.kind {
            Kind::Send if request.begins => taken.map_or(0, |request| request.address),
            _ => named.unwrap_or(message.address),
        };
        let write = PayloadWrite {
            address: if payload == 0 { 0 } else { address },
            ..write
        };
        if self.packet.profile == Profile::Mrc.code() {
            self.keep_immediate();
            return write;
        }
        let received = if request.begins { 0 } else { message.received } + payload;
        let held = match request.kind {
            Kind::Send if request.begins => taken.map(|request| request.cookie),
            _ => message.held,
        };
        let roce = self.packet.profile == Profile::Roce.code();
        let write = PayloadWrite {
            answer: request.ends || roce,
            silent: roce && !self.packet.ack_request,
            ..write
        };
        if !request.ends {
            message.progress = Some(if request.kind == Kind::Send {
                Progress::Send
            } else {
                Progress::Write
            });
            message.held = held;
            message.address = address.wrapping_add(payload.into());
            message.left = remaining - payload;
            message.received = received;
            return write;
        }
        message.progress = None;
        message.held = None;
        let cookie = if request.kind == Kind::Send {
            held
        } else {
            taken.map(|request| request.cookie)
        };
        let msn = self.finish_message();
        let write = PayloadWrite { msn, ..write };
        match cookie {
            Some(cookie) => complete(write, cookie, received, request.immediate.or(request.invalidated)),
            None => write,
        }
    }

    /// mrc: the immediate waits for the end of its message.
    fn keep_immediate(&mut self) {
        let request = self.request;
        let slot = self.immediate_slot(request.rqmsn);
        if let Some((immediate, slot)) = request.immediate.zip(slot) {
            self.queue_pair.immediates[slot] = Some(Immediate {
                immediate,
                byte_count: request.length,
                solicited: self.packet.solicited,
            });
        }
    }

    /// mrc: a message is complete, and all before it.
    fn retire(
        &mut self,
        write: PayloadWrite,
        taken: Option<ReceiveRequest>,
        immediate: bool,
    ) -> Result<PayloadWrite, Refusal> {
        let write = PayloadWrite { answer: true, ..write };
        let completed = if immediate {
            let cookie = taken.ok_or(NO_RECEIVE_REQUEST)?.cookie;
            let places = self.queue_pair.immediates.len();
            let slot = usize::from(self.queue_pair.rqmsn) % places;
            let kept = self.queue_pair.immediates[slot].take().ok_or(INVALID_REQUEST)?;
            self.queue_pair.rqmsn = self.queue_pair.rqmsn.wrapping_add(1);
            let write = complete(write, cookie, kept.byte_count, Some(kept.immediate));
            PayloadWrite {
                solicited: kept.solicited,
                ..write
            }
        } else {
            write
        };
        count(&mut self.counters.retired);
        let msn = self.finish_message();
        Ok(PayloadWrite { msn, ..completed })
    }
}

/// A write with the completion of a message.
fn complete(write: PayloadWrite, cookie: u64, byte_count: u32, immediate: Option<u32>) -> PayloadWrite {
    PayloadWrite {
        completion: true,
        status: CompletionStatus::Success as u8,
        byte_count,
        has_immediate: immediate.is_some(),
        immediate: immediate.unwrap_or(0),
        cookie,
        ..write
    }
}
