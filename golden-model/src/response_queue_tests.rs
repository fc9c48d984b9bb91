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
        window: 64,
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

fn response(engine: &mut ResponseEngine, bytes: u32, address: u64) -> ResponseMessage {
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
    engine.take(&request, &mut Vec::new()).packets.message().unwrap()
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

/// All packets that can be given now.
fn give_all(queue: &mut ResponseQueue) -> Vec<(PacketDescriptor, PacketOrigin)> {
    std::iter::from_fn(|| queue.give(0, |_| true)).collect()
}

proptest! {
    /// What is given is what `response_engine` made, in order, never beyond the window; a packet that is given again is the same packet, and
    /// goes before what is new, each once; in the end nothing is held.
    #[test]
    fn packets_are_those_of_the_engine_and_the_window_holds(
        lengths in proptest::collection::vec(0u32..9000, 1..8),
        window in 1u16..64,
        script in proptest::collection::vec((0u8..4, any::<u16>()), 0..200),
    ) {
        let mut queue = queue(window);
        let mut engine = engine();
        let mut made = Vec::new();
        for (place, &bytes) in lengths.iter().enumerate() {
            let message = response(&mut engine, bytes, place as u64 * 0x1_0000);
            made.extend(Packets::of_message(&message));
            prop_assert!(queue.take(&message));
        }
        let (mut given, mut base) = (0usize, 0usize);
        let mut lost = std::collections::BTreeSet::new();
        for (action, number) in script {
            match action {
                0 if base < given => {
                    base += usize::from(number) % (given - base) + 1;
                    lost.retain(|psn| *psn >= base);
                    queue.progress(&progress(FIRST + base as u32));
                }
                1 if base < given => {
                    let psn = base + usize::from(number) % (given - base);
                    lost.insert(psn);
                    queue.resend(&resend(FIRST + psn as u32));
                }
                2 => prop_assert!(queue.offer(1).is_some() || lost.is_empty()),
                _ => {
                    for (packet, origin) in give_all(&mut queue) {
                        prop_assert!(origin.space && origin.tracked);
                        if let Some(psn) = lost.pop_first() {
                            prop_assert!(origin.retransmission);
                            prop_assert_eq!(packet, made[psn]);
                            continue;
                        }
                        prop_assert!(!origin.retransmission);
                        prop_assert_eq!(packet, made[given]);
                        prop_assert_eq!(origin.last, packet.ack_request);
                        given += 1;
                    }
                    prop_assert_eq!(given, made.len().min(base + usize::from(window)));
                    prop_assert!(lost.is_empty());
                }
            }
        }
        while given < made.len() {
            queue.progress(&progress(FIRST + given as u32));
            given += give_all(&mut queue).iter().filter(|(_, origin)| !origin.retransmission).count();
        }
        queue.progress(&progress(FIRST + given as u32));
        prop_assert!(queue.is_idle(1));
        prop_assert!(queue.give(0, |_| true).is_none());
    }
}

#[test]
fn what_is_refused_is_asked_with_its_cost_and_stays() {
    let mut queue = queue(64);
    let mut engine = engine();
    queue.take(&response(&mut engine, 100, 0));
    let mut asked = Vec::new();
    let refused = queue.give(0, |request| {
        asked.push(*request);
        false
    });
    assert_eq!(refused, None);
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].qpn, asked[0].class, asked[0].bytes), (1, 2, 164));
    // It is asked again after a while.
    assert_eq!(queue.wakes_at(), Some(RETRY_NS));
    assert!(queue.give(RETRY_NS - 1, |_| true).is_none());
    assert!(queue.give(RETRY_NS, |_| true).is_some());
}

#[test]
fn a_slice_has_4096_bytes_of_one_response_at_most() {
    let mut queue = queue(64);
    let mut engine = engine();
    queue.take(&response(&mut engine, 16 * 256 + 1, 0));
    queue.take(&response(&mut engine, 300, 0));
    let mut asked = Vec::new();
    while queue
        .give(0, |request| {
            asked.push(request.bytes);
            true
        })
        .is_some()
    {}
    assert_eq!(asked, [4096 + 16 * 64, 1 + 64, 300 + 2 * 64]);
}

