//! `memory_regions`: says whether a peer may reach memory by an R_Key, and where that memory is.
//!
//! It owns the table of regions. It never touches memory. Four registers from an access to its answer, all moving together: with the read
//! of the region (1), with the region (2), with the differences and sums (3), with the verdict (4). Writes and invalidations change the table only
//! while no access could meet them half done. Theory of operation: `docs/src/blocks/memory_regions.md`.

mod table;

use crate::counter::{Counter, count_when};
use crate::fields::Fields;
use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Descriptor, MemoryAccess, MemoryRegion, MemoryTranslation};
use spraynic_rtl::{Bundle, Context, Definition, Module, Signal, Stream, bundle};
use table::Region;

/// Name of the block.
pub const NAME: &str = "memory_regions";

/// Code of `MemoryAccess::right` for an invalidation.
const RIGHT_INVALIDATE: u32 = 3;

bundle! {
    /// An access between its region and its verdict: register 3.
    struct Checked {
        index: 24, "region that the key names";
        invalidation: 1, "the access is an invalidation";
        nothing: 1, "the access is of no byte";
        key: 1, "no valid region has the key";
        protection_domain: 1, "the region is of another protection domain";
        right: 1, "the region does not allow it";
        before: 1, "the access begins before the region: a borrow out of address - base";
        offset: 64, "address - base; right unless there is a borrow";
        access_end: 65, "address behind the last byte of the access";
        region_end: 65, "virtual address behind the last byte of the region";
        address: 64, "address of the region's first byte in memory";
    }
}

/// The block for this configuration.
#[must_use]
pub fn memory_regions<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let m = context.module(&format!("{NAME}_r{}", config.receive.memory_regions));
    m.doc("Answers for each access whether a peer may reach memory by an R_Key, and where that memory is; one access a clock.\nNo sum of what a peer names is cut: sums have 65 bits.");
    let writes = Stream::slave(
        m,
        "s_axis_region",
        MemoryRegion::width(),
        "MemoryRegion: writes a region; holds for every access taken later",
    );
    let accesses = Stream::slave(
        m,
        "s_axis_access",
        MemoryAccess::width(),
        "MemoryAccess: what a peer wants to reach, or an R_Key to invalidate",
    );
    let translations = Stream::master(
        m,
        "m_axis_translation",
        MemoryTranslation::width(),
        "MemoryTranslation: one for each access, in order",
    );

    let valid = |name, doc| m.reg(name, 1).reset(0).doc(doc);
    let valid_1 = valid("valid_1", "an access's region comes out of the RAM");
    let valid_2 = valid("valid_2", "an access has its region");
    let valid_3 = valid("valid_3", "an access is being judged");
    let valid_4 = valid("valid_4", "an answer is offered");
    let advance = (!valid_4 | translations.ready).named("advance");

    // An invalidation holds up the accesses behind it until the table has changed.
    let invalidating = valid("invalidating", "an invalidation has not changed the table yet");
    let checked = Checked::regs(m, "checked");
    let refused_3 = (checked.key | checked.protection_domain).named("invalidation_refused");
    let invalidate = (valid_3 & checked.invalidation & !refused_3).named("invalidate");
    let table = table::table(
        m,
        config,
        writes,
        table::Reads {
            enable: accesses.fires(),
            key: Fields::unpack::<MemoryAccess>(accesses.data).get("key"),
        },
        table::Invalidation {
            pending: invalidating,
            enable: invalidate,
            index: checked.index,
        },
    );
    accesses.ready.set(advance & !table.blocked & !invalidating);
    let right = Fields::unpack::<MemoryAccess>(accesses.data).get("right");
    m.when(accesses.fires() & right.eq_lit(RIGHT_INVALIDATE), || {
        invalidating.set_lit(1);
    })
    .else_when(valid_3 & advance & checked.invalidation, || invalidating.set_lit(0));

    // Register 1: the access; its region is being read. Register 2: the access with its region.
    let access_1 = m.reg("access_1", accesses.data.width());
    let access_2 = m.reg("access_2", accesses.data.width());
    let region_2 = Region::regs(m, "region_2");
    let region_valid_2 = m.reg("region_valid_2", 1);
    m.when(advance, || {
        valid_1.set(accesses.fires());
        valid_2.set(valid_1);
        valid_3.set(valid_2);
        valid_4.set(valid_3);
        access_1.set(accesses.data);
        access_2.set(access_1);
        region_2.set(&Region::unpack(table.region));
        region_valid_2.set(table.valid);
        // Register 3: everything but the end.
        checked.set(&compare(m, config, access_2, &region_2, region_valid_2));
    });

    // Register 4: the answer.
    let verdict = judge(&checked);
    let answer = m
        .reg("answer", MemoryTranslation::width())
        .doc("the answer that is offered");
    let address = checked.address + checked.offset;
    let packed = Fields::build::<MemoryTranslation>(|name, width| match name {
        "address" => address.gate(verdict.reaches),
        "refusal" => verdict.refusal,
        _ => m.lit(0, width),
    })
    .pack();
    m.when(advance, || answer.set(packed));
    translations.data.set(answer);
    translations.valid.set(valid_4);

    let counted = valid("counted", "an access was judged in the clock before");
    counted.set(valid_3 & advance);
    for (name, doc, event) in verdict.counters {
        let event = event.delayed(&format!("counted_as_{name}"));
        count_when(m, Counter(name, doc), counted & event);
    }
    m.finish()
}

