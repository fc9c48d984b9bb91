//! The spraynic command line.

fn main() {}
