//! The executor: takes requests from the queue in their order, and gives a packet a clock of the one at hand; in solar one message for all.

use super::atomics::{self, Atomics};
use super::table::{self, Executed, State};
use super::{Generated, Request, count_all};
use crate::counter::{Counter, count_more};
use crate::fields::Fields;
use crate::response_packet::{ResponsePacket, mtu_bytes};
use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Answer, ResponseMessage};
use spraynic_rtl::{Bundle, Module, Signal, Stream, bundle, cat};
use spraynic_wire::{NakCode, Syndrome};

bundle! {
    /// What is being answered.
    struct Current {
        qpn: 24, "queue pair number";
        solar: 1, "profile solar";
        message: 1, "one message is given for all packets";
        read: 1, "READ responses";
        atomic: 1, "an atomic ACK";
        packets: 1, "packets are given";
        answers: 1, "ack_engine is told, with the last packet";
        marker: 1, "it is a marker";
        mtu: 3, "MTU code";
        entropy: 20, "entropy value";
        psn: 24, "PSN of the next packet";
        msn: 24, "MSN";
        syndrome: 8, "syndrome";
        address: 64, "byte address of the next packet's payload";
        remaining: 32, "bytes that have not been given";
        original: 64, "value before an atomic";
        count: 24, "packets of the message";
    }
}

/// Where responses leave: packets, and messages if solar has responses.
#[derive(Clone, Copy)]
pub(super) struct Responses<'a> {
    pub(super) packets: Stream<'a>,
    pub(super) messages: Option<Stream<'a>>,
}

/// What the executor says to `ack_engine`.
pub(super) struct Executor<'a> {
    /// It has an answer for it, if not in this clock.
    pub(super) claims_answer: Signal<'a>,
    /// It gives one in this clock.
    pub(super) answers: Signal<'a>,
    /// What it gives is a marker.
    pub(super) marks: Signal<'a>,
    pub(super) answer: Signal<'a>,
}

/// Packets of a READ modulo 2^24: length / MTU rounded up, at least 1.
fn packets_of<'a>(length: Signal<'a>, mtu: Signal<'a>) -> Signal<'a> {
    let choices: Vec<_> = (0..8u32)
        .map(|code| {
            let shift = 7 + code.clamp(1, 5);
            let more = length.part(0, shift).any() | !(length >> shift).any();
            cat(&[(length >> shift).part(0, 24), more])
        })
        .collect();
    let chosen = mtu.select(&choices);
    chosen.part(1, 24) + chosen.bit(0).zero_extend(24)
}

