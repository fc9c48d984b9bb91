//! Tests of the responder model: each rule by an example.

use spraynic_config::Profile;
use spraynic_config::descriptor::{MemoryRegion, RequestExtension};
use spraynic_wire::{AtomicEth, Header, Ieth, ImmDt, Meth, NakCode, Opcode, Reth, Tseth};

use super::*;
use crate::memory_regions::{self, MemoryRegions};
use crate::packet_slicer::MAX_MESSAGE;

#[path = "responder_properties.rs"]
mod properties;
#[path = "responder_refusals.rs"]
mod refusals;

const QPN: u32 = 1;
const MTU: usize = 256;
const KEY: u32 = 0x0000_015A;
const BASE: u64 = 0x10_0000;
const MEMORY: u64 = 0x7000_0000;
const LENGTH: u64 = 0x10_0000;

fn context(profile: Profile, state: QueuePairState) -> QueuePairContext {
    QueuePairContext {
        qpn: QPN,
        state: state as u8,
        profile: profile.code(),
        mtu: 1,
        ..QueuePairContext::default()
    }
}

fn region() -> MemoryRegion {
    MemoryRegion {
        generation: 0x5A,
        index: 1,
        valid: true,
        remote_write: true,
        remote_read: true,
        remote_atomic: true,
        protection_domain: 7,
        base: BASE,
        length: LENGTH,
        address: MEMORY,
        ..MemoryRegion::default()
    }
}

/// A responder with its regions, and a queue pair that receives.
struct Nic {
    responder: Responder,
    regions: MemoryRegions,
    profile: Profile,
    psn: u32,
    asked: Vec<MemoryAccess>,
}

impl Nic {
    fn new(profile: Profile) -> Self {
        let mut nic = Self {
            responder: Responder::new(Config {
                queue_pairs: 4,
                receive_requests: 4,
            }),
            regions: MemoryRegions::new(memory_regions::Config { regions: 4 }),
            profile,
            psn: 0xFF_FFFC,
            asked: Vec::new(),
        };
        nic.regions.write_region(&region());
        nic.state(QueuePairState::ReadyToReceive);
        nic
    }

    /// Writes the state, and gives what is given back, without the marker behind it.
    fn state(&mut self, state: QueuePairState) -> Vec<PayloadWrite> {
        let mut writes = self.responder.write_context(&context(self.profile, state));
        let last = writes.last_mut().expect("a marker");
        assert!(last.marker, "the last write marks");
        assert_eq!(last.closed, !state.receives());
        (last.marker, last.closed) = (false, false);
        writes.retain(|write| write.completion);
        writes
    }

    fn post(&mut self, cookie: u64, length: u32) -> Posted {
        self.responder.post(&ReceiveRequest {
            qpn: QPN,
            length,
            address: cookie << 32,
            cookie,
            ..ReceiveRequest::default()
        })
    }

    /// The next packet, with so many bytes.
    fn packet(&mut self, opcode: Opcode, payload: usize, headers: &[Vec<u8>]) -> SequencedPacket {
        self.psn = (self.psn + 1) & 0xFF_FFFF;
        let mut extension = RequestExtension::default();
        let bytes = headers.concat();
        extension.0[..bytes.len()].copy_from_slice(&bytes);
        SequencedPacket {
            qpn: QPN,
            opcode: opcode.0,
            psn: self.psn,
            profile: self.profile.code(),
            ack_request: true,
            protection_domain: 7,
            mtu: 1,
            remote_write: true,
            remote_read: true,
            remote_atomic: true,
            payload_length: payload as u16,
            entropy: 0xE_1234,
            extension,
            ..SequencedPacket::default()
        }
    }

    fn give(&mut self, packet: &SequencedPacket) -> PayloadWrite {
        let payload = vec![packet.psn as u8; packet.payload_length.into()];
        let regions = |access: &MemoryAccess| {
            self.asked.push(*access);
            self.regions.access(access)
        };
        match self.responder.receive(packet, payload.clone(), regions) {
            Given::Request(write, bytes) => {
                assert_eq!(bytes, payload);
                write
            }
            Given::Response(..) => panic!("a response"),
        }
    }

    fn take(&mut self, opcode: Opcode, payload: usize, headers: &[Vec<u8>]) -> PayloadWrite {
        let packet = self.packet(opcode, payload, headers);
        self.give(&packet)
    }

    /// mrc: the window passed the end of a message.
    fn retire(&mut self, opcode: Opcode) -> PayloadWrite {
        let packet = SequencedPacket {
            retired: true,
            ..self.packet(opcode, 0, &[])
        };
        self.give(&packet)
    }

