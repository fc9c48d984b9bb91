//! Two golden NICs on a network of paths.

use spraynic_network::scenario::{MessageSpec, Operation, Policy, QueuePairSpec, WireProfile};
use spraynic_network::{Failure, GoldenDevice, PathSpec, Report, Run, Scenario, equal_paths};

fn run(scenario: &Scenario) -> Result<(Report, Vec<spraynic_golden::spraynic_nic::Counters>), Failure> {
    let run = Run::new(scenario, |_, config, memory| {
        GoldenDevice::new(config, spraynic_golden::spraynic_nic::Settings::default(), memory)
    })?;
    let (report, mut world) = run.finish(GoldenDevice::payload_bytes)?;
    let counters = (0..world.devices()).map(|nic| world.device(nic).nic().counters());
    let counters = counters.collect();
    Ok((report, counters))
}

fn message(operation: Operation, length: u32) -> MessageSpec {
    MessageSpec::new(operation, length)
}

#[test]
fn every_operation_of_every_profile_comes_through() {
    for profile in [WireProfile::Roce, WireProfile::Solar, WireProfile::Mrc] {
        let operations: &[Operation] = match profile {
            WireProfile::Mrc => &[Operation::Write],
            _ => &[
                Operation::Send,
                Operation::Write,
                Operation::Read,
                Operation::FetchAdd,
                Operation::CompareSwap,
            ],
        };
        let mut messages = Vec::new();
        for side in 0..2 {
            for (place, operation) in operations.iter().enumerate() {
                for length in [0, 1, 1023, 1024, 5000, 40_000] {
                    messages.push(MessageSpec {
                        side,
                        immediate: (place + length as usize) % 3 == 1,
                        unsignalled: length % 2 == 1,
                        ..message(*operation, length)
                    });
                }
            }
        }
        let scenario = Scenario {
            queue_pairs: vec![QueuePairSpec {
                profile,
                policy: if profile == WireProfile::Roce {
                    Policy::Fixed
                } else {
                    Policy::RoundRobin
                },
                ..QueuePairSpec::default()
            }],
            messages,
            ..Scenario::default()
        };
        let (report, counters) = run(&scenario).unwrap_or_else(|failure| panic!("{profile:?}: {failure}"));
        println!("{profile:?}: {report:?}");
        for counters in counters {
            assert_eq!(
                counters.work_queue.retransmissions, 0,
                "{profile:?}: {:#?}",
                counters.retransmit_engine
            );
        }
    }
}

#[test]
fn loss_is_made_good() {
    for profile in [WireProfile::Solar, WireProfile::Mrc, WireProfile::Roce] {
        for seed in 0..20 {
            let scenario = Scenario {
                seed,
                paths: equal_paths(
                    4,
                    &PathSpec {
                        loss_ppm: 20_000,
                        corruption_ppm: 5_000,
                        duplication_ppm: 5_000,
                        ..PathSpec::default()
                    },
                ),
                queue_pairs: vec![QueuePairSpec {
                    profile,
                    policy: if profile == WireProfile::Roce {
                        Policy::Fixed
                    } else {
                        Policy::RoundRobin
                    },
                    ..QueuePairSpec::default()
                }],
                messages: vec![message(Operation::Write, 100_000); 10],
                ..Scenario::default()
            };
            let (report, counters) = run(&scenario).unwrap_or_else(|failure| panic!("{profile:?} {seed}: {failure}"));
            println!(
                "{profile:?} {seed}: {} ns, {:?}",
                report.finished_ns, counters[0].work_queue
            );
        }
    }
}
