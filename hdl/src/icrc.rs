//! icrc: puts the invariant CRC into the last 4 bytes of each frame, one beat a clock at full width.
//!
//! It finds the IP header by the sideband, changes no other byte of a good frame, and never parses or judges one. Masking
//! (`icrc/mask.rs`) and the CRC core (`icrc/crc.rs`) know nothing of insertion; placement is here. Theory:
//! `docs/src/blocks/icrc.md`.

mod crc;
mod fold;
mod gf2;
mod mask;

use spraynic_config::NicConfig;
use spraynic_rtl::{AxiStream, Context, Definition, MemoryStyle, Module, Signal, cat_lsb_first, index_width};
use thiserror::Error;

/// Name of the block.
pub const NAME: &str = "icrc";

/// Beats that are between input and output at most.
const DEPTH: u32 = 16;

/// What the block is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Icrc {
    /// Width of the streams in bits: 64, 128, 256, 512 or 1024.
    pub data_width: u32,
    /// Frames may have IPv4.
    pub ipv4: bool,
    /// Frames may have IPv6.
    pub ipv6: bool,
    /// Frames may have a VLAN tag.
    pub vlan: bool,
}

/// Why there is no such block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum IcrcError {
    /// Another width.
    #[error("icrc: data width {0} bits, should be 64, 128, 256, 512 or 1024")]
    DataWidth(u32),
    /// No kind of frame.
    #[error("icrc: neither IPv4 nor IPv6, should be at least one of them")]
    NoIp,
}

impl From<&NicConfig> for Icrc {
    fn from(config: &NicConfig) -> Self {
        Self {
            data_width: config.datapath.width_bits,
            ipv4: config.wire.ipv4,
            ipv6: config.wire.ipv6,
            vlan: config.wire.vlan,
        }
    }
}

impl Icrc {
    /// Clocks from the edge that takes a beat to the edge that gives it, where nothing waits.
    #[must_use]
    pub fn latency(&self) -> u32 {
        // Into the beat that waits for the next one, through the CRC core, into its memory and out of it.
        crc::latency(self) + 4
    }

    /// Bits of the count of 4-byte words in a beat.
    fn count_width(&self) -> u32 {
        index_width(u64::from(self.data_width / 32))
    }

    /// The kinds of frames that occur: IPv6, VLAN tag.
    fn frame_kinds(&self) -> Vec<(bool, bool)> {
        let versions = [(self.ipv4, false), (self.ipv6, true)];
        let versions = versions.into_iter().filter(|(occurs, _)| *occurs);
        versions
            .flat_map(|(_, ipv6)| [Some((ipv6, false)), self.vlan.then_some((ipv6, true))])
            .flatten()
            .collect()
    }

    /// `name_w512_ipv4_ipv6_vlan`.
    fn module_name(&self, name: &str) -> String {
        let parts = [(self.ipv4, "_ipv4"), (self.ipv6, "_ipv6"), (self.vlan, "_vlan")];
        let parts: String = parts.into_iter().filter(|(on, _)| *on).map(|(_, part)| part).collect();
        format!("{name}_w{}{parts}", self.data_width)
    }

    fn check(&self) -> Result<(), IcrcError> {
        if ![64, 128, 256, 512, 1024].contains(&self.data_width) {
            return Err(IcrcError::DataWidth(self.data_width));
        }
        if !self.ipv4 && !self.ipv6 {
            return Err(IcrcError::NoIp);
        }
        Ok(())
    }
}

