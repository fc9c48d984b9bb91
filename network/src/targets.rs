//! What the send side must reach: the scenarios, and how their figures come of what happened, for NICs of any kind.
//!
//! Golden NICs are measured by `network/tests/targets.rs`, Verilated ones by `cosim/tests/spraynic_nic/targets.rs`; what is wanted stands there. Nothing
//! here says that a figure is good.

use spraynic_config::NicConfig;
use spraynic_golden::spraynic_nic::Settings;

use crate::device::{Activity, Device};
use crate::golden::GoldenDevice;
use crate::path::PathSpec;
use crate::run::{Failure, Report, Run, equal_paths};
use crate::scenario::{Action, MessageSpec, Operation, Policy, QueuePairSpec, Scenario, Step, WireProfile};
use crate::world::World;

/// Round trip of the idle fabric: twice 2.5 us of the paths, and about 1 us of wires.
pub const BASE_RTT_NS: u64 = 6_000;

/// Makes the NICs that are measured.
pub trait Bench {
    /// A NIC.
    type Nic: Device;

    /// NIC n of a configuration, with so many bytes of memory.
    fn nic(&self, nic: usize, config: &NicConfig, settings: Settings, memory_bytes: usize) -> Self::Nic;

    /// Payload bytes that reached memory of its host.
    fn payload_bytes(nic: &Self::Nic) -> u64;

    /// Packets of requests that it sent, each as often as it was sent.
    fn transmissions(nic: &Self::Nic) -> u64;

    /// Looks at the NICs behind a run, before they are forgotten.
    fn look(&self, _world: &mut World<Self::Nic>) {}
}

/// Golden NICs.
#[derive(Debug, Clone, Copy)]
pub struct Golden;

impl Bench for Golden {
    type Nic = GoldenDevice;

    fn nic(&self, _nic: usize, config: &NicConfig, settings: Settings, memory_bytes: usize) -> GoldenDevice {
        GoldenDevice::new(config, settings, memory_bytes)
    }

    fn payload_bytes(nic: &GoldenDevice) -> u64 {
        nic.payload_bytes()
    }

    fn transmissions(nic: &GoldenDevice) -> u64 {
        nic.nic().counters().work_queue.packets.into()
    }
}

/// What a run showed.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Of the network.
    pub report: Report,
    /// What NIC 0, which sends, did beyond sending its work once.
    pub activity: Activity,
    /// Packets of requests that NIC 0 sent, each as often as it was sent.
    pub transmissions: u64,
}

impl Outcome {
    /// Transmissions for each packet.
    #[must_use]
    pub fn transmissions_a_packet(&self) -> f64 {
        let packets = self.transmissions.saturating_sub(self.activity.sent_again).max(1);
        self.transmissions as f64 / packets as f64
    }
}

/// Runs a scenario, with the settings of a reset; with samples of payload bytes in a distance in nanoseconds where that is not 0.
///
/// # Errors
/// As [`Run`].
pub fn run<B: Bench>(bench: &B, scenario: &Scenario, sample_ns: u64) -> Result<Outcome, Failure> {
    run_with(bench, scenario, Settings::default(), sample_ns)
}

fn run_with<B: Bench>(bench: &B, scenario: &Scenario, settings: Settings, sample_ns: u64) -> Result<Outcome, Failure> {
    let make = |nic: usize, config: &NicConfig, memory| bench.nic(nic, config, settings, memory);
    let run = Run::new(scenario, make)?.with_samples(sample_ns);
    let (report, mut world) = run.finish(B::payload_bytes)?;
    bench.look(&mut world);
    let sender = world.device(0);
    Ok(Outcome {
        report,
        activity: sender.activity(),
        transmissions: B::transmissions(sender),
    })
}

/// A WRITE of side 0 of the first queue pair.
#[must_use]
pub fn write(length: u32) -> MessageSpec {
    MessageSpec::new(Operation::Write, length)
}

