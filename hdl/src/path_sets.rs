//! How sets of paths lie in words: the low bits of a place are its port, the others its index in the plane of that port.

use spraynic_config::NicConfig;
use spraynic_rtl::{Module, Signal, cat_lsb_first};

/// Sizes of the tables of paths.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathSets {
    /// Sets.
    pub(crate) sets: u32,
    /// Places of a set.
    pub(crate) entries: u32,
    /// Ports.
    pub(crate) ports: u32,
}

impl From<&NicConfig> for PathSets {
    fn from(config: &NicConfig) -> Self {
        Self {
            sets: config.paths.sets,
            entries: config.paths.entries,
            ports: config.paths.ports,
        }
    }
}

impl PathSets {
    /// Planes of a set: the ports, rounded up to a power of two.
    pub(crate) fn planes(self) -> u32 {
        self.ports.next_power_of_two()
    }

    /// Places of a plane.
    pub(crate) fn plane_places(self) -> u32 {
        self.entries / self.planes()
    }

    /// Bits of the index of a set, at least 1.
    pub(crate) fn set_bits(self) -> u32 {
        self.sets.trailing_zeros().max(1)
    }

    /// Bits of a place.
    pub(crate) fn place_bits(self) -> u32 {
        self.entries.trailing_zeros()
    }

    /// Bits of a port, of the index of a plane in the tables: at least 1.
    pub(crate) fn port_bits(self) -> u32 {
        self.planes().trailing_zeros().max(1)
    }

    /// Bits of the index of a place in its plane: at least 1.
    pub(crate) fn bit_bits(self) -> u32 {
        self.plane_places().trailing_zeros().max(1)
    }

