//! Devices and the paths between them, on one clock.
//!
//! A frame leaves a device when the wire of its port is free, takes one of the paths of its plane to the destination by its entropy, and
//! comes through the wire of the destination's port, which has a queue of its own. The world moves frames and time; what is sent it does not know.

use crate::device::{Activity, Device};
use crate::events::{Events, Next};
use crate::log::{Log, What};
use crate::path::{Delivery, Path, PathCounters, PathSpec, wire_bytes};
use crate::time::Picoseconds;

/// How frames find their path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spreading {
    /// The UDP source port modulo the count of paths.
    #[default]
    Modulo,
    /// A hash of the source port and the flow label, as a switch has it.
    Hash,
}

/// Paths from one device to another, and the wires of the ports.
#[derive(Debug, Clone, PartialEq)]
pub struct Wiring {
    /// Paths of each plane, the same between any two devices: `paths[port]`.
    pub paths: Vec<Vec<PathSpec>>,
    /// Rate of a port, in Mb/s.
    pub port_mbps: u64,
    /// Bytes that the last switch holds for a port, and from which on it marks; see [`PathSpec`].
    pub downlink: PathSpec,
    /// How frames find their path.
    pub spreading: Spreading,
    /// Everything random follows from it.
    pub seed: u64,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    /// The wire of a port is free.
    Free(usize),
    /// A device wants to be looked at.
    Wake(usize),
    /// The caller wants to act.
    Call(u64),
}

/// Where a wire ends.
#[derive(Debug, Clone, Copy)]
enum End {
    /// A path, at the last switch before a port of a device.
    Switch(usize, u8),
    /// The wire of that port, at the device.
    Device(usize, u8),
}

/// Places of the wires among all: first the paths, by `[from][to][port][path]`, then the wires from the last switch to the ports.
#[derive(Debug, Clone)]
struct Wires {
    devices: usize,
    /// Place of the first path of each plane, and behind them the count of all, for a pair of devices.
    planes: Vec<usize>,
    ends: Vec<End>,
}

impl Wires {
    fn new(devices: usize, planes: &[Vec<PathSpec>]) -> Self {
        let mut count = 0;
        let starts = std::iter::once(0).chain(planes.iter().map(|paths| {
            count += paths.len();
            count
        }));
        let starts = starts.collect();
        let mut ends = Vec::new();
        for _from in 0..devices {
            for to in 0..devices {
                for (port, paths) in planes.iter().enumerate() {
                    ends.extend(paths.iter().map(|_| End::Switch(to, port as u8)));
                }
            }
        }
        for device in 0..devices {
            ends.extend((0..planes.len()).map(|port| End::Device(device, port as u8)));
        }
        Self {
            devices,
            planes: starts,
            ends,
        }
    }

    fn ports(&self) -> usize {
        self.planes.len() - 1
    }

    fn path(&self, from: usize, to: usize, port: u8, path: usize) -> usize {
        (from * self.devices + to) * self.planes[self.ports()] + self.planes[usize::from(port)] + path
    }

    fn downlink(&self, device: usize, port: u8) -> usize {
        self.devices * self.devices * self.planes[self.ports()] + device * self.ports() + usize::from(port)
    }
}

struct Port {
    up: bool,
    paused: bool,
    free_at: Picoseconds,
    downlink: Path,
}

struct Place<D> {
    device: D,
    ports: Vec<Port>,
    /// When it is looked at next, as far as that is queued.
    wake_at: Option<Picoseconds>,
    sent: u64,
}

/// What happened that the caller may want to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// Something at this device.
    Device(usize),
    /// The time of a call has come: its token.
    Call(u64),
}

/// The devices and all that is between them.
pub struct World<D> {
    places: Vec<Place<D>>,
    /// `[from][to][port][path]`.
    paths: Vec<Vec<Vec<Vec<Path>>>>,
    spreading: Spreading,
    port_mbps: u64,
    wires: Wires,
    events: Events<Event>,
    now: Picoseconds,
    unknown: u64,
    log: Option<Log>,
}

