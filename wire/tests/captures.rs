//! Every frame of every capture of a real RoCEv2 implementation: ICRC, parse, emit, opcodes, cuts.

mod common;

use std::collections::BTreeMap;

use spraynic_wire::{
    Extension, HeaderKind, Ip, NakCode, Opcode, Packet, ParseError, Position, Profile, Syndrome, TooShort, icrc,
};

#[test]
fn every_frame_has_a_valid_icrc_and_comes_out_as_it_went_in() {
    let mut frames = 0;
    for (name, capture) in common::captures() {
        for frame in capture {
            let place = format!("{name} frame {}", frame.number);
            assert_eq!(frame.original_length, frame.bytes.len(), "{place}");
            assert!(icrc::verify(&frame.bytes).expect(&place).is_valid(), "{place}");
            for profile in [None, Some(Profile::Roce), Some(Profile::Solar)] {
                let packet = Packet::parse(&frame.bytes, profile).expect(&place);
                assert_eq!(packet.emit(), frame.bytes, "{place}");
                // What was left to be computed is what was captured.
                let mut computed = packet.clone();
                computed.icrc = None;
                if let Ip::V4(ip) = &mut computed.ip {
                    ip.checksum = None;
                }
                assert_eq!(computed.emit(), frame.bytes, "{place}");
            }
            let opcode = Opcode(frame.bytes[if frame.bytes[12] == 8 { 42 } else { 62 }]);
            assert_eq!(
                Packet::parse(&frame.bytes, Some(Profile::Mrc)),
                Err(ParseError::OpcodeNotInProfile {
                    opcode,
                    profile: Profile::Mrc
                })
            );
            frames += 1;
        }
    }
    assert_eq!(frames, 918);
}

#[test]
fn opcodes_are_those_of_the_readme() {
    use Opcode as O;
    let expected: [(&str, &[(Opcode, usize)]); 8] = [
        (
            "rc-atomics.pcap",
            &[(O::ATOMIC_ACKNOWLEDGE, 20), (O::COMPARE_SWAP, 10), (O::FETCH_ADD, 10)],
        ),
        (
            "rc-read-1024.pcap",
            &[
                (O::READ_REQUEST, 9),
                (O::READ_RESPONSE_FIRST, 5),
                (O::READ_RESPONSE_MIDDLE, 67),
                (O::READ_RESPONSE_LAST, 4),
            ],
        ),
        (
            "rc-send-1024.pcap",
            &[
                (O::SEND_FIRST, 12),
                (O::SEND_MIDDLE, 22),
                (O::SEND_LAST, 11),
                (O::ACKNOWLEDGE, 14),
            ],
        ),
        (
            "rc-write-1024.pcap",
            &[
                (O::WRITE_FIRST, 3),
                (O::WRITE_MIDDLE, 184),
                (O::WRITE_LAST, 2),
                (O::ACKNOWLEDGE, 2),
            ],
        ),
        (
            "rc-write-ipv6-unaligned-12345.pcap",
            &[
                (O::WRITE_FIRST, 12),
                (O::WRITE_MIDDLE, 24),
                (O::WRITE_LAST, 12),
                (O::ACKNOWLEDGE, 12),
            ],
        ),
        ("rc-write-lat-64.pcap", &[(O::WRITE_ONLY, 50), (O::ACKNOWLEDGE, 49)]),
        (
            "rc-write-lossy-go-back-n.pcap",
            &[
                (O::WRITE_FIRST, 7),
                (O::WRITE_MIDDLE, 230),
                (O::WRITE_LAST, 8),
                (O::ACKNOWLEDGE, 17),
            ],
        ),
        (
            "rc-write-multi-qp-1023.pcap",
            &[
                (O::WRITE_FIRST, 28),
                (O::WRITE_MIDDLE, 56),
                (O::WRITE_LAST, 27),
                (O::ACKNOWLEDGE, 11),
            ],
        ),
    ];
    for ((name, capture), (expected_name, opcodes)) in common::captures().into_iter().zip(expected) {
        assert_eq!(name, expected_name);
        let mut found = BTreeMap::new();
        for frame in &capture {
            *found
                .entry(Packet::parse(&frame.bytes, None).expect("checked above").bth.opcode.0)
                .or_insert(0) += 1;
        }
        let opcodes: BTreeMap<u8, usize> = opcodes.iter().map(|(opcode, count)| (opcode.0, *count)).collect();
        assert_eq!(found, opcodes, "{name}");
    }
}

