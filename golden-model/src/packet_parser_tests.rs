//! Tests of the parser model: each way out by an example, and against the packet library by proptest.

use proptest::prelude::*;
use spraynic_wire::{Ip, Packet, ParseError};

use super::*;
use crate::received_frames::{any_damage, any_packet, frame, mend, parse};

fn packet_of(bytes: &[u8]) -> (ReceivedPacket, Vec<u8>) {
    match parse(bytes) {
        Ok(Parsed::Packet { packet, payload }) => (*packet, payload),
        other => panic!("{other:?}"),
    }
}

fn is_slow_path(bytes: &[u8]) -> bool {
    parse(bytes) == Ok(Parsed::SlowPath(bytes.to_vec()))
}

/// A good IPv4 frame, changed, and its checksum made right.
fn changed(opcode: u8, payload: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = frame(opcode, false, 0, payload).emit();
    change(&mut bytes);
    mend(&mut bytes);
    bytes
}

fn reason(opcode: u8, payload: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> DropReason {
    parse(&changed(opcode, payload, change)).unwrap_err()
}

const BTH: usize = 14 + 20 + 8;

#[test]
fn the_fields_of_a_frame_written_out_by_hand() {
    let mut bytes = vec![0x11; 12];
    bytes.extend_from_slice(&[0x88, 0xA8, 0x12, 0x34, 0x81, 0x00, 0x56, 0x78, 0x86, 0xDD]);
    bytes.extend_from_slice(&[0x6B, 0x7C, 0xBE, 0xEF, 0, 32, 17, 9]); // traffic class 0xB7, flow label 0xCBEEF
    bytes.extend((0u8..32).map(|byte| byte + 1));
    bytes.extend_from_slice(&[0xC0, 0x01, 0x12, 0xB7, 0, 32, 0, 0]);
    bytes.extend_from_slice(&[0x09, 0xB0, 0xFF, 0xFE, 0xC0, 0x12, 0x34, 0x56, 0x80, 0xAB, 0xCD, 0xEF]);
    bytes.extend_from_slice(&[1, 2, 3, 4, 0x77, 0, 0, 0, 9, 9, 9, 9]); // immediate, payload and padding, ICRC
    bytes.extend_from_slice(b"trailer");
    let (packet, payload) = packet_of(&bytes);
    let mut extension = Extension::default();
    extension.0[..4].copy_from_slice(&[1, 2, 3, 4]);
    assert_eq!(payload, [0x77]);
    assert_eq!(
        packet,
        ReceivedPacket {
            qpn: 0x12_3456,
            opcode: 0x09,
            psn: 0xAB_CDEF,
            partition_key: 0xFFFE,
            solicited: true,
            ack_request: true,
            fecn: true,
            becn: true,
            ipv6: true,
            ecn: 3,
            dscp: 0x2D,
            vlan_tags: 2,
            extension_words: 1,
            payload_length: 1,
            udp_source_port: 0xC001,
            flow_label: 0xC_BEEF,
            source_ip: 0x0102_0304_0506_0708_090A_0B0C_0D0E_0F10,
            destination_ip: 0x1112_1314_1516_1718_191A_1B1C_1D1E_1F20,
            extension,
            ..ReceivedPacket::default()
        }
    );
}

#[test]
fn mrc_has_the_two_high_bits_the_other_way_round() {
    for (opcode, byte, solicited) in [
        (0x04, 0x80, true),
        (0x04, 0x40, false),
        (0xCA, 0x40, true),
        (0xCA, 0x80, false),
    ] {
        let bytes = changed(opcode, &[0; 4], |bytes| bytes[BTH + 1] = byte);
        let (packet, _) = packet_of(&bytes);
        assert_eq!(
            (packet.solicited, packet.migration),
            (solicited, !solicited),
            "{opcode:#x}"
        );
    }
}

#[test]
fn what_is_not_for_the_datapath_goes_to_the_host_untouched() {
    type Change = dyn Fn(&mut Vec<u8>);
    let cases: [(&str, &Change); 12] = [
        ("ARP", &|bytes| bytes[13] = 0x06),
        ("pause frame", &|bytes| bytes[12..14].copy_from_slice(&[0x88, 0x08])),
        ("IPv4 options", &|bytes| bytes[14] = 0x46),
        ("IPv4 header of 4 words", &|bytes| bytes[14] = 0x44),
        ("version 6 behind the EtherType of IPv4", &|bytes| bytes[14] = 0x65),
        ("fragment with more to come", &|bytes| bytes[20] = 0x20),
        ("fragment at an offset", &|bytes| bytes[21] = 1),
        ("reserved flag", &|bytes| bytes[20] = 0xC0),
        ("TCP", &|bytes| bytes[23] = 6),
        ("another UDP port", &|bytes| bytes[BTH - 5] ^= 1),
        ("another UDP port, in a frame that lies about its length", &|bytes| {
            bytes[BTH - 5] ^= 1;
            bytes[16] = 0xFF;
        }),
        ("a third tag", &|bytes| {
            let tags = [0x81, 0, 0, 1].repeat(3);
            bytes.splice(12..12, tags);
        }),
    ];
    for (what, change) in cases {
        assert!(is_slow_path(&changed(0x0A, &[5; 9], change)), "{what}");
    }
    let mut tcp = frame(0x0A, false, 0, &[5; 9]).emit();
    tcp[23] = 6;
    assert!(
        is_slow_path(&tcp),
        "whose checksum is wrong now: the host's own business"
    );
    let mut hop_by_hop = frame(0x0A, true, 0, &[5; 9]).emit();
    hop_by_hop[20] = 0;
    assert!(is_slow_path(&hop_by_hop), "IPv6 extension header");
}

#[test]
fn frames_cut_at_every_byte_are_short_or_have_a_wrong_length() {
    for (opcode, ipv6, tags) in [(0x0B, false, 0), (0x0B, true, 2), (0xC9, false, 1), (0x11, true, 0)] {
        let payload: &[u8] = if opcode == 0x11 { &[] } else { &[3; 40] };
        let whole = frame(opcode, ipv6, tags, payload).emit();
        let udp_end = 14 + 4 * tags + if ipv6 { 48 } else { 28 };
        for length in 0..whole.len() {
            let reason = parse(&whole[..length]).unwrap_err();
            let short = matches!(reason, DropReason::Short { .. });
            let wrong_length = matches!(reason, DropReason::IpLength { .. });
            assert!(
                if length < udp_end { short } else { wrong_length },
                "{length}: {reason}"
            );
        }
        assert!(parse(&whole).is_ok());
    }
}

/// Cuts the packet and says so in the IP and UDP lengths.
fn shortened(opcode: u8, payload: &[u8], by: usize) -> Vec<u8> {
    changed(opcode, payload, |bytes| {
        bytes.truncate(bytes.len() - by);
        let ip = (bytes.len() - 14) as u16;
        bytes[16..18].copy_from_slice(&ip.to_be_bytes());
        bytes[38..40].copy_from_slice(&(ip - 20).to_be_bytes());
    })
}

#[test]
fn datagrams_too_short_for_their_headers_are_short() {
    // RETH 16 and ICRC 4 behind the BTH: by 1 to 4 bytes the ICRC is missing, by more the RETH, by more the BTH.
    for by in 1..=32 {
        let expected = match by {
            1..=4 => "ICRC",
            5..=20 => "extension headers",
            _ => "BTH",
        };
        let reason = parse(&shortened(0x0A, &[], by)).unwrap_err();
        assert!(
            matches!(reason, DropReason::Short { header, .. } if header == expected),
            "{by}: {reason}"
        );
    }
}

#[test]
fn ip_checksums_that_carry_twice_or_are_zero() {
    // The words sum up to 0x2FFFD without the checksum: folded twice.
    let mut carries = frame(0x04, false, 0, &[0; 4]);
    let Ip::V4(ip) = &mut carries.ip else { unreachable!() };
    (ip.source, ip.destination) = ([0xFF, 0xFF, 0xFF, 0xFF].into(), [0xFF, 0xFF, 0xFF, 0xFF].into());
    for identification in 0..=u16::MAX {
        let Ip::V4(ip) = &mut carries.ip else { unreachable!() };
        ip.identification = identification;
        let bytes = carries.emit();
        assert!(parse(&bytes).is_ok(), "{identification:#x}");
        if bytes[24..26] == [0, 0] {
            // In ones' complement 0xFFFF is another way to write 0 (RFC 1624).
            let mut other = bytes.clone();
            other[24..26].copy_from_slice(&[0xFF, 0xFF]);
            assert!(parse(&other).is_ok());
            other[24..26].copy_from_slice(&[0, 1]);
            assert!(matches!(parse(&other), Err(DropReason::IpChecksum { .. })));
            return;
        }
    }
    panic!("no identification gives checksum 0");
}

#[test]
fn lengths_must_agree() {
    for length in [0, 20, 27, 66, 0xFFFF] {
        let reason = reason(0x04, &[0; 4], |bytes| {
            bytes[16..18].copy_from_slice(&u16::to_be_bytes(length));
        });
        assert!(
            matches!(
                reason,
                DropReason::IpLength {
                    most: 48,
                    least: 28,
                    ..
                }
            ),
            "{length}: {reason}"
        );
    }
    for length in [0, 8, 27, 29, 0xFFFF] {
        let reason = reason(0x04, &[0; 4], |bytes| {
            bytes[38..40].copy_from_slice(&u16::to_be_bytes(length));
        });
        assert!(
            matches!(reason, DropReason::UdpLength { right: 28, .. }),
            "{length}: {reason}"
        );
    }
}

#[test]
fn wrong_versions_opcodes_pads_and_payloads_are_counted_apart() {
    use DropReason::*;
    for version in 1..=15 {
        assert_eq!(
            reason(0x04, &[0; 4], |bytes| bytes[BTH + 1] |= version),
            Version { version }
        );
    }
    for opcode in (0..=255).filter(|opcode| Opcode(*opcode).info().is_none()) {
        assert_eq!(reason(0x04, &[0; 4], |bytes| bytes[BTH] = opcode), Opcode { opcode });
    }
    // More padding than there is between headers and ICRC.
    assert_eq!(
        reason(0x04, &[], |bytes| bytes[BTH + 1] |= 0x10),
        Pad { pad_count: 1, body: 0 }
    );
    // Payload and padding no multiple of 4.
    let pad = parse(&shortened(0x04, &[0; 8], 1)).unwrap_err();
    assert_eq!(pad, Pad { pad_count: 0, body: 7 });
    // Payload where the opcode has none: a SEND becomes an ACK, whose AETH are the first 4 bytes.
    let payload = reason(0x04, &[0; 8], |bytes| bytes[BTH] = 0x11);
    assert_eq!(
        payload,
        Payload {
            opcode: 0x11,
            length: 4,
            most: 0
        }
    );
}

#[test]
fn payloads_of_every_length_lose_their_padding_alone() {
    for opcode in [0x04, 0x0A, 0x0B, 0xCA] {
        for length in (0..=9).chain([255, 256, 257, 1023, 1024, 1025, 4095, 4096]) {
            let sent: Vec<u8> = (0..length).map(|at| at as u8 ^ 0x5A).collect();
            let mut bytes = frame(opcode, false, 0, &sent).emit();
            let (packet, payload) = packet_of(&bytes);
            assert_eq!((usize::from(packet.payload_length), &payload), (length, &sent));
            // Padding of a short Ethernet frame is not payload.
            bytes.resize(bytes.len().max(60) + 3, 0xEE);
            assert_eq!(packet_of(&bytes), (packet, sent));
        }
    }
    let long = reason(0x04, &[0; 4097], |_| {});
    assert_eq!(
        long,
        DropReason::Payload {
            opcode: 4,
            length: 4100,
            most: 4096
        }
    );
}

#[test]
fn a_frame_that_the_mac_marks_is_dropped_whatever_it_is() {
    let mut parser = PacketParser::new(Config::full());
    for bytes in [frame(0x04, false, 0, &[1]).emit(), vec![0; 60], vec![]] {
        let bad = Frame {
            bad: true,
            ..Frame::plain(bytes)
        };
        assert_eq!(parser.receive(&bad, TrimmedDscp::default()), Err(DropReason::Mac));
    }
    assert_eq!((parser.counters().frames, parser.counters().drop_mac), (3, 3));
}

#[test]
fn trimmed_packets_are_known_by_dscp_before_lengths_are_checked() {
    let ports = TrimmedDscp {
        trimmed: 5,
        last_hop: 6,
    };
    let trim = |opcode, dscp: u8, keep: usize, fix_length: bool| {
        let mut bytes = changed(opcode, &[9; 500], |bytes| {
            bytes[15] = dscp << 2;
            bytes.truncate(BTH + keep);
            if fix_length {
                let ip = (bytes.len() - 14) as u16;
                bytes[16..18].copy_from_slice(&ip.to_be_bytes());
            }
        });
        bytes.resize(bytes.len().max(60), 0xEE);
        PacketParser::new(Config::full()).receive(&Frame::plain(bytes), ports)
    };
    for (dscp, code) in [(5, 1), (6, 2)] {
        for fix_length in [false, true] {
            let Ok(Parsed::Packet { packet, payload }) = trim(0xC7, dscp, 12 + 20, fix_length) else {
                panic!("a trimmed packet");
            };
            assert_eq!(
                (packet.trimmed, packet.psn, packet.extension_words),
                (code, 0x12_3456, 5)
            );
            assert_eq!((packet.payload_length, payload.len()), (0, 0));
        }
        // The extension headers are cut: what is left suffices to ask for the packet again.
        let Ok(Parsed::Packet { packet, .. }) = trim(0xC7, dscp, 12 + 8, true) else {
            panic!("a trimmed packet");
        };
        assert_eq!(
            (packet.trimmed, packet.extension_words, packet.extension),
            (code, 0, Extension::default())
        );
        assert!(matches!(
            trim(0xC7, dscp, 11, true),
            Err(DropReason::Short { header: "BTH", .. })
        ));
        assert_eq!(
            trim(0xDC, dscp, 12 + 36, true),
            Err(DropReason::Trimmed { opcode: 0xDC })
        );
    }
    assert!(matches!(
        trim(0xC7, 7, 12 + 20, false),
        Err(DropReason::IpLength { .. })
    ));
    let none = TrimmedDscp::default();
    assert!(
        (0..64).all(|dscp| none.code(dscp) == 0),
        "without the ports nothing is trimmed"
    );
}

#[test]
fn what_was_not_generated_is_the_hosts_or_dropped() {
    let mut config = Config::full();
    (config.ipv4, config.vlan) = (false, false);
    config.max_payload = 1024;
    config.opcodes.set(0xCA, false);
    let mut parser = PacketParser::new(config);
    let mut receive = |opcode, ipv6, tags, payload: &[u8]| {
        let bytes = frame(opcode, ipv6, tags, payload).emit();
        parser.receive(&Frame::plain(bytes), TrimmedDscp::default())
    };
    assert!(matches!(receive(0x04, false, 0, &[]), Ok(Parsed::SlowPath(_))));
    assert!(matches!(receive(0x04, true, 1, &[]), Ok(Parsed::SlowPath(_))));
    assert!(matches!(receive(0x04, true, 0, &[0; 1024]), Ok(Parsed::Packet { .. })));
    assert!(matches!(
        receive(0x04, true, 0, &[0; 1025]),
        Err(DropReason::Payload { most: 1024, .. })
    ));
    assert_eq!(receive(0xCA, true, 0, &[]), Err(DropReason::Opcode { opcode: 0xCA }));
}

#[test]
fn a_configuration_knows_the_opcodes_of_its_profiles() {
    use spraynic_config::Preset;
    let mut nic = NicConfig::preset(Preset::G100);
    assert_eq!(Config::from(&nic), Config::full());
    nic.wire.profiles = [Profile::Roce].into();
    let config = Config::from(&nic);
    assert!(config.opcodes[0x11] && config.opcodes[0x81] && !config.opcodes[0xDC] && !config.opcodes[0xC6]);
    nic.wire.profiles = [Profile::Mrc].into();
    let config = Config::from(&nic);
    assert!(!config.opcodes[0x11] && config.opcodes[0x81] && config.opcodes[0xDC] && config.opcodes[0xC6]);
}

/// What the model must say where the packet library refuses. The library checks an IP header in another order, and
/// does not tell the host's frames from broken ones, so that some refusals leave a choice.
fn allowed(error: ParseError, result: &Result<Parsed, DropReason>) -> bool {
    use DropReason::*;
    let slow_path = matches!(result, Ok(Parsed::SlowPath(_)));
    match error {
        ParseError::NotIp(_)
        | ParseError::IpVersion { .. }
        | ParseError::Ipv4Options(_)
        | ParseError::Ipv4Fragment(_)
        | ParseError::NotUdp(_)
        | ParseError::NotRoce(_) => slow_path,
        ParseError::Ipv4Checksum { .. } => {
            slow_path || matches!(result, Err(IpChecksum { .. } | Short { header: "UDP", .. }))
        }
        ParseError::IpLength { .. } => {
            slow_path || matches!(result, Err(IpLength { .. } | Short { header: "UDP", .. }))
        }
        // A UDP header beyond the IP length: it is there in the frame, or not.
        ParseError::TooShort(short) if short.header == "UDP" => {
            slow_path || matches!(result, Err(IpLength { .. } | Short { header: "UDP", .. }))
        }
        ParseError::TooShort(_) => matches!(result, Err(Short { .. })),
        ParseError::UdpLength { .. } => matches!(result, Err(UdpLength { .. })),
        ParseError::TransportVersion(version) => *result == Err(Version { version }),
        ParseError::UnknownOpcode(opcode) => *result == Err(Opcode { opcode: opcode.0 }),
        ParseError::PadCount { .. } | ParseError::Alignment { .. } => matches!(result, Err(Pad { .. })),
        ParseError::UnexpectedPayload { .. } => matches!(result, Err(Payload { .. })),
        ParseError::OpcodeNotInProfile { .. } => false,
    }
}

fn agrees(wire: &Packet, packet: &ReceivedPacket, payload: &[u8]) {
    let (ecn_dscp, flow_label, source, destination) = match &wire.ip {
        Ip::V4(ip) => (
            ip.tos,
            0,
            u128::from(u32::from(ip.source)),
            u128::from(u32::from(ip.destination)),
        ),
        Ip::V6(ip) => (ip.traffic_class, ip.flow_label, ip.source.into(), ip.destination.into()),
    };
    let extension: Vec<u8> = wire
        .extensions
        .iter()
        .flat_map(|extension| {
            let mut bytes = [0; 36];
            extension.emit(&mut bytes);
            bytes[..extension.kind().length()].to_vec()
        })
        .collect();
    let mask: Vec<u8> = wire
        .extensions
        .iter()
        .flat_map(|extension| extension.kind().reserved_mask())
        .collect();
    let used = usize::from(packet.extension_words) * 4;
    let read: Vec<u8> = packet.extension.0[..used]
        .iter()
        .zip(&mask)
        .map(|(byte, mask)| byte & !mask)
        .collect();
    assert_eq!(read, extension);
    assert!(packet.extension.0[used..].iter().all(|byte| *byte == 0));
    let bth = &wire.bth;
    let expected = ReceivedPacket {
        qpn: bth.destination_qpn,
        opcode: bth.opcode.0,
        psn: bth.psn.value(),
        partition_key: bth.partition_key,
        solicited: bth.solicited,
        migration: bth.migration,
        ack_request: bth.ack_request,
        retransmission: bth.retransmission,
        timestamped: bth.timestamped,
        fecn: bth.fecn,
        becn: bth.becn,
        ipv6: matches!(wire.ip, Ip::V6(_)),
        ecn: ecn_dscp & 3,
        dscp: ecn_dscp >> 2,
        vlan_tags: wire.ethernet.vlans.len() as u8,
        extension_words: (extension.len() / 4) as u8,
        payload_length: wire.payload.len() as u16,
        udp_source_port: wire.udp_source_port,
        flow_label,
        source_ip: source,
        destination_ip: destination,
        extension: packet.extension,
        ..ReceivedPacket::default()
    };
    assert_eq!(*packet, expected);
    assert_eq!(payload, wire.payload);
}

/// What must hold of any bytes: one way out, counted once, and the same that the packet library says.
fn check(bytes: &[u8]) {
    let mut parser = PacketParser::new(Config::full());
    let result = parser.receive(&Frame::plain(bytes.to_vec()), TrimmedDscp::default());
    let c = *parser.counters();
    let drops = c.drop_mac
        + c.drop_short
        + c.drop_ip_checksum
        + c.drop_ip_length
        + c.drop_udp_length
        + c.drop_version
        + c.drop_opcode
        + c.drop_trimmed
        + c.drop_pad
        + c.drop_payload;
    let ways = match &result {
        Ok(Parsed::Packet { .. }) => (1, 0, 0),
        Ok(Parsed::SlowPath(given)) => {
            assert_eq!(given, bytes);
            (0, 1, 0)
        }
        Err(_) => (0, 0, 1),
    };
    assert_eq!((c.packets, c.slow_path, drops, c.frames), (ways.0, ways.1, ways.2, 1));
    match (Packet::parse(bytes, None), &result) {
        (Ok(wire), Ok(Parsed::Packet { packet, payload })) => agrees(&wire, packet, payload),
        (Ok(wire), Err(DropReason::Payload { .. })) => assert!(wire.payload.len() > 4096),
        (Ok(_), _) => panic!("{result:?} of a good packet"),
        (Err(error), _) => assert!(allowed(error, &result), "{error}, but {result:?}"),
    }
}

proptest! {
    #[test]
    fn good_packets_are_read_as_the_packet_library_reads_them(packet in any_packet()) {
        let bytes = packet.emit();
        prop_assert!(matches!(parse(&bytes), Ok(Parsed::Packet { .. })), "{:?}", parse(&bytes));
        check(&bytes);
    }

    #[test]
    fn any_bytes_are_counted_once(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn damaged_frames_are_counted_once_and_judged_as_the_packet_library_does(
        packet in any_packet(),
        damage in any_damage(),
    ) {
        let mut bytes = packet.emit();
        damage.iter().for_each(|damage| damage.apply(&mut bytes));
        check(&bytes);
    }

    #[test]
    fn any_dscp_may_mean_trimmed(
        packet in any_packet(),
        damage in any_damage(),
        (trimmed, last_hop) in (0u8..64, 0u8..64),
    ) {
        let mut bytes = packet.emit();
        damage.iter().for_each(|damage| damage.apply(&mut bytes));
        let ports = TrimmedDscp { trimmed, last_hop };
        let received = PacketParser::new(Config::full()).receive(&Frame::plain(bytes), ports);
        if let Ok(Parsed::Packet { packet, payload }) = received {
            prop_assert_eq!(packet.trimmed, ports.code(packet.dscp));
            prop_assert!(packet.trimmed == 0 || payload.is_empty());
            prop_assert_eq!(payload.len(), usize::from(packet.payload_length));
        }
    }
}
