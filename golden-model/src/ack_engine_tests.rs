//! Tests of the acknowledgement model: each trigger and packet by an example, and by proptest that a sender learns of
//! each packet that arrived and of no other.

use std::collections::BTreeSet;

use proptest::prelude::*;
use spraynic_config::descriptor::HeaderTemplate;
use spraynic_config::descriptor::QueuePairState;
use spraynic_wire::{Aeth, Packet};

use super::*;
use crate::header_builder::{self, HeaderBuilder};
use crate::icrc::IcrcInsert;
use crate::reorder_buffer::{self, Arrival, Released, ReorderBuffer};

const QPN: u32 = 1;
const WINDOW: u32 = 256;
const PACING: Pacing = Pacing {
    sack_every: 4,
    sack_bytes: 0,
    sack_timer_ns: 4_000,
    cnp_interval_ns: 50_000,
};

/// A reorder buffer and the engine behind it, of one queue pair.
struct Pair {
    buffer: ReorderBuffer,
    engine: AckEngine,
    now_ns: u64,
}

impl Pair {
    fn new(profile: Profile, psn: u32) -> Self {
        let mut pair = Self {
            buffer: ReorderBuffer::new(reorder_buffer::Config {
                queue_pairs: 4,
                window: WINDOW,
                pool_slots: 512,
                reorder_queue_pairs: 4,
                guaranteed_slots: 4,
                receive_requests: 8,
            }),
            engine: AckEngine::new(Config {
                queue_pairs: 4,
                window: WINDOW,
            }),
            now_ns: 1_000_000,
        };
        let context = QueuePairContext {
            qpn: QPN,
            state: QueuePairState::ReadyToSend as u8,
            profile: profile.code(),
            psn,
            response_psn: psn,
            peer_qpn: 0xAB_CDEF,
            ..QueuePairContext::default()
        };
        pair.buffer.write_context(&context);
        pair.engine.write_context(&context);
        pair
    }

    /// A packet comes; what waits behind it leaves.
    fn receive(&mut self, packet: ReceivedPacket) -> Vec<PacketDescriptor> {
        let (report, _) = self.buffer.receive(Arrival {
            packet,
            ..Arrival::default()
        });
        while self.buffer.release(QPN, Space::Requests) != Released::Nothing {}
        self.engine.report(&report, &PACING, self.now_ns)
    }

    /// The one SACK that a packet makes due, or none.
    fn sack(&mut self, packet: ReceivedPacket) -> Option<(Seth, CcState)> {
        let given = self.receive(packet);
        assert!(given.len() <= 1);
        given.first().map(sack_of)
    }
}

fn data(psn: u32) -> ReceivedPacket {
    ReceivedPacket {
        qpn: QPN,
        opcode: 0x01,
        psn: psn & 0xFF_FFFF,
        payload_length: 1024,
        udp_source_port: 0xBEEF,
        flow_label: 0xC_1234,
        ..ReceivedPacket::default()
    }
}

fn sack_of(descriptor: &PacketDescriptor) -> (Seth, CcState) {
    assert_eq!((descriptor.opcode, descriptor.extension_words), (0xDC, 9));
    let (seth, state) = descriptor.extension.0.split_at(28);
    let (seth, state) = (Seth::parse(seth).unwrap(), CcState::parse(state).unwrap());
    assert_eq!(seth.cack_psn.value(), descriptor.psn);
    assert_eq!(seth.entropy, descriptor.entropy);
    (seth, state)
}

/// The packet as the peer parses it, behind `header_builder` and `icrc`.
fn on_the_wire(descriptor: &PacketDescriptor) -> Packet {
    let mut builder = HeaderBuilder::new(header_builder::Config::full(4));
    builder.write_template(&HeaderTemplate {
        qpn: descriptor.qpn,
        destination_qpn: 0xAB_CDEF,
        ipv6: true,
        spray: true,
        ..HeaderTemplate::default()
    });
    let frame = IcrcInsert::new().insert(builder.build_control(descriptor, 0).unwrap());
    assert!(spraynic_wire::icrc::verify(&frame.bytes).unwrap().is_valid());
    Packet::parse(&frame.bytes, None).unwrap()
}

