//! Output: what is due waits in a queue and leaves as packet descriptors, one a clock, first things first.
//!
//! Each operation in the pipeline has a place in the queue, so the pipeline never waits. It builds headers and decides nothing.

use spraynic_config::descriptor::PacketDescriptor;
use spraynic_rtl::{Bundle, MemoryStyle, Module, Signal, Stream, cat};
use spraynic_wire::mrc::{MPR_UNIT, NETH_CC_TYPE};
use spraynic_wire::{Opcode, PathFeedback};

use super::Due;
use super::judge::Judged;
use crate::extension::{Aeth, CcState, Neth, Seth, extension};
use crate::fields::Fields;

/// Operations that may be in the pipeline and in the queue: four clocks of pipeline, and what comes at once.
const QUEUE_DEPTH: u32 = 16;
const INDEX_BITS: u32 = QUEUE_DEPTH.trailing_zeros();

/// Words of 4 bytes of a CNP behind its BTH, all zero \[IBA annex A17\].
const CNP_WORDS: u32 = 4;

/// Builds queue and output; returns whether there is a place for one more operation in the next clock, whatever enters in this one.
pub(super) fn output<'a>(
    m: Module<'a>,
    window: u32,
    judged: &Judged<'a>,
    enters: Signal<'a>,
    packets: Stream<'a>,
) -> Signal<'a> {
    let queue = m
        .memory("queue", QUEUE_DEPTH, Due::packed_width())
        .style(MemoryStyle::Distributed);
    let (head, tail) = (
        m.reg("queue_head", INDEX_BITS).reset(0),
        m.reg("queue_tail", INDEX_BITS).reset(0),
    );
    let waiting = m.reg("queue_waiting", 1).reset(0).doc("the queue is not empty");
    let comes = judged.due;
    let gives = (judged.valid & (comes.sack | comes.nack | comes.aeth | comes.cnp)).named("something_due");

    // An empty queue is passed by.
    let word = Due::unpack(waiting.mux(queue.read_now(head), comes.pack())).named("first");
    let out_valid = m.reg("out_valid", 1).reset(0);
    let out = m.reg("out", packets.data.width());
    let second = m.reg("second", 1).reset(0).doc("the second packet of the word is next");
    let leaves = ((waiting | gives) & (!out_valid | packets.ready)).named("leaves");
    let has_answer = word.sack | word.nack | word.aeth;
    let has_two = has_answer & (word.cnp | word.again);
    let done = (leaves & (!has_two | second)).named("done");
    m.when(leaves, || {
        out_valid.set_lit(1);
        out.set(describe(m, window, &word, second));
        second.set(!done);
    })
    .else_when(packets.ready, || out_valid.set_lit(0));
    packets.valid.set(out_valid);
    packets.data.set(out);

    let push = (gives & (waiting | !done)).named("push");
    let pop = (done & waiting).named("pop");
    queue.write(push, tail, comes.pack());
    let (next_head, next_tail) = (
        pop.mux(head + head.lit(1), head).named("next_head"),
        push.mux(tail + tail.lit(1), tail).named("next_tail"),
    );
    head.set(next_head);
    tail.set(next_tail);
    // With one place less than the queue has words, equal indices mean an empty one.
    waiting.set(next_head.ne(next_tail));

    let places = QUEUE_DEPTH - 1;
    let taken = m
        .reg("taken", INDEX_BITS + 1)
        .reset(0)
        .doc("operations in pipeline and queue");
    let returned = done.zero_extend(INDEX_BITS + 1) + (judged.valid & !gives).zero_extend(INDEX_BITS + 1);
    taken.set(taken + enters.zero_extend(INDEX_BITS + 1) - returned);
    m.assert("places_are_kept", taken.le(m.lit(places, INDEX_BITS + 1)));
    taken.lt(m.lit(places - 1, INDEX_BITS + 1))
}

/// The descriptor of the first or second packet of a word.
fn describe<'a>(m: Module<'a>, window: u32, word: &Due<'a>, second: Signal<'a>) -> Signal<'a> {
    let has_answer = word.sack | word.nack | word.aeth;
    let cnp = (word.cnp & (second | !has_answer)).named("is_cnp");
    let sack = (word.sack & !second).named("is_sack");
    let nack = (word.nack & !second).named("is_nack");

    let zero = |width: u32| m.lit(0, width);
    let entropy = word.entropy.zero_extend(32);
    let own = word.qpn.part(0, 16);
    let space = word.space.zero_extend(4);
    let skip = m.lit(PathFeedback::SkipOnce.code(), 2).gate(word.marked);
    let seth = Seth {
        space,
        next: zero(5),
        feedback: skip,
        probe_response: word.probe,
        ack_psn_offset: word.offset,
        entropy,
        spdcid: own,
        dpdcid: word.peer,
        cack_psn: word.cumulative,
        cc_type: zero(4),
        cc_flags: zero(4),
        mpr: m.lit(window / MPR_UNIT, 8),
        sack_offset: cat(&[zero(2), word.far, m.lit(1, 6)]),
        sack_bitmap: word.bitmap,
    };
    let state = CcState {
        tx_timestamp: word.time_stamp,
        ooo_count: word.beyond_gap.zero_extend(15),
        restore_cwnd: zero(1),
        rcv_cwnd_pen: zero(7),
        rcvd_bytes: word.received,
    };
    let neth = Neth {
        space,
        next: zero(5),
        reason: word.code,
        vendor: zero(8),
        entropy,
        spdcid: own,
        dpdcid: word.peer,
        nack_psn: word.psn,
        cc_type: m.lit(NETH_CC_TYPE, 4),
        cc_flags: zero(4),
        tx_timestamp: word.time_stamp,
    };
    let aeth = Aeth {
        syndrome: word.code,
        msn: word.msn,
    };
    let opcode = |opcode: Opcode| m.lit(opcode.0, 8);
    let ack_opcode = word
        .mrc
        .mux(opcode(Opcode::MRC_ACKNOWLEDGE), opcode(Opcode::ACKNOWLEDGE));
    let choose = |of_sack: Signal<'a>, of_nack: Signal<'a>, of_cnp: Signal<'a>, of_ack: Signal<'a>| {
        sack.mux(of_sack, nack.mux(of_nack, cnp.mux(of_cnp, of_ack)))
    };
    let fields = Fields::build::<PacketDescriptor>(|name, width| match name {
        "qpn" => word.qpn,
        "opcode" => choose(
            opcode(Opcode::SACK),
            opcode(Opcode::NACK),
            opcode(Opcode::CNP),
            ack_opcode,
        ),
        "psn" => choose(word.cumulative, word.psn, zero(24), word.psn),
        "mrc" => sack | nack | (word.mrc & !cnp),
        "becn" => cnp,
        "extension_words" => choose(
            m.lit((Seth::LENGTH + CcState::LENGTH) / 4, 4),
            m.lit(Neth::LENGTH / 4, 4),
            m.lit(CNP_WORDS, 4),
            m.lit(Aeth::LENGTH / 4, 4),
        ),
        "entropy" => entropy,
        "extension" => choose(
            extension(&[seth.emit(), state.emit()]),
            extension(&[neth.emit()]),
            extension(&[zero(32)]),
            extension(&[aeth.emit()]),
        ),
        _ => zero(width),
    });
    fields.pack()
}
