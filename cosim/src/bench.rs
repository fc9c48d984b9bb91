//! Runs a model with all its streams until everything has come out, or until nothing moves any more.
//!
//! A [`Stimulus`] says everything that goes in, so that the same run can be made again from a file; an [`Agent`] adds
//! what depends on what comes out (a memory that answers reads). Never judges what came out: see [`crate::scoreboard`].

mod agent;
mod outcome;
mod stimulus;

use std::collections::BTreeMap;

pub use agent::{Agent, Answer};
pub use outcome::{Outcome, SinkOutcome, SourceOutcome};
pub use stimulus::{InputValue, SinkStimulus, SourceStimulus, Stimulus};

use crate::simulation::{Input, Simulation, SimulationError};
use crate::stream::{
    Frame, Pattern, Random, SetupError, Sink, SinkChecks, Source, StreamError, StreamFault, output_streams,
};

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The run is over when all inputs are sent, the expected frames have come, and nothing has moved for so many clocks:
    /// more than the model's latency.
    pub quiet_clocks: u64,
    /// It hangs when something is left to do and nothing has moved for so many clocks.
    pub hang_clocks: u64,
    /// It fails when it takes more clocks than this.
    pub most_clocks: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            quiet_clocks: 100,
            hang_clocks: 4000,
            most_clocks: 50_000_000,
        }
    }
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BenchError {
    /// The model stopped.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// A stream cannot be driven as asked.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A stream broke a rule.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// Nothing moves, and something is left to do.
    #[error("nothing has moved for {clocks} clocks until cycle {cycle}, and something is left to do:\n{state}")]
    Hang {
        /// Clocks without a transfer.
        clocks: u64,
        /// Clocks since the end of the reset.
        cycle: u64,
        /// What each stream is doing, one a line.
        state: String,
    },
    /// It takes too long.
    #[error("the run is not over after {clocks} clocks:\n{state}")]
    TooLong {
        /// Clocks since the end of the reset.
        clocks: u64,
        /// What each stream is doing, one a line.
        state: String,
    },
    /// An agent found something wrong.
    #[error("cycle {cycle}: {message}")]
    Agent {
        /// Clocks since the end of the reset.
        cycle: u64,
        /// What it found.
        message: String,
    },
}

/// One in so many cycles (by chance) is used to try whether a `tvalid` depends on its `tready`.
const PROBE_MASK: u64 = 15;
/// So soon after `tready` has risen at last does a `tvalid` come that waited for it.
const GIVE_IN_CLOCKS: u64 = 4;

/// A model with its drivers, ready to run.
#[derive(Debug)]
pub struct Bench<'s> {
    simulation: &'s mut Simulation,
    limits: Limits,
    sources: Vec<Source>,
    sinks: Vec<SinkSeat>,
    values: Vec<Value>,
    /// Values in the order of their cycles that were not set yet, the next one last.
    later: Vec<(u64, Value)>,
    random: Random,
    cycle: u64,
    record: Vec<(usize, Frame)>,
    /// Inputs that the agent has set, in the order of their cycles; the first `placed` are in `later`.
    inputs: Vec<InputValue>,
    placed: usize,
}

