//! Compares what came out with what should have, and shows the first difference field by field.

mod fields;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use fields::Format;

use crate::bench::Outcome;
use crate::stream::{Frame, Received};

/// What a run should give.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Expectation {
    /// Streams out of the model. One that is not listed must give nothing.
    pub streams: Vec<ExpectedStream>,
    /// Streams that may give anything.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unchecked: Vec<String>,
    /// Counters at the end, by their names without `count_`. One that is not listed may have any value.
    pub counters: BTreeMap<String, u64>,
}

/// What a stream should give.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedStream {
    /// Prefix of its ports, such as `m_axis`.
    pub stream: String,
    /// What its bytes are, for the report.
    #[serde(default)]
    pub format: Format,
    /// Bits of `tuser` that are compared.
    pub user_mask: u64,
    /// `tuser[0]` marks bad frames: when the expected frame and the received one are both bad, the rest may differ.
    #[serde(default)]
    pub bad_frames_agree: bool,
    /// The frames in their order; `not_before` has no meaning here.
    pub frames: Vec<Frame>,
}

impl Expectation {
    /// Adds a stream whose bytes and whole `tuser` are compared.
    #[must_use]
    pub fn stream(mut self, stream: &str, format: Format, frames: impl IntoIterator<Item = Frame>) -> Self {
        self.streams.push(ExpectedStream {
            stream: stream.to_owned(),
            format,
            user_mask: u64::MAX,
            bad_frames_agree: false,
            frames: frames.into_iter().collect(),
        });
        self
    }

    /// Lets a stream give anything.
    #[must_use]
    pub fn unchecked(mut self, stream: &str) -> Self {
        self.unchecked.push(stream.to_owned());
        self
    }

    /// Adds a counter, by its name without `count_`.
    #[must_use]
    pub fn counter(mut self, name: &str, value: u64) -> Self {
        self.counters.insert(name.to_owned(), value);
        self
    }

    /// Compares.
    ///
    /// # Errors
    /// The first difference: streams in their order, then counters.
    pub fn check(&self, outcome: &Outcome) -> Result<(), Mismatch> {
        for expected in &self.streams {
            if outcome.sinks.iter().all(|sink| sink.stream != expected.stream) {
                return Err(Mismatch::NoStream {
                    stream: expected.stream.clone(),
                });
            }
            expected.check(outcome.received(&expected.stream))?;
        }
        let checked = |stream: &String| !self.unchecked.contains(stream);
        for sink in outcome.sinks.iter().filter(|sink| checked(&sink.stream)) {
            if let (Some(received), None) = (
                sink.frames.first(),
                self.streams.iter().find(|expected| expected.stream == sink.stream),
            ) {
                return Err(Mismatch::frame(&sink.stream, 0, &Format::Bytes, None, Some(received)));
            }
        }
        for (name, expected) in &self.counters {
            let found = outcome.counters.get(name).copied();
            if found != Some(*expected) {
                return Err(Mismatch::Counter {
                    name: name.clone(),
                    expected: *expected,
                    found,
                });
            }
        }
        Ok(())
    }
}

impl ExpectedStream {
    /// Compares the frames that came.
    ///
    /// # Errors
    /// The first frame that is wrong, missing or too much.
    pub fn check(&self, received: &[Received]) -> Result<(), Mismatch> {
        for index in 0..self.frames.len().max(received.len()) {
            let (expected, got) = (self.frames.get(index), received.get(index));
            if !matches!((expected, got), (Some(expected), Some(got)) if self.agree(expected, got)) {
                return Err(Mismatch::frame(&self.stream, index, &self.format, expected, got));
            }
        }
        Ok(())
    }

    fn agree(&self, expected: &Frame, got: &Received) -> bool {
        let both_bad = self.bad_frames_agree && expected.user & got.user & 1 == 1;
        both_bad || (expected.data == got.data && (expected.user ^ got.user) & self.user_mask == 0)
    }
}

/// The first difference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// A frame is wrong, missing or too much.
    #[error("{0}")]
    Frame(Box<FrameMismatch>),
    /// A counter is wrong or missing.
    #[error("counter {name} should be {expected}, but {}", .found.map_or("the model has none".to_owned(), |found| format!("is {found}")))]
    Counter {
        /// Name without `count_`.
        name: String,
        /// What it should be.
        expected: u64,
        /// What it is.
        found: Option<u64>,
    },
    /// The model has no such stream.
    #[error("frames are expected from {stream}, but the model has no such output stream")]
    NoStream {
        /// Prefix of its ports.
        stream: String,
    },
}

