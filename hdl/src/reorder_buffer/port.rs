//! The output port: packets that pass by and packets out of slots leave through it, a packet at a time, in turn.
//!
//! Whose turn it is stands in a register, and what leaves goes into queues whose flags are registers, so that neither the other side nor the
//! blocks behind stand in a path to the wide selection.

use super::queue::queue;
use super::sizes::Sizes;
use spraynic_config::descriptor::{Descriptor, SequencedPacket};
use spraynic_rtl::{AxiStream, Module, Signal, Stream, cat_lsb_first};

/// Beats, and descriptors, that wait for the blocks behind.
const WAITING: u32 = 16;

/// A packet, or a beat of one, that wants to leave. What is offered is not taken back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaving<'a> {
    pub(super) valid: Signal<'a>,
    pub(super) first: Signal<'a>,
    pub(super) last: Signal<'a>,
    pub(super) has_payload: Signal<'a>,
    pub(super) descriptor: Signal<'a>,
    pub(super) data: Signal<'a>,
    pub(super) keep: Signal<'a>,
    /// It leaves: to be driven by `port`.
    pub(super) fires: Signal<'a>,
}

/// Builds the port; drives `fires` of both.
pub(super) fn port<'a>(
    m: Module<'a>,
    sizes: &Sizes,
    (out, out_payload): (Stream<'a>, AxiStream<'a>),
    passing: Leaving<'a>,
    reading: Option<Leaving<'a>>,
) {
    let word = m.wire("given_word", SequencedPacket::width());
    let bus_bits = 8 * sizes.bus_bytes;
    let beat = m.wire("given_beat", bus_bits + sizes.bus_bytes + 1);
    let (gives_word, gives_beat) = (m.wire("gives_word", 1), m.wire("gives_beat", 1));
    let words = queue(m, "words_out", WAITING, (gives_word, word), out.fires());
    let beats = queue(m, "beats_out", WAITING, (gives_beat, beat), out_payload.fires());
    // What leaves in this clock and in the next is not counted yet.
    let some = |held: Signal<'a>| held.lt(held.lit(WAITING - 2));
    let room = (some(words.held) & some(beats.held)).delayed("port_has_room").reset(0);
    let pack = |leaving: &Leaving<'a>| cat_lsb_first(&[leaving.data, leaving.keep, leaving.last]);
    match reading {
        None => {
            passing.fires.set(passing.valid & room);
            word.set(passing.descriptor);
            beat.set(pack(&passing));
            gives_word.set(passing.fires & passing.first);
            gives_beat.set(passing.fires & passing.has_payload);
        }
        Some(reading) => {
            let reads = m
                .reg("port_reads", 1)
                .reset(0)
                .doc("packets out of slots have the port");
            let inside = m.reg("inside_packet", 1).reset(0).doc("a packet has begun to leave");
            passing.fires.set(passing.valid & room & !reads);
            reading.fires.set(reading.valid & room & reads);
            let fires = (passing.fires | reading.fires).named("port_fires");
            let last = reads.mux(reading.last, passing.last);
            inside.set((fires & !last) | (inside & !fires));
            // Behind a packet the other side has its turn if it has one; an idle port is that of packets that pass by.
            let ends = (fires & last).named("packet_ends");
            let idle = (!inside & !reads.mux(reading.valid, passing.valid)).named("port_idle");
            // The wide selection has a register of its own, the other way round, so that no tool makes one of both.
            let passes = m.reg("port_passes", 1).reset(1).doc("the inverse of `port_reads`");
            let next = reads.mux(ends & !passing.valid, reading.valid);
            m.when(ends | idle, || {
                reads.set(next);
                passes.set(!next);
            });
            word.set(passes.mux(passing.descriptor, reading.descriptor));
            beat.set(passes.mux(pack(&passing), pack(&reading)));
            m.assert("port_passes_is_the_inverse", passes.ne(reads));
            gives_word.set((passing.fires & passing.first) | (reading.fires & reading.first));
            gives_beat.set((passing.fires & passing.has_payload) | (reading.fires & reading.has_payload));
        }
    }
    out.valid.set(words.valid);
    out.data.set(words.word);
    out_payload.valid.set(beats.valid);
    out_payload.data.set(beats.word.part(0, bus_bits));
    out_payload.keep.set(beats.word.part(bus_bits, sizes.bus_bytes));
    out_payload.last.set(beats.word.msb());
    out_payload.user.set_lit(0);
}
