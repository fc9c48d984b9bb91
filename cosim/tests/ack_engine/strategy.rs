//! Strategies for what the block is given: reports, probes, answers and contexts, right and wrong, and the times at which they come.

use proptest::prelude::*;
use spraynic_config::descriptor::{Answer, Extension, QueuePairContext, ReceivedPacket, SequenceReport};
use spraynic_cosim::Pattern;
use spraynic_golden::ack_engine::Pacing;

use super::scenario::{QUEUE_PAIRS, Scenario, Time};

fn qpn() -> impl Strategy<Value = u32> {
    prop_oneof![12 => 0..3u32, 6 => 0..QUEUE_PAIRS, 1 => Just(QUEUE_PAIRS), 1 => (0..1u32 << 16).prop_map(|high| high << 8 | 1)]
}

/// PSNs near the wrap, near half of the range, and any.
fn psn() -> impl Strategy<Value = u32> {
    prop_oneof![2 => 0..1u32 << 24, 1 => 0xFF_FF80..0x100_0000u32, 1 => 0..200u32, 1 => 0x7F_FFF0..0x80_0010u32]
}

fn context() -> impl Strategy<Value = QueuePairContext> {
    let state = prop_oneof![6 => Just(3u8), 2 => Just(2u8), 3 => 0..8u8];
    (
        qpn(),
        state,
        prop_oneof![8 => 0..3u8, 1 => Just(3u8)],
        psn(),
        psn(),
        any::<u32>(),
        0..32u8,
    )
        .prop_map(
            |(qpn, state, profile, psn, response_psn, peer, rnr_timer)| QueuePairContext {
                qpn,
                state,
                profile,
                psn,
                response_psn,
                peer_qpn: peer & 0xFF_FFFF,
                rnr_timer,
                ..QueuePairContext::default()
            },
        )
}

fn report() -> impl Strategy<Value = SequenceReport> {
    let opcode = prop_oneof![
        Just(0x04u8),
        Just(0x0C),
        Just(0x13),
        Just(0x14),
        Just(0xC7),
        any::<u8>()
    ];
    let outcome = prop_oneof![10 => Just(0u8), 6 => Just(1u8), 2 => Just(2u8), 4 => 0..16u8];
    let flags = (
        prop::bool::weighted(0.05),
        prop::bool::weighted(0.05),
        prop_oneof![8 => Just(0u8), 2 => Just(3u8), 1 => 0..4u8],
        any::<bool>(),
    );
    let far = prop_oneof![12 => Just(0u8), 1 => 1..16u8, 1 => any::<u8>()];
    let numbers = (0..1u32 << 20, 0..4097u16, any::<u16>(), any::<u64>(), any::<u64>());
    ((qpn(), opcode, outcome, psn(), psn()), flags, far, numbers).prop_map(
        |((qpn, opcode, outcome, psn, cumulative), (ack_request, retransmission, ecn, space), far, numbers)| {
            let (entropy, payload_length, time_stamp, near, bitmap) = numbers;
            SequenceReport {
                qpn,
                opcode,
                psn,
                space,
                outcome,
                entropy,
                payload_length,
                ecn,
                ack_request,
                retransmission,
                time_stamp,
                cumulative,
                far,
                near,
                bitmap,
                ..SequenceReport::default()
            }
        },
    )
}

fn probe() -> impl Strategy<Value = ReceivedPacket> {
    let space = prop_oneof![3 => Just(0u8), 3 => Just(1u8), 1 => 0..16u8];
    (qpn(), space, any::<[u8; 16]>(), any::<u16>(), 0..1u32 << 20).prop_map(
        |(qpn, space, peth, udp_source_port, flow_label)| {
            let mut extension = Extension::default();
            extension.0[..16].copy_from_slice(&peth);
            extension.0[0] = space << 4 | peth[0] & 15;
            ReceivedPacket {
                qpn,
                opcode: 0xDE,
                extension_words: 4,
                udp_source_port,
                flow_label,
                extension,
                ..ReceivedPacket::default()
            }
        },
    )
}

fn answer() -> impl Strategy<Value = Answer> {
    let syndrome = prop_oneof![6 => Just(0x1Fu8), 2 => any::<u8>()];
    (qpn(), syndrome, psn(), any::<bool>(), psn(), 0..1u32 << 20).prop_map(
        |(qpn, syndrome, psn, silent, msn, entropy)| Answer {
            qpn,
            syndrome,
            psn,
            silent,
            msn,
            entropy,
            ..Answer::default()
        },
    )
}

fn pacing() -> impl Strategy<Value = Pacing> {
    (
        prop_oneof![3 => Just(4u8), 2 => 0..4u8, 2 => 5..30u8, 1 => Just(255u8)],
        prop_oneof![2 => Just(0u32), 2 => 1..20_000u32, 1 => Just(0xFF_FFFFu32)],
        0..4_000u32,
        prop_oneof![3 => 0..400u32, 1 => Just(50_000u32), 1 => Just(u32::MAX)],
    )
        .prop_map(|(sack_every, sack_bytes, sack_timer_ns, cnp_interval_ns)| Pacing {
            sack_every,
            sack_bytes,
            sack_timer_ns,
            cnp_interval_ns,
        })
}

/// Times that grow by a few nanoseconds in each clock, and now and then by more.
fn times() -> impl Strategy<Value = Vec<Time>> {
    let start = prop_oneof![Just(0u64), Just((1 << 32) - 500), Just((1 << 40) - 900), 0..1u64 << 60];
    let jump = (1..300u64, prop_oneof![2 => 0..100u64, 1 => 0..6_000u64]);
    (start, 2..9u64, prop::collection::vec(jump, 0..5)).prop_map(|(ns, step, jumps)| {
        let mut time = Time { cycle: 0, ns, step };
        let mut times = vec![time];
        for (clocks, jump) in jumps {
            time.cycle += clocks;
            time.ns += step * clocks + jump;
            times.push(time);
        }
        times
    })
}

/// Each with the cycle before which it is not offered: bursts and pauses.
fn spread<T: std::fmt::Debug>(one: impl Strategy<Value = T>, most: usize) -> impl Strategy<Value = Vec<(u64, T)>> {
    let wait = prop_oneof![6 => Just(0u64), 3 => 1..6u64, 1 => 0..120u64];
    prop::collection::vec((wait, one), 0..most).prop_map(|list| {
        let mut cycle = 0;
        list.into_iter()
            .map(|(wait, one)| {
                cycle += wait;
                (cycle, one)
            })
            .collect()
    })
}

pub(super) fn scenarios() -> impl Strategy<Value = Scenario> {
    let opened = prop::collection::vec(context(), QUEUE_PAIRS as usize);
    let inputs = (
        spread(context(), 6),
        spread(report(), 150),
        spread(probe(), 25),
        spread(answer(), 40),
    );
    let patterns = [(); 4].map(|()| Pattern::strategy());
    (pacing(), times(), opened, inputs, patterns).prop_map(
        |(pacing, times, opened, (contexts, reports, probes, answers), patterns)| {
            let opened = opened
                .into_iter()
                .zip(0..)
                .map(|(context, qpn)| QueuePairContext { qpn, ..context });
            // A number in each report, so that it can be told what a timer's SACK has seen.
            let reports = reports.into_iter().zip(0..).map(|((cycle, report), index): (_, u16)| {
                let beyond_gap = index & 0x7FF;
                (cycle, SequenceReport { beyond_gap, ..report })
            });
            Scenario {
                pacing,
                times,
                opened: opened.collect(),
                contexts,
                reports: reports.collect(),
                probes,
                answers,
                patterns,
            }
        },
    )
}
