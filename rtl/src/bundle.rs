//! Bundles: structs of signals that pack to bits and unpack again; streams of them.
//!
//! The [`bundle!`](crate::bundle) macro makes a struct of signals from names and widths. The first field sits at bit 0 of the packed
//! form. [`Stream`] carries a packed payload with valid and ready, [`AxiStream`] bytes of frames; both are AXI4-Streams
//! in the Verilog.
//!
//! What is declared here carries the caller's line. Closures do not pass that line on, so loops do the work.

use crate::instance::InstanceHandle;
use crate::module::Module;
use crate::shape::cat_lsb_first;
use crate::signal::Signal;

/// A struct of signals with a fixed order of fields.
pub trait Bundle<'a>: Copy {
    /// Names, widths and documentation of the fields, the one at bit 0 first.
    fn fields() -> Vec<(&'static str, u32, &'static str)>;
    /// The signals in the order of [`Bundle::fields`].
    fn signals(&self) -> Vec<Signal<'a>>;
    /// From signals in the order of [`Bundle::fields`].
    fn from_signals(signals: &[Signal<'a>]) -> Self;

    /// Bits of the packed form.
    #[must_use]
    fn packed_width() -> u32 {
        Self::fields().iter().map(|(_, width, _)| width).sum()
    }

    /// All fields side by side, the first one at bit 0.
    #[track_caller]
    fn pack(&self) -> Signal<'a> {
        cat_lsb_first(&self.signals())
    }

    /// The fields of a packed value.
    ///
    /// # Panics
    /// When the width is another one.
    #[track_caller]
    fn unpack(packed: Signal<'a>) -> Self {
        assert_eq!(
            packed.width(),
            Self::packed_width(),
            "width of {packed:?} against that of its bundle"
        );
        let mut low = 0;
        let mut parts = vec![];
        for (_, width, _) in Self::fields() {
            parts.push(packed.part(low, width));
            low += width;
        }
        Self::from_signals(&parts)
    }

    /// One wire for each field, named `prefix_field`.
    #[track_caller]
    fn wires(module: Module<'a>, prefix: &str) -> Self {
        let mut wires = vec![];
        for (name, width, doc) in Self::fields() {
            wires.push(module.wire(&format!("{prefix}_{name}"), width).doc(doc));
        }
        Self::from_signals(&wires)
    }

    /// One register for each field, named `prefix_field`, without reset.
    #[track_caller]
    fn regs(module: Module<'a>, prefix: &str) -> Self {
        let mut regs = vec![];
        for (name, width, doc) in Self::fields() {
            regs.push(module.reg(&format!("{prefix}_{name}"), width).doc(doc));
        }
        Self::from_signals(&regs)
    }

    /// Drives every field (wires or registers) from another bundle.
    #[track_caller]
    fn set(&self, value: &Self) {
        for (target, value) in self.signals().into_iter().zip(value.signals()) {
            target.set(value);
        }
    }

    /// Gives every field a name in the Verilog: `prefix_field`.
    #[track_caller]
    #[must_use]
    fn named(&self, prefix: &str) -> Self {
        let mut named = vec![];
        for ((name, ..), signal) in Self::fields().into_iter().zip(self.signals()) {
            named.push(signal.named(&format!("{prefix}_{name}")));
        }
        Self::from_signals(&named)
    }
}

/// Makes a struct of signals that implements [`Bundle`].
///
/// ```
/// use spraynic_rtl::{Bundle, Context, bundle};
/// bundle! {
///     /// A point in time and place.
///     pub struct Point {
///         x: 12, "column in pixels";
///         y: 11, "row in pixels";
///     }
/// }
/// let context = Context::new();
/// let m = context.module("swap");
/// let point = Point::unpack(m.input("point", Point::packed_width()));
/// m.output_of("row", point.y);
/// point.x.ignore();
/// m.finish();
/// ```
#[macro_export]
macro_rules! bundle {
    ($(#[$meta:meta])* $visibility:vis struct $name:ident { $($field:ident: $width:expr, $doc:literal;)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy)]
        $visibility struct $name<'a> {
            $(#[doc = $doc] $visibility $field: $crate::Signal<'a>,)*
        }

        impl<'a> $crate::Bundle<'a> for $name<'a> {
            fn fields() -> Vec<(&'static str, u32, &'static str)> {
                vec![$((stringify!($field), $width, $doc),)*]
            }
            fn signals(&self) -> Vec<$crate::Signal<'a>> {
                vec![$(self.$field,)*]
            }
            fn from_signals(signals: &[$crate::Signal<'a>]) -> Self {
                let mut signals = signals.iter().copied();
                Self { $($field: signals.next().expect("one signal for each field"),)* }
            }
        }
    };
}

