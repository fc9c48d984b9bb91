//! Tests of the header builder model: whole frames written out by hand, and each rule by an example.

use spraynic_config::descriptor::Extension;

use super::*;

const QPN: u32 = 2;

fn template() -> HeaderTemplate {
    HeaderTemplate {
        qpn: QPN,
        destination_mac: 0x5254_0000_0002,
        source_mac: 0x5254_0000_0001,
        vlan_tci: 0x6ABC,
        traffic_class: 0xB9,
        hop_limit: 64,
        flow_label: 0x54321,
        source_ip: 0x0A4D_0001,
        destination_ip: 0x0A4D_0002,
        partition_key: 0xFFFE,
        destination_qpn: 0x12_3456,
        ..HeaderTemplate::default()
    }
}

fn descriptor(payload_length: u16) -> PacketDescriptor {
    PacketDescriptor {
        qpn: QPN,
        opcode: 0x04,
        psn: 0xAB_CDEF,
        entropy: 0x9876_C001,
        payload_length,
        ..PacketDescriptor::default()
    }
}

fn builder(template: HeaderTemplate) -> HeaderBuilder {
    let mut builder = HeaderBuilder::new(Config::full(4));
    builder.write_template(&template);
    builder
}

fn build(template: HeaderTemplate, descriptor: PacketDescriptor, payload: &[u8]) -> Vec<u8> {
    let frame = builder(template).build(&descriptor, payload, 0).unwrap();
    assert!(!frame.bad);
    frame.bytes
}

/// Twenty bytes of IPv4 header sum to 0xFFFF where the checksum is right.
fn checksum_holds(header: &[u8]) -> bool {
    let mut sum: u32 = header
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
        .sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum == 0xFFFF
}

#[test]
fn an_ipv4_frame_byte_for_byte() {
    let mut expected = vec![
        0x52, 0x54, 0, 0, 0, 2, 0x52, 0x54, 0, 0, 0, 1, 0x08, 0x00, // Ethernet
        0x45, 0xB9, 0x00, 0x30, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2, // IPv4
        0xC0, 0x01, 0x12, 0xB7, 0x00, 0x1C, 0, 0, // UDP
        0x04, 0x30, 0xFF, 0xFE, 0, 0x12, 0x34, 0x56, 0x00, 0xAB, 0xCD, 0xEF, // BTH, 3 bytes of padding
        0x77, 0, 0, 0, // payload and padding
        0, 0, 0, 0, // ICRC to come
    ];
    // 4500+B900... summed by hand: 45B9+0030+4000+4011+0A4D+0001+0A4D+0002 = 0xDA97, complement 0x2568.
    expected[24..26].copy_from_slice(&[0x25, 0x68]);
    assert_eq!(build(template(), descriptor(1), &[0x77]), expected);
}

