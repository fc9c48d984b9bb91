//! Builds Verilated models at run time, drives them and scores them against the golden model.

mod bench;
mod build;
mod library;
pub mod model;
mod simulation;
mod stream;
pub mod tool;

pub use bench::{
    Agent, Answer, Bench, BenchError, InputValue, Limits, Outcome, SinkOutcome, SinkStimulus, SourceOutcome,
    SourceStimulus, Stimulus, run,
};
pub use build::{BuildError, Builder, CACHE_VARIABLE, CacheError, Diagnostic, LintError, Model, Waveform, lint};
pub use library::LibraryError;
pub use model::{Direction, ModelSource, Port};
pub use simulation::{Input, Output, Simulation, SimulationError};
pub use stream::{Frame, Pattern, Received, SetupError, SinkChecks, StreamError, StreamFault, Timing};
pub use tool::{Compiler, ToolError, Verilator};
