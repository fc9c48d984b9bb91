//! What payload_writer and axi_write_master write, checked by a model of AXI4 memory that is not ours: cocotbext-axi, by `scripts/axi_check`.

#[path = "common/blocks.rs"]
mod blocks;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use spraynic_config::descriptor::{Descriptor, PayloadWrite, QueuePairContext};
use spraynic_config::{NicConfig, Preset};
use spraynic_hdl::write_data::WriteData;
use spraynic_hdl::{axi_write_master, payload_writer};
use spraynic_rtl::{AxiStream, Context, Definition, Stream};

/// Bytes of the memory, as in scripts/tests/axi_memory.py.
const MEMORY_BYTES: u64 = 1 << 16;

/// payload_writer with axi_write_master behind it.
fn memory_writer<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let m = context.module("memory_writer");
    let writer = m.instance("u_writer", payload_writer::payload_writer(context, config));
    let master = m.instance("u_master", axi_write_master::axi_write_master(context, config));
    Stream::slave(m, "s_axis", PayloadWrite::width(), "PayloadWrite").connect(Stream::into_instance(writer, "s_axis"));
    let context_in = Stream::slave(m, "s_axis_context", QueuePairContext::width(), "QueuePairContext");
    context_in.connect(Stream::into_instance(writer, "s_axis_context"));
    let payload = AxiStream::slave(m, "s_axis_payload", config.datapath.width_bits, 1, "payload");
    payload.connect(AxiStream::into_instance(writer, "s_axis_payload"));
    for name in ["m_axis", "m_axis_completion"] {
        let from = Stream::from_instance(writer, name);
        from.connect(Stream::master(m, name, from.data.width(), "as payload_writer"));
    }
    Stream::from_instance(writer, "m_axis_write").connect(Stream::into_instance(master, "s_axis_write"));
    WriteData::from_instance(writer, "m_axis_write_data")
        .connect(WriteData::into_instance(master, "s_axis_write_data"));
    Stream::from_instance(master, "m_axis_written").connect(Stream::into_instance(writer, "s_axis_written"));
    for port in master.definition().ports() {
        if port.name.starts_with("m_axi_") && port.output {
            m.output_of(&port.name, master.output(&port.name));
        } else if port.name.starts_with("m_axi_") {
            master.input(&port.name).set(m.input(&port.name, port.width));
        }
    }
    for instance in [writer, master] {
        for port in instance.definition().ports() {
            if port.name.starts_with("count_") {
                instance.output(&port.name).ignore();
            }
        }
    }
    m.finish()
}

/// Packets of all lengths, many of them around the ends of beats and of 4 KiB, over each other, some without payload.
fn packets(seed: u64, count: usize) -> Vec<(PayloadWrite, Vec<u8>)> {
    let mut state = seed;
    let mut below = |limit: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    (0..count as u64)
        .map(|number| {
            let length = match below(8) {
                0 => 0,
                1 => 4096 - below(3),
                2 | 3 => 16 * (1 + below(8)),
                _ => 1 + below(300),
            };
            let page = 4096 * (1 + below(14));
            let address = match below(4) {
                0 => page,
                1 => page - below(length + 2),
                2 => page + 16 * below(256),
                _ => below(MEMORY_BYTES),
            };
            let packet = PayloadWrite {
                address: address.min(MEMORY_BYTES - length),
                length: length as u16,
                answer: true,
                ..PayloadWrite::default()
            };
            (packet, blocks::bytes(length as usize, seed ^ number))
        })
        .collect()
}

fn hexadecimal<'b>(bytes: impl Iterator<Item = &'b u8>) -> String {
    bytes.fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Runs `scripts/axi_check` on packets, and where they are claimed to go; returns its exit status and what it said.
fn run(directory: &Path, seed: u64, packets: &[(PayloadWrite, Vec<u8>)], claimed: &[u64]) -> (Option<i32>, String) {
    let mut config = NicConfig::preset(Preset::Lab);
    config.datapath.width_bits = 128;
    let context = Context::new();
    std::fs::create_dir_all(directory).expect("a writable directory");
    for file in memory_writer(&context, &config).verilog() {
        std::fs::write(directory.join(file.name), file.text).expect("a writable directory");
    }
    let rows: Vec<String> = packets
        .iter()
        .zip(claimed)
        .map(|((packet, payload), address)| {
            // The most significant byte first.
            let word = hexadecimal(packet.pack().iter().rev());
            let payload = hexadecimal(payload.iter());
            format!("{{\"word\": \"{word}\", \"address\": {address}, \"payload\": \"{payload}\"}}")
        })
        .collect();
    let text = format!("{{\"seed\": {seed}, \"packets\": [\n{}\n]}}\n", rows.join(",\n"));
    std::fs::write(directory.join("packets.json"), text).expect("a writable directory");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/axi_check");
    let done = Command::new("python3")
        .arg(script)
        .arg(directory)
        .arg("memory_writer")
        .output();
    match done {
        Ok(done) => {
            let said = [done.stdout, done.stderr].concat();
            (done.status.code(), String::from_utf8_lossy(&said).into_owned())
        }
        Err(error) if std::env::var_os("CI").is_none_or(|ci| ci.is_empty()) => {
            (Some(0), format!("axi_check: skipped, missing: python3 ({error})"))
        }
        Err(error) => panic!("python3: {error}"),
    }
}

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Run it again with another seed: `SPRAYNIC_AXI_SEED=7 cargo test -p spraynic-cosim --test axi_check`.
#[test]
fn memory_holds_what_was_sent() {
    let seed = std::env::var("SPRAYNIC_AXI_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(1);
    let packets = packets(seed, 200);
    let claimed: Vec<u64> = packets.iter().map(|(packet, _)| packet.address).collect();
    let (status, said) = run(&directory("axi_check"), seed, &packets, &claimed);
    println!("{said}");
    assert_eq!(status, Some(0), "seed {seed}: {said}");
}

/// The check can fail: bytes that are written one place beside where they belong are found.
#[test]
fn a_wrong_address_is_found() {
    let mut packets = packets(3, 12);
    let wrong = packets
        .iter_mut()
        .rev()
        .find(|(packet, _)| packet.length > 1)
        .expect("some have payload");
    wrong.0.address -= u64::from(wrong.0.address > 0);
    let claimed: Vec<u64> = self::packets(3, 12).iter().map(|(packet, _)| packet.address).collect();
    let (status, said) = run(&directory("axi_check_wrong"), 3, &packets, &claimed);
    if said.contains("skipped") {
        eprintln!("{said}");
        return;
    }
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("before memory has it"), "{said}");
}
