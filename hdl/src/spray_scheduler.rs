//! `spray_scheduler`: chooses for each packet the path, and with it the port, as late as the headers allow.
//!
//! Packets, path updates, recycled paths and contexts take turns at one pipeline, one a clock. Its front half finds the queue pair and its set and
//! chooses the port, and waits there for room; behind it nothing waits, for whatever enters has a place in the queue at the end. It judges no path.
//! Theory of operation: `docs/src/blocks/spray_scheduler.md`.

mod bitmaps;
mod entry;
mod nth;
mod port;
mod recycled;
mod results;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    Descriptor, PacketDescriptor, PacketOrigin, PathEvent, PathUpdate, SendContext, SentPacket, SprayPolicy,
};
use spraynic_rtl::{Context, Definition, Signal, Stream, bundle};

use crate::counter::{Counter, count_when};
use crate::path_sets::PathSets;
use crate::sweep;

/// Name of the block.
pub const NAME: &str = "spray_scheduler";

/// State of the random numbers after reset: that of the golden model.
pub(crate) const RANDOM_SEED: u32 = 0x2545_F491;

/// Packets from entry to exit: the pipeline takes at most 18 clocks, the queue and the exit some more, so 32 keep one packet a clock going.
const PACKETS: u32 = 32;

/// What is taken.
#[derive(Clone, Copy)]
struct Inputs<'a> {
    packets: Stream<'a>,
    contexts: Stream<'a>,
    updates: Stream<'a>,
    recycles: Stream<'a>,
}

bundle! {
    /// What moves through the front half.
    pub(crate) struct Operation {
        packet: 1, "a packet";
        context: 1, "a SendContext";
        skip: 1, "an update: the path is to be left out once";
        change: 1, "an update: the path has another state";
        recycle: 1, "a path came back";
        known: 1, "packet, context, recycle: the queue pair is in the table";
        qpn: 24, "queue pair number";
        place: 8, "update, recycle: place of the path in its set";
        set: 12, "update, recycle: set of paths";
        good: 1, "change: the path is good now";
        bad: 1, "change: the path is assumed bad now";
    }
}

bundle! {
    /// What a queue pair is.
    pub(crate) struct QueuePair {
        open: 1, "it has a context";
        sprays: 1, "its policy wants a set";
        has_set: 1, "its set is in the table";
        policy: 3, "SprayPolicy";
        set: 12, "set of paths";
        entropy: 32, "entropy value where there is no path";
    }
}

bundle! {
    /// What leaves the front half: an operation on the bitmaps of a set, a packet with its port among them.
    pub(crate) struct Chosen {
        packet: 1, "a packet";
        skip: 1, "the path is to be left out once";
        change: 1, "the path has another state";
        set: 12, "set of paths";
        port: 3, "port of the packet, or of the path that changes";
        place: 8, "the path that changes, or the recycled one";
        good: 1, "change: the path is good now";
        bad: 1, "change: the path is assumed bad now";
        own: 1, "packet: it keeps the entropy value of its descriptor";
        direct: 1, "packet: it has no path, but the entropy value of the context";
        rotates: 1, "packet: the next good path";
        recycled: 1, "packet: the recycled path, if it is good";
        turn: 1, "packet: the next path, good or bad";
        fraction: 16, "packet: otherwise, the path at this place of all, in units of 2^-16";
        paths: 9, "packet: good and bad paths of the port";
        entropy: 32, "packet: entropy value of the context";
    }
}

/// Compares a policy.
fn is(policy: Signal<'_>, wanted: SprayPolicy) -> Signal<'_> {
    policy.eq_lit(wanted as u8)
}

/// The next number of xorshift32, as in the golden model.
pub(crate) fn next_random(state: Signal<'_>) -> Signal<'_> {
    let state = state ^ (state << 13);
    let state = state ^ (state >> 17);
    state ^ (state << 5)
}

/// Registers one behind the other.
fn delayed<'a>(signal: Signal<'a>, name: &str, clocks: std::ops::Range<u32>) -> Signal<'a> {
    clocks.fold(signal, |signal, clock| signal.delayed(&format!("{name}_{}", clock + 1)))
}