    /// The port of a place.
    pub(crate) fn port_of(self, place: Signal<'_>) -> Signal<'_> {
        if self.planes() == 1 {
            place.module().lit(0, 1)
        } else {
            place.part(0, self.port_bits())
        }
    }

    /// The index of a place in its plane.
    pub(crate) fn bit_of(self, place: Signal<'_>) -> Signal<'_> {
        if self.plane_places() == 1 {
            place.module().lit(0, 1)
        } else {
            place.part(self.planes().trailing_zeros(), self.bit_bits())
        }
    }

    /// The place, 8 bits, of an index in the plane of a port.
    pub(crate) fn place<'a>(self, bit: Signal<'a>, port: Signal<'a>) -> Signal<'a> {
        let mut parts = vec![];
        if self.planes() > 1 {
            parts.push(port);
        }
        if self.plane_places() > 1 {
            parts.push(bit);
        }
        cat_lsb_first(&parts).zero_extend(8)
    }

    /// Index of a path among those of all sets.
    pub(crate) fn path_index<'a>(self, set: Signal<'a>, place: Signal<'a>) -> Signal<'a> {
        cat_lsb_first(&[place.part(0, self.place_bits()), set])
    }

    /// Words of a table of all paths, as [`PathSets::path_index`] numbers them.
    pub(crate) fn paths(self) -> u32 {
        self.entries << self.set_bits()
    }

    /// Index of a plane among those of all sets.
    pub(crate) fn plane_index<'a>(self, set: Signal<'a>, port: Signal<'a>) -> Signal<'a> {
        if self.planes() == 1 {
            return set;
        }
        cat_lsb_first(&[port, set])
    }

    /// Words of a table of all planes, as [`PathSets::plane_index`] numbers them.
    pub(crate) fn all_planes(self) -> u32 {
        self.planes() << self.set_bits()
    }

    /// Whether a set (12 bits) is in the tables.
    pub(crate) fn set_fits(self, set: Signal<'_>) -> Signal<'_> {
        match self.sets.trailing_zeros() {
            12 => set.module().high(),
            bits => !(set >> bits).any(),
        }
    }

    /// Whether a set (12 bits) and a place (8 bits) are in the tables, and the place is of a port that there is.
    pub(crate) fn holds<'a>(self, set: Signal<'a>, place: Signal<'a>) -> Signal<'a> {
        let m = set.module();
        let place_fits = if self.place_bits() == 8 {
            m.high()
        } else {
            place.lt(m.lit(self.entries, 8))
        };
        let port_fits = if self.ports == self.planes() {
            m.high()
        } else {
            self.port_of(place).lt(m.lit(self.ports, self.port_bits()))
        };
        self.set_fits(set) & place_fits & port_fits
    }
}

/// The lowest one of a vector, one-hot: groups of 16, whose order is found beside what is lowest in each.
pub(crate) fn lowest(vector: Signal<'_>) -> Signal<'_> {
    let width = vector.width();
    if width <= GROUP {
        return lowest_of_group(vector);
    }
    let groups: Vec<Signal<'_>> = (0..width)
        .step_by(GROUP as usize)
        .map(|low| vector.part(low, GROUP.min(width - low)))
        .collect();
    let any: Vec<Signal<'_>> = groups.iter().map(|group| group.any()).collect();
    let first = lowest_of_group(cat_lsb_first(&any));
    let picked: Vec<Signal<'_>> = groups
        .iter()
        .enumerate()
        .map(|(index, group)| lowest_of_group(*group).gate(first.bit(index as u32)))
        .collect();
    cat_lsb_first(&picked)
}

/// Bits that are searched in one piece.
pub(crate) const GROUP: u32 = 16;

fn lowest_of_group(vector: Signal<'_>) -> Signal<'_> {
    let bits = vector.to_bits();
    let picked: Vec<Signal<'_>> = (0..bits.len())
        .map(|index| match index {
            0 => bits[0],
            _ => bits[index] & !vector.part(0, index as u32).any(),
        })
        .collect();
    cat_lsb_first(&picked)
}

/// Whether more than one bit is set.
pub(crate) fn several(vector: Signal<'_>) -> Signal<'_> {
    let width = vector.width();
    if width == 1 {
        return vector.module().low();
    }
    // One in each half, or several in one.
    let (low, high) = (vector.part(0, width / 2), vector.part(width / 2, width - width / 2));
    (low.any() & high.any()) | several(low) | several(high)
}

/// The number of a one-hot bit; 0 where none is set. One bit at least.
pub(crate) fn encode(one_hot: Signal<'_>) -> Signal<'_> {
    let m = one_hot.module();
    let width = one_hot.width();
    if width == 1 {
        return m.lit(0, 1);
    }
    let bits = (0..spraynic_rtl::index_width(u64::from(width))).map(|bit| {
        let ones: Vec<Signal<'_>> = (0..width)
            .filter(|index| index >> bit & 1 == 1)
            .map(|index| one_hot.bit(index))
            .collect();
        cat_lsb_first(&ones).any()
    });
    cat_lsb_first(&bits.collect::<Vec<_>>())
}

/// One-hot from a number.
pub(crate) fn decode<'a>(m: Module<'a>, number: Signal<'a>, width: u32) -> Signal<'a> {
    let bits = (0..width).map(|index| number.eq(m.lit(index, number.width())));
    cat_lsb_first(&bits.collect::<Vec<_>>())
}

/// How many bits are set, as a number of `width` bits, in one clock: for few bits.
pub(crate) fn count_ones(vector: Signal<'_>, width: u32) -> Signal<'_> {
    let bits = vector.width();
    if bits == 1 {
        return vector.zero_extend(width);
    }
    let (low, high) = (vector.part(0, bits / 2), vector.part(bits / 2, bits - bits / 2));
    let half = spraynic_rtl::index_width(u64::from(bits - bits / 2) + 1).min(width);
    let sum = count_ones(low, half).add_wide(count_ones(high, half));
    sum.resize(width)
}

/// The first set bit of a vector of at most 8 from place `first` on, around the end: one-hot. The vector has 2^n bits and `first` n.
pub(crate) fn first_from<'a>(vector: Signal<'a>, first: Signal<'a>) -> Signal<'a> {
    let width = vector.width();
    if width == 1 {
        return vector;
    }
    let rotated = |by: u32| {
        if by == 0 {
            vector
        } else {
            cat_lsb_first(&[vector.part(by, width - by), vector.part(0, by)])
        }
    };
    let choices: Vec<Signal<'a>> = (0..width)
        .map(|by| {
            let picked = lowest_of_group(rotated(by));
            if by == 0 {
                picked
            } else {
                cat_lsb_first(&[picked.part(width - by, by), picked.part(0, width - by)])
            }
        })
        .collect();
    first.select(&choices)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spraynic_rtl::{Bits, Context, Evaluator};

    #[test]
    fn searches_find_what_a_loop_finds() {
        for width in [1u32, 2, 5, 16, 32, 64] {
            let context = Context::new();
            let m = context.module("probe");
            let vector = m.input("vector", width);
            m.output_of("lowest", lowest(vector));
            m.output_of("several", several(vector));
            m.output_of("number", encode(lowest(vector)));
            m.output_of("ones", count_ones(vector, 7));
            let mut run = Evaluator::new(m.finish());
            let mut value = 1u64;
            for round in 0..200 {
                value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let dense = value >> (round % 60);
                let vector = dense & (u64::MAX >> (64 - width));
                run.set("vector", Bits::from_bytes(width, &vector.to_le_bytes()));
                let lowest = vector & vector.wrapping_neg();
                assert_eq!(run.get_u64("lowest"), lowest, "{vector:x}");
                assert_eq!(run.get_u64("several"), u64::from(vector.count_ones() > 1));
                assert_eq!(run.get_u64("ones"), u64::from(vector.count_ones()));
                let number = if vector == 0 { 0 } else { vector.trailing_zeros() };
                assert_eq!(run.get_u64("number"), u64::from(number));
            }
        }
    }

    #[test]
    fn the_first_from_a_place_on_is_found_around_the_end() {
        for width in [1u32, 2, 4, 8] {
            let context = Context::new();
            let m = context.module("probe");
            let bits = spraynic_rtl::index_width(u64::from(width)).max(1);
            let first = m.input("first", bits);
            m.output_of("picked", first_from(m.input("vector", width), first));
            if width == 1 {
                first.ignore();
            }
            let mut run = Evaluator::new(m.finish());
            for vector in 0..1u64 << width {
                for first in 0..width {
                    run.set("vector", vector);
                    run.set("first", u64::from(first));
                    let places = (first..width).chain(0..first);
                    let expected = places.into_iter().find(|place| vector >> place & 1 == 1);
                    assert_eq!(run.get_u64("picked"), expected.map_or(0, |place| 1 << place));
                }
            }
        }
    }
}
