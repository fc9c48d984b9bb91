//! The rows of the register map that are neither identification, parameters, words of a descriptor nor counters.
//!
//! A row is: offset, name, role, reset value, doc, and its fields from bit 0 upwards. A register's name is that of its port.

use super::{BitField, Register, Role, Target};
use crate::descriptor::{
    Doorbell, HeaderTemplate, Layout, MemoryRegion, PathEntry, QueuePairContext, RateLimit, ReceiveRequest,
    RequestRing, SendContext, WorkRequest,
};
use crate::{NicConfig, Profile};

macro_rules! targets {
    ($($code:literal $name:ident $descriptor:ident;)*) => {
        /// Where descriptors go, by rising code.
        pub static TARGETS: &[Target] = &[
            $(Target { code: $code, name: stringify!($name), layout: Layout::of::<$descriptor>() },)*
        ];
    };
}

targets! {
    1 queue_pair_context QueuePairContext;
    2 send_context SendContext;
    3 header_template HeaderTemplate;
    4 memory_region MemoryRegion;
    5 rate_limit RateLimit;
    6 path_entry PathEntry;
    7 receive_request ReceiveRequest;
    8 work_request WorkRequest;
    9 request_ring RequestRing;
    10 doorbell Doorbell;
}

/// A row without what the configuration adds.
struct Row {
    offset: u32,
    name: &'static str,
    role: Role,
    /// `None`: it depends on what is outside.
    reset: Option<u32>,
    doc: &'static str,
    /// Name, width in bits, meaning.
    fields: &'static [(&'static str, u32, &'static str)],
}

