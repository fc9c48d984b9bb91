//! The whole NIC, Verilated, on the network of `spraynic_network`: alone among Verilated ones or beside golden ones.
//!
//! [`NicModel`] is built once for a configuration; each [`VerilatedDevice`] of it is a NIC with its host and its MACs. Nothing here says what is right:
//! a run of the network does.

mod device;
mod memory;
mod nics;
mod observed;
mod registers;
mod rings;
mod settings;
mod streams;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use spraynic_config::NicConfig;
use spraynic_config::registers::RegisterMap;
use spraynic_hdl::spraynic_nic;
use spraynic_rtl::Context;

use crate::build::{BuildError, Builder, Model};
use crate::model::ModelSource;

pub use device::{FrameTime, Options, VerilatedDevice};
pub use memory::MemoryTiming;
pub use nics::{Kind, Nics, Timing};

/// The Verilated NIC of a configuration, and its registers.
#[derive(Debug, Clone)]
pub struct NicModel {
    config: NicConfig,
    model: Arc<Model>,
    registers: RegisterMap,
}

/// The Verilog of the whole NIC of a valid configuration, with its counters on ports.
#[must_use]
pub fn source(config: &NicConfig) -> ModelSource {
    let context = Context::new();
    ModelSource::from_definition(spraynic_nic::observed(&context, config))
}

impl NicModel {
    /// The model of a valid configuration.
    ///
    /// # Errors
    /// It cannot be built.
    pub fn build(builder: &Builder, config: &NicConfig) -> Result<Self, BuildError> {
        Ok(Self {
            config: config.clone(),
            model: builder.build(&source(config))?,
            registers: spraynic_nic::register_map(config),
        })
    }

    /// What it was generated from.
    #[must_use]
    pub fn config(&self) -> &NicConfig {
        &self.config
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Its registers.
    #[must_use]
    pub fn registers(&self) -> &RegisterMap {
        &self.registers
    }
}
