//! packet_parser: RTL and golden model give the same descriptors, payload, frames and counters for any bytes, at every width.

#[path = "common/blocks.rs"]
mod blocks;
mod common;
#[path = "packet_parser/frames.rs"]
mod frames;
#[path = "packet_parser/named.rs"]
mod named;

use proptest::prelude::*;
use spraynic_config::descriptor::{Descriptor, ReceivedPacket};
use spraynic_config::{NicConfig, Preset, Profile};
use spraynic_cosim::{Frame, Limits, Outcome, Pattern, Simulation, SinkChecks, Stimulus};
use spraynic_golden::frame::Frame as GoldenFrame;
use spraynic_golden::packet_parser::{Config, Counters, PacketParser as Golden, Parsed, TrimmedDscp};
use spraynic_hdl::packet_parser::{PacketParser, packet_parser};

const WIDTHS: [u32; 5] = [64, 128, 256, 512, 1024];
const OUTPUTS: [&str; 4] = [
    "m_axis_descriptor",
    "m_axis_payload",
    "m_axis_frame",
    "m_axis_slow_path",
];

/// Everything that the wire can carry, at this width.
fn everything(width: u32) -> NicConfig {
    let mut config = NicConfig::preset(Preset::G100);
    config.datapath.width_bits = width;
    config
}

/// Configurations that lack something, each in its own way.
fn partial() -> [NicConfig; 3] {
    let [mut roce, mut mrc, mut solar] = [64, 512, 128].map(everything);
    roce.wire.profiles = [Profile::Roce].into();
    (roce.wire.ipv6, roce.wire.vlan, roce.wire.max_mtu) = (false, false, 1024);
    mrc.wire.profiles = [Profile::Mrc].into();
    (mrc.wire.ipv4, mrc.wire.vlan) = (false, true);
    solar.wire.profiles = [Profile::Solar].into();
    (solar.wire.vlan, solar.wire.max_mtu) = (false, 256);
    [roce, mrc, solar]
}

/// One run: what is sent, and when each side is willing.
#[derive(Debug, Clone)]
struct Run {
    frames: Vec<GoldenFrame>,
    trimmed: TrimmedDscp,
    gaps: Pattern,
    /// In the order of [`OUTPUTS`].
    stalls: [Pattern; 4],
}

impl Run {
    /// Frames back to back, and nobody stalls.
    fn free(frames: Vec<GoldenFrame>) -> Self {
        Self {
            frames,
            trimmed: TrimmedDscp::default(),
            gaps: Pattern::Always,
            stalls: [const { Pattern::Always }; 4],
        }
    }

    fn of(bytes: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::free(bytes.into_iter().map(GoldenFrame::plain).collect())
    }

    fn stimulus(&self) -> Stimulus {
        let sent = self
            .frames
            .iter()
            .map(|frame| Frame::with_user(frame.bytes.clone(), u64::from(frame.bad)));
        let mut stimulus = Stimulus::default()
            .source("s_axis", self.gaps.clone(), sent)
            .input("trimmed_dscp", u64::from(self.trimmed.trimmed))
            .input("trimmed_last_hop_dscp", u64::from(self.trimmed.last_hop));
        // What stands in tuser before the last beat means nothing.
        stimulus.sources[0].user_last_only = true;
        for (output, stalls) in OUTPUTS.iter().zip(&self.stalls) {
            let checks = SinkChecks {
                record_beats: true,
                constant_user: if *output == "m_axis_frame" { 0b11110 } else { 0 },
                ..SinkChecks::default()
            };
            stimulus = stimulus.sink(output, stalls.clone(), checks);
        }
        stimulus
    }

    fn on(&self, simulation: &mut Simulation) -> Result<Outcome, TestCaseError> {
        Ok(spraynic_cosim::run(simulation, &self.stimulus(), Limits::default())?)
    }

    /// Runs and compares with the golden model.
    fn check(&self, config: &NicConfig) -> Result<Outcome, TestCaseError> {
        let outcome = self.on(&mut simulation(config))?;
        self.compare(config, &outcome)?;
        Ok(outcome)
    }

    /// Every stream and every counter is what the golden model says.
    fn compare(&self, config: &NicConfig, outcome: &Outcome) -> Result<Counters, TestCaseError> {
        let mut model = Golden::new(Config::from(config));
        let mut expected = Expected::default();
        for frame in &self.frames {
            match model.receive(frame, self.trimmed) {
                Ok(Parsed::SlowPath(bytes)) => expected.slow_path.push((bytes, 0)),
                Ok(Parsed::Packet { packet, payload }) => expected.add(&frame.bytes, &packet, payload),
                Err(_) => {}
            }
        }
        let whole = |stream: &str| -> Vec<(Vec<u8>, u64)> {
            let received = outcome.received(stream).iter();
            let whole = received.filter(|frame| frame.user & 1 == 0);
            whole.map(|frame| (frame.data.clone(), frame.user)).collect()
        };
        same("m_axis_slow_path", &expected.slow_path, &whole("m_axis_slow_path"))?;
        same("m_axis_payload", &expected.payload, &whole("m_axis_payload"))?;
        same("m_axis_frame", &expected.frames, &whole("m_axis_frame"))?;
        let given = outcome.received("m_axis_descriptor").iter();
        let given: Vec<_> = given.map(|beat| ReceivedPacket::unpack(&beat.data)).collect();
        same("m_axis_descriptor", &expected.descriptors, &given)?;
        for (name, count) in counters(model.counters()) {
            prop_assert_eq!(outcome.counters.get(name), Some(&u64::from(count)), "counter {}", name);
        }
        Ok(*model.counters())
    }
}

