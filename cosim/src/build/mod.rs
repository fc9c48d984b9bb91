//! Builds a model at run time: Verilog to C++ (Verilator), C++ to a shared library, the library into this process.
//!
//! Never writes into the source tree: everything is in the cache (see [`CACHE_VARIABLE`]), keyed on all that the
//! result depends on.

mod cache;
mod diagnostics;
mod header;
mod points;
mod shim;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use cache::{CACHE_VARIABLE, CacheError};
pub(crate) use cache::{Key, target_directory};
pub use diagnostics::Diagnostic;
pub(crate) use header::PlacedPort;

use crate::coverage::{Coverage, Point, Report};
use crate::library::{Library, LibraryError};
use crate::model::ModelSource;
use crate::tool::{Compiler, ToolError, Verilator};
use cache::Cache;

/// File format of a waveform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Waveform {
    /// FST, compressed: GTKWave and Surfer read it.
    Fst,
    /// VCD, large. Used where the headers that FST needs are not installed.
    Vcd,
}

impl Waveform {
    /// Usual end of the file's name.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Fst => "fst",
            Self::Vcd => "vcd",
        }
    }
}

/// What is compiled into a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) assertions: bool,
    pub(crate) random_initial: bool,
    pub(crate) tracing: bool,
    pub(crate) coverage: bool,
}

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

/// What the cache keeps beside the shared library.
#[derive(Serialize, Deserialize)]
struct Description {
    ports: Vec<PlacedPort>,
    /// Points of coverage; none where it was built without.
    #[serde(default)]
    points: Vec<Point>,
}

/// A model that is built and loaded; any number of [`crate::Simulation`]s run it at the same time.
#[derive(Debug)]
pub struct Model {
    pub(crate) library: Library,
    pub(crate) ports: Vec<PlacedPort>,
    top: String,
    directory: PathBuf,
    verilator: String,
    waveform: Option<Waveform>,
    cached: bool,
    coverage: Option<Covered>,
}

/// What a model with coverage knows of it.
#[derive(Debug)]
struct Covered {
    points: Arc<[Point]>,
    files: Vec<(String, String)>,
}

impl Model {
    /// Name of the top module.
    #[must_use]
    pub fn top(&self) -> &str {
        &self.top
    }

    /// The entry of the cache that holds the shared library.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Version of the Verilator that built it.
    #[must_use]
    pub fn verilator_version(&self) -> &str {
        &self.verilator
    }

    /// Whether it was in the cache, and nothing was compiled.
    #[must_use]
    pub fn was_cached(&self) -> bool {
        self.cached
    }

    /// The waveform format that it writes, when it was built with tracing.
    #[must_use]
    pub fn waveform(&self) -> Option<Waveform> {
        self.waveform
    }

    /// All points of its Verilog, none of them reached; there are none where it was built without [`Builder::coverage`].
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        Coverage::nothing(self.points().cloned().unwrap_or_default())
    }

    /// The points, where it was built with coverage.
    pub(crate) fn points(&self) -> Option<&Arc<[Point]>> {
        self.coverage.as_ref().map(|covered| &covered.points)
    }

    /// Says which lines of its Verilog a coverage reached.
    #[must_use]
    pub fn coverage_report(&self, coverage: &Coverage) -> Report {
        let files = self.coverage.as_ref().map_or(&[][..], |covered| &covered.files);
        Report::new(&self.top, coverage, files)
    }

    /// The ports, `clk` with them, in the order of their declaration.
    pub fn ports(&self) -> impl Iterator<Item = crate::model::Port> + '_ {
        self.ports.iter().map(|port| crate::model::Port {
            name: port.name.clone(),
            width: port.width,
            direction: if port.input {
                crate::model::Direction::Input
            } else {
                crate::model::Direction::Output
            },
        })
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

/// Switches the assertions of `spraynic-rtl` on.
const ASSERTIONS: &str = "-DRTL_ASSERTIONS";
const LIBRARY: &str = "model.so";
const DESCRIPTION: &str = "ports.json";
const COMPILER_FLAGS: [&str; 4] = ["-std=c++17", "-fPIC", "-fvisibility=hidden", "-w"];

/// Flags of the model's own code. It runs where it is compiled, so it may use every instruction of this processor: a bus of 512 bits
/// is otherwise moved in 16 words.
fn model_flags(quick: bool) -> &'static [&'static str] {
    match (quick, cfg!(target_arch = "x86_64")) {
        (false, true) => &["-O3", "-march=native"],
        (false, false) => &["-O3"],
        (true, true) => &["-O1", "-march=native"],
        (true, false) => &["-O1"],
    }
}

/// What `native` means here, where it can be told: different machines may share a cache.
fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags"));
    flags.unwrap_or_default().to_owned()
}

