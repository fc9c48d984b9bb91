//! What the host writes into the tables of its NIC before a scenario begins: memory, paths, and both halves of each queue pair.

use spraynic_config::descriptor::{
    HeaderTemplate, MemoryRegion, PathEntry, QueuePairContext, QueuePairState, RateLimit, SendContext,
};
use spraynic_config::{NicConfig, Profile};

use super::limits::mtu_code;
use super::{REMOTE_BASE, REMOTE_KEY};
use crate::device::TableWrite;
use crate::scenario::{QueuePairSpec, Scenario};
use crate::world::mac_address;

const PROTECTION_DOMAIN: u32 = 7;

/// Queue pair number of a side: its place among those of its NIC, shifted so that it is not the same at both.
pub(crate) fn qpn_of(scenario: &Scenario, queue_pair: usize, side: usize, config: &NicConfig) -> u32 {
    let nic = scenario.queue_pairs[queue_pair].nics[side];
    let before = &scenario.queue_pairs[..queue_pair];
    let place = before.iter().filter(|spec| spec.nics.contains(&nic)).count();
    (place + nic * 3) as u32 % config.send_queue_pairs()
}

fn ip(nic: usize, ipv6: bool) -> u128 {
    let low = 0x0A00_0001 + nic as u128;
    if ipv6 { 0xFD00 << 112 | low } else { low }
}

/// Writes of all tables of a NIC.
pub(super) fn tables(scenario: &Scenario, config: &NicConfig, nic: usize) -> Vec<TableWrite> {
    let mut writes = vec![TableWrite::Region(MemoryRegion {
        generation: REMOTE_KEY as u8,
        index: REMOTE_KEY >> 8,
        valid: true,
        remote_write: true,
        remote_read: true,
        remote_atomic: true,
        protection_domain: PROTECTION_DOMAIN,
        base: REMOTE_BASE,
        length: 1 << 40,
        address: 0,
        ..MemoryRegion::default()
    })];
    for set in 0..config.paths.sets.min(scenario.queue_pairs.len() as u32) as u16 {
        writes.extend(path_set(scenario, config, set).into_iter().map(TableWrite::Path));
    }
    for (place, spec) in scenario.queue_pairs.iter().enumerate() {
        for side in 0..2 {
            if spec.nics[side] == nic {
                writes.extend(queue_pair(scenario, config, place, spec, side));
            }
        }
    }
    writes
}

/// Places of a set for each value: its low bits are the port.
pub(crate) fn ports_of(config: &NicConfig) -> usize {
    config.paths.ports.next_power_of_two() as usize
}

/// The entropy values of a set: those of each plane lead to its paths in turn, behind them backups.
fn path_set(scenario: &Scenario, config: &NicConfig, set: u16) -> Vec<PathEntry> {
    let count = scenario.paths.len();
    let used = count * scenario.values_per_path.max(1);
    let first = 0xC000 / count * count;
    let planes = ports_of(config);
    let mut entries = Vec::new();
    for value in 0..used + scenario.backups {
        for port in 0..config.paths.ports as u8 {
            entries.push(PathEntry {
                set,
                path: (value * planes + usize::from(port)) as u8,
                valid: true,
                backup: value >= used,
                port,
                entropy: (first + value) as u32,
                ..PathEntry::default()
            });
        }
    }
    entries
}

fn queue_pair(
    scenario: &Scenario,
    config: &NicConfig,
    place: usize,
    spec: &QueuePairSpec,
    side: usize,
) -> Vec<TableWrite> {
    let (local, peer) = (spec.nics[side], spec.nics[1 - side]);
    let [qpn, peer_qpn] = [side, 1 - side].map(|side| qpn_of(scenario, place, side, config));
    let profile = Profile::from(spec.profile);
    let response = |side: usize| (spec.psn[side] + 1000) & 0xFF_FFFF;
    let mtu = mtu_code(spec.mtu).unwrap_or(1);
    let window = match spec.window {
        0 => config.send.window.min(config.receive.window) as u16,
        window => window,
    };
    let mut writes = vec![
        TableWrite::Template(HeaderTemplate {
            qpn,
            ipv6: spec.ipv6,
            spray: true,
            destination_mac: mac_address(peer),
            source_mac: mac_address(local),
            traffic_class: 2,
            hop_limit: 64,
            source_ip: ip(local, spec.ipv6),
            destination_ip: ip(peer, spec.ipv6),
            partition_key: 0xFFFF,
            destination_qpn: peer_qpn,
            ..HeaderTemplate::default()
        }),
        TableWrite::QueuePair(QueuePairContext {
            qpn,
            state: QueuePairState::ReadyToSend as u8,
            profile: profile.code(),
            mtu,
            remote_write: true,
            remote_read: true,
            remote_atomic: true,
            ipv6: spec.ipv6,
            partition_key: 0xFFFF,
            rnr_timer: 1,
            psn: spec.psn[1 - side],
            response_psn: response(1 - side),
            sent_response_psn: response(side),
            protection_domain: PROTECTION_DOMAIN,
            peer_qpn,
            peer_ip: ip(peer, spec.ipv6),
            local_ip: ip(local, spec.ipv6),
            ..QueuePairContext::default()
        }),
    ];
    if spec.mbps > 0 {
        writes.push(TableWrite::Rate(RateLimit {
            index: qpn,
            limited: true,
            // Bytes in a nanosecond, in units of 2^-32.
            rate: ((u128::from(spec.mbps) << 32) / 8_000) as u64,
            burst: 16_384,
            ..RateLimit::default()
        }));
    }
    writes.push(TableWrite::Send(SendContext {
        qpn,
        state: QueuePairState::ReadyToSend as u8,
        profile: profile.code(),
        mtu,
        class: spec.class,
        timestamps: false,
        reads: config.send.reads as u8,
        policy: spec.policy.code(),
        path_set: (place as u32 % config.paths.sets) as u16,
        window,
        retry_limit: spec.retry_limit,
        rnr_retry: spec.rnr_retry,
        weight: spec.weight,
        psn: spec.psn[side],
        sent_response_psn: response(side),
        peer_qpn,
        ooo_threshold: spec.ooo_threshold,
        base_rtt_ns: spec.base_rtt_ns,
        timeout_ns: spec.timeout_ns,
        entropy: 0xC000 + place as u32 % scenario.paths.len() as u32,
        ..SendContext::default()
    }));
    writes
}
