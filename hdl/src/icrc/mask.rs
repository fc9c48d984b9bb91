//! Masking: what the ICRC covers, with the fields that may change on the way set to ones and all before the IP
//! header and behind the end to zeros.
//!
//! It counts the beats of a frame and registers each beat as it came and masked; a byte that no header can reach has one
//! register, not two. Where the IP header is the sideband says; no header is parsed.

use std::collections::{BTreeMap, HashMap};

use spraynic_rtl::{Context, Definition, Module, Signal, cat_lsb_first, index_width};
use spraynic_wire::network::{ETHERNET_LENGTH, IPV4_LENGTH, IPV6_LENGTH, UDP_LENGTH, VLAN_LENGTH};

use super::Icrc;

/// Where the IP header begins.
pub(crate) const fn ip_offset(vlan: bool) -> usize {
    ETHERNET_LENGTH + if vlan { VLAN_LENGTH } else { 0 }
}

/// The halves of bytes of a frame (2n: bits 3:0 of byte n, 2n + 1: bits 7:4) that count as ones: IBA annex A17, section
/// 17.9.3.
fn ones(ipv6: bool, vlan: bool) -> Vec<usize> {
    let ip = ip_offset(vlan);
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

/// A kind of frame: IPv6, VLAN tag.
type FrameKind = (bool, bool);

/// What happens to each half byte of a beat.
fn lanes(icrc: &Icrc, kinds: &[FrameKind]) -> Vec<Lane> {
    let halves = icrc.data_width as usize / 4;
    let mut lanes = vec![Lane::default(); halves];
    for (kind, (ipv6, vlan)) in kinds.iter().enumerate() {
        for half in 0..2 * ip_offset(*vlan) {
            *lanes[half % halves].zeros.entry((half / halves) as u32).or_default() |= 1 << kind;
        }
        for half in ones(*ipv6, *vlan) {
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

/// `icrc_mask`: one beat in, one clock later the beat as it came and masked.
pub(crate) fn icrc_mask<'a>(context: &'a Context, icrc: &Icrc) -> Definition<'a> {
    let width = icrc.data_width;
    let m = context.module(&icrc.module_name("icrc_mask"));
    m.doc(
        "Registers each beat of a frame twice: as it came, and as the ICRC covers it, with ones in the fields that may change\n\
         on the way and zeros before the IP header. Behind the end of a frame both are zero. Both stay until the next beat.",
    );
    let enable = m.input("beat_valid", 1).doc("take a beat");
    let data = m.input("beat_data", width);
    let keep = m.input("beat_keep", width / 8).doc("bytes of the frame, contiguous");
    let last = m.input("beat_last", 1);
    let ipv6 = m
        .input("beat_ipv6", 1)
        .doc("the frame has IPv6, not IPv4; constant over a frame");
    let vlan = m
        .input("beat_vlan", 1)
        .doc("the frame has a VLAN tag; constant over a frame");

    let kinds = icrc.frame_kinds();
    let lanes = lanes(icrc, &kinds);
    let beats = lanes
        .iter()
        .flat_map(|lane| lane.ones.keys().chain(lane.zeros.keys()))
        .max();
    let beats = 1 + beats.copied().unwrap_or(0);
    let beat = m
        .reg("beat", index_width(u64::from(beats) + 1))
        .reset(0)
        .doc("beat of the frame; stops behind the last one with a field to mask");
    let next = beat.eq_lit(beats).mux(beat, beat + beat.lit(1));
    m.when(enable, || beat.set(last.mux(beat.lit(0), next)));

    let is = |signal: Signal<'a>, value: bool| if value { signal } else { !signal };
    let kind_signals = kinds.iter().map(|(six, tag)| {
        let mut signal = m.high();
        if icrc.ipv4 && icrc.ipv6 {
            signal = signal & is(ipv6, *six);
        }
        if icrc.vlan {
            signal = signal & is(vlan, *tag);
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

    // Whatever stands behind the end of a frame is not covered. Good frames end 2 modulo 4 bytes behind the beginning of a beat.
    let words = (0..width / 32).map(|word| (32 * word + 16, 32.min(width - 32 * word - 16)));
    let words = words.map(|(low, bits)| data.part(low, bits).gate(keep.bit(low / 8)));
    let data = cat_lsb_first(&[vec![data.part(0, 16)], words.collect()].concat());
    keep.ignore();

    let plain = m.reg("plain", width).doc("the beat, zeros behind the end of the frame");
    m.when(enable, || plain.set(data));
    // Runs of half bytes that the same happens to.
    let (mut masked, mut fields, mut low) = (vec![], vec![], 0);
    let mut kept = 0;
    for run in lanes.chunk_by(|left, right| left == right) {
        let bits = 4 * run.len() as u32;
        let part = data.part(low, bits);
        let ones = conditions.get(&run[0].ones);
        let zeros = conditions.get(&run[0].zeros);
        if ones.is_none() && zeros.is_none() {
            masked.push((None, low, bits));
        } else {
            let part = ones.map_or(part, |ones| part | ones.repeat(bits));
            fields.push(zeros.map_or(part, |zeros| part & !zeros.repeat(bits)));
            masked.push((Some(kept), low, bits));
            kept += bits;
        }
        low += bits;
    }
    let changed = m.reg("changed", kept).doc("bytes that can be masked, masked");
    m.when(enable, || changed.set(cat_lsb_first(&fields)));
    let parts = masked.into_iter().map(|(kept, low, bits)| match kept {
        Some(at) => changed.part(at, bits),
        None => plain.part(low, bits),
    });
    m.output_of("plain_data", plain).ignore();
    m.output_of("masked_data", cat_lsb_first(&parts.collect::<Vec<_>>()))
        .ignore();
    let first = m.reg("first", 1);
    m.when(enable, || first.set(beat.eq_lit(0)));
    m.output_of("masked_first", first)
        .doc("the first beat of its frame")
        .ignore();
    m.finish()
}
