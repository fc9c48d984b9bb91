//! The names a configuration chooses among: presets, wire profiles and operations.

use serde::{Deserialize, Serialize};

macro_rules! names {
    ($(#[$meta:meta])* $ty:ident { $($(#[$variant_meta:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $ty {
            $($(#[$variant_meta])* #[serde(rename = $name)] $variant,)*
        }

        impl $ty {
            /// All, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
            /// The names of all, in order.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// The name in TOML and on the command line.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The one with this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|item| item.name() == name)
            }
        }
    };
}

names! {
    /// A set of defaults for a line rate.
    Preset {
        /// A small NIC for simulation and teaching: 64-bit bus.
        Lab = "lab",
        /// 25 Gb/s: 128-bit bus.
        G25 = "25g",
        /// 100 Gb/s: 512-bit bus.
        G100 = "100g",
        /// 400 Gb/s: 1024-bit bus.
        G400 = "400g",
    }
}

names! {
    /// A wire profile. The code in a queue pair's context is its place here.
    Profile {
        /// Standard RoCEv2 reliable connection: one path a queue pair, go-back-N.
        Roce = "roce",
        /// Standard opcodes, sprayed over all paths, selective acknowledgement.
        Solar = "solar",
        /// OCP Multipath Reliable Connection 1.0.
        Mrc = "mrc",
    }
}

impl Profile {
    /// The code in `SliceContext::profile`.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Roce => 0,
            Self::Solar => 1,
            Self::Mrc => 2,
        }
    }

    /// The profile with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|profile| profile.code() == code)
    }

    /// Whether the profile has packets for this operation: mrc knows WRITE alone.
    #[must_use]
    pub fn carries(self, operation: Operation) -> bool {
        match self {
            Self::Roce | Self::Solar => true,
            Self::Mrc => matches!(operation, Operation::Write | Operation::WriteImmediate),
        }
    }
}

names! {
    /// An operation that the transmit path can be asked for.
    Operation {
        /// SEND.
        Send = "send",
        /// SEND with immediate data.
        SendImmediate = "send_immediate",
        /// SEND with invalidate.
        SendInvalidate = "send_invalidate",
        /// RDMA WRITE.
        Write = "write",
        /// RDMA WRITE with immediate data.
        WriteImmediate = "write_immediate",
        /// RDMA READ: the request, and the responses to the peer's.
        Read = "read",
        /// Atomic compare-and-swap and fetch-and-add: the request, and the atomic ACK.
        Atomic = "atomic",
    }
}

impl Operation {
    /// The operation without which this one cannot be sent: a message with immediate data or invalidate may need
    /// first and middle packets.
    #[must_use]
    pub fn base(self) -> Option<Self> {
        match self {
            Self::SendImmediate | Self::SendInvalidate => Some(Self::Send),
            Self::WriteImmediate => Some(Self::Write),
            Self::Send | Self::Write | Self::Read | Self::Atomic => None,
        }
    }
}
