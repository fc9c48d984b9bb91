// A register slice of 64 bits that breaks one rule of AXI4-Stream, as `fault` says.
module broken (
    input  wire        clk,
    input  wire        rst,
    input  wire [3:0]  fault,
    input  wire [63:0] s_axis_tdata,
    input  wire [7:0]  s_axis_tkeep,
    input  wire        s_axis_tlast,
    input  wire        s_axis_tuser,
    input  wire        s_axis_tvalid,
    output wire        s_axis_tready,
    output wire [63:0] m_axis_tdata,
    output wire [7:0]  m_axis_tkeep,
    output wire        m_axis_tlast,
    output wire        m_axis_tuser,
    output wire        m_axis_tvalid,
    input  wire        m_axis_tready
);
    reg [63:0] data;
    reg [7:0]  keep;
    reg        last, user, valid, ready_seen;
    reg [7:0]  waited, beats;

    wire stuck  = fault == 4'd10 && beats == 8'd3;
    wire bubble = fault == 4'd8 && beats[1:0] == 2'd2 && waited == 8'd0;

    assign s_axis_tready = (!valid || (m_axis_tready && m_axis_tvalid)) && !stuck;
    assign m_axis_tdata  = data ^ ((fault == 4'd1 && waited == 8'd2) ? 64'h100 : 64'h0);
    assign m_axis_tkeep  = (fault == 4'd2 && beats == 8'd3) ? 8'h5f :
                           (fault == 4'd3 && beats == 8'd3) ? 8'h7f :
                           (fault == 4'd4 && beats == 8'd3) ? 8'h00 : keep;
    assign m_axis_tlast  = fault == 4'd9 ? 1'b0 : last;
    assign m_axis_tuser  = (fault == 4'd7 && beats == 8'd3) ? ~user : user;
    assign m_axis_tvalid = valid && !bubble && !stuck && !(fault == 4'd5 && waited == 8'd2) && !(fault == 4'd6 && !m_axis_tready)
                           && !(fault == 4'd11 && !ready_seen);

    always @(posedge clk) begin
        ready_seen <= m_axis_tready;
        waited     <= valid && !(m_axis_tready && m_axis_tvalid) ? waited + 8'd1 : 8'd0;
        if (m_axis_tvalid && m_axis_tready) beats <= beats + 8'd1;
        if (s_axis_tready) begin
            valid <= s_axis_tvalid;
            data  <= s_axis_tdata;
            keep  <= s_axis_tkeep;
            last  <= s_axis_tlast;
            user  <= s_axis_tuser;
        end
        if (rst) begin
            valid  <= 1'b0;
            waited <= 8'd0;
            beats  <= 8'd0;
        end
    end
endmodule
