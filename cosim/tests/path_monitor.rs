//! path_monitor: golden model and RTL tell the same changes of the same events, and bad paths are probed in rounds.

#[path = "common/blocks.rs"]
mod blocks;
mod common;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use spraynic_config::descriptor::{Descriptor, PathEntry, PathEvent, PathEventKind as Kind, PathState, PathUpdate};
use spraynic_config::{NicConfig, Preset};
use spraynic_cosim::{Frame, Limits, Outcome, Pattern, Simulation, SinkChecks, SinkStimulus, Stimulus};
use spraynic_golden::path_monitor::{Config, PathMonitor, Settings};
use spraynic_rtl::Context;

/// Ports, sets and places under test: one port; planes of one group; more planes than ports, of one set.
const SIZES: [(u32, u32, u32); 3] = [(1, 4, 32), (2, 2, 16), (5, 1, 256)];

/// No round of probes but the first, which finds nothing.
const NEVER: u32 = u32::MAX;

fn config((ports, sets, entries): (u32, u32, u32)) -> NicConfig {
    let mut config = NicConfig::preset(Preset::G100);
    config.paths.ports = ports;
    config.paths.sets = sets;
    config.paths.entries = entries;
    config
}

fn simulation(size: (u32, u32, u32)) -> Simulation {
    let context = Context::new();
    let definition = spraynic_hdl::path_monitor::path_monitor(&context, &config(size));
    blocks::simulation(&context, definition)
}

/// What goes in.
#[derive(Debug, Clone)]
struct Given {
    settings: Settings,
    entries: Vec<PathEntry>,
    events: Vec<PathEvent>,
}

/// Gaps of entries and events, stalls of updates and probes.
type Patterns = [Pattern; 4];

fn run(model: &mut Simulation, given: &Given, patterns: &Patterns, limits: Limits) -> Result<Outcome, TestCaseError> {
    let [entries, events, updates, probes] = patterns.clone();
    let settings = given.settings;
    let stimulus = Stimulus::default()
        .source(
            "s_axis_entry",
            entries,
            given.entries.iter().map(|one| Frame::new(one.pack())),
        )
        .source(
            "s_axis_event",
            events,
            given.events.iter().map(|one| Frame::new(one.pack())),
        )
        .sink("m_axis_path", updates, SinkChecks::default())
        .sink("m_axis_probe", probes, SinkChecks::default())
        .input("bad_after", u64::from(settings.bad_after))
        .input("delivered_clears", u64::from(settings.delivered_clears))
        .input("probe_interval_ns", u64::from(settings.probe_interval_ns))
        .input_at("time_ns", 0, 0, 1);
    Ok(spraynic_cosim::run(model, &stimulus, limits)?)
}

/// Whether a path is bad, from each cycle on in which that changes.
type BadSince = BTreeMap<(u16, u8), Vec<(u64, bool)>>;

/// The golden model, told of entries and events in the order in which the RTL accepted them.
fn follow(size: (u32, u32, u32), given: &Given, outcome: &Outcome) -> (PathMonitor, Vec<PathUpdate>, BadSince) {
    let accepted = |stream: &str, is_entry: bool| {
        let timings = outcome.accepted(stream).iter().enumerate();
        timings
            .map(move |(index, timing)| (timing.last_cycle, is_entry, index))
            .collect::<Vec<_>>()
    };
    let mut order = [accepted("s_axis_event", false), accepted("s_axis_entry", true)].concat();
    order.sort_unstable();
    let mut model = PathMonitor::new(Config::from(&config(size)), given.settings);
    let (mut updates, mut bad) = (vec![], BadSince::new());
    for (cycle, is_entry, index) in order {
        let made = if is_entry {
            model.write_entry(&given.entries[index])
        } else {
            model.event(&given.events[index])
        };
        for update in made {
            updates.push(update);
            if update.state != PathState::Skip as u8 {
                let is_bad = update.state == PathState::AssumedBad as u8;
                bad.entry((update.set, update.path)).or_default().push((cycle, is_bad));
            }
        }
    }
    (model, updates, bad)
}

