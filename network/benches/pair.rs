//! Speed of two golden NICs on a network: packets with payload a second, and frames of all kinds. Each WRITE of 64 bytes is a message of its own,
//! with its SACK and its ACK. Time is that on the processor, where the kernel tells it: other programs do not count.

use std::time::Instant;

use spraynic_golden::spraynic_nic::Settings;
use spraynic_network::scenario::{MessageSpec, Operation, Policy, QueuePairSpec};
use spraynic_network::{GoldenDevice, PathSpec, Run, Scenario, equal_paths};

fn scenario(length: u32, messages: usize) -> Scenario {
    Scenario {
        preset: "100g".to_owned(),
        overrides: vec!["paths.ports=1".to_owned()],
        port_mbps: 100_000,
        paths: equal_paths(
            8,
            &PathSpec {
                delay_ns: 2_500,
                mbps: 12_500,
                queue_bytes: 2_000_000,
                ..PathSpec::default()
            },
        ),
        queue_pairs: vec![QueuePairSpec {
            policy: Policy::Adaptive,
            mtu: 4096,
            ..QueuePairSpec::default()
        }],
        messages: vec![MessageSpec::new(Operation::Write, length); messages],
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

fn main() {
    for (what, length, messages, packets) in [("64 bytes", 64, 200_000, 200_000), ("4 KiB", 1 << 20, 200, 200 * 256)] {
        let scenario = scenario(length, messages);
        let run = Run::new(&scenario, |_, config, memory| {
            GoldenDevice::new(config, Settings::default(), memory)
        });
        let run = run.expect("a scenario");
        let start = Instant::now();
        let before = seconds(start);
        let (report, _) = run.finish(GoldenDevice::payload_bytes).expect("a run without failure");
        let seconds = seconds(start) - before;
        let frames: u64 = report.sent.iter().sum();
        println!(
            "WRITEs in packets of {what}: {:.0} packets/s; {:.0} frames/s with those that acknowledge",
            f64::from(packets) / seconds,
            frames as f64 / seconds
        );
    }
}
