//! packet_slicer: cuts a message into packet descriptors.
