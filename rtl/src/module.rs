//! `Module`: what is being built.
//!
//! A module has one clock `clk` and one synchronous, active-high reset `rst`; both ports appear when something uses them.

use crate::bits::{Bits, IntoBits};
use crate::context::{Context, fail};
use crate::definition::Definition;
use crate::instance::InstanceHandle;
use crate::ir::{
    Direction, Instance, Kind, ModuleData, Node, NodeId, Place, PortData, Property, PropertyKind, Statement,
};
use crate::signal::Signal;
use std::cell::{Ref, RefMut};
use std::panic::Location;

/// A module under construction.
#[derive(Clone, Copy)]
pub struct Module<'a> {
    pub(crate) context: &'a Context,
    pub(crate) index: u32,
}

impl std::fmt::Debug for Module<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "module {}", self.name())
    }
}

impl<'a> Module<'a> {
    pub(crate) fn data(&self) -> Ref<'a, ModuleData> {
        self.context.data(self.index)
    }

    pub(crate) fn data_mut(&self) -> RefMut<'a, ModuleData> {
        self.context.data_mut(self.index)
    }

    /// Whether both are the same module.
    pub(crate) fn is(&self, other: Self) -> bool {
        std::ptr::eq(self.context, other.context) && self.index == other.index
    }

    /// Stops where something is added to a module that is finished: it would be lost.
    pub(crate) fn editable(&self, place: Place) {
        if self.data().closed {
            fail(place, &format!("module `{}` is finished", self.name()));
        }
    }

    /// Stops where a signal of another module is used in this one.
    pub(crate) fn owns(&self, signal: Signal<'a>, place: Place) {
        if !self.is(signal.module) {
            fail(
                place,
                &format!(
                    "{signal:?} is of module `{}`, used in module `{}`",
                    signal.module.name(),
                    self.name()
                ),
            );
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        self.data().name.clone()
    }

    /// The context that owns it.
    #[must_use]
    pub fn context(&self) -> &'a Context {
        self.context
    }

    /// What the module does: stands above it in the Verilog.
    pub fn doc(&self, text: &str) {
        self.data_mut().doc = Some(text.to_owned());
    }

    pub(crate) fn push(&self, kind: Kind, width: u32, name: Option<String>, place: Place) -> NodeId {
        let mut data = self.data_mut();
        data.nodes.push(Node {
            kind,
            width,
            name,
            doc: None,
            place,
        });
        (data.nodes.len() - 1) as NodeId
    }

    /// A pure expression: the same one again is the same node.
    pub(crate) fn shared(&self, kind: Kind, width: u32, place: Place) -> Signal<'a> {
        let key = (kind, width);
        let known = self.data().shared.get(&key).copied();
        let id = known.unwrap_or_else(|| {
            let id = self.push(key.0.clone(), width, None, place);
            self.data_mut().shared.insert(key, id);
            id
        });
        Signal { module: *self, id }
    }

    pub(crate) fn statement(&self, statement: Statement) {
        self.data_mut()
            .blocks
            .last_mut()
            .expect("the module's own block is always open")
            .push(statement);
    }

    #[track_caller]
    fn declare(&self, kind: Kind, name: &str, width: u32, place: Place) -> Signal<'a> {
        crate::keywords::check_identifier(name, place);
        self.editable(place);
        if width == 0 {
            fail(place, &format!("`{name}` has no bits"));
        }
        let name = self.data_mut().free_name(name);
        Signal {
            module: *self,
            id: self.push(kind, width, Some(name), place),
        }
    }

    #[track_caller]
    fn port(&self, kind: Kind, direction: Direction, name: &str, width: u32, place: Place) -> Signal<'a> {
        if self.data().names.contains_key(name) {
            fail(
                place,
                &format!(
                    "module `{}` has a signal `{name}` already: a port keeps its exact name",
                    self.name()
                ),
            );
        }
        let signal = self.declare(kind, name, width, place);
        self.data_mut().ports.push(PortData {
            name: name.to_owned(),
            direction,
            node: signal.id,
        });
        signal
    }

    /// An input port.
    #[track_caller]
    #[must_use]
    pub fn input(&self, name: &str, width: u32) -> Signal<'a> {
        self.port(Kind::Input, Direction::Input, name, width, Location::caller())
    }

    /// An output port: drive it with [`Signal::set`]. It may be read inside the module as well.
    #[track_caller]
    pub fn output(&self, name: &str, width: u32) -> Signal<'a> {
        self.port(Kind::Output, Direction::Output, name, width, Location::caller())
    }

    /// An output port with its driver.
    #[track_caller]
    pub fn output_of(&self, name: &str, value: Signal<'a>) -> Signal<'a> {
        let port = self.output(name, value.width());
        port.set(value);
        port
    }

    /// A wire: it must be driven on every branch.
    #[track_caller]
    #[must_use]
    pub fn wire(&self, name: &str, width: u32) -> Signal<'a> {
        self.declare(Kind::Wire, name, width, Location::caller())
    }

    /// A register, without reset unless [`Signal::reset`] follows. It keeps its value where nothing drives it.
    #[track_caller]
    #[must_use]
    pub fn reg(&self, name: &str, width: u32) -> Signal<'a> {
        self.declare(Kind::Register { reset: None }, name, width, Location::caller())
    }

    pub(crate) fn fit(&self, value: impl IntoBits, width: u32, place: Place) -> Bits {
        match value.into_bits(width) {
            Some(bits) => bits,
            None => fail(place, &format!("the constant does not fit {width} bits")),
        }
    }

    /// A constant of this width.
    ///
    /// # Panics
    /// When it does not fit.
    #[track_caller]
    #[must_use]
    pub fn lit(&self, value: impl IntoBits, width: u32) -> Signal<'a> {
        let place = Location::caller();
        if width == 0 {
            fail(place, "a constant has at least one bit");
        }
        let bits = self.fit(value, width, place);
        self.shared(Kind::Constant(bits), width, place)
    }

    /// The bit 1.
    #[track_caller]
    #[must_use]
    pub fn high(&self) -> Signal<'a> {
        self.lit(1, 1)
    }

    /// The bit 0.
    #[track_caller]
    #[must_use]
    pub fn low(&self) -> Signal<'a> {
        self.lit(0, 1)
    }

    fn block(&self, body: impl FnOnce()) -> Vec<Statement> {
        self.data_mut().blocks.push(vec![]);
        body();
        self.data_mut().blocks.pop().expect("pushed above")
    }

    /// What the body drives, it drives where `condition` is 1. `.otherwise(…)` and `.else_when(…)` may follow at once.
    #[track_caller]
    pub fn when(&self, condition: Signal<'a>, body: impl FnOnce()) -> When<'a> {
        let place = Location::caller();
        self.check_condition(condition, place);
        self.editable(place);
        let then = self.block(body);
        let serial = self.branch(vec![(condition.id, then)], vec![], (false, false));
        When { module: *self, serial }
    }

    fn branch(
        &self,
        arms: Vec<(NodeId, Vec<Statement>)>,
        otherwise: Vec<Statement>,
        (exclusive, complete): (bool, bool),
    ) -> u32 {
        let serial = {
            let mut data = self.data_mut();
            data.branches += 1;
            data.branches
        };
        self.statement(Statement::If {
            serial,
            arms,
            otherwise,
            exclusive,
            complete,
        });
        serial
    }

    fn check_condition(&self, condition: Signal<'a>, place: Place) {
        self.owns(condition, place);
        if condition.width() != 1 {
            fail(place, &format!("a condition has 1 bit, {condition:?}"));
        }
    }

    /// One body for each value of `selector`; values without a body drive nothing unless `default` is given.
    #[track_caller]
    pub fn switch(&self, selector: Signal<'a>, arms: impl FnOnce(&mut Switch<'a>)) {
        let place = Location::caller();
        self.owns(selector, place);
        self.editable(place);
        let mut switch = Switch {
            module: *self,
            selector,
            arms: vec![],
            default: None,
        };
        arms(&mut switch);
        let Switch { arms, default, .. } = switch;
        let mut seen: Vec<&Bits> = arms.iter().map(|(value, _)| value).collect();
        seen.sort();
        if let Some(pair) = seen.windows(2).find(|pair| pair[0] == pair[1]) {
            fail(place, &format!("switch has two arms for {:?}", pair[0]));
        }
        let complete = selector.width() < 32 && arms.len() as u64 == 1 << selector.width();
        // No closure: it would hide the caller's line.
        let mut compared: Vec<(NodeId, Vec<Statement>)> = vec![];
        for (value, body) in arms {
            compared.push((selector.eq_lit(value).id, body));
        }
        self.branch(compared, default.unwrap_or_default(), (true, complete));
    }

    /// States what must always hold, except during reset: checked by formal tools and by Verilator.
    #[track_caller]
    pub fn assert(&self, name: &str, condition: Signal<'a>) {
        self.property(PropertyKind::Assert, name, condition, Location::caller());
    }

    /// States what formal tools may take for granted of the inputs; simulation checks it.
    #[track_caller]
    pub fn assume(&self, name: &str, condition: Signal<'a>) {
        self.property(PropertyKind::Assume, name, condition, Location::caller());
    }

    /// States what formal tools shall show to be reachable.
    #[track_caller]
    pub fn cover(&self, name: &str, condition: Signal<'a>) {
        self.property(PropertyKind::Cover, name, condition, Location::caller());
    }

    #[track_caller]
    fn property(&self, kind: PropertyKind, name: &str, condition: Signal<'a>, place: Place) {
        crate::keywords::check_identifier(name, place);
        self.editable(place);
        self.check_condition(condition, place);
        let mut data = self.data_mut();
        let name = data.free_name(name);
        data.properties.push(Property {
            kind,
            name,
            condition: condition.id,
            place,
        });
    }

    /// Puts a finished module into this one. Drive its inputs and read its outputs through the instance.
    #[track_caller]
    pub fn instance(&self, name: &str, of: Definition<'a>) -> InstanceHandle<'a> {
        let place = Location::caller();
        crate::keywords::check_identifier(name, place);
        self.editable(place);
        if !std::ptr::eq(self.context, of.context) {
            fail(
                place,
                &format!("module `{}` is of another context than `{}`", of.name(), self.name()),
            );
        }
        let ports: Vec<(String, Direction, u32)> = {
            let data = self.context.data(of.index);
            data.ports
                .iter()
                .map(|port| (port.name.clone(), port.direction, data.width(port.node)))
                .collect()
        };
        let name = self.data_mut().free_name(name);
        let instance = self.data().instances.len() as u32;
        let mut connections = vec![];
        for (port, (port_name, direction, width)) in ports.iter().enumerate() {
            let port = port as u32;
            let kind = match direction {
                Direction::Input => Kind::InstanceInput { instance, port },
                Direction::Output => Kind::InstanceOutput { instance, port },
            };
            let port_name = self.data_mut().free_name(&format!("{name}_{port_name}"));
            connections.push(self.push(kind, *width, Some(port_name), place));
        }
        self.data_mut().instances.push(Instance {
            name,
            module: of.index,
            connections,
            place,
        });
        InstanceHandle {
            module: *self,
            index: instance,
        }
    }

    /// Ends the module: elaborates it, checks it, and shares it with an equal one of the same name.
    ///
    /// # Panics
    /// With every error found: see [`Module::try_finish`].
    #[track_caller]
    pub fn finish(self) -> Definition<'a> {
        match self.try_finish() {
            Ok(definition) => definition,
            Err(errors) => {
                let list: Vec<String> = errors.iter().map(ToString::to_string).collect();
                panic!("module `{}` is wrong:\n  {}", self.name(), list.join("\n  "))
            }
        }
    }

    /// Ends the module, or says everything that is wrong with it.
    ///
    /// # Errors
    /// Signals without a driver or a reader, combinational loops, a second module of this name with other contents.
    #[track_caller]
    pub fn try_finish(self) -> Result<Definition<'a>, Vec<crate::check::DesignError>> {
        crate::elaborate::finish(self)
    }
}

