//! Drivers against streams that keep the rules, and against streams that break each of them.

mod common;

use common::{have_verilator, model};
use proptest::prelude::*;
use spraynic_cosim::{
    Answer, Bench, BenchError, Frame, Limits, Pattern, Received, Simulation, SinkChecks, Stimulus, StreamFault, run,
};

fn frames(count: usize, bytes: usize) -> Vec<Frame> {
    let byte = |frame: usize, index: usize| (frame * 31 + index * 7 + 1) as u8;
    (0..count)
        .map(|frame| Frame::with_user((0..bytes).map(|i| byte(frame, i)).collect::<Vec<_>>(), 1))
        .collect()
}

fn same(sent: &[Frame], received: &[Received]) -> bool {
    sent.len() == received.len()
        && sent
            .iter()
            .zip(received)
            .all(|(s, r)| s.data == r.data && s.user == r.user)
}

fn arbitrary_frames(user: u64) -> impl Strategy<Value = Vec<Frame>> {
    let frame = (prop::collection::vec(any::<u8>(), 1..300), 0..=user);
    prop::collection::vec(frame.prop_map(|(data, user)| Frame::with_user(data, user)), 0..20)
}

#[test]
fn frames_pass_a_skid_buffer_unchanged_under_every_pattern() {
    if !have_verilator() {
        return;
    }
    let simulation = std::cell::RefCell::new(Simulation::new(&model("skid_buffer"), 1));
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(300)
    };
    proptest!(config, |(sent in arbitrary_frames(7), gaps in Pattern::strategy(), stalls in Pattern::strategy(), last_only: bool)| {
        let checks = SinkChecks { constant_user: if last_only { 0 } else { 7 }, ..SinkChecks::default() };
        let mut stimulus =
            Stimulus::default().source("s_axis", gaps, sent.clone()).sink("m_axis", stalls, checks);
        stimulus.sources[0].user_last_only = last_only;
        let outcome = run(&mut simulation.borrow_mut(), &stimulus, Limits::default())?;
        prop_assert!(same(&sent, outcome.received("m_axis")));
        prop_assert_eq!(outcome.counters["frames"], sent.len() as u64);
        prop_assert_eq!(outcome.accepted("s_axis").len(), sent.len());
    });
}

#[test]
fn descriptors_pass_a_fifo_unchanged() {
    if !have_verilator() {
        return;
    }
    let simulation = std::cell::RefCell::new(Simulation::new(&model("fifo"), 1));
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(100)
    };
    let items = prop::collection::vec(0..1u32 << 20, 0..60);
    proptest!(config, |(items in items, gaps in Pattern::strategy(), stalls in Pattern::strategy())| {
        let sent: Vec<Frame> = items.iter().map(|item| Frame::new(&item.to_le_bytes()[..3])).collect();
        let stimulus = Stimulus::default().source("s_axis", gaps, sent.clone()).sink("m_axis", stalls, SinkChecks::default());
        let outcome = run(&mut simulation.borrow_mut(), &stimulus, Limits::default())?;
        prop_assert!(same(&sent, outcome.received("m_axis")));
    });
}

#[test]
fn clocks_are_counted() {
    if !have_verilator() {
        return;
    }
    let mut simulation = Simulation::new(&model("skid_buffer"), 1);
    // Ten frames of three beats: 130 bytes at 64 bytes a beat.
    let checks = SinkChecks {
        record_beats: true,
        no_bubble_in_frames: true,
        no_bubble_while: vec!["s_axis".into()],
        ..SinkChecks::default()
    };
    let stimulus = Stimulus::default()
        .source("s_axis", Pattern::Always, frames(10, 130))
        .sink("m_axis", Pattern::Always, checks);
    let outcome = run(&mut simulation, &stimulus, Limits::default()).unwrap();
    // One clock of latency, then one beat a clock.
    assert_eq!(outcome.beat_cycles("m_axis"), (1..=30).collect::<Vec<u64>>());
    assert_eq!(outcome.accepted("s_axis")[9].last_cycle, 29);
    assert_eq!(
        (
            outcome.received("m_axis")[1].first_cycle,
            outcome.received("m_axis")[1].last_cycle
        ),
        (4, 6)
    );
}

/// What the run of a faulty stream ends with.
fn broken(fault: u64, bytes: usize, stalls: Pattern, checks: SinkChecks) -> BenchError {
    let mut simulation = Simulation::new(&model("broken"), 1);
    let mut stimulus = Stimulus::default()
        .input("fault", fault)
        .source("s_axis", Pattern::Always, frames(40, bytes))
        .sink("m_axis", stalls, checks);
    stimulus.sinks[0].expected_frames = Some(40);
    let limits = Limits {
        hang_clocks: 400,
        ..Limits::default()
    };
    match run(&mut simulation, &stimulus, limits) {
        Err(error) => error,
        Ok(outcome) => panic!("fault {fault} was not found in {} cycles", outcome.cycles),
    }
}

