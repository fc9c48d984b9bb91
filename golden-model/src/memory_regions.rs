//! `memory_regions`: says whether a peer may reach memory by an R_Key, and where that memory is.
//!
//! It owns the table of regions. It never touches memory, and never lets an access leave its region by so much as a byte, whatever
//! address and length a peer names. Theory of operation: `docs/src/blocks/memory_regions.md`.

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{MemoryAccess, MemoryRegion, MemoryTranslation};
use thiserror::Error;

/// What was generated: the part of the configuration that this block's behaviour depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Regions in the table: index 0 to `regions - 1`.
    pub regions: u32,
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            regions: config.receive.memory_regions,
        }
    }
}

/// What a peer wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Right {
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
    /// Atomic compare-and-swap or fetch-and-add.
    Atomic,
}

/// An access that a peer asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// R_Key: index in the upper 24 bits, generation in the low 8.
    pub key: u32,
    /// Protection domain of the queue pair, 24 bits.
    pub protection_domain: u32,
    /// What is asked for.
    pub right: Right,
    /// Virtual address of the first byte.
    pub address: u64,
    /// Bytes.
    pub length: u32,
}

/// Why an access is refused: all of them are a remote access error to the peer. The checks are made in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum Refusal {
    /// No region has this key: beyond the table, not valid, or of another generation.
    #[error("R_Key {key:#010x} is of no region")]
    Key {
        /// The key.
        key: u32,
    },
    /// The region is of another protection domain.
    #[error("R_Key {key:#010x} is of another protection domain than {protection_domain:#x}")]
    ProtectionDomain {
        /// The key.
        key: u32,
        /// Protection domain of the queue pair.
        protection_domain: u32,
    },
    /// The region does not allow this to a peer.
    #[error("R_Key {key:#010x} does not allow {right:?}")]
    Right {
        /// The key.
        key: u32,
        /// What was asked for.
        right: Right,
    },
    /// A byte of the access is outside of the region.
    #[error("{length} bytes at {address:#x} are not all within R_Key {key:#010x}")]
    Bounds {
        /// The key.
        key: u32,
        /// First byte of the access.
        address: u64,
        /// Bytes of the access.
        length: u32,
    },
}

/// Counters, as the ports `count_…` of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Accesses allowed, those of no byte included.
    pub allowed: u32,
    /// Accesses refused, see [`Refusal::Key`]; invalidations of such keys too.
    pub refused_key: u32,
    /// Accesses refused, see [`Refusal::ProtectionDomain`]; invalidations too.
    pub refused_protection_domain: u32,
    /// Accesses refused, see [`Refusal::Right`].
    pub refused_right: u32,
    /// Accesses refused, see [`Refusal::Bounds`].
    pub refused_bounds: u32,
    /// Regions that the peers invalidated.
    pub invalidated: u32,
    /// Region writes refused: an index beyond the table, or a region that ends beyond 2^64.
    pub drop_region: u32,
}

/// The block: a table of regions and counters.
#[derive(Debug, Clone)]
pub struct MemoryRegions {
    regions: Vec<MemoryRegion>,
    counters: Counters,
}

impl MemoryRegions {
    /// The block after reset: no region is valid, all counters are 0.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            regions: vec![MemoryRegion::default(); config.regions as usize],
            counters: Counters::default(),
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Writes a region; it holds for every access from then on. An index beyond the table changes nothing. A region
    /// whose last byte, as an address of either kind, would lie beyond 2^64 - 1 is left invalid. Both are counted.
    pub fn write_region(&mut self, region: &MemoryRegion) {
        let ends = |start: u64| region.length == 0 || start.checked_add(region.length - 1).is_some();
        let fits = !region.valid || (ends(region.base) && ends(region.address));
        let slot = self.regions.get_mut(region.index as usize);
        if slot.is_none() || !fits {
            self.counters.drop_region = self.counters.drop_region.wrapping_add(1);
        }
        if let Some(slot) = slot {
            *slot = MemoryRegion {
                valid: region.valid && fits,
                ..*region
            };
        }
    }

