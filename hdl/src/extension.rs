//! Extension headers as signals: each is a struct of its fields, and `emit` gives the bytes as they stand on the wire.
//!
//! Names, places and widths come from the tables in `spraynic-wire`; byte 0 of the wire is in bits 7:0. It decides
//! neither which header a packet has nor what is in it.
//!
//! ```
//! use spraynic_hdl::extension::{ImmDt, Reth, extension};
//! use spraynic_rtl::Context;
//!
//! let context = Context::new();
//! let m = context.module("write_last_immediate");
//! let reth = Reth {
//!     virtual_address: m.input("virtual_address", 64),
//!     remote_key: m.input("remote_key", 32),
//!     length: m.input("length", 32),
//! };
//! let immediate = ImmDt { immediate: m.input("immediate", 32) };
//! m.output_of("extension", extension(&[reth.emit(), immediate.emit()])); // 288 bits, as in a PacketDescriptor
//! m.finish();
//! ```

use spraynic_config::descriptor::EXTENSION_BYTES;
use spraynic_rtl::{Signal, cat, cat_lsb_first};
use spraynic_wire::{Header, header::HeaderField};

/// A number as bytes on the wire: its most significant byte first, in bits 7:0.
///
/// # Panics
/// When it is no whole number of bytes.
#[track_caller]
#[must_use]
pub fn big_endian(number: Signal<'_>) -> Signal<'_> {
    assert!(
        number.width().is_multiple_of(8),
        "{number:?} is no whole number of bytes"
    );
    let bytes: Vec<_> = (0..number.width() / 8).map(|index| number.part(index * 8, 8)).collect();
    cat(&bytes)
}

/// Headers one behind the other, the first one in the lowest bits, zeros above: the field `extension` of a
/// `PacketDescriptor`, 36 bytes.
///
/// # Panics
/// When they are longer than the field, or there is none.
#[track_caller]
#[must_use]
pub fn extension<'a>(headers: &[Signal<'a>]) -> Signal<'a> {
    cat_lsb_first(headers).zero_extend(EXTENSION_BYTES as u32 * 8)
}

/// Puts the fields of a table in their places, reserved bits zero.
#[track_caller]
fn place<'a>(header: &str, length: usize, fields: &[HeaderField], signals: &[Signal<'a>]) -> Signal<'a> {
    let mut parts = vec![];
    let mut bit = 0;
    let module = signals[0].module();
    let reserved = |parts: &mut Vec<Signal<'a>>, from: usize, to: usize| {
        if from < to {
            parts.push(module.lit(0, (to - from) as u32));
        }
    };
    for (field, signal) in fields.iter().zip(signals) {
        assert_eq!(
            signal.width() as usize,
            field.width,
            "width of {signal:?} for {header}.{}",
            field.name
        );
        reserved(&mut parts, bit, field.first_bit);
        parts.push(*signal);
        bit = field.first_bit + field.width;
    }
    reserved(&mut parts, bit, length * 8);
    big_endian(cat(&parts))
}

macro_rules! headers {
    ($($name:ident $text:literal { $($field:ident),* })*) => {$(
        #[doc = concat!("The fields of ", $text, ", with the widths of [`spraynic_wire::", stringify!($name), "`].")]
        #[derive(Debug, Clone, Copy)]
        pub struct $name<'a> {
            $(#[doc = concat!("See [`spraynic_wire::", stringify!($name), "::", stringify!($field), "`].")]
            pub $field: Signal<'a>,)*
        }

        impl<'a> $name<'a> {
            /// Length on the wire in bytes.
            pub const LENGTH: u32 = <spraynic_wire::$name as Header>::LENGTH as u32;

            /// The header in the order of the wire.
            ///
            /// # Panics
            /// When a field has not the width of the table.
            #[track_caller]
            #[must_use]
            pub fn emit(&self) -> Signal<'a> {
                place($text, Self::LENGTH as usize, <spraynic_wire::$name as Header>::FIELDS, &[$(self.$field),*])
            }

            /// Its fields, each asked for by name and width, in the order of the wire.
            #[must_use]
            pub fn from_fields(mut make: impl FnMut(&'static str, u32) -> Signal<'a>) -> Self {
                let mut fields = <spraynic_wire::$name as Header>::FIELDS.iter();
                Self {
                    $($field: {
                        let field = fields.next().expect("the table has every field");
                        debug_assert_eq!(field.name, stringify!($field));
                        make(field.name, field.width as u32)
                    },)*
                }
            }
        }
    )*};
}

