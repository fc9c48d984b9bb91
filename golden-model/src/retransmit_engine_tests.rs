//! Tests of the retransmit engine model: each rule by an example.

use spraynic_config::descriptor::{CompletionStatus, Extension, PathEventKind};
use spraynic_wire::{CcState, Header, NackReason, NakCode, Neth, Peth, RnrTimer, Seth, Syndrome};

use super::*;

#[path = "retransmit_engine_network.rs"]
mod network;
#[path = "retransmit_engine_properties.rs"]
mod properties;
#[path = "retransmit_engine_roce_tests.rs"]
mod roce;

const QPN: u32 = 1;
const RTT_NS: u32 = 10_000;
const TIMEOUT_NS: u32 = 100_000;

fn context(profile: Profile) -> SendContext {
    SendContext {
        qpn: QPN,
        state: QueuePairState::ReadyToSend as u8,
        profile: profile.code(),
        policy: 2,
        path_set: 5,
        window: 64,
        retry_limit: 2,
        rnr_retry: 1,
        psn: 100,
        sent_response_psn: 900,
        peer_qpn: 7,
        ooo_threshold: 3,
        base_rtt_ns: RTT_NS,
        timeout_ns: TIMEOUT_NS,
        ..SendContext::default()
    }
}

fn engine(profile: Profile) -> RetransmitEngine {
    let mut engine = RetransmitEngine::new(Config {
        queue_pairs: 4,
        window: 64,
        paths: 8,
        reads: 4,
    });
    engine.write_context(&context(profile));
    engine
}

/// A packet that leaves by a path; entropy value 0x100 + path.
fn packet(psn: u32, path: u8) -> SentPacket {
    SentPacket {
        qpn: QPN,
        psn,
        psns: 1,
        slot: psn as u8,
        path,
        entropy: 0x100 + u16::from(path),
        ..SentPacket::default()
    }
}

/// Sends PSNs 100 and following, by these paths, at time 0.
fn solar(paths: &[u8]) -> RetransmitEngine {
    let mut engine = engine(Profile::Solar);
    for (psn, path) in (100..).zip(paths) {
        engine.sent(&packet(psn, *path), 0);
    }
    while engine.next_path_event().is_some() {}
    engine
}

fn received(opcode: Opcode, psn: u32, headers: &[&[u8]]) -> ReceivedPacket {
    let bytes = headers.concat();
    let mut extension = Extension::default();
    extension.0[..bytes.len()].copy_from_slice(&bytes);
    ReceivedPacket {
        qpn: QPN,
        opcode: opcode.0,
        psn,
        extension_words: (bytes.len() / 4) as u8,
        extension,
        ..ReceivedPacket::default()
    }
}

/// A SACK as an honest receiver gives it that has all up to `cumulative`, and `beyond` of the 64 PSNs behind it.
fn sack(cumulative: u32, beyond: u64) -> Seth {
    Seth {
        cack_psn: Psn::new(cumulative),
        sack_offset: 1,
        sack_bitmap: beyond,
        ..Seth::default()
    }
}

fn feed_sack(engine: &mut RetransmitEngine, seth: Seth, now_ns: u64) {
    let state = CcState {
        ooo_count: seth.sack_bitmap.count_ones() as u16,
        ..CcState::default()
    };
    let packet = received(
        Opcode::SACK,
        seth.cack_psn.value(),
        &[&seth.to_bytes(), &state.to_bytes()],
    );
    engine.feedback(&packet, &PacketContext::default(), now_ns);
}

fn feed_nack(engine: &mut RetransmitEngine, psn: u32, path: u8, reason: NackReason, now_ns: u64) {
    let neth = Neth {
        reason,
        nack_psn: Psn::new(psn),
        entropy: 0x100 + u32::from(path),
        ..Neth::default()
    };
    let packet = received(Opcode::NACK, psn, &[&neth.to_bytes()]);
    engine.feedback(&packet, &PacketContext::default(), now_ns);
}

fn feed_ack(engine: &mut RetransmitEngine, psn: u32, syndrome: Syndrome, now_ns: u64) {
    let packet = received(Opcode::ACKNOWLEDGE, psn, &[&[syndrome.byte(), 0, 0, 0]]);
    engine.feedback(&packet, &PacketContext::default(), now_ns);
}

fn resends(engine: &mut RetransmitEngine) -> Vec<u32> {
    std::iter::from_fn(|| engine.next_resend())
        .map(|resend| resend.psn)
        .collect()
}

