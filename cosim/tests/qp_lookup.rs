//! qp_lookup: golden model and RTL give the same packets, payload, contexts and counters, on the same ports.

#[path = "common/blocks.rs"]
mod blocks;
mod common;
#[path = "qp_lookup/given.rs"]
mod given;

use given::{Given, PEERS, given, passes, payload_of};
use proptest::prelude::*;
use spraynic_config::descriptor::{Descriptor, QueuePairContext, QueuePairState, ReceivedPacket};
use spraynic_config::{NicConfig, Preset, Profile};
use spraynic_cosim::{Frame, Limits, Outcome, Pattern, Received, Simulation, SinkChecks, Stimulus};
use spraynic_golden::qp_lookup::{Config, Counters, QpLookup};
use spraynic_rtl::Context;

const ROUTES: [&str; 4] = ["m_axis_sequence", "m_axis_feedback", "m_axis_probe", "m_axis_endpoint"];
const PAYLOADS: [&str; 2] = ["m_axis_sequence_payload", "m_axis_feedback_payload"];
const CONTEXT: &str = "m_axis_context";

/// The configurations under test: everything but solar for each queue pair, and two that lack profiles, MTUs and IPv6; tables of
/// 16, 2 and 64 queue pairs, payload of 512, 64 and 1024 bits.
fn config(index: usize) -> NicConfig {
    let mut config = NicConfig::preset(Preset::G100);
    (config.queue_pairs.count, config.datapath.width_bits) = [(16, 512), (2, 64), (64, 1024)][index];
    match index {
        0 => config.receive.reorder_queue_pairs = 4,
        1 => {
            config.wire.profiles = [Profile::Roce].into();
            config.wire.max_mtu = 1024;
            config.wire.ipv6 = false;
        }
        _ => config.wire.profiles = [Profile::Mrc, Profile::Solar].into(),
    }
    config
}

fn simulation(index: usize) -> Simulation {
    let context = Context::new();
    blocks::simulation(&context, spraynic_hdl::qp_lookup::qp_lookup(&context, &config(index)))
}

/// Gaps of contexts, packets, payload and what passed; stalls of the four ports, of their payload, and of the contexts passed on.
#[derive(Debug, Clone, Default)]
struct Patterns {
    gaps: [Pattern; 4],
    stalls: [Pattern; 7],
}

impl Patterns {
    fn strategy() -> impl Strategy<Value = Self> {
        let gaps = [(); 4].map(|()| Pattern::strategy());
        let stalls = [(); 7].map(|()| prop_oneof![Just(Pattern::Always), Pattern::strategy()]);
        (gaps, stalls).prop_map(|(gaps, stalls)| Self { gaps, stalls })
    }

    /// Everything flows, and no packet comes before the table is cleared and the contexts are written.
    fn contexts_first() -> Self {
        let late = Pattern::After { clocks: 100 };
        Self {
            gaps: [Pattern::Always, late.clone(), late.clone(), late],
            ..Self::default()
        }
    }
}

fn run(simulation: &mut Simulation, given: &Given, patterns: &Patterns) -> Result<Outcome, TestCaseError> {
    let [contexts, packets, payload, passed] = patterns.gaps.clone();
    let payloads = given.packets.iter().enumerate().filter(|(_, packet)| passes(packet));
    let mut stimulus = Stimulus::default()
        .source(
            "s_axis_context",
            contexts,
            given.contexts.iter().map(|context| Frame::new(context.pack())),
        )
        .source(
            "s_axis_descriptor",
            packets,
            given.packets.iter().map(|packet| Frame::new(packet.pack())),
        )
        .source(
            "s_axis_payload",
            payload,
            payloads.filter_map(|(index, packet)| payload_of(packet, index)),
        )
        .source(
            "s_axis_passed",
            passed,
            given
                .packets
                .iter()
                .map(|packet| Frame::new([u8::from(passes(packet))])),
        );
    let outputs = ROUTES.into_iter().chain(PAYLOADS).chain([CONTEXT]);
    for (output, stalls) in outputs.zip(patterns.stalls.clone()) {
        let checks = SinkChecks {
            record_beats: true,
            ..SinkChecks::default()
        };
        stimulus = stimulus.sink(output, stalls, checks);
    }
    Ok(spraynic_cosim::run(simulation, &stimulus, Limits::default())?)
}

/// What must come out of one port: bytes and sideband.
type Expected = Vec<Frame>;

