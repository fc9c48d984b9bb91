//! `packet_parser`: reads the headers of a frame and says whose it is: the datapath's, the host's, or nobody's.
//!
//! Each frame ends in exactly one place, and is counted there. It knows no queue pair, never judges the ICRC, and never
//! changes a frame of the host. Theory of operation: `docs/src/blocks/packet_parser.md`.

use bitvec::prelude::*;
use spraynic_config::descriptor::{Extension, ReceivedPacket};
use spraynic_config::{NicConfig, Profile};
use spraynic_wire::opcode::OPCODES;
use spraynic_wire::{BitOrder, Opcode, OpcodeInfo};
use thiserror::Error;

use crate::frame::Frame;
use crate::header_builder::{
    BTH_BYTES, ETHERNET_BYTES, ICRC_BYTES, IPV4_BYTES, IPV6_BYTES, UDP_BYTES, UDP_PORT, VLAN_BYTES,
};

/// VLAN tags that are passed over; behind more of them a frame is the host's.
pub(crate) const MAX_VLAN_TAGS: usize = 2;

/// EtherType of a customer VLAN tag (IEEE 802.1Q).
const ETHERTYPE_VLAN: u16 = 0x8100;
/// EtherType of a service VLAN tag (IEEE 802.1ad).
const ETHERTYPE_SERVICE_VLAN: u16 = 0x88A8;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86DD;

/// IP protocol number of UDP.
const PROTOCOL_UDP: u8 = 17;

/// What was generated: the part of the configuration that this block's behaviour depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// IPv4 is read; otherwise its frames are the host's.
    pub ipv4: bool,
    /// IPv6 is read; otherwise its frames are the host's.
    pub ipv6: bool,
    /// VLAN tags are read; otherwise frames with a tag are the host's.
    pub vlan: bool,
    /// Opcodes that a profile of the configuration has.
    pub opcodes: BitArr!(for 256),
    /// Largest payload in bytes.
    pub max_payload: u16,
}

impl Config {
    /// Everything the block knows.
    #[must_use]
    pub fn full() -> Self {
        Self {
            ipv4: true,
            ipv6: true,
            vlan: true,
            opcodes: opcodes(|_| true),
            max_payload: 4096,
        }
    }
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            ipv4: config.wire.ipv4,
            ipv6: config.wire.ipv6,
            vlan: config.wire.vlan,
            opcodes: opcodes(|info| {
                Profile::ALL
                    .iter()
                    .any(|profile| config.has_profile(*profile) && has_opcode(*profile, info))
            }),
            max_payload: config.wire.max_mtu as u16,
        }
    }
}

fn opcodes(kept: impl Fn(&OpcodeInfo) -> bool) -> BitArr!(for 256) {
    let mut known = BitArray::ZERO;
    for info in OPCODES {
        known.set(usize::from(info.opcode.0), kept(info));
    }
    known
}

/// Whether packets with this opcode belong to a profile.
pub(crate) fn has_opcode(profile: Profile, info: &OpcodeInfo) -> bool {
    info.is_in(match profile {
        Profile::Roce => spraynic_wire::Profile::Roce,
        Profile::Solar => spraynic_wire::Profile::Solar,
        Profile::Mrc => spraynic_wire::Profile::Mrc,
    })
}

/// DSCPs that switches give to the packets they trim: the ports `trimmed_dscp` and `trimmed_last_hop_dscp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrimmedDscp {
    /// DSCP of a trimmed packet, 1 to 63; 0: there is none.
    pub trimmed: u8,
    /// DSCP of a packet that the last hop trimmed, 1 to 63; 0: there is none.
    pub last_hop: u8,
}

impl TrimmedDscp {
    /// The code in [`ReceivedPacket::trimmed`]; one DSCP for both means the last hop.
    #[must_use]
    pub fn code(self, dscp: u8) -> u8 {
        match dscp {
            0 => 0,
            _ if dscp == self.last_hop => 2,
            _ if dscp == self.trimmed => 1,
            _ => 0,
        }
    }
}

