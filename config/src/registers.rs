//! The registers of a NIC: what software reads and writes over AXI4-Lite, as one table.
//!
//! [`RegisterMap`] is the whole of it: `register_file` (golden model and RTL) takes addresses, widths and reset values from it, and SystemRDL,
//! C header, Markdown and JSON are printed from it. The rows stand in `table.rs`; parameters come from [`crate::PARAMETERS`], counters from
//! the blocks that have them. It never decides what a block does with a setting.

mod c_header;
mod json;
mod markdown;
mod rdl;
mod table;

use std::collections::BTreeSet;

use crate::descriptor::Layout;
use crate::{Allowed, NicConfig, PARAMETERS, Parameter, Value};

pub use table::TARGETS;

/// Bytes of a register, and of a transfer.
pub const REGISTER_BYTES: u32 = 4;

/// Bits of a byte address: the registers take 64 KiB.
pub const ADDRESS_BITS: u32 = 16;

/// First byte that holds registers in the order of [`crate::PARAMETERS`].
pub const PARAMETERS_OFFSET: u32 = 0x100;

/// First byte of the words of a descriptor.
pub const DESCRIPTOR_OFFSET: u32 = 0x300;

/// First byte that holds counters: a page of their own, which can be mapped without the others.
pub const COUNTERS_OFFSET: u32 = 0x1000;

/// `magic`: the bytes "SPRY".
pub const MAGIC: u32 = u32::from_le_bytes(*b"SPRY");

/// Registers that hold the name of the NIC.
const NAME_WORDS: usize = 8;

/// What software may do with a register. What it may not do is answered by SLVERR and has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read.
    ReadOnly,
    /// Read and write.
    ReadWrite,
}

/// What stands behind a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// A value that is known when the NIC is generated.
    Constant(u32),
    /// The input port of the register's name, as it is when it is read.
    Input,
    /// A value that software sets: the output port of the register's name.
    Setting,
    /// A setting whose writes are told: the output port `NAME_load` is 1 for a clock, in which the new value is on the port `NAME`.
    Load,
    /// Bits 31:0 of `time_ns`; reading them keeps bits 63:32 for [`Role::TimeHigh`].
    TimeLow,
    /// Bits 63:32 of `time_ns` at the last read of [`Role::TimeLow`].
    TimeHigh,
    /// This word of the descriptor to be written.
    Descriptor(u32),
    /// Writing it sends the descriptor: the code of a [`Target`].
    Commit,
    /// Whether the last descriptor is still waiting.
    CommitStatus,
    /// The input port `count_NAME`.
    Counter,
    /// A counter of `register_file` itself.
    OwnCounter(OwnCounter),
}

/// The counters of `register_file`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OwnCounter {
    /// Descriptors that were sent.
    Descriptors,
    /// Writes that were answered by SLVERR.
    RefusedWrites,
    /// Reads that were answered by SLVERR.
    RefusedReads,
}

impl OwnCounter {
    /// All, in the order of their registers.
    pub const ALL: [Self; 3] = [Self::Descriptors, Self::RefusedWrites, Self::RefusedReads];

    /// The name, without the block's.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Descriptors => "descriptors",
            Self::RefusedWrites => "refused_writes",
            Self::RefusedReads => "refused_reads",
        }
    }

    /// What it counts.
    #[must_use]
    pub fn doc(self) -> &'static str {
        match self {
            Self::Descriptors => "descriptors that were committed and taken",
            Self::RefusedWrites => "writes that were answered by SLVERR",
            Self::RefusedReads => "reads that were answered by SLVERR",
        }
    }
}

/// Bits of a register with one meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BitField {
    /// Name.
    pub name: String,
    /// Lowest bit.
    pub lsb: u32,
    /// Width in bits.
    pub width: u32,
    /// What it means, with its unit.
    pub doc: String,
}

/// A register of 32 bits. Bits that no field has read as 0; what is written to them is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Register {
    /// Name, as in the ports, the C header and the documentation.
    pub name: String,
    /// Byte offset, a multiple of 4.
    pub offset: u32,
    /// What stands behind it.
    pub role: Role,
    /// Value after reset; `None` where it depends on what is outside.
    pub reset: Option<u32>,
    /// What it is.
    pub doc: String,
    /// Its fields, the lowest first.
    pub fields: Vec<BitField>,
}

impl Register {
    /// What software may do with it.
    #[must_use]
    pub fn access(&self) -> Access {
        match self.role {
            Role::Setting | Role::Load | Role::Descriptor(_) | Role::Commit => Access::ReadWrite,
            _ => Access::ReadOnly,
        }
    }

