//! Why a model was not built, or was found wrong by lint.

use std::io;
use std::path::PathBuf;

use super::{CacheError, Diagnostic, diagnostics};
use crate::library::LibraryError;
use crate::tool::ToolError;

/// Why a model was not built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The source cannot be a model.
    #[error("model {top}: {reason}")]
    Source {
        /// Top module.
        top: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Verilator or the compiler is missing.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// Verilator found errors.
    #[error("Verilator refuses model {top}:{}", diagnostics::listing(.diagnostics))]
    Verilator {
        /// Top module.
        top: String,
        /// What it said, file and line with it.
        diagnostics: Vec<Diagnostic>,
    },
    /// A tool failed in a way that is not about the Verilog.
    #[error("{tool} failed on model {top} ({status}):\n{output}")]
    Command {
        /// The program.
        tool: String,
        /// Top module.
        top: String,
        /// How it ended.
        status: String,
        /// The beginning of what it said.
        output: String,
    },
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A file cannot be read or written.
    #[error("cannot {action} {path}: {source}")]
    File {
        /// "read" or "write".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The shared library cannot be loaded.
    #[error(transparent)]
    Library(#[from] LibraryError),
}

/// Lint messages: what `verilator --lint-only -Wall` says.
#[derive(Debug, thiserror::Error)]
pub enum LintError {
    /// Verilator cannot be run.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// There are messages.
    #[error("verilator --lint-only -Wall finds {} problem(s) in {top}:{}", .diagnostics.len(), diagnostics::listing(.diagnostics))]
    Found {
        /// Top module.
        top: String,
        /// All messages.
        diagnostics: Vec<Diagnostic>,
    },
}
