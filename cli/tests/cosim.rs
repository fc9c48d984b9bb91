//! `spraynic cosim` and `spraynic replay`: what is equal, what is found where the Verilog is damaged, and what is said where nothing can run.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use spraynic_config::{NicConfig, Preset};
use spraynic_cosim::{
    Case, Expectation, Format, Frame, Pattern, SinkChecks, Stimulus, TRACE_VERSION, Trace, Verilator,
};
use support::{Run, spraynic_in};

/// False, with a message, when there is no Verilator; where CI is set, that is a failure.
fn have_verilator() -> bool {
    match Verilator::find() {
        Ok(_) => true,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci.is_empty()), "{error}");
            eprintln!("skipped: {error}");
            false
        }
    }
}

/// Runs `spraynic` in `directory` with these variables of the environment.
fn spraynic_with(directory: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_spraynic"))
        .args(arguments)
        .envs(variables.iter().copied())
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Run {
        status: output.status.code().expect("ended by a signal"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A run of the `lab` preset's skid_buffer that passes.
fn trace() -> Trace {
    let frames = [Frame::new([1; 70]), Frame::new([2; 3])];
    let stimulus = Stimulus::default()
        .source("s_axis", Pattern::Bursts { on: 1, off: 2 }, frames.clone())
        .sink("m_axis", Pattern::Random { chance: 80, seed: 4 }, SinkChecks::default());
    let expectation = Expectation::default().stream("m_axis", Format::Bytes, frames);
    let config = NicConfig::preset(Preset::Lab).to_commented_toml();
    let reason = "it was Monday".to_owned();
    Trace::new("skid_buffer", &config, 1, Case { stimulus, expectation }, reason)
}

/// A directory with a trace in it.
fn place(change: impl FnOnce(&mut Trace)) -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("trace.json");
    let mut trace = trace();
    change(&mut trace);
    trace.save(&file).unwrap();
    (place, file)
}

#[test]
fn packets_are_equal_and_the_same_for_the_same_seed() {
    if !have_verilator() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let run = |seed: &str| {
        let arguments = ["cosim", "--preset", "lab", "--packets", "60", "--json", "--seed", seed];
        let mut json: Value = serde_json::from_str(&spraynic_in(place.path(), &arguments).good()).unwrap();
        let fields = json.as_object_mut().unwrap();
        assert_eq!(fields["verdict"], "equal");
        let packets = fields["packets"].as_u64().unwrap();
        let forwarded = fields["counters"]["frame_fifo_forwarded"].as_u64().unwrap();
        assert!(packets >= 60 && forwarded > 0 && forwarded <= packets, "{fields:?}");
        assert!(fields["bytes"].as_u64().unwrap() >= packets * 42);
        for time in ["simulating_seconds", "clocks_per_second", "model"] {
            assert!(fields.remove(time).is_some(), "{time}");
        }
        json
    };
    let first = run("5");
    assert_eq!(first, run("5"));
    assert_ne!(first["bytes"], run("6")["bytes"]);

    let text = spraynic_in(
        place.path(),
        &["cosim", "--preset", "lab", "--packets", "1", "--seed", "5"],
    )
    .good();
    assert!(
        text.starts_with("equal: transmit_pipeline_w64 (lab), seed 5: all "),
        "{text}"
    );
    assert!(text.contains("\nmodel      from the cache\n"), "{text}");
    assert!(
        fs::read_dir(place.path()).unwrap().next().is_none(),
        "nothing is written"
    );
}

/// A Verilator that flips a bit in each frame whose last beat has 4 bytes: what the whole command is for.
#[cfg(unix)]
#[test]
fn damage_in_the_verilog_is_found_made_small_saved_and_replayed() {
    use std::os::unix::fs::PermissionsExt as _;
    if !have_verilator() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let real = Verilator::find().unwrap();
    let damaging = place.path().join("verilator");
    let program = place.path().join("damage.sed");
    let damage = "s/assign m_axis_tdata = \\(.*\\);/\
                  assign m_axis_tdata = \\1 ^ {63'd0, m_axis_tlast \\& m_axis_tkeep[3] \\& ~m_axis_tkeep[4]};/";
    fs::write(&program, damage).unwrap();
    let script = format!(
        "#!/bin/sh\n\
         export VERILATOR_ROOT='{}'\n\
         if [ \"$1\" = --getenv ]; then echo \"$VERILATOR_ROOT\"; exit; fi\n\
         file=$(find . -name transmit_pipeline_w64.v)\n\
         sed -i -f '{}' $file && grep -q 'm_axis_tlast & m_axis_tkeep' $file || exit 3\n\
         exec '{}' \"$@\"\n",
        real.root.display(),
        program.display(),
        real.program.display()
    );
    fs::write(&damaging, script).unwrap();
    fs::set_permissions(&damaging, fs::Permissions::from_mode(0o755)).unwrap();
    let cache = place.path().join("cache");
    let damaged = [
        ("SPRAYNIC_VERILATOR", damaging.to_str().unwrap()),
        ("SPRAYNIC_CACHE", cache.to_str().unwrap()),
    ];

    let arguments = ["cosim", "--preset", "lab", "--packets", "500", "--keep", "kept here"];
    let run = spraynic_with(place.path(), &arguments, &damaged);
    assert_eq!((run.status, run.err.as_str()), (1, ""), "{run:?}");
    assert!(
        run.out.starts_with("DIFFERENT: transmit_pipeline_w64 (lab), seed 1"),
        "{}",
        run.out
    );
    // The first wrong frame, both versions, field by field.
    assert!(
        run.out.contains("m_axis frame ") && run.out.contains("* marks what differs"),
        "{}",
        run.out
    );
    assert!(run.out.contains("\n  * "), "{}", run.out);
    assert!(!run.out.contains("did not fail in the same way"), "{}", run.out);
    let file = fs::read_dir(place.path().join("kept here"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(
        run.out
            .contains(&format!("run it again: spraynic replay 'kept here/{name}' --wave")),
        "{}",
        run.out
    );
    // One frame is enough, and that was found.
    let trace = Trace::load(&file).unwrap();
    let frames = trace.case.expectation.streams[0].frames.len();
    assert_eq!(frames, 1, "frames after shrinking");

    // The recorded run fails in the same way without the agent, and passes when the Verilog is right.
    let arguments = ["replay", file.to_str().unwrap()];
    let again = spraynic_with(place.path(), &arguments, &damaged);
    assert_eq!(again.status, 1, "{again:?}");
    assert!(again.out.contains(trace.reason.trim_end()), "{}", again.out);
    let right = spraynic_in(place.path(), &arguments).good();
    assert!(right.starts_with("passes: transmit_pipeline_w64 (lab)"), "{right}");
}

#[test]
fn a_trace_passes_or_fails_and_shows_where() {
    if !have_verilator() {
        return;
    }
    let (place, file) = place(|_| {});
    let text = spraynic_in(place.path(), &["replay", "trace.json"]).good();
    assert!(
        text.starts_with("passes: axi_skid_buffer_w64_u1 (lab): 2 frames in "),
        "{text}"
    );
    assert!(text.ends_with("saved because:\nit was Monday\n"), "{text}");

    let mut wrong = trace();
    wrong.case.expectation.streams[0].frames[1].data[2] = 9;
    wrong.save(&file).unwrap();
    let run = spraynic_in(place.path(), &["replay", "trace.json", "--wave", "run.fst"]);
    assert_eq!((run.status, run.err.as_str()), (1, ""), "{run:?}");
    assert!(
        run.out
            .starts_with("FAILS: axi_skid_buffer_w64_u1 (lab)\n\nm_axis frame 1 is wrong"),
        "{}",
        run.out
    );
    assert!(run.out.contains("10 * (t + 4) ns"), "{}", run.out);
    let written = ["run.fst", "run.vcd"]
        .map(|name| place.path().join(name))
        .into_iter()
        .find(|path| path.exists());
    assert!(fs::metadata(written.unwrap()).unwrap().len() > 300);

    let run = spraynic_in(place.path(), &["replay", "trace.json", "--json"]);
    let json: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(
        (run.status, &json["verdict"], &json["block"]),
        (1, &"fails".into(), &"skid_buffer".into())
    );
    assert!(json["message"].as_str().unwrap().contains("m_axis frame 1"));

    spraynic_in(place.path(), &["replay", "trace.json", "--wave", "none/run.fst"])
        .refused_with(1, &["none/run", "cannot be created"]);
}

#[test]
fn files_that_are_no_traces_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("trace.json");
    let run = || spraynic_in(place.path(), &["replay", "trace.json"]);
    run().refused_with(1, &["cannot read the trace trace.json", "No such file"]);
    trace().save(&file).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    for cut in [0, 1, text.len() / 3, text.len() - 2] {
        fs::write(&file, &text[..cut]).unwrap();
        run().refused_with(2, &["trace.json is not a trace", "line"]);
    }
    for garbage in [
        &b"\xff\xfe\x00garbage"[..],
        b"[]",
        b"{}",
        b"null",
        b"{\"version\": -1}",
        b"{\"version\": 1}",
    ] {
        fs::write(&file, garbage).unwrap();
        run().refused_with(2, &["trace.json is not a trace"]);
    }
    let foreign = text.replace(&format!("\"version\": {TRACE_VERSION}"), "\"version\": 99");
    fs::write(&file, foreign).unwrap();
    run().refused_with(2, &["a trace of version 99", "this program reads version 1"]);
}

#[test]
fn traces_that_name_what_is_not_there_are_refused() {
    type Spoil = fn(&mut Trace);
    let cases: [(Spoil, i32, &[&str]); 5] = [
        (
            |trace| trace.block = "flux".into(),
            2,
            &["trace.json: no such block `flux`", "packet_slicer"],
        ),
        (
            |trace| trace.config.clear(),
            2,
            &["trace.json: it does not say from which configuration", "empty"],
        ),
        (
            |trace| trace.config = "width = 8".into(),
            2,
            &["the configuration in trace.json", "width"],
        ),
        (
            |trace| trace.config = "[datapath]\nwidth_bits = 96".into(),
            2,
            &["one of 64, 128"],
        ),
        (
            |trace| trace.config = "]".into(),
            2,
            &["the configuration in trace.json"],
        ),
    ];
    for (spoil, status, parts) in cases {
        let (place, _) = place(spoil);
        spraynic_in(place.path(), &["replay", "trace.json"]).refused_with(status, parts);
    }
    if !have_verilator() {
        return;
    }
    let misfits: [(Spoil, &[&str]); 3] = [
        (
            |trace| trace.case.stimulus.sources[0].stream = "s_axis_x".into(),
            &["does not fit", "s_axis_x"],
        ),
        (
            |trace| trace.case.expectation.streams[0].stream = "m_axis_x".into(),
            &["does not fit", "m_axis_x"],
        ),
        (
            |trace| trace.case.stimulus.sources[0].frames[0].data.clear(),
            &["does not fit", "s_axis"],
        ),
    ];
    for (spoil, parts) in misfits {
        let (place, _) = place(spoil);
        spraynic_in(place.path(), &["replay", "trace.json"]).refused_with(2, parts);
    }
    // Numbers that would never come to an end.
    let (place, _) = place(|trace| trace.case.stimulus.reset_clocks = u64::MAX);
    let run = spraynic_in(place.path(), &["replay", "trace.json"]);
    assert_eq!(run.status, 1, "{run:?}");
    assert!(
        run.out.contains("the reset alone takes 18446744073709551615 clocks"),
        "{}",
        run.out
    );
}

#[test]
fn a_missing_or_failing_tool_is_named() {
    let (place, _) = place(|_| {});
    let commands: [&[&str]; 2] = [
        &["cosim", "--preset", "lab", "--packets", "1"],
        &["replay", "trace.json"],
    ];
    for arguments in commands {
        let run = |variables: &[(&str, &str)]| spraynic_with(place.path(), arguments, variables);
        run(&[("SPRAYNIC_VERILATOR", "/nonexistent")])
            .refused_with(2, &["/nonexistent", "apt-get install verilator", "SPRAYNIC_VERILATOR"]);
        if !have_verilator() {
            return;
        }
        run(&[("CXX", "/nonexistent/c++")]).refused_with(
            2,
            &["the C++ compiler /nonexistent/c++ was not found", "apt-get install g++"],
        );
        let cache = place.path().join("cache");
        let failing = [("CXX", "/bin/false"), ("SPRAYNIC_CACHE", cache.to_str().unwrap())];
        run(&failing).refused_with(1, &["/bin/false failed"]);
    }
}

#[test]
fn wrong_arguments_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| spraynic_in(place.path(), &[&["cosim"], arguments].concat());
    run(&["--packets", "0"]).refused_with(2, &["--packets"]);
    run(&["--seed", "-1"]).refused_with(2, &["--seed"]);
    run(&["--block", "flux"]).refused_with(2, &["no such block `flux`", "transmit_pipeline"]);
    run(&["--block", "icrc"]).refused_with(2, &["cosim runs transmit_pipeline", "cargo test -p spraynic-cosim"]);
    run(&["--set", "datapath.width_bits=96"]).refused_with(2, &["one of 64, 128, 256, 512, 1024"]);
}
