//! ack_engine: golden model and RTL give the same control packets and counters for the same reports, probes, answers and contexts,
//! and the timer keeps its bound.

mod common;

#[path = "ack_engine/named.rs"]
mod named;
#[path = "ack_engine/scenario.rs"]
mod scenario;
#[path = "ack_engine/strategy.rs"]
mod strategy;
#[path = "ack_engine/timing.rs"]
mod timing;

use scenario::{Given, Scenario, config};
use spraynic_config::descriptor::{Extension, PacketDescriptor, ReceivedPacket, SequenceOutcome, SequenceReport};
use spraynic_cosim::{
    Bench, Case, Expectation, Limits, ModelSource, Outcome, Property, PropertyError, SharedModel, Simulation, Trial,
};
use spraynic_wire::{CcState, Header, Seth};
use strategy::scenarios;

static MODEL: SharedModel = SharedModel::new(source);

/// More than the longest timer of a random scenario.
const LIMITS: Limits = Limits {
    quiet_clocks: 2_200,
    hang_clocks: 8_000,
    most_clocks: 50_000_000,
};

fn source() -> ModelSource {
    let context = spraynic_rtl::Context::new();
    ModelSource::from_definition(spraynic_hdl::ack_engine::ack_engine(&context, &config()))
}

#[test]
fn packets_and_counters_equal_the_golden_model_and_timers_keep_their_bound() -> Result<(), PropertyError> {
    Property::new("ack_engine", &MODEL)
        .cases(120)
        .limits(LIMITS)
        .check_trials(scenarios(), |scenario| {
            let case = Case {
                stimulus: scenario.stimulus(),
                // When a timer's SACK comes is not known before: the judge compares.
                expectation: Expectation {
                    unchecked: vec!["m_axis".to_owned(), "m_axis_event".to_owned()],
                    ..Expectation::default()
                },
            };
            let scenario = scenario.clone();
            Trial::new(case).judged(move |outcome| scenario.judge(outcome).map(|_| ()))
        })
}

/// Runs a scenario; `None` without a Verilator. What came out equals the model.
fn run(scenario: &Scenario) -> Option<(Outcome, Vec<Given>)> {
    let model = MODEL.get().unwrap_or_else(|error| panic!("{error}"))?;
    let mut simulation = Simulation::new(&model, 1);
    let outcome = Bench::new(&mut simulation, &scenario.stimulus(), LIMITS)
        .and_then(|mut bench| bench.run(&mut ()))
        .unwrap_or_else(|error| panic!("{error}"));
    let given = scenario.judge(&outcome).unwrap_or_else(|error| panic!("{error}"));
    Some((outcome, given))
}

/// The next packet of queue pair 1, all before it received.
fn data(psn: u32) -> SequenceReport {
    SequenceReport {
        qpn: 1,
        opcode: 0x01,
        psn: psn & 0xFF_FFFF,
        cumulative: psn & 0xFF_FFFF,
        payload_length: 1024,
        entropy: 0xC_BEEF,
        ..SequenceReport::default()
    }
}

fn refused(psn: u32, outcome: SequenceOutcome) -> SequenceReport {
    SequenceReport {
        outcome: outcome as u8,
        ..data(psn)
    }
}

fn seth(packet: &PacketDescriptor) -> (Seth, CcState) {
    assert_eq!((packet.opcode, packet.extension_words), (0xDC, 9), "a SACK: {packet:?}");
    let (seth, state) = packet.extension.0.split_at(28);
    (Seth::parse(seth).unwrap(), CcState::parse(state).unwrap())
}

/// Opcode, PSN, syndrome, MSN of an ACK or NAK.
fn aeth(packet: &PacketDescriptor) -> (u8, u32, u8, u32) {
    assert_eq!(packet.extension_words, 1, "an AETH: {packet:?}");
    let bytes = &packet.extension.0;
    let msn = u32::from_be_bytes([0, bytes[1], bytes[2], bytes[3]]);
    (packet.opcode, packet.psn, bytes[0], msn)
}

/// A probe of queue pair 1.
fn peth(space: u8, id: u16) -> ReceivedPacket {
    let mut extension = Extension::default();
    extension.0[0] = space << 4;
    extension.0[4..6].copy_from_slice(&id.to_be_bytes());
    extension.0[12..14].copy_from_slice(&[0x56, 0x78]);
    ReceivedPacket {
        qpn: 1,
        opcode: 0xDE,
        extension_words: 4,
        extension,
        ..ReceivedPacket::default()
    }
}

#[test]
fn linters_have_nothing_to_say() {
    if common::have_verilator() {
        spraynic_cosim::lint(&source()).unwrap_or_else(|error| panic!("{error}"));
    }
}
