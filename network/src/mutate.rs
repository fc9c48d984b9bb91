//! Changes scenarios a little: one that reached something is nearer to what was never reached than one drawn anew.
//!
//! Every part that is put in is drawn by the strategies, so a changed scenario keeps the bounds within which their property holds; only how
//! the parts come together is new. Nothing here runs a scenario or knows which ones are worth keeping.

use fastrand::Rng;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config as RunnerConfig, RngAlgorithm, TestRng, TestRunner};

use crate::check::Property;
use crate::run::is_allowed;
use crate::scenario::{Action, MessageSpec, QueuePairSpec, Scenario, WireProfile};
use crate::shrink::{without_queue_pair, without_step};
use crate::strategy::{self, Base};
use crate::world::Spreading;

/// Messages of a changed scenario; the strategies go up to 29.
const MOST_MESSAGES: usize = 60;
/// Steps of its script; the strategies go up to 4.
const MOST_STEPS: usize = 8;
/// Changes of one scenario.
const MOST_CHANGES: usize = 4;

/// A source of random values for strategies, which follows from a seed.
pub(crate) fn runner(seed: u64, case: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&case.to_le_bytes());
    let config = RunnerConfig {
        failure_persistence: None,
        ..RunnerConfig::default()
    };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// A scenario like `parent`, with something of `other` perhaps. The same seed and case give the same one.
#[must_use]
pub fn mutate(base: &Base, property: Property, parent: &Scenario, other: &Scenario, seed: u64, case: u64) -> Scenario {
    let mut draw = Draw {
        base,
        // Not those of the scenario that is drawn anew for this case.
        runner: runner(!seed, case),
        rng: Rng::with_seed(seed ^ case.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
    };
    let mut scenario = parent.clone();
    // Often one change, seldom several: what an entry reached must not be lost at once.
    let mut changes = 1;
    while changes < MOST_CHANGES && draw.rng.u8(0..3) == 0 {
        changes += 1;
    }
    let mut left = 8 * changes;
    while changes > 0 && left > 0 {
        left -= 1;
        let before = scenario.clone();
        let change = CHANGES[draw.rng.usize(0..CHANGES.len())];
        change(&mut draw, &mut scenario, other);
        changes -= usize::from(scenario != before);
    }
    draw.fit(&mut scenario);
    if property == Property::NothingTwice {
        strategy::without_loss(&mut scenario);
    }
    scenario
}

/// What random parts are drawn with.
struct Draw<'a> {
    base: &'a Base,
    runner: TestRunner,
    rng: Rng,
}