#[test]
fn an_ipv6_frame_with_tag_byte_for_byte() {
    let template = HeaderTemplate {
        vlan: true,
        ipv6: true,
        migration: true,
        source_ip: 0xFE80 << 112 | 1,
        destination_ip: 0xFE80 << 112 | 2,
        ..template()
    };
    let descriptor = PacketDescriptor {
        solicited: true,
        ack_request: true,
        ..descriptor(4)
    };
    let mut expected = vec![
        0x52, 0x54, 0, 0, 0, 2, 0x52, 0x54, 0, 0, 0, 1, 0x81, 0x00, 0x6A, 0xBC, 0x86, 0xDD, // Ethernet, tag
        0x6B, 0x95, 0x43, 0x21, 0x00, 0x1C, 17, 64, // IPv6
    ];
    for last in [1, 2] {
        expected.extend_from_slice(&[0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    expected.extend_from_slice(&[0xC0, 0x01, 0x12, 0xB7, 0x00, 0x1C, 0, 0]);
    expected.extend_from_slice(&[0x04, 0xC0, 0xFF, 0xFE, 0, 0x12, 0x34, 0x56, 0x80, 0xAB, 0xCD, 0xEF]);
    expected.extend_from_slice(&[1, 2, 3, 4, 0, 0, 0, 0]);
    let frame = builder(template).build(&descriptor, &[1, 2, 3, 4], 0).unwrap();
    assert_eq!(frame.bytes, expected);
    assert!(frame.ipv6 && frame.vlan && !frame.bad);
}

#[test]
fn spray_takes_the_flow_label_from_the_entropy_value() {
    let template = HeaderTemplate {
        ipv6: true,
        spray: true,
        ..template()
    };
    let bytes = build(template, descriptor(0), &[]);
    assert_eq!(bytes[14..18], [0x6B, 0x96, 0xC0, 0x01]);
    assert_eq!(bytes[54..56], [0xC0, 0x01]);
}

#[test]
fn mrc_swaps_solicited_and_migration_and_has_bits_of_its_own() {
    let bth = |template: HeaderTemplate, descriptor: PacketDescriptor| {
        let bytes = build(template, descriptor, &[]);
        (bytes[43], bytes[46], bytes[50])
    };
    let plain = descriptor(0);
    let mrc = PacketDescriptor { mrc: true, ..plain };
    let migrating = HeaderTemplate {
        migration: true,
        ..template()
    };
    assert_eq!(bth(migrating, plain), (0x40, 0, 0));
    assert_eq!(bth(migrating, mrc), (0x80, 0, 0));
    assert_eq!(
        bth(
            template(),
            PacketDescriptor {
                solicited: true,
                ..plain
            }
        )
        .0,
        0x80
    );
    assert_eq!(bth(template(), PacketDescriptor { solicited: true, ..mrc }).0, 0x40);
    assert_eq!(bth(template(), PacketDescriptor { becn: true, ..plain }), (0, 0x40, 0));
    assert_eq!(
        bth(
            template(),
            PacketDescriptor {
                ack_request: true,
                ..mrc
            }
        )
        .2,
        0x80
    );
    assert_eq!(
        bth(
            template(),
            PacketDescriptor {
                retransmission: true,
                ..mrc
            }
        )
        .2,
        0x20
    );
    assert_eq!(
        bth(
            template(),
            PacketDescriptor {
                timestamped: true,
                ..mrc
            }
        )
        .2,
        0x10
    );
}

#[test]
fn stamps_are_bits_22_to_7_of_the_time() {
    let mut extension = Extension::default();
    extension.0.fill(0xEE);
    let time_ns = 0xABCD << 7 | 0x7F | 1 << 23;
    for (stamp, words, place) in [
        (0u8, 5u8, None),
        (1, 5, Some(4)),
        (2, 5, Some(12)),
        (3, 5, None),
        (2, 3, None),
    ] {
        let descriptor = PacketDescriptor {
            stamp,
            extension_words: words,
            extension,
            ..descriptor(0)
        };
        let bytes = builder(template()).build(&descriptor, &[], time_ns).unwrap().bytes;
        let mut expected = vec![0xEE; usize::from(words) * 4];
        if let Some(place) = place {
            expected[place..place + 2].copy_from_slice(&[0xAB, 0xCD]);
        }
        assert_eq!(bytes[54..bytes.len() - 4], expected, "stamp {stamp}, {words} words");
    }
}

#[test]
fn identification_counts_ipv4_frames_alone_and_wraps() {
    let mut builder = builder(template());
    let ipv6 = HeaderTemplate {
        qpn: 1,
        ipv6: true,
        ..template()
    };
    builder.write_template(&ipv6);
    builder.load_identification(0xFFFE);
    let identification = |frame: Option<Frame>| frame.map(|frame| frame.bytes[18..20].to_vec());
    assert_eq!(
        identification(builder.build(&descriptor(0), &[], 0)),
        Some(vec![0xFF, 0xFE])
    );
    builder.build(
        &PacketDescriptor {
            qpn: 1,
            ..descriptor(0)
        },
        &[],
        0,
    );
    builder.build(
        &PacketDescriptor {
            qpn: 3,
            ..descriptor(0)
        },
        &[],
        0,
    );
    assert_eq!(
        identification(builder.build_control(&descriptor(0), 0)),
        Some(vec![0xFF, 0xFF])
    );
    assert_eq!(builder.identification(), 0);
    // A bad frame takes its number too.
    assert!(builder.build(&descriptor(4), &[1], 0).unwrap().bad);
    assert_eq!(builder.identification(), 1);
}

#[test]
fn checksum_carries_twice_and_becomes_zero() {
    let carries = |source_ip: u128, identification: u16| {
        let mut builder = builder(HeaderTemplate {
            traffic_class: 0xFF,
            hop_limit: 0xFF,
            source_ip,
            destination_ip: 0xFFFF_FFFF,
            ..template()
        });
        builder.load_identification(identification);
        builder.build(&descriptor(0), &[], 0).unwrap().bytes[14..34].to_vec()
    };
    let mut twice = 0;
    let mut zero = 0;
    for low in 0..=0xFFFFu16 {
        let header = carries(0xFFFF_0000 | u128::from(low), 0xFFFF - low / 2);
        assert!(checksum_holds(&header), "{header:02x?}");
        let sum: u32 = (0..20)
            .step_by(2)
            .filter(|&at| at != 10)
            .map(|at| u32::from(header[at]) << 8 | u32::from(header[at + 1]))
            .sum();
        twice += u32::from((sum & 0xFFFF) + (sum >> 16) > 0xFFFF);
        zero += u32::from(header[10..12] == [0, 0]);
    }
    assert!(twice > 0 && zero > 0, "{twice} double carries, {zero} zero checksums");
}

#[test]
fn payload_of_another_length_makes_a_bad_frame_of_the_length_announced() {
    let mut builder = builder(template());
    let good = builder.build(&descriptor(9), &[7; 9], 0).unwrap();
    for length in [1, 8, 10, 4096] {
        let frame = builder.build(&descriptor(9), &vec![7; length], 0).unwrap();
        assert!(frame.bad);
        assert_eq!(frame.bytes.len(), good.bytes.len());
    }
    assert!(!builder.build(&descriptor(9), &[7; 9], 0).unwrap().bad);
    assert_eq!(builder.counters().payload_mismatch, 4);
    assert_eq!(builder.counters().frames, 6);
}

#[test]
fn control_frames_have_no_payload_and_are_counted_twice() {
    let mut builder = builder(template());
    let with = builder.build_control(&descriptor(100), 0).unwrap();
    builder.load_identification(0);
    let without = builder.build_control(&descriptor(0), 0).unwrap();
    assert_eq!(with, without);
    assert_eq!((builder.counters().frames, builder.counters().control_frames), (2, 2));
}

#[test]
fn without_a_template_descriptor_and_payload_are_dropped() {
    let mut builder = HeaderBuilder::new(Config::full(4));
    for qpn in [2, 4, 0xFF_FFFF] {
        let descriptor = PacketDescriptor { qpn, ..descriptor(4) };
        assert_eq!(builder.build(&descriptor, &[1; 4], 0), None);
        assert_eq!(builder.build_control(&descriptor, 0), None);
    }
    assert_eq!(
        *builder.counters(),
        Counters {
            drop_template: 6,
            ..Counters::default()
        }
    );
}

#[test]
fn templates_that_cannot_be_kept_are_refused() {
    let mut builder = HeaderBuilder::new(Config {
        ipv6: false,
        vlan: false,
        ..Config::full(4)
    });
    builder.write_template(&template());
    assert!(builder.template(QPN).is_some());
    builder.write_template(&HeaderTemplate { qpn: 4, ..template() });
    assert_eq!(builder.counters().drop_template_write, 1);
    builder.write_template(&HeaderTemplate {
        ipv6: true,
        ..template()
    });
    assert_eq!(builder.template(QPN), None);
    builder.write_template(&template());
    builder.write_template(&HeaderTemplate {
        vlan: true,
        ..template()
    });
    assert_eq!(builder.template(QPN), None);
    assert_eq!(builder.counters().drop_template_write, 3);
}

#[test]
fn lengths_that_were_not_generated_are_dropped() {
    let config = Config {
        extension_words: 0b10_0001,
        payload_extension_words: 0b1,
        max_payload: 1024,
        ..Config::full(4)
    };
    let mut builder = HeaderBuilder::new(config);
    builder.write_template(&template());
    let of = |extension_words: u8, payload_length: u16| PacketDescriptor {
        extension_words,
        ..descriptor(payload_length)
    };
    let payload = |length: u16| vec![0; usize::from(length)];
    for (words, length, built) in [
        (0, 1024, true),
        (5, 0, true),
        (5, 1, false),
        (1, 0, false),
        (0, 1025, false),
        (15, 0, false),
    ] {
        let before = *builder.counters();
        let frame = builder.build(&of(words, length), &payload(length), 0);
        assert_eq!(frame.is_some(), built, "{words} words, {length} bytes");
        let dropped = builder.counters().drop_descriptor - before.drop_descriptor;
        assert_eq!(dropped, u32::from(!built));
    }
    assert!(builder.build_control(&of(5, 4096), 0).is_some());
    assert_eq!(builder.identification(), 3);
}

#[test]
fn the_standard_profile_has_no_time_stamps() {
    let mut builder = HeaderBuilder::new(Config {
        time_stamps: false,
        ..Config::full(4)
    });
    builder.write_template(&template());
    let descriptor = PacketDescriptor {
        stamp: 1,
        extension_words: 4,
        ..descriptor(0)
    };
    let bytes = builder.build(&descriptor, &[], u64::MAX).unwrap().bytes;
    assert_eq!(bytes[54..70], [0; 16]);
}
