//! Names the fields of a frame, so that a report can say which one is wrong. Judges nothing.

use serde::{Deserialize, Serialize};
use spraynic_config::descriptor::{
    Completion, Descriptor, Field, HeaderTemplate, PacketDescriptor, PayloadRequest, SliceContext, WorkRequest,
};
use spraynic_wire::{Header, Ip, Packet, icrc};

use crate::stream::hex;

/// What the bytes of a stream are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Format {
    /// Bytes without fields.
    #[default]
    Bytes,
    /// RoCEv2 packets in Ethernet frames without FCS.
    Packet,
    /// A descriptor of `spraynic_config::descriptor`, by its name.
    Descriptor(String),
}

impl Format {
    /// The format of a descriptor.
    #[must_use]
    pub fn descriptor<D: Descriptor>() -> Self {
        Self::Descriptor(D::NAME.to_owned())
    }

    /// The fields of a frame: name and value, in their order. What cannot be read is given as bytes.
    pub(crate) fn fields(&self, data: &[u8]) -> Vec<(String, String)> {
        match self {
            Self::Bytes => dump("bytes", data),
            Self::Packet => packet_fields(data),
            Self::Descriptor(name) => match layout(name) {
                Some(fields) => descriptor_fields(fields, data),
                None => dump("bytes", data),
            },
        }
    }
}

fn layout(name: &str) -> Option<&'static [Field]> {
    fn entry<D: Descriptor>() -> (&'static str, &'static [Field]) {
        (D::NAME, D::FIELDS)
    }
    let known = [
        entry::<WorkRequest>(),
        entry::<Completion>(),
        entry::<SliceContext>(),
        entry::<PacketDescriptor>(),
        entry::<HeaderTemplate>(),
        entry::<PayloadRequest>(),
    ];
    known
        .into_iter()
        .find(|(known, _)| *known == name)
        .map(|(_, fields)| fields)
}

/// Rows of 16 bytes, each named by its offset.
fn dump(name: &str, data: &[u8]) -> Vec<(String, String)> {
    let rows = data.chunks(16).enumerate();
    rows.map(|(row, bytes)| (format!("{name}[{:#06x}]", row * 16), hex::encode(bytes)))
        .collect()
}

fn descriptor_fields(fields: &[Field], data: &[u8]) -> Vec<(String, String)> {
    let bit = |index: usize| data.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1);
    let mut low = 0;
    let mut rows = Vec::new();
    for field in fields {
        let width = field.width as usize;
        let value = if width > 128 {
            // An array of bytes: as they stand, byte 0 first.
            let byte = |index: usize| (0..8).fold(0, |byte, at| byte | u8::from(bit(low + index * 8 + at)) << at);
            hex::encode(&(0..width.div_ceil(8)).map(byte).collect::<Vec<u8>>())
        } else {
            let number = (0..width).fold(0u128, |number, at| number | u128::from(bit(low + at)) << at);
            format!("{number:#x}")
        };
        rows.push((field.name.to_owned(), value));
        low += width;
    }
    rows
}

