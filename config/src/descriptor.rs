//! Descriptors: what moves between host, blocks and memory, as one table each.
//!
//! Each table is a Rust struct, a bit layout and a text at once: the golden model uses the struct, the RTL takes names
//! and widths from [`Descriptor::FIELDS`], the C header and the documentation are printed from it. The first field
//! sits at bit 0; a number is little-endian in the packed bytes; a byte array keeps its order (byte 0 lowest).
//! Addresses of the network (MAC, IP) are numbers whose most significant byte goes first on the wire.

mod c_header;
mod markdown;

use bitvec::prelude::*;

pub use c_header::c_header;
pub use markdown::markdown;

/// One field of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Name, as in the Rust struct, the Verilog and the C header.
    pub name: &'static str,
    /// Width in bits.
    pub width: u32,
    /// What it means, with its unit.
    pub doc: &'static str,
}

/// A value with a fixed bit layout.
pub trait Descriptor: Sized {
    /// Name in the C header and the documentation.
    const NAME: &'static str;
    /// What the descriptor is.
    const DOC: &'static str;
    /// The fields, from bit 0 upwards.
    const FIELDS: &'static [Field];

    /// Total width in bits: a whole number of bytes.
    #[must_use]
    fn width() -> u32 {
        Self::FIELDS.iter().map(|field| field.width).sum()
    }

    /// Packs to bytes, bit 0 being bit 0 of byte 0. A value too wide for its field is truncated to it.
    fn pack(&self) -> Vec<u8>;

    /// Unpacks from bytes. Missing bytes read as zero, further ones are ignored.
    fn unpack(bytes: &[u8]) -> Self;
}

/// A field's Rust type: moved to and from bits.
trait FieldValue: Default {
    fn store(&self, bits: &mut BitSlice<u8, Lsb0>);
    fn load(bits: &BitSlice<u8, Lsb0>) -> Self;
}

macro_rules! number_field {
    ($($ty:ty)*) => {$(
        impl FieldValue for $ty {
            fn store(&self, bits: &mut BitSlice<u8, Lsb0>) {
                let wide = u128::from(*self).to_le_bytes();
                let from = wide.view_bits::<Lsb0>();
                let width = bits.len();
                bits.copy_from_bitslice(&from[..width]);
            }
            fn load(bits: &BitSlice<u8, Lsb0>) -> Self {
                let mut wide = [0u8; 16];
                wide.view_bits_mut::<Lsb0>()[..bits.len()].copy_from_bitslice(bits);
                u128::from_le_bytes(wide) as $ty
            }
        }
    )*};
}
number_field!(u8 u16 u32 u64 u128);

impl FieldValue for bool {
    fn store(&self, bits: &mut BitSlice<u8, Lsb0>) {
        bits.set(0, *self);
    }
    fn load(bits: &BitSlice<u8, Lsb0>) -> Self {
        bits[0]
    }
}

/// Bytes of the extension headers in a [`PacketDescriptor`]: the longest are SETH with CC_STATE, and EETH.
pub const EXTENSION_BYTES: usize = 36;

/// Bytes of the extension headers of a request or response: AtomicETH, and METH, TSETH, RETH with ImmDt, are the longest.
pub const REQUEST_EXTENSION_BYTES: usize = 28;

