//! The table of regions: what a region is in one RAM, whether it is valid in another, which is cleared after reset.
//!
//! A write takes two clocks, in which no access is taken; so no read meets a write in the RAM. The end of a region is formed once, when it
//! is written, in 65 bits.

use super::{Counter, Fields, count_when};
use crate::sweep;
use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Descriptor, MemoryRegion};
use spraynic_rtl::{Bundle, Module, Signal, Stream, bundle};

bundle! {
    /// What the table keeps of a region.
    pub(super) struct Region {
        generation: 8, "low byte of its R_Key";
        remote_write: 1, "peers may WRITE";
        remote_read: 1, "peers may READ";
        remote_atomic: 1, "peers may use atomics";
        protection_domain: 24, "its protection domain";
        base: 64, "virtual address of its first byte";
        end: 65, "virtual address behind its last byte, at most 2^64";
        address: 64, "address of its first byte in memory";
    }
}

/// The read port.
pub(super) struct Reads<'a> {
    /// Reads the region of `key`.
    pub(super) enable: Signal<'a>,
    /// R_Key.
    pub(super) key: Signal<'a>,
}

/// An invalidation by a peer.
pub(super) struct Invalidation<'a> {
    /// One is on its way: no region is written meanwhile, so that they come in the order in which they were taken.
    pub(super) pending: Signal<'a>,
    /// The region at `index` becomes invalid.
    pub(super) enable: Signal<'a>,
    /// Index of the region, within the table.
    pub(super) index: Signal<'a>,
}

/// What the accesses see of the table.
pub(super) struct Table<'a> {
    /// A packed [`Region`], one clock after the read.
    pub(super) region: Signal<'a>,
    /// Whether it is valid.
    pub(super) valid: Signal<'a>,
    /// No access may be taken.
    pub(super) blocked: Signal<'a>,
}

/// Builds the table and its writes.
pub(super) fn table<'a>(
    m: Module<'a>,
    config: &NicConfig,
    writes: Stream<'a>,
    reads: Reads<'a>,
    invalidation: Invalidation<'a>,
) -> Table<'a> {
    let regions = config.receive.memory_regions;
    let index_bits = regions.trailing_zeros();
    let sweep = sweep::after_reset(m, index_bits);

    // Clock 1: the write is held. Clock 2: its ends are known. Then it is written.
    let state = |name, doc| m.reg(name, 1).reset(0).doc(doc);
    let waiting = state("region_waiting", "a region waits to be written");
    let summed = state("region_summed", "`region_end` and `memory_end` are valid");
    let held = m.reg("region_held", MemoryRegion::width());
    let region = Fields::unpack::<MemoryRegion>(held);
    region.get("reserved_0").ignore();
    writes.ready.set(!(sweep.active | waiting | invalidation.pending));
    let write = (waiting & summed & !invalidation.pending).named("region_write");
    m.when(writes.fires(), || {
        waiting.set_lit(1);
        held.set(writes.data);
    });
    m.when(write, || waiting.set_lit(0));
    summed.set(waiting & !write);
    let end_of = |name: &str, start: &str| {
        let end = m.reg(name, 65).doc("address behind the last byte");
        end.set(region.get(start).add_wide(region.get("length")));
        end
    };
    let (end, memory_end) = (end_of("region_end", "base"), end_of("memory_end", "address"));
    // A region may end at 2^64 and not beyond.
    let fits = |end: Signal<'a>| !(end.bit(64) & end.part(0, 64).any());
    let fits = (fits(end) & fits(memory_end)).named("region_fits");
    let index = region.get("index");
    let in_table = !(index >> index_bits).any();
    let valid = region.get("valid");
    count_when(
        m,
        Counter(
            "drop_region",
            "region writes refused: an index beyond the table, or a region that ends beyond 2^64",
        ),
        write & !(in_table & (fits | !valid)),
    );

    let entry = Region {
        generation: region.get("generation"),
        remote_write: region.get("remote_write"),
        remote_read: region.get("remote_read"),
        remote_atomic: region.get("remote_atomic"),
        protection_domain: region.get("protection_domain"),
        base: region.get("base"),
        end,
        address: region.get("address"),
    }
    .pack();
    let write_index = index.part(0, index_bits);
    let store = write & in_table;
    let read_index = reads.key.part(8, index_bits);
    let contents = m.memory("regions", regions, entry.width());
    contents.write(store, write_index, entry);
    let validity = m.memory("regions_valid", regions, 1);
    validity.write(
        sweep.active | invalidation.enable | store,
        sweep.active.mux(
            sweep.index,
            invalidation
                .enable
                .mux(invalidation.index.part(0, index_bits), write_index),
        ),
        store & valid & fits,
    );
    m.assert("one_writer_of_validity", !(store & invalidation.enable));
    m.assert(
        "an_invalidated_region_is_in_the_table",
        !(invalidation.enable & (invalidation.index >> index_bits).any()),
    );
    Table {
        region: contents.read(reads.enable, read_index),
        valid: validity.read(reads.enable, read_index),
        blocked: (sweep.active | waiting).named("accesses_blocked"),
    }
}
