//! The block against itself in the evaluator: what needs no golden model. The equality with the golden model is shown in
//! `cosim/tests/packet_slicer.rs`.

use super::packet_slicer;
use spraynic_config::descriptor::{Descriptor, PacketDescriptor, SliceContext, WorkRequest};
use spraynic_config::{NicConfig, Preset};
use spraynic_rtl::{Bits, Context, Evaluator};

fn open(run: &mut Evaluator) {
    run.reset();
    run.set("m_axis_tready", 1);
    while run.get_u64("s_axis_context_tready") == 0 {
        run.clock();
    }
    let context = SliceContext {
        qpn: 3,
        open: true,
        mtu: 3,
        psn: 0xff_fffe,
        ..SliceContext::default()
    };
    run.set(
        "s_axis_context_tdata",
        Bits::from_bytes(SliceContext::width(), &context.pack()),
    );
    run.set("s_axis_context_tvalid", 1);
    run.clock();
    run.set("s_axis_context_tvalid", 0);
}

#[test]
fn one_request_and_one_descriptor_a_clock_for_one_queue_pair() {
    let mut config = NicConfig::preset(Preset::Lab);
    config.queue_pairs.count = 16;
    let context = Context::new();
    let mut run = Evaluator::new(packet_slicer(&context, &config));
    open(&mut run);
    let request = WorkRequest {
        opcode: 2,
        segments: 1,
        qpn: 3,
        length: 64,
        ..WorkRequest::default()
    };
    run.set(
        "s_axis_work_request_tdata",
        Bits::from_bytes(WorkRequest::width(), &request.pack()),
    );
    run.set("s_axis_work_request_tvalid", 1);
    let (mut taken, mut psns) = (0, vec![]);
    for _ in 0..108 {
        taken += run.get_u64("s_axis_work_request_tready");
        if run.get_u64("m_axis_tvalid") == 1 {
            let bytes = run.get("m_axis_tdata").to_bytes();
            psns.push(PacketDescriptor::unpack(&bytes).psn);
        }
        run.clock();
    }
    assert_eq!(taken, 108, "a request is taken in every clock");
    let expected: Vec<u32> = (0..psns.len() as u32)
        .map(|count| (0xff_fffe + count) & 0xff_ffff)
        .collect();
    assert_eq!(psns, expected, "PSNs go on without a gap, over the wrap");
    assert!(psns.len() >= 108 - 8, "{} descriptors in 108 clocks", psns.len());
}
