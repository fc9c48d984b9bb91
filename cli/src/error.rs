//! What can go wrong on the command line, and the exit status of each.

use std::io;
use std::path::PathBuf;

use spraynic_config::ConfigError;
use spraynic_cosim::{BuildError, ReplayError, SimulationError, TraceError};

/// How a command that ran to its end went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// As it should.
    Good,
    /// It found what it looks for: a bad packet, a mismatch.
    FailureFound,
}

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The configuration is wrong.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// Arguments that the parser accepts but that make no sense.
    #[error("{0}")]
    Usage(String),
    /// A file or directory could not be read or written.
    #[error("{}: cannot {action}: {source}{}", path.display(), hint(source))]
    File {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A directory exists and holds what was not generated, or was changed since.
    #[error("{}", .0)]
    NotOurs(String),
    /// A file's content is wrong.
    #[error("{}: {message}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// A model cannot be built.
    #[error("{0}")]
    Build(#[from] BuildError),
    /// A waveform cannot be written.
    #[error("{0}")]
    Simulation(#[from] SimulationError),
    /// A trace cannot be read or written.
    #[error("{0}")]
    Trace(#[from] TraceError),
    /// Standard output does not take what is printed.
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

/// What to do about an error of the file system, where that is known.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; choose a place that you may write to, or change its permissions",
        io::ErrorKind::StorageFull => "; free some space",
        io::ErrorKind::ReadOnlyFilesystem => "; choose a place that can be written to",
        io::ErrorKind::NotADirectory => "; part of the path is a file, give another path",
        io::ErrorKind::IsADirectory => "; give a file",
        _ => "",
    }
}

impl CliError {
    /// Names the path in an error of the file system.
    pub(crate) fn file(path: impl Into<PathBuf>, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, action, source }
    }

    /// 2 for what the caller must write differently or install, 1 for all else.
    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            Self::Config(_)
            | Self::Usage(_)
            | Self::Build(BuildError::Tool(_))
            | Self::Trace(TraceError::Format { .. } | TraceError::Version { .. }) => 2,
            Self::Build(_) | Self::Simulation(_) | Self::Trace(TraceError::File { .. }) => 1,
            Self::File { .. } | Self::NotOurs(_) | Self::Content { .. } | Self::Print(_) => 1,
        }
    }
}

impl From<ReplayError> for CliError {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Build(error) => Self::Build(error),
            ReplayError::Simulation(error) => Self::Simulation(error),
        }
    }
}
