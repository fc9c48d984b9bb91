//! `icrc` (check): says of each frame of `packet_parser` whether its invariant CRC is right, one beat a clock at full width.
//!
//! It finds the IP header by the sideband, and the ICRC needs no place: a CRC run over a frame and its right ICRC leaves one residue.
//! It never holds back or gives a byte of a frame; who buffers the payload acts on the verdict. Theory: `docs/src/blocks/icrc.md`.

use spraynic_rtl::{AxiStream, Context, Definition, MemoryStyle, Module, Signal, Stream, cat_lsb_first, index_width};

use super::{Ends, Icrc, IcrcError, count_units, mask, pointer, residue, up_down};
use crate::counter::{Counter, count_when};

/// Verdicts that are on their way or wait at most.
const DEPTH: u32 = 16;

/// Verdict on `m_axis_verdict`: the ICRC is right.
pub const RIGHT: u32 = 0;
/// Verdict on `m_axis_verdict`: the ICRC is wrong.
pub const WRONG: u32 = 1;
/// Verdict on `m_axis_verdict`: not judged, the packet is trimmed.
pub const UNCHECKED: u32 = 2;
/// Bits of a verdict.
pub const VERDICT_WIDTH: u32 = 2;

/// Bits of `tuser` of the frames.
const USER_WIDTH: u32 = 5;

impl Icrc {
    /// Clocks from the edge that takes the last beat of a frame to the edge that gives its verdict, where nothing waits.
    #[must_use]
    pub fn check_latency(&self) -> u32 {
        // Through the register of the mask and the core.
        1 + residue::latency(&self.frames(Ends::Anywhere))
    }
}

/// `icrc` (check).
///
/// `s_axis` takes frames from the first byte of the Ethernet header to the end of the IP packet, of any length; `tuser[0]` of the last
/// beat: the frame is dropped, no verdict is wanted; `tuser[1]`: IPv6, `tuser[3:2]`: VLAN tags, `tuser[4]`: trimmed, constant over a
/// frame. `m_axis_verdict` gives a verdict for each frame that is not dropped, in order: [`RIGHT`], [`WRONG`] or [`UNCHECKED`].
///
/// # Errors
/// [`IcrcError`] for a width or a choice of frames that does not exist.
pub fn icrc_check<'a>(context: &'a Context, icrc: &Icrc) -> Result<Definition<'a>, IcrcError> {
    icrc.check()?;
    let width = icrc.data_width;
    let frames = icrc.frames(Ends::Anywhere);
    let m = context.module(&frames.module_name(""));
    m.doc(&format!(
        "Says of each frame whether its ICRC is right. A verdict leaves {} clocks after the last beat of its frame came; up to {DEPTH}\n\
         are inside.",
        icrc.check_latency()
    ));
    let input = AxiStream::slave(
        m,
        "s_axis",
        width,
        USER_WIDTH,
        "frames up to the end of the IP packet, with their ICRC",
    );
    let _ = input
        .user
        .doc("bit 0: dropped, no verdict (last beat); bit 1: IPv6; bits 3:2: VLAN tags; bit 4: trimmed");
    let output = Stream::master(
        m,
        "m_axis_verdict",
        VERDICT_WIDTH,
        "of each frame that is not dropped: 0 right, 1 wrong, 2 not checked",
    );

    let occupancy = m
        .reg("occupancy", index_width(u64::from(DEPTH) + 1))
        .reset(0)
        .doc("verdicts on their way or waiting");
    input.ready.set(!occupancy.msb());
    let taken = input.fires().named("taken");
    let wants_verdict = (input.last & !input.user.bit(0)).named("wants_verdict");
    up_down(occupancy, taken & wants_verdict, output.fires());

    let vlan = input.user.part(2, frames.tags_width());
    let mask = m.instance("u_mask", mask::icrc_mask(context, &frames));
    mask.connect("beat_valid", taken)
        .connect("beat_data", input.data)
        .connect("beat_keep", input.keep)
        .connect("beat_last", input.last)
        .connect("beat_ipv6", input.user.bit(1))
        .connect("beat_vlan", vlan);
    let held = m
        .reg("held", 1)
        .reset(0)
        .doc("the mask holds a beat that came in the clock before");
    held.set(taken);
    let more = (1..width / 8).map(|byte| input.keep.bit(byte)).collect();
    let count = count_units(more).delayed("held_count");
    let mark = cat_lsb_first(&[
        wants_verdict.delayed("held_wants_verdict"),
        input.user.bit(4).delayed("held_trimmed"),
        mask.output("masked_plausible"),
    ]);
    let core = m.instance("u_residue", residue::icrc_residue(context, &frames, mark.width()));
    core.connect("beat_valid", held)
        .connect("beat_first", mask.output("masked_first"))
        .connect("beat_vlan", vlan.delayed("held_vlan"))
        .connect("beat_last", input.last.delayed("held_last"))
        .connect("beat_count", count.doc("n for n + 1 bytes"))
        .connect("beat_masked", mask.output("masked_data"))
        .connect("beat_mark", mark);

    let mark = core.output("ended_mark");
    let judged = (core.output("ended") & mark.bit(0)).named("judged");
    let trimmed = mark.bit(1);
    let right = (core.output("ended_right") & mark.bit(2)).named("right");
    let code = |verdict| m.lit(verdict, VERDICT_WIDTH);
    let verdict = trimmed
        .mux(code(UNCHECKED), right.mux(code(RIGHT), code(WRONG)))
        .named("verdict");
    give(m, judged, verdict, output);

    count_when(
        m,
        Counter("right", "packets whose ICRC is right"),
        judged & right & !trimmed,
    );
    count_when(
        m,
        Counter("drop_icrc", "packets whose ICRC is wrong: they are dropped"),
        judged & !right & !trimmed,
    );
    count_when(
        m,
        Counter("unchecked", "trimmed packets: what the ICRC covered is not all there"),
        judged & trimmed,
    );
    Ok(m.finish())
}

/// Gives verdicts as they are judged, or puts them behind those that wait. There is room for all that are counted inside.
fn give<'a>(m: Module<'a>, judged: Signal<'a>, verdict: Signal<'a>, output: Stream<'a>) {
    let memory = m
        .memory("verdicts", DEPTH, VERDICT_WIDTH)
        .style(MemoryStyle::Distributed);
    let waiting = m
        .reg("waiting", index_width(u64::from(DEPTH) + 1))
        .reset(0)
        .doc("verdicts that were not taken at once");
    let waits = waiting.any().named("waits");

    let pop = (waits & output.ready).named("pop");
    let push = (judged & (waits | !output.ready)).named("push");
    memory.write(push, pointer(m, "write", push), verdict);
    let oldest = memory.read_now(pointer(m, "read", pop));
    up_down(waiting, push, pop);
    output.data.set(waits.mux(oldest, verdict));
    output.valid.set(judged | waits);
    m.assert(
        "no_more_wait_than_there_is_room",
        !(push & !pop & waiting.eq_lit(DEPTH)),
    );
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
