//! work_queue: the RTL gives the slices, completions and counters of the golden model, which is told the order in which the RTL took events
//! and chose queue pairs, and says whether each choice was legal; and in the end all is sent and complete.

#[path = "common/blocks.rs"]
mod blocks;
#[path = "work_queue/clocks.rs"]
mod clocks;
mod common;
#[path = "work_queue/peer.rs"]
mod peer;

use peer::{CLOCK_NS, Manners, Peer, cost_of, given};
use proptest::prelude::*;
use spraynic_config::descriptor::{
    Completion, Descriptor, QueuePairState, RateLimit, RateRequest, SendContext, WorkOpcode, WorkRequest,
};
use spraynic_config::{NicConfig, Preset, Profile};
use spraynic_cosim::{Bench, Frame, Limits, Outcome, Pattern, Simulation, SinkChecks, Stimulus};
use spraynic_golden::rate_limiter::{self, RateLimiter};
use spraynic_golden::work_queue::{Classes, Config, Counters, WorkQueue};
use spraynic_rtl::Context;

const QUEUE_PAIRS: u32 = 8;

/// The configurations under test: everything with a window of two words, and the smallest.
fn config(small: bool) -> NicConfig {
    let mut config = NicConfig::preset(Preset::G100);
    config.send.queue_pairs = QUEUE_PAIRS;
    config.send.window = 128;
    config.send.work_requests = 8;
    config.send.reads = 4;
    if small {
        config.wire.profiles = [Profile::Roce, Profile::Solar].into();
        config.send.window = 64;
        config.send.work_requests = 2;
    }
    config
}

fn simulation(small: bool) -> Simulation {
    let context = Context::new();
    let definition = spraynic_hdl::work_queue::work_queue(&context, &config(small));
    blocks::simulation(&context, definition)
}

/// What goes in from the host, and how all around it behaves.
#[derive(Debug, Clone)]
struct Trace {
    contexts: Vec<(SendContext, u64)>,
    requests: Vec<(WorkRequest, u64)>,
    classes: Classes,
    manners: Manners,
    gaps: Pattern,
    pressure: Pattern,
}

fn context(qpn: u32) -> impl Strategy<Value = SendContext> {
    let numbers = (
        0..3u8,
        1..=5u8,
        0..4u8,
        0..6u8,
        prop_oneof![Just(0xff_fffau32), 0..1u32 << 24],
    );
    (numbers, 0..200u16, any::<(u8, u32, bool)>()).prop_map(
        move |((profile, mtu, class, reads, psn), window, (weight, entropy, timestamps))| SendContext {
            qpn,
            state: QueuePairState::ReadyToSend as u8,
            profile,
            mtu,
            class,
            reads,
            psn,
            window,
            weight,
            entropy,
            timestamps,
            ..SendContext::default()
        },
    )
}

fn request() -> impl Strategy<Value = WorkRequest> {
    let qpn = prop_oneof![20 => 0..4u32, 1 => 0..12u32];
    let opcode = prop_oneof![20 => 0..6u8, 10 => Just(2u8), 1 => any::<u8>()];
    let length = prop_oneof![4 => 0..600u32, 4 => 0..9_000u32, 2 => Just(8), 1 => 0..40_000u32];
    let flags = (any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.1));
    (
        qpn,
        opcode,
        prop_oneof![20 => Just(1u8), 1 => any::<u8>()],
        length,
        flags,
        any::<(u64, u64)>(),
    )
        .prop_map(
            |(qpn, opcode, segments, length, (signalled, fence, inline_immediate), (cookie, address))| WorkRequest {
                opcode,
                signalled,
                fence,
                inline_immediate,
                segments,
                qpn,
                length: if opcode == 4 || opcode == 5 { 8 } else { length },
                remote_address: address & !7,
                cookie,
                ..WorkRequest::default()
            },
        )
}

