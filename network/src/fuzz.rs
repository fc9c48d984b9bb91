//! Random scenarios by the thousand, on several threads, until one fails or there is no more time. The first failure is made smaller and
//! becomes a trace.
//!
//! Scenario n follows from the seed and n alone: threads and time decide how many there are, not what they are. It knows no NIC but what
//! `make` gives, and writes no file.

pub mod guided;
mod reached;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use proptest::strategy::{Strategy, ValueTree};
use spraynic_config::NicConfig;

use crate::check::{Good, Property, check};
use crate::device::Device;
use crate::mutate::runner;
use crate::run::Failure;
use crate::scenario::Scenario;
use crate::shrink::{Patience, shrink};
use crate::strategy::{Base, lossless_scenario, scenario};
use crate::trace::ScenarioTrace;

use reached::Reached;
pub use reached::Row;

/// Runs that proptest may take to make a failure smaller, and those that edits of the scenario may take behind it.
const PROPTEST_RUNS: u64 = 500;
/// See `PROPTEST_RUNS`.
const EDIT_RUNS: u64 = 3_000;
/// Time for both.
const SHRINKING: Duration = Duration::from_secs(60);
/// Between two calls of the progress.
const GLANCE: Duration = Duration::from_millis(100);

/// What is to be tried.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// What scenarios are made for.
    pub base: Base,
    /// What must hold.
    pub property: Property,
    /// Same seed, same scenarios.
    pub seed: u64,
    /// Scenarios; `None`: as many as there is time for.
    pub cases: Option<u64>,
    /// No scenario begins later than this after the start; `None`: until all are done.
    pub time: Option<Duration>,
    /// Threads, at least one.
    pub jobs: usize,
}

/// What was tried and held.
#[derive(Debug, Clone, PartialEq)]
pub struct Totals {
    /// Scenarios.
    pub scenarios: u64,
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that NICs sent.
    pub frames: u64,
    /// Time in the scenarios.
    pub simulated: Duration,
    /// Time that it took.
    pub elapsed: Duration,
    reached: Reached,
}

impl Totals {
    fn nothing() -> Self {
        Self {
            scenarios: 0,
            messages: 0,
            bytes: 0,
            frames: 0,
            simulated: Duration::ZERO,
            elapsed: Duration::ZERO,
            reached: Reached::nothing(),
        }
    }

    /// What scenarios reached, and how often.
    #[must_use]
    pub fn reached(&self) -> &[Row] {
        self.reached.rows()
    }

    fn of(base: &Base, scenario: &Scenario, good: &Good) -> Self {
        Self {
            scenarios: 1,
            messages: scenario.messages.len() as u64,
            bytes: good.report.bytes,
            frames: good.report.sent.iter().sum(),
            simulated: Duration::from_nanos(good.report.finished_ns),
            elapsed: Duration::ZERO,
            reached: Reached::by(base, scenario, good),
        }
    }

    fn add(&mut self, other: &Self) {
        self.scenarios += other.scenarios;
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.frames += other.frames;
        self.simulated += other.simulated;
        self.reached.add(&other.reached);
    }
}

/// How far a campaign is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress {
    /// Scenarios that were tried.
    Trying {
        /// How many.
        scenarios: u64,
        /// Time since the start.
        elapsed: Duration,
    },
    /// One failed; runs made so far to make it smaller.
    Shrinking(u64),
}

/// A scenario that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Its number in the campaign.
    pub case: u64,
    /// Why the smallest one fails.
    pub failure: Failure,
    /// Runs that it took to make it smaller.
    pub shrinking_runs: u64,
    /// The smallest one.
    pub trace: ScenarioTrace,
}

