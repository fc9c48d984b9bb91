//! Properties: they hold where they should, and a failure comes small, saved and ready to be run again.

mod common;

use std::path::PathBuf;

use common::{have_verilator, source};
use proptest::prelude::*;
use spraynic_cosim::{
    Answer, Builder, Case, Expectation, Format, Frame, ModelSource, Pattern, Property, PropertyError, Received,
    SharedModel, SinkChecks, Stimulus, Trace, Trial, replay,
};

fn careless() -> ModelSource {
    source("careless")
}

static CARELESS: SharedModel = SharedModel::new(careless);

type Input = (Vec<Vec<u8>>, Pattern, Pattern);

fn inputs() -> impl Strategy<Value = Input> {
    let frames = prop::collection::vec(prop::collection::vec(any::<u8>(), 1..60), 0..12);
    (frames, Pattern::strategy(), Pattern::strategy())
}

fn case(fault: u64, (data, gaps, stalls): &Input) -> Case {
    let frames: Vec<Frame> = data.iter().map(|bytes| Frame::new(bytes.clone())).collect();
    let beats: usize = data.iter().map(|bytes| bytes.len().div_ceil(4)).sum();
    Case {
        stimulus: Stimulus::default()
            .input("fault", fault)
            .source("s_axis", gaps.clone(), frames.clone())
            .sink("m_axis", stalls.clone(), SinkChecks::default()),
        expectation: Expectation::default()
            .stream("m_axis", Format::Bytes, frames)
            .counter("beats", beats as u64),
    }
}

fn property(failures: &std::path::Path) -> Property<'static> {
    Property::new("careless", &CARELESS).cases(400).places(failures, None)
}

#[test]
fn a_property_that_holds_is_accepted() -> Result<(), PropertyError> {
    Property::new("careless", &CARELESS)
        .cases(100)
        .check(inputs(), |input| case(0, input))
}

#[test]
fn a_failure_is_shrunk_saved_and_fails_again() {
    if !have_verilator() {
        return;
    }
    let failures = tempfile::tempdir().unwrap();
    let error = property(failures.path())
        .config("fault = 1")
        .check(inputs(), |input| case(1, input));
    let message = error.expect_err("fault 1").to_string();
    assert!(message.contains("m_axis frame 0 is wrong"), "{message}");
    let input = message
        .lines()
        .find_map(|line| line.strip_prefix("input: "))
        .unwrap_or_else(|| panic!("{message}"));
    assert!(
        input.starts_with("([[") && input.ends_with(" 167]], Always, Always)"),
        "one frame, no gaps: {input}"
    );
    assert!(!input.contains("], ["), "one frame: {input}");
    let file = message
        .lines()
        .find_map(|line| line.strip_prefix("run it again: spraynic replay "));
    let path = PathBuf::from(file.unwrap_or_else(|| panic!("{message}")));
    let trace = Trace::load(&path).unwrap();
    assert_eq!((trace.block.as_str(), trace.config.as_str()), ("careless", "fault = 1"));
    let again = replay(&trace, &careless(), &Builder::new(), Default::default(), None).unwrap();
    let again = again.result.expect_err("it fails again").to_string();
    assert_eq!(again, trace.reason);
}

#[test]
fn what_reset_does_not_clear_is_found() {
    if !have_verilator() {
        return;
    }
    let failures = tempfile::tempdir().unwrap();
    let error = property(failures.path()).check(inputs(), |input| {
        let mut case = case(2, input);
        case.expectation.counters.clear();
        case
    });
    let message = error.expect_err("fault 2").to_string();
    assert!(
        message.contains("a reset in the middle does not clear the model"),
        "{message}"
    );
    let error = property(failures.path()).check(inputs(), |input| case(3, input));
    let message = error.expect_err("fault 3").to_string();
    assert!(message.contains("counter beats"), "{message}");
}

#[test]
fn agents_and_judges_take_part() {
    if !have_verilator() {
        return;
    }
    let failures = tempfile::tempdir().unwrap();
    // Each frame longer than one byte comes back one byte shorter.
    let agent = || {
        |answer: &mut Answer<'_>, _: &str, frame: &Received| match &frame.data[1..] {
            [] => Ok(()),
            rest => answer
                .send("s_axis", Frame::new(rest))
                .map_err(|error| error.to_string()),
        }
    };
    let start = |(length, gaps): &(usize, Pattern)| {
        let bytes: Vec<u8> = (0..*length as u8).collect();
        let frames = (0..*length).map(|skip| Frame::new(&bytes[skip..])).collect::<Vec<_>>();
        Case {
            stimulus: Stimulus::default().source("s_axis", gaps.clone(), [Frame::new(bytes.clone())]),
            expectation: Expectation::default().stream("m_axis", Format::Bytes, frames),
        }
    };
    let strategy = || (1..20usize, Pattern::strategy());
    property(failures.path())
        .check_trials(strategy(), |input| Trial::with_agent(start(input), agent()))
        .unwrap();

    let error = property(failures.path()).check_trials(strategy(), |input| {
        Trial::with_agent(start(input), agent()).judged(|outcome| match outcome.received("m_axis").len() {
            5.. => Err("five are too many".into()),
            _ => Ok(()),
        })
    });
    let message = error.expect_err("the judge objects").to_string();
    assert!(
        message.contains("five are too many") && message.contains("input: (5, Always)"),
        "{message}"
    );
    // The trace has the agent's answers in it.
    let file = message.lines().find_map(|line| line.strip_prefix("trace: ")).unwrap();
    let trace = Trace::load(file.as_ref()).unwrap();
    assert_eq!(trace.case.stimulus.sources[0].frames.len(), 5);
    let again = replay(&trace, &careless(), &Builder::new(), Default::default(), None).unwrap();
    assert_eq!(again.result.unwrap().received("m_axis").len(), 5);
}
