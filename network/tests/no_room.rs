//! A receiver that has no room: many queue pairs share its slots for packets out of order, and each waits for a packet that a dead path has swallowed.
//! What is refused must not keep the lost packets waiting, nor fill the network.

use spraynic_golden::spraynic_nic::{Counters, Settings};
use spraynic_network::scenario::{Action, MessageSpec, Operation, Policy, QueuePairSpec, Step};
use spraynic_network::{GoldenDevice, PathSpec, Report, Run, Scenario, equal_paths};

const DEATH_NS: u64 = 20_000;
const TIMEOUT_NS: u64 = 100_000;
const MESSAGES: usize = 4;
const LENGTH: u32 = 262_144;
const MTU: u32 = 4_096;

/// Preset 100g: 512 slots, windows of 256. One path of eight dies under `queue_pairs` queue pairs.
fn a_path_dies_under(queue_pairs: usize) -> Scenario {
    Scenario {
        preset: "100g".to_owned(),
        overrides: vec!["paths.ports=1".to_owned()],
        port_mbps: 100_000,
        paths: equal_paths(
            8,
            &PathSpec {
                delay_ns: 2_500,
                ..PathSpec::default()
            },
        ),
        queue_pairs: vec![
            QueuePairSpec {
                policy: Policy::Adaptive,
                mtu: MTU,
                ooo_threshold: 32,
                base_rtt_ns: 8_000,
                timeout_ns: TIMEOUT_NS as u32,
                ..QueuePairSpec::default()
            };
            queue_pairs
        ],
        messages: (0..queue_pairs * MESSAGES)
            .map(|number| MessageSpec {
                queue_pair: number % queue_pairs,
                ..MessageSpec::new(Operation::Write, LENGTH)
            })
            .collect(),
        script: vec![Step {
            at_ns: DEATH_NS,
            action: Action::Path {
                port: 0,
                path: 0,
                alive: false,
            },
        }],
        shared_buffers: true,
        ..Scenario::default()
    }
}

/// What came of it, and what the sender counted until `limit_ns`.
fn run_until(scenario: &Scenario, limit_ns: u64) -> (Option<Report>, Counters) {
    let scenario = Scenario {
        limit_ns,
        ..scenario.clone()
    };
    let run = Run::new(&scenario, |_, config, memory| {
        GoldenDevice::new(config, Settings::default(), memory)
    });
    let (report, mut world) = run.expect("a scenario").finish_in_any_case(GoldenDevice::payload_bytes);
    (report.ok(), world.device(0).nic().counters())
}

#[test]
fn refused_packets_keep_no_lost_one_waiting() {
    for queue_pairs in [8, 16] {
        let scenario = a_path_dies_under(queue_pairs);
        let (report, counters) = run_until(&scenario, 300_000_000);
        let finished_ns = report.expect("all comes through").finished_ns;
        let packets = queue_pairs as u32 * MESSAGES as u32 * LENGTH / MTU;
        let until = DEATH_NS + 5 * TIMEOUT_NS;
        let retired = run_until(&scenario, until).1.path_monitor.bad_by_loss;
        let sent_again = counters.work_queue.retransmissions;
        let nacks = counters.retransmit_engine.nacks;
        println!(
            "{queue_pairs} queue pairs: {finished_ns} ns; {packets} packets, {sent_again} sent again, {nacks} NACKs, {} timeouts; dead path retired by \
             {retired} within {until} ns",
            counters.retransmit_engine.timeouts,
        );
        let ideal_ns = u64::from(packets * MTU) * 8 / 100;
        assert!(finished_ns < ideal_ns * 3 / 2, "{finished_ns} of {ideal_ns}");
        // Each queue pair has its own set of paths, of which none but the dead one is blamed.
        assert_eq!([retired, counters.path_monitor.bad_by_loss], [queue_pairs as u32; 2]);
        assert!(nacks < packets / 2 && sent_again < packets / 2, "{nacks}, {sent_again}");
    }
}
