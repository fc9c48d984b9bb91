//! spray_scheduler: golden model and RTL give every packet the same path, whatever comes between and whatever the ports do.

#[path = "common/blocks.rs"]
mod blocks;
mod common;

use proptest::prelude::*;
use spraynic_config::descriptor::{
    Descriptor, PacketDescriptor, PacketOrigin, PathEvent, PathState, PathUpdate, SendContext, SentPacket, SprayPolicy,
};
use spraynic_config::{NicConfig, Preset};
use spraynic_cosim::{Frame, Limits, Outcome, Pattern, Simulation, SinkChecks, Stimulus};
use spraynic_golden::spray_scheduler::{Config, Ports, SprayScheduler};
use spraynic_rtl::Context;

/// Clocks from the entry of a packet to the choice of its port, if nobody waits.
const FRONT: usize = 5;

/// Clocks between the state of the ports at the inputs and the choice that it decides.
const PORTS_AHEAD: u64 = 2;

/// Queue pairs of the tables under test.
const QUEUE_PAIRS: u32 = 16;

/// Ports, sets and places under test: one port; planes of one group; more planes than ports, of one set.
const SIZES: [(u32, u32, u32); 3] = [(1, 4, 32), (2, 2, 16), (5, 1, 256)];

fn config((ports, sets, entries): (u32, u32, u32)) -> NicConfig {
    let mut config = NicConfig::preset(Preset::G100);
    config.queue_pairs.count = 64;
    config.send.queue_pairs = QUEUE_PAIRS;
    config.paths.ports = ports;
    config.paths.sets = sets;
    config.paths.entries = entries;
    config
}

fn simulation(size: (u32, u32, u32)) -> Simulation {
    let context = Context::new();
    let definition = spraynic_hdl::spray_scheduler::spray_scheduler(&context, &config(size));
    blocks::simulation(&context, definition)
}

/// What goes in.
#[derive(Debug, Clone, Default)]
struct Given {
    contexts: Vec<SendContext>,
    updates: Vec<PathUpdate>,
    recycles: Vec<PathEvent>,
    packets: Vec<(PacketDescriptor, PacketOrigin)>,
    /// From this cycle on, the ports are so.
    ports: Vec<(u64, Ports)>,
}

/// Gaps of contexts, updates, recycled paths and packets; stalls of packets and of what is told of them.
type Patterns = [Pattern; 6];

fn always() -> Patterns {
    [(); 6].map(|()| Pattern::Always)
}

fn run(model: &mut Simulation, given: &Given, patterns: &Patterns) -> Result<Outcome, TestCaseError> {
    let [contexts, updates, recycles, packets, stalls, told] = patterns.clone();
    let packet = |(descriptor, origin): &(PacketDescriptor, PacketOrigin)| {
        Frame::new([descriptor.pack(), origin.pack()].concat())
    };
    let mut stimulus = Stimulus::default()
        .source(
            "s_axis_context",
            contexts,
            given.contexts.iter().map(|one| Frame::new(one.pack())),
        )
        .source(
            "s_axis_path",
            updates,
            given.updates.iter().map(|one| Frame::new(one.pack())),
        )
        .source(
            "s_axis_recycle",
            recycles,
            given.recycles.iter().map(|one| Frame::new(one.pack())),
        )
        .source("s_axis", packets, given.packets.iter().map(packet))
        .sink("m_axis", stalls, SinkChecks::default())
        .sink("m_axis_sent", told, SinkChecks::default());
    for (cycle, ports) in &given.ports {
        stimulus = stimulus.input_at("port_up", *cycle, u64::from(ports.up), 0).input_at(
            "port_room",
            *cycle,
            u64::from(ports.room),
            0,
        );
    }
    Ok(spraynic_cosim::run(model, &stimulus, Limits::default())?)
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    Context(usize),
    Update(usize),
    Recycle(usize),
    Packet(usize),
}