/// The golden model, told of packets and writes in the order in which the RTL accepted them; of both in one clock the packet is first.
/// Packets and contexts leave in that order too, whatever port they leave on.
fn follow(model: &mut QpLookup, given: &Given, outcome: &Outcome) -> Result<(), TestCaseError> {
    let accepted = |stream: &str| -> Vec<u64> {
        outcome
            .accepted(stream)
            .iter()
            .map(|timing| timing.last_cycle)
            .collect()
    };
    let (writes, packets) = (accepted("s_axis_context"), accepted("s_axis_descriptor"));
    prop_assert_eq!(
        (writes.len(), packets.len()),
        (given.contexts.len(), given.packets.len()),
        "everything is accepted"
    );
    let mut events: Vec<(u64, bool, usize)> = packets
        .iter()
        .enumerate()
        .map(|(index, cycle)| (*cycle, false, index))
        .collect();
    events.extend(writes.iter().enumerate().map(|(index, cycle)| (*cycle, true, index)));
    events.sort_unstable();

    let mut routes: [Expected; 4] = Default::default();
    let mut payloads: [Expected; 2] = Default::default();
    let mut contexts: Expected = vec![];
    // Packets leave after the last write that was passed on before them, and before the next one is.
    let (mut latest, mut written) = (0, 0);
    for (_, is_write, index) in events {
        if is_write {
            if let Some(context) = model.write_context(&given.contexts[index]) {
                let left = outcome
                    .received(CONTEXT)
                    .get(contexts.len())
                    .map_or(0, |frame| frame.last_cycle);
                prop_assert!(left >= latest, "context {} passes a packet", contexts.len());
                written = left;
                contexts.push(Frame::new(context.pack()));
            }
            continue;
        }
        let packet = &given.packets[index];
        if !passes(packet) {
            continue;
        }
        let Ok(context) = model.look_up(packet) else { continue };
        let route = usize::from(context.route);
        let left = outcome
            .received(ROUTES[route])
            .get(routes[route].len())
            .map_or(0, |frame| frame.last_cycle);
        prop_assert!(left > written, "packet {} passes a context", index);
        latest = latest.max(left);
        routes[route].push(Frame::new([packet.pack(), context.pack()].concat()));
        if route < 2 {
            payloads[route].extend(payload_of(packet, index));
        }
    }
    let expected = routes.iter().chain(&payloads).chain([&contexts]);
    for (stream, expected) in ROUTES.into_iter().chain(PAYLOADS).chain([CONTEXT]).zip(expected) {
        let same = blocks::assert_same(expected, outcome.received(stream));
        same.map_err(|error| TestCaseError::fail(format!("{stream}: {error}")))?;
    }
    compare(model.counters(), outcome)
}

fn compare(counters: &Counters, outcome: &Outcome) -> Result<(), TestCaseError> {
    let named = [
        ("sequence", counters.sequence),
        ("feedback", counters.feedback),
        ("probe", counters.probe),
        ("endpoint", counters.endpoint),
        ("drop_context", counters.drop_context),
        ("drop_queue_pair", counters.drop_queue_pair),
        ("drop_opcode", counters.drop_opcode),
        ("drop_state", counters.drop_state),
        ("drop_peer", counters.drop_peer),
        ("drop_partition", counters.drop_partition),
    ];
    prop_assert_eq!(outcome.counters.len(), named.len(), "every counter is compared");
    for (name, value) in named {
        prop_assert_eq!(outcome.counters[name], u64::from(value), "count_{}", name);
    }
    Ok(())
}

fn check(index: usize, given: &Given, patterns: &Patterns) -> Result<Outcome, TestCaseError> {
    let config = config(index);
    let mut given = given.clone();
    if !config.wire.ipv6 {
        // `packet_parser` of such a configuration gives no other packets.
        for packet in &mut given.packets {
            packet.ipv6 = false;
            (packet.source_ip, packet.destination_ip) =
                (packet.source_ip as u32 as u128, packet.destination_ip as u32 as u128);
        }
    }
    let outcome = run(&mut simulation(index), &given, patterns)?;
    follow(&mut QpLookup::new(Config::from(&config)), &given, &outcome)?;
    Ok(outcome)
}

proptest! {
    #![proptest_config(common::config(150, "qp_lookup"))]

    #[test]
    fn packets_payload_contexts_and_counters_equal_the_golden_model(
        index in prop_oneof![3 => Just(0usize), 1 => 1..3usize], given in given(), patterns in Patterns::strategy(),
    ) {
        if common::have_verilator() {
            check(index, &given, &patterns)?;
        }
    }
}

fn ready(profile: u8) -> QueuePairContext {
    QueuePairContext {
        qpn: 1,
        state: QueuePairState::ReadyToSend as u8,
        profile,
        mtu: 3,
        partition_key: 0xFFFF,
        peer_ip: PEERS[0].1,
        local_ip: PEERS[0].2,
        protection_domain: 0x12_3456,
        ..QueuePairContext::default()
    }
}

fn received(opcode: u8, payload_length: u16) -> ReceivedPacket {
    ReceivedPacket {
        qpn: 1,
        opcode,
        payload_length,
        partition_key: 0xFFFF,
        source_ip: PEERS[0].1,
        destination_ip: PEERS[0].2,
        ..ReceivedPacket::default()
    }
}

