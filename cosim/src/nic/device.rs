//! The Verilated NIC as a `Device`: its clocks run up to the time of the network, and its MACs, its host's memory and its driver are here.
//!
//! While nothing moves on any port, the clock becomes slower ([`Options::slowest`]): what is late by it is late by a share of the time in which
//! nothing happened. `time_ns` always says the true time, so timers fire when they must.

use std::collections::VecDeque;
use std::path::Path;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Completion, Descriptor, ReceiveRequest, WorkRequest};
use spraynic_golden::spraynic_nic::Settings;
use spraynic_network::{Activity, Device, TableWrite};

use super::NicModel;
use super::memory::{MemoryPort, MemoryTiming};
use super::observed::{Counters, Queues, Windows};
use super::registers::Registers;
use super::rings::Rings;
use super::settings::settings;
use super::streams::{DescriptorSink, DescriptorSource, FrameSink, FrameSource};
use crate::simulation::{Input, Output, Simulation, SimulationError};

/// Clocks of reset.
const RESET_CLOCKS: u64 = 16;
/// Clocks without anything that end the writing of the tables before time begins.
const QUIET_CLOCKS: u64 = 256;
/// Clocks that writing the tables before time begins may take.
const MOST_SETUP_CLOCKS: u64 = 50_000_000;
/// Clocks from reset until all tables of a NIC are cleared and it takes frames: the largest one has a word for 32 places of each window.
fn clocks_of_clearing(config: &NicConfig) -> u64 {
    let windows = u64::from(config.queue_pairs.count) + u64::from(config.reorder_queue_pairs());
    (windows * u64::from(config.receive.window) / 32).next_power_of_two()
}

/// One in so many clocks without anything does the clock become slower by one period.
const SLOWER_AFTER: u64 = 256;

/// What is chosen for a Verilated NIC beside its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Seed of the initial state of registers and memories, and of the pauses of memory.
    pub seed: u64,
    /// How the host's memory answers.
    pub memory: MemoryTiming,
    /// While nothing moves on any port, the clock becomes slower, by up to this factor; 1: never.
    pub slowest: u64,
    /// Keep which frames came and left in which clock: [`VerilatedDevice::frame_times`].
    pub frame_times: bool,
    /// Work requests go by rings in a memory of their own, and by doorbells, instead of by their stream.
    pub rings: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            memory: MemoryTiming::default(),
            slowest: 256,
            frame_times: false,
            rings: false,
        }
    }
}

/// A frame at a port, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameTime {
    /// The port.
    pub port: u8,
    /// It came in; otherwise it left.
    pub received: bool,
    /// Clock in which its last beat was taken (received), or in which its first beat was given (sent).
    pub clock: u64,
    /// The frame.
    pub frame: Vec<u8>,
}

