//! Speed of two golden NICs on a network: packets with payload a second, and frames of all kinds. Each WRITE of 64 bytes is a message of its own,
//! with its SACK and ACK (solar) or with its ACK alone (roce): the last packet of a message always asks for them. A host may do without most
//! completions (`unsignalled`); then it posts many WRITEs at once. Time is that on the processor, where the kernel tells it: other programs do not count.
//!
//! `cargo bench -p spraynic-network -- N` runs N WRITEs of 64 bytes alone: under `valgrind --tool=callgrind`, the difference of two N gives the
//! instructions that a packet takes, which no other program disturbs.

use std::time::Instant;

use spraynic_golden::spraynic_nic::Settings;
use spraynic_network::scenario::{MessageSpec, Operation, Policy, QueuePairSpec, WireProfile};
use spraynic_network::{GoldenDevice, PathSpec, Run, Scenario, equal_paths};

fn scenario(profile: WireProfile, length: u32, messages: u32, unsignalled: bool) -> Scenario {
    let spraying = profile != WireProfile::Roce;
    let paths = if spraying { 8 } else { 1 };
    let message = MessageSpec {
        unsignalled,
        ..MessageSpec::new(Operation::Write, length)
    };
    Scenario {
        preset: "100g".to_owned(),
        overrides: vec!["paths.ports=1".to_owned()],
        port_mbps: 100_000,
        paths: equal_paths(
            paths,
            &PathSpec {
                delay_ns: 2_500,
                mbps: 100_000 / paths as u64,
                queue_bytes: 2_000_000,
                ..PathSpec::default()
            },
        ),
        queue_pairs: vec![QueuePairSpec {
            profile,
            policy: if spraying { Policy::Adaptive } else { Policy::Single },
            mtu: 4096,
            ..QueuePairSpec::default()
        }],
        messages: vec![message; messages as usize],
        shared_buffers: true,
        limit_ns: 10_000_000_000,
        ..Scenario::default()
    }
}

/// Seconds that this program was on a processor so far; since `start` where the kernel does not say.
fn seconds(start: Instant) -> f64 {
    let said = std::fs::read_to_string("/proc/self/schedstat").ok();
    let nanoseconds = said.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| start.elapsed().as_secs_f64(), |nanoseconds| nanoseconds / 1e9)
}

fn measure(what: &str, packets: u32, scenario: &Scenario) {
    let run = Run::new(scenario, |_, config, memory| {
        GoldenDevice::new(config, Settings::default(), memory)
    });
    let run = run.expect("a scenario");
    let start = Instant::now();
    let before = seconds(start);
    let (report, _) = run.finish(GoldenDevice::payload_bytes).expect("a run without failure");
    let seconds = seconds(start) - before;
    let frames: u64 = report.sent.iter().sum();
    println!(
        "{what}: {:.0} packets/s; {:.0} frames/s with those that acknowledge",
        f64::from(packets) / seconds,
        frames as f64 / seconds
    );
}

fn main() {
    let asked = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse::<u32>().ok());
    let small = asked.unwrap_or(200_000);
    let solar = scenario(WireProfile::Solar, 64, small, false);
    measure("WRITEs of 64 bytes, solar", small, &solar);
    if asked.is_some() {
        return;
    }
    let unsignalled = scenario(WireProfile::Solar, 64, small, true);
    measure("WRITEs of 64 bytes, solar, unsignalled", small, &unsignalled);
    let roce = scenario(WireProfile::Roce, 64, small, false);
    measure("WRITEs of 64 bytes, roce", small, &roce);
    let unsignalled = scenario(WireProfile::Roce, 64, small, true);
    measure("WRITEs of 64 bytes, roce, unsignalled", small, &unsignalled);
    let large = scenario(WireProfile::Solar, 1 << 20, 200, false);
    measure("WRITEs of 1 MiB in packets of 4 KiB, solar", 200 * 256, &large);
}
