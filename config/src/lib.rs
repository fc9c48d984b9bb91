//! The configuration of a NIC: presets, TOML files, overrides and their checks; the layouts of descriptors and the map of registers.
//!
//! Every parameter is defined once, in [`parameters`]: with unit, range, default of each preset and effect. This crate
//! never generates hardware and never decides what a block does with a parameter.

pub mod descriptor;
pub mod registers;

mod contradictions;
mod error;
mod lengths;
mod line_rate;
mod names;
pub mod parameters;
mod print;
mod resolve;
mod value;

pub use error::{ConfigError, Origin, Setting};
pub use lengths::{BTH_BYTES, ETHERNET_BYTES, ICRC_BYTES, IPV4_BYTES, IPV6_BYTES, UDP_BYTES, VLAN_BYTES};
pub use line_rate::{FRAME_OVERHEAD_BYTES, LineRate, MIN_FRAME_BYTES};
pub use names::{Operation, Preset, Profile};
pub use parameters::{
    Datapath, NicConfig, PARAMETERS, Parameter, QueuePairs, Receive, SECTIONS, Section, Transmit, Wire,
};
pub use print::parameters_markdown;
pub use resolve::{DEFAULT_PRESET, Resolved, Source};
pub use value::{Allowed, Value};
