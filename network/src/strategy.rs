//! Random scenarios for proptest: they shrink to few messages, few faults and a quiet network.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;
use spraynic_config::{NicConfig, Profile};

use crate::path::{Fault, FaultKind, PathSpec};
use crate::run::{Failure, is_allowed, ports_of};
use crate::scenario::{Action, MessageSpec, Operation, Policy, QueuePairSpec, Scenario, Step, WireProfile};
use crate::world::Spreading;

/// What random scenarios are made for.
#[derive(Debug, Clone)]
pub struct Base {
    preset: String,
    overrides: Vec<String>,
    config: NicConfig,
    longest: u32,
}

impl Base {
    /// NICs of this preset with these overrides (`key=value`), and messages of up to `longest` bytes.
    ///
    /// # Errors
    /// There is no such configuration, or it can send nothing.
    pub fn new(preset: &str, overrides: &[String], longest: u32) -> Result<Self, Failure> {
        let scenario = Scenario {
            preset: preset.to_owned(),
            overrides: overrides.to_vec(),
            ..Scenario::default()
        };
        let base = Self {
            config: scenario.config()?,
            preset: scenario.preset,
            overrides: scenario.overrides,
            longest,
        };
        if base.profiles().is_empty() {
            let what = "wire.operations has nothing that a message asks for: SEND, WRITE, READ or atomics";
            return Err(Failure::Scenario(what.to_owned()));
        }
        Ok(base)
    }

    /// Preset of the NICs' configuration.
    #[must_use]
    pub fn preset(&self) -> &str {
        &self.preset
    }

    /// Overrides of its keys, as `key=value`.
    #[must_use]
    pub fn overrides(&self) -> &[String] {
        &self.overrides
    }

    /// The configuration of the NICs.
    #[must_use]
    pub fn config(&self) -> &NicConfig {
        &self.config
    }

    /// Profiles that can ask for something, with their weights.
    fn profiles(&self) -> Vec<(u32, WireProfile)> {
        [(1, WireProfile::Roce), (3, WireProfile::Solar), (2, WireProfile::Mrc)]
            .into_iter()
            .filter(|(_, profile)| self.config.wire.profiles.contains(&Profile::from(*profile)))
            .filter(|(_, profile)| !self.operations(*profile).is_empty())
            .collect()
    }

    /// Operations of a profile, with their weights.
    fn operations(&self, profile: WireProfile) -> Vec<(u32, (Operation, bool))> {
        let spec = QueuePairSpec {
            profile,
            ..QueuePairSpec::default()
        };
        let all = [
            (3, (Operation::Write, false)),
            (3, (Operation::Write, true)),
            (2, (Operation::Send, false)),
            (2, (Operation::Send, true)),
            (4, (Operation::Read, false)),
            (2, (Operation::FetchAdd, false)),
            (2, (Operation::CompareSwap, false)),
        ];
        let allowed = |operation, immediate| {
            let message = MessageSpec {
                queue_pair: 0,
                side: 0,
                operation,
                length: 0,
                immediate,
                fence: false,
                unsignalled: false,
                at_ns: 0,
            };
            is_allowed(&message, &spec, &self.config)
        };
        all.into_iter()
            .filter(|(_, (operation, immediate))| allowed(*operation, *immediate))
            .collect()
    }

    /// Each profile with the operations that it can ask for, and whether with immediate data.
    pub(crate) fn choices(&self) -> Vec<(WireProfile, Operation, bool)> {
        let profiles = self.profiles().into_iter().map(|(_, profile)| profile);
        profiles
            .flat_map(|profile| {
                let operations = self.operations(profile).into_iter();
                operations.map(move |(_, (operation, immediate))| (profile, operation, immediate))
            })
            .collect()
    }

    /// Longest message, in bytes.
    pub(crate) fn longest(&self) -> u32 {
        self.longest
    }

    /// Whether a scenario is one for these NICs with work for them, as one drawn for this base is.
    #[must_use]
    pub fn accepts(&self, scenario: &Scenario) -> bool {
        let known = |spec: &QueuePairSpec| !self.operations(spec.profile).is_empty();
        let sent = |message: &MessageSpec| {
            let spec = scenario.queue_pairs.get(message.queue_pair);
            spec.is_some_and(|spec| is_allowed(message, spec, &self.config))
        };
        (&scenario.preset, &scenario.overrides) == (&self.preset, &self.overrides)
            && !scenario.paths.is_empty()
            && !scenario.messages.is_empty()
            && scenario.queue_pairs.iter().all(known)
            && scenario.messages.iter().all(sent)
    }

