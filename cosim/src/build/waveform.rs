//! File formats of waveforms, and which one can be written here.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::tool::Verilator;

/// File format of a waveform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Waveform {
    /// FST, compressed: GTKWave and Surfer read it.
    Fst,
    /// VCD, large. Used where the headers that FST needs are not installed.
    Vcd,
}

impl Waveform {
    /// Usual end of the file's name.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Fst => "fst",
            Self::Vcd => "vcd",
        }
    }
}

/// FST where the headers of the compression libraries are there, else VCD.
pub(super) fn pick_waveform(verilator: &Verilator) -> Waveform {
    let needed: &[&str] = if verilator.root.join("include/fstcpp").is_dir() {
        &["zlib.h", "lz4.h"]
    } else {
        &["zlib.h"]
    };
    let mut places: Vec<PathBuf> = vec!["/usr/include".into(), "/usr/local/include".into()];
    for variable in ["CPATH", "CPLUS_INCLUDE_PATH"] {
        places.extend(std::env::var_os(variable).iter().flat_map(std::env::split_paths));
    }
    let there = |name: &&str| places.iter().any(|place| place.join(name).is_file());
    if needed.iter().all(there) {
        Waveform::Fst
    } else {
        Waveform::Vcd
    }
}
