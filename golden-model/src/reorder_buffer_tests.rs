//! Tests of the reorder buffer model: each rule by an example.

use SequenceOutcome::*;

use super::*;

#[path = "reorder_buffer_properties.rs"]
mod properties;

const WINDOW: u32 = 64;
const SLOTS: u32 = 80;
const QPN: u32 = 1;

/// Four queue pairs with 4 slots each, and 64 for all.
fn config() -> Config {
    Config {
        queue_pairs: 8,
        window: WINDOW,
        pool_slots: SLOTS,
        reorder_queue_pairs: 4,
        guaranteed_slots: 4,
        receive_requests: 8,
    }
}

fn context(qpn: u32, profile: Profile, psn: u32) -> QueuePairContext {
    QueuePairContext {
        qpn,
        state: QueuePairState::ReadyToSend as u8,
        profile: profile.code(),
        mtu: 1,
        psn,
        response_psn: psn ^ 0x80_0000,
        ..QueuePairContext::default()
    }
}

fn buffer(profile: Profile, psn: u32) -> ReorderBuffer {
    let mut buffer = ReorderBuffer::new(config());
    buffer.write_context(&context(QPN, profile, psn));
    buffer
}

fn packet(qpn: u32, space: Space, psn: u32, opcode: u8) -> Arrival {
    Arrival {
        packet: ReceivedPacket {
            qpn,
            opcode,
            psn: wrap(psn),
            payload_length: 4,
            ..ReceivedPacket::default()
        },
        context: PacketContext {
            space: space == Space::Responses,
            mtu: 1,
            ..PacketContext::default()
        },
        payload: wrap(psn).to_le_bytes().to_vec(),
    }
}

fn wrap(psn: u32) -> u32 {
    psn & 0xFF_FFFF
}

/// A packet of queue pair 1 that takes no receive request: SEND middle.
fn middle(psn: u32) -> Arrival {
    packet(QPN, Space::Requests, psn, 0x01)
}

/// A packet of queue pair 1 that takes a receive request: SEND only.
fn send(psn: u32) -> Arrival {
    packet(QPN, Space::Requests, psn, 0x04)
}

fn outcome(buffer: &mut ReorderBuffer, arrival: Arrival) -> SequenceOutcome {
    let (report, given) = buffer.receive(arrival.clone());
    let outcome = outcome_of(&report).expect("a code");
    assert_eq!(given, (outcome == Passed).then(|| arrival.given(false)));
    outcome
}

/// The PSNs that leave a space, in order, until the next one is not there.
fn drain(buffer: &mut ReorderBuffer, qpn: u32, space: Space) -> Vec<u32> {
    let mut psns = Vec::new();
    while buffer.is_releasable(qpn, space) {
        let given = buffer.release(qpn, space).given().expect("it is releasable");
        assert_eq!(given.payload, given.packet.psn.to_le_bytes());
        psns.push(given.packet.psn);
    }
    assert_eq!(buffer.release(qpn, space), Released::Nothing);
    psns
}

#[test]
fn packets_that_come_in_order_need_no_slot() {
    let mut buffer = buffer(Profile::Solar, 0xFF_FFF0);
    for step in 0..100 {
        assert_eq!(outcome(&mut buffer, middle(0xFF_FFF0 + step)), Passed);
        assert_eq!(buffer.free_slots(), SLOTS);
    }
    assert_eq!(buffer.cumulative(QPN, Space::Requests), Some(Psn::new(0xFF_FFF0 + 99)));
}