/// WRITEs of 1 MiB from NIC 0 to NIC 1, one queue pair, MTU 4096, over eight equal paths that together carry the rate of the port: 100 or 400 Gb/s.
#[must_use]
pub fn stream(gbps: u64, policy: Policy, messages: usize) -> Scenario {
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

/// The same scenario with random loss on all paths.
#[must_use]
pub fn with_loss(mut scenario: Scenario, loss_ppm: u32) -> Scenario {
    for path in &mut scenario.paths {
        path.loss_ppm = loss_ppm;
    }
    scenario
}

/// The stream of profile roce, on one path of the port's whole rate.
#[must_use]
pub fn go_back_n(messages: usize) -> Scenario {
    let mut scenario = stream(100, Policy::Fixed, messages);
    scenario.queue_pairs[0].profile = WireProfile::Roce;
    scenario.paths.truncate(1);
    scenario.paths[0].mbps = 0;
    scenario
}

/// The stream with one path of a quarter of its rate, which marks from 20 kB on as all do; and the payload that the paths carry then, in Mb/s.
#[must_use]
pub fn one_slow_path(messages: usize) -> (Scenario, f64) {
    let mut scenario = stream(100, Policy::Adaptive, messages);
    for path in &mut scenario.paths {
        path.ecn_bytes = 20_000;
    }
    scenario.paths[3].mbps /= 4;
    (scenario, (7.0 * 12_500.0 + 3_125.0) * payload_share())
}

/// Payload of what a path carries: MTU 4096 with Ethernet, IPv4, UDP, BTH, ICRC, preamble, FCS and gap.
#[must_use]
pub fn payload_share() -> f64 {
    4096.0 / (4096.0 + 14.0 + 20.0 + 8.0 + 12.0 + 4.0 + 24.0)
}

/// Death of one of eight paths at a random moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Death {
    /// Goodput from 3 to 13 base RTTs after it, of that of the 100 us before.
    pub goodput: f64,
    /// Paths that NIC 0 retired.
    pub retired: u64,
}

/// Death `number` of a stream of 100 Gb/s with policy adaptive; each number has its own moment and path.
///
/// # Errors
/// As [`Run`].
pub fn death<B: Bench>(bench: &B, number: u64) -> Result<Death, Failure> {
    let mut random = fastrand::Rng::with_seed(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 7);
    let mut scenario = stream(100, Policy::Adaptive, 4);
    scenario.seed = number;
    // A little more than the paths, which are all as long: nothing is taken for lost that is not, and the dead one is known two packets of it later.
    scenario.queue_pairs[0].ooo_threshold = 10;
    // The stream takes 340 us.
    let at_ns = random.u64(130_000..240_000);
    scenario.script.push(Step {
        at_ns,
        action: Action::Path {
            port: 0,
            path: random.usize(..8),
            alive: false,
        },
    });
    let outcome = run(bench, &scenario, 1_000)?;
    let bytes_at = |ns: u64| {
        let sample = outcome.report.samples.iter().find(|(at, _)| *at >= ns);
        sample.map_or(0, |(_, bytes)| bytes[1]) as f64
    };
    let before = (bytes_at(at_ns) - bytes_at(at_ns - 100_000)) / 100_000.0;
    let (from, to) = (at_ns + 3 * BASE_RTT_NS, at_ns + 13 * BASE_RTT_NS);
    let after = (bytes_at(to) - bytes_at(from)) / (to - from) as f64;
    Ok(Death {
        goodput: after / before,
        retired: outcome.activity.paths_retired,
    })
}

/// What queue pairs got of a port, of what their weights give them: 1.0 is right.
#[derive(Debug, Clone, PartialEq)]
pub struct Shares {
    /// Of each class: of all bytes.
    pub classes: Vec<f64>,
    /// Of each queue pair: of the bytes of its class.
    pub queue_pairs: Vec<f64>,
}

impl Shares {
    /// The largest deviation from 1.0.
    #[must_use]
    pub fn worst(&self) -> f64 {
        let all = self.classes.iter().chain(&self.queue_pairs);
        all.map(|share| (share - 1.0).abs()).fold(0.0, f64::max)
    }
}

