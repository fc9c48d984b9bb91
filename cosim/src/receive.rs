//! The receive pipeline under test: what the host writes into its tables, the frames that come, and the memory behind it.
//!
//! It drives and records, and never judges: tests compare what came out with the golden model, with a capture, or with what was sent.

use spraynic_config::descriptor::{
    Completion, Descriptor, MemoryRegion, PacketDescriptor, QueuePairContext, ReceiveRequest,
};
use spraynic_config::{NicConfig, Preset};
use spraynic_golden::ack_engine::Pacing;
use spraynic_hdl::receive_pipeline::receive_pipeline;
use spraynic_hdl::response_engine::gives_messages;
use spraynic_hdl::write_data::WriteData;
use spraynic_rtl::{Context, Definition};

use crate::bench::{Bench, BenchError, Limits, Outcome, Stimulus};
use crate::model::ModelSource;
use crate::simulation::Simulation;
use crate::stream::{Frame, SinkChecks};

mod host;
pub mod judge;
pub mod patterns;
pub mod traffic;

use host::Host;
use patterns::{Patterns, SINKS};

/// Nanoseconds by which `time_ns` grows in each clock of the harness.
pub const NANOSECONDS_A_CLOCK: u64 = 4;

/// DSCP of trimmed packets.
pub const TRIMMED: u8 = 62;
/// DSCP of packets that were trimmed at the last hop.
pub const TRIMMED_LAST_HOP: u8 = 63;

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
    config.receive.guaranteed_slots = 8;
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
    /// What comes later, in this order.
    pub batches: Vec<Batch>,
    /// When to acknowledge.
    pub pacing: Pacing,
    /// Clocks that memory takes to answer.
    pub memory_latency: u64,
    /// Gaps and back-pressure, each port its own.
    pub patterns: Patterns,
}

