//! Responses that are expected, and those that are not.

use proptest::prelude::*;

use super::*;
use spraynic_config::descriptor::Extension;
use spraynic_config::descriptor::RequestExtension;

const MTU: u32 = 256;

fn requester(profile: Profile) -> Requester {
    let mut requester = Requester::new(Config {
        queue_pairs: 2,
        reads: 4,
    });
    requester.write_context(&context(profile, QueuePairState::ReadyToSend));
    requester
}

fn context(profile: Profile, state: QueuePairState) -> SendContext {
    SendContext {
        qpn: 1,
        state: state as u8,
        profile: profile.code(),
        mtu: 1,
        ..SendContext::default()
    }
}

fn read(length: u32, address: u64) -> WorkRequest {
    WorkRequest {
        opcode: WorkOpcode::Read as u8,
        qpn: 1,
        local_address: address,
        length,
        ..WorkRequest::default()
    }
}

fn expect(requester: &mut Requester, request: &WorkRequest, slice: &WorkSlice) {
    if let Some(expected) = expected_response(request, slice) {
        requester.expect(&expected);
    }
}

/// Where a packet's payload goes, and what ends with it once memory has it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    write: Option<(u64, u16)>,
    original: Option<u64>,
    done: Option<ResponseDone>,
}

impl From<Option<Given>> for Outcome {
    fn from(given: Option<Given>) -> Self {
        let write = given.map(|given| given.write);
        Self {
            write: write
                .filter(|write| write.length > 0)
                .map(|write| (write.address, write.length)),
            original: given.and_then(|given| given.original).map(u64::from_le_bytes),
            done: write.filter(|write| write.answer).map(|write| response_done(&write)),
        }
    }
}

fn respond(requester: &mut Requester, packet: &SequencedPacket) -> Outcome {
    requester.response(packet).into()
}

fn feed(requester: &mut Requester, packet: &ReceivedPacket) -> Outcome {
    requester.feedback(packet).into()
}

fn slice(slot: u8, psn: u32) -> WorkSlice {
    WorkSlice {
        slot,
        psn,
        packets: 1,
        ..WorkSlice::default()
    }
}

fn opcode_of(index: u32, count: u32) -> Opcode {
    match (index == 0, index + 1 == count) {
        (true, true) => Opcode::READ_RESPONSE_ONLY,
        (true, false) => Opcode::READ_RESPONSE_FIRST,
        (false, false) => Opcode::READ_RESPONSE_MIDDLE,
        (false, true) => Opcode::READ_RESPONSE_LAST,
    }
}

fn sequenced(opcode: Opcode, length: u32) -> SequencedPacket {
    SequencedPacket {
        qpn: 1,
        opcode: opcode.0,
        space: true,
        payload_length: length as u16,
        ..SequencedPacket::default()
    }
}

fn received(opcode: Opcode, psn: u32, length: u32) -> ReceivedPacket {
    ReceivedPacket {
        qpn: 1,
        opcode: opcode.0,
        psn: psn & 0xFF_FFFF,
        payload_length: length as u16,
        ..ReceivedPacket::default()
    }
}

/// Lengths of the packets of a message.
fn lengths(length: u32) -> Vec<u32> {
    let count = length.div_ceil(MTU).max(1);
    (0..count).map(|index| (length - index * MTU).min(MTU)).collect()
}