/// Compares an access with its region, but for the end, and forms what the end is judged by.
fn compare<'a>(
    m: Module<'a>,
    config: &NicConfig,
    access: Signal<'a>,
    region: &Region<'a>,
    region_valid: Signal<'a>,
) -> Checked<'a> {
    let access = Fields::unpack::<MemoryAccess>(access);
    access.get("reserved_0").ignore();
    let (key, right, address) = (access.get("key"), access.get("right"), access.get("address"));
    let index = key.part(8, 24);
    let in_table = !(index >> config.receive.memory_regions.trailing_zeros()).any();
    let same_generation = key.part(0, 8).eq(region.generation);
    let may = right.select(&[region.remote_write, region.remote_read, region.remote_atomic, m.high()]);
    let wide = |address: Signal<'a>| address.zero_extend(65);
    let difference = (wide(address) - wide(region.base)).named("address_minus_base");
    Checked {
        index,
        invalidation: right.eq_lit(RIGHT_INVALIDATE),
        nothing: !access.get("length").any(),
        key: !(region_valid & in_table & same_generation),
        protection_domain: access.get("protection_domain").ne(region.protection_domain),
        right: !may,
        before: difference.bit(64),
        offset: difference.part(0, 64),
        access_end: wide(address) + access.get("length").zero_extend(65),
        region_end: region.end,
        address: region.address,
    }
}

/// What is said of an access.
struct Verdict<'a> {
    /// It reaches memory: the answer has an address.
    reaches: Signal<'a>,
    /// Code of the refusal, 0 for none.
    refusal: Signal<'a>,
    /// Name, meaning and event of each counter.
    counters: Vec<(&'static str, &'static str, Signal<'a>)>,
}

/// The first reason that applies. An access of no byte needs no key; an invalidation has neither right nor bounds.
fn judge<'a>(checked: &Checked<'a>) -> Verdict<'a> {
    let m = checked.key.module();
    let access = !checked.invalidation;
    let beyond = checked.access_end.gt(checked.region_end).named("ends_beyond");
    let asked = (checked.invalidation | !checked.nothing).named("needs_a_key");
    let reasons = [
        (
            "refused_key",
            "accesses and invalidations by a key that no valid region has",
            checked.key,
        ),
        (
            "refused_protection_domain",
            "accesses and invalidations of a region of another protection domain",
            checked.protection_domain,
        ),
        (
            "refused_right",
            "accesses that the region does not allow",
            access & checked.right,
        ),
        (
            "refused_bounds",
            "accesses with a byte outside of the region",
            access & (checked.before | beyond),
        ),
    ];
    let mut good = asked;
    let mut refusal = m.lit(0, 3);
    let mut counters = vec![];
    for ((name, doc, wrong), code) in reasons.into_iter().zip(1u32..) {
        let refused = (good & wrong).named(name);
        refusal = refusal | m.lit(code, 3).gate(refused);
        counters.push((name, doc, refused));
        good = good & !wrong;
    }
    counters.push((
        "allowed",
        "accesses allowed, those of no byte too",
        access & (good | !asked),
    ));
    counters.push((
        "invalidated",
        "regions that peers invalidated",
        checked.invalidation & good,
    ));
    Verdict {
        reaches: (access & good).named("reaches_memory"),
        refusal,
        counters,
    }
}