    pub(crate) fn ports(&self) -> usize {
        self.config.paths.ports as usize
    }

    /// Entropy values of a port.
    pub(crate) fn values(&self) -> usize {
        self.config.paths.entries as usize / ports_of(&self.config)
    }
}

fn one_of<T: Clone + std::fmt::Debug + 'static>(weighted: Vec<(u32, T)>) -> impl Strategy<Value = T> {
    Union::new_weighted(
        weighted
            .into_iter()
            .map(|(weight, value)| (weight, Just(value)))
            .collect(),
    )
}

/// Paths of a plane.
pub(crate) fn most_paths(base: &Base) -> usize {
    base.values().clamp(1, 5)
}

/// Queue pairs.
pub(crate) fn most_queue_pairs(base: &Base) -> usize {
    (base.config.send_queue_pairs() as usize).min(3)
}

/// Scenarios of two NICs: up to three queue pairs, up to 30 messages, two to five paths of different delay that lose, damage, repeat and hold
/// frames, paths that die and live again; with several ports, ports that go down and come up again.
pub fn scenario(base: &Base) -> impl Strategy<Value = Scenario> + use<> {
    let (most_paths, most_queue_pairs) = (most_paths(base), most_queue_pairs(base));
    let paths = vec(path(), most_paths.min(2)..=most_paths);
    let queue_pairs = vec(queue_pair(base), 1..=most_queue_pairs);
    let spreading = prop_oneof![2 => Just(Spreading::Modulo), 1 => Just(Spreading::Hash)];
    let base = base.clone();
    (paths, queue_pairs, any::<u64>(), spreading, 1..3usize, 0..3usize).prop_flat_map(
        move |(paths, queue_pairs, seed, spreading, values_per_path, backups)| {
            let messages = vec(message(&base, &queue_pairs), 1..30);
            let script = vec(death(base.ports(), paths.len()), 0..3);
            let values_per_path = values_per_path.min(base.values() / paths.len());
            let backups = backups.min(base.values() - values_per_path * paths.len());
            let base = base.clone();
            (messages, script, prop_oneof![4 => Just(0u64), 1 => 0..200_000u64]).prop_map(
                move |(messages, script, receive_delay_ns)| Scenario {
                    preset: base.preset.clone(),
                    overrides: base.overrides.clone(),
                    port_mbps: base.config.datapath.port_mbps.into(),
                    seed,
                    paths: paths.clone(),
                    spreading,
                    values_per_path,
                    backups,
                    queue_pairs: queue_pairs.clone(),
                    messages,
                    script: script.into_iter().flatten().collect(),
                    receive_delay_ns,
                    limit_ns: 2_000_000_000,
                    ..Scenario::default()
                },
            )
        },
    )
}

/// The same without loss, damage, repeats and deaths: paths of different delay alone.
pub fn lossless_scenario(base: &Base) -> impl Strategy<Value = Scenario> + use<> {
    scenario(base).prop_map(|mut scenario| {
        without_loss(&mut scenario);
        scenario
    })
}

/// Takes all from a scenario for which something would have to be sent again.
pub(crate) fn without_loss(scenario: &mut Scenario) {
    for path in &mut scenario.paths {
        path.loss_ppm = 0;
        path.corruption_ppm = 0;
        path.duplication_ppm = 0;
        path.faults.retain(|fault| matches!(fault.kind, FaultKind::Hold(_)));
    }
    scenario.script.clear();
    scenario.receive_delay_ns = 0;
    // Longer than any delay that these paths can have.
    for queue_pair in &mut scenario.queue_pairs {
        queue_pair.base_rtt_ns = 5_000_000;
        queue_pair.timeout_ns = 5_000_000;
    }
}

pub(crate) fn path() -> impl Strategy<Value = PathSpec> {
    let share = || prop_oneof![3 => Just(0u32), 1 => 0..50_000u32];
    let rate = prop_oneof![2 => Just(0u64), 1 => 2_000..20_000u64];
    (0..10_000u64, rate, share(), share(), share(), vec(fault(), 0..4)).prop_map(
        |(delay_ns, mbps, loss_ppm, corruption_ppm, duplication_ppm, faults)| PathSpec {
            delay_ns,
            mbps,
            loss_ppm,
            corruption_ppm,
            duplication_ppm,
            faults,
            ecn_bytes: 20_000,
            ..PathSpec::default()
        },
    )
}

