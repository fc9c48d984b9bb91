//! Descriptors of the receive path: what its blocks hand to each other, and what the host writes into their tables.

use bitvec::prelude::*;

use super::{Descriptor, Extension, Field, FieldValue};

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
        reserved_1: u8 = 8, "zero";
        psn: u32 = 24, "PSN of the first request to come; read when the queue pair goes to RTR";
        reserved_2: u8 = 8, "zero";
        response_psn: u32 = 24, "solar: PSN of the first response to come; read when the queue pair goes to RTR";
        reserved_3: u8 = 8, "zero";
        protection_domain: u32 = 24, "protection domain";
        reserved_4: u8 = 8, "zero";
        peer_qpn: u32 = 24, "queue pair number of the peer: SACK and NACK name its low 16 bits";
        reserved_5: u8 = 8, "zero";
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
