//! What the generator of traffic reaches in as many cases as the suite tries: each kind of message, fault, outcome and refusal, the ends of the
//! window, and back-pressure of each port while it has something to give. The golden models alone run here.

use std::collections::BTreeMap;
use std::fmt::Debug;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use spraynic_config::descriptor::{CompletionStatus, MemoryRegion, QueuePairContext, ReceiveRequest, SequenceOutcome};
use spraynic_config::{NicConfig, Preset, Profile};
use spraynic_cosim::receive::patterns::{Patterns, SINKS, SOURCES};
use spraynic_cosim::receive::traffic::strategy::{CASES, QUEUE_PAIRS, traffic};
use spraynic_cosim::receive::traffic::{Expected, HEADER_BYTES, ICRC_BYTES, Kind, Traffic, profile_of, scenario};
use spraynic_cosim::receive::{NANOSECONDS_A_CLOCK, Scenario, TRIMMED, TRIMMED_LAST_HOP, small};
use spraynic_cosim::{Frame, Pattern};
use spraynic_golden::packet_parser::TrimmedDscp;
use spraynic_golden::receive_pipeline::path::{Config, Outcome, ReceivePath};
use spraynic_golden::receive_pipeline::{Destination, Moment};
use spraynic_golden::reorder_buffer::{Space, outcome_of};
use spraynic_wire::Psn;

