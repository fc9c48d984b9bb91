//! What stands at a module's end: what nobody reads, said once for linters, and the properties for formal tools and simulation.

use super::Printer;
use crate::check::{Roots, live};
use crate::context::short;
use crate::ir::{Kind, PropertyKind};
use std::fmt::Write;

impl Printer<'_> {
    /// What is declared but not read, as a whole or in part: said once, so that linters stay silent about it.
    pub(super) fn print_unused(&self, out: &mut String) {
        let mut read: Vec<Option<Vec<bool>>> = vec![None; self.data.nodes.len()];
        let mut whole = vec![false; self.data.nodes.len()];
        // Properties are not there for every tool, so what only they read counts as unread, like what is ignored.
        let live = live(self.data, Roots::Hardware);
        for id in self.ids().filter(|id| live[*id as usize]) {
            if let Some(driver) = self.data.drivers.get(&id) {
                // A register that only keeps itself is not read by that.
                whole[*driver as usize] |= *driver != id;
            }
            match self.kind(id) {
                Kind::Slice { of, low } => {
                    let mask = read[*of as usize].get_or_insert_with(|| vec![false; self.data.width(*of) as usize]);
                    mask[*low as usize..(*low + self.data.width(id)) as usize].fill(true);
                }
                // Nor by the branches that keep it.
                Kind::Mux {
                    condition,
                    then,
                    otherwise,
                } if self.structural[id as usize] => {
                    let owner = self.owner[id as usize];
                    whole[*condition as usize] = true;
                    whole[*then as usize] |= *then != owner;
                    whole[*otherwise as usize] |= *otherwise != owner;
                }
                kind => kind
                    .operands()
                    .iter()
                    .for_each(|operand| whole[*operand as usize] = true),
            }
        }
        for memory in &self.data.memories {
            let write = memory
                .write
                .iter()
                .flat_map(|port| [Some(port.enable), Some(port.address), Some(port.data), port.strobe]);
            let read = memory.read.iter().flat_map(|port| [Some(port.address), port.enable]);
            write.chain(read).flatten().for_each(|id| whole[id as usize] = true);
        }
        let mut names = vec![];
        let clocked = self
            .data
            .nodes
            .iter()
            .any(|node| matches!(node.kind, Kind::Register { .. }))
            || !self.data.memories.is_empty()
            || self
                .data
                .instances
                .iter()
                .any(|instance| self.context.data(instance.module).has_clock);
        if self.data.has_clock && !clocked {
            names.push("clk".to_owned());
        }
        for id in self.ids() {
            let node = self.data.node(id);
            let (ignored, temporary) = (self.is_ignored[id as usize], self.is_temporary[id as usize]);
            let named = node.name.is_some()
                && !matches!(node.kind, Kind::Output | Kind::InstanceInput { .. } | Kind::Constant(_));
            let printed = named && self.is_live(id) || temporary || matches!(node.kind, Kind::Input) && ignored;
            let complete = read[id as usize]
                .as_ref()
                .is_some_and(|mask| mask.iter().all(|bit| *bit));
            if printed && !whole[id as usize] && !complete {
                names.push(self.plain(id).to_owned());
            }
        }
        if !names.is_empty() {
            let _ = writeln!(
                out,
                "    wire {} = &{{1'b0, {}}};\n",
                self.own_name("_unused"),
                names.join(", ")
            );
        }
    }

    pub(super) fn print_properties(&self, out: &mut String) {
        if self.data.properties.is_empty() {
            return;
        }
        let active = if self.data.has_reset { "!rst && " } else { "" };
        out.push_str("`ifdef FORMAL\n");
        if self.data.has_reset {
            let started = self.own_name("formal_started");
            let _ = writeln!(
                out,
                "    reg {started} = 1'b0;\n    always @(posedge clk) {started} <= 1'b1;\n    always @* if (!{started}) assume (rst);"
            );
        }
        let guard = if self.data.has_reset { "if (!rst) " } else { "" };
        for property in &self.data.properties {
            let condition = self.plain(property.condition);
            let name = &property.name;
            match property.kind {
                PropertyKind::Assert => {
                    let _ = writeln!(out, "    always @(posedge clk) {guard}{name}: assert ({condition});");
                }
                PropertyKind::Assume => {
                    let _ = writeln!(out, "`ifdef FORMAL_TOP_{}", self.data.name);
                    let _ = writeln!(
                        out,
                        "    always @(posedge clk) {guard}{name}: assume ({condition});\n`else"
                    );
                    let _ = writeln!(
                        out,
                        "    always @(posedge clk) {guard}{name}: assert ({condition});\n`endif"
                    );
                }
                PropertyKind::Cover => {
                    let _ = writeln!(out, "    always @(posedge clk) {guard}{name}: cover ({condition});");
                }
            }
        }
        out.push_str("`endif\n`ifdef RTL_ASSERTIONS\n");
        for property in self
            .data
            .properties
            .iter()
            .filter(|property| property.kind != PropertyKind::Cover)
        {
            let condition = self.operand(property.condition);
            let place = if self.places {
                format!(" ({})", short(property.place))
            } else {
                String::new()
            };
            let _ = writeln!(out, "    always @(posedge clk) if ({active}!{condition}) begin");
            let _ = writeln!(out, "        $display(\"%m: {} does not hold{place}\");", property.name);
            let _ = writeln!(out, "        $stop;\n    end");
        }
        out.push_str("`endif\n\n");
    }
}