fn check(size: (u32, u32, u32), given: &Given, patterns: &Patterns) -> Result<Outcome, TestCaseError> {
    let outcome = run(&mut simulation(size), given, patterns, Limits::default())?;
    let (model, updates, _) = follow(size, given, &outcome);
    prop_assert_eq!(outcome.accepted("s_axis_event").len(), given.events.len());
    prop_assert_eq!(outcome.accepted("s_axis_entry").len(), given.entries.len());
    let received = outcome.received("m_axis_path");
    for (index, (expected, received)) in updates.iter().zip(received).enumerate() {
        prop_assert_eq!(expected, &PathUpdate::unpack(&received.data), "update {}", index);
    }
    prop_assert_eq!(updates.len(), received.len(), "count of updates");
    let counters = model.counters();
    let mut named = vec![
        ("bad_by_loss", counters.bad_by_loss),
        ("bad_by_peer", counters.bad_by_peer),
        ("recovered", counters.recovered),
        ("skipped", counters.skipped),
        ("drop_entry", counters.drop_entry),
        ("drop_event", counters.drop_event),
    ];
    let probes = outcome.received("m_axis_probe").len() as u32;
    named.push(("probes", probes));
    prop_assert_eq!(outcome.counters.len(), named.len(), "every counter is compared");
    for (name, value) in named {
        prop_assert_eq!(outcome.counters[name], u64::from(value), "count_{}", name);
    }
    Ok(outcome)
}

/// A number below `most`, seldom one at or beyond it, of so many bits.
fn index(most: u32, bits: u32) -> impl Strategy<Value = u32> {
    let low = most.min(6);
    prop_oneof![10 => 0..low, 5 => 0..most, 1 => any::<u32>().prop_map(move |any| any >> (32 - bits))]
}

fn entry((ports, sets, entries): (u32, u32, u32)) -> impl Strategy<Value = PathEntry> {
    let wrong_port = prop::option::weighted(0.05, 0u8..8);
    let flags = any::<(bool, bool)>();
    let shape = (prop::bool::weighted(0.9), flags, wrong_port, any::<u32>());
    (index(sets, 12), index(entries, 8), shape).prop_map(
        move |(set, path, (valid, (backup, denied), port, entropy))| PathEntry {
            set: set as u16,
            path: path as u8,
            valid,
            backup,
            denied: denied && entropy & 1 == 0,
            port: port.unwrap_or((path % ports.next_power_of_two()) as u8),
            entropy,
            ..PathEntry::default()
        },
    )
}

fn event((_, sets, entries): (u32, u32, u32)) -> impl Strategy<Value = PathEvent> {
    let kind =
        prop_oneof![6 => Just(Kind::Lost as u8), 3 => Just(Kind::ProbeAnswered as u8), 6 => 0u8..9, 1 => 0u8..16];
    (index(sets, 12), index(entries, 8), kind, 0u32..1 << 24).prop_map(|(set, path, kind, qpn)| PathEvent {
        set: set as u16,
        kind,
        path: path as u8,
        qpn,
    })
}

fn given(size: (u32, u32, u32), interval: u32) -> impl Strategy<Value = Given> {
    let bad_after = prop_oneof![3 => 0u8..4, 1 => 4u8..65];
    (
        bad_after,
        any::<bool>(),
        prop::collection::vec(entry(size), 0..50),
        prop::collection::vec(event(size), 0..500),
    )
        .prop_map(move |(bad_after, delivered_clears, mut entries, events)| {
            let planes = size.0.next_power_of_two() as u8;
            for path in 0..16 {
                entries.insert(
                    0,
                    PathEntry {
                        path,
                        valid: true,
                        backup: path >= 8,
                        port: path % planes,
                        entropy: u32::from(path) << 9,
                        ..PathEntry::default()
                    },
                );
            }
            Given {
                settings: Settings {
                    bad_after,
                    delivered_clears,
                    probe_interval_ns: interval,
                },
                entries,
                events,
            }
        })
}

