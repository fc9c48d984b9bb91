//! A run as a file that a person can read, and the same run again, with a waveform if wanted.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use spraynic_network::trace::{self, TRACE_VERSION, TraceError};

use crate::bench::{BenchError, Limits, Outcome, Stimulus, run};
use crate::build::{BuildError, Builder, Waveform};
use crate::model::ModelSource;
use crate::scoreboard::{Expectation, Mismatch};
use crate::simulation::{Simulation, SimulationError};

/// What goes in and what should come out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Case {
    /// What goes in.
    pub stimulus: Stimulus,
    /// What should come out.
    #[serde(default)]
    pub expectation: Expectation,
}

/// Why a case failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CaseError {
    /// The run did not end, or broke a rule.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// Something else came out than expected.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// The test's own check of the outcome failed.
    #[error("{0}")]
    Judge(String),
    /// The model did something else after a reset than from its start.
    #[error("a reset in the middle does not clear the model: {0}")]
    Reset(String),
}

impl Case {
    /// Runs the case and compares.
    ///
    /// # Errors
    /// The run fails, or gives something else than expected.
    pub fn run(&self, simulation: &mut Simulation, limits: Limits) -> Result<Outcome, CaseError> {
        let outcome = run(simulation, &self.stimulus, limits)?;
        self.expectation.check(&outcome)?;
        Ok(outcome)
    }
}

/// A saved case, with what is needed to build its model again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// [`TRACE_VERSION`].
    pub version: u32,
    /// Name of the block.
    pub block: String,
    /// What the block was generated from, as text: the TOML of a `NicConfig`, or what the test says.
    #[serde(default)]
    pub config: String,
    /// Seed of the model's initial state.
    #[serde(default)]
    pub seed: u64,
    /// Why it was saved: the message of the failure.
    #[serde(default)]
    pub reason: String,
    /// The case.
    pub case: Case,
}

impl Trace {
    /// A trace of a case.
    #[must_use]
    pub fn new(block: &str, config: &str, seed: u64, case: Case, reason: String) -> Self {
        Self {
            version: TRACE_VERSION,
            block: block.to_owned(),
            config: config.to_owned(),
            seed,
            reason,
            case,
        }
    }

    /// Writes the file, whole or not at all; makes its directory where it is missing.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), TraceError> {
        trace::save(self, path)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is no trace of this version.
    pub fn load(path: &Path) -> Result<Self, TraceError> {
        trace::load(path)
    }
}

/// What a replay gave.
#[derive(Debug)]
pub struct Replay {
    /// The verdict, the outcome with it when the run came to its end and was right.
    pub result: Result<Outcome, CaseError>,
    /// The waveform that was written; cycle t of the messages is at the times `10 * (t + reset_clocks)` ns to 9 ns later.
    pub waveform: Option<PathBuf>,
    /// Clocks of reset before cycle 0.
    pub reset_clocks: u64,
}

/// A replay cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The model cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The waveform cannot be written.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
}

/// Runs a trace again. With a waveform, a second library of the model is built, with tracing; the file's end becomes
/// `fst`, or `vcd` where the headers that FST needs are not installed.
///
/// # Errors
/// The model cannot be built or the waveform cannot be written; that the case fails again is no error of the replay.
pub fn replay(
    trace: &Trace,
    source: &ModelSource,
    builder: &Builder,
    limits: Limits,
    waveform: Option<&Path>,
) -> Result<Replay, ReplayError> {
    let model = builder.clone().tracing(waveform.is_some()).build(source)?;
    let mut simulation = Simulation::new(&model, trace.seed);
    let format = model.waveform().unwrap_or(Waveform::Fst);
    let waveform = waveform.map(|path| path.with_extension(format.extension()));
    if let Some(path) = &waveform {
        simulation.start_waveform(path)?;
    }
    let result = trace.case.run(&mut simulation, limits);
    simulation.stop_waveform();
    Ok(Replay {
        result,
        waveform,
        reset_clocks: trace.case.stimulus.reset_clocks,
    })
}
