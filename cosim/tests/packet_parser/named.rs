//! Cases by name: latency, throughput, back-pressure, and inputs that broke other implementations.

use spraynic_config::descriptor::{Descriptor, ReceivedPacket};
use spraynic_cosim::{Bench, Limits, Outcome, Pattern};
use spraynic_golden::frame::Frame;
use spraynic_golden::packet_parser::TrimmedDscp;
use spraynic_golden::received_frames::{frame, mend};
use spraynic_hdl::packet_parser::PacketParser;
use spraynic_wire::Ip;

use super::{OUTPUTS, Run, WIDTHS, blocks, common, everything, simulation};

const SEND_ONLY: u8 = 0x04;
const WRITE_ONLY: u8 = 0x0A;
const WRITE_ONLY_IMMEDIATE: u8 = 0x0B;
const ACKNOWLEDGE: u8 = 0x11;
const MRC_WRITE_ONLY: u8 = 0xCA;

/// A packet of `length` bytes of payload, different in each frame.
fn packet(opcode: u8, ipv6: bool, tags: usize, length: usize) -> Vec<u8> {
    frame(opcode, ipv6, tags, &blocks::bytes(length, length as u64)).emit()
}

/// As a MAC gives it at least: 60 bytes.
fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().max(60), 0xEE);
    bytes
}

fn check(run: &Run, width: u32) -> Outcome {
    run.check(&everything(width))
        .unwrap_or_else(|error| panic!("width {width}: {error}"))
}

fn descriptors(outcome: &Outcome) -> Vec<ReceivedPacket> {
    let received = outcome.received("m_axis_descriptor").iter();
    received.map(|beat| ReceivedPacket::unpack(&beat.data)).collect()
}

fn beats(bytes: &[u8], width: u32) -> u64 {
    bytes.len().div_ceil(width as usize / 8) as u64
}

/// Packets of one beat and of many, alone and behind each other: as long from their last beat in as the block's page says, to the last beat
/// for `icrc` and to the descriptor.
#[test]
fn latencies_are_the_documented_ones() {
    if !common::have_verilator() {
        return;
    }
    for width in WIDTHS {
        let parser = PacketParser::from(&everything(width));
        for (ipv6, tags) in [(false, 0), (false, 2), (true, 0), (true, 1), (true, 2)] {
            for (opcode, length) in [
                (ACKNOWLEDGE, 0),
                (SEND_ONLY, 300),
                (WRITE_ONLY, 1024),
                (MRC_WRITE_ONLY, 1),
            ] {
                let bytes = packet(opcode, ipv6, tags, length);
                let outcome = check(&Run::of([bytes.clone(), bytes]), width);
                for index in 0..2 {
                    let what = format!("width {width}, IPv6 {ipv6}, {tags} tags, opcode {opcode:#x}, packet {index}");
                    let taken = outcome.accepted("s_axis")[index].last_cycle;
                    let given = outcome.received("m_axis_frame")[index].last_cycle;
                    let latency = parser.frame_latency(ipv6, tags as u32);
                    assert_eq!(given - taken, u64::from(latency), "{what}: frame");
                    let told = outcome.received("m_axis_descriptor")[index].last_cycle;
                    assert_eq!(
                        told - taken,
                        u64::from(PacketParser::DESCRIPTOR_LATENCY),
                        "{what}: descriptor"
                    );
                }
            }
        }
    }
}

/// The table of the block's page.
#[test]
fn the_table_of_latencies_is_right() {
    let table = WIDTHS.map(|width| {
        let parser = PacketParser::from(&everything(width));
        [(false, 0), (true, 0), (true, 2)].map(|(ipv6, tags)| parser.frame_latency(ipv6, tags))
    });
    assert_eq!(table, [[9, 12, 13], [6, 7, 8], [4, 5, 5], [3, 4, 4], [3, 3, 3]]);
    assert_eq!(PacketParser::DESCRIPTOR_LATENCY, 4);
}

