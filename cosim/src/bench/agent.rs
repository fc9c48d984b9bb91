//! What reacts to the frames that come out while a run goes on.

use super::InputValue;
use crate::stream::{Frame, Received, SetupError, Source};

/// What an agent may do in answer to what comes out.
#[derive(Debug)]
pub struct Answer<'a> {
    /// The present cycle.
    pub cycle: u64,
    pub(super) sources: &'a mut [Source],
    pub(super) record: &'a mut Vec<(usize, Frame)>,
    pub(super) inputs: &'a mut Vec<InputValue>,
}

impl Answer<'_> {
    /// Sends a frame on a stream into the model, behind what is already there, at the earliest in the next cycle. (A later
    /// [`Frame::not_before`] delays it and what comes behind it.)
    ///
    /// # Errors
    /// There is no such source in the stimulus, or it cannot send the frame.
    pub fn send(&mut self, stream: &str, mut frame: Frame) -> Result<(), SetupError> {
        frame.not_before = frame.not_before.max(self.cycle + 1);
        let Some(index) = self.sources.iter().position(|source| source.name == stream) else {
            let names: Vec<&str> = self.sources.iter().map(|source| source.name.as_str()).collect();
            return Err(SetupError::NoSource {
                stream: stream.to_owned(),
                available: names.join(", "),
            });
        };
        self.sources[index].push(frame.clone())?;
        self.record.push((index, frame));
        Ok(())
    }

    /// Sets an input that is no stream so many clocks from now, at least 1. A port that is not there ends the run.
    pub fn set_after(&mut self, clocks: u64, port: &str, value: u64) {
        self.inputs.push(InputValue {
            port: port.to_owned(),
            cycle: self.cycle + clocks.max(1),
            value,
            increment: 0,
        });
    }
}

/// Reacts to what comes out: a memory, a peer.
pub trait Agent {
    /// A frame came out of a stream.
    ///
    /// # Errors
    /// What is wrong with it; the run ends.
    fn on_frame(&mut self, answer: &mut Answer<'_>, stream: &str, frame: &Received) -> Result<(), String>;
}

impl Agent for () {
    fn on_frame(&mut self, _: &mut Answer<'_>, _: &str, _: &Received) -> Result<(), String> {
        Ok(())
    }
}

impl<F: FnMut(&mut Answer<'_>, &str, &Received) -> Result<(), String>> Agent for F {
    fn on_frame(&mut self, answer: &mut Answer<'_>, stream: &str, frame: &Received) -> Result<(), String> {
        self(answer, stream, frame)
    }
}
