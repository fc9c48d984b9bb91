//! Prints how many clocks a second a 512-bit pipeline of register slices and a FIFO runs: bare, and with drivers and
//! scoreboard. `cargo run --release -p spraynic-cosim --example clock_rate [STAGES]`

use std::error::Error;
use std::fmt::Write as _;
use std::time::Instant;

use spraynic_cosim::{
    Builder, Case, Expectation, Format, Frame, Limits, ModelSource, Pattern, Simulation, SinkChecks, Stimulus,
};

/// A store of 1024 beats between chains of register slices, as a transmit path has them.
fn pipeline(stages: usize) -> ModelSource {
    let slice = include_str!("../tests/data/skid_buffer.v");
    let mut top = String::from(
        "module pipeline(input wire clk, input wire rst,
            input wire [511:0] s_axis_tdata, input wire [63:0] s_axis_tkeep, input wire s_axis_tlast,
            input wire [2:0] s_axis_tuser, input wire s_axis_tvalid, output wire s_axis_tready,
            output wire [511:0] m_axis_tdata, output wire [63:0] m_axis_tkeep, output wire m_axis_tlast,
            output wire [2:0] m_axis_tuser, output wire m_axis_tvalid, input wire m_axis_tready,
            output wire [31:0] count_frames);\n",
    );
    for stage in 0..=stages {
        let _ = writeln!(
            top,
            "wire [511:0] d{stage}; wire [63:0] k{stage}; wire l{stage}, v{stage}, r{stage}; wire [2:0] u{stage};"
        );
    }
    top.push_str(
        "assign d0 = s_axis_tdata; assign k0 = s_axis_tkeep; assign l0 = s_axis_tlast; assign u0 = s_axis_tuser;
         assign v0 = s_axis_tvalid; assign s_axis_tready = r0;\n",
    );
    for stage in 0..stages {
        let next = stage + 1;
        let count = if next == stages { "count_frames" } else { "" };
        let _ = writeln!(
            top,
            "skid_buffer s{stage}(.clk(clk), .rst(rst), .s_axis_tdata(d{stage}), .s_axis_tkeep(k{stage}), \
             .s_axis_tlast(l{stage}), .s_axis_tuser(u{stage}), .s_axis_tvalid(v{stage}), .s_axis_tready(r{stage}), \
             .m_axis_tdata(d{next}), .m_axis_tkeep(k{next}), .m_axis_tlast(l{next}), .m_axis_tuser(u{next}), \
             .m_axis_tvalid(v{next}), .m_axis_tready(r{next}), .count_frames({count}));"
        );
    }
    let _ = writeln!(
        top,
        "reg [579:0] memory [0:1023]; reg [10:0] head, tail; reg [579:0] out; reg out_valid;
         wire full = head[9:0] == tail[9:0] && head[10] != tail[10];
         wire pop = head != tail && (!out_valid || m_axis_tready);
         assign r{stages} = !full;
         assign {{m_axis_tuser, m_axis_tlast, m_axis_tkeep, m_axis_tdata}} = out;
         assign m_axis_tvalid = out_valid;
         always @(posedge clk) begin
             if (v{stages} && !full) begin
                 memory[head[9:0]] <= {{u{stages}, l{stages}, k{stages}, d{stages}}};
                 head <= head + 11'd1;
             end
             if (pop) begin out <= memory[tail[9:0]]; tail <= tail + 11'd1; end
             if (!out_valid || m_axis_tready) out_valid <= head != tail;
             if (rst) begin head <= 0; tail <= 0; out_valid <= 0; end
         end
         endmodule"
    );
    ModelSource {
        top: "pipeline".into(),
        files: vec![("skid_buffer.v".into(), slice.into()), ("pipeline.v".into(), top)],
        ports: Vec::new(),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let stages = std::env::args().nth(1).map_or(Ok(8), |text| text.parse())?;
    let start = Instant::now();
    let model = Builder::new().build(&pipeline(stages))?;
    println!(
        "model ready in {:?} (Verilator {})",
        start.elapsed(),
        model.verilator_version()
    );
    let start = Instant::now();
    Builder::new().build(&pipeline(stages))?;
    println!("unchanged model ready in {:?}", start.elapsed());

    let mut simulation = Simulation::new(&model, 1);
    simulation.reset(4)?;
    let (data, valid) = (simulation.input("s_axis_tdata")?, simulation.input("s_axis_tvalid")?);
    simulation.set(valid, 1);
    simulation.set_by_name("m_axis_tready", 1)?;
    let clocks = 2_000_000;
    let start = Instant::now();
    for clock in 0..clocks {
        simulation.set(data, clock);
        simulation.step()?;
    }
    println!(
        "bare step: {:.0} clocks/s ({stages} stages)",
        clocks as f64 / start.elapsed().as_secs_f64()
    );

    for (name, length, stalls) in [
        ("frames of 64 bytes", 64, Pattern::Always),
        ("frames of 1500 bytes", 1500, Pattern::Always),
        (
            "frames of 1500 bytes, half the clocks stalled",
            1500,
            Pattern::Random { chance: 128, seed: 3 },
        ),
    ] {
        let beats = 600_000;
        let count = beats * 64 / length.max(64);
        let frames: Vec<Frame> = (0..count).map(|index| Frame::new(vec![index as u8; length])).collect();
        let case = Case {
            stimulus: Stimulus::default()
                .source("s_axis", Pattern::Always, frames.clone())
                .sink("m_axis", stalls, SinkChecks::default()),
            expectation: Expectation::default().stream("m_axis", Format::Bytes, frames),
        };
        let start = Instant::now();
        let outcome = case.run(&mut simulation, Limits::default())?;
        let rate = outcome.cycles as f64 / start.elapsed().as_secs_f64();
        println!("drivers and scoreboard, {name}: {rate:.0} clocks/s");
    }
    Ok(())
}
