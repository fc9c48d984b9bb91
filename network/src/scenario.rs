//! What is to happen: NICs, paths, queue pairs, messages, and a script of deaths and revivals. It is data: it can be saved, read and shrunk.

use serde::{Deserialize, Serialize};
use spraynic_config::Profile;
use spraynic_config::descriptor::WorkOpcode;

use crate::path::PathSpec;
use crate::world::Spreading;

/// A whole scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// Preset of the NICs' configuration, and overrides (`key=value`) as on the command line.
    pub preset: String,
    /// See `preset`.
    pub overrides: Vec<String>,
    /// Everything random follows from it.
    pub seed: u64,
    /// NICs.
    pub nics: usize,
    /// Rate of a port, in Mb/s.
    pub port_mbps: u64,
    /// Paths of a plane, the same for each plane and between any two NICs.
    pub paths: Vec<PathSpec>,
    /// The wire from the last switch to a port; its rate is that of the port where it says 0.
    pub downlink: PathSpec,
    /// How frames find their path.
    pub spreading: Spreading,
    /// Entropy values of a set for each path of a plane, and backups of each plane.
    pub values_per_path: usize,
    /// See `values_per_path`.
    pub backups: usize,
    /// Queue pairs.
    pub queue_pairs: Vec<QueuePairSpec>,
    /// Messages; those of one side of a queue pair are posted in this order.
    pub messages: Vec<MessageSpec>,
    /// What happens to paths and ports.
    pub script: Vec<Step>,
    /// All must be done by then, in nanoseconds.
    pub limit_ns: u64,
    /// How long a receive request is posted after there is room for it, in nanoseconds.
    pub receive_delay_ns: u64,
    /// Messages of a side share one buffer, as a benchmark does: memory is compared only once.
    pub shared_buffers: bool,
}

impl Default for Scenario {
    /// Two NICs of preset `lab` with four paths of 1 us.
    fn default() -> Self {
        Self {
            preset: "lab".to_owned(),
            overrides: Vec::new(),
            seed: 1,
            nics: 2,
            port_mbps: 10_000,
            paths: vec![PathSpec::default(); 4],
            downlink: PathSpec {
                delay_ns: 0,
                ..PathSpec::default()
            },
            spreading: Spreading::default(),
            values_per_path: 1,
            backups: 0,
            queue_pairs: vec![QueuePairSpec::default()],
            messages: Vec::new(),
            script: Vec::new(),
            limit_ns: 100_000_000,
            receive_delay_ns: 0,
            shared_buffers: false,
        }
    }
}

/// A queue pair between two NICs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueuePairSpec {
    /// NICs of its two sides.
    pub nics: [usize; 2],
    /// Wire profile.
    pub profile: WireProfile,
    /// MTU in bytes.
    pub mtu: u32,
    /// Network header.
    pub ipv6: bool,
    /// How paths are chosen.
    pub policy: Policy,
    /// Traffic class, 0 to 3.
    pub class: u8,
    /// Share within its class.
    pub weight: u8,
    /// PSNs outstanding; 0: as many as the configuration has.
    pub window: u16,
    /// First PSN of the requests of each side; responses begin 1,000 later.
    pub psn: [u32; 2],
    /// See `SendContext`.
    pub ooo_threshold: u16,
    /// See `SendContext`.
    pub base_rtt_ns: u32,
    /// See `SendContext`.
    pub timeout_ns: u32,
    /// See `SendContext`.
    pub retry_limit: u8,
    /// See `SendContext`.
    pub rnr_retry: u8,
    /// Rate limit in Mb/s; 0: none.
    pub mbps: u64,
}

impl Default for QueuePairSpec {
    fn default() -> Self {
        Self {
            nics: [0, 1],
            profile: WireProfile::Solar,
            mtu: 1024,
            ipv6: false,
            policy: Policy::RoundRobin,
            class: 1,
            weight: 1,
            window: 0,
            psn: [0xFF_FFF0, 0x12_3456],
            ooo_threshold: 1_000,
            base_rtt_ns: 6_000,
            timeout_ns: 100_000,
            retry_limit: 7,
            rnr_retry: 7,
            mbps: 0,
        }
    }
}

