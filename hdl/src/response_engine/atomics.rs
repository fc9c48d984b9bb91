//! Atomics, one at a time: read 8 bytes, compute, write 8 bytes. roce: a duplicate is answered from the store and touches no memory.

use super::Request;
use super::table::State;
use spraynic_config::NicConfig;
use spraynic_config::descriptor::{AtomicWrite, Descriptor};
use spraynic_rtl::{MemoryHandle, Module, Signal, Stream, cat, cat_lsb_first};

/// What is being done.
mod step {
    pub(super) const IDLE: u8 = 0;
    /// Memory is asked for the value.
    pub(super) const READ: u8 = 1;
    pub(super) const DATA: u8 = 2;
    pub(super) const COMPUTE: u8 = 3;
    pub(super) const CHOOSE: u8 = 4;
    /// Memory is given the new value.
    pub(super) const WRITE: u8 = 5;
    pub(super) const WRITTEN: u8 = 6;
    /// The answer waits for its turn.
    pub(super) const FINISH: u8 = 7;
    /// The store is searched, from the newest answer on.
    pub(super) const SEARCH: u8 = 8;
    pub(super) const FETCH: u8 = 9;
    pub(super) const COMPARE: u8 = 10;
}

/// Kept answers of each queue pair: PSN and original value.
pub(super) struct Store<'a> {
    memory: MemoryHandle<'a>,
    index_bits: u32,
    slot_bits: u32,
}

impl<'a> Store<'a> {
    pub(super) fn new(m: Module<'a>, config: &NicConfig) -> Self {
        let slots = config.receive.stored_atomics;
        Self {
            memory: m.memory("stored_atomics", config.queue_pairs.count * slots, 24 + 64),
            index_bits: config.qpn_bits(),
            slot_bits: slots.trailing_zeros(),
        }
    }

    fn address(&self, qpn: Signal<'a>, slot: Signal<'a>) -> Signal<'a> {
        let index = qpn.part(0, self.index_bits);
        if self.slot_bits == 0 {
            return index;
        }
        cat(&[index, slot.part(0, self.slot_bits)])
    }

    /// Keeps an answer.
    pub(super) fn keep(
        &self,
        when: Signal<'a>,
        qpn: Signal<'a>,
        slot: Signal<'a>,
        psn: Signal<'a>,
        original: Signal<'a>,
    ) {
        self.memory
            .write(when, self.address(qpn, slot), cat_lsb_first(&[psn, original]));
    }
}

/// What the atomic at hand has come to.
pub(super) struct Atomics<'a> {
    /// One is at hand.
    pub(super) busy: Signal<'a>,
    /// Its answer is given in this clock, if its queue pair still receives.
    pub(super) finishes: Signal<'a>,
    /// A duplicate whose answer is not kept: it is dropped in this clock.
    pub(super) missing: Signal<'a>,
    /// Memory refused its write.
    pub(super) failed: Signal<'a>,
    /// The answer is from the store.
    pub(super) repeated: Signal<'a>,
    /// Value before the operation.
    pub(super) original: Signal<'a>,
    /// Counters.
    pub(super) events: Vec<(&'static str, &'static str, Signal<'a>)>,
}

const EVENTS: [(&str, &str); 3] = [
    ("atomics", "atomics executed"),
    ("atomic_errors", "atomics whose write memory refused"),
    (
        "drop_duplicate",
        "roce: duplicates of atomics dropped, whose answers are no longer kept",
    ),
];

