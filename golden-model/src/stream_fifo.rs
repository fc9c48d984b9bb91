//! `stream_fifo`: a queue of beats or descriptors. What goes in comes out, unchanged and in order.
//!
//! It never drops: a full FIFO withholds `tready`.
//! Theory of operation: `docs/src/blocks/stream_fifo.md`.

use std::collections::VecDeque;

use thiserror::Error;

/// A beat was offered to a full FIFO: the RTL has `tready` low then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the FIFO holds {capacity} of {capacity} entries")]
pub struct Full {
    /// Entries that fit.
    pub capacity: usize,
}

/// The block, over anything that can wait in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamFifo<T> {
    entries: VecDeque<T>,
    capacity: usize,
}

impl<T> StreamFifo<T> {
    /// An empty FIFO for `capacity` entries.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            capacity,
        }
    }

    /// Takes an entry.
    ///
    /// # Errors
    /// [`Full`]; the entry is not taken.
    pub fn push(&mut self, entry: T) -> Result<(), Full> {
        if self.entries.len() == self.capacity {
            return Err(Full {
                capacity: self.capacity,
            });
        }
        self.entries.push_back(entry);
        Ok(())
    }

    /// Gives the oldest entry.
    pub fn pop(&mut self) -> Option<T> {
        self.entries.pop_front()
    }

    /// Entries inside: the port `count`.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn order_is_kept_and_nothing_is_lost(
            capacity in 1usize..20, steps in prop::collection::vec(any::<bool>(), 0..200),
        ) {
            let mut fifo = StreamFifo::new(capacity);
            let (mut pushed, mut popped) = (0u32, 0u32);
            for push in steps {
                let inside = (pushed - popped) as usize;
                prop_assert_eq!(fifo.count(), inside);
                if push {
                    let taken = fifo.push(pushed);
                    prop_assert_eq!(taken.is_ok(), inside < capacity);
                    pushed += u32::from(taken.is_ok());
                } else {
                    prop_assert_eq!(fifo.pop(), (inside > 0).then_some(popped));
                    popped += u32::from(inside > 0);
                }
            }
        }
    }
}