/// Counters, as the ports `count_…` of the block. `frames` is the sum of all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Frames taken.
    pub frames: u32,
    /// Packets given to the datapath, trimmed ones included.
    pub packets: u32,
    /// Frames given to the host.
    pub slow_path: u32,
    /// Frames dropped, see [`DropReason::Mac`].
    pub drop_mac: u32,
    /// Frames dropped, see [`DropReason::Short`].
    pub drop_short: u32,
    /// Frames dropped, see [`DropReason::IpChecksum`].
    pub drop_ip_checksum: u32,
    /// Frames dropped, see [`DropReason::IpLength`].
    pub drop_ip_length: u32,
    /// Frames dropped, see [`DropReason::UdpLength`].
    pub drop_udp_length: u32,
    /// Frames dropped, see [`DropReason::Version`].
    pub drop_version: u32,
    /// Frames dropped, see [`DropReason::Opcode`].
    pub drop_opcode: u32,
    /// Frames dropped, see [`DropReason::Trimmed`].
    pub drop_trimmed: u32,
    /// Frames dropped, see [`DropReason::Pad`].
    pub drop_pad: u32,
    /// Frames dropped, see [`DropReason::Payload`].
    pub drop_payload: u32,
}

/// Why a frame was dropped. The checks are made in this order but for [`Self::Short`], which is made wherever a header
/// is read; the first that fails is the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum DropReason {
    /// The MAC marked the frame bad.
    #[error("the MAC marked the frame bad")]
    Mac,
    /// The frame, or the UDP datagram in it, ends in a header or in the ICRC.
    #[error("{header} takes {needed} bytes, {found} are there")]
    Short {
        /// Header that is cut off.
        header: &'static str,
        /// Bytes that it takes.
        needed: usize,
        /// Bytes that are there.
        found: usize,
    },
    /// IPv4 header checksum.
    #[error("the words of the IPv4 header sum up to {sum:#06x}: 0xffff is right")]
    IpChecksum {
        /// Ones' complement sum of the header's words, checksum included.
        sum: u16,
    },
    /// The IP length does not hold IP and UDP header, or exceeds the frame.
    #[error("IP packet of {length} bytes: {least} to {most} are possible")]
    IpLength {
        /// Length by the header, the IP header included.
        length: usize,
        /// Shortest possible.
        least: usize,
        /// Bytes that the frame has for it.
        most: usize,
    },
    /// The UDP length is not what the IP length leaves.
    #[error("UDP length {length}: {right} is right by the IP length")]
    UdpLength {
        /// Length in the UDP header.
        length: usize,
        /// Bytes behind the IP header.
        right: usize,
    },
    /// Transport version of the base transport header.
    #[error("transport version {version}: 0 is right")]
    Version {
        /// Version in the header.
        version: u8,
    },
    /// An opcode that no profile of the configuration has.
    #[error("opcode {opcode:#04x} is unknown, or of a profile that this NIC has not")]
    Opcode {
        /// The opcode.
        opcode: u8,
    },
    /// A packet that is trimmed by its DSCP, but has an opcode that takes no PSN: nobody can send it again.
    #[error("opcode {opcode:#04x} takes no PSN and cannot be trimmed")]
    Trimmed {
        /// The opcode.
        opcode: u8,
    },
    /// The pad count exceeds what stands between headers and ICRC, or leaves payload and padding no multiple of 4.
    #[error("pad count {pad_count} with {body} bytes between headers and ICRC")]
    Pad {
        /// Pad count in the base transport header.
        pad_count: u8,
        /// Bytes of payload and padding.
        body: usize,
    },
    /// Payload where the opcode has none, or more than the largest MTU.
    #[error("{length} bytes behind the headers: opcode {opcode:#04x} carries at most {most}")]
    Payload {
        /// The opcode.
        opcode: u8,
        /// Bytes of payload.
        length: usize,
        /// Most that is possible.
        most: usize,
    },
}

