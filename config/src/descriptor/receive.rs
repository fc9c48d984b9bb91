//! Descriptors of the receive path: what its blocks hand to each other, and what the host writes into their tables.

use bitvec::prelude::*;

use super::{Descriptor, Extension, Field, FieldValue, RequestExtension};

descriptor! {
    /// A packet that arrived: what `packet_parser` read from its headers, for all blocks behind it.
    ReceivedPacket {
        qpn: u32 = 24, "BTH destination QPN: queue pair number of this side";
        opcode: u8 = 8, "BTH opcode, a known one";
        psn: u32 = 24, "BTH PSN";
        partition_key: u16 = 16, "BTH P_Key";
        solicited: bool = 1, "BTH solicited event, read in the bit order of the opcode (mrc: C0 to DF)";
        migration: bool = 1, "BTH MigReq (M), likewise";
        ack_request: bool = 1, "BTH AckReq";
        retransmission: bool = 1, "mrc: BTH rtx bit";
        timestamped: bool = 1, "mrc: BTH ts bit";
        fecn: bool = 1, "BTH FECN";
        becn: bool = 1, "BTH BECN";
        ipv6: bool = 1, "the network header is IPv6";
        ecn: u8 = 2, "ECN field of the network header: 3 is CE, congestion experienced";
        dscp: u8 = 6, "DSCP of the network header";
        trimmed: u8 = 2, "by DSCP: 0 whole, 1 trimmed, 2 trimmed at the last hop; not 0: neither lengths nor ICRC were checked, and there is no payload";
        vlan_tags: u8 = 2, "VLAN tags before the network header, 0 to 2";
        extension_words: u8 = 4, "length of the extension headers in units of 4 bytes, 0 to 9; 0 for a trimmed packet that lost them";
        payload_length: u16 = 13, "payload bytes without padding, 0 to 4096; 0 for a trimmed packet";
        reserved_0: u8 = 3, "zero";
        udp_source_port: u16 = 16, "UDP source port: entropy";
        flow_label: u32 = 20, "IPv6 flow label, 0 for IPv4";
        reserved_1: u8 = 4, "zero";
        source_ip: u128 = 128, "source address; IPv4 in the low 32 bits";
        destination_ip: u128 = 128, "destination address; IPv4 in the low 32 bits";
        extension: Extension = 288, "extension headers as they stand on the wire, byte 0 first, zero behind them";
    }
}

descriptor! {
    /// Context of a queue pair for the receive path: written when the queue pair changes its state.
    QueuePairContext {
        qpn: u32 = 24, "queue pair to write";
        state: u8 = 3, "state: see QueuePairState";
        profile: u8 = 2, "wire profile: 0 roce, 1 solar, 2 mrc";
        mtu: u8 = 3, "path MTU code: 1 is 256 bytes, 2 is 512, 3 is 1024, 4 is 2048, 5 is 4096";
        remote_write: bool = 1, "the peer may WRITE";
        remote_read: bool = 1, "the peer may READ";
        remote_atomic: bool = 1, "the peer may use atomics";
        ipv6: bool = 1, "the addresses are IPv6";
        reserved_0: u8 = 4, "zero";
        partition_key: u16 = 16, "P_Key";
        rnr_timer: u8 = 5, "roce: timer code of RNR NAKs, 0 to 31 (IBA volume 1, table 45)";
        reserved_1: u8 = 3, "zero";
        psn: u32 = 24, "PSN of the first request to come; read when the queue pair goes to RTR";
        reserved_2: u8 = 8, "zero";
        response_psn: u32 = 24, "solar: PSN of the first response to come; read when the queue pair goes to RTR";
        reserved_3: u8 = 8, "zero";
        sent_response_psn: u32 = 24, "solar: PSN of the first response to send; read when the queue pair goes to RTR";
        reserved_4: u8 = 8, "zero";
        protection_domain: u32 = 24, "protection domain";
        reserved_5: u8 = 8, "zero";
        peer_qpn: u32 = 24, "queue pair number of the peer: SACK and NACK name its low 16 bits";
        reserved_6: u8 = 8, "zero";
        peer_ip: u128 = 128, "address of the peer; IPv4 in the low 32 bits";
        local_ip: u128 = 128, "address of this side; IPv4 in the low 32 bits";
    }
}