fn patterns() -> impl Strategy<Value = Patterns> {
    let pattern = Pattern::strategy;
    (pattern(), pattern(), pattern(), pattern()).prop_map(|(a, b, c, d)| [a, b, c, d])
}

#[test]
fn updates_and_counters_equal_the_golden_model() {
    if !common::have_verilator() {
        return;
    }
    let cases = prop::sample::select(&SIZES[..]).prop_flat_map(|size| (Just(size), given(size, NEVER), patterns()));
    proptest!(common::config(150, "path_monitor"), |((size, given, patterns) in cases)| {
        check(size, &given, &patterns)?;
    });
}

/// Clocks in which a path that is no longer bad may still be probed, or one that has become bad not yet.
const IN_FLIGHT: u64 = 40;

/// Every probe is of a path that is bad, with its own entropy value, and each round has every bad path once.
#[test]
fn rounds_probe_every_bad_path_once_and_no_other() {
    if !common::have_verilator() {
        return;
    }
    const INTERVAL: u32 = 2000;
    let cases = prop::sample::select(&SIZES[..]).prop_flat_map(|size| (Just(size), given(size, INTERVAL), patterns()));
    proptest!(common::config(40, "path_monitor"), |((size, given, mut patterns) in cases)| {
        patterns[3] = Pattern::Always;
        // Events far enough from each other for some rounds.
        patterns[1] = Pattern::Bursts { on: 1, off: 25 };
        let outcome = run(&mut simulation(size), &given, &patterns, Limits::default())?;
        let (_, _, bad) = follow(size, &given, &outcome);
        let told: BTreeSet<_> = outcome.received("m_axis_path").iter()
            .map(|received| PathUpdate::unpack(&received.data))
            .filter(|update| update.state == PathState::AssumedBad as u8)
            .map(|update| (update.set, update.path, update.entropy))
            .collect();
        let mut last = BTreeMap::new();
        for received in outcome.received("m_axis_probe") {
            let probe = PathUpdate::unpack(&received.data);
            let at = received.last_cycle;
            let changes = &bad[&(probe.set, probe.path)];
            let spans = changes.iter().zip(changes.iter().skip(1).map(|next| next.0).chain([u64::MAX]));
            let mut was_bad = spans.filter(|((from, is_bad), until)| *is_bad && *from <= at && at <= until.saturating_add(IN_FLIGHT));
            prop_assert!(was_bad.next().is_some(), "{:?} at cycle {}", probe, at);
            prop_assert!(told.contains(&(probe.set, probe.path, probe.entropy)), "{:?}", probe);
            prop_assert_eq!(probe.state, PathState::AssumedBad as u8);
            prop_assert_eq!(u32::from(probe.port), u32::from(probe.path) % size.0.next_power_of_two());
            if let Some(before) = last.insert((probe.set, probe.path), at) {
                let between = at - before;
                // Others that were before it in the round may have left.
                prop_assert!(between + 800 > u64::from(INTERVAL), "{:?}: {} clocks after the last probe", probe, between);
            }
        }
    });
}

fn entries(count: u8) -> Vec<PathEntry> {
    let entry = |path| PathEntry {
        path,
        valid: true,
        entropy: 500 + u32::from(path),
        ..PathEntry::default()
    };
    (0..count).map(entry).collect()
}

fn settings(probe_interval_ns: u32) -> Settings {
    Settings {
        probe_interval_ns,
        ..Settings::default()
    }
}

