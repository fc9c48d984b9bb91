//! `packet_slicer` behind `work_queue`: cuts slices of messages, whose numbers all come with them. It keeps no context and drops nothing.
//!
//! Three registers before the cutter: the request; how many bytes of the message lie before the slice; addresses and lengths from there on.

use super::Message;
use super::admission::{Decoded, packets_of_length};
use super::cutter::{self, Start, Tag};
use crate::counter::{Counter, count_when};
use crate::fields::Fields;
use spraynic_config::descriptor::{Descriptor, PacketDescriptor, PacketOrigin, WorkRequest, WorkSlice};
use spraynic_config::{NicConfig, Profile};
use spraynic_rtl::{Context, Definition, Signal, Stream};

/// The block for this configuration.
#[must_use]
pub fn packet_slicer_slices<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let m = context.module("packet_slicer_slices");
    m.doc("Cuts slices of work requests into packet descriptors, one a clock. All numbers come with the slice.");
    let slices = Stream::slave(
        m,
        "s_axis",
        WorkRequest::width() + WorkSlice::width(),
        "WorkRequest with WorkSlice above it",
    );
    let packets = Stream::master(
        m,
        "m_axis",
        PacketDescriptor::width() + PacketOrigin::width(),
        "PacketDescriptor with PacketOrigin above it: one packet to build",
    );

    // A register takes what the one before it has when it is empty or passes on.
    let valid = ["valid_1", "valid_2", "valid_3"].map(|name| m.reg(name, 1).reset(0));
    let started = m.wire("started", 1);
    let moves_3 = (!valid[2] | started).named("moves_3");
    let moves_2 = (!valid[1] | moves_3).named("moves_2");
    let moves_1 = (!valid[0] | moves_2).named("moves_1");
    slices.ready.set(moves_1);
    let next = |moves: Signal<'a>, name: &str, value: Signal<'a>| {
        let reg = m.reg(name, value.width());
        m.when(moves, || reg.set(value));
        reg
    };
    for (valid, moves, before) in [
        (valid[0], moves_1, slices.valid),
        (valid[1], moves_2, valid[0]),
        (valid[2], moves_3, valid[1]),
    ] {
        m.when(moves, || valid.set(before));
    }

    // Clock 1 and 2: bytes before the slice, index times MTU.
    let all_1 = next(moves_1, "slice_1", slices.data);
    let part_1 = Fields::unpack::<WorkSlice>(all_1.part(WorkRequest::width(), WorkSlice::width()));
    let offsets: Vec<Signal<'a>> = (0..8u32)
        .map(|code| part_1.get("index").zero_extend(32) << (7 + code.clamp(1, 5)))
        .collect();
    let offset_2 = next(moves_2, "offset_2", part_1.get("mtu").select(&offsets));
    let all_2 = next(moves_2, "slice_2", all_1);

    // Clock 3: where the slice begins.
    let of_2 = |name: &str| Fields::unpack::<WorkRequest>(all_2.part(0, WorkRequest::width())).get(name);
    let local_address = of_2("local_address") + offset_2.zero_extend(64);
    let remote_address = of_2("remote_address") + offset_2.zero_extend(64);
    let local_address = next(moves_3, "local_address_3", local_address);
    let remote_address = next(moves_3, "remote_address_3", remote_address);
    let remaining = next(moves_3, "remaining_3", of_2("length") - offset_2);
    let all_3 = next(moves_3, "slice_3", all_2);
    let request = Fields::unpack::<WorkRequest>(all_3.part(0, WorkRequest::width()));
    let part = Fields::unpack::<WorkSlice>(all_3.part(WorkRequest::width(), WorkSlice::width()));
    let decoded = Decoded::new(&request);
    // What the queue has checked, or keeps for itself.
    all_3.ignore();

    let of_profile = |wanted: Profile| {
        let has = config.has_profile(wanted);
        if has {
            part.get("profile").eq_lit(wanted.code())
        } else {
            m.low()
        }
    };
    let (mrc, immediate) = (of_profile(Profile::Mrc), decoded.immediate);
    let again = part.get("retransmission");
    let psns =
        (decoded.read & of_profile(Profile::Roce)).mux(packets_of_length(remaining, part.get("mtu")), m.lit(1, 24));
    let message = Message {
        qpn: request.get("qpn"),
        mrc,
        send: decoded.send | decoded.invalidate,
        write: decoded.write,
        read: decoded.read,
        invalidate: decoded.invalidate,
        fetch_add: decoded.fetch_add,
        immediate_flag: immediate,
        solicited: request.get("solicited") & (decoded.send | decoded.invalidate | (decoded.write & immediate)),
        timestamps: mrc & part.get("timestamps"),
        mtu: part.get("mtu"),
        entropy: part.get("entropy"),
        psn: part.get("psn"),
        msn: part.get("msn"),
        rqmsn: part.get("rqmsn"),
        local_address,
        local_key: request.get("local_key"),
        // A READ that is sent again asks for what is missing.
        length: decoded.read.mux(remaining, request.get("length")),
        remote_address,
        remote_key: request.get("remote_key"),
        immediate: request.get("immediate"),
        compare: request.get("compare"),
        swap_add: request.get("swap_add"),
    };
    let start = Start {
        message,
        first: !part.get("index").any(),
        remaining,
        in_interval: part.get("index").part(0, 6),
        tag: Some(Tag {
            packets: part.get("packets"),
            slot: part.get("slot"),
            psns,
            class: part.get("class"),
            profile: part.get("profile"),
            again,
            rtx: again & mrc,
            asks: again & of_profile(Profile::Solar),
            ends_asking: part.get("ask"),
        }),
    };
    started.set(cutter::cutter(m, config, &start, valid[2], packets));
    count_when(m, Counter("packets", "packet descriptors given"), packets.fires());
    count_when(m, Counter("slices", "slices taken"), slices.fires());
    m.finish()
}
