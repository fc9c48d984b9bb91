//! Tests of the composition: each frame ends in one place, whatever its bytes are; and messages arrive through damage.

use std::collections::BTreeMap;

use proptest::prelude::*;
use spraynic_config::descriptor::{QueuePairState, SequenceOutcome};
use spraynic_config::{Preset, Profile};
use spraynic_wire::{Ip, Packet, Psn};

use super::*;
use crate::received_frames::{Damage, any_damage, any_packet, frame};
use crate::reorder_buffer::outcome_of;

const PROFILES: [Profile; 3] = [Profile::Roce, Profile::Solar, Profile::Mrc];
const START: u32 = 0xFF_FFF8;
const SLOTS: u32 = 20;

fn context(qpn: u32, state: QueuePairState) -> QueuePairContext {
    QueuePairContext {
        qpn,
        state: state as u8,
        profile: PROFILES[qpn as usize % 3].code(),
        mtu: 3,
        partition_key: 0xFFFF,
        psn: START,
        response_psn: START,
        peer_ip: 0x0A00_0002,
        local_ip: 0x0A00_0001,
        ..QueuePairContext::default()
    }
}

/// Queue pairs 0 to 2, one of each profile, in RTS; 3 to 5 in RTR; 6 in ERROR.
fn pipeline() -> ReceivePipeline {
    let mut nic = NicConfig::preset(Preset::Lab);
    nic.wire.max_mtu = 4096;
    let mut config = Config::from(&nic);
    // 16 queue pairs with a slot each, and 4 for all: tight.
    config.reorder_buffer.pool_slots = SLOTS;
    let mut pipeline = ReceivePipeline::new(config);
    for qpn in 0..3 {
        pipeline.write_context(&context(qpn, QueuePairState::ReadyToSend));
        pipeline.write_context(&context(qpn + 3, QueuePairState::ReadyToReceive));
    }
    pipeline.write_context(&context(6, QueuePairState::Error));
    pipeline
}

/// A packet as a peer might send it, or somebody else.
fn any_arrival() -> impl Strategy<Value = (Vec<u8>, bool)> {
    let psn = prop_oneof![4 => 0u32..12, 2 => 0u32..140, 1 => any::<u32>()];
    let from_peer = prop::bool::weighted(0.9);
    let damage = prop_oneof![3 => Just(Vec::<Damage>::new()), 1 => any_damage()];
    (
        any_packet(),
        0u32..8,
        psn,
        from_peer,
        damage,
        prop::bool::weighted(0.02),
    )
        .prop_map(|(mut packet, qpn, psn, from_peer, damage, bad)| {
            packet.bth.destination_qpn = qpn;
            packet.bth.psn = Psn::new(START.wrapping_add(psn));
            packet.bth.partition_key |= 0x7FFF;
            if let (Ip::V4(ip), true) = (&mut packet.ip, from_peer) {
                (ip.source, ip.destination) = ([10, 0, 0, 2].into(), [10, 0, 0, 1].into());
            }
            let mut bytes = packet.emit();
            damage.iter().for_each(|damage| damage.apply(&mut bytes));
            (bytes, bad)
        })
}

/// The sum of all places in which a frame can end, as far as the packets reached.
fn places(c: &Counters) -> [u32; 4] {
    let (p, l, b) = (c.packet_parser, c.qp_lookup, c.reorder_buffer);
    let malformed = p.drop_mac
        + p.drop_short
        + p.drop_ip_checksum
        + p.drop_ip_length
        + p.drop_udp_length
        + p.drop_version
        + p.drop_opcode
        + p.drop_trimmed
        + p.drop_pad
        + p.drop_payload;
    let refused = l.drop_queue_pair + l.drop_opcode + l.drop_state + l.drop_peer + l.drop_partition;
    let of_buffer = b.passed
        + b.stored
        + b.duplicates
        + b.drop_closed
        + b.drop_out_of_window
        + b.drop_trimmed
        + b.drop_no_slot
        + b.drop_not_ready
        + b.drop_sequence;
    [
        p.slow_path + malformed + p.packets,
        c.icrc.right + c.icrc.unchecked + c.icrc.drop_icrc,
        l.sequence + l.feedback + l.probe + l.endpoint + refused,
        of_buffer,
    ]
}

