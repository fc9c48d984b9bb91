//! icrc (check): RTL and golden model give the same verdicts, at every width, under gaps and back-pressure, one beat a clock.

#[path = "common/blocks.rs"]
mod blocks;
mod common;

use std::path::Path;

use proptest::prelude::*;
use spraynic_config::{NicConfig, Preset};
use spraynic_cosim::{Frame, Limits, Outcome, Pattern, Simulation, SinkChecks, Stimulus};
use spraynic_golden::frame::Frame as GoldenFrame;
use spraynic_golden::icrc::check::{FrameToCheck, IcrcCheck, Verdict};
use spraynic_golden::packet_parser::{Config, PacketParser, Parsed, TrimmedDscp};
use spraynic_hdl::icrc::{Icrc, icrc_check};
use spraynic_wire::pcap;

const WIDTHS: [u32; 5] = [64, 128, 256, 512, 1024];

/// Kinds of frames: IPv6, VLAN tags.
const KINDS: [(bool, u8); 6] = [(false, 0), (false, 1), (false, 2), (true, 0), (true, 1), (true, 2)];

fn block(width: u32) -> Icrc {
    let mut config = NicConfig::preset(Preset::G100);
    config.datapath.width_bits = width;
    Icrc::from(&config)
}

fn simulation(width: u32) -> Simulation {
    let context = spraynic_rtl::Context::new();
    let definition = icrc_check(&context, &block(width)).expect("a width that exists");
    blocks::simulation(&context, definition)
}

/// Where the IP header begins.
fn ip_offset(vlan_tags: u8) -> usize {
    14 + 4 * usize::from(vlan_tags)
}

/// Length of the headers that every packet has, from the Ethernet header on.
fn header_length((ipv6, vlan_tags): (bool, u8)) -> usize {
    ip_offset(vlan_tags) + if ipv6 { 40 } else { 20 } + 8 + 12
}

/// A frame with its right ICRC and `length` bytes behind the BTH. Its IP header begins as it must, all other bytes are arbitrary:
/// `bytes`, again and again.
fn frame(bytes: &[u8], length: usize, (ipv6, vlan_tags): (bool, u8)) -> FrameToCheck {
    let end = header_length((ipv6, vlan_tags)) + length;
    let mut bytes: Vec<u8> = bytes.iter().copied().cycle().take(end).collect();
    let ip = ip_offset(vlan_tags);
    bytes[ip] = if ipv6 { 0x60 | bytes[ip] & 0xF } else { 0x45 };
    let icrc = spraynic_wire::icrc::of_ip_packet(&bytes[ip..]).expect("IP, UDP and BTH are there");
    bytes.extend_from_slice(&icrc.to_le_bytes());
    FrameToCheck {
        bytes,
        ipv6,
        vlan_tags,
        ..FrameToCheck::default()
    }
}

/// Whether the bits of this byte may change on the way without the ICRC noticing: all, none, or those of this mask.
fn free_bits(at: usize, (ipv6, vlan_tags): (bool, u8)) -> u8 {
    let Some(at) = at.checked_sub(ip_offset(vlan_tags)) else {
        return 0xFF;
    };
    match (ipv6, at) {
        (false, 1 | 8 | 10 | 11) | (true, 1..=3 | 7) => 0xFF, // TOS, TTL, checksum; traffic class, flow label, hop limit
        (true, 0) => 0x0F,
        (false, 26 | 27 | 32) | (true, 46 | 47 | 52) => 0xFF, // UDP checksum, BTH byte 4
        _ => 0,
    }
}

/// Right frames, frames changed where that does not count, where it counts and anywhere, and frames of any bytes and length.
fn any_frame() -> impl Strategy<Value = FrameToCheck> {
    let length = prop_oneof![8 => 0..150usize, 1 => 1000..1200usize];
    let bytes = prop::collection::vec(any::<u8>(), 1..200);
    let kind = prop::sample::select(&KINDS[..]);
    let change = prop::option::of((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()));
    let marks = (prop::bool::weighted(0.15), prop::bool::weighted(0.1));
    let good =
        (bytes.clone(), length, kind, change, marks).prop_map(|(bytes, length, kind, change, (dropped, trimmed))| {
            let mut frame = frame(&bytes, length, kind);
            if let Some((index, value, harmless)) = change {
                let at = index.index(frame.bytes.len());
                frame.bytes[at] ^= if harmless { value & free_bits(at, kind) } else { value };
            }
            FrameToCheck {
                dropped,
                trimmed,
                ..frame
            }
        });
    let absurd =
        (bytes, any::<bool>(), 0..4u8, any::<bool>()).prop_map(|(bytes, ipv6, vlan_tags, dropped)| FrameToCheck {
            bytes,
            dropped,
            ipv6,
            vlan_tags,
            trimmed: false,
        });
    prop_oneof![12 => good, 2 => absurd]
}

