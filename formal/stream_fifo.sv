// Proof of stream_fifo: any word that goes in comes out at its place in the order, with its value. See formal/README.md.
//
// WIDTH, DEPTH; STAGES: registers behind the RAM, 1 for distributed RAM and 2 for block RAM.

module proof (
    input wire clk,
    input wire rst,
    input wire [`WIDTH-1:0] s_axis_tdata,
    input wire s_axis_tvalid,
    input wire m_axis_tready
);
    localparam COUNT = $clog2(`DEPTH + 1);
    wire s_axis_tready, m_axis_tvalid;
    wire [`WIDTH-1:0] m_axis_tdata;
    wire [COUNT-1:0] count;

    `DUT dut (.*);

    reg started = 0;
    always @(posedge clk) started <= 1;
    always @* if (!started) assume (rst);

    // Inside the block; connected by the .sby file.
    (* keep *) wire [`WIDTH*`DEPTH-1:0] dut_ram;
    (* keep *) wire [$clog2(`DEPTH)-1:0] dut_read_index, dut_write_index;
    (* keep *) wire dut_stored;
`ifdef BLOCK
    (* keep *) wire dut_fetched;
    (* keep *) wire [`WIDTH-1:0] dut_fetched_word;
    localparam STAGES = 2;
`else
    wire dut_fetched = 0;
    wire [`WIDTH-1:0] dut_fetched_word = 0;
    localparam STAGES = 1;
`endif

    wire push = s_axis_tvalid && s_axis_tready;
    wire pop = m_axis_tvalid && m_axis_tready;

    // One word, any one: its value and how many words leave up to it, itself included.
    (* anyseq *) wire choose;
    reg tracked;
    reg [`WIDTH-1:0] value;
    reg [COUNT-1:0] place;
    reg [COUNT-1:0] inside;
    reg just_reset;
    reg [1:0] waiting;  // clocks in which a word was inside and none was offered
    always @(posedge clk) begin
        just_reset <= rst;
        if (rst) begin
            tracked <= 0;
            inside <= 0;
            waiting <= 0;
        end else begin
            inside <= inside + push - pop;
            waiting <= (inside != 0 && !m_axis_tvalid) ? waiting + 1 : 0;
            if (!tracked) begin
                tracked <= push && choose;
                value <= s_axis_tdata;
                place <= inside + 1 - pop;
            end else if (pop) begin
                tracked <= place != 1;
                place <= place - 1;
            end
        end
    end

    // Where that word must be.
    wire [1:0] behind = m_axis_tvalid + dut_fetched;
    wire [COUNT-1:0] in_ram = inside - behind;
    wire [COUNT:0] sum = dut_read_index + place - behind - 1;
    wire [COUNT:0] index = sum >= `DEPTH ? sum - `DEPTH : sum;
    wire [COUNT:0] write_sum = dut_read_index + in_ram;

    always @(posedge clk) if (!rst) begin
        assert (inside <= `DEPTH);
        assert (!just_reset || inside == 0);
        assert (count == inside);
        assert (s_axis_tready == (inside != `DEPTH && !just_reset));
        if (tracked) assert (place >= 1 && place <= inside);
        if (tracked && place == 1 && m_axis_tvalid) assert (m_axis_tdata == value);
        assert (m_axis_tvalid <= (inside != 0));
        assert (waiting <= STAGES);

        // What the induction needs of the inside.
        assert (behind <= inside);
        assert (in_ram < `DEPTH);
        assert (dut_stored == (in_ram != 0));
        assert (dut_read_index < `DEPTH);
        assert (dut_write_index == (write_sum >= `DEPTH ? write_sum - `DEPTH : write_sum));
        if (waiting != 0 && !m_axis_tvalid && inside != 0) assert (waiting + (STAGES == 2 ? !dut_fetched : 0) <= STAGES - 1 + (STAGES == 1));
        if (tracked && place > behind) assert (dut_ram[index*`WIDTH +: `WIDTH] == value);
        if (tracked && place <= behind && place == 1 + m_axis_tvalid) assert (dut_fetched_word == value);

        cover (inside == `DEPTH && pop);
        cover (tracked && place == 1 && pop && dut_read_index == 0);
    end
endmodule
