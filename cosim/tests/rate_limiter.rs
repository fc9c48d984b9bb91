//! rate_limiter: golden model and RTL grant the same requests, when the model is told the time at which the RTL accepted each.

#[path = "common/blocks.rs"]
mod blocks;
mod common;
#[path = "common/queues.rs"]
mod queues;

use proptest::prelude::*;
use spraynic_config::descriptor::{RateLimit, RateRequest};
use spraynic_config::{NicConfig, Preset};
use spraynic_cosim::{Limits, Outcome, Pattern, Simulation, SinkChecks, Stimulus};
use spraynic_golden::rate_limiter::{Config, Counters, Grant, RateLimiter};
use spraynic_rtl::Context;

/// Nanoseconds of a clock, where time does not run in leaps.
const CLOCK_NS: u64 = 4;

fn config() -> NicConfig {
    let mut config = NicConfig::preset(Preset::G100);
    config.send.queue_pairs = 8;
    config
}

fn simulation() -> Simulation {
    let context = Context::new();
    let definition = spraynic_hdl::rate_limiter::rate_limiter(&context, &config());
    blocks::simulation(&context, definition)
}

#[derive(Debug, Clone)]
struct Trace {
    limits: Vec<(RateLimit, u64)>,
    requests: Vec<(RateRequest, u64)>,
    start_ns: u64,
    clock_ns: u64,
    gaps: Pattern,
    pressure: Pattern,
}

fn limit() -> impl Strategy<Value = RateLimit> {
    // From a byte in four seconds to 256 bytes in a nanosecond.
    let rate = (0..40u32, any::<u64>()).prop_map(|(shift, bits)| (bits & ((1 << 40) - 1)) >> shift);
    let burst = (0..24u32, any::<u32>()).prop_map(|(shift, bits)| (bits & 0xff_ffff) >> shift);
    let index = prop_oneof![20 => 0..8u32, 1 => 0..1u32 << 24];
    (index, any::<bool>(), prop::bool::weighted(0.9), rate, burst).prop_map(|(index, class, limited, rate, burst)| {
        RateLimit {
            index: if class && index < 8 { index / 2 } else { index },
            class,
            limited,
            rate,
            burst,
            ..RateLimit::default()
        }
    })
}

fn request() -> impl Strategy<Value = RateRequest> {
    let qpn = prop_oneof![6 => Just(3u32), 6 => 0..8u32, 1 => 0..1u32 << 24];
    let bytes = (0..24u32, any::<u32>()).prop_map(|(shift, bits)| (bits & 0xff_ffff) >> shift);
    let (follows, responses) = (prop::bool::weighted(0.3), any::<bool>());
    (qpn, 0..4u8, bytes, follows, responses).prop_map(|(qpn, class, bytes, follows, responses)| RateRequest {
        qpn,
        class,
        follows,
        responses,
        bytes,
        ..RateRequest::default()
    })
}

fn trace() -> impl Strategy<Value = Trace> {
    let limits = prop::collection::vec((limit(), 0..600u64), 0..16);
    // Most follow each other at once; some wait long.
    let wait = prop_oneof![8 => Just(0u64), 1 => 0..300u64];
    let requests = prop::collection::vec((request(), wait), 1..150);
    let start = prop_oneof![0..10_000u64, any::<u64>().prop_map(|time| time >> 1)];
    // From nanoseconds to days in a clock: a bucket may be asked again after seconds or centuries.
    let clock =
        prop_oneof![2 => Just(CLOCK_NS), 1 => (17..64u32, any::<u64>()).prop_map(|(shift, bits)| bits >> shift)];
    let patterns = (Pattern::strategy(), Pattern::strategy());
    (limits, requests, start, clock, patterns).prop_map(|(limits, requests, start_ns, clock_ns, (gaps, pressure))| {
        Trace {
            limits,
            requests,
            start_ns,
            clock_ns,
            gaps,
            pressure,
        }
    })
}

