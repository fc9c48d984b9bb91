//! Whether a scenario can be run at all: it may come from a file that anybody wrote. Nothing that passes here makes a run overflow, ask for
//! more memory than it says, or name what is not there.

use spraynic_config::{NicConfig, Operation as Allowed, Profile};

use super::Failure;
use super::tables::ports_of;
use crate::path::PathSpec;
use crate::scenario::{Action, MessageSpec, Operation, QueuePairSpec, Scenario, WireProfile};

/// NICs of a scenario.
const MOST_NICS: usize = 64;
/// Messages of a scenario.
const MOST_MESSAGES: usize = 1 << 20;
/// Steps of a script, and faults of a path.
const MOST_STEPS: usize = 1 << 16;
/// Any time, in nanoseconds: 1000 seconds.
const LATEST_NS: u64 = 1_000_000_000_000;
/// Any rate, in Mb/s: 10 Tb/s.
const FASTEST_MBPS: u64 = 10_000_000;
/// Memory of all NICs together for the messages: 4 GiB.
const MOST_BYTES: u64 = 1 << 32;
/// A message \[IBA volume 1, section 9.7.2: 2^31 bytes\].
const LONGEST: u32 = 1 << 31;

pub(super) fn check(scenario: &Scenario, config: &NicConfig) -> Result<(), Failure> {
    network(scenario, config)
        .and_then(|()| queue_pairs(scenario, config))
        .and_then(|()| messages(scenario, config))
        .map_err(Failure::Scenario)
}

fn network(scenario: &Scenario, config: &NicConfig) -> Result<(), String> {
    if scenario.paths.is_empty() {
        return Err("it has no path".to_owned());
    }
    within("nics", scenario.nics as u64, 2, MOST_NICS as u64)?;
    within("paths", scenario.paths.len() as u64, 1, 256)?;
    within("values_per_path", scenario.values_per_path as u64, 0, 256)?;
    within("backups", scenario.backups as u64, 0, 256)?;
    within("port_mbps", scenario.port_mbps, 1, FASTEST_MBPS)?;
    within("limit_ns", scenario.limit_ns, 0, LATEST_NS)?;
    within("receive_delay_ns", scenario.receive_delay_ns, 0, LATEST_NS)?;
    within("steps of script", scenario.script.len() as u64, 0, MOST_STEPS as u64)?;
    for spec in scenario.paths.iter().chain([&scenario.downlink]) {
        path(spec)?;
    }
    for step in &scenario.script {
        within("at_ns of a step", step.at_ns, 0, LATEST_NS)?;
        if let Action::Change { spec, .. } = &step.action {
            path(spec)?;
        }
    }
    let values = scenario.paths.len() * scenario.values_per_path.max(1) + scenario.backups;
    if values * ports_of(config) > config.paths.entries as usize {
        return Err(format!(
            "{values} entropy values for each port do not fit paths.entries"
        ));
    }
    Ok(())
}

fn path(spec: &PathSpec) -> Result<(), String> {
    within("delay_ns of a path", spec.delay_ns, 0, LATEST_NS / 1_000)?;
    within("mbps of a path", spec.mbps, 0, FASTEST_MBPS)?;
    within("faults of a path", spec.faults.len() as u64, 0, MOST_STEPS as u64)
}

fn queue_pairs(scenario: &Scenario, config: &NicConfig) -> Result<(), String> {
    let count = scenario.queue_pairs.len();
    if count > config.send_queue_pairs() as usize {
        return Err(format!("{count} queue pairs, but send.queue_pairs says less"));
    }
    scenario
        .queue_pairs
        .iter()
        .try_for_each(|spec| queue_pair(spec, scenario, config))
}

fn queue_pair(spec: &QueuePairSpec, scenario: &Scenario, config: &NicConfig) -> Result<(), String> {
    if spec.nics.iter().any(|nic| *nic >= scenario.nics) || spec.nics[0] == spec.nics[1] {
        return Err(format!("a queue pair between NICs {:?}", spec.nics));
    }
    if mtu_code(spec.mtu).is_none_or(|code| code > config.max_mtu_code()) {
        return Err(format!("an MTU of {}", spec.mtu));
    }
    if !config.wire.profiles.contains(&Profile::from(spec.profile)) {
        return Err(format!("profile {:?}, which wire.profiles does not have", spec.profile));
    }
    if !(if spec.ipv6 { config.wire.ipv6 } else { config.wire.ipv4 }) {
        return Err(format!("ipv6 = {}, which the configuration does not build", spec.ipv6));
    }
    for psn in spec.psn {
        within("psn", psn.into(), 0, 0xFF_FFFF)?;
    }
    let window = config.send.window.min(config.receive.window);
    within("window", spec.window.into(), 0, window.into())?;
    within("class", spec.class.into(), 0, 3)?;
    within("timeout_ns", spec.timeout_ns.into(), 1, u32::MAX.into())?;
    within("retry_limit", spec.retry_limit.into(), 0, 7)?;
    within("rnr_retry", spec.rnr_retry.into(), 0, 7)?;
    within("mbps of a queue pair", spec.mbps, 0, FASTEST_MBPS)
}

fn messages(scenario: &Scenario, config: &NicConfig) -> Result<(), String> {
    within("messages", scenario.messages.len() as u64, 0, MOST_MESSAGES as u64)?;
    let mut bytes = 0u64;
    for message in &scenario.messages {
        if message.side > 1 {
            return Err(format!("a message of side {}", message.side));
        }
        let Some(spec) = scenario.queue_pairs.get(message.queue_pair) else {
            return Err(format!("a message of queue pair {}", message.queue_pair));
        };
        if !is_allowed(message, spec, config) {
            return Err(format!(
                "{:?} (immediate: {}), which profile {:?} or wire.operations does not have",
                message.operation, message.immediate, spec.profile
            ));
        }
        within("length", message.length.into(), 0, LONGEST.into())?;
        within("at_ns of a message", message.at_ns, 0, LATEST_NS)?;
        let length = u64::from(message.length);
        bytes = if scenario.shared_buffers {
            bytes.max(length * 2 * scenario.queue_pairs.len() as u64)
        } else {
            bytes + length
        };
    }
    within("bytes of all messages", 2 * bytes, 0, MOST_BYTES)
}

/// Whether the configuration and the queue pair's profile have what a message asks for.
pub(crate) fn is_allowed(message: &MessageSpec, spec: &QueuePairSpec, config: &NicConfig) -> bool {
    let operation = match (message.operation, message.immediate) {
        (Operation::Send, false) => Allowed::Send,
        (Operation::Send, true) => Allowed::SendImmediate,
        (Operation::Write, false) => Allowed::Write,
        (Operation::Write, true) => Allowed::WriteImmediate,
        (Operation::Read, _) => Allowed::Read,
        (Operation::CompareSwap | Operation::FetchAdd, _) => Allowed::Atomic,
    };
    let carried = spec.profile != WireProfile::Mrc || message.operation == Operation::Write;
    carried && config.wire.operations.contains(&operation)
}

fn within(what: &str, value: u64, least: u64, most: u64) -> Result<(), String> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("{what}: {value} is not from {least} to {most}"))
    }
}

pub(super) fn mtu_code(mtu: u32) -> Option<u8> {
    (1..=5).find(|code| 128 << code == mtu)
}
