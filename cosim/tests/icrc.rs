//! icrc: RTL and golden model give the same frames, at every width, under gaps and back-pressure, one beat a clock.

mod common;

use std::path::Path;

use proptest::prelude::*;
use spraynic_config::{NicConfig, Preset};
use spraynic_cosim::{Frame, Limits, ModelSource, Outcome, Pattern, SharedModel, Simulation, SinkChecks, Stimulus};
use spraynic_golden::frame::Frame as GoldenFrame;
use spraynic_golden::icrc::IcrcInsert;
use spraynic_hdl::icrc::{Icrc, icrc};
use spraynic_wire::pcap;

const WIDTHS: [u32; 5] = [64, 128, 256, 512, 1024];

/// Widths at which the block is made for a NIC of several ports.
const SEVERAL_PORTS: [u32; 2] = [128, 512];

fn block(width: u32) -> Icrc {
    let mut config = NicConfig::preset(Preset::G100);
    config.datapath.width_bits = width;
    // With several ports, the port passes through.
    config.paths.ports = if SEVERAL_PORTS.contains(&width) { 8 } else { 1 };
    Icrc::from(&config)
}

fn source(block: &Icrc) -> ModelSource {
    let context = spraynic_rtl::Context::new();
    ModelSource::from_definition(icrc(&context, block).expect("a width that exists"))
}

/// A model for each of [`WIDTHS`].
static MODELS: [SharedModel; WIDTHS.len()] = [
    SharedModel::new(|| source(&block(WIDTHS[0]))),
    SharedModel::new(|| source(&block(WIDTHS[1]))),
    SharedModel::new(|| source(&block(WIDTHS[2]))),
    SharedModel::new(|| source(&block(WIDTHS[3]))),
    SharedModel::new(|| source(&block(WIDTHS[4]))),
];

fn simulation(width: u32) -> Simulation {
    let index = WIDTHS.iter().position(|known| *known == width);
    common::simulation(&MODELS[index.expect("a width under test")])
}

/// Length of the headers that every frame has, and of the ICRC.
fn least_length(ipv6: bool, vlan: bool) -> usize {
    14 + if vlan { 4 } else { 0 } + if ipv6 { 40 } else { 20 } + 8 + 12 + 4
}

/// A frame as `header_builder` gives it, as far as `icrc` looks at it: the first byte of the IP header fits the sideband, the last
/// four bytes are zero, all others arbitrary. `bytes` are used again and again.
fn frame(bytes: &[u8], words: usize, bad: bool, ipv6: bool, vlan: bool) -> GoldenFrame {
    let length = least_length(ipv6, vlan) + 4 * words;
    let mut bytes: Vec<u8> = bytes.iter().copied().cycle().take(length).collect();
    let ip = 14 + if vlan { 4 } else { 0 };
    bytes[ip] = if ipv6 { 0x60 | bytes[ip] & 0xF } else { 0x45 };
    bytes[length - 4..].fill(0);
    GoldenFrame { bytes, bad, ipv6, vlan }
}

/// Good and bad frames; a bad one may have any length.
fn any_frame() -> impl Strategy<Value = GoldenFrame> {
    let words = prop_oneof![10 => 0..40usize, 1 => 200..300usize];
    let bytes = prop::collection::vec(any::<u8>(), 1..200);
    let good = (
        bytes.clone(),
        words,
        any::<bool>(),
        any::<bool>(),
        prop::bool::weighted(0.1),
    );
    let good = good.prop_map(|(bytes, words, ipv6, vlan, bad)| frame(&bytes, words, bad, ipv6, vlan));
    let bad = (bytes, any::<bool>(), any::<bool>()).prop_map(|(bytes, ipv6, vlan)| GoldenFrame {
        bytes,
        bad: true,
        ipv6,
        vlan,
    });
    prop_oneof![12 => good, 1 => bad]
}

/// What stands in the sideband of a frame and only passes through: its port, where there are several.
fn sideband(width: u32, frame: &GoldenFrame) -> u64 {
    match SEVERAL_PORTS.contains(&width) {
        true => frame.bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>() & 7,
        false => 0,
    }
}

/// Some frames are marked prompt: a bit that only passes through.
fn is_prompt(frame: &GoldenFrame) -> bool {
    frame.bytes.len() % 8 == 2
}