#[test]
fn a_gap_holds_what_is_behind_it_and_the_packet_that_fills_it_passes_by() {
    let mut buffer = buffer(Profile::Solar, 10);
    for psn in [12, 11, 14] {
        assert_eq!(outcome(&mut buffer, middle(psn)), Stored);
    }
    assert_eq!(drain(&mut buffer, QPN, Space::Requests), []);
    assert_eq!(buffer.cumulative(QPN, Space::Requests), Some(Psn::new(9)));
    assert_eq!(buffer.beyond_gap(QPN, Space::Requests), 3);
    assert_eq!(buffer.sack_bitmap(QPN, Space::Requests, Psn::new(10)), 0b1_0110);
    let (report, given) = buffer.receive(middle(10));
    assert_eq!(given, Some(middle(10).given(false)));
    // Reliability before meaning: 11 and 12 are acknowledged though they still wait.
    assert_eq!((outcome_of(&report), report.cumulative), (Some(Passed), 12));
    assert_eq!(buffer.beyond_gap(QPN, Space::Requests), 1);
    assert_eq!(drain(&mut buffer, QPN, Space::Requests), [11, 12]);
    assert_eq!(buffer.used_slots(QPN), 1);
    assert_eq!(outcome(&mut buffer, middle(13)), Passed);
    assert_eq!(drain(&mut buffer, QPN, Space::Requests), [14]);
    assert_eq!(buffer.free_slots(), SLOTS);
}

#[test]
fn a_window_ends_where_it_ends_from_the_oldest_packet_not_given() {
    for start in [13, 0, 0xFF_FFC1, 0xFF_FFFF, 0x80_0000] {
        let mut buffer = buffer(Profile::Solar, start);
        assert_eq!(outcome(&mut buffer, middle(start + WINDOW)), OutOfWindow);
        assert_eq!(outcome(&mut buffer, middle(start + WINDOW - 1)), Stored);
        assert_eq!(outcome(&mut buffer, middle(start + WINDOW - 1)), Duplicate);
        assert_eq!(outcome(&mut buffer, middle(start.wrapping_sub(1))), Duplicate);
        // At a distance of 2^23 a PSN is older, one less it is newer.
        assert_eq!(outcome(&mut buffer, middle(start + (1 << 23))), Duplicate);
        assert_eq!(outcome(&mut buffer, middle(start + (1 << 23) - 1)), OutOfWindow);
        assert_eq!(outcome(&mut buffer, middle(start)), Passed);
        assert_eq!(outcome(&mut buffer, middle(start + WINDOW)), Stored);
        assert_eq!(buffer.counters().drop_out_of_window, 2);
    }
}

#[test]
fn psns_141_to_144_with_a_base_of_13_and_a_window_of_128_are_answered() {
    let mut buffer = ReorderBuffer::new(Config {
        window: 128,
        ..config()
    });
    buffer.write_context(&context(QPN, Profile::Mrc, 13));
    for psn in 141..=144 {
        let (report, given) = buffer.receive(packet(QPN, Space::Requests, psn, 0xC7));
        assert_eq!((outcome_of(&report), given), (Some(OutOfWindow), None));
        assert_eq!(nack_reason(OutOfWindow), Some(NackReason::PsnOutOfWindow));
    }
    assert_eq!(outcome(&mut buffer, packet(QPN, Space::Requests, 140, 0xC7)), Passed);
}

#[test]
fn a_full_window_acknowledges_all_and_takes_no_more_until_it_is_read() {
    let mut buffer = buffer(Profile::Solar, 0xFF_FFE0);
    assert_eq!(outcome(&mut buffer, send(0xFF_FFE0)), Stored, "no receive request");
    for step in 1..WINDOW {
        assert_eq!(outcome(&mut buffer, middle(0xFF_FFE0 + step)), Stored);
    }
    let last = Psn::new(0xFF_FFE0 + WINDOW - 1);
    assert_eq!(buffer.cumulative(QPN, Space::Requests), Some(last));
    assert_eq!(buffer.beyond_gap(QPN, Space::Requests), 0);
    assert_eq!(buffer.sack_bitmap(QPN, Space::Requests, Psn::new(0xFF_FFE0)), u64::MAX);
    assert_eq!(outcome(&mut buffer, middle(last.value() + 1)), OutOfWindow);
    assert_eq!(buffer.release(QPN, Space::Requests), Released::Nothing);
    buffer.credit(QPN);
    let given = buffer.release(QPN, Space::Requests).given().expect("the first one");
    assert_eq!(given.packet.psn, 0xFF_FFE0);
    // One PSN joined the window, and it is not a packet that was there.
    assert_eq!(buffer.cumulative(QPN, Space::Requests), Some(last));
    assert_eq!(outcome(&mut buffer, middle(last.value() + 1)), Stored);
    assert_eq!(outcome(&mut buffer, middle(last.value() + 1)), Duplicate);
    assert_eq!(drain(&mut buffer, QPN, Space::Requests).len() as u32, WINDOW);
    assert_eq!(buffer.free_slots(), SLOTS);
}

