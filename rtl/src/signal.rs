//! `Signal`: a handle of a value in a module, with its operators.
//!
//! Every operator checks widths at once and stops with both widths, both names and the caller's place. Nothing is
//! extended or cut silently: `zero_extend`, `sign_extend`, `slice` say so. Names are in `module.rs`.

use crate::bits::{Bits, IntoBits};
use crate::context::fail;
use crate::ir::{BinaryOp, Kind, ModuleData, NodeId, Place, UnaryOp};
use crate::module::Module;
use std::ops;
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

    fn describe(self) -> String {
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

    fn same_module(self, other: Self, place: Place) {
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
    fn same_width(self, other: Self, what: &str, place: Place) {
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

    fn make(self, kind: Kind, width: u32, place: Place) -> Self {
        self.module.shared(kind, width, place)
    }

    #[track_caller]
    fn binary(self, op: BinaryOp, other: Self, what: &str) -> Self {
        let place = Location::caller();
        self.same_width(other, what, place);
        let width = match op {
            BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Add | BinaryOp::Sub => self.width(),
            _ => 1,
        };
        if let Some(simple) = self.simplify(op, other) {
            return simple;
        }
        self.make(Kind::Binary(op, self.id, other.id), width, place)
    }

    /// What needs no operator: a constant operand that decides or does nothing, or both operands the same.
    #[track_caller]
    fn simplify(self, op: BinaryOp, other: Self) -> Option<Self> {
        use BinaryOp::{Add, And, Eq, Le, LeSigned, Lt, LtSigned, Ne, Or, Sub, Xor};
        let bit = |value: bool| self.module.lit(value, 1);
        if self.id == other.id {
            return match op {
                And | Or => Some(self),
                Xor | Sub => Some(self.lit(0)),
                Eq | Le | LeSigned => Some(bit(true)),
                Ne | Lt | LtSigned => Some(bit(false)),
                _ => None,
            };
        }
        let (left, right) = (self.constant(), other.constant());
        if let (Some(left), Some(right)) = (&left, &right) {
            return match op {
                Eq => Some(bit(left == right)),
                Ne => Some(bit(left != right)),
                And | Or | Xor => {
                    let words = left.words().iter().zip(right.words()).map(|(left, right)| match op {
                        And => left & right,
                        Or => left | right,
                        _ => left ^ right,
                    });
                    let value = Bits::from_words(left.width(), &words.collect::<Vec<_>>());
                    Some(self.module.lit(value, left.width()))
                }
                _ => match (left.to_u128(), right.to_u128()) {
                    (Some(a), Some(b)) => match op {
                        Lt => Some(bit(a < b)),
                        Le => Some(bit(a <= b)),
                        Add if left.width() <= 64 => {
                            let sum = Bits::from_words(left.width(), &[(a as u64).wrapping_add(b as u64)]);
                            Some(self.module.lit(sum, left.width()))
                        }
                        Sub if left.width() <= 64 => {
                            let rest = Bits::from_words(left.width(), &[(a as u64).wrapping_sub(b as u64)]);
                            Some(self.module.lit(rest, left.width()))
                        }
                        _ => None,
                    },
                    _ => None,
                },
            };
        }
        let (value, signal, constant_left) = match (left, right) {
            (Some(value), None) => (value, other, true),
            (None, Some(value)) => (value, self, false),
            _ => return None,
        };
        let (zero, ones, one_bit) = (value.is_zero(), value.is_ones(), value.width() == 1);
        match op {
            And if zero => Some(self.lit(0)),
            And if ones => Some(signal),
            Or | Xor | Add if zero => Some(signal),
            Or if ones => Some(self.module.lit(value, signal.width())),
            Xor if ones => Some(!signal),
            Sub if zero && !constant_left => Some(signal),
            Eq if one_bit => Some(if ones { signal } else { !signal }),
            Ne if one_bit => Some(if ones { !signal } else { signal }),
            // Unsigned comparisons that the ends of the range decide (linters call them constant).
            Lt if zero && !constant_left => Some(bit(false)),
            Lt if zero && constant_left => Some(signal.any()),
            Lt if ones && constant_left => Some(bit(false)),
            Lt if ones && !constant_left => Some(!signal.all()),
            Le if zero && constant_left => Some(bit(true)),
            Le if zero && !constant_left => Some(!signal.any()),
            Le if ones && !constant_left => Some(bit(true)),
            Le if ones && constant_left => Some(signal.all()),
            _ => None,
        }
    }

    /// Whether both are equal; one bit.
    #[track_caller]
    #[must_use]
    pub fn eq(self, other: Self) -> Self {
        self.binary(BinaryOp::Eq, other, "eq")
    }

    /// Whether both differ; one bit.
    #[track_caller]
    #[must_use]
    pub fn ne(self, other: Self) -> Self {
        self.binary(BinaryOp::Ne, other, "ne")
    }

    /// Unsigned less than; one bit.
    #[track_caller]
    #[must_use]
    pub fn lt(self, other: Self) -> Self {
        self.binary(BinaryOp::Lt, other, "lt")
    }

    /// Unsigned less than or equal; one bit.
    #[track_caller]
    #[must_use]
    pub fn le(self, other: Self) -> Self {
        self.binary(BinaryOp::Le, other, "le")
    }

    /// Unsigned greater than; one bit.
    #[track_caller]
    #[must_use]
    pub fn gt(self, other: Self) -> Self {
        other.binary(BinaryOp::Lt, self, "gt")
    }

    /// Unsigned greater than or equal; one bit.
    #[track_caller]
    #[must_use]
    pub fn ge(self, other: Self) -> Self {
        other.binary(BinaryOp::Le, self, "ge")
    }

    /// Two's complement less than; one bit.
    #[track_caller]
    #[must_use]
    pub fn lt_signed(self, other: Self) -> Self {
        self.binary(BinaryOp::LtSigned, other, "lt_signed")
    }

    /// Two's complement less than or equal; one bit.
    #[track_caller]
    #[must_use]
    pub fn le_signed(self, other: Self) -> Self {
        self.binary(BinaryOp::LeSigned, other, "le_signed")
    }

    /// Whether it equals a constant; one bit.
    #[track_caller]
    #[must_use]
    pub fn eq_lit(self, value: impl IntoBits) -> Self {
        self.eq(self.lit(value))
    }

    /// Whether it differs from a constant; one bit.
    #[track_caller]
    #[must_use]
    pub fn ne_lit(self, value: impl IntoBits) -> Self {
        self.ne(self.lit(value))
    }

    /// Sum with the carry: one bit wider than the wider operand.
    #[track_caller]
    #[must_use]
    pub fn add_wide(self, other: Self) -> Self {
        let width = self.width().max(other.width()) + 1;
        self.zero_extend(width) + other.zero_extend(width)
    }

    /// Unsigned product: as wide as both operands together.
    #[track_caller]
    #[must_use]
    pub fn mul_wide(self, other: Self) -> Self {
        let place = Location::caller();
        self.same_module(other, place);
        self.make(
            Kind::Binary(BinaryOp::Mul, self.id, other.id),
            total([self.width(), other.width()], place),
            place,
        )
    }

    fn reduce(self, op: UnaryOp, place: Place) -> Self {
        if self.width() == 1 {
            return self;
        }
        if let Some(value) = self.constant() {
            let result = match op {
                UnaryOp::ReduceAnd => value.is_ones(),
                UnaryOp::ReduceOr => !value.is_zero(),
                _ => value.words().iter().map(|word| word.count_ones()).sum::<u32>() % 2 == 1,
            };
            return self.module.lit(result, 1);
        }
        self.make(Kind::Unary(op, self.id), 1, place)
    }

    /// Whether all bits are one.
    #[track_caller]
    #[must_use]
    pub fn all(self) -> Self {
        self.reduce(UnaryOp::ReduceAnd, Location::caller())
    }

    /// Whether any bit is one.
    #[track_caller]
    #[must_use]
    pub fn any(self) -> Self {
        self.reduce(UnaryOp::ReduceOr, Location::caller())
    }

    /// Exclusive or of all bits.
    #[track_caller]
    #[must_use]
    pub fn parity(self) -> Self {
        self.reduce(UnaryOp::ReduceXor, Location::caller())
    }

    /// Bits `high` down to `low`, both included.
    #[track_caller]
    #[must_use]
    pub fn slice(self, high: u32, low: u32) -> Self {
        let place = Location::caller();
        let width = self.width();
        if high < low || high >= width {
            fail(
                place,
                &format!("slice [{high}:{low}] of {}, which has {width} bits", self.describe()),
            );
        }
        self.part_at(low, high - low + 1, place)
    }

    /// `width` bits from bit `low` upwards.
    #[track_caller]
    #[must_use]
    pub fn part(self, low: u32, width: u32) -> Self {
        let place = Location::caller();
        let whole = self.width();
        if width == 0 || u64::from(low) + u64::from(width) > u64::from(whole) {
            fail(
                place,
                &format!(
                    "{width} bits from bit {low} of {}, which has {whole} bits",
                    self.describe()
                ),
            );
        }
        self.part_at(low, width, place)
    }

    fn part_at(self, low: u32, width: u32, place: Place) -> Self {
        if low == 0 && width == self.width() {
            return self;
        }
        let kind = self.module.data().node(self.id).kind.clone();
        match kind {
            Kind::Slice { of, low: inner } => Self {
                module: self.module,
                id: of,
            }
            .part_at(inner + low, width, place),
            Kind::Constant(value) => self.module.lit(value.part(low, width), width),
            Kind::Repeat { of, .. } if self.module.data().width(of) == 1 => Self {
                module: self.module,
                id: of,
            }
            .repeat(width),
            Kind::Cat(parts) if self.module.data().node(self.id).name.is_none() => {
                let mut pieces = vec![];
                let mut base = 0;
                for id in parts.iter().rev() {
                    let piece = Self {
                        module: self.module,
                        id: *id,
                    };
                    let (from, to) = (low.max(base), (low + width).min(base + piece.width()));
                    if from < to {
                        pieces.push(piece.part_at(from - base, to - from, place));
                    }
                    base += piece.width();
                }
                pieces.reverse();
                cat_at(&pieces, place)
            }
            _ => self.make(Kind::Slice { of: self.id, low }, width, place),
        }
    }

    /// One bit.
    #[track_caller]
    #[must_use]
    pub fn bit(self, index: u32) -> Self {
        self.slice(index, index)
    }

    /// The most significant bit.
    #[track_caller]
    #[must_use]
    pub fn msb(self) -> Self {
        self.bit(self.width() - 1)
    }

    /// The bit that `index` points to; 0 beyond the width.
    #[track_caller]
    #[must_use]
    pub fn bit_at(self, index: Self) -> Self {
        (self >> index).bit(0)
    }

    /// Every bit, the least significant first.
    #[must_use]
    pub fn to_bits(self) -> Vec<Self> {
        (0..self.width()).map(|index| self.bit(index)).collect()
    }

    /// With zeros above, to `width` bits.
    #[track_caller]
    #[must_use]
    pub fn zero_extend(self, width: u32) -> Self {
        let place = Location::caller();
        let mine = self.width();
        if width < mine {
            fail(
                place,
                &format!("zero_extend to {width} bits of {}, which has {mine}", self.describe()),
            );
        }
        if width == mine {
            return self;
        }
        cat_at(&[self.module.lit(0, width - mine), self], place)
    }

    /// With copies of the most significant bit above, to `width` bits.
    #[track_caller]
    #[must_use]
    pub fn sign_extend(self, width: u32) -> Self {
        let place = Location::caller();
        let mine = self.width();
        if width < mine {
            fail(
                place,
                &format!("sign_extend to {width} bits of {}, which has {mine}", self.describe()),
            );
        }
        if width == mine {
            return self;
        }
        cat_at(&[self.msb().repeat(width - mine), self], place)
    }

    /// Extended by zeros or cut to `width` bits, whichever it takes.
    #[track_caller]
    #[must_use]
    pub fn resize(self, width: u32) -> Self {
        if width <= self.width() {
            self.part(0, width)
        } else {
            self.zero_extend(width)
        }
    }

    /// `count` copies side by side.
    #[track_caller]
    #[must_use]
    pub fn repeat(self, count: u32) -> Self {
        let place = Location::caller();
        if count == 0 {
            fail(place, "repeat 0 times has no bits");
        }
        if count == 1 {
            return self;
        }
        if let Some(value) = self.constant() {
            let whole = Bits::cat(&vec![value; count as usize]);
            let width = whole.width();
            return self.module.lit(whole, width);
        }
        let width = possible(u64::from(self.width()) * u64::from(count), place);
        self.make(Kind::Repeat { of: self.id, count }, width, place)
    }

    /// `then` where this bit is 1, otherwise `otherwise`.
    ///
    /// # Panics
    /// When this has more than one bit or the widths of the choices differ.
    #[track_caller]
    #[must_use]
    pub fn mux(self, then: Self, otherwise: Self) -> Self {
        let place = Location::caller();
        self.same_module(then, place);
        then.same_width(otherwise, "mux", place);
        if self.width() != 1 {
            fail(
                place,
                &format!("a condition has 1 bit, {} has {}", self.describe(), self.width()),
            );
        }
        if then.id == otherwise.id {
            return then;
        }
        if let Some(value) = self.constant() {
            return if value.is_zero() { otherwise } else { then };
        }
        if then.width() == 1 {
            match (then.constant(), otherwise.constant()) {
                (Some(one), Some(_)) => return if one.is_zero() { !self } else { self },
                (Some(one), None) => {
                    return if one.is_zero() {
                        !self & otherwise
                    } else {
                        self | otherwise
                    };
                }
                (None, Some(other)) => return if other.is_zero() { self & then } else { !self | then },
                (None, None) => {}
            }
        }
        let width = then.width();
        self.make(
            Kind::Mux {
                condition: self.id,
                then: then.id,
                otherwise: otherwise.id,
            },
            width,
            place,
        )
    }

    /// This value where `condition` is 1, otherwise all zeros.
    #[track_caller]
    #[must_use]
    pub fn gate(self, condition: Self) -> Self {
        condition.mux(self, self.lit(0))
    }

    /// The value of the `index`-th choice: a balanced tree of multiplexers. Beyond the list it is the last one.
    #[track_caller]
    #[must_use]
    pub fn select(self, choices: &[Self]) -> Self {
        let place = Location::caller();
        let Some(last) = choices.last() else {
            fail(place, "select needs at least one choice")
        };
        // Filled up with the last one, which costs a multiplexer at most for each level.
        let mut level: Vec<Self> = choices.to_vec();
        level.resize(choices.len().next_power_of_two(), *last);
        for index in 0..self.width() {
            if level.len() == 1 {
                // Further index bits point beyond the list.
                let beyond = self.slice(self.width() - 1, index).any();
                return beyond.mux(*last, level[0]);
            }
            let bit = self.bit(index);
            level = level.chunks(2).map(|pair| bit.mux(pair[1], pair[0])).collect();
        }
        if level.len() > 1 {
            fail(
                place,
                &format!(
                    "an index of {} bits cannot reach {} choices",
                    self.width(),
                    choices.len()
                ),
            );
        }
        level[0]
    }

    /// A register that follows this value one clock later.
    #[track_caller]
    #[must_use]
    pub fn delayed(self, name: &str) -> Self {
        let register = self.module.reg(name, self.width());
        register.set(self);
        register
    }
}

/// The values side by side, the first one most significant.
#[track_caller]
#[must_use]
pub fn cat<'a>(parts: &[Signal<'a>]) -> Signal<'a> {
    cat_at(parts, Location::caller())
}

