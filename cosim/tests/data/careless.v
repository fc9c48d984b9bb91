// A register slice of 32 bits with mistakes that `fault` chooses.
module careless (
    input  wire        clk,
    input  wire        rst,
    input  wire [1:0]  fault,
    input  wire [31:0] s_axis_tdata,
    input  wire [3:0]  s_axis_tkeep,
    input  wire        s_axis_tlast,
    input  wire        s_axis_tvalid,
    output wire        s_axis_tready,
    output reg  [31:0] m_axis_tdata,
    output reg  [3:0]  m_axis_tkeep,
    output reg         m_axis_tlast,
    output reg         m_axis_tvalid,
    input  wire        m_axis_tready,
    output reg  [31:0] count_beats
);
    reg [3:0] pace;
    assign s_axis_tready = (!m_axis_tvalid || m_axis_tready) && (fault != 2'd2 || pace != 4'd0);

    always @(posedge clk) begin
        if (s_axis_tready) begin
            m_axis_tvalid <= s_axis_tvalid;
            // Fault 1: a byte of 0xa7 at offset 2 is lost.
            m_axis_tdata <= (fault == 2'd1 && s_axis_tdata[23:16] == 8'ha7) ? {s_axis_tdata[31:24], 8'h00, s_axis_tdata[15:0]}
                                                                           : s_axis_tdata;
            m_axis_tkeep  <= s_axis_tkeep;
            m_axis_tlast  <= s_axis_tlast;
        end else if (m_axis_tready) m_axis_tvalid <= 1'b0;
        // Fault 2: the pace goes on over a reset.
        pace <= pace + 4'd1;
        if (m_axis_tvalid && m_axis_tready) count_beats <= count_beats + 32'd1;
        if (rst) begin
            m_axis_tvalid <= 1'b0;
            // Fault 3: the counter goes on over a reset.
            if (fault != 2'd3) count_beats <= 32'd0;
        end
    end
endmodule
