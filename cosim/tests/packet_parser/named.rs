//! Cases by name.
