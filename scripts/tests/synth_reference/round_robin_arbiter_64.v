// A hand-written 64-way round-robin arbiter with a registered one-hot grant.
// It is the yardstick for the generated round_robin_arbiter and is part of no design.
`default_nettype none
module round_robin_arbiter_64 (
    input  wire        clk,
    input  wire        rst,
    input  wire [63:0] request,
    input  wire        advance,       // the grant was used: choose again
    output reg  [63:0] grant,
    output reg         grant_valid
);
    // The requests after the last grant are searched for their lowest beside all requests; the first search wins where it
    // finds any. Each search is quads of ports, then groups of four quads: "some earlier port asks", two LUTs deep.
    reg  [63:0] after_last;    // thermometer: the ports after the last one granted
    wire [63:0] masked = request & after_last;

    reg [15:0] quad_masked, quad_all;            // some port of the quad asks
    reg [3:0]  group_masked, group_all;          // some port of the group of 16 asks
    reg [15:0] before_masked, before_all;        // some port of an earlier quad asks
    reg        use_masked;
    reg [63:0] earlier, lowest;                  // some earlier port asks; the choice
    integer    quad, port;

    always @* begin
        for (quad = 0; quad < 16; quad = quad + 1) begin
            quad_masked[quad] = |masked[quad*4 +: 4];
            quad_all[quad]    = |request[quad*4 +: 4];
        end
        for (quad = 0; quad < 4; quad = quad + 1) begin
            group_masked[quad] = |quad_masked[quad*4 +: 4];
            group_all[quad]    = |quad_all[quad*4 +: 4];
        end
        use_masked = |group_masked;
        for (quad = 0; quad < 16; quad = quad + 1) begin
            before_masked[quad] = |(group_masked & ((4'd1 << (quad / 4)) - 4'd1))
                                | |(quad_masked[(quad/4)*4 +: 4] & ((4'd1 << (quad % 4)) - 4'd1));
            before_all[quad]    = |(group_all & ((4'd1 << (quad / 4)) - 4'd1))
                                | |(quad_all[(quad/4)*4 +: 4] & ((4'd1 << (quad % 4)) - 4'd1));
        end
        for (port = 0; port < 64; port = port + 1) begin
            earlier[port] = (use_masked ? before_masked[port/4] : before_all[port/4])
                          | |((use_masked ? masked[(port/4)*4 +: 4] : request[(port/4)*4 +: 4])
                              & ((4'd1 << (port % 4)) - 4'd1));
            lowest[port]  = (use_masked ? masked[port] : request[port]) & ~earlier[port];
        end
    end

    always @(posedge clk)
        if (rst) begin
            grant       <= 0;
            grant_valid <= 1'b0;
            after_last  <= 0;
        end else if (advance || !grant_valid) begin
            grant       <= lowest;
            grant_valid <= |group_all;
            if (|group_all)
                after_last <= earlier;
        end
endmodule
`default_nettype wire
