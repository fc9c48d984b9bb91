//! Designs that are deep, wide or large: no stack overflow, no quadratic work.
//!
//! The limits are loose, for a slow machine without optimisation; what a limit catches is ten times slower.

use spraynic_rtl::{Bits, Context, Definition, Evaluator, MemoryStyle, Signal, cat, cat_lsb_first};
use std::time::{Duration, Instant};

fn within(limit: Duration, what: &str, work: impl FnOnce()) {
    let start = Instant::now();
    work();
    let took = start.elapsed();
    eprintln!("{what}: {took:?}");
    assert!(took < limit, "{what} took {took:?}, more than {limit:?}");
}

#[test]
fn ten_thousand_operators_deep() {
    let context = Context::new();
    let m = context.module("deep");
    let (a, c) = (m.input("a", 16), m.input("c", 1));
    let sum = (0..10_000u32).fold(a, |sum, index| sum + a.lit(index % 7 + 1));
    m.output_of("sum", sum);
    let expected = (0..10_000u64).map(|index| index % 7 + 1).sum::<u64>() & 0xffff;
    // Deep on either side of a multiplexer, in a wire and in a register.
    let choose = |on_then: bool| {
        (0..10_000u32).fold(a, |value, index| {
            let condition = a.eq_lit(index % 50);
            let other = a.lit(index % 100);
            if on_then {
                condition.mux(value, other)
            } else {
                condition.mux(other, value)
            }
        })
    };
    for (name, on_then) in [("then", true), ("otherwise", false)] {
        m.output_of(name, choose(on_then) ^ c.repeat(16));
        let held = m.reg(&format!("held_{name}"), 16);
        held.set(c.mux(held, choose(on_then)));
        m.output_of(&format!("later_{name}"), held);
    }
    let definition = m.finish();
    assert!(definition.verilog_text().len() < 20_000_000);
    let mut run = Evaluator::new(definition);
    assert_eq!(run.get_u64("sum"), expected);
    run.set("a", 49);
    run.clock();
    assert_eq!(run.get_u64("otherwise"), 9_999 % 100);
    assert_eq!(run.get_u64("later_otherwise"), 9_999 % 100);
}

#[test]
fn ten_thousand_conditions_in_a_chain() {
    within(Duration::from_secs(10), "10,000 else_when", || {
        let context = Context::new();
        let m = context.module("chain");
        let a = m.input("a", 14);
        let (held, wire) = (m.reg("held", 14).reset(0), m.wire("level", 14));
        let mut when = m.when(a.eq_lit(0), || {
            held.set_lit(1);
            wire.set_lit(1);
        });
        for index in 1..10_000u32 {
            when = when.else_when(a.eq_lit(index), || {
                held.set_lit(index / 2);
                wire.set_lit(index / 3);
            });
        }
        when.otherwise(|| wire.set_lit(7));
        m.output_of("later", held);
        m.output_of("now", wire);
        let definition = m.finish();
        let text = definition.verilog_text();
        assert!(text.len() < 5_000_000, "{} bytes", text.len());
        let mut run = Evaluator::new(definition);
        run.set("a", 9_001);
        assert_eq!(run.get_u64("now"), 3_000);
        run.clock();
        assert_eq!(run.get_u64("later"), 4_500);
    });
}

#[test]
fn a_thousand_registers_under_a_hundred_conditions() {
    within(Duration::from_secs(10), "1,000 registers, 100 conditions", || {
        let context = Context::new();
        let m = context.module("registers");
        let a = m.input("a", 8);
        let registers: Vec<Signal<'_>> = (0..1_000)
            .map(|index| m.reg(&format!("r{index}"), 8).reset(0))
            .collect();
        for condition in 0..100u32 {
            m.when(a.eq_lit(condition), || {
                for (index, register) in registers.iter().enumerate() {
                    register.set(*register + register.lit((condition + index as u32) % 256));
                }
            });
        }
        m.output_of("y", cat(&registers));
        assert!(!m.finish().verilog_text().is_empty());
    });
}

#[test]
fn many_conditions_with_few_assignments_each() {
    within(
        Duration::from_secs(10),
        "20,000 conditions over 2,000 registers",
        || {
            let context = Context::new();
            let m = context.module("sparse");
            let a = m.input("a", 16);
            let registers: Vec<Signal<'_>> = (0..2_000)
                .map(|index| m.reg(&format!("r{index}"), 8).reset(0))
                .collect();
            for index in 0..20_000u32 {
                m.when(a.eq_lit(index), || {
                    registers[index as usize % 2_000].set_lit(index % 256);
                });
            }
            m.output_of("y", cat(&registers));
            assert!(!m.finish().verilog_text().is_empty());
        },
    );
}