/// Eight queue pairs in four classes, of weights 1 and 3 in each, on a port of a tenth of the rate that they could have, until the first of the heavy ones
/// has sent its `messages` messages of 64 KiB; the first quarter of that time does not count, for they are not posted all at once. All classes have weight 1.
///
/// # Errors
/// As [`Run`].
pub fn shares<B: Bench>(bench: &B, messages: usize) -> Result<Shares, Failure> {
    const WEIGHTS: [f64; 2] = [1.0, 3.0];
    let mut scenario = stream(100, Policy::RoundRobin, 0);
    scenario.port_mbps = 10_000;
    scenario.queue_pairs = (0..8u8)
        .map(|place| QueuePairSpec {
            class: place / 2,
            weight: WEIGHTS[usize::from(place % 2)] as u8,
            timeout_ns: 10_000_000,
            ..scenario.queue_pairs[0].clone()
        })
        .collect();
    // The light ones have half as many, which is enough to be busy meanwhile.
    let is_spared = |number: &usize| number.is_multiple_of(2) && number / 8 >= messages.div_ceil(2);
    scenario.messages = (0..8 * messages)
        .filter(|number| !is_spared(number))
        .map(|number| MessageSpec {
            queue_pair: number % 8,
            ..write(1 << 16)
        })
        .collect();
    let report = run(bench, &scenario, 0)?.report;
    let times = |place: usize| {
        let messages = scenario.messages.iter().zip(&report.done_ns);
        let own = messages.filter(move |(message, _)| message.queue_pair == place);
        own.map(|(_, done)| *done)
    };
    let first_end = (1..8)
        .step_by(2)
        .filter_map(|place| times(place).max())
        .min()
        .unwrap_or(0);
    // Messages done at a time, with the part of the one that is under way.
    let done_at = |place: usize, time: u64| {
        let before = times(place).filter(|at| *at <= time).count();
        let last = times(place).filter(|at| *at <= time).max().unwrap_or(0);
        let next = times(place).filter(|at| *at > time).min();
        let part = next.map_or(0.0, |next| (time - last) as f64 / (next - last) as f64);
        before as f64 + part
    };
    let done = |place: usize| done_at(place, first_end) - done_at(place, first_end / 4);
    let of_class = |class: usize| done(2 * class) + done(2 * class + 1);
    let all: f64 = (0..4).map(of_class).sum();
    let weights: f64 = WEIGHTS.iter().sum();
    Ok(Shares {
        classes: (0..4).map(|class| of_class(class) / all * 4.0).collect(),
        queue_pairs: (0..8)
            .map(|place| done(place) / of_class(place / 2) * weights / WEIGHTS[place % 2])
            .collect(),
    })
}

/// What a burst of another class does to a flow.
#[derive(Debug, Clone, PartialEq)]
pub struct Burst {
    /// Goodput of the flow with it, of that without.
    pub goodput: f64,
    /// How long each message took without it, in nanoseconds.
    pub alone_ns: Vec<u64>,
    /// The same with it.
    pub beside_ns: Vec<u64>,
}

impl Burst {
    /// The longest time of a message without it and with it.
    #[must_use]
    pub fn longest_ns(&self) -> [u64; 2] {
        [&self.alone_ns, &self.beside_ns].map(|times| times.iter().max().copied().unwrap_or(0))
    }
}

/// Classes that are strict, for [`storage_burst`]: training, and none.
pub const TRAINING_STRICT: u8 = 1 << 1;

