//! The CRC core of the check: masked beats in, for each frame whether its CRC is right, in the clock in which its last beat is in
//! the state register.
//!
//! It runs freely, as that of insertion. A CRC run over a frame and its right ICRC leaves one residue, whatever the frame; the zeros
//! behind the frame in its last beat turn it into another constant for each length, which is taken off with the last beat.

use spraynic_rtl::{Context, Definition, Signal};
use spraynic_wire::icrc::LENGTH;

use super::Frames;
use super::crc::{Beat, doublings, fold_stages, folded, remainder, start, zero_bit};
use super::gf2::Map;

/// From a CRC register to the state register: all zeros of a beat are one zero bit there.
fn to_state(frames: &Frames) -> Map {
    Map::root(doublings(frames))
}

/// Clocks from a beat at the input to the verdict at the output, which is not registered.
pub(crate) fn latency(frames: &Frames) -> u32 {
    fold_stages(frames) + 1
}

/// The state behind a right frame whose last beat has `zero_bytes` of zeros behind it: its ICRC is the complement of the register, so
/// that ones are left in it, and shifted by their own length.
fn residue(frames: &Frames, zero_bytes: u32) -> u32 {
    let bits = 8 * (LENGTH as i64 + i64::from(zero_bytes));
    to_state(frames).after(&Map::times_power_of_x(bits)).apply(u32::MAX)
}

/// The residue of a last beat with `count` + 1 bytes of the frame.
fn residues<'a>(frames: &Frames, count: Signal<'a>) -> Signal<'a> {
    let m = count.module();
    let bytes = frames.data_width / 8;
    let table = m.wire("residue", 32).doc("what a right frame leaves");
    m.switch(count, |arms| {
        for count in 0..bytes {
            arms.case(count, || table.set_lit(residue(frames, bytes - 1 - count)));
        }
    });
    table
}

/// `icrc_residue`: see the file's head. `mark_width` bits travel with each beat.
pub(crate) fn icrc_residue<'a>(context: &'a Context, frames: &Frames, mark_width: u32) -> Definition<'a> {
    let tagged = if frames.most_tags > 0 { "_vlan" } else { "" };
    let m = context.module(&format!("icrc_residue_w{}{tagged}", frames.data_width));
    m.doc(&format!(
        "Whether the ICRC of each frame is right. Runs freely: the answer stands at the outputs {} clock(s) after the last beat at\n\
         the inputs, for one clock, and is not registered.",
        latency(frames)
    ));
    let beat = Beat::inputs(m, frames, "in a last beat: n for n + 1 bytes");
    let mut mark = m.input("beat_mark", mark_width).doc("travels with the beat");
    let (beat, rest) = folded(m, frames, beat);
    for stage in 0..fold_stages(frames) {
        mark = mark.delayed(&format!("folded_{stage}_mark"));
    }

    // What the first beat starts from and what the last one must leave come in with the remainder, so that one exclusive or is all the
    // loop takes and a right frame leaves zero.
    let to_state = to_state(frames);
    let start = start(frames, &to_state, beat.vlan).gate(beat.first);
    let residue = residues(frames, beat.count).gate(beat.last);
    let added = (remainder(rest, &to_state) ^ start ^ residue).named("added");
    let ended = m.reg("ended_now", 1).reset(0);
    ended.set(beat.valid & beat.last);

    let state = m.reg("state", 32).doc("zero where a right frame has ended");
    m.when(beat.valid, || {
        state.set(zero_bit(state).gate(!beat.first) ^ added);
    });
    m.output_of("ended", ended).doc("a frame has ended").ignore();
    m.output_of("ended_right", !state.any())
        .doc("with a right CRC")
        .ignore();
    m.output_of("ended_mark", mark.delayed("state_mark"))
        .doc("mark of its last beat")
        .ignore();
    m.finish()
}
