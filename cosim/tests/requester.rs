//! requester: golden model and RTL take the same responses, put the same bytes into memory and end the same READs and atomics.

#[path = "common/blocks.rs"]
mod blocks;
mod common;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use spraynic_config::descriptor::{
    CompletionStatus, Descriptor, ExpectedResponse, Extension, PacketContext, PayloadWrite, QueuePairState,
    ReceivedPacket, RequestExtension, ResponseDone, SendContext, SequencedPacket,
};
use spraynic_config::{NicConfig, Preset, Profile};
use spraynic_cosim::{Frame, Limits, Outcome, Pattern, Simulation, SinkChecks, Stimulus};
use spraynic_golden::requester::{Config, Requester, response_done};
use spraynic_rtl::Context;
use spraynic_wire::{NakCode, Opcode, Syndrome};

const QUEUE_PAIRS: u32 = 4;
const MTU_CODE: u8 = 1;
const MTU: u32 = 256;

fn config(width: u32, reads: u32) -> NicConfig {
    let mut config = NicConfig::preset(Preset::Lab);
    config.datapath.width_bits = width;
    config.queue_pairs.count = QUEUE_PAIRS;
    config.send.queue_pairs = QUEUE_PAIRS;
    config.send.reads = reads;
    config
}

fn simulation(width: u32, reads: u32) -> Simulation {
    let context = Context::new();
    let definition = spraynic_hdl::requester::requester(&context, &config(width, reads));
    blocks::simulation(&context, definition)
}

/// A response packet with its payload.
#[derive(Debug, Clone)]
struct Packet {
    qpn: u32,
    opcode: u8,
    psn: u32,
    length: u16,
    seed: u64,
}

impl Packet {
    fn payload(&self) -> Option<Frame> {
        (self.length > 0).then(|| Frame::new(blocks::bytes(self.length.into(), self.seed)))
    }

    /// Some AETH and AtomicAckETH.
    fn headers<const BYTES: usize>(&self) -> [u8; BYTES] {
        let bytes = blocks::bytes(BYTES, self.seed ^ 0x5555);
        bytes.try_into().unwrap_or([0; BYTES])
    }

    fn sequenced(&self) -> SequencedPacket {
        SequencedPacket {
            qpn: self.qpn,
            opcode: self.opcode,
            psn: self.psn,
            space: true,
            payload_length: self.length,
            extension: RequestExtension(self.headers()),
            ..SequencedPacket::default()
        }
    }

    fn received(&self) -> ReceivedPacket {
        ReceivedPacket {
            qpn: self.qpn,
            opcode: self.opcode,
            psn: self.psn,
            payload_length: self.length,
            extension: Extension(self.headers()),
            ..ReceivedPacket::default()
        }
    }
}

/// All that the block gets, in the order of each port.
#[derive(Debug, Clone)]
struct Given {
    contexts: Vec<SendContext>,
    expected: Vec<ExpectedResponse>,
    solar: Vec<Packet>,
    roce: Vec<Packet>,
    written: Vec<PayloadWrite>,
    patterns: [Pattern; 10],
}

fn run(simulation: &mut Simulation, given: &Given) -> Result<Outcome, TestCaseError> {
    let [
        contexts,
        expected,
        solar,
        solar_payload,
        roce,
        roce_payload,
        written,
        writes,
        payload,
        done,
    ] = given.patterns.clone();
    let words = |packets: &[Packet], pack: fn(&Packet) -> Vec<u8>| {
        packets
            .iter()
            .map(|packet| Frame::new(pack(packet)))
            .collect::<Vec<_>>()
    };
    let feedback = |packet: &Packet| [packet.received().pack(), PacketContext::default().pack()].concat();
    let stimulus = Stimulus::default()
        .source(
            "s_axis_context",
            contexts,
            given.contexts.iter().map(|one| Frame::new(one.pack())),
        )
        .source(
            "s_axis_expected",
            expected,
            given.expected.iter().map(|one| Frame::new(one.pack())),
        )
        .source("s_axis", solar, words(&given.solar, |packet| packet.sequenced().pack()))
        .source(
            "s_axis_payload",
            solar_payload,
            given.solar.iter().filter_map(Packet::payload),
        )
        .source("s_axis_feedback", roce, words(&given.roce, feedback))
        .source(
            "s_axis_feedback_payload",
            roce_payload,
            given.roce.iter().filter_map(Packet::payload),
        )
        .source(
            "s_axis_written",
            written,
            given.written.iter().map(|one| Frame::new(one.pack())),
        )
        .sink("m_axis", writes, SinkChecks::default())
        .sink("m_axis_payload", payload, SinkChecks::default())
        .sink("m_axis_response_done", done, SinkChecks::default());
    Ok(spraynic_cosim::run(simulation, &stimulus, Limits::default())?)
}

