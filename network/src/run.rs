//! Runs a scenario and checks it: every message once and in order, memory as it must be, nothing left behind.

mod buffers;
mod side;

use std::fmt;

use spraynic_config::descriptor::{
    CompletionStatus, HeaderTemplate, MemoryRegion, PathEntry, QueuePairContext, QueuePairState, RateLimit, SendContext,
};
use spraynic_config::{NicConfig, Preset, Profile, Source};
use thiserror::Error;

use crate::device::{Device, TableWrite};
use crate::path::{PathCounters, PathSpec};
use crate::scenario::{Action, QueuePairSpec, Scenario};
use crate::time::Picoseconds;
use crate::world::{Happened, Wiring, World, mac_address};
use buffers::Buffers;
use side::Side;

/// R_Key of all memory of a NIC's host, and its place in virtual memory.
pub(crate) const REMOTE_KEY: u32 = 1 << 8 | 0x5A;
pub(crate) const REMOTE_BASE: u64 = 0x7000_0000_0000;
const PROTECTION_DOMAIN: u32 = 7;

/// Why a scenario failed.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Failure {
    /// The scenario itself is wrong.
    #[error("the scenario is wrong: {0}")]
    Scenario(String),
    /// Not all was done in time.
    #[error("after {ns} ns this is not done: {what}")]
    Unfinished {
        /// The time.
        ns: u64,
        /// What is missing.
        what: String,
    },
    /// Something came that must not.
    #[error("at {ns} ns: {what}")]
    Wrong {
        /// The time.
        ns: u64,
        /// What.
        what: String,
    },
}

/// What a run showed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// When the last message was done, in nanoseconds.
    pub finished_ns: u64,
    /// When each message was done, in the order of the scenario.
    pub done_ns: Vec<u64>,
    /// Bytes of all messages.
    pub bytes: u64,
    /// Frames that the NICs gave the host: damaged ones that no longer looked like RDMA.
    pub slow_path: u64,
    /// Frames that each NIC sent.
    pub sent: Vec<u64>,
    /// Counters of each path of plane 0 from NIC 0 to NIC 1.
    pub paths: Vec<PathCounters>,
    /// Payload bytes that reached memory of each NIC, at the samples asked for.
    pub samples: Vec<(u64, Vec<u64>)>,
}

impl Report {
    /// Bytes of messages for each nanosecond, in Mb/s.
    #[must_use]
    pub fn mbps(&self) -> f64 {
        self.bytes as f64 * 8_000.0 / self.finished_ns.max(1) as f64
    }
}

impl Scenario {
    /// The configuration of its NICs.
    ///
    /// # Errors
    /// [`Failure::Scenario`].
    pub fn config(&self) -> Result<NicConfig, Failure> {
        let preset = Preset::from_name(&self.preset);
        let preset = preset.ok_or_else(|| Failure::Scenario(format!("no preset `{}`", self.preset)))?;
        let source = Source {
            preset: Some(preset),
            overrides: self.overrides.clone(),
            ..Source::default()
        };
        let resolved = source.resolve().map_err(|error| Failure::Scenario(error.to_string()))?;
        Ok(resolved.config)
    }

    fn wiring(&self, ports: usize) -> Wiring {
        let mut downlink = self.downlink.clone();
        if downlink.mbps == 0 {
            downlink.mbps = self.port_mbps;
        }
        Wiring {
            paths: vec![self.paths.clone(); ports],
            port_mbps: self.port_mbps,
            downlink,
            spreading: self.spreading,
            seed: self.seed,
        }
    }
}

/// Tokens of calls.
const SCRIPT: u64 = 1 << 32;
const SAMPLE: u64 = 2 << 32;
const POST: u64 = 3 << 32;

/// A scenario that runs.
pub struct Run<D> {
    scenario: Scenario,
    config: NicConfig,
    world: World<D>,
    buffers: Buffers,
    sides: Vec<Side>,
    report: Report,
    sample_ns: u64,
}

