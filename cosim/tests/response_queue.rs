//! response_queue: the RTL gives the packets and counters of the golden model, which is told the order in which the RTL took events and chose
//! queue pairs, and says whether each choice was legal; and in the end all is given and the peer has it.

#[path = "common/blocks.rs"]
mod blocks;
mod common;
#[path = "response_queue/peer.rs"]
mod peer;
#[path = "common/queues.rs"]
mod queues;

use std::collections::VecDeque;

use peer::{CLOCK_NS, Manners, Peer, given};
use proptest::prelude::*;
use spraynic_config::descriptor::{
    Descriptor, QueuePairState, RateRequest, Resend, ResponseMessage, SendContext, SendProgress,
};
use spraynic_config::{NicConfig, Preset, Profile};
use spraynic_cosim::{Agent, Answer, Frame, Limits, Outcome, Pattern, Received, Simulation, SinkChecks, Stimulus};
use spraynic_golden::response_queue::{Config, Counters, ResponseQueue};
use spraynic_rtl::Context;

/// Clocks in which the table is cleared, and some more.
const BEGIN: u64 = 40;

/// The configurations under test: windows of four words, and the smallest.
fn config(small: bool) -> NicConfig {
    let mut config = NicConfig::preset(Preset::G100);
    config.send.queue_pairs = 8;
    config.send.window = 256;
    config.send.reads = 4;
    if small {
        config.send.queue_pairs = 2;
        config.send.window = 64;
        config.send.reads = 1;
    }
    config
}

fn simulation(small: bool) -> Simulation {
    let context = Context::new();
    let definition = spraynic_hdl::response_queue::response_queue(&context, &config(small));
    blocks::simulation(&context, definition)
}

/// What goes in from outside, each not before a clock, and how all around it behaves.
#[derive(Debug, Clone)]
struct Trace {
    contexts: Vec<(u64, SendContext)>,
    messages: Vec<(u64, ResponseMessage)>,
    /// READs that the peer asks for when it has an earlier one.
    later: Vec<ResponseMessage>,
    manners: Manners,
    gaps: Pattern,
    pressure: Pattern,
    asking: Pattern,
}

fn open(qpn: u32, psn: u32, window: u16, class: u8) -> SendContext {
    SendContext {
        qpn,
        state: QueuePairState::ReadyToSend as u8,
        profile: Profile::Solar.code(),
        window,
        class,
        sent_response_psn: psn,
        ..SendContext::default()
    }
}

/// First PSNs: some before the wrap.
fn first_psn(qpn: u32) -> u32 {
    [0xff_fff0, 0, 0x7f_ffc0, 0xff_ff80][qpn as usize % 4]
}

/// A response whose PSN and queue pair are set later.
fn message() -> impl Strategy<Value = ResponseMessage> {
    let length = prop_oneof![3 => 0..600u32, 3 => 0..9_000u32, 1 => 0..60_000u32];
    let numbers = (any::<u64>(), 0..1u32 << 20, 0..1u32 << 24);
    (1..6u8, prop::bool::weighted(0.2), length, numbers).prop_map(|(mtu, atomic, byte_count, (value, entropy, msn))| {
        let byte_count = if atomic { 0 } else { byte_count };
        ResponseMessage {
            atomic,
            mtu,
            entropy,
            msn,
            byte_count,
            value,
            packets: byte_count.div_ceil(128 << mtu).max(1),
            ..ResponseMessage::default()
        }
    })
}

fn manners(nonsense: bool) -> impl Strategy<Value = Manners> {
    (
        any::<u64>(),
        prop_oneof![Just(0u64), 0..90u64],
        prop_oneof![Just(0u64), 0..128u64],
        1..400u64,
    )
        .prop_map(move |(seed, loss, refusals, delay)| Manners {
            seed,
            loss,
            refusals,
            nonsense: if nonsense { 12 } else { 0 },
            delay,
        })
}

