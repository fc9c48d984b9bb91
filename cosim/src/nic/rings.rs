//! The driver's rings of work requests: a ring in memory for each queue pair, and their doorbells.
//!
//! It never rings for more than a ring holds: a run that posts so much at once stops.

use spraynic_config::descriptor::{Descriptor, Doorbell, RequestRing, RingProgress, WorkRequest};

use super::streams::{DescriptorSink, DescriptorSource};
use crate::simulation::{Simulation, SimulationError};

/// Bytes of an entry.
const ENTRY_BYTES: usize = 64;
/// Entries of each ring, as a power of two.
const ENTRIES_LOG2: u8 = 9;
/// Bytes of each ring.
const RING_BYTES: usize = ENTRY_BYTES << ENTRIES_LOG2;

#[derive(Debug)]
pub(super) struct Rings {
    doorbell: DescriptorSource,
    progress: DescriptorSink,
    /// Memory of the rings alone: a scenario compares the host's own.
    memory: Vec<u8>,
    /// Entries written and entries read of each queue pair, modulo 2^16.
    counts: Vec<(u16, u16)>,
}

impl Rings {
    /// Rings of so many queue pairs, one behind the other from address 0 of a memory of their own.
    ///
    /// # Errors
    /// The model has no such ports.
    pub(super) fn new(simulation: &mut Simulation, queue_pairs: u32) -> Result<Self, SimulationError> {
        Ok(Self {
            doorbell: DescriptorSource::new(simulation, "s_axis_doorbell")?,
            progress: DescriptorSink::new(simulation, "m_axis_ring_progress")?,
            memory: vec![0; queue_pairs as usize * RING_BYTES],
            counts: vec![(0, 0); queue_pairs as usize],
        })
    }

    /// What the port for rings reads.
    pub(super) fn memory(&self) -> &[u8] {
        &self.memory
    }

    /// What is written into the NIC's table.
    pub(super) fn writes(&self) -> Vec<RequestRing> {
        let queue_pairs = 0..self.counts.len();
        let ring = |queue_pair| RequestRing {
            qpn: queue_pair as u32,
            entries_log2: ENTRIES_LOG2,
            valid: true,
            base: (queue_pair * RING_BYTES) as u64,
            ..RequestRing::default()
        };
        queue_pairs.map(ring).collect()
    }

    /// Writes a work request into the ring of its queue pair, and rings; false: it has none.
    ///
    /// # Panics
    /// The ring is full.
    pub(super) fn post(&mut self, request: &[u8]) -> bool {
        let qpn = WorkRequest::unpack(request).qpn;
        let Some((written, read)) = self.counts.get_mut(qpn as usize) else {
            return false;
        };
        let held = written.wrapping_sub(*read);
        assert!(held < 1 << ENTRIES_LOG2, "the ring of queue pair {qpn} is full");
        let place = usize::from(*written) % (1 << ENTRIES_LOG2);
        let start = qpn as usize * RING_BYTES + place * ENTRY_BYTES;
        self.memory[start..start + ENTRY_BYTES].copy_from_slice(request);
        *written = written.wrapping_add(1);
        let doorbell = Doorbell {
            qpn,
            producer: *written,
            ..Doorbell::default()
        };
        self.doorbell.push(doorbell.pack());
        true
    }

    /// Whether all entries have been read.
    pub(super) fn is_idle(&self) -> bool {
        self.counts.iter().all(|(written, read)| written == read)
    }

    pub(super) fn drive(&mut self, simulation: &mut Simulation) {
        self.doorbell.drive(simulation);
    }

    /// True: something moved.
    pub(super) fn observe(&mut self, simulation: &Simulation) -> bool {
        let taken = self.doorbell.observe(simulation);
        let Some(bytes) = self.progress.observe(simulation) else {
            return taken;
        };
        let progress = RingProgress::unpack(bytes);
        if let Some((_, read)) = self.counts.get_mut(progress.qpn as usize) {
            *read = progress.consumer;
        }
        true
    }
}