headers! {
    Reth "RETH" { virtual_address, remote_key, length }
    Aeth "AETH" { syndrome, msn }
    ImmDt "ImmDt" { immediate }
    Ieth "IETH" { remote_key }
    AtomicEth "AtomicETH" { virtual_address, remote_key, swap_add, compare }
    AtomicAckEth "AtomicAckETH" { original }
    Meth "METH" { rqmsn, msn }
    Tseth "TSETH" { tx_timestamp, tsr, ftype }
    Seth "SETH" {
        space, next, feedback, probe_response, ack_psn_offset, entropy, spdcid, dpdcid, cack_psn, cc_type, cc_flags,
        mpr, sack_offset, sack_bitmap
    }
    CcState "CC_STATE" { tx_timestamp, ooo_count, restore_cwnd, rcv_cwnd_pen, rcvd_bytes }
    Neth "NETH" { space, next, reason, vendor, entropy, spdcid, dpdcid, nack_psn, cc_type, cc_flags, tx_timestamp }
    Peth "PETH" { space, next, vendor, probe_id, spdcid, dpdcid, tx_timestamp, tsr, ftype }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use spraynic_rtl::{Bits, Context, Evaluator};

    /// Builds the header from inputs and compares it with what `spraynic-wire` emits for the same bits.
    macro_rules! matches_wire {
        ($name:ident, $bytes:expr) => {{
            type Wire = spraynic_wire::$name;
            let context = Context::new();
            let m = context.module("probe");
            m.output_of("header", $name::from_fields(|name, width| m.input(name, width)).emit());
            let mut run = Evaluator::new(m.finish());
            let header = Wire::parse($bytes).unwrap();
            for (field, value) in Wire::FIELDS.iter().zip(header.values()) {
                run.set(field.name, Bits::from_words(field.width as u32, &[value]));
            }
            prop_assert_eq!(run.get("header").to_bytes(), header.to_bytes(), "{}", Wire::NAME);
        }};
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn every_header_stands_as_wire_emits_it(bytes: [u8; 36]) {
            let bytes = &bytes[..];
            matches_wire!(Reth, bytes);
            matches_wire!(Aeth, bytes);
            matches_wire!(ImmDt, bytes);
            matches_wire!(Ieth, bytes);
            matches_wire!(AtomicEth, bytes);
            matches_wire!(AtomicAckEth, bytes);
            matches_wire!(Meth, bytes);
            matches_wire!(Tseth, bytes);
            matches_wire!(Seth, bytes);
            matches_wire!(CcState, bytes);
            matches_wire!(Neth, bytes);
            matches_wire!(Peth, bytes);
        }
    }

    #[test]
    fn headers_follow_each_other_and_zeros_follow_them() {
        let context = Context::new();
        let m = context.module("probe");
        let meth = Meth {
            rqmsn: m.lit(0x0102, 16),
            msn: m.lit(0x0304, 16),
        };
        let immediate = ImmDt {
            immediate: m.lit(0x0506_0708, 32),
        };
        m.output_of("header", extension(&[meth.emit(), immediate.emit()]));
        let mut expected = vec![1, 2, 3, 4, 5, 6, 7, 8];
        expected.resize(EXTENSION_BYTES, 0);
        assert_eq!(Evaluator::new(m.finish()).get("header").to_bytes(), expected);
    }

    #[test]
    #[should_panic(expected = "for METH.msn")]
    fn a_field_of_another_width_is_refused() {
        let context = Context::new();
        let m = context.module("probe");
        let _ = Meth {
            rqmsn: m.lit(0, 16),
            msn: m.lit(0, 24),
        }
        .emit();
    }
}
