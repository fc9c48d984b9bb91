//! `packet_buffer`: holds each packet's payload until the verdict on its ICRC is there; what is wrong never comes out.
//!
//! It changes nothing and keeps the order of the packets that pass. Room is the RTL's matter: a payload that finds none waits.
//! Theory of operation: `docs/src/blocks/packet_buffer.md`.

use std::collections::VecDeque;

use spraynic_config::descriptor::ReceivedPacket;
use thiserror::Error;

use crate::icrc::check::Verdict;

/// Counters, as the ports `count_…` of the block. `passed` and `dropped` together are the descriptors taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets given: their ICRC is right, or was not checked.
    pub passed: u32,
    /// Packets dropped: their ICRC is wrong. As many as `icrc` counts.
    pub dropped: u32,
    /// Payloads without a descriptor, of frames that `packet_parser` dropped.
    pub discarded: u32,
}

/// What `packet_parser` owes this block, and did not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Broken {
    /// No payload is there for a descriptor that says it has some.
    #[error("no payload is there for a packet with {length} bytes")]
    NoPayload {
        /// `payload_length` of the descriptor.
        length: u16,
    },
    /// The payload has another length.
    #[error("a payload of {found} bytes for a packet with {length}")]
    Length {
        /// Bytes of the payload.
        found: usize,
        /// `payload_length` of the descriptor.
        length: u16,
    },
}

/// A packet as it leaves the block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// `m_axis_descriptor`, as it came.
    pub packet: ReceivedPacket,
    /// `m_axis_payload`; empty where `payload_length` is 0 (nothing is given then).
    pub payload: Vec<u8>,
}

/// The block: payloads whose packets were not judged yet, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PacketBuffer {
    payloads: VecDeque<Vec<u8>>,
    counters: Counters,
}

impl PacketBuffer {
    /// The block after reset, empty.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes a payload; `discard` is `tuser[0]` of its last beat: the frame was dropped behind it, and no descriptor will come.
    pub fn take_payload(&mut self, payload: Vec<u8>, discard: bool) {
        if discard {
            self.counters.discarded = self.counters.discarded.wrapping_add(1);
        } else {
            self.payloads.push_back(payload);
        }
    }

    /// Takes a descriptor with its verdict, and gives the packet if it passes.
    ///
    /// # Errors
    /// [`Broken`]: its payload was not taken before, or has another length. Nothing is counted then.
    pub fn judge(&mut self, packet: &ReceivedPacket, verdict: Verdict) -> Result<Option<Passed>, Broken> {
        let length = packet.payload_length;
        let payload = match length {
            0 => Vec::new(),
            _ => self.payloads.pop_front().ok_or(Broken::NoPayload { length })?,
        };
        if payload.len() != usize::from(length) {
            let found = payload.len();
            return Err(Broken::Length { found, length });
        }
        if !verdict.passes() {
            self.counters.dropped = self.counters.dropped.wrapping_add(1);
            return Ok(None);
        }
        self.counters.passed = self.counters.passed.wrapping_add(1);
        let packet = *packet;
        Ok(Some(Passed { packet, payload }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packet(psn: u32, payload_length: u16) -> ReceivedPacket {
        ReceivedPacket {
            psn,
            payload_length,
            ..ReceivedPacket::default()
        }
    }

    #[test]
    fn a_payload_follows_the_verdict_of_its_own_packet() {
        let mut buffer = PacketBuffer::new();
        buffer.take_payload(vec![1; 10], false);
        buffer.take_payload(vec![2; 20], true);
        buffer.take_payload(vec![3; 30], false);
        assert_eq!(buffer.judge(&packet(0, 10), Verdict::Wrong), Ok(None));
        let empty = buffer.judge(&packet(1, 0), Verdict::Unchecked).unwrap().unwrap();
        assert_eq!((empty.packet.psn, empty.payload), (1, vec![]));
        let passed = buffer.judge(&packet(2, 30), Verdict::Right).unwrap().unwrap();
        assert_eq!((passed.packet.psn, passed.payload), (2, vec![3; 30]));
        let expected = Counters {
            passed: 2,
            dropped: 1,
            discarded: 1,
        };
        assert_eq!(*buffer.counters(), expected);
    }

    #[test]
    fn descriptors_and_payloads_that_do_not_fit_are_refused() {
        let mut buffer = PacketBuffer::new();
        let broken = buffer.judge(&packet(0, 4), Verdict::Right).unwrap_err();
        assert_eq!(broken.to_string(), "no payload is there for a packet with 4 bytes");
        buffer.take_payload(vec![0; 5], false);
        let broken = buffer.judge(&packet(0, 4), Verdict::Wrong).unwrap_err();
        assert_eq!(broken, Broken::Length { found: 5, length: 4 });
        assert_eq!(*buffer.counters(), Counters::default());
    }

    proptest! {
        /// Whatever is dropped and discarded between them, what passes keeps its payload and its place.
        #[test]
        fn what_passes_is_whole_and_in_order(
            packets in prop::collection::vec((0..3u8, 0..50u16, prop::collection::vec(1..50usize, 0..3)), 0..60),
        ) {
            let mut buffer = PacketBuffer::new();
            let (mut expected, mut given, mut discarded) = (vec![], vec![], 0);
            for (psn, (verdict, length, before)) in packets.into_iter().enumerate() {
                for length in before {
                    buffer.take_payload(vec![0xDD; length], true);
                    discarded += 1;
                }
                let payload = vec![psn as u8; length.into()];
                if length > 0 {
                    buffer.take_payload(payload.clone(), false);
                }
                let verdict = [Verdict::Right, Verdict::Wrong, Verdict::Unchecked][usize::from(verdict)];
                let packet = packet(psn as u32, length);
                given.extend(buffer.judge(&packet, verdict).unwrap());
                if verdict != Verdict::Wrong {
                    expected.push(Passed { packet, payload });
                }
            }
            prop_assert_eq!(buffer.counters().passed as usize, given.len());
            prop_assert_eq!(buffer.counters().discarded, discarded);
            prop_assert_eq!(given, expected);
        }
    }
}
