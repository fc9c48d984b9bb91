//! `Evaluator`: runs a finished module in Rust, for unit tests that need no Verilator.
//!
//! The hierarchy is flattened into one list of operations over 64-bit words, in an order in which every operand comes first.
//! Registers and memories begin at zero, except that registers with a reset value get it by [`Evaluator::reset`].

use crate::bits::{Bits, IntoBits, top_mask, words_for};
use crate::check::needs;
use crate::context::{Context, short};
use crate::ir::{BinaryOp, Direction, Kind, Memory, NodeId, PropertyKind, ReadDuringWrite, UnaryOp};
use crate::module::{Definition, Module};
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
struct MemoryState {
    shape: Memory,
    words: Vec<Bits>,
    enable: Slot,
    address: Slot,
    data: Slot,
    strobe: Option<Slot>,
    read: Option<(Slot, Slot, Slot)>,
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

/// One flattened module: which definition, and the flat index of its first node.
struct Part {
    module: u32,
    base: usize,
    /// The part and nodes that its inputs are connected to.
    parent: Option<(usize, u32)>,
    name: String,
}

struct Builder<'c> {
    context: &'c Context,
    parts: Vec<Part>,
    /// Part of each instance: (parent part, instance index).
    children: HashMap<(usize, u32), usize>,
    slots: Vec<Option<Slot>>,
    length: usize,
    operations: Vec<(Slot, Operation)>,
}

type Flat = (usize, NodeId);

impl<'c> Builder<'c> {
    fn new(context: &'c Context, top: u32) -> Self {
        let mut builder = Self {
            context,
            parts: vec![],
            children: HashMap::new(),
            slots: vec![],
            length: 1,
            operations: vec![],
        };
        builder.add(top, None, String::new());
        builder
    }

    fn add(&mut self, module: u32, parent: Option<(usize, u32)>, name: String) -> usize {
        let base = self.slots.len();
        let part = self.parts.len();
        let data = self.context.data(module);
        self.slots.extend(std::iter::repeat_n(None, data.nodes.len()));
        self.parts.push(Part {
            module,
            base,
            parent,
            name: name.clone(),
        });
        for (index, instance) in data.instances.iter().enumerate() {
            let below = format!("{name}{}.", instance.name);
            let child = self.add(instance.module, Some((part, index as u32)), below);
            self.children.insert((part, index as u32), child);
        }
        part
    }

    fn allocate(&mut self, width: u32) -> Slot {
        let slot = Slot { at: self.length, width };
        self.length += words_for(width);
        slot
    }

    fn slot(&self, flat: Flat) -> Slot {
        self.slots[self.parts[flat.0].base + flat.1 as usize].expect("operands are placed before their user")
    }

    fn known(&self, flat: Flat) -> bool {
        self.slots[self.parts[flat.0].base + flat.1 as usize].is_some()
    }

    /// The values a node needs first, across the hierarchy.
    fn needs(&self, (part, id): Flat) -> Vec<Flat> {
        let data = self.context.data(self.parts[part].module);
        match &data.node(id).kind {
            Kind::InstanceOutput { instance, port } => {
                let child = self.children[&(part, *instance)];
                let inner = self.context.data(self.parts[child].module);
                vec![(child, inner.ports[*port as usize].node)]
            }
            Kind::Input => match self.parts[part].parent {
                Some((parent, instance)) => {
                    let outer = self.context.data(self.parts[parent].module);
                    let port = data
                        .ports
                        .iter()
                        .position(|port| port.node == id)
                        .expect("an input is a port");
                    vec![(parent, outer.instances[instance as usize].connections[port])]
                }
                None => vec![],
            },
            _ => {
                let module = Module {
                    context: self.context,
                    index: self.parts[part].module,
                };
                needs(module, &data, id)
                    .into_iter()
                    .map(|other| (part, other))
                    .collect()
            }
        }
    }

    /// Gives every node a slot, operands first.
    fn place_all(&mut self) {
        for part in 0..self.parts.len() {
            let count = self.context.data(self.parts[part].module).nodes.len();
            for id in 0..count as NodeId {
                let mut stack = vec![(part, id)];
                while let Some(top) = stack.last().copied() {
                    if self.known(top) {
                        stack.pop();
                        continue;
                    }
                    let open: Vec<Flat> = self.needs(top).into_iter().filter(|flat| !self.known(*flat)).collect();
                    if open.is_empty() {
                        self.place(top);
                        stack.pop();
                    } else {
                        stack.extend(open);
                    }
                }
            }
        }
    }