fn run(width: u32, frames: &[FrameToCheck], gaps: &Pattern, back_pressure: &Pattern) -> Outcome {
    let sent = frames
        .iter()
        .map(|frame| Frame::with_user(frame.bytes.clone(), frame.user().into()));
    let stimulus = Stimulus::default().source("s_axis", gaps.clone(), sent).sink(
        "m_axis_verdict",
        back_pressure.clone(),
        SinkChecks::default(),
    );
    let outcome = spraynic_cosim::run(&mut simulation(width), &stimulus, Limits::default());
    outcome.unwrap_or_else(|error| panic!("{error}"))
}

fn run_freely(width: u32, frames: &[FrameToCheck]) -> Outcome {
    run(width, frames, &Pattern::Always, &Pattern::Always)
}

/// The verdicts of the RTL are those of the golden model, and so are the counters.
fn compare(width: u32, frames: &[FrameToCheck], outcome: &Outcome) -> Result<Vec<Verdict>, TestCaseError> {
    let mut model = IcrcCheck::new();
    let judged: Vec<(&FrameToCheck, Verdict)> = frames
        .iter()
        .filter_map(|frame| model.take(frame).map(|verdict| (frame, verdict)))
        .collect();
    let received = outcome.received("m_axis_verdict");
    for (at, ((frame, expected), received)) in judged.iter().zip(received).enumerate() {
        prop_assert_eq!(
            &[u8::from(*expected)][..],
            &received.data[..],
            "width {}, verdict {}: {:?} for tuser {:#x} and {} bytes {:02x?}",
            width,
            at,
            expected,
            frame.user(),
            frame.bytes.len(),
            &frame.bytes
        );
    }
    prop_assert_eq!(received.len(), judged.len(), "count of verdicts");
    let counters = model.counters();
    let named = [
        ("right", counters.right),
        ("drop_icrc", counters.drop_icrc),
        ("unchecked", counters.unchecked),
    ];
    prop_assert_eq!(outcome.counters.len(), named.len(), "every counter is compared");
    for (name, value) in named {
        prop_assert_eq!(outcome.counters[name], u64::from(value), "count_{}", name);
    }
    Ok(judged.into_iter().map(|(_, verdict)| verdict).collect())
}

