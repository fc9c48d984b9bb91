//! `Evaluator`: runs a finished module in Rust, for unit tests that need no Verilator.
//!
//! The hierarchy is flattened into one list of operations over 64-bit words, in an order in which every operand comes first.
//! Registers and memories begin at zero, except that registers with a reset value get it by [`Evaluator::reset`].

mod compute;
mod flatten;
mod memories;

use crate::bits::{Bits, IntoBits, words_for};
use crate::context::short;
use crate::definition::Definition;
use crate::ir::{BinaryOp, Direction, Kind, NodeId, PropertyKind, UnaryOp};
use flatten::Builder;
use memories::MemoryState;
use std::collections::HashMap;

/// Where a value lies: first word and width.
#[derive(Debug, Clone, Copy)]
struct Slot {
    at: usize,
    width: u32,
}

impl Slot {
    fn words(self) -> std::ops::Range<usize> {
        self.at..self.at + words_for(self.width)
    }
}

#[derive(Debug, Clone)]
enum Operation {
    Unary(UnaryOp, Slot),
    Binary(BinaryOp, Slot, Slot),
    Mux(Slot, Slot, Slot),
    Slice(Slot, u32),
    /// Parts, the least significant first.
    Cat(Vec<Slot>),
    Copy(Slot),
    ReadNow {
        memory: usize,
        address: Slot,
    },
}

#[derive(Debug)]
struct Register {
    slot: Slot,
    next: Slot,
    reset: Option<Bits>,
}

#[derive(Debug)]
struct Check {
    condition: Slot,
    guarded: bool,
    text: String,
}

/// A running circuit.
#[derive(Debug)]
pub struct Evaluator {
    values: Vec<u64>,
    operations: Vec<(Slot, Operation)>,
    registers: Vec<Register>,
    memories: Vec<MemoryState>,
    checks: Vec<Check>,
    inputs: HashMap<String, Slot>,
    outputs: HashMap<String, Slot>,
    reset: Slot,
    fresh: bool,
    cycle: u64,
    scratch: Vec<u64>,
}

impl Evaluator {
    /// A circuit in its state before reset, all inputs zero.
    #[must_use]
    pub fn new(definition: Definition<'_>) -> Self {
        let context = definition.context;
        let mut builder = Builder::new(context, definition.index);
        builder.place_all();
        // Registers and memories come in the order of the parts.
        let (mut registers, mut memories, mut checks) = (vec![], vec![], vec![]);
        let mut constants = vec![];
        for (part, info) in builder.parts.iter().enumerate() {
            let data = context.data(info.module);
            let of = |id: NodeId| builder.slot((part, id));
            for (id, node) in data.nodes.iter().enumerate() {
                let id = id as NodeId;
                match &node.kind {
                    Kind::Register { reset } => {
                        let next = data.drivers.get(&id).map_or(of(id), |driver| of(*driver));
                        registers.push(Register {
                            slot: of(id),
                            next,
                            reset: reset.clone(),
                        });
                    }
                    Kind::Constant(value) => constants.push((of(id), value.clone())),
                    _ => {}
                }
            }
            for memory in &data.memories {
                let (Some(write), Some(read)) = (&memory.write, &memory.read) else {
                    continue;
                };
                memories.push(MemoryState {
                    words: vec![Bits::zero(memory.width); memory.depth as usize],
                    enable: of(write.enable),
                    address: of(write.address),
                    data: of(write.data),
                    strobe: write.strobe.map(of),
                    read: read.enable.map(|enable| (of(enable), of(read.address), of(read.data))),
                    shape: memory.clone(),
                });
            }
            for property in data
                .properties
                .iter()
                .filter(|property| property.kind != PropertyKind::Cover)
            {
                checks.push(Check {
                    condition: of(property.condition),
                    guarded: data.has_reset,
                    text: format!("{}{} ({})", info.name, property.name, short(property.place)),
                });
            }
        }
        let top = context.data(definition.index);
        let ports = |direction: Direction| {
            let ports = top.ports.iter().filter(move |port| port.direction == direction);
            ports
                .map(|port| (port.name.clone(), builder.slot((0, port.node))))
                .collect::<HashMap<_, _>>()
        };
        let (inputs, outputs) = (ports(Direction::Input), ports(Direction::Output));
        let mut values = vec![0; builder.length];
        for (slot, value) in constants {
            values[slot.words()].copy_from_slice(value.words());
        }
        Self {
            values,
            operations: builder.operations,
            registers,
            memories,
            checks,
            inputs,
            outputs,
            reset: Slot { at: 0, width: 1 },
            fresh: false,
            cycle: 0,
            scratch: vec![],
        }
    }