/// The input takes a beat in every clock, frames of one beat too: a packet a clock where packets have one beat.
#[test]
fn one_beat_a_clock_and_one_packet_a_clock() {
    if !common::have_verilator() {
        return;
    }
    for width in WIDTHS {
        let acknowledges = vec![padded(packet(ACKNOWLEDGE, false, 0, 0)); 200];
        // Of one beat at 512 bits, with payload in it.
        let short_sends: Vec<_> = (0..200).map(|at| padded(packet(SEND_ONLY, false, 0, at % 7))).collect();
        // Payload in as many beats as the frame has, frames of one and more beats in turn.
        let mixed: Vec<_> = (0..200)
            .map(|at| match at % 4 {
                0 => packet(SEND_ONLY, false, 0, 64 + at % 12),
                1 => padded(packet(SEND_ONLY, false, 0, at % 7)),
                2 => packet(WRITE_ONLY_IMMEDIATE, true, at % 3, at),
                _ => packet(MRC_WRITE_ONLY, at % 8 == 3, 1, 3 * at),
            })
            .collect();
        let for_the_host = vec![[0x55; 64].to_vec(); 200];
        for (what, frames) in [
            ("acknowledges", acknowledges),
            ("sends", short_sends),
            ("mixed", mixed),
            ("host", for_the_host),
        ] {
            let count: u64 = frames.iter().map(|bytes| beats(bytes, width)).sum();
            let single = frames.iter().all(|bytes| beats(bytes, width) == 1);
            let outcome = check(&Run::of(frames), width);
            let accepted = outcome.accepted("s_axis");
            let clocks = accepted[accepted.len() - 1].last_cycle - accepted[0].first_cycle + 1;
            assert_eq!(clocks, count, "width {width}, {what}: clocks for the beats taken");
            let told = outcome.beat_cycles("m_axis_descriptor");
            if single && what != "host" {
                assert_eq!(told.len(), 200);
                assert_eq!(told[199] - told[0], 199, "width {width}, {what}: a descriptor a clock");
                for stream in ["m_axis_frame", "m_axis_payload"] {
                    let cycles = outcome.beat_cycles(stream);
                    let spread = cycles.last().unwrap_or(&0) - cycles.first().unwrap_or(&0);
                    assert!(spread <= 199, "width {width}, {what}: {stream} in {spread} clocks");
                }
            }
        }
    }
}

/// Each output alone refuses everything for long: what of the others can leave without it leaves, and nothing is lost.
#[test]
fn an_output_that_waits_does_not_hold_back_the_others_nor_lose_anything() {
    if !common::have_verilator() {
        return;
    }
    const BLOCKED: u32 = 1000;
    for width in [64, 512] {
        let mut frames = vec![];
        for round in 0..20 {
            frames.push(packet(SEND_ONLY, false, 0, 1 + round));
            frames.push([0x55; 70].to_vec());
        }
        for (index, blocked) in OUTPUTS.iter().enumerate() {
            let mut run = Run::of(frames.clone());
            run.stalls[index] = Pattern::After { clocks: BLOCKED };
            let outcome = check(&run, width);
            for name in OUTPUTS.iter().filter(|name| *name != blocked) {
                let early = outcome.received(name).iter();
                let early = early.filter(|frame| frame.last_cycle < u64::from(BLOCKED)).count();
                // The packet whose part is refused has the others given.
                assert!(early >= 1, "width {width}: {name} waits for {blocked}");
            }
        }
    }
}

/// Payload is given before its descriptor is taken, and the descriptor before the payload of the same packet is taken.
#[test]
fn neither_descriptor_nor_payload_waits_for_the_other() {
    if !common::have_verilator() {
        return;
    }
    for width in WIDTHS {
        for (index, blocked) in OUTPUTS.iter().enumerate().take(3) {
            let mut run = Run::of([packet(WRITE_ONLY, false, 0, 8)]);
            run.stalls[index] = Pattern::After { clocks: 200 };
            let outcome = check(&run, width);
            for name in OUTPUTS.iter().take(3).filter(|name| *name != blocked) {
                let given = outcome.received(name)[0].last_cycle;
                assert!(given < 40, "width {width}: {name} waits for {blocked}");
            }
        }
    }
}

