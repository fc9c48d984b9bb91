//! Which path `spray_scheduler` gives to packets, policy by policy, with paths and ports that come and go.

use std::collections::BTreeMap;

use proptest::prelude::*;
use spraynic_config::descriptor::{
    PacketDescriptor, PacketOrigin, PathEvent, PathEventKind, PathState as State, PathUpdate, SendContext,
    SprayPolicy as Policy,
};

use super::*;

const ALL_OPEN: Ports = Ports { up: 0xFF, room: 0xFF };

fn config(ports: usize) -> Config {
    Config {
        sets: 2,
        entries: 32,
        ports,
        queue_pairs: 64,
    }
}

fn update(path: u8, state: State) -> PathUpdate {
    PathUpdate {
        set: 1,
        state: state as u8,
        path,
        entropy: 1000 + u32::from(path),
        ..PathUpdate::default()
    }
}

/// All queue pairs use set 1 with this policy; its first `paths` places are good.
fn scheduler(ports: usize, policy: Policy, paths: u8) -> SprayScheduler {
    let mut scheduler = SprayScheduler::new(config(ports));
    for qpn in 0..64 {
        scheduler.write_context(&SendContext {
            qpn,
            policy: policy as u8,
            path_set: 1,
            entropy: 7,
            ..SendContext::default()
        });
    }
    (0..paths).for_each(|path| scheduler.update(&update(path, State::Good)));
    scheduler
}

fn choose(scheduler: &mut SprayScheduler, qpn: u32, ports: Ports) -> Option<Scheduled> {
    let descriptor = PacketDescriptor {
        qpn,
        entropy: 99,
        ..PacketDescriptor::default()
    };
    let origin = PacketOrigin {
        tracked: true,
        ..PacketOrigin::default()
    };
    scheduler.choose(&descriptor, &origin, ports)
}

/// Paths of so many packets of queue pair 3.
fn paths(scheduler: &mut SprayScheduler, packets: usize, ports: Ports) -> Vec<u8> {
    let one = |_| {
        let scheduled = choose(scheduler, 3, ports).unwrap();
        let sent = scheduled.sent.unwrap();
        assert_eq!(scheduled.descriptor.entropy, 1000 + u32::from(sent.path));
        assert_eq!(scheduled.descriptor.port, sent.port);
        sent.path
    };
    (0..packets).map(one).collect()
}

fn shares(paths: &[u8]) -> BTreeMap<u8, usize> {
    paths.iter().fold(BTreeMap::new(), |mut shares, path| {
        *shares.entry(*path).or_default() += 1;
        shares
    })
}

#[test]
fn fixed_and_unknown_queue_pairs_keep_to_the_lowest_port_that_is_up() {
    let mut scheduler = scheduler(2, Policy::Fixed, 8);
    let fixed = choose(&mut scheduler, 3, ALL_OPEN).unwrap();
    assert_eq!((fixed.descriptor.entropy, fixed.descriptor.port), (7, 0));
    let unknown = choose(&mut scheduler, 64, ALL_OPEN).unwrap();
    assert_eq!((unknown.descriptor.entropy, unknown.descriptor.port), (99, 0));
    // They wait for room there, and where no link is up for nothing.
    for qpn in [3, 64] {
        assert_eq!(choose(&mut scheduler, qpn, Ports { up: 3, room: 2 }), None);
        assert_eq!(choose(&mut scheduler, qpn, Ports { up: 2, room: 1 }), None);
        let other = choose(&mut scheduler, qpn, Ports { up: 2, room: 2 }).unwrap();
        assert_eq!(other.descriptor.port, 1);
        let nowhere = choose(&mut scheduler, qpn, Ports { up: 0, room: 0 }).unwrap();
        assert_eq!(nowhere.descriptor.port, 0);
    }
    assert_eq!(scheduler.counters().port_down, 2);
}

#[test]
fn what_is_told_of_a_packet_is_what_its_origin_says() {
    let mut scheduler = scheduler(1, Policy::Adaptive, 1);
    let descriptor = PacketDescriptor {
        qpn: 5,
        psn: 0xABCDEF,
        ..PacketDescriptor::default()
    };
    let origin = PacketOrigin {
        slot: 9,
        psns: 3,
        class: 2,
        profile: 1,
        space: true,
        last: true,
        retransmission: true,
        tracked: true,
    };
    let sent = scheduler.choose(&descriptor, &origin, ALL_OPEN).unwrap().sent.unwrap();
    assert_eq!((sent.qpn, sent.psn, sent.psns, sent.slot), (5, 0xABCDEF, 3, 9));
    assert_eq!(
        (sent.class, sent.space, sent.last, sent.retransmission),
        (2, true, true, true)
    );
    let untracked = PacketOrigin {
        tracked: false,
        ..origin
    };
    assert_eq!(scheduler.choose(&descriptor, &untracked, ALL_OPEN).unwrap().sent, None);
}