macro_rules! extension_field {
    ($(#[doc = $doc:literal])* $name:ident, $bytes:ident) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(pub [u8; $bytes]);

        impl Default for $name {
            fn default() -> Self {
                Self([0; $bytes])
            }
        }

        impl FieldValue for $name {
            fn store(&self, bits: &mut BitSlice<u8, Lsb0>) {
                bits.copy_from_bitslice(self.0.view_bits::<Lsb0>());
            }
            fn load(bits: &BitSlice<u8, Lsb0>) -> Self {
                let mut bytes = [0; $bytes];
                bytes.view_bits_mut::<Lsb0>().copy_from_bitslice(bits);
                Self(bytes)
            }
        }
    };
}
extension_field! {
    /// Extension headers, byte 0 first on the wire, unused bytes zero.
    Extension, EXTENSION_BYTES
}
extension_field! {
    /// Extension headers of a request or response, byte 0 first on the wire, unused bytes zero.
    RequestExtension, REQUEST_EXTENSION_BYTES
}

macro_rules! descriptor {
    ($(#[doc = $doc:literal])* $name:ident { $($field:ident: $ty:ty = $width:literal, $text:literal;)* }) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name {
            $(#[doc = $text] pub $field: $ty,)*
        }

        impl Descriptor for $name {
            const NAME: &'static str = stringify!($name);
            const DOC: &'static str = concat!($($doc),*);
            const FIELDS: &'static [Field] = &[
                $(Field { name: stringify!($field), width: $width, doc: $text },)*
            ];

            #[allow(unused_assignments)]
            fn pack(&self) -> Vec<u8> {
                let mut bytes = vec![0u8; Self::width().div_ceil(8) as usize];
                let bits = bytes.view_bits_mut::<Lsb0>();
                let mut low = 0;
                $(self.$field.store(&mut bits[low..low + $width]); low += $width;)*
                bytes
            }

            #[allow(unused_assignments)]
            fn unpack(bytes: &[u8]) -> Self {
                let mut whole = vec![0u8; Self::width().div_ceil(8) as usize];
                let count = whole.len().min(bytes.len());
                whole[..count].copy_from_slice(&bytes[..count]);
                let bits = whole.view_bits::<Lsb0>();
                let mut low = 0;
                Self {
                    $($field: {
                        let value = FieldValue::load(&bits[low..low + $width]);
                        low += $width;
                        value
                    },)*
                }
            }
        }
    };
}

mod receive;
mod send;

pub use receive::{
    Answer, AtomicWrite, CompletionStatus, MemoryAccess, MemoryRegion, MemoryTranslation, MemoryWrite, PacketContext,
    PayloadWrite, QueuePairContext, QueuePairState, ReceiveRequest, ReceivedPacket, SequenceOutcome, SequenceReport,
    SequencedPacket,
};
pub use send::{
    Doorbell, ExpectedResponse, PacketOrigin, PathEntry, PathEvent, PathEventKind, PathState, PathUpdate, RateLimit,
    RateRequest, RequestRing, Resend, ResponseDone, ResponseMessage, RingProgress, SendContext, SendProgress,
    SentPacket, SprayPolicy, WorkSlice,
};

descriptor! {
    /// A work request (WQE), 64 bytes: one message that the host asks for.
    WorkRequest {
        opcode: u8 = 8, "operation: see WorkOpcode";
        signalled: bool = 1, "a completion is wanted";
        fence: bool = 1, "wait for earlier READs and atomics of the queue pair";
        solicited: bool = 1, "set the solicited-event bit in the last packet";
        inline_immediate: bool = 1, "the message carries `immediate` (SEND and WRITE only)";
        reserved_flags: u8 = 4, "zero";
        segments: u8 = 8, "count of local segments: 1";
        reserved_0: u8 = 8, "zero";
        qpn: u32 = 24, "queue pair number of this side";
        reserved_1: u8 = 8, "zero";
        local_address: u64 = 64, "byte address of the local buffer";
        local_key: u32 = 32, "L_Key of the local buffer";
        length: u32 = 32, "message length in bytes, 0 to 2^31";
        remote_address: u64 = 64, "virtual address at the peer (WRITE, READ, atomics)";
        remote_key: u32 = 32, "R_Key at the peer";
        immediate: u32 = 32, "immediate data, or the R_Key to invalidate; a number, most significant byte first on the wire";
        compare: u64 = 64, "compare operand of CmpSwap";
        swap_add: u64 = 64, "swap operand of CmpSwap, addend of FetchAdd";
        cookie: u64 = 64, "returned in the completion";
    }
}

descriptor! {
    /// A completion (CQE), 32 bytes.
    Completion {
        cookie: u64 = 64, "cookie of the work or receive request";
        qpn: u32 = 24, "queue pair number of this side";
        status: u8 = 8, "0 success, otherwise the reason";
        opcode: u8 = 8, "operation that ended, of the own or of the peer's work request: see WorkOpcode";
        phase: bool = 1, "toggles each time the ring wraps";
        has_immediate: bool = 1, "`immediate` is valid";
        solicited: bool = 1, "receive requests: the peer set the solicited event";
        reserved_0: u16 = 13, "zero";
        reserved_1: u8 = 8, "zero";
        byte_count: u32 = 32, "bytes of the message";
        immediate: u32 = 32, "immediate data received";
        reserved_2: u64 = 64, "zero";
    }
}

descriptor! {
    /// Context of a queue pair for `packet_slicer`: written when the queue pair is opened, changed or closed.
    SliceContext {
        qpn: u32 = 24, "queue pair to write";
        open: bool = 1, "requests are accepted (state RTS)";
        profile: u8 = 2, "wire profile: 0 roce, 1 solar, 2 mrc";
        mtu: u8 = 3, "path MTU code: 1 is 256 bytes, 2 is 512, 3 is 1024, 4 is 2048, 5 is 4096";
        timestamps: bool = 1, "mrc: put a TSETH into each packet";
        reserved_0: bool = 1, "zero";
        entropy: u32 = 32, "entropy value (EV); roce and IPv4: UDP source port in the low 16 bits";
        psn: u32 = 24, "PSN of the next request packet";
        reserved_1: u8 = 8, "zero";
        msn: u16 = 16, "mrc: message sequence number of the next message";
        rqmsn: u16 = 16, "mrc: receive-queue message sequence number of the next message with immediate";
    }
}

descriptor! {
    /// One packet to build: what `packet_slicer` gives and `header_builder` takes.
    PacketDescriptor {
        qpn: u32 = 24, "queue pair number of this side: selects the header template";
        opcode: u8 = 8, "BTH opcode";
        psn: u32 = 24, "BTH PSN";
        solicited: bool = 1, "BTH solicited event";
        ack_request: bool = 1, "BTH AckReq";
        retransmission: bool = 1, "mrc: BTH rtx bit";
        timestamped: bool = 1, "mrc: BTH ts bit, a TSETH follows";
        mrc: bool = 1, "mrc bit order of BTH byte 1 (M in bit 7, SE in bit 6)";
        becn: bool = 1, "BTH BECN (CNP)";
        stamp: u8 = 2, "time stamp put in when the header is built: 0 none, 1 TSETH at extension bytes 4-5, 2 PETH at bytes 12-13";
        extension_words: u8 = 4, "length of the extension headers in units of 4 bytes, 0 to 9";
        reserved_0: u8 = 4, "zero";
        entropy: u32 = 32, "entropy value (EV) of the packet's path";
        payload_length: u16 = 13, "payload bytes without padding, 0 to 4096";
        port: u8 = 3, "port by which it leaves";
        local_key: u32 = 32, "L_Key of the payload";
        local_address: u64 = 64, "byte address of the payload";
        extension: Extension = 288, "extension headers as they stand on the wire, byte 0 first";
    }
}

descriptor! {
    /// Header template of a queue pair: what all packets of one queue pair and plane share.
    HeaderTemplate {
        qpn: u32 = 24, "queue pair to write";
        vlan: bool = 1, "a VLAN tag is sent";
        ipv6: bool = 1, "IPv6 instead of IPv4";
        spray: bool = 1, "IPv6 flow label from EV[19:0] instead of `flow_label`";
        migration: bool = 1, "BTH MigReq bit (M)";
        reserved_0: u8 = 4, "zero";
        destination_mac: u64 = 48, "Ethernet destination";
        source_mac: u64 = 48, "Ethernet source";
        vlan_tci: u16 = 16, "VLAN priority, DEI and VID";
        traffic_class: u8 = 8, "IPv4 TOS or IPv6 traffic class: DSCP in bits 7:2, ECN in bits 1:0";
        hop_limit: u8 = 8, "IPv4 TTL or IPv6 hop limit";
        flow_label: u32 = 20, "IPv6 flow label where `spray` is 0";
        reserved_1: u8 = 4, "zero";
        source_ip: u128 = 128, "source address; IPv4 in the low 32 bits";
        destination_ip: u128 = 128, "destination address; IPv4 in the low 32 bits";
        partition_key: u16 = 16, "BTH P_Key";
        destination_qpn: u32 = 24, "BTH destination QPN";
        reserved_2: u8 = 8, "zero";
    }
}

descriptor! {
    /// A read of payload from memory, as a packet needs it.
    PayloadRequest {
        local_key: u32 = 32, "L_Key of the buffer";
        length: u16 = 13, "bytes, 1 to 4096";
        reserved_0: u8 = 3, "zero";
        address: u64 = 64, "byte address";
    }
}

/// Operation of a [`WorkRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum WorkOpcode {
    /// SEND, with immediate data where the flag says so.
    Send = 0,
    /// SEND with invalidate: the R_Key is in `immediate`.
    SendInvalidate = 1,
    /// RDMA WRITE, with immediate data where the flag says so.
    Write = 2,
    /// RDMA READ request.
    Read = 3,
    /// Atomic compare and swap on 8 bytes.
    CompareSwap = 4,
    /// Atomic fetch and add on 8 bytes.
    FetchAdd = 5,
}

