//! Which operation is next, and how its queue pair comes into the registers. After an event a slice goes first, after a slice an event.
//!
//! The registers hold one queue pair, also between operations: it goes back to the RAM when another one comes. An event of a queue pair
//! whose slices are not settled waits here until they are.

use super::Ports;
use super::engine::{Engine, Step};
use crate::fields::Fields;
use crate::sweep::Sweep;
use spraynic_config::descriptor::{QueuePairState, Resend};
use spraynic_rtl::{Signal, Stream};

/// Registers of the choice.
struct Choice<'a> {
    /// The last operation was an event.
    slice_first: Signal<'a>,
    /// Queue pair of the event, while another one is undone.
    event_qpn: Signal<'a>,
    /// A refused slice is undone.
    undoing: Signal<'a>,
    /// A slice of the queue pair was not settled when the operation began.
    was_locked: Signal<'a>,
    /// Nothing is listed in this clock, so that the next operation can be chosen.
    wakes: Signal<'a>,
}

/// Builds the steps. `data` are the registers of the events: contexts, progress, responses, resends, requests.
pub(super) fn steps<'a>(
    e: &Engine<'a>,
    ports: &Ports<'a>,
    data: [Signal<'a>; 5],
    sweep: Sweep<'a>,
    at: &impl Fn(Step) -> Signal<'a>,
) {
    let m = e.m;
    let reg = |name: &str, width: u32, doc: &str| m.reg(name, width).doc(doc);
    // A queue pair with something to do gets its turn; whether it may send is found out then.
    let has_work = e.q("lost_words").any() | e.q("cut").ne(e.q("tail"));
    let sends = e.q("state").eq_lit(QueuePairState::ReadyToSend as u8) & !e.q("waits");
    let choice = Choice {
        slice_first: m.reg("slice_first", 1).reset(0).doc("the last operation was an event"),
        event_qpn: reg("event_qpn", 24, "queue pair of the event"),
        undoing: m.reg("undoing", 1).reset(0).doc("a refused slice is undone"),
        was_locked: reg(
            "was_locked",
            1,
            "a slice of the queue pair was not settled when the operation began",
        ),
        wakes: (at(Step::Wake) & has_work & sends & !e.q("listed")).named("wakes"),
    };
    let chooses = at(Step::Choose) | (at(Step::Wake) & !choice.wakes & !choice.undoing);
    choose(e, ports, data, &choice, chooses & !sweep.active);
    load(e, &choice, sweep, at);
    wake(e, &choice, at);
}

fn kinds<'a>(e: &Engine<'a>) -> [Signal<'a>; 7] {
    let kind = e.kind;
    [
        kind.context,
        kind.due,
        kind.progress,
        kind.response,
        kind.resend,
        kind.post,
        kind.slice,
    ]
}

fn undo<'a>(e: &Engine<'a>, choice: &Choice<'a>) {
    e.qpn.set(e.asked.undo_qpn.zero_extend(24));
    choice.undoing.set_lit(1);
    e.go(Step::UndoLoad);
}

