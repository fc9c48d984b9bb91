//! `spraynic fuzz`, and `spraynic replay` of what it saves: what holds, what is found where a NIC is spoiled, and what is refused.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use spraynic_network::scenario::Scenario;
use spraynic_network::trace::ScenarioTrace;
use support::spraynic_in;

/// The one trace in a directory.
#[track_caller]
fn only_file(directory: &Path) -> PathBuf {
    let files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let [file] = files.as_slice() else { panic!("{files:?}") };
    file.clone()
}

#[test]
fn scenarios_hold_and_are_the_same_for_the_same_seed_and_any_threads() {
    let place = tempfile::tempdir().unwrap();
    let run = |seed: &str, jobs: &str| {
        let arguments = ["fuzz", "--cases", "40", "--seed", seed, "--jobs", jobs, "--json"];
        let mut json: Value = serde_json::from_str(&spraynic_in(place.path(), &arguments).good()).unwrap();
        let fields = json.as_object_mut().unwrap();
        assert_eq!(
            (&fields["verdict"], &fields["scenarios"]),
            (&"holds".into(), &40.into())
        );
        for time in ["elapsed_seconds", "scenarios_per_second", "frames_per_second", "jobs"] {
            assert!(fields.remove(time).is_some(), "{time}");
        }
        json
    };
    let first = run("5", "1");
    assert_eq!(first, run("5", "3"));
    assert_ne!(first["frames"], run("6", "2")["frames"]);
    // It reaches what it is for.
    let reached = first["reached"].as_array().unwrap();
    let scenarios_of = |name: &str| {
        let row = reached
            .iter()
            .find(|row| row["name"] == name)
            .unwrap_or_else(|| panic!("{name}"));
        row["scenarios"].as_u64().unwrap()
    };
    for name in [
        "roce send",
        "solar write with immediate",
        "mrc write",
        "solar read",
        "solar compare swap",
        "policy adaptive",
        "policy reps",
        "frames lost",
        "frames lost on dead paths",
        "frames damaged",
        "frames repeated",
        "sent again",
        "timeouts",
        "rewinds",
        "SACKs taken",
    ] {
        assert!(scenarios_of(name) > 0, "{name} was never reached: {reached:#?}");
    }

    let text = spraynic_in(place.path(), &["fuzz", "--time", "100ms", "--lossless"]).good();
    assert!(text.starts_with("holds: two golden NICs (lab), seed 1: in "), "{text}");
    assert!(
        text.contains("nothing was sent twice") && text.contains(" a second\n"),
        "{text}"
    );
    let line = text.lines().find(|line| line.contains("sent again")).unwrap();
    assert!(line.ends_with(" 0"), "{line}");
    assert!(
        fs::read_dir(place.path()).unwrap().next().is_none(),
        "nothing is written"
    );
}

