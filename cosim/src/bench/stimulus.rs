//! What goes into a run: frames of each stream, and values of the other inputs.

use serde::{Deserialize, Serialize};

use crate::stream::{Frame, Pattern, SinkChecks};

/// Everything that goes into a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stimulus {
    /// Clocks of reset before cycle 0.
    pub reset_clocks: u64,
    /// Seed of the noise on idle inputs.
    pub seed: u64,
    /// Inputs that are no streams.
    pub inputs: Vec<InputValue>,
    /// Streams into the model.
    pub sources: Vec<SourceStimulus>,
    /// Streams out of the model. One that is not listed is always ready.
    pub sinks: Vec<SinkStimulus>,
}

impl Default for Stimulus {
    fn default() -> Self {
        Self {
            reset_clocks: 4,
            seed: 1,
            inputs: Vec::new(),
            sources: Vec::new(),
            sinks: Vec::new(),
        }
    }
}

impl Stimulus {
    /// Adds a stream into the model.
    #[must_use]
    pub fn source(mut self, stream: &str, pattern: Pattern, frames: impl IntoIterator<Item = Frame>) -> Self {
        let frames = frames.into_iter().collect();
        self.sources.push(SourceStimulus {
            stream: stream.to_owned(),
            pattern,
            user_last_only: false,
            frames,
        });
        self
    }

    /// Adds a stream out of the model.
    #[must_use]
    pub fn sink(mut self, stream: &str, pattern: Pattern, checks: SinkChecks) -> Self {
        self.sinks.push(SinkStimulus {
            stream: stream.to_owned(),
            pattern,
            checks,
            expected_frames: None,
        });
        self
    }

    /// Sets an input that is no stream, from the reset on.
    #[must_use]
    pub fn input(mut self, port: &str, value: u64) -> Self {
        self.inputs.push(InputValue {
            port: port.to_owned(),
            cycle: 0,
            value,
            increment: 0,
        });
        self
    }

    /// Sets an input that is no stream at `cycle`; it then grows by `increment` in each cycle (a clock of nanoseconds).
    #[must_use]
    pub fn input_at(mut self, port: &str, cycle: u64, value: u64, increment: u64) -> Self {
        self.inputs.push(InputValue {
            port: port.to_owned(),
            cycle,
            value,
            increment,
        });
        self
    }
}

/// A value of an input that is no stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputValue {
    /// The input.
    pub port: String,
    /// From this cycle on; 0: from the reset on.
    #[serde(default)]
    pub cycle: u64,
    /// The value.
    pub value: u64,
    /// What is added in each later cycle, until another value is set.
    #[serde(default)]
    pub increment: u64,
}

/// A stream into the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceStimulus {
    /// Prefix of its ports, such as `s_axis`.
    pub stream: String,
    /// When a beat is offered.
    #[serde(default)]
    pub pattern: Pattern,
    /// `tuser` has its value in the last beat of a frame only, and noise before; otherwise in each beat.
    #[serde(default)]
    pub user_last_only: bool,
    /// What is sent.
    pub frames: Vec<Frame>,
}

/// A stream out of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkStimulus {
    /// Prefix of its ports, such as `m_axis`.
    pub stream: String,
    /// When a beat is accepted.
    #[serde(default)]
    pub pattern: Pattern,
    /// What is checked.
    #[serde(default)]
    pub checks: SinkChecks,
    /// Frames that must come; the run waits for them. Otherwise it ends when nothing moves.
    #[serde(default)]
    pub expected_frames: Option<usize>,
}