#[test]
fn a_sack_comes_after_every_fourth_packet() {
    let mut pair = Pair::new(Profile::Solar, 0xFF_FFFE);
    for step in 0..40 {
        let sack = pair.sack(data(0xFF_FFFE + step));
        assert_eq!(sack.is_some(), step % 4 == 3);
        if let Some((seth, state)) = sack {
            let cumulative = Psn::new(0xFF_FFFE + step);
            let expected = Seth {
                entropy: 0xC_BEEF,
                spdcid: 1,
                dpdcid: 0xCDEF,
                cack_psn: cumulative,
                mpr: 2,
                sack_offset: 1,
                ..Seth::default()
            };
            assert_eq!(seth, expected);
            assert_eq!((state.ooo_count, state.rcvd_bytes), (0, 4 * (step + 1)));
        }
    }
    assert_eq!(pair.engine.counters().sacks, 10);
}

#[test]
fn bytes_make_a_sack_due_too() {
    let mut pair = Pair::new(Profile::Solar, 0);
    let pacing = Pacing {
        sack_bytes: 2048,
        ..PACING
    };
    for psn in 0..10 {
        let (report, _) = pair.buffer.receive(Arrival {
            packet: data(psn),
            ..Arrival::default()
        });
        let given = pair.engine.report(&report, &pacing, 0);
        assert_eq!(given.len() as u32, psn % 2, "{psn}");
    }
}

#[test]
fn what_must_be_known_at_once_is_not_coalesced() {
    let cases = [
        (
            "AckReq",
            ReceivedPacket {
                ack_request: true,
                ..data(0)
            },
            true,
        ),
        (
            "retransmission",
            ReceivedPacket {
                retransmission: true,
                ..data(0)
            },
            true,
        ),
        ("congestion", ReceivedPacket { ecn: 3, ..data(0) }, true),
        ("ECT(0)", ReceivedPacket { ecn: 2, ..data(0) }, false),
        ("ECT(1)", ReceivedPacket { ecn: 1, ..data(0) }, false),
        ("a new hole, which spraying makes with every packet", data(1), false),
        ("a PSN that the 64 behind the gap do not reach", data(64), true),
        ("the last that they reach", data(63), false),
        ("a duplicate", data(0xFF_FFFF), true),
    ];
    for (what, packet, due) in cases {
        let sack = Pair::new(Profile::Solar, 0).sack(packet);
        assert_eq!(sack.is_some(), due, "{what}");
        if let Some((seth, _)) = sack {
            let marked = packet.ecn == 3;
            assert_eq!(seth.feedback == PathFeedback::SkipOnce, marked, "{what}");
        }
    }
}

#[test]
fn bit_i_of_the_bitmap_is_the_psn_behind_the_offset() {
    let mut pair = Pair::new(Profile::Mrc, 0);
    assert_eq!(pair.sack(data(1)), None);
    assert_eq!(pair.sack(data(5)), None);
    let (seth, state) = pair
        .sack(ReceivedPacket {
            ack_request: true,
            ..data(3)
        })
        .unwrap();
    assert_eq!((seth.cack_psn, seth.sack_offset, seth.ack_psn_offset), (Psn::MAX, 1, 4));
    // PSNs 0 to 5 from bit 0: 1, 3 and 5 are there.
    assert_eq!((seth.sack_bitmap, state.ooo_count), (0b10_1010, 3));
    // PSN 0 is the least significant bit, the last byte on the wire.
    let wire = on_the_wire(&pair.receive(data(3))[0]);
    let mut bytes = [0; 28];
    wire.extensions[0].emit(&mut bytes);
    assert_eq!(bytes[20..], [0, 0, 0, 0, 0, 0, 0, 0b10_1010]);
    // PSN 200 stands among 192 to 255, at bit 8.
    let (seth, _) = pair.sack(data(200)).unwrap();
    assert_eq!(
        (seth.sack_offset, seth.sack_bitmap, seth.ack_psn_offset),
        (193, 1 << 8, 201)
    );
    // What is near was not said by that, and is said by the timer.
    assert_eq!(pair.engine.due_ns(QPN, Space::Requests), None);
    pair.receive(data(6));
    pair.receive(data(201));
    assert!(pair.engine.due_ns(QPN, Space::Requests).is_some());
}