/// Packed payload with valid and ready. `ready` is driven by who takes, the others by who gives.
#[derive(Debug, Clone, Copy)]
pub struct Stream<'a> {
    /// Packed payload.
    pub data: Signal<'a>,
    /// The payload is valid; does not wait for `ready`.
    pub valid: Signal<'a>,
    /// The payload is taken at the next clock edge if it is valid.
    pub ready: Signal<'a>,
}

impl<'a> Stream<'a> {
    /// The ports `prefix_tdata`, `prefix_tvalid`, `prefix_tready` of a stream that the module takes. Drive `ready`.
    #[track_caller]
    #[must_use]
    pub fn slave(module: Module<'a>, prefix: &str, width: u32, doc: &str) -> Self {
        Self {
            data: module.input(&format!("{prefix}_tdata"), width).doc(doc),
            valid: module.input(&format!("{prefix}_tvalid"), 1),
            ready: module.output(&format!("{prefix}_tready"), 1),
        }
    }

    /// The ports of a stream that the module gives. Drive `data` and `valid`.
    #[track_caller]
    #[must_use]
    pub fn master(module: Module<'a>, prefix: &str, width: u32, doc: &str) -> Self {
        Self {
            data: module.output(&format!("{prefix}_tdata"), width).doc(doc),
            valid: module.output(&format!("{prefix}_tvalid"), 1),
            ready: module.input(&format!("{prefix}_tready"), 1),
        }
    }

    /// Wires of a stream inside a module. Drive all three.
    #[track_caller]
    #[must_use]
    pub fn wires(module: Module<'a>, prefix: &str, width: u32) -> Self {
        Self {
            data: module.wire(&format!("{prefix}_tdata"), width),
            valid: module.wire(&format!("{prefix}_tvalid"), 1),
            ready: module.wire(&format!("{prefix}_tready"), 1),
        }
    }

    /// The stream that an instance takes. Drive `data` and `valid`.
    #[track_caller]
    #[must_use]
    pub fn into_instance(instance: InstanceHandle<'a>, prefix: &str) -> Self {
        Self {
            data: instance.input(&format!("{prefix}_tdata")),
            valid: instance.input(&format!("{prefix}_tvalid")),
            ready: instance.output(&format!("{prefix}_tready")),
        }
    }

    /// The stream that an instance gives. Drive `ready`.
    #[track_caller]
    #[must_use]
    pub fn from_instance(instance: InstanceHandle<'a>, prefix: &str) -> Self {
        Self {
            data: instance.output(&format!("{prefix}_tdata")),
            valid: instance.output(&format!("{prefix}_tvalid")),
            ready: instance.input(&format!("{prefix}_tready")),
        }
    }

    /// Passes this stream on to `to`: data and valid forward, ready back.
    #[track_caller]
    pub fn connect(&self, to: Self) {
        to.data.set(self.data);
        to.valid.set(self.valid);
        self.ready.set(to.ready);
    }

    /// One bit: a payload moves at the next clock edge.
    #[track_caller]
    #[must_use]
    pub fn fires(&self) -> Signal<'a> {
        self.valid & self.ready
    }
}

/// Bytes of frames: AXI4-Stream with `tkeep`, `tlast` and `tuser`.
#[derive(Debug, Clone, Copy)]
pub struct AxiStream<'a> {
    /// Byte 0 of the beat in bits 7:0.
    pub data: Signal<'a>,
    /// One bit for each byte; contiguous from byte 0, full on every beat but the last.
    pub keep: Signal<'a>,
    /// The beat is the last one of its frame.
    pub last: Signal<'a>,
    /// Sideband.
    pub user: Signal<'a>,
    /// The beat is valid; does not wait for `ready`.
    pub valid: Signal<'a>,
    /// The beat is taken at the next clock edge if it is valid.
    pub ready: Signal<'a>,
}

