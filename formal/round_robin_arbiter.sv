// Proof of round_robin_arbiter: the grant is the golden model's in every clock, and nobody waits for ever. See formal/README.md.
//
// N requesters.

module proof (
    input wire clk,
    input wire rst,
    input wire [`N-1:0] request,
    input wire advance
);
    localparam INDEX = $clog2(`N) + 1;
    wire [`N-1:0] grant;
    wire granted;

    `DUT dut (.*);

    reg started = 0;
    always @(posedge clk) started <= 1;
    always @* if (!started) assume (rst);

    // Inside the block; connected by the .sby file.
    (* keep *) wire [`N-2:0] dut_behind_last;

    // The golden model: the first that asks from `first` upwards, then from 0.
    reg [INDEX-1:0] first;
    reg [INDEX-1:0] candidate, winner;
    reg [`N-1:0] expected;
    integer i;
    always @* begin
        expected = 0;
        winner = 0;
        candidate = 0;
        for (i = 0; i < `N; i = i + 1) begin
            candidate = first + i >= `N ? first + i - `N : first + i;
            if (expected == 0 && request[candidate]) begin
                expected[candidate] = 1;
                winner = candidate;
            end
        end
    end
    always @(posedge clk) begin
        if (rst) first <= 0;
        else if (advance && request != 0) first <= winner == `N - 1 ? 0 : winner + 1;
    end

    // One requester, any one: how many grants it has seen go by since it began to ask.
    (* anyconst *) wire [INDEX-1:0] who;
    reg [INDEX-1:0] passed_by;
    always @* assume (who < `N);
    always @(posedge clk) begin
        if (rst || !request[who]) passed_by <= 0;
        else if (advance) passed_by <= grant[who] ? 0 : passed_by + 1;
    end
    wire [INDEX-1:0] distance = who >= first ? who - first : who + `N - first;

    genvar g;
    generate
        for (g = 1; g < `N; g = g + 1) begin : behind
            always @(posedge clk) if (!rst) assert (dut_behind_last[g-1] == (first != 0 && g >= first));
        end
    endgenerate
    always @(posedge clk) if (!rst) begin
        assert (first < `N);
        assert (grant == expected);
        assert (granted == (request != 0));
        assert (passed_by <= `N - 1);
        assert (passed_by + distance <= `N - 1 || passed_by == 0);
        cover (passed_by == `N - 1 && grant[who]);
    end
endmodule
