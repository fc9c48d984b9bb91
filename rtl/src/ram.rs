//! The RAM wrapper modules: one for each style and policy, with parameters for the sizes.
//!
//! `WIDTH` bits a word, `DEPTH` words, `ADDRESS` address bits, one write strobe for each `GRANULE` bits. Replace a file to put a vendor
//! macro, an ECC or a black box in its place.

use crate::ir::{Memory, MemoryStyle, ReadDuringWrite};

/// Name of the wrapper of a memory.
pub(crate) fn name(memory: &Memory) -> String {
    let style = match memory.style {
        MemoryStyle::Block => "block",
        MemoryStyle::Ultra => "ultra",
        MemoryStyle::Distributed => "distributed",
    };
    let combinational = memory.read.as_ref().is_some_and(|port| port.enable.is_none());
    let policy = match memory.policy {
        _ if combinational => "now",
        ReadDuringWrite::Old => "old",
        ReadDuringWrite::New => "new",
        ReadDuringWrite::DontCare => "dont_care",
    };
    format!("ram_{style}_{policy}")
}

/// Whether a wrapper could have this name, whatever its case (files may be told apart without it).
pub(crate) fn is_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let policies = ["now", "old", "new", "dont_care"];
    ["block", "ultra", "distributed"].iter().any(|style| {
        lower
            .strip_prefix(&format!("ram_{style}_"))
            .is_some_and(|policy| policies.contains(&policy))
    })
}

/// Verilog of the wrapper of a memory.
pub(crate) fn text(memory: &Memory) -> String {
    let name = name(memory);
    let style = match memory.style {
        MemoryStyle::Block => "block",
        MemoryStyle::Ultra => "ultra",
        MemoryStyle::Distributed => "distributed",
    };
    let combinational = name.ends_with("_now");
    let free = if combinational || memory.policy != ReadDuringWrite::Old {
        ", no_rw_check"
    } else {
        ""
    };
    let what = match memory.policy {
        _ if combinational => "The read is combinational: the old word while it is being written.",
        ReadDuringWrite::Old => "A read of the word being written returns the old word.",
        ReadDuringWrite::New => {
            "A read of the word being written returns the new word: a bypass beside the RAM sees to it."
        }
        ReadDuringWrite::DontCare => {
            "A read of the word being written returns anything; with RTL_ASSERTIONS the inverted old word, so that\n// reliance on it is found."
        }
    };
    let read_enable = if combinational {
        ""
    } else {
        "    input  wire read_enable,\n"
    };
    let read = match memory.policy {
        _ if combinational => NOW,
        ReadDuringWrite::Old => OLD,
        ReadDuringWrite::New => NEW,
        ReadDuringWrite::DontCare => DONT_CARE,
    };
    format!(
        "// {name}\n//\n// RAM with one write port and one read port. {what}\n// Contents are not reset.\n
`default_nettype none

module {name} #(
    parameter WIDTH = 8,    // bits of a word
    parameter DEPTH = 2,    // words
    parameter ADDRESS = 1,  // bits of an address
    parameter GRANULE = 8   // bits of a word that share a write strobe; divides WIDTH
) (
    input  wire clk,
    input  wire write_enable,
    input  wire [ADDRESS-1:0] write_address,
    input  wire [WIDTH-1:0] write_data,
    input  wire [WIDTH/GRANULE-1:0] write_strobe,
{read_enable}    input  wire [ADDRESS-1:0] read_address,
    output wire [WIDTH-1:0] read_data
);

    (* ram_style = \"{style}\"{free} *) reg [WIDTH-1:0] memory [0:DEPTH-1];

    genvar g;
    generate
        for (g = 0; g < WIDTH / GRANULE; g = g + 1) begin : granules
            always @(posedge clk) begin
                if (write_enable && write_strobe[g]) begin
                    memory[write_address][g*GRANULE +: GRANULE] <= write_data[g*GRANULE +: GRANULE];
                end
            end
        end
    endgenerate

{read}
endmodule

`default_nettype wire
"
    )
}

const NOW: &str = "    assign read_data = memory[read_address];
";

const OLD: &str = "    reg [WIDTH-1:0] word;
    always @(posedge clk) begin
        if (read_enable) begin
            word <= memory[read_address];
        end
    end
    assign read_data = word;
";

const DONT_CARE: &str = "    reg [WIDTH-1:0] word;
    always @(posedge clk) begin
        if (read_enable) begin
`ifdef RTL_ASSERTIONS
            word <= (write_enable && write_address == read_address) ? ~memory[read_address] : memory[read_address];
`else
            word <= memory[read_address];
`endif
        end
    end
    assign read_data = word;
";

const NEW: &str = "    reg [WIDTH-1:0] word;
    reg [WIDTH-1:0] bypass;
    reg [WIDTH/GRANULE-1:0] bypassed;
    always @(posedge clk) begin
        if (read_enable) begin
            word <= memory[read_address];
            bypass <= write_data;
            bypassed <= (write_enable && write_address == read_address) ? write_strobe : {WIDTH/GRANULE{1'b0}};
        end
    end
    generate
        for (g = 0; g < WIDTH / GRANULE; g = g + 1) begin : reads
            assign read_data[g*GRANULE +: GRANULE] = bypassed[g] ? bypass[g*GRANULE +: GRANULE]
                                                                 : word[g*GRANULE +: GRANULE];
        end
    endgenerate
";
