//! Runs a model with all its streams until everything has come out, or until nothing moves any more.
//!
//! A [`Stimulus`] says everything that goes in, so that the same run can be made again from a file; an [`Agent`] adds
//! what depends on what comes out (a memory that answers reads). Never judges what came out: see [`crate::scoreboard`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::simulation::{Input, Simulation, SimulationError};
use crate::stream::{
    Frame, Pattern, Random, Received, SetupError, Sink, SinkChecks, Source, StreamError, StreamFault, Timing,
    output_streams,
};

/// Everything that goes into a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stimulus {
    /// Clocks of reset before cycle 0.
    pub reset_clocks: u64,
    /// Seed of the noise on idle inputs.
    pub seed: u64,
    /// Inputs that are no streams.
    pub inputs: Vec<InputValue>,
    /// Streams into the model.
    pub sources: Vec<SourceStimulus>,
    /// Streams out of the model. One that is not listed is always ready.
    pub sinks: Vec<SinkStimulus>,
}

impl Default for Stimulus {
    fn default() -> Self {
        Self {
            reset_clocks: 4,
            seed: 1,
            inputs: Vec::new(),
            sources: Vec::new(),
            sinks: Vec::new(),
        }
    }
}

impl Stimulus {
    /// Adds a stream into the model.
    #[must_use]
    pub fn source(mut self, stream: &str, pattern: Pattern, frames: impl IntoIterator<Item = Frame>) -> Self {
        let frames = frames.into_iter().collect();
        self.sources.push(SourceStimulus {
            stream: stream.to_owned(),
            pattern,
            user_last_only: false,
            frames,
        });
        self
    }

    /// Adds a stream out of the model.
    #[must_use]
    pub fn sink(mut self, stream: &str, pattern: Pattern, checks: SinkChecks) -> Self {
        self.sinks.push(SinkStimulus {
            stream: stream.to_owned(),
            pattern,
            checks,
            expected_frames: None,
        });
        self
    }

    /// Sets an input that is no stream, from the reset on.
    #[must_use]
    pub fn input(mut self, port: &str, value: u64) -> Self {
        self.inputs.push(InputValue {
            port: port.to_owned(),
            cycle: 0,
            value,
            increment: 0,
        });
        self
    }

    /// Sets an input that is no stream at `cycle`; it then grows by `increment` in each cycle (a clock of nanoseconds).
    #[must_use]
    pub fn input_at(mut self, port: &str, cycle: u64, value: u64, increment: u64) -> Self {
        self.inputs.push(InputValue {
            port: port.to_owned(),
            cycle,
            value,
            increment,
        });
        self
    }
}

/// A value of an input that is no stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputValue {
    /// The input.
    pub port: String,
    /// From this cycle on; 0: from the reset on.
    #[serde(default)]
    pub cycle: u64,
    /// The value.
    pub value: u64,
    /// What is added in each later cycle, until another value is set.
    #[serde(default)]
    pub increment: u64,
}

/// A stream into the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceStimulus {
    /// Prefix of its ports, such as `s_axis`.
    pub stream: String,
    /// When a beat is offered.
    #[serde(default)]
    pub pattern: Pattern,
    /// `tuser` has its value in the last beat of a frame only, and noise before; otherwise in each beat.
    #[serde(default)]
    pub user_last_only: bool,
    /// What is sent.
    pub frames: Vec<Frame>,
}

/// A stream out of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkStimulus {
    /// Prefix of its ports, such as `m_axis`.
    pub stream: String,
    /// When a beat is accepted.
    #[serde(default)]
    pub pattern: Pattern,
    /// What is checked.
    #[serde(default)]
    pub checks: SinkChecks,
    /// Frames that must come; the run waits for them. Otherwise it ends when nothing moves.
    #[serde(default)]
    pub expected_frames: Option<usize>,
}

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

