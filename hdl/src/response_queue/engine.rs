//! The engine: chooses the next operation, loads what is kept of its queue pair, and stores it. Its steps are in `events.rs` and `slice.rs`; what
//! they share is here. What a slice needs has been loaded by `ahead.rs`.

use super::ahead::{Ahead, Busy, QPN_BITS, message_bits, message_fields};
use super::emitter::{self, Slice};
use super::turns::Turns;
use super::{Ports, events, slice};
use crate::fields::Fields;
use crate::held;
use crate::lost_psns::LostPsns;
use crate::record::Record;
use crate::sweep::{self, Sweep};
use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Resend, ResponseMessage, SendContext, SendProgress};
use spraynic_rtl::{Bundle, MemoryHandle, Module, Signal, Stream, cat, index_width};

/// Steps of the engine, as they stand in the register `step`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Step {
    Choose,
    Loaded,
    Execute,
    ReadMessage,
    MessageRead,
    Wake,
    Store,
    // A response comes.
    TakeJudged,
    TakeForget,
    TakeStore,
    // What was heard.
    ProgressJudged,
    ProgressTaken,
    Clear,
    ClearRead,
    ClearWrite,
    RetireJudged,
    Retired,
    ResendJudged,
    MarkWrite,
    // Slices.
    Unlist,
    ScanLost,
    ScanLostRead,
    ScanLostFound,
    Find,
    Found,
    Size,
    Cost,
    Ask,
    Grant,
    Commit,
}

/// Kinds of operations, one-hot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind<'a> {
    pub(super) context: Signal<'a>,
    pub(super) due: Signal<'a>,
    pub(super) progress: Signal<'a>,
    pub(super) resend: Signal<'a>,
    pub(super) message: Signal<'a>,
}

/// What the steps share.
pub(super) struct Engine<'a> {
    pub(super) m: Module<'a>,
    step: Signal<'a>,
    /// Step behind `MessageRead`.
    then: Signal<'a>,
    pub(super) kind: Kind<'a>,
    pub(super) qpn: Signal<'a>,
    pub(super) index: Signal<'a>,
    /// The queue pair is beyond the table, or it does not receive.
    pub(super) beyond: Signal<'a>,
    pub(super) closed: Signal<'a>,
    pub(super) context: Fields<'a>,
    pub(super) progress: Fields<'a>,
    pub(super) resend: Fields<'a>,
    pub(super) taken: Fields<'a>,
    queue: Record<'a>,
    /// The response at hand.
    pub(super) message: Fields<'a>,
    message_word: Signal<'a>,
    /// Its place, or that of the one to be read.
    pub(super) walk: Signal<'a>,
    /// What comes out of the responses' RAM.
    found: Signal<'a>,
    /// The next turn.
    pub(super) ahead: Ahead<'a>,
    /// The next turn is taken, in this clock.
    pub(super) slice_begins: Signal<'a>,
    /// Nobody else has a turn, nothing has come, and the next slice has place.
    pub(super) alone: Signal<'a>,
    /// Keeps the response that is taken, in this clock.
    pub(super) keep: Signal<'a>,
    /// New packets are given, in this clock: so many, which end their response or not.
    pub(super) gives: [Signal<'a>; 3],
    pub(super) lost: LostPsns<'a>,
    pub(super) turns: Turns<'a>,
    pub(super) asks: Stream<'a>,
    pub(super) grants: Stream<'a>,
    /// Begins this slice, in this clock.
    pub(super) begins: Signal<'a>,
    pub(super) begin: Slice<'a>,
}

impl<'a> Engine<'a> {
    pub(super) fn go(&self, step: Step) {
        self.step.set_lit(step as u8);
    }

    /// A field of what is kept of the queue pair.
    pub(super) fn q(&self, name: &str) -> Signal<'a> {
        self.queue.get(name)
    }

    /// Reads the response at a place, and goes on with a step that finds it in the registers.
    pub(super) fn read_message(&self, place: Signal<'a>, then: Step) {
        self.walk.set(place);
        self.then.set_lit(then as u8);
        self.go(Step::ReadMessage);
    }

    /// The response that was read in the clock before, at the place behind that at hand.
    pub(super) fn next_message(&self) -> Fields<'a> {
        message_fields(self.found, self.qpn)
    }

    /// Turns to it.
    pub(super) fn go_to_next_message(&self) {
        self.message_word.set(self.found);
        self.walk.set(self.walk + self.walk.lit(1));
    }

    /// What is kept of the queue pair at hand is stored, in this clock.
    fn stores(&self, at: &impl Fn(Step) -> Signal<'a>) -> Signal<'a> {
        let [gives, ..] = self.gives;
        at(Step::Wake) | at(Step::Store) | at(Step::Unlist) | self.keep | gives
    }

    /// The oldest response is the peer's.
    pub(super) fn forget_oldest(&self) {
        self.q("head").set(self.q("head") + self.q("head").lit(1));
        for name in ["count", "sending"] {
            self.q(name).set(self.q(name) - self.q(name).lit(1));
        }
    }
}

