//! AXI4-Stream in bytes: frames, the ports of a stream, and what can be wrong with one.
//!
//! Byte 0 of a frame is `tdata[7:0]` of its first beat. A stream without `tlast` (descriptors) carries one frame a
//! beat.

mod pattern;
mod sink;
mod source;

use serde::{Deserialize, Serialize};

pub use pattern::Pattern;
pub(crate) use pattern::{PatternState, Random};
pub(crate) use sink::Sink;
pub use sink::{Received, SinkChecks};
pub(crate) use source::Source;
pub use source::Timing;

use crate::simulation::{Simulation, SimulationError};

/// Bytes that travel as one packet, with their sideband.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Frame {
    /// The bytes, at least one.
    #[serde(with = "hex")]
    pub data: Vec<u8>,
    /// `tuser`; where the stream has none, 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub user: u64,
    /// The first cycle in which it may be offered.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_before: u64,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl Frame {
    /// A frame whose `tuser` is 0.
    #[must_use]
    pub fn new(data: impl Into<Vec<u8>>) -> Self {
        Self {
            data: data.into(),
            user: 0,
            not_before: 0,
        }
    }

    /// A frame with this `tuser`.
    #[must_use]
    pub fn with_user(data: impl Into<Vec<u8>>, user: u64) -> Self {
        Self {
            data: data.into(),
            user,
            not_before: 0,
        }
    }
}

impl From<Vec<u8>> for Frame {
    fn from(data: Vec<u8>) -> Self {
        Self::new(data)
    }
}

/// Bytes as a string of hexadecimal digits, for serde.
pub(crate) mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn encode(bytes: &[u8]) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
        bytes
            .iter()
            .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
            .collect()
    }

    pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
        let nibble = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
        let pairs = text.as_bytes().chunks(2);
        pairs
            .map(|pair| Some(nibble(*pair.first()?)? << 4 | nibble(*pair.get(1)?)?))
            .collect()
    }

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        decode(&text).ok_or_else(|| D::Error::custom(format!("{text:?} is not an even number of hexadecimal digits")))
    }
}

/// A stream broke a rule, at a cycle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{stream}, cycle {cycle}: {fault}")]
pub struct StreamError {
    /// Prefix of its ports, such as `m_axis`.
    pub stream: String,
    /// Clocks since the end of the reset.
    pub cycle: u64,
    /// What was broken.
    pub fault: StreamFault,
}

/// The rules of a stream, each as what it looks like when broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamFault {
    /// A beat was taken back.
    #[error("tvalid fell although the beat was not accepted")]
    ValidFell,
    /// A beat changed while it waited.
    #[error("{port} changed while the beat waited for tready: {before} became {after}")]
    Unstable {
        /// The port.
        port: &'static str,
        /// Its value in the cycle before, hexadecimal.
        before: String,
        /// Its value in this cycle, hexadecimal.
        after: String,
    },
    /// `tkeep` has a hole or does not start at byte 0.
    #[error("tkeep {keep} is not contiguous from byte 0")]
    KeepHole {
        /// `tkeep`, hexadecimal.
        keep: String,
    },
    /// `tkeep` is not full before the last beat.
    #[error("tkeep {keep} is not full, and this is not the last beat of the frame")]
    KeepNotFull {
        /// `tkeep`, hexadecimal.
        keep: String,
    },
    /// A beat without a byte.
    #[error("tkeep is 0: a beat without a byte")]
    KeepZero,
    /// `tuser` changed inside a frame.
    #[error("tuser changed inside a frame, in bits that must be constant: {before:#x} became {after:#x}")]
    UserChanged {
        /// In the beat before.
        before: u64,
        /// In this beat.
        after: u64,
    },
    /// `tvalid` depends on `tready`.
    #[error("tvalid waits for tready: it is low while tready is low, and rises as soon as tready does")]
    ValidWaitsForReady,
    /// No beat where one was due.
    #[error("bubble: tvalid is low {place}")]
    Bubble {
        /// Where that is not allowed.
        place: &'static str,
    },
    /// A frame without end.
    #[error("the frame has more than {limit} bytes and no tlast yet")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
}

