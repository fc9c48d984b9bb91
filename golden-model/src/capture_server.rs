//! From captured frames back to a NIC that answers them: contexts, memory regions, receive requests, and what memory must hold in the end.
//!
//! One [`ServerReplay`] for each address that requests go to. What memory holds at the start is what the captured responses read from it; what it
//! holds at the end is what the captured requests carry. It never asks the models that it serves to test. roce only; it reads no files.

use std::collections::{BTreeMap, BTreeSet};

use spraynic_config::descriptor::{
    MemoryRegion, PacketDescriptor, QueuePairContext, QueuePairState, ReceiveRequest, WorkOpcode,
};
use spraynic_wire::{Extension, HeaderKind, Ip, Opcode, Operation, Packet, Syndrome};

use crate::capture_messages::messages;

/// Bytes of a region begin at multiples of this in memory, shifted by the offset that their virtual address has in a page.
const PAGE: u64 = 4096;

/// A frame that the captured server sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// Index in the capture, from 0.
    pub index: usize,
    /// Queue pair of the server.
    pub qpn: u32,
    /// BTH opcode.
    pub opcode: u8,
    /// BTH PSN, 24 bits.
    pub psn: u32,
    /// Syndrome and MSN of the AETH, where there is one.
    pub aeth: Option<(Syndrome, u32)>,
    /// Original value of an atomic.
    pub original: Option<u64>,
    /// Payload of a READ response.
    pub payload: Vec<u8>,
}

impl Answered {
    /// The packet that a descriptor asks for, with its payload.
    #[must_use]
    pub fn of(packet: &PacketDescriptor, index: usize, payload: Vec<u8>) -> Self {
        let mut answered = Self {
            index,
            qpn: packet.qpn,
            opcode: packet.opcode,
            psn: packet.psn,
            aeth: None,
            original: None,
            payload,
        };
        if let Some(info) = Opcode(packet.opcode).info()
            && let Ok((extensions, _)) = HeaderKind::parse_all(info.headers(packet.timestamped), &packet.extension.0)
        {
            answered.read(&extensions);
        }
        answered
    }

    fn read(&mut self, extensions: &[Extension]) {
        for extension in extensions {
            match extension {
                Extension::Aeth(header) => self.aeth = Some((header.syndrome, header.msn)),
                Extension::AtomicAckEth(header) => self.original = Some(header.original),
                _ => {}
            }
        }
    }
}

/// What makes a NIC answer as a captured server did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerReplay {
    /// Address of the server.
    pub address: u128,
    /// Contexts of its queue pairs.
    pub contexts: Vec<QueuePairContext>,
    /// Its memory regions.
    pub regions: Vec<MemoryRegion>,
    /// Receive requests, in the order of the messages that take them.
    pub receive_requests: Vec<ReceiveRequest>,
    /// Memory at the start, from address 0.
    pub memory: Vec<u8>,
    /// Memory at the end.
    pub memory_after: Vec<u8>,
    /// Frames that come to the server, with their index in the capture.
    pub frames: Vec<(usize, Vec<u8>)>,
    /// What it answered, in order.
    pub answers: Vec<Answered>,
}

/// Whether it is IPv6, source and destination.
fn addresses(packet: &Packet) -> (bool, u128, u128) {
    match &packet.ip {
        Ip::V4(ip) => (false, u32::from(ip.source).into(), u32::from(ip.destination).into()),
        Ip::V6(ip) => (true, ip.source.into(), ip.destination.into()),
    }
}

fn operation(packet: &Packet) -> Option<Operation> {
    packet.info().map(|info| info.operation)
}

fn is_request(packet: &Packet) -> bool {
    operation(packet).is_some_and(Operation::is_request)
}

/// Virtual address, R_Key and length that a packet names.
fn named(packet: &Packet) -> Option<(u64, u32, u32)> {
    packet.extensions.iter().find_map(|extension| match extension {
        Extension::Reth(reth) => Some((reth.virtual_address, reth.remote_key, reth.length)),
        Extension::AtomicEth(atomic) => Some((atomic.virtual_address, atomic.remote_key, 8)),
        _ => None,
    })
}

/// A READ that was captured.
struct Read {
    qpn: u32,
    psn: u32,
    psns: u32,
    mtu: u64,
    at: u64,
}

/// An atomic that was captured.
struct Atomic {
    at: u64,
    operation: WorkOpcode,
    compare: u64,
    swap_add: u64,
}

impl Atomic {
    fn change(&self, value: u64) -> u64 {
        match self.operation {
            WorkOpcode::FetchAdd => value.wrapping_add(self.swap_add),
            _ if value == self.compare => self.swap_add,
            _ => value,
        }
    }
}

