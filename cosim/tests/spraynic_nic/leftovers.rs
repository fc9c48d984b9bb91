//! What a Verilated NIC still holds in the end is found, whoever holds it: all other scenarios rely on that when they say that nothing is left.

use spraynic_cosim::nic::{Kind, NicModel, Nics, Timing};
use spraynic_cosim::nic::{MemoryTiming, Options};
use spraynic_network::scenario::{Action, Operation, Step, WireProfile};
use spraynic_network::{Run, Scenario};

use super::{message, model, queue_pair, small};

/// What is wrong with the messages of a queue pair where nothing that NIC 0 sends from some time on arrives, and the run ends before any timer fires.
fn failure(operations: &[Operation], dead_from_ns: u64, model: &NicModel) -> String {
    let scenario = Scenario {
        queue_pairs: vec![queue_pair(WireProfile::Solar)],
        messages: operations.iter().map(|operation| message(*operation, 3_000)).collect(),
        script: vec![Step {
            at_ns: dead_from_ns,
            action: Action::From { nic: 0, alive: false },
        }],
        limit_ns: 90_000,
        ..small()
    };
    let nics = Nics::new(&[Kind::Verilated], Some(model.clone()))
        .with_options(Options::default(), Timing::Fixed(MemoryTiming::default()));
    let run = Run::new(&scenario, |nic, _, memory| nics.verilated(model, nic, memory));
    let run = run.unwrap_or_else(|failure| panic!("{failure}"));
    let (result, _) = run.finish_in_any_case(|_| 0);
    result.expect_err("nothing arrives").to_string()
}

#[test]
fn requests_and_responses_that_are_awaited_are_found() {
    let Some(model) = model() else { return };
    let failure = failure(&[Operation::Write, Operation::Read, Operation::FetchAdd], 0, model);
    for held in [
        "NIC 0 holds queue pair 0: requests that are not complete: 3",
        "queue pair 0: responses awaited: 2",
        "queue pair 0: requests outstanding: 5",
    ] {
        assert!(failure.contains(held), "{held} is not in: {failure}");
    }
}

/// NIC 0 has its response and is done, but what it says of it is lost.
#[test]
fn responses_that_nobody_acknowledges_are_found() {
    let Some(model) = model() else { return };
    let failure = failure(&[Operation::Read], 3_000, model);
    assert!(failure.contains("NIC 1 still holds"), "{failure}");
    assert!(failure.contains("responses held: 1"), "{failure}");
    assert!(failure.contains("responses outstanding: 3"), "{failure}");
}
