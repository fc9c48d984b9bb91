//! The NICs of a run, each golden or Verilated.

use std::path::{Path, PathBuf};

use spraynic_config::NicConfig;
use spraynic_golden::spraynic_nic::Settings;
use spraynic_network::{Device, GoldenDevice};

use super::NicModel;
use super::device::{Options, VerilatedDevice};
use super::memory::MemoryTiming;

/// What a NIC is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The golden model.
    Golden,
    /// The Verilog, run by Verilator.
    Verilated,
}

/// How the memory of Verilated NICs answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// Always so.
    Fixed(MemoryTiming),
    /// Otherwise in each scenario: by chance, which follows from the NIC and the size of its memory, so that a scenario that is run again is the same.
    Varied,
}

/// Makes the NICs of runs.
#[derive(Debug, Clone)]
pub struct Nics {
    kinds: Vec<Kind>,
    model: Option<NicModel>,
    settings: Settings,
    options: Options,
    timing: Timing,
    waveform: Option<PathBuf>,
}

impl Nics {
    /// NIC n is the nth of `kinds`; further ones are as the last. Without a model all are golden.
    #[must_use]
    pub fn new(kinds: &[Kind], model: Option<NicModel>) -> Self {
        Self {
            kinds: kinds.to_vec(),
            model,
            settings: Settings::default(),
            options: Options::default(),
            timing: Timing::Varied,
            waveform: None,
        }
    }

    /// What hosts set in registers.
    #[must_use]
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// How memory answers, and the rest that is chosen for Verilated NICs.
    #[must_use]
    pub fn with_options(mut self, options: Options, timing: Timing) -> Self {
        (self.options, self.timing) = (options, timing);
        self
    }

    /// Verilated NICs write waveforms: one to this file, several each to one of its own ([`Nics::waveform_of`]).
    #[must_use]
    pub fn with_waveform(mut self, path: &Path) -> Self {
        self.waveform = Some(path.to_path_buf());
        self
    }

    /// What a NIC is.
    #[must_use]
    pub fn kind(&self, nic: usize) -> Kind {
        let kind = self.kinds.get(nic).or(self.kinds.last());
        match (kind, &self.model) {
            (Some(Kind::Verilated), Some(_)) => Kind::Verilated,
            _ => Kind::Golden,
        }
    }

    /// The file of a NIC's waveform in a run of so many NICs: `wave.fst`, or `wave-nic0.fst` where several are Verilated.
    #[must_use]
    pub fn waveform_of(&self, nic: usize, nics: usize) -> Option<PathBuf> {
        let path = self.waveform.as_ref()?;
        if self.kind(nic) != Kind::Verilated {
            return None;
        }
        if (0..nics).filter(|nic| self.kind(*nic) == Kind::Verilated).count() < 2 {
            return Some(path.clone());
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let end = path.extension().map(|end| format!(".{}", end.to_string_lossy()));
        Some(path.with_file_name(format!("{stem}-nic{nic}{}", end.unwrap_or_default())))
    }

    /// NIC n with so many bytes of memory, as `spraynic_network::check` wants them made.
    ///
    /// # Panics
    /// The model is not that of a NIC, or stops in reset, or the waveform cannot be written; a check makes it a failure.
    #[must_use]
    pub fn make(&self, nic: usize, config: &NicConfig, memory_bytes: usize) -> Box<dyn Device> {
        match (self.kind(nic), &self.model) {
            (Kind::Verilated, Some(model)) => Box::new(self.verilated(model, nic, memory_bytes)),
            _ => Box::new(GoldenDevice::new(config, self.settings, memory_bytes)),
        }
    }

    /// A Verilated NIC of the model.
    ///
    /// # Panics
    /// As [`Nics::make`].
    #[must_use]
    pub fn verilated(&self, model: &NicModel, nic: usize, memory_bytes: usize) -> VerilatedDevice {
        let seed = (memory_bytes as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ nic as u64;
        let options = Options {
            seed: self.options.seed ^ seed,
            memory: match self.timing {
                Timing::Fixed(timing) => timing,
                Timing::Varied => varied(seed),
            },
            ..self.options
        };
        let mut device = VerilatedDevice::new(model, &self.settings, memory_bytes, options)
            .unwrap_or_else(|error| panic!("{error}"));
        // A run has at least two NICs.
        if let Some(path) = self.waveform_of(nic, self.kinds.len().max(2)) {
            device.start_waveform(&path).unwrap_or_else(|error| panic!("{error}"));
        }
        device
    }
}

/// Memory that answers soon or late, with few pauses or many.
fn varied(seed: u64) -> MemoryTiming {
    let choice = |shift: u32, choices: &[u32]| choices[(seed >> shift) as usize % choices.len()];
    MemoryTiming {
        latency: choice(20, &[1, 8, 40, 200]),
        pauses: choice(30, &[0, 0, 20, 120]) as u8,
        outstanding: choice(40, &[2, 16, 256]) as usize,
    }
}