fn stream_fault(error: &BenchError) -> &StreamFault {
    let BenchError::Stream(error) = error else {
        panic!("{error} is no fault of a stream")
    };
    assert_eq!(error.stream, "m_axis");
    &error.fault
}

#[test]
fn each_broken_rule_is_found() {
    if !have_verilator() {
        return;
    }
    let slow = || Pattern::List(vec![false, false, false, false, true]);
    let plain = SinkChecks::default;
    let quiet = || SinkChecks {
        valid_independent: false,
        ..SinkChecks::default()
    };
    let bubbles = || SinkChecks {
        no_bubble_in_frames: true,
        ..SinkChecks::default()
    };
    let throughput = || SinkChecks {
        no_bubble_while: vec!["s_axis".into()],
        ..SinkChecks::default()
    };
    let user = || SinkChecks {
        constant_user: 1,
        ..SinkChecks::default()
    };

    type Check = fn(&StreamFault) -> bool;
    let cases: [(u64, Pattern, SinkChecks, Check); 10] = [
        (1, slow(), plain(), |f| {
            matches!(f, StreamFault::Unstable { port: "tdata", .. })
        }),
        (
            2,
            slow(),
            plain(),
            |f| matches!(f, StreamFault::KeepHole { keep } if keep == "0x5f"),
        ),
        (
            3,
            Pattern::Always,
            plain(),
            |f| matches!(f, StreamFault::KeepNotFull { keep } if keep == "0x7f"),
        ),
        (4, Pattern::Always, plain(), |f| matches!(f, StreamFault::KeepZero)),
        (5, slow(), plain(), |f| matches!(f, StreamFault::ValidFell)),
        (6, Pattern::Bursts { on: 1, off: 3 }, plain(), |f| {
            matches!(f, StreamFault::ValidWaitsForReady)
        }),
        (7, Pattern::Always, user(), |f| {
            matches!(f, StreamFault::UserChanged { before: 1, after: 0 })
        }),
        (8, Pattern::Always, bubbles(), |f| {
            matches!(f, StreamFault::Bubble { .. })
        }),
        (8, Pattern::Always, throughput(), |f| {
            matches!(f, StreamFault::Bubble { .. })
        }),
        // Not by chance, but because the sink lets the beat wait for ever.
        (6, Pattern::AfterValid { clocks: 2 }, quiet(), |f| {
            matches!(f, StreamFault::ValidWaitsForReady)
        }),
    ];
    for (fault, stalls, checks, expected) in cases {
        let error = broken(fault, 37, stalls, checks);
        assert!(expected(stream_fault(&error)), "fault {fault}: {error}");
        assert!(error.to_string().starts_with("m_axis, cycle "), "{error}");
    }
    // A tvalid that waits for tready through a register.
    let error = broken(11, 37, Pattern::AfterValid { clocks: 1 }, plain());
    assert!(
        matches!(stream_fault(&error), StreamFault::ValidWaitsForReady),
        "{error}"
    );
    // No tlast: what came is no frame, and the run says so.
    let error = broken(9, 40, Pattern::Always, plain());
    assert!(
        error
            .to_string()
            .contains("0 of 40 frame(s) received, 1600 byte(s) of the next"),
        "{error}"
    );
}

#[test]
fn a_hang_shows_every_stream() {
    if !have_verilator() {
        return;
    }
    let error = broken(10, 37, Pattern::Always, SinkChecks::default());
    let BenchError::Hang { clocks: 400, .. } = error else {
        panic!("{error}")
    };
    let text = error.to_string();
    assert!(
        text.contains("s_axis: offers a beat") && text.contains("tready=0"),
        "{text}"
    );
    assert!(
        text.contains("m_axis: tvalid=0, tready=1, 0 of 40 frame(s) received"),
        "{text}"
    );
}

#[test]
fn gaps_of_the_input_excuse_bubbles() {
    if !have_verilator() {
        return;
    }
    let mut simulation = Simulation::new(&model("skid_buffer"), 1);
    let checks = SinkChecks {
        no_bubble_while: vec!["s_axis".into()],
        ..SinkChecks::default()
    };
    let gaps = Pattern::Bursts { on: 3, off: 2 };
    let stimulus = Stimulus::default()
        .source("s_axis", gaps, frames(10, 200))
        .sink("m_axis", Pattern::Always, checks);
    run(&mut simulation, &stimulus, Limits::default()).unwrap();
}