#[test]
fn queue_pairs_take_turns_slice_by_slice() {
    let mut queue = queue(64);
    queue.write_context(&SendContext {
        qpn: 2,
        ..context(QueuePairState::ReadyToSend, 64)
    });
    let mut engine = engine();
    let message = response(&mut engine, 8192, 0);
    queue.take(&message);
    queue.take(&ResponseMessage { qpn: 2, ..message });
    let given: Vec<u32> = give_all(&mut queue).iter().map(|(packet, _)| packet.qpn).collect();
    let turns: Vec<u32> = given.chunks(16).map(|slice| slice[0]).collect();
    assert_eq!(turns, [1, 2, 1, 2]);
    assert!(given.chunks(16).all(|slice| slice.iter().all(|qpn| *qpn == slice[0])));
}

#[test]
fn a_response_that_does_not_follow_is_dropped_and_counted() {
    let mut queue = queue(64);
    let mut engine = engine();
    let message = response(&mut engine, 10, 0);
    let late = response(&mut engine, 10, 0);
    assert!(!queue.take(&late));
    assert!(queue.take(&message));
    assert!(!queue.take(&message));
    assert_eq!(queue.counters().drop_sequence, 2);
}

#[test]
fn progress_of_what_was_not_given_is_counted_and_nothing_more() {
    let mut queue = queue(64);
    let mut engine = engine();
    queue.take(&response(&mut engine, 10, 0));
    queue.progress(&progress(FIRST + 1));
    assert_eq!(queue.counters().drop_progress, 1);
    assert_eq!(give_all(&mut queue).len(), 1);
    // What lags is none.
    queue.progress(&progress(FIRST + 1));
    queue.progress(&progress(FIRST));
    assert_eq!(queue.counters().drop_progress, 1);
    assert!(queue.is_idle(1));
}

/// 16 READs of the greatest length have more PSNs than there are.
#[test]
fn responses_may_have_more_psns_than_there_are() {
    let mut queue = queue(64);
    let mut engine = engine();
    let messages: Vec<ResponseMessage> = (0..4).map(|_| response(&mut engine, 1 << 31, 0)).collect();
    assert!(messages.iter().all(|message| queue.take(message)));
    let given = give_all(&mut queue);
    assert_eq!(given.len(), 64);
    queue.progress(&progress(FIRST + 64));
    assert_eq!(give_all(&mut queue).len(), 64);
    assert!(!queue.is_idle(1));
}

#[test]
fn more_than_agreed_is_dropped_and_counted() {
    let mut queue = queue(64);
    let mut engine = engine();
    for place in 0..9 {
        assert_eq!(queue.take(&response(&mut engine, 10, 0)), place < 8);
    }
    let other = ResponseMessage {
        qpn: 3,
        ..response(&mut engine, 10, 0)
    };
    assert!(!queue.take(&other));
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
    queue.take(&response(&mut engine, 10, 0));
    queue.give(0, |_| true).unwrap();
    queue.progress(&progress(FIRST + 1));
    queue.resend(&resend(FIRST));
    assert!(queue.give(0, |_| true).is_none());
    assert_eq!(queue.counters().drop_resend, 1);
}

#[test]
fn closing_and_failing_forget_all() {
    for failed in [false, true] {
        let mut queue = queue(64);
        let mut engine = engine();
        queue.take(&response(&mut engine, 1000, 0));
        if failed {
            queue.progress(&SendProgress {
                failed: true,
                ..progress(FIRST)
            });
        } else {
            queue.write_context(&context(QueuePairState::Error, 64));
        }
        assert!(queue.give(0, |_| true).is_none());
        assert!(queue.is_idle(1));
    }
}

#[test]
fn one_request_more_says_that_the_oldest_response_has_come() {
    let mut queue = queue(64);
    let mut engine = engine();
    for _ in 0..8 {
        assert!(queue.take(&response(&mut engine, 300, 0)));
    }
    assert_eq!(give_all(&mut queue).len(), 16);
    queue.resend(&resend(FIRST + 1));
    queue.resend(&resend(FIRST + 2));
    assert!(queue.take(&response(&mut engine, 300, 0)));
    assert_eq!(queue.counters().implied, 1);
    // Of the first one nothing is given again, of the second one it is.
    let given = give_all(&mut queue);
    let psns: Vec<u32> = given.iter().map(|(packet, _)| packet.psn).collect();
    assert_eq!(psns, [2, 16, 17].map(|psn| (FIRST + psn) & 0xFF_FFFF));
    queue.resend(&resend(FIRST + 1));
    assert_eq!(queue.counters().drop_resend, 1);
    // The window moves by what is heard alone.
    assert_eq!(
        given.iter().map(|(_, origin)| origin.slot).collect::<Vec<_>>(),
        [1, 8, 8]
    );
}
