//! Points of the Verilog as what fuzzing learns from: a scenario is run, and the Verilated NICs in it leave their counts.

use std::sync::Arc;

use spraynic_config::NicConfig;
use spraynic_network::check::{Property, check};
use spraynic_network::fuzz::guided::{Subject, Trial};
use spraynic_network::{Device, Scenario};

use super::{Coverage, collect};
use crate::Model;

/// Runs scenarios on NICs of which some are of a model with coverage. Counts of several such NICs in a scenario add up.
#[derive(Debug)]
pub struct Lines<M> {
    model: Arc<Model>,
    make: M,
}

impl<M> Lines<M> {
    /// `make` gives NIC n, as [`check`] wants it; `model` is built with [`crate::Builder::coverage`].
    #[must_use]
    pub fn new(model: &Arc<Model>, make: M) -> Self {
        Self {
            model: Arc::clone(model),
            make,
        }
    }

    /// Counts of a campaign as the coverage of the model.
    #[must_use]
    pub fn coverage(&self, counts: &[u64]) -> Coverage {
        self.model.coverage().with_counts(counts)
    }
}

impl<D, M> Subject for Lines<M>
where
    D: Device,
    M: Fn(usize, &NicConfig, usize) -> D + Sync,
{
    fn points(&self) -> usize {
        self.model.points().map_or(0, |points| points.len())
    }

    fn run(&self, scenario: &Scenario, property: Property) -> Trial {
        let (result, coverage) = collect(&self.model, || check(scenario, property, &self.make, None));
        Trial {
            counts: coverage.counts,
            result,
        }
    }
}
