//! `responder`: says of each request of a peer where its payload goes, what is to be executed, and what is due afterwards.
//!
//! Packets, receive requests and context writes enter one queue and are carried out in its order by a pipeline that never stalls: an operation is issued only when
//! there is room for what it gives. It never touches memory and never reads a byte of payload. Theory of operation: `docs/src/blocks/responder.md`.

mod entry;
mod judge;
mod operation;
mod receive_requests;
mod sequence;
mod settle;

use crate::counter::{Counter, count_when};
use crate::fields::Fields;
use crate::table::{Access, Stage, Table};
use crate::{payload_router, stream_fifo, sweep};
use judge::{Finding, Joined, Measured, Progress, Translation};
use operation::Operation;
use receive_requests::{Stages, Sweep};
use settle::{Standing, Verdict};
use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    Descriptor, MemoryAccess, MemoryTranslation, PayloadWrite, QueuePairContext, ReceiveRequest, SequencedPacket,
};
use spraynic_rtl::{AxiStream, Bundle, Context, Definition, Module, Signal, Stream};

/// Name of the block.
pub const NAME: &str = "responder";

/// Operations that wait for their turn: packets wait here for `memory_regions`.
const QUEUE_DEPTH: u32 = 16;
/// Writes that are under way in the pipeline or wait for `payload_writer`: twice what the pipeline holds.
const WRITES: u32 = 16;
/// Credits under way or waiting.
const CREDITS: u32 = 8;
/// Packets that may enter before their payload: all that queue and pipeline hold.
const PAYLOADS: u32 = 32;

