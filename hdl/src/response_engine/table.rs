//! The state of each queue pair in block RAM: whether it receives, the PSN of its next response (solar), where the next answer of an atomic goes.
//!
//! The state of the request at hand is read again and again; it is `fresh` two clocks after the request came or the table was written, so no
//! write can pass by unseen. A context takes three clocks: it is read what the queue pair was before.

use super::Request;
use crate::fields::Fields;
use crate::payload_writer::receives;
use crate::sweep;
use spraynic_config::NicConfig;
use spraynic_config::descriptor::QueuePairContext;
use spraynic_rtl::{Bundle, Module, Signal, Stream, bundle};

bundle! {
    /// State of a queue pair.
    pub(super) struct State {
        receives: 1, "requests are executed";
        response_psn: 24, "solar: PSN of the next response";
        next: 4, "roce: place of the next answer to be kept";
        stored: 5, "roce: answers that are kept";
    }
}

/// What the table says of the request at hand.
pub(super) struct Table<'a> {
    pub(super) state: State<'a>,
    /// `state` is that of the request at hand, in this clock.
    pub(super) fresh: Signal<'a>,
    /// A queue pair stops receiving, and its number.
    pub(super) closes: Signal<'a>,
    pub(super) closed_qpn: Signal<'a>,
}

/// What the executor does: it is done with the request at hand (`popped`), and writes its queue pair's state (`update`).
pub(super) struct Executed<'a> {
    pub(super) popped: Signal<'a>,
    pub(super) update: Signal<'a>,
    pub(super) state: State<'a>,
}

pub(super) fn table<'a>(
    m: Module<'a>,
    config: &NicConfig,
    contexts: Stream<'a>,
    (valid, head): (Signal<'a>, &Request<'a>),
    executed: &Executed<'a>,
) -> Table<'a> {
    let index_bits = config.qpn_bits();
    let in_table = |qpn: Signal<'a>| !(qpn >> index_bits).any();
    let clear = sweep::after_reset(m, index_bits);
    let states = m.memory("states", config.queue_pairs.count, State::packed_width());

    let context_valid = ["context_taken", "context_read", "context_decided"].map(|name| m.reg(name, 1).reset(0));
    let busy = context_valid.into_iter().fold(m.low(), |busy, valid| busy | valid);
    contexts.ready.set(!clear.active & !busy);
    let context = Fields::unpack::<QueuePairContext>(contexts.data);
    let kept = |name: &str, value: Signal<'a>| {
        let register = m.reg(name, value.width());
        m.when(contexts.fires(), || register.set(value));
        register
    };
    let context_qpn = kept("context_qpn", context.get("qpn"));
    let opens = kept("context_receives", receives(context.get("state")));
    let psn = kept("context_response_psn", context.get("sent_response_psn"));
    let [taken, read, decided] = context_valid;
    taken.set(contexts.fires());
    read.set(taken);
    decided.set(read);

    let found = states.read(m.high(), taken.mux(context_qpn, head.qpn).part(0, index_bits));
    let state = State::regs(m, "state");
    state.set(&State::unpack(found));
    // With one answer kept there is one place for it.
    state.next.ignore();
    let age = m
        .reg("age", 2)
        .reset(0)
        .doc("clocks for which the request at hand and the table have stood still, up to 2");
    let stale = executed.popped | executed.update | busy | clear.active | !valid;
    m.when(stale, || age.set_lit(0))
        .else_when(!age.bit(1), || age.set(age + age.lit(1)));

    // One that receives already keeps what it has.
    let changes = decided & in_table(context_qpn) & (!opens | !state.receives);
    let fresh_state = State {
        receives: opens,
        response_psn: psn,
        next: m.lit(0, 4),
        stored: m.lit(0, 5),
    };
    let written = changes.mux(fresh_state.pack(), executed.state.pack());
    states.write(
        clear.active | changes | executed.update,
        clear
            .active
            .mux(clear.index, changes.mux(context_qpn, head.qpn).part(0, index_bits)),
        written.gate(!clear.active),
    );
    m.assert("one_writer_of_states", !(changes & executed.update));
    Table {
        state: State {
            receives: state.receives & in_table(head.qpn),
            ..state
        },
        fresh: (age.bit(1) & !busy).named("fresh"),
        closes: decided & !opens,
        closed_qpn: context_qpn,
    }
}
