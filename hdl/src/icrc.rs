//! icrc: computes the invariant CRC at full width.