    /// The region that a key names.
    fn find(&self, key: u32) -> Result<&MemoryRegion, Refusal> {
        self.regions
            .get((key >> 8) as usize)
            .filter(|region| region.valid && u32::from(region.generation) == key & 0xFF)
            .ok_or(Refusal::Key { key })
    }

    /// Where in memory an access begins; `None` for an access of no byte, which no key is needed for
    /// (IBA volume 1, compliance statement C9-88).
    ///
    /// # Errors
    /// The [`Refusal`]; it is counted.
    pub fn translate(&mut self, access: &Access) -> Result<Option<u64>, Refusal> {
        let translated = self.check(access);
        match &translated {
            Ok(_) => self.counters.allowed = self.counters.allowed.wrapping_add(1),
            Err(refusal) => self.count(*refusal),
        }
        translated
    }

    fn check(&self, access: &Access) -> Result<Option<u64>, Refusal> {
        let Access {
            key,
            protection_domain,
            right,
            address,
            length,
        } = *access;
        if length == 0 {
            return Ok(None);
        }
        let region = self.find(key)?;
        if region.protection_domain != protection_domain {
            return Err(Refusal::ProtectionDomain { key, protection_domain });
        }
        let allowed = match right {
            Right::Write => region.remote_write,
            Right::Read => region.remote_read,
            Right::Atomic => region.remote_atomic,
        };
        if !allowed {
            return Err(Refusal::Right { key, right });
        }
        // No sum of what a peer names: it could pass 2^64.
        address
            .checked_sub(region.base)
            .filter(|offset| *offset <= region.length && u64::from(length) <= region.length - offset)
            .map(|offset| Some(region.address + offset))
            .ok_or(Refusal::Bounds { key, address, length })
    }

    /// Answers what `responder` asks (`s_axis_access`, `m_axis_translation`). The address is 0 where the access is refused, of no byte, or
    /// an invalidation.
    pub fn access(&mut self, access: &MemoryAccess) -> MemoryTranslation {
        let MemoryAccess {
            key,
            protection_domain,
            right,
            address,
            length,
            ..
        } = *access;
        let right = match right & 3 {
            0 => Some(Right::Write),
            1 => Some(Right::Read),
            2 => Some(Right::Atomic),
            _ => None,
        };
        let found = match right {
            None => self.invalidate(key, protection_domain).map(|()| None),
            Some(right) => self.translate(&Access {
                key,
                protection_domain,
                right,
                address,
                length,
            }),
        };
        let refusal = match found {
            Ok(_) => 0,
            Err(Refusal::Key { .. }) => 1,
            Err(Refusal::ProtectionDomain { .. }) => 2,
            Err(Refusal::Right { .. }) => 3,
            Err(Refusal::Bounds { .. }) => 4,
        };
        MemoryTranslation {
            address: found.ok().flatten().unwrap_or(0),
            refusal,
            reserved_0: 0,
        }
    }

    /// Makes a region invalid, as a SEND with invalidate asks for.
    ///
    /// # Errors
    /// No region of this protection domain has the key; it is counted.
    pub fn invalidate(&mut self, key: u32, protection_domain: u32) -> Result<(), Refusal> {
        let found = self.find(key).and_then(|region| {
            (region.protection_domain == protection_domain)
                .then_some(region.index)
                .ok_or(Refusal::ProtectionDomain { key, protection_domain })
        });
        match found {
            Ok(index) => {
                self.regions[index as usize].valid = false;
                self.counters.invalidated = self.counters.invalidated.wrapping_add(1);
                Ok(())
            }
            Err(refusal) => {
                self.count(refusal);
                Err(refusal)
            }
        }
    }

