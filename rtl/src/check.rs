//! Checks of a module before it is printed: drivers, readers, combinational loops.

use crate::context::{UNDRIVEN, short};
use crate::ir::{Direction, Kind, ModuleData, NodeId};
use crate::module::Module;
use thiserror::Error;

/// What is wrong with a design.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DesignError {
    /// Nothing drives it.
    #[error("{place}: {signal} is never driven")]
    Undriven {
        /// Name of the signal.
        signal: String,
        /// Where it was declared.
        place: String,
    },
    /// It is driven on some branches only, which would be a latch.
    #[error("{place}: {signal} is not driven on every branch: drive it before the `when` or in each branch")]
    Latch {
        /// Name of the signal.
        signal: String,
        /// Where it was declared.
        place: String,
    },
    /// Nothing reads it.
    #[error("{place}: {signal} is never read: remove it, or say `.ignore()`")]
    Unread {
        /// Name of the signal.
        signal: String,
        /// Where it was declared.
        place: String,
    },
    /// It depends on itself in the same cycle.
    #[error("combinational loop: {}", path.join(" -> "))]
    Loop {
        /// The names on the loop.
        path: Vec<String>,
    },
    /// A memory without one of its ports.
    #[error("{place}: memory `{memory}` has no {port} port")]
    MemoryPort {
        /// Name of the memory.
        memory: String,
        /// `write` or `read`.
        port: &'static str,
        /// Where it was declared.
        place: String,
    },
    /// The names of two modules differ only in case, so that their files could not stand in one directory everywhere.
    #[error("modules `{other}` of {first} and `{name}` of {second} differ only in the case of their names")]
    NameCase {
        /// The later name.
        name: String,
        /// The earlier name.
        other: String,
        /// Where the first one begins.
        first: String,
        /// Where the second one begins.
        second: String,
    },
    /// Two modules of one name differ.
    #[error(
        "module `{name}` is defined at {first} and, with other contents, at {second}: its name must say its parameters"
    )]
    OtherModule {
        /// The name.
        name: String,
        /// Where the first one begins.
        first: String,
        /// Where the second one begins.
        second: String,
    },
}

pub(crate) fn check(module: Module<'_>) -> Vec<DesignError> {
    let data = module.data();
    let mut errors = drivers(&data);
    errors.extend(memories(&data));
    if errors.is_empty() {
        errors.extend(order(module, &data).err());
        errors.extend(readers(&data));
    }
    errors
}

fn drivers(data: &ModuleData) -> Vec<DesignError> {
    let mut errors = vec![];
    for (id, node) in data.nodes.iter().enumerate() {
        let id = id as NodeId;
        if !node.kind.is_driven() {
            continue;
        }
        let (signal, place) = (data.describe(id), short(node.place));
        match data.drivers.get(&id) {
            None => errors.push(DesignError::Undriven { signal, place }),
            Some(&UNDRIVEN) => errors.push(DesignError::Latch { signal, place }),
            Some(_) => {}
        }
    }
    errors
}

fn memories(data: &ModuleData) -> Vec<DesignError> {
    let mut errors = vec![];
    for memory in &data.memories {
        for (port, present) in [("write", memory.write.is_some()), ("read", memory.read.is_some())] {
            if !present {
                errors.push(DesignError::MemoryPort {
                    memory: memory.name.clone(),
                    port,
                    place: short(memory.place),
                });
            }
        }
    }
    errors
}

/// The nodes whose value a node needs in the same cycle, through drivers, instances and memories.
pub(crate) fn needs(module: Module<'_>, data: &ModuleData, id: NodeId) -> Vec<NodeId> {
    let kind = &data.node(id).kind;
    match kind {
        Kind::Output | Kind::Wire | Kind::InstanceInput { .. } => data.drivers.get(&id).copied().into_iter().collect(),
        Kind::InstanceOutput { instance, port } => {
            let instance = &data.instances[*instance as usize];
            let inner = module.context.data(instance.module);
            inner
                .through
                .iter()
                .filter(|(output, _)| output == port)
                .map(|(_, input)| instance.connections[*input as usize])
                .collect()
        }
        Kind::MemoryRead { memory } => match &data.memories[*memory as usize].read {
            Some(port) if port.enable.is_none() => vec![port.address],
            _ => vec![],
        },
        _ => kind.operands(),
    }
}

