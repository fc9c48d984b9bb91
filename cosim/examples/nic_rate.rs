//! How fast a pair of Verilated NICs runs: clocks a second of one core, with drivers, memory, MACs and the network.
//!
//! `cargo run --release -p spraynic-cosim --example nic_rate [PRESET]`, by default `100g`.

use std::error::Error;
use std::time::Instant;

use spraynic_cosim::Builder;
use spraynic_cosim::nic::{Kind, MemoryTiming, NicModel, Nics, Options, Timing};
use spraynic_network::scenario::{MessageSpec, Operation, QueuePairSpec};
use spraynic_network::{Device as _, Run, Scenario};

fn scenario(preset: &str, length: u32, count: usize) -> Result<Scenario, Box<dyn Error>> {
    let mut scenario = Scenario {
        preset: preset.to_owned(),
        queue_pairs: vec![QueuePairSpec {
            base_rtt_ns: 20_000,
            timeout_ns: 5_000_000,
            ..QueuePairSpec::default()
        }],
        ..Scenario::default()
    };
    scenario.port_mbps = scenario.config()?.datapath.port_mbps.into();
    scenario.messages = (0..2 * count)
        .map(|place| MessageSpec {
            queue_pair: 0,
            side: place % 2,
            operation: Operation::Write,
            length,
            immediate: false,
            fence: false,
            unsignalled: true,
            at_ns: 0,
        })
        .collect();
    Ok(scenario)
}

/// Seconds that this thread has had a core: what other programs on the machine take is not in it.
fn core_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text
        .split_whitespace()
        .next()
        .and_then(|number| number.parse::<f64>().ok());
    nanoseconds.unwrap_or(f64::NAN) / 1e9
}

fn main() -> Result<(), Box<dyn Error>> {
    let preset = std::env::args().nth(1).unwrap_or_else(|| "100g".to_owned());
    for quick in [true, false] {
        let begin = Instant::now();
        let config = scenario(&preset, 0, 0)?.config()?;
        let model = NicModel::build(&Builder::new().quick(quick), &config)?;
        println!("quick {quick}: model in {:.1} s", begin.elapsed().as_secs_f64());
        let options = Options {
            slowest: 1,
            ..Options::default()
        };
        let nics = Nics::new(&[Kind::Verilated], Some(model.clone()))
            .with_options(options, Timing::Fixed(MemoryTiming::default()));
        for (length, count) in [(100_000, 10), (64, 500)] {
            let run = Run::new(&scenario(&preset, length, count)?, |nic, _, memory| {
                nics.verilated(&model, nic, memory)
            })?;
            let begin = core_seconds();
            let (report, mut world) = run.finish(|_| 0)?;
            let seconds = core_seconds() - begin;
            let clocks: u64 = (0..2).map(|nic| world.device(nic).clocks()).sum();
            println!(
                "WRITEs of {length} bytes both ways: {:.0} clocks/s of the pair ({} clocks of each in {seconds:.2} s), {:.2} Gb/s",
                clocks as f64 / 2.0 / seconds,
                clocks / 2,
                report.mbps() / 1_000.0,
            );
            assert!(world.device(0).leftovers().is_empty());
        }
    }
    Ok(())
}