/// Builds the executor; drives `ready` of queue and contexts, and `responses`.
pub(super) fn executor<'a>(
    m: Module<'a>,
    config: &NicConfig,
    generated: Generated,
    queue: Stream<'a>,
    contexts: Stream<'a>,
    responses: Responses<'a>,
    answer_free: Signal<'a>,
) -> Executor<'a> {
    let Responses { packets, messages } = responses;
    let head = Request::unpack(queue.data);
    let executed = Executed {
        popped: m.wire("popped", 1),
        update: m.wire("updates_state", 1),
        state: State::wires(m, "next_state"),
    };
    let table = table::table(m, config, contexts, (queue.valid, &head), &executed);
    let state = table.state;
    let executes = queue.valid & head.execute;
    let may_execute = (executes & head.known & table.fresh).named("may_execute");
    let count = packets_of(head.byte_count, head.mtu).delayed("read_packets");

    // The request at hand, and whether the next one may follow.
    let active = m.reg("active", 1).reset(0).doc("something is being answered");
    let current = Current::regs(m, "current");
    let first = m.reg("first", 1).doc("the next packet is the first");
    let last = m.reg("last", 1).doc("the next packet is the last");
    let out_valid = m.reg("out_valid", 1).reset(0);
    let out = m.reg("out", packets.data.width());
    let message_out = messages.map(|messages| {
        let valid = m.reg("message_out_valid", 1).reset(0);
        (messages, valid, m.reg("message_out", messages.data.width()))
    });
    let packet_free = !out_valid | packets.ready;
    let out_free = match message_out {
        Some((messages, valid, _)) => current.message.mux(!valid | messages.ready, packet_free),
        None => packet_free,
    };
    let claims_answer = (active & last & current.answers).named("claims_answer");
    let gives = (active & out_free.named("out_free") & (!claims_answer | answer_free)).named("gives");
    let ends = (gives & last).named("ends");
    let may_load = (!active | ends).named("may_load");

    let store = generated.stores.then(|| atomics::Store::new(m, config));
    let atomics = if generated.atomic {
        let starts = may_execute & !head.read & state.receives;
        atomics::atomics(m, &head, &state, starts, may_load & table.fresh, store.as_ref())
    } else {
        Atomics::none(m)
    };

    let load_answer = queue.valid & !head.execute & may_load;
    let load_read = may_execute & head.read & state.receives & may_load;
    let finishes = atomics.finishes;
    let load_atomic = finishes & state.receives;
    let drop_opcode = executes & !head.known;
    let drop_queue_pair = (may_execute & !state.receives & !atomics.busy) | (finishes & !state.receives);
    let load = (load_answer | load_read | load_atomic).named("loads");
    let popped = load | drop_opcode | drop_queue_pair | atomics.missing;
    queue.ready.set(popped);
    executed.popped.set(popped);

    // Numbers of responses, and where answers of atomics are kept.
    let atomic_done = load_atomic & !atomics.failed & !atomics.repeated;
    let read_of_solar = load_read & head.solar;
    executed.update.set(read_of_solar | atomic_done);
    let steps = head.read.mux(count, m.lit(1, 24)).gate(head.solar);
    let keeps = !head.solar;
    let most = config.receive.stored_atomics;
    executed.state.set(&State {
        receives: m.high(),
        response_psn: state.response_psn + steps,
        next: (state.next + keeps.zero_extend(4)) & m.lit(most - 1, 4),
        stored: state.stored + (keeps & state.stored.ne_lit(most)).zero_extend(5),
    });
    if let Some(store) = &store {
        store.keep(atomic_done & keeps, head.qpn, state.next, head.psn, atomics.original);
    }

    let ack = m.lit(Syndrome::ACK.byte(), 8);
    let nak = m.lit(Syndrome::Nak(NakCode::RemoteOperationalError).byte(), 8);
    let implied = head.execute & !atomics.failed;
    let message = head.solar & implied;
    let loaded = Current {
        qpn: head.qpn,
        solar: head.solar,
        message,
        read: head.execute & head.read,
        atomic: head.execute & !head.read & !atomics.failed,
        packets: head
            .execute
            .mux(!(atomics.failed & head.solar), !(head.silent | head.marker)),
        // Answers, errors of atomics; roce: what is executed for the first time.
        answers: !implied | (!head.solar & !head.duplicate),
        marker: head.marker,
        mtu: head.mtu,
        entropy: head.entropy,
        psn: message.mux(state.response_psn, head.psn),
        msn: head.msn,
        syndrome: head.execute.mux(atomics.failed.mux(nak, ack), head.syndrome),
        address: head.address,
        remaining: head.byte_count.gate(head.read & head.execute),
        original: atomics.original,
        count: head.read.mux(count, m.lit(1, 24)),
    };
    let closes = (table.closes & active & current.read & table.closed_qpn.eq(current.qpn)).named("closes_current");
    let mtu = mtu_bytes(m, current.mtu).named("mtu_bytes");
    m.when(load, || {
        active.set_lit(1);
        current.set(&loaded);
        first.set_lit(1);
        last.set(!loaded.read | message | head.byte_count.le(mtu_bytes(m, head.mtu).zero_extend(32)));
    })
    .else_when(closes, || active.set_lit(0))
    .else_when(gives, || {
        m.when(last, || active.set_lit(0));
        first.set_lit(0);
        last.set(current.remaining.le(mtu.zero_extend(32) << 1));
        current.remaining.set(current.remaining - mtu.zero_extend(32));
        current.address.set(current.address + mtu.zero_extend(64));
        current.psn.set(current.psn + current.psn.lit(1));
    });

    let packet = ResponsePacket {
        qpn: current.qpn,
        read: current.read,
        atomic: current.atomic,
        first,
        last,
        mtu,
        entropy: current.entropy,
        psn: current.psn,
        msn: current.msn,
        syndrome: current.syndrome,
        address: current.address,
        remaining: current.remaining,
        original: current.original,
        ack_request: m.low(),
    };
    let gives_message = (gives & current.message).named("gives_message");
    let gives_packet = (gives & current.packets & !current.message).named("gives_packet");
    m.when(gives_packet, || {
        out_valid.set_lit(1);
        out.set(packet.pack(m));
    })
    .else_when(packets.ready, || out_valid.set_lit(0));
    packets.valid.set(out_valid);
    packets.data.set(out);
    if let Some((messages, valid, out)) = message_out {
        m.when(gives_message, || {
            valid.set_lit(1);
            out.set(describe_message(&current));
        })
        .else_when(messages.ready, || valid.set_lit(0));
        messages.valid.set(valid);
        messages.data.set(out);
    }
    // Without solar there are none.
    current.count.ignore();

    let is_answer = !current.read & !current.atomic;
    let is_ack = !current.syndrome.part(5, 3).any();
    // In the order of the registers.
    let answers_and_reads = [
        (
            "acks",
            "roce: ACKs given, without those that responses imply",
            gives_packet & is_answer & is_ack,
        ),
        (
            "naks",
            "roce: NAKs and RNR NAKs given",
            gives_packet & is_answer & !is_ack,
        ),
        ("reads", "READ requests executed", load_read),
    ];
    count_all(m, &answers_and_reads);
    count_more(
        m,
        Counter("read_responses", "READ responses given"),
        current.read & (gives_packet | gives_message),
        current.message.mux(current.count, m.lit(1, 24)),
    );
    let mut events = vec![
        (
            "drop_queue_pair",
            "READs and atomics dropped: the queue pair does not receive",
            drop_queue_pair,
        ),
        (
            "drop_opcode",
            "requests dropped: no READ or atomic, or none that is generated or in the profile",
            drop_opcode,
        ),
    ];
    events.extend(atomics.events);
    events.push((
        "repeated_atomics",
        "atomics answered from the store",
        load_atomic & atomics.repeated,
    ));
    count_all(m, &events);
    let answer = Fields::build::<Answer>(|name, width| match name {
        "qpn" => current.qpn,
        "syndrome" => current.syndrome,
        "psn" => current.psn,
        "silent" => !current.solar | current.marker,
        "marker" => current.marker,
        "msn" => current.msn,
        "entropy" => current.entropy,
        _ => m.lit(0, width),
    });
    Executor {
        claims_answer,
        answers: ends & current.answers,
        marks: current.marker,
        answer: answer.pack(),
    }
}

/// The message that is given: all packets at once.
fn describe_message<'a>(current: &Current<'a>) -> Signal<'a> {
    Fields::build::<ResponseMessage>(|name, _| match name {
        "qpn" => current.qpn,
        "atomic" => current.atomic,
        "mtu" => current.mtu,
        "entropy" => current.entropy,
        "psn" => current.psn,
        "packets" => current.count,
        "msn" => current.msn,
        "byte_count" => current.remaining,
        "value" => current.atomic.mux(current.original, current.address),
        _ => unreachable!("every field of a message is named"),
    })
    .pack()
}
