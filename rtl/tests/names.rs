//! Names: those of the user survive beside those of the printer, and those that could not stand are refused.

use spraynic_rtl::{Bits, Context, DesignError, Evaluator};

/// Names declared twice in a module's text.
fn twice(text: &str) -> Vec<String> {
    let mut names: Vec<String> = text
        .lines()
        .filter_map(|line| {
            let line = line.split("//").next()?.trim().trim_end_matches([',', ';']);
            let line = line
                .strip_prefix("input ")
                .or(line.strip_prefix("output "))
                .unwrap_or(line)
                .trim();
            let line = line.strip_prefix("wire ").or(line.strip_prefix("reg "))?;
            let name = line.split('=').next()?.split_whitespace().last()?;
            Some(name.to_owned())
        })
        .collect();
    names.sort();
    names
        .windows(2)
        .filter(|pair| pair[0] == pair[1])
        .map(|pair| pair[0].clone())
        .collect()
}

#[test]
fn names_of_the_printer_give_way_to_those_of_the_user() {
    let context = Context::new();
    let m = context.module("names");
    let (t_1, unused) = (m.input("t_1", 8), m.input("_unused", 8));
    let started = m.reg("formal_started", 8).reset(0);
    started.set(t_1);
    let sum = t_1 + started;
    m.output_of("y", sum.part(0, 4) & sum.part(4, 4) & unused.part(0, 4));
    m.output_of("t_2", t_1);
    m.assert("holds", sum.eq(started + t_1) | t_1.any());
    let text = m.finish().verilog_text();
    assert_eq!(twice(&text), Vec::<String>::new(), "{text}");
    for part in ["wire [7:0] t_3;", "wire _unused_2 = ", "reg formal_started_2 = "] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
}

#[test]
fn a_wire_may_be_named_like_the_port_of_an_instance() {
    let context = Context::new();
    let inner = context.module("inner");
    inner.output_of("y", !inner.input("a", 1));
    let inner = inner.finish();
    let m = context.module("m");
    let a = m.input("a", 1);
    let wire = m.wire("one_y", 1);
    let one = m.instance("one", inner).connect("a", a);
    let two = m.instance("one", inner).connect("a", one.output("y"));
    wire.set(two.output("y"));
    m.output_of("z", wire ^ one.output("y"));
    let definition = m.finish();
    let text = definition.verilog().pop().expect("the top is last").text;
    assert_eq!(twice(&text), Vec::<String>::new(), "{text}");
    assert!(text.contains("inner one_2 ("), "{text}");
    let mut run = Evaluator::new(definition);
    assert_eq!(run.get_u64("z"), 1);
}

#[test]
fn names_that_differ_in_case_are_two_names() {
    let context = Context::new();
    let m = context.module("m");
    let (low, high) = (m.input("value", 4), m.input("Value", 4));
    m.output_of("VALUE", low - high);
    let text = m.finish().verilog_text();
    assert!(text.contains("assign VALUE = value - Value;"), "{text}");
}

#[test]
fn modules_that_differ_only_in_case_are_refused() {
    let context = Context::new();
    let build = |name: &str| {
        let m = context.module(name);
        m.output_of("y", m.input("a", 1));
        m.try_finish().map(drop)
    };
    build("Fifo").expect("new");
    let found = build("fifo").expect_err("their files could not stand in one directory");
    assert!(
        matches!(&found[..], [DesignError::NameCase { name, other, .. }] if name == "fifo" && other == "Fifo"),
        "{found:?}"
    );
}

#[test]
fn a_module_may_not_be_named_like_a_ram_wrapper() {
    for name in ["ram_block_old", "RAM_ultra_dont_care", "ram_distributed_now"] {
        let payload = std::panic::catch_unwind(move || _ = Context::new().module(name)).expect_err("refused");
        let text = payload.downcast_ref::<String>().expect("a formatted message");
        assert!(text.contains("RAM wrapper") && text.contains("names.rs:"), "{text}");
    }
    Context::new().module("ram_block_older");
}

#[test]
fn inputs_registers_and_constants_can_get_a_further_name() {
    let context = Context::new();
    let m = context.module("m");
    let a = m.input("a", 4);
    let held = m.reg("held", 4).reset(3);
    held.set(a);
    let one = m.lit(1, 4).named("one");
    let again = a.named("request").named("request");
    m.output_of("y", (again + one) ^ held.named("earlier"));
    let definition = m.finish();
    let text = definition.verilog_text();
    for line in [
        "assign one = 4'h1;",
        "assign request = a;",
        "assign request_2 = request;",
        "assign earlier = held;",
    ] {
        assert!(text.contains(line), "no {line:?} in\n{text}");
    }
    let mut run = Evaluator::new(definition);
    run.reset();
    run.set("a", 6);
    assert_eq!(run.get_u64("y"), 7 ^ 3);
}

#[test]
fn a_reset_value_may_be_wider_than_any_integer() {
    let context = Context::new();
    let m = context.module("m");
    let value = Bits::from_words(130, &[0x1111_2222_3333_4444, 0x5555_6666_7777_8888, 2]);
    let wide = m.reg("wide", 130).reset(value.clone());
    wide.set(wide + wide.lit(1));
    m.output_of("y", wide);
    let definition = m.finish();
    assert!(
        definition
            .verilog_text()
            .contains("wide <= 130'h255556666777788881111222233334444;")
    );
    let mut run = Evaluator::new(definition);
    run.reset();
    assert_eq!(run.get("y"), value);
}

#[test]
fn an_input_of_an_instance_may_be_driven_under_conditions_and_read_back() {
    let context = Context::new();
    let inner = context.module("inner");
    inner.output_of("y", inner.input("a", 4) + inner.lit(1, 4));
    let inner = inner.finish();
    let m = context.module("m");
    let choose = m.input("choose", 1);
    let one = m.instance("one", inner);
    one.input("a").set_lit(2);
    m.when(choose, || one.input("a").set_lit(9));
    m.output_of("given", one.input("a"));
    m.output_of("y", one.output("y"));
    let mut run = Evaluator::new(m.finish());
    assert_eq!((run.get_u64("given"), run.get_u64("y")), (2, 3));
    run.set("choose", 1);
    assert_eq!((run.get_u64("given"), run.get_u64("y")), (9, 10));
}

#[test]
fn nothing_has_no_bits() {
    type Case = fn(&Context);
    let cases: [Case; 10] = [
        |c| _ = c.module("m").input("a", 0),
        |c| _ = c.module("m").wire("a", 0),
        |c| _ = c.module("m").reg("a", 0),
        |c| _ = c.module("m").lit(0, 0),
        |c| _ = c.module("m").input("a", 4).part(1, 0),
        |c| _ = c.module("m").input("a", 4).part(u32::MAX, 2),
        |c| _ = c.module("m").input("a", 4).slice(0, 1),
        |c| _ = c.module("m").input("a", 4).repeat(0),
        |c| _ = c.module("m").input("a", 4).select(&[]),
        |c| _ = c.module("m").input("a", 4).repeat(1 << 30),
    ];
    for (index, build) in cases.into_iter().enumerate() {
        let payload = std::panic::catch_unwind(move || build(&Context::new())).expect_err("refused");
        let text = payload.downcast_ref::<String>().expect("a formatted message");
        assert!(text.contains("names.rs:"), "case {index}: {text}");
    }
}
