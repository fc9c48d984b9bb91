//! What the send side must reach, measured on two golden NICs: goodput under loss, use of all paths, survival of a path's death, shares of
//! classes. Each test prints its figures; `cargo test -p spraynic-network --test targets -- --nocapture` shows them.

use spraynic_golden::spraynic_nic::{Counters, Settings};
use spraynic_network::scenario::{Action, MessageSpec, Operation, Policy, QueuePairSpec, Step, WireProfile};
use spraynic_network::{GoldenDevice, PathSpec, Report, Run, Scenario, equal_paths};

/// Round trip of the idle fabric: twice 2.5 us of the paths, and about 1 us of wires.
const BASE_RTT_NS: u64 = 6_000;

fn run(scenario: &Scenario, sample_ns: u64) -> (Report, Counters) {
    let run = Run::new(scenario, |_, config, memory| {
        GoldenDevice::new(config, Settings::default(), memory)
    });
    let run = run.expect("a scenario").with_samples(sample_ns);
    let (report, mut world) = run.finish(GoldenDevice::payload_bytes).expect("a run without failure");
    (report, world.device(0).nic().counters())
}

/// WRITEs of 1 MiB from NIC 0 to NIC 1, one queue pair, MTU 4096, over eight equal paths that together carry the rate of the port.
fn stream(gbps: u64, policy: Policy, messages: usize) -> Scenario {
    let overrides: &[&str] = match gbps {
        400 => &[
            "paths.ports=1",
            "send.window=1024",
            "receive.window=1024",
            "receive.pool_slots=2048",
        ],
        _ => &["paths.ports=1"],
    };
    Scenario {
        preset: format!("{gbps}g"),
        overrides: overrides.iter().map(|text| (*text).to_owned()).collect(),
        port_mbps: gbps * 1_000,
        paths: equal_paths(
            8,
            &PathSpec {
                delay_ns: 2_500,
                mbps: gbps * 125,
                queue_bytes: 2_000_000,
                ..PathSpec::default()
            },
        ),
        queue_pairs: vec![QueuePairSpec {
            policy,
            mtu: 4096,
            timeout_ns: 100_000,
            base_rtt_ns: BASE_RTT_NS as u32,
            ooo_threshold: 32,
            ..QueuePairSpec::default()
        }],
        messages: vec![write(1 << 20); messages],
        shared_buffers: true,
        limit_ns: 1_000_000_000,
        ..Scenario::default()
    }
}

fn write(length: u32) -> MessageSpec {
    MessageSpec::new(Operation::Write, length)
}

fn with_loss(mut scenario: Scenario, loss_ppm: u32) -> Scenario {
    for path in &mut scenario.paths {
        path.loss_ppm = loss_ppm;
    }
    scenario
}

#[test]
fn loss_costs_little_goodput_and_one_retransmission_each() {
    for gbps in [100, 400] {
        for policy in [Policy::RoundRobin, Policy::Adaptive] {
            let scenario = stream(gbps, policy, 40);
            let (clean, counters) = run(&scenario, 0);
            assert_eq!(counters.work_queue.retransmissions, 0);
            println!("{gbps} Gb/s {policy:?}: {:.2} Gb/s without loss", clean.mbps() / 1e3);
            for (loss_ppm, least) in [(1_000, 0.99), (10_000, 0.97)] {
                let (report, counters) = run(&with_loss(scenario.clone(), loss_ppm), 0);
                let share = report.mbps() / clean.mbps();
                let sent = f64::from(counters.work_queue.packets);
                let packets = sent - f64::from(counters.work_queue.retransmissions);
                let engine = counters.retransmit_engine;
                let loss = f64::from(loss_ppm) / 1e6;
                println!(
                    "{gbps} Gb/s {policy:?}, loss {loss}: {:.4} of that; {:.4} transmissions for each packet; {} timeouts",
                    share,
                    sent / packets,
                    engine.timeouts
                );
                assert!(share >= least, "{share}");
                assert!(sent / packets < 1.0 / (1.0 - loss) + 0.01, "{}", sent / packets);
            }
        }
    }
}

#[test]
fn go_back_n_shows_what_it_costs() {
    // One path of the port's whole rate.
    let roce = |loss_ppm| {
        let mut scenario = with_loss(stream(100, Policy::Fixed, 10), loss_ppm);
        scenario.queue_pairs[0].profile = WireProfile::Roce;
        scenario.paths.truncate(1);
        scenario.paths[0].mbps = 0;
        run(&scenario, 0).0.mbps()
    };
    let clean = roce(0);
    let shares = [1_000, 10_000].map(|loss_ppm| roce(loss_ppm) / clean);
    println!(
        "go-back-N, 100 Gb/s, one path: {:.2} Gb/s; at 0.1 % loss {:.3}, at 1 % {:.3} of that",
        clean / 1e3,
        shares[0],
        shares[1]
    );
    assert!(clean > 90_000.0, "{clean}");
    assert!(
        shares[1] < 0.9 && shares[1] < shares[0] && shares[0] < 0.99,
        "{shares:?}"
    );
}

