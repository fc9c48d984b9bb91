//! Builds a model at run time: Verilog to C++ (Verilator), C++ to a shared library, the library into this process.
//!
//! Never writes into the source tree: everything is in the cache (see [`CACHE_VARIABLE`]), keyed on all that the
//! result depends on.

mod cache;
mod command;
mod diagnostics;
mod error;
mod header;
mod job;
mod model;
mod points;
mod shim;
mod waveform;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

pub use cache::{CACHE_VARIABLE, CacheError};
pub(crate) use cache::{Key, target_directory};
pub use diagnostics::Diagnostic;
pub use error::{BuildError, LintError};
pub(crate) use header::PlacedPort;
pub use model::Model;
pub use waveform::Waveform;

use crate::library::Library;
use crate::model::ModelSource;
use crate::tool::{Compiler, ToolError, Verilator};
use cache::Cache;
use command::{command_error, file_error, run, text_of, write_sources};
use job::{ASSERTIONS, COMPILER_FLAGS, DESCRIPTION, Job, LIBRARY, model_flags, verilator_flags};
use model::{Covered, Description};
use waveform::pick_waveform;

/// What is compiled into a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) assertions: bool,
    pub(crate) random_initial: bool,
    pub(crate) tracing: bool,
    pub(crate) coverage: bool,
}

/// Builds models. The default: assertions on, random initial state, no tracing, no coverage.
#[derive(Debug, Clone)]
pub struct Builder {
    options: Options,
    quick: bool,
    cache: PathBuf,
    verilator: Option<PathBuf>,
    compiler: Option<String>,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// The default options and the default cache.
    #[must_use]
    pub fn new() -> Self {
        Self {
            options: Options {
                assertions: true,
                random_initial: true,
                tracing: false,
                coverage: false,
            },
            quick: false,
            cache: Cache::default_root(),
            verilator: None,
            compiler: None,
        }
    }

    /// Checks the assertions of the Verilog, those of `spraynic-rtl` among them, which stand under `RTL_ASSERTIONS` (default: on). One that fails ends the simulation with its message.
    #[must_use]
    pub fn assertions(mut self, on: bool) -> Self {
        self.options.assertions = on;
        self
    }

    /// Starts registers and memories, and replaces X, with random bits of the simulation's seed (default: on);
    /// otherwise with zero.
    #[must_use]
    pub fn random_initial(mut self, on: bool) -> Self {
        self.options.random_initial = on;
        self
    }

    /// Makes waveforms possible (default: off; it costs speed also while none is written).
    #[must_use]
    pub fn tracing(mut self, on: bool) -> Self {
        self.options.tracing = on;
        self
    }

    /// Counts how often each line of Verilog is reached (default: off; it costs speed): see [`crate::coverage`].
    #[must_use]
    pub fn coverage(mut self, on: bool) -> Self {
        self.options.coverage = on;
        self
    }

    /// Compiles in less than half the time, for large models that run little (default: off; what it costs in speed is in the chapter on performance).
    #[must_use]
    pub fn quick(mut self, on: bool) -> Self {
        self.quick = on;
        self
    }

    /// The cache's directory, instead of the default one.
    #[must_use]
    pub fn cache(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cache = directory.into();
        self
    }

    /// The Verilator to use (as [`Verilator::at`]), instead of the one that [`Verilator::find`] finds.
    #[must_use]
    pub fn verilator(mut self, path: impl Into<PathBuf>) -> Self {
        self.verilator = Some(path.into());
        self
    }

    /// The C++ compiler to use (as [`Compiler::at`]), instead of the one that [`Compiler::find`] finds.
    #[must_use]
    pub fn compiler(mut self, command: impl Into<String>) -> Self {
        self.compiler = Some(command.into());
        self
    }

    fn find_verilator(&self) -> Result<Verilator, ToolError> {
        match &self.verilator {
            Some(path) => Verilator::at(path),
            None => Verilator::find(),
        }
    }

