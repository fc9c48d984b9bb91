//! Traces: runs that are kept as files which a person can read, and run again.
//!
//! A file is a JSON object with a `version` and, where it is no trace of a block, a `kind`. Here are the rules of the file, which traces of blocks
//! follow too, and the trace of a scenario.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

use crate::check::Property;
use crate::scenario::Scenario;

/// The version of the file format.
pub const TRACE_VERSION: u32 = 1;

/// `kind` of a trace of a scenario.
pub const SCENARIO: &str = "scenario";

/// A scenario that failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioTrace {
    /// [`TRACE_VERSION`].
    pub version: u32,
    /// [`SCENARIO`].
    pub kind: String,
    /// What had to hold.
    pub property: Property,
    /// Why it was saved: the message of the failure.
    #[serde(default)]
    pub reason: String,
    /// What was to happen.
    pub scenario: Scenario,
}

impl ScenarioTrace {
    /// A trace of a scenario that failed.
    #[must_use]
    pub fn new(property: Property, scenario: Scenario, reason: String) -> Self {
        Self {
            version: TRACE_VERSION,
            kind: SCENARIO.to_owned(),
            property,
            reason,
            scenario,
        }
    }

    /// The file's name for this trace: the same trace has the same name.
    #[must_use]
    pub fn file_name(&self) -> String {
        let text = serde_json::to_vec(self).unwrap_or_default();
        // FNV-1a, 64 bits, of which 48 are enough for a name.
        let hash = text.iter().fold(0xCBF2_9CE4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3)
        });
        format!("scenario-{:012x}.json", hash >> 16)
    }

    /// Saves it in a directory under its name, and says where.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save_in(&self, directory: &Path) -> Result<PathBuf, TraceError> {
        let path = directory.join(self.file_name());
        save(self, &path)?;
        Ok(path)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is no trace of a scenario of this version.
    pub fn load(path: &Path) -> Result<Self, TraceError> {
        load(path)
    }
}

/// A trace file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The system refuses.
    #[error("cannot {action} the trace {path}: {source}")]
    File {
        /// "read" or "write".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The text is no trace.
    #[error("{path} is not a trace: {source}")]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        source: serde_json::Error,
    },
    /// Another version of the format.
    #[error("{path} is a trace of version {found}; this program reads version {TRACE_VERSION}")]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
}

#[derive(Deserialize)]
struct Head {
    version: u32,
    #[serde(default)]
    kind: Option<String>,
}

/// Writes a trace, whole or not at all; makes its directory where it is missing.
///
/// # Errors
/// The file cannot be written.
pub fn save<T: Serialize>(trace: &T, path: &Path) -> Result<(), TraceError> {
    let error = |source| TraceError::File {
        action: "write",
        path: path.to_path_buf(),
        source,
    };
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    fs::create_dir_all(directory).map_err(error)?;
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(error)?;
    let mut serializer = serde_json::Serializer::with_formatter(&mut file, Layout::default());
    trace
        .serialize(&mut serializer)
        .map_err(|source| error(source.into()))?;
    file.write_all(b"\n").map_err(error)?;
    file.persist(path).map_err(|failed| error(failed.error))?;
    Ok(())
}

/// Reads a trace.
///
/// # Errors
/// It cannot be read, or is no such trace of this version.
pub fn load<T: DeserializeOwned>(path: &Path) -> Result<T, TraceError> {
    read(path).and_then(|(text, _)| serde_json::from_slice(&text).map_err(format_of(path)))
}

/// The kind of a trace; `None`: it is one of a block.
///
/// # Errors
/// It cannot be read, or is no trace of this version.
pub fn kind(path: &Path) -> Result<Option<String>, TraceError> {
    read(path).map(|(_, head)| head.kind)
}

fn format_of(path: &Path) -> impl Fn(serde_json::Error) -> TraceError {
    move |source| TraceError::Format {
        path: path.to_path_buf(),
        source,
    }
}

fn read(path: &Path) -> Result<(Vec<u8>, Head), TraceError> {
    let text = fs::read(path).map_err(|source| TraceError::File {
        action: "read",
        path: path.to_path_buf(),
        source,
    })?;
    let head: Head = serde_json::from_slice(&text).map_err(format_of(path))?;
    if head.version != TRACE_VERSION {
        return Err(TraceError::Version {
            path: path.to_path_buf(),
            found: head.version,
        });
    }
    Ok((text, head))
}

/// Levels of nesting that are broken into lines; what is deeper stands in one: a path, a queue pair, a message, a frame.
const BROKEN_LEVELS: usize = 3;

/// JSON with a line for each thing.
#[derive(Default)]
struct Layout {
    level: usize,
    pretty: PrettyFormatter<'static>,
}

impl Layout {
    fn is_broken(&self) -> bool {
        self.level <= BROKEN_LEVELS
    }
}

/// The methods that open and close something, and those between.
macro_rules! layout {
    (open: $($open:ident)+; close: $($close:ident)+; inside: $($inside:ident)+; separators: $($separator:ident)+) => {
        $(fn $open<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
            self.level += 1;
            if self.is_broken() { self.pretty.$open(writer) } else { CompactFormatter.$open(writer) }
        })+
        $(fn $close<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
            let broken = self.is_broken();
            self.level -= 1;
            if broken { self.pretty.$close(writer) } else { CompactFormatter.$close(writer) }
        })+
        $(fn $inside<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
            if self.is_broken() { self.pretty.$inside(writer) } else { CompactFormatter.$inside(writer) }
        })+
        $(fn $separator<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
            if self.is_broken() {
                self.pretty.$separator(writer, first)
            } else if first {
                Ok(())
            } else {
                writer.write_all(b", ")
            }
        })+
    };
}

impl Formatter for Layout {
    layout! {
        open: begin_array begin_object;
        close: end_array end_object;
        inside: end_array_value begin_object_value end_object_value;
        separators: begin_array_value begin_object_key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_short_and_is_read_again() {
        let place = tempfile::tempdir().unwrap();
        let trace = ScenarioTrace::new(Property::Delivery, Scenario::default(), "it was Monday".to_owned());
        let path = trace.save_in(&place.path().join("new")).unwrap();
        assert_eq!(ScenarioTrace::load(&path).unwrap(), trace);
        assert_eq!(kind(&path).unwrap().as_deref(), Some(SCENARIO));
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.lines().count() < 50, "{text}");
        assert!(text.contains("\n      {\"delay_ns\":1000, "), "{text}");

        fs::write(&path, text.replace("\"version\": 1", "\"version\": 7")).unwrap();
        assert!(matches!(
            ScenarioTrace::load(&path),
            Err(TraceError::Version { found: 7, .. })
        ));
        fs::write(&path, &text[..text.len() / 2]).unwrap();
        assert!(matches!(ScenarioTrace::load(&path), Err(TraceError::Format { .. })));
    }
}