    /// Behind a refusal nothing is answered.
    fn discards(&mut self) {
        let write = self.take(Opcode::WRITE_ONLY, 0, &[reth(0, 0, 0)]);
        assert!(write.discard && !write.answer);
    }
}

fn reth(offset: u64, remote_key: u32, length: u32) -> Vec<u8> {
    Reth {
        virtual_address: BASE.wrapping_add(offset),
        remote_key,
        length,
    }
    .to_bytes()
}

fn meth(rqmsn: u16) -> Vec<u8> {
    Meth { rqmsn, msn: 0 }.to_bytes()
}

fn imm(immediate: u32) -> Vec<u8> {
    ImmDt { immediate }.to_bytes()
}

/// Everything of a write but what the packet itself says.
fn due(write: &PayloadWrite) -> (bool, bool, u8, u32) {
    (write.discard, write.answer, write.syndrome, write.msn)
}

fn nak(write: &PayloadWrite, code: NakCode) -> bool {
    let syndrome = Syndrome::Nak(code).byte();
    due(write) == (true, true, syndrome, write.msn) && !write.execute && !write.silent
}

fn completion(write: &PayloadWrite) -> Option<(u64, CompletionStatus, u32)> {
    use CompletionStatus::*;
    let status = [Success, LocalLength, Flushed, RemoteAccess, RemoteInvalidRequest];
    write
        .completion
        .then(|| (write.cookie, status[usize::from(write.status)], write.byte_count))
}

#[test]
fn a_write_goes_to_memory_packet_behind_packet() {
    let mut nic = Nic::new(Profile::Roce);
    let first = nic.take(Opcode::WRITE_FIRST, MTU, &[reth(16, KEY, 600)]);
    let middle = nic.take(Opcode::WRITE_MIDDLE, MTU, &[]);
    let last = nic.take(Opcode::WRITE_LAST, 88, &[]);
    let places = [&first, &middle, &last].map(|write| (write.address, write.length, write.discard));
    assert_eq!(
        places,
        [
            (MEMORY + 16, 256, false),
            (MEMORY + 272, 256, false),
            (MEMORY + 528, 88, false)
        ]
    );
    assert_eq!(
        [due(&first), due(&middle), due(&last)],
        [(false, true, 0x1F, 0), (false, true, 0x1F, 0), (false, true, 0x1F, 1)]
    );
    assert_eq!((last.psn, last.entropy, last.completion), (0xFF_FFFF, 0xE_1234, false));
    assert_eq!(nic.asked.len(), 1, "the whole message is asked for once");
}

#[test]
fn a_write_longer_than_8_kib_ends_where_it_should() {
    let mut nic = Nic::new(Profile::Solar);
    let length = 33 * MTU as u32 + 1;
    let mut address = MEMORY;
    for packet in 0..=33 {
        let (opcode, payload, headers) = match packet {
            0 => (Opcode::WRITE_FIRST, MTU, vec![reth(0, KEY, length)]),
            33 => (Opcode::WRITE_LAST, 1, vec![]),
            _ => (Opcode::WRITE_MIDDLE, MTU, vec![]),
        };
        let write = nic.take(opcode, payload, &headers);
        assert_eq!((write.address, write.answer), (address, packet == 33));
        address += payload as u64;
    }
    assert_eq!(nic.responder.counters().messages, 1);
}

#[test]
fn a_zero_length_write_or_send_takes_one_psn_and_needs_no_key() {
    for profile in [Profile::Roce, Profile::Solar] {
        let mut nic = Nic::new(profile);
        nic.post(9, 0);
        let write = nic.take(Opcode::WRITE_ONLY, 0, &[reth(5, 0xDEAD_BEEF, 0)]);
        assert_eq!((write.address, due(&write)), (0, (false, true, 0x1F, 1)));
        let send = nic.take(Opcode::SEND_ONLY, 0, &[]);
        assert_eq!(due(&send), (false, true, 0x1F, 2));
        assert_eq!(completion(&send), Some((9, CompletionStatus::Success, 0)));
        let read = nic.take(Opcode::READ_REQUEST, 0, &[reth(5, 0xDEAD_BEEF, 0)]);
        assert_eq!((read.execute, read.byte_count, read.msn), (true, 0, 3));
        assert_eq!([write.psn, send.psn, read.psn], [0xFF_FFFD, 0xFF_FFFE, 0xFF_FFFF]);
    }
}

