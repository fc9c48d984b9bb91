//! The emitter: gives the packets of the slice that was begun, one a clock, and has a place for the next slice. The engine goes on meanwhile, and
//! never waits for it.

use crate::fields::Fields;
use crate::response_packet::{ResponsePacket, mtu_bytes};
use spraynic_config::Profile;
use spraynic_config::descriptor::PacketOrigin;
use spraynic_rtl::{Bundle, Module, Signal, Stream, bundle, cat};
use spraynic_wire::Syndrome;

bundle! {
    /// What is left of a slice.
    pub(super) struct Slice {
        packets: 5, "packets to give";
        first: 1, "the next one is the first of its response";
        ends: 1, "the last one is the last of its response";
        qpn: 24, "queue pair number";
        place: 8, "place of the response";
        class: 2, "traffic class";
        retransmission: 1, "it was sent before";
        atomic: 1, "an atomic ACK";
        mtu: 3, "MTU code";
        entropy: 20, "entropy value";
        psn: 24, "PSN of the next packet";
        msn: 24, "MSN";
        address: 64, "byte address of the next packet's payload; of an atomic: its original value";
        remaining: 32, "bytes of the READ that have not been given";
    }
}

/// What the engine knows of the emitter.
pub(super) struct Emitter<'a> {
    /// A slice waits behind the one that is being given: no other one has place.
    pub(super) full: Signal<'a>,
    /// A slice that is begun now waits for no other.
    pub(super) free: Signal<'a>,
}

/// Gives what `begin` sets in the clock of `begins`.
pub(super) fn emitter<'a>(m: Module<'a>, begins: Signal<'a>, begin: &Slice<'a>, packets: Stream<'a>) -> Emitter<'a> {
    let busy = m.reg("emits", 1).reset(0).doc("a slice is being given");
    let slice = Slice::regs(m, "slice");
    let full = m
        .reg("slice_waits", 1)
        .reset(0)
        .doc("another slice is to be given next");
    let waiting = Slice::regs(m, "waiting_slice");
    let out_valid = m.reg("out_valid", 1).reset(0);
    let out = m.reg("out", packets.data.width());
    packets.valid.set(out_valid);
    packets.data.set(out);
    let gives = (busy & (!out_valid | packets.ready)).named("gives");
    let is_last_of_slice = slice.packets.eq_lit(1);
    let last = (is_last_of_slice & slice.ends).named("gives_last");
    let mtu = mtu_bytes(m, slice.mtu).named("mtu_bytes");
    m.when(packets.ready, || out_valid.set_lit(0));
    m.when(gives, || {
        out_valid.set_lit(1);
        slice.packets.set(slice.packets - slice.packets.lit(1));
        slice.first.set_lit(0);
        slice.psn.set(slice.psn + slice.psn.lit(1));
        slice.address.set(slice.address + mtu.zero_extend(64));
        slice.remaining.set(slice.remaining - mtu.zero_extend(32));
    });
    let free = (!busy | (gives & is_last_of_slice)).named("next_slice_may_come");
    m.when(free, || {
        busy.set(full | begins);
        full.set_lit(0);
        slice.set(&Slice::unpack(full.mux(waiting.pack(), begin.pack())));
    })
    .else_when(begins, || full.set_lit(1));
    m.when(begins, || waiting.set(begin));
    m.assert("slice_has_place", !(begins & full));
    let packet = ResponsePacket {
        qpn: slice.qpn,
        read: !slice.atomic,
        atomic: slice.atomic,
        first: slice.first,
        last,
        mtu,
        entropy: slice.entropy,
        psn: slice.psn,
        msn: slice.msn,
        syndrome: m.lit(Syndrome::ACK.byte(), 8),
        address: slice.address,
        remaining: slice.remaining,
        original: slice.address,
        // As the last packet of a request does: its SACK comes at once.
        ack_request: last,
    };
    let origin = Fields::build::<PacketOrigin>(|name, width| match name {
        "slot" => slice.place,
        "class" => slice.class,
        "retransmission" => slice.retransmission,
        "psns" | "space" | "tracked" => m.lit(1, width),
        "profile" => m.lit(Profile::Solar.code(), width),
        "last" => last,
        _ => unreachable!("every field of an origin is named"),
    });
    m.when(gives, || out.set(cat(&[origin.pack(), packet.pack(m)])));
    Emitter { full, free }
}
