//! Links and planes that stay dead, of one end alone too: what is on its way goes on by what lives.

use spraynic_golden::spraynic_nic::Settings;
use spraynic_network::scenario::{Action, MessageSpec, Operation, Policy, QueuePairSpec, Step, WireProfile};
use spraynic_network::{GoldenDevice, PathSpec, Report, Run, Scenario, equal_paths};

/// Two ports, two paths a plane, WRITEs and a READ; what is in `script` happens at 50 us.
fn scenario(queue_pair: QueuePairSpec, script: &[Action]) -> Scenario {
    let message = |operation, length| MessageSpec::new(operation, length);
    Scenario {
        overrides: vec!["paths.ports=2".to_owned(), "paths.entries=32".to_owned()],
        paths: equal_paths(2, &PathSpec::default()),
        queue_pairs: vec![QueuePairSpec {
            ooo_threshold: 32,
            base_rtt_ns: 8_000,
            timeout_ns: 100_000,
            ..queue_pair
        }],
        messages: vec![
            message(Operation::Write, 200_000),
            message(Operation::Read, 50_000),
            message(Operation::Write, 1_000),
        ],
        script: script
            .iter()
            .map(|action| Step {
                at_ns: 50_000,
                action: action.clone(),
            })
            .collect(),
        ..Scenario::default()
    }
}

fn finished(scenario: &Scenario) -> Report {
    let run = Run::new(scenario, |_, config, memory| {
        GoldenDevice::new(config, Settings::default(), memory)
    });
    let done = run.expect("a scenario").finish(GoldenDevice::payload_bytes);
    done.unwrap_or_else(|failure| panic!("{failure}")).0
}

/// How much later all is done than without the deaths, in nanoseconds.
fn late(queue_pair: &QueuePairSpec, script: &[Action]) -> u64 {
    let clean = finished(&scenario(queue_pair.clone(), &[]));
    let report = finished(&scenario(queue_pair.clone(), script));
    let late = report.finished_ns.saturating_sub(clean.finished_ns);
    println!("{:?} {:?}: {late} ns later", queue_pair.profile, queue_pair.policy);
    late
}

fn adaptive(profile: WireProfile) -> QueuePairSpec {
    QueuePairSpec {
        profile,
        policy: Policy::Adaptive,
        ..QueuePairSpec::default()
    }
}

fn link_down(nic: usize, port: u8) -> Action {
    Action::Port { nic, port, up: false }
}

/// The other end still sends by the port whose link is down at its peer, until it has learnt.
#[test]
fn the_link_of_one_end_may_go_down_for_ever() {
    for nic in 0..2 {
        for port in 0..2 {
            let late = late(&adaptive(WireProfile::Solar), &[link_down(nic, port)]);
            assert!(late < 3_000_000, "NIC {nic} port {port}: {late}");
        }
    }
}

/// Both links are up and a whole plane between them is dead.
#[test]
fn a_plane_may_die_behind_links_that_are_up() {
    for plane in 0..2 {
        let dead = [0, 1].map(|path| Action::Path {
            port: plane,
            path,
            alive: false,
        });
        let late = late(&adaptive(WireProfile::Solar), &dead);
        assert!(late < 3_000_000, "plane {plane}: {late}");
    }
}

/// A queue pair that has no path to choose leaves by the lowest port that is up.
#[test]
fn a_fixed_queue_pair_goes_on_by_another_port() {
    let fixed = QueuePairSpec {
        profile: WireProfile::Roce,
        policy: Policy::Fixed,
        ..QueuePairSpec::default()
    };
    for port in 0..2 {
        let late = late(&fixed, &[link_down(0, port), link_down(1, port)]);
        assert!(late < 3_000_000, "port {port}: {late}");
    }
}

/// Responses that find no peer fail their queue pair, and what it asks for itself later ends with an error too, not in silence.
#[test]
fn responses_that_fail_end_the_requests_of_their_queue_pair() {
    let scenario = Scenario {
        queue_pairs: vec![QueuePairSpec {
            retry_limit: 1,
            ..QueuePairSpec::default()
        }],
        messages: vec![
            MessageSpec {
                side: 1,
                ..MessageSpec::new(Operation::Read, 1_000)
            },
            MessageSpec {
                at_ns: 200_000,
                ..MessageSpec::new(Operation::Write, 1_000)
            },
        ],
        script: [(2_500, false), (320_000, true)]
            .map(|(at_ns, alive)| Step {
                at_ns,
                action: Action::From { nic: 1, alive },
            })
            .to_vec(),
        ..Scenario::default()
    };
    let run = Run::new(&scenario, |_, config, memory| {
        GoldenDevice::new(config, Settings::default(), memory)
    });
    let (result, _) = run.expect("a scenario").finish_in_any_case(GoldenDevice::payload_bytes);
    let failure = result.expect_err("NIC 1 was gone").to_string();
    assert!(
        failure.contains("queue pair 0 side 0") && failure.contains("RetryExceeded"),
        "{failure}"
    );
}
