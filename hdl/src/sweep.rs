//! The sweep that makes a table in RAM known after reset, one word a clock. The table's owner writes the words and accepts nothing meanwhile.

use spraynic_rtl::{Module, Signal};

/// A sweep over a table whose depth is a power of two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sweep<'a> {
    /// The sweep goes on: the word at `index` is to be written.
    pub(crate) active: Signal<'a>,
    /// Word to write.
    pub(crate) index: Signal<'a>,
}

/// Sweeps the 2^`index_bits` words of a table after each reset.
#[track_caller]
pub(crate) fn after_reset(m: Module<'_>, index_bits: u32) -> Sweep<'_> {
    let active = m
        .reg("clearing", 1)
        .reset(1)
        .doc("the table is being cleared after reset");
    let index = m.reg("clear_index", index_bits).reset(0);
    m.when(active, || {
        index.set(index + index.lit(1));
        m.when(index.all(), || active.set_lit(0));
    });
    Sweep { active, index }
}
