//! Every parameter of the NIC, once: this table is the struct, its TOML, its documentation and its checks.
//!
//! To add a parameter, add its row; to add a section, add a block. Nothing else lists them.
//! A row is: name, type, allowed values, unit, default of each preset (lab, 25g, 100g, 400g), and what it does.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::error::{ConfigError, Origin};
use crate::value::{Allowed, FieldType, Value};
use crate::{Operation, Preset, Profile};

/// A row of the table of parameters.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Full key: `section.name`, or `name` alone outside a section.
    pub key: &'static str,
    /// Section; empty outside one.
    pub section: &'static str,
    /// Unit; empty where there is none.
    pub unit: &'static str,
    /// Values that are allowed.
    pub allowed: Allowed,
    /// What the parameter does.
    pub effect: &'static str,
    default: fn(Preset) -> Value,
}

impl Parameter {
    /// The row of a key.
    #[must_use]
    pub fn find(key: &str) -> Option<&'static Self> {
        PARAMETERS.iter().find(|parameter| parameter.key == key)
    }

    /// The key without its section.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.key.rsplit('.').next().unwrap_or(self.key)
    }

    /// The preset's value.
    #[must_use]
    pub fn default(&self, preset: Preset) -> Value {
        (self.default)(preset)
    }

    /// Allowed values and unit, as the end of a sentence that begins "it must be".
    #[must_use]
    pub fn range(&self) -> String {
        match self.unit {
            "" => self.allowed.to_string(),
            unit => format!("{} ({unit})", self.allowed),
        }
    }
}

/// A section of the table of parameters.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// Name, as in TOML.
    pub name: &'static str,
    /// What its parameters govern.
    pub doc: &'static str,
}

fn of_preset<T: Clone>(defaults: &[T; 4], preset: Preset) -> T {
    match preset {
        Preset::Lab => defaults[0].clone(),
        Preset::G25 => defaults[1].clone(),
        Preset::G100 => defaults[2].clone(),
        Preset::G400 => defaults[3].clone(),
    }
}

fn every<T: Clone + Ord>(all: &[T]) -> [BTreeSet<T>; 4] {
    std::array::from_fn(|_| all.iter().cloned().collect())
}

fn take<T: FieldType>(values: &BTreeMap<&'static str, Value>, key: &'static str) -> Result<T, ConfigError> {
    values.get(key).and_then(T::from_value).ok_or_else(|| {
        let allowed = Parameter::find(key).map_or_else(String::new, Parameter::range);
        let value = values.get(key).map_or_else(|| "missing".to_owned(), Value::to_string);
        ConfigError::OutOfRange {
            key,
            value,
            allowed,
            origin: Origin::Field,
        }
    })
}

