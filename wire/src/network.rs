//! Ethernet, VLAN tags, IPv4 and IPv6 as RoCEv2 uses them: without options, extension headers or fragments.
//!
//! What a router or switch may change is kept as it came; lengths and next-protocol fields follow from the packet and
//! are not stored.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// EtherType of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub const ETHERTYPE_IPV6: u16 = 0x86DD;
/// EtherType of a VLAN tag (IEEE 802.1Q).
pub const ETHERTYPE_VLAN: u16 = 0x8100;
/// EtherType of a service VLAN tag (IEEE 802.1ad).
pub const ETHERTYPE_SERVICE_VLAN: u16 = 0x88A8;
/// IP protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;
/// UDP destination port of RoCEv2 (IBA annex A17).
pub const ROCE_PORT: u16 = 4791;

/// Length of an Ethernet header without tags, in bytes.
pub const ETHERNET_LENGTH: usize = etherparse::Ethernet2Header::LEN;
/// Length of a VLAN tag, in bytes.
pub const VLAN_LENGTH: usize = etherparse::SingleVlanHeader::LEN;
/// Length of an IPv4 header without options, in bytes.
pub const IPV4_LENGTH: usize = etherparse::Ipv4Header::MIN_LEN;
/// Length of an IPv6 header, in bytes.
pub const IPV6_LENGTH: usize = etherparse::Ipv6Header::LEN;
/// Length of a UDP header, in bytes.
pub const UDP_LENGTH: usize = etherparse::UdpHeader::LEN;
/// VLAN tags that a frame may carry.
pub const MAX_VLAN_TAGS: usize = 2;

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MacAddress(pub [u8; 6]);

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VlanTag {
    /// Tag protocol identifier: [`ETHERTYPE_VLAN`] or [`ETHERTYPE_SERVICE_VLAN`].
    pub tpid: u16,
    /// Tag control information: priority 3 bits, DEI 1 bit, VLAN identifier 12 bits.
    pub tci: u16,
}

impl VlanTag {
    /// An 802.1Q tag.
    #[must_use]
    pub const fn new(tci: u16) -> Self {
        Self {
            tpid: ETHERTYPE_VLAN,
            tci,
        }
    }

    /// Priority code point, 0 to 7.
    #[must_use]
    pub const fn priority(self) -> u8 {
        (self.tci >> 13) as u8
    }

    /// VLAN identifier, 0 to 4095.
    #[must_use]
    pub const fn id(self) -> u16 {
        self.tci & 0xFFF
    }
}

/// Ethernet header with its VLAN tags; the EtherType follows from the IP version.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ethernet {
    /// Destination address.
    pub destination: MacAddress,
    /// Source address.
    pub source: MacAddress,
    /// VLAN tags, outer first; at most [`MAX_VLAN_TAGS`] are read.
    pub vlans: Vec<VlanTag>,
}

impl Ethernet {
    /// Length in bytes, tags included.
    #[must_use]
    pub fn length(&self) -> usize {
        ETHERNET_LENGTH + VLAN_LENGTH * self.vlans.len()
    }
}

/// IPv4 header of a RoCEv2 packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ipv4 {
    /// Type of service: DSCP in bits 7:2, ECN in bits 1:0.
    pub tos: u8,
    /// Identification.
    pub identification: u16,
    /// The DF flag; RoCEv2 sets it.
    pub dont_fragment: bool,
    /// Time to live.
    pub ttl: u8,
    /// Header checksum as received; `None` has it computed.
    pub checksum: Option<u16>,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
}

impl Default for Ipv4 {
    fn default() -> Self {
        Self {
            tos: 0,
            identification: 0,
            dont_fragment: true,
            ttl: 64,
            checksum: None,
            source: Ipv4Addr::UNSPECIFIED,
            destination: Ipv4Addr::UNSPECIFIED,
        }
    }
}