/// The values side by side, the first one least significant.
#[track_caller]
#[must_use]
pub fn cat_lsb_first<'a>(parts: &[Signal<'a>]) -> Signal<'a> {
    let place = Location::caller();
    cat_at(&parts.iter().rev().copied().collect::<Vec<_>>(), place)
}

fn cat_at<'a>(parts: &[Signal<'a>], place: Place) -> Signal<'a> {
    let Some(first) = parts.first() else {
        fail(place, "cat needs at least one part")
    };
    let module = first.module;
    // Flat, with neighbouring constants and neighbouring slices of one signal joined.
    let mut pieces: Vec<Piece> = vec![];
    for part in parts {
        first.same_module(*part, place);
        let data = module.data();
        let node = data.node(part.id);
        match &node.kind {
            Kind::Cat(inner) if node.name.is_none() => inner.iter().for_each(|id| append(&data, &mut pieces, *id)),
            _ => append(&data, &mut pieces, part.id),
        }
    }
    let flat: Vec<NodeId> = pieces
        .into_iter()
        .map(|piece| match piece {
            Piece::Whole(id) => id,
            Piece::Constant(values) => {
                let value = Bits::cat(&values);
                let width = value.width();
                module.shared(Kind::Constant(value), width, place).id
            }
            Piece::Slice { of, low, width } => Signal { module, id: of }.part_at(low, width, place).id,
        })
        .collect();
    if let [single] = flat[..] {
        return Signal { module, id: single };
    }
    let width = total(flat.iter().map(|id| module.data().width(*id)), place);
    module.shared(Kind::Cat(flat), width, place)
}