fn events(engine: &mut RetransmitEngine) -> Vec<(PathEventKind, u8)> {
    std::iter::from_fn(|| engine.next_path_event())
        .map(|event| (PathEventKind::from_code(event.kind).expect("a kind"), event.path))
        .collect()
}

/// Base, done and, of a failure, the status.
fn progress(engine: &mut RetransmitEngine) -> Option<(u32, u32, Option<u8>)> {
    let last = std::iter::from_fn(|| engine.next_progress()).last()?;
    Some((last.base, last.done, last.failed.then_some(last.status)))
}

#[test]
fn a_hole_is_a_loss_when_a_later_packet_of_its_path_arrived() {
    let mut engine = solar(&[0, 1, 0, 1]);
    feed_sack(&mut engine, sack(99, 0b1000), 5_000);
    assert_eq!(resends(&mut engine), [101], "the other path may be slower");
    assert_eq!(
        events(&mut engine),
        [(PathEventKind::Delivered, 1), (PathEventKind::Lost, 1)]
    );
    feed_sack(&mut engine, sack(99, 0b1000), 6_000);
    assert_eq!(resends(&mut engine), [0; 0], "once for the same evidence");
    engine.sent(
        &SentPacket {
            retransmission: true,
            ..packet(101, 1)
        },
        7_000,
    );
    feed_sack(&mut engine, sack(99, 0b1000), 8_000);
    assert_eq!(
        resends(&mut engine),
        [0; 0],
        "evidence older than the last transmission"
    );
}

#[test]
fn packets_of_another_class_keep_no_order() {
    let mut engine = solar(&[]);
    engine.sent(&packet(100, 0), 0);
    engine.sent(
        &SentPacket {
            class: 1,
            ..packet(101, 0)
        },
        0,
    );
    feed_sack(&mut engine, sack(99, 0b10), 5_000);
    assert_eq!(resends(&mut engine), [0; 0]);
}

#[test]
fn a_sack_older_than_what_is_known_shows_no_loss() {
    let mut engine = solar(&[0, 0, 0, 0]);
    // The newer one says nothing of 100; its bitmap begins at 102.
    feed_sack(
        &mut engine,
        Seth {
            sack_offset: 64,
            sack_bitmap: 0,
            ..sack(101, 0)
        },
        5_000,
    );
    feed_sack(&mut engine, sack(99, 0b10), 5_100);
    assert_eq!(resends(&mut engine), [0; 0]);
    assert_eq!(progress(&mut engine), Some((102, 100, None)));
}

#[test]
fn a_hole_that_no_sack_covers_waits_for_one_that_does() {
    let mut engine = engine(Profile::Solar);
    for psn in 100..160 {
        engine.sent(&packet(psn, u8::from(psn == 110 || psn == 150)), 0);
    }
    // 100 is missing, and so is 110; the bitmap of this SACK begins behind both: it shows 150.
    let far = Seth {
        sack_offset: 50,
        sack_bitmap: 0b10,
        ..sack(99, 0)
    };
    feed_sack(&mut engine, far, 5_000);
    assert_eq!(resends(&mut engine), [0; 0]);
    feed_sack(&mut engine, sack(99, 1 << 50), 5_000);
    assert_eq!(resends(&mut engine), [110]);
}

#[test]
fn without_cc_state_a_sack_acknowledges_but_shows_no_loss() {
    let mut engine = solar(&[0, 0]);
    let packet = received(Opcode::SACK, 99, &[&sack(99, 0b10).to_bytes()]);
    engine.feedback(&packet, &PacketContext::default(), 5_000);
    assert_eq!(resends(&mut engine), [0; 0]);
    assert_eq!(events(&mut engine), [(PathEventKind::Delivered, 0)]);
}

#[test]
fn later_packets_of_other_paths_tell_when_they_are_many_and_a_round_trip_has_passed() {
    let mut engine = solar(&[0, 1, 2, 3, 4, 5]);
    feed_sack(&mut engine, sack(99, 0b01110), 20_000);
    assert_eq!(resends(&mut engine), [0; 0], "three are not more than three");
    feed_sack(&mut engine, sack(99, 0b11110), 9_000);
    assert_eq!(resends(&mut engine), [0; 0], "it is too early");
    feed_sack(&mut engine, sack(99, 0b11110), 10_100);
    assert_eq!(resends(&mut engine), [100]);
}

