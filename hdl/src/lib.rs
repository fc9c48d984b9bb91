//! The blocks of the NIC datapath, described with spraynic-rtl.
