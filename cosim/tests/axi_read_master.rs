//! axi_read_master: golden model and RTL ask for the same bursts and give the same packets, however slow memory is.

#[path = "common/blocks.rs"]
mod blocks;
mod common;
#[path = "common/memory.rs"]
mod memory;

use proptest::prelude::*;
use spraynic_config::descriptor::{Descriptor, PayloadRequest};
use spraynic_cosim::{Answer, Bench, Frame, Limits, Outcome, Pattern, Received, Simulation, SinkChecks, Stimulus};
use spraynic_golden::axi_read_master::{AxiReadMaster, Config, Payload, ReadBurst};
use spraynic_golden::axi_write_master::BurstResponse;
use spraynic_rtl::Context;

/// Width of the bus and requests that may be outstanding.
const SIZES: [(u32, u32); 4] = [(64, 16), (128, 64), (512, 64), (1024, 4)];

fn simulation((width, outstanding): (u32, u32)) -> Simulation {
    let context = Context::new();
    let master = spraynic_hdl::axi_read_master::build(&context, width, outstanding);
    blocks::simulation(&context, memory::axi_read_master_bench(&context, master, width))
}

/// What memory holds at an address.
fn byte(address: u64) -> u8 {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Memory behind AXI4: gives the beats of a burst some time after its address.
struct Memory {
    beat_bytes: usize,
    latency: u64,
    jitter: u64,
    /// One beat in so many is refused; 0: none.
    refuses_one_in: u64,
    /// What was given, beat by beat.
    given: Vec<(Vec<u8>, BurstResponse)>,
    random: u64,
}

impl Memory {
    fn new((width, _): (u32, u32), latency: u64, jitter: u64, refuses_one_in: u64) -> Self {
        Self {
            beat_bytes: width as usize / 8,
            latency,
            jitter,
            refuses_one_in,
            given: Vec::new(),
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

    fn on_frame(&mut self, answer: &mut Answer<'_>, stream: &str, frame: &Received) -> Result<(), String> {
        if stream != "m_axis_ar" {
            return Ok(());
        }
        let address = u64::from_le_bytes(frame.data[..8].try_into().map_err(|_| "a short AR")?);
        let not_before = answer.cycle + self.latency + self.next() % (self.jitter + 1);
        for beat in 0..=u64::from(frame.data[8]) {
            let from = address + beat * self.beat_bytes as u64;
            let data: Vec<u8> = (0..self.beat_bytes as u64).map(|at| byte(from + at)).collect();
            let refuses = self.refuses_one_in > 0 && self.next().is_multiple_of(self.refuses_one_in);
            let response = match (refuses, self.next() & 1) {
                (false, 0) => BurstResponse::Okay,
                (false, _) => BurstResponse::ExclusiveOkay,
                (true, 0) => BurstResponse::SlaveError,
                (true, _) => BurstResponse::DecodeError,
            };
            let beat = Frame {
                not_before,
                ..Frame::new([&data[..], &[response as u8]].concat())
            };
            answer.send("s_axis_r", beat).map_err(|error| error.to_string())?;
            self.given.push((data, response));
        }
        Ok(())
    }
}

/// Gaps of requests and data; back-pressure of AR and packets.
#[derive(Debug, Clone, Default)]
struct Patterns {
    gaps: [Pattern; 2],
    pressure: [Pattern; 2],
}

fn patterns() -> impl Strategy<Value = Patterns> {
    let two = || [Pattern::strategy(), Pattern::strategy()];
    (two(), two()).prop_map(|(gaps, pressure)| Patterns { gaps, pressure })
}

fn requests() -> impl Strategy<Value = Vec<PayloadRequest>> {
    let request =
        (memory::address(), memory::length(), any::<u32>()).prop_map(|(address, length, local_key)| PayloadRequest {
            local_key,
            length: length as u16,
            address,
            ..PayloadRequest::default()
        });
    prop::collection::vec(request, 1..40)
}

fn check(
    size: (u32, u32),
    requests: &[PayloadRequest],
    patterns: &Patterns,
    mut memory: Memory,
) -> Result<Outcome, TestCaseError> {
    let [request_gaps, data_gaps] = patterns.gaps.clone();
    let [address_stalls, packet_stalls] = patterns.pressure.clone();
    let recorded = SinkChecks {
        record_beats: true,
        ..SinkChecks::default()
    };
    let stimulus = Stimulus::default()
        .source(
            "s_axis_payload_request",
            request_gaps,
            requests.iter().map(|request| Frame::new(request.pack())),
        )
        .source("s_axis_r", data_gaps, [])
        .sink("m_axis_ar", address_stalls, SinkChecks::default())
        .sink("m_axis_payload", packet_stalls, recorded);
    let limits = Limits {
        quiet_clocks: 1000,
        ..Limits::default()
    };
    let mut simulation = simulation(size);
    let mut agent = |answer: &mut Answer<'_>, stream: &str, frame: &Received| memory.on_frame(answer, stream, frame);
    let mut bench = Bench::new(&mut simulation, &stimulus, limits).unwrap_or_else(|error| panic!("{error}"));
    let outcome = bench.run(&mut agent).unwrap_or_else(|error| panic!("{error}"));
    drop(bench);

    let config = Config {
        beat_bytes: size.0 as usize / 8,
    };
    let mut model = AxiReadMaster::new(config);
    let expected: Vec<ReadBurst> = requests.iter().flat_map(|request| model.request(request)).collect();
    let given = outcome.received("m_axis_ar").iter().map(|address| ReadBurst {
        address: u64::from_le_bytes(address.data[..8].try_into().expect("8 bytes")),
        beats: u32::from(address.data[8]) + 1,
    });
    prop_assert_eq!(given.collect::<Vec<_>>(), expected, "bursts");
    let packets: Vec<Payload> = memory
        .given
        .iter()
        .filter_map(|(data, response)| model.beat(data, *response))
        .collect();
    let received = outcome.received("m_axis_payload");
    prop_assert_eq!(received.len(), requests.len(), "packets");
    prop_assert_eq!(packets.len(), requests.len(), "packets of the model");
    for (place, ((packet, received), request)) in packets.iter().zip(received).zip(requests).enumerate() {
        prop_assert_eq!(received.user, u64::from(packet.refused), "tuser of packet {}", place);
        prop_assert_eq!(
            received.data.len(),
            packet.given_length(config),
            "length of packet {}",
            place
        );
        let asked = (0..u64::from(request.length)).map(|at| byte(request.address.wrapping_add(at)));
        prop_assert_eq!(&packet.data, &asked.collect::<Vec<_>>(), "model, packet {}", place);
        if !packet.refused {
            prop_assert_eq!(&received.data, &packet.data, "packet {}", place);
        }
    }
    let counters = model.counters();
    let named = [
        ("requests", counters.requests),
        ("bursts", counters.bursts),
        ("refused", counters.refused),
        ("slave_errors", counters.slave_errors),
        ("decode_errors", counters.decode_errors),
    ];
    prop_assert_eq!(outcome.counters.len(), named.len(), "every counter is compared");
    for (name, value) in named {
        prop_assert_eq!(outcome.counters[name], u64::from(value), "count_{}", name);
    }
    Ok(outcome)
}

proptest! {
    #![proptest_config(common::config(60, "axi_read_master"))]
    #[test]
    fn bursts_and_packets_equal_the_golden_model(
        size in prop::sample::select(SIZES.to_vec()),
        requests in requests(),
        patterns in patterns(),
        (latency, jitter, refuses) in (0..memory::LATENCY, 0u64..60, prop_oneof![Just(0u64), 2u64..10, 50u64..100]),
    ) {
        if common::have_verilator() {
            let memory = Memory::new(size, latency, jitter, refuses);
            check(size, &requests, &patterns, memory)?;
        }
    }
}

/// Every place in the first beat with every place in the last one.
#[test]
fn every_alignment_of_every_short_length() {
    if !common::have_verilator() {
        return;
    }
    let size = (64, 16);
    let lengths = (1u16..=26).chain([4095, 4096]);
    let requests: Vec<PayloadRequest> = lengths
        .flat_map(|length| {
            (0..8).map(move |offset| PayloadRequest {
                length,
                address: 0x1_0000 + 37 * 8 * u64::from(length) + offset,
                ..PayloadRequest::default()
            })
        })
        .collect();
    check(size, &requests, &Patterns::default(), Memory::new(size, 20, 0, 0)).unwrap();
}

/// An R beat in each clock from the first to the last, with memory 1 us away; where packets begin at byte 0, a beat of payload in each clock too. And the
/// first beat as soon as documented.
#[test]
fn one_beat_a_clock_and_packets_back_to_back() {
    if !common::have_verilator() {
        return;
    }
    for (width, length, offset) in [
        (64, 8, 0),
        (64, 4096, 0),
        (128, 16, 0),
        (128, 1024, 5),
        (512, 64, 0),
        (512, 100, 60),
        (512, 4096, 0),
        (512, 4096, 1),
        (1024, 4096, 0),
    ] {
        let beat = u64::from(width / 8);
        let span = (offset + u64::from(length)).div_ceil(beat);
        // Enough requests to cover memory's latency, whatever the length.
        let size = (width, 512);
        let count = (4000 / span).clamp(20, 1000);
        let requests: Vec<PayloadRequest> = (1..=count)
            .map(|page| PayloadRequest {
                length,
                address: page * 8192 + offset,
                ..PayloadRequest::default()
            })
            .collect();
        let memory = Memory::new(size, memory::LATENCY, 0, 0);
        let outcome = check(size, &requests, &Patterns::default(), memory).unwrap();
        let taken = outcome.accepted("s_axis_r");
        let clocks = taken[taken.len() - 1].last_cycle - taken[0].first_cycle + 1;
        println!(
            "{width} bits, {length} bytes at {offset}: {} beats in {clocks} clocks",
            taken.len()
        );
        assert_eq!(taken.len() as u64, count * span);
        assert_eq!(
            clocks,
            taken.len() as u64,
            "{width} bits, requests of {length} bytes at {offset}"
        );
        let beats = outcome.beat_cycles("m_axis_payload");
        if offset == 0 {
            assert_eq!(
                beats[beats.len() - 1] - beats[0] + 1,
                beats.len() as u64,
                "beats of payload"
            );
        }
        let asked = outcome.accepted("s_axis_payload_request")[0].last_cycle;
        let latencies = (
            outcome.received("m_axis_ar")[0].first_cycle - asked,
            beats[0] - taken[0].first_cycle,
        );
        assert_eq!(
            latencies,
            (2, 5),
            "clocks from a request to ARVALID, from RVALID to the packet"
        );
    }
}
