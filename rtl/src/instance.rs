//! `InstanceHandle`: a module inside another one, and its ports.

use crate::context::fail;
use crate::definition::Definition;
use crate::ir::{Direction, Place};
use crate::module::Module;
use crate::signal::Signal;
use std::panic::Location;

/// A module inside another one.
#[derive(Debug, Clone, Copy)]
pub struct InstanceHandle<'a> {
    pub(crate) module: Module<'a>,
    pub(crate) index: u32,
}

impl<'a> InstanceHandle<'a> {
    #[track_caller]
    fn find(&self, name: &str, direction: Direction, place: Place) -> Signal<'a> {
        let (of, connections) = {
            let data = self.module.data();
            let instance = &data.instances[self.index as usize];
            (instance.module, instance.connections.clone())
        };
        let data = self.module.context.data(of);
        match data
            .ports
            .iter()
            .position(|port| port.name == name && port.direction == direction)
        {
            Some(position) => Signal {
                module: self.module,
                id: connections[position],
            },
            None => {
                let names: Vec<&str> = data
                    .ports
                    .iter()
                    .filter(|port| port.direction == direction)
                    .map(|port| port.name.as_str())
                    .collect();
                fail(
                    place,
                    &format!(
                        "module `{}` has no {direction:?} port `{name}`; it has {}",
                        data.name,
                        names.join(", ")
                    ),
                )
            }
        }
    }

    /// An input of the instance: to be driven from here.
    #[track_caller]
    #[must_use]
    pub fn input(&self, name: &str) -> Signal<'a> {
        self.find(name, Direction::Input, Location::caller())
    }

    /// An output of the instance: to be read here.
    #[track_caller]
    #[must_use]
    pub fn output(&self, name: &str) -> Signal<'a> {
        self.find(name, Direction::Output, Location::caller())
    }

    /// Drives an input of the instance and returns the instance.
    #[track_caller]
    pub fn connect(&self, name: &str, value: Signal<'a>) -> Self {
        let input = self.find(name, Direction::Input, Location::caller());
        input.set(value);
        *self
    }

    /// The module around it.
    #[must_use]
    pub fn parent(&self) -> Module<'a> {
        self.module
    }

    /// The module it is an instance of.
    #[must_use]
    pub fn definition(&self) -> Definition<'a> {
        let index = self.module.data().instances[self.index as usize].module;
        Definition {
            context: self.module.context,
            index,
        }
    }
}
