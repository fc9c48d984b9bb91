//! `axi_write_master`: makes AXI4 bursts of memory writes, and one answer of the responses to them.
//!
//! It owns the bursts that were not answered yet. A burst never crosses 4 KiB and has at most 256 beats. It never changes data nor order.
//! Theory of operation: `docs/src/blocks/axi_write_master.md`.

use std::collections::VecDeque;

use spraynic_config::NicConfig;

use crate::payload_writer::{AlignedWrite, Beat};

/// A burst never crosses a multiple of this \[AMBA AXI, A3.4.1\].
pub const BOUNDARY: u64 = 4096;

/// Most beats of an INCR burst \[AMBA AXI, A3.4.1\].
pub const MOST_BEATS: u64 = 256;

/// What was generated: the part of the configuration that this block's behaviour depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Bytes of a beat: a power of two, at most 128.
    pub beat_bytes: usize,
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            beat_bytes: config.datapath.width_bits as usize / 8,
        }
    }
}

impl Config {
    /// A burst never crosses a multiple of this: 4 KiB, or what 256 beats carry.
    #[must_use]
    pub fn burst_bytes(&self) -> u64 {
        BOUNDARY.min(MOST_BEATS * self.beat_bytes as u64)
    }
}

/// BRESP \[AMBA AXI, A3.4.4\].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BurstResponse {
    /// Done.
    Okay = 0,
    /// Done, exclusively: never, as no exclusive access is asked for. Counts as done.
    ExclusiveOkay = 1,
    /// Refused by who was asked.
    SlaveError = 2,
    /// Nobody has this address.
    DecodeError = 3,
}

/// One burst: an address, and its data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Burst {
    /// AWADDR: that of byte 0 of the first beat, a multiple of the bus width.
    pub address: u64,
    /// WDATA and WSTRB; AWLEN is one less than their number, WLAST is set on the last one.
    pub beats: Vec<Beat>,
}

/// Counters, as the ports `count_…` of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Writes whose bursts have all been given.
    pub writes: u32,
    /// Bursts given.
    pub bursts: u32,
    /// Bursts that were answered by SLVERR.
    pub slave_errors: u32,
    /// Bursts that were answered by DECERR.
    pub decode_errors: u32,
}

/// The block: what was not answered, and counters.
#[derive(Debug, Clone)]
pub struct AxiWriteMaster {
    config: Config,
    /// Of each burst: it is the last one of its write.
    outstanding: VecDeque<bool>,
    refused: bool,
    counters: Counters,
}

impl AxiWriteMaster {
    /// The block after reset: nothing is outstanding, all counters are 0.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            outstanding: VecDeque::new(),
            refused: false,
            counters: Counters::default(),
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Bursts that were not answered.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Takes a write and gives its bursts.
    pub fn write(&mut self, write: &AlignedWrite) -> Vec<Burst> {
        let beat_bytes = self.config.beat_bytes as u64;
        let mut bursts: Vec<Burst> = Vec::new();
        // Addresses wrap at 2^64, as everything that counts addresses does; `memory_regions` lets no access do so.
        let mut address = write.write.address & !(beat_bytes - 1);
        for beat in &write.beats {
            match bursts.last_mut() {
                Some(burst) if !address.is_multiple_of(self.config.burst_bytes()) => burst.beats.push(beat.clone()),
                _ => bursts.push(Burst {
                    address,
                    beats: vec![beat.clone()],
                }),
            }
            address = address.wrapping_add(beat_bytes);
        }
        self.outstanding
            .extend((1..=bursts.len()).map(|place| place == bursts.len()));
        self.counters.writes = self.counters.writes.wrapping_add(1);
        self.counters.bursts = self.counters.bursts.wrapping_add(bursts.len() as u32);
        bursts
    }

