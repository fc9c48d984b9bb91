//! The CRC core of insertion: masked beats in, one CRC for each frame out after a fixed number of clocks. Its first half, from a
//! beat to 32 bits, is that of the check too.
//!
//! It runs freely: it never waits and never stops anybody. A last beat counts as full of zeros, which the stages behind
//! the state register take back. Theory: `docs/src/blocks/icrc.md`.

use spraynic_rtl::{Bits, Context, Definition, Module, Signal, cat_lsb_first};
use spraynic_wire::icrc::{LENGTH, STATE_AFTER_PREFIX};

use super::Frames;
use super::fold::folds;
use super::gf2::{Map, POLYNOMIAL, power_of_x};
use super::mask::ip_offset;

/// Folds between two registers: each is about one level of LUTs.
const FOLDS_PER_STAGE: usize = 2;

/// `log2(data_width)`.
pub(crate) fn doublings(frames: &Frames) -> u32 {
    frames.data_width.trailing_zeros()
}

/// From a CRC register to the state register: the last beat's zeros beyond the shortest length are taken back, and as
/// many square roots are taken as make the zeros of half a beat one zero bit.
fn to_state(frames: &Frames) -> Map {
    // A frame of 4g + 2 bytes in its last beat is followed by data_width / 8 - (4g + 2) zero bytes, and ends with the
    // zeros in the place of the ICRC. The 4g are given back behind the state register.
    let zero_bytes = i64::from(frames.data_width / 8) - 2 + LENGTH as i64;
    Map::root(doublings(frames) - 1).after(&Map::times_power_of_x(-8 * zero_bytes))
}

/// Registers between a masked beat and its remainder, that of the remainder not counted.
pub(crate) fn fold_stages(frames: &Frames) -> u32 {
    folds(frames.data_width).len().div_ceil(FOLDS_PER_STAGE) as u32
}

/// Clocks from a beat at the input to the CRC at the output, both counted as registers that hold them.
pub(crate) fn latency(frames: &Frames) -> u32 {
    // Remainder, state, one stage for each bit of the word count.
    fold_stages(frames) + 2 + frames.count_width()
}

/// Each bit of a linear map's result as a parity of the input; `columns` are the images of the input bits.
fn parities<'a>(input: Signal<'a>, columns: &[u32]) -> Signal<'a> {
    let m = input.module();
    let bits = (0..32).map(|row| {
        let mut mask = Bits::zero(input.width());
        for (at, column) in columns.iter().enumerate() {
            mask.set_bit(at as u32, column >> row & 1 == 1);
        }
        (input & m.lit(mask, input.width())).parity()
    });
    cat_lsb_first(&bits.collect::<Vec<_>>())
}

/// One zero bit shifted into a CRC register.
pub(crate) fn zero_bit(state: Signal<'_>) -> Signal<'_> {
    state >> 1 ^ (state.bit(0).repeat(32) & state.lit(POLYNOMIAL))
}

/// What travels with a beat.
#[derive(Clone, Copy)]
pub(crate) struct Beat<'a> {
    pub(crate) valid: Signal<'a>,
    pub(crate) first: Signal<'a>,
    pub(crate) vlan: Signal<'a>,
    pub(crate) last: Signal<'a>,
    pub(crate) count: Signal<'a>,
}

impl<'a> Beat<'a> {
    /// The ports of a core. `count` says how many bytes of a last beat belong to the frame, in `count_doc`'s way.
    pub(crate) fn inputs(m: Module<'a>, frames: &Frames, count_doc: &str) -> Self {
        Self {
            valid: m.input("beat_valid", 1).doc("a beat is there"),
            first: m.input("beat_first", 1).doc("it is the first of a frame"),
            vlan: m.input("beat_vlan", frames.tags_width()).doc("VLAN tags of the frame"),
            last: m.input("beat_last", 1).doc("it is the last of a frame"),
            count: m.input("beat_count", frames.count_width()).doc(count_doc),
        }
    }

    /// One clock later.
    pub(crate) fn delayed(&self, m: Module<'a>, stage: &str) -> Self {
        let valid = m.reg(&format!("{stage}_valid"), 1).reset(0);
        valid.set(self.valid);
        Self {
            valid,
            first: self.first.delayed(&format!("{stage}_first")),
            vlan: self.vlan.delayed(&format!("{stage}_vlan")),
            last: self.last.delayed(&format!("{stage}_last")),
            count: self.count.delayed(&format!("{stage}_count")),
        }
    }
}

