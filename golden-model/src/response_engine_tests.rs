//! Tests of the response model: each rule by an example, and its invariants by proptest.

use std::collections::HashMap;

use proptest::prelude::*;
use spraynic_config::descriptor::QueuePairState;

use super::*;
use spraynic_config::descriptor::Descriptor;

fn engine(profile: Profile) -> ResponseEngine {
    let mut engine = ResponseEngine::new(Config {
        queue_pairs: 8,
        stored_atomics: 2,
        read: true,
        atomic: true,
        solar: true,
    });
    for qpn in 1..4 {
        engine.write_context(&context(qpn, profile, QueuePairState::ReadyToReceive));
    }
    engine
}

fn context(qpn: u32, profile: Profile, state: QueuePairState) -> QueuePairContext {
    QueuePairContext {
        qpn,
        state: state as u8,
        profile: profile.code(),
        mtu: 3,
        sent_response_psn: 0xFF_FFFE,
        ..QueuePairContext::default()
    }
}

fn request(profile: Profile, opcode: Opcode) -> PayloadWrite {
    PayloadWrite {
        qpn: 1,
        opcode: opcode.0,
        psn: 0xFF_FFFF,
        msn: 0x01_0203,
        profile: profile.code(),
        mtu: 3,
        entropy: 0xA_BCDE,
        ..PayloadWrite::default()
    }
}

fn read(profile: Profile, length: u32) -> PayloadWrite {
    PayloadWrite {
        execute: true,
        address: 0x1001,
        byte_count: length,
        ..request(profile, Opcode::READ_REQUEST)
    }
}

fn atomic(profile: Profile, opcode: Opcode, psn: u32) -> PayloadWrite {
    PayloadWrite {
        execute: true,
        address: 8,
        compare: 5,
        swap_add: 7,
        psn,
        ..request(profile, opcode)
    }
}

/// 32 bytes; the atomics of [`atomic`] work on the 5 at address 8.
fn memory() -> Vec<u8> {
    let mut memory = vec![0xEE; 32];
    memory[8..16].copy_from_slice(&5u64.to_le_bytes());
    memory
}

fn take(
    engine: &mut ResponseEngine,
    request: &PayloadWrite,
    memory: &mut Vec<u8>,
) -> (Vec<PacketDescriptor>, Option<Answer>) {
    let given = engine.take(request, memory);
    (given.packets.collect(), given.answer)
}

fn headers(packet: &PacketDescriptor) -> &[u8] {
    &packet.extension.0[..usize::from(packet.extension_words) * 4]
}

#[test]
fn a_marker_comes_out_as_an_answer_without_a_packet_and_is_not_counted() {
    let mut engine = engine(Profile::Roce);
    let marker = PayloadWrite {
        qpn: 1,
        discard: true,
        marker: true,
        ..PayloadWrite::default()
    };
    let given = engine.take(&marker, &mut memory());
    assert_eq!(given.packets.total(), 0);
    let answer = given.answer.expect("it comes out");
    assert!(answer.marker && answer.silent);
    assert_eq!(answer.qpn, 1);
    assert_eq!(engine.counters(), &Counters::default());
}

#[test]
fn a_read_is_cut_at_the_mtu_with_aeth_at_its_ends() {
    let (packets, answer) = take(&mut engine(Profile::Roce), &read(Profile::Roce, 2049), &mut memory());
    let seen: Vec<_> = packets
        .iter()
        .map(|packet| {
            (
                packet.opcode,
                packet.psn,
                packet.payload_length,
                packet.local_address,
                headers(packet),
            )
        })
        .collect();
    let aeth: &[u8] = &[0x1F, 1, 2, 3];
    assert_eq!(
        seen,
        [
            (0x0D, 0xFF_FFFF, 1024, 0x1001, aeth),
            (0x0E, 0, 1024, 0x1401, &[][..]),
            (0x0F, 1, 1, 0x1801, aeth),
        ]
    );
    for packet in &packets {
        assert_eq!(
            (packet.qpn, packet.entropy, packet.local_key, packet.ack_request),
            (1, 0xA_BCDE, 0, false)
        );
    }
    // It acknowledges up to its last response.
    let answer = answer.unwrap();
    assert_eq!(
        (answer.psn, answer.msn, answer.syndrome, answer.silent),
        (1, 0x01_0203, 0x1F, true)
    );
}

