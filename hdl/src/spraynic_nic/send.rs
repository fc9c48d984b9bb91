//! From work requests to packets, and what the peer says of them.

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    Descriptor, ExpectedResponse, PathEvent, PathEventKind, Resend, SendProgress, WorkOpcode, WorkRequest, WorkSlice,
};
use spraynic_rtl::{Module, Signal, Stream};

use super::Blocks;
use super::merge::{filter, merge, part, with_data};
use super::probe;
use crate::fields::Fields;
use crate::joints::{drain, from, has_stream, into, join, join_axi_where_both, join_where_both};
use crate::stream_fifo;
use crate::stream_fork::fork;

/// Feedback that may wait for `retransmit_engine`, which takes some 25 clocks for a SACK: so long no packet behind it waits.
const FEEDBACK: u32 = 64;

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
    stream_fifo::buffer(m, "u_feedback_fifo", copies[0], FEEDBACK)
        .connect(into(blocks.at("send_retransmit_engine"), "s_axis_feedback"));
    match has_stream(requester, "s_axis_feedback") {
        true => copies[1].connect(into(requester, "s_axis_feedback")),
        false => drain(copies[1]),
    }
    join_axi_where_both(receive, "m_axis_feedback_payload", requester, "s_axis_feedback_payload");
    join_where_both(receive, "m_axis_requester", requester, "s_axis");
    join_axi_where_both(receive, "m_axis_requester_payload", requester, "s_axis_payload");

    let writer = blocks.at("response_writer");
    join(requester, "m_axis", writer, "s_axis");
    join_axi_where_both(requester, "m_axis_payload", writer, "s_axis_payload");
    join(writer, "m_axis", requester, "s_axis_written");
    drain(from(writer, "m_axis_completion"));
    probe::answers(m, config, copies[2], contexts)
}

/// What `retransmit_engine` says: progress and losses to the queues, what it learnt of paths to those who judge and choose them.
/// `answers` are events of paths too.
pub(super) fn verdicts<'a>(m: Module<'a>, blocks: &Blocks<'a>, answers: Stream<'a>) {
    let engine = blocks.at("send_retransmit_engine");
    let work = blocks.at("send_work_queue");
    let responses = blocks.find("send_response_queue");
    let progress = from(engine, "m_axis_progress");
    let space = Fields::unpack::<SendProgress>(progress.data).get("space");
    by_space(
        m,
        "progress_of_responses",
        progress,
        space,
        into(work, "s_axis_progress"),
        responses.map(|block| into(block, "s_axis_progress")),
    );
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