/// `icrc` (insert).
///
/// `s_axis` takes frames with 4 zero bytes in the place of the ICRC and 2 modulo 4 bytes in all; `tuser[0]` of the last beat: bad,
/// `tuser[1]`: IPv6, `tuser[2]`: VLAN tag, constant over a frame. `m_axis` gives them with the ICRC; `tuser`: bad. A bad
/// frame stays bad and keeps its number of beats; its last 4 bytes are anything, and a length that is not 2 modulo 4 becomes so.
/// `count_frames` counts the frames given.
///
/// # Errors
/// [`IcrcError`] for a width or a choice of frames that does not exist.
pub fn icrc<'a>(context: &'a Context, icrc: &Icrc) -> Result<Definition<'a>, IcrcError> {
    icrc.check()?;
    let width = icrc.data_width;
    let words = width / 32;
    let m = context.module(&icrc.module_name(NAME));
    m.doc(&format!(
        "Puts the ICRC into the last 4 bytes of each frame. A beat leaves {} clocks after it came (a beat that is not the last of\n\
         its frame waits for the next one, too); up to {DEPTH} beats are inside. The CRC runs freely beside a FIFO of beats.",
        icrc.latency()
    ));
    let input = AxiStream::slave(m, "s_axis", width, 3, "frames with zeros in the place of the ICRC");
    let output = AxiStream::master(m, "m_axis", width, 1, "frames with their ICRC");
    let _ = input.user.doc("bit 0: bad (last beat), bit 1: IPv6, bit 2: VLAN tag");
    let _ = output.user.doc("bad (last beat)");

    let occupancy = m
        .reg("occupancy", index_width(u64::from(DEPTH) + 1))
        .reset(0)
        .doc("beats inside");
    input.ready.set(!occupancy.msb());
    let taken = input.fires().named("taken");
    assert_whole_words(m, &input, taken);

    // One beat waits here until it is known whether the next one ends with half of the ICRC in it.
    let mask = m.instance("u_mask", mask::icrc_mask(context, icrc));
    mask.connect("beat_valid", taken)
        .connect("beat_data", input.data)
        .connect("beat_keep", input.keep)
        .connect("beat_last", input.last)
        .connect("beat_ipv6", input.user.bit(1))
        .connect("beat_vlan", input.user.bit(2));
    let held = m.reg("held", 1).reset(0).doc("a beat waits");
    let held_last = m.reg("held_last", 1);
    let held_bad = m.reg("held_bad", 1);
    let held_vlan = m.reg("held_vlan", 1);
    let held_count = m
        .reg("held_count", icrc.count_width())
        .doc("n for 4n + 2 bytes; ones unless last");
    m.when(taken, || {
        held_last.set(input.last);
        held_bad.set(input.user.bit(0));
        held_vlan.set(input.user.bit(2));
        held_count.set(word_count(&input) | (!input.last).repeat(icrc.count_width()));
    });
    let push = (held & (held_last | taken)).named("push");
    held.set(taken | (held & !push));

    let core = m.instance("u_crc", crc::icrc_crc(context, icrc));
    core.connect("beat_valid", push)
        .connect("beat_first", mask.output("masked_first"))
        .connect("beat_vlan", held_vlan)
        .connect("beat_last", held_last)
        .connect("beat_count", held_count)
        .connect("beat_masked", mask.output("masked_data"));

    // Bit n: the ICRC lies in bytes 4n - 2 to 4n + 1 of the beat, as far as there are such bytes.
    let ends_here = (0..words).map(|word| held_last & held_count.eq_lit(word));
    let ends_in_next = !held_last & input.last & !input.keep.bit(4);
    let place = cat_lsb_first(&ends_here.chain([ends_in_next]).collect::<Vec<_>>()).named("place");

    let pop = m.wire("pop", 1);
    let word = cat_lsb_first(&[held_last, held_bad, held_count, place]);
    let memory = |name: &str, width| m.memory(name, DEPTH, width).style(MemoryStyle::Distributed);
    let (beats, marks) = (memory("beats", width), memory("marks", word.width()));
    let write = pointer(m, "write", push);
    let read = pointer(m, "read", pop);
    beats.write(push, write, mask.output("plain_data"));
    marks.write(push, write, word);
    let (data, mark) = (beats.read_now(read), marks.read_now(read));
    let (last, bad) = (mark.bit(0), mark.bit(1));
    let count = mark.part(2, icrc.count_width());
    let place = mark.part(2 + icrc.count_width(), words + 1);

    let crcs = memory("crcs", 32);
    let crc_write = pointer(m, "crc_write", core.output("crc_valid"));
    let crc_read = pointer(m, "crc_read", pop & last);
    crcs.write(core.output("crc_valid"), crc_write, core.output("crc"));
    let crc = crcs.read_now(crc_read).named("crc");

    // A beat may leave when the ICRC is there that would be its own if its frame ended with the next beat.
    let mut token = push;
    for stage in 1..=crc::latency(icrc) + 1 {
        let next = m.reg(&format!("wait_{stage}"), 1).reset(0);
        next.set(token);
        token = next;
    }
    let ready = m.reg("leaving", occupancy.width()).reset(0).doc("beats that may leave");
    up_down(ready, token, pop);
    up_down(occupancy, taken, pop);
    m.assert("leaving_beats_are_inside", ready.le(occupancy));

    let full = m.reg("m_valid", 1).reset(0);
    let load = (!full | output.ready).named("load");
    pop.set(load & ready.any());
    let out_data = m.reg("m_data", width);
    let out_keep = m.reg("m_keep", width / 8);
    let out_last = m.reg("m_last", 1);
    let out_bad = m.reg("m_bad", 1);
    m.when(load, || {
        full.set(ready.any());
        out_data.set(insert(data, crc, place));
        out_keep.set(keep(last, count, words));
        out_last.set(last);
        out_bad.set(bad);
    });
    output.data.set(out_data);
    output.keep.set(out_keep);
    output.last.set(out_last);
    output.user.set(out_bad);
    output.valid.set(full);

    let frames = m.reg("frames", 32).reset(0);
    m.when(output.fires() & out_last, || frames.set(frames + frames.lit(1)));
    m.output_of("count_frames", frames).doc("frames given").ignore();
    Ok(m.finish())
}