/// Reset values are the defaults of the golden model's blocks: a test there compares.
static ROWS: &[Row] = &[
    Row {
        offset: 0x200,
        name: "scratch",
        role: Role::Setting,
        reset: Some(0),
        doc: "software's own: nothing depends on it",
        fields: &[("value", 32, "any value")],
    },
    Row {
        offset: 0x204,
        name: "sack_every",
        role: Role::Setting,
        reset: Some(4),
        doc: "a SACK after so many packets",
        fields: &[("packets", 8, "packets; 0 counts as 1")],
    },
    Row {
        offset: 0x208,
        name: "sack_bytes",
        role: Role::Setting,
        reset: Some(0),
        doc: "a SACK after so many bytes of payload",
        fields: &[("bytes", 24, "bytes; 0: bytes do not count")],
    },
    Row {
        offset: 0x20c,
        name: "sack_timer_ns",
        role: Role::Setting,
        reset: Some(4_000),
        doc: "a SACK so long after the first packet that no SACK has reported",
        fields: &[("time", 32, "nanoseconds")],
    },
    Row {
        offset: 0x210,
        name: "cnp_interval_ns",
        role: Role::Setting,
        reset: Some(50_000),
        doc: "shortest time between two CNPs of a queue pair",
        fields: &[("time", 32, "nanoseconds")],
    },
    Row {
        offset: 0x214,
        name: "trimmed_dscp",
        role: Role::Setting,
        reset: Some(0),
        doc: "DSCP that switches give to packets they trim",
        fields: &[("dscp", 6, "DSCP; 0: none")],
    },
    Row {
        offset: 0x218,
        name: "trimmed_last_hop_dscp",
        role: Role::Setting,
        reset: Some(0),
        doc: "DSCP that the last switch gives to packets it trims",
        fields: &[(
            "dscp",
            6,
            "DSCP; 0: none. If both DSCPs are the same, it was the last switch",
        )],
    },
    Row {
        offset: 0x21c,
        name: "class_strict",
        role: Role::Setting,
        reset: Some(0b0001),
        doc: "traffic classes that go before those that are weighted, the lowest number first",
        fields: &[
            ("control", 1, "class 0"),
            ("training", 1, "class 1"),
            ("storage", 1, "class 2"),
            ("management", 1, "class 3"),
        ],
    },
    Row {
        offset: 0x220,
        name: "class_weight",
        role: Role::Setting,
        reset: Some(0x0101_0101),
        doc: "shares of the traffic classes that are not strict, in units of 4,096 bytes a round",
        fields: &[
            ("control", 8, "class 0"),
            ("training", 8, "class 1"),
            ("storage", 8, "class 2"),
            ("management", 8, "class 3"),
        ],
    },
    Row {
        offset: 0x224,
        name: "bad_after",
        role: Role::Setting,
        reset: Some(2),
        doc: "a path is assumed bad after so many losses",
        fields: &[("losses", 7, "losses in its history, 1 to 64; 0 counts as 1")],
    },
    Row {
        offset: 0x228,
        name: "delivered_clears",
        role: Role::Setting,
        reset: Some(1),
        doc: "whether a packet that arrives clears the history of its path",
        fields: &[(
            "clears",
            1,
            "1: a path is assumed bad after bad_after losses with nothing between them",
        )],
    },
    Row {
        offset: 0x22c,
        name: "probe_interval_ns",
        role: Role::Setting,
        reset: Some(20_000),
        doc: "time between two rounds of probes, each of which probes every bad path once",
        fields: &[("time", 32, "nanoseconds, from 1")],
    },
    Row {
        offset: 0x230,
        name: "identification",
        role: Role::Load,
        reset: Some(0),
        doc: "a write sets the identification of the next IPv4 frame; reading gives what was written",
        fields: &[("value", 16, "identification")],
    },
    Row {
        offset: 0x280,
        name: "time_ns_low",
        role: Role::TimeLow,
        reset: None,
        doc: "the NIC's time; reading it keeps the upper half for time_ns_high",
        fields: &[("time", 32, "bits 31:0 of the time in nanoseconds")],
    },
    Row {
        offset: 0x284,
        name: "time_ns_high",
        role: Role::TimeHigh,
        reset: Some(0),
        doc: "the NIC's time when time_ns_low was last read",
        fields: &[("time", 32, "bits 63:32 of the time in nanoseconds")],
    },
    Row {
        offset: 0x288,
        name: "port_up",
        role: Role::Input,
        reset: None,
        doc: "Ethernet ports whose link is up",
        fields: &[("ports", PORTS, "a bit for each port")],
    },
    Row {
        offset: 0x28c,
        name: "port_pause",
        role: Role::Input,
        reset: None,
        doc: "Ethernet ports that may not send now, as their MAC says",
        fields: &[("ports", PORTS, "a bit for each port")],
    },
    Row {
        offset: 0x290,
        name: FREE_SLOTS,
        role: Role::Input,
        reset: None,
        doc: "slots of the reorder buffer that hold no packet",
        fields: &[("slots", 16, "slots of receive.pool_slots")],
    },
    Row {
        offset: 0x2c0,
        name: "descriptor_commit",
        role: Role::Commit,
        reset: Some(0),
        doc: "a write sends the words from 0x300 on as a descriptor; refused while descriptor_status is busy, and for an unknown target",
        fields: &[("target", 4, "where it goes; reading gives the last target")],
    },
    Row {
        offset: 0x2c4,
        name: "descriptor_status",
        role: Role::CommitStatus,
        reset: Some(0),
        doc: "whether the last descriptor that was sent is still waiting",
        fields: &[(
            "busy",
            1,
            "it waits: writes of the descriptor and of descriptor_commit are refused",
        )],
    },
];

/// A width that stands for one bit a port.
const PORTS: u32 = 0;

/// Only solar has slots.
const FREE_SLOTS: &str = "free_slots";

/// The rows for a configuration.
pub(super) fn rows(config: &NicConfig) -> impl Iterator<Item = Register> {
    let solar = config.wire.profiles.contains(&Profile::Solar);
    let ports = config.paths.ports;
    ROWS.iter()
        .filter(move |row| solar || row.name != FREE_SLOTS)
        .map(move |row| {
            let mut lsb = 0;
            let fields = row.fields.iter().map(|(name, width, doc)| {
                let width = if *width == PORTS { ports } else { *width };
                lsb += width;
                BitField {
                    name: (*name).to_owned(),
                    lsb: lsb - width,
                    width,
                    doc: (*doc).to_owned(),
                }
            });
            Register {
                name: row.name.to_owned(),
                offset: row.offset,
                role: row.role,
                reset: row.reset,
                doc: row.doc.to_owned(),
                fields: fields.collect(),
            }
        })
}
