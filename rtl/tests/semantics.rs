//! What conditions, memories and properties mean, in the evaluator.

use spraynic_rtl::{Context, Evaluator, MemoryStyle, ReadDuringWrite};

fn message(build: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let payload = std::panic::catch_unwind(build).expect_err("this must be refused");
    payload.downcast_ref::<String>().cloned().expect("a formatted message")
}

#[test]
fn the_last_assignment_wins_and_registers_keep() {
    let context = Context::new();
    let m = context.module("m");
    let (a, b) = (m.input("a", 1), m.input("b", 1));
    let wire = m.wire("wire_value", 4);
    let count = m.reg("count", 4).reset(9);
    wire.set_lit(1);
    m.when(a, || {
        wire.set_lit(2);
        m.when(b, || wire.set_lit(3));
        count.set(count + count.lit(1));
    })
    .else_when(b, || wire.set_lit(4));
    m.output_of("w", wire);
    m.output_of("c", count);
    let mut run = Evaluator::new(m.finish());
    run.reset();
    for (a, b, expected) in [(0, 0, 1), (0, 1, 4), (1, 0, 2), (1, 1, 3)] {
        run.set("a", a);
        run.set("b", b);
        assert_eq!(run.get_u64("w"), expected, "a={a} b={b}");
        run.clock();
    }
    assert_eq!(run.get_u64("c"), 11, "it counted where a was 1 and kept elsewhere");
}

#[test]
fn empty_arms_of_a_complete_switch_are_arms() {
    let context = Context::new();
    let m = context.module("m");
    let selector = m.input("selector", 2);
    let value = m.wire("value", 4);
    value.set_lit(0);
    m.switch(selector, |s| {
        s.case(0, || value.set_lit(10));
        s.case(1, || value.set_lit(11));
        s.case(2, || {});
        s.case(3, || {});
    });
    m.output_of("y", value);
    let mut run = Evaluator::new(m.finish());
    for (selector, expected) in [(0, 10), (1, 11), (2, 0), (3, 0)] {
        run.set("selector", selector);
        assert_eq!(run.get_u64("y"), expected, "selector {selector}");
    }
}

#[test]
fn a_switch_that_writes_one_of_many_registers_tests_each_for_itself() {
    let context = Context::new();
    let m = context.module("m");
    let (selector, data) = (m.input("selector", 4), m.input("data", 8));
    let registers: Vec<_> = (0..16)
        .map(|index| m.reg(&format!("r{index}"), 8).reset(index))
        .collect();
    m.switch(selector, |s| {
        for (index, register) in registers.iter().enumerate() {
            s.case(index, || register.set(data));
        }
    });
    m.output_of("y", selector.select(&registers));
    let definition = m.finish();
    let text = definition.verilog_text();
    assert!(
        text.contains("end else if (selector == 4'h5) begin\n            r5 <= data;\n        end\n    end"),
        "{text}"
    );
    let mut run = Evaluator::new(definition);
    run.reset();
    for index in 0..16u64 {
        run.set("selector", index);
        run.set("data", index + 100);
        assert_eq!(run.get_u64("y"), index);
        run.clock();
        assert_eq!(run.get_u64("y"), index + 100);
    }
}

#[test]
fn read_data_of_one_memory_address_another_one_in_any_order() {
    for swapped in [false, true] {
        let context = Context::new();
        let m = context.module("m");
        let (address, data, write) = (m.input("address", 3), m.input("data", 3), m.input("write", 1));
        let names = if swapped { ["b", "a"] } else { ["a", "b"] };
        let memories = names.map(|name| m.memory(name, 8, 3).read_during_write(ReadDuringWrite::Old));
        let [first, second] = if swapped { [memories[1], memories[0]] } else { memories };
        first.write(write, address, data);
        second.write(write, address, !data);
        let pointer = first.read(m.high(), address);
        m.output_of("y", second.read(m.high(), pointer));
        let mut run = Evaluator::new(m.finish());
        run.set("write", 1);
        for address in 0..8u64 {
            run.set("address", address);
            run.set("data", (address * 3) % 8);
            run.clock();
        }
        run.set("write", 0);
        for address in 0..8u64 {
            run.set("address", address);
            run.clock();
            // One clock for the pointer, a second one for the word; the new address must not reach the second memory early.
            run.set("address", (address + 1) % 8);
            run.clock();
            let pointer = (address * 3) % 8;
            assert_eq!(
                run.get_u64("y"),
                !(pointer * 3) % 8,
                "address {address}, swapped {swapped}"
            );
        }
    }
}

#[test]
fn strobes_write_their_granules_under_every_policy() {
    for style in [MemoryStyle::Block, MemoryStyle::Ultra, MemoryStyle::Distributed] {
        for (policy, during) in [
            (ReadDuringWrite::Old, 0x1234),
            (ReadDuringWrite::New, 0x12cd),
            (ReadDuringWrite::DontCare, !0x1234 & 0xffff),
        ] {
            let context = Context::new();
            let m = context.module("m");
            let (data, strobe) = (m.input("data", 16), m.input("strobe", 2));
            let memory = m.memory("ram", 5, 16).style(style).read_during_write(policy).strobes(8);
            let address = m.lit(4, 3);
            memory.write_strobed(m.high(), address, data, strobe);
            m.output_of("y", memory.read(m.high(), address));
            let mut run = Evaluator::new(m.finish());
            run.set("data", 0x1234);
            run.set("strobe", 3);
            run.clock();
            run.set("data", 0xabcd);
            run.set("strobe", 1);
            run.clock();
            assert_eq!(run.get_u64("y"), during, "{style:?} {policy:?}");
            run.set("strobe", 0);
            run.clock();
            let after = if policy == ReadDuringWrite::DontCare {
                !0x12cd & 0xffff
            } else {
                0x12cd
            };
            assert_eq!(run.get_u64("y"), after, "{style:?} {policy:?}");
        }
    }
}