/// Rate of payload that paths carry: MTU 4096 with Ethernet, IPv4, UDP, BTH, ICRC, preamble, FCS and gap.
fn payload_share() -> f64 {
    4096.0 / (4096.0 + 14.0 + 20.0 + 8.0 + 12.0 + 4.0 + 24.0)
}

#[test]
fn one_queue_pair_uses_all_paths() {
    for (policy, least, most) in [(Policy::Adaptive, 0.95, 1.0), (Policy::Single, 0.11, 0.126)] {
        let (report, _) = run(&stream(100, policy, 20), 0);
        let used = report.mbps() / 1e5 / payload_share();
        println!("{policy:?}: {used:.4} of the capacity of eight paths");
        assert!((least..=most).contains(&used), "{used}");
    }
}

#[test]
fn a_slow_path_costs_what_it_lacks() {
    let mut scenario = stream(100, Policy::Adaptive, 40);
    for path in &mut scenario.paths {
        path.ecn_bytes = 20_000;
    }
    scenario.paths[3].mbps /= 4;
    let (report, _) = run(&scenario, 0);
    let remains = (7.0 * 12_500.0 + 3_125.0) * payload_share();
    println!(
        "one path of a quarter of the rate: {:.4} of what remains",
        report.mbps() / remains
    );
    assert!(report.mbps() > 0.9 * remains);
}

#[test]
fn a_path_dies_and_goodput_stays() {
    let mut moments = fastrand::Rng::with_seed(7);
    let mut worst: f64 = 1e9;
    let mut sum = 0.0;
    let deaths = 100;
    for death in 0..deaths {
        let mut scenario = stream(100, Policy::Adaptive, 6);
        scenario.seed = death;
        let at_ns = moments.u64(200_000..320_000);
        let path = moments.usize(..8);
        scenario.script.push(Step {
            at_ns,
            action: Action::Path {
                port: 0,
                path,
                alive: false,
            },
        });
        let (report, counters) = run(&scenario, 1_000);
        let bytes_at = |ns: u64| {
            let sample = report.samples.iter().find(|(at, _)| *at >= ns);
            sample.map_or(0, |(_, bytes)| bytes[1]) as f64
        };
        let before = (bytes_at(at_ns) - bytes_at(at_ns - 100_000)) / 100_000.0;
        let (from, to) = (at_ns + 3 * BASE_RTT_NS, at_ns + 13 * BASE_RTT_NS);
        let after = (bytes_at(to) - bytes_at(from)) / (to - from) as f64;
        worst = worst.min(after / before);
        sum += after / before;
        assert_eq!(counters.path_monitor.bad_by_loss, 1);
    }
    let mean = sum / deaths as f64;
    println!(
        "death of one of eight paths, {deaths} times: goodput from 3 to 13 RTTs after it: mean {mean:.3}, worst {worst:.3} of before"
    );
    assert!(mean >= 0.85, "{mean}");
}

#[test]
fn classes_and_queue_pairs_get_their_shares() {
    // Eight queue pairs in four classes on a port of a tenth of what they offer; default weights of 1 for the classes.
    let mut scenario = stream(100, Policy::RoundRobin, 0);
    scenario.port_mbps = 10_000;
    scenario.queue_pairs = (0..8u8)
        .map(|place| QueuePairSpec {
            class: place / 2,
            weight: 1 + 2 * (place % 2),
            mtu: 4096,
            timeout_ns: 10_000_000,
            ..scenario.queue_pairs[0].clone()
        })
        .collect();
    // Enough for all that nobody runs dry in the time that is looked at.
    scenario.messages = (0..8 * 8)
        .map(|number| MessageSpec {
            queue_pair: number % 8,
            ..write(1 << 20)
        })
        .collect();
    let (report, _) = run(&scenario, 0);
    // The heavy one of each class ends first, all four at the same time.
    let ends: Vec<u64> = (0..8)
        .map(|place| report.done_ns.iter().skip(place).step_by(8).max().copied().unwrap_or(0))
        .collect();
    println!("ends: {ends:?}");
    let heavy: Vec<u64> = ends.iter().skip(1).step_by(2).copied().collect();
    let (first, last) = (heavy.iter().min().unwrap(), heavy.iter().max().unwrap());
    assert!((*last as f64) < *first as f64 * 1.02, "{heavy:?}");
    for (class, heavy_end) in heavy.iter().enumerate() {
        // Messages of the light one that were done when the heavy one had done all of its 8: a third.
        let light = report.done_ns.iter().skip(2 * class).step_by(8);
        let done = light.filter(|at| *at <= heavy_end).count();
        assert!((2..=3).contains(&done), "class {class}: {done}");
    }
}

