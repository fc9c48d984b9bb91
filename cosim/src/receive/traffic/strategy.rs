//! Strategies for [`Traffic`]: what the property tests of the receive path draw from, and the count of cases in which everything must occur.

use proptest::prelude::*;

use super::{Closing, Kind, Message, Network, Traffic};
use spraynic_golden::ack_engine::Pacing;

/// Queue pairs: two of each profile.
pub const QUEUE_PAIRS: u32 = 6;

/// Cases of a property, if nobody asks for another number.
pub const CASES: u32 = 24;

fn message() -> impl Strategy<Value = Message> {
    let length = prop_oneof![3 => 0u32..300, 2 => 0u32..5000, 1 => Just(1024), 1 => Just(4096)];
    let kind = prop::sample::select(Kind::ALL.to_vec());
    (0..QUEUE_PAIRS, kind, length, 0u32..128).prop_map(|(qpn, kind, length, offset)| Message {
        qpn,
        kind,
        length,
        offset,
    })
}

fn network() -> impl Strategy<Value = Network> {
    let share = || prop_oneof![Just(0u8), 0u8..60];
    let damaged = prop_oneof![2 => Just(0u8), 2 => 0u8..60, 1 => 120u8..200];
    let reordered = prop_oneof![1 => Just(0u32), 1 => 1u32..10, 2 => 40u32..200];
    // Of solar and mrc.
    let held = prop_oneof![
        4 => Just(vec![]),
        1 => prop::sample::select(vec![1, 2, 4, 5]).prop_map(|qpn| vec![qpn]),
        1 => Just(vec![1, 4]),
    ];
    let few = || prop_oneof![2 => Just(0u8), 1 => 0u8..30];
    let losses = (share(), share(), damaged, few());
    (any::<u64>(), losses, few(), few(), reordered, held).prop_map(
        |(seed, (lost, repeated, damaged, bad), marked, trimmed, reordered, held)| Network {
            seed,
            bad_passes: 2,
            lost,
            repeated,
            damaged,
            bad,
            marked,
            trimmed,
            reordered,
            held,
        },
    )
}

fn closing() -> impl Strategy<Value = Closing> {
    // Most has been kept of solar ones, which are closed more often.
    let qpn = prop_oneof![1 => 0..QUEUE_PAIRS, 1 => prop::sample::select(vec![1, 4])];
    let refused = prop::bool::weighted(0.4);
    (qpn, 40u8..250, 0u8..2, any::<u8>(), any::<bool>(), refused).prop_map(
        |(qpn, messages, pass, at, error, refused)| Closing {
            qpn,
            messages,
            // What is refused is the last thing that comes before.
            pass: if refused { 1 } else { pass },
            at: if refused { at | 0xC0 } else { at },
            error,
            refused,
        },
    )
}

fn pacing() -> impl Strategy<Value = Pacing> {
    let every = prop_oneof![2 => Just(4u8), 1 => 0u8..16];
    let bytes = prop_oneof![2 => Just(0u32), 1 => 1u32..20_000];
    let timer = prop_oneof![2 => Just(4_000u32), 1 => 0u32..8_000];
    let cnp = prop_oneof![1 => Just(50_000u32), 1 => 0u32..4_000];
    (every, bytes, timer, cnp).prop_map(|(sack_every, sack_bytes, sack_timer_ns, cnp_interval_ns)| Pacing {
        sack_every,
        sack_bytes,
        sack_timer_ns,
        cnp_interval_ns,
    })
}

/// Everything at once.
pub fn traffic() -> impl Strategy<Value = Traffic> {
    (
        prop::collection::vec(message(), 1..40),
        network(),
        prop_oneof![1 => Just(0u8), 1 => 0u8..200],
        prop::option::weighted(0.4, closing()),
        0u8..8,
        pacing(),
        prop_oneof![2 => 0u64..60, 1 => 60u64..400],
    )
        .prop_map(
            |(mut messages, network, late_requests, closing, region_writes, pacing, memory_latency)| {
                // A queue pair whose first packet is held needs more packets than its window has.
                for qpn in &network.held {
                    let small = (0..150u32).map(|index| Message {
                        qpn: *qpn,
                        kind: Kind::Write,
                        length: index % 40,
                        offset: index,
                    });
                    messages.splice(0..0, small);
                }
                Traffic {
                    messages,
                    network,
                    late_requests,
                    closing,
                    region_writes,
                    pacing,
                    memory_latency,
                }
            },
        )
}
