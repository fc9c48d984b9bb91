//! Extension headers of MRC 1.0 (OCP Multipath Reliable Connection, 21 March 2026).
//!
//! The tables follow the specification as public test tools implement it. What those tools do not agree on, or what
//! could not be checked against the specification, is a named constant that says "unverified".

use crate::header::{coded_enum, header};
use crate::psn::Psn;

/// First bit of EETH `op`: bits 3:2 of byte 1. Unverified: public tools differ, others use bits 5:4.
pub const EETH_OP_FIRST_BIT: usize = 12;
/// First bit of EETH `tx_timestamp`: bytes 28 and 29.
pub const EETH_TIMESTAMP_FIRST_BIT: usize = 28 * 8;
/// `ftype` of TSETH, PETH and ERTH: the header carries a time stamp.
pub const FTYPE_TIMESTAMP: u8 = 1;
/// `cc_type` of a NETH. Unverified.
pub const NETH_CC_TYPE: u8 = 2;
/// Queue pair number to which endpoint requests and responses go.
pub const ENDPOINT_QPN: u32 = 2;
/// Unit of SETH `mpr`, in packets.
pub const MPR_UNIT: u32 = 128;
/// Unit of CC_STATE `rcvd_bytes`, in bytes.
pub const RCVD_BYTES_UNIT: u32 = 256;
/// Unit of a time stamp when `tsr` is 0, in nanoseconds: 16 bits wrap after 8.39 ms.
pub const TIMESTAMP_UNIT_NS: u64 = 128;

/// The time stamp of the wire for a time in nanoseconds: its bits [22:7].
#[must_use]
pub const fn timestamp(time_ns: u64) -> u16 {
    (time_ns / TIMESTAMP_UNIT_NS) as u16
}

coded_enum! {
    /// What a SACK says about the path of the packet it answers (SETH `m`, 2 bits).
    PathFeedback default Good {
        Good = 0, "path good", "Nothing to say.";
        SkipOnce = 1, "skip path once", "The packet was ECN-marked: skip the path once.";
        SkipAlways = 2, "skip path always", "Do not use the path.";
    }
}

coded_enum! {
    /// Sequence space that a SACK, NACK or probe speaks of (`type`, 4 bits; always requests in mrc).
    SequenceSpace default Requests {
        Requests = 0, "requests", "Requests; the only space of mrc.";
        Responses = 1, "responses", "READ responses and atomic ACKs (solar).";
    }
}

coded_enum! {
    /// Why a packet was not accepted (NETH `reason`).
    NackReason default Trimmed {
        Trimmed = 0x01, "trimmed", "A switch cut the payload off.";
        TrimmedLastHop = 0x02, "trimmed at the last hop", "The last switch cut the payload off: incast, not the path.";
        NoBitmap = 0x06, "no bitmap", "No bitmap to track the packet in.";
        NoPacketBuffer = 0x07, "no packet buffer", "No room to store the packet.";
        NoResource = 0x0A, "no resource", "Another resource is missing.";
        PsnOutOfWindow = 0x0B, "PSN out of window", "Outside of [ePSN, ePSN + mpr * 128).";
        Unexpected = 0x19, "unexpected", "Not expected in this state.";
    }
}

coded_enum! {
    /// Operation of an endpoint request or response (`op`, 2 bits).
    EndpointOperation default PortStatusUpdate {
        PortStatusUpdate = 0, "port status update", "The sender's ports changed.";
        EvProbe = 1, "EV probe", "Does this path work?";
    }
}

header! {
    /// Message extended transport header: in each data packet, right behind the BTH.
    Meth "METH" 4 {
        rqmsn: u16 = 0, 16, "receive-queue message sequence number: counts messages with immediate";
        msn: u16 = 16, 16, "message sequence number";
    }
}

header! {
    /// Time stamp extended transport header: behind METH when the BTH ts bit is set.
    Tseth "TSETH" 4 {
        tx_timestamp: u16 = 0, 16, "time of sending, in units of 128 ns when `tsr` is 0";
        tsr: bool = 16, 1, "time stamp resolution";
        ftype: u8 = 28, 4, "1: time stamp";
    }
}

header! {
    /// SACK extended transport header. Bit i of the bitmap is PSN `cack_psn + sack_offset + i`.
    Seth "SETH" 28 {
        space: SequenceSpace = 0, 4, "type: sequence space";
        next: u8 = 4, 5, "nxt: header type that follows";
        feedback: PathFeedback = 9, 2, "m: state of the path that the packet took";
        probe_response: bool = 14, 1, "pr: answers a probe, whose id is in `ack_psn_offset`";
        ack_psn_offset: i16 = 16, 16, "PSN of the packet that asked for this SACK, minus `cack_psn`; or the probe's id";
        entropy: u32 = 32, 32, "entropy value of the packet that asked for this SACK";
        spdcid: u16 = 64, 16, "source connection id: low 16 bits of the sender's QPN";
        dpdcid: u16 = 80, 16, "destination connection id";
        cack_psn: Psn = 104, 24, "cumulative acknowledgement: highest PSN before the first gap";
        cc_type: u8 = 128, 4, "kind of congestion control";
        cc_flags: u8 = 132, 4, "flags of congestion control";
        mpr: u8 = 136, 8, "maximum PSN range, in units of 128 packets";
        sack_offset: i16 = 144, 16, "PSN of bit 0 of the bitmap, minus `cack_psn`";
        sack_bitmap: u64 = 160, 64, "packets that arrived; bit 0 is the least significant";
    }
}