/// The golden model in step with the front half of the RTL: an operation reaches the choice five clocks after its entry, later if somebody waits there.
fn expect(
    size: (u32, u32, u32),
    given: &Given,
    outcome: &Outcome,
) -> Result<(SprayScheduler, Vec<PacketDescriptor>, Vec<SentPacket>), TestCaseError> {
    let mut entries = vec![];
    let mut enter = |stream: &str, operation: fn(usize) -> Operation| {
        let timings = outcome.accepted(stream).iter().enumerate();
        entries.extend(timings.map(|(index, timing)| (timing.last_cycle, operation(index))));
    };
    enter("s_axis_context", Operation::Context);
    enter("s_axis_path", Operation::Update);
    enter("s_axis_recycle", Operation::Recycle);
    enter("s_axis", Operation::Packet);
    entries.sort_by_key(|(cycle, _)| *cycle);
    let clash = entries.windows(2).find(|pair| pair[0].0 == pair[1].0);
    prop_assert!(clash.is_none(), "two enter in one clock: {:?}", clash);

    let ports_at = |cycle: u64| {
        let latest = given.ports.iter().rev().find(|(from, _)| *from <= cycle);
        latest.map_or(Ports { up: 0, room: 0 }, |(_, ports)| *ports)
    };
    let mut model = SprayScheduler::new(Config::from(&config(size)));
    let (mut packets, mut sent) = (vec![], vec![]);
    let mut front: [Option<Operation>; FRONT] = [None; FRONT];
    let mut entries = entries.into_iter().peekable();
    for cycle in 0..=outcome.cycles {
        let leaves = match front[FRONT - 1] {
            None => true,
            Some(Operation::Context(index)) => {
                model.write_context(&given.contexts[index]);
                true
            }
            Some(Operation::Update(index)) => {
                model.update(&given.updates[index]);
                true
            }
            Some(Operation::Recycle(index)) => {
                model.recycle(&given.recycles[index]);
                true
            }
            Some(Operation::Packet(index)) => {
                let (descriptor, origin) = &given.packets[index];
                let scheduled = model.choose(descriptor, origin, ports_at(cycle.saturating_sub(PORTS_AHEAD)));
                if let Some(scheduled) = scheduled {
                    packets.push(scheduled.descriptor);
                    sent.extend(scheduled.sent);
                }
                scheduled.is_some()
            }
        };
        let entering = entries.next_if(|(at, _)| *at == cycle).map(|(_, operation)| operation);
        if leaves {
            front.rotate_right(1);
            front[0] = entering;
        } else {
            prop_assert!(
                entering.is_none(),
                "cycle {}: {:?} enters while a packet waits",
                cycle,
                entering
            );
        }
    }
    prop_assert!(entries.next().is_none() && front.iter().all(Option::is_none));
    Ok((model, packets, sent))
}

fn check(size: (u32, u32, u32), given: &Given, patterns: &Patterns) -> Result<Outcome, TestCaseError> {
    let outcome = run(&mut simulation(size), given, patterns)?;
    let (model, packets, sent) = expect(size, given, &outcome)?;
    prop_assert_eq!(packets.len(), given.packets.len(), "every packet is given");
    for (index, (expected, received)) in packets.iter().zip(outcome.received("m_axis")).enumerate() {
        let received = PacketDescriptor::unpack(&received.data);
        prop_assert_eq!(
            (expected.port, expected.entropy),
            (received.port, received.entropy),
            "port and entropy of packet {}",
            index
        );
        prop_assert_eq!(expected, &received, "packet {}", index);
    }
    prop_assert_eq!(outcome.received("m_axis").len(), packets.len());
    for (index, (expected, received)) in sent.iter().zip(outcome.received("m_axis_sent")).enumerate() {
        prop_assert_eq!(
            expected,
            &SentPacket::unpack(&received.data),
            "tracked packet {}",
            index
        );
    }
    prop_assert_eq!(outcome.received("m_axis_sent").len(), sent.len());
    let counters = model.counters();
    let named = [
        ("packets", counters.packets),
        ("recycled", counters.recycled),
        ("last_resort", counters.last_resort),
        ("no_path", counters.no_path),
        ("port_down", counters.port_down),
        ("drop_update", counters.drop_update),
    ];
    prop_assert_eq!(outcome.counters.len(), named.len(), "every counter is compared");
    for (name, value) in named {
        prop_assert_eq!(outcome.counters[name], u64::from(value), "count_{}", name);
    }
    Ok(outcome)
}

/// A number below `most`, seldom one at or beyond it, of so many bits.
fn index(most: u32, bits: u32) -> impl Strategy<Value = u32> {
    let low = most.min(6);
    prop_oneof![8 => 0..low, 8 => 0..most, 1 => any::<u32>().prop_map(move |any| any >> (32 - bits))]
}

fn context(sets: u32) -> impl Strategy<Value = SendContext> {
    (index(QUEUE_PAIRS, 24), 0u8..8, index(sets, 12), any::<u32>()).prop_map(|(qpn, policy, set, entropy)| {
        SendContext {
            qpn,
            policy,
            path_set: set as u16,
            entropy,
            state: 3,
            ..SendContext::default()
        }
    })
}