#[test]
fn a_send_fills_the_oldest_receive_request() {
    let mut nic = Nic::new(Profile::Solar);
    for (cookie, length) in [(1, 300), (2, 10)] {
        assert_eq!(nic.post(cookie, length), Posted::Credit(QPN));
    }
    let first = nic.take(Opcode::SEND_FIRST, MTU, &[]);
    assert_eq!((first.address, first.answer, first.completion), (1 << 32, false, false));
    let last = nic.take(Opcode::SEND_LAST_IMMEDIATE, 44, &[imm(0x0102_0304)]);
    assert_eq!(last.address, (1 << 32) + 256);
    assert_eq!(completion(&last), Some((1, CompletionStatus::Success, 300)));
    assert_eq!((last.has_immediate, last.immediate), (true, 0x0102_0304));
    let only = nic.take(Opcode::SEND_ONLY, 10, &[]);
    assert_eq!((only.address, only.has_immediate), (2 << 32, false));
    assert_eq!(completion(&only), Some((2, CompletionStatus::Success, 10)));
}

#[test]
fn a_write_with_immediate_takes_a_receive_request_and_writes_nothing_to_it() {
    let mut nic = Nic::new(Profile::Roce);
    nic.post(5, 0);
    nic.take(Opcode::WRITE_FIRST, MTU, &[reth(0, KEY, 257)]);
    let last = nic.take(Opcode::WRITE_LAST_IMMEDIATE, 1, &[imm(77)]);
    assert_eq!(last.address, MEMORY + 256);
    assert_eq!(completion(&last), Some((5, CompletionStatus::Success, 257)));
    assert_eq!((last.has_immediate, last.immediate), (true, 77));
    nic.post(6, 0);
    let only = nic.take(Opcode::WRITE_ONLY_IMMEDIATE, 3, &[reth(0, KEY, 3), imm(78)]);
    assert_eq!(
        (completion(&only), only.immediate),
        (Some((6, CompletionStatus::Success, 3)), 78)
    );
    assert!(nak(
        &nic.take(Opcode::WRITE_ONLY_IMMEDIATE, 3, &[reth(0, KEY, 3), imm(78)]),
        NakCode::RemoteOperationalError
    ));
}

#[test]
fn a_send_with_invalidate_makes_the_key_useless() {
    let mut nic = Nic::new(Profile::Solar);
    let key = Ieth { remote_key: KEY }.to_bytes();
    nic.post(1, 4);
    nic.post(2, 4);
    let send = nic.take(Opcode::SEND_ONLY_INVALIDATE, 4, std::slice::from_ref(&key));
    assert_eq!(completion(&send), Some((1, CompletionStatus::Success, 4)));
    assert_eq!((send.has_immediate, send.immediate), (true, KEY));
    assert_eq!(nic.asked[0].right, 3);
    let again = nic.take(Opcode::SEND_ONLY_INVALIDATE, 4, &[key]);
    assert!(nak(&again, NakCode::RemoteAccessError));
    assert_eq!(completion(&again), Some((2, CompletionStatus::RemoteAccess, 0)));
}

#[test]
fn a_key_is_not_invalidated_by_a_send_that_is_refused_or_discarded() {
    let mut nic = Nic::new(Profile::Solar);
    let key = Ieth { remote_key: KEY }.to_bytes();
    nic.post(1, 3);
    assert!(nak(
        &nic.take(Opcode::SEND_ONLY_INVALIDATE, 4, std::slice::from_ref(&key)),
        NakCode::InvalidRequest
    ));
    nic.post(2, 4);
    let discarded = nic.take(Opcode::SEND_ONLY_INVALIDATE, 4, &[key]);
    assert_eq!(
        (due(&discarded).1, completion(&discarded)),
        (false, Some((2, CompletionStatus::Flushed, 0)))
    );
    assert!(nic.asked.is_empty());
}

#[test]
fn reads_and_atomics_are_executed_where_the_peer_may() {
    let atomic = AtomicEth {
        virtual_address: BASE + 8,
        remote_key: KEY,
        swap_add: 0x1111,
        compare: 0x2222,
    };
    for profile in [Profile::Roce, Profile::Solar] {
        let mut nic = Nic::new(profile);
        let read = nic.take(Opcode::READ_REQUEST, 0, &[reth(100, KEY, 5000)]);
        assert_eq!(
            (read.execute, read.address, read.byte_count),
            (true, MEMORY + 100, 5000)
        );
        assert_eq!(due(&read), (false, false, 0x1F, 1), "the response is the answer");
        let swap = nic.take(Opcode::COMPARE_SWAP, 0, &[atomic.to_bytes()]);
        assert_eq!((swap.execute, swap.address, swap.byte_count), (true, MEMORY + 8, 8));
        assert_eq!((swap.swap_add, swap.compare, swap.msn), (0x1111, 0x2222, 2));
        let odd = AtomicEth {
            virtual_address: BASE + 4,
            ..atomic
        };
        assert!(nak(
            &nic.take(Opcode::FETCH_ADD, 0, &[odd.to_bytes()]),
            NakCode::InvalidRequest
        ));
    }
    for opcode in [Opcode::READ_REQUEST, Opcode::WRITE_ONLY, Opcode::COMPARE_SWAP] {
        let mut nic = Nic::new(Profile::Roce);
        let headers = if opcode == Opcode::COMPARE_SWAP {
            atomic.to_bytes()
        } else {
            reth(8, KEY, 0)
        };
        let packet = nic.packet(opcode, 0, &[headers]);
        let forbidden = SequencedPacket {
            remote_write: false,
            remote_read: false,
            remote_atomic: false,
            ..packet
        };
        assert!(nak(&nic.give(&forbidden), NakCode::InvalidRequest), "{opcode}");
    }
}

