//! Properties of a block: one model, built once, and many cases from proptest against it.
//!
//! A case that fails is shrunk, saved as a [`Trace`] and named in the message, with the command that runs it again.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestError, TestRunner};

use crate::bench::{Agent, Bench, Limits, Outcome, Stimulus};
use crate::build::{BuildError, Builder, Key, Model, target_directory};
use crate::model::ModelSource;
use crate::simulation::{Simulation, SimulationError};
use crate::tool::{ToolError, Verilator};
use crate::trace::{Case, CaseError, Trace};

/// A model of a test program, built when it is first asked for: `static MODEL: SharedModel = SharedModel::new(source);`
#[derive(Debug)]
pub struct SharedModel {
    source: fn() -> ModelSource,
    built: OnceLock<Result<Arc<Model>, String>>,
}

impl SharedModel {
    /// A model of what `source` gives.
    #[must_use]
    pub const fn new(source: fn() -> ModelSource) -> Self {
        Self {
            source,
            built: OnceLock::new(),
        }
    }

    /// The model. `None`, with a message on standard error, when there is no Verilator and CI is not set: the test
    /// is skipped.
    ///
    /// # Errors
    /// It cannot be built.
    pub fn get(&self) -> Result<Option<Arc<Model>>, PropertyError> {
        match Verilator::find() {
            Err(error @ ToolError::NoVerilator { .. }) if std::env::var_os("CI").is_none_or(|ci| ci.is_empty()) => {
                eprintln!("skipped: {error}");
                return Ok(None);
            }
            _ => {}
        }
        let build = || {
            Builder::new()
                .build(&(self.source)())
                .map_err(|error: BuildError| error.to_string())
        };
        self.built.get_or_init(build).clone().map(Some).map_err(PropertyError)
    }
}

/// A property does not hold, or cannot be tried; printed as its message also by `{:?}`, so that a test may return it.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PropertyError(String);

impl fmt::Debug for PropertyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<SimulationError> for PropertyError {
    fn from(error: SimulationError) -> Self {
        Self(error.to_string())
    }
}

/// A check of an outcome: says what is wrong with it.
type Judge = dyn Fn(&Outcome) -> Result<(), String>;

/// One case with what it needs beyond a file: an agent, a judge.
pub struct Trial<A> {
    case: Case,
    agent: A,
    judge: Option<Box<Judge>>,
}

impl<A> fmt::Debug for Trial<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trial")
            .field("case", &self.case)
            .finish_non_exhaustive()
    }
}

impl Trial<()> {
    /// A case that needs no agent.
    #[must_use]
    pub fn new(case: Case) -> Self {
        Self {
            case,
            agent: (),
            judge: None,
        }
    }
}

impl<A> Trial<A> {
    /// A case with an agent that answers.
    #[must_use]
    pub fn with_agent(case: Case, agent: A) -> Self {
        Self {
            case,
            agent,
            judge: None,
        }
    }

    /// Adds a check of the outcome beyond the expectation: cycles, order between streams.
    #[must_use]
    pub fn judged(mut self, judge: impl Fn(&Outcome) -> Result<(), String> + 'static) -> Self {
        self.judge = Some(Box::new(judge));
        self
    }
}

/// One in so many cases is also run after a reset in the middle, and from the start of another model.
const RESET_CHECK_EVERY: u32 = 8;

/// A property of a block.
#[derive(Debug)]
pub struct Property<'a> {
    block: &'a str,
    shared: &'a SharedModel,
    config: String,
    cases: Option<u32>,
    limits: Limits,
    failures: PathBuf,
    regressions: Option<PathBuf>,
}

impl<'a> Property<'a> {
    /// A property of the block of this name. Seeds of failures are kept in `proptest-regressions/BLOCK.txt` of the crate
    /// under test, traces in `spraynic-failures` of the target directory.
    #[must_use]
    pub fn new(block: &'a str, shared: &'a SharedModel) -> Self {
        let target = target_directory().unwrap_or_else(std::env::temp_dir);
        let regressions = std::env::var_os("CARGO_MANIFEST_DIR").map(|directory| {
            PathBuf::from(directory)
                .join("proptest-regressions")
                .join(format!("{block}.txt"))
        });
        Self {
            block,
            shared,
            config: String::new(),
            cases: None,
            limits: Limits::default(),
            failures: target.join("spraynic-failures"),
            regressions,
        }
    }

