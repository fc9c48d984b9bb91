//! Whole packets of every opcode and profile: round trips, damage, each refusal, corner cases.

mod common;

use proptest::prelude::*;
use spraynic_wire::network::ipv4_checksum;
use spraynic_wire::{
    Bth, Ethernet, Extension, Ip, Ipv4, Ipv6, MacAddress, Opcode, Packet, ParseError, Profile, Psn, Reth, TooShort,
    VlanTag, icrc,
};

fn write_only(payload: &[u8]) -> Packet {
    let bth = Bth {
        opcode: Opcode::WRITE_ONLY,
        destination_qpn: 0x11,
        psn: Psn::new(7),
        ..Bth::default()
    };
    let reth = Reth {
        virtual_address: 0x1000,
        remote_key: 5,
        length: payload.len() as u32,
    };
    Packet::new(
        Ethernet::default(),
        Ip::V4(Ipv4::default()),
        0xC001,
        bth,
        vec![reth.into()],
    )
    .with_payload(payload.to_vec())
}

/// Changes an IPv4 frame without tags and makes its header checksum right again.
fn changed(packet: &Packet, change: impl Fn(&mut Vec<u8>)) -> Result<Packet, ParseError> {
    let mut frame = packet.emit();
    change(&mut frame);
    let header: &[u8; 20] = frame[14..34].try_into().expect("20 bytes");
    let checksum = ipv4_checksum(header);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    Packet::parse(&frame, None)
}

#[test]
fn each_check_says_what_is_wrong_and_what_would_be_right() {
    let packet = write_only(b"abcde");
    let total = packet.length();
    assert!(changed(&packet, |_| ()).is_ok());
    let cases: Vec<(ParseError, Result<Packet, ParseError>)> = vec![
        (ParseError::NotIp(0x0806), changed(&packet, |frame| frame[13] = 6)),
        (
            ParseError::IpVersion { found: 6, right: 4 },
            changed(&packet, |frame| frame[14] = 0x65),
        ),
        (ParseError::Ipv4Options(6), changed(&packet, |frame| frame[14] = 0x46)),
        (
            ParseError::IpLength {
                length: 19,
                least: 20,
                most: total - 14,
            },
            changed(&packet, |f| f[17] = 19),
        ),
        (
            ParseError::Ipv4Fragment(0x2000),
            changed(&packet, |frame| frame[20] = 0x20),
        ),
        (
            ParseError::Ipv4Fragment(0x4001),
            changed(&packet, |frame| frame[21] = 1),
        ),
        (
            ParseError::Ipv4Fragment(0xC000),
            changed(&packet, |frame| frame[20] = 0xC0),
        ),
        (ParseError::NotUdp(6), changed(&packet, |frame| frame[23] = 6)),
        (ParseError::NotRoce(0x12B6), changed(&packet, |frame| frame[37] = 0xB6)),
        (
            ParseError::UdpLength {
                found: total - 33,
                right: total - 34,
            },
            changed(&packet, |frame| frame[39] += 1),
        ),
        (
            ParseError::TransportVersion(1),
            changed(&packet, |frame| frame[43] |= 1),
        ),
        (
            ParseError::UnknownOpcode(Opcode(0x15)),
            changed(&packet, |frame| frame[42] = 0x15),
        ),
        (
            ParseError::UnexpectedPayload {
                opcode: Opcode::READ_REQUEST,
                length: 8,
            },
            changed(&packet, |frame| frame[42] = 0x0C),
        ),
        (
            ParseError::TooShort(TooShort {
                header: "AtomicETH",
                needed: 28,
                found: 20,
            }),
            changed(&write_only(b""), |frame| frame[42] = 0x13),
        ),
        (
            ParseError::TooShort(TooShort {
                header: "ICRC",
                needed: 4,
                found: 0,
            }),
            changed(&write_only(&[0; 8]), |frame| frame[42] = 0x13),
        ),
        (
            ParseError::PadCount {
                pad_count: 3,
                available: 0,
            },
            changed(&write_only(b""), |frame| frame[43] = 0x30),
        ),
    ];
    for (expected, found) in cases {
        assert_eq!(found, Err(expected));
    }
    // Not a multiple of four, though all lengths agree.
    let misaligned = Packet {
        bth: Bth {
            pad_count: 0,
            ..packet.bth
        },
        ..packet.clone()
    }
    .emit();
    assert_eq!(
        Packet::parse(&misaligned, None),
        Err(ParseError::Alignment {
            payload: 5,
            pad_count: 0
        })
    );
    // The checksum.
    let mut frame = packet.emit();
    frame[22] ^= 1;
    assert!(matches!(
        Packet::parse(&frame, None),
        Err(ParseError::Ipv4Checksum { .. })
    ));
    // A third tag.
    let mut tagged = packet.clone();
    tagged.ethernet.vlans = vec![VlanTag::new(1); 3];
    assert_eq!(Packet::parse(&tagged.emit(), None), Err(ParseError::NotIp(0x8100)));
    // IPv6.
    let mut six = Packet {
        ip: Ip::V6(Ipv6::default()),
        ..packet
    };
    let frame = six.emit();
    let with = |at: usize, byte: u8| {
        let mut frame = frame.clone();
        frame[at] = byte;
        Packet::parse(&frame, None)
    };
    assert_eq!(with(14, 0x40), Err(ParseError::IpVersion { found: 4, right: 6 }));
    assert_eq!(with(20, 43), Err(ParseError::NotUdp(43)));
    assert!(matches!(with(18, 0xFF), Err(ParseError::IpLength { .. })));
    // The profile.
    six.bth.opcode = Opcode::SACK;
    let error = ParseError::OpcodeNotInProfile {
        opcode: Opcode::WRITE_ONLY,
        profile: Profile::Mrc,
    };
    assert_eq!(Packet::parse(&frame, Some(Profile::Mrc)), Err(error));
    assert_eq!(error.to_string(), "RC WRITE only is not part of profile mrc");
}