fn verilator_flags(options: &Options, waveform: Option<Waveform>) -> Vec<String> {
    let mut flags: Vec<&str> = vec![
        "--cc",
        "--prefix",
        "Vm",
        "-O3",
        "--no-timing",
        "--timescale",
        "1ns/1ns",
        // Lint is a function of its own; here only errors count.
        "-Wno-fatal",
        "-Wno-lint",
        "-Wno-style",
    ];
    if options.assertions {
        flags.extend(["--assert", ASSERTIONS]);
    } else {
        flags.push("--no-assert");
    }
    if options.random_initial {
        flags.extend(["--x-assign", "unique", "--x-initial", "unique"]);
    } else {
        flags.extend(["--x-assign", "0", "--x-initial", "0"]);
    }
    match waveform {
        Some(Waveform::Fst) => flags.extend(["--trace-fst", "--trace-structs"]),
        Some(Waveform::Vcd) => flags.extend(["--trace", "--trace-structs"]),
        None => {}
    }
    if options.coverage {
        flags.push("--coverage-line");
    }
    flags.into_iter().map(str::to_owned).collect()
}

/// FST where the headers of the compression libraries are there, else VCD.
fn pick_waveform(verilator: &Verilator) -> Waveform {
    let needed: &[&str] = if verilator.root.join("include/fstcpp").is_dir() {
        &["zlib.h", "lz4.h"]
    } else {
        &["zlib.h"]
    };
    let mut places: Vec<PathBuf> = vec!["/usr/include".into(), "/usr/local/include".into()];
    for variable in ["CPATH", "CPLUS_INCLUDE_PATH"] {
        places.extend(std::env::var_os(variable).iter().flat_map(std::env::split_paths));
    }
    let there = |name: &&str| places.iter().any(|place| place.join(name).is_file());
    if needed.iter().all(there) {
        Waveform::Fst
    } else {
        Waveform::Vcd
    }
}

/// One build, in a directory of its own.
struct Job<'a> {
    source: &'a ModelSource,
    verilator: &'a Verilator,
    compiler: &'a Compiler,
    options: &'a Options,
    quick: bool,
    waveform: Option<Waveform>,
}

impl Job<'_> {
    fn compile(&self, directory: &Path) -> Command {
        let include = self.verilator.root.join("include");
        let mut command = self.compiler.command();
        command
            .current_dir(directory)
            .args(COMPILER_FLAGS)
            .args(shim::macros(self.options, self.waveform));
        if self.compiler.is_gcc() {
            // Otherwise libraries of different Verilators share the symbols that GCC marks as unique in a process.
            command.arg("-fno-gnu-unique");
        }
        command
            .args(["-include", HOOKS_FILE])
            .arg("-I.")
            .arg("-I")
            .arg(&include)
            .arg("-I")
            .arg(include.join("vltstd"));
        command
    }

    /// Compiles the parts of Verilator's runtime that the options need, one object each.
    fn compile_runtime(&self, directory: &Path) -> Result<(), BuildError> {
        write_file(&directory.join(HOOKS_FILE), shim::HOOKS)?;
        let sources = shim::runtime_sources(self.options, self.waveform);
        let results: Vec<Result<(), BuildError>> = std::thread::scope(|scope| {
            let threads: Vec<_> = sources
                .iter()
                .map(|name| {
                    scope.spawn(move || {
                        let mut command = self.compile(directory);
                        let source = self.verilator.root.join("include").join(name);
                        command.args(["-O1", "-c"]).arg(source).arg("-o").arg(object_name(name));
                        self.run_checked(&mut command)
                    })
                })
                .collect();
            let failed = |_| Err(command_panic(&self.source.top));
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(failed))
                .collect()
        });
        results.into_iter().collect()
    }

    /// Verilog to a shared library and a description of its ports.
    fn compile_model(&self, entry: &Path, runtime: &Path) -> Result<(), BuildError> {
        let work = entry.join("work");
        fs::create_dir(&work).map_err(|error| file_error("write", &work, error))?;
        write_sources(self.source, &work)?;
        self.verilate(&work)?;

        let objects = work.join("obj");
        let header = objects.join("Vm.h");
        let text = fs::read_to_string(&header).map_err(|error| file_error("read", &header, error))?;
        let source_error = |reason| BuildError::Source {
            top: self.source.top.clone(),
            reason,
        };
        let ports = header::parse(&text).map_err(source_error)?;
        let found: Vec<crate::model::Port> = ports
            .iter()
            .map(|port| match port.input {
                true => crate::model::Port::input(&port.name, port.width),
                false => crate::model::Port::output(&port.name, port.width),
            })
            .collect();
        crate::model::check_ports(&found).map_err(source_error)?;

        let mut sources: Vec<String> = fs::read_dir(&objects)
            .map_err(|error| file_error("read", &objects, error))?
            .flatten()
            .map(|file| file.file_name().to_string_lossy().into_owned())
            .filter(|name| name.ends_with(".cpp"))
            .collect();
        sources.sort();
        let points = if self.options.coverage {
            read_points(&objects)?.map_err(source_error)?
        } else {
            Vec::new()
        };
        write_file(&objects.join(HOOKS_FILE), shim::HOOKS)?;
        let unity = shim::unity(&sources, &ports, self.options, self.waveform, self.quick);
        write_file(&objects.join("unity.cpp"), &(unity + &shim::counts(points.len())))?;
        let mut command = self.compile(&objects);
        command.args(model_flags(self.quick)).args(["-shared", "unity.cpp"]);
        command.args(
            shim::runtime_sources(self.options, self.waveform)
                .iter()
                .map(|n| runtime.join(object_name(n))),
        );
        if cfg!(target_os = "linux") {
            command.arg("-Wl,-Bsymbolic");
        }
        command.arg("-o").arg(entry.join(LIBRARY)).arg("-pthread");
        if self.waveform == Some(Waveform::Fst) {
            command.arg("-lz");
            if self.verilator.root.join("include/fstcpp").is_dir() {
                command.arg("-llz4");
            }
        }
        self.run_checked(&mut command)?;
        let description = serde_json::to_string(&Description { ports, points })
            .map_err(|error| file_error("write", &entry.join(DESCRIPTION), error.into()))?;
        write_file(&entry.join(DESCRIPTION), &description)?;
        fs::remove_dir_all(&work).map_err(|error| file_error("write", &work, error))
    }

    fn verilate(&self, work: &Path) -> Result<(), BuildError> {
        let mut command = self.verilator.command();
        command
            .current_dir(work)
            .args(verilator_flags(self.options, self.waveform));
        command.args(["--Mdir", "obj", "--top-module", &self.source.top]);
        command.args(self.source.files.iter().map(|(name, _)| name));
        let output = run(&mut command, &self.source.top)?;
        if output.status.success() {
            return Ok(());
        }
        let mut diagnostics = diagnostics::parse(&text_of(&output));
        diagnostics.retain(|diagnostic| diagnostic.is_error);
        if diagnostics.is_empty() {
            return Err(command_error(&command, &self.source.top, &output));
        }
        Err(BuildError::Verilator {
            top: self.source.top.clone(),
            diagnostics,
        })
    }

    fn run_checked(&self, command: &mut Command) -> Result<(), BuildError> {
        let output = run(command, &self.source.top)?;
        if output.status.success() {
            Ok(())
        } else {
            Err(command_error(command, &self.source.top, &output))
        }
    }
}