/// What the host asked for and the driver has not done yet, in order.
#[derive(Debug)]
enum HostAction {
    Descriptor(&'static str, Vec<u8>),
    Setting(u32, u32),
    Work(Vec<u8>),
    Receive(Vec<u8>),
}

#[derive(Debug)]
struct Mac {
    receiving: FrameSource,
    sending: FrameSink,
}

/// A Verilated NIC, the memory of its host, and its MACs.
///
/// A model that stops (an assertion) or breaks a rule of a bus panics with what it said; `check` of the network makes that a failure of the scenario.
#[derive(Debug)]
pub struct VerilatedDevice {
    simulation: Simulation,
    options: Options,
    period_ps: u64,
    /// Time of the next clock, and of the last one.
    next_ps: u64,
    last_ps: Option<u64>,
    /// Since when nothing has moved.
    quiet_since_ps: u64,
    clocks: u64,
    /// Clocks that writing the tables takes at least.
    least_setup_clocks: u64,
    /// Tables are being written and time has not begun.
    is_setup: bool,
    time: Input,
    port_up: Input,
    ports_up: u8,
    port_pause: Input,
    ports_paused: u8,
    free_slots: Option<(Output, u64)>,
    host: VecDeque<HostAction>,
    registers: Registers,
    work: DescriptorSource,
    receive_requests: DescriptorSource,
    rings: Option<Rings>,
    completion: DescriptorSink,
    macs: Vec<Mac>,
    slow_path: FrameSink,
    host_frames: FrameSource,
    ports: [MemoryPort; 2],
    ring_port: MemoryPort,
    memory: Vec<u8>,
    completions: VecDeque<Completion>,
    counters: Counters,
    queues: Queues,
    windows: Windows,
    times: Vec<FrameTime>,
}

impl VerilatedDevice {
    /// After reset, with so many bytes of memory.
    ///
    /// # Errors
    /// The model lacks a port, or stopped.
    pub fn new(
        model: &NicModel,
        settings_of: &Settings,
        memory_bytes: usize,
        options: Options,
    ) -> Result<Self, SimulationError> {
        let config = model.config();
        let mut simulation = Simulation::new(model.model(), options.seed);
        simulation.reset(RESET_CLOCKS)?;
        let macs = (0..config.paths.ports).map(|port| {
            Ok(Mac {
                receiving: FrameSource::new(&simulation, &format!("s_axis_{port}"))?,
                sending: FrameSink::new(&simulation, &format!("m_axis_{port}"), 1)?,
            })
        });
        let macs = macs.collect::<Result<_, SimulationError>>()?;
        let slow_path = FrameSink::new(&simulation, "m_axis_slow_path", usize::MAX)?;
        let ports = ["m_axi", "m_axi_atomic", "m_axi_ring"]
            .map(|prefix| MemoryPort::new(&simulation, prefix, options.memory, options.seed ^ prefix.len() as u64));
        let [data, atomics, of_rings] = ports;
        let ports_up = ((1u16 << config.paths.ports) - 1) as u8;
        let port_up = simulation.input("port_up")?;
        simulation.set(port_up, ports_up.into());
        if let Ok(ready) = simulation.input("m_axis_timeout_tready") {
            simulation.set(ready, 1);
        }
        let free_slots = simulation.output("free_slots").ok();
        let rings = options
            .rings
            .then(|| Rings::new(&mut simulation, config.send_queue_pairs()));
        let rings = rings.transpose()?;
        let mut device = Self {
            period_ps: (1_000_000_000 / u64::from(config.datapath.clock_khz)).max(1),
            next_ps: 0,
            last_ps: None,
            quiet_since_ps: 0,
            clocks: 0,
            least_setup_clocks: clocks_of_clearing(config),
            is_setup: true,
            time: simulation.input("time_ns")?,
            port_up,
            ports_up,
            port_pause: simulation.input("port_pause")?,
            ports_paused: 0,
            free_slots: free_slots.map(|output| (output, config.receive.pool_slots.into())),
            host: VecDeque::new(),
            registers: Registers::new(&mut simulation, model.registers())?,
            work: DescriptorSource::new(&simulation, "s_axis_work_request")?,
            receive_requests: DescriptorSource::new(&simulation, "s_axis_receive_request")?,
            completion: DescriptorSink::new(&mut simulation, "m_axis_completion")?,
            macs,
            slow_path,
            host_frames: FrameSource::new(&simulation, "s_axis_slow_path")?,
            ports: [data?, atomics?],
            ring_port: of_rings?,
            memory: vec![0; memory_bytes],
            rings,
            completions: VecDeque::new(),
            counters: Counters::new(&simulation),
            queues: Queues::new(&simulation),
            windows: Windows::new(&mut simulation),
            times: Vec::new(),
            simulation,
            options,
        };
        for (offset, value) in settings(settings_of, model.registers()) {
            device.host.push_back(HostAction::Setting(offset, value));
        }
        for ring in device.rings.iter().flat_map(Rings::writes) {
            device
                .host
                .push_back(HostAction::Descriptor("request_ring", ring.pack()));
        }
        Ok(device)
    }

    /// Begins a waveform; the model must have been built with tracing.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn start_waveform(&mut self, path: &Path) -> Result<(), SimulationError> {
        self.simulation.start_waveform(path)
    }

    /// Clocks since reset.
    #[must_use]
    pub fn clocks(&self) -> u64 {
        self.clocks
    }

