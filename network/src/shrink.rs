//! Makes a failing scenario smaller by edits of its own data, for what strategies cannot reach: they choose messages after queue pairs and
//! paths, and so cannot take one away without choosing the others anew.
//!
//! No edit takes a scenario out of what its property holds for: faults are taken away and never added, a path that dies lives again as
//! before, timers are not touched.

use std::time::Instant;

use crate::path::PathSpec;
use crate::scenario::{Action, Policy, QueuePairSpec, Scenario, WireProfile};

/// How long to look for a smaller scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Runs.
    pub runs: u64,
    /// No run begins after it.
    pub until: Instant,
}

impl Patience {
    /// Takes one run, if there is one left.
    pub(crate) fn take(&mut self) -> bool {
        let left = self.runs > 0 && Instant::now() < self.until;
        self.runs -= u64::from(left);
        left
    }
}

/// The smallest scenario found that fails too, by `fails`.
pub fn shrink(scenario: Scenario, patience: &mut Patience, mut fails: impl FnMut(&Scenario) -> bool) -> Scenario {
    let mut smallest = scenario;
    loop {
        let mut better = false;
        let mut place = 0;
        let mut edits = smaller(&smallest);
        while let Some(candidate) = edits.get(place) {
            if candidate == &smallest {
                place += 1;
                continue;
            }
            if !patience.take() {
                return smallest;
            }
            if fails(candidate) {
                // What stood behind it in the list stands at its place now.
                smallest = candidate.clone();
                edits = smaller(&smallest);
                better = true;
            } else {
                place += 1;
            }
        }
        if !better {
            return smallest;
        }
    }
}

/// Scenarios with one thing less, the greatest steps first.
fn smaller(scenario: &Scenario) -> Vec<Scenario> {
    let mut all = Vec::new();
    let mut edit = |change: &dyn Fn(&mut Scenario)| {
        let mut changed = scenario.clone();
        change(&mut changed);
        all.push(changed);
    };
    let count = scenario.messages.len();
    let mut share = count / 2;
    while share > 0 {
        for first in (0..count).step_by(share) {
            edit(&|changed| drop(changed.messages.drain(first..(first + share).min(count))));
        }
        share /= 2;
    }
    for step in 0..scenario.script.len() {
        edit(&|changed| without_step(changed, step));
    }
    for queue_pair in 0..scenario.queue_pairs.len() {
        if scenario.messages.iter().all(|message| message.queue_pair != queue_pair) {
            edit(&|changed| without_queue_pair(changed, queue_pair));
        }
    }
    if scenario.paths.len() > 1 {
        for path in 0..scenario.paths.len() {
            edit(&|changed| drop(changed.paths.remove(path)));
        }
    }
    for path in 0..scenario.paths.len() {
        for fault in 0..scenario.paths[path].faults.len() {
            edit(&|changed| {
                changed.paths[path].faults.remove(fault);
            });
        }
        for change in PATH_EDITS {
            edit(&|changed| change(&mut changed.paths[path]));
        }
    }
    for queue_pair in 0..scenario.queue_pairs.len() {
        for change in QUEUE_PAIR_EDITS {
            edit(&|changed| change(&mut changed.queue_pairs[queue_pair]));
        }
    }
    edit(&|changed| changed.receive_delay_ns = 0);
    for (place, message) in scenario.messages.iter().enumerate() {
        let length = message.length;
        for shorter in [0, 1, length / 2, length - length / 8, length.saturating_sub(1)] {
            if shorter < length {
                edit(&|changed| changed.messages[place].length = shorter);
            }
        }
        edit(&|changed| changed.messages[place].at_ns = 0);
        edit(&|changed| changed.messages[place].immediate = false);
        edit(&|changed| changed.messages[place].fence = false);
        edit(&|changed| changed.messages[place].unsignalled = false);
    }
    all
}

const PATH_EDITS: [fn(&mut PathSpec); 6] = [
    |path| path.loss_ppm = 0,
    |path| path.corruption_ppm = 0,
    |path| path.duplication_ppm = 0,
    |path| path.ecn_bytes = 0,
    |path| path.mbps = 0,
    |path| path.delay_ns = path.delay_ns.min(1_000),
];

