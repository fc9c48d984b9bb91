//! Turns the statements of a module into one driver for each driven node, then has it checked and printed.

use crate::check::{self, DesignError};
use crate::context::UNDRIVEN;
use crate::ir::{Kind, ModuleData, NodeId, Place, Statement};
use crate::module::{Definition, Module};
use crate::signal::Signal;
use std::collections::BTreeMap;
use std::panic::Location;

/// What drives each node so far; [`UNDRIVEN`] where it does so on some branches only.
type Drivers = BTreeMap<NodeId, NodeId>;

#[track_caller]
pub(crate) fn finish(module: Module<'_>) -> Result<Definition<'_>, Vec<DesignError>> {
    let statements = {
        let mut data = module.data_mut();
        assert!(!data.finished, "module `{}` is finished twice", data.name);
        std::mem::take(&mut data.blocks[0])
    };
    let mut drivers = Drivers::new();
    run(module, &statements, &mut drivers, Location::caller());
    module.data_mut().drivers = drivers.into_iter().collect();

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

/// A register keeps its value where nothing drives it; anything else is then undriven.
fn otherwise(data: &ModuleData, drivers: &Drivers, target: NodeId) -> NodeId {
    match (drivers.get(&target), &data.node(target).kind) {
        (Some(driver), _) => *driver,
        (None, Kind::Register { .. }) => target,
        (None, _) => UNDRIVEN,
    }
}

fn run(module: Module<'_>, statements: &[Statement], drivers: &mut Drivers, place: Place) {
    for statement in statements {
        match statement {
            Statement::Set { target, value, .. } => {
                drivers.insert(*target, *value);
            }
            Statement::If {
                condition,
                then,
                otherwise: rest,
            } => {
                let (mut yes, mut no) = (drivers.clone(), drivers.clone());
                run(module, then, &mut yes, place);
                run(module, rest, &mut no, place);
                let targets: Vec<NodeId> = yes.keys().chain(no.keys()).copied().collect();
                for target in targets {
                    let (one, zero) = {
                        let data = module.data();
                        (otherwise(&data, &yes, target), otherwise(&data, &no, target))
                    };
                    let merged = if one == zero {
                        one
                    } else if one == UNDRIVEN || zero == UNDRIVEN {
                        UNDRIVEN
                    } else {
                        let signal = |id| Signal { module, id };
                        let width = module.data().width(target);
                        let kind = Kind::Mux {
                            condition: *condition,
                            then: one,
                            otherwise: zero,
                        };
                        // A register's branches stay visible, so that it prints as `if` and keeps by silence.
                        let register = matches!(module.data().node(target).kind, Kind::Register { .. });
                        if register {
                            module.shared(kind, width, first_place(then, rest).unwrap_or(place)).id
                        } else {
                            signal(*condition).mux(signal(one), signal(zero)).id
                        }
                    };
                    drivers.insert(target, merged);
                }
            }
        }
    }
}

fn first_place(then: &[Statement], otherwise: &[Statement]) -> Option<Place> {
    then.iter().chain(otherwise).find_map(|statement| match statement {
        Statement::Set { place, .. } => Some(*place),
        Statement::If { then, otherwise, .. } => first_place(then, otherwise),
    })
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
    for instance in &data.instances {
        let inner = module.context.data(instance.module);
        clock |= inner.has_clock;
        reset |= inner.has_reset;
    }
    (clock, reset)
}
