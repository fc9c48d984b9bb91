//! From beats of memory to work requests: eight beats are an entry, which leaves with the queue pair of its ring.
//!
//! What memory refused, or gave too few or too many bytes of, leaves as a request of no operation. It never waits for one ring before another:
//! entries come in the order of the reads.

use spraynic_config::descriptor::{RingProgress, WorkRequest};
use spraynic_rtl::{AxiStream, Module, Signal, Stream, cat_lsb_first};

use super::{BUS_BITS, INDEX_BITS};
use crate::counter::{Counter, count_when};
use crate::fields::Fields;

/// Opcode of an entry that memory refused: no operation has this code.
const REFUSED_OPCODE: u32 = 0xff;

/// Gives an entry for each of `order` (index of the queue pair, number of the entry). Returns whether one leaves in this clock.
pub(super) fn entries<'a>(
    m: Module<'a>,
    order: Stream<'a>,
    data: AxiStream<'a>,
    requests: Stream<'a>,
    progress: Stream<'a>,
) -> Signal<'a> {
    let index_bits = order.data.width() - INDEX_BITS;
    let bits = requests.data.width();
    let complete = m.reg("entry_complete", 1).reset(0).doc("an entry is offered");
    let beat = m.reg("beat", 3).reset(0).doc("place of the next beat in its entry");
    let too_long = m
        .reg("entry_too_long", 1)
        .reset(0)
        .doc("eight beats have come, and the last was not among them");
    let refused = m
        .reg("entry_refused", 1)
        .doc("memory refused the entry that is offered");
    let owner = m
        .reg("entry_order", order.data.width())
        .doc("queue pair and number of the entry");
    let entry = m.reg("entry", bits).doc("beats of the entry, the newest on top");

    let leaves = (complete & requests.ready).named("entry_leaves");
    data.ready.set(order.valid & (!complete | leaves));
    let takes = data.fires().named("takes_beat");
    let ends = (takes & data.last).named("entry_ends");
    let whole = beat.all() & !too_long & data.keep.all() & !data.user;
    m.when(takes, || {
        entry.set(cat_lsb_first(&[entry.slice(bits - 1, BUS_BITS), data.data]));
        beat.set((beat + beat.lit(1)).gate(!data.last));
        too_long.set((too_long | beat.all()) & !data.last);
    });
    m.when(ends, || {
        refused.set(!whole);
        owner.set(order.data);
    });
    complete.set(ends | (complete & !leaves));
    order.ready.set(ends);

    let qpn = owner.part(0, index_bits).zero_extend(24);
    let index = owner.part(index_bits, INDEX_BITS);
    let fields = Fields::unpack::<WorkRequest>(entry);
    fields.get("qpn").ignore();
    let given = Fields::build::<WorkRequest>(|name, width| match name {
        "qpn" => qpn,
        "opcode" => refused.mux(m.lit(REFUSED_OPCODE, width), fields.get(name)),
        "signalled" => refused | fields.get(name),
        "cookie" => refused.mux(index.zero_extend(width), fields.get(name)),
        _ => fields.get(name).gate(!refused),
    });
    requests.data.set(given.pack());
    requests.valid.set(complete);
    let told = Fields::build::<RingProgress>(|name, width| match name {
        "qpn" => qpn,
        "consumer" => index + index.lit(1),
        _ => m.lit(0, width),
    });
    progress.data.set(told.pack());
    progress.valid.set(leaves);
    count_when(m, Counter("entries", "entries given, those refused too"), leaves);
    count_when(m, Counter("refused", "entries that memory refused"), leaves & refused);
    leaves
}