fn trace(changes: bool) -> impl Strategy<Value = Trace> {
    let first = [0, 1, 2, 3].map(|qpn| context(qpn).prop_map(|context| (context, 0)));
    let later = (0..10u32, 0..7u8, 50..1_500u64).prop_flat_map(|(qpn, state, wait)| {
        context(qpn).prop_map(move |context| (SendContext { state, ..context }, wait))
    });
    let later = prop::collection::vec(later, if changes { 0..12 } else { 0..1 });
    let wait = prop_oneof![6 => Just(0u64), 3 => 0..60u64, 1 => 0..800u64];
    let requests = prop::collection::vec((request(), wait), 1..60);
    let classes = (0..16u8, any::<[u8; 4]>()).prop_map(|(strict, weight)| Classes { strict, weight });
    let manners = (
        any::<u64>(),
        prop_oneof![Just(0u64), 0..70u64],
        prop_oneof![Just(0u64), 0..128u64],
        1..400u64,
    );
    let manners = manners.prop_map(|(seed, loss, refusals, delay)| Manners {
        seed,
        loss,
        refusals,
        delay,
    });
    (
        first,
        later,
        requests,
        classes,
        manners,
        Pattern::strategy(),
        Pattern::strategy(),
    )
        .prop_map(|(first, later, mut requests, classes, manners, gaps, pressure)| {
            // Behind the contexts.
            requests[0].1 += 100;
            Trace {
                contexts: first.into_iter().chain(later).collect(),
                requests,
                classes,
                manners,
                gaps,
                pressure,
            }
        })
}

fn waited<D: Descriptor>(steps: &[(D, u64)]) -> Vec<Frame> {
    let mut cycle = 0;
    let frames = steps.iter().map(|(step, wait)| {
        cycle += wait;
        let mut frame = Frame::new(step.pack());
        frame.not_before = cycle;
        frame
    });
    frames.collect()
}

fn stimulus(trace: &Trace) -> Stimulus {
    let weights = u64::from(u32::from_le_bytes(trace.classes.weight));
    let mut stimulus = Stimulus::default()
        .source("s_axis_context", Pattern::Always, waited(&trace.contexts))
        .source("s_axis_work_request", trace.gaps.clone(), waited(&trace.requests));
    for stream in [
        "s_axis_progress",
        "s_axis_resend",
        "s_axis_response_done",
        "s_axis_rate_grant",
    ] {
        stimulus = stimulus.source(stream, Pattern::Always, []);
    }
    for stream in ["m_axis", "m_axis_rate_request", "m_axis_completion"] {
        stimulus = stimulus.sink(stream, trace.pressure.clone(), SinkChecks::default());
    }
    stimulus
        .input("class_strict", u64::from(trace.classes.strict))
        .input("class_weight", weights)
        .input_at("time_ns", 0, 0, CLOCK_NS)
}

/// Nothing moves while all wait for tokens, 256 clocks.
const LIMITS: Limits = Limits {
    quiet_clocks: 900,
    hang_clocks: 4_000,
    most_clocks: 2_000_000,
};

fn run(small: bool, trace: &Trace, peer: &mut Peer) -> Outcome {
    let mut simulation = simulation(small);
    let mut bench = Bench::new(&mut simulation, &stimulus(trace), LIMITS).unwrap_or_else(|error| panic!("{error}"));
    bench.run(peer).unwrap_or_else(|error| panic!("{error}"))
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Context(usize),
    Request(usize),
    Progress(usize),
    Resend(usize),
    Response(usize),
    Ask(usize),
}

