//! What is kept of a queue pair between operations: one word in RAM, and the registers that hold it during an operation.

use spraynic_config::NicConfig;
use spraynic_rtl::{Module, index_width};

use crate::record::Record;

/// Sizes that follow from the configuration, in bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Number of a queue pair.
    pub(super) qpn: u32,
    /// Number of a slot.
    pub(super) slot: u32,
    /// Number of a PSN in the window.
    pub(super) window: u32,
    /// Words of 64 PSNs to be sent again.
    pub(super) words: u32,
}

impl Sizes {
    pub(super) fn new(config: &NicConfig) -> Self {
        Self {
            qpn: index_width(u64::from(config.send_queue_pairs())),
            slot: index_width(u64::from(config.send.work_requests)),
            window: index_width(u64::from(config.send.window)),
            words: config.send.window / 64,
        }
    }

    /// A free-running count of requests.
    pub(super) fn place(self) -> u32 {
        self.slot + 1
    }
}

/// Bits of a deficit, signed: one weight of 255 units of 4,096 bytes, and a debt of some slices. It is kept less one, so that its sign alone
/// says whether there is credit.
pub(super) const DEFICIT_BITS: u32 = 22;

/// The registers of a queue pair.
#[track_caller]
pub(super) fn queue_record<'a>(m: Module<'a>, sizes: Sizes) -> Record<'a> {
    let place = sizes.place();
    let fields = [
        ("state", 3),
        ("profile", 2),
        ("mtu", 3),
        ("class", 2),
        ("timestamps", 1),
        ("reads_allowed", 5),
        ("window", 11),
        ("weight", 8),
        ("entropy", 32),
        ("head", place),
        ("cut", place),
        ("frontier", place),
        ("tail", place),
        ("head_psn", 24),
        ("base", 24),
        ("done", 24),
        ("cut_psn", 24),
        ("next_psn", 24),
        ("post_psn", 24),
        ("msn", 16),
        ("rqmsn", 16),
        ("reads", 5),
        ("waits", 1),
        ("lost_words", sizes.words),
        ("listed", 1),
        ("refused", 1),
        ("turn_over", 1),
        ("deficit", DEFICIT_BITS),
    ];
    Record::regs(m, "queue", &fields)
}

/// The registers of a request in its slot.
#[track_caller]
pub(super) fn slot_record(m: Module<'_>) -> Record<'_> {
    let fields = [
        ("request", 512),
        ("first_psn", 24),
        ("psns", 24),
        ("msn", 16),
        ("rqmsn", 16),
        ("responds", 1),
        ("wrong", 1),
    ];
    Record::regs(m, "slot", &fields)
}