/// NIC 0 forgets some retransmissions: what the whole command is for.
#[test]
fn a_spoiled_nic_is_found_made_small_saved_and_replayed() {
    let place = tempfile::tempdir().unwrap();
    let spoiled = ["--sabotage", "forget-retransmissions"];
    let arguments = ["fuzz", "--cases", "400", "--out", "kept here", "--jobs", "2"];
    let run = spraynic_in(place.path(), &[&arguments[..], &spoiled].concat());
    assert_eq!((run.status, run.err.as_str()), (1, ""), "{run:?}");
    assert!(
        run.out.starts_with("FAILS: two golden NICs (lab), seed 1: scenario "),
        "{}",
        run.out
    );
    let file = only_file(&place.path().join("kept here"));
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(
        run.out
            .contains(&format!("run it again: spraynic replay 'kept here/{name}' --log")),
        "{}",
        run.out
    );
    // A few messages and a fault are enough, and that was found: there were up to 30 messages before.
    let trace = ScenarioTrace::load(&file).unwrap();
    assert!(trace.reason.contains("RetryExceeded"), "{}", trace.reason);
    assert!(run.out.contains(&trace.reason), "{}", run.out);
    assert!(trace.scenario.messages.len() <= 4, "{:?}", trace.scenario.messages);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.lines().count() < 80, "{text}");

    // The trace fails in the same way again, and shows it by time.
    let replay = ["replay", file.to_str().unwrap(), "--log", "--pcap", "nic0.pcap"];
    let again = spraynic_in(place.path(), &[&replay[..], &spoiled].concat());
    assert_eq!((again.status, again.err.as_str()), (1, ""), "{again:?}");
    assert!(
        again
            .out
            .starts_with(&format!("FAILS: golden NICs (lab)\n\n{}\n", trace.reason)),
        "{}",
        again.out
    );
    for part in [
        "host posts message 0",
        " psn ",
        "  --- ",
        "timeouts: +1",
        "RetryExceeded",
        "NIC 1 port 0        < ",
    ] {
        assert!(again.out.contains(part), "`{part}` is not in: {}", again.out);
    }
    let times = again
        .out
        .lines()
        .filter_map(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    assert!(times.is_sorted(), "{}", again.out);
    // What NIC 0 sent is a capture of valid frames.
    let decoded = spraynic_in(place.path(), &["decode", "nic0.pcap"]);
    assert!(
        decoded.out.lines().count() > 2 && decoded.out.contains("icrc ok"),
        "{decoded:?}"
    );
    let sent = again
        .out
        .lines()
        .filter(|line| line.contains(" NIC 0 port 0 path "))
        .count();
    let received = again
        .out
        .lines()
        .filter(|line| line.contains(" NIC 0 port 0        < "))
        .count();
    assert_eq!(decoded.out.lines().count(), sent + received);

    // A NIC that is right passes.
    let right = spraynic_in(place.path(), &["replay", file.to_str().unwrap()]).good();
    assert!(right.starts_with("passes: golden NICs (lab): "), "{right}");
    assert!(
        right.contains(&format!("It was saved because:\n{}", trace.reason)),
        "{right}"
    );
    let right = spraynic_in(place.path(), &["replay", file.to_str().unwrap(), "--log"]).good();
    assert!(right.contains(" AGAIN > "), "{right}");
}

#[test]
fn every_other_fault_is_found_too() {
    let place = tempfile::tempdir().unwrap();
    let faults: [(&[&str], &str); 3] = [
        (&["swap-bytes"], "is wrong (2 bytes differ)"),
        (&["lose-frames", "--lossless"], "packets again"),
        (&["panic"], "the model panicked: this NIC was to panic"),
    ];
    for (arguments, expected) in faults {
        let fuzz = ["fuzz", "--cases", "300", "--out", arguments[0], "--json", "--sabotage"];
        let run = spraynic_in(place.path(), &[&fuzz[..], arguments].concat());
        assert_eq!((run.status, run.err.as_str()), (1, ""), "{run:?}");
        let json: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(json["verdict"], "fails");
        let message = json["failure"]["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
        let file = only_file(&place.path().join(arguments[0]));
        let again = ["replay", file.to_str().unwrap(), "--json", "--sabotage", arguments[0]];
        let run = spraynic_in(place.path(), &again);
        assert_eq!((run.status, run.err.as_str()), (1, ""), "{run:?}");
        let json: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(json["message"].as_str(), Some(message));
    }
    // The hook is for those who know it.
    for command in ["fuzz", "replay"] {
        let help = spraynic_in(place.path(), &[command, "--help"]).good();
        assert!(!help.contains("sabotage"), "{help}");
    }
}

#[test]
fn wrong_arguments_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| spraynic_in(place.path(), &[&["fuzz"], arguments].concat());
    run(&["--time", "10"]).refused_with(2, &["--time", "is not a duration"]);
    run(&["--time", "0s"]).refused_with(2, &["no time at all"]);
    run(&["--cases", "0"]).refused_with(2, &["--cases"]);
    run(&["--jobs", "0"]).refused_with(2, &["--jobs"]);
    run(&["--seed", "-1"]).refused_with(2, &["--seed"]);
    run(&["--preset", "1t"]).refused_with(2, &["--preset", "lab"]);
    run(&["--set", "send.window=96"]).refused_with(2, &["send.window", "a power of two"]);
    run(&["--sabotage", "coffee"]).refused_with(2, &["--sabotage"]);
}

