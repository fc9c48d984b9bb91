//! Tests of the lookup model: each route and reason by an example, and that each packet is counted once by proptest.

use proptest::prelude::*;
use spraynic_config::Preset;
use spraynic_config::descriptor::Descriptor;
use spraynic_wire::opcode::OPCODES;

use super::*;

const QPN: u32 = 5;

fn context(state: QueuePairState, profile: Profile) -> QueuePairContext {
    QueuePairContext {
        qpn: QPN,
        state: state as u8,
        profile: profile.code(),
        mtu: 3,
        remote_write: true,
        remote_atomic: true,
        partition_key: 0xFFFF,
        protection_domain: 0xAB_CDEF,
        peer_ip: 0x0A00_0002,
        local_ip: 0x0A00_0001,
        ..QueuePairContext::default()
    }
}

fn packet(opcode: u8) -> ReceivedPacket {
    ReceivedPacket {
        qpn: QPN,
        opcode,
        partition_key: 0xFFFF,
        source_ip: 0x0A00_0002,
        destination_ip: 0x0A00_0001,
        ..ReceivedPacket::default()
    }
}

fn lookup(context: QueuePairContext) -> QpLookup {
    let mut lookup = QpLookup::new(Config::full(8));
    assert_eq!(lookup.write_context(&context), Some(context));
    lookup
}

#[test]
fn every_opcode_has_its_route_in_its_profiles_alone() {
    for profile in Profile::ALL {
        let mut lookup = lookup(context(QueuePairState::ReadyToSend, *profile));
        for info in OPCODES {
            let opcode = info.opcode.0;
            let expected = match (profile, opcode) {
                (Profile::Roce | Profile::Solar, 0x00..=0x0C | 0x13 | 0x14 | 0x16 | 0x17) => Some((0, false)),
                (Profile::Solar, 0x0D..=0x10 | 0x12) => Some((0, true)),
                (Profile::Roce, 0x0D..=0x10 | 0x12) | (Profile::Roce | Profile::Solar, 0x11) => Some((1, false)),
                (_, 0x81) => Some((1, false)),
                (Profile::Mrc, 0xC6..=0xCB) => Some((0, false)),
                (Profile::Mrc, 0xD1) | (Profile::Solar | Profile::Mrc, 0xDC | 0xDD) => Some((1, false)),
                (Profile::Solar | Profile::Mrc, 0xDE) => Some((2, false)),
                _ => None,
            };
            let found = lookup.look_up(&packet(opcode));
            assert_eq!(
                found.map(|found| (found.route, found.space)).ok(),
                expected,
                "{profile:?} {opcode:#x}"
            );
            if let Err(reason) = found {
                assert_eq!(reason, DropReason::Opcode { qpn: QPN, opcode });
            }
        }
    }
}

#[test]
fn the_context_goes_with_the_packet() {
    let found = lookup(context(QueuePairState::ReadyToReceive, Profile::Solar)).look_up(&packet(0x0A));
    assert_eq!(
        found,
        Ok(PacketContext {
            profile: 1,
            mtu: 3,
            remote_write: true,
            remote_atomic: true,
            protection_domain: 0xAB_CDEF,
            ..PacketContext::default()
        })
    );
}

#[test]
fn states_say_what_is_taken() {
    use QueuePairState::*;
    // A request, a probe, an acknowledgement, a response.
    let cases = [
        (0x04, [false, false, true, true, false]),
        (0xDE, [false, false, true, true, false]),
    ];
    let answers = [
        (0x11, [false, false, false, true, false]),
        (0x10, [false, false, false, true, false]),
    ];
    for (opcode, taken) in cases.into_iter().chain(answers) {
        for (state, taken) in QueuePairState::ALL.into_iter().zip(taken) {
            let found = lookup(context(state, Profile::Solar)).look_up(&packet(opcode));
            match state {
                _ if taken => assert!(found.is_ok(), "{opcode:#x} {state:?}"),
                Reset => assert_eq!(
                    found,
                    Err(DropReason::QueuePair {
                        qpn: QPN,
                        queue_pairs: 8
                    })
                ),
                Init | ReadyToReceive | ReadyToSend | Error => {
                    assert_eq!(found, Err(DropReason::State { qpn: QPN, state }));
                }
            }
        }
    }
}