proptest! {
    /// solar: READs of any length fill their buffers byte for byte, in order, each done once with its last packet.
    #[test]
    fn reads_fill_their_buffers_and_end_once(all in proptest::collection::vec(0u32..1500, 1..5)) {
        let mut requester = requester(Profile::Solar);
        for (slot, &length) in all.iter().enumerate() {
            expect(&mut requester, &read(length, slot as u64 * 0x1_0000), &slice(slot as u8, 0));
        }
        let expected_at_once = all.len().min(4);
        prop_assert_eq!(requester.expected(1), expected_at_once);
        for (slot, &length) in all.iter().enumerate().take(expected_at_once) {
            let lengths = lengths(length);
            let count = lengths.len() as u32;
            let mut address = slot as u64 * 0x1_0000;
            for (index, bytes) in lengths.into_iter().enumerate() {
                let given = respond(&mut requester, &sequenced(opcode_of(index as u32, count), bytes));
                let write = (bytes > 0).then_some((address, bytes as u16));
                prop_assert_eq!(given.write, write);
                prop_assert_eq!(given.original, None);
                let done = (index as u32 + 1 == count).then_some(ResponseDone { qpn: 1, slot: slot as u8, status: 0 });
                prop_assert_eq!(given.done, done);
                address += u64::from(bytes);
            }
        }
        let counters = *requester.counters();
        prop_assert_eq!(counters.done as usize, expected_at_once);
        prop_assert_eq!((counters.failed, counters.drop_unexpected), (0, 0));
        prop_assert_eq!(counters.drop_expected as usize, all.len() - expected_at_once);
    }

    /// roce: of any mixture of repeated and early packets only the next one counts, across the wrap of the PSN.
    #[test]
    fn roce_takes_only_the_next_psn(length in 1u32..1500, first in prop_oneof![Just(0xFF_FFFEu32), Just(7)], order in proptest::collection::vec(0u32..6, 0..60)) {
        let mut requester = requester(Profile::Roce);
        expect(&mut requester, &read(length, 0), &slice(3, first));
        let lengths = lengths(length);
        let count = lengths.len() as u32;
        let mut next = 0;
        for index in order.into_iter().chain(0..count) {
            let bytes = lengths.get(index as usize).copied().unwrap_or(MTU);
            let given = feed(&mut requester, &received(opcode_of(index, count), first + index, bytes));
            let taken = index == next && next < count;
            prop_assert_eq!(given.write.is_some(), taken);
            prop_assert_eq!(given.done.is_some(), taken && index + 1 == count);
            next += u32::from(taken);
        }
        prop_assert_eq!(next, count);
        prop_assert_eq!(requester.expected(1), 0);
    }

    /// Whatever comes, nothing is written outside of what is expected, and each expectation ends at most once.
    #[test]
    fn nothing_that_comes_writes_outside(packets in proptest::collection::vec((0u8..32, 0u32..4097, any::<bool>()), 0..60)) {
        let mut requester = requester(Profile::Solar);
        for slot in 0..3 {
            expect(&mut requester, &read(700, 0x1000 * u64::from(slot) + 0x1000), &slice(slot, 0));
        }
        let mut ended = Vec::new();
        for (opcode, length, space) in packets {
            let given = respond(&mut requester, &SequencedPacket { space, ..sequenced(Opcode(opcode), length) });
            if let Some((address, length)) = given.write {
                let offset = address & 0xFFF;
                prop_assert!(address >= 0x1000 && offset + u64::from(length) <= 700, "{address} {length}");
            }
            ended.extend(given.done.map(|done| done.slot));
        }
        prop_assert!(ended.is_sorted() && ended.windows(2).all(|two| two[0] != two[1]), "{ended:?}");
    }
}

#[test]
fn an_atomic_leaves_the_old_value() {
    let mut requester = requester(Profile::Solar);
    let request = WorkRequest {
        opcode: WorkOpcode::FetchAdd as u8,
        ..read(8, 0x40)
    };
    expect(&mut requester, &request, &slice(2, 0));
    let mut extension = RequestExtension::default();
    extension.0[4..12].copy_from_slice(&0x0102_0304_0506_0708u64.to_be_bytes());
    let given = respond(
        &mut requester,
        &SequencedPacket {
            extension,
            ..sequenced(Opcode::ATOMIC_ACKNOWLEDGE, 0)
        },
    );
    assert_eq!(given.original, Some(0x0102_0304_0506_0708));
    assert_eq!(given.write, Some((0x40, 8)));
    assert_eq!(
        given.done,
        Some(ResponseDone {
            qpn: 1,
            slot: 2,
            status: 0
        })
    );
}

#[test]
fn roce_reads_the_old_value_from_the_extension_too() {
    let mut requester = requester(Profile::Roce);
    let request = WorkRequest {
        opcode: WorkOpcode::CompareSwap as u8,
        ..read(8, 0x40)
    };
    expect(&mut requester, &request, &slice(0, 9));
    let mut extension = Extension::default();
    extension.0[4..12].copy_from_slice(&7u64.to_be_bytes());
    let given = feed(
        &mut requester,
        &ReceivedPacket {
            extension,
            ..received(Opcode::ATOMIC_ACKNOWLEDGE, 9, 0)
        },
    );
    assert_eq!(given.original, Some(7));
}

