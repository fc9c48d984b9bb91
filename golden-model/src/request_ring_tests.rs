//! What `request_ring` promises: each entry told of is read once and in its order, none that was not, and rings take turns.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const QUEUE_PAIRS: u32 = 4;

fn rings() -> RequestRings {
    RequestRings::new(Config {
        queue_pairs: QUEUE_PAIRS,
    })
}

fn ring(qpn: u32, entries_log2: u8) -> RequestRing {
    RequestRing {
        qpn,
        entries_log2,
        valid: true,
        base: base(qpn),
        ..RequestRing::default()
    }
}

/// A ring of 2^15 entries takes 2 MiB.
fn base(qpn: u32) -> u64 {
    (u64::from(qpn) + 1) << 24 | 0x40
}

fn bell(qpn: u32, producer: u16) -> Doorbell {
    Doorbell {
        qpn,
        producer,
        ..Doorbell::default()
    }
}

/// Addresses that are asked for until nothing is left; memory answers at once.
fn read_all(rings: &mut RequestRings) -> Vec<(u32, u64)> {
    let mut reads = vec![];
    while let Some(turn) = rings.turn() {
        if let Some(read) = turn.read {
            reads.push((turn.qpn, read.address));
            assert!(rings.data(&[0; 64], false).is_some());
        }
    }
    reads
}

#[test]
fn entries_are_read_in_order_and_around_the_ring() {
    let mut rings = rings();
    rings.write_ring(&ring(1, 2));
    let mut addresses = vec![];
    for producer in [3, 4, 7, 11] {
        rings.doorbell(&bell(1, producer));
        addresses.extend(read_all(&mut rings));
    }
    let expected: Vec<_> = (0..11u64).map(|index| (1, base(1) + index % 4 * 64)).collect();
    assert_eq!(addresses, expected);
    assert_eq!(rings.counters().doorbells, 4);
}

#[test]
fn queue_pairs_take_turns_entry_by_entry() {
    let mut rings = rings();
    for (qpn, producer) in [(2, 3), (0, 1), (3, 2)] {
        rings.write_ring(&ring(qpn, 4));
        rings.doorbell(&bell(qpn, producer));
    }
    let turns: Vec<u32> = read_all(&mut rings).into_iter().map(|(qpn, _)| qpn).collect();
    assert_eq!(turns, [2, 0, 3, 2, 3, 2]);
}

#[test]
fn many_doorbells_and_writes_give_no_more_turns() {
    let mut rings = rings();
    for qpn in [1, 2] {
        rings.write_ring(&ring(qpn, 4));
    }
    for doorbell in [bell(1, 1), bell(1, 2), bell(1, 2), bell(2, 3)] {
        rings.doorbell(&doorbell);
    }
    rings.write_ring(&ring(1, 4));
    for producer in 1..=3 {
        rings.doorbell(&bell(1, producer));
    }
    let turns: Vec<u32> = read_all(&mut rings).into_iter().map(|(qpn, _)| qpn).collect();
    assert_eq!(turns, [1, 2, 1, 2, 1, 2]);
}

#[test]
fn an_entry_speaks_for_the_queue_pair_of_its_ring() {
    let mut rings = rings();
    rings.write_ring(&ring(3, 0));
    rings.doorbell(&bell(3, 1));
    assert!(rings.turn().is_some_and(|turn| turn.read.is_some()));
    let entry = WorkRequest {
        opcode: 2,
        qpn: 1,
        cookie: 77,
        length: 5,
        ..WorkRequest::default()
    };
    let (request, progress) = rings.data(&entry.pack(), false).unwrap();
    assert_eq!(request, WorkRequest { qpn: 3, ..entry });
    assert_eq!((progress.qpn, progress.consumer), (3, 1));
}

#[test]
fn what_memory_refuses_is_given_as_a_request_of_no_operation() {
    for (bytes, refused) in [
        (vec![1; 64], true),
        (vec![2; 63], false),
        (vec![], false),
        (vec![3; 65], false),
    ] {
        let mut rings = rings();
        rings.write_ring(&ring(2, 3));
        rings.doorbell(&bell(2, 2));
        for index in 0..2u64 {
            rings.turn();
            let (request, _) = rings.data(&bytes, refused).unwrap();
            let expected = WorkRequest {
                opcode: REFUSED_OPCODE,
                signalled: true,
                qpn: 2,
                cookie: index,
                ..WorkRequest::default()
            };
            assert_eq!(request, expected);
        }
        assert_eq!((rings.counters().entries, rings.counters().refused), (2, 2));
    }
}

