//! `path_monitor`: knows of each path whether it can be used, and tells `spray_scheduler` when that changes.
//!
//! It judges paths by what is reported of them, replaces those that are out by backups of the same plane, and asks for probes of bad
//! ones. It never sees a packet, and keeps no time but that of the next round of probes. Theory of operation: `docs/src/blocks/path_monitor.md`.

use std::collections::VecDeque;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{PathEntry, PathEvent, PathEventKind, PathState, PathUpdate};

use crate::counter::count;
use crate::path_bits::PathBits;

/// Reports of packets that a path's history holds.
pub const HISTORY: u32 = 64;

/// Size of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Sets of paths.
    pub sets: usize,
    /// Places of a set, a power of two.
    pub entries: usize,
    /// Ports, 1 to 8.
    pub ports: usize,
}

impl Config {
    /// Planes of a set: the ports, rounded up to a power of two. The low bits of a place say its plane.
    #[must_use]
    pub fn planes(&self) -> usize {
        self.ports.next_power_of_two()
    }
}

impl From<&NicConfig> for Config {
    fn from(config: &NicConfig) -> Self {
        Self {
            sets: config.paths.sets as usize,
            entries: config.paths.entries as usize,
            ports: config.paths.ports as usize,
        }
    }
}

/// How paths are judged: ports of the block. The values after `default()` are those that the documentation recommends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Losses in the history of a path that make it bad, 1 to 64; 0 counts as 1.
    pub bad_after: u8,
    /// A packet that arrives clears the history of its path: it takes `bad_after` losses with nothing between them.
    pub delivered_clears: bool,
    /// Time between two rounds of probes, in nanoseconds, from 1; each round probes every bad path once.
    pub probe_interval_ns: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            bad_after: 2,
            delivered_clears: true,
            probe_interval_ns: 20_000,
        }
    }
}

/// Counters, as the ports `count_…` of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Paths that became bad by losses.
    pub bad_by_loss: u32,
    /// Paths that became bad because the peer said so.
    pub bad_by_peer: u32,
    /// Bad paths that an answered probe brought back.
    pub recovered: u32,
    /// Congestion that made a path be left out once: marks and trims.
    pub skipped: u32,
    /// Probes asked for.
    pub probes: u32,
    /// Entries refused: set, place or port beyond the configuration, or a port that is not the place's.
    pub drop_entry: u32,
    /// Events of no path, or of no known kind.
    pub drop_event: u32,
}

/// The updates that one event or entry makes, in order: at most four.
#[derive(Debug, Clone, Copy, Default)]
pub struct Updates {
    updates: [PathUpdate; 4],
    count: usize,
}

impl Updates {
    fn push(&mut self, update: PathUpdate) {
        self.updates[self.count] = update;
        self.count += 1;
    }

    /// All of them.
    #[must_use]
    pub fn as_slice(&self) -> &[PathUpdate] {
        &self.updates[..self.count]
    }
}

impl IntoIterator for Updates {
    type Item = PathUpdate;
    type IntoIter = std::iter::Take<std::array::IntoIter<PathUpdate, 4>>;

    fn into_iter(self) -> Self::IntoIter {
        self.updates.into_iter().take(self.count)
    }
}

/// A path.
#[derive(Debug, Clone, Copy, Default)]
struct Path {
    valid: bool,
    backup: bool,
    denied: bool,
    bad: bool,
    /// It stands in the ring of paths to probe.
    in_ring: bool,
    entropy: u32,
    /// The last reports, the newest in bit 0: 1 lost, 0 sent.
    history: u64,
}

/// What a path means for its plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// No path, or one that carries traffic, or a backup that cannot: nothing to do.
    None,
    /// A path, not a backup, that cannot be used: a backup is wanted.
    Out,
    /// A backup that can be used.
    Spare,
}

impl Path {
    fn role(&self) -> Role {
        let usable = !self.denied && !self.bad;
        match (self.valid, self.backup) {
            (true, true) if usable => Role::Spare,
            (true, false) if !usable => Role::Out,
            _ => Role::None,
        }
    }

