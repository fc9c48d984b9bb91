//! register_file: golden model and RTL answer the same, give the same descriptors and settings, however the five channels stall.

#[path = "common/blocks.rs"]
mod blocks;
mod common;

use std::collections::BTreeSet;

use proptest::prelude::*;
use spraynic_config::registers::{ADDRESS_BITS, REGISTER_BYTES, Register, RegisterMap, Role, TARGETS};
use spraynic_config::{NicConfig, Preset};
use spraynic_cosim::{Bench, Frame, Limits, Outcome, Pattern, Simulation, SinkChecks, Stimulus};
use spraynic_golden::register_file::{Ports, RegisterFile};
use spraynic_hdl::register_file::register_file;
use spraynic_hdl::spraynic_nic::register_map;
use spraynic_rtl::{Context, Definition, Stream, cat_lsb_first};

/// Nanoseconds in cycle 0: the upper half changes in the middle of a run.
const FIRST_NS: u64 = 0x3_ffff_fe00;
const NS_PER_CLOCK: u64 = 4;

fn map() -> RegisterMap {
    register_map(&NicConfig::preset(Preset::Lab))
}

/// Told apart from its neighbours and from what it was a clock before.
fn noise(register: &Register, cycle: u64) -> u32 {
    register.offset.wrapping_mul(0x9e37_79b9) ^ cycle as u32
}

/// The block with its AXI4-Lite channels as plain streams: `s_axis_aw`, `s_axis_w` (data, then strobes), `m_axis_b`, `s_axis_ar`, `m_axis_r` (data,
/// then RRESP). Its inputs change in each clock: [`noise`]. `m_axis_load` tells of `identification`, `m_axis_responds` of the first clock of a response.
fn bench<'a>(context: &'a Context, map: &RegisterMap) -> Definition<'a> {
    let m = context.module("register_file_bench");
    let file = m.instance("u_file", register_file(context, map));
    let port = |name: &str| format!("s_axil_{name}");
    for (channel, fields) in [("aw", &["awaddr"][..]), ("w", &["wdata", "wstrb"]), ("ar", &["araddr"])] {
        let widths: Vec<u32> = fields.iter().map(|field| file.input(&port(field)).width()).collect();
        let stream = Stream::slave(m, &format!("s_axis_{channel}"), widths.iter().sum(), "a channel");
        let mut low = 0;
        for (field, width) in fields.iter().zip(widths) {
            file.input(&port(field)).set(stream.data.part(low, width));
            low += width;
        }
        file.input(&port(&format!("{channel}valid"))).set(stream.valid);
        stream.ready.set(file.output(&port(&format!("{channel}ready"))));
    }
    for (channel, fields) in [("b", &["bresp"][..]), ("r", &["rdata", "rresp"])] {
        let signals: Vec<_> = fields.iter().map(|field| file.output(&port(field))).collect();
        let data = cat_lsb_first(&signals);
        let stream = Stream::master(m, &format!("m_axis_{channel}"), data.width(), "a channel");
        stream.data.set(data);
        stream.valid.set(file.output(&port(&format!("{channel}valid"))));
        file.input(&port(&format!("{channel}ready"))).set(stream.ready);
    }
    // The first clock of each response, however long it waits.
    let (valid, ready) = (file.output(&port("bvalid")), m.wire("b_taken", 1));
    ready.set(file.input(&port("bready")));
    let waits = m.reg("b_waits", 1).reset(0);
    waits.set(valid & !ready);
    let responses = Stream::master(m, "m_axis_responds", 1, "a response appears");
    responses.data.set(m.high());
    responses.valid.set(valid & !waits);
    responses.ready.ignore();
    for name in ["awprot", "arprot"] {
        file.input(&port(name)).set(m.lit(0, 3));
    }
    file.input("time_ns").set(m.input("time_ns", 64));
    let ticks = m.reg("ticks", 32).reset(0);
    ticks.set(ticks + ticks.lit(1));
    for register in &map.registers {
        let width = register.width();
        match register.role {
            Role::Input | Role::Counter => {
                let value = ticks ^ ticks.lit(register.offset.wrapping_mul(0x9e37_79b9));
                let port = register.port().expect("a register of this role has a port");
                file.input(&port).set(value.part(0, width));
            }
            Role::Setting | Role::Load => {
                m.output_of(&register.name, file.output(&register.name));
            }
            Role::OwnCounter(counter) => {
                let name = format!("count_{}", counter.name());
                m.output_of(&name, file.output(&name));
            }
            _ => {}
        }
    }
    let loads = Stream::master(m, "m_axis_load", 16, "identification when it is loaded");
    loads.data.set(file.output("identification"));
    loads.valid.set(file.output("identification_load"));
    loads.ready.ignore();
    for target in TARGETS {
        let from = Stream::from_instance(file, &target.stream());
        from.connect(Stream::master(m, &target.stream(), from.data.width(), "as the block"));
    }
    m.finish()
}

