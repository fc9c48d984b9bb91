//! `qp_lookup`: finds the queue pair of a packet, checks that the packet may come to it, and says where it goes.
//!
//! It owns the contexts that the host writes. It never looks at PSNs, payload or keys, and never changes a context by
//! itself. Theory of operation: `docs/src/blocks/qp_lookup.md`.

use bitvec::prelude::*;
use spraynic_config::descriptor::{PacketContext, QueuePairContext, QueuePairState, ReceivedPacket};
use spraynic_config::{NicConfig, Profile};
use spraynic_wire::mrc::ENDPOINT_QPN;
use spraynic_wire::{Opcode, Operation};
use thiserror::Error;

use crate::packet_parser::has_opcode;
use crate::packet_slicer::mtu_bytes;

/// What was generated: the part of the configuration that this block's behaviour depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Contexts in the table: QPN 0 to `queue_pairs - 1`.
    pub queue_pairs: u32,
    /// Queue pairs, from number 0, that may use the solar profile.
    pub reorder_queue_pairs: u32,
    /// Largest MTU code accepted, 1 (256 bytes) to 5 (4,096 bytes).
    pub max_mtu: u8,
    /// Wire profiles generated, by their code in [`QueuePairContext::profile`].
    pub profiles: BitArr!(for 3, in u8, Lsb0),
}

impl Config {
    /// Everything the block knows, for `queue_pairs` queue pairs, all of which may use solar.
    #[must_use]
    pub fn full(queue_pairs: u32) -> Self {
        let mut profiles = BitArray::ZERO;
        profiles[..Profile::ALL.len()].fill(true);
        Self {
            queue_pairs,
            reorder_queue_pairs: queue_pairs,
            max_mtu: 5,
            profiles,
        }
    }
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        let mut profiles = BitArray::ZERO;
        for profile in &config.wire.profiles {
            profiles.set(usize::from(profile.code()), true);
        }
        Self {
            queue_pairs: config.queue_pairs.count,
            reorder_queue_pairs: config.reorder_queue_pairs(),
            max_mtu: config.max_mtu_code(),
            profiles,
        }
    }
}

/// Counters, as the ports `count_…` of the block. The packets taken are the sum of routes and drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets given to `reorder_buffer`.
    pub sequence: u32,
    /// Packets given to the requester.
    pub feedback: u32,
    /// Probes given.
    pub probe: u32,
    /// Endpoint operations given.
    pub endpoint: u32,
    /// Context writes refused.
    pub drop_context: u32,
    /// Packets dropped, see [`DropReason::QueuePair`].
    pub drop_queue_pair: u32,
    /// Packets dropped, see [`DropReason::Opcode`].
    pub drop_opcode: u32,
    /// Packets dropped, see [`DropReason::State`].
    pub drop_state: u32,
    /// Packets dropped, see [`DropReason::Peer`].
    pub drop_peer: u32,
    /// Packets dropped, see [`DropReason::Partition`].
    pub drop_partition: u32,
}

/// Why a packet was dropped. The checks are made in this order; the first that fails is the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum DropReason {
    /// No such queue pair, or it is not in use.
    #[error("queue pair {qpn} is not in use (the table holds {queue_pairs})")]
    QueuePair {
        /// Queue pair number of the packet.
        qpn: u32,
        /// Size of the table.
        queue_pairs: u32,
    },
    /// An opcode that the queue pair's profile does not have, or an endpoint operation to another number than 2.
    #[error("opcode {opcode:#04x} is not one of queue pair {qpn}'s profile")]
    Opcode {
        /// Queue pair number of the packet.
        qpn: u32,
        /// Opcode of the packet.
        opcode: u8,
    },
    /// The queue pair does not receive such packets in its state.
    #[error("queue pair {qpn} does not take this packet in state {state:?}")]
    State {
        /// Queue pair number of the packet.
        qpn: u32,
        /// Its state.
        state: QueuePairState,
    },
    /// The packet does not come from the queue pair's peer, or goes to another address.
    #[error("queue pair {qpn} does not take packets from {source_ip:#x} to {destination_ip:#x}")]
    Peer {
        /// Queue pair number of the packet.
        qpn: u32,
        /// Source address of the packet.
        source_ip: u128,
        /// Destination address of the packet.
        destination_ip: u128,
    },
    /// The P_Keys do not match.
    #[error("P_Key {found:#06x} does not match {right:#06x} of queue pair {qpn}")]
    Partition {
        /// Queue pair number of the packet.
        qpn: u32,
        /// P_Key of the packet.
        found: u16,
        /// P_Key of the queue pair.
        right: u16,
    },
}

