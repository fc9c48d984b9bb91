//! Tests of the rate limiter's model: long-run rates against floating point, bursts to the byte, and its rules by proptest.

use proptest::prelude::*;

use super::*;

/// One megabit a second in units of 2^-32 bytes in a nanosecond.
const MEGABIT: f64 = 1e6 / 8.0 / 1e9 * 4_294_967_296.0;

fn limiter() -> RateLimiter {
    RateLimiter::new(Config { queue_pairs: 8 })
}

fn limit(index: u32, class: bool, rate: u64, burst: u32) -> RateLimit {
    RateLimit {
        index,
        class,
        limited: true,
        rate,
        burst,
        ..RateLimit::default()
    }
}

fn request(qpn: u32, class: u8, bytes: u32) -> RateRequest {
    RateRequest {
        qpn,
        class,
        bytes,
        ..RateRequest::default()
    }
}

#[test]
fn nothing_is_limited_after_reset() {
    let mut limiter = limiter();
    assert_eq!(limiter.request(&request(3, 1, MAX_BURST), 0), Grant::Granted);
    assert_eq!(
        limiter.request(&request(8, 1, 1), 0),
        Grant::QueuePair,
        "beyond the table"
    );
    assert_eq!(limiter.granted_from(&request(8, 1, 1), 0), None);
}

/// A sender that always has something to send gets rate times time plus one burst, at rates from 1 Mb/s to 800 Gb/s; the float is the reference.
#[test]
fn long_run_rates_are_right_within_a_thousandth() {
    for megabits in [
        1.0, 2.5, 10.0, 333.0, 1_000.0, 25_000.0, 99_999.0, 100_000.0, 400_000.0, 800_000.0,
    ] {
        for class in [false, true] {
            let (burst, bytes) = (10_000, 1_087);
            let rate = (megabits * MEGABIT).round() as u64;
            let mut limiter = limiter();
            limiter.write_limit(&limit(2, class, rate, burst), 5);
            let asked = request(2, 2, bytes);
            let (mut now, mut sent) = (5, 0u64);
            for _ in 0..50_000 {
                now = limiter.granted_from(&asked, now).unwrap();
                assert_eq!(limiter.request(&asked, now), Grant::Granted);
                sent += u64::from(bytes);
            }
            let expected = megabits * 1e6 / 8.0 * ((now - 5) as f64 / 1e9) + f64::from(burst);
            // What is left in the bucket is less than a request, and rounded up by the last nanosecond.
            let error = (sent as f64 - expected).abs() - f64::from(bytes) - megabits;
            assert!(
                error < 1e-3 * expected,
                "{megabits} Mb/s: {sent} bytes against {expected}"
            );
        }
    }
}

#[test]
fn the_rate_of_one_megabit_is_that_of_the_table() {
    assert_eq!(MEGABIT.round() as u64, 536_871);
}

#[test]
fn a_burst_is_exact() {
    let mut limiter = limiter();
    limiter.write_limit(&limit(1, false, 1 << 32, 3_000), 100);
    // A full bucket gives its burst at once, and not a byte more.
    assert_eq!(limiter.request(&request(1, 0, 3_001), 1_000_000), Grant::QueuePair);
    assert_eq!(limiter.request(&request(1, 0, 3_000), 1_000_000), Grant::Granted);
    assert_eq!(limiter.request(&request(1, 0, 1), 1_000_000), Grant::QueuePair);
    // One byte in a nanosecond.
    assert_eq!(limiter.granted_from(&request(1, 0, 17), 1_000_000), Some(1_000_017));
    assert_eq!(limiter.request(&request(1, 0, 17), 1_000_016), Grant::QueuePair);
    assert_eq!(limiter.request(&request(1, 0, 17), 1_000_017), Grant::Granted);
    assert_eq!(
        limiter.granted_from(&request(1, 0, 3_001), 2_000_000),
        None,
        "more than the burst"
    );
}

