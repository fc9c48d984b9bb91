//! Tests of the writer model: each rule by an example, and its invariants by proptest.

use std::collections::BTreeMap;

use proptest::prelude::*;
use spraynic_config::descriptor::QueuePairState;
use spraynic_wire::Opcode;

use super::*;

fn writer() -> PayloadWriter {
    PayloadWriter::new(Config {
        queue_pairs: 8,
        beat_bytes: 64,
    })
}

fn packet(qpn: u32, length: u16) -> PayloadWrite {
    PayloadWrite {
        qpn,
        opcode: Opcode::WRITE_ONLY.0,
        address: 0x1234,
        length,
        answer: true,
        psn: 7,
        syndrome: Syndrome::ACK.byte(),
        msn: 9,
        ..PayloadWrite::default()
    }
}

fn response(done: Option<Done>) -> PayloadWrite {
    done.expect("it leaves").response.expect("it answers")
}

#[test]
fn a_packet_leaves_when_memory_has_it_and_all_before() {
    let mut writer = writer();
    assert!(writer.take(&packet(1, 3), b"abc").is_some());
    assert_eq!(writer.take(&packet(2, 0), b""), None);
    assert!(writer.take(&packet(1, 2), b"de").is_some());
    assert_eq!(writer.take(&packet(3, 0), b""), None);
    assert_eq!(writer.release(), None);
    writer.written(false);
    assert_eq!(response(writer.release()), packet(1, 3));
    assert_eq!(response(writer.release()), packet(2, 0));
    assert_eq!(writer.release(), None);
    writer.written(false);
    assert_eq!(response(writer.release()), packet(1, 2));
    assert_eq!(response(writer.release()), packet(3, 0));
    assert_eq!((writer.release(), writer.waiting()), (None, 0));
}

#[test]
fn payload_is_aligned_to_the_bus() {
    let write = AlignedWrite::new(0x1003, b"0123456789", 8);
    let data: Vec<u8> = write.beats.iter().flat_map(|beat| beat.data.clone()).collect();
    assert_eq!(data, b"\0\0\x000123456789\0\0\0");
    let strobes: Vec<u128> = write.beats.iter().map(|beat| beat.strobes).collect();
    assert_eq!(strobes, [0b1111_1000, 0b0001_1111]);
    assert_eq!((write.write.address, write.write.length), (0x1003, 10));
    for (address, length, beats) in [
        (0, 64, 1),
        (0, 65, 2),
        (1, 63, 1),
        (1, 64, 2),
        (63, 1, 1),
        (63, 2, 2),
        (0, 4096, 64),
        (1, 4096, 65),
    ] {
        assert_eq!(
            AlignedWrite::new(address, &vec![1; length], 64).beats.len(),
            beats,
            "{length} bytes at {address}"
        );
    }
}

#[test]
fn discarded_payload_is_no_write_but_keeps_its_place() {
    let mut writer = writer();
    assert!(writer.take(&packet(1, 1), b"a").is_some());
    let refused = PayloadWrite {
        discard: true,
        syndrome: 0x62,
        ..packet(1, 4)
    };
    assert_eq!(writer.take(&refused, b"evil"), None);
    assert_eq!(writer.release(), None);
    writer.written(false);
    assert_eq!(response(writer.release()), packet(1, 1));
    assert_eq!(response(writer.release()), refused);
    let expected = Counters {
        packets: 2,
        writes: 1,
        discards: 1,
        ..Counters::default()
    };
    assert_eq!(*writer.counters(), expected);
}

