//! The engine: chooses the next operation, loads what is kept of its queue pair, and stores it. Its steps are in `events.rs`, `heard.rs` and
//! `slice.rs`; what they share is here.

use super::Ports;
use super::state::{Sizes, queue_record, slot_record};
use super::turns::Turns;
use super::{events, heard, slice};
use crate::counter::{Counter, count_when};
use crate::fields::Fields;
use crate::record::Record;
use crate::sweep;
use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    Completion, CompletionStatus, Resend, ResponseDone, SendContext, SendProgress, WorkRequest,
};
use spraynic_rtl::{MemoryHandle, Module, ReadDuringWrite, Signal, Stream, cat};

/// Steps of the engine, as they stand in the register `step`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Step {
    Choose,
    Load,
    Loaded,
    Execute,
    ReadSlot,
    SlotRead,
    Wake,
    Store,
    // Requests and contexts.
    PostChecked,
    // What was heard.
    ProgressJudged,
    ProgressTaken,
    ClearLost,
    ClearLostRead,
    ClearLostWrite,
    ResponseJudged,
    ResendJudged,
    MarkLostRead,
    MarkLostWrite,
    Find,
    Found,
    // Completions.
    Retire,
    RetireJudged,
    Retired,
    Flush,
    FlushGive,
    // Slices.
    ScanLost,
    ScanLostRead,
    ScanLostFound,
    LostFound,
    CutRead,
    CutRoom,
    CutPackets,
    CutBytes,
    Credit,
    Ask,
    Grant,
    Commit,
    Rotate,
}

/// Kinds of operations, one-hot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind<'a> {
    pub(super) context: Signal<'a>,
    pub(super) due: Signal<'a>,
    pub(super) progress: Signal<'a>,
    pub(super) response: Signal<'a>,
    pub(super) resend: Signal<'a>,
    pub(super) post: Signal<'a>,
    pub(super) slice: Signal<'a>,
}

/// What the steps share.
pub(super) struct Engine<'a> {
    pub(super) m: Module<'a>,
    pub(super) sizes: Sizes,
    step: Signal<'a>,
    /// Step behind `SlotRead`.
    then: Signal<'a>,
    pub(super) kind: Kind<'a>,
    pub(super) qpn: Signal<'a>,
    /// The queue pair is beyond the table.
    pub(super) beyond: Signal<'a>,
    pub(super) request: Fields<'a>,
    pub(super) context: Fields<'a>,
    pub(super) progress: Fields<'a>,
    pub(super) resend: Fields<'a>,
    pub(super) response: Fields<'a>,
    pub(super) queue: Record<'a>,
    pub(super) slot: Record<'a>,
    pub(super) responded: Signal<'a>,
    /// Slot to be read.
    pub(super) walk: Signal<'a>,
    pub(super) turns: Turns<'a>,
    pub(super) class: Signal<'a>,
    /// Writes a slot: enable, index, word.
    pub(super) slot_write: [Signal<'a>; 3],
    /// Writes whether a slot has its response: enable, index, value.
    pub(super) responded_write: [Signal<'a>; 3],
    pub(super) lost: Lost<'a>,
    give: Signal<'a>,
    given: [Signal<'a>; 4],
    /// The port of completions takes one now.
    pub(super) can_give: Signal<'a>,
    pub(super) slice_valid: Signal<'a>,
    pub(super) slice_out: Signal<'a>,
    pub(super) asks: Stream<'a>,
    pub(super) grants: Stream<'a>,
}

/// Port of the RAM of PSNs to be sent again: words of 64.
pub(super) struct Lost<'a> {
    pub(super) read: Signal<'a>,
    pub(super) word: Signal<'a>,
    pub(super) data: Signal<'a>,
    pub(super) write: Signal<'a>,
    pub(super) value: Signal<'a>,
    /// The bit of the packet that is sent again now.
    pub(super) found: Signal<'a>,
}

fn low_wire<'a>(m: Module<'a>, name: &str, width: u32) -> Signal<'a> {
    let wire = m.wire(name, width);
    wire.set_lit(0);
    wire
}

impl<'a> Engine<'a> {
    pub(super) fn go(&self, step: Step) {
        self.step.set_lit(step as u8);
    }