    fn state(&self) -> PathState {
        match self {
            Self { valid: false, .. } => PathState::Absent,
            Self { denied: true, .. } => PathState::Denied,
            Self { bad: true, .. } => PathState::AssumedBad,
            Self { backup: true, .. } => PathState::Backup,
            _ => PathState::Good,
        }
    }
}

/// The backups of a plane. There are as many in use as paths are out, if there are so many.
#[derive(Debug, Clone, Copy, Default)]
struct Plane {
    /// Paths that are out.
    wanted: u32,
    /// Backups that wait, by their index in the plane.
    idle: PathBits,
    /// Backups in use.
    active: PathBits,
}

/// The block.
#[derive(Debug, Clone)]
pub struct PathMonitor {
    config: Config,
    settings: Settings,
    paths: Vec<Path>,
    planes: Vec<Plane>,
    /// Queue pair that sent last, by set.
    senders: Vec<u32>,
    /// Bad paths, and some that are so no longer: index among all.
    ring: VecDeque<u32>,
    /// Paths of the ring that this round has not looked at.
    round_left: usize,
    /// When the next round begins.
    next_round_ns: u64,
    counters: Counters,
}

impl PathMonitor {
    /// The block after reset: no path anywhere.
    #[must_use]
    pub fn new(config: Config, settings: Settings) -> Self {
        Self {
            config,
            settings,
            paths: vec![Path::default(); config.sets * config.entries],
            planes: vec![Plane::default(); config.sets * config.planes()],
            senders: vec![0; config.sets],
            ring: VecDeque::new(),
            round_left: 0,
            next_round_ns: 0,
            counters: Counters::default(),
        }
    }

    /// The host writes a path. Whatever stood there is gone; the new one begins without history.
    pub fn write_entry(&mut self, entry: &PathEntry) -> Updates {
        let mut updates = Updates::default();
        let (set, place) = (usize::from(entry.set), usize::from(entry.path));
        let port = place % self.config.planes();
        let fits = set < self.config.sets && place < self.config.entries && port < self.config.ports;
        if !fits || usize::from(entry.port) != port {
            count(&mut self.counters.drop_entry);
            return updates;
        }
        let index = set * self.config.entries + place;
        let old = self.paths[index];
        let gone = Path {
            in_ring: old.in_ring,
            ..Path::default()
        };
        if old.valid {
            self.change(index, gone, &mut updates);
        }
        if entry.valid {
            let path = Path {
                valid: true,
                backup: entry.backup,
                denied: entry.denied,
                entropy: entry.entropy,
                ..gone
            };
            self.change(index, path, &mut updates);
        }
        updates
    }

    /// Something happened on a path.
    pub fn event(&mut self, event: &PathEvent) -> Updates {
        use PathEventKind as Kind;
        let mut updates = Updates::default();
        let (set, place) = (usize::from(event.set), usize::from(event.path));
        let in_table = set < self.config.sets && place < self.config.entries;
        let index = if in_table { set * self.config.entries + place } else { 0 };
        let path = self.paths[index];
        let kind = Kind::from_code(event.kind).filter(|_| in_table && path.valid);
        let Some(kind) = kind else {
            count(&mut self.counters.drop_event);
            return updates;
        };
        if kind == Kind::Sent {
            self.senders[set] = event.qpn;
        }
        // A path that is out is brought back by an answered probe or by the host alone.
        if path.denied || path.bad {
            if kind == Kind::ProbeAnswered && path.bad {
                count(&mut self.counters.recovered);
                self.change(index, Path { bad: false, ..path }, &mut updates);
            }
            return updates;
        }
        let lost = kind == Kind::Lost;
        let arrived = !matches!(kind, Kind::Lost | Kind::Sent | Kind::SkipAlways | Kind::ProbeAnswered);
        let history = match kind {
            Kind::Sent | Kind::Lost => path.history << 1 | u64::from(lost),
            _ if arrived && self.settings.delivered_clears => 0,
            _ => path.history,
        };
        let by_loss = lost && history.count_ones() >= u32::from(self.settings.bad_after.max(1));
        let by_peer = kind == Kind::SkipAlways;
        if by_loss || by_peer {
            count(if by_peer {
                &mut self.counters.bad_by_peer
            } else {
                &mut self.counters.bad_by_loss
            });
            if !path.in_ring {
                self.ring.push_back(index as u32);
            }
            let path = Path {
                bad: true,
                in_ring: true,
                history: 0,
                ..path
            };
            self.change(index, path, &mut updates);
            return updates;
        }
        self.paths[index].history = history;
        if matches!(kind, Kind::Marked | Kind::Trimmed) {
            count(&mut self.counters.skipped);
            // Whoever leaves a path out once does not ask for its entropy value.
            updates.push(PathUpdate {
                entropy: 0,
                ..self.update(index, PathState::Skip)
            });
        }
        updates
    }

