//! Properties of the retransmit engine model in a network: what loss costs, and that reordering costs nothing.

use proptest::prelude::*;
use spraynic_config::descriptor::{CompletionStatus, PathEventKind};

use super::network::{Scene, run};

fn any_scene() -> impl Strategy<Value = Scene> {
    let start = prop_oneof![0u32..1 << 24, Just(0xFF_FFC0), Just(0x7F_FFF0)];
    let paths = prop::collection::vec(500u64..6_000, 1..9);
    let shape = (1u32..400, 1u32..40, prop::sample::select(vec![64u32, 128, 256, 1_024]));
    (
        any::<u64>(),
        any::<bool>(),
        start,
        paths,
        shape,
        0u64..300,
        any::<bool>(),
        1u64..400,
    )
        .prop_map(
            |(seed, mrc, start, delays_ns, (packets, message, window), jitter_ns, random, gap_ns)| Scene {
                seed,
                // A window of mrc is a multiple of 128.
                mrc: mrc && window >= 128,
                start,
                packets,
                message,
                window,
                delays_ns,
                jitter_ns,
                random,
                gap_ns,
                ..Scene::default()
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    /// Paths of different delay that keep their order, SACKs that overtake each other, nothing lost: nothing is sent again. Rule (b) asks for more: either
    /// `ooo_threshold` covers what paths differ by, or `base_rtt_ns` covers the slowest path with all that delays a SACK.
    #[test]
    fn without_loss_nothing_is_sent_again(scene in any_scene(), by_time: bool) {
        let scene = if by_time {
            let slowest = scene.delays_ns.iter().max().expect("a path") + scene.jitter_ns;
            Scene { ooo_threshold: 8, base_rtt_ns: (slowest * 2 + 300 * scene.gap_ns + 5_000) as u32, ..scene }
        } else {
            Scene { ooo_threshold: 1_023, base_rtt_ns: 1_000, ..scene }
        };
        let outcome = run(scene.clone());
        prop_assert_eq!(outcome.transmissions, scene.packets);
        prop_assert_eq!(outcome.counters.timeouts, 0);
        prop_assert_eq!(outcome.counters.drop_incredible, 0);
        prop_assert_eq!(outcome.events[PathEventKind::Lost as usize], 0);
        prop_assert_eq!(outcome.events[PathEventKind::Sent as usize], scene.packets);
    }
}

proptest! {
    /// Anything may be lost or duplicated, in both directions: each PSN arrives, and all that is sent is done.
    #[test]
    fn whatever_is_lost_all_arrives(
        scene in any_scene(),
        loss in 0u32..200_000,
        feedback_loss in 0u32..200_000,
        duplication in 0u32..100_000,
    ) {
        let outcome = run(Scene { loss, feedback_loss, duplication, ..scene });
        prop_assert_eq!(outcome.failed, None);
        prop_assert_eq!(outcome.counters.drop_incredible, 0);
    }
}

/// Random loss p costs 1/(1-p) transmissions a packet, those of the timer apart, and none is spurious.
#[test]
fn each_loss_costs_one_retransmission() {
    for (loss, random, window, paths) in [
        (1_000, false, 256, 8),
        (10_000, true, 256, 8),
        (50_000, false, 1_024, 8),
        (100_000, false, 256, 1),
        (100_000, true, 128, 16),
    ] {
        let packets = 30_000;
        let outcome = run(Scene {
            packets,
            window,
            random,
            delays_ns: (0..paths).map(|path| 3_000 + 40 * path).collect(),
            loss,
            ..Scene::default()
        });
        let sent = outcome.transmissions - outcome.counters.lost_timer;
        let ratio = f64::from(sent) / f64::from(packets);
        let ideal = 1.0 / (1.0 - f64::from(loss) / 1e6);
        assert!(ratio < ideal + 0.01, "{loss}: {ratio} against {ideal}");
        assert_eq!(outcome.spurious, 0);
        // Nearly all is found before the timer.
        assert!(
            outcome.counters.lost_timer * 10 < outcome.counters.lost_sack,
            "{outcome:?}"
        );
    }
}

/// A timeout of 100 us, a round trip of 4 to 6 us: the longest time without anything done.
fn longest_rest_us(scene: Scene) -> (u64, u32) {
    let outcome = run(Scene { packets: 400, ..scene });
    assert_eq!(outcome.failed, None);
    (outcome.longest_rest_ns / 1_000, outcome.spurious)
}

#[test]
fn the_last_packet_lost_costs_a_timeout() {
    let (rest_us, spurious) = longest_rest_us(Scene {
        victim: (399, 1),
        ..Scene::default()
    });
    assert!((100..115).contains(&rest_us), "{rest_us}");
    assert_eq!(spurious, 0);
}

#[test]
fn retransmissions_lost_again_and_again_are_found_by_what_was_sent_later_or_by_the_timer() {
    let (rest_us, spurious) = longest_rest_us(Scene {
        victim: (100, 4),
        ..Scene::default()
    });
    assert!(rest_us < 120, "{rest_us}");
    assert_eq!(spurious, 0);
}

/// Feedback comes from 150 us on: the second timeout, at 300 us, is the first that is answered.
#[test]
fn all_sacks_lost_costs_timeouts_until_one_comes() {
    let (rest_us, _) = longest_rest_us(Scene {
        feedback_from_ns: 150_000,
        ..Scene::default()
    });
    assert!((300..330).contains(&rest_us), "{rest_us}");
}

/// Dead from 10 to 310 us: timeouts at about 110 and 310 us.
#[test]
fn both_directions_dead_for_a_time_cost_the_timeouts_of_that_time() {
    let (rest_us, _) = longest_rest_us(Scene {
        outage_ns: (10_000, 310_000),
        ..Scene::default()
    });
    assert!((290..330).contains(&rest_us), "{rest_us}");
}

/// Three retries: timeouts after 1, 2, 4 and 8 times 100 us, the last of which ends it.
#[test]
fn the_retry_limit_ends_the_queue_pair() {
    let outcome = run(Scene {
        packets: 400,
        victim: (100, 1_000),
        retry_limit: 3,
        ..Scene::default()
    });
    assert_eq!(outcome.failed, Some(CompletionStatus::RetryExceeded as u8));
    assert_eq!(outcome.counters.timeouts, 3);
    assert!(
        (1_500_000..1_540_000).contains(&outcome.finished_ns),
        "{}",
        outcome.finished_ns
    );
}

/// Path 1 of 8 loses all: what is sent later by the others tells, but for the last packets, behind which fewer than the threshold come.
#[test]
fn a_dead_path_is_told_by_its_losses() {
    let outcome = run(Scene {
        packets: 2_000,
        delays_ns: vec![3_000; 8],
        dead_path: Some(1),
        window: 256,
        timeout_ns: 1_000_000,
        ..Scene::default()
    });
    assert_eq!(outcome.failed, None);
    assert!(outcome.counters.lost_sack >= 2_000 / 8 - 32 / 8 - 6, "{outcome:?}");
    assert!(outcome.counters.timeouts <= 1, "{outcome:?}");
    assert_eq!(outcome.spurious, 0);
    assert_eq!(outcome.lost_of_path[1], outcome.events[PathEventKind::Lost as usize]);
}