#[test]
fn queue_pairs_beyond_the_table_or_never_written_take_nothing() {
    let mut lookup = lookup(context(QueuePairState::ReadyToSend, Profile::Roce));
    for qpn in [0, 7, 8, 0x10_0005, 0xFF_FFFF] {
        let found = lookup.look_up(&ReceivedPacket { qpn, ..packet(0x04) });
        assert_eq!(found, Err(DropReason::QueuePair { qpn, queue_pairs: 8 }));
    }
    assert_eq!(lookup.counters().drop_queue_pair, 5);
}

#[test]
fn packets_of_another_address_are_dropped() {
    let mut lookup = lookup(context(QueuePairState::ReadyToSend, Profile::Roce));
    let other = 0x0A00_0003;
    let strangers = [
        ReceivedPacket {
            source_ip: other,
            ..packet(0x04)
        },
        ReceivedPacket {
            destination_ip: other,
            ..packet(0x04)
        },
        // The same numbers in IPv6 are another address.
        ReceivedPacket {
            ipv6: true,
            ..packet(0x04)
        },
        ReceivedPacket {
            source_ip: 1 << 96 | 0x0A00_0002,
            ..packet(0x04)
        },
        // An acknowledgement is believed only from the peer, too.
        ReceivedPacket {
            source_ip: other,
            ..packet(0x11)
        },
    ];
    for stranger in &strangers {
        assert!(matches!(lookup.look_up(stranger), Err(DropReason::Peer { .. })));
    }
    assert_eq!(lookup.counters().drop_peer, 5);
}

#[test]
fn partition_keys_match_where_one_side_is_a_full_member() {
    let cases = [
        (0xFFFF, 0xFFFF, true),
        (0x7FFF, 0xFFFF, true),
        (0xFFFF, 0x7FFF, true),
        (0x7FFF, 0x7FFF, false),
        (0xFFFE, 0xFFFF, false),
        (0x8001, 0x0001, true),
        (0x0000, 0x0000, false),
    ];
    for (of_packet, of_queue_pair, taken) in cases {
        let mut lookup = lookup(QueuePairContext {
            partition_key: of_queue_pair,
            ..context(QueuePairState::ReadyToSend, Profile::Roce)
        });
        let found = lookup.look_up(&ReceivedPacket {
            partition_key: of_packet,
            ..packet(0x04)
        });
        assert_eq!(found.is_ok(), taken, "{of_packet:#x} {of_queue_pair:#x}");
        assert_eq!(lookup.counters().drop_partition, u32::from(!taken));
    }
}

#[test]
fn checks_are_made_in_the_order_of_the_reasons() {
    let wrong = ReceivedPacket {
        partition_key: 1,
        source_ip: 1,
        ..packet(0xC6)
    };
    let mut lookup = QpLookup::new(Config::full(8));
    let mut kind = |context: QueuePairContext, packet: &ReceivedPacket| {
        lookup.write_context(&context);
        match lookup.look_up(packet).unwrap_err() {
            DropReason::QueuePair { .. } => 0,
            DropReason::Opcode { .. } => 1,
            DropReason::State { .. } => 2,
            DropReason::Peer { .. } => 3,
            DropReason::Partition { .. } => 4,
        }
    };
    let ready = context(QueuePairState::ReadyToSend, Profile::Roce);
    let reset = context(QueuePairState::Reset, Profile::Roce);
    let error = context(QueuePairState::Error, Profile::Roce);
    assert_eq!(kind(reset, &wrong), 0);
    assert_eq!(kind(error, &wrong), 1);
    assert_eq!(kind(error, &ReceivedPacket { opcode: 4, ..wrong }), 2);
    assert_eq!(kind(ready, &ReceivedPacket { opcode: 4, ..wrong }), 3);
    assert_eq!(
        kind(
            ready,
            &ReceivedPacket {
                opcode: 4,
                source_ip: 0x0A00_0002,
                ..wrong
            }
        ),
        4
    );
}

