//! Why a frame is refused: one variant for each check of [`crate::Packet::parse`].
//!
//! Each says what was found and what would be right.

use thiserror::Error;

use crate::header::TooShort;
use crate::opcode::{Opcode, Profile};

/// Why a frame is not a RoCEv2 packet, or not a right one. The checks are made in the order of the variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ParseError {
    /// A header is cut off.
    #[error(transparent)]
    TooShort(#[from] TooShort),
    /// Neither IPv4 nor IPv6 behind at most two VLAN tags.
    #[error("EtherType 0x{0:04x} is not IPv4 (0x0800) or IPv6 (0x86dd)")]
    NotIp(u16),
    /// The version in the IP header is not the one of the EtherType.
    #[error("IP version {found}, the EtherType says {right}")]
    IpVersion {
        /// Version in the IP header.
        found: u8,
        /// Version that belongs to the EtherType.
        right: u8,
    },
    /// IPv4 options: RoCEv2 has none.
    #[error("IPv4 header of {0} words, should be 5: RoCEv2 has no options")]
    Ipv4Options(u8),
    /// IPv4 header checksum.
    #[error("IPv4 header checksum 0x{found:04x}, should be 0x{right:04x}")]
    Ipv4Checksum {
        /// Checksum in the header.
        found: u16,
        /// Checksum that the header should have.
        right: u16,
    },
    /// The length in the IP header exceeds the frame or does not hold the header.
    #[error("IP length {length}, should be {least} to {most}")]
    IpLength {
        /// Length by the header, the IP header included.
        length: usize,
        /// Shortest possible.
        least: usize,
        /// Bytes that the frame has for it.
        most: usize,
    },
    /// A fragment, or the reserved flag is set.
    #[error("IPv4 flags and fragment offset 0x{0:04x}: a fragment, should be 0x4000 or 0")]
    Ipv4Fragment(u16),
    /// Not UDP.
    #[error("IP protocol {0} is not UDP (17)")]
    NotUdp(u8),
    /// Not the port of RoCEv2.
    #[error("UDP destination port {0} is not 4791")]
    NotRoce(u16),
    /// The UDP length is not what the IP length leaves.
    #[error("UDP length {found}, should be {right} as the IP length says")]
    UdpLength {
        /// Length in the UDP header.
        found: usize,
        /// Bytes of the IP packet behind the IP header.
        right: usize,
    },
    /// Transport version.
    #[error("transport version {0}, should be 0")]
    TransportVersion(u8),
    /// An opcode that no profile uses.
    #[error("opcode 0x{:02x} is unknown", .0.0)]
    UnknownOpcode(Opcode),
    /// An opcode that the queue pair's profile does not use.
    #[error("{opcode} is not part of profile {profile}")]
    OpcodeNotInProfile {
        /// The opcode.
        opcode: Opcode,
        /// The profile asked for.
        profile: Profile,
    },
    /// The pad count exceeds what stands between headers and ICRC.
    #[error("pad count {pad_count}, but only {available} bytes stand between headers and ICRC")]
    PadCount {
        /// Pad count in the BTH.
        pad_count: u8,
        /// Bytes between headers and ICRC.
        available: usize,
    },
    /// Payload where the opcode has none.
    #[error("{length} bytes behind the headers of {opcode}, should be none")]
    UnexpectedPayload {
        /// The opcode.
        opcode: Opcode,
        /// Bytes of payload and padding.
        length: usize,
    },
    /// Payload and padding are no multiple of 4 bytes.
    #[error("payload of {payload} bytes with pad count {pad_count}: the sum should be a multiple of 4")]
    Alignment {
        /// Payload bytes.
        payload: usize,
        /// Pad count in the BTH.
        pad_count: u8,
    },
}
