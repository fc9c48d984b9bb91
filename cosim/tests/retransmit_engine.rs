//! retransmit_engine: golden model and RTL give the same resends, progress, path events, probes and counters for the same packets sent, feedback,
//! contexts and timers.

mod common;

#[path = "retransmit_engine/network.rs"]
mod network;
#[path = "retransmit_engine/scenario.rs"]
mod scenario;

use network::Chances;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use scenario::{Event, Given, Scenario, WINDOW, config};
use spraynic_config::descriptor::{SendContext, SendProgress, SentPacket};
use spraynic_cosim::{
    Bench, Case, Expectation, Limits, ModelSource, Outcome, Pattern, Property, PropertyError, SharedModel, Simulation,
    Trial,
};
use spraynic_wire::{CcState, Header, NackReason, NakCode, Neth, Opcode, Psn, Seth, Syndrome};

static MODEL: SharedModel = SharedModel::new(source);
/// Windows of one word of the bitmaps, and of most.
static LEAST: SharedModel = SharedModel::new(|| source_of(64));
static MOST: SharedModel = SharedModel::new(|| source_of(1_024));

/// Clocks of a SACK that acknowledges so many packets in order, one SACK after the other: those of the table in the documentation.
const SACK_CLOCKS: [(u32, u64); 4] = [(1, 8), (4, 11), (16, 33), (64, 141)];
/// Hundredths of clocks for each packet that is sent and acknowledged, in SACKs of so many.
const PACKET_CLOCKS: [(u32, u64); 3] = [(1, 815), (4, 370), (16, 257)];
/// Clocks from a SACK that shows one packet more to the Resend of the packet that is thereby lost.
const RESEND_CLOCKS: u64 = 13;
/// Likewise from a NACK.
const NACK_CLOCKS: u64 = 3;
/// Clocks of a packet that was sent of another queue pair than the one before, and of one that was sent again.
const OTHER_CLOCKS: u64 = 3;
const AGAIN_CLOCKS: u64 = 4;

const LIMITS: Limits = Limits {
    quiet_clocks: 3_500,
    hang_clocks: 20_000,
    most_clocks: 50_000_000,
};

fn source() -> ModelSource {
    source_of(WINDOW)
}

fn source_of(window: u32) -> ModelSource {
    let context = spraynic_rtl::Context::new();
    ModelSource::from_definition(spraynic_hdl::retransmit_engine::retransmit_engine(
        &context,
        &config(window),
    ))
}

fn chances(window: u32) -> impl Strategy<Value = Chances> {
    let shape = (
        any::<u64>(),
        1..900u32,
        prop_oneof![3 => 0..40u64, 1 => 0..4u64, 1 => 100..300u64],
        0..15u64,
        0..15u64,
        0..8u64,
        0..12u64,
    );
    let more = (
        6..20u64,
        1..9u8,
        prop_oneof![0..20u16, Just(1_023u16)],
        100..3_000u32,
        prop_oneof![2 => 4_000..20_000u32, 1 => Just(500_000u32)],
    );
    (shape, more).prop_map(
        move |(
            (seed, steps, gap, loss, trim, garbage, context),
            (eager, paths, ooo_threshold, base_rtt_ns, timeout_ns),
        )| {
            Chances {
                window,
                seed,
                steps,
                gap,
                loss,
                trim,
                garbage,
                context,
                eager,
                paths,
                ooo_threshold,
                base_rtt_ns,
                timeout_ns,
            }
        },
    )
}

fn scenarios(window: u32) -> impl Strategy<Value = (Chances, [Pattern; 7])> {
    let always = Just([(); 7].map(|()| Pattern::Always));
    let patterns = [(); 7].map(|()| prop_oneof![2 => Just(Pattern::Always), 1 => Pattern::strategy()]);
    let patterns = prop_oneof![1 => always, 2 => patterns];
    (chances(window), patterns)
}

#[test]
fn everything_equals_the_golden_model() -> Result<(), PropertyError> {
    equals_the_golden_model(&MODEL, WINDOW, 80)
}

#[test]
fn a_window_of_one_word_equals_the_golden_model() -> Result<(), PropertyError> {
    equals_the_golden_model(&LEAST, 64, 30)
}

