// A lock that opens by six symbols in order: each right one is a line of its own, and a wrong one closes it again.
module lock(input wire clk, input wire rst, input wire [3:0] symbol, output reg [2:0] depth);
    always @(posedge clk) begin
        if (rst)
            depth <= 3'd0;
        else if (depth == 3'd0 && symbol == 4'd3)
            depth <= 3'd1;
        else if (depth == 3'd1 && symbol == 4'd8)
            depth <= 3'd2;
        else if (depth == 3'd2 && symbol == 4'd0)
            depth <= 3'd3;
        else if (depth == 3'd3 && symbol == 4'd5)
            depth <= 3'd4;
        else if (depth == 3'd4 && symbol == 4'd5)
            depth <= 3'd5;
        else if (depth == 3'd5 && symbol == 4'd15)
            depth <= 3'd6;
        else
            depth <= 3'd0;
    end
endmodule