    /// Each counter of the NIC, without `count_`, and its value.
    pub fn counters(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counters.values(&self.simulation)
    }

    /// The host sends a frame, as it is. Behind it, [`World::touch`](spraynic_network::World::touch).
    pub fn send_frame(&mut self, frame: Vec<u8>, now_ns: u64) {
        self.happens(now_ns);
        self.host_frames.push(frame);
    }

    /// A frame comes to a port that its MAC marks bad, as where its FCS is wrong.
    pub fn receive_bad(&mut self, port: u8, frame: Vec<u8>, now_ns: u64) {
        self.happens(now_ns);
        if let Some(mac) = self.macs.get_mut(usize::from(port)) {
            mac.receiving.push_bad(frame);
        }
    }

    /// Bytes of payload that it wrote into memory, those of responses among them.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        self.ports[0].written()
    }

    /// Frames that came in and left so far, in the order of their clocks, where [`Options::frame_times`] is set.
    #[must_use]
    pub fn frame_times(&self) -> &[FrameTime] {
        &self.times
    }

    /// Frames that the NIC took from its MACs.
    #[must_use]
    pub fn frames_taken(&self) -> u64 {
        self.macs.iter().map(|mac| mac.receiving.taken).sum()
    }

    /// Frames that left the NIC and no MAC sent: marked bad, or the link was down.
    #[must_use]
    pub fn frames_not_sent(&self) -> u64 {
        let counts = self.macs.iter().map(|mac| mac.sending.bad + mac.sending.discarded);
        counts.sum()
    }

    /// The most bytes that a MAC ever had to hold because the NIC did not take them yet.
    #[must_use]
    pub fn deepest_mac_bytes(&self) -> usize {
        let depths = self.macs.iter().map(|mac| mac.receiving.deepest());
        depths.max().unwrap_or(0)
    }

    /// Reads a register. Clocks pass, and time does not.
    ///
    /// # Panics
    /// There is no such register, or the model stops.
    pub fn read_register(&mut self, offset: u32) -> u32 {
        self.registers.read(offset);
        let time_ns = self.last_ps.unwrap_or(0) / 1_000;
        for _ in 0..MOST_SETUP_CLOCKS {
            self.clock(time_ns);
            if let Some(value) = self.registers.value() {
                return value;
            }
        }
        panic!("the register at {offset:#x} is not read in {MOST_SETUP_CLOCKS} clocks");
    }

    /// One clock. True: something moved on a port.
    fn clock(&mut self, time_ns: u64) -> bool {
        self.next_host_action();
        let simulation = &mut self.simulation;
        simulation.set(self.time, time_ns);
        self.registers.drive(simulation);
        self.work.drive(simulation);
        self.receive_requests.drive(simulation);
        if let Some(rings) = &mut self.rings {
            rings.drive(simulation);
        }
        for mac in &mut self.macs {
            mac.receiving.drive(simulation);
            mac.sending.drive(simulation);
        }
        self.slow_path.drive(simulation);
        self.host_frames.drive(simulation);
        for port in &mut self.ports {
            port.drive(simulation, &self.memory, self.clocks);
        }
        let ring_memory = self.rings.as_ref().map_or(&[][..], Rings::memory);
        self.ring_port.drive(simulation, ring_memory, self.clocks);
        if let Err(error) = simulation.step() {
            panic!("{error}");
        }
        let mut moved = self.work.observe(simulation);
        moved |= self.receive_requests.observe(simulation);
        moved |= self.rings.as_mut().is_some_and(|rings| rings.observe(simulation));
        for (port, mac) in self.macs.iter_mut().enumerate() {
            let (taken, whole) = mac.receiving.observe(simulation);
            moved |= taken | mac.sending.observe(simulation, self.clocks);
            if self.options.frame_times
                && let Some(frame) = whole
            {
                self.times.push(FrameTime {
                    port: port as u8,
                    received: true,
                    clock: self.clocks,
                    frame,
                });
            }
        }
        moved |= self.slow_path.observe(simulation, self.clocks);
        moved |= self.host_frames.observe(simulation).0;
        for port in &mut self.ports {
            match port.observe(simulation, &mut self.memory, self.clocks) {
                Ok(transferred) => moved |= transferred,
                Err(error) => panic!("clock {}: {error}", self.clocks),
            }
        }
        // It only reads.
        match self.ring_port.observe(simulation, &mut [], self.clocks) {
            Ok(transferred) => moved |= transferred,
            Err(error) => panic!("clock {}: {error}", self.clocks),
        }
        if let Some(bytes) = self.completion.observe(simulation) {
            self.completions.push_back(Completion::unpack(bytes));
            moved = true;
        }
        self.queues.observe(simulation);
        self.windows.observe(simulation);
        match self.registers.observe(simulation) {
            Ok(transferred) => moved |= transferred,
            Err(error) => panic!("clock {}: {error}", self.clocks),
        }
        self.clocks += 1;
        moved
    }

    /// The driver does the next thing, if all before is done that it must come behind.
    fn next_host_action(&mut self) {
        while self.registers.is_idle() {
            match self.host.front() {
                Some(HostAction::Work(_) | HostAction::Receive(_)) => {}
                Some(_) if self.requests_are_taken() => {}
                _ => return,
            }
            match self.host.pop_front() {
                Some(HostAction::Work(descriptor)) => {
                    let by_ring = self.rings.as_mut().map(|rings| rings.post(&descriptor));
                    if by_ring != Some(true) {
                        self.work.push(descriptor);
                    }
                }
                Some(HostAction::Receive(descriptor)) => self.receive_requests.push(descriptor),
                Some(HostAction::Setting(offset, value)) => self.registers.write(offset, value),
                Some(HostAction::Descriptor(target, descriptor)) => {
                    assert!(self.registers.send(target, &descriptor), "there is no target {target}");
                }
                None => return,
            }
        }
    }

    /// Whether the NIC has all requests that it was told of.
    fn requests_are_taken(&self) -> bool {
        let by_stream = self.work.is_idle() && self.receive_requests.is_idle();
        by_stream && self.rings.as_ref().is_none_or(Rings::is_idle)
    }

    /// Whether something waits on a port, so that the clock must not be slow.
    fn is_waiting(&self) -> bool {
        let macs = self.macs.iter();
        !(self.host.is_empty()
            && self.registers.is_idle()
            && self.requests_are_taken()
            && self.host_frames.is_idle()
            && macs.clone().all(|mac| mac.receiving.is_idle() && mac.sending.is_idle())
            && self.ports.iter().all(MemoryPort::is_idle))
    }

    /// Writes the tables that were given before time began, and lets the NIC clear its own. Time stands still meanwhile.
    fn set_up(&mut self) {
        if !std::mem::take(&mut self.is_setup) {
            return;
        }
        let mut quiet = 0;
        for _ in 0..MOST_SETUP_CLOCKS {
            let moved = self.clock(0);
            quiet = if moved || self.is_waiting() { 0 } else { quiet + 1 };
            if quiet >= QUIET_CLOCKS && self.clocks >= self.least_setup_clocks {
                return;
            }
        }
        panic!("the tables are not written in {MOST_SETUP_CLOCKS} clocks");
    }

    /// All clocks up to this time.
    fn run_until(&mut self, now_ns: u64) {
        self.set_up();
        while self.next_ps <= now_ns * 1_000 {
            let at = self.next_ps;
            let moved = self.clock(at / 1_000);
            self.last_ps = Some(at);
            if moved || self.is_waiting() {
                self.quiet_since_ps = at;
            }
            let quiet_clocks = (at - self.quiet_since_ps) / self.period_ps;
            let periods = (quiet_clocks / SLOWER_AFTER).clamp(1, self.options.slowest.max(1));
            self.next_ps = at + periods * self.period_ps;
        }
    }

    /// Something comes from outside: the clocks run up to it, and it is seen in the next one, in full speed.
    fn happens(&mut self, now_ns: u64) {
        self.run_until(now_ns);
        let now_ps = now_ns * 1_000;
        let earliest = self.last_ps.map_or(0, |last| last + self.period_ps);
        self.next_ps = now_ps.next_multiple_of(self.period_ps).max(earliest);
        self.quiet_since_ps = self.next_ps;
    }
}

