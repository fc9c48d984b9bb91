//! The receive pipeline under test: what the host writes into its tables, the frames that come, and the memory behind it.
//!
//! It drives and records, and never judges: tests compare what came out with the golden model, with a capture, or with what was sent.

use std::collections::VecDeque;

use spraynic_config::descriptor::{
    AtomicWrite, Completion, Descriptor, MemoryRegion, MemoryWrite, PacketDescriptor, QueuePairContext, ReceiveRequest,
};
use spraynic_config::{NicConfig, Preset};
use spraynic_golden::ack_engine::Pacing;
use spraynic_hdl::receive_pipeline::receive_pipeline;
use spraynic_hdl::write_data::WriteData;
use spraynic_rtl::{Context, Definition};

use crate::bench::{Agent, Answer, Bench, BenchError, Limits, Outcome, Stimulus};
use crate::model::ModelSource;
use crate::simulation::Simulation;
use crate::stream::{Frame, Pattern, Received, SinkChecks};

pub mod judge;
pub mod traffic;

/// Nanoseconds by which `time_ns` grows in each clock of the harness.
pub const NANOSECONDS_A_CLOCK: u64 = 4;

/// DSCPs of trimmed packets.
const TRIMMED: u8 = 62;
const TRIMMED_LAST_HOP: u8 = 63;

/// Clocks from the last table write until frames may come: the tables are written by then.
const SETTLE_CLOCKS: u64 = 64;

/// The pipeline with `m_axis_write_data` as a plain stream: strobes above the data in `tdata`. All else is as it is.
#[must_use]
pub fn bench<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let pipeline = receive_pipeline(context, config);
    let m = context.module(&format!("{}_bench", pipeline.name()));
    let instance = m.instance("u_pipeline", pipeline);
    for port in pipeline.ports() {
        let own = ["clk", "rst"].contains(&port.name.as_str()) || port.name.starts_with("m_axis_write_data");
        match (own, port.output) {
            (true, _) => {}
            (false, true) => {
                m.output_of(&port.name, instance.output(&port.name));
            }
            (false, false) => {
                instance.input(&port.name).set(m.input(&port.name, port.width));
            }
        }
    }
    let data = WriteData::from_instance(instance, "m_axis_write_data");
    m.output_of("m_axis_write_data_tdata", data.pack());
    m.output_of("m_axis_write_data_tlast", data.last);
    m.output_of("m_axis_write_data_tvalid", data.valid);
    data.ready.set(m.input("m_axis_write_data_tready", 1));
    m.finish()
}

/// A small NIC of a preset's width, with everything on the wire. Tests share it, so that its model is built once.
///
/// # Panics
/// Never: the values are valid.
#[must_use]
pub fn small(preset: Preset) -> NicConfig {
    let mut config = NicConfig::preset(preset);
    config.queue_pairs.count = 32;
    config.wire.max_mtu = 4096;
    config.transmit.frame_fifo_bytes = 16_384;
    config.receive.window = 128;
    config.receive.pool_slots = 256;
    config.receive.reorder_queue_pairs = 8;
    config.receive.guaranteed_slots = 2;
    config.receive.memory_regions = 16;
    config.receive.receive_requests = 16;
    config.validate().expect("the values are valid");
    config
}

/// The model's source for a configuration.
#[must_use]
pub fn source(config: &NicConfig) -> ModelSource {
    let context = Context::new();
    ModelSource::from_definition(bench(&context, config))
}

/// Everything that is given to the pipeline.
#[derive(Debug, Clone, Default)]
pub struct Scenario {
    /// Contexts, written first.
    pub contexts: Vec<QueuePairContext>,
    /// Memory regions, written first.
    pub regions: Vec<MemoryRegion>,
    /// Receive requests, posted behind the contexts.
    pub receive_requests: Vec<ReceiveRequest>,
    /// Memory at the start, from address 0.
    pub memory: Vec<u8>,
    /// Frames; each waits for its own [`Frame::not_before`], counted from when the tables are written.
    pub frames: Vec<Frame>,
    /// When to acknowledge.
    pub pacing: Pacing,
    /// Clocks that memory takes to answer.
    pub memory_latency: u64,
    /// Gaps between beats of frames.
    pub gaps: Pattern,
    /// Back-pressure of every output.
    pub pressure: Pattern,
}

