//! icrc: puts the invariant CRC into the last 4 bytes of each frame, one beat a clock at full width.
//!
//! It finds the IP header by the sideband, changes no other byte of a good frame, and never parses or judges one. Masking
//! (`icrc/mask.rs`) and the CRC core (`icrc/crc.rs`) know nothing of insertion; placement is here. The check of received frames is
//! `icrc/check.rs`. Theory: `docs/src/blocks/icrc.md`.

pub mod check;
mod crc;
mod fold;
mod gf2;
mod mask;
mod residue;

use spraynic_config::NicConfig;
use spraynic_rtl::{AxiStream, Context, Definition, MemoryStyle, Module, Signal, cat_lsb_first, index_width};
use thiserror::Error;

use crate::counter::{Counter, count_when};

pub use check::icrc_check;

/// Name of the block.
pub const NAME: &str = "icrc";

/// Beats that are between input and output at most.
const DEPTH: u32 = 16;

/// Bytes of the longest frame without payload: Ethernet, VLAN tag, IPv6, UDP, BTH, extension headers, ICRC.
const MOST_PROMPT_BYTES: u32 = 14 + 4 + 40 + 8 + 12 + 36 + 4;

/// Bits of `tuser` of the frames that come in, and of those that go out.
const USER_WIDTH: (u32, u32) = (4, 2);

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
    /// Insertion: bits of `tuser` above the others, constant over a frame, which leave as they come.
    pub sideband: u32,
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
            sideband: crate::header_builder::port_sideband(config),
        }
    }
}

impl Icrc {
    /// Clocks from the edge that takes a beat to the edge that gives it, where nothing waits and no frame is [split](Self::split_latency).
    #[must_use]
    pub fn latency(&self) -> u32 {
        // Into the beat that waits for the next one, through the CRC core, into the output register.
        2 + self.wait()
    }

    /// The same for a frame whose last beat has 2 bytes: the beat before begins the ICRC, and waits for what the last one adds to it.
    #[must_use]
    pub fn split_latency(&self) -> u32 {
        2 + crc::latency(&self.frames(Ends::WholeWords)) + 1
    }

    /// Clocks that each beat waits for its CRC. A frame may not get a gap before its last two beats by waiting for more, so that where
    /// one without payload can have three beats, all wait as long as the longest.
    fn wait(&self) -> u32 {
        let two_beats = 2 * self.data_width / 8 >= MOST_PROMPT_BYTES;
        crc::latency(&self.frames(Ends::WholeWords)) + u32::from(!two_beats)
    }

    /// The frames of one of the two modes. A sent frame has a VLAN tag or none, a received one up to two.
    fn frames(&self, ends: Ends) -> Frames {
        let tags = match ends {
            Ends::WholeWords => 1,
            Ends::Anywhere => 2,
        };
        Frames {
            data_width: self.data_width,
            ipv4: self.ipv4,
            ipv6: self.ipv6,
            most_tags: if self.vlan { tags } else { 0 },
            ends,
        }
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

/// Where frames end, which is how the two modes differ for the parts that they share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Insertion: 2 modulo 4 bytes behind the beginning of a beat.
    WholeWords,
    /// Check: behind any byte.
    Anywhere,
}

/// A kind of frame: IPv6, VLAN tags.
pub(crate) type FrameKind = (bool, u32);

/// The frames that masking and CRC are made for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frames {
    data_width: u32,
    ipv4: bool,
    ipv6: bool,
    /// VLAN tags at most.
    most_tags: u32,
    ends: Ends,
}

impl Frames {
    /// The kinds of frames that occur.
    fn kinds(&self) -> Vec<FrameKind> {
        let versions = [(self.ipv4, false), (self.ipv6, true)];
        let versions = versions.into_iter().filter(|(occurs, _)| *occurs);
        versions
            .flat_map(|(_, ipv6)| (0..=self.most_tags).map(move |tags| (ipv6, tags)))
            .collect()
    }

    /// Bits of the number of VLAN tags.
    fn tags_width(&self) -> u32 {
        index_width(u64::from(self.most_tags) + 1).max(1)
    }

    /// Bits of what is counted in a last beat: 4-byte words, or bytes.
    fn count_width(&self) -> u32 {
        let unit = match self.ends {
            Ends::WholeWords => 32,
            Ends::Anywhere => 8,
        };
        index_width(u64::from(self.data_width / unit))
    }

