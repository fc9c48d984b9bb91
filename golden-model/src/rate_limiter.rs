//! `rate_limiter`: says whether a queue pair may send so many bytes now, by two token buckets: its own and that of its traffic class.
//!
//! A bucket is exact: it gains rate times elapsed time without rounding, up to its burst. It never queues a request, and a refused one
//! changes nothing. Theory of operation: `docs/src/blocks/rate_limiter.md`.

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{RateLimit, RateRequest};

/// Traffic classes.
pub const CLASSES: usize = 4;

/// Fraction bits of a level: rates are given in units of 2^-32 bytes in a nanosecond, so a product with nanoseconds has no more.
pub const FRACTION_BITS: u32 = 32;

/// Largest rate in those units: 40 bits, 256 bytes in a nanosecond.
pub const MAX_RATE: u64 = (1 << 40) - 1;

/// Largest burst in bytes: 24 bits.
pub const MAX_BURST: u32 = (1 << 24) - 1;

/// What was generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Queue pairs with a bucket: number 0 to `queue_pairs - 1`.
    pub queue_pairs: u32,
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            queue_pairs: config.send_queue_pairs(),
        }
    }
}

/// The answer to a request; its code is what stands in `m_axis_grant`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Grant {
    /// The bytes were taken from both buckets.
    Granted = 0,
    /// The bucket of the queue pair holds too little (or there is no such queue pair, or the request follows a refused one), whatever that of
    /// the class holds.
    QueuePair = 1,
    /// Only the bucket of the class holds too little.
    Class = 2,
}

/// Counters, as the ports `count_…` of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Requests granted.
    pub granted: u32,
    /// Requests refused, see [`Grant::QueuePair`].
    pub refused_queue_pair: u32,
    /// Requests refused, see [`Grant::Class`].
    pub refused_class: u32,
    /// Writes of a bucket that is not there: a queue pair or class beyond the table.
    pub drop_limit: u32,
}

/// A token bucket. Time is what the requests say; it never runs backwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Bucket {
    limited: bool,
    /// 2^-32 bytes in a nanosecond, 40 bits.
    rate: u64,
    /// Bytes, 24 bits.
    burst: u32,
    /// 2^-32 bytes, 56 bits: what it held at `since`.
    level: u64,
    /// Nanoseconds.
    since: u64,
}

impl Bucket {
    fn written(limit: &RateLimit, now_ns: u64) -> Self {
        let burst = limit.burst & MAX_BURST;
        Self {
            limited: limit.limited,
            rate: limit.rate & MAX_RATE,
            burst,
            level: u64::from(burst) << FRACTION_BITS,
            since: now_ns,
        }
    }

    /// What it holds: the product has 104 bits, and the sum is cut at the burst.
    fn level_at(&self, now_ns: u64) -> u64 {
        let gained = u128::from(self.rate) * u128::from(now_ns.saturating_sub(self.since));
        let full = u64::from(self.burst) << FRACTION_BITS;
        u64::try_from(u128::from(self.level) + gained).map_or(full, |level| level.min(full))
    }

    fn holds(&self, bytes: u32, now_ns: u64) -> bool {
        !self.limited || self.level_at(now_ns) >= u64::from(bytes) << FRACTION_BITS
    }

    /// The first nanosecond from `now_ns` on in which it holds so many bytes, if nothing is taken before.
    fn holds_from(&self, bytes: u32, now_ns: u64) -> Option<u64> {
        if self.holds(bytes, now_ns) {
            return Some(now_ns);
        }
        if bytes > self.burst || self.rate == 0 {
            return None;
        }
        let missing = (u64::from(bytes) << FRACTION_BITS) - self.level_at(now_ns);
        now_ns.checked_add(missing.div_ceil(self.rate))
    }

    fn take(&mut self, bytes: u32, now_ns: u64) {
        if self.limited {
            self.level = self.level_at(now_ns) - (u64::from(bytes) << FRACTION_BITS);
            self.since = now_ns;
        }
    }
}

/// The block: a table of buckets and counters.
#[derive(Debug, Clone)]
pub struct RateLimiter {
    queue_pairs: Vec<Bucket>,
    classes: [Bucket; CLASSES],
    /// The last request of `work_queue` was refused; that of `response_queue`.
    last_refused: [bool; 2],
    counters: Counters,
}

impl RateLimiter {
    /// The block after reset: nothing is limited, all counters are 0.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            queue_pairs: vec![Bucket::default(); config.queue_pairs as usize],
            classes: [Bucket::default(); CLASSES],
            last_refused: [false; 2],
            counters: Counters::default(),
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Writes a bucket, at a time in nanoseconds; it is full then. A queue pair or class beyond the table is counted and changes nothing.
    pub fn write_limit(&mut self, limit: &RateLimit, now_ns: u64) {
        let index = limit.index as usize;
        let bucket = if limit.class {
            self.classes.get_mut(index)
        } else {
            self.queue_pairs.get_mut(index)
        };
        match bucket {
            Some(bucket) => *bucket = Bucket::written(limit, now_ns),
            None => self.counters.drop_limit = self.counters.drop_limit.wrapping_add(1),
        }
    }

    /// Decides a request, at a time in nanoseconds that is not before those of earlier calls. One that follows a refused one of the same asker
    /// is refused: it was made in the belief that that one would be granted.
    pub fn request(&mut self, request: &RateRequest, now_ns: u64) -> Grant {
        let (bytes, class) = (request.bytes, usize::from(request.class) % CLASSES);
        let asker = usize::from(request.responses);
        let barred = request.follows && self.last_refused[asker];
        let grant = match self.queue_pairs.get_mut(request.qpn as usize) {
            Some(own) if !barred && own.holds(bytes, now_ns) => {
                let shared = &mut self.classes[class];
                if shared.holds(bytes, now_ns) {
                    own.take(bytes, now_ns);
                    shared.take(bytes, now_ns);
                    Grant::Granted
                } else {
                    Grant::Class
                }
            }
            _ => Grant::QueuePair,
        };
        self.last_refused[asker] = grant != Grant::Granted;
        let counter = match grant {
            Grant::Granted => &mut self.counters.granted,
            Grant::QueuePair => &mut self.counters.refused_queue_pair,
            Grant::Class => &mut self.counters.refused_class,
        };
        *counter = counter.wrapping_add(1);
        grant
    }

    /// The first nanosecond from `now_ns` on in which this request would be granted, if no other one is before. `None`: never (no such queue
    /// pair, more bytes than a burst, or a rate of 0).
    #[must_use]
    pub fn granted_from(&self, request: &RateRequest, now_ns: u64) -> Option<u64> {
        let own = self.queue_pairs.get(request.qpn as usize)?;
        let shared = &self.classes[usize::from(request.class) % CLASSES];
        let own = own.holds_from(request.bytes, now_ns)?;
        Some(shared.holds_from(request.bytes, now_ns)?.max(own))
    }
}

#[cfg(test)]
#[path = "rate_limiter_tests.rs"]
mod tests;
