//! packet_slicer behind work_queue: golden model and RTL cut the same slices into the same packets, each with its origin.

#[path = "common/blocks.rs"]
mod blocks;
mod common;

use proptest::prelude::*;
use spraynic_config::descriptor::{Descriptor, PacketDescriptor, PacketOrigin, WorkOpcode, WorkRequest, WorkSlice};
use spraynic_config::{NicConfig, Preset};
use spraynic_cosim::{Frame, Limits, Outcome, Pattern, Simulation, SinkChecks, Stimulus};
use spraynic_golden::packet_slicer::slice;
use spraynic_rtl::Context;

type Part = (WorkRequest, WorkSlice);

fn simulation() -> Simulation {
    let context = Context::new();
    let config = NicConfig::preset(Preset::G100);
    blocks::simulation(
        &context,
        spraynic_hdl::packet_slicer::packet_slicer_slices(&context, &config),
    )
}

/// A slice as `work_queue` gives it: within its message, at most 4,096 bytes, one packet where there is no payload or it was lost.
fn part() -> impl Strategy<Value = Part> {
    let kind = (0..3u8, 0..6usize, 1..=5u8, any::<[bool; 5]>());
    let place = (0.0..1.0, 1..=16u8, prop_oneof![Just(0xff_fffeu32), 0..1u32 << 24]);
    let length = prop_oneof![0..600u32, 0..70_000u32, 0..=1u32 << 31];
    let numbers = any::<(u64, u64, u64, u64, u32, u32, u32, u32)>();
    (kind, place, length, numbers, any::<(u8, u16, u16, u8)>()).prop_map(
        |((profile, opcode, mtu, flags), (at, packets, psn), length, numbers, (slot, msn, rqmsn, class))| {
            let opcode = if profile == 2 {
                WorkOpcode::Write
            } else {
                WorkOpcode::ALL[opcode]
            };
            let [immediate, solicited, timestamps, retransmission, signalled] = flags;
            let (local_address, remote_address, compare, swap_add, local_key, remote_key, data, entropy) = numbers;
            let bytes = 128u32 << mtu;
            let total = length.div_ceil(bytes).max(1);
            let sends = matches!(
                opcode,
                WorkOpcode::Send | WorkOpcode::SendInvalidate | WorkOpcode::Write
            );
            let read_again = opcode == WorkOpcode::Read && profile == 0 && retransmission;
            let index = if sends || read_again {
                (f64::from(total) * at) as u32
            } else {
                0
            };
            let packets = if sends { packets.min((4096 / bytes) as u8) } else { 1 };
            let atomic = matches!(opcode, WorkOpcode::CompareSwap | WorkOpcode::FetchAdd);
            let request = WorkRequest {
                opcode: opcode as u8,
                signalled,
                solicited,
                inline_immediate: immediate && matches!(opcode, WorkOpcode::Send | WorkOpcode::Write),
                segments: 1,
                qpn: local_key & 0xff_ffff,
                local_address,
                local_key,
                length: if atomic { 8 } else { length },
                remote_address,
                remote_key,
                immediate: data,
                compare,
                swap_add,
                ..WorkRequest::default()
            };
            let slice = WorkSlice {
                index,
                packets: packets.min((total - index).min(16) as u8),
                psn,
                slot,
                msn,
                rqmsn,
                entropy,
                profile,
                mtu,
                timestamps,
                class: class % 4,
                retransmission,
                ask: entropy % 3 == 0,
                ..WorkSlice::default()
            };
            (request, slice)
        },
    )
}

fn run(parts: &[Part], gaps: &Pattern, pressure: &Pattern) -> Outcome {
    let frames = parts
        .iter()
        .map(|(request, slice)| Frame::new([request.pack(), slice.pack()].concat()));
    let stimulus = Stimulus::default().source("s_axis", gaps.clone(), frames).sink(
        "m_axis",
        pressure.clone(),
        SinkChecks::default(),
    );
    spraynic_cosim::run(&mut simulation(), &stimulus, Limits::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn packets(outcome: &Outcome) -> Vec<(PacketDescriptor, PacketOrigin)> {
    let split = PacketDescriptor::width() as usize / 8;
    let frames = outcome.received("m_axis").iter();
    frames
        .map(|frame| {
            let (packet, origin) = frame.data.split_at(split);
            (PacketDescriptor::unpack(packet), PacketOrigin::unpack(origin))
        })
        .collect()
}

proptest! {
    #![proptest_config(common::config(100, "packet_slicer_slices"))]
    #[test]
    fn slices_are_cut_as_the_golden_model_does(
        parts in prop::collection::vec(part(), 1..60), gaps in Pattern::strategy(), pressure in Pattern::strategy(),
    ) {
        if !common::have_verilator() {
            return Ok(());
        }
        let outcome = run(&parts, &gaps, &pressure);
        let expected: Vec<_> = parts.iter().flat_map(|(request, part)| slice(request, part)).collect();
        let received = packets(&outcome);
        for (place, (golden, rtl)) in expected.iter().zip(&received).enumerate() {
            prop_assert_eq!(golden, rtl, "packet {}", place);
        }
        prop_assert_eq!(expected.len(), received.len());
        prop_assert_eq!(outcome.counters["packets"], expected.len() as u64);
        prop_assert_eq!(outcome.counters["slices"], parts.len() as u64);
        prop_assert_eq!(outcome.counters.len(), 2);
    }
}

/// One slice and one packet a clock: slices of one packet, and packets within and between slices.
#[test]
fn one_packet_a_clock() {
    if !common::have_verilator() {
        return;
    }
    for count in [1u8, 4, 16] {
        let request = WorkRequest {
            opcode: 2,
            segments: 1,
            length: 1 << 20,
            ..WorkRequest::default()
        };
        let parts: Vec<Part> = (0..100u32)
            .map(|number| {
                let index = number * u32::from(count);
                (
                    request,
                    WorkSlice {
                        index,
                        packets: count,
                        psn: index,
                        mtu: 1,
                        profile: 1,
                        ..WorkSlice::default()
                    },
                )
            })
            .collect();
        let outcome = run(&parts, &Pattern::Always, &Pattern::Always);
        let frames = outcome.received("m_axis");
        assert_eq!(frames.len(), 100 * usize::from(count));
        let clocks = frames[frames.len() - 1].last_cycle - frames[0].last_cycle + 1;
        assert_eq!(clocks, frames.len() as u64, "{count} packets a slice");
        let latency = frames[0].last_cycle - outcome.accepted("s_axis")[0].last_cycle;
        assert_eq!(latency, 5, "clocks from slice to packet, as documented");
    }
}