fn fault() -> impl Strategy<Value = Fault> {
    let kind = prop_oneof![
        Just(FaultKind::Lose),
        (any::<u16>(), 0..8u8).prop_map(|(byte, bit)| FaultKind::Corrupt { byte, bit }),
        Just(FaultKind::Repeat),
        (0..20_000u32).prop_map(FaultKind::Hold),
    ];
    (0..60u64, kind).prop_map(|(frame, kind)| Fault { frame, kind })
}

pub(crate) fn queue_pair(base: &Base) -> impl Strategy<Value = QueuePairSpec> + use<> {
    let profile = one_of(base.profiles());
    let policy = prop_oneof![
        Just(Policy::RoundRobin),
        Just(Policy::Random),
        Just(Policy::Adaptive),
        Just(Policy::Reps),
        Just(Policy::Single),
    ];
    let psn = || prop_oneof![any::<u32>().prop_map(|psn| psn & 0xFF_FFFF), 0xFF_FFC0..=0xFF_FFFFu32];
    let most = base.config.max_mtu_code();
    let mtu = (1..=most).prop_map(|code| 128 << code);
    let wire = &base.config.wire;
    let ipv6 = one_of(match (wire.ipv4, wire.ipv6) {
        (true, true) => vec![(1, false), (1, true)],
        (_, ipv6) => vec![(1, ipv6)],
    });
    let widest = base.config.send.window.min(base.config.receive.window) as u16;
    let window = prop_oneof![2 => Just(0u16), 1 => 1..=widest];
    let threshold = prop_oneof![Just(1_000u16), 3..64u16];
    let rate = prop_oneof![4 => Just(0u64), 1 => 2_000..9_000u64];
    (
        profile,
        policy,
        (psn(), psn()),
        mtu,
        ipv6,
        window,
        (0..4u8, 1..8u8),
        threshold,
        rate,
    )
        .prop_map(
            |(profile, policy, psn, mtu, ipv6, window, (class, weight), ooo_threshold, mbps)| QueuePairSpec {
                profile,
                policy: if profile == WireProfile::Roce {
                    Policy::Fixed
                } else {
                    policy
                },
                psn: psn.into(),
                mtu,
                ipv6,
                window,
                class,
                weight,
                ooo_threshold,
                mbps,
                base_rtt_ns: 25_000,
                timeout_ns: 200_000,
                ..QueuePairSpec::default()
            },
        )
}

pub(crate) fn message(base: &Base, queue_pairs: &[QueuePairSpec]) -> impl Strategy<Value = MessageSpec> + use<> {
    let length = prop_oneof![2 => 0..2_000u32.min(base.longest + 1), 1 => 0..=base.longest];
    let operations: Vec<_> = queue_pairs.iter().map(|spec| base.operations(spec.profile)).collect();
    let asked = (0..queue_pairs.len())
        .prop_flat_map(move |queue_pair| (Just(queue_pair), one_of(operations[queue_pair].clone())));
    (asked, 0..2usize, length, any::<(bool, bool)>(), 0..100_000u64).prop_map(
        |((queue_pair, (operation, immediate)), side, length, (fence, unsignalled), at_ns)| MessageSpec {
            queue_pair,
            side,
            operation,
            length,
            immediate,
            fence,
            unsignalled,
            at_ns,
        },
    )
}

/// A path dies, and lives again later; or, with several ports, a port goes down and comes up.
pub(crate) fn death(ports: usize, paths: usize) -> impl Strategy<Value = [Step; 2]> {
    let path =
        (0..ports, 0..paths).prop_map(|(port, path)| [false, true].map(|alive| Action::Path { port, path, alive }));
    let port =
        (0..2usize, 0..ports as u8).prop_map(|(nic, port)| [false, true].map(|up| Action::Port { nic, port, up }));
    let what = Union::new_weighted(if ports > 1 {
        vec![(2, path.boxed()), (1, port.boxed())]
    } else {
        vec![(1, path.boxed())]
    });
    (what, 0..300_000u64, 0..500_000u64).prop_map(|([down, up], at_ns, lasting_ns)| {
        [(at_ns, down), (at_ns + lasting_ns, up)].map(|(at_ns, action)| Step { at_ns, action })
    })
}