#[test]
fn messages_of_the_captures_are_whole() {
    // An unaligned message of 12,345 bytes at MTU 4096: three full packets, then 57 bytes with three of padding.
    for frame in common::capture("rc-write-ipv6-unaligned-12345.pcap") {
        let packet = Packet::parse(&frame.bytes, None).expect("a packet");
        let Some(info) = packet.info().filter(|info| info.has_payload) else {
            continue;
        };
        match info.position {
            Position::First => {
                assert_eq!(packet.payload.len(), 4096);
                let reth = packet
                    .extension(HeaderKind::Reth)
                    .and_then(Extension::as_reth)
                    .expect("RETH");
                assert_eq!(reth.length, 12_345);
            }
            Position::Middle => assert_eq!(packet.payload.len(), 4096),
            Position::Last => assert_eq!((packet.payload.len(), packet.bth.pad_count), (57, 3)),
            Position::Only => panic!("no message of one packet here"),
        }
    }
}

#[test]
fn the_lossy_capture_holds_sequence_naks() {
    let syndromes: Vec<Syndrome> = common::capture("rc-write-lossy-go-back-n.pcap")
        .iter()
        .filter_map(|frame| Packet::parse(&frame.bytes, None).ok())
        .filter_map(|packet| {
            packet
                .extension(HeaderKind::Aeth)
                .and_then(Extension::as_aeth)
                .map(|aeth| aeth.syndrome)
        })
        .collect();
    assert!(syndromes.contains(&Syndrome::Nak(NakCode::PsnSequenceError)));
    assert!(
        syndromes
            .iter()
            .all(|syndrome| syndrome.is_ack() || matches!(syndrome, Syndrome::Nak(_)))
    );
}

#[test]
fn a_frame_cut_at_any_byte_is_refused() {
    for (name, capture) in common::captures() {
        for frame in capture {
            for length in 0..frame.bytes.len() {
                let cut = &frame.bytes[..length];
                let error = Packet::parse(cut, None).expect_err(&name);
                match (length, error) {
                    (
                        0..14,
                        ParseError::TooShort(TooShort {
                            header: "Ethernet",
                            needed: 14,
                            found,
                        }),
                    ) => {
                        assert_eq!(found, length);
                    }
                    (
                        14..,
                        ParseError::TooShort(TooShort {
                            header: "IPv4" | "IPv6",
                            ..
                        }),
                    ) => {
                        assert!(length < 54);
                    }
                    (
                        14..,
                        ParseError::IpLength {
                            length: right, most, ..
                        },
                    ) => {
                        assert_eq!((right, most), (frame.bytes.len() - 14, length - 14));
                    }
                    (_, other) => panic!("{name} frame {} cut at {length}: {other}", frame.number),
                }
                assert!(icrc::verify(cut).is_err());
            }
        }
    }
}

#[test]
fn an_ip_packet_cut_at_any_byte_never_passes_its_icrc() {
    // Here the lengths agree with the cut, so the checks behind them are met.
    for (name, capture) in common::captures() {
        for frame in capture.iter().step_by(7) {
            let packet = Packet::parse(&frame.bytes, None).expect(&name);
            let ip = packet.ethernet.length();
            for length in ip + packet.ip.length()..frame.bytes.len() {
                let mut cut = frame.bytes[..length].to_vec();
                let ip_length = (length - ip) as u16;
                match packet.ip {
                    Ip::V4(_) => {
                        cut[ip + 2..ip + 4].copy_from_slice(&ip_length.to_be_bytes());
                        let header: &[u8; 20] = cut[ip..ip + 20].try_into().expect("20 bytes");
                        let checksum = spraynic_wire::network::ipv4_checksum(header);
                        cut[ip + 10..ip + 12].copy_from_slice(&checksum.to_be_bytes());
                    }
                    Ip::V6(_) => cut[ip + 4..ip + 6].copy_from_slice(&(ip_length - 40).to_be_bytes()),
                }
                let udp = ip + packet.ip.length();
                if length >= udp + 6 {
                    cut[udp + 4..udp + 6].copy_from_slice(&((length - udp) as u16).to_be_bytes());
                }
                let valid = icrc::verify(&cut).is_ok_and(icrc::Verdict::is_valid);
                assert!(
                    !valid || Packet::parse(&cut, None).is_err(),
                    "{name} frame {} cut at {length}",
                    frame.number
                );
                common::check::frame(&cut);
            }
        }
    }
}
