//! What is given to qp_lookup: contexts and packets of which most belong together, and the payload of the packets.

use proptest::prelude::*;
use spraynic_config::descriptor::{Descriptor, QueuePairContext, ReceivedPacket};
use spraynic_cosim::Frame;
use spraynic_wire::opcode::OPCODES;

use super::blocks;

/// What is given to the block.
#[derive(Debug, Clone, Default)]
pub(super) struct Given {
    pub(super) contexts: Vec<QueuePairContext>,
    pub(super) packets: Vec<ReceivedPacket>,
}

/// Two peers: IPv4 and IPv6.
pub(super) const PEERS: [(bool, u128, u128); 2] = [
    (false, 0x0A00_0002, 0x0A00_0001),
    (
        true,
        0xFD00_0000_0000_0000_1234_5678_9ABC_0002,
        0xFD00_0000_0000_0000_1234_5678_9ABC_0001,
    ),
];

fn qpn() -> impl Strategy<Value = u32> {
    prop_oneof![30 => 0..3u32, 4 => 0..66u32, 1 => any::<u32>().prop_map(|qpn| qpn & 0xFF_FFFF)]
}

fn partition_key() -> impl Strategy<Value = u16> {
    prop_oneof![8 => Just(0xFFFF), 2 => Just(0x7FFF), 1 => Just(0xFFFE), 1 => any::<u16>()]
}

/// Contexts of which most can be served and most receive; any bits in the fields that the block only passes on.
fn context() -> impl Strategy<Value = QueuePairContext> {
    let state = prop_oneof![6 => Just(3u8), 2 => Just(2), 3 => 0..8u8];
    let mtu = prop_oneof![8 => 1..=3u8, 1 => 0..8u8];
    let bytes = prop::collection::vec(any::<u8>(), QueuePairContext::width() as usize / 8);
    let fields = (
        qpn(),
        state,
        prop_oneof![12 => 0..3u8, 1 => Just(3)],
        mtu,
        0..2usize,
        partition_key(),
    );
    (bytes, fields).prop_map(|(bytes, (qpn, state, profile, mtu, peer, partition_key))| {
        let (ipv6, peer_ip, local_ip) = PEERS[peer];
        QueuePairContext {
            qpn,
            state,
            profile,
            mtu,
            ipv6,
            peer_ip,
            local_ip,
            partition_key,
            ..QueuePairContext::unpack(&bytes)
        }
    })
}

/// Packets of which most come to the peer's queue pair; one bit of an address or the P_Key may be another one.
fn packet() -> impl Strategy<Value = ReceivedPacket> {
    let opcode = prop_oneof![
        30 => (0..OPCODES.len()).prop_map(|index| OPCODES[index].opcode.0),
        10 => Just(0x04u8), 4 => Just(0x11), 1 => any::<u8>(),
    ];
    let qpn = prop_oneof![8 => qpn(), 1 => Just(2u32)];
    let length = prop_oneof![4 => Just(0u16), 4 => 1..100u16, 1 => 1..600u16];
    let flip = prop_oneof![12 => Just(None), 1 => (0..257u32).prop_map(Some)];
    let bytes = prop::collection::vec(any::<u8>(), ReceivedPacket::width() as usize / 8);
    (bytes, (qpn, opcode, length, flip, 0..2usize, partition_key())).prop_map(
        |(bytes, (qpn, opcode, payload_length, flip, peer, partition_key))| {
            let (ipv6, source_ip, destination_ip) = PEERS[peer];
            let bit = |low: u32| {
                flip.filter(|bit| (low..low + 128).contains(bit))
                    .map_or(0, |bit| 1u128 << (bit - low))
            };
            ReceivedPacket {
                qpn,
                opcode,
                payload_length,
                ipv6: ipv6 ^ (flip == Some(256)),
                source_ip: source_ip ^ bit(0),
                destination_ip: destination_ip ^ bit(128),
                partition_key,
                ..ReceivedPacket::unpack(&bytes)
            }
        },
    )
}

pub(super) fn given() -> impl Strategy<Value = Given> {
    let first = prop::collection::vec(context(), 3);
    (
        first,
        prop::collection::vec(context(), 0..12),
        prop::collection::vec(packet(), 1..120),
    )
        .prop_map(|(first, more, packets)| {
            let opened = first
                .into_iter()
                .zip(0..)
                .map(|(context, qpn)| QueuePairContext { qpn, ..context });
            Given {
                contexts: opened.chain(more).collect(),
                packets,
            }
        })
}

/// Whether it will be said of a packet that it passed: some of random packets did not.
pub(super) fn passes(packet: &ReceivedPacket) -> bool {
    packet.udp_source_port % 4 != 3
}

/// The payload of a packet: its bytes tell which one.
pub(super) fn payload_of(packet: &ReceivedPacket, index: usize) -> Option<Frame> {
    (packet.payload_length != 0).then(|| {
        let bytes = blocks::bytes(usize::from(packet.payload_length), index as u64);
        Frame::with_user(bytes, index as u64 & 1)
    })
}
