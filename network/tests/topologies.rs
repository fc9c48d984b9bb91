//! More than two NICs, more than one port: four NICs at once, incast, and a port whose link goes down.

use spraynic_golden::spraynic_nic::{Counters, Settings};
use spraynic_network::scenario::{Action, MessageSpec, Operation, Policy, QueuePairSpec, Step};
use spraynic_network::{GoldenDevice, PathSpec, Report, Run, Scenario, equal_paths};

fn run(scenario: &Scenario) -> (Report, Vec<Counters>) {
    let run = Run::new(scenario, |_, config, memory| {
        GoldenDevice::new(config, Settings::default(), memory)
    });
    let (report, mut world) = run
        .expect("a scenario")
        .finish(GoldenDevice::payload_bytes)
        .unwrap_or_else(|failure| panic!("{failure}"));
    let counters = (0..world.devices()).map(|nic| world.device(nic).nic().counters());
    let counters = counters.collect();
    (report, counters)
}

fn message(queue_pair: usize, side: usize, operation: Operation, length: u32) -> MessageSpec {
    MessageSpec {
        queue_pair,
        side,
        ..MessageSpec::new(operation, length)
    }
}

/// Four NICs, a queue pair between any two of them, both sides busy with everything.
#[test]
fn four_nics_talk_each_with_each() {
    let pairs = (0..4).flat_map(|a| (a + 1..4).map(move |b| [a, b]));
    let queue_pairs: Vec<QueuePairSpec> = pairs
        .map(|nics| QueuePairSpec {
            nics,
            policy: Policy::Adaptive,
            ooo_threshold: 64,
            base_rtt_ns: 20_000,
            timeout_ns: 500_000,
            ..QueuePairSpec::default()
        })
        .collect();
    let operations = [Operation::Write, Operation::Send, Operation::Read, Operation::FetchAdd];
    let messages = (0..queue_pairs.len() * 2 * 12).map(|number| {
        let (queue_pair, side) = (number % queue_pairs.len(), number / queue_pairs.len() % 2);
        let operation = operations[number / (2 * queue_pairs.len()) % 4];
        message(queue_pair, side, operation, 1_000 + 1_777 * (number as u32 % 13))
    });
    let scenario = Scenario {
        nics: 4,
        paths: equal_paths(
            4,
            &PathSpec {
                delay_ns: 2_000,
                mbps: 10_000,
                loss_ppm: 5_000,
                ..PathSpec::default()
            },
        ),
        messages: messages.collect(),
        queue_pairs,
        ..Scenario::default()
    };
    let (report, counters) = run(&scenario);
    let again: u32 = counters.iter().map(|nic| nic.work_queue.retransmissions).sum();
    println!("four NICs: {} ns, {again} packets sent again", report.finished_ns);
    assert!(again > 0, "half a percent of all frames are lost");
}

/// Three NICs write to the fourth at once: the last switch's queue overflows, and all comes through.
#[test]
fn incast_overflows_the_last_switch_and_loses_nothing() {
    let queue_pairs: Vec<QueuePairSpec> = (0..3)
        .map(|nic| QueuePairSpec {
            nics: [nic, 3],
            policy: Policy::Adaptive,
            ooo_threshold: 64,
            base_rtt_ns: 20_000,
            timeout_ns: 1_000_000,
            ..QueuePairSpec::default()
        })
        .collect();
    let scenario = Scenario {
        nics: 4,
        downlink: PathSpec {
            delay_ns: 0,
            queue_bytes: 60_000,
            ..PathSpec::default()
        },
        messages: (0..30)
            .map(|number| message(number % 3, 0, Operation::Write, 100_000))
            .collect(),
        queue_pairs,
        ..Scenario::default()
    };
    let run = Run::new(&scenario, |_, config, memory| {
        GoldenDevice::new(config, Settings::default(), memory)
    });
    let (report, world) = run
        .expect("a scenario")
        .finish(GoldenDevice::payload_bytes)
        .expect("all comes through");
    let overflowed = world.downlink_counters(3, 0).expect("a port").overflowed;
    println!(
        "incast of three: {:.2} Gb/s of 10, {overflowed} frames overflowed",
        report.mbps() / 1e3
    );
    assert!(overflowed > 0);
}

/// Two ports of 10 Gb/s: both are used; one goes down and everything goes on by the other; it comes back and both are used again.
#[test]
fn a_port_that_goes_down_is_left_at_once() {
    let mut scenario = Scenario {
        overrides: vec!["paths.ports=2".to_owned()],
        queue_pairs: vec![QueuePairSpec {
            policy: Policy::Adaptive,
            ooo_threshold: 32,
            base_rtt_ns: 8_000,
            timeout_ns: 100_000,
            ..QueuePairSpec::default()
        }],
        messages: vec![message(0, 0, Operation::Write, 200_000); 20],
        shared_buffers: true,
        ..Scenario::default()
    };
    let both = run(&scenario).0;
    let one = {
        let mut scenario = scenario.clone();
        scenario.overrides = vec!["paths.ports=1".to_owned()];
        run(&scenario).0
    };
    println!(
        "two ports: {:.2} Gb/s, one port: {:.2} Gb/s",
        both.mbps() / 1e3,
        one.mbps() / 1e3
    );
    assert!(both.mbps() > 1.8 * one.mbps());
    for (at_ns, up) in [(300_000, false), (900_000, true)] {
        for nic in 0..2 {
            scenario.script.push(Step {
                at_ns,
                action: Action::Port { nic, port: 1, up },
            });
        }
    }
    let (report, counters) = run(&scenario);
    // 600 us of half the rate cost 300 us, and what was on its way a few round trips more.
    let late = report.finished_ns - both.finished_ns;
    println!(
        "one port down for 600 us: {late} ns later, {} packets sent again, {} timeouts",
        counters[0].work_queue.retransmissions, counters[0].retransmit_engine.timeouts
    );
    assert!((250_000..450_000).contains(&late), "{late}");
}