    fn place(&mut self, flat: Flat) {
        let (part, id) = flat;
        let data = self.context.data(self.parts[part].module);
        let node = data.node(id);
        let width = node.width;
        let of = |id: NodeId| self.slot((part, id));
        let operation = match &node.kind {
            Kind::Unary(op, a) => Some(Operation::Unary(*op, of(*a))),
            Kind::Binary(op, a, b) => Some(Operation::Binary(*op, of(*a), of(*b))),
            Kind::Mux {
                condition,
                then,
                otherwise,
            } => Some(Operation::Mux(of(*condition), of(*then), of(*otherwise))),
            Kind::Slice { of: a, low } => Some(Operation::Slice(of(*a), *low)),
            Kind::Cat(parts) => Some(Operation::Cat(parts.iter().rev().map(|a| of(*a)).collect())),
            Kind::Repeat { of: a, count } => Some(Operation::Cat(vec![of(*a); *count as usize])),
            Kind::MemoryRead { memory } => {
                let before: usize = self.parts[..part]
                    .iter()
                    .map(|part| self.context.data(part.module).memories.len())
                    .sum();
                let read = data.memories[*memory as usize].read.as_ref();
                read.filter(|port| port.enable.is_none())
                    .map(|port| Operation::ReadNow {
                        memory: before + *memory as usize,
                        address: of(port.address),
                    })
            }
            Kind::Alias(a) => Some(Operation::Copy(of(*a))),
            Kind::Output | Kind::Wire | Kind::InstanceInput { .. } | Kind::InstanceOutput { .. } | Kind::Input => {
                self.needs(flat).first().map(|other| Operation::Copy(self.slot(*other)))
            }
            Kind::Register { .. } | Kind::Constant(_) => None,
        };
        let slot = match operation {
            // A copy is the same slot.
            Some(Operation::Copy(of)) => of,
            Some(operation) => {
                let slot = self.allocate(width);
                self.operations.push((slot, operation));
                slot
            }
            None => self.allocate(width),
        };
        let base = self.parts[part].base;
        self.slots[base + id as usize] = Some(slot);
    }
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

