//! Prints how many clocks a second the Verilated transmit pipeline runs: bare, and with drivers, memory and scoreboard; and how long its model takes
//! to build and to start. Rates are per second of one core, builds in seconds of the wall clock. `cargo run --release -p spraynic-cosim --example transmit_rate [PRESET]`

use std::error::Error;
use std::time::Instant;

use spraynic_config::descriptor::{HeaderTemplate, SliceContext, WorkRequest};
use spraynic_config::{NicConfig, Preset};
use spraynic_cosim::transmit::Scenario;
use spraynic_cosim::{Bench, Builder, Limits, ModelSource, Simulation};

/// The pipeline of a preset; `queue_pairs` makes another model of it, as an edit of a block does.
fn source(preset: Preset, queue_pairs: u32) -> (NicConfig, ModelSource) {
    let mut config = NicConfig::preset(preset);
    config.queue_pairs.count = queue_pairs;
    let context = spraynic_rtl::Context::new();
    let definition = spraynic_hdl::transmit_pipeline::transmit_pipeline(&context, &config);
    let source = ModelSource::from_definition(definition);
    (config, source)
}

/// One queue pair that writes `length` bytes again and again, `total` bytes in all.
fn writes(config: &NicConfig, length: u32, total: u32) -> Scenario {
    let request = WorkRequest {
        opcode: 2,
        segments: 1,
        qpn: 1,
        length,
        ..WorkRequest::default()
    };
    Scenario {
        contexts: vec![SliceContext {
            qpn: 1,
            open: true,
            mtu: config.max_mtu_code(),
            ..SliceContext::default()
        }],
        templates: vec![HeaderTemplate {
            qpn: 1,
            ..HeaderTemplate::default()
        }],
        requests: vec![request; (total / length) as usize],
        ..Scenario::default()
    }
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
    let name = std::env::args().nth(1).unwrap_or_else(|| "100g".to_owned());
    let preset = *Preset::ALL
        .iter()
        .find(|preset| preset.name() == name)
        .ok_or("no such preset")?;
    let cache = tempfile::tempdir()?;
    let builder = || Builder::new().cache(cache.path());

    let (config, pipeline) = source(preset, 256);
    let start = Instant::now();
    let model = builder().build(&pipeline)?;
    println!(
        "first build, with the runtime of Verilator {}: {:.1?}",
        model.verilator_version(),
        start.elapsed()
    );
    let start = Instant::now();
    let (_, edited) = source(preset, 128);
    builder().build(&edited)?;
    println!("build after an edit: {:.1?}", start.elapsed());
    let start = Instant::now();
    builder().build(&pipeline)?;
    println!("start of the unchanged model: {:.3?}", start.elapsed());

    let mut simulation = Simulation::new(&model, 1);
    for (text, length) in [("4096", 4096), ("64", 64)] {
        let scenario = writes(&config, length, 20_000_000.min(length * 60_000));
        let start = core_seconds();
        let outcome = Bench::new(
            &mut simulation,
            &scenario.stimulus(&config),
            Limits {
                quiet_clocks: 600,
                ..Limits::default()
            },
        )?
        .run(&mut scenario.memory())?;
        let driven = core_seconds() - start;
        scenario.judge(&config, &outcome)?;
        let judged = core_seconds() - start;
        let clocks = outcome.cycles as f64;
        println!(
            "WRITEs of {text} bytes: {:.0} clocks/s with drivers and memory, {:.0} with the golden model's verdict too ({} frames)",
            clocks / driven,
            clocks / judged,
            outcome.received("m_axis").len()
        );
    }

    bare(&config, &mut simulation, "assertions on")?;
    let model = builder().assertions(false).random_initial(false).build(&pipeline)?;
    bare(&config, &mut Simulation::new(&model, 1), "assertions off")
}

/// Steps alone: the tables are written and a READ request without payload waits at each clock, so that frames are built.
fn bare(config: &NicConfig, simulation: &mut Simulation, text: &str) -> Result<(), Box<dyn Error>> {
    let scenario = Scenario {
        requests: vec![],
        ..writes(config, 64, 64)
    };
    Bench::new(simulation, &scenario.stimulus(config), Limits::default())?.run(&mut ())?;
    let read = WorkRequest {
        opcode: 3,
        segments: 1,
        qpn: 1,
        length: 4096,
        ..WorkRequest::default()
    };
    let input = simulation.input("s_axis_work_request_tdata")?;
    simulation.set_bytes(input, &spraynic_config::descriptor::Descriptor::pack(&read));
    simulation.set_by_name("s_axis_work_request_tvalid", 1)?;
    simulation.set_by_name("m_axis_tready", 1)?;
    let clocks = 1_000_000;
    let start = core_seconds();
    simulation.run(clocks)?;
    println!(
        "bare step, {text}: {:.0} clocks/s",
        clocks as f64 / (core_seconds() - start)
    );
    Ok(())
}