    /// Takes the response to the oldest burst that was not answered. If it is the last one of its write: whether memory refused any of the
    /// write's bursts. A response to nothing changes nothing.
    pub fn respond(&mut self, response: BurstResponse) -> Option<bool> {
        let last = self.outstanding.pop_front()?;
        match response {
            BurstResponse::Okay | BurstResponse::ExclusiveOkay => {}
            BurstResponse::SlaveError => self.counters.slave_errors = self.counters.slave_errors.wrapping_add(1),
            BurstResponse::DecodeError => self.counters.decode_errors = self.counters.decode_errors.wrapping_add(1),
        }
        self.refused |= matches!(response, BurstResponse::SlaveError | BurstResponse::DecodeError);
        last.then(|| std::mem::take(&mut self.refused))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn master(beat_bytes: usize) -> AxiWriteMaster {
        AxiWriteMaster::new(Config { beat_bytes })
    }

    /// Address and number of beats of each burst.
    fn bursts(beat_bytes: usize, address: u64, length: usize) -> Vec<(u64, usize)> {
        let write = AlignedWrite::new(address, &vec![0xAA; length], beat_bytes);
        let bursts = master(beat_bytes).write(&write);
        bursts.iter().map(|burst| (burst.address, burst.beats.len())).collect()
    }

    #[test]
    fn bursts_end_at_4_kib() {
        assert_eq!(bursts(64, 0x1000, 4096), [(0x1000, 64)]);
        assert_eq!(bursts(64, 0x1001, 4096), [(0x1000, 64), (0x2000, 1)]);
        assert_eq!(bursts(64, 0x1FFF, 1), [(0x1FC0, 1)]);
        assert_eq!(bursts(64, 0x1FFF, 2), [(0x1FC0, 1), (0x2000, 1)]);
        assert_eq!(bursts(16, 0x1FF0, 4096), [(0x1FF0, 1), (0x2000, 255)]);
        assert_eq!(bursts(16, 0x1FF8, 4096), [(0x1FF0, 1), (0x2000, 256)]);
    }

    #[test]
    fn bursts_have_256_beats_at_most() {
        assert_eq!(bursts(8, 0x1000, 4096), [(0x1000, 256), (0x1800, 256)]);
        assert_eq!(bursts(8, 0x1004, 4096), [(0x1000, 256), (0x1800, 256), (0x2000, 1)]);
    }

    #[test]
    fn addresses_wrap_at_the_end_of_the_address_space() {
        assert_eq!(bursts(64, u64::MAX, 2), [(u64::MAX - 63, 1), (0, 1)]);
    }

    #[test]
    fn a_write_is_answered_with_its_last_burst_and_by_any_error() {
        use BurstResponse::{DecodeError, ExclusiveOkay, Okay, SlaveError};
        let mut master = master(64);
        for _ in 0..3 {
            assert_eq!(master.write(&AlignedWrite::new(0xFFF, &[1, 2], 64)).len(), 2);
        }
        assert_eq!(
            [SlaveError, Okay].map(|response| master.respond(response)),
            [None, Some(true)]
        );
        assert_eq!(
            [Okay, ExclusiveOkay].map(|response| master.respond(response)),
            [None, Some(false)]
        );
        assert_eq!(
            [Okay, DecodeError].map(|response| master.respond(response)),
            [None, Some(true)]
        );
        assert_eq!(master.respond(SlaveError), None, "to nothing");
        let expected = Counters {
            writes: 3,
            bursts: 6,
            slave_errors: 1,
            decode_errors: 1,
        };
        assert_eq!(*master.counters(), expected);
    }

    proptest! {
        /// Bursts carry the beats of the write in order, from consecutive addresses, and break no rule of AXI4; memory then has the
        /// bytes of the write, and no other byte has changed.
        #[test]
        fn bursts_are_legal_and_memory_gets_the_bytes(
            shift in 3u32..=7,
            address in prop_oneof![0u64..20_000, any::<u64>()],
            bytes in prop::collection::vec(any::<u8>(), 1..=4096),
        ) {
            let beat_bytes = 1u64 << shift;
            let write = AlignedWrite::new(address, &bytes, beat_bytes as usize);
            let bursts = master(beat_bytes as usize).write(&write);
            let mut memory = std::collections::BTreeMap::new();
            for burst in &bursts {
                prop_assert!(burst.address.is_multiple_of(beat_bytes));
                prop_assert!((1..=256).contains(&burst.beats.len()));
                let last = burst.address.wrapping_add(burst.beats.len() as u64 * beat_bytes - 1);
                prop_assert_eq!(last >> 12, burst.address >> 12);
                for (beat, base) in burst.beats.iter().zip((0..).map(|index| burst.address.wrapping_add(index * beat_bytes))) {
                    prop_assert!(beat.strobes != 0);
                    for (lane, byte) in (0..beat_bytes).zip(&beat.data) {
                        if beat.strobes >> lane & 1 == 1 {
                            prop_assert_eq!(memory.insert(base.wrapping_add(lane), *byte), None, "written twice");
                        }
                    }
                }
            }
            let expected = (0..).zip(&bytes).map(|(offset, byte)| (address.wrapping_add(offset), *byte)).collect();
            prop_assert_eq!(memory, expected);
            prop_assert_eq!(bursts.iter().map(|burst| burst.beats.len()).sum::<usize>(), write.beats.len());
        }
    }
}
