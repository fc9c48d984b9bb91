//! The way a header is described: one table of named bit fields, from which struct, parser, emitter and printing follow.
//!
//! Bit 0 is the most significant bit of byte 0, as the standards draw it; numbers are big-endian. Bits that no field
//! names are reserved: sent as zero, ignored on receipt.

use std::fmt;

use thiserror::Error;

/// The bytes end before the header does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{header} needs {needed} bytes, only {found} are left")]
pub struct TooShort {
    /// Name of the header, as in [`Header::NAME`].
    pub header: &'static str,
    /// Bytes that the header takes.
    pub needed: usize,
    /// Bytes that were there.
    pub found: usize,
}

/// One field of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderField {
    /// Name, as in the Rust struct.
    pub name: &'static str,
    /// Index of its first (most significant) bit; bit 0 is the most significant bit of byte 0.
    pub first_bit: usize,
    /// Width in bits, 1 to 64.
    pub width: usize,
    /// What it means, with its unit.
    pub doc: &'static str,
}

/// A header of fixed length.
pub trait Header: Sized + Copy + Eq + fmt::Debug + Default {
    /// Name in the standard: `RETH`.
    const NAME: &'static str;
    /// Length in bytes.
    const LENGTH: usize;
    /// Its fields in the order of the wire; what they leave out is reserved.
    const FIELDS: &'static [HeaderField];

    /// Reads the header from the first [`Header::LENGTH`] bytes.
    ///
    /// # Errors
    /// [`TooShort`] when there are fewer bytes.
    fn parse(bytes: &[u8]) -> Result<Self, TooShort>;

    /// Writes the header into the first [`Header::LENGTH`] bytes of `buffer`, reserved bits as zero. A value too wide
    /// for its field is truncated to it.
    ///
    /// # Panics
    /// When `buffer` is shorter than the header: the caller sizes it.
    fn emit(&self, buffer: &mut [u8]);

    /// The fields' bits, in the order of [`Header::FIELDS`].
    fn values(&self) -> Vec<u64>;

    /// The header as it stands on the wire.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; Self::LENGTH];
        self.emit(&mut bytes);
        bytes
    }

    /// One bit for each reserved bit of the header, as bytes.
    fn reserved_mask() -> Vec<u8> {
        let mut mask = vec![0xFF; Self::LENGTH];
        for field in Self::FIELDS {
            for bit in field.first_bit..field.first_bit + field.width {
                mask[bit / 8] &= !(0x80 >> (bit % 8));
            }
        }
        mask
    }
}

/// A field's Rust type. Bits beyond the field's width are dropped by the emitter.
pub(crate) trait FieldValue {
    fn from_bits(bits: u64) -> Self;
    fn to_bits(&self) -> u64;
}

macro_rules! number_field {
    ($($ty:ty)*) => {$(
        impl FieldValue for $ty {
            fn from_bits(bits: u64) -> Self {
                bits as $ty
            }
            fn to_bits(&self) -> u64 {
                *self as u64
            }
        }
    )*};
}
number_field!(u8 u16 u32 u64 i16);

impl FieldValue for bool {
    fn from_bits(bits: u64) -> Self {
        bits != 0
    }
    fn to_bits(&self) -> u64 {
        u64::from(*self)
    }
}

impl FieldValue for crate::psn::Psn {
    fn from_bits(bits: u64) -> Self {
        Self::new(bits as u32)
    }
    fn to_bits(&self) -> u64 {
        u64::from(self.value())
    }
}

/// Reads `width` bits from `first`; the bytes hold them (checked by the caller).
pub(crate) fn get_bits(bytes: &[u8], first: usize, width: usize) -> u64 {
    let last = (first + width).div_ceil(8);
    let wide = bytes[first / 8..last]
        .iter()
        .fold(0u128, |wide, byte| wide << 8 | u128::from(*byte));
    let shifted = wide >> (last * 8 - first - width);
    (shifted & ((1u128 << width) - 1)) as u64
}

/// Writes the low `width` bits of `value` at `first`; all other bits keep their value.
pub(crate) fn set_bits(bytes: &mut [u8], first: usize, width: usize, value: u64) {
    let last = (first + width).div_ceil(8);
    let shift = last * 8 - first - width;
    let mask = ((1u128 << width) - 1) << shift;
    let mut wide = (u128::from(value) << shift) & mask;
    let mut keep = !mask;
    for byte in bytes[first / 8..last].iter_mut().rev() {
        *byte = (*byte & keep as u8) | wide as u8;
        wide >>= 8;
        keep >>= 8;
    }
}

