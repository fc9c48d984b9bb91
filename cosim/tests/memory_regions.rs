//! memory_regions: golden model and RTL give the same answers and counters for the same regions and accesses.

#[path = "common/blocks.rs"]
mod blocks;
mod common;

use proptest::prelude::*;
use spraynic_config::descriptor::{Descriptor, MemoryAccess, MemoryRegion, MemoryTranslation};
use spraynic_config::{NicConfig, Preset};
use spraynic_cosim::{Frame, Limits, Outcome, Pattern, Simulation, SinkChecks, Stimulus};
use spraynic_golden::memory_regions::{Config, MemoryRegions};
use spraynic_rtl::Context;

/// Regions of the tables under test.
const SIZES: [u32; 3] = [2, 16, 1024];

/// Code of an invalidation in [`MemoryAccess::right`].
const INVALIDATE: u8 = 3;

fn config(regions: u32) -> NicConfig {
    let mut config = NicConfig::preset(Preset::G100);
    config.receive.memory_regions = regions;
    config
}

fn simulation(regions: u32) -> Simulation {
    let context = Context::new();
    let definition = spraynic_hdl::memory_regions::memory_regions(&context, &config(regions));
    blocks::simulation(&context, definition)
}

/// Gaps of regions and accesses, stalls of the answers.
type Patterns = [Pattern; 3];

fn run(
    simulation: &mut Simulation,
    regions: &[MemoryRegion],
    accesses: &[MemoryAccess],
    patterns: &Patterns,
) -> Result<Outcome, TestCaseError> {
    let [writing, asking, stalls] = patterns.clone();
    let stimulus = Stimulus::default()
        .source(
            "s_axis_region",
            writing,
            regions.iter().map(|region| Frame::new(region.pack())),
        )
        .source(
            "s_axis_access",
            asking,
            accesses.iter().map(|access| Frame::new(access.pack())),
        )
        .sink("m_axis_translation", stalls, SinkChecks::default());
    Ok(spraynic_cosim::run(simulation, &stimulus, Limits::default())?)
}

/// The golden model, told of writes and accesses in the order in which the RTL accepted them; of both in one clock the access is first.
fn check(
    size: u32,
    regions: &[MemoryRegion],
    accesses: &[MemoryAccess],
    patterns: &Patterns,
) -> Result<Outcome, TestCaseError> {
    let outcome = run(&mut simulation(size), regions, accesses, patterns)?;
    let accepted = |stream: &str, is_write: bool| {
        let timings = outcome.accepted(stream).iter().enumerate();
        timings
            .map(move |(index, timing)| (timing.last_cycle, is_write, index))
            .collect::<Vec<_>>()
    };
    let mut events = [accepted("s_axis_access", false), accepted("s_axis_region", true)].concat();
    events.sort_unstable();
    prop_assert_eq!(events.len(), regions.len() + accesses.len(), "everything is accepted");
    let mut model = MemoryRegions::new(Config::from(&config(size)));
    let mut answers = vec![];
    for (_, is_write, index) in events {
        if is_write {
            model.write_region(&regions[index]);
        } else {
            answers.push((accesses[index], model.access(&accesses[index])));
        }
    }
    let received = outcome.received("m_axis_translation");
    for ((access, expected), received) in answers.iter().zip(received) {
        prop_assert_eq!(expected, &MemoryTranslation::unpack(&received.data), "{:x?}", access);
    }
    prop_assert_eq!(answers.len(), received.len(), "one answer an access");
    let counters = model.counters();
    let named = [
        ("allowed", counters.allowed),
        ("refused_key", counters.refused_key),
        ("refused_protection_domain", counters.refused_protection_domain),
        ("refused_right", counters.refused_right),
        ("refused_bounds", counters.refused_bounds),
        ("invalidated", counters.invalidated),
        ("drop_region", counters.drop_region),
    ];
    prop_assert_eq!(outcome.counters.len(), named.len(), "every counter is compared");
    for (name, value) in named {
        prop_assert_eq!(outcome.counters[name], u64::from(value), "count_{}", name);
    }
    Ok(outcome)
}

/// Numbers near both ends of 64 bits and near each power of two between them, and any.
fn edge() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => 0u64..300,
        3 => (0u64..300).prop_map(|below| u64::MAX - below),
        2 => (0u32..64, -2i64..=2).prop_map(|(bit, off)| (1u64 << bit).wrapping_add_signed(off)),
        1 => any::<u64>(),
    ]
}

