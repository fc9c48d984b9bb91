//! Tests of the slicer model: each rule of the interface by an example, and its invariants by proptest.

use proptest::prelude::*;

use super::*;

const QPN: u32 = 3;
const REMOTE: u64 = 0x1122_3344_5566_7788;

fn context(profile: Profile) -> SliceContext {
    SliceContext {
        qpn: QPN,
        open: true,
        profile: profile.code(),
        mtu: 3,
        entropy: 0xBEEF_C123,
        psn: 0xFF_FFFE,
        msn: 0xFFFF,
        rqmsn: 0x0102,
        ..SliceContext::default()
    }
}

fn request(operation: WorkOpcode, length: u32) -> WorkRequest {
    WorkRequest {
        opcode: operation as u8,
        segments: 1,
        qpn: QPN,
        local_address: 0x10_0001,
        local_key: 0xA1A2_A3A4,
        length,
        remote_address: REMOTE,
        remote_key: 0xB1B2_B3B4,
        immediate: 0xC1C2_C3C4,
        compare: 0xD1D2_D3D4_D5D6_D7D8,
        swap_add: 0xE1E2_E3E4_E5E6_E7E8,
        ..WorkRequest::default()
    }
}

fn slicer(context: SliceContext) -> PacketSlicer {
    let mut slicer = PacketSlicer::new(Config::full(8));
    slicer.write_context(&context);
    slicer
}

fn slice(context: SliceContext, request: WorkRequest) -> Vec<PacketDescriptor> {
    slicer(context).request(&request).unwrap().collect()
}

fn opcodes(packets: &[PacketDescriptor]) -> Vec<u8> {
    packets.iter().map(|packet| packet.opcode).collect()
}

fn extension_of(packet: &PacketDescriptor) -> &[u8] {
    &packet.extension.0[..usize::from(packet.extension_words) * 4]
}

#[test]
fn opcodes_follow_the_place_in_the_message() {
    use WorkOpcode::*;
    let cases: [(Profile, WorkOpcode, bool, u32, &[u8]); 17] = [
        (Profile::Roce, Send, false, 1024, &[0x04]),
        (Profile::Roce, Send, true, 1024, &[0x05]),
        (Profile::Roce, Send, false, 1025, &[0x00, 0x02]),
        (Profile::Roce, Send, true, 2049, &[0x00, 0x01, 0x03]),
        (Profile::Roce, SendInvalidate, false, 0, &[0x17]),
        (Profile::Roce, SendInvalidate, false, 2049, &[0x00, 0x01, 0x16]),
        (Profile::Roce, Write, false, 0, &[0x0A]),
        (Profile::Roce, Write, true, 0, &[0x0B]),
        (Profile::Solar, Write, false, 3072, &[0x06, 0x07, 0x08]),
        (Profile::Solar, Write, true, 1025, &[0x06, 0x09]),
        (Profile::Roce, Read, false, 1 << 31, &[0x0C]),
        (Profile::Solar, Read, false, 0, &[0x0C]),
        (Profile::Roce, FetchAdd, false, 8, &[0x14]),
        (Profile::Mrc, Write, false, 1, &[0xCA]),
        (Profile::Mrc, Write, true, 1, &[0xCB]),
        (Profile::Mrc, Write, false, 2049, &[0xC6, 0xC7, 0xC8]),
        (Profile::Mrc, Write, true, 1025, &[0xC6, 0xC9]),
    ];
    for (profile, operation, inline_immediate, length, expected) in cases {
        let request = WorkRequest {
            inline_immediate,
            remote_address: REMOTE & !7,
            ..request(operation, length)
        };
        let packets = slice(context(profile), request);
        assert_eq!(opcodes(&packets), expected, "{profile:?} {operation:?} {length}");
    }
}

