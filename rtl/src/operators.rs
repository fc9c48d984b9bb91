//! Operators on signals: arithmetic, logic, comparison, reduction, shifts, choice. What constants decide is decided at once.

use crate::bits::{Bits, IntoBits};
use crate::context::fail;
use crate::ir::{BinaryOp, Kind, Place, UnaryOp};
use crate::shape::{cat_at, total};
use crate::signal::Signal;
use std::ops;
use std::panic::Location;

impl<'a> Signal<'a> {
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
            // No closure: it would hide the caller's line.
            let mut next = vec![];
            for pair in level.chunks(2) {
                next.push(bit.mux(pair[1], pair[0]));
            }
            level = next;
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
