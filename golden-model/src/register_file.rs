//! `register_file`: what software reads and writes: identification, settings, counters, and descriptors for the tables.
//!
//! It owns the settings, the words of the descriptor and the descriptor that waits. It knows nothing of AXI4-Lite: a read and a write are one
//! step each, and who calls says what the ports carry then. Theory of operation: `docs/src/blocks/register_file.md`.

use std::collections::BTreeMap;

use spraynic_config::registers::{OwnCounter, Register, RegisterMap, Role, TARGETS, Target};
use thiserror::Error;

/// What is answered by SLVERR: there is no such register, or it may not be written (now, or like this). Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum Refusal {
    /// No register has this address.
    #[error("there is no register at {0:#06x}")]
    Unmapped(u16),
    /// It is only read.
    #[error("the register at {0:#06x} is only read")]
    ReadOnly(u16),
    /// The last descriptor still waits for its target.
    #[error("the last descriptor still waits")]
    Busy,
    /// No target has this code.
    #[error("no target has the code {0}")]
    UnknownTarget(u32),
}

/// What the ports carry in the clock of a read.
pub trait Ports {
    /// `time_ns`.
    fn time_ns(&self) -> u64;
    /// The port of a register of role [`Role::Input`] or [`Role::Counter`].
    fn input(&self, register: &Register) -> u32;
}

/// A descriptor on its way to a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Name of the target: the stream is `m_axis_NAME`.
    pub target: &'static str,
    /// The packed descriptor.
    pub bytes: Vec<u8>,
}

/// Counters, as the ports `count_…` of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Descriptors that were committed and taken.
    pub descriptors: u32,
    /// Writes that were answered by SLVERR.
    pub refused_writes: u32,
    /// Reads that were answered by SLVERR.
    pub refused_reads: u32,
}

/// The block.
#[derive(Debug, Clone)]
pub struct RegisterFile {
    map: RegisterMap,
    /// Settings by name.
    settings: BTreeMap<String, u32>,
    kept_time: u32,
    words: Vec<u32>,
    /// Code of the last target, 0 before the first.
    target: u32,
    offered: Option<&'static Target>,
    counters: Counters,
}

/// `current` with the bytes of `data` whose strobe is set.
fn merged(current: u32, data: u32, strobes: u8) -> u32 {
    let mask = (0..4)
        .filter(|lane| strobes >> lane & 1 == 1)
        .fold(0, |mask, lane| mask | 0xff << (8 * lane));
    current & !mask | data & mask
}

impl RegisterFile {
    /// The block after reset.
    #[must_use]
    pub fn new(map: RegisterMap) -> Self {
        let settings = map.registers.iter().filter(|register| is_setting(register));
        Self {
            settings: settings
                .map(|register| (register.name.clone(), register.reset.unwrap_or(0)))
                .collect(),
            kept_time: 0,
            words: vec![0; map.descriptor_words() as usize],
            target: 0,
            offered: None,
            counters: Counters::default(),
            map,
        }
    }

