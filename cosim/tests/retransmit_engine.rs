//! retransmit_engine: golden model and RTL give the same resends, progress, path events, probes and counters for the same packets sent, feedback,
//! contexts and timers.

mod common;

#[path = "retransmit_engine/network.rs"]
mod network;
#[path = "retransmit_engine/scenario.rs"]
mod scenario;

use network::Chances;
use proptest::prelude::*;
use scenario::{Scenario, config};
use spraynic_cosim::{Case, Expectation, Limits, ModelSource, Pattern, Property, PropertyError, SharedModel, Trial};

static MODEL: SharedModel = SharedModel::new(source);

const LIMITS: Limits = Limits {
    quiet_clocks: 3_500,
    hang_clocks: 20_000,
    most_clocks: 50_000_000,
};

fn source() -> ModelSource {
    let context = spraynic_rtl::Context::new();
    ModelSource::from_definition(spraynic_hdl::retransmit_engine::retransmit_engine(&context, &config()))
}

fn chances() -> impl Strategy<Value = Chances> {
    let shape = (
        any::<u64>(),
        1..900u32,
        prop_oneof![3 => 0..40u64, 1 => 0..4u64, 1 => 100..300u64],
        0..15u64,
        0..15u64,
        0..8u64,
        0..12u64,
    );
    let more = (
        6..20u64,
        1..9u8,
        prop_oneof![0..20u16, Just(1_023u16)],
        100..3_000u32,
        prop_oneof![2 => 4_000..20_000u32, 1 => Just(500_000u32)],
    );
    (shape, more).prop_map(
        |((seed, steps, gap, loss, trim, garbage, context), (eager, paths, ooo_threshold, base_rtt_ns, timeout_ns))| {
            Chances {
                seed,
                steps,
                gap,
                loss,
                trim,
                garbage,
                context,
                eager,
                paths,
                ooo_threshold,
                base_rtt_ns,
                timeout_ns,
            }
        },
    )
}

fn scenarios() -> impl Strategy<Value = (Chances, [Pattern; 7])> {
    let patterns = [(); 7].map(|()| prop_oneof![2 => Just(Pattern::Always), 1 => Pattern::strategy()]);
    (chances(), patterns)
}

#[test]
fn everything_equals_the_golden_model() -> Result<(), PropertyError> {
    Property::new("retransmit_engine", &MODEL)
        .cases(80)
        .limits(LIMITS)
        .check_trials(scenarios(), |(chances, patterns)| {
            let scenario = Scenario {
                events: network::write(chances.clone()),
                patterns: patterns.clone(),
            };
            let unchecked = ["progress", "resend", "path", "control", "timeout"].map(|name| format!("m_axis_{name}"));
            let case = Case {
                stimulus: scenario.stimulus(),
                // Which timer fires when is not known before: the judge compares.
                expectation: Expectation {
                    unchecked: unchecked.into(),
                    ..Expectation::default()
                },
            };
            Trial::new(case).judged(move |outcome| scenario.judge(outcome).map(|_| ()))
        })
}

#[test]
fn linters_have_nothing_to_say() {
    if common::have_verilator() {
        spraynic_cosim::lint(&source()).unwrap_or_else(|error| panic!("{error}"));
    }
}