impl<D: Device> Run<D> {
    /// Makes the NICs and writes their tables. `make` gives NIC n of a configuration with so many bytes of memory.
    ///
    /// # Errors
    /// [`Failure::Scenario`].
    pub fn new(scenario: &Scenario, mut make: impl FnMut(usize, &NicConfig, usize) -> D) -> Result<Self, Failure> {
        let config = scenario.config()?;
        check(scenario, &config)?;
        let ports = config.paths.ports as usize;
        let buffers = Buffers::new(scenario);
        let devices = (0..scenario.nics).map(|nic| make(nic, &config, buffers.memory_bytes(nic)));
        let mut world = World::new(devices.collect(), &scenario.wiring(ports));
        for nic in 0..scenario.nics {
            buffers.fill(nic, world.device(nic).memory());
            for write in tables(scenario, &config, nic) {
                world.device(nic).write(&write, 0);
            }
        }
        let sides = (0..scenario.queue_pairs.len())
            .flat_map(|queue_pair| [0, 1].map(|side| Side::new(scenario, &config, &buffers, queue_pair, side)))
            .collect();
        for (place, step) in scenario.script.iter().enumerate() {
            world.call(Picoseconds::of_ns(step.at_ns), SCRIPT | place as u64);
        }
        Ok(Self {
            report: Report {
                done_ns: vec![0; scenario.messages.len()],
                ..Report::default()
            },
            scenario: scenario.clone(),
            config,
            world,
            buffers,
            sides,
            sample_ns: 0,
        })
    }

    /// Takes samples in this distance, in nanoseconds.
    #[must_use]
    pub fn with_samples(mut self, every_ns: u64) -> Self {
        self.sample_ns = every_ns;
        if every_ns > 0 {
            self.world.call(Picoseconds::of_ns(every_ns), SAMPLE);
        }
        self
    }

    /// The world, to look at.
    pub fn world(&mut self) -> &mut World<D> {
        &mut self.world
    }

    /// Runs to the end and checks.
    ///
    /// # Errors
    /// What was wrong or is missing.
    pub fn finish(self, payload_bytes: impl Fn(&D) -> u64) -> Result<(Report, World<D>), Failure> {
        let (result, world) = self.finish_in_any_case(payload_bytes);
        result.map(|report| (report, world))
    }

    /// Runs to the end and checks; gives the world also where something was wrong, to look at.
    pub fn finish_in_any_case(mut self, payload_bytes: impl Fn(&D) -> u64) -> (Result<Report, Failure>, World<D>) {
        let result = self.run(&payload_bytes);
        (result.map(|()| self.report), self.world)
    }

    fn run(&mut self, payload_bytes: &impl Fn(&D) -> u64) -> Result<(), Failure> {
        let limit = Picoseconds::of_ns(self.scenario.limit_ns);
        for side in 0..self.sides.len() {
            self.act(side)?;
        }
        while self.sides.iter().any(|side| !side.is_done()) {
            match self.world.step(limit) {
                None => {
                    return Err(Failure::Unfinished {
                        ns: self.scenario.limit_ns,
                        what: self.missing(),
                    });
                }
                Some(Happened::Device(device)) => self.look_at(device)?,
                Some(Happened::Call(token)) => self.called(token, payload_bytes)?,
            }
        }
        self.report.finished_ns = self.world.now().ns();
        // Last acknowledgements may have been lost: what is held is let go when they are sent again.
        let slice = Picoseconds::of_ns(self.rest_ns());
        while self.world.now() < limit && self.holds_something() {
            self.rest(limit.min(self.world.now() + slice), payload_bytes)?;
        }
        // What is still under way, and what was sent again in vain, changes nothing.
        self.rest(self.world.now() + slice, payload_bytes)?;
        self.check_end()?;
        let paths = 0..self.scenario.paths.len();
        let counters = paths.filter_map(|path| self.world.path_counters(0, 1, 0, path).copied());
        self.report.paths = counters.collect();
        self.report.sent = (0..self.world.devices()).map(|nic| self.world.sent(nic)).collect();
        self.report.bytes = self.scenario.messages.iter().map(side::bytes_of).sum();
        Ok(())
    }

    fn holds_something(&mut self) -> bool {
        (0..self.world.devices()).any(|nic| !self.world.device(nic).leftovers().is_empty())
    }

    /// Goes on to a time without samples.
    fn rest(&mut self, until: Picoseconds, payload_bytes: &impl Fn(&D) -> u64) -> Result<(), Failure> {
        while let Some(happened) = self.world.step(until) {
            match happened {
                Happened::Device(device) => self.look_at(device)?,
                Happened::Call(token) if token & !0xFFFF_FFFF != SAMPLE => self.called(token, payload_bytes)?,
                Happened::Call(_) => {}
            }
        }
        self.world.pass(until);
        Ok(())
    }