    fn bits(&self, slot: Slot) -> Bits {
        Bits::from_words(slot.width, &self.values[slot.words()])
    }

    fn store(&mut self, slot: Slot, value: &Bits) {
        self.values[slot.words()].copy_from_slice(value.words());
    }

    /// Sets an input port (`rst` too).
    ///
    /// # Panics
    /// When there is no such input or the value does not fit.
    #[track_caller]
    pub fn set(&mut self, name: &str, value: impl IntoBits) {
        let slot = if name == "rst" {
            self.reset
        } else {
            *self.find(&self.inputs, name)
        };
        let value = value
            .into_bits(slot.width)
            .unwrap_or_else(|| panic!("`{name}` has {} bits", slot.width));
        self.store(slot, &value);
        self.fresh = false;
    }

    #[track_caller]
    fn find<'m>(&self, ports: &'m HashMap<String, Slot>, name: &str) -> &'m Slot {
        ports.get(name).unwrap_or_else(|| panic!("no such port: `{name}`"))
    }

    /// Reads a port.
    ///
    /// # Panics
    /// When there is no such port.
    #[track_caller]
    pub fn get(&mut self, name: &str) -> Bits {
        self.settle();
        let slot = *self.outputs.get(name).unwrap_or_else(|| self.find(&self.inputs, name));
        self.bits(slot)
    }

    /// Reads a port of at most 64 bits.
    #[track_caller]
    pub fn get_u64(&mut self, name: &str) -> u64 {
        self.get(name)
            .to_u64()
            .unwrap_or_else(|| panic!("`{name}` holds more than 64 bits"))
    }

    /// Clocks that have passed.
    #[must_use]
    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    /// One clock with `rst` high.
    pub fn reset(&mut self) {
        self.set("rst", true);
        self.clock();
        self.set("rst", false);
    }

    /// One rising edge of the clock.
    ///
    /// # Panics
    /// When an assertion or assumption of the design does not hold.
    pub fn clock(&mut self) {
        self.settle();
        let in_reset = self.values[self.reset.at] == 1;
        for check in &self.checks {
            let holds = self.values[check.condition.at] == 1 || check.guarded && in_reset;
            assert!(holds, "cycle {}: {} does not hold", self.cycle, check.text);
        }
        let mut next = std::mem::take(&mut self.scratch);
        next.clear();
        for register in &self.registers {
            match &register.reset {
                Some(value) if in_reset => next.extend_from_slice(value.words()),
                _ => next.extend_from_slice(&self.values[register.next.words()]),
            }
        }
        self.clock_memories();
        let mut at = 0;
        for register in &self.registers {
            let count = words_for(register.slot.width);
            self.values[register.slot.words()].copy_from_slice(&next[at..at + count]);
            at += count;
        }
        self.scratch = next;
        self.cycle += 1;
        self.fresh = false;
    }

    /// Computes everything that depends on inputs and state.
    fn settle(&mut self) {
        if self.fresh {
            return;
        }
        let operations = std::mem::take(&mut self.operations);
        for (slot, operation) in &operations {
            self.compute(*slot, operation);
        }
        self.operations = operations;
        self.fresh = true;
    }
}
