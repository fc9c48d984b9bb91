//! What the ICRC covers and what it leaves out, bit by bit.

mod common;

use proptest::prelude::*;
use spraynic_wire::{Bth, Ethernet, Header, Ip, Ipv4, Ipv6, Opcode, Packet, VlanTag, icrc};

/// For each byte of the IP packet before the ICRC: the bits that may change on the way.
fn variant_bits(packet: &Packet) -> Vec<u8> {
    let transport = packet.ip.length() + 8;
    let mut mask = vec![0; transport + packet.transport_length() - icrc::LENGTH];
    match packet.ip {
        Ip::V4(_) => {
            for at in [1, 8, 10, 11] {
                mask[at] = 0xFF;
            }
        }
        Ip::V6(_) => {
            mask[0] = 0x0F;
            for at in [1, 2, 3, 7] {
                mask[at] = 0xFF;
            }
        }
    }
    for at in [transport - 2, transport - 1, transport + 4] {
        mask[at] = 0xFF;
    }
    mask
}

fn check_every_bit(packet: &Packet) {
    let frame = packet.emit();
    let right = icrc::verify(&frame).expect("an ICRC");
    assert!(right.is_valid());
    let ip = packet.ethernet.length();
    let mask = variant_bits(packet);
    for (at, mask) in mask.iter().enumerate() {
        for bit in 0..8 {
            let mut changed = frame.clone();
            changed[ip + at] ^= 1 << bit;
            let kept = icrc::verify(&changed).is_ok_and(icrc::Verdict::is_valid);
            assert_eq!(kept, mask >> bit & 1 == 1, "byte {at} of the IP packet, bit {bit}");
            // A changed frame that still is one gets another ICRC.
            if let Ok(verdict) = icrc::verify(&changed) {
                assert_eq!(verdict.right == right.right, kept);
            }
        }
    }
    // The ICRC itself.
    for bit in 0..32 {
        let mut changed = frame.clone();
        changed[ip + mask.len() + bit / 8] ^= 1 << (bit % 8);
        assert!(!icrc::verify(&changed).expect("an ICRC").is_valid());
    }
    // What stands outside of the IP packet does not count.
    for at in (0..12).chain(ip + mask.len() + 4..frame.len()) {
        let mut changed = frame.clone();
        changed[at] ^= 0x55;
        assert!(icrc::verify(&changed).expect("an ICRC").is_valid(), "byte {at}");
    }
}

#[test]
fn every_bit_of_four_packets() {
    let bth = Bth {
        opcode: Opcode::SEND_ONLY,
        destination_qpn: 0x12_3456,
        ..Bth::default()
    };
    for ip in [Ip::V4(Ipv4::default()), Ip::V6(Ipv6::default())] {
        for vlans in [vec![], vec![VlanTag::new(0x2005)]] {
            let ethernet = Ethernet {
                vlans,
                ..Ethernet::default()
            };
            let mut packet = Packet::new(ethernet, ip, 0xC123, bth, vec![]).with_payload((0..57).collect());
            packet.trailer = vec![0; 5];
            check_every_bit(&packet);
        }
    }
}

/// CRC-32 of Ethernet bit by bit over the masked packet, as the standard words it: another way than the crate's.
fn icrc_by_definition(packet: &Packet) -> u32 {
    let frame = packet.emit();
    let mask = variant_bits(packet);
    let masked = frame[packet.ethernet.length()..]
        .iter()
        .zip(mask)
        .map(|(byte, mask)| byte | mask);
    let mut crc = u32::MAX;
    for byte in [0xFF; 8].into_iter().chain(masked) {
        for bit in 0..8 {
            let feedback = (crc ^ u32::from(byte >> bit)) & 1;
            crc = (crc >> 1) ^ (feedback * 0xEDB8_8320);
        }
    }
    !crc
}

proptest! {
    #![proptest_config(common::config(concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/icrc.txt")))]

    #[test]
    fn the_icrc_is_the_one_of_the_definition((_, packet) in common::packet()) {
        let frame = packet.emit();
        prop_assert_eq!(icrc::compute(&frame), Ok(icrc_by_definition(&packet)));
        let at = frame.len() - packet.trailer.len() - 4;
        prop_assert_eq!(&frame[at..at + 4], &icrc_by_definition(&packet).to_le_bytes());
        let mut blank = frame.clone();
        blank[at..at + 4].fill(0);
        prop_assert_eq!(icrc::insert(&mut blank), Ok(icrc_by_definition(&packet)));
        prop_assert_eq!(blank, frame);
    }

    #[test]
    fn what_may_change_on_the_way_keeps_it((_, packet) in common::packet(), tos: u8, ttl: u8, label in 0u32..1 << 20) {
        let frame = packet.emit();
        let expected = icrc::compute(&frame);
        let mut later = packet.clone();
        match &mut later.ip {
            Ip::V4(ip) => (ip.tos, ip.ttl) = (tos, ttl),
            Ip::V6(ip) => (ip.traffic_class, ip.hop_limit, ip.flow_label) = (tos, ttl, label),
        }
        later.bth.fecn ^= true;
        later.bth.becn ^= true;
        later.bth.reserved_congestion ^= 0x3F;
        later.udp_checksum ^= 0xFFFF;
        later.ethernet.vlans.clear();
        prop_assert_eq!(icrc::compute(&later.emit()), expected);
    }

    #[test]
    fn any_other_change_breaks_it((_, packet) in common::packet(), index: prop::sample::Index, flip in 1u8..=255) {
        let frame = packet.emit();
        let ip = packet.ethernet.length();
        let mask = variant_bits(&packet);
        let at = index.index(mask.len());
        let mut changed = frame.clone();
        changed[ip + at] ^= flip;
        let kept = icrc::verify(&changed).is_ok_and(icrc::Verdict::is_valid);
        prop_assert_eq!(kept, flip & !mask[at] == 0);
    }
}

#[test]
fn frames_without_an_icrc_say_why() {
    use icrc::IcrcError as E;
    let bth = Bth {
        opcode: Opcode::SEND_ONLY,
        ..Bth::default()
    };
    let packet = Packet::new(Ethernet::default(), Ip::V4(Ipv4::default()), 0, bth, vec![]);
    let frame = packet.emit();
    let with = |at: usize, byte: u8| {
        let mut frame = frame.clone();
        frame[at] = byte;
        icrc::compute(&frame)
    };
    assert_eq!(with(13, 6), Err(E::NotIp(0x0806)));
    assert_eq!(with(14, 0x65), Err(E::Version(6)));
    assert_eq!(with(14, 0x46), Err(E::Ipv4Options(6)));
    assert_eq!(with(23, 6), Err(E::NotUdp(6)));
    assert_eq!(
        with(17, 43),
        Err(E::IpLength {
            length: 43,
            least: 44,
            most: 44
        })
    );
    assert_eq!(
        with(17, 45),
        Err(E::IpLength {
            length: 45,
            least: 44,
            most: 44
        })
    );
    assert_eq!(icrc::of_ip_packet(&[]), Err(E::Version(0)));
    assert_eq!(
        icrc::of_ip_packet(&frame[14..14 + 39]),
        Err(E::TooShort { needed: 40, found: 39 })
    );
    assert_eq!(Bth::LENGTH, 12);
    let mut copy = frame.clone();
    copy[13] = 6;
    let before = copy.clone();
    assert!(icrc::insert(&mut copy).is_err());
    assert_eq!(copy, before);
}