impl WorkOpcode {
    /// All operations.
    pub const ALL: [Self; 6] = [
        Self::Send,
        Self::SendInvalidate,
        Self::Write,
        Self::Read,
        Self::CompareSwap,
        Self::FetchAdd,
    ];

    /// The operation with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|opcode| *opcode as u8 == code)
    }
}

/// A descriptor's layout without its Rust type.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Name, as [`Descriptor::NAME`].
    pub name: &'static str,
    /// What the descriptor is.
    pub doc: &'static str,
    /// Fields from bit 0 upwards.
    pub fields: &'static [Field],
}

impl Layout {
    /// The layout of a descriptor.
    #[must_use]
    pub const fn of<D: Descriptor>() -> Self {
        Self {
            name: D::NAME,
            doc: D::DOC,
            fields: D::FIELDS,
        }
    }

    /// Length in bytes.
    #[must_use]
    pub fn bytes(&self) -> u32 {
        self.fields.iter().map(|field| field.width).sum::<u32>().div_ceil(8)
    }

    /// Fields with their lowest bit.
    pub fn placed(&self) -> impl Iterator<Item = (u32, &'static Field)> + use<> {
        self.fields.iter().scan(0, |low, field| {
            let lsb = *low;
            *low += field.width;
            Some((lsb, field))
        })
    }
}

