//! What the tests of queues that ask for tokens share: frames that come at their clock, what a block took and gave in the order of time, chance,
//! and the window of a peer.
#![allow(dead_code, reason = "each test program uses a part")]

use std::collections::BTreeSet;

use spraynic_config::descriptor::Descriptor;
use spraynic_cosim::{Agent, Bench, Frame, Limits, Outcome, Simulation, Stimulus};

/// A descriptor that comes not before a clock.
pub(crate) fn at<D: Descriptor>(cycle: u64, descriptor: &D) -> Frame {
    let mut frame = Frame::new(descriptor.pack());
    frame.not_before = cycle;
    frame
}

/// Descriptors that come so many clocks behind each other.
pub(crate) fn waited<D: Descriptor>(steps: &[(D, u64)]) -> Vec<Frame> {
    let mut cycle = 0;
    let frames = steps.iter().map(|(step, wait)| {
        cycle += wait;
        at(cycle, step)
    });
    frames.collect()
}

/// Runs a block to its end.
pub(crate) fn run(simulation: &mut Simulation, stimulus: &Stimulus, limits: Limits, agent: &mut impl Agent) -> Outcome {
    let mut bench = Bench::new(simulation, stimulus, limits).unwrap_or_else(|error| panic!("{error}"));
    bench.run(agent).unwrap_or_else(|error| panic!("{error}"))
}

/// A port, and the event that the word of a number at it is.
pub(crate) type EventSource<E> = (&'static str, fn(usize) -> E);

/// What came in by the ports of `taken` and went out by those of `given`, in the order of time; in the same clock in the order of the ports.
pub(crate) fn events<E>(outcome: &Outcome, taken: &[EventSource<E>], given: &[EventSource<E>]) -> Vec<(u64, E)> {
    let mut events: Vec<(u64, E)> = vec![];
    for (stream, event) in taken {
        let cycles = outcome.accepted(stream).iter().map(|timing| timing.last_cycle);
        events.extend(cycles.zip((0..).map(event)));
    }
    for (stream, event) in given {
        let cycles = outcome.received(stream).iter().map(|frame| frame.last_cycle);
        events.extend(cycles.zip((0..).map(event)));
    }
    events.sort_by_key(|(cycle, _)| *cycle);
    events
}

/// Chance that follows from a seed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// True so many times of 256.
    pub(crate) fn of_256(&mut self, chance: u64) -> bool {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 24 & 0xff < chance
    }

    /// Some bits of the last draw that did not decide it.
    pub(crate) fn bits(&self, low: u32, count: u32) -> u64 {
        self.0 >> low & ((1 << count) - 1)
    }
}

/// All bits of a PSN.
pub(crate) const PSN_MASK: u32 = 0xff_ffff;

/// The PSN so far behind `base`.
pub(crate) fn psn_at(base: u32, offset: u32) -> u32 {
    base.wrapping_add(offset) & PSN_MASK
}

/// What a peer has of a queue pair's packets.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// The oldest PSN that was not received, and the next one to be sent.
    pub(crate) base: u32,
    pub(crate) next: u32,
    received: BTreeSet<u32>,
}

impl Window {
    /// Nothing has been sent before `psn`.
    pub(crate) fn new(psn: u32) -> Self {
        Self {
            base: psn,
            next: psn,
            received: BTreeSet::new(),
        }
    }

    /// A packet has come.
    pub(crate) fn receive(&mut self, psn: u32) {
        self.received.insert(psn);
        while self.received.remove(&self.base) {
            self.base = psn_at(self.base, 1);
        }
    }
}