fn simulation() -> Simulation {
    let context = Context::new();
    let map = map();
    blocks::simulation(&context, bench(&context, &map))
}

/// What the ports carry in a cycle.
struct At(u64);

impl Ports for At {
    fn time_ns(&self) -> u64 {
        FIRST_NS + NS_PER_CLOCK * self.0
    }
    fn input(&self, register: &Register) -> u32 {
        noise(register, self.0)
    }
}

/// What software does.
#[derive(Debug, Clone, Default)]
struct Traffic {
    writes: Vec<(u16, u32, u8)>,
    reads: Vec<u16>,
    /// Gaps of AW, W and AR.
    gaps: [Pattern; 3],
    /// Stalls of B, R and all targets.
    stalls: [Pattern; 3],
}

fn run(simulation: &mut Simulation, traffic: &Traffic) -> Outcome {
    let [address_gaps, data_gaps, read_gaps] = traffic.gaps.clone();
    let [write_stalls, read_stalls, target_stalls] = traffic.stalls.clone();
    let addresses = traffic
        .writes
        .iter()
        .map(|(address, ..)| Frame::new(address.to_le_bytes()));
    let data = traffic
        .writes
        .iter()
        .map(|(_, data, strobes)| Frame::new([&data.to_le_bytes()[..], &[*strobes]].concat()));
    let reads = traffic.reads.iter().map(|address| Frame::new(address.to_le_bytes()));
    let mut stimulus = Stimulus::default()
        .input_at("time_ns", 0, FIRST_NS, NS_PER_CLOCK)
        .source("s_axis_aw", address_gaps, addresses)
        .source("s_axis_w", data_gaps, data)
        .source("s_axis_ar", read_gaps, reads)
        .sink("m_axis_b", write_stalls, SinkChecks::default())
        .sink("m_axis_r", read_stalls, SinkChecks::default());
    for target in TARGETS {
        stimulus = stimulus.sink(&target.stream(), target_stalls.clone(), SinkChecks::default());
    }
    let mut bench = Bench::new(simulation, &stimulus, Limits::default()).unwrap_or_else(|error| panic!("{error}"));
    bench.run(&mut ()).unwrap_or_else(|error| panic!("{error}"))
}

/// One thing that happened, in the order in which those of one clock see each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Read(usize),
    Write(usize),
    Take(usize, usize),
}

/// The steps with their clocks: a read looks at the registers in the clock after AR, a write happens in the clock before BVALID.
fn steps(outcome: &Outcome) -> Vec<(u64, Step)> {
    let reads = outcome.accepted("s_axis_ar").iter().enumerate();
    let mut steps: Vec<(u64, Step)> = reads
        .map(|(place, one)| (one.last_cycle + 1, Step::Read(place)))
        .collect();
    let writes = outcome.received("m_axis_responds").iter().enumerate();
    steps.extend(writes.map(|(place, one)| (one.first_cycle - 1, Step::Write(place))));
    for (number, target) in TARGETS.iter().enumerate() {
        let taken = outcome.received(&target.stream()).iter().enumerate();
        steps.extend(taken.map(|(place, one)| (one.last_cycle, Step::Take(number, place))));
    }
    steps.sort();
    steps
}

