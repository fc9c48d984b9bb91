//! `round_robin_arbiter`: one of several requesters, the next one after the last that was granted.
//!
//! It never grants who did not ask and never withholds a grant while someone asks.
//! Theory of operation: `docs/src/blocks/round_robin_arbiter.md`.

use bitvec::prelude::*;

/// The block: who was granted last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundRobinArbiter {
    requesters: usize,
    /// First requester that is looked at.
    first: usize,
}

impl RoundRobinArbiter {
    /// The block after reset: requester 0 is looked at first.
    #[must_use]
    pub fn new(requesters: usize) -> Self {
        Self { requesters, first: 0 }
    }

    /// Who would be granted: the first set bit from the one after the last grant upwards, then from bit 0. Bits
    /// beyond the number of requesters are not looked at.
    #[must_use]
    pub fn peek(&self, requests: &BitSlice) -> Option<usize> {
        let requests = &requests[..self.requesters.min(requests.len())];
        let first = self.first.min(requests.len());
        requests[first..]
            .first_one()
            .map(|offset| first + offset)
            .or_else(|| requests[..first].first_one())
    }

    /// Grants, and remembers whom, as the RTL does in a clock in which its grant is taken.
    pub fn grant(&mut self, requests: &BitSlice) -> Option<usize> {
        let granted = self.peek(requests)?;
        self.first = (granted + 1) % self.requesters;
        Some(granted)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grants(requesters: usize, requests: &[u64]) -> Vec<Option<usize>> {
        let mut arbiter = RoundRobinArbiter::new(requesters);
        requests
            .iter()
            .map(|bits| arbiter.grant(&bits.view_bits::<Lsb0>().iter().by_vals().collect::<BitVec>()))
            .collect()
    }

    #[test]
    fn the_next_after_the_last_granted_comes_first() {
        let all = 0b1111;
        assert_eq!(
            grants(4, &[all, all, all, all, all]),
            [Some(0), Some(1), Some(2), Some(3), Some(0)]
        );
        // 2 was last; 0 and 2 ask: 0 by wrapping. Nobody asks: the order is kept.
        assert_eq!(
            grants(4, &[0b0100, 0b0101, 0, 0b0011, 0b0001]),
            [Some(2), Some(0), None, Some(1), Some(0)]
        );
    }

    #[test]
    fn bits_beyond_the_requesters_are_not_seen() {
        assert_eq!(grants(3, &[0b1000, 0b1001]), [None, Some(0)]);
        assert_eq!(grants(1, &[1, 1, 0]), [Some(0), Some(0), None]);
    }

    proptest! {
        #[test]
        fn who_keeps_asking_waits_for_each_other_once(
            requesters in 1usize..=65, patient in any::<prop::sample::Index>(),
            others in prop::collection::vec(any::<u128>(), 1..200),
        ) {
            let patient = patient.index(requesters);
            let mut arbiter = RoundRobinArbiter::new(requesters);
            let mut passed = bitvec![0; requesters];
            for bits in others {
                let mut requests: BitVec = bits.to_le_bytes().view_bits::<Lsb0>().iter().by_vals().collect();
                requests.set(patient, true);
                let granted = arbiter.grant(&requests).unwrap();
                prop_assert!(granted < requesters && requests[granted]);
                if granted == patient {
                    passed.fill(false);
                } else {
                    prop_assert!(!passed.replace(granted, true), "{granted} was granted twice");
                }
            }
        }
    }
}
