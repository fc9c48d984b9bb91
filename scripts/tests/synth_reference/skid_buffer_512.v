// A hand-written 512-bit AXI4-Stream skid buffer: both directions are registered, one beat a clock.
// It is the yardstick for the generated skid_buffer and is part of no design.
`default_nettype none
module skid_buffer_512 #(
    parameter DATA_WIDTH = 512,
    parameter USER_WIDTH = 1
) (
    input  wire                    clk,
    input  wire                    rst,
    input  wire [DATA_WIDTH-1:0]   s_axis_tdata,
    input  wire [DATA_WIDTH/8-1:0] s_axis_tkeep,
    input  wire                    s_axis_tlast,
    input  wire [USER_WIDTH-1:0]   s_axis_tuser,
    input  wire                    s_axis_tvalid,
    output wire                    s_axis_tready,
    output wire [DATA_WIDTH-1:0]   m_axis_tdata,
    output wire [DATA_WIDTH/8-1:0] m_axis_tkeep,
    output wire                    m_axis_tlast,
    output wire [USER_WIDTH-1:0]   m_axis_tuser,
    output wire                    m_axis_tvalid,
    input  wire                    m_axis_tready
);
    localparam WIDTH = DATA_WIDTH + DATA_WIDTH / 8 + 1 + USER_WIDTH;

    reg  [WIDTH-1:0] out_payload;
    reg  [WIDTH-1:0] skid_payload;
    reg              out_valid;
    reg              ready;       // registered: the skid register is empty
    wire [WIDTH-1:0] in_payload = {s_axis_tuser, s_axis_tlast, s_axis_tkeep, s_axis_tdata};
    wire             out_moves = m_axis_tready || !out_valid;

    always @(posedge clk) begin
        if (out_moves)
            out_payload <= ready ? in_payload : skid_payload;
        if (ready)
            skid_payload <= in_payload;
        if (rst) begin
            out_valid <= 1'b0;
            ready     <= 1'b0;
        end else begin
            if (out_moves)
                out_valid <= s_axis_tvalid && ready || skid_full;
            ready <= out_moves || (ready && !s_axis_tvalid);
        end
    end

    // While ready is low after reset the skid register is empty, else it holds a beat.
    reg skid_full;
    always @(posedge clk)
        if (rst || out_moves)
            skid_full <= 1'b0;
        else if (ready && s_axis_tvalid)
            skid_full <= 1'b1;

    assign s_axis_tready = ready;
    assign m_axis_tvalid = out_valid;
    assign {m_axis_tuser, m_axis_tlast, m_axis_tkeep, m_axis_tdata} = out_payload;
endmodule
`default_nettype wire