#[test]
fn a_read_of_one_packet_or_none_is_one_response() {
    for (length, payload) in [(0, 0), (1, 1), (1023, 1023), (1024, 1024)] {
        let (packets, _) = take(&mut engine(Profile::Roce), &read(Profile::Roce, length), &mut memory());
        assert_eq!(packets.len(), 1);
        let packet = &packets[0];
        assert_eq!(
            (packet.opcode, packet.payload_length, packet.psn),
            (0x10, payload, 0xFF_FFFF)
        );
        assert_eq!(headers(packet), [0x1F, 1, 2, 3]);
    }
}

#[test]
fn the_longest_read_at_every_mtu() {
    for mtu in 0..8u8 {
        let bytes = 128usize << mtu.clamp(1, 5);
        let request = PayloadWrite {
            mtu,
            ..read(Profile::Roce, 1 << 31)
        };
        let mut given = engine(Profile::Roce).take(&request, &mut memory()).packets;
        assert_eq!(given.len(), (1 << 31) / bytes);
        let last = given.nth((1 << 31) / bytes - 1).unwrap();
        assert_eq!((last.opcode, usize::from(last.payload_length)), (0x0F, bytes));
        assert_eq!(last.local_address, 0x1001 + (1 << 31) - bytes as u64);
        assert!(given.next().is_none());
    }
}

#[test]
fn solar_numbers_responses_by_themselves_and_asks_for_a_sack_at_the_end() {
    let mut engine = engine(Profile::Solar);
    let (packets, answer) = take(&mut engine, &read(Profile::Solar, 3000), &mut memory());
    let numbered: Vec<_> = packets.iter().map(|packet| (packet.psn, packet.ack_request)).collect();
    assert_eq!(numbered, [(0xFF_FFFE, false), (0xFF_FFFF, false), (0, true)]);
    assert_eq!(answer, None);
    let (packets, answer) = take(
        &mut engine,
        &atomic(Profile::Solar, Opcode::FETCH_ADD, 77),
        &mut memory(),
    );
    assert_eq!(
        (packets[0].psn, packets[0].opcode, packets[0].ack_request, answer),
        (1, 0x12, true, None)
    );
    // Another queue pair has its own.
    let (packets, _) = take(
        &mut engine,
        &PayloadWrite {
            qpn: 2,
            ..read(Profile::Solar, 1)
        },
        &mut memory(),
    );
    assert_eq!(packets[0].psn, 0xFF_FFFE);
    // One that begins to receive again begins anew; one that receives goes on.
    engine.write_context(&context(1, Profile::Solar, QueuePairState::ReadyToSend));
    assert_eq!(take(&mut engine, &read(Profile::Solar, 1), &mut memory()).0[0].psn, 2);
    engine.write_context(&context(1, Profile::Solar, QueuePairState::Reset));
    engine.write_context(&context(1, Profile::Solar, QueuePairState::ReadyToReceive));
    assert_eq!(
        take(&mut engine, &read(Profile::Solar, 1), &mut memory()).0[0].psn,
        0xFF_FFFE
    );
}

