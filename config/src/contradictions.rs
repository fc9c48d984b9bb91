//! Values that are allowed each, but make no NIC together.

use std::collections::BTreeMap;

use crate::error::{ConfigError, Origin, Setting};
use crate::{NicConfig, Operation, Profile};

/// Refuses the first contradiction; `origins` says where each key was set, as far as known.
pub(crate) fn check(config: &NicConfig, origins: &BTreeMap<&'static str, Origin>) -> Result<(), ConfigError> {
    let values: BTreeMap<_, _> = config.values().into_iter().collect();
    let contradiction = |keys: &[&'static str], reason: String, remedy: String| {
        let settings = keys
            .iter()
            .map(|key| Setting {
                key,
                value: values.get(key).map(ToString::to_string).unwrap_or_default(),
                origin: origins.get(key).cloned().unwrap_or(Origin::Field),
            })
            .collect();
        Err(ConfigError::Contradiction {
            settings,
            reason,
            remedy,
        })
    };
    let wire = &config.wire;

    if !wire.ipv4 && !wire.ipv6 {
        return contradiction(
            &["wire.ipv4", "wire.ipv6"],
            "no IP version is left to send with".to_owned(),
            "set one of them to true".to_owned(),
        );
    }
    if wire.profiles.contains(&Profile::Mrc) && !wire.operations.contains(&Operation::Write) {
        return contradiction(
            &["wire.profiles", "wire.operations"],
            "the mrc profile has RDMA WRITE alone, and it is not among the operations".to_owned(),
            "add \"write\" to wire.operations or take \"mrc\" out of wire.profiles".to_owned(),
        );
    }
    for operation in &wire.operations {
        if let Some(base) = operation.base().filter(|base| !wire.operations.contains(base)) {
            return contradiction(
                &["wire.operations"],
                format!(
                    "`{}` needs `{}` for all packets but the last",
                    operation.name(),
                    base.name()
                ),
                format!("add \"{}\" to wire.operations", base.name()),
            );
        }
        if !wire.profiles.iter().any(|profile| profile.carries(*operation)) {
            return contradiction(
                &["wire.profiles", "wire.operations"],
                format!("no profile that is chosen has `{}`", operation.name()),
                format!(
                    "take \"{}\" out of wire.operations or add \"roce\" or \"solar\" to wire.profiles",
                    operation.name()
                ),
            );
        }
    }
    let beat = config.beat_bytes();
    let frame = config.max_frame_bytes().next_multiple_of(beat);
    if config.transmit.frame_fifo_bytes < 2 * frame {
        return contradiction(
            &["transmit.frame_fifo_bytes", "wire.max_mtu", "datapath.width_bits"],
            format!("the largest frame takes {frame} bytes of the FIFO, and two of them must fit"),
            format!(
                "set transmit.frame_fifo_bytes to {} or more, or wire.max_mtu lower",
                (2 * frame).next_power_of_two()
            ),
        );
    }
    if config.has_profile(Profile::Mrc) && !config.send.window.is_multiple_of(128) {
        return contradiction(
            &["send.window", "wire.profiles"],
            "the mrc profile counts its window in units of 128 packets".to_owned(),
            "set send.window to 128 or more, or take \"mrc\" out of wire.profiles".to_owned(),
        );
    }
    receive(config, contradiction)
}

/// Largest pool of the reorder buffer, in bytes.
const MAX_POOL_BYTES: u64 = 8 << 20;

/// Window, pool and guarantees of the reorder buffer.
fn receive(
    config: &NicConfig,
    contradiction: impl Fn(&[&'static str], String, String) -> Result<(), ConfigError>,
) -> Result<(), ConfigError> {
    let receive = &config.receive;
    if config.has_profile(Profile::Mrc) && !receive.window.is_multiple_of(128) {
        return contradiction(
            &["receive.window", "wire.profiles"],
            "the mrc profile counts its window in units of 128 packets".to_owned(),
            "set receive.window to 128 or more, or take \"mrc\" out of wire.profiles".to_owned(),
        );
    }
    let queue_pairs = config.reorder_queue_pairs();
    if queue_pairs == 0 {
        return Ok(());
    }
    let least = u64::from(queue_pairs) * u64::from(receive.guaranteed_slots) + u64::from(receive.window);
    if u64::from(receive.pool_slots) < least {
        return contradiction(
            &[
                "receive.pool_slots",
                "receive.guaranteed_slots",
                "receive.reorder_queue_pairs",
                "receive.window",
            ],
            format!(
                "{queue_pairs} queue pairs with {} slots each and one window of {} take {least} slots",
                receive.guaranteed_slots, receive.window
            ),
            format!(
                "set receive.pool_slots to {} or more, or one of the others lower",
                least.next_power_of_two()
            ),
        );
    }
    if config.pool_bytes() > MAX_POOL_BYTES {
        return contradiction(
            &["receive.pool_slots", "wire.max_mtu"],
            format!(
                "the pool takes {} bytes, and {MAX_POOL_BYTES} are possible",
                config.pool_bytes()
            ),
            format!(
                "set receive.pool_slots to {} or less, or wire.max_mtu lower",
                MAX_POOL_BYTES / u64::from(config.wire.max_mtu)
            ),
        );
    }
    Ok(())
}
