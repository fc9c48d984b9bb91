//! Masking: what the ICRC covers, with the fields that may change on the way set to ones and all before the IP
//! header and behind the end to zeros.
//!
//! It counts the beats of a frame and registers each beat as it came and masked; a byte that no header can reach has one
//! register, not two. Where the IP header is the sideband says; no header is parsed.

use std::collections::{BTreeMap, HashMap};

use spraynic_rtl::{Context, Definition, Module, Signal, cat_lsb_first, index_width};
use spraynic_wire::icrc::{self, BTH_LENGTH};
use spraynic_wire::network::{ETHERNET_LENGTH, IPV4_LENGTH, IPV6_LENGTH, UDP_LENGTH, VLAN_LENGTH};

use super::crc::fold_masked;
use super::{Ends, FrameKind, Frames};

/// Where the IP header begins, behind so many VLAN tags.
pub(crate) const fn ip_offset(tags: u32) -> usize {
    ETHERNET_LENGTH + VLAN_LENGTH * tags as usize
}

/// The halves of bytes of a frame (2n: bits 3:0 of byte n, 2n + 1: bits 7:4) that count as ones: IBA annex A17, section
/// 17.9.3.
fn ones((ipv6, tags): FrameKind) -> Vec<usize> {
    let ip = ip_offset(tags);
    let bytes = |list: &[usize]| {
        list.iter()
            .flat_map(|byte| [2 * byte, 2 * byte + 1])
            .collect::<Vec<_>>()
    };
    let (mut halves, udp) = if ipv6 {
        // Traffic class and flow label: all of the first four bytes but the version; hop limit.
        let mut halves = vec![2 * ip];
        halves.extend(bytes(&[ip + 1, ip + 2, ip + 3, ip + 7]));
        (halves, ip + IPV6_LENGTH)
    } else {
        // TOS, TTL, header checksum.
        (bytes(&[ip + 1, ip + 8, ip + 10, ip + 11]), ip + IPV4_LENGTH)
    };
    // UDP checksum; the BTH byte of FECN and BECN.
    halves.extend(bytes(&[udp + 6, udp + 7, udp + UDP_LENGTH + 4]));
    halves
}

/// When half a byte of a beat is replaced: for each beat of the frame the kinds of frames, one bit a kind.
type Times = BTreeMap<u32, u8>;

/// What happens to half a byte of a beat.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Lane {
    ones: Times,
    zeros: Times,
}

/// What happens to each half byte of a beat.
fn lanes(frames: &Frames, kinds: &[FrameKind]) -> Vec<Lane> {
    let halves = frames.data_width as usize / 4;
    let mut lanes = vec![Lane::default(); halves];
    for (kind, (ipv6, tags)) in kinds.iter().enumerate() {
        for half in 0..2 * ip_offset(*tags) {
            *lanes[half % halves].zeros.entry((half / halves) as u32).or_default() |= 1 << kind;
        }
        for half in ones((*ipv6, *tags)) {
            *lanes[half % halves].ones.entry((half / halves) as u32).or_default() |= 1 << kind;
        }
    }
    lanes
}

/// The conditions under which a lane is replaced, made once each.
struct Conditions<'a> {
    module: Module<'a>,
    beat: Signal<'a>,
    /// One bit for each kind of frame.
    kinds: Vec<Signal<'a>>,
    made: HashMap<Times, Signal<'a>>,
}

impl<'a> Conditions<'a> {
    fn get(&mut self, times: &Times) -> Option<Signal<'a>> {
        if times.is_empty() {
            return None;
        }
        if let Some(made) = self.made.get(times) {
            return Some(*made);
        }
        let in_beat = times.iter().map(|(beat, kinds)| {
            let here = self.beat.eq_lit(*beat);
            if kinds.count_ones() as usize == self.kinds.len() {
                return here;
            }
            let listed = self.kinds.iter().enumerate().filter(|(kind, _)| kinds >> kind & 1 == 1);
            let of_kind = listed.map(|(_, signal)| *signal).reduce(|left, right| left | right);
            here & of_kind.unwrap_or(self.module.low())
        });
        let any = in_beat.reduce(|left, right| left | right)?;
        self.made.insert(times.clone(), any);
        Some(any)
    }
}