/// PSNs one behind the other for each queue pair.
fn number(psns: &mut [u32], message: &mut ResponseMessage, qpn: u32) {
    message.qpn = qpn;
    let psn = &mut psns[qpn as usize % psns.len()];
    message.psn = *psn;
    *psn = (*psn + message.packets) & 0xff_ffff;
}

/// A peer that keeps to what was agreed: not more READs at a time than the queue pair holds.
fn peaceful(small: bool) -> impl Strategy<Value = Trace> {
    let queue_pairs = config(small).send.queue_pairs.min(4);
    let reads = config(small).send.reads as usize;
    let messages = prop::collection::vec((0..queue_pairs, message()), 1..50);
    let windows = prop::collection::vec((0..300u16, 0..4u8), queue_pairs as usize);
    let patterns = (Pattern::strategy(), Pattern::strategy(), Pattern::strategy());
    (messages, windows, manners(false), patterns).prop_map(move |(messages, windows, manners, patterns)| {
        let mut psns: Vec<u32> = (0..queue_pairs).map(first_psn).collect();
        let mut sent = vec![0; queue_pairs as usize];
        let mut trace = Trace {
            contexts: vec![],
            messages: vec![],
            later: vec![],
            manners,
            gaps: patterns.0,
            pressure: patterns.1,
            asking: patterns.2,
        };
        for (qpn, (window, class)) in (0..).zip(windows) {
            trace.contexts.push((BEGIN, open(qpn, first_psn(qpn), window, class)));
        }
        for (qpn, mut message) in messages {
            number(&mut psns, &mut message, qpn);
            sent[qpn as usize] += 1;
            if sent[qpn as usize] <= reads {
                trace.messages.push((BEGIN + 60, message));
            } else {
                trace.later.push(message);
            }
        }
        trace
    })
}

/// What happens to a queue pair at the beginning of a round.
#[derive(Debug, Clone, Copy)]
enum Change {
    None,
    Window,
    Open,
    Reopen,
    Close(u8, u8),
}

/// Rounds in which queue pairs are opened, changed and closed, and in which responses come as they like.
fn wild() -> impl Strategy<Value = Trace> {
    let change = prop_oneof![
        3 => Just(Change::None),
        1 => Just(Change::Window),
        2 => Just(Change::Open),
        2 => Just(Change::Reopen),
        1 => (0..5u8, 0..3u8).prop_map(|(state, profile)| Change::Close(state, profile)),
    ];
    let changes = prop::collection::vec((0..10u32, change, 0..300u16, 0..4u8), 0..8);
    let messages = prop::collection::vec((0..5u32, message(), prop::bool::weighted(0.04)), 0..16);
    let round = (changes, messages, 100..1_500u64);
    let patterns = (Pattern::strategy(), Pattern::strategy(), Pattern::strategy());
    (prop::collection::vec(round, 1..8), manners(true), patterns).prop_map(|(rounds, manners, patterns)| {
        let mut trace = Trace {
            contexts: (0..4).map(|qpn| (BEGIN, open(qpn, first_psn(qpn), 64, 0))).collect(),
            messages: vec![],
            later: vec![],
            manners,
            gaps: patterns.0,
            pressure: patterns.1,
            asking: patterns.2,
        };
        let mut psns: Vec<u32> = (0..5).map(first_psn).collect();
        let mut cycle = BEGIN;
        for (changes, messages, wait) in rounds {
            for (qpn, change, window, class) in changes {
                let context = open(qpn, first_psn(qpn), window, class);
                let closed = SendContext { state: 0, ..context };
                let writes = match change {
                    Change::None => vec![],
                    // The PSN is not read.
                    Change::Window => vec![SendContext {
                        sent_response_psn: 7,
                        ..context
                    }],
                    Change::Open => vec![context],
                    Change::Reopen => vec![closed, context],
                    Change::Close(state, profile) => vec![SendContext {
                        state,
                        profile,
                        ..context
                    }],
                };
                if matches!(change, Change::Reopen)
                    && let Some(psn) = psns.get_mut(qpn as usize)
                {
                    *psn = first_psn(qpn);
                }
                trace
                    .contexts
                    .extend(writes.into_iter().map(|context| (cycle, context)));
            }
            for (qpn, mut message, astray) in messages {
                number(&mut psns, &mut message, qpn);
                if astray {
                    message.psn ^= 1;
                }
                trace.messages.push((cycle + 60, message));
            }
            cycle += wait;
        }
        trace
    })
}