/// Wire profile by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WireProfile {
    /// Standard RoCEv2.
    Roce,
    /// Standard opcodes, sprayed.
    Solar,
    /// MRC 1.0.
    Mrc,
}

impl From<WireProfile> for Profile {
    fn from(profile: WireProfile) -> Self {
        match profile {
            WireProfile::Roce => Self::Roce,
            WireProfile::Solar => Self::Solar,
            WireProfile::Mrc => Self::Mrc,
        }
    }
}

/// How paths are chosen, by name: see `SprayPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Policy {
    Fixed,
    Single,
    RoundRobin,
    Random,
    Adaptive,
    Reps,
}

impl Policy {
    /// Its code in `SendContext`.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageSpec {
    /// Queue pair, by its place in the scenario.
    pub queue_pair: usize,
    /// Side that asks: 0 or 1.
    pub side: usize,
    /// What it asks for.
    pub operation: Operation,
    /// Bytes; of no meaning for atomics.
    pub length: u32,
    /// With immediate data (SEND and WRITE).
    #[serde(default)]
    pub immediate: bool,
    /// Behind earlier READs and atomics.
    #[serde(default)]
    pub fence: bool,
    /// Without completion; some are signalled nevertheless, so that the queue goes on.
    #[serde(default)]
    pub unsignalled: bool,
    /// Not before this time, in nanoseconds.
    #[serde(default)]
    pub at_ns: u64,
}

impl MessageSpec {
    /// A message of side 0 of the first queue pair, signalled, posted at once.
    #[must_use]
    pub fn new(operation: Operation, length: u32) -> Self {
        Self {
            queue_pair: 0,
            side: 0,
            operation,
            length,
            immediate: false,
            fence: false,
            unsignalled: false,
            at_ns: 0,
        }
    }
}

/// Operation by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Operation {
    Send,
    Write,
    Read,
    CompareSwap,
    FetchAdd,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Send, Self::Write, Self::Read, Self::CompareSwap, Self::FetchAdd];

    /// As a work request has it.
    #[must_use]
    pub fn opcode(self) -> WorkOpcode {
        match self {
            Self::Send => WorkOpcode::Send,
            Self::Write => WorkOpcode::Write,
            Self::Read => WorkOpcode::Read,
            Self::CompareSwap => WorkOpcode::CompareSwap,
            Self::FetchAdd => WorkOpcode::FetchAdd,
        }
    }

    /// Whether it works on 8 bytes.
    #[must_use]
    pub fn is_atomic(self) -> bool {
        matches!(self, Self::CompareSwap | Self::FetchAdd)
    }
}

/// An entry of the script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// When, in nanoseconds.
    pub at_ns: u64,
    /// What happens.
    pub action: Action,
}

/// What can happen to paths and ports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A path dies or lives, between all NICs in both directions: plane and path.
    Path {
        /// Plane.
        port: usize,
        /// Path of the plane.
        path: usize,
        /// Whether it lives.
        alive: bool,
    },
    /// All paths from one NIC die or live.
    From {
        /// The NIC.
        nic: usize,
        /// Whether they live.
        alive: bool,
    },
    /// The link of a port goes down or comes up.
    Port {
        /// The NIC.
        nic: usize,
        /// Its port.
        port: u8,
        /// Whether it is up.
        up: bool,
    },
    /// A port is paused by the peer of its wire, or no longer.
    Pause {
        /// The NIC.
        nic: usize,
        /// Its port.
        port: u8,
        /// Whether no frame may begin on it.
        paused: bool,
    },
    /// A path becomes another one, between all NICs in both directions.
    Change {
        /// Plane.
        port: usize,
        /// Path of the plane.
        path: usize,
        /// What it is from then on.
        spec: PathSpec,
    },
}
