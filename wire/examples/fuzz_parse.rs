//! Damages frames and capture files for as long as wanted and checks what must hold of any bytes.
//!
//! `cargo run -p spraynic-wire --example fuzz_parse -- --count 10000000 --seed 1`

#[path = "../tests/common/check.rs"]
#[allow(unreachable_pub, reason = "shared with the tests")]
mod check;

use std::path::Path;
use std::time::Instant;

use check::{Random, damage, mend};
use spraynic_wire::opcode::OPCODES;
use spraynic_wire::pcap::{Reader, Writer};
use spraynic_wire::{Bth, Ethernet, Header, HeaderKind, Ip, Ipv4, Ipv6, Packet, Pfc, VlanTag};

/// The value behind `--name`, or the default.
fn argument(name: &str, default: u64) -> Result<u64, String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    match (arguments.next(), arguments.next()) {
        (None, _) => Ok(default),
        (Some(_), Some(value)) => value.parse().map_err(|_| format!("{name} {value}: should be a number")),
        (Some(_), None) => Err(format!("{name}: a number should follow")),
    }
}

/// One frame of each opcode over IPv4 and IPv6, with and without tags, and every captured frame.
fn corpus() -> Vec<Vec<u8>> {
    let mut frames = vec![
        Pfc {
            class_enable: 8,
            timers: [9; 8],
            ..Pfc::default()
        }
        .emit()
        .to_vec(),
    ];
    for info in OPCODES {
        for ip in [Ip::V4(Ipv4::default()), Ip::V6(Ipv6::default())] {
            for timestamped in [false, true] {
                let bth = Bth {
                    opcode: info.opcode,
                    timestamped,
                    ..Bth::default()
                };
                let (headers, _) =
                    HeaderKind::parse_all(info.headers(timestamped), &[0x5A; 64]).expect("64 bytes suffice");
                let vlans = if timestamped { vec![VlanTag::new(7)] } else { vec![] };
                let packet = Packet::new(
                    Ethernet {
                        vlans,
                        ..Ethernet::default()
                    },
                    ip,
                    0xC000,
                    bth,
                    headers,
                );
                frames.push(
                    packet
                        .with_payload(vec![1; if info.has_payload { 33 } else { 0 }])
                        .emit(),
                );
            }
        }
    }
    assert!(Bth::LENGTH == 12 && frames.len() > 100);
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data");
    for entry in std::fs::read_dir(data).into_iter().flatten().flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "pcap") {
            frames.extend(
                Reader::read_all(&entry.path())
                    .expect("a capture")
                    .into_iter()
                    .map(|frame| frame.bytes),
            );
        }
    }
    frames
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = argument("--count", 1_000_000)?;
    let seed = argument("--seed", 1)?;
    let frames = corpus();
    let mut random = Random::new(seed);
    let started = Instant::now();
    let (mut packets, mut captured) = (0u64, 0u64);
    for round in 0..count {
        let mut bytes = frames[random.below(frames.len())].clone();
        if round % 64 == 0 {
            let mut writer = Writer::new(Vec::new())?;
            writer.write(started.elapsed(), &bytes)?;
            writer.write(started.elapsed(), &bytes[..bytes.len() / 2])?;
            let mut file = writer.finish()?;
            damage(&mut random, &mut file);
            captured += check::capture_file(&file) as u64;
        }
        damage(&mut random, &mut bytes);
        mend(&mut random, &mut bytes);
        packets += u64::from(check::frame(&bytes));
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "seed {seed}: {count} damaged frames, {packets} still packets, {captured} frames out of damaged captures,"
    );
    println!("nothing panicked, {:.0} frames/s", count as f64 / seconds);
    Ok(())
}
