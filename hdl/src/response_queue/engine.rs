//! The engine: chooses the next operation, loads what is kept of its queue pair, and stores it. Its steps are in `events.rs` and `slice.rs`; what
//! they share is here.

use super::emitter::{self, Slice};
use super::turns::Turns;
use super::{Ports, events, slice};
use crate::fields::Fields;
use crate::lost_psns::LostPsns;
use crate::record::Record;
use crate::sweep;
use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Descriptor, Resend, ResponseMessage, SendContext, SendProgress};
use spraynic_rtl::{Bundle, Module, Signal, Stream, cat, index_width};

/// Steps of the engine, as they stand in the register `step`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Step {
    Choose,
    Load,
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
    Retire,
    RetireJudged,
    Retired,
    ResendJudged,
    MarkRead,
    MarkWrite,
    // Slices.
    ScanLost,
    ScanLostRead,
    ScanLostFound,
    Find,
    Found,
    Cut,
    Room,
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
    pub(super) slice: Signal<'a>,
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
    /// The response that was read.
    pub(super) message: Fields<'a>,
    /// Place of the response to be read.
    pub(super) walk: Signal<'a>,
    /// Keeps the response that is taken, in this clock.
    pub(super) keep: Signal<'a>,
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
        self.await_message(then);
        self.go(Step::ReadMessage);
    }

    /// Goes on with a step that finds the response in the registers at whose place `walk` has stood since the clock before.
    pub(super) fn await_message(&self, then: Step) {
        self.then.set_lit(then as u8);
        self.go(Step::MessageRead);
    }

    /// The oldest response is the peer's.
    pub(super) fn forget_oldest(&self) {
        self.q("head").set(self.q("head") + self.q("head").lit(1));
        for name in ["count", "sending"] {
            self.q(name).set(self.q(name) - self.q(name).lit(1));
        }
    }
}

