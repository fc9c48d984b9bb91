//! Frames of a Linux RoCEv2 stack, given back byte for byte by the model from the work requests behind them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use spraynic_golden::capture::{Action, Replay, identification, renumber, replays};
use spraynic_golden::transmit_pipeline::{Config, Source, TransmitPipeline};
use spraynic_golden::{frame_fifo, header_builder, packet_slicer};
use spraynic_wire::Packet;
use spraynic_wire::pcap::Reader;

fn frames(name: &str) -> Vec<Vec<u8>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/data")
        .join(name);
    let captured = Reader::read_all(&path).unwrap();
    captured.into_iter().map(|frame| frame.bytes).collect()
}

fn pipeline(replay: &Replay) -> TransmitPipeline {
    let mut pipeline = TransmitPipeline::new(Config {
        packet_slicer: packet_slicer::Config::full(16),
        header_builder: header_builder::Config::full(16),
        frame_fifo: frame_fifo::Config {
            depth_beats: 256,
            beat_bytes: 64,
        },
    });
    replay
        .templates
        .iter()
        .for_each(|template| pipeline.write_template(template));
    replay
        .contexts
        .iter()
        .for_each(|context| pipeline.write_context(context));
    pipeline.load_identification(replay.identification.unwrap_or(0));
    pipeline
}

/// What a replay gave.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
struct Tally {
    /// Frames of the capture that came from work requests.
    requested: usize,
    /// Frames of the capture that came from descriptors of requests sent again.
    again: usize,
    /// READ responses and acknowledgements, from descriptors.
    answers: usize,
    /// Frames that the capture ends before, or that were lost before it.
    beyond: usize,
    /// Frames whose identification did not follow the one before: it was loaded.
    loads: usize,
}

/// Plays all senders; panics at the first frame that is not the captured one.
fn play(name: &str) -> Tally {
    let frames = frames(name);
    let mut given = vec![false; frames.len()];
    let mut tally = Tally::default();
    for mut replay in replays(&frames).unwrap() {
        let mut pipeline = pipeline(&replay);
        let mut expected_identification = replay.identification;
        for step in &replay.steps {
            let source = match &step.action {
                Action::Context(context) => {
                    pipeline.write_context(context);
                    continue;
                }
                Action::Request(request) => {
                    pipeline.request(request).unwrap();
                    Source::Slicer
                }
                Action::Response(descriptor) => {
                    pipeline.response(*descriptor);
                    Source::Response
                }
                Action::Control(descriptor) => {
                    pipeline.control(*descriptor);
                    Source::Control
                }
                Action::SlowPath(bytes) => {
                    pipeline.slow_path(bytes.clone());
                    Source::SlowPath
                }
            };
            for captured in &step.frames {
                if let Some(number) = captured.as_ref().and_then(|captured| identification(&captured.bytes)) {
                    tally.loads += usize::from(expected_identification != Some(number));
                    pipeline.load_identification(number);
                    expected_identification = Some(number.wrapping_add(1));
                } else {
                    expected_identification = expected_identification.map(|number| number.wrapping_add(1));
                }
                let built = pipeline.take(source, &mut replay.memory, 0).unwrap().unwrap();
                let Some(captured) = captured else {
                    tally.beyond += 1;
                    continue;
                };
                assert_eq!(
                    built,
                    captured.bytes,
                    "{name}, frame {}:\n built {:?}\n captured {:?}",
                    captured.index,
                    Packet::parse(&built, None),
                    Packet::parse(&captured.bytes, None)
                );
                assert!(
                    !std::mem::replace(&mut given[captured.index], true),
                    "frame {} came twice",
                    captured.index
                );
                let request = spraynic_golden::capture::is_request(&built);
                match source {
                    Source::Slicer => tally.requested += 1,
                    _ if request => tally.again += 1,
                    _ => tally.answers += 1,
                }
            }
            assert!(!pipeline.is_waiting(source), "{name}: more came than the capture says");
        }
    }
    assert!(given.iter().all(|given| *given), "{name}: a frame was not given");
    tally
}

