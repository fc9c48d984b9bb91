//! Properties of the reorder buffer model: order, slots, guarantees and progress, whatever comes.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// What happens to a buffer.
#[derive(Debug, Clone)]
enum Event {
    /// A packet this far behind the base (before it, if negative) comes.
    Packet {
        qpn: u32,
        space: Space,
        distance: i32,
        send: bool,
        trimmed: bool,
    },
    /// The next packet may leave.
    Release { qpn: u32, space: Space },
    /// A receive request is posted.
    Credit { qpn: u32 },
}

fn any_event(queue_pairs: u32) -> impl Strategy<Value = Event> {
    let space = || prop::sample::select(Space::ALL.to_vec());
    let distance = prop_oneof![6 => 0i32..8, 4 => 0..WINDOW as i32, 1 => -70..140i32, 1 => any::<i32>()];
    prop_oneof![
        3 => (0..queue_pairs, space(), distance, any::<bool>(), prop::bool::weighted(0.05))
            .prop_map(|(qpn, space, distance, send, trimmed)| Event::Packet { qpn, space, distance, send, trimmed }),
        1 => (0..queue_pairs, space()).prop_map(|(qpn, space)| Event::Release { qpn, space }),
        1 => (0..queue_pairs).prop_map(|qpn| Event::Credit { qpn }),
    ]
}

/// One space as a set of packets: the model in the simplest words.
#[derive(Debug, Default)]
struct Plain {
    base: u32,
    /// Whether the packet takes a receive request.
    waiting: BTreeMap<u32, bool>,
}

impl Plain {
    fn missing(&self) -> u32 {
        (0..)
            .map(|step| wrap(self.base + step))
            .find(|psn| !self.waiting.contains_key(psn))
            .expect("finite")
    }
}

