//! The header as one vector, and the lengths of the frame, from a descriptor and its template.
//!
//! Each layout of the lower headers puts the transport headers to another place; a multiplexer chooses among those that occur.

use super::geometry::{Geometry, Layout, pick};
use super::stage::{Taken, Template};
use crate::extension::big_endian;
use spraynic_config::{BTH_BYTES, IPV4_BYTES, UDP_BYTES};
use spraynic_rtl::{Signal, cat, cat_lsb_first};

/// UDP destination port of RoCEv2 \[IBA annex A17.3.1\].
const UDP_PORT: u32 = 4791;

/// Number of the layout that a template has: see [`Layout::index`].
fn layout_of<'a>(template: &Template<'a>) -> Signal<'a> {
    cat(&[template.ipv6, template.vlan])
}

/// Chooses by layout.
fn by_layout<'a>(geometry: &Geometry, template: &Template<'a>, choice: impl Fn(Layout) -> Signal<'a>) -> Signal<'a> {
    let choices: Vec<_> = geometry
        .layouts
        .iter()
        .map(|layout| (layout.index(), choice(*layout)))
        .collect();
    pick(layout_of(template), &choices)
}

/// Lengths of a frame. A word is 4 bytes; frames and headers have 2 bytes more than whole words.
pub(super) struct Lengths<'a> {
    /// Words of the headers, less 2 bytes.
    pub(super) header_words: Signal<'a>,
    /// Words of the frame, less 2 bytes.
    pub(super) frame_words: Signal<'a>,
    /// IPv4 total length in words.
    pub(super) ipv4_words: Signal<'a>,
    /// Bytes of padding.
    pub(super) pad: Signal<'a>,
}

pub(super) fn lengths<'a>(geometry: &Geometry, taken: &Taken<'a>, template: &Template<'a>) -> Lengths<'a> {
    let m = taken.psn.module();
    let transport = (UDP_BYTES + BTH_BYTES) / 4;
    let header = by_layout(geometry, template, |layout| m.lit(layout.words() + transport, 5));
    let lower = by_layout(geometry, template, |layout| m.lit(layout.words(), 12));
    Lengths {
        header_words: header + taken.extension_words.zero_extend(5),
        frame_words: taken.datagram_words + lower,
        ipv4_words: taken.datagram_words + m.lit(IPV4_BYTES / 4, 12),
        pad: m.lit(0, 2) - taken.payload_length.part(0, 2),
    }
}

/// A length in words as 16 bits of bytes.
pub(super) fn bytes_of(words: Signal<'_>) -> Signal<'_> {
    (words.zero_extend(16)) << 2
}

/// The extension headers with the time stamp in its place, bytes in the order of the wire.
fn stamped<'a>(geometry: &Geometry, taken: &Taken<'a>, time_ns: Signal<'a>) -> Signal<'a> {
    if !geometry.time_stamps {
        return taken.extension;
    }
    let stamp = big_endian(time_ns.slice(22, 7)).named("stamp");
    let words = geometry.max_extension_words();
    let parts: Vec<_> = (0..words)
        .map(|word| {
            let whole = taken.extension.part(word * 32, 32);
            let place = match word {
                1 => taken.stamp.eq_lit(1), // TSETH behind METH
                3 => taken.stamp.eq_lit(2), // PETH
                _ => return whole,
            };
            cat(&[whole.slice(31, 16), place.mux(stamp, whole.slice(15, 0))])
        })
        .collect();
    cat_lsb_first(&parts)
}

fn ethernet<'a>(layout: Layout, template: &Template<'a>) -> Signal<'a> {
    let m = template.destination_mac.module();
    let mut parts = vec![template.destination_mac, template.source_mac];
    if layout.vlan {
        parts.extend([m.lit(0x8100, 16), template.vlan_tci]); // IEEE 802.1Q
    }
    parts.push(m.lit(if layout.ipv6 { 0x86DD } else { 0x0800 }, 16));
    cat(&parts)
}

/// IPv4 without options, DF set, checksum still 0 \[RFC 791\].
fn ipv4<'a>(template: &Template<'a>, lengths: &Lengths<'a>, identification: Signal<'a>) -> Signal<'a> {
    let m = identification.module();
    cat(&[
        m.lit(0x45, 8),
        template.traffic_class,
        bytes_of(lengths.ipv4_words),
        identification,
        m.lit(0x4000, 16),
        template.hop_limit,
        m.lit(17, 8),
        m.lit(0, 16),
        template.source_ip.part(0, 32),
        template.destination_ip.part(0, 32),
    ])
}

/// IPv6 \[RFC 8200\].
fn ipv6<'a>(taken: &Taken<'a>, template: &Template<'a>) -> Signal<'a> {
    let m = taken.psn.module();
    let flow_label = template.spray.mux(taken.entropy.part(0, 20), template.flow_label);
    cat(&[
        m.lit(6, 4),
        template.traffic_class,
        flow_label,
        bytes_of(taken.datagram_words),
        m.lit(17, 8),
        template.hop_limit,
        template.source_ip,
        template.destination_ip,
    ])
}

/// UDP and BTH \[IBA 9.2\].
fn transport<'a>(taken: &Taken<'a>, template: &Template<'a>, pad: Signal<'a>) -> Signal<'a> {
    let m = taken.psn.module();
    let (first, second) = (
        taken.mrc.mux(template.migration, taken.solicited),
        taken.mrc.mux(taken.solicited, template.migration),
    );
    cat(&[
        taken.entropy.part(0, 16),
        m.lit(UDP_PORT, 16),
        bytes_of(taken.datagram_words),
        m.lit(0, 16),
        taken.opcode,
        first,
        second,
        pad,
        m.lit(0, 4),
        template.partition_key,
        m.low(),
        taken.becn,
        m.lit(0, 6),
        template.destination_qpn,
        taken.ack_request,
        m.low(),
        taken.retransmission,
        taken.timestamped,
        m.lit(0, 4),
        taken.psn,
    ])
}

/// All headers, byte 0 of the frame in bits 7:0; behind the frame's own header bytes stand others that nobody sends.
pub(super) fn header<'a>(
    geometry: &Geometry,
    taken: &Taken<'a>,
    template: &Template<'a>,
    lengths: &Lengths<'a>,
    identification: Signal<'a>,
    time_ns: Signal<'a>,
) -> Signal<'a> {
    let width = geometry.max_header_bytes() * 8;
    let transport = big_endian(transport(taken, template, lengths.pad));
    let extension = stamped(geometry, taken, time_ns);
    by_layout(geometry, template, |layout| {
        let network = match layout.ipv6 {
            true => ipv6(taken, template),
            false => ipv4(template, lengths, identification),
        };
        let lower = cat(&[ethernet(layout, template), network]);
        let mut parts = vec![big_endian(lower), transport];
        if geometry.max_extension_words() > 0 {
            parts.push(extension);
        }
        cat_lsb_first(&parts).zero_extend(width)
    })
}

/// Byte of the frame at which the IPv4 checksum of a layout stands.
pub(super) fn checksum_byte(layout: Layout) -> u32 {
    layout.words() * 4 + 2 - 10
}
