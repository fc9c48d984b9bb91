//! The pool of packet slots: who holds how many, and who may take one more.

use std::collections::VecDeque;

use super::{Given, facts::takes_receive_request};

/// Slots shared by all queue pairs. Of the free ones, each queue pair may take those that are guaranteed to it; beyond
/// them it takes from those that are guaranteed to nobody.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    slots: Vec<Option<Given>>,
    free: VecDeque<u32>,
    used: Vec<u32>,
    guaranteed: u32,
    /// Slots that are guaranteed to nobody and free.
    shared: u32,
}

impl Pool {
    pub(super) fn new(slots: u32, queue_pairs: u32, guaranteed: u32) -> Self {
        Self {
            slots: vec![None; slots as usize],
            free: (0..slots).collect(),
            used: vec![0; queue_pairs as usize],
            guaranteed,
            shared: slots.saturating_sub(queue_pairs.saturating_mul(guaranteed)),
        }
    }

    pub(super) fn free(&self) -> u32 {
        self.free.len() as u32
    }

    pub(super) fn used(&self, qpn: u32) -> u32 {
        self.used.get(qpn as usize).copied().unwrap_or(0)
    }

    /// Puts a packet into a slot; `None`: there is none for this queue pair.
    pub(super) fn put(&mut self, qpn: u32, packet: Given) -> Option<u32> {
        let used = self.used.get_mut(qpn as usize)?;
        let of_its_own = *used < self.guaranteed;
        if !of_its_own && self.shared == 0 {
            return None;
        }
        let slot = self.free.pop_front()?;
        self.shared -= u32::from(!of_its_own);
        *used += 1;
        self.slots[slot as usize] = Some(packet);
        Some(slot)
    }

    /// Whether the packet in a slot takes a receive request.
    pub(super) fn takes_receive_request(&self, slot: u32) -> bool {
        let kept = self.slots.get(slot as usize).and_then(Option::as_ref);
        kept.is_some_and(|given| takes_receive_request(given.packet.opcode))
    }

    /// Takes the packet of a slot out and frees it.
    pub(super) fn take(&mut self, qpn: u32, slot: u32) -> Option<Given> {
        let packet = self.slots.get_mut(slot as usize)?.take()?;
        let used = self.used.get_mut(qpn as usize)?;
        *used -= 1;
        self.shared += u32::from(*used >= self.guaranteed);
        self.free.push_back(slot);
        Some(packet)
    }
}
