//! Which frame sizes a bus carries at the rate of the port: a last beat that is not full costs a whole clock.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use crate::NicConfig;

/// Shortest frame without its FCS, in bytes (IEEE 802.3: 64 with it).
pub const MIN_FRAME_BYTES: u32 = 60;

/// What a frame takes on the wire beside its own bytes: preamble 8, FCS 4, gap 12.
pub const FRAME_OVERHEAD_BYTES: u32 = 24;

/// A bus and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineRate {
    /// Width of the bus in bits.
    pub width_bits: u32,
    /// Clock in kHz.
    pub clock_khz: u32,
    /// Rate of the port in Mb/s.
    pub port_mbps: u32,
}

impl LineRate {
    /// Whether frames of this size (without FCS), back to back, pass as fast as the port takes them.
    #[must_use]
    pub fn carries(&self, frame_bytes: u32) -> bool {
        // clocks / clock_khz <= (frame + overhead) * 8 / port_mbps, in milliseconds and kilobits.
        let beats = u64::from(frame_bytes.div_ceil(self.width_bits / 8));
        let wire_bits = u64::from(frame_bytes + FRAME_OVERHEAD_BYTES) * 8;
        beats * u64::from(self.port_mbps) * 1000 <= wire_bits * u64::from(self.clock_khz)
    }

    /// The sizes within `sizes` that are not carried, as ranges in rising order.
    #[must_use]
    pub fn uncarried(&self, sizes: RangeInclusive<u32>) -> Vec<RangeInclusive<u32>> {
        let mut ranges: Vec<RangeInclusive<u32>> = Vec::new();
        for size in sizes.filter(|size| !self.carries(*size)) {
            match ranges.last_mut() {
                Some(last) if *last.end() + 1 == size => *last = *last.start()..=size,
                _ => ranges.push(size..=size),
            }
        }
        ranges
    }

    /// Bandwidth of the bus in Gb/s, all beats full.
    #[must_use]
    pub fn bus_gbps(&self) -> f64 {
        f64::from(self.width_bits) * f64::from(self.clock_khz) / 1e6
    }

    /// One paragraph that says what is carried, of frames up to `largest` bytes.
    #[must_use]
    pub fn statement(&self, largest: u32) -> String {
        const LISTED: usize = 4;
        let ranges = self.uncarried(MIN_FRAME_BYTES..=largest);
        let mut text = format!(
            "A {}-bit bus at {} MHz moves {:.1} Gb/s. Of {} Gb/s Ethernet (preamble, FCS and gap counted) it carries ",
            self.width_bits,
            f64::from(self.clock_khz) / 1e3,
            self.bus_gbps(),
            f64::from(self.port_mbps) / 1e3,
        );
        let list = |ranges: &[RangeInclusive<u32>]| {
            let parts: Vec<String> = ranges.iter().map(|r| format!("{} to {}", r.start(), r.end())).collect();
            parts.join(", ")
        };
        // Writing to a String cannot fail.
        let _ = match ranges.last() {
            None => write!(
                text,
                "frames of every size from {MIN_FRAME_BYTES} to {largest} bytes (without FCS) back to back."
            ),
            Some(last) if *last.end() == largest => write!(
                text,
                "no stream of the largest frames ({largest} bytes without FCS): the port is faster than the bus."
            ),
            Some(_) if ranges.len() <= LISTED => write!(
                text,
                "frames of every size from {MIN_FRAME_BYTES} to {largest} bytes (without FCS) back to back, except {} bytes.",
                list(&ranges)
            ),
            Some(last) => write!(
                text,
                "frames of every size from {} to {largest} bytes (without FCS) back to back; below that not those of {} and {} further ranges of bytes.",
                last.end() + 1,
                list(&ranges[..LISTED]),
                ranges.len() - LISTED
            ),
        };
        text
    }
}

impl NicConfig {
    /// Bus and port of this configuration.
    #[must_use]
    pub fn line_rate(&self) -> LineRate {
        LineRate {
            width_bits: self.datapath.width_bits,
            clock_khz: self.datapath.clock_khz,
            port_mbps: self.datapath.port_mbps,
        }
    }

    /// The statement of [`LineRate::statement`] for frames up to the largest of this configuration.
    #[must_use]
    pub fn line_rate_statement(&self) -> String {
        self.line_rate().statement(self.max_frame_bytes())
    }
}
