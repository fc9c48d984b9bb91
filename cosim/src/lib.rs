//! Builds Verilated models at run time, drives them and scores them against the golden model.

mod bench;
mod build;
mod library;
pub mod model;
mod property;
pub mod scoreboard;
mod simulation;
mod stream;
pub mod tool;
mod trace;
pub mod transmit;

pub use bench::{
    Agent, Answer, Bench, BenchError, InputValue, Limits, Outcome, SinkOutcome, SinkStimulus, SourceOutcome,
    SourceStimulus, Stimulus, run,
};
pub use build::{BuildError, Builder, CACHE_VARIABLE, CacheError, Diagnostic, LintError, Model, Waveform, lint};
pub use library::LibraryError;
pub use model::{Direction, ModelSource, Port};
pub use property::{Property, PropertyError, SharedModel, Trial};
pub use scoreboard::{Expectation, ExpectedStream, Format, FrameMismatch, Mismatch};
pub use simulation::{Input, Output, Simulation, SimulationError};
pub use stream::{Frame, Pattern, Received, SetupError, SinkChecks, StreamError, StreamFault, Timing};
pub use tool::{Compiler, ToolError, Verilator};
pub use trace::{Case, CaseError, Replay, ReplayError, TRACE_VERSION, Trace, TraceError, replay};
