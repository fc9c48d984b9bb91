//! Memory of the host behind an AXI4 port of a NIC: bursts are answered in order, after a latency in clocks, with pauses by chance.
//!
//! It refuses what leaves memory (SLVERR) and ends the run where a burst breaks a rule of AXI4.

use std::collections::VecDeque;

use crate::simulation::{Input, Output, Simulation, SimulationError};

/// Bursts do not cross it [AMBA AXI, A3.4.1]; and memory has whole pages, of which reads may see more than was asked for.
const PAGE: u64 = 4096;

/// RRESP and BRESP [AMBA AXI, A3.4.4].
const OKAY: u64 = 0;
const SLAVE_ERROR: u64 = 2;

/// How memory answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryTiming {
    /// Clocks from the transfer of an address to the first beat of data, and from the last beat of a write to its answer. At least 1.
    pub latency: u32,
    /// In so many of 256 clocks each channel pauses.
    pub pauses: u8,
    /// Bursts of reads, and of writes, that it takes before it has answered the first one.
    pub outstanding: usize,
}

impl Default for MemoryTiming {
    /// 32 clocks, no pauses, 256 bursts.
    fn default() -> Self {
        Self {
            latency: 32,
            pauses: 0,
            outstanding: 256,
        }
    }
}

/// Pauses by chance, the same for the same seed.
#[derive(Debug, Clone)]
struct Pauses {
    state: u64,
    share: u8,
}

impl Pauses {
    fn now(&mut self) -> bool {
        if self.share == 0 {
            return false;
        }
        // xorshift64 [Marsaglia, Xorshift RNGs, 2003].
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        ((self.state >> 32) as u8) < self.share
    }
}

/// An address channel, AR or AW.
#[derive(Debug)]
struct Address {
    name: &'static str,
    valid: Output,
    ready: Input,
    address: Output,
    length: Output,
    taking: bool,
    /// What was offered and not taken: it must stay.
    waits: Option<(u64, u64)>,
}

impl Address {
    fn new(simulation: &Simulation, prefix: &str, name: &'static str) -> Result<Self, SimulationError> {
        let output = |suffix: &str| simulation.output(&format!("{prefix}_{name}{suffix}"));
        Ok(Self {
            name,
            valid: output("valid")?,
            ready: simulation.input(&format!("{prefix}_{name}ready"))?,
            address: output("addr")?,
            length: output("len")?,
            taking: false,
            waits: None,
        })
    }

    fn drive(&mut self, simulation: &mut Simulation, taking: bool) {
        self.taking = taking;
        simulation.set(self.ready, u64::from(taking));
    }

    /// Address and beats of a burst that was transferred.
    fn observe(&mut self, simulation: &Simulation, beat_bytes: u64) -> Result<Option<(u64, u64)>, String> {
        let name = self.name;
        if simulation.get(self.valid) == 0 {
            if self.waits.is_some() {
                return Err(format!("{name}valid fell before {name}ready"));
            }
            return Ok(None);
        }
        let burst = (simulation.get(self.address), simulation.get(self.length) + 1);
        if self.waits.is_some_and(|before| before != burst) {
            return Err(format!("{name}addr or {name}len changed while {name}valid waited"));
        }
        self.waits = (!self.taking).then_some(burst);
        if !self.taking {
            return Ok(None);
        }
        let (address, beats) = burst;
        if !address.is_multiple_of(beat_bytes) || address % PAGE + beats * beat_bytes > PAGE {
            return Err(format!(
                "a burst of {beats} beats of {beat_bytes} bytes at {address:#x} ({name}) is not aligned or crosses 4 KiB"
            ));
        }
        Ok(Some(burst))
    }
}

/// A burst on its way.
#[derive(Debug, Clone, Copy)]
struct Burst {
    address: u64,
    beats: u64,
    /// Clock from which on it may be answered.
    from: u64,
}

#[derive(Debug)]
struct Reads {
    address: Address,
    valid: Input,
    ready: Output,
    data: Input,
    last: Input,
    response: Input,
    bursts: VecDeque<Burst>,
    offering: bool,
}

impl Reads {
    fn new(simulation: &Simulation, prefix: &str) -> Result<Self, SimulationError> {
        let input = |suffix: &str| simulation.input(&format!("{prefix}_r{suffix}"));
        Ok(Self {
            address: Address::new(simulation, prefix, "ar")?,
            valid: input("valid")?,
            ready: simulation.output(&format!("{prefix}_rready"))?,
            data: input("data")?,
            last: input("last")?,
            response: input("resp")?,
            bursts: VecDeque::new(),
            offering: false,
        })
    }