    pub(super) fn q(&self, name: &str) -> Signal<'a> {
        self.queue.get(name)
    }

    /// Reads the slot at a place, and goes on with a step that finds it in the registers.
    pub(super) fn read_slot(&self, place: Signal<'a>, then: Step) {
        self.walk.set(place);
        self.then.set_lit(then as u8);
        self.go(Step::ReadSlot);
    }

    /// Gives a completion; the step must hold until `can_give`.
    pub(super) fn complete(&self, request: &Fields<'a>, status: Signal<'a>) {
        self.give.set_lit(1);
        self.given[0].set(request.get("cookie"));
        self.given[1].set(request.get("opcode"));
        self.given[2].set(request.get("length"));
        self.given[3].set(status);
    }

    pub(super) fn status(&self, status: CompletionStatus) -> Signal<'a> {
        self.m.lit(status as u8, 8)
    }

    /// A PSN counted from the oldest request that is not complete.
    pub(super) fn offset(&self, psn: Signal<'a>) -> Signal<'a> {
        psn - self.q("head_psn")
    }

    pub(super) fn slot_of(&self, place: Signal<'a>) -> Signal<'a> {
        place.part(0, self.sizes.slot)
    }

    pub(super) fn slot_request(&self) -> Fields<'a> {
        Fields::unpack::<WorkRequest>(self.slot.get("request"))
    }

    /// Nothing waits and nothing is under way.
    pub(super) fn forget(&self) {
        for name in ["cut", "frontier"] {
            self.q(name).set(self.q("tail"));
        }
        self.q("head").set(self.q("tail"));
        self.q("reads").set_lit(0);
        self.q("lost_words").set_lit(0);
        self.q("waits").set_lit(0);
    }

    /// Number of the word of 64 PSNs, of a PSN.
    pub(super) fn word_of(&self, psn: Signal<'a>) -> Signal<'a> {
        psn.part(0, self.sizes.window) >> 6
    }

    /// A bit of `lost_words`.
    pub(super) fn lost_flag(&self, word: Signal<'a>) -> Signal<'a> {
        let flags = self.q("lost_words").zero_extend(16);
        flags.bit_at(word.resize(4))
    }

    pub(super) fn set_lost_flag(&self, word: Signal<'a>, value: Signal<'a>) {
        let mask = (self.m.lit(1, 16) << word.resize(4)).part(0, self.sizes.words);
        let flags = self.q("lost_words");
        flags.set(value.mux(flags | mask, flags & !mask));
    }
}

/// Builds the block between its ports.
pub(super) fn build<'a>(m: Module<'a>, config: &NicConfig, ports: &Ports<'a>) {
    let sizes = Sizes::new(config);
    let sweep = sweep::after_reset(m, sizes.qpn);
    let step = m.reg("step", 6).reset(0).doc("what the engine does");
    let at = |wanted: Step| step.eq_lit(wanted as u8);
    let kind = Kind {
        context: m.reg("is_context", 1),
        due: m.reg("is_due", 1),
        progress: m.reg("is_progress", 1),
        response: m.reg("is_response", 1),
        resend: m.reg("is_resend", 1),
        post: m.reg("is_post", 1),
        slice: m.reg("is_slice", 1).reset(0),
    };
    let qpn = m.reg("qpn", 24);
    let index = qpn.part(0, sizes.qpn);
    let beyond = (qpn >> sizes.qpn).any().named("beyond");

    let choose = at(Step::Choose) & !sweep.active;
    let load = at(Step::Load);
    let turns = Turns::new(m, sizes, at(Step::Choose) | !kind.slice, load, index);

    // The choice. After an event a slice goes first, after a slice an event.
    let slice_valid = m.reg("slice_valid", 1).reset(0);
    let slice_out = m.reg("slice_out", ports.slices.data.width());
    ports.slices.valid.set(slice_valid);
    ports.slices.data.set(slice_out);
    m.when(ports.slices.ready, || slice_valid.set_lit(0));
    let slice_first = m.reg("slice_first", 1).reset(0).doc("the last operation was an event");
    // A slice is begun only when its place is free: the engine never waits for the packets before it.
    let slice_ready = (turns.may & !slice_valid).named("slice_ready");
    let mut free = (choose & !(slice_first & slice_ready)).named("event_may_begin");
    let data_reg = |stream: Stream<'a>, name: &str, begins: Signal<'a>| {
        let reg = m.reg(name, stream.data.width());
        m.when(begins, || reg.set(stream.data));
        reg
    };
    let mut begun = vec![];
    let mut packed = vec![];
    for (stream, name) in [
        (ports.contexts, "context"),
        (ports.progress, "progress"),
        (ports.responses, "response"),
        (ports.resends, "resend"),
        (ports.requests, "request"),
    ] {
        stream.ready.set(free);
        let begins = (free & stream.valid).named(&format!("{name}_begins"));
        packed.push(data_reg(stream, &format!("{name}_data"), begins));
        begun.push(begins);
        free = free & !stream.valid;
        if name == "context" {
            // Who waited for tokens goes before what is heard, so that it waits no longer than it must.
            let due_begins = (free & turns.due).named("due_begins");
            begun.push(due_begins);
            free = free & !turns.due;
        }
    }
    let [
        context_begins,
        due_begins,
        progress_begins,
        response_begins,
        resend_begins,
        post_begins,
    ] = begun[..]
    else {
        panic!("six kinds of events");
    };
    let event_begins = begun.iter().fold(m.low(), |any, begins| any | *begins);
    let slice_begins = (choose & slice_ready & !event_begins).named("slice_begins");
    turns.due_taken.set(due_begins);
    let class = m.reg("slice_class", 2).doc("class whose turn it is");
    let first_qpn = |stream: Stream<'a>, low: u32| stream.data.part(low, 24);
    m.when(event_begins | slice_begins, || {
        step.set_lit(Step::Load as u8);
        slice_first.set(event_begins);
        for (kind, begins) in [
            (kind.context, context_begins),
            (kind.due, due_begins),
            (kind.progress, progress_begins),
            (kind.response, response_begins),
            (kind.resend, resend_begins),
            (kind.post, post_begins),
            (kind.slice, slice_begins),
        ] {
            kind.set(begins);
        }
        class.set(turns.class);
        let mut chosen = turns.qpn.zero_extend(24);
        for (begins, of) in [
            (due_begins, turns.due_qpn.zero_extend(24)),
            (context_begins, first_qpn(ports.contexts, 0)),
            (progress_begins, first_qpn(ports.progress, 0)),
            (response_begins, first_qpn(ports.responses, 0)),
            (resend_begins, first_qpn(ports.resends, 0)),
            (post_begins, first_qpn(ports.requests, 32)),
        ] {
            chosen = begins.mux(of, chosen);
        }
        qpn.set(chosen);
    });

    // The RAMs.
    let queue = queue_record(m, sizes);
    let states = m.memory("queues", 1 << sizes.qpn, queue.width());
    let wakes = m.wire("wakes", 1);
    let store = at(Step::Wake) | at(Step::Store);
    let stored = queue.pack_with(&[("listed", queue.get("listed") | wakes)]);
    states.write(
        store | sweep.active,
        sweep.active.mux(sweep.index, index),
        stored.gate(!sweep.active),
    );
    let state_word = states.read(load, index);
    m.when(at(Step::Loaded), || queue.load(state_word));

    let slot = slot_record(m);
    let slot_index = |place: Signal<'a>| cat(&[index, place.part(0, sizes.slot)]);
    let walk = m.reg("walk", sizes.place());
    let then = m.reg("then", 6);
    let slots = m.memory("slots", 1 << (sizes.qpn + sizes.slot), slot.width());
    let slot_write = [
        low_wire(m, "slot_write", 1),
        low_wire(m, "slot_write_place", sizes.slot),
        low_wire(m, "slot_write_word", slot.width()),
    ];
    slots.write(slot_write[0], slot_index(slot_write[1]), slot_write[2]);
    let read = at(Step::ReadSlot);
    let slot_word = slots.read(read, slot_index(walk));
    m.when(at(Step::SlotRead), || slot.load(slot_word));
    let responses = m
        .memory("responded", 1 << (sizes.qpn + sizes.slot), 1)
        .read_during_write(ReadDuringWrite::New);
    let responded_write = [
        low_wire(m, "responded_write", 1),
        low_wire(m, "responded_place", sizes.slot),
        low_wire(m, "responded_value", 1),
    ];
    responses.write(responded_write[0], slot_index(responded_write[1]), responded_write[2]);
    let responded = responses.read(read, slot_index(walk));

    let lost = lost_ram(m, sizes, index);

    // Completions leave by a register.
    let completion_valid = m.reg("completion_valid", 1).reset(0);
    let completion = m.reg("completion", ports.completions.data.width());
    ports.completions.valid.set(completion_valid);
    ports.completions.data.set(completion);
    let can_give = (!completion_valid | ports.completions.ready).named("can_give");
    let give = low_wire(m, "completion_given", 1);
    let given = [
        low_wire(m, "given_cookie", 64),
        low_wire(m, "given_opcode", 8),
        low_wire(m, "given_length", 32),
        low_wire(m, "given_status", 8),
    ];

    let unpack = |index: usize| packed[index];
    let engine = Engine {
        m,
        sizes,
        step,
        then,
        kind,
        qpn,
        beyond,
        context: Fields::unpack::<SendContext>(unpack(0)),
        progress: Fields::unpack::<SendProgress>(unpack(1)),
        response: Fields::unpack::<ResponseDone>(unpack(2)),
        resend: Fields::unpack::<Resend>(unpack(3)),
        request: Fields::unpack::<WorkRequest>(unpack(4)),
        queue,
        slot,
        responded,
        walk,
        turns,
        class,
        slot_write,
        responded_write,
        lost,
        give,
        given,
        can_give,
        slice_valid,
        slice_out,
        asks: ports.asks,
        grants: ports.grants,
    };
    let e = &engine;
    packed.iter().for_each(|data| data.ignore());
    e.slot.get("request").ignore();
    m.when(at(Step::Load), || e.go(Step::Loaded))
        .else_when(at(Step::Loaded), || e.go(Step::Execute))
        .else_when(at(Step::ReadSlot), || e.go(Step::SlotRead))
        .else_when(at(Step::SlotRead), || step.set(then))
        .else_when(store, || e.go(Step::Choose));

    // A queue pair with something to do gets its turn; whether it may send is found out then.
    let has_work = e.q("lost_words").any() | e.q("cut").ne(e.q("tail"));
    let sends = e.q("state").eq_lit(3) & !e.q("waits");
    wakes.set(at(Step::Wake) & has_work & sends & !e.q("listed"));
    m.when(wakes, || e.turns.push(e.q("class"), index));

    events::steps(e, config, &at);
    heard::steps(e, &at);
    slice::steps(e, &at);

    m.when(e.give, || {
        completion_valid.set_lit(1);
        let fields = Fields::build::<Completion>(|name, width| match name {
            "cookie" => e.given[0],
            "qpn" => qpn,
            "status" => e.given[3],
            "opcode" => e.given[1],
            "byte_count" => e.given[2],
            _ => m.lit(0, width),
        });
        completion.set(fields.pack());
    })
    .else_when(ports.completions.ready, || completion_valid.set_lit(0));
    m.assert("completion_has_place", !(e.give & !can_give));
    let failed = e.give & e.given[3].any() & e.given[3].ne_lit(CompletionStatus::LocalInvalidRequest as u8);
    count_when(m, Counter("completions", "completions given"), e.give);
    count_when(
        m,
        Counter(
            "failed",
            "completions of requests that a failure of their queue pair ended",
        ),
        failed & e.given[3].ne_lit(CompletionStatus::QueueFull as u8),
    );
}

fn lost_ram<'a>(m: Module<'a>, sizes: Sizes, index: Signal<'a>) -> Lost<'a> {
    let word_bits = sizes.window - 6;
    let address = |word: Signal<'a>| {
        if word_bits == 0 {
            index
        } else {
            cat(&[index, word.part(0, word_bits)])
        }
    };
    let ram: MemoryHandle<'a> = m.memory("lost", 1 << (sizes.qpn + word_bits), 64);
    let read = low_wire(m, "lost_read", 1);
    let word = m.reg("lost_word", sizes.window).doc("word of 64 PSNs");
    let write = low_wire(m, "lost_write", 1);
    let value = low_wire(m, "lost_value", 64);
    ram.write(write, address(word), value);
    let data = ram.read(read, address(word));
    Lost {
        read,
        word,
        data,
        write,
        value,
        found: m.reg("lost_found", 64),
    }
}
