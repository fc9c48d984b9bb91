//! Two golden NICs under random traffic, loss, damage, repeats, delays and deaths.

use proptest::prelude::*;
use spraynic_golden::spraynic_nic::{Counters, Settings};
use spraynic_network::strategy::{lossless_scenario, scenario};
use spraynic_network::{Failure, GoldenDevice, Report, Run, Scenario};

fn run(scenario: &Scenario) -> Result<(Report, Vec<Counters>), Failure> {
    let run = Run::new(scenario, |_, config, memory| {
        GoldenDevice::new(config, Settings::default(), memory)
    })?;
    let (report, mut world) = run.finish(GoldenDevice::payload_bytes)?;
    let counters = (0..world.devices())
        .map(|nic| world.device(nic).nic().counters())
        .collect();
    Ok((report, counters))
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    /// Each message once and in order, memory equal, nothing left behind, whatever the network does.
    #[test]
    fn every_message_comes_through_once(scenario in scenario(60_000)) {
        if let Err(failure) = run(&scenario) {
            let text = serde_json::to_string(&scenario).unwrap_or_default();
            return Err(TestCaseError::fail(format!("{failure}\n{text}")));
        }
    }

    /// Paths of different delay, each in order, without loss: nothing is sent twice.
    #[test]
    fn nothing_is_sent_twice_where_nothing_is_lost(scenario in lossless_scenario(60_000)) {
        match run(&scenario) {
            Ok((_, counters)) => for counters in counters {
                let again = counters.work_queue.retransmissions + counters.response_queue.retransmissions;
                prop_assert_eq!(again, 0, "{:?}", counters.retransmit_engine);
            },
            Err(failure) => return Err(TestCaseError::fail(failure.to_string())),
        }
    }
}
