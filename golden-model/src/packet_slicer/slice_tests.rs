//! Slices against whole messages: however a message is sliced, its packets are those that the block cuts by itself.

use proptest::prelude::*;

use super::*;
use crate::packet_slicer::{Config, PacketSlicer};

fn whole(request: &WorkRequest, like: &WorkSlice) -> Vec<PacketDescriptor> {
    let mut slicer = PacketSlicer::new(Config::full(16));
    slicer.write_context(&SliceContext {
        qpn: request.qpn,
        open: true,
        profile: like.profile,
        mtu: like.mtu,
        timestamps: like.timestamps,
        entropy: like.entropy,
        psn: like.psn,
        msn: like.msn,
        rqmsn: like.rqmsn,
        ..SliceContext::default()
    });
    slicer.request(request).into_iter().flatten().collect()
}

fn request(opcode: WorkOpcode, length: u32) -> WorkRequest {
    WorkRequest {
        opcode: opcode as u8,
        segments: 1,
        qpn: 3,
        length,
        local_address: 0x1_0000,
        remote_address: 0x2_0000,
        ..WorkRequest::default()
    }
}

proptest! {
    #[test]
    fn slices_together_are_the_message(
        profile in 0..3u8, mtu in 1..=5u8, length in 0..40_000u32, opcode in 0..6usize, immediate in any::<bool>(),
        psn in prop_oneof![Just(0xff_fffeu32), 0..1u32 << 24], numbers in any::<(u16, u16, u32, bool)>(),
        cuts in prop::collection::vec(1..=16u8, 200),
    ) {
        let opcode = if profile == 2 { WorkOpcode::Write } else { WorkOpcode::ALL[opcode] };
        let carries = matches!(opcode, WorkOpcode::Send | WorkOpcode::Write);
        let length = if matches!(opcode, WorkOpcode::CompareSwap | WorkOpcode::FetchAdd) { 8 } else { length };
        let request = WorkRequest { inline_immediate: immediate && carries, ..request(opcode, length) };
        let (msn, rqmsn, entropy, timestamps) = numbers;
        let first = WorkSlice { profile, mtu, psn, msn, rqmsn, entropy, timestamps, slot: 7, class: 2, ..WorkSlice::default() };
        let expected = whole(&request, &first);
        let (mut got, mut psns) = (vec![], 0);
        for packets in cuts {
            let index = got.len() as u32;
            if got.len() == expected.len() {
                break;
            }
            let part = WorkSlice { index, packets, psn: (psn + index) & PSN_MASK, ..first };
            for (packet, origin) in slice(&request, &part) {
                got.push(packet);
                prop_assert_eq!(origin.last, got.len() == expected.len());
                prop_assert_eq!((origin.slot, origin.class, origin.profile), (7, 2, profile));
                prop_assert!(origin.tracked && !origin.space && !origin.retransmission);
                psns += origin.psns;
            }
        }
        prop_assert_eq!(&got, &expected);
        let responses = length.div_ceil(128 << mtu).max(1);
        let read = opcode == WorkOpcode::Read && profile == 0;
        prop_assert_eq!(psns, if read { responses } else { expected.len() as u32 });
    }

    /// Whatever the bits are, a slice ends, and has no more packets than it says.
    #[test]
    fn any_bits_are_a_slice_that_ends(request in prop::collection::vec(any::<u8>(), 64), bits in prop::collection::vec(any::<u8>(), 24)) {
        use spraynic_config::descriptor::Descriptor;
        let part = WorkSlice::unpack(&bits);
        prop_assert!(slice(&WorkRequest::unpack(&request), &part).count() <= usize::from(part.packets));
    }
}

#[test]
fn a_read_sent_again_asks_for_the_rest_only() {
    let part = WorkSlice {
        index: 3,
        packets: 1,
        psn: 103,
        mtu: 1,
        retransmission: true,
        ..WorkSlice::default()
    };
    let packets: Vec<_> = slice(&request(WorkOpcode::Read, 1_000), &part).collect();
    assert_eq!(packets.len(), 1);
    let (packet, origin) = packets[0];
    assert_eq!((packet.psn, origin.psns), (103, 1));
    assert_eq!(packet.extension.0[..8], (0x2_0000u64 + 768).to_be_bytes());
    assert_eq!(packet.extension.0[12..16], 232u32.to_be_bytes());
    assert_eq!(packet.local_address, 0x1_0000 + 768);
    assert!(origin.last && origin.retransmission && packet.ack_request);
}

#[test]
fn what_is_sent_again_is_marked_by_the_means_of_its_profile() {
    for (profile, marked, asks) in [(0, false, false), (1, false, true), (2, true, false)] {
        let part = WorkSlice {
            index: 1,
            packets: 1,
            psn: 1,
            mtu: 1,
            profile,
            retransmission: true,
            ..WorkSlice::default()
        };
        let packets: Vec<_> = slice(&request(WorkOpcode::Write, 1_000), &part).collect();
        let (packet, origin) = packets[0];
        assert_eq!(
            (packet.retransmission, packet.ack_request),
            (marked, asks),
            "profile {profile}"
        );
        assert!(origin.retransmission && !origin.last);
    }
}