#[test]
fn atomics_change_memory_and_answer_what_was_there() {
    for profile in [Profile::Roce, Profile::Solar] {
        let (mut engine, mut memory) = (engine(profile), memory());
        for (opcode, original, after) in [
            (Opcode::FETCH_ADD, 5, 12),
            (Opcode::COMPARE_SWAP, 12, 12),
            (Opcode::FETCH_ADD, 12, 19),
        ] {
            let (packets, _) = take(&mut engine, &atomic(profile, opcode, 3), &mut memory);
            let mut expected = vec![0x1F, 1, 2, 3];
            expected.extend(u64::to_be_bytes(original));
            assert_eq!((packets.len(), headers(&packets[0])), (1, &expected[..]));
            assert_eq!(memory.read(8), after);
        }
        memory[8..16].copy_from_slice(&5u64.to_le_bytes());
        take(&mut engine, &atomic(profile, Opcode::COMPARE_SWAP, 4), &mut memory);
        assert_eq!(memory.read(8), 7, "it was 5, as compared");
        assert_eq!((&memory[..8], &memory[16..]), (&[0xEE; 8][..], &[0xEE; 16][..]));
        assert_eq!(engine.counters().atomics, 4);
    }
}

#[test]
fn additions_wrap() {
    let mut memory = memory();
    memory[8..16].fill(0xFF);
    take(
        &mut engine(Profile::Roce),
        &atomic(Profile::Roce, Opcode::FETCH_ADD, 3),
        &mut memory,
    );
    assert_eq!(memory.read(8), 6);
}

#[test]
fn a_compare_that_fails_does_not_write() {
    struct ReadOnly;
    impl AtomicMemory for ReadOnly {
        fn read(&mut self, _: u64) -> u64 {
            6
        }
        fn write(&mut self, _: u64, _: u64) -> bool {
            panic!("a write");
        }
    }
    let given = engine(Profile::Roce).take(&atomic(Profile::Roce, Opcode::COMPARE_SWAP, 3), &mut ReadOnly);
    assert_eq!(given.packets.len(), 1);
}

#[test]
fn a_duplicate_atomic_is_answered_without_memory_as_long_as_its_answer_is_kept() {
    let (mut engine, mut memory) = (engine(Profile::Roce), memory());
    for psn in [0xFF_FFFF, 0, 1] {
        take(&mut engine, &atomic(Profile::Roce, Opcode::FETCH_ADD, psn), &mut memory);
    }
    assert_eq!(memory.read(8), 26);
    let again = |psn| PayloadWrite {
        duplicate: true,
        msn: 0xFF_FFFF,
        ..atomic(Profile::Roce, Opcode::FETCH_ADD, psn)
    };
    // Two are kept.
    for (psn, original) in [(0, Some(12)), (1, Some(19)), (0xFF_FFFF, None), (2, None)] {
        let (packets, answer) = take(&mut engine, &again(psn), &mut memory);
        assert_eq!(answer, None);
        let expected =
            original.map(|original: u64| (psn, [&[0x1F, 0xFF, 0xFF, 0xFF][..], &original.to_be_bytes()].concat()));
        assert_eq!(
            packets.first().map(|packet| (packet.psn, headers(packet).to_vec())),
            expected
        );
    }
    assert_eq!(memory.read(8), 26, "untouched");
    assert!(
        take(&mut engine, &PayloadWrite { qpn: 2, ..again(1) }, &mut memory)
            .0
            .is_empty(),
        "another queue pair"
    );
    engine.write_context(&context(1, Profile::Roce, QueuePairState::Error));
    engine.write_context(&context(1, Profile::Roce, QueuePairState::ReadyToReceive));
    assert!(take(&mut engine, &again(1), &mut memory).0.is_empty(), "forgotten");
    let counters = engine.counters();
    assert_eq!(
        (counters.atomics, counters.repeated_atomics, counters.drop_duplicate),
        (3, 2, 4)
    );
}

#[test]
fn a_duplicate_read_is_executed_again_and_acknowledges_nothing_new() {
    let again = PayloadWrite {
        duplicate: true,
        ..read(Profile::Roce, 10)
    };
    let (packets, answer) = take(&mut engine(Profile::Roce), &again, &mut memory());
    assert_eq!((packets.len(), packets[0].psn, answer), (1, 0xFF_FFFF, None));
}