#[test]
fn the_last_packets_of_a_message_do_not_wait_for_ever() {
    let mut pair = Pair::new(Profile::Solar, 0);
    assert_eq!(pair.engine.expire(QPN, Space::Requests, 0), Err(NotDue::Nothing));
    pair.receive(data(0));
    pair.now_ns += 3_000;
    pair.receive(data(2));
    let due_ns = 1_004_000;
    assert_eq!(pair.engine.due_ns(QPN, Space::Requests), Some(due_ns));
    let early = pair.engine.expire(QPN, Space::Requests, due_ns - 1);
    assert_eq!(
        early,
        Err(NotDue::Early {
            now_ns: due_ns - 1,
            due_ns
        })
    );
    let (seth, _) = sack_of(&pair.engine.expire(QPN, Space::Requests, due_ns).unwrap());
    assert_eq!(
        (seth.cack_psn, seth.sack_bitmap, seth.ack_psn_offset),
        (Psn::new(0), 0b10, 2)
    );
    assert_eq!(pair.engine.expire(QPN, Space::Requests, due_ns), Err(NotDue::Nothing));
    assert_eq!(
        (pair.engine.counters().sacks, pair.engine.counters().timer_sacks),
        (1, 1)
    );
    // The count starts anew.
    for psn in [3, 4, 5] {
        assert_eq!(pair.sack(data(psn)), None);
    }
    assert!(pair.sack(data(6)).is_some());
}

#[test]
fn nacks_name_packet_path_and_reason() {
    let mut pair = Pair::new(Profile::Mrc, 13);
    let mut extension = Extension::default();
    extension.0[4..6].copy_from_slice(&[0x12, 0x34]);
    let stamped = |packet| ReceivedPacket {
        opcode: 0xC7,
        timestamped: true,
        extension_words: 6,
        extension,
        ..packet
    };
    let cases = [
        (ReceivedPacket { trimmed: 1, ..data(20) }, NackReason::Trimmed),
        (ReceivedPacket { trimmed: 2, ..data(20) }, NackReason::TrimmedLastHop),
        (data(13 + WINDOW), NackReason::PsnOutOfWindow),
    ];
    for (packet, reason) in cases {
        let given = pair.receive(stamped(packet));
        assert_eq!(given.len(), 1);
        let wire = on_the_wire(&given[0]);
        let neth = Neth {
            reason,
            entropy: 0xC_BEEF,
            spdcid: 1,
            dpdcid: 0xCDEF,
            nack_psn: Psn::new(packet.psn),
            cc_type: 2,
            tx_timestamp: 0x1234,
            ..Neth::default()
        };
        assert_eq!(wire.bth.opcode, Opcode::NACK);
        assert_eq!(wire.bth.psn, neth.nack_psn);
        assert_eq!(wire.extensions, [spraynic_wire::Extension::Neth(neth)]);
        // Back on the path that it came by.
        assert_eq!(wire.udp_source_port, 0xBEEF);
    }
    assert_eq!((pair.engine.counters().nacks, pair.engine.counters().sacks), (3, 0));
}