descriptor! {
    /// What `qp_lookup` adds to a `ReceivedPacket`: where it goes, and what its queue pair is and may.
    PacketContext {
        route: u8 = 2, "who it is for: 0 sequence (reorder_buffer), 1 feedback to the requester, 2 probe, 3 endpoint operation";
        space: bool = 1, "sequence space of its PSN: 0 requests, 1 responses (solar)";
        profile: u8 = 2, "wire profile of the queue pair";
        mtu: u8 = 3, "path MTU code of the queue pair";
        remote_write: bool = 1, "the peer may WRITE";
        remote_read: bool = 1, "the peer may READ";
        remote_atomic: bool = 1, "the peer may use atomics";
        reserved_0: u8 = 5, "zero";
        protection_domain: u32 = 24, "protection domain of the queue pair";
    }
}

descriptor! {
    /// A memory region that the peer may reach by its R_Key: written when it is registered, and invalid when it is given up.
    MemoryRegion {
        generation: u8 = 8, "low byte of the R_Key: another one than before makes old keys useless";
        index: u32 = 24, "region to write: the upper 24 bits of the R_Key";
        valid: bool = 1, "the region may be reached";
        remote_write: bool = 1, "the peer may WRITE";
        remote_read: bool = 1, "the peer may READ";
        remote_atomic: bool = 1, "the peer may use atomics";
        reserved_0: u8 = 4, "zero";
        protection_domain: u32 = 24, "protection domain: that of the queue pair must be the same";
        base: u64 = 64, "virtual address of the first byte";
        length: u64 = 64, "bytes";
        address: u64 = 64, "byte address of the first byte in memory";
    }
}

descriptor! {
    /// A packet as `reorder_buffer` gives it: each once, in PSN order of its space; in mrc as they come.
    SequencedPacket {
        qpn: u32 = 24, "queue pair number of this side";
        opcode: u8 = 8, "BTH opcode";
        psn: u32 = 24, "BTH PSN";
        profile: u8 = 2, "wire profile of the queue pair";
        space: bool = 1, "sequence space: 0 requests, 1 responses (solar)";
        duplicate: bool = 1, "roce: a READ or atomic request that was given before, to be answered again";
        retired: bool = 1, "mrc: no packet. All up to this PSN have been received, and it ends a message; the opcode is WRITE last, or WRITE last with immediate where the message has one";
        solicited: bool = 1, "BTH solicited event";
        ack_request: bool = 1, "BTH AckReq";
        timestamped: bool = 1, "mrc: a TSETH stands behind the METH";
        protection_domain: u32 = 24, "protection domain of the queue pair";
        mtu: u8 = 3, "path MTU code of the queue pair";
        remote_write: bool = 1, "the peer may WRITE";
        remote_read: bool = 1, "the peer may READ";
        remote_atomic: bool = 1, "the peer may use atomics";
        reserved_0: u8 = 2, "zero";
        payload_length: u16 = 13, "payload bytes without padding, 0 to 4096";
        reserved_1: u8 = 3, "zero";
        entropy: u32 = 20, "entropy value of the packet: UDP source port, and flow label bits 19:16 above it";
        reserved_2: u16 = 12, "zero";
        extension: RequestExtension = 224, "extension headers as they stand on the wire, byte 0 first, zero behind them";
    }
}

descriptor! {
    /// What `reorder_buffer` tells `ack_engine` of a packet: what became of it, and what the window looks like behind it.
    SequenceReport {
        qpn: u32 = 24, "queue pair number of this side";
        opcode: u8 = 8, "BTH opcode of the packet";
        psn: u32 = 24, "BTH PSN of the packet";
        profile: u8 = 2, "wire profile of the queue pair";
        space: bool = 1, "sequence space: 0 requests, 1 responses (solar)";
        outcome: u8 = 4, "what became of the packet: see SequenceOutcome";
        reserved_0: bool = 1, "zero";
        entropy: u32 = 20, "entropy value of the packet: UDP source port, and flow label bits 19:16 above it";
        payload_length: u16 = 13, "payload bytes of the packet";
        ecn: u8 = 2, "ECN field of the packet: 3 is CE";
        ack_request: bool = 1, "BTH AckReq of the packet";
        retransmission: bool = 1, "mrc: BTH rtx bit of the packet";
        beyond_gap: u16 = 11, "packets received beyond the first gap, after this one";
        time_stamp: u16 = 16, "time stamp that the packet carries for its echo (TSETH of mrc), 0 without one";
        cumulative: u32 = 24, "the PSN before the first one that is missing; 0 where the queue pair does not receive";
        far: u8 = 8, "where the packet stands beyond the 64 PSNs of `near`: in units of 64 PSNs behind `near`; 0: it is near, was received before, or was refused";
        near: u64 = 64, "which of the 64 PSNs behind `cumulative` have been received: bit i is PSN cumulative + 1 + i. Bit 0 is never set";
        bitmap: u64 = 64, "bit i: PSN cumulative + 1 + 64 far + i has been received; `near` where `far` is 0";
    }
}

