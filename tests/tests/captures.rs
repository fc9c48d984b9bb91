//! The Verilated transmit path, given the work requests behind captures of Linux soft-RoCE, emits the captured frames byte for byte.
//!
//! Requests come from work requests; what no work request makes (acknowledgements, READ responses, packets sent again after a loss) comes from the
//! descriptors that receive path and retransmission give. Linux counts the IPv4 identification: its start is set from the capture. Where Linux skips
//! values it is set again if the skip is between two messages; inside a message, where the pipeline is already under way, the identification and the
//! checksums over it follow the capture, and such frames are counted.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use spraynic_config::descriptor::Descriptor;
use spraynic_config::{NicConfig, Preset};
use spraynic_cosim::{
    Agent, Answer, Bench, Frame, Limits, Model, ModelSource, Pattern, Received, SharedModel, Simulation, Stimulus,
};
use spraynic_golden::capture::{Action, CaptureMemory, Captured, Replay, identification, renumber, replays};
use spraynic_golden::transmit_pipeline::Memory;
use spraynic_wire::Packet;
use spraynic_wire::pcap::Reader;

fn config(preset: Preset) -> NicConfig {
    let mut config = NicConfig::preset(preset);
    config.queue_pairs.count = 16;
    config.wire.max_mtu = 4096;
    config.transmit.frame_fifo_bytes = 16_384;
    config.validate().unwrap_or_else(|error| panic!("{error}"));
    config
}

fn source(preset: Preset) -> ModelSource {
    let context = spraynic_rtl::Context::new();
    let definition = spraynic_hdl::transmit_pipeline::transmit_pipeline(&context, &config(preset));
    ModelSource::from_definition(definition)
}

static MODEL_512: SharedModel = SharedModel::new(|| source(Preset::G100));
static MODEL_64: SharedModel = SharedModel::new(|| source(Preset::Lab));

fn model(preset: Preset) -> Option<Arc<Model>> {
    let model = if preset == Preset::G100 { &MODEL_512 } else { &MODEL_64 };
    model.get().unwrap_or_else(|error| panic!("{error}"))
}

/// What a capture gave.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Tally {
    /// Captured frames that came from work requests.
    requested: usize,
    /// Captured frames that came from descriptors.
    described: usize,
    /// Frames that the capture does not have: it ends before them, or they were lost on the sender.
    beyond: usize,
    /// Frames inside a message whose identification and checksums follow the capture.
    renumbered: usize,
}

/// A step still to come.
struct Step {
    action: Action,
    frames: VecDeque<Option<Captured>>,
}

/// Gives one step after the other: the next one when all frames of the last one have come.
struct Player<'a> {
    name: &'a str,
    steps: VecDeque<Step>,
    awaited: VecDeque<Option<Captured>>,
    requested: bool,
    memory: CaptureMemory,
    /// The identification that the next IPv4 frame must have.
    counted: Option<u16>,
    tally: Tally,
}

impl Player<'_> {
    /// Gives steps until one has frames to wait for.
    fn advance(&mut self, answer: &mut Answer<'_>) -> Result<(), String> {
        while self.awaited.is_empty() {
            let Some(Step { action, frames }) = self.steps.pop_front() else {
                return Ok(());
            };
            let first = frames
                .front()
                .and_then(Option::as_ref)
                .and_then(|captured| identification(&captured.bytes));
            if first.is_some() && first != self.counted {
                answer.set_after(1, "identification", u64::from(first.unwrap_or(0)));
                answer.set_after(1, "identification_load", 1);
                answer.set_after(2, "identification_load", 0);
                self.counted = first;
            }
            let (stream, bytes) = packed(&action);
            self.requested = matches!(action, Action::Request(_));
            answer
                .send(stream, Frame::new(bytes))
                .map_err(|error| error.to_string())?;
            self.awaited = frames;
        }
        Ok(())
    }

    fn compare(&mut self, bytes: &[u8]) -> Result<(), String> {
        let Some(awaited) = self.awaited.pop_front() else {
            return Err(format!("{}: more came than the capture says", self.name));
        };
        let mine = identification(bytes);
        if mine.is_some() && mine != self.counted {
            return Err(format!(
                "{}: identification {mine:?}, not {:?}",
                self.name, self.counted
            ));
        }
        self.counted = self
            .counted
            .map(|number| number.wrapping_add(u16::from(mine.is_some())));
        let Some(captured) = awaited else {
            self.tally.beyond += 1;
            return Ok(());
        };
        let theirs = identification(&captured.bytes);
        let seen = match theirs {
            Some(theirs) if mine != Some(theirs) => {
                self.tally.renumbered += 1;
                renumber(bytes, theirs)
            }
            _ => bytes.to_vec(),
        };
        if seen != captured.bytes {
            let (seen, wanted) = (Packet::parse(&seen, None), Packet::parse(&captured.bytes, None));
            return Err(format!(
                "{}, frame {}:\n RTL {seen:?}\n captured {wanted:?}",
                self.name, captured.index
            ));
        }
        if self.requested {
            self.tally.requested += 1;
        } else {
            self.tally.described += 1;
        }
        Ok(())
    }
}

