//! `axi_read_master`: makes AXI4 bursts of payload requests, and packets of what memory gives for them.
//!
//! It owns the requests whose data have not all come. A burst never crosses 4 KiB and has at most 256 beats; packets come in the order of their
//! requests. Theory of operation: `docs/src/blocks/axi_read_master.md`.

use std::collections::VecDeque;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::PayloadRequest;

use crate::axi_write_master::{BOUNDARY, BurstResponse, MOST_BEATS};

/// What was generated: the part of the configuration that this block's behaviour depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Bytes of a beat: a power of two, 2 to 128.
    pub beat_bytes: usize,
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            beat_bytes: config.datapath.width_bits as usize / 8,
        }
    }
}

/// A burst that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReadBurst {
    /// ARADDR: that of byte 0 of the first beat, a multiple of the bus width.
    pub address: u64,
    /// Beats: ARLEN is one less.
    pub beats: u32,
}

/// A packet of payload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Payload {
    /// The bytes that were asked for.
    pub data: Vec<u8>,
    /// Memory refused a part of them: the packet has [`Payload::given_length`] bytes, and none of them counts.
    pub refused: bool,
}

impl Payload {
    /// Bytes with which the packet leaves: if it was refused, one more than asked for, or where its last beat is full one fewer, so that who
    /// knows the length finds it bad.
    #[must_use]
    pub fn given_length(&self, config: Config) -> usize {
        match (self.refused, self.data.len().is_multiple_of(config.beat_bytes)) {
            (false, _) => self.data.len(),
            (true, true) => self.data.len() - 1,
            (true, false) => self.data.len() + 1,
        }
    }
}

/// Counters, as the ports `count_…` of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Requests whose bursts have all been given.
    pub requests: u32,
    /// Bursts given.
    pub bursts: u32,
    /// Packets of which memory refused a part.
    pub refused: u32,
    /// Beats that were answered by SLVERR.
    pub slave_errors: u32,
    /// Beats that were answered by DECERR.
    pub decode_errors: u32,
}

/// A request whose data have not all come.
#[derive(Debug, Clone)]
struct Outstanding {
    offset: usize,
    length: usize,
    beats: usize,
}

/// The block: what has not come, and counters.
#[derive(Debug, Clone)]
pub struct AxiReadMaster {
    config: Config,
    outstanding: VecDeque<Outstanding>,
    /// Beats of the oldest request that came.
    beats: Vec<u8>,
    refused: bool,
    counters: Counters,
}

impl AxiReadMaster {
    /// The block after reset: nothing is outstanding, all counters are 0.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            outstanding: VecDeque::new(),
            beats: Vec::new(),
            refused: false,
            counters: Counters::default(),
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Requests whose data have not all come.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Takes a request (of 1 to 4,096 bytes) and gives its bursts. The key is for who translates addresses: it is not looked at.
    pub fn request(&mut self, request: &PayloadRequest) -> Vec<ReadBurst> {
        let beat_bytes = self.config.beat_bytes as u64;
        let offset = request.address % beat_bytes;
        let beats = (offset + u64::from(request.length)).div_ceil(beat_bytes);
        let burst_bytes = BOUNDARY.min(MOST_BEATS * beat_bytes);
        let mut bursts = Vec::new();
        let (mut address, mut left) = (request.address - offset, beats);
        while left > 0 {
            let beats = left.min((burst_bytes - address % burst_bytes) / beat_bytes);
            bursts.push(ReadBurst {
                address,
                beats: beats as u32,
            });
            // Addresses wrap at 2^64, as everything that counts addresses does.
            address = address.wrapping_add(beats * beat_bytes);
            left -= beats;
        }
        self.outstanding.push_back(Outstanding {
            offset: offset as usize,
            length: request.length.into(),
            beats: beats as usize,
        });
        self.counters.requests = self.counters.requests.wrapping_add(1);
        self.counters.bursts = self.counters.bursts.wrapping_add(bursts.len() as u32);
        bursts
    }

