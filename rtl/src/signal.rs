//! `Signal`: a handle of a value in a module, with its operators.
//!
//! Every operator checks widths at once and stops with both widths, both names and the caller's place. Nothing is
//! extended or cut silently: `zero_extend`, `sign_extend`, `slice` say so. Names are in `module.rs`.

use crate::bits::{Bits, IntoBits};
use crate::context::fail;
use crate::ir::{Kind, NodeId, Place};
use crate::module::Module;
use std::panic::Location;

/// A value of fixed width in one module. `Copy`: it is only a handle.
#[derive(Clone, Copy)]
pub struct Signal<'a> {
    pub(crate) module: Module<'a>,
    pub(crate) id: NodeId,
}

impl std::fmt::Debug for Signal<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} ({} bits)", self.describe(), self.width())
    }
}

impl<'a> Signal<'a> {
    /// Width in bits.
    #[must_use]
    pub fn width(self) -> u32 {
        self.module.data().width(self.id)
    }

    /// The module it lives in.
    #[must_use]
    pub fn module(self) -> Module<'a> {
        self.module
    }

    pub(crate) fn describe(self) -> String {
        self.module.data().describe(self.id)
    }

    /// The constant it is, if it is one.
    #[must_use]
    pub fn constant(self) -> Option<Bits> {
        self.module.data().constant(self.id).cloned()
    }

    /// Gives it a name that the Verilog keeps. A name that is taken gets a number behind it.
    #[track_caller]
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        let place = Location::caller();
        crate::keywords::check_identifier(name, place);
        self.module.editable(place);
        let target = {
            let data = self.module.data();
            let node = data.node(self.id);
            let plain = node.name.is_none() && !matches!(node.kind, Kind::Constant(_));
            plain.then_some(self.id)
        };
        let id = target.unwrap_or_else(|| {
            let width = self.width();
            self.module.push(Kind::Alias(self.id), width, None, place)
        });
        let mut data = self.module.data_mut();
        let name = data.free_name(name);
        data.nodes[id as usize].name = Some(name);
        data.nodes[id as usize].place = place;
        Self {
            module: self.module,
            id,
        }
    }

    /// Documents it: the text stands beside its declaration in the Verilog.
    #[must_use]
    pub fn doc(self, text: &str) -> Self {
        self.module.data_mut().nodes[self.id as usize].doc = Some(text.to_owned());
        self
    }

    /// Gives a register its reset value.
    ///
    /// # Panics
    /// When it is no register or the value does not fit.
    #[track_caller]
    #[must_use]
    pub fn reset(self, value: impl IntoBits) -> Self {
        let place = Location::caller();
        self.module.editable(place);
        let value = self.module.fit(value, self.width(), place);
        let described = self.describe();
        match &mut self.module.data_mut().nodes[self.id as usize].kind {
            Kind::Register { reset } => *reset = Some(value),
            _ => fail(place, &format!("{described} is no register and has no reset value")),
        }
        self
    }

    /// Drives it (an output, wire, register or instance input) under the conditions of the open `when` blocks. The last one wins; a
    /// register without an active assignment keeps its value.
    ///
    /// # Panics
    /// When it cannot be driven or the widths differ.
    #[track_caller]
    pub fn set(self, value: Signal<'a>) {
        let place = Location::caller();
        self.same_module(value, place);
        self.module.editable(place);
        let (mine, theirs) = (self.width(), value.width());
        if mine != theirs {
            let (left, right) = (self.describe(), value.describe());
            fail(
                place,
                &format!("width mismatch: {left} has {mine} bits, its driver {right} has {theirs}"),
            );
        }
        if !self.module.data().node(self.id).kind.is_driven() {
            fail(
                place,
                &format!(
                    "{} cannot be driven: only outputs, wires, registers, instance inputs can",
                    self.describe()
                ),
            );
        }
        self.module.statement(crate::ir::Statement::Set {
            target: self.id,
            value: value.id,
        });
    }

    /// Drives it with a constant: see [`Signal::set`].
    #[track_caller]
    pub fn set_lit(self, value: impl IntoBits) {
        let value = self.lit(value);
        self.set(value);
    }

    /// A constant of the same width.
    #[track_caller]
    #[must_use]
    pub fn lit(self, value: impl IntoBits) -> Self {
        self.module.lit(value, self.width())
    }

    /// Marks it as read by nobody, by intent.
    pub fn ignore(self) {
        self.module.data_mut().ignored.push(self.id);
    }

    pub(crate) fn same_module(self, other: Self, place: Place) {
        if !self.module.is(other.module) {
            let names = (self.module.name(), other.module.name());
            let (left, right) = (self.describe(), other.describe());
            fail(
                place,
                &format!("{left} is of module `{}`, {right} of module `{}`", names.0, names.1),
            );
        }
    }

    #[track_caller]
    pub(crate) fn same_width(self, other: Self, what: &str, place: Place) {
        self.same_module(other, place);
        let (mine, theirs) = (self.width(), other.width());
        if mine != theirs {
            let (left, right) = (self.describe(), other.describe());
            fail(
                place,
                &format!("width mismatch in {what}: {left} has {mine} bits, {right} has {theirs}"),
            );
        }
    }

    pub(crate) fn make(self, kind: Kind, width: u32, place: Place) -> Self {
        self.module.shared(kind, width, place)
    }
}