/// A port, and the event that the word of a number at it is.
type EventSource = (&'static str, fn(usize) -> Event);

fn events(outcome: &Outcome) -> Vec<(u64, Event)> {
    let mut events: Vec<(u64, Event)> = vec![];
    let sources: [EventSource; 5] = [
        ("s_axis_context", Event::Context),
        ("s_axis_work_request", Event::Request),
        ("s_axis_progress", Event::Progress),
        ("s_axis_resend", Event::Resend),
        ("s_axis_response_done", Event::Response),
    ];
    for (stream, event) in sources {
        let cycles = outcome.accepted(stream).iter().map(|timing| timing.last_cycle);
        events.extend(cycles.zip((0..).map(event)));
    }
    let asks = outcome
        .received("m_axis_rate_request")
        .iter()
        .map(|frame| frame.last_cycle);
    events.extend(asks.zip((0..).map(Event::Ask)));
    events.sort_by_key(|(cycle, _)| *cycle);
    events
}

/// The golden model follows the RTL; every slice and completion is compared.
fn follow(small: bool, trace: &Trace, peer: &Peer, outcome: &Outcome) -> Result<WorkQueue, TestCaseError> {
    let mut model = WorkQueue::new(Config::from(&config(small)));
    let asked = outcome.received("m_axis_rate_request");
    let mut slices = outcome.received("m_axis").iter();
    let mut completions = outcome.received("m_axis_completion").iter();
    // What follows a refused one was asked for in the belief that it would be granted, and counts as refused.
    let mut last_refused = false;
    for (cycle, event) in events(outcome) {
        match event {
            Event::Context(index) => model.write_context(&trace.contexts[index].0),
            Event::Request(index) => model.post(&trace.requests[index].0),
            Event::Progress(index) => model.progress(&peer.sent.progress[index]),
            Event::Resend(index) => model.resend(&peer.sent.resends[index]),
            Event::Response(index) => model.response_done(&peer.sent.responses[index]),
            Event::Ask(index) => {
                let request = RateRequest::unpack(&asked[index].data);
                if request.follows && last_refused {
                    continue;
                }
                last_refused = peer.sent.grants[index] != 0;
                let request = RateRequest {
                    follows: false,
                    ..request
                };
                prop_assert_eq!(
                    model.offer(request.qpn),
                    Some(request),
                    "cycle {}: what is asked for",
                    cycle
                );
                if !last_refused {
                    let expected = model.take(request.qpn);
                    let slice = slices.next().map(|frame| given(&frame.data));
                    prop_assert_eq!(slice, expected, "cycle {}: slice", cycle);
                }
            }
        }
        while let Some(expected) = model.pop_completion() {
            let completion = completions.next().map(|frame| Completion::unpack(&frame.data));
            prop_assert_eq!(completion, Some(expected), "cycle {}: completion", cycle);
        }
    }
    prop_assert!(
        slices.next().is_none() && completions.next().is_none(),
        "nothing more comes"
    );
    Ok(model)
}

fn compare_counters(counters: &Counters, outcome: &Outcome) -> Result<(), TestCaseError> {
    let named = [
        ("messages", counters.messages),
        ("slices", counters.slices),
        ("packets", counters.packets),
        ("retransmissions", counters.retransmissions),
        ("completions", counters.completions),
        ("failed", counters.failed),
        ("drop_context", counters.drop_context),
        ("drop_queue_pair", counters.drop_queue_pair),
        ("drop_full", counters.drop_full),
        ("drop_opcode", counters.drop_opcode),
        ("drop_segments", counters.drop_segments),
        ("drop_immediate", counters.drop_immediate),
        ("drop_length", counters.drop_length),
        ("drop_alignment", counters.drop_alignment),
        ("drop_mtu", counters.drop_mtu),
        ("drop_progress", counters.drop_progress),
        ("drop_resend", counters.drop_resend),
        ("drop_response", counters.drop_response),
    ];
    prop_assert_eq!(outcome.counters.len(), named.len(), "every counter is compared");
    for (name, value) in named {
        prop_assert_eq!(outcome.counters[name], u64::from(value), "count_{}", name);
    }
    Ok(())
}

fn check(small: bool, trace: &Trace, changes: bool) -> Result<(), TestCaseError> {
    if !common::have_verilator() {
        return Ok(());
    }
    let lines = trace.contexts[..4]
        .iter()
        .map(|(context, _)| (context.qpn, context.psn, context.profile == 0));
    let mut peer = Peer::new(trace.manners.clone(), lines);
    let outcome = run(small, trace, &mut peer);
    let model = follow(small, trace, &peer, &outcome)?;
    compare_counters(model.counters(), &outcome)?;
    if !changes {
        for qpn in 0..4 {
            prop_assert_eq!(model.waiting(qpn), 0, "queue pair {} has requests left", qpn);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(common::config(60, "work_queue"))]
    #[test]
    fn all_is_sent_and_completes_as_in_the_golden_model(trace in trace(false)) {
        check(false, &trace, false)?;
    }

    #[test]
    fn queue_pairs_are_opened_failed_and_reset_as_in_the_golden_model(trace in trace(true)) {
        check(false, &trace, true)?;
    }

    #[test]
    fn the_smallest_one_is_as_the_golden_model(trace in trace(true)) {
        check(true, &trace, true)?;
    }
}

/// Eight queue pairs, two in each class, whose work does not end before `posts` requests more; every 64th clock a slice leaves. Gives the share
/// of each in the bytes that left while all had work, costs of packets included.
fn shares(classes: Classes, weight: fn(u32) -> u8, limits: &[RateLimit], posts: usize) -> Vec<f64> {
    let open = |qpn: u32| SendContext {
        qpn,
        state: QueuePairState::ReadyToSend as u8,
        profile: 1,
        mtu: 3,
        class: (qpn / 2) as u8,
        window: 128,
        weight: weight(qpn),
        ..SendContext::default()
    };
    let request = WorkRequest {
        opcode: WorkOpcode::Write as u8,
        signalled: true,
        segments: 1,
        length: 16_384,
        ..WorkRequest::default()
    };
    let posted = (0..64u32).map(|number| {
        (
            WorkRequest {
                qpn: number % 8,
                ..request
            },
            if number == 0 { 100 } else { 0 },
        )
    });
    let trace = Trace {
        contexts: (0..8).map(|qpn| (open(qpn), 0)).collect(),
        requests: posted.collect(),
        classes,
        manners: Manners {
            seed: 1,
            loss: 0,
            refusals: 0,
            delay: 40,
        },
        gaps: Pattern::Always,
        pressure: Pattern::Always,
    };
    let mut peer = Peer::new(trace.manners.clone(), (0..8).map(|qpn| (qpn, 0, false)));
    (peer.posts, peer.template) = (posts, request);
    if !limits.is_empty() {
        let mut limiter = RateLimiter::new(rate_limiter::Config { queue_pairs: 8 });
        limits.iter().for_each(|limit| limiter.write_limit(limit, 0));
        peer.limiter = Some(limiter);
    }
    let mut stimulus = stimulus(&trace);
    for sink in &mut stimulus.sinks {
        if sink.stream == "m_axis" {
            sink.pattern = Pattern::Bursts { on: 1, off: 63 };
        }
    }
    let mut simulation = simulation(false);
    let mut bench = Bench::new(&mut simulation, &stimulus, LIMITS).unwrap_or_else(|error| panic!("{error}"));
    let outcome = bench.run(&mut peer).unwrap_or_else(|error| panic!("{error}"));
    let slices = outcome.received("m_axis");
    assert_eq!(slices.len(), 4 * (64 + posts), "all that was posted is sent");
    // The last ones are left out: there some have no more work.
    let mut bytes = vec![0u64; 8];
    for frame in &slices[..posts * 7 / 2] {
        let (request, slice) = given(&frame.data);
        bytes[request.qpn as usize] += cost_of(&request, &slice);
    }
    let total = bytes.iter().sum::<u64>() as f64;
    bytes.into_iter().map(|bytes| bytes as f64 / total).collect()
}

fn assert_shares(shares: &[f64], wanted: &[f64]) {
    for (index, (share, wanted)) in shares.iter().zip(wanted).enumerate() {
        assert!(
            (share / wanted - 1.0).abs() < 0.02,
            "{index}: {share} instead of {wanted} ({shares:?})"
        );
    }
}

#[test]
fn four_classes_and_eight_queue_pairs_share_by_their_weights() {
    if !common::have_verilator() {
        return;
    }
    let classes = Classes {
        strict: 0,
        weight: [1, 2, 4, 3],
    };
    let shares = shares(classes, |qpn| 1 + 2 * (qpn % 2) as u8, &[], 1_600);
    let of_class = classes
        .weight
        .iter()
        .flat_map(|weight| [0.25, 0.75].map(|part| f64::from(*weight) / 10.0 * part));
    assert_shares(&shares, &of_class.collect::<Vec<_>>());
}

#[test]
fn a_strict_class_and_a_capped_one_keep_to_their_rates() {
    if !common::have_verilator() {
        return;
    }
    // 4,352 bytes in 64 clocks are 17 in a nanosecond. The strict class may take a fifth of it, class 2 a tenth.
    let limit = |index: u32, rate: f64| RateLimit {
        index,
        class: true,
        limited: true,
        rate: (rate * 4_294_967_296.0) as u64,
        burst: 9_000,
        ..RateLimit::default()
    };
    let classes = Classes {
        strict: 0b0001,
        weight: [1, 1, 1, 3],
    };
    let shares = shares(classes, |_| 1, &[limit(0, 3.4), limit(2, 1.7)], 1_000);
    let of_class: Vec<f64> = shares.chunks(2).map(|pair| pair.iter().sum()).collect();
    assert_shares(&of_class, &[0.2, 0.175, 0.1, 0.525]);
    let halves: Vec<f64> = shares.chunks(2).map(|pair| pair[0] / (pair[0] + pair[1])).collect();
    assert_shares(&halves, &[0.5; 4]);
}
