//! `spraynic config`: the resolved configuration, as commented TOML or as JSON.

use std::io::Write as _;

use clap::Args;
use serde::Serialize;
use spraynic_config::{MIN_FRAME_BYTES, NicConfig};

use crate::error::{CliError, Verdict};
use crate::source::ConfigArguments;

/// Print the resolved configuration as TOML, each key with its meaning, unit and range
///
/// The output is a valid file for --config.
#[derive(Debug, Args)]
pub(crate) struct ConfigCommand {
    #[command(flatten)]
    config: ConfigArguments,
    /// Print JSON, with what follows from the configuration
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    preset: &'static str,
    config: &'a NicConfig,
    derived: Derived,
}

/// What follows from a configuration.
#[derive(Debug, Serialize)]
struct Derived {
    beat_bytes: u32,
    max_frame_bytes: u32,
    header_bytes: Vec<u32>,
    bus_gbps: f64,
    /// Frame sizes without FCS that the bus does not carry at the rate of the port: first and last of each range.
    uncarried_frame_bytes: Vec<[u32; 2]>,
    line_rate: String,
}

impl ConfigCommand {
    pub(crate) fn run(&self) -> Result<Verdict, CliError> {
        let resolved = self.config.resolve()?;
        let config = &resolved.config;
        let mut out = std::io::stdout().lock();
        if self.json {
            let report = Report {
                preset: resolved.preset.name(),
                config,
                derived: Derived {
                    beat_bytes: config.beat_bytes(),
                    max_frame_bytes: config.max_frame_bytes(),
                    header_bytes: config.header_lengths().into_iter().collect(),
                    bus_gbps: config.line_rate().bus_gbps(),
                    uncarried_frame_bytes: config
                        .line_rate()
                        .uncarried(MIN_FRAME_BYTES..=config.max_frame_bytes())
                        .iter()
                        .map(|range| [*range.start(), *range.end()])
                        .collect(),
                    line_rate: config.line_rate_statement(),
                },
            };
            serde_json::to_writer_pretty(&mut out, &report).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            out.write_all(config.to_commented_toml().as_bytes())?;
        }
        Ok(Verdict::Good)
    }
}
