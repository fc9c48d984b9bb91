//! What `path_monitor` says of paths that lose, that are marked, that come back.

use std::collections::BTreeMap;

use proptest::prelude::*;
use spraynic_config::descriptor::{PathEntry, PathEvent, PathEventKind as Kind, PathState as State, PathUpdate};

use super::*;

const CONFIG: Config = Config {
    sets: 2,
    entries: 16,
    ports: 2,
};

fn entry(set: u16, path: u8, backup: bool) -> PathEntry {
    PathEntry {
        set,
        path,
        valid: true,
        backup,
        port: path % 2,
        entropy: u32::from(set) << 16 | u32::from(path),
        ..PathEntry::default()
    }
}

fn event(path: u8, kind: Kind) -> PathEvent {
    PathEvent {
        set: 1,
        kind: kind as u8,
        path,
        qpn: 77,
    }
}

/// Set 1: paths 0 to 7, and backups 8 to 11.
fn monitor(settings: Settings) -> PathMonitor {
    let mut monitor = PathMonitor::new(CONFIG, settings);
    for path in 0..12 {
        let updates = monitor.write_entry(&entry(1, path, path >= 8));
        let state = if path >= 8 { State::Backup } else { State::Good };
        assert_eq!(states(&updates), [(path, state)]);
    }
    monitor
}

fn states(updates: &Updates) -> Vec<(u8, State)> {
    let state = |update: &PathUpdate| State::from_code(update.state).unwrap();
    updates
        .as_slice()
        .iter()
        .map(|update| (update.path, state(update)))
        .collect()
}

const MRC: Settings = Settings {
    bad_after: 2,
    delivered_clears: false,
    probe_interval_ns: 1000,
};

#[test]
fn two_losses_without_a_delivery_retire_a_path_and_a_backup_of_its_plane_takes_over() {
    let mut monitor = monitor(Settings::default());
    assert!(monitor.event(&event(3, Kind::Lost)).as_slice().is_empty());
    assert!(monitor.event(&event(3, Kind::Sent)).as_slice().is_empty());
    let updates = monitor.event(&event(3, Kind::Lost));
    assert_eq!(states(&updates), [(3, State::AssumedBad), (9, State::Good)]);
    assert_eq!(updates.as_slice()[1].entropy, 1 << 16 | 9);
    assert_eq!(
        (monitor.state(1, 3), monitor.state(1, 9)),
        (State::AssumedBad, State::Good)
    );
    // Nothing but an answered probe brings it back, and then the backup goes.
    for kind in [
        Kind::Acknowledged,
        Kind::Delivered,
        Kind::Sent,
        Kind::Lost,
        Kind::Marked,
        Kind::SkipAlways,
    ] {
        assert!(monitor.event(&event(3, kind)).as_slice().is_empty(), "{kind:?}");
    }
    let updates = monitor.event(&event(3, Kind::ProbeAnswered));
    assert_eq!(states(&updates), [(3, State::Good), (9, State::Backup)]);
    assert_eq!(monitor.counters().bad_by_loss, 1);
    assert_eq!(monitor.counters().recovered, 1);
}

#[test]
fn what_arrives_between_two_losses_shows_that_the_path_lives() {
    for kind in [
        Kind::Delivered,
        Kind::Acknowledged,
        Kind::Marked,
        Kind::Trimmed,
        Kind::TrimmedLastHop,
    ] {
        let mut lenient = monitor(Settings::default());
        let mut strict = monitor(MRC);
        for monitor in [&mut lenient, &mut strict] {
            monitor.event(&event(0, Kind::Lost));
            monitor.event(&event(0, kind));
            monitor.event(&event(0, Kind::Lost));
        }
        assert_eq!(lenient.state(1, 0), State::Good, "{kind:?}");
        assert_eq!(strict.state(1, 0), State::AssumedBad, "{kind:?}");
    }
}

#[test]
fn a_loss_is_forgotten_after_sixty_four_reports() {
    for (sent, state) in [(62, State::AssumedBad), (63, State::Good)] {
        let mut monitor = monitor(MRC);
        monitor.event(&event(0, Kind::Lost));
        (0..sent).for_each(|_| {
            monitor.event(&event(0, Kind::Sent));
        });
        monitor.event(&event(0, Kind::Lost));
        assert_eq!(monitor.state(1, 0), state, "{sent} packets between");
    }
}

