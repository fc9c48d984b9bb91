//! The block in the evaluator against the software ICRC: every width, kind of frame and end of a frame.

use super::*;
use spraynic_rtl::{Bits, Evaluator};

/// A small generator of numbers (xorshift): the same sequence in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

struct Frame {
    bytes: Vec<u8>,
    user: u64,
}

/// A frame whose IP header fits its sideband; all other bytes are arbitrary, those of the ICRC zero.
fn frame(numbers: &mut Numbers, ipv6: bool, vlan: bool, words: usize) -> Frame {
    let ip = mask::ip_offset(u32::from(vlan));
    let headers = if ipv6 { 40 } else { 20 } + 8 + 12;
    let mut bytes: Vec<u8> = (0..ip + headers + 4 * words).map(|_| numbers.next() as u8).collect();
    bytes[ip] = if ipv6 { 0x60 | bytes[ip] & 0xF } else { 0x45 };
    bytes.extend([0; 4]);
    Frame {
        bytes,
        user: u64::from(ipv6) << 1 | u64::from(vlan) << 2,
    }
}

/// The frame with its ICRC by the software that the captures are checked with.
fn expected(frame: &Frame) -> Vec<u8> {
    let mut bytes = frame.bytes.clone();
    let (ip, end) = (mask::ip_offset((frame.user >> 2 & 1) as u32), bytes.len() - 4);
    let icrc = spraynic_wire::icrc::of_ip_packet(&bytes[ip..end]).expect("a frame with headers");
    bytes[end..].copy_from_slice(&icrc.to_le_bytes());
    bytes
}

struct Given {
    bytes: Vec<u8>,
    bad: bool,
    /// Edges that gave the beats.
    cycles: Vec<u64>,
}

/// Runs the frames through; a beat is offered or taken with `percent` probability each. Also gives the edges that took beats.
fn run(block: Definition<'_>, width: u32, frames: &[Frame], percent: u64) -> (Vec<Given>, Vec<u64>) {
    let bytes = width as usize / 8;
    let beats = frames.iter().flat_map(|frame| {
        let chunks = frame.bytes.chunks(bytes);
        let last = chunks.len() - 1;
        chunks
            .enumerate()
            .map(move |(at, chunk)| (chunk, at == last, if at == last { frame.user } else { frame.user & 6 }))
    });
    let beats: Vec<_> = beats.collect();
    let mut numbers = Numbers(0x1234_5678_9abc_def1);
    let mut run = Evaluator::new(block);
    run.reset();
    let (mut given, mut taken) = (vec![], vec![]);
    let (mut open, mut cycles) = (vec![], vec![]);
    let (mut at, mut offered) = (0, false);
    while given.len() < frames.len() {
        offered = at < beats.len() && (offered || numbers.next() % 100 < percent);
        let (chunk, last, user) = beats.get(at).copied().unwrap_or((&[], false, 0));
        // Noise behind the end of a frame.
        let mut data: Vec<u8> = (0..bytes).map(|_| numbers.next() as u8).collect();
        data[..chunk.len()].copy_from_slice(chunk);
        run.set("s_axis_tdata", Bits::from_bytes(width, &data));
        let keep = (u128::MAX >> (128 - chunk.len().max(1))) * u128::from(offered);
        run.set(
            "s_axis_tkeep",
            Bits::from_words(width / 8, &[keep as u64, (keep >> 64) as u64]),
        );
        run.set("s_axis_tlast", u64::from(last));
        run.set("s_axis_tuser", user);
        run.set("s_axis_tvalid", u64::from(offered));
        run.set("m_axis_tready", u64::from(numbers.next() % 100 < percent));
        if offered && run.get_u64("s_axis_tready") == 1 {
            taken.push(run.cycle());
            at += 1;
            offered = false;
        }
        if run.get_u64("m_axis_tvalid") == 1 && run.get_u64("m_axis_tready") == 1 {
            let keep = run.get("m_axis_tkeep");
            let count = (0..keep.width()).take_while(|bit| keep.bit(*bit)).count();
            open.extend(run.get("m_axis_tdata").to_bytes().into_iter().take(count));
            cycles.push(run.cycle());
            if run.get_u64("m_axis_tlast") == 1 {
                given.push(Given {
                    bytes: std::mem::take(&mut open),
                    bad: run.get_u64("m_axis_tuser") == 1,
                    cycles: std::mem::take(&mut cycles),
                });
            } else {
                assert_eq!(count, bytes, "tkeep is full unless tlast");
            }
        }
        run.clock();
        assert!(run.cycle() < 100_000, "{} frames of {} came", given.len(), frames.len());
    }
    assert_eq!(run.get_u64("count_frames"), given.len() as u64);
    (given, taken)
}

const ALL: Icrc = Icrc {
    data_width: 512,
    ipv4: true,
    ipv6: true,
    vlan: true,
    sideband: 0,
};