proptest! {
    /// Frames of any kind, whole or damaged, for queue pairs in any state: each ends in one place and is counted there. Without damage the
    /// packets of each space leave once and in order. `PROPTEST_CASES=25000` makes it a million frames.
    #[test]
    fn each_frame_ends_in_one_place(
        arrivals in prop::collection::vec((any_arrival(), any::<bool>(), 0u32..3), 1..80),
        (trimmed, last_hop) in (0u8..64, 0u8..64),
    ) {
        let mut pipeline = pipeline();
        let mut next: BTreeMap<(u32, bool), Psn> = BTreeMap::new();
        let mut frames = 0;
        for ((bytes, bad), credit, closes) in arrivals {
            if credit {
                (0..6).for_each(|qpn| pipeline.credit(qpn));
            }
            let before = pipeline.counters();
            let frame = Frame { bad, ..Frame::plain(bytes) };
            let moment = Moment { trimmed_dscp: TrimmedDscp { trimmed, last_hop }, now_ns: frames, ..Moment::default() };
            let received = pipeline.receive(&frame, &moment);
            frames += 1;
            let counters = pipeline.counters();
            let [parsed, checked, looked_up, sequenced] = places(&counters);
            prop_assert_eq!(u64::from(parsed), frames);
            prop_assert_eq!(u64::from(counters.packet_parser.frames), frames);
            prop_assert_eq!(checked, counters.packet_parser.packets);
            prop_assert_eq!(looked_up, counters.icrc.right + counters.icrc.unchecked);
            prop_assert_eq!(sequenced, counters.qp_lookup.sequence);
            prop_assert!(received.control.len() <= 2);
            match &received.destination {
                Destination::SlowPath(given) => prop_assert_eq!(given, &frame.bytes),
                Destination::Sequence(report) => {
                    let one_more = counters.qp_lookup.sequence - before.qp_lookup.sequence;
                    prop_assert_eq!(one_more, 1);
                    prop_assert!(received.given.is_some() || outcome_of(report) != Some(SequenceOutcome::Passed));
                }
                _ => prop_assert!(received.given.is_none()),
            }
            // What is given is what a good frame carries, in order where the profile has an order.
            let mut given: Vec<Given> = received.given.into_iter().collect();
            for qpn in 0..6 {
                for space in Space::ALL {
                    given.extend(pipeline.release(qpn, space).given());
                }
            }
            for packet in given.iter().filter(|given| given.packet.profile == Profile::Solar.code()) {
                let key = (packet.packet.qpn, packet.packet.space);
                let expected = next.entry(key).or_insert(Psn::new(START));
                prop_assert_eq!(Psn::new(packet.packet.psn), *expected);
                *expected = expected.next();
                prop_assert_eq!(packet.payload.len(), usize::from(packet.packet.payload_length));
            }
            if closes == 0 && frames % 16 == 0 {
                // In solar, RTR to RTS moves nothing.
                pipeline.write_context(&context(4, QueuePairState::ReadyToSend));
            }
        }
        let buffer = pipeline.reorder_buffer();
        let used: u32 = (0..16).map(|qpn| buffer.used_slots(qpn)).sum();
        prop_assert_eq!(buffer.free_slots() + used, SLOTS);
        let c = pipeline.counters().reorder_buffer;
        prop_assert_eq!(used, c.stored - c.released);
    }
}

#[test]
fn the_generator_of_arrivals_reaches_every_place() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut pipeline = pipeline();
    let mut reached = [0u32; 8];
    for step in 0..20_000 {
        let (bytes, bad) = any_arrival().new_tree(&mut runner).expect("a value").current();
        let moment = Moment::default();
        let place = match pipeline
            .receive(
                &Frame {
                    bad,
                    ..Frame::plain(bytes)
                },
                &moment,
            )
            .destination
        {
            Destination::SlowPath(_) => 0,
            Destination::Malformed(_) => 1,
            Destination::WrongIcrc => 2,
            Destination::Refused(_) => 3,
            Destination::Sequence(_) => 4,
            Destination::Feedback(..) => 5,
            Destination::Probe(_) => 6,
            Destination::Endpoint(_) => 7,
        };
        reached[place] += 1;
        for (qpn, space) in [1, 4].into_iter().flat_map(|qpn| Space::ALL.map(|space| (qpn, space))) {
            pipeline.release(qpn, space);
        }
        if step > 15_000 {
            (0..6).for_each(|qpn| pipeline.credit(qpn));
        }
    }
    assert!(reached.iter().all(|times| *times >= 10), "{reached:?}");
    let c = pipeline.counters().reorder_buffer;
    let outcomes = [
        c.passed,
        c.stored,
        c.duplicates,
        c.drop_out_of_window,
        c.drop_no_slot,
        c.drop_not_ready,
        c.drop_sequence,
    ];
    assert!(outcomes.iter().all(|times| *times >= 10), "{outcomes:?}");
}

/// The frame of a SEND of queue pair 1 (solar).
fn send(psn: u32, payload: &[u8]) -> Vec<u8> {
    let mut packet: Packet = frame(0x04, false, 0, payload);
    packet.bth.destination_qpn = 1;
    packet.bth.partition_key = 0xFFFF;
    packet.bth.psn = Psn::new(psn);
    packet.emit()
}

#[test]
fn short_frames_back_to_back_keep_their_payloads_apart() {
    // Frames of 58 to 61 bytes, padded to 60 by the sender's MAC or not, each followed by a long one.
    let mut pipeline = pipeline();
    let moment = Moment::default();
    for step in 0..40u32 {
        let payload: Vec<u8> = match step % 2 {
            0 => vec![step as u8; step as usize / 2 % 4],
            _ => vec![step as u8; 1024],
        };
        let mut bytes = send(START + step, &payload);
        bytes.resize(bytes.len().max(60), 0xEE);
        pipeline.credit(1);
        let given = pipeline.receive(&Frame::plain(bytes), &moment).given.expect("in order");
        assert_eq!(given.payload, payload);
    }
}

#[test]
fn a_queue_pair_opened_again_knows_nothing_of_its_former_psns() {
    let mut pipeline = pipeline();
    let moment = Moment::default();
    (0..4).for_each(|_| pipeline.credit(1));
    for step in [0, 1, 3, 5] {
        pipeline.receive(&Frame::plain(send(START + step, &[1])), &moment);
    }
    assert_eq!(pipeline.reorder_buffer().used_slots(1), 2);
    pipeline.write_context(&context(1, QueuePairState::Reset));
    assert_eq!(pipeline.reorder_buffer().used_slots(1), 0);
    let psn = START + 3;
    pipeline.write_context(&QueuePairContext {
        psn,
        ..context(1, QueuePairState::ReadyToReceive)
    });
    assert_eq!(pipeline.reorder_buffer().credits(1), 0);
    pipeline.credit(1);
    for (step, outcome) in [
        (5, SequenceOutcome::Stored),
        (0, SequenceOutcome::Duplicate),
        (3, SequenceOutcome::Passed),
    ] {
        let received = pipeline.receive(&Frame::plain(send(START + step, &[2])), &moment);
        let Destination::Sequence(report) = received.destination else {
            panic!("{received:?}");
        };
        assert_eq!(outcome_of(&report), Some(outcome));
    }
}
