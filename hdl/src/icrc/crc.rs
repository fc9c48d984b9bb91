//! The CRC core of insertion: masked beats in, one CRC for each frame out after a fixed number of clocks. Its first half, from a
//! beat to 32 bits, is that of the check too.
//!
//! It runs freely: it never waits and never stops anybody. A last beat counts as full of zeros, which the stages behind
//! the state register take back. Theory: `docs/src/blocks/icrc.md`.

use spraynic_rtl::{Bits, Context, Definition, Module, Signal, cat_lsb_first};
use spraynic_wire::icrc::{LENGTH, STATE_AFTER_PREFIX};

use super::Frames;
use super::fold::{Fold, folds, width_after};
use super::gf2::{Map, POLYNOMIAL, power_of_x};
use super::mask::ip_offset;

/// Folds between two registers: each is about one level of LUTs.
const FOLDS_PER_STAGE: usize = 2;

/// The folds of a beat by their place: before the register of the masked beat, between registers, before the parities of the state register.
struct FoldPlan {
    masked: Vec<Fold>,
    stages: Vec<Vec<Fold>>,
    remainder: Vec<Fold>,
}

impl FoldPlan {
    /// Masking and parities have a few levels of logic of their own, so they get one fold at most.
    fn new(frames: &Frames) -> Self {
        let mut masked = folds(frames.data_width);
        let mut rest = masked.split_off(masked.len().min(1));
        let remainder = rest.split_off(rest.len() / FOLDS_PER_STAGE * FOLDS_PER_STAGE);
        Self {
            masked,
            stages: rest.chunks(FOLDS_PER_STAGE).map(<[Fold]>::to_vec).collect(),
            remainder,
        }
    }
}

fn apply_all<'a>(folds: &[Fold], polynomial: Signal<'a>) -> Signal<'a> {
    folds.iter().fold(polynomial, |rest, fold| fold.apply(rest))
}

/// A masked beat as the core takes it from the register behind masking.
pub(crate) fn fold_masked<'a>(frames: &Frames, masked: Signal<'a>) -> Signal<'a> {
    apply_all(&FoldPlan::new(frames).masked, masked)
}

/// `log2(data_width)`.
pub(crate) fn doublings(frames: &Frames) -> u32 {
    frames.data_width.trailing_zeros()
}

/// The stages behind the state register, by the bits of the word count that each takes: two, and one before where their number is odd.
fn stages(frames: &Frames) -> Vec<u32> {
    let bits = frames.count_width();
    let odd = (bits % 2 == 1).then_some(1);
    odd.into_iter().chain(vec![2; bits as usize / 2]).collect()
}

/// Square roots that the state register is kept at: as many as make what the first stage gives back in one step (half a beat, or a
/// quarter of it) one zero bit.
fn roots(frames: &Frames) -> u32 {
    doublings(frames) - stages(frames)[0]
}

/// From a CRC register to the state register: the last beat's zeros beyond the shortest length are taken back, and roots are taken.
fn to_state(frames: &Frames) -> Map {
    // A frame of 4g + 2 bytes in its last beat is followed by data_width / 8 - (4g + 2) zero bytes, and ends with the
    // zeros in the place of the ICRC. The 4g are given back behind the state register.
    let zero_bytes = i64::from(frames.data_width / 8) - 2 + LENGTH as i64;
    Map::root(roots(frames)).after(&Map::times_power_of_x(-8 * zero_bytes))
}

/// Registers between the masked beat and the state register, both not counted.
pub(crate) fn fold_stages(frames: &Frames) -> u32 {
    FoldPlan::new(frames).stages.len() as u32
}

/// Clocks from a beat at the input to the CRC at the output, which is not registered.
pub(crate) fn latency(frames: &Frames) -> u32 {
    // State, all stages behind it but the last.
    fold_stages(frames) + 1 + stages(frames).len() as u32 - 1
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

/// So many zero bits.
fn zero_bits(state: Signal<'_>, count: u32) -> Signal<'_> {
    (0..count).fold(state, |state, _| zero_bit(state))
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
    let plan = FoldPlan::new(frames);
    let mut rest = m
        .input("beat_masked", width_after(frames.data_width, &plan.masked))
        .doc("the beat as the ICRC covers it, folded once where there is something to fold");
    for (stage, folds) in plan.stages.iter().enumerate() {
        rest = apply_all(folds, rest).delayed(&format!("folded_{stage}"));
        beat = beat.delayed(m, &format!("folded_{stage}"));
    }
    (beat, apply_all(&plan.remainder, rest))
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
         appears {} clocks after its last beat, for one clock.",
        latency(frames)
    ));
    let beat = Beat::inputs(m, frames, "in a last beat: n for 4n + 2 bytes");
    let (beat, rest) = folded(m, frames, beat);

    // What the first beat starts from comes in with its remainder.
    let to_state = to_state(frames);
    let start = start(frames, &to_state, beat.vlan).gate(beat.first);
    let added = (remainder(rest, &to_state) ^ start).named("added");
    let mut count = beat.count.delayed("state_count");

    // All zeros of a beat are as many zero bits as the first stage has places for.
    let stages = stages(frames);
    let state = m.reg("state", 32);
    let moved = zero_bits(state, 1 << stages[0]).gate(!beat.first);
    m.when(beat.valid, || state.set(moved ^ added));
    let mut ended = m.reg("state_ended", 1).reset(0);
    ended.set(beat.valid & beat.last);

    // Gives back the zeros that were taken too many: so many zero bits as the upper bits of the count say, then squaring makes what the
    // next bits count one zero bit.
    let mut value = state;
    for (stage, bits) in stages.iter().enumerate() {
        let left = count.width() - bits;
        let choices: Vec<Signal<'a>> = (0..1 << bits).map(|zeros| zero_bits(value, zeros)).collect();
        let moved = count.part(left, *bits).select(&choices);
        let squarings = stages
            .get(stage + 1)
            .copied()
            .unwrap_or(roots(frames) + stages[0] - frames.count_width());
        value = parities(moved, Map::squaring().power(squarings.into()).columns());
        if left == 0 {
            break;
        }
        let (held, held_ended) = (
            m.reg(&format!("moved_{stage}"), 32),
            m.reg(&format!("moved_{stage}_ended"), 1).reset(0),
        );
        m.when(ended, || held.set(value));
        held_ended.set(ended);
        count = count.part(0, left).delayed(&format!("moved_{stage}_count"));
        (value, ended) = (held, held_ended);
    }
    m.output_of("crc", !value)
        .doc("least significant byte first on the wire; not registered")
        .ignore();
    m.output_of("crc_valid", ended).doc("one clock for each frame").ignore();
    m.finish()
}
