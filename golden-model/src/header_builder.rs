//! `header_builder`: puts Ethernet, VLAN, IP, UDP, BTH and extension headers before a packet's payload.
//!
//! It counts the IPv4 identification, pads the payload to 4 bytes and leaves 4 zero bytes for the ICRC. It never
//! computes the ICRC, never chooses a path and never changes an opcode, PSN or extension header but for the time stamp.
//! Theory of operation: `docs/src/blocks/header_builder.md`.

use bitvec::prelude::*;
use std::collections::BTreeSet;

use spraynic_config::descriptor::{EXTENSION_BYTES, HeaderTemplate, PacketDescriptor};
use spraynic_config::{NicConfig, Profile};

use spraynic_wire::{EntropyFormat, PathFields, path_fields};

use crate::frame::Frame;

/// UDP destination port of RoCEv2 \[IBA annex A17.3.1\].
pub const UDP_PORT: u16 = 4791;

pub(crate) const ETHERNET_BYTES: usize = 14;
pub(crate) const VLAN_BYTES: usize = 4;
pub(crate) const IPV4_BYTES: usize = 20;
pub(crate) const IPV6_BYTES: usize = 40;
pub(crate) const UDP_BYTES: usize = 8;
pub(crate) const BTH_BYTES: usize = 12;
pub(crate) const ICRC_BYTES: usize = 4;

/// What was generated: the part of the configuration that this block's behaviour depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Templates in the table: QPN 0 to `queue_pairs - 1`.
    pub queue_pairs: u32,
    /// IPv4 was generated.
    pub ipv4: bool,
    /// IPv6 was generated.
    pub ipv6: bool,
    /// VLAN tags were generated.
    pub vlan: bool,
    /// Bit n: packets without payload can have extension headers of n words of 4 bytes.
    pub extension_words: u16,
    /// Bit n: packets with payload can have extension headers of n words of 4 bytes.
    pub payload_extension_words: u16,
    /// Largest `payload_length`.
    pub max_payload: u16,
    /// Time stamps were generated: solar or mrc is there. Otherwise a descriptor's `stamp` counts as 0.
    pub time_stamps: bool,
}

impl Config {
    /// Everything the block knows, for `queue_pairs` queue pairs.
    #[must_use]
    pub fn full(queue_pairs: u32) -> Self {
        Self {
            queue_pairs,
            ipv4: true,
            ipv6: true,
            vlan: true,
            extension_words: 0x3FF,
            payload_extension_words: 0x3FF,
            max_payload: 4096,
            time_stamps: true,
        }
    }

    /// Whether the headers of this descriptor before its payload, and its payload, are among those generated.
    #[must_use]
    pub fn has_lengths_of(&self, descriptor: &PacketDescriptor) -> bool {
        let words = match descriptor.payload_length {
            0 => self.extension_words,
            _ => self.payload_extension_words,
        };
        words >> descriptor.extension_words & 1 == 1 && descriptor.payload_length <= self.max_payload
    }
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            queue_pairs: config.queue_pairs.count,
            ipv4: config.wire.ipv4,
            ipv6: config.wire.ipv6,
            vlan: config.wire.vlan,
            extension_words: words(config.extension_lengths()),
            payload_extension_words: words(config.payload_extension_lengths()),
            max_payload: config.wire.max_mtu as u16,
            time_stamps: config.has_profile(Profile::Solar) || config.has_profile(Profile::Mrc),
        }
    }
}

/// Lengths in bytes as a mask: bit n for n words of 4 bytes.
fn words(lengths: BTreeSet<u32>) -> u16 {
    lengths.into_iter().fold(0, |mask, bytes| mask | 1 << (bytes / 4))
}

/// Counters, as the ports `count_…` of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Frames given, control and bad ones included.
    pub frames: u32,
    /// Frames given for control descriptors.
    pub control_frames: u32,
    /// Frames that left bad because their payload was not as long as the descriptor says.
    pub payload_mismatch: u32,
    /// Descriptors dropped, with their payload: the queue pair has no template.
    pub drop_template: u32,
    /// Descriptors dropped, with their payload: `extension_words` or `payload_length` is none that was generated.
    pub drop_descriptor: u32,
    /// Template writes refused: QPN beyond the table, or a template that needs what was not generated.
    pub drop_template_write: u32,
}

