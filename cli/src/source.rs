//! The arguments that choose a configuration, shared by all commands that need one.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use spraynic_config::{ConfigError, Preset, Resolved, Source};

/// Which NIC: preset, then file, then overrides; the later wins, key by key.
#[derive(Debug, Args)]
#[command(next_help_heading = "Configuration")]
pub(crate) struct ConfigArguments {
    /// Set of defaults to start from [default: the file's `preset`, or 100g]
    #[arg(long, value_parser = PossibleValuesParser::new(Preset::NAMES)
        .try_map(|name| Preset::from_name(&name).ok_or("unknown preset")))]
    preset: Option<Preset>,
    /// TOML file with some or all of the keys that `spraynic config` prints
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Override of one key, as in --set datapath.width_bits=256 (may be repeated)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

impl ConfigArguments {
    /// Reads and checks the configuration.
    pub(crate) fn resolve(&self) -> Result<Resolved, ConfigError> {
        Source {
            preset: self.preset,
            file: self.config.clone(),
            overrides: self.overrides.clone(),
        }
        .resolve()
    }
}
