//! One build: Verilog to C++, C++ to objects and a shared library, in a directory of its own.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::command::{command_error, command_panic, file_error, run, text_of, write_file, write_sources};
use super::model::Description;
use super::{BuildError, Options, Waveform, diagnostics, header, points, shim};
use crate::coverage::Point;
use crate::model::ModelSource;
use crate::tool::{Compiler, Verilator};

pub(super) const LIBRARY: &str = "model.so";
pub(super) const DESCRIPTION: &str = "ports.json";
pub(super) const COMPILER_FLAGS: [&str; 4] = ["-std=c++17", "-fPIC", "-fvisibility=hidden", "-w"];
/// Switches the assertions of `spraynic-rtl` on.
pub(super) const ASSERTIONS: &str = "-DRTL_ASSERTIONS";
const HOOKS_FILE: &str = "spraynic_hooks.h";

/// One build, in a directory of its own.
pub(super) struct Job<'a> {
    pub(super) source: &'a ModelSource,
    pub(super) verilator: &'a Verilator,
    pub(super) compiler: &'a Compiler,
    pub(super) options: &'a Options,
    pub(super) quick: bool,
    pub(super) waveform: Option<Waveform>,
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
    pub(super) fn compile_runtime(&self, directory: &Path) -> Result<(), BuildError> {
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
    pub(super) fn compile_model(&self, entry: &Path, runtime: &Path) -> Result<(), BuildError> {
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

fn object_name(source: &str) -> String {
    source.replace(".cpp", ".o")
}

/// Flags of the model's own code. It runs where it is compiled, so it may use every instruction of this processor: a bus of 512 bits
/// is otherwise moved in 16 words.
pub(super) fn model_flags(quick: bool) -> &'static [&'static str] {
    match (quick, cfg!(target_arch = "x86_64")) {
        (false, true) => &["-O3", "-march=native"],
        (false, false) => &["-O3"],
        (true, true) => &["-O1", "-march=native"],
        (true, false) => &["-O1"],
    }
}

pub(super) fn verilator_flags(options: &Options, waveform: Option<Waveform>) -> Vec<String> {
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