#[test]
fn a_completion_says_what_came() {
    let mut writer = writer();
    for (opcode, operation) in [
        (Opcode::SEND_ONLY, WorkOpcode::Send),
        (Opcode::SEND_LAST_IMMEDIATE, WorkOpcode::Send),
        (Opcode::SEND_LAST_INVALIDATE, WorkOpcode::SendInvalidate),
        (Opcode::SEND_ONLY_INVALIDATE, WorkOpcode::SendInvalidate),
        (Opcode::WRITE_LAST_IMMEDIATE, WorkOpcode::Write),
        (Opcode::MRC_WRITE_ONLY_IMMEDIATE, WorkOpcode::Write),
    ] {
        let packet = PayloadWrite {
            opcode: opcode.0,
            answer: false,
            completion: true,
            status: 3,
            has_immediate: true,
            solicited: true,
            byte_count: 0xFFFF_FFFF,
            immediate: 0x0102_0304,
            cookie: u64::MAX - 5,
            ..packet(5, 0)
        };
        writer.take(&packet, b"");
        let done = writer.release().unwrap();
        let completion = Completion {
            cookie: u64::MAX - 5,
            qpn: 5,
            status: 3,
            opcode: operation as u8,
            solicited: true,
            has_immediate: true,
            byte_count: 0xFFFF_FFFF,
            immediate: 0x0102_0304,
            ..Completion::default()
        };
        assert_eq!(
            done,
            Done {
                completion: Some(completion),
                response: None
            }
        );
    }
    assert_eq!(writer.counters().completions, 6);
}

#[test]
fn a_packet_that_says_nothing_leaves_without_a_word() {
    let mut writer = writer();
    writer.take(
        &PayloadWrite {
            answer: false,
            ..packet(1, 1)
        },
        b"a",
    );
    writer.written(false);
    assert_eq!(writer.release(), Some(Done::default()));
}

#[test]
fn a_marker_leaves_behind_all_before_and_ends_what_failed_since_the_queue_pair_was_closed() {
    let mut writer = writer();
    let marker = PayloadWrite {
        qpn: 1,
        discard: true,
        marker: true,
        closed: true,
        ..PayloadWrite::default()
    };
    let open = PayloadWrite {
        closed: false,
        ..marker
    };
    for packet in [packet(1, 1), marker, packet(1, 1), open, packet(1, 0)] {
        writer.take(&packet, &b"a"[..packet.length.into()]);
    }
    writer.write_context(&QueuePairContext {
        qpn: 1,
        state: QueuePairState::Reset as u8,
        ..QueuePairContext::default()
    });
    assert_eq!(writer.release(), None, "it waits for memory as any packet");
    writer.written(true);
    assert_eq!(response(writer.release()).syndrome, 0x63);
    assert_eq!(response(writer.release()), marker, "and is not refused");
    writer.written(false);
    assert_eq!(response(writer.release()), packet(1, 1), "nothing has failed behind it");
    assert_eq!(response(writer.release()), open);
    assert_eq!(response(writer.release()), packet(1, 0));
}

#[test]
fn a_refused_write_fails_its_queue_pair_until_it_stops_receiving() {
    let mut writer = writer();
    let quiet = PayloadWrite {
        answer: false,
        ..packet(1, 1)
    };
    let nak = |packet: PayloadWrite| PayloadWrite {
        answer: true,
        execute: false,
        silent: false,
        syndrome: 0x63,
        status: CompletionStatus::LocalMemory as u8,
        ..packet
    };
    writer.take(&quiet, b"a");
    writer.written(true);
    assert_eq!(response(writer.release()), nak(quiet), "though no answer was due");
    // Later ones of the queue pair: nothing is acknowledged, executed or completed well.
    let read = PayloadWrite {
        answer: false,
        execute: true,
        opcode: Opcode::READ_REQUEST.0,
        ..packet(1, 0)
    };
    let last = PayloadWrite {
        completion: true,
        silent: true,
        ..packet(1, 0)
    };
    let flushed = PayloadWrite {
        completion: true,
        answer: false,
        status: CompletionStatus::Flushed as u8,
        ..packet(1, 0)
    };
    for packet in [quiet, read, last, flushed, packet(2, 0)] {
        writer.take(&packet, &b"a"[..packet.length.into()]);
    }
    writer.written(false);
    assert_eq!(writer.release(), Some(Done::default()));
    assert_eq!(response(writer.release()), nak(read));
    let done = writer.release().unwrap();
    assert_eq!(done.completion.unwrap().status, CompletionStatus::LocalMemory as u8);
    assert_eq!(done.response, Some(nak(last)));
    assert_eq!(
        writer.release().unwrap().completion.unwrap().status,
        CompletionStatus::Flushed as u8
    );
    assert_eq!(response(writer.release()), packet(2, 0), "of another queue pair");
    assert_eq!(writer.counters().write_errors, 1);
    // Ready to send is no news; reset is.
    for (state, expected) in [
        (QueuePairState::ReadyToSend, nak(packet(1, 0))),
        (QueuePairState::Reset, packet(1, 0)),
    ] {
        writer.write_context(&QueuePairContext {
            qpn: 1,
            state: state as u8,
            ..QueuePairContext::default()
        });
        writer.take(&packet(1, 0), b"");
        assert_eq!(response(writer.release()), expected);
    }
}