    /// The next probe that is due: to be called until it gives none. A round begins when its time has come and the one before it is over.
    pub fn probe(&mut self, now_ns: u64) -> Option<PathUpdate> {
        if self.round_left == 0 && now_ns >= self.next_round_ns {
            self.round_left = self.ring.len();
            self.next_round_ns = now_ns + u64::from(self.settings.probe_interval_ns.max(1));
        }
        while self.round_left > 0 {
            self.round_left -= 1;
            let Some(index) = self.ring.pop_front() else { break };
            let path = &mut self.paths[index as usize];
            if path.valid && path.bad {
                self.ring.push_back(index);
                count(&mut self.counters.probes);
                let qpn = self.senders[index as usize / self.config.entries];
                return Some(PathUpdate {
                    qpn,
                    ..self.update(index as usize, PathState::AssumedBad)
                });
            }
            path.in_ring = false;
        }
        None
    }

    /// When [`PathMonitor::probe`] is to be called again after it gave none: the beginning of the next round; `None`: there is no bad path.
    #[must_use]
    pub fn next_probe_ns(&self) -> Option<u64> {
        (!self.ring.is_empty()).then_some(self.next_round_ns)
    }

    /// State of a path, as `spray_scheduler` was told: a backup in use is good.
    #[must_use]
    pub fn state(&self, set: usize, place: usize) -> PathState {
        let planes = self.config.planes();
        match self.paths.get(set * self.config.entries + place).map(Path::state) {
            Some(PathState::Backup) if self.planes[set * planes + place % planes].active.get(place / planes) => {
                PathState::Good
            }
            state => state.unwrap_or(PathState::Absent),
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn update(&self, index: usize, state: PathState) -> PathUpdate {
        let place = index % self.config.entries;
        PathUpdate {
            set: (index / self.config.entries) as u16,
            state: state as u8,
            reserved_0: false,
            path: place as u8,
            port: (place % self.config.planes()) as u8,
            reserved_1: 0,
            entropy: self.paths[index].entropy,
            qpn: 0,
        }
    }

    /// A path becomes another one; its plane gets one backup more or less where that is due.
    fn change(&mut self, index: usize, path: Path, updates: &mut Updates) {
        let planes = self.config.planes();
        let (set, place) = (index / self.config.entries, index % self.config.entries);
        let (plane_index, bit) = (set * planes + place % planes, place / planes);
        let old = std::mem::replace(&mut self.paths[index], path);
        updates.push(self.update(index, path.state()));

        let plane = &mut self.planes[plane_index];
        match old.role() {
            Role::None => {}
            Role::Out => plane.wanted -= 1,
            Role::Spare => {
                plane.idle.set(bit, false);
                plane.active.set(bit, false);
            }
        }
        match path.role() {
            Role::None => {}
            Role::Out => plane.wanted += 1,
            Role::Spare => plane.idle.set(bit, true),
        }
        let in_use = plane.active.count();
        let (moved, to_use) = if in_use < plane.wanted {
            (plane.idle.first(), true)
        } else if in_use > plane.wanted {
            (plane.active.first(), false)
        } else {
            (None, false)
        };
        if let Some(bit) = moved {
            plane.idle.set(bit, !to_use);
            plane.active.set(bit, to_use);
            let backup = set * self.config.entries + bit * planes + place % planes;
            let state = if to_use { PathState::Good } else { PathState::Backup };
            updates.push(self.update(backup, state));
        }
    }
}

#[cfg(test)]
#[path = "path_monitor_tests.rs"]
mod tests;
