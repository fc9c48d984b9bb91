//! Drives a stream into the model: frames of bytes, with gaps.
//!
//! Never reads an output other than `tready`. While nothing is offered, and in bytes that `tkeep` leaves out, the ports
//! carry noise: a block that looks at them is found out.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{DataPorts, Frame, Pattern, PatternState, Random, SetupError};
use crate::simulation::{Input, Output, Simulation};

/// When a frame was transferred, in clocks since the end of the reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// Cycle in which its first beat was offered first.
    pub offered_cycle: u64,
    /// Cycle in which its first beat was accepted.
    pub first_cycle: u64,
    /// Cycle in which its last beat was accepted.
    pub last_cycle: u64,
}

#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    data: Input,
    keep: Option<Input>,
    last: Option<Input>,
    user: Option<Input>,
    valid: Input,
    ready: Output,
    beat: usize,
    user_last_only: bool,
    pattern: PatternState,
    noise: Random,
    queue: VecDeque<Frame>,
    /// Bytes of the front frame that were accepted.
    offset: usize,
    offering: bool,
    /// What `tvalid` was set to last; nothing yet before the first cycle.
    valid_is_set: Option<bool>,
    offered_cycle: u64,
    first_cycle: u64,
    pub(crate) accepted: Vec<Timing>,
    pushed: usize,
}

impl Source {
    pub(crate) fn new(
        simulation: &Simulation,
        name: &str,
        pattern: Pattern,
        user_last_only: bool,
        seed: u64,
    ) -> Result<Self, SetupError> {
        let ports = DataPorts::find(name, &pattern, |port| simulation.input(port), Input::width)?;
        let DataPorts {
            data,
            keep,
            last,
            user,
            valid,
            beat,
        } = ports;
        let ready = simulation.output(&format!("{name}_tready"))?;
        Ok(Self {
            name: name.to_owned(),
            data,
            keep,
            last,
            user,
            valid,
            ready,
            beat,
            user_last_only,
            pattern: PatternState::new(pattern),
            noise: Random::new(seed),
            queue: VecDeque::new(),
            offset: 0,
            offering: false,
            valid_is_set: None,
            offered_cycle: 0,
            first_cycle: 0,
            accepted: Vec::new(),
            pushed: 0,
        })
    }

    /// Adds a frame behind the others.
    pub(crate) fn push(&mut self, frame: Frame) -> Result<(), SetupError> {
        let length = frame.data.len();
        let reason = if length == 0 {
            Some("it has no byte".to_owned())
        } else if self.last.is_none() && length != self.beat {
            Some(format!(
                "it has {length} bytes, but without tlast a frame is one beat of {} bytes",
                self.beat
            ))
        } else if self.keep.is_none() && !length.is_multiple_of(self.beat) {
            Some(format!(
                "it has {length} bytes, but without tkeep only multiples of {} can be sent",
                self.beat
            ))
        } else {
            let width = self.user.map_or(0, Input::width);
            (width < 64 && frame.user >> width != 0)
                .then(|| format!("its tuser {:#x} does not fit {width} bits", frame.user))
        };
        if let Some(reason) = reason {
            return Err(SetupError::Frame {
                stream: self.name.clone(),
                index: self.pushed,
                reason,
            });
        }
        self.pushed += 1;
        self.queue.push_back(frame);
        Ok(())
    }

    /// Frames that were not accepted whole.
    pub(crate) fn pending(&self) -> usize {
        self.queue.len()
    }

    /// Whether a beat is offered in this cycle.
    pub(crate) fn is_offering(&self) -> bool {
        self.offering
    }

    /// The cycle before which the front frame may not be offered.
    pub(crate) fn waits_until(&self) -> Option<u64> {
        self.queue.front().map(|frame| frame.not_before)
    }

    /// Sets the inputs of this cycle.
    #[inline]
    pub(crate) fn prepare(&mut self, simulation: &mut Simulation, cycle: u64) {
        if self.offering {
            return;
        }
        if let Some(frame) = self.queue.front()
            && (self.offset > 0 || frame.not_before <= cycle)
            && self.pattern.next_offer()
        {
            let rest = &frame.data[self.offset..];
            let is_last = rest.len() <= self.beat;
            let count = rest.len().min(self.beat);
            let words = simulation.words_mut(self.data);
            if count < self.beat {
                words.fill(self.noise.next() as u32);
            }
            bytemuck::cast_slice_mut::<u32, u8>(words)[..count].copy_from_slice(&rest[..count]);
            simulation.mask(self.data);
            if let Some(keep) = self.keep {
                set_low_bits(simulation.words_mut(keep), count);
            }
            if let Some(last) = self.last {
                simulation.words_mut(last)[0] = u32::from(is_last);
            }
            if let Some(user) = self.user {
                let value = if self.user_last_only && !is_last {
                    self.noise.next()
                } else {
                    frame.user
                };
                simulation.set(user, value);
            }
            if self.offset == 0 {
                self.offered_cycle = cycle;
            }
            self.offering = true;
        }
        if self.valid_is_set != Some(self.offering) {
            self.valid_is_set = Some(self.offering);
            simulation.words_mut(self.valid)[0] = u32::from(self.offering);
            if !self.offering {
                for port in [Some(self.data), self.keep, self.last, self.user].into_iter().flatten() {
                    simulation.words_mut(port).fill(self.noise.next() as u32);
                    simulation.mask(port);
                }
            }
        }
    }

    /// Looks at the outputs of this cycle. True: a beat was accepted.
    #[inline]
    pub(crate) fn observe(&mut self, simulation: &Simulation, cycle: u64) -> bool {
        if !self.offering || simulation.words(self.ready)[0] == 0 {
            return false;
        }
        self.offering = false;
        if self.offset == 0 {
            self.first_cycle = cycle;
        }
        self.offset += self.beat;
        if self.queue.front().is_some_and(|frame| self.offset >= frame.data.len()) {
            self.queue.pop_front();
            self.offset = 0;
            self.accepted.push(Timing {
                offered_cycle: self.offered_cycle,
                first_cycle: self.first_cycle,
                last_cycle: cycle,
            });
        }
        true
    }

    /// What the source is doing, for the report of a hang.
    pub(crate) fn state(&self, simulation: &Simulation) -> String {
        let ready = simulation.words(self.ready)[0];
        let doing = match (self.offering, self.queue.len()) {
            (true, _) => format!("offers a beat (byte {} of frame {})", self.offset, self.accepted.len()),
            (false, 0) => "has sent everything".to_owned(),
            (false, pending) => format!("has {pending} frame(s) to send, offers nothing"),
        };
        format!(
            "{}: {doing}, tready={ready}, {} frame(s) accepted",
            self.name,
            self.accepted.len()
        )
    }
}

/// Sets the low `count` bits and clears the others.
fn set_low_bits(words: &mut [u32], count: usize) {
    for (index, word) in words.iter_mut().enumerate() {
        let bits = count.saturating_sub(index * 32).min(32);
        *word = ((1u64 << bits) - 1) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_bits_cross_words() {
        let mut words = [0xaaaa_aaaa; 3];
        for (count, expected) in [
            (0, [0, 0, 0]),
            (1, [1, 0, 0]),
            (32, [u32::MAX, 0, 0]),
            (33, [u32::MAX, 1, 0]),
            (96, [u32::MAX; 3]),
        ] {
            set_low_bits(&mut words, count);
            assert_eq!(words, expected);
        }
    }
}