#[test]
fn of_a_packet_sent_twice_nobody_knows_which_copy_arrived_unless_the_sack_names_it() {
    for (named, expected) in [
        (
            0x101,
            vec![(PathEventKind::Acknowledged, 1), (PathEventKind::Delivered, 1)],
        ),
        (0x100, vec![]),
    ] {
        let mut engine = solar(&[0]);
        engine.sent(
            &SentPacket {
                retransmission: true,
                ..packet(100, 1)
            },
            1_000,
        );
        while engine.next_path_event().is_some() {}
        feed_sack(
            &mut engine,
            Seth {
                entropy: named,
                ..sack(100, 0)
            },
            5_000,
        );
        assert_eq!(events(&mut engine), expected);
    }
}

#[test]
fn a_sack_tells_the_state_of_the_path_of_the_packet_that_it_names() {
    let mut engine = solar(&[0, 1, 2]);
    let marked = Seth {
        feedback: spraynic_wire::PathFeedback::SkipOnce,
        ack_psn_offset: 1,
        entropy: 0x101,
        ..sack(100, 0b1)
    };
    feed_sack(
        &mut engine,
        Seth {
            sack_bitmap: 0,
            ..marked
        },
        1_000,
    );
    assert_eq!(events(&mut engine)[0], (PathEventKind::Marked, 1));
}

#[test]
fn what_was_never_sent_is_never_acknowledged() {
    let beyond = [
        sack(102, 0),
        sack(99, 0b1000),
        Seth {
            sack_offset: 200,
            ..sack(99, 1)
        },
        sack(0x80_0000, 0),
    ];
    for seth in beyond {
        let mut engine = solar(&[0, 0]);
        feed_sack(&mut engine, seth, 1_000);
        assert_eq!(
            (
                engine.counters().drop_incredible,
                engine.outstanding(QPN, Space::Requests)
            ),
            (1, Some(2)),
            "{seth:?}"
        );
    }
    let mut engine = solar(&[0, 0]);
    feed_ack(&mut engine, 102, Syndrome::ACK, 1_000);
    feed_nack(&mut engine, 102, 0, NackReason::Trimmed, 1_000);
    assert_eq!(engine.counters().drop_incredible, 2);
    assert_eq!(resends(&mut engine), [0; 0]);
    assert_eq!(progress(&mut engine), None);
}

#[test]
fn a_bitmap_that_begins_half_of_all_psns_away_means_nothing() {
    let mut engine = solar(&[0, 0]);
    events(&mut engine);
    // Its cumulative and its highest PSN look long past; bit 20 stands where PSN 100 does in a window.
    let seth = Seth {
        sack_offset: -30,
        sack_bitmap: 1 << 20 | 1 << 40,
        ..sack(0x80_0000 + 110, 0)
    };
    feed_sack(&mut engine, seth, 1_000);
    assert_eq!(engine.counters().sacks, 1);
    assert_eq!(engine.outstanding(QPN, Space::Requests), Some(2));
    assert_eq!(events(&mut engine), []);
}

#[test]
fn a_nack_speaks_of_the_copy_whose_entropy_value_it_has() {
    let mut engine = solar(&[0]);
    feed_nack(&mut engine, 100, 0, NackReason::Trimmed, 5_000);
    assert_eq!(resends(&mut engine), [100]);
    assert_eq!(events(&mut engine), [(PathEventKind::Trimmed, 0)]);
    engine.sent(
        &SentPacket {
            retransmission: true,
            ..packet(100, 1)
        },
        6_000,
    );
    feed_nack(&mut engine, 100, 0, NackReason::Trimmed, 7_000);
    assert_eq!(resends(&mut engine), [0; 0], "of the first copy");
    feed_nack(&mut engine, 100, 1, NackReason::TrimmedLastHop, 8_000);
    assert_eq!(resends(&mut engine), [100]);
    engine.sent(
        &SentPacket {
            retransmission: true,
            ..packet(100, 1)
        },
        9_000,
    );
    feed_nack(&mut engine, 100, 1, NackReason::TrimmedLastHop, 10_000);
    assert_eq!(
        resends(&mut engine),
        [0; 0],
        "the third copy cannot have come back already"
    );
    feed_nack(&mut engine, 100, 1, NackReason::TrimmedLastHop, 20_000);
    assert_eq!(resends(&mut engine), [100]);
}