impl<D: Device> World<D> {
    /// The devices on this wiring; device n has the MAC address of [`mac_address`].
    #[must_use]
    pub fn new(devices: Vec<D>, wiring: &Wiring) -> Self {
        let mut seeds = fastrand::Rng::with_seed(wiring.seed);
        let count = devices.len();
        let mut grown = |specs: &Vec<PathSpec>| -> Vec<Path> {
            let paths = specs.iter().map(|spec| Path::new(spec.clone(), seeds.u64(..)));
            paths.collect()
        };
        let paths = (0..count)
            .map(|_| {
                (0..count)
                    .map(|_| wiring.paths.iter().map(&mut grown).collect())
                    .collect()
            })
            .collect();
        let places = devices
            .into_iter()
            .map(|device| Place {
                device,
                ports: (0..wiring.paths.len())
                    .map(|_| Port {
                        up: true,
                        paused: false,
                        free_at: Picoseconds(0),
                        downlink: Path::new(wiring.downlink.clone(), seeds.u64(..)),
                    })
                    .collect(),
                wake_at: None,
                sent: 0,
            })
            .collect();
        let wires = Wires::new(count, &wiring.paths);
        Self {
            places,
            paths,
            spreading: wiring.spreading,
            port_mbps: wiring.port_mbps,
            events: Events::new(wires.ends.len()),
            wires,
            now: Picoseconds(0),
            unknown: 0,
            log: None,
        }
    }

    /// Writes down what happens from now on.
    pub fn set_log(&mut self, log: Log) {
        self.log = Some(log);
    }

    /// Writes something down, where anybody wants to know.
    pub(crate) fn note(&self, what: impl FnOnce() -> What) {
        if let Some(log) = &self.log {
            log.push(self.now, what());
        }
    }

    /// Time.
    #[must_use]
    pub fn now(&self) -> Picoseconds {
        self.now
    }

    /// A device; after acting on it, [`World::touch`] it.
    pub fn device(&mut self, index: usize) -> &mut D {
        &mut self.places[index].device
    }

    /// Count of devices.
    #[must_use]
    pub fn devices(&self) -> usize {
        self.places.len()
    }

    /// A path; `None`: there is none.
    pub fn path(&mut self, from: usize, to: usize, port: usize, path: usize) -> Option<&mut Path> {
        self.paths.get_mut(from)?.get_mut(to)?.get_mut(port)?.get_mut(path)
    }

    /// The counters of a path.
    #[must_use]
    pub fn path_counters(&self, from: usize, to: usize, port: usize, path: usize) -> Option<&PathCounters> {
        Some(self.paths.get(from)?.get(to)?.get(port)?.get(path)?.counters())
    }

    /// The counters of the wire from the last switch to a port.
    #[must_use]
    pub fn downlink_counters(&self, device: usize, port: usize) -> Option<&PathCounters> {
        Some(self.places.get(device)?.ports.get(port)?.downlink.counters())
    }

    /// Frames that a device sent.
    #[must_use]
    pub fn sent(&self, device: usize) -> u64 {
        self.places[device].sent
    }