#[test]
fn ethernet_padding_is_no_payload() {
    for length in 0..=4 {
        let mut packet = write_only(&vec![0xEE; length]);
        packet.trailer = vec![0; 11];
        let parsed = Packet::parse(&packet.emit(), None).expect("a packet");
        assert_eq!(parsed.payload, vec![0xEE; length]);
        assert_eq!(usize::from(parsed.bth.pad_count), (4 - length % 4) % 4);
        assert_eq!(parsed.trailer, [0; 11]);
        assert!(icrc::verify(&packet.emit()).expect("an ICRC").is_valid());
    }
}

#[test]
fn a_cnp_is_the_one_of_a_real_adapter() {
    // Captured on a ConnectX-4 Lx; a public test vector of scapy (test/contrib/roce.uts).
    let captured = [
        0xe4, 0x1d, 0x2d, 0xab, 0x2b, 0xc2, 0x7c, 0xfe, 0x90, 0x64, 0x3b, 0x32, 0x08, 0x00, 0x45, 0xc2, 0x00, 0x3c,
        0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61, 0x0a, 0x00, 0x11, 0x01, 0x0a, 0x00, 0x12, 0x01, 0x00, 0x00,
        0x12, 0xb7, 0x00, 0x28, 0x00, 0x00, 0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x82, 0xfd,
        0x00, 0x2a,
    ];
    let ethernet = Ethernet {
        destination: MacAddress([0xe4, 0x1d, 0x2d, 0xab, 0x2b, 0xc2]),
        source: MacAddress([0x7c, 0xfe, 0x90, 0x64, 0x3b, 0x32]),
        vlans: vec![],
    };
    let ip = Ipv4 {
        tos: 0xC2,
        identification: 0x718C,
        source: [10, 0, 17, 1].into(),
        destination: [10, 0, 18, 1].into(),
        ..Ipv4::default()
    };
    let cnp = Packet::cnp(ethernet, Ip::V4(ip), 0, 0x118, 0xFFFF);
    assert_eq!(cnp.emit(), captured);
    for profile in Profile::ALL {
        let parsed = Packet::parse(&captured, Some(profile)).expect("a CNP");
        assert_eq!(parsed.emit(), captured);
        assert!(parsed.bth.becn && !parsed.bth.fecn);
    }
    assert!(icrc::verify(&captured).expect("an ICRC").is_valid());
}

#[test]
fn the_profile_decides_the_bit_order_of_a_cnp_and_the_opcode_without_one() {
    let mut frame = Packet::cnp(Ethernet::default(), Ip::V4(Ipv4::default()), 0, 1, 0xFFFF).emit();
    frame[43] = 0x80;
    let of = |profile| Packet::parse(&frame, profile).map(|packet| (packet.bth.solicited, packet.bth.migration));
    assert_eq!(of(Some(Profile::Mrc)), Ok((false, true)));
    assert_eq!(of(Some(Profile::Roce)), Ok((true, false)));
    assert_eq!(of(None), Ok((true, false)));
}

/// Ones' complement sum word by word with the carry added at once: another way than the crate's.
fn checksum_by_definition(words: &[u16]) -> u16 {
    !words.iter().fold(0u16, |sum, word| {
        let (sum, carry) = sum.overflowing_add(*word);
        sum + u16::from(carry)
    })
}

