//! One path of the network, in one direction: it delays, marks, loses, damages and repeats frames, and can die.
//!
//! A path keeps the order of its frames, as a path of a real fabric does; what is reordered is reordered because paths differ. It knows
//! nothing of who sends and who receives.

use serde::{Deserialize, Serialize};
use spraynic_wire::network::{ETHERNET_LENGTH, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN, VLAN_LENGTH};

use crate::time::Picoseconds;

/// What a path is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathSpec {
    /// Propagation delay, in nanoseconds.
    pub delay_ns: u64,
    /// Rate, in Mb/s. 0: without limit.
    pub mbps: u64,
    /// Bytes that its queue holds, without the frame on the wire; a frame that does not fit is lost.
    pub queue_bytes: u64,
    /// Bytes in the queue from which on frames that are ECN-capable get CE. 0: never.
    pub ecn_bytes: u64,
    /// Share of the frames that are lost, damaged, or come twice: one in a million is 1.
    pub loss_ppm: u32,
    /// See `loss_ppm`.
    pub corruption_ppm: u32,
    /// See `loss_ppm`.
    pub duplication_ppm: u32,
    /// Faults of single frames.
    pub faults: Vec<Fault>,
}

impl Default for PathSpec {
    /// 1 us, without limit of rate, without faults.
    fn default() -> Self {
        Self {
            delay_ns: 1_000,
            mbps: 0,
            queue_bytes: u64::MAX,
            ecn_bytes: 0,
            loss_ppm: 0,
            corruption_ppm: 0,
            duplication_ppm: 0,
            faults: Vec::new(),
        }
    }
}

/// What befalls one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Which one: the frames of the path are counted from 0.
    pub frame: u64,
    /// What befalls it.
    pub kind: FaultKind,
}

/// See [`Fault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// It is lost.
    Lose,
    /// A bit of it is turned: the byte modulo its length, the bit modulo 8.
    Corrupt {
        /// Byte of the frame.
        byte: u16,
        /// Bit of the byte.
        bit: u8,
    },
    /// It comes twice.
    Repeat,
    /// It and all behind it on this path come later by so many nanoseconds.
    Hold(u32),
}

/// What a path did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct PathCounters {
    /// Frames offered.
    pub offered: u64,
    /// Frames and bytes that left at the other end, repeated ones included.
    pub delivered: u64,
    /// See `delivered`.
    pub bytes: u64,
    /// Frames lost at random or by a fault.
    pub lost: u64,
    /// Frames lost because the queue was full.
    pub overflowed: u64,
    /// Frames lost because the path was dead.
    pub dead: u64,
    /// Frames damaged.
    pub damaged: u64,
    /// Frames that came twice.
    pub repeated: u64,
    /// Frames that got CE.
    pub marked: u64,
}

impl PathCounters {
    /// Adds what another path did.
    pub fn add(&mut self, other: &Self) {
        let Self {
            offered,
            delivered,
            bytes,
            lost,
            overflowed,
            dead,
            damaged,
            repeated,
            marked,
        } = other;
        self.offered += offered;
        self.delivered += delivered;
        self.bytes += bytes;
        self.lost += lost;
        self.overflowed += overflowed;
        self.dead += dead;
        self.damaged += damaged;
        self.repeated += repeated;
        self.marked += marked;
    }

    /// What befell the frame that was offered since `before`, in words; empty: nothing.
    #[must_use]
    pub fn fate_since(&self, before: &Self) -> String {
        let fates = [
            (self.lost - before.lost, "LOST"),
            (self.overflowed - before.overflowed, "LOST (queue full)"),
            (self.dead - before.dead, "LOST (path is dead)"),
            (self.damaged - before.damaged, "DAMAGED"),
            (self.repeated - before.repeated, "REPEATED"),
            (self.marked - before.marked, "MARKED"),
        ];
        let words = fates.iter().filter(|(count, _)| *count > 0).map(|(_, word)| *word);
        words.collect::<Vec<_>>().join(" ")
    }
}

/// A path and its state.
#[derive(Debug, Clone)]
pub struct Path {
    spec: PathSpec,
    alive: bool,
    random: fastrand::Rng,
    /// When its wire is free.
    free_at: Picoseconds,
    /// No frame arrives before the one before it.
    last_arrival: Picoseconds,
    held: Picoseconds,
    counters: PathCounters,
}

impl Path {
    /// A path that lives. All that it does at random follows from the seed.
    #[must_use]
    pub fn new(spec: PathSpec, seed: u64) -> Self {
        Self {
            spec,
            alive: true,
            random: fastrand::Rng::with_seed(seed),
            free_at: Picoseconds(0),
            last_arrival: Picoseconds(0),
            held: Picoseconds(0),
            counters: PathCounters::default(),
        }
    }

    /// What it did so far.
    #[must_use]
    pub fn counters(&self) -> &PathCounters {
        &self.counters
    }

    /// What it is.
    #[must_use]
    pub fn spec(&self) -> &PathSpec {
        &self.spec
    }