#[test]
fn one_loss_is_enough_where_the_host_says_so_and_the_peer_may_say_it_too() {
    for bad_after in [0, 1] {
        let mut monitor = monitor(Settings { bad_after, ..MRC });
        monitor.event(&event(5, Kind::Lost));
        assert_eq!(monitor.state(1, 5), State::AssumedBad);
    }
    let mut monitor = monitor(Settings { bad_after: 64, ..MRC });
    (0..63).for_each(|_| {
        monitor.event(&event(5, Kind::Lost));
    });
    assert_eq!(monitor.state(1, 5), State::Good);
    monitor.event(&event(5, Kind::Lost));
    assert_eq!(monitor.state(1, 5), State::AssumedBad);
    monitor.event(&event(6, Kind::SkipAlways));
    assert_eq!(monitor.state(1, 6), State::AssumedBad);
    assert_eq!((monitor.counters().bad_by_loss, monitor.counters().bad_by_peer), (1, 1));
}

#[test]
fn congestion_leaves_a_path_out_once_and_a_trim_at_the_last_hop_does_not() {
    let mut monitor = monitor(Settings::default());
    assert_eq!(states(&monitor.event(&event(4, Kind::Marked))), [(4, State::Skip)]);
    assert_eq!(states(&monitor.event(&event(4, Kind::Trimmed))), [(4, State::Skip)]);
    assert!(monitor.event(&event(4, Kind::TrimmedLastHop)).as_slice().is_empty());
    assert_eq!(monitor.state(1, 4), State::Good);
    assert_eq!(monitor.counters().skipped, 2);
}

#[test]
fn the_administrator_denies_a_path_and_no_probe_brings_it_back() {
    let mut monitor = monitor(Settings::default());
    let denied = PathEntry {
        denied: true,
        ..entry(1, 2, false)
    };
    let updates = monitor.write_entry(&denied);
    assert_eq!(
        states(&updates),
        [(2, State::Absent), (2, State::Denied), (8, State::Good)]
    );
    assert!(monitor.event(&event(2, Kind::ProbeAnswered)).as_slice().is_empty());
    assert_eq!(monitor.probe(0), None);
    let updates = monitor.write_entry(&entry(1, 2, false));
    assert_eq!(
        states(&updates),
        [(2, State::Absent), (8, State::Backup), (2, State::Good)]
    );
}

#[test]
fn bad_paths_are_probed_once_a_round_by_who_sent_last() {
    let mut monitor = monitor(MRC);
    assert_eq!((monitor.probe(0), monitor.next_probe_ns()), (None, None));
    for path in [5, 2] {
        monitor.event(&event(path, Kind::SkipAlways));
    }
    monitor.event(&PathEvent {
        qpn: 1234,
        ..event(0, Kind::Sent)
    });
    assert_eq!(monitor.probe(999), None);
    for round in [1000, 2001, 3001] {
        let probed: Vec<_> = std::iter::from_fn(|| monitor.probe(round)).collect();
        assert_eq!(probed.iter().map(|probe| probe.path).collect::<Vec<_>>(), [5, 2]);
        assert!(
            probed
                .iter()
                .all(|probe| probe.qpn == 1234 && probe.port == probe.path % 2)
        );
    }
    monitor.event(&event(5, Kind::ProbeAnswered));
    assert_eq!(monitor.probe(4001).map(|probe| probe.path), Some(2));
    assert_eq!(monitor.probe(4001), None);
    // Bad again: it stands in the ring once more, behind the other.
    monitor.event(&event(5, Kind::SkipAlways));
    let probed: Vec<_> = std::iter::from_fn(|| monitor.probe(6000))
        .map(|probe| probe.path)
        .collect();
    assert_eq!(probed, [2, 5]);
    assert_eq!(monitor.counters().probes, 9);
}

