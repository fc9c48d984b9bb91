//! How fast the reorder buffer is, counted in clocks: latency, one descriptor and one beat a clock, and that one queue pair that cannot move
//! does not slow the others.

use super::*;
use spraynic_hdl::reorder_buffer::{PASS_LATENCY, REPORT_LATENCY};
use trace::{OPEN, arrival, context};

/// SEND middle: takes no receive request.
const MIDDLE: u8 = 0x01;

/// These queue pairs open for solar at PSN 0, and these packets when they are: (queue pair, PSN), all of so many bytes.
fn solar_trace(queue_pairs: u32, packets: impl IntoIterator<Item = (u32, u32)>, bytes: usize) -> Trace {
    let state = spraynic_config::descriptor::QueuePairState::ReadyToSend;
    let mut arrivals: Vec<_> = packets
        .into_iter()
        .map(|(qpn, psn)| arrival(qpn, Profile::Solar, false, psn, MIDDLE, vec![psn as u8; bytes]))
        .collect();
    arrivals[0].not_before = OPEN;
    Trace {
        contexts: (0..queue_pairs)
            .map(|qpn| (0, context(qpn, Profile::Solar, state, 0)))
            .collect(),
        arrivals,
        ..Trace::default()
    }
}

fn checked(trace: &Trace) -> (Outcome, Counters) {
    check(ALL, trace, &Patterns::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Clocks from the first descriptor to the last beat of payload.
fn clocks(outcome: &Outcome) -> u64 {
    let first = outcome.accepted("s_axis_descriptor")[0].first_cycle;
    let last = outcome.beat_cycles("m_axis_payload").last().expect("payload");
    last - first
}

#[test]
fn a_report_comes_as_soon_as_documented() {
    if !common::have_verilator() {
        return;
    }
    let (outcome, _) = checked(&solar_trace(1, [(0, 0)], 64));
    let accepted = outcome.accepted("s_axis_descriptor")[0].last_cycle;
    let reported = outcome.received("m_axis_report")[0].last_cycle;
    assert_eq!(reported - accepted, REPORT_LATENCY);
    assert_eq!(outcome.received("m_axis")[0].first_cycle - accepted, PASS_LATENCY);
}

#[test]
fn packets_of_one_queue_pair_in_order_pass_at_one_a_clock() {
    if !common::have_verilator() {
        return;
    }
    for (packets, bytes) in [(300, 64), (300, 0), (60, 1024)] {
        let (outcome, counters) = checked(&solar_trace(1, (0..packets).map(|psn| (0, psn)), bytes));
        assert_eq!(counters.passed, packets);
        let reports = outcome.received("m_axis_report");
        let took = reports[reports.len() - 1].last_cycle - reports[0].last_cycle;
        let beats = (bytes as u64 / 64).max(1);
        if beats == 1 {
            assert_eq!(took, u64::from(packets) - 1, "reports of {bytes} bytes");
        }
        let cycles = outcome.beat_cycles("m_axis_payload");
        if bytes > 0 {
            let took = cycles[cycles.len() - 1] - cycles[0];
            assert_eq!(took, u64::from(packets) * beats - 1, "beats of {bytes} bytes");
        }
    }
}

/// Each run of PSNs comes backwards: its last one passes by and all others leave their slots, while those of the next run are written.
#[test]
fn reversed_runs_leave_at_nearly_a_beat_a_clock() {
    if !common::have_verilator() {
        return;
    }
    const RUN: u32 = 32;
    const RUNS: u32 = 8;
    for (bytes, share) in [(1024, 92), (256, 80)] {
        let reversed = (0..RUNS).flat_map(|run| (0..RUN).rev().map(move |psn| (0, run * RUN + psn)));
        let (outcome, counters) = checked(&solar_trace(1, reversed, bytes));
        assert_eq!(counters.released + counters.passed, RUN * RUNS);
        assert_eq!(counters.drop_out_of_window + counters.drop_no_slot, 0);
        // Nothing leaves before the first run is whole.
        let beats = u64::from(RUN * RUNS) * bytes as u64 / 64;
        let lead = u64::from(RUN) * bytes as u64 / 64;
        let took = clocks(&outcome);
        println!("{bytes} bytes: {beats} beats in {took} clocks, {lead} of them before the first can leave");
        assert!(
            (took - lead) * share <= beats * 100,
            "{bytes} bytes: {took} clocks for {beats} beats behind {lead}"
        );
    }
}

/// Queue pair 0 misses its first packet and holds a full window of slots; queue pairs 1 and 2 are as fast as without it.
#[test]
fn a_queue_pair_with_a_hole_and_a_full_window_does_not_slow_the_others() {
    if !common::have_verilator() {
        return;
    }
    let window = configs()[ALL].receive.window;
    let others: Vec<_> = (0..160u32)
        .flat_map(|block| [1, 2].map(|qpn| [1, 0].map(move |psn| (qpn, 2 * block + psn))))
        .flatten()
        .collect();
    let stuck: Vec<_> = (1..window).map(|psn| (0, psn)).collect();
    let time = |first: &[(u32, u32)]| {
        let (outcome, counters) = checked(&solar_trace(3, first.iter().chain(&others).copied(), 256));
        assert_eq!(counters.drop_no_slot, 0);
        assert_eq!(counters.passed + counters.released, others.len() as u32);
        let accepted = outcome.accepted("s_axis_descriptor");
        accepted[accepted.len() - 1].last_cycle - accepted[first.len()].first_cycle
    };
    let (alone, beside) = (time(&[]), time(&stuck));
    println!("{alone} clocks alone, {beside} beside a full window");
    assert!(
        beside <= alone + alone / 20,
        "{alone} clocks alone, {beside} beside a full window"
    );
    assert!(
        alone * 90 <= others.len() as u64 * 4 * 100,
        "{alone} clocks for {} beats",
        others.len() * 4
    );
}