/// Address of a memory of [`DEPTH`] words that counts on.
fn pointer<'a>(m: Module<'a>, name: &str, step: Signal<'a>) -> Signal<'a> {
    let pointer = m
        .reg(&format!("{name}_address"), index_width(u64::from(DEPTH)))
        .reset(0);
    m.when(step, || pointer.set(pointer + pointer.lit(1)));
    pointer
}

/// Counts up and down.
fn up_down<'a>(counter: Signal<'a>, up: Signal<'a>, down: Signal<'a>) {
    let m = counter.module();
    m.when(up & !down, || counter.set(counter + counter.lit(1)));
    m.when(down & !up, || counter.set(counter - counter.lit(1)));
}

/// n for 4n + 2 bytes; what is not 2 modulo 4 is rounded (4n + 1 to 4n + 4 are n).
fn word_count<'a>(stream: &AxiStream<'a>) -> Signal<'a> {
    let words = stream.keep.width() / 4;
    // Bit n: there are more than 4n bytes. They are contiguous, so halving finds their number.
    let mut more: Vec<Signal<'a>> = (1..words).map(|word| stream.keep.bit(4 * word)).collect();
    let mut bits = vec![];
    while let Some(middle) = more.get(more.len() / 2).copied() {
        let (below, above) = (&more[..more.len() / 2], &more[more.len() / 2 + 1..]);
        let half = below.iter().zip(above).map(|(below, above)| middle.mux(*above, *below));
        more = half.collect();
        bits.insert(0, middle);
    }
    cat_lsb_first(&bits)
}

/// Good frames end 2 modulo 4 bytes behind the beginning of a beat.
fn assert_whole_words<'a>(m: Module<'a>, stream: &AxiStream<'a>, taken: Signal<'a>) {
    let good_end = taken & stream.last & !stream.user.bit(0);
    let words = (0..stream.keep.width() / 4).map(|word| stream.keep.part(4 * word, 4));
    let words: Vec<Signal<'a>> = words.collect();
    let halves = words
        .iter()
        .map(|word| word.bit(0).eq(word.bit(1)) & word.bit(2).eq(word.bit(3)));
    let partial = words.iter().map(|word| word.bit(1) & !word.bit(2));
    let all = |list: &mut dyn Iterator<Item = Signal<'a>>| cat_lsb_first(&list.collect::<Vec<_>>());
    let whole = all(&mut halves.into_iter()).all() & all(&mut partial.into_iter()).any();
    m.assert("good_frame_is_2_modulo_4_bytes", !good_end | whole);
}

/// The beat with the ICRC where `place` says.
fn insert<'a>(data: Signal<'a>, crc: Signal<'a>, place: Signal<'a>) -> Signal<'a> {
    let words = place.width() - 1;
    let lanes = (0..=words).map(|word| {
        let here = place.bit(word);
        match word {
            0 => here.mux(crc.part(16, 16), data.part(0, 16)),
            _ if word == words => here.mux(crc.part(0, 16), data.part(32 * word - 16, 16)),
            _ => here.mux(crc, data.part(32 * word - 16, 32)),
        }
    });
    cat_lsb_first(&lanes.collect::<Vec<_>>())
}

/// `tkeep` of a beat: all ones unless it is the last one, 4 * count + 2 ones then.
fn keep<'a>(last: Signal<'a>, count: Signal<'a>, words: u32) -> Signal<'a> {
    let reaches = |word: u32| match word {
        0 => count.module().high(),
        _ if word == words => !last,
        // `count` is all ones where the beat is not the last one.
        _ => count.ge(count.lit(word)),
    };
    let pairs = (0..words).flat_map(|word| [reaches(word).repeat(2), reaches(word + 1).repeat(2)]);
    cat_lsb_first(&pairs.collect::<Vec<_>>())
}

#[cfg(test)]
#[path = "icrc/tests.rs"]
mod tests;