/// Every end of a frame in a beat, for every kind of frame, in random order.
fn every_end(icrc: &Icrc) -> Vec<Frame> {
    let mut numbers = Numbers(u64::from(icrc.data_width));
    let words = icrc.data_width as usize / 32;
    let kinds = icrc.frames(Ends::WholeWords).kinds();
    let mut frames: Vec<Frame> = (0..words + 2)
        .flat_map(|words| kinds.iter().map(move |(ipv6, tags)| (*ipv6, *tags == 1, words)))
        .map(|(ipv6, vlan, words)| frame(&mut numbers, ipv6, vlan, words))
        .collect();
    for at in (1..frames.len()).rev() {
        frames.swap(at, numbers.next() as usize % (at + 1));
    }
    frames
}

fn check(icrc: &Icrc, percent: u64) {
    let context = Context::new();
    let frames = every_end(icrc);
    let block = super::icrc(&context, icrc).expect("a block that exists");
    let (given, _) = run(block, icrc.data_width, &frames, percent);
    for (at, (frame, given)) in frames.iter().zip(given).enumerate() {
        let kind = (icrc.data_width, frame.user, frame.bytes.len());
        assert_eq!(
            given.bytes,
            expected(frame),
            "frame {at}: (width, user, length) {kind:?}"
        );
        assert!(!given.bad);
    }
}

#[test]
fn every_width_kind_and_end_has_its_icrc() {
    for data_width in [64, 128, 256, 512, 1024] {
        check(&Icrc { data_width, ..ALL }, 100);
        check(&Icrc { data_width, ..ALL }, 60);
    }
}

#[test]
fn blocks_for_fewer_kinds_of_frames_are_right_too() {
    for (ipv4, ipv6, vlan) in [
        (true, false, false),
        (false, true, false),
        (false, true, true),
        (true, true, false),
    ] {
        for data_width in [64, 512] {
            check(
                &Icrc {
                    data_width,
                    ipv4,
                    ipv6,
                    vlan,
                    sideband: 0,
                },
                80,
            );
        }
    }
}

#[test]
fn one_beat_a_clock_and_the_latency_it_states() {
    for data_width in [64, 128, 256, 512, 1024] {
        let icrc = Icrc { data_width, ..ALL };
        // A frame is split where 2 bytes are in its last beat. The first one that is makes those behind it as late.
        let is_split = |frame: &Frame| frame.bytes.len() % (data_width as usize / 8) == 2;
        let (split, others): (Vec<Frame>, Vec<Frame>) = every_end(&icrc).into_iter().partition(is_split);
        assert!(!split.is_empty());
        for (frames, least, most) in [
            (others, icrc.latency(), icrc.latency()),
            (split, icrc.split_latency(), icrc.split_latency()),
            (every_end(&icrc), icrc.latency(), icrc.split_latency()),
        ] {
            let context = Context::new();
            let block = super::icrc(&context, &icrc).expect("a block that exists");
            let (given, taken) = run(block, data_width, &frames, 100);
            let beats = given.iter().map(|given| given.cycles.len()).sum::<usize>();
            let start = taken[0];
            assert_eq!(
                taken,
                (start..start + beats as u64).collect::<Vec<_>>(),
                "no bubble at the input"
            );
            let mut at = 0;
            for given in given {
                at += given.cycles.len();
                let clocks = given.cycles[given.cycles.len() - 1] - taken[at - 1];
                let stated = u64::from(least)..=u64::from(most);
                assert!(
                    stated.contains(&clocks),
                    "beat {at} at width {data_width}: {clocks} clocks"
                );
            }
        }
    }
}

#[test]
fn bad_frames_of_any_length_pass_and_disturb_no_other() {
    for data_width in [64, 512] {
        let icrc = Icrc { data_width, ..ALL };
        let mut numbers = Numbers(7);
        let mut frames = vec![];
        for length in 1..150 {
            let bytes = (0..length).map(|_| numbers.next() as u8).collect();
            let user = 1 | numbers.next() & 6;
            frames.push(Frame { bytes, user });
            frames.push(frame(&mut numbers, length % 2 == 0, length % 3 == 0, length % 7));
        }
        let context = Context::new();
        let block = super::icrc(&context, &icrc).expect("a block that exists");
        let (given, _) = run(block, data_width, &frames, 70);
        for (frame, given) in frames.iter().zip(given) {
            assert_eq!(given.bad, frame.user & 1 == 1);
            if given.bad {
                let beats = |length: usize| length.div_ceil(data_width as usize / 8);
                assert_eq!(beats(given.bytes.len()), beats(frame.bytes.len()));
            } else {
                assert_eq!(given.bytes, expected(frame));
            }
        }
    }
}

#[test]
fn what_does_not_exist_is_refused() {
    let context = Context::new();
    let error = super::icrc(&context, &Icrc { data_width: 96, ..ALL }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "icrc: data width 96 bits, should be 64, 128, 256, 512 or 1024"
    );
    let none = Icrc {
        ipv4: false,
        ipv6: false,
        ..ALL
    };
    assert_eq!(super::icrc(&context, &none).unwrap_err(), IcrcError::NoIp);
}