#[test]
fn an_atomic_that_memory_refuses_is_a_remote_operational_error_and_is_not_kept() {
    for profile in [Profile::Roce, Profile::Solar] {
        let (mut engine, mut memory) = (engine(profile), memory());
        let beyond = PayloadWrite {
            address: 32,
            ..atomic(profile, Opcode::FETCH_ADD, 3)
        };
        let (packets, answer) = take(&mut engine, &beyond, &mut memory);
        let roce = profile == Profile::Roce;
        assert_eq!(
            packets.iter().map(headers).collect::<Vec<_>>(),
            vec![[0x63, 1, 2, 3]; usize::from(roce)]
        );
        assert_eq!((answer.unwrap().syndrome, answer.unwrap().silent), (0x63, roce));
        let (packets, _) = take(
            &mut engine,
            &PayloadWrite {
                duplicate: true,
                ..beyond
            },
            &mut memory,
        );
        assert_eq!(packets.len(), 0);
    }
}

#[test]
fn answers_of_roce_are_packets_and_those_of_others_are_not() {
    let mut packets_given = 0;
    for profile in Profile::ALL {
        for (silent, syndrome) in [(false, 0x1F), (true, 0x1F), (false, 0x2E), (false, 0x60), (false, 0xFF)] {
            let request = PayloadWrite {
                answer: true,
                silent,
                syndrome,
                ..request(*profile, Opcode::WRITE_ONLY)
            };
            let (packets, answer) = take(&mut engine(*profile), &request, &mut memory());
            let roce = *profile == Profile::Roce;
            let expected = Answer {
                qpn: 1,
                syndrome,
                psn: 0xFF_FFFF,
                silent: silent || roce,
                msn: 0x01_0203,
                entropy: 0xA_BCDE,
                ..Answer::default()
            };
            assert_eq!(answer, Some(expected));
            assert_eq!(packets.len(), usize::from(roce && !silent));
            for packet in &packets {
                packets_given += 1;
                assert_eq!((packet.opcode, packet.psn, packet.payload_length), (0x11, 0xFF_FFFF, 0));
                assert_eq!(headers(packet), [syndrome, 1, 2, 3]);
            }
        }
    }
    assert_eq!(packets_given, 4);
}

#[test]
fn what_cannot_be_executed_is_dropped_and_counted() {
    let mut engine = engine(Profile::Roce);
    let mut memory = memory();
    for opcode in 0..=255u8 {
        let known = matches!(opcode, 0x0C | 0x13 | 0x14);
        let request = PayloadWrite {
            opcode,
            ..atomic(Profile::Roce, Opcode::FETCH_ADD, 3)
        };
        assert_eq!(
            take(&mut engine, &request, &mut memory).0.len(),
            usize::from(known),
            "{opcode:#x}"
        );
    }
    assert_eq!(engine.counters().drop_opcode, 253);
    for code in [2, 3] {
        take(
            &mut engine,
            &PayloadWrite {
                profile: code,
                ..read(Profile::Roce, 1)
            },
            &mut memory,
        );
    }
    assert_eq!(engine.counters().drop_opcode, 255);
    for qpn in [0, 7, 8, 0xFF_FFFF] {
        assert!(
            take(
                &mut engine,
                &PayloadWrite {
                    qpn,
                    ..read(Profile::Roce, 1)
                },
                &mut memory
            )
            .0
            .is_empty()
        );
    }
    assert_eq!(engine.counters().drop_queue_pair, 4);
    let mut none = ResponseEngine::new(Config {
        queue_pairs: 8,
        stored_atomics: 2,
        read: false,
        atomic: false,
        solar: true,
    });
    none.write_context(&context(1, Profile::Roce, QueuePairState::ReadyToReceive));
    for request in [read(Profile::Roce, 1), atomic(Profile::Roce, Opcode::COMPARE_SWAP, 1)] {
        assert!(take(&mut none, &request, &mut memory).0.is_empty());
    }
    assert_eq!(none.counters().drop_opcode, 2);
}

