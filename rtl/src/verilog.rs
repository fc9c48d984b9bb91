//! Prints finished modules as Verilog-2005: one text a module, the same bytes for the same design.
//!
//! Names from the Rust source survive; an expression without a name is printed in place unless it is used more than once
//! or a part of it is taken. All operands of an operator have equal widths and every mixed expression is parenthesised, so
//! Verilog's rules of context widths never change a value.

mod ending;
mod expression;

use expression::constant;

use crate::bits::index_width;
use crate::check::{Roots, live};
use crate::context::{Context, short};
use crate::definition::Definition;
use crate::ir::{Direction, Kind, ModuleData, NodeId};
use crate::ram;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Longest expression that is printed in place, in characters.
const LONGEST_INLINE: usize = 240;

/// Deepest nesting of `if` in a register; what is deeper is printed as an expression.
const DEEPEST_IF: usize = 12;

/// One file of Verilog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerilogFile {
    /// `name.v`, the name being the module's.
    pub name: String,
    /// Its text.
    pub text: String,
}

impl Definition<'_> {
    /// This module and all below it as Verilog, a file a module: what is used comes before its user, this module last.
    #[must_use]
    pub fn verilog(&self) -> Vec<VerilogFile> {
        let mut order = vec![];
        collect(self.context, self.index, &mut order);
        let mut rams: BTreeMap<String, String> = BTreeMap::new();
        for index in &order {
            for memory in &self.context.data(*index).memories {
                rams.entry(ram::name(memory)).or_insert_with(|| ram::text(memory));
            }
        }
        let rams = rams.into_iter().map(|(name, text)| VerilogFile {
            name: format!("{name}.v"),
            text,
        });
        let modules = order.iter().map(|index| {
            let data = self.context.data(*index);
            VerilogFile {
                name: format!("{}.v", data.name),
                text: print_module(self.context, &data, true),
            }
        });
        rams.chain(modules).collect()
    }

    /// All files of [`Definition::verilog`] in one text.
    #[must_use]
    pub fn verilog_text(&self) -> String {
        self.verilog()
            .into_iter()
            .map(|file| file.text)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

fn collect(context: &Context, index: u32, order: &mut Vec<u32>) {
    if order.contains(&index) {
        return;
    }
    for instance in &context.data(index).instances {
        collect(context, instance.module, order);
    }
    order.push(index);
}

/// `[7:0] ` before a name, or nothing for one bit.
fn range(width: u32) -> String {
    if width == 1 {
        String::new()
    } else {
        format!("[{}:0] ", width - 1)
    }
}

/// A printed expression: atoms need no parentheses.
#[derive(Debug, Clone, Default)]
struct Text {
    text: String,
    atom: bool,
}

struct Printer<'p> {
    context: &'p Context,
    data: &'p ModuleData,
    places: bool,
    live: Vec<bool>,
    uses: Vec<u32>,
    /// A part of it is taken, so it needs a name.
    sliced: Vec<bool>,
    /// Printed as `if` or as a chain of conditions by whoever it drives.
    structural: Vec<bool>,
    /// What a structural multiplexer drives.
    owner: Vec<NodeId>,
    texts: Vec<Text>,
    temporaries: Vec<(NodeId, String)>,
    is_temporary: Vec<bool>,
    is_ignored: Vec<bool>,
}

/// `places`: with the Rust file and line of each register and named wire.
pub(crate) fn print_module(context: &Context, data: &ModuleData, places: bool) -> String {
    let mut printer = Printer {
        context,
        data,
        places,
        live: live(data, Roots::Printed),
        uses: vec![0; data.nodes.len()],
        sliced: vec![false; data.nodes.len()],
        structural: vec![false; data.nodes.len()],
        owner: vec![0; data.nodes.len()],
        texts: vec![Text::default(); data.nodes.len()],
        temporaries: vec![],
        is_temporary: vec![false; data.nodes.len()],
        is_ignored: vec![false; data.nodes.len()],
    };
    data.ignored
        .iter()
        .for_each(|id| printer.is_ignored[*id as usize] = true);
    printer.count();
    printer.find_structure();
    printer.write_expressions();
    printer.print()
}

