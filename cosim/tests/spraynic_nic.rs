//! The whole NIC in Verilog on a network of paths, with a Verilated or a golden NIC at the other end: every message once and in order, memory equal,
//! nothing left behind; and what the NICs count agrees with what the network saw.
//!
//! `PROPTEST_CASES` says how many random scenarios, `SPRAYNIC_SEED` which ones; a failure names its seed and saves a trace for `spraynic replay`.

#[path = "spraynic_nic/dead_ports.rs"]
mod dead_ports;
#[path = "spraynic_nic/latency.rs"]
mod latency;
#[path = "spraynic_nic/leftovers.rs"]
mod leftovers;
#[path = "spraynic_nic/ports.rs"]
mod ports;
#[path = "spraynic_nic/random.rs"]
mod random;
#[path = "spraynic_nic/targets.rs"]
mod targets;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use spraynic_cosim::nic::{Kind, MemoryTiming, NicModel, Nics, Options, Timing, VerilatedDevice};
use spraynic_cosim::{Builder, ToolError, Verilator};
use spraynic_network::check::{Property, check};
use spraynic_network::scenario::{MessageSpec, Operation, Policy, QueuePairSpec, WireProfile};
use spraynic_network::{PathSpec, Run, Scenario, World, equal_paths};

/// A small NIC with all that there is: two ports, few queue pairs.
const SMALL: [&str; 7] = [
    "paths.ports=2",
    "paths.entries=32",
    "datapath.port_mbps=5000",
    "queue_pairs.count=8",
    "send.queue_pairs=8",
    "receive.reorder_queue_pairs=8",
    "receive.memory_regions=8",
];

/// Both kinds of pairs with a Verilated NIC.
const PAIRS: [[Kind; 2]; 2] = [[Kind::Verilated, Kind::Verilated], [Kind::Verilated, Kind::Golden]];

fn small() -> Scenario {
    Scenario {
        overrides: SMALL.map(str::to_owned).to_vec(),
        port_mbps: 5_000,
        ..Scenario::default()
    }
}

/// The model of [`SMALL`]; `None`, with a message: there is no Verilator and CI is not set.
fn model() -> Option<&'static NicModel> {
    static MODEL: OnceLock<NicModel> = OnceLock::new();
    if let Err(error @ ToolError::NoVerilator { .. }) = Verilator::find()
        && std::env::var_os("CI").is_none_or(|ci| ci.is_empty())
    {
        eprintln!("skipped: {error}");
        return None;
    }
    Some(MODEL.get_or_init(|| build(&small())))
}

fn build(scenario: &Scenario) -> NicModel {
    let config = scenario.config().unwrap_or_else(|failure| panic!("{failure}"));
    NicModel::build(&Builder::new().quick(true), &config).unwrap_or_else(|error| panic!("{error}"))
}

fn message(operation: Operation, length: u32) -> MessageSpec {
    MessageSpec::new(operation, length)
}

fn queue_pair(profile: WireProfile) -> QueuePairSpec {
    QueuePairSpec {
        profile,
        policy: if profile == WireProfile::Roce {
            Policy::Fixed
        } else {
            Policy::RoundRobin
        },
        ..QueuePairSpec::default()
    }
}

/// Every operation of a profile, from both sides, of lengths around the MTU.
fn all_operations(profile: WireProfile) -> Scenario {
    let operations: &[Operation] = match profile {
        WireProfile::Mrc => &[Operation::Write],
        _ => &Operation::ALL,
    };
    let mut messages = Vec::new();
    for side in 0..2 {
        for (place, operation) in operations.iter().enumerate() {
            for length in [0, 1, 1023, 1024, 5000] {
                messages.push(MessageSpec {
                    side,
                    immediate: (place + length as usize) % 3 == 1,
                    unsignalled: length % 2 == 1,
                    ..message(*operation, length)
                });
            }
        }
    }
    Scenario {
        queue_pairs: vec![queue_pair(profile)],
        messages,
        ..small()
    }
}

/// Paths that lose, damage and repeat frames.
fn bad_paths(profile: WireProfile, seed: u64) -> Scenario {
    let path = PathSpec {
        loss_ppm: 20_000,
        corruption_ppm: 5_000,
        duplication_ppm: 5_000,
        ..PathSpec::default()
    };
    Scenario {
        seed,
        paths: equal_paths(4, &path),
        queue_pairs: vec![queue_pair(profile)],
        messages: vec![message(Operation::Write, 20_000); 5],
        ..small()
    }
}

const PROFILES: [WireProfile; 3] = [WireProfile::Roce, WireProfile::Solar, WireProfile::Mrc];

fn holds(kinds: [Kind; 2], scenario: &Scenario, property: Property, model: &NicModel) {
    let nics = Nics::new(&kinds, Some(model.clone()));
    let make = |nic: usize, config: &_, memory| nics.make(nic, config, memory);
    if let Err(failure) = check(scenario, property, make, None) {
        panic!("{kinds:?}, {:?}: {failure}", scenario.queue_pairs[0].profile);
    }
}

#[test]
fn every_operation_of_every_profile_comes_through() {
    let Some(model) = model() else { return };
    for kinds in PAIRS {
        for profile in PROFILES {
            holds(kinds, &all_operations(profile), Property::NothingTwice, model);
        }
    }
}