    /// What the block was generated from, for the trace: the TOML of a `NicConfig`.
    #[must_use]
    pub fn config(mut self, config: impl Into<String>) -> Self {
        self.config = config.into();
        self
    }

    /// Number of cases, where PROPTEST_CASES does not say another one.
    #[must_use]
    pub fn cases(mut self, cases: u32) -> Self {
        self.cases = Some(cases);
        self
    }

    /// When a run ends.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Where traces of failures and the file of seeds go (none: seeds are not kept), instead of the usual places.
    #[must_use]
    pub fn places(mut self, failures: impl Into<PathBuf>, regressions: Option<PathBuf>) -> Self {
        self.failures = failures.into();
        self.regressions = regressions;
        self
    }

    /// Tries cases that need no agent.
    ///
    /// # Errors
    /// The message of the smallest failing case found, with the file of its trace.
    pub fn check<S: Strategy>(&self, strategy: S, case: impl Fn(&S::Value) -> Case) -> Result<(), PropertyError> {
        self.check_trials(strategy, |value| Trial::new(case(value)))
    }

    /// Tries cases with agents and judges.
    ///
    /// # Errors
    /// As [`Property::check`].
    pub fn check_trials<S: Strategy, A: Agent>(
        &self,
        strategy: S,
        trial: impl Fn(&S::Value) -> Trial<A>,
    ) -> Result<(), PropertyError> {
        let Some(model) = self.shared.get()? else { return Ok(()) };
        let mut config = Config::default();
        if let Some(cases) = self.cases.filter(|_| std::env::var_os("PROPTEST_CASES").is_none()) {
            config.cases = cases;
        }
        config.failure_persistence = self.regressions.as_ref().map(|path| {
            // Proptest wants a name that lives for ever; there is one a property.
            let path: &'static str = String::leak(path.to_string_lossy().into_owned());
            Box::new(FileFailurePersistence::Direct(path)) as Box<_>
        });
        let seat = Seat {
            simulation: RefCell::new(Simulation::new(&model, 1)),
            model: &model,
            limits: self.limits,
            count: Cell::new(0),
        };
        let mut runner = TestRunner::new(config);
        let result = runner.run(&strategy, |value| match seat.run(&trial, &value) {
            Ok(()) => Ok(()),
            Err(failed) => Err(TestCaseError::fail(failed.0.to_string())),
        });
        match result {
            Ok(()) => Ok(()),
            Err(TestError::Abort(reason)) => Err(PropertyError(format!("{}: {reason}", self.block))),
            Err(TestError::Fail(reason, value)) => Err(self.report(&seat, &trial, &value, reason.message())),
        }
    }

    /// Runs the smallest failing case once more, saves it, and says all that helps.
    fn report<V: fmt::Debug, A: Agent>(
        &self,
        seat: &Seat<'_>,
        trial: &impl Fn(&V) -> Trial<A>,
        value: &V,
        reason: &str,
    ) -> PropertyError {
        let mut case = trial(value).case;
        let mut message = reason.to_owned();
        seat.check_reset_next();
        match seat.run(trial, value) {
            Err(failed) => {
                message = failed.0.to_string();
                case.stimulus = failed.1;
            }
            Ok(()) => message.push_str("\n(the case did not fail again when it was run once more)"),
        }
        let input: String = format!("{value:?}").chars().take(2000).collect();
        let trace = Trace::new(self.block, &self.config, SEED, case, message.clone());
        let name = Key::default()
            .part(serde_json::to_vec(&trace).unwrap_or_default())
            .finish();
        let path = self.failures.join(format!("{}-{}.json", self.block, &name[..12]));
        let saved = match trace.save(&path) {
            Ok(()) => format!("trace: {0}\nrun it again: spraynic replay {0}", path.display()),
            Err(error) => error.to_string(),
        };
        PropertyError(format!("{} fails:\n{message}\ninput: {input}\n{saved}", self.block))
    }
}

/// Why a case failed, and all that went in, the agent's answers included.
type Failed = Box<(CaseError, Stimulus)>;

/// Seed of the initial state of every model of a property.
const SEED: u64 = 1;

