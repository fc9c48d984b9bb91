//! Software's side of the registers of a NIC: settings, reads, and descriptors for its tables, one transfer of AXI4-Lite after the other.
//!
//! Words of a descriptor that stand there already are not written again. The next descriptor is written when the last one has been taken.

use std::collections::VecDeque;

use spraynic_config::registers::{DESCRIPTOR_OFFSET, REGISTER_BYTES, RegisterMap, TARGETS};

use crate::simulation::{Input, Output, Simulation, SimulationError};

/// A transfer that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transfer {
    Write {
        offset: u32,
        value: u32,
    },
    Read {
        offset: u32,
    },
    /// Reads `descriptor_status` until it says that the descriptor was taken.
    AwaitTaken,
}

/// Where the transfer that is under way stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    /// Address and data, those that were not taken yet.
    Writing {
        address: bool,
        data: bool,
    },
    Responding,
    Reading,
    Answering,
}

/// The AXI4-Lite master.
#[derive(Debug)]
pub(super) struct Registers {
    write_address: Input,
    write_address_valid: Input,
    write_address_ready: Output,
    write_data: Input,
    write_data_valid: Input,
    write_data_ready: Output,
    write_response: Output,
    write_response_valid: Output,
    read_address: Input,
    read_address_valid: Input,
    read_address_ready: Output,
    read_data: Output,
    read_response: Output,
    read_valid: Output,
    commit: u32,
    status: u32,
    /// What the words of the descriptor hold; `None`: not known.
    words: Vec<Option<u32>>,
    queue: VecDeque<Transfer>,
    state: State,
    values: VecDeque<u32>,
}

impl Registers {
    /// The master of the ports `s_axil_…`, for these registers.
    pub(super) fn new(simulation: &mut Simulation, map: &RegisterMap) -> Result<Self, SimulationError> {
        let offset = |name: &str| map.find(name).map_or(0, |register| register.offset);
        let input = |name: &str| simulation.input(&format!("s_axil_{name}"));
        let output = |name: &str| simulation.output(&format!("s_axil_{name}"));
        let registers = Self {
            write_address: input("awaddr")?,
            write_address_valid: input("awvalid")?,
            write_address_ready: output("awready")?,
            write_data: input("wdata")?,
            write_data_valid: input("wvalid")?,
            write_data_ready: output("wready")?,
            write_response: output("bresp")?,
            write_response_valid: output("bvalid")?,
            read_address: input("araddr")?,
            read_address_valid: input("arvalid")?,
            read_address_ready: output("arready")?,
            read_data: output("rdata")?,
            read_response: output("rresp")?,
            read_valid: output("rvalid")?,
            commit: offset("descriptor_commit"),
            status: offset("descriptor_status"),
            words: vec![None; map.descriptor_words() as usize],
            queue: VecDeque::new(),
            state: State::Idle,
            values: VecDeque::new(),
        };
        for (name, value) in [("wstrb", 0b1111), ("bready", 1), ("rready", 1)] {
            simulation.set_by_name(&format!("s_axil_{name}"), value)?;
        }
        Ok(registers)
    }

    /// Writes a register.
    pub(super) fn write(&mut self, offset: u32, value: u32) {
        self.queue.push_back(Transfer::Write { offset, value });
    }

    /// Reads a register; its value comes by [`Registers::value`].
    pub(super) fn read(&mut self, offset: u32) {
        self.queue.push_back(Transfer::Read { offset });
    }

    /// The next value that was read.
    pub(super) fn value(&mut self) -> Option<u32> {
        self.values.pop_front()
    }

    /// Sends a descriptor to the target of this name. False: there is none.
    pub(super) fn send(&mut self, target: &str, descriptor: &[u8]) -> bool {
        let Some(target) = TARGETS.iter().find(|one| one.name == target) else {
            return false;
        };
        for (place, bytes) in descriptor.chunks(REGISTER_BYTES as usize).enumerate() {
            let mut word = [0; REGISTER_BYTES as usize];
            word[..bytes.len()].copy_from_slice(bytes);
            let value = u32::from_le_bytes(word);
            if self.words.get(place).copied().flatten() != Some(value) {
                self.write(DESCRIPTOR_OFFSET + REGISTER_BYTES * place as u32, value);
                if let Some(kept) = self.words.get_mut(place) {
                    *kept = Some(value);
                }
            }
        }
        self.write(self.commit, target.code);
        self.queue.push_back(Transfer::AwaitTaken);
        true
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn drive(&mut self, simulation: &mut Simulation) {
        if self.state == State::Idle {
            match self.queue.front() {
                Some(Transfer::Write { offset, value }) => {
                    simulation.set(self.write_address, u64::from(*offset));
                    simulation.set(self.write_data, u64::from(*value));
                    simulation.set(self.write_address_valid, 1);
                    simulation.set(self.write_data_valid, 1);
                    self.state = State::Writing {
                        address: true,
                        data: true,
                    };
                }
                Some(other) => {
                    let offset = match other {
                        Transfer::Read { offset } => *offset,
                        _ => self.status,
                    };
                    simulation.set(self.read_address, u64::from(offset));
                    simulation.set(self.read_address_valid, 1);
                    self.state = State::Reading;
                }
                None => {}
            }
        }
    }

    /// True: something was transferred. Inputs of the next clock are set here where they depend on what was taken.
    ///
    /// # Errors
    /// A register answers by SLVERR.
    pub(super) fn observe(&mut self, simulation: &mut Simulation) -> Result<bool, String> {
        match &mut self.state {
            State::Idle => Ok(false),
            State::Writing { address, data } => {
                if *address && simulation.get(self.write_address_ready) == 1 {
                    *address = false;
                    simulation.set(self.write_address_valid, 0);
                }
                if *data && simulation.get(self.write_data_ready) == 1 {
                    *data = false;
                    simulation.set(self.write_data_valid, 0);
                }
                if !*address && !*data {
                    self.state = State::Responding;
                }
                Ok(true)
            }
            State::Responding => {
                if simulation.get(self.write_response_valid) == 1 {
                    self.state = State::Idle;
                    let done = self.queue.pop_front();
                    if simulation.get(self.write_response) != 0 {
                        return Err(format!("{done:x?} was refused"));
                    }
                }
                Ok(true)
            }
            State::Reading => {
                if simulation.get(self.read_address_ready) == 1 {
                    simulation.set(self.read_address_valid, 0);
                    self.state = State::Answering;
                }
                Ok(true)
            }
            State::Answering => {
                if simulation.get(self.read_valid) == 1 {
                    self.state = State::Idle;
                    let value = simulation.get(self.read_data) as u32;
                    let good = simulation.get(self.read_response) == 0;
                    match self.queue.front() {
                        Some(transfer) if !good => return Err(format!("{transfer:x?} was refused")),
                        Some(Transfer::AwaitTaken) if value & 1 == 1 => return Ok(true),
                        Some(Transfer::Read { .. }) => self.values.push_back(value),
                        _ => {}
                    }
                    self.queue.pop_front();
                }
                Ok(true)
            }
        }
    }
}