    /// Takes the next beat from memory; the last one of a request gives its packet. A beat that nobody asked for changes nothing.
    pub fn beat(&mut self, data: &[u8], response: BurstResponse) -> Option<Payload> {
        let oldest = self.outstanding.front()?;
        match response {
            BurstResponse::Okay | BurstResponse::ExclusiveOkay => {}
            BurstResponse::SlaveError => self.counters.slave_errors = self.counters.slave_errors.wrapping_add(1),
            BurstResponse::DecodeError => self.counters.decode_errors = self.counters.decode_errors.wrapping_add(1),
        }
        self.refused |= matches!(response, BurstResponse::SlaveError | BurstResponse::DecodeError);
        self.beats
            .extend((0..self.config.beat_bytes).map(|byte| data.get(byte).copied().unwrap_or(0)));
        if self.beats.len() < oldest.beats * self.config.beat_bytes {
            return None;
        }
        let data = self.beats[oldest.offset..oldest.offset + oldest.length].to_vec();
        self.beats.clear();
        self.outstanding.pop_front();
        let refused = std::mem::take(&mut self.refused);
        self.counters.refused = self.counters.refused.wrapping_add(refused.into());
        Some(Payload { data, refused })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn master(beat_bytes: usize) -> AxiReadMaster {
        AxiReadMaster::new(Config { beat_bytes })
    }

    fn request(address: u64, length: u16) -> PayloadRequest {
        PayloadRequest {
            address,
            length,
            ..PayloadRequest::default()
        }
    }

    /// Address and number of beats of each burst.
    fn bursts(beat_bytes: usize, address: u64, length: u16) -> Vec<(u64, u32)> {
        let bursts = master(beat_bytes).request(&request(address, length));
        bursts.iter().map(|burst| (burst.address, burst.beats)).collect()
    }

    #[test]
    fn bursts_end_at_4_kib_and_after_256_beats() {
        assert_eq!(bursts(64, 0x1000, 4096), [(0x1000, 64)]);
        assert_eq!(bursts(64, 0x1001, 4096), [(0x1000, 64), (0x2000, 1)]);
        assert_eq!(bursts(64, 0x1fff, 2), [(0x1fc0, 1), (0x2000, 1)]);
        assert_eq!(bursts(64, 0x1fff, 1), [(0x1fc0, 1)]);
        assert_eq!(bursts(8, 0x1000, 4096), [(0x1000, 256), (0x1800, 256)]);
        assert_eq!(bursts(8, 0x1ffc, 4096), [(0x1ff8, 1), (0x2000, 256), (0x2800, 256)]);
        assert_eq!(bursts(128, u64::MAX, 2), [(u64::MAX - 127, 1), (0, 1)]);
    }

    #[test]
    fn a_refused_beat_makes_its_packet_bad_and_no_other() {
        let mut master = master(8);
        for (address, length) in [(0x100, 16), (0x105, 2), (0x203, 9), (0x300, 8)] {
            master.request(&request(address, length));
        }
        let responses = [
            BurstResponse::SlaveError,
            BurstResponse::Okay,
            BurstResponse::ExclusiveOkay,
            BurstResponse::Okay,
            BurstResponse::DecodeError,
            BurstResponse::Okay,
        ];
        let packets: Vec<Payload> = responses.iter().filter_map(|one| master.beat(&[7; 8], *one)).collect();
        assert_eq!(
            packets.iter().map(|one| one.refused).collect::<Vec<_>>(),
            [true, false, true, false]
        );
        let lengths: Vec<usize> = packets
            .iter()
            .map(|one| one.given_length(Config { beat_bytes: 8 }))
            .collect();
        assert_eq!(lengths, [15, 2, 10, 8]);
        let counters = Counters {
            requests: 4,
            bursts: 4,
            refused: 2,
            slave_errors: 1,
            decode_errors: 1,
        };
        assert_eq!(*master.counters(), counters);
        assert_eq!(master.beat(&[0; 8], BurstResponse::SlaveError), None);
        assert_eq!((*master.counters(), master.outstanding()), (counters, 0));
    }

    proptest! {
        /// Every burst is legal, and each packet is what stands in memory where its request says.
        #[test]
        fn packets_are_what_memory_holds(
            beat_bytes in prop::sample::select(vec![8usize, 16, 64, 128]),
            requests in prop::collection::vec((0u64..0x4000, 1u16..=4096), 1..12),
        ) {
            let memory: Vec<u8> = (0..0x6000u32).map(|at| (at.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
            let mut master = master(beat_bytes);
            let mut packets = vec![];
            for (address, length) in &requests {
                for burst in master.request(&request(*address, *length)) {
                    let bytes = u64::from(burst.beats) * beat_bytes as u64;
                    prop_assert!(burst.beats >= 1 && u64::from(burst.beats) <= MOST_BEATS);
                    prop_assert_eq!(burst.address / BOUNDARY, (burst.address + bytes - 1) / BOUNDARY);
                    prop_assert_eq!(burst.address % beat_bytes as u64, 0);
                    let from = burst.address as usize;
                    let beats = memory[from..from + bytes as usize].chunks(beat_bytes);
                    packets.extend(beats.filter_map(|beat| master.beat(beat, BurstResponse::Okay)));
                }
            }
            prop_assert_eq!(master.outstanding(), 0);
            let expected: Vec<Payload> = requests.iter().map(|(address, length)| {
                let from = *address as usize;
                Payload { data: memory[from..from + usize::from(*length)].to_vec(), refused: false }
            }).collect();
            prop_assert_eq!(packets, expected);
        }
    }
}