proptest! {
    /// Any events in any order: the buffer equals a set of packets, each PSN leaves once and in order, slots are counted
    /// right, and nobody is refused a slot that is guaranteed.
    #[test]
    fn a_buffer_is_a_set_of_packets_with_a_guarantee(
        start in prop_oneof![any::<u32>(), Just(0xFF_FFF0), Just(0x7F_FFF8)],
        events in prop::collection::vec(any_event(3), 1..300),
    ) {
        // Tight: 24 slots, 16 of them guaranteed.
        let config = Config { pool_slots: 24, ..config() };
        let mut buffer = ReorderBuffer::new(config);
        let mut plain = BTreeMap::new();
        for qpn in 0..3 {
            let context = context(qpn, Profile::Solar, wrap(start));
            buffer.write_context(&context);
            plain.insert((qpn, 0), Plain { base: context.psn, ..Plain::default() });
            plain.insert((qpn, 1), Plain { base: wrap(context.response_psn), ..Plain::default() });
        }
        let mut received = 0;
        let mut credits = [0u32; 3];
        for event in events {
            let (qpn, space) = match event {
                Event::Packet { qpn, space, .. } | Event::Release { qpn, space } => (qpn, space),
                Event::Credit { qpn } => (qpn, Space::Requests),
            };
            let credits = &mut credits[qpn as usize];
            let held: BTreeMap<u32, u32> = (0..4).map(|qpn| (qpn, buffer.used_slots(qpn))).collect();
            let state = plain.get_mut(&(qpn, space as u8)).expect("three queue pairs");
            match event {
                Event::Packet { distance, send, trimmed, .. } => {
                    received += 1;
                    let psn = wrap(state.base.wrapping_add(distance as u32));
                    // The distance once more, modulo 2^24 and read as signed.
                    let distance = Psn::new(psn).distance(Psn::new(state.base));
                    let needs = send && space == Space::Requests;
                    let mut packet = packet(qpn, space, psn, if needs { 4 } else { 1 });
                    packet.packet.trimmed = u8::from(trimmed);
                    let others: u32 = held.iter().filter(|(other, _)| **other != qpn).map(|(_, used)| (*used).max(4)).sum();
                    let has_slot = held[&qpn] < 4 || held[&qpn] + others < 24;
                    let expected = match distance {
                        ..0 => Duplicate,
                        64.. => OutOfWindow,
                        _ if state.waiting.contains_key(&psn) => Duplicate,
                        _ if trimmed => Trimmed,
                        0 if !needs || *credits > 0 => Passed,
                        _ if has_slot => Stored,
                        _ => NoSlot,
                    };
                    prop_assert_eq!(outcome(&mut buffer, packet), expected);
                    match expected {
                        Passed => {
                            state.base = wrap(state.base + 1);
                            *credits -= u32::from(needs);
                        }
                        Stored => prop_assert_eq!(state.waiting.insert(psn, needs), None),
                        _ => {}
                    }
                }
                Event::Release { .. } => {
                    let given = buffer.release(qpn, space).given().map(|given| given.packet.psn);
                    let next = state.waiting.get(&state.base).map(|needs| u32::from(*needs));
                    let taken = next.filter(|needs| needs <= credits);
                    prop_assert_eq!(given, taken.map(|_| state.base));
                    if let Some(taken) = taken {
                        state.waiting.remove(&state.base);
                        state.base = wrap(state.base + 1);
                        *credits -= taken;
                    }
                }
                Event::Credit { qpn } => {
                    buffer.credit(qpn);
                    *credits = (*credits + 1).min(8);
                }
            }
            let missing = state.missing();
            prop_assert_eq!(buffer.credits(qpn), *credits);
            prop_assert_eq!(buffer.base(qpn, space), Some(Psn::new(state.base)));
            prop_assert_eq!(buffer.cumulative(qpn, space), Some(Psn::new(missing) - 1));
            let beyond = state.waiting.keys().filter(|psn| Psn::new(**psn).distance(Psn::new(missing)) > 0);
            prop_assert_eq!(buffer.beyond_gap(qpn, space), beyond.count() as u32);
            for first in [state.base, missing] {
                let bitmap = (0..64).filter(|bit| state.waiting.contains_key(&wrap(first + bit)));
                let bitmap = bitmap.fold(0u64, |bitmap, bit| bitmap | 1 << bit);
                prop_assert_eq!(buffer.sack_bitmap(qpn, space, Psn::new(first)), bitmap);
            }
            let waiting: usize = plain.values().map(|state| state.waiting.len()).sum();
            prop_assert_eq!(buffer.free_slots() as usize, 24 - waiting);
        }
        let c = buffer.counters();
        let sum = c.passed + c.stored + c.duplicates + c.drop_out_of_window + c.drop_trimmed + c.drop_no_slot;
        prop_assert_eq!(sum, received);
        for qpn in 0..3 {
            let reset = QueuePairContext { qpn, ..QueuePairContext::default() };
            buffer.write_context(&reset);
        }
        prop_assert_eq!(buffer.free_slots(), 24);
    }

    /// A window of packets in any order, any of them twice: each leaves once and in order, and no slot is left over.
    #[test]
    fn any_order_of_a_window_leaves_in_order(
        start in any::<u32>(),
        order in Just((0..WINDOW).collect::<Vec<_>>()).prop_shuffle(),
        twice in prop::collection::vec(0..WINDOW, 0..64),
        eager in any::<bool>(),
    ) {
        let mut buffer = buffer(Profile::Solar, wrap(start));
        let mut left = Vec::new();
        for step in order.iter().chain(&twice) {
            let (_, given) = buffer.receive(middle(start.wrapping_add(*step)));
            left.extend(given.map(|given| given.packet.psn));
            if eager {
                left.extend(drain(&mut buffer, QPN, Space::Requests));
            }
        }
        left.extend(drain(&mut buffer, QPN, Space::Requests));
        let sent: Vec<u32> = (0..WINDOW).map(|step| wrap(start.wrapping_add(step))).collect();
        prop_assert_eq!(left, sent);
        prop_assert_eq!(buffer.free_slots(), SLOTS);
        prop_assert_eq!(buffer.counters().duplicates as usize, twice.len());
    }

    /// mrc in any order, any packet twice, some without a receive request at first, windows retired now or later: each packet is given once, and
    /// all messages are told in order, when all before them are there.
    #[test]
    fn mrc_gives_each_packet_once(
        start in any::<u32>(),
        order in Just((0..WINDOW).collect::<Vec<_>>()).prop_shuffle(),
        kinds in prop::collection::vec(prop::sample::select(vec![0xC7u8, 0xC8, 0xC9]), WINDOW as usize),
        credits in prop::collection::vec(any::<bool>(), WINDOW as usize),
        eager in any::<bool>(),
    ) {
        let mut buffer = buffer(Profile::Mrc, wrap(start));
        let mut given = BTreeSet::new();
        let mut told = Vec::new();
        for pass in 0..2 {
            for step in &order {
                let index = *step as usize;
                if pass == 1 || credits[index] {
                    buffer.credit(QPN);
                }
                let (report, passed) = buffer.receive(packet(QPN, Space::Requests, start.wrapping_add(*step), kinds[index]));
                if let Some(packet) = passed {
                    prop_assert!(given.insert(packet.packet.psn));
                }
                let complete = (0..WINDOW).take_while(|step| given.contains(&wrap(start.wrapping_add(*step)))).count() as u32;
                prop_assert_eq!(Psn::new(report.cumulative).next().steps_from(Psn::new(start)), complete);
                prop_assert_eq!(u32::from(report.beyond_gap), given.len() as u32 - complete);
                while (eager || pass == 1) && buffer.is_releasable(QPN, Space::Requests) {
                    told.extend(buffer.release(QPN, Space::Requests).given().map(|end| (end.packet.psn, end.packet.opcode)));
                }
            }
        }
        prop_assert_eq!(given.len(), WINDOW as usize);
        let ends = kinds.iter().zip(0..).filter(|(kind, _)| **kind != 0xC7);
        let ends: Vec<_> = ends.map(|(kind, step)| (wrap(start.wrapping_add(step)), *kind)).collect();
        prop_assert_eq!(told, ends);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Senders that send again what was not acknowledged, over a network that loses and reorders, to a pool that is much too small
    /// and beside a queue pair that nobody reads: all messages arrive.
    #[test]
    fn the_buffer_never_locks_itself(
        keys in prop::collection::vec(any::<u64>(), 8),
        losses in prop::collection::vec(prop::bool::weighted(0.3), 40..200),
    ) {
        const PACKETS: u32 = 150;
        let config = Config { pool_slots: 5, guaranteed_slots: 1, ..config() };
        let mut buffer = ReorderBuffer::new(config);
        for qpn in 0..4 {
            buffer.write_context(&context(qpn, Profile::Solar, 0xFF_FFC0));
        }
        let first = Psn::new(0xFF_FFC0);
        // Nobody reads queue pair 3: it holds its slot and the shared one for ever.
        for step in 0..8 {
            buffer.receive(packet(3, Space::Requests, 0xFF_FFC0 + step, 4));
        }
        prop_assert_eq!(buffer.used_slots(3), 2);
        let mut left = [0u32; 3];
        let mut lost = losses.iter().cycle();
        for round in 0.. {
            prop_assert!(round < 2000, "no progress: {left:?}");
            let mut flight = Vec::new();
            for qpn in 0..3 {
                let missing = buffer.cumulative(qpn, Space::Requests).expect("open").next();
                let bitmap = buffer.sack_bitmap(qpn, Space::Requests, missing);
                let from = missing.steps_from(first);
                let to = PACKETS.min(from + WINDOW);
                flight.extend((from..to).filter(|step| bitmap >> (step - from) & 1 == 0).map(|step| (qpn, step)));
            }
            if flight.is_empty() && left == [PACKETS; 3] {
                break;
            }
            let key = |(qpn, step): &(u32, u32)| keys[(*step as usize + round) % 8].rotate_left(qpn * 7 + step % 61);
            flight.sort_by_key(key);
            for (qpn, step) in flight.into_iter().filter(|_| !*lost.next().expect("endless")) {
                let (_, given) = buffer.receive(packet(qpn, Space::Requests, 0xFF_FFC0 + step, 1));
                let passed = given.map(|given| given.packet.psn);
                let waited = drain(&mut buffer, qpn, Space::Requests);
                for psn in passed.into_iter().chain(waited) {
                    prop_assert_eq!(Psn::new(psn).steps_from(first), left[qpn as usize]);
                    left[qpn as usize] += 1;
                }
            }
        }
        prop_assert_eq!(buffer.free_slots(), 3);
    }
}