#[test]
fn a_response_that_was_not_asked_for_fails_the_queue_pair_once() {
    let wrong = [
        (Opcode::READ_RESPONSE_ONLY, 255),
        (Opcode::READ_RESPONSE_ONLY, 257),
        (Opcode::READ_RESPONSE_FIRST, 256),
        (Opcode::READ_RESPONSE_LAST, 256),
        (Opcode::ATOMIC_ACKNOWLEDGE, 0),
    ];
    for (opcode, length) in wrong {
        let mut requester = requester(Profile::Solar);
        expect(&mut requester, &read(256, 0), &slice(5, 0));
        let given = respond(&mut requester, &sequenced(opcode, length));
        let status = CompletionStatus::BadResponse as u8;
        assert_eq!(
            given.done,
            Some(ResponseDone {
                qpn: 1,
                slot: 5,
                status
            }),
            "{opcode:?} {length}"
        );
        assert_eq!(given.write, None);
        let behind = respond(&mut requester, &sequenced(Opcode::READ_RESPONSE_ONLY, 256));
        assert_eq!(behind, Outcome::default());
        assert_eq!(requester.counters().failed, 1);
    }
}

#[test]
fn a_read_of_roce_that_was_asked_for_again_begins_anew_in_its_middle() {
    let mut requester = requester(Profile::Roce);
    expect(&mut requester, &read(768, 0), &slice(0, 10));
    assert!(
        feed(&mut requester, &received(Opcode::READ_RESPONSE_FIRST, 10, 256))
            .write
            .is_some()
    );
    // PSN 11 was lost: the rest is asked for by a request of its own.
    assert_eq!(requester.next_psn(1), Some(Psn::new(11)));
    assert_eq!(
        feed(&mut requester, &received(Opcode::READ_RESPONSE_LAST, 12, 256)),
        Outcome::default()
    );
    let given = feed(&mut requester, &received(Opcode::READ_RESPONSE_FIRST, 11, 256));
    assert_eq!(given.write, Some((256, 256)));
    assert!(
        feed(&mut requester, &received(Opcode::READ_RESPONSE_LAST, 12, 256))
            .done
            .is_some()
    );
    assert_eq!(requester.counters().drop_sequence, 1);
}

#[test]
fn what_memory_refuses_shows_in_the_status() {
    let mut requester = requester(Profile::Solar);
    expect(&mut requester, &read(256, 0), &slice(1, 0));
    let given = requester.response(&sequenced(Opcode::READ_RESPONSE_ONLY, 256)).unwrap();
    // As payload_writer gives it back.
    let refused = PayloadWrite {
        syndrome: Syndrome::Nak(NakCode::RemoteOperationalError).byte(),
        ..given.write
    };
    assert_eq!(response_done(&given.write).status, CompletionStatus::Success as u8);
    assert_eq!(response_done(&refused).status, CompletionStatus::LocalMemory as u8);
}

#[test]
fn a_closed_queue_pair_waits_for_nothing() {
    let mut requester = requester(Profile::Solar);
    expect(&mut requester, &read(256, 0), &slice(0, 0));
    requester.write_context(&context(Profile::Solar, QueuePairState::Error));
    assert_eq!(
        respond(&mut requester, &sequenced(Opcode::READ_RESPONSE_ONLY, 256)),
        Outcome::default()
    );
    assert_eq!(requester.counters().drop_unexpected, 1);
    requester.write_context(&context(Profile::Solar, QueuePairState::ReadyToSend));
    assert_eq!(requester.expected(1), 0);
}

#[test]
fn what_is_sent_again_is_expected_once() {
    let mut requester = requester(Profile::Solar);
    let again = WorkSlice {
        retransmission: true,
        ..slice(0, 0)
    };
    expect(&mut requester, &read(256, 0), &slice(0, 0));
    expect(&mut requester, &read(256, 0), &again);
    assert_eq!(requester.expected(1), 1);
}
