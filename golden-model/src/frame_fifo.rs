//! `frame_fifo`: store and forward. Only whole, good frames that fit come out, in order and unchanged.
//!
//! A frame that finds too little room waits (`tready` low); it is never dropped for want of room that others hold.
//! Theory of operation: `docs/src/blocks/frame_fifo.md`.

use std::collections::VecDeque;

use spraynic_config::NicConfig;

use crate::frame::Frame;

/// Size of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Beats that the memory holds.
    pub depth_beats: usize,
    /// Bytes of a beat.
    pub beat_bytes: usize,
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            depth_beats: config.frame_fifo_beats() as usize,
            beat_bytes: config.beat_bytes() as usize,
        }
    }
}

/// Counters, as the ports `count_…` of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Frames given.
    pub forwarded: u32,
    /// Frames dropped because their last beat said bad.
    pub drop_bad: u32,
    /// Frames dropped because they have more beats than the FIFO, good or bad.
    pub drop_too_long: u32,
}

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Stored; it will come out.
    Stored,
    /// Dropped and counted as bad.
    DropBad,
    /// Dropped and counted as too long.
    DropTooLong,
}

/// The block.
#[derive(Debug, Clone)]
pub struct FrameFifo {
    config: Config,
    frames: VecDeque<Frame>,
    beats: usize,
    counters: Counters,
}

impl FrameFifo {
    /// The block after reset, empty.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            frames: VecDeque::new(),
            beats: 0,
            counters: Counters::default(),
        }
    }

    /// What becomes of a frame, by its own length and mark alone. A frame too long is known as such before its last
    /// beat, so that reason goes first.
    #[must_use]
    pub fn outcome(&self, frame: &Frame) -> Outcome {
        if frame.beats(self.config.beat_bytes) > self.config.depth_beats {
            Outcome::DropTooLong
        } else if frame.bad {
            Outcome::DropBad
        } else {
            Outcome::Stored
        }
    }

    /// Whether the whole frame can be taken without waiting for another to leave.
    #[must_use]
    pub fn has_room(&self, frame: &Frame) -> bool {
        self.outcome(frame) == Outcome::DropTooLong
            || self.beats + frame.beats(self.config.beat_bytes) <= self.config.depth_beats
    }

    /// Takes a frame, once it has its room: the model does not wait, so the caller that cares for time asks
    /// [`FrameFifo::has_room`] first.
    pub fn push(&mut self, frame: Frame) -> Outcome {
        let outcome = self.outcome(&frame);
        match outcome {
            Outcome::Stored => {
                self.beats += frame.beats(self.config.beat_bytes);
                self.frames.push_back(frame);
            }
            Outcome::DropBad => self.counters.drop_bad = self.counters.drop_bad.wrapping_add(1),
            Outcome::DropTooLong => {
                self.counters.drop_too_long = self.counters.drop_too_long.wrapping_add(1);
            }
        }
        outcome
    }

    /// Gives the oldest frame.
    pub fn pop(&mut self) -> Option<Frame> {
        let frame = self.frames.pop_front()?;
        self.beats -= frame.beats(self.config.beat_bytes);
        self.counters.forwarded = self.counters.forwarded.wrapping_add(1);
        Some(frame)
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CONFIG: Config = Config {
        depth_beats: 4,
        beat_bytes: 8,
    };

    fn frame(length: usize, bad: bool) -> Frame {
        Frame {
            bad,
            ..Frame::plain(vec![length as u8; length])
        }
    }

    #[test]
    fn length_is_judged_before_the_mark() {
        let mut fifo = FrameFifo::new(CONFIG);
        for (length, bad, outcome) in [
            (32, false, Outcome::Stored),
            (32, true, Outcome::DropBad),
            (33, false, Outcome::DropTooLong),
            (33, true, Outcome::DropTooLong),
        ] {
            assert_eq!(fifo.push(frame(length, bad)), outcome, "{length} {bad}");
        }
        assert_eq!(fifo.pop(), Some(frame(32, false)));
        assert_eq!(fifo.pop(), None);
        assert_eq!(
            *fifo.counters(),
            Counters {
                forwarded: 1,
                drop_bad: 1,
                drop_too_long: 2
            }
        );
    }

    #[test]
    fn room_is_counted_in_beats() {
        let mut fifo = FrameFifo::new(CONFIG);
        fifo.push(frame(17, false)); // 3 beats
        assert!(fifo.has_room(&frame(8, false)));
        assert!(!fifo.has_room(&frame(9, false)));
        assert!(fifo.has_room(&frame(100, false)), "it is dropped as it comes");
        fifo.pop();
        assert!(fifo.has_room(&frame(32, false)));
    }

    proptest! {
        #[test]
        fn good_frames_that_fit_come_out_in_order(frames in prop::collection::vec((1usize..50, any::<bool>()), 0..50)) {
            let mut fifo = FrameFifo::new(CONFIG);
            let mut expected = Vec::new();
            for &(length, bad) in &frames {
                fifo.push(frame(length, bad));
                if !bad && length <= 32 {
                    expected.push(frame(length, false));
                }
            }
            let given: Vec<_> = std::iter::from_fn(|| fifo.pop()).collect();
            let counters = fifo.counters();
            prop_assert_eq!(counters.forwarded as usize, given.len());
            prop_assert_eq!(
                (counters.forwarded + counters.drop_bad + counters.drop_too_long) as usize,
                frames.len()
            );
            prop_assert_eq!(given, expected);
        }
    }
}
