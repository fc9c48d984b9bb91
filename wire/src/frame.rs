//! A whole RoCEv2 packet, from the Ethernet header to the ICRC: parse and emit.
//!
//! Parsing checks all that a receiver can check without a queue pair and says which check failed; it does not judge
//! the ICRC ([`crate::icrc::verify`] does) nor the UDP checksum. Emitting a parsed packet gives the same bytes again,
//! but for reserved bits of MRC headers, which become zero.

use std::fmt;

use etherparse::{Ethernet2Header, UdpHeader};
use serde::{Deserialize, Serialize};

use crate::bth::Bth;
use crate::extension::{Extension, HeaderKind};
use crate::header::{Header, TooShort};
use crate::icrc;
use crate::network::{
    ETHERNET_LENGTH, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_SERVICE_VLAN, ETHERTYPE_VLAN, Ethernet, IPV4_LENGTH,
    IPV6_LENGTH, Ip, Ipv4, Ipv6, MAX_VLAN_TAGS, MacAddress, PROTOCOL_UDP, ROCE_PORT, UDP_LENGTH, VLAN_LENGTH, VlanTag,
    ipv4_checksum,
};
use crate::opcode::{BitOrder, Opcode, OpcodeInfo, Profile};
use crate::parse_error::ParseError;

/// A RoCEv2 packet in its Ethernet frame (without FCS).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packet {
    /// Ethernet header.
    pub ethernet: Ethernet,
    /// IP header; its lengths follow from the packet.
    pub ip: Ip,
    /// UDP source port: entropy.
    pub udp_source_port: u16,
    /// UDP checksum; RoCEv2 sends zero.
    pub udp_checksum: u16,
    /// Order of the two high bits of BTH byte 1.
    pub bit_order: BitOrder,
    /// Base transport header. Its pad count says how many bytes of `pad` are sent.
    pub bth: Bth,
    /// Extension headers, in the order of the wire.
    pub extensions: Vec<Extension>,
    /// Payload without padding.
    pub payload: Vec<u8>,
    /// Padding; the first `bth.pad_count` bytes are sent.
    pub pad: [u8; 3],
    /// ICRC as received (the number whose least significant byte is sent first); `None` has it computed.
    pub icrc: Option<u32>,
    /// Bytes behind the IP packet: padding of a short Ethernet frame.
    pub trailer: Vec<u8>,
}

impl Packet {
    /// A packet without VLAN tag, with the bit order of its opcode, UDP checksum 0, the right pad count, and the ICRC
    /// to be computed.
    #[must_use]
    pub fn new(ethernet: Ethernet, ip: Ip, udp_source_port: u16, bth: Bth, extensions: Vec<Extension>) -> Self {
        Self {
            ethernet,
            ip,
            udp_source_port,
            udp_checksum: 0,
            bit_order: bth.opcode.bit_order(),
            bth: Bth { pad_count: 0, ..bth },
            extensions,
            payload: Vec::new(),
            pad: [0; 3],
            icrc: None,
            trailer: Vec::new(),
        }
    }

    /// Takes a payload and sets the pad count to what it needs.
    #[must_use]
    pub fn with_payload(mut self, payload: Vec<u8>) -> Self {
        self.bth.pad_count = pad_count(payload.len());
        self.payload = payload;
        self
    }

    /// A congestion notification packet (IBA annex A17, section 17.9.4): BECN 1, PSN 0, 16 zero bytes.
    #[must_use]
    pub fn cnp(ethernet: Ethernet, ip: Ip, udp_source_port: u16, destination_qpn: u32, partition_key: u16) -> Self {
        let bth = Bth {
            opcode: Opcode::CNP,
            becn: true,
            destination_qpn,
            partition_key,
            ..Bth::default()
        };
        let reserved = Extension::CnpReserved(crate::rdma::CnpReserved::default());
        Self::new(ethernet, ip, udp_source_port, bth, vec![reserved])
    }