impl Counters {
    fn count_drop(&mut self, reason: DropReason) {
        let counter = match reason {
            DropReason::Mac => &mut self.drop_mac,
            DropReason::Short { .. } => &mut self.drop_short,
            DropReason::IpChecksum { .. } => &mut self.drop_ip_checksum,
            DropReason::IpLength { .. } => &mut self.drop_ip_length,
            DropReason::UdpLength { .. } => &mut self.drop_udp_length,
            DropReason::Version { .. } => &mut self.drop_version,
            DropReason::Opcode { .. } => &mut self.drop_opcode,
            DropReason::Trimmed { .. } => &mut self.drop_trimmed,
            DropReason::Pad { .. } => &mut self.drop_pad,
            DropReason::Payload { .. } => &mut self.drop_payload,
        };
        *counter = counter.wrapping_add(1);
    }
}

/// Where a frame goes that is not dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// A packet for the datapath.
    Packet {
        /// `m_axis_descriptor`.
        packet: Box<ReceivedPacket>,
        /// `m_axis_payload`: payload without padding; empty where `payload_length` is 0 (nothing is given then).
        payload: Vec<u8>,
    },
    /// `m_axis_slow_path`: the frame as it came, for the host.
    SlowPath(Vec<u8>),
}

/// The block: it keeps nothing between frames but its counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketParser {
    config: Config,
    counters: Counters,
}

impl PacketParser {
    /// The block after reset.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            counters: Counters::default(),
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes a frame; `trimmed_dscp` is what the ports say at its first beat.
    ///
    /// # Errors
    /// The reason why it was dropped; it is counted.
    pub fn receive(&mut self, frame: &Frame, trimmed_dscp: TrimmedDscp) -> Result<Parsed, DropReason> {
        self.counters.frames = self.counters.frames.wrapping_add(1);
        let parsed = self.parse(frame, trimmed_dscp);
        match &parsed {
            Ok(Parsed::Packet { .. }) => self.counters.packets = self.counters.packets.wrapping_add(1),
            Ok(Parsed::SlowPath(_)) => self.counters.slow_path = self.counters.slow_path.wrapping_add(1),
            Err(reason) => self.counters.count_drop(*reason),
        }
        parsed
    }

    fn parse(&self, frame: &Frame, trimmed_dscp: TrimmedDscp) -> Result<Parsed, DropReason> {
        if frame.bad {
            return Err(DropReason::Mac);
        }
        let bytes = frame.bytes.as_slice();
        let slow_path = || Ok(Parsed::SlowPath(bytes.to_vec()));
        let Some(network) = self.network(bytes)? else {
            return slow_path();
        };
        let udp_at = network.at + network.header_bytes();
        if network.protocol(bytes) != PROTOCOL_UDP {
            return slow_path();
        }
        let udp = slice(bytes, udp_at, UDP_BYTES, "UDP")?;
        if word(udp, 2) != UDP_PORT {
            return slow_path();
        }

        // From here on the frame is the datapath's: what is wrong with it is dropped.
        network.check(bytes)?;
        let mut packet = network.describe(bytes, udp);
        packet.trimmed = trimmed_dscp.code(packet.dscp);
        let most = bytes.len() - network.at;
        let length = network.length(bytes);
        let transport_at = udp_at + UDP_BYTES;
        if packet.trimmed != 0 {
            // Lengths are those before the trim, or not: what is there is the shorter of both.
            let end = network.at + length.clamp(network.header_bytes() + UDP_BYTES, most);
            self.transport(&mut packet, &bytes[transport_at..end])?;
            return Ok(Parsed::Packet {
                packet: Box::new(packet),
                payload: Vec::new(),
            });
        }
        let least = network.header_bytes() + UDP_BYTES;
        if !(least..=most).contains(&length) {
            return Err(DropReason::IpLength { length, least, most });
        }
        let (found, right) = (usize::from(word(udp, 4)), length - network.header_bytes());
        if found != right {
            return Err(DropReason::UdpLength { length: found, right });
        }
        let payload = self.transport(&mut packet, &bytes[transport_at..network.at + length])?;
        Ok(Parsed::Packet {
            packet: Box::new(packet),
            payload: payload.to_vec(),
        })
    }