    /// Bits up to the highest one of a field: the width of its port.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.fields
            .iter()
            .map(|field| field.lsb + field.width)
            .max()
            .unwrap_or(0)
    }

    /// The bits that a field has.
    #[must_use]
    pub fn mask(&self) -> u32 {
        let of = |field: &BitField| (u64::MAX >> (64 - field.width)) << field.lsb;
        self.fields.iter().fold(0, |mask, field| mask | of(field) as u32)
    }

    /// The port whose value it is, where it has one.
    #[must_use]
    pub fn port(&self) -> Option<String> {
        match self.role {
            Role::Input | Role::Setting | Role::Load => Some(self.name.clone()),
            Role::Counter => Some(format!("count_{}", self.name)),
            _ => None,
        }
    }

    /// Whether it counts.
    #[must_use]
    pub fn is_counter(&self) -> bool {
        matches!(self.role, Role::Counter | Role::OwnCounter(_))
    }
}

/// A counter of a block, as its port says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterPort {
    /// Name of the port without `count_`.
    pub name: String,
    /// What it counts.
    pub doc: String,
}

/// A table that descriptors are written to, or a queue that takes them.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// What is written to `descriptor_commit`. 1 to 15, never given to another one.
    pub code: u32,
    /// Name: the stream is `m_axis_NAME`.
    pub name: &'static str,
    /// The descriptor.
    pub layout: Layout,
}

impl Target {
    /// Registers that the descriptor takes.
    #[must_use]
    pub fn words(&self) -> u32 {
        self.layout.bytes().div_ceil(REGISTER_BYTES)
    }

    /// The stream on which it leaves.
    #[must_use]
    pub fn stream(&self) -> String {
        format!("m_axis_{}", self.name)
    }
}

/// The registers of a NIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterMap {
    /// Name of the NIC.
    pub name: String,
    /// All registers, by rising offset.
    pub registers: Vec<Register>,
}

impl RegisterMap {
    /// The registers of a NIC of this configuration whose blocks have these counters.
    ///
    /// # Panics
    /// When two registers have the same name, or more counters are given than the 64 KiB hold.
    #[must_use]
    pub fn new(config: &NicConfig, counters: &[CounterPort]) -> Self {
        let mut registers = identification(config, OwnCounter::ALL.len() + counters.len());
        registers.extend(parameters(config));
        registers.extend(table::rows(config));
        registers.extend(descriptor_words());
        let own = OwnCounter::ALL.map(|counter| {
            let name = format!("register_file_{}", counter.name());
            (name, Role::OwnCounter(counter), counter.doc().to_owned())
        });
        let others = counters
            .iter()
            .map(|counter| (counter.name.clone(), Role::Counter, counter.doc.clone()));
        for (place, (name, role, doc)) in own.into_iter().chain(others).enumerate() {
            let offset = COUNTERS_OFFSET + REGISTER_BYTES * place as u32;
            let reset = Some(0);
            registers.push(single(name, offset, role, reset, 32, doc));
        }
        let map = Self {
            name: config.name.clone(),
            registers,
        };
        map.check();
        map
    }

    fn check(&self) {
        let names: BTreeSet<&str> = self.registers.iter().map(|register| register.name.as_str()).collect();
        assert_eq!(names.len(), self.registers.len(), "two registers have the same name");
        for pair in self.registers.windows(2) {
            let (one, next) = (&pair[0], &pair[1]);
            assert!(one.offset < next.offset, "{} and {} overlap", one.name, next.name);
        }
        let last = self.registers.last().map_or(0, |register| register.offset);
        assert!(last < 1 << ADDRESS_BITS, "the registers take more than 64 KiB");
    }

    /// The register of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Register> {
        self.registers.iter().find(|register| register.name == name)
    }

    /// The register that holds the byte at this offset.
    #[must_use]
    pub fn at(&self, offset: u32) -> Option<&Register> {
        let aligned = offset / REGISTER_BYTES * REGISTER_BYTES;
        self.registers
            .binary_search_by_key(&aligned, |register| register.offset)
            .ok()
            .map(|place| &self.registers[place])
    }

    /// Registers that hold the words of a descriptor: as many as the longest one has.
    #[must_use]
    pub fn descriptor_words(&self) -> u32 {
        longest_descriptor()
    }
}

fn longest_descriptor() -> u32 {
    TARGETS.iter().map(Target::words).max().unwrap_or(0)
}

