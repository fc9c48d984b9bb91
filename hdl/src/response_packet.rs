//! `ResponsePacket`: the descriptor of a packet that answers a request: READ responses, atomic ACKs, ACKs and NAKs.

use crate::extension::{Aeth, AtomicAckEth, extension};
use crate::fields::Fields;
use spraynic_config::descriptor::PacketDescriptor;
use spraynic_rtl::{Module, Signal};
use spraynic_wire::Opcode;

/// What the packet is made from.
pub(crate) struct ResponsePacket<'a> {
    pub(crate) qpn: Signal<'a>,
    /// A READ response; an atomic ACK; neither: an acknowledgement.
    pub(crate) read: Signal<'a>,
    pub(crate) atomic: Signal<'a>,
    /// First and last of its response.
    pub(crate) first: Signal<'a>,
    pub(crate) last: Signal<'a>,
    /// Bytes of the MTU, 13 bits.
    pub(crate) mtu: Signal<'a>,
    pub(crate) entropy: Signal<'a>,
    pub(crate) psn: Signal<'a>,
    pub(crate) msn: Signal<'a>,
    pub(crate) syndrome: Signal<'a>,
    /// Where its payload lies.
    pub(crate) address: Signal<'a>,
    /// Bytes of the READ from this packet on.
    pub(crate) remaining: Signal<'a>,
    /// What stood in memory before the atomic.
    pub(crate) original: Signal<'a>,
    pub(crate) ack_request: Signal<'a>,
}

impl<'a> ResponsePacket<'a> {
    /// The packed `PacketDescriptor`.
    pub(crate) fn pack(&self, m: Module<'a>) -> Signal<'a> {
        let (first, last) = (self.first, self.last);
        let lit = |opcode: Opcode| m.lit(opcode.0, 8);
        let at_first = last.mux(lit(Opcode::READ_RESPONSE_ONLY), lit(Opcode::READ_RESPONSE_FIRST));
        let at_later = last.mux(lit(Opcode::READ_RESPONSE_LAST), lit(Opcode::READ_RESPONSE_MIDDLE));
        let single = self
            .atomic
            .mux(lit(Opcode::ATOMIC_ACKNOWLEDGE), lit(Opcode::ACKNOWLEDGE));
        let has_aeth = (first | last).named("has_aeth");
        let aeth = Aeth {
            syndrome: self.syndrome,
            msn: self.msn,
        };
        let original = AtomicAckEth {
            original: self.original,
        };
        let headers = extension(&[aeth.emit().gate(has_aeth), original.emit().gate(self.atomic)]);
        let words = self.atomic.mux(
            m.lit((Aeth::LENGTH + AtomicAckEth::LENGTH) / 4, 4),
            has_aeth.zero_extend(4),
        );
        let length = last.mux(self.remaining.part(0, 13), self.mtu).gate(self.read);
        Fields::build::<PacketDescriptor>(|name, width| match name {
            "qpn" => self.qpn,
            "opcode" => self.read.mux(first.mux(at_first, at_later), single),
            "psn" => self.psn,
            "ack_request" => self.ack_request,
            "extension_words" => words,
            "entropy" => self.entropy.zero_extend(width),
            "payload_length" => length,
            "local_address" => self.address.gate(self.read),
            "extension" => headers,
            _ => m.lit(0, width),
        })
        .pack()
    }
}

/// Bytes of an MTU code, 13 bits; 0 counts as 1, 6 and 7 as 5.
pub(crate) fn mtu_bytes<'a>(m: Module<'a>, code: Signal<'a>) -> Signal<'a> {
    let sizes: Vec<_> = (0..8u32).map(|code| m.lit(128u32 << code.clamp(1, 5), 13)).collect();
    code.select(&sizes)
}