/// The golden model takes what the RTL took, in its order.
fn check(width: u32, reads: u32, given: &Given) -> Result<Outcome, TestCaseError> {
    let outcome = run(&mut simulation(width, reads), given)?;
    let ports = ["s_axis_context", "s_axis_expected", "s_axis", "s_axis_feedback"];
    let mut events = Vec::new();
    for (port, name) in ports.iter().enumerate() {
        let accepted = outcome.accepted(name).iter().enumerate();
        events.extend(accepted.map(|(index, timing)| (timing.last_cycle, port, index)));
    }
    events.sort_unstable();
    let all = given.contexts.len() + given.expected.len() + given.solar.len() + given.roce.len();
    prop_assert_eq!(events.len(), all, "everything is accepted");
    let mut model = Requester::new(Config::from(&config(width, reads)));
    let (mut writes, mut payloads) = (Vec::new(), Vec::new());
    for (_, port, index) in events {
        let (taken, packet) = match port {
            0 => {
                model.write_context(&given.contexts[index]);
                continue;
            }
            1 => {
                model.expect(&given.expected[index]);
                continue;
            }
            2 => (model.response(&given.solar[index].sequenced()), &given.solar[index]),
            _ => (model.feedback(&given.roce[index].received()), &given.roce[index]),
        };
        if let Some(taken) = taken {
            writes.push(taken.write);
            if taken.write.length > 0 {
                let payload = packet.payload().map_or_else(Vec::new, |frame| frame.data);
                payloads.push(taken.original.map_or(payload, |bytes| bytes.to_vec()));
            }
        }
    }
    let received = outcome.received("m_axis");
    let received: Vec<_> = received.iter().map(|word| PayloadWrite::unpack(&word.data)).collect();
    prop_assert_eq!(received, writes);
    let received = outcome
        .received("m_axis_payload")
        .iter()
        .map(|frame| frame.data.clone());
    prop_assert_eq!(received.collect::<Vec<_>>(), payloads);
    let done = outcome.received("m_axis_response_done").iter();
    let done: Vec<_> = done.map(|word| ResponseDone::unpack(&word.data)).collect();
    prop_assert_eq!(done, given.written.iter().map(response_done).collect::<Vec<_>>());
    let counters = model.counters();
    let named = [
        ("packets", counters.packets),
        ("done", counters.done),
        ("failed", counters.failed),
        ("drop_sequence", counters.drop_sequence),
        ("drop_unexpected", counters.drop_unexpected),
        ("drop_expected", counters.drop_expected),
    ];
    prop_assert_eq!(outcome.counters.len(), named.len(), "every counter is compared");
    for (name, value) in named {
        prop_assert_eq!(outcome.counters[name], u64::from(value), "count_{}", name);
    }
    Ok(outcome)
}

fn context(qpn: u32, profile: Profile, state: QueuePairState) -> SendContext {
    SendContext {
        qpn,
        profile: profile.code(),
        mtu: MTU_CODE,
        state: state as u8,
        ..SendContext::default()
    }
}

/// Queue pairs 0 and 1 are of roce, 2 and 3 of solar.
fn profile_of(qpn: u32) -> Profile {
    if qpn < 2 { Profile::Roce } else { Profile::Solar }
}

fn opcode_of(index: u32, count: u32) -> Opcode {
    match (index == 0, index + 1 == count) {
        (true, true) => Opcode::READ_RESPONSE_ONLY,
        (true, false) => Opcode::READ_RESPONSE_FIRST,
        (false, false) => Opcode::READ_RESPONSE_MIDDLE,
        (false, true) => Opcode::READ_RESPONSE_LAST,
    }
}

