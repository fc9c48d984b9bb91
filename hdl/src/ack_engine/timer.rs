//! The timer: spaces with something unreported stand in a ring, each once, and one of them is looked at in each clock.
//!
//! A space whose time has come asks for entry to the pipeline; one that has nothing to report any more leaves the ring by way of the
//! pipeline too, so that one place alone knows who stands in it. It never decides that a SACK is given: the judge does, which
//! has seen what came in between.

use spraynic_config::NicConfig;
use spraynic_rtl::{Bundle, Module, ReadDuringWrite, Signal, Stream, bundle};

use super::judge::Judged;
use crate::stream_fifo;

bundle! {
    /// What the ring asks the pipeline.
    pub(crate) struct Request {
        due: 1, "the time of a space has come";
        idle: 1, "a space has nothing unreported: it may leave the ring";
        space: 17, "the space: queue pair number, sequence space at bit 0";
        epoch: 3, "of the time that was looked at";
    }
}

bundle! {
    /// What the ring knows of a space.
    struct Unreported {
        unreported: 1, "there is something";
        epoch: 3, "count of such times";
        deadline: 64, "when it must be reported, in nanoseconds";
    }
}

/// Builds the ring. `taken`: the request enters the pipeline.
pub(super) fn timer<'a>(
    m: Module<'a>,
    config: &NicConfig,
    judged: &Judged<'a>,
    time_ns: Signal<'a>,
    taken: Signal<'a>,
) -> Request<'a> {
    let (spaces, index_bits) = (2 * config.queue_pairs.count, config.qpn_bits() + 1);
    let advances = m.wire("ring_advances", 1);

    // Each space at most once, so the FIFO is never full.
    let joins = Stream::wires(m, "ring_in", index_bits);
    let first = stream_fifo::buffer(m, "u_ring", joins, spaces);
    first.ready.set(advances);

    let memory = m
        .memory("unreported", spaces, Unreported::packed_width())
        .read_during_write(ReadDuringWrite::New);
    let change = Unreported {
        unreported: judged.unreported,
        epoch: judged.epoch,
        deadline: judged.deadline,
    };
    memory.write(judged.changes, judged.space, change.pack());

    // Three clocks: the RAM, a register behind it, the comparison.
    let read = memory.read(advances, first.data);
    let valid_1 = m.reg("ring_valid_1", 1).reset(0);
    let valid_2 = m.reg("ring_valid_2", 1).reset(0);
    let valid_3 = m.reg("ring_valid_3", 1).reset(0);
    let [space_1, space_2, space_3] = [1, 2, 3].map(|clock| m.reg(&format!("ring_space_{clock}"), index_bits));
    let looked_at = Unreported::regs(m, "ring_2");
    let (due, idle) = (m.reg("ring_due", 1).reset(0), m.reg("ring_idle", 1).reset(0));
    let epoch = m.reg("ring_epoch", 3);
    m.when(advances, || {
        valid_1.set(first.valid);
        space_1.set(first.data);
        valid_2.set(valid_1);
        space_2.set(space_1);
        looked_at.set(&Unreported::unpack(read));
        valid_3.set(valid_2);
        space_3.set(space_2);
        due.set(valid_2 & looked_at.unreported & time_ns.ge(looked_at.deadline));
        idle.set(valid_2 & !looked_at.unreported);
        epoch.set(looked_at.epoch);
    });

    // What does not leave goes back to the end. Who joins goes first.
    let may_go_back = (valid_3 & !due).named("ring_may_go_back");
    joins.valid.set(judged.joins_ring | (may_go_back & !taken));
    joins.data.set(judged.joins_ring.mux(judged.space, space_3));
    // `taken` comes late.
    let passes = (!valid_3 | (may_go_back & !judged.joins_ring)).named("ring_passes");
    advances.set(passes | taken);
    m.assert("ring_has_room", !joins.valid | joins.ready);
    Request {
        due,
        idle,
        space: space_3.zero_extend(17),
        epoch,
    }
}