macro_rules! parameters {
    (
        { $($top:ident: $top_ty:ty = $top_allowed:expr, $top_unit:literal, $top_default:expr, $top_effect:literal;)* }
        $(
            $section:ident: $section_ty:ident, $section_doc:literal {
                $($field:ident: $ty:ty = $allowed:expr, $unit:literal, $default:expr, $effect:literal;)*
            }
        )*
    ) => {
        /// Parameters of a NIC. Built by [`crate::Source::resolve`] or [`NicConfig::preset`]; whoever changes a field
        /// calls [`NicConfig::validate`] before using it.
        #[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct NicConfig {
            $(#[doc = $top_effect] pub $top: $top_ty,)*
            $(#[doc = $section_doc] pub $section: $section_ty,)*
        }

        $(
            #[doc = $section_doc]
            #[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
            #[serde(deny_unknown_fields)]
            pub struct $section_ty {
                $(#[doc = $effect] pub $field: $ty,)*
            }
        )*

        /// All parameters, in the order in which they are printed.
        pub static PARAMETERS: &[Parameter] = &[
            $(Parameter {
                key: stringify!($top),
                section: "",
                unit: $top_unit,
                allowed: $top_allowed,
                effect: $top_effect,
                default: |preset| { let defaults: [$top_ty; 4] = $top_default; of_preset(&defaults, preset).to_value() },
            },)*
            $($(Parameter {
                key: concat!(stringify!($section), ".", stringify!($field)),
                section: stringify!($section),
                unit: $unit,
                allowed: $allowed,
                effect: $effect,
                default: |preset| { let defaults: [$ty; 4] = $default; of_preset(&defaults, preset).to_value() },
            },)*)*
        ];

        /// All sections, in the order in which they are printed.
        pub static SECTIONS: &[Section] = &[$(Section { name: stringify!($section), doc: $section_doc },)*];

        impl NicConfig {
            /// The values by key, in the order of [`PARAMETERS`].
            #[must_use]
            pub fn values(&self) -> Vec<(&'static str, Value)> {
                vec![
                    $((stringify!($top), self.$top.to_value()),)*
                    $($((concat!(stringify!($section), ".", stringify!($field)), self.$section.$field.to_value()),)*)*
                ]
            }

            /// Builds the struct from checked values.
            pub(crate) fn from_values(values: &BTreeMap<&'static str, Value>) -> Result<Self, ConfigError> {
                Ok(Self {
                    $($top: take(values, stringify!($top))?,)*
                    $($section: $section_ty {
                        $($field: take(values, concat!(stringify!($section), ".", stringify!($field)))?,)*
                    },)*
                })
            }

            /// The values of a preset.
            #[must_use]
            pub fn preset(preset: Preset) -> Self {
                Self {
                    $($top: { let defaults: [$top_ty; 4] = $top_default; of_preset(&defaults, preset) },)*
                    $($section: $section_ty {
                        $($field: { let defaults: [$ty; 4] = $default; of_preset(&defaults, preset) },)*
                    },)*
                }
            }
        }
    };
}

parameters! {
    {
        name: String = Allowed::Name, "",
            ["lab", "25g", "100g", "400g"].map(String::from),
            "Name of the NIC, in the README and the comments of what is generated.";
    }
    datapath: Datapath, "The data bus that all blocks share." {
        width_bits: u32 = Allowed::Choice(&[64, 128, 256, 512, 1024]), "bits",
            [64, 128, 512, 1024],
            "Width of every packet stream. Logic grows with it; bandwidth is width times clock.";
        clock_khz: u32 = Allowed::Range { min: 1_000, max: 1_000_000 }, "kHz",
            [156_250, 200_000, 250_000, 425_000],
            "Frequency of `clk`. It sets the period in the constraints and the line rate that is stated; no logic depends on it.";
        port_mbps: u32 = Allowed::Range { min: 1_000, max: 800_000 }, "Mb/s",
            [10_000, 25_000, 100_000, 400_000],
            "Rate of the Ethernet port. It is compared with what width and clock carry, for each frame size, in the generated README; no logic depends on it.";
    }
    queue_pairs: QueuePairs, "Queue pairs and their tables." {
        count: u32 = Allowed::PowerOfTwo { min: 2, max: 65_536 }, "queue pairs",
            [16, 256, 1024, 4096],
            "Queue pairs of the NIC. Block RAM of the context and header-template tables grows with it.";
    }
    wire: Wire, "What can stand on the wire: header lengths that cannot occur are left out of the logic." {
        profiles: BTreeSet<Profile> = Allowed::Set(Profile::NAMES), "",
            every(Profile::ALL),
            "Wire profiles; each queue pair chooses one of them.";
        operations: BTreeSet<Operation> = Allowed::Set(Operation::NAMES), "",
            every(Operation::ALL),
            "Operations that a work request may ask for; another one is dropped and counted.";
        control: bool = Allowed::Flag, "",
            [true; 4],
            "Control packets (ACK, CNP; SACK, NACK and probes of solar and mrc) can be built by the transmit path. The receive path gives their descriptors in any case.";
        ipv4: bool = Allowed::Flag, "",
            [true; 4],
            "Frames with IPv4 can be built.";
        ipv6: bool = Allowed::Flag, "",
            [true; 4],
            "Frames with IPv6 can be built.";
        vlan: bool = Allowed::Flag, "",
            [true; 4],
            "Frames with a VLAN tag can be built.";
        max_mtu: u32 = Allowed::PowerOfTwo { min: 256, max: 4096 }, "bytes of payload",
            [1024, 4096, 4096, 4096],
            "Largest path MTU that a queue pair may use. The frame FIFO must hold two frames of it.";
    }
    transmit: Transmit, "Buffers of the transmit path." {
        descriptor_fifo_depth: u32 = Allowed::PowerOfTwo { min: 4, max: 4096 }, "packets",
            [16, 32, 64, 256],
            "Packets whose payload is under way from memory. For line rate it covers memory latency times packet rate.";
        payload_ahead_bytes: u32 = Allowed::PowerOfTwo { min: 1024, max: 1_048_576 }, "bytes",
            [4096, 16_384, 32_768, 131_072],
            "spraynic_nic: payload under way from memory; a packet that is decided on waits behind so much, a retransmission too. For line rate it covers memory latency times rate.";
        control_fifo_depth: u32 = Allowed::PowerOfTwo { min: 4, max: 4096 }, "packets",
            [16, 16, 32, 64],
            "Control packets that wait for the packet on the bus to end.";
        frame_fifo_bytes: u32 = Allowed::PowerOfTwo { min: 1024, max: 1_048_576 }, "bytes",
            [4096, 16_384, 16_384, 32_768],
            "Store-and-forward FIFO before the port: a frame leaves when it is whole, so it must hold two of the largest.";
    }
    receive: Receive, "Windows, tables and the pool of the receive path: it is generated by `--block receive_pipeline`." {
        window: u32 = Allowed::PowerOfTwo { min: 64, max: 1024 }, "packets",
            [128, 128, 256, 512],
            "PSNs that a solar or mrc queue pair accepts from the oldest one that has not left the reorder buffer. mrc wants multiples of 128.";
        pool_slots: u32 = Allowed::PowerOfTwo { min: 64, max: 32_768 }, "packets",
            [256, 256, 512, 1024],
            "Packets of the largest MTU that the reorder buffer holds for all queue pairs together, in block RAM. It holds the guarantees and one window.";
        reorder_queue_pairs: u32 = Allowed::PowerOfTwo { min: 2, max: 65_536 }, "queue pairs",
            [16, 64, 128, 256],
            "Queue pairs, from number 0, that may use the solar profile, as far as queue_pairs.count goes; each has two maps from PSN to slot in block RAM.";
        guaranteed_slots: u32 = Allowed::Range { min: 1, max: 64 }, "packets",
            [1, 2, 2, 2],
            "Slots of the pool that other queue pairs cannot take, for each queue pair that may use the solar profile.";
        memory_regions: u32 = Allowed::PowerOfTwo { min: 2, max: 65_536 }, "regions",
            [64, 1024, 4096, 16_384],
            "Memory regions that peers may reach by R_Key. Block RAM of their table grows with it.";
        receive_requests: u32 = Allowed::PowerOfTwo { min: 2, max: 1024 }, "receive requests",
            [16, 8, 4, 4],
            "Receive requests that a queue pair holds for messages to come. Block RAM grows with it times queue_pairs.count.";
        outstanding_writes: u32 = Allowed::PowerOfTwo { min: 8, max: 4096 }, "packets",
            [32, 64, 128, 512],
            "Packets whose writes memory has not acknowledged. For line rate it covers memory latency times packet rate.";
        stored_atomics: u32 = Allowed::PowerOfTwo { min: 1, max: 16 }, "answers",
            [4, 4, 4, 4],
            "roce: answers of atomics that are kept for each queue pair, for their duplicates.";
    }
    send: Send, "Windows and queues of the sending side, from work request to last acknowledgement." {
        queue_pairs: u32 = Allowed::PowerOfTwo { min: 2, max: 65_536 }, "queue pairs",
            [16, 64, 128, 256],
            "Queue pairs, from number 0, that can send, as far as queue_pairs.count goes. Block RAM of the windows and of the send queues grows with it.";
        window: u32 = Allowed::PowerOfTwo { min: 64, max: 1024 }, "packets",
            [128, 128, 256, 512],
            "PSNs that a queue pair may have outstanding in a sequence space: each has a record in RAM with its path, its time and its state.";
        work_requests: u32 = Allowed::PowerOfTwo { min: 2, max: 256 }, "work requests",
            [16, 16, 16, 32],
            "Work requests that a queue pair holds, from being posted to their completion.";
        reads: u32 = Allowed::PowerOfTwo { min: 1, max: 16 }, "requests",
            [4, 4, 8, 8],
            "READs and atomics that a queue pair may have outstanding, and READs of its peer that it answers at a time.";
    }
    paths: Paths, "Sets of paths over which packets are sprayed." {
        ports: u32 = Allowed::Range { min: 1, max: 8 }, "ports",
            [1, 1, 2, 2],
            "Ethernet ports (planes).";
        sets: u32 = Allowed::PowerOfTwo { min: 1, max: 4096 }, "sets",
            [4, 16, 32, 64],
            "Sets of paths; a queue pair uses one, and several may share it.";
        entries: u32 = Allowed::PowerOfTwo { min: 8, max: 256 }, "paths",
            [16, 32, 64, 128],
            "Entropy values of a set.";
    }
}