/// Short packets back to back while descriptors are not taken: no header is lost while its payload is kept, nor the other way round.
#[test]
fn headers_and_payload_of_short_packets_stay_together_when_descriptors_wait() {
    if !common::have_verilator() {
        return;
    }
    for width in [64, 512, 1024] {
        let frames: Vec<_> = (0..120).map(|at| packet(SEND_ONLY, false, 0, at % 9)).collect();
        for stalls in [
            Pattern::After { clocks: 300 },
            Pattern::Bursts { on: 1, off: 7 },
            Pattern::AfterValid { clocks: 3 },
        ] {
            for output in 0..3 {
                let mut run = Run::of(frames.clone());
                run.stalls[output] = stalls.clone();
                let outcome = check(&run, width);
                let lengths: Vec<_> = descriptors(&outcome)
                    .iter()
                    .map(|packet| packet.payload_length)
                    .collect();
                let payload = outcome.received("m_axis_payload").iter();
                let given: Vec<_> = payload.map(|payload| payload.data.len() as u16).collect();
                let told: Vec<_> = lengths.into_iter().filter(|length| *length != 0).collect();
                assert_eq!(told, given, "width {width}");
            }
        }
    }
}

/// What Ethernet puts behind a short packet, or a long tail that nobody asked for, is in neither payload nor the frame for `icrc`.
#[test]
fn ethernet_padding_is_no_payload() {
    if !common::have_verilator() {
        return;
    }
    for width in WIDTHS {
        let beat = width as usize / 8;
        let mut frames = vec![];
        for length in [0, 1, 2, 3, 4, 5, 63, 64, 65] {
            for tail in [0, 1, 3, beat - 1, beat, beat + 1, 3 * beat, 2000] {
                let mut bytes = packet(SEND_ONLY, length % 2 == 1, 0, length);
                bytes.resize(bytes.len() + tail, 0xEE);
                frames.push(padded(bytes));
            }
        }
        let outcome = check(&Run::of(frames.clone()), width);
        let ends = outcome.received("m_axis_frame").iter();
        assert!(ends.clone().count() == frames.len() && ends.into_iter().all(|frame| frame.data.len() < 160));
        let acknowledge = check(&Run::of([padded(packet(ACKNOWLEDGE, false, 0, 0))]), width);
        assert!(acknowledge.received("m_axis_payload").is_empty());
        assert_eq!(
            acknowledge.received("m_axis_frame")[0].data.len(),
            14 + 20 + 8 + 12 + 4 + 4
        );
    }
}

/// Lengths begin anew with each frame, one beat or not, no idle clock between, bad frames and runts between them.
#[test]
fn frames_right_behind_each_other_are_each_their_own() {
    if !common::have_verilator() {
        return;
    }
    for width in WIDTHS {
        let mut frames = vec![];
        for at in 0..60 {
            let mut one = Frame::plain(match at % 6 {
                0 => padded(packet(ACKNOWLEDGE, false, 0, 0)),
                1 => packet(SEND_ONLY, false, 0, 6),
                2 => vec![0x08; 1 + at % 40],
                3 => packet(WRITE_ONLY, true, 2, 700),
                4 => packet(MRC_WRITE_ONLY, false, 1, at),
                _ => vec![0x33; 64],
            });
            one.bad = at % 7 == 3;
            frames.push(one);
        }
        let outcome = check(&Run::free(frames), width);
        assert_eq!(outcome.counters["frames"], 60);
    }
}

/// Every length modulo the beat, of payload and of frames for the host: as many bytes as came, 78 are not 84.
#[test]
fn last_beats_keep_their_bytes_and_no_more() {
    if !common::have_verilator() {
        return;
    }
    for width in WIDTHS {
        let beat = width as usize / 8;
        let lengths = (1..=beat + 6).chain([78, 84, 250]);
        let mut frames: Vec<_> = lengths
            .clone()
            .map(|length| packet(WRITE_ONLY, false, 0, length))
            .collect();
        frames.extend(lengths.map(|length| blocks::bytes(length + 13, 3)));
        check(&Run::of(frames), width);
    }
}

