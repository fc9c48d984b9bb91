//! `payload_router`: leads each payload packet to one of two ports, or discards it, as decided for it elsewhere.
//!
//! It decides nothing, changes no byte, and keeps packets and decisions in their order: the first decision is that of the first packet.
//! Theory of operation: `docs/src/blocks/payload_router.md`.

use std::collections::VecDeque;

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Decision {
    /// It leaves on `m_axis_0`.
    Port0 = 0,
    /// It leaves on `m_axis_1`.
    Port1 = 1,
    /// It is taken and forgotten.
    Discard = 2,
}

impl Decision {
    /// The decision with this code, 2 bits; the code that stands for none discards, so that nothing can hang.
    #[must_use]
    pub fn from_code(code: u8) -> Self {
        match code & 3 {
            0 => Self::Port0,
            1 => Self::Port1,
            _ => Self::Discard,
        }
    }
}

/// The block, over anything that stands for a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadRouter<T> {
    decisions: VecDeque<Decision>,
    packets: VecDeque<T>,
}

impl<T> Default for PayloadRouter<T> {
    fn default() -> Self {
        Self {
            decisions: VecDeque::new(),
            packets: VecDeque::new(),
        }
    }
}

impl<T> PayloadRouter<T> {
    /// Takes the decision of the next packet that has none.
    pub fn decide(&mut self, decision: Decision) {
        self.decisions.push_back(decision);
    }

    /// Takes a packet.
    pub fn push(&mut self, packet: T) {
        self.packets.push_back(packet);
    }

    /// The oldest packet with its decision; `None` while one of both is missing.
    pub fn pop(&mut self) -> Option<(Decision, T)> {
        if self.decisions.is_empty() || self.packets.is_empty() {
            return None;
        }
        self.decisions.pop_front().zip(self.packets.pop_front())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_packet_waits_for_its_decision_and_a_decision_for_its_packet() {
        let mut router = PayloadRouter::default();
        router.push('a');
        assert_eq!(router.pop(), None);
        router.decide(Decision::Port1);
        router.decide(Decision::Discard);
        assert_eq!(router.pop(), Some((Decision::Port1, 'a')));
        assert_eq!(router.pop(), None);
        router.push('b');
        router.push('c');
        assert_eq!(router.pop(), Some((Decision::Discard, 'b')));
        assert_eq!(router.pop(), None);
    }

    #[test]
    fn every_code_is_a_decision() {
        use Decision::*;
        assert_eq!([0, 1, 2, 3].map(Decision::from_code), [Port0, Port1, Discard, Discard]);
    }

    proptest! {
        /// In whatever order packets and decisions come, the first goes with the first.
        #[test]
        fn packets_meet_their_decisions_in_order(codes in prop::collection::vec(0u8..4, 0..40), order in any::<u64>()) {
            let mut router = PayloadRouter::default();
            let (mut decided, mut pushed, mut out) = (codes.iter(), 0..codes.len(), vec![]);
            for step in 0..codes.len() * 64 {
                if order >> (step % 64) & 1 == 1 {
                    decided.next().into_iter().for_each(|code| router.decide(Decision::from_code(*code)));
                } else {
                    pushed.next().into_iter().for_each(|packet| router.push(packet));
                }
                out.extend(router.pop());
            }
            decided.for_each(|code| router.decide(Decision::from_code(*code)));
            pushed.for_each(|packet| router.push(packet));
            out.extend(std::iter::from_fn(|| router.pop()));
            let expected: Vec<_> = codes.iter().map(|code| Decision::from_code(*code)).zip(0..).collect();
            prop_assert_eq!(out, expected);
        }
    }
}
