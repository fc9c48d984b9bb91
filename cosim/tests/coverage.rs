//! Coverage: a line counts when it is executed and only then, counts of runs add up, and the report names what never was with its place in Rust.

mod common;

use std::sync::Arc;

use common::have_verilator;
use spraynic_cosim::coverage::{self, Kind, Report};
use spraynic_cosim::{Builder, Coverage, Model, ModelSource, Simulation};
use spraynic_network::check::{Good, Property};
use spraynic_network::fuzz::Campaign;
use spraynic_network::fuzz::guided::{Guided, Outcome, Subject, Trial};
use spraynic_network::strategy::Base;
use spraynic_network::{PathCounters, Report as RunReport, Scenario};
use spraynic_rtl::Context;

/// An arbiter of two: its one register is written in reset, and when a grant is used.
fn arbiter() -> Arc<Model> {
    let context = Context::new();
    let definition = spraynic_hdl::round_robin_arbiter::round_robin_arbiter(&context, 2);
    let source = ModelSource::from_definition(definition);
    let model = Builder::new().coverage(true).build(&source);
    model.unwrap_or_else(|error| panic!("{error}"))
}

/// So many clocks of reset, then so many of request 0 with `advance` or without.
fn run(model: &Arc<Model>, reset: u64, clocks: u64, advance: u64) -> Coverage {
    let mut simulation = Simulation::new(model, 1);
    simulation.reset(reset).expect("a reset");
    simulation.set_by_name("request", 1).expect("the requests");
    simulation.set_by_name("advance", advance).expect("the grant is used");
    simulation.run(clocks).expect("clocks");
    simulation.coverage()
}

/// The place of a point among those of the model, by its line's text and its kind.
fn point(model: &Model, coverage: &Coverage, text: &str, kind: Kind) -> usize {
    let report = model.coverage_report(&model.coverage());
    let unreached = report.files.iter().flat_map(|file| &file.unreached);
    let lines: Vec<u32> = unreached
        .filter(|point| point.text.contains(text))
        .map(|point| point.line)
        .collect();
    let mut places = coverage.points().iter().enumerate();
    let found = places.find(|(_, point)| point.kind == kind && lines.contains(&point.line));
    found
        .unwrap_or_else(|| panic!("no {kind:?} at {text:?} in {:?}", coverage.points()))
        .0
}

#[test]
fn a_line_counts_in_the_clocks_that_execute_it() {
    if !have_verilator() {
        return;
    }
    let model = arbiter();
    assert_eq!(model.coverage().reached(), 0);
    let idle = run(&model, 3, 5, 0);
    let used = run(&model, 3, 4, 1);
    let reset = point(&model, &idle, "if (rst) begin", Kind::Then);
    let advances = point(&model, &idle, "else if (advance & granted)", Kind::Then);
    let stays = point(&model, &idle, "else if (advance & granted)", Kind::Else);
    let counts = |coverage: &Coverage| [reset, advances, stays].map(|place| coverage.counts()[place]);
    assert_eq!(counts(&idle), [3, 0, 5]);
    assert_eq!(counts(&used), [3, 4, 0]);
    assert_eq!(used.new_points(&idle), [advances]);
    assert_eq!(idle.new_points(&used), [stays]);
    assert_eq!(used.points()[advances].module, "round_robin_arbiter_n2");

    let mut both = idle.clone();
    both.merge(&used).expect("the same model");
    assert_eq!(counts(&both), [6, 4, 5]);
    assert_eq!(both.reached(), idle.reached() + 1);
    assert_eq!(used.new_points(&both), [0usize; 0]);
}

#[test]
fn the_report_names_what_was_never_reached_and_where_it_comes_from() {
    if !have_verilator() {
        return;
    }
    let model = arbiter();
    let idle = model.coverage_report(&run(&model, 3, 5, 0));
    let [file] = idle.files.as_slice() else {
        panic!("{idle:?}")
    };
    assert_eq!(file.file, "round_robin_arbiter_n2.v");
    let source = std::fs::read_to_string("../hdl/src/round_robin_arbiter.rs").expect("the source");
    let line_of = |text: &str| 1 + source.lines().position(|line| line.contains(text)).expect(text);
    // Only what a grant that is used would have written.
    let [never] = file.unreached.as_slice() else {
        panic!("{file:?}")
    };
    assert_eq!(never.text, "end else if (advance & granted) begin");
    assert_eq!(
        (never.kind, never.assigns.as_deref()),
        (Kind::Then, Some("behind_last"))
    );
    let place = format!("hdl/src/round_robin_arbiter.rs:{}", line_of(".reg(\"behind_last\""));
    assert_eq!(never.source.as_deref(), Some(place.as_str()));
    assert_eq!(never.lines, [never.line, never.line + 1]);
    assert_eq!(
        (file.lines - file.lines_reached, file.points - file.points_reached),
        (2, 1)
    );
    let text = idle.to_string();
    for expected in ["Never reached:", "never true", "advance & granted", &place] {
        assert!(text.contains(expected), "{expected:?} is missing:\n{text}");
    }
    // It survives its file.
    let json = serde_json::to_string(&idle).expect("JSON");
    assert_eq!(serde_json::from_str::<Report>(&json).expect("the report"), idle);

    // A state that no stimulus can hide: all is reached when both are run.
    let mut all = run(&model, 3, 5, 0);
    all.merge(&run(&model, 3, 4, 1)).expect("the same model");
    let report = model.coverage_report(&all);
    assert_eq!(
        (report.points_reached, report.lines_reached),
        (report.points, report.lines)
    );
    assert!(!report.to_string().contains("Never reached"), "{report}");
}

