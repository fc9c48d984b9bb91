//! axi_write_master: golden model and RTL give the same bursts, and report the same writes, however slow memory is.

#[path = "common/blocks.rs"]
mod blocks;
mod common;
#[path = "common/memory.rs"]
mod memory;

use proptest::prelude::*;
use spraynic_config::descriptor::Descriptor;
use spraynic_cosim::{Answer, Bench, Frame, Limits, Outcome, Pattern, Received, Simulation, SinkChecks, Stimulus};
use spraynic_golden::axi_write_master::{AxiWriteMaster, Burst, BurstResponse, Config};
use spraynic_golden::payload_writer::AlignedWrite;
use spraynic_rtl::Context;

/// Width of the bus and bursts that may be outstanding.
const SIZES: [(u32, u32); 4] = [(64, 16), (128, 64), (512, 256), (1024, 16)];

fn simulation((width, outstanding): (u32, u32)) -> Simulation {
    let context = Context::new();
    let master = spraynic_hdl::axi_write_master::build(&context, width, outstanding);
    blocks::simulation(&context, memory::axi_write_master_bench(&context, master, width))
}

/// Memory behind AXI4: answers a burst some time after its address and its last W beat.
struct Memory {
    latency: u64,
    jitter: u64,
    /// One burst in so many is refused; 0: none.
    refuses_one_in: u64,
    /// Bursts whose address, and whose data, came.
    addresses: usize,
    data: usize,
    responses: Vec<BurstResponse>,
    random: u64,
}

impl Memory {
    fn new(latency: u64, jitter: u64, refuses_one_in: u64) -> Self {
        Self {
            latency,
            jitter,
            refuses_one_in,
            addresses: 0,
            data: 0,
            responses: Vec::new(),
            random: 1,
        }
    }

