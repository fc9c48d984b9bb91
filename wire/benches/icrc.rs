//! Speed of the ICRC and of parsing and emitting, for frames of several sizes.
#![allow(missing_docs, reason = "criterion_group! generates a public function")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use spraynic_wire::{Bth, Ethernet, Ip, Ipv4, Opcode, Packet, icrc};

fn frame(payload: usize) -> Vec<u8> {
    let bth = Bth {
        opcode: Opcode::SEND_ONLY,
        ..Bth::default()
    };
    Packet::new(Ethernet::default(), Ip::V4(Ipv4::default()), 0xC000, bth, vec![])
        .with_payload((0..payload).map(|byte| byte as u8).collect())
        .emit()
}

fn speed(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("wire");
    for payload in [64, 1024, 4096] {
        let frame = frame(payload);
        group.throughput(Throughput::Bytes(frame.len() as u64));
        group.bench_with_input(BenchmarkId::new("icrc", payload), &frame, |bencher, frame| {
            bencher.iter(|| icrc::compute(black_box(frame)));
        });
        group.bench_with_input(BenchmarkId::new("parse", payload), &frame, |bencher, frame| {
            bencher.iter(|| Packet::parse(black_box(frame), None));
        });
        let packet = Packet {
            icrc: None,
            ..Packet::parse(&frame, None).expect("a packet")
        };
        group.bench_with_input(BenchmarkId::new("emit", payload), &packet, |bencher, packet| {
            bencher.iter(|| black_box(packet).emit());
        });
    }
    group.finish();
}

criterion_group!(benches, speed);
criterion_main!(benches);