#[test]
#[ignore = "one more model: for changes of the window"]
fn the_largest_window_equals_the_golden_model() -> Result<(), PropertyError> {
    equals_the_golden_model(&MOST, 1_024, 100)
}

fn equals_the_golden_model(model: &SharedModel, window: u32, cases: u32) -> Result<(), PropertyError> {
    Property::new("retransmit_engine", model)
        .cases(cases)
        .limits(LIMITS)
        .check_trials(scenarios(window), |(chances, patterns)| {
            let scenario = Scenario {
                window: chances.window,
                events: network::write(chances.clone()),
                patterns: patterns.clone(),
            };
            let unchecked = ["progress", "resend", "path", "control", "timeout"].map(|name| format!("m_axis_{name}"));
            let case = Case {
                stimulus: scenario.stimulus(),
                // Which timer fires when is not known before: the judge compares.
                expectation: Expectation {
                    unchecked: unchecked.into(),
                    ..Expectation::default()
                },
            };
            Trial::new(case).judged(move |outcome| scenario.judge(outcome).map(|_| ()))
        })
}

/// Runs events that are given as fast as they are taken; `None` without a Verilator. What came out equals the model.
fn run(events: Vec<(u64, Event)>) -> Option<(Outcome, Given)> {
    let model = MODEL.get().unwrap_or_else(|error| panic!("{error}"))?;
    let mut simulation = Simulation::new(&model, 1);
    let scenario = Scenario {
        window: WINDOW,
        events,
        patterns: Default::default(),
    };
    let outcome = Bench::new(&mut simulation, &scenario.stimulus(), LIMITS)
        .and_then(|mut bench| bench.run(&mut ()))
        .unwrap_or_else(|error| panic!("{error}"));
    let given = scenario.judge(&outcome).unwrap_or_else(|error| panic!("{error}"));
    Some((outcome, given))
}

/// Queue pair 1 in RTS, of solar, with PSN 0, and no timer that disturbs.
fn open() -> (u64, Event) {
    let context = SendContext {
        qpn: 1,
        state: 3,
        profile: 1,
        policy: 2,
        window: 128,
        retry_limit: 7,
        ooo_threshold: 1_023,
        base_rtt_ns: 4_000,
        timeout_ns: 1_000_000,
        ..SendContext::default()
    };
    (0, Event::Context(context))
}

fn closed(cycle: u64) -> (u64, Event) {
    let context = SendContext {
        qpn: 1,
        ..SendContext::default()
    };
    (cycle, Event::Context(context))
}

fn sent(psn: u32, paths: u32) -> Event {
    let path = psn % paths;
    Event::Sent(SentPacket {
        qpn: 1,
        psn,
        psns: 1,
        path: path as u8,
        entropy: 0x4000 + path as u16,
        ..SentPacket::default()
    })
}

fn sack(cumulative: u32, beyond: u64) -> Event {
    let seth = Seth {
        cack_psn: Psn::new(cumulative),
        sack_offset: 1,
        sack_bitmap: beyond,
        ..Seth::default()
    };
    let state = CcState {
        ooo_count: beyond.count_ones() as u16,
        ..CcState::default()
    };
    Event::Feedback(network::packet(
        1,
        Opcode::SACK,
        0,
        &[&seth.to_bytes(), &state.to_bytes()],
    ))
}

fn nack(psn: u32) -> Event {
    let neth = Neth {
        reason: NackReason::Trimmed,
        nack_psn: Psn::new(psn),
        ..Neth::default()
    };
    Event::Feedback(network::packet(1, Opcode::NACK, 0, &[&neth.to_bytes()]))
}

/// Clocks from acceptance of the first to that of the last of so many.
fn clocks(outcome: &Outcome, stream: &str, from: usize) -> u64 {
    let accepted = outcome.accepted(stream);
    accepted[accepted.len() - 1].last_cycle - accepted[from].last_cycle
}

#[test]
fn packets_of_one_queue_pair_are_taken_one_a_clock() {
    let mut events = vec![open()];
    events.extend((0..100).map(|psn| (400, sent(psn, 8))));
    events.push(closed(2_000));
    let Some((outcome, _)) = run(events) else { return };
    // The first one starts the timer.
    assert_eq!(clocks(&outcome, "s_axis_sent", 1), 98);
}