fn check(traffic: &Traffic) -> Result<(Outcome, RegisterFile), TestCaseError> {
    let mut simulation = simulation();
    let outcome = run(&mut simulation, traffic);
    let mut model = RegisterFile::new(map());
    prop_assert_eq!(
        outcome.received("m_axis_r").len(),
        traffic.reads.len(),
        "answers to reads"
    );
    prop_assert_eq!(
        outcome.received("m_axis_b").len(),
        traffic.writes.len(),
        "answers to writes"
    );
    let mut loads = vec![];
    for (cycle, step) in steps(&outcome) {
        match step {
            Step::Read(place) => {
                let address = traffic.reads[place];
                let (value, code) = match model.read(address, &At(cycle)) {
                    Ok(value) => (value, 0),
                    Err(_) => (0, 2),
                };
                let expected = [&value.to_le_bytes()[..], &[code]].concat();
                let given = &outcome.received("m_axis_r")[place].data;
                prop_assert_eq!(
                    given,
                    &expected,
                    "read {} of {:#06x} in cycle {}",
                    place,
                    address,
                    cycle
                );
            }
            Step::Write(place) => {
                let (address, data, strobes) = traffic.writes[place];
                let result = model.write(address, data, strobes);
                if result == Ok(true) {
                    loads.push(model.setting("identification").unwrap_or(0));
                }
                let code = if result.is_ok() { 0 } else { 2 };
                let given = outcome.received("m_axis_b")[place].data[0];
                prop_assert_eq!(given, code, "write {} to {:#06x} in cycle {}", place, address, cycle);
            }
            Step::Take(number, place) => {
                let taken = model.take();
                prop_assert!(taken.is_some(), "{} took what was not sent", TARGETS[number].name);
                let taken = taken.unwrap_or_else(|| unreachable!("asserted above"));
                prop_assert_eq!(taken.target, TARGETS[number].name);
                let given = &outcome.received(&TARGETS[number].stream())[place].data;
                prop_assert_eq!(given, &taken.bytes, "descriptor {} of {}", place, taken.target);
            }
        }
    }
    prop_assert_eq!(model.offer(), None, "everything that was sent has left");
    let loaded: Vec<u32> = outcome
        .received("m_axis_load")
        .iter()
        .map(|load| u32::from(u16::from_le_bytes([load.data[0], load.data[1]])))
        .collect();
    prop_assert_eq!(loaded, loads, "identification_load");
    for register in &model.map().registers {
        if let Some(value) = model.setting(&register.name) {
            let given = simulation.get_by_name(&register.name);
            prop_assert_eq!(given, Ok(u64::from(value)), "port {}", &register.name);
        }
    }
    let counters = model.counters();
    let named = [
        ("descriptors", counters.descriptors),
        ("refused_writes", counters.refused_writes),
        ("refused_reads", counters.refused_reads),
    ];
    prop_assert_eq!(outcome.counters.len(), named.len(), "every counter is compared");
    for (name, value) in named {
        prop_assert_eq!(outcome.counters[name], u64::from(value), "count_{}", name);
    }
    Ok((outcome, model))
}

/// Addresses of what is there, of what is beside it, and of anything; those that are written are common.
fn address() -> impl Strategy<Value = u16> {
    let map = map();
    let all: Vec<u16> = map.registers.iter().map(|register| register.offset as u16).collect();
    let writable: Vec<u16> = map
        .registers
        .iter()
        .filter(|register| {
            matches!(
                register.role,
                Role::Setting | Role::Load | Role::TimeLow | Role::TimeHigh
            )
        })
        .map(|register| register.offset as u16)
        .collect();
    let near = map.find("descriptor_0").map_or(0, |register| register.offset as u16);
    let commit = map
        .find("descriptor_commit")
        .map_or(0, |register| register.offset as u16);
    prop_oneof![
        4 => prop::sample::select(writable),
        4 => (0u16..20).prop_map(move |word| near + 4 * word),
        3 => prop_oneof![Just(commit), Just(commit + 4)],
        3 => prop::sample::select(all),
        1 => any::<u16>(),
    ]
    .prop_flat_map(|address| prop_oneof![4 => Just(address), 1 => (0u16..4).prop_map(move |byte| address & !3 | byte)])
}

