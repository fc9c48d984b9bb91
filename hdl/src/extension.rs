//! Extension headers as signals: RETH, AETH, ImmDt, METH and the others, byte 0 first.
