//! The base transport header, in the bit order of IBA or of MRC.
//!
//! IBA volume 1, section 9.2; byte 8 also carries the MRC bits rtx and ts, reserved in IBA.

use crate::header::{Header, TooShort, header};
use crate::opcode::{BitOrder, Opcode};
use crate::psn::Psn;

/// P_Key of the default partition, full member.
pub const DEFAULT_PARTITION_KEY: u16 = 0xFFFF;

header! {
    /// Base transport header (BTH). [`Header::parse`] and [`Header::emit`] use the bit order of IBA;
    /// [`Bth::parse_ordered`] and [`Bth::emit_ordered`] either. It keeps reserved bits.
    Bth "BTH" 12 {
        opcode: Opcode = 0, 8, "operation and place in the message";
        solicited: bool = 8, 1, "solicited event (SE)";
        migration: bool = 9, 1, "MigReq (M)";
        pad_count: u8 = 10, 2, "bytes of padding between payload and ICRC, 0 to 3";
        version: u8 = 12, 4, "transport version (TVer), 0";
        partition_key: u16 = 16, 16, "P_Key";
        fecn: bool = 32, 1, "forward explicit congestion notification";
        becn: bool = 33, 1, "backward explicit congestion notification";
        reserved_congestion: u8 = 34, 6, "reserved bits of byte 4";
        destination_qpn: u32 = 40, 24, "queue pair number of the receiver";
        ack_request: bool = 64, 1, "AckReq (A)";
        reserved_path: bool = 65, 1, "MRC: R; IBA: reserved";
        retransmission: bool = 66, 1, "MRC: rtx, this packet was sent before; IBA: reserved";
        timestamped: bool = 67, 1, "MRC: ts, a TSETH follows; IBA: reserved";
        reserved_ack: u8 = 68, 4, "reserved bits of byte 8";
        psn: Psn = 72, 24, "packet sequence number";
    }
}

/// Exchanges bits 7 and 6.
const fn swap_high_bits(byte: u8) -> u8 {
    byte & 0x3F | (byte & 0x80) >> 1 | (byte & 0x40) << 1
}

impl Bth {
    /// Reads the header with byte 1 in this order.
    ///
    /// # Errors
    /// [`TooShort`] when there are fewer than 12 bytes.
    pub fn parse_ordered(bytes: &[u8], order: BitOrder) -> Result<Self, TooShort> {
        let mut bth = Self::parse(bytes)?;
        if order == BitOrder::Mrc {
            std::mem::swap(&mut bth.solicited, &mut bth.migration);
        }
        Ok(bth)
    }

    /// Writes the header with byte 1 in this order.
    ///
    /// # Panics
    /// When `buffer` is shorter than 12 bytes.
    pub fn emit_ordered(&self, buffer: &mut [u8], order: BitOrder) {
        self.emit(buffer);
        if order == BitOrder::Mrc {
            buffer[1] = swap_high_bits(buffer[1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_sit_where_the_standard_has_them() {
        let bth = Bth {
            opcode: Opcode(0xAB),
            solicited: true,
            pad_count: 3,
            version: 5,
            partition_key: 0x1234,
            becn: true,
            destination_qpn: 0x56_789A,
            ack_request: true,
            timestamped: true,
            psn: Psn::new(0xBC_DEF0),
            ..Bth::default()
        };
        let bytes = [0xAB, 0xB5, 0x12, 0x34, 0x40, 0x56, 0x78, 0x9A, 0x90, 0xBC, 0xDE, 0xF0];
        assert_eq!(bth.to_bytes(), bytes);
        let mut mrc = bytes;
        bth.emit_ordered(&mut mrc, BitOrder::Mrc);
        assert_eq!(mrc[1], 0x75);
        assert_eq!(Bth::parse_ordered(&mrc, BitOrder::Mrc), Ok(bth));
        assert_eq!(Bth::reserved_mask(), [0; 12], "every bit of the BTH is kept");
    }
}