/// A packet of any kind, with its payload.
fn any_packet() -> impl Strategy<Value = (PayloadWrite, Vec<u8>)> {
    let payload =
        prop_oneof![3 => prop::collection::vec(any::<u8>(), 0..200), 1 => prop::collection::vec(any::<u8>(), 0..=4096)];
    (
        0..4u32,
        payload,
        0x10_0000u64..0x10_4000,
        any::<[bool; 4]>(),
        any::<u32>(),
    )
        .prop_map(
            |(qpn, payload, address, [discard, answer, execute, completion], number)| {
                let packet = PayloadWrite {
                    address,
                    length: payload.len() as u16,
                    discard,
                    answer,
                    execute,
                    completion,
                    psn: number & 0xFF_FFFF,
                    cookie: number.into(),
                    ..packet(qpn, 0)
                };
                (packet, payload)
            },
        )
}

proptest! {
    /// Whenever memory answers: packets leave in their order, none before its write was answered, each once, and what it says is what was
    /// given; memory holds what the writes in their order make of it.
    #[test]
    fn packets_leave_in_order_behind_their_writes(
        packets in prop::collection::vec(any_packet(), 1..40),
        answers in prop::collection::vec(0usize..3, 80),
    ) {
        let mut writer = writer();
        let (mut memory, mut expected) = (BTreeMap::new(), BTreeMap::new());
        let (mut asked, mut answered, mut left) = (0, 0, Vec::new());
        let mut writes_before = Vec::new();
        let mut answers = answers.into_iter();
        for (packet, payload) in &packets {
            if let Some(write) = writer.take(packet, payload) {
                asked += 1;
                for (beat, base) in write.beats.iter().zip((packet.address / 64 * 64..).step_by(64)) {
                    for (lane, byte) in beat.data.iter().enumerate() {
                        if beat.strobes >> lane & 1 == 1 {
                            memory.insert(base + lane as u64, *byte);
                        }
                    }
                }
            }
            if !packet.discard {
                expected.extend((packet.address..).zip(payload.iter().copied()));
            }
            writes_before.push(asked);
            for _ in 0..answers.next().unwrap_or(0).min(asked - answered) {
                writer.written(false);
                answered += 1;
            }
            while let Some(done) = writer.release() {
                prop_assert!(writes_before[left.len()] <= answered, "before its write");
                left.push(done);
            }
        }
        (answered..asked).for_each(|_| writer.written(false));
        left.extend(std::iter::from_fn(|| writer.release()));
        prop_assert_eq!(&memory, &expected);
        prop_assert_eq!(left.len(), packets.len());
        for ((packet, _), done) in packets.iter().zip(&left) {
            prop_assert_eq!(done.completion, packet.completion.then(|| completion_of(packet)));
            prop_assert_eq!(done.response, (packet.answer || packet.execute).then_some(*packet));
        }
        prop_assert_eq!(writer.counters().packets as usize, packets.len());
        prop_assert_eq!(writer.counters().writes as usize, asked);
    }
}
