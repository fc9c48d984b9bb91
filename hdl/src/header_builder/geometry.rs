//! What the configuration says of lengths: which layouts of the lower headers, header lengths and payload offsets occur.
//!
//! Frames are counted in words of 4 bytes behind the first 2 bytes: every header ends 2 bytes behind a multiple of 4.

use std::collections::BTreeSet;

use spraynic_config::{
    BTH_BYTES, ETHERNET_BYTES, ICRC_BYTES, IPV4_BYTES, IPV6_BYTES, NicConfig, Profile, UDP_BYTES, VLAN_BYTES,
};
use spraynic_rtl::{Signal, index_width};

/// Words of the datagram without extension headers and payload: UDP, BTH and ICRC.
pub(super) const DATAGRAM_WORDS: u32 = (UDP_BYTES + BTH_BYTES + ICRC_BYTES) / 4;

/// The lower headers of a frame: which tag, which network header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) vlan: bool,
    pub(super) ipv6: bool,
}

impl Layout {
    /// Words from the third byte of the frame to the UDP header.
    pub(super) fn words(self) -> u32 {
        let tag = if self.vlan { VLAN_BYTES } else { 0 };
        let network = if self.ipv6 { IPV6_BYTES } else { IPV4_BYTES };
        (ETHERNET_BYTES + tag + network - 2) / 4
    }

    /// Number by which [`pick`] knows it: IPv6 in bit 1, VLAN in bit 0.
    pub(super) fn index(self) -> u32 {
        u32::from(self.ipv6) << 1 | u32::from(self.vlan)
    }
}

/// Positions of payload up to which the rotator is one multiplexer without registers.
const SINGLE_STEP: usize = 4;

/// One step of the rotator: it rotates by one of `words`, as a field of the place code says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// Words to rotate by, ascending.
    pub(super) words: Vec<u32>,
    /// Lowest bit of its field.
    low: u32,
    /// Bits of its field: 0 where there is no choice.
    bits: u32,
}

impl Step {
    fn new(words: BTreeSet<u32>, low: u32) -> Self {
        let words: Vec<u32> = words.into_iter().collect();
        let bits = if words.len() > 1 {
            index_width(words.len() as u64)
        } else {
            0
        };
        Self { words, low, bits }
    }

    /// The number of `words` in the field.
    fn code(&self, words: u32) -> u32 {
        let rank = self.words.iter().filter(|other| **other < words).count() as u32;
        rank << self.low
    }

    /// Chooses by the field of a place code: `choice` for each number of words.
    pub(super) fn choose<'a>(&self, place: Signal<'a>, choice: impl Fn(u32) -> Signal<'a>) -> Signal<'a> {
        let choices: Vec<_> = self
            .words
            .iter()
            .map(|words| (self.code(*words), choice(*words)))
            .collect();
        pick(place, &choices)
    }

    /// Its field of a place code, none where there is no choice.
    pub(super) fn field<'a>(&self, place: Signal<'a>) -> Option<Signal<'a>> {
        (self.bits > 0).then(|| place.part(self.low, self.bits))
    }
}

/// The lengths of one configuration.
#[derive(Debug, Clone)]
pub(super) struct Geometry {
    /// Bytes of a beat.
    pub(super) beat_bytes: u32,
    /// Layouts that occur.
    pub(super) layouts: Vec<Layout>,
    /// Words of extension headers of packets without payload.
    pub(super) extension_words: BTreeSet<u32>,
    /// Words of extension headers of packets with payload.
    pub(super) payload_extension_words: BTreeSet<u32>,
    /// Largest payload in bytes.
    pub(super) max_payload: u32,
    /// Time stamps are put in.
    pub(super) time_stamps: bool,
    /// Frames are led to one of several ports.
    pub(super) has_port: bool,
}

impl Geometry {
    pub(super) fn new(config: &NicConfig) -> Self {
        let wire = &config.wire;
        let versions = [wire.ipv4.then_some(false), wire.ipv6.then_some(true)];
        let tags = [Some(false), wire.vlan.then_some(true)];
        let layouts = versions.into_iter().flatten().flat_map(|ipv6| {
            let tags = tags.into_iter().flatten();
            tags.map(move |vlan| Layout { vlan, ipv6 })
        });
        let words = |lengths: BTreeSet<u32>| lengths.into_iter().map(|bytes| bytes / 4).collect();
        Self {
            beat_bytes: config.beat_bytes(),
            layouts: layouts.collect(),
            extension_words: words(config.extension_lengths()),
            payload_extension_words: words(config.payload_extension_lengths()),
            max_payload: wire.max_mtu,
            time_stamps: config.has_profile(Profile::Solar) || config.has_profile(Profile::Mrc),
            has_port: super::port_sideband(config) > 0,
        }
    }

    /// Words of a beat.
    pub(super) fn beat_words(&self) -> u32 {
        self.beat_bytes / 4
    }