    fn clock_memories(&mut self) {
        let mut memories = std::mem::take(&mut self.memories);
        // Read data of one memory may be the address of another one: they change together, at the end.
        let mut reads: Vec<(Slot, Bits)> = vec![];
        for memory in &mut memories {
            let writes = self.values[memory.enable.at] == 1;
            let (to, data) = (self.values[memory.address.at] as usize, self.bits(memory.data));
            let strobe = memory.strobe.map(|slot| self.bits(slot));
            let at = |address: usize| match memory.words.get(address) {
                Some(word) => word.clone(),
                None => Bits::zero(memory.shape.width),
            };
            let merged = merge(&at(to), &data, strobe.as_ref(), memory.shape.granule);
            if let Some((enable, address, out)) = memory.read
                && self.values[enable.at] == 1
            {
                let from = self.values[address.at] as usize;
                let word = at(from);
                let word = match memory.shape.policy {
                    ReadDuringWrite::New if writes && from == to => merged.clone(),
                    ReadDuringWrite::DontCare if writes && from == to => {
                        let inverted: Vec<u64> = word.words().iter().map(|word| !word).collect();
                        Bits::from_words(word.width(), &inverted)
                    }
                    _ => word,
                };
                reads.push((out, word));
            }
            if let (true, Some(word)) = (writes, memory.words.get_mut(to)) {
                *word = merged;
            }
        }
        self.memories = memories;
        reads.iter().for_each(|(slot, word)| self.store(*slot, word));
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

    fn compute(&mut self, out: Slot, operation: &Operation) {
        let count = words_for(out.width);
        match operation {
            Operation::Unary(op, a) => self.unary(out, *op, *a),
            Operation::Binary(op, a, b) => self.binary(out, *op, *a, *b),
            Operation::Mux(condition, then, otherwise) => {
                let from = if self.values[condition.at] == 1 {
                    then
                } else {
                    otherwise
                };
                self.values.copy_within(from.words(), out.at);
            }
            Operation::Slice(of, low) => {
                let (first, shift) = (of.at + *low as usize / 64, low % 64);
                let end = of.at + words_for(of.width);
                for index in 0..count {
                    let at = first + index;
                    let mut word = self.values[at] >> shift;
                    if shift != 0 && at + 1 < end {
                        word |= self.values[at + 1] << (64 - shift);
                    }
                    self.values[out.at + index] = word;
                }
                self.values[out.at + count - 1] &= top_mask(out.width);
            }
            Operation::Cat(parts) => {
                self.values[out.words()].fill(0);
                let mut low = 0usize;
                for part in parts {
                    for index in 0..words_for(part.width) {
                        let word = self.values[part.at + index];
                        let (at, shift) = (out.at + (low + index * 64) / 64, (low + index * 64) % 64);
                        self.values[at] |= word << shift;
                        if shift != 0 && at + 1 < out.at + count {
                            self.values[at + 1] |= word >> (64 - shift);
                        }
                    }
                    low += part.width as usize;
                }
            }
            Operation::Copy(of) => self.values.copy_within(of.words(), out.at),
            Operation::ReadNow { memory, address } => {
                let memory = &self.memories[*memory];
                let word = memory.words.get(self.values[address.at] as usize);
                let word = word.cloned().unwrap_or_else(|| Bits::zero(memory.shape.width));
                self.values[out.words()].copy_from_slice(word.words());
            }
        }
    }

    fn unary(&mut self, out: Slot, op: UnaryOp, a: Slot) {
        match op {
            UnaryOp::Not => {
                for index in 0..words_for(a.width) {
                    self.values[out.at + index] = !self.values[a.at + index];
                }
                self.values[out.at + words_for(a.width) - 1] &= top_mask(a.width);
            }
            UnaryOp::ReduceAnd => self.values[out.at] = u64::from(self.bits(a).is_ones()),
            UnaryOp::ReduceOr => {
                self.values[out.at] = u64::from(self.values[a.words()].iter().any(|word| *word != 0));
            }
            UnaryOp::ReduceXor => {
                let ones: u32 = self.values[a.words()].iter().map(|word| word.count_ones()).sum();
                self.values[out.at] = u64::from(ones % 2);
            }
        }
    }

    fn binary(&mut self, out: Slot, op: BinaryOp, a: Slot, b: Slot) {
        let count = words_for(a.width);
        let flag = |value: bool| u64::from(value);
        match op {
            BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => {
                for index in 0..count {
                    let (left, right) = (self.values[a.at + index], self.values[b.at + index]);
                    self.values[out.at + index] = match op {
                        BinaryOp::And => left & right,
                        BinaryOp::Or => left | right,
                        _ => left ^ right,
                    };
                }
            }
            BinaryOp::Add | BinaryOp::Sub => {
                let subtract = op == BinaryOp::Sub;
                let mut carry = subtract;
                for index in 0..count {
                    let right = if subtract {
                        !self.values[b.at + index]
                    } else {
                        self.values[b.at + index]
                    };
                    let (sum, one) = self.values[a.at + index].overflowing_add(right);
                    let (sum, two) = sum.overflowing_add(u64::from(carry));
                    carry = one | two;
                    self.values[out.at + index] = sum;
                }
                self.values[out.at + count - 1] &= top_mask(out.width);
            }
            BinaryOp::Mul => self.multiply(out, a, b),
            BinaryOp::Shl | BinaryOp::Shr => {
                let by = self.bits(b).to_u64().unwrap_or(u64::MAX).min(u64::from(a.width)) as u32;
                let value = self.bits(a);
                let shifted = match (by, op) {
                    (0, _) => value,
                    (by, _) if by >= a.width => Bits::zero(a.width),
                    (by, BinaryOp::Shl) => Bits::cat(&[value.part(0, a.width - by), Bits::zero(by)]),
                    (by, _) => Bits::cat(&[Bits::zero(by), value.part(by, a.width - by)]),
                };
                self.store(out, &shifted);
            }
            BinaryOp::Eq | BinaryOp::Ne => {
                let equal = self.values[a.words()] == self.values[b.words()];
                self.values[out.at] = flag(equal == (op == BinaryOp::Eq));
            }
            BinaryOp::Lt | BinaryOp::Le | BinaryOp::LtSigned | BinaryOp::LeSigned => {
                let signed = matches!(op, BinaryOp::LtSigned | BinaryOp::LeSigned);
                // Two's complement order is unsigned order with the sign bits inverted.
                let flip = if signed { 1u64 << ((a.width - 1) % 64) } else { 0 };
                let word =
                    |slot: Slot, index: usize| self.values[slot.at + index] ^ if index == count - 1 { flip } else { 0 };
                let order = (0..count)
                    .rev()
                    .map(|index| word(a, index).cmp(&word(b, index)))
                    .find(|order| order.is_ne());
                let order = order.unwrap_or(std::cmp::Ordering::Equal);
                let or_equal = matches!(op, BinaryOp::Le | BinaryOp::LeSigned);
                self.values[out.at] = flag(order.is_lt() || or_equal && order.is_eq());
            }
        }
    }

    fn multiply(&mut self, out: Slot, a: Slot, b: Slot) {
        let (left, right) = (self.bits(a), self.bits(b));
        let mut product = vec![0u64; left.words().len() + right.words().len()];
        for (low, x) in left.words().iter().enumerate() {
            let mut carry = 0u128;
            for (index, y) in right.words().iter().enumerate() {
                let sum = u128::from(*x) * u128::from(*y) + u128::from(product[low + index]) + carry;
                product[low + index] = sum as u64;
                carry = sum >> 64;
            }
            product[low + right.words().len()] = carry as u64;
        }
        self.store(out, &Bits::from_words(out.width, &product));
    }
}

/// A word after a write with strobes.
fn merge(old: &Bits, data: &Bits, strobe: Option<&Bits>, granule: u32) -> Bits {
    let Some(strobe) = strobe else { return data.clone() };
    let parts: Vec<Bits> = (0..strobe.width())
        .rev()
        .map(|index| if strobe.bit(index) { data } else { old }.part(index * granule, granule))
        .collect();
    Bits::cat(&parts)
}