    fn next(&mut self) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }

    fn on_frame(&mut self, answer: &mut Answer<'_>, stream: &str) -> Result<(), String> {
        match stream {
            "m_axis_aw" => self.addresses += 1,
            "m_axis_w" => self.data += 1,
            _ => {}
        }
        // AXI lets data go before their address: memory answers when it has both.
        while self.responses.len() < self.addresses.min(self.data) {
            let refuses = self.refuses_one_in > 0 && self.next().is_multiple_of(self.refuses_one_in);
            let response = match (refuses, self.next() & 1) {
                (false, 0) => BurstResponse::Okay,
                (false, _) => BurstResponse::ExclusiveOkay,
                (true, 0) => BurstResponse::SlaveError,
                (true, _) => BurstResponse::DecodeError,
            };
            self.responses.push(response);
            let not_before = answer.cycle + self.latency + self.next() % (self.jitter + 1);
            let response = Frame {
                not_before,
                ..Frame::new([response as u8])
            };
            answer.send("s_axis_b", response).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// Gaps of writes, data and responses; back-pressure of AW, W and reports.
#[derive(Debug, Clone, Default)]
struct Patterns {
    gaps: [Pattern; 3],
    pressure: [Pattern; 3],
}

fn patterns() -> impl Strategy<Value = Patterns> {
    let three = || [Pattern::strategy(), Pattern::strategy(), Pattern::strategy()];
    (three(), three()).prop_map(|(gaps, pressure)| Patterns { gaps, pressure })
}

fn writes(beat_bytes: usize) -> impl Strategy<Value = Vec<AlignedWrite>> {
    let write = (memory::address(), memory::length(), any::<u64>())
        .prop_map(move |(address, length, seed)| AlignedWrite::new(address, &blocks::bytes(length, seed), beat_bytes));
    prop::collection::vec(write, 1..40)
}

fn run(size: (u32, u32), writes: &[AlignedWrite], patterns: &Patterns, memory: &mut Memory) -> Outcome {
    let [write_gaps, data_gaps, response_gaps] = patterns.gaps.clone();
    let [address_stalls, data_stalls, written_stalls] = patterns.pressure.clone();
    let recorded = SinkChecks {
        record_beats: true,
        ..SinkChecks::default()
    };
    let data = writes.iter().map(|write| Frame::new(memory::beat_bytes(&write.beats)));
    let stimulus = Stimulus::default()
        .source(
            "s_axis_write",
            write_gaps,
            writes.iter().map(|write| Frame::new(write.write.pack())),
        )
        .source("s_axis_write_data", data_gaps, data)
        .source("s_axis_b", response_gaps, [])
        .sink("m_axis_aw", address_stalls, SinkChecks::default())
        .sink("m_axis_w", data_stalls, recorded)
        .sink("m_axis_written", written_stalls, SinkChecks::default());
    let mut agent = |answer: &mut Answer<'_>, stream: &str, _: &Received| memory.on_frame(answer, stream);
    let mut simulation = simulation(size);
    let limits = Limits {
        quiet_clocks: 1000,
        ..Limits::default()
    };
    let mut bench = Bench::new(&mut simulation, &stimulus, limits).unwrap_or_else(|error| panic!("{error}"));
    bench.run(&mut agent).unwrap_or_else(|error| panic!("{error}"))
}

fn check(
    size: (u32, u32),
    writes: &[AlignedWrite],
    patterns: &Patterns,
    mut memory: Memory,
) -> Result<Outcome, TestCaseError> {
    let beat_bytes = size.0 as usize / 8;
    let outcome = run(size, writes, patterns, &mut memory);
    let mut model = AxiWriteMaster::new(Config { beat_bytes });
    let expected: Vec<Burst> = writes.iter().flat_map(|write| model.write(write)).collect();
    let (addresses, data) = (outcome.received("m_axis_aw"), outcome.received("m_axis_w"));
    prop_assert_eq!(
        (addresses.len(), data.len()),
        (expected.len(), expected.len()),
        "bursts"
    );
    for (place, ((address, data), expected)) in addresses.iter().zip(data).zip(&expected).enumerate() {
        let given = u64::from_le_bytes(address.data[..8].try_into().expect("8 bytes"));
        prop_assert_eq!(given, expected.address, "AWADDR of burst {}", place);
        prop_assert_eq!(
            usize::from(address.data[8]) + 1,
            expected.beats.len(),
            "AWLEN of burst {}",
            place
        );
        prop_assert_eq!(
            &memory::beats(&data.data, beat_bytes),
            &expected.beats,
            "data of burst {}",
            place
        );
    }
    let reports: Vec<u8> = memory
        .responses
        .iter()
        .filter_map(|response| model.respond(*response))
        .map(u8::from)
        .collect();
    let given: Vec<u8> = outcome
        .received("m_axis_written")
        .iter()
        .map(|report| report.data[0])
        .collect();
    prop_assert_eq!(given, reports, "reports");
    let counters = model.counters();
    let named = [
        ("writes", counters.writes),
        ("bursts", counters.bursts),
        ("slave_errors", counters.slave_errors),
        ("decode_errors", counters.decode_errors),
    ];
    prop_assert_eq!(outcome.counters.len(), named.len(), "every counter is compared");
    for (name, value) in named {
        prop_assert_eq!(outcome.counters[name], u64::from(value), "count_{}", name);
    }
    Ok(outcome)
}

fn case() -> impl Strategy<Value = ((u32, u32), Vec<AlignedWrite>)> {
    prop::sample::select(SIZES.to_vec()).prop_flat_map(|size| (Just(size), writes(size.0 as usize / 8)))
}

proptest! {
    #![proptest_config(common::config(60, "axi_write_master"))]
    #[test]
    fn bursts_and_reports_equal_the_golden_model(
        (size, writes) in case(),
        patterns in patterns(),
        (latency, jitter, refuses) in (0..memory::LATENCY, 0u64..60, prop_oneof![Just(0u64), 2u64..10]),
    ) {
        if common::have_verilator() {
            check(size, &writes, &patterns, Memory::new(latency, jitter, refuses))?;
        }
    }
}

/// A W beat in each clock from the first to the last, with memory 1 us away, though every burst is as short as it can be; and the first beat as
/// soon as documented.
#[test]
fn one_beat_a_clock_and_bursts_back_to_back() {
    if !common::have_verilator() {
        return;
    }
    for (width, length) in [
        (64, 8),
        (64, 4096),
        (128, 16),
        (128, 1024),
        (512, 64),
        (512, 4096),
        (1024, 128),
        (1024, 130),
    ] {
        let size = (width, 1024);
        // Just before 4 KiB: the long ones are two bursts.
        let count = (4000 * width as usize / 8 / length).min(1000);
        let writes: Vec<_> = (1..=count as u64)
            .map(|page| {
                AlignedWrite::new(
                    page * 4096 - u64::from(width / 8),
                    &blocks::bytes(length, page),
                    width as usize / 8,
                )
            })
            .collect();
        let outcome = check(size, &writes, &Patterns::default(), Memory::new(memory::LATENCY, 16, 0)).unwrap();
        let beats = outcome.beat_cycles("m_axis_w");
        assert_eq!(beats.len(), writes.iter().map(|write| write.beats.len()).sum::<usize>());
        let clocks = beats[beats.len() - 1] - beats[0] + 1;
        println!("{width} bits, {length} bytes: {} beats in {clocks} clocks", beats.len());
        assert_eq!(clocks, beats.len() as u64, "{width} bits, writes of {length} bytes");
        let taken = outcome.accepted("s_axis_write")[0].last_cycle;
        let latencies = (outcome.received("m_axis_aw")[0].first_cycle - taken, beats[0] - taken);
        assert_eq!(
            latencies,
            (2, 4),
            "clocks from a write to AWVALID and WVALID, as documented"
        );
        let response = outcome.accepted("s_axis_b")[0].last_cycle;
        if outcome.received("m_axis_aw").len() == writes.len() {
            assert_eq!(
                outcome.received("m_axis_written")[0].first_cycle - response,
                1,
                "clocks from BVALID to the report"
            );
        }
    }
}