/// The sum of an IPv4 header that carries twice (0x2FFFD), a checksum of 0, and the same written as 0xFFFF.
#[test]
fn ipv4_checksums_that_carry_twice_or_are_zero() {
    if !common::have_verilator() {
        return;
    }
    let with = |identification: u16, tags: usize| {
        let mut packet = frame(SEND_ONLY, false, tags, &[0; 4]);
        if let Ip::V4(ip) = &mut packet.ip {
            (ip.source, ip.destination) = ([0xFF; 4].into(), [0xFF; 4].into());
            ip.identification = identification;
        }
        packet.emit()
    };
    let zero = (0..=u16::MAX).find(|identification| with(*identification, 0)[24..26] == [0, 0]);
    let zero = zero.expect("an identification whose checksum is 0");
    let mut frames = vec![];
    for tags in 0..=2 {
        let at = 24 + 4 * tags;
        for identification in [zero, zero.wrapping_sub(1), zero.wrapping_add(1), 0, 0xFFFF] {
            let bytes = with(identification, tags);
            for (high, low) in [(0, 0), (0xFF, 0xFF), (0, 1), (0x80, 0)] {
                let mut changed = bytes.clone();
                changed[at] ^= high;
                changed[at + 1] ^= low;
                frames.push(changed);
            }
        }
    }
    for width in WIDTHS {
        let outcome = check(&Run::of(frames.clone()), width);
        // All five as sent, and the zero once more as 0xFFFF, for each number of tags.
        assert_eq!(outcome.counters["packets"], 3 * 6);
        assert_eq!(outcome.counters["drop_ip_checksum"], 3 * 14);
    }
}

/// Pad count and ICRC are not payload at any length modulo 4; the MTU and one byte around it; nothing.
#[test]
fn payload_of_every_length_loses_its_padding_alone() {
    if !common::have_verilator() {
        return;
    }
    let mut frames = vec![];
    let mut lengths = vec![];
    for opcode in [SEND_ONLY, WRITE_ONLY_IMMEDIATE, MRC_WRITE_ONLY] {
        for length in (0..=9).chain([255, 256, 257, 1023, 1024, 1025, 4095, 4096]) {
            frames.push(packet(opcode, length % 2 == 0, length % 3, length));
            lengths.push(length as u16);
        }
        frames.push(packet(opcode, false, 0, 4097));
    }
    for width in WIDTHS {
        let outcome = check(&Run::of(frames.clone()), width);
        let told: Vec<_> = descriptors(&outcome)
            .iter()
            .map(|packet| packet.payload_length)
            .collect();
        assert_eq!(told, lengths, "width {width}");
        assert_eq!(outcome.counters["drop_payload"], 3);
    }
}

/// IP and UDP length count the ICRC: less, or more than the frame has, is dropped under its own reason.
#[test]
fn lengths_must_count_the_icrc_and_agree_with_the_frame() {
    if !common::have_verilator() {
        return;
    }
    let whole = packet(SEND_ONLY, false, 0, 8);
    let changed = |ip: i32, udp: i32| {
        let mut bytes = whole.clone();
        for (at, by) in [(16, ip), (38, udp)] {
            let length = u16::from_be_bytes([bytes[at], bytes[at + 1]]).wrapping_add_signed(by as i16);
            bytes[at..at + 2].copy_from_slice(&length.to_be_bytes());
        }
        mend(&mut bytes);
        bytes
    };
    for width in WIDTHS {
        let count = |ip, udp, name: &str| {
            let outcome = check(&Run::of([changed(ip, udp)]), width);
            assert_eq!(outcome.counters[name], 1, "width {width}: IP {ip}, UDP {udp}");
        };
        count(0, 0, "packets");
        count(0, -4, "drop_udp_length");
        count(-4, 0, "drop_udp_length");
        count(1, 1, "drop_ip_length");
        count(-4, -4, "packets");
        count(-12, -12, "drop_short");
        count(-17, -17, "drop_short");
        count(-33, -33, "drop_ip_length");
        count(-1, -1, "drop_pad");
    }
}

