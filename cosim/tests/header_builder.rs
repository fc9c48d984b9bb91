//! header_builder: golden model and RTL give the same frames and counters, one beat a clock, one frame a clock.

mod common;

#[path = "header_builder/judge.rs"]
mod judge;
#[path = "header_builder/named.rs"]
mod named;
#[path = "header_builder/strategy.rs"]
mod strategy;

use judge::check;
use proptest::prelude::*;
use spraynic_config::descriptor::{Descriptor, HeaderTemplate, PacketDescriptor};
use spraynic_config::{NicConfig, Operation, Preset, Profile};
use spraynic_cosim::{Frame, Limits, ModelSource, Outcome, Pattern, SharedModel, Simulation, SinkChecks, Stimulus};
use strategy::scenario;

const QUEUE_PAIRS: u32 = 8;
/// The time grows by this in each clock: a stamp holds for three or four clocks.
const NS_PER_CLOCK: u64 = 37;
/// So that stamps wrap in the middle of a run.
const FIRST_NS: u64 = (1 << 23) - 20_000;

fn config(width: u32, change: impl FnOnce(&mut NicConfig)) -> NicConfig {
    let mut config = NicConfig::preset(Preset::G100);
    config.datapath.width_bits = width;
    config.queue_pairs.count = QUEUE_PAIRS;
    change(&mut config);
    config.validate().unwrap_or_else(|error| panic!("{error}"));
    config
}

/// IPv4 WRITE alone: the smallest header_builder that makes sense.
fn ipv4_write(config: &mut NicConfig) {
    config.wire.profiles = [Profile::Roce].into();
    config.wire.operations = [Operation::Write].into();
    config.wire.control = false;
    config.wire.ipv6 = false;
    config.wire.vlan = false;
}

/// Everything at four widths, and configurations that lack headers: those differ in the pipeline too.
fn configs() -> [NicConfig; 7] {
    [
        config(64, |_| {}),
        config(128, |config| config.paths.ports = 8),
        config(512, |_| {}),
        config(1024, |_| {}),
        config(512, ipv4_write),
        config(256, |config| {
            config.wire.profiles = [Profile::Mrc].into();
            config.wire.operations = [Operation::Write, Operation::WriteImmediate].into();
            config.wire.ipv4 = false;
            config.wire.max_mtu = 1024;
        }),
        config(128, |config| {
            config.wire.profiles = [Profile::Roce, Profile::Solar].into();
            config.wire.operations = [Operation::Read, Operation::Atomic].into();
            config.wire.ipv6 = false;
            config.wire.control = false;
        }),
    ]
}

fn source(config: &NicConfig) -> ModelSource {
    let context = spraynic_rtl::Context::new();
    ModelSource::from_definition(spraynic_hdl::header_builder::header_builder(&context, config))
}

/// A model for each of [`configs`].
static MODELS: [SharedModel; 7] = [
    SharedModel::new(|| source(&configs()[0])),
    SharedModel::new(|| source(&configs()[1])),
    SharedModel::new(|| source(&configs()[2])),
    SharedModel::new(|| source(&configs()[3])),
    SharedModel::new(|| source(&configs()[4])),
    SharedModel::new(|| source(&configs()[5])),
    SharedModel::new(|| source(&configs()[6])),
];

fn simulation(index: usize) -> Simulation {
    common::simulation(&MODELS[index])
}

fn time_at(cycle: u64) -> u64 {
    FIRST_NS + cycle * NS_PER_CLOCK
}

/// A descriptor with what is sent as its payload.
#[derive(Debug, Clone)]
struct Packet {
    descriptor: PacketDescriptor,
    payload: Vec<u8>,
    /// First cycle, from [`BEGIN`] on, in which the payload may be offered.
    payload_from: u64,
}

impl Packet {
    /// With as much payload as the descriptor says.
    fn new(descriptor: PacketDescriptor) -> Self {
        Self {
            descriptor,
            payload: vec![0xA5; usize::from(descriptor.payload_length)],
            payload_from: 0,
        }
    }
}