    /// Time in which all that is under way arrives.
    fn rest_ns(&self) -> u64 {
        let slowest = self.scenario.paths.iter().map(|path| path.delay_ns).max().unwrap_or(0);
        let timeout = self
            .scenario
            .queue_pairs
            .iter()
            .map(|spec| spec.timeout_ns)
            .max()
            .unwrap_or(0);
        8 * slowest + u64::from(timeout) + 100_000
    }

    fn called(&mut self, token: u64, payload_bytes: &impl Fn(&D) -> u64) -> Result<(), Failure> {
        let place = (token & 0xFFFF_FFFF) as usize;
        match token & !0xFFFF_FFFF {
            SCRIPT => {
                let action = self.scenario.script[place].action.clone();
                self.happen(&action);
            }
            SAMPLE => {
                let now = self.world.now();
                let bytes = (0..self.world.devices()).map(|nic| payload_bytes(self.world.device(nic)));
                let bytes = bytes.collect();
                self.report.samples.push((now.ns(), bytes));
                self.world.call(now + Picoseconds::of_ns(self.sample_ns), SAMPLE);
            }
            POST => self.act(place)?,
            _ => {}
        }
        Ok(())
    }

    fn happen(&mut self, action: &Action) {
        let nics = self.world.devices();
        let pairs = (0..nics).flat_map(|from| (0..nics).map(move |to| (from, to)));
        match action {
            Action::Path { port, path, alive } => {
                for (from, to) in pairs {
                    if let Some(path) = self.world.path(from, to, *port, *path) {
                        path.set_alive(*alive);
                    }
                }
            }
            Action::Change { port, path, spec } => {
                for (from, to) in pairs {
                    if let Some(path) = self.world.path(from, to, *port, *path) {
                        path.change(spec.clone());
                    }
                }
            }
            Action::From { nic, alive } => {
                for to in 0..nics {
                    for port in 0..self.config.paths.ports as usize {
                        for path in 0..self.scenario.paths.len() {
                            if let Some(path) = self.world.path(*nic, to, port, path) {
                                path.set_alive(*alive);
                            }
                        }
                    }
                }
            }
            Action::Port { nic, port, up } => {
                if *nic < nics && u32::from(*port) < self.config.paths.ports {
                    self.world.set_port(*nic, *port, *up);
                }
            }
        }
    }

    /// Takes the completions of a device, and lets the sides there go on.
    fn look_at(&mut self, device: usize) -> Result<(), Failure> {
        let mut seen = false;
        while let Some(completion) = self.world.device(device).completion() {
            seen = true;
            let now_ns = self.world.now().ns();
            let side = self
                .sides
                .iter_mut()
                .find(|side| side.nic == device && side.qpn == completion.qpn);
            let Some(side) = side else {
                return Err(self.wrong(format!("NIC {device}: completion for no queue pair: {completion:?}")));
            };
            match side.complete(&completion, now_ns) {
                Ok(done) => {
                    for message in done {
                        self.report.done_ns[message] = now_ns;
                    }
                }
                Err(what) => return Err(self.wrong(what)),
            }
        }
        while let Some(frame) = self.world.device(device).slow_path() {
            // A frame that was damaged may look like one for the host, and come twice; others never do.
            self.report.slow_path += 1;
            if 2 * self.world.damaged() < self.report.slow_path {
                return Err(self.wrong(format!("NIC {device} gave the host a frame of {} bytes", frame.len())));
            }
        }
        if seen {
            let here: Vec<usize> = (0..self.sides.len())
                .filter(|side| self.sides[*side].nic == device)
                .collect();
            for side in here {
                self.act(side)?;
            }
        }
        Ok(())
    }

    /// Posts what a side can post now.
    fn act(&mut self, index: usize) -> Result<(), Failure> {
        let now = self.world.now();
        let side = &mut self.sides[index];
        let device = self.world.device(side.nic);
        let mut acted = false;
        let ready = now.ns().saturating_sub(self.scenario.receive_delay_ns);
        while let Some(request) = side.next_receive(ready) {
            device.post_receive(&request, now.ns());
            acted = true;
        }
        while let Some(request) = side.next_request(now.ns()) {
            device.post(&request, now.ns());
            acted = true;
        }
        if let Some(at) = side.later(now.ns(), self.scenario.receive_delay_ns) {
            self.world.call(Picoseconds::of_ns(at), POST | index as u64);
        }
        if acted {
            let nic = self.sides[index].nic;
            self.world.touch(nic);
            // Completions that came of it at once.
            self.look_at(nic)?;
        }
        Ok(())
    }