/// Three queue pairs' worth of what can be lost at the worst moment; how long it takes to be made good is in the output.
fn small(length: u32) -> Scenario {
    Scenario {
        paths: equal_paths(2, &PathSpec::default()),
        queue_pairs: vec![QueuePairSpec {
            base_rtt_ns: 5_000,
            timeout_ns: 50_000,
            ooo_threshold: 16,
            ..QueuePairSpec::default()
        }],
        messages: vec![write(length)],
        ..Scenario::default()
    }
}

#[test]
fn progress_resumes_after_the_worst_losses() {
    use spraynic_network::{Fault, FaultKind};
    let lose = |scenario: &mut Scenario, path: usize, frames: &[u64]| {
        let faults = frames.iter().map(|frame| Fault {
            frame: *frame,
            kind: FaultKind::Lose,
        });
        scenario.paths[path].faults.extend(faults);
    };
    // Ten packets of 1,024 bytes, five by each path; all control packets of the other direction take a path by the entropy that they echo.
    let clean = run(&small(10_240), 0).0.done_ns[0];
    let within = |name: &str, scenario: &Scenario, timeouts: u64| {
        let (report, counters) = run(scenario, 0);
        let late = report.done_ns[0] - clean;
        println!(
            "{name}: {late} ns later, {} timeouts",
            counters.retransmit_engine.timeouts
        );
        assert!(late <= timeouts * 50_000 + 20_000, "{name}: {late}");
    };
    let mut last_packet = small(10_240);
    lose(&mut last_packet, 1, &[4]);
    within("the last packet of the message lost", &last_packet, 1);
    let mut single = small(1_000);
    lose(&mut single, 0, &[0]);
    within("the only packet lost", &single, 1);
    let mut thrice = small(1_000);
    lose(&mut thrice, 0, &[0, 1]);
    lose(&mut thrice, 1, &[0]);
    // 50, 100 and 200 us.
    within("the only packet and two retransmissions lost", &thrice, 7);
    let dead = |nics: &[usize], lasting_ns: u64| {
        let mut scenario = small(10_240);
        for nic in nics {
            for (at_ns, alive) in [(4_000, false), (4_000 + lasting_ns, true)] {
                scenario.script.push(Step {
                    at_ns,
                    action: Action::From { nic: *nic, alive },
                });
            }
        }
        scenario
    };
    // A timeout sends a packet again, whose SACK says that all is there; a second one asks for the ACK.
    within("all that the receiver says lost for 20 us", &dead(&[1], 20_000), 2);
    within("all that the receiver says lost for 300 us", &dead(&[1], 300_000), 8);
    within("both directions dead for 300 us", &dead(&[0, 1], 300_000), 8);
}

#[test]
fn a_peer_that_is_gone_fails_its_queue_pair_alone() {
    let mut scenario = small(10_240);
    scenario.nics = 3;
    scenario.queue_pairs[0].retry_limit = 2;
    scenario.queue_pairs.push(QueuePairSpec {
        nics: [0, 2],
        ..scenario.queue_pairs[0].clone()
    });
    scenario.messages.push(MessageSpec {
        queue_pair: 1,
        ..write(10_240)
    });
    scenario.script.push(Step {
        at_ns: 0,
        action: Action::From { nic: 1, alive: false },
    });
    let run = Run::new(&scenario, |_, config, memory| {
        GoldenDevice::new(config, Settings::default(), memory)
    });
    let (result, mut world) = run.expect("a scenario").finish_in_any_case(GoldenDevice::payload_bytes);
    let failure = result.expect_err("NIC 1 never answers").to_string();
    // 50, 100 and 200 us, then the request ends with RetryExceeded.
    assert!(
        failure.contains("queue pair 0 side 0") && failure.contains("RetryExceeded"),
        "{failure}"
    );
    let counters = world.device(0).nic().counters();
    assert_eq!(counters.retransmit_engine.failures, 1);
    assert_eq!(
        counters.work_queue.completions, 2,
        "the other queue pair's message is done"
    );
}
