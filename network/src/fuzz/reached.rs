//! What scenarios reached: without it, a fuzz that finds nothing says nothing.

use serde::Serialize;

use crate::check::Good;
use crate::path::FaultKind;
use crate::scenario::{Policy, Scenario, WireProfile};
use crate::strategy::Base;

/// How often something was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Of what kind it is.
    pub group: &'static str,
    /// What.
    pub name: String,
    /// Scenarios that reached it.
    pub scenarios: u64,
    /// How often, in all of them.
    pub count: u64,
}

/// All that scenarios of a base can reach, and how often they did, in a fixed order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reached {
    rows: Vec<Row>,
}

impl Reached {
    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Adds what other scenarios of the same base reached.
    pub(super) fn add(&mut self, other: &Self) {
        if self.rows.is_empty() {
            self.rows.clone_from(&other.rows);
            return;
        }
        for (row, more) in self.rows.iter_mut().zip(&other.rows) {
            row.scenarios += more.scenarios;
            row.count += more.count;
        }
    }

    pub(super) const fn nothing() -> Self {
        Self { rows: Vec::new() }
    }

    /// What one scenario reached.
    pub(super) fn by(base: &Base, scenario: &Scenario, good: &Good) -> Self {
        let mut rows = Vec::new();
        let mut row = |group, name: String, count: u64| {
            rows.push(Row {
                group,
                name,
                scenarios: u64::from(count > 0),
                count,
            });
        };
        for (profile, operation, immediate) in base.choices() {
            let of = |message: &&crate::scenario::MessageSpec| {
                let spec = &scenario.queue_pairs[message.queue_pair];
                (spec.profile, message.operation, message.immediate) == (profile, operation, immediate)
            };
            let count = scenario.messages.iter().filter(of).count();
            let with = if immediate { " with immediate" } else { "" };
            row(
                "messages",
                format!("{} {}{with}", word(profile), word(operation)),
                count as u64,
            );
        }
        let messages = |of: fn(&crate::scenario::MessageSpec) -> bool| {
            scenario.messages.iter().filter(|message| of(message)).count() as u64
        };
        row("messages", "fenced".to_owned(), messages(|message| message.fence));
        row(
            "messages",
            "unsignalled".to_owned(),
            messages(|message| message.unsignalled),
        );
        let spread = base.choices().iter().any(|(profile, ..)| *profile != WireProfile::Roce);
        if spread {
            for policy in [
                Policy::Single,
                Policy::RoundRobin,
                Policy::Random,
                Policy::Adaptive,
                Policy::Reps,
            ] {
                let count = scenario.queue_pairs.iter().filter(|spec| spec.policy == policy).count();
                row("queue pairs", format!("policy {}", word(policy)), count as u64);
            }
        }
        let queue_pairs = |of: fn(&crate::scenario::QueuePairSpec) -> bool| {
            scenario.queue_pairs.iter().filter(|spec| of(spec)).count() as u64
        };
        row("queue pairs", "IPv6".to_owned(), queue_pairs(|spec| spec.ipv6));
        row(
            "queue pairs",
            "with a rate limit".to_owned(),
            queue_pairs(|spec| spec.mbps > 0),
        );
        let wraps = |spec: &&crate::scenario::QueuePairSpec| spec.psn.iter().any(|psn| *psn >= 0xFF_FFC0);
        let count = scenario.queue_pairs.iter().filter(wraps).count();
        row("queue pairs", "PSN about to wrap".to_owned(), count as u64);
        let paths = &good.paths;
        for (name, count) in [
            ("frames lost", paths.lost),
            ("frames lost on dead paths", paths.dead),
            ("frames damaged", paths.damaged),
            ("frames repeated", paths.repeated),
            ("frames marked CE", paths.marked),
        ] {
            row("network", name.to_owned(), count);
        }
        let faults = scenario.paths.iter().flat_map(|path| &path.faults);
        let held = faults.filter(|fault| matches!(fault.kind, FaultKind::Hold(_))).count();
        row("network", "frames to be held back".to_owned(), held as u64);
        row("network", "steps of a script".to_owned(), scenario.script.len() as u64);
        row("network", "frames given to the host".to_owned(), good.report.slow_path);
        let mut sums: Vec<(&'static str, u64)> = Vec::new();
        for activity in &good.activity {
            for (place, (name, count)) in activity.counts().into_iter().enumerate() {
                match sums.get_mut(place) {
                    Some(sum) => sum.1 += count,
                    None => sums.push((name, count)),
                }
            }
        }
        // A queue pair that fails is a failure of the scenario: it would never be counted here.
        for (name, count) in sums.into_iter().filter(|(name, _)| *name != "queue pairs failed") {
            row("transport", name.to_owned(), count);
        }
        Self { rows }
    }
}

/// A value's name in a scenario's file.
fn word(value: impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().replace('_', " ")
}