#[test]
fn messages_around_the_mtu_are_cut_there_and_none_takes_less_than_one_psn() {
    // MTU 1024: the length of each packet.
    let cases: [(u32, &[u16]); 8] = [
        (0, &[0]),
        (1, &[1]),
        (1023, &[1023]),
        (1024, &[1024]),
        (1025, &[1024, 1]),
        (2047, &[1024, 1023]),
        (2048, &[1024, 1024]),
        (8193, &[1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1]),
    ];
    for &profile in Profile::ALL {
        for operation in [WorkOpcode::Write, WorkOpcode::Send] {
            if profile == Profile::Mrc && operation == WorkOpcode::Send {
                continue;
            }
            for (length, expected) in cases {
                let mut slicer = slicer(context(profile));
                let packets: Vec<_> = slicer.request(&request(operation, length)).unwrap().collect();
                let lengths: Vec<_> = packets.iter().map(|packet| packet.payload_length).collect();
                assert_eq!(lengths, expected, "{profile:?} {operation:?} {length}");
                let next = slicer.request(&request(operation, 0)).unwrap().next().unwrap();
                let psn = (0xFF_FFFE + expected.len() as u32) & 0xFF_FFFF;
                assert_eq!(next.psn, psn, "behind {profile:?} {operation:?} {length}");
            }
        }
    }
}

#[test]
fn write_carries_reth_once_and_immediate_at_the_end() {
    let packets = slice(
        context(Profile::Roce),
        WorkRequest {
            inline_immediate: true,
            ..request(WorkOpcode::Write, 2049)
        },
    );
    let reth = [
        0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0xB1, 0xB2, 0xB3, 0xB4, 0, 0, 0x08, 0x01,
    ];
    assert_eq!(extension_of(&packets[0]), reth);
    assert_eq!(extension_of(&packets[1]), []);
    assert_eq!(extension_of(&packets[2]), [0xC1, 0xC2, 0xC3, 0xC4]);
    assert_eq!(
        packets.iter().map(|packet| packet.psn).collect::<Vec<_>>(),
        [0xFF_FFFE, 0xFF_FFFF, 0]
    );
    assert_eq!(
        packets.iter().map(|packet| packet.local_address).collect::<Vec<_>>(),
        [0x10_0001, 0x10_0401, 0x10_0801]
    );
}

#[test]
fn empty_write_is_one_packet_with_reth() {
    let packets = slice(context(Profile::Roce), request(WorkOpcode::Write, 0));
    assert_eq!(packets.len(), 1);
    assert_eq!(packets[0].extension_words, 4);
    assert_eq!(packets[0].payload_length, 0);
}

#[test]
fn atomic_extension_is_address_key_swap_compare() {
    let request = WorkRequest {
        remote_address: REMOTE & !7,
        ..request(WorkOpcode::CompareSwap, 8)
    };
    let packets = slice(context(Profile::Roce), request);
    let mut expected = Vec::new();
    expected.extend_from_slice(&(REMOTE & !7).to_be_bytes());
    expected.extend_from_slice(&request.remote_key.to_be_bytes());
    expected.extend_from_slice(&request.swap_add.to_be_bytes());
    expected.extend_from_slice(&request.compare.to_be_bytes());
    assert_eq!(extension_of(&packets[0]), expected);
    assert_eq!(opcodes(&packets), [0x13]);
    assert_eq!(packets[0].payload_length, 0);
}

#[test]
fn mrc_puts_meth_tseth_and_an_advanced_reth_in_each_packet() {
    let request = WorkRequest {
        inline_immediate: true,
        ..request(WorkOpcode::Write, 1025)
    };
    let context = SliceContext {
        timestamps: true,
        ..context(Profile::Mrc)
    };
    let packets = slice(context, request);
    assert_eq!(
        extension_of(&packets[1]),
        [
            0x01, 0x02, 0xFF, 0xFF, // METH: RQMSN, MSN
            0, 0, 0, 1, // TSETH, the stamp still 0
            0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x7B, 0x88, // VA + 1024
            0xB1, 0xB2, 0xB3, 0xB4, 0, 0, 0x04, 0x01, // R_Key, length of the message
            0xC1, 0xC2, 0xC3, 0xC4, // ImmDt
        ]
    );
    assert!(
        packets
            .iter()
            .all(|packet| packet.mrc && packet.timestamped && packet.stamp == 1)
    );
    assert_eq!(packets[0].extension_words, 6);
}

