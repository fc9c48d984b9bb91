//! Responses given, given again, and forgotten.

use proptest::prelude::*;

use super::*;
use crate::response_engine::{self, ResponseEngine};
use spraynic_config::descriptor::{PayloadWrite, QueuePairContext};
use spraynic_wire::Opcode;

const FIRST: u32 = 0xFF_FFF0;

fn context(state: QueuePairState, window: u16) -> SendContext {
    SendContext {
        qpn: 1,
        state: state as u8,
        profile: Profile::Solar.code(),
        window,
        class: 2,
        sent_response_psn: FIRST,
        ..SendContext::default()
    }
}

fn queue(window: u16) -> ResponseQueue {
    let mut queue = ResponseQueue::new(Config {
        queue_pairs: 4,
        responses: 8,
    });
    queue.write_context(&context(QueuePairState::ReadyToSend, window));
    queue
}

/// `response_engine` that makes responses of 256-byte packets.
fn engine() -> ResponseEngine {
    let mut engine = ResponseEngine::new(response_engine::Config {
        queue_pairs: 4,
        stored_atomics: 1,
        read: true,
        atomic: true,
        solar: true,
    });
    engine.write_context(&QueuePairContext {
        qpn: 1,
        state: QueuePairState::ReadyToReceive as u8,
        sent_response_psn: FIRST,
        ..QueuePairContext::default()
    });
    engine
}

fn response(engine: &mut ResponseEngine, bytes: u32, address: u64) -> Packets {
    let request = PayloadWrite {
        qpn: 1,
        opcode: Opcode::READ_REQUEST.0,
        execute: true,
        profile: Profile::Solar.code(),
        mtu: 1,
        byte_count: bytes,
        address,
        ..PayloadWrite::default()
    };
    engine.take(&request, &mut Vec::new()).packets
}

fn progress(base: u32) -> SendProgress {
    SendProgress {
        qpn: 1,
        base: base & 0xFF_FFFF,
        space: true,
        ..SendProgress::default()
    }
}

fn resend(psn: u32) -> Resend {
    Resend {
        qpn: 1,
        psn: psn & 0xFF_FFFF,
        space: true,
        ..Resend::default()
    }
}

proptest! {
    /// What is given is what `response_engine` made, in order, never beyond the window; a packet that is given again is the same packet; in
    /// the end nothing is held.
    #[test]
    fn packets_are_those_of_the_engine_and_the_window_holds(
        lengths in proptest::collection::vec(0u32..3000, 1..8),
        window in 1u16..40,
        script in proptest::collection::vec((0u8..4, any::<u16>()), 0..200),
    ) {
        let mut queue = queue(window);
        let mut engine = engine();
        let mut made = Vec::new();
        for (place, &bytes) in lengths.iter().enumerate() {
            let packets = response(&mut engine, bytes, place as u64 * 0x1_0000);
            made.extend(packets.clone());
            prop_assert!(queue.take(1, packets));
        }
        let (mut given, mut base) = (0usize, 0usize);
        for (action, number) in script {
            match action {
                0 if base < given => {
                    base += usize::from(number) % (given - base) + 1;
                    queue.progress(&progress(FIRST + base as u32));
                }
                1 if base < given => {
                    let psn = base + usize::from(number) % (given - base);
                    queue.resend(&resend(FIRST + psn as u32));
                    let (packet, origin) = queue.give(|_| true).unwrap();
                    prop_assert!(origin.retransmission);
                    prop_assert_eq!(packet, made[psn]);
                }
                2 => prop_assert!(queue.give(|_| false).is_none()),
                _ => {
                    let next = queue.give(|_| true);
                    let open = given < made.len() && given - base < usize::from(window);
                    prop_assert_eq!(next.is_some(), open);
                    if let Some((packet, origin)) = next {
                        prop_assert_eq!(packet, made[given]);
                        prop_assert!(!origin.retransmission && origin.space && origin.tracked);
                        given += 1;
                    }
                }
            }
        }
        while given < made.len() {
            queue.progress(&progress(FIRST + given as u32));
            while queue.give(|_| true).is_some() {
                given += 1;
            }
        }
        queue.progress(&progress(FIRST + given as u32));
        prop_assert!(queue.is_idle(1));
        prop_assert!(queue.give(|_| true).is_none());
    }
}

#[test]
fn what_is_refused_is_asked_with_its_cost_and_stays() {
    let mut queue = queue(64);
    let mut engine = engine();
    queue.take(1, response(&mut engine, 100, 0));
    let mut asked = Vec::new();
    let refused = queue.give(|request| {
        asked.push(*request);
        false
    });
    assert_eq!(refused, None);
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].qpn, asked[0].class, asked[0].bytes), (1, 2, 164));
    assert!(queue.give(|_| true).is_some());
}

#[test]
fn more_than_agreed_is_dropped_and_counted() {
    let mut queue = queue(64);
    let mut engine = engine();
    for place in 0..9 {
        assert_eq!(queue.take(1, response(&mut engine, 10, 0)), place < 8);
    }
    assert!(!queue.take(3, response(&mut engine, 10, 0)));
    let counters = *queue.counters();
    assert_eq!(
        (counters.responses, counters.drop_full, counters.drop_queue_pair),
        (8, 1, 1)
    );
}

#[test]
fn a_resend_of_what_was_acknowledged_is_counted_and_nothing_more() {
    let mut queue = queue(64);
    let mut engine = engine();
    queue.take(1, response(&mut engine, 10, 0));
    queue.give(|_| true).unwrap();
    queue.progress(&progress(FIRST + 1));
    queue.resend(&resend(FIRST));
    assert!(queue.give(|_| true).is_none());
    assert_eq!(queue.counters().drop_resend, 1);
}

#[test]
fn closing_and_failing_forget_all() {
    for failed in [false, true] {
        let mut queue = queue(64);
        let mut engine = engine();
        queue.take(1, response(&mut engine, 1000, 0));
        if failed {
            queue.progress(&SendProgress {
                failed: true,
                ..progress(FIRST)
            });
        } else {
            queue.write_context(&context(QueuePairState::Error, 64));
        }
        assert!(queue.give(|_| true).is_none());
        assert!(queue.is_idle(1));
    }
}