#[test]
fn a_sack_in_order_takes_the_clocks_of_the_table() {
    let measured = SACK_CLOCKS.map(|(each, _)| {
        let mut events = vec![open()];
        events.extend((0..128).map(|psn| (400, sent(psn, 8))));
        events.extend((0..128 / each).map(|index| (1_000, sack(each * (index + 1) - 1, 0))));
        events.push(closed(8_000));
        let (outcome, _) = run(events)?;
        let count = u64::from(128 / each - 1);
        Some((each, clocks(&outcome, "s_axis_feedback", 0).div_ceil(count)))
    });
    if let [Some(_), ..] = measured {
        assert_eq!(measured, SACK_CLOCKS.map(Some));
    }
}

/// Packets go on to be sent while those before are acknowledged.
#[test]
fn a_packet_costs_the_clocks_of_the_table() {
    let measured = PACKET_CLOCKS.map(|(each, _)| {
        let mut events = vec![open()];
        events.extend((0..64).map(|psn| (400, sent(psn, 8))));
        events.extend((64..128).map(|psn| (1_000, sent(psn, 8))));
        events.extend((0..64 / each).map(|index| (1_000, sack(each * (index + 1) - 1, 0))));
        events.push(closed(8_000));
        let (outcome, given) = run(events)?;
        assert_eq!(given.resends.len(), 0);
        let first = outcome.accepted("s_axis_sent")[64].last_cycle;
        let last = outcome.received("m_axis_progress").last()?.last_cycle;
        Some((each, (last - first) * 100 / 64))
    });
    if let [Some(_), ..] = measured {
        assert_eq!(measured, PACKET_CLOCKS.map(Some));
    }
}

#[test]
fn a_loss_is_told_so_many_clocks_behind_its_sack() {
    let mut events = vec![open()];
    events.extend((0..16).map(|psn| (400, sent(psn, 4))));
    // 0 is lost; 4 was sent later by the same path.
    events.push((1_000, sack(0xFF_FFFF, 0b1110)));
    events.push((2_000, sack(0xFF_FFFF, 0b1_1110)));
    events.push((3_000, nack(7)));
    events.push(closed(4_000));
    let Some((outcome, given)) = run(events) else { return };
    let lost: Vec<_> = given.resends.iter().map(|resend| resend.psn).collect();
    assert_eq!(lost, [0, 7]);
    let latency = |index: usize| {
        let told = outcome.received("m_axis_resend")[index].last_cycle;
        told - outcome.accepted("s_axis_feedback")[index + 1].last_cycle
    };
    assert_eq!([latency(0), latency(1)], [RESEND_CLOCKS, NACK_CLOCKS]);
}

/// Queue pairs take turns; then packets are sent again.
#[test]
fn a_packet_sent_out_of_plain_order_takes_the_clocks_of_the_table() {
    let other = |event: Event| match event {
        Event::Sent(packet) => Event::Sent(SentPacket { qpn: 2, ..packet }),
        Event::Context(context) => Event::Context(SendContext { qpn: 2, ..context }),
        event => event,
    };
    let mut events = vec![open(), (0, other(open().1))];
    for psn in 0..32 {
        events.push((400, sent(psn, 8)));
        events.push((400, other(sent(psn, 8))));
    }
    events.extend((0..32).map(|psn| (1_000, other(sent(psn, 8)))));
    events.push(closed(4_000));
    let Some((outcome, _)) = run(events) else { return };
    let accepted = outcome.accepted("s_axis_sent");
    let clocks = |from: usize, to: usize| (accepted[to].last_cycle - accepted[from].last_cycle) / (to - from) as u64;
    assert_eq!([clocks(2, 62), clocks(65, 95)], [OTHER_CLOCKS, AGAIN_CLOCKS]);
}

