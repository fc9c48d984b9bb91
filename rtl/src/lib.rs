//! Hardware construction library: run-time widths, checks, a Verilog-2005 printer and an evaluator.
