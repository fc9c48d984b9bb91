//! The transmit pipeline under test: random work for it, the memory that answers its payload requests, and the judge that compares every
//! frame and counter with the golden model.
//!
//! A [`Scenario`] says everything that is given to the pipeline. Contexts and templates are written first, then everything else comes at once,
//! so that the order between sources is the RTL's; the golden model follows it and checks that it is a legal one.

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    Descriptor, HeaderTemplate, PacketDescriptor, PayloadRequest, SliceContext, WorkRequest,
};
use spraynic_golden::transmit_pipeline::{Config, Counters, Memory, Mismatch, TransmitPipeline};
use spraynic_wire::Packet;
use thiserror::Error;

use crate::bench::{Agent, Answer, Outcome, Stimulus};
use crate::scoreboard::{Expectation, Format};
use crate::stream::{Frame, Pattern, Received, SinkChecks};

pub mod campaign;
pub mod strategy;

/// Clocks from a context's acceptance until work may come: the tables are written by then.
const SETTLE_CLOCKS: u64 = 32;

/// Nanoseconds by which `time_ns` grows in each clock of the harness.
pub const NANOSECONDS_A_CLOCK: u64 = 4;

/// Everything that is given to the pipeline.
#[derive(Debug, Clone, Default)]
pub struct Scenario {
    /// Slicing contexts, written first.
    pub contexts: Vec<SliceContext>,
    /// Header templates, written first.
    pub templates: Vec<HeaderTemplate>,
    /// Identification of the first IPv4 frame.
    pub identification: u16,
    /// Value of `time_ns` in cycle 0.
    pub time_ns: u64,
    /// Work requests.
    pub requests: Vec<WorkRequest>,
    /// Descriptors with payload of the responder.
    pub responses: Vec<PacketDescriptor>,
    /// Control descriptors.
    pub control: Vec<PacketDescriptor>,
    /// Frames of the host.
    pub slow_path: Vec<Vec<u8>>,
    /// When the memory's answers are offered.
    pub memory: MemoryTiming,
    /// Gaps of requests, responses, control, slow path, in this order.
    pub gaps: [Pattern; 4],
    /// Back-pressure of payload requests and frames.
    pub pressure: [Pattern; 2],
}

/// How long the memory takes.
#[derive(Debug, Clone, Default)]
pub struct MemoryTiming {
    /// Clocks from request to answer, at least.
    pub latency: u64,
    /// Gaps in the answer.
    pub gaps: Pattern,
    /// One request in so many (by its address) gets an answer that is too long or too short; 0: none.
    pub wrong_one_in: u32,
}

/// The payload at each address: a function of address and key, so that nothing is stored.
#[must_use]
pub fn payload(request: &PayloadRequest, length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|offset| {
            let address = request.address.wrapping_add(offset);
            let mixed = (address ^ u64::from(request.local_key)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            (mixed >> 56) as u8
        })
        .collect()
}

/// The memory as the golden model reads it, and as an agent that answers the RTL: the same request gets the same answer, whoever asks.
#[derive(Debug, Clone)]
pub struct PatternMemory {
    timing: MemoryTiming,
}

impl Memory for PatternMemory {
    fn read(&mut self, request: &PayloadRequest) -> Vec<u8> {
        let mixed = request.address.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 32;
        let wrong = self.timing.wrong_one_in > 0 && mixed.is_multiple_of(u64::from(self.timing.wrong_one_in));
        let length = usize::from(request.length);
        let off = 1 + (mixed >> 8) as usize % 200;
        match (wrong, mixed & 0x80 == 0) {
            (false, _) => payload(request, length),
            (true, true) => payload(request, length + off),
            // An AXI-Stream packet has one byte at least.
            (true, false) => payload(request, length.saturating_sub(off).max(1)),
        }
    }
}

impl Agent for PatternMemory {
    fn on_frame(&mut self, answer: &mut Answer<'_>, stream: &str, frame: &Received) -> Result<(), String> {
        if stream != "m_axis_payload_request" {
            return Ok(());
        }
        let bytes = self.read(&PayloadRequest::unpack(&frame.data));
        let not_before = answer.cycle + self.timing.latency;
        let frame = Frame {
            not_before,
            ..Frame::new(bytes)
        };
        answer.send("s_axis_payload", frame).map_err(|error| error.to_string())
    }
}

/// The pipeline did something else than the golden model.
#[derive(Debug, Error)]
pub enum Difference {
    /// A frame that could not come.
    #[error("frame {index} (cycle {cycle}): {report}")]
    Frame {
        /// Index of the frame on `m_axis`, from 0.
        index: usize,
        /// Cycle of its first beat.
        cycle: u64,
        /// What came and what could have come.
        report: String,
    },
    /// A counter.
    #[error("count_{name} is {rtl}, the golden model counts {golden}")]
    Counter {
        /// Its name.
        name: String,
        /// The RTL's value.
        rtl: u64,
        /// The golden model's value.
        golden: u32,
    },
    /// Frames that did not come.
    #[error("frames are missing: {0}")]
    Missing(String),
}