#[test]
fn doorbells_that_cannot_be_right_are_counted_and_change_nothing() {
    let mut rings = rings();
    rings.write_ring(&ring(1, 2));
    rings.doorbell(&bell(0, 1));
    rings.doorbell(&bell(QUEUE_PAIRS, 1));
    assert_eq!(rings.counters().drop_queue_pair, 2, "without a ring; beyond the table");
    rings.doorbell(&bell(1, 3));
    rings.doorbell(&bell(1, 2));
    rings.doorbell(&bell(1, 5));
    rings.doorbell(&bell(1, u16::MAX));
    assert_eq!(
        rings.counters().drop_producer,
        3,
        "back; beyond the ring; back behind 0"
    );
    rings.doorbell(&bell(1, 3));
    assert_eq!(rings.counters().doorbells, 2, "a repeated one is none of these");
    assert_eq!(read_all(&mut rings).len(), 3);
}

#[test]
fn a_write_begins_the_ring_anew_and_a_wrong_one_takes_it_away() {
    let mut rings = rings();
    rings.write_ring(&ring(1, 3));
    rings.doorbell(&bell(1, 5));
    let moved = RequestRing {
        base: 0x1000,
        ..ring(1, 3)
    };
    rings.write_ring(&moved);
    assert_eq!(rings.turn(), Some(Turn { qpn: 1, read: None }), "nothing is told of it");
    rings.doorbell(&bell(1, 2));
    assert_eq!(read_all(&mut rings), [(1, 0x1000), (1, 0x1040)]);
    rings.write_ring(&RequestRing { base: 0x1020, ..moved });
    rings.write_ring(&RequestRing {
        qpn: QUEUE_PAIRS,
        ..moved
    });
    assert_eq!(rings.counters().drop_ring, 2);
    rings.doorbell(&bell(1, 1));
    assert_eq!(rings.counters().drop_queue_pair, 1, "it has no ring any more");
    rings.write_ring(&moved);
    rings.write_ring(&RequestRing { valid: false, ..moved });
    rings.doorbell(&bell(1, 1));
    assert_eq!((rings.counters().drop_ring, rings.counters().drop_queue_pair), (2, 2));
}

#[test]
fn no_more_reads_than_four_are_under_way() {
    let mut rings = rings();
    rings.write_ring(&ring(0, 15));
    rings.doorbell(&bell(0, 1 << 15));
    assert_eq!((0..10).filter_map(|_| rings.turn()).count(), READS);
    assert!(rings.data(&[0; 64], false).is_some());
    assert!(rings.turn().is_some() && rings.turn().is_none());
}