/// The stream an action goes to, and its bytes.
fn packed(action: &Action) -> (&'static str, Vec<u8>) {
    match action {
        Action::Context(context) => ("s_axis_context", context.pack()),
        Action::Request(request) => ("s_axis_work_request", request.pack()),
        Action::Response(packet) => ("s_axis_response", packet.pack()),
        Action::Control(packet) => ("s_axis_control", packet.pack()),
        Action::SlowPath(frame) => ("s_axis_slow_path", frame.clone()),
    }
}

impl Agent for Player<'_> {
    fn on_frame(&mut self, answer: &mut Answer<'_>, stream: &str, frame: &Received) -> Result<(), String> {
        if stream == "m_axis_payload_request" {
            let bytes = self.memory.read(&Descriptor::unpack(&frame.data));
            return answer
                .send("s_axis_payload", Frame::new(bytes))
                .map_err(|error| error.to_string());
        }
        if frame.user != 0 {
            return Err(format!("{}: a bad frame", self.name));
        }
        self.compare(&frame.data)?;
        self.advance(answer)
    }
}

fn play(name: &str, preset: Preset) -> Option<Tally> {
    let model = model(preset)?;
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data").join(name);
    let captured = Reader::read_all(&path).unwrap_or_else(|error| panic!("{error}"));
    let frames: Vec<Vec<u8>> = captured.into_iter().map(|frame| frame.bytes).collect();
    let mut total = Tally::default();
    for replay in replays(&frames).unwrap_or_else(|error| panic!("{error}")) {
        let tally = play_sender(name, &model, preset, replay);
        total.requested += tally.requested;
        total.described += tally.described;
        total.beyond += tally.beyond;
        total.renumbered += tally.renumbered;
    }
    assert_eq!(
        total.requested + total.described,
        frames.len(),
        "{name}: every captured frame came"
    );
    Some(total)
}

fn play_sender(name: &str, model: &Arc<Model>, preset: Preset, replay: Replay) -> Tally {
    let steps = replay.steps.into_iter();
    let mut steps: VecDeque<Step> = steps
        .map(|step| Step {
            action: step.action,
            frames: step.frames.into(),
        })
        .collect();
    // The first step is given from the start, behind the tables; the others follow frame by frame.
    let first = steps.pop_front().expect("a sender has sent something");
    assert!(!first.frames.is_empty(), "{name}: the first step has frames");
    let begin = u64::from(config(preset).queue_pairs.count) + 100;
    let (first_stream, bytes) = packed(&first.action);
    let mut stimulus = Stimulus::default()
        .input("time_ns", 0)
        .input("identification", u64::from(replay.identification.unwrap_or(0)))
        .input("identification_load", 1)
        .input_at("identification_load", 2, 0, 0)
        .source(
            "s_axis_context",
            Pattern::Always,
            replay.contexts.iter().map(|context| Frame::new(context.pack())),
        )
        .source(
            "s_axis_template",
            Pattern::Always,
            replay.templates.iter().map(|template| Frame::new(template.pack())),
        )
        .source("s_axis_payload", Pattern::Always, []);
    for stream in [
        "s_axis_work_request",
        "s_axis_response",
        "s_axis_control",
        "s_axis_slow_path",
    ] {
        let given = (stream == first_stream).then(|| Frame {
            not_before: begin,
            ..Frame::new(bytes.clone())
        });
        stimulus = stimulus.source(stream, Pattern::Always, given);
    }
    let mut player = Player {
        name,
        steps,
        awaited: first.frames,
        requested: matches!(first.action, Action::Request(_)),
        memory: replay.memory,
        counted: replay.identification,
        tally: Tally::default(),
    };
    let mut simulation = Simulation::new(model, 1);
    let limits = Limits {
        quiet_clocks: 600,
        ..Limits::default()
    };
    Bench::new(&mut simulation, &stimulus, limits)
        .and_then(|mut bench| bench.run(&mut player))
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(
        player.steps.is_empty() && player.awaited.is_empty(),
        "{name}: frames are missing"
    );
    player.tally
}

/// Plays a capture at 512 and at 64 bits; the numbers are those of [`Tally`].
fn reproduces(name: &str, requested: usize, described: usize, beyond: usize, renumbered: usize) {
    for preset in [Preset::G100, Preset::Lab] {
        if let Some(tally) = play(name, preset) {
            let expected = Tally {
                requested,
                described,
                beyond,
                renumbered,
            };
            assert_eq!(tally, expected, "{name} with preset {preset:?}");
        }
    }
}

#[test]
fn send() {
    reproduces("rc-send-1024.pcap", 41, 18, 1, 3);
}

#[test]
fn write() {
    reproduces("rc-write-1024.pcap", 189, 2, 3, 48);
}

#[test]
fn read() {
    reproduces("rc-read-1024.pcap", 9, 76, 0, 0);
}

#[test]
fn write_of_64_bytes() {
    reproduces("rc-write-lat-64.pcap", 36, 63, 0, 0);
}

#[test]
fn write_with_losses() {
    reproduces("rc-write-lossy-go-back-n.pcap", 141, 121, 19, 3);
}

#[test]
fn atomics() {
    reproduces("rc-atomics.pcap", 20, 20, 0, 0);
}

#[test]
fn write_over_ipv6_with_padding() {
    reproduces("rc-write-ipv6-unaligned-12345.pcap", 48, 12, 0, 0);
}

#[test]
fn writes_of_three_queue_pairs() {
    reproduces("rc-write-multi-qp-1023.pcap", 111, 11, 1, 3);
}