impl Scenario {
    /// What goes into the model.
    #[must_use]
    pub fn stimulus(&self, config: &NicConfig) -> Stimulus {
        let begin = u64::from(config.queue_pairs.count)
            + self.contexts.len() as u64
            + self.templates.len() as u64
            + SETTLE_CLOCKS;
        let later = |bytes: Vec<u8>| Frame {
            not_before: begin,
            ..Frame::new(bytes)
        };
        let [requests, responses, control, slow_path] = &self.gaps;
        let [payload_requests, frames] = &self.pressure;
        let stimulus = Stimulus::default()
            .input_at("time_ns", 0, self.time_ns, NANOSECONDS_A_CLOCK)
            .input("identification", u64::from(self.identification))
            .input_at("identification_load", 0, 1, 0)
            .input_at("identification_load", 1, 0, 0)
            .source(
                "s_axis_context",
                Pattern::Always,
                self.contexts.iter().map(|context| Frame::new(context.pack())),
            )
            .source(
                "s_axis_template",
                Pattern::Always,
                self.templates.iter().map(|template| Frame::new(template.pack())),
            )
            .source(
                "s_axis_work_request",
                requests.clone(),
                self.requests.iter().map(|request| later(request.pack())),
            )
            .source(
                "s_axis_response",
                responses.clone(),
                self.responses.iter().map(|packet| later(packet.pack())),
            )
            .source(
                "s_axis_slow_path",
                slow_path.clone(),
                self.slow_path.iter().cloned().map(later),
            )
            .source("s_axis_payload", self.memory.gaps.clone(), [])
            .sink(
                "m_axis_payload_request",
                payload_requests.clone(),
                SinkChecks::default(),
            )
            .sink("m_axis", frames.clone(), SinkChecks::default());
        // A pipeline without control packets has no such stream.
        if !config.wire.control {
            return stimulus;
        }
        stimulus.source(
            "s_axis_control",
            control.clone(),
            self.control.iter().map(|packet| later(packet.pack())),
        )
    }

    /// The memory that answers the model.
    #[must_use]
    pub fn memory(&self) -> PatternMemory {
        PatternMemory {
            timing: self.memory.clone(),
        }
    }

    /// The golden model with everything given.
    #[must_use]
    pub fn golden(&self, config: &NicConfig) -> TransmitPipeline {
        let mut golden = TransmitPipeline::new(Config::from(config));
        golden.load_identification(self.identification);
        self.contexts.iter().for_each(|context| golden.write_context(context));
        self.templates
            .iter()
            .for_each(|template| golden.write_template(template));
        for request in &self.requests {
            // What is dropped is counted, and the counters are compared.
            let _ = golden.request(request);
        }
        self.responses.iter().for_each(|packet| golden.response(*packet));
        self.control.iter().for_each(|packet| golden.control(*packet));
        self.slow_path.iter().for_each(|frame| golden.slow_path(frame.clone()));
        golden
    }

    /// Compares what came out with the golden model: every frame, every counter, nothing missing.
    ///
    /// # Errors
    /// The first [`Difference`].
    pub fn judge(&self, config: &NicConfig, outcome: &Outcome) -> Result<(), Difference> {
        let mut golden = self.golden(config);
        let mut memory = self.memory();
        for (index, frame) in outcome.received("m_axis").iter().enumerate() {
            // Built some time before its first beat left.
            let built = self.time_ns..=self.time_ns + frame.first_cycle * NANOSECONDS_A_CLOCK;
            golden
                .follow(&frame.data, &mut memory, built)
                .map_err(|mismatch| Difference::Frame {
                    index,
                    cycle: frame.first_cycle,
                    report: report(&mismatch),
                })?;
        }
        golden
            .finish(&mut memory)
            .map_err(|missing| Difference::Missing(report(&missing)))?;
        for (name, golden) in expected(config, &golden) {
            let rtl = outcome.counters.get(&name).copied().unwrap_or(u64::MAX);
            if rtl != u64::from(golden) {
                return Err(Difference::Counter { name, rtl, golden });
            }
        }
        Ok(())
    }
}

