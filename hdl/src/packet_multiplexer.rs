//! packet_multiplexer: several streams of frames into one.