impl Device for VerilatedDevice {
    fn write(&mut self, write: &TableWrite, now_ns: u64) {
        let (target, descriptor) = match write {
            TableWrite::QueuePair(context) => ("queue_pair_context", context.pack()),
            TableWrite::Send(context) => ("send_context", context.pack()),
            TableWrite::Template(template) => ("header_template", template.pack()),
            TableWrite::Region(region) => ("memory_region", region.pack()),
            TableWrite::Path(entry) => ("path_entry", entry.pack()),
            TableWrite::Rate(limit) => ("rate_limit", limit.pack()),
        };
        if !self.is_setup {
            self.happens(now_ns);
        }
        self.host.push_back(HostAction::Descriptor(target, descriptor));
    }

    fn post(&mut self, request: &WorkRequest, now_ns: u64) {
        self.happens(now_ns);
        self.host.push_back(HostAction::Work(request.pack()));
    }

    fn post_receive(&mut self, request: &ReceiveRequest, now_ns: u64) {
        self.happens(now_ns);
        self.host.push_back(HostAction::Receive(request.pack()));
    }

    fn set_port(&mut self, port: u8, up: bool, now_ns: u64) {
        self.happens(now_ns);
        let bit = 1u8.checked_shl(port.into()).unwrap_or(0);
        if up {
            self.ports_up |= bit;
        } else {
            self.ports_up &= !bit;
        }
        self.simulation.set(self.port_up, self.ports_up.into());
        if let Some(mac) = self.macs.get_mut(usize::from(port)) {
            mac.sending.set_discards(!up);
        }
    }