/// What happens, in the order in which the host and the network do it.
enum What<'s> {
    Context(&'s QueuePairContext),
    Region(&'s MemoryRegion),
    Request(&'s ReceiveRequest),
    Frame(&'s Frame),
}

/// The scenario on one line of time, in clocks, as on ports that never wait.
fn timeline<'s>(config: &NicConfig, scenario: &'s Scenario) -> Vec<(u64, What<'s>)> {
    let contexts = scenario.contexts.iter().map(What::Context);
    let regions = scenario.regions.iter().map(What::Region);
    let requests = scenario.receive_requests.iter().map(What::Request);
    let mut line: Vec<(u64, What<'s>)> = contexts.chain(regions).chain(requests).map(|what| (0, what)).collect();
    let beat = config.datapath.width_bits as usize / 8;
    let mut begin = 0;
    for (index, batch) in scenario.batches.iter().enumerate() {
        let mut more: Vec<(u64, What<'s>)> = vec![];
        more.extend(
            batch
                .contexts
                .iter()
                .map(|(at, context)| (begin + at, What::Context(context))),
        );
        more.extend(
            batch
                .regions
                .iter()
                .map(|(at, region)| (begin + at, What::Region(region))),
        );
        let requests = batch.receive_requests.iter();
        more.extend(requests.map(|(at, request)| (begin + at, What::Request(request))));
        let first = if index == 0 { &scenario.frames[..] } else { &[] };
        let mut clock = begin;
        for frame in first.iter().chain(&batch.frames) {
            clock = clock.max(begin + frame.not_before);
            more.push((clock, What::Frame(frame)));
            clock += frame.data.len().div_ceil(beat) as u64;
        }
        more.sort_by_key(|(at, _)| *at);
        begin = more.last().map_or(begin, |(at, _)| *at);
        line.extend(more);
    }
    line
}

/// How often something was reached, by its name.
#[derive(Default)]
struct Reached(BTreeMap<String, usize>);

impl Reached {
    fn add(&mut self, name: impl Into<String>, times: usize) {
        *self.0.entry(name.into()).or_default() += times;
    }

    fn has(&self, name: &str) -> usize {
        self.0.get(name).copied().unwrap_or_default()
    }
}

/// One case in the golden models.
struct Case<'c> {
    config: &'c NicConfig,
    scenario: &'c Scenario,
    path: ReceivePath,
    memory: Vec<u8>,
    /// Packets of each port, in this case.
    ports: BTreeMap<&'static str, usize>,
    reached: &'c mut Reached,
}

fn name_of(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    text.split(|letter: char| !letter.is_alphanumeric())
        .next()
        .unwrap_or_default()
        .to_owned()
}

impl Case<'_> {
    fn play(&mut self) {
        for (clock, what) in timeline(self.config, self.scenario) {
            let now_ns = clock * NANOSECONDS_A_CLOCK;
            self.timers(now_ns);
            let outcome = match what {
                What::Context(context) => self.path.write_context(context, &mut self.memory),
                What::Region(region) => {
                    self.path.write_region(region);
                    continue;
                }
                What::Request(request) => self.path.post(request, &mut self.memory),
                What::Frame(frame) => self.frame(frame, now_ns),
            };
            self.given("m_axis_control", outcome.control.len());
            let responses = outcome.effects.responses.iter();
            let messages = responses.filter(|packets| packets.message().is_some()).count();
            self.given("m_axis_message", messages);
            self.given("m_axis_response", outcome.effects.responses.len() - messages);
            self.given("m_axis_completion", outcome.effects.completions.len());
            self.given("m_axis_requester", outcome.effects.requester.len());
            let payloads = outcome
                .effects
                .requester
                .iter()
                .filter(|(_, payload)| !payload.is_empty());
            self.given("m_axis_requester_payload", payloads.count());
            for completion in &outcome.effects.completions {
                let flushed = completion.status == CompletionStatus::Flushed as u8;
                let name = if flushed {
                    "receive requests flushed"
                } else {
                    "receive requests used"
                };
                self.reached.add(name, 1);
            }
        }
    }

    fn given(&mut self, port: &'static str, packets: usize) {
        *self.ports.entry(port).or_default() += packets;
    }

    fn timers(&mut self, now_ns: u64) {
        for (qpn, space) in (0..QUEUE_PAIRS).flat_map(|qpn| Space::ALL.map(|space| (qpn, space))) {
            if self.path.due_ns(qpn, space).is_some_and(|due| due <= now_ns)
                && self.path.expire(qpn, space, now_ns).is_ok()
            {
                self.given("m_axis_control", 1);
            }
        }
    }

    fn frame(&mut self, frame: &Frame, now_ns: u64) -> Outcome {
        let moment = Moment {
            trimmed_dscp: TrimmedDscp {
                trimmed: TRIMMED,
                last_hop: TRIMMED_LAST_HOP,
            },
            pacing: self.scenario.pacing,
            now_ns,
        };
        let bad = frame.user == 1;
        let golden = spraynic_golden::frame::Frame {
            bad,
            ..spraynic_golden::frame::Frame::plain(frame.data.clone())
        };
        let buffer = self.path.pipeline().reorder_buffer();
        let bases: Vec<Option<Psn>> = (0..QUEUE_PAIRS)
            .flat_map(|qpn| Space::ALL.map(|space| buffer.base(qpn, space)))
            .collect();
        let outcome = self.path.receive(&golden, &moment, &mut self.memory);
        match &outcome.destination {
            Some(Destination::SlowPath(_)) => self.given("m_axis_slow_path", 1),
            Some(Destination::Malformed(reason)) => self.reached.add(format!("malformed {}", name_of(reason)), 1),
            Some(Destination::WrongIcrc) => self.reached.add("wrong ICRC", 1),
            Some(Destination::Refused(reason)) => self.reached.add(format!("lookup {}", name_of(reason)), 1),
            Some(Destination::Feedback(_, _, payload)) => {
                self.given("m_axis_feedback", 1);
                self.given("m_axis_feedback_payload", usize::from(!payload.is_empty()));
            }
            Some(Destination::Endpoint(_)) => self.given("m_axis_endpoint", 1),
            Some(Destination::Sequence(report)) => {
                let profile = profile_of(self.config, report.qpn);
                let outcome = outcome_of(report).unwrap_or(SequenceOutcome::Closed);
                self.reached.add(format!("{profile:?} {outcome:?}"), 1);
                let space = usize::from(report.space);
                if let Some(base) = bases[2 * report.qpn as usize + space] {
                    let window = self.config.receive.window as i32;
                    let place = match Psn::new(report.psn).distance(base) - window {
                        -1 => "the last PSN of the window",
                        0 => "the PSN beyond the window",
                        _ => "another PSN",
                    };
                    self.reached.add(format!("{profile:?} {outcome:?}, {place}"), 1);
                }
                if report.psn < 8 {
                    self.reached.add(format!("{profile:?} behind the wrap"), 1);
                }
            }
            Some(Destination::Probe(_)) | None => {}
        }
        outcome
    }

    /// Counts what the case has reached.
    fn finish(mut self, traffic: &Traffic, expected: &Expected) {
        let (front, back) = self.path.counters();
        self.given("m_axis_write", back.payload_writer.writes as usize);
        self.given("m_axis_write_data", back.payload_writer.writes as usize);
        self.given("s_axis_written", back.payload_writer.writes as usize);
        let atomics = back.response_engine.atomics as usize;
        for port in [
            "m_axis_atomic_read",
            "s_axis_atomic_data",
            "m_axis_atomic_write",
            "s_axis_atomic_written",
        ] {
            self.given(port, atomics);
        }
        self.given("s_axis", front.packet_parser.frames as usize);
        for port in SINKS.into_iter().chain(SOURCES) {
            let waits = *self.scenario.patterns.of(port) != Pattern::Always;
            let gives = self.ports.get(port).is_some_and(|packets| *packets > 0);
            self.reached.add(format!("{port} waits"), usize::from(waits && gives));
        }
        let acks = front.ack_engine;
        let counted = [
            ("ACKs", acks.acks),
            ("NAKs", acks.naks),
            ("SACKs", acks.sacks),
            ("SACKs of timers", acks.timer_sacks),
            ("NACKs", acks.nacks),
            ("CNPs", acks.cnps),
            ("CNPs spared", acks.cnps_spared),
            ("probes and answers dropped", acks.drop_request),
            ("packets retired", front.reorder_buffer.retired),
            ("slots freed by closing", front.reorder_buffer.flushed),
            ("READs again", back.responder.duplicates),
            ("requests refused: remote access", back.responder.refused_remote_access),
            ("requests behind a refusal", back.responder.drop_failed),
            ("receive requests given back", back.responder.flushed),
            ("receive requests dropped", back.responder.drop_receive_request),
            ("regions invalidated", back.memory_regions.invalidated),
            ("atomics again", back.response_engine.repeated_atomics),
        ];
        for (name, count) in counted {
            self.reached.add(name, count as usize);
        }
        for message in &traffic.messages {
            let profile = profile_of(self.config, message.qpn);
            self.reached
                .add(format!("{profile:?} {:?} sent", message.kind.in_profile(profile)), 1);
        }
        if let Some(closing) = traffic.closing {
            let profile = profile_of(self.config, closing.qpn);
            self.reached.add(format!("{profile:?} closed"), 1);
            let state = if closing.error { "ERROR" } else { "RESET" };
            self.reached.add(format!("closed to {state}"), 1);
        }
        let faults = &expected.faults;
        let counted = [
            ("frames lost", faults.lost),
            ("frames repeated", faults.repeated),
            ("frames marked bad", faults.bad),
            ("frames that met congestion", faults.marked),
            ("frames trimmed", faults.trimmed),
            ("frames late", faults.late),
            ("first packets held", faults.held),
        ];
        for (name, count) in counted {
            self.reached.add(name, count);
        }
        for (at, length) in &faults.damaged {
            let from_end = length - at;
            if from_end <= ICRC_BYTES {
                self.reached.add(format!("byte {from_end} from the end damaged"), 1);
            } else if *at < HEADER_BYTES {
                self.reached.add(format!("byte {at} damaged"), 1);
            } else {
                self.reached.add("bytes behind the headers damaged", 1);
            }
        }
    }
}

/// What must be reached.
fn wanted() -> Vec<String> {
    let mut wanted: Vec<String> = [
        "malformed Mac",
        "malformed IpChecksum",
        "malformed IpLength",
        "malformed UdpLength",
        "malformed Version",
        "malformed Opcode",
        "wrong ICRC",
        "lookup State",
        "Solar Passed",
        "Solar Stored",
        "Solar Duplicate",
        "Solar NoSlot",
        "Solar Trimmed",
        "Solar TrimmedLastHop",
        "Mrc Passed",
        "Mrc Duplicate",
        "Mrc NotReady",
        "Mrc Trimmed",
        "Mrc TrimmedLastHop",
        "Roce Passed",
        "Roce Duplicate",
        "Roce NotReady",
        "Roce SequenceFirst",
        "Roce Sequence",
        "Solar Stored, the last PSN of the window",
        "Solar OutOfWindow, the PSN beyond the window",
        "Mrc Passed, the last PSN of the window",
        "Mrc OutOfWindow, the PSN beyond the window",
        "Roce behind the wrap",
        "Solar behind the wrap",
        "Mrc behind the wrap",
        "receive requests used",
        "receive requests flushed",
        "ACKs",
        "NAKs",
        "SACKs",
        "SACKs of timers",
        "NACKs",
        "CNPs",
        "CNPs spared",
        "probes and answers dropped",
        "packets retired",
        "slots freed by closing",
        "READs again",
        "requests refused: remote access",
        "receive requests given back",
        "regions invalidated",
        "atomics again",
        "closed to ERROR",
        "closed to RESET",
        "frames lost",
        "frames repeated",
        "frames marked bad",
        "frames that met congestion",
        "frames trimmed",
        "frames late",
        "first packets held",
        "bytes behind the headers damaged",
    ]
    .map(str::to_owned)
    .to_vec();
    for profile in Profile::ALL {
        wanted.push(format!("{profile:?} closed"));
        let kinds = Kind::ALL.iter().filter(|kind| kind.in_profile(*profile) == **kind);
        wanted.extend(kinds.map(|kind| format!("{profile:?} {kind:?} sent")));
    }
    let ports = SINKS.into_iter().chain(SOURCES);
    wanted.extend(ports.map(|port| format!("{port} waits")));
    wanted.extend((0..HEADER_BYTES).map(|at| format!("byte {at} damaged")));
    wanted.extend((1..=ICRC_BYTES).map(|at| format!("byte {at} from the end damaged")));
    wanted
}

#[test]
fn the_generator_of_traffic_reaches_everything_in_the_cases_of_the_suite() {
    let mut runner = TestRunner::deterministic();
    let inputs = (traffic(), Patterns::strategy());
    let mut reached = Reached::default();
    // At 512 and at 64 bits.
    for preset in [Preset::G100, Preset::Lab] {
        let config = small(preset);
        for _ in 0..CASES {
            let (traffic, patterns) = inputs.new_tree(&mut runner).expect("a value").current();
            let (scenario, expected) = scenario(&config, QUEUE_PAIRS, &traffic, patterns);
            let mut case = Case {
                config: &config,
                scenario: &scenario,
                path: ReceivePath::new(Config::from(&config)),
                memory: scenario.memory.clone(),
                ports: BTreeMap::new(),
                reached: &mut reached,
            };
            case.play();
            case.finish(&traffic, &expected);
        }
    }
    let missing = wanted().into_iter().filter(|name| reached.has(name) == 0);
    let missing: Vec<String> = missing.collect();
    assert!(
        missing.is_empty(),
        "not reached: {missing:#?}\nreached: {:#?}",
        reached.0
    );
}