fn frames<D: Descriptor>(steps: &[(u64, D)]) -> Vec<Frame> {
    steps.iter().map(|(cycle, step)| queues::at(*cycle, step)).collect()
}

fn stimulus(trace: &Trace) -> Stimulus {
    let mut stimulus = Stimulus::default()
        .source("s_axis_context", Pattern::Always, frames(&trace.contexts))
        .source("s_axis", trace.gaps.clone(), frames(&trace.messages));
    for stream in ["s_axis_progress", "s_axis_resend", "s_axis_rate_grant"] {
        stimulus = stimulus.source(stream, Pattern::Always, []);
    }
    stimulus
        .sink("m_axis", trace.pressure.clone(), SinkChecks::default())
        .sink("m_axis_rate_request", trace.asking.clone(), SinkChecks::default())
        .input_at("time_ns", 0, 0, CLOCK_NS)
}

/// Nothing moves while all wait for tokens, 256 clocks.
const LIMITS: Limits = Limits {
    quiet_clocks: 2_000,
    hang_clocks: 4_000,
    most_clocks: 2_000_000,
};

fn run(small: bool, trace: &Trace) -> (Outcome, Peer) {
    let sent = trace.messages.iter().map(|(_, message)| *message).collect();
    let mut peer = Peer::new(trace.manners, sent);
    for (_, message) in &trace.messages {
        let (asked, _) = peer.reads.entry(message.qpn).or_default();
        asked.push_back(*message);
    }
    for message in &trace.later {
        let (_, waiting) = peer.reads.entry(message.qpn).or_default();
        waiting.push_back(*message);
    }
    let outcome = queues::run(&mut simulation(small), &stimulus(trace), LIMITS, &mut peer);
    (outcome, peer)
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Context(usize),
    Message(usize),
    Progress(usize),
    Resend(usize),
    Ask(usize),
}

fn events(outcome: &Outcome) -> Vec<(u64, Event)> {
    queues::events(
        outcome,
        &[
            ("s_axis_context", Event::Context),
            ("s_axis", Event::Message),
            ("s_axis_progress", Event::Progress),
            ("s_axis_resend", Event::Resend),
        ],
        &[("m_axis_rate_request", Event::Ask)],
    )
}

/// The golden model follows the RTL; every packet is compared.
fn follow(small: bool, trace: &Trace, peer: &Peer, outcome: &Outcome) -> Result<ResponseQueue, TestCaseError> {
    let mut model = ResponseQueue::new(Config::from(&config(small)));
    let asked = outcome.received("m_axis_rate_request");
    let mut packets = VecDeque::new();
    for (cycle, event) in events(outcome) {
        match event {
            Event::Context(index) => model.write_context(&trace.contexts[index].1),
            Event::Message(index) => {
                model.take(&peer.sent.messages[index]);
            }
            Event::Progress(index) => model.progress(&peer.sent.progress[index]),
            Event::Resend(index) => model.resend(&peer.sent.resends[index]),
            Event::Ask(index) => {
                let request = RateRequest::unpack(&asked[index].data);
                prop_assert_eq!(
                    model.offer(request.qpn),
                    Some(request),
                    "cycle {}: what is asked for",
                    cycle
                );
                if peer.sent.grants[index] == 0 {
                    packets.extend(model.begin(request.qpn).into_iter().flatten());
                }
            }
        }
    }
    let received = outcome.received("m_axis");
    for (place, (frame, expected)) in received.iter().zip(&packets).enumerate() {
        prop_assert_eq!(&given(&frame.data), expected, "packet {}", place);
    }
    prop_assert_eq!(received.len(), packets.len(), "count of packets");
    Ok(model)
}