#[test]
fn endpoint_operations_have_number_2_and_no_queue_pair() {
    let mut lookup = QpLookup::new(Config::full(2));
    for opcode in [0xD8, 0xD9] {
        let found = lookup.look_up(&ReceivedPacket {
            qpn: 2,
            ..packet(opcode)
        });
        assert_eq!(found.map(|context| context.route), Ok(Route::Endpoint as u8));
        let found = lookup.look_up(&packet(opcode));
        assert_eq!(found, Err(DropReason::Opcode { qpn: QPN, opcode }));
    }
    assert_eq!(lookup.counters().endpoint, 2);
}

#[test]
fn contexts_that_cannot_be_served_leave_the_queue_pair_in_reset() {
    let ready = context(QueuePairState::ReadyToSend, Profile::Solar);
    let mut config = Config::full(8);
    config.max_mtu = 4;
    config.profiles.set(2, false);
    config.reorder_queue_pairs = 5;
    let wrong = [
        QueuePairContext { state: 5, ..ready },
        QueuePairContext { state: 7, ..ready },
        QueuePairContext { profile: 2, ..ready },
        QueuePairContext { profile: 3, ..ready },
        QueuePairContext { mtu: 0, ..ready },
        QueuePairContext { mtu: 5, ..ready },
        QueuePairContext { mtu: 6, ..ready },
        // Queue pair 5 is beyond those that may use solar.
        ready,
    ];
    let good = QueuePairContext { profile: 0, ..ready };
    for context in wrong {
        let mut lookup = QpLookup::new(config);
        assert_eq!(lookup.write_context(&good), Some(good));
        let reset = QueuePairContext {
            qpn: QPN,
            ..QueuePairContext::default()
        };
        assert_eq!(lookup.write_context(&context), Some(reset), "{context:?}");
        assert_eq!(lookup.counters().drop_context, 1);
        assert!(lookup.look_up(&packet(0x04)).is_err());
    }
    let mut lookup = QpLookup::new(config);
    assert!(
        lookup
            .write_context(&QueuePairContext { qpn: 4, ..ready })
            .is_some_and(|context| context.state == 3)
    );
    assert_eq!(lookup.write_context(&QueuePairContext { qpn: 8, ..good }), None);
    assert_eq!(lookup.counters().drop_context, 1);
    // In RESET nothing else of a context counts.
    let reset = QueuePairContext {
        state: 0,
        profile: 3,
        ..ready
    };
    assert_eq!(lookup.write_context(&reset), Some(reset));
    assert_eq!(lookup.counters().drop_context, 1);
}

#[test]
fn a_configuration_says_who_may_use_solar() {
    let mut nic = NicConfig::preset(Preset::G100);
    assert_eq!(Config::from(&nic).reorder_queue_pairs, 128);
    nic.queue_pairs.count = 64;
    assert_eq!(Config::from(&nic).reorder_queue_pairs, 64);
    nic.wire.profiles.remove(&Profile::Solar);
    assert_eq!(Config::from(&nic).reorder_queue_pairs, 0);
}

proptest! {
    #[test]
    fn any_packet_is_counted_once(
        bytes in prop::collection::vec(any::<u8>(), 87),
        (qpn, state, profile, index) in (0u32..10, 0u8..8, 0u8..4, 0..OPCODES.len()),
        (same_peer, same_key) in any::<(bool, bool)>(),
    ) {
        let mut packet = ReceivedPacket { qpn, opcode: OPCODES[index].opcode.0, ..ReceivedPacket::unpack(&bytes) };
        let context = QueuePairContext { qpn, state, profile, ..context(QueuePairState::Reset, Profile::Roce) };
        if same_peer {
            (packet.ipv6, packet.source_ip, packet.destination_ip) = (false, context.peer_ip, context.local_ip);
        }
        if same_key {
            packet.partition_key = context.partition_key;
        }
        let mut lookup = QpLookup::new(Config::full(8));
        lookup.write_context(&context);
        let found = lookup.look_up(&packet);
        let c = lookup.counters();
        let given = c.sequence + c.feedback + c.probe + c.endpoint;
        let dropped = c.drop_queue_pair + c.drop_opcode + c.drop_state + c.drop_peer + c.drop_partition;
        prop_assert_eq!((given, dropped), (u32::from(found.is_ok()), u32::from(found.is_err())));
        if found.is_ok_and(|found| found.route != Route::Endpoint as u8) {
            prop_assert!(same_peer && qpn < 8 && (2..4).contains(&state) && profile < 3);
        }
    }
}