    /// The registers.
    #[must_use]
    pub fn map(&self) -> &RegisterMap {
        &self.map
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A setting: what the port of this name carries.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<u32> {
        self.settings.get(name).copied()
    }

    /// The descriptor that waits for its target.
    #[must_use]
    pub fn offer(&self) -> Option<Offer> {
        let target = self.offered?;
        let mut bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(target.layout.bytes() as usize);
        Some(Offer {
            target: target.name,
            bytes,
        })
    }

    /// The target takes the descriptor. Without one, nothing happens.
    pub fn take(&mut self) -> Option<Offer> {
        let offer = self.offer()?;
        self.offered = None;
        self.counters.descriptors = self.counters.descriptors.wrapping_add(1);
        Some(offer)
    }

    /// A read of 32 bits. Bits 1:0 of the address are not looked at.
    ///
    /// # Errors
    /// [`Refusal::Unmapped`].
    pub fn read(&mut self, address: u16, ports: &impl Ports) -> Result<u32, Refusal> {
        let Some(register) = self.map.at(address.into()) else {
            self.counters.refused_reads = self.counters.refused_reads.wrapping_add(1);
            return Err(Refusal::Unmapped(address));
        };
        Ok(match register.role {
            Role::Constant(value) => value,
            Role::Input | Role::Counter => ports.input(register) & register.mask(),
            Role::Setting | Role::Load => self.settings.get(&register.name).copied().unwrap_or(0),
            Role::TimeLow => {
                self.kept_time = (ports.time_ns() >> 32) as u32;
                ports.time_ns() as u32
            }
            Role::TimeHigh => self.kept_time,
            Role::Descriptor(word) => self.words[word as usize],
            Role::Commit => self.target,
            Role::CommitStatus => u32::from(self.offered.is_some()),
            Role::OwnCounter(OwnCounter::Descriptors) => self.counters.descriptors,
            Role::OwnCounter(OwnCounter::RefusedWrites) => self.counters.refused_writes,
            Role::OwnCounter(OwnCounter::RefusedReads) => self.counters.refused_reads,
        })
    }

    /// A write of the bytes whose bit of `strobes` (3:0) is set. Bits 1:0 of the address are not looked at. Returns whether a port `NAME_load` tells of it.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing has changed then.
    pub fn write(&mut self, address: u16, data: u32, strobes: u8) -> Result<bool, Refusal> {
        let result = self.try_write(address, data, strobes & 0xf);
        self.counters.refused_writes = self.counters.refused_writes.wrapping_add(result.is_err().into());
        result
    }

    fn try_write(&mut self, address: u16, data: u32, strobes: u8) -> Result<bool, Refusal> {
        let register = self.map.at(address.into()).ok_or(Refusal::Unmapped(address))?;
        match register.role {
            Role::Setting | Role::Load => {
                let setting = self.settings.entry(register.name.clone()).or_default();
                *setting = merged(*setting, data, strobes) & register.mask();
                let lanes = (1u8 << register.width().div_ceil(8)) - 1;
                Ok(register.role == Role::Load && strobes & lanes != 0)
            }
            Role::Descriptor(_) | Role::Commit if self.offered.is_some() => Err(Refusal::Busy),
            Role::Descriptor(word) => {
                let word = &mut self.words[word as usize];
                *word = merged(*word, data, strobes);
                Ok(false)
            }
            // Without its first byte, nothing is sent.
            Role::Commit if strobes & 1 == 0 => Ok(false),
            Role::Commit => {
                let code = data & register.mask();
                let target = TARGETS.iter().find(|target| target.code == code);
                self.offered = Some(target.ok_or(Refusal::UnknownTarget(code))?);
                self.target = code;
                Ok(false)
            }
            _ => Err(Refusal::ReadOnly(address)),
        }
    }
}

fn is_setting(register: &Register) -> bool {
    matches!(register.role, Role::Setting | Role::Load)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use spraynic_config::descriptor::{Descriptor, RateLimit};
    use spraynic_config::registers::{Access, CounterPort};
    use spraynic_config::{NicConfig, Preset};

    use super::*;

    struct At(u64);

    impl Ports for At {
        fn time_ns(&self) -> u64 {
            self.0
        }
        fn input(&self, register: &Register) -> u32 {
            register.offset.wrapping_mul(0x9e37_79b9)
        }
    }

    fn file() -> RegisterFile {
        let counters: Vec<CounterPort> = (0..20)
            .map(|number| CounterPort {
                name: format!("counter_{number}"),
                doc: String::new(),
            })
            .collect();
        RegisterFile::new(RegisterMap::new(&NicConfig::preset(Preset::G100), &counters))
    }

    fn offset(file: &RegisterFile, name: &str) -> u16 {
        file.map().find(name).unwrap().offset as u16
    }

    #[test]
    fn after_reset_everything_reads_as_the_map_says() {
        let mut file = file();
        for register in file.map().registers.clone() {
            let value = file.read(register.offset as u16, &At(0)).unwrap();
            match register.role {
                Role::Input | Role::TimeLow => {}
                Role::Counter => assert_eq!(value, register.offset.wrapping_mul(0x9e37_79b9)),
                _ => assert_eq!(Some(value), register.reset, "{}", register.name),
            }
        }
    }

    /// What blocks are measured with is what they get when software sets nothing.
    #[test]
    fn reset_values_are_the_defaults_of_the_blocks() {
        let (file, pacing) = (file(), crate::ack_engine::Pacing::default());
        let paths = crate::path_monitor::Settings::default();
        for (name, value) in [
            ("sack_every", pacing.sack_every.into()),
            ("sack_bytes", pacing.sack_bytes),
            ("sack_timer_ns", pacing.sack_timer_ns),
            ("cnp_interval_ns", pacing.cnp_interval_ns),
            ("bad_after", paths.bad_after.into()),
            ("delivered_clears", paths.delivered_clears.into()),
            ("probe_interval_ns", paths.probe_interval_ns),
        ] {
            assert_eq!(file.setting(name), Some(value), "{name}");
        }
    }

    #[test]
    fn both_halves_of_the_time_are_of_one_nanosecond() {
        let mut file = file();
        let (low, high) = (offset(&file, "time_ns_low"), offset(&file, "time_ns_high"));
        assert_eq!(file.read(low, &At(0x1_ffff_ffff)), Ok(0xffff_ffff));
        assert_eq!(file.read(high, &At(0x2_0000_0003)), Ok(1));
        assert_eq!(file.read(low, &At(0x2_0000_0004)), Ok(4));
        assert_eq!(file.read(high, &At(u64::MAX)), Ok(2));
    }

    #[test]
    fn bytes_without_a_strobe_and_bits_without_a_field_stay() {
        let mut file = file();
        let address = offset(&file, "sack_bytes");
        assert_eq!(file.write(address, 0xffff_ffff, 0b0101), Ok(false));
        assert_eq!(file.read(address, &At(0)), Ok(0x00ff_00ff));
        assert_eq!(file.write(address + 3, 0x1234_5678, 0b1010), Ok(false));
        assert_eq!(file.read(address, &At(0)), Ok(0x00ff_56ff));
        assert_eq!(file.setting("sack_bytes"), Some(0x00ff_56ff));
        assert_eq!(file.write(address, 0, 0), Ok(false));
        assert_eq!(file.setting("sack_bytes"), Some(0x00ff_56ff));
    }

    #[test]
    fn a_descriptor_leaves_as_it_was_written_and_can_be_changed_in_part() {
        let mut file = file();
        let first = RateLimit {
            index: 5,
            limited: true,
            rate: 536_871,
            burst: 9000,
            ..RateLimit::default()
        };
        let (words, commit) = (offset(&file, "descriptor_0"), offset(&file, "descriptor_commit"));
        let status = offset(&file, "descriptor_status");
        for (place, word) in first.pack().chunks(4).enumerate() {
            let word = word.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
            file.write(words + 4 * place as u16, word, 0xf).unwrap();
        }
        assert_eq!(file.offer(), None);
        assert_eq!(file.write(commit, 5, 0xf), Ok(false));
        assert_eq!(file.read(status, &At(0)), Ok(1));
        assert_eq!(file.write(words, 0, 0xf), Err(Refusal::Busy));
        assert_eq!(file.write(commit, 5, 0xf), Err(Refusal::Busy));
        let taken = file.take().unwrap();
        assert_eq!((taken.target, taken.bytes), ("rate_limit", first.pack()));
        assert_eq!((file.take(), file.read(status, &At(0))), (None, Ok(0)));

        // Of the second one, only the queue pair is written.
        file.write(words, 6, 0b0111).unwrap();
        file.write(commit, 5, 0b0001).unwrap();
        let second = RateLimit { index: 6, ..first };
        assert_eq!(file.take().unwrap().bytes, second.pack());
        let counters = Counters {
            descriptors: 2,
            refused_writes: 2,
            refused_reads: 0,
        };
        assert_eq!(*file.counters(), counters);
    }

    #[test]
    fn targets_that_do_not_exist_are_refused() {
        let mut file = file();
        let commit = offset(&file, "descriptor_commit");
        assert_eq!(file.write(commit, 0, 0xf), Err(Refusal::UnknownTarget(0)));
        assert_eq!(file.write(commit, 15, 0xf), Err(Refusal::UnknownTarget(15)));
        assert_eq!(file.write(commit, 1, 0b1110), Ok(false));
        assert_eq!((file.offer(), file.read(commit, &At(0))), (None, Ok(0)));
        assert_eq!(file.write(commit, 0xfff1, 0b0001), Ok(false));
        assert_eq!(file.read(commit, &At(0)), Ok(1));
    }

    #[test]
    fn a_load_is_told_when_a_byte_of_it_is_written() {
        let mut file = file();
        let address = offset(&file, "identification");
        assert_eq!(file.write(address, 0x1234, 0b0011), Ok(true));
        assert_eq!(file.write(address, 0x0056, 0b0001), Ok(true));
        assert_eq!(file.write(address, 0xffff, 0b1100), Ok(false));
        assert_eq!(file.setting("identification"), Some(0x1256));
    }

    proptest! {
        /// Whatever software does, what is refused changes nothing but the counter, and what is allowed changes one register.
        #[test]
        fn a_write_changes_what_it_names_alone(
            writes in prop::collection::vec((0u16..0x1100, any::<u32>(), 0u8..16, any::<bool>()), 1..60),
        ) {
            let mut file = file();
            for (address, data, strobes, take) in writes {
                let address = if address % 3 == 0 { 0x200 + address % 0x200 } else { address };
                let mut before = file.clone();
                let result = file.write(address, data, strobes);
                let register = file.map().at(address.into()).cloned();
                let writable = register.as_ref().is_some_and(|one| one.access() == Access::ReadWrite);
                prop_assert!(result.is_err() || writable);
                for other in file.map().registers.clone() {
                    let named = Some(&other) == register.as_ref();
                    let follows = other.role == Role::CommitStatus || other.is_counter();
                    let changes = named && result.is_ok();
                    if !changes && !follows {
                        let offset = other.offset as u16;
                        prop_assert_eq!(file.read(offset, &At(7)), before.read(offset, &At(7)), "{}", &other.name);
                    }
                }
                if take {
                    file.take();
                }
            }
        }
    }
}