/// Builds the block between its ports.
pub(super) fn build<'a>(m: Module<'a>, config: &NicConfig, ports: &Ports<'a>) {
    let index_bits = index_width(u64::from(config.send_queue_pairs()));
    let place_bits = index_width(u64::from(config.send.reads));
    let sweep = sweep::after_reset(m, index_bits);
    let step = m.reg("step", 6).reset(0).doc("what the engine does");
    let at = |wanted: Step| step.eq_lit(wanted as u8);
    let kind = Kind {
        context: m.reg("is_context", 1),
        due: m.reg("is_due", 1),
        progress: m.reg("is_progress", 1),
        resend: m.reg("is_resend", 1),
        message: m.reg("is_message", 1),
        slice: m.reg("is_slice", 1),
    };
    let qpn = m.reg("qpn", 24);
    let index = qpn.part(0, index_bits);
    let beyond = (qpn >> index_bits).any().named("beyond");

    let begins = m.wire("begins", 1);
    begins.set_lit(0);
    let begin = Slice::wires(m, "begin");
    let emits = emitter::emitter(m, begins, &begin, ports.packets);
    let turns = Turns::new(m, index_bits);

    // The choice. After an event a slice goes first, after a slice an event. A slice is begun only when the one before has been given: so the
    // engine never waits for packets to leave.
    let choose = (at(Step::Choose) & !sweep.active).named("chooses");
    let slice_first = m.reg("slice_first", 1).reset(0).doc("the last operation was an event");
    let slice_ready = (turns.turns.valid & !emits).named("slice_ready");
    let mut free = (choose & !(slice_first & slice_ready)).named("event_may_begin");
    let mut chosen = turns.turns.front.zero_extend(24);
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
        chosen = event.mux(stream.data.part(0, 24), chosen);
        events.push(event);
        free = free & !stream.valid;
        if name == "context" {
            // Who waited for tokens goes before what is heard, so that it waits no longer than it must.
            let due_begins = (free & turns.due).named("due_begins");
            m.when(due_begins, || turns.due_taken());
            chosen = due_begins.mux(turns.due_qpn.zero_extend(24), chosen);
            events.push(due_begins);
            free = free & !turns.due;
        }
    }
    let any_event = events.iter().fold(m.low(), |any, event| any | *event);
    let slice_begins = (choose & slice_ready & !any_event).named("slice_begins");
    events.push(slice_begins);
    m.when(slice_begins, || turns.turns.pop());
    m.when(any_event | slice_begins, || {
        step.set_lit(Step::Load as u8);
        slice_first.set(any_event);
        let kinds = [
            kind.context,
            kind.due,
            kind.progress,
            kind.resend,
            kind.message,
            kind.slice,
        ];
        for (kind, begins) in kinds.into_iter().zip(&events) {
            kind.set(*begins);
        }
        qpn.set(chosen);
    });

    // What is kept of the queue pairs.
    let fields = [
        ("receives", 1),
        ("class", 2),
        ("window", 11),
        ("base", 24),
        ("floor", 24),
        ("next", 24),
        ("end", 24),
        ("head", 8),
        ("count", place_bits + 1),
        ("sending", place_bits + 1),
        ("lost_words", config.send.window / 64),
        ("listed", 1),
    ];
    let queue = Record::regs(m, "queue", &fields);
    let states = m.memory("queues", 1 << index_bits, queue.width());
    let wakes = m.wire("wakes", 1);
    let store = at(Step::Wake) | at(Step::Store);
    let stored = queue.pack_with(&[("listed", queue.get("listed") | wakes)]);
    states.write(
        store | sweep.active,
        sweep.active.mux(sweep.index, index),
        stored.gate(!sweep.active),
    );
    let state = states.read(at(Step::Load), index);
    let walk = m.reg("walk", 8).doc("place of the response at hand");
    // Places wrap at 256, the ring in RAM before.
    walk.ignore();
    let sending = queue.field_of(state, "sending");
    m.when(at(Step::Loaded), || {
        queue.load(state);
        walk.set(queue.field_of(state, "head") + sending.gate(kind.slice).zero_extend(8));
    });

    // The responses, without their queue pair's number.
    let qpn_bits = 24;
    let message_bits = ResponseMessage::width() - qpn_bits;
    let messages = m.memory("messages", 1 << (index_bits + place_bits), message_bits);
    let message_at = |place: Signal<'a>| cat(&[index, place.part(0, place_bits)]);
    let keep = m.wire("keeps", 1);
    keep.set_lit(0);
    let taken = packed[3];
    let tail = queue.get("head") + queue.get("count").zero_extend(8);
    tail.ignore();
    messages.write(keep, message_at(tail), taken.part(qpn_bits, message_bits));
    let found = messages.read(m.high(), message_at(walk));
    let message = m.reg("message", message_bits);
    m.when(at(Step::MessageRead), || message.set(found));

    let lost = LostPsns::new(m, config.send.window, index, queue.get("lost_words"));
    let then = m.reg("then", 6);
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
        message: Fields::unpack::<ResponseMessage>(cat(&[message, qpn])),
        walk,
        keep,
        lost,
        turns,
        asks: ports.asks,
        grants: ports.grants,
        begins,
        begin,
    };
    let e = &engine;
    m.when(at(Step::Load), || e.go(Step::Loaded))
        .else_when(at(Step::Loaded), || e.go(Step::Execute))
        .else_when(at(Step::ReadMessage), || e.go(Step::MessageRead))
        .else_when(at(Step::MessageRead), || step.set(then))
        .else_when(store, || e.go(Step::Choose));

    // A queue pair with something to give gets its turn; whether it may is found out then.
    let has_work = e.lost.any() | e.q("sending").ne(e.q("count"));
    wakes.set(at(Step::Wake) & has_work & !e.closed & !e.q("listed"));
    m.when(wakes, || e.turns.turns.push(index));

    events::steps(e, config, &at);
    slice::steps(e, &at);
}
