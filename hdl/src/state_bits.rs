//! What the NIC keeps of each queue pair in its memories, block by block.
//!
//! Nothing is estimated: the NIC is built with as many queue pairs as configured and with another count, and the difference of its memories'
//! bits is what a queue pair takes.

use spraynic_config::NicConfig;
use spraynic_rtl::Context;

use crate::spraynic_nic::parts;

/// Bits in memories for one queue pair more, of each kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateBits {
    /// Block, by its place in the NIC.
    pub block: String,
    /// For each queue pair of `queue_pairs.count`.
    pub every: u64,
    /// More for each that sends: `send.queue_pairs`.
    pub sending: u64,
    /// More for each that reorders (profile solar): `receive.reorder_queue_pairs`.
    pub reordering: u64,
}

/// The blocks that keep something of a queue pair. The configuration must be valid.
#[must_use]
pub fn state_bits(config: &NicConfig) -> Vec<StateBits> {
    // Queue pairs that cannot do this or that, so that each kind is seen by itself.
    let base = |count: u32, sending: u32, reordering: u32| {
        let mut config = config.clone();
        config.queue_pairs.count = count;
        config.send.queue_pairs = sending;
        config.receive.reorder_queue_pairs = reordering;
        memories(&config)
    };
    let (sending, reordering) = (config.send_queue_pairs(), config.reorder_queue_pairs().max(2));
    let count = config.queue_pairs.count.max(sending).max(reordering);
    let here = base(count, sending, reordering);
    let more = [
        (base(2 * count, sending, reordering), count),
        (base(2 * count, 2 * sending, reordering), sending),
        (base(2 * count, sending, 2 * reordering), reordering),
    ];
    let bits = |place: usize, block: usize, before: u64| {
        let (after, added) = &more[place];
        after[block].1.saturating_sub(before) / u64::from(*added)
    };
    let rows = here.iter().enumerate().map(|(block, (name, before))| {
        let twice = more[0].0[block].1;
        StateBits {
            block: name.clone(),
            every: bits(0, block, *before),
            sending: bits(1, block, twice),
            reordering: bits(2, block, twice),
        }
    });
    rows.filter(|row| row.every + row.sending + row.reordering > 0)
        .collect()
}

/// Bits of the memories of each block; of the paths, each block inside.
fn memories(config: &NicConfig) -> Vec<(String, u64)> {
    let context = Context::new();
    let mut rows = vec![];
    for (place, part) in parts(&context, config) {
        if place == "receive" {
            let blocks = part.instances().into_iter();
            rows.extend(blocks.map(|(name, block)| {
                let name = name.trim_start_matches("u_").to_owned();
                (name, block.memory_bits())
            }));
        } else {
            let name = place.trim_start_matches("send_").trim_start_matches("transmit_");
            rows.push((name.to_owned(), part.memory_bits()));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use spraynic_config::Preset;

    #[test]
    fn each_kind_of_queue_pair_costs_what_its_tables_say() {
        let mut config = NicConfig::preset(Preset::Lab);
        let rows = state_bits(&config);
        let of = |rows: &[StateBits], block: &str| rows.iter().find(|row| row.block == block).cloned().unwrap();
        // A window twice as large costs records of as many packets more; who does not send pays nothing for it.
        let before = of(&rows, "retransmit_engine");
        let window = config.send.window;
        config.send.window *= 2;
        let after = of(&state_bits(&config), "retransmit_engine");
        assert_eq!((before.every, before.reordering), (0, 0));
        let added = after.sending - before.sending;
        assert!(
            added >= u64::from(window) * 2 * 125,
            "{added} bits for {window} packets more"
        );
        // Templates are for all, and do not depend on windows.
        let templates = of(&rows, "header_builder");
        assert_eq!((templates.sending, templates.reordering), (0, 0));
        assert!(templates.every > 300, "{templates:?}");
    }
}