/// Requests of all queue pairs, and their responses; some of these are repeated, left out or changed.
fn given() -> impl Strategy<Value = Given> {
    // Many responses of one beat, so that they come one behind the other.
    let length = prop_oneof![0..1500u32, 0..9u32];
    let request = (0..QUEUE_PAIRS, any::<bool>(), length, any::<u8>(), any::<u32>());
    let fault = prop_oneof![20 => Just(0u8), 1 => 1..6u8];
    let requests = prop::collection::vec((request, prop::collection::vec(fault, 8)), 1..24);
    let late = prop::collection::vec((0..QUEUE_PAIRS + 1, 0..5usize, 0..8u8, 0..4u8), 0..4);
    let written = prop::collection::vec((any::<u32>(), any::<u8>(), 0..7u8, any::<bool>()), 0..10);
    let patterns = prop::collection::vec(Pattern::strategy(), 10);
    (requests, late, written, patterns).prop_map(|(requests, late, written, patterns)| {
        let mut contexts: Vec<_> = (0..QUEUE_PAIRS)
            .map(|qpn| context(qpn, profile_of(qpn), QueuePairState::ReadyToSend))
            .collect();
        contexts.extend(late.into_iter().map(|(qpn, state, mtu, profile)| SendContext {
            mtu,
            profile,
            ..context(qpn, Profile::Roce, QueuePairState::ALL[state])
        }));
        let mut psns = [0xFF_FFF8u32; QUEUE_PAIRS as usize];
        let first_opcode = Opcode::READ_RESPONSE_FIRST.0;
        let (mut expected, mut solar, mut roce) = (Vec::new(), Vec::new(), Vec::new());
        for ((qpn, atomic, length, slot, seed), faults) in requests {
            let first = psns[qpn as usize];
            let length = if atomic { 8 } else { length };
            expected.push(ExpectedResponse {
                qpn,
                slot,
                psn: first & 0xFF_FFFF,
                atomic,
                address: u64::from(seed) << 8,
                length,
                ..ExpectedResponse::default()
            });
            let count = if atomic { 1 } else { length.div_ceil(MTU).max(1) };
            psns[qpn as usize] += count;
            let packets = if profile_of(qpn) == Profile::Roce {
                &mut roce
            } else {
                &mut solar
            };
            for index in 0..count {
                let mut packet = Packet {
                    qpn,
                    opcode: if atomic {
                        Opcode::ATOMIC_ACKNOWLEDGE.0
                    } else {
                        opcode_of(index, count).0
                    },
                    psn: (first + index) & 0xFF_FFFF,
                    length: if atomic {
                        0
                    } else {
                        (length - index * MTU).min(MTU) as u16
                    },
                    seed: u64::from(seed) + u64::from(index),
                };
                match faults[index as usize % 8] {
                    1 => packet.length += 1,
                    // Another response: feedback of other kinds has no payload.
                    2 if atomic => packet.opcode = Opcode::READ_RESPONSE_ONLY.0,
                    2 => packet.opcode = first_opcode + ((packet.opcode - first_opcode) ^ 3),
                    3 => packet.psn ^= 1,
                    4 => packet.qpn = (packet.qpn + 1) % (QUEUE_PAIRS + 1),
                    5 => packets.push(packet.clone()),
                    _ => {}
                }
                packets.push(packet);
            }
        }
        // Feedback that is no response.
        roce.insert(
            roce.len() / 2,
            Packet {
                qpn: 0,
                opcode: Opcode::ACKNOWLEDGE.0,
                psn: 5,
                length: 0,
                seed: 1,
            },
        );
        let written = written.into_iter().map(|(qpn, slot, status, refused)| {
            let ack = if refused {
                Syndrome::Nak(NakCode::RemoteOperationalError)
            } else {
                Syndrome::ACK
            };
            PayloadWrite {
                qpn: qpn & 0xFF_FFFF,
                cookie: slot.into(),
                status,
                syndrome: ack.byte(),
                answer: true,
                ..PayloadWrite::default()
            }
        });
        Given {
            contexts,
            expected,
            solar,
            roce,
            written: written.collect(),
            patterns: patterns
                .try_into()
                .unwrap_or_else(|_| std::array::from_fn(|_| Pattern::Always)),
        }
    })
}

proptest! {
    #![proptest_config(common::config(200, "requester"))]

    #[test]
    fn rtl_equals_the_golden_model(given in given(), size in 0..3usize) {
        if !common::have_verilator() {
            return Ok(());
        }
        let (width, reads) = [(64, 4), (512, 1), (64, 16)][size];
        check(width, reads, &given)?;
    }
}

/// Packets come when all that is to be expected has been.
fn quiet(expected: Vec<ExpectedResponse>, solar: Vec<Packet>) -> Given {
    let mut patterns: [Pattern; 10] = std::array::from_fn(|_| Pattern::Always);
    for packets in [2, 4] {
        patterns[packets] = Pattern::After { clocks: 100 };
    }
    Given {
        contexts: (0..QUEUE_PAIRS)
            .map(|qpn| context(qpn, profile_of(qpn), QueuePairState::ReadyToSend))
            .collect(),
        expected,
        solar,
        roce: vec![],
        written: vec![],
        patterns,
    }
}

/// A READ of `packets` packets of one MTU for a solar queue pair.
fn long_read(packets: u32) -> Given {
    let expected = ExpectedResponse {
        qpn: 2,
        length: packets * MTU,
        ..ExpectedResponse::default()
    };
    let packet = |index| Packet {
        qpn: 2,
        opcode: opcode_of(index, packets).0,
        psn: 0,
        length: MTU as u16,
        seed: index.into(),
    };
    quiet(vec![expected], (0..packets).map(packet).collect())
}

