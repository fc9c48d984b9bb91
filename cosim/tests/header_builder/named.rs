//! Throughput, order and borders, case by case.

use spraynic_config::descriptor::{HeaderTemplate, PacketDescriptor};
use spraynic_cosim::{Bench, Limits, Pattern, SinkChecks};

use super::judge::{check, judge};
use super::{Packet, Patterns, QUEUE_PAIRS, Scenario, common, configs, run, simulation, stimulus};

/// A scenario at full speed: every queue pair has an IPv4 template without a tag.
fn full_speed(packets: Vec<Packet>, control: Vec<PacketDescriptor>) -> Scenario {
    let template = |qpn| HeaderTemplate {
        qpn,
        hop_limit: 64,
        source_ip: 0x0A00_0001,
        destination_ip: 0x0A00_0002,
        ..HeaderTemplate::default()
    };
    Scenario {
        templates: (0..QUEUE_PAIRS).map(|qpn| (0, template(qpn))).collect(),
        packets,
        control: control.into_iter().map(|descriptor| (0, descriptor)).collect(),
        identification: 7,
        patterns: Patterns::FULL_SPEED,
    }
}

/// Runs, judges, and gives the clocks from the first to the last beat with the beats.
fn clocks_and_beats(index: usize, scenario: &Scenario) -> (u64, u64) {
    let checks = SinkChecks {
        record_beats: true,
        ..SinkChecks::default()
    };
    let outcome = run(index, scenario, checks);
    judge(index, scenario, &outcome).unwrap();
    let cycles = outcome.beat_cycles("m_axis");
    (cycles[cycles.len() - 1] - cycles[0] + 1, cycles.len() as u64)
}

/// 512 bits carry an IPv4 ACK, 62 bytes, in one beat: one a clock, from either stream.
#[test]
fn single_beat_frames_leave_one_a_clock() {
    if !common::have_verilator() {
        return;
    }
    let of = |extension_words, payload_length| {
        let descriptors = (0..300u32).map(move |psn| PacketDescriptor {
            qpn: psn % QUEUE_PAIRS,
            psn,
            extension_words,
            payload_length,
            ..PacketDescriptor::default()
        });
        descriptors.collect::<Vec<_>>()
    };
    let data = |descriptors: Vec<PacketDescriptor>| descriptors.into_iter().map(Packet::new).collect::<Vec<_>>();
    for (index, scenario) in [
        (2, full_speed(vec![], of(1, 0))),
        (2, full_speed(data(of(1, 0)), vec![])),
        (2, full_speed(data(of(0, 4)), vec![])),
        (4, full_speed(data(of(0, 0)), vec![])),
        (4, full_speed(data(of(0, 4)), vec![])),
    ] {
        assert_eq!(clocks_and_beats(index, &scenario), (300, 300), "configuration {index}");
    }
    let both = full_speed(data(of(0, 4)), of(1, 0));
    // Control packets that come first go past the rotator, those with payload through it: that many clocks between them.
    assert_eq!(clocks_and_beats(2, &both), (600 + ROTATOR_CLOCKS, 600));
}

/// Clocks of a rotator in two steps, which a frame without payload saves where it is empty.
const ROTATOR_CLOCKS: u64 = 2;

/// Packets of every length and header follow each other without a bubble, at every width.
#[test]
fn frames_leave_one_beat_a_clock() {
    if !common::have_verilator() {
        return;
    }
    for (index, config) in configs().iter().enumerate().filter(|(_, config)| config.wire.ipv4) {
        let extensions: Vec<u32> = config.payload_extension_lengths().into_iter().collect();
        let packets = (0..250u32).map(|psn| {
            Packet::new(PacketDescriptor {
                qpn: psn % QUEUE_PAIRS,
                psn,
                extension_words: (extensions[psn as usize % extensions.len()] / 4) as u8,
                payload_length: (psn * psn % 331 + 1) as u16,
                ..PacketDescriptor::default()
            })
        });
        let (clocks, beats) = clocks_and_beats(index, &full_speed(packets.collect(), vec![]));
        assert_eq!(clocks, beats, "configuration {index}");
    }
}