fn run(width: u32, frames: &[GoldenFrame], gaps: &Pattern, back_pressure: &Pattern) -> Outcome {
    let sent = frames.iter().map(|frame| {
        let bits = [frame.bad, frame.ipv6, frame.vlan, is_prompt(frame)];
        let user: u64 = (0..).zip(bits).map(|(at, bit)| u64::from(bit) << at).sum();
        Frame::with_user(frame.bytes.clone(), user | sideband(width, frame) << bits.len())
    });
    let full = *gaps == Pattern::Always && *back_pressure == Pattern::Always;
    // A frame that begins its ICRC in the beat before the last one may wait there, once. Those of a width at which a frame of headers alone
    // has more than two beats wait before.
    let split = |frame: &GoldenFrame| frame.bytes.len() % (width as usize / 8) == 2;
    let may_wait = width >= 512 && frames.iter().any(split);
    let checks = SinkChecks {
        no_bubble_in_frames: *gaps == Pattern::Always && !may_wait,
        no_bubble_while: if full && !may_wait {
            vec!["s_axis".to_owned()]
        } else {
            vec![]
        },
        constant_user: if SEVERAL_PORTS.contains(&width) { 0b11110 } else { 0b10 },
        record_beats: true,
        ..SinkChecks::default()
    };
    let stimulus =
        Stimulus::default()
            .source("s_axis", gaps.clone(), sent)
            .sink("m_axis", back_pressure.clone(), checks);
    let outcome = spraynic_cosim::run(&mut simulation(width), &stimulus, Limits::default());
    outcome.unwrap_or_else(|error| panic!("{error}"))
}

/// The frames that the golden model gives came out, and its counters.
fn compare(width: u32, frames: &[GoldenFrame], outcome: &Outcome) -> Result<(), TestCaseError> {
    let mut model = IcrcInsert::new();
    let received = outcome.received("m_axis");
    prop_assert_eq!(received.len(), frames.len());
    for (at, (frame, received)) in frames.iter().zip(received).enumerate() {
        let expected = model.insert(frame.clone());
        let observed = GoldenFrame {
            bad: received.user & 1 == 1,
            ..GoldenFrame::plain(received.data.clone())
        };
        let passed = u64::from(is_prompt(frame)) | sideband(width, frame) << 1;
        prop_assert_eq!(received.user >> 1, passed, "frame {}", at);
        prop_assert!(
            expected.agrees_with(&observed),
            "width {}, frame {} of {} bytes:\nexpected {:02x?}\nobserved {:02x?}",
            width,
            at,
            frame.bytes.len(),
            expected,
            observed
        );
    }
    prop_assert_eq!(outcome.counters["frames"], u64::from(model.counters().frames));
    Ok(())
}

proptest! {
    #![proptest_config(common::config(100, "icrc"))]

    #[test]
    fn rtl_equals_the_golden_model(
        width in prop::sample::select(&WIDTHS[..]),
        frames in prop::collection::vec(any_frame(), 1..60),
        gaps in Pattern::strategy(),
        back_pressure in Pattern::strategy(),
    ) {
        if common::have_verilator() {
            let outcome = run(width, &frames, &gaps, &back_pressure);
            compare(width, &frames, &outcome)?;
        }
    }
}

/// What stands behind `tkeep` in the last beat, noise here, is not taken for the frame: short frames of zeros that end at each
/// place of a beat where a frame can, alone and one behind the other.
#[test]
fn bytes_behind_tkeep_do_not_count() {
    if !common::have_verilator() {
        return;
    }
    for width in WIDTHS {
        let beat = width as usize / 32;
        let frames: Vec<_> = (0..beat).map(|words| frame(&[0], words, false, false, false)).collect();
        for frame in &frames {
            let alone = std::slice::from_ref(frame);
            compare(width, alone, &run(width, alone, &Pattern::Always, &Pattern::Always)).unwrap();
        }
        compare(width, &frames, &run(width, &frames, &Pattern::Always, &Pattern::Always)).unwrap();
    }
}

/// Clocks from the first to the last of these cycles, both included.
fn span(cycles: &[u64]) -> u64 {
    cycles.last().unwrap_or(&0) - cycles.first().unwrap_or(&0) + 1
}

/// No bubble between frames of any length, of one beat too, and every beat after the latency that the block states.
#[test]
fn one_beat_a_clock() {
    if !common::have_verilator() {
        return;
    }
    let bytes: Vec<u8> = (1..=251).collect();
    for width in WIDTHS {
        let beat_bytes = width as usize / 8;
        // The shortest frames alone (of one beat at 512 and 1024 bits), then each residue of the length, mixed.
        let shortest = vec![frame(&bytes, 0, false, false, false); 300];
        let mixed: Vec<GoldenFrame> = (0..300)
            .map(|at| frame(&bytes, at % (beat_bytes / 4 + 3), false, at % 3 == 0, at % 5 == 0))
            .collect();
        for frames in [shortest, mixed] {
            let beats: usize = frames.iter().map(|frame| frame.beats(beat_bytes)).sum();
            let outcome = run(width, &frames, &Pattern::Always, &Pattern::Always);
            compare(width, &frames, &outcome).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(outcome.beat_cycles("m_axis").len(), beats);
            let block = block(width);
            let once_later = u64::from(block.split_latency() - block.latency());
            let clocks = span(outcome.beat_cycles("m_axis"));
            assert!(
                (beats as u64..=beats as u64 + once_later).contains(&clocks),
                "width {width}: {clocks} clocks for {beats} beats"
            );
            let accepted = outcome.accepted("s_axis");
            let taking = accepted[accepted.len() - 1].last_cycle - accepted[0].first_cycle + 1;
            assert_eq!(taking, beats as u64, "width {width}: clocks for the beats taken");
            for (taken, given) in accepted.iter().zip(outcome.received("m_axis")) {
                let stated = u64::from(block.latency())..=u64::from(block.split_latency());
                assert!(stated.contains(&(given.last_cycle - taken.last_cycle)), "width {width}");
            }
        }
    }
}

