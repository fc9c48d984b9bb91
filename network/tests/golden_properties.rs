//! Two golden NICs under random traffic, loss, damage, repeats, delays and deaths.
//!
//! `PROPTEST_CASES` says how many scenarios, `SPRAYNIC_SEED` which ones; a failure names its seed and saves a trace for `spraynic replay`.

use std::path::Path;

use proptest::test_runner::Config;
use spraynic_network::check::{Property, check, golden};
use spraynic_network::fuzz::Campaign;
use spraynic_network::sabotage::{Sabotage, Sabotaged};
use spraynic_network::strategy::Base;
use spraynic_network::trace::ScenarioTrace;

/// Scenarios where `PROPTEST_CASES` says nothing, always the same ones.
const CASES: u64 = 100;

fn campaign(property: Property) -> Campaign {
    let seed = std::env::var("SPRAYNIC_SEED").ok().and_then(|text| text.parse().ok());
    Campaign {
        base: Base::new("lab", &[], 60_000).expect("preset lab"),
        property,
        seed: seed.unwrap_or(1),
        cases: Some(if std::env::var_os("PROPTEST_CASES").is_some() {
            Config::default().cases.into()
        } else {
            CASES
        }),
        time: None,
        jobs: 1,
    }
}

#[track_caller]
fn holds(property: Property) {
    let campaign = campaign(property);
    let (_, Some(finding)) = campaign.run(&golden, &mut |_| {}) else {
        return;
    };
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../spraynic-failures");
    let saved = match finding.trace.save_in(&target) {
        Ok(path) => format!("trace: {0}\nrun it again: spraynic replay {0} --log", path.display()),
        Err(error) => error.to_string(),
    };
    panic!(
        "scenario {} of SPRAYNIC_SEED={} fails:\n{}\n{saved}",
        finding.case, campaign.seed, finding.failure
    );
}

/// Each message once and in order, memory equal, nothing left behind, whatever the network does.
#[test]
fn every_message_comes_through_once() {
    holds(Property::Delivery);
}

/// Paths of different delay, each in order, without loss: nothing is sent twice.
#[test]
fn nothing_is_sent_twice_where_nothing_is_lost() {
    holds(Property::NothingTwice);
}

/// What a NIC does wrong is found, made small, and fails in the same way when its trace is read again.
#[test]
fn faults_of_a_nic_are_found_and_made_small() {
    let wrong: [(Sabotage, Property, &str); 4] = [
        (Sabotage::ForgetRetransmissions, Property::Delivery, "RetryExceeded"),
        (Sabotage::SwapBytes, Property::Delivery, "is wrong (2 bytes differ)"),
        (Sabotage::LoseFrames, Property::NothingTwice, "packets again"),
        (Sabotage::Panic, Property::Delivery, "this NIC was to panic"),
    ];
    for (sabotage, property, expected) in wrong {
        let make = |nic: usize, config: &_, memory| {
            Sabotaged::new(golden(nic, config, memory), (nic == 0).then_some(sabotage))
        };
        let campaign = Campaign {
            seed: 3,
            cases: Some(300),
            jobs: 2,
            ..campaign(property)
        };
        let (_, finding) = campaign.run(&make, &mut |_| {});
        let finding = finding.unwrap_or_else(|| panic!("{sabotage:?} is not found"));
        println!("{sabotage:?}: {} in {} runs", finding.failure, finding.shrinking_runs);
        let place = tempfile::tempdir().expect("a directory");
        let path = finding.trace.save_in(place.path()).expect("a trace");
        let trace = ScenarioTrace::load(&path).expect("the trace again");
        assert_eq!(trace, finding.trace);
        let again = check(&trace.scenario, trace.property, make, None);
        assert_eq!(
            again.err().map(|failure| failure.to_string()).as_ref(),
            Some(&trace.reason)
        );
        assert!(trace.reason.contains(expected), "{sabotage:?}: {}", trace.reason);
        // A few messages show what is wrong with a NIC, but where its fault counts frames: that takes enough of them.
        let counts = matches!(sabotage, Sabotage::LoseFrames | Sabotage::Panic);
        assert!(
            counts || trace.scenario.messages.len() <= 4,
            "{sabotage:?}: {:?}",
            trace.scenario
        );
        assert!(
            counts || trace.scenario.script.is_empty(),
            "{sabotage:?}: {:?}",
            trace.scenario
        );
        assert!(
            check(&trace.scenario, trace.property, golden, None).is_ok(),
            "{sabotage:?}"
        );
    }
}