fn index() -> impl Strategy<Value = u32> {
    prop_oneof![30 => 0..3u32, 2 => 0..1030u32, 1 => any::<u32>().prop_map(|index| index >> 8)]
}

fn region() -> impl Strategy<Value = MemoryRegion> {
    let rights = any::<(bool, bool, bool)>();
    let ends = prop_oneof![
        // Any start and length, most of them beyond 2^64; and regions that end at 2^64 or some bytes off it.
        1 => (edge(), edge(), edge()),
        2 => (edge(), 0u64..300, edge()),
        1 => (1u64..5000, -1i64..=1).prop_map(|(length, off)| {
            let start = 0u64.wrapping_sub(length).wrapping_add_signed(off);
            (start, length, start)
        }),
    ];
    (index(), 0..2u8, prop::bool::weighted(0.9), rights, 0..2u32, ends).prop_map(
        |(
            index,
            generation,
            valid,
            (remote_write, remote_read, remote_atomic),
            protection_domain,
            (base, length, address),
        )| {
            MemoryRegion {
                generation,
                index,
                valid,
                remote_write,
                remote_read,
                remote_atomic,
                protection_domain: protection_domain * 0xFF_FFFF,
                base,
                length,
                address,
                ..MemoryRegion::default()
            }
        },
    )
}

/// Where an access lies: at an edge of one of the regions, give or take some bytes, or anywhere.
#[derive(Debug, Clone)]
struct Place {
    region: prop::sample::Index,
    at_end: bool,
    off: i64,
    length: u32,
    anywhere: Option<u64>,
}

fn place() -> impl Strategy<Value = Place> {
    let length = prop_oneof![6 => 0..300u32, 1 => any::<u32>(), 1 => Just(u32::MAX)];
    (
        any::<prop::sample::Index>(),
        any::<bool>(),
        -300i64..300,
        length,
        prop::option::weighted(0.2, edge()),
    )
        .prop_map(|(region, at_end, off, length, anywhere)| Place {
            region,
            at_end,
            off,
            length,
            anywhere,
        })
}

/// Regions and accesses: most by the key of one of the regions and near one of its ends.
fn given() -> impl Strategy<Value = (Vec<MemoryRegion>, Vec<MemoryAccess>)> {
    let key = prop_oneof![20 => Just(None), 1 => any::<u32>().prop_map(Some), 1 => (0..32u32).prop_map(Some)];
    let right = prop_oneof![4 => 0..3u8, 1 => Just(INVALIDATE)];
    let access = (
        place(),
        key,
        right,
        prop::bool::weighted(0.85),
        prop::bool::weighted(0.1),
    );
    (
        prop::collection::vec(region(), 1..20),
        prop::collection::vec(access, 1..150),
    )
        .prop_map(|(regions, accesses)| {
            let accesses = accesses.into_iter().map(|(place, key, right, same_domain, exact)| {
                let region = place.region.get(&regions);
                let end = region.base.wrapping_add(region.length);
                let near = if place.at_end { end } else { region.base }.wrapping_add_signed(place.off);
                let mut access = MemoryAccess {
                    key: key.unwrap_or(region.index << 8 | u32::from(region.generation)),
                    protection_domain: if same_domain {
                        region.protection_domain
                    } else {
                        0x80_0000
                    },
                    right,
                    address: place.anywhere.unwrap_or(near),
                    length: place.length,
                    ..MemoryAccess::default()
                };
                if exact {
                    (access.address, access.length) = (region.base, region.length as u32);
                }
                access
            });
            let accesses = accesses.collect();
            (regions, accesses)
        })
}

proptest! {
    #![proptest_config(common::config(150, "memory_regions"))]

    #[test]
    fn answers_and_counters_equal_the_golden_model(
        size in prop::sample::select(SIZES.to_vec()), (regions, accesses) in given(),
        patterns in [(); 3].map(|()| Pattern::strategy()),
    ) {
        if common::have_verilator() {
            check(size, &regions, &accesses, &patterns)?;
        }
    }
}

const REGION: MemoryRegion = MemoryRegion {
    generation: 0x5A,
    index: 1,
    valid: true,
    remote_write: true,
    remote_read: true,
    remote_atomic: true,
    reserved_0: 0,
    protection_domain: 7,
    base: 0x1000,
    length: 100,
    address: 0xFF00,
};

