//! The read channels: one read at a time, through a tree of multiplexers with a register behind each level.

use std::collections::{BTreeMap, BTreeSet};

use spraynic_config::registers::ADDRESS_BITS;
use spraynic_rtl::{Module, Signal};

use super::{INDEX_BITS, WORD_BITS, response};

/// Bits of the index that a level takes: each chooses one of 16.
const LEVEL_BITS: u32 = 4;

/// A read, as the other parts see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Read<'a> {
    /// All registers are looked at in this clock.
    pub(super) samples: Signal<'a>,
    /// Place of the register.
    pub(super) index: Signal<'a>,
    /// A read is answered by SLVERR from the next clock on.
    pub(super) refused: Signal<'a>,
}

/// A word, and whether there is one.
type Word<'a> = (Signal<'a>, Signal<'a>);

/// Chooses among each 16 words that stand together, by the lowest bits of `index`.
fn level<'a>(m: Module<'a>, words: &BTreeMap<u32, Word<'a>>, index: Signal<'a>) -> BTreeMap<u32, Word<'a>> {
    let nothing = (m.lit(0, WORD_BITS), m.low());
    let groups: BTreeSet<u32> = words.keys().map(|place| place >> LEVEL_BITS).collect();
    groups
        .into_iter()
        .map(|group| {
            let places = (group << LEVEL_BITS)..(group + 1) << LEVEL_BITS;
            let choices: Vec<Word<'a>> = places.map(|place| *words.get(&place).unwrap_or(&nothing)).collect();
            let (values, present): (Vec<_>, Vec<_>) = choices.into_iter().unzip();
            (group, (index.select(&values), index.select(&present)))
        })
        .collect()
}

/// The ports of AR and R: `words` by the place of their register.
pub(super) fn port<'a>(m: Module<'a>, words: &BTreeMap<u32, Signal<'a>>) -> Read<'a> {
    m.input("s_axil_arprot", 3).ignore();
    let address = m
        .input("s_axil_araddr", ADDRESS_BITS)
        .doc("byte address; bits 1:0 are not looked at");
    let address_valid = m.input("s_axil_arvalid", 1);
    let ready = m.input("s_axil_rready", 1);
    let reading = m.reg("reading", 1).reset(0).doc("a read is under way");
    let index = m.reg("read_index", INDEX_BITS);
    let low = ADDRESS_BITS - INDEX_BITS;
    address.part(0, low).ignore();
    let starts = (address_valid & !reading).named("starts_read");
    m.output_of("s_axil_arready", !reading);
    m.when(starts, || index.set(address.part(low, INDEX_BITS)));

    // The index stays while a read is under way, so what a level chooses is right one clock after the level before it.
    let samples = m
        .reg("samples_registers", 1)
        .reset(0)
        .doc("the first level looks at all registers");
    samples.set(starts);
    let mut chosen: BTreeMap<u32, Word<'a>> = words.iter().map(|(place, word)| (*place, (*word, m.high()))).collect();
    let (mut bits, mut valid) = (0, samples);
    for number in 1.. {
        let level_bits = LEVEL_BITS.min(INDEX_BITS - bits);
        chosen = level(m, &chosen, index.part(bits, level_bits));
        bits += level_bits;
        if chosen.keys().all(|group| *group == 0) {
            break;
        }
        for (group, (word, present)) in &mut chosen {
            *word = word.delayed(&format!("level_{number}_word_{group}"));
            // Where every place of a group has a register, it is a constant.
            if present.constant().is_none() {
                *present = present.delayed(&format!("level_{number}_present_{group}"));
            }
        }
        let next = m.reg(&format!("level_{number}_valid"), 1).reset(0);
        next.set(valid);
        valid = next;
    }
    let (word, present) = chosen.get(&0).copied().unwrap_or((m.lit(0, WORD_BITS), m.low()));
    let beyond = if bits < INDEX_BITS {
        index.part(bits, INDEX_BITS - bits).any()
    } else {
        m.low()
    };
    let present = (present & !beyond).named("register_is_there");

    let answered = m.reg("r_valid", 1).reset(0);
    let (data, code) = (m.reg("r_data", WORD_BITS), m.reg("r_response", 2));
    m.when(valid, || {
        answered.set_lit(1);
        data.set(word.gate(present));
        code.set(response(m, present));
    })
    .else_when(ready, || answered.set_lit(0));
    m.when(starts, || reading.set_lit(1))
        .else_when(answered & ready, || reading.set_lit(0));
    m.output_of("s_axil_rvalid", answered);
    let _ = m.output_of("s_axil_rdata", data).doc("0 with SLVERR");
    let _ = m
        .output_of("s_axil_rresp", code)
        .doc("0 OKAY; 2 SLVERR: there is no register");
    Read {
        samples,
        index,
        refused: (valid & !present).named("refuses_read"),
    }
}
