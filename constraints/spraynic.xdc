# Timing of @TOP@ (NIC @NAME@) on its own, for Vivado: @CLOCK_MHZ@ MHz.
# Where the module stands inside a larger design, that design defines the clock; leave the first command out then.

create_clock -name clk -period @PERIOD_NS@ [get_ports clk]

# The logic outside may use @OUTSIDE_PERCENT@ % of the period on each side. All ports are synchronous to clk; rst too, which is
# why it is timed like any input: every register must leave reset in the same clock.
set_input_delay -clock clk -max @OUTSIDE_NS@ [get_ports -filter {DIRECTION == IN && NAME != clk}]
set_input_delay -clock clk -min 0.000 [get_ports -filter {DIRECTION == IN && NAME != clk}]
set_output_delay -clock clk -max @OUTSIDE_NS@ [get_ports -filter {DIRECTION == OUT}]
set_output_delay -clock clk -min 0.000 [get_ports -filter {DIRECTION == OUT}]

# Out of context there is no clock buffer yet. Where the device has a site of this name, Vivado estimates the clock's skew from it:
# set_property HD.CLK_SRC BUFGCTRL_X0Y0 [get_ports clk]