/// Widest value that can be built: 16 Mbit, far beyond what tools take.
const WIDEST: u64 = 1 << 24;

/// The sum of widths; stops where no tool could follow.
fn total(widths: impl IntoIterator<Item = u32>, place: Place) -> u32 {
    possible(widths.into_iter().map(u64::from).sum(), place)
}

fn possible(width: u64, place: Place) -> u32 {
    if width > WIDEST {
        fail(
            place,
            &format!("{width} bits side by side; the widest value has {WIDEST}"),
        );
    }
    width as u32
}

/// A part of a concatenation.
enum Piece {
    Whole(NodeId),
    /// The first one most significant.
    Constant(Vec<Bits>),
    Slice {
        of: NodeId,
        low: u32,
        width: u32,
    },
}

/// Appends a part below the others, joined with its neighbour where both are one piece.
fn append(data: &ModuleData, pieces: &mut Vec<Piece>, id: NodeId) {
    let node = data.node(id);
    match (&node.kind, pieces.last_mut()) {
        (Kind::Constant(value), Some(Piece::Constant(values))) => values.push(value.clone()),
        (Kind::Constant(value), _) => pieces.push(Piece::Constant(vec![value.clone()])),
        (
            Kind::Slice { of, low },
            Some(Piece::Slice {
                of: same,
                low: above,
                width,
            }),
        ) if node.name.is_none() && of == same && *above == low + node.width => {
            *above = *low;
            *width += node.width;
        }
        (Kind::Slice { of, low }, _) if node.name.is_none() => pieces.push(Piece::Slice {
            of: *of,
            low: *low,
            width: node.width,
        }),
        _ => pieces.push(Piece::Whole(id)),
    }
}