    /// Bits of a beat.
    pub(super) fn beat_bits(&self) -> u32 {
        self.beat_bytes * 8
    }

    /// Bits that number the bytes of a beat.
    pub(super) fn byte_bits(&self) -> u32 {
        self.beat_bytes.trailing_zeros()
    }

    /// Bits that number the words of a beat.
    pub(super) fn word_bits(&self) -> u32 {
        self.beat_words().trailing_zeros()
    }

    /// Most words of extension headers.
    pub(super) fn max_extension_words(&self) -> u32 {
        let all = self.extension_words.iter().chain(&self.payload_extension_words);
        all.copied().max().unwrap_or(0)
    }

    /// Bytes of the longest header.
    pub(super) fn max_header_bytes(&self) -> u32 {
        let lower = self.layouts.iter().map(|layout| layout.words()).max().unwrap_or(0);
        2 + 4 * (lower + self.max_extension_words()) + UDP_BYTES + BTH_BYTES
    }

    /// Where payload can begin in a beat: byte 2 behind these words. One position stands in where none occurs.
    pub(super) fn positions(&self) -> BTreeSet<u32> {
        let transport = (UDP_BYTES + BTH_BYTES) / 4;
        let ends = self.layouts.iter().flat_map(|layout| {
            let extensions = self.payload_extension_words.iter();
            extensions.map(move |words| layout.words() + transport + words)
        });
        let positions: BTreeSet<u32> = ends.map(|words| words % self.beat_words()).collect();
        if positions.is_empty() {
            return BTreeSet::from([0]);
        }
        positions
    }

    /// Steps of the rotator: one, or groups of four words and then words.
    pub(super) fn steps(&self) -> Vec<Step> {
        let positions = self.positions();
        if positions.len() <= SINGLE_STEP {
            return vec![Step::new(positions, 0)];
        }
        let fine = Step::new(positions.iter().map(|position| position & 3).collect(), 0);
        let coarse = Step::new(positions.iter().map(|position| position & !3).collect(), fine.bits);
        vec![coarse, fine]
    }

    /// Bits of a place code; 0 where payload begins at one place only.
    pub(super) fn place_bits(&self) -> u32 {
        self.steps().iter().map(|step| step.bits).sum()
    }

    /// Each position with its place code: the fields of all steps.
    pub(super) fn places(&self) -> Vec<(u32, u32)> {
        let steps = self.steps();
        let code = |position: u32| match &steps[..] {
            [coarse, fine] => coarse.code(position & !3) | fine.code(position & 3),
            _ => steps[0].code(position),
        };
        self.positions()
            .into_iter()
            .map(|position| (position, code(position)))
            .collect()
    }
}

/// The choice whose number `index` has, where it has one of these numbers: a tree over the bits in which they differ.
pub(super) fn pick<'a>(index: Signal<'a>, choices: &[(u32, Signal<'a>)]) -> Signal<'a> {
    let differing = (0..index.width()).find(|bit| {
        let ones = choices.iter().filter(|(number, _)| number >> bit & 1 == 1).count();
        ones != 0 && ones != choices.len()
    });
    let Some(bit) = differing else { return choices[0].1 };
    let (ones, zeros): (Vec<_>, Vec<_>) = choices.iter().partition(|(number, _)| number >> bit & 1 == 1);
    index.bit(bit).mux(pick(index, &ones), pick(index, &zeros))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use spraynic_config::Preset;
    use spraynic_rtl::{Context, Evaluator};

    #[test]
    fn lengths_are_those_of_the_configuration() {
        for preset in [Preset::Lab, Preset::G25, Preset::G100, Preset::G400] {
            for (ipv4, ipv6, vlan) in [(true, true, true), (true, false, false), (false, true, true)] {
                let mut config = NicConfig::preset(preset);
                (config.wire.ipv4, config.wire.ipv6, config.wire.vlan) = (ipv4, ipv6, vlan);
                let geometry = Geometry::new(&config);
                let lengths = config.header_lengths();
                assert_eq!(Some(&geometry.max_header_bytes()), lengths.last());
                let offsets: BTreeSet<u32> = lengths.iter().map(|length| length % config.beat_bytes()).collect();
                let positions = geometry.positions();
                assert!(positions.iter().all(|words| offsets.contains(&(words * 4 + 2))));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn pick_finds_each_choice(numbers in prop::collection::btree_set(0u32..32, 1..12)) {
            let context = Context::new();
            let m = context.module("probe");
            let index = m.input("index", 5);
            let choices: Vec<_> = numbers.iter().map(|number| (*number, m.lit(number + 100, 8))).collect();
            m.output_of("choice", pick(index, &choices));
            if numbers.len() == 1 {
                index.ignore();
            }
            let mut run = Evaluator::new(m.finish());
            for number in numbers {
                run.set("index", number);
                prop_assert_eq!(run.get_u64("choice"), u64::from(number + 100));
            }
        }
    }
}