/// What is kept of a queue pair.
fn queue_fields(config: &NicConfig) -> [(&'static str, u32); 13] {
    let place_bits = index_width(u64::from(config.send.reads));
    [
        ("receives", 1),
        ("class", 2),
        ("window", 11),
        ("base", 24),
        ("floor", 24),
        ("next", 24),
        ("end", 24),
        ("head", 8),
        ("count", place_bits + 1),
        // Responses that have been given in full, and packets of the next one.
        ("sending", place_bits + 1),
        ("given", 24),
        ("lost_words", config.send.window / 64),
        ("listed", 1),
    ]
}

/// Events in a row before a slice that is not ready.
const PATIENCE_BITS: u32 = 2;

/// Builds the block between its ports.
pub(super) fn build<'a>(m: Module<'a>, config: &NicConfig, ports: &Ports<'a>) {
    let index_bits = index_width(u64::from(config.send_queue_pairs()));
    let place_bits = index_width(u64::from(config.send.reads));
    let sweep = sweep::after_reset(m, index_bits);
    let step = m.reg("step", 5).reset(0).doc("what the engine does");
    let at = |wanted: Step| step.eq_lit(wanted as u8);
    let kind = Kind {
        context: m.reg("is_context", 1),
        due: m.reg("is_due", 1),
        progress: m.reg("is_progress", 1),
        resend: m.reg("is_resend", 1),
        message: m.reg("is_message", 1),
    };
    let qpn = m.reg("qpn", 24);
    let index = qpn.part(0, index_bits);
    let beyond = (qpn >> index_bits).any().named("beyond");

    let begins = m.wire("begins", 1);
    begins.set_lit(0);
    let begin = Slice::wires(m, "begin");
    let emitter = emitter::emitter(m, begins, &begin, ports.packets);
    let turns = Turns::new(m, index_bits);
    let fields = queue_fields(config);
    let ahead = Ahead::new(m, &fields, index_bits, message_bits());

    // The choice. After an event a slice goes first, after a slice an event. A slice is begun only when there is place for it, so the engine never
    // waits for packets to leave. Events go before a slice that is not ready, but not for ever: they may be what makes it begin again.
    let choose = (at(Step::Choose) & !sweep.active).named("chooses");
    let slice_first = m.reg("slice_first", 1).reset(0).doc("the last operation was an event");
    let events_in_row = m.reg("events_in_row", PATIENCE_BITS).reset(0);
    let slice_ready = (ahead.ready() & !emitter.full).named("slice_ready");
    let slice_comes = (turns.turns.any | !ahead.idle()) & !emitter.full;
    let slice_is_next = (slice_first & slice_ready) | (events_in_row.all() & slice_comes);
    let mut free = (choose & !slice_is_next.named("slice_is_next")).named("event_may_begin");
    let mut chosen = turns.due_qpn.zero_extend(24);
    let mut waits = turns.due;
    let mut events = vec![];
    let mut packed = vec![];
    for (stream, name) in [
        (ports.contexts, "context"),
        (ports.progress, "progress"),
        (ports.resends, "resend"),
        (ports.messages, "message"),
    ] {
        stream.ready.set(free);
        let event = (free & stream.valid).named(&format!("{name}_begins"));
        let data = m.reg(&format!("{name}_data"), stream.data.width());
        m.when(event, || data.set(stream.data));
        data.ignore();
        packed.push(data);
        chosen = event.mux(stream.data.part(0, QPN_BITS), chosen);
        events.push(event);
        free = free & !stream.valid;
        waits = waits | stream.valid;
        if name == "context" {
            // Who waited for tokens goes before what is heard, so that it waits no longer than it must.
            let due_begins = (free & turns.due).named("due_begins");
            m.when(due_begins, || turns.due_taken());
            events.push(due_begins);
            free = free & !turns.due;
        }
    }
    let any_event = events
        .iter()
        .fold(m.low(), |any, event| any | *event)
        .named("event_begins");
    let slice_begins = (choose & slice_ready & !any_event).named("slice_begins");
    m.when(any_event, || {
        step.set_lit(Step::Loaded as u8);
        slice_first.set_lit(1);
        m.when(!events_in_row.all(), || {
            events_in_row.set(events_in_row + events_in_row.lit(1));
        });
        let kinds = [kind.context, kind.due, kind.progress, kind.resend, kind.message];
        for (kind, begins) in kinds.into_iter().zip(&events) {
            kind.set(*begins);
        }
        qpn.set(chosen);
    });

    // What is kept of the queue pairs.
    let queue = Record::regs(m, "queue", &fields);
    let states = m.memory("queues", 1 << index_bits, queue.width());
    let state = states.read(
        m.high(),
        any_event.mux(chosen.part(0, index_bits), ahead.state_address(&turns)),
    );
    let walk = m.reg("walk", 8).doc("place of the response at hand");
    walk.ignore();
    m.when(at(Step::Loaded), || {
        queue.load(state);
        walk.set(queue.field_of(state, "head"));
    });

    // The responses, without their queue pair's number. The one behind that at hand is read before it is known whether it is needed.
    let messages = m.memory("messages", 1 << (index_bits + place_bits), message_bits());
    let message_at = |index: Signal<'a>, place: Signal<'a>| cat(&[index, place.part(0, place_bits)]);
    let keep = m.wire("keeps", 1);
    keep.set_lit(0);
    let taken = packed[3];
    let tail = queue.get("head") + queue.get("count").zero_extend(8);
    tail.ignore();
    messages.write(keep, message_at(index, tail), taken.part(QPN_BITS, message_bits()));
    let reads_next = at(Step::ProgressTaken) | at(Step::RetireJudged);
    let reads_message = (at(Step::ReadMessage) | at(Step::Execute) | reads_next).named("reads_message");
    let walk_next = (reads_next | at(Step::Grant)).mux(walk + walk.lit(1), walk);
    walk_next.ignore();
    let ahead_reads = (ahead.wants_message() & !reads_message).named("ahead_reads_message");
    let found = messages.read(
        m.high(),
        ahead_reads.mux(message_at(ahead.index, ahead.place), message_at(index, walk_next)),
    );
    let message = m.reg("message", message_bits());
    let arrives = at(Step::MessageRead) | at(Step::ProgressJudged) | at(Step::TakeJudged);
    m.when(arrives, || message.set(found));
    m.when(slice_begins, || {
        slice_first.set_lit(0);
        events_in_row.set_lit(0);
        qpn.set(ahead.index.zero_extend(24));
        queue.load(ahead.queue.pack_with(&[]));
        message.set(ahead.message);
        walk.set(ahead.place);
    });

    let wire = |name: &str, width: u32| {
        let wire = m.wire(name, width);
        wire.set_lit(0);
        wire
    };
    let lost = LostPsns::new(m, config.send.window, index, queue.get("lost_words"));
    let then = m.reg("then", 5);
    let alone = (!waits & !turns.turns.any & ahead.idle() & emitter.free).named("alone");
    let engine = Engine {
        m,
        step,
        then,
        kind,
        qpn,
        index,
        beyond,
        closed: beyond | !queue.get("receives"),
        context: Fields::unpack::<SendContext>(packed[0]),
        progress: Fields::unpack::<SendProgress>(packed[1]),
        resend: Fields::unpack::<Resend>(packed[2]),
        taken: Fields::unpack::<ResponseMessage>(taken),
        queue,
        message: message_fields(message, qpn),
        message_word: message,
        walk,
        found,
        ahead,
        slice_begins,
        alone,
        keep,
        gives: [wire("gives_new", 1), wire("given_packets", 24), wire("given_ends", 1)],
        lost,
        turns,
        asks: ports.asks,
        grants: ports.grants,
        begins,
        begin,
    };
    let e = &engine;
    m.when(at(Step::Loaded), || e.go(Step::Execute))
        .else_when(at(Step::ReadMessage), || e.go(Step::MessageRead))
        .else_when(at(Step::MessageRead), || step.set(then))
        .else_when(at(Step::Wake) | at(Step::Store) | at(Step::Unlist), || {
            e.go(Step::Choose);
        });
    store(e, &at, &states, sweep);
    let busy = Busy {
        reads_state: any_event,
        reads_message,
        stores: e.stores(&at),
        index,
        takes: slice_begins,
    };
    e.ahead.steps(&e.turns, &busy, state, found);

    events::steps(e, config, &at);
    slice::steps(e, &at);
}

