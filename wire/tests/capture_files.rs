//! Capture files: both formats in both byte orders, damaged and cut ones, and what the writer writes.

mod common;

use std::io::Cursor;
use std::time::Duration;

use proptest::prelude::*;
use spraynic_wire::pcap::{CaptureError, CapturedFrame, Reader, Writer};

fn read(bytes: &[u8]) -> Result<Vec<CapturedFrame>, CaptureError> {
    Reader::new(Cursor::new(bytes.to_vec()))?.collect()
}

fn written(frames: &[(Duration, Vec<u8>)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("a vector");
    for (time, frame) in frames {
        writer.write(*time, frame).expect("a vector");
    }
    writer.finish().expect("a vector")
}

/// A pcapng file built number by number.
struct NextGeneration {
    big_endian: bool,
    bytes: Vec<u8>,
}

impl NextGeneration {
    fn new(big_endian: bool) -> Self {
        let mut file = Self {
            big_endian,
            bytes: Vec::new(),
        };
        let body = [file.u32(0x1A2B_3C4D), file.u16(1), file.u16(0), vec![0xFF; 8]].concat();
        file.block(0x0A0D_0D0A, &body);
        file
    }

    fn u16(&self, value: u16) -> Vec<u8> {
        if self.big_endian {
            value.to_be_bytes().to_vec()
        } else {
            value.to_le_bytes().to_vec()
        }
    }

    fn u32(&self, value: u32) -> Vec<u8> {
        if self.big_endian {
            value.to_be_bytes().to_vec()
        } else {
            value.to_le_bytes().to_vec()
        }
    }

    fn block(&mut self, kind: u32, body: &[u8]) {
        let padding = body.len().wrapping_neg() % 4;
        let length = self.u32((12 + body.len() + padding) as u32);
        self.bytes.extend(self.u32(kind));
        self.bytes.extend(&length);
        self.bytes.extend(body);
        self.bytes.extend(vec![0; padding]);
        self.bytes.extend(&length);
    }

    fn interface(&mut self, link: u16, options: &[(u16, Vec<u8>)]) {
        let mut body = [self.u16(link), self.u16(0), self.u32(0)].concat();
        for (code, value) in options {
            body.extend(self.u16(*code));
            body.extend(self.u16(value.len() as u16));
            body.extend(value);
            body.extend(vec![0; value.len().wrapping_neg() % 4]);
        }
        body.extend([0; 4]);
        self.block(1, &body);
    }

    fn packet(&mut self, interface: u32, stamp: u64, frame: &[u8]) {
        let length = self.u32(frame.len() as u32);
        let body = [
            self.u32(interface),
            self.u32((stamp >> 32) as u32),
            self.u32(stamp as u32),
            length.clone(),
            length,
            frame.to_vec(),
        ];
        self.block(6, &body.concat());
    }
}

#[test]
fn pcapng_of_both_byte_orders_with_its_time_units() {
    for big_endian in [false, true] {
        let mut file = NextGeneration::new(big_endian);
        file.interface(1, &[]); // microseconds when nothing is said
        file.interface(1, &[(9, vec![9])]);
        file.interface(1, &[(9, vec![0x80 | 10])]); // 2^-10 s
        let offset = if big_endian {
            1000i64.to_be_bytes()
        } else {
            1000i64.to_le_bytes()
        };
        file.interface(1, &[(9, vec![3]), (14, offset.to_vec())]);
        file.packet(0, 5_000_001, b"one");
        file.packet(1, 5_000_000_001, b"four");
        file.block(5, &[0; 12]); // statistics: no frame
        file.packet(2, 5 * 1024 + 512, b"");
        file.packet(3, 5_250, b"seven77");
        let simple = [file.u32(5), b"hello".to_vec()].concat();
        file.block(3, &simple);
        let frames = read(&file.bytes).expect("a right file");
        let found: Vec<(u64, Duration, &[u8])> = frames
            .iter()
            .map(|frame| (frame.number, frame.time, &frame.bytes[..]))
            .collect();
        let expected: [(u64, Duration, &[u8]); 5] = [
            (1, Duration::new(5, 1000), b"one"),
            (2, Duration::new(5, 1), b"four"),
            (3, Duration::new(5, 500_000_000), b""),
            (4, Duration::new(1005, 250_000_000), b"seven77"),
            (5, Duration::ZERO, b"hello"),
        ];
        assert_eq!(found, expected, "big endian: {big_endian}");
    }
}

#[test]
fn pcap_of_both_byte_orders_and_time_units() {
    for (magic, nanoseconds) in [(0xA1B2_C3D4_u32, 3_000), (0xA1B2_3C4D, 3)] {
        for big_endian in [false, true] {
            let u32 = |value: u32| {
                if big_endian {
                    value.to_be_bytes()
                } else {
                    value.to_le_bytes()
                }
            };
            let versions = if big_endian { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
            let mut bytes = [u32(magic), versions, u32(0), u32(0), u32(65_535), u32(1)].concat();
            bytes.extend([u32(7), u32(3), u32(2), u32(60)].concat());
            bytes.extend(b"ab");
            let frames = read(&bytes).expect("a right file");
            assert_eq!(frames.len(), 1);
            assert_eq!(frames[0].time, Duration::new(7, nanoseconds));
            assert_eq!((frames[0].original_length, frames[0].offset), (60, 24));
            assert_eq!(frames[0].bytes, b"ab");
        }
    }
}

#[test]
fn a_capture_cut_anywhere_names_frame_and_offset() {
    let path = common::data_directory().join("rc-write-lat-64.pcap");
    let whole = std::fs::read(path).expect("the capture");
    let frames = read(&whole).expect("the capture");
    for length in 0..whole.len() {
        // The record that holds the cut, if the cut is not between two.
        let cut = frames.iter().rev().find(|frame| frame.offset < length as u64);
        match (read(&whole[..length]), cut) {
            (Err(CaptureError::NotACapture), None) => assert!(length < 4),
            (Err(CaptureError::Truncated { frame: 1, offset: 0 }), None) => assert!(length < 24),
            (Ok(found), None) => assert!(found.is_empty() && length == 24),
            (Ok(found), Some(last)) => {
                assert_eq!(found.len() as u64, last.number);
                assert_eq!(length as u64, last.offset + 16 + last.bytes.len() as u64);
            }
            (Err(CaptureError::Truncated { frame, offset }), Some(last)) => {
                assert_eq!((frame, offset), (last.number, last.offset), "cut at {length}");
            }
            (other, _) => panic!("cut at {length}: {other:?}"),
        }
    }
}

#[test]
fn wrong_files_say_what_is_wrong() {
    assert!(matches!(
        read(b"no capture, but long enough for a header"),
        Err(CaptureError::NotACapture)
    ));
    assert!(matches!(read(b""), Err(CaptureError::NotACapture)));
    let missing = Reader::open(&common::data_directory().join("missing.pcap")).expect_err("missing");
    assert!(matches!(missing, CaptureError::Io { offset: 0, .. }), "{missing}");

    let mut file = written(&[(Duration::ZERO, vec![1; 60])]);
    file[20] = 113; // Linux cooked capture
    assert!(matches!(
        read(&file),
        Err(CaptureError::LinkType { frame: 1, link: 113 })
    ));

    // A length that cannot be true must not be taken as memory to reserve.
    let mut file = written(&[(Duration::ZERO, vec![1; 60]), (Duration::ZERO, vec![2; 100_000])]);
    let second = 24 + 16 + 60;
    file[second + 8..second + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    match read(&file) {
        Err(CaptureError::Truncated { frame: 2, offset } | CaptureError::Damaged { frame: 2, offset, .. }) => {
            assert_eq!(offset, second as u64);
        }
        other => panic!("{other:?}"),
    }

    let mut file = NextGeneration::new(false);
    file.packet(0, 0, b"frame");
    assert!(matches!(
        read(&file.bytes),
        Err(CaptureError::Damaged {
            frame: 1,
            offset: 28,
            ..
        })
    ));
    let mut file = NextGeneration::new(false);
    file.interface(1, &[]);
    file.packet(0, 0, b"frame");
    let end = file.bytes.len();
    file.bytes[end - 4] ^= 4;
    assert!(matches!(read(&file.bytes), Err(CaptureError::Damaged { frame: 1, .. })));
}

#[test]
fn frames_longer_than_the_first_buffer_are_read() {
    let frames: Vec<(Duration, Vec<u8>)> = [60, 262_144, 65_536 - 16, 65_536, 9000]
        .map(|length| (Duration::new(1, 2), vec![length as u8; length]))
        .into();
    let found = read(&written(&frames)).expect("a right file");
    assert!(
        found
            .iter()
            .map(|frame| &frame.bytes)
            .eq(frames.iter().map(|(_, frame)| frame))
    );
    let mut writer = Writer::new(Vec::new()).expect("a vector");
    assert!(writer.write(Duration::ZERO, &vec![0; 262_145]).is_err());
    assert!(writer.write(Duration::from_secs(1 << 32), &[0; 60]).is_err());
}

#[test]
fn damaged_capture_files_never_panic() {
    let mut random = common::check::Random::new(4);
    let mut ng = NextGeneration::new(false);
    ng.interface(1, &[(9, vec![9]), (2, b"eth0".to_vec())]);
    ng.packet(0, 1 << 40, &[7; 70]);
    ng.packet(0, 1 << 41, &[8; 71]);
    let files = [
        ng.bytes,
        written(&[(Duration::ZERO, vec![1; 60]), (Duration::ZERO, vec![2; 61])]),
    ];
    for file in &files {
        assert_eq!(common::check::capture_file(file), 2);
        for _ in 0..5000 {
            let mut damaged = file.clone();
            common::check::damage(&mut random, &mut damaged);
            common::check::capture_file(&damaged);
        }
    }
}

proptest! {
    #![proptest_config(common::config(concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/capture_files.txt")))]

    #[test]
    fn what_was_written_is_read(
        frames in prop::collection::vec(
            ((any::<u32>(), 0u32..1_000_000_000), prop::collection::vec(any::<u8>(), 0..300)), 0..20,
        ),
    ) {
        let frames: Vec<(Duration, Vec<u8>)> = frames
            .into_iter()
            .map(|((seconds, nanoseconds), frame)| (Duration::new(seconds.into(), nanoseconds), frame))
            .collect();
        let found = read(&written(&frames)).expect("a right file");
        prop_assert_eq!(found.len(), frames.len());
        for (frame, (time, bytes)) in found.iter().zip(&frames) {
            prop_assert_eq!(&frame.bytes, bytes);
            prop_assert_eq!(frame.time, *time);
            prop_assert_eq!(frame.original_length, bytes.len());
        }
    }
}