/// The latencies that docs/src/blocks/icrc.md states.
#[test]
fn latencies_are_the_documented_ones() {
    let latencies = WIDTHS.map(|width| block(width).latency());
    assert_eq!(latencies, [4, 4, 5, 5, 7]);
    let split = WIDTHS.map(|width| block(width).split_latency());
    assert_eq!(split, [4, 4, 5, 6, 8]);
}

/// A frame without payload has no gap and is as late as stated, alone, wherever it ends: at 64 bits it has up to 15 beats.
#[test]
fn a_frame_of_headers_alone_leaves_without_a_gap() {
    if !common::have_verilator() {
        return;
    }
    let bytes: Vec<u8> = (1..=251).collect();
    for width in WIDTHS {
        for (ipv6, vlan) in [(false, false), (false, true), (true, false), (true, true)] {
            for words in 0..=9 {
                let frame = frame(&bytes, words, false, ipv6, vlan);
                let sent = [Frame::with_user(
                    frame.bytes.clone(),
                    u64::from(ipv6) << 1 | u64::from(vlan) << 2,
                )];
                let checks = SinkChecks {
                    no_bubble_in_frames: true,
                    ..SinkChecks::default()
                };
                let stimulus =
                    Stimulus::default()
                        .source("s_axis", Pattern::Always, sent)
                        .sink("m_axis", Pattern::Always, checks);
                let outcome = spraynic_cosim::run(&mut simulation(width), &stimulus, Limits::default());
                let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
                let (taken, given) = (outcome.accepted("s_axis"), outcome.received("m_axis"));
                let is_split = frame.bytes.len() % (width as usize / 8) == 2;
                let block = block(width);
                let latency = if is_split {
                    block.split_latency()
                } else {
                    block.latency()
                };
                assert_eq!(
                    given[0].first_cycle - taken[0].first_cycle,
                    u64::from(latency),
                    "width {width}"
                );
                assert_eq!(
                    given[0].last_cycle - taken[0].last_cycle,
                    u64::from(latency),
                    "width {width}"
                );
            }
        }
    }
}

/// Frames of a real stack (Linux soft-RoCE): their ICRC zeroed is found again.
#[test]
fn captured_frames_have_their_icrc() {
    if !common::have_verilator() {
        return;
    }
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data");
    let entries = std::fs::read_dir(&directory).expect("captures of the repository");
    let (mut captured, mut sent) = (vec![], vec![]);
    for entry in entries {
        let path = entry.expect("a directory that can be read").path();
        if path.extension().is_none_or(|extension| extension != "pcap") {
            continue;
        }
        let frames = pcap::Reader::read_all(&path).unwrap_or_else(|error| panic!("{error}"));
        for frame in frames {
            let Ok(verdict) = spraynic_wire::icrc::verify(&frame.bytes) else {
                continue;
            };
            assert!(verdict.is_valid(), "{}", path.display());
            let ipv6 = frame.bytes[12..14] == [0x86, 0xDD];
            let mut bytes = frame.bytes.clone();
            let end = bytes.len();
            bytes[end - 4..].fill(0);
            captured.push(frame.bytes);
            sent.push(GoldenFrame {
                ipv6,
                ..GoldenFrame::plain(bytes)
            });
        }
    }
    assert!(captured.len() > 900, "{} frames", captured.len());
    assert!(sent.iter().any(|frame| frame.ipv6));
    for width in WIDTHS {
        let outcome = run(width, &sent, &Pattern::Always, &Pattern::Always);
        let received = outcome.received("m_axis");
        assert_eq!(received.len(), captured.len());
        for (at, (captured, received)) in captured.iter().zip(received).enumerate() {
            assert!(
                captured == &received.data && received.user & 1 == 0,
                "width {width}, frame {at}"
            );
        }
    }
}

#[test]
fn linters_have_nothing_to_say() {
    if !common::have_verilator() {
        return;
    }
    for width in WIDTHS {
        let all = block(width);
        for block in [
            all,
            Icrc {
                ipv6: false,
                vlan: false,
                ..all
            },
            Icrc { ipv4: false, ..all },
        ] {
            spraynic_cosim::lint(&source(&block)).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}