/// A packet for the transmit path with its payload, as memory held it when the packet was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// What to build.
    pub packet: PacketDescriptor,
    /// Its payload.
    pub payload: Vec<u8>,
    /// Clocks since reset.
    pub cycle: u64,
}

/// What came out.
#[derive(Debug, Clone, Default)]
pub struct Result {
    /// Memory at the end.
    pub memory: Vec<u8>,
    /// `m_axis_control`.
    pub control: Vec<Given>,
    /// `m_axis_response`.
    pub responses: Vec<Given>,
    /// `m_axis_completion`.
    pub completions: Vec<Completion>,
    /// All else, and the counters.
    pub outcome: Outcome,
    /// Writes that memory was asked for.
    pub writes: usize,
}

/// Outputs that the run listens to.
const SINKS: [&str; 13] = [
    "m_axis_slow_path",
    "m_axis_feedback",
    "m_axis_feedback_payload",
    "m_axis_endpoint",
    "m_axis_control",
    "m_axis_response",
    "m_axis_requester",
    "m_axis_requester_payload",
    "m_axis_write",
    "m_axis_write_data",
    "m_axis_completion",
    "m_axis_atomic_read",
    "m_axis_atomic_write",
];

impl Scenario {
    /// Runs it.
    ///
    /// # Errors
    /// The model hangs, breaks a rule of its streams, or writes outside of memory.
    pub fn run(
        &self,
        simulation: &mut Simulation,
        config: &NicConfig,
        limits: Limits,
    ) -> std::result::Result<Result, BenchError> {
        let (stimulus, begin) = self.stimulus(config);
        let mut memory = MemoryAgent {
            latency: self.memory_latency,
            beat_bytes: config.datapath.width_bits as usize / 8,
            begin,
            result: Result {
                memory: self.memory.clone(),
                ..Result::default()
            },
            writes: VecDeque::new(),
            data: VecDeque::new(),
        };
        let outcome = Bench::new(simulation, &stimulus, limits)?.run(&mut memory)?;
        Ok(Result {
            outcome,
            ..memory.result
        })
    }

    /// The stimulus, and the clock in which the first frame may come.
    fn stimulus(&self, config: &NicConfig) -> (Stimulus, u64) {
        let largest = config.queue_pairs.count.max(config.receive.memory_regions);
        let swept = 2 * u64::from(largest) + SETTLE_CLOCKS;
        // A context that opens a queue pair clears its window first.
        let a_context = 4 * u64::from(config.receive.window) + 16;
        let posted = swept + a_context * self.contexts.len() as u64;
        let begin = posted + 8 * (self.receive_requests.len() + self.regions.len()) as u64 + SETTLE_CLOCKS;
        let at = |not_before: u64, bytes: Vec<u8>| Frame {
            not_before,
            ..Frame::new(bytes)
        };
        let mut stimulus = Stimulus::default()
            .input_at("time_ns", 0, 0, NANOSECONDS_A_CLOCK)
            .input("trimmed_dscp", TRIMMED.into())
            .input("trimmed_last_hop_dscp", TRIMMED_LAST_HOP.into())
            .input("sack_every", self.pacing.sack_every.into())
            .input("sack_bytes", self.pacing.sack_bytes.into())
            .input("sack_timer_ns", self.pacing.sack_timer_ns.into())
            .input("cnp_interval_ns", self.pacing.cnp_interval_ns.into())
            .source(
                "s_axis_context",
                Pattern::Always,
                self.contexts.iter().map(|context| Frame::new(context.pack())),
            )
            .source(
                "s_axis_region",
                Pattern::Always,
                self.regions.iter().map(|region| Frame::new(region.pack())),
            )
            .source(
                "s_axis_receive_request",
                Pattern::Always,
                self.receive_requests.iter().map(|request| at(posted, request.pack())),
            )
            .source(
                "s_axis",
                self.gaps.clone(),
                self.frames.iter().map(|frame| Frame {
                    not_before: begin + frame.not_before,
                    ..frame.clone()
                }),
            );
        for stream in ["s_axis_written", "s_axis_atomic_data", "s_axis_atomic_written"] {
            stimulus = stimulus.source(stream, Pattern::Always, []);
        }
        for stream in SINKS {
            stimulus = stimulus.sink(stream, self.pressure.clone(), SinkChecks::default());
        }
        (stimulus, begin)
    }
}

