//! What IPv4 headers have and IPv6 headers have not: identification and checksum.
//!
//! The checksum is a one's complement sum \[RFC 1071\]: the table of templates holds the sum of what a template decides; length and
//! identification are added when the header is built, the last carry one clock later, on the way out.

use super::fields::{bytes_of, checksum_byte};
use super::geometry::{Geometry, Layout};
use super::sequencer::Inputs;
use spraynic_rtl::{Module, Signal, cat, cat_lsb_first};

/// Sum with a carry in, one bit wider: one adder.
fn add_with_carry<'a>(left: Signal<'a>, right: Signal<'a>, carry: Signal<'a>) -> Signal<'a> {
    let one = left.module().high();
    let sum = cat(&[left, one]).add_wide(cat(&[right, carry]));
    sum.slice(sum.width() - 1, 1)
}

/// A word from a sum whose carry, in bit 16, is still to be added.
fn fold(sum: Signal<'_>) -> Signal<'_> {
    sum.part(0, 16) + sum.bit(16).zero_extend(16)
}

/// One's complement sum of a word and a sum with its carry in bit 16.
pub(super) fn add_word<'a>(sum: Signal<'a>, word: Signal<'a>) -> Signal<'a> {
    add_with_carry(sum.part(0, 16), word, sum.bit(16))
}

/// Identification and checksum of the frame that is being sent.
#[derive(Clone, Copy)]
pub(super) struct Ipv4<'a> {
    m: Module<'a>,
    /// Identification of the header being built, less `plus_one`.
    base: Signal<'a>,
    /// The frame before is not counted in `base` yet.
    plus_one: Signal<'a>,
}

impl<'a> Ipv4<'a> {
    /// `load`: a header is built in this clock; `is_ipv4_frame`: what was built last is a frame with IPv4.
    ///
    /// A frame is counted one clock after its header was built, when registers say whether it is one.
    pub(super) fn new(m: Module<'a>, inputs: Inputs<'a>, load: Signal<'a>, is_ipv4_frame: Signal<'a>) -> Self {
        let new = m
            .reg("frame_new", 1)
            .reset(0)
            .doc("its header was built in the last clock");
        new.set(load);
        let counted = (new & is_ipv4_frame).named("identification_taken");
        let next = m
            .reg("next_identification", 16)
            .reset(0)
            .doc("identification of the next IPv4 frame");
        m.when(inputs.identification_load, || next.set(inputs.identification))
            .else_when(counted, || next.set(next + next.lit(1)));
        Self {
            m,
            base: inputs.identification_load.mux(inputs.identification, next),
            plus_one: counted & !inputs.identification_load,
        }
    }

    /// Of the header being built.
    pub(super) fn identification(&self) -> Signal<'a> {
        self.base + self.plus_one.zero_extend(16)
    }

    /// Checksum of the frame that is being sent, from its total length in words and its template's sum when `load` was 1.
    pub(super) fn checksum(&self, load: Signal<'a>, total_words: Signal<'a>, template: Signal<'a>) -> Signal<'a> {
        let varying = self
            .m
            .reg("checksum_varying", 17)
            .doc("sum of length and identification");
        let constant = self
            .m
            .reg("checksum_template", 16)
            .doc("sum of what the template decides");
        self.m.when(load, || {
            varying.set(add_with_carry(bytes_of(total_words), self.base, self.plus_one));
            constant.set(template);
        });
        (!fold(add_word(varying, constant))).named("ipv4_checksum")
    }
}

/// Puts the checksum into a header whose checksum is 0, in each layout that has one and is `chosen`.
pub(super) fn with_checksum<'a>(
    geometry: &Geometry,
    header: Signal<'a>,
    checksum: Signal<'a>,
    chosen: impl Fn(Layout) -> Signal<'a>,
) -> Signal<'a> {
    let bytes = cat(&[checksum.part(0, 8), checksum.part(8, 8)]);
    let mut patched = header;
    for layout in geometry.layouts.iter().filter(|layout| !layout.ipv6) {
        let low = checksum_byte(*layout) * 8;
        let place = patched.part(low, 16);
        let mut parts = vec![patched.part(0, low), place | bytes.gate(chosen(*layout))];
        if low + 16 < header.width() {
            parts.push(patched.part(low + 16, header.width() - low - 16));
        }
        patched = cat_lsb_first(&parts);
    }
    patched
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use spraynic_rtl::{Context, Evaluator};

    proptest! {
        /// As the block sums: a length and an identification first, then what a template decides, at least 0x8511.
        #[test]
        fn sums_are_those_of_rfc_1071(
            length in 40u32..8192,
            identification in prop_oneof![any::<u16>(), 0xE000u16..=0xFFFF],
            constant in 1..=0xFFFFu32,
        ) {
            let context = Context::new();
            let m = context.module("probe");
            let [length_in, identification_in, constant_in] =
                ["length", "identification", "constant"].map(|name| m.input(name, 16));
            let varying = add_with_carry(length_in, identification_in, m.low());
            m.output_of("sum", fold(add_word(varying, constant_in)));
            let mut run = Evaluator::new(m.finish());
            run.set("length", length);
            run.set("identification", identification);
            run.set("constant", constant);
            let sum = length + u32::from(identification) + constant;
            let folded = (sum & 0xFFFF) + (sum >> 16);
            let folded = (folded & 0xFFFF) + (folded >> 16);
            prop_assert_eq!(run.get_u64("sum"), u64::from(folded));
        }
    }
}