/// What the host and the network do when so many context writes, those of the start among them, have come to the end of the receive path.
/// Numbers of clocks are counted from then, or from when the tables are written.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Context writes that `responder` has taken before; 0: the batch begins with the first frames.
    pub after_contexts: usize,
    /// Contexts, each not before so many clocks.
    pub contexts: Vec<(u64, QueuePairContext)>,
    /// Memory regions.
    pub regions: Vec<(u64, MemoryRegion)>,
    /// Receive requests.
    pub receive_requests: Vec<(u64, ReceiveRequest)>,
    /// Frames.
    pub frames: Vec<Frame>,
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
    /// `m_axis_response`, and the packets of `m_axis_message`, each message's at the time at which it was given.
    pub responses: Vec<Given>,
    /// `m_axis_completion`.
    pub completions: Vec<Completion>,
    /// All else, and the counters.
    pub outcome: Outcome,
    /// Writes that memory was asked for.
    pub writes: usize,
}

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
        let mut host = Host::new(self, config, begin);
        let outcome = Bench::new(simulation, &stimulus, limits)?.run(&mut host)?;
        let cycle = outcome.cycles;
        host.finish(outcome)
            .map_err(|message| BenchError::Agent { cycle, message })
    }

    /// Writes of contexts, in their order.
    pub fn context_writes(&self) -> impl Iterator<Item = &QueuePairContext> {
        let later = self.batches.iter().flat_map(|batch| &batch.contexts);
        self.contexts.iter().chain(later.map(|(_, context)| context))
    }

    /// Writes of memory regions, in their order.
    pub fn region_writes(&self) -> impl Iterator<Item = &MemoryRegion> {
        let later = self.batches.iter().flat_map(|batch| &batch.regions);
        self.regions.iter().chain(later.map(|(_, region)| region))
    }

    /// Receive requests, in their order.
    pub fn posted_requests(&self) -> impl Iterator<Item = &ReceiveRequest> {
        let later = self.batches.iter().flat_map(|batch| &batch.receive_requests);
        self.receive_requests.iter().chain(later.map(|(_, request)| request))
    }

    /// Frames, in their order.
    pub fn all_frames(&self) -> impl Iterator<Item = &Frame> {
        let later = self.batches.iter().flat_map(|batch| &batch.frames);
        self.frames.iter().chain(later)
    }

    /// The stimulus, and the clock in which the first frame may come.
    fn stimulus(&self, config: &NicConfig) -> (Stimulus, u64) {
        let largest = config.queue_pairs.count.max(config.receive.memory_regions);
        let swept = 2 * u64::from(largest) + SETTLE_CLOCKS;
        // A context that opens a queue pair clears its window first.
        let a_context = 4 * u64::from(config.receive.window) + 16;
        let posted = swept + a_context * self.contexts.len() as u64;
        let begin = posted + 8 * (self.receive_requests.len() + self.regions.len()) as u64 + SETTLE_CLOCKS;
        let soon: Vec<&Batch> = self.batches.iter().filter(|batch| batch.after_contexts == 0).collect();
        let contexts = self.contexts.iter().map(|context| Frame::new(context.pack()));
        let regions = self.regions.iter().map(|region| Frame::new(region.pack()));
        let requests = self.receive_requests.iter().map(|request| at(posted, request.pack()));
        let frames = self
            .frames
            .iter()
            .map(|frame| at(begin + frame.not_before, frame.clone()));
        let mut stimulus = Stimulus::default()
            .input_at("time_ns", 0, 0, NANOSECONDS_A_CLOCK)
            .input("trimmed_dscp", TRIMMED.into())
            .input("trimmed_last_hop_dscp", TRIMMED_LAST_HOP.into())
            .input("sack_every", self.pacing.sack_every.into())
            .input("sack_bytes", self.pacing.sack_bytes.into())
            .input("sack_timer_ns", self.pacing.sack_timer_ns.into())
            .input("cnp_interval_ns", self.pacing.cnp_interval_ns.into());
        let mut sources: [(&str, Vec<Frame>); 4] = [
            ("s_axis_context", contexts.collect()),
            ("s_axis_region", regions.collect()),
            ("s_axis_receive_request", requests.collect()),
            ("s_axis", frames.collect()),
        ];
        for batch in soon {
            for ((_, frames), more) in sources.iter_mut().zip(batch.frames_from(begin)) {
                frames.extend(more);
            }
        }
        let answers =
            ["s_axis_written", "s_axis_atomic_data", "s_axis_atomic_written"].map(|stream| (stream, Vec::new()));
        for (stream, frames) in sources.into_iter().chain(answers) {
            stimulus = stimulus.source(stream, self.patterns.of(stream).clone(), frames);
        }
        let sinks = SINKS.into_iter();
        let has_messages = gives_messages(config);
        for stream in sinks.filter(|stream| *stream != "m_axis_message" || has_messages) {
            stimulus = stimulus.sink(stream, self.patterns.of(stream).clone(), SinkChecks::default());
        }
        (stimulus, begin)
    }
}

/// Something to send, not before this clock.
fn at(not_before: u64, frame: impl Into<Frame>) -> Frame {
    Frame {
        not_before,
        ..frame.into()
    }
}

impl Batch {
    /// What goes to `s_axis_context`, `s_axis_region`, `s_axis_receive_request` and `s_axis`, where the batch begins in this clock.
    fn frames_from(&self, begin: u64) -> [Vec<Frame>; 4] {
        let contexts = self
            .contexts
            .iter()
            .map(|(clocks, context)| at(begin + clocks, context.pack()));
        let regions = self
            .regions
            .iter()
            .map(|(clocks, region)| at(begin + clocks, region.pack()));
        let requests = self.receive_requests.iter();
        let requests = requests.map(|(clocks, request)| at(begin + clocks, request.pack()));
        let frames = self
            .frames
            .iter()
            .map(|frame| at(begin + frame.not_before, frame.clone()));
        [
            contexts.collect(),
            regions.collect(),
            requests.collect(),
            frames.collect(),
        ]
    }
}