/// A register that is one field.
fn single(name: String, offset: u32, role: Role, reset: Option<u32>, width: u32, doc: String) -> Register {
    let field = BitField {
        name: "value".to_owned(),
        lsb: 0,
        width,
        doc: doc.clone(),
    };
    Register {
        name,
        offset,
        role,
        reset,
        doc,
        fields: vec![field],
    }
}

fn constant(name: &str, offset: u32, value: u32, doc: &str) -> Register {
    let role = Role::Constant(value);
    single(name.to_owned(), offset, role, Some(value), 32, doc.to_owned())
}

/// The version of the generator: major in bits 31:24, minor in 23:16, patch in 15:0.
fn version() -> u32 {
    let number = |text: &str| text.parse::<u32>().unwrap_or(0);
    number(env!("CARGO_PKG_VERSION_MAJOR")) << 24
        | (number(env!("CARGO_PKG_VERSION_MINOR")) & 0xff) << 16
        | (number(env!("CARGO_PKG_VERSION_PATCH")) & 0xffff)
}

fn identification(config: &NicConfig, counters: usize) -> Vec<Register> {
    let hash = crc32fast::hash(config.to_commented_toml().as_bytes());
    let mut registers = vec![
        constant(
            "magic",
            0x000,
            MAGIC,
            "the bytes \"SPRY\": there is a NIC of spraynic here",
        ),
        Register {
            fields: [("patch", 0, 16), ("minor", 16, 8), ("major", 24, 8)]
                .map(|(name, lsb, width)| BitField {
                    name: name.to_owned(),
                    lsb,
                    width,
                    doc: format!("{name} version"),
                })
                .into(),
            ..constant("version", 0x004, version(), "version of the generator")
        },
        constant(
            "configuration",
            0x008,
            hash,
            "CRC-32 (IEEE 802.3) of config.toml as it was generated: the same number as in spraynic.manifest",
        ),
        constant("counters", 0x00c, counters as u32, "counters from 0x1000 on"),
    ];
    let bytes = config.name.as_bytes();
    registers.extend((0..NAME_WORDS).map(|word| {
        let byte = |lane: usize| bytes.get(4 * word + lane).copied().unwrap_or(0);
        let value = u32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)]);
        let doc = format!(
            "characters {} to {} of the NIC's name, the first one in bits 7:0; zero behind its end",
            4 * word,
            4 * word + 3
        );
        constant(
            &format!("name_{word}"),
            0x010 + REGISTER_BYTES * word as u32,
            value,
            &doc,
        )
    }));
    registers
}

/// A parameter as a number, and how: a set has a bit for each of its names.
fn parameter(parameter: &Parameter, value: &Value) -> Option<(u32, String)> {
    match (value, parameter.allowed) {
        (Value::Integer(number), _) => Some((u32::try_from(*number).ok()?, parameter.unit.to_owned())),
        (Value::Flag(flag), _) => Some((u32::from(*flag), "1: true".to_owned())),
        (Value::Set(names), Allowed::Set(known)) => {
            let bits = known.iter().zip(0..);
            let value = bits
                .clone()
                .filter(|(name, _)| names.iter().any(|given| given == *name));
            let bits: Vec<String> = bits.map(|(name, bit)| format!("bit {bit} {name}")).collect();
            Some((value.fold(0, |sum, (_, bit)| sum | 1 << bit), bits.join(", ")))
        }
        // The name of the NIC has registers of its own.
        _ => None,
    }
}

fn parameters(config: &NicConfig) -> Vec<Register> {
    let values = config.values();
    let numbers = values.iter().filter_map(|(key, value)| {
        let row = PARAMETERS.iter().find(|row| row.key == *key)?;
        Some((row, parameter(row, value)?))
    });
    numbers
        .enumerate()
        .map(|(place, (row, (value, unit)))| {
            let offset = PARAMETERS_OFFSET + REGISTER_BYTES * place as u32;
            let unit = if unit.is_empty() { unit } else { format!(" ({unit})") };
            let doc = format!("parameter {}{unit}", row.key);
            constant(&format!("parameter_{}", row.key.replace('.', "_")), offset, value, &doc)
        })
        .collect()
}

fn descriptor_words() -> impl Iterator<Item = Register> {
    (0..longest_descriptor()).map(|word| {
        let doc = format!(
            "bytes {} to {} of the descriptor to write, the first one in bits 7:0",
            4 * word,
            4 * word + 3
        );
        let offset = DESCRIPTOR_OFFSET + REGISTER_BYTES * word;
        single(
            format!("descriptor_{word}"),
            offset,
            Role::Descriptor(word),
            Some(0),
            32,
            doc,
        )
    })
}

#[cfg(test)]
mod tests;
