//! Bundles and streams: fields keep their order, streams their directions.

use spraynic_rtl::{AxiStream, Bundle, Context, Evaluator, Stream, bundle};

bundle! {
    /// A request.
    pub(crate) struct Request {
        opcode: 3, "what to do";
        psn: 24, "which packet";
        last: 1, "the last one of its message";
    }
}

#[test]
fn the_first_field_is_at_bit_0() {
    assert_eq!(Request::packed_width(), 28);
    let context = Context::new();
    let m = context.module("m");
    let request = Request::unpack(m.input("request", 28));
    m.output_of("opcode", request.opcode);
    m.output_of("psn", request.psn);
    m.output_of("last", request.last);
    m.output_of("again", request.pack());
    let definition = m.finish();
    let text = definition.verilog_text();
    assert!(
        text.contains("assign again = request;"),
        "packing what was unpacked costs nothing:\n{text}"
    );
    let mut run = Evaluator::new(definition);
    run.set("request", 1u32 << 27 | 0xabcdef << 3 | 5);
    assert_eq!(
        (run.get_u64("opcode"), run.get_u64("psn"), run.get_u64("last")),
        (5, 0xab_cdef, 1)
    );
}

#[test]
fn registers_wires_and_names_of_a_bundle_have_its_prefix() {
    let context = Context::new();
    let m = context.module("m");
    let input = Request::unpack(m.input("request", 28)).named("in");
    let wires = Request::wires(m, "next");
    let held = Request::regs(m, "held");
    Bundle::set(&wires, &input);
    m.when(input.last, || Bundle::set(&held, &wires));
    m.output_of("y", held.pack());
    let definition = m.finish();
    let text = definition.verilog_text();
    for part in [
        "wire [23:0] in_psn;",
        "wire [23:0] next_psn;  // which packet",
        "reg  [23:0] held_psn;  // which packet",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    let mut run = Evaluator::new(definition);
    run.set("request", 77);
    run.clock();
    assert_eq!(run.get_u64("y"), 0, "not the last one");
    run.set("request", 1u32 << 27 | 78);
    run.clock();
    assert_eq!(run.get_u64("y"), 1 << 27 | 78);
}

/// The place in the comment at the declaration of `name`.
fn place<'a>(text: &'a str, name: &str) -> &'a str {
    let declaration = format!(" {name};");
    let line = text.lines().find(|line| line.contains(&declaration));
    let line = line.unwrap_or_else(|| panic!("no {declaration:?} in\n{text}"));
    line.rsplit([' ', '|']).next().expect("a line has an end")
}

#[test]
fn places_are_those_of_the_caller() {
    let context = Context::new();
    let m = context.module("m");
    let first = line!() + 1;
    let input = Request::unpack(m.input("request", 28)).named("in");
    let wires = Request::wires(m, "next");
    let held = Request::regs(m, "held");
    let stream = Stream::wires(m, "stream", 28);
    let frames = AxiStream::wires(m, "frames", 32, 1);
    Bundle::set(&wires, &input);
    Bundle::set(&held, &wires);
    stream.data.set(held.pack());
    stream.valid.set(m.high());
    stream.connect(Stream::master(m, "out", 28, "out"));
    m.output_of("moves", stream.fires());
    AxiStream::slave(m, "s", 32, 1, "in").connect(frames);
    frames.connect(AxiStream::master(m, "m", 32, 1, "out"));
    let text = m.finish().verilog_text();
    for (index, names) in [
        &["in_opcode", "in_psn", "in_last"][..],
        &["next_opcode", "next_psn", "next_last"],
        &["held_opcode", "held_psn", "held_last"],
        &["stream_tdata", "stream_tvalid", "stream_tready"],
        &[
            "frames_tdata",
            "frames_tkeep",
            "frames_tlast",
            "frames_tuser",
            "frames_tvalid",
            "frames_tready",
        ],
    ]
    .into_iter()
    .enumerate()
    {
        for name in names {
            let expected = format!("rtl/tests/bundles.rs:{}", first + index as u32);
            assert_eq!(place(&text, name), expected, "{name} in\n{text}");
        }
    }
}

/// What a panic says.
fn refusal(body: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let error = std::panic::catch_unwind(body).expect_err("is refused");
    error.downcast_ref::<String>().expect("a formatted message").clone()
}

