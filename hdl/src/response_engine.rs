//! `response_engine`: executes READs and atomics behind the writes of their queue pair, and answers requests.
//!
//! Answers of solar and mrc pass at once; what makes a packet (READ, atomics, answers of roce) waits in a queue and is executed in order. It never
//! decides whether a request is allowed, nor moves payload. Theory of operation: `docs/src/blocks/response_engine.md`.

mod atomics;
mod executor;
mod table;

use spraynic_config::descriptor::{
    Answer, Descriptor, PacketDescriptor, PayloadWrite, QueuePairContext, ResponseMessage,
};
use spraynic_config::{NicConfig, Operation, Profile};
use spraynic_rtl::{Bundle, Context, Definition, Module, Signal, Stream, bundle};
use spraynic_wire::Opcode;

use crate::counter::{Counter, count_when};
use crate::fields::Fields;
use crate::stream_fifo;

/// Requests that wait for execution: as many as distributed RAM holds in one LUT a bit on ECP5.
const QUEUE_DEPTH: u32 = 16;

bundle! {
    /// What waits for execution: a READ, an atomic, or an answer of roce.
    pub(crate) struct Request {
        qpn: 24, "queue pair number";
        solar: 1, "profile solar";
        execute: 1, "a READ or an atomic; otherwise an answer of roce";
        known: 1, "it can be executed: the opcode and the profile have such an operation";
        read: 1, "a READ";
        fetch_add: 1, "a FetchAdd";
        duplicate: 1, "roce: it was executed before";
        silent: 1, "an answer that is only recorded";
        marker: 1, "a marker: it comes out as an answer, without a packet";
        mtu: 3, "MTU code";
        entropy: 20, "entropy value of the request";
        psn: 24, "PSN of the request";
        msn: 24, "MSN of the answer";
        syndrome: 8, "syndrome of the answer";
        address: 64, "byte address of what is read";
        byte_count: 32, "bytes of a READ";
        compare: 64, "compare operand";
        swap_add: 64, "swap operand or addend";
    }
}

/// Which operations are generated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Generated {
    pub(crate) read: bool,
    pub(crate) atomic: bool,
    /// Answers of atomics are kept.
    pub(crate) stores: bool,
    /// Profile solar.
    pub(crate) solar: bool,
}

impl Generated {
    fn of(config: &NicConfig) -> Self {
        let has = |operation| config.has_standard_opcodes() && config.has_operation(operation);
        Self {
            read: has(Operation::Read),
            atomic: has(Operation::Atomic),
            stores: has(Operation::Atomic) && config.has_profile(Profile::Roce),
            solar: config.has_profile(Profile::Solar),
        }
    }
}

/// Whether this configuration has responses of solar: then there is a port `m_axis_message`.
#[must_use]
pub fn gives_messages(config: &NicConfig) -> bool {
    let generated = Generated::of(config);
    generated.solar && (generated.read || generated.atomic)
}

