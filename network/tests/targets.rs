//! What the send side must reach, measured on two golden NICs: goodput under loss, use of all paths, survival of a path's death, shares of
//! classes. Each test prints its figures; `cargo test -p spraynic-network --test targets -- --nocapture` shows them. Verilated NICs are measured
//! by the same scenarios in `cosim/tests/spraynic_nic/targets.rs`.

use spraynic_golden::spraynic_nic::{Counters, Settings};
use spraynic_network::scenario::{Action, MessageSpec, Policy, QueuePairSpec, Step};
use spraynic_network::targets::{self, Golden, Outcome, go_back_n, payload_share, stream, with_loss, write};
use spraynic_network::{GoldenDevice, PathSpec, Report, Run, Scenario, equal_paths};

fn measure(scenario: &Scenario) -> Outcome {
    targets::run(&Golden, scenario, 0).expect("a run without failure")
}

#[test]
fn loss_costs_little_goodput_and_one_retransmission_each() {
    for gbps in [100, 400] {
        for policy in [Policy::RoundRobin, Policy::Adaptive] {
            targets::assert_loss_costs_little(&Golden, gbps, policy);
        }
    }
}

#[test]
fn go_back_n_shows_what_it_costs() {
    let roce = |loss_ppm| measure(&with_loss(go_back_n(10), loss_ppm)).report.mbps();
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

#[test]
fn one_queue_pair_uses_all_paths() {
    for (policy, messages, least, most) in [(Policy::Adaptive, 20, 0.95, 1.0), (Policy::Single, 5, 0.11, 0.126)] {
        let used = measure(&stream(100, policy, messages)).report.mbps() / 1e5 / payload_share();
        println!("{policy:?}: {used:.4} of the capacity of eight paths");
        assert!((least..=most).contains(&used), "{used}");
    }
}

#[test]
fn a_slow_path_costs_what_it_lacks() {
    let (scenario, remains) = targets::one_slow_path(40);
    let share = measure(&scenario).report.mbps() / remains;
    println!("one path of a quarter of the rate: {share:.4} of what remains");
    assert!(share > 0.9, "{share}");
}

#[test]
fn a_path_dies_and_goodput_stays() {
    let count = 100;
    let deaths = (0..count).map(|number| targets::death(&Golden, number).expect("a run without failure"));
    let deaths: Vec<_> = deaths.collect();
    targets::assert_deaths_cost_little(&deaths);
}

#[test]
fn classes_and_queue_pairs_get_their_shares() {
    let shares = targets::shares(&Golden, 32).expect("a run without failure");
    println!("of what weights give: {shares:.4?}; worst {:.4} off", shares.worst());
    assert!(shares.worst() < 0.02, "{shares:?}");
}

#[test]
fn a_burst_of_storage_does_not_touch_training() {
    for strict in [0, targets::TRAINING_STRICT] {
        let burst = targets::storage_burst(&Golden, strict, 40).expect("a run without failure");
        println!(
            "a training flow beside a burst of storage, strict classes {strict:#b}: goodput {:.4} of that alone; the longest message alone and beside it: {:?} ns",
            burst.goodput,
            burst.longest_ns()
        );
        assert!(burst.goodput > 0.98, "{burst:?}");
    }
}

fn run(scenario: &Scenario) -> (Report, Counters) {
    let run = Run::new(scenario, |_, config, memory| {
        GoldenDevice::new(config, Settings::default(), memory)
    });
    let finished = run.expect("a scenario").finish(GoldenDevice::payload_bytes);
    let (report, mut world) = finished.expect("a run without failure");
    (report, world.device(0).nic().counters())
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
    let clean = run(&small(10_240)).0.done_ns[0];
    let within = |name: &str, scenario: &Scenario, timeouts: u64| {
        let (report, counters) = run(scenario);
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
