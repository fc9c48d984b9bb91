//! BTH opcodes and what follows from them: extension headers, payload, place in the message, profiles.
//!
//! Sources: IBA volume 1, table 38 (RC); IBA annex A17 (CNP); MRC 1.0 (C6 to DE).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::extension::HeaderKind;

/// A wire profile: the dialect that a queue pair speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Standard RoCEv2 reliable connection.
    Roce,
    /// Standard RC opcodes, sprayed; MRC's SACK, NACK and probes carry reliability.
    Solar,
    /// OCP MRC 1.0.
    Mrc,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 3] = [Self::Roce, Self::Solar, Self::Mrc];
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Roce => "roce",
            Self::Solar => "solar",
            Self::Mrc => "mrc",
        })
    }
}

/// Order of the two high bits in BTH byte 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BitOrder {
    /// Solicited event in bit 7, MigReq in bit 6 (IBA).
    #[default]
    Iba,
    /// MigReq in bit 7, solicited event in bit 6 (MRC, as its public tools have it).
    Mrc,
}

/// Place of a packet in its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Position {
    /// Opens a message of several packets.
    First,
    /// Neither opens nor ends its message.
    Middle,
    /// Ends a message of several packets.
    Last,
    /// A whole message.
    Only,
}

impl Position {
    /// Whether a message begins with this packet.
    #[must_use]
    pub const fn begins_message(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Whether a message ends with this packet.
    #[must_use]
    pub const fn ends_message(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }
}

/// What a packet is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Operation {
    /// SEND request.
    Send,
    /// RDMA WRITE request.
    Write,
    /// RDMA READ request.
    ReadRequest,
    /// RDMA READ response.
    ReadResponse,
    /// Acknowledge with AETH: ACK, NAK or RNR NAK.
    Acknowledge,
    /// Response of an atomic.
    AtomicAcknowledge,
    /// Atomic compare and swap request.
    CompareSwap,
    /// Atomic fetch and add request.
    FetchAdd,
    /// Congestion notification packet.
    Cnp,
    /// MRC endpoint request: port status update or EV probe.
    EndpointRequest,
    /// MRC endpoint response.
    EndpointResponse,
    /// Selective acknowledgement.
    Sack,
    /// Negative acknowledgement of one packet.
    Nack,
    /// Reliability probe.
    Probe,
}

impl Operation {
    /// A request of a requester to a responder's memory or receive queue; it takes PSNs of the request space.
    #[must_use]
    pub const fn is_request(self) -> bool {
        matches!(
            self,
            Self::Send | Self::Write | Self::ReadRequest | Self::CompareSwap | Self::FetchAdd
        )
    }

    /// A responder's answer that carries data (READ response, atomic ACK).
    #[must_use]
    pub const fn is_response(self) -> bool {
        matches!(self, Self::ReadResponse | Self::AtomicAcknowledge)
    }
}

/// What is known of an opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpcodeInfo {
    /// The opcode.
    pub opcode: Opcode,
    /// Its name: `RC WRITE first`.
    pub name: &'static str,
    /// What the packet is for.
    pub operation: Operation,
    /// Place in the message.
    pub position: Position,
    /// Extension headers in the order of the wire, TSETH as if it were there.
    headers: &'static [HeaderKind],
    /// Whether bytes may follow the extension headers.
    pub has_payload: bool,
    /// Profiles that use it.
    pub profiles: &'static [Profile],
}

impl OpcodeInfo {
    /// The extension headers in the order of the wire. TSETH is among them only if `timestamped` (BTH ts bit) is set.
    pub fn headers(&self, timestamped: bool) -> impl Iterator<Item = HeaderKind> + use<> {
        self.headers
            .iter()
            .copied()
            .filter(move |kind| timestamped || *kind != HeaderKind::Tseth)
    }

    /// Bytes of the extension headers.
    #[must_use]
    pub fn header_bytes(&self, timestamped: bool) -> usize {
        self.headers(timestamped).map(HeaderKind::length).sum()
    }

    /// Whether this extension header can follow.
    #[must_use]
    pub fn has(&self, kind: HeaderKind) -> bool {
        self.headers.contains(&kind)
    }

    /// Whether a profile uses it.
    #[must_use]
    pub fn is_in(&self, profile: Profile) -> bool {
        self.profiles.contains(&profile)
    }
}

/// A BTH opcode: any byte; [`Opcode::info`] tells the known ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Opcode(pub u8);

const ROCE_SOLAR: &[Profile] = &[Profile::Roce, Profile::Solar];
const EVERY: &[Profile] = &[Profile::Roce, Profile::Solar, Profile::Mrc];
const MRC: &[Profile] = &[Profile::Mrc];
const SOLAR_MRC: &[Profile] = &[Profile::Solar, Profile::Mrc];

