//! The streams of a NIC, directly on the ports of its model: descriptors in and out, and the frames of a MAC.
//!
//! A clock of each has two halves: `drive` sets inputs from what was known before, `observe` looks at what was transferred. Nothing here waits for
//! an output of the same clock, so a clock is one step of the model.

use std::collections::VecDeque;

use crate::simulation::{Input, Output, Simulation, SimulationError};

/// Descriptors into the model, one a beat.
#[derive(Debug)]
pub(super) struct DescriptorSource {
    data: Input,
    valid: Input,
    ready: Output,
    queue: VecDeque<Vec<u8>>,
    offering: bool,
}

impl DescriptorSource {
    pub(super) fn new(simulation: &Simulation, name: &str) -> Result<Self, SimulationError> {
        Ok(Self {
            data: simulation.input(&format!("{name}_tdata"))?,
            valid: simulation.input(&format!("{name}_tvalid"))?,
            ready: simulation.output(&format!("{name}_tready"))?,
            queue: VecDeque::new(),
            offering: false,
        })
    }

    pub(super) fn push(&mut self, descriptor: Vec<u8>) {
        self.queue.push_back(descriptor);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn drive(&mut self, simulation: &mut Simulation) {
        if self.offering {
            return;
        }
        match self.queue.front() {
            Some(descriptor) => {
                simulation.set_bytes(self.data, descriptor);
                simulation.set(self.valid, 1);
                self.offering = true;
            }
            None => simulation.set(self.valid, 0),
        }
    }

    /// True: something was transferred.
    pub(super) fn observe(&mut self, simulation: &Simulation) -> bool {
        let taken = self.offering && simulation.get(self.ready) == 1;
        if taken {
            self.queue.pop_front();
            self.offering = false;
        }
        taken
    }
}

/// Descriptors out of the model, taken as they come.
#[derive(Debug)]
pub(super) struct DescriptorSink {
    data: Output,
    valid: Output,
}

impl DescriptorSink {
    pub(super) fn new(simulation: &mut Simulation, name: &str) -> Result<Self, SimulationError> {
        // A stream that only tells may have no tready.
        if let Ok(ready) = simulation.input(&format!("{name}_tready")) {
            simulation.set(ready, 1);
        }
        Ok(Self {
            data: simulation.output(&format!("{name}_tdata"))?,
            valid: simulation.output(&format!("{name}_tvalid"))?,
        })
    }

    /// The descriptor of this clock, if there is one.
    pub(super) fn observe<'s>(&self, simulation: &'s Simulation) -> Option<&'s [u8]> {
        (simulation.get(self.valid) == 1).then(|| simulation.bytes(self.data))
    }
}

/// Frames into the model: a beat a clock as long as there are any and the model takes them.
#[derive(Debug)]
pub(super) struct FrameSource {
    data: Input,
    keep: Input,
    last: Input,
    user: Input,
    valid: Input,
    ready: Output,
    beat_bytes: usize,
    queue: VecDeque<Vec<u8>>,
    /// Of each frame: it is bad.
    bad: VecDeque<bool>,
    /// Bytes of the first frame that the model has taken, or that are offered.
    at: usize,
    offering: bool,
    /// Frames that the model has taken.
    pub(super) taken: u64,
    /// Bytes that wait, now and at most.
    waiting: usize,
    deepest: usize,
}

impl FrameSource {
    pub(super) fn new(simulation: &Simulation, name: &str) -> Result<Self, SimulationError> {
        let port = |suffix: &str| simulation.input(&format!("{name}_{suffix}"));
        let data = port("tdata")?;
        Ok(Self {
            data,
            keep: port("tkeep")?,
            last: port("tlast")?,
            user: port("tuser")?,
            valid: port("tvalid")?,
            ready: simulation.output(&format!("{name}_tready"))?,
            beat_bytes: data.width() as usize / 8,
            queue: VecDeque::new(),
            bad: VecDeque::new(),
            at: 0,
            offering: false,
            taken: 0,
            waiting: 0,
            deepest: 0,
        })
    }

    /// An empty frame is none.
    pub(super) fn push(&mut self, frame: Vec<u8>) {
        self.enqueue(frame, false);
    }

    /// A frame whose last beat says that it is bad.
    pub(super) fn push_bad(&mut self, frame: Vec<u8>) {
        self.enqueue(frame, true);
    }

