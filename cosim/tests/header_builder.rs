//! header_builder: golden model and RTL give the same frames and counters, one beat a clock, one frame a clock.

mod common;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use proptest::prelude::*;
use spraynic_config::descriptor::{Descriptor, Extension, HeaderTemplate, PacketDescriptor};
use spraynic_config::{NicConfig, Operation, Preset, Profile};
use spraynic_cosim::{
    Bench, Builder, Frame, Limits, Model, ModelSource, Outcome, Pattern, Simulation, SinkChecks, Stimulus,
};
use spraynic_golden::frame::Frame as GoldenFrame;
use spraynic_golden::header_builder::{Config, Counters, HeaderBuilder, stamp_of, stamp_offset};

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
        config(128, |_| {}),
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

fn simulation(index: usize) -> Simulation {
    static MODELS: [OnceLock<Arc<Model>>; 7] = [const { OnceLock::new() }; 7];
    let model = MODELS[index].get_or_init(|| {
        let model = Builder::new().build(&source(&configs()[index]));
        model.unwrap_or_else(|error| panic!("{error}"))
    });
    Simulation::new(model, 1)
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

fn qpn() -> impl Strategy<Value = u32> {
    prop_oneof![30 => 0..QUEUE_PAIRS, 1 => 0..1u32 << 24]
}

/// Mostly templates that the configuration has the headers for.
fn template(config: &NicConfig) -> impl Strategy<Value = HeaderTemplate> + use<> {
    let (ipv4, all) = (config.wire.ipv4, config.wire.ipv4 && config.wire.ipv6);
    let vlan = if config.wire.vlan { 0.5 } else { 0.1 };
    let ipv6 = match (ipv4, all) {
        (_, true) => 0.5,
        (true, _) => 0.1,
        _ => 0.9,
    };
    let flags = (
        prop::bool::weighted(vlan),
        prop::bool::weighted(ipv6),
        any::<bool>(),
        any::<bool>(),
    );
    // Words of ones make the checksum carry.
    let address = || {
        prop_oneof![
            any::<u128>(),
            any::<u32>().prop_map(|low| u128::MAX << 32 | u128::from(low | 0xFFFF))
        ]
    };
    let small = (
        any::<u16>(),
        any::<u8>(),
        any::<u8>(),
        0..1u32 << 20,
        any::<u16>(),
        0..1u32 << 24,
    );
    let macs = (0..1u64 << 48, 0..1u64 << 48);
    (qpn(), flags, macs, address(), address(), small).prop_map(
        |(qpn, (vlan, ipv6, spray, migration), macs, source_ip, destination_ip, small)| {
            let (vlan_tci, traffic_class, hop_limit, flow_label, partition_key, destination_qpn) = small;
            HeaderTemplate {
                qpn,
                vlan,
                ipv6,
                spray,
                migration,
                destination_mac: macs.0,
                source_mac: macs.1,
                vlan_tci,
                traffic_class,
                hop_limit,
                flow_label,
                source_ip,
                destination_ip,
                partition_key,
                destination_qpn,
                ..HeaderTemplate::default()
            }
        },
    )
}

/// Mostly one of these lengths, sometimes any number of words.
fn extension_words(lengths: &BTreeSet<u32>) -> BoxedStrategy<u8> {
    let words: Vec<u8> = lengths.iter().map(|bytes| (bytes / 4) as u8).collect();
    match words.is_empty() {
        true => (0..16u8).boxed(),
        false => prop_oneof![20 => prop::sample::select(words), 1 => 0..16u8].boxed(),
    }
}

fn descriptor(config: &NicConfig, payload: bool) -> impl Strategy<Value = PacketDescriptor> + use<> {
    let max = config.wire.max_mtu as u16;
    let length = match payload {
        false => Just(0).boxed(),
        true => prop_oneof![
            12 => 1..300u16,
            2 => 1..=max,
            2 => (0..8u16).prop_map(move |less| max - less),
            1 => 1..8192u16,
        ]
        .boxed(),
    };
    let words = match payload {
        true => extension_words(&config.payload_extension_lengths()),
        false => extension_words(&config.extension_lengths()),
    };
    let flags = prop::array::uniform6(any::<bool>());
    let numbers = (any::<u8>(), 0..1u32 << 24, any::<u32>(), any::<u64>());
    (qpn(), numbers, flags, 0..4u8, words, length, any::<[u8; 36]>()).prop_map(
        |(qpn, (opcode, psn, entropy, local_address), flags, stamp, extension_words, payload_length, extension)| {
            let [solicited, ack_request, retransmission, timestamped, mrc, becn] = flags;
            PacketDescriptor {
                qpn,
                opcode,
                psn,
                solicited,
                ack_request,
                retransmission,
                timestamped,
                mrc,
                becn,
                stamp,
                extension_words,
                entropy,
                payload_length,
                local_key: entropy ^ psn,
                local_address,
                extension: Extension(extension),
                ..PacketDescriptor::default()
            }
        },
    )
}

/// A packet; sometimes its payload has another length than it says.
fn packet(config: &NicConfig) -> impl Strategy<Value = Packet> + use<> {
    let descriptor = prop_oneof![1 => descriptor(config, false), 4 => descriptor(config, true)];
    let delivered = prop_oneof![
        10 => Just(None),
        1 => (1..70i32).prop_map(Some),
        1 => (-70..0i32).prop_map(Some),
        1 => (1..5000i32).prop_map(|length| Some(10_000 + length)),
    ];
    (descriptor, delivered, any::<u8>()).prop_map(|(descriptor, delivered, seed)| {
        let announced = i32::from(descriptor.payload_length);
        let length = match delivered {
            None => announced,
            Some(any) if any > 10_000 => any - 10_000,
            Some(change) => (announced + change).max(1),
        };
        let length = if announced == 0 { 0 } else { length };
        let byte = |index: i32| (index.wrapping_mul(7) as u8).wrapping_add((index >> 5) as u8) ^ seed;
        Packet {
            descriptor,
            payload: (0..length).map(byte).collect(),
            payload_from: 0,
        }
    })
}

fn scenario(index: usize) -> impl Strategy<Value = Scenario> {
    let config = &configs()[index];
    let first = prop::collection::vec(template(config), QUEUE_PAIRS as usize);
    let rewrites = prop::collection::vec((0..1500u64, template(config)), 0..6);
    let packets = prop::collection::vec(packet(config), 0..25);
    let most = if config.wire.control { 25 } else { 1 };
    let control = prop::collection::vec((0..1500u64, descriptor(config, true)), 0..most);
    (first, rewrites, packets, control, any::<u16>(), Patterns::strategy()).prop_map(
        |(first, mut rewrites, packets, mut control, identification, patterns)| {
            let first = first.into_iter().zip(0..QUEUE_PAIRS);
            let mut templates: Vec<_> = first
                .map(|(template, qpn)| (0, HeaderTemplate { qpn, ..template }))
                .collect();
            rewrites.sort_by_key(|(cycle, _)| *cycle);
            control.sort_by_key(|(cycle, _)| *cycle);
            templates.extend(rewrites);
            Scenario {
                templates,
                packets,
                control,
                identification,
                patterns,
            }
        },
    )
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

/// What the block accepted, in the order in which it did.
#[derive(Debug, Clone, Copy)]
enum Accepted<'a> {
    Template(&'a HeaderTemplate),
    Data(&'a Packet),
    Control(&'a PacketDescriptor),
}

fn accepted<'a>(scenario: &'a Scenario, outcome: &Outcome) -> Vec<(u64, Accepted<'a>)> {
    let cycles = |stream: &str| {
        outcome
            .accepted(stream)
            .iter()
            .map(|timing| timing.last_cycle)
            .collect::<Vec<_>>()
    };
    let templates = scenario
        .templates
        .iter()
        .map(|(_, template)| Accepted::Template(template));
    let data = scenario.packets.iter().map(Accepted::Data);
    let control = scenario.control.iter().map(|(_, control)| Accepted::Control(control));
    let mut all: Vec<_> = cycles("s_axis_template").into_iter().zip(templates).collect();
    all.extend(cycles("s_axis_descriptor").into_iter().zip(data));
    all.extend(cycles("s_axis_control").into_iter().zip(control));
    all.sort_by_key(|(cycle, _)| *cycle);
    let clashes = all.windows(2).filter(|pair| pair[0].0 == pair[1].0).count();
    assert_eq!(clashes, 0, "one template or descriptor is taken a clock");
    all
}

/// The time whose stamp the frame has, if the block can have seen it: after the descriptor was accepted, before the frame came out.
fn time_of(
    descriptor: &PacketDescriptor,
    template: Option<&HeaderTemplate>,
    accepted: u64,
    frame: Option<&spraynic_cosim::Received>,
) -> u64 {
    let begin = time_at(accepted);
    let (Some(template), Some(frame), Some(offset)) = (template, frame, stamp_offset(descriptor)) else {
        return begin;
    };
    let lower = 34 + if template.vlan { 4 } else { 0 } + if template.ipv6 { 20 } else { 0 } + 20;
    let Some(bytes) = frame.data.get(lower + offset..lower + offset + 2) else {
        return begin;
    };
    let stamp = u16::from_be_bytes([bytes[0], bytes[1]]);
    let seen = (accepted..frame.first_cycle)
        .map(time_at)
        .find(|time| stamp_of(*time) == stamp);
    seen.unwrap_or(begin)
}

/// Frames and counters of the golden model for what the block accepted.
fn golden(config: &NicConfig, scenario: &Scenario, outcome: &Outcome) -> (Vec<GoldenFrame>, Counters) {
    let mut model = HeaderBuilder::new(Config::from(config));
    model.load_identification(scenario.identification);
    let received = outcome.received("m_axis");
    let mut frames: Vec<GoldenFrame> = vec![];
    for (cycle, accepted) in accepted(scenario, outcome) {
        let next = received.get(frames.len());
        let time = |model: &HeaderBuilder, descriptor| time_of(descriptor, model.template(descriptor.qpn), cycle, next);
        let frame = match accepted {
            Accepted::Template(template) => {
                model.write_template(template);
                None
            }
            Accepted::Data(Packet {
                descriptor, payload, ..
            }) => model.build(descriptor, payload, time(&model, descriptor)),
            Accepted::Control(descriptor) => model.build_control(descriptor, time(&model, descriptor)),
        };
        frames.extend(frame);
    }
    (frames, *model.counters())
}

fn observed(frame: &spraynic_cosim::Received) -> GoldenFrame {
    GoldenFrame {
        bytes: frame.data.clone(),
        bad: frame.user & 1 == 1,
        ipv6: frame.user >> 1 & 1 == 1,
        vlan: frame.user >> 2 & 1 == 1,
    }
}

fn check(index: usize, scenario: &Scenario) -> Result<(), TestCaseError> {
    let checks = SinkChecks {
        constant_user: 0b1110,
        ..SinkChecks::default()
    };
    judge(index, scenario, &run(index, scenario, checks))
}

fn judge(index: usize, scenario: &Scenario, outcome: &Outcome) -> Result<(), TestCaseError> {
    let config = &configs()[index];
    let (expected, counters) = golden(config, scenario, outcome);
    let received = outcome.received("m_axis");
    for (place, (golden, rtl)) in expected.iter().zip(received).enumerate() {
        prop_assert!(
            golden.agrees_with(&observed(rtl)),
            "frame {}\n{:02x?}\n{:02x?}",
            place,
            golden,
            rtl
        );
    }
    prop_assert_eq!(expected.len(), received.len(), "count of frames");
    let accepted = outcome.accepted("s_axis_payload").len();
    prop_assert_eq!(
        accepted,
        scenario
            .packets
            .iter()
            .filter(|packet| !packet.payload.is_empty())
            .count()
    );
    let named = [
        ("frames", counters.frames),
        ("control_frames", counters.control_frames),
        ("payload_mismatch", counters.payload_mismatch),
        ("drop_template", counters.drop_template),
        ("drop_descriptor", counters.drop_descriptor),
        ("drop_template_write", counters.drop_template_write),
    ];
    let there = named
        .iter()
        .filter(|(name, _)| config.wire.control || *name != "control_frames");
    prop_assert_eq!(
        outcome.counters.len(),
        there.clone().count(),
        "every counter is compared"
    );
    for (name, value) in there {
        prop_assert_eq!(outcome.counters[*name], u64::from(*value), "count_{}", name);
    }
    Ok(())
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

/// A scenario at full speed: every queue pair has an IPv4 template without a tag.
fn full_speed(packets: Vec<Packet>, control: Vec<PacketDescriptor>) -> Scenario {
    let template = |qpn| HeaderTemplate {
        qpn,
        hop_limit: 64,
        source_ip: 0x0A00_0001,
        destination_ip: 0x0A00_0002,
        ..HeaderTemplate::default()
    };
    Scenario {
        templates: (0..QUEUE_PAIRS).map(|qpn| (0, template(qpn))).collect(),
        packets,
        control: control.into_iter().map(|descriptor| (0, descriptor)).collect(),
        identification: 7,
        patterns: Patterns::FULL_SPEED,
    }
}

/// Runs, judges, and gives the clocks from the first to the last beat with the beats.
fn clocks_and_beats(index: usize, scenario: &Scenario) -> (u64, u64) {
    let checks = SinkChecks {
        record_beats: true,
        ..SinkChecks::default()
    };
    let outcome = run(index, scenario, checks);
    judge(index, scenario, &outcome).unwrap();
    let cycles = outcome.beat_cycles("m_axis");
    (cycles[cycles.len() - 1] - cycles[0] + 1, cycles.len() as u64)
}

/// 512 bits carry an IPv4 ACK, 62 bytes, in one beat: one a clock, from either stream.
#[test]
fn single_beat_frames_leave_one_a_clock() {
    if !common::have_verilator() {
        return;
    }
    let of = |extension_words, payload_length| {
        let descriptors = (0..300u32).map(move |psn| PacketDescriptor {
            qpn: psn % QUEUE_PAIRS,
            psn,
            extension_words,
            payload_length,
            ..PacketDescriptor::default()
        });
        descriptors.collect::<Vec<_>>()
    };
    let data = |descriptors: Vec<PacketDescriptor>| descriptors.into_iter().map(Packet::new).collect::<Vec<_>>();
    for (index, scenario) in [
        (2, full_speed(vec![], of(1, 0))),
        (2, full_speed(data(of(1, 0)), vec![])),
        (2, full_speed(data(of(0, 4)), vec![])),
        (4, full_speed(data(of(0, 0)), vec![])),
        (4, full_speed(data(of(0, 4)), vec![])),
    ] {
        assert_eq!(clocks_and_beats(index, &scenario), (300, 300), "configuration {index}");
    }
    let both = full_speed(data(of(0, 4)), of(1, 0));
    // Control packets that come first go past the rotator, those with payload through it: that many clocks between them.
    assert_eq!(clocks_and_beats(2, &both), (600 + ROTATOR_CLOCKS, 600));
}

/// Clocks of a rotator in two steps, which a frame without payload saves where it is empty.
const ROTATOR_CLOCKS: u64 = 2;

/// Packets of every length and header follow each other without a bubble, at every width.
#[test]
fn frames_leave_one_beat_a_clock() {
    if !common::have_verilator() {
        return;
    }
    for (index, config) in configs().iter().enumerate().filter(|(_, config)| config.wire.ipv4) {
        let extensions: Vec<u32> = config.payload_extension_lengths().into_iter().collect();
        let packets = (0..250u32).map(|psn| {
            Packet::new(PacketDescriptor {
                qpn: psn % QUEUE_PAIRS,
                psn,
                extension_words: (extensions[psn as usize % extensions.len()] / 4) as u8,
                payload_length: (psn * psn % 331 + 1) as u16,
                ..PacketDescriptor::default()
            })
        });
        let (clocks, beats) = clocks_and_beats(index, &full_speed(packets.collect(), vec![]));
        assert_eq!(clocks, beats, "configuration {index}");
    }
}

/// Short packets back to back, with payload and without, while the output waits until the queues behind it are full: no header is lost while
/// its payload is kept, nor the other way round.
#[test]
fn headers_and_payload_of_short_packets_stay_together_when_the_output_waits() {
    if !common::have_verilator() {
        return;
    }
    let packets: Vec<_> = (0..150u32)
        .map(|psn| {
            let descriptor = PacketDescriptor {
                qpn: psn % QUEUE_PAIRS,
                psn,
                payload_length: (psn % 9) as u16,
                ..PacketDescriptor::default()
            };
            Packet {
                payload: vec![psn as u8; usize::from(descriptor.payload_length)],
                ..Packet::new(descriptor)
            }
        })
        .collect();
    for output in [
        Pattern::After { clocks: 1000 },
        Pattern::Bursts { on: 1, off: 7 },
        Pattern::AfterValid { clocks: 3 },
    ] {
        for index in [0, 2] {
            let mut scenario = full_speed(packets.clone(), vec![]);
            scenario.patterns.output = output.clone();
            check(index, &scenario).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

/// Nobody has sent the payload of the packet in front yet, so control packets go first; and the packets behind still come.
#[test]
fn control_does_not_wait_for_payload_that_has_not_come() {
    if !common::have_verilator() {
        return;
    }
    let descriptor = |payload_length| PacketDescriptor {
        extension_words: 1,
        payload_length,
        ..PacketDescriptor::default()
    };
    let late = |payload_from| Packet {
        payload_from,
        ..Packet::new(descriptor(100))
    };
    let mut scenario = full_speed((0..6).map(|_| late(900)).collect(), vec![descriptor(0); 20]);
    for (place, (cycle, _)) in scenario.control.iter_mut().enumerate() {
        *cycle = 100 + 20 * place as u64;
    }
    let outcome = run(2, &scenario, SinkChecks::default());
    judge(2, &scenario, &outcome).unwrap();
    let frames = outcome.received("m_axis");
    let accepted = outcome.accepted("s_axis_control");
    for (frame, accepted) in frames.iter().zip(accepted) {
        assert!(frame.last_cycle <= accepted.last_cycle + 6, "{frame:?} {accepted:?}");
    }
    assert_eq!(frames.len(), 26);
}

/// The sum of the IPv4 header carries twice, or gives a checksum of 0.
#[test]
fn checksums_that_carry_twice_and_that_are_zero() {
    if !common::have_verilator() {
        return;
    }
    let header = |frame: &spraynic_cosim::Received| frame.data[14..34].to_vec();
    for index in [0, 2, 4] {
        let packets = vec![Packet::new(PacketDescriptor::default()); 64];
        let mut scenario = full_speed(packets, vec![]);
        for (_, template) in &mut scenario.templates {
            template.traffic_class = 0xFF;
            template.hop_limit = 0xFF;
            template.source_ip = 0xFFFF_FFFF;
            template.destination_ip = 0xFFFF_FFFF;
        }
        // The sum of all but the identification: 45FF + 002C + 4000 + FF11 + 4 times FFFF.
        let rest: u32 = 0x45FF + 0x2C + 0x4000 + 0xFF11 + 4 * 0xFFFF;
        let zero_at = 0xFFFF - (rest % 0xFFFF);
        scenario.identification = (zero_at as u16).wrapping_sub(30);
        let outcome = run(index, &scenario, SinkChecks::default());
        judge(index, &scenario, &outcome).unwrap();
        let (mut twice, mut zero) = (0, 0);
        for header in outcome.received("m_axis").iter().map(header) {
            let words = header
                .chunks(2)
                .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
            let sum: u32 = words
                .enumerate()
                .filter(|(word, _)| *word != 5)
                .map(|(_, word)| word)
                .sum();
            twice += u32::from((sum & 0xFFFF) + (sum >> 16) > 0xFFFF);
            zero += u32::from(header[10..12] == [0, 0]);
        }
        assert!(twice > 0 && zero > 0, "{twice} double carries, {zero} zero checksums");
    }
}

/// A template is taken within 7 clocks, whatever else stands still.
#[test]
fn templates_are_taken_while_frames_wait() {
    if !common::have_verilator() {
        return;
    }
    let descriptor = PacketDescriptor {
        payload_length: 1000,
        ..PacketDescriptor::default()
    };
    let mut scenario = full_speed(vec![Packet::new(descriptor); 4], vec![]);
    let first = scenario.templates.clone();
    scenario
        .templates
        .extend(first.iter().map(|(_, template)| (100, *template)));
    scenario.patterns.output = Pattern::After { clocks: 1000 };
    let outcome = run(2, &scenario, SinkChecks::default());
    judge(2, &scenario, &outcome).unwrap();
    let accepted = outcome.accepted("s_axis_template");
    assert!(
        accepted.last().unwrap().last_cycle < 100 + 7 * u64::from(QUEUE_PAIRS),
        "{accepted:?}"
    );
}

/// A reset in the middle of frames, discarded payload and template writes leaves nothing behind.
#[test]
fn a_reset_leaves_nothing_behind() {
    if !common::have_verilator() {
        return;
    }
    let words = |psn: u32| (psn % 2 * 4) as u8;
    let packets = (0..60u32).map(|psn| Packet {
        payload: vec![psn as u8; 40 + 7 * psn as usize],
        ..Packet::new(PacketDescriptor {
            qpn: psn % QUEUE_PAIRS,
            psn,
            extension_words: words(psn),
            payload_length: 200,
            ..PacketDescriptor::default()
        })
    });
    let scenario = full_speed(packets.collect(), vec![]);
    for index in [2, 4] {
        let mut simulation = simulation(index);
        for clocks in [3, 20, 61, 70, 75, 90, 100, 113, 150, 201] {
            let stimulus = stimulus(index, &scenario, SinkChecks::default());
            let mut bench = Bench::new(&mut simulation, &stimulus, Limits::default()).unwrap();
            bench.run_clocks(clocks, &mut ()).unwrap();
            let outcome = spraynic_cosim::run(&mut simulation, &stimulus, Limits::default()).unwrap();
            judge(index, &scenario, &outcome).unwrap();
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