    fn check_end(&mut self) -> Result<(), Failure> {
        for nic in 0..self.world.devices() {
            if let Err(what) = self.buffers.check(nic, self.world.device(nic).memory()) {
                return Err(self.wrong(what));
            }
            let left = self.world.device(nic).leftovers();
            if !left.is_empty() {
                return Err(self.wrong(format!("NIC {nic} still holds {left}")));
            }
        }
        Ok(())
    }

    fn missing(&mut self) -> String {
        let mut what: Vec<String> = self.sides.iter().filter_map(Side::missing).collect();
        for nic in 0..self.world.devices() {
            let left = self.world.device(nic).leftovers();
            if !left.is_empty() {
                what.push(format!("NIC {nic} holds {left}"));
            }
        }
        what.join("; ")
    }

    fn wrong(&self, what: String) -> Failure {
        Failure::Wrong {
            ns: self.world.now().ns(),
            what,
        }
    }
}

impl<D> fmt::Debug for Run<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("scenario", &self.scenario)
            .finish_non_exhaustive()
    }
}

/// Whether a scenario can be run at all.
fn check(scenario: &Scenario, config: &NicConfig) -> Result<(), Failure> {
    let wrong = |what: String| Err(Failure::Scenario(what));
    if scenario.paths.is_empty() {
        return wrong("it has no path".to_owned());
    }
    let values = scenario.paths.len() * scenario.values_per_path.max(1) + scenario.backups;
    if values * config.paths.ports.next_power_of_two() as usize > config.paths.entries as usize {
        return wrong(format!(
            "{values} entropy values for each port do not fit paths.entries"
        ));
    }
    if scenario.queue_pairs.len() > config.send_queue_pairs() as usize {
        return wrong(format!(
            "{} queue pairs, but send.queue_pairs says less",
            scenario.queue_pairs.len()
        ));
    }
    for spec in &scenario.queue_pairs {
        if spec.nics.iter().any(|nic| *nic >= scenario.nics) || spec.nics[0] == spec.nics[1] {
            return wrong(format!("a queue pair between NICs {:?}", spec.nics));
        }
        if mtu_code(spec.mtu).is_none_or(|code| code > config.max_mtu_code()) {
            return wrong(format!("an MTU of {}", spec.mtu));
        }
    }
    for message in &scenario.messages {
        if message.queue_pair >= scenario.queue_pairs.len() || message.side > 1 {
            return wrong(format!(
                "message of queue pair {} side {}",
                message.queue_pair, message.side
            ));
        }
    }
    Ok(())
}

fn mtu_code(mtu: u32) -> Option<u8> {
    (1..=5).find(|code| 128 << code == mtu)
}

/// Queue pair number of a side: its place among those of its NIC, shifted so that it is not the same at both.
pub(crate) fn qpn_of(scenario: &Scenario, queue_pair: usize, side: usize, config: &NicConfig) -> u32 {
    let nic = scenario.queue_pairs[queue_pair].nics[side];
    let before = &scenario.queue_pairs[..queue_pair];
    let place = before.iter().filter(|spec| spec.nics.contains(&nic)).count();
    (place + nic * 3) as u32 % config.send_queue_pairs()
}

fn ip(nic: usize, ipv6: bool) -> u128 {
    let low = 0x0A00_0001 + nic as u128;
    if ipv6 { 0xFD00 << 112 | low } else { low }
}

/// Writes of all tables of a NIC.
fn tables(scenario: &Scenario, config: &NicConfig, nic: usize) -> Vec<TableWrite> {
    let mut writes = vec![TableWrite::Region(MemoryRegion {
        generation: REMOTE_KEY as u8,
        index: REMOTE_KEY >> 8,
        valid: true,
        remote_write: true,
        remote_read: true,
        remote_atomic: true,
        protection_domain: PROTECTION_DOMAIN,
        base: REMOTE_BASE,
        length: 1 << 40,
        address: 0,
        ..MemoryRegion::default()
    })];
    for set in 0..config.paths.sets.min(scenario.queue_pairs.len() as u32) as u16 {
        writes.extend(path_set(scenario, config, set).into_iter().map(TableWrite::Path));
    }
    for (place, spec) in scenario.queue_pairs.iter().enumerate() {
        for side in 0..2 {
            if spec.nics[side] == nic {
                writes.extend(queue_pair(scenario, config, place, spec, side));
            }
        }
    }
    writes
}

