//! The first bytes of the frame at hand in registers, with what is cheap to find out while they come in.
//!
//! A header stays until the next frame begins, at least for the clock behind the last beat. Nothing is judged here.

use super::PacketParser;
use spraynic_rtl::{AxiStream, Module, Signal, cat, cat_lsb_first};

const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_SERVICE_VLAN: u16 = 0x88A8;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86DD;

/// First byte of the frame that is kept: that of the IP header of a frame without tags.
const FIRST_BYTE: u32 = 14;

/// Where an EtherType can stand: behind the addresses, behind one tag, behind two.
const ETHERTYPE_AT: [u32; 3] = [12, 16, 20];

/// What an EtherType is.
#[derive(Clone, Copy)]
pub(super) struct EtherType<'a> {
    pub(super) tag: Signal<'a>,
    pub(super) ipv4: Signal<'a>,
    pub(super) ipv6: Signal<'a>,
}

/// The frame as far as it has come, one clock after its beat was taken.
pub(super) struct Window<'a> {
    /// A beat came in.
    pub(super) valid: Signal<'a>,
    /// It is the last one of its frame.
    pub(super) last: Signal<'a>,
    /// The MAC marked it bad.
    pub(super) bad: Signal<'a>,
    /// Number of the beat in its frame; stays at the largest.
    pub(super) beat: Signal<'a>,
    /// Position of its last byte: the bytes of the frame so far, less one.
    pub(super) end: Signal<'a>,
    /// Bytes from the first that is kept.
    bytes: Signal<'a>,
    pub(super) ether_types: [EtherType<'a>; 3],
    /// Sums of two words of 2 bytes, 17 bits each: those from byte 16, 20, 24 and so on.
    pair_sums: Vec<Signal<'a>>,
    /// The ports `trimmed_dscp` and `trimmed_last_hop_dscp` at the first beat.
    pub(super) trimmed_dscp: [Signal<'a>; 2],
}

impl<'a> Window<'a> {
    /// Bytes of the frame, `at` in bits 7:0.
    pub(super) fn bytes(&self, at: u32, count: u32) -> Signal<'a> {
        self.bytes.part((at - FIRST_BYTE) * 8, count * 8)
    }

    /// The sum of the words at bytes `at` and `at` + 2.
    pub(super) fn pair_sum(&self, at: u32) -> Signal<'a> {
        self.pair_sums[(at as usize - 16) / 4]
    }
}

/// A number of 2 bytes on the wire, its first byte in bits 7:0.
fn number(bytes: Signal<'_>) -> Signal<'_> {
    cat(&[bytes.part(0, 8), bytes.part(8, 8)])
}

pub(super) fn window<'a>(
    m: Module<'a>,
    parser: &PacketParser,
    input: &AxiStream<'a>,
    last_lane: Signal<'a>,
    taken: Signal<'a>,
    dscp_ports: [Signal<'a>; 2],
) -> Window<'a> {
    let beat_bytes = parser.beat_bytes();
    let next = m
        .reg("next_beat", parser.beat_bits())
        .reset(0)
        .doc("number of the beat that comes, in its frame; stays at the largest");
    m.when(taken, || {
        next.set(
            input
                .last
                .mux(next.lit(0), next + (!next.all()).zero_extend(next.width())),
        );
    });
    let comes = |beat: u32| taken & next.eq_lit(beat);
    let lanes = |at: u32, count: u32| input.data.part(at % beat_bytes * 8, count * 8);
    let register = |name: &str, load: Signal<'a>, value: Signal<'a>| {
        let register = m.reg(name, value.width());
        m.when(load, || register.set(value));
        register
    };

    let valid = m.reg("window_valid", 1).reset(0).doc("a beat came in");
    valid.set(taken);
    let last = register("window_last", taken, input.last);
    let bad = register("window_bad", taken, input.last & input.user);
    let beat = register("window_beat", taken, next).doc("number of the beat in its frame");
    let lane = register("window_lane", taken, last_lane).doc("its last byte");

    let window_bytes = parser.window_bytes();
    let mut parts = vec![];
    for number in FIRST_BYTE / beat_bytes..window_bytes.div_ceil(beat_bytes) {
        let from = (number * beat_bytes).max(FIRST_BYTE);
        let to = (number * beat_bytes + beat_bytes).min(window_bytes);
        parts.push(register(
            &format!("window_{from}_to_{}", to - 1),
            comes(number),
            lanes(from, to - from),
        ));
    }

    let flag = |needed: bool, name: &str, at: u32, values: &[u16]| {
        if !needed {
            return m.low();
        }
        let found = number(lanes(at, 2));
        let is_one = values
            .iter()
            .map(|value| found.eq_lit(*value))
            .reduce(|one, other| one | other);
        register(
            &format!("{name}_at_{at}"),
            comes(at / beat_bytes),
            is_one.unwrap_or(m.low()),
        )
    };
    let ether_types = ETHERTYPE_AT.map(|at| {
        let read = parser.vlan || at == ETHERTYPE_AT[0];
        // A third tag is as good as any other EtherType.
        let tags = [ETHERTYPE_VLAN, ETHERTYPE_SERVICE_VLAN];
        EtherType {
            tag: flag(at != ETHERTYPE_AT[2], "tag", at, &tags),
            ipv4: flag(parser.ipv4 && read, "ipv4", at, &[ETHERTYPE_IPV4]),
            ipv6: flag(parser.ipv6 && read, "ipv6", at, &[ETHERTYPE_IPV6]),
        }
    });

    let mut pair_sums = vec![];
    if parser.ipv4 {
        for at in (16..32 + 4 * parser.max_tags()).step_by(4) {
            let sum = number(lanes(at, 2)).add_wide(number(lanes(at + 2, 2)));
            pair_sums.push(register(&format!("pair_sum_{at}"), comes(at / beat_bytes), sum));
        }
    }
    Window {
        valid,
        last,
        bad,
        beat,
        end: cat(&[beat, lane]),
        bytes: cat_lsb_first(&parts),
        ether_types,
        pair_sums,
        trimmed_dscp: [
            register("trimmed_at_first_beat", comes(0), dscp_ports[0]),
            register("last_hop_at_first_beat", comes(0), dscp_ports[1]),
        ],
    }
}
