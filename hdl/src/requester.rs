//! `requester`: takes the responses to own READs and atomics, says where their payload goes and when each is done.
//!
//! It owns what responses each queue pair waits for. One operation (a context write, something to expect, or a response packet) is carried out at a
//! time, in five clocks: its queue pair's state is read (1), the oldest entry of its ring (2), both are registered (3), it is judged (4), both are
//! written back (5). Theory of operation: `docs/src/blocks/requester.md`.

mod judge;
mod operation;
mod payload;

use crate::counter::{Counter, count_when};
use crate::fields::Fields;
use crate::sweep;
use judge::judge;
use operation::{EXPECTED, Inputs, Operation};
use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    CompletionStatus, Descriptor, ExpectedResponse, PacketContext, PayloadWrite, ReceivedPacket, ResponseDone,
    SendContext, SequencedPacket,
};
use spraynic_rtl::{AxiStream, Bundle, Context, Definition, Module, Stream, bundle};
use spraynic_wire::{NakCode, Syndrome};

/// Name of the block.
pub const NAME: &str = "requester";

/// Packets whose payload is decided on and has not left.
const DECISIONS: u32 = 16;

bundle! {
    /// What is known of a queue pair.
    pub(crate) struct State {
        sends: 1, "it is in RTS, with a profile that has READs";
        roce: 1, "its profile is roce";
        failed: 1, "a response was not what was asked for: nothing is taken any more";
        mtu: 3, "path MTU code";
        head: 4, "place of the oldest entry in its ring";
        count: 5, "entries in its ring";
    }
}

bundle! {
    /// A READ or an atomic that waits for its response.
    pub(crate) struct Expected {
        slot: 8, "place of the request in the send queue";
        atomic: 1, "an atomic";
        fresh: 1, "no packet of its response has come";
        psn: 24, "roce: PSN of the next packet";
        left: 32, "bytes that are missing";
        address: 64, "where the next payload goes";
    }
}

/// The block for this configuration.
#[must_use]
pub fn requester<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let width = config.datapath.width_bits;
    let queue_pairs = config.send_queue_pairs();
    let reads = config.send.reads;
    let m = context.module(&format!("{NAME}_w{width}_qp{queue_pairs}_r{reads}"));
    m.doc("Takes the responses to own READs and atomics: says where their payload goes, and when each is done.\nOne operation at a time, in five clocks.");
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

    // Step 0: an operation is taken when there is room for what it gives.
    let index_bits = queue_pairs.trailing_zeros();
    let sweep = sweep::after_reset(m, index_bits);
    let step = m
        .reg("step", 3)
        .reset(0)
        .doc("clock of the operation at hand; 0: there is none");
    let write_valid = m.reg("write_valid", 1).reset(0);
    let write_word = m.reg("write", PayloadWrite::width());
    let decisions = Stream::wires(m, "decision", payload::Decision::packed_width());
    let idle = (!step.any() & !sweep.active & !write_valid & decisions.ready).named("idle");
    let arrived = operation::arrived(m, &inputs, idle);
    let operation = Operation::regs(m, "operation");
    m.when(arrived.valid, || operation.set(&arrived.operation));
    m.when(arrived.valid, || step.set_lit(1))
        .else_when(step.eq_lit(5), || step.set_lit(0))
        .else_when(step.any(), || step.set(step + step.lit(1)));

    // Step 1: the state comes out of its RAM, the ring is read at its oldest entry. Step 2: both are registered.
    let states = m.memory("states", queue_pairs, State::packed_width());
    let ring_bits = reads.trailing_zeros();
    let ring = m.memory("ring", queue_pairs * reads, Expected::packed_width());
    let read_state = states.read(arrived.valid, arrived.operation.qpn.part(0, index_bits));
    let place = |index: spraynic_rtl::Signal<'a>, place: spraynic_rtl::Signal<'a>| {
        if ring_bits == 0 {
            place.ignore();
            index
        } else {
            spraynic_rtl::cat(&[index, place.part(0, ring_bits)])
        }
    };
    let index = operation.qpn.part(0, index_bits);
    let state_1 = State::unpack(read_state);
    let oldest = ring.read(step.eq_lit(1), place(index, state_1.head));
    let state = State::regs(m, "state");
    m.when(step.eq_lit(1), || state.set(&state_1));
    let entry = Expected::regs(m, "entry");
    m.when(step.eq_lit(2), || entry.set(&Expected::unpack(oldest)));

    // Steps 3 and 4: the verdict; then both are written back. Step 5: what was counted and given.
    let in_table = !(operation.qpn >> index_bits).any();
    let verdict = judge(m, config, &operation, &state, &entry, in_table, step.eq_lit(3));
    let writes_back = (step.eq_lit(4) & in_table).named("writes_back");
    states.write(
        sweep.active | writes_back,
        sweep.active.mux(sweep.index, index),
        verdict.state.pack().gate(!sweep.active),
    );
    let is_expected = operation.kind.eq_lit(EXPECTED);
    let tail = (state.head + state.count.part(0, 4)).named("tail");
    ring.write(
        writes_back & verdict.stores,
        place(index, is_expected.mux(tail, state.head)),
        verdict.entry.pack(),
    );
    let gives = (step.eq_lit(4) & verdict.taken).named("gives");
    m.when(gives, || {
        write_valid.set_lit(1);
        write_word.set(verdict.write);
    })
    .else_when(writes.ready, || write_valid.set_lit(0));
    writes.valid.set(write_valid);
    writes.data.set(write_word);
    decisions.valid.set(step.eq_lit(4) & verdict.decides);
    decisions.data.set(verdict.decision.pack());
    payload::payload(m, sources, decisions, DECISIONS, payload_out);

    for (name, doc, event) in verdict.counters {
        count_when(m, Counter(name, doc), step.eq_lit(4) & event);
    }
    m.finish()
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
