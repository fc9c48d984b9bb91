//! What a NIC says of itself on ports that no hardware needs: its counters, what leaves and comes into its windows, and what its queues hold.

use std::collections::BTreeMap;

use spraynic_config::descriptor::{Descriptor, SendProgress, SentPacket};
use spraynic_network::Activity;

use super::streams::DescriptorSink;
use crate::simulation::{Output, Simulation};

/// PSNs have 24 bits.
const PSN_MASK: u32 = 0xFF_FFFF;

/// The counters that make an [`Activity`]: those whose names end so are added up.
#[derive(Debug)]
pub(super) struct Counters {
    outputs: Vec<(String, Output)>,
}

impl Counters {
    /// All output ports `count_…`.
    pub(super) fn new(simulation: &Simulation) -> Self {
        let names: Vec<String> = simulation.output_names().map(str::to_owned).collect();
        let outputs = names.into_iter().filter_map(|name| {
            let short = name.strip_prefix("count_")?.to_owned();
            Some((short, simulation.output(&name).ok()?))
        });
        Self {
            outputs: outputs.collect(),
        }
    }

    /// Each counter with its value.
    pub(super) fn values<'s>(&'s self, simulation: &'s Simulation) -> impl Iterator<Item = (&'s str, u64)> {
        let values = self.outputs.iter();
        values.map(|(name, output)| (name.as_str(), simulation.get(*output)))
    }

    pub(super) fn activity(&self, simulation: &Simulation) -> Activity {
        let sum = |ends: &[&str]| {
            let named = self
                .values(simulation)
                .filter(|(name, _)| ends.iter().any(|end| name.ends_with(end)));
            named.map(|(_, value)| value).sum()
        };
        Activity {
            sent_again: sum(&["work_queue_retransmissions", "response_queue_retransmissions"]),
            timeouts: sum(&["retransmit_engine_timeouts"]),
            rewinds: sum(&["retransmit_engine_rewinds"]),
            sacks: sum(&["retransmit_engine_sacks"]),
            nacks: sum(&["retransmit_engine_nacks"]),
            naks: sum(&["retransmit_engine_naks"]),
            probes: sum(&["retransmit_engine_probes", "path_monitor_probes"]),
            paths_skipped: sum(&["path_monitor_skipped"]),
            paths_retired: sum(&["path_monitor_bad_by_loss", "path_monitor_bad_by_peer"]),
            paths_recovered: sum(&["path_monitor_recovered"]),
            paths_recycled: sum(&["spray_scheduler_recycled"]),
            failures: sum(&["retransmit_engine_failures"]),
        }
    }
}

/// What a block holds for each queue pair, as it stored it last.
#[derive(Debug)]
struct Held {
    what: &'static str,
    stored: Output,
    qpn: Output,
    count: Output,
    counts: BTreeMap<u64, u64>,
}

/// What the queues of requests and responses hold.
#[derive(Debug)]
pub(super) struct Queues {
    held: Vec<Held>,
}

impl Queues {
    /// Blocks that the model does not have hold nothing.
    pub(super) fn new(simulation: &Simulation) -> Self {
        let blocks = [
            ("send_work_queue", "requests that are not complete"),
            ("send_requester", "responses awaited"),
            ("send_response_queue", "responses held"),
        ];
        let held = blocks.into_iter().filter_map(|(block, what)| {
            let output = |name: &str| simulation.output(&format!("{block}_holding_{name}")).ok();
            Some(Held {
                what,
                stored: output("stored")?,
                qpn: output("qpn")?,
                count: output("count")?,
                counts: BTreeMap::new(),
            })
        });
        Self { held: held.collect() }
    }

    pub(super) fn observe(&mut self, simulation: &Simulation) {
        for held in &mut self.held {
            if simulation.get(held.stored) == 1 {
                let (qpn, count) = (simulation.get(held.qpn), simulation.get(held.count));
                held.counts.insert(qpn, count);
            }
        }
    }

    /// What is held, as text.
    pub(super) fn leftovers(&self) -> Vec<String> {
        let all = self.held.iter().flat_map(|held| {
            let some = held.counts.iter().filter(|(_, count)| **count > 0);
            some.map(|(qpn, count)| format!("queue pair {qpn}: {}: {count}", held.what))
        });
        all.collect()
    }
}

/// What is outstanding, by the streams on which `retransmit_engine` hears of packets and tells of progress.
#[derive(Debug, Default)]
pub(super) struct Windows {
    sent: Option<DescriptorSink>,
    progress: Option<DescriptorSink>,
    /// PSN behind the last one sent, and oldest one not acknowledged, of each queue pair and space (true: responses).
    edges: BTreeMap<(u32, bool), [u32; 2]>,
}

impl Windows {
    /// Nothing is known where the model does not have these streams.
    pub(super) fn new(simulation: &mut Simulation) -> Self {
        let mut stream = |name: &str| {
            let there = simulation.output(&format!("{name}_tvalid")).is_ok();
            there.then(|| DescriptorSink::new(simulation, name).ok()).flatten()
        };
        Self {
            sent: stream("m_axis_sent"),
            progress: stream("m_axis_progress"),
            edges: BTreeMap::new(),
        }
    }

    pub(super) fn observe(&mut self, simulation: &Simulation) {
        if let Some(bytes) = self.sent.as_ref().and_then(|stream| stream.observe(simulation)) {
            let sent = SentPacket::unpack(bytes);
            if !sent.retransmission {
                let next = sent.psn.wrapping_add(sent.psns.max(1)) & PSN_MASK;
                let edges = self.edges.entry((sent.qpn, sent.space)).or_insert([sent.psn; 2]);
                edges[0] = next;
            }
        }
        if let Some(bytes) = self.progress.as_ref().and_then(|stream| stream.observe(simulation)) {
            let progress = SendProgress::unpack(bytes);
            if let Some(edges) = self.edges.get_mut(&(progress.qpn, progress.space)) {
                edges[1] = progress.base;
            }
        }
    }

    /// What is outstanding, as text.
    pub(super) fn leftovers(&self) -> Vec<String> {
        let held = self.edges.iter().filter_map(|((qpn, responses), [next, base])| {
            let count = next.wrapping_sub(*base) & PSN_MASK;
            let what = if *responses { "responses" } else { "requests" };
            (count > 0).then(|| format!("queue pair {qpn}: {what} outstanding: {count}"))
        });
        held.collect()
    }
}
