//! Takes a stream out of the model: frames of bytes, with back-pressure, and the rules of AXI4-Stream checked.

use serde::{Deserialize, Serialize};

use super::{DataPorts, Pattern, PatternState, SetupError, StreamError, StreamFault, hex_words};
use crate::bench::BenchError;
use crate::simulation::{Input, Output, Simulation};

/// Bytes after which a frame without `tlast` is an error.
const LONGEST_FRAME: usize = 1 << 20;

/// A frame that came out, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// The bytes that `tkeep` marks.
    pub data: Vec<u8>,
    /// `tuser` of the last beat; 0 where the stream has none.
    pub user: u64,
    /// Clocks since the end of the reset: when the first beat was accepted.
    pub first_cycle: u64,
    /// When the last beat was accepted.
    pub last_cycle: u64,
}

/// What a sink checks beyond the rules that hold for every stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SinkChecks {
    /// `tvalid` may not be low between the first and the last beat of a frame. For outputs that store frames first, or
    /// whose inputs have no gaps.
    pub no_bubble_in_frames: bool,
    /// `tvalid` may not be low from the first beat on, as long as each of these sources has offered a beat in every
    /// cycle since then: the rule of one beat a clock.
    pub no_bubble_while: Vec<String>,
    /// Bits of `tuser` that are the same in all beats of a frame.
    pub constant_user: u64,
    /// Tries now and then whether `tvalid` rises with `tready` in the same cycle (on by default).
    pub valid_independent: bool,
    /// Keeps the cycle of each beat ([`crate::SinkOutcome::beat_cycles`]).
    pub record_beats: bool,
}

impl Default for SinkChecks {
    fn default() -> Self {
        Self {
            no_bubble_in_frames: false,
            no_bubble_while: Vec::new(),
            constant_user: 0,
            valid_independent: true,
            record_beats: false,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) name: String,
    data: Output,
    keep: Option<Output>,
    last: Option<Output>,
    user: Option<Output>,
    valid: Output,
    ready: Input,
    beat: usize,
    pattern: PatternState,
    checks: SinkChecks,
    ready_now: bool,
    valid_now: bool,
    /// Clocks that the present beat has waited.
    waited: u64,
    /// The beat that waits: data, keep, last, user.
    held: Vec<u32>,
    data_frame: Vec<u8>,
    in_frame: bool,
    first_cycle: u64,
    user_before: u64,
    beats: u64,
    /// All sources of `no_bubble_while` have offered in every cycle since the first beat.
    inputs_unbroken: bool,
    pub(crate) frames: Vec<Received>,
    pub(crate) beat_cycles: Vec<u64>,
}

impl Sink {
    pub(crate) fn new(
        simulation: &Simulation,
        name: &str,
        pattern: Pattern,
        checks: SinkChecks,
    ) -> Result<Self, SetupError> {
        let ports = DataPorts::find(name, &pattern, |port| simulation.output(port), Output::width)?;
        let DataPorts {
            data,
            keep,
            last,
            user,
            valid,
            beat,
        } = ports;
        let ready = simulation.input(&format!("{name}_tready"))?;
        Ok(Self {
            name: name.to_owned(),
            data,
            keep,
            last,
            user,
            valid,
            ready,
            beat,
            pattern: PatternState::new(pattern),
            checks,
            ready_now: false,
            valid_now: false,
            waited: 0,
            held: Vec::new(),
            data_frame: Vec::new(),
            in_frame: false,
            first_cycle: 0,
            user_before: 0,
            beats: 0,
            inputs_unbroken: true,
            frames: Vec::new(),
            beat_cycles: Vec::new(),
        })
    }

    /// Sources whose gaps excuse a bubble.
    pub(crate) fn watched_sources(&self) -> &[String] {
        &self.checks.no_bubble_while
    }

    /// Whether a beat waits in this cycle or a frame is half received.
    pub(crate) fn is_busy(&self) -> bool {
        self.valid_now || self.in_frame
    }

    /// Sets the inputs of this cycle.
    #[inline]
    pub(crate) fn prepare(&mut self, simulation: &mut Simulation) {
        self.ready_now = self.pattern.next(self.waited);
        simulation.words_mut(self.ready)[0] = u32::from(self.ready_now);
    }

    /// In a cycle in which `tready` is low: does `tvalid` rise with it? Two evaluations, no clock.
    pub(crate) fn probe(&mut self, simulation: &mut Simulation, cycle: u64) -> Result<(), BenchError> {
        if self.ready_now || !self.checks.valid_independent {
            return Ok(());
        }
        simulation.eval()?;
        let without = simulation.words(self.valid)[0];
        simulation.words_mut(self.ready)[0] = 1;
        simulation.eval()?;
        let with = simulation.words(self.valid)[0];
        simulation.words_mut(self.ready)[0] = 0;
        if without == 0 && with == 1 {
            return Err(self.fault(cycle, StreamFault::ValidWaitsForReady).into());
        }
        Ok(())
    }

    /// When the pattern waits for `tvalid` and everything stands still: raises `tready`, to see whether that is what the
    /// model waits for. False: this sink does not wait.
    pub(crate) fn give_in(&mut self) -> bool {
        let waits = self.pattern.waits_for_valid();
        if waits {
            self.pattern = PatternState::new(Pattern::Always);
        }
        waits
    }

    pub(crate) fn fault(&self, cycle: u64, fault: StreamFault) -> StreamError {
        StreamError {
            stream: self.name.clone(),
            cycle,
            fault,
        }
    }

