//! Gives the frames of the datapath, cut at the end of the IP packet, to `icrc`; passes over all others.
//!
//! The last beat waits until it is known whether the frame is dropped. Where Ethernet padding takes beats of its own, it waits
//! in the output register, so that the padding never fills the queue.

use super::classify::Route;
use super::lanes::keep_up_to;
use super::queue::Queue;
use super::{Beat, PacketParser};
use spraynic_rtl::{AxiStream, Module, Signal, cat_lsb_first};

/// What it reads.
#[derive(Clone, Copy)]
pub(super) struct Sources<'a> {
    /// Beats of all frames.
    pub(super) beats: Queue<'a>,
    /// A [`Route`] for each frame, when it is decided.
    pub(super) routes: Queue<'a>,
    /// For each frame, when it has ended, whether it is dropped.
    pub(super) ends: Queue<'a>,
}

/// Returns the bit that says that a beat leaves the queue.
pub(super) fn frame_reader<'a>(
    m: Module<'a>,
    parser: &PacketParser,
    from: Sources<'a>,
    output: AxiStream<'a>,
) -> Signal<'a> {
    let beat = Beat::unpack(from.beats.head, parser);
    let route = Route::unpack(from.routes.head);
    let dropped = from.ends.head;
    let (end_lane, end_beat) = (
        route.ip_end.part(0, parser.lane_bits()),
        route.ip_end.part(parser.lane_bits(), parser.beat_bits()),
    );

    let number = m
        .reg("frame_beat", parser.beat_bits())
        .reset(0)
        .doc("number of the beat in its frame; stays at the largest");
    let cut = m
        .reg("frame_cut", 1)
        .reset(0)
        .doc("the IP packet has ended, what comes is padding: the output register holds a last beat that waits for the end of the frame");
    let ends_here = (number.eq(end_beat) & !cut).named("ip_ends_here");

    let out_valid = m.reg("frame_valid", 1).reset(0);
    let out_dropped = m.reg("frame_dropped", 1);
    let out = |name: &str, width| m.reg(&format!("frame_{name}"), width);
    let (data, keep, last) = (
        out("data", parser.data_width),
        out("keep", parser.beat_bytes()),
        out("last", 1),
    );
    let user = out("user", 4);

    let given = (route.datapath & !cut).named("frame_gives");
    let out_free = (!cut & (!out_valid | output.ready)).named("frame_out_free");
    let known = from.beats.valid & from.routes.valid & (!beat.last | from.ends.valid);
    let pop = (known & (!given | out_free)).named("frame_pops");
    from.beats.pop.set(pop);
    from.routes.pop.set(pop & beat.last);
    from.ends.pop.set(pop & beat.last);
    m.when(pop, || {
        number.set(
            beat.last
                .mux(number.lit(0), number + (!number.all()).zero_extend(number.width())),
        );
        cut.set(!beat.last & (cut | (route.datapath & ends_here)));
    });

    // A frame that is shorter than its IP length ends with its last byte. Both ends are decoded before it is known which one counts.
    let lanes = parser.beat_bytes();
    let in_packet = keep_up_to(end_lane, lanes) | (!ends_here).repeat(lanes);
    // Whatever stands there goes into a register that is free, so that nothing but its freedom enables it; whether it is valid
    // is known later.
    m.when(out_free, || {
        data.set(beat.data);
        keep.set(keep_up_to(beat.lane, lanes) & in_packet);
        last.set(ends_here | beat.last);
        user.set(cat_lsb_first(&[route.ipv6, route.tags, route.trimmed]));
        out_dropped.set(beat.last & dropped);
        out_valid.set(known & given & (beat.last | !ends_here));
    })
    .else_when(cut & known & beat.last, || {
        out_dropped.set(dropped);
        out_valid.set_lit(1);
    });
    m.assert("what_waits_is_not_valid", !(cut & out_valid));

    output.data.set(data);
    output.keep.set(keep);
    output.last.set(last);
    output.user.set(cat_lsb_first(&[out_dropped, user]));
    output.valid.set(out_valid);
    pop
}
