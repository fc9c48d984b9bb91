//! The circuit as data: nodes, registers, memories, instances and statements of one module.
//!
//! Internal to the crate. `module.rs` and `signal.rs` build it, `elaborate.rs` turns statements into drivers, `check.rs`
//! judges it, `verilog.rs` prints it, `evaluator.rs` runs it. Nothing here knows how it is printed.

use crate::bits::Bits;
use std::collections::HashMap;
use std::panic::Location;

/// Index of a node in its module.
pub(crate) type NodeId = u32;

/// Where something was written in Rust.
pub(crate) type Place = &'static Location<'static>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum UnaryOp {
    Not,
    ReduceAnd,
    ReduceOr,
    ReduceXor,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum BinaryOp {
    And,
    Or,
    Xor,
    Add,
    Sub,
    /// Width is the sum of both.
    Mul,
    /// Width is that of the left operand, the right one may have any.
    Shl,
    Shr,
    Eq,
    Ne,
    Lt,
    Le,
    LtSigned,
    LeSigned,
}

/// What a node is. Those that a `set` can drive have their driver in [`ModuleData::drivers`] after elaboration.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Input,
    Output,
    Wire,
    Register {
        reset: Option<Bits>,
    },
    InstanceInput {
        instance: u32,
        port: u32,
    },
    InstanceOutput {
        instance: u32,
        port: u32,
    },
    MemoryRead {
        memory: u32,
    },
    Constant(Bits),
    /// A further name for a node that has one.
    Alias(NodeId),
    Unary(UnaryOp, NodeId),
    Binary(BinaryOp, NodeId, NodeId),
    Mux {
        condition: NodeId,
        then: NodeId,
        otherwise: NodeId,
    },
    Slice {
        of: NodeId,
        low: u32,
    },
    /// Most significant part first.
    Cat(Vec<NodeId>),
    Repeat {
        of: NodeId,
        count: u32,
    },
}

impl Kind {
    /// Whether `set` may drive it.
    pub(crate) fn is_driven(&self) -> bool {
        matches!(
            self,
            Self::Output | Self::Wire | Self::Register { .. } | Self::InstanceInput { .. }
        )
    }

    /// Whether it was declared and so must be read by somebody.
    pub(crate) fn is_declared(&self) -> bool {
        matches!(
            self,
            Self::Input | Self::Wire | Self::Register { .. } | Self::InstanceOutput { .. } | Self::MemoryRead { .. }
        )
    }

    /// The nodes whose value it needs in the same cycle, apart from a driver.
    pub(crate) fn operands(&self) -> Vec<NodeId> {
        match self {
            Self::Alias(of) | Self::Unary(_, of) | Self::Slice { of, .. } | Self::Repeat { of, .. } => vec![*of],
            Self::Binary(_, left, right) => vec![*left, *right],
            Self::Mux {
                condition,
                then,
                otherwise,
            } => vec![*condition, *then, *otherwise],
            Self::Cat(parts) => parts.clone(),
            _ => vec![],
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub kind: Kind,
    pub width: u32,
    pub name: Option<String>,
    pub doc: Option<String>,
    pub place: Place,
}

/// Style of a memory: which resource it shall become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoryStyle {
    /// Block RAM (BRAM36, DP16KD): registered read.
    Block,
    /// Large block RAM (URAM): registered read.
    Ultra,
    /// Distributed RAM of LUTs: for up to 32 words; may also be read in the same cycle.
    Distributed,
}

/// What a registered read returns when the same word is written in the same cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReadDuringWrite {
    /// The word before the write.
    Old,
    /// The word after the write: a bypass of registers is built where the RAM has none.
    New,
    /// Whatever the RAM gives. Simulation returns the inverted old word, so that reliance on it is found.
    DontCare,
}

#[derive(Debug, Clone)]
pub(crate) struct WritePort {
    pub enable: NodeId,
    pub address: NodeId,
    pub data: NodeId,
    /// One bit for each granule of the word; absent: the whole word.
    pub strobe: Option<NodeId>,
}

#[derive(Debug, Clone)]
pub(crate) struct ReadPort {
    /// Absent: the read is combinational.
    pub enable: Option<NodeId>,
    pub address: NodeId,
    pub data: NodeId,
}

#[derive(Debug, Clone)]
pub(crate) struct Memory {
    pub name: String,
    pub width: u32,
    pub depth: u32,
    pub style: MemoryStyle,
    pub policy: ReadDuringWrite,
    pub granule: u32,
    pub write: Option<WritePort>,
    pub read: Option<ReadPort>,
    pub place: Place,
}

