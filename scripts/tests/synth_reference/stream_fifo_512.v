// A hand-written FIFO, 512 beats of 578 bits (512 data, 64 keep, last, user), in block RAM with a registered output.
// It is the yardstick for the generated stream_fifo and is part of no design.
`default_nettype none
module stream_fifo_512 #(
    parameter WIDTH = 578,
    parameter ADDRESS_WIDTH = 9
) (
    input  wire             clk,
    input  wire             rst,
    input  wire [WIDTH-1:0] s_axis_tdata,
    input  wire             s_axis_tvalid,
    output wire             s_axis_tready,
    output wire [WIDTH-1:0] m_axis_tdata,
    output wire             m_axis_tvalid,
    input  wire             m_axis_tready
);
    // An address is never read in the clock that writes it (empty says so): no logic for that collision is wanted.
    (* no_rw_check *)
    reg [WIDTH-1:0] memory [0:(1<<ADDRESS_WIDTH)-1];
    reg [WIDTH-1:0] read_data;
    // Each pointer is kept with its successor, so that full and empty are a comparison of registers and no adder lies before it.
    reg [ADDRESS_WIDTH-1:0] write_pointer, write_next, read_pointer, read_next;
    reg out_valid, full, empty;

    wire push = s_axis_tvalid && !full;
    wire pop  = !empty && (m_axis_tready || !out_valid);

    always @(posedge clk) begin
        if (push)
            memory[write_pointer] <= s_axis_tdata;
        if (pop)
            read_data <= memory[read_pointer];
        if (rst) begin
            write_pointer <= 0;
            write_next    <= 1;
            read_pointer  <= 0;
            read_next     <= 1;
            out_valid     <= 1'b0;
            full          <= 1'b0;
            empty         <= 1'b1;
        end else begin
            if (push) begin
                write_pointer <= write_next;
                write_next    <= write_next + 1'b1;
            end
            if (pop) begin
                read_pointer <= read_next;
                read_next    <= read_next + 1'b1;
            end
            if (push != pop) begin
                full  <= push && write_next == read_pointer;
                empty <= pop && read_next == write_pointer;
            end
            if (m_axis_tready || !out_valid)
                out_valid <= !empty;
        end
    end

    assign s_axis_tready = !full;
    assign m_axis_tvalid = out_valid;
    assign m_axis_tdata  = read_data;
endmodule
`default_nettype wire
