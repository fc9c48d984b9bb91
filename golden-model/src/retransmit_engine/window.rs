//! The window of a sequence space whose packets are sent again one by one (solar, mrc): what is known of each PSN, and what is a loss.
//!
//! It knows neither timers nor messages. Everything is bounded by the window: a record for each PSN, a log of the last sendings in their
//! order, and three bitmaps. Theory: `docs/src/blocks/retransmit_engine.md`.

use spraynic_config::descriptor::{Resend, SentPacket};
use spraynic_wire::Psn;

/// Unit of the times kept in records: 64 ns.
const TIME_SHIFT: u32 = 6;
/// Bits of a time in a record: it wraps after 67 ms.
const TIME_BITS: u32 = 20;

/// Time of sending as it is kept: 20 bits, in units of 64 ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Stamp(u32);

impl Stamp {
    pub(super) fn of(now_ns: u64) -> Self {
        Self((now_ns >> TIME_SHIFT) as u32 & ((1 << TIME_BITS) - 1))
    }

    /// Whether `rtt_ns` have surely passed since. An age that wraps looks too young, never too old.
    pub(super) fn is_older_than(self, rtt_ns: u32, now_ns: u64) -> bool {
        let age = Self::of(now_ns).0.wrapping_sub(self.0) & ((1 << TIME_BITS) - 1);
        age > rtt_ns >> TIME_SHIFT
    }
}

/// How often a packet was sent: what an acknowledgement of it can mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Copies {
    /// Once: its acknowledgement speaks of that sending.
    #[default]
    One,
    /// Twice, with different entropy values: only an acknowledgement that names the later one speaks of it.
    Two,
    /// Nobody can tell.
    Many,
}

/// What is known of a PSN.
#[derive(Debug, Clone, Copy, Default)]
struct Record {
    /// Place of its last sending in the order of all.
    order: u16,
    slot: u8,
    path: u8,
    port: u8,
    entropy: u16,
    sent: Stamp,
    copies: Copies,
    /// The peer had no room for its last sending, so its path did deliver it.
    refused: bool,
}

/// A sending in the log. The log is a ring by order.
#[derive(Debug, Clone, Copy, Default)]
struct Sending {
    psn: Psn,
    path: u8,
    class: u8,
    /// The sending before this one on the same path, if it has its path and class; none, or it has been looked at.
    previous: Option<u16>,
    /// It was acknowledged, and no other copy can be meant.
    delivered: bool,
}

/// What a SACK says, and an ACK as far as it says that packets arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrivals {
    /// All up to this one.
    pub(super) cumulative: Psn,
    /// PSN of bit 0 of the bitmap.
    pub(super) first: Psn,
    pub(super) bitmap: u64,
    /// Place among all states of the receiver: `cumulative` plus the packets received beyond the gap, so it grows by one with each packet received.
    /// Without it nothing is known to be missing.
    pub(super) generation: Option<Psn>,
    /// The packet that it names, and its entropy value.
    pub(super) named: Option<(Psn, u16)>,
}

/// What is found while packets are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// A packet arrived by this path, and no other copy can be meant.
    Delivered { path: u8 },
    /// A packet that was last sent by this path is lost. `blamed`: it may be the path's fault.
    Lost { resend: Resend, path: u8, blamed: bool },
}

/// What a NACK says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refusal {
    pub(super) psn: Psn,
    /// Entropy value that the packet came with.
    pub(super) entropy: u16,
    /// The packet arrived whole, but the peer has no place for it as yet.
    pub(super) no_room: bool,
}

/// When a hole is a loss.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) ooo_threshold: u16,
    pub(super) base_rtt_ns: u32,
}

/// What became of a packet that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Noted {
    New,
    Again,
    /// It is not in the window, or was acknowledged meanwhile.
    Ignored,
}

#[derive(Debug, Clone)]
pub(super) struct Window {
    base: Psn,
    next: Psn,
    /// PSNs before `next` that have a record.
    known: u32,
    records: Vec<Record>,
    acked: Vec<u64>,
    /// Declared lost, and not yet sent again.
    lost: Vec<u64>,
    /// There is evidence that it is lost; a SACK that knows it missing is wanted.
    suspect: Vec<u64>,
    log: Vec<Sending>,
    /// The log holds orders `log_head` to `log_next - 1`.
    log_head: u16,
    log_next: u16,
    /// Sendings in the log that were delivered.
    log_delivered: u32,
    /// Order of the last sending, by path.
    paths: Vec<u16>,
    /// Newest state of the receiver that a SACK has shown.
    generation: Psn,
}

