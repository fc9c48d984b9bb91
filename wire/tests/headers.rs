//! Every header: what was parsed is emitted again, reserved bits are zero, fields do not overlap.

mod common;

use proptest::prelude::*;
use spraynic_wire::{Bth, Extension, Header, HeaderKind, Psn};

#[test]
fn fields_neither_overlap_nor_leave_the_header() {
    for (length, fields) in HeaderKind::ALL
        .iter()
        .map(|kind| (kind.length(), kind.fields()))
        .chain([(Bth::LENGTH, Bth::FIELDS)])
    {
        let mut end = 0;
        for field in fields {
            assert!(field.first_bit >= end, "{} overlaps the field before", field.name);
            assert!((1..=64).contains(&field.width));
            end = field.first_bit + field.width;
        }
        assert!(end <= length * 8);
    }
}

#[test]
fn lengths_are_those_of_the_standards() {
    let lengths = HeaderKind::ALL
        .iter()
        .map(|kind| (kind.name(), kind.length()))
        .collect::<Vec<_>>();
    assert_eq!(
        lengths,
        [
            ("RETH", 16),
            ("AETH", 4),
            ("ImmDt", 4),
            ("IETH", 4),
            ("AtomicETH", 28),
            ("AtomicAckETH", 8),
            ("CNP reserved", 16),
            ("METH", 4),
            ("TSETH", 4),
            ("SETH", 28),
            ("CC_STATE", 8),
            ("NETH", 20),
            ("PETH", 16),
            ("ERTH", 16),
            ("EETH", 36),
        ]
    );
}

#[test]
fn a_value_too_wide_is_truncated_to_its_field() {
    let aeth = spraynic_wire::Aeth {
        msn: 0xFFFF_FFFF,
        ..Default::default()
    };
    assert_eq!(aeth.to_bytes(), [0x1F, 0xFF, 0xFF, 0xFF]);
    let state = spraynic_wire::CcState {
        ooo_count: 0xFFFF,
        rcv_cwnd_pen: 0xFF,
        ..Default::default()
    };
    assert_eq!(state.to_bytes(), [0, 0, 0x7F, 0xFF, 0x7F, 0, 0, 0]);
}

fn round_trip(kind: HeaderKind, bytes: &[u8]) -> Result<(), TestCaseError> {
    let header = kind.parse(bytes).expect("enough bytes");
    prop_assert_eq!(header.kind(), kind);
    let mut emitted = vec![0xA5; kind.length() + 4];
    header.emit(&mut emitted);
    let expected: Vec<u8> = bytes
        .iter()
        .zip(kind.reserved_mask())
        .map(|(byte, mask)| byte & !mask)
        .collect();
    prop_assert_eq!(&emitted[..kind.length()], &expected[..]);
    prop_assert_eq!(
        &emitted[kind.length()..],
        &[0xA5; 4],
        "nothing behind the header is written"
    );
    prop_assert_eq!(kind.parse(&emitted), Ok(header));
    // The values are the bits that the table names.
    for (field, value) in kind.fields().iter().zip(header.values()) {
        let bit = |at: usize| u64::from(bytes[at / 8] >> (7 - at % 8) & 1);
        let bits = (field.first_bit..field.first_bit + field.width).fold(0, |bits, at| bits << 1 | bit(at));
        prop_assert_eq!(value, bits, "{}", field.name);
    }
    let json = serde_json::to_string(&header).expect("to JSON");
    prop_assert_eq!(serde_json::from_str::<Extension>(&json).expect("from JSON"), header);
    prop_assert!(header.to_string().starts_with(kind.name()));
    for length in 0..kind.length() {
        let error = kind.parse(&bytes[..length]).expect_err("too short");
        prop_assert_eq!(
            (error.header, error.needed, error.found),
            (kind.name(), kind.length(), length)
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(common::config(concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/headers.txt")))]

    #[test]
    fn every_extension_header_round_trips(bytes: [u8; 36]) {
        for kind in HeaderKind::ALL {
            round_trip(*kind, &bytes)?;
        }
    }

    #[test]
    fn every_bit_of_the_bth_is_kept(bytes: [u8; 12], mrc: bool) {
        let order = if mrc { spraynic_wire::BitOrder::Mrc } else { spraynic_wire::BitOrder::Iba };
        let bth = Bth::parse_ordered(&bytes, order).expect("12 bytes");
        let mut emitted = [0; 12];
        bth.emit_ordered(&mut emitted, order);
        prop_assert_eq!(emitted, bytes);
        let (high, next) = (bytes[1] & 0x80 != 0, bytes[1] & 0x40 != 0);
        prop_assert_eq!((bth.solicited, bth.migration), if mrc { (next, high) } else { (high, next) });
        prop_assert_eq!(bth.psn, Psn::new(u32::from_be_bytes([0, bytes[9], bytes[10], bytes[11]])));
    }
}
