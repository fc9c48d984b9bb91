//! The invariant CRC of RoCEv2: over what no switch or router may change (IBA annex A17, section 17.9.3).
//!
//! CRC-32 of Ethernet over eight bytes of 0xFF, then IP, UDP, BTH and all that follows up to the ICRC itself, with the
//! fields that may change on the way set to ones: IPv4 TOS, TTL, header checksum; IPv6 traffic class, flow label, hop
//! limit; UDP checksum; BTH byte 4. Sent least significant byte first.

use thiserror::Error;

use crate::network::{
    ETHERNET_LENGTH, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_SERVICE_VLAN, ETHERTYPE_VLAN, IPV4_LENGTH, IPV6_LENGTH,
    MAX_VLAN_TAGS, PROTOCOL_UDP, UDP_LENGTH, VLAN_LENGTH,
};

/// Length of the ICRC in bytes.
pub const LENGTH: usize = 4;
/// State of the CRC register (reflected, not complemented) after the eight bytes of 0xFF.
pub const STATE_AFTER_PREFIX: u32 = 0xDEBB_20E3;

/// Length of the BTH in bytes.
pub const BTH_LENGTH: usize = 12;
/// The BTH byte with FECN and BECN.
const BTH_CONGESTION_BYTE: usize = 4;

/// Why a frame has no ICRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum IcrcError {
    /// The frame ends too early.
    #[error("frame has {found} bytes, up to the ICRC it takes at least {needed}")]
    TooShort {
        /// Bytes that are needed at least.
        needed: usize,
        /// Bytes that are there.
        found: usize,
    },
    /// Neither IPv4 nor IPv6 behind at most two VLAN tags.
    #[error("EtherType 0x{0:04x} is not IPv4 (0x0800) or IPv6 (0x86dd)")]
    NotIp(u16),
    /// The version in the IP header is not the one of the EtherType.
    #[error("IP version {0}, should be 4 or 6 as the EtherType says")]
    Version(u8),
    /// IPv4 options: RoCEv2 has none.
    #[error("IPv4 header of {0} words, should be 5: RoCEv2 has no options")]
    Ipv4Options(u8),
    /// Not UDP.
    #[error("IP protocol {0}, should be 17 (UDP)")]
    NotUdp(u8),
    /// The IP length does not hold the headers or exceeds the frame.
    #[error("IP packet of {length} bytes, should be {least} to {most}")]
    IpLength {
        /// Length by the IP header, IP header included.
        length: usize,
        /// Shortest possible.
        least: usize,
        /// Bytes that the frame has for it.
        most: usize,
    },
}

/// Verdict on a frame's ICRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// What the frame carries.
    pub found: u32,
    /// What it should carry.
    pub right: u32,
}

impl Verdict {
    /// Whether the ICRC is right.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.found == self.right
    }
}

/// Bytes of a packet that are copied, to read some of them as ones: more than the headers.
const MASKED: usize = 128;

/// The ICRC of an IP packet: `packet` runs from the first byte of the IP header to the last byte before the ICRC.
///
/// # Errors
/// [`IcrcError`] when IP, UDP and BTH are not there.
pub fn of_ip_packet(packet: &[u8]) -> Result<u32, IcrcError> {
    let version = packet.first().map_or(0, |byte| byte >> 4);
    let ip_length = match version {
        4 => IPV4_LENGTH,
        6 => IPV6_LENGTH,
        other => return Err(IcrcError::Version(other)),
    };
    let headers = ip_length + UDP_LENGTH + BTH_LENGTH;
    if packet.len() < headers {
        return Err(IcrcError::TooShort {
            needed: headers,
            found: packet.len(),
        });
    }
    // A short packet is copied whole, so that there is one stretch of bytes to go through.
    let mut masked = [0; MASKED];
    let copied = packet.len().min(MASKED);
    masked[..copied].copy_from_slice(&packet[..copied]);
    if version == 4 {
        let words = masked[0] & 0xF;
        if words != 5 {
            return Err(IcrcError::Ipv4Options(words));
        }
        masked[1] = 0xFF; // TOS
        masked[8] = 0xFF; // TTL
        masked[10..12].fill(0xFF); // header checksum
    } else {
        masked[0] |= 0x0F; // traffic class and flow label
        masked[1..4].fill(0xFF);
        masked[7] = 0xFF; // hop limit
    }
    masked[ip_length + 6..ip_length + UDP_LENGTH].fill(0xFF); // UDP checksum
    masked[ip_length + UDP_LENGTH + BTH_CONGESTION_BYTE] = 0xFF;
    // The hasher's start value is a finished CRC: the complement of the register.
    let mut crc = crc32fast::Hasher::new_with_initial(!STATE_AFTER_PREFIX);
    crc.update(&masked[..copied]);
    if copied < packet.len() {
        crc.update(&packet[copied..]);
    }
    Ok(crc.finalize())
}

