//! Packets a second of the golden transmit pipeline: `cargo bench -p spraynic-golden`.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput};
use spraynic_config::descriptor::{HeaderTemplate, PayloadRequest, SliceContext, WorkOpcode, WorkRequest};
use spraynic_config::{NicConfig, Preset};
use spraynic_golden::transmit_pipeline::{Config, Memory, TransmitPipeline};

/// Packets of one measured message.
const PACKETS: u32 = 256;

struct Zeros;

impl Memory for Zeros {
    fn read(&mut self, request: &PayloadRequest) -> Vec<u8> {
        vec![0; usize::from(request.length)]
    }
}

fn loaded(mtu: u8) -> TransmitPipeline {
    let mut pipeline = TransmitPipeline::new(Config::from(&NicConfig::preset(Preset::G100)));
    pipeline.write_context(&SliceContext {
        open: true,
        mtu,
        ..SliceContext::default()
    });
    pipeline.write_template(&HeaderTemplate {
        hop_limit: 64,
        ..HeaderTemplate::default()
    });
    let request = WorkRequest {
        opcode: WorkOpcode::Write as u8,
        segments: 1,
        length: PACKETS * (128 << mtu),
        ..WorkRequest::default()
    };
    pipeline
        .request(&request)
        .expect("the queue pair is open and the request has no fault");
    pipeline
}

fn transmit(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("transmit_pipeline");
    group.throughput(Throughput::Elements(u64::from(PACKETS)));
    for mtu in [1u8, 5] {
        group.bench_function(format!("write, MTU {}", 128u32 << mtu), |bencher| {
            bencher.iter_batched(
                || loaded(mtu),
                |mut pipeline| {
                    let mut frames = 0;
                    while let Some(frame) = pipeline.transmit(&mut Zeros, 0) {
                        black_box(&frame);
                        frames += 1;
                    }
                    assert_eq!(frames, PACKETS);
                    pipeline
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    transmit(&mut criterion);
    criterion.final_summary();
}