descriptor! {
    /// What `responder` has to say of a request, once memory holds what it covers: an ACK of all up to it, or a NAK of it.
    Answer {
        qpn: u32 = 24, "queue pair number of this side";
        syndrome: u8 = 8, "syndrome of the AETH";
        psn: u32 = 24, "PSN of the request that is acknowledged or refused";
        silent: bool = 1, "no packet is due: the peer did not ask. It only becomes the last acknowledgement";
        marker: bool = 1, "no answer: all before a context write has passed here";
        reserved_0: u8 = 6, "zero";
        msn: u32 = 24, "message sequence number";
        reserved_1: u8 = 8, "zero";
        entropy: u32 = 20, "entropy value of the packet that is answered";
        reserved_2: u16 = 12, "zero";
    }
}

descriptor! {
    /// A receive request: a buffer that the host posts for one message with SEND, or for the immediate of a WRITE.
    ReceiveRequest {
        qpn: u32 = 24, "queue pair number";
        reserved_0: u8 = 8, "zero";
        length: u32 = 32, "bytes of the buffer";
        address: u64 = 64, "byte address of the buffer in memory";
        local_key: u32 = 32, "L_Key of the buffer";
        reserved_1: u32 = 32, "zero";
        cookie: u64 = 64, "returned in the completion";
    }
}

descriptor! {
    /// An access that a peer asks for: what `responder` asks `memory_regions`.
    MemoryAccess {
        key: u32 = 32, "R_Key: index in the upper 24 bits, generation in the low 8";
        protection_domain: u32 = 24, "protection domain of the queue pair";
        right: u8 = 2, "what is asked for: 0 WRITE, 1 READ, 2 atomic, 3 invalidation of the key (no address, no length)";
        reserved_0: u8 = 6, "zero";
        address: u64 = 64, "virtual address of the first byte";
        length: u32 = 32, "bytes";
    }
}

descriptor! {
    /// What `memory_regions` says of a `MemoryAccess`; one for each, in order.
    MemoryTranslation {
        address: u64 = 64, "byte address in memory of the first byte, if the access is allowed and not of 0 bytes";
        refusal: u8 = 3, "0 allowed, 1 no such key, 2 other protection domain, 3 no right, 4 out of bounds";
        reserved_0: u8 = 5, "zero";
    }
}

descriptor! {
    /// What `responder` wants of a packet: where its payload goes, and what is due once memory has this write and all before it.
    /// `response_engine` takes the same behind the writes.
    PayloadWrite {
        qpn: u32 = 24, "queue pair number of this side";
        opcode: u8 = 8, "BTH opcode of the packet";
        address: u64 = 64, "byte address in memory: of the first byte of payload, or of what a READ or an atomic reaches";
        length: u16 = 13, "bytes of payload that come with it, 0 to 4096";
        discard: bool = 1, "the payload is not written";
        answer: bool = 1, "an Answer is due";
        completion: bool = 1, "a Completion is due";
        psn: u32 = 24, "PSN of the packet";
        syndrome: u8 = 8, "syndrome of the answer";
        msn: u32 = 24, "message sequence number of the answer";
        profile: u8 = 2, "wire profile of the queue pair";
        silent: bool = 1, "the answer is only recorded";
        execute: bool = 1, "a READ request or an atomic that is to be executed";
        duplicate: bool = 1, "roce: it was executed before";
        mtu: u8 = 3, "path MTU code of the queue pair";
        entropy: u32 = 20, "entropy value of the packet";
        has_immediate: bool = 1, "`immediate` is valid";
        solicited: bool = 1, "BTH solicited event";
        marker: bool = 1, "no packet: all before a context write has passed here";
        closed: bool = 1, "of a marker: the queue pair does not receive behind it";
        status: u8 = 8, "status of the completion: see CompletionStatus";
        byte_count: u32 = 32, "bytes of the message, or that a READ asks for";
        immediate: u32 = 32, "immediate data, or the R_Key that was invalidated; a number, most significant byte first on the wire";
        cookie: u64 = 64, "cookie of the receive request";
        compare: u64 = 64, "compare operand of CmpSwap";
        swap_add: u64 = 64, "swap operand of CmpSwap, addend of FetchAdd";
    }
}