    fn drive(&mut self, simulation: &mut Simulation, pauses: &mut Pauses, clock: Clock<'_>) {
        let room = self.bursts.len() < clock.outstanding;
        self.address.drive(simulation, room && !pauses.now());
        if self.offering {
            return;
        }
        let due = self.bursts.front().copied().filter(|burst| burst.from <= clock.number);
        let Some(burst) = due.filter(|_| !pauses.now()) else {
            simulation.set(self.valid, 0);
            return;
        };
        let start = usize::try_from(burst.address).unwrap_or(usize::MAX);
        let beat_bytes = self.data.width() as usize / 8;
        let end = start.saturating_add(beat_bytes).min(clock.memory.len());
        // Of the last page, what is beyond memory reads as zero.
        let exists = burst.address < (clock.memory.len() as u64).next_multiple_of(PAGE);
        simulation.set_bytes(self.data, clock.memory.get(start..end).unwrap_or_default());
        simulation.set(self.response, if exists { OKAY } else { SLAVE_ERROR });
        simulation.set(self.last, u64::from(burst.beats == 1));
        simulation.set(self.valid, 1);
        self.offering = true;
    }

    fn observe(&mut self, simulation: &Simulation, number: u64, latency: u32) -> Result<bool, String> {
        let beat_bytes = u64::from(self.data.width() / 8);
        let mut moved = false;
        if self.offering && simulation.get(self.ready) == 1 {
            moved = true;
            self.offering = false;
            if let Some(burst) = self.bursts.front_mut() {
                burst.address += beat_bytes;
                burst.beats -= 1;
                if burst.beats == 0 {
                    self.bursts.pop_front();
                }
            }
        }
        if let Some((address, beats)) = self.address.observe(simulation, beat_bytes)? {
            moved = true;
            self.bursts.push_back(Burst {
                address,
                beats,
                from: number + u64::from(latency),
            });
        }
        Ok(moved)
    }
}

/// A beat of data that waits for its address.
#[derive(Debug)]
struct Beat {
    data: Vec<u8>,
    strobes: u128,
    last: bool,
}

#[derive(Debug)]
struct Writes {
    address: Address,
    data_valid: Output,
    data_ready: Input,
    data: Output,
    strobes: Output,
    last: Output,
    valid: Input,
    ready: Output,
    response: Input,
    bursts: VecDeque<Burst>,
    beats: VecDeque<Beat>,
    /// Of the burst at the front.
    refused: bool,
    /// When answers are due, and what they say.
    answers: VecDeque<(u64, u64)>,
    taking: bool,
    offering: bool,
    /// Bytes that were written.
    written: u64,
}

/// Beats that wait for their address.
const BEATS_AHEAD: usize = 64;

impl Writes {
    fn new(simulation: &Simulation, prefix: &str) -> Result<Self, SimulationError> {
        let output = |suffix: &str| simulation.output(&format!("{prefix}_{suffix}"));
        let input = |suffix: &str| simulation.input(&format!("{prefix}_{suffix}"));
        Ok(Self {
            address: Address::new(simulation, prefix, "aw")?,
            data_valid: output("wvalid")?,
            data_ready: input("wready")?,
            data: output("wdata")?,
            strobes: output("wstrb")?,
            last: output("wlast")?,
            valid: input("bvalid")?,
            ready: output("bready")?,
            response: input("bresp")?,
            bursts: VecDeque::new(),
            beats: VecDeque::new(),
            refused: false,
            answers: VecDeque::new(),
            taking: false,
            offering: false,
            written: 0,
        })
    }

    fn drive(&mut self, simulation: &mut Simulation, pauses: &mut Pauses, clock: Clock<'_>) {
        let room = self.bursts.len() + self.answers.len() < clock.outstanding;
        self.address.drive(simulation, room && !pauses.now());
        self.taking = self.beats.len() < BEATS_AHEAD && !pauses.now();
        simulation.set(self.data_ready, u64::from(self.taking));
        if self.offering {
            return;
        }
        let due = self.answers.front().copied().filter(|(from, _)| *from <= clock.number);
        match due.filter(|_| !pauses.now()) {
            Some((_, response)) => {
                simulation.set(self.response, response);
                simulation.set(self.valid, 1);
                self.offering = true;
            }
            None => simulation.set(self.valid, 0),
        }
    }