#[derive(Debug)]
struct SinkSeat {
    sink: Sink,
    watched: Vec<usize>,
    expected: Option<usize>,
    gave_in: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Value {
    input: Input,
    value: u64,
    increment: u64,
}

impl<'s> Bench<'s> {
    /// Resets the model and places the drivers.
    ///
    /// # Errors
    /// A stream or port is not there or cannot carry what the stimulus says, or the model stopped.
    pub fn new(simulation: &'s mut Simulation, stimulus: &Stimulus, limits: Limits) -> Result<Self, BenchError> {
        if stimulus.reset_clocks > limits.most_clocks {
            return Err(BenchError::TooLong {
                clocks: limits.most_clocks,
                state: format!("  the reset alone takes {} clocks", stimulus.reset_clocks),
            });
        }
        simulation.clear_inputs();
        let mut later = Vec::new();
        for given in &stimulus.inputs {
            let input = simulation.input(&given.port)?;
            simulation.check_fits(&given.port, input, given.value)?;
            if given.cycle == 0 {
                simulation.set(input, given.value);
            }
            later.push((
                given.cycle,
                Value {
                    input,
                    value: given.value,
                    increment: given.increment,
                },
            ));
        }
        later.sort_by_key(|(cycle, _)| std::cmp::Reverse(*cycle));
        simulation.hold_reset(stimulus.reset_clocks)?;
        let mut random = Random::new(stimulus.seed);
        let mut sources: Vec<Source> = Vec::new();
        for given in &stimulus.sources {
            let seed = random.next();
            let mut source = Source::new(
                simulation,
                &given.stream,
                given.pattern.clone(),
                given.user_last_only,
                seed,
            )?;
            for frame in &given.frames {
                source.push(frame.clone())?;
            }
            sources.push(source);
        }
        let unlisted = output_streams(simulation)
            .into_iter()
            .filter(|name| stimulus.sinks.iter().all(|sink| &sink.stream != name))
            .map(|stream| SinkStimulus {
                stream,
                pattern: Pattern::Always,
                checks: SinkChecks::default(),
                expected_frames: None,
            });
        let mut sinks = Vec::new();
        for given in stimulus.sinks.iter().cloned().chain(unlisted) {
            let sink = Sink::new(simulation, &given.stream, given.pattern, given.checks)?;
            let find = |name: &String| {
                sources
                    .iter()
                    .position(|source| &source.name == name)
                    .ok_or_else(|| SetupError::NoSource {
                        stream: name.clone(),
                        available: sources
                            .iter()
                            .map(|source| source.name.as_str())
                            .collect::<Vec<_>>()
                            .join(", "),
                    })
            };
            let watched = sink.watched_sources().iter().map(find).collect::<Result<_, _>>()?;
            sinks.push(SinkSeat {
                sink,
                watched,
                expected: given.expected_frames,
                gave_in: None,
            });
        }
        Ok(Self {
            simulation,
            limits,
            sources,
            sinks,
            values: Vec::new(),
            later,
            random,
            cycle: 0,
            record: Vec::new(),
            inputs: Vec::new(),
            placed: 0,
        })
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// A stream breaks a rule, the model stops or hangs, or the agent objects.
    pub fn run(&mut self, agent: &mut impl Agent) -> Result<Outcome, BenchError> {
        let mut idle = 0;
        let mut still = 0;
        loop {
            let moved = self.clock(agent)?;
            let done = self.sources.iter().all(|source| source.pending() == 0)
                && self.sinks.iter().all(|seat| {
                    !seat.sink.is_busy() && seat.expected.is_none_or(|count| seat.sink.frames.len() >= count)
                })
                && self.later.is_empty();
            idle = if done && !moved { idle + 1 } else { 0 };
            if idle >= self.limits.quiet_clocks {
                break;
            }
            still = if moved || self.waits_for_time() { 0 } else { still + 1 };
            if still == self.limits.hang_clocks / 2 {
                self.give_in();
            }
            if still >= self.limits.hang_clocks {
                return Err(BenchError::Hang {
                    clocks: still,
                    cycle: self.cycle,
                    state: self.state(),
                });
            }
            if self.cycle >= self.limits.most_clocks {
                return Err(BenchError::TooLong {
                    clocks: self.cycle,
                    state: self.state(),
                });
            }
        }
        self.outcome()
    }

    /// Runs `clocks` clocks, whatever happens in them; then the run may go on or be left.
    ///
    /// # Errors
    /// As [`Bench::run`], but never for a hang.
    pub fn run_clocks(&mut self, clocks: u64, agent: &mut impl Agent) -> Result<(), BenchError> {
        for _ in 0..clocks {
            self.clock(agent)?;
        }
        Ok(())
    }

    /// What came out so far.
    ///
    /// # Errors
    /// Never for a model that was built by this crate: each name is one of its outputs.
    pub fn outcome(&mut self) -> Result<Outcome, BenchError> {
        let mut counters = BTreeMap::new();
        for name in self.simulation.output_names() {
            if let Some(short) = name.strip_prefix("count_") {
                counters.insert(short.to_owned(), self.simulation.get_by_name(name)?);
            }
        }
        Ok(Outcome {
            cycles: self.cycle,
            sources: self
                .sources
                .iter_mut()
                .map(|source| SourceOutcome {
                    stream: source.name.clone(),
                    accepted: std::mem::take(&mut source.accepted),
                })
                .collect(),
            sinks: self
                .sinks
                .iter_mut()
                .map(|SinkSeat { sink, .. }| SinkOutcome {
                    stream: sink.name.clone(),
                    frames: std::mem::take(&mut sink.frames),
                    beat_cycles: std::mem::take(&mut sink.beat_cycles),
                })
                .collect(),
            counters,
        })
    }

    /// The stimulus with all that an agent has sent in it, each frame not before the cycle in which it was sent: a run of
    /// it needs no agent.
    #[must_use]
    pub fn recorded(&self, stimulus: &Stimulus) -> Stimulus {
        let mut recorded = stimulus.clone();
        for (source, frame) in &self.record {
            recorded.sources[*source].frames.push(frame.clone());
        }
        recorded.inputs.extend(self.inputs.iter().cloned());
        recorded
    }

    /// One clock. True: a beat was transferred.
    #[inline]
    fn clock(&mut self, agent: &mut impl Agent) -> Result<bool, BenchError> {
        let cycle = self.cycle;
        let simulation = &mut *self.simulation;
        for value in &mut self.values {
            if value.increment != 0 {
                value.value = value.value.wrapping_add(value.increment);
                simulation.set(value.input, value.value);
            }
        }
        while self.later.last().is_some_and(|(at, _)| *at <= cycle) {
            if let Some((_, value)) = self.later.pop() {
                self.values.retain(|other| other.input != value.input);
                simulation.set(value.input, value.value);
                self.values.push(value);
            }
        }
        for source in &mut self.sources {
            source.prepare(simulation, cycle);
        }
        for seat in &mut self.sinks {
            seat.sink.prepare(simulation);
        }
        if self.random.next() & PROBE_MASK == 0 {
            for seat in &mut self.sinks {
                seat.sink.probe(simulation, cycle)?;
            }
        }
        simulation.step()?;
        let mut moved = false;
        for seat in &mut self.sinks {
            // Before the sources look: whether they offer in this cycle.
            let inputs_offer = seat.watched.iter().all(|index| self.sources[*index].is_offering());
            let count = seat.sink.frames.len();
            if seat.sink.observe(simulation, cycle, inputs_offer)? {
                moved = true;
                if seat.gave_in.take().is_some_and(|at| cycle - at <= GIVE_IN_CLOCKS) {
                    return Err(seat.sink.fault(cycle, StreamFault::ValidWaitsForReady).into());
                }
            }
            if let Some(frame) = seat.sink.frames.get(count) {
                let mut answer = Answer {
                    cycle,
                    sources: &mut self.sources,
                    record: &mut self.record,
                    inputs: &mut self.inputs,
                };
                agent
                    .on_frame(&mut answer, &seat.sink.name, frame)
                    .map_err(|message| BenchError::Agent { cycle, message })?;
            }
        }
        for source in &mut self.sources {
            moved |= source.observe(simulation, cycle);
        }
        if self.placed < self.inputs.len() {
            self.place_inputs()?;
        }
        self.cycle += 1;
        Ok(moved)
    }

    /// Puts what the agent has set in this cycle among the values to come.
    fn place_inputs(&mut self) -> Result<(), BenchError> {
        for given in &self.inputs[self.placed..] {
            let input = self.simulation.input(&given.port)?;
            let value = Value {
                input,
                value: given.value,
                increment: given.increment,
            };
            self.later.push((given.cycle, value));
        }
        self.placed = self.inputs.len();
        self.later.sort_by_key(|(cycle, _)| std::cmp::Reverse(*cycle));
        Ok(())
    }

    /// Whether the stimulus itself says that nothing happens yet.
    fn waits_for_time(&self) -> bool {
        let source_waits = |source: &Source| source.waits_until().is_some_and(|cycle| cycle >= self.cycle);
        !self.later.is_empty() || self.sources.iter().any(source_waits)
    }

    fn give_in(&mut self) {
        for seat in &mut self.sinks {
            if seat.sink.give_in() {
                seat.gave_in = Some(self.cycle);
            }
        }
    }

    fn state(&self) -> String {
        let sources = self.sources.iter().map(|source| source.state(self.simulation));
        let sinks = self.sinks.iter().map(|seat| seat.sink.state(seat.expected));
        sources
            .chain(sinks)
            .map(|line| format!("  {line}"))
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// Runs a stimulus without an agent.
///
/// # Errors
/// As [`Bench::new`] and [`Bench::run`].
pub fn run(simulation: &mut Simulation, stimulus: &Stimulus, limits: Limits) -> Result<Outcome, BenchError> {
    Bench::new(simulation, stimulus, limits)?.run(&mut ())
}
