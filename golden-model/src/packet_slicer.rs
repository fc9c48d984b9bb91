//! `packet_slicer`: cuts one work request into packet descriptors of at most one MTU.
//!
//! It owns the next PSN (and MSN, RQMSN of mrc) of each queue pair. It never touches payload, never waits for an
//! acknowledgement and never reorders: descriptors leave in the order of the requests.
//! Theory of operation: `docs/src/blocks/packet_slicer.md`.

use bitvec::prelude::*;
use spraynic_config::descriptor::{PacketDescriptor, SliceContext, WorkOpcode, WorkRequest};
use spraynic_config::{NicConfig, Operation, Profile};
use thiserror::Error;

use crate::request_opcode::{Position, extension, opcode};

mod slice;

pub use slice::{Slice, slice};

/// Longest message in bytes, itself allowed \[IBA 9.7.7: 2^31\].
pub const MAX_MESSAGE: u32 = 1 << 31;

/// An acknowledgement is requested on each packet of a message whose count is a multiple of this, and on its last one.
pub const ACK_INTERVAL: u32 = 64;

/// Bytes an atomic works on.
const ATOMIC_BYTES: u32 = 8;

/// What was generated: the part of the configuration that this block's behaviour depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Contexts in the table: QPN 0 to `queue_pairs - 1`.
    pub queue_pairs: u32,
    /// Largest MTU code accepted, 1 (256 bytes) to 5 (4,096 bytes).
    pub max_mtu: u8,
    /// Wire profiles generated, by their code in [`SliceContext::profile`].
    pub profiles: BitArr!(for 3, in u8, Lsb0),
    /// Operations generated, by their place in [`Operation::ALL`].
    pub operations: BitArr!(for 7, in u8, Lsb0),
}

impl Config {
    /// Everything the block knows, for `queue_pairs` queue pairs.
    #[must_use]
    pub fn full(queue_pairs: u32) -> Self {
        let (mut profiles, mut operations) = (BitArray::ZERO, BitArray::ZERO);
        profiles[..Profile::ALL.len()].fill(true);
        operations[..Operation::ALL.len()].fill(true);
        Self {
            queue_pairs,
            max_mtu: 5,
            profiles,
            operations,
        }
    }
}

impl Config {
    /// Whether a queue pair of this profile and MTU (their codes) can send a request: what it is, and the MTU in bytes.
    ///
    /// # Errors
    /// The first [`DropReason`] from `Opcode` on.
    pub(crate) fn check(
        &self,
        profile: u8,
        mtu: u8,
        request: &WorkRequest,
    ) -> Result<(Profile, WorkOpcode, u32), DropReason> {
        let (profile, operation) = self.operation(profile, request).ok_or(DropReason::Opcode {
            opcode: request.opcode,
            profile,
        })?;
        if request.segments != 1 {
            return Err(DropReason::Segments {
                segments: request.segments,
            });
        }
        if request.inline_immediate && !matches!(operation, WorkOpcode::Send | WorkOpcode::Write) {
            return Err(DropReason::Immediate { opcode: request.opcode });
        }
        let atomic = matches!(operation, WorkOpcode::CompareSwap | WorkOpcode::FetchAdd);
        if request.length > MAX_MESSAGE || (atomic && request.length != ATOMIC_BYTES) {
            return Err(DropReason::Length { length: request.length });
        }
        if atomic && !request.remote_address.is_multiple_of(u64::from(ATOMIC_BYTES)) {
            return Err(DropReason::Alignment {
                remote_address: request.remote_address,
            });
        }
        let bytes = mtu_bytes(mtu).filter(|_| mtu <= self.max_mtu).ok_or(DropReason::Mtu {
            mtu,
            max_mtu: self.max_mtu,
        })?;
        Ok((profile, operation, bytes))
    }

    fn operation(&self, profile: u8, request: &WorkRequest) -> Option<(Profile, WorkOpcode)> {
        let profile = Profile::from_code(profile)?;
        let opcode = WorkOpcode::from_code(request.opcode)?;
        let operation = match (opcode, request.inline_immediate) {
            (WorkOpcode::Send, false) => Operation::Send,
            (WorkOpcode::Send, true) => Operation::SendImmediate,
            // The flag is wrong here, which is a later check's business.
            (WorkOpcode::SendInvalidate, _) => Operation::SendInvalidate,
            (WorkOpcode::Write, false) => Operation::Write,
            (WorkOpcode::Write, true) => Operation::WriteImmediate,
            (WorkOpcode::Read, _) => Operation::Read,
            (WorkOpcode::CompareSwap | WorkOpcode::FetchAdd, _) => Operation::Atomic,
        };
        let generated = self.profiles[usize::from(profile.code())] && self.operations[operation as usize];
        (generated && profile.carries(operation)).then_some((profile, opcode))
    }
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        let (mut profiles, mut operations) = (BitArray::ZERO, BitArray::ZERO);
        for profile in &config.wire.profiles {
            profiles.set(usize::from(profile.code()), true);
        }
        for operation in &config.wire.operations {
            operations.set(*operation as usize, true);
        }
        Self {
            queue_pairs: config.queue_pairs.count,
            max_mtu: config.max_mtu_code(),
            profiles,
            operations,
        }
    }
}