/// `icrc_mask`: one beat in, one clock later the beat as the ICRC covers it, folded once; for insertion also as it came.
pub(crate) fn icrc_mask<'a>(context: &'a Context, frames: &Frames) -> Definition<'a> {
    let width = frames.data_width;
    let m = context.module(&frames.module_name("mask"));
    m.doc(match frames.ends {
        Ends::WholeWords => {
            "Registers each beat of a frame twice: as it came, and as the ICRC covers it, with ones in the fields that may change\n\
             on the way and zeros before the IP header, folded. Behind the end of a frame both are zero. Both stay until the next beat."
        }
        Ends::Anywhere => {
            "Registers each beat of a frame as the ICRC covers it, with ones in the fields that may change on the way and zeros\n\
             before the IP header and behind the end of the frame, folded."
        }
    });
    let enable = m.input("beat_valid", 1).doc("take a beat");
    let data = m.input("beat_data", width);
    let keep = m.input("beat_keep", width / 8).doc("bytes of the frame, contiguous");
    let last = m.input("beat_last", 1);
    let ipv6 = m
        .input("beat_ipv6", 1)
        .doc("the frame has IPv6, not IPv4; constant over a frame");
    let vlan = m
        .input("beat_vlan", frames.tags_width())
        .doc("VLAN tags of the frame; constant over a frame");

    let kinds = frames.kinds();
    let lanes = lanes(frames, &kinds);
    let fields = lanes.iter().flat_map(|lane| lane.ones.keys().chain(lane.zeros.keys()));
    let judged = kinds
        .iter()
        .filter(|_| frames.ends == Ends::Anywhere)
        .map(|kind| (least_length(*kind) as u32 - 1) / (width / 8));
    let beats = 1 + fields.copied().chain(judged).max().unwrap_or(0);
    let beat = m
        .reg("beat", index_width(u64::from(beats) + 1))
        .reset(0)
        .doc("beat of the frame; stops behind the last one that is looked at");
    let next = beat.eq_lit(beats).mux(beat, beat + beat.lit(1));
    m.when(enable, || beat.set(last.mux(beat.lit(0), next)));

    let kind_signals = kinds.iter().map(|(six, tags)| {
        let mut signal = m.high();
        if frames.ipv4 && frames.ipv6 {
            signal = signal & if *six { ipv6 } else { !ipv6 };
        }
        if frames.most_tags > 0 {
            signal = signal & vlan.eq_lit(*tags);
        }
        signal
    });
    let mut conditions = Conditions {
        module: m,
        beat,
        kinds: kind_signals.collect(),
        made: HashMap::new(),
    };
    ipv6.ignore();
    vlan.ignore();

    // Whatever stands behind the end of a frame is not covered.
    let covered = match frames.ends {
        Ends::WholeWords => {
            let words = (0..width / 32).map(|word| (32 * word + 16, 32.min(width - 32 * word - 16)));
            let words = words.map(|(low, bits)| data.part(low, bits).gate(keep.bit(low / 8)));
            cat_lsb_first(&[vec![data.part(0, 16)], words.collect()].concat())
        }
        Ends::Anywhere => {
            let bytes = (0..width / 8).map(|byte| data.part(8 * byte, 8).gate(keep.bit(byte)));
            cat_lsb_first(&bytes.collect::<Vec<_>>())
        }
    };
    keep.ignore();

    // Runs of half bytes that the same happens to, masked where anything does.
    let mut low = 0;
    let mut runs = vec![];
    for run in lanes.chunk_by(|left, right| left == right) {
        let bits = 4 * run.len() as u32;
        let part = covered.part(low, bits);
        low += bits;
        let ones = conditions.get(&run[0].ones);
        let zeros = conditions.get(&run[0].zeros);
        let part = ones.map_or(part, |ones| part | ones.repeat(bits));
        runs.push(zeros.map_or(part, |zeros| part & !zeros.repeat(bits)));
    }
    match frames.ends {
        Ends::WholeWords => {
            let plain = m.reg("plain", width).doc("the beat, zeros behind the end of the frame");
            m.when(enable, || plain.set(covered));
            m.output_of("plain_data", plain).ignore();
        }
        Ends::Anywhere => {
            let plausible = plausible(&mut conditions, &kinds, enable, data, keep);
            m.output_of("masked_plausible", plausible)
                .doc("up to here the frame is what the sideband says, and has all headers and an ICRC")
                .ignore();
        }
    }
    let folded = fold_masked(frames, cat_lsb_first(&runs));
    let masked = m
        .reg("masked", folded.width())
        .doc("the beat as the ICRC covers it, folded once where there is something to fold");
    m.when(enable, || masked.set(folded));
    m.output_of("masked_data", masked).ignore();
    let first = m.reg("first", 1);
    m.when(enable, || first.set(beat.eq_lit(0)));
    m.output_of("masked_first", first)
        .doc("the first beat of its frame")
        .ignore();
    m.finish()
}

/// Bytes of the shortest frame with an ICRC.
fn least_length((ipv6, tags): FrameKind) -> usize {
    let ip = if ipv6 { IPV6_LENGTH } else { IPV4_LENGTH };
    ip_offset(tags) + ip + UDP_LENGTH + BTH_LENGTH + icrc::LENGTH
}

/// A register beside the masked beat: the frame is of a kind that occurs, its IP header begins as such (version; IPv4 without options)
/// and it is long enough to have an ICRC. A short frame with a right CRC over what is there has none.
fn plausible<'a>(
    conditions: &mut Conditions<'a>,
    kinds: &[FrameKind],
    enable: Signal<'a>,
    data: Signal<'a>,
    keep: Signal<'a>,
) -> Signal<'a> {
    let (m, beat) = (conditions.module, conditions.beat);
    let beat_bytes = data.width() as usize / 8;
    let (mut begins, mut reaches) = (m.low(), m.low());
    for (index, kind) in kinds.iter().enumerate() {
        let mut here = |byte: usize| {
            let times = Times::from([((byte / beat_bytes) as u32, 1 << index)]);
            let condition = conditions.get(&times).unwrap_or(m.low());
            (
                condition & keep.bit((byte % beat_bytes) as u32),
                (byte % beat_bytes) as u32,
            )
        };
        let (ip_is_here, at) = here(ip_offset(kind.1));
        let byte = data.part(8 * at, 8);
        let version = if kind.0 {
            byte.slice(7, 4).eq_lit(6)
        } else {
            byte.eq_lit(0x45)
        };
        begins = begins | (ip_is_here & version);
        let (end_is_here, _) = here(least_length(*kind) - 1);
        reaches = reaches | end_is_here;
    }
    let once = |name: &str, now: Signal<'a>, doc: &str| {
        let seen = m.reg(name, 1).doc(doc);
        m.when(enable, || seen.set(now | (seen & beat.ne_lit(0))));
        seen
    };
    let begins = once(
        "begins",
        begins.named("ip_begins"),
        "the IP header of its kind was there",
    );
    let reaches = once(
        "reaches",
        reaches.named("icrc_ends"),
        "the end of the shortest frame was there",
    );
    begins & reaches
}
