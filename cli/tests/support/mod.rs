//! Runs the binary and looks at what it says.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a run of the binary said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Exit status.
    pub(crate) status: i32,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

/// Runs `spraynic` in `directory`.
#[track_caller]
pub(crate) fn spraynic_in(directory: &Path, arguments: &[&str]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_spraynic"))
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Run {
        status: output.status.code().expect("ended by a signal"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs `spraynic` where it does not matter.
#[track_caller]
pub(crate) fn spraynic(arguments: &[&str]) -> Run {
    spraynic_in(Path::new(env!("CARGO_MANIFEST_DIR")), arguments)
}

impl Run {
    /// Ended well, and said nothing on standard error.
    #[track_caller]
    pub(crate) fn good(self) -> String {
        assert_eq!((self.status, self.err.as_str()), (0, ""), "{self:?}");
        self.out
    }

    /// Ended with this status and exactly this message, and printed no result.
    #[track_caller]
    pub(crate) fn refused(self, status: i32, message: &str) {
        assert_eq!(self.err, format!("spraynic: {message}\n"));
        assert_eq!((self.status, self.out.as_str()), (status, ""));
    }

    /// Ended with this status and a message that holds all these parts.
    #[track_caller]
    pub(crate) fn refused_with(self, status: i32, parts: &[&str]) {
        assert_eq!(self.status, status, "{self:?}");
        for part in parts {
            assert!(self.err.contains(part), "`{part}` is not in: {}", self.err);
        }
    }
}

/// A capture of the workspace's test data.
pub(crate) fn capture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data").join(name)
}

/// A directory's files and their content, by path.
pub(crate) fn tree(directory: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let mut found = std::collections::BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                found.insert(
                    path.strip_prefix(directory).unwrap().to_owned(),
                    std::fs::read(&path).unwrap(),
                );
            }
        }
    }
    found
}