fn compare_counters(counters: &Counters, outcome: &Outcome) -> Result<(), TestCaseError> {
    let named = [
        ("responses", counters.responses),
        ("packets", counters.packets),
        ("retransmissions", counters.retransmissions),
        ("implied", counters.implied),
        ("drop_queue_pair", counters.drop_queue_pair),
        ("drop_sequence", counters.drop_sequence),
        ("drop_full", counters.drop_full),
        ("drop_progress", counters.drop_progress),
        ("drop_resend", counters.drop_resend),
    ];
    prop_assert_eq!(outcome.counters.len(), named.len(), "every counter is compared");
    for (name, value) in named {
        prop_assert_eq!(outcome.counters[name], u64::from(value), "count_{}", name);
    }
    Ok(())
}

fn check(small: bool, trace: &Trace) -> Result<(ResponseQueue, Outcome), TestCaseError> {
    let (outcome, peer) = run(small, trace);
    let model = follow(small, trace, &peer, &outcome)?;
    compare_counters(model.counters(), &outcome)?;
    Ok((model, outcome))
}

/// All responses were taken and given, and the peer has them.
fn check_peaceful(small: bool, trace: &Trace) -> Result<(), TestCaseError> {
    if !common::have_verilator() {
        return Ok(());
    }
    let (model, _) = check(small, trace)?;
    let messages = trace.messages.iter().map(|(_, message)| message).chain(&trace.later);
    let counters = model.counters();
    prop_assert_eq!(counters.responses as usize, messages.clone().count());
    let packets: u32 = messages.map(|message| message.packets).sum();
    prop_assert_eq!(counters.packets - counters.retransmissions, packets);
    prop_assert_eq!(
        counters.drop_full + counters.drop_sequence + counters.drop_queue_pair,
        0
    );
    prop_assert!((0..4).all(|qpn| model.is_idle(qpn)), "something is left");
    Ok(())
}

proptest! {
    #![proptest_config(common::config(40, "response_queue"))]
    #[test]
    fn all_is_given_as_in_the_golden_model(trace in peaceful(false)) {
        check_peaceful(false, &trace)?;
    }

    #[test]
    fn all_is_given_as_in_the_golden_model_by_the_smallest(trace in peaceful(true)) {
        check_peaceful(true, &trace)?;
    }

    #[test]
    fn queue_pairs_come_and_go_as_in_the_golden_model(small in any::<bool>(), trace in wild()) {
        if common::have_verilator() {
            check(small, &trace)?;
        }
    }
}

/// Responses of `bytes` each that queue pairs take turns in getting, under no back-pressure; nothing is heard while packets are counted.
fn plain(queue_pairs: u32, count: u32, bytes: u32, mtu: u8) -> Trace {
    let mut psns = vec![0; queue_pairs as usize];
    let messages = (0..count).map(|number| {
        let mut message = ResponseMessage {
            mtu,
            byte_count: bytes,
            packets: bytes.div_ceil(128 << mtu).max(1),
            ..ResponseMessage::default()
        };
        self::number(&mut psns, &mut message, number % queue_pairs);
        (BEGIN + 200, message)
    });
    Trace {
        messages: messages.collect(),
        contexts: (0..queue_pairs).map(|qpn| (BEGIN, open(qpn, 0, 256, 0))).collect(),
        later: vec![],
        manners: Manners {
            seed: 1,
            loss: 0,
            refusals: 0,
            nonsense: 0,
            delay: 5_000,
        },
        gaps: Pattern::Always,
        pressure: Pattern::Always,
        asking: Pattern::Always,
    }
}