#[test]
fn mrc_numbers_messages_and_those_with_immediate() {
    let mut slicer = slicer(context(Profile::Mrc));
    for (inline_immediate, msn, rqmsn) in [(false, 0, 0x102), (true, 1, 0x103), (false, 2, 0x103)] {
        let request = WorkRequest {
            inline_immediate,
            ..request(WorkOpcode::Write, 5000)
        };
        slicer.request(&request).unwrap();
        let context = slicer.context(QPN).unwrap();
        assert_eq!((context.msn, context.rqmsn), (msn, rqmsn));
    }
}

#[test]
fn other_profiles_leave_msn_alone() {
    for profile in [Profile::Roce, Profile::Solar] {
        let mut slicer = slicer(context(profile));
        let request = WorkRequest {
            inline_immediate: true,
            ..request(WorkOpcode::Write, 5000)
        };
        slicer.request(&request).unwrap();
        let context = slicer.context(QPN).unwrap();
        assert_eq!((context.msn, context.rqmsn), (0xFFFF, 0x102));
    }
}

#[test]
fn read_consumes_the_psns_of_its_responses_in_roce_alone() {
    for (profile, length, consumed) in [
        (Profile::Roce, 0, 1),
        (Profile::Roce, 1024, 1),
        (Profile::Roce, 1025, 2),
        (Profile::Roce, 1 << 31, 1 << 21),
        (Profile::Solar, 0, 1),
        (Profile::Solar, 1 << 31, 1),
    ] {
        let mut slicer = slicer(context(profile));
        let packets = slicer.request(&request(WorkOpcode::Read, length)).unwrap();
        assert_eq!(packets.len(), 1);
        assert_eq!(
            slicer.context(QPN).unwrap().psn,
            (0xFF_FFFE + consumed) & 0xFF_FFFF,
            "{profile:?} {length}"
        );
    }
}

#[test]
fn longest_message_at_the_smallest_mtu() {
    let context = SliceContext {
        mtu: 1,
        ..context(Profile::Roce)
    };
    let mut slicer = slicer(context);
    let mut packets = slicer.request(&request(WorkOpcode::Write, 1 << 31)).unwrap();
    assert_eq!(packets.len(), 1 << 23);
    let last = packets.nth((1 << 23) - 1).unwrap();
    assert_eq!((last.opcode, last.payload_length), (0x08, 256));
    assert_eq!(last.psn, (0xFF_FFFE + (1 << 23) - 1) & 0xFF_FFFF);
    assert!(packets.next().is_none());
}

#[test]
fn acknowledgement_is_requested_every_64th_and_last() {
    let packets = slice(context(Profile::Roce), request(WorkOpcode::Write, 130 * 1024 - 5));
    let asked: Vec<usize> = (0..packets.len()).filter(|&i| packets[i].ack_request).collect();
    assert_eq!(asked, [63, 127, 129]);
}

#[test]
fn solicited_event_only_where_a_receive_completes() {
    use WorkOpcode::*;
    for (operation, inline_immediate, length, expected) in [
        (Send, false, 2048, true),
        (Send, true, 2048, true),
        (SendInvalidate, false, 2048, true),
        (Write, true, 2048, true),
        (Write, false, 2048, false),
        (Read, false, 2048, false),
        (FetchAdd, false, 8, false),
    ] {
        let request = WorkRequest {
            inline_immediate,
            solicited: true,
            remote_address: 64,
            ..request(operation, length)
        };
        let packets = slice(context(Profile::Roce), request);
        let (last, before) = packets.split_last().unwrap();
        assert_eq!(last.solicited, expected, "{operation:?}");
        assert!(before.iter().all(|packet| !packet.solicited));
    }
}