/// When each stream offers, and when the output is taken.
#[derive(Debug, Clone)]
struct Patterns {
    descriptors: Pattern,
    control: Pattern,
    payload: Pattern,
    output: Pattern,
}

impl Patterns {
    const FULL_SPEED: Self = Self {
        descriptors: Pattern::Always,
        control: Pattern::Always,
        payload: Pattern::Always,
        output: Pattern::Always,
    };

    fn strategy() -> impl Strategy<Value = Self> {
        let any = Pattern::strategy;
        (any(), any(), any(), any()).prop_map(|(descriptors, control, payload, output)| Self {
            descriptors,
            control,
            payload,
            output,
        })
    }
}

/// All that goes into a run.
#[derive(Debug, Clone)]
struct Scenario {
    /// Writes, each with the first cycle in which it may be offered.
    templates: Vec<(u64, HeaderTemplate)>,
    packets: Vec<Packet>,
    /// Control descriptors, each with the first cycle in which it may be offered.
    control: Vec<(u64, PacketDescriptor)>,
    identification: u16,
    patterns: Patterns,
}

/// The clock in which descriptors begin: the table is cleared and the first templates are written, 7 clocks each.
const BEGIN: u64 = 70;

fn at(cycle: u64, data: Vec<u8>) -> Frame {
    Frame {
        not_before: cycle,
        ..Frame::new(data)
    }
}

fn stimulus(index: usize, scenario: &Scenario, checks: SinkChecks) -> Stimulus {
    let has_control = configs()[index].wire.control;
    let templates = scenario
        .templates
        .iter()
        .map(|(cycle, template)| at(*cycle, template.pack()));
    let descriptors = scenario
        .packets
        .iter()
        .map(|packet| at(BEGIN, packet.descriptor.pack()));
    let payloads = scenario.packets.iter().filter(|packet| !packet.payload.is_empty());
    let payloads = payloads.map(|packet| at(BEGIN + packet.payload_from, packet.payload.clone()));
    let mut stimulus = Stimulus::default()
        .input_at("time_ns", 0, FIRST_NS, NS_PER_CLOCK)
        .input("identification", u64::from(scenario.identification))
        .input("identification_load", 1)
        .input_at("identification_load", 1, 0, 0)
        .source("s_axis_template", Pattern::Always, templates)
        .source("s_axis_descriptor", scenario.patterns.descriptors.clone(), descriptors)
        .source("s_axis_payload", scenario.patterns.payload.clone(), payloads)
        .sink("m_axis", scenario.patterns.output.clone(), checks);
    if has_control {
        let control = scenario
            .control
            .iter()
            .map(|(cycle, control)| at(BEGIN + cycle, control.pack()));
        stimulus = stimulus.source("s_axis_control", scenario.patterns.control.clone(), control);
    }
    stimulus
}

fn run(index: usize, scenario: &Scenario, checks: SinkChecks) -> Outcome {
    let stimulus = stimulus(index, scenario, checks);
    spraynic_cosim::run(&mut simulation(index), &stimulus, Limits::default()).unwrap_or_else(|error| panic!("{error}"))
}

proptest! {
    #![proptest_config(common::config(200, "header_builder"))]
    #[test]
    fn frames_and_counters_equal_the_golden_model(
        (index, scenario) in (0..7usize).prop_flat_map(|index| (Just(index), scenario(index))),
    ) {
        if common::have_verilator() {
            check(index, &scenario)?;
        }
    }
}

/// Linters find nothing in any configuration.
#[test]
fn verilog_is_clean() {
    if !common::have_verilator() {
        return;
    }
    let presets = [Preset::Lab, Preset::G25, Preset::G100, Preset::G400].map(NicConfig::preset);
    for config in configs().iter().chain(&presets) {
        spraynic_cosim::lint(&source(config)).unwrap_or_else(|error| panic!("{error}"));
    }
}
