//! The AETH syndrome: ACK with credits, RNR NAK with its timer, NAK with its code (IBA volume 1, section 9.7.5.2).
//!
//! It says what the byte means, never what to do about it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::header::FieldValue;

/// Credit code that says that the responder does not count credits.
pub const UNLIMITED_CREDITS: u8 = 0x1F;

/// Time a requester waits after an RNR NAK, as its 5-bit code (IBA volume 1, table 45).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(from = "u8", into = "u8")]
pub struct RnrTimer(u8);

impl RnrTimer {
    /// Waiting time of each code, in microseconds. Code 0 is the longest.
    pub const MICROSECONDS: [u32; 32] = [
        655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560, 3_840, 5_120, 7_680,
        10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840, 245_760, 327_680, 491_520,
    ];

    /// The timer with the low 5 bits of `code`.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        Self(code & 0x1F)
    }

    /// The code, 0 to 31.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The waiting time in microseconds.
    #[must_use]
    pub const fn microseconds(self) -> u32 {
        Self::MICROSECONDS[self.0 as usize]
    }

    /// The shortest timer that waits at least this long; the longest one (code 0) when none does.
    #[must_use]
    pub fn at_least(microseconds: u32) -> Self {
        (1..32)
            .map(Self)
            .find(|timer| timer.microseconds() >= microseconds)
            .unwrap_or(Self(0))
    }
}

impl From<u8> for RnrTimer {
    /// Takes the low 5 bits.
    fn from(code: u8) -> Self {
        Self::from_code(code)
    }
}

impl From<RnrTimer> for u8 {
    fn from(timer: RnrTimer) -> Self {
        timer.0
    }
}

/// Why a responder refused a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum NakCode {
    /// A PSN is missing: send again from the one expected.
    PsnSequenceError = 0,
    /// The request is malformed or not allowed on this queue pair.
    InvalidRequest = 1,
    /// R_Key, bounds or rights do not allow the access.
    RemoteAccessError = 2,
    /// The responder failed while it executed the request.
    RemoteOperationalError = 3,
    /// Reliable datagram only.
    InvalidRdRequest = 4,
}

impl NakCode {
    /// Every code.
    pub const ALL: [Self; 5] = [
        Self::PsnSequenceError,
        Self::InvalidRequest,
        Self::RemoteAccessError,
        Self::RemoteOperationalError,
        Self::InvalidRdRequest,
    ];
}

/// The syndrome byte of an AETH.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Syndrome {
    /// Acknowledge; the 5-bit credit code, [`UNLIMITED_CREDITS`] when credits are not counted.
    Ack(u8),
    /// Receiver not ready: try again after the timer.
    RnrNak(RnrTimer),
    /// Refused.
    Nak(NakCode),
    /// A byte that the standard reserves.
    Reserved(u8),
}

impl Syndrome {
    /// ACK with uncounted credits (0x1F).
    pub const ACK: Self = Self::Ack(UNLIMITED_CREDITS);

    /// The meaning of a syndrome byte. Every byte has one.
    #[must_use]
    pub fn from_byte(byte: u8) -> Self {
        match byte {
            0x00..=0x1F => Self::Ack(byte),
            0x20..=0x3F => Self::RnrNak(RnrTimer::from_code(byte)),
            0x60..=0x7F => NakCode::ALL
                .into_iter()
                .find(|code| *code as u8 == byte & 0x1F)
                .map_or(Self::Reserved(byte), Self::Nak),
            _ => Self::Reserved(byte),
        }
    }

    /// The byte on the wire. Of a credit code the low 5 bits count.
    #[must_use]
    pub fn byte(self) -> u8 {
        match self {
            Self::Ack(credits) => credits & 0x1F,
            Self::RnrNak(timer) => 0x20 | timer.code(),
            Self::Nak(code) => 0x60 | code as u8,
            Self::Reserved(byte) => byte,
        }
    }

    /// Whether it acknowledges.
    #[must_use]
    pub fn is_ack(self) -> bool {
        matches!(self, Self::Ack(_))
    }
}

impl Default for Syndrome {
    fn default() -> Self {
        Self::ACK
    }
}

impl fmt::Display for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ack(UNLIMITED_CREDITS) => f.write_str("ACK"),
            Self::Ack(credits) => write!(f, "ACK (credit code {credits})"),
            Self::RnrNak(timer) => write!(f, "RNR NAK ({} us)", timer.microseconds()),
            Self::Nak(NakCode::PsnSequenceError) => f.write_str("NAK (PSN sequence error)"),
            Self::Nak(NakCode::InvalidRequest) => f.write_str("NAK (invalid request)"),
            Self::Nak(NakCode::RemoteAccessError) => f.write_str("NAK (remote access error)"),
            Self::Nak(NakCode::RemoteOperationalError) => f.write_str("NAK (remote operational error)"),
            Self::Nak(NakCode::InvalidRdRequest) => f.write_str("NAK (invalid RD request)"),
            Self::Reserved(byte) => write!(f, "reserved syndrome 0x{byte:02x}"),
        }
    }
}

impl FieldValue for Syndrome {
    fn from_bits(bits: u64) -> Self {
        Self::from_byte(bits as u8)
    }
    fn to_bits(&self) -> u64 {
        u64::from(self.byte())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_keeps_its_value() {
        for byte in 0..=255 {
            assert_eq!(Syndrome::from_byte(byte).byte(), byte);
        }
        assert_eq!(Syndrome::from_byte(0x60), Syndrome::Nak(NakCode::PsnSequenceError));
        assert_eq!(Syndrome::from_byte(0x65), Syndrome::Reserved(0x65));
        assert_eq!(Syndrome::from_byte(0x40), Syndrome::Reserved(0x40));
        assert_eq!(Syndrome::from_byte(0x9F), Syndrome::Reserved(0x9F));
    }

    #[test]
    fn rnr_timers_grow_and_code_0_is_the_longest() {
        for code in 2..32 {
            assert!(RnrTimer(code).microseconds() > RnrTimer(code - 1).microseconds());
        }
        // From code 5 on, every second code doubles.
        for code in 7..32 {
            assert_eq!(RnrTimer(code).microseconds(), 2 * RnrTimer(code - 2).microseconds());
        }
        assert_eq!(RnrTimer(1).microseconds(), 10);
        assert_eq!(RnrTimer(0).microseconds(), 655_360);
        assert_eq!(RnrTimer(31).microseconds(), 491_520);
    }

    #[test]
    fn a_waiting_time_finds_the_shortest_timer() {
        assert_eq!(RnrTimer::at_least(0).code(), 1);
        assert_eq!(RnrTimer::at_least(10).code(), 1);
        assert_eq!(RnrTimer::at_least(11).code(), 2);
        assert_eq!(RnrTimer::at_least(491_520).code(), 31);
        assert_eq!(RnrTimer::at_least(491_521).code(), 0);
        assert_eq!(RnrTimer::at_least(u32::MAX).code(), 0);
    }
}
