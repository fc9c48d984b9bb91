//! Builds: what the cache does, which errors come out, what the options give.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{have_verilator, source};
use spraynic_cosim::{
    BuildError, Builder, Case, Expectation, Format, Frame, LintError, ModelSource, Pattern, Port, Simulation,
    SinkChecks, Stimulus, ToolError, Trace, TraceError, Waveform, lint, replay,
};

fn small(top: &str) -> ModelSource {
    let text = format!(
        "module {top}(input wire clk, input wire rst, input wire [7:0] a, output reg [7:0] y);\n\
         always @(posedge clk) if (rst) y <= 8'd0; else y <= a + 8'd1;\nendmodule\n"
    );
    ModelSource {
        top: top.into(),
        files: vec![(format!("{top}.v"), text)],
        ports: vec![
            Port::input("clk", 1),
            Port::input("rst", 1),
            Port::input("a", 8),
            Port::output("y", 8),
        ],
    }
}

fn works(builder: &Builder, source: &ModelSource) -> PathBuf {
    let model = builder.build(source).unwrap_or_else(|error| panic!("{error}"));
    let mut simulation = Simulation::new(&model, 1);
    simulation.reset(2).unwrap();
    simulation.set_by_name("a", 41).unwrap();
    simulation.run(2).unwrap();
    assert_eq!(simulation.get_by_name("y"), Ok(42));
    model.directory().to_path_buf()
}

/// Brings the compiled runtime of the usual cache into another one: compiling it takes most of the time of a test.
fn share_runtime(cache: &Path) {
    let usual = works(&Builder::new(), &small("usual"));
    copy_directory(&usual.join("../../runtime"), &cache.join("runtime"));
}

fn libraries(cache: &Path) -> usize {
    fs::read_dir(cache.join("models")).map_or(0, Iterator::count)
}

#[test]
fn a_cache_is_filled_once_by_many_threads_and_survives_damage() {
    if !have_verilator() {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    share_runtime(cache.path());
    let builder = Builder::new().cache(cache.path());
    let source = small("shared");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| works(&builder, &source));
        }
    });
    assert_eq!(libraries(cache.path()), 1);
    assert_eq!(fs::read_dir(cache.path().join("building")).unwrap().count(), 0);

    let entry = works(&builder, &source);

    // A library cut in half, as after a crash of the machine, under a path that this process has not loaded.
    let other = small("damaged");
    let entry_of_other = builder.build(&other).unwrap().directory().to_path_buf();
    assert_ne!(entry, entry_of_other);
    let moved = tempfile::tempdir().unwrap();
    let copy = moved.path().join("cache");
    copy_directory(cache.path(), &copy);
    let library = copy
        .join(entry_of_other.strip_prefix(cache.path()).unwrap())
        .join("model.so");
    let bytes = fs::read(&library).unwrap();
    fs::write(&library, &bytes[..bytes.len() / 2]).unwrap();
    works(&Builder::new().cache(&copy), &other);
    assert_eq!(fs::read(&library).unwrap().len(), bytes.len());
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn options_and_sources_have_entries_of_their_own() {
    if !have_verilator() {
        return;
    }
    let source = small("keyed");
    let plain = Builder::new().build(&source).unwrap();
    let mut changed = source.clone();
    changed.files[0].1.push_str("// a comment\n");
    for other in [
        Builder::new().build(&changed).unwrap(),
        Builder::new().assertions(false).build(&source).unwrap(),
        Builder::new().random_initial(false).build(&source).unwrap(),
    ] {
        assert_ne!(plain.directory(), other.directory());
    }
    assert_eq!(plain.directory(), Builder::new().build(&source).unwrap().directory());
    // Nothing is left of the build but what is loaded.
    let mut left: Vec<_> = fs::read_dir(plain.directory())
        .unwrap()
        .map(|file| file.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["manifest.json", "model.so", "ports.json"]);
}