#[test]
fn a_probe_asks_for_the_ack_that_is_missing() {
    let mut engine = engine(Profile::Solar);
    engine.sent(
        &SentPacket {
            last: true,
            ..packet(100, 3)
        },
        0,
    );
    feed_sack(&mut engine, sack(100, 0), 5_000);
    assert_eq!(progress(&mut engine), Some((101, 100, None)));
    assert_eq!(engine.next_deadline_ns(), Some(105_000));
    // An answered probe is patience, not failure: beyond the limit of two.
    let mut now_ns = 105_000;
    for id in 1..6 {
        engine.expire_due(now_ns);
        let probe = engine.next_control().expect("a probe");
        let peth = Peth::parse(&probe.extension.0).expect("PETH");
        assert_eq!((probe.opcode, probe.entropy, probe.stamp), (0xDE, 0x103, 2));
        assert_eq!((peth.probe_id, peth.spdcid, peth.dpdcid), (id, 1, 7));
        feed_sack(
            &mut engine,
            Seth {
                probe_response: true,
                ack_psn_offset: id as i16,
                ..sack(100, 0)
            },
            now_ns,
        );
        now_ns = engine.next_deadline_ns().expect("the ACK is still missing");
    }
    feed_ack(&mut engine, 100, Syndrome::ACK, now_ns);
    assert_eq!(progress(&mut engine), Some((101, 101, None)));
    assert_eq!(engine.next_deadline_ns(), None);
}

#[test]
fn probes_without_answer_end_the_queue_pair() {
    let mut engine = engine(Profile::Mrc);
    engine.sent(
        &SentPacket {
            last: true,
            ..packet(100, 3)
        },
        0,
    );
    feed_sack(&mut engine, sack(100, 0), 0);
    for now_ns in [100_000, 300_000, 700_000] {
        assert_eq!(engine.next_deadline_ns(), Some(now_ns));
        engine.expire_due(now_ns);
    }
    assert_eq!(
        progress(&mut engine),
        Some((101, 100, Some(CompletionStatus::RetryExceeded as u8)))
    );
    assert_eq!(engine.next_deadline_ns(), None);
}

#[test]
fn the_response_of_a_read_is_no_ack_that_could_be_missing() {
    let mut engine = engine(Profile::Solar);
    engine.sent(
        &SentPacket {
            last: true,
            response: true,
            ..packet(100, 3)
        },
        0,
    );
    feed_sack(&mut engine, sack(100, 0), 5_000);
    assert_eq!(engine.next_deadline_ns(), None);
}

#[test]
fn a_nak_fails_the_queue_pair_behind_what_was_done() {
    for (code, status) in [
        (NakCode::InvalidRequest, CompletionStatus::RemoteInvalidRequest),
        (NakCode::RemoteAccessError, CompletionStatus::RemoteAccess),
        (NakCode::RemoteOperationalError, CompletionStatus::RemoteOperational),
    ] {
        let mut engine = solar(&[0, 1, 2]);
        feed_ack(&mut engine, 101, Syndrome::Nak(code), 1_000);
        assert_eq!(progress(&mut engine), Some((101, 101, Some(status as u8))));
        engine.sent(&packet(103, 0), 2_000);
        assert_eq!((engine.counters().sent_ignored, engine.next_deadline_ns()), (1, None));
        // Still RTS: it stays closed. By way of RESET it opens again.
        engine.write_context(&context(Profile::Solar));
        assert_eq!(engine.outstanding(QPN, Space::Requests), None);
        engine.write_context(&SendContext {
            state: 0,
            ..context(Profile::Solar)
        });
        engine.write_context(&context(Profile::Solar));
        assert_eq!(engine.outstanding(QPN, Space::Requests), Some(0));
    }
}

#[test]
fn responses_are_a_space_of_their_own() {
    let mut engine = engine(Profile::Solar);
    engine.sent(&packet(100, 0), 0);
    for psn in 900..903 {
        engine.sent(
            &SentPacket {
                space: true,
                last: true,
                ..packet(psn, 2)
            },
            0,
        );
    }
    let seth = Seth {
        space: spraynic_wire::SequenceSpace::Responses,
        ..sack(900, 0b10)
    };
    feed_sack(&mut engine, seth, 1_000);
    let progress = engine.next_progress().expect("progress");
    assert_eq!((progress.space, progress.base, progress.done), (true, 901, 901));
    let resend = engine.next_resend().expect("901 is lost");
    assert_eq!((resend.space, resend.psn), (true, 901));
    // No ACK ends a response: when all have arrived, nothing is awaited.
    let seth = Seth {
        space: spraynic_wire::SequenceSpace::Responses,
        ..sack(902, 0)
    };
    feed_sack(&mut engine, seth, 2_000);
    assert_eq!(engine.due_ns(QPN, Space::Responses), None);
    assert_eq!(engine.outstanding(QPN, Space::Requests), Some(1));
}