impl<'a> AxiStream<'a> {
    /// Names and widths of what goes forward.
    fn forward(prefix: &str, width: u32, user: u32) -> [(String, u32); 5] {
        [
            ("tdata", width),
            ("tkeep", width / 8),
            ("tlast", 1),
            ("tuser", user),
            ("tvalid", 1),
        ]
        .map(|(name, width)| (format!("{prefix}_{name}"), width))
    }

    /// From `ready` and the signals in the order of [`AxiStream::forward`].
    fn of(ready: Signal<'a>, forward: &[Signal<'a>]) -> Self {
        Self {
            data: forward[0],
            keep: forward[1],
            last: forward[2],
            user: forward[3],
            valid: forward[4],
            ready,
        }
    }

    /// The ports of a stream that the module takes: `width` data bits, `user` sideband bits. Drive `ready`.
    #[track_caller]
    #[must_use]
    pub fn slave(module: Module<'a>, prefix: &str, width: u32, user: u32, doc: &str) -> Self {
        let ready = module.output(&format!("{prefix}_tready"), 1);
        let mut forward = vec![];
        for (name, width) in Self::forward(prefix, width, user) {
            forward.push(module.input(&name, width));
        }
        let stream = Self::of(ready, &forward);
        let _ = stream.data.doc(doc);
        stream
    }

    /// The ports of a stream that the module gives. Drive all but `ready`.
    #[track_caller]
    #[must_use]
    pub fn master(module: Module<'a>, prefix: &str, width: u32, user: u32, doc: &str) -> Self {
        let ready = module.input(&format!("{prefix}_tready"), 1);
        let mut forward = vec![];
        for (name, width) in Self::forward(prefix, width, user) {
            forward.push(module.output(&name, width));
        }
        let stream = Self::of(ready, &forward);
        let _ = stream.data.doc(doc);
        stream
    }

    /// Wires of a stream inside a module. Drive all.
    #[track_caller]
    #[must_use]
    pub fn wires(module: Module<'a>, prefix: &str, width: u32, user: u32) -> Self {
        let ready = module.wire(&format!("{prefix}_tready"), 1);
        let mut forward = vec![];
        for (name, width) in Self::forward(prefix, width, user) {
            forward.push(module.wire(&name, width));
        }
        Self::of(ready, &forward)
    }

    /// The stream that an instance takes. Drive all but `ready`.
    #[track_caller]
    #[must_use]
    pub fn into_instance(instance: InstanceHandle<'a>, prefix: &str) -> Self {
        let ready = instance.output(&format!("{prefix}_tready"));
        let mut forward = vec![];
        for (name, _) in Self::forward(prefix, 0, 0) {
            forward.push(instance.input(&name));
        }
        Self::of(ready, &forward)
    }

    /// The stream that an instance gives. Drive `ready`.
    #[track_caller]
    #[must_use]
    pub fn from_instance(instance: InstanceHandle<'a>, prefix: &str) -> Self {
        let ready = instance.input(&format!("{prefix}_tready"));
        let mut forward = vec![];
        for (name, _) in Self::forward(prefix, 0, 0) {
            forward.push(instance.output(&name));
        }
        Self::of(ready, &forward)
    }

    /// Passes this stream on to `to`.
    #[track_caller]
    pub fn connect(&self, to: Self) {
        to.data.set(self.data);
        to.keep.set(self.keep);
        to.last.set(self.last);
        to.user.set(self.user);
        to.valid.set(self.valid);
        self.ready.set(to.ready);
    }

    /// Data, keep, last and user side by side, data at bit 0: a word for a FIFO.
    #[track_caller]
    #[must_use]
    pub fn pack(&self) -> Signal<'a> {
        cat_lsb_first(&[self.data, self.keep, self.last, self.user])
    }

    /// Drives data, keep, last and user from a word that [`AxiStream::pack`] made.
    #[track_caller]
    pub fn set_packed(&self, word: Signal<'a>) {
        let mut low = 0;
        for field in [self.data, self.keep, self.last, self.user] {
            field.set(word.part(low, field.width()));
            low += field.width();
        }
    }

    /// One bit: a beat moves at the next clock edge.
    #[track_caller]
    #[must_use]
    pub fn fires(&self) -> Signal<'a> {
        self.valid & self.ready
    }
}