/// Where a packet goes: [`PacketContext::route`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Route {
    /// It takes a PSN of this side's sequence spaces: to `reorder_buffer`.
    Sequence = 0,
    /// It answers the own requester: ACK, NAK, SACK, NACK, CNP; in roce READ responses and atomic ACKs too.
    Feedback = 1,
    /// A reliability probe, to be answered by a SACK.
    Probe = 2,
    /// An endpoint request or response. It has no queue pair, and nothing of it is checked.
    Endpoint = 3,
}

impl Route {
    /// All routes, in the order of their codes.
    pub const ALL: [Self; 4] = [Self::Sequence, Self::Feedback, Self::Probe, Self::Endpoint];

    /// Route and sequence space of a packet of this profile; the space is that of responses if true.
    fn of(operation: Operation, profile: Profile) -> (Self, bool) {
        use Operation::*;
        match operation {
            Send | Write | ReadRequest | CompareSwap | FetchAdd => (Self::Sequence, false),
            ReadResponse | AtomicAcknowledge if profile == Profile::Solar => (Self::Sequence, true),
            ReadResponse | AtomicAcknowledge | Acknowledge | Cnp | Sack | Nack => (Self::Feedback, false),
            Probe => (Self::Probe, false),
            EndpointRequest | EndpointResponse => (Self::Endpoint, false),
        }
    }
}

/// Whether two P_Keys match: the same partition, and one of both a full member (IBA volume 1, section 10.9.3).
#[must_use]
pub fn partition_keys_match(one: u16, other: u16) -> bool {
    (one ^ other) & 0x7FFF == 0 && (one | other) & 0x8000 != 0
}

/// The block: a table of contexts and counters.
#[derive(Debug, Clone)]
pub struct QpLookup {
    config: Config,
    contexts: Vec<QueuePairContext>,
    counters: Counters,
}

impl QpLookup {
    /// The block after reset: all queue pairs are in state RESET, all counters are 0.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            contexts: vec![QueuePairContext::default(); config.queue_pairs as usize],
            counters: Counters::default(),
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The context of a queue pair as it stands.
    #[must_use]
    pub fn context(&self, qpn: u32) -> Option<&QueuePairContext> {
        self.contexts.get(qpn as usize)
    }

    /// Writes a queue pair's context; it holds for every packet taken from then on. Gives what stands in the table
    /// now, for the blocks behind (`m_axis_context`).
    ///
    /// A QPN beyond the table changes nothing and gives nothing. A context that this NIC cannot serve (unknown state;
    /// outside of RESET a profile, MTU, or for solar a number that was not generated) leaves the queue pair in RESET. Both are counted.
    pub fn write_context(&mut self, context: &QueuePairContext) -> Option<QueuePairContext> {
        let served = self.serves(context);
        let written = self.contexts.get_mut(context.qpn as usize).map(|slot| {
            *slot = if served {
                *context
            } else {
                QueuePairContext {
                    qpn: context.qpn,
                    ..QueuePairContext::default()
                }
            };
            *slot
        });
        if written.is_none() || !served {
            self.counters.drop_context = self.counters.drop_context.wrapping_add(1);
        }
        written
    }

