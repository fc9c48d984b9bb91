//! A slice of a message as packets: what `packet_slicer` gives for what `work_queue` gives. All numbers come with the slice; nothing is kept.

use spraynic_config::Profile;
use spraynic_config::descriptor::{PacketDescriptor, PacketOrigin, SliceContext, WorkOpcode, WorkRequest, WorkSlice};

use super::{Packets, mtu_bytes};

/// PSNs are numbers of 24 bits.
const PSN_MASK: u32 = 0xFF_FFFF;

/// Cuts a slice. `work_queue` has checked its request; of one that it would not have given there are no packets.
///
/// A READ that is sent again from its packet `index` on asks for what is missing: address and length begin there. A packet of solar that is
/// sent again asks for an acknowledgement, as the rtx bit of mrc does.
#[must_use]
pub fn slice(request: &WorkRequest, slice: &WorkSlice) -> Slice {
    Slice {
        packets: message(request, slice),
        slice: *slice,
        given: 0,
    }
}

fn message(request: &WorkRequest, slice: &WorkSlice) -> Option<Packets> {
    let profile = Profile::from_code(slice.profile)?;
    let operation = WorkOpcode::from_code(request.opcode)?;
    let mtu = mtu_bytes(slice.mtu)?;
    let mut request = *request;
    let mut index = slice.index;
    if operation == WorkOpcode::Read {
        let offset = index.checked_mul(mtu).filter(|offset| *offset <= request.length)?;
        request.length -= offset;
        request.remote_address = request.remote_address.wrapping_add(u64::from(offset));
        request.local_address = request.local_address.wrapping_add(u64::from(offset));
        index = 0;
    }
    let context = SliceContext {
        qpn: request.qpn,
        open: true,
        profile: slice.profile,
        mtu: slice.mtu,
        timestamps: slice.timestamps,
        entropy: slice.entropy,
        psn: slice.psn.wrapping_sub(index) & PSN_MASK,
        msn: slice.msn,
        rqmsn: slice.rqmsn,
        ..SliceContext::default()
    };
    let mut packets = Packets::new(context, profile, operation, request, mtu);
    packets.next = index.min(packets.count);
    Some(packets)
}

/// The packets of a slice, each with its origin.
#[derive(Debug, Clone)]
pub struct Slice {
    packets: Option<Packets>,
    slice: WorkSlice,
    given: u8,
}

impl Iterator for Slice {
    type Item = (PacketDescriptor, PacketOrigin);

    fn next(&mut self) -> Option<Self::Item> {
        let packets = self.packets.as_mut().filter(|_| self.given < self.slice.packets)?;
        let mut packet = packets.next()?;
        self.given += 1;
        let again = self.slice.retransmission;
        packet.retransmission = again && packets.profile == Profile::Mrc;
        packet.ack_request |= again && packets.profile == Profile::Solar;
        packet.ack_request |= self.slice.ask && self.given == self.slice.packets;
        let origin = PacketOrigin {
            slot: self.slice.slot,
            psns: if packets.has_payload() { 1 } else { packets.psns() },
            class: self.slice.class,
            profile: self.slice.profile,
            space: false,
            last: packets.next == packets.count,
            retransmission: again,
            tracked: true,
        };
        Some((packet, origin))
    }
}

#[cfg(test)]
#[path = "slice_tests.rs"]
mod tests;
