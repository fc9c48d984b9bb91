//! ack_engine: golden model and RTL give the same control packets and counters for the same reports, probes, answers and contexts,
//! and the timer keeps its bound.

mod common;

#[path = "ack_engine/scenario.rs"]
mod scenario;

use proptest::prelude::*;
use scenario::{BEGIN, Given, LATENCY, QUEUE_PAIRS, Scenario, Time, config, open, timer_bound};
use spraynic_config::Profile;
use spraynic_config::descriptor::{
    Answer, Extension, PacketDescriptor, QueuePairContext, ReceivedPacket, SequenceOutcome, SequenceReport,
};
use spraynic_cosim::{
    Bench, Case, Expectation, Limits, ModelSource, Outcome, Pattern, Property, PropertyError, SharedModel, Simulation,
    Trial,
};
use spraynic_golden::ack_engine::Pacing;
use spraynic_wire::{CcState, Header, Psn, Seth};

static MODEL: SharedModel = SharedModel::new(source);

/// More than the longest timer of a random scenario.
const LIMITS: Limits = Limits {
    quiet_clocks: 2_200,
    hang_clocks: 8_000,
    most_clocks: 50_000_000,
};

fn source() -> ModelSource {
    let context = spraynic_rtl::Context::new();
    ModelSource::from_definition(spraynic_hdl::ack_engine::ack_engine(&context, &config()))
}

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