fn update(sets: u32, entries: u32) -> impl Strategy<Value = PathUpdate> {
    let state = prop_oneof![4 => Just(1u8), 3 => Just(2), 2 => Just(3), 2 => 0u8..8];
    (index(sets, 12), index(entries, 8), state, any::<u32>()).prop_map(|(set, path, state, entropy)| PathUpdate {
        set: set as u16,
        state,
        path: path as u8,
        entropy,
        ..PathUpdate::default()
    })
}

fn packet() -> impl Strategy<Value = (PacketDescriptor, PacketOrigin)> {
    (index(QUEUE_PAIRS, 24), any::<u32>(), any::<[u8; 4]>()).prop_map(|(qpn, number, [slot, flags, class, _])| {
        let descriptor = PacketDescriptor {
            qpn,
            psn: number >> 8,
            entropy: !number,
            local_address: u64::from(number) << 20,
            opcode: slot,
            ..PacketDescriptor::default()
        };
        let origin = PacketOrigin {
            slot,
            psns: number & 0xFF_FFFF,
            class: class & 3,
            profile: 1,
            space: flags & 1 != 0,
            last: flags & 2 != 0,
            retransmission: flags & 4 != 0,
            tracked: flags & 24 != 0,
        };
        (descriptor, origin)
    })
}

fn given((ports, sets, entries): (u32, u32, u32)) -> impl Strategy<Value = Given> {
    let recycle = (
        index(sets, 12),
        index(entries, 8),
        index(QUEUE_PAIRS, 24),
        prop_oneof![5 => Just(0u8), 1 => 0..16u8],
    );
    let recycle = recycle.prop_map(|(set, path, qpn, kind)| PathEvent {
        set: set as u16,
        kind,
        path: path as u8,
        qpn,
    });
    let all = ((1u16 << ports) - 1) as u8;
    let mask = prop_oneof![3 => Just(all), 2 => 0..=all, 1 => Just(0u8)];
    let change = (1u64..60, mask.clone(), mask).prop_map(|(after, up, room)| (after, Ports { up, room }));
    (
        prop::collection::vec(context(sets), 0..40),
        prop::collection::vec(update(sets, entries), 0..80),
        prop::collection::vec(recycle, 0..60),
        prop::collection::vec(packet(), 0..250),
        prop::collection::vec(change, 0..40),
    )
        .prop_map(move |(mut contexts, updates, recycles, packets, changes)| {
            // Most queue pairs are open with a set that there is.
            for qpn in 0..6 {
                contexts.insert(
                    0,
                    SendContext {
                        qpn,
                        policy: 5 - qpn as u8,
                        path_set: 0,
                        entropy: 1000 + qpn,
                        ..SendContext::default()
                    },
                );
            }
            let mut cycle = 0;
            let mut schedule = vec![(0, Ports { up: all, room: all })];
            for (after, ports) in changes {
                cycle += after;
                schedule.push((cycle, ports));
            }
            // At last every port is open, so that all packets leave.
            schedule.push((cycle + 200, Ports { up: all, room: all }));
            Given {
                contexts,
                updates,
                recycles,
                packets,
                ports: schedule,
            }
        })
}

fn patterns() -> impl Strategy<Value = Patterns> {
    let pattern = Pattern::strategy;
    (pattern(), pattern(), pattern(), pattern(), pattern(), pattern()).prop_map(|(a, b, c, d, e, f)| [a, b, c, d, e, f])
}

#[test]
fn paths_and_counters_equal_the_golden_model() {
    if !common::have_verilator() {
        return;
    }
    let cases = prop::sample::select(&SIZES[..]).prop_flat_map(|size| (Just(size), given(size), patterns()));
    proptest!(common::config(100, "spray_scheduler"), |((size, given, patterns) in cases)| {
        check(size, &given, &patterns)?;
    });
}

/// All queue pairs with this policy on set 0, whose first `paths` places are good.
fn one_policy(size: (u32, u32, u32), policy: SprayPolicy, paths: u8) -> Given {
    let contexts = (0..QUEUE_PAIRS).map(|qpn| SendContext {
        qpn,
        policy: policy as u8,
        entropy: 7,
        ..SendContext::default()
    });
    let updates = (0..paths).map(|path| PathUpdate {
        state: PathState::Good as u8,
        path,
        entropy: u32::from(path) + 100,
        ..PathUpdate::default()
    });
    let all = ((1u16 << size.0) - 1) as u8;
    Given {
        contexts: contexts.collect(),
        updates: updates.collect(),
        ports: vec![(0, Ports { up: all, room: all })],
        ..Given::default()
    }
}

