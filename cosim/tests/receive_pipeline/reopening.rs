//! A queue pair is closed and opened again at once, while packets of before wait for memory and their reports in `reorder_buffer`, because control packets
//! leave slowly: nothing of the former life is acknowledged in the new one. And how long it takes where nothing is left.

use spraynic_config::descriptor::{QueuePairContext, QueuePairState};
use spraynic_config::{Preset, Profile};
use spraynic_cosim::receive::judge::judge;
use spraynic_cosim::receive::patterns::Patterns;
use spraynic_cosim::receive::traffic::strategy::QUEUE_PAIRS;
use spraynic_cosim::receive::traffic::{Kind, Message, Traffic, profile_of, scenario};
use spraynic_cosim::receive::{Batch, Result, Scenario, small};
use spraynic_cosim::{Frame, Pattern, Simulation};
use spraynic_golden::ack_engine::Pacing;
use spraynic_wire::{Opcode, Packet, Psn};

use super::{LIMITS, model};

/// Packets before: more than `ack_engine` takes while its output stands, fewer than it and `reorder_buffer` take together. Half of the packets in
/// `ack_engine` are ACKs in solar.
const FORMER: usize = 20;
/// Packets afterwards.
const LATTER: usize = 8;
/// From the first PSN of one life to that of the next.
const FURTHER: u32 = 70_000;
/// Clocks that each control packet waits: the contexts are offered long before the first few have left.
const CONTROL_WAITS: u32 = 100;
/// Clocks that memory takes.
const MEMORY: u64 = 300;
/// When the queue pair is closed: all frames have come in, the first have come to memory and no write has been answered.
const CLOSES: u64 = 250;

/// The PSNs that are acknowledged, by SACKs or by ACKs of roce, in their order.
fn acknowledged(run: &Result, profile: Profile) -> Vec<u32> {
    let (given, opcode) = match profile {
        Profile::Roce => (&run.responses, Opcode::ACKNOWLEDGE),
        _ => (&run.control, Opcode::SACK),
    };
    let packets = given.iter().map(|given| given.packet);
    packets
        .filter(|packet| packet.opcode == opcode.0)
        .map(|packet| packet.psn)
        .collect()
}

#[test]
fn a_queue_pair_opened_again_is_not_acknowledged_for_its_former_packets() {
    let Some(model) = model(Preset::G100) else { return };
    let config = small(Preset::G100);
    for profile in Profile::ALL.iter().copied() {
        let of_profile = |qpn: &u32| profile_of(&config, *qpn) == profile;
        let qpn = (0..QUEUE_PAIRS).find(of_profile).expect("one of each profile");
        let write = Message {
            qpn,
            kind: Kind::Write,
            length: 200,
            offset: 0,
        };
        let patterns = Patterns::default().with("m_axis_control", Pattern::AfterValid { clocks: CONTROL_WAITS });
        let (scenario, _) = scenario(&config, QUEUE_PAIRS, &Traffic::quiet([write; FORMER]), patterns);
        assert_eq!(scenario.frames.len(), FORMER, "a packet a message");
        let sent: Vec<Packet> = scenario
            .frames
            .iter()
            .map(|frame| Packet::parse(&frame.data, None).unwrap_or_else(|error| panic!("{error}")))
            .collect();
        let latter: Vec<Packet> = sent[..LATTER]
            .iter()
            .map(|packet| {
                let mut packet = packet.clone();
                packet.bth.psn += FURTHER;
                packet.icrc = None;
                packet
            })
            .collect();
        let opened = scenario.contexts[qpn as usize];
        let closed = QueuePairContext {
            state: QueuePairState::Reset as u8,
            ..opened
        };
        let again = QueuePairContext {
            psn: (Psn::new(opened.psn) + FURTHER).value(),
            ..opened
        };
        let scenario = Scenario {
            pacing: Pacing {
                sack_every: 1,
                ..Pacing::default()
            },
            memory_latency: MEMORY,
            batches: vec![
                Batch {
                    contexts: vec![(CLOSES, closed), (CLOSES + 1, again)],
                    ..Batch::default()
                },
                Batch {
                    after_contexts: scenario.contexts.len() + 2,
                    frames: latter.iter().map(|packet| Frame::new(packet.emit())).collect(),
                    ..Batch::default()
                },
            ],
            ..scenario
        };
        let run = scenario
            .run(&mut Simulation::new(&model, 1), &config, LIMITS)
            .unwrap_or_else(|error| panic!("{profile:?}: {error}"));
        let psns = acknowledged(&run, profile);
        let new: Vec<u32> = latter.iter().map(|packet| packet.bth.psn.value()).collect();
        assert!(psns.ends_with(&new), "{profile:?}: {new:?} at the end of {psns:?}");
        let former = &psns[..psns.len() - new.len()];
        let came: Vec<u32> = sent.iter().map(|packet| packet.bth.psn.value()).collect();
        assert!(former.iter().all(|psn| came.contains(psn)), "{profile:?}: {former:?}");
        // Of each packet the judge knows in which life it came.
        judge(&config, &scenario, &run).unwrap_or_else(|difference| panic!("{profile:?}: {difference}"));
        let taken = run.outcome.accepted("s_axis_context");
        let [.., closes, opens] = taken else {
            panic!("two writes and more")
        };
        println!(
            "{profile:?}: opened {} clocks after it was closed",
            opens.last_cycle - closes.last_cycle
        );
    }
}

/// Clocks from a write of RESET to one of RTS behind it, of an idle queue pair on an idle NIC with a window of 128: roce, solar, mrc.
/// docs/src/blocks/receive_pipeline.md states them.
const IDLE_CLOCKS: [(Profile, u64); 3] = [(Profile::Roce, 28), (Profile::Solar, 75), (Profile::Mrc, 41)];

#[test]
fn an_idle_queue_pair_is_opened_again_within_clocks() {
    let Some(model) = model(Preset::G100) else { return };
    let config = small(Preset::G100);
    for (profile, clocks) in IDLE_CLOCKS {
        let of_profile = |qpn: &u32| profile_of(&config, *qpn) == profile;
        let qpn = (0..QUEUE_PAIRS).find(of_profile).expect("one of each profile");
        let (scenario, _) = scenario(&config, QUEUE_PAIRS, &Traffic::quiet([]), Patterns::default());
        let opened = scenario.contexts[qpn as usize];
        let closed = QueuePairContext {
            state: QueuePairState::Reset as u8,
            ..opened
        };
        let scenario = Scenario {
            batches: vec![Batch {
                contexts: vec![(0, closed), (0, opened)],
                ..Batch::default()
            }],
            ..scenario
        };
        let run = scenario
            .run(&mut Simulation::new(&model, 1), &config, LIMITS)
            .unwrap_or_else(|error| panic!("{profile:?}: {error}"));
        let [.., closes, opens] = run.outcome.accepted("s_axis_context") else {
            panic!("two writes and more")
        };
        let taken = opens.last_cycle - closes.last_cycle;
        println!("{profile:?}: opened again {taken} clocks after it was closed");
        assert!(taken <= clocks, "{profile:?}: {taken} clocks");
    }
}