fn scenarios() -> impl Strategy<Value = Scenario> {
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

#[test]
fn packets_and_counters_equal_the_golden_model_and_timers_keep_their_bound() -> Result<(), PropertyError> {
    Property::new("ack_engine", &MODEL)
        .cases(120)
        .limits(LIMITS)
        .check_trials(scenarios(), |scenario| {
            let case = Case {
                stimulus: scenario.stimulus(),
                // When a timer's SACK comes is not known before: the judge compares.
                expectation: Expectation {
                    unchecked: vec!["m_axis".to_owned()],
                    ..Expectation::default()
                },
            };
            let scenario = scenario.clone();
            Trial::new(case).judged(move |outcome| scenario.judge(outcome).map(|_| ()))
        })
}

/// Runs a scenario; `None` without a Verilator. What came out equals the model.
fn run(scenario: &Scenario) -> Option<(Outcome, Vec<Given>)> {
    let model = MODEL.get().unwrap_or_else(|error| panic!("{error}"))?;
    let mut simulation = Simulation::new(&model, 1);
    let outcome = Bench::new(&mut simulation, &scenario.stimulus(), LIMITS)
        .and_then(|mut bench| bench.run(&mut ()))
        .unwrap_or_else(|error| panic!("{error}"));
    let given = scenario.judge(&outcome).unwrap_or_else(|error| panic!("{error}"));
    Some((outcome, given))
}

/// The next packet of queue pair 1, all before it received.
fn data(psn: u32) -> SequenceReport {
    SequenceReport {
        qpn: 1,
        opcode: 0x01,
        psn: psn & 0xFF_FFFF,
        cumulative: psn & 0xFF_FFFF,
        payload_length: 1024,
        entropy: 0xC_BEEF,
        ..SequenceReport::default()
    }
}

fn refused(psn: u32, outcome: SequenceOutcome) -> SequenceReport {
    SequenceReport {
        outcome: outcome as u8,
        ..data(psn)
    }
}

fn seth(packet: &PacketDescriptor) -> (Seth, CcState) {
    assert_eq!((packet.opcode, packet.extension_words), (0xDC, 9), "a SACK: {packet:?}");
    let (seth, state) = packet.extension.0.split_at(28);
    (Seth::parse(seth).unwrap(), CcState::parse(state).unwrap())
}

/// Opcode, PSN, syndrome, MSN of an ACK or NAK.
fn aeth(packet: &PacketDescriptor) -> (u8, u32, u8, u32) {
    assert_eq!(packet.extension_words, 1, "an AETH: {packet:?}");
    let bytes = &packet.extension.0;
    let msn = u32::from_be_bytes([0, bytes[1], bytes[2], bytes[3]]);
    (packet.opcode, packet.psn, bytes[0], msn)
}

#[test]
fn an_idle_engine_answers_four_clocks_later() {
    let marked = |profile, report: SequenceReport| {
        let mut scenario = Scenario::of(profile, 0);
        scenario.reports = vec![(0, report)];
        scenario
    };
    let asks = SequenceReport {
        ack_request: true,
        ..data(0)
    };
    let mut answered = Scenario::of(Profile::Solar, 0);
    answered.answers = vec![(
        0,
        Answer {
            qpn: 1,
            ..Answer::default()
        },
    )];
    let mut probed = Scenario::of(Profile::Mrc, 0);
    probed.probes = vec![(0, peth(0, 7))];
    let cases = [
        ("s_axis_report", marked(Profile::Solar, asks)),
        (
            "s_axis_report",
            marked(Profile::Mrc, refused(0, SequenceOutcome::Trimmed)),
        ),
        (
            "s_axis_report",
            marked(Profile::Roce, refused(0, SequenceOutcome::SequenceFirst)),
        ),
        (
            "s_axis_report",
            marked(Profile::Roce, SequenceReport { ecn: 3, ..data(0) }),
        ),
        ("s_axis_answer", answered),
        ("s_axis_probe", probed),
    ];
    for (stream, scenario) in cases {
        let Some((outcome, given)) = run(&scenario) else { return };
        assert_eq!(given.len(), 1);
        assert_eq!(
            given[0].cycle - outcome.accepted(stream)[0].last_cycle,
            LATENCY,
            "{stream}"
        );
    }
}

/// A probe of queue pair 1.
fn peth(space: u8, id: u16) -> ReceivedPacket {
    let mut extension = Extension::default();
    extension.0[0] = space << 4;
    extension.0[4..6].copy_from_slice(&id.to_be_bytes());
    extension.0[12..14].copy_from_slice(&[0x56, 0x78]);
    ReceivedPacket {
        qpn: 1,
        opcode: 0xDE,
        extension_words: 4,
        extension,
        ..ReceivedPacket::default()
    }
}

/// Clocks in which so many reports were accepted, from the first to the last.
fn clocks_of_reports(scenario: &Scenario) -> Option<(u64, Vec<Given>)> {
    let (outcome, given) = run(scenario)?;
    let accepted = outcome.accepted("s_axis_report");
    let clocks = accepted[accepted.len() - 1].last_cycle - accepted[0].last_cycle + 1;
    Some((clocks, given))
}

#[test]
fn one_report_a_clock_of_one_queue_pair_or_of_all() {
    const COUNT: u32 = 640;
    for (every, queue_pairs) in [(4, 1), (1, 1), (4, QUEUE_PAIRS), (1, QUEUE_PAIRS), (3, 2)] {
        let mut scenario = Scenario::of(Profile::Solar, 0);
        scenario.opened = (0..QUEUE_PAIRS).map(|qpn| open(qpn, Profile::Solar, 0)).collect();
        scenario.pacing.sack_every = every;
        // No timer in between: its SACK would be one more packet.
        scenario.pacing.sack_timer_ns = 6_000;
        let report = |index: u32| SequenceReport {
            qpn: if queue_pairs == 1 { 1 } else { index % queue_pairs },
            beyond_gap: (index & 0x7FF) as u16,
            ..data(index / queue_pairs)
        };
        scenario.reports = (0..COUNT).map(|index| (0, report(index))).collect();
        let Some((clocks, given)) = clocks_of_reports(&scenario) else {
            return;
        };
        let sacks = given.iter().filter(|given| given.late.is_none()).count();
        assert_eq!(
            clocks,
            u64::from(COUNT),
            "a SACK of each {every}, {queue_pairs} queue pairs"
        );
        assert_eq!(sacks as u32, COUNT / queue_pairs / u32::from(every) * queue_pairs);
        if every == 1 {
            let out = given[given.len() - 1].cycle - given[0].cycle + 1;
            assert_eq!(out, u64::from(COUNT), "a packet leaves in every clock");
        }
    }
}

/// Where each report makes two packets, the output is what limits; where every second one does, a report is taken in each clock.
#[test]
fn two_packets_of_a_report_take_two_clocks() {
    const COUNT: u32 = 400;
    for (each, clocks) in [(1, 2 * u64::from(COUNT)), (2, u64::from(COUNT))] {
        let mut scenario = Scenario::of(Profile::Roce, 0);
        scenario.pacing.cnp_interval_ns = 0;
        // A duplicate is answered by the last ACK, one that met congestion by a CNP too; an opening of a gap by nothing the second time.
        let report = |index: u32| SequenceReport {
            ecn: 3 * u8::from(index.is_multiple_of(each)),
            ..refused(
                0,
                if index.is_multiple_of(each) {
                    SequenceOutcome::Duplicate
                } else {
                    SequenceOutcome::Sequence
                },
            )
        };
        scenario.reports = (0..COUNT).map(|index| (0, report(index))).collect();
        let Some((taken, given)) = clocks_of_reports(&scenario) else {
            return;
        };
        assert_eq!(given.len() as u32, 2 * COUNT / each);
        // What the queue holds is taken ahead of the output.
        assert!(
            taken <= clocks && taken + 32 >= clocks,
            "{taken} clocks for {COUNT} reports"
        );
        for pair in given.chunks(2) {
            assert_eq!((pair[0].packet.opcode, pair[1].packet.opcode), (0x11, 0x81));
            assert!(pair[1].packet.becn && pair[1].packet.psn == 0 && pair[1].packet.extension_words == 4);
        }
        let out = given[given.len() - 1].cycle - given[0].cycle + 1;
        assert_eq!(out, u64::from(2 * COUNT / each), "a packet leaves in every clock");
    }
}

#[test]
fn probes_and_answers_have_their_turn_among_reports_in_every_clock() {
    let mut scenario = Scenario::of(Profile::Solar, 0);
    scenario.reports = (0..400).map(|psn| (0, data(psn))).collect();
    scenario.probes = vec![(50, peth(0, 1)), (120, peth(1, 2))];
    scenario.answers = vec![(
        50,
        Answer {
            qpn: 1,
            ..Answer::default()
        },
    )];
    let Some((outcome, _)) = run(&scenario) else { return };
    for (stream, cycle) in [("s_axis_probe", 50), ("s_axis_answer", 50)] {
        let waited = outcome.accepted(stream)[0].last_cycle - (BEGIN + cycle);
        assert!(waited <= 3, "{stream} waited {waited} clocks");
    }
}

#[test]
fn sack_bitmap_bit_0_is_the_least_significant_bit_of_the_last_byte() {
    let mut scenario = Scenario::of(Profile::Mrc, 13);
    let near = SequenceReport {
        cumulative: 12,
        beyond_gap: 3,
        near: 0b10_1010,
        bitmap: 0b10_1010,
        ack_request: true,
        time_stamp: 0x1234,
        ..data(18)
    };
    let far = SequenceReport {
        far: 3,
        bitmap: 1 << 63 | 1 << 8,
        ack_request: false,
        psn: 12 + 193 + 8,
        ..near
    };
    scenario.reports = vec![(0, near), (20, far)];
    let Some((_, given)) = run(&scenario) else { return };
    let packet = &given[0].packet;
    assert_eq!(
        (packet.opcode, packet.psn, packet.mrc, packet.entropy),
        (0xDC, 12, true, 0xC_BEEF)
    );
    assert_eq!(packet.extension.0[20..28], [0, 0, 0, 0, 0, 0, 0, 0b10_1010]);
    let (first, state) = seth(packet);
    assert_eq!(
        (first.cack_psn, first.sack_offset, first.ack_psn_offset, first.mpr),
        (Psn::new(12), 1, 6, 2)
    );
    assert_eq!((first.spdcid, first.dpdcid), (1, 0xCDEF));
    assert_eq!((state.ooo_count, state.rcvd_bytes, state.tx_timestamp), (3, 4, 0x1234));
    assert_eq!(given[1].packet.extension.0[20..28], [0x80, 0, 0, 0, 0, 0, 1, 0]);
    let (second, state) = seth(&given[1].packet);
    assert_eq!(
        (second.sack_offset, second.ack_psn_offset, state.rcvd_bytes),
        (193, 201, 8)
    );
}

/// Coalesced packets at the end of a message: the timer reports them, neither early nor later than documented.
#[test]
fn coalesced_acks_of_the_last_packets_do_not_wait_for_ever() {
    for timer in [0, 1, 400, 4_000] {
        let mut scenario = Scenario::of(Profile::Solar, 0);
        scenario.pacing.sack_timer_ns = timer;
        scenario.pacing.sack_every = 200;
        scenario.reports = (0..3).map(|psn| (0, data(psn))).collect();
        let Some((_, given)) = run(&scenario) else { return };
        let last = &given[given.len() - 1];
        let (sack, _) = seth(&last.packet);
        assert_eq!(sack.cack_psn, Psn::new(2));
        let late = last.late.expect("of the timer");
        assert!(
            (LATENCY + 1..=timer_bound(1, 0)).contains(&late),
            "timer of {timer} ns: {late} clocks late"
        );
    }
}

/// Just when the time of a space comes, a report makes a SACK and the next one begins anew: that one has its own time. Tried at each
/// distance that the ring and the pipeline can have between looking at a time and judging it.
#[test]
fn what_begins_anew_while_the_timer_comes_is_not_reported_too_early() {
    const PERIOD: u64 = 400;
    let mut scenario = Scenario::of(Profile::Solar, 0);
    scenario.pacing.sack_every = 2;
    scenario.pacing.sack_timer_ns = 400;
    let due = 400 / 4;
    for (index, distance) in (0..25).enumerate() {
        let begin = PERIOD * index as u64;
        let psn = 3 * index as u32;
        let second = begin + due - 15 + distance;
        for (cycle, psn) in [(begin, psn), (second, psn + 1), (second + 1, psn + 2)] {
            scenario.reports.push((cycle, data(psn)));
        }
    }
    let Some((_, given)) = run(&scenario) else { return };
    // The first and second one together, and the third by its own timer; or, where the timer came first, the others together.
    assert_eq!(given.len(), 50);
    let own = given
        .iter()
        .filter(|given| given.late.is_some() && given.packet.psn % 3 == 2);
    let own = own.count();
    assert!((5..=20).contains(&own), "both ways are tried: {own} of 25");
}

/// All spaces come due in the same clock while reports come in every clock: each has its SACK within the bound.
#[test]
fn timers_of_all_spaces_at_once_keep_the_bound() {
    let mut scenario = Scenario::of(Profile::Solar, 0);
    scenario.opened = (0..QUEUE_PAIRS).map(|qpn| open(qpn, Profile::Solar, 0)).collect();
    // The longest timer: nearly 4.3 seconds, over which the clock jumps.
    scenario.pacing = Pacing {
        sack_every: 255,
        sack_timer_ns: u32::MAX,
        ..Pacing::default()
    };
    let of = |index: u32, cycle| {
        let report = SequenceReport {
            qpn: index / 2 % QUEUE_PAIRS,
            space: index % 2 == 1,
            beyond_gap: index as u16,
            ..data(index)
        };
        (cycle, report)
    };
    let spaces = 2 * QUEUE_PAIRS;
    scenario.times.push(Time {
        cycle: BEGIN + 100,
        ns: 1_000_000 + 4 * (BEGIN + 100) + u64::from(u32::MAX),
        step: 4,
    });
    // The first of them are unreported when the clock jumps, the others come meanwhile and leave by another jump.
    scenario.reports = (0..spaces).map(|index| of(index, 0)).collect();
    scenario
        .reports
        .extend((spaces..spaces + 200).map(|index| of(index, 90)));
    scenario.times.push(Time {
        cycle: BEGIN + 1_000,
        ns: 1_000_000 + 4 * (BEGIN + 1_000) + 3 * u64::from(u32::MAX),
        step: 4,
    });
    let Some((_, given)) = run(&scenario) else { return };
    assert_eq!(given.len() as u32, 2 * spaces, "all by the timer, twice");
    let late = given.iter().map(|given| given.late.expect("of the timer"));
    let latest = late.max().unwrap();
    assert!(latest <= timer_bound(spaces.into(), 1), "{latest} clocks late");
}

#[test]
fn a_cnp_follows_at_the_end_of_the_interval_and_not_a_nanosecond_earlier() {
    for (interval, step) in [(50_000, 1), (50_000, 4), (4_000, 4), (1, 1), (0, 1)] {
        let mut scenario = Scenario::of(Profile::Roce, 0);
        scenario.times = vec![Time {
            cycle: 0,
            ns: (1 << 32) - 77,
            step,
        }];
        scenario.pacing.cnp_interval_ns = interval;
        let marked = |cycle, qpn| (cycle, SequenceReport { qpn, ecn: 3, ..data(0) });
        scenario.opened.push(open(2, Profile::Roce, 0));
        let edge = u64::from(interval) / step;
        // The first, one clock before the interval's end, at its end; another queue pair has its own interval.
        let mut cycles = vec![0, edge.saturating_sub(1), edge, edge + 1];
        cycles.dedup();
        scenario.reports = cycles.iter().map(|cycle| marked(*cycle, 1)).collect();
        scenario.reports.push(marked(edge + 3, 2));
        let Some((outcome, given)) = run(&scenario) else { return };
        let accepted = outcome.accepted("s_axis_report");
        let cnps: Vec<u64> = given
            .iter()
            .filter(|given| given.packet.qpn == 1)
            .map(|given| given.cycle - LATENCY - accepted[0].last_cycle)
            .collect();
        match interval {
            0 | 1 => assert_eq!(cnps.len(), cycles.len(), "interval {interval}"),
            _ => assert_eq!(cnps, [0, edge], "interval {interval}"),
        }
        assert_eq!(
            outcome.counters["cnps"] + outcome.counters["cnps_spared"],
            cycles.len() as u64 + 1
        );
        assert_eq!(given.iter().filter(|given| given.packet.qpn == 2).count(), 1);
    }
}

/// PSN 141 to 144 with a base of 13 and a window of 128: refused, and each is answered.
#[test]
fn psn_141_to_144_with_base_13_and_window_128_are_answered() {
    for profile in [Profile::Solar, Profile::Mrc] {
        let mut scenario = Scenario::of(profile, 13);
        let report = |psn| SequenceReport {
            cumulative: 12,
            ..refused(psn, SequenceOutcome::OutOfWindow)
        };
        scenario.reports = (141..=144).map(|psn| (0, report(psn))).collect();
        let Some((_, given)) = run(&scenario) else { return };
        let nacks: Vec<(u8, u32, u8)> = given
            .iter()
            .map(|given| (given.packet.opcode, given.packet.psn, given.packet.extension.0[2]))
            .collect();
        assert_eq!(nacks, [141, 142, 143, 144].map(|psn| (0xDD, psn, 0x0B)));
    }
}

/// A duplicate of the highest PSN is 0 beyond the cumulative one, and no gap of 2^24 - 1.
#[test]
fn a_duplicate_of_the_highest_psn_is_answered_at_once_and_is_no_gap() {
    let mut scenario = Scenario::of(Profile::Solar, 100);
    scenario.reports = vec![(0, data(100)), (20, refused(100, SequenceOutcome::Duplicate))];
    let Some((_, given)) = run(&scenario) else { return };
    assert_eq!(
        given.len(),
        1,
        "it reports the first one too: nothing is left for the timer"
    );
    let (sack, state) = seth(&given[0].packet);
    assert_eq!(
        (sack.cack_psn, sack.ack_psn_offset, sack.sack_bitmap),
        (Psn::new(100), 0, 0)
    );
    assert_eq!(state.rcvd_bytes, 4, "a duplicate's bytes do not count");
}

#[test]
fn distances_around_half_of_the_psns_and_over_the_wrap_are_limited_to_16_bits() {
    let cases = [
        (0, 0xFF_FFFF, 1),
        (0xFF_FFFF, 0, -1),
        (5, 0xFF_FFFE, 7),
        (0x7FFF, 0, i16::MAX),
        (0x8000, 0, i16::MAX),
        (0x10_0000, 0, i16::MAX),
        // One less than 2^23 is newer, 2^23 itself and more are older.
        (0x7F_FFFF, 0, i16::MAX),
        (0x80_0000, 0, i16::MIN),
        (0x80_0001, 0, i16::MIN),
        (0xFF_8001, 0, i16::MIN + 1),
        (0xFF_8000, 0, i16::MIN),
        (0xFF_7FFF, 0, i16::MIN),
    ];
    let mut scenario = Scenario::of(Profile::Mrc, 0);
    let report = |(psn, cumulative, _): (u32, u32, i16)| SequenceReport {
        cumulative,
        ack_request: true,
        ..data(psn)
    };
    scenario.reports = cases.iter().map(|case| (0, report(*case))).collect();
    let Some((_, given)) = run(&scenario) else { return };
    assert_eq!(given.len(), cases.len());
    for ((psn, cumulative, offset), given) in cases.into_iter().zip(given) {
        let (sack, _) = seth(&given.packet);
        assert_eq!(sack.ack_psn_offset, offset, "{psn:#x} against {cumulative:#x}");
    }
}

#[test]
fn every_rnr_timer_code_stands_in_an_rnr_nak() {
    let mut scenario = Scenario::of(Profile::Roce, 0);
    scenario.opened[0].rnr_timer = 31;
    for code in 0..32u8 {
        // The code is written while the queue pair receives; all else stays.
        let context = QueuePairContext {
            rnr_timer: code,
            ..open(1, Profile::Solar, 7)
        };
        let cycle = 20 * u64::from(code);
        scenario.contexts.push((cycle, context));
        let answer = Answer {
            qpn: 1,
            psn: 99,
            syndrome: 0x1F,
            msn: u32::from(code) + 5,
            ..Answer::default()
        };
        scenario.answers.push((cycle, answer));
        scenario
            .reports
            .push((cycle + 10, refused(100, SequenceOutcome::NotReady)));
    }
    let Some((_, given)) = run(&scenario) else { return };
    let naks: Vec<_> = given.iter().map(|given| aeth(&given.packet)).collect();
    let expected: Vec<_> = (0..32)
        .map(|code| (0x11, 100, 0x20 + code, u32::from(code) + 5))
        .collect();
    assert_eq!(naks, expected);
}

/// A queue pair that is closed and opened again knows nothing of what was, whatever is under way.
#[test]
fn a_queue_pair_opened_again_begins_anew() {
    let mut scenario = Scenario::of(Profile::Solar, 0);
    scenario.reports = vec![(0, data(0)), (0, data(1))];
    scenario.answers = vec![(
        0,
        Answer {
            qpn: 1,
            psn: 1,
            syndrome: 0x1F,
            msn: 9,
            ..Answer::default()
        },
    )];
    let closed = QueuePairContext {
        qpn: 1,
        ..QueuePairContext::default()
    };
    scenario.contexts = vec![(10, closed), (11, open(1, Profile::Solar, 500))];
    scenario.probes = vec![(20, peth(0, 3))];
    let Some((_, given)) = run(&scenario) else { return };
    let (last, state) = seth(&given[given.len() - 1].packet);
    assert_eq!(
        (last.cack_psn, last.probe_response, state.rcvd_bytes),
        (Psn::new(499), true, 0)
    );
    assert_eq!(
        given.len(),
        2,
        "the answer's ACK, the probe's SACK, and no ACK behind it"
    );
}

#[test]
fn linters_have_nothing_to_say() {
    if common::have_verilator() {
        spraynic_cosim::lint(&source()).unwrap_or_else(|error| panic!("{error}"));
    }
}