/// Bits of `time_ns` that stand in a time stamp: [22:7], units of 128 ns.
#[must_use]
pub fn stamp_of(time_ns: u64) -> u16 {
    (time_ns >> 7) as u16
}

/// Where a time stamp stands in the extension headers, as the descriptor's `stamp` field says.
#[must_use]
pub fn stamp_offset(descriptor: &PacketDescriptor) -> Option<usize> {
    match descriptor.stamp {
        1 => Some(4),
        2 => Some(12),
        _ => None,
    }
}

/// Offset in a frame at which the extension headers begin.
pub(crate) fn extension_offset(template: &HeaderTemplate) -> usize {
    let tag = if template.vlan { VLAN_BYTES } else { 0 };
    let ip = if template.ipv6 { IPV6_BYTES } else { IPV4_BYTES };
    ETHERNET_BYTES + tag + ip + UDP_BYTES + BTH_BYTES
}

/// The block: a table of templates, the identification counter and counters.
#[derive(Debug, Clone)]
pub struct HeaderBuilder {
    config: Config,
    templates: Vec<HeaderTemplate>,
    written: BitVec,
    identification: u16,
    counters: Counters,
}

impl HeaderBuilder {
    /// The block after reset: no queue pair has a template, identification and all counters are 0.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let queue_pairs = config.queue_pairs as usize;
        Self {
            config,
            templates: vec![HeaderTemplate::default(); queue_pairs],
            written: bitvec![0; queue_pairs],
            identification: 0,
            counters: Counters::default(),
        }
    }

    /// Writes a queue pair's template; it holds for every descriptor taken from then on. A QPN beyond the table is
    /// counted and changes nothing. A template that needs IPv4, IPv6 or VLAN where that was not generated is counted
    /// and leaves the queue pair without a template.
    pub fn write_template(&mut self, template: &HeaderTemplate) {
        let Config { ipv4, ipv6, vlan, .. } = self.config;
        let generated = (if template.ipv6 { ipv6 } else { ipv4 }) && (vlan || !template.vlan);
        let index = template.qpn as usize;
        if let Some(slot) = self.templates.get_mut(index) {
            *slot = *template;
            self.written.set(index, generated);
        }
        if index >= self.templates.len() || !generated {
            self.counters.drop_template_write = self.counters.drop_template_write.wrapping_add(1);
        }
    }

    /// Sets the identification of the next IPv4 frame: the ports `identification_load` and `identification`.
    pub fn load_identification(&mut self, identification: u16) {
        self.identification = identification;
    }

    /// The identification that the next IPv4 frame takes.
    #[must_use]
    pub fn identification(&self) -> u16 {
        self.identification
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The template that a descriptor of this queue pair would get.
    #[must_use]
    pub fn template(&self, qpn: u32) -> Option<&HeaderTemplate> {
        let index = qpn as usize;
        let written = self.written.get(index).is_some_and(|bit| *bit);
        written.then(|| &self.templates[index])
    }

    /// Builds the frame of a descriptor of `s_axis_descriptor`. `payload` is the payload packet that belongs to it,
    /// empty where `payload_length` is 0 (no packet is taken then); `time_ns` is the time at which the header is built.
    ///
    /// `None`: the queue pair has no template, or a length was not generated; descriptor and payload are dropped and
    /// counted.
    pub fn build(&mut self, descriptor: &PacketDescriptor, payload: &[u8], time_ns: u64) -> Option<Frame> {
        let payload = if descriptor.payload_length == 0 { &[] } else { payload };
        let frame = self.frame(descriptor, payload, time_ns)?;
        if frame.bad {
            self.counters.payload_mismatch = self.counters.payload_mismatch.wrapping_add(1);
        }
        Some(frame)
    }

    /// Builds the frame of a descriptor of `s_axis_control`, which has no payload: its `payload_length` counts as 0.
    pub fn build_control(&mut self, descriptor: &PacketDescriptor, time_ns: u64) -> Option<Frame> {
        let descriptor = PacketDescriptor {
            payload_length: 0,
            ..*descriptor
        };
        let frame = self.frame(&descriptor, &[], time_ns)?;
        self.counters.control_frames = self.counters.control_frames.wrapping_add(1);
        Some(frame)
    }

    fn frame(&mut self, descriptor: &PacketDescriptor, payload: &[u8], time_ns: u64) -> Option<Frame> {
        let Some(frame) = self.render(descriptor, payload, self.identification, time_ns) else {
            let dropped = match self.template(descriptor.qpn) {
                None => &mut self.counters.drop_template,
                Some(_) => &mut self.counters.drop_descriptor,
            };
            *dropped = dropped.wrapping_add(1);
            return None;
        };
        self.counters.frames = self.counters.frames.wrapping_add(1);
        if !frame.ipv6 {
            self.identification = self.identification.wrapping_add(1);
        }
        Some(frame)
    }

    /// Whether a frame is built for this descriptor, and not nothing.
    #[must_use]
    pub fn builds(&self, descriptor: &PacketDescriptor) -> bool {
        self.template(descriptor.qpn).is_some() && self.config.has_lengths_of(descriptor)
    }

    /// The frame of a descriptor, were it built now with this identification; nothing is counted.
    pub(crate) fn render(
        &self,
        descriptor: &PacketDescriptor,
        payload: &[u8],
        identification: u16,
        time_ns: u64,
    ) -> Option<Frame> {
        let template = self.template(descriptor.qpn)?;
        if !self.config.has_lengths_of(descriptor) {
            return None;
        }
        let length = usize::from(descriptor.payload_length);
        let pad = length.wrapping_neg() % 4;
        let extension = self.extension(descriptor, time_ns);
        // Bytes beyond the stated length are not sent, stamp or not.
        let extension = &extension[..usize::from(descriptor.extension_words) * 4];
        let datagram = UDP_BYTES + BTH_BYTES + extension.len() + length + pad + ICRC_BYTES;

        let mut bytes = Vec::with_capacity(ETHERNET_BYTES + VLAN_BYTES + IPV6_BYTES + datagram);
        ethernet(&mut bytes, template);
        if template.ipv6 {
            bytes.extend_from_slice(&ipv6(template, descriptor, datagram));
        } else {
            bytes.extend_from_slice(&ipv4(template, identification, IPV4_BYTES + datagram));
        }
        bytes.extend_from_slice(&udp(descriptor, datagram));
        bytes.extend_from_slice(&bth(template, descriptor, pad as u8));
        bytes.extend_from_slice(extension);
        let taken = payload.len().min(length);
        bytes.extend_from_slice(&payload[..taken]);
        bytes.resize(bytes.len() + length - taken + pad + ICRC_BYTES, 0);
        Some(Frame {
            bytes,
            bad: payload.len() != length,
            ipv6: template.ipv6,
            vlan: template.vlan,
        })
    }

    /// Extension headers with the time stamp put in.
    fn extension(&self, descriptor: &PacketDescriptor, time_ns: u64) -> [u8; EXTENSION_BYTES] {
        let mut extension = descriptor.extension.0;
        if let Some(offset) = stamp_offset(descriptor).filter(|_| self.config.time_stamps) {
            extension[offset..offset + 2].copy_from_slice(&stamp_of(time_ns).to_be_bytes());
        }
        extension
    }
}