/// The model that all cases share.
struct Seat<'a> {
    simulation: RefCell<Simulation>,
    model: &'a Arc<Model>,
    limits: Limits,
    count: Cell<u32>,
}

impl Seat<'_> {
    /// Makes the next run one that checks the reset.
    fn check_reset_next(&self) {
        self.count.set(RESET_CHECK_EVERY - 1);
    }

    /// Runs one case.
    fn run<V, A: Agent>(&self, trial: &impl Fn(&V) -> Trial<A>, value: &V) -> Result<(), Failed> {
        let given = trial(value);
        let mut simulation = self.simulation.borrow_mut();
        let result = run_trial(&mut simulation, given, self.limits);
        let result = result.and_then(|outcome| {
            self.count.set(self.count.get() + 1);
            if self.count.get().is_multiple_of(RESET_CHECK_EVERY) {
                self.check_reset(&mut simulation, trial, value, &outcome)?;
            }
            Ok(())
        });
        if result.is_err() {
            // It may have stopped for good.
            *simulation = Simulation::new(self.model, SEED);
        }
        result
    }

    /// Stops the case in the middle, resets and runs it whole: nothing may be left of the first part. Then the same from
    /// the start of a model with another initial state: nothing may depend on what reset does not set.
    fn check_reset<V, A: Agent>(
        &self,
        simulation: &mut Simulation,
        trial: &impl Fn(&V) -> Trial<A>,
        value: &V,
        outcome: &Outcome,
    ) -> Result<(), Failed> {
        let Trial { case, mut agent, .. } = trial(value);
        let fail = |error: CaseError| Box::new((error, case.stimulus.clone()));
        let middle = outcome.cycles.saturating_sub(self.limits.quiet_clocks) / 2;
        Bench::new(simulation, &case.stimulus, self.limits)
            .and_then(|mut bench| bench.run_clocks(middle, &mut agent))
            .map_err(|error| fail(error.into()))?;
        let mut other = Simulation::new(self.model, SEED + 2);
        for (simulation, how) in [
            (simulation, "after a reset"),
            (&mut other, "from another initial state"),
        ] {
            let again = run_trial(simulation, trial(value), self.limits)
                .map_err(|failed| Box::new((CaseError::Reset(format!("{how}: {}", failed.0)), failed.1)))?;
            if &again != outcome {
                return Err(fail(CaseError::Reset(format!(
                    "{how} the frames, their cycles or the counters differ: {}",
                    difference(outcome, &again)
                ))));
            }
        }
        Ok(())
    }
}

fn run_trial<A: Agent>(simulation: &mut Simulation, trial: Trial<A>, limits: Limits) -> Result<Outcome, Failed> {
    let Trial { case, mut agent, judge } = trial;
    let mut bench = match Bench::new(simulation, &case.stimulus, limits) {
        Ok(bench) => bench,
        Err(error) => return Err(Box::new((error.into(), case.stimulus))),
    };
    let outcome = bench.run(&mut agent);
    let result = outcome.map_err(CaseError::from).and_then(|outcome| {
        case.expectation.check(&outcome)?;
        if let Some(judge) = judge {
            judge(&outcome).map_err(CaseError::Judge)?;
        }
        Ok(outcome)
    });
    result.map_err(|error| Box::new((error, bench.recorded(&case.stimulus))))
}

/// The first thing in which two outcomes differ.
fn difference(first: &Outcome, second: &Outcome) -> String {
    for (a, b) in first.sinks.iter().zip(&second.sinks) {
        if let Some(index) = (0..a.frames.len().max(b.frames.len())).find(|i| a.frames.get(*i) != b.frames.get(*i)) {
            return format!(
                "{} frame {index}: {:?} became {:?}",
                a.stream,
                a.frames.get(index),
                b.frames.get(index)
            );
        }
    }
    for (a, b) in first.sources.iter().zip(&second.sources) {
        if let Some(index) = (0..a.accepted.len()).find(|i| a.accepted.get(*i) != b.accepted.get(*i)) {
            return format!("{} frame {index} was accepted in other cycles", a.stream);
        }
    }
    for (name, value) in &first.counters {
        if second.counters.get(name) != Some(value) {
            return format!("counter {name}: {value} became {:?}", second.counters.get(name));
        }
    }
    format!("{} cycles became {}", first.cycles, second.cycles)
}
