//! Runs a scenario and checks it: every message once and in order, memory as it must be, nothing left behind.

mod buffers;
mod limits;
mod side;
mod tables;

use std::fmt;

use spraynic_config::descriptor::CompletionStatus;
use spraynic_config::{NicConfig, Preset, Source};
use thiserror::Error;

use crate::device::Device;
use crate::log::{Log, What};
use crate::path::{PathCounters, PathSpec};
use crate::scenario::{Action, Scenario};
use crate::time::Picoseconds;
use crate::world::{Happened, Wiring, World};
use buffers::Buffers;
use side::Side;

#[cfg(feature = "strategies")]
pub(crate) use limits::is_allowed;
pub(crate) use side::RECEIVE;
#[cfg(feature = "strategies")]
pub(crate) use tables::ports_of;
pub(crate) use tables::qpn_of;

/// R_Key of all memory of a NIC's host, and its place in virtual memory.
pub(crate) const REMOTE_KEY: u32 = 1 << 8 | 0x5A;
pub(crate) const REMOTE_BASE: u64 = 0x7000_0000_0000;

/// Why a scenario failed.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Failure {
    /// The NIC's model panicked.
    #[error("the model panicked: {0}")]
    Panicked(String),
    /// Something was sent again that was never lost.
    #[error("nothing was lost, but {0}")]
    SentAgain(String),
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
        limits::check(scenario, &config)?;
        let ports = config.paths.ports as usize;
        let buffers = Buffers::new(scenario);
        let devices = (0..scenario.nics).map(|nic| make(nic, &config, buffers.memory_bytes(nic)));
        let mut world = World::new(devices.collect(), &scenario.wiring(ports));
        for nic in 0..scenario.nics {
            buffers.fill(nic, world.device(nic).memory());
            for write in tables::tables(scenario, &config, nic) {
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

    /// Writes down all that happens.
    #[must_use]
    pub fn with_log(mut self, log: Log) -> Self {
        self.world.set_log(log);
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
                self.world.note(|| What::Script(action.clone()));
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
            Action::Pause { nic, port, paused } => {
                if *nic < nics && u32::from(*port) < self.config.paths.ports {
                    self.world.set_pause(*nic, *port, *paused);
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
            self.world.note(|| What::Completed {
                nic: device,
                completion,
            });
            let now_ns = self.world.now().ns();
            let side = self
                .sides
                .iter_mut()
                .find(|side| side.nic == device && side.qpn == completion.qpn);
            let Some(side) = side else {
                return Err(self.wrong(format!("NIC {device}: completion for no queue pair: {completion:?}")));
            };
            let done_ns = &mut self.report.done_ns;
            if let Err(what) = side.complete(&completion, now_ns, |message| done_ns[message] = now_ns) {
                return Err(self.wrong(what));
            }
        }
        while let Some(frame) = self.world.device(device).slow_path() {
            // A frame that was damaged may look like one for the host, and come twice; others never do.
            self.report.slow_path += 1;
            self.world.note(|| What::SlowPath {
                nic: device,
                frame: frame.clone(),
            });
            if 2 * self.world.damaged() < self.report.slow_path {
                return Err(self.wrong(format!("NIC {device} gave the host a frame of {} bytes", frame.len())));
            }
        }
        if seen {
            for side in 0..self.sides.len() {
                if self.sides[side].nic == device {
                    self.act(side)?;
                }
            }
        }
        Ok(())
    }

    /// Posts what a side can post now.
    fn act(&mut self, index: usize) -> Result<(), Failure> {
        let now = self.world.now();
        let side = &mut self.sides[index];
        let nic = side.nic;
        let mut acted = false;
        let ready = now.ns().saturating_sub(self.scenario.receive_delay_ns);
        while let Some(request) = side.next_receive(ready) {
            self.world.note(|| What::PostedReceive { nic, request });
            self.world.device(nic).post_receive(&request, now.ns());
            acted = true;
        }
        while let Some(request) = side.next_request(now.ns()) {
            self.world.note(|| What::Posted { nic, request });
            self.world.device(nic).post(&request, now.ns());
            acted = true;
        }
        if let Some(at) = side.later(now.ns(), self.scenario.receive_delay_ns) {
            self.world.call(Picoseconds::of_ns(at), POST | index as u64);
        }
        if acted {
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

const STATUSES: [CompletionStatus; 12] = [
    CompletionStatus::Success,
    CompletionStatus::LocalLength,
    CompletionStatus::Flushed,
    CompletionStatus::RemoteAccess,
    CompletionStatus::RemoteInvalidRequest,
    CompletionStatus::LocalMemory,
    CompletionStatus::BadResponse,
    CompletionStatus::RemoteOperational,
    CompletionStatus::RetryExceeded,
    CompletionStatus::RnrRetryExceeded,
    CompletionStatus::LocalInvalidRequest,
    CompletionStatus::QueueFull,
];

/// A status in words.
pub(crate) fn status_name(status: u8) -> String {
    let known = STATUSES.into_iter().find(|known| *known as u8 == status);
    known.map_or_else(|| format!("status {status}"), |known| format!("{known:?}"))
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