#[test]
fn a_duplicate_read_while_the_first_is_answered_is_executed_again_and_changes_nothing() {
    let mut nic = Nic::new(Profile::Roce);
    nic.post(1, 4096);
    let packet = nic.packet(Opcode::READ_REQUEST, 0, &[reth(100, KEY, 5000)]);
    let first = nic.give(&packet);
    nic.take(Opcode::SEND_FIRST, MTU, &[]);
    let again = SequencedPacket {
        duplicate: true,
        ..packet
    };
    for _ in 0..2 {
        let write = nic.give(&again);
        let same = PayloadWrite {
            duplicate: true,
            ..first
        };
        assert_eq!(write, same, "no MSN step");
    }
    let with_payload = nic.give(&SequencedPacket {
        payload_length: 4,
        ..again
    });
    assert!(with_payload.discard && !with_payload.execute);
    let last = nic.take(Opcode::SEND_LAST, 4, &[]);
    assert_eq!((last.discard, last.msn), (false, 2), "the SEND goes on");
    nic.regions.write_region(&MemoryRegion {
        valid: false,
        ..region()
    });
    let write = nic.give(&again);
    assert_eq!((write.discard, write.answer, write.execute), (true, false, false));
    assert_eq!(nic.responder.counters().drop_duplicate, 2);
    nic.post(2, 1);
    assert!(!nic.take(Opcode::SEND_ONLY, 1, &[]).discard, "and the queue pair lives");
}

#[test]
fn roce_answers_who_asks_and_records_what_is_done() {
    let mut nic = Nic::new(Profile::Roce);
    nic.post(1, 4096);
    let mut answers = Vec::new();
    for (opcode, payload, ack_request) in [
        (Opcode::SEND_FIRST, MTU, false),
        (Opcode::SEND_MIDDLE, MTU, true),
        (Opcode::SEND_LAST, 1, false),
    ] {
        let packet = SequencedPacket {
            ack_request,
            ..nic.packet(opcode, payload, &[])
        };
        let write = nic.give(&packet);
        answers.push((write.answer, write.silent, write.msn));
    }
    assert_eq!(answers, [(true, true, 0), (true, false, 0), (true, true, 1)]);
}

#[test]
fn mrc_packets_come_in_any_order_and_messages_complete_in_theirs() {
    let mut nic = Nic::new(Profile::Mrc);
    nic.post(1, 0);
    nic.post(2, 0);
    let stamp = Tseth::default().to_bytes();
    // The second message with immediate comes first, stamped; then the first one, last packet first.
    let packet = nic.packet(
        Opcode::MRC_WRITE_ONLY_IMMEDIATE,
        3,
        &[meth(1), stamp, reth(0, KEY, 3), imm(22)],
    );
    let only = nic.give(&SequencedPacket {
        timestamped: true,
        solicited: true,
        ..packet
    });
    assert_eq!((only.address, only.answer, only.completion), (MEMORY, false, false));
    let last = nic.take(
        Opcode::MRC_WRITE_LAST_IMMEDIATE,
        1,
        &[meth(0), reth(512, KEY, 257), imm(11)],
    );
    let first = nic.take(Opcode::MRC_WRITE_FIRST, MTU, &[meth(0), reth(256, KEY, 257)]);
    assert_eq!((last.address, first.address), (MEMORY + 512, MEMORY + 256));
    let done = nic.retire(Opcode::MRC_WRITE_LAST_IMMEDIATE);
    assert_eq!(
        (completion(&done), done.immediate),
        (Some((1, CompletionStatus::Success, 257)), 11)
    );
    assert_eq!((due(&done), done.solicited), ((false, true, 0x1F, 1), false));
    let done = nic.retire(Opcode::MRC_WRITE_LAST_IMMEDIATE);
    assert_eq!(
        (completion(&done), done.immediate),
        (Some((2, CompletionStatus::Success, 3)), 22)
    );
    assert!(done.solicited);
    let plain = nic.retire(Opcode::MRC_WRITE_LAST);
    assert_eq!((plain.completion, due(&plain)), (false, (false, true, 0x1F, 3)));
    assert_eq!(nic.responder.counters().retired, 3);
}

