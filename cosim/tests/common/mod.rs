//! What the harness's tests share: the Verilog under tests/data, and the models built from it.
#![allow(dead_code, reason = "each test program uses a part")]

use std::sync::Arc;

use proptest::test_runner::{Config, FileFailurePersistence};
use spraynic_cosim::{Builder, Model, ModelSource, SharedModel, Simulation, Verilator};

/// False, with a message, when there is no Verilator; where CI is set, that is a failure.
pub(crate) fn have_verilator() -> bool {
    match Verilator::find() {
        Ok(_) => true,
        Err(error) if std::env::var_os("CI").is_some_and(|ci| !ci.is_empty()) => panic!("{error}"),
        Err(error) => {
            eprintln!("skipped: {error}");
            false
        }
    }
}

/// A running model. There is a Verilator: ask [`have_verilator`] first.
pub(crate) fn simulation(model: &SharedModel) -> Simulation {
    let model = model.get().unwrap_or_else(|error| panic!("{error}"));
    Simulation::new(
        &model.expect("a Verilator: have_verilator says whether there is one"),
        1,
    )
}

/// Settings of a property: so many cases, and the seeds of its failures kept in `proptest-regressions/NAME.txt` of the crate.
pub(crate) fn config(cases: u32, name: &str) -> Config {
    let path = format!("{}/proptest-regressions/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let file = FileFailurePersistence::Direct(String::leak(path));
    let defaults = Config::default();
    let set = std::env::var_os("PROPTEST_CASES").is_some();
    Config {
        cases: if set { defaults.cases } else { cases },
        failure_persistence: Some(Box::new(file)),
        ..defaults
    }
}

/// A file of tests/data as a model of the same name.
pub(crate) fn source(name: &str) -> ModelSource {
    let path = format!("{}/tests/data/{name}.v", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    ModelSource::from_verilog(name, text)
}

/// The model of [`source`], built with the default options.
pub(crate) fn model(name: &str) -> Arc<Model> {
    Builder::new()
        .build(&source(name))
        .unwrap_or_else(|error| panic!("{error}"))
}
