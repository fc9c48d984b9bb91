//! scapy as an independent implementation: it builds packets that we read, we build packets that it reads, and both
//! agree on each field and on the ICRC.
//!
//! Needs a Python with scapy: `SPRAYNIC_PYTHON`, else `.venv/bin/python` of the project, else `python3`. Without one the
//! tests say so and pass, but fail where `CI` is set.

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde_json::Value;
use spraynic_wire::{BitOrder, Extension, Ip, Packet, Profile, icrc};

/// Packets in each direction.
const COUNT: usize = 200;
/// Seed of both directions, so that a failure comes again.
const SEED: u64 = 1;

/// A Python that has scapy's RoCE layer.
fn python() -> Option<PathBuf> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.venv/bin/python");
    let candidates = [
        std::env::var_os("SPRAYNIC_PYTHON").map(PathBuf::from),
        Some(project),
        Some("python3".into()),
    ];
    let found = candidates.into_iter().flatten().find(|python| {
        Command::new(python)
            .args(["-c", "import scapy.contrib.roce, scapy.layers.inet6"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    });
    if found.is_none() {
        let message = "no Python with scapy: set SPRAYNIC_PYTHON, or run `python3 -m venv .venv && .venv/bin/pip \
                       install scapy` in the project";
        assert!(std::env::var_os("CI").is_none_or(|ci| ci.is_empty()), "{message}");
        eprintln!("skipped: {message}");
    }
    found
}

/// Runs the peer script and gives one JSON object a packet.
fn peer(python: &Path, arguments: &[String], input: &str) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scapy_peer.py");
    let mut child = Command::new(python)
        .arg(script)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python starts");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_owned();
    let feeder = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("python ends");
    feeder.join().expect("feeder ends").expect("python reads");
    assert!(output.status.success(), "the script fails, see above");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// Compares what we read from a frame with what scapy read or built.
fn compare(frame: &[u8], scapy: &Value) {
    let packet = Packet::parse(frame, Some(Profile::Roce)).expect("a packet");
    let context = format!("{packet}\n{scapy}");
    assert_eq!(packet.emit(), frame, "{context}");
    assert_eq!(packet.bit_order, BitOrder::Iba);
    let number = |name: &str| scapy[name].as_u64().unwrap_or_else(|| panic!("{name}: {context}"));
    let text = |name: &str| scapy[name].as_str().unwrap_or_else(|| panic!("{name}: {context}"));
    let (source, destination, identification, flow_label, hop_limit) = match packet.ip {
        Ip::V4(ip) => (ip.source.into(), ip.destination.into(), ip.identification, 0, ip.ttl),
        Ip::V6(ip) => (ip.source.into(), ip.destination.into(), 0, ip.flow_label, ip.hop_limit),
    };
    let address = |name: &str| text(name).parse::<std::net::IpAddr>().expect("an address");
    assert_eq!(
        (address("source"), address("destination")),
        (source, destination),
        "{context}"
    );
    let tags: Vec<u64> = packet.ethernet.vlans.iter().map(|tag| tag.tci.into()).collect();
    let expected: Vec<u64> = scapy["vlans"]
        .as_array()
        .expect("list")
        .iter()
        .filter_map(Value::as_u64)
        .collect();
    assert_eq!(tags, expected, "{context}");
    let bth = &packet.bth;
    let reserved_ack = u64::from(bth.reserved_path) << 6
        | u64::from(bth.retransmission) << 5
        | u64::from(bth.timestamped) << 4
        | u64::from(bth.reserved_ack);
    for (name, value) in [
        ("traffic_class", packet.ip.traffic_class().into()),
        ("hop_limit", hop_limit.into()),
        ("identification", identification.into()),
        ("flow_label", flow_label.into()),
        ("udp_source_port", packet.udp_source_port.into()),
        ("udp_checksum", packet.udp_checksum.into()),
        ("opcode", bth.opcode.0.into()),
        ("solicited", bth.solicited.into()),
        ("migreq", bth.migration.into()),
        ("padcount", bth.pad_count.into()),
        ("pkey", bth.partition_key.into()),
        ("fecn", bth.fecn.into()),
        ("becn", bth.becn.into()),
        ("resv6", bth.reserved_congestion.into()),
        ("dqpn", bth.destination_qpn.into()),
        ("ackreq", bth.ack_request.into()),
        ("resv7", reserved_ack),
        ("psn", bth.psn.value().into()),
    ] {
        assert_eq!(number(name), value, "{name}: {context}");
    }
    let extensions = scapy["extensions"].as_array().expect("list");
    assert_eq!(extensions.len(), packet.extensions.len(), "{context}");
    for (header, expected) in packet.extensions.iter().zip(extensions) {
        compare_extension(header, expected, &context);
    }
    let payload: String = packet.payload.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(text("payload"), payload, "{context}");
    let sent = u32::from_be_bytes(icrc::compute(frame).expect("an ICRC").to_le_bytes());
    assert_eq!(text("scapy_icrc"), format!("{sent:08x}"), "ICRC: {context}");
    assert_eq!(number("icrc"), u64::from(sent), "{context}");
    assert!(icrc::verify(frame).expect("an ICRC").is_valid(), "{context}");
}

fn compare_extension(header: &Extension, expected: &Value, context: &str) {
    let fields = header.kind().fields();
    assert_eq!(fields.len(), expected.as_object().expect("object").len(), "{context}");
    for (field, value) in fields.iter().zip(header.values()) {
        assert_eq!(expected[field.name].as_u64(), Some(value), "{}: {context}", field.name);
    }
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex"))
        .collect()
}

#[test]
fn we_read_what_scapy_builds() {
    let Some(python) = python() else { return };
    let packets = peer(&python, &["build".into(), SEED.to_string(), COUNT.to_string()], "");
    assert_eq!(packets.len(), COUNT);
    for packet in packets {
        compare(&from_hex(packet["frame"].as_str().expect("hex")), &packet);
    }
}

#[test]
fn scapy_reads_what_we_build() {
    let Some(python) = python() else { return };
    let mut runner = TestRunner::new(Config {
        rng_seed: RngSeed::Fixed(SEED),
        ..Config::default()
    });
    // What scapy can read: opcodes of the roce profile, 802.1Q tags, no Ethernet padding.
    let strategy = common::packet().prop_filter_map("roce", |(_, mut packet)| {
        let info = packet.info()?;
        packet.bit_order = BitOrder::Iba;
        packet.trailer.clear();
        packet.ethernet.vlans.iter_mut().for_each(|tag| tag.tpid = 0x8100);
        info.is_in(Profile::Roce).then_some(packet)
    });
    let frames: Vec<Vec<u8>> = (0..COUNT)
        .map(|_| strategy.new_tree(&mut runner).expect("a packet").current().emit())
        .collect();
    let hex = |frame: &Vec<u8>| frame.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n";
    let answers = peer(&python, &["parse".into()], &frames.iter().map(hex).collect::<String>());
    assert_eq!(answers.len(), COUNT);
    for (frame, answer) in frames.iter().zip(answers) {
        compare(frame, &answer);
    }
}