macro_rules! operator {
    ($trait:ident $method:ident $op:ident) => {
        impl<'a> ops::$trait for Signal<'a> {
            type Output = Signal<'a>;
            #[track_caller]
            fn $method(self, other: Signal<'a>) -> Signal<'a> {
                self.binary(BinaryOp::$op, other, stringify!($method))
            }
        }
    };
}
operator!(BitAnd bitand And);
operator!(BitOr bitor Or);
operator!(BitXor bitxor Xor);
operator!(Add add Add);
operator!(Sub sub Sub);

impl<'a> ops::Not for Signal<'a> {
    type Output = Signal<'a>;
    #[track_caller]
    fn not(self) -> Signal<'a> {
        let kind = {
            let data = self.module.data();
            data.node(self.id).kind.clone()
        };
        match kind {
            Kind::Unary(UnaryOp::Not, of) => Signal {
                module: self.module,
                id: of,
            },
            Kind::Constant(value) => {
                let words: Vec<u64> = value.words().iter().map(|word| !word).collect();
                self.module.lit(Bits::from_words(value.width(), &words), value.width())
            }
            _ => self.make(Kind::Unary(UnaryOp::Not, self.id), self.width(), Location::caller()),
        }
    }
}

impl<'a> ops::Shl<u32> for Signal<'a> {
    type Output = Signal<'a>;
    /// Shift by a constant: the width stays, zeros come in.
    #[track_caller]
    fn shl(self, by: u32) -> Signal<'a> {
        let place = Location::caller();
        let width = self.width();
        match by {
            0 => self,
            by if by >= width => self.lit(0),
            by => cat_at(&[self.part_at(0, width - by, place), self.module.lit(0, by)], place),
        }
    }
}

impl<'a> ops::Shr<u32> for Signal<'a> {
    type Output = Signal<'a>;
    /// Shift by a constant: the width stays, zeros come in.
    #[track_caller]
    fn shr(self, by: u32) -> Signal<'a> {
        let place = Location::caller();
        let width = self.width();
        match by {
            0 => self,
            by if by >= width => self.lit(0),
            by => cat_at(&[self.module.lit(0, by), self.part_at(by, width - by, place)], place),
        }
    }
}

macro_rules! dynamic_shift {
    ($trait:ident $method:ident $op:ident) => {
        impl<'a> ops::$trait<Signal<'a>> for Signal<'a> {
            type Output = Signal<'a>;
            /// Shift by a signal of any width: the width stays, zeros come in.
            #[track_caller]
            fn $method(self, by: Signal<'a>) -> Signal<'a> {
                let place = Location::caller();
                self.same_module(by, place);
                self.make(Kind::Binary(BinaryOp::$op, self.id, by.id), self.width(), place)
            }
        }
    };
}
dynamic_shift!(Shl shl Shl);
dynamic_shift!(Shr shr Shr);