#[test]
fn a_packet_that_waits_to_be_sent_again_is_no_timeout() {
    let mut engine = solar(&[0, 0]);
    feed_sack(&mut engine, sack(99, 0b10), 1_000);
    for _ in 0..20 {
        let due_ns = engine.next_deadline_ns().expect("outstanding");
        engine.expire_due(due_ns);
    }
    assert_eq!((engine.counters().timeouts, engine.counters().failures), (0, 0));
}

#[test]
fn policy_fixed_has_no_paths_to_tell_of() {
    let mut engine = engine(Profile::Solar);
    engine.write_context(&SendContext {
        policy: 0,
        ..context(Profile::Solar)
    });
    engine.sent(&packet(100, 0), 0);
    feed_sack(&mut engine, sack(100, 0), 1_000);
    assert_eq!(events(&mut engine), []);
}

#[test]
fn what_the_peer_has_no_room_for_waits_for_a_later_sack_and_no_path_is_blamed() {
    for reason in [
        NackReason::NoPacketBuffer,
        NackReason::NoResource,
        NackReason::NoBitmap,
        NackReason::PsnOutOfWindow,
        NackReason::Unexpected,
    ] {
        let mut engine = solar(&[0, 1, 2, 3]);
        feed_nack(&mut engine, 102, 2, reason, 5_000);
        assert_eq!(resends(&mut engine), [0; 0], "{reason:?}");
        assert_eq!((engine.counters().nacks, engine.counters().lost_nack), (1, 0));
        // One that does not speak of it, then one that does.
        feed_sack(&mut engine, sack(99, 0b10), 6_000);
        assert_eq!(resends(&mut engine), [102], "{reason:?}");
        assert_eq!(engine.counters().lost_sack, 1);
        assert_eq!(events(&mut engine), [(PathEventKind::Delivered, 1)]);
        // It is sent again, lost on its way, and then its path is to blame.
        engine.sent(&packet(102, 2), 7_000);
        engine.sent(&packet(104, 2), 7_100);
        while engine.next_path_event().is_some() {}
        feed_sack(&mut engine, sack(99, 0b10010), 9_000);
        assert_eq!(resends(&mut engine), [102], "{reason:?}");
        assert_eq!(
            events(&mut engine),
            [(PathEventKind::Delivered, 2), (PathEventKind::Lost, 2)]
        );
    }
}

#[test]
fn the_oldest_packet_is_sent_again_at_once_whatever_the_peer_lacks() {
    let mut engine = solar(&[0, 1]);
    feed_nack(&mut engine, 100, 0, NackReason::NoResource, 5_000);
    assert_eq!(resends(&mut engine), [100]);
    assert_eq!((engine.counters().nacks, engine.counters().lost_nack), (1, 1));
    assert_eq!(events(&mut engine), []);
}

#[test]
fn a_peer_without_room_puts_no_timeout_off() {
    let mut engine = solar(&[0, 1, 2, 3]);
    // The oldest is lost; the peer refuses the others, again and again.
    let mut sent_again = 0;
    let mut now_ns = 5_000;
    for round in 1..=5 {
        let due_ns = engine.next_deadline_ns().expect("outstanding");
        while now_ns < due_ns {
            for psn in 101..104 {
                feed_nack(&mut engine, psn, (psn - 100) as u8, NackReason::NoPacketBuffer, now_ns);
            }
            assert_eq!(engine.next_deadline_ns(), Some(due_ns));
            assert_eq!(resends(&mut engine), [0; 0]);
            now_ns += 10_000;
        }
        engine.expire_due(due_ns);
        let again = resends(&mut engine);
        assert_eq!(again, [100, 101, 102, 103], "timeout {round}");
        sent_again += again.len();
        for psn in again {
            engine.sent(&packet(psn, (psn - 100) as u8), due_ns);
        }
        now_ns = due_ns + 20_000;
    }
    // More timeouts than the limit of two: the peer is there.
    assert_eq!((engine.counters().timeouts, engine.counters().failures), (5, 0));
    assert_eq!(sent_again, 20);
    let blamed = events(&mut engine);
    assert!(
        blamed
            .iter()
            .all(|event| matches!(event, (PathEventKind::Sent, _) | (PathEventKind::Lost, 0))),
        "{blamed:?}"
    );
}

