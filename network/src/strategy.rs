//! Random scenarios for proptest: they shrink to few messages, few faults and a quiet network.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::path::{Fault, FaultKind, PathSpec};
use crate::scenario::{Action, MessageSpec, Operation, Policy, QueuePairSpec, Scenario, Step, WireProfile};

/// A scenario of two NICs of preset `lab`: up to three queue pairs, up to 30 messages of up to `longest` bytes, two to five paths of
/// different delay that lose, damage, repeat and hold frames, and paths that die and live again.
pub fn scenario(longest: u32) -> impl Strategy<Value = Scenario> {
    let paths = vec(path(), 2..6);
    (paths, vec(queue_pair(), 1..4), any::<u64>()).prop_flat_map(move |(paths, queue_pairs, seed)| {
        let messages = vec(message(queue_pairs.clone(), longest), 1..30);
        let script = vec(death(paths.len()), 0..3);
        (messages, script, prop_oneof![4 => Just(0u64), 1 => 0..200_000u64]).prop_map(
            move |(messages, script, receive_delay_ns)| Scenario {
                seed,
                paths: paths.clone(),
                queue_pairs: queue_pairs.clone(),
                messages,
                script: script.into_iter().flatten().collect(),
                receive_delay_ns,
                limit_ns: 2_000_000_000,
                ..Scenario::default()
            },
        )
    })
}

/// The same without loss, damage, repeats and deaths: paths of different delay alone.
pub fn lossless_scenario(longest: u32) -> impl Strategy<Value = Scenario> {
    scenario(longest).prop_map(|mut scenario| {
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
        scenario
    })
}

fn path() -> impl Strategy<Value = PathSpec> {
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

fn queue_pair() -> impl Strategy<Value = QueuePairSpec> {
    let profile = prop_oneof![
        1 => Just(WireProfile::Roce),
        3 => Just(WireProfile::Solar),
        2 => Just(WireProfile::Mrc),
    ];
    let policy = prop_oneof![
        Just(Policy::RoundRobin),
        Just(Policy::Random),
        Just(Policy::Adaptive),
        Just(Policy::Reps),
        Just(Policy::Single),
    ];
    let psn = || prop_oneof![any::<u32>().prop_map(|psn| psn & 0xFF_FFFF), 0xFF_FFC0..=0xFF_FFFFu32];
    let mtu = prop_oneof![Just(256u32), Just(512), Just(1024)];
    let window = prop_oneof![2 => Just(0u16), 1 => 1..128u16];
    let threshold = prop_oneof![Just(1_000u16), 3..64u16];
    (
        profile,
        policy,
        (psn(), psn()),
        mtu,
        any::<bool>(),
        window,
        0..4u8,
        1..8u8,
        threshold,
    )
        .prop_map(
            |(profile, policy, psn, mtu, ipv6, window, class, weight, ooo_threshold)| QueuePairSpec {
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
                base_rtt_ns: 25_000,
                timeout_ns: 200_000,
                ..QueuePairSpec::default()
            },
        )
}

fn message(queue_pairs: Vec<QueuePairSpec>, longest: u32) -> impl Strategy<Value = MessageSpec> {
    let length = prop_oneof![2 => 0..2_000u32, 1 => 0..=longest];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (
        0..queue_pairs.len(),
        0..2usize,
        operation(),
        length,
        flags,
        0..100_000u64,
    )
        .prop_map(
            move |(queue_pair, side, operation, length, (immediate, fence, unsignalled), at_ns)| {
                let mrc = queue_pairs[queue_pair].profile == WireProfile::Mrc;
                MessageSpec {
                    queue_pair,
                    side,
                    operation: if mrc { Operation::Write } else { operation },
                    length,
                    immediate,
                    fence,
                    unsignalled,
                    at_ns,
                }
            },
        )
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        3 => Just(Operation::Write),
        2 => Just(Operation::Send),
        2 => Just(Operation::Read),
        1 => Just(Operation::FetchAdd),
        1 => Just(Operation::CompareSwap),
    ]
}

/// A path dies, and lives again later.
fn death(paths: usize) -> impl Strategy<Value = [Step; 2]> {
    (0..paths, 0..300_000u64, 0..500_000u64).prop_map(|(path, at_ns, lasting_ns)| {
        [(at_ns, false), (at_ns + lasting_ns, true)].map(|(at_ns, alive)| Step {
            at_ns,
            action: Action::Path { port: 0, path, alive },
        })
    })
}
