//! What came out against the golden model, which is given what the block accepted, in that order.

use proptest::prelude::*;
use spraynic_config::NicConfig;
use spraynic_config::descriptor::{HeaderTemplate, PacketDescriptor};
use spraynic_cosim::{Outcome, SinkChecks};
use spraynic_golden::frame::Frame as GoldenFrame;
use spraynic_golden::header_builder::{Config, Counters, HeaderBuilder, stamp_of, stamp_offset};

use super::{Packet, Scenario, configs, run, time_at};

/// What the block accepted, in the order in which it did.
#[derive(Debug, Clone, Copy)]
enum Accepted<'a> {
    Template(&'a HeaderTemplate),
    Data(&'a Packet),
    Control(&'a PacketDescriptor),
}

fn accepted<'a>(scenario: &'a Scenario, outcome: &Outcome) -> Vec<(u64, Accepted<'a>)> {
    let cycles = |stream: &str| {
        outcome
            .accepted(stream)
            .iter()
            .map(|timing| timing.last_cycle)
            .collect::<Vec<_>>()
    };
    let templates = scenario
        .templates
        .iter()
        .map(|(_, template)| Accepted::Template(template));
    let data = scenario.packets.iter().map(Accepted::Data);
    let control = scenario.control.iter().map(|(_, control)| Accepted::Control(control));
    let mut all: Vec<_> = cycles("s_axis_template").into_iter().zip(templates).collect();
    all.extend(cycles("s_axis_descriptor").into_iter().zip(data));
    all.extend(cycles("s_axis_control").into_iter().zip(control));
    all.sort_by_key(|(cycle, _)| *cycle);
    let clashes = all.windows(2).filter(|pair| pair[0].0 == pair[1].0).count();
    assert_eq!(clashes, 0, "one template or descriptor is taken a clock");
    all
}

/// The time whose stamp the frame has, if the block can have seen it: after the descriptor was accepted, before the frame came out.
fn time_of(
    descriptor: &PacketDescriptor,
    template: Option<&HeaderTemplate>,
    accepted: u64,
    frame: Option<&spraynic_cosim::Received>,
) -> u64 {
    let begin = time_at(accepted);
    let (Some(template), Some(frame), Some(offset)) = (template, frame, stamp_offset(descriptor)) else {
        return begin;
    };
    let lower = 34 + if template.vlan { 4 } else { 0 } + if template.ipv6 { 20 } else { 0 } + 20;
    let Some(bytes) = frame.data.get(lower + offset..lower + offset + 2) else {
        return begin;
    };
    let stamp = u16::from_be_bytes([bytes[0], bytes[1]]);
    let seen = (accepted..frame.first_cycle)
        .map(time_at)
        .find(|time| stamp_of(*time) == stamp);
    seen.unwrap_or(begin)
}

/// Frames of the golden model, each with its port, and its counters for what the block accepted.
fn golden(config: &NicConfig, scenario: &Scenario, outcome: &Outcome) -> (Vec<(GoldenFrame, u8)>, Counters) {
    let mut model = HeaderBuilder::new(Config::from(config));
    model.load_identification(scenario.identification);
    let received = outcome.received("m_axis");
    let mut frames: Vec<(GoldenFrame, u8)> = vec![];
    for (cycle, accepted) in accepted(scenario, outcome) {
        let next = received.get(frames.len());
        let time = |model: &HeaderBuilder, descriptor| time_of(descriptor, model.template(descriptor.qpn), cycle, next);
        let (frame, port) = match accepted {
            Accepted::Template(template) => {
                model.write_template(template);
                continue;
            }
            Accepted::Data(Packet {
                descriptor, payload, ..
            }) => (
                model.build(descriptor, payload, time(&model, descriptor)),
                descriptor.port,
            ),
            Accepted::Control(descriptor) => (
                model.build_control(descriptor, time(&model, descriptor)),
                descriptor.port,
            ),
        };
        frames.extend(frame.map(|frame| (frame, port)));
    }
    (frames, *model.counters())
}

fn observed(frame: &spraynic_cosim::Received) -> GoldenFrame {
    GoldenFrame {
        bytes: frame.data.clone(),
        bad: frame.user & 1 == 1,
        ipv6: frame.user >> 1 & 1 == 1,
        vlan: frame.user >> 2 & 1 == 1,
    }
}

pub(super) fn check(index: usize, scenario: &Scenario) -> Result<(), TestCaseError> {
    let checks = SinkChecks {
        constant_user: match configs()[index].paths.ports {
            1 => 0b1110,
            _ => 0b111_1110,
        },
        ..SinkChecks::default()
    };
    judge(index, scenario, &run(index, scenario, checks))
}

pub(super) fn judge(index: usize, scenario: &Scenario, outcome: &Outcome) -> Result<(), TestCaseError> {
    let config = &configs()[index];
    let (expected, counters) = golden(config, scenario, outcome);
    let received = outcome.received("m_axis");
    for (place, ((golden, port), rtl)) in expected.iter().zip(received).enumerate() {
        let is_led = if config.paths.ports > 1 { u64::from(*port) } else { 0 };
        prop_assert_eq!(rtl.user >> 4, is_led, "port of frame {}", place);
        prop_assert!(
            golden.agrees_with(&observed(rtl)),
            "frame {}\n{:02x?}\n{:02x?}",
            place,
            golden,
            rtl
        );
    }
    prop_assert_eq!(expected.len(), received.len(), "count of frames");
    let accepted = outcome.accepted("s_axis_payload").len();
    prop_assert_eq!(
        accepted,
        scenario
            .packets
            .iter()
            .filter(|packet| !packet.payload.is_empty())
            .count()
    );
    let named = [
        ("frames", counters.frames),
        ("control_frames", counters.control_frames),
        ("payload_mismatch", counters.payload_mismatch),
        ("drop_template", counters.drop_template),
        ("drop_descriptor", counters.drop_descriptor),
        ("drop_template_write", counters.drop_template_write),
    ];
    let there = named
        .iter()
        .filter(|(name, _)| config.wire.control || *name != "control_frames");
    prop_assert_eq!(
        outcome.counters.len(),
        there.clone().count(),
        "every counter is compared"
    );
    for (name, value) in there {
        prop_assert_eq!(outcome.counters[*name], u64::from(*value), "count_{}", name);
    }
    Ok(())
}
