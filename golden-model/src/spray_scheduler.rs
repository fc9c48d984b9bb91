//! `spray_scheduler`: chooses for each packet the path, and with it the port, as late as the headers allow.
//!
//! It keeps the order of paths of each set and the recycled paths of each queue pair. What is known of a path it is told by `path_monitor`; it
//! judges nothing, and never changes or delays anything else of a packet. Theory of operation: `docs/src/blocks/spray_scheduler.md`.

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    PacketDescriptor, PacketOrigin, PathEvent, PathState, PathUpdate, SendContext, SentPacket, SprayPolicy,
};

use crate::counter::count;
use crate::path_bits::PathBits;
use crate::reorder_buffer::is_answered_with_data;

mod recycled;

use recycled::Recycled;

/// State of the random numbers after reset: any number but 0.
pub const RANDOM_SEED: u32 = 0x2545_F491;

/// Size of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Sets of paths.
    pub sets: usize,
    /// Places of a set, a power of two.
    pub entries: usize,
    /// Ports, 1 to 8.
    pub ports: usize,
    /// Queue pairs that have a SendContext.
    pub queue_pairs: usize,
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
            queue_pairs: config.send_queue_pairs() as usize,
        }
    }
}

/// Counters, as the ports `count_…` of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets given.
    pub packets: u32,
    /// Packets that took a recycled path.
    pub recycled: u32,
    /// Packets of `adaptive` and `reps` for which no port that is up had a good path.
    pub last_resort: u32,
    /// Packets whose set has no path at all.
    pub no_path: u32,
    /// Packets given to a port that is down.
    pub port_down: u32,
    /// Path updates refused: set, place or port beyond the configuration.
    pub drop_update: u32,
}

/// State of the ports, a bit each: port 0 in bit 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// The link is up.
    pub up: u8,
    /// There is room for another frame.
    pub room: u8,
}

/// A packet with its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduled {
    /// The packet, with entropy value and port.
    pub descriptor: PacketDescriptor,
    /// What `retransmit_engine` is told: nothing of packets that are not tracked.
    pub sent: Option<SentPacket>,
}

/// The next number of xorshift32 (shifts 13, 17, 5), whose period is 2^32 - 1 \[Marsaglia 2003, "Xorshift RNGs"\].
#[must_use]
pub fn next_random(mut state: u32) -> u32 {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    state
}

/// What stands for a queue pair where `single` chooses: three steps of [`next_random`] from its number.
#[must_use]
pub fn queue_pair_hash(qpn: u32) -> u32 {
    next_random(next_random(next_random(qpn | 1 << 24)))
}

/// Paths of one set that leave by one port.
#[derive(Debug, Clone, Copy, Default)]
struct Plane {
    /// Those that are used.
    good: PathBits,
    /// Of those, the ones that the next rotation leaves out.
    marked: PathBits,
    /// Of those, the ones that this rotation has not come to: never empty where `good` is not.
    remaining: PathBits,
    /// Those that are assumed bad: the last resort.
    bad: PathBits,
    /// Turn of the policies that take good and bad alike: how many stand before the next one.
    rank: u32,
}

impl Plane {
    /// Begins a rotation where the one before is over.
    fn renew(&mut self) {
        if self.remaining.any() {
            return;
        }
        let unmarked = self.good.without(&self.marked);
        self.remaining = if unmarked.any() { unmarked } else { self.good };
        self.marked = PathBits::default();
    }

    fn set_state(&mut self, bit: usize, state: Option<PathState>) {
        if state == Some(PathState::Skip) {
            // Its next turn is left out: in this rotation if it is still to come, in the next one otherwise.
            if self.remaining.get(bit) {
                self.remaining.set(bit, false);
            } else {
                self.marked.set(bit, self.good.get(bit));
            }
        } else {
            let good = state == Some(PathState::Good);
            self.good.set(bit, good);
            self.remaining.set(bit, good);
            self.marked.set(bit, false);
            self.bad.set(bit, state == Some(PathState::AssumedBad));
        }
        self.renew();
    }

    /// The next path of the rotation.
    fn rotate(&mut self) -> usize {
        let bit = self.remaining.first().unwrap_or(0);
        self.remaining.set(bit, false);
        self.renew();
        bit
    }
}

/// A set of paths.
#[derive(Debug, Clone)]
struct Set {
    planes: Vec<Plane>,
    /// Port that is asked first.
    next_port: usize,
}

/// What a SendContext says.
#[derive(Debug, Clone, Copy)]
struct QueuePair {
    policy: SprayPolicy,
    set: u16,
    entropy: u32,
}

/// How a path is chosen, once its port is known.
#[derive(Debug, Clone, Copy)]
enum Choice {
    Entropy(u32),
    Rotation { recycled: Option<usize> },
    Turn,
    Fraction(u16),
}