impl Window {
    /// An empty window whose first PSN is `psn`. `window` and `paths` are powers of two.
    pub(super) fn new(psn: Psn, window: u32, paths: u32) -> Self {
        let words = (window / 64) as usize;
        Self {
            base: psn,
            next: psn,
            known: 0,
            records: vec![Record::default(); window as usize],
            acked: vec![0; words],
            lost: vec![0; words],
            suspect: vec![0; words],
            log: vec![Sending::default(); window as usize],
            log_head: 0,
            log_next: 0,
            log_delivered: 0,
            paths: vec![0; paths as usize],
            generation: psn - 1,
        }
    }

    /// Oldest PSN that was not acknowledged.
    pub(super) fn base(&self) -> Psn {
        self.base
    }

    /// PSN behind the last one that was sent.
    pub(super) fn next(&self) -> Psn {
        self.next
    }

    /// As if so many packets more had been sent and acknowledged. Nothing may be outstanding.
    #[cfg(test)]
    pub(super) fn skip(&mut self, packets: u32) {
        assert_eq!(self.base, self.next);
        self.base += packets;
        self.next += packets;
    }

    fn size(&self) -> u32 {
        self.records.len() as u32
    }

    fn index(&self, psn: Psn) -> usize {
        psn.value() as usize & (self.records.len() - 1)
    }

    fn bit(&self, psn: Psn) -> (usize, u64) {
        let index = self.index(psn);
        (index / 64, 1 << (index % 64))
    }

    fn is_outstanding(&self, psn: Psn) -> bool {
        psn.steps_from(self.base) < self.next.steps_from(self.base)
    }

    /// Outstanding, not acknowledged and not declared lost.
    fn is_live(&self, psn: Psn) -> bool {
        let (word, bit) = self.bit(psn);
        self.is_outstanding(psn) && (self.acked[word] | self.lost[word]) & bit == 0
    }

    /// Whether the oldest packet waits to be sent again.
    pub(super) fn base_waits(&self) -> bool {
        let (word, bit) = self.bit(self.base);
        self.lost[word] & bit != 0
    }

    fn in_log(&self, order: u16) -> bool {
        order.wrapping_sub(self.log_head) < self.log_next.wrapping_sub(self.log_head)
    }

    fn log_index(&self, order: u16) -> usize {
        usize::from(order) & (self.log.len() - 1)
    }

    /// Whether a sending is the last one of a packet that is still awaited.
    fn is_awaited(&self, order: u16) -> bool {
        let psn = self.log[self.log_index(order)].psn;
        self.is_live(psn) && self.records[self.index(psn)].order == order
    }

    /// Path and port of the last sending of a PSN, if it is known and had this entropy value.
    pub(super) fn path_of(&self, psn: Psn, entropy: u16) -> Option<u8> {
        let record = &self.records[self.index(psn)];
        let steps = self.next.steps_from(psn);
        ((1..=self.known).contains(&steps) && record.entropy == entropy).then_some(record.path)
    }

    /// Entropy value and port of one of the last eight packets: where a probe can go.
    pub(super) fn way_of_recent(&self, turn: u32) -> (u16, u8) {
        let back = turn % 8;
        let back = if back < self.known { back } else { 0 };
        let record = &self.records[self.index(self.next - 1 - back)];
        (record.entropy, record.port)
    }

    /// Notes that a packet leaves.
    pub(super) fn sent(&mut self, packet: &SentPacket, now_ns: u64) -> Noted {
        let psn = Psn::new(packet.psn);
        let index = self.index(psn);
        let old = self.records[index];
        let (word, bit) = self.bit(psn);
        let (noted, copies) = if psn == self.next && self.next.steps_from(self.base) < self.size() {
            self.next = psn.next();
            self.known = (self.known + 1).min(self.size());
            (Noted::New, Copies::One)
        } else if self.is_outstanding(psn) && self.acked[word] & bit == 0 {
            self.lost[word] &= !bit;
            self.suspect[word] &= !bit;
            let told_apart = old.copies == Copies::One && old.entropy != packet.entropy;
            (Noted::Again, if told_apart { Copies::Two } else { Copies::Many })
        } else {
            return Noted::Ignored;
        };
        let path = packet.path & (self.paths.len() - 1) as u8;
        let order = self.log_sending(psn, path, packet.class);
        self.records[index] = Record {
            order,
            slot: packet.slot,
            path,
            port: packet.port,
            entropy: packet.entropy,
            sent: Stamp::of(now_ns),
            copies,
            refused: false,
        };
        noted
    }

    fn log_sending(&mut self, psn: Psn, path: u8, class: u8) -> u16 {
        let order = self.log_next;
        if order.wrapping_sub(self.log_head) as usize == self.log.len() {
            // The oldest falls out: evidence does not reach back further than a window of sendings.
            self.drop_head();
        }
        let last = self.paths[usize::from(path)];
        // Whether that one was of the same path, and not of one that long since left the log, is seen when the link is followed.
        let previous = self.in_log(last).then_some(last);
        let at = self.log_index(order);
        self.log[at] = Sending {
            psn,
            path,
            class,
            previous,
            delivered: false,
        };
        self.paths[usize::from(path)] = order;
        self.log_next = order.wrapping_add(1);
        order
    }