/// The entropy values of a set: those of each plane lead to its paths in turn, behind them backups.
fn path_set(scenario: &Scenario, config: &NicConfig, set: u16) -> Vec<PathEntry> {
    let count = scenario.paths.len();
    let used = count * scenario.values_per_path.max(1);
    let first = 0xC000 / count * count;
    // The low bits of a place are its port.
    let planes = config.paths.ports.next_power_of_two() as usize;
    let mut entries = Vec::new();
    for value in 0..used + scenario.backups {
        for port in 0..config.paths.ports as u8 {
            entries.push(PathEntry {
                set,
                path: (value * planes + usize::from(port)) as u8,
                valid: true,
                backup: value >= used,
                port,
                entropy: (first + value) as u32,
                ..PathEntry::default()
            });
        }
    }
    entries
}

fn queue_pair(
    scenario: &Scenario,
    config: &NicConfig,
    place: usize,
    spec: &QueuePairSpec,
    side: usize,
) -> Vec<TableWrite> {
    let (local, peer) = (spec.nics[side], spec.nics[1 - side]);
    let [qpn, peer_qpn] = [side, 1 - side].map(|side| qpn_of(scenario, place, side, config));
    let profile = Profile::from(spec.profile);
    let response = |side: usize| (spec.psn[side] + 1000) & 0xFF_FFFF;
    let mtu = mtu_code(spec.mtu).unwrap_or(1);
    let window = match spec.window {
        0 => config.send.window.min(config.receive.window) as u16,
        window => window,
    };
    let mut writes = vec![
        TableWrite::Template(HeaderTemplate {
            qpn,
            ipv6: spec.ipv6,
            spray: true,
            destination_mac: mac_address(peer),
            source_mac: mac_address(local),
            traffic_class: 2,
            hop_limit: 64,
            source_ip: ip(local, spec.ipv6),
            destination_ip: ip(peer, spec.ipv6),
            partition_key: 0xFFFF,
            destination_qpn: peer_qpn,
            ..HeaderTemplate::default()
        }),
        TableWrite::QueuePair(QueuePairContext {
            qpn,
            state: QueuePairState::ReadyToSend as u8,
            profile: profile.code(),
            mtu,
            remote_write: true,
            remote_read: true,
            remote_atomic: true,
            ipv6: spec.ipv6,
            partition_key: 0xFFFF,
            rnr_timer: 1,
            psn: spec.psn[1 - side],
            response_psn: response(1 - side),
            sent_response_psn: response(side),
            protection_domain: PROTECTION_DOMAIN,
            peer_qpn,
            peer_ip: ip(peer, spec.ipv6),
            local_ip: ip(local, spec.ipv6),
            ..QueuePairContext::default()
        }),
    ];
    if spec.mbps > 0 {
        writes.push(TableWrite::Rate(RateLimit {
            index: qpn,
            limited: true,
            // Bytes in a nanosecond, in units of 2^-32.
            rate: ((u128::from(spec.mbps) << 32) / 8_000) as u64,
            burst: 16_384,
            ..RateLimit::default()
        }));
    }
    writes.push(TableWrite::Send(SendContext {
        qpn,
        state: QueuePairState::ReadyToSend as u8,
        profile: profile.code(),
        mtu,
        class: spec.class,
        timestamps: false,
        reads: config.send.reads as u8,
        policy: spec.policy.code(),
        path_set: (place as u32 % config.paths.sets) as u16,
        window,
        retry_limit: spec.retry_limit,
        rnr_retry: spec.rnr_retry,
        weight: spec.weight,
        psn: spec.psn[side],
        sent_response_psn: response(side),
        peer_qpn,
        ooo_threshold: spec.ooo_threshold,
        base_rtt_ns: spec.base_rtt_ns,
        timeout_ns: spec.timeout_ns,
        entropy: 0xC000 + place as u32 % scenario.paths.len() as u32,
        ..SendContext::default()
    }));
    writes
}

/// Whether a status is that of success.
pub(crate) fn is_success(status: u8) -> bool {
    status == CompletionStatus::Success as u8
}

/// A path as the scenario wants it, for tests.
#[must_use]
pub fn equal_paths(count: usize, spec: &PathSpec) -> Vec<PathSpec> {
    vec![spec.clone(); count]
}