type Change = fn(&mut Draw<'_>, &mut Scenario, &Scenario);

const CHANGES: [Change; 24] = [
    |draw, scenario, _| scenario.seed = draw.rng.u64(..),
    // Paths.
    |draw, scenario, _| {
        let path = draw.rng.usize(0..scenario.paths.len());
        scenario.paths[path] = draw.one(strategy::path());
    },
    |draw, scenario, _| {
        let path = draw.one(strategy::path());
        scenario.paths.push(path);
    },
    |draw, scenario, _| {
        if scenario.paths.len() > 1 {
            let path = draw.rng.usize(0..scenario.paths.len());
            scenario.paths.remove(path);
        }
    },
    |draw, scenario, _| {
        let fresh = draw.one(strategy::path());
        let path = draw.rng.usize(0..scenario.paths.len());
        let path = &mut scenario.paths[path];
        match draw.rng.u8(0..6) {
            0 => path.delay_ns = fresh.delay_ns,
            1 => path.mbps = fresh.mbps,
            2 => path.loss_ppm = fresh.loss_ppm,
            3 => path.corruption_ppm = fresh.corruption_ppm,
            4 => path.duplication_ppm = fresh.duplication_ppm,
            _ => path.faults = fresh.faults,
        }
    },
    |draw, scenario, _| {
        // All alike: what is reached only while nothing is different.
        let path = draw.rng.usize(0..scenario.paths.len());
        let path = scenario.paths[path].clone();
        scenario.paths.fill(path);
    },
    // How frames find their path.
    |draw, scenario, _| {
        scenario.spreading = if draw.rng.bool() {
            Spreading::Modulo
        } else {
            Spreading::Hash
        };
        scenario.values_per_path = draw.rng.usize(1..3);
        scenario.backups = draw.rng.usize(0..3);
    },
    // Queue pairs.
    |draw, scenario, _| {
        let place = draw.rng.usize(0..scenario.queue_pairs.len());
        let fresh = draw.one(strategy::queue_pair(draw.base));
        draw.some_fields(&mut scenario.queue_pairs[place], &fresh);
    },
    |draw, scenario, _| {
        let place = draw.rng.usize(0..scenario.queue_pairs.len());
        scenario.queue_pairs[place] = draw.one(strategy::queue_pair(draw.base));
        draw.fit_messages(scenario, place);
    },
    |draw, scenario, _| {
        if scenario.queue_pairs.len() < strategy::most_queue_pairs(draw.base) {
            let fresh = draw.one(strategy::queue_pair(draw.base));
            scenario.queue_pairs.push(fresh);
            for _ in 0..draw.rng.usize(1..6) {
                draw.add_message(scenario, scenario.queue_pairs.len() - 1);
            }
        }
    },
    |draw, scenario, _| {
        let place = draw.rng.usize(0..scenario.queue_pairs.len());
        if scenario.messages.iter().any(|message| message.queue_pair != place) {
            scenario.messages.retain(|message| message.queue_pair != place);
            without_queue_pair(scenario, place);
        }
    },
    // Messages.
    |draw, scenario, _| {
        for _ in 0..draw.rng.usize(1..8) {
            let queue_pair = draw.rng.usize(0..scenario.queue_pairs.len());
            draw.add_message(scenario, queue_pair);
        }
    },
    |draw, scenario, _| {
        let (first, count) = draw.some_messages(scenario);
        if count < scenario.messages.len() {
            scenario.messages.drain(first..first + count);
        }
    },
    |draw, scenario, _| {
        // A burst of one message.
        let place = draw.rng.usize(0..scenario.messages.len());
        let message = scenario.messages[place];
        let times = draw.rng.usize(1..16);
        scenario
            .messages
            .splice(place..place, std::iter::repeat_n(message, times));
    },
    |draw, scenario, _| {
        let place = draw.rng.usize(0..scenario.messages.len());
        let queue_pair = scenario.messages[place].queue_pair;
        let fresh = draw.message(scenario, queue_pair);
        let message = &mut scenario.messages[place];
        match draw.rng.u8(0..6) {
            0 => (message.operation, message.immediate) = (fresh.operation, fresh.immediate),
            1 => message.length = fresh.length,
            2 => message.fence = !message.fence,
            3 => message.unsignalled = !message.unsignalled,
            4 => message.at_ns = fresh.at_ns,
            _ => message.side = 1 - message.side,
        }
    },
    |draw, scenario, _| {
        // At an end of a packet.
        let (first, count) = draw.some_messages(scenario);
        let packets = draw.rng.u32(0..4);
        let off = draw.rng.u32(0..3);
        for place in first..first + count {
            let mtu = scenario.queue_pairs[scenario.messages[place].queue_pair].mtu;
            scenario.messages[place].length = (packets * mtu + off).saturating_sub(1);
        }
    },
    |draw, scenario, _| {
        // All at once, or one behind the other.
        let (first, count) = draw.some_messages(scenario);
        let start = draw.rng.u64(0..100_000);
        let apart = if draw.rng.bool() { 0 } else { draw.rng.u64(0..2_000) };
        for (number, message) in scenario.messages[first..first + count].iter_mut().enumerate() {
            message.at_ns = (start + number as u64 * apart).min(100_000);
        }
    },
    |draw, scenario, _| {
        let (first, count) = draw.some_messages(scenario);
        scenario.messages[first..first + count].reverse();
    },
    |draw, scenario, _| {
        let (first, count) = draw.some_messages(scenario);
        let side = draw.rng.usize(0..2);
        scenario.messages[first..first + count]
            .iter_mut()
            .for_each(|message| message.side = side);
    },
    // The script.
    |draw, scenario, _| {
        let death = draw.one(strategy::death(draw.base.ports(), scenario.paths.len()));
        scenario.script.extend(death);
    },
    |draw, scenario, _| {
        if !scenario.script.is_empty() {
            let step = draw.rng.usize(0..scenario.script.len());
            without_step(scenario, step);
        }
    },
    |draw, scenario, _| {
        scenario.receive_delay_ns = if draw.rng.bool() { 0 } else { draw.rng.u64(0..200_000) };
    },
    // Two that reached something, in one: the work of one on the network of the other.
    |_, scenario, other| {
        scenario.paths.clone_from(&other.paths);
        scenario.script.clone_from(&other.script);
        (scenario.spreading, scenario.values_per_path) = (other.spreading, other.values_per_path);
    },
    |_, scenario, other| {
        scenario.messages.extend(other.messages.iter().filter_map(|message| {
            let spec = &other.queue_pairs[message.queue_pair];
            let same = scenario
                .queue_pairs
                .iter()
                .position(|mine| mine.profile == spec.profile)?;
            Some(MessageSpec {
                queue_pair: same,
                ..*message
            })
        }));
    },
];

impl Draw<'_> {
    /// A value of a strategy.
    fn one<S: Strategy>(&mut self, strategy: S) -> S::Value {
        match strategy.new_tree(&mut self.runner) {
            Ok(tree) => tree.current(),
            Err(reason) => unreachable!("a strategy without filters gives up: {reason}"),
        }
    }

    fn message(&mut self, scenario: &Scenario, queue_pair: usize) -> MessageSpec {
        let spec = std::slice::from_ref(&scenario.queue_pairs[queue_pair]);
        MessageSpec {
            queue_pair,
            ..self.one(strategy::message(self.base, spec))
        }
    }

    fn add_message(&mut self, scenario: &mut Scenario, queue_pair: usize) {
        let message = self.message(scenario, queue_pair);
        let place = self.rng.usize(0..=scenario.messages.len());
        scenario.messages.insert(place, message);
    }

    /// First and number of messages that stand together, at least one.
    fn some_messages(&mut self, scenario: &Scenario) -> (usize, usize) {
        let all = scenario.messages.len();
        let first = self.rng.usize(0..all);
        (first, self.rng.usize(1..=all - first))
    }

    /// Some fields become those of another queue pair; its profile stays, for its messages.
    fn some_fields(&mut self, spec: &mut QueuePairSpec, fresh: &QueuePairSpec) {
        let rng = &mut self.rng;
        let mut chosen = || rng.u8(0..4) == 0;
        if chosen() && spec.profile != WireProfile::Roce && fresh.profile != WireProfile::Roce {
            spec.policy = fresh.policy;
        }
        if chosen() {
            spec.psn = fresh.psn;
        }
        if chosen() {
            spec.mtu = fresh.mtu;
        }
        if chosen() {
            spec.ipv6 = fresh.ipv6;
        }
        if chosen() {
            spec.window = fresh.window;
        }
        if chosen() {
            (spec.class, spec.weight) = (fresh.class, fresh.weight);
        }
        if chosen() {
            spec.ooo_threshold = fresh.ooo_threshold;
        }
        if chosen() {
            spec.mbps = fresh.mbps;
        }
    }

    /// Messages that a queue pair cannot send become others.
    fn fit_messages(&mut self, scenario: &mut Scenario, queue_pair: usize) {
        for place in 0..scenario.messages.len() {
            let message = scenario.messages[place];
            let spec = &scenario.queue_pairs[queue_pair];
            if message.queue_pair == queue_pair && !is_allowed(&message, spec, self.base.config()) {
                let fresh = self.message(scenario, queue_pair);
                let message = &mut scenario.messages[place];
                (message.operation, message.immediate) = (fresh.operation, fresh.immediate);
            }
        }
    }

    /// Keeps what changes and mixtures can overstep: numbers, and what one part says of another.
    fn fit(&mut self, scenario: &mut Scenario) {
        let most_paths = strategy::most_paths(self.base);
        scenario.paths.truncate(most_paths);
        let paths = scenario.paths.len();
        let values = self.base.values();
        scenario.values_per_path = scenario.values_per_path.min(values / paths).max(1);
        scenario.backups = scenario
            .backups
            .min(values.saturating_sub(scenario.values_per_path * paths));
        for step in &mut scenario.script {
            if let Action::Path { path, .. } = &mut step.action {
                *path %= paths;
            }
        }
        while scenario.script.len() > MOST_STEPS {
            let before = scenario.script.len();
            // One that gives back stays while something before it takes; that one goes with it.
            let mut steps = 0..before;
            while scenario.script.len() == before
                && let Some(step) = steps.next()
            {
                without_step(scenario, step);
            }
            if scenario.script.len() == before {
                scenario.script.clear();
            }
        }
        while scenario.messages.len() > MOST_MESSAGES {
            let place = self.rng.usize(0..scenario.messages.len());
            scenario.messages.remove(place);
        }
        for place in 0..scenario.queue_pairs.len() {
            self.fit_messages(scenario, place);
        }
        let longest = self.base.longest();
        for message in &mut scenario.messages {
            message.length = message.length.min(longest);
        }
    }
}
