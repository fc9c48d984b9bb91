//! How nodes become Verilog expressions: which are printed in place, which need a name, and their text.

use super::{DEEPEST_IF, LONGEST_INLINE, Printer, Text};
use crate::bits::Bits;
use crate::ir::{BinaryOp, Kind, NodeId, UnaryOp};

impl Printer<'_> {
    /// Counts the readers of each node among what is printed.
    pub(super) fn count(&mut self) {
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
    pub(super) fn find_structure(&mut self) {
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

    pub(super) fn operand(&self, id: NodeId) -> String {
        let text = &self.texts[id as usize];
        if text.atom {
            text.text.clone()
        } else {
            format!("({})", text.text)
        }
    }

    pub(super) fn plain(&self, id: NodeId) -> &str {
        &self.texts[id as usize].text
    }

    pub(super) fn expression(&self, id: NodeId) -> Text {
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

    pub(super) fn binary(&self, op: BinaryOp, left: NodeId, right: NodeId, width: u32) -> String {
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
    pub(super) fn trivial(&self, id: NodeId) -> bool {
        match self.kind(id) {
            Kind::Constant(_) | Kind::Slice { .. } => true,
            Kind::Unary(UnaryOp::Not, of) => self.texts[*of as usize].atom && self.data.width(id) == 1,
            Kind::Repeat { of, .. } => self.texts[*of as usize].atom && self.data.width(*of) == 1,
            _ => false,
        }
    }

    /// A name for what the printer adds, that nothing of the module has.
    pub(super) fn own_name(&self, wish: &str) -> String {
        let mut name = wish.to_owned();
        let mut number = 2;
        while self.data.names.contains_key(&name) {
            name = format!("{wish}_{number}");
            number += 1;
        }
        name
    }

    pub(super) fn write_expressions(&mut self) {
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
    pub(super) fn named(&self) -> Vec<NodeId> {
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
}

pub(super) fn constant(value: &Bits) -> String {
    if value.width() == 1 {
        return format!("1'b{}", u8::from(value.bit(0)));
    }
    let digits = format!("{value:x}");
    let digits = digits.trim_start_matches('0');
    format!("{}'h{}", value.width(), if digits.is_empty() { "0" } else { digits })
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
