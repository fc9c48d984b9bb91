//! `response_engine`: executes READs and atomics behind the writes of their queue pair, and answers requests.
//!
//! It owns the PSNs of the responses of solar, and the answers of roce's atomics that are kept for duplicates. It never decides whether a request
//! is allowed (`responder` has) nor moves payload: a READ response says where its payload lies. Theory of operation:
//! `docs/src/blocks/response_engine.md`.

use std::collections::VecDeque;

use spraynic_config::descriptor::{
    Answer, Extension, PacketDescriptor, PayloadWrite, QueuePairContext, ResponseMessage,
};
use spraynic_config::{NicConfig, Operation as Generated, Profile};
use spraynic_wire::{Aeth, AtomicAckEth, Header, NakCode, Opcode, Psn, Syndrome};

use crate::counter::count;
use crate::packet_slicer::mtu_bytes;
use crate::reception;

/// What was generated: the part of the configuration that this block's behaviour depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Queue pairs: QPN 0 to `queue_pairs - 1`.
    pub queue_pairs: u32,
    /// roce: answers of atomics that are kept for each queue pair.
    pub stored_atomics: usize,
    /// READ was generated.
    pub read: bool,
    /// Atomics were generated.
    pub atomic: bool,
    /// Profile solar was generated.
    pub solar: bool,
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        let has = |operation| config.has_standard_opcodes() && config.has_operation(operation);
        Self {
            queue_pairs: config.queue_pairs.count,
            stored_atomics: config.receive.stored_atomics as usize,
            read: has(Generated::Read),
            atomic: has(Generated::Atomic),
            solar: config.has_profile(Profile::Solar),
        }
    }
}

/// Counters, as the ports `count_…` of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Answers given to `ack_engine`.
    pub answers: u32,
    /// roce: ACKs given; those that READ responses and atomic ACKs imply are not among them.
    pub acks: u32,
    /// roce: NAKs and RNR NAKs given.
    pub naks: u32,
    /// READ requests executed.
    pub reads: u32,
    /// READ responses given.
    pub read_responses: u32,
    /// Atomics executed.
    pub atomics: u32,
    /// Atomics answered from the store.
    pub repeated_atomics: u32,
    /// Atomics whose write memory refused.
    pub atomic_errors: u32,
    /// READs and atomics dropped: the queue pair does not receive.
    pub drop_queue_pair: u32,
    /// What was to be executed, but is no READ or atomic, or none that was generated or that the profile has.
    pub drop_opcode: u32,
    /// roce: duplicates of atomics dropped, whose answers are no longer kept.
    pub drop_duplicate: u32,
}

/// Memory as atomics see it: 8 bytes at an address that is a multiple of 8, as a little-endian number.
pub trait AtomicMemory {
    /// Reads.
    fn read(&mut self, address: u64) -> u64;
    /// Writes; false: memory refused it.
    fn write(&mut self, address: u64, value: u64) -> bool;
}

/// Bytes from address 0; there is nothing behind them: reads give 0, writes are refused.
impl AtomicMemory for Vec<u8> {
    fn read(&mut self, address: u64) -> u64 {
        let place = usize::try_from(address).ok();
        place
            .and_then(|start| self.get(start..start.checked_add(8)?))
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u64::from_le_bytes)
    }

    fn write(&mut self, address: u64, value: u64) -> bool {
        let place = usize::try_from(address).ok();
        let bytes = place.and_then(|start| self.get_mut(start..start.checked_add(8)?));
        bytes.map(|bytes| bytes.copy_from_slice(&value.to_le_bytes())).is_some()
    }
}

/// What a request gives.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// Packets for the transmit path, drawn when they are wanted: a READ of 2^31 bytes gives as many as 2^23.
    pub packets: Packets,
    /// What `ack_engine` learns, behind the packets.
    pub answer: Option<Answer>,
}

#[derive(Debug, Clone)]
struct QueuePair {
    response_psn: Psn,
    /// PSN and original value, the newest last.
    stored: VecDeque<(Psn, u64)>,
}

/// The block: PSNs and stored answers by queue pair, and counters.
#[derive(Debug, Clone)]
pub struct ResponseEngine {
    config: Config,
    queue_pairs: Vec<Option<QueuePair>>,
    counters: Counters,
}

