//! The paths of a queue pair whose packets came back unmarked: a ring of eight, as policy `reps` keeps it.
//!
//! It knows places of paths alone, not whether they are still good.

/// Places of the ring.
const PLACES: u8 = 8;

/// The ring.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Recycled {
    paths: [u8; PLACES as usize],
    /// Place that is written next.
    write: u8,
    /// The newest ones that have not been used again.
    fresh: u8,
    /// Places that were ever written.
    filled: u8,
    /// Place that is used next while frozen.
    cursor: u8,
}

impl Recycled {
    /// A path came back: it takes the place of the oldest one.
    pub(super) fn push(&mut self, path: u8) {
        self.paths[usize::from(self.write)] = path;
        self.write = (self.write + 1) % PLACES;
        self.fresh = (self.fresh + 1).min(PLACES);
        self.filled = (self.filled + 1).min(PLACES);
    }

    /// The path to use again: each once, the oldest first; while `frozen` all that the ring holds in turn, for nothing new is to be tried then.
    pub(super) fn next(&mut self, frozen: bool) -> Option<u8> {
        if frozen {
            if self.filled == 0 {
                return None;
            }
            let place = if self.cursor < self.filled { self.cursor } else { 0 };
            self.cursor = (place + 1) % PLACES;
            return Some(self.paths[usize::from(place)]);
        }
        if self.fresh == 0 {
            return None;
        }
        let place = (self.write + PLACES - self.fresh) % PLACES;
        self.fresh -= 1;
        Some(self.paths[usize::from(place)])
    }
}