impl<'a> Atomics<'a> {
    fn events(signals: [Signal<'a>; 3]) -> Vec<(&'static str, &'static str, Signal<'a>)> {
        EVENTS
            .into_iter()
            .zip(signals)
            .map(|((name, doc), signal)| (name, doc, signal))
            .collect()
    }

    /// No atomics are generated.
    pub(super) fn none(m: Module<'a>) -> Self {
        Self {
            busy: m.low(),
            finishes: m.low(),
            missing: m.low(),
            failed: m.low(),
            repeated: m.low(),
            original: m.lit(0, 64),
            events: Self::events([m.low(); 3]),
        }
    }
}

/// Executes the atomic at hand from `starts` on, and keeps its result until `may_finish`.
pub(super) fn atomics<'a>(
    m: Module<'a>,
    head: &Request<'a>,
    state: &State<'a>,
    starts: Signal<'a>,
    may_finish: Signal<'a>,
    store: Option<&Store<'a>>,
) -> Atomics<'a> {
    let reads = Stream::master(m, "m_axis_atomic_read", 64, "byte address of the 8 bytes to read");
    let data = Stream::slave(m, "s_axis_atomic_data", 64, "the 8 bytes: byte 0 of memory in bits 7:0");
    let writes = Stream::master(
        m,
        "m_axis_atomic_write",
        AtomicWrite::width(),
        "AtomicWrite: the 8 bytes to write",
    );
    let written = Stream::slave(m, "s_axis_atomic_written", 1, "the write is done; 1: memory refused it");

    let at = m.reg("atomic_step", 4).reset(step::IDLE);
    let is = |wanted: u8| at.eq_lit(wanted);
    let original = m.reg("original", 64).doc("value before the operation");
    let value = m.reg("new_value", 64);
    let changes = m.reg("value_changes", 1).doc("memory is to be written");
    let failed = m.reg("atomic_failed", 1).reset(0).doc("memory refused the write");
    let repeated = m.reg("atomic_repeated", 1).reset(0).doc("the answer is from the store");

    reads.valid.set(is(step::READ));
    reads.data.set(head.address);
    data.ready.set(is(step::DATA));
    writes.valid.set(is(step::WRITE));
    writes.data.set(cat_lsb_first(&[head.address, value]));
    written.ready.set(is(step::WRITTEN));
    let finishes = (is(step::FINISH) & may_finish).named("atomic_finishes");
    let is_duplicate = head.duplicate & !head.solar;

    let (found, missing) = store.map_or((m.low(), m.low()), |store| search(m, store, head, state, at, original));
    m.switch(at, |arms| {
        arms.case(step::IDLE, || {
            m.when(starts, || {
                failed.set_lit(0);
                repeated.set_lit(0);
                let begin = m.lit(step::READ, 4);
                at.set(match store {
                    Some(_) => is_duplicate.mux(m.lit(step::SEARCH, 4), begin),
                    None => begin,
                });
            });
        });
        arms.case(step::READ, || {
            m.when(reads.ready, || at.set_lit(step::DATA));
        });
        arms.case(step::DATA, || {
            original.set(data.data);
            m.when(data.valid, || at.set_lit(step::COMPUTE));
        });
        arms.case(step::COMPUTE, || {
            value.set(head.fetch_add.mux(original + head.swap_add, head.swap_add));
            changes.set(head.fetch_add | original.eq(head.compare));
            at.set_lit(step::CHOOSE);
        });
        arms.case(step::CHOOSE, || {
            at.set(changes.mux(m.lit(step::WRITE, 4), m.lit(step::FINISH, 4)));
        });
        arms.case(step::WRITE, || {
            m.when(writes.ready, || at.set_lit(step::WRITTEN));
        });
        arms.case(step::WRITTEN, || {
            m.when(written.valid, || {
                failed.set(written.data);
                at.set_lit(step::FINISH);
            });
        });
        arms.case(step::FINISH, || {
            m.when(finishes, || {
                at.set_lit(step::IDLE);
                failed.set_lit(0);
            });
        });
        if store.is_some() {
            arms.case(step::SEARCH, || {
                at.set(missing.mux(m.lit(step::IDLE, 4), m.lit(step::FETCH, 4)));
            });
            arms.case(step::FETCH, || at.set_lit(step::COMPARE));
            arms.case(step::COMPARE, || {
                repeated.set(found);
                at.set(found.mux(m.lit(step::FINISH, 4), m.lit(step::SEARCH, 4)));
            });
        }
    });
    if store.is_none() {
        is_duplicate.ignore();
    }

    Atomics {
        busy: !is(step::IDLE),
        finishes,
        missing,
        failed,
        repeated,
        original,
        events: Atomics::events([is(step::COMPUTE), written.fires() & written.data, missing]),
    }
}

/// Searches the store for the PSN of the request at hand: gives whether the answer of this step is its own (it is in `original` then), and
/// whether there is none.
fn search<'a>(
    m: Module<'a>,
    store: &Store<'a>,
    head: &Request<'a>,
    state: &State<'a>,
    at: Signal<'a>,
    original: Signal<'a>,
) -> (Signal<'a>, Signal<'a>) {
    let slot = m.reg("searched_slot", 4);
    // With one answer kept there is one place for it.
    slot.ignore();
    let left = m.reg("slots_left", 5).doc("kept answers that have not been looked at");
    let is = |wanted: u8| at.eq_lit(wanted);
    let searches = is(step::SEARCH);
    let missing = (searches & !left.any()).named("atomic_missing");
    let kept = store.memory.read(searches, store.address(head.qpn, slot));
    let kept_psn = m.reg("kept_psn", 24);
    m.when(is(step::IDLE), || {
        slot.set(state.next - state.next.lit(1));
        left.set(state.stored);
    });
    m.when(searches, || {
        slot.set(slot - slot.lit(1));
        left.set(left - left.lit(1));
    });
    m.when(is(step::FETCH), || {
        kept_psn.set(kept.part(0, 24));
        original.set(kept.part(24, 64));
    });
    (kept_psn.eq(head.psn), missing)
}