/// Trimmed packets by either DSCP, lengths mended or not, extension headers there or cut, and one that takes no PSN.
#[test]
fn trimmed_packets_keep_their_headers_and_lose_everything_else() {
    if !common::have_verilator() {
        return;
    }
    let trimmed = TrimmedDscp {
        trimmed: 5,
        last_hop: 6,
    };
    let mut frames = vec![];
    for (dscp, ipv6) in [(5, false), (6, false), (5, true), (6, true), (7, false)] {
        for (kept, mended) in [
            (12 + 20, false),
            (12 + 20, true),
            (12 + 8, true),
            (11, true),
            (12 + 60, false),
        ] {
            for opcode in [MRC_WRITE_ONLY, 0xDC] {
                let mut bytes = packet(opcode, ipv6, 0, if opcode == 0xDC { 0 } else { 500 });
                let udp = 14 + if ipv6 { 40 } else { 20 };
                bytes.truncate(udp + 8 + kept);
                let length = (bytes.len() - if ipv6 { 54 } else { 14 }) as u16;
                let at = if ipv6 { 18 } else { 16 };
                if mended {
                    bytes[at..at + 2].copy_from_slice(&length.to_be_bytes());
                }
                if ipv6 {
                    (bytes[14], bytes[15]) = (0x60 | dscp >> 2, dscp << 6);
                } else {
                    bytes[15] = dscp << 2;
                }
                mend(&mut bytes);
                frames.push(padded(bytes));
            }
        }
    }
    for width in WIDTHS {
        let run = Run {
            trimmed,
            ..Run::of(frames.clone())
        };
        let outcome = check(&run, width);
        let told = descriptors(&outcome);
        assert!(outcome.received("m_axis_payload").iter().all(|frame| frame.user == 1));
        for (code, words) in [(1, 5), (2, 5), (1, 0), (2, 0)] {
            let matching = |packet: &&ReceivedPacket| (packet.trimmed, packet.extension_words) == (code, words);
            assert!(
                told.iter().filter(matching).count() >= 2,
                "width {width}: {code}, {words}"
            );
        }
        assert!(outcome.counters["drop_trimmed"] > 0 && outcome.counters["drop_short"] > 0);
    }
}

/// A frame cut at every byte, each cut right behind the one before.
#[test]
fn frames_cut_at_every_byte_are_dropped() {
    if !common::have_verilator() {
        return;
    }
    for width in WIDTHS {
        for (opcode, ipv6, tags) in [(WRITE_ONLY_IMMEDIATE, false, 0), (MRC_WRITE_ONLY, true, 2)] {
            let whole = packet(opcode, ipv6, tags, 40);
            let outcome = check(
                &Run::of((1..=whole.len()).map(|length| whole[..length].to_vec())),
                width,
            );
            assert_eq!(outcome.counters["packets"], 1);
            assert_eq!(outcome.counters["slow_path"], 0);
        }
    }
}

/// A reset in the middle of a packet, with beats, descriptors and counts inside: what comes behind it is as if nothing had been.
#[test]
fn a_reset_leaves_nothing_behind() {
    if !common::have_verilator() {
        return;
    }
    for width in [64, 512] {
        let config = everything(width);
        let mut simulation = simulation(&config);
        let mut before = Run::of((0..40).map(|at| packet(WRITE_ONLY, at % 2 == 0, 0, 100 + at)));
        before.stalls = [const { Pattern::After { clocks: 60 } }; 4];
        let stimulus = before.stimulus();
        let mut bench = Bench::new(&mut simulation, &stimulus, Limits::default()).expect("ports that exist");
        bench.run_clocks(35, &mut ()).unwrap_or_else(|error| panic!("{error}"));
        drop(bench);
        let run = Run::of([
            packet(SEND_ONLY, false, 0, 9),
            vec![0x55; 70],
            packet(ACKNOWLEDGE, false, 0, 0),
        ]);
        let outcome = run.on(&mut simulation).unwrap_or_else(|error| panic!("{error}"));
        run.compare(&config, &outcome)
            .unwrap_or_else(|error| panic!("width {width}: {error}"));
    }
}
