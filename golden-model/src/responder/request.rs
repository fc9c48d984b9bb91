//! What a request packet is: its kind, its place in the message, and what its extension headers say.
//!
//! It knows one packet alone: nothing of the queue pair's state is looked at here.

use spraynic_config::Profile;
use spraynic_config::descriptor::{MemoryAccess, SequencedPacket};
use spraynic_wire::{AtomicEth, Header, Ieth, ImmDt, Meth, Opcode, Operation, Reth, Tseth};

use crate::packet_parser::has_opcode;
use crate::packet_slicer::MAX_MESSAGE;

/// Rights of a [`MemoryAccess`].
const WRITE: u8 = 0;
const READ: u8 = 1;
const ATOMIC: u8 = 2;
const INVALIDATE: u8 = 3;

/// Bytes an atomic works on, at an address that is a multiple of them.
const ATOMIC_BYTES: u32 = 8;

/// What a packet asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// SEND, with immediate and with invalidate too.
    Send,
    /// WRITE, with immediate too.
    Write,
    /// READ request.
    Read,
    /// CmpSwap or FetchAdd.
    Atomic,
    /// mrc: no packet, the end of a message.
    Retired {
        /// The message has an immediate.
        immediate: bool,
    },
    /// No request of this profile.
    Unknown,
}

/// A packet, decoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) kind: Kind,
    /// First or only packet of its message.
    pub(super) begins: bool,
    /// Last or only packet of its message.
    pub(super) ends: bool,
    pub(super) immediate: Option<u32>,
    /// The key that a SEND with invalidate names.
    pub(super) invalidated: Option<u32>,
    mrc: bool,
    /// mrc: RQMSN.
    pub(super) rqmsn: u16,
    virtual_address: u64,
    remote_key: u32,
    /// DMA length of the message; 8 for an atomic, 0 where no header says it.
    pub(super) length: u32,
    pub(super) compare: u64,
    pub(super) swap_add: u64,
}

/// A header at this byte of the extension headers.
fn header<H: Header + Default>(packet: &SequencedPacket, at: usize) -> H {
    let bytes = packet.extension.0.get(at..).unwrap_or_default();
    H::parse(bytes).unwrap_or_default()
}

impl Request {
    pub(super) fn of(packet: &SequencedPacket) -> Self {
        let none = Self {
            kind: Kind::Unknown,
            begins: false,
            ends: false,
            immediate: None,
            invalidated: None,
            mrc: false,
            rqmsn: 0,
            virtual_address: 0,
            remote_key: 0,
            length: 0,
            compare: 0,
            swap_add: 0,
        };
        if packet.retired {
            let immediate = [Opcode::MRC_WRITE_LAST_IMMEDIATE.0, Opcode::MRC_WRITE_ONLY_IMMEDIATE.0];
            return Self {
                kind: Kind::Retired {
                    immediate: immediate.contains(&packet.opcode),
                },
                ..none
            };
        }
        let profile = Profile::from_code(packet.profile);
        let known = Opcode(packet.opcode)
            .info()
            .filter(|info| profile.is_some_and(|profile| has_opcode(profile, info)));
        let Some(info) = known else {
            return none;
        };
        let kind = match info.operation {
            Operation::Send => Kind::Send,
            Operation::Write => Kind::Write,
            Operation::ReadRequest => Kind::Read,
            Operation::CompareSwap | Operation::FetchAdd => Kind::Atomic,
            _ => return none,
        };
        let request = Self {
            kind,
            begins: info.position.begins_message(),
            ends: info.position.ends_message(),
            ..none
        };
        if kind == Kind::Atomic {
            let atomic: AtomicEth = header(packet, 0);
            return Self {
                virtual_address: atomic.virtual_address,
                remote_key: atomic.remote_key,
                length: ATOMIC_BYTES,
                compare: atomic.compare,
                swap_add: atomic.swap_add,
                ..request
            };
        }
        let mrc = profile == Some(Profile::Mrc);
        let stamp = if packet.timestamped { Tseth::LENGTH } else { 0 };
        let at = if mrc { Meth::LENGTH + stamp } else { 0 };
        let has_reth = info.has(spraynic_wire::HeaderKind::Reth);
        let reth: Reth = if has_reth { header(packet, at) } else { Reth::default() };
        let behind = if has_reth { at + Reth::LENGTH } else { at };
        Self {
            immediate: info
                .has(spraynic_wire::HeaderKind::ImmDt)
                .then(|| header::<ImmDt>(packet, behind).immediate),
            invalidated: info
                .has(spraynic_wire::HeaderKind::Ieth)
                .then(|| header::<Ieth>(packet, 0).remote_key),
            mrc,
            rqmsn: if mrc { header::<Meth>(packet, 0).rqmsn } else { 0 },
            virtual_address: reth.virtual_address,
            remote_key: reth.remote_key,
            length: reth.length,
            ..request
        }
    }

    /// Whether it has a header that names memory.
    pub(super) fn names_memory(&self) -> bool {
        match self.kind {
            Kind::Read | Kind::Atomic => true,
            Kind::Write => self.begins || self.mrc,
            _ => false,
        }
    }

    /// What `memory_regions` is asked, whatever becomes of the packet: for the whole message, in mrc for this packet.
    pub(super) fn access(&self, packet: &SequencedPacket) -> Option<MemoryAccess> {
        let right = match self.kind {
            Kind::Read => READ,
            Kind::Atomic => ATOMIC,
            _ => WRITE,
        };
        self.names_memory().then(|| MemoryAccess {
            key: self.remote_key,
            protection_domain: packet.protection_domain,
            right,
            address: self.virtual_address,
            length: if self.mrc {
                packet.payload_length.into()
            } else {
                self.length
            },
            ..MemoryAccess::default()
        })
    }

    /// What `memory_regions` is asked to make invalid.
    pub(super) fn invalidation(&self, packet: &SequencedPacket) -> Option<MemoryAccess> {
        self.invalidated.map(|key| MemoryAccess {
            key,
            protection_domain: packet.protection_domain,
            right: INVALIDATE,
            ..MemoryAccess::default()
        })
    }

    /// Whether it takes a receive request.
    pub(super) fn needs_receive_request(&self) -> bool {
        match self.kind {
            Kind::Send => self.begins,
            Kind::Write => self.immediate.is_some() && !self.mrc,
            Kind::Retired { immediate } => immediate,
            _ => false,
        }
    }

    /// Whether the queue pair's context allows it to the peer.
    pub(super) fn is_permitted(&self, packet: &SequencedPacket) -> bool {
        match self.kind {
            Kind::Write => packet.remote_write,
            Kind::Read => packet.remote_read,
            Kind::Atomic => packet.remote_atomic,
            _ => true,
        }
    }

    /// Whether what its headers ask for can be had: not more than the longest message, and for an atomic a multiple of 8.
    pub(super) fn is_well_formed(&self) -> bool {
        let aligned = self.virtual_address.is_multiple_of(ATOMIC_BYTES.into());
        self.length <= MAX_MESSAGE && (self.kind != Kind::Atomic || aligned)
    }

    /// Whether the payload has a length that its place in the message allows.
    pub(super) fn has_length_of_its_place(&self, packet: &SequencedPacket) -> bool {
        let payload = u32::from(packet.payload_length);
        let mtu = 128 << packet.mtu.clamp(1, 5);
        match (self.kind, self.begins, self.ends) {
            (Kind::Read | Kind::Atomic, ..) => payload == 0,
            (_, _, false) => payload == mtu,
            (_, false, true) => (1..=mtu).contains(&payload),
            (_, true, true) => payload <= mtu,
        }
    }
}
