//! Who has the next turn, and the sweep that finds timers that are due.

use spraynic_rtl::{Bundle, Signal};

use super::Ports;
use super::engine::Engine;
use super::layout::Deadline;
use super::operation::{self, Operation};
use super::step::Step;

/// Packets that were sent and may go before feedback that waits.
const BURST: u32 = 7;

/// A timer that looked due.
pub(super) struct Due<'a> {
    pub(super) valid: Signal<'a>,
    pub(super) index: Signal<'a>,
    taken: Signal<'a>,
}

/// Looks at the deadline of one sequence space in each clock.
pub(super) fn timers<'a>(engine: &Engine<'a>, time: Signal<'a>, clearing: Signal<'a>) -> Due<'a> {
    let (m, bits) = (engine.m, engine.sizes.space_bits());
    let index = m
        .reg("swept", bits)
        .reset(0)
        .doc("sequence space whose deadline is asked for");
    let [asked, looked] = ["asked_space", "due_space"].map(|name| m.reg(name, bits));
    let comes = m.reg("deadline_comes", 1).reset(0);
    let valid = m.reg("due", 1).reset(0).doc("a timer looks due");
    let taken = m.wire("due_taken", 1);
    let stays = valid & !taken;
    let word = Deadline::unpack(engine.tables.deadlines.word);
    engine.tables.deadlines.read(index);
    asked.set(index);
    comes.set(!clearing & !stays);
    m.when(!stays, || {
        let count = m.lit(engine.sizes.spaces() - 1, bits);
        index.set(index.eq(count).mux(m.lit(0, bits), index + m.lit(1, bits)));
        valid.set(comes & word.armed & time.ge(word.at));
        looked.set(asked);
    });
    Due {
        valid,
        index: looked,
        taken,
    }
}

/// [`Step::Idle`]: who begins, and what is taken at once.
pub(super) fn turn<'a>(
    engine: &Engine<'a>,
    ports: Ports<'a>,
    due: &Due<'a>,
    time: Signal<'a>,
    may_go: Signal<'a>,
    resends: Signal<'a>,
) {
    let (m, sizes) = (engine.m, &engine.sizes);
    let idle = engine.step.eq_lit(Step::Idle as u8);
    // Another one begins in the clock in which an operation ends, unless the queue pair fails with it.
    let ends = engine.asks.settle & !engine.deed.failed;
    let free = ((idle | ends) & may_go).named("is_free");
    let burst = m
        .reg("burst", 3)
        .reset(0)
        .doc("packets sent that went before feedback that waits");

    let sent = Operation::named(&operation::of_sent(sizes, ports.sent.data, time), "sent");
    let sent_index = sizes.space_index(sent.qpn, sent.space);
    let plain = (engine.is_plain(sent_index, sent.psn) & !sent.outside).named("is_plain_next");

    let context_turn = ports.contexts.valid;
    let timer_turn = due.valid & resends & !context_turn;
    let others = !context_turn & !timer_turn;
    let feedback_waits = ports.feedback.valid & resends;
    let sent_turn = others & ports.sent.valid & !(feedback_waits & burst.eq_lit(BURST));
    let feedback_turn = others & feedback_waits & !sent_turn;
    ports.contexts.ready.set(free);
    due.taken.set(free & timer_turn);
    ports.feedback.ready.set(free & feedback_turn);
    ports.sent.ready.set(free & sent_turn);

    let of_context = operation::of_context(sizes, ports.contexts.data, time);
    let of_timer = operation::of_timer(sizes, due.index, time);
    let of_feedback = operation::of_feedback(sizes, ports.feedback.data, time);
    let mut chosen = vec![];
    for (((context, timer), feedback), packet) in of_context
        .signals()
        .into_iter()
        .zip(of_timer.signals())
        .zip(of_feedback.signals())
        .zip(sent.signals())
    {
        chosen.push(context_turn.mux(context, timer_turn.mux(timer, feedback_turn.mux(feedback, packet))));
    }
    let chosen = Operation::from_signals(&chosen);
    let index = sizes.space_index(chosen.qpn, chosen.space);
    let (written, request_psn, response_psn) = operation::queue_pair_of(ports.contexts.data);

    let any = context_turn | timer_turn | sent_turn | feedback_turn;
    m.when(free & any, || {
        // What there is not changes nothing.
        m.when(!chosen.outside, || engine.op.set(&chosen));
        m.when(context_turn, || {
            engine.written.set(&written);
            engine.first_psns[0].set(request_psn);
            engine.first_psns[1].set(response_psn);
        });
        m.when(sent_turn, || {
            m.when(feedback_waits, || burst.set(burst + m.lit(1, 3)));
        })
        .else_when(feedback_turn, || burst.set_lit(0));
        m.when(chosen.outside, || {
            m.when(sent_turn, || engine.count("sent_ignored"))
                .else_when(feedback_turn, || engine.count("drop_stale"));
        })
        .else_when(sent_turn & plain, || {
            engine.take_plain(&sent);
        })
        .else_when(engine.held & engine.index.eq(index), || engine.go(Step::Begin))
        .else_when(idle, || engine.swap(&chosen, chosen.space))
        .otherwise(|| engine.go(Step::Swap));
    });
}
