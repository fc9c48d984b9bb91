//! Properties of the responder model: whole messages arrive where they should, and no packet does harm.

use std::collections::BTreeMap;

use proptest::prelude::*;
use spraynic_config::descriptor::{PacketDescriptor, SliceContext, WorkOpcode, WorkRequest};

use super::*;
use crate::packet_slicer::{self, PacketSlicer};

/// A descriptor of the transmit path as it reaches the peer's responder.
fn arrived(descriptor: &PacketDescriptor, profile: Profile) -> SequencedPacket {
    let mut extension = RequestExtension::default();
    let length = extension.0.len();
    extension.0.copy_from_slice(&descriptor.extension.0[..length]);
    SequencedPacket {
        qpn: QPN,
        opcode: descriptor.opcode,
        psn: descriptor.psn,
        profile: profile.code(),
        ack_request: descriptor.ack_request,
        timestamped: descriptor.timestamped,
        protection_domain: 7,
        mtu: 1,
        remote_write: true,
        remote_read: true,
        remote_atomic: true,
        payload_length: descriptor.payload_length,
        extension,
        ..SequencedPacket::default()
    }
}

/// Operation, offset, length and whether it carries an immediate.
fn messages(profile: Profile) -> impl Strategy<Value = Vec<(WorkOpcode, u64, u32, bool)>> {
    let operations: &[WorkOpcode] = match profile {
        Profile::Mrc => &[WorkOpcode::Write],
        _ => &[
            WorkOpcode::Send,
            WorkOpcode::Write,
            WorkOpcode::Read,
            WorkOpcode::FetchAdd,
        ],
    };
    let length = prop_oneof![0..3u32, 254..260u32, 0..9000u32];
    let message = (
        prop::sample::select(operations),
        0..LENGTH - 9000,
        length,
        any::<bool>(),
    );
    prop::collection::vec(message, 1..12)
}

