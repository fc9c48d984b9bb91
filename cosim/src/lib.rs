//! Builds Verilated models at run time, drives them and scores them against the golden model.
//!
//! It never generates hardware and never says what is right: the Verilog comes in as a [`ModelSource`], what should come
//! out as an [`Expectation`].
//!
//! | | |
//! |---|---|
//! | [`Builder`] | Verilog to a loaded [`Model`], from the cache where it is there |
//! | [`Simulation`] | one running model: ports by name, one call a clock |
//! | [`Stimulus`], [`Bench`], [`Agent`] | streams of frames with gaps and back-pressure, run to the end; AXI4-Stream's rules checked |
//! | [`Expectation`] | the scoreboard: the first wrong frame, field by field |
//! | [`Property`] | proptest cases against one model; a failure is shrunk and saved |
//! | [`nic::VerilatedDevice`] | the whole NIC as a device of `spraynic_network` |
//! | [`Coverage`] | which lines of the Verilog were reached, where the model was built to count them |
//! | [`Trace`], [`replay()`] | the saved case, run again, with a waveform |
//!
//! A test of a block:
//!
//! ```no_run
//! use proptest::prelude::*;
//! use spraynic_cosim::{
//!     Case, Expectation, Format, Frame, ModelSource, Pattern, Property, PropertyError, SharedModel, SinkChecks, Stimulus,
//! };
//!
//! // Built once for all tests of the program. From the construction library: `ModelSource::from_definition`.
//! static MODEL: SharedModel =
//!     SharedModel::new(|| ModelSource::from_verilog("skid_buffer", include_str!("../tests/data/skid_buffer.v")));
//!
//! fn frames_pass_unchanged() -> Result<(), PropertyError> {
//!     let frames = prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..20);
//!     let inputs = (frames, Pattern::strategy(), Pattern::strategy());
//!     Property::new("skid_buffer", &MODEL).cases(200).check(inputs, |(frames, gaps, stalls)| {
//!         let sent: Vec<Frame> = frames.iter().map(|bytes| Frame::new(bytes.clone())).collect();
//!         // The golden model of a skid buffer is the identity.
//!         let expected = sent.clone();
//!         let count = expected.len() as u64;
//!         let checks = SinkChecks { no_bubble_while: vec!["s_axis".into()], ..SinkChecks::default() };
//!         Case {
//!             stimulus: Stimulus::default()
//!                 .source("s_axis", gaps.clone(), sent)
//!                 .sink("m_axis", stalls.clone(), checks),
//!             expectation: Expectation::default()
//!                 .stream("m_axis", Format::Bytes, expected)
//!                 .counter("frames", count),
//!         }
//!     })
//! }
//! # frames_pass_unchanged().unwrap();
//! ```

mod bench;
mod build;
pub mod coverage;
mod library;
pub mod model;
pub mod nic;
mod property;
pub mod receive;
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
pub use coverage::Coverage;
pub use library::LibraryError;
pub use model::{Direction, ModelSource, Port};
pub use property::{Property, PropertyError, SharedModel, Trial};
pub use scoreboard::{Expectation, ExpectedStream, Format, FrameMismatch, Mismatch};
pub use simulation::{Input, Output, Simulation, SimulationError};
pub use spraynic_network::trace::{TRACE_VERSION, TraceError};
pub use stream::{Frame, Pattern, Received, SetupError, SinkChecks, StreamError, StreamFault, Timing};
pub use tool::{Compiler, ToolError, Verilator};
pub use trace::{Case, CaseError, Replay, ReplayError, Trace, replay};