fn packet_fields(data: &[u8]) -> Vec<(String, String)> {
    let mut rows = vec![("length".to_owned(), format!("{} bytes", data.len()))];
    let packet = match Packet::parse(data, None) {
        Ok(packet) => packet,
        Err(error) => {
            rows.push(("not a packet".to_owned(), error.to_string()));
            rows.extend(dump("bytes", data));
            return rows;
        }
    };
    let mut row = |name: String, value: String| rows.push((name, value));
    row("Ethernet destination".into(), packet.ethernet.destination.to_string());
    row("Ethernet source".into(), packet.ethernet.source.to_string());
    for (index, tag) in packet.ethernet.vlans.iter().enumerate() {
        row(format!("VLAN {index} tpid"), format!("{:#06x}", tag.tpid));
        row(format!("VLAN {index} tci"), format!("{:#06x}", tag.tci));
    }
    match &packet.ip {
        Ip::V4(ip) => {
            row("IPv4 tos".into(), format!("{:#04x}", ip.tos));
            row("IPv4 identification".into(), format!("{:#06x}", ip.identification));
            row("IPv4 dont_fragment".into(), ip.dont_fragment.to_string());
            row("IPv4 ttl".into(), ip.ttl.to_string());
            row(
                "IPv4 checksum".into(),
                ip.checksum.map_or("right".into(), |sum| format!("{sum:#06x}")),
            );
            row("IPv4 source".into(), ip.source.to_string());
            row("IPv4 destination".into(), ip.destination.to_string());
        }
        Ip::V6(ip) => {
            row("IPv6 traffic_class".into(), format!("{:#04x}", ip.traffic_class));
            row("IPv6 flow_label".into(), format!("{:#07x}", ip.flow_label));
            row("IPv6 hop_limit".into(), ip.hop_limit.to_string());
            row("IPv6 source".into(), ip.source.to_string());
            row("IPv6 destination".into(), ip.destination.to_string());
        }
    }
    row("UDP source port".into(), packet.udp_source_port.to_string());
    row("UDP checksum".into(), format!("{:#06x}", packet.udp_checksum));
    for (field, value) in spraynic_wire::Bth::FIELDS.iter().zip(packet.bth.values()) {
        row(format!("BTH {}", field.name), format!("{value:#x}"));
    }
    row("BTH bit order".into(), format!("{:?}", packet.bit_order));
    for extension in &packet.extensions {
        for (field, value) in extension.kind().fields().iter().zip(extension.values()) {
            row(
                format!("{} {}", extension.kind().name(), field.name),
                format!("{value:#x}"),
            );
        }
    }
    row("payload length".into(), format!("{} bytes", packet.payload.len()));
    rows.extend(dump("payload", &packet.payload));
    rows.push((
        "pad".into(),
        hex::encode(&packet.pad[..usize::from(packet.bth.pad_count & 3)]),
    ));
    let verdict = match icrc::verify(data) {
        Ok(verdict) if verdict.is_valid() => format!("{:#010x} (valid)", verdict.found),
        Ok(verdict) => format!("{:#010x} (should be {:#010x})", verdict.found, verdict.right),
        Err(error) => error.to_string(),
    };
    rows.push(("ICRC".into(), verdict));
    rows.extend(dump("trailer", &packet.trailer));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use spraynic_config::descriptor::Extension;

    #[test]
    fn descriptors_are_read_as_their_table_says() {
        let packed = PacketDescriptor {
            qpn: 0x12_3456,
            psn: 0xabcd,
            ack_request: true,
            local_address: 0x1122_3344_5566_7788,
            extension: Extension([7; 36]),
            ..PacketDescriptor::default()
        }
        .pack();
        let fields = Format::descriptor::<PacketDescriptor>().fields(&packed);
        let value = |name: &str| {
            fields
                .iter()
                .find(|(field, _)| field == name)
                .map(|(_, value)| value.as_str())
        };
        assert_eq!(value("qpn"), Some("0x123456"));
        assert_eq!(value("psn"), Some("0xabcd"));
        assert_eq!(value("ack_request"), Some("0x1"));
        assert_eq!(value("becn"), Some("0x0"));
        assert_eq!(value("local_address"), Some("0x1122334455667788"));
        assert_eq!(value("extension"), Some("07".repeat(36).as_str()));
        assert_eq!(fields.len(), PacketDescriptor::FIELDS.len());
    }

    #[test]
    fn all_formats_take_any_bytes() {
        for length in 0..150 {
            let data = vec![0x45; length];
            for format in [Format::Bytes, Format::Packet, Format::descriptor::<WorkRequest>()] {
                format.fields(&data);
            }
        }
        assert_eq!(
            Format::Descriptor("Unknown".into()).fields(&[1, 2]),
            [("bytes[0x0000]".into(), "0102".into())]
        );
    }
}
