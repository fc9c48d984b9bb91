//! What can be wrong with a configuration: each error names the key, the value, where it was set, and what would be right.

use std::fmt;
use std::path::PathBuf;

/// Where a value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A preset's default.
    Preset(&'static str),
    /// A line of a TOML file, counted from 1.
    File {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// A command-line override, as it was written.
    Override(String),
    /// A field set by a program.
    Field,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Preset(name) => write!(f, "preset {name}"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Override(text) => write!(f, "--set {text}"),
            Self::Field => f.write_str("field"),
        }
    }
}

/// One key, its value and where it was set: a side of a contradiction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Full key, `section.name`.
    pub key: &'static str,
    /// The value, as TOML.
    pub value: String,
    /// Where it was set.
    pub origin: Origin,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} ({})", self.key, self.value, self.origin)
    }
}

fn join(settings: &[Setting]) -> String {
    settings
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" and ")
}

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: cannot read the configuration: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is no TOML.
    #[error("{}:{line}: not valid TOML: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What the parser said.
        message: String,
    },
    /// There is no such preset.
    #[error("{origin}: unknown preset `{name}`: the presets are {known}")]
    UnknownPreset {
        /// The name given.
        name: String,
        /// Where it was given.
        origin: String,
        /// The names that exist.
        known: String,
    },
    /// The file names one preset, the command line another.
    #[error(
        "{origin}: preset `{in_file}` contradicts preset `{given}` of the command line: name the same in both, or only one"
    )]
    TwoPresets {
        /// Preset of the file.
        in_file: &'static str,
        /// Preset of the command line.
        given: &'static str,
        /// Where the file names it.
        origin: Origin,
    },
    /// There is no such key.
    #[error("{origin}: unknown key `{key}`: {hint}")]
    UnknownKey {
        /// The key given.
        key: String,
        /// Where it was given.
        origin: Origin,
        /// The nearest key, or those of the section.
        hint: String,
    },
    /// The value is of another type.
    #[error("{origin}: {key} = {value} is {found}: it must be {expected}")]
    WrongType {
        /// Full key.
        key: &'static str,
        /// The value given.
        value: String,
        /// Its type.
        found: &'static str,
        /// The type and range that would be right.
        expected: String,
        /// Where it was given.
        origin: Origin,
    },
    /// The value is not among those allowed.
    #[error("{origin}: {key} = {value} is not allowed: it must be {allowed}")]
    OutOfRange {
        /// Full key.
        key: &'static str,
        /// The value given.
        value: String,
        /// The values that are allowed.
        allowed: String,
        /// Where it was given.
        origin: Origin,
    },
    /// An override is not `key=value`.
    #[error("--set {text}: an override is written key=value, for example --set datapath.width_bits=256")]
    Override {
        /// The text given.
        text: String,
    },
    /// Values that are allowed each, but not together.
    #[error("{}: {reason}; {remedy}", join(settings))]
    Contradiction {
        /// The values, each with its origin.
        settings: Vec<Setting>,
        /// Why they cannot stand together.
        reason: String,
        /// What would be right.
        remedy: String,
    },
}
