//! Frames of a Linux RoCEv2 stack through the models of the receive path, as the NIC that they were sent to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use spraynic_config::descriptor::{QueuePairContext, QueuePairState, SequenceOutcome};
use spraynic_golden::frame::Frame;
use spraynic_golden::icrc::check::{IcrcCheck, Verdict};
use spraynic_golden::packet_parser::{self, PacketParser, Parsed, TrimmedDscp};
use spraynic_golden::qp_lookup::{self, QpLookup, Route};
use spraynic_golden::reorder_buffer::{self, Arrival, ReorderBuffer, Space, outcome_of};
use spraynic_wire::pcap::Reader;
use spraynic_wire::{HeaderKind, Ip, NakCode, Packet, Syndrome};

const QUEUE_PAIRS: u32 = 4096;

fn frames(name: &str) -> Vec<Vec<u8>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/data")
        .join(name);
    let captured = Reader::read_all(&path).unwrap();
    captured.into_iter().map(|frame| frame.bytes).collect()
}

/// Whether it is IPv6, source and destination.
fn addresses(packet: &Packet) -> (bool, u128, u128) {
    match &packet.ip {
        Ip::V4(ip) => (false, u32::from(ip.source).into(), u32::from(ip.destination).into()),
        Ip::V6(ip) => (true, ip.source.into(), ip.destination.into()),
    }
}

/// The blocks of one NIC, in a row.
struct Nic {
    parser: PacketParser,
    icrc: IcrcCheck,
    lookup: QpLookup,
    buffer: ReorderBuffer,
}

impl Nic {
    fn new() -> Self {
        Self {
            parser: PacketParser::new(packet_parser::Config::full()),
            icrc: IcrcCheck::new(),
            lookup: QpLookup::new(qp_lookup::Config::full(QUEUE_PAIRS)),
            buffer: ReorderBuffer::new(reorder_buffer::Config {
                queue_pairs: QUEUE_PAIRS,
                window: 64,
                pool_slots: 64,
                reorder_queue_pairs: 0,
                guaranteed_slots: 1,
                receive_requests: 1,
            }),
        }
    }

    fn open(&mut self, context: &QueuePairContext) {
        let written = self.lookup.write_context(context).unwrap();
        assert_eq!(written, *context, "served");
        self.buffer.write_context(&written);
    }
}

/// One context for each receiving queue pair that the capture shows, with the PSN of its first request.
fn contexts(packets: &[Packet]) -> BTreeMap<(u128, u32), QueuePairContext> {
    let mut contexts = BTreeMap::new();
    let largest = packets.iter().map(|packet| packet.payload.len()).max().unwrap();
    // The largest payload is one MTU, in every capture but that of 64-byte messages, which are shorter than any.
    let mtu = (1..=5).find(|code| largest <= 128 << code).unwrap();
    for packet in packets {
        let (ipv6, peer_ip, local_ip) = addresses(packet);
        let context = contexts
            .entry((local_ip, packet.bth.destination_qpn))
            .or_insert(QueuePairContext {
                qpn: packet.bth.destination_qpn,
                state: QueuePairState::ReadyToSend as u8,
                profile: 0,
                mtu,
                ipv6,
                partition_key: 0xFFFF,
                psn: u32::MAX,
                peer_ip,
                local_ip,
                ..QueuePairContext::default()
            });
        if packet.info().unwrap().operation.is_request() && context.psn == u32::MAX {
            context.psn = packet.bth.psn.value();
        }
    }
    for context in contexts.values_mut() {
        context.psn &= 0xFF_FFFF;
    }
    contexts
}

/// The queue pair that answers, by the address it answers from and the queue pair it answers to: where the connection's
/// requests go. Connections are paired by the order in which queue pairs first send.
fn responders(packets: &[Packet]) -> BTreeMap<(u128, u32), u32> {
    let mut responders = BTreeMap::new();
    let mut requested: BTreeMap<u128, Vec<u32>> = BTreeMap::new();
    for packet in packets {
        let (_, source, destination) = addresses(packet);
        let qpn = packet.bth.destination_qpn;
        if packet.info().unwrap().operation.is_request() {
            let seen = requested.entry(destination).or_default();
            if !seen.contains(&qpn) {
                seen.push(qpn);
            }
        }
        if packet.extension(HeaderKind::Aeth).is_some() && !responders.contains_key(&(source, qpn)) {
            let count = responders.keys().filter(|(address, _)| *address == source).count();
            responders.insert((source, qpn), requested[&source][count]);
        }
    }
    responders
}

