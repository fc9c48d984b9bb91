//! Cases by name, each compared with the golden model and with the value that is right: edges of the window, distances around half of the
//! PSNs, the wrap, duplicates, and queue pairs that are opened again. Windows of all profiles hold 128 PSNs here.

use SequenceOutcome::*;
use spraynic_config::descriptor::{QueuePairState, SequenceOutcome};

use super::*;
use trace::{Arrival, OPEN, arrival, context};

const WINDOW: u32 = 128;
/// SEND middle: takes no receive request, is answered without data.
const MIDDLE: u8 = 0x01;
const READ_REQUEST: u8 = 0x0C;
const MRC_MIDDLE: u8 = 0xC7;

fn packet(profile: Profile, psn: u32) -> Arrival {
    let opcode = if profile == Profile::Mrc { MRC_MIDDLE } else { MIDDLE };
    arrival(1, profile, false, psn, opcode, vec![psn as u8; 4])
}

/// Queue pair 1 opens at `first`, and these packets come.
fn packets(profile: Profile, first: u32, arrivals: Vec<Arrival>) -> Trace {
    let mut trace = Trace {
        contexts: vec![(0, context(1, profile, QueuePairState::ReadyToSend, first))],
        arrivals,
        ..Trace::default()
    };
    trace.arrivals[0].not_before = OPEN;
    trace
}

fn of(profile: Profile, first: u32, psns: impl IntoIterator<Item = u32>) -> Trace {
    packets(
        profile,
        first,
        psns.into_iter().map(|psn| packet(profile, psn)).collect(),
    )
}

fn reports(outcome: &Outcome) -> Vec<SequenceReport> {
    let received = outcome.received("m_axis_report").iter();
    received.map(|frame| SequenceReport::unpack(&frame.data)).collect()
}

fn outcomes(reports: &[SequenceReport]) -> Vec<SequenceOutcome> {
    let codes = reports.iter().map(reorder_buffer::outcome_of);
    codes.map(|outcome| outcome.expect("a code")).collect()
}

/// What was given, and what was reported of each packet.
fn checked(trace: &Trace) -> (Vec<Given>, Vec<SequenceReport>) {
    let (outcome, _) = check(ALL, trace, &Patterns::default()).unwrap_or_else(|error| panic!("{error}"));
    (given(&outcome), reports(&outcome))
}

/// 127 packets beyond the missing one fill the window; the 129th PSN is refused, and nothing stops for ever: the missing one frees all.
#[test]
fn a_window_of_128_takes_128_and_goes_on_when_the_first_has_come() {
    if !common::have_verilator() {
        return;
    }
    for profile in [Profile::Solar, Profile::Mrc] {
        for first in [13, 0xFF_FFC0] {
            let beyond = (1..=WINDOW).chain([WINDOW - 1, 0]);
            let mut trace = of(profile, first, beyond.map(|step| first + step));
            let mut last = packet(profile, first + WINDOW);
            // Retiring takes a clock for each packet.
            last.not_before = OPEN + 1000;
            trace.arrivals.push(last);
            let (given, reports) = checked(&trace);
            let taken = if profile == Profile::Solar { Stored } else { Passed };
            let mut expected = vec![taken; WINDOW as usize - 1];
            expected.extend([OutOfWindow, Duplicate, Passed, Passed]);
            assert_eq!(outcomes(&reports), expected, "{profile:?} from {first:#x}");
            assert_eq!(given.len() as u32, WINDOW + 1);
            let cumulative = reports[reports.len() - 1].cumulative;
            assert_eq!(cumulative, (first + WINDOW) & 0xFF_FFFF);
        }
    }
}

/// Of a window of 128 from 13 on, 140 is the last PSN; those behind it are reported, so that they are answered.
#[test]
fn psns_141_to_144_with_a_base_of_13_are_reported_out_of_window() {
    if !common::have_verilator() {
        return;
    }
    for profile in [Profile::Solar, Profile::Mrc] {
        let (_, reports) = checked(&of(profile, 13, [141, 142, 143, 144, 140]));
        let last = if profile == Profile::Solar { Stored } else { Passed };
        assert_eq!(
            outcomes(&reports),
            [OutOfWindow, OutOfWindow, OutOfWindow, OutOfWindow, last]
        );
        assert!(reports.iter().all(|report| report.cumulative == 12));
    }
}

/// A PSN 2^23 away is older: a duplicate. One less is newer: beyond the window, or beyond what roce expects.
#[test]
fn a_distance_of_2_to_the_23_is_a_duplicate_and_one_less_is_not() {
    if !common::have_verilator() {
        return;
    }
    const HALF: u32 = 1 << 23;
    for &profile in Profile::ALL {
        let newer = if profile == Profile::Roce {
            SequenceFirst
        } else {
            OutOfWindow
        };
        for first in [0, 13, HALF, 0xFF_FFFF] {
            let (_, reports) = checked(&of(
                profile,
                first,
                [HALF, HALF + 1, HALF - 1, 0].map(|step| first + step),
            ));
            assert_eq!(
                outcomes(&reports),
                [Duplicate, Duplicate, newer, Passed],
                "{profile:?} from {first:#x}"
            );
        }
    }
}