/// The replays of all servers of a capture. Frames that are no RoCEv2 packets are passed over.
#[must_use]
pub fn servers(frames: &[Vec<u8>]) -> Vec<ServerReplay> {
    let packets: Vec<(usize, Packet)> = frames
        .iter()
        .enumerate()
        .filter_map(|(index, frame)| Some((index, Packet::parse(frame, None).ok()?)))
        .collect();
    let mut servers: Vec<u128> = Vec::new();
    for (_, packet) in packets.iter().filter(|(_, packet)| is_request(packet)) {
        let address = addresses(packet).2;
        if !servers.contains(&address) {
            servers.push(address);
        }
    }
    servers
        .into_iter()
        .map(|address| server(frames, &packets, address))
        .collect()
}

fn server(frames: &[Vec<u8>], packets: &[(usize, Packet)], address: u128) -> ServerReplay {
    let received: Vec<&(usize, Packet)> = packets
        .iter()
        .filter(|(_, packet)| addresses(packet).2 == address)
        .collect();
    let mut replay = ServerReplay {
        address,
        frames: received
            .iter()
            .map(|(index, _)| (*index, frames[*index].clone()))
            .collect(),
        ..ServerReplay::default()
    };
    let requests: Vec<(usize, &Packet)> = received
        .iter()
        .filter(|(_, packet)| is_request(packet))
        .map(|(index, packet)| (*index, packet))
        .collect();
    replay.contexts = contexts(packets, &received, &requests);
    let mut next = 0;
    replay.regions = regions(&requests, &mut next);
    let largest = packets.iter().map(|(_, packet)| packet.payload.len()).max();
    let mut sends = Vec::new();
    let mut writes: Vec<(usize, u64, Vec<u8>)> = Vec::new();
    let mut reads = Vec::new();
    let mut atomics: BTreeMap<(u32, u32), Atomic> = BTreeMap::new();
    for context in &replay.contexts {
        let of_this: Vec<(usize, &Packet)> = requests
            .iter()
            .filter(|(_, packet)| packet.bth.destination_qpn == context.qpn)
            .copied()
            .collect();
        let taken = taken_in_order(context, &of_this);
        for message in messages(&of_this, largest.unwrap_or(0)) {
            let request = message.request;
            let place = || translate(&replay.regions, request.remote_address, request.remote_key);
            // What a go-back-N receiver takes of the message: a packet behind a gap does not count, until it comes again.
            let mtu = 128usize << message.mtu;
            let taken = (0..)
                .take_while(|step| taken.contains(&((message.psn + step) & 0xFF_FFFF)))
                .count();
            let mut payload = message.payload;
            payload.truncate(taken * mtu);
            match WorkOpcode::from_code(request.opcode) {
                Some(WorkOpcode::Write) => writes.extend(place().map(|at| (message.first_packet, at, payload))),
                Some(WorkOpcode::Send | WorkOpcode::SendInvalidate) => {
                    sends.push((message.first_packet, context.qpn, request.length, payload));
                }
                Some(WorkOpcode::Read) => reads.extend(place().map(|at| Read {
                    qpn: context.qpn,
                    psn: message.psn,
                    psns: message.psns,
                    mtu: mtu as u64,
                    at,
                })),
                Some(operation) => atomics.extend(place().map(|at| {
                    let atomic = Atomic {
                        at,
                        operation,
                        compare: request.compare,
                        swap_add: request.swap_add,
                    };
                    ((context.qpn, message.psn), atomic)
                })),
                None => {}
            }
        }
    }
    // Buffers of SENDs, in the order of the messages.
    sends.sort_by_key(|(first, ..)| *first);
    for (first, qpn, length, payload) in sends {
        let start = next;
        next = (next + u64::from(length)).next_multiple_of(PAGE) + PAGE;
        replay.receive_requests.push(ReceiveRequest {
            qpn,
            length,
            address: start,
            cookie: first as u64,
            ..ReceiveRequest::default()
        });
        writes.push((first, start, payload));
    }
    replay.memory = vec![0; next as usize];
    replay.answers = answers(packets, address, &requests);
    fill_from_responses(&mut replay, &reads, &atomics);
    replay.memory_after = replay.memory.clone();
    writes.sort_by_key(|(first, ..)| *first);
    for (_, at, payload) in writes {
        put(&mut replay.memory_after, at, &payload);
    }
    for atomic in atomics.into_values() {
        let changed = atomic.change(get(&replay.memory_after, atomic.at));
        put(&mut replay.memory_after, atomic.at, &changed.to_le_bytes());
    }
    replay
}

/// One context for each queue pair that frames come to, with the PSN of its first request.
fn contexts(
    packets: &[(usize, Packet)],
    received: &[&(usize, Packet)],
    requests: &[(usize, &Packet)],
) -> Vec<QueuePairContext> {
    // The largest payload is one MTU, or there is no larger message.
    let largest = packets
        .iter()
        .map(|(_, packet)| packet.payload.len())
        .max()
        .unwrap_or(0);
    let mtu = (1..5).find(|code| largest <= 128 << code).unwrap_or(5);
    let mut contexts: BTreeMap<u32, QueuePairContext> = BTreeMap::new();
    for (_, packet) in received {
        let (ipv6, peer_ip, local_ip) = addresses(packet);
        let qpn = packet.bth.destination_qpn;
        let first = requests.iter().find(|(_, request)| request.bth.destination_qpn == qpn);
        contexts.entry(qpn).or_insert(QueuePairContext {
            qpn,
            state: QueuePairState::ReadyToSend as u8,
            profile: 0,
            mtu,
            remote_write: true,
            remote_read: true,
            remote_atomic: true,
            ipv6,
            partition_key: 0xFFFF,
            psn: first.map_or(0, |(_, request)| request.bth.psn.value()),
            peer_ip,
            local_ip,
            ..QueuePairContext::default()
        });
    }
    contexts.into_values().collect()
}

