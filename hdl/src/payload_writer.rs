//! `payload_writer`: puts payload where `responder` says, and lets nothing of a packet be known before memory has it and all before.
//!
//! A packet without payload passes in a clock, one with payload at a beat a clock. It never decides where payload goes nor what is
//! answered, and never reorders. Theory of operation: `docs/src/blocks/payload_writer.md`.

mod aligner;
mod done;

pub(crate) use done::receives;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Completion, Descriptor, MemoryWrite, PayloadWrite, QueuePairContext};
use spraynic_rtl::{AxiStream, Context, Definition, Stream, cat_lsb_first};

use crate::counter::{Counter, count_when};
use crate::fields::Fields;
use crate::stream_fifo;
use crate::write_data::WriteData;

/// The block for this configuration.
#[must_use]
pub fn payload_writer<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let (width, depth) = (config.datapath.width_bits, config.receive.outstanding_writes);
    let m = context.module(&format!(
        "payload_writer_w{width}_o{depth}_qp{}",
        config.queue_pairs.count
    ));
    m.doc(&format!(
        "Writes payload to memory, aligned to the bus, a beat a clock. As many as {depth} packets wait for memory; in their order\n\
         they then give their completion, and go on to response_engine if they answer or execute something."
    ));
    let packets = Stream::slave(
        m,
        "s_axis",
        PayloadWrite::width(),
        "PayloadWrite: a packet, and what is due of it",
    );
    let payload = AxiStream::slave(
        m,
        "s_axis_payload",
        width,
        1,
        "one packet for each PayloadWrite with a length",
    );
    payload.user.ignore();
    payload.keep.ignore();
    let written = Stream::slave(
        m,
        "s_axis_written",
        1,
        "memory has the next write, in order; 1: it refused it",
    );
    let contexts = Stream::slave(
        m,
        "s_axis_context",
        QueuePairContext::width(),
        "QueuePairContext: as qp_lookup passes it on",
    );
    let writes = Stream::master(
        m,
        "m_axis_write",
        MemoryWrite::width(),
        "MemoryWrite: where the next packet of data goes",
    );
    let data = WriteData::master(m, "m_axis_write_data", width);
    let completions = Stream::master(
        m,
        "m_axis_completion",
        Completion::width(),
        "Completion: phase bit 0, which the queue sets",
    );
    let responses = Stream::master(
        m,
        "m_axis",
        PayloadWrite::width(),
        "PayloadWrite that answers or executes, when memory has all writes up to it",
    );

    // The packet at hand: it leaves when its last beat has been taken.
    let active = m.reg("active", 1).reset(0).doc("a packet is at hand");
    let word = m.reg("packet", packets.data.width());
    let packet = Fields::unpack::<PayloadWrite>(word);
    let arriving =
        aligner::Place::of(m, width, &Fields::unpack::<PayloadWrite>(packets.data)).registered(m, packets.fires());
    let has_payload = arriving.has_payload;
    let is_written = (has_payload & !packet.get("discard")).named("is_written");

    let waiting = Stream::wires(m, "waiting", PayloadWrite::width() + 1);
    let write_valid = m.reg("write_valid", 1).reset(0);
    let write_word = m.reg("write", MemoryWrite::width());
    let write_free = (!write_valid | writes.ready).named("write_free");
    // A packet takes its place in the row with its first beat, and asks memory for its write then.
    let may_begin = (waiting.ready & (!is_written | write_free)).named("may_begin");
    let steps = aligner::aligner(
        m,
        width,
        &aligner::Control {
            active: active & has_payload,
            discard: packet.get("discard"),
            may_begin,
            place: arriving,
        },
        payload,
        data,
    );
    let passes = (active & !has_payload & waiting.ready).named("passes");
    let begins = (passes | steps.begins).named("begins");
    let leaves = (passes | steps.ends).named("leaves");
    packets.ready.set(!active | leaves);
    m.when(packets.fires(), || {
        active.set_lit(1);
        word.set(packets.data);
    })
    .else_when(leaves, || active.set_lit(0));

    waiting.valid.set(begins);
    waiting.data.set(cat_lsb_first(&[word, is_written]));
    let asks = (begins & is_written).named("asks_memory");
    m.when(asks, || {
        write_valid.set_lit(1);
        let fields = Fields::build::<MemoryWrite>(|name, width| match name {
            "address" | "length" => packet.get(name),
            _ => m.lit(0, width),
        });
        write_word.set(fields.pack());
    })
    .else_when(writes.ready, || write_valid.set_lit(0));
    writes.valid.set(write_valid);
    writes.data.set(write_word);

    done::done(
        m,
        config,
        &done::Inputs {
            waiting: stream_fifo::buffer(m, "u_waiting", waiting, depth),
            written,
            contexts,
        },
        completions,
        responses,
    );
    count_when(m, Counter("packets", "packets taken"), begins);
    count_when(m, Counter("writes", "writes that memory was asked for"), asks);
    count_when(
        m,
        Counter("discards", "packets with payload that was not to be written"),
        begins & has_payload & !is_written,
    );
    m.finish()
}
