//! From work requests to packets, and what the peer says of them.

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    Descriptor, ExpectedResponse, PathEvent, PathEventKind, ReceivedPacket, Resend, SendProgress, SequencedPacket,
    WorkOpcode, WorkRequest, WorkSlice,
};
use spraynic_rtl::{AxiStream, Module, Signal, Stream};

use super::Blocks;
use super::merge::{filter, merge, part, with_data};
use super::probe;
use crate::fields::Fields;
use crate::joints::{drain, from, has_stream, into, join, join_axi_where_both, join_where_both};
use crate::stream_fifo;
use crate::stream_fork::fork;

/// Feedback that may wait for `retransmit_engine`, which takes 8 clocks and more for a SACK: so long no packet behind it waits.
const FEEDBACK: u32 = 64;

/// Beats of payload that wait before `requester`, of each of its inputs.
const PAYLOAD_BEATS: u32 = 32;

/// Rate requests that are under way.
const RATE_REQUESTS: u32 = 16;

/// `work_queue` gives slices: to be cut, and to be expected where they are READs or atomics.
pub(super) fn slices<'a>(m: Module<'a>, blocks: &Blocks<'a>) {
    let requester = blocks.at("send_requester");
    let copies = fork(
        m,
        from(blocks.at("send_work_queue"), "m_axis"),
        &["slice", "expected_slice"],
    );
    copies[0].connect(into(blocks.at("send_packet_slicer"), "s_axis"));
    let request = Fields::unpack::<WorkRequest>(copies[1].data.part(0, WorkRequest::width()));
    let slice = Fields::unpack::<WorkSlice>(copies[1].data.part(WorkRequest::width(), WorkSlice::width()));
    copies[1].data.ignore();
    let is = |opcode: WorkOpcode| request.get("opcode").eq_lit(opcode as u8);
    let atomic = is(WorkOpcode::CompareSwap) | is(WorkOpcode::FetchAdd);
    let expected = Fields::build::<ExpectedResponse>(|name, width| match name {
        "qpn" => request.get("qpn"),
        "slot" => slice.get("slot"),
        "psn" => slice.get("psn"),
        "atomic" => atomic,
        "address" => request.get("local_address"),
        "length" => request.get("length"),
        _ => m.lit(0, width),
    });
    let is_expected = (is(WorkOpcode::Read) | atomic) & !slice.get("retransmission");
    let expects = filter(m, "expected", copies[1], is_expected.named("is_expected"));
    with_data(m, "expected_response", expects, expected.pack()).connect(into(requester, "s_axis_expected"));
    join(
        requester,
        "m_axis_response_done",
        blocks.at("send_work_queue"),
        "s_axis_response_done",
    );
}

/// `work_queue` and `response_queue` share `rate_limiter`: each grant goes to who asked.
pub(super) fn rates<'a>(m: Module<'a>, blocks: &Blocks<'a>) {
    let limiter = blocks.at("send_rate_limiter");
    let work = blocks.at("send_work_queue");
    let Some(responses) = blocks.find("send_response_queue") else {
        join(work, "m_axis_rate_request", limiter, "s_axis_request");
        join(limiter, "m_axis_grant", work, "s_axis_rate_grant");
        return;
    };
    let asks = [work, responses].map(|block| from(block, "m_axis_rate_request"));
    let [first, second] = asks;
    // In turn where both ask.
    let turn = m.reg("rate_turn", 1).reset(0).doc("who asked last");
    let of_second = turn
        .mux(!first.valid, second.valid)
        .named("rate_request_is_of_responses");
    let order = Stream::wires(m, "rate_order", 1);
    let requests = into(limiter, "s_axis_request");
    let any = first.valid | second.valid;
    requests.data.set(of_second.mux(second.data, first.data));
    requests.valid.set(any & order.ready);
    let moves = requests.fires();
    order.data.set(of_second);
    order.valid.set(moves);
    first.ready.set(moves & !of_second);
    second.ready.set(moves & of_second);
    m.when(moves, || turn.set(of_second));
    let order = stream_fifo::buffer(m, "u_rate_orders", order, RATE_REQUESTS);
    let grants = from(limiter, "m_axis_grant");
    let takers = [work, responses].map(|block| into(block, "s_axis_rate_grant"));
    for (taker, mine) in takers.iter().zip([!order.data, order.data]) {
        taker.data.set(grants.data);
        taker.valid.set(grants.valid & order.valid & mine);
    }
    let taken = order.data.mux(takers[1].ready, takers[0].ready);
    grants.ready.set(order.valid & taken);
    order.ready.set(grants.valid & taken);
}