header! {
    /// Congestion control state: follows SETH.
    CcState "CC_STATE" 8 {
        tx_timestamp: u16 = 0, 16, "echo of the packet's time stamp";
        ooo_count: u16 = 17, 15, "packets that arrived beyond the first gap";
        restore_cwnd: bool = 32, 1, "give the window back that a penalty took";
        rcv_cwnd_pen: u8 = 33, 7, "window penalty of the receiver, 0 none to 127";
        rcvd_bytes: u32 = 40, 24, "bytes received, in units of 256, modulo 2^24";
    }
}

header! {
    /// NACK extended transport header.
    Neth "NETH" 20 {
        space: SequenceSpace = 0, 4, "type: sequence space";
        next: u8 = 4, 5, "nxt: header type that follows";
        reason: NackReason = 16, 8, "why";
        vendor: u8 = 24, 8, "vendor's own detail";
        entropy: u32 = 32, 32, "entropy value of the packet";
        spdcid: u16 = 64, 16, "source connection id";
        dpdcid: u16 = 80, 16, "destination connection id";
        nack_psn: Psn = 104, 24, "PSN that was not accepted";
        cc_type: u8 = 128, 4, "kind of congestion control";
        cc_flags: u8 = 132, 4, "flags of congestion control";
        tx_timestamp: u16 = 144, 16, "echo of the packet's time stamp";
    }
}

header! {
    /// Probe extended transport header: asks for a SACK.
    Peth "PETH" 16 {
        space: SequenceSpace = 0, 4, "type: sequence space";
        next: u8 = 4, 5, "nxt: header type that follows";
        vendor: u8 = 24, 8, "vendor's own detail";
        probe_id: u16 = 32, 16, "returned in the SACK's `ack_psn_offset`";
        spdcid: u16 = 64, 16, "source connection id";
        dpdcid: u16 = 80, 16, "destination connection id";
        tx_timestamp: u16 = 96, 16, "time of sending";
        tsr: bool = 112, 1, "time stamp resolution";
        ftype: u8 = 124, 4, "1: time stamp";
    }
}

header! {
    /// Endpoint request extended transport header.
    Erth "ERTH" 16 {
        kind: u8 = 0, 4, "type";
        next: u8 = 4, 5, "nxt: header type that follows";
        operation: EndpointOperation = 14, 2, "op: what is asked";
        vendor: u8 = 24, 8, "vendor's own detail";
        port_status_mask: u32 = 32, 32, "one bit a port of the sender: up";
        tx_timestamp: u16 = 96, 16, "time of sending";
        tsr: bool = 112, 1, "time stamp resolution";
        ftype: u8 = 124, 4, "1: time stamp";
    }
}

header! {
    /// Endpoint response extended transport header. The place of `op` is unverified: see [`EETH_OP_FIRST_BIT`].
    Eeth "EETH" 36 {
        kind: u8 = 0, 4, "type";
        next: u8 = 4, 5, "nxt: header type that follows";
        operation: EndpointOperation = EETH_OP_FIRST_BIT, 2, "op: what was asked";
        tx_timestamp: u16 = EETH_TIMESTAMP_FIRST_BIT, 16, "echo of the request's time stamp";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::Header;

    #[test]
    fn a_sack_sits_where_the_table_has_it() {
        let seth = Seth {
            space: SequenceSpace::Responses,
            next: 0b10101,
            feedback: PathFeedback::SkipAlways,
            probe_response: true,
            ack_psn_offset: -2,
            entropy: 0x0102_0304,
            spdcid: 0x0506,
            dpdcid: 0x0708,
            cack_psn: Psn::new(0x0A_0B0C),
            cc_type: 0xD,
            cc_flags: 0xE,
            mpr: 0x0F,
            sack_offset: 0x1011,
            sack_bitmap: 0x1213_1415_1617_1819,
        };
        assert_eq!(
            seth.to_bytes(),
            [
                0x1A, 0xC2, 0xFF, 0xFE, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0x0A, 0x0B, 0x0C, 0xDE, 0x0F, 0x10, 0x11, 0x12,
                0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19
            ]
        );
    }

    #[test]
    fn time_stamps_are_bits_22_to_7() {
        assert_eq!(timestamp(127), 0);
        assert_eq!(timestamp(128), 1);
        assert_eq!(timestamp((1 << 23) - 1), 0xFFFF);
        assert_eq!(timestamp(1 << 23), 0);
    }
}
