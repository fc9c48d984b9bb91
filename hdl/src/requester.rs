//! `requester`: takes the responses to own READs and atomics, says where their payload goes and when each is done.
//!
//! It owns what responses each queue pair waits for. An operation (a context write, something to expect, or a response packet) enters in each clock
//! and is judged five clocks later. It never looks at payload. Theory of operation: `docs/src/blocks/requester.md`.

mod expected;
mod given;
mod judge;
mod operation;
mod payload;
mod places;

use crate::fields::Fields;
use crate::held;
use crate::state_table::{Stages, state_table};
use crate::sweep;
use expected::Ring;
use given::Given;
use judge::judge;
use operation::{Arrived, Inputs, Operation};
use places::Advance;
use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    CompletionStatus, Descriptor, ExpectedResponse, PacketContext, PayloadWrite, ReceivedPacket, ResponseDone,
    SendContext, SequencedPacket,
};
use spraynic_rtl::{AxiStream, Bundle, Context, Definition, Module, Signal, Stream, bundle};
use spraynic_wire::{NakCode, Syndrome};

/// Name of the block.
pub const NAME: &str = "requester";

bundle! {
    /// What is known of a queue pair.
    pub(crate) struct State {
        sends: 1, "it is in RTS, with a profile that has READs";
        roce: 1, "its profile is roce";
        failed: 1, "a response was not what was asked for: nothing is taken any more";
        mtu: 3, "path MTU code";
        head: 4, "place of the oldest entry in its ring";
        count: 5, "entries in its ring";
        taken: 24, "packets of the oldest entry's response that have come";
    }
}

/// An operation in one stage of the pipeline.
#[derive(Clone, Copy)]
pub(crate) struct Stage<'a> {
    /// There is one, and its queue pair is in the table.
    valid: Signal<'a>,
    in_table: Signal<'a>,
    /// Its queue pair's word in the table.
    index: Signal<'a>,
    operation: Operation<'a>,
}

/// Stages from the clock behind that in which an operation enters to that in which it is judged.
const STAGES: usize = 5;

/// The block for this configuration.
#[must_use]
pub fn requester<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let width = config.datapath.width_bits;
    let queue_pairs = config.send_queue_pairs();
    let reads = config.send.reads;
    let m = context.module(&format!("{NAME}_w{width}_qp{queue_pairs}_r{reads}"));
    m.doc("Takes the responses to own READs and atomics: says where their payload goes, and when each is done.\nAn operation enters in each clock and is judged five clocks later.");
    let inputs = Inputs {
        contexts: Stream::slave(
            m,
            "s_axis_context",
            SendContext::width(),
            "SendContext: state, profile and MTU count alone",
        ),
        expected: Stream::slave(
            m,
            "s_axis_expected",
            ExpectedResponse::width(),
            "ExpectedResponse: a READ or an atomic that was sent",
        ),
        sequenced: Stream::slave(
            m,
            "s_axis",
            SequencedPacket::width(),
            "SequencedPacket: responses of solar, of responder",
        ),
        feedback: Stream::slave(
            m,
            "s_axis_feedback",
            ReceivedPacket::width() + PacketContext::width(),
            "ReceivedPacket with PacketContext above it: responses of roce; what is none is taken and forgotten",
        ),
    };
    let sources = [("s_axis_payload", "solar"), ("s_axis_feedback_payload", "roce")]
        .map(|(name, profile)| AxiStream::slave(m, name, width, 1, &format!("payload of responses of {profile}")));
    let writes = Stream::master(
        m,
        "m_axis",
        PayloadWrite::width(),
        "PayloadWrite: one for each packet taken, to payload_writer",
    );
    let payload_out = AxiStream::master(
        m,
        "m_axis_payload",
        width,
        1,
        "payload of these, and the value of atomics",
    );
    let written = Stream::slave(
        m,
        "s_axis_written",
        PayloadWrite::width(),
        "PayloadWrite that answers, of payload_writer",
    );
    let done = Stream::master(
        m,
        "m_axis_response_done",
        ResponseDone::width(),
        "ResponseDone, to work_queue",
    );
    give_done(m, written, done);

    // An operation enters when there is room for what it may give. Those in the first two stages stand while the second of them is held.
    let sweep = sweep::after_reset(m, queue_pairs.trailing_zeros());
    let given = Given::new(m);
    let moves = m.wire("front_moves", 1);
    let arrived = operation::arrived(m, &inputs, (moves & given.room & !sweep.active).named("may_enter"));
    let stages = stages(m, &arrived, moves, queue_pairs);

    // Stage 2: the ring is read at the oldest entry. Stages 3 and 4: state and entry come. Stage 5: judgement. Stage 6: what it gives.
    let advance = Advance::regs(m, "advanced");
    let entering = arrived.operation.qpn.part(0, queue_pairs.trailing_zeros());
    let index = m.reg("advanced_index", entering.width());
    let place = places::places(m, reads, &stages, (moves, entering), (advance, index), sweep);
    let table = state_table(
        m,
        "states",
        (queue_pairs, State::packed_width()),
        Stages {
            valid: [2, 3, 4].map(|stage: usize| stages[stage].valid & stages[stage].in_table),
            index: [2, 3, 4].map(|stage: usize| stages[stage].index),
            advance: m.high(),
        },
        sweep,
    );
    let state = State::unpack(table.word).named("state");
    let ring = Ring::new(m, queue_pairs, reads);
    let found = ring.find(&stages[1], place, &stages[3].operation);
    let judged = &stages[4];
    let verdict = judge(m, reads, judged, &state, &found);
    table.next.set(verdict.state.pack());
    let stored = judged.valid & judged.in_table;
    held::tell(
        m,
        "responses awaited",
        stored,
        judged.operation.qpn,
        verdict.state.count,
    );
    advance.set(&Advance {
        valid: verdict.advances,
        head: verdict.state.head,
    });
    index.set(judged.index);
    ring.store(judged, &state, verdict.stores);
    given.give(&judged.operation, &state, &found, &verdict, writes);
    given.payload(sources, payload_out);
    m.finish()
}