/// Prints a header as `RETH virtual_address=0x10 ...`, names and values as in its table.
pub(crate) fn display<H: Header>(header: &H, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(H::NAME)?;
    for (field, value) in H::FIELDS.iter().zip(header.values()) {
        let digits = field.width.div_ceil(4);
        match field.width {
            1 => write!(f, " {}={value}", field.name)?,
            _ => write!(f, " {}=0x{value:0digits$x}", field.name)?,
        }
    }
    Ok(())
}

/// Declares a header: `Name "NAME" length { field: type = first bit, width, "doc"; ... }`.
macro_rules! header {
    ($(#[doc = $doc:literal])* $name:ident $text:literal $length:literal {
        $($field:ident: $ty:ty = $first:expr, $width:expr, $field_doc:literal;)*
    }) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
        pub struct $name {
            $(#[doc = $field_doc] pub $field: $ty,)*
        }

        impl $crate::header::Header for $name {
            const NAME: &'static str = $text;
            const LENGTH: usize = $length;
            const FIELDS: &'static [$crate::header::HeaderField] = &[
                $($crate::header::HeaderField {
                    name: stringify!($field), first_bit: $first, width: $width, doc: $field_doc,
                },)*
            ];

            fn parse(bytes: &[u8]) -> Result<Self, $crate::header::TooShort> {
                if bytes.len() < $length {
                    return Err($crate::header::TooShort { header: $text, needed: $length, found: bytes.len() });
                }
                Ok(Self {
                    $($field: $crate::header::FieldValue::from_bits($crate::header::get_bits(bytes, $first, $width)),)*
                })
            }

            fn emit(&self, buffer: &mut [u8]) {
                let buffer = &mut buffer[..$length];
                buffer.fill(0);
                $($crate::header::set_bits(
                    buffer, $first, $width, $crate::header::FieldValue::to_bits(&self.$field),
                );)*
            }

            fn values(&self) -> Vec<u64> {
                let mask = |width: usize| u64::MAX >> (64 - width);
                vec![$($crate::header::FieldValue::to_bits(&self.$field) & mask($width),)*]
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::header::display(self, f)
            }
        }
    };
}

/// Declares an enum over a code, total in both directions: `Other` holds the codes without a name.
macro_rules! coded_enum {
    ($(#[doc = $doc:literal])* $name:ident default $default:ident {
        $($variant:ident = $code:literal, $text:literal, $variant_doc:literal;)*
    }) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $(#[doc = $variant_doc] $variant,)*
            /// A code without a meaning here.
            Other(u8),
        }

        impl $name {
            /// Every named value.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The value with this code; `Other` for a code without a name.
            #[must_use]
            pub const fn from_code(code: u8) -> Self {
                match code {
                    $($code => Self::$variant,)*
                    other => Self::Other(other),
                }
            }

            /// The code on the wire.
            #[must_use]
            pub const fn code(self) -> u8 {
                match self {
                    $(Self::$variant => $code,)*
                    Self::Other(code) => code,
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::$default
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$variant => f.write_str($text),)*
                    Self::Other(code) => write!(f, "reserved code 0x{code:02x}"),
                }
            }
        }

        impl $crate::header::FieldValue for $name {
            fn from_bits(bits: u64) -> Self {
                Self::from_code(bits as u8)
            }
            fn to_bits(&self) -> u64 {
                u64::from(self.code())
            }
        }
    };
}

pub(crate) use {coded_enum, header};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_written_are_bits_read_and_others_stay(
            start in prop::collection::vec(any::<u8>(), 12), first in 0usize..32, width in 1usize..=64, value: u64,
        ) {
            let mut bytes = start.clone();
            set_bits(&mut bytes, first, width, value);
            prop_assert_eq!(get_bits(&bytes, first, width), value & (u64::MAX >> (64 - width)));
            for bit in (0..first).chain(first + width..96) {
                let of = |bytes: &[u8]| bytes[bit / 8] >> (7 - bit % 8) & 1;
                prop_assert_eq!(of(&bytes), of(&start), "bit {}", bit);
            }
        }
    }
}