#[test]
fn ipv4_checksums_that_carry_twice_or_become_zero() {
    // The sum without checksum of a header whose other words add up to `rest`, with the last address word free.
    for sum in [
        0xFFFF, 0x1_FFFE, 0x1_FFFF, 0x2_FFFC, 0x2_FFFD, 0x2_FFFE, 0x2_FFFF, 0x3_0000, 0x3_FFFC, 0x3_FFFD,
    ] {
        let ip = Ipv4 {
            source: [0; 4].into(),
            destination: [0; 4].into(),
            ..Ipv4::default()
        };
        let mut packet = write_only(b"");
        packet.ip = Ip::V4(ip);
        let frame = packet.emit();
        let words: Vec<u16> = frame[14..34]
            .chunks(2)
            .map(|b| u16::from_be_bytes([b[0], b[1]]))
            .collect();
        let fixed: u32 = words
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != 5)
            .map(|(_, word)| u32::from(*word))
            .sum();
        let mut rest = sum - fixed;
        let free: Vec<u16> = (0..5)
            .map(|_| {
                let word = rest.min(0xFFFF);
                rest -= word;
                word as u16
            })
            .collect();
        assert_eq!(rest, 0, "sum 0x{sum:x} is reached");
        let octets = |at: usize| [free[at].to_be_bytes(), free[at + 1].to_be_bytes()].concat();
        let address = |at| <[u8; 4]>::try_from(octets(at)).expect("4 bytes").into();
        packet.ip = Ip::V4(Ipv4 {
            identification: free[4],
            source: address(0),
            destination: address(2),
            ..ip
        });
        let frame = packet.emit();
        let words: Vec<u16> = frame[14..34]
            .chunks(2)
            .map(|b| u16::from_be_bytes([b[0], b[1]]))
            .collect();
        let mut without: Vec<u16> = words.clone();
        without[5] = 0;
        assert_eq!(without.iter().map(|word| u32::from(*word)).sum::<u32>(), sum);
        assert_eq!(words[5], checksum_by_definition(&without), "sum 0x{sum:x}");
        assert_eq!(checksum_by_definition(&words), 0, "a receiver's check of sum 0x{sum:x}");
        let parsed = Packet::parse(&frame, None).expect("right checksum");
        assert_eq!(parsed.emit(), frame);
        if words[5] == 0 {
            // The other zero of ones' complement verifies too, and is kept.
            let mut other = frame.clone();
            other[24..26].fill(0xFF);
            assert_eq!(Packet::parse(&other, None).expect("verifies").emit(), other);
        }
        let mut wrong = frame;
        wrong[25] ^= 1;
        assert!(
            matches!(Packet::parse(&wrong, None), Err(ParseError::Ipv4Checksum { .. })),
            "sum 0x{sum:x}"
        );
    }
}

proptest! {
    #![proptest_config(common::config(concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/packets.txt")))]

    #[test]
    fn packets_of_every_profile_round_trip((profile, packet) in common::packet()) {
        let frame = packet.emit();
        prop_assert_eq!(frame.len(), packet.length());
        prop_assert!(icrc::verify(&frame).expect("an ICRC").is_valid());
        let mut parsed = Packet::parse(&frame, profile).expect("a packet");
        prop_assert_eq!(parsed.emit(), &frame[..]);
        common::check::frame(&frame);
        let json = serde_json::to_string(&parsed).expect("to JSON");
        prop_assert_eq!(&serde_json::from_str::<Packet>(&json).expect("from JSON"), &parsed);
        parsed.icrc = None;
        if let Ip::V4(ip) = &mut parsed.ip {
            ip.checksum = None;
        }
        prop_assert_eq!(parsed, packet);
    }

    #[test]
    fn a_packet_cut_at_any_byte_is_refused((profile, mut packet) in common::packet()) {
        packet.trailer.clear();
        let frame = packet.emit();
        for length in 0..frame.len() {
            prop_assert!(Packet::parse(&frame[..length], profile).is_err());
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        common::check::frame(&bytes);
    }

    #[test]
    fn damaged_frames_never_panic((_, packet) in common::packet(), seed: u64) {
        let mut random = common::check::Random::new(seed);
        for _ in 0..20 {
            let mut frame = packet.emit();
            common::check::damage(&mut random, &mut frame);
            common::check::mend(&mut random, &mut frame);
            common::check::frame(&frame);
        }
    }
}

#[test]
fn extensions_answer_for_their_kind() {
    let packet = write_only(b"x");
    let reth = packet
        .extension(spraynic_wire::HeaderKind::Reth)
        .and_then(Extension::as_reth);
    assert_eq!(reth.map(|reth| reth.remote_key), Some(5));
    assert_eq!(packet.extension(spraynic_wire::HeaderKind::Aeth), None);
}