impl Ipv4 {
    /// The header as etherparse has it, its checksum being the one given or else the computed one.
    fn header(&self, payload_length: usize) -> etherparse::Ipv4Header {
        let mut header = etherparse::Ipv4Header {
            dscp: etherparse::IpDscp::try_new(self.tos >> 2).unwrap_or_default(),
            ecn: etherparse::IpEcn::try_new(self.tos & 3).unwrap_or_default(),
            total_len: (IPV4_LENGTH + payload_length) as u16,
            identification: self.identification,
            dont_fragment: self.dont_fragment,
            time_to_live: self.ttl,
            protocol: etherparse::IpNumber(PROTOCOL_UDP),
            source: self.source.octets(),
            destination: self.destination.octets(),
            ..etherparse::Ipv4Header::default()
        };
        header.header_checksum = self.checksum.unwrap_or_else(|| header.calc_header_checksum());
        header
    }
}

/// IPv6 header of a RoCEv2 packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ipv6 {
    /// Traffic class: DSCP in bits 7:2, ECN in bits 1:0.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
}

impl Default for Ipv6 {
    fn default() -> Self {
        Self {
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 64,
            source: Ipv6Addr::UNSPECIFIED,
            destination: Ipv6Addr::UNSPECIFIED,
        }
    }
}

/// The IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ip {
    /// IPv4.
    V4(Ipv4),
    /// IPv6.
    V6(Ipv6),
}

impl Ip {
    /// Length of the header in bytes.
    #[must_use]
    pub const fn length(&self) -> usize {
        match self {
            Self::V4(_) => IPV4_LENGTH,
            Self::V6(_) => IPV6_LENGTH,
        }
    }

    /// Its EtherType.
    #[must_use]
    pub const fn ether_type(&self) -> u16 {
        match self {
            Self::V4(_) => ETHERTYPE_IPV4,
            Self::V6(_) => ETHERTYPE_IPV6,
        }
    }

    /// IPv4 TOS or IPv6 traffic class.
    #[must_use]
    pub const fn traffic_class(&self) -> u8 {
        match self {
            Self::V4(ip) => ip.tos,
            Self::V6(ip) => ip.traffic_class,
        }
    }

    /// The header as it stands on the wire in front of `payload_length` bytes. A packet longer than 65,535 bytes has
    /// no valid length field: it holds the low 16 bits then.
    #[must_use]
    pub(crate) fn to_bytes(self, payload_length: usize) -> Vec<u8> {
        match self {
            Self::V4(ip) => ip.header(payload_length).to_bytes().to_vec(),
            Self::V6(ip) => etherparse::Ipv6Header {
                traffic_class: ip.traffic_class,
                flow_label: etherparse::Ipv6FlowLabel::try_new(ip.flow_label & etherparse::Ipv6FlowLabel::MAX_U32)
                    .unwrap_or_default(),
                payload_length: payload_length as u16,
                next_header: etherparse::IpNumber(PROTOCOL_UDP),
                hop_limit: ip.hop_limit,
                source: ip.source.octets(),
                destination: ip.destination.octets(),
            }
            .to_bytes()
            .to_vec(),
        }
    }
}

/// The checksum that belongs into an IPv4 header without options: ones' complement of the ones' complement sum of its
/// ten 16-bit words, the checksum field as zero (RFC 791, RFC 1071).
///
/// Never 0xFFFF: with the version in it the sum is not zero.
#[must_use]
pub fn ipv4_checksum(header: &[u8; IPV4_LENGTH]) -> u16 {
    let sum: u32 = header
        .chunks_exact(2)
        .enumerate()
        .filter(|(word, _)| *word != 5)
        .map(|(_, bytes)| u32::from(u16::from_be_bytes([bytes[0], bytes[1]])))
        .sum();
    let once = (sum & 0xFFFF) + (sum >> 16);
    let twice = (once & 0xFFFF) + (once >> 16);
    !(twice as u16)
}
