//! Settings of the golden NIC as values of registers.

use spraynic_config::registers::RegisterMap;
use spraynic_golden::spraynic_nic::Settings;

/// Offset and value of each register that must be another one than after reset.
pub(super) fn settings(settings: &Settings, map: &RegisterMap) -> Vec<(u32, u32)> {
    let Settings {
        pacing,
        trimmed_dscp,
        classes,
        paths,
    } = settings;
    let values = [
        ("sack_every", pacing.sack_every.into()),
        ("sack_bytes", pacing.sack_bytes),
        ("sack_timer_ns", pacing.sack_timer_ns),
        ("cnp_interval_ns", pacing.cnp_interval_ns),
        ("trimmed_dscp", trimmed_dscp.trimmed.into()),
        ("trimmed_last_hop_dscp", trimmed_dscp.last_hop.into()),
        ("class_strict", classes.strict.into()),
        ("class_weight", u32::from_le_bytes(classes.weight)),
        ("bad_after", paths.bad_after.into()),
        ("delivered_clears", paths.delivered_clears.into()),
        ("probe_interval_ns", paths.probe_interval_ns),
    ];
    let changed = values.into_iter().filter_map(|(name, value)| {
        let register = map.find(name)?;
        (register.reset != Some(value)).then_some((register.offset, value))
    });
    changed.collect()
}