#[test]
fn refusals_name_the_line_of_the_caller() {
    let line = line!();
    let taken = refusal(|| {
        let context = Context::new();
        let m = context.module("m");
        let _ = m.input("s_tkeep", 1);
        let _ = AxiStream::slave(m, "s", 32, 1, "in"); // line + 5
    });
    assert!(
        taken.starts_with(&format!("rtl/tests/bundles.rs:{}: ", line + 5)),
        "{taken}"
    );
    let line = line!();
    let missing = refusal(|| {
        let context = Context::new();
        let inner = context.module("inner");
        inner.output_of("y", inner.input("m_tready", 1));
        let m = context.module("m");
        let instance = m.instance("u_inner", inner.finish());
        let _ = AxiStream::from_instance(instance, "m"); // line + 7
    });
    assert!(
        missing.starts_with(&format!("rtl/tests/bundles.rs:{}: ", line + 7)),
        "{missing}"
    );
    let line = line!();
    let looped = refusal(|| {
        let context = Context::new();
        let m = context.module("m");
        let index = m.input("index", 2);
        let wire = m.wire("around", 4);
        let choices = wire.to_bits(); // line + 6
        let chosen = index.select(&choices); // line + 7
        wire.set(m.lit(0, 4));
        m.switch(index, |arms| arms.case(1, || wire.set(chosen.repeat(4)))); // line + 9
        m.output_of("y", wire);
        m.finish();
    });
    assert!(
        looped.contains(&format!("mux of rtl/tests/bundles.rs:{}", line + 7)),
        "{looped}"
    );
    assert!(
        looped.contains(&format!("slice of rtl/tests/bundles.rs:{}", line + 6)),
        "{looped}"
    );
    assert!(!looped.contains("rtl/src"), "{looped}");
    let line = line!();
    let switched = refusal(|| {
        let context = Context::new();
        let m = context.module("m");
        let state = m.wire("state", 2);
        state.set(m.lit(0, 2));
        m.switch(state, |arms| arms.case(2, || state.set(m.lit(1, 2)))); // line + 6
        m.output_of("y", state);
        m.finish();
    });
    assert!(
        switched.contains(&format!("eq of rtl/tests/bundles.rs:{}", line + 6)),
        "{switched}"
    );
}

#[test]
#[should_panic(expected = "width of")]
fn a_bundle_of_another_width_is_refused() {
    let context = Context::new();
    let _ = Request::unpack(context.module("m").input("request", 27));
}

#[test]
fn streams_pass_through_instances() {
    let context = Context::new();
    let inner = context.module("pass");
    let (from, to) = (Stream::slave(inner, "s", 9, "in"), Stream::master(inner, "m", 9, "out"));
    from.connect(to);
    let inner = inner.finish();
    let m = context.module("m");
    let (from, to) = (Stream::slave(m, "s", 9, "in"), Stream::master(m, "m", 9, "out"));
    let (one, two) = (m.instance("one", inner), m.instance("two", inner));
    from.connect(Stream::into_instance(one, "s"));
    let between = Stream::wires(m, "between", 9);
    Stream::from_instance(one, "m").connect(between);
    between.connect(Stream::into_instance(two, "s"));
    Stream::from_instance(two, "m").connect(to);
    m.output_of("moves", between.fires());
    let definition = m.finish();
    let names: Vec<String> = definition.ports().into_iter().map(|port| port.name).collect();
    assert_eq!(
        names,
        [
            "s_tdata", "s_tvalid", "s_tready", "m_tdata", "m_tvalid", "m_tready", "moves"
        ]
    );
    let mut run = Evaluator::new(definition);
    for (valid, ready) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        run.set("s_tdata", 300);
        run.set("s_tvalid", valid);
        run.set("m_tready", ready);
        assert_eq!(
            (run.get_u64("m_tdata"), run.get_u64("m_tvalid"), run.get_u64("s_tready")),
            (300, valid, ready)
        );
        assert_eq!(run.get_u64("moves"), valid & ready);
    }
}

#[test]
fn a_packed_beat_unpacks_to_the_same_fields() {
    let context = Context::new();
    let m = context.module("m");
    let (from, to) = (
        AxiStream::slave(m, "s", 64, 3, "in"),
        AxiStream::master(m, "m", 64, 3, "out"),
    );
    let word = from.pack();
    assert_eq!(word.width(), 64 + 8 + 1 + 3);
    to.set_packed(word);
    to.valid.set(from.valid);
    from.ready.set(to.ready);
    m.output_of("word", word);
    let mut run = Evaluator::new(m.finish());
    let fields = [
        ("tdata", 0x0123_4567_89ab_cdef),
        ("tkeep", 0x7f),
        ("tlast", 1),
        ("tuser", 5),
    ];
    for (name, value) in fields {
        run.set(&format!("s_{name}"), value);
    }
    for (name, value) in fields {
        assert_eq!(run.get_u64(&format!("m_{name}")), value, "{name}");
    }
    assert_eq!(
        run.get("word").to_u128(),
        Some(5 << 73 | 1 << 72 | 0x7f << 64 | 0x0123_4567_89ab_cdef)
    );
}
