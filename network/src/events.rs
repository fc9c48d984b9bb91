//! What is to happen in a world, in the order of its time; of what happens at the same time, what was asked for first is first.
//!
//! Frames come from wires, which keep their order: a frame waits behind the one before it on its wire, and only the first of each wire takes
//! part in the order of all. So the order costs by the wires that are in use, not by the frames on their way.

use std::cmp::Ordering;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};

use crate::time::Picoseconds;

/// When, and which of those at the same time: the time in the upper half, so that one comparison tells the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Moment(u128);

impl Moment {
    fn time(self) -> Picoseconds {
        Picoseconds((self.0 >> 64) as u64)
    }
}

/// What happens, in its place: small ones alone, frames by their wire.
#[derive(Debug, Clone, Copy)]
enum Source<E> {
    /// An event of its own.
    Alone(E),
    /// The first frame of this wire.
    Wire(usize),
}

/// What takes part in the order of all; the earliest is the greatest, as the heap wants it. Moments differ.
#[derive(Debug, Clone, Copy)]
struct First<E> {
    moment: Moment,
    source: Source<E>,
}

impl<E> PartialEq for First<E> {
    fn eq(&self, other: &Self) -> bool {
        self.moment == other.moment
    }
}

impl<E> Eq for First<E> {}

impl<E> PartialOrd for First<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for First<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.moment.cmp(&self.moment)
    }
}

/// Next in the order of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next<E> {
    /// An event.
    Event(E),
    /// A frame leaves this wire at its far end.
    Frame(usize, Vec<u8>),
}

/// The events to come.
#[derive(Debug)]
pub(crate) struct Events<E> {
    /// Events of their own, and the first frame of each wire that has one.
    first: BinaryHeap<First<E>>,
    /// Frames of each wire, the first one being the next to come out.
    wires: Vec<VecDeque<(Moment, Vec<u8>)>>,
    number: u64,
}

impl<E: Copy> Events<E> {
    /// None yet, and so many wires.
    pub(crate) fn new(wires: usize) -> Self {
        Self {
            first: BinaryHeap::new(),
            wires: (0..wires).map(|_| VecDeque::new()).collect(),
            number: 0,
        }
    }

    fn moment(&mut self, at: Picoseconds) -> Moment {
        let number = self.number;
        self.number += 1;
        Moment(u128::from(at.0) << 64 | u128::from(number))
    }

    /// An event happens at this time.
    pub(crate) fn push(&mut self, at: Picoseconds, event: E) {
        let moment = self.moment(at);
        let source = Source::Alone(event);
        self.first.push(First { moment, source });
    }

    /// A frame leaves a wire at this time, not before the one that it was given earlier.
    pub(crate) fn push_frame(&mut self, at: Picoseconds, wire: usize, frame: Vec<u8>) {
        let moment = self.moment(at);
        let queue = &mut self.wires[wire];
        debug_assert!(queue.back().is_none_or(|(last, _)| *last < moment));
        if queue.is_empty() {
            let source = Source::Wire(wire);
            self.first.push(First { moment, source });
        }
        queue.push_back((moment, frame));
    }

    /// Takes the next one, unless it comes after `limit`; with its time.
    pub(crate) fn pop(&mut self, limit: Picoseconds) -> Option<(Picoseconds, Next<E>)> {
        let First { moment, source } = *self.first.peek()?;
        let at = moment.time();
        if at > limit {
            return None;
        }
        let mut first = self.first.peek_mut()?;
        let next = match source {
            Source::Alone(event) => {
                PeekMut::pop(first);
                Next::Event(event)
            }
            Source::Wire(wire) => {
                let queue = &mut self.wires[wire];
                let (_, frame) = queue.pop_front()?;
                match queue.front() {
                    Some((moment, _)) => first.moment = *moment,
                    None => {
                        PeekMut::pop(first);
                    }
                }
                Next::Frame(wire, frame)
            }
        };
        Some((at, next))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Wires 0 to 2 and events of their own against a list that is sorted.
        #[test]
        fn order_is_that_of_time_then_of_asking(steps in prop::collection::vec((0usize..4, 0u64..5), 0..200), every in 1usize..6) {
            let mut events = Events::new(3);
            let mut expected = Vec::new();
            let mut last = [0; 3];
            let mut now = 0;
            let check = |events: &mut Events<usize>, expected: &mut Vec<(u64, usize, usize)>, limit: u64| {
                let first = expected.iter().min().copied().filter(|(at, ..)| *at <= limit);
                expected.retain(|entry| Some(*entry) != first);
                let popped = events.pop(Picoseconds(limit));
                let wanted = first.map(|(at, number, wire)| {
                    let next = if wire < 3 { Next::Frame(wire, number.to_le_bytes().to_vec()) } else { Next::Event(number) };
                    (Picoseconds(at), next)
                });
                assert_eq!(popped, wanted);
                first.map(|(at, ..)| at)
            };
            for (number, (wire, later)) in steps.into_iter().enumerate() {
                if wire < 3 {
                    last[wire] = (now + later).max(last[wire]);
                    events.push_frame(Picoseconds(last[wire]), wire, number.to_le_bytes().to_vec());
                    expected.push((last[wire], number, wire));
                } else {
                    events.push(Picoseconds(now + later), number);
                    expected.push((now + later, number, wire));
                }
                if number % every == 0 {
                    now = check(&mut events, &mut expected, now + 2).unwrap_or(now + 2);
                }
            }
            while check(&mut events, &mut expected, u64::MAX).is_some() {}
            prop_assert!(expected.is_empty());
        }
    }
}
