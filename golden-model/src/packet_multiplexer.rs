//! `packet_multiplexer`: several streams of frames become one; it switches at frame boundaries only, round robin.
//!
//! It never cuts, mixes or changes a frame. When a frame of an input arrives is a matter of time, so the model has two
//! ways: [`PacketMultiplexer::next`] for inputs whose frames all wait, and [`PacketMultiplexer::take`], which follows
//! the recorded grants of the RTL and says whether each was legal.
//! Theory of operation: `docs/src/blocks/packet_multiplexer.md`.

use std::collections::VecDeque;

use bitvec::prelude::*;
use thiserror::Error;

use crate::frame::Frame;
use crate::round_robin_arbiter::RoundRobinArbiter;

/// Frames of one other input that may pass a waiting one: the one already under way, and its turn.
const MAX_OVERTAKEN: u32 = 2;

/// A grant that the block must not make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum IllegalGrant {
    /// The input has no frame.
    #[error("input {input} was granted but offers no frame")]
    Empty {
        /// Input that was granted.
        input: usize,
    },
    /// Another input had to be served before.
    #[error("input {input} was granted {MAX_OVERTAKEN} times already while input {waiting} waits")]
    Unfair {
        /// Input that was granted.
        input: usize,
        /// Input whose turn it was.
        waiting: usize,
    },
}

/// Frames of one input, and how often each other input was served since its oldest one waits.
#[derive(Debug, Clone, Default)]
struct Input {
    frames: VecDeque<Frame>,
    overtaken_by: Vec<u32>,
}

/// The block.
#[derive(Debug, Clone)]
pub struct PacketMultiplexer {
    arbiter: RoundRobinArbiter,
    inputs: Vec<Input>,
}

impl PacketMultiplexer {
    /// The block after reset.
    #[must_use]
    pub fn new(inputs: usize) -> Self {
        let input = Input {
            frames: VecDeque::new(),
            overtaken_by: vec![0; inputs],
        };
        Self {
            arbiter: RoundRobinArbiter::new(inputs),
            inputs: vec![input; inputs],
        }
    }

    /// A frame is offered: the `tvalid` of its first beat is up.
    ///
    /// # Panics
    /// When there is no such input.
    pub fn offer(&mut self, input: usize, frame: Frame) {
        let input = &mut self.inputs[input];
        if input.frames.is_empty() {
            input.overtaken_by.fill(0);
        }
        input.frames.push_back(frame);
    }

    /// Frames that an input still offers.
    #[must_use]
    pub fn waiting(&self, input: usize) -> usize {
        self.inputs.get(input).map_or(0, |input| input.frames.len())
    }

    /// The next frame and its input, where all frames offered are there in time: exact round robin.
    #[allow(clippy::should_implement_trait)] // not an iterator: frames may be offered in between
    pub fn next(&mut self) -> Option<(usize, Frame)> {
        let requests: BitVec = self.inputs.iter().map(|input| !input.frames.is_empty()).collect();
        let granted = self.arbiter.grant(&requests)?;
        self.remove(granted).map(|frame| (granted, frame))
    }

    /// Follows the RTL, which has granted `input`.
    ///
    /// # Errors
    /// [`IllegalGrant`]: the input offers nothing, or it was another's turn. Nothing is taken then.
    pub fn take(&mut self, input: usize) -> Result<Frame, IllegalGrant> {
        if self.waiting(input) == 0 {
            return Err(IllegalGrant::Empty { input });
        }
        let unfair = |waiting: &usize| {
            let other = &self.inputs[*waiting];
            *waiting != input && !other.frames.is_empty() && other.overtaken_by[input] >= MAX_OVERTAKEN
        };
        if let Some(waiting) = (0..self.inputs.len()).find(unfair) {
            return Err(IllegalGrant::Unfair { input, waiting });
        }
        self.remove(input).ok_or(IllegalGrant::Empty { input })
    }

    fn remove(&mut self, granted: usize) -> Option<Frame> {
        let frame = self.inputs[granted].frames.pop_front()?;
        self.inputs[granted].overtaken_by.fill(0);
        for (index, input) in self.inputs.iter_mut().enumerate() {
            if index != granted && !input.frames.is_empty() {
                input.overtaken_by[granted] += 1;
            }
        }
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(input: usize, index: usize) -> Frame {
        Frame::plain(vec![input as u8, index as u8])
    }

    fn full(counts: &[usize]) -> PacketMultiplexer {
        let mut multiplexer = PacketMultiplexer::new(counts.len());
        for (input, &count) in counts.iter().enumerate() {
            (0..count).for_each(|index| multiplexer.offer(input, frame(input, index)));
        }
        multiplexer
    }

    #[test]
    fn waiting_inputs_take_turns() {
        let mut multiplexer = full(&[3, 1, 2]);
        let order: Vec<usize> = std::iter::from_fn(|| multiplexer.next())
            .map(|(input, _)| input)
            .collect();
        assert_eq!(order, [0, 1, 2, 0, 2, 0]);
    }

    #[test]
    fn a_grant_without_a_frame_is_illegal() {
        let mut multiplexer = full(&[1, 0]);
        assert_eq!(multiplexer.take(1), Err(IllegalGrant::Empty { input: 1 }));
        assert_eq!(multiplexer.take(7), Err(IllegalGrant::Empty { input: 7 }));
        assert_eq!(multiplexer.take(0), Ok(frame(0, 0)));
        assert_eq!(multiplexer.take(0), Err(IllegalGrant::Empty { input: 0 }));
    }

    #[test]
    fn starving_an_input_is_illegal() {
        let mut multiplexer = full(&[5, 1]);
        assert!(multiplexer.take(0).is_ok() && multiplexer.take(0).is_ok());
        assert_eq!(multiplexer.take(0), Err(IllegalGrant::Unfair { input: 0, waiting: 1 }));
        assert_eq!(multiplexer.take(1), Ok(frame(1, 0)));
        assert!(multiplexer.take(0).is_ok());
    }

    #[test]
    fn an_input_that_was_empty_starts_to_wait_anew() {
        let mut multiplexer = full(&[6, 0]);
        assert!(multiplexer.take(0).is_ok() && multiplexer.take(0).is_ok() && multiplexer.take(0).is_ok());
        multiplexer.offer(1, frame(1, 0));
        assert!(multiplexer.take(0).is_ok() && multiplexer.take(0).is_ok());
        assert!(multiplexer.take(0).is_err());
    }

    proptest! {
        #[test]
        fn exact_round_robin_is_legal_and_keeps_the_order_of_each_input(
            counts in prop::collection::vec(0usize..12, 1..6),
        ) {
            let (mut model, mut follower) = (full(&counts), full(&counts));
            let mut next_index = vec![0; counts.len()];
            while let Some((input, given)) = model.next() {
                prop_assert_eq!(&given, &frame(input, next_index[input]));
                next_index[input] += 1;
                prop_assert_eq!(follower.take(input), Ok(given));
            }
            prop_assert_eq!(next_index, counts);
        }
    }
}