    fn drop_head(&mut self) {
        let head = &self.log[self.log_index(self.log_head)];
        self.log_delivered -= u32::from(head.delivered);
        self.log_head = self.log_head.wrapping_add(1);
    }

    /// Whether all that is said to have arrived was sent.
    pub(super) fn is_credible(&self, arrivals: &Arrivals) -> bool {
        let sent = self.next.steps_from(self.base) as i32;
        let was_sent = |psn: Psn| psn.distance(self.base) < sent;
        let highest = arrivals.first + 63u32.saturating_sub(arrivals.bitmap.leading_zeros());
        was_sent(arrivals.cumulative)
            && (arrivals.bitmap == 0 || was_sent(highest))
            && arrivals.generation.is_none_or(was_sent)
    }

    /// Takes credible arrivals: gives whether one was new. What it finds comes in this order: deliveries, in the order of their PSNs, then losses likewise.
    pub(super) fn arrived(
        &mut self,
        arrivals: &Arrivals,
        rules: &Rules,
        now_ns: u64,
        found: &mut impl FnMut(Found),
    ) -> bool {
        let sent = self.next.steps_from(self.base);
        let through = (arrivals.cumulative.distance(self.base) + 1).clamp(0, sent as i32) as u32;
        let mut news = self.mark(self.base, through, u64::MAX, arrivals, found);
        // The bitmap from the base on, in the two words that it touches.
        // Of a bitmap that begins half of all PSNs away, and so ahead of what was sent, nothing is meant.
        let start = arrivals.first.distance(self.base);
        let skip = start.min(0).unsigned_abs();
        if start < sent as i32 && skip < 64 && arrivals.bitmap >> skip != 0 {
            news |= self.mark(
                arrivals.first + skip,
                64 - skip,
                arrivals.bitmap >> skip,
                arrivals,
                found,
            );
        }
        self.advance();
        let current = arrivals
            .generation
            .is_some_and(|generation| generation.distance(self.generation) >= 0);
        if let Some(generation) = arrivals.generation.filter(|_| current) {
            self.generation = generation;
        }
        self.forget(current, rules, now_ns);
        if current {
            if self.base == arrivals.cumulative.next() {
                self.declare(self.base, 1, found);
            }
            self.declare(arrivals.first, 64, found);
        }
        // Whatever moved the base, states of the receiver before it are old; and the numbers never come half their range apart.
        let reached = self.base - 1;
        if reached.is_after(self.generation) {
            self.generation = reached;
        }
        news
    }

    /// Marks as acknowledged those of `count` PSNs from `first` on that `bitmap` names (beyond 64, all do).
    fn mark(
        &mut self,
        first: Psn,
        count: u32,
        bitmap: u64,
        arrivals: &Arrivals,
        found: &mut impl FnMut(Found),
    ) -> bool {
        let mut news = false;
        let mut done = 0;
        while done < count {
            let psn = first + done;
            let (word, low) = (self.index(psn) / 64, self.index(psn) % 64);
            let step = (64 - low as u32).min(count - done);
            let mask = u64::MAX >> (64 - step);
            let named = if bitmap == u64::MAX {
                mask
            } else {
                bitmap >> done & mask
            };
            let mut new = named << low & !self.acked[word];
            self.acked[word] |= new;
            news |= new != 0;
            while new != 0 {
                let bit = new.trailing_zeros();
                new &= new - 1;
                self.acknowledged(psn + (bit - low as u32), arrivals, found);
            }
            done += step;
        }
        news
    }

    /// A packet was acknowledged for the first time.
    fn acknowledged(&mut self, psn: Psn, arrivals: &Arrivals, found: &mut impl FnMut(Found)) {
        let record = self.records[self.index(psn)];
        let named = arrivals.named == Some((psn, record.entropy));
        if record.copies == Copies::One || (record.copies == Copies::Two && named) {
            found(Found::Delivered { path: record.path });
            if self.in_log(record.order) {
                let at = self.log_index(record.order);
                self.log[at].delivered = true;
                self.log_delivered += 1;
                self.suspect_earlier(record.order);
            }
        }
    }

    /// Evidence (a): what was sent before this one on the same path, in the same class, and has not arrived. Each link of the log is followed once.
    fn suspect_earlier(&mut self, order: u16) {
        let at = self.log_index(order);
        let (path, class) = (self.log[at].path, self.log[at].class);
        let mut link = self.log[at].previous.take();
        while let Some(earlier) = link.filter(|earlier| self.in_log(*earlier)) {
            let at = self.log_index(earlier);
            if (self.log[at].path, self.log[at].class) != (path, class) {
                break;
            }
            if self.is_awaited(earlier) {
                let (word, bit) = self.bit(self.log[at].psn);
                self.suspect[word] |= bit;
            }
            link = self.log[at].previous.take();
        }
    }

