//! What came out of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::stream::{Received, Timing};

/// What came out of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Clocks since the end of the reset.
    pub cycles: u64,
    /// Streams into the model.
    pub sources: Vec<SourceOutcome>,
    /// Streams out of the model.
    pub sinks: Vec<SinkOutcome>,
    /// Outputs whose name starts with `count_` at the end; the names are without it.
    pub counters: BTreeMap<String, u64>,
}

impl Outcome {
    /// The frames that came out of a stream; none for a stream that is not there.
    #[must_use]
    pub fn received(&self, stream: &str) -> &[Received] {
        self.sinks
            .iter()
            .find(|sink| sink.stream == stream)
            .map_or(&[], |sink| &sink.frames)
    }

    /// When the frames of a stream into the model were accepted; none for a stream that is not there.
    #[must_use]
    pub fn accepted(&self, stream: &str) -> &[Timing] {
        self.sources
            .iter()
            .find(|source| source.stream == stream)
            .map_or(&[], |source| &source.accepted)
    }

    /// The cycles in which the beats of a stream out of the model were accepted, with [`SinkChecks::record_beats`].
    #[must_use]
    pub fn beat_cycles(&self, stream: &str) -> &[u64] {
        self.sinks
            .iter()
            .find(|sink| sink.stream == stream)
            .map_or(&[], |sink| &sink.beat_cycles)
    }
}

/// A stream into the model, after a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceOutcome {
    /// Prefix of its ports.
    pub stream: String,
    /// When each frame was accepted, in their order.
    pub accepted: Vec<Timing>,
}

/// A stream out of the model, after a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkOutcome {
    /// Prefix of its ports.
    pub stream: String,
    /// The frames, in their order.
    pub frames: Vec<Received>,
    /// The cycle of each beat, where [`SinkChecks::record_beats`] is on.
    pub beat_cycles: Vec<u64>,
}