/// One packet a clock, all of one queue pair, single-beat payload with each of them too; dropped packets and other routes between them take
/// a clock each. Three clocks from a descriptor to its port.
#[test]
fn one_packet_a_clock_and_three_clocks_to_its_port() {
    if !common::have_verilator() {
        return;
    }
    let count = 300;
    // A WRITE, an ACK, a READ response (feedback in roce), a wrong opcode.
    for (opcodes, length) in [
        (vec![0x07], 0),
        (vec![0x07], 64),
        (vec![0x07, 0x11, 0x0E, 0xC6, 0x07], 64),
    ] {
        let packets = opcodes
            .iter()
            .cycle()
            .take(count)
            .map(|opcode| received(*opcode, length));
        let given = Given {
            contexts: vec![ready(0)],
            packets: packets.collect(),
        };
        let outcome = check(0, &given, &Patterns::contexts_first()).unwrap();
        let taken = outcome.accepted("s_axis_descriptor");
        let clocks = taken[count - 1].last_cycle - taken[0].last_cycle + 1;
        assert_eq!(clocks, count as u64, "{opcodes:x?}, {length} bytes");
        let first = outcome.received("m_axis_sequence")[0].last_cycle;
        assert_eq!(first - taken[0].last_cycle, 3, "clocks to the port, as documented");
        if opcodes.len() == 1 {
            let beats = outcome.beat_cycles("m_axis_sequence");
            assert_eq!(beats, (beats[0]..beats[0] + count as u64).collect::<Vec<_>>());
        }
        if length > 0 {
            let first = outcome.received("m_axis_sequence_payload")[0].first_cycle;
            assert_eq!(
                first - taken[0].last_cycle,
                5,
                "clocks to the first beat of payload, as documented"
            );
            let payload = outcome.accepted("s_axis_payload");
            let clocks = payload[count - 1].last_cycle - payload[0].last_cycle + 1;
            assert!(
                clocks <= count as u64 + 5,
                "{clocks} clocks for {count} beats of payload"
            );
        }
    }
}

/// A packet that did not pass is seen and counted nowhere; one that is not known yet to pass waits, and so do a write behind it and its
/// counters. What passed late leaves in the clock in which that is said.
#[test]
fn nothing_is_seen_of_a_packet_before_it_passed() {
    if !common::have_verilator() {
        return;
    }
    let wrong = |packet| ReceivedPacket {
        udp_source_port: 3,
        ..packet
    };
    let good = received(0x07, 64);
    let given = Given {
        contexts: vec![ready(0)],
        packets: [good, wrong(good), wrong(received(0xC6, 64)), good].into(),
    };
    let mut patterns = Patterns::contexts_first();
    patterns.gaps[3] = Pattern::After { clocks: 300 };
    let outcome = check(0, &given, &patterns).unwrap();
    let (said, left) = (outcome.accepted("s_axis_passed"), outcome.received("m_axis_sequence"));
    assert_eq!((left.len(), outcome.counters["drop_opcode"]), (2, 0));
    for (packet, said) in left.iter().zip([&said[0], &said[3]]) {
        assert_eq!(
            (packet.first_cycle, packet.last_cycle),
            (said.last_cycle, said.last_cycle)
        );
    }
    assert!(said[0].last_cycle >= 300);
    assert_eq!(
        said[3].last_cycle - said[0].last_cycle,
        3,
        "a packet that is forgotten takes a clock"
    );
    // A write waits behind packets of which it is not known.
    let two = Given {
        contexts: vec![ready(0); 2],
        packets: vec![good; 3],
    };
    patterns.gaps[0] = Pattern::Bursts { on: 1, off: 150 };
    let outcome = check(0, &two, &patterns).unwrap();
    assert!(outcome.received(CONTEXT)[1].first_cycle > 300);
}

/// A packet right behind a write meets what was written, and the write costs the clocks documented.
#[test]
fn a_write_holds_for_the_packet_right_behind_it() {
    if !common::have_verilator() {
        return;
    }
    let closed = QueuePairContext {
        state: QueuePairState::Init as u8,
        ..ready(0)
    };
    let contexts = [ready(0), closed].into_iter().cycle().take(40);
    let given = Given {
        contexts: contexts.collect(),
        packets: vec![received(0x04, 64); 400],
    };
    let mut patterns = Patterns::default();
    for clocks in 1..12 {
        // A write each so many clocks, packets in every clock.
        patterns.gaps[0] = Pattern::Bursts { on: 1, off: clocks };
        let outcome = check(0, &given, &patterns).unwrap();
        let (given, closed) = (outcome.counters["sequence"], outcome.counters["drop_state"]);
        assert!(given > 10 && closed > 10, "{given} given, {closed} dropped");
    }
    // A write by itself: packets wait six clocks, three of them for those before it.
    patterns.gaps[0] = Pattern::Bursts { on: 1, off: 60 };
    let one = Given {
        contexts: vec![ready(0); 2],
        packets: vec![received(0x04, 0); 200],
    };
    let outcome = check(0, &one, &patterns).unwrap();
    let taken: Vec<u64> = outcome
        .accepted("s_axis_descriptor")
        .iter()
        .map(|timing| timing.last_cycle)
        .collect();
    let longest = taken.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert_eq!(longest, Some(6), "clocks between the packets around a write");
}