/// Reads the points of coverage from the Verilated sources, and gives these plain counters.
fn read_points(objects: &Path) -> Result<Result<Vec<Point>, String>, BuildError> {
    let mut texts = Vec::new();
    let entries = fs::read_dir(objects).map_err(|error| file_error("read", objects, error))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.to_string_lossy();
        if name.ends_with(".cpp") || name.ends_with(".h") {
            let text = fs::read_to_string(&path).map_err(|error| file_error("read", &path, error))?;
            write_file(&path, &points::with_plain_counters(&text))?;
            texts.push(text);
        }
    }
    Ok(points::parse(texts.iter().map(String::as_str)))
}

const HOOKS_FILE: &str = "spraynic_hooks.h";

fn object_name(source: &str) -> String {
    source.replace(".cpp", ".o")
}

fn write_sources(source: &ModelSource, directory: &Path) -> Result<(), BuildError> {
    source
        .files
        .iter()
        .try_for_each(|(name, text)| write_file(&directory.join(name), text))
}

fn write_file(path: &Path, text: &str) -> Result<(), BuildError> {
    fs::write(path, text).map_err(|error| file_error("write", path, error))
}

fn file_error(action: &'static str, path: &Path, source: io::Error) -> BuildError {
    BuildError::File {
        action,
        path: path.to_path_buf(),
        source,
    }
}

fn run(command: &mut Command, top: &str) -> Result<Output, BuildError> {
    command.output().map_err(|error| BuildError::Command {
        tool: command.get_program().to_string_lossy().into_owned(),
        top: top.to_owned(),
        status: "it cannot be started".to_owned(),
        output: error.to_string(),
    })
}

fn text_of(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout)
    )
}

fn command_error(command: &Command, top: &str, output: &Output) -> BuildError {
    let text = text_of(output);
    let mut end = text.len().min(4000);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    BuildError::Command {
        tool: command.get_program().to_string_lossy().into_owned(),
        top: top.to_owned(),
        status: output.status.to_string(),
        output: text[..end].to_owned(),
    }
}

fn command_panic(top: &str) -> BuildError {
    BuildError::Command {
        tool: "the thread that runs the compiler".to_owned(),
        top: top.to_owned(),
        status: "panic".to_owned(),
        output: String::new(),
    }
}