proptest! {
    #![proptest_config(common::config(100, "icrc_check"))]

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

/// Every single bit of a frame of each kind: a flip before the IP header or in a field that may change on the way is harmless, any
/// other makes the ICRC wrong, a flip in the ICRC itself too.
#[test]
fn every_flipped_bit_is_found_but_those_that_may_change() {
    if !common::have_verilator() {
        return;
    }
    for width in WIDTHS {
        for kind in KINDS {
            let good = frame(&blocks::bytes(200, width.into()), 9, kind);
            let flips = (0..good.bytes.len()).flat_map(|at| (0..8u8).map(move |bit| (at, 1 << bit)));
            let (frames, expected): (Vec<_>, Vec<_>) = flips
                .map(|(at, bit)| {
                    let mut flipped = good.clone();
                    flipped.bytes[at] ^= bit;
                    let harmless = free_bits(at, kind) & bit != 0;
                    (flipped, if harmless { Verdict::Right } else { Verdict::Wrong })
                })
                .unzip();
            let outcome = run_freely(width, &frames);
            let verdicts = compare(width, &frames, &outcome).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(verdicts, expected, "width {width}, IPv6 and tags {kind:?}");
        }
    }
}

/// Frames that end behind each byte of a beat, for all kinds, alone in the block and one behind the other; what stands behind `tkeep`
/// is noise.
#[test]
fn a_frame_may_end_behind_any_byte() {
    if !common::have_verilator() {
        return;
    }
    for width in WIDTHS {
        let lengths = 0..width as usize / 8 + 4;
        let frames: Vec<FrameToCheck> = lengths
            .flat_map(|length| KINDS.map(|kind| frame(&blocks::bytes(300, length as u64), length, kind)))
            .collect();
        let gap = Pattern::Bursts { on: 1, off: 9 };
        for gaps in [Pattern::Always, gap] {
            let outcome = run(width, &frames, &gaps, &Pattern::Always);
            let verdicts = compare(width, &frames, &outcome).unwrap_or_else(|error| panic!("{error}"));
            assert!(
                verdicts.iter().all(|verdict| *verdict == Verdict::Right),
                "width {width}"
            );
        }
    }
}

/// A beat a clock, frames of one beat too, dropped ones between them; each verdict after the latency that the block states.
#[test]
fn one_beat_a_clock() {
    if !common::have_verilator() {
        return;
    }
    let bytes = blocks::bytes(251, 7);
    for width in WIDTHS {
        let beat_bytes = width as usize / 8;
        let shortest = vec![frame(&bytes, 0, (false, 0)); 200];
        let mut mixed: Vec<FrameToCheck> = (0..300)
            .map(|at| frame(&bytes, at % (beat_bytes + 7), KINDS[at % KINDS.len()]))
            .collect();
        for (at, frame) in mixed.iter_mut().enumerate() {
            frame.dropped = at % 7 == 3;
            frame.trimmed = at % 5 == 1;
            frame.bytes[50] ^= u8::from(at % 3 == 0);
        }
        for frames in [shortest, mixed] {
            let outcome = run_freely(width, &frames);
            compare(width, &frames, &outcome).unwrap_or_else(|error| panic!("{error}"));
            let accepted = outcome.accepted("s_axis");
            let beats: usize = frames.iter().map(|frame| frame.bytes.len().div_ceil(beat_bytes)).sum();
            let taking = accepted[accepted.len() - 1].last_cycle - accepted[0].first_cycle + 1;
            assert_eq!(taking, beats as u64, "width {width}: clocks for the beats taken");
            let judged = frames.iter().zip(accepted).filter(|(frame, _)| !frame.dropped);
            for ((_, taken), given) in judged.zip(outcome.received("m_axis_verdict")) {
                let latency = u64::from(block(width).check_latency());
                assert_eq!(given.last_cycle - taken.last_cycle, latency, "width {width}");
            }
        }
    }
}

/// The latencies that docs/src/blocks/icrc.md states.
#[test]
fn latencies_are_the_documented_ones() {
    let latencies = WIDTHS.map(|width| block(width).check_latency());
    assert_eq!(latencies, [2, 2, 2, 3, 4]);
}

/// Where nobody takes verdicts the frames wait: 16 verdicts are inside, none is lost, and dropped frames need no room.
#[test]
fn verdicts_that_nobody_takes_hold_up_the_frames() {
    if !common::have_verilator() {
        return;
    }
    for width in [64, 512] {
        let mut frames = vec![frame(&[3, 141, 59], 1, (false, 0)); 60];
        frames
            .iter_mut()
            .skip(1)
            .step_by(2)
            .for_each(|frame| frame.dropped = true);
        let outcome = run(width, &frames, &Pattern::Always, &Pattern::After { clocks: 800 });
        compare(width, &frames, &outcome).unwrap_or_else(|error| panic!("{error}"));
        let early = outcome.accepted("s_axis").iter().zip(&frames);
        let early = early
            .filter(|(taken, frame)| taken.last_cycle < 800 && !frame.dropped)
            .count();
        assert_eq!(early, 16, "width {width}");
    }
}

/// Frames of a real stack (Linux soft-RoCE) as the parser passes them on: all are right, and wrong with any one byte of payload or ICRC
/// changed.
#[test]
fn captured_frames_are_right() {
    if !common::have_verilator() {
        return;
    }
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data");
    let mut parser = PacketParser::new(Config::full());
    let mut frames = vec![];
    for entry in std::fs::read_dir(&directory).expect("captures of the repository") {
        let path = entry.expect("a directory that can be read").path();
        if path.extension().is_none_or(|extension| extension != "pcap") {
            continue;
        }
        for captured in pcap::Reader::read_all(&path).unwrap_or_else(|error| panic!("{error}")) {
            let parsed = parser.receive(&GoldenFrame::plain(captured.bytes.clone()), TrimmedDscp::default());
            if let Ok(Parsed::Packet { packet, .. }) = parsed {
                frames.push(FrameToCheck::of(&captured.bytes, &packet));
            }
        }
    }
    assert!(frames.len() > 900, "{} frames", frames.len());
    assert!(frames.iter().any(|frame| frame.ipv6));
    let mut damaged = frames.clone();
    for (at, frame) in damaged.iter_mut().enumerate() {
        let end = frame.bytes.len();
        frame.bytes[end - 1 - at % 8] ^= 1 << (at % 8);
    }
    for width in WIDTHS {
        for (frames, expected) in [(&frames, Verdict::Right), (&damaged, Verdict::Wrong)] {
            let outcome = run_freely(width, frames);
            let verdicts = compare(width, frames, &outcome).unwrap_or_else(|error| panic!("{error}"));
            assert!(verdicts.iter().all(|verdict| *verdict == expected), "width {width}");
        }
    }
}

#[test]
fn linters_have_nothing_to_say_of_fewer_kinds_of_frames() {
    if !common::have_verilator() {
        return;
    }
    for width in [64, 512] {
        for (ipv4, ipv6, vlan) in [(true, false, false), (false, true, true), (true, true, false)] {
            let context = spraynic_rtl::Context::new();
            let icrc = Icrc {
                data_width: width,
                ipv4,
                ipv6,
                vlan,
                sideband: 0,
            };
            let definition = icrc_check(&context, &icrc).expect("a block that exists");
            let source = spraynic_cosim::ModelSource::from_definition(definition);
            spraynic_cosim::lint(&source).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}