/// What came out of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Clocks since the end of the reset.
    pub cycles: u64,
    /// Streams into the model.
    pub sources: Vec<SourceOutcome>,
    /// Streams out of the model.
    pub sinks: Vec<SinkOutcome>,
    /// Outputs whose name starts with `count_` at the end; the names are without it.
    pub counters: BTreeMap<String, u64>,
}

impl Outcome {
    /// The frames that came out of a stream; none for a stream that is not there.
    #[must_use]
    pub fn received(&self, stream: &str) -> &[Received] {
        self.sinks
            .iter()
            .find(|sink| sink.stream == stream)
            .map_or(&[], |sink| &sink.frames)
    }

    /// When the frames of a stream into the model were accepted; none for a stream that is not there.
    #[must_use]
    pub fn accepted(&self, stream: &str) -> &[Timing] {
        self.sources
            .iter()
            .find(|source| source.stream == stream)
            .map_or(&[], |source| &source.accepted)
    }

    /// The cycles in which the beats of a stream out of the model were accepted, with [`SinkChecks::record_beats`].
    #[must_use]
    pub fn beat_cycles(&self, stream: &str) -> &[u64] {
        self.sinks
            .iter()
            .find(|sink| sink.stream == stream)
            .map_or(&[], |sink| &sink.beat_cycles)
    }
}

/// A stream into the model, after a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceOutcome {
    /// Prefix of its ports.
    pub stream: String,
    /// When each frame was accepted, in their order.
    pub accepted: Vec<Timing>,
}

/// A stream out of the model, after a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkOutcome {
    /// Prefix of its ports.
    pub stream: String,
    /// The frames, in their order.
    pub frames: Vec<Received>,
    /// The cycle of each beat, where [`SinkChecks::record_beats`] is on.
    pub beat_cycles: Vec<u64>,
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

/// What an agent may do in answer to what comes out.
#[derive(Debug)]
pub struct Answer<'a> {
    /// The present cycle.
    pub cycle: u64,
    sources: &'a mut [Source],
    record: &'a mut Vec<(usize, Frame)>,
    inputs: &'a mut Vec<InputValue>,
}

impl Answer<'_> {
    /// Sends a frame on a stream into the model, behind what is already there, at the earliest in the next cycle. (A later
    /// [`Frame::not_before`] delays it and what comes behind it.)
    ///
    /// # Errors
    /// There is no such source in the stimulus, or it cannot send the frame.
    pub fn send(&mut self, stream: &str, mut frame: Frame) -> Result<(), SetupError> {
        frame.not_before = frame.not_before.max(self.cycle + 1);
        let Some(index) = self.sources.iter().position(|source| source.name == stream) else {
            let names: Vec<&str> = self.sources.iter().map(|source| source.name.as_str()).collect();
            return Err(SetupError::NoSource {
                stream: stream.to_owned(),
                available: names.join(", "),
            });
        };
        self.sources[index].push(frame.clone())?;
        self.record.push((index, frame));
        Ok(())
    }

    /// Sets an input that is no stream so many clocks from now, at least 1. A port that is not there ends the run.
    pub fn set_after(&mut self, clocks: u64, port: &str, value: u64) {
        self.inputs.push(InputValue {
            port: port.to_owned(),
            cycle: self.cycle + clocks.max(1),
            value,
            increment: 0,
        });
    }
}

/// Reacts to what comes out: a memory, a peer.
pub trait Agent {
    /// A frame came out of a stream.
    ///
    /// # Errors
    /// What is wrong with it; the run ends.
    fn on_frame(&mut self, answer: &mut Answer<'_>, stream: &str, frame: &Received) -> Result<(), String>;
}

impl Agent for () {
    fn on_frame(&mut self, _: &mut Answer<'_>, _: &str, _: &Received) -> Result<(), String> {
        Ok(())
    }
}

impl<F: FnMut(&mut Answer<'_>, &str, &Received) -> Result<(), String>> Agent for F {
    fn on_frame(&mut self, answer: &mut Answer<'_>, stream: &str, frame: &Received) -> Result<(), String> {
        self(answer, stream, frame)
    }
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
