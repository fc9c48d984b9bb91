//! What is on its way goes on by what lives, with Verilated NICs: a plane that is dead behind links that are up, and a link that is down at one end alone.

use spraynic_network::check::Property;
use spraynic_network::equal_paths;
use spraynic_network::scenario::{Action, Operation, Policy, QueuePairSpec, Step, WireProfile};
use spraynic_network::{PathSpec, Scenario};

use super::{PAIRS, holds, message, model, queue_pair, small};

/// WRITEs and a READ, in the middle of which it happens.
fn scenario(profile: WireProfile, policy: Policy, script: &[Action]) -> Scenario {
    Scenario {
        paths: equal_paths(2, &PathSpec::default()),
        queue_pairs: vec![QueuePairSpec {
            policy,
            ooo_threshold: 32,
            base_rtt_ns: 10_000,
            timeout_ns: 100_000,
            ..queue_pair(profile)
        }],
        messages: vec![
            message(Operation::Write, 60_000),
            message(Operation::Read, 20_000),
            message(Operation::Write, 1_000),
        ],
        script: script
            .iter()
            .map(|action| Step {
                at_ns: 40_000,
                action: action.clone(),
            })
            .collect(),
        ..small()
    }
}

fn plane_0_dies() -> [Action; 2] {
    [0, 1].map(|path| Action::Path {
        port: 0,
        path,
        alive: false,
    })
}

fn link_down(nic: usize) -> Action {
    Action::Port {
        nic,
        port: 0,
        up: false,
    }
}

#[test]
fn a_plane_may_die_behind_links_that_are_up() {
    let Some(model) = model() else { return };
    let scenario = scenario(WireProfile::Solar, Policy::Adaptive, &plane_0_dies());
    for kinds in PAIRS {
        holds(kinds, &scenario, Property::Delivery, model);
    }
}

#[test]
fn the_link_of_one_end_may_go_down_for_ever() {
    let Some(model) = model() else { return };
    for nic in 0..2 {
        let scenario = scenario(WireProfile::Solar, Policy::Adaptive, &[link_down(nic)]);
        for kinds in PAIRS {
            holds(kinds, &scenario, Property::Delivery, model);
        }
    }
}

#[test]
fn a_fixed_queue_pair_goes_on_by_another_port() {
    let Some(model) = model() else { return };
    let scenario = scenario(WireProfile::Roce, Policy::Fixed, &[0, 1].map(link_down));
    for kinds in PAIRS {
        holds(kinds, &scenario, Property::Delivery, model);
    }
}