/// The port `beat_masked`, folded until 32 parities can take the rest, and what travels with it.
pub(crate) fn folded<'a>(m: Module<'a>, frames: &Frames, mut beat: Beat<'a>) -> (Beat<'a>, Signal<'a>) {
    let mut rest = m
        .input("beat_masked", frames.data_width)
        .doc("zeros behind the end of the frame");
    for (stage, folds) in folds(frames.data_width).chunks(FOLDS_PER_STAGE).enumerate() {
        for fold in folds {
            rest = fold.apply(rest);
        }
        rest = rest.delayed(&format!("folded_{stage}"));
        beat = beat.delayed(m, &format!("folded_{stage}"));
    }
    (beat, rest)
}

/// The remainder as it shall be in the state register: bit `at` of `rest` is a power that the CRC's own 32 bits lie behind.
pub(crate) fn remainder<'a>(rest: Signal<'a>, to_state: &Map) -> Signal<'a> {
    let powers = (0..rest.width()).map(|at| to_state.apply(power_of_x(32 + rest.width() - 1 - at)));
    parities(rest, &powers.collect::<Vec<_>>())
}

/// What stands in the state register, moved on by a beat, where the first beat of a frame comes: the beat before it would have
/// held what leads to the state after the prefix, at the first byte of the IP header.
pub(crate) fn start<'a>(frames: &Frames, to_state: &Map, vlan: Signal<'a>) -> Signal<'a> {
    let behind = |tags: u32| {
        let back = i64::from(frames.data_width) - 8 * ip_offset(tags) as i64;
        let value = to_state.apply(Map::times_power_of_x(back).apply(STATE_AFTER_PREFIX));
        vlan.module().lit(value, 32)
    };
    if frames.most_tags == 0 {
        vlan.ignore();
        return behind(0);
    }
    vlan.select(&(0..=frames.most_tags).map(behind).collect::<Vec<_>>())
}

/// `icrc_crc`: see the file's head.
pub(crate) fn icrc_crc<'a>(context: &'a Context, frames: &Frames) -> Definition<'a> {
    let tagged = if frames.most_tags > 0 { "_vlan" } else { "" };
    let m = context.module(&format!("icrc_crc_w{}{tagged}", frames.data_width));
    m.doc(&format!(
        "ICRC over the masked beats of a frame up to its last 4 bytes, which are zero. Runs freely: the CRC of a frame\n\
         appears {} clocks after its last beat.",
        latency(frames)
    ));
    let beat = Beat::inputs(m, frames, "in a last beat: n for 4n + 2 bytes");
    let (mut beat, rest) = folded(m, frames, beat);

    let to_state = to_state(frames);
    let remainder = remainder(rest, &to_state).delayed("remainder");
    beat = beat.delayed(m, "remainder");

    // All zeros of one beat are two zero bits between the roots.
    let state = m.reg("state", 32);
    let start = start(frames, &to_state, beat.vlan);
    let shifted = beat.first.mux(start, zero_bit(zero_bit(state)));
    m.when(beat.valid, || state.set(shifted ^ remainder));
    let ended = m.reg("state_ended", 1).reset(0);
    ended.set(beat.valid & beat.last);
    let (mut ended, mut count) = (ended, beat.count.delayed("state_count"));

    // Gives back the zeros that were taken too many: half a beat of them is one zero bit now, a quarter after one squaring.
    let mut value = state;
    for bit in (0..frames.count_width()).rev() {
        let moved = count.bit(bit).mux(zero_bit(value), value);
        let squarings = if bit == 0 {
            doublings(frames) - 1 - (frames.count_width() - 1)
        } else {
            1
        };
        let squared = parities(moved, Map::squaring().power(squarings.into()).columns());
        let next = m.reg(&format!("moved_{bit}"), 32);
        m.when(ended, || next.set(if bit == 0 { !squared } else { squared }));
        let next_ended = m.reg(&format!("moved_{bit}_ended"), 1).reset(0);
        next_ended.set(ended);
        if bit > 0 {
            count = count.part(0, bit).delayed(&format!("moved_{bit}_count"));
        }
        (value, ended) = (next, next_ended);
    }
    m.output_of("crc", value)
        .doc("least significant byte first on the wire")
        .ignore();
    m.output_of("crc_valid", ended).doc("one clock for each frame").ignore();
    m.finish()
}
