//! `Fields`: the signals of a packed descriptor by name, from the one table in `spraynic_config::descriptor`.
//!
//! A wrong name or width stops the generator with the descriptor's name; it never reaches the Verilog.

use spraynic_config::descriptor::Descriptor;
use spraynic_rtl::{Signal, cat_lsb_first};

/// The fields of one descriptor as signals, the first one at bit 0.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    descriptor: &'static str,
    signals: Vec<(&'static str, Signal<'a>)>,
}

impl<'a> Fields<'a> {
    /// The fields of a packed descriptor.
    ///
    /// # Panics
    /// When the width is not the descriptor's.
    #[track_caller]
    #[must_use]
    pub fn unpack<D: Descriptor>(packed: Signal<'a>) -> Self {
        assert_eq!(
            packed.width(),
            D::width(),
            "width of {packed:?} against that of {}",
            D::NAME
        );
        let mut low = 0;
        let signals = D::FIELDS.iter().map(|field| {
            low += field.width;
            (field.name, packed.part(low - field.width, field.width))
        });
        Self {
            descriptor: D::NAME,
            signals: signals.collect(),
        }
    }

    /// Fields made one by one: `make` is asked for each of the table in order, reserved ones too.
    ///
    /// # Panics
    /// When a width is not the field's.
    #[track_caller]
    #[must_use]
    pub fn build<D: Descriptor>(mut make: impl FnMut(&'static str, u32) -> Signal<'a>) -> Self {
        let signals = D::FIELDS.iter().map(|field| {
            let signal = make(field.name, field.width);
            assert_eq!(signal.width(), field.width, "width of {}.{}", D::NAME, field.name);
            (field.name, signal)
        });
        Self {
            descriptor: D::NAME,
            signals: signals.collect(),
        }
    }

    /// One field.
    ///
    /// # Panics
    /// When the descriptor has no such field.
    #[track_caller]
    #[must_use]
    pub fn get(&self, name: &str) -> Signal<'a> {
        match self.signals.iter().find(|(field, _)| *field == name) {
            Some((_, signal)) => *signal,
            None => panic!("{} has no field `{name}`", self.descriptor),
        }
    }

    /// The same fields with one replaced.
    ///
    /// # Panics
    /// When there is no such field or its width is another one.
    #[track_caller]
    #[must_use]
    pub fn with(mut self, name: &str, value: Signal<'a>) -> Self {
        assert_eq!(
            self.get(name).width(),
            value.width(),
            "width of {}.{name}",
            self.descriptor
        );
        self.signals
            .iter_mut()
            .filter(|(field, _)| *field == name)
            .for_each(|(_, signal)| *signal = value);
        self
    }

    /// All fields side by side, the first one at bit 0.
    #[must_use]
    pub fn pack(&self) -> Signal<'a> {
        cat_lsb_first(&self.signals.iter().map(|(_, signal)| *signal).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spraynic_config::descriptor::PayloadRequest;
    use spraynic_rtl::{Context, Evaluator};

    #[test]
    fn fields_lie_where_the_struct_packs_them() {
        let context = Context::new();
        let m = context.module("probe");
        let fields = Fields::unpack::<PayloadRequest>(m.input("request", PayloadRequest::width()));
        m.output_of("length", fields.get("length"));
        let changed = fields.with("address", m.lit(0x0123_4567_89ab_cdef_u64, 64));
        m.output_of("changed", changed.pack());
        let mut run = Evaluator::new(m.finish());
        let request = PayloadRequest {
            local_key: 0xdead_beef,
            length: 4096,
            reserved_0: 0,
            address: 7,
        };
        run.set(
            "request",
            spraynic_rtl::Bits::from_bytes(PayloadRequest::width(), &request.pack()),
        );
        assert_eq!(run.get_u64("length"), 4096);
        let changed = PayloadRequest {
            address: 0x0123_4567_89ab_cdef,
            ..request
        };
        assert_eq!(run.get("changed").to_bytes(), changed.pack());
    }
}
