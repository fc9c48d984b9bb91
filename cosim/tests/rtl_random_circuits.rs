//! Random circuits and fixed ones: the evaluator of `spraynic-rtl` against Verilator, every output in every cycle; and what
//! other tools say of the Verilog.
//!
//! Many circuits are instances of one top, so that one Verilated model covers them. `RTL_CIRCUITS_SEED` chooses others,
//! `RTL_CIRCUITS` how many. A failure is made smaller by taking steps out, a batch of candidates at a time.

mod common;
#[path = "../../rtl/examples/fifo.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "an example has a main and its function is public"
)]
mod fifo;
mod rtl_circuits;
#[path = "../../rtl/examples/token_bucket.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "an example has a main and its function is public"
)]
mod token_bucket;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use common::have_verilator;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rtl_circuits::{Recipe, What, build, random, recipe};
use spraynic_cosim::{Builder, Input, ModelSource, Output, Simulation};
use spraynic_rtl::{Bits, Context, Definition, Evaluator, Module};

const CYCLES: u32 = 150;

fn variable(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is no number")),
        Err(_) => default,
    }
}

fn seed() -> u64 {
    variable("RTL_CIRCUITS_SEED", 1)
}

fn recipes(seed: u64, count: u64) -> Vec<Recipe> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = recipe(2);
    (0..count)
        .map(|_| strategy.new_tree(&mut runner).expect("nothing is rejected").current())
        .collect()
}

/// All circuits side by side in one module: ports `cN_port_NAME` for circuit N.
fn batch<'a>(context: &'a Context, recipes: &[Recipe]) -> Definition<'a> {
    let circuits = recipes.iter().enumerate();
    let circuits = circuits.map(|(index, recipe)| {
        let definition = build(context, &format!("circuit_{index}"), recipe);
        (format!("c{index}"), definition)
    });
    side_by_side(context, circuits.collect())
}

/// The same with the examples of rtl/README.md.
fn batch_and_examples<'a>(context: &'a Context, recipes: &[Recipe]) -> Definition<'a> {
    let examples = vec![
        ("circuits".to_owned(), batch(context, recipes)),
        ("narrow_fifo".to_owned(), fifo::fifo(context, 1, 2)),
        ("wide_fifo".to_owned(), fifo::fifo(context, 577, 32)),
        ("narrow_bucket".to_owned(), token_bucket::token_bucket(context, 1)),
        ("wide_bucket".to_owned(), token_bucket::token_bucket(context, 40)),
    ];
    let top = context.module("examples");
    connect_all(top, examples);
    top.finish()
}

