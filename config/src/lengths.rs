//! What follows from a configuration: widths, and the header lengths that can occur on the wire.

use std::collections::BTreeSet;

use crate::{NicConfig, Operation, Profile};

/// Ethernet header without a tag, in bytes.
pub const ETHERNET_BYTES: u32 = 14;
/// VLAN tag (IEEE 802.1Q), in bytes.
pub const VLAN_BYTES: u32 = 4;
/// IPv4 header without options, in bytes.
pub const IPV4_BYTES: u32 = 20;
/// IPv6 header, in bytes.
pub const IPV6_BYTES: u32 = 40;
/// UDP header, in bytes.
pub const UDP_BYTES: u32 = 8;
/// Base transport header (IBA 9.2), in bytes.
pub const BTH_BYTES: u32 = 12;
/// Invariant CRC (IBA 7.8.1), in bytes.
pub const ICRC_BYTES: u32 = 4;

/// Extension headers, in bytes (IBA 9.3 to 9.9; MRC 1.0).
mod extension {
    pub(super) const RETH: u32 = 16;
    pub(super) const AETH: u32 = 4;
    pub(super) const IMMDT: u32 = 4;
    pub(super) const IETH: u32 = 4;
    pub(super) const ATOMIC_ETH: u32 = 28;
    pub(super) const ATOMIC_ACK_ETH: u32 = 8;
    /// The sixteen zero bytes of a CNP (IBA annex A17).
    pub(super) const CNP: u32 = 16;
    pub(super) const METH: u32 = 4;
    pub(super) const TSETH: u32 = 4;
    pub(super) const SETH: u32 = 28;
    pub(super) const CC_STATE: u32 = 8;
    pub(super) const NETH: u32 = 20;
    pub(super) const PETH: u32 = 16;
    pub(super) const ERTH: u32 = 16;
    pub(super) const EETH: u32 = 36;
}

impl NicConfig {
    /// Bytes of one beat of the data bus.
    #[must_use]
    pub fn beat_bytes(&self) -> u32 {
        self.datapath.width_bits / 8
    }

    /// Bits that number the queue pairs of this NIC.
    #[must_use]
    pub fn qpn_bits(&self) -> u32 {
        self.queue_pairs.count.trailing_zeros()
    }

    /// Whether queue pairs may use this profile.
    #[must_use]
    pub fn has_profile(&self, profile: Profile) -> bool {
        self.wire.profiles.contains(&profile)
    }

    /// Whether work requests may ask for this operation.
    #[must_use]
    pub fn has_operation(&self, operation: Operation) -> bool {
        self.wire.operations.contains(&operation)
    }

    /// Whether a profile with the standard RC opcodes (roce, solar) is there.
    #[must_use]
    pub fn has_standard_opcodes(&self) -> bool {
        self.has_profile(Profile::Roce) || self.has_profile(Profile::Solar)
    }

    /// Largest code of `SliceContext::mtu` that is allowed: 1 is 256 bytes, 5 is 4096.
    #[must_use]
    pub fn max_mtu_code(&self) -> u8 {
        (1..=5).rev().find(|code| 128 << code <= self.wire.max_mtu).unwrap_or(1)
    }

    /// Beats that the frame FIFO holds.
    #[must_use]
    pub fn frame_fifo_beats(&self) -> u32 {
        self.transmit.frame_fifo_bytes / self.beat_bytes()
    }

    /// Queue pairs, from number 0, that may use the solar profile: none without it.
    #[must_use]
    pub fn reorder_queue_pairs(&self) -> u32 {
        if self.has_profile(Profile::Solar) {
            self.receive.reorder_queue_pairs.min(self.queue_pairs.count)
        } else {
            0
        }
    }

    /// Queue pairs, from number 0, that can send.
    #[must_use]
    pub fn send_queue_pairs(&self) -> u32 {
        self.send.queue_pairs.min(self.queue_pairs.count)
    }

