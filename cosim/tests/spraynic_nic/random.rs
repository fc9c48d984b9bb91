//! Random scenarios with Verilated NICs, and that a fault of a NIC is found.

use std::path::Path;

use proptest::test_runner::Config;
use spraynic_cosim::nic::{Kind, Nics};
use spraynic_network::check::{Property, check};
use spraynic_network::fuzz::Campaign;
use spraynic_network::sabotage::{Sabotage, Sabotaged};
use spraynic_network::strategy::Base;
use spraynic_network::trace::ScenarioTrace;

use super::{PAIRS, SMALL, bad_paths, model};
use spraynic_network::scenario::WireProfile;

/// Scenarios of each test where `PROPTEST_CASES` says nothing, always the same ones.
const CASES: u64 = 6;

fn campaign(property: Property, cases: u64) -> Campaign {
    let seed = std::env::var("SPRAYNIC_SEED").ok().and_then(|text| text.parse().ok());
    let overrides = SMALL.map(str::to_owned);
    Campaign {
        base: Base::new("lab", &overrides, 12_000).expect("preset lab"),
        property,
        seed: seed.unwrap_or(1),
        cases: Some(if std::env::var_os("PROPTEST_CASES").is_some() {
            Config::default().cases.into()
        } else {
            cases
        }),
        time: None,
        jobs: 2,
    }
}

#[track_caller]
fn hold(kinds: [Kind; 2], property: Property, cases: u64) {
    let Some(model) = model() else { return };
    let nics = Nics::new(&kinds, Some(model.clone()));
    let campaign = campaign(property, cases);
    let make = |nic: usize, config: &_, memory| nics.make(nic, config, memory);
    let (_, Some(finding)) = campaign.run(&make, &mut |_| {}) else {
        return;
    };
    let words = kinds.map(|kind| match kind {
        Kind::Golden => "golden",
        Kind::Verilated => "verilated",
    });
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../spraynic-failures");
    let saved = match finding.trace.save_in(&target) {
        Ok(path) => format!(
            "trace: {0}\nrun it again: spraynic replay {0} --log --nics {1}",
            path.display(),
            words.join(",")
        ),
        Err(error) => error.to_string(),
    };
    panic!(
        "{kinds:?}: scenario {} of SPRAYNIC_SEED={} fails:\n{}\n{saved}",
        finding.case, campaign.seed, finding.failure
    );
}

#[test]
fn every_message_comes_through_once() {
    for kinds in PAIRS {
        hold(kinds, Property::Delivery, CASES);
    }
}

#[test]
fn nothing_is_sent_twice_where_nothing_is_lost() {
    for kinds in PAIRS {
        hold(kinds, Property::NothingTwice, CASES);
    }
}

/// 200 scenarios without loss, with a Verilated pair: nothing is sent twice.
#[test]
#[ignore = "takes minutes"]
fn nothing_is_sent_twice_in_200_scenarios() {
    hold(PAIRS[0], Property::NothingTwice, 200);
}

/// The checks see what a Verilated NIC does wrong.
#[test]
fn faults_of_a_verilated_nic_are_found() {
    let Some(model) = model() else { return };
    let nics = Nics::new(&PAIRS[1], Some(model.clone()));
    for (sabotage, expected) in [
        (Sabotage::SwapBytes, "is wrong"),
        (Sabotage::ForgetRetransmissions, "RetryExceeded"),
    ] {
        let make = |nic: usize, config: &_, memory| {
            Sabotaged::new(nics.make(nic, config, memory), (nic == 0).then_some(sabotage))
        };
        let found =
            (0..10).find_map(|seed| check(&bad_paths(WireProfile::Solar, seed), Property::Delivery, make, None).err());
        let found = found.unwrap_or_else(|| panic!("{sabotage:?} is not found")).to_string();
        assert!(found.contains(expected), "{sabotage:?}: {found}");
    }
}

/// READ responses of roce and of solar that come at the same time: `requester` moves payload in the order in which it takes packets, and payload of
/// both kinds leaves `qp_lookup` in the order of the wire. Each stood before what the other waited for.
#[test]
fn reads_of_both_profiles_at_once_do_not_wait_for_each_other() {
    let Some(model) = model() else { return };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/roce_and_solar_reads.json");
    let mut scenario = ScenarioTrace::load(&path).expect("a trace of the project").scenario;
    scenario.limit_ns = 5_000_000;
    let nics = Nics::new(&[Kind::Verilated; 2], Some(model.clone()));
    let make = |nic: usize, config: &_, memory| nics.make(nic, config, memory);
    if let Err(failure) = check(&scenario, Property::Delivery, make, None) {
        panic!("{failure}");
    }
}