    fn count(&mut self, refusal: Refusal) {
        let counter = match refusal {
            Refusal::Key { .. } => &mut self.counters.refused_key,
            Refusal::ProtectionDomain { .. } => &mut self.counters.refused_protection_domain,
            Refusal::Right { .. } => &mut self.counters.refused_right,
            Refusal::Bounds { .. } => &mut self.counters.refused_bounds,
        };
        *counter = counter.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn region() -> MemoryRegion {
        MemoryRegion {
            generation: 0x5A,
            index: 3,
            valid: true,
            remote_write: true,
            protection_domain: 7,
            base: 0x1000,
            length: 100,
            address: 0xFF00,
            ..MemoryRegion::default()
        }
    }

    fn write(address: u64, length: u32) -> Access {
        Access {
            key: 0x0000_035A,
            protection_domain: 7,
            right: Right::Write,
            address,
            length,
        }
    }

    fn table(region: &MemoryRegion) -> MemoryRegions {
        let mut table = MemoryRegions::new(Config { regions: 8 });
        table.write_region(region);
        table
    }

    #[test]
    fn accesses_within_the_region_are_translated_and_others_are_not() {
        let mut table = table(&region());
        assert_eq!(table.translate(&write(0x1000, 100)), Ok(Some(0xFF00)));
        assert_eq!(table.translate(&write(0x1063, 1)), Ok(Some(0xFF63)));
        for (address, length) in [
            (0xFFF, 1),
            (0xFFF, 2),
            (0x1000, 101),
            (0x1064, 1),
            (0x1063, 2),
            (0, u32::MAX),
        ] {
            let key = 0x035A;
            assert_eq!(
                table.translate(&write(address, length)),
                Err(Refusal::Bounds { key, address, length })
            );
        }
        assert_eq!((table.counters().allowed, table.counters().refused_bounds), (2, 6));
    }

    #[test]
    fn nothing_wraps_at_the_end_of_the_address_space() {
        let last = u64::MAX - 99;
        let mut table = table(&MemoryRegion {
            base: last,
            address: last,
            ..region()
        });
        assert_eq!(table.counters().drop_region, 0);
        assert_eq!(table.translate(&write(u64::MAX, 1)), Ok(Some(u64::MAX)));
        assert_eq!(table.translate(&write(last, 100)), Ok(Some(last)));
        for (address, length) in [
            (u64::MAX, 2),
            (u64::MAX, u32::MAX),
            (last, 101),
            (last - 1, 100),
            (0, 1),
        ] {
            assert!(matches!(
                table.translate(&write(address, length)),
                Err(Refusal::Bounds { .. })
            ));
        }
        // A region of the whole address space but one byte.
        let whole = MemoryRegion {
            base: 0,
            address: 0,
            length: u64::MAX,
            ..region()
        };
        table.write_region(&whole);
        assert_eq!(table.translate(&write(u64::MAX - 1, 1)), Ok(Some(u64::MAX - 1)));
        assert!(table.translate(&write(u64::MAX, 1)).is_err());
        // One byte too long for its base, or for its address: not valid.
        for wrong in [
            MemoryRegion {
                base: last + 1,
                ..region()
            },
            MemoryRegion {
                address: last + 1,
                ..region()
            },
        ] {
            table.write_region(&wrong);
            assert_eq!(
                table.translate(&write(wrong.base, 1)),
                Err(Refusal::Key { key: 0x035A })
            );
        }
        assert_eq!(table.counters().drop_region, 2);
    }

    #[test]
    fn keys_of_other_generations_and_beyond_the_table_are_of_no_region() {
        let mut table = table(&region());
        for key in [0, 0x0359, 0x035B, 0x025A, 0x045A, 0x085A, 0x0100_035A, 0xFFFF_FF5A] {
            assert_eq!(
                table.translate(&Access {
                    key,
                    ..write(0x1000, 1)
                }),
                Err(Refusal::Key { key })
            );
        }
        table.write_region(&MemoryRegion {
            generation: 0x5B,
            ..region()
        });
        assert_eq!(table.translate(&write(0x1000, 1)), Err(Refusal::Key { key: 0x035A }));
        table.write_region(&MemoryRegion { index: 8, ..region() });
        assert_eq!(table.counters().drop_region, 1);
    }

    #[test]
    fn protection_domain_and_rights_are_checked_in_order() {
        let key = 0x035A;
        let mut table = table(&region());
        let stranger = Access {
            protection_domain: 8,
            right: Right::Read,
            ..write(0, 1)
        };
        let refused = Refusal::ProtectionDomain {
            key,
            protection_domain: 8,
        };
        assert_eq!(table.translate(&stranger), Err(refused));
        for (given, wanted) in [(0, Right::Write), (1, Right::Read), (2, Right::Atomic)] {
            table.write_region(&MemoryRegion {
                remote_write: given == 0,
                remote_read: given == 1,
                remote_atomic: given == 2,
                ..region()
            });
            for right in [Right::Write, Right::Read, Right::Atomic] {
                let expected = if right == wanted {
                    Ok(Some(0xFF08))
                } else {
                    Err(Refusal::Right { key, right })
                };
                assert_eq!(
                    table.translate(&Access {
                        right,
                        ..write(0x1008, 8)
                    }),
                    expected
                );
            }
        }
        assert_eq!(
            (
                table.counters().refused_protection_domain,
                table.counters().refused_right
            ),
            (1, 6)
        );
    }

    #[test]
    fn an_access_of_no_byte_needs_no_key() {
        let mut table = MemoryRegions::new(Config { regions: 2 });
        assert_eq!(table.translate(&write(u64::MAX, 0)), Ok(None));
    }

    #[test]
    fn a_peer_invalidates_what_is_of_its_protection_domain() {
        let mut table = table(&region());
        assert!(matches!(
            table.invalidate(0x035A, 8),
            Err(Refusal::ProtectionDomain { .. })
        ));
        assert_eq!(table.invalidate(0x035B, 7), Err(Refusal::Key { key: 0x035B }));
        assert!(table.translate(&write(0x1000, 1)).is_ok());
        assert_eq!(table.invalidate(0x035A, 7), Ok(()));
        assert_eq!(table.translate(&write(0x1000, 1)), Err(Refusal::Key { key: 0x035A }));
        assert_eq!(table.invalidate(0x035A, 7), Err(Refusal::Key { key: 0x035A }));
        assert_eq!((table.counters().invalidated, table.counters().refused_key), (1, 3));
    }

    #[test]
    fn answers_say_why_an_access_is_refused() {
        let mut table = table(&region());
        let access = MemoryAccess {
            key: 0x035A,
            protection_domain: 7,
            right: 0,
            address: 0x1004,
            length: 4,
            ..MemoryAccess::default()
        };
        let answer = |address, refusal| MemoryTranslation {
            address,
            refusal,
            reserved_0: 0,
        };
        assert_eq!(table.access(&access), answer(0xFF04, 0));
        assert_eq!(table.access(&MemoryAccess { length: 0, ..access }), answer(0, 0));
        let wrong = [
            MemoryAccess { key: 0x0359, ..access },
            MemoryAccess {
                protection_domain: 8,
                ..access
            },
            MemoryAccess { right: 1, ..access },
            MemoryAccess { right: 2, ..access },
            MemoryAccess { length: 97, ..access },
        ];
        assert_eq!(
            wrong.map(|access| table.access(&access)),
            [1, 2, 3, 3, 4].map(|refusal| answer(0, refusal))
        );
        let invalidation = MemoryAccess {
            right: 3,
            address: 9,
            length: 9,
            ..access
        };
        assert_eq!(table.access(&invalidation), answer(0, 0));
        assert_eq!(table.access(&access), answer(0, 1));
    }

    fn edge() -> impl Strategy<Value = u64> {
        prop_oneof![any::<u64>(), 0u64..300, (0u64..300).prop_map(|below| u64::MAX - below)]
    }

    proptest! {
        /// In numbers that cannot wrap: allowed if and only if each byte is within, and then it is the byte of the same offset.
        #[test]
        fn bounds_are_those_of_numbers_without_end(
            (base, length, address) in (edge(), edge(), edge()),
            (from, bytes) in (edge(), prop_oneof![1u32..300, any::<u32>()]),
        ) {
            let mut table = table(&MemoryRegion { base, length, address, ..region() });
            let wide = |number: u64| u128::from(number);
            let fits = wide(base) + wide(length) <= 1 << 64 && wide(address) + wide(length) <= 1 << 64;
            let access = write(from, bytes);
            let inside = wide(from) >= wide(base) && wide(from) + u128::from(bytes) <= wide(base) + wide(length);
            let translated = table.translate(&access);
            prop_assert_eq!(translated.is_ok(), bytes == 0 || (fits && inside), "{:?}", translated);
            if let Ok(Some(start)) = translated {
                prop_assert_eq!(wide(start), wide(address) + wide(from) - wide(base));
            }
        }
    }
}