    /// Frames that paths have damaged.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        self.all_paths().map(|path| path.counters().damaged).sum()
    }

    /// Sums over all paths and the wires behind them; `offered`, `delivered` and `bytes` are those of the paths alone.
    #[must_use]
    pub fn totals(&self) -> PathCounters {
        let mut sum = PathCounters::default();
        for path in self.all_paths() {
            sum.add(path.counters());
        }
        for port in self.places.iter().flat_map(|place| &place.ports) {
            let twice = port.downlink.counters();
            sum.offered -= twice.offered;
            sum.delivered -= twice.delivered;
            sum.bytes -= twice.bytes;
        }
        sum
    }

    fn all_paths(&self) -> impl Iterator<Item = &Path> {
        let paths = self.paths.iter().flatten().flatten().flatten();
        let downlinks = self
            .places
            .iter()
            .flat_map(|place| &place.ports)
            .map(|port| &port.downlink);
        paths.chain(downlinks)
    }

    /// Frames for no device.
    #[must_use]
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// A port's link goes down, with all that is on its way to it, or comes up.
    pub fn set_port(&mut self, device: usize, port: u8, up: bool) {
        let now_ns = self.now.ns();
        let place = &mut self.places[device];
        place.ports[usize::from(port)].up = up;
        place.device.set_port(port, up, now_ns);
        self.touch(device);
    }

    /// No frame begins on a port from now on, or again.
    pub fn set_pause(&mut self, device: usize, port: u8, paused: bool) {
        let now_ns = self.now.ns();
        let place = &mut self.places[device];
        place.ports[usize::from(port)].paused = paused;
        place.device.set_pause(port, paused, now_ns);
        self.touch(device);
    }

    /// Calls the caller at this time.
    pub fn call(&mut self, at: Picoseconds, token: u64) {
        self.events.push(at, Event::Call(token));
    }

    /// Goes on to the next event, but not beyond `limit`. `None`: nothing happens until then.
    pub fn step(&mut self, limit: Picoseconds) -> Option<Happened> {
        let (at, next) = self.events.pop(limit)?;
        self.now = at;
        Some(match next {
            Next::Frame(wire, frame) => match self.wires.ends[wire] {
                End::Switch(device, port) => {
                    self.at_switch(device, port, frame);
                    Happened::Device(device)
                }
                End::Device(device, port) => {
                    self.arrive(device, port, frame);
                    Happened::Device(device)
                }
            },
            Next::Event(Event::Free(device)) => {
                self.touch(device);
                Happened::Device(device)
            }
            Next::Event(Event::Wake(device)) => {
                if self.places[device].wake_at == Some(at) {
                    self.places[device].wake_at = None;
                    self.touch(device);
                }
                Happened::Device(device)
            }
            Next::Event(Event::Call(token)) => Happened::Call(token),
        })
    }

    /// A frame reaches the last switch before a device.
    fn at_switch(&mut self, device: usize, port: u8, frame: Vec<u8>) {
        let downlink = &mut self.places[device].ports[usize::from(port)].downlink;
        let kept = self.log.as_ref().map(|_| (*downlink.counters(), frame.clone()));
        let delivery = downlink.send(frame, self.now);
        let fate = kept.map(|(before, frame)| (downlink.counters().fate_since(&before), frame));
        if let Some((fate, frame)) = fate.filter(|(fate, _)| !fate.is_empty()) {
            self.note(|| What::AtSwitch {
                nic: device,
                port,
                fate,
                frame,
            });
        }
        self.deliver(self.wires.downlink(device, port), delivery);
    }

    /// A frame reaches a device.
    fn arrive(&mut self, device: usize, port: u8, frame: Vec<u8>) {
        let up = self.places[device].ports[usize::from(port)].up;
        self.note(|| What::Received {
            nic: device,
            port,
            up,
            frame: frame.clone(),
        });
        if up {
            let now_ns = self.now.ns();
            self.act(device, |device| device.receive(port, frame, now_ns));
            self.touch(device);
        }
    }

    /// Time passes, without an event, up to here.
    pub fn pass(&mut self, until: Picoseconds) {
        self.now = self.now.max(until);
    }

    /// Lets a device send what it can, and asks when it wants to be looked at.
    pub fn touch(&mut self, device: usize) {
        let (now, now_ns) = (self.now, self.now.ns());
        self.act(device, |device| device.advance(now_ns));
        loop {
            let place = &mut self.places[device];
            let free = place.ports.iter().enumerate().fold(0u8, |free, (port, state)| {
                free | u8::from(state.up && !state.paused && state.free_at <= now) << port
            });
            if free == 0 {
                break;
            }
            let Some((port, frame)) = place.device.transmit(free, now_ns) else {
                break;
            };
            place.sent += 1;
            let gone = now + Picoseconds::of_bytes(wire_bytes(&frame), self.port_mbps);
            place.ports[usize::from(port)].free_at = gone;
            self.events.push(gone, Event::Free(device));
            self.launch(device, port, frame, gone);
        }
        let place = &mut self.places[device];
        let wanted = place
            .device
            .wake_ns()
            .map(|ns| Picoseconds::of_ns(ns).max(now + Picoseconds(1)));
        if let Some(at) = wanted.filter(|at| place.wake_at.is_none_or(|queued| *at < queued)) {
            place.wake_at = Some(at);
            self.events.push(at, Event::Wake(device));
        }
    }

    /// Lets a device act, and writes down what it did beyond what is seen on its wires.
    fn act(&mut self, device: usize, act: impl FnOnce(&mut D)) {
        if self.log.is_none() {
            act(&mut self.places[device].device);
            return;
        }
        let before = self.places[device].device.activity();
        act(&mut self.places[device].device);
        self.note_activity(device, &before);
    }

    /// Writes down what a device did since `before`. What it sends again is seen on its wire.
    fn note_activity(&self, device: usize, before: &Activity) {
        let after = self.places[device].device.activity();
        for ((name, now), (_, then)) in after.counts().into_iter().zip(before.counts()) {
            if now > then {
                let count = now - then;
                self.note(|| What::Did {
                    nic: device,
                    name,
                    count,
                });
            }
        }
    }

    /// A frame is on its way from when its last bit has left the port.
    fn launch(&mut self, from: usize, port: u8, frame: Vec<u8>, at: Picoseconds) {
        let Some(to) = device_of_mac(&frame).filter(|to| *to < self.places.len()) else {
            self.unknown += 1;
            return;
        };
        let paths = &mut self.paths[from][to][usize::from(port)];
        if paths.is_empty() {
            self.unknown += 1;
            return;
        }
        let path = (entropy(&frame, self.spreading) % paths.len() as u64) as usize;
        let kept = self.log.as_ref().map(|_| (*paths[path].counters(), frame.clone()));
        let delivery = paths[path].send(frame, at);
        if let Some((before, frame)) = kept {
            let fate = paths[path].counters().fate_since(&before);
            self.note(|| What::Sent {
                nic: from,
                port,
                path,
                fate,
                frame,
            });
        }
        self.deliver(self.wires.path(from, to, port, path), delivery);
    }

    /// What a path gives is on its wire.
    fn deliver(&mut self, wire: usize, delivery: Delivery) {
        let Delivery { at, frame, again } = delivery;
        if let Some(frame) = frame {
            self.events.push_frame(at, wire, frame);
        }
        if let Some(frame) = again {
            self.events.push_frame(at, wire, frame);
        }
    }
}

