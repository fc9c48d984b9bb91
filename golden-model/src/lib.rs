//! Bit-accurate golden model of the NIC datapath.
