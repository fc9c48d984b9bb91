// Ports of every width class: what goes in comes out inverted, at once and one clock later.
module widths (
    input  wire         clk,
    input  wire         rst,
    input  wire         in_1,
    input  wire [7:0]   in_8,
    input  wire [15:0]  in_16,
    input  wire [31:0]  in_32,
    input  wire [32:0]  in_33,
    input  wire [63:0]  in_64,
    input  wire [64:0]  in_65,
    input  wire [511:0] in_512,
    input  wire [599:0] in__600,
    output wire         out_1,
    output wire [7:0]   out_8,
    output wire [15:0]  out_16,
    output wire [31:0]  out_32,
    output wire [32:0]  out_33,
    output wire [63:0]  out_64,
    output wire [64:0]  out_65,
    output wire [511:0] out_512,
    output wire [599:0] out__600,
    output reg  [64:0]  late_65,
    output reg  [7:0]   template
);
    assign {out_1, out_8, out_16, out_32} = ~{in_1, in_8, in_16, in_32};
    assign {out_33, out_64, out_65} = ~{in_33, in_64, in_65};
    assign {out_512, out__600} = ~{in_512, in__600};
    always @(posedge clk) begin
        late_65 <= ~in_65;
        template <= rst ? 8'd0 : template + 8'd1;
    end
endmodule
