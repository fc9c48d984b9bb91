//! Fuzzing that learns: what it reaches that chance does not, that threads do not change it, that what it keeps can be taken up again, and that
//! a failure which only changed scenarios have is found and made small.

use spraynic_network::check::{Good, Property, check, golden};
use spraynic_network::fuzz::Campaign;
use spraynic_network::fuzz::guided::{Guided, Outcome, Subject, Trial};
use spraynic_network::scenario::Operation;
use spraynic_network::strategy::Base;
use spraynic_network::{Failure, PathCounters, Report, Scenario};

fn guided(seed: u64, cases: u64, learn: bool) -> Guided {
    Guided {
        campaign: Campaign {
            base: Base::new("lab", &[], 20_000).expect("preset lab"),
            property: Property::Delivery,
            seed,
            cases: Some(cases),
            time: None,
            jobs: 2,
        },
        first_case: 0,
        learn,
    }
}

fn run<S: Subject>(guided: &Guided, subject: &S, before: &[Scenario]) -> Outcome {
    guided.run(subject, before.to_vec(), &mut |_| {})
}

/// Reaches point n when n messages are fenced, so that the next one is always a small change away; fails beyond a number of them.
struct Fences {
    points: usize,
    fails_from: usize,
}

fn fenced(scenario: &Scenario) -> usize {
    scenario.messages.iter().filter(|message| message.fence).count()
}

impl Subject for Fences {
    fn points(&self) -> usize {
        self.points
    }

    fn run(&self, scenario: &Scenario, _: Property) -> Trial {
        let fenced = fenced(scenario);
        let good = Good {
            report: Report::default(),
            paths: PathCounters::default(),
            activity: Vec::new(),
        };
        Trial {
            counts: (0..self.points).map(|point| u64::from(point < fenced)).collect(),
            result: if fenced < self.fails_from {
                Ok(good)
            } else {
                Err(Failure::SentAgain(format!("{fenced} messages are fenced")))
            },
        }
    }
}

const NEVER: usize = usize::MAX;

/// Scenarios drawn anew have up to 29 messages, of which half are fenced.
#[test]
fn what_is_far_from_chance_is_reached_step_by_step() {
    let subject = Fences {
        points: 40,
        fails_from: NEVER,
    };
    let chance = run(&guided(1, 600, false), &subject, &[]);
    let learned = run(&guided(1, 600, true), &subject, &[]);
    println!("by chance {}, learned {}", chance.reached(), learned.reached());
    assert!(chance.reached() <= 29, "{}", chance.reached());
    assert!(learned.reached() >= 35, "{}", learned.reached());
    // Each entry was the first to reach something, and the points are all accounted for.
    let points: usize = learned.corpus.iter().map(|entry| entry.new_points.len()).sum();
    assert_eq!(points, learned.reached());
    assert_eq!(
        learned.growth.last().map(|(_, reached)| *reached),
        Some(learned.reached())
    );
    assert_eq!((learned.totals.scenarios, learned.next_case), (600, 600));
}

#[test]
fn threads_do_not_change_what_is_tried() {
    let subject = Fences {
        points: 40,
        fails_from: NEVER,
    };
    let mut one = guided(5, 200, true);
    one.campaign.jobs = 1;
    let mut many = one.clone();
    many.campaign.jobs = 5;
    let (one, many) = (run(&one, &subject, &[]), run(&many, &subject, &[]));
    assert_eq!(one.corpus, many.corpus);
    assert_eq!((one.counts, one.growth), (many.counts, many.growth));
    let other = run(&guided(6, 200, true), &subject, &[]);
    assert_ne!(one.corpus, other.corpus, "another seed");
}

#[test]
fn what_was_kept_is_taken_up_again() {
    let subject = Fences {
        points: 60,
        fails_from: NEVER,
    };
    let first = run(&guided(2, 32, true), &subject, &[]);
    let kept: Vec<Scenario> = first.corpus.iter().map(|entry| entry.scenario.clone()).collect();
    let more = Guided {
        first_case: first.next_case,
        ..guided(2, 300, true)
    };
    let second = run(&more, &subject, &kept);
    assert_eq!(second.next_case, 332);
    assert_eq!(second.totals.scenarios, 300 + kept.len() as u64);
    let from_before: Vec<&Scenario> = second
        .corpus
        .iter()
        .filter(|entry| entry.from_before)
        .map(|entry| &entry.scenario)
        .collect();
    assert_eq!(from_before, kept.iter().collect::<Vec<_>>());
    assert!(second.reached() > first.reached(), "{}", second.reached());
}

#[test]
fn a_failure_of_changed_scenarios_alone_is_found_and_made_small() {
    let subject = Fences {
        points: 40,
        fails_from: 32,
    };
    let outcome = run(&guided(1, 2_000, true), &subject, &[]);
    let finding = outcome.finding.expect("a failure");
    assert!(outcome.next_case > finding.case);
    let messages = &finding.trace.scenario.messages;
    assert_eq!((messages.len(), fenced(&finding.trace.scenario)), (32, 32));
    assert!(
        messages
            .iter()
            .all(|message| message.length == 0 || message.operation == Operation::Read)
    );
    assert_eq!(finding.trace.reason, finding.failure.to_string());
    assert!(finding.trace.reason.contains("32 messages"), "{}", finding.trace.reason);
}

/// Golden NICs; what they count, in powers of two, are the points.
struct Golden;

/// Powers of two of each count.
const STEPS: usize = 12;

impl Subject for Golden {
    fn points(&self) -> usize {
        spraynic_network::Activity::default().counts().len() * STEPS
    }

    fn run(&self, scenario: &Scenario, property: Property) -> Trial {
        let result = check(scenario, property, golden, None);
        let mut counts = vec![0; self.points()];
        for activity in result.iter().flat_map(|good| &good.activity) {
            for (place, (_, count)) in activity.counts().into_iter().enumerate() {
                let steps = (u64::BITS - count.leading_zeros()) as usize;
                counts[place * STEPS..][..steps.min(STEPS)]
                    .iter_mut()
                    .for_each(|count| *count += 1);
            }
        }
        Trial { counts, result }
    }
}

/// Changed scenarios are as good as those drawn anew: golden NICs deliver all of them, and do more of what they seldom do.
#[test]
fn golden_nics_do_more_when_scenarios_learn() {
    let (chance, learned) = (guided(1, 120, false), guided(1, 120, true));
    let (chance, learned) = (run(&chance, &Golden, &[]), run(&learned, &Golden, &[]));
    println!("by chance {}, learned {}", chance.reached(), learned.reached());
    for outcome in [&chance, &learned] {
        let failure = outcome.finding.as_ref().map(|finding| &finding.failure);
        assert_eq!((failure, outcome.refused), (None, 0));
    }
    assert!(learned.reached() >= chance.reached());

    let lossless = Guided {
        campaign: Campaign {
            property: Property::NothingTwice,
            ..guided(1, 60, true).campaign
        },
        ..guided(1, 60, true)
    };
    let outcome = run(&lossless, &Golden, &[]);
    assert_eq!((outcome.finding, outcome.refused), (None, 0));
}