fn packets(qpn: u32, count: usize) -> Vec<(PacketDescriptor, PacketOrigin)> {
    let origin = PacketOrigin {
        tracked: true,
        ..PacketOrigin::default()
    };
    let one = |psn: usize| PacketDescriptor {
        qpn,
        psn: psn as u32,
        ..PacketDescriptor::default()
    };
    (0..count).map(|psn| (one(psn), origin)).collect()
}

/// One packet a clock, all of one queue pair, under every policy, and the clocks to its path.
#[test]
fn one_packet_a_clock_also_of_one_queue_pair() {
    if !common::have_verilator() {
        return;
    }
    for (size, latency) in SIZES.into_iter().zip(LATENCY) {
        for policy in SprayPolicy::ALL {
            let mut given = one_policy(size, *policy, 8);
            given.packets = packets(3, 400);
            let mut patterns = always();
            // The table is cleared, the paths are written before the first packet.
            patterns[3] = Pattern::After { clocks: 900 };
            let outcome = check(size, &given, &patterns).unwrap();
            let taken = outcome.accepted("s_axis");
            let given = outcome.received("m_axis");
            assert_eq!(taken[399].last_cycle - taken[0].last_cycle, 399, "{policy:?}");
            for (taken, given) in taken.iter().zip(given) {
                assert_eq!(
                    given.last_cycle - taken.last_cycle,
                    latency,
                    "clocks to the path, as documented"
                );
            }
        }
    }
}

/// Clocks from a packet to its path, by size, as documented.
const LATENCY: [u64; 3] = [19, 15, 19];

/// A path of eight dies: from its update on, no packet takes it, and the others share what it had.
#[test]
fn a_path_that_dies_gets_nothing_from_its_update_on() {
    if !common::have_verilator() {
        return;
    }
    for policy in [SprayPolicy::Adaptive, SprayPolicy::Reps] {
        let size = SIZES[0];
        let mut given = one_policy(size, policy, 8);
        given.updates.push(PathUpdate {
            state: PathState::AssumedBad as u8,
            path: 5,
            ..PathUpdate::default()
        });
        given.packets = packets(3, 600);
        let mut patterns = always();
        patterns[1] = Pattern::Bursts { on: 1, off: 60 };
        patterns[3] = Pattern::After { clocks: 700 };
        let outcome = check(size, &given, &patterns).unwrap();
        let dead_from = outcome.accepted("s_axis_path")[8].last_cycle;
        let after = outcome
            .accepted("s_axis")
            .iter()
            .position(|timing| timing.last_cycle > dead_from);
        let paths: Vec<u8> = outcome
            .received("m_axis_sent")
            .iter()
            .map(|sent| SentPacket::unpack(&sent.data).path)
            .collect();
        let after = after.unwrap_or(0);
        assert!(
            paths.len() - after >= 500,
            "most packets come behind the death: {after}"
        );
        assert!(!paths[after..].contains(&5), "{policy:?}");
        for path in [0, 1, 2, 3, 4, 6, 7] {
            let share = paths[after..].iter().filter(|used| **used == path).count();
            assert!(
                share.abs_diff((paths.len() - after) / 7) <= 2,
                "{policy:?}: path {path} {share}"
            );
        }
    }
}

/// A reset forgets queue pairs, paths and turns.
#[test]
fn after_a_reset_nothing_is_known() {
    if !common::have_verilator() {
        return;
    }
    let size = SIZES[1];
    let mut model = simulation(size);
    let mut given = one_policy(size, SprayPolicy::Adaptive, 8);
    given.packets = packets(3, 21);
    let mut patterns = always();
    patterns[3] = Pattern::After { clocks: 900 };
    run(&mut model, &given, &patterns).unwrap();
    let again = Given {
        packets: packets(3, 4),
        ports: given.ports.clone(),
        ..Given::default()
    };
    let outcome = run(&mut model, &again, &patterns).unwrap();
    let sent: Vec<u8> = outcome
        .received("m_axis_sent")
        .iter()
        .map(|sent| SentPacket::unpack(&sent.data).path)
        .collect();
    assert_eq!(sent, [0, 0, 0, 0], "a queue pair without context has no path");
    let fresh = run(&mut model, &given, &patterns).unwrap();
    let first = SentPacket::unpack(&fresh.received("m_axis_sent")[0].data);
    assert_eq!(first.path, 0, "the rotation begins at the first path");
}