    /// Builds the model, or takes it from the cache, and loads it.
    ///
    /// # Errors
    /// The source is wrong (Verilator's messages with file and line), a tool is missing or fails, or the cache cannot
    /// be written.
    pub fn build(&self, source: &ModelSource) -> Result<Arc<Model>, BuildError> {
        let source_error = |reason| BuildError::Source {
            top: source.top.clone(),
            reason,
        };
        source.check().map_err(source_error)?;
        let verilator = self.find_verilator()?;
        let compiler = match &self.compiler {
            Some(command) => Compiler::at(command)?,
            None => Compiler::find()?,
        };
        let waveform = self.options.tracing.then(|| pick_waveform(&verilator));
        let cache = Cache::at(self.cache.clone());
        let runtime_key = self.runtime_key(&verilator, &compiler, waveform);
        let mut key = Key::default()
            .part(&runtime_key)
            .part(format!("{:?}", self.options))
            .part(&source.top)
            .part(model_flags(self.quick).join(" "))
            .part(processor());
        for flag in verilator_flags(&self.options, waveform) {
            key = key.part(flag);
        }
        if self.options.coverage {
            key = key.part(format!("points {}", points::VERSION));
        }
        for (name, text) in &source.files {
            key = key.part(name).part(text);
        }
        let mut cached = true;
        let entry = cache.get_or_build("models", &key.finish(), |directory| {
            cached = false;
            let job = Job {
                source,
                verilator: &verilator,
                compiler: &compiler,
                options: &self.options,
                quick: self.quick,
                waveform,
            };
            let runtime = cache.get_or_build("runtime", &runtime_key, |directory| job.compile_runtime(directory))?;
            job.compile_model(directory, &runtime)
        })?;

        let path = entry.join(DESCRIPTION);
        let text = fs::read(&path).map_err(|error| file_error("read", &path, error))?;
        let description: Description =
            serde_json::from_slice(&text).map_err(|error| file_error("read", &path, error.into()))?;
        if !source.ports.is_empty() {
            header::compare(&source.ports, &description.ports).map_err(source_error)?;
        }
        Ok(Arc::new(Model {
            library: Library::load(&entry.join(LIBRARY))?,
            ports: description.ports,
            top: source.top.clone(),
            directory: entry,
            verilator: verilator.version,
            waveform,
            cached,
            coverage: self.options.coverage.then(|| Covered {
                points: description.points.into(),
                files: source.files.clone(),
            }),
        }))
    }

    /// Runs `verilator --lint-only -Wall`, with `RTL_ASSERTIONS` defined where [`Builder::assertions`] is on.
    ///
    /// # Errors
    /// Verilator says anything at all, warnings too; or it cannot be run.
    pub fn lint(&self, source: &ModelSource) -> Result<(), LintError> {
        source.check().map_err(|reason| BuildError::Source {
            top: source.top.clone(),
            reason,
        })?;
        let verilator = self.find_verilator().map_err(BuildError::from)?;
        let directory = tempfile::tempdir()
            .map_err(|error| file_error("write", &std::env::temp_dir(), error))
            .map_err(LintError::from)?;
        write_sources(source, directory.path())?;
        let mut command = verilator.command();
        command
            .current_dir(directory.path())
            .args(["--lint-only", "-Wall", "--top-module", &source.top]);
        command.args(self.options.assertions.then_some(ASSERTIONS));
        command.args(source.files.iter().map(|(name, _)| name));
        let output = run(&mut command, &source.top)?;
        let text = text_of(&output);
        let diagnostics = diagnostics::parse(&text);
        if !diagnostics.is_empty() {
            return Err(LintError::Found {
                top: source.top.clone(),
                diagnostics,
            });
        }
        if !output.status.success() {
            return Err(command_error(&command, &source.top, &output).into());
        }
        Ok(())
    }

    /// What the compiled runtime depends on.
    fn runtime_key(&self, verilator: &Verilator, compiler: &Compiler, waveform: Option<Waveform>) -> String {
        let mut key = Key::default()
            .part(format!("shim {}", shim::VERSION))
            .part(&verilator.identity)
            .part(&verilator.version)
            .part(&compiler.identity);
        for flag in shim::macros(&self.options, waveform)
            .iter()
            .chain(&COMPILER_FLAGS.map(str::to_owned))
        {
            key = key.part(flag);
        }
        for variable in ["CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH"] {
            key = key.part(std::env::var(variable).unwrap_or_default());
        }
        key.finish()
    }
}

/// Runs `verilator --lint-only -Wall` with the default [`Builder`].
///
/// # Errors
/// As [`Builder::lint`].
pub fn lint(source: &ModelSource) -> Result<(), LintError> {
    Builder::new().lint(source)
}

/// What `native` means here, where it can be told: different machines may share a cache.
fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags"));
    flags.unwrap_or_default().to_owned()
}