#[test]
fn errors_in_verilog_name_file_and_line() {
    if !have_verilator() {
        return;
    }
    let syntax = ModelSource::from_verilog("wrong", "module wrong(input wire clk);\n  assign x 1;\nendmodule\n");
    let error = Builder::new().build(&syntax).expect_err("a syntax error");
    let BuildError::Verilator { diagnostics, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!((diagnostics[0].file.as_str(), diagnostics[0].line), ("wrong.v", 2));
    assert!(error.to_string().contains("wrong.v:2:"), "{error}");

    let missing = ModelSource::from_verilog(
        "outer",
        "module outer(input wire clk);\n  inner i(.clk(clk));\nendmodule\n",
    );
    let message = Builder::new()
        .build(&missing)
        .expect_err("a missing module")
        .to_string();
    assert!(message.contains("outer.v:2:") && message.contains("inner"), "{message}");

    let mut ports = small("listed");
    ports.ports[3].width = 9;
    let message = Builder::new().build(&ports).expect_err("a wrong port list").to_string();
    assert!(
        message.contains("y is an Output of 9 bits") && message.contains("8 bits"),
        "{message}"
    );

    let inout = ModelSource::from_verilog("pads", "module pads(input wire clk, inout wire pad); endmodule\n");
    let message = Builder::new().build(&inout).expect_err("an inout").to_string();
    assert!(message.contains("inout"), "{message}");
}

#[test]
fn logic_without_a_clock_is_a_model_too() {
    if !have_verilator() {
        return;
    }
    let text = "module gate(input wire [3:0] a, output wire [3:0] y); assign y = ~a; endmodule\n";
    let model = Builder::new().build(&ModelSource::from_verilog("gate", text)).unwrap();
    let mut simulation = Simulation::new(&model, 1);
    simulation.set_by_name("a", 5).unwrap();
    simulation.step().unwrap();
    assert_eq!(simulation.get_by_name("y"), Ok(10));
}

#[test]
fn missing_and_failing_tools_are_named() {
    let source = small("toolless");
    let error = Builder::new()
        .verilator("/nowhere/verilator")
        .build(&source)
        .expect_err("no Verilator");
    assert!(
        matches!(error, BuildError::Tool(ToolError::NoVerilator { .. })),
        "{error}"
    );
    if !have_verilator() {
        return;
    }
    let error = Builder::new()
        .compiler("no-such-compiler")
        .build(&source)
        .expect_err("no compiler");
    assert!(error.to_string().contains("no-such-compiler was not found"), "{error}");
    let cache = tempfile::tempdir().unwrap();
    let failing = Builder::new().cache(cache.path()).compiler("false");
    let error = failing.build(&source).expect_err("a compiler that fails");
    assert!(matches!(error, BuildError::Command { .. }), "{error}");
    assert!(error.to_string().contains("false failed on model toolless"), "{error}");
    assert_eq!(libraries(cache.path()), 0);
    let blocked = cache.path().join("file");
    fs::write(&blocked, "").unwrap();
    let message = Builder::new()
        .cache(blocked.join("cache"))
        .build(&source)
        .expect_err("no cache")
        .to_string();
    assert!(message.contains("SPRAYNIC_CACHE"), "{message}");
}

#[test]
fn lint_reports_warnings_and_accepts_clean_verilog() {
    if !have_verilator() {
        return;
    }
    lint(&small("clean")).unwrap();
    let text = "module dirty(input wire clk, input wire [7:0] a, output reg [3:0] y);\n  always @(posedge clk)\n    y <= a;\nendmodule\n";
    let Err(LintError::Found { diagnostics, .. }) = lint(&ModelSource::from_verilog("dirty", text)) else {
        panic!("the widths differ")
    };
    assert!(
        diagnostics
            .iter()
            .any(|d| d.code.starts_with("WIDTH") && d.line == 3 && d.file == "dirty.v")
    );
    // The same is no obstacle to a simulation.
    Builder::new().build(&ModelSource::from_verilog("dirty", text)).unwrap();
}

#[test]
fn coverage_is_counted_where_it_was_built_in() {
    if !have_verilator() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("coverage.dat");
    let source = small("covered");
    let mut plain = Simulation::new(&Builder::new().build(&source).unwrap(), 1);
    let message = plain.write_coverage(&path).expect_err("no coverage").to_string();
    assert!(message.contains("Builder::coverage"), "{message}");
    let mut counted = Simulation::new(&Builder::new().coverage(true).build(&source).unwrap(), 1);
    counted.run(7).unwrap();
    counted.write_coverage(&path).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("covered.v") && text.contains("' 7"), "{text}");
}

