//! What the library refuses: every error names the signals and the place in the Rust source.

use spraynic_rtl::{Context, DesignError};

/// The message of the panic that `build` ends in.
fn message(build: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let payload = std::panic::catch_unwind(build).expect_err("this must be refused");
    payload.downcast_ref::<String>().cloned().expect("a formatted message")
}

#[test]
fn a_width_mismatch_names_both_sides_and_the_place() {
    let text = message(|| {
        let context = Context::new();
        let m = context.module("adder");
        let (wide, narrow) = (m.input("wide", 9), m.input("narrow", 8));
        let _ = wide + narrow;
    });
    let line = line!() - 2;
    for part in ["`wide` has 9 bits", "`narrow` has 8", &format!("checks.rs:{line}")] {
        assert!(text.contains(part), "{text:?} does not say {part:?}");
    }
}

#[test]
fn refused_uses_say_what_is_wrong() {
    type Case = (&'static str, fn(&Context));
    let cases: [Case; 16] = [
        ("its driver `b` has 3", |c| {
            let m = c.module("m");
            m.output("a", 2).set(m.input("b", 3));
        }),
        ("`a` cannot be driven", |c| {
            let m = c.module("m");
            m.input("a", 2).set_lit(0);
        }),
        ("does not fit 3 bits", |c| {
            let _ = c.module("m").lit(8, 3);
        }),
        ("does not fit 3 bits", |c| {
            let _ = c.module("m").lit(-1, 3);
        }),
        ("slice [8:0] of `a`, which has 8 bits", |c| {
            let _ = c.module("m").input("a", 8).slice(8, 0);
        }),
        ("a condition has 1 bit", |c| {
            let m = c.module("m");
            m.when(m.input("a", 2), || {});
        }),
        ("a condition has 1 bit", |c| {
            let a = c.module("m").input("a", 2);
            let _ = a.mux(a, a.lit(0));
        }),
        ("`module` is a reserved word", |c| {
            let _ = c.module("m").input("module", 1);
        }),
        ("`logic` is a reserved word", |c| {
            let _ = c.module("logic");
        }),
        ("`2x` is no identifier", |c| {
            let _ = c.module("2x");
        }),
        ("`clk` is the implicit clock", |c| {
            let _ = c.module("m").input("clk", 1);
        }),
        ("has a signal `a` already", |c| {
            let m = c.module("m");
            let _ = (m.input("a", 1), m.input("a", 1));
        }),
        ("is of module `m`", |c| {
            let (m, n) = (c.module("m"), c.module("n"));
            let _ = m.input("a", 1) & n.input("b", 1);
        }),
        ("two arms for", |c| {
            let m = c.module("m");
            m.switch(m.input("a", 2), |s| {
                s.case(1, || {});
                s.case(1, || {});
            });
        }),
        ("must follow its `when` at once", |c| {
            let m = c.module("m");
            let (a, y) = (m.input("a", 1), m.output("y", 1));
            let when = m.when(a, || y.set_lit(0));
            y.set_lit(1);
            when.otherwise(|| y.set_lit(0));
        }),
        ("memory `ram`: write data has 8 bits", |c| {
            let m = c.module("m");
            let a = m.input("a", 4);
            m.memory("ram", 16, 8).write(m.high(), a, a);
        }),
    ];
    for (part, build) in cases {
        let text = message(move || build(&Context::new()));
        assert!(text.contains(part), "{text:?} does not say {part:?}");
        assert!(text.contains("checks.rs:"), "{text:?} does not say where");
    }
}

fn errors(build: impl FnOnce(&Context) -> Result<(), Vec<DesignError>>) -> Vec<DesignError> {
    build(&Context::new()).expect_err("this design must be refused")
}

#[test]
fn an_undriven_output_is_refused() {
    let found = errors(|c| {
        let m = c.module("m");
        m.output("y", 1);
        m.try_finish().map(drop)
    });
    assert!(
        matches!(&found[..], [DesignError::Undriven { signal, .. }] if signal == "`y`"),
        "{found:?}"
    );
}

#[test]
fn a_wire_driven_on_one_branch_only_is_refused_and_not_a_latch() {
    let found = errors(|c| {
        let m = c.module("m");
        let (a, y) = (m.input("a", 1), m.output("y", 1));
        m.when(a, || y.set(a));
        m.try_finish().map(drop)
    });
    assert!(
        matches!(&found[..], [DesignError::Latch { signal, .. }] if signal == "`y`"),
        "{found:?}"
    );
}

#[test]
fn a_switch_over_every_value_drives_a_wire() {
    let context = Context::new();
    let m = context.module("m");
    let (a, y) = (m.input("a", 1), m.output("y", 4));
    m.switch(a, |s| {
        s.case(0, || y.set_lit(3));
        s.case(1, || y.set_lit(5));
    });
    let mut run = spraynic_rtl::Evaluator::new(m.finish());
    assert_eq!(run.get_u64("y"), 3);
    run.set("a", 1);
    assert_eq!(run.get_u64("y"), 5);
}

#[test]
fn unread_signals_are_refused_unless_ignored() {
    let found = errors(|c| {
        let m = c.module("m");
        let a = m.input("a", 1);
        let _ = m.input("b", 1);
        let count = m.reg("count", 4).reset(0);
        count.set(count + count.lit(1));
        m.output_of("y", a);
        m.try_finish().map(drop)
    });
    let names: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 2, "{names:?}");
    assert!(
        names[0].contains("`b` is never read") && names[1].contains("`count` is never read"),
        "{names:?}"
    );

    let context = Context::new();
    let m = context.module("m");
    m.input("b", 1).ignore();
    m.output_of("y", m.high());
    m.finish();
}

