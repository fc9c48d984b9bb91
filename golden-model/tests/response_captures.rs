//! The response model against Linux: for the READs and atomics of a capture it gives the responses that soft-RoCE gave, packet by packet.
//!
//! Requests are taken as the capture has them; `responder` is not in between. Memory starts with what the first atomic found there.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use spraynic_config::Profile;
use spraynic_config::descriptor::{PacketDescriptor, PayloadWrite, QueuePairContext, QueuePairState};
use spraynic_golden::response_engine::{AtomicMemory, Config, ResponseEngine};
use spraynic_wire::pcap::Reader;
use spraynic_wire::{Extension, Header, HeaderKind, Opcode, Operation, Packet};

/// Queue pairs of the captures have numbers below this.
const QUEUE_PAIRS: u32 = 64;

/// Path MTU of the captures: code 3.
const MTU_BYTES: usize = 1024;

fn packets(name: &str) -> Vec<Packet> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data").join(name);
    let frames = Reader::read_all(&path).unwrap();
    let parsed = frames.iter().map(|frame| Packet::parse(&frame.bytes, None).unwrap());
    parsed.collect()
}

/// Numbers by address. What nobody wrote is unknown, and must not be read.
#[derive(Default)]
struct Numbers(BTreeMap<u64, u64>);

impl AtomicMemory for Numbers {
    fn read(&mut self, address: u64) -> u64 {
        self.0[&address]
    }

    fn write(&mut self, address: u64, value: u64) -> bool {
        self.0.insert(address, value);
        true
    }
}

fn request(packet: &Packet) -> Option<PayloadWrite> {
    let operation = packet.info()?.operation;
    let write = PayloadWrite {
        qpn: packet.bth.destination_qpn,
        opcode: packet.bth.opcode.0,
        execute: true,
        psn: packet.bth.psn.value(),
        profile: Profile::Roce.code(),
        mtu: 3,
        ..PayloadWrite::default()
    };
    let extension = |kind| packet.extension(kind);
    match (operation, extension(HeaderKind::Reth), extension(HeaderKind::AtomicEth)) {
        (Operation::ReadRequest, Some(Extension::Reth(reth)), _) => Some(PayloadWrite {
            address: reth.virtual_address,
            byte_count: reth.length,
            ..write
        }),
        (_, _, Some(Extension::AtomicEth(atomic))) => Some(PayloadWrite {
            address: atomic.virtual_address,
            compare: atomic.compare,
            swap_add: atomic.swap_add,
            ..write
        }),
        _ => None,
    }
}

/// Opcode, PSN, payload length and extension headers: what the capture shows of a response.
type Shown = (Opcode, u32, usize, Vec<u8>);

fn shown(packet: &Packet) -> Shown {
    let mut headers = Vec::new();
    for kind in [HeaderKind::Aeth, HeaderKind::AtomicAckEth] {
        match packet.extension(kind) {
            Some(Extension::Aeth(aeth)) => headers.extend(aeth.to_bytes()),
            Some(Extension::AtomicAckEth(ack)) => headers.extend(ack.to_bytes()),
            _ => {}
        }
    }
    (packet.bth.opcode, packet.bth.psn.value(), packet.payload.len(), headers)
}

fn described(packet: &PacketDescriptor) -> Shown {
    let headers = packet.extension.0[..usize::from(packet.extension_words) * 4].to_vec();
    (Opcode(packet.opcode), packet.psn, packet.payload_length.into(), headers)
}

/// Plays a capture whose requests go one way; gives the number of requests, of responses, and of those that the capture ends before.
fn play(name: &str) -> (u32, usize, usize) {
    let mut engine = ResponseEngine::new(Config {
        queue_pairs: QUEUE_PAIRS,
        stored_atomics: 4,
        read: true,
        atomic: true,
        solar: true,
    });
    for qpn in 0..QUEUE_PAIRS {
        engine.write_context(&QueuePairContext {
            qpn,
            state: QueuePairState::ReadyToSend as u8,
            ..QueuePairContext::default()
        });
    }
    let packets = packets(name);
    let mut memory = Numbers::default();
    let mut messages: BTreeMap<u32, u32> = BTreeMap::new();
    let mut responses = 0;
    let mut due: VecDeque<PacketDescriptor> = VecDeque::new();
    for (place, packet) in packets.iter().enumerate() {
        // A responder counts the message of a READ or an atomic when it answers (IBA volume 1, C9-148).
        if let Some(request) = request(packet) {
            let msn = messages.entry(request.qpn).or_insert(0);
            *msn += 1;
            let request = PayloadWrite { msn: *msn, ..request };
            let found = packets[place..]
                .iter()
                .filter(|answer| answer.bth.psn == packet.bth.psn)
                .find_map(|answer| match answer.extension(HeaderKind::AtomicAckEth) {
                    Some(Extension::AtomicAckEth(ack)) => Some(ack.original),
                    _ => None,
                });
            if let Some(original) = found {
                memory.0.entry(request.address).or_insert(original);
            }
            due.extend(engine.take(&request, &mut memory).packets);
        } else if packet.info().is_some_and(|info| info.operation.is_response()) {
            responses += 1;
            let expected = due.pop_front().unwrap_or_else(|| panic!("{name}: {packet} is not due"));
            assert_eq!(described(&expected), shown(packet), "{name}, frame {place}: {packet}");
            assert!(packet.payload.len() <= MTU_BYTES);
        }
    }
    (messages.values().sum(), responses, due.len())
}

#[test]
fn reads_are_answered_as_linux_does() {
    let (requests, responses, due) = play("rc-read-1024.pcap");
    println!("{requests} READs, {responses} responses, {due} after the end of the capture");
    assert!(requests > 1 && responses > requests as usize);
}

#[test]
fn atomics_are_answered_as_linux_does() {
    let (requests, responses, due) = play("rc-atomics.pcap");
    println!("{requests} atomics, {responses} responses, {due} after the end of the capture");
    assert!(requests > 1);
    assert_eq!(responses + due, requests as usize);
}