#[test]
fn scenarios_that_cannot_run_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("trace.json");
    type Spoil = fn(&mut Scenario);
    let cases: [(Spoil, &str); 9] = [
        (|scenario| scenario.preset = "1t".into(), "no preset `1t`"),
        (
            |scenario| scenario.overrides.push("send.window=5".into()),
            "send.window",
        ),
        (|scenario| scenario.paths.clear(), "it has no path"),
        (|scenario| scenario.nics = usize::MAX, "nics"),
        (|scenario| scenario.port_mbps = 0, "port_mbps"),
        (|scenario| scenario.limit_ns = u64::MAX, "limit_ns"),
        (|scenario| scenario.paths[0].delay_ns = u64::MAX, "delay_ns"),
        (|scenario| scenario.queue_pairs[0].psn[0] = 1 << 24, "psn"),
        (|scenario| scenario.values_per_path = usize::MAX, "values_per_path"),
    ];
    for (spoil, part) in cases {
        let mut scenario = Scenario::default();
        spoil(&mut scenario);
        let trace = ScenarioTrace::new(Default::default(), scenario, String::new());
        trace
            .save_in(place.path())
            .map(|path| fs::rename(path, &file))
            .unwrap()
            .unwrap();
        spraynic_in(place.path(), &["replay", "trace.json"])
            .refused_with(2, &["trace.json: ", "scenario is wrong", part]);
    }
    let whole = ScenarioTrace::new(Default::default(), Scenario::default(), String::new());
    whole
        .save_in(place.path())
        .map(|path| fs::rename(path, &file))
        .unwrap()
        .unwrap();
    spraynic_in(place.path(), &["replay", "trace.json"]).good();
    let replay = |more: &[&str]| spraynic_in(place.path(), &[&["replay", "trace.json"], more].concat());
    replay(&["--wave", "x.fst"]).refused_with(2, &["golden NICs", "no waveform"]);
    replay(&["--pcap", "none/x.pcap"]).refused_with(1, &["none/x.pcap", "cannot create the capture"]);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("\"kind\": \"scenario\"", "\"kind\": \"opera\"")).unwrap();
    replay(&[]).refused_with(2, &["traces of kind `opera` are not known"]);
    fs::write(&file, &text[..text.len() / 2]).unwrap();
    replay(&[]).refused_with(2, &["trace.json is not a trace"]);
    fs::write(&file, text.replace("\"messages\"", "\"letters\"")).unwrap();
    replay(&[]).refused_with(2, &["trace.json is not a trace", "letters"]);
}

/// The generated NIC talks to the golden one, in scenarios of `fuzz` and in traces.
#[test]
fn verilated_nics_take_part() {
    if let Err(error) = spraynic_cosim::Verilator::find() {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci.is_empty()), "{error}");
        eprintln!("skipped: {error}");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    // The configuration of the tests of cosim, so that the model is there already.
    let mut arguments = vec!["fuzz", "--longest", "3000", "--jobs", "1"];
    for setting in [
        "paths.ports=2",
        "paths.entries=32",
        "datapath.port_mbps=5000",
        "queue_pairs.count=8",
        "send.queue_pairs=8",
        "receive.reorder_queue_pairs=8",
        "receive.memory_regions=8",
    ] {
        arguments.extend(["--set", setting]);
    }
    let mixed = ["--nics", "golden,verilated"];
    let held = spraynic_in(place.path(), &[&arguments[..], &mixed, &["--cases", "2"]].concat()).good();
    assert!(
        held.starts_with("holds: two NICs (golden, verilated) (lab ") && held.contains("in 2 scenarios every message"),
        "{held}"
    );

    // A trace that was found with golden NICs.
    let spoiled = ["--sabotage", "swap-bytes"];
    let out = ["--cases", "20", "--out", "kept"];
    let found = spraynic_in(place.path(), &[&arguments[..], &out, &spoiled].concat());
    assert_eq!(found.status, 1, "{found:?}");
    let file = only_file(&place.path().join("kept"));
    let replay = [&["replay", file.to_str().unwrap()], &mixed[..]].concat();
    let again = spraynic_in(place.path(), &[&replay[..], &spoiled].concat());
    assert!(
        again.status == 1 && again.out.starts_with("FAILS: NICs (golden, verilated) (lab "),
        "{again:?}"
    );
    let right = spraynic_in(place.path(), &replay).good();
    assert!(right.starts_with("passes: NICs (golden, verilated) (lab "), "{right}");
    spraynic_in(place.path(), &["replay", file.to_str().unwrap(), "--nics", "verilator"])
        .refused_with(2, &["verilator", "golden, verilated"]);
}

#[test]
fn coverage_of_golden_nics_is_refused_before_anything_is_written() {
    let place = tempfile::tempdir().unwrap();
    spraynic_in(place.path(), &["fuzz", "--coverage", "reached"]).refused_with(2, &["--nics verilated,golden"]);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}