/// The header fields that the entropy value of a descriptor gives.
fn path(descriptor: &PacketDescriptor) -> PathFields {
    path_fields(descriptor.entropy, EntropyFormat::Ecmp)
}

fn ethernet(bytes: &mut Vec<u8>, template: &HeaderTemplate) {
    let mut header = [0; ETHERNET_BYTES];
    header[..6].copy_from_slice(&template.destination_mac.to_be_bytes()[2..]);
    header[6..12].copy_from_slice(&template.source_mac.to_be_bytes()[2..]);
    header[12..].copy_from_slice(if template.ipv6 { &[0x86, 0xDD] } else { &[0x08, 0x00] });
    if template.vlan {
        let [high, low] = template.vlan_tci.to_be_bytes();
        bytes.extend_from_slice(&header[..12]);
        bytes.extend_from_slice(&[0x81, 0x00, high, low]); // IEEE 802.1Q
        bytes.extend_from_slice(&header[12..]);
    } else {
        bytes.extend_from_slice(&header);
    }
}

/// IPv4 header without options: DF set, no fragment \[RFC 791; IBA annex A17\].
fn ipv4(template: &HeaderTemplate, identification: u16, total_length: usize) -> [u8; IPV4_BYTES] {
    let mut header = [0; IPV4_BYTES];
    header[0] = 0x45;
    header[1] = template.traffic_class;
    header[2..4].copy_from_slice(&(total_length as u16).to_be_bytes());
    header[4..6].copy_from_slice(&identification.to_be_bytes());
    header[6] = 0x40;
    header[8] = template.hop_limit;
    header[9] = 17; // UDP
    header[12..16].copy_from_slice(&(template.source_ip as u32).to_be_bytes());
    header[16..20].copy_from_slice(&(template.destination_ip as u32).to_be_bytes());
    let checksum = ipv4_checksum(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header
}

/// Internet checksum of an IPv4 header whose checksum field is 0 \[RFC 1071\].
fn ipv4_checksum(header: &[u8; IPV4_BYTES]) -> u16 {
    let sum: u32 = header
        .chunks_exact(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    // The ten words sum to less than 2^20: the second fold takes the last carry.
    let folded = (sum & 0xFFFF) + (sum >> 16);
    !((folded & 0xFFFF) + (folded >> 16)) as u16
}

/// IPv6 header \[RFC 8200\].
fn ipv6(template: &HeaderTemplate, descriptor: &PacketDescriptor, payload_length: usize) -> [u8; IPV6_BYTES] {
    let flow_label = if template.spray {
        path(descriptor).flow_label
    } else {
        template.flow_label & 0xF_FFFF
    };
    let word = 6 << 28 | u32::from(template.traffic_class) << 20 | flow_label;
    let mut header = [0; IPV6_BYTES];
    header[..4].copy_from_slice(&word.to_be_bytes());
    header[4..6].copy_from_slice(&(payload_length as u16).to_be_bytes());
    header[6] = 17; // UDP
    header[7] = template.hop_limit;
    header[8..24].copy_from_slice(&template.source_ip.to_be_bytes());
    header[24..].copy_from_slice(&template.destination_ip.to_be_bytes());
    header
}

/// UDP header \[RFC 768\], without checksum.
fn udp(descriptor: &PacketDescriptor, length: usize) -> [u8; UDP_BYTES] {
    let mut header = [0; UDP_BYTES];
    header[..2].copy_from_slice(&path(descriptor).udp_source_port.to_be_bytes());
    header[2..4].copy_from_slice(&UDP_PORT.to_be_bytes());
    header[4..6].copy_from_slice(&(length as u16).to_be_bytes());
    header
}

/// BTH \[IBA 9.2\]; MRC swaps SE and M of byte 1 and uses two reserved bits of byte 8 \[MRC 1.0\].
fn bth(template: &HeaderTemplate, descriptor: &PacketDescriptor, pad: u8) -> [u8; BTH_BYTES] {
    let (solicited, migration) = if descriptor.mrc { (6, 7) } else { (7, 6) };
    let flag = |set: bool, bit: u8| u8::from(set) << bit;
    // Byte 4 and byte 8 are the upper bytes of the words that hold QPN and PSN.
    let mut header = [0; BTH_BYTES];
    header[0] = descriptor.opcode;
    header[1] = flag(descriptor.solicited, solicited) | flag(template.migration, migration) | pad << 4;
    header[2..4].copy_from_slice(&template.partition_key.to_be_bytes());
    header[4..8].copy_from_slice(&template.destination_qpn.to_be_bytes());
    header[4] = flag(descriptor.becn, 6);
    header[8..].copy_from_slice(&descriptor.psn.to_be_bytes());
    header[8] = flag(descriptor.ack_request, 7) | flag(descriptor.retransmission, 5) | flag(descriptor.timestamped, 4);
    header
}

#[cfg(test)]
#[path = "header_builder_tests.rs"]
mod tests;