    fn enqueue(&mut self, frame: Vec<u8>, bad: bool) {
        if !frame.is_empty() {
            self.bad.push_back(bad);
            self.waiting += frame.len();
            self.deepest = self.deepest.max(self.waiting);
            self.queue.push_back(frame);
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// The most bytes that ever waited here: what a MAC has to hold.
    pub(super) fn deepest(&self) -> usize {
        self.deepest
    }

    pub(super) fn drive(&mut self, simulation: &mut Simulation) {
        if self.offering {
            return;
        }
        let Some(frame) = self.queue.front() else {
            simulation.set(self.valid, 0);
            return;
        };
        let end = (self.at + self.beat_bytes).min(frame.len());
        let beat = &frame[self.at..end];
        simulation.set_bytes(self.data, beat);
        let keep = u128::MAX >> (128 - beat.len());
        simulation.set_bytes(self.keep, &keep.to_le_bytes());
        let is_last = end == frame.len();
        simulation.set(self.last, is_last.into());
        simulation.set(self.user, (is_last && self.bad.front() == Some(&true)).into());
        simulation.set(self.valid, 1);
        self.at = end;
        self.offering = true;
    }

    /// Whether something was transferred, and the frame whose last beat it was.
    pub(super) fn observe(&mut self, simulation: &Simulation) -> (bool, Option<Vec<u8>>) {
        if !self.offering || simulation.get(self.ready) == 0 {
            return (false, None);
        }
        self.offering = false;
        let at = self.at;
        let whole = self.queue.pop_front_if(|frame| at >= frame.len());
        if whole.is_some() {
            self.bad.pop_front();
            self.waiting -= at;
            self.at = 0;
            self.taken += 1;
        }
        (true, whole)
    }
}

/// Frames out of the model, one ahead: while a whole frame waits, no beat is taken.
#[derive(Debug)]
pub(super) struct FrameSink {
    data: Output,
    keep: Output,
    last: Output,
    user: Output,
    valid: Output,
    ready: Input,
    collecting: Vec<u8>,
    /// Clock of the first beat of what is collected.
    began: u64,
    /// Whole frames, each with the clock of its first beat.
    whole: VecDeque<(Vec<u8>, u64)>,
    /// Whole frames that may wait.
    most: usize,
    taking: bool,
    /// What comes is thrown away: the link is down.
    discards: bool,
    /// Frames that were thrown away because they are bad, and because of the link.
    pub(super) bad: u64,
    /// See `bad`.
    pub(super) discarded: u64,
}

impl FrameSink {
    pub(super) fn new(simulation: &Simulation, name: &str, most: usize) -> Result<Self, SimulationError> {
        let port = |suffix: &str| simulation.output(&format!("{name}_{suffix}"));
        Ok(Self {
            data: port("tdata")?,
            keep: port("tkeep")?,
            last: port("tlast")?,
            user: port("tuser")?,
            valid: port("tvalid")?,
            ready: simulation.input(&format!("{name}_tready"))?,
            collecting: Vec::new(),
            began: 0,
            whole: VecDeque::new(),
            most,
            taking: false,
            discards: false,
            bad: 0,
            discarded: 0,
        })
    }

    pub(super) fn set_discards(&mut self, discards: bool) {
        self.discards = discards;
        if discards {
            self.discarded += self.whole.len() as u64;
            self.whole.clear();
        }
    }

    /// The oldest whole frame, and the clock of its first beat.
    pub(super) fn pop(&mut self) -> Option<(Vec<u8>, u64)> {
        self.whole.pop_front()
    }

    /// Whether no frame is here, in part or whole.
    pub(super) fn is_idle(&self) -> bool {
        self.whole.is_empty() && self.collecting.is_empty()
    }

    pub(super) fn drive(&mut self, simulation: &mut Simulation) {
        let taking = self.discards || self.whole.len() < self.most;
        if taking != self.taking {
            self.taking = taking;
            simulation.set(self.ready, u64::from(taking));
        }
    }

    /// True: something was transferred.
    pub(super) fn observe(&mut self, simulation: &Simulation, clock: u64) -> bool {
        if !self.taking || simulation.get(self.valid) == 0 {
            return false;
        }
        if self.collecting.is_empty() {
            self.began = clock;
        }
        let bytes = simulation.bytes(self.data);
        if simulation.get(self.last) == 0 {
            self.collecting.extend_from_slice(bytes);
            return true;
        }
        let keep = simulation.words(self.keep);
        let count: u32 = keep.iter().map(|word| word.count_ones()).sum();
        self.collecting.extend_from_slice(&bytes[..count as usize]);
        let frame = std::mem::take(&mut self.collecting);
        if simulation.get(self.user) & 1 == 1 {
            self.bad += 1;
        } else if self.discards {
            self.discarded += 1;
        } else {
            self.whole.push_back((frame, self.began));
        }
        true
    }
}
