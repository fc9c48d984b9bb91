//! A path dies, and all that was asked for is done nevertheless: whatever that path was carrying, an answer as well as a request. It never
//! asks how fast (`targets.rs` does).

use spraynic_golden::spraynic_nic::Settings;
use spraynic_network::scenario::{Action, MessageSpec, Operation, Policy, QueuePairSpec, Step, WireProfile};
use spraynic_network::{Failure, GoldenDevice, PathSpec, Run, Scenario, equal_paths};

const PATHS: usize = 8;

fn run(scenario: &Scenario) -> Result<(), Failure> {
    let run = Run::new(scenario, |_, config, memory| {
        GoldenDevice::new(config, Settings::default(), memory)
    })?;
    run.finish(GoldenDevice::payload_bytes).map(|_| ())
}

/// Two NICs of one port on eight paths, of which one dies, for ever.
fn death(profile: WireProfile, messages: Vec<MessageSpec>, path: usize, at_ns: u64) -> Scenario {
    let each = PathSpec {
        delay_ns: 2_500,
        ..PathSpec::default()
    };
    Scenario {
        preset: "100g".to_owned(),
        overrides: vec!["paths.ports=1".to_owned()],
        port_mbps: 100_000,
        paths: equal_paths(PATHS, &each),
        queue_pairs: vec![QueuePairSpec {
            profile,
            policy: Policy::Adaptive,
            mtu: 4096,
            ooo_threshold: 32,
            base_rtt_ns: 8_000,
            ..QueuePairSpec::default()
        }],
        messages,
        script: vec![Step {
            at_ns,
            action: Action::Path {
                port: 0,
                path,
                alive: false,
            },
        }],
        shared_buffers: true,
        limit_ns: 20_000_000,
        ..Scenario::default()
    }
}

/// One packet there and its answers back: whenever and whichever path dies, they find another one.
#[test]
fn one_message_is_done_whenever_a_path_dies() {
    for operation in Operation::ALL {
        // A request needs about 3 us for each way.
        for at_ns in (500..8_000).step_by(500) {
            for path in 0..PATHS {
                let message = MessageSpec::new(operation, 4096);
                let scenario = death(WireProfile::Solar, vec![message], path, at_ns);
                run(&scenario).unwrap_or_else(|failure| panic!("{operation:?}, path {path}, {at_ns} ns: {failure}"));
            }
        }
    }
    for at_ns in (500..8_000).step_by(500) {
        for path in 0..PATHS {
            let message = MessageSpec::new(Operation::Write, 4096);
            let scenario = death(WireProfile::Mrc, vec![message], path, at_ns);
            run(&scenario).unwrap_or_else(|failure| panic!("mrc, path {path}, {at_ns} ns: {failure}"));
        }
    }
}

/// A stream of long messages, whose packets are on all paths at once.
#[test]
fn a_stream_of_messages_is_done_whichever_path_dies() {
    for profile in [WireProfile::Solar, WireProfile::Mrc] {
        for path in 0..PATHS {
            let messages = vec![MessageSpec::new(Operation::Write, 262_144); 4];
            let scenario = death(profile, messages, path, 20_000);
            run(&scenario).unwrap_or_else(|failure| panic!("{profile:?}, path {path}: {failure}"));
        }
    }
}