#[test]
fn payload_moves_a_beat_a_clock() {
    if !common::have_verilator() {
        return;
    }
    // 256 bytes: 32 beats of 64 bits, 4 of 512.
    for (width, beats) in [(64, 32), (512, 4)] {
        let outcome = check(width, if width == 64 { 4 } else { 1 }, &long_read(40)).unwrap();
        let frames = outcome.received("m_axis_payload");
        let clocks = frames[39].last_cycle - frames[0].first_cycle + 1;
        assert_eq!(clocks, 40 * beats);
    }
}

/// Responses of one packet of 8 bytes, a beat, which come in turn for queue pairs from `first` on: READs, or atomics.
fn small(first: u32, queue_pairs: u32, count: u32, atomic: bool) -> Given {
    let expected = (0..count).map(|number| ExpectedResponse {
        qpn: first + number % queue_pairs,
        slot: number as u8,
        psn: number / queue_pairs,
        atomic,
        length: 8,
        ..ExpectedResponse::default()
    });
    let opcode = if atomic {
        Opcode::ATOMIC_ACKNOWLEDGE
    } else {
        Opcode::READ_RESPONSE_ONLY
    };
    let packet = |number: u32| Packet {
        qpn: first + number % queue_pairs,
        opcode: opcode.0,
        psn: number / queue_pairs,
        length: if atomic { 0 } else { 8 },
        seed: number.into(),
    };
    let packets: Vec<Packet> = (0..count).map(packet).collect();
    let mut given = quiet(expected.collect(), packets);
    if profile_of(first) == Profile::Roce {
        std::mem::swap(&mut given.solar, &mut given.roce);
    }
    given
}

#[test]
fn a_packet_of_solar_is_taken_in_each_clock() {
    if !common::have_verilator() {
        return;
    }
    for (queue_pairs, atomic) in [(1, false), (2, false), (1, true)] {
        let given = small(2, queue_pairs, 16 * queue_pairs, atomic);
        let outcome = check(64, 16, &given).unwrap();
        let taken = outcome.accepted("s_axis");
        let writes = outcome.received("m_axis");
        let payload = outcome.received("m_axis_payload");
        let last = given.solar.len() - 1;
        assert_eq!(outcome.counters["done"], last as u64 + 1);
        for (name, first, end) in [
            ("s_axis", taken[0].last_cycle, taken[last].last_cycle),
            ("m_axis", writes[0].last_cycle, writes[last].last_cycle),
            ("m_axis_payload", payload[0].last_cycle, payload[last].last_cycle),
        ] {
            assert_eq!(end - first, last as u64, "{name}: clocks of {last} packets");
        }
        assert_eq!(writes[0].last_cycle - taken[0].last_cycle, 8, "latency");
    }
}

#[test]
fn behind_the_end_of_a_read_of_roce_its_queue_pair_waits_for_four_clocks() {
    if !common::have_verilator() {
        return;
    }
    for (queue_pairs, clocks) in [(1, 4), (2, 2)] {
        let given = small(0, queue_pairs, 16 * queue_pairs, true);
        let outcome = check(64, 16, &given).unwrap();
        let writes = outcome.received("m_axis");
        let last = given.roce.len() - queue_pairs as usize;
        let taken = writes[last].last_cycle - writes[0].last_cycle;
        assert_eq!(taken, last as u64 * clocks, "{queue_pairs} queue pairs");
    }
    // Within a READ: a packet a clock, as far as there is room for decisions on payload that has not left.
    let mut given = long_read(8);
    std::mem::swap(&mut given.solar, &mut given.roce);
    given.expected[0].qpn = 0;
    for (psn, packet) in (0..).zip(&mut given.roce) {
        (packet.qpn, packet.psn) = (0, psn);
    }
    let outcome = check(64, 16, &given).unwrap();
    let taken = outcome.accepted("s_axis_feedback");
    assert_eq!(taken[7].last_cycle - taken[0].last_cycle, 7);
    assert_eq!(outcome.counters["packets"], 8);
}

#[test]
fn every_way_to_end_is_met_by_the_random_responses() {
    if !common::have_verilator() {
        return;
    }
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut sums = std::collections::BTreeMap::<String, u64>::new();
    for _ in 0..40 {
        let given = given().new_tree(&mut runner).unwrap().current();
        let outcome = check(64, 4, &given).unwrap();
        for (name, value) in outcome.counters {
            *sums.entry(name).or_default() += value;
        }
        let refused = given.written.iter().map(response_done);
        let refused = refused.filter(|done| done.status == CompletionStatus::LocalMemory as u8);
        *sums.entry("refused by memory".to_owned()).or_default() += refused.count() as u64;
    }
    for (name, sum) in sums {
        assert!(sum > 2, "{name}: {sum}");
    }
}