/// The layouts of all descriptors.
pub static LAYOUTS: [Layout; 36] = [
    Layout::of::<WorkRequest>(),
    Layout::of::<Completion>(),
    Layout::of::<SliceContext>(),
    Layout::of::<PacketDescriptor>(),
    Layout::of::<HeaderTemplate>(),
    Layout::of::<PayloadRequest>(),
    Layout::of::<ReceivedPacket>(),
    Layout::of::<QueuePairContext>(),
    Layout::of::<PacketContext>(),
    Layout::of::<MemoryRegion>(),
    Layout::of::<SequencedPacket>(),
    Layout::of::<SequenceReport>(),
    Layout::of::<Answer>(),
    Layout::of::<ReceiveRequest>(),
    Layout::of::<MemoryAccess>(),
    Layout::of::<MemoryTranslation>(),
    Layout::of::<PayloadWrite>(),
    Layout::of::<MemoryWrite>(),
    Layout::of::<AtomicWrite>(),
    Layout::of::<SendContext>(),
    Layout::of::<RequestRing>(),
    Layout::of::<Doorbell>(),
    Layout::of::<RingProgress>(),
    Layout::of::<WorkSlice>(),
    Layout::of::<PacketOrigin>(),
    Layout::of::<SentPacket>(),
    Layout::of::<Resend>(),
    Layout::of::<SendProgress>(),
    Layout::of::<ResponseMessage>(),
    Layout::of::<ExpectedResponse>(),
    Layout::of::<ResponseDone>(),
    Layout::of::<RateRequest>(),
    Layout::of::<RateLimit>(),
    Layout::of::<PathEntry>(),
    Layout::of::<PathEvent>(),
    Layout::of::<PathUpdate>(),
];

/// `CompareSwap` as `compare_swap`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_interface() {
        assert_eq!(WorkRequest::width(), 64 * 8);
        assert_eq!(Completion::width(), 32 * 8);
        for width in [
            SliceContext::width(),
            PacketDescriptor::width(),
            HeaderTemplate::width(),
            PayloadRequest::width(),
            ReceivedPacket::width(),
            QueuePairContext::width(),
            PacketContext::width(),
            MemoryRegion::width(),
            SequencedPacket::width(),
            SequenceReport::width(),
            Answer::width(),
            ReceiveRequest::width(),
            MemoryAccess::width(),
            MemoryTranslation::width(),
            PayloadWrite::width(),
            MemoryWrite::width(),
            AtomicWrite::width(),
            SendContext::width(),
            RequestRing::width(),
            Doorbell::width(),
            RingProgress::width(),
            WorkSlice::width(),
            PacketOrigin::width(),
            SentPacket::width(),
            Resend::width(),
            SendProgress::width(),
            ExpectedResponse::width(),
            ResponseDone::width(),
            RateRequest::width(),
            RateLimit::width(),
            PathEntry::width(),
            PathEvent::width(),
            PathUpdate::width(),
        ] {
            assert_eq!(width % 8, 0, "{width}");
        }
    }
}
