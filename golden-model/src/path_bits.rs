//! `PathBits`: one bit for each path of a plane, up to 256, in words of 64.
//!
//! `path_monitor` and `spray_scheduler` keep their sets in it; whatever they ask costs a few words, never a loop over paths.

/// Bits of a word.
const WORD: usize = 64;

/// A set of paths of one plane (a port of a set), by their index in the plane: 0 to 255.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PathBits([u64; 4]);

impl PathBits {
    pub(crate) fn get(&self, index: usize) -> bool {
        self.0[index / WORD] >> (index % WORD) & 1 == 1
    }

    pub(crate) fn set(&mut self, index: usize, value: bool) {
        let bit = 1 << (index % WORD);
        if value {
            self.0[index / WORD] |= bit;
        } else {
            self.0[index / WORD] &= !bit;
        }
    }

    pub(crate) fn any(&self) -> bool {
        self.0.iter().any(|word| *word != 0)
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The lowest one.
    pub(crate) fn first(&self) -> Option<usize> {
        let word = self.0.iter().position(|word| *word != 0)?;
        Some(WORD * word + self.0[word].trailing_zeros() as usize)
    }

    /// The one before which there are `rank` others.
    pub(crate) fn nth(&self, mut rank: u32) -> Option<usize> {
        for (place, word) in self.0.iter().enumerate() {
            let ones = word.count_ones();
            if rank < ones {
                let mut left = *word;
                (0..rank).for_each(|_| left &= left - 1);
                return Some(WORD * place + left.trailing_zeros() as usize);
            }
            rank -= ones;
        }
        None
    }

    /// Those of `self` that are not in `other`.
    pub(crate) fn without(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// Those of either.
    pub(crate) fn or(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn answers_are_those_of_a_sorted_list(members in prop::collection::btree_set(0usize..256, 0..256), rank in 0u32..256) {
            let mut bits = PathBits::default();
            (0..256).for_each(|index| bits.set(index, true));
            (0..256).filter(|index| !members.contains(index)).for_each(|index| bits.set(index, false));
            let list: Vec<usize> = members.iter().copied().collect();
            prop_assert_eq!(bits.count() as usize, list.len());
            prop_assert_eq!(bits.any(), !list.is_empty());
            prop_assert_eq!(bits.first(), list.first().copied());
            prop_assert_eq!(bits.nth(rank), list.get(rank as usize).copied());
            prop_assert!((0..256).all(|index| bits.get(index) == members.contains(&index)));
        }
    }
}