impl Printer<'_> {
    fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        0..self.data.nodes.len() as NodeId
    }

    fn live_ids(&self) -> Vec<NodeId> {
        self.ids().filter(|id| self.is_live(*id)).collect()
    }

    fn kind(&self, id: NodeId) -> &Kind {
        &self.data.node(id).kind
    }

    fn is_live(&self, id: NodeId) -> bool {
        self.live[id as usize]
    }

    fn place_comment(&self, id: NodeId) -> String {
        let node = self.data.node(id);
        let mut parts = vec![];
        parts.extend(node.doc.as_deref().map(one_line));
        if self.places {
            parts.push(short(node.place));
        }
        if parts.is_empty() {
            String::new()
        } else {
            format!("  // {}", parts.join(" | "))
        }
    }

    fn print(&self) -> String {
        let mut out = String::new();
        self.print_header(&mut out);
        self.print_declarations(&mut out);
        self.print_assignments(&mut out);
        self.print_registers(&mut out);
        self.print_memories(&mut out);
        self.print_instances(&mut out);
        self.print_unused(&mut out);
        self.print_properties(&mut out);
        out.push_str("endmodule\n\n`default_nettype wire\n");
        out
    }

    fn print_header(&self, out: &mut String) {
        let data = self.data;
        let _ = writeln!(out, "// {}", data.name);
        if let Some(doc) = &data.doc {
            out.push_str("//\n");
            doc.lines().for_each(|line| {
                let _ = writeln!(out, "{}", format!("// {line}").trim_end());
            });
        }
        if self.places {
            let _ = writeln!(out, "//\n// Generated by spraynic; described in {}.", short(data.place));
        }
        let _ = write!(out, "\n`default_nettype none\n\nmodule {} (", data.name);
        let mut ports: Vec<(String, String)> = vec![];
        if data.has_clock {
            ports.push(("input  wire clk".to_owned(), "clock".to_owned()));
        }
        if data.has_reset {
            ports.push((
                "input  wire rst".to_owned(),
                "synchronous reset, active high".to_owned(),
            ));
        }
        for port in &data.ports {
            let direction = if port.direction == Direction::Input {
                "input  wire"
            } else {
                "output wire"
            };
            let declaration = format!("{direction} {}{}", range(data.width(port.node)), port.name);
            let doc = data.node(port.node).doc.as_deref().map(one_line).unwrap_or_default();
            ports.push((declaration, doc));
        }
        for (index, (declaration, doc)) in ports.iter().enumerate() {
            let comma = if index + 1 < ports.len() { "," } else { "" };
            let comment = if doc.is_empty() {
                String::new()
            } else {
                format!("  // {doc}")
            };
            let _ = write!(out, "\n    {declaration}{comma}{comment}");
        }
        out.push_str("\n);\n\n");
    }

    fn print_declarations(&self, out: &mut String) {
        for id in self.ids().filter(|id| self.is_live(*id)) {
            let node = self.data.node(id);
            let Some(name) = &node.name else { continue };
            let word = match node.kind {
                Kind::Register { .. } => "reg ",
                Kind::Input | Kind::Output | Kind::Constant(_) => continue,
                Kind::InstanceInput { .. } if self.uses[id as usize] == 0 => continue,
                _ => "wire",
            };
            let _ = writeln!(out, "    {word} {}{name};{}", range(node.width), self.place_comment(id));
        }
        for instance in &self.data.instances {
            for id in instance.connections.iter().filter(|id| !self.is_live(**id)) {
                let node = self.data.node(*id);
                let _ = writeln!(
                    out,
                    "    wire {}{};",
                    range(node.width),
                    node.name.as_deref().unwrap_or_default()
                );
            }
        }
        for (id, name) in &self.temporaries {
            let _ = writeln!(out, "    wire {}{name};", range(self.data.width(*id)));
        }
        out.push('\n');
    }

    fn print_assignments(&self, out: &mut String) {
        for (id, name) in &self.temporaries {
            let _ = writeln!(out, "    assign {name} = {};", self.expression(*id).text);
        }
        for id in self.named() {
            let name = self.plain(id);
            let _ = writeln!(out, "    assign {name} = {};", self.expression(id).text);
        }
        for id in self.ids().filter(|id| self.is_live(*id)) {
            let assigned = match self.kind(id) {
                Kind::Wire | Kind::Output => true,
                Kind::InstanceInput { .. } => self.uses[id as usize] > 0,
                _ => false,
            };
            if assigned {
                let driver = self.data.drivers[&id];
                let _ = writeln!(out, "    assign {} = {};", self.plain(id), self.chain(driver));
            }
        }
        out.push('\n');
    }

    /// A driver of a wire: multiplexers along the `otherwise` side become one chain, a line each.
    fn chain(&self, mut id: NodeId) -> String {
        let mut lines = vec![];
        while self.structural[id as usize] {
            let Kind::Mux {
                condition,
                then,
                otherwise,
            } = self.kind(id)
            else {
                break;
            };
            lines.push(format!("{} ? {}", self.operand(*condition), self.operand(*then)));
            id = *otherwise;
        }
        lines.push(self.plain(id).to_owned());
        lines.join("\n        : ")
    }

    fn print_registers(&self, out: &mut String) {
        for id in self.ids().filter(|id| self.is_live(*id)) {
            let Kind::Register { reset } = self.kind(id) else {
                continue;
            };
            let name = self.plain(id);
            let driver = self.data.drivers.get(&id).copied().unwrap_or(id);
            out.push_str("    always @(posedge clk) begin\n");
            match reset {
                Some(value) => {
                    let _ = writeln!(
                        out,
                        "        if (rst) begin\n            {name} <= {};",
                        constant(value)
                    );
                    if self.decision(driver).is_some() {
                        self.update(out, id, driver, 2, "end else ");
                    } else {
                        if driver != id {
                            let _ = writeln!(
                                out,
                                "        end else begin\n            {name} <= {};",
                                self.plain(driver)
                            );
                        }
                        out.push_str("        end\n");
                    }
                }
                // It never changes and has no value: linters want to see it driven.
                None if driver == id => {
                    let _ = writeln!(out, "        {name} <= {name};");
                }
                None => self.update(out, id, driver, 2, ""),
            }
            out.push_str("    end\n\n");
        }
    }

    /// The multiplexer a value is, if it prints as `if`: condition, then, otherwise.
    fn decision(&self, value: NodeId) -> Option<(NodeId, NodeId, NodeId)> {
        match self.kind(value) {
            Kind::Mux {
                condition,
                then,
                otherwise,
            } if self.structural[value as usize] => Some((*condition, *then, *otherwise)),
            _ => None,
        }
    }

    /// The new value of a register as a chain of `if` and `else if`, with `lead` before it; a branch that keeps the value is
    /// left out where it can be.
    fn update(&self, out: &mut String, register: NodeId, value: NodeId, depth: usize, lead: &str) {
        let pad = "    ".repeat(depth);
        let name = self.plain(register);
        let Some((condition, then, otherwise)) = self.decision(value) else {
            if value != register {
                let _ = writeln!(out, "{pad}{name} <= {};", self.plain(value));
            }
            return;
        };
        if then == register {
            // Conditions that keep the value, one after the other, are one negated condition.
            let mut keeping = vec![format!("!{}", self.operand(condition))];
            let mut rest = otherwise;
            while let Some((condition, then, otherwise)) = self.decision(rest)
                && then == register
            {
                keeping.push(format!("!{}", self.operand(condition)));
                rest = otherwise;
            }
            let _ = writeln!(out, "{pad}{lead}if ({}) begin", keeping.join(" && "));
            self.update(out, register, rest, depth + 1, "");
            let _ = writeln!(out, "{pad}end");
            return;
        }
        let _ = writeln!(out, "{pad}{lead}if ({}) begin", self.plain(condition));
        self.update(out, register, then, depth + 1, "");
        let mut rest = otherwise;
        while let Some((condition, then, otherwise)) = self.decision(rest) {
            let _ = writeln!(out, "{pad}end else if ({}) begin", self.plain(condition));
            if then == register {
                let _ = writeln!(out, "{pad}    {name} <= {name};");
            } else {
                self.update(out, register, then, depth + 1, "");
            }
            rest = otherwise;
        }
        if rest != register {
            let _ = writeln!(out, "{pad}end else begin");
            self.update(out, register, rest, depth + 1, "");
        }
        let _ = writeln!(out, "{pad}end");
    }

    fn print_memories(&self, out: &mut String) {
        for memory in &self.data.memories {
            let (Some(write), Some(read)) = (&memory.write, &memory.read) else {
                continue;
            };
            let comment = if self.places {
                format!("  // {}", short(memory.place))
            } else {
                String::new()
            };
            let _ = writeln!(
                out,
                "    {} #(.WIDTH({}), .DEPTH({}), .ADDRESS({}), .GRANULE({})) {} ({comment}",
                ram::name(memory),
                memory.width,
                memory.depth,
                index_width(u64::from(memory.depth)),
                memory.granule,
                memory.name
            );
            let strobe = write
                .strobe
                .map_or_else(|| "1'b1".to_owned(), |id| self.plain(id).to_owned());
            let _ = writeln!(out, "        .clk(clk),");
            let _ = writeln!(out, "        .write_enable({}),", self.plain(write.enable));
            let _ = writeln!(out, "        .write_address({}),", self.plain(write.address));
            let _ = writeln!(out, "        .write_data({}),", self.plain(write.data));
            let _ = writeln!(out, "        .write_strobe({strobe}),");
            if let Some(enable) = read.enable {
                let _ = writeln!(out, "        .read_enable({}),", self.plain(enable));
            }
            let _ = writeln!(out, "        .read_address({}),", self.plain(read.address));
            let data = self.data.node(read.data).name.as_deref().unwrap_or_default();
            let _ = writeln!(out, "        .read_data({data})\n    );\n");
        }
    }

    fn print_instances(&self, out: &mut String) {
        for instance in &self.data.instances {
            let inner = self.context.data(instance.module);
            let comment = if self.places {
                format!("  // {}", short(instance.place))
            } else {
                String::new()
            };
            let mut connections = vec![];
            if inner.has_clock {
                connections.push(".clk(clk)".to_owned());
            }
            if inner.has_reset {
                connections.push(".rst(rst)".to_owned());
            }
            for (port, id) in inner.ports.iter().zip(&instance.connections) {
                let direct = port.direction == Direction::Input && self.uses[*id as usize] == 0;
                let text = if direct {
                    self.plain(self.data.drivers[id]).to_owned()
                } else {
                    self.data.node(*id).name.clone().unwrap_or_default()
                };
                connections.push(format!(".{}({text})", port.name));
            }
            let _ = writeln!(out, "    {} {} ({comment}", inner.name, instance.name);
            let _ = writeln!(out, "        {}\n    );\n", connections.join(",\n        "));
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