impl ResponseEngine {
    /// The block after reset: no queue pair receives, all counters are 0.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            queue_pairs: vec![None; config.queue_pairs as usize],
            counters: Counters::default(),
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes a context write that `qp_lookup` passed on. A queue pair that begins to receive has stored nothing and sends its first response
    /// with the PSN of the context; one that receives already keeps what it has; one that no longer does loses it. (A READ of it that is being
    /// answered ends with the packet at hand: when that is, the RTL says.)
    pub fn write_context(&mut self, context: &QueuePairContext) {
        let Some(slot) = self.queue_pairs.get_mut(context.qpn as usize) else {
            return;
        };
        reception::write(slot, context.receives(), || QueuePair {
            response_psn: Psn::new(context.sent_response_psn),
            stored: VecDeque::new(),
        });
    }

    /// Takes a request whose writes, and all before, memory has: one that answers or executes, or a marker, which comes out as an answer when
    /// all before is done. Execution goes before answer.
    pub fn take(&mut self, request: &PayloadWrite, memory: &mut impl AtomicMemory) -> Given {
        if request.marker {
            return Given {
                packets: Packets::default(),
                answer: Some(Answer {
                    qpn: request.qpn,
                    syndrome: request.syndrome,
                    psn: request.psn,
                    silent: true,
                    marker: true,
                    msn: request.msn,
                    entropy: request.entropy,
                    ..Answer::default()
                }),
            };
        }
        if !request.execute {
            return if request.answer {
                self.answer(request)
            } else {
                Given::default()
            };
        }
        let profile = Profile::from_code(request.profile).filter(|profile| match profile {
            Profile::Roce => true,
            Profile::Solar => self.config.solar,
            Profile::Mrc => false,
        });
        let kind = match Opcode(request.opcode) {
            Opcode::READ_REQUEST if self.config.read => Some(Kind::Read),
            Opcode::COMPARE_SWAP if self.config.atomic => Some(Kind::CompareSwap),
            Opcode::FETCH_ADD if self.config.atomic => Some(Kind::FetchAdd),
            _ => None,
        };
        let Some((profile, kind)) = profile.zip(kind) else {
            count(&mut self.counters.drop_opcode);
            return Given::default();
        };
        let Some(Some(queue_pair)) = self.queue_pairs.get_mut(request.qpn as usize) else {
            count(&mut self.counters.drop_queue_pair);
            return Given::default();
        };
        let first = match profile {
            Profile::Solar => queue_pair.response_psn,
            _ => Psn::new(request.psn),
        };
        if kind == Kind::Read {
            let packets = Packets::read(request, profile, first);
            if profile == Profile::Solar {
                queue_pair.response_psn += packets.count;
            }
            count(&mut self.counters.reads);
            self.counters.read_responses = self.counters.read_responses.wrapping_add(packets.count);
            return Given {
                answer: self.recorded(request, profile, first + (packets.count - 1)),
                packets,
            };
        }
        if profile == Profile::Roce && request.duplicate {
            // The newest one, should a PSN be there twice.
            let stored = queue_pair.stored.iter().rev().find(|(psn, _)| *psn == first);
            let Some(&(_, original)) = stored else {
                count(&mut self.counters.drop_duplicate);
                return Given::default();
            };
            count(&mut self.counters.repeated_atomics);
            return Given {
                packets: Packets::atomic(request, profile, first, original),
                answer: None,
            };
        }
        let original = memory.read(request.address);
        let changed = match kind {
            Kind::FetchAdd => Some(original.wrapping_add(request.swap_add)),
            _ => (original == request.compare).then_some(request.swap_add),
        };
        count(&mut self.counters.atomics);
        if changed.is_some_and(|value| !memory.write(request.address, value)) {
            count(&mut self.counters.atomic_errors);
            return self.answer(&PayloadWrite {
                syndrome: Syndrome::Nak(NakCode::RemoteOperationalError).byte(),
                silent: false,
                ..*request
            });
        }
        match profile {
            Profile::Solar => queue_pair.response_psn += 1,
            _ => {
                if queue_pair.stored.len() == self.config.stored_atomics {
                    queue_pair.stored.pop_front();
                }
                queue_pair.stored.push_back((first, original));
            }
        }
        Given {
            packets: Packets::atomic(request, profile, first, original),
            answer: self.recorded(request, profile, first),
        }
    }