#[test]
fn a_hundred_thousand_bits_wide() {
    within(Duration::from_secs(20), "100,000 bits", || {
        const WIDE: u32 = 100_000;
        let context = Context::new();
        let m = context.module("wide");
        let (a, b) = (m.input("a", WIDE), m.input("b", 17));
        let constants: Vec<Signal<'_>> = (0..2_000u32).map(|index| m.lit(index % 2, 1)).collect();
        m.output_of("constants", cat(&constants));
        m.output_of("sum", a + a.lit(Bits::ones(WIDE)));
        m.output_of("shifted", a >> b);
        m.output_of("reversed", cat(&a.to_bits()));
        m.output_of("same", cat_lsb_first(&a.to_bits()));
        m.output_of("below_5", a.lt(a.lit(5)));
        let definition = m.finish();
        let text = definition.verilog_text();
        assert!(text.contains("assign same = a;"));
        let mut run = Evaluator::new(definition);
        let mut value = Bits::zero(WIDE);
        value.set_bit(99_999, true);
        value.set_bit(64_000, true);
        run.set("a", value.clone());
        run.set("b", 64_000);
        assert_eq!(run.get("same"), value);
        assert!(run.get("reversed").bit(0) && run.get("reversed").bit(99_999 - 64_000));
        assert_eq!(run.get("shifted").part(0, 36_000).to_u128(), None);
        assert!(run.get("shifted").bit(0) && run.get("shifted").bit(35_999));
        assert_eq!(run.get_u64("below_5"), 0);
        let mut less = Bits::ones(64_000);
        less = Bits::cat(&[Bits::from_words(36_000, &value_above(&value)), less]);
        assert_eq!(run.get("sum"), less);
        assert_eq!(run.get("constants").part(0, 4).to_u64(), Some(0b0101));
    });
}

/// Bits 99,999 to 64,000 of a value, less one.
fn value_above(value: &Bits) -> Vec<u64> {
    let mut words = value.part(64_000, 36_000).words().to_vec();
    words[0] -= 1;
    words
}

/// A pipeline of 512 bits with the share of operators, registers and memories that blocks of a NIC have.
fn pipeline<'a>(context: &'a Context, index: u32, stages: u32) -> Definition<'a> {
    let m = context.module(&format!("pipeline_{index}"));
    let (data, valid) = (m.input("data", 512), m.input("valid", 1));
    let (mut word, mut alive) = (data, valid);
    for stage in 0..stages {
        let fields: Vec<Signal<'_>> = (0..16).map(|field| word.part(field * 32, 32)).collect();
        let key = fields[(stage % 16) as usize] ^ m.lit(index * 1_000 + stage, 32);
        let changed: Vec<Signal<'_>> = fields
            .iter()
            .enumerate()
            .map(|(at, field)| {
                let sum = (*field + key).named(&format!("sum_{stage}_{at}"));
                let limit = sum.lt(key) & alive;
                limit.mux(sum, (*field << (at as u32)) | key.part(0, 16).zero_extend(32))
            })
            .collect();
        let held = m.reg(&format!("word_{stage}"), 512);
        let valid = m.reg(&format!("valid_{stage}"), 1).reset(0);
        let count = m.reg(&format!("count_{stage}"), 32).reset(0);
        valid.set(alive);
        m.when(alive, || {
            held.set(cat_lsb_first(&changed));
            count.set(count + count.lit(1));
            m.switch(key.part(0, 3), |s| {
                for value in 0..6u32 {
                    s.case(value, || held.set(cat_lsb_first(&changed) ^ held.lit(value)));
                }
            });
        });
        m.output_of(&format!("count_{stage}_now"), count);
        (word, alive) = (held, valid);
    }
    let memory = m.memory("lookup", 512, 512).style(MemoryStyle::Block);
    memory.write(alive, word.part(0, 9), word);
    m.output_of("table_word", memory.read(alive, word.part(9, 9)));
    m.output_of("out", word);
    m.output_of("out_valid", alive);
    m.finish()
}

/// As large as a NIC of 512 bits, or larger: 40 distinct modules of 500 nodes each, about 20,000 nodes.
#[test]
fn a_nic_is_emitted_in_well_under_a_second() {
    let context = Context::new();
    let mut size = 0;
    within(
        Duration::from_secs(5),
        "a design as large as a NIC, built, checked and printed",
        || {
            let top = context.module("top");
            let (data, valid) = (top.input("data", 512), top.input("valid", 1));
            let (mut word, mut alive) = (data, valid);
            for index in 0..40 {
                let part = top.instance(&format!("u_{index}"), pipeline(&context, index, 4));
                part.connect("data", word).connect("valid", alive);
                word = part.output("out");
                alive = part.output("out_valid");
                top.output_of(&format!("table_{index}"), part.output("table_word"));
                for stage in 0..4 {
                    top.output_of(
                        &format!("count_{index}_{stage}"),
                        part.output(&format!("count_{stage}_now")),
                    );
                }
            }
            top.output_of("out", word);
            top.output_of("out_valid", alive);
            size = top.finish().verilog_text().len();
        },
    );
    eprintln!("{size} bytes of Verilog");
    assert!(size > 500_000, "{size} bytes are not a NIC");
}