proptest! {
    /// What the own transmit path makes of messages, the responder makes memory, completions and answers of.
    #[test]
    fn whole_messages_arrive_where_they_should(
        (profile, messages) in prop_oneof![Just(Profile::Roce), Just(Profile::Solar), Just(Profile::Mrc)]
            .prop_flat_map(|profile| (Just(profile), messages(profile))),
    ) {
        let mut slicer = PacketSlicer::new(packet_slicer::Config::full(4));
        slicer.write_context(&SliceContext {
            qpn: QPN, open: true, profile: profile.code(), mtu: 1, psn: 0xFF_FFF0, ..SliceContext::default()
        });
        let mut nic = Nic::new(profile);
        for (cookie, (operation, offset, length, immediate)) in (1..).zip(messages.iter().copied()) {
            let atomic = operation == WorkOpcode::FetchAdd;
            let immediate = immediate && matches!(operation, WorkOpcode::Send | WorkOpcode::Write);
            let takes = immediate || operation == WorkOpcode::Send;
            if takes {
                prop_assert_eq!(nic.post(cookie, length), Posted::Credit(QPN));
            }
            let length = if atomic { 8 } else { length };
            let request = WorkRequest {
                opcode: operation as u8,
                segments: 1,
                qpn: QPN,
                length,
                inline_immediate: immediate,
                immediate: cookie as u32,
                remote_address: BASE + (offset & !7),
                remote_key: KEY,
                ..WorkRequest::default()
            };
            let packets: Vec<_> = slicer.request(&request).into_iter().flatten().collect();
            let mut bytes = BTreeMap::new();
            let mut ends = Vec::new();
            let mut sent = 0u64;
            for descriptor in &packets {
                let write = nic.give(&arrived(descriptor, profile));
                prop_assert!(!write.discard, "{:?}", write);
                for byte in 0..u64::from(write.length) {
                    bytes.insert(write.address + byte, sent + byte);
                }
                sent += u64::from(write.length);
                ends.push(write);
            }
            if profile == Profile::Mrc {
                let opcode = if immediate { Opcode::MRC_WRITE_LAST_IMMEDIATE } else { Opcode::MRC_WRITE_LAST };
                ends.push(nic.retire(opcode));
            }
            let start = match operation {
                WorkOpcode::Send => cookie << 32,
                _ => MEMORY + (offset & !7),
            };
            let has_payload = matches!(operation, WorkOpcode::Send | WorkOpcode::Write);
            let count = if has_payload { u64::from(length) } else { 0 };
            let wanted: BTreeMap<u64, u64> = (0..count).map(|byte| (start + byte, byte)).collect();
            prop_assert_eq!(bytes, wanted);
            let last = ends[ends.len() - 1];
            prop_assert_eq!(u64::from(last.msn), cookie);
            prop_assert_eq!(completion(&last), takes.then_some((cookie, CompletionStatus::Success, length)));
            prop_assert_eq!(last.has_immediate.then_some(last.immediate), immediate.then_some(cookie as u32));
            prop_assert_eq!((last.execute, last.answer), (!has_payload, has_payload));
            prop_assert!(ends[..ends.len() - 1].iter().all(|write| !write.completion && !write.execute));
        }
    }

    /// Whatever packets come: no byte is written outside of regions and buffers, every packet is counted once, every receive request ends once and
    /// in order, and nothing is answered behind a refusal.
    #[test]
    fn no_packet_does_harm(
        profile in 0..4u8,
        steps in prop::collection::vec(
            (prop_oneof![0..0x18u8, 0xC6..0xCCu8, any::<u8>()], any::<[bool; 8]>(), 0..4u8, 0..3u32, any::<u8>()),
            1..200,
        ),
    ) {
        let mut nic = Nic::new(Profile::Roce);
        let (mut posted, mut ended) = (Vec::new(), Vec::new());
        let (mut packets, mut closed) = (0u32, false);
        for (opcode, flags, size, where_to, kind) in steps {
            let mut given = Vec::new();
            match kind {
                0..=60 => {
                    let cookie = posted.len() as u64;
                    match nic.post(cookie, where_to * 256) {
                        Posted::Credit(_) => posted.push(cookie),
                        Posted::Flushed(write) => {
                            posted.push(cookie);
                            given.push(write);
                        }
                        Posted::NoQueuePair => prop_assert!(false, "it is never in RESET"),
                        Posted::Full => prop_assert_eq!(nic.responder.receive_requests(QPN), 4),
                    }
                }
                // To ERROR and back, not to RESET: that drops receive requests in silence.
                61..=70 => {
                    let state = if flags[0] { QueuePairState::Error } else { QueuePairState::ReadyToSend };
                    closed = flags[0];
                    given = nic.state(state);
                    if closed {
                        prop_assert_eq!(nic.responder.receive_requests(QPN), 0);
                    }
                }
                _ => {
                    let payload = [0, 8, MTU, 300][usize::from(size)];
                    let offset = [0, LENGTH - 8, LENGTH][where_to as usize];
                    let length = if flags[0] { payload as u32 } else { 513 };
                    let at = reth(offset, if flags[1] { KEY } else { 0 }, length);
                    let headers = if profile == 2 { vec![meth(kind.into()), at] } else { vec![at] };
                    let packet = nic.packet(Opcode(opcode), payload, &headers);
                    let before = nic.responder.counters().messages;
                    let write = nic.give(&SequencedPacket {
                        profile,
                        duplicate: flags[2] && flags[3],
                        retired: flags[4] && payload == 0,
                        ack_request: flags[5],
                        ..packet
                    });
                    packets += 1;
                    prop_assert!(!write.answer || !closed);
                    prop_assert!(!(write.discard && write.execute));
                    prop_assert!(write.discard || nic.responder.counters().messages - before <= 1);
                    if !write.discard && write.length > 0 {
                        let end = write.address + u64::from(write.length);
                        let region = write.address >= MEMORY && end <= MEMORY + LENGTH;
                        let cookie = write.address >> 32;
                        let buffer = end - (cookie << 32) <= 512 && posted.contains(&cookie);
                        prop_assert!(region || buffer, "{:?}", write);
                    }
                    given.push(write);
                }
            }
            ended.extend(given.iter().filter(|write| write.completion).map(|write| write.cookie));
        }
        ended.extend(nic.state(QueuePairState::Error).iter().map(|write| write.cookie));
        prop_assert_eq!(ended, posted);
        let c = nic.responder.counters();
        let sum = c.accepted + c.retired + c.duplicates + c.drop_duplicate + c.refused_invalid_request
            + c.refused_remote_access + c.refused_operational + c.drop_failed + c.drop_closed;
        prop_assert_eq!(sum, packets);
    }
}