    /// What it is from now on; frames that are under way are not touched.
    pub fn change(&mut self, spec: PathSpec) {
        self.spec = spec;
    }

    /// Kills it or brings it back. Frames under way still arrive.
    pub fn set_alive(&mut self, alive: bool) {
        self.alive = alive;
    }

    /// Bytes that wait for its wire.
    #[must_use]
    pub fn queued_bytes(&self, now: Picoseconds) -> u64 {
        match self.spec.mbps {
            0 => 0,
            mbps => self.free_at.since(now).bytes_at(mbps),
        }
    }

    /// Takes a frame; gives it with the time at which it arrives, twice if it is repeated.
    pub fn send(&mut self, mut frame: Vec<u8>, now: Picoseconds) -> Delivery {
        let number = self.counters.offered;
        self.counters.offered += 1;
        if !self.alive {
            self.counters.dead += 1;
            return Delivery::default();
        }
        let queued = self.queued_bytes(now);
        // The frame at the head is on the wire, not in the queue; what is left of it counts until it is gone.
        if queued > 0 && queued.saturating_add(frame.len() as u64) > self.spec.queue_bytes {
            self.counters.overflowed += 1;
            return Delivery::default();
        }
        if self.spec.ecn_bytes > 0 && queued >= self.spec.ecn_bytes && mark_congestion(&mut frame) {
            self.counters.marked += 1;
        }
        let start = self.free_at.max(now);
        self.free_at = match self.spec.mbps {
            0 => start,
            mbps => start + Picoseconds::of_bytes(wire_bytes(&frame), mbps),
        };
        let fault = self.fault(number);
        if let Some(FaultKind::Hold(ns)) = fault {
            self.held = self.held + Picoseconds::of_ns(ns.into());
        }
        if self.chance(self.spec.loss_ppm) || fault == Some(FaultKind::Lose) {
            self.counters.lost += 1;
            return Delivery::default();
        }
        let random_corruption = self.chance(self.spec.corruption_ppm).then(|| FaultKind::Corrupt {
            byte: self.random.u16(..),
            bit: self.random.u8(..),
        });
        for corruption in [random_corruption, fault].into_iter().flatten() {
            if let FaultKind::Corrupt { byte, bit } = corruption {
                let place = usize::from(byte) % frame.len().max(1);
                if let Some(byte) = frame.get_mut(place) {
                    *byte ^= 1 << (bit % 8);
                }
                self.counters.damaged += 1;
            }
        }
        let repeated = self.chance(self.spec.duplication_ppm) || fault == Some(FaultKind::Repeat);
        self.last_arrival = (self.free_at + Picoseconds::of_ns(self.spec.delay_ns) + self.held).max(self.last_arrival);
        self.counters.repeated += u64::from(repeated);
        self.counters.delivered += 1 + u64::from(repeated);
        self.counters.bytes += frame.len() as u64 * (1 + u64::from(repeated));
        Delivery {
            at: self.last_arrival,
            again: repeated.then(|| frame.clone()),
            frame: Some(frame),
        }
    }

    fn fault(&self, number: u64) -> Option<FaultKind> {
        let fault = self.spec.faults.iter().find(|fault| fault.frame == number)?;
        Some(fault.kind)
    }

    fn chance(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.random.u32(..1_000_000) < ppm
    }
}

/// What arrives of a frame, and when.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Delivery {
    /// When.
    pub at: Picoseconds,
    /// The frame, if it was not lost.
    pub frame: Option<Vec<u8>>,
    /// The same once more.
    pub again: Option<Vec<u8>>,
}

/// Bytes that a frame takes on the wire: padded to 60, with FCS, preamble and gap.
#[must_use]
pub fn wire_bytes(frame: &[u8]) -> u64 {
    frame.len().max(60) as u64 + 24
}

/// Sets CE in a frame whose network header is ECN-capable, and mends the checksum; false: it is not, or there is none.
pub fn mark_congestion(frame: &mut [u8]) -> bool {
    const NOT_CAPABLE: u8 = 0;
    const CE: u8 = 3;
    let ethertype_at = |frame: &[u8], at: usize| {
        let bytes = frame.get(at..at + 2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    };
    let mut network = ETHERNET_LENGTH;
    while ethertype_at(frame, network - 2) == Some(ETHERTYPE_VLAN) {
        network += VLAN_LENGTH;
    }
    match ethertype_at(frame, network - 2) {
        Some(ETHERTYPE_IPV4) if frame.len() >= network + 20 => {
            let header = &mut frame[network..network + 20];
            if header[1] & 3 == NOT_CAPABLE {
                return false;
            }
            header[1] |= CE;
            header[10..12].fill(0);
            let mut whole = [0; 20];
            whole.copy_from_slice(header);
            let checksum = spraynic_wire::network::ipv4_checksum(&whole);
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            true
        }
        Some(ETHERTYPE_IPV6) if frame.len() >= network + 40 => {
            if frame[network + 1] >> 4 & 3 == NOT_CAPABLE {
                return false;
            }
            frame[network + 1] |= CE << 4;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
#[path = "path_tests.rs"]
mod tests;