#[test]
fn a_write_without_answer_says_nothing() {
    let (packets, answer) = take(
        &mut engine(Profile::Roce),
        &request(Profile::Roce, Opcode::WRITE_ONLY),
        &mut memory(),
    );
    assert_eq!((packets.len(), answer), (0, None));
}

proptest! {
    /// Payloads of a READ tile the memory that it reaches, PSNs follow each other, and only the last one is shorter than an MTU.
    #[test]
    fn responses_tile_what_is_read(length in 0u32..60_000, mtu in 1u8..=5, address in any::<u64>(), psn in 0u32..1 << 24) {
        let request = PayloadWrite { mtu, address, psn, ..read(Profile::Roce, length) };
        let (packets, _) = take(&mut engine(Profile::Roce), &request, &mut memory());
        let (mut at, mut next) = (address, psn);
        for (place, packet) in packets.iter().enumerate() {
            prop_assert_eq!((packet.local_address, packet.psn), (at, next));
            let last = place + 1 == packets.len();
            prop_assert!(last || packet.payload_length == 128 << mtu);
            at = at.wrapping_add(packet.payload_length.into());
            next = (next + 1) & 0xFF_FFFF;
        }
        prop_assert_eq!(at, address.wrapping_add(length.into()));
    }

    /// A response of solar is one message, from which the same packets are made again; one of roce is none.
    #[test]
    fn a_message_gives_the_same_packets(length in 0u32..60_000, mtu in 1u8..=5, address in any::<u64>(), is_atomic in any::<bool>(), roce in any::<bool>()) {
        let profile = if roce { Profile::Roce } else { Profile::Solar };
        let request = if is_atomic {
            atomic(profile, Opcode::FETCH_ADD, 1)
        } else {
            PayloadWrite { address, ..read(profile, length) }
        };
        let request = PayloadWrite { mtu, ..request };
        let packets = engine(profile).take(&request, &mut memory()).packets;
        let message = packets.message();
        prop_assert_eq!(message.is_none(), roce);
        if let Some(message) = message {
            prop_assert_eq!(message.packets, packets.total());
            let bytes = message.pack();
            let again = Packets::of_message(&ResponseMessage::unpack(&bytes));
            prop_assert_eq!(again.message(), Some(message));
            prop_assert_eq!(again.collect::<Vec<_>>(), packets.collect::<Vec<_>>());
        }
    }

    /// However atomics of roce are repeated: each is done once, and each answer is that of its one execution.
    #[test]
    fn atomics_are_done_exactly_once(
        start in prop_oneof![any::<u32>(), Just(0xFF_FFF8)],
        events in prop::collection::vec((any::<bool>(), 0u32..3, 0u64..4), 1..60),
    ) {
        let (mut engine, mut memory) = (engine(Profile::Roce), memory());
        let (mut psn, mut value) = (start & 0xFF_FFFF, 5u64);
        let mut originals = HashMap::new();
        for (is_new, back, operand) in events {
            if is_new || originals.is_empty() {
                let request = PayloadWrite { swap_add: operand, ..atomic(Profile::Roce, Opcode::FETCH_ADD, psn) };
                take(&mut engine, &request, &mut memory);
                originals.insert(psn, value);
                value = value.wrapping_add(operand);
                psn = (psn + 1) & 0xFF_FFFF;
            } else {
                let old = psn.wrapping_sub(1 + back) & 0xFF_FFFF;
                let request = PayloadWrite { duplicate: true, ..atomic(Profile::Roce, Opcode::FETCH_ADD, old) };
                let (packets, _) = take(&mut engine, &request, &mut memory);
                let kept = originals.get(&old).filter(|_| back < 2);
                prop_assert_eq!(packets.first().map(|packet| headers(packet)[4..].to_vec()), kept.map(|value| value.to_be_bytes().to_vec()));
            }
            prop_assert_eq!(memory.read(8), value);
        }
    }
}
