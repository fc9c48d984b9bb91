//! `Record`: registers with names and widths that follow from the configuration, which pack to one word of a RAM.
//!
//! Where all widths are fixed, `bundle!` does the same as a type.

use spraynic_rtl::{Module, Signal, cat_lsb_first};

/// Registers with names; the first one at bit 0 of the word.
#[derive(Debug, Clone)]
pub(crate) struct Record<'a> {
    fields: Vec<(&'static str, Signal<'a>)>,
}

impl<'a> Record<'a> {
    /// A register for each field, named `PREFIX_FIELD`.
    #[track_caller]
    pub(crate) fn regs(m: Module<'a>, prefix: &str, fields: &[(&'static str, u32)]) -> Self {
        let mut regs = vec![];
        for (name, width) in fields {
            regs.push((*name, m.reg(&format!("{prefix}_{name}"), *width)));
        }
        Self { fields: regs }
    }

    /// One field.
    ///
    /// # Panics
    /// When there is no such field.
    #[track_caller]
    pub(crate) fn get(&self, name: &str) -> Signal<'a> {
        match self.fields.iter().find(|(field, _)| *field == name) {
            Some((_, signal)) => *signal,
            None => panic!("no field `{name}`"),
        }
    }

    /// Bits of the word.
    pub(crate) fn width(&self) -> u32 {
        self.fields.iter().map(|(_, signal)| signal.width()).sum()
    }

    /// The word with other values in some fields.
    pub(crate) fn pack_with(&self, changes: &[(&str, Signal<'a>)]) -> Signal<'a> {
        let signals = self.fields.iter().map(|(name, signal)| {
            let change = changes.iter().find(|(changed, _)| changed == name);
            change.map_or(*signal, |(_, value)| *value)
        });
        cat_lsb_first(&signals.collect::<Vec<_>>())
    }

    /// One field of a packed word.
    #[track_caller]
    pub(crate) fn field_of(&self, word: Signal<'a>, wanted: &str) -> Signal<'a> {
        let mut low = 0;
        for (name, signal) in &self.fields {
            if *name == wanted {
                return word.part(low, signal.width());
            }
            low += signal.width();
        }
        panic!("no field `{wanted}`")
    }

    /// Loads the registers.
    pub(crate) fn load(&self, word: Signal<'a>) {
        let mut low = 0;
        for (_, signal) in &self.fields {
            signal.set(word.part(low, signal.width()));
            low += signal.width();
        }
    }
}