/// PSNs of the packets that a receiver takes which takes the next one only.
fn taken_in_order(context: &QueuePairContext, requests: &[(usize, &Packet)]) -> BTreeSet<u32> {
    let mut taken = BTreeSet::new();
    let mut next = context.psn;
    for (_, packet) in requests {
        let psn = packet.bth.psn.value();
        if psn != next {
            continue;
        }
        taken.insert(psn);
        let responses = match (operation(packet), named(packet)) {
            (Some(Operation::ReadRequest), Some((_, _, length))) => length.div_ceil(128 << context.mtu).max(1),
            _ => 1,
        };
        next = (next + responses) & 0xFF_FFFF;
    }
    taken
}

/// One region for each R_Key, as large as the requests that name it.
fn regions(requests: &[(usize, &Packet)], next: &mut u64) -> Vec<MemoryRegion> {
    let mut extents: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for (address, key, length) in requests.iter().filter_map(|(_, packet)| named(packet)) {
        let end = address.saturating_add(length.into());
        let extent = extents.entry(key).or_insert((address, end));
        *extent = (extent.0.min(address), extent.1.max(end));
    }
    let place = |(key, (base, end)): (u32, (u64, u64))| {
        let address = *next + base % PAGE;
        *next = (address + (end - base)).next_multiple_of(PAGE) + PAGE;
        MemoryRegion {
            generation: key as u8,
            index: key >> 8,
            valid: true,
            remote_write: true,
            remote_read: true,
            remote_atomic: true,
            base,
            length: end - base,
            address,
            ..MemoryRegion::default()
        }
    };
    extents.into_iter().map(place).collect()
}

fn translate(regions: &[MemoryRegion], address: u64, key: u32) -> Option<u64> {
    let region = regions
        .iter()
        .find(|region| region.index == key >> 8 && u32::from(region.generation) == key & 0xFF)?;
    Some(region.address + (address - region.base))
}

/// What the server sent that answers requests. Connections are paired by the order in which queue pairs are first asked and first answer.
fn answers(packets: &[(usize, Packet)], server: u128, requests: &[(usize, &Packet)]) -> Vec<Answered> {
    let mut asked: Vec<u32> = Vec::new();
    for (_, packet) in requests {
        if !asked.contains(&packet.bth.destination_qpn) {
            asked.push(packet.bth.destination_qpn);
        }
    }
    let mut clients: Vec<u32> = Vec::new();
    let mut answers = Vec::new();
    for (index, packet) in packets.iter().filter(|(_, packet)| addresses(packet).1 == server) {
        if is_request(packet) {
            continue;
        }
        let client = packet.bth.destination_qpn;
        let position = clients.iter().position(|known| *known == client).unwrap_or_else(|| {
            clients.push(client);
            clients.len() - 1
        });
        let Some(qpn) = asked.get(position) else { continue };
        let mut answered = Answered {
            index: *index,
            qpn: *qpn,
            opcode: packet.bth.opcode.0,
            psn: packet.bth.psn.value(),
            aeth: None,
            original: None,
            payload: packet.payload.clone(),
        };
        answered.read(&packet.extensions);
        answers.push(answered);
    }
    answers
}

/// Puts into memory what READ responses read from it, and what each atomic found first.
fn fill_from_responses(replay: &mut ServerReplay, reads: &[Read], atomics: &BTreeMap<(u32, u32), Atomic>) {
    let mut found: Vec<u64> = Vec::new();
    for answer in &replay.answers {
        let offset_of = |read: &Read| answer.psn.wrapping_sub(read.psn) & 0xFF_FFFF;
        let read = reads
            .iter()
            .find(|read| read.qpn == answer.qpn && offset_of(read) < read.psns && !answer.payload.is_empty());
        if let Some(read) = read {
            put(
                &mut replay.memory,
                read.at + u64::from(offset_of(read)) * read.mtu,
                &answer.payload,
            );
        }
        if let (Some(original), Some(Atomic { at, .. })) = (answer.original, atomics.get(&(answer.qpn, answer.psn)))
            && !found.contains(at)
        {
            found.push(*at);
            put(&mut replay.memory, *at, &original.to_le_bytes());
        }
    }
}

fn put(memory: &mut [u8], at: u64, bytes: &[u8]) {
    let start = at as usize;
    memory[start..start + bytes.len()].copy_from_slice(bytes);
}

fn get(memory: &[u8], at: u64) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&memory[at as usize..at as usize + 8]);
    u64::from_le_bytes(bytes)
}