/// Counters, as the ports `count_…` of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packet descriptors given.
    pub packets: u32,
    /// Requests accepted.
    pub messages: u32,
    /// Context writes for a QPN beyond the table.
    pub drop_context: u32,
    /// Requests dropped, see [`DropReason::QueuePair`].
    pub drop_queue_pair: u32,
    /// Requests dropped, see [`DropReason::Opcode`].
    pub drop_opcode: u32,
    /// Requests dropped, see [`DropReason::Segments`].
    pub drop_segments: u32,
    /// Requests dropped, see [`DropReason::Immediate`].
    pub drop_immediate: u32,
    /// Requests dropped, see [`DropReason::Length`].
    pub drop_length: u32,
    /// Requests dropped, see [`DropReason::Alignment`].
    pub drop_alignment: u32,
    /// Requests dropped, see [`DropReason::Mtu`].
    pub drop_mtu: u32,
}

/// Why a request was dropped. The checks are made in this order; the first that fails is the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum DropReason {
    /// No such queue pair, or it is not open.
    #[error("queue pair {qpn} is not open (the table holds {queue_pairs})")]
    QueuePair {
        /// Queue pair number of the request.
        qpn: u32,
        /// Size of the table.
        queue_pairs: u32,
    },
    /// Unknown operation, or one that the profile or the configuration does not have.
    #[error("operation {opcode} is unknown or absent from profile {profile} of this NIC")]
    Opcode {
        /// Operation code of the request.
        opcode: u8,
        /// Profile code of the queue pair.
        profile: u8,
    },
    /// Scatter-gather: only one local segment is possible.
    #[error("{segments} local segments: 1 is possible")]
    Segments {
        /// Segments of the request.
        segments: u8,
    },
    /// Immediate data with an operation that carries none.
    #[error("operation {opcode} carries no immediate data: only SEND and WRITE do")]
    Immediate {
        /// Operation code of the request.
        opcode: u8,
    },
    /// Message too long, or an atomic that is not 8 bytes.
    #[error("length {length}: at most 2^31, an atomic 8")]
    Length {
        /// Length of the request in bytes.
        length: u32,
    },
    /// An atomic's remote address is not a multiple of 8.
    #[error("remote address {remote_address:#x} of an atomic is not a multiple of 8")]
    Alignment {
        /// Remote address of the request.
        remote_address: u64,
    },
    /// The queue pair's MTU code is none, or more than was generated.
    #[error("MTU code {mtu}: 1 to {max_mtu} are possible")]
    Mtu {
        /// MTU code of the context.
        mtu: u8,
        /// Largest code generated.
        max_mtu: u8,
    },
}

impl Counters {
    fn count_drop(&mut self, reason: DropReason) {
        let counter = match reason {
            DropReason::QueuePair { .. } => &mut self.drop_queue_pair,
            DropReason::Opcode { .. } => &mut self.drop_opcode,
            DropReason::Segments { .. } => &mut self.drop_segments,
            DropReason::Immediate { .. } => &mut self.drop_immediate,
            DropReason::Length { .. } => &mut self.drop_length,
            DropReason::Alignment { .. } => &mut self.drop_alignment,
            DropReason::Mtu { .. } => &mut self.drop_mtu,
        };
        *counter = counter.wrapping_add(1);
    }
}

/// Bytes of an MTU code, `None` for 0, 6 and 7.
#[must_use]
pub fn mtu_bytes(code: u8) -> Option<u32> {
    (1..=5).contains(&code).then(|| 128 << code)
}

/// The block: a table of contexts and counters.
#[derive(Debug, Clone)]
pub struct PacketSlicer {
    config: Config,
    contexts: Vec<SliceContext>,
    counters: Counters,
}

