// Bounded check of frame_fifo: only whole, good frames that fit leave, unchanged and in order. See formal/README.md.
//
// DEPTH beats. Each frame carries its number and each beat its place, so what leaves can be judged without a memory.

module proof (
    input wire clk,
    input wire rst,
    input wire s_axis_tvalid,
    input wire s_axis_tlast,
    input wire s_axis_tuser,
    input wire m_axis_tready
);
    wire s_axis_tready, m_axis_tvalid, m_axis_tlast, m_axis_tuser, m_axis_tkeep;
    wire [7:0] m_axis_tdata;
    wire [31:0] count_forwarded, count_drop_bad, count_drop_too_long;
    wire s_axis_tkeep = 1;

    // The number counts frames that must leave; a frame that is dropped gives its number to the next one.
    reg [3:0] number, beat, next_number, next_beat;
    wire [7:0] s_axis_tdata = {number, beat};

    `DUT dut (.*);

    reg started = 0;
    always @(posedge clk) started <= 1;
    always @* if (!started) assume (rst);

    wire push = s_axis_tvalid && s_axis_tready;
    wire pop = m_axis_tvalid && m_axis_tready;
    wire good = s_axis_tlast && !s_axis_tuser && beat < `DEPTH;
    always @(posedge clk) begin
        if (rst) begin
            number <= 0;
            beat <= 0;
            next_number <= 0;
            next_beat <= 0;
        end else begin
            if (push) begin
                beat <= s_axis_tlast ? 0 : beat == 15 ? 15 : beat + 1;
                number <= number + good;
            end
            if (pop) begin
                next_beat <= m_axis_tlast ? 0 : next_beat + 1;
                next_number <= next_number + m_axis_tlast;
            end
        end
    end

    // Room is never lost: when the FIFO says no, it holds DEPTH beats of frames that are good so far. One that needs more
    // is given up with the beat that would have filled the FIFO.
    wire kept = s_axis_tlast ? !s_axis_tuser : beat < `DEPTH - 1;
    reg [4:0] stored;
    always @(posedge clk) begin
        if (rst) stored <= 0;
        else if (push && beat < `DEPTH) stored <= kept ? stored - pop + 1 : stored - pop - beat;
        else stored <= stored - pop;
    end

    reg just_reset;
    always @(posedge clk) just_reset <= rst;
    always @(posedge clk) if (!rst) begin
        if (m_axis_tvalid) begin
            assert (m_axis_tdata == {next_number, next_beat});
            assert (next_number != number);
            assert (m_axis_tkeep);
            if (m_axis_tlast) assert (!m_axis_tuser && next_beat < `DEPTH);
        end
        if (!s_axis_tready && !just_reset) assert (stored >= `DEPTH);
        assert (count_forwarded[3:0] == next_number);
        cover (next_number == 3 && count_drop_bad == 1 && count_drop_too_long == 1);
        cover (pop && next_beat == `DEPTH - 1);
    end
endmodule