#[test]
fn a_distributed_memory_is_read_in_the_same_cycle() {
    let context = Context::new();
    let m = context.module("m");
    let (address, data) = (m.input("address", 2), m.input("data", 70));
    let memory = m.memory("ram", 4, 70).style(MemoryStyle::Distributed);
    memory.write(m.high(), address, data);
    m.output_of("y", memory.read_now(address));
    let mut run = Evaluator::new(m.finish());
    run.set("data", 1u128 << 69 | 5);
    run.set("address", 2);
    assert!(run.get("y").is_zero(), "the old word while it is written");
    run.clock();
    assert_eq!(run.get("y").to_u128(), Some(1 << 69 | 5));
    run.set("address", 1);
    assert!(run.get("y").is_zero());
}

#[test]
fn a_property_that_fails_says_its_name_instance_and_place() {
    for kind in ["assert", "assume"] {
        let text = message(move || {
            let context = Context::new();
            let inner = context.module("inner");
            let a = inner.input("a", 4);
            let held = inner.reg("held", 4).reset(0);
            held.set(a);
            match kind {
                "assert" => inner.assert("below_nine", held.lt(a.lit(9))),
                _ => inner.assume("below_nine", held.lt(a.lit(9))),
            }
            inner.cover("ever_eight", held.eq_lit(8));
            inner.output_of("y", held);
            let m = context.module("m");
            let instance = m.instance("u_inner", inner.finish()).connect("a", m.input("a", 4));
            m.output_of("y", instance.output("y"));
            let mut run = Evaluator::new(m.finish());
            run.reset();
            run.set("a", 8);
            run.clock();
            run.set("a", 9);
            run.clock();
            // Reset suspends it.
            run.set("rst", 1);
            run.clock();
            run.set("rst", 0);
            run.clock();
            run.clock();
        });
        assert!(
            text.contains("cycle 5: u_inner.below_nine (rtl/tests/semantics.rs:"),
            "{text}"
        );
    }
}

#[test]
fn properties_are_printed_for_both_kinds_of_tools() {
    let context = Context::new();
    let m = context.module("m");
    let a = m.input("a", 4);
    let held = m.reg("held", 4).reset(0);
    held.set(a);
    m.assert("below_nine", held.lt(a.lit(9)));
    m.assume("never_three", a.ne_lit(3));
    m.cover("ever_eight", held.eq_lit(8));
    m.output_of("y", held);
    let text = m.finish().verilog_text();
    let (formal, simulation) = text.split_once("`ifdef RTL_ASSERTIONS").expect("both");
    for part in [
        "below_nine: assert (held < 4'h9)",
        "never_three: assume (a != 4'h3)",
        "ever_eight: cover (held == 4'h8)",
    ] {
        assert!(formal.contains(part), "no {part:?} in\n{text}");
    }
    assert!(
        formal.contains("`ifdef FORMAL_TOP_m\n"),
        "an assumption is one at the top only"
    );
    assert!(simulation.contains("below_nine does not hold") && simulation.contains("never_three does not hold"));
    assert!(!simulation.contains("ever_eight"), "{text}");
}

#[test]
fn what_would_be_lost_is_refused() {
    type Case = (&'static str, fn(&Context));
    let cases: [Case; 9] = [
        ("must follow its `when` at once", |c| {
            let m = c.module("m");
            let (a, y) = (m.input("a", 1), m.output("y", 1));
            y.set_lit(0);
            let first = m.when(a, || y.set_lit(0));
            let _ = m.when(!a, || y.set_lit(1));
            first.otherwise(|| y.set_lit(1));
        }),
        ("finished inside a `when`", |c| {
            let m = c.module("m");
            let a = m.input("a", 1);
            m.output_of("y", a);
            let _ = m.when(a, || _ = m.finish());
        }),
        ("module `m` is finished", |c| {
            let m = c.module("m");
            let y = m.output_of("y", m.input("a", 1));
            m.finish();
            y.set_lit(1);
        }),
        ("module `m` is finished", |c| {
            // Also when the first one of two equal modules is kept.
            let build = || {
                let m = c.module("m");
                let y = m.output_of("y", m.input("a", 1));
                m.finish();
                y
            };
            build();
            build().set_lit(1);
        }),
        ("is of another context", |c| {
            let other = Context::new();
            let inner = other.module("inner");
            inner.output_of("y", inner.input("a", 1));
            let inner = inner.finish();
            // The compiler takes both contexts for one lifetime.
            fn same<'a>(c: &'a Context, inner: spraynic_rtl::Definition<'a>) {
                let _ = c.module("m").instance("u", inner);
            }
            same(c, inner);
        }),
        ("is of module `other`", |c| {
            let (m, other) = (c.module("m"), c.module("other"));
            let _ = m.when(other.input("a", 1), || {});
        }),
        ("is of module `other`", |c| {
            let (m, other) = (c.module("m"), c.module("other"));
            m.switch(other.input("a", 1), |_| {});
        }),
        ("is of module `other`", |c| {
            let (m, other) = (c.module("m"), c.module("other"));
            m.assert("holds", other.input("a", 1));
        }),
        ("is of module `other`", |c| {
            let (m, other) = (c.module("m"), c.module("other"));
            let _ = m.memory("ram", 4, 1).read(m.high(), other.input("a", 2));
        }),
    ];
    for (part, build) in cases {
        let text = message(move || build(&Context::new()));
        assert!(text.contains(part), "{text:?} does not say {part:?}");
        assert!(text.contains("semantics.rs:"), "{text:?} does not say where");
    }
}