const ACCESS: MemoryAccess = MemoryAccess {
    key: 0x15A,
    protection_domain: 7,
    right: 0,
    reserved_0: 0,
    address: 0x1000,
    length: 100,
};

/// The table is cleared and the regions are written before the first access.
fn regions_first() -> Patterns {
    [Pattern::Always, Pattern::After { clocks: 150 }, Pattern::Always]
}

/// One access a clock, all of one region; four clocks to the answer.
#[test]
fn one_access_a_clock_and_four_clocks_to_its_answer() {
    if !common::have_verilator() {
        return;
    }
    let accesses: Vec<_> = (0..300)
        .map(|off| MemoryAccess {
            address: 0xFC0 + off,
            length: 8,
            ..ACCESS
        })
        .collect();
    let outcome = check(16, &[REGION], &accesses, &regions_first()).unwrap();
    let (taken, answers) = (
        outcome.accepted("s_axis_access"),
        outcome.received("m_axis_translation"),
    );
    assert_eq!(taken[299].last_cycle - taken[0].last_cycle, 299);
    for (taken, answer) in taken.iter().zip(answers) {
        assert_eq!(
            answer.last_cycle - taken.last_cycle,
            4,
            "clocks to the answer, as documented"
        );
    }
    assert_eq!(
        (outcome.counters["allowed"], outcome.counters["refused_bounds"]),
        (93, 207)
    );
}

/// Every carry of 65 bits: regions and accesses at 0, at 2^32, at 2^63 and at 2^64, and one byte off.
#[test]
fn nothing_wraps_at_any_edge() {
    if !common::have_verilator() {
        return;
    }
    let cases = [
        // base, length, address of the region; address, length of the access; the answer.
        (0, u64::MAX, 0, (u64::MAX - 1, 1), Some(u64::MAX - 1)),
        (0, u64::MAX, 0, (u64::MAX, 1), None),
        (0, u64::MAX, 1, (0, u32::MAX), Some(1)),
        (u64::MAX, 1, u64::MAX, (u64::MAX, 1), Some(u64::MAX)),
        (u64::MAX, 1, 0, (u64::MAX, 2), None),
        (u64::MAX - 99, 100, 5, (u64::MAX - 99, 100), Some(5)),
        (u64::MAX - 99, 100, 5, (u64::MAX - 99, 101), None),
        (u64::MAX - 99, 100, 5, (u64::MAX - 100, 100), None),
        (u64::MAX - 99, 100, 5, (0, 1), None),
        (u64::MAX - 99, 100, 5, (u64::MAX, u32::MAX), None),
        (1 << 32, 1 << 33, 1 << 63, (u64::from(u32::MAX), 1), None),
        (1 << 32, 1 << 33, 1 << 63, (1 << 32, u32::MAX), Some(1 << 63)),
        (1 << 32, 1 << 33, 1 << 63, (3 << 32, 1), None),
        (
            1 << 32,
            1 << 33,
            1 << 63,
            ((3 << 32) - 1, 1),
            Some((1 << 63) + (1 << 33) - 1),
        ),
        (1 << 63, 1, 0, ((1 << 63) - 1, 1), None),
        (1 << 63, 1, 0, (1 << 63, 1), Some(0)),
        (100, 0, 0, (100, 1), None),
        (100, 0, 0, (99, 1), None),
    ];
    for (base, length, address, (at, bytes), expected) in cases {
        let region = MemoryRegion {
            base,
            length,
            address,
            ..REGION
        };
        let access = MemoryAccess {
            address: at,
            length: bytes,
            ..ACCESS
        };
        let outcome = check(16, &[region], &[access], &regions_first()).unwrap();
        let answer = MemoryTranslation::unpack(&outcome.received("m_axis_translation")[0].data);
        let refusal = if expected.is_some() { 0 } else { 4 };
        let expected = (expected.unwrap_or(0), refusal);
        assert_eq!((answer.address, answer.refusal), expected, "{region:x?} {access:x?}");
        assert_eq!(outcome.counters["drop_region"], 0);
    }
    // A region that ends one byte beyond 2^64, as a virtual address or in memory, is nobody's.
    for (base, address) in [(u64::MAX - 98, 0), (0, u64::MAX - 98), (u64::MAX, u64::MAX)] {
        let region = MemoryRegion {
            base,
            address,
            ..REGION
        };
        let outcome = check(
            16,
            &[region],
            &[MemoryAccess {
                address: base,
                length: 1,
                ..ACCESS
            }],
            &regions_first(),
        );
        let counters = outcome.unwrap().counters;
        assert_eq!((counters["drop_region"], counters["refused_key"]), (1, 1));
    }
}

