//! What a clock does to memories.

use super::{Evaluator, Slot};
use crate::bits::Bits;
use crate::ir::{Memory, ReadDuringWrite};

#[derive(Debug)]
pub(super) struct MemoryState {
    pub(super) shape: Memory,
    pub(super) words: Vec<Bits>,
    pub(super) enable: Slot,
    pub(super) address: Slot,
    pub(super) data: Slot,
    pub(super) strobe: Option<Slot>,
    pub(super) read: Option<(Slot, Slot, Slot)>,
}

impl Evaluator {
    pub(super) fn clock_memories(&mut self) {
        let mut memories = std::mem::take(&mut self.memories);
        // Read data of one memory may be the address of another one: they change together, at the end.
        let mut reads: Vec<(Slot, Bits)> = vec![];
        for memory in &mut memories {
            let writes = self.values[memory.enable.at] == 1;
            let (to, data) = (self.values[memory.address.at] as usize, self.bits(memory.data));
            let strobe = memory.strobe.map(|slot| self.bits(slot));
            let at = |address: usize| match memory.words.get(address) {
                Some(word) => word.clone(),
                None => Bits::zero(memory.shape.width),
            };
            let merged = merge(&at(to), &data, strobe.as_ref(), memory.shape.granule);
            if let Some((enable, address, out)) = memory.read
                && self.values[enable.at] == 1
            {
                let from = self.values[address.at] as usize;
                let word = at(from);
                let word = match memory.shape.policy {
                    ReadDuringWrite::New if writes && from == to => merged.clone(),
                    ReadDuringWrite::DontCare if writes && from == to => {
                        let inverted: Vec<u64> = word.words().iter().map(|word| !word).collect();
                        Bits::from_words(word.width(), &inverted)
                    }
                    _ => word,
                };
                reads.push((out, word));
            }
            if let (true, Some(word)) = (writes, memory.words.get_mut(to)) {
                *word = merged;
            }
        }
        self.memories = memories;
        reads.iter().for_each(|(slot, word)| self.store(*slot, word));
    }
}

/// A word after a write with strobes.
fn merge(old: &Bits, data: &Bits, strobe: Option<&Bits>, granule: u32) -> Bits {
    let Some(strobe) = strobe else { return data.clone() };
    let parts: Vec<Bits> = (0..strobe.width())
        .rev()
        .map(|index| if strobe.bit(index) { data } else { old }.part(index * granule, granule))
        .collect();
    Bits::cat(&parts)
}