/// The block for this configuration.
#[must_use]
pub fn responder<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let width = config.datapath.width_bits;
    let m = context.module(&format!("{NAME}_w{width}_qp{}", config.queue_pairs.count));
    m.doc("Says of each request of a peer where its payload goes, what is to be executed, and what is due afterwards. Owns messages in\nprogress, receive requests and message sequence numbers. Responses to own requests pass through.");
    let inputs = entry::Inputs {
        packets: Stream::slave(m, "s_axis", SequencedPacket::width(), "SequencedPacket"),
        receive_requests: Stream::slave(
            m,
            "s_axis_receive_request",
            ReceiveRequest::width(),
            "ReceiveRequest: the host posts it",
        ),
        contexts: Stream::slave(
            m,
            "s_axis_context",
            QueuePairContext::width(),
            "QueuePairContext: a write; its state counts alone",
        ),
    };
    let payload = AxiStream::slave(
        m,
        "s_axis_payload",
        width,
        1,
        "payload of packets, one packet each that has any",
    );
    let translations = Stream::slave(
        m,
        "s_axis_translation",
        MemoryTranslation::width(),
        "MemoryTranslation, one for each access",
    );
    let accesses = Stream::master(
        m,
        "m_axis_access",
        MemoryAccess::width(),
        "MemoryAccess, to memory_regions",
    );
    let writes = Stream::master(
        m,
        "m_axis",
        PayloadWrite::width(),
        "PayloadWrite: one for each request, and for each flush",
    );
    let requester = Stream::master(
        m,
        "m_axis_requester",
        SequencedPacket::width(),
        "SequencedPacket: responses to own requests",
    );
    let credits = Stream::master(m, "m_axis_credit", 24, "QPN: one receive request more");
    let outputs = ["m_axis_payload", "m_axis_requester_payload"]
        .map(|name| AxiStream::master(m, name, width, 1, "payload, unchanged"));

    let clear = sweep::after_reset(m, config.qpn_bits());
    let clearing = clear.active;
    let invalidation = sequence::Invalidation::new(m);
    let entered = entry::entry(m, config, &inputs, clearing, accesses, requester, &invalidation);
    let routed = payload_router::route(m, "u_payload", payload, entered.decisions, PAYLOADS);
    routed.into_iter().zip(outputs).for_each(|(from, to)| from.connect(to));

    // Clock 0: the oldest operation of the queue is issued when there is room for what it gives.
    let waiting = stream_fifo::buffer(m, "u_operations", entered.operations, QUEUE_DEPTH);
    let oldest = Operation::unpack(waiting.data);
    let issue = m.wire("issue", 1);
    let writes_room = Room::new(m, "writes", WRITES);
    let credits_room = Room::new(m, "credits", CREDITS);
    let sequencer = sequence::sequencer(m, config, waiting, &oldest, issue);

    // Clocks 1 and 2: receive requests and immediates.
    let one = follow(m, &sequencer.operation, 1);
    let two = follow(m, &one, 2);
    let three = follow(m, &two, 3);
    let valid_1 = m.reg("valid_1", 1).reset(0);
    let (valid_2, valid_3) = (m.reg("valid_2", 1).reset(0), m.reg("valid_3", 1).reset(0));
    valid_1.set(issue);
    valid_2.set(valid_1);
    valid_3.set(valid_2);
    let index = |operation: &Operation<'a>| operation.qpn.part(0, config.qpn_bits());
    let stage = |valid: Signal<'a>, operation: &Operation<'a>| Stage {
        valid,
        word: index(operation),
    };
    let stage_0 = stage(m.high(), &oldest);
    let (stage_1, stage_2, stage_3) = (stage(valid_1, &one), stage(valid_2, &two), stage(valid_3, &three));
    let stages = Stages {
        access: Access::new(m, "pointers", &[stage_0, stage_1, stage_2]),
        one,
        valid_2,
        two,
    };
    let sweep = Sweep {
        active: sequencer.sweeps,
        queue_pair: index(&oldest),
        place: sequencer.place,
    };
    let rings = receive_requests::rings(m, config, &stages, &sweep, clear);
    sequencer.tell(m, &two, valid_2, &rings);

    // Clock 0, continued.
    let translation = Fields::unpack::<MemoryTranslation>(translations.data);
    translation.get("reserved_0").ignore();
    let posts = oldest.kind.eq_lit(operation::RECEIVE_REQUEST).named("posts");
    let answered = (!oldest.asks | translations.valid).named("translation_there");
    let in_turn = posts.mux(credits_room.left, answered);
    issue.set(waiting.valid & sequencer.may_issue & writes_room.left & in_turn & !clearing);
    translations
        .ready
        .set((issue & oldest.asks) | invalidation.takes_translation);
    let translated = Translation {
        address: translation.get("address"),
        refused: translation.get("refusal").any(),
    };
    invalidation
        .answered
        .set(translations.valid & invalidation.takes_translation);
    invalidation.refused.set(translated.refused);

    // Clock 3: what was read comes out. Clock 4: how far its message has come.
    let at_3 = Joined {
        valid: valid_3,
        operation: three,
        found: rings.found,
        taken: rings.taken,
        immediate: rings.immediate,
        translation: follow_translation(m, translated),
    };
    let at_4 = at_3.registered(m, 4, m.high(), valid_3);
    let stage_4 = stage(at_4.valid, &at_4.operation);
    let of_progress = Access::new(m, "of_progress", &[read(stage_1), stage_2, stage_3, stage_4]);
    let progress = Table::<Progress<'_>>::new(m, "progress", config.queue_pairs.count, of_progress, Some(clear));
    let (measured, next_progress) = judge::measure(m, config, &at_4, &progress.word);
    progress.next.set(&next_progress);

    // Clock 5: what there is to say of it. Clock 6: what is carried out; a SEND with invalidate waits there.
    let at_5 = at_4.registered(m, 5, m.high(), at_4.valid);
    let measured_5 = Measured::regs(m, "measured_5");
    measured_5.set(&measured);
    let finding = judge::judge(m, config, &at_5, &measured_5);
    let moves = (!invalidation.holds).named("clock_6_moves");
    let at_6 = at_5.registered(m, 6, moves, moves.mux(at_5.valid, m.high()));
    let found = Finding::regs(m, "finding_6");
    m.when(moves, || found.set(&finding));
    let stages = [
        read(stage_3),
        stage_4,
        stage(at_5.valid, &at_5.operation),
        stage(at_6.valid & moves, &at_6.operation),
    ];
    let of_standing = Access::new(m, "of_standing", &stages).standing(invalidation.holds);
    let standing = Table::<Standing<'_>>::new(m, "standing", config.queue_pairs.count, of_standing, Some(clear));
    invalidation.drive(m, &at_6, found.accepted & !standing.word.failed);
    m.assert("nothing_follows_an_invalidation", moves | !at_5.valid);
    let passes = (invalidation.key_stays, moves);
    let (verdict, next_standing) = settle::settle(m, config, &at_6, &found, &standing.word, passes);
    standing.next.set(&next_standing);

    // Clock 7: described.
    let at_7 = at_6.registered(m, 7, m.high(), at_6.valid & moves);
    let verdict_7 = Verdict::regs(m, "verdict_7");
    verdict_7.set(&verdict);
    let verdict = verdict_7;
    let described = settle::describe(m, config, &at_7, &verdict);

    // Clock 8: what was described is queued.
    let write = Stream::wires(m, "described", PayloadWrite::width());
    let gives = m.reg("gives_8", 1).reset(0);
    gives.set(described.gives);
    write.valid.set(gives);
    write.data.set(described.write.delayed("write_8"));
    m.assert("writes_have_room", !gives | write.ready);
    let queued = stream_fifo::buffer(m, "u_writes", write, WRITES);
    queued.connect(writes);
    writes_room.count(issue, at_7.valid & !described.gives, queued.fires());

    let credit = Stream::wires(m, "credit", 24);
    credit.valid.set(rings.posted.delayed("credit_3").reset(0));
    credit.data.set(two.qpn.delayed("credit_qpn_3"));
    m.assert("credits_have_room", !credit.valid | credit.ready);
    let queued = stream_fifo::buffer(m, "u_credits", credit, CREDITS);
    queued.connect(credits);
    let no_credit = valid_2 & two.kind.eq_lit(operation::RECEIVE_REQUEST) & !rings.posted;
    credits_room.count(issue & posts, no_credit, queued.fires());

    let context_beyond = valid_2 & two.kind.eq_lit(operation::CONTEXT) & (two.qpn >> config.qpn_bits()).any();
    let counters = [
        ("accepted", "requests carried out", verdict.accepted),
        ("retired", "mrc: messages found complete in order", verdict.retired),
        (
            "duplicates",
            "roce: READ and atomic requests executed again",
            verdict.again,
        ),
        (
            "drop_duplicate",
            "roce: duplicates that are no longer allowed",
            verdict.drop_duplicate,
        ),
        (
            "refused_invalid_request",
            "requests refused: invalid request",
            verdict.refused_invalid_request,
        ),
        (
            "refused_remote_access",
            "requests refused: remote access error",
            verdict.refused_remote_access,
        ),
        (
            "refused_operational",
            "requests refused: remote operational error",
            verdict.refused_operational,
        ),
        (
            "drop_failed",
            "requests discarded behind one that was refused",
            verdict.drop_failed,
        ),
        (
            "drop_closed",
            "requests discarded: the queue pair does not receive",
            verdict.drop_closed,
        ),
        ("responses", "responses to own requests passed on", entered.response),
        ("messages", "messages done: MSN steps", verdict.message_done),
        (
            "receive_requests",
            "receive requests taken over, a credit for each",
            rings.posted,
        ),
        (
            "drop_receive_request",
            "receive requests dropped: no queue pair, or RESET",
            rings.drop_closed,
        ),
        (
            "drop_receive_request_full",
            "receive requests dropped: no room",
            rings.drop_full,
        ),
        (
            "flushed",
            "receive requests given back with status Flushed",
            described.flushed,
        ),
        (
            "drop_context",
            "context writes for a QPN beyond the table",
            context_beyond,
        ),
    ];
    for (name, doc, event) in counters {
        count_when(m, Counter(name, doc), event);
    }
    m.finish()
}

