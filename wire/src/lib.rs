//! RoCEv2, MRC and Solar packet formats: parse, emit, ICRC, PSN arithmetic.