    fn serves(&self, context: &QueuePairContext) -> bool {
        match QueuePairState::from_code(context.state) {
            None => false,
            Some(QueuePairState::Reset) => true,
            Some(_) => {
                let profile = Profile::from_code(context.profile)
                    .filter(|profile| self.config.profiles[usize::from(profile.code())]);
                let mtu = mtu_bytes(context.mtu).is_some() && context.mtu <= self.config.max_mtu;
                let reorders = context.qpn < self.config.reorder_queue_pairs;
                mtu && profile.is_some_and(|profile| profile != Profile::Solar || reorders)
            }
        }
    }

    /// Looks a packet up.
    ///
    /// # Errors
    /// The reason why it was dropped; it is counted.
    pub fn look_up(&mut self, packet: &ReceivedPacket) -> Result<PacketContext, DropReason> {
        let found = self.find(packet);
        let counter = match &found {
            Ok(context) => match Route::ALL[usize::from(context.route & 3)] {
                Route::Sequence => &mut self.counters.sequence,
                Route::Feedback => &mut self.counters.feedback,
                Route::Probe => &mut self.counters.probe,
                Route::Endpoint => &mut self.counters.endpoint,
            },
            Err(DropReason::QueuePair { .. }) => &mut self.counters.drop_queue_pair,
            Err(DropReason::Opcode { .. }) => &mut self.counters.drop_opcode,
            Err(DropReason::State { .. }) => &mut self.counters.drop_state,
            Err(DropReason::Peer { .. }) => &mut self.counters.drop_peer,
            Err(DropReason::Partition { .. }) => &mut self.counters.drop_partition,
        };
        *counter = counter.wrapping_add(1);
        found
    }

    fn find(&self, packet: &ReceivedPacket) -> Result<PacketContext, DropReason> {
        let ReceivedPacket { qpn, opcode, .. } = *packet;
        let wrong_opcode = DropReason::Opcode { qpn, opcode };
        let info = Opcode(opcode).info().ok_or(wrong_opcode)?;
        if matches!(info.operation, Operation::EndpointRequest | Operation::EndpointResponse) {
            let endpoint = PacketContext {
                route: Route::Endpoint as u8,
                ..PacketContext::default()
            };
            return (qpn == ENDPOINT_QPN).then_some(endpoint).ok_or(wrong_opcode);
        }
        let state_of = |context: &QueuePairContext| QueuePairState::from_code(context.state);
        let (context, state) = self
            .context(qpn)
            .and_then(|context| Some((context, state_of(context)?)))
            .filter(|(_, state)| *state != QueuePairState::Reset)
            .ok_or(DropReason::QueuePair {
                qpn,
                queue_pairs: self.config.queue_pairs,
            })?;
        let profile = Profile::from_code(context.profile)
            .filter(|profile| has_opcode(*profile, info))
            .ok_or(wrong_opcode)?;
        let (route, responses) = Route::of(info.operation, profile);
        // What answers own requests comes only where requests can have been sent.
        let answers = responses || route == Route::Feedback;
        if !state.receives() || (answers && state != QueuePairState::ReadyToSend) {
            return Err(DropReason::State { qpn, state });
        }
        let addresses = (packet.ipv6, packet.source_ip, packet.destination_ip);
        if addresses != (context.ipv6, context.peer_ip, context.local_ip) {
            return Err(DropReason::Peer {
                qpn,
                source_ip: packet.source_ip,
                destination_ip: packet.destination_ip,
            });
        }
        if !partition_keys_match(packet.partition_key, context.partition_key) {
            return Err(DropReason::Partition {
                qpn,
                found: packet.partition_key,
                right: context.partition_key,
            });
        }
        Ok(PacketContext {
            route: route as u8,
            space: responses,
            profile: context.profile,
            mtu: context.mtu,
            remote_write: context.remote_write,
            remote_read: context.remote_read,
            remote_atomic: context.remote_atomic,
            protection_domain: context.protection_domain,
            ..PacketContext::default()
        })
    }
}

#[cfg(test)]
#[path = "qp_lookup_tests.rs"]
mod tests;
