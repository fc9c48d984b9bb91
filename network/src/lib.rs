//! NICs joined by paths that delay, lose, damage, repeat and die, on a simulated clock.
//!
//! [`Path`] is one direction of one path; [`World`] moves frames between [`Device`]s over them; [`Scenario`] says what is to happen and
//! [`Run`] checks that every message came through.

mod device;
mod golden;
mod path;
mod run;
pub mod scenario;
#[cfg(feature = "strategies")]
pub mod strategy;
mod time;
mod world;

pub use device::{Device, TableWrite};
pub use golden::GoldenDevice;
pub use path::{Delivery, Fault, FaultKind, Path, PathCounters, PathSpec, mark_congestion, wire_bytes};
pub use run::{Failure, Report, Run, equal_paths};
pub use scenario::Scenario;
pub use time::Picoseconds;
pub use world::{Happened, Spreading, Wiring, World, mac_address};
