//! Turns the statements of a module into one driver for each driven node, then has it checked and printed.
//!
//! Branches are followed with a log of what they change, so that the work grows with the assignments and not with the
//! number of driven nodes.

use crate::check::{self, DesignError};
use crate::context::{UNDRIVEN, fail};
use crate::definition::Definition;
use crate::ir::{Kind, NodeId, Statement};
use crate::module::Module;
use crate::signal::Signal;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::Location;

#[track_caller]
pub(crate) fn finish(module: Module<'_>) -> Result<Definition<'_>, Vec<DesignError>> {
    let place = Location::caller();
    let statements = {
        let mut data = module.data_mut();
        if data.closed {
            fail(place, &format!("module `{}` is finished twice", data.name));
        }
        if data.blocks.len() != 1 {
            fail(place, &format!("module `{}` is finished inside a `when`", data.name));
        }
        std::mem::take(&mut data.blocks[0])
    };
    let mut drivers = Drivers::default();
    drivers.run(module, &statements);
    {
        let mut data = module.data_mut();
        data.drivers = drivers.current;
        data.closed = true;
    }

    let errors = check::check(module);
    if !errors.is_empty() {
        return Err(errors);
    }
    let through = check::through(module);
    let (clock, reset) = uses_clock_and_reset(module);
    {
        let mut data = module.data_mut();
        data.through = through;
        data.has_clock = clock;
        data.has_reset = reset;
    }
    let text = crate::verilog::print_module(module.context, &module.data(), false);
    let name = module.name();
    if let Some(twin) = module.context.finished(&name, module.index) {
        let data = module.data();
        let other = module.context.data(twin);
        if other.name != name {
            return Err(vec![DesignError::NameCase {
                name,
                other: other.name.clone(),
                first: crate::context::short(other.place),
                second: crate::context::short(data.place),
            }]);
        }
        if other.text != text {
            return Err(vec![DesignError::OtherModule {
                name,
                first: crate::context::short(other.place),
                second: crate::context::short(data.place),
            }]);
        }
        return Ok(Definition {
            context: module.context,
            index: twin,
        });
    }
    let mut data = module.data_mut();
    data.text = text;
    data.finished = true;
    Ok(Definition {
        context: module.context,
        index: module.index,
    })
}

/// What drives each node so far; [`UNDRIVEN`] where it does so on some branches only.
#[derive(Default)]
struct Drivers {
    current: HashMap<NodeId, NodeId>,
    /// What was overwritten, to take a branch back.
    log: Vec<(NodeId, Option<NodeId>)>,
}

/// What a branch leaves behind.
type Changes = BTreeMap<NodeId, NodeId>;

impl Drivers {
    fn set(&mut self, target: NodeId, value: NodeId) {
        let old = self.current.insert(target, value);
        self.log.push((target, old));
    }

    /// The driver so far. A register keeps its value where nothing drives it; anything else is then undriven.
    fn get(&self, module: Module<'_>, target: NodeId) -> NodeId {
        match self.current.get(&target) {
            Some(driver) => *driver,
            None if matches!(module.data().node(target).kind, Kind::Register { .. }) => target,
            None => UNDRIVEN,
        }
    }

    fn run(&mut self, module: Module<'_>, statements: &[Statement]) {
        for statement in statements {
            match statement {
                Statement::Set { target, value } => self.set(*target, *value),
                Statement::If {
                    arms,
                    otherwise,
                    exclusive,
                    complete,
                    ..
                } => {
                    let branches: Vec<(NodeId, Changes)> = arms
                        .iter()
                        .map(|(condition, body)| (*condition, self.branch(module, body)))
                        .collect();
                    // Where one of the conditions always is 1, nothing is otherwise.
                    let rest = if *complete {
                        Changes::new()
                    } else {
                        self.branch(module, otherwise)
                    };
                    self.merge(module, &branches, &rest, *exclusive, *complete);
                }
            }
        }
    }

    /// Runs a branch, takes it back, and returns what it drove.
    fn branch(&mut self, module: Module<'_>, body: &[Statement]) -> Changes {
        let mark = self.log.len();
        self.run(module, body);
        let mut changes = Changes::new();
        for (target, old) in self.log.split_off(mark).into_iter().rev() {
            let now = match old {
                Some(old) => self.current.insert(target, old),
                None => self.current.remove(&target),
            };
            // The first one seen, going backwards, is the last assignment.
            changes.entry(target).or_insert(now.unwrap_or(UNDRIVEN));
        }
        changes
    }

    fn merge(
        &mut self,
        module: Module<'_>,
        branches: &[(NodeId, Changes)],
        rest: &Changes,
        exclusive: bool,
        complete: bool,
    ) {
        let mut targets: BTreeMap<NodeId, Vec<usize>> = rest.keys().map(|target| (*target, vec![])).collect();
        for (index, (_, changes)) in branches.iter().enumerate() {
            for target in changes.keys() {
                targets.entry(*target).or_default().push(index);
            }
        }
        for (target, driving) in targets {
            let before = self.get(module, target);
            let value = |index: usize| branches[index].1.get(&target).copied().unwrap_or(before);
            let last = rest.get(&target).copied().unwrap_or(before);
            let (considered, mut merged) =
                if exclusive && driving.len() < branches.len() && last == before && before != UNDRIVEN {
                    // Of exclusive arms, those that do not drive the target change nothing.
                    (driving, before)
                } else if complete {
                    // The last arm needs no comparison, so a wire is driven on every branch.
                    ((0..branches.len() - 1).collect(), value(branches.len() - 1))
                } else {
                    ((0..branches.len()).collect(), last)
                };
            for index in considered.into_iter().rev() {
                merged = choose(module, target, branches[index].0, value(index), merged);
            }
            self.set(target, merged);
        }
    }
}

fn choose(module: Module<'_>, target: NodeId, condition: NodeId, then: NodeId, otherwise: NodeId) -> NodeId {
    if then == otherwise {
        return then;
    }
    if then == UNDRIVEN || otherwise == UNDRIVEN {
        return UNDRIVEN;
    }
    let signal = |id| Signal { module, id };
    let (register, width, place) = {
        let data = module.data();
        let node = data.node(target);
        (matches!(node.kind, Kind::Register { .. }), node.width, node.place)
    };
    // A register's branches stay visible, so that it prints as `if` and keeps by silence.
    if register && signal(condition).constant().is_none() {
        let kind = Kind::Mux {
            condition,
            then,
            otherwise,
        };
        module.shared(kind, width, place).id
    } else {
        let before = module.data().nodes.len();
        let id = signal(condition).mux(signal(then), signal(otherwise)).id;
        // What this makes stands for the lines that drive the target, not for this one.
        module.data_mut().nodes[before..]
            .iter_mut()
            .for_each(|node| node.place = place);
        id
    }
}

fn uses_clock_and_reset(module: Module<'_>) -> (bool, bool) {
    let data = module.data();
    let (mut clock, mut reset) = (!data.properties.is_empty(), false);
    for node in &data.nodes {
        if let Kind::Register { reset: value } = &node.kind {
            clock = true;
            reset |= value.is_some();
        }
    }
    clock |= !data.memories.is_empty();
    let modules: BTreeSet<u32> = data.instances.iter().map(|instance| instance.module).collect();
    for index in modules {
        let inner = module.context.data(index);
        clock |= inner.has_clock;
        reset |= inner.has_reset;
    }
    (clock, reset)
}
