//! What the tables of the block hold, and their sizes.

use spraynic_config::{NicConfig, Profile};
use spraynic_rtl::{Signal, bundle, cat, index_width};

/// PSNs of a word of a bitmap.
pub(super) const WORD: u32 = 64;
/// Bits of the order of sendings.
pub(super) const ORDER_BITS: u32 = 16;
/// Bits of a time in a record.
pub(super) const STAMP_BITS: u32 = 20;
/// Lowest bit of the time that a record keeps: its unit is 64 ns.
pub(super) const STAMP_SHIFT: u32 = 6;

bundle! {
    /// What the host said of a queue pair.
    pub(super) struct QueuePair {
        sends: 1, "it is in RTS";
        receives: 1, "it is in RTR or RTS";
        failed: 1, "it failed, and has not left RTS since";
        profile: 2, "wire profile";
        spreads: 1, "packets have paths of a set: another policy than fixed";
        path_set: 12, "set of paths";
        retry_limit: 3, "timeouts without progress that are answered";
        ooo_threshold: 10, "later packets that make a hole a loss";
        base_rtt: 24, "round trip of an idle fabric, in nanoseconds";
        timeout: 32, "retransmission timeout, in nanoseconds";
        peer: 16, "low bits of the peer's queue pair number";
        rnr_retry: 3, "roce: RNR NAKs without progress that are answered; 7: all";
    }
}

bundle! {
    /// A sequence space that sends.
    pub(super) struct Space {
        open: 1, "it sends";
        base: 24, "oldest PSN that was not acknowledged";
        next: 24, "PSN behind the last one that was sent";
        known: 11, "PSNs before `next` that have a record";
        log_head: 16, "order of the oldest sending in the log";
        log_next: 16, "order of the next sending";
        log_delivered: 11, "sendings in the log that were delivered";
        suspects: 16, "words of the suspect bitmap that are not 0";
        generation: 24, "newest state of the receiver that a SACK has shown";
        done: 24, "all before it is done";
        ack_wanted: 24, "PSN behind the last packet that wants an ACK";
        armed: 1, "the timer runs";
        deadline: 64, "when it fires, in nanoseconds";
        backoff: 3, "timeouts in a row, as far as they double the next one";
        retries: 3, "timeouts without a sign of the peer";
        probes: 14, "probes so far, modulo 2^14: ids from 0x4000 on are those of probes of paths";
        rewinding: 1, "roce: asked to send again from `base` on, and that has not begun";
        resent: 1, "roce: `resent_psn` counts";
        resent_psn: 24, "roce: packet that last was sent again as the first one";
        resent_at: 20, "roce: when, in units of 64 ns";
        rnr_wait: 1, "roce: the peer has no receive request, and the timer ends the wait";
        rnr_retries: 3, "roce: RNR NAKs without progress";
        reads: 5, "roce: READs and atomics whose responses are awaited";
        first_read: 4, "roce: place of the oldest of them in their table";
        missing: 24, "roce: PSN of its first response that has not come";
        read_end: 24, "roce: PSN behind its last response";
        read_slot: 8, "roce: slot of its request";
    }
}

bundle! {
    /// roce: a READ or an atomic whose responses are awaited.
    pub(super) struct Read {
        psn: 24, "PSN of its first response";
        end: 24, "PSN behind the last one";
        slot: 8, "slot of its request";
    }
}

bundle! {
    /// What is known of a PSN.
    pub(super) struct Record {
        order: 16, "place of its last sending in the order of all";
        slot: 8, "slot of its request";
        path: 8, "path of its last sending";
        port: 3, "port of its last sending";
        entropy: 16, "entropy value of its last sending";
        sent: 20, "time of its last sending, in units of 64 ns";
        copies: 2, "0 sent once, 1 twice with different entropy values, 2 nobody can tell";
        refused: 1, "the peer had no room for its last sending";
    }
}

bundle! {
    /// A sending in the log.
    pub(super) struct Sending {
        psn: 24, "PSN";
        path: 8, "path";
        class: 2, "traffic class";
        previous: 16, "order of the sending before on this path";
        linked: 1, "`previous` counts, and has not been looked at";
    }
}

bundle! {
    /// What is known of 64 sendings of the log, a bit for each.
    pub(super) struct Marks {
        open: 64, "the last one of its packet, which is neither acknowledged nor lost nor suspect";
        delivered: 64, "it was acknowledged, and no other copy can be meant";
    }
}

bundle! {
    /// What the sweep of the timers looks at.
    pub(super) struct Deadline {
        armed: 1, "the timer runs";
        at: 64, "when it fires, in nanoseconds";
    }
}

/// Sizes of the tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) queue_pairs: u32,
    pub(super) queue_pair_bits: u32,
    /// Whether there are response spaces.
    pub(super) responses: bool,
    pub(super) window: u32,
    pub(super) paths: u32,
    /// Whether there are queue pairs of roce, and how many READs and atomics one may have outstanding.
    pub(super) roce: bool,
    pub(super) reads: u32,
}

impl Sizes {
    pub(super) fn of(config: &NicConfig) -> Self {
        let queue_pairs = config.send_queue_pairs();
        Self {
            queue_pairs,
            queue_pair_bits: index_width(queue_pairs.into()),
            responses: config.has_profile(Profile::Solar),
            window: config.send.window,
            paths: config.paths.entries,
            roce: config.has_profile(Profile::Roce),
            reads: config.send.reads,
        }
    }

    pub(super) fn spaces(&self) -> u32 {
        self.queue_pairs << u32::from(self.responses)
    }

    pub(super) fn space_bits(&self) -> u32 {
        self.queue_pair_bits + u32::from(self.responses)
    }

    pub(super) fn window_bits(&self) -> u32 {
        self.window.trailing_zeros()
    }

    pub(super) fn path_bits(&self) -> u32 {
        self.paths.trailing_zeros()
    }

    /// Bits that tell the words of a window apart.
    pub(super) fn word_bits(&self) -> u32 {
        self.window_bits() - WORD.trailing_zeros()
    }

    /// Places of the table of READs for each queue pair: a power of two, at least two.
    pub(super) fn read_places(&self) -> u32 {
        self.reads.next_power_of_two().max(2)
    }

    /// Address in the table of READs.
    pub(super) fn read_address<'a>(&self, qpn: Signal<'a>, place: Signal<'a>) -> Signal<'a> {
        let bits = self.read_places().trailing_zeros();
        cat(&[qpn.part(0, self.queue_pair_bits), place.part(0, bits)])
    }

    /// Index of a sequence space: queue pair above, space at bit 0.
    pub(super) fn space_index<'a>(&self, qpn: Signal<'a>, space: Signal<'a>) -> Signal<'a> {
        let queue_pair = qpn.part(0, self.queue_pair_bits);
        if self.responses {
            cat(&[queue_pair, space])
        } else {
            queue_pair
        }
    }

    /// Address of a word with a bit for each PSN or order of a window.
    pub(super) fn word_address<'a>(&self, space: Signal<'a>, psn: Signal<'a>) -> Signal<'a> {
        if self.word_bits() == 0 {
            space
        } else {
            cat(&[space, psn.part(WORD.trailing_zeros(), self.word_bits())])
        }
    }
}