    /// What is known of the packet's opcode.
    #[must_use]
    pub fn info(&self) -> Option<&'static OpcodeInfo> {
        self.bth.opcode.info()
    }

    /// The extension header of this kind, if the packet has it.
    #[must_use]
    pub fn extension(&self, kind: HeaderKind) -> Option<&Extension> {
        self.extensions.iter().find(|extension| extension.kind() == kind)
    }

    /// Bytes from the BTH to the ICRC, both included.
    #[must_use]
    pub fn transport_length(&self) -> usize {
        let extensions: usize = self.extensions.iter().map(|extension| extension.kind().length()).sum();
        Bth::LENGTH + extensions + self.payload.len() + usize::from(self.bth.pad_count & 3) + icrc::LENGTH
    }

    /// Bytes of the frame, without FCS.
    #[must_use]
    pub fn length(&self) -> usize {
        self.ethernet.length() + self.ip.length() + UDP_LENGTH + self.transport_length() + self.trailer.len()
    }

    /// Reads an Ethernet frame without FCS. With a profile, opcodes outside of it are refused and byte 1 of the BTH is
    /// read in its order (mrc: M before SE, for all opcodes); without one, the opcode decides.
    ///
    /// # Errors
    /// [`ParseError`] names the first check that failed.
    pub fn parse(frame: &[u8], profile: Option<Profile>) -> Result<Self, ParseError> {
        let (ethernet, ether_type, at) = parse_ethernet(frame)?;
        let (ip, ip_payload, trailer) = match ether_type {
            ETHERTYPE_IPV4 => parse_ipv4(&frame[at..])?,
            ETHERTYPE_IPV6 => parse_ipv6(&frame[at..])?,
            other => return Err(ParseError::NotIp(other)),
        };
        let (udp, transport) =
            UdpHeader::from_slice(ip_payload).map_err(|_| too_short("UDP", UDP_LENGTH, ip_payload.len()))?;
        if udp.destination_port != ROCE_PORT {
            return Err(ParseError::NotRoce(udp.destination_port));
        }
        if usize::from(udp.length) != ip_payload.len() {
            return Err(ParseError::UdpLength {
                found: usize::from(udp.length),
                right: ip_payload.len(),
            });
        }
        let transport = parse_transport(transport, profile)?;
        Ok(Self {
            ethernet,
            ip,
            udp_source_port: udp.source_port,
            udp_checksum: udp.checksum,
            bit_order: transport.bit_order,
            bth: transport.bth,
            extensions: transport.extensions,
            payload: transport.payload.to_vec(),
            pad: transport.pad,
            icrc: Some(transport.icrc),
            trailer: trailer.to_vec(),
        })
    }

    /// The frame, without FCS. Lengths and EtherType follow from the packet, IPv4 checksum and ICRC too where they are
    /// `None`. A packet longer than 65,535 bytes has no valid length field: it holds the low 16 bits then.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let transport_length = self.transport_length();
        let mut frame = Vec::with_capacity(self.length());
        frame.extend_from_slice(&self.ethernet.destination.0);
        frame.extend_from_slice(&self.ethernet.source.0);
        for tag in &self.ethernet.vlans {
            frame.extend_from_slice(&tag.tpid.to_be_bytes());
            frame.extend_from_slice(&tag.tci.to_be_bytes());
        }
        frame.extend_from_slice(&self.ip.ether_type().to_be_bytes());
        let ip_start = frame.len();
        frame.extend_from_slice(&self.ip.to_bytes(UDP_LENGTH + transport_length));
        let udp = UdpHeader {
            source_port: self.udp_source_port,
            destination_port: ROCE_PORT,
            length: (UDP_LENGTH + transport_length) as u16,
            checksum: self.udp_checksum,
        };
        frame.extend_from_slice(&udp.to_bytes());
        let mut header = [0; 36];
        self.bth.emit_ordered(&mut header, self.bit_order);
        frame.extend_from_slice(&header[..Bth::LENGTH]);
        for extension in &self.extensions {
            extension.emit(&mut header);
            frame.extend_from_slice(&header[..extension.kind().length()]);
        }
        frame.extend_from_slice(&self.payload);
        frame.extend_from_slice(&self.pad[..usize::from(self.bth.pad_count & 3)]);
        // IP, UDP and BTH were just written: the ICRC exists.
        let icrc = self
            .icrc
            .unwrap_or_else(|| icrc::of_ip_packet(&frame[ip_start..]).unwrap_or_default());
        frame.extend_from_slice(&icrc.to_le_bytes());
        frame.extend_from_slice(&self.trailer);
        frame
    }
}

