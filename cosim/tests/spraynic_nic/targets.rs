//! What the send side must reach, measured on two Verilated NICs by the scenarios that golden ones are measured by (`network/tests/targets.rs`).
//!
//! One small case belongs to the suite. The rest takes half an hour, and prints its figures:
//! `cargo test -p spraynic-cosim --test spraynic_nic targets -- --ignored --nocapture`. `SPRAYNIC_DEATHS` says how many paths die (default 100);
//! with `SPRAYNIC_COUNTERS` all counters that are not 0 are printed behind each run.

use std::sync::{Mutex, OnceLock};

use spraynic_config::NicConfig;
use spraynic_cosim::nic::{Kind, MemoryTiming, NicModel, Nics, Options, Timing, VerilatedDevice};
use spraynic_golden::spraynic_nic::Settings;
use spraynic_network::scenario::{Policy, QueuePairSpec};
use spraynic_network::targets::{self, Bench, Outcome, go_back_n, payload_share, stream, with_loss, write};
use spraynic_network::{PathSpec, Scenario, World, equal_paths};

use super::{build, model, small};

/// Verilated NICs of a model; memory answers after 32 clocks.
struct Verilated<'m>(&'m NicModel);

impl Bench for Verilated<'_> {
    type Nic = VerilatedDevice;

    fn nic(&self, nic: usize, _config: &NicConfig, settings: Settings, memory_bytes: usize) -> VerilatedDevice {
        Nics::new(&[Kind::Verilated], Some(self.0.clone()))
            .with_settings(settings)
            .with_options(Options::default(), Timing::Fixed(MemoryTiming::default()))
            .verilated(self.0, nic, memory_bytes)
    }

    fn payload_bytes(nic: &VerilatedDevice) -> u64 {
        nic.payload_bytes()
    }

    fn transmissions(nic: &VerilatedDevice) -> u64 {
        let mut counters = nic.counters();
        let packets = counters.find(|(name, _)| *name == "send_work_queue_packets");
        packets.expect("work_queue counts packets").1
    }

    fn look(&self, world: &mut World<VerilatedDevice>) {
        if std::env::var_os("SPRAYNIC_COUNTERS").is_none() {
            return;
        }
        for nic in 0..world.devices() {
            let device = world.device(nic);
            println!(
                "NIC {nic}: {} clocks; MACs held {} bytes at most",
                device.clocks(),
                device.deepest_mac_bytes()
            );
            for (name, value) in device.counters().filter(|(_, value)| *value > 0) {
                println!("  {name}: {value}");
            }
        }
    }
}

/// The model of a preset as [`stream`] has it; `None`, with a message: there is no Verilator.
fn model_of(gbps: u64) -> Option<&'static NicModel> {
    static MODELS: [OnceLock<NicModel>; 2] = [OnceLock::new(), OnceLock::new()];
    model()?;
    let place = usize::from(gbps == 400);
    Some(MODELS[place].get_or_init(|| build(&stream(gbps, Policy::Adaptive, 0))))
}

#[track_caller]
fn measure(model: &NicModel, scenario: &Scenario) -> Outcome {
    targets::run(&Verilated(model), scenario, 0).unwrap_or_else(|failure| panic!("{failure}"))
}

/// A queue pair over both ports of the small NIC, with loss and without.
#[test]
fn a_small_nic_sends_at_the_rate_of_its_ports_and_a_loss_costs_one_retransmission() {
    let Some(model) = model() else { return };
    let scenario = Scenario {
        paths: equal_paths(4, &PathSpec::default()),
        queue_pairs: vec![QueuePairSpec {
            policy: Policy::Adaptive,
            ooo_threshold: 32,
            base_rtt_ns: 5_000,
            ..QueuePairSpec::default()
        }],
        messages: vec![write(100_000); 6],
        shared_buffers: true,
        ..small()
    };
    let clean = measure(model, &scenario);
    assert_eq!(clean.activity.sent_again, 0);
    // MTU 1024 with 82 bytes of headers, preamble, FCS and gap.
    let rate = 1024.0 / (1024.0 + 82.0) * 10_000.0;
    let lossy = measure(model, &with_loss(scenario, 10_000));
    let share = lossy.report.mbps() / clean.report.mbps();
    println!(
        "small NIC: {:.4} of the ports' rate; at 1 % loss {share:.4} of that, {:.4} transmissions for each packet",
        clean.report.mbps() / rate,
        lossy.transmissions_a_packet()
    );
    assert!(clean.report.mbps() > 0.9 * rate, "{:.0} Mb/s", clean.report.mbps());
    assert!(share > 0.85, "{share}");
    assert!(lossy.activity.sent_again > 0);
    assert!(lossy.transmissions_a_packet() < 1.0 / 0.99 + 0.01, "{lossy:?}");
}