/// All nodes, each behind what it needs in the same cycle, or the loop that makes this impossible. Without recursion.
fn order(module: Module<'_>, data: &ModuleData) -> Result<Vec<NodeId>, DesignError> {
    #[derive(Clone, Copy, PartialEq)]
    enum Colour {
        New,
        Open,
        Done,
    }
    let mut order = Vec::with_capacity(data.nodes.len());
    let mut colours = vec![Colour::New; data.nodes.len()];
    for root in 0..data.nodes.len() as NodeId {
        if colours[root as usize] != Colour::New {
            continue;
        }
        let mut stack = vec![(root, needs(module, data, root))];
        colours[root as usize] = Colour::Open;
        while let Some((id, open)) = stack.last_mut() {
            let Some(next) = open.pop() else {
                colours[*id as usize] = Colour::Done;
                order.push(*id);
                stack.pop();
                continue;
            };
            match colours[next as usize] {
                Colour::Done => {}
                Colour::New => {
                    colours[next as usize] = Colour::Open;
                    let needed = needs(module, data, next);
                    stack.push((next, needed));
                }
                Colour::Open => {
                    let start = stack.iter().position(|(id, _)| *id == next).unwrap_or(0);
                    let mut path: Vec<String> = stack[start..].iter().rev().map(|(id, _)| data.describe(*id)).collect();
                    path.push(path[0].clone());
                    return Err(DesignError::Loop { path });
                }
            }
        }
    }
    Ok(order)
}

/// From where liveness is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Roots {
    /// Outputs, instances, memories: what every tool sees.
    Hardware,
    /// These, properties, and what is ignored by intent: all that is printed.
    Printed,
}

/// Marks the roots and what they need in any cycle.
pub(crate) fn live(data: &ModuleData, roots: Roots) -> Vec<bool> {
    let mut stack: Vec<NodeId> = vec![];
    if roots == Roots::Printed {
        stack.extend(&data.ignored);
        stack.extend(data.properties.iter().map(|property| property.condition));
    }
    for (id, node) in data.nodes.iter().enumerate() {
        if matches!(node.kind, Kind::Output | Kind::InstanceInput { .. }) {
            stack.push(id as NodeId);
        }
    }
    for memory in &data.memories {
        if let Some(port) = &memory.write {
            stack.extend([port.enable, port.address, port.data]);
            stack.extend(port.strobe);
        }
        if let Some(port) = &memory.read {
            stack.push(port.address);
            stack.extend(port.enable);
        }
    }
    let mut marks = vec![false; data.nodes.len()];
    while let Some(id) = stack.pop() {
        if std::mem::replace(&mut marks[id as usize], true) {
            continue;
        }
        stack.extend(data.node(id).kind.operands());
        stack.extend(data.drivers.get(&id));
    }
    marks
}

fn readers(data: &ModuleData) -> Vec<DesignError> {
    let marks = live(data, Roots::Printed);
    let mut errors = vec![];
    for (id, node) in data.nodes.iter().enumerate() {
        if node.kind.is_declared() && !marks[id] {
            errors.push(DesignError::Unread {
                signal: data.describe(id as NodeId),
                place: short(node.place),
            });
        }
    }
    errors
}

/// Which outputs depend on which inputs in the same cycle, by port index. Each node gets the set of inputs it depends on.
pub(crate) fn through(module: Module<'_>) -> Vec<(u32, u32)> {
    let data = module.data();
    let ports = |wanted: Direction| {
        let ports = data.ports.iter().enumerate();
        ports.filter(move |(_, port)| port.direction == wanted)
    };
    let inputs: Vec<(u32, NodeId)> = ports(Direction::Input)
        .map(|(index, port)| (index as u32, port.node))
        .collect();
    let words = inputs.len().div_ceil(64);
    let mut sets = vec![0u64; data.nodes.len() * words];
    for (bit, (_, node)) in inputs.iter().enumerate() {
        sets[*node as usize * words + bit / 64] |= 1 << (bit % 64);
    }
    for id in order(module, &data).unwrap_or_default() {
        for needed in needs(module, &data, id) {
            for word in 0..words {
                sets[id as usize * words + word] |= sets[needed as usize * words + word];
            }
        }
    }
    let depends = |node: NodeId, bit: usize| sets[node as usize * words + bit / 64] >> (bit % 64) & 1 == 1;
    ports(Direction::Output)
        .flat_map(|(output, port)| {
            let through = inputs.iter().enumerate().filter(|(bit, _)| depends(port.node, *bit));
            through.map(move |(_, (input, _))| (output as u32, *input))
        })
        .collect()
}