macro_rules! opcodes {
    ($($constant:ident = $code:literal, $name:literal, $operation:ident $position:ident
       [$($header:ident)*] payload $payload:literal, $profiles:ident;)*) => {
        impl Opcode {
            $(#[doc = $name] pub const $constant: Self = Self($code);)*
        }

        /// Every known opcode, in ascending order.
        pub const OPCODES: &[OpcodeInfo] = &[
            $(OpcodeInfo {
                opcode: Opcode($code),
                name: $name,
                operation: Operation::$operation,
                position: Position::$position,
                headers: &[$(HeaderKind::$header,)*],
                has_payload: $payload,
                profiles: $profiles,
            },)*
        ];
    };
}

opcodes! {
    SEND_FIRST = 0x00, "RC SEND first", Send First [] payload true, ROCE_SOLAR;
    SEND_MIDDLE = 0x01, "RC SEND middle", Send Middle [] payload true, ROCE_SOLAR;
    SEND_LAST = 0x02, "RC SEND last", Send Last [] payload true, ROCE_SOLAR;
    SEND_LAST_IMMEDIATE = 0x03, "RC SEND last with immediate", Send Last [ImmDt] payload true, ROCE_SOLAR;
    SEND_ONLY = 0x04, "RC SEND only", Send Only [] payload true, ROCE_SOLAR;
    SEND_ONLY_IMMEDIATE = 0x05, "RC SEND only with immediate", Send Only [ImmDt] payload true, ROCE_SOLAR;
    WRITE_FIRST = 0x06, "RC WRITE first", Write First [Reth] payload true, ROCE_SOLAR;
    WRITE_MIDDLE = 0x07, "RC WRITE middle", Write Middle [] payload true, ROCE_SOLAR;
    WRITE_LAST = 0x08, "RC WRITE last", Write Last [] payload true, ROCE_SOLAR;
    WRITE_LAST_IMMEDIATE = 0x09, "RC WRITE last with immediate", Write Last [ImmDt] payload true, ROCE_SOLAR;
    WRITE_ONLY = 0x0A, "RC WRITE only", Write Only [Reth] payload true, ROCE_SOLAR;
    WRITE_ONLY_IMMEDIATE = 0x0B, "RC WRITE only with immediate", Write Only [Reth ImmDt] payload true, ROCE_SOLAR;
    READ_REQUEST = 0x0C, "RC READ request", ReadRequest Only [Reth] payload false, ROCE_SOLAR;
    READ_RESPONSE_FIRST = 0x0D, "RC READ response first", ReadResponse First [Aeth] payload true, ROCE_SOLAR;
    READ_RESPONSE_MIDDLE = 0x0E, "RC READ response middle", ReadResponse Middle [] payload true, ROCE_SOLAR;
    READ_RESPONSE_LAST = 0x0F, "RC READ response last", ReadResponse Last [Aeth] payload true, ROCE_SOLAR;
    READ_RESPONSE_ONLY = 0x10, "RC READ response only", ReadResponse Only [Aeth] payload true, ROCE_SOLAR;
    ACKNOWLEDGE = 0x11, "RC ACK", Acknowledge Only [Aeth] payload false, ROCE_SOLAR;
    ATOMIC_ACKNOWLEDGE = 0x12, "RC atomic ACK", AtomicAcknowledge Only [Aeth AtomicAckEth] payload false, ROCE_SOLAR;
    COMPARE_SWAP = 0x13, "RC CmpSwap", CompareSwap Only [AtomicEth] payload false, ROCE_SOLAR;
    FETCH_ADD = 0x14, "RC FetchAdd", FetchAdd Only [AtomicEth] payload false, ROCE_SOLAR;
    SEND_LAST_INVALIDATE = 0x16, "RC SEND last with invalidate", Send Last [Ieth] payload true, ROCE_SOLAR;
    SEND_ONLY_INVALIDATE = 0x17, "RC SEND only with invalidate", Send Only [Ieth] payload true, ROCE_SOLAR;
    CNP = 0x81, "CNP", Cnp Only [CnpReserved] payload false, EVERY;
    MRC_WRITE_FIRST = 0xC6, "MRC WRITE first", Write First [Meth Tseth Reth] payload true, MRC;
    MRC_WRITE_MIDDLE = 0xC7, "MRC WRITE middle", Write Middle [Meth Tseth Reth] payload true, MRC;
    MRC_WRITE_LAST = 0xC8, "MRC WRITE last", Write Last [Meth Tseth Reth] payload true, MRC;
    MRC_WRITE_LAST_IMMEDIATE = 0xC9, "MRC WRITE last with immediate", Write Last [Meth Tseth Reth ImmDt] payload true, MRC;
    MRC_WRITE_ONLY = 0xCA, "MRC WRITE only", Write Only [Meth Tseth Reth] payload true, MRC;
    MRC_WRITE_ONLY_IMMEDIATE = 0xCB, "MRC WRITE only with immediate", Write Only [Meth Tseth Reth ImmDt] payload true, MRC;
    MRC_ACKNOWLEDGE = 0xD1, "MRC ACK", Acknowledge Only [Aeth] payload false, MRC;
    ENDPOINT_REQUEST = 0xD8, "MRC endpoint request", EndpointRequest Only [Erth] payload false, SOLAR_MRC;
    ENDPOINT_RESPONSE = 0xD9, "MRC endpoint response", EndpointResponse Only [Eeth] payload false, SOLAR_MRC;
    SACK = 0xDC, "SACK", Sack Only [Seth CcState] payload false, SOLAR_MRC;
    NACK = 0xDD, "NACK", Nack Only [Neth] payload false, SOLAR_MRC;
    PROBE = 0xDE, "reliability probe", Probe Only [Peth] payload false, SOLAR_MRC;
}

/// For each byte the index in [`OPCODES`], or 255.
const INDEX: [u8; 256] = {
    let mut index = [255; 256];
    let mut at = 0;
    while at < OPCODES.len() {
        index[OPCODES[at].opcode.0 as usize] = at as u8;
        at += 1;
    }
    index
};

impl Opcode {
    /// What is known of it; `None` for an opcode that no profile uses.
    #[must_use]
    pub fn info(self) -> Option<&'static OpcodeInfo> {
        OPCODES.get(usize::from(INDEX[usize::from(self.0)]))
    }

    /// The bit order of BTH byte 1 that goes with the opcode when the queue pair's profile is not known: MRC for the
    /// opcodes that MRC defines (C0 to DF), IBA for all others.
    #[must_use]
    pub const fn bit_order(self) -> BitOrder {
        match self.0 {
            0xC0..=0xDF => BitOrder::Mrc,
            _ => BitOrder::Iba,
        }
    }
}