/// Clocks from a response to its first packet, and from slice to slice: of one queue pair, and of eight.
#[test]
fn clocks_of_a_packet_are_as_documented() {
    if !common::have_verilator() {
        return;
    }
    // Bytes of the one response of each queue pair, MTU code; packets of a slice, and its clocks where one or eight queue pairs have turns.
    for (bytes, mtu, packets, clocks) in [
        (131_072, 5, 1, [5, 6]),
        (65_536, 3, 4, [5, 6]),
        (32_768, 1, 16, [16, 16]),
    ] {
        for (queue_pairs, clocks) in [1, 8].into_iter().zip(clocks) {
            let trace = plain(queue_pairs, queue_pairs, bytes, mtu);
            let (_, outcome) = check(false, &trace).unwrap();
            let taken = outcome.accepted("s_axis")[0].last_cycle;
            let cycles: Vec<u64> = outcome
                .received("m_axis")
                .iter()
                .map(|frame| frame.last_cycle)
                .collect();
            if queue_pairs == 1 {
                assert_eq!(cycles[0] - taken, 17, "clocks from a response to its first packet");
            }
            // Behind the last response that was taken. The last turns of queue pairs that have nothing left take clocks too.
            let begin = outcome.accepted("s_axis").last().map_or(0, |timing| timing.last_cycle) + 30;
            let first_packets: Vec<u64> = cycles.chunks(packets).map(|slice| slice[0]).collect();
            let pairs = first_packets.windows(2).filter(|pair| pair[0] > begin);
            let slices: Vec<u64> = pairs.map(|pair| pair[1] - pair[0]).collect();
            let slices = &slices[..slices.len() - if queue_pairs == 1 { 0 } else { 16 }];
            assert!(slices.len() > 2, "{slices:?}");
            assert!(
                slices.iter().all(|slice| *slice == clocks),
                "{queue_pairs} queue pairs, {bytes} bytes, MTU code {mtu}: {slices:?}"
            );
        }
    }
}

/// What is heard, and responses, are taken while no packet leaves: `sent`, `retransmit_engine` and this block would wait for each other otherwise.
#[test]
fn nothing_that_comes_waits_for_packets_to_leave() {
    if !common::have_verilator() {
        return;
    }
    let mut trace = plain(1, 4, 4_096, 1);
    trace.pressure = Pattern::After { clocks: 4_000 };
    let resend = |psn: u32| Resend {
        psn,
        space: true,
        ..Resend::default()
    };
    let progress = |base: u32| SendProgress {
        base,
        space: true,
        ..SendProgress::default()
    };
    // The first slice stands before the port: its 16 packets count as given.
    let resends: Vec<Resend> = (0..300).map(|number| resend(number % 16)).collect();
    let progresses: Vec<SendProgress> = (0..100).map(|number| progress(number / 16)).collect();
    let mut stimulus = stimulus(&trace);
    for source in &mut stimulus.sources {
        match source.stream.as_str() {
            "s_axis_resend" => source.frames = resends.iter().map(|resend| queues::at(400, resend)).collect(),
            "s_axis_progress" => {
                source.frames = progresses.iter().map(|progress| queues::at(400, progress)).collect();
            }
            _ => {}
        }
    }
    let mut peer = Peer::new(
        trace.manners,
        trace.messages.iter().map(|(_, message)| *message).collect(),
    );
    peer.sent.resends = resends;
    peer.sent.progress = progresses;
    let limits = Limits {
        quiet_clocks: 6_000,
        hang_clocks: 8_000,
        ..LIMITS
    };
    let outcome = queues::run(&mut simulation(false), &stimulus, limits, &mut peer);
    for (stream, count) in [("s_axis_resend", 300), ("s_axis_progress", 100), ("s_axis", 4)] {
        let taken = outcome.accepted(stream);
        let before = taken
            .iter()
            .take(count)
            .filter(|timing| timing.last_cycle < 4_000)
            .count();
        assert_eq!(before, count, "{stream}");
    }
    assert!(outcome.received("m_axis")[0].last_cycle >= 4_000);
    // Nothing else is done meanwhile: so these are their clocks. A base that rises takes one more, what is dropped two less.
    let clocks = |stream: &str, from: usize, to: usize| {
        let taken = &outcome.accepted(stream)[from..to];
        let pairs = taken.windows(2).map(|pair| pair[1].last_cycle - pair[0].last_cycle);
        pairs.collect::<std::collections::BTreeSet<u64>>()
    };
    assert_eq!(clocks("s_axis_resend", 10, 300), [4, 6].into());
    assert_eq!(clocks("s_axis_progress", 10, 100), [6, 7].into());
    let model = follow(false, &trace, &peer, &outcome).unwrap();
    compare_counters(model.counters(), &outcome).unwrap();
    assert!(model.counters().retransmissions > 0 && model.is_idle(0));
}

