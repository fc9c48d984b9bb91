//! When a driver offers or takes a beat: patterns of gaps and back-pressure that a test chooses and a trace keeps.
//!
//! A source asks its pattern once for each clock in which it has a beat that it does not offer yet; a sink asks once a
//! clock. No pattern blocks for ever.

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

/// A rule that says in which clocks a driver is willing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Pattern {
    /// In every clock.
    #[default]
    Always,
    /// Not in the first `clocks` clocks, then always.
    After {
        /// Clocks of refusal.
        clocks: u32,
    },
    /// `on` willing clocks, then `off` others, and again.
    Bursts {
        /// Willing clocks, at least 1.
        on: u32,
        /// Other clocks.
        off: u32,
    },
    /// Each clock by chance.
    Random {
        /// Willing clocks of 256, at least 1.
        chance: u16,
        /// Start of the random numbers.
        seed: u64,
    },
    /// As listed, and again from the start. One clock at least must be willing.
    List(Vec<bool>),
    /// Sinks only: `ready` comes only after `valid` has waited for `clocks` clocks, for each beat anew. A stream whose
    /// `valid` waits for `ready` stands still under it. For a source the same as `After`.
    AfterValid {
        /// Clocks that a beat waits, at least 1.
        clocks: u32,
    },
}

impl Pattern {
    /// What is wrong with a pattern that would block for ever, if anything.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match self {
            Self::Bursts { on: 0, .. } => Err("Bursts needs at least 1 willing clock (`on`)"),
            Self::Random { chance: 0, .. } => Err("Random needs a chance of at least 1 in 256"),
            Self::List(list) if !list.contains(&true) => Err("List needs at least one willing clock"),
            _ => Ok(()),
        }
    }

    /// Patterns of every kind. Shrinks to [`Pattern::Always`].
    pub fn strategy() -> impl Strategy<Value = Self> + Clone {
        prop_oneof![
            3 => Just(Self::Always),
            1 => (1..40u32).prop_map(|clocks| Self::After { clocks }),
            2 => (1..9u32, 1..9u32).prop_map(|(on, off)| Self::Bursts { on, off }),
            4 => (1..=255u16, any::<u64>()).prop_map(|(chance, seed)| Self::Random { chance: chance.max(12), seed }),
            2 => prop::collection::vec(any::<bool>(), 1..12).prop_map(|mut list| {
                list.push(true);
                Self::List(list)
            }),
            1 => (1..5u32).prop_map(|clocks| Self::AfterValid { clocks }),
        ]
    }
}

/// A pattern at work.
#[derive(Debug, Clone)]
pub(crate) struct PatternState {
    pattern: Pattern,
    position: u64,
    random: Random,
}

impl PatternState {
    pub(crate) fn new(pattern: Pattern) -> Self {
        let seed = if let Pattern::Random { seed, .. } = pattern {
            seed
        } else {
            0
        };
        Self {
            pattern,
            position: 0,
            random: Random::new(seed),
        }
    }

    /// Whether the driver is willing in this clock. `waited`: clocks that the other side's beat has waited so far.
    #[inline]
    pub(crate) fn next(&mut self, waited: u64) -> bool {
        let position = self.position;
        self.position += 1;
        match &self.pattern {
            Pattern::Always => true,
            Pattern::After { clocks } => position >= u64::from(*clocks),
            Pattern::Bursts { on, off } => position % (u64::from(*on) + u64::from(*off)) < u64::from(*on),
            Pattern::Random { chance, .. } => (self.random.next() & 0xff) < u64::from(*chance),
            Pattern::List(list) => list[(position % list.len() as u64) as usize],
            Pattern::AfterValid { clocks } => waited >= u64::from((*clocks).max(1)),
        }
    }

    /// For a source, which has no other side's `valid` to wait for.
    #[inline]
    pub(crate) fn next_offer(&mut self) -> bool {
        if let Pattern::AfterValid { clocks } = self.pattern {
            self.position += 1;
            return self.position > u64::from(clocks);
        }
        self.next(0)
    }

    /// Whether this pattern waits for `valid`.
    pub(crate) fn waits_for_valid(&self) -> bool {
        matches!(self.pattern, Pattern::AfterValid { .. })
    }
}

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): small, fast, the same on every machine.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(pattern: Pattern, count: usize) -> String {
        let mut state = PatternState::new(pattern);
        (0..count).map(|_| if state.next(0) { '1' } else { '0' }).collect()
    }

    #[test]
    fn patterns_do_what_they_say() {
        assert_eq!(take(Pattern::Always, 4), "1111");
        assert_eq!(take(Pattern::After { clocks: 3 }, 6), "000111");
        assert_eq!(take(Pattern::Bursts { on: 2, off: 3 }, 11), "11000110001");
        assert_eq!(take(Pattern::List(vec![false, true, true]), 7), "0110110");
        let random = Pattern::Random { chance: 64, seed: 7 };
        let taken = take(random.clone(), 4000);
        assert_eq!(taken, take(random, 4000));
        let willing = taken.matches('1').count();
        assert!((800..1200).contains(&willing), "a quarter of 4000, not {willing}");
        let mut state = PatternState::new(Pattern::AfterValid { clocks: 2 });
        assert_eq!(
            [0, 1, 2, 0].map(|waited| state.next(waited)),
            [false, false, true, false]
        );
    }

    #[test]
    fn patterns_that_block_for_ever_are_refused() {
        for pattern in [
            Pattern::Bursts { on: 0, off: 1 },
            Pattern::Random { chance: 0, seed: 1 },
            Pattern::List(vec![]),
            Pattern::List(vec![false, false]),
        ] {
            assert!(pattern.check().is_err(), "{pattern:?}");
        }
    }

    proptest! {
        #[test]
        fn chosen_patterns_never_block(pattern in Pattern::strategy()) {
            prop_assert_eq!(pattern.check(), Ok(()));
            let mut state = PatternState::new(pattern);
            let willing = (0..4000u64).filter(|clock| state.next(*clock)).count();
            prop_assert!(willing > 100);
        }
    }
}
