//! Priority flow control frames (IEEE 802.1Qbb, MAC control opcode 0x0101): parse and emit.
//!
//! It never decides to pause: thresholds and the storm watchdog live elsewhere.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::network::MacAddress;

/// Destination of every MAC control frame.
pub const DESTINATION: MacAddress = MacAddress([0x01, 0x80, 0xC2, 0x00, 0x00, 0x01]);
/// EtherType of MAC control.
pub const ETHERTYPE_MAC_CONTROL: u16 = 0x8808;
/// MAC control opcode of priority flow control.
pub const OPCODE_PFC: u16 = 0x0101;
/// MAC control opcode of the global PAUSE (IEEE 802.3 annex 31B), which is not read here.
pub const OPCODE_PAUSE: u16 = 0x0001;
/// Length of a frame before the FCS, padding included, in bytes.
pub const LENGTH: usize = 60;
/// Unit of the timers, in bit times of the link.
pub const QUANTUM_BIT_TIMES: u32 = 512;

/// Bytes that carry information; the rest up to [`LENGTH`] is padding.
const USED: usize = 34;

/// Why a frame is not a PFC frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PfcError {
    /// The frame ends too early.
    #[error("PFC takes at least {USED} bytes, only {0} are there")]
    TooShort(usize),
    /// Not MAC control.
    #[error("EtherType 0x{0:04x} is not MAC control (0x8808)")]
    NotMacControl(u16),
    /// Another MAC control operation, the global PAUSE (0x0001) for one.
    #[error("MAC control opcode 0x{0:04x} is not PFC (0x0101)")]
    Opcode(u16),
    /// Not the address of MAC control.
    #[error("destination {0}, should be 01:80:c2:00:00:01")]
    Destination(MacAddress),
}

/// A PFC frame: for each of the eight classes either nothing, or a time to pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pfc {
    /// Sender.
    pub source: MacAddress,
    /// Bit i set: timer i counts. Bits 15:8 are reserved and kept.
    pub class_enable: u16,
    /// Pause of each class in quanta of 512 bit times; 0 resumes.
    pub timers: [u16; 8],
}

impl Pfc {
    /// The pause of a class in quanta, `None` when the frame says nothing of it (or there is no such class).
    #[must_use]
    pub fn timer(&self, class: usize) -> Option<u16> {
        self.timers
            .get(class)
            .copied()
            .filter(|_| self.class_enable >> class & 1 == 1)
    }

    /// Reads a frame. Padding is not looked at and may be missing.
    ///
    /// # Errors
    /// [`PfcError`] says what is wrong.
    pub fn parse(frame: &[u8]) -> Result<Self, PfcError> {
        let Some(frame) = frame.first_chunk::<USED>() else {
            return Err(PfcError::TooShort(frame.len()));
        };
        let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let address = |at: usize| MacAddress(std::array::from_fn(|byte| frame[at + byte]));
        if word(12) != ETHERTYPE_MAC_CONTROL {
            return Err(PfcError::NotMacControl(word(12)));
        }
        if word(14) != OPCODE_PFC {
            return Err(PfcError::Opcode(word(14)));
        }
        if address(0) != DESTINATION {
            return Err(PfcError::Destination(address(0)));
        }
        Ok(Self {
            source: address(6),
            class_enable: word(16),
            timers: std::array::from_fn(|class| word(18 + 2 * class)),
        })
    }

    /// The frame without FCS, padded with zeros.
    #[must_use]
    pub fn emit(&self) -> [u8; LENGTH] {
        let mut frame = [0; LENGTH];
        frame[..6].copy_from_slice(&DESTINATION.0);
        frame[6..12].copy_from_slice(&self.source.0);
        let words = [ETHERTYPE_MAC_CONTROL, OPCODE_PFC, self.class_enable]
            .into_iter()
            .chain(self.timers);
        for (bytes, word) in frame[12..].chunks_exact_mut(2).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        frame
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_pause_of_class_3_stands_where_the_standard_has_it() {
        let mut timers = [0; 8];
        timers[3] = 0xFFFF;
        let pfc = Pfc {
            source: MacAddress([2, 0, 0, 0, 0, 9]),
            class_enable: 1 << 3,
            timers,
        };
        let frame = pfc.emit();
        assert_eq!(
            frame[..18],
            *b"\x01\x80\xc2\x00\x00\x01\x02\x00\x00\x00\x00\x09\x88\x08\x01\x01\x00\x08"
        );
        assert_eq!(frame[18..26], [0, 0, 0, 0, 0, 0, 0xFF, 0xFF]);
        assert!(frame[26..].iter().all(|byte| *byte == 0));
        assert_eq!(pfc.timer(3), Some(0xFFFF));
        assert_eq!(pfc.timer(0), None);
        assert_eq!(pfc.timer(8), None);
    }

    #[test]
    fn a_pause_of_class_0_alone_is_of_no_other_class() {
        let pfc = Pfc {
            class_enable: 1,
            timers: [9; 8],
            ..Pfc::default()
        };
        let parsed = Pfc::parse(&pfc.emit()).unwrap();
        assert_eq!(
            (0..8).map(|class| parsed.timer(class)).collect::<Vec<_>>()[..2],
            [Some(9), None]
        );
        assert!((1..8).all(|class| parsed.timer(class).is_none()));
    }

    #[test]
    fn an_empty_vector_pauses_nothing() {
        let pfc = Pfc {
            class_enable: 0,
            timers: [7; 8],
            ..Pfc::default()
        };
        assert!((0..8).all(|class| pfc.timer(class).is_none()));
    }

    #[test]
    fn each_wrong_frame_says_why() {
        let right = Pfc::default().emit();
        for length in 0..USED {
            assert_eq!(Pfc::parse(&right[..length]), Err(PfcError::TooShort(length)));
        }
        let with = |at: usize, byte: u8| {
            let mut frame = right;
            frame[at] = byte;
            Pfc::parse(&frame)
        };
        assert_eq!(with(13, 0x09), Err(PfcError::NotMacControl(0x8809)));
        assert_eq!(with(14, 0x00), Err(PfcError::Opcode(OPCODE_PAUSE)));
        assert_eq!(
            with(5, 0x02),
            Err(PfcError::Destination(MacAddress([1, 0x80, 0xC2, 0, 0, 2])))
        );
    }

    proptest! {
        #[test]
        fn what_was_emitted_is_parsed(source: [u8; 6], class_enable: u16, timers: [u16; 8]) {
            let pfc = Pfc { source: MacAddress(source), class_enable, timers };
            prop_assert_eq!(Pfc::parse(&pfc.emit()), Ok(pfc));
        }
    }
}