#[test]
fn loss_is_made_good() {
    let Some(model) = model() else { return };
    for kinds in PAIRS {
        for profile in PROFILES {
            for seed in 0..2 {
                holds(kinds, &bad_paths(profile, seed), Property::Delivery, model);
            }
        }
    }
}

/// Four NICs, two of them Verilated, a queue pair between any two: both sides busy with everything, on paths that lose frames.
#[test]
fn four_nics_talk_each_with_each() {
    let Some(model) = model() else { return };
    let pairs = (0..4).flat_map(|a| (a + 1..4).map(move |b| [a, b]));
    let queue_pairs: Vec<QueuePairSpec> = pairs
        .enumerate()
        .map(|(place, nics)| QueuePairSpec {
            nics,
            policy: if place % 2 == 0 { Policy::Adaptive } else { Policy::Reps },
            ooo_threshold: 64,
            base_rtt_ns: 10_000,
            timeout_ns: 300_000,
            ..queue_pair(WireProfile::Solar)
        })
        .collect();
    let count = queue_pairs.len();
    let messages = (0..count * 2 * Operation::ALL.len()).map(|number| MessageSpec {
        queue_pair: number % count,
        side: number / count % 2,
        ..message(Operation::ALL[number / (2 * count)], 1_000 + 777 * (number as u32 % 13))
    });
    let scenario = Scenario {
        nics: 4,
        paths: equal_paths(
            4,
            &PathSpec {
                loss_ppm: 40_000,
                ..PathSpec::default()
            },
        ),
        messages: messages.collect(),
        queue_pairs,
        ..small()
    };
    let kinds = [Kind::Verilated, Kind::Verilated, Kind::Golden, Kind::Golden];
    let nics = Nics::new(&kinds, Some(model.clone()));
    let make = |nic: usize, config: &_, memory| nics.make(nic, config, memory);
    let good = check(&scenario, Property::Delivery, make, None).unwrap_or_else(|failure| panic!("{failure}"));
    let again: Vec<u64> = good.activity.iter().map(|activity| activity.sent_again).collect();
    assert!(
        again[..2].iter().sum::<u64>() > 0,
        "four percent are lost, of Verilated NICs too: {again:?}"
    );
}

/// Work requests by rings in memory and doorbells, for a part of all scenarios: nothing else changes.
#[test]
fn requests_come_by_rings_in_memory() {
    let Some(model) = model() else { return };
    let options = Options {
        rings: true,
        ..Options::default()
    };
    let nics = Nics::new(&[Kind::Verilated], Some(model.clone())).with_options(options, Timing::Varied);
    for profile in PROFILES {
        let scenario = all_operations(profile);
        let run = Run::new(&scenario, |nic, _, memory| nics.verilated(model, nic, memory));
        let run = run.unwrap_or_else(|failure| panic!("{profile:?}: {failure}"));
        let (_, mut world) = run
            .finish(|_| 0)
            .unwrap_or_else(|failure| panic!("{profile:?}: {failure}"));
        for nic in 0..2 {
            let posted = scenario.messages.iter().filter(|message| message.side == nic);
            let counters: BTreeMap<&str, u64> = world.device(nic).counters().collect();
            let entries = counters["send_request_ring_entries"];
            assert_eq!(entries, posted.count() as u64, "{profile:?}, NIC {nic}: {counters:#?}");
            assert_eq!(counters["send_request_ring_refused"], 0);
        }
    }
}

/// A pair of Verilated NICs that ran to the end.
fn run(scenario: &Scenario, model: &NicModel, timing: MemoryTiming) -> World<VerilatedDevice> {
    let options = Options {
        frame_times: true,
        ..Options::default()
    };
    let nics = Nics::new(&[Kind::Verilated], Some(model.clone())).with_options(options, Timing::Fixed(timing));
    let run = Run::new(scenario, |nic, _, memory| nics.verilated(model, nic, memory));
    let run = run.unwrap_or_else(|failure| panic!("{failure}"));
    let (_, world) = run.finish(|_| 0).unwrap_or_else(|failure| panic!("{failure}"));
    world
}

/// What NICs count is what the network saw: no frame is lost between a wire and a counter.
#[test]
fn counters_agree_with_the_network() {
    let Some(model) = model() else { return };
    for scenario in [all_operations(WireProfile::Solar), bad_paths(WireProfile::Solar, 7)] {
        let mut world = run(&scenario, model, MemoryTiming::default());
        for nic in 0..2 {
            let (sent, ports) = (world.sent(nic), model.config().paths.ports as usize);
            let arrived = (0..ports).filter_map(|port| Some(world.downlink_counters(nic, port)?.delivered));
            let arrived: u64 = arrived.sum();
            let device = world.device(nic);
            let counters: BTreeMap<String, u64> = device
                .counters()
                .map(|(name, value)| (name.to_owned(), value))
                .collect();
            assert_eq!(device.frames_taken(), arrived, "NIC {nic}: frames that came");
            let of = |name: &str| *counters.get(name).unwrap_or_else(|| panic!("no counter {name}"));
            assert_eq!(of("receive_packet_parser_frames"), arrived, "NIC {nic}");
            assert_eq!(
                of("transmit_icrc_frames"),
                sent + device.frames_not_sent(),
                "NIC {nic}: {counters:#?}"
            );
            assert_eq!(device.frames_not_sent(), 0, "NIC {nic}");
        }
    }
}