/// The pipeline's registers.
fn stages<'a>(m: Module<'a>, arrived: &Arrived<'a>, moves: Signal<'a>, queue_pairs: u32) -> Vec<Stage<'a>> {
    let index_bits = queue_pairs.trailing_zeros();
    let mut before = (arrived.valid, arrived.operation);
    let mut in_table = None;
    let mut stages = vec![];
    for number in 1..=STAGES {
        let valid = m.reg(&format!("valid_{number}"), 1).reset(0);
        let operation = Operation::regs(m, &format!("operation_{number}"));
        if number <= 2 {
            m.when(moves, || {
                valid.set(before.0);
                operation.set(&before.1);
            });
        } else {
            valid.set(if number == 3 { before.0 & moves } else { before.0 });
            operation.set(&before.1);
        }
        before = (valid, operation);
        let known = match in_table {
            None => !(operation.qpn >> index_bits).any(),
            Some(known) => {
                let register = m.reg(&format!("in_table_{number}"), 1);
                m.when(if number == 2 { moves } else { m.high() }, || register.set(known));
                register
            }
        };
        in_table = Some(known);
        stages.push(Stage {
            valid,
            in_table: known,
            index: operation.qpn.part(0, index_bits),
            operation,
        });
    }
    stages
}

/// What `payload_writer` answers is the end of a READ or an atomic.
fn give_done<'a>(m: Module<'a>, written: Stream<'a>, done: Stream<'a>) {
    let fields = Fields::unpack::<PayloadWrite>(written.data);
    for field in PayloadWrite::FIELDS {
        fields.get(field.name).ignore();
    }
    let refused = fields
        .get("syndrome")
        .eq_lit(Syndrome::Nak(NakCode::RemoteOperationalError).byte());
    let status = fields.get("status");
    let success = status.eq_lit(CompletionStatus::Success as u8);
    let status = (refused & success)
        .named("memory_refused")
        .mux(m.lit(CompletionStatus::LocalMemory as u8, 8), status);
    let packed = Fields::build::<ResponseDone>(|name, _| match name {
        "slot" => fields.get("cookie").part(0, 8),
        "status" => status,
        _ => fields.get(name),
    })
    .pack();
    done.data.set(packed);
    done.valid.set(written.valid);
    written.ready.set(done.ready);
}