fn choose<'a>(e: &Engine<'a>, ports: &Ports<'a>, data: [Signal<'a>; 5], choice: &Choice<'a>, chooses: Signal<'a>) {
    let m = e.m;
    // What was refused goes before all.
    let may_begin = (chooses & !e.asked.refused).named("operation_may_begin");
    m.when(chooses & e.asked.refused, || {
        kinds(e).iter().for_each(|kind| kind.set_lit(0));
        undo(e, choice);
    });
    let slice_ready = (e.turns.may & e.asked.free).named("slice_ready");
    let mut free = (may_begin & !(choice.slice_first & slice_ready)).named("event_may_begin");
    let mut event = m.low();
    let mut chosen = e.turns.qpn.zero_extend(24);
    let mut begins = vec![];
    let streams: [(&str, Stream<'a>, u32); 5] = [
        ("context", ports.contexts, 0),
        ("progress", ports.progress, 0),
        ("response", ports.responses, 0),
        ("resend", ports.resends, 0),
        ("request", ports.requests, 32),
    ];
    for ((name, stream, qpn), data) in streams.into_iter().zip(data) {
        stream.ready.set(free);
        let this = (free & stream.valid).named(&format!("{name}_begins"));
        m.when(this, || data.set(stream.data));
        chosen = this.mux(stream.data.part(qpn, 24), chosen);
        event = event | this;
        free = free & !stream.valid;
        begins.push(this);
        if name == "context" {
            // Who waited for tokens goes before what is heard, so that it waits no longer than it must.
            let due = (free & e.turns.due).named("due_begins");
            e.turns.due_taken.set(due);
            chosen = due.mux(e.turns.due_qpn.zero_extend(24), chosen);
            event = event | due;
            free = free & !e.turns.due;
            begins.push(due);
        }
    }
    let slice = (may_begin & slice_ready & !event).named("slice_begins");
    begins.push(slice);
    m.when(event | slice, || {
        e.go(Step::Load);
        choice.slice_first.set(event);
        for (kind, begins) in kinds(e).into_iter().zip(&begins) {
            kind.set(*begins);
        }
        e.class.set(e.turns.class);
        e.qpn.set(chosen);
        choice.event_qpn.set(chosen);
    });
    let resend = Fields::unpack::<Resend>(ports.resends.data);
    m.when(begins[4], || e.lost.word.set(e.word_of(resend.get("psn"))));
}

/// The queue pair comes into the registers. A slice finds it at the RAM already.
fn load<'a>(e: &Engine<'a>, choice: &Choice<'a>, sweep: Sweep<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let index = e.qpn.part(0, e.sizes.qpn);
    let held = m.reg("held", 1).reset(0).doc("the registers hold a queue pair");
    let held_qpn = m.reg("held_qpn", e.sizes.qpn);
    // What is beyond the table changes nothing.
    let hit = (e.beyond | (held & held_qpn.eq(index))).named("queue_pair_held");
    let missed = m.reg("missed", 1);
    let loads = at(Step::Load);
    let locked = e.asked.locked;
    let waits = (locked & !e.kind.post & !e.kind.slice).named("event_waits");
    // A slice may only follow directly on what is not settled of its queue pair.
    let aborts = (e.kind.slice & locked & !e.asked.extends).named("slice_waits");
    let known = e.known & hit & e.q("class").eq(e.class) & !e.q("refused") & !e.q("turn_over");
    m.when(loads | at(Step::UndoLoad), || missed.set(!hit));
    e.cut_fetched.set(loads & e.kind.slice & hit);
    m.when(loads, || {
        choice.was_locked.set(locked);
        e.follows.set(locked);
        m.when(aborts, || e.go(Step::Choose))
            .else_when(waits, || {
                m.when(e.asked.refused, || undo(e, choice));
            })
            .else_when(e.kind.slice, || {
                m.when(known, || e.go(Step::CutBytes)).otherwise(|| e.go(Step::Execute));
            })
            .else_when(hit & !e.kind.resend, || e.go(Step::Execute))
            .otherwise(|| e.go(Step::Loaded));
        m.when(e.kind.slice, || e.fetch_slot(e.q("cut")));
        // A resend may name the slot of its packet.
        m.when(e.kind.resend, || {
            e.fetch_slot(e.resend.get("slot").resize(e.sizes.slot).zero_extend(e.sizes.place()));
            e.lost.read.set_lit(1);
        });
    });
    m.when(at(Step::Loaded) & e.kind.resend, || e.slot_load.set_lit(1));

    let takes = (loads & e.kind.slice & !hit & !aborts) | ((at(Step::Loaded) | at(Step::UndoLoaded)) & missed);
    let takes = takes.named("queue_pair_loaded");
    let states = m.memory("queues", 1 << e.sizes.qpn, e.queue.width());
    states.write(
        sweep.active | (takes & held),
        sweep.active.mux(sweep.index, held_qpn),
        e.queue.pack_with(&[]).gate(!sweep.active),
    );
    let count = (e.q("tail") - e.q("head")).named("requests_held");
    crate::held::tell(m, "requests", held, held_qpn, count);
    let chooses = at(Step::Choose) | at(Step::Wake);
    let word = states.read(chooses | loads | at(Step::UndoLoad), chooses.mux(e.turns.qpn, index));
    m.when(takes, || {
        e.queue.load(word);
        held.set_lit(1);
        held_qpn.set(index);
    });
}

/// After an operation: the queue pair is listed if it has something to do, and if it is first then, its slice is begun at once.
fn wake<'a>(e: &Engine<'a>, choice: &Choice<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let class = e.q("class");
    m.when(choice.wakes, || {
        e.turns.push(class, e.qpn.part(0, e.sizes.qpn));
        e.q("listed").set_lit(1);
    });
    let first = e.turns.is_first(class) & e.asked.free & !e.asked.refused;
    let direct = (choice.wakes & first & !choice.was_locked & !choice.undoing).named("slice_at_once");
    m.when(direct, || {
        kinds(e).iter().for_each(|kind| kind.set_lit(0));
        e.kind.slice.set_lit(1);
        e.class.set(class);
        e.follows.set_lit(0);
        choice.slice_first.set_lit(0);
        m.when(e.known, || e.go(Step::CutBytes))
            .otherwise(|| e.go(Step::Execute));
    });
    // The event that waited for the queue pair that was undone.
    let [events @ .., _] = kinds(e);
    let resumes = events.into_iter().fold(m.low(), |any, kind| any | kind);
    m.when(at(Step::Wake) & choice.undoing, || {
        choice.undoing.set_lit(0);
        m.when(resumes, || {
            e.qpn.set(choice.event_qpn);
            e.lost.word.set(e.word_of(e.resend.get("psn")));
            e.go(Step::Load);
        });
    });
}