    /// Looks at the outputs of this cycle. True: a beat was accepted. `inputs_offer`: whether each of the watched sources
    /// offered a beat in this cycle.
    #[inline]
    pub(crate) fn observe(
        &mut self,
        simulation: &Simulation,
        cycle: u64,
        inputs_offer: bool,
    ) -> Result<bool, StreamError> {
        self.valid_now = simulation.words(self.valid)[0] != 0;
        if self.beats > 0 {
            self.inputs_unbroken &= inputs_offer;
        }
        if !self.valid_now {
            return self.observe_gap(cycle);
        }
        if self.waited > 0 {
            self.check_stable(simulation, cycle)?;
        }
        if !self.ready_now {
            if self.waited == 0 {
                self.hold(simulation);
            }
            self.waited += 1;
            return Ok(false);
        }
        self.waited = 0;
        self.accept(simulation, cycle)?;
        Ok(true)
    }

    fn observe_gap(&self, cycle: u64) -> Result<bool, StreamError> {
        if self.waited > 0 {
            return Err(self.fault(cycle, StreamFault::ValidFell));
        }
        if self.in_frame && self.checks.no_bubble_in_frames {
            return Err(self.fault(
                cycle,
                StreamFault::Bubble {
                    place: "inside a frame",
                },
            ));
        }
        if self.beats > 0 && self.inputs_unbroken && !self.checks.no_bubble_while.is_empty() {
            let place = "although the inputs have offered a beat in every cycle since the first one came out";
            return Err(self.fault(cycle, StreamFault::Bubble { place }));
        }
        Ok(false)
    }

    fn side_ports(&self) -> impl Iterator<Item = (&'static str, Output)> {
        let ports = [
            ("tdata", Some(self.data)),
            ("tkeep", self.keep),
            ("tlast", self.last),
            ("tuser", self.user),
        ];
        ports.into_iter().filter_map(|(name, port)| Some((name, port?)))
    }

    fn hold(&mut self, simulation: &Simulation) {
        self.held.clear();
        for port in [Some(self.data), self.keep, self.last, self.user].into_iter().flatten() {
            self.held.extend_from_slice(simulation.words(port));
        }
    }

    fn check_stable(&self, simulation: &Simulation, cycle: u64) -> Result<(), StreamError> {
        let mut held = self.held.as_slice();
        for (port, output) in self.side_ports() {
            let after = simulation.words(output);
            let (before, rest) = held.split_at(after.len());
            held = rest;
            if before != after {
                let (before, after) = (hex_words(before, output.width()), hex_words(after, output.width()));
                return Err(self.fault(cycle, StreamFault::Unstable { port, before, after }));
            }
        }
        Ok(())
    }

    #[inline]
    fn accept(&mut self, simulation: &Simulation, cycle: u64) -> Result<(), StreamError> {
        let is_last = self.last.is_none_or(|last| simulation.words(last)[0] != 0);
        let mut count = self.beat;
        if let Some(keep) = self.keep {
            let words = simulation.words(keep);
            count = low_ones(words);
            let keep_text = || hex_words(words, keep.width());
            if words.iter().map(|word| word.count_ones() as usize).sum::<usize>() != count {
                return Err(self.fault(cycle, StreamFault::KeepHole { keep: keep_text() }));
            }
            if count == 0 {
                return Err(self.fault(cycle, StreamFault::KeepZero));
            }
            if !is_last && count < self.beat {
                return Err(self.fault(cycle, StreamFault::KeepNotFull { keep: keep_text() }));
            }
        }
        let user = self.user.map_or(0, |user| simulation.get(user));
        if !self.in_frame {
            self.in_frame = true;
            self.first_cycle = cycle;
        } else if (user ^ self.user_before) & self.checks.constant_user != 0 {
            return Err(self.fault(
                cycle,
                StreamFault::UserChanged {
                    before: self.user_before,
                    after: user,
                },
            ));
        }
        self.user_before = user;
        self.beats += 1;
        if self.checks.record_beats {
            self.beat_cycles.push(cycle);
        }
        self.data_frame.extend_from_slice(&simulation.bytes(self.data)[..count]);
        if is_last {
            // The next frame is likely to be about as long.
            let next = Vec::with_capacity(self.data_frame.len());
            let data = std::mem::replace(&mut self.data_frame, next);
            self.frames.push(Received {
                data,
                user,
                first_cycle: self.first_cycle,
                last_cycle: cycle,
            });
            self.in_frame = false;
        } else if self.data_frame.len() > LONGEST_FRAME {
            return Err(self.fault(cycle, StreamFault::TooLong { limit: LONGEST_FRAME }));
        }
        Ok(())
    }

    /// What the sink is doing, for the report of a hang.
    pub(crate) fn state(&self, expected: Option<usize>) -> String {
        let wanted = expected.map_or(String::new(), |count| format!(" of {count}"));
        format!(
            "{}: tvalid={}, tready={}, {}{wanted} frame(s) received, {} byte(s) of the next",
            self.name,
            u8::from(self.valid_now),
            u8::from(self.ready_now),
            self.frames.len(),
            self.data_frame.len(),
        )
    }
}

/// Ones from bit 0 upwards until the first zero.
#[inline]
fn low_ones(words: &[u32]) -> usize {
    let mut count = 0;
    for word in words {
        let ones = word.trailing_ones() as usize;
        count += ones;
        if ones < 32 {
            break;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ones_are_counted_from_the_bottom() {
        assert_eq!(low_ones(&[0b0111]), 3);
        assert_eq!(low_ones(&[0b1011]), 2);
        assert_eq!(low_ones(&[u32::MAX, 1]), 33);
        assert_eq!(low_ones(&[0, 1]), 0);
    }
}
