//! When each port of the receive pipeline moves: gaps of what comes, back-pressure of what leaves.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::stream::Pattern;

/// Outputs that may have to wait.
pub const SINKS: [&str; 14] = [
    "m_axis_slow_path",
    "m_axis_feedback",
    "m_axis_feedback_payload",
    "m_axis_endpoint",
    "m_axis_control",
    "m_axis_response",
    "m_axis_message",
    "m_axis_requester",
    "m_axis_requester_payload",
    "m_axis_write",
    "m_axis_write_data",
    "m_axis_completion",
    "m_axis_atomic_read",
    "m_axis_atomic_write",
];

/// Inputs with gaps: frames, and the answers of memory.
pub const SOURCES: [&str; 4] = [
    "s_axis",
    "s_axis_written",
    "s_axis_atomic_data",
    "s_axis_atomic_written",
];

/// A pattern for each port; one that is not named always moves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patterns(BTreeMap<&'static str, Pattern>);

impl Patterns {
    /// The pattern of a port.
    #[must_use]
    pub fn of(&self, stream: &str) -> &Pattern {
        self.0.get(stream).unwrap_or(&Pattern::Always)
    }

    /// These patterns, but for one port.
    #[must_use]
    pub fn with(mut self, stream: &'static str, pattern: Pattern) -> Self {
        self.0.insert(stream, pattern);
        self
    }

    /// Patterns of every kind, drawn for each port by itself. Each shrinks to [`Pattern::Always`].
    pub fn strategy() -> impl Strategy<Value = Self> + Clone {
        let sinks = SINKS.map(|_| Pattern::strategy());
        let sources = SOURCES.map(|_| Pattern::strategy());
        (sinks, sources).prop_map(|(sinks, sources)| {
            let sinks = SINKS.into_iter().zip(sinks);
            Self(sinks.chain(SOURCES.into_iter().zip(sources)).collect())
        })
    }

    /// More clocks than `beats` beats take on any port, one port after the other.
    #[must_use]
    pub fn most_clocks(&self, beats: u64) -> u64 {
        self.0.values().map(|pattern| most_clocks(pattern, beats)).sum()
    }
}

fn most_clocks(pattern: &Pattern, beats: u64) -> u64 {
    match pattern {
        Pattern::Always => beats,
        Pattern::After { clocks } => beats + u64::from(*clocks),
        Pattern::Bursts { on, off } => (beats / u64::from(*on) + 1) * (u64::from(*on) + u64::from(*off)),
        // Twice what is expected, and some more for few beats.
        Pattern::Random { chance, .. } => (2 * beats + 20) * 256 / u64::from(*chance).min(256),
        Pattern::List(list) => (beats + 1) * list.len() as u64,
        Pattern::AfterValid { clocks } => beats * (u64::from(*clocks) + 1),
    }
}