    fn observe(
        &mut self,
        simulation: &Simulation,
        memory: &mut [u8],
        number: u64,
        latency: u32,
    ) -> Result<bool, String> {
        let beat_bytes = self.data.width() as usize / 8;
        let mut moved = false;
        if self.offering && simulation.get(self.ready) == 1 {
            moved = true;
            self.offering = false;
            self.answers.pop_front();
        }
        if let Some((address, beats)) = self.address.observe(simulation, beat_bytes as u64)? {
            moved = true;
            self.bursts.push_back(Burst {
                address,
                beats,
                from: 0,
            });
        }
        if self.taking && simulation.get(self.data_valid) == 1 {
            moved = true;
            let mut strobes = [0; 16];
            let given = simulation.bytes(self.strobes);
            strobes[..given.len().min(16)].copy_from_slice(&given[..given.len().min(16)]);
            self.beats.push_back(Beat {
                data: simulation.bytes(self.data)[..beat_bytes].to_vec(),
                strobes: u128::from_le_bytes(strobes),
                last: simulation.get(self.last) == 1,
            });
        }
        while let Some(burst) = self.bursts.front_mut()
            && let Some(beat) = self.beats.pop_front()
        {
            if beat.last != (burst.beats == 1) {
                return Err(format!(
                    "wlast is {} with {} beats of its burst to come",
                    beat.last,
                    burst.beats - 1
                ));
            }
            self.refused |= !store(memory, burst.address, &beat);
            self.written += u64::from(beat.strobes.count_ones());
            burst.address += beat_bytes as u64;
            burst.beats -= 1;
            if burst.beats == 0 {
                let response = if std::mem::take(&mut self.refused) {
                    SLAVE_ERROR
                } else {
                    OKAY
                };
                self.answers.push_back((number + u64::from(latency), response));
                self.bursts.pop_front();
            }
        }
        Ok(moved)
    }
}

/// Writes the strobed bytes of a beat; false: some are beyond memory.
fn store(memory: &mut [u8], address: u64, beat: &Beat) -> bool {
    let start = usize::try_from(address).unwrap_or(usize::MAX);
    let whole = u128::MAX >> (128 - beat.data.len());
    if beat.strobes == whole
        && let Some(place) = start
            .checked_add(beat.data.len())
            .and_then(|end| memory.get_mut(start..end))
    {
        place.copy_from_slice(&beat.data);
        return true;
    }
    let mut good = true;
    for (lane, byte) in beat.data.iter().enumerate() {
        if beat.strobes >> lane & 1 == 1 {
            match start.checked_add(lane).and_then(|at| memory.get_mut(at)) {
                Some(place) => *place = *byte,
                None => good = false,
            }
        }
    }
    good
}

/// What memory has to know to drive a clock.
#[derive(Clone, Copy)]
struct Clock<'m> {
    number: u64,
    memory: &'m [u8],
    outstanding: usize,
}

/// An AXI4 port with memory behind it.
#[derive(Debug)]
pub(super) struct MemoryPort {
    prefix: String,
    timing: MemoryTiming,
    pauses: Pauses,
    reads: Option<Reads>,
    writes: Option<Writes>,
}

impl MemoryPort {
    /// The port of this prefix; a channel that the model does not have is not there.
    pub(super) fn new(
        simulation: &Simulation,
        prefix: &str,
        timing: MemoryTiming,
        seed: u64,
    ) -> Result<Self, SimulationError> {
        let has = |name: &str| simulation.output(&format!("{prefix}_{name}")).is_ok();
        let reads = has("arvalid").then(|| Reads::new(simulation, prefix)).transpose()?;
        let writes = has("awvalid").then(|| Writes::new(simulation, prefix)).transpose()?;
        Ok(Self {
            prefix: prefix.to_owned(),
            timing: MemoryTiming {
                latency: timing.latency.max(1),
                outstanding: timing.outstanding.max(1),
                ..timing
            },
            pauses: Pauses {
                state: seed | 1,
                share: timing.pauses,
            },
            reads,
            writes,
        })
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.reads.as_ref().is_none_or(|reads| reads.bursts.is_empty())
            && self
                .writes
                .as_ref()
                .is_none_or(|writes| writes.bursts.is_empty() && writes.beats.is_empty() && writes.answers.is_empty())
    }

    /// Bytes that were written.
    pub(super) fn written(&self) -> u64 {
        self.writes.as_ref().map_or(0, |writes| writes.written)
    }

    pub(super) fn drive(&mut self, simulation: &mut Simulation, memory: &[u8], number: u64) {
        let clock = Clock {
            number,
            memory,
            outstanding: self.timing.outstanding,
        };
        if let Some(reads) = &mut self.reads {
            reads.drive(simulation, &mut self.pauses, clock);
        }
        if let Some(writes) = &mut self.writes {
            writes.drive(simulation, &mut self.pauses, clock);
        }
    }

    /// True: something was transferred.
    ///
    /// # Errors
    /// A rule of AXI4 is broken.
    pub(super) fn observe(&mut self, simulation: &Simulation, memory: &mut [u8], number: u64) -> Result<bool, String> {
        let named = |error: String| format!("{}: {error}", self.prefix);
        let latency = self.timing.latency;
        let mut moved = false;
        if let Some(reads) = &mut self.reads {
            moved |= reads.observe(simulation, number, latency).map_err(named)?;
        }
        if let Some(writes) = &mut self.writes {
            moved |= writes
                .observe(simulation, memory, number, latency)
                .map_err(|error| format!("{}: {error}", self.prefix))?;
        }
        Ok(moved)
    }
}
