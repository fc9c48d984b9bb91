//! Clocks that the block takes, as documented.

use spraynic_config::descriptor::QueuePairState;
use spraynic_cosim::Pattern;

use super::events::What;
use super::traffic::{Step, context};
use super::{AT_ONCE, Timing, check, common, given, of, send, write};

/// Clocks from one PayloadWrite to the next, and that no beat of payload waits, for packets of one queue pair.
#[test]
fn one_packet_a_clock_of_one_queue_pair() {
    if !common::have_verilator() {
        return;
    }
    let requests = |count| (0..count).map(|_| What::Request { length: 9000 });
    // One beat a packet at most, or none; then longer ones, whose payload sets the pace.
    let cases: [(u32, Vec<What>, usize, bool); 7] = [
        (0, vec![write(64); 100], 100, true),
        (1, requests(16).chain(vec![send(64); 16]).collect(), 16, true),
        (2, vec![write(64); 50], 100, true),
        (0, vec![What::Read { length: 64 }; 100], 100, true),
        (1, vec![write(8000); 4], 128, false),
        (1, requests(4).chain(vec![send(4000); 4]).collect(), 64, false),
        (2, vec![write(8000); 3], 96 + 3, false),
    ];
    for (qpn, whats, count, short) in cases {
        let mut steps = of(qpn, whats);
        steps.retain(|step| !matches!(step, Step::Context(context) if context.qpn != qpn));
        // Receive requests first.
        let timing = Timing {
            packets: Pattern::After { clocks: 90 },
            payload: Pattern::After { clocks: 90 },
            ..AT_ONCE
        };
        let outcome = check(0, &steps, &timing).unwrap();
        let given = given(&outcome);
        assert_eq!(given.len(), count);
        if short {
            let clocks = given[count - 1].0 - given[0].0;
            assert_eq!(clocks, count as u64 - 1, "queue pair {qpn}");
        }
        let beats = outcome.beat_cycles("m_axis_payload");
        // Ends of messages of mrc stand between packets of one beat.
        let every = !short || beats.len() == count;
        if let (true, Some(first), Some(last)) = (every, beats.first(), beats.last()) {
            assert_eq!(last - first + 1, beats.len() as u64, "a beat of payload in every clock");
        }
    }
}

/// Clocks from the packet to its PayloadWrite.
#[test]
fn the_latency_is_as_documented() {
    if !common::have_verilator() {
        return;
    }
    let cases = [
        (What::Request { length: 9000 }, send(64), 1, 14),
        (What::Request { length: 9000 }, write(64), 1, 14),
        (What::Request { length: 9000 }, write(64), 4, 16),
    ];
    for (before, what, regions, clocks) in cases {
        let timing = Timing {
            packets: Pattern::After { clocks: 80 },
            regions,
            ..AT_ONCE
        };
        let outcome = check(0, &of(1, [before, what]), &timing).unwrap();
        let taken = outcome.accepted("s_axis")[0].last_cycle;
        let given = given(&outcome)[0].0;
        assert_eq!(given - taken, clocks, "memory_regions answers in {regions} clocks");
        let payload = outcome.received("m_axis_payload")[0].first_cycle;
        assert_eq!(payload - taken, 3, "clocks from the packet to its payload that waited");
    }
}

/// Clocks of what takes longer than a packet.
#[test]
fn context_writes_flushes_and_invalidations_take_as_long_as_documented() {
    if !common::have_verilator() {
        return;
    }
    // More context writes than the queue holds.
    let steps: Vec<Step> = (0..60).map(|_| context(1, QueuePairState::ReadyToSend)).collect();
    let outcome = check(0, &steps, &AT_ONCE).unwrap();
    let taken = outcome.accepted("s_axis_context");
    assert_eq!(taken[59].last_cycle - taken[39].last_cycle, 20 * 4);

    let requests = (0..16).map(|_| What::Request { length: 9000 });
    let error = [What::State(QueuePairState::Error), What::State(QueuePairState::Error)];
    let timing = Timing { pace: 4, ..AT_ONCE };
    let outcome = check(0, &of(1, requests.chain(error)), &timing).unwrap();
    let given = given(&outcome);
    assert_eq!(given[15].0 - given[0].0, 15 * 3);

    for regions in [1, 4, 9] {
        let invalidates = What::Send {
            length: 4,
            immediate: false,
            invalidate: true,
        };
        let whats = [What::Request { length: 9000 }, invalidates, write(4)];
        let timing = Timing {
            packets: Pattern::After { clocks: 80 },
            regions,
            ..AT_ONCE
        };
        let outcome = check(0, &of(1, whats), &timing).unwrap();
        let taken = outcome.accepted("s_axis");
        assert_eq!(taken[1].last_cycle - taken[0].last_cycle, 15 + regions);
    }
}
