//! Runs one scenario on NICs and says whether what must hold held. Tests, `spraynic fuzz` and `spraynic replay` all come through here.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::{Deserialize, Serialize};
use spraynic_config::NicConfig;
use spraynic_golden::spraynic_nic::Settings;

use crate::device::{Activity, Device};
use crate::golden::GoldenDevice;
use crate::log::Log;
use crate::path::PathCounters;
use crate::run::{Failure, Report, Run};
use crate::scenario::Scenario;

/// What must hold in a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Property {
    /// Each message once and in order, memory as it must be, nothing left behind.
    #[default]
    Delivery,
    /// That, and nothing is sent again: for scenarios in which nothing is lost and no timer is too short.
    NothingTwice,
}

/// What a scenario showed in which all held.
#[derive(Debug, Clone, PartialEq)]
pub struct Good {
    /// Of the run.
    pub report: Report,
    /// What all paths did.
    pub paths: PathCounters,
    /// What each NIC did.
    pub activity: Vec<Activity>,
}

/// NIC 0, 1, ... of a golden pair, as [`check`] wants them made.
#[must_use]
pub fn golden(_nic: usize, config: &NicConfig, memory_bytes: usize) -> GoldenDevice {
    GoldenDevice::new(config, Settings::default(), memory_bytes)
}

/// Runs a scenario on NICs that `make` gives and checks it; with a log, writes down what happens. A panic of a model is a failure too.
///
/// # Errors
/// What did not hold.
pub fn check<D: Device>(
    scenario: &Scenario,
    property: Property,
    make: impl Fn(usize, &NicConfig, usize) -> D,
    log: Option<&Log>,
) -> Result<Good, Failure> {
    let run = || {
        let mut run = Run::new(scenario, &make)?;
        if let Some(log) = log {
            run = run.with_log(log.clone());
        }
        let (report, mut world) = run.finish(|_| 0)?;
        let activity = (0..world.devices()).map(|nic| world.device(nic).activity());
        Ok(Good {
            activity: activity.collect(),
            paths: world.totals(),
            report,
        })
    };
    // Nothing of a run that panicked is used afterwards but its log.
    CHECKING.set(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    CHECKING.set(false);
    let good = result.unwrap_or_else(|panic| Err(Failure::Panicked(words(&*panic))))?;
    match property {
        Property::Delivery => {}
        Property::NothingTwice => {
            for (nic, activity) in good.activity.iter().enumerate() {
                if activity.sent_again > 0 {
                    let count = activity.sent_again;
                    return Err(Failure::SentAgain(format!("NIC {nic} sent {count} packets again")));
                }
            }
        }
    }
    Ok(good)
}

thread_local! {
    static CHECKING: Cell<bool> = const { Cell::new(false) };
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Panics of models are failures with a message: from now on those inside of [`check`] are not printed where they happen, but become the
/// message of the failure, with their place.
pub fn keep_panics() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if CHECKING.get() {
            LAST_PANIC.with_borrow_mut(|last| *last = Some(info.to_string()));
        } else {
            others(info);
        }
    }));
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let kept = LAST_PANIC.with_borrow_mut(Option::take);
    kept.or_else(|| panic.downcast_ref::<String>().cloned())
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "no message".to_owned())
}