    fn set_pause(&mut self, port: u8, paused: bool, now_ns: u64) {
        self.happens(now_ns);
        let bit = 1u8.checked_shl(port.into()).unwrap_or(0);
        if paused {
            self.ports_paused |= bit;
        } else {
            self.ports_paused &= !bit;
        }
        self.simulation.set(self.port_pause, self.ports_paused.into());
    }

    fn receive(&mut self, port: u8, frame: Vec<u8>, now_ns: u64) {
        self.happens(now_ns);
        if let Some(mac) = self.macs.get_mut(usize::from(port)) {
            mac.receiving.push(frame);
        }
    }

    fn transmit(&mut self, free: u8, _now_ns: u64) -> Option<(u8, Vec<u8>)> {
        let mut ports = (0u8..).zip(&mut self.macs);
        let (port, (frame, clock)) = ports.find_map(|(port, mac)| {
            let is_free = free >> port & 1 == 1;
            Some((port, is_free.then(|| mac.sending.pop()).flatten()?))
        })?;
        if self.options.frame_times {
            self.times.push(FrameTime {
                port,
                received: false,
                clock,
                frame: frame.clone(),
            });
        }
        Some((port, frame))
    }

    fn wake_ns(&mut self) -> Option<u64> {
        Some(self.next_ps.div_ceil(1_000))
    }

    fn advance(&mut self, now_ns: u64) {
        self.run_until(now_ns);
    }

    fn completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    fn slow_path(&mut self) -> Option<Vec<u8>> {
        self.slow_path.pop().map(|(frame, _)| frame)
    }

    fn memory(&mut self) -> &mut Vec<u8> {
        &mut self.memory
    }

    fn leftovers(&self) -> String {
        let mut held = self.queues.leftovers();
        held.extend(self.windows.leftovers());
        if let Some((output, all)) = self.free_slots {
            let used = all - self.simulation.get(output).min(all);
            if used > 0 {
                held.push(format!("slots of the pool: {used}"));
            }
        }
        if !(self.work.is_idle() && self.receive_requests.is_idle() && self.host.is_empty()) {
            held.push("requests that were not taken".to_owned());
        }
        if !self.ports.iter().all(MemoryPort::is_idle) {
            held.push("accesses of memory".to_owned());
        }
        held.join(", ")
    }

    fn activity(&self) -> Activity {
        self.counters.activity(&self.simulation)
    }
}
