//! `port_multiplexer`: each frame goes into the queue of its port and leaves there whole, unless the link of the port is down.
//!
//! It never changes a frame, and the frames of a port keep their order. When the link of a port goes down or up is a matter of time, so the
//! model is told what the ports are like when a frame comes and when one leaves. Theory of operation: `docs/src/blocks/port_multiplexer.md`.

use spraynic_config::NicConfig;

use crate::counter::count;
use crate::frame::Frame;
use crate::frame_fifo::{self, FrameFifo};

/// Size of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Ports, 1 to 8.
    pub ports: usize,
    /// The queue of a port.
    pub fifo: frame_fifo::Config,
    /// Beats of the longest frame.
    pub longest_frame_beats: usize,
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            ports: config.paths.ports as usize,
            fifo: frame_fifo::Config::from(config),
            longest_frame_beats: config.max_frame_bytes().div_ceil(config.beat_bytes()) as usize,
        }
    }
}

/// Counters, as the ports `count_…` of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Frames given, by all ports together.
    pub forwarded: u32,
    /// Frames dropped when they came, because the link of their port was down or there is no such port.
    pub drop_down: u32,
    /// Frames dropped when their turn to leave came, because the link had gone down.
    pub drop_stored: u32,
    /// Frames dropped because their last beat said bad.
    pub drop_bad: u32,
    /// Frames dropped because they have more beats than a queue.
    pub drop_too_long: u32,
}

/// What became of a frame that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It waits for its turn.
    Stored,
    /// It was dropped: the link is down, or there is no such port.
    DropDown,
    /// It was dropped as bad.
    DropBad,
    /// It was dropped as too long.
    DropTooLong,
}

/// A port when a frame may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// The link is up.
    pub up: bool,
    /// No frame may begin.
    pub paused: bool,
}

/// What became of the frame whose turn it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// It leaves.
    Given(Frame),
    /// It was dropped: the link is down.
    Dropped,
    /// There is none, or the port is paused.
    Nothing,
}

/// The block.
#[derive(Debug, Clone)]
pub struct PortMultiplexer {
    config: Config,
    queues: Vec<FrameFifo>,
    beats: Vec<usize>,
    counters: Counters,
}

impl PortMultiplexer {
    /// The block after reset, empty.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            queues: vec![FrameFifo::new(config.fifo); config.ports],
            beats: vec![0; config.ports],
            counters: Counters::default(),
        }
    }

    /// A frame comes for a port; `up` says whether its link is, when the first beat comes. The model does not wait for room: who cares asks
    /// [`PortMultiplexer::has_room`] first.
    pub fn push(&mut self, port: u8, frame: Frame, up: bool) -> Outcome {
        let port = usize::from(port);
        let Some(queue) = self.queues.get_mut(port).filter(|_| up) else {
            count(&mut self.counters.drop_down);
            return Outcome::DropDown;
        };
        let beats = frame.beats(self.config.fifo.beat_bytes);
        match queue.push(frame) {
            frame_fifo::Outcome::Stored => {
                self.beats[port] += beats;
                Outcome::Stored
            }
            frame_fifo::Outcome::DropBad => {
                count(&mut self.counters.drop_bad);
                Outcome::DropBad
            }
            frame_fifo::Outcome::DropTooLong => {
                count(&mut self.counters.drop_too_long);
                Outcome::DropTooLong
            }
        }
    }

    /// The turn of the next frame of a port.
    pub fn take(&mut self, port: u8, state: Port) -> Turn {
        let index = usize::from(port);
        if state.up && state.paused {
            return Turn::Nothing;
        }
        let Some(frame) = self.queues.get_mut(index).and_then(FrameFifo::pop) else {
            return Turn::Nothing;
        };
        self.beats[index] -= frame.beats(self.config.fifo.beat_bytes);
        if state.up {
            count(&mut self.counters.forwarded);
            Turn::Given(frame)
        } else {
            count(&mut self.counters.drop_stored);
            Turn::Dropped
        }
    }

    /// Ports with room, a bit each: for the longest frame beside another one that is coming in.
    #[must_use]
    pub fn room(&self) -> u8 {
        let two_frames = 2 * self.config.longest_frame_beats;
        let has_room = |beats: &usize| *beats <= self.config.fifo.depth_beats.saturating_sub(two_frames);
        let ports = self.beats.iter().enumerate();
        ports.fold(0, |room, (port, beats)| room | u8::from(has_room(beats)) << port)
    }

    /// Whether a whole frame can be taken for a port without waiting for another one to leave.
    #[must_use]
    pub fn has_room(&self, port: u8, frame: &Frame) -> bool {
        self.queues
            .get(usize::from(port))
            .is_none_or(|queue| queue.has_room(frame))
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: Port = Port {
        up: true,
        paused: false,
    };

    fn multiplexer() -> PortMultiplexer {
        PortMultiplexer::new(Config {
            ports: 2,
            fifo: frame_fifo::Config {
                depth_beats: 10,
                beat_bytes: 8,
            },
            longest_frame_beats: 4,
        })
    }

    fn frame(number: u8, length: usize) -> Frame {
        Frame::plain(vec![number; length])
    }

    #[test]
    fn ports_keep_their_frames_in_order_and_apart() {
        let mut multiplexer = multiplexer();
        for (port, number) in [(0, 1), (1, 2), (1, 3), (0, 4)] {
            assert_eq!(multiplexer.push(port, frame(number, 9), true), Outcome::Stored);
        }
        let mut numbers = |port| {
            let turns = std::iter::repeat_with(|| multiplexer.take(port, UP));
            let given = turns.map_while(|turn| match turn {
                Turn::Given(frame) => Some(frame.bytes[0]),
                _ => None,
            });
            given.collect::<Vec<_>>()
        };
        assert_eq!((numbers(1), numbers(0), numbers(2)), (vec![2, 3], vec![1, 4], vec![]));
        assert_eq!(multiplexer.counters().forwarded, 4);
    }

    #[test]
    fn a_port_that_is_down_drops_what_comes_and_what_waits() {
        let mut multiplexer = multiplexer();
        multiplexer.push(1, frame(1, 8), true);
        assert_eq!(multiplexer.push(1, frame(2, 8), false), Outcome::DropDown);
        assert_eq!(multiplexer.push(2, frame(3, 8), true), Outcome::DropDown);
        let down = Port { up: false, ..UP };
        assert_eq!(multiplexer.take(1, down), Turn::Dropped);
        assert_eq!(multiplexer.take(1, down), Turn::Nothing);
        let counters = multiplexer.counters();
        assert_eq!(
            (counters.forwarded, counters.drop_down, counters.drop_stored),
            (0, 2, 1)
        );
    }

    #[test]
    fn a_paused_port_holds_its_frames_unless_it_is_down() {
        let mut multiplexer = multiplexer();
        multiplexer.push(0, frame(1, 8), true);
        let paused = Port { paused: true, ..UP };
        assert_eq!(multiplexer.take(0, paused), Turn::Nothing);
        assert_eq!(multiplexer.take(0, Port { up: false, ..paused }), Turn::Dropped);
    }

    #[test]
    fn room_is_for_the_longest_frame_beside_one_that_comes() {
        let mut multiplexer = multiplexer();
        assert_eq!(multiplexer.room(), 3);
        multiplexer.push(0, frame(1, 16), true);
        assert_eq!(multiplexer.room(), 3, "8 beats are free");
        multiplexer.push(0, frame(1, 1), true);
        assert_eq!(multiplexer.room(), 2, "7 beats are free");
        multiplexer.take(0, UP);
        assert_eq!(multiplexer.room(), 3);
    }
}
