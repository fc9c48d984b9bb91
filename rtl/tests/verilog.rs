//! What the printed Verilog looks like, and that it is the same every time.

use spraynic_rtl::{Context, Definition, Evaluator, MemoryStyle, ReadDuringWrite};

/// The expressions that the crate rust-hdl 0.46 prints with another meaning than its own simulation: constants of 32 bits and missing
/// parentheses. See docs/src/decisions.
fn expressions(context: &Context) -> Definition<'_> {
    let m = context.module("expressions");
    let (a, b, c) = (m.input("a", 8), m.input("b", 8), m.input("c", 1));
    m.output_of("difference_below_128", (b - a).lt(a.lit(128)));
    m.output_of("and_before_equal", c & a.eq(b));
    m.output_of("sum_above_carry", (a + b).gt(a.lit(254)));
    m.output_of("shifted_sum", (a + b) >> 1);
    m.output_of("inverted_equal", (!a).eq(b));
    m.finish()
}

#[test]
fn constants_are_sized_and_mixed_expressions_parenthesised() {
    let context = Context::new();
    let text = expressions(&context).verilog_text();
    for line in [
        "assign difference_below_128 = (b - a) < 8'h80;",
        "assign and_before_equal = c & (a == b);",
        "assign inverted_equal = (~a) == b;",
    ] {
        assert!(text.contains(line), "no {line:?} in\n{text}");
    }
}

#[test]
fn the_evaluator_takes_them_modulo_their_width() {
    let context = Context::new();
    let mut run = Evaluator::new(expressions(&context));
    run.set("a", 0xff);
    run.set("b", 0);
    run.set("c", 1);
    assert_eq!(run.get_u64("difference_below_128"), 1, "0 - 0xff is 1 in 8 bits");
    assert_eq!(run.get_u64("and_before_equal"), 0);
    assert_eq!(run.get_u64("sum_above_carry"), 1);
    assert_eq!(run.get_u64("inverted_equal"), 1);
    run.set("b", 0x81);
    assert_eq!(
        run.get_u64("shifted_sum"),
        0x40,
        "the carry of 0xff + 0x81 is lost before the shift"
    );
}

#[test]
fn names_places_and_documentation_reach_the_verilog() {
    let context = Context::new();
    let m = context.module("documented");
    m.doc("Adds.\nNever subtracts.");
    let (a, b) = (m.input("a", 8).doc("left operand"), m.input("b", 8));
    let total = (a + b).named("total");
    let held = m.reg("held", 8).doc("sum of the last clock");
    let line = line!() - 1;
    m.when(a.any(), || held.set(total));
    m.output_of("y", held);
    let text = m.finish().verilog_text();
    for part in [
        "// Adds.\n// Never subtracts.",
        "input  wire [7:0] a,  // left operand",
        &format!("reg  [7:0] held;  // sum of the last clock | rtl/tests/verilog.rs:{line}"),
        "assign total = a + b;",
        "if (|a) begin\n            held <= total;\n        end",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
}

#[test]
fn a_name_taken_twice_gets_a_number() {
    let context = Context::new();
    let m = context.module("twice");
    let a = m.input("a", 4);
    let one = (a + a.lit(1)).named("next");
    let two = (one + a.lit(1)).named("next");
    m.output_of("y", two ^ one);
    let text = m.finish().verilog_text();
    assert!(
        text.contains("assign next = a + 4'h1;") && text.contains("assign next_2 = next + 4'h1;"),
        "{text}"
    );
}

#[test]
fn every_memory_is_one_wrapper_module_a_file() {
    let context = Context::new();
    let m = context.module("buffers");
    let (address, data) = (m.input("address", 5), m.input("data", 16));
    let kinds = [
        ("old", MemoryStyle::Block, ReadDuringWrite::Old),
        ("fresh", MemoryStyle::Block, ReadDuringWrite::New),
        ("wide", MemoryStyle::Ultra, ReadDuringWrite::DontCare),
    ];
    for (name, style, policy) in kinds {
        let memory = m.memory(name, 32, 16).style(style).read_during_write(policy);
        memory.write(m.high(), address, data);
        m.output_of(&format!("{name}_out"), memory.read(m.high(), address ^ address.lit(1)));
    }
    let files: Vec<String> = m.finish().verilog().into_iter().map(|file| file.name).collect();
    assert_eq!(
        files,
        [
            "ram_block_new.v",
            "ram_block_old.v",
            "ram_ultra_dont_care.v",
            "buffers.v"
        ]
    );
}

#[test]
fn a_read_during_a_write_returns_what_the_policy_says() {
    let context = Context::new();
    let m = context.module("policies");
    let (address, data) = (m.input("address", 2), m.input("data", 8));
    let policies = [
        ("old", ReadDuringWrite::Old),
        ("fresh", ReadDuringWrite::New),
        ("dont_care", ReadDuringWrite::DontCare),
    ];
    for (name, policy) in policies {
        let memory = m.memory(&format!("{name}_ram"), 4, 8).read_during_write(policy);
        memory.write(m.high(), address, data);
        m.output_of(name, memory.read(m.high(), address));
    }
    let mut run = Evaluator::new(m.finish());
    run.set("data", 0x11);
    run.clock();
    run.set("data", 0x22);
    run.clock();
    assert_eq!(run.get_u64("old"), 0x11);
    assert_eq!(run.get_u64("fresh"), 0x22);
    assert_eq!(
        run.get_u64("dont_care"),
        0xee,
        "the inverted old word, so that nobody relies on it"
    );
}

#[test]
fn the_same_description_gives_the_same_bytes() {
    let (one, two) = (Context::new(), Context::new());
    assert_eq!(expressions(&one).verilog(), expressions(&two).verilog());
}

#[test]
fn what_is_unread_or_ignored_in_part_is_said_once_for_linters() {
    let context = Context::new();
    let m = context.module("partly");
    let (part, ignored, whole) = (m.input("part", 8), m.input("ignored", 8), m.input("whole", 8));
    ignored.part(4, 4).ignore();
    m.output_of(
        "y",
        part.part(0, 4) ^ ignored.part(0, 4) ^ whole.part(0, 4) ^ whole.part(4, 4),
    );
    m.assert("whole_is_never_ones", !whole.all());
    m.assert("part_is_never_ones", !part.all());
    let text = m.finish().verilog_text();
    assert!(text.contains("wire _unused = &{1'b0, clk, part, ignored};"), "{text}");
}