#[derive(Debug, Clone)]
pub(crate) struct Instance {
    pub name: String,
    /// Index of the finished module in the context.
    pub module: u32,
    /// The node of each port of the module, by its port index; clock and reset have none.
    pub connections: Vec<NodeId>,
    pub place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PropertyKind {
    Assert,
    Assume,
    Cover,
}

#[derive(Debug, Clone)]
pub(crate) struct Property {
    pub kind: PropertyKind,
    pub name: String,
    pub condition: NodeId,
    pub place: Place,
}

#[derive(Debug, Clone)]
pub(crate) enum Statement {
    Set {
        target: NodeId,
        value: NodeId,
    },
    If {
        /// Tells it from the others of the module.
        serial: u32,
        /// Conditions and bodies: the first condition that is 1 decides.
        arms: Vec<(NodeId, Vec<Statement>)>,
        otherwise: Vec<Statement>,
        /// At most one condition is 1 at a time.
        exclusive: bool,
        /// Always one of the conditions is 1.
        complete: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Input,
    Output,
}

#[derive(Debug, Clone)]
pub(crate) struct PortData {
    pub name: String,
    pub direction: Direction,
    pub node: NodeId,
}

/// One module, being built or finished.
#[derive(Debug)]
pub(crate) struct ModuleData {
    pub name: String,
    pub doc: Option<String>,
    pub place: Place,
    pub nodes: Vec<Node>,
    pub ports: Vec<PortData>,
    pub memories: Vec<Memory>,
    pub instances: Vec<Instance>,
    pub properties: Vec<Property>,
    /// Nodes that nobody reads, by intent.
    pub ignored: Vec<NodeId>,
    /// The open blocks of `when`, the module's own first.
    pub blocks: Vec<Vec<Statement>>,
    /// Driver of each driven node, after elaboration.
    pub drivers: HashMap<NodeId, NodeId>,
    /// How often each name was taken, to number the further ones.
    pub names: HashMap<String, u32>,
    /// Equal expressions are built once.
    pub shared: HashMap<(Kind, u32), NodeId>,
    /// Finished and kept: what instances may use.
    pub finished: bool,
    /// Nothing may be added any more.
    pub closed: bool,
    /// How many `when` and `switch` there were.
    pub branches: u32,
    /// Printed body, by which equal modules are known.
    pub text: String,
    /// Outputs that depend on inputs in the same cycle: (output, input) by port index.
    pub through: Vec<(u32, u32)>,
    pub has_clock: bool,
    pub has_reset: bool,
}

impl ModuleData {
    pub(crate) fn new(name: &str, place: Place) -> Self {
        Self {
            name: name.to_owned(),
            doc: None,
            place,
            nodes: vec![],
            ports: vec![],
            memories: vec![],
            instances: vec![],
            properties: vec![],
            ignored: vec![],
            blocks: vec![vec![]],
            drivers: HashMap::new(),
            names: HashMap::new(),
            shared: HashMap::new(),
            finished: false,
            closed: false,
            branches: 0,
            text: String::new(),
            through: vec![],
            has_clock: false,
            has_reset: false,
        }
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    pub(crate) fn width(&self, id: NodeId) -> u32 {
        self.node(id).width
    }

    /// How messages call a node: its name, or what it is.
    pub(crate) fn describe(&self, id: NodeId) -> String {
        let node = self.node(id);
        match (&node.name, &node.kind) {
            (Some(name), _) => format!("`{name}`"),
            (None, Kind::Constant(value)) => format!("constant {value:?}"),
            (None, Kind::InstanceInput { instance, .. } | Kind::InstanceOutput { instance, .. }) => {
                format!("port of instance `{}`", self.instances[*instance as usize].name)
            }
            (None, kind) => {
                let text = match kind {
                    Kind::Unary(op, _) => format!("{op:?}"),
                    Kind::Binary(op, ..) => format!("{op:?}"),
                    Kind::Mux { .. } => "mux".to_owned(),
                    Kind::Slice { .. } => "slice".to_owned(),
                    Kind::Cat(_) => "cat".to_owned(),
                    Kind::Repeat { .. } => "repeat".to_owned(),
                    _ => "signal".to_owned(),
                };
                format!("{} of {}:{}", text.to_lowercase(), node.place.file(), node.place.line())
            }
        }
    }

    /// The constant a node is, if it is one.
    pub(crate) fn constant(&self, id: NodeId) -> Option<&Bits> {
        match &self.node(id).kind {
            Kind::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// A name that is free in this module: the wished one, or with a number behind it.
    pub(crate) fn free_name(&mut self, wish: &str) -> String {
        let count = self.names.entry(wish.to_owned()).or_insert(0);
        *count += 1;
        if *count == 1 {
            return wish.to_owned();
        }
        let numbered = format!("{wish}_{count}");
        self.free_name(&numbered)
    }
}