/// A frame that differs, in both versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameMismatch {
    /// Prefix of the stream's ports.
    pub stream: String,
    /// Which frame, from 0.
    pub index: usize,
    /// What its bytes are.
    pub format: Format,
    /// What should have come; `None`: nothing.
    pub expected: Option<Frame>,
    /// What came; `None`: nothing.
    pub received: Option<Received>,
}

impl Mismatch {
    fn frame(stream: &str, index: usize, format: &Format, expected: Option<&Frame>, got: Option<&Received>) -> Self {
        Self::Frame(Box::new(FrameMismatch {
            stream: stream.to_owned(),
            index,
            format: format.clone(),
            expected: expected.cloned(),
            received: got.cloned(),
        }))
    }
}

/// Rows of payload beyond this number are left out of a report.
const MOST_EQUAL_BYTES_ROWS: usize = 4;

impl fmt::Display for FrameMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} frame {}", self.stream, self.index)?;
        match (&self.expected, &self.received) {
            (Some(_), Some(got)) => {
                writeln!(
                    f,
                    " is wrong (cycles {} to {}); * marks what differs",
                    got.first_cycle, got.last_cycle
                )?;
            }
            (Some(_), None) => writeln!(f, " is missing; it should be")?,
            (None, Some(got)) => {
                writeln!(
                    f,
                    " should not be there (cycles {} to {})",
                    got.first_cycle, got.last_cycle
                )?;
            }
            (None, None) => writeln!(f)?,
        }
        let rows = |data: &[u8], user: u64| {
            let mut rows = vec![("tuser".to_owned(), format!("{user:#x}"))];
            rows.extend(self.format.fields(data));
            rows
        };
        let expected = self
            .expected
            .as_ref()
            .map(|frame| rows(&frame.data, frame.user))
            .unwrap_or_default();
        let received = self
            .received
            .as_ref()
            .map(|frame| rows(&frame.data, frame.user))
            .unwrap_or_default();
        let table = side_by_side(&expected, &received);
        let width = |column: fn(&Row) -> &str| table.iter().map(|row| column(row).len()).max().unwrap_or(0);
        let (name, left) = (width(|row| &row.name).max(5), width(|row| &row.expected).max(8));
        writeln!(f, "    {:name$}  {:left$}  received", "field", "expected")?;
        let mut equal_rows = 0;
        for row in &table {
            let differs = row.expected != row.received;
            // Equal bytes say little: the first rows are enough.
            equal_rows += usize::from(!differs && row.name.contains('['));
            if differs || !row.name.contains('[') || equal_rows <= MOST_EQUAL_BYTES_ROWS {
                let mark = if differs && self.expected.is_some() && self.received.is_some() {
                    '*'
                } else {
                    ' '
                };
                writeln!(
                    f,
                    "  {mark} {:name$}  {:left$}  {}",
                    row.name, row.expected, row.received
                )?;
            }
        }
        Ok(())
    }
}

struct Row {
    name: String,
    expected: String,
    received: String,
}

