//! Tests of the roce side of the retransmit engine model: go-back-N, READs and RNR waits.

use super::*;

/// Two WRITEs (PSN 100, 101), a READ of four responses (102 to 105) and a WRITE (106).
fn roce() -> RetransmitEngine {
    let mut engine = engine(Profile::Roce);
    engine.sent(&packet(100, 0), 0);
    engine.sent(&packet(101, 0), 0);
    engine.sent(
        &SentPacket {
            psns: 4,
            response: true,
            ..packet(102, 0)
        },
        0,
    );
    engine.sent(&packet(106, 0), 0);
    assert_eq!(engine.outstanding(QPN, Space::Requests), Some(7));
    engine
}

fn feed_response(engine: &mut RetransmitEngine, psn: u32, now_ns: u64) {
    let packet = received(Opcode(0x0E), psn, &[]);
    engine.feedback(&packet, &PacketContext::default(), now_ns);
}

/// The rewind that was asked for: PSN and slot.
fn rewind(engine: &mut RetransmitEngine) -> Option<(u32, u8)> {
    let resend = engine.next_resend()?;
    assert!(resend.rewind);
    assert_eq!(engine.next_resend(), None);
    Some((resend.psn, resend.slot))
}

#[test]
fn a_nak_sends_again_from_the_psn_that_it_names() {
    let mut engine = roce();
    feed_ack(&mut engine, 101, Syndrome::Nak(NakCode::PsnSequenceError), 5_000);
    assert_eq!(progress(&mut engine), Some((101, 101, None)));
    assert_eq!(rewind(&mut engine), Some((101, 101)));
    feed_ack(&mut engine, 101, Syndrome::Nak(NakCode::PsnSequenceError), 6_000);
    assert_eq!(rewind(&mut engine), None, "it was asked for already");
    engine.sent(&packet(101, 0), 7_000);
    feed_ack(&mut engine, 101, Syndrome::Nak(NakCode::PsnSequenceError), 8_000);
    assert_eq!(rewind(&mut engine), None, "what was sent again is still under way");
    feed_ack(&mut engine, 101, Syndrome::Nak(NakCode::PsnSequenceError), 18_000);
    assert_eq!(rewind(&mut engine), Some((101, 101)));
}

#[test]
fn responses_acknowledge_what_is_before_them_and_themselves() {
    let mut engine = roce();
    feed_response(&mut engine, 102, 5_000);
    assert_eq!(progress(&mut engine), Some((103, 103, None)));
    for psn in 103..106 {
        feed_response(&mut engine, psn, 5_000);
    }
    assert_eq!(progress(&mut engine), Some((106, 106, None)));
    feed_ack(&mut engine, 106, Syndrome::ACK, 6_000);
    assert_eq!(progress(&mut engine), Some((107, 107, None)));
    assert_eq!((rewind(&mut engine), engine.next_deadline_ns()), (None, None));
}

#[test]
fn a_missing_response_is_asked_for_again_from_its_psn() {
    // By a later response, and by the ACK of a later request.
    for later in [104, 106] {
        let mut engine = roce();
        feed_response(&mut engine, 102, 5_000);
        if later == 106 {
            feed_ack(&mut engine, 106, Syndrome::ACK, 6_000);
        } else {
            feed_response(&mut engine, later, 6_000);
        }
        assert_eq!(progress(&mut engine), Some((103, 103, None)));
        assert_eq!(rewind(&mut engine), Some((103, 102)), "the slot of the READ");
        engine.sent(
            &SentPacket {
                psns: 3,
                response: true,
                retransmission: true,
                ..packet(103, 0)
            },
            7_000,
        );
        feed_response(&mut engine, 105, 8_000);
        assert_eq!(rewind(&mut engine), None, "of the first answer");
        feed_response(&mut engine, 103, 20_000);
        assert_eq!(progress(&mut engine), Some((104, 104, None)));
    }
}

#[test]
fn an_rnr_nak_waits_as_long_as_it_says() {
    let mut engine = roce();
    let timer = RnrTimer::from_code(5);
    feed_ack(&mut engine, 101, Syndrome::RnrNak(timer), 5_000);
    let waits = engine.next_progress().expect("progress");
    assert_eq!((waits.base, waits.wait), (101, true));
    feed_ack(&mut engine, 101, Syndrome::Nak(NakCode::PsnSequenceError), 6_000);
    assert_eq!(rewind(&mut engine), None);
    assert_eq!(engine.next_deadline_ns(), Some(5_000 + 60_000));
    engine.expire_due(65_000);
    assert_eq!(rewind(&mut engine), Some((101, 101)));
    assert_eq!(engine.next_progress().map(|progress| progress.wait), Some(false));
    engine.sent(&packet(101, 0), 66_000);
    // rnr_retry is 1.
    feed_ack(&mut engine, 101, Syndrome::RnrNak(timer), 80_000);
    assert_eq!(
        progress(&mut engine),
        Some((101, 101, Some(CompletionStatus::RnrRetryExceeded as u8)))
    );
}

#[test]
fn timeouts_rewind_until_the_retry_limit() {
    let mut engine = roce();
    for now_ns in [100_000, 300_000] {
        engine.expire_due(now_ns);
        assert_eq!(rewind(&mut engine), Some((100, 100)));
        engine.sent(&packet(100, 0), now_ns);
    }
    assert_eq!(engine.next_deadline_ns(), Some(700_000));
    engine.expire_due(700_000);
    assert_eq!(
        progress(&mut engine),
        Some((100, 100, Some(CompletionStatus::RetryExceeded as u8)))
    );
}

#[test]
fn a_read_longer_than_the_window_is_tracked_alone() {
    let mut engine = engine(Profile::Roce);
    engine.sent(
        &SentPacket {
            psns: 1_000,
            response: true,
            ..packet(100, 0)
        },
        0,
    );
    engine.sent(&packet(1_100, 0), 0);
    assert_eq!((engine.counters().sent, engine.counters().sent_ignored), (1, 1));
    for psn in 100..1_100 {
        feed_response(&mut engine, psn, 1_000);
    }
    assert_eq!(progress(&mut engine), Some((1_100, 1_100, None)));
}

#[test]
fn a_response_that_nobody_asked_for_acknowledges_no_more_than_what_is_before_it() {
    let mut engine = roce();
    feed_response(&mut engine, 101, 1_000);
    assert_eq!(progress(&mut engine), Some((101, 101, None)));
    feed_response(&mut engine, 107, 1_000);
    assert_eq!((progress(&mut engine), engine.counters().drop_incredible), (None, 1));
}