fn loss(gbps: u64, policy: Policy) {
    let Some(model) = model_of(gbps) else { return };
    targets::assert_loss_costs_little(&Verilated(model), gbps, policy);
}

#[test]
#[ignore = "takes minutes"]
fn loss_costs_little_with_round_robin() {
    loss(100, Policy::RoundRobin);
}

#[test]
#[ignore = "takes minutes"]
fn loss_costs_little_with_adaptive() {
    loss(100, Policy::Adaptive);
}

#[test]
#[ignore = "takes minutes, and a large model"]
fn loss_costs_little_at_400_gb_s() {
    loss(400, Policy::RoundRobin);
    loss(400, Policy::Adaptive);
}

#[test]
#[ignore = "takes minutes"]
fn go_back_n_shows_what_it_costs() {
    let Some(model) = model_of(100) else { return };
    let roce = |loss_ppm| measure(model, &with_loss(go_back_n(10), loss_ppm)).report.mbps();
    let clean = roce(0);
    println!("go-back-N, 100 Gb/s, one path: {:.2} Gb/s without loss", clean / 1e3);
    for loss_ppm in [1_000, 10_000] {
        println!(
            "go-back-N, loss {}: {:.4} of that",
            f64::from(loss_ppm) / 1e6,
            roce(loss_ppm) / clean
        );
    }
    assert!(clean > 90_000.0, "{clean}");
}

#[test]
#[ignore = "takes minutes"]
fn one_queue_pair_uses_all_paths() {
    let Some(model) = model_of(100) else { return };
    for (policy, messages, least, most) in [(Policy::Adaptive, 20, 0.95, 1.0), (Policy::Single, 5, 0.11, 0.126)] {
        let used = measure(model, &stream(100, policy, messages)).report.mbps() / 1e5 / payload_share();
        println!("{policy:?}: {used:.4} of the capacity of eight paths");
        assert!((least..=most).contains(&used), "{used}");
    }
}

#[test]
#[ignore = "takes minutes"]
fn a_slow_path_costs_what_it_lacks() {
    let Some(model) = model_of(100) else { return };
    let (scenario, remains) = targets::one_slow_path(40);
    let share = measure(model, &scenario).report.mbps() / remains;
    println!("one path of a quarter of the rate: {share:.4} of what remains");
    assert!(share > 0.9, "{share}");
}

#[test]
#[ignore = "takes minutes"]
fn a_path_dies_and_goodput_stays() {
    let Some(model) = model_of(100) else { return };
    let count: u64 = std::env::var("SPRAYNIC_DEATHS").map_or(100, |text| text.parse().expect("a number"));
    let next = Mutex::new(0..count);
    let deaths = Mutex::new(vec![]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(number) = next.lock().expect("no panic").next() else {
                        return;
                    };
                    let death = targets::death(&Verilated(model), number).unwrap_or_else(|failure| panic!("{failure}"));
                    println!("death {number}: {death:?}");
                    deaths.lock().expect("no panic").push(death);
                }
            });
        }
    });
    let deaths = deaths.into_inner().expect("no panic");
    targets::assert_deaths_cost_little(&deaths);
}

#[test]
#[ignore = "takes minutes"]
fn classes_and_queue_pairs_get_their_shares() {
    let Some(model) = model_of(100) else { return };
    let shares = targets::shares(&Verilated(model), 32).unwrap_or_else(|failure| panic!("{failure}"));
    println!("of what weights give: {shares:.4?}; worst {:.4} off", shares.worst());
    assert!(shares.worst() < 0.02, "{shares:?}");
}

#[test]
#[ignore = "takes minutes"]
fn a_burst_of_storage_does_not_touch_training() {
    let Some(model) = model_of(100) else { return };
    for strict in [0, targets::TRAINING_STRICT] {
        let burst = targets::storage_burst(&Verilated(model), strict, 40).unwrap_or_else(|failure| panic!("{failure}"));
        println!(
            "a training flow beside a burst of storage, strict classes {strict:#b}: goodput {:.4} of that alone; the longest message alone and beside it: {:?} ns",
            burst.goodput,
            burst.longest_ns()
        );
        assert!(burst.goodput > 0.98, "{burst:?}");
    }
}