/// READs alone, more than `done` may stay behind the base; then a WRITE and its ACK, and a READ whose NAK comes behind its SACK.
#[test]
fn reads_without_end_equal_the_golden_model() {
    const EACH: u32 = 64;
    const PERIOD: u64 = 300;
    let read = |psn: u32| match sent(psn, 8) {
        Event::Sent(packet) => Event::Sent(SentPacket {
            last: true,
            response: true,
            ..packet
        }),
        event => event,
    };
    let syndrome = |psn: u32, syndrome: Syndrome| {
        let byte = [syndrome.byte(), 0, 0, 0];
        Event::Feedback(network::packet(1, Opcode::ACKNOWLEDGE, psn, &[&byte]))
    };
    let mut events = vec![open()];
    let mut cycle = 400;
    for first in (0..262 * EACH).step_by(EACH as usize) {
        events.extend((first..first + EACH).map(|psn| (cycle, read(psn))));
        events.push((cycle + PERIOD / 2, sack(first + EACH - 1, 0)));
        cycle += PERIOD;
    }
    let write = 262 * EACH;
    let of_write = match sent(write, 8) {
        Event::Sent(packet) => Event::Sent(SentPacket { last: true, ..packet }),
        event => event,
    };
    events.push((cycle, of_write));
    events.push((cycle + 100, sack(write, 0)));
    events.push((cycle + 200, syndrome(write, Syndrome::ACK)));
    events.push((cycle + 300, read(write + 1)));
    events.push((cycle + 400, sack(write + 1, 0)));
    events.push((
        cycle + 500,
        syndrome(write + 1, Syndrome::Nak(NakCode::RemoteAccessError)),
    ));
    events.push(closed(cycle + 600));
    let Some((_, given)) = run(events) else { return };
    let lag = |progress: &SendProgress| progress.base - progress.done;
    let most = given.progress.iter().map(lag).max();
    assert_eq!(most, Some((1 << 14) + 1), "the WRITE waits for its ACK");
    let last = given.progress.last().expect("it fails");
    assert_eq!((last.done, last.failed), (write + 1, true));
    let before: Vec<_> = given.progress.iter().rev().skip(1).take(2).map(lag).collect();
    assert_eq!(before, [1, 0], "behind the WRITE's ACK, which its READ leaves behind");
}

/// The scenarios of the comparison reach everything that is counted.
#[test]
fn scenarios_reach_every_counter() {
    use spraynic_golden::retransmit_engine::{Config, Counters, RetransmitEngine};
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut reached: Counters = Counters::default();
    for _ in 0..60 {
        let chances = chances(WINDOW).new_tree(&mut runner).expect("a value").current();
        let mut model = RetransmitEngine::new(Config::from(&config(WINDOW)));
        for (cycle, event) in network::write(chances) {
            let now = scenario::time_at(scenario::BEGIN + cycle);
            model.expire_due(now);
            match event {
                Event::Context(context) => model.write_context(&context),
                Event::Sent(packet) => model.sent(&packet, now),
                Event::Feedback(packet) => model.feedback(&packet, &Default::default(), now),
                Event::Timer(..) => {}
            }
        }
        let counters = model.counters();
        for (sum, one) in [
            (&mut reached.sent, counters.sent),
            (&mut reached.sent_again, counters.sent_again),
            (&mut reached.sent_ignored, counters.sent_ignored),
            (&mut reached.sacks, counters.sacks),
            (&mut reached.acks, counters.acks),
            (&mut reached.nacks, counters.nacks),
            (&mut reached.naks, counters.naks),
            (&mut reached.responses, counters.responses),
            (&mut reached.drop_incredible, counters.drop_incredible),
            (&mut reached.drop_stale, counters.drop_stale),
            (&mut reached.lost_sack, counters.lost_sack),
            (&mut reached.lost_nack, counters.lost_nack),
            (&mut reached.lost_timer, counters.lost_timer),
            (&mut reached.rewinds, counters.rewinds),
            (&mut reached.timeouts, counters.timeouts),
            (&mut reached.probes, counters.probes),
            (&mut reached.failures, counters.failures),
        ] {
            *sum += one;
        }
    }
    assert!(
        reached.sent > 5_000 && reached.lost_sack > 50 && reached.lost_timer > 20,
        "{reached:?}"
    );
    assert!(
        reached.rewinds > 50 && reached.responses > 100 && reached.probes > 5,
        "{reached:?}"
    );
    assert!(
        reached.nacks > 50 && reached.failures > 5 && reached.drop_incredible > 20,
        "{reached:?}"
    );
}

#[test]
fn linters_have_nothing_to_say() {
    if common::have_verilator() {
        spraynic_cosim::lint(&source()).unwrap_or_else(|error| panic!("{error}"));
    }
}