/// What peers say of own packets goes to `retransmit_engine`, `requester` and the probes of paths. `contexts` are for the latter.
/// Returns the events of paths that answers to probes are.
pub(super) fn feedback<'a>(m: Module<'a>, config: &NicConfig, blocks: &Blocks<'a>, contexts: Stream<'a>) -> Stream<'a> {
    let receive = blocks.at("receive");
    let requester = blocks.at("send_requester");
    let copies = fork(
        m,
        from(receive, "m_axis_feedback"),
        &["feedback", "feedback_of_requester", "feedback_of_probes"],
    );
    // A SACK that finds none before it is there at once: a retransmission waits for it.
    stream_fifo::falling_through(m, "u_feedback_fifo", copies[0], FEEDBACK)
        .connect(into(blocks.at("send_retransmit_engine"), "s_axis_feedback"));
    let payload_in = |port: &str| AxiStream::into_instance(requester, port);
    let payload_out = |port: &str| AxiStream::from_instance(receive, port);
    if has_stream(requester, "s_axis_feedback") {
        let packet = Fields::unpack::<ReceivedPacket>(copies[1].data.part(0, ReceivedPacket::width()));
        to_requester(
            m,
            "feedback",
            (copies[1], payload_out("m_axis_feedback_payload")),
            packet.get("payload_length").any(),
            (
                into(requester, "s_axis_feedback"),
                payload_in("s_axis_feedback_payload"),
            ),
        );
    } else {
        drain(copies[1]);
        join_axi_where_both(receive, "m_axis_feedback_payload", requester, "s_axis_feedback_payload");
    }
    if has_stream(receive, "m_axis_requester") && has_stream(requester, "s_axis") {
        let packets = from(receive, "m_axis_requester");
        let packet = Fields::unpack::<SequencedPacket>(packets.data);
        to_requester(
            m,
            "solar",
            (packets, payload_out("m_axis_requester_payload")),
            packet.get("payload_length").any(),
            (into(requester, "s_axis"), payload_in("s_axis_payload")),
        );
    } else {
        join_where_both(receive, "m_axis_requester", requester, "s_axis");
        join_axi_where_both(receive, "m_axis_requester_payload", requester, "s_axis_payload");
    }

    let writer = blocks.at("response_writer");
    join(requester, "m_axis", writer, "s_axis");
    join_axi_where_both(requester, "m_axis_payload", writer, "s_axis_payload");
    join(writer, "m_axis", requester, "s_axis_written");
    drain(from(writer, "m_axis_completion"));
    probe::answers(m, config, copies[2], contexts)
}

/// Packets for `requester` on one of its inputs, with their payload: a packet is offered when the first beat of its payload has come.
///
/// Payload leaves `qp_lookup` in the order of the wire, and `requester` moves it in the order in which it takes packets of its two inputs. If it took a
/// packet whose payload stands behind that of another one which it has not taken, neither would ever move.
fn to_requester<'a>(
    m: Module<'a>,
    name: &str,
    (packets, payload): (Stream<'a>, AxiStream<'a>),
    has_payload: Signal<'a>,
    (taker, payload_taker): (Stream<'a>, AxiStream<'a>),
) {
    let begins = m
        .reg(&format!("{name}_payload_begins"), 1)
        .reset(1)
        .doc("the next beat of payload begins a packet");
    let begun = m
        .reg(&format!("{name}_payload_begun"), PAYLOAD_BEATS.trailing_zeros() + 2)
        .reset(0)
        .doc("packets whose payload has begun to come and that have not been taken");
    let arrives = payload.fires();
    m.when(arrives, || begins.set(payload.last));
    let waiting = stream_fifo::buffer_axi(m, &format!("u_{name}_payload_fifo"), payload, PAYLOAD_BEATS);
    waiting.connect(payload_taker);

    let may_enter = !has_payload | begun.any();
    taker.data.set(packets.data);
    taker.valid.set(packets.valid & may_enter);
    packets.ready.set(taker.ready & may_enter);
    let (one_more, one_less) = (arrives & begins, taker.fires() & has_payload);
    m.when(one_more & !one_less, || begun.set(begun + begun.lit(1)));
    m.when(one_less & !one_more, || begun.set(begun - begun.lit(1)));
}

/// What `retransmit_engine` says: progress and losses to the queues, what it learnt of paths to those who judge and choose them.
/// `answers` are events of paths too.
pub(super) fn verdicts<'a>(m: Module<'a>, blocks: &Blocks<'a>, answers: Stream<'a>) {
    let engine = blocks.at("send_retransmit_engine");
    let work = blocks.at("send_work_queue");
    let responses = blocks.find("send_response_queue");
    let progress = from(engine, "m_axis_progress");
    // A failure in the space of responses is one of the queue pair, so both are told.
    let copies = fork(m, progress, &["progress", "progress_of_responses"]);
    let fields = Fields::unpack::<SendProgress>(progress.data);
    let (of_responses, failed) = (fields.get("space"), fields.get("failed"));
    filter(m, "progress_of_work", copies[0], !of_responses | failed).connect(into(work, "s_axis_progress"));
    match responses {
        Some(block) => {
            filter(m, "progress_of_space_1", copies[1], of_responses).connect(into(block, "s_axis_progress"));
        }
        None => drain(copies[1]),
    }
    let resend = from(engine, "m_axis_resend");
    let space = Fields::unpack::<Resend>(resend.data).get("space");
    by_space(m, "resend_of_responses", resend, space, into(work, "s_axis_resend"), {
        responses.map(|block| into(block, "s_axis_resend"))
    });

    let (monitor, spray) = (blocks.at("send_path_monitor"), blocks.at("send_spray_scheduler"));
    let copies = fork(m, from(engine, "m_axis_path"), &["path_event", "path_event_of_spray"]);
    merge(m, "event_of_path", &[copies[0], answers]).connect(into(monitor, "s_axis_event"));
    let event = Fields::unpack::<PathEvent>(copies[1].data);
    let came_back = event.get("kind").eq_lit(PathEventKind::Acknowledged as u8);
    filter(m, "recycled", copies[1], came_back).connect(into(spray, "s_axis_recycle"));
    join(monitor, "m_axis_path", spray, "s_axis_path");
}

/// By sequence space; where there are no responses to send, what is of theirs is of nobody.
fn by_space<'a>(
    m: Module<'a>,
    name: &str,
    stream: Stream<'a>,
    space: Signal<'a>,
    requests: Stream<'a>,
    responses: Option<Stream<'a>>,
) {
    let taker = responses.unwrap_or_else(|| {
        let nobody = Stream::wires(m, name, stream.data.width());
        drain(nobody);
        nobody
    });
    part(stream, space, [requests, taker]);
}