    /// Moves the base to the first PSN that was not acknowledged, and clears the bits that it passes.
    fn advance(&mut self) {
        while self.base != self.next {
            let low = self.index(self.base) % 64;
            let word = self.index(self.base) / 64;
            let left = self.next.steps_from(self.base);
            let run = (!(self.acked[word] >> low)).trailing_zeros();
            let step = run.min(64 - low as u32).min(left);
            if step == 0 {
                return;
            }
            let passed = !((u64::MAX >> (64 - step)) << low);
            self.acked[word] &= passed;
            self.lost[word] &= passed;
            self.suspect[word] &= passed;
            self.base += step;
        }
    }

    /// Takes from the head of the log what is settled; and, if the state of the receiver is current, evidence (b): what was sent long enough ago, and
    /// more than `ooo_threshold` later sendings were delivered.
    fn forget(&mut self, current: bool, rules: &Rules, now_ns: u64) {
        while self.log_head != self.log_next {
            let psn = self.log[self.log_index(self.log_head)].psn;
            let (word, bit) = self.bit(psn);
            if self.is_awaited(self.log_head) && self.suspect[word] & bit == 0 {
                let passed_by = self.log_delivered > u32::from(rules.ooo_threshold);
                let sent = self.records[self.index(psn)].sent;
                if !current || !passed_by || !sent.is_older_than(rules.base_rtt_ns, now_ns) {
                    return;
                }
                self.suspect[word] |= bit;
            }
            self.drop_head();
        }
    }

    /// Declares lost what is suspect among `count` PSNs, at most 64, of which the receiver said that they are missing unless acknowledged.
    fn declare(&mut self, first: Psn, count: u32, found: &mut impl FnMut(Found)) {
        let mut done = 0;
        while done < count {
            let psn = first + done;
            let (word, low) = (self.index(psn) / 64, self.index(psn) % 64);
            let step = (64 - low as u32).min(count - done);
            let mask = (u64::MAX >> (64 - step)) << low;
            let mut holes = self.suspect[word] & !self.acked[word] & !self.lost[word] & mask;
            while holes != 0 {
                let bit = holes.trailing_zeros();
                holes &= holes - 1;
                let psn = psn + (bit - low as u32);
                // The bits of a PSN a whole window away are not meant.
                if self.is_outstanding(psn) {
                    self.lose(psn, found);
                }
            }
            done += step;
        }
    }

    fn lose(&mut self, psn: Psn, found: &mut impl FnMut(Found)) {
        let (word, bit) = self.bit(psn);
        self.lost[word] |= bit;
        let record = &self.records[self.index(psn)];
        let resend = Resend {
            psn: psn.value(),
            slot: record.slot,
            ..Resend::default()
        };
        found(Found::Lost {
            resend,
            path: record.path,
            blamed: !record.refused,
        });
    }

    /// A NACK of a packet, with the entropy value that it came with. Gives what it means, and the path if that is the one of its last sending. Evidence (c):
    /// the packet is lost unless an earlier copy may be meant. If the peer only had no room for it, and it is not the oldest, it becomes suspect: a
    /// later SACK, or the timer, has it sent again.
    pub(super) fn refused(
        &mut self,
        nack: &Refusal,
        rules: &Rules,
        now_ns: u64,
        found: &mut impl FnMut(Found),
    ) -> (bool, Option<u8>) {
        let psn = nack.psn;
        if !self.is_live(psn) {
            return (false, None);
        }
        let record = self.records[self.index(psn)];
        let fits = record.entropy == nack.entropy;
        let newer = match record.copies {
            Copies::One => true,
            Copies::Two => fits,
            Copies::Many => fits && record.sent.is_older_than(rules.base_rtt_ns, now_ns),
        };
        if newer && nack.no_room {
            let index = self.index(psn);
            self.records[index].refused = true;
        }
        if newer && nack.no_room && psn != self.base {
            let (word, bit) = self.bit(psn);
            self.suspect[word] |= bit;
        } else if newer {
            self.lose(psn, found);
        }
        (newer, (newer && fits).then_some(record.path))
    }

    /// Evidence (d), the timer: the oldest packet is lost, and all others that were sent long enough ago.
    pub(super) fn timed_out(&mut self, rules: &Rules, now_ns: u64, found: &mut impl FnMut(Found)) {
        for steps in 0..self.next.steps_from(self.base) {
            let psn = self.base + steps;
            let old = self.records[self.index(psn)]
                .sent
                .is_older_than(rules.base_rtt_ns, now_ns);
            if self.is_live(psn) && (steps == 0 || old) {
                self.lose(psn, found);
            }
        }
    }
}