impl fmt::Display for Packet {
    /// One line: opcode, addresses, BTH and extension headers, payload length.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.bth.opcode)?;
        match &self.ip {
            Ip::V4(ip) => write!(f, "{} > {}", ip.source, ip.destination)?,
            Ip::V6(ip) => write!(f, "{} > {}", ip.source, ip.destination)?,
        }
        write!(
            f,
            " port={} qpn=0x{:06x} psn={}",
            self.udp_source_port, self.bth.destination_qpn, self.bth.psn
        )?;
        let flags = [
            (self.bth.solicited, "SE"),
            (self.bth.ack_request, "AckReq"),
            (self.bth.fecn, "FECN"),
            (self.bth.becn, "BECN"),
            (self.bth.retransmission, "rtx"),
        ];
        for (_, name) in flags.iter().filter(|(set, _)| *set) {
            write!(f, " {name}")?;
        }
        for extension in &self.extensions {
            match extension {
                Extension::CnpReserved(_) => {}
                Extension::Aeth(aeth) => write!(f, " AETH {} msn={}", aeth.syndrome, aeth.msn)?,
                other => write!(f, " {other}")?,
            }
        }
        if self.info().is_none_or(|info| info.has_payload) {
            write!(f, " payload={}", self.payload.len())?;
        }
        Ok(())
    }
}

/// Bytes of padding behind a payload of this length, 0 to 3.
#[must_use]
pub const fn pad_count(payload_length: usize) -> u8 {
    ((4 - payload_length % 4) % 4) as u8
}

fn too_short(header: &'static str, needed: usize, found: usize) -> ParseError {
    ParseError::TooShort(TooShort { header, needed, found })
}

fn parse_ethernet(frame: &[u8]) -> Result<(Ethernet, u16, usize), ParseError> {
    let (header, _) =
        Ethernet2Header::from_slice(frame).map_err(|_| too_short("Ethernet", ETHERNET_LENGTH, frame.len()))?;
    let mut ether_type = header.ether_type.0;
    let mut at = ETHERNET_LENGTH;
    let mut vlans = Vec::new();
    while (ether_type == ETHERTYPE_VLAN || ether_type == ETHERTYPE_SERVICE_VLAN) && vlans.len() < MAX_VLAN_TAGS {
        let bytes = frame
            .get(at..at + VLAN_LENGTH)
            .ok_or_else(|| too_short("VLAN", VLAN_LENGTH, frame.len() - at))?;
        vlans.push(VlanTag {
            tpid: ether_type,
            tci: u16::from_be_bytes([bytes[0], bytes[1]]),
        });
        ether_type = u16::from_be_bytes([bytes[2], bytes[3]]);
        at += VLAN_LENGTH;
    }
    let ethernet = Ethernet {
        destination: MacAddress(header.destination),
        source: MacAddress(header.source),
        vlans,
    };
    Ok((ethernet, ether_type, at))
}

/// Gives the header, the bytes behind it up to the IP length, and what the frame has behind that.
fn parse_ipv4(bytes: &[u8]) -> Result<(Ip, &[u8], &[u8]), ParseError> {
    let header: [u8; IPV4_LENGTH] = bytes
        .get(..IPV4_LENGTH)
        .and_then(|header| header.try_into().ok())
        .ok_or_else(|| too_short("IPv4", IPV4_LENGTH, bytes.len()))?;
    if header[0] >> 4 != 4 {
        return Err(ParseError::IpVersion {
            found: header[0] >> 4,
            right: 4,
        });
    }
    if header[0] & 0xF != 5 {
        return Err(ParseError::Ipv4Options(header[0] & 0xF));
    }
    let found = u16::from_be_bytes([header[10], header[11]]);
    let right = ipv4_checksum(&header);
    // In ones' complement 0xFFFF is another way to write 0 (RFC 1624): both verify.
    if found != right && !(found == 0xFFFF && right == 0) {
        return Err(ParseError::Ipv4Checksum { found, right });
    }
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if !(IPV4_LENGTH..=bytes.len()).contains(&length) {
        return Err(ParseError::IpLength {
            length,
            least: IPV4_LENGTH,
            most: bytes.len(),
        });
    }
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    if fragment & !0x4000 != 0 {
        return Err(ParseError::Ipv4Fragment(fragment));
    }
    if header[9] != PROTOCOL_UDP {
        return Err(ParseError::NotUdp(header[9]));
    }
    let ip = Ipv4 {
        tos: header[1],
        identification: u16::from_be_bytes([header[4], header[5]]),
        dont_fragment: fragment != 0,
        ttl: header[8],
        checksum: Some(found),
        source: [header[12], header[13], header[14], header[15]].into(),
        destination: [header[16], header[17], header[18], header[19]].into(),
    };
    Ok((Ip::V4(ip), &bytes[IPV4_LENGTH..length], &bytes[length..]))
}

