//! What happens when memory has a packet's write and all before: its completion, and its way to `response_engine`.
//!
//! A queue pair whose write memory refused is remembered in a bit of RAM until it stops receiving.

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    Completion, CompletionStatus, Descriptor, PayloadWrite, QueuePairContext, QueuePairState, WorkOpcode,
};
use spraynic_rtl::{Module, ReadDuringWrite, Signal, Stream};
use spraynic_wire::{NakCode, Opcode, Syndrome};

use crate::counter::{Counter, count_when};
use crate::fields::Fields;
use crate::sweep;

/// What comes in: packets with a bit above that says that they are written, memory's answers, contexts.
pub(super) struct Inputs<'a> {
    pub(super) waiting: Stream<'a>,
    pub(super) written: Stream<'a>,
    pub(super) contexts: Stream<'a>,
}

/// Whether a queue pair in this state receives.
pub(crate) fn receives(state: Signal<'_>) -> Signal<'_> {
    state.eq_lit(QueuePairState::ReadyToReceive as u8) | state.eq_lit(QueuePairState::ReadyToSend as u8)
}

/// The operation that a packet is of, by its BTH opcode.
fn work_opcode<'a>(m: Module<'a>, opcode: Signal<'a>) -> Signal<'a> {
    let is = |opcode: Signal<'a>, wanted: Opcode| opcode.eq_lit(wanted.0);
    let within = |first: Opcode, last: Opcode| opcode.ge(m.lit(first.0, 8)) & opcode.le(m.lit(last.0, 8));
    let write = within(Opcode::WRITE_FIRST, Opcode::WRITE_ONLY_IMMEDIATE)
        | within(Opcode::MRC_WRITE_FIRST, Opcode::MRC_WRITE_ONLY_IMMEDIATE);
    let invalidate = is(opcode, Opcode::SEND_LAST_INVALIDATE) | is(opcode, Opcode::SEND_ONLY_INVALIDATE);
    let code = |operation: WorkOpcode| m.lit(operation as u8, 8);
    write.mux(
        code(WorkOpcode::Write),
        invalidate.mux(code(WorkOpcode::SendInvalidate), code(WorkOpcode::Send)),
    )
}

/// Drives `ready` of the inputs, and both outputs.
pub(super) fn done<'a>(
    m: Module<'a>,
    config: &NicConfig,
    inputs: &Inputs<'a>,
    completions: Stream<'a>,
    responses: Stream<'a>,
) {
    let Inputs {
        waiting,
        written,
        contexts,
    } = *inputs;
    let index_bits = config.qpn_bits();
    let in_table = |qpn: Signal<'a>| !(qpn >> index_bits).any();
    let clear = sweep::after_reset(m, index_bits);

    // The packet behind the oldest one, whose queue pair is looked up.
    let packet_bits = PayloadWrite::width();
    let qpn_of = |word: Signal<'a>| Fields::unpack::<PayloadWrite>(word.part(0, packet_bits)).get("qpn");
    let next_valid = m.reg("next_valid", 1).reset(0);
    let next = m.reg("next", waiting.data.width());
    let held = m.reg("head_valid", 1).reset(0);
    let leaves = m.wire("head_leaves", 1);
    let moves = (!held | leaves).named("head_moves");
    waiting.ready.set((!next_valid | moves) & !clear.active);
    m.when(waiting.fires(), || {
        next_valid.set_lit(1);
        next.set(waiting.data);
    })
    .else_when(moves, || next_valid.set_lit(0));
    let failures = m
        .memory("failed_queue_pairs", config.queue_pairs.count, 1)
        .read_during_write(ReadDuringWrite::New);
    let next_failed = failures.read(waiting.fires(), qpn_of(waiting.data).part(0, index_bits));

    // The oldest packet. What it finds out about its queue pair when it leaves holds for the next one already.
    let word = m.reg("head", waiting.data.width());
    let failed_before = m
        .reg("head_failed", 1)
        .doc("an earlier write of the oldest packet's queue pair was refused");
    let fails = m.wire("queue_pair_fails", 1);
    let clears_by_marker = m.wire("marker_clears", 1);
    let packet = Fields::unpack::<PayloadWrite>(word.part(0, packet_bits));
    let qpn = packet.get("qpn");
    m.when(moves, || {
        held.set(next_valid);
        word.set(next);
        let fails_now = fails & qpn_of(next).eq(qpn);
        let forgotten_now = clears_by_marker & qpn_of(next).eq(qpn);
        failed_before.set((next_failed & in_table(qpn_of(next)) & !forgotten_now) | fails_now);
    });
    let is_written = word.bit(packet_bits);
    let refused = (is_written & written.data).named("refused");
    // Behind the marker of a queue pair that does not receive nothing of its former packets is left that could fail it.
    let forgets = (packet.get("marker") & packet.get("closed")).named("forgets_failure");
    let failed = (refused | (failed_before & !forgets)).named("failed");

    // It leaves when memory has its write, and what it gives has room.
    let completion_valid = m.reg("completion_valid", 1).reset(0);
    let response_valid = m.reg("response_valid", 1).reset(0);
    let due = packet.get("answer") | packet.get("execute") | packet.get("marker");
    let completion_free = !completion_valid | completions.ready | !packet.get("completion");
    let response_free = !response_valid | responses.ready | !(due | is_written);
    let room = (held & completion_free & response_free).named("head_has_room");
    written.ready.set(room & is_written);
    leaves.set(room & (!is_written | written.valid));

    fails.set(leaves & refused & in_table(qpn));
    let context = Fields::unpack::<QueuePairContext>(contexts.data);
    let context_qpn = context.get("qpn");
    clears_by_marker.set(leaves & forgets & in_table(qpn));
    contexts.ready.set(!clear.active & !fails & !clears_by_marker);
    let clears = contexts.fires() & in_table(context_qpn) & !receives(context.get("state"));
    failures.write(
        clear.active | fails | clears_by_marker | clears,
        clear.active.mux(
            clear.index,
            (fails | clears_by_marker).mux(qpn.part(0, index_bits), context_qpn.part(0, index_bits)),
        ),
        fails,
    );

    // A failed queue pair answers everything by a NAK and completes nothing well.
    let nak = m.lit(Syndrome::Nak(NakCode::RemoteOperationalError).byte(), 8);
    let status = packet.get("status");
    let success = status.eq_lit(CompletionStatus::Success as u8);
    let status = (failed & success).mux(m.lit(CompletionStatus::LocalMemory as u8, 8), status);
    let response = Fields::build::<PayloadWrite>(|name, _| match name {
        "answer" => packet.get(name) | (failed & (packet.get("execute") | refused)),
        "execute" | "silent" => packet.get(name) & !failed,
        "syndrome" => failed.mux(nak, packet.get(name)),
        "status" => status,
        _ => packet.get(name),
    });
    let completion = Fields::build::<Completion>(|name, width| match name {
        "status" => status,
        "opcode" => work_opcode(m, packet.get("opcode")),
        "cookie" | "qpn" | "solicited" | "has_immediate" | "byte_count" | "immediate" => packet.get(name),
        _ => m.lit(0, width),
    });
    let give = |valid: Signal<'a>, name: &str, value: Signal<'a>, when: Signal<'a>, output: Stream<'a>| {
        let register = m.reg(name, value.width());
        m.when(when, || {
            valid.set_lit(1);
            register.set(value);
        })
        .else_when(output.ready, || valid.set_lit(0));
        output.valid.set(valid);
        output.data.set(register);
    };
    let completes = (leaves & packet.get("completion")).named("completes");
    give(
        completion_valid,
        "completion",
        completion.pack(),
        completes,
        completions,
    );
    let responds = (leaves & (due | refused)).named("responds");
    give(response_valid, "response", response.pack(), responds, responses);
    count_when(m, Counter("completions", "completions given"), completes);
    count_when(
        m,
        Counter("write_errors", "writes that memory refused"),
        leaves & refused,
    );
}