#[derive(Default)]
struct Expected {
    descriptors: Vec<ReceivedPacket>,
    payload: Vec<(Vec<u8>, u64)>,
    /// With `tuser`.
    frames: Vec<(Vec<u8>, u64)>,
    slow_path: Vec<(Vec<u8>, u64)>,
}

impl Expected {
    fn add(&mut self, frame: &[u8], packet: &ReceivedPacket, payload: Vec<u8>) {
        let ip = 14 + 4 * usize::from(packet.vlan_tags);
        let length = |at: usize| usize::from(u16::from_be_bytes([frame[ip + at], frame[ip + at + 1]]));
        let end = ip + if packet.ipv6 { 40 + length(4) } else { length(2) };
        let user = u64::from(packet.ipv6) << 1 | u64::from(packet.vlan_tags) << 2 | u64::from(packet.trimmed != 0) << 4;
        self.frames.push((frame[..end.min(frame.len())].to_vec(), user));
        if !payload.is_empty() {
            self.payload.push((payload, 0));
        }
        self.descriptors.push(*packet);
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, expected: &[T], given: &[T]) -> Result<(), TestCaseError> {
    for (index, (expected, given)) in expected.iter().zip(given).enumerate() {
        prop_assert_eq!(expected, given, "{} {}", what, index);
    }
    prop_assert_eq!(expected.len(), given.len(), "count of {}", what);
    Ok(())
}

fn counters(model: &Counters) -> [(&'static str, u32); 13] {
    [
        ("frames", model.frames),
        ("packets", model.packets),
        ("slow_path", model.slow_path),
        ("drop_mac", model.drop_mac),
        ("drop_short", model.drop_short),
        ("drop_ip_checksum", model.drop_ip_checksum),
        ("drop_ip_length", model.drop_ip_length),
        ("drop_udp_length", model.drop_udp_length),
        ("drop_version", model.drop_version),
        ("drop_opcode", model.drop_opcode),
        ("drop_trimmed", model.drop_trimmed),
        ("drop_pad", model.drop_pad),
        ("drop_payload", model.drop_payload),
    ]
}

/// A model of this configuration, built once.
fn simulation(config: &NicConfig) -> Simulation {
    let context = spraynic_rtl::Context::new();
    let definition = packet_parser(&context, &PacketParser::from(config)).expect("a parser that exists");
    blocks::simulation(&context, definition)
}

fn runs(frames: usize) -> impl Strategy<Value = Run> {
    let port = || prop_oneof![Just(0u8), 1..64u8];
    let ports = (port(), port()).prop_map(|(trimmed, last_hop)| TrimmedDscp { trimmed, last_hop });
    let patterns = (
        Pattern::strategy(),
        [
            Pattern::strategy(),
            Pattern::strategy(),
            Pattern::strategy(),
            Pattern::strategy(),
        ],
    );
    (ports, patterns).prop_flat_map(move |(trimmed, (gaps, stalls))| {
        prop::collection::vec(frames::any_frame(trimmed), 1..frames).prop_map(move |frames| Run {
            frames,
            trimmed,
            gaps: gaps.clone(),
            stalls: stalls.clone(),
        })
    })
}

proptest! {
    #![proptest_config(common::config(60, "packet_parser"))]

    #[test]
    fn rtl_equals_the_golden_model(width in prop::sample::select(&WIDTHS[..]), run in runs(30)) {
        if common::have_verilator() {
            run.check(&everything(width))?;
        }
    }
}

proptest! {
    #![proptest_config(common::config(24, "packet_parser"))]

    #[test]
    fn what_was_not_generated_goes_to_the_host_or_is_dropped(index in 0..3usize, run in runs(30)) {
        if common::have_verilator() {
            run.check(&partial()[index])?;
        }
    }
}

/// Many frames, most of them damaged. `SPRAYNIC_FRAMES=1000000` makes it a million.
#[test]
fn hostile_frames_are_counted_once_each_and_nothing_hangs() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
    if !common::have_verilator() {
        return;
    }
    let count = match std::env::var("SPRAYNIC_FRAMES") {
        Ok(text) => text.parse().expect("SPRAYNIC_FRAMES is a number of frames"),
        Err(_) => 3000u64,
    };
    let mut sent = Counters::default();
    for batch in 0u64.. {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&batch.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
        let mut runner = TestRunner::new_with_rng(common::config(1, "packet_parser"), rng);
        let run = runs(1000).new_tree(&mut runner).expect("no filters").current();
        let config = everything(512);
        let checked = run
            .on(&mut simulation(&config))
            .and_then(|outcome| run.compare(&config, &outcome));
        let counted = checked.unwrap_or_else(|error| panic!("batch {batch}: {error}"));
        sent.frames += counted.frames;
        sent.packets += counted.packets;
        sent.slow_path += counted.slow_path;
        if u64::from(sent.frames) >= count {
            break;
        }
    }
    let dropped = sent.frames - sent.packets - sent.slow_path;
    eprintln!(
        "{} frames: {} packets, {} for the host, {dropped} dropped",
        sent.frames, sent.packets, sent.slow_path
    );
    assert!(sent.packets > 0 && sent.slow_path > 0 && dropped > 0);
}
