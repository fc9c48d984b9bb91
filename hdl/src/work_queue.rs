//! `work_queue`: owns the work requests of each queue pair from being posted to their completion, and gives them in slices.
//!
//! One operation at a time: a request, a context, something that was heard from the network, or a slice. Each loads what is kept of its queue
//! pair, changes it, and stores it. It never touches payload. Theory of operation: `docs/src/blocks/work_queue.md`.

mod asked;
mod choice;
mod engine;
mod events;
mod heard;
mod slice;
mod state;
mod turns;
mod undo;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    Completion, Descriptor, RateRequest, Resend, ResponseDone, SendContext, SendProgress, WorkRequest, WorkSlice,
};
use spraynic_rtl::{Context, Definition, Stream};

/// Name of the block.
pub const NAME: &str = "work_queue";

/// The streams of the block.
struct Ports<'a> {
    requests: Stream<'a>,
    contexts: Stream<'a>,
    progress: Stream<'a>,
    resends: Stream<'a>,
    responses: Stream<'a>,
    grants: Stream<'a>,
    slices: Stream<'a>,
    asks: Stream<'a>,
    completions: Stream<'a>,
}

/// The block for this configuration.
#[must_use]
pub fn work_queue<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let m = context.module(&format!(
        "{NAME}_qp{}_w{}",
        config.send_queue_pairs(),
        config.send.window
    ));
    m.doc("Holds the work requests of each queue pair until they are complete, and gives them in slices: lost packets first,\nwithin window, READ limit, fences and tokens, by the weights of classes and queue pairs.");
    let ports = Ports {
        requests: Stream::slave(
            m,
            "s_axis_work_request",
            WorkRequest::width(),
            "WorkRequest: see descriptors",
        ),
        contexts: Stream::slave(
            m,
            "s_axis_context",
            SendContext::width(),
            "SendContext: writes a queue pair's context",
        ),
        progress: Stream::slave(
            m,
            "s_axis_progress",
            SendProgress::width(),
            "SendProgress of the request space",
        ),
        resends: Stream::slave(m, "s_axis_resend", Resend::width(), "Resend of the request space"),
        responses: Stream::slave(
            m,
            "s_axis_response_done",
            ResponseDone::width(),
            "ResponseDone: a READ or atomic has its response",
        ),
        grants: Stream::slave(
            m,
            "s_axis_rate_grant",
            2,
            "of each rate request: 0 granted, 1 the queue pair has no tokens, 2 the class",
        ),
        slices: Stream::master(
            m,
            "m_axis",
            WorkRequest::width() + WorkSlice::width(),
            "WorkRequest with WorkSlice above it",
        ),
        asks: Stream::master(
            m,
            "m_axis_rate_request",
            RateRequest::width(),
            "RateRequest: may this slice be sent?",
        ),
        completions: Stream::master(m, "m_axis_completion", Completion::width(), "Completion of a request"),
    };
    engine::build(m, config, &ports);
    m.finish()
}