#[test]
fn rotations_use_each_path_once_and_ports_in_turn() {
    for policy in [Policy::RoundRobin, Policy::Adaptive] {
        let mut one_port = scheduler(1, policy, 8);
        assert_eq!(paths(&mut one_port, 10, ALL_OPEN), [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]);
        let mut four_ports = scheduler(4, policy, 8);
        assert_eq!(paths(&mut four_ports, 10, ALL_OPEN), [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]);
        // Three ports take four places each; the fourth is nobody's.
        let mut three_ports = scheduler(3, policy, 8);
        assert_eq!(three_ports.counters().drop_update, 2);
        assert_eq!(paths(&mut three_ports, 7, ALL_OPEN), [0, 1, 2, 4, 5, 6, 0]);
    }
}

#[test]
fn a_marked_path_is_left_out_once() {
    let mut scheduler = scheduler(1, Policy::Adaptive, 4);
    assert_eq!(paths(&mut scheduler, 2, ALL_OPEN), [0, 1]);
    scheduler.update(&update(0, State::Skip));
    scheduler.update(&update(3, State::Skip));
    // 3 is left out in this rotation, 0 in the next.
    assert_eq!(paths(&mut scheduler, 9, ALL_OPEN), [2, 1, 2, 3, 0, 1, 2, 3, 0]);
    // All marked: nobody is left out.
    (0..4).for_each(|path| scheduler.update(&update(path, State::Skip)));
    assert_eq!(shares(&paths(&mut scheduler, 40, ALL_OPEN)).len(), 4);
    // Marked twice before its turn comes: left out twice.
    let mut scheduler = self::scheduler(1, Policy::Adaptive, 3);
    (0..2).for_each(|_| scheduler.update(&update(1, State::Skip)));
    assert_eq!(paths(&mut scheduler, 6, ALL_OPEN), [0, 2, 0, 2, 0, 1]);
}

#[test]
fn a_path_that_is_retired_gets_no_packet_from_then_on() {
    for policy in [Policy::Adaptive, Policy::Reps] {
        for state in [State::AssumedBad, State::Denied, State::Absent, State::Backup] {
            let mut scheduler = scheduler(2, policy, 8);
            paths(&mut scheduler, 5, ALL_OPEN);
            scheduler.update(&update(5, state));
            let after = shares(&paths(&mut scheduler, 700, ALL_OPEN));
            assert_eq!(after.len(), 7, "{policy:?} {state:?} {after:?}");
            scheduler.update(&update(5, State::Good));
            assert_eq!(shares(&paths(&mut scheduler, 80, ALL_OPEN)).len(), 8);
        }
    }
}

#[test]
fn with_every_path_bad_all_are_used_as_the_last_resort() {
    for policy in [Policy::Adaptive, Policy::Reps] {
        let mut scheduler = scheduler(2, policy, 8);
        (0..8).for_each(|path| scheduler.update(&update(path, State::AssumedBad)));
        let resort = shares(&paths(&mut scheduler, 80, ALL_OPEN));
        assert!(
            resort.len() == 8 && resort.values().all(|share| *share == 10),
            "{resort:?}"
        );
        assert_eq!(scheduler.counters().last_resort, 80);
        scheduler.update(&update(6, State::Good));
        assert_eq!(paths(&mut scheduler, 3, ALL_OPEN), [6, 6, 6]);
        // Nothing but backups and denied paths: the entropy value of the context.
        (0..8).for_each(|path| scheduler.update(&update(path, State::Denied)));
        assert_eq!(choose(&mut scheduler, 3, ALL_OPEN).unwrap().descriptor.entropy, 7);
        assert_eq!(scheduler.counters().no_path, 1);
    }
}