impl Campaign {
    /// Tries scenarios on the NICs that `make` gives. Gives what held, and the failure of lowest number, if there is one.
    pub fn run<D, M>(&self, make: &M, progress: &mut dyn FnMut(Progress)) -> (Totals, Option<Finding>)
    where
        D: Device,
        M: Fn(usize, &NicConfig, usize) -> D + Sync,
    {
        let start = Instant::now();
        let next = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        let (sender, results) = mpsc::channel();
        let mut totals = Totals::nothing();
        let mut failed: Option<u64> = None;
        let work = |sender: mpsc::Sender<_>| {
            let (next, stop) = (&next, &stop);
            move || {
                while !stop.load(Ordering::Relaxed) && self.time.is_none_or(|time| start.elapsed() < time) {
                    let case = next.fetch_add(1, Ordering::Relaxed);
                    if self.cases.is_some_and(|cases| case >= cases) {
                        break;
                    }
                    let result = self.attempt(case, make);
                    if result.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    if sender.send((case, result)).is_err() {
                        break;
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                scope.spawn(work(sender.clone()));
            }
            drop(sender);
            let mut glance = Instant::now();
            loop {
                match results.recv_timeout(GLANCE) {
                    Ok((_, Ok(one))) => totals.add(&one),
                    // All below it have begun before it: the lowest one is the same however threads run.
                    Ok((case, Err(()))) => failed = Some(failed.map_or(case, |other| other.min(case))),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                if glance.elapsed() >= GLANCE {
                    glance = Instant::now();
                    progress(Progress::Trying {
                        scenarios: totals.scenarios,
                        elapsed: start.elapsed(),
                    });
                }
            }
        });
        totals.elapsed = start.elapsed();
        let finding = failed.map(|case| self.find(case, make, progress));
        (totals, finding)
    }

    /// The scenario of a number, to be made smaller.
    fn tree(&self, case: u64) -> Box<dyn ValueTree<Value = Scenario>> {
        let mut runner = runner(self.seed, case);
        let strategy = match self.property {
            Property::Delivery => scenario(&self.base).boxed(),
            Property::NothingTwice => lossless_scenario(&self.base).boxed(),
        };
        // The strategies filter nothing, and so never give up.
        match strategy.new_tree(&mut runner) {
            Ok(tree) => tree,
            Err(reason) => unreachable!("a strategy without filters gives up: {reason}"),
        }
    }

    fn attempt<D: Device>(&self, case: u64, make: &impl Fn(usize, &NicConfig, usize) -> D) -> Result<Totals, ()> {
        let scenario = self.tree(case).current();
        let good = check(&scenario, self.property, make, None).map_err(drop)?;
        Ok(Totals::of(&self.base, &scenario, &good))
    }

    fn find<D: Device>(
        &self,
        case: u64,
        make: &impl Fn(usize, &NicConfig, usize) -> D,
        progress: &mut dyn FnMut(Progress),
    ) -> Finding {
        let run = |scenario: &Scenario| check(scenario, self.property, make, None).err();
        let tree = self.tree(case);
        let first = tree.current();
        self.smallest(case, first, Some(tree), &run, &mut |runs| {
            progress(Progress::Shrinking(runs));
        })
    }

    /// Makes a failure smaller: by the tree that it was drawn from, where there is one, then by edits.
    fn smallest(
        &self,
        case: u64,
        first: Scenario,
        tree: Option<Box<dyn ValueTree<Value = Scenario>>>,
        run: &dyn Fn(&Scenario) -> Option<Failure>,
        progress: &mut dyn FnMut(u64),
    ) -> Finding {
        let mut runs = 0;
        // A scenario that cannot be run is another fault than the one looked for.
        let mut fails = |scenario: &Scenario| {
            progress(runs);
            runs += 1;
            run(scenario).is_some_and(|failure| !matches!(failure, Failure::Scenario(_)))
        };
        let mut patience = Patience {
            runs: PROPTEST_RUNS,
            until: Instant::now() + SHRINKING,
        };
        let mut smallest = first;
        if let Some(mut tree) = tree {
            let mut smaller = tree.simplify();
            while smaller && patience.take() {
                let candidate = tree.current();
                smaller = if fails(&candidate) {
                    smallest = candidate;
                    tree.simplify()
                } else {
                    tree.complicate()
                };
            }
        }
        patience.runs = EDIT_RUNS;
        let smallest = shrink(smallest, &mut patience, fails);
        let failure = run(&smallest)
            .unwrap_or_else(|| Failure::Scenario("it failed, but not when it was run once more".to_owned()));
        Finding {
            case,
            shrinking_runs: runs,
            trace: ScenarioTrace::new(self.property, smallest, failure.to_string()),
            failure,
        }
    }
}