    /// `icrc_w512_ipv4_ipv6_vlan`, of a part `icrc_mask_w512_ipv4_ipv6_vlan`; of the check `icrc_check_mask_w512_ipv4_ipv6_vlan`.
    fn module_name(&self, part: &str) -> String {
        let mode = if self.ends == Ends::Anywhere { "_check" } else { "" };
        let part = if part.is_empty() {
            String::new()
        } else {
            format!("_{part}")
        };
        let kinds = [
            (self.ipv4, "_ipv4"),
            (self.ipv6, "_ipv6"),
            (self.most_tags > 0, "_vlan"),
        ];
        let kinds: String = kinds.into_iter().filter(|(on, _)| *on).map(|(_, kind)| kind).collect();
        format!("{NAME}{mode}{part}_w{}{kinds}", self.data_width)
    }
}

/// `icrc` (insert).
///
/// `s_axis` takes frames with 4 zero bytes in the place of the ICRC and 2 modulo 4 bytes in all; `tuser[0]` of the last beat: bad,
/// `tuser[1]`: IPv6, `tuser[2]`: VLAN tag, `tuser[3]`: prompt, constant over a frame. `m_axis` gives them with the ICRC; `tuser[0]`: bad,
/// `tuser[1]`: prompt. What stands above these bits ([`Icrc::sideband`]) is passed on. A prompt frame that comes without a gap leaves without one. A bad frame stays bad and keeps its number of beats; its
/// last 4 bytes are anything, and a length that is not 2 modulo 4 becomes so. `count_frames` counts the frames given.
///
/// # Errors
/// [`IcrcError`] for a width or a choice of frames that does not exist.
pub fn icrc<'a>(context: &'a Context, icrc: &Icrc) -> Result<Definition<'a>, IcrcError> {
    icrc.check()?;
    let width = icrc.data_width;
    let words = width / 32;
    let frames = icrc.frames(Ends::WholeWords);
    let sideband = icrc.sideband;
    let suffix = match sideband {
        0 => String::new(),
        bits => format!("_s{bits}"),
    };
    let m = context.module(&(frames.module_name("") + &suffix));
    m.doc(&format!(
        "Puts the ICRC into the last 4 bytes of each frame. A beat leaves {} clocks after it came, one of a frame whose last beat has 2\n\
         bytes {}; one that is not the last of its frame waits for the next one, too. Up to {DEPTH} beats are inside. The CRC runs freely\n\
         beside a FIFO of beats.",
        icrc.latency(),
        icrc.split_latency()
    ));
    let (user_in, user_out) = USER_WIDTH;
    let input = AxiStream::slave(
        m,
        "s_axis",
        width,
        user_in + sideband,
        "frames with zeros in the place of the ICRC",
    );
    let output = AxiStream::master(m, "m_axis", width, user_out + sideband, "frames with their ICRC");
    let above = if sideband > 0 { "; above: passed on" } else { "" };
    let _ = input.user.doc(&format!(
        "bit 0: bad (last beat), bit 1: IPv6, bit 2: VLAN tag, bit 3: prompt{above}"
    ));
    let _ = output
        .user
        .doc(&format!("bit 0: bad (last beat), bit 1: prompt{above}"));

    let occupancy = m
        .reg("occupancy", index_width(u64::from(DEPTH) + 1))
        .reset(0)
        .doc("beats inside");
    input.ready.set(!occupancy.msb());
    let taken = input.fires().named("taken");
    assert_whole_words(m, &input, taken);

    // One beat waits here until it is known whether the next one ends with half of the ICRC in it.
    let mask = m.instance("u_mask", mask::icrc_mask(context, &frames));
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
    let held_prompt = m.reg("held_prompt", 1);
    let held_sideband = (sideband > 0).then(|| m.reg("held_sideband", sideband));
    let held_count = m
        .reg("held_count", frames.count_width())
        .doc("n for 4n + 2 bytes; ones unless last");
    m.when(taken, || {
        held_last.set(input.last);
        held_bad.set(input.user.bit(0));
        held_vlan.set(input.user.bit(2));
        held_prompt.set(input.user.bit(3));
        if let Some(held) = held_sideband {
            held.set(input.user.part(user_in, sideband));
        }
        held_count.set(word_count(&input) | (!input.last).repeat(frames.count_width()));
    });
    let push = (held & (held_last | taken)).named("push");
    held.set(taken | (held & !push));

    let core = m.instance("u_crc", crc::icrc_crc(context, &frames));
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
    let begins_icrc = (held_last | ends_in_next).named("begins_icrc");
    let mut word = vec![held_last, held_bad, held_prompt, begins_icrc, held_count, place];
    word.extend(held_sideband);
    let word = cat_lsb_first(&word);
    let memory = |name: &str, width| m.memory(name, DEPTH, width).style(MemoryStyle::Distributed);
    let (beats, marks) = (memory("beats", width), memory("marks", word.width()));
    let write = pointer(m, "write", push);
    let read = pointer(m, "read", pop);
    beats.write(push, write, mask.output("plain_data"));
    marks.write(push, write, word);
    let (data, mark) = (beats.read_now(read), marks.read_now(read));
    let [last, bad, prompt, takes_crc] = [0, 1, 2, 3].map(|bit| mark.bit(bit));
    let count = mark.part(4, frames.count_width());
    let place = mark.part(4 + frames.count_width(), words + 1);
    let sideband_now = held_sideband.map(|_| mark.part(5 + frames.count_width() + words, sideband));

    // A CRC that comes in the clock in which its last beat leaves goes by its memory.
    let crcs = memory("crcs", 32);
    let kept_crcs = m
        .reg("kept_crcs", index_width(u64::from(DEPTH) + 1))
        .reset(0)
        .doc("CRCs in the memory");
    let crc_comes = core.output("crc_valid");
    let crc_waits = m.reg("crc_waits", 1).reset(0).doc("`kept_crcs` is not 0");
    let crc_taken = (pop & last).named("crc_taken");
    let keep_crc = (crc_comes & (crc_waits | !crc_taken)).named("keep_crc");
    let drop_crc = (crc_waits & crc_taken).named("drop_crc");
    crcs.write(keep_crc, pointer(m, "crc_write", keep_crc), core.output("crc"));
    let kept = crcs.read_now(pointer(m, "crc_read", drop_crc));
    up_down(kept_crcs, keep_crc, drop_crc);
    crc_waits.set(keep_crc | (crc_waits & !(drop_crc & kept_crcs.eq_lit(1))));
    let crc = crc_waits.mux(kept, core.output("crc")).named("crc");

    // A beat may leave when the CRC is there that would be its own if it were the last one: so those of a frame follow each other. Where the
    // ICRC begins in the beat before the last one, that beat waits for it.
    let mut token = push;
    for stage in 1..icrc.wait() {
        let next = m.reg(&format!("wait_{stage}"), 1).reset(0);
        next.set(token);
        token = next;
    }
    let ready = m.reg("leaving", occupancy.width()).reset(0).doc("beats that may leave");
    let may_leave = m.reg("may_leave", 1).reset(0).doc("`leaving` is not 0");
    up_down(ready, token, pop);
    may_leave.set(token | (may_leave & !(pop & ready.eq_lit(1))));
    up_down(occupancy, taken, pop);
    m.assert("leaving_beats_are_inside", ready.le(occupancy));
    m.assert("a_last_beat_has_its_crc", !crc_taken | crc_waits | crc_comes);
    m.assert(
        "flags_say_what_is_counted",
        may_leave.eq(ready.any()) & crc_waits.eq(kept_crcs.any()),
    );

    let full = m.reg("m_valid", 1).reset(0);
    let load = (!full | output.ready).named("load");
    let leaves = (may_leave & (!takes_crc | crc_waits | crc_comes)).named("leaves");
    pop.set(load & leaves);
    let out_data = m.reg("m_data", width);
    let out_keep = m.reg("m_keep", width / 8);
    let out_last = m.reg("m_last", 1);
    let out_bad = m.reg("m_bad", 1);
    let out_prompt = m.reg("m_prompt", 1);
    let out_sideband = sideband_now.map(|now| (m.reg("m_sideband", sideband), now));
    m.when(load, || {
        full.set(leaves);
        out_data.set(insert(data, crc, place));
        out_keep.set(keep(last, count, words));
        out_last.set(last);
        out_bad.set(bad);
        out_prompt.set(prompt);
        if let Some((out, now)) = out_sideband {
            out.set(now);
        }
    });
    output.data.set(out_data);
    output.keep.set(out_keep);
    output.last.set(out_last);
    let mut user = vec![out_bad, out_prompt];
    user.extend(out_sideband.map(|(out, _)| out));
    output.user.set(cat_lsb_first(&user));
    output.valid.set(full);

    count_when(m, Counter("frames", "frames given"), output.fires() & out_last);
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
    count_units((1..words).map(|word| stream.keep.bit(4 * word)).collect())
}

/// Where bit n - 1 of 2^k - 1 says that there are more than n units: one less than their number. They are contiguous, so halving
/// finds it.
fn count_units(mut more: Vec<Signal<'_>>) -> Signal<'_> {
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