/// What became of the requests of a capture.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: usize,
    duplicates: usize,
    /// Packets behind a gap.
    behind_gaps: usize,
    /// PSN that was next at the first packet behind each gap.
    gaps: Vec<u32>,
    feedback: usize,
    /// Acknowledgements that Linux sent, of packets that the model has given.
    acknowledged: usize,
    /// PSNs that Linux asked for by sequence NAKs.
    naks: Vec<u32>,
}

/// Plays a capture to all its receivers and checks each packet that is given.
fn play(name: &str) -> Tally {
    let frames = frames(name);
    let packets: Vec<Packet> = frames.iter().map(|frame| Packet::parse(frame, None).unwrap()).collect();
    let mut nics: BTreeMap<u128, Nic> = BTreeMap::new();
    for ((local_ip, _), context) in contexts(&packets) {
        nics.entry(local_ip).or_insert_with(Nic::new).open(&context);
    }
    let responders = responders(&packets);
    let mut tally = Tally::default();
    let mut given_psns = BTreeSet::new();
    for (frame, wire) in frames.iter().zip(&packets) {
        let nic = nics.get_mut(&addresses(wire).2).unwrap();
        let parsed = nic.parser.receive(&Frame::plain(frame.clone()), TrimmedDscp::default());
        let Ok(Parsed::Packet { packet, payload }) = parsed else {
            panic!("{name}: {parsed:?} of {wire}");
        };
        assert_eq!(payload, wire.payload);
        assert_eq!(nic.icrc.check(frame, &packet), Verdict::Right);
        let context = nic.lookup.look_up(&packet).unwrap();
        let request = wire.info().unwrap().operation.is_request();
        assert_eq!(context.route == Route::Sequence as u8, request);
        if !request {
            assert_eq!(context.route, Route::Feedback as u8);
            tally.feedback += 1;
            if let Some(spraynic_wire::Extension::Aeth(aeth)) = wire.extension(HeaderKind::Aeth) {
                // What Linux says of the requests it took, against the model of the same receiver.
                let responder = responders[&(addresses(wire).1, wire.bth.destination_qpn)];
                let buffer = &nics[&addresses(wire).1].buffer;
                let next = buffer.base(responder, Space::Requests).unwrap();
                match aeth.syndrome {
                    // Linux takes some time: the model is ahead of the NAK.
                    Syndrome::Nak(NakCode::PsnSequenceError) => tally.naks.push(wire.bth.psn.value()),
                    Syndrome::Ack(_) => {
                        assert!(
                            wire.bth.psn.is_before(next),
                            "{name}: {wire} acknowledges what the model has not"
                        );
                        tally.acknowledged += 1;
                    }
                    other => panic!("{name}: {other}"),
                }
            }
            continue;
        }
        let before = nic.buffer.base(packet.qpn, Space::Requests).unwrap();
        let arrived = Arrival {
            packet: *packet,
            context,
            payload,
        };
        // The host always has a receive request.
        nic.buffer.credit(packet.qpn);
        let (report, given) = nic.buffer.receive(arrived);
        match outcome_of(&report).unwrap() {
            SequenceOutcome::Passed => {
                tally.passed += 1;
                let given = given.unwrap();
                assert_eq!((given.packet.psn, &given.payload), (before.value(), &wire.payload));
                assert!(
                    given_psns.insert((addresses(wire), packet.qpn, packet.psn)),
                    "given twice"
                );
            }
            SequenceOutcome::Duplicate => tally.duplicates += 1,
            refused @ (SequenceOutcome::SequenceFirst | SequenceOutcome::Sequence) => {
                tally.behind_gaps += 1;
                let first = refused == SequenceOutcome::SequenceFirst;
                tally.gaps.extend(first.then_some(before.value()));
            }
            other => panic!("{name}: {other:?} of {wire}"),
        }
    }
    for nic in nics.values() {
        let (parser, lookup) = (nic.parser.counters(), nic.lookup.counters());
        assert_eq!(parser.frames, parser.packets);
        assert_eq!(nic.icrc.counters().right, parser.packets);
        assert_eq!(lookup.sequence + lookup.feedback, parser.packets);
        assert_eq!((lookup.drop_context, nic.buffer.free_slots()), (0, 64));
    }
    tally
}

