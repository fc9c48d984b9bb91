//! `--nics`: which NICs of a scenario are golden and which are Verilated, and their making.

use std::path::Path;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use spraynic_config::NicConfig;
use spraynic_cosim::nic::{self, NicModel, Nics};
use spraynic_cosim::{Builder, Model};
use spraynic_network::Device;
use spraynic_network::sabotage::{Sabotage, Sabotaged};

use crate::error::CliError;
use crate::progress::Progress;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// The golden model
    Golden,
    /// The generated Verilog, run by Verilator
    Verilated,
}

/// The NICs of a scenario.
#[derive(Debug, Args)]
pub(crate) struct NicArguments {
    /// What NIC 0, NIC 1, ... are; further ones are as the last
    #[arg(
        long,
        value_name = "KIND,...",
        value_delimiter = ',',
        default_value = "golden",
        value_enum
    )]
    nics: Vec<Kind>,
    /// Spoil NIC 0, to see a failure
    #[arg(long, hide = true, value_parser = crate::fuzz::sabotage_parser())]
    pub(crate) sabotage: Option<Sabotage>,
}

impl NicArguments {
    /// Whether one of the NICs is Verilated.
    pub(crate) fn has_verilated(&self) -> bool {
        self.nics.contains(&Kind::Verilated)
    }

    /// What the NICs are, in words, before the name of their configuration: `two golden NICs`.
    pub(crate) fn words(&self, count: &str) -> String {
        let first = self.nics.first();
        match first {
            Some(kind) if self.nics.iter().all(|other| other == kind) => format!("{count}{} NICs", kind.word()),
            _ => {
                let words: Vec<&str> = self.nics.iter().map(|kind| kind.word()).collect();
                format!("{count}NICs ({})", words.join(", "))
            }
        }
    }

    /// The option as it was given, for a command that runs the same again; empty: it was not.
    pub(crate) fn option(&self) -> String {
        let words: Vec<&str> = self.nics.iter().map(|kind| kind.word()).collect();
        if self.has_verilated() {
            format!(" --nics {}", words.join(","))
        } else {
            String::new()
        }
    }

    /// What makes the NICs of a configuration; the model is built, with tracing for a waveform and with counters of its lines for `coverage`.
    pub(crate) fn factory(
        &self,
        config: &NicConfig,
        waveform: Option<&Path>,
        coverage: bool,
    ) -> Result<Factory, CliError> {
        let model = if self.has_verilated() {
            let builder = Builder::new()
                .quick(true)
                .tracing(waveform.is_some())
                .coverage(coverage);
            Some(Progress::during("building the model", || {
                NicModel::build(&builder, config)
            })?)
        } else {
            None
        };
        let kinds: Vec<nic::Kind> = self.nics.iter().map(|kind| kind.of_cosim()).collect();
        let format = model.as_ref().and_then(|model| model.model().waveform());
        let mut nics = Nics::new(&kinds, model.clone());
        if let (Some(path), Some(format)) = (waveform, format) {
            nics = nics.with_waveform(&path.with_extension(format.extension()));
        }
        Ok(Factory {
            model,
            nics,
            sabotage: self.sabotage,
        })
    }
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Golden => "golden",
            Self::Verilated => "verilated",
        }
    }

    fn of_cosim(self) -> nic::Kind {
        match self {
            Self::Golden => nic::Kind::Golden,
            Self::Verilated => nic::Kind::Verilated,
        }
    }
}

/// Makes NICs for runs.
pub(crate) struct Factory {
    model: Option<NicModel>,
    nics: Nics,
    sabotage: Option<Sabotage>,
}

impl Factory {
    /// NIC n, as `check` wants it.
    pub(crate) fn make(&self, nic: usize, config: &NicConfig, memory_bytes: usize) -> Sabotaged<Box<dyn Device>> {
        let device = self.nics.make(nic, config, memory_bytes);
        Sabotaged::new(device, self.sabotage.filter(|_| nic == 0))
    }

    /// The model, where one of the NICs is Verilated.
    pub(crate) fn model(&self) -> Option<&Arc<Model>> {
        self.model.as_ref().map(NicModel::model)
    }

    /// The waveforms that a run of so many NICs writes.
    pub(crate) fn waveforms(&self, nics: usize) -> Vec<String> {
        let files = (0..nics).filter_map(|nic| self.nics.waveform_of(nic, nics));
        files.map(|path| path.display().to_string()).collect()
    }
}