#[test]
fn a_combinational_loop_is_named_through_instances() {
    let found = errors(|c| {
        let inner = c.module("inner");
        inner.output_of("y", !inner.input("a", 1));
        let inner = inner.finish();
        let m = c.module("m");
        let (one, two) = (m.instance("one", inner), m.instance("two", inner));
        let round = m.wire("round", 1);
        one.connect("a", round);
        two.connect("a", one.output("y"));
        round.set(two.output("y"));
        m.output_of("y", round);
        m.try_finish().map(drop)
    });
    let [DesignError::Loop { path }] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(path.first(), path.last());
    for name in ["`round`", "`one_y`", "`two_y`"] {
        assert!(path.iter().any(|step| step == name), "{path:?}");
    }
}

#[test]
fn a_register_breaks_a_loop() {
    let context = Context::new();
    let m = context.module("m");
    let toggle = m.reg("toggle", 1).reset(0);
    toggle.set(!toggle);
    m.output_of("y", toggle);
    m.finish();
}

#[test]
fn equal_modules_are_shared_and_different_ones_of_one_name_refused() {
    fn build(c: &Context, value: u32) -> Result<String, Vec<DesignError>> {
        let m = c.module("constant");
        m.output_of("y", m.lit(value, 8));
        m.try_finish().map(|definition| definition.verilog_text())
    }
    let context = Context::new();
    let first = build(&context, 1).expect("new");
    assert_eq!(build(&context, 1).expect("equal"), first);
    let found = build(&context, 2).expect_err("another module of that name");
    assert!(
        matches!(&found[..], [DesignError::OtherModule { name, .. }] if name == "constant"),
        "{found:?}"
    );
}

#[test]
fn a_memory_needs_both_ports() {
    let found = errors(|c| {
        let m = c.module("m");
        let (address, data) = (m.input("address", 4), m.input("data", 8));
        m.memory("ram", 16, 8).write(m.high(), address, data);
        m.output_of("y", address);
        m.try_finish().map(drop)
    });
    assert!(
        matches!(&found[..], [DesignError::MemoryPort { port: "read", .. }]),
        "{found:?}"
    );
}