#[test]
fn a_duplicate_of_the_highest_psn_is_no_gap() {
    let mut buffer = buffer(Profile::Solar, 0xFF_FFFF);
    for _ in 0..3 {
        outcome(&mut buffer, middle(0xFF_FFFF));
    }
    assert_eq!(buffer.counters().duplicates, 2);
    assert_eq!(buffer.cumulative(QPN, Space::Requests), Some(Psn::new(0xFF_FFFF)));
    assert_eq!(buffer.sack_bitmap(QPN, Space::Requests, Psn::new(0)), 0);
    assert_eq!(outcome(&mut buffer, middle(0)), Passed);
}

#[test]
fn the_window_moves_by_what_is_complete_and_not_by_the_largest_psn() {
    let mut buffer = buffer(Profile::Solar, 0);
    outcome(&mut buffer, middle(60));
    assert_eq!(buffer.base(QPN, Space::Requests), Some(Psn::new(0)));
    assert_eq!(outcome(&mut buffer, middle(64)), OutOfWindow);
}

#[test]
fn one_queue_pair_cannot_take_what_others_are_guaranteed() {
    let mut buffer = ReorderBuffer::new(Config {
        pool_slots: 20,
        ..config()
    });
    for qpn in 0..4 {
        buffer.write_context(&context(qpn, Profile::Solar, 0));
    }
    // 20 slots, 16 guaranteed: 4 of its own and 4 shared ones.
    for psn in 1..=8 {
        assert_eq!(outcome(&mut buffer, middle(psn)), Stored);
    }
    assert_eq!(outcome(&mut buffer, middle(9)), NoSlot);
    assert_eq!(nack_reason(NoSlot), Some(NackReason::NoPacketBuffer));
    for qpn in [0, 2, 3] {
        for psn in 1..=4 {
            assert_eq!(outcome(&mut buffer, packet(qpn, Space::Requests, psn, 1)), Stored);
        }
        assert_eq!(outcome(&mut buffer, packet(qpn, Space::Requests, 5, 1)), NoSlot);
    }
    assert_eq!(buffer.free_slots(), 0);
    // Every slot is taken; the head passes by and frees its own.
    assert_eq!(outcome(&mut buffer, middle(0)), Passed);
    assert_eq!(drain(&mut buffer, QPN, Space::Requests), [1, 2, 3, 4, 5, 6, 7, 8]);
    // The shared ones are for anybody again.
    for psn in 5..=8 {
        assert_eq!(outcome(&mut buffer, packet(2, Space::Requests, psn, 1)), Stored);
    }
    assert_eq!(outcome(&mut buffer, packet(2, Space::Requests, 9, 1)), NoSlot);
    assert_eq!(buffer.free_slots(), 4);
}

#[test]
fn requests_that_wait_do_not_keep_responses_from_passing() {
    let mut buffer = ReorderBuffer::new(Config {
        pool_slots: 16,
        ..config()
    });
    buffer.write_context(&context(QPN, Profile::Solar, 0));
    for psn in 0..4 {
        assert_eq!(outcome(&mut buffer, send(psn)), Stored);
    }
    assert_eq!(outcome(&mut buffer, send(4)), NoSlot);
    assert!(!buffer.is_releasable(QPN, Space::Requests));
    for step in 0..200 {
        let response = packet(QPN, Space::Responses, 0x80_0000 + step, 0x10);
        assert_eq!(outcome(&mut buffer, response), Passed);
    }
    assert_eq!(buffer.cumulative(QPN, Space::Requests), Some(Psn::new(3)));
    assert_eq!(
        buffer.cumulative(QPN, Space::Responses),
        Some(Psn::new(0x80_0000 + 199))
    );
}