#[test]
fn addresses_wrap_at_the_end_of_the_address_space() {
    let request = WorkRequest {
        local_address: u64::MAX - 1023,
        remote_address: u64::MAX - 1023,
        ..request(WorkOpcode::Write, 2048)
    };
    let packets = slice(context(Profile::Mrc), request);
    assert_eq!(packets[1].local_address, 0);
    assert_eq!(extension_of(&packets[1])[4..12], [0; 8]);
}

#[test]
fn context_beyond_the_table_is_counted_and_changes_nothing() {
    let mut slicer = PacketSlicer::new(Config::full(8));
    slicer.write_context(&SliceContext {
        qpn: 8,
        open: true,
        ..context(Profile::Roce)
    });
    assert_eq!(slicer.counters().drop_context, 1);
    assert!((0..8).all(|qpn| !slicer.context(qpn).unwrap().open));
}

#[test]
fn a_context_written_while_a_message_is_cut_holds_from_the_next_one() {
    let mut slicer = slicer(context(Profile::Roce));
    let mut packets = slicer.request(&request(WorkOpcode::Write, 4096)).unwrap();
    packets.next();
    slicer.write_context(&SliceContext {
        mtu: 1,
        psn: 77,
        entropy: 5,
        ..context(Profile::Roce)
    });
    let rest: Vec<_> = packets.map(|packet| (packet.psn, packet.payload_length)).collect();
    assert_eq!(rest, [(0xFF_FFFF, 1024), (0, 1024), (1, 1024)]);
    let next = slicer
        .request(&request(WorkOpcode::Write, 4096))
        .unwrap()
        .next()
        .unwrap();
    assert_eq!((next.psn, next.payload_length, next.entropy), (77, 256, 5));
}

/// One request that fails check number `from` and every later one, in the order of the interface.
fn failing_from(from: usize) -> (SliceContext, WorkRequest) {
    let mut context = SliceContext {
        mtu: 6,
        ..context(Profile::Roce)
    };
    let mut wrong = request(WorkOpcode::FetchAdd, 8);
    wrong.remote_address = 64;
    if from <= 5 {
        wrong.remote_address = 65;
    }
    if from <= 4 {
        wrong.length = 9;
    }
    if from <= 3 {
        wrong.inline_immediate = true;
    }
    if from <= 2 {
        wrong.segments = 0;
    }
    if from <= 1 {
        wrong.opcode = 6;
    }
    if from == 0 {
        context.open = false;
    }
    (context, wrong)
}

#[test]
fn checks_are_made_in_the_order_of_the_interface() {
    type Pick = fn(&Counters) -> u32;
    let picks: [Pick; 7] = [
        |counters| counters.drop_queue_pair,
        |counters| counters.drop_opcode,
        |counters| counters.drop_segments,
        |counters| counters.drop_immediate,
        |counters| counters.drop_length,
        |counters| counters.drop_alignment,
        |counters| counters.drop_mtu,
    ];
    for (check, pick) in picks.iter().enumerate() {
        let (context, wrong) = failing_from(check);
        let mut slicer = slicer(context);
        slicer.request(&wrong).unwrap_err();
        let counted: Vec<u32> = picks.iter().map(|pick| pick(slicer.counters())).collect();
        assert_eq!(pick(slicer.counters()), 1, "check {check}: {counted:?}");
        assert_eq!(counted.iter().sum::<u32>(), 1, "check {check}: {counted:?}");
        assert_eq!(slicer.context(QPN).unwrap().psn, context.psn);
        assert_eq!((slicer.counters().packets, slicer.counters().messages), (0, 0));
    }
}