#[test]
fn a_cnp_is_that_of_the_standard_and_keeps_its_interval() {
    let mut pair = Pair::new(Profile::Roce, 0);
    let marked = |psn| ReceivedPacket { ecn: 3, ..data(psn) };
    let given = pair.receive(marked(0));
    assert_eq!(given.len(), 1);
    let wire = on_the_wire(&given[0]);
    assert_eq!(
        (wire.bth.opcode, wire.bth.psn, wire.bth.becn, wire.bth.fecn),
        (Opcode::CNP, Psn::new(0), true, false)
    );
    assert!(!wire.bth.ack_request);
    assert_eq!(wire.transport_length(), 12 + 16 + 4);
    let mut cnps = 1;
    for step in 1..=200 {
        pair.now_ns += 1_000;
        cnps += pair.receive(marked(step)).len();
        assert_eq!(cnps as u32, 1 + step / 50);
    }
    assert_eq!(
        (pair.engine.counters().cnps, pair.engine.counters().cnps_spared),
        (5, 196)
    );
    // solar says it by the SACK.
    let mut solar = Pair::new(Profile::Solar, 0);
    assert_eq!(solar.receive(marked(0)).len(), 1);
    assert_eq!(solar.engine.counters().cnps, 0);
}

fn answer(psn: u32, syndrome: Syndrome, msn: u32) -> Answer {
    Answer {
        qpn: QPN,
        psn,
        syndrome: syndrome.byte(),
        msn,
        entropy: 0xC001,
        ..Answer::default()
    }
}

fn aeth(descriptor: &PacketDescriptor) -> (Opcode, u32, Aeth) {
    let wire = on_the_wire(descriptor);
    match wire.extensions[..] {
        [spraynic_wire::Extension::Aeth(aeth)] => (wire.bth.opcode, wire.bth.psn.value(), aeth),
        _ => panic!("{wire}"),
    }
}

/// Opcode, PSN, syndrome and MSN of an ACK or NAK.
fn acknowledgement(descriptor: &PacketDescriptor) -> (Opcode, u32, u8, u32) {
    let (opcode, psn, aeth) = aeth(descriptor);
    (opcode, psn, aeth.syndrome.byte(), aeth.msn)
}

#[test]
fn roce_answers_each_gap_once_and_a_duplicate_by_the_latest_psn() {
    let mut pair = Pair::new(Profile::Roce, 10);
    let (ack, nak) = (0x1F, 0x60);
    // Before any answer: nothing of this side is done yet.
    let given = pair.receive(data(9));
    assert_eq!(acknowledgement(&given[0]), (Opcode::ACKNOWLEDGE, 9, ack, 0));
    for psn in 10..15 {
        let asks = ReceivedPacket {
            ack_request: true,
            ..data(psn)
        };
        assert_eq!(pair.receive(asks), [], "the response engine answers");
    }
    // What it answered is recorded here, and no packet of this block; a silent answer counts too.
    assert_eq!(pair.engine.answer(&answer(13, Syndrome::ACK, 1)), None);
    let silent = Answer {
        silent: true,
        ..answer(14, Syndrome::ACK, 2)
    };
    assert_eq!(pair.engine.answer(&silent), None);
    // A duplicate ACK carries the latest PSN, not the duplicate's, and takes the way back of the duplicate.
    let again = pair.receive(data(11));
    assert_eq!(acknowledgement(&again[0]), (Opcode::ACKNOWLEDGE, 14, ack, 2));
    assert_eq!(again[0].entropy, 0xC_BEEF);
    // A duplicate READ is answered by the responder.
    let read = ReceivedPacket {
        opcode: 0x0C,
        ..data(11)
    };
    assert_eq!(pair.receive(read), []);
    let given = pair.receive(data(17));
    assert_eq!(acknowledgement(&given[0]), (Opcode::ACKNOWLEDGE, 15, nak, 2));
    assert_eq!(pair.receive(data(18)), []);
    assert_eq!((pair.engine.counters().acks, pair.engine.counters().naks), (2, 1));
    // A refusal says how many messages are done, and acknowledges nothing.
    let refusal = answer(15, Syndrome::Nak(NakCode::RemoteAccessError), 3);
    assert_eq!(pair.engine.answer(&refusal), None);
    let given = pair.receive(data(11));
    assert_eq!(acknowledgement(&given[0]), (Opcode::ACKNOWLEDGE, 14, ack, 3));
}