/// Request packets of a capture: those seen for the first time by sender, queue pair and PSN, and those seen again.
fn counted(name: &str) -> (usize, usize) {
    let mut seen: BTreeMap<(Vec<u8>, u32, u32), usize> = BTreeMap::new();
    for frame in frames(name) {
        let packet = Packet::parse(&frame, None).unwrap();
        if packet.info().unwrap().operation.is_request() {
            let key = (
                packet.ethernet.source.0.to_vec(),
                packet.bth.destination_qpn,
                packet.bth.psn.value(),
            );
            *seen.entry(key).or_default() += 1;
        }
    }
    (seen.len(), seen.values().map(|times| times - 1).sum())
}

macro_rules! captures {
    ($($test:ident: $file:literal;)*) => {$(
        #[test]
        fn $test() {
            let tally = play($file);
            let (first, again) = counted($file);
            println!("{}: {tally:?}", $file);
            assert_eq!((tally.requested, tally.again), (first, again), "of the request packets");
            assert!(tally.requested > 0);
        }
    )*};
}

captures! {
    send: "rc-send-1024.pcap";
    write: "rc-write-1024.pcap";
    read: "rc-read-1024.pcap";
    write_of_64_bytes: "rc-write-lat-64.pcap";
    atomics: "rc-atomics.pcap";
    ipv6_with_padding: "rc-write-ipv6-unaligned-12345.pcap";
    several_queue_pairs: "rc-write-multi-qp-1023.pcap";
    go_back_n: "rc-write-lossy-go-back-n.pcap";
}

#[test]
fn where_linux_counts_without_a_skip_no_identification_is_loaded() {
    // Frames in the order of the capture, one start value, nothing loaded after it.
    let frames = frames("rc-write-1024.pcap");
    let mut replay = replays(&frames).unwrap().remove(0);
    let mut pipeline = pipeline(&replay);
    let mut equal = 0;
    for step in &replay.steps {
        let Action::Request(request) = &step.action else {
            continue;
        };
        pipeline.request(request).unwrap();
        for captured in step.frames.iter().flatten() {
            let built = pipeline.take(Source::Slicer, &mut replay.memory, 0).unwrap().unwrap();
            if built == captured.bytes {
                equal += 1;
            } else {
                let number = identification(&captured.bytes).unwrap();
                assert_eq!(renumber(&built, number), captured.bytes);
                pipeline.load_identification(number.wrapping_add(1));
            }
        }
    }
    assert_eq!(equal, 188, "of 189 frames: Linux skips once");
}

#[test]
fn renumbering_keeps_a_frame_valid() {
    for name in ["rc-send-1024.pcap", "rc-write-ipv6-unaligned-12345.pcap"] {
        for frame in frames(name) {
            let other = renumber(&frame, 0xABCD);
            let packet = Packet::parse(&other, None).unwrap();
            assert!(spraynic_wire::icrc::verify(&other).unwrap().is_valid());
            assert_eq!(other == frame, identification(&frame).is_none());
            assert_eq!(packet.payload, Packet::parse(&frame, None).unwrap().payload);
            if let Some(number) = identification(&frame) {
                assert_eq!(renumber(&other, number), frame);
            }
        }
    }
}

#[test]
fn frames_cut_anywhere_are_refused_or_passed_on() {
    for name in [
        "rc-write-lat-64.pcap",
        "rc-write-ipv6-unaligned-12345.pcap",
        "rc-atomics.pcap",
    ] {
        let frame = frames(name).remove(0);
        for length in 0..frame.len() {
            let cut = vec![frame[..length].to_vec()];
            let refused = replays(&cut).map(|replays| matches!(replays[0].steps[0].action, Action::SlowPath(_)));
            assert!(
                !matches!(refused, Ok(false)),
                "{name} cut to {length} bytes was taken for whole"
            );
        }
    }
}
