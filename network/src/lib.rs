//! NICs joined by paths that delay, lose, damage, repeat and die, on a simulated clock.
//!
//! [`Path`] is one direction of one path; [`World`] moves frames between [`Device`]s over them; [`Scenario`] says what is to happen and
//! [`Run`] checks that every message came through. [`check`] does it for tests, for [`fuzz`] and for traces that were saved.

pub mod check;
mod device;
mod events;
#[cfg(feature = "strategies")]
pub mod fuzz;
mod golden;
pub mod log;
#[cfg(feature = "strategies")]
pub mod mutate;
mod path;
mod run;
pub mod sabotage;
pub mod scenario;
pub mod shrink;
#[cfg(feature = "strategies")]
pub mod strategy;
pub mod targets;
mod time;
pub mod trace;
mod world;

pub use device::{Activity, Device, TableWrite};
pub use golden::GoldenDevice;
pub use path::{Delivery, Fault, FaultKind, Path, PathCounters, PathSpec, mark_congestion, wire_bytes};
pub use run::{Failure, Report, Run, equal_paths};
pub use scenario::Scenario;
pub use time::Picoseconds;
pub use world::{Happened, Spreading, Wiring, World, mac_address};