descriptor! {
    /// A write to memory: `payload_writer` asks for one for each packet whose payload is to be written. Its data come aligned to the bus.
    MemoryWrite {
        address: u64 = 64, "byte address of the first byte";
        length: u16 = 13, "bytes, 1 to 4096";
        reserved_0: u8 = 3, "zero";
    }
}

descriptor! {
    /// A write of the 8 bytes that an atomic works on.
    AtomicWrite {
        address: u64 = 64, "byte address, a multiple of 8";
        data: u64 = 64, "the new value: byte 0 of memory in bits 7:0";
    }
}

/// What became of a packet of a sequence space: [`SequenceReport::outcome`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum SequenceOutcome {
    /// It was given at once: the next one of its window, or any new one of mrc.
    Passed = 0,
    /// It waits in a slot.
    Stored = 1,
    /// It had been received before.
    Duplicate = 2,
    /// Refused: its queue pair does not receive.
    Closed = 3,
    /// Refused: its PSN is beyond the window.
    OutOfWindow = 4,
    /// Refused: a switch trimmed it.
    Trimmed = 5,
    /// Refused: the last switch trimmed it.
    TrimmedLastHop = 6,
    /// Refused: it is not next, or cannot be given now, and no slot is free for its queue pair.
    NoSlot = 7,
    /// Refused: it needs a receive request, there is none, and its profile keeps no payload (roce, mrc).
    NotReady = 8,
    /// Refused (roce): the first packet behind a gap, to be answered by a NAK (PSN sequence error).
    SequenceFirst = 9,
    /// Refused (roce): a later packet behind a gap.
    Sequence = 10,
}

impl SequenceOutcome {
    /// All outcomes, in the order of their codes.
    pub const ALL: [Self; 11] = [
        Self::Passed,
        Self::Stored,
        Self::Duplicate,
        Self::Closed,
        Self::OutOfWindow,
        Self::Trimmed,
        Self::TrimmedLastHop,
        Self::NoSlot,
        Self::NotReady,
        Self::SequenceFirst,
        Self::Sequence,
    ];

    /// The outcome with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Whether the packet is not kept.
    #[must_use]
    pub fn is_refusal(self) -> bool {
        self >= Self::Closed
    }
}

/// How a request ended: [`super::Completion::status`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CompletionStatus {
    /// Done.
    Success = 0,
    /// The message does not fit the buffer.
    LocalLength = 1,
    /// The queue pair failed or was closed before.
    Flushed = 2,
    /// The peer asked for what its keys do not allow.
    RemoteAccess = 3,
    /// The peer broke the rules of messages.
    RemoteInvalidRequest = 4,
    /// Memory refused a write of this queue pair (AXI SLVERR or DECERR): what it received since then cannot be relied on.
    LocalMemory = 5,
    /// The response to a READ or an atomic is not what was asked for.
    BadResponse = 6,
    /// The peer failed while it executed the request.
    RemoteOperational = 7,
    /// The peer did not answer: too many timeouts in a row.
    RetryExceeded = 8,
    /// The peer had no receive request, too often in a row.
    RnrRetryExceeded = 9,
    /// The work request is wrong (its operation, segments, immediate flag, length or alignment): it was not sent.
    LocalInvalidRequest = 10,
    /// The send queue had no slot left: the work request was not taken.
    QueueFull = 11,
}

/// State of a queue pair (IBA volume 1, section 10.3.1), as far as the receive path tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum QueuePairState {
    /// Not in use: nothing is accepted.
    Reset = 0,
    /// Receive requests may be posted; nothing is accepted.
    Init = 1,
    /// Ready to receive: requests are accepted.
    ReadyToReceive = 2,
    /// Ready to send: requests and what answers the own requests are accepted.
    ReadyToSend = 3,
    /// Failed: nothing is accepted, what is outstanding is flushed.
    Error = 4,
}

impl QueuePairState {
    /// All states.
    pub const ALL: [Self; 5] = [
        Self::Reset,
        Self::Init,
        Self::ReadyToReceive,
        Self::ReadyToSend,
        Self::Error,
    ];

    /// The state with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| *state as u8 == code)
    }

    /// Whether packets of the peer are received in this state.
    #[must_use]
    pub fn receives(self) -> bool {
        matches!(self, Self::ReadyToReceive | Self::ReadyToSend)
    }
}

impl QueuePairContext {
    /// Whether packets of the peer are received in the state that it writes; a code of no state receives nothing.
    #[must_use]
    pub fn receives(&self) -> bool {
        QueuePairState::from_code(self.state).is_some_and(QueuePairState::receives)
    }
}