#[test]
fn a_send_without_a_receive_request_is_answered_by_every_rnr_timer_code() {
    for code in 0..32 {
        let mut pair = Pair::new(Profile::Roce, 100);
        let context = QueuePairContext {
            qpn: QPN,
            state: QueuePairState::ReadyToSend as u8,
            rnr_timer: code,
            ..QueuePairContext::default()
        };
        // The timer code changes while the queue pair receives, nothing else does.
        pair.engine.write_context(&context);
        pair.engine.answer(&answer(99, Syndrome::ACK, 7));
        let send = ReceivedPacket {
            opcode: 0x04,
            ..data(100)
        };
        let given = pair.receive(send);
        assert_eq!(given.len(), 1);
        assert_eq!(acknowledgement(&given[0]), (Opcode::ACKNOWLEDGE, 100, 0x20 + code, 7));
        assert_eq!(pair.engine.counters().naks, 1);
    }
    // mrc has no RNR NAK: a NACK says that a resource is missing. solar keeps the packet.
    let immediate = |psn| ReceivedPacket {
        opcode: 0xCB,
        ..data(psn)
    };
    let mut pair = Pair::new(Profile::Mrc, 100);
    let wire = on_the_wire(&pair.receive(immediate(100))[0]);
    assert!(
        matches!(wire.extensions[..], [spraynic_wire::Extension::Neth(neth)] if neth.reason == NackReason::NoResource),
        "{wire}"
    );
    assert_eq!((pair.engine.counters().nacks, pair.engine.counters().naks), (1, 0));
}

#[test]
fn a_silent_answer_is_no_packet_and_the_last_ack_of_a_probe() {
    for profile in [Profile::Solar, Profile::Mrc] {
        let mut pair = Pair::new(profile, 0);
        let silent = Answer {
            silent: true,
            ..answer(5, Syndrome::ACK, 2)
        };
        assert_eq!(pair.engine.answer(&silent), None);
        let given = pair.engine.probe(&probe(0));
        let (_, psn, syndrome, msn) = acknowledgement(&given[1]);
        assert_eq!((psn, syndrome, msn), (5, 0x1F, 2));
        assert_eq!(pair.engine.counters().acks, 1);
    }
}

#[test]
fn every_rnr_timer_and_nak_code_stands_in_the_syndrome() {
    let mut pair = Pair::new(Profile::Mrc, 0);
    for byte in (0x20..0x40).chain(0x60..0x64) {
        let given = pair
            .engine
            .answer(&answer(7, Syndrome::from_byte(byte), 0x12_3456))
            .unwrap();
        let (opcode, psn, aeth) = aeth(&given);
        assert_eq!(
            (opcode, psn, aeth.syndrome.byte(), aeth.msn),
            (Opcode::MRC_ACKNOWLEDGE, 7, byte, 0x12_3456)
        );
    }
    assert_eq!(pair.engine.counters().naks, 36);
    assert_eq!(
        pair.engine.answer(&Answer {
            qpn: 2,
            ..answer(7, Syndrome::ACK, 0)
        }),
        None,
        "does not receive"
    );
    assert_eq!(
        pair.engine.answer(&Answer {
            qpn: 4,
            ..answer(7, Syndrome::ACK, 0)
        }),
        None,
        "beyond the table"
    );
    assert_eq!(pair.engine.counters().drop_request, 2);
}

fn probe(space: u8) -> ReceivedPacket {
    let mut extension = Extension::default();
    extension.0[0] = space << 4;
    extension.0[4..6].copy_from_slice(&[0xFE, 0xDC]);
    extension.0[12..14].copy_from_slice(&[0x56, 0x78]);
    ReceivedPacket {
        opcode: 0xDE,
        extension_words: 4,
        extension,
        ..data(0)
    }
}

