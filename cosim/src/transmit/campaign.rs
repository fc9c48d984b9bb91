//! Compares the pipeline with the golden model over as many random scenarios as it takes to see so many packets. The first difference is
//! shrunk and becomes a trace that needs no agent.
//!
//! Never builds a model and never writes a file.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::strategy::{Strategy as _, ValueTree};
use proptest::test_runner::{Config as RunnerConfig, RngAlgorithm, TestRng, TestRunner};
use spraynic_config::NicConfig;
use thiserror::Error;

use super::Scenario;
use super::strategy::{Size, scenario};
use crate::bench::{Bench, Limits, Outcome};
use crate::build::Model;
use crate::simulation::Simulation;
use crate::trace::{Case, CaseError, Trace};

/// Runs that shrinking may take.
const MOST_SHRINKING_RUNS: u64 = 2000;

/// What is to be compared.
#[derive(Debug, Clone)]
pub struct Campaign<'a> {
    /// What the model was generated from.
    pub config: &'a NicConfig,
    /// Packets to compare, at least: the last scenario is finished.
    pub packets: u64,
    /// Seed of the scenarios and of the model's initial state: same seed, same packets.
    pub seed: u64,
    /// How much there is in a scenario.
    pub size: Size,
    /// When a run ends.
    pub limits: Limits,
}

/// What was compared and found equal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Totals {
    /// Scenarios, each from a reset.
    pub scenarios: u64,
    /// Frames that left on `m_axis`.
    pub packets: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Clocks simulated, without those of the resets.
    pub clocks: u64,
    /// Time that simulating took, without the golden model's.
    pub simulating: Duration,
    /// Sums of the counters, by their names without `count_`.
    pub counters: BTreeMap<String, u64>,
}

/// How far a campaign is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Packets compared so far.
    Comparing(u64),
    /// A difference was found; runs made so far to make it smaller.
    Shrinking(u64),
}

/// The smallest difference that was found.
#[derive(Debug)]
pub struct Difference {
    /// What was equal before.
    pub before: Totals,
    /// What is wrong.
    pub error: CaseError,
    /// Runs that shrinking took.
    pub shrinking_runs: u64,
    /// The failing run, to be replayed without an agent.
    pub trace: Trace,
    /// Whether the trace, run again, failed in the same way.
    pub replays: bool,
}

/// Why a campaign ended before its last packet.
#[derive(Debug, Error)]
pub enum CampaignError {
    /// The pipeline differs from the golden model, or broke a rule of its streams.
    #[error("{}", .0.error)]
    Difference(Box<Difference>),
    /// No scenario can be made for this configuration.
    #[error("no scenario can be made: {0}")]
    NoScenario(String),
}

/// A run that failed, with what a trace needs.
struct Failure {
    error: CaseError,
    case: Case,
}

impl Campaign<'_> {
    /// Runs scenarios until so many packets were equal. `block` is the name that the trace gives the model; `progress` is called after each
    /// run.
    ///
    /// # Errors
    /// The first difference, or there is no scenario.
    pub fn run(
        &self,
        block: &str,
        model: &Arc<Model>,
        progress: &mut dyn FnMut(Step),
    ) -> Result<Totals, CampaignError> {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        let runner_config = RunnerConfig {
            failure_persistence: None,
            ..RunnerConfig::default()
        };
        let mut runner = TestRunner::new_with_rng(runner_config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
        let strategy = scenario(self.config, self.size);
        let mut totals = Totals::default();
        while totals.packets < self.packets {
            let mut tree = strategy
                .new_tree(&mut runner)
                .map_err(|reason| CampaignError::NoScenario(reason.to_string()))?;
            match self.run_scenario(model, &tree.current(), &mut totals.simulating) {
                Ok(outcome) => totals.add(&outcome),
                Err(failure) => {
                    let (failure, shrinking_runs) = self.shrink(model, &mut tree, failure, progress);
                    return Err(self.difference(block, model, totals, failure, shrinking_runs));
                }
            }
            progress(Step::Comparing(totals.packets));
        }
        Ok(totals)
    }

    /// Runs and judges one scenario, from a model's start: a trace of it needs nothing of what was before.
    fn run_scenario(
        &self,
        model: &Arc<Model>,
        scenario: &Scenario,
        simulating: &mut Duration,
    ) -> Result<Outcome, Box<Failure>> {
        let mut simulation = Simulation::new(model, self.seed);
        let stimulus = scenario.stimulus(self.config);
        let unfinished = |error, stimulus| {
            let expectation = scenario.counters_alone(self.config);
            Box::new(Failure {
                error: CaseError::Bench(error),
                case: Case { stimulus, expectation },
            })
        };
        let start = Instant::now();
        let mut bench = match Bench::new(&mut simulation, &stimulus, self.limits) {
            Ok(bench) => bench,
            Err(error) => return Err(unfinished(error, stimulus)),
        };
        let result = bench.run(&mut scenario.memory());
        *simulating += start.elapsed();
        let outcome = result.map_err(|error| unfinished(error, bench.recorded(&stimulus)))?;
        let Err(difference) = scenario.judge(self.config, &outcome) else {
            return Ok(outcome);
        };
        let expectation = scenario.expectation(self.config, &outcome);
        let error = match expectation.check(&outcome) {
            Err(mismatch) => CaseError::Mismatch(mismatch),
            Ok(()) => CaseError::Judge(difference.to_string()),
        };
        let stimulus = bench.recorded(&stimulus);
        Err(Box::new(Failure {
            error,
            case: Case { stimulus, expectation },
        }))
    }

    /// Looks for a smaller scenario that fails too, in any way.
    fn shrink(
        &self,
        model: &Arc<Model>,
        tree: &mut impl ValueTree<Value = Scenario>,
        mut smallest: Box<Failure>,
        progress: &mut dyn FnMut(Step),
    ) -> (Box<Failure>, u64) {
        let mut runs = 0;
        let mut smaller = tree.simplify();
        while smaller && runs < MOST_SHRINKING_RUNS {
            runs += 1;
            smaller = match self.run_scenario(model, &tree.current(), &mut Duration::default()) {
                Ok(_) => tree.complicate(),
                Err(failure) => {
                    smallest = failure;
                    tree.simplify()
                }
            };
            progress(Step::Shrinking(runs));
        }
        (smallest, runs)
    }

    fn difference(
        &self,
        block: &str,
        model: &Arc<Model>,
        before: Totals,
        failure: Box<Failure>,
        shrinking_runs: u64,
    ) -> CampaignError {
        let Failure { error, case } = *failure;
        let again = case.run(&mut Simulation::new(model, self.seed), self.limits);
        let config = self.config.to_commented_toml();
        CampaignError::Difference(Box::new(Difference {
            before,
            shrinking_runs,
            replays: again.is_err_and(|again| again == error),
            trace: Trace::new(block, &config, self.seed, case, error.to_string()),
            error,
        }))
    }
}

impl Totals {
    fn add(&mut self, outcome: &Outcome) {
        self.scenarios += 1;
        self.clocks += outcome.cycles;
        let frames = outcome.received("m_axis");
        self.packets += frames.len() as u64;
        self.bytes += frames.iter().map(|frame| frame.data.len() as u64).sum::<u64>();
        for (name, value) in &outcome.counters {
            *self.counters.entry(name.clone()).or_default() += value;
        }
    }
}
