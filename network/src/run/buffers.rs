//! Where each message comes from and goes to in memory, and what memory must hold in the end.

use crate::scenario::{MessageSpec, Operation, Scenario};

/// Bytes between buffers, which nobody may touch.
const GUARD: usize = 16;

/// A message's places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Place {
    /// At the side that asks.
    pub(crate) local: usize,
    /// At the other side.
    pub(crate) remote: usize,
    /// Bytes.
    pub(crate) length: usize,
    /// Operands of an atomic.
    pub(crate) compare: u64,
    /// See `compare`.
    pub(crate) swap_add: u64,
}

/// The memory of all NICs before and after.
#[derive(Debug, Clone)]
pub(crate) struct Buffers {
    places: Vec<Place>,
    before: Vec<Vec<u8>>,
    after: Vec<Vec<u8>>,
}

impl Buffers {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let mut ends = vec![64usize; scenario.nics];
        let mut allocate = |nic: usize, length: usize, align: usize, odd: usize| {
            let start = ends[nic].next_multiple_of(align) + odd;
            ends[nic] = start + length + GUARD;
            start
        };
        let sides = scenario.queue_pairs.len() * 2;
        let cells: Vec<usize> = (0..sides)
            .map(|side| allocate(scenario.queue_pairs[side / 2].nics[1 - side % 2], 8, 8, 0))
            .collect();
        let longest = |side: usize| {
            let messages = scenario.messages.iter().filter(|message| side_of(message) == side);
            messages.map(|message| message.length as usize).max().unwrap_or(0)
        };
        let shared: Vec<Option<(usize, usize)>> = (0..sides)
            .map(|side| {
                scenario.shared_buffers.then(|| {
                    let nics = scenario.queue_pairs[side / 2].nics;
                    let length = longest(side);
                    let local = allocate(nics[side % 2], length, 4096, 0);
                    (local, allocate(nics[1 - side % 2], length, 4096, 0))
                })
            })
            .collect();
        let mut places = Vec::with_capacity(scenario.messages.len());
        for (number, message) in scenario.messages.iter().enumerate() {
            let side = side_of(message);
            let nics = scenario.queue_pairs[message.queue_pair].nics;
            let (near, far) = (nics[message.side], nics[1 - message.side]);
            let odd = |step: usize| number * step % 64;
            let mut place = Place {
                length: message.length as usize,
                ..Place::default()
            };
            if message.operation.is_atomic() {
                place.length = 8;
                place.local = allocate(near, 8, 8, 0);
                place.remote = cells[side];
            } else if let Some((local, remote)) = shared[side] {
                (place.local, place.remote) = (local, remote);
            } else {
                place.local = allocate(near, place.length, 1, odd(13));
                place.remote = allocate(far, place.length, 1, odd(7));
            }
            places.push(place);
        }
        let before: Vec<Vec<u8>> = ends
            .iter()
            .enumerate()
            .map(|(nic, end)| {
                let mut bytes = vec![0; *end];
                fastrand::Rng::with_seed(scenario.seed ^ (nic as u64 + 1)).fill(&mut bytes);
                bytes
            })
            .collect();
        let mut buffers = Self {
            places,
            after: before.clone(),
            before,
        };
        for (number, message) in scenario.messages.iter().enumerate() {
            buffers.carry_out(scenario, number, message);
        }
        buffers
    }

    /// What a message does to memory. The atomics of a side have a cell of their own, so that their order is that of the messages.
    fn carry_out(&mut self, scenario: &Scenario, number: usize, message: &MessageSpec) {
        let nics = scenario.queue_pairs[message.queue_pair].nics;
        let (near, far) = (nics[message.side], nics[1 - message.side]);
        let place = &mut self.places[number];
        let (local, remote) = (
            place.local..place.local + place.length,
            place.remote..place.remote + place.length,
        );
        match message.operation {
            Operation::Send | Operation::Write => {
                let bytes = self.before[near][local].to_vec();
                self.after[far][remote].copy_from_slice(&bytes);
            }
            Operation::Read => {
                let bytes = self.before[far][remote].to_vec();
                self.after[near][local].copy_from_slice(&bytes);
            }
            Operation::FetchAdd | Operation::CompareSwap => {
                let mut cell = [0; 8];
                cell.copy_from_slice(&self.after[far][remote.clone()]);
                let original = u64::from_le_bytes(cell);
                place.swap_add = (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                // Every third comparison fails.
                place.compare = if number % 3 == 2 { !original } else { original };
                let value = match message.operation {
                    Operation::FetchAdd => original.wrapping_add(place.swap_add),
                    _ if place.compare == original => place.swap_add,
                    _ => original,
                };
                self.after[far][remote].copy_from_slice(&value.to_le_bytes());
                self.after[near][local].copy_from_slice(&original.to_le_bytes());
            }
        }
    }

    pub(crate) fn place(&self, message: usize) -> Place {
        self.places[message]
    }

    pub(crate) fn memory_bytes(&self, nic: usize) -> usize {
        self.before[nic].len()
    }

    /// Puts what memory holds in the beginning into it.
    pub(crate) fn fill(&self, nic: usize, memory: &mut Vec<u8>) {
        memory.clone_from(&self.before[nic]);
    }

    /// Whether memory is as it must be in the end: what was written, and what nobody may touch.
    pub(crate) fn check(&self, nic: usize, memory: &[u8]) -> Result<(), String> {
        let after = &self.after[nic];
        if memory == after.as_slice() {
            return Ok(());
        }
        let wrong = memory.iter().zip(after).position(|(is, must)| is != must);
        let Some(address) = wrong else {
            return Err(format!(
                "memory of NIC {nic} has {} bytes, not {}",
                memory.len(),
                after.len()
            ));
        };
        let what = if memory[address] == self.before[nic][address] {
            "was not written"
        } else {
            "is wrong"
        };
        let count = memory.iter().zip(after).filter(|(is, must)| is != must).count();
        Err(format!(
            "memory of NIC {nic}: byte {address} {what} ({count} bytes differ)"
        ))
    }
}

/// Place of a message's side among all sides.
pub(crate) fn side_of(message: &MessageSpec) -> usize {
    message.queue_pair * 2 + message.side
}