/// What happens to the block.
#[derive(Debug, Clone)]
enum Step {
    Write(RequestRing),
    Bell(Doorbell),
    /// A doorbell that goes back by so many from what was told.
    Back(u32, u16),
    /// Entries that the host writes, and a doorbell of them.
    Post(u32, u16),
    Turn,
    Data(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let qpn = || prop_oneof![20 => 0..QUEUE_PAIRS, 1 => any::<u32>().prop_map(|qpn| qpn & 0xff_ffff)];
    let write = (qpn(), 0..16u8, prop::bool::weighted(0.9), prop::bool::weighted(0.1));
    let write = write.prop_map(|(qpn, entries_log2, valid, crooked)| RequestRing {
        valid,
        base: base(qpn & 3) + u64::from(crooked) * 8,
        ..ring(qpn, entries_log2)
    });
    prop_oneof![
        1 => write.prop_map(Step::Write),
        2 => (qpn(), any::<u16>()).prop_map(|(qpn, producer)| Step::Bell(bell(qpn, producer))),
        2 => (0..QUEUE_PAIRS, 1..4u16).prop_map(|(qpn, less)| Step::Back(qpn, less)),
        8 => (0..QUEUE_PAIRS, prop_oneof![4 => 0..8u16, 1 => any::<u16>()]).prop_map(|(qpn, more)| Step::Post(qpn, more)),
        16 => Just(Step::Turn),
        16 => prop::bool::weighted(0.1).prop_map(Step::Data),
    ]
}

/// A host that knows what it has written and told, and takes no shortcut through the block.
#[derive(Default)]
struct Host {
    /// Ring, entries told, entries asked for, of each queue pair that has a ring; they do not wrap.
    rings: BTreeMap<u32, (RequestRing, u64, u64)>,
    /// Queue pair and number of the entry.
    reads: VecDeque<(u32, u64)>,
}

impl Host {
    fn bell(&mut self, doorbell: &Doorbell) {
        let Some((ring, told, asked)) = self.rings.get_mut(&doorbell.qpn) else {
            return;
        };
        // The next number from those asked for on with these low bits, if the ring holds it and it was not told before.
        let next = *asked + u64::from(doorbell.producer.wrapping_sub(*asked as u16));
        if next >= *told && next - *asked <= 1 << ring.entries_log2 {
            *told = next;
        }
    }
}

proptest! {
    /// Whatever doorbells come: each entry told of is asked for once and in order per queue pair, none that was not, and given in that order.
    #[test]
    fn each_entry_told_of_once_and_in_order_and_no_other(steps in prop::collection::vec(step(), 1..250)) {
        let mut block = rings();
        let mut host = Host::default();
        let turns = std::iter::repeat_n(Step::Turn, 8).chain(std::iter::repeat_n(Step::Data(false), 8));
        // All that is left at the end, as far as it goes.
        let end: Vec<Step> = std::iter::repeat_n(turns, 10).flatten().collect();
        for step in steps.iter().chain(&end) {
            match *step {
                Step::Write(write) => {
                    block.write_ring(&write);
                    if write.qpn < QUEUE_PAIRS {
                        host.rings.remove(&write.qpn);
                        if write.valid && write.base % 64 == 0 {
                            host.rings.insert(write.qpn, (write, 0, 0));
                        }
                    }
                }
                Step::Bell(doorbell) => {
                    block.doorbell(&doorbell);
                    host.bell(&doorbell);
                }
                Step::Back(qpn, less) => {
                    if let Some((_, told, _)) = host.rings.get(&qpn) {
                        let before = block.counters().drop_producer;
                        block.doorbell(&bell(qpn, (*told as u16).wrapping_sub(less)));
                        prop_assert_eq!(block.counters().drop_producer, before + 1, "an index that goes back");
                    }
                }
                Step::Post(qpn, more) => {
                    if let Some((ring, told, asked)) = host.rings.get(&qpn) {
                        let room = (1u64 << ring.entries_log2) - (told - asked);
                        let producer = told + u64::from(more) % (room + 1);
                        let doorbell = bell(qpn, producer as u16);
                        let before = block.counters().doorbells;
                        block.doorbell(&doorbell);
                        prop_assert_eq!(block.counters().doorbells, before + 1, "a right doorbell is accepted");
                        host.bell(&doorbell);
                    }
                }
                Step::Turn => {
                    let turn = block.turn();
                    let something = host.rings.values().any(|(_, told, asked)| told > asked);
                    let may = host.reads.len() < READS;
                    prop_assert!(turn.is_some() || !something || !may, "an entry waits and has no turn");
                    if let Some(Turn { qpn, read: Some(read) }) = turn {
                        let known = host.rings.get_mut(&qpn);
                        prop_assert!(may && known.is_some());
                        let (ring, told, asked) = known.expect("as asserted");
                        prop_assert!(*asked < *told, "read beyond the producer");
                        let place = *asked % (1 << ring.entries_log2);
                        prop_assert_eq!((read.address, read.length), (ring.base + 64 * place, 64));
                        host.reads.push_back((qpn, *asked));
                        *asked += 1;
                    }
                }
                Step::Data(refused) => {
                    let given = block.data(&[0x55; 64], refused);
                    let expected = host.reads.pop_front();
                    prop_assert_eq!(given.is_some(), expected.is_some());
                    if let (Some((request, progress)), Some((qpn, index))) = (given, expected) {
                        prop_assert_eq!(request.qpn, qpn);
                        prop_assert_eq!((progress.qpn, progress.consumer), (qpn, (index + 1) as u16));
                        prop_assert_eq!(request.opcode, if refused { REFUSED_OPCODE } else { 0x55 });
                    }
                }
            }
        }
    }

    /// Between two turns of a queue pair whose ring has entries, every other one that has some has a turn.
    #[test]
    fn nobody_waits_longer_than_for_all_others(counts in prop::collection::vec(1..20u16, QUEUE_PAIRS as usize)) {
        let mut block = rings();
        for (qpn, count) in (0..).zip(&counts) {
            block.write_ring(&ring(qpn, 5));
            block.doorbell(&bell(qpn, *count));
        }
        let mut left = counts.clone();
        while left.iter().any(|left| *left > 0) {
            let round: Vec<u32> = (0..QUEUE_PAIRS).filter(|qpn| left[*qpn as usize] > 0).collect();
            for qpn in round {
                let turn = block.turn();
                prop_assert!(turn.is_some_and(|turn| turn.qpn == qpn && turn.read.is_some()));
                block.data(&[0; 64], false);
                left[qpn as usize] -= 1;
            }
        }
        prop_assert_eq!(block.turn(), None);
    }
}