/// MAC address of a device, all ports: locally administered.
#[must_use]
pub fn mac_address(device: usize) -> u64 {
    0x0200_0000_0000 | device as u64
}

/// The device that a frame is for, by its first six bytes.
fn device_of_mac(mac: &[u8]) -> Option<usize> {
    let mut bytes = [0; 8];
    bytes[2..].copy_from_slice(mac.get(..6)?);
    let number = u64::from_be_bytes(bytes);
    (number >> 16 == 0x0200_0000).then_some((number & 0xFFFF) as usize)
}

/// What decides the path of a frame: nothing but 0 where there is no UDP.
fn entropy(frame: &[u8], spreading: Spreading) -> u64 {
    let word = |at: usize| {
        frame
            .get(at..at + 2)
            .map_or(0, |bytes| u64::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    };
    let network = if word(12) == 0x8100 { 18 } else { 14 };
    let ipv6 = word(network - 2) == 0x86DD;
    let port = word(network + if ipv6 { 40 } else { 20 });
    match spreading {
        Spreading::Modulo => port,
        Spreading::Hash => {
            let label = if ipv6 {
                (word(network) & 0xF) << 16 | word(network + 2)
            } else {
                0
            };
            // Multiplication by an odd constant, upper bits: Fibonacci hashing.
            (port << 20 | label).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33
        }
    }
}