/// The block.
#[derive(Debug, Clone)]
pub struct SprayScheduler {
    config: Config,
    queue_pairs: Vec<Option<QueuePair>>,
    recycled: Vec<Recycled>,
    sets: Vec<Set>,
    entropy: Vec<u32>,
    random: u32,
    counters: Counters,
}

impl SprayScheduler {
    /// The block after reset: no queue pair, no path.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let set = Set {
            planes: vec![Plane::default(); config.planes()],
            next_port: 0,
        };
        Self {
            config,
            queue_pairs: vec![None; config.queue_pairs],
            recycled: vec![Recycled::default(); config.queue_pairs],
            sets: vec![set; config.sets],
            entropy: vec![0; config.sets * config.entries],
            random: RANDOM_SEED,
            counters: Counters::default(),
        }
    }

    /// The context of a queue pair is written: it has no recycled paths then. One beyond the table is ignored.
    pub fn write_context(&mut self, context: &SendContext) {
        let index = context.qpn as usize;
        let Some(queue_pair) = self.queue_pairs.get_mut(index) else {
            return;
        };
        *queue_pair = Some(QueuePair {
            policy: SprayPolicy::from_code(context.policy).unwrap_or(SprayPolicy::Fixed),
            set: context.path_set,
            entropy: context.entropy,
        });
        self.recycled[index] = Recycled::default();
    }

    /// The set of paths of a queue pair; `None`: it has no context.
    #[must_use]
    pub fn path_set(&self, qpn: u32) -> Option<u16> {
        let queue_pair = self.queue_pairs.get(qpn as usize)?.as_ref()?;
        Some(queue_pair.set)
    }

    /// A path changes. Its entropy value is taken from whatever says more than that it is to be left out once.
    pub fn update(&mut self, update: &PathUpdate) {
        let (set, place) = (usize::from(update.set), usize::from(update.path));
        let planes = self.config.planes();
        if set >= self.config.sets || place >= self.config.entries || place % planes >= self.config.ports {
            count(&mut self.counters.drop_update);
            return;
        }
        let state = PathState::from_code(update.state);
        if state != Some(PathState::Skip) {
            self.entropy[set * self.config.entries + place] = update.entropy;
        }
        self.sets[set].planes[place % planes].set_state(place / planes, state);
    }

    /// A packet came back unmarked ([`PathEventKind::Acknowledged`](spraynic_config::descriptor::PathEventKind)): its path may be used again. Others are ignored, and those of
    /// queue pairs that do not recycle or use another set.
    pub fn recycle(&mut self, event: &PathEvent) {
        use spraynic_config::descriptor::PathEventKind::Acknowledged;
        let index = event.qpn as usize;
        let Some(Some(queue_pair)) = self.queue_pairs.get(index) else {
            return;
        };
        let fits = usize::from(event.path) < self.config.entries && event.set == queue_pair.set;
        if event.kind == Acknowledged as u8 && queue_pair.policy == SprayPolicy::Reps && fits {
            self.recycled[index].push(event.path);
        }
    }

    /// Chooses the path of a packet; `None` where it must wait for room on a port. Nothing has changed then.
    pub fn choose(&mut self, descriptor: &PacketDescriptor, origin: &PacketOrigin, ports: Ports) -> Option<Scheduled> {
        let index = descriptor.qpn as usize;
        let queue_pair = self.queue_pairs.get(index).copied().flatten();
        // Who has no path to choose leaves by the lowest port that is up.
        let direct = first_from(ports.up, 0, self.config.ports);
        let (port, choice) = match queue_pair {
            None => (direct, Choice::Entropy(descriptor.entropy)),
            Some(queue_pair) if queue_pair.policy == SprayPolicy::Fixed => {
                (direct, Choice::Entropy(queue_pair.entropy))
            }
            Some(queue_pair) => match self.sprayed(index, queue_pair, ports)? {
                Some(chosen) => chosen,
                None => {
                    self.wait_for(direct, ports)?;
                    count(&mut self.counters.no_path);
                    (direct, Choice::Entropy(queue_pair.entropy))
                }
            },
        };
        self.wait_for(port, ports)?;
        let set = queue_pair.map_or(0, |queue_pair| usize::from(queue_pair.set));
        let (path, entropy) = self.path(set, port, choice);

        count(&mut self.counters.packets);
        if ports.up >> port & 1 == 0 {
            count(&mut self.counters.port_down);
        }
        let sent = SentPacket {
            qpn: descriptor.qpn,
            psn: descriptor.psn,
            psns: origin.psns,
            slot: origin.slot,
            path: path as u8,
            port: port as u8,
            class: origin.class,
            space: origin.space,
            last: origin.last,
            retransmission: origin.retransmission,
            response: is_answered_with_data(descriptor.opcode),
            entropy: entropy as u16,
            ..SentPacket::default()
        };
        Some(Scheduled {
            descriptor: PacketDescriptor {
                entropy,
                port: port as u8,
                ..*descriptor
            },
            sent: origin.tracked.then_some(sent),
        })
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A port that is up must have room; one that is down loses the packet anyway.
    fn wait_for(&self, port: usize, ports: Ports) -> Option<()> {
        ((ports.room | !ports.up) >> port & 1 == 1).then_some(())
    }

    /// Port and way of choice of a queue pair with a set: outer `None` where it must wait, inner where its set has no path.
    #[allow(clippy::option_option)]
    fn sprayed(&mut self, index: usize, queue_pair: QueuePair, ports: Ports) -> Option<Option<(usize, Choice)>> {
        let Some(set) = self.sets.get_mut(usize::from(queue_pair.set)) else {
            return Some(None);
        };
        let mask = |has: &dyn Fn(&Plane) -> bool| -> u8 {
            let planes = set.planes.iter().enumerate();
            planes.fold(0, |mask, (port, plane)| mask | u8::from(has(plane)) << port)
        };
        let good = mask(&|plane| plane.good.any());
        let bad = mask(&|plane| plane.bad.any());
        if good | bad == 0 {
            return Some(None);
        }
        let judges = matches!(queue_pair.policy, SprayPolicy::Adaptive | SprayPolicy::Reps);
        let rotates = judges && ports.up & good != 0;
        let wanted = if rotates { good } else { good | bad };
        let up = ports.up & wanted;
        let single = queue_pair.policy == SprayPolicy::Single;
        let candidates = match (up, single) {
            (0, _) => wanted,
            (_, true) => up,
            (_, false) => up & ports.room,
        };
        if candidates == 0 {
            return None;
        }
        let planes = set.planes.len();
        // What came back is looked at whatever the ports say, so that the ring of a queue pair does not depend on them.
        let mut ring = self.recycled[index];
        let recycled = (queue_pair.policy == SprayPolicy::Reps)
            .then(|| ring.next(bad != 0))
            .flatten()
            .map(usize::from);
        let random = next_random(self.random);
        let hash = queue_pair_hash(index as u32);
        let first = match queue_pair.policy {
            SprayPolicy::Single => hash as usize % planes,
            SprayPolicy::Random => random as usize % planes,
            _ => set.next_port,
        };
        let recycled = recycled.filter(|path| rotates && candidates >> (path % planes) & 1 == 1);
        let port = recycled.map_or_else(|| first_from(candidates, first, planes), |path| path % planes);
        if single && up != 0 && ports.room >> port & 1 == 0 {
            return None;
        }
        self.recycled[index] = ring;
        if judges && !rotates {
            count(&mut self.counters.last_resort);
        }
        let choice = match queue_pair.policy {
            _ if rotates => Choice::Rotation { recycled },
            SprayPolicy::Single => Choice::Fraction((hash >> 16) as u16),
            SprayPolicy::Random => Choice::Fraction((random >> 16) as u16),
            _ => Choice::Turn,
        };
        match queue_pair.policy {
            SprayPolicy::Single => {}
            SprayPolicy::Random => self.random = random,
            _ if recycled.is_some() => {}
            _ => set.next_port = (port + 1) % planes,
        }
        Some(Some((port, choice)))
    }

    /// The path of a packet whose port is known, and its entropy value.
    fn path(&mut self, set: usize, port: usize, choice: Choice) -> (usize, u32) {
        if let Choice::Entropy(entropy) = choice {
            return (0, entropy);
        }
        let planes = self.config.planes();
        let plane = &mut self.sets[set].planes[port];
        let all = plane.good.or(&plane.bad);
        let bit = match choice {
            Choice::Rotation { recycled: Some(path) } if plane.good.get(path / planes) => {
                count(&mut self.counters.recycled);
                Some(path / planes)
            }
            Choice::Rotation { .. } => Some(plane.rotate()),
            Choice::Fraction(fraction) => all.nth((u32::from(fraction) * all.count()) >> 16),
            Choice::Turn | Choice::Entropy(_) => {
                let rank = if plane.rank < all.count() { plane.rank } else { 0 };
                plane.rank = rank + 1;
                all.nth(rank)
            }
        };
        let place = bit.unwrap_or(0) * planes + port;
        (place, self.entropy[set * self.config.entries + place])
    }
}

/// The first port of a mask from one on, around the end; 0 where the mask is empty.
#[must_use]
pub(crate) fn first_from(mask: u8, first: usize, planes: usize) -> usize {
    let around = (first..planes).chain(0..first);
    around.into_iter().find(|port| mask >> port & 1 == 1).unwrap_or(0)
}

#[cfg(test)]
#[path = "spray_scheduler_tests.rs"]
mod tests;
