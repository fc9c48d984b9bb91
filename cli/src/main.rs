//! The spraynic command line: reads arguments, calls the libraries, prints what they say. It has no logic of its own.
//!
//! Exit status: 0 done; 1 a failure was found (bad packet, mismatch, scenario that fails), or a file other than that of `--config` cannot be read or
//! written; 2 wrong usage or configuration, or a tool is missing.

mod config_command;
mod cosim;
mod decode;
mod duration;
mod error;
mod fuzz;
mod generate;
mod library;
mod nics;
mod progress;
mod replay;
mod source;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::{CliError, Verdict};

/// Generates the RTL of a multipath RDMA NIC datapath, and checks it against a bit-accurate model.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Config(config_command::ConfigCommand),
    Generate(generate::GenerateCommand),
    Cosim(cosim::CosimCommand),
    Fuzz(fuzz::FuzzCommand),
    Replay(replay::ReplayCommand),
    Decode(decode::DecodeCommand),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Config(command) => command.run(),
        Command::Generate(command) => command.run(&library::Hdl),
        Command::Cosim(command) => command.run(),
        Command::Fuzz(command) => command.run(),
        Command::Replay(command) => command.run(),
        Command::Decode(command) => command.run(),
    };
    match result {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::FailureFound) => ExitCode::from(1),
        // Whoever read our output has seen enough (`| head`): nothing is wrong.
        Err(CliError::Print(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("spraynic: {error}");
            ExitCode::from(error.exit_status())
        }
    }
}
