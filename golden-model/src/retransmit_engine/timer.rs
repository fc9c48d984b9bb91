//! Timers of sequence spaces: when one is due, how it backs off, and which of all is the first.
//!
//! It does not know what is done when a timer fires.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Timeouts in a row that double the next one.
const DOUBLINGS: u8 = 7;

/// The retransmission timer of a sequence space.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Timer {
    /// When it fires; `None`: nothing is awaited.
    pub(super) deadline_ns: Option<u64>,
    /// Timeouts in a row, as far as they double the next one.
    backoff: u8,
    /// Timeouts without a sign of the peer.
    pub(super) retries: u8,
}

impl Timer {
    /// Starts again, with what the back-off has come to.
    pub(super) fn start(&mut self, timeout_ns: u32, now_ns: u64) {
        self.deadline_ns = Some(now_ns.wrapping_add(u64::from(timeout_ns) << self.backoff));
    }

    /// Something was acknowledged.
    pub(super) fn progress(&mut self) {
        self.backoff = 0;
        self.retries = 0;
    }

    /// A timeout is answered by sending again; false: it was one too many.
    pub(super) fn retry(&mut self, limit: u8) -> bool {
        let may = self.retries < limit;
        if may {
            self.retries += 1;
            self.backoff = (self.backoff + 1).min(DOUBLINGS);
        }
        may
    }
}

/// The deadlines of all timers, the earliest first. A deadline that moves later costs nothing until its old time comes.
#[derive(Debug, Clone)]
pub(super) struct Deadlines {
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    /// For each timer the earliest entry of the heap that counts.
    queued: Vec<Option<u64>>,
}

impl Deadlines {
    pub(super) fn new(timers: u32) -> Self {
        Self {
            heap: BinaryHeap::new(),
            queued: vec![None; timers as usize],
        }
    }

    /// A timer was set to this deadline.
    pub(super) fn set(&mut self, timer: u32, deadline_ns: u64) {
        let queued = &mut self.queued[timer as usize];
        if queued.is_none_or(|queued| deadline_ns < queued) {
            *queued = Some(deadline_ns);
            self.heap.push(Reverse((deadline_ns, timer)));
        }
    }

    /// Whether surely no timer is due at this time: none was queued for it, and a deadline that moved since is a later one.
    pub(super) fn none_until(&self, now_ns: u64) -> bool {
        self.heap.peek().is_none_or(|Reverse((at, _))| *at > now_ns)
    }

    /// The earliest timer and its deadline, where `deadline` says what a timer's is now.
    pub(super) fn earliest(&mut self, deadline: impl Fn(u32) -> Option<u64>) -> Option<(u64, u32)> {
        while let Some(&Reverse((at, timer))) = self.heap.peek() {
            let queued = &mut self.queued[timer as usize];
            let now = deadline(timer);
            if *queued == Some(at) && now == Some(at) {
                return Some((at, timer));
            }
            let mut first = self.heap.peek_mut()?;
            if *queued != Some(at) {
                PeekMut::pop(first);
                continue;
            }
            *queued = now;
            match now {
                // It moved: its entry moves with it.
                Some(now) => first.0.0 = now,
                None => {
                    PeekMut::pop(first);
                }
            }
        }
        None
    }
}
