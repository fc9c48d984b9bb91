//! How a configuration sizes the block, and how windows are numbered. It knows no signals of the pipeline.

use spraynic_config::{NicConfig, Profile};
use spraynic_rtl::{Module, Signal, cat, index_width};

/// PSNs whose bits share a word of the bitmap.
pub(super) const GROUP: u32 = 32;
/// Bits of a PSN's place in its group.
pub(super) const GROUP_BITS: u32 = 5;

/// What is generated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) roce: bool,
    pub(super) solar: bool,
    pub(super) mrc: bool,
    pub(super) queue_pairs: u32,
    pub(super) qpn_bits: u32,
    /// Queue pairs that may be solar: a power of two, or 0.
    pub(super) reorder: u32,
    /// PSNs of a window.
    pub(super) window: u32,
    pub(super) window_bits: u32,
    pub(super) slots: u32,
    pub(super) slot_bits: u32,
    pub(super) bus_bytes: u32,
    /// Beats of a slot, and bits of a beat's number.
    pub(super) beats: u32,
    pub(super) beat_bits: u32,
    pub(super) guaranteed: u32,
    pub(super) receive_requests: u32,
}

impl Sizes {
    pub(super) fn new(config: &NicConfig) -> Self {
        let bus_bytes = config.beat_bytes();
        let beats = (config.wire.max_mtu / bus_bytes).max(2);
        Self {
            roce: config.has_profile(Profile::Roce),
            solar: config.has_profile(Profile::Solar),
            mrc: config.has_profile(Profile::Mrc),
            queue_pairs: config.queue_pairs.count,
            qpn_bits: config.qpn_bits(),
            reorder: config.reorder_queue_pairs(),
            window: config.receive.window,
            window_bits: index_width(config.receive.window.into()),
            slots: config.receive.pool_slots,
            slot_bits: index_width(config.receive.pool_slots.into()),
            bus_bytes,
            beats,
            beat_bits: index_width(beats.into()),
            guaranteed: config.receive.guaranteed_slots,
            receive_requests: config.receive.receive_requests,
        }
    }

    /// Whether there are windows with bitmaps.
    pub(super) fn has_rows(&self) -> bool {
        self.solar || self.mrc
    }

    /// Windows: the requests of each queue pair, behind them the responses of those that may be solar.
    pub(super) fn windows(&self) -> u32 {
        self.queue_pairs + self.reorder
    }

    /// Bitmaps: of each window with mrc; otherwise of both windows of those that may be solar.
    pub(super) fn rows(&self) -> u32 {
        if self.mrc { self.windows() } else { 2 * self.reorder }
    }

    pub(super) fn groups(&self) -> u32 {
        self.window / GROUP
    }

    /// Bits of a group's number.
    pub(super) fn group_index_bits(&self) -> u32 {
        self.window_bits - GROUP_BITS
    }

    /// The group of a PSN's bit.
    pub(super) fn group_of<'a>(&self, psn: Signal<'a>) -> Signal<'a> {
        psn.part(GROUP_BITS, self.group_index_bits())
    }

    /// Bits of a queue pair's number among those that may be solar.
    pub(super) fn reorder_bits(&self) -> u32 {
        index_width(self.reorder.max(2).into())
    }

    /// Bits of a count of 0 to `window`.
    pub(super) fn count_bits(&self) -> u32 {
        self.window_bits + 1
    }

    pub(super) fn credit_bits(&self) -> u32 {
        index_width(u64::from(self.receive_requests) + 1)
    }

    /// Bits of a count of 0 to `slots`.
    pub(super) fn used_bits(&self) -> u32 {
        self.slot_bits + 1
    }

    /// The window's place in the tables.
    pub(super) fn window_address<'a>(&self, space: Signal<'a>, index: Signal<'a>) -> Signal<'a> {
        let bits = index_width(self.windows().into());
        if self.solar {
            cat(&[space, index]).resize(bits)
        } else {
            index
        }
    }

    /// The bitmap's place in its tables.
    pub(super) fn row_address<'a>(&self, space: Signal<'a>, index: Signal<'a>) -> Signal<'a> {
        if self.mrc {
            self.window_address(space, index)
        } else {
            cat(&[space, index.resize(self.reorder_bits())])
        }
    }

    /// Whether a queue pair is one of those that may be solar.
    pub(super) fn may_reorder<'a>(&self, m: Module<'a>, index: Signal<'a>) -> Signal<'a> {
        if !self.solar {
            m.low()
        } else if self.reorder == self.queue_pairs {
            m.high()
        } else {
            !(index >> self.reorder_bits()).any()
        }
    }
}

/// The clearing of all tables after reset, a word a clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sweep<'a> {
    pub(super) active: Signal<'a>,
    /// The inverse, in a register of its own: it goes to all tables.
    done: Signal<'a>,
    index: Signal<'a>,
}

impl<'a> Sweep<'a> {
    /// For tables of up to `depth` words.
    pub(super) fn new(m: Module<'a>, depth: u32) -> Self {
        let active = m
            .reg("sweeping", 1)
            .reset(1)
            .doc("tables are being cleared after reset");
        let done = m.reg("tables_are_cleared", 1).reset(0).doc("the inverse of `sweeping`");
        let index = m.reg("sweep_index", index_width(depth.into())).reset(0);
        m.when(active, || {
            index.set(index + index.lit(1));
            m.when(index.all(), || {
                active.set_lit(0);
                done.set_lit(1);
            });
        });
        Self { active, done, index }
    }

    /// Enable and address for a table of `depth` words.
    pub(super) fn of(&self, depth: u32) -> (Signal<'a>, Signal<'a>) {
        let address = self.index.part(0, index_width(depth.into()));
        if depth.is_power_of_two() {
            (!self.done, address)
        } else {
            (!self.done & address.lt(address.lit(depth)), address)
        }
    }
}

/// By bit: the value is greater than its number. Made of equalities, which tools map to few levels and to no carry chain.
pub(super) fn greater_than<'a>(value: Signal<'a>, bits: u32) -> Vec<Signal<'a>> {
    let any = |value: Signal<'a>, range: std::ops::Range<u32>| {
        let equal = range.map(|other| value.eq_lit(other));
        equal.fold(value.module().low(), |any, equal| any | equal)
    };
    let low_bits = value.width() / 2;
    if low_bits == 0 {
        return (0..bits).map(|bit| any(value, bit + 1..1 << value.width())).collect();
    }
    let (high, low) = (value >> low_bits, value.part(0, low_bits));
    let (highs, lows) = (1 << high.width(), 1 << low_bits);
    let above: Vec<_> = (0..highs).map(|high_bit| any(high, high_bit + 1..highs)).collect();
    let above_low: Vec<_> = (0..lows).map(|low_bit| any(low, low_bit + 1..lows)).collect();
    (0..bits)
        .map(|bit| {
            let (of_high, of_low) = (bit >> low_bits, bit & (lows - 1));
            above[of_high as usize] | (high.eq_lit(of_high) & above_low[of_low as usize])
        })
        .collect()
}

/// The lowest 1: whether there is one, and its number.
pub(super) fn lowest<'a>(bits: &[Signal<'a>]) -> (Signal<'a>, Signal<'a>) {
    assert!(bits.len().is_power_of_two() && bits.len() >= 2, "a power of two");
    if let [low, high] = bits {
        return (*low | *high, !*low);
    }
    let (low, high) = bits.split_at(bits.len() / 2);
    let ((low_any, low_index), (high_any, high_index)) = (lowest(low), lowest(high));
    (low_any | high_any, cat(&[!low_any, low_any.mux(low_index, high_index)]))
}