/// Where the IP packet of an Ethernet frame begins and where its ICRC begins, by the IP length: padding of a short
/// frame and an FCS behind it do not count.
fn locate(frame: &[u8]) -> Result<(usize, usize), IcrcError> {
    let word = |at: usize| {
        let bytes = frame.get(at..at + 2).ok_or(IcrcError::TooShort {
            needed: at + 2,
            found: frame.len(),
        })?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    };
    let mut ip = ETHERNET_LENGTH;
    let mut ether_type = word(ip - 2)?;
    for _ in 0..MAX_VLAN_TAGS {
        if ether_type == ETHERTYPE_VLAN || ether_type == ETHERTYPE_SERVICE_VLAN {
            ip += VLAN_LENGTH;
            ether_type = word(ip - 2)?;
        }
    }
    let (header, version) = match ether_type {
        ETHERTYPE_IPV4 => (IPV4_LENGTH, 4),
        ETHERTYPE_IPV6 => (IPV6_LENGTH, 6),
        other => return Err(IcrcError::NotIp(other)),
    };
    let least = header + UDP_LENGTH + BTH_LENGTH + LENGTH;
    if frame.len() < ip + least {
        return Err(IcrcError::TooShort {
            needed: ip + least,
            found: frame.len(),
        });
    }
    if frame[ip] >> 4 != version {
        return Err(IcrcError::Version(frame[ip] >> 4));
    }
    let (length, protocol) = match version {
        4 => (usize::from(word(ip + 2)?), frame[ip + 9]),
        _ => (IPV6_LENGTH + usize::from(word(ip + 4)?), frame[ip + 6]),
    };
    if protocol != PROTOCOL_UDP {
        return Err(IcrcError::NotUdp(protocol));
    }
    let most = frame.len() - ip;
    if !(least..=most).contains(&length) {
        return Err(IcrcError::IpLength { length, least, most });
    }
    Ok((ip, ip + length - LENGTH))
}

/// The ICRC that an Ethernet frame should carry in the last 4 bytes of its IP packet. The frame is without FCS.
///
/// # Errors
/// [`IcrcError`] when the frame is no UDP packet with a BTH.
pub fn compute(frame: &[u8]) -> Result<u32, IcrcError> {
    let (ip, end) = locate(frame)?;
    of_ip_packet(&frame[ip..end])
}

/// Compares the ICRC of an Ethernet frame with what it should be.
///
/// # Errors
/// [`IcrcError`] when the frame is no UDP packet with a BTH.
pub fn verify(frame: &[u8]) -> Result<Verdict, IcrcError> {
    let (ip, end) = locate(frame)?;
    let right = of_ip_packet(&frame[ip..end])?;
    let mut found = [0; LENGTH];
    found.copy_from_slice(&frame[end..end + LENGTH]);
    Ok(Verdict {
        found: u32::from_le_bytes(found),
        right,
    })
}

/// Puts the right ICRC into an Ethernet frame and gives it.
///
/// # Errors
/// [`IcrcError`] when the frame is no UDP packet with a BTH; it is unchanged then.
pub fn insert(frame: &mut [u8]) -> Result<u32, IcrcError> {
    let (ip, end) = locate(frame)?;
    let icrc = of_ip_packet(&frame[ip..end])?;
    frame[end..end + LENGTH].copy_from_slice(&icrc.to_le_bytes());
    Ok(icrc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_of_ones_leads_to_the_documented_state() {
        assert_eq!(!crc32fast::hash(&[0xFF; 8]), STATE_AFTER_PREFIX);
    }
}
