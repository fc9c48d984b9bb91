//! `Definition`: a module that is finished and checked, and its ports.

use crate::context::Context;
use crate::ir::Direction;

/// A port of a finished module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Name in the Verilog.
    pub name: String,
    /// Width in bits.
    pub width: u32,
    /// Whether it is an output.
    pub output: bool,
    /// What it means.
    pub doc: String,
}

/// A finished, checked module.
#[derive(Clone, Copy)]
pub struct Definition<'a> {
    pub(crate) context: &'a Context,
    pub(crate) index: u32,
}

impl std::fmt::Debug for Definition<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "definition of {}", self.name())
    }
}

impl Definition<'_> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        self.context.data(self.index).name.clone()
    }

    /// Its instances by their names, in the order in which they were made.
    #[must_use]
    pub fn instances(&self) -> Vec<(String, Self)> {
        let data = self.context.data(self.index);
        let instances = data.instances.iter().map(|instance| {
            let definition = Definition {
                index: instance.module,
                ..*self
            };
            (instance.name.clone(), definition)
        });
        instances.collect()
    }

    /// Bits of all memories inside, those of its instances too.
    #[must_use]
    pub fn memory_bits(&self) -> u64 {
        let own = self.context.data(self.index);
        let own = own
            .memories
            .iter()
            .map(|memory| u64::from(memory.depth) * u64::from(memory.width));
        own.sum::<u64>()
            + self
                .instances()
                .iter()
                .map(|(_, inside)| inside.memory_bits())
                .sum::<u64>()
    }

    /// Its ports as the Verilog has them: `clk` and `rst` (where something uses them) first.
    #[must_use]
    pub fn ports(&self) -> Vec<Port> {
        let data = self.context.data(self.index);
        let implicit = [
            (data.has_clock, "clk", "clock"),
            (data.has_reset, "rst", "synchronous reset, active high"),
        ];
        let implicit = implicit
            .into_iter()
            .filter(|(used, ..)| *used)
            .map(|(_, name, doc)| Port {
                name: name.to_owned(),
                width: 1,
                output: false,
                doc: doc.to_owned(),
            });
        let declared = data.ports.iter().map(|port| Port {
            name: port.name.clone(),
            width: data.width(port.node),
            output: port.direction == Direction::Output,
            doc: data.node(port.node).doc.clone().unwrap_or_default(),
        });
        implicit.chain(declared).collect()
    }
}