impl PacketSlicer {
    /// The block after reset: no queue pair is open, all counters are 0.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            contexts: vec![SliceContext::default(); config.queue_pairs as usize],
            counters: Counters::default(),
        }
    }

    /// Writes a queue pair's context. It holds from the next request on: a message that is being cut goes on as it
    /// began, and no longer changes PSN, MSN or RQMSN. A QPN beyond the table changes nothing and is counted.
    pub fn write_context(&mut self, context: &SliceContext) {
        match self.contexts.get_mut(context.qpn as usize) {
            Some(slot) => *slot = *context,
            None => self.counters.drop_context = self.counters.drop_context.wrapping_add(1),
        }
    }

    /// The context of a queue pair as it stands, with the PSN, MSN and RQMSN of its next message.
    #[must_use]
    pub fn context(&self, qpn: u32) -> Option<&SliceContext> {
        self.contexts.get(qpn as usize)
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes a work request and gives its packets. PSN, MSN and RQMSN of the whole message are consumed at once, so
    /// the packets may be drawn later.
    ///
    /// # Errors
    /// The reason why the request was dropped; it is counted, and nothing else changes.
    pub fn request(&mut self, request: &WorkRequest) -> Result<Packets, DropReason> {
        match self.check(request) {
            Ok(packets) => {
                self.commit(&packets);
                Ok(packets)
            }
            Err(reason) => {
                self.counters.count_drop(reason);
                Err(reason)
            }
        }
    }

    fn check(&self, request: &WorkRequest) -> Result<Packets, DropReason> {
        let context = self
            .context(request.qpn)
            .filter(|context| context.open)
            .ok_or(DropReason::QueuePair {
                qpn: request.qpn,
                queue_pairs: self.config.queue_pairs,
            })?;
        let (profile, operation, mtu) = self.config.check(context.profile, context.mtu, request)?;
        Ok(Packets::new(*context, profile, operation, *request, mtu))
    }

    fn commit(&mut self, packets: &Packets) {
        let context = &mut self.contexts[packets.request.qpn as usize];
        context.psn = (context.psn + packets.psns()) & 0xFF_FFFF;
        if packets.profile == Profile::Mrc {
            context.msn = context.msn.wrapping_add(1);
            if packets.request.inline_immediate {
                context.rqmsn = context.rqmsn.wrapping_add(1);
            }
        }
        self.counters.messages = self.counters.messages.wrapping_add(1);
        self.counters.packets = self.counters.packets.wrapping_add(packets.count);
    }
}

/// The packets of one message, first to last.
#[derive(Debug, Clone)]
pub struct Packets {
    context: SliceContext,
    profile: Profile,
    operation: WorkOpcode,
    request: WorkRequest,
    mtu: u32,
    next: u32,
    count: u32,
}

impl Packets {
    pub(crate) fn new(
        context: SliceContext,
        profile: Profile,
        operation: WorkOpcode,
        request: WorkRequest,
        mtu: u32,
    ) -> Self {
        let mut packets = Self {
            context,
            profile,
            operation,
            request,
            mtu,
            next: 0,
            count: 1,
        };
        if packets.has_payload() {
            packets.count = packets.packets_of_length();
        }
        packets
    }

    /// PSNs that the message consumes.
    #[must_use]
    pub fn psns(&self) -> u32 {
        if self.operation == WorkOpcode::Read && self.profile == Profile::Roce {
            self.packets_of_length()
        } else {
            self.count
        }
    }

    fn packets_of_length(&self) -> u32 {
        self.request.length.div_ceil(self.mtu).max(1)
    }

    fn has_payload(&self) -> bool {
        matches!(
            self.operation,
            WorkOpcode::Send | WorkOpcode::SendInvalidate | WorkOpcode::Write
        )
    }

    fn packet(&self, index: u32) -> PacketDescriptor {
        let (request, context) = (&self.request, &self.context);
        let last = index + 1 == self.count;
        let position = Position {
            first: index == 0,
            last,
        };
        let offset = u64::from(index) * u64::from(self.mtu);
        let payload_length = if self.has_payload() {
            // The remainder is 0 only in the one packet of an empty message.
            (u64::from(request.length) - offset).min(u64::from(self.mtu)) as u16
        } else {
            0
        };
        let (extension, extension_bytes) = extension(self.profile, self.operation, position, request, context, offset);
        // IBA 9.2: SE is for what makes a receive completion, hence not for READ, atomics and plain WRITE.
        let completes_receive = match self.operation {
            WorkOpcode::Send | WorkOpcode::SendInvalidate => true,
            WorkOpcode::Write => request.inline_immediate,
            _ => false,
        };
        PacketDescriptor {
            qpn: request.qpn,
            opcode: opcode(self.profile, self.operation, position, request.inline_immediate),
            psn: (context.psn + index) & 0xFF_FFFF,
            solicited: request.solicited && last && completes_receive,
            ack_request: last || (index + 1).is_multiple_of(ACK_INTERVAL),
            timestamped: self.profile == Profile::Mrc && context.timestamps,
            mrc: self.profile == Profile::Mrc,
            stamp: u8::from(self.profile == Profile::Mrc && context.timestamps),
            extension_words: (extension_bytes / 4) as u8,
            entropy: context.entropy,
            payload_length,
            local_key: request.local_key,
            local_address: request.local_address.wrapping_add(offset),
            extension,
            ..PacketDescriptor::default()
        }
    }
}

impl Iterator for Packets {
    type Item = PacketDescriptor;

    fn next(&mut self) -> Option<PacketDescriptor> {
        if self.next == self.count {
            return None;
        }
        let packet = self.packet(self.next);
        self.next += 1;
        Some(packet)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.count - self.next) as usize;
        (left, Some(left))
    }

    fn nth(&mut self, skip: usize) -> Option<PacketDescriptor> {
        let left = self.count - self.next;
        self.next += u32::try_from(skip).map_or(left, |skip| skip.min(left));
        self.next()
    }
}

impl ExactSizeIterator for Packets {}

#[cfg(test)]
#[path = "packet_slicer_tests.rs"]
mod tests;