/// The rest of a `when`.
#[derive(Debug)]
pub struct When<'a> {
    module: Module<'a>,
    serial: u32,
}

impl<'a> When<'a> {
    /// Adds to the `when` that this belongs to, which must be the last statement of the open block.
    fn attach(&self, place: Place, add: impl FnOnce(&mut Vec<(NodeId, Vec<Statement>)>, &mut Vec<Statement>)) {
        let mut data = self.module.data_mut();
        let block = data.blocks.last_mut().expect("the module's own block is always open");
        match block.last_mut() {
            Some(Statement::If {
                serial,
                arms,
                otherwise,
                ..
            }) if *serial == self.serial => add(arms, otherwise),
            _ => fail(place, "`otherwise` must follow its `when` at once"),
        }
    }

    /// What the body drives, it drives where no condition before was 1.
    #[track_caller]
    pub fn otherwise(self, body: impl FnOnce()) {
        let place = Location::caller();
        let statements = self.module.block(body);
        self.attach(place, |_, otherwise| *otherwise = statements);
    }

    /// What the body drives, it drives where this condition is 1 and none before was.
    #[track_caller]
    pub fn else_when(self, condition: Signal<'a>, body: impl FnOnce()) -> Self {
        let place = Location::caller();
        self.module.check_condition(condition, place);
        let then = self.module.block(body);
        self.attach(place, |arms, _| arms.push((condition.id, then)));
        self
    }
}

/// The arms of a [`Module::switch`].
#[derive(Debug)]
pub struct Switch<'a> {
    module: Module<'a>,
    selector: Signal<'a>,
    arms: Vec<(Bits, Vec<Statement>)>,
    default: Option<Vec<Statement>>,
}

impl Switch<'_> {
    /// The body for one value.
    #[track_caller]
    pub fn case(&mut self, value: impl IntoBits, body: impl FnOnce()) {
        let value = self.module.fit(value, self.selector.width(), Location::caller());
        let body = self.module.block(body);
        self.arms.push((value, body));
    }

    /// The body for all other values.
    #[track_caller]
    pub fn default(&mut self, body: impl FnOnce()) {
        if self.default.is_some() {
            fail(Location::caller(), "switch has two defaults");
        }
        self.default = Some(self.module.block(body));
    }
}
