//! Cuts accesses to memory into AXI4 bursts: what `axi_write_master` and `axi_read_master` give on AW and AR.
//!
//! A burst is INCR, of whole beats, never crosses 4 KiB and has at most 256 beats. One burst a clock.

use spraynic_rtl::{Module, Signal, cat};

/// Bits of an address within 4 KiB, which a burst never crosses [AMBA AXI, A3.4.1].
pub(crate) const BOUNDARY_BITS: u32 = 12;

/// Bits of AWLEN and ARLEN: bursts have 1 to 256 beats.
pub(crate) const LENGTH_BITS: u32 = 8;

/// AWCACHE, ARCACHE: normal memory, not cacheable, bufferable [AMBA AXI, A4.4].
const CACHE: u8 = 0b0011;

/// AWBURST, ARBURST: INCR.
const INCREMENT: u8 = 0b01;

/// What is to be cut. `ready` is driven.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access<'a> {
    /// Byte address, 64 bits.
    pub(crate) address: Signal<'a>,
    /// Bytes, 1 to 4,096: 13 bits.
    pub(crate) length: Signal<'a>,
    /// There is one.
    pub(crate) valid: Signal<'a>,
    /// It is taken at the next clock edge if there is one.
    pub(crate) ready: Signal<'a>,
}

/// A burst that is given in this clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Burst<'a> {
    /// There is one.
    pub(crate) given: Signal<'a>,
    /// It is the last one of its access.
    pub(crate) ends: Signal<'a>,
    /// Its beats, less one.
    pub(crate) length: Signal<'a>,
}

/// Drives `access.ready` and the address channel `m_axi_CHANNEL…` (`aw` or `ar`). A burst is given only while `room` says so.
#[track_caller]
pub(crate) fn cut<'a>(m: Module<'a>, channel: &str, width: u32, access: Access<'a>, room: Signal<'a>) -> Burst<'a> {
    let offset_bits = (width / 8).trailing_zeros();
    // Beats of a burst are numbered within 4 KiB, or within 256.
    let place_bits = (BOUNDARY_BITS - offset_bits).min(LENGTH_BITS);
    let left_bits = left_bits(width);

    let Access { address, length, .. } = access;
    let active = m.reg("active", 1).reset(0).doc("an access is being cut into bursts");
    let beat = m
        .reg("beat_address", 64 - offset_bits)
        .doc("address of the next burst, in beats");
    let left = m.reg("beats_left", left_bits).doc("beats of the access, less one");

    let place = beat.part(0, place_bits).named("place");
    let to_boundary = (!place).named("to_boundary");
    let ends = left.le(to_boundary.zero_extend(left_bits)).named("burst_ends_access");
    let burst_length = ends
        .mux(left.resize(LENGTH_BITS), to_boundary.zero_extend(LENGTH_BITS))
        .named("burst_length");

    let ready = m.input(&format!("m_axi_{channel}ready"), 1);
    let valid = m.reg(&format!("{channel}_valid"), 1).reset(0);
    let out_beat = m.reg(&format!("{channel}_beat_address"), 64 - offset_bits);
    let out_length = m.reg(&format!("{channel}_length"), LENGTH_BITS);
    let gives = (active & (!valid | ready) & room).named("gives_burst");
    access.ready.set(!active | (gives & ends));
    let takes = access.valid & access.ready;
    m.when(takes, || {
        active.set_lit(1);
        beat.set(address.part(offset_bits, 64 - offset_bits));
        left.set(last_beat(width, address, length));
    })
    .else_when(gives, || {
        m.when(ends, || active.set_lit(0));
        let above = beat.part(place_bits, 64 - offset_bits - place_bits);
        beat.set(cat(&[above + above.lit(1), m.lit(0, place_bits)]));
        left.set(left - to_boundary.zero_extend(left_bits) - left.lit(1));
    });
    m.when(gives, || {
        valid.set_lit(1);
        out_beat.set(beat);
        out_length.set(burst_length);
    })
    .else_when(ready, || valid.set_lit(0));
    m.assert("an_access_has_bytes", !(takes & !length.any()));
    m.assert("an_access_is_at_most_4_kib", !takes | length.le(length.lit(4096)));

    m.output_of(&format!("m_axi_{channel}valid"), valid);
    for (name, value, doc) in [
        ("id", m.lit(0, 1), "one ID: answers come in order"),
        (
            "addr",
            cat(&[out_beat, m.lit(0, offset_bits)]),
            "byte 0 of the first beat: a multiple of the bus width",
        ),
        ("len", out_length, "beats, less one"),
        ("size", m.lit(offset_bits, 3), "whole beats"),
        ("burst", m.lit(INCREMENT, 2), "INCR"),
        ("lock", m.lit(0, 1), "no exclusive access"),
        ("cache", m.lit(CACHE, 4), "normal memory, not cacheable, bufferable"),
        ("prot", m.lit(0, 3), "unprivileged, secure, data"),
    ] {
        let _ = m.output_of(&format!("m_axi_{channel}{name}"), value).doc(doc);
    }
    Burst {
        given: gives,
        ends,
        length: burst_length,
    }
}

/// Bits of the number of a beat within an access.
pub(crate) fn left_bits(width: u32) -> u32 {
    BOUNDARY_BITS + 1 - (width / 8).trailing_zeros()
}

/// Beats that an access spans, less one.
#[track_caller]
pub(crate) fn last_beat<'a>(width: u32, address: Signal<'a>, length: Signal<'a>) -> Signal<'a> {
    let offset_bits = (width / 8).trailing_zeros();
    let last_byte = address.part(0, offset_bits).zero_extend(13) + length - length.lit(1);
    last_byte.part(offset_bits, left_bits(width))
}