fn side_by_side<'a>(context: &'a Context, circuits: Vec<(String, Definition<'a>)>) -> Definition<'a> {
    let top = context.module("batch");
    // There is a clock and a reset, whatever the circuits have.
    let beat = top.reg("beat", 1).reset(0);
    beat.set(!beat);
    top.output_of("alive", beat);
    connect_all(top, circuits);
    top.finish()
}

fn connect_all<'a>(top: Module<'a>, circuits: Vec<(String, Definition<'a>)>) {
    for (name, circuit) in circuits {
        let instance = top.instance(&name, circuit);
        for port in circuit
            .ports()
            .iter()
            .filter(|port| port.name != "clk" && port.name != "rst")
        {
            let name = format!("{name}_port_{}", port.name);
            if port.output {
                top.output_of(&name, instance.output(&port.name));
            } else {
                instance.connect(&port.name, top.input(&name, port.width));
            }
        }
    }
}

/// The first cycle and output in which both differ, as text.
type Mismatch = String;

/// The next value of an input: random, held, small or an edge.
fn stimulus(width: u32, before: &Bits, state: &mut u64) -> Bits {
    let choice = random(state);
    let words: Vec<u64> = (0..width.div_ceil(64)).map(|_| random(state)).collect();
    match choice % 8 {
        0 => before.clone(),
        1 => Bits::zero(width),
        2 => Bits::ones(width),
        3 => Bits::from_words(width, &[choice >> 61]),
        4 => {
            let mut one = Bits::zero(width);
            one.set_bit((choice >> 8) as u32 % width, true);
            one
        }
        _ => Bits::from_words(width, &words),
    }
}

/// Runs both and returns the first mismatch of each circuit (by the part of the port's name before `_port_`).
fn compare(definition: Definition<'_>, cycles: u32, seed: u64) -> BTreeMap<String, Mismatch> {
    let model = Builder::new()
        .random_initial(false)
        .build(&ModelSource::from_definition(definition))
        .unwrap_or_else(|error| panic!("{error}"));
    let mut simulation = Simulation::new(&model, 1);
    let mut evaluator = Evaluator::new(definition);
    let ports = definition.ports();
    let mut inputs: Vec<(String, Input, Bits)> = vec![];
    let mut outputs: Vec<(String, u32, Output)> = vec![];
    for port in ports.iter().filter(|port| port.name != "clk") {
        if port.output {
            let output = simulation.output(&port.name).expect("a port of the model");
            outputs.push((port.name.clone(), port.width, output));
        } else {
            let input = simulation.input(&port.name).expect("a port of the model");
            inputs.push((port.name.clone(), input, Bits::zero(port.width)));
        }
    }
    let mut state = seed;
    let mut found = BTreeMap::new();
    for cycle in 0..cycles {
        for (name, input, value) in &mut inputs {
            *value = match name.as_str() {
                "rst" => Bits::from_words(1, &[u64::from(cycle == 0 || random(&mut state).is_multiple_of(40))]),
                _ => stimulus(value.width(), value, &mut state),
            };
            simulation.set_bytes(*input, &value.to_bytes());
            evaluator.set(name, value.clone());
        }
        simulation.step().unwrap_or_else(|error| panic!("{error}"));
        for (name, width, output) in &outputs {
            let verilator = Bits::from_bytes(*width, simulation.bytes(*output));
            let ours = evaluator.get(name);
            let (circuit, output) = name.split_once("_port_").unwrap_or(("top", name));
            if ours != verilator {
                found
                    .entry(circuit.to_owned())
                    .or_insert_with(|| format!("cycle {cycle}, {output}: evaluator {ours:?}, Verilator {verilator:?}"));
            }
        }
        evaluator.clock();
    }
    found
}

/// Smaller recipes: halves and single steps taken out, also inside instances.
fn smaller(recipe: &Recipe) -> Vec<Recipe> {
    let count = recipe.steps.len();
    let without = |from: usize, to: usize| {
        let mut less = recipe.clone();
        less.steps.drain(from..to);
        less
    };
    let mut candidates = vec![];
    if count >= 4 {
        candidates.extend([without(0, count / 2), without(count / 2, count)]);
    }
    candidates.extend((0..count).map(|index| without(index, index + 1)));
    for (index, step) in recipe.steps.iter().enumerate() {
        let mut replace = |what: What| {
            let mut less = recipe.clone();
            less.steps[index].what = what;
            candidates.push(less);
        };
        match &step.what {
            What::Instance(inner) => smaller(inner)
                .into_iter()
                .for_each(|inner| replace(What::Instance(inner))),
            What::Control(tree) => (0..tree.len()).for_each(|at| {
                let mut tree = tree.clone();
                tree.remove(at);
                replace(What::Control(tree));
            }),
            _ => {}
        }
    }
    candidates.truncate(48);
    candidates
}

fn shrink(mut recipe: Recipe, seed: u64) -> Recipe {
    for _ in 0..20 {
        let candidates = smaller(&recipe);
        let context = Context::new();
        let found = compare(batch(&context, &candidates), CYCLES, seed);
        let Some(next) = (0..candidates.len()).find(|index| found.contains_key(&format!("c{index}"))) else {
            break;
        };
        recipe = candidates[next].clone();
    }
    recipe
}

#[test]
fn random_circuits_behave_as_their_verilog() {
    if !have_verilator() {
        return;
    }
    let (seed, count) = (seed(), variable("RTL_CIRCUITS", 24));
    let recipes = recipes(seed, count);
    let context = Context::new();
    let found = compare(batch(&context, &recipes), CYCLES, seed);
    let Some((circuit, mismatch)) = found.iter().next() else {
        return;
    };
    let index: usize = circuit[1..].parse().expect("cN");
    let small = shrink(recipes[index].clone(), seed);
    let context = Context::new();
    let definition = batch(&context, std::slice::from_ref(&small));
    let again = compare(definition, CYCLES, seed);
    panic!(
        "{} of {count} circuits of seed {seed} differ; the first, circuit {index}, in {mismatch}\n\
         made smaller: {again:#?}\n{small:#?}\n{}\n\
         To run it again: RTL_CIRCUITS_SEED={seed} RTL_CIRCUITS={count} cargo test -p spraynic-cosim --test rtl_random_circuits",
        found.len(),
        definition.verilog_text(),
    );
}

/// The expressions that the crate rust-hdl 0.46 prints with another meaning than its own simulation, for all operands.
#[test]
fn expressions_of_narrow_operands_keep_their_width() {
    if !have_verilator() {
        return;
    }
    let context = Context::new();
    let m = context.module("expressions");
    let (a, b, c) = (m.input("a", 8), m.input("b", 8), m.input("c", 1));
    let outputs = [
        ("difference_below_128", (b - a).lt(a.lit(128))),
        ("and_before_equal", c & a.eq(b)),
        ("sum_above_carry", (a + b).gt(a.lit(254))),
        ("shifted_sum", (a + b) >> 1),
        ("shifted_by_sum", a >> (a + b)),
        ("inverted_equal", (!a).eq(b)),
        ("wide_sum", a.add_wide(b)),
        ("product", a.mul_wide(b)),
        ("chosen_sum", c.mux(a + b, a - b).lt(b)),
        ("signed_difference", (a - b).lt_signed(a.lit(0))),
    ];
    for (name, value) in outputs {
        m.output_of(name, value);
    }
    m.output_of("later", a.delayed("held"));
    let definition = m.finish();
    let model = Builder::new()
        .random_initial(false)
        .build(&ModelSource::from_definition(definition))
        .unwrap_or_else(|error| panic!("{error}"));
    let mut simulation = Simulation::new(&model, 1);
    let mut evaluator = Evaluator::new(definition);
    for pattern in 0..1u64 << 17 {
        let (x, y, z) = (pattern & 255, pattern >> 8 & 255, pattern >> 16);
        for (name, value) in [("a", x), ("b", y), ("c", z)] {
            simulation.set_by_name(name, value).expect("an input");
            evaluator.set(name, value);
        }
        simulation.eval().expect("it settles");
        let expected = [
            u64::from(y.wrapping_sub(x) & 255 < 128),
            z & u64::from(x == y),
            u64::from((x + y) & 255 > 254),
            ((x + y) & 255) >> 1,
            x.checked_shr(((x + y) & 255) as u32).unwrap_or(0),
            u64::from(!x & 255 == y),
            x + y,
            x * y,
            u64::from([x.wrapping_sub(y), x + y][z as usize] & 255 < y),
            x.wrapping_sub(y) >> 7 & 1,
        ];
        for ((name, _), expected) in outputs.iter().zip(expected) {
            let got = (
                simulation.get_by_name(name).expect("an output"),
                evaluator.get_u64(name),
            );
            assert_eq!(
                got,
                (expected, expected),
                "{name} of a={x} b={y} c={z}: Verilator, evaluator"
            );
        }
    }
}

#[test]
fn verilator_lints_every_file_in_silence() {
    if !have_verilator() {
        return;
    }
    let context = Context::new();
    let source = ModelSource::from_definition(batch_and_examples(&context, &recipes(seed(), 40)));
    for assertions in [false, true] {
        let result = Builder::new().assertions(assertions).lint(&source);
        result.unwrap_or_else(|error| panic!("with assertions {assertions}: {error}"));
    }
}

/// Runs a program in a directory; `None`, with a message, when it is not installed (a failure where CI is set).
fn tool(directory: &Path, program: &str, arguments: &[&str]) -> Option<String> {
    let output = match Command::new(program).args(arguments).current_dir(directory).output() {
        Ok(output) => output,
        Err(error) if std::env::var_os("CI").is_some_and(|ci| !ci.is_empty()) => panic!("{program}: {error}"),
        Err(error) => {
            eprintln!("skipped: {program}: {error}");
            return None;
        }
    };
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{program} {arguments:?} fails: {said}");
    Some(said)
}

#[test]
fn icarus_and_yosys_read_every_file() {
    let context = Context::new();
    let files = batch_and_examples(&context, &recipes(seed(), 40)).verilog();
    let directory = tempfile::tempdir().expect("a temporary directory");
    for file in &files {
        std::fs::write(directory.path().join(&file.name), &file.text).expect("a file");
    }
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    for define in [&[][..], &["-DRTL_ASSERTIONS"]] {
        let arguments = [
            &["-g2005", "-Wall", "-Wno-timescale", "-s", "examples", "-o", "batch.vvp"],
            define,
            &names,
        ]
        .concat();
        if let Some(said) = tool(directory.path(), "iverilog", &arguments) {
            assert_eq!(said, "", "Icarus is not silent");
        }
    }
    let script = format!(
        "read_verilog -formal {}; hierarchy -check -top examples; proc; check",
        names.join(" ")
    );
    if let Some(said) = tool(directory.path(), "yosys", &["-q", "-p", &script]) {
        assert!(
            !said.contains("ERROR") && !said.contains("found and reported"),
            "{said}"
        );
    }
}
