//! Each operation, on words of 64 bits.

use super::{Evaluator, Operation, Slot};
use crate::bits::{Bits, top_mask, words_for};
use crate::ir::{BinaryOp, UnaryOp};

impl Evaluator {
    pub(super) fn compute(&mut self, out: Slot, operation: &Operation) {
        let count = words_for(out.width);
        match operation {
            Operation::Unary(op, a) => self.unary(out, *op, *a),
            Operation::Binary(op, a, b) => self.binary(out, *op, *a, *b),
            Operation::Mux(condition, then, otherwise) => {
                let from = if self.values[condition.at] == 1 {
                    then
                } else {
                    otherwise
                };
                self.values.copy_within(from.words(), out.at);
            }
            Operation::Slice(of, low) => {
                let (first, shift) = (of.at + *low as usize / 64, low % 64);
                let end = of.at + words_for(of.width);
                for index in 0..count {
                    let at = first + index;
                    let mut word = self.values[at] >> shift;
                    if shift != 0 && at + 1 < end {
                        word |= self.values[at + 1] << (64 - shift);
                    }
                    self.values[out.at + index] = word;
                }
                self.values[out.at + count - 1] &= top_mask(out.width);
            }
            Operation::Cat(parts) => {
                self.values[out.words()].fill(0);
                let mut low = 0usize;
                for part in parts {
                    for index in 0..words_for(part.width) {
                        let word = self.values[part.at + index];
                        let (at, shift) = (out.at + (low + index * 64) / 64, (low + index * 64) % 64);
                        self.values[at] |= word << shift;
                        if shift != 0 && at + 1 < out.at + count {
                            self.values[at + 1] |= word >> (64 - shift);
                        }
                    }
                    low += part.width as usize;
                }
            }
            Operation::Copy(of) => self.values.copy_within(of.words(), out.at),
            Operation::ReadNow { memory, address } => {
                let memory = &self.memories[*memory];
                let word = memory.words.get(self.values[address.at] as usize);
                let word = word.cloned().unwrap_or_else(|| Bits::zero(memory.shape.width));
                self.values[out.words()].copy_from_slice(word.words());
            }
        }
    }

    fn unary(&mut self, out: Slot, op: UnaryOp, a: Slot) {
        match op {
            UnaryOp::Not => {
                for index in 0..words_for(a.width) {
                    self.values[out.at + index] = !self.values[a.at + index];
                }
                self.values[out.at + words_for(a.width) - 1] &= top_mask(a.width);
            }
            UnaryOp::ReduceAnd => self.values[out.at] = u64::from(self.bits(a).is_ones()),
            UnaryOp::ReduceOr => {
                self.values[out.at] = u64::from(self.values[a.words()].iter().any(|word| *word != 0));
            }
            UnaryOp::ReduceXor => {
                let ones: u32 = self.values[a.words()].iter().map(|word| word.count_ones()).sum();
                self.values[out.at] = u64::from(ones % 2);
            }
        }
    }

    fn binary(&mut self, out: Slot, op: BinaryOp, a: Slot, b: Slot) {
        let count = words_for(a.width);
        let flag = |value: bool| u64::from(value);
        match op {
            BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => {
                for index in 0..count {
                    let (left, right) = (self.values[a.at + index], self.values[b.at + index]);
                    self.values[out.at + index] = match op {
                        BinaryOp::And => left & right,
                        BinaryOp::Or => left | right,
                        _ => left ^ right,
                    };
                }
            }
            BinaryOp::Add | BinaryOp::Sub => {
                let subtract = op == BinaryOp::Sub;
                let mut carry = subtract;
                for index in 0..count {
                    let right = if subtract {
                        !self.values[b.at + index]
                    } else {
                        self.values[b.at + index]
                    };
                    let (sum, one) = self.values[a.at + index].overflowing_add(right);
                    let (sum, two) = sum.overflowing_add(u64::from(carry));
                    carry = one | two;
                    self.values[out.at + index] = sum;
                }
                self.values[out.at + count - 1] &= top_mask(out.width);
            }
            BinaryOp::Mul => self.multiply(out, a, b),
            BinaryOp::Shl | BinaryOp::Shr => {
                let by = self.bits(b).to_u64().unwrap_or(u64::MAX).min(u64::from(a.width)) as u32;
                let value = self.bits(a);
                let shifted = match (by, op) {
                    (0, _) => value,
                    (by, _) if by >= a.width => Bits::zero(a.width),
                    (by, BinaryOp::Shl) => Bits::cat(&[value.part(0, a.width - by), Bits::zero(by)]),
                    (by, _) => Bits::cat(&[Bits::zero(by), value.part(by, a.width - by)]),
                };
                self.store(out, &shifted);
            }
            BinaryOp::Eq | BinaryOp::Ne => {
                let equal = self.values[a.words()] == self.values[b.words()];
                self.values[out.at] = flag(equal == (op == BinaryOp::Eq));
            }
            BinaryOp::Lt | BinaryOp::Le | BinaryOp::LtSigned | BinaryOp::LeSigned => {
                let signed = matches!(op, BinaryOp::LtSigned | BinaryOp::LeSigned);
                // Two's complement order is unsigned order with the sign bits inverted.
                let flip = if signed { 1u64 << ((a.width - 1) % 64) } else { 0 };
                let word =
                    |slot: Slot, index: usize| self.values[slot.at + index] ^ if index == count - 1 { flip } else { 0 };
                let order = (0..count)
                    .rev()
                    .map(|index| word(a, index).cmp(&word(b, index)))
                    .find(|order| order.is_ne());
                let order = order.unwrap_or(std::cmp::Ordering::Equal);
                let or_equal = matches!(op, BinaryOp::Le | BinaryOp::LeSigned);
                self.values[out.at] = flag(order.is_lt() || or_equal && order.is_eq());
            }
        }
    }

    fn multiply(&mut self, out: Slot, a: Slot, b: Slot) {
        let (left, right) = (self.bits(a), self.bits(b));
        let mut product = vec![0u64; left.words().len() + right.words().len()];
        for (low, x) in left.words().iter().enumerate() {
            let mut carry = 0u128;
            for (index, y) in right.words().iter().enumerate() {
                let sum = u128::from(*x) * u128::from(*y) + u128::from(product[low + index]) + carry;
                product[low + index] = sum as u64;
                carry = sum >> 64;
            }
            product[low + right.words().len()] = carry as u64;
        }
        self.store(out, &Bits::from_words(out.width, &product));
    }
}