#[test]
fn a_port_that_is_down_or_full_gets_nothing() {
    for policy in [Policy::RoundRobin, Policy::Random, Policy::Adaptive, Policy::Reps] {
        let mut scheduler = scheduler(4, policy, 16);
        for ports in [Ports { up: 0b1011, room: 0xF }, Ports { up: 0xF, room: 0b1011 }] {
            let used = shares(&paths(&mut scheduler, 300, ports));
            assert!(
                used.len() == 12 && used.keys().all(|path| path % 4 != 2),
                "{policy:?} {used:?}"
            );
        }
        assert_eq!(
            choose(
                &mut scheduler,
                3,
                Ports {
                    up: 0b0100,
                    room: 0b1011
                }
            ),
            None
        );
        // All links down: it is given, for a full queue of a dead port holds up nobody.
        assert!(choose(&mut scheduler, 3, Ports { up: 0, room: 0 }).is_some());
        assert_eq!(scheduler.counters().port_down, 1);
    }
    // Good paths on a port that is down do not count.
    let mut scheduler = scheduler(2, Policy::Adaptive, 8);
    for path in [0, 2, 4, 6] {
        scheduler.update(&update(path, State::AssumedBad));
    }
    let used = shares(&paths(&mut scheduler, 40, Ports { up: 0b01, room: 0b11 }));
    assert_eq!(used.keys().copied().collect::<Vec<_>>(), [0, 2, 4, 6]);
}

#[test]
fn single_keeps_to_one_path_that_differs_by_queue_pair() {
    let mut scheduler = scheduler(2, Policy::Single, 16);
    let mut used = BTreeMap::new();
    for qpn in 0..64 {
        let first = choose(&mut scheduler, qpn, ALL_OPEN).unwrap().sent.unwrap().path;
        for _ in 0..5 {
            assert_eq!(choose(&mut scheduler, qpn, ALL_OPEN).unwrap().sent.unwrap().path, first);
        }
        *used.entry(first).or_insert(0) += 1;
        // It waits for its own port, and changes it only when the link is down.
        let full = !(1u8 << (first % 2));
        assert_eq!(choose(&mut scheduler, qpn, Ports { up: 3, room: full }), None);
        let other = choose(&mut scheduler, qpn, Ports { up: full, room: full })
            .unwrap()
            .sent
            .unwrap();
        assert_ne!(other.port, first % 2);
    }
    assert!(used.len() >= 12 && used.values().all(|share| *share <= 12), "{used:?}");
}

#[test]
fn random_takes_every_path_alike() {
    let mut scheduler = scheduler(2, Policy::Random, 14);
    let used = shares(&paths(&mut scheduler, 14_000, ALL_OPEN));
    assert!(
        used.len() == 14 && used.values().all(|share| (880..1120).contains(share)),
        "{used:?}"
    );
}

#[test]
fn reps_uses_again_what_came_back_and_freezes_when_a_path_fails() {
    let recycle = |scheduler: &mut SprayScheduler, path, kind: PathEventKind| {
        scheduler.recycle(&PathEvent {
            set: 1,
            kind: kind as u8,
            path,
            qpn: 3,
        });
    };
    let mut scheduler = scheduler(1, Policy::Reps, 8);
    assert_eq!(paths(&mut scheduler, 3, ALL_OPEN), [0, 1, 2]);
    for path in [6, 2] {
        recycle(&mut scheduler, path, PathEventKind::Acknowledged);
    }
    recycle(&mut scheduler, 5, PathEventKind::Marked);
    assert_eq!(paths(&mut scheduler, 4, ALL_OPEN), [6, 2, 3, 4]);
    // More than the ring holds: the oldest go.
    (0..10).for_each(|path| recycle(&mut scheduler, path % 8, PathEventKind::Acknowledged));
    assert_eq!(paths(&mut scheduler, 9, ALL_OPEN), [2, 3, 4, 5, 6, 7, 0, 1, 5]);
    // A path fails: what the ring holds goes round and round, but for the one that failed, which a new one replaces.
    scheduler.update(&update(4, State::AssumedBad));
    assert_eq!(
        paths(&mut scheduler, 16, ALL_OPEN),
        [6, 7, 0, 1, 2, 3, 6, 5, 6, 7, 0, 1, 2, 3, 7, 5]
    );
    // The ring is the queue pair's own, and new with a context.
    assert_eq!(choose(&mut scheduler, 4, ALL_OPEN).unwrap().sent.unwrap().path, 0);
    scheduler.update(&update(4, State::Good));
    scheduler.write_context(&SendContext {
        qpn: 3,
        policy: Policy::Reps as u8,
        path_set: 1,
        ..SendContext::default()
    });
    assert_eq!(paths(&mut scheduler, 2, ALL_OPEN), [1, 2]);
}

