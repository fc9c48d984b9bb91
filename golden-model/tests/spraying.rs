//! path_monitor and spray_scheduler together, over eight paths that lose at random or die: what retiring paths costs, and how soon it happens.
//!
//! Time is that of 100 Gb/s with packets of 4 KiB and a round trip of 6 us. Feedback is ideal: each fate is told one round trip after its packet.

use std::collections::VecDeque;

use spraynic_config::descriptor::{
    PacketDescriptor, PacketOrigin, PathEntry, PathEvent, PathEventKind as Kind, PathState, SendContext, SprayPolicy,
};
use spraynic_golden::path_monitor::{self, PathMonitor, Settings};
use spraynic_golden::spray_scheduler::{self, Ports, SprayScheduler, next_random};

/// Nanoseconds between two packets.
const PACKET_NS: u64 = 340;
/// Nanoseconds of a round trip.
const RTT_NS: u64 = 6000;
const PATHS: u8 = 8;

/// Losses of a run, and what they did.
struct Run {
    monitor: PathMonitor,
    scheduler: SprayScheduler,
    random: u32,
    /// What will be told, and when.
    feedback: VecDeque<(u64, PathEvent)>,
    now_ns: u64,
    /// Packets by path since the last reset of the count.
    by_path: [u32; PATHS as usize],
    /// Sum over all packets of the paths that were good.
    good_paths: u64,
    packets: u64,
}

impl Run {
    fn new(settings: Settings) -> Self {
        let (sets, entries, ports) = (1, 8, 1);
        let mut monitor = PathMonitor::new(path_monitor::Config { sets, entries, ports }, settings);
        let mut scheduler = SprayScheduler::new(spray_scheduler::Config {
            sets,
            entries,
            ports,
            queue_pairs: 2,
        });
        scheduler.write_context(&SendContext {
            policy: SprayPolicy::Adaptive as u8,
            ..SendContext::default()
        });
        for path in 0..PATHS {
            let entry = PathEntry {
                path,
                valid: true,
                ..PathEntry::default()
            };
            for update in monitor.write_entry(&entry) {
                scheduler.update(&update);
            }
        }
        Self {
            monitor,
            scheduler,
            random: 1,
            feedback: VecDeque::new(),
            now_ns: 0,
            by_path: [0; PATHS as usize],
            good_paths: 0,
            packets: 0,
        }
    }

    fn tell(&mut self, event: &PathEvent) {
        for update in self.monitor.event(event) {
            self.scheduler.update(&update);
        }
    }

    fn is_lost(&mut self, per_mille: u32) -> bool {
        self.random = next_random(self.random);
        self.random % 1000 < per_mille
    }

    /// One packet; `dead` loses everything, probes too.
    fn packet(&mut self, per_mille: u32, dead: Option<u8>) {
        self.now_ns += PACKET_NS;
        while self.feedback.front().is_some_and(|(at, _)| *at <= self.now_ns) {
            let told = self.feedback.pop_front();
            told.iter().for_each(|(_, event)| self.tell(event));
        }
        while let Some(probe) = self.monitor.probe(self.now_ns) {
            if !self.is_lost(per_mille) && dead != Some(probe.path) {
                let answer = self.event(probe.path, Kind::ProbeAnswered);
                self.feedback.push_back((self.now_ns + RTT_NS, answer));
            }
        }
        let good = (0..usize::from(PATHS)).filter(|path| self.monitor.state(0, *path) == PathState::Good);
        self.good_paths += good.count() as u64;
        self.packets += 1;
        let origin = PacketOrigin {
            tracked: true,
            ..PacketOrigin::default()
        };
        let open = Ports { up: 1, room: 1 };
        let path = self
            .scheduler
            .choose(&PacketDescriptor::default(), &origin, open)
            .and_then(|scheduled| scheduled.sent)
            .map_or(0, |sent| sent.path);
        self.by_path[usize::from(path)] += 1;
        self.tell(&self.event(path, Kind::Sent));
        let lost = self.is_lost(per_mille) || dead == Some(path);
        let fate = self.event(path, if lost { Kind::Lost } else { Kind::Delivered });
        self.feedback.push_back((self.now_ns + RTT_NS, fate));
    }

    fn event(&self, path: u8, kind: Kind) -> PathEvent {
        PathEvent {
            set: 0,
            kind: kind as u8,
            path,
            qpn: 0,
        }
    }

    /// Share of the paths that were good, of 1.
    fn availability(&self) -> f64 {
        self.good_paths as f64 / (self.packets * u64::from(PATHS)) as f64
    }
}

/// The numbers of docs/src/blocks/path_monitor.md.
#[test]
fn one_percent_of_random_loss_costs_a_thousandth_of_the_paths() {
    let mut figures = vec![];
    for (bad_after, delivered_clears) in [(2, true), (2, false), (1, false)] {
        let mut run = Run::new(Settings {
            bad_after,
            delivered_clears,
            ..Settings::default()
        });
        (0..100_000).for_each(|_| run.packet(10, None));
        figures.push((run.monitor.counters().bad_by_loss, run.availability()));
    }
    println!("retired and available: {figures:?}");
    let [default, two_of_64, one] = figures[..] else {
        unreachable!()
    };
    assert!((2..25).contains(&default.0) && default.1 > 0.995, "{default:?}");
    assert!((250..550).contains(&two_of_64.0) && two_of_64.1 > 0.93, "{two_of_64:?}");
    assert!((700..1100).contains(&one.0) && one.1 < 0.95, "{one:?}");
}

#[test]
fn a_dead_path_is_left_within_two_round_trips_and_taken_back_when_it_lives() {
    for moment in 0..100 {
        let mut run = Run::new(Settings::default());
        (0..1000 + 37 * moment).for_each(|_| run.packet(0, None));
        run.by_path = [0; PATHS as usize];
        // 36 packets are two round trips: by then both losses are told.
        (0..36).for_each(|_| run.packet(0, Some(3)));
        let wasted = run.by_path[3];
        assert!((2..=5).contains(&wasted), "{wasted} packets into a dead path");
        run.by_path = [0; PATHS as usize];
        (0..7000).for_each(|_| run.packet(0, Some(3)));
        assert_eq!(run.by_path, [1000, 1000, 1000, 0, 1000, 1000, 1000, 1000]);
        // It lives again: the next round of probes and its answer bring it back.
        let back = (0..1000).position(|_| {
            run.packet(0, None);
            run.monitor.state(0, 3) == PathState::Good
        });
        let soon = (u64::from(Settings::default().probe_interval_ns) + RTT_NS) / PACKET_NS + 2;
        assert!(back.is_some_and(|packets| packets as u64 <= soon), "{back:?}");
    }
}
