//! Ports of every width, the clock, names that Verilator changes, and models that stop.

mod common;

use std::sync::Arc;

use common::{have_verilator, model};
use proptest::prelude::*;
use spraynic_cosim::{Builder, ModelSource, Simulation, SimulationError};

#[test]
fn every_width_goes_in_and_out() {
    if !have_verilator() {
        return;
    }
    let model = model("widths");
    let simulation = std::cell::RefCell::new(Simulation::new(&model, 3));
    let pairs = ["_1", "_8", "_16", "_32", "_33", "_64", "_65", "_512", "__600"];
    proptest!(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() },
    |(bytes in prop::collection::vec(any::<u8>(), 75))| {
        let mut simulation = simulation.borrow_mut();
        let input_65 = simulation.input("in_65")?;
        for pair in pairs {
            let (input, output) = (simulation.input(&format!("in{pair}"))?, simulation.output(&format!("out{pair}"))?);
            simulation.set_bytes(input, &bytes);
            simulation.eval()?;
            let width = input.width() as usize;
            let inverted = |bit: usize| bytes[bit / 8] >> (bit % 8) & 1 == 0;
            for bit in 0..simulation.bytes(output).len() * 8 {
                let got = simulation.bytes(output)[bit / 8] >> (bit % 8) & 1 == 1;
                prop_assert_eq!(got, bit < width && inverted(bit), "bit {} of {}", bit, pair);
            }
            let low = u64::from_le_bytes(bytes[..8].try_into()?);
            simulation.set(input, low);
            simulation.eval()?;
            let mask = if width < 64 { (1 << width) - 1 } else { u64::MAX };
            prop_assert_eq!(simulation.get(output), !low & mask);
        }
        // The register takes its input at the end of the cycle, so the next cycle shows it.
        simulation.set_bytes(input_65, &bytes);
        simulation.step()?;
        let (at_once, late) = (simulation.output("out_65")?, simulation.output("late_65")?);
        let expected = simulation.bytes(at_once).to_vec();
        simulation.step()?;
        prop_assert_eq!(simulation.bytes(late), expected);
    });
}

#[test]
fn step_clocks_once_and_samples_before_the_edge() {
    if !have_verilator() {
        return;
    }
    let mut simulation = Simulation::new(&model("widths"), 1);
    simulation.reset(2).unwrap();
    assert_eq!(simulation.cycle(), 2);
    for expected in 0..5 {
        simulation.step().unwrap();
        assert_eq!(simulation.get_by_name("template"), Ok(expected));
    }
    // Evaluating is not clocking.
    simulation.eval().unwrap();
    simulation.eval().unwrap();
    assert_eq!(simulation.get_by_name("template"), Ok(5));
    simulation.run(10).unwrap();
    assert_eq!(simulation.get_by_name("template"), Ok(14));
    assert_eq!(simulation.cycle(), 17);
}

#[test]
fn wrong_names_and_values_are_named() {
    if !have_verilator() {
        return;
    }
    let mut simulation = Simulation::new(&model("widths"), 1);
    let message = simulation.input("in_9").unwrap_err().to_string();
    assert!(
        message.contains("no input in_9") && message.contains("in_8, in_16"),
        "{message}"
    );
    assert!(simulation.input("clk").is_err(), "the clock is the harness's");
    assert!(simulation.output("in_8").is_err());
    let message = simulation.set_by_name("in_33", 1 << 33).unwrap_err().to_string();
    assert!(
        message.contains("0x200000000") && message.contains("33 bits"),
        "{message}"
    );
    assert_eq!(simulation.set_by_name("in_33", (1 << 33) - 1), Ok(()));
}

fn build(top: &str, text: &str) -> Arc<spraynic_cosim::Model> {
    Builder::new()
        .build(&ModelSource::from_verilog(top, text))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// The message with which the model stops within 20 clocks, and the cycle.
fn stops(model: &Arc<spraynic_cosim::Model>) -> (u64, String) {
    let mut simulation = Simulation::new(model, 1);
    for _ in 0..20 {
        if let Err(SimulationError::Stopped { cycle, message, .. }) = simulation.step() {
            assert!(simulation.step().is_err(), "a stopped model does not go on");
            return (cycle, message);
        }
    }
    panic!("the model did not stop");
}

#[test]
fn a_model_that_stops_is_an_error_with_its_message() {
    if !have_verilator() {
        return;
    }
    let model = build(
        "stopping",
        "module stopping(input wire clk, input wire rst, input wire [2:0] how, output reg [31:0] n);
            initial n = 0;
            always @(posedge clk) begin
                n <= n + 1;
                if (n == 5) case (how)
                    1: $stop;
                    2: $finish;
                    3: $fatal(1, \"fatally wrong %0d\", n);
                    4: $error(\"wrong %0d\", n);
                    5: assert (n != 5) else $error(\"asserted %0d\", n);
                    6: $display(\"only talk %0d\", n);
                endcase
            end
        endmodule",
    );
    for (how, text) in [
        (1, "stopping.v:6"),
        (2, "$finish"),
        (3, "fatally wrong 5"),
        (4, "wrong 5"),
        (5, "asserted 5"),
        (6, ""),
    ] {
        let mut simulation = Simulation::new(&model, 1);
        simulation.set_by_name("how", how).unwrap();
        let result = (0..20).try_for_each(|_| simulation.step());
        if how == 6 {
            assert_eq!(result, Ok(()));
            assert!(simulation.take_log().contains("only talk 5"));
            continue;
        }
        let Err(SimulationError::Stopped { cycle, message, .. }) = result else {
            panic!("{how} did not stop")
        };
        assert_eq!(cycle, 5, "{message}");
        assert!(message.contains(text), "{how}: {message:?} should contain {text:?}");
        assert!(simulation.step().is_err(), "a stopped model does not go on");
    }
}

#[test]
fn logic_that_never_settles_is_an_error() {
    if !have_verilator() {
        return;
    }
    let model = build(
        "ring",
        "module ring(input wire clk, output reg a);
            reg on, b; initial on = 0;
            always @(posedge clk) on <= 1;
            always @* b = on ? a : 1'b0;
            always @* a = ~b;
        endmodule",
    );
    let (_, message) = stops(&model);
    assert!(message.contains("converge"), "{message}");
}

#[test]
fn the_seed_chooses_the_initial_state() {
    if !have_verilator() {
        return;
    }
    let text = "module unset(input wire clk, output reg [63:0] q); always @(posedge clk) q <= q; endmodule";
    let model = build("unset", text);
    let start = |model, seed| {
        let mut simulation = Simulation::new(model, seed);
        simulation.step().unwrap();
        simulation.get_by_name("q").unwrap()
    };
    assert_eq!(start(&model, 1), start(&model, 1));
    assert_ne!(start(&model, 1), start(&model, 3));
    let zero = Builder::new()
        .random_initial(false)
        .build(&ModelSource::from_verilog("unset", text))
        .unwrap();
    assert_eq!(start(&zero, 1), 0);
}

#[test]
fn models_run_in_threads_side_by_side() {
    if !have_verilator() {
        return;
    }
    let (widths, fifo) = (model("widths"), model("fifo"));
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let model = if thread % 2 == 0 { &widths } else { &fifo };
            scope.spawn(move || {
                for seed in 0..50 {
                    let mut simulation = Simulation::new(model, seed);
                    simulation.reset(2).unwrap();
                    simulation.run(100 + thread).unwrap();
                    if thread % 2 == 0 {
                        assert_eq!(simulation.get_by_name("template"), Ok(99 + thread));
                    }
                }
            });
        }
    });
}