/// PSNs 0xFFFFFE, 0xFFFFFF, 0, 1 ... with gaps on both sides of the wrap: bit i of the bitmap is the PSN behind the cumulative one and i more.
#[test]
fn the_psn_wraps_in_the_middle_of_the_bitmap() {
    if !common::have_verilator() {
        return;
    }
    let first = 0xFF_FFFC;
    for profile in [Profile::Solar, Profile::Mrc] {
        let (given, reports) = checked(&of(profile, first, [0, 2, 3, 4, 6, 70, 1, 5].map(|step| first + step)));
        let seen: Vec<_> = reports.iter().map(|report| (report.cumulative, report.near)).collect();
        // Bit 0 is the first one missing: step 1 of the first six reports, step 5 of the next, step 7 of the last.
        assert_eq!(
            seen,
            [
                (0xFF_FFFC, 0),
                (0xFF_FFFC, 0b10),
                (0xFF_FFFC, 0b110),
                (0xFF_FFFC, 0b1110),
                (0xFF_FFFC, 0b10_1110),
                (0xFF_FFFC, 0b10_1110),
                (0, 0b10),
                (2, 1 << 63),
            ],
            "{profile:?}"
        );
        let far: Vec<_> = reports
            .iter()
            .map(|report| (report.far, report.bitmap & 0xFF))
            .collect();
        assert_eq!(far[5], (1, 0b10_0000), "step 70 stands 69 bits behind step 1");
        assert_eq!(given.len(), if profile == Profile::Solar { 7 } else { 8 });
    }
}

/// The packet with the highest PSN three times: two duplicates, no gap of 2^24 - 1, no window that moves.
#[test]
fn a_duplicate_of_the_highest_psn_is_no_gap() {
    if !common::have_verilator() {
        return;
    }
    for &profile in Profile::ALL {
        for first in [5, 0xFF_FFFF] {
            let (given, reports) = checked(&of(profile, first, [first, first, first, first + 1]));
            assert_eq!(
                outcomes(&reports),
                [Passed, Duplicate, Duplicate, Passed],
                "{profile:?}"
            );
            assert!(reports.iter().all(|report| (report.near, report.beyond_gap) == (0, 0)));
            assert_eq!(given.len(), 2);
        }
    }
}

/// The largest PSN of the window has come, the first has not: the window stays where it is.
#[test]
fn the_window_moves_by_what_is_complete_and_not_by_the_largest_psn() {
    if !common::have_verilator() {
        return;
    }
    for profile in [Profile::Solar, Profile::Mrc] {
        let (_, reports) = checked(&of(profile, 0, [WINDOW - 1, WINDOW, 2 * WINDOW - 2, 0]));
        assert_eq!(
            outcomes(&reports)[1..],
            [OutOfWindow, OutOfWindow, Passed],
            "{profile:?}"
        );
        assert_eq!(reports[3].cumulative, 0);
    }
}

/// A READ that comes again at once, and again when others have passed: given each time, marked, for the answer may have been lost.
#[test]
fn a_duplicate_read_of_roce_is_given_again_and_moves_nothing() {
    if !common::have_verilator() {
        return;
    }
    let read = || {
        let mut read = arrival(1, Profile::Roce, false, 0xFF_FFFF, READ_REQUEST, vec![]);
        // 600 bytes: the responses take the PSNs 0xFFFFFF, 0 and 1 at an MTU of 256.
        read.packet.extension.0[12..16].copy_from_slice(&600u32.to_be_bytes());
        read
    };
    let arrivals = vec![
        read(),
        read(),
        packet(Profile::Roce, 2),
        read(),
        packet(Profile::Roce, 3),
    ];
    let (given, reports) = checked(&packets(Profile::Roce, 0xFF_FFFF, arrivals));
    assert_eq!(outcomes(&reports), [Passed, Duplicate, Passed, Duplicate, Passed]);
    let told: Vec<_> = given
        .iter()
        .map(|given| (given.packet.psn, given.packet.duplicate))
        .collect();
    assert_eq!(
        told,
        [
            (0xFF_FFFF, false),
            (0xFF_FFFF, true),
            (2, false),
            (0xFF_FFFF, true),
            (3, false)
        ]
    );
    assert_eq!(reports[4].cumulative, 3);
}

/// Closed with packets in its window, and opened at another PSN: nothing of the former PSNs is left, neither window, bitmap nor slots.
#[test]
fn a_queue_pair_opened_again_knows_nothing_of_its_former_psns() {
    if !common::have_verilator() {
        return;
    }
    for &profile in Profile::ALL {
        let mut trace = of(profile, 100, [100, 102, 103, 500, 502, 104, 501]);
        let closed = context(1, profile, QueuePairState::Reset, 0);
        let again = context(1, profile, QueuePairState::ReadyToSend, 500);
        let at = OPEN + 500;
        trace.contexts.extend([(at, closed), (at + 1, again)]);
        trace.arrivals[3].not_before = at + 1000;
        let (_, reports) = checked(&trace);
        let waiting = match profile {
            Profile::Roce => SequenceFirst,
            Profile::Solar => Stored,
            Profile::Mrc => Passed,
        };
        let (_, after) = reports.split_at(3);
        assert_eq!(outcomes(after), [Passed, waiting, Duplicate, Passed], "{profile:?}");
        assert_eq!(after[0].cumulative, 500, "{profile:?}");
        assert_eq!((after[0].near, after[0].beyond_gap), (0, 0), "{profile:?}");
        let expected = if profile == Profile::Roce { 501 } else { 502 };
        assert_eq!(after[3].cumulative, expected, "{profile:?}");
    }
}