/// Memory, and the record of what leaves.
struct MemoryAgent {
    latency: u64,
    beat_bytes: usize,
    begin: u64,
    result: Result,
    writes: VecDeque<MemoryWrite>,
    data: VecDeque<Vec<u8>>,
}

impl MemoryAgent {
    /// Carries out the next write of which address and data are there.
    fn write(&mut self, answer: &mut Answer<'_>) -> std::result::Result<(), String> {
        while let (Some(write), Some(_)) = (self.writes.front(), self.data.front()) {
            let write = *write;
            let data = self.data.pop_front().unwrap_or_default();
            self.writes.pop_front();
            self.apply(&write, &data)?;
            let done = Frame {
                not_before: answer.cycle + self.latency,
                ..Frame::new([0])
            };
            answer.send("s_axis_written", done).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The strobed bytes must be those from `address` on, `length` of them, and no others.
    fn apply(&mut self, write: &MemoryWrite, data: &[u8]) -> std::result::Result<(), String> {
        self.result.writes += 1;
        let base = write.address - write.address % self.beat_bytes as u64;
        let wanted = write.address..write.address + u64::from(write.length);
        let mut written = 0;
        for (index, beat) in data.chunks(self.beat_bytes + self.beat_bytes / 8).enumerate() {
            let (bytes, strobes) = beat.split_at(self.beat_bytes);
            for (lane, byte) in bytes.iter().enumerate() {
                if strobes[lane / 8] >> (lane % 8) & 1 == 0 {
                    continue;
                }
                let address = base + (index * self.beat_bytes + lane) as u64;
                if !wanted.contains(&address) {
                    return Err(format!("a strobe at {address:#x}, outside of {wanted:x?}"));
                }
                let place = self
                    .result
                    .memory
                    .get_mut(address as usize)
                    .ok_or_else(|| format!("a write at {address:#x}, where there is no memory"))?;
                *place = *byte;
                written += 1;
            }
        }
        if written != u64::from(write.length) {
            return Err(format!("{written} bytes written at {wanted:x?}"));
        }
        Ok(())
    }

    fn eight_bytes(&mut self, address: u64) -> std::result::Result<&mut [u8], String> {
        let start = address as usize;
        self.result
            .memory
            .get_mut(start..start + 8)
            .filter(|_| address.is_multiple_of(8))
            .ok_or_else(|| format!("an atomic at {address:#x}"))
    }

    fn given(&self, frame: &Received) -> Given {
        let packet = PacketDescriptor::unpack(&frame.data);
        let start = packet.local_address as usize;
        let payload = self
            .result
            .memory
            .get(start..start + usize::from(packet.payload_length))
            .unwrap_or_default()
            .to_vec();
        Given {
            packet,
            payload,
            cycle: frame.first_cycle.saturating_sub(self.begin),
        }
    }
}

impl Agent for MemoryAgent {
    fn on_frame(&mut self, answer: &mut Answer<'_>, stream: &str, frame: &Received) -> std::result::Result<(), String> {
        let later = |answer: &Answer<'_>, bytes: Vec<u8>, latency: u64| Frame {
            not_before: answer.cycle + latency,
            ..Frame::new(bytes)
        };
        match stream {
            "m_axis_write" => self.writes.push_back(MemoryWrite::unpack(&frame.data)),
            "m_axis_write_data" => self.data.push_back(frame.data.clone()),
            "m_axis_atomic_read" => {
                let mut address = [0; 8];
                address.copy_from_slice(&frame.data[..8]);
                let value = self.eight_bytes(u64::from_le_bytes(address))?.to_vec();
                let frame = later(answer, value, self.latency);
                return answer
                    .send("s_axis_atomic_data", frame)
                    .map_err(|error| error.to_string());
            }
            "m_axis_atomic_write" => {
                let write = AtomicWrite::unpack(&frame.data);
                self.eight_bytes(write.address)?
                    .copy_from_slice(&write.data.to_le_bytes());
                let frame = later(answer, vec![0], self.latency);
                return answer
                    .send("s_axis_atomic_written", frame)
                    .map_err(|error| error.to_string());
            }
            "m_axis_control" => {
                let given = self.given(frame);
                self.result.control.push(given);
            }
            "m_axis_response" => {
                let given = self.given(frame);
                self.result.responses.push(given);
            }
            "m_axis_completion" => self.result.completions.push(Completion::unpack(&frame.data)),
            _ => {}
        }
        self.write(answer)
    }
}