/// What comes right behind an invalidation or a write meets the table as it is then, at every distance and with a slow reader.
#[test]
fn invalidations_and_writes_hold_for_the_access_right_behind_them() {
    if !common::have_verilator() {
        return;
    }
    let invalidation = MemoryAccess {
        right: INVALIDATE,
        ..ACCESS
    };
    for size in [2, 16] {
        for stalls in [Pattern::Always, Pattern::Bursts { on: 1, off: 3 }] {
            for distance in 0..8 {
                // Somebody writes the region all the time; two invalidations, accesses between them.
                let accesses = [
                    vec![invalidation],
                    vec![ACCESS; distance],
                    vec![invalidation],
                    vec![ACCESS; 3],
                ]
                .concat();
                let accesses = accesses.repeat(8);
                let writing = Pattern::Bursts {
                    on: 1,
                    off: distance as u32 + 7,
                };
                let patterns = [writing, Pattern::Always, stalls.clone()];
                let outcome = check(size, &[REGION; 12], &accesses, &patterns).unwrap();
                assert!(outcome.counters["invalidated"] >= 4 && outcome.counters["refused_key"] > 4);
            }
        }
    }
    // The clocks that a write costs the accesses around it.
    let patterns = [Pattern::Bursts { on: 1, off: 60 }, Pattern::Always, Pattern::Always];
    let outcome = check(16, &[REGION; 2], &[ACCESS; 200], &patterns).unwrap();
    let taken = outcome.accepted("s_axis_access");
    let longest = taken
        .windows(2)
        .map(|pair| pair[1].last_cycle - pair[0].last_cycle)
        .max();
    assert_eq!(longest, Some(3), "clocks between the accesses around a write");
    // The clocks that an invalidation costs.
    let accesses = [vec![ACCESS; 5], vec![invalidation], vec![ACCESS; 5]].concat();
    let outcome = check(16, &[REGION], &accesses, &regions_first()).unwrap();
    let taken: Vec<u64> = outcome
        .accepted("s_axis_access")
        .iter()
        .map(|timing| timing.last_cycle)
        .collect();
    let gaps: Vec<u64> = taken.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps, [1, 1, 1, 1, 1, 4, 1, 1, 1, 1], "clocks between accesses");
}

/// Every index of the table is a region of its own, and none is beyond it.
#[test]
fn every_index_has_its_own_region() {
    if !common::have_verilator() {
        return;
    }
    for size in SIZES {
        let beyond = (0..24).map(|bit| 1 << bit | 1).filter(|index| *index >= size);
        let indices: Vec<u32> = (0..size).chain(beyond).collect();
        let regions = indices.iter().map(|index| MemoryRegion {
            index: *index,
            address: u64::from(*index) << 20,
            ..REGION
        });
        let accesses = indices.iter().map(|index| MemoryAccess {
            key: index << 8 | 0x5A,
            ..ACCESS
        });
        let patterns = [
            Pattern::Always,
            Pattern::After { clocks: 4 * size + 200 },
            Pattern::Always,
        ];
        let (regions, accesses) = (regions.collect::<Vec<_>>(), accesses.collect::<Vec<_>>());
        let outcome = check(size, &regions, &accesses, &patterns).unwrap();
        assert_eq!(outcome.counters["allowed"], u64::from(size));
    }
}

/// A reset clears the table: no key of before reaches anything.
#[test]
fn after_a_reset_no_region_is_valid() {
    if !common::have_verilator() {
        return;
    }
    let mut model = simulation(16);
    let before = run(&mut model, &[REGION], &[ACCESS], &regions_first()).unwrap();
    assert_eq!(before.counters["allowed"], 1);
    let after = run(&mut model, &[], &[ACCESS], &[(); 3].map(|()| Pattern::Always)).unwrap();
    assert_eq!((after.counters["allowed"], after.counters["refused_key"]), (0, 1));
}