/// The stage in which a table is read, whether there is an operation or not: so no RAM waits to hear of it.
fn read(stage: Stage<'_>) -> Stage<'_> {
    Stage {
        valid: stage.word.module().high(),
        ..stage
    }
}

/// The operation one clock later.
fn follow<'a>(m: Module<'a>, operation: &Operation<'a>, clock: u32) -> Operation<'a> {
    let registers = Operation::regs(m, &format!("operation_{clock}"));
    registers.set(operation);
    registers.signals().into_iter().for_each(Signal::ignore);
    registers
}

/// The translation of the operation that is issued, in clock 3.
fn follow_translation<'a>(m: Module<'a>, translation: Translation<'a>) -> Translation<'a> {
    (1..=3).fold(translation, |before, clock| {
        let registers = Translation::regs(m, &format!("translation_{clock}"));
        registers.set(&before);
        registers
    })
}

/// Places of a queue, taken when an operation is issued, so that the pipeline need never stall.
struct Room<'a> {
    taken: Signal<'a>,
    /// There is a place.
    left: Signal<'a>,
}

impl<'a> Room<'a> {
    fn new(m: Module<'a>, name: &str, depth: u32) -> Self {
        let taken = m
            .reg(&format!("{name}_taken"), depth.ilog2() + 1)
            .reset(0)
            .doc("places of the queue, from the issue on");
        // One place is kept back, so that the answer may be a clock old.
        let left = m.reg(&format!("{name}_left"), 1).reset(0).doc("there is a place");
        left.set(taken.le(taken.lit(depth - 2)));
        Self { taken, left }
    }

    /// One place is taken, and up to two are free again.
    fn count(&self, takes: Signal<'a>, unused: Signal<'a>, leaves: Signal<'a>) {
        let width = self.taken.width();
        let change = |bit: Signal<'a>| bit.zero_extend(width);
        self.taken
            .set(self.taken + change(takes) - (change(unused) + change(leaves)));
    }
}