/// A stream cannot be driven as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// A port is missing.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// The ports do not fit each other.
    #[error("stream {stream}: {reason}")]
    Ports {
        /// Prefix of its ports.
        stream: String,
        /// What does not fit.
        reason: String,
    },
    /// A frame cannot be sent on this stream.
    #[error("stream {stream}, frame {index}: {reason}")]
    Frame {
        /// Prefix of the stream's ports.
        stream: String,
        /// Which frame, from 0.
        index: usize,
        /// Why.
        reason: String,
    },
    /// No such stream among the drivers.
    #[error("there is no source {stream}; there are {available}")]
    NoSource {
        /// The name that was asked for.
        stream: String,
        /// The sources that are there.
        available: String,
    },
}

/// The ports that the giving side of a stream drives: inputs of the model for a source, outputs for a sink.
struct DataPorts<P> {
    data: P,
    keep: Option<P>,
    last: Option<P>,
    user: Option<P>,
    valid: P,
    /// Bytes of one beat.
    beat: usize,
}

impl<P: Copy> DataPorts<P> {
    /// Finds them by their names, and checks that they fit each other and that the pattern does not block for ever.
    fn find(
        name: &str,
        pattern: &Pattern,
        port: impl Fn(&str) -> Result<P, SimulationError>,
        width: fn(P) -> u32,
    ) -> Result<Self, SetupError> {
        let port = |part: &str| port(&format!("{name}_{part}"));
        let (data, valid) = (port("tdata")?, port("tvalid")?);
        let (keep, last, user) = (port("tkeep").ok(), port("tlast").ok(), port("tuser").ok());
        pattern.check().map_err(|reason| SetupError::Ports {
            stream: name.to_owned(),
            reason: reason.to_owned(),
        })?;
        Ok(Self {
            data,
            keep,
            last,
            user,
            valid,
            beat: beat_bytes(name, width(data), keep.map(width), last.is_some())?,
        })
    }
}

/// Bytes of one beat: the width of `tdata` in bytes; checked against `tkeep`.
fn beat_bytes(stream: &str, data: u32, keep: Option<u32>, last: bool) -> Result<usize, SetupError> {
    let bytes = data.div_ceil(8);
    let error = |reason: String| {
        Err(SetupError::Ports {
            stream: stream.to_owned(),
            reason,
        })
    };
    match keep {
        Some(keep) if !data.is_multiple_of(8) || keep != bytes => error(format!(
            "tkeep of {keep} bits does not fit tdata of {data} bits: it needs one bit a byte"
        )),
        Some(_) if !last => error("there is a tkeep but no tlast".to_owned()),
        _ if last && !data.is_multiple_of(8) => error(format!("tdata of {data} bits is no whole number of bytes")),
        _ => Ok(bytes as usize),
    }
}

/// Words in hexadecimal, most significant first.
fn hex_words(words: &[u32], width: u32) -> String {
    let digits: String = words.iter().rev().map(|word| format!("{word:08x}")).collect();
    let count = width.div_ceil(4) as usize;
    format!("0x{}", &digits[digits.len() - count.min(digits.len())..])
}

/// Names of the streams whose `tvalid` the model drives.
pub(crate) fn output_streams(simulation: &Simulation) -> Vec<String> {
    simulation
        .output_names()
        .filter_map(|name| name.strip_suffix("_tvalid"))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_goes_both_ways() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(hex::decode(&hex::encode(&bytes)), Some(bytes));
        assert_eq!(hex::decode("0"), None);
        assert_eq!(hex::decode("0g"), None);
        assert_eq!(hex_words(&[0x89ab_cdef, 0x1], 33), "0x189abcdef");
    }
}
