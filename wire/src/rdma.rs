//! Extension headers of the reliable connection service (IBA volume 1, sections 9.3 and 9.4) and of CNP (annex A17).
//!
//! Bytes only: what a header asks for is the business of requester and responder.

use crate::header::header;
use crate::syndrome::Syndrome;

header! {
    /// RDMA extended transport header.
    Reth "RETH" 16 {
        virtual_address: u64 = 0, 64, "address at the responder, in bytes";
        remote_key: u32 = 64, 32, "R_Key";
        length: u32 = 96, 32, "DMA length of the message, in bytes";
    }
}

header! {
    /// ACK extended transport header.
    Aeth "AETH" 4 {
        syndrome: Syndrome = 0, 8, "ACK, RNR NAK or NAK";
        msn: u32 = 8, 24, "message sequence number of the responder";
    }
}

header! {
    /// Immediate data.
    ImmDt "ImmDt" 4 {
        immediate: u32 = 0, 32, "immediate data, as a big-endian number";
    }
}

header! {
    /// Invalidate extended transport header.
    Ieth "IETH" 4 {
        remote_key: u32 = 0, 32, "R_Key to invalidate";
    }
}

header! {
    /// Atomic extended transport header.
    AtomicEth "AtomicETH" 28 {
        virtual_address: u64 = 0, 64, "address of 8 bytes at the responder, a multiple of 8";
        remote_key: u32 = 64, 32, "R_Key";
        swap_add: u64 = 96, 64, "value to swap in, or to add";
        compare: u64 = 160, 64, "value to compare with (CmpSwap)";
    }
}

header! {
    /// Atomic ACK extended transport header.
    AtomicAckEth "AtomicAckETH" 8 {
        original: u64 = 0, 64, "value before the operation";
    }
}

header! {
    /// The 16 reserved bytes of a CNP. They are kept.
    CnpReserved "CNP reserved" 16 {
        high: u64 = 0, 64, "zero";
        low: u64 = 64, 64, "zero";
    }
}