impl Scenario {
    /// What should have come out, for a trace: the golden model's frames, in the order of those that came. In the place of a frame that is
    /// wrong stands the one that is most like it.
    #[must_use]
    pub fn expectation(&self, config: &NicConfig, outcome: &Outcome) -> Expectation {
        let mut golden = self.golden(config);
        let mut memory = self.memory();
        let mut frames = Vec::new();
        for frame in outcome.received("m_axis") {
            let built = self.time_ns..=self.time_ns + frame.first_cycle * NANOSECONDS_A_CLOCK;
            match golden.follow(&frame.data, &mut memory, built.clone()) {
                Ok(_) => frames.push(frame.data.clone()),
                Err(mismatch) => {
                    // Without a candidate nothing was to come: the frame is too much.
                    let Some(right) = nearest(mismatch) else { continue };
                    // It is a candidate, so it can be followed.
                    let _ = golden.follow(&right, &mut memory, built);
                    frames.push(right);
                }
            }
        }
        if let Err(missing) = golden.finish(&mut memory) {
            frames.extend(missing.candidates.into_iter().map(|(_, frame)| frame));
        }
        counted(config, &golden)
            .stream("m_axis", Format::Packet, frames.into_iter().map(Frame::new))
            .unchecked("m_axis_payload_request")
    }

    /// What should come out whatever the order, for a trace of a run that came to no end: the counters.
    #[must_use]
    pub fn counters_alone(&self, config: &NicConfig) -> Expectation {
        let mut golden = self.golden(config);
        // All frames are missing; taking them counts them.
        let _ = golden.finish(&mut self.memory());
        counted(config, &golden)
            .unchecked("m_axis")
            .unchecked("m_axis_payload_request")
    }
}

/// The counters that the pipeline of this configuration has, with their values.
fn expected(config: &NicConfig, golden: &TransmitPipeline) -> Vec<(String, u32)> {
    let mut counters = named(&golden.counters());
    counters.retain(|(name, _)| config.wire.control || name != "header_builder_control_frames");
    counters
}

/// The counters of a golden model, as an expectation.
fn counted(config: &NicConfig, golden: &TransmitPipeline) -> Expectation {
    expected(config, golden)
        .into_iter()
        .fold(Expectation::default(), |expectation, (name, value)| {
            expectation.counter(&name, value.into())
        })
}

/// The candidate that differs from what came in the fewest bytes.
fn nearest(mismatch: Mismatch) -> Option<Vec<u8>> {
    let Mismatch { observed, candidates } = mismatch;
    let distance = |frame: &[u8]| {
        let wrong = frame.iter().zip(&observed).filter(|(a, b)| a != b).count();
        wrong + frame.len().abs_diff(observed.len())
    };
    candidates
        .into_iter()
        .map(|(_, frame)| frame)
        .min_by_key(|frame| distance(frame))
}

/// What came and what could have come, with the fields of each.
fn report(mismatch: &Mismatch) -> String {
    let describe = |bytes: &[u8]| match Packet::parse(bytes, None) {
        Ok(packet) => format!("{packet}\n    {}", hex(bytes)),
        Err(error) => format!("{} bytes, {error}\n    {}", bytes.len(), hex(bytes)),
    };
    let mut lines = vec![format!("came\n    {}", describe(&mismatch.observed))];
    for (source, bytes) in &mismatch.candidates {
        lines.push(format!("  {source:?} would give\n    {}", describe(bytes)));
    }
    lines.join("\n")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The counters by the names of the pipeline's ports, without `count_`.
#[must_use]
pub fn named(counters: &Counters) -> Vec<(String, u32)> {
    let Counters {
        packet_slicer: slicer,
        header_builder: builder,
        icrc,
        frame_fifo: fifo,
    } = counters;
    [
        ("packet_slicer_packets", slicer.packets),
        ("packet_slicer_messages", slicer.messages),
        ("packet_slicer_drop_context", slicer.drop_context),
        ("packet_slicer_drop_queue_pair", slicer.drop_queue_pair),
        ("packet_slicer_drop_opcode", slicer.drop_opcode),
        ("packet_slicer_drop_segments", slicer.drop_segments),
        ("packet_slicer_drop_immediate", slicer.drop_immediate),
        ("packet_slicer_drop_length", slicer.drop_length),
        ("packet_slicer_drop_alignment", slicer.drop_alignment),
        ("packet_slicer_drop_mtu", slicer.drop_mtu),
        ("header_builder_frames", builder.frames),
        ("header_builder_control_frames", builder.control_frames),
        ("header_builder_payload_mismatch", builder.payload_mismatch),
        ("header_builder_drop_template", builder.drop_template),
        ("header_builder_drop_descriptor", builder.drop_descriptor),
        ("header_builder_drop_template_write", builder.drop_template_write),
        ("icrc_frames", icrc.frames),
        ("frame_fifo_forwarded", fifo.forwarded),
        ("frame_fifo_drop_bad", fifo.drop_bad),
        ("frame_fifo_drop_too_long", fifo.drop_too_long),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}
