//! spraynic-rtl: a small hardware construction library.
//!
//! Rust code that runs builds a circuit; the circuit is checked, then printed as Verilog-2005 or run by an evaluator. Widths
//! are values at run time, so a configuration file can choose them. It knows one clock and one synchronous reset.
//!
//! ```
//! use spraynic_rtl::{Context, Evaluator};
//!
//! let context = Context::new();
//! let m = context.module("counter_w4");
//! let enable = m.input("enable", 1).doc("count up");
//! let count = m.reg("count", 4).reset(0);
//! m.when(enable, || count.set(count + count.lit(1)));
//! m.output_of("value", count);
//! let counter = m.finish();
//!
//! assert!(counter.verilog_text().contains("count <= count + 4'h1;"));
//! let mut run = Evaluator::new(counter);
//! run.reset();
//! run.set("enable", 1);
//! (0..3).for_each(|_| run.clock());
//! assert_eq!(run.get_u64("value"), 3);
//! ```

mod bits;
mod bundle;
mod check;
mod context;
mod definition;
mod elaborate;
mod evaluator;
mod instance;
mod ir;
mod keywords;
mod memory;
mod module;
mod operators;
mod ram;
mod shape;
mod signal;
mod verilog;

pub use bits::{Bits, IntoBits, index_width};
pub use bundle::{AxiStream, Bundle, Stream};
pub use check::DesignError;
pub use context::Context;
pub use definition::{Definition, Port};
pub use evaluator::Evaluator;
pub use instance::InstanceHandle;
pub use ir::{MemoryStyle, ReadDuringWrite};
pub use memory::MemoryHandle;
pub use module::{Module, Switch, When};
pub use shape::{cat, cat_lsb_first};
pub use signal::Signal;
pub use verilog::VerilogFile;

/// The code of README.md is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
