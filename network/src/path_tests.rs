//! Paths one by one.

use super::*;
use proptest::prelude::*;
use spraynic_wire::{Bth, Ethernet, Ip, Ipv4, Ipv6, Opcode, Packet};

fn frame(ip: Ip) -> Vec<u8> {
    let bth = Bth {
        opcode: Opcode::SEND_ONLY,
        ..Bth::default()
    };
    Packet::new(Ethernet::default(), ip, 0xC000, bth, vec![])
        .with_payload(vec![7; 100])
        .emit()
}

fn capable(ecn: u8) -> [Vec<u8>; 2] {
    let v4 = Ipv4 {
        tos: ecn,
        ..Ipv4::default()
    };
    let v6 = Ipv6 {
        traffic_class: ecn,
        ..Ipv6::default()
    };
    [frame(Ip::V4(v4)), frame(Ip::V6(v6))]
}

#[test]
fn congestion_marks_capable_frames_alone_and_leaves_them_valid() {
    for ecn in [1, 2] {
        for mut bytes in capable(ecn) {
            assert!(mark_congestion(&mut bytes));
            let packet = Packet::parse(&bytes, None).unwrap();
            let field = match packet.ip {
                Ip::V4(header) => header.tos,
                Ip::V6(header) => header.traffic_class,
            };
            assert_eq!(field & 3, 3);
            assert!(spraynic_wire::icrc::verify(&bytes).unwrap().is_valid());
            if let Ip::V4(_) = packet.ip {
                let mut header = [0; 20];
                header.copy_from_slice(&bytes[14..34]);
                let checksum = spraynic_wire::network::ipv4_checksum(&header);
                assert_eq!(checksum.to_be_bytes(), header[10..12]);
            }
        }
    }
    for mut bytes in capable(0) {
        let before = bytes.clone();
        assert!(!mark_congestion(&mut bytes));
        assert_eq!(bytes, before);
    }
    for length in 0..60 {
        mark_congestion(&mut vec![0x81; length]);
    }
}

#[test]
fn a_frame_takes_its_time_on_the_wire_and_the_delay() {
    let mut path = Path::new(
        PathSpec {
            delay_ns: 500,
            mbps: 100_000,
            ..PathSpec::default()
        },
        1,
    );
    // 1,000 bytes and 24 more at 100 Gb/s: 81.92 ns.
    assert_eq!(path.send(vec![0; 1000], Picoseconds(0)).at, Picoseconds(581_920));
    assert_eq!(path.send(vec![0; 1000], Picoseconds(0)).at, Picoseconds(663_840));
    assert_eq!(path.queued_bytes(Picoseconds(0)), 2048);
    assert_eq!(
        path.send(vec![0; 1000], Picoseconds::of_ns(10_000)).at,
        Picoseconds(10_581_920)
    );
}

#[test]
fn the_queue_overflows_and_marks_at_its_thresholds() {
    let mut path = Path::new(
        PathSpec {
            mbps: 1_000,
            queue_bytes: 5_000,
            ecn_bytes: 2_000,
            ..PathSpec::default()
        },
        1,
    );
    let sent: Vec<bool> = (0..8)
        .map(|_| path.send(vec![0; 1000], Picoseconds(0)).frame.is_some())
        .collect();
    // 1,024 bytes each: at 0, 1024, 2048, 3072 there is room for 1,000 more.
    assert_eq!(sent, [true, true, true, true, false, false, false, false]);
    assert_eq!(path.counters().overflowed, 4);
    let [capable, _] = capable(2);
    let delivery = Path::send(&mut path, capable, Picoseconds::of_ns(12_000));
    assert!(delivery.frame.is_some());
    assert_eq!(path.counters().marked, 1);
}

#[test]
fn a_dead_path_delivers_nothing_until_it_lives_again() {
    let mut path = Path::new(PathSpec::default(), 1);
    path.set_alive(false);
    assert_eq!(path.send(vec![0; 60], Picoseconds(0)), Delivery::default());
    path.set_alive(true);
    assert!(path.send(vec![0; 60], Picoseconds(0)).frame.is_some());
    assert_eq!((path.counters().dead, path.counters().delivered), (1, 1));
}

#[test]
fn single_frames_meet_their_faults() {
    let fault = |frame, kind| Fault { frame, kind };
    let mut path = Path::new(
        PathSpec {
            faults: vec![
                fault(0, FaultKind::Lose),
                fault(1, FaultKind::Corrupt { byte: 61, bit: 9 }),
                fault(2, FaultKind::Repeat),
                fault(3, FaultKind::Hold(100)),
            ],
            ..PathSpec::default()
        },
        1,
    );
    let mut send = || path.send(vec![0; 60], Picoseconds(0));
    assert_eq!(send().frame, None);
    let mut damaged = vec![0; 60];
    damaged[1] = 2;
    assert_eq!(send().frame, Some(damaged));
    assert_eq!(send().again, Some(vec![0; 60]));
    assert_eq!(send().at, Picoseconds::of_ns(1_100));
    assert_eq!(send().at, Picoseconds::of_ns(1_100));
}

proptest! {
    /// Arrivals keep the order of sending, every frame is accounted for, and the shares are those asked for.
    #[test]
    fn order_is_kept_and_every_frame_is_counted(
        seed: u64,
        loss_ppm in 0u32..500_000,
        gaps in proptest::collection::vec(0u64..3000, 1..400),
        mbps in prop_oneof![Just(0u64), 1_000u64..400_000],
    ) {
        let spec = PathSpec { mbps, loss_ppm, corruption_ppm: 100_000, duplication_ppm: 100_000, queue_bytes: 20_000, ..PathSpec::default() };
        let mut path = Path::new(spec, seed);
        let (mut now, mut last, mut came) = (Picoseconds(0), Picoseconds(0), 0);
        for gap in &gaps {
            now = now + Picoseconds::of_ns(*gap);
            let delivery = path.send(vec![0; 200], now);
            if delivery.frame.is_some() {
                prop_assert!(delivery.at >= last && delivery.at >= now + Picoseconds::of_ns(1000));
                last = delivery.at;
                came += 1 + u64::from(delivery.again.is_some());
            }
        }
        let counters = *path.counters();
        prop_assert_eq!(counters.delivered, came);
        prop_assert_eq!(counters.offered, gaps.len() as u64);
        prop_assert_eq!(counters.offered, counters.delivered - counters.repeated + counters.lost + counters.overflowed);
    }
}

#[test]
fn shares_are_those_asked_for() {
    let spec = PathSpec {
        loss_ppm: 10_000,
        corruption_ppm: 20_000,
        duplication_ppm: 30_000,
        ..PathSpec::default()
    };
    let mut path = Path::new(spec, 42);
    for _ in 0..100_000 {
        path.send(vec![0; 60], Picoseconds(0));
    }
    let counters = path.counters();
    // Three standard deviations of a binomial distribution.
    assert!(counters.lost.abs_diff(1_000) < 95, "{counters:?}");
    assert!(counters.damaged.abs_diff(1_980) < 135, "{counters:?}");
    assert!(counters.repeated.abs_diff(2_970) < 165, "{counters:?}");
}