/// A training flow (class 1), limited to 40 % of a port of 10 Gb/s, one message of 16 KiB every 40 us, that asks for a third of the port; in its midst four
/// queue pairs of class 2 have 1 MiB to send, together. `strict`: classes that go before others, a bit each.
///
/// # Errors
/// As [`Run`].
pub fn storage_burst<B: Bench>(bench: &B, strict: u8, messages: usize) -> Result<Burst, Failure> {
    const EVERY_NS: u64 = 40_000;
    let mut scenario = stream(100, Policy::RoundRobin, 0);
    scenario.port_mbps = 10_000;
    let queue_pair = QueuePairSpec {
        timeout_ns: 10_000_000,
        ..scenario.queue_pairs[0].clone()
    };
    scenario.queue_pairs = vec![QueuePairSpec {
        class: 1,
        mbps: 4_000,
        ..queue_pair.clone()
    }];
    scenario.messages = (0..messages)
        .map(|number| MessageSpec {
            at_ns: number as u64 * EVERY_NS,
            ..write(1 << 14)
        })
        .collect();
    let mut settings = Settings::default();
    settings.classes.strict = strict;
    let times = |report: &Report| {
        let flow = scenario.messages.iter().zip(&report.done_ns);
        flow.map(|(message, done)| done - message.at_ns).collect()
    };
    let end = |report: &Report| report.done_ns[..messages].iter().max().copied().unwrap_or(0);
    let alone = run_with(bench, &scenario, settings, 0)?.report;
    let mut beside = scenario.clone();
    beside.queue_pairs.resize(5, QueuePairSpec { class: 2, ..queue_pair });
    let at_ns = messages as u64 * EVERY_NS / 4;
    beside.messages.extend((1..5).map(|queue_pair| MessageSpec {
        queue_pair,
        at_ns,
        ..write(1 << 18)
    }));
    let beside = run_with(bench, &beside, settings, 0)?.report;
    Ok(Burst {
        goodput: end(&alone) as f64 / end(&beside) as f64,
        alone_ns: times(&alone),
        beside_ns: times(&beside),
    })
}

/// Holds a stream to what loss may cost it: at 0.1 % and 1 % of random loss at least 0.99 and 0.97 of the goodput without loss, one transmission more for
/// each loss, and none more where nothing is lost. Prints the figures.
///
/// # Panics
/// Where a run fails or misses one of these.
#[track_caller]
pub fn assert_loss_costs_little<B: Bench>(bench: &B, gbps: u64, policy: Policy) {
    let measure = |scenario: &Scenario| run(bench, scenario, 0).unwrap_or_else(|failure| panic!("{failure}"));
    let scenario = stream(gbps, policy, 40);
    let clean = measure(&scenario);
    assert_eq!(clean.activity.sent_again, 0);
    let clean = clean.report.mbps();
    println!("{gbps} Gb/s {policy:?}: {:.2} Gb/s without loss", clean / 1e3);
    for (loss_ppm, least) in [(1_000, 0.99), (10_000, 0.97)] {
        let outcome = measure(&with_loss(scenario.clone(), loss_ppm));
        let share = outcome.report.mbps() / clean;
        let transmissions = outcome.transmissions_a_packet();
        let loss = f64::from(loss_ppm) / 1e6;
        println!(
            "{gbps} Gb/s {policy:?}, loss {loss}: {share:.4} of that; {transmissions:.4} transmissions for each packet; {} timeouts",
            outcome.activity.timeouts
        );
        assert!(share >= least, "{share}");
        assert!(transmissions < 1.0 / (1.0 - loss) + 0.01, "{transmissions}");
    }
}

/// Holds deaths to what they may cost: each retires its path and no other, and the mean goodput is at least 0.85 of that before. Prints the figures.
///
/// # Panics
/// Where they cost more.
#[track_caller]
pub fn assert_deaths_cost_little(deaths: &[Death]) {
    assert!(deaths.iter().all(|death| death.retired == 1), "{deaths:?}");
    let count = deaths.len();
    let mean = deaths.iter().map(|death| death.goodput).sum::<f64>() / count as f64;
    let worst = deaths.iter().map(|death| death.goodput).fold(f64::MAX, f64::min);
    println!(
        "death of one of eight paths, {count} times: goodput from 3 to 13 RTTs after it: mean {mean:.3}, worst {worst:.3} of before"
    );
    assert!(mean >= 0.85, "{mean}");
}
