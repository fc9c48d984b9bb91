//! How long the block takes: clocks to an answer, one report a clock, turns, the bounds of timers and the interval of CNPs.

use spraynic_config::Profile;
use spraynic_config::descriptor::{Answer, SequenceOutcome, SequenceReport};
use spraynic_golden::ack_engine::Pacing;
use spraynic_wire::Psn;

use super::scenario::{BEGIN, Given, LATENCY, QUEUE_PAIRS, Scenario, Time, open, timer_bound};
use super::{data, peth, refused, run, seth};

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
