//! What of a packet waits beside its payload, and what becomes of it when the packet is given. No registers.

use crate::fields::Fields;
use spraynic_config::descriptor::{Descriptor, SequencedPacket};
use spraynic_rtl::{Module, Signal, cat, cat_lsb_first};

/// Fields of a `SequencedPacket` that come from the packet: what waits beside its payload.
const KEPT: [&str; 16] = [
    "qpn",
    "opcode",
    "psn",
    "profile",
    "space",
    "solicited",
    "ack_request",
    "timestamped",
    "protection_domain",
    "mtu",
    "remote_write",
    "remote_read",
    "remote_atomic",
    "payload_length",
    "entropy",
    "extension",
];

fn kept_width(name: &str) -> u32 {
    let field = SequencedPacket::FIELDS.iter().find(|field| field.name == name);
    field.map_or(0, |field| field.width)
}

/// Bits of what waits beside the payload.
pub(super) fn kept_bits() -> u32 {
    KEPT.iter().map(|name| kept_width(name)).sum()
}

/// What of a packet waits beside its payload.
pub(super) fn keep<'a>(received: &Fields<'a>, context: &Fields<'a>) -> Signal<'a> {
    let fields = KEPT.map(|name| match name {
        "profile" | "space" | "protection_domain" | "mtu" | "remote_write" | "remote_read" | "remote_atomic" => {
            context.get(name)
        }
        "entropy" => cat(&[received.get("flow_label").part(16, 4), received.get("udp_source_port")]),
        "extension" => received.get("extension").part(0, kept_width("extension")),
        _ => received.get(name),
    });
    cat_lsb_first(&fields)
}

pub(super) fn kept_field<'a>(kept: Signal<'a>, wanted: &str) -> Signal<'a> {
    let mut low = 0;
    for name in KEPT {
        if name == wanted {
            return kept.part(low, kept_width(name));
        }
        low += kept_width(name);
    }
    kept.module().lit(0, kept_width(wanted).max(1))
}

/// `tkeep` of a beat: all bytes but in the last one, where `last_byte` is the number of the last. In two parts, of few levels each.
pub(super) fn keep_of<'a>(last_byte: Signal<'a>, last: Signal<'a>) -> Signal<'a> {
    let low_bits = last_byte.width() / 2;
    let (high, low) = (last_byte >> low_bits, last_byte.part(0, low_bits));
    let bytes: Vec<_> = (0..1u32 << last_byte.width())
        .map(|byte| {
            let (of_high, of_low) = (byte >> low_bits, byte & ((1 << low_bits) - 1));
            let beyond = !last | high.gt(high.lit(of_high));
            beyond | (high.eq(high.lit(of_high)) & low.ge(low.lit(of_low)))
        })
        .collect();
    cat_lsb_first(&bytes)
}

/// The descriptor as it is given.
pub(super) fn describe<'a>(m: Module<'a>, kept: Signal<'a>, duplicate: Signal<'a>) -> Fields<'a> {
    Fields::build::<SequencedPacket>(|name, width| match name {
        "duplicate" => duplicate,
        _ if KEPT.contains(&name) => kept_field(kept, name),
        _ => m.lit(0, width),
    })
}