const QUEUE_PAIR_EDITS: [fn(&mut QueuePairSpec); 7] = [
    |spec| {
        if spec.profile != WireProfile::Roce {
            spec.policy = Policy::RoundRobin;
        }
    },
    |spec| spec.ipv6 = false,
    |spec| spec.window = 0,
    |spec| spec.psn = [0, 0],
    |spec| spec.class = 1,
    |spec| spec.weight = 1,
    |spec| spec.mbps = 0,
];

/// What a step is about, and whether it takes something away; `None`: it does neither that nor give it back.
fn kind(action: &Action) -> Option<(u8, usize, usize, bool)> {
    match action {
        Action::Path { port, path, alive } => Some((0, *port, *path, !alive)),
        Action::From { nic, alive } => Some((1, *nic, 0, !alive)),
        Action::Port { nic, port, up } => Some((2, *nic, usize::from(*port), !up)),
        Action::Pause { nic, port, paused } => Some((3, *nic, usize::from(*port), *paused)),
        Action::Change { .. } => None,
    }
}

/// Takes a step away, and the one behind it that gives back what it takes; one that only gives back stays while it is needed.
pub(crate) fn without_step(scenario: &mut Scenario, step: usize) {
    let Some((what, a, b, takes)) = kind(&scenario.script[step].action) else {
        scenario.script.remove(step);
        return;
    };
    let times = scenario.script[step].at_ns;
    let same = |other: &Action, takes: bool| kind(other) == Some((what, a, b, takes));
    let others = scenario.script.iter().enumerate();
    if takes {
        let back = others
            .filter(|(place, other)| *place != step && other.at_ns >= times && same(&other.action, false))
            .min_by_key(|(_, other)| other.at_ns)
            .map(|(place, _)| place);
        let first = back.map_or(step, |back| back.max(step));
        scenario.script.remove(first);
        if let Some(back) = back {
            scenario.script.remove(back.min(step));
        }
    } else if !others
        .clone()
        .any(|(_, other)| other.at_ns <= times && same(&other.action, true))
    {
        scenario.script.remove(step);
    }
}

/// Takes a queue pair away that has no messages.
pub(crate) fn without_queue_pair(scenario: &mut Scenario, queue_pair: usize) {
    scenario.queue_pairs.remove(queue_pair);
    for message in &mut scenario.messages {
        message.queue_pair -= usize::from(message.queue_pair > queue_pair);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{MessageSpec, Operation, Step};
    use std::time::Duration;

    fn message(number: u32) -> MessageSpec {
        MessageSpec {
            queue_pair: number as usize % 2,
            side: 0,
            operation: Operation::Write,
            length: 1_000 + number,
            immediate: true,
            fence: false,
            unsignalled: true,
            at_ns: 5,
        }
    }

    #[test]
    fn what_the_failure_does_not_need_goes() {
        let death = |at_ns, path, alive| Step {
            at_ns,
            action: Action::Path { port: 0, path, alive },
        };
        let scenario = Scenario {
            queue_pairs: vec![QueuePairSpec::default(); 2],
            messages: (0..30).map(message).collect(),
            script: vec![
                death(5, 1, false),
                death(7, 2, false),
                death(9, 1, true),
                death(8, 2, true),
            ],
            ..Scenario::default()
        };
        let mut patience = Patience {
            runs: 2_000,
            until: Instant::now() + Duration::from_secs(60),
        };
        // It fails while there is a message of queue pair 1 with 100 bytes and path 2 dies.
        let small = shrink(scenario, &mut patience, |scenario| {
            let long = |message: &MessageSpec| message.length >= 100;
            let two = scenario
                .messages
                .iter()
                .any(|message| long(message) && (message.queue_pair == 1 || scenario.queue_pairs.len() == 1));
            let dies = |step: &Step| kind(&step.action) == Some((0, 0, 2, true));
            two && scenario.script.iter().any(dies)
        });
        let [left] = small.messages.as_slice() else {
            panic!("{small:?}")
        };
        assert_eq!((left.length, left.immediate, left.at_ns), (100, false, 0));
        assert_eq!(small.script, [death(7, 2, false), death(8, 2, true)]);
        assert_eq!((small.queue_pairs.len(), small.paths.len()), (1, 1));
        assert!(patience.runs > 1_000, "{patience:?}");
    }
}
