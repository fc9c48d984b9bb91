//! `response_queue`: holds the responses of solar until the peer has them, and gives their packets as far as the window goes, lost ones again.
//!
//! One operation at a time: a response, a context, something that was heard from the network, or a slice. Each loads what is kept of its queue
//! pair, changes it, and stores it; what the next slice needs is read meanwhile. It never touches payload. Theory of operation: `docs/src/blocks/response_queue.md`.

mod ahead;
mod emitter;
mod engine;
mod events;
mod slice;
mod turns;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    Descriptor, PacketDescriptor, PacketOrigin, RateRequest, Resend, ResponseMessage, SendContext, SendProgress,
};
use spraynic_rtl::{Context, Definition, Stream};

/// Name of the block.
pub const NAME: &str = "response_queue";

/// The streams of the block.
struct Ports<'a> {
    messages: Stream<'a>,
    contexts: Stream<'a>,
    progress: Stream<'a>,
    resends: Stream<'a>,
    grants: Stream<'a>,
    packets: Stream<'a>,
    asks: Stream<'a>,
}

/// The block for this configuration.
#[must_use]
pub fn response_queue<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let m = context.module(&format!(
        "{NAME}_qp{}_w{}_r{}",
        config.send_queue_pairs(),
        config.send.window,
        config.send.reads
    ));
    m.doc("Holds the READ responses and atomic ACKs of solar until the peer has them, and gives their packets: lost ones first,\nwithin window and tokens, queue pair by queue pair.");
    let slave = |name: &str, width: u32, doc: &str| Stream::slave(m, name, width, doc);
    let master = |name: &str, width: u32, doc: &str| Stream::master(m, name, width, doc);
    let ports = Ports {
        messages: slave(
            "s_axis",
            ResponseMessage::width(),
            "ResponseMessage: of response_engine",
        ),
        contexts: slave(
            "s_axis_context",
            SendContext::width(),
            "SendContext: writes a queue pair's context",
        ),
        progress: slave(
            "s_axis_progress",
            SendProgress::width(),
            "SendProgress of the response space",
        ),
        resends: slave("s_axis_resend", Resend::width(), "Resend of the response space"),
        grants: slave(
            "s_axis_rate_grant",
            2,
            "of each rate request: 0 granted, 1 the queue pair has no tokens, 2 the class",
        ),
        packets: master(
            "m_axis",
            PacketDescriptor::width() + PacketOrigin::width(),
            "PacketDescriptor with PacketOrigin above it",
        ),
        asks: master(
            "m_axis_rate_request",
            RateRequest::width(),
            "RateRequest: may these packets be sent?",
        ),
    };
    engine::build(m, config, &ports);
    m.finish()
}
