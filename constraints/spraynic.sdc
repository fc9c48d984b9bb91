# Timing of @TOP@ (NIC @NAME@) on its own, as SDC: @CLOCK_MHZ@ MHz.
# Where the module stands inside a larger design, that design defines the clock; leave the first command out then.

create_clock -name clk -period @PERIOD_NS@ [get_ports clk]

# The logic outside may use @OUTSIDE_PERCENT@ % of the period on each side. All ports are synchronous to clk; rst too, which is
# why it is timed like any input: every register must leave reset in the same clock. The delay on the port of the clock
# itself constrains nothing: no data path begins there.
set_input_delay -clock clk -max @OUTSIDE_NS@ [all_inputs]
set_input_delay -clock clk -min 0.000 [all_inputs]
set_output_delay -clock clk -max @OUTSIDE_NS@ [all_outputs]
set_output_delay -clock clk -min 0.000 [all_outputs]