#[test]
fn trimmed_packets_are_asked_for_again_unless_they_are_there() {
    for (profile, opcode) in [(Profile::Solar, 0x01), (Profile::Mrc, 0xCA)] {
        let mut buffer = buffer(profile, 0);
        let trimmed = |psn, code| {
            let mut packet = packet(QPN, Space::Requests, psn, opcode);
            packet.packet.trimmed = code;
            packet
        };
        assert_eq!(outcome(&mut buffer, trimmed(0, 1)), Trimmed);
        assert_eq!(outcome(&mut buffer, trimmed(3, 2)), TrimmedLastHop);
        assert_eq!(outcome(&mut buffer, trimmed(WINDOW, 1)), OutOfWindow);
        outcome(&mut buffer, packet(QPN, Space::Requests, 0, opcode));
        assert_eq!(outcome(&mut buffer, trimmed(0, 1)), Duplicate);
        assert_eq!((buffer.counters().drop_trimmed, buffer.counters().passed), (2, 1));
    }
    assert_eq!(nack_reason(Trimmed), Some(NackReason::Trimmed));
    assert_eq!(nack_reason(TrimmedLastHop), Some(NackReason::TrimmedLastHop));
}

#[test]
fn a_receive_request_is_taken_by_one_packet() {
    let mut buffer = buffer(Profile::Solar, 0);
    // Posted in INIT; more than can be posted are not counted.
    for (state, kept) in [
        (QueuePairState::Reset, 0),
        (QueuePairState::Init, 8),
        (QueuePairState::Error, 0),
    ] {
        (0..20).for_each(|_| buffer.credit(QPN));
        assert_eq!(buffer.credits(QPN), 8);
        buffer.write_context(&QueuePairContext {
            state: state as u8,
            ..context(QPN, Profile::Solar, 0)
        });
        assert_eq!(buffer.credits(QPN), kept, "{state:?}");
    }
    buffer.write_context(&context(QPN, Profile::Solar, 0));
    buffer.credit(QPN);
    buffer.credit(QPN);
    buffer.write_context(&context(QPN, Profile::Solar, 0));
    assert_eq!(outcome(&mut buffer, send(0)), Passed);
    // The second message waits behind a gap, and takes its request when it leaves.
    assert_eq!(outcome(&mut buffer, send(2)), Stored);
    assert_eq!(outcome(&mut buffer, send(3)), Stored);
    assert_eq!(buffer.credits(QPN), 1);
    assert_eq!(outcome(&mut buffer, middle(1)), Passed);
    assert_eq!(drain(&mut buffer, QPN, Space::Requests), [2]);
    assert_eq!((buffer.credits(QPN), buffer.used_slots(QPN)), (0, 1));
    // All but the head has arrived: it is acknowledged, and waits.
    assert_eq!(buffer.cumulative(QPN, Space::Requests), Some(Psn::new(3)));
    buffer.credit(QPN);
    assert_eq!(drain(&mut buffer, QPN, Space::Requests), [3]);
    for (opcode, takes) in [
        (0x00, true),
        (0x01, false),
        (0x03, false),
        (0x09, true),
        (0x0A, false),
        (0x16, false),
        (0x17, true),
        (0xC9, true),
    ] {
        assert_eq!(takes_receive_request(opcode), takes, "{opcode:#x}");
    }
    buffer.credit(8);
    assert_eq!(buffer.credits(8), 0);
}

