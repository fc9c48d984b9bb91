//! How soon the Verilog sends a lost packet again, in clocks.

use spraynic_cosim::nic::{MemoryTiming, NicModel};
use spraynic_network::scenario::{Operation, Policy, QueuePairSpec, WireProfile};
use spraynic_network::{Fault, FaultKind, PathSpec, Scenario};
use spraynic_wire::{Opcode, Packet};

use super::{build, message, model, queue_pair, run, small};

/// Clocks that memory takes.
const MEMORY: u32 = 32;

/// Clocks from the last beat of the SACK that tells of a loss to the first beat of the packet that is sent again, without those of memory.
fn clocks_to_retransmission(scenario: Scenario, model: &NicModel) -> u64 {
    let timing = MemoryTiming {
        latency: MEMORY,
        ..MemoryTiming::default()
    };
    // One path, which is long: when the SACK comes, the wire has been idle for long. It is the 5th packet of 8 that is lost, so that the SACK of
    // the first four says nothing of it, and that of the last one, which asks for it, is the only one that does.
    let path = PathSpec {
        delay_ns: 20_000,
        faults: vec![Fault {
            frame: 4,
            kind: FaultKind::Lose,
        }],
        ..PathSpec::default()
    };
    let scenario = Scenario {
        paths: vec![path],
        queue_pairs: vec![QueuePairSpec {
            mtu: 256,
            // All leave by one port, however many there are.
            policy: Policy::Single,
            base_rtt_ns: 60_000,
            timeout_ns: 1_000_000,
            ..queue_pair(WireProfile::Solar)
        }],
        messages: vec![message(Operation::Write, 8 * 256)],
        ..scenario
    };
    let mut world = run(&scenario, model, timing);
    let times = world.device(0).frame_times();
    let parsed = |frame: &[u8]| {
        let packet = Packet::parse(frame, None).ok()?;
        Some((packet.bth.opcode, packet.bth.psn.value()))
    };
    let sent: Vec<(u64, u32)> = times
        .iter()
        .filter(|time| !time.received)
        .filter_map(|time| Some((time.clock, parsed(&time.frame)?.1)))
        .collect();
    let again = sent
        .iter()
        .enumerate()
        .find(|(place, (_, psn))| sent[..*place].iter().any(|(_, before)| before == psn));
    let (_, (left, psn)) = again.unwrap_or_else(|| panic!("nothing was sent again: {sent:?}"));
    let sack = times
        .iter()
        .filter(|time| time.received && time.clock < *left)
        .rfind(|time| parsed(&time.frame).is_some_and(|(opcode, _)| opcode == Opcode::SACK));
    let sack = sack.unwrap_or_else(|| panic!("no SACK came before {left}"));
    let clocks = left - sack.clock - u64::from(MEMORY);
    println!("PSN {psn}: {clocks} clocks and memory's {MEMORY} from the last beat of the SACK to its own first beat");
    clocks
}

/// On a bus of 64 bits the frame of 314 bytes stands for 40 clocks in the FIFO of its port, which it leaves when it is whole.
#[test]
fn a_lost_packet_leaves_again_soon_after_the_sack_that_tells() {
    let Some(model) = model() else { return };
    let clocks = clocks_to_retransmission(small(), model);
    assert!(clocks <= 130, "{clocks} clocks");
}

/// The same on 512 bits.
#[test]
#[ignore = "takes a model of its own"]
fn a_lost_packet_leaves_again_soon_on_a_wide_bus() {
    if model().is_none() {
        return;
    }
    let scenario = Scenario {
        preset: "100g".to_owned(),
        overrides: ["paths.ports=1", "queue_pairs.count=8"].map(str::to_owned).to_vec(),
        port_mbps: 100_000,
        ..Scenario::default()
    };
    let clocks = clocks_to_retransmission(scenario.clone(), &build(&scenario));
    assert!(clocks <= 80, "{clocks} clocks");
}