fn run(trace: &Trace) -> Outcome {
    let stimulus = Stimulus::default()
        .source("s_axis_limit", Pattern::Always, queues::waited(&trace.limits))
        .source("s_axis_request", trace.gaps.clone(), queues::waited(&trace.requests))
        .sink("m_axis_grant", trace.pressure.clone(), SinkChecks::default())
        .input_at("time_ns", 0, trace.start_ns, trace.clock_ns);
    spraynic_cosim::run(&mut simulation(), &stimulus, Limits::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// The model's grants, and its counters.
fn golden(trace: &Trace, outcome: &Outcome) -> (Vec<Grant>, Counters) {
    let mut model = RateLimiter::new(Config::from(&config()));
    let times = |stream: &str| {
        outcome
            .accepted(stream)
            .iter()
            .map(|timing| timing.last_cycle)
            .collect::<Vec<_>>()
    };
    let (limits, requests) = (times("s_axis_limit"), times("s_axis_request"));
    assert_eq!(
        (limits.len(), requests.len()),
        (trace.limits.len(), trace.requests.len()),
        "all are accepted"
    );
    let mut limits = limits.into_iter().zip(&trace.limits).peekable();
    let at = |cycle: u64| trace.start_ns + cycle * trace.clock_ns;
    let mut grants = vec![];
    for (cycle, (request, _)) in requests.into_iter().zip(&trace.requests) {
        while let Some((written, (limit, _))) = limits.next_if(|(written, _)| *written < cycle) {
            model.write_limit(limit, at(written));
        }
        grants.push(model.request(request, at(cycle)));
    }
    limits.for_each(|(written, (limit, _))| model.write_limit(limit, at(written)));
    (grants, *model.counters())
}

proptest! {
    #![proptest_config(common::config(120, "rate_limiter"))]
    #[test]
    fn grants_and_counters_equal_the_golden_model(trace in trace()) {
        if !common::have_verilator() {
            return Ok(());
        }
        let outcome = run(&trace);
        let (grants, counters) = golden(&trace, &outcome);
        let received: Vec<u8> = outcome.received("m_axis_grant").iter().map(|frame| frame.data[0]).collect();
        prop_assert_eq!(received, grants.iter().map(|grant| *grant as u8).collect::<Vec<_>>());
        let named = [
            ("granted", counters.granted),
            ("refused_queue_pair", counters.refused_queue_pair),
            ("refused_class", counters.refused_class),
            ("drop_limit", counters.drop_limit),
        ];
        prop_assert_eq!(outcome.counters.len(), named.len(), "every counter is compared");
        for (name, value) in named {
            prop_assert_eq!(outcome.counters[name], u64::from(value), "count_{}", name);
        }
    }
}

fn asks(qpn: u32, count: usize, bytes: u32) -> Vec<(RateRequest, u64)> {
    let request = RateRequest {
        qpn,
        class: 2,
        bytes,
        ..RateRequest::default()
    };
    let mut asks = vec![(request, 0); count];
    asks[0].1 = 60;
    asks
}

/// One request in two clocks, all of one queue pair, each decided by what the one before has left.
#[test]
fn one_request_in_two_clocks_of_one_queue_pair() {
    if !common::have_verilator() {
        return;
    }
    // 4 bytes in a nanosecond, 32 in two clocks: of requests of 64 bytes every other one is granted, once the burst is gone.
    let limit = RateLimit {
        index: 5,
        limited: true,
        rate: 4 << 32,
        burst: 640,
        ..RateLimit::default()
    };
    let trace = Trace {
        limits: vec![(limit, 0)],
        requests: asks(5, 400, 64),
        start_ns: 77,
        clock_ns: CLOCK_NS,
        gaps: Pattern::Always,
        pressure: Pattern::Always,
    };
    let outcome = run(&trace);
    let grants = outcome.received("m_axis_grant");
    let accepted = outcome.accepted("s_axis_request");
    assert_eq!(accepted[399].last_cycle - accepted[0].last_cycle, 2 * 399);
    assert_eq!(grants[399].last_cycle - grants[0].last_cycle, 2 * 399);
    assert_eq!(
        grants[0].last_cycle - accepted[0].last_cycle,
        5,
        "clocks from request to grant, as documented"
    );
    let granted = grants.iter().filter(|grant| grant.data[0] == 0).count();
    assert_eq!(granted as u64, (640 + 32 * 399) / 64);
    assert_eq!(golden(&trace, &outcome).1.granted as usize, granted);
}

/// A megabit a second and the line rate, over 20,000 clocks and more: what is granted is rate times time and the burst.
#[test]
fn long_run_rates_are_right_within_a_thousandth() {
    if !common::have_verilator() {
        return;
    }
    for (megabits, bytes, count) in [(100_000u64, 1_087, 10_000usize), (1_000, 64, 10_000), (1, 1, 15_000)] {
        let rate = (megabits as f64 * 1e6 / 8.0 / 1e9 * 4_294_967_296.0).round() as u64;
        let limit = RateLimit {
            index: 2,
            class: true,
            limited: true,
            rate,
            burst: 2 * bytes,
            ..RateLimit::default()
        };
        let trace = Trace {
            limits: vec![(limit, 0)],
            requests: asks(1, count, bytes),
            start_ns: 0,
            clock_ns: CLOCK_NS,
            gaps: Pattern::Always,
            pressure: Pattern::Always,
        };
        let outcome = run(&trace);
        let written = outcome.accepted("s_axis_limit")[0].last_cycle;
        let last = outcome.accepted("s_axis_request")[count - 1].last_cycle;
        let granted = outcome
            .received("m_axis_grant")
            .iter()
            .filter(|grant| grant.data[0] == 0)
            .count() as f64;
        let expected = megabits as f64 * 1e6 / 8.0 * ((last - written) * CLOCK_NS) as f64 / 1e9;
        let error = granted * f64::from(bytes) - expected;
        // The burst, and what the last request found too little.
        assert!(
            error.abs() <= 2.0 * f64::from(bytes) + 1e-3 * expected,
            "{megabits} Mb/s: {granted} against {expected}"
        );
    }
}
