//! The hierarchy as one list of operations, in an order in which every operand comes first.

use super::{Operation, Slot};
use crate::bits::words_for;
use crate::check::needs;
use crate::context::Context;
use crate::ir::{Kind, NodeId};
use crate::module::Module;
use std::collections::HashMap;

/// One flattened module: which definition, and the flat index of its first node.
pub(super) struct Part {
    pub(super) module: u32,
    base: usize,
    /// The part and nodes that its inputs are connected to.
    parent: Option<(usize, u32)>,
    pub(super) name: String,
}

pub(super) struct Builder<'c> {
    context: &'c Context,
    pub(super) parts: Vec<Part>,
    /// Part of each instance: (parent part, instance index).
    children: HashMap<(usize, u32), usize>,
    slots: Vec<Option<Slot>>,
    pub(super) length: usize,
    pub(super) operations: Vec<(Slot, Operation)>,
}

pub(super) type Flat = (usize, NodeId);

impl<'c> Builder<'c> {
    pub(super) fn new(context: &'c Context, top: u32) -> Self {
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

    pub(super) fn slot(&self, flat: Flat) -> Slot {
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
    pub(super) fn place_all(&mut self) {
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