/// One event a clock, all of one path, whatever it is; and the clocks to the update.
#[test]
fn one_event_a_clock_also_of_one_path() {
    if !common::have_verilator() {
        return;
    }
    let after = Pattern::After { clocks: 900 };
    for kind in [Kind::Sent, Kind::Delivered, Kind::Marked, Kind::Trimmed] {
        let given = Given {
            settings: settings(NEVER),
            entries: entries(8),
            events: vec![
                PathEvent {
                    kind: kind as u8,
                    path: 3,
                    ..PathEvent::default()
                };
                400
            ],
        };
        let patterns = [Pattern::Always, after.clone(), Pattern::Always, Pattern::Always];
        let outcome = check(SIZES[0], &given, &patterns).unwrap();
        let taken = outcome.accepted("s_axis_event");
        assert_eq!(taken[399].last_cycle - taken[0].last_cycle, 399, "{kind:?}");
        if kind == Kind::Marked {
            let skipped = &outcome.received("m_axis_path")[8..];
            assert_eq!(
                skipped[0].last_cycle - taken[0].last_cycle,
                5,
                "clocks to a mark, as documented"
            );
            assert_eq!(skipped.len(), 400);
        }
    }
    // A path that dies: two losses, one behind the other.
    let lost = PathEvent {
        kind: Kind::Lost as u8,
        path: 6,
        ..PathEvent::default()
    };
    let given = Given {
        settings: settings(NEVER),
        entries: entries(8),
        events: vec![lost; 2],
    };
    let patterns = [Pattern::Always, after, Pattern::Always, Pattern::Always];
    let outcome = check(SIZES[0], &given, &patterns).unwrap();
    let told = &outcome.received("m_axis_path")[8];
    let evidence = outcome.accepted("s_axis_event")[1].last_cycle;
    assert_eq!(
        told.last_cycle - evidence,
        6,
        "clocks from the evidence to the update, as documented"
    );
}

/// Rounds come at their interval, in the order in which paths became bad, by the queue pair that sent last; an answer ends them.
#[test]
fn probes_come_at_their_interval_until_one_is_answered() {
    if !common::have_verilator() {
        return;
    }
    let event = |not_before, kind: Kind, path, qpn| {
        let event = PathEvent {
            kind: kind as u8,
            path,
            qpn,
            ..PathEvent::default()
        };
        Frame {
            not_before,
            ..Frame::new(event.pack())
        }
    };
    let events = [
        event(250, Kind::SkipAlways, 5, 1),
        event(250, Kind::SkipAlways, 2, 1),
        event(250, Kind::Sent, 0, 0xAB_CDEF),
        event(1750, Kind::ProbeAnswered, 5, 1),
    ];
    let probes = SinkStimulus {
        stream: "m_axis_probe".into(),
        pattern: Pattern::Always,
        checks: SinkChecks::default(),
        expected_frames: Some(12),
    };
    let mut stimulus = Stimulus::default()
        .source(
            "s_axis_entry",
            Pattern::Always,
            entries(8).iter().map(|one| Frame::new(one.pack())),
        )
        .source("s_axis_event", Pattern::Always, events)
        .input("bad_after", 2)
        .input("delivered_clears", 1)
        .input("probe_interval_ns", 400)
        .input_at("time_ns", 0, 0, 1);
    stimulus.sinks.push(probes);
    let outcome = spraynic_cosim::run(&mut simulation(SIZES[0]), &stimulus, Limits::default()).unwrap();
    let received = outcome.received("m_axis_probe");
    let probes: Vec<PathUpdate> = received.iter().map(|probe| PathUpdate::unpack(&probe.data)).collect();
    let paths: Vec<u8> = probes.iter().map(|probe| probe.path).collect();
    // Rounds at about 400, 800, 1200 and 1600, then without path 5.
    assert_eq!(paths, [5, 2, 5, 2, 5, 2, 5, 2, 2, 2, 2, 2]);
    assert!(
        probes
            .iter()
            .all(|probe| probe.qpn == 0xAB_CDEF && probe.entropy == 500 + u32::from(probe.path))
    );
    let of_path_2: Vec<u64> = received
        .iter()
        .zip(&paths)
        .filter(|(_, path)| **path == 2)
        .map(|(probe, _)| probe.last_cycle)
        .collect();
    for pair in of_path_2.windows(2) {
        assert!((390..=410).contains(&(pair[1] - pair[0])), "{of_path_2:?}");
    }
    assert_eq!(outcome.counters["probes"], 12);
}
