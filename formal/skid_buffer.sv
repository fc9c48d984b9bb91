// Proof of skid_buffer: it is a queue of two words. See formal/README.md.

module proof (
    input wire clk,
    input wire rst,
    input wire [1:0] s_axis_tdata,
    input wire s_axis_tvalid,
    input wire m_axis_tready
);
    wire s_axis_tready, m_axis_tvalid;
    wire [1:0] m_axis_tdata;

    `DUT dut (.*);

    reg started = 0;
    always @(posedge clk) started <= 1;
    always @* if (!started) assume (rst);

    // Inside the block; connected by the .sby file.
    (* keep *) wire [1:0] dut_skid;

    wire push = s_axis_tvalid && s_axis_tready;
    wire pop = m_axis_tvalid && m_axis_tready;

    // The queue.
    reg [1:0] inside;
    reg [1:0] oldest, second;
    reg just_reset;
    always @(posedge clk) begin
        just_reset <= rst;
        if (rst) begin
            inside <= 0;
        end else begin
            inside <= inside + push - pop;
            if (pop) oldest <= inside == 2 ? second : s_axis_tdata;
            else if (inside == 0) oldest <= s_axis_tdata;
            if (!pop && inside == 1) second <= s_axis_tdata;
        end
    end

    // What waited in the clock before.
    reg waited;
    reg [1:0] waiting;
    always @(posedge clk) begin
        waited <= !rst && m_axis_tvalid && !m_axis_tready;
        waiting <= m_axis_tdata;
    end

    always @(posedge clk) if (!rst) begin
        assert (inside <= 2);
        assert (!just_reset || inside == 0);
        assert (m_axis_tvalid == (inside != 0));
        if (inside != 0) assert (m_axis_tdata == oldest);
        if (inside == 2) assert (dut_skid == second);
        assert (s_axis_tready == (inside != 2 && !just_reset));
        if (waited && !just_reset) assert (m_axis_tvalid && m_axis_tdata == waiting);
        cover (inside == 2 && pop);
        cover (inside == 1 && push && pop);
    end
endmodule
