//! How an entropy value (EV) becomes header fields that switches hash or read.
//!
//! The only place of this mapping. Both formats are unverified against MRC 1.0, sections 9.1 and 9.3; they agree with
//! the public tools.

use serde::{Deserialize, Serialize};

use crate::frame::Packet;
use crate::network::Ip;

/// Format of an EV, 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntropyFormat {
    /// Switches hash: UDP source port EV[15:0], IPv6 flow label EV[19:0]. Unverified.
    #[default]
    Ecmp,
    /// Switches read the path: UDP source port EV[31:16], IPv6 flow label [15:0] = EV[15:0]. Unverified.
    Structured,
}

/// The header fields that carry an EV.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PathFields {
    /// UDP source port.
    pub udp_source_port: u16,
    /// IPv6 flow label, 20 bits. With IPv4 only the port carries the EV.
    pub flow_label: u32,
}

/// The header fields for an EV.
#[must_use]
pub const fn path_fields(entropy: u32, format: EntropyFormat) -> PathFields {
    match format {
        EntropyFormat::Ecmp => PathFields {
            udp_source_port: entropy as u16,
            flow_label: entropy & 0xF_FFFF,
        },
        EntropyFormat::Structured => PathFields {
            udp_source_port: (entropy >> 16) as u16,
            flow_label: entropy & 0xFFFF,
        },
    }
}

/// UDP source port of plain RoCEv2: 0xC000 with 14 bits of entropy (IBA annex A17, the dynamic port range).
#[must_use]
pub const fn roce_source_port(entropy: u16) -> u16 {
    0xC000 | entropy & 0x3FFF
}

impl PathFields {
    /// Puts the fields into a packet.
    pub fn apply(self, packet: &mut Packet) {
        packet.udp_source_port = self.udp_source_port;
        if let Ip::V6(ip) = &mut packet.ip {
            ip.flow_label = self.flow_label;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_take_their_bits() {
        let ecmp = path_fields(0xFEDC_BA98, EntropyFormat::Ecmp);
        assert_eq!(
            ecmp,
            PathFields {
                udp_source_port: 0xBA98,
                flow_label: 0xC_BA98
            }
        );
        let structured = path_fields(0xFEDC_BA98, EntropyFormat::Structured);
        assert_eq!(
            structured,
            PathFields {
                udp_source_port: 0xFEDC,
                flow_label: 0xBA98
            }
        );
        assert_eq!(roce_source_port(0xFFFF), 0xFFFF);
        assert_eq!(roce_source_port(0x0123), 0xC123);
    }
}
