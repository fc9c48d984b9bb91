//! Runs the tools, and writes what they read; what goes wrong names the command or the file.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Output};

use super::BuildError;
use crate::model::ModelSource;

pub(super) fn write_sources(source: &ModelSource, directory: &Path) -> Result<(), BuildError> {
    source
        .files
        .iter()
        .try_for_each(|(name, text)| write_file(&directory.join(name), text))
}

pub(super) fn write_file(path: &Path, text: &str) -> Result<(), BuildError> {
    fs::write(path, text).map_err(|error| file_error("write", path, error))
}

pub(super) fn file_error(action: &'static str, path: &Path, source: io::Error) -> BuildError {
    BuildError::File {
        action,
        path: path.to_path_buf(),
        source,
    }
}

pub(super) fn run(command: &mut Command, top: &str) -> Result<Output, BuildError> {
    command.output().map_err(|error| BuildError::Command {
        tool: command.get_program().to_string_lossy().into_owned(),
        top: top.to_owned(),
        status: "it cannot be started".to_owned(),
        output: error.to_string(),
    })
}

pub(super) fn text_of(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout)
    )
}

pub(super) fn command_error(command: &Command, top: &str, output: &Output) -> BuildError {
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

pub(super) fn command_panic(top: &str) -> BuildError {
    BuildError::Command {
        tool: "the thread that runs the compiler".to_owned(),
        top: top.to_owned(),
        status: "panic".to_owned(),
        output: String::new(),
    }
}