#[test]
fn mrc_gives_packets_as_they_come_and_tells_messages_in_order() {
    let mut buffer = buffer(Profile::Mrc, 0xFF_FFFE);
    let mut receive = |step: u32, opcode: u8, credit: bool| {
        if credit {
            buffer.credit(QPN);
        }
        let arrival = packet(QPN, Space::Requests, 0xFF_FFFE + step, opcode);
        let (report, given) = buffer.receive(arrival);
        let mut told = Vec::new();
        while buffer.is_releasable(QPN, Space::Requests) {
            if let Released::Given(given) = buffer.release(QPN, Space::Requests) {
                assert!(given.packet.retired && given.payload.is_empty());
                told.push((given.packet.opcode, wrap(given.packet.psn.wrapping_add(2))));
            }
        }
        (outcome_of(&report), given.is_some(), told, wrap(report.cumulative + 3))
    };
    // Two messages of one packet, then one of three: the last ones first.
    assert_eq!(receive(4, 0xC8, false), (Some(Passed), true, vec![], 0));
    assert_eq!(receive(1, 0xCB, false), (Some(NotReady), false, vec![], 0));
    assert_eq!(receive(1, 0xCB, true), (Some(Passed), true, vec![], 0));
    assert_eq!(receive(2, 0xC6, false), (Some(Passed), true, vec![], 0));
    assert_eq!(
        receive(0, 0xCA, false),
        (Some(Passed), true, vec![(0xC8, 0), (0xC9, 1)], 3)
    );
    assert_eq!(receive(2, 0xC6, false), (Some(Duplicate), false, vec![], 3));
    assert_eq!(receive(4, 0xC8, false), (Some(Duplicate), false, vec![], 3));
    assert_eq!(receive(3, 0xC7, false), (Some(Passed), true, vec![(0xC8, 4)], 5));
    assert_eq!(buffer.free_slots(), SLOTS);
    assert_eq!((buffer.counters().retired, buffer.counters().drop_not_ready), (3, 1));
    assert_eq!(nack_reason(NotReady), Some(NackReason::NoResource));
}

#[test]
fn an_mrc_window_that_is_not_retired_does_not_move() {
    let mut buffer = buffer(Profile::Mrc, 10);
    for psn in 10..10 + WINDOW {
        let (report, _) = buffer.receive(packet(QPN, Space::Requests, psn, 0xC7));
        assert_eq!((report.cumulative, report.beyond_gap), (psn, 0));
    }
    let beyond = packet(QPN, Space::Requests, 10 + WINDOW, 0xC7);
    assert_eq!(outcome(&mut buffer, beyond.clone()), OutOfWindow);
    assert_eq!(buffer.release(QPN, Space::Requests), Released::Moved);
    assert_eq!(outcome(&mut buffer, beyond), Passed);
}

/// A READ request of this length.
fn read(psn: u32, length: u32) -> Arrival {
    let mut arrival = packet(QPN, Space::Requests, psn, 0x0C);
    arrival.packet.extension.0[12..16].copy_from_slice(&length.to_be_bytes());
    arrival
}

#[test]
fn roce_asks_once_for_each_gap_and_answers_duplicates() {
    let mut buffer = buffer(Profile::Roce, 0xFF_FFFF);
    assert_eq!(outcome(&mut buffer, middle(0xFF_FFFF)), Passed);
    assert_eq!(outcome(&mut buffer, middle(1)), SequenceFirst);
    assert_eq!(outcome(&mut buffer, middle(2)), Sequence);
    assert_eq!(outcome(&mut buffer, middle(1)), Sequence, "the gap is the same");
    assert_eq!(outcome(&mut buffer, middle(0)), Passed);
    assert_eq!(outcome(&mut buffer, middle(2)), SequenceFirst, "a new gap");
    assert_eq!(outcome(&mut buffer, middle(0xFF_FFFF)), Duplicate);
    assert_eq!(outcome(&mut buffer, middle(1 + (1 << 23))), Duplicate);
    // Duplicates that are answered with data are given again.
    for opcode in [0x0C, 0x13, 0x14] {
        let (report, given) = buffer.receive(packet(QPN, Space::Requests, 0, opcode));
        assert_eq!(outcome_of(&report), Some(Duplicate));
        assert!(given.is_some_and(|given| given.packet.duplicate && given.packet.psn == 0));
    }
    assert_eq!(buffer.cumulative(QPN, Space::Requests), Some(Psn::new(0)));
}