#[test]
fn what_was_not_generated_is_dropped() {
    let mut config = Config::full(8);
    config.max_mtu = 2;
    config.profiles.set(usize::from(Profile::Solar.code()), false);
    config.operations.set(Operation::Read as usize, false);
    config.operations.set(Operation::SendImmediate as usize, false);
    let mut slicer = PacketSlicer::new(config);
    let mut drop = |context: SliceContext, request: WorkRequest| {
        slicer.write_context(&context);
        slicer.request(&request).unwrap_err()
    };
    let write = request(WorkOpcode::Write, 8);
    let small = |profile| SliceContext {
        mtu: 2,
        ..context(profile)
    };
    assert!(matches!(
        drop(small(Profile::Solar), write),
        DropReason::Opcode { profile: 1, .. }
    ));
    let read = request(WorkOpcode::Read, 8);
    assert!(matches!(
        drop(small(Profile::Roce), read),
        DropReason::Opcode { opcode: 3, .. }
    ));
    let send = request(WorkOpcode::Send, 8);
    assert!(matches!(
        drop(small(Profile::Mrc), send),
        DropReason::Opcode { opcode: 0, .. }
    ));
    let unknown = SliceContext {
        profile: 3,
        ..small(Profile::Roce)
    };
    assert!(matches!(drop(unknown, write), DropReason::Opcode { profile: 3, .. }));
    for mtu in [0, 3, 6, 7] {
        let context = SliceContext {
            mtu,
            ..context(Profile::Roce)
        };
        assert_eq!(drop(context, write), DropReason::Mtu { mtu, max_mtu: 2 });
    }
    let immediate = WorkRequest {
        inline_immediate: true,
        ..request(WorkOpcode::Send, 8)
    };
    assert!(matches!(
        drop(small(Profile::Roce), immediate),
        DropReason::Opcode { opcode: 0, .. }
    ));
    let beyond = WorkRequest { qpn: 8, ..write };
    assert!(matches!(
        drop(small(Profile::Roce), beyond),
        DropReason::QueuePair { qpn: 8, .. }
    ));
}

#[test]
fn lengths_over_2_to_the_31_are_dropped() {
    let mut slicer = slicer(context(Profile::Roce));
    for operation in [WorkOpcode::Send, WorkOpcode::Write, WorkOpcode::Read] {
        assert!(slicer.request(&request(operation, MAX_MESSAGE)).is_ok());
        assert!(matches!(
            slicer.request(&request(operation, MAX_MESSAGE + 1)),
            Err(DropReason::Length { .. })
        ));
    }
    for length in [0, 4, 7, 9, 16] {
        let atomic = WorkRequest {
            remote_address: 8,
            ..request(WorkOpcode::CompareSwap, length)
        };
        assert_eq!(slicer.request(&atomic).unwrap_err(), DropReason::Length { length });
    }
}

prop_compose! {
    fn any_length(mtu: u32)(length in prop_oneof![
        0..=3u32, mtu - 3..=mtu + 3, 2 * mtu - 3..=2 * mtu + 3, 0..=200 * mtu,
    ]) -> u32 { length }
}

prop_compose! {
    fn any_case()(mtu in 1u8..=5, profile in 0u8..=2)(
        length in any_length(128 << mtu), mtu in Just(mtu), profile in Just(profile),
        operation in 0usize..6, inline_immediate in any::<bool>(), solicited in any::<bool>(), timestamps in any::<bool>(),
        psn in 0u32..1 << 24, local_address in any::<u64>(), remote_address in any::<u64>(), entropy in any::<u32>(),
    ) -> (SliceContext, WorkRequest) {
        let operation = if profile == 2 { WorkOpcode::Write } else { WorkOpcode::ALL[operation] };
        let atomic = matches!(operation, WorkOpcode::CompareSwap | WorkOpcode::FetchAdd);
        let has_immediate = matches!(operation, WorkOpcode::Send | WorkOpcode::Write);
        let context = SliceContext { profile, mtu, timestamps, psn, entropy, ..context(Profile::Roce) };
        let request = WorkRequest {
            inline_immediate: inline_immediate && has_immediate,
            solicited,
            local_address,
            remote_address: if atomic { remote_address & !7 } else { remote_address },
            ..request(operation, if atomic { 8 } else { length })
        };
        (context, request)
    }
}

