//! The Verilated receive path as the server of captured Linux soft-RoCE connections: the answers that Linux gave (opcode, PSN, syndrome, MSN,
//! payload of READ responses, original values of atomics), in their order, and the memory that the requests imply.
//!
//! Frames come one after the other, each when the last one has been answered, as they did in the capture; then once more without a pause, for
//! the memory alone.

use std::path::PathBuf;
use std::sync::Arc;

use spraynic_config::Preset;
use spraynic_cosim::receive::{Given, Scenario, small, source};
use spraynic_cosim::{Frame, Limits, Model, SharedModel, Simulation};
use spraynic_golden::capture_server::{Answered, ServerReplay, servers};
use spraynic_wire::pcap::Reader;

/// Clocks from frame to frame: more than from a frame to its answer.
const PAUSE: u64 = 200;

static MODEL_512: SharedModel = SharedModel::new(|| source(&small(Preset::G100)));
static MODEL_64: SharedModel = SharedModel::new(|| source(&small(Preset::Lab)));

fn model(preset: Preset) -> Option<Arc<Model>> {
    let model = if preset == Preset::G100 { &MODEL_512 } else { &MODEL_64 };
    model.get().unwrap_or_else(|error| panic!("{error}"))
}

fn replays(name: &str) -> Vec<ServerReplay> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data").join(name);
    let captured = Reader::read_all(&path).unwrap_or_else(|error| panic!("{error}"));
    servers(&captured.into_iter().map(|frame| frame.bytes).collect::<Vec<_>>())
}

/// The answers of one queue pair as a capture shows them.
fn answered(given: &[Given], qpn: u32) -> Vec<(u64, Answered)> {
    let of_this = given.iter().filter(|given| given.packet.qpn == qpn);
    of_this
        .map(|given| (given.cycle, Answered::of(&given.packet, 0, given.payload.clone())))
        .collect()
}

fn serve(name: &str, preset: Preset) -> Option<usize> {
    let model = model(preset)?;
    let config = small(preset);
    let mut compared = 0;
    for server in replays(name) {
        let run = |pause: u64| {
            let frames = server.frames.iter().zip(0..);
            let scenario = Scenario {
                contexts: server.contexts.clone(),
                regions: server.regions.clone(),
                receive_requests: server.receive_requests.clone(),
                memory: server.memory.clone(),
                frames: frames
                    .map(|((_, bytes), index)| Frame {
                        not_before: index * pause,
                        ..Frame::new(bytes.clone())
                    })
                    .collect(),
                memory_latency: 20,
                ..Scenario::default()
            };
            scenario
                .run(&mut Simulation::new(&model, 1), &config, Limits::default())
                .unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        let result = run(PAUSE);
        assert!(result.memory == server.memory_after, "{name}: memory at the end");
        for context in &server.contexts {
            let linux = server.answers.iter().filter(|answer| answer.qpn == context.qpn);
            let linux: Vec<Answered> = linux
                .map(|answer| Answered {
                    index: 0,
                    ..answer.clone()
                })
                .collect();
            let mut ours = answered(&result.control, context.qpn);
            ours.extend(answered(&result.responses, context.qpn));
            ours.sort_by_key(|(cycle, _)| *cycle);
            let ours: Vec<Answered> = ours.into_iter().map(|(_, answer)| answer).collect();
            // Captures end at a count of frames: what Linux answered to the last ones may be missing, nothing else.
            assert!(ours.len() >= linux.len(), "{name}: {} of {}", ours.len(), linux.len());
            assert_eq!(ours[..linux.len()], linux[..], "{name}, queue pair {}", context.qpn);
            compared += linux.len();
        }
        let hurried = run(0);
        assert!(
            hurried.memory == server.memory_after,
            "{name}: memory after frames without a pause"
        );
    }
    Some(compared)
}

/// Serves a capture at 512 and at 64 bits; `answers` of Linux are compared.
fn answers(name: &str, answers: usize) {
    for preset in [Preset::G100, Preset::Lab] {
        if let Some(compared) = serve(name, preset) {
            assert_eq!(compared, answers, "{name} with preset {preset:?}");
        }
    }
}

#[test]
fn send() {
    answers("rc-send-1024.pcap", 14);
}

#[test]
fn write() {
    answers("rc-write-1024.pcap", 2);
}

#[test]
fn read() {
    answers("rc-read-1024.pcap", 76);
}

#[test]
fn write_of_64_bytes() {
    answers("rc-write-lat-64.pcap", 49);
}

#[test]
fn write_with_losses() {
    answers("rc-write-lossy-go-back-n.pcap", 17);
}

#[test]
fn atomics() {
    answers("rc-atomics.pcap", 20);
}

#[test]
fn write_over_ipv6_with_padding() {
    answers("rc-write-ipv6-unaligned-12345.pcap", 12);
}

#[test]
fn writes_of_three_queue_pairs() {
    answers("rc-write-multi-qp-1023.pcap", 11);
}
