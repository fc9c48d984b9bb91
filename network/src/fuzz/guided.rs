//! Random scenarios that learn from what others reached: one that reaches something new is kept, and later ones are changes of those kept.
//!
//! What can be reached is the matter of a [`Subject`]: lines of Verilog, or anything else that it counts. Scenarios are chosen in rounds of a
//! fixed size, from what was kept before the round: so a seed and a number of cases give the same scenarios, however many threads run them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::check::{Good, Property};
use crate::fuzz::{Campaign, Finding, GLANCE, Totals};
use crate::mutate::mutate;
use crate::run::Failure;
use crate::scenario::Scenario;

/// Scenarios that are chosen at once.
const ROUND: u64 = 16;
/// One scenario in so many is drawn anew, not changed.
const ANEW: u32 = 4;

/// What runs scenarios and counts what they reach.
pub trait Subject: Sync {
    /// Number of points that can be reached, always the same.
    fn points(&self) -> usize;

    /// Runs a scenario. The same scenario gives the same counts.
    fn run(&self, scenario: &Scenario, property: Property) -> Trial;
}

/// What a run of one scenario gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// How often it reached each point.
    pub counts: Vec<u64>,
    /// Whether what must hold held.
    pub result: Result<Good, Failure>,
}

/// A scenario that was kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The scenario.
    pub scenario: Scenario,
    /// Points that it reached before all others.
    pub new_points: Vec<usize>,
    /// It was there before the campaign.
    pub from_before: bool,
}

/// What a campaign gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What was tried and held.
    pub totals: Totals,
    /// How often all scenarios together reached each point.
    pub counts: Vec<u64>,
    /// How many scenarios reached each point.
    pub scenarios: Vec<u64>,
    /// What was kept, in the order of keeping.
    pub corpus: Vec<Entry>,
    /// Points reached, with the number of scenarios after which it was so, from the first scenario on.
    pub growth: Vec<(u64, usize)>,
    /// Scenarios that could not be run, and were left out.
    pub refused: u64,
    /// The failure of lowest number, if there was one.
    pub finding: Option<Finding>,
    /// Number that the next case would have.
    pub next_case: u64,
}

impl Outcome {
    /// Points that were reached.
    #[must_use]
    pub fn reached(&self) -> usize {
        self.scenarios.iter().filter(|count| **count > 0).count()
    }
}

/// How far a campaign is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress<'a> {
    /// Scenarios that were tried.
    Trying {
        /// How many.
        scenarios: u64,
        /// Time since the start.
        elapsed: Duration,
        /// Points reached.
        reached: usize,
        /// Scenarios kept.
        kept: usize,
    },
    /// A scenario is kept.
    Kept(&'a Entry),
    /// One failed; runs made so far to make it smaller.
    Shrinking(u64),
}

/// A campaign that learns.
#[derive(Debug, Clone)]
pub struct Guided {
    /// What is to be tried. Scenario n of it is the one that is drawn anew where case n is.
    pub campaign: Campaign,
    /// Number of the first case: those of earlier campaigns with the same seed need not be drawn again.
    pub first_case: u64,
    /// Whether scenarios that reached something are changed; otherwise all are drawn anew, for comparison.
    pub learn: bool,
}

/// A scenario to be run, and where it comes from.
struct Choice {
    case: u64,
    scenario: Scenario,
    anew: bool,
    from_before: bool,
}