/// Stores what is kept of the queue pair at hand; one with something to give gets its turn: whether it may is found out then.
fn store<'a>(e: &Engine<'a>, at: &impl Fn(Step) -> Signal<'a>, states: &MemoryHandle<'a>, sweep: Sweep<'a>) {
    let [_, packets, ends] = e.gives;
    let takes = e.keep;
    let sending = e.q("sending");
    let count = e.q("count");
    let has_work = e.lost.any() | sending.ne(count);
    let works = takes | (at(Step::Wake) & has_work & !e.closed);
    let stored = e.queue.pack_with(&[
        ("next", e.q("next") + packets),
        ("sending", sending + ends.zero_extend(sending.width())),
        ("given", (e.q("given") + packets).gate(!ends)),
        ("count", count + takes.zero_extend(count.width())),
        ("end", e.q("end") + e.taken.get("packets").gate(takes)),
        ("listed", (e.q("listed") | works) & !at(Step::Unlist)),
    ]);
    states.write(
        e.stores(at) | sweep.active,
        sweep.active.mux(sweep.index, e.index),
        stored.gate(!sweep.active),
    );
    let held = (count + takes.zero_extend(count.width())).gate(e.q("receives"));
    held::tell(e.m, "responses", e.stores(at), e.qpn, held);
    e.m.when(works & !e.q("listed"), || e.turns.turns.push(e.index));
}