    /// The IP header of a frame, or `None` where the frame is the host's by what stands up to there.
    fn network(&self, bytes: &[u8]) -> Result<Option<Network>, DropReason> {
        let mut ether_type = word(slice(bytes, 0, ETHERNET_BYTES, "Ethernet")?, ETHERNET_BYTES - 2);
        let mut at = ETHERNET_BYTES;
        let mut tags = 0;
        while tags < MAX_VLAN_TAGS && matches!(ether_type, ETHERTYPE_VLAN | ETHERTYPE_SERVICE_VLAN) {
            ether_type = word(slice(bytes, at, VLAN_BYTES, "VLAN")?, 2);
            at += VLAN_BYTES;
            tags += 1;
        }
        let ipv6 = match ether_type {
            ETHERTYPE_IPV4 if self.config.ipv4 => false,
            ETHERTYPE_IPV6 if self.config.ipv6 => true,
            _ => return Ok(None),
        };
        if tags > 0 && !self.config.vlan {
            return Ok(None);
        }
        let network = Network { at, ipv6, tags };
        let header = slice(bytes, at, network.header_bytes(), if ipv6 { "IPv6" } else { "IPv4" })?;
        let plain = if ipv6 {
            header[0] >> 4 == 6
        } else {
            // Version 4, no options; no fragment, and the reserved flag is 0.
            header[0] == 0x45 && word(header, 6) & !0x4000 == 0
        };
        Ok(plain.then_some(network))
    }

    /// Reads what stands behind the UDP header and gives the payload.
    fn transport<'a>(&self, packet: &mut ReceivedPacket, bytes: &'a [u8]) -> Result<&'a [u8], DropReason> {
        let bth = slice(bytes, 0, BTH_BYTES, "BTH")?;
        let version = bth[1] & 0xF;
        if version != 0 {
            return Err(DropReason::Version { version });
        }
        let opcode = bth[0];
        let info = Opcode(opcode)
            .info()
            .filter(|_| self.config.opcodes[usize::from(opcode)])
            .ok_or(DropReason::Opcode { opcode })?;
        describe_bth(packet, bth);
        let extension_bytes = info.header_bytes(packet.timestamped);
        if packet.trimmed != 0 {
            if !info.operation.is_request() && !info.operation.is_response() {
                return Err(DropReason::Trimmed { opcode });
            }
            if let Ok(extension) = slice(bytes, BTH_BYTES, extension_bytes, "extension headers") {
                describe_extension(packet, extension);
            }
            return Ok(&[]);
        }
        describe_extension(packet, slice(bytes, BTH_BYTES, extension_bytes, "extension headers")?);
        let body_at = BTH_BYTES + extension_bytes;
        let body_end = slice(bytes, body_at, ICRC_BYTES, "ICRC").map(|_| bytes.len() - ICRC_BYTES)?;
        let body = &bytes[body_at..body_end];
        let pad_count = bth[1] >> 4 & 3;
        let pad = DropReason::Pad {
            pad_count,
            body: body.len(),
        };
        let length = body.len().checked_sub(usize::from(pad_count)).ok_or(pad)?;
        let most = if info.has_payload {
            usize::from(self.config.max_payload)
        } else {
            0
        };
        // An opcode without payload has no padding either.
        if length > most || (!info.has_payload && !body.is_empty()) {
            return Err(DropReason::Payload {
                opcode,
                length: body.len(),
                most,
            });
        }
        if !body.len().is_multiple_of(4) {
            return Err(pad);
        }
        packet.payload_length = length as u16;
        Ok(&body[..length])
    }
}

/// The IP header of a frame: where it is, and which one.
#[derive(Debug, Clone, Copy)]
struct Network {
    at: usize,
    ipv6: bool,
    tags: usize,
}

impl Network {
    fn header_bytes(self) -> usize {
        if self.ipv6 { IPV6_BYTES } else { IPV4_BYTES }
    }

