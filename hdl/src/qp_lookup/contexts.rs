//! The table of contexts: cleared after reset, written by the host, one write at a time.
//!
//! A write is a barrier: packets taken before it have left on their ports before the table changes, and packets wait at the door until
//! the blocks behind have taken the new context. So all blocks see packets and writes in one order. No read meets a write in the RAM.

use super::any;
use crate::counter::{Counter, count_when};
use crate::fields::Fields;
use crate::sweep;
use spraynic_config::descriptor::{Descriptor, QueuePairContext, QueuePairState};
use spraynic_config::{NicConfig, Profile};
use spraynic_rtl::{Bundle, MemoryHandle, Module, Signal, Stream, bundle, cat_lsb_first};

bundle! {
    /// What the table keeps of a context: what packets are checked against, and what goes with them.
    pub(super) struct Entry {
        state: 3, "state of the queue pair";
        profile: 2, "its profile";
        mtu: 3, "its MTU code";
        remote_write: 1, "the peer may WRITE";
        remote_read: 1, "the peer may READ";
        remote_atomic: 1, "the peer may use atomics";
        partition_key: 16, "P_Key";
        protection_domain: 24, "protection domain";
    }
}

/// Both addresses, the peer's first, as far as this configuration has to compare them; a bit above them says that they are IPv6, or, where the
/// configuration has no IPv6, that they are no IPv4 addresses.
pub(super) fn addresses<'a>(config: &NicConfig, ipv6: Signal<'a>, peer: Signal<'a>, local: Signal<'a>) -> Signal<'a> {
    if config.wire.ipv6 {
        return cat_lsb_first(&[peer, local, ipv6]);
    }
    let is_long = |address: Signal<'a>| (address >> IPV4_BITS).any();
    let foreign = ipv6 | is_long(peer) | is_long(local);
    cat_lsb_first(&[peer.part(0, IPV4_BITS), local.part(0, IPV4_BITS), foreign])
}

const IPV4_BITS: u32 = 32;

/// The table as the lookup sees it.
pub(super) struct Table<'a> {
    /// An [`Entry`] for each queue pair with its [`addresses`] above; the read port is free.
    pub(super) memory: MemoryHandle<'a>,
    /// No packet may enter.
    pub(super) blocked: Signal<'a>,
    /// A context is written in this clock.
    pub(super) writes: Signal<'a>,
}

/// Builds the table and its writes. `empty`: no packet is between the door and the ports.
pub(super) fn contexts<'a>(
    m: Module<'a>,
    config: &NicConfig,
    writes: Stream<'a>,
    passed_on: Stream<'a>,
    empty: Signal<'a>,
) -> Table<'a> {
    let index_bits = config.qpn_bits();
    let sweep = sweep::after_reset(m, index_bits);
    let state = |name, doc| m.reg(name, 1).reset(0).doc(doc);
    let waiting = state(
        "context_waiting",
        "a write waits for its checks and for the packets before it",
    );
    let checked = state("context_checked", "`context_served` and `context_in_table` are valid");
    let offered = state(
        "context_offered",
        "the written context waits for the blocks behind to take it",
    );
    let held = m.reg("context_held", QueuePairContext::width());
    let context = Fields::unpack::<QueuePairContext>(held);
    let (served, in_table) = (m.reg("context_served", 1), m.reg("context_in_table", 1));
    served.set(serves(m, config, &context));
    in_table.set(!(context.get("qpn") >> index_bits).any());

    writes.ready.set(!(sweep.active | waiting | offered));
    let write = (waiting & checked & empty).named("context_write");
    let as_it_stands = served.mux(
        held,
        Fields::build::<QueuePairContext>(|name, width| match name {
            "qpn" => context.get(name),
            _ => m.lit(0, width),
        })
        .pack(),
    );
    checked.set(waiting & !write);
    m.when(writes.fires(), || {
        waiting.set_lit(1);
        held.set(writes.data);
    });
    m.when(write, || {
        waiting.set_lit(0);
        offered.set(in_table);
        held.set(as_it_stands);
    });
    m.when(passed_on.fires(), || offered.set_lit(0));
    passed_on.data.set(held);
    passed_on.valid.set(offered);

    let mut fields = vec![];
    for (name, ..) in Entry::fields() {
        fields.push(context.get(name));
    }
    let [ipv6, peer, local] = ["ipv6", "peer_ip", "local_ip"].map(|name| context.get(name));
    let entry = cat_lsb_first(&[
        Entry::from_signals(&fields).pack(),
        addresses(config, ipv6, peer, local),
    ]);
    let memory = m.memory("contexts", config.queue_pairs.count, entry.width());
    memory.write(
        sweep.active | (write & in_table),
        sweep.active.mux(sweep.index, context.get("qpn").part(0, index_bits)),
        entry.gate(served & !sweep.active),
    );
    count_when(
        m,
        Counter("drop_context", "context writes refused"),
        write & !(served & in_table),
    );
    Table {
        memory,
        blocked: (sweep.active | waiting | offered).named("packets_blocked"),
        writes: write,
    }
}

/// Whether this NIC can serve the context: in RESET nothing of it counts.
fn serves<'a>(m: Module<'a>, config: &NicConfig, context: &Fields<'a>) -> Signal<'a> {
    let (state, profile, mtu) = (context.get("state"), context.get("profile"), context.get("mtu"));
    let known = any(m, QueuePairState::ALL.map(|known| state.eq_lit(known as u8)));
    let profiles = Profile::ALL.iter().filter(|profile| config.has_profile(**profile));
    let possible = profiles.map(|wanted| {
        let has_it = profile.eq_lit(wanted.code());
        match wanted {
            Profile::Solar => has_it & is_below(context.get("qpn"), config.reorder_queue_pairs()),
            Profile::Roce | Profile::Mrc => has_it,
        }
    });
    let profile_good = any(m, possible).named("context_profile_good");
    let mtu_good = any(m, (1..=config.max_mtu_code()).map(|code| mtu.eq_lit(code))).named("context_mtu_good");
    state.eq_lit(QueuePairState::Reset as u8) | (known & profile_good & mtu_good)
}

/// Whether a queue pair number is below a count, which is a power of two in a valid configuration.
fn is_below(qpn: Signal<'_>, count: u32) -> Signal<'_> {
    qpn.lt(qpn.lit(count))
}