    /// An ACK or NAK. roce: the packet goes here, behind the READ responses, and `ack_engine` only keeps it in mind.
    fn answer(&mut self, request: &PayloadWrite) -> Given {
        count(&mut self.counters.answers);
        let roce = request.profile == Profile::Roce.code();
        let answer = Answer {
            qpn: request.qpn,
            syndrome: request.syndrome,
            psn: request.psn,
            silent: request.silent || roce,
            msn: request.msn,
            entropy: request.entropy,
            ..Answer::default()
        };
        let packets = if roce && !request.silent {
            let syndrome = Syndrome::from_byte(request.syndrome);
            count(if syndrome.is_ack() {
                &mut self.counters.acks
            } else {
                &mut self.counters.naks
            });
            let aeth = aeth(request, request.syndrome);
            Packets::one(
                describe(request, Opcode::ACKNOWLEDGE, Psn::new(request.psn), &[&aeth]),
                Profile::Roce,
            )
        } else {
            Packets::default()
        };
        Given {
            packets,
            answer: Some(answer),
        }
    }

    /// roce: what READ responses and atomic ACKs acknowledge, up to this PSN. A duplicate acknowledges nothing new.
    fn recorded(&mut self, request: &PayloadWrite, profile: Profile, psn: Psn) -> Option<Answer> {
        if profile != Profile::Roce || request.duplicate {
            return None;
        }
        count(&mut self.counters.answers);
        Some(Answer {
            qpn: request.qpn,
            syndrome: Syndrome::ACK.byte(),
            psn: psn.value(),
            silent: true,
            msn: request.msn,
            entropy: request.entropy,
            ..Answer::default()
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    CompareSwap,
    FetchAdd,
}

/// AETH of this syndrome with the MSN of the request.
fn aeth(request: &PayloadWrite, syndrome: u8) -> [u8; 4] {
    let mut bytes = [0; 4];
    let aeth = Aeth {
        syndrome: Syndrome::from_byte(syndrome),
        msn: request.msn,
    };
    aeth.emit(&mut bytes);
    // A reserved syndrome is passed on as it is.
    bytes[0] = syndrome;
    bytes
}

/// A packet that answers a request, without payload.
fn describe(request: &PayloadWrite, opcode: Opcode, psn: Psn, headers: &[&[u8]]) -> PacketDescriptor {
    let bytes = headers.concat();
    let mut extension = Extension::default();
    extension.0[..bytes.len()].copy_from_slice(&bytes);
    PacketDescriptor {
        qpn: request.qpn,
        opcode: opcode.0,
        psn: psn.value(),
        extension_words: (bytes.len() / 4) as u8,
        entropy: request.entropy,
        extension,
        ..PacketDescriptor::default()
    }
}

/// Whether a packet asks for a SACK: in solar the last one of a response does, as the last one of a request.
fn asks(profile: Profile, last: bool) -> bool {
    profile == Profile::Solar && last
}

fn atomic_acknowledge(request: &PayloadWrite, profile: Profile, psn: Psn, original: u64) -> PacketDescriptor {
    let aeth = aeth(request, Syndrome::ACK.byte());
    let mut ack = [0; AtomicAckEth::LENGTH];
    AtomicAckEth { original }.emit(&mut ack);
    PacketDescriptor {
        ack_request: asks(profile, true),
        ..describe(request, Opcode::ATOMIC_ACKNOWLEDGE, psn, &[&aeth, &ack])
    }
}

/// The packets of one answer, first to last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Packets {
    /// A single packet that is no READ response.
    single: Option<PacketDescriptor>,
    /// The READ or the atomic that is answered.
    read: PayloadWrite,
    profile: Option<Profile>,
    psn: Psn,
    /// What stood in memory before the atomic.
    original: u64,
    next: u32,
    count: u32,
}

impl Packets {
    /// The packets of a message, as they were when `response_engine` made it.
    #[must_use]
    pub fn of_message(message: &ResponseMessage) -> Self {
        let request = PayloadWrite {
            qpn: message.qpn,
            mtu: message.mtu,
            entropy: message.entropy,
            msn: message.msn,
            ..PayloadWrite::default()
        };
        let psn = Psn::new(message.psn);
        if message.atomic {
            return Self::atomic(&request, Profile::Solar, psn, message.value);
        }
        let request = PayloadWrite {
            address: message.value,
            byte_count: message.byte_count,
            ..request
        };
        Self::read(&request, Profile::Solar, psn)
    }

    /// The message that these packets are made from; `None`: not of solar.
    #[must_use]
    pub fn message(&self) -> Option<ResponseMessage> {
        if self.profile != Some(Profile::Solar) {
            return None;
        }
        let atomic = self.single.is_some();
        Some(ResponseMessage {
            qpn: self.read.qpn,
            atomic,
            mtu: self.read.mtu,
            entropy: self.read.entropy,
            psn: self.psn.value(),
            packets: self.count,
            msn: self.read.msn,
            byte_count: if atomic { 0 } else { self.read.byte_count },
            value: if atomic { self.original } else { self.read.address },
        })
    }

    /// An atomic ACK with the original value.
    fn atomic(request: &PayloadWrite, profile: Profile, psn: Psn, original: u64) -> Self {
        Self {
            read: *request,
            original,
            ..Self::one(atomic_acknowledge(request, profile, psn, original), profile)
        }
    }

    fn one(packet: PacketDescriptor, profile: Profile) -> Self {
        Self {
            profile: Some(profile),
            psn: Psn::new(packet.psn),
            single: Some(packet),
            count: 1,
            ..Self::default()
        }
    }

    fn read(request: &PayloadWrite, profile: Profile, psn: Psn) -> Self {
        Self {
            single: None,
            read: *request,
            profile: Some(profile),
            psn,
            original: 0,
            next: 0,
            count: request.byte_count.div_ceil(mtu_of(request)).max(1),
        }
    }

    /// Packets in all, those drawn already included.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.count
    }

    /// Queue pair number of this side.
    #[must_use]
    pub fn qpn(&self) -> u32 {
        self.single.map_or(self.read.qpn, |packet| packet.qpn)
    }

    /// Wire profile; `None`: there are no packets.
    #[must_use]
    pub fn profile(&self) -> Option<Profile> {
        self.profile
    }

    /// PSN of the first of them.
    #[must_use]
    pub fn first_psn(&self) -> Psn {
        self.psn
    }

    /// The packet at a place, drawn or not.
    #[must_use]
    pub fn at(&self, index: u32) -> PacketDescriptor {
        if let Some(packet) = self.single {
            return packet;
        }
        let (first, last) = (index == 0, index + 1 == self.count);
        let opcode = match (first, last) {
            (true, true) => Opcode::READ_RESPONSE_ONLY,
            (true, false) => Opcode::READ_RESPONSE_FIRST,
            (false, false) => Opcode::READ_RESPONSE_MIDDLE,
            (false, true) => Opcode::READ_RESPONSE_LAST,
        };
        let mtu = mtu_of(&self.read);
        let offset = u64::from(index) * u64::from(mtu);
        let aeth = aeth(&self.read, Syndrome::ACK.byte());
        let headers: &[&[u8]] = if first || last { &[&aeth] } else { &[] };
        PacketDescriptor {
            ack_request: self.profile.is_some_and(|profile| asks(profile, last)),
            payload_length: (u64::from(self.read.byte_count) - offset).min(mtu.into()) as u16,
            local_address: self.read.address.wrapping_add(offset),
            ..describe(&self.read, opcode, self.psn + index, headers)
        }
    }
}

/// Bytes of the request's MTU. `qp_lookup` lets no queue pair receive with another code than 1 to 5; 0 counts as 1, 6 and 7 as 5.
fn mtu_of(request: &PayloadWrite) -> u32 {
    mtu_bytes(request.mtu.clamp(1, 5)).unwrap_or(256)
}

impl Iterator for Packets {
    type Item = PacketDescriptor;

    fn next(&mut self) -> Option<PacketDescriptor> {
        if self.next == self.count {
            return None;
        }
        self.next += 1;
        Some(self.at(self.next - 1))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.count - self.next) as usize;
        (left, Some(left))
    }

    fn nth(&mut self, skip: usize) -> Option<PacketDescriptor> {
        let left = self.count - self.next;
        self.next += u32::try_from(skip).unwrap_or(u32::MAX).min(left);
        self.next()
    }
}

impl ExactSizeIterator for Packets {}

#[cfg(test)]
#[path = "response_engine_tests.rs"]
mod tests;