    fn header(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.at..self.at + self.header_bytes()]
    }

    fn protocol(self, bytes: &[u8]) -> u8 {
        self.header(bytes)[if self.ipv6 { 6 } else { 9 }]
    }

    /// Length by the header, the header itself included.
    fn length(self, bytes: &[u8]) -> usize {
        let header = self.header(bytes);
        if self.ipv6 {
            IPV6_BYTES + usize::from(word(header, 4))
        } else {
            usize::from(word(header, 2))
        }
    }

    /// IPv4 header checksum: all words sum up to 0xFFFF \[RFC 1071\].
    fn check(self, bytes: &[u8]) -> Result<(), DropReason> {
        if self.ipv6 {
            return Ok(());
        }
        let header = self.header(bytes);
        let sum: u32 = (0..IPV4_BYTES).step_by(2).map(|at| u32::from(word(header, at))).sum();
        // Ten words sum to less than 2^20: the second fold takes the last carry.
        let folded = (sum & 0xFFFF) + (sum >> 16);
        let sum = ((folded & 0xFFFF) + (folded >> 16)) as u16;
        if sum == 0xFFFF {
            Ok(())
        } else {
            Err(DropReason::IpChecksum { sum })
        }
    }

    /// The fields of IP and UDP header.
    fn describe(self, bytes: &[u8], udp: &[u8]) -> ReceivedPacket {
        let header = self.header(bytes);
        let (traffic_class, flow_label, source_ip, destination_ip) = if self.ipv6 {
            let first = u32::from(word(header, 0)) << 16 | u32::from(word(header, 2));
            let address = |at: usize| {
                header[at..at + 16]
                    .iter()
                    .fold(0, |ip: u128, byte| ip << 8 | u128::from(*byte))
            };
            ((first >> 20) as u8, first & 0xF_FFFF, address(8), address(24))
        } else {
            let address = |at: usize| u128::from(word(header, at)) << 16 | u128::from(word(header, at + 2));
            (header[1], 0, address(12), address(16))
        };
        ReceivedPacket {
            ipv6: self.ipv6,
            vlan_tags: self.tags as u8,
            ecn: traffic_class & 3,
            dscp: traffic_class >> 2,
            flow_label,
            source_ip,
            destination_ip,
            udp_source_port: word(udp, 0),
            ..ReceivedPacket::default()
        }
    }
}

/// The fields of the base transport header \[IBA 9.2; MRC 1.0\].
fn describe_bth(packet: &mut ReceivedPacket, bth: &[u8]) {
    let bit = |byte: usize, bit: u8| bth[byte] >> bit & 1 == 1;
    let (solicited, migration) = match Opcode(bth[0]).bit_order() {
        BitOrder::Iba => (7, 6),
        BitOrder::Mrc => (6, 7),
    };
    packet.opcode = bth[0];
    packet.solicited = bit(1, solicited);
    packet.migration = bit(1, migration);
    packet.partition_key = word(bth, 2);
    packet.fecn = bit(4, 7);
    packet.becn = bit(4, 6);
    packet.qpn = u32::from(bth[5]) << 16 | u32::from(word(bth, 6));
    packet.ack_request = bit(8, 7);
    packet.retransmission = bit(8, 5);
    packet.timestamped = bit(8, 4);
    packet.psn = u32::from(bth[9]) << 16 | u32::from(word(bth, 10));
}

fn describe_extension(packet: &mut ReceivedPacket, extension: &[u8]) {
    packet.extension_words = (extension.len() / 4) as u8;
    packet.extension = Extension::default();
    packet.extension.0[..extension.len()].copy_from_slice(extension);
}

/// Big-endian 16 bits.
fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn slice<'a>(bytes: &'a [u8], at: usize, needed: usize, header: &'static str) -> Result<&'a [u8], DropReason> {
    bytes.get(at..at + needed).ok_or(DropReason::Short {
        header,
        needed,
        found: bytes.len().saturating_sub(at),
    })
}

#[cfg(test)]
#[path = "packet_parser_tests.rs"]
mod tests;
