//! AXI4 memory and an AXI4-Lite master that are not ours (cocotbext-axi, by `scripts/axi_check`): what payload_writer and axi_write_master write,
//! what axi_read_master reads, what register_file answers.

#[path = "common/blocks.rs"]
mod blocks;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use spraynic_config::descriptor::{Descriptor, PayloadRequest, PayloadWrite, QueuePairContext};
use spraynic_config::registers::RegisterMap;
use spraynic_config::{NicConfig, Preset};
use spraynic_hdl::write_data::WriteData;
use spraynic_hdl::{axi_read_master, axi_write_master, payload_writer, register_file, spraynic_nic};
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
    let config = narrow();
    let context = Context::new();
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
    call("axi_memory", directory, memory_writer(&context, &config), &text)
}

/// A bus of 128 bits: beats of which many lie within 4 KiB, and few cases for each place of a byte.
fn narrow() -> NicConfig {
    let mut config = NicConfig::preset(Preset::Lab);
    config.datapath.width_bits = 128;
    config
}

/// Runs a check of `scripts/axi_check` on a module and packets.json.
fn call(check: &str, directory: &Path, module: Definition<'_>, packets: &str) -> (Option<i32>, String) {
    std::fs::create_dir_all(directory).expect("a writable directory");
    for file in module.verilog() {
        std::fs::write(directory.join(file.name), file.text).expect("a writable directory");
    }
    std::fs::write(directory.join("packets.json"), packets).expect("a writable directory");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/axi_check");
    let done = Command::new("python3")
        .arg(script)
        .args(["--check", check])
        .arg(directory)
        .arg(module.name())
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

/// Seed of packets and memory.
fn seed() -> u64 {
    let given = std::env::var("SPRAYNIC_AXI_SEED").ok();
    given.and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

/// Run it again with another seed: `SPRAYNIC_AXI_SEED=7 cargo test -p spraynic-cosim --test axi_check`.
#[test]
fn memory_holds_what_was_sent() {
    let seed = seed();
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

/// Requests as the packets of the write check: lengths and places around the ends of beats and of 4 KiB.
fn requests(seed: u64, count: usize) -> Vec<PayloadRequest> {
    let packets = packets(seed, count).into_iter().map(|(packet, _)| packet);
    packets
        .filter(|packet| packet.length > 0)
        .map(|packet| PayloadRequest {
            address: packet.address,
            length: packet.length,
            ..PayloadRequest::default()
        })
        .collect()
}

/// The check of reads; `claimed` says where each packet is to come from.
fn run_reads(name: &str, seed: u64, requests: &[PayloadRequest], claimed: &[u64]) -> (Option<i32>, String) {
    let context = Context::new();
    let rows: Vec<String> = requests
        .iter()
        .zip(claimed)
        .map(|(request, address)| {
            let word = hexadecimal(request.pack().iter().rev());
            format!(
                "{{\"word\": \"{word}\", \"address\": {address}, \"length\": {}}}",
                request.length
            )
        })
        .collect();
    let text = format!("{{\"seed\": {seed}, \"packets\": [\n{}\n]}}\n", rows.join(",\n"));
    let master = axi_read_master::axi_read_master(&context, &narrow());
    call("axi_read", &directory(name), master, &text)
}

#[test]
fn packets_are_what_memory_holds() {
    let seed = seed();
    let requests = requests(seed, 200);
    let claimed: Vec<u64> = requests.iter().map(|request| request.address).collect();
    let (status, said) = run_reads("axi_check_read", seed, &requests, &claimed);
    println!("{said}");
    assert_eq!(status, Some(0), "seed {seed}: {said}");
}

/// The check can fail: a packet that is read one byte beside its place is found.
#[test]
fn a_read_of_a_wrong_address_is_found() {
    let requests = requests(3, 12);
    let mut claimed: Vec<u64> = requests.iter().map(|request| request.address).collect();
    claimed[7] = claimed[7].abs_diff(1);
    let (status, said) = run_reads("axi_check_read_wrong", 3, &requests, &claimed);
    if said.contains("skipped") {
        eprintln!("{said}");
        return;
    }
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("packet 7 is not what memory holds"), "{said}");
}

/// The check of registers against a map, which is the block's own or is not.
fn run_registers(name: &str, map: &RegisterMap) -> (Option<i32>, String) {
    let context = Context::new();
    let block = register_file::register_file(&context, &spraynic_nic::register_map(&narrow()));
    call("axi_registers", &directory(name), block, &map.json())
}

#[test]
fn a_bus_master_finds_what_the_map_says() {
    let (status, said) = run_registers("axi_check_registers", &spraynic_nic::register_map(&narrow()));
    println!("{said}");
    assert_eq!(status, Some(0), "{said}");
}

/// The check can fail: a register that stands elsewhere than the map says is found.
#[test]
fn a_wrong_map_is_found() {
    let mut map = spraynic_nic::register_map(&narrow());
    let place = map
        .registers
        .iter()
        .position(|register| register.name == "sack_timer_ns");
    map.registers[place.expect("there is one")].reset = Some(4001);
    let (status, said) = run_registers("axi_check_registers_wrong", &map);
    if said.contains("skipped") {
        eprintln!("{said}");
        return;
    }
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("sack_timer_ns reads as 0xfa0 after reset, not 0xfa1"),
        "{said}"
    );
}
