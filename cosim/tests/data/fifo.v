// A FIFO of descriptors: no tlast, no tkeep, 20 bits.
module fifo (
    input  wire        clk,
    input  wire        rst,
    input  wire [19:0] s_axis_tdata,
    input  wire        s_axis_tvalid,
    output wire        s_axis_tready,
    output wire [19:0] m_axis_tdata,
    output wire        m_axis_tvalid,
    input  wire        m_axis_tready
);
    reg [19:0] memory [0:7];
    reg [3:0]  head, tail;

    assign s_axis_tready = !(head[2:0] == tail[2:0] && head[3] != tail[3]);
    assign m_axis_tvalid = head != tail;
    assign m_axis_tdata  = memory[tail[2:0]];

    always @(posedge clk) begin
        if (s_axis_tvalid && s_axis_tready) begin
            memory[head[2:0]] <= s_axis_tdata;
            head <= head + 4'd1;
        end
        if (m_axis_tvalid && m_axis_tready) tail <= tail + 4'd1;
        if (rst) begin
            head <= 4'd0;
            tail <= 4'd0;
        end
    end
endmodule