/// Short packets back to back, with payload and without, while the output waits until the queues behind it are full: no header is lost while
/// its payload is kept, nor the other way round.
#[test]
fn headers_and_payload_of_short_packets_stay_together_when_the_output_waits() {
    if !common::have_verilator() {
        return;
    }
    let packets: Vec<_> = (0..150u32)
        .map(|psn| {
            let descriptor = PacketDescriptor {
                qpn: psn % QUEUE_PAIRS,
                psn,
                payload_length: (psn % 9) as u16,
                ..PacketDescriptor::default()
            };
            Packet {
                payload: vec![psn as u8; usize::from(descriptor.payload_length)],
                ..Packet::new(descriptor)
            }
        })
        .collect();
    for output in [
        Pattern::After { clocks: 1000 },
        Pattern::Bursts { on: 1, off: 7 },
        Pattern::AfterValid { clocks: 3 },
    ] {
        for index in [0, 2] {
            let mut scenario = full_speed(packets.clone(), vec![]);
            scenario.patterns.output = output.clone();
            check(index, &scenario).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

/// Nobody has sent the payload of the packet in front yet, so control packets go first; and the packets behind still come.
#[test]
fn control_does_not_wait_for_payload_that_has_not_come() {
    if !common::have_verilator() {
        return;
    }
    let descriptor = |payload_length| PacketDescriptor {
        extension_words: 1,
        payload_length,
        ..PacketDescriptor::default()
    };
    let late = |payload_from| Packet {
        payload_from,
        ..Packet::new(descriptor(100))
    };
    let mut scenario = full_speed((0..6).map(|_| late(900)).collect(), vec![descriptor(0); 20]);
    for (place, (cycle, _)) in scenario.control.iter_mut().enumerate() {
        *cycle = 100 + 20 * place as u64;
    }
    let outcome = run(2, &scenario, SinkChecks::default());
    judge(2, &scenario, &outcome).unwrap();
    let frames = outcome.received("m_axis");
    let accepted = outcome.accepted("s_axis_control");
    for (frame, accepted) in frames.iter().zip(accepted) {
        assert!(frame.last_cycle <= accepted.last_cycle + 6, "{frame:?} {accepted:?}");
    }
    assert_eq!(frames.len(), 26);
}

/// The sum of the IPv4 header carries twice, or gives a checksum of 0.
#[test]
fn checksums_that_carry_twice_and_that_are_zero() {
    if !common::have_verilator() {
        return;
    }
    let header = |frame: &spraynic_cosim::Received| frame.data[14..34].to_vec();
    for index in [0, 2, 4] {
        let packets = vec![Packet::new(PacketDescriptor::default()); 64];
        let mut scenario = full_speed(packets, vec![]);
        for (_, template) in &mut scenario.templates {
            template.traffic_class = 0xFF;
            template.hop_limit = 0xFF;
            template.source_ip = 0xFFFF_FFFF;
            template.destination_ip = 0xFFFF_FFFF;
        }
        // The sum of all but the identification: 45FF + 002C + 4000 + FF11 + 4 times FFFF.
        let rest: u32 = 0x45FF + 0x2C + 0x4000 + 0xFF11 + 4 * 0xFFFF;
        let zero_at = 0xFFFF - (rest % 0xFFFF);
        scenario.identification = (zero_at as u16).wrapping_sub(30);
        let outcome = run(index, &scenario, SinkChecks::default());
        judge(index, &scenario, &outcome).unwrap();
        let (mut twice, mut zero) = (0, 0);
        for header in outcome.received("m_axis").iter().map(header) {
            let words = header
                .chunks(2)
                .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
            let sum: u32 = words
                .enumerate()
                .filter(|(word, _)| *word != 5)
                .map(|(_, word)| word)
                .sum();
            twice += u32::from((sum & 0xFFFF) + (sum >> 16) > 0xFFFF);
            zero += u32::from(header[10..12] == [0, 0]);
        }
        assert!(twice > 0 && zero > 0, "{twice} double carries, {zero} zero checksums");
    }
}

/// A template is taken within 7 clocks, whatever else stands still.
#[test]
fn templates_are_taken_while_frames_wait() {
    if !common::have_verilator() {
        return;
    }
    let descriptor = PacketDescriptor {
        payload_length: 1000,
        ..PacketDescriptor::default()
    };
    let mut scenario = full_speed(vec![Packet::new(descriptor); 4], vec![]);
    let first = scenario.templates.clone();
    scenario
        .templates
        .extend(first.iter().map(|(_, template)| (100, *template)));
    scenario.patterns.output = Pattern::After { clocks: 1000 };
    let outcome = run(2, &scenario, SinkChecks::default());
    judge(2, &scenario, &outcome).unwrap();
    let accepted = outcome.accepted("s_axis_template");
    assert!(
        accepted.last().unwrap().last_cycle < 100 + 7 * u64::from(QUEUE_PAIRS),
        "{accepted:?}"
    );
}

/// A reset in the middle of frames, discarded payload and template writes leaves nothing behind.
#[test]
fn a_reset_leaves_nothing_behind() {
    if !common::have_verilator() {
        return;
    }
    let words = |psn: u32| (psn % 2 * 4) as u8;
    let packets = (0..60u32).map(|psn| Packet {
        payload: vec![psn as u8; 40 + 7 * psn as usize],
        ..Packet::new(PacketDescriptor {
            qpn: psn % QUEUE_PAIRS,
            psn,
            extension_words: words(psn),
            payload_length: 200,
            ..PacketDescriptor::default()
        })
    });
    let scenario = full_speed(packets.collect(), vec![]);
    for index in [2, 4] {
        let mut simulation = simulation(index);
        for clocks in [3, 20, 61, 70, 75, 90, 100, 113, 150, 201] {
            let stimulus = stimulus(index, &scenario, SinkChecks::default());
            let mut bench = Bench::new(&mut simulation, &stimulus, Limits::default()).unwrap();
            bench.run_clocks(clocks, &mut ()).unwrap();
            let outcome = spraynic_cosim::run(&mut simulation, &stimulus, Limits::default()).unwrap();
            judge(index, &scenario, &outcome).unwrap();
        }
    }
}