proptest! {
    #[test]
    fn payloads_tile_the_message((context, request) in any_case()) {
        let operation = WorkOpcode::from_code(request.opcode).unwrap();
        let payload = matches!(operation, WorkOpcode::Send | WorkOpcode::SendInvalidate | WorkOpcode::Write);
        let mtu = mtu_bytes(context.mtu).unwrap();
        let packets = slice(context, request);
        let mut address = request.local_address;
        for (index, packet) in packets.iter().enumerate() {
            prop_assert_eq!(packet.local_address, address);
            prop_assert_eq!(packet.psn, (context.psn + index as u32) & 0xFF_FFFF);
            prop_assert!(u32::from(packet.payload_length) <= mtu);
            prop_assert!(!payload || index + 1 == packets.len() || u32::from(packet.payload_length) == mtu);
            prop_assert_eq!(packet.entropy, context.entropy);
            prop_assert_eq!(packet.mrc, context.profile == 2);
            let used = usize::from(packet.extension_words) * 4;
            prop_assert!(packet.extension.0[used..].iter().all(|&byte| byte == 0));
            address = address.wrapping_add(u64::from(packet.payload_length));
        }
        let total: u64 = packets.iter().map(|packet| u64::from(packet.payload_length)).sum();
        prop_assert_eq!(total, if payload { u64::from(request.length) } else { 0 });
        prop_assert!(packets.last().unwrap().ack_request);
    }

    #[test]
    fn messages_follow_each_other_without_a_gap(
        (context, _) in any_case(),
        cases in prop::collection::vec(any_case(), 1..20),
    ) {
        let mut slicer = slicer(context);
        let mut expected = context.psn;
        let (mut packets, mut messages) = (0, 0);
        for (_, request) in cases {
            let Ok(sliced) = slicer.request(&request) else { continue };
            messages += 1;
            packets += sliced.len() as u32;
            let read = request.opcode == WorkOpcode::Read as u8;
            let psns = if read && context.profile == 0 {
                request.length.div_ceil(128 << context.mtu).max(1)
            } else {
                sliced.len() as u32
            };
            prop_assert_eq!(sliced.clone().next().unwrap().psn, expected);
            expected = (expected + psns) & 0xFF_FFFF;
            prop_assert_eq!(slicer.context(QPN).unwrap().psn, expected);
        }
        prop_assert_eq!(slicer.counters().packets, packets);
        prop_assert_eq!(slicer.counters().messages, messages);
    }

    #[test]
    fn any_bits_are_a_request_or_a_counted_drop(bytes: [u8; 64], context_bytes: [u8; 20], qpn in 0u32..8) {
        use spraynic_config::descriptor::Descriptor;
        let context = SliceContext { qpn, ..SliceContext::unpack(&context_bytes) };
        let request = WorkRequest { qpn, ..WorkRequest::unpack(&bytes) };
        let mut slicer = slicer(context);
        let accepted = slicer.request(&request).is_ok();
        let counters = *slicer.counters();
        let drops = counters.drop_queue_pair + counters.drop_opcode + counters.drop_segments
            + counters.drop_immediate + counters.drop_length + counters.drop_alignment + counters.drop_mtu;
        prop_assert_eq!(drops, u32::from(!accepted));
        prop_assert_eq!(counters.messages, u32::from(accepted));
        if !accepted {
            prop_assert_eq!(slicer.context(qpn), Some(&context));
        }
    }
}