#[test]
fn runs_are_collected_from_models_that_end_inside_and_from_no_others() {
    if !have_verilator() {
        return;
    }
    let model = arbiter();
    let (_, collected) = coverage::collect(&model, || {
        run(&model, 3, 5, 0);
        // One of another thread, and one that somebody else collects.
        std::thread::scope(|scope| scope.spawn(|| run(&model, 3, 5, 1)).join().expect("a run"));
        let (_, inner) = coverage::collect(&model, || run(&model, 3, 7, 1));
        assert_eq!(inner, run(&model, 3, 7, 1));
        run(&model, 2, 1, 0)
    });
    let mut expected = run(&model, 3, 5, 0);
    expected.merge(&run(&model, 3, 7, 1)).expect("the same model");
    expected.merge(&run(&model, 2, 1, 0)).expect("the same model");
    assert_eq!(collected, expected);

    // Without coverage there is nothing to collect, and nothing to report.
    let plain = common::model("skid_buffer");
    let (_, nothing) = coverage::collect(&plain, || Simulation::new(&plain, 1).reset(2));
    assert!(nothing.points().is_empty());
    assert!(Simulation::new(&plain, 1).coverage().points().is_empty());
    let other = Coverage::merge(&mut model.coverage(), &nothing);
    assert!(other.is_err());
}

/// The messages of a scenario, each a symbol of 0 to 9 for a lock of Verilog: what it asks for, and from which side.
struct Lock(Arc<Model>);

impl Subject for Lock {
    fn points(&self) -> usize {
        self.0.coverage().points().len()
    }

    fn run(&self, scenario: &Scenario, _: Property) -> Trial {
        let mut simulation = Simulation::new(&self.0, 1);
        simulation.reset(2).expect("a reset");
        for message in &scenario.messages {
            let symbol = message.operation as u64 * 2 + message.side as u64;
            simulation.set_by_name("symbol", symbol).expect("a symbol");
            simulation.step().expect("a clock");
        }
        Trial {
            counts: simulation.coverage().counts().to_vec(),
            result: Ok(Good {
                report: RunReport::default(),
                paths: PathCounters::default(),
                activity: Vec::new(),
            }),
        }
    }
}

/// Lines as feedback lead where chance does not come, and what no scenario can reach is named: the last symbol is none of a message.
#[test]
fn scenarios_that_learn_from_lines_open_a_lock_as_far_as_it_can_be_opened() {
    if !have_verilator() {
        return;
    }
    let model = Builder::new().coverage(true).build(&common::source("lock"));
    let model = model.unwrap_or_else(|error| panic!("{error}"));
    let campaign = |learn| -> Outcome {
        let guided = Guided {
            campaign: Campaign {
                base: Base::new("lab", &[], 1_000).expect("preset lab"),
                property: Property::Delivery,
                seed: 1,
                cases: Some(1_500),
                time: None,
                jobs: 2,
            },
            first_case: 0,
            learn,
        };
        guided.run(&Lock(Arc::clone(&model)), Vec::new(), &mut |_| {})
    };
    let unreached = |outcome: &Outcome| -> Vec<String> {
        let report = model.coverage_report(&model.coverage().with_counts(&outcome.counts));
        let points = report.files.into_iter().flat_map(|file| file.unreached);
        points
            .map(|point| format!("{} {}", point.text, point.kind.never()))
            .collect()
    };
    let (chance, learned) = (campaign(false), campaign(true));
    println!("by chance {:?}, learned {:?}", unreached(&chance), unreached(&learned));
    let last = "else if (depth == 3'd5 && symbol == 4'd15) never true";
    assert_eq!(unreached(&learned), [last]);
    assert!(unreached(&chance).len() > 1, "chance opens it too: {:?}", chance.growth);
    assert!(learned.corpus.len() >= 3, "{:?}", learned.growth);
}