#[test]
fn the_smallest_rate_loses_nothing_in_a_year() {
    let mut limiter = limiter();
    // 2^-32 bytes in a nanosecond: a byte in 4.29 seconds.
    limiter.write_limit(&limit(1, false, 1, 1 << 23), 0);
    assert_eq!(limiter.request(&request(1, 0, 1 << 23), 0), Grant::Granted);
    let year = 365 * 86_400 * 1_000_000_000u64;
    let bytes = (year >> 32) as u32;
    assert_eq!(limiter.request(&request(1, 0, bytes + 1), year), Grant::QueuePair);
    assert_eq!(limiter.request(&request(1, 0, bytes), year), Grant::Granted);
    // The largest rate over the longest time does not wrap.
    limiter.write_limit(&limit(1, false, MAX_RATE, MAX_BURST), year);
    assert_eq!(limiter.request(&request(1, 0, MAX_BURST), year), Grant::Granted);
    assert_eq!(limiter.request(&request(1, 0, MAX_BURST), u64::MAX), Grant::Granted);
}

#[test]
fn a_refused_request_takes_nothing_and_names_the_bucket() {
    let mut limiter = limiter();
    limiter.write_limit(&limit(0, false, 0, 100), 0);
    limiter.write_limit(&limit(3, true, 0, 150), 0);
    assert_eq!(limiter.request(&request(0, 3, 101), 0), Grant::QueuePair);
    assert_eq!(limiter.request(&request(0, 3, 100), 0), Grant::Granted);
    assert_eq!(limiter.request(&request(1, 3, 51), 0), Grant::Class);
    assert_eq!(limiter.request(&request(1, 2, 51), 0), Grant::Granted, "another class");
    assert_eq!(limiter.request(&request(1, 3, 50), 0), Grant::Granted);
    assert_eq!(
        limiter.request(&request(0, 3, 1), 0),
        Grant::QueuePair,
        "both lack: the queue pair is named"
    );
    let counters = Counters {
        granted: 3,
        refused_queue_pair: 2,
        refused_class: 1,
        drop_limit: 0,
    };
    assert_eq!(*limiter.counters(), counters);
}

#[test]
fn what_follows_a_refused_request_of_the_same_asker_is_refused() {
    let mut limiter = limiter();
    limiter.write_limit(&limit(0, false, 0, 100), 0);
    let follower = RateRequest {
        follows: true,
        ..request(0, 3, 10)
    };
    let of_responses = RateRequest {
        responses: true,
        ..follower
    };
    assert_eq!(limiter.request(&follower, 0), Grant::Granted, "nothing was refused");
    assert_eq!(limiter.request(&request(0, 3, 101), 0), Grant::QueuePair);
    assert_eq!(limiter.request(&follower, 0), Grant::QueuePair);
    assert_eq!(limiter.request(&of_responses, 0), Grant::Granted, "another asker");
    assert_eq!(limiter.request(&follower, 0), Grant::QueuePair, "what follows that");
    assert_eq!(
        limiter.request(&request(0, 3, 80), 0),
        Grant::Granted,
        "nothing was taken"
    );
    assert_eq!(limiter.request(&request(1, 3, 10), 0), Grant::Granted);
}

#[test]
fn a_bucket_beyond_the_table_is_counted() {
    let mut limiter = limiter();
    limiter.write_limit(&limit(8, false, 0, 0), 0);
    limiter.write_limit(&limit(4, true, 0, 0), 0);
    assert_eq!(limiter.counters().drop_limit, 2);
    assert_eq!(limiter.request(&request(7, 3, 1), 0), Grant::Granted);
}

proptest! {
    /// In any interval, what is granted is at most rate times its length plus the burst; and splitting time by more requests changes nothing.
    #[test]
    fn no_interval_has_more_than_its_rate_and_a_burst(
        rate in 0..=MAX_RATE, burst in 0..=MAX_BURST,
        steps in prop::collection::vec((0..100_000u64, 0..200_000u32), 1..200),
    ) {
        let mut limiter = limiter();
        limiter.write_limit(&limit(4, false, rate, burst), 0);
        let (mut now, mut granted) = (0, vec![(0u64, 0u128)]);
        let mut sum = 0u128;
        for (gap, bytes) in steps {
            now += gap;
            let predicted = limiter.granted_from(&request(4, 0, bytes), now);
            let yes = limiter.request(&request(4, 0, bytes), now) == Grant::Granted;
            prop_assert_eq!(yes, predicted == Some(now));
            if yes {
                let before = (now, sum);
                sum += u128::from(bytes);
                granted.push(before);
            }
            for (from, already) in &granted {
                let most = (u128::from(burst) << 32) + u128::from(rate) * u128::from(now - from);
                prop_assert!((sum - already) << 32 <= most, "from {} to {}", from, now);
            }
        }
    }
}