/// Requests of a capture: those that come for the first time by receiver and PSN, and those that come again.
fn counted(name: &str) -> (usize, usize) {
    let mut seen = BTreeMap::new();
    for frame in frames(name) {
        let packet = Packet::parse(&frame, None).unwrap();
        if packet.info().unwrap().operation.is_request() {
            let key = (addresses(&packet).2, packet.bth.destination_qpn, packet.bth.psn.value());
            *seen.entry(key).or_insert(0) += 1;
        }
    }
    (seen.len(), seen.values().map(|times| times - 1).sum())
}

macro_rules! lossless {
    ($($test:ident: $file:literal;)*) => {$(
        #[test]
        fn $test() {
            let tally = play($file);
            println!("{}: {tally:?}", $file);
            let (first, again) = counted($file);
            assert_eq!((tally.passed, tally.duplicates), (first, again), "every request is given, once and in order");
            assert!(tally.acknowledged > 0);
        }
    )*};
}

lossless! {
    send: "rc-send-1024.pcap";
    write: "rc-write-1024.pcap";
    read: "rc-read-1024.pcap";
    write_of_64_bytes: "rc-write-lat-64.pcap";
    atomics: "rc-atomics.pcap";
    ipv6_with_padding: "rc-write-ipv6-unaligned-12345.pcap";
    several_queue_pairs: "rc-write-multi-qp-1023.pcap";
}

#[test]
fn go_back_n() {
    let tally = play("rc-write-lossy-go-back-n.pcap");
    println!("{tally:?}");
    assert!(tally.behind_gaps > 0 && tally.duplicates > 0);
    assert_eq!(tally.gaps.len(), 5);
    assert_eq!(
        tally.gaps, tally.naks,
        "one NAK for each gap, for the same PSNs as Linux"
    );
}

#[test]
fn a_flipped_bit_anywhere_is_dropped_or_changes_nothing_that_counts() {
    let mut places = BTreeMap::new();
    for name in ["rc-write-lat-64.pcap", "rc-write-ipv6-unaligned-12345.pcap"] {
        let frame = frames(name).remove(0);
        let wire = Packet::parse(&frame, None).unwrap();
        let mut nic = Nic::new();
        for context in contexts(std::slice::from_ref(&wire)).into_values() {
            nic.open(&context);
        }
        for bit in 0..frame.len() * 8 {
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let place = match nic
                .parser
                .receive(&Frame::plain(damaged.clone()), TrimmedDscp::default())
            {
                Err(_) => "parser",
                Ok(Parsed::SlowPath(given)) => {
                    assert_eq!(given, damaged);
                    "host"
                }
                Ok(Parsed::Packet { packet, .. }) if nic.icrc.check(&damaged, &packet) == Verdict::Wrong => "icrc",
                Ok(Parsed::Packet { packet, payload }) => {
                    // MAC addresses, and what may change on the way: nothing that the datapath acts on, but ECN.
                    assert_eq!(payload, wire.payload);
                    assert_eq!(
                        (packet.psn, packet.qpn),
                        (wire.bth.psn.value(), wire.bth.destination_qpn)
                    );
                    assert!(nic.lookup.look_up(&packet).is_ok());
                    "good"
                }
            };
            *places.entry(place).or_insert(0) += 1;
        }
    }
    println!("{places:?}");
    assert_eq!(places.len(), 4, "each place is met: {places:?}");
}