fn traffic() -> impl Strategy<Value = Traffic> {
    let strobes = prop_oneof![3 => Just(0xfu8), 1 => 0u8..16];
    let data = prop_oneof![2 => any::<u32>(), 2 => 0u32..10];
    let writes = prop::collection::vec((address(), data, strobes), 0..120);
    let reads = prop::collection::vec(address(), 0..60);
    let three = || [Pattern::strategy(), Pattern::strategy(), Pattern::strategy()];
    (writes, reads, three(), three()).prop_map(|(writes, reads, gaps, stalls)| Traffic {
        writes,
        reads,
        gaps,
        stalls,
    })
}

proptest! {
    #![proptest_config(common::config(80, "register_file"))]
    #[test]
    fn answers_descriptors_and_settings_equal_the_golden_model(traffic in traffic()) {
        if common::have_verilator() {
            check(&traffic)?;
        }
    }
}

/// Every register, and every place where there is none up to behind the last one.
#[test]
fn every_address_reads_as_the_golden_model_says() {
    if !common::have_verilator() {
        return;
    }
    let map = map();
    let end = map.registers.last().map_or(0, |register| register.offset) + 8 * REGISTER_BYTES;
    let beyond = (ADDRESS_BITS - 3..ADDRESS_BITS).map(|bit| 1u16 << bit);
    let reads: Vec<u16> = (0..end)
        .step_by(4)
        .map(|address| address as u16)
        .chain(beyond)
        .collect();
    let places = reads.len();
    let traffic = Traffic {
        reads,
        ..Traffic::default()
    };
    let (_, model) = check(&traffic).unwrap();
    let there: BTreeSet<u32> = map.registers.iter().map(|register| register.offset).collect();
    let refused = traffic
        .reads
        .iter()
        .filter(|address| !there.contains(&u32::from(**address)));
    assert_eq!(model.counters().refused_reads as usize, refused.count());
    assert!(map.registers.len() > 150 && places > map.registers.len());
}

/// What a driver does with each target: write the words, commit, wait.
#[test]
fn every_target_gets_its_descriptor() {
    if !common::have_verilator() {
        return;
    }
    let mut map = map();
    map.registers.retain(|register| register.role == Role::Commit);
    let commit = map.registers[0].offset as u16;
    let mut writes = vec![];
    for target in TARGETS {
        let words = 0..target.words();
        writes.extend(words.map(|word| (0x300 + 4 * word as u16, 0x0101_0101 * (target.code + word), 0xf)));
        writes.push((commit, target.code, 0xf));
    }
    let traffic = Traffic {
        writes,
        ..Traffic::default()
    };
    let (outcome, model) = check(&traffic).unwrap();
    assert_eq!(model.counters().descriptors as usize, TARGETS.len());
    assert_eq!(model.counters().refused_writes, 0);
    for target in TARGETS {
        assert_eq!(outcome.received(&target.stream()).len(), 1, "{}", target.name);
    }
}

/// As documented: clocks from address to data, and from the later of address and data to the response; clocks between two of a kind.
#[test]
fn latencies_are_as_documented() {
    if !common::have_verilator() {
        return;
    }
    let traffic = Traffic {
        writes: vec![(0x200, 1, 0xf); 20],
        reads: vec![0x200; 20],
        ..Traffic::default()
    };
    let (outcome, _) = check(&traffic).unwrap();
    let (reads, writes) = (outcome.received("m_axis_r"), outcome.received("m_axis_b"));
    for (address, read) in outcome.accepted("s_axis_ar").iter().zip(reads) {
        assert_eq!(read.first_cycle - address.last_cycle, 4, "from ARVALID to RVALID");
    }
    let first = outcome.accepted("s_axis_aw")[0].last_cycle;
    assert_eq!(outcome.accepted("s_axis_w")[0].last_cycle, first);
    assert_eq!(writes[0].first_cycle - first, 2, "from AWVALID and WVALID to BVALID");
    let apart = |cycles: Vec<u64>| cycles.windows(2).map(|pair| pair[1] - pair[0]).collect::<BTreeSet<_>>();
    let each = |received: &[spraynic_cosim::Received]| apart(received.iter().map(|one| one.first_cycle).collect());
    assert_eq!(each(reads), [5].into(), "clocks a read");
    assert_eq!(each(writes), [2].into(), "clocks a write");
}
