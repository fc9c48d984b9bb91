//! The engine: the registers that hold a queue pair, and the RAMs behind them. Which operation is next and how its queue pair comes into the
//! registers is in `choice.rs`; the steps are in `events.rs`, `heard.rs`, `slice.rs` and `undo.rs`; what they share is here.

use super::Ports;
use super::asked::Asked;
use super::choice;
use super::state::{Sizes, queue_record, slot_record};
use super::turns::Turns;
use super::{events, heard, slice, undo};
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
    SlotRead,
    Wake,
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
    CutRead,
    CutPackets,
    CutBytes,
    Ask,
    // Refusals.
    UndoLoad,
    UndoLoaded,
    Undo,
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
    pub(super) step: Signal<'a>,
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
    /// Place of the slot in the registers.
    pub(super) walk: Signal<'a>,
    /// Reads the slot at a place: enable, place.
    pub(super) slot_read: [Signal<'a>; 2],
    /// What was read goes into the registers.
    pub(super) slot_load: Signal<'a>,
    /// The clock before read the slot at the cut.
    pub(super) cut_fetched: Signal<'a>,
    /// The lost packet of the last resend is the only one of its queue pair, and found: it can be sent at once.
    pub(super) known: Signal<'a>,
    /// The slice that is made follows one that is not decided.
    pub(super) follows: Signal<'a>,
    pub(super) asked: Asked<'a>,
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
    pub(super) asks: Stream<'a>,
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

    /// Reads the slot at a place: it can be loaded in the next clock, or later.
    pub(super) fn fetch_slot(&self, place: Signal<'a>) {
        self.slot_read[0].set_lit(1);
        self.slot_read[1].set(place);
    }

    /// Reads the slot at a place, and goes on with a step that finds it in the registers.
    pub(super) fn read_slot(&self, place: Signal<'a>, then: Step) {
        self.fetch_slot(place);
        self.walk.set(place);
        self.then.set_lit(then as u8);
        self.go(Step::SlotRead);
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

    /// The place between `head` and `end` that has this slot, and whether there is one.
    pub(super) fn place_of_slot(&self, slot: Signal<'a>, end: Signal<'a>) -> (Signal<'a>, Signal<'a>) {
        let head = self.q("head");
        let ahead = (slot.resize(self.sizes.slot) - self.slot_of(head)).zero_extend(self.sizes.place());
        let in_table = !(slot.zero_extend(9) >> self.sizes.slot).any();
        (head + ahead, in_table & ahead.lt(end - head))
    }

    /// Which packet of the request in the registers a PSN is, whether it is one of them, and whether it is the last one.
    pub(super) fn in_slot(&self, psn: Signal<'a>) -> (Signal<'a>, Signal<'a>, Signal<'a>) {
        let (first, psns) = (self.slot.get("first_psn"), self.slot.get("psns"));
        let index = psn - first;
        (index, index.lt(psns), index.eq(psns - psns.lit(1)))
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

    /// A packet of the word that was read is to be sent again.
    pub(super) fn mark_lost(&self, psn: Signal<'a>) {
        self.lost.write.set_lit(1);
        let before = self.lost.data.gate(self.lost_flag(self.lost.word));
        self.lost.value.set(before | (self.m.lit(1, 64) << psn.part(0, 6)));
        self.set_lost_flag(self.lost.word, self.m.high());
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
    let steady = at(Step::Choose) | (!kind.slice & !at(Step::Undo));
    let turns = Turns::new(m, sizes, steady, at(Step::Load), index);
    let asked = Asked::new(m, sizes, index, ports.grants, ports.slices);

    let queue = queue_record(m, sizes);
    let slot = slot_record(m);
    let slot_index = |place: Signal<'a>| cat(&[index, place.part(0, sizes.slot)]);
    let slots = m.memory("slots", 1 << (sizes.qpn + sizes.slot), slot.width());
    let slot_write = [
        low_wire(m, "slot_write", 1),
        low_wire(m, "slot_write_place", sizes.slot),
        low_wire(m, "slot_write_word", slot.width()),
    ];
    slots.write(slot_write[0], slot_index(slot_write[1]), slot_write[2]);
    let slot_read = [
        low_wire(m, "slot_read", 1),
        low_wire(m, "slot_read_place", sizes.place()),
    ];
    let slot_load = low_wire(m, "slot_load", 1);
    let slot_word = slots.read(slot_read[0], slot_index(slot_read[1]));
    m.when(slot_load | at(Step::SlotRead), || slot.load(slot_word));
    let responses = m
        .memory("responded", 1 << (sizes.qpn + sizes.slot), 1)
        .read_during_write(ReadDuringWrite::New);
    let responded_write = [
        low_wire(m, "responded_write", 1),
        low_wire(m, "responded_place", sizes.slot),
        low_wire(m, "responded_value", 1),
    ];
    responses.write(responded_write[0], slot_index(responded_write[1]), responded_write[2]);
    let responded = responses.read(slot_read[0], slot_index(slot_read[1]));

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

    let event = |name: &str, stream: Stream<'a>| {
        let data = m.reg(&format!("{name}_data"), stream.data.width());
        data.ignore();
        data
    };
    let data = [
        event("context", ports.contexts),
        event("progress", ports.progress),
        event("response", ports.responses),
        event("resend", ports.resends),
        event("request", ports.requests),
    ];
    let engine = Engine {
        m,
        sizes,
        step,
        then: m.reg("then", 6),
        kind,
        qpn,
        beyond,
        context: Fields::unpack::<SendContext>(data[0]),
        progress: Fields::unpack::<SendProgress>(data[1]),
        response: Fields::unpack::<ResponseDone>(data[2]),
        resend: Fields::unpack::<Resend>(data[3]),
        request: Fields::unpack::<WorkRequest>(data[4]),
        queue,
        slot,
        responded,
        walk: m.reg("walk", sizes.place()),
        slot_read,
        slot_load,
        cut_fetched: m
            .reg("cut_fetched", 1)
            .doc("the slot at the cut was read in the clock before"),
        known: m
            .reg("lost_packet_known", 1)
            .reset(0)
            .doc("the packet of the last resend is all that its queue pair has lost, and its slot is in the registers"),
        follows: m.reg("follows", 1).doc("this slice follows one that is not decided"),
        asked,
        turns,
        class: m.reg("slice_class", 2).doc("class whose turn it is"),
        slot_write,
        responded_write,
        lost: lost_ram(m, sizes, index),
        give,
        given,
        can_give,
        asks: ports.asks,
    };
    let e = &engine;
    e.slot.get("request").ignore();
    m.when(at(Step::Loaded), || e.go(Step::Execute))
        .else_when(at(Step::SlotRead), || step.set(e.then))
        .else_when(at(Step::Wake), || e.go(Step::Choose));
    choice::steps(e, ports, data, sweep, &at);
    events::steps(e, config, &at);
    let part = slice::Part::new(m);
    heard::steps(e, &part, &at);
    slice::steps(e, &part, &at);
    undo::steps(e, &at);

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
