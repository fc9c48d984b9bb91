//! A model that is built and loaded, and what the cache keeps of it beside the shared library.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{PlacedPort, Waveform};
use crate::coverage::{Coverage, Point, Report};
use crate::library::Library;

/// What the cache keeps beside the shared library.
#[derive(Serialize, Deserialize)]
pub(super) struct Description {
    pub(super) ports: Vec<PlacedPort>,
    /// Points of coverage; none where it was built without.
    #[serde(default)]
    pub(super) points: Vec<Point>,
}

/// A model that is built and loaded; any number of [`crate::Simulation`]s run it at the same time.
#[derive(Debug)]
pub struct Model {
    pub(crate) library: Library,
    pub(crate) ports: Vec<PlacedPort>,
    pub(super) top: String,
    pub(super) directory: PathBuf,
    pub(super) verilator: String,
    pub(super) waveform: Option<Waveform>,
    pub(super) cached: bool,
    pub(super) coverage: Option<Covered>,
}

/// What a model with coverage knows of it.
#[derive(Debug)]
pub(super) struct Covered {
    pub(super) points: Arc<[Point]>,
    pub(super) files: Vec<(String, String)>,
}

impl Model {
    /// Name of the top module.
    #[must_use]
    pub fn top(&self) -> &str {
        &self.top
    }

    /// The entry of the cache that holds the shared library.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Version of the Verilator that built it.
    #[must_use]
    pub fn verilator_version(&self) -> &str {
        &self.verilator
    }

    /// Whether it was in the cache, and nothing was compiled.
    #[must_use]
    pub fn was_cached(&self) -> bool {
        self.cached
    }

    /// The waveform format that it writes, when it was built with tracing.
    #[must_use]
    pub fn waveform(&self) -> Option<Waveform> {
        self.waveform
    }

    /// All points of its Verilog, none of them reached; there are none where it was built without [`Builder::coverage`].
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        Coverage::nothing(self.points().cloned().unwrap_or_default())
    }

    /// The points, where it was built with coverage.
    pub(crate) fn points(&self) -> Option<&Arc<[Point]>> {
        self.coverage.as_ref().map(|covered| &covered.points)
    }

    /// Says which lines of its Verilog a coverage reached.
    #[must_use]
    pub fn coverage_report(&self, coverage: &Coverage) -> Report {
        let files = self.coverage.as_ref().map_or(&[][..], |covered| &covered.files);
        Report::new(&self.top, coverage, files)
    }

    /// The ports, `clk` with them, in the order of their declaration.
    pub fn ports(&self) -> impl Iterator<Item = crate::model::Port> + '_ {
        self.ports.iter().map(|port| crate::model::Port {
            name: port.name.clone(),
            width: port.width,
            direction: if port.input {
                crate::model::Direction::Input
            } else {
                crate::model::Direction::Output
            },
        })
    }
}