/// The block for this configuration. Without atomics it has no `…_atomic_…` ports, without responses of solar no `m_axis_message`.
#[must_use]
pub fn response_engine<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let m = context.module(&format!(
        "response_engine_qp{}_s{}",
        config.queue_pairs.count, config.receive.stored_atomics
    ));
    m.doc(
        "Executes READs and atomics in order, and answers requests. Answers of solar and mrc do not wait for them.\n\
         Owns the PSNs of the responses of solar, and the answers of roce's atomics that are kept for duplicates.",
    );
    let requests = Stream::slave(
        m,
        "s_axis",
        PayloadWrite::width(),
        "PayloadWrite that answers or executes",
    );
    let contexts = Stream::slave(
        m,
        "s_axis_context",
        QueuePairContext::width(),
        "QueuePairContext: as qp_lookup passes it on",
    );
    let responses = Stream::master(
        m,
        "m_axis_response",
        PacketDescriptor::width(),
        "PacketDescriptor: roce: READ responses, atomic ACKs, ACKs and NAKs",
    );
    let messages = gives_messages(config).then(|| {
        Stream::master(
            m,
            "m_axis_message",
            ResponseMessage::width(),
            "ResponseMessage: solar: READ responses and atomic ACKs, to response_queue",
        )
    });
    let responses = executor::Responses {
        packets: responses,
        messages,
    };
    let answers = Stream::master(m, "m_axis_answer", Answer::width(), "Answer: to ack_engine");
    let generated = Generated::of(config);

    let request = Fields::unpack::<PayloadWrite>(requests.data);
    for name in [
        "length",
        "discard",
        "completion",
        "has_immediate",
        "solicited",
        "closed",
        "status",
        "immediate",
        "cookie",
    ] {
        request.get(name).ignore();
    }
    let (execute, answer) = (request.get("execute"), request.get("answer"));
    let roce = request.get("profile").eq_lit(Profile::Roce.code());
    let is_queued = (execute | (answer & roce) | request.get("marker")).named("is_queued");
    let queued = Stream::wires(m, "queued", Request::packed_width());
    queued.valid.set(requests.valid & is_queued);
    queued.data.set(decode(m, generated, &request).pack());
    let queue = stream_fifo::buffer(m, "u_queue", queued, QUEUE_DEPTH);

    // One register of answers: what was executed goes first.
    let answer_valid = m.reg("answer_valid", 1).reset(0);
    let answer_word = m.reg("answer", answers.data.width());
    let answer_free = (!answer_valid | answers.ready).named("answer_free");
    let executed = executor::executor(m, config, generated, queue, contexts, responses, answer_free);
    let passes = answer_free & !executed.claims_answer;
    requests.ready.set(is_queued.mux(queued.ready, !answer | passes));
    let at_once = (requests.fires() & answer & !is_queued).named("answers_at_once");
    m.when(executed.answers, || {
        answer_valid.set_lit(1);
        answer_word.set(executed.answer);
    })
    .else_when(at_once, || {
        answer_valid.set_lit(1);
        let fields = Fields::build::<Answer>(|name, width| match name {
            "qpn" | "syndrome" | "psn" | "silent" | "msn" | "entropy" => request.get(name),
            _ => m.lit(0, width),
        });
        answer_word.set(fields.pack());
    })
    .else_when(answers.ready, || answer_valid.set_lit(0));
    answers.valid.set(answer_valid);
    answers.data.set(answer_word);
    count_when(
        m,
        Counter("answers", "answers given to ack_engine"),
        (executed.answers & !executed.marks) | at_once,
    );
    m.finish()
}

/// What is to be executed.
fn decode<'a>(m: Module<'a>, generated: Generated, request: &Fields<'a>) -> Request<'a> {
    let is = |opcode: Opcode, generated: bool| {
        if generated {
            request.get("opcode").eq_lit(opcode.0)
        } else {
            m.low()
        }
    };
    if !generated.read && !generated.atomic {
        request.get("opcode").ignore();
    }
    let read = is(Opcode::READ_REQUEST, generated.read);
    let fetch_add = is(Opcode::FETCH_ADD, generated.atomic);
    let compare_swap = is(Opcode::COMPARE_SWAP, generated.atomic);
    let profile = request.get("profile");
    let solar = if generated.solar {
        profile.eq_lit(Profile::Solar.code())
    } else {
        m.low()
    };
    let has_operation = profile.eq_lit(Profile::Roce.code()) | solar;
    Request {
        qpn: request.get("qpn"),
        solar: profile.eq_lit(Profile::Solar.code()),
        execute: request.get("execute"),
        known: has_operation & (read | fetch_add | compare_swap),
        read,
        fetch_add,
        duplicate: request.get("duplicate"),
        silent: request.get("silent"),
        marker: request.get("marker"),
        mtu: request.get("mtu"),
        entropy: request.get("entropy"),
        psn: request.get("psn"),
        msn: request.get("msn"),
        syndrome: request.get("syndrome"),
        address: request.get("address"),
        byte_count: request.get("byte_count"),
        compare: request.get("compare"),
        swap_add: request.get("swap_add"),
    }
}

/// Counts the executor's events.
pub(crate) fn count_all<'a>(m: Module<'a>, events: &[(&'static str, &'static str, Signal<'a>)]) {
    for (name, doc, event) in events {
        count_when(m, Counter(name, doc), *event);
    }
}