/// A blocked port holds up all packets behind it; nothing is lost, and everything comes when it opens.
#[test]
fn a_blocked_port_blocks_the_lookup_and_loses_nothing() {
    if !common::have_verilator() {
        return;
    }
    let opcodes = [0x07, 0x11, 0xDE, 0x0E, 0xD8, 0x04];
    let packets = opcodes.into_iter().cycle().take(120).map(|opcode| ReceivedPacket {
        qpn: if opcode == 0xD8 { 2 } else { 1 },
        ..received(opcode, 70)
    });
    let given = Given {
        contexts: vec![ready(1)],
        packets: packets.collect(),
    };
    for port in 0..6 {
        let mut patterns = Patterns::contexts_first();
        patterns.stalls[port] = Pattern::After { clocks: 400 };
        let outcome = check(0, &given, &patterns).unwrap();
        let taken = outcome.accepted("s_axis_descriptor");
        let early = taken.iter().filter(|timing| timing.last_cycle < 350).count();
        assert!(early < 60, "port {port}: {early} packets taken before it opens");
    }
}

/// Probes and endpoint operations have no payload; if some came, it would be swallowed and nothing would hang.
#[test]
fn payload_that_cannot_be_is_swallowed() {
    if !common::have_verilator() {
        return;
    }
    let endpoint = ReceivedPacket {
        qpn: 2,
        ..received(0xD8, 200)
    };
    let packets = [
        received(0xDE, 200),
        received(0x04, 100),
        endpoint,
        received(0x04, 4096),
        received(0xFF, 64),
    ];
    let given = Given {
        contexts: vec![ready(1)],
        packets: packets.into_iter().cycle().take(100).collect(),
    };
    for index in [0, 2] {
        let outcome = check(index, &given, &Patterns::contexts_first()).unwrap();
        let bytes = |frames: &[Received]| frames.iter().map(|frame| frame.data.len()).collect::<Vec<_>>();
        assert_eq!(bytes(outcome.received(PAYLOADS[0])), [100, 4096].repeat(20));
        assert_eq!(outcome.counters["probe"] + outcome.counters["endpoint"], 40);
    }
}

/// Contexts with each queue pair number of the table and behind it are told apart by all bits of the number.
#[test]
fn every_queue_pair_has_its_own_context_and_none_is_beyond_the_table() {
    if !common::have_verilator() {
        return;
    }
    for index in 0..3 {
        let config = config(index);
        let profile = config.wire.profiles.iter().next().map_or(0, |profile| profile.code());
        let count = config.queue_pairs.count;
        let beyond = (0..24).map(|bit| 1 << bit | 1).filter(|qpn| *qpn >= count);
        let numbers: Vec<u32> = (0..count).chain(beyond).collect();
        let given = Given {
            contexts: numbers
                .iter()
                .map(|qpn| QueuePairContext {
                    qpn: *qpn,
                    protection_domain: *qpn,
                    ..ready(profile)
                })
                .collect(),
            packets: numbers
                .iter()
                .map(|qpn| ReceivedPacket {
                    qpn: *qpn,
                    ..received(0xDE - 0xCD, 0)
                })
                .collect(),
        };
        let mut patterns = Patterns::contexts_first();
        patterns.gaps[1] = Pattern::After { clocks: 600 };
        let outcome = check(index, &given, &patterns).unwrap();
        assert_eq!(outcome.received(CONTEXT).len(), count as usize);
    }
}

/// A reset clears the table: no queue pair of before is in use.
#[test]
fn after_a_reset_every_queue_pair_is_in_reset() {
    if !common::have_verilator() {
        return;
    }
    let mut model = simulation(0);
    let opened = Given {
        contexts: vec![ready(0)],
        packets: vec![received(0x04, 0)],
    };
    let outcome = run(&mut model, &opened, &Patterns::contexts_first()).unwrap();
    assert_eq!(outcome.counters["sequence"], 1);
    let alone = Given {
        contexts: vec![],
        ..opened
    };
    let outcome = run(&mut model, &alone, &Patterns::default()).unwrap();
    assert_eq!(
        (outcome.counters["sequence"], outcome.counters["drop_queue_pair"]),
        (0, 1)
    );
}