fn trace() -> Trace {
    let frames = [Frame::with_user([1; 70], 1), Frame::with_user([2; 3], 2)];
    let stimulus = Stimulus::default()
        .source("s_axis", Pattern::Bursts { on: 1, off: 2 }, frames.clone())
        .sink("m_axis", Pattern::Random { chance: 80, seed: 4 }, SinkChecks::default());
    let expectation = Expectation::default()
        .stream("m_axis", Format::Bytes, frames)
        .counter("frames", 2);
    Trace::new(
        "skid_buffer",
        "width = 512",
        1,
        Case { stimulus, expectation },
        "none".into(),
    )
}

#[test]
fn a_trace_goes_through_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/er/trace.json");
    trace().save(&path).unwrap();
    assert_eq!(Trace::load(&path).unwrap(), trace());
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("\"data\":\"020202\""), "bytes are hexadecimal: {text}");

    fs::write(&path, text.replace("\"version\": 1", "\"version\": 99")).unwrap();
    assert!(matches!(Trace::load(&path), Err(TraceError::Version { found: 99, .. })));
    fs::write(&path, text.replace("020202", "02020")).unwrap();
    let message = Trace::load(&path).expect_err("half a byte").to_string();
    assert!(message.contains("hexadecimal") && message.contains("line"), "{message}");
    for cut in (0..text.len()).step_by(37) {
        fs::write(&path, &text[..cut]).unwrap();
        assert!(Trace::load(&path).is_err());
    }
    let message = Trace::load(&directory.path().join("none.json"))
        .expect_err("no file")
        .to_string();
    assert!(message.contains("none.json"), "{message}");
}

#[test]
fn a_replay_writes_a_waveform_and_the_same_verdict() {
    if !have_verilator() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (source, builder) = (source("skid_buffer"), Builder::new());
    let mut trace = trace();
    let plain = replay(&trace, &source, &builder, Default::default(), None).unwrap();
    let wave = directory.path().join("run.fst");
    let traced = replay(&trace, &source, &builder, Default::default(), Some(&wave)).unwrap();
    assert_eq!(plain.result.unwrap(), traced.result.unwrap());
    let written = fs::read(traced.waveform.as_ref().unwrap()).unwrap();
    match traced.waveform.as_ref().unwrap().extension().unwrap().to_str().unwrap() {
        // The header block of FST: type 0, length 329.
        "fst" => assert_eq!(written[..9], [0, 0, 0, 0, 0, 0, 0, 1, 73]),
        _ => assert!(String::from_utf8(written).unwrap().contains("$var wire 512")),
    }
    trace.case.expectation.streams[0].frames[1].data[2] = 9;
    let failed = replay(&trace, &source, &builder, Default::default(), None).unwrap();
    let message = failed.result.expect_err("the expectation is wrong").to_string();
    assert!(message.starts_with("m_axis frame 1 is wrong"), "{message}");

    let nowhere = directory.path().join("missing/run.fst");
    let message = replay(&trace, &source, &builder, Default::default(), Some(&nowhere)).expect_err("no directory");
    assert!(message.to_string().contains("missing"), "{message}");
    let mut untraced = Simulation::new(&builder.build(&source).unwrap(), 1);
    let message = untraced.start_waveform(&wave).expect_err("no tracing").to_string();
    assert!(message.contains("Builder::tracing"), "{message}");
    assert_eq!(Waveform::Vcd.extension(), "vcd");
}
