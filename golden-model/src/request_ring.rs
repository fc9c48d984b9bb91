//! `request_ring`: work requests from rings in memory. A doorbell says how far a ring has been written; its entries are read in order and given on.
//!
//! It owns the rings' places and how far each has been read. It never looks into an entry but for the queue pair, which is that of the ring, and
//! never reads an entry that no doorbell has told of. Theory of operation: `docs/src/blocks/request_ring.md`.

use std::collections::VecDeque;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Descriptor, Doorbell, PayloadRequest, RequestRing, RingProgress, WorkRequest};

/// Bytes of an entry: a packed `WorkRequest`.
pub const ENTRY_BYTES: u16 = 64;

/// Reads that may be under way.
pub const READS: usize = 4;

/// `WorkRequest::opcode` of an entry that memory refused: no operation has this code.
pub const REFUSED_OPCODE: u8 = 0xff;

/// What was generated: the part of the configuration that this block's behaviour depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Queue pairs that may have a ring: number 0 to `queue_pairs - 1`.
    pub queue_pairs: u32,
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            queue_pairs: config.send_queue_pairs(),
        }
    }
}

/// Counters, as the ports `count_…` of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Ring writes refused: a queue pair beyond the table, or a base that is no multiple of 64.
    pub drop_ring: u32,
    /// Doorbells accepted, those that tell nothing new too.
    pub doorbells: u32,
    /// Doorbells of a queue pair beyond the table or without a ring.
    pub drop_queue_pair: u32,
    /// Doorbells that go back, or beyond what the ring holds.
    pub drop_producer: u32,
    /// Entries given, those refused too.
    pub entries: u32,
    /// Entries that memory refused.
    pub refused: u32,
}

/// The ring of a queue pair.
#[derive(Debug, Clone, Copy, Default)]
struct Ring {
    valid: bool,
    base: u64,
    entries_log2: u8,
    /// Entries written, as the last doorbell said, modulo 2^16.
    producer: u16,
    /// Entries asked for, modulo 2^16.
    consumer: u16,
    /// The queue pair waits for its turn.
    waits: bool,
}

/// A turn of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The queue pair.
    pub qpn: u32,
    /// The entry to read; `None`: the ring was written since it had any.
    pub read: Option<PayloadRequest>,
}

/// A read under way.
#[derive(Debug, Clone, Copy)]
struct Read {
    qpn: u32,
    /// Number of the entry, modulo 2^16.
    index: u16,
}

/// The block: rings, who waits, reads under way and counters.
#[derive(Debug, Clone)]
pub struct RequestRings {
    rings: Vec<Ring>,
    /// Queue pairs with entries to read, in the order of their turns.
    waiting: VecDeque<u32>,
    reads: VecDeque<Read>,
    counters: Counters,
}

impl RequestRings {
    /// The block after reset: no ring, all counters are 0.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            rings: vec![Ring::default(); config.queue_pairs as usize],
            waiting: VecDeque::new(),
            reads: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Reads whose data have not come.
    #[must_use]
    pub fn reads(&self) -> usize {
        self.reads.len()
    }

    /// Writes a ring, of which nothing has been told then. A queue pair beyond the table changes nothing, a base that is no multiple of 64 leaves
    /// the queue pair without a ring; both are counted. The RTL takes a write when no read is under way.
    pub fn write_ring(&mut self, write: &RequestRing) {
        let aligned = write.base.is_multiple_of(ENTRY_BYTES.into());
        let ring = self.rings.get_mut(write.qpn as usize);
        if ring.is_none() || (write.valid && !aligned) {
            self.counters.drop_ring = self.counters.drop_ring.wrapping_add(1);
        }
        if let Some(ring) = ring {
            *ring = Ring {
                valid: write.valid && aligned,
                base: write.base,
                entries_log2: write.entries_log2 & 15,
                producer: 0,
                consumer: 0,
                waits: ring.waits,
            };
        }
    }

    /// Takes a doorbell. Those that cannot be right are counted and change nothing.
    pub fn doorbell(&mut self, doorbell: &Doorbell) {
        let count = match self.rings.get_mut(doorbell.qpn as usize).filter(|ring| ring.valid) {
            None => &mut self.counters.drop_queue_pair,
            Some(ring) => {
                let told = ring.producer.wrapping_sub(ring.consumer);
                let tells = doorbell.producer.wrapping_sub(ring.consumer);
                if tells < told || u32::from(tells) > 1 << ring.entries_log2 {
                    &mut self.counters.drop_producer
                } else {
                    ring.producer = doorbell.producer;
                    if tells > 0 && !ring.waits {
                        ring.waits = true;
                        self.waiting.push_back(doorbell.qpn);
                    }
                    &mut self.counters.doorbells
                }
            }
        };
        *count = count.wrapping_add(1);
    }

    /// The next turn: one entry of one queue pair is asked for. `None`: no ring has entries, or as many reads as may be are under way.
    pub fn turn(&mut self) -> Option<Turn> {
        if self.reads.len() >= READS {
            return None;
        }
        let qpn = self.waiting.pop_front()?;
        let ring = &mut self.rings[qpn as usize];
        let left = ring.producer.wrapping_sub(ring.consumer);
        ring.waits = left > 1;
        if ring.waits {
            self.waiting.push_back(qpn);
        }
        let read = (left > 0).then(|| {
            let index = ring.consumer;
            ring.consumer = index.wrapping_add(1);
            self.reads.push_back(Read { qpn, index });
            let place = u64::from(index) & ((1 << ring.entries_log2) - 1);
            PayloadRequest {
                length: ENTRY_BYTES,
                // Addresses wrap at 2^64, as everything that counts addresses does.
                address: ring.base.wrapping_add(place * u64::from(ENTRY_BYTES)),
                ..PayloadRequest::default()
            }
        });
        Some(Turn { qpn, read })
    }

    /// Takes what memory gives for the oldest read; `refused`, or another number of bytes than 64, says that it gave nothing. Returns the work
    /// request and how far its ring has come, or `None` where no read is under way.
    pub fn data(&mut self, bytes: &[u8], refused: bool) -> Option<(WorkRequest, RingProgress)> {
        let Read { qpn, index } = self.reads.pop_front()?;
        let refused = refused || bytes.len() != usize::from(ENTRY_BYTES);
        self.counters.entries = self.counters.entries.wrapping_add(1);
        self.counters.refused = self.counters.refused.wrapping_add(refused.into());
        let request = if refused {
            WorkRequest {
                opcode: REFUSED_OPCODE,
                signalled: true,
                cookie: index.into(),
                ..WorkRequest::default()
            }
        } else {
            WorkRequest::unpack(bytes)
        };
        let progress = RingProgress {
            qpn,
            consumer: index.wrapping_add(1),
            ..RingProgress::default()
        };
        Some((WorkRequest { qpn, ..request }, progress))
    }
}

#[cfg(test)]
#[path = "request_ring_tests.rs"]
mod tests;
