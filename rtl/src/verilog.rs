//! Prints finished modules as Verilog-2005: one text a module, the same bytes for the same design.
//!
//! Names from the Rust source survive; an expression without a name is printed in place unless it is used more than once
//! or a part of it is taken. All operands of an operator have equal widths and every mixed expression is parenthesised, so
//! Verilog's rules of context widths never change a value.

use crate::bits::{Bits, index_width};
use crate::check::{Roots, live};
use crate::context::{Context, short};
use crate::ir::{BinaryOp, Direction, Kind, ModuleData, NodeId, PropertyKind, UnaryOp};
use crate::module::Definition;
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

fn constant(value: &Bits) -> String {
    if value.width() == 1 {
        return format!("1'b{}", u8::from(value.bit(0)));
    }
    let digits = format!("{value:x}");
    let digits = digits.trim_start_matches('0');
    format!("{}'h{}", value.width(), if digits.is_empty() { "0" } else { digits })
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

    /// Counts the readers of each node among what is printed.
    fn count(&mut self) {
        let mut uses = vec![0u32; self.data.nodes.len()];
        for id in self.live_ids() {
            let kind = &self.data.node(id).kind;
            kind.operands().iter().for_each(|operand| uses[*operand as usize] += 1);
            if let Kind::Slice { of, .. } = kind {
                self.sliced[*of as usize] = true;
            }
            if let Some(driver) = self.data.drivers.get(&id) {
                uses[*driver as usize] += 1;
            }
        }
        for memory in &self.data.memories {
            let write = memory.write.as_ref();
            let read = memory.read.as_ref();
            let nodes = write
                .into_iter()
                .flat_map(|port| [Some(port.enable), Some(port.address), Some(port.data), port.strobe]);
            let nodes = nodes.chain(read.into_iter().flat_map(|port| [Some(port.address), port.enable]));
            nodes.flatten().for_each(|id| uses[id as usize] += 1);
        }
        self.data
            .properties
            .iter()
            .for_each(|property| uses[property.condition as usize] += 1);
        self.uses = uses;
    }

    /// Marks the multiplexers that become `if` statements of a register or the chain of a wire.
    fn find_structure(&mut self) {
        for id in self.live_ids() {
            let Some(driver) = self.data.drivers.get(&id) else {
                continue;
            };
            let register = matches!(self.kind(id), Kind::Register { .. });
            if matches!(self.kind(id), Kind::InstanceInput { .. }) && self.uses[id as usize] == 0 {
                continue;
            }
            let mut stack = vec![(*driver, 0)];
            while let Some((node, depth)) = stack.pop() {
                let Kind::Mux { then, otherwise, .. } = self.kind(node) else {
                    continue;
                };
                let plain = self.data.node(node).name.is_none() && !self.sliced[node as usize];
                if !plain || self.uses[node as usize] != 1 || depth > DEEPEST_IF {
                    continue;
                }
                let (then, otherwise) = (*then, *otherwise);
                self.structural[node as usize] = true;
                self.owner[node as usize] = id;
                stack.push((otherwise, depth));
                if register {
                    stack.push((then, depth + 1));
                }
            }
        }
    }

    fn operand(&self, id: NodeId) -> String {
        let text = &self.texts[id as usize];
        if text.atom {
            text.text.clone()
        } else {
            format!("({})", text.text)
        }
    }

    fn plain(&self, id: NodeId) -> &str {
        &self.texts[id as usize].text
    }

    fn expression(&self, id: NodeId) -> Text {
        let node = self.data.node(id);
        let text = match &node.kind {
            Kind::Constant(value) => {
                return Text {
                    text: constant(value),
                    atom: true,
                };
            }
            Kind::Alias(of) => return self.texts[*of as usize].clone(),
            Kind::Unary(op, of) => {
                let sign = match op {
                    UnaryOp::Not => "~",
                    UnaryOp::ReduceAnd => "&",
                    UnaryOp::ReduceOr => "|",
                    UnaryOp::ReduceXor => "^",
                };
                format!("{sign}{}", self.operand(*of))
            }
            Kind::Binary(op, left, right) => self.binary(*op, *left, *right, node.width),
            Kind::Mux {
                condition,
                then,
                otherwise,
            } => {
                format!(
                    "{} ? {} : {}",
                    self.operand(*condition),
                    self.operand(*then),
                    self.operand(*otherwise)
                )
            }
            Kind::Slice { of, low } => {
                let base = self.plain(*of);
                let text = match node.width {
                    1 => format!("{base}[{low}]"),
                    width => format!("{base}[{}:{low}]", low + width - 1),
                };
                return Text { text, atom: true };
            }
            Kind::Cat(parts) => {
                let parts: Vec<&str> = parts.iter().map(|part| self.plain(*part)).collect();
                return Text {
                    text: braces(&parts),
                    atom: true,
                };
            }
            Kind::Repeat { of, count } => {
                return Text {
                    text: format!("{{{count}{{{}}}}}", self.plain(*of)),
                    atom: true,
                };
            }
            _ => unreachable!("declared nodes have names"),
        };
        Text { text, atom: false }
    }

    fn binary(&self, op: BinaryOp, left: NodeId, right: NodeId, width: u32) -> String {
        let sign = match op {
            BinaryOp::And => "&",
            BinaryOp::Or => "|",
            BinaryOp::Xor => "^",
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Shl => "<<",
            BinaryOp::Shr => ">>",
            BinaryOp::Eq => "==",
            BinaryOp::Ne => "!=",
            BinaryOp::Lt | BinaryOp::LtSigned => "<",
            BinaryOp::Le | BinaryOp::LeSigned => "<=",
        };
        let side = |id: NodeId| match op {
            BinaryOp::LtSigned | BinaryOp::LeSigned => format!("$signed({})", self.plain(id)),
            BinaryOp::Mul => {
                let extra = width - self.data.width(id);
                format!("{{{extra}'h0, {}}}", self.plain(id))
            }
            _ => self.operand(id),
        };
        format!("{} {sign} {}", side(left), side(right))
    }

    /// Whether a node is best printed in place wherever it is used.
    fn trivial(&self, id: NodeId) -> bool {
        match self.kind(id) {
            Kind::Constant(_) | Kind::Slice { .. } => true,
            Kind::Unary(UnaryOp::Not, of) => self.texts[*of as usize].atom && self.data.width(id) == 1,
            Kind::Repeat { of, .. } => self.texts[*of as usize].atom && self.data.width(*of) == 1,
            _ => false,
        }
    }

    /// A name for what the printer adds, that nothing of the module has.
    fn own_name(&self, wish: &str) -> String {
        let mut name = wish.to_owned();
        let mut number = 2;
        while self.data.names.contains_key(&name) {
            name = format!("{wish}_{number}");
            number += 1;
        }
        name
    }

    fn write_expressions(&mut self) {
        let mut number = 0;
        for id in self.ids() {
            let index = id as usize;
            if !self.is_live(id) {
                continue;
            }
            let node = self.data.node(id);
            if let (Some(name), false) = (&node.name, matches!(node.kind, Kind::Constant(_))) {
                self.texts[index] = Text {
                    text: name.clone(),
                    atom: true,
                };
                continue;
            }
            if self.structural[index] {
                continue;
            }
            let text = self.expression(id);
            let shared = self.uses[index] > 1 && !self.trivial(id);
            let long = text.text.len() > LONGEST_INLINE && !matches!(node.kind, Kind::Constant(_) | Kind::Cat(_));
            if shared || self.sliced[index] && !matches!(node.kind, Kind::Constant(_)) || long {
                let name = loop {
                    number += 1;
                    let name = format!("t_{number}");
                    if !self.data.names.contains_key(&name) {
                        break name;
                    }
                };
                self.is_temporary[index] = true;
                self.temporaries.push((id, name.clone()));
                self.texts[index] = Text { text: name, atom: true };
            } else {
                self.texts[index] = text;
            }
        }
    }

    /// Expressions that have a name of the source, in order.
    fn named(&self) -> Vec<NodeId> {
        let expression = |kind: &Kind| {
            matches!(
                kind,
                Kind::Alias(_)
                    | Kind::Unary(..)
                    | Kind::Binary(..)
                    | Kind::Mux { .. }
                    | Kind::Slice { .. }
                    | Kind::Cat(_)
                    | Kind::Repeat { .. }
            )
        };
        self.ids()
            .filter(|id| self.is_live(*id) && self.data.node(*id).name.is_some() && expression(self.kind(*id)))
            .collect()
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

    /// What is declared but not read, as a whole or in part: said once, so that linters stay silent about it.
    fn print_unused(&self, out: &mut String) {
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

    fn print_properties(&self, out: &mut String) {
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

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `{a, b}`, over several lines where it is long.
fn braces(parts: &[&str]) -> String {
    let whole = parts.join(", ");
    if whole.len() <= 100 {
        return format!("{{{whole}}}");
    }
    let mut lines: Vec<String> = vec![];
    let mut line = String::new();
    for part in parts {
        if !line.is_empty() && line.len() + part.len() > 100 {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(part);
        line.push(',');
    }
    lines.push(line.trim_end_matches(',').to_owned());
    format!("{{\n        {}}}", lines.join("\n        "))
}
