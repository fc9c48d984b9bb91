//! What packets say, case by case: bitmaps, distances, duplicates, refusals, RNR timer codes, a queue pair opened again.

use spraynic_config::Profile;
use spraynic_config::descriptor::{Answer, QueuePairContext, SequenceOutcome, SequenceReport};
use spraynic_wire::Psn;

use super::scenario::{Scenario, open};
use super::{aeth, data, peth, refused, run, seth};

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