/// As if so many requests more had been sent and acknowledged.
fn skip(engine: &mut RetransmitEngine, packets: u32) {
    let queue_pair = engine.queue_pairs[QPN as usize].as_mut().expect("a queue pair");
    match &mut queue_pair.spaces[0].as_mut().expect("it sends").track {
        Track::Selective(window) => window.skip(packets),
        Track::GoBackN(_) => panic!("not in roce"),
    }
}

const STEP: u32 = 1 << 21;

#[test]
fn reads_without_end_leave_acks_where_they_can_be_told() {
    let mut engine = engine(Profile::Solar);
    let read = |psn: u32| SentPacket {
        last: true,
        response: true,
        ..packet(psn & 0xFF_FFFF, 3)
    };
    let mut psn = 100;
    for round in 0..20 {
        let at = psn & 0xFF_FFFF;
        engine.sent(&read(psn), 1_000);
        feed_sack(&mut engine, sack(at, 0), 2_000);
        let (base, done, failed) = progress(&mut engine).expect("the base moved");
        assert_eq!((base, failed), ((psn + 1) & 0xFF_FFFF, None), "{round}");
        let lag = base.wrapping_sub(done) & 0xFF_FFFF;
        assert!(lag <= 1 << 14, "{round}: done lags by {lag}");
        assert_eq!(engine.next_deadline_ns(), None, "{round}: nothing is awaited");
        // A WRITE wants its ACK wherever it stands; until that comes, the timer runs.
        if round % 7 == 6 {
            psn += 1;
            let at = psn & 0xFF_FFFF;
            engine.sent(
                &SentPacket {
                    last: true,
                    ..packet(at, 3)
                },
                3_000,
            );
            feed_sack(&mut engine, sack(at, 0), 4_000);
            assert_eq!(engine.next_deadline_ns(), Some(104_000), "{round}");
            feed_ack(&mut engine, at, Syndrome::ACK, 5_000);
            let end = (psn + 1) & 0xFF_FFFF;
            assert_eq!(progress(&mut engine), Some((end, end, None)), "{round}");
            assert_eq!(engine.next_deadline_ns(), None, "{round}");
        }
        skip(&mut engine, STEP - 1);
        psn += STEP;
    }
    // The last one fails though it was acknowledged: its NAK is not too late.
    engine.sent(&read(psn), 1_000);
    feed_sack(&mut engine, sack(psn & 0xFF_FFFF, 0), 2_000);
    feed_ack(
        &mut engine,
        psn & 0xFF_FFFF,
        Syndrome::Nak(NakCode::RemoteAccessError),
        3_000,
    );
    let (_, done, failed) = progress(&mut engine).expect("it fails");
    assert_eq!(
        (done, failed),
        (psn & 0xFF_FFFF, Some(CompletionStatus::RemoteAccess as u8))
    );
}

#[test]
fn acks_without_sacks_leave_sacks_where_they_can_be_told() {
    let mut engine = engine(Profile::Solar);
    let mut psn = 100;
    for round in 0..20 {
        let at = psn & 0xFF_FFFF;
        engine.sent(
            &SentPacket {
                last: true,
                ..packet(at, 3)
            },
            1_000,
        );
        feed_ack(&mut engine, at, Syndrome::ACK, 2_000);
        assert_eq!(engine.outstanding(QPN, Space::Requests), Some(0), "{round}");
        skip(&mut engine, STEP - 1);
        psn += STEP;
        if round % 5 == 4 {
            // A hole is still found.
            while engine.next_resend().is_some() {}
            for step in 0..2 {
                engine.sent(&packet((psn + step) & 0xFF_FFFF, 3), 3_000);
            }
            feed_sack(&mut engine, sack((psn - 1) & 0xFF_FFFF, 0b10), 4_000);
            assert_eq!(resends(&mut engine), [psn & 0xFF_FFFF], "{round}");
            engine.sent(&packet(psn & 0xFF_FFFF, 3), 5_000);
            // Without CC_STATE.
            let end = (psn + 1) & 0xFF_FFFF;
            let bare = received(Opcode::SACK, end, &[&sack(end, 0).to_bytes()]);
            engine.feedback(&bare, &PacketContext::default(), 6_000);
            assert_eq!(engine.outstanding(QPN, Space::Requests), Some(0), "{round}");
            psn += 2;
        }
    }
}