#[test]
fn mrc_immediates_are_of_the_messages_under_way() {
    let mut nic = Nic::new(Profile::Mrc);
    nic.post(1, 0);
    let far = nic.take(Opcode::MRC_WRITE_ONLY_IMMEDIATE, 0, &[meth(4), reth(0, 0, 0), imm(1)]);
    assert!(
        nak(&far, NakCode::InvalidRequest),
        "one more than receive requests can be"
    );
    nic.state(QueuePairState::Reset);
    nic.state(QueuePairState::ReadyToSend);
    nic.post(2, 0);
    let near = nic.take(Opcode::MRC_WRITE_ONLY_IMMEDIATE, 0, &[meth(3), reth(0, 0, 0), imm(1)]);
    assert!(!near.discard);
    let missing = nic.retire(Opcode::MRC_WRITE_LAST_IMMEDIATE);
    assert!(nak(&missing, NakCode::InvalidRequest), "RQMSN 0 never came");
    assert_eq!(
        completion(&missing),
        Some((2, CompletionStatus::RemoteInvalidRequest, 0))
    );
}

#[test]
fn receive_requests_are_credits_until_the_ring_is_full() {
    let mut nic = Nic::new(Profile::Solar);
    for cookie in 0..4 {
        assert_eq!(nic.post(cookie, 1), Posted::Credit(QPN));
    }
    assert_eq!(nic.post(4, 1), Posted::Full);
    nic.take(Opcode::SEND_ONLY, 1, &[]);
    assert_eq!(nic.post(5, 1), Posted::Credit(QPN));
    let unknown = ReceiveRequest {
        qpn: 4,
        ..ReceiveRequest::default()
    };
    assert_eq!(nic.responder.post(&unknown), Posted::NoQueuePair);
    assert_eq!(
        nic.responder.post(&ReceiveRequest { qpn: 0, ..unknown }),
        Posted::NoQueuePair
    );
    let counters = nic.responder.counters();
    assert_eq!((counters.receive_requests, counters.drop_receive_request), (5, 2));
    assert_eq!(counters.drop_receive_request_full, 1);
}

#[test]
fn leaving_the_states_that_receive_forgets_messages() {
    for state in [QueuePairState::Init, QueuePairState::Error, QueuePairState::Reset] {
        let mut nic = Nic::new(Profile::Roce);
        for cookie in 1..=3 {
            nic.post(cookie, 4096);
        }
        nic.take(Opcode::SEND_FIRST, MTU, &[]);
        let flushed: Vec<u64> = nic.state(state).iter().map(|write| write.cookie).collect();
        let late = nic.take(Opcode::SEND_LAST, 1, &[]);
        assert_eq!((due(&late), late.completion), ((true, false, 0x1F, 0), false));
        let expected: &[u64] = match state {
            QueuePairState::Init => &[1],
            QueuePairState::Error => &[1, 2, 3],
            _ => &[],
        };
        assert_eq!(flushed, expected);
        let posted = match state {
            QueuePairState::Init => Posted::Credit(QPN),
            QueuePairState::Error => Posted::Flushed(flush(QPN, 9)),
            _ => Posted::NoQueuePair,
        };
        assert_eq!(nic.post(9, 1), posted);
        assert_eq!(nic.responder.counters().drop_closed, 1);
        nic.state(QueuePairState::ReadyToReceive);
        let kept = if state == QueuePairState::Init { 3 } else { 0 };
        assert_eq!(nic.responder.receive_requests(QPN), kept);
        assert!(!nic.take(Opcode::WRITE_ONLY, 0, &[reth(0, 0, 0)]).discard);
    }
}

#[test]
fn responses_to_own_requests_pass_untouched() {
    let mut nic = Nic::new(Profile::Solar);
    let response = SequencedPacket {
        space: true,
        ..nic.packet(Opcode::READ_RESPONSE_ONLY, 5, &[vec![1, 2, 3, 4]])
    };
    let given = nic
        .responder
        .receive(&response, vec![9; 5], |_| panic!("no memory is named"));
    assert_eq!(given, Given::Response(response, vec![9; 5]));
    assert_eq!(nic.responder.counters().responses, 1);
}