/// A peer of which nothing is heard: tokens alone are granted.
struct Silent(Peer);

impl Agent for Silent {
    fn on_frame(&mut self, answer: &mut Answer<'_>, stream: &str, frame: &Received) -> Result<(), String> {
        if stream == "m_axis_rate_request" {
            self.0.on_frame(answer, stream, frame)?;
        }
        Ok(())
    }
}

/// The window is full and what the peer says of its last packets is lost: nothing comes until the last packet is given again (queue pair 0), or
/// until the peer is asked how far it has come (queue pair 1). Both go on then.
#[test]
fn a_full_window_whose_last_sack_is_lost_goes_on_with_what_is_heard_next() {
    if !common::have_verilator() {
        return;
    }
    const WINDOW: u32 = 16;
    let mut trace = plain(2, 2, 8_192, 1);
    for (_, context) in &mut trace.contexts {
        context.window = WINDOW as u16;
    }
    let mut peer = Peer::new(
        trace.manners,
        trace.messages.iter().map(|(_, message)| *message).collect(),
    );
    peer.sent.resends = vec![Resend {
        psn: WINDOW - 1,
        space: true,
        ..Resend::default()
    }];
    peer.sent.progress = [0, 1]
        .map(|qpn| SendProgress {
            qpn,
            base: WINDOW,
            space: true,
            ..SendProgress::default()
        })
        .into();
    let mut stimulus = stimulus(&trace);
    for source in &mut stimulus.sources {
        match source.stream.as_str() {
            "s_axis_resend" => source.frames = frames(&[(1_000, peer.sent.resends[0])]),
            "s_axis_progress" => {
                source.frames = frames(&[(2_000, peer.sent.progress[0]), (3_000, peer.sent.progress[1])]);
            }
            _ => {}
        }
    }
    let mut silent = Silent(peer);
    let outcome = queues::run(&mut simulation(false), &stimulus, LIMITS, &mut silent);
    let model = follow(false, &trace, &silent.0, &outcome).unwrap();
    compare_counters(model.counters(), &outcome).unwrap();
    let packets: Vec<(u64, u32, u32, bool)> = outcome
        .received("m_axis")
        .iter()
        .map(|frame| {
            let (packet, origin) = given(&frame.data);
            (frame.last_cycle, packet.qpn, packet.psn, origin.retransmission)
        })
        .collect();
    let count = |from: u64, to: u64| {
        let within = packets.iter().filter(|(cycle, ..)| (from..to).contains(cycle));
        within
            .map(|(_, qpn, psn, again)| (*qpn, *psn, *again))
            .collect::<Vec<_>>()
    };
    assert_eq!(count(0, 1_000).len() as u32, 2 * WINDOW, "both windows are full");
    assert_eq!(count(1_000, 2_000), [(0, WINDOW - 1, true)]);
    for (qpn, from) in [(0, 2_000), (1, 3_000)] {
        let rest: Vec<_> = (WINDOW..2 * WINDOW).map(|psn| (qpn, psn, false)).collect();
        assert_eq!(count(from, from + 1_000), rest);
    }
}
