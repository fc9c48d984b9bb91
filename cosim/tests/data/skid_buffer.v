// A register slice: both directions registered, one beat a clock.
module skid_buffer #(
    parameter WIDTH = 512
) (
    input  wire                clk,
    input  wire                rst,
    input  wire [WIDTH-1:0]    s_axis_tdata,
    input  wire [WIDTH/8-1:0]  s_axis_tkeep,
    input  wire                s_axis_tlast,
    input  wire [2:0]          s_axis_tuser,
    input  wire                s_axis_tvalid,
    output wire                s_axis_tready,
    output wire [WIDTH-1:0]    m_axis_tdata,
    output wire [WIDTH/8-1:0]  m_axis_tkeep,
    output wire                m_axis_tlast,
    output wire [2:0]          m_axis_tuser,
    output wire                m_axis_tvalid,
    input  wire                m_axis_tready,
    output reg  [31:0]         count_frames
);
    localparam BEAT = WIDTH + WIDTH / 8 + 4;

    wire [BEAT-1:0] in = {s_axis_tuser, s_axis_tlast, s_axis_tkeep, s_axis_tdata};
    reg  [BEAT-1:0] first, second;
    reg             first_valid, second_valid;

    assign s_axis_tready = !second_valid;
    assign m_axis_tvalid = first_valid;
    assign {m_axis_tuser, m_axis_tlast, m_axis_tkeep, m_axis_tdata} = first;

    always @(posedge clk) begin
        if (!first_valid || m_axis_tready) begin
            first        <= second_valid ? second : in;
            first_valid  <= second_valid || s_axis_tvalid;
            second_valid <= 1'b0;
        end else if (s_axis_tvalid && s_axis_tready) begin
            second       <= in;
            second_valid <= 1'b1;
        end
        if (m_axis_tvalid && m_axis_tready && m_axis_tlast) count_frames <= count_frames + 32'd1;
        if (rst) begin
            first_valid  <= 1'b0;
            second_valid <= 1'b0;
            count_frames <= 32'd0;
        end
    end
endmodule