/// Brings rows of the same name together; rows that only one side has stay where they are.
fn side_by_side(expected: &[(String, String)], received: &[(String, String)]) -> Vec<Row> {
    let mut table = Vec::new();
    let mut next = 0;
    for (name, value) in expected {
        let found = received[next..]
            .iter()
            .position(|(other, _)| other == name)
            .map(|distance| next + distance);
        if let Some(found) = found {
            for (name, value) in &received[next..found] {
                table.push(Row {
                    name: name.clone(),
                    expected: String::new(),
                    received: value.clone(),
                });
            }
            table.push(Row {
                name: name.clone(),
                expected: value.clone(),
                received: received[found].1.clone(),
            });
            next = found + 1;
        } else {
            table.push(Row {
                name: name.clone(),
                expected: value.clone(),
                received: String::new(),
            });
        }
    }
    for (name, value) in &received[next..] {
        table.push(Row {
            name: name.clone(),
            expected: String::new(),
            received: value.clone(),
        });
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::SinkOutcome;
    use spraynic_wire::{Bth, Ethernet, Ip, Ipv4, Opcode, Packet, Psn};

    fn packet(psn: u32, payload: &[u8]) -> Vec<u8> {
        let bth = Bth {
            opcode: Opcode::SEND_ONLY,
            destination_qpn: 17,
            psn: Psn::new(psn),
            ..Bth::default()
        };
        Packet::new(Ethernet::default(), Ip::V4(Ipv4::default()), 0xC000, bth, vec![])
            .with_payload(payload.to_vec())
            .emit()
    }

    fn outcome(frames: &[(Vec<u8>, u64)]) -> Outcome {
        let received = |(data, user): &(Vec<u8>, u64)| Received {
            data: data.clone(),
            user: *user,
            first_cycle: 5,
            last_cycle: 9,
        };
        let sink = SinkOutcome {
            stream: "m_axis".into(),
            frames: frames.iter().map(received).collect(),
            beat_cycles: Vec::new(),
        };
        Outcome {
            sinks: vec![sink],
            ..Outcome::default()
        }
    }

    fn expect(frames: &[Vec<u8>]) -> Expectation {
        Expectation::default().stream(
            "m_axis",
            Format::Packet,
            frames.iter().map(|data| Frame::new(data.clone())),
        )
    }

    #[test]
    fn the_wrong_field_of_the_first_wrong_packet_is_marked() {
        let (first, second, wrong) = (packet(1, &[1; 100]), packet(2, &[2; 100]), packet(3, &[2; 100]));
        let expectation = expect(&[first.clone(), second.clone()]);
        assert_eq!(expectation.check(&outcome(&[(first.clone(), 0), (second, 0)])), Ok(()));
        let text = expectation
            .check(&outcome(&[(first, 0), (wrong, 0)]))
            .expect_err("it is wrong")
            .to_string();
        assert!(text.starts_with("m_axis frame 1 is wrong (cycles 5 to 9)"), "{text}");
        let marked: Vec<&str> = text.lines().filter(|line| line.starts_with("  *")).collect();
        assert_eq!(marked.len(), 2, "{text}");
        assert!(
            marked[0].contains("BTH psn") && marked[0].contains("0x2") && marked[0].contains("0x3"),
            "{text}"
        );
        assert!(marked[1].contains("ICRC"), "{text}");
    }

    #[test]
    fn missing_surplus_and_unexpected_frames_are_named() {
        let frame = packet(1, &[1]);
        let text = expect(std::slice::from_ref(&frame))
            .check(&outcome(&[]))
            .expect_err("missing")
            .to_string();
        assert!(text.starts_with("m_axis frame 0 is missing"), "{text}");
        let text = expect(&[])
            .check(&outcome(&[(frame.clone(), 0)]))
            .expect_err("surplus")
            .to_string();
        assert!(text.starts_with("m_axis frame 0 should not be there"), "{text}");
        // A stream of which nothing was said.
        let text = Expectation::default()
            .check(&outcome(&[(frame, 0)]))
            .expect_err("surplus")
            .to_string();
        assert!(text.starts_with("m_axis frame 0 should not be there"), "{text}");
        let nowhere = Expectation::default().stream("m_axi", Format::Bytes, []);
        assert_eq!(
            nowhere.check(&outcome(&[])),
            Err(Mismatch::NoStream { stream: "m_axi".into() })
        );
    }

    #[test]
    fn sideband_and_bad_frames_follow_their_rules() {
        let mut expectation = Expectation::default().stream("m_axis", Format::Bytes, [Frame::with_user([1, 2], 3)]);
        let other = outcome(&[(vec![1, 2], 7)]);
        assert!(expectation.check(&other).is_err());
        expectation.streams[0].user_mask = 3;
        assert_eq!(expectation.check(&other), Ok(()));
        let bad = outcome(&[(vec![9], 1)]);
        assert!(expectation.check(&bad).is_err());
        expectation.streams[0].bad_frames_agree = true;
        assert_eq!(expectation.check(&bad), Ok(()));
        assert!(
            expectation.check(&outcome(&[(vec![9], 0)])).is_err(),
            "only one of them is bad"
        );
    }

    #[test]
    fn counters_are_compared_by_name() {
        let mut run = outcome(&[]);
        run.counters.insert("drop_length".into(), 3);
        let expectation = |name: &str, value| Expectation::default().counter(name, value);
        assert_eq!(expectation("drop_length", 3).check(&run), Ok(()));
        let text = expectation("drop_length", 2)
            .check(&run)
            .expect_err("it is 3")
            .to_string();
        assert_eq!(text, "counter drop_length should be 2, but is 3");
        assert!(expectation("drop_lenght", 3).check(&run).is_err());
    }
}