#[test]
fn a_probe_is_answered_by_a_sack_and_the_last_ack() {
    let mut pair = Pair::new(Profile::Solar, 100);
    pair.receive(data(100));
    pair.receive(data(102));
    let given = pair.engine.probe(&probe(0));
    assert_eq!(given.len(), 1, "nothing was acknowledged yet");
    let ack = pair.engine.answer(&answer(100, Syndrome::ACK, 1)).unwrap();
    let given = pair.engine.probe(&probe(0));
    let (seth, state) = sack_of(&given[0]);
    assert!(seth.probe_response);
    assert_eq!((seth.ack_psn_offset as u16, state.tx_timestamp), (0xFEDC, 0x5678));
    assert_eq!((seth.cack_psn, seth.sack_bitmap), (Psn::new(100), 0b10));
    assert_eq!(acknowledgement(&given[1]), acknowledgement(&ack));
    // It was a report: the timer has nothing to say.
    assert_eq!(pair.engine.due_ns(QPN, Space::Requests), None);
    let (seth, _) = sack_of(&pair.engine.probe(&probe(1))[0]);
    assert_eq!((seth.space, seth.cack_psn), (SequenceSpace::Responses, Psn::new(99)));
    assert_eq!(pair.engine.probe(&probe(2)), []);
    assert_eq!(Pair::new(Profile::Roce, 0).engine.probe(&probe(0)), []);
    assert_eq!(Pair::new(Profile::Mrc, 0).engine.probe(&probe(1)), []);
    assert_eq!(pair.engine.counters().drop_request, 1);
}

/// A probe comes by another path than what was lost; all that answers it goes back by that path.
#[test]
fn what_answers_a_probe_takes_the_path_of_the_probe() {
    for profile in [Profile::Solar, Profile::Mrc] {
        let mut pair = Pair::new(profile, 100);
        pair.receive(data(100));
        pair.engine.answer(&answer(100, Syndrome::ACK, 1)).unwrap();
        for entropy in [0xC003, 0xA_C004] {
            let probe = ReceivedPacket {
                udp_source_port: entropy as u16,
                flow_label: entropy,
                ..probe(0)
            };
            let given = pair.engine.probe(&probe);
            let entropies: Vec<_> = given.iter().map(|packet| packet.entropy).collect();
            assert_eq!(entropies, [entropy, entropy]);
        }
    }
}

/// The NAK of a refused request can be lost as well, and is the last that is said of the queue pair.
#[test]
fn a_probe_is_answered_by_the_refusal_again() {
    for (profile, opcode) in [
        (Profile::Solar, Opcode::ACKNOWLEDGE),
        (Profile::Mrc, Opcode::MRC_ACKNOWLEDGE),
    ] {
        let mut pair = Pair::new(profile, 100);
        let refusal = Syndrome::Nak(NakCode::RemoteAccessError);
        let refused = pair.engine.answer(&answer(101, refusal, 1)).unwrap();
        assert_eq!(acknowledgement(&refused), (opcode, 101, refusal.byte(), 1));
        let given = pair.engine.probe(&probe(0));
        assert_eq!(acknowledgement(&given[1]), (opcode, 101, refusal.byte(), 1));
        assert_eq!((pair.engine.counters().acks, pair.engine.counters().naks), (0, 2));
    }
}

/// The packet that ends a message of mrc is not the one that completes it, and retirement knows of no packet.
#[test]
fn an_answer_takes_the_path_of_its_packet_and_in_mrc_of_the_last_one() {
    let from = |entropy: u32, psn| ReceivedPacket {
        udp_source_port: entropy as u16,
        flow_label: entropy,
        ..data(psn)
    };
    for (profile, entropy) in [(Profile::Solar, 0xC001), (Profile::Mrc, 0xB_C005)] {
        let mut pair = Pair::new(profile, 100);
        pair.receive(from(0xC004, 101));
        pair.receive(from(0xB_C005, 100));
        // A duplicate completes nothing; a packet far behind the gap is of another message.
        pair.receive(from(0xC006, 100));
        pair.receive(from(0xC007, 200));
        let ack = pair.engine.answer(&answer(101, Syndrome::ACK, 1)).unwrap();
        assert_eq!(ack.entropy, entropy, "{profile:?}");
        assert_eq!(on_the_wire(&ack).udp_source_port, entropy as u16);
    }
}

