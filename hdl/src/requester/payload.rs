//! Payload as it was decided: from which source it comes, whether it is kept, or the value of an atomic in its place.

use super::{AxiStream, Module, Stream};
use crate::skid_buffer;
use spraynic_rtl::{Bundle, bundle};

bundle! {
    /// What is decided of a packet's payload.
    pub(super) struct Decision {
        roce: 1, "it comes by the second source";
        keep: 1, "it goes to memory, else it is discarded";
        immediate: 1, "there is none: `value` goes to memory";
        value: 64, "the value of an atomic";
    }
}

/// Moves payload packet by packet, in the order of the decisions in `queue`.
pub(super) fn payload<'a>(m: Module<'a>, sources: [AxiStream<'a>; 2], queue: Stream<'a>, output: AxiStream<'a>) {
    let decision = Decision::unpack(queue.data);
    let [solar, roce] = sources;
    let (width, bytes) = (solar.data.width(), solar.keep.width());
    let chosen = AxiStream::wires(m, "chosen", width, solar.user.width());
    let packed = decision.roce.mux(roce.pack(), solar.pack());
    chosen.set_packed(packed);
    chosen
        .valid
        .set(queue.valid & !decision.immediate & decision.roce.mux(roce.valid, solar.valid));
    solar
        .ready
        .set(queue.valid & !decision.immediate & !decision.roce & chosen.ready);
    roce.ready
        .set(queue.valid & !decision.immediate & decision.roce & chosen.ready);

    let given = AxiStream::wires(m, "given", width, solar.user.width());
    let immediate = decision.immediate;
    given
        .data
        .set(immediate.mux(decision.value.zero_extend(width), chosen.data));
    given.keep.set(immediate.mux(m.lit(0xFF, bytes), chosen.keep));
    given.last.set(immediate | chosen.last);
    given.user.set(chosen.user.gate(!immediate));
    given
        .valid
        .set((queue.valid & immediate) | (chosen.valid & decision.keep));
    chosen.ready.set(!decision.keep | given.ready);
    let moved = (immediate & given.ready) | (chosen.valid & chosen.last & chosen.ready);
    queue.ready.set(moved.named("packet_moved"));
    skid_buffer::register_axi(m, "u_payload", given).connect(output);
}