impl Guided {
    /// Runs what was kept before, then as many cases as the campaign says. Those of `before` that reach nothing new are not kept again.
    pub fn run<S: Subject>(
        &self,
        subject: &S,
        before: Vec<Scenario>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Outcome {
        let start = Instant::now();
        let points = subject.points();
        let mut outcome = Outcome {
            totals: Totals::nothing(),
            counts: vec![0; points],
            scenarios: vec![0; points],
            corpus: Vec::new(),
            growth: Vec::new(),
            refused: 0,
            finding: None,
            next_case: self.first_case,
        };
        let mut before = before.into_iter();
        let last = self.campaign.cases.map(|cases| self.first_case.saturating_add(cases));
        let is_late = || self.campaign.time.is_some_and(|time| start.elapsed() >= time);
        let mut failed = None;
        while failed.is_none() && !is_late() {
            let mut round: Vec<Choice> = before
                .by_ref()
                .take(ROUND as usize)
                .map(|scenario| Choice {
                    case: self.first_case,
                    scenario,
                    anew: false,
                    from_before: true,
                })
                .collect();
            if round.is_empty() {
                let first = outcome.next_case;
                let end = last.map_or(first + ROUND, |last| last.min(first + ROUND));
                round = (first..end).map(|case| self.choose(case, &outcome)).collect();
            }
            if round.is_empty() {
                break;
            }
            let mut done = 0;
            let mut tell = |more: u64, outcome: &Outcome| {
                done += more;
                progress(Progress::Trying {
                    scenarios: outcome.totals.scenarios + done,
                    elapsed: start.elapsed(),
                    reached: outcome.reached(),
                    kept: outcome.corpus.len(),
                });
            };
            let trials = self.run_round(subject, &round, &is_late, &mut |more| tell(more, &outcome));
            for (choice, trial) in round.into_iter().zip(trials) {
                // There was no more time for it, nor for those behind it that were not begun.
                let Some(trial) = trial else { continue };
                outcome.next_case = outcome.next_case.max(choice.case + u64::from(!choice.from_before));
                let kept = outcome.corpus.len();
                failed = self.take(choice, trial, &mut outcome);
                if failed.is_some() {
                    break;
                }
                outcome.corpus[kept..]
                    .iter()
                    .for_each(|entry| progress(Progress::Kept(entry)));
            }
        }
        outcome.totals.elapsed = start.elapsed();
        outcome.finding = failed.map(|choice| {
            let run = |scenario: &Scenario| subject.run(scenario, self.campaign.property).result.err();
            let tree = choice.anew.then(|| self.campaign.tree(choice.case));
            let mut tell = |runs| progress(Progress::Shrinking(runs));
            self.campaign
                .smallest(choice.case, choice.scenario, tree, &run, &mut tell)
        });
        outcome
    }

    /// The scenario of a case: drawn anew, or one that was kept, changed.
    fn choose(&self, case: u64, outcome: &Outcome) -> Choice {
        let mut rng = Rng::with_seed(self.campaign.seed.wrapping_mul(0xD134_2543_DE82_EF95) ^ case);
        let anew = !self.learn || outcome.corpus.is_empty() || rng.u32(0..ANEW) == 0;
        let scenario = if anew {
            self.campaign.tree(case).current()
        } else {
            let parent = choose_entry(outcome, &mut rng);
            let other = choose_entry(outcome, &mut rng);
            let Campaign {
                base, property, seed, ..
            } = &self.campaign;
            mutate(base, *property, parent, other, *seed, case)
        };
        Choice {
            case,
            scenario,
            anew,
            from_before: false,
        }
    }

    /// Runs the scenarios of a round on all threads; `None`: there was no time for it.
    fn run_round<S: Subject>(
        &self,
        subject: &S,
        round: &[Choice],
        is_late: &(impl Fn() -> bool + Sync),
        progress: &mut dyn FnMut(u64),
    ) -> Vec<Option<Trial>> {
        let next = AtomicUsize::new(0);
        let (sender, results) = mpsc::channel();
        let mut trials: Vec<Option<Trial>> = round.iter().map(|_| None).collect();
        std::thread::scope(|scope| {
            for _ in 0..self.campaign.jobs.clamp(1, round.len()) {
                let (sender, next) = (sender.clone(), &next);
                scope.spawn(move || {
                    while !is_late() {
                        let place = next.fetch_add(1, Ordering::Relaxed);
                        let Some(choice) = round.get(place) else { break };
                        let trial = subject.run(&choice.scenario, self.campaign.property);
                        if sender.send((place, trial)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            let mut more = 0;
            let mut glance = Instant::now();
            loop {
                match results.recv_timeout(GLANCE) {
                    Ok((place, trial)) => {
                        trials[place] = Some(trial);
                        more += 1;
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                if glance.elapsed() >= GLANCE {
                    glance = Instant::now();
                    progress(std::mem::take(&mut more));
                }
            }
        });
        progress(0);
        trials
    }

    /// Counts a trial and keeps its scenario where it reached something new; gives the choice back where it failed.
    fn take(&self, choice: Choice, trial: Trial, outcome: &mut Outcome) -> Option<Choice> {
        let good = match trial.result {
            Ok(good) => good,
            Err(Failure::Scenario(_)) => {
                outcome.refused += 1;
                return None;
            }
            Err(_) => return Some(choice),
        };
        outcome
            .totals
            .add(&Totals::of(&self.campaign.base, &choice.scenario, &good));
        let mut new_points = Vec::new();
        for (place, count) in trial.counts.iter().enumerate().take(outcome.counts.len()) {
            if *count == 0 {
                continue;
            }
            outcome.counts[place] = outcome.counts[place].saturating_add(*count);
            outcome.scenarios[place] += 1;
            if outcome.scenarios[place] == 1 {
                new_points.push(place);
            }
        }
        if !new_points.is_empty() {
            outcome.growth.push((outcome.totals.scenarios, outcome.reached()));
            outcome.corpus.push(Entry {
                scenario: choice.scenario,
                new_points,
                from_before: choice.from_before,
            });
        }
        None
    }
}

/// An entry by chance, those first whose points few scenarios reach: there is most left to be found around them.
fn choose_entry<'a>(outcome: &'a Outcome, rng: &mut Rng) -> &'a Scenario {
    let weight = |entry: &Entry| {
        let rarest = entry.new_points.iter().map(|point| outcome.scenarios[*point]).min();
        1.0 / rarest.unwrap_or(1).max(1) as f64
    };
    let whole: f64 = outcome.corpus.iter().map(weight).sum();
    let mut left = rng.f64() * whole;
    let mut entries = outcome.corpus.iter();
    let chosen = entries.find(|entry| {
        left -= weight(entry);
        left <= 0.0
    });
    let chosen = chosen.or(outcome.corpus.last());
    // It is called with a corpus that holds something.
    &chosen.unwrap_or_else(|| unreachable!("an empty corpus")).scenario
}
