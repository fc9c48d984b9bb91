//! One type for whichever extension header stands behind the BTH.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::header::{Header, HeaderField, TooShort};
use crate::mrc::{CcState, Eeth, Erth, Meth, Neth, Peth, Seth, Tseth};
use crate::rdma::{Aeth, AtomicAckEth, AtomicEth, CnpReserved, Ieth, ImmDt, Reth};

macro_rules! extensions {
    ($($name:ident $doc:literal $accessor:ident;)*) => {
        /// Which extension header.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum HeaderKind {
            $(#[doc = $doc] $name,)*
        }

        impl HeaderKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Name in the standard: `RETH`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $name::NAME,)* }
            }

            /// Length in bytes.
            #[must_use]
            pub const fn length(self) -> usize {
                match self { $(Self::$name => $name::LENGTH,)* }
            }

            /// Its fields.
            #[must_use]
            pub const fn fields(self) -> &'static [HeaderField] {
                match self { $(Self::$name => $name::FIELDS,)* }
            }

            /// One bit for each reserved bit.
            #[must_use]
            pub fn reserved_mask(self) -> Vec<u8> {
                match self { $(Self::$name => $name::reserved_mask(),)* }
            }

            /// Reads a header of this kind from the first bytes.
            ///
            /// # Errors
            /// [`TooShort`] when there are fewer bytes than the header takes.
            pub fn parse(self, bytes: &[u8]) -> Result<Extension, TooShort> {
                match self { $(Self::$name => $name::parse(bytes).map(Extension::$name),)* }
            }
        }

        /// An extension header.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Extension {
            $(#[doc = $doc] $name($name),)*
        }

        impl Extension {
            /// Which header it is.
            #[must_use]
            pub const fn kind(&self) -> HeaderKind {
                match self { $(Self::$name(_) => HeaderKind::$name,)* }
            }

            /// Writes it into the first bytes of `buffer`.
            ///
            /// # Panics
            /// When `buffer` is shorter than the header.
            pub fn emit(&self, buffer: &mut [u8]) {
                match self { $(Self::$name(header) => header.emit(buffer),)* }
            }

            /// The fields' bits, in the order of [`HeaderKind::fields`].
            #[must_use]
            pub fn values(&self) -> Vec<u64> {
                match self { $(Self::$name(header) => header.values(),)* }
            }

            $(
                #[doc = concat!("The header, if it is ", $doc, ".")]
                #[must_use]
                pub const fn $accessor(&self) -> Option<&$name> {
                    match self {
                        Self::$name(header) => Some(header),
                        _ => None,
                    }
                }
            )*
        }

        impl fmt::Display for Extension {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(Self::$name(header) => header.fmt(f),)* }
            }
        }

        $(impl From<$name> for Extension {
            fn from(header: $name) -> Self {
                Self::$name(header)
            }
        })*
    };
}

extensions! {
    Reth "RETH" as_reth;
    Aeth "AETH" as_aeth;
    ImmDt "ImmDt" as_imm_dt;
    Ieth "IETH" as_ieth;
    AtomicEth "AtomicETH" as_atomic_eth;
    AtomicAckEth "AtomicAckETH" as_atomic_ack_eth;
    CnpReserved "the reserved bytes of a CNP" as_cnp_reserved;
    Meth "METH" as_meth;
    Tseth "TSETH" as_tseth;
    Seth "SETH" as_seth;
    CcState "CC_STATE" as_cc_state;
    Neth "NETH" as_neth;
    Peth "PETH" as_peth;
    Erth "ERTH" as_erth;
    Eeth "EETH" as_eeth;
}

impl HeaderKind {
    /// Reads a list of headers one behind the other; gives them and the bytes they took.
    ///
    /// # Errors
    /// [`TooShort`] names the first header for which the bytes do not suffice.
    pub fn parse_all(kinds: impl Iterator<Item = Self>, bytes: &[u8]) -> Result<(Vec<Extension>, usize), TooShort> {
        let mut headers = Vec::new();
        let mut at = 0;
        for kind in kinds {
            headers.push(kind.parse(&bytes[at..])?);
            at += kind.length();
        }
        Ok((headers, at))
    }
}