/// The block for this configuration.
#[must_use]
pub fn spray_scheduler<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let sets = PathSets::from(config);
    let queue_pairs = config.send_queue_pairs();
    let m = context.module(&format!(
        "{NAME}_qp{queue_pairs}_s{}_e{}_p{}",
        sets.sets, sets.entries, sets.ports
    ));
    m.doc(
        "Chooses the path of each packet, and with it the port, among the ports that are up and have room. Owns the order of\n\
         paths of each set and the recycled paths of each queue pair; what is known of a path it is told.",
    );
    let inputs = Inputs {
        packets: Stream::slave(
            m,
            "s_axis",
            PacketDescriptor::width() + PacketOrigin::width(),
            "PacketDescriptor with PacketOrigin above it: a packet without a path",
        ),
        contexts: Stream::slave(
            m,
            "s_axis_context",
            SendContext::width(),
            "SendContext: see descriptors",
        ),
        updates: Stream::slave(m, "s_axis_path", PathUpdate::width(), "PathUpdate: a path changes"),
        recycles: Stream::slave(
            m,
            "s_axis_recycle",
            PathEvent::width(),
            "PathEvent: a packet came back unmarked; other kinds are ignored",
        ),
    };
    let port_up = m.input("port_up", sets.ports).doc("the link of each port is up");
    let port_room = m
        .input("port_room", sets.ports)
        .doc("each port has room for another frame");
    let packets = Stream::master(
        m,
        "m_axis",
        PacketDescriptor::width(),
        "PacketDescriptor: the packet with entropy value and port",
    );
    let sent = Stream::master(
        m,
        "m_axis_sent",
        SentPacket::width(),
        "SentPacket: each packet that is tracked, in the same order",
    );

    // Every table is cleared after reset.
    let qp_bits = queue_pairs.trailing_zeros();
    let sweep_bits = qp_bits.max(sets.set_bits() + sets.planes().trailing_zeros());
    let sweep = sweep::after_reset(m, sweep_bits);

    let advance = m.wire("advance", 1).doc("the front half moves on");
    let pushed = m.wire("result_is_pushed", 1);
    let changed = m.wire("change_is_done", 1);
    let queue = results::Queue::new(m, packets, sent);
    let entered = entry::entry(
        m,
        sets,
        queue_pairs,
        &inputs,
        entry::Gates {
            advance,
            sweep,
            has_place: queue.has_place,
            pushed,
            changed,
        },
    );
    queue.enter(inputs.packets);

    // Front half. Clock 1: the queue pair comes out of its RAM. 2: what is known of its set is read.
    let front = port::front(
        m,
        sets,
        queue_pairs,
        &entered,
        port::Ports {
            up: port_up,
            room: port_room,
        },
        sweep,
    );
    advance.set(front.advance);

    // Back half, from clock 6 on.
    let judged = bitmaps::bitmaps(m, sets, &front, sweep);
    front.flags_write.connect(&judged.flags);
    changed.set(judged.flags.write.delayed("change_done"));
    let path = nth::path(m, sets, &judged, sweep);

    // The entropy value of the path.
    let entropies = m.memory("entropies", sets.paths(), 32);
    entropies.write(entered.entropy_write, entered.entropy_index, entered.entropy);
    let entropy = entropies.read(
        path.packet,
        sets.path_index(path.set.part(0, sets.set_bits()), path.place),
    );
    let last = |signal: Signal<'a>, name: &str| signal.delayed(name);
    let direct = last(path.direct, "result_is_direct");
    let of_context = last(path.entropy, "result_entropy_of_context");
    let result = results::Result {
        own: last(path.own, "result_is_own"),
        entropy: direct.mux(of_context, entropy),
        place: last(path.place, "result_place").gate(!direct),
        port: last(path.port, "result_port"),
    };
    let push = m.reg("result_valid", 1).reset(0);
    push.set(path.packet);
    pushed.set(push);
    let given = queue.leave(push, &result);

    let counters = [
        ("packets", "packets given", given),
        ("recycled", "packets that took a recycled path", judged.took_recycled),
        (
            "last_resort",
            "packets of adaptive and reps for which no port that is up had a good path",
            front.last_resort,
        ),
        ("no_path", "packets whose set has no path at all", front.no_path),
        ("port_down", "packets given to a port that is down", front.port_down),
        (
            "drop_update",
            "path updates refused: set, place or port beyond the configuration",
            entered.drop_update,
        ),
    ];
    for (name, doc, event) in counters {
        count_when(m, Counter(name, doc), event);
    }
    m.finish()
}