#[test]
fn frames_and_patterns_that_cannot_be_driven_are_refused() {
    if !have_verilator() {
        return;
    }
    let mut fifo = Simulation::new(&model("fifo"), 1);
    let mut skid = Simulation::new(&model("skid_buffer"), 1);
    let with = |frame: Frame| Stimulus::default().source("s_axis", Pattern::Always, [frame]);
    let limits = Limits::default();
    let refused = |simulation: &mut Simulation, stimulus: &Stimulus, text: &str| {
        let message = run(simulation, stimulus, limits).expect_err(text).to_string();
        assert!(message.contains(text), "{message:?} should contain {text:?}");
    };
    refused(
        &mut fifo,
        &with(Frame::new([1, 2, 3, 4])),
        "frame 0: it has 4 bytes, but without tlast",
    );
    refused(&mut skid, &with(Frame::new([])), "no byte");
    refused(
        &mut skid,
        &with(Frame::with_user([1], 8)),
        "tuser 0x8 does not fit 3 bits",
    );
    let never = Stimulus::default().source("s_axis", Pattern::List(vec![false]), []);
    refused(&mut skid, &never, "at least one willing clock");
    refused(
        &mut skid,
        &Stimulus::default().source("s_axi", Pattern::Always, []),
        "no input s_axi_tdata",
    );
    refused(&mut skid, &Stimulus::default().input("speed", 1), "no input speed");
    let watch = SinkChecks {
        no_bubble_while: vec!["s_axis".into()],
        ..SinkChecks::default()
    };
    refused(
        &mut skid,
        &Stimulus::default().sink("m_axis", Pattern::Always, watch),
        "no source s_axis",
    );
}

#[test]
fn an_agent_answers_and_its_recording_needs_none() {
    if !have_verilator() {
        return;
    }
    let model = model("skid_buffer");
    let stimulus = Stimulus::default()
        .source("s_axis", Pattern::Random { chance: 99, seed: 5 }, frames(1, 20))
        .sink(
            "m_axis",
            Pattern::Random { chance: 150, seed: 6 },
            SinkChecks::default(),
        );
    // Sends back what came, one byte longer, until it has 30 bytes.
    let mut agent = |answer: &mut Answer<'_>, stream: &str, frame: &Received| {
        assert_eq!(stream, "m_axis");
        let mut data = frame.data.clone();
        data.push(data.len() as u8);
        if data.len() > 30 {
            return Ok(());
        }
        let again = Frame {
            data,
            user: frame.user,
            not_before: answer.cycle + 7,
        };
        answer.send("s_axis", again).map_err(|error| error.to_string())
    };
    let mut simulation = Simulation::new(&model, 1);
    let mut bench = Bench::new(&mut simulation, &stimulus, Limits::default()).unwrap();
    let outcome = bench.run(&mut agent).unwrap();
    let recorded = bench.recorded(&stimulus);
    assert_eq!(
        outcome
            .received("m_axis")
            .iter()
            .map(|frame| frame.data.len())
            .collect::<Vec<_>>(),
        (20..=30).collect::<Vec<_>>()
    );
    assert_eq!(
        run(&mut Simulation::new(&model, 9), &recorded, Limits::default()).unwrap(),
        outcome
    );

    let mut objecting = |_: &mut Answer<'_>, _: &str, _: &Received| Err("not this one".to_owned());
    let mut bench = Bench::new(&mut simulation, &stimulus, Limits::default()).unwrap();
    let message = bench.run(&mut objecting).unwrap_err().to_string();
    assert!(
        message.contains("not this one") && message.starts_with("cycle "),
        "{message}"
    );
}

#[test]
fn inputs_follow_their_schedule() {
    if !have_verilator() {
        return;
    }
    let mut simulation = Simulation::new(&model("widths"), 1);
    let stimulus = Stimulus::default()
        .input_at("in_64", 0, 100, 4)
        .input_at("in_64", 10, 7, 0)
        .input("in_8", 0x0f);
    let mut bench = Bench::new(&mut simulation, &stimulus, Limits::default()).unwrap();
    bench.run_clocks(5, &mut ()).unwrap();
    drop(bench);
    assert_eq!(simulation.get_by_name("out_64"), Ok(!116));
    assert_eq!(simulation.get_by_name("out_8"), Ok(0xf0));
    let mut bench = Bench::new(&mut simulation, &stimulus, Limits::default()).unwrap();
    bench.run_clocks(15, &mut ()).unwrap();
    drop(bench);
    assert_eq!(simulation.get_by_name("out_64"), Ok(!7));
}