#[test]
fn roce_is_silent_behind_a_packet_that_finds_no_receive_request() {
    let mut buffer = buffer(Profile::Roce, 7);
    assert_eq!(outcome(&mut buffer, send(7)), NotReady);
    assert_eq!(outcome(&mut buffer, send(8)), Sequence, "the RNR NAK asked for it");
    assert_eq!(outcome(&mut buffer, send(7)), NotReady, "again an RNR NAK");
    buffer.credit(QPN);
    assert_eq!(outcome(&mut buffer, send(8)), Sequence);
    assert_eq!(outcome(&mut buffer, send(7)), Passed);
    assert_eq!(outcome(&mut buffer, send(7)), Duplicate, "a duplicate takes none");
    assert_eq!(outcome(&mut buffer, send(8)), NotReady);
    assert_eq!(buffer.credits(QPN), 0);
}

#[test]
fn a_read_takes_the_psns_of_its_responses_in_roce_alone() {
    for (length, psns) in [
        (0, 1),
        (1, 1),
        (256, 1),
        (257, 2),
        (1 << 31, 1 << 23),
        (u32::MAX, 1 << 23),
    ] {
        let mut roce = buffer(Profile::Roce, 5);
        assert_eq!(outcome(&mut roce, read(5, length)), Passed);
        assert_eq!(roce.base(QPN, Space::Requests), Some(Psn::new(5 + psns)));
        let mut solar = buffer(Profile::Solar, 5);
        assert_eq!(outcome(&mut solar, read(5, length)), Passed);
        assert_eq!(solar.base(QPN, Space::Requests), Some(Psn::new(6)));
    }
}

#[test]
fn a_queue_pair_that_is_closed_frees_its_slots_and_opens_at_its_new_psn() {
    let mut buffer = buffer(Profile::Solar, 0);
    for qpn in [0, 2] {
        buffer.write_context(&context(qpn, [Profile::Solar, Profile::Mrc][qpn as usize / 2], 0));
    }
    // Slot 0 is of queue pair 0; queue pair 2 has bits set and no slots.
    outcome(&mut buffer, packet(0, Space::Requests, 9, 1));
    outcome(&mut buffer, packet(2, Space::Requests, 9, 0xCA));
    for psn in 1..20 {
        outcome(&mut buffer, middle(psn));
        outcome(&mut buffer, packet(QPN, Space::Responses, 0x80_0000 + psn, 0x10));
    }
    assert_eq!(buffer.used_slots(QPN), 38);
    // From RTR to RTS nothing moves, whatever PSN stands in the context.
    buffer.write_context(&context(QPN, Profile::Solar, 777));
    assert_eq!(buffer.base(QPN, Space::Requests), Some(Psn::new(0)));
    for (qpn, state) in [(QPN, QueuePairState::Error), (2, QueuePairState::Reset)] {
        let closed = QueuePairContext {
            state: state as u8,
            ..context(qpn, Profile::Solar, 0)
        };
        buffer.write_context(&closed);
    }
    assert_eq!(
        (buffer.used_slots(QPN), buffer.free_slots(), buffer.counters().flushed),
        (0, SLOTS - 1, 38)
    );
    assert_eq!(outcome(&mut buffer, middle(0)), Closed);
    assert_eq!(buffer.cumulative(QPN, Space::Requests), None);
    assert_eq!(buffer.release(QPN, Space::Requests), Released::Nothing);
    buffer.write_context(&context(QPN, Profile::Solar, 500));
    assert_eq!(outcome(&mut buffer, middle(0)), Duplicate);
    assert_eq!(outcome(&mut buffer, middle(500)), Passed);
    assert_eq!(outcome(&mut buffer, packet(0, Space::Requests, 0, 4)), Stored);
    buffer.write_context(&context(8, Profile::Solar, 0));
    assert_eq!(outcome(&mut buffer, packet(8, Space::Requests, 0, 1)), Closed);
    // Queue pair 5 has no guarantee: it does not open.
    buffer.write_context(&context(5, Profile::Solar, 0));
    assert_eq!(outcome(&mut buffer, packet(5, Space::Requests, 0, 1)), Closed);
}
