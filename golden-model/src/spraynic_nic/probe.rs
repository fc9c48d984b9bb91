//! Probes of bad paths: a probe packet (MRC 1.0, PETH) by the path's entropy value, whose answer (a SACK with `pr`) names it.

use spraynic_config::descriptor::{Extension, PacketDescriptor, PathEvent, PathEventKind, ReceivedPacket};
use spraynic_wire::mrc::FTYPE_TIMESTAMP;
use spraynic_wire::{Header, Opcode, Peth, Seth};

use super::SpraynicNic;

/// Probe ids with this bit ask for a path, the low 8 bits being its place; those without are `retransmit_engine`'s.
const PATH_PROBE: u16 = 0x4000;

impl SpraynicNic {
    /// Probes of the paths for which it is time.
    pub(super) fn probe_paths(&mut self, now_ns: u64) {
        while let Some(path) = self.monitor.probe(now_ns) {
            let peth = Peth {
                probe_id: PATH_PROBE | u16::from(path.path),
                ftype: FTYPE_TIMESTAMP,
                ..Peth::default()
            };
            let mut extension = Extension::default();
            peth.emit(&mut extension.0[..Peth::LENGTH]);
            self.control.push_back(PacketDescriptor {
                qpn: path.qpn,
                opcode: Opcode::PROBE.0,
                mrc: true,
                stamp: 2,
                extension_words: (Peth::LENGTH / 4) as u8,
                entropy: path.entropy,
                port: path.port,
                extension,
                ..PacketDescriptor::default()
            });
        }
    }

    /// The event that a SACK makes which answers a probe of a path.
    pub(super) fn answered_probe(&self, packet: &ReceivedPacket) -> Option<PathEvent> {
        if Opcode(packet.opcode) != Opcode::SACK {
            return None;
        }
        let seth = Seth::parse(&packet.extension.0[..Seth::LENGTH]).ok()?;
        let id = seth.ack_psn_offset as u16;
        (seth.probe_response && id & PATH_PROBE != 0).then(|| PathEvent {
            set: self.spray.path_set(packet.qpn).unwrap_or_default(),
            kind: PathEventKind::ProbeAnswered as u8,
            path: id as u8,
            qpn: packet.qpn,
        })
    }
}