#[test]
fn a_queue_pair_that_is_closed_says_nothing() {
    let mut pair = Pair::new(Profile::Solar, 0);
    pair.receive(data(0));
    pair.engine.answer(&answer(0, Syndrome::ACK, 1));
    let reset = QueuePairContext {
        qpn: QPN,
        ..QueuePairContext::default()
    };
    pair.engine.write_context(&reset);
    assert_eq!(pair.engine.due_ns(QPN, Space::Requests), None);
    assert_eq!(
        pair.receive(ReceivedPacket {
            ack_request: true,
            ..data(1)
        }),
        []
    );
    assert_eq!(pair.engine.probe(&probe(0)), []);
    // Opened again, it starts from its new PSN, and forgets the last ACK.
    let context = QueuePairContext {
        state: 3,
        profile: 1,
        psn: 500,
        ..reset
    };
    pair.engine.write_context(&context);
    let given = pair.engine.probe(&probe(0));
    assert_eq!((given.len(), sack_of(&given[0]).0.cack_psn), (1, Psn::new(499)));
}

proptest! {
    /// Packets in any order, some twice, some with marks, timers that fire late or not: what the SACKs say together is what arrived,
    /// and nothing is unreported longer than the timer.
    #[test]
    fn a_sender_learns_of_each_packet_that_arrived_and_of_no_other(
        profile in prop::sample::select(vec![Profile::Solar, Profile::Mrc]),
        start in prop_oneof![any::<u32>(), Just(0xFF_FF00)],
        arrivals in prop::collection::vec((0u32..300, 0u64..3_000, prop::bool::weighted(0.05)), 1..300),
    ) {
        let start = start & 0xFF_FFFF;
        let first = Psn::new(start);
        let mut pair = Pair::new(profile, start);
        let mut arrived = BTreeSet::new();
        let mut known = BTreeSet::new();
        let mut learn = |descriptor: &PacketDescriptor, arrived: &BTreeSet<u32>| -> Result<(), TestCaseError> {
            if descriptor.opcode == 0xDD {
                return Ok(());
            }
            let (seth, state) = sack_of(descriptor);
            let complete = seth.cack_psn.next().steps_from(first);
            let told: BTreeSet<u32> = (0..complete)
                .chain((0..64).filter(|bit| seth.sack_bitmap >> bit & 1 == 1).map(|bit| {
                    (seth.cack_psn + seth.sack_offset as u32 + bit).steps_from(first)
                }))
                .collect();
            prop_assert!(told.is_subset(arrived), "{told:?} {arrived:?}");
            prop_assert_eq!(state.ooo_count as usize + complete as usize, arrived.len());
            prop_assert_eq!(state.rcvd_bytes as usize, arrived.len() * 4 % (1 << 24));
            known.extend(told);
            Ok(())
        };
        for (step, wait, ack_request) in arrivals {
            pair.now_ns += wait;
            if let Some(due) = pair.engine.due_ns(QPN, Space::Requests).filter(|due| *due <= pair.now_ns) {
                let sack = pair.engine.expire(QPN, Space::Requests, due).unwrap();
                learn(&sack, &arrived)?;
            }
            let beyond = pair.buffer.base(QPN, Space::Requests).unwrap().steps_from(first) + WINDOW <= step;
            if !beyond {
                arrived.insert(step);
            }
            let given = pair.receive(ReceivedPacket { ack_request, ..data(start.wrapping_add(step)) });
            prop_assert!(given.len() <= 1);
            prop_assert_eq!(given.iter().any(|descriptor| descriptor.opcode == 0xDD), beyond);
            for descriptor in &given {
                learn(descriptor, &arrived)?;
            }
            if let Some(due) = pair.engine.due_ns(QPN, Space::Requests) {
                prop_assert!(due > pair.now_ns && due <= pair.now_ns + 4_000);
            }
        }
        if let Some(due) = pair.engine.due_ns(QPN, Space::Requests) {
            let sack = pair.engine.expire(QPN, Space::Requests, due).unwrap();
            learn(&sack, &arrived)?;
        }
        prop_assert_eq!(known, arrived);
    }
}