#[test]
fn entries_and_events_of_no_path_change_nothing() {
    let mut monitor = monitor(Settings::default());
    for wrong in [
        entry(2, 0, false),
        entry(1, 16, false),
        PathEntry {
            port: 1,
            ..entry(1, 0, false)
        },
    ] {
        assert!(monitor.write_entry(&wrong).as_slice().is_empty());
    }
    assert_eq!(monitor.counters().drop_entry, 3);
    for wrong in [
        event(12, Kind::Lost),
        event(16, Kind::Lost),
        PathEvent {
            set: 2,
            ..event(0, Kind::Lost)
        },
        PathEvent {
            kind: 9,
            ..event(0, Kind::Lost)
        },
    ] {
        assert!(monitor.event(&wrong).as_slice().is_empty());
    }
    assert_eq!(monitor.counters().drop_event, 4);
}

/// The share of packets after which a path that lives is retired, at 1 % random loss, by the rule and in the documentation.
#[test]
fn random_loss_of_one_percent_retires_paths_as_seldom_as_the_rule_implies() {
    let mut retired = BTreeMap::new();
    for clears in [true, false] {
        let mut monitor = monitor(Settings {
            delivered_clears: clears,
            ..MRC
        });
        let mut random = 1u32;
        for packet in 0..100_000u32 {
            random = crate::spray_scheduler::next_random(random);
            let path = (packet % 8) as u8;
            let fate = if random.is_multiple_of(100) {
                Kind::Lost
            } else {
                Kind::Delivered
            };
            monitor.event(&event(path, Kind::Sent));
            monitor.event(&event(path, fate));
            if packet % 100 == 0 {
                (0..8).for_each(|path| {
                    monitor.event(&event(path, Kind::ProbeAnswered));
                });
            }
        }
        retired.insert(clears, monitor.counters().bad_by_loss);
    }
    // With nothing delivered between them: 1e-4 a packet, 10. Two among 64 packets, MRC's rule: 0.47e-2 a packet, less the time that paths are out, and the losses that a new history begins without.
    assert!((2..25).contains(&retired[&true]), "{retired:?}");
    assert!((150..400).contains(&retired[&false]), "{retired:?}");
}

#[derive(Debug, Clone)]
enum Step {
    Entry(PathEntry),
    Event(PathEvent),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let entry = (0u16..2, 0u8..16, any::<[bool; 3]>()).prop_map(|(set, path, [valid, backup, denied])| {
        Step::Entry(PathEntry {
            valid,
            denied: denied && backup,
            ..entry(set, path, backup)
        })
    });
    let event = (0u16..2, 0u8..9, 0u8..16).prop_map(|(set, kind, path)| {
        Step::Event(PathEvent {
            set,
            kind,
            path,
            qpn: 3,
        })
    });
    prop::collection::vec(prop_oneof![1 => entry, 4 => event], 0..400)
}

proptest! {
    /// Whatever happens, a plane has as many backups in use as paths that are out, if there are so many; and whoever follows the updates knows the state of every path.
    #[test]
    fn backups_in_use_are_as_many_as_paths_out(steps in steps()) {
        let mut monitor = PathMonitor::new(CONFIG, Settings::default());
        let mut told = BTreeMap::new();
        for step in steps {
            let updates = match step {
                Step::Entry(entry) => monitor.write_entry(&entry),
                Step::Event(event) => monitor.event(&event),
            };
            for update in updates.into_iter().filter(|update| update.state != State::Skip as u8) {
                told.insert((usize::from(update.set), usize::from(update.path)), update.state);
            }
            for set in 0..2 {
                for plane in 0..2 {
                    let paths = (0..8).map(|bit| 2 * bit + plane);
                    let (mut out, mut in_use, mut usable) = (0, 0, 0);
                    for place in paths {
                        let path = monitor.paths[16 * set + place];
                        let state = monitor.state(set, place);
                        prop_assert_eq!(told.get(&(set, place)).copied().unwrap_or(0), state as u8);
                        if path.valid && !path.backup {
                            out += u32::from(state != State::Good);
                        } else if path.valid {
                            in_use += u32::from(state == State::Good);
                            usable += u32::from(matches!(state, State::Good | State::Backup));
                        }
                    }
                    prop_assert_eq!(in_use, out.min(usable));
                }
            }
        }
    }
}