impl crate::header::FieldValue for Opcode {
    fn from_bits(bits: u64) -> Self {
        Self(bits as u8)
    }
    fn to_bits(&self) -> u64 {
        u64::from(self.0)
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.info() {
            Some(info) => f.write_str(info.name),
            None => write!(f, "opcode 0x{:02x}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_opcode_finds_itself() {
        assert!(
            OPCODES.windows(2).all(|pair| pair[0].opcode.0 < pair[1].opcode.0),
            "ascending, no code twice"
        );
        for info in OPCODES {
            assert_eq!(info.opcode.info(), Some(info));
        }
        let known = (0..=255).filter(|code| Opcode(*code).info().is_some()).count();
        assert_eq!(known, OPCODES.len());
        assert_eq!(Opcode(0x15).info(), None);
    }

    #[test]
    fn lengths_are_those_of_the_standards() {
        let bytes = |opcode: Opcode, timestamped| opcode.info().unwrap().header_bytes(timestamped);
        assert_eq!(bytes(Opcode::WRITE_MIDDLE, true), 0);
        assert_eq!(bytes(Opcode::WRITE_FIRST, false), 16);
        assert_eq!(bytes(Opcode::WRITE_ONLY_IMMEDIATE, false), 20);
        assert_eq!(bytes(Opcode::ATOMIC_ACKNOWLEDGE, false), 12);
        assert_eq!(bytes(Opcode::COMPARE_SWAP, false), 28);
        assert_eq!(bytes(Opcode::CNP, false), 16);
        assert_eq!(bytes(Opcode::MRC_WRITE_FIRST, false), 20);
        assert_eq!(bytes(Opcode::MRC_WRITE_ONLY_IMMEDIATE, true), 28);
        assert_eq!(bytes(Opcode::SACK, false), 36);
        assert_eq!(bytes(Opcode::NACK, false), 20);
        assert_eq!(bytes(Opcode::ENDPOINT_RESPONSE, false), 36);
        for info in OPCODES {
            assert_eq!(info.header_bytes(true) % 4, 0);
            assert!(info.header_bytes(true) <= 36);
        }
    }

    #[test]
    fn positions_follow_the_names() {
        for info in OPCODES {
            let position = if info.name.contains("first") {
                Position::First
            } else if info.name.contains("middle") {
                Position::Middle
            } else if info.name.contains("last") {
                Position::Last
            } else {
                Position::Only
            };
            assert_eq!(info.position, position, "{}", info.name);
        }
    }
}
