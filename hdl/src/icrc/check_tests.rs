//! The block in the evaluator against the golden model: short frames with a CRC that is right for what is there, marks that change
//! within a frame, blocks for fewer kinds of frames.

use super::*;
use spraynic_golden::icrc::check::{FrameToCheck, IcrcCheck};
use spraynic_rtl::{Bits, Evaluator};
use spraynic_wire::icrc::STATE_AFTER_PREFIX;

const ALL: Icrc = Icrc {
    data_width: 512,
    ipv4: true,
    ipv6: true,
    vlan: true,
    sideband: 0,
};

/// A frame of so many bytes whose last 4 are what a CRC over the rest gives, however short it is.
fn frame(length: usize, ipv6: bool, vlan_tags: u8) -> FrameToCheck {
    let mut bytes: Vec<u8> = (0..length).map(|at| (31 * at + length) as u8).collect();
    let ip = mask::ip_offset(vlan_tags.into());
    if let Some(version) = bytes.get_mut(ip) {
        *version = if ipv6 { 0x6A } else { 0x45 };
    }
    let mut covered = bytes.get(ip..length.max(4) - 4).unwrap_or_default().to_vec();
    let masked: &[usize] = if ipv6 {
        &[1, 2, 3, 7, 46, 47, 52]
    } else {
        &[1, 8, 10, 11, 26, 27, 32]
    };
    for at in masked {
        covered.get_mut(*at).into_iter().for_each(|byte| *byte = 0xFF);
    }
    if ipv6 {
        covered.first_mut().into_iter().for_each(|byte| *byte |= 0x0F);
    }
    let mut crc = crc32fast::Hasher::new_with_initial(!STATE_AFTER_PREFIX);
    crc.update(&covered);
    for (byte, crc) in bytes.iter_mut().rev().zip(crc.finalize().to_be_bytes()) {
        *byte = crc;
    }
    FrameToCheck {
        bytes,
        ipv6,
        vlan_tags,
        ..FrameToCheck::default()
    }
}

/// Verdicts of the block, one beat a clock in; `tuser[0]` is noise before the last beat.
fn run(icrc: &Icrc, frames: &[FrameToCheck]) -> Vec<u8> {
    let context = Context::new();
    let mut run = Evaluator::new(icrc_check(&context, icrc).expect("a block that exists"));
    let bytes = icrc.data_width as usize / 8;
    run.reset();
    let mut verdicts = vec![];
    let beats = frames.iter().flat_map(|frame| {
        let count = frame.bytes.len().div_ceil(bytes);
        let chunks = frame.bytes.chunks(bytes).enumerate();
        chunks.map(move |(at, chunk)| (chunk, at + 1 == count, frame.user()))
    });
    let idle: (&[u8], bool, u8) = (&[], false, 0);
    for (at, (chunk, last, user)) in beats.chain(std::iter::repeat_n(idle, 20)).enumerate() {
        run.set("s_axis_tvalid", u64::from(!chunk.is_empty()));
        let mut data = vec![0xA5 ^ at as u8; bytes];
        data[..chunk.len()].copy_from_slice(chunk);
        run.set("s_axis_tdata", Bits::from_bytes(icrc.data_width, &data));
        let keep = u128::MAX >> (128 - chunk.len().max(1));
        run.set(
            "s_axis_tkeep",
            Bits::from_words(icrc.data_width / 8, &[keep as u64, (keep >> 64) as u64]),
        );
        run.set("s_axis_tlast", u64::from(last));
        let noise = u64::from(!last & (at % 2 == 0));
        run.set("s_axis_tuser", u64::from(user) ^ noise);
        run.set("m_axis_verdict_tready", 1);
        assert_eq!(run.get_u64("s_axis_tready"), 1);
        if run.get_u64("m_axis_verdict_tvalid") == 1 {
            verdicts.push(run.get_u64("m_axis_verdict_tdata") as u8);
        }
        run.clock();
    }
    verdicts
}

fn compare(icrc: &Icrc, frames: &[FrameToCheck]) {
    let mut model = IcrcCheck::new();
    let expected: Vec<u8> = frames
        .iter()
        .filter_map(|frame| model.take(frame).map(u8::from))
        .collect();
    let given = run(icrc, frames);
    assert_eq!(given.len(), expected.len());
    let judged = frames.iter().filter(|frame| !frame.dropped);
    for ((frame, given), expected) in judged.zip(given).zip(expected) {
        let (length, user) = (frame.bytes.len(), frame.user());
        assert_eq!(
            given, expected,
            "{length} bytes, tuser {user:#x}, {} bits",
            icrc.data_width
        );
    }
}

/// Every length from one byte to some beats, right CRCs all: only those long enough for headers and ICRC have a right ICRC.
#[test]
fn frames_too_short_for_an_icrc_are_wrong_whatever_their_crc() {
    for data_width in [64, 128, 256, 512, 1024] {
        let kinds = [(false, 0), (false, 1), (false, 2), (true, 0), (true, 1), (true, 2)];
        let lengths = (1..150).chain(250..270);
        let frames: Vec<FrameToCheck> = lengths
            .flat_map(|length| kinds.map(|(ipv6, tags)| frame(length, ipv6, tags)))
            .collect();
        compare(&Icrc { data_width, ..ALL }, &frames);
    }
}

#[test]
fn frames_of_another_kind_than_the_sideband_says_are_wrong() {
    let mut frames = vec![];
    for length in [90, 100] {
        for (ipv6, tags) in [(false, 0), (false, 2), (true, 1)] {
            let good = frame(length, ipv6, tags);
            frames.extend((0..4).map(|vlan_tags| FrameToCheck {
                vlan_tags,
                ..good.clone()
            }));
            frames.push(FrameToCheck {
                ipv6: !ipv6,
                ..good.clone()
            });
            // IPv4 with options: another header length.
            let mut options = good.clone();
            options.bytes[mask::ip_offset(tags.into())] = 0x46;
            frames.push(options);
            frames.push(FrameToCheck {
                dropped: true,
                ..good.clone()
            });
            frames.push(FrameToCheck { trimmed: true, ..good });
        }
    }
    for data_width in [64, 512] {
        compare(&Icrc { data_width, ..ALL }, &frames);
    }
}

#[test]
fn blocks_for_fewer_kinds_of_frames_are_right_too() {
    for (ipv4, ipv6, vlan) in [(true, false, false), (false, true, true), (true, true, false)] {
        for data_width in [64, 512] {
            let icrc = Icrc {
                data_width,
                ipv4,
                ipv6,
                vlan,
                sideband: 0,
            };
            let kinds = icrc.frames(Ends::Anywhere).kinds();
            let frames: Vec<FrameToCheck> = (56..140)
                .flat_map(|length| kinds.iter().map(move |(ipv6, tags)| frame(length, *ipv6, *tags as u8)))
                .collect();
            compare(&icrc, &frames);
        }
    }
}