/// Gives the header, the bytes behind it up to the payload length, and what the frame has behind that.
fn parse_ipv6(bytes: &[u8]) -> Result<(Ip, &[u8], &[u8]), ParseError> {
    let found = bytes.len();
    if bytes.first().is_some_and(|byte| byte >> 4 != 6) && found >= IPV6_LENGTH {
        return Err(ParseError::IpVersion {
            found: bytes[0] >> 4,
            right: 6,
        });
    }
    let (header, rest) =
        etherparse::Ipv6Header::from_slice(bytes).map_err(|_| too_short("IPv6", IPV6_LENGTH, found))?;
    let length = usize::from(header.payload_length);
    if length > rest.len() {
        return Err(ParseError::IpLength {
            length: IPV6_LENGTH + length,
            least: IPV6_LENGTH,
            most: found,
        });
    }
    if header.next_header.0 != PROTOCOL_UDP {
        return Err(ParseError::NotUdp(header.next_header.0));
    }
    let ip = Ipv6 {
        traffic_class: header.traffic_class,
        flow_label: header.flow_label.value(),
        hop_limit: header.hop_limit,
        source: header.source.into(),
        destination: header.destination.into(),
    };
    Ok((Ip::V6(ip), &rest[..length], &rest[length..]))
}

struct Transport<'a> {
    bit_order: BitOrder,
    bth: Bth,
    extensions: Vec<Extension>,
    payload: &'a [u8],
    pad: [u8; 3],
    icrc: u32,
}

fn parse_transport(bytes: &[u8], profile: Option<Profile>) -> Result<Transport<'_>, ParseError> {
    let mut bth = Bth::parse(bytes)?;
    if bth.version != 0 {
        return Err(ParseError::TransportVersion(bth.version));
    }
    let opcode = bth.opcode;
    let info = opcode.info().ok_or(ParseError::UnknownOpcode(opcode))?;
    if let Some(profile) = profile.filter(|profile| !info.is_in(*profile)) {
        return Err(ParseError::OpcodeNotInProfile { opcode, profile });
    }
    let bit_order = match profile {
        Some(Profile::Mrc) => BitOrder::Mrc,
        _ => opcode.bit_order(),
    };
    if bit_order == BitOrder::Mrc {
        bth = Bth::parse_ordered(bytes, BitOrder::Mrc)?;
    }
    let rest = &bytes[Bth::LENGTH..];
    let (extensions, header_bytes) = HeaderKind::parse_all(info.headers(bth.timestamped), rest)?;
    let body = &rest[header_bytes..];
    let (body, icrc) = body
        .split_last_chunk()
        .ok_or_else(|| too_short("ICRC", icrc::LENGTH, body.len()))?;
    let pad_bytes = usize::from(bth.pad_count);
    let Some(payload_length) = body.len().checked_sub(pad_bytes) else {
        return Err(ParseError::PadCount {
            pad_count: bth.pad_count,
            available: body.len(),
        });
    };
    if !info.has_payload && !body.is_empty() {
        return Err(ParseError::UnexpectedPayload {
            opcode,
            length: body.len(),
        });
    }
    if body.len() % 4 != 0 {
        return Err(ParseError::Alignment {
            payload: payload_length,
            pad_count: bth.pad_count,
        });
    }
    let (payload, pad_slice) = body.split_at(payload_length);
    let mut pad = [0; 3];
    pad[..pad_bytes].copy_from_slice(pad_slice);
    Ok(Transport {
        bit_order,
        bth,
        extensions,
        payload,
        pad,
        icrc: u32::from_le_bytes(*icrc),
    })
}