fn any_state() -> impl Strategy<Value = State> {
    prop::sample::select(State::ALL)
}

#[derive(Debug, Clone)]
enum Step {
    Update(u8, State),
    Recycle(u8),
    Packets(u8, u8, u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0u8..32, any_state()).prop_map(|(path, state)| Step::Update(path, state)),
        (0u8..32).prop_map(Step::Recycle),
        (0u8..16, any::<u8>(), any::<u8>()).prop_map(|(packets, up, room)| Step::Packets(packets, up, room)),
    ];
    prop::collection::vec(step, 0..300)
}

proptest! {
    /// A packet gets a good path of a port that is up and has room; a worse one only where that is the rule; and it waits only for room.
    #[test]
    fn every_choice_is_the_best_there_is(policy in prop::sample::select(Policy::ALL), ports in 1usize..9, steps in steps()) {
        let mut scheduler = scheduler(ports, policy, 0);
        let mut states = [State::Absent; 32];
        let planes = ports.next_power_of_two();
        for step in steps {
            match step {
                Step::Update(path, state) => {
                    scheduler.update(&update(path, state));
                    let old = &mut states[usize::from(path)];
                    if usize::from(path) % planes < ports {
                        // A Skip of what is not good is nothing.
                        *old = if state == State::Skip { *old } else { state };
                    }
                }
                Step::Recycle(path) => scheduler.recycle(&PathEvent { set: 1, kind: 0, path, qpn: 3 }),
                Step::Packets(packets, up, room) => for _ in 0..packets {
                    let is = |path: usize, state| states[path] == state;
                    let good_up = |path: &usize| is(*path, State::Good) && up >> (path % planes) & 1 == 1;
                    let known = |path: &usize| is(*path, State::Good) || is(*path, State::AssumedBad);
                    let known_up = |path: &usize| known(path) && up >> (path % planes) & 1 == 1;
                    let judges = matches!(policy, Policy::Adaptive | Policy::Reps);
                    let all = 0..32usize;
                    let best: Vec<usize> = if policy == Policy::Fixed {
                        vec![]
                    } else if judges && all.clone().any(|path| good_up(&path)) {
                        all.filter(good_up).collect()
                    } else if all.clone().any(|path| known_up(&path)) {
                        all.filter(known_up).collect()
                    } else {
                        all.filter(known).collect()
                    };
                    let lowest_up = (0..ports).find(|port| up >> port & 1 == 1).unwrap_or(0);
                    let has_room = |port: usize| (room | !up) >> port & 1 == 1;
                    match choose(&mut scheduler, 3, Ports { up, room }) {
                        None if best.is_empty() => prop_assert!(!has_room(lowest_up)),
                        None if policy == Policy::Single => {
                            prop_assert!(best.iter().any(|path| !has_room(path % planes)));
                        }
                        None => prop_assert!(best.iter().all(|path| !has_room(path % planes))),
                        Some(scheduled) => {
                            let sent = scheduled.sent.unwrap();
                            prop_assert!(has_room(usize::from(sent.port)));
                            if best.is_empty() {
                                prop_assert_eq!((scheduled.descriptor.entropy, usize::from(sent.port)), (7, lowest_up));
                            } else {
                                prop_assert!(best.contains(&usize::from(sent.path)));
                                prop_assert_eq!(scheduled.descriptor.entropy, 1000 + u32::from(sent.path));
                                prop_assert_eq!(usize::from(sent.path) % planes, usize::from(sent.port));
                            }
                        }
                    }
                }
            }
        }
    }

    /// A rotation gives all good paths of a port before it gives one twice.
    #[test]
    fn a_rotation_gives_each_path_once(good in prop::collection::btree_set(0u8..32, 1..32)) {
        let mut scheduler = scheduler(1, Policy::Adaptive, 0);
        good.iter().for_each(|path| scheduler.update(&update(*path, State::Good)));
        let given = paths(&mut scheduler, 3 * good.len(), ALL_OPEN);
        for rotation in given.chunks(good.len()) {
            let mut sorted = rotation.to_vec();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, good.iter().copied().collect::<Vec<_>>());
        }
    }
}