    /// Bytes of the reorder buffer's pool: a slot holds the payload of the largest MTU. None without solar.
    #[must_use]
    pub fn pool_bytes(&self) -> u64 {
        match self.reorder_queue_pairs() {
            0 => 0,
            _ => u64::from(self.receive.pool_slots) * u64::from(self.wire.max_mtu),
        }
    }

    /// Lengths in bytes that all extension headers of a packet that may carry payload can have together.
    #[must_use]
    pub fn payload_extension_lengths(&self) -> BTreeSet<u32> {
        use extension::{AETH, IETH, IMMDT, METH, RETH, TSETH};
        let mut lengths = BTreeSet::new();
        if self.has_standard_opcodes() {
            for operation in &self.wire.operations {
                match operation {
                    Operation::Send => lengths.extend([0]),
                    Operation::SendImmediate => lengths.extend([IMMDT]),
                    Operation::SendInvalidate => lengths.extend([IETH]),
                    Operation::Write => lengths.extend([0, RETH]),
                    Operation::WriteImmediate => lengths.extend([IMMDT, RETH + IMMDT]),
                    // READ responses: an AETH in the first, last and only one, nothing in those between.
                    Operation::Read => lengths.extend([0, AETH]),
                    Operation::Atomic => {}
                }
            }
        }
        if self.has_profile(Profile::Mrc) {
            for timestamp in [0, TSETH] {
                if self.has_operation(Operation::Write) {
                    lengths.insert(METH + timestamp + RETH);
                }
                if self.has_operation(Operation::WriteImmediate) {
                    lengths.insert(METH + timestamp + RETH + IMMDT);
                }
            }
        }
        lengths
    }

    /// Lengths in bytes that all extension headers of a packet can have together: multiples of 4.
    #[must_use]
    pub fn extension_lengths(&self) -> BTreeSet<u32> {
        use extension::{AETH, ATOMIC_ACK_ETH, ATOMIC_ETH, CC_STATE, CNP, EETH, ERTH, NETH, PETH, RETH, SETH};
        let mut lengths = self.payload_extension_lengths();
        if self.has_standard_opcodes() {
            if self.has_operation(Operation::Read) {
                lengths.insert(RETH);
            }
            if self.has_operation(Operation::Atomic) {
                lengths.extend([ATOMIC_ETH, AETH + ATOMIC_ACK_ETH]);
            }
        }
        if self.wire.control {
            lengths.extend([AETH, CNP]);
            if self.has_profile(Profile::Solar) || self.has_profile(Profile::Mrc) {
                lengths.extend([SETH + CC_STATE, NETH, PETH, ERTH, EETH]);
            }
        }
        lengths
    }

    /// Lengths in bytes that all headers of a frame can have together, from Ethernet to the last extension header:
    /// always 2 modulo 4.
    #[must_use]
    pub fn header_lengths(&self) -> BTreeSet<u32> {
        self.with_lower_headers(&self.extension_lengths())
    }

    /// Bytes of the longest frame: headers, payload of the largest MTU and ICRC, without the MAC's FCS.
    #[must_use]
    pub fn max_frame_bytes(&self) -> u32 {
        let headers = self.with_lower_headers(&self.payload_extension_lengths());
        headers.last().copied().unwrap_or(0) + self.wire.max_mtu + ICRC_BYTES
    }

    fn with_lower_headers(&self, extensions: &BTreeSet<u32>) -> BTreeSet<u32> {
        let tags = [Some(0), self.wire.vlan.then_some(VLAN_BYTES)];
        let networks = [
            self.wire.ipv4.then_some(IPV4_BYTES),
            self.wire.ipv6.then_some(IPV6_BYTES),
        ];
        let mut lengths = BTreeSet::new();
        for tag in tags.into_iter().flatten() {
            for network in networks.into_iter().flatten() {
                let lower = ETHERNET_BYTES + tag + network + UDP_BYTES + BTH_BYTES;
                lengths.extend(extensions.iter().map(|extension| lower + extension));
            }
        }
        lengths
    }
}
