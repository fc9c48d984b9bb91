//! The front half: the queue pair, what is known of its set, its recycled paths, and the choice of the port.
//!
//! Clocks 1 and 2: the queue pair. 3 and 4: the flags of its set and its ring. 5: the port, where a packet waits until a port has room. Which ports may be
//! chosen is found one clock before the choice, again in each clock that the packet waits.

use spraynic_config::descriptor::SprayPolicy;
use spraynic_rtl::{Bundle, Module, Signal, cat_lsb_first, index_width};

use super::entry::Entered;
use super::recycled::{self, Ring, Use};
use super::{Chosen, Operation, QueuePair, RANDOM_SEED, is, next_random};
use crate::path_sets::{PathSets, encode, first_from, lowest};
use crate::state_table::{self, Stages, StateTable, state_table};
use crate::sweep::Sweep;

/// Inputs that say how ports are, a bit each.
pub(super) struct Ports<'a> {
    pub(super) up: Signal<'a>,
    pub(super) room: Signal<'a>,
}

/// What is known of a plane: paths in all, whether one is good, whether one is bad.
pub(super) fn flag_bits(sets: PathSets) -> u32 {
    count_bits(sets) + 2
}

/// Bits of a count of the paths of a plane.
pub(super) fn count_bits(sets: PathSets) -> u32 {
    index_width(u64::from(sets.plane_places()) + 1)
}

/// A write of the flags of one plane.
#[derive(Clone, Copy)]
pub(super) struct FlagsWrite<'a> {
    pub(super) write: Signal<'a>,
    pub(super) set: Signal<'a>,
    /// One bit a plane.
    pub(super) planes: Signal<'a>,
    /// Flags of the plane.
    pub(super) flags: Signal<'a>,
}

impl<'a> FlagsWrite<'a> {
    fn wires(m: Module<'a>, sets: PathSets) -> Self {
        Self {
            write: m.wire("flags_write", 1),
            set: m.wire("flags_set", sets.set_bits()),
            planes: m.wire("flags_planes", sets.planes()),
            flags: m.wire("flags_written", flag_bits(sets)),
        }
    }

    /// Drives the wires.
    pub(super) fn connect(&self, by: &Self) {
        self.write.set(by.write);
        self.set.set(by.set);
        self.planes.set(by.planes);
        self.flags.set(by.flags);
    }
}

/// What leaves the front half.
pub(super) struct Front<'a> {
    pub(super) advance: Signal<'a>,
    /// The operation in clock 5 moves on.
    pub(super) leaves: Signal<'a>,
    /// It, registered: clock 6.
    pub(super) valid: Signal<'a>,
    /// Set of the operation in clock 5.
    pub(super) set: Signal<'a>,
    pub(super) chosen: Chosen<'a>,
    /// To be driven by who keeps the bitmaps.
    pub(super) flags_write: FlagsWrite<'a>,
    pub(super) last_resort: Signal<'a>,
    pub(super) no_path: Signal<'a>,
    pub(super) port_down: Signal<'a>,
}

/// What is known of a set, as its queue pair wants it.
struct Flags<'a> {
    /// Ports with a good path, with any path.
    good: Signal<'a>,
    any: Signal<'a>,
    /// A path is bad.
    some_bad: Signal<'a>,
    /// Paths of each plane.
    counts: Vec<Signal<'a>>,
}

fn flags<'a>(sets: PathSets, word: Signal<'a>) -> Flags<'a> {
    let width = flag_bits(sets);
    let planes: Vec<Signal<'a>> = (0..sets.planes())
        .map(|plane| word.part(plane * width, width))
        .collect();
    let of = |bit: u32| cat_lsb_first(&planes.iter().map(|plane| plane.bit(bit)).collect::<Vec<_>>());
    let (good, bad) = (of(0), of(1));
    Flags {
        good,
        any: good | bad,
        some_bad: bad.any(),
        counts: planes.iter().map(|plane| plane.part(2, width - 2)).collect(),
    }
}

/// What may be chosen, from the state of the ports one clock before the choice.
struct Choices<'a> {
    rotates: Signal<'a>,
    no_path: Signal<'a>,
    candidates: Signal<'a>,
    /// The port of policy `single`, one-hot.
    single: Signal<'a>,
    /// That of a packet that has no path to choose: the lowest one that is up, one-hot.
    direct: Signal<'a>,
    /// It must wait.
    waits: Signal<'a>,
    up: Signal<'a>,
}

fn choices<'a>(
    flags: &Flags<'a>,
    queue_pair: &QueuePair<'a>,
    packet: Signal<'a>,
    hash_port: Signal<'a>,
    ports: &Ports<'a>,
) -> Choices<'a> {
    let policy = queue_pair.policy;
    let judges = is(policy, SprayPolicy::Adaptive) | is(policy, SprayPolicy::Reps);
    let sprays = queue_pair.open & queue_pair.sprays;
    let has_path = queue_pair.has_set & flags.any.any();
    let good_up = ports.up & flags.good;
    let rotates = judges & good_up.any();
    let any_up = ports.up & flags.any;
    let up = rotates.mux(good_up, any_up);
    let none_up = !up.any();
    let is_single = is(policy, SprayPolicy::Single);
    let candidates = none_up.mux(flags.any, is_single.mux(up, up & ports.room));
    let single = first_from(none_up.mux(flags.any, up), hash_port);
    let single_waits = !none_up & !(single & ports.room).any();
    let spray_waits = is_single.mux(single_waits, !candidates.any());
    let direct = lowest(ports.up);
    let direct_waits = ports.up.any() & !(direct & ports.room).any();
    let by_path = sprays & has_path;
    Choices {
        rotates: by_path & rotates,
        no_path: sprays & !has_path,
        candidates,
        single,
        direct,
        waits: packet & by_path.mux(spray_waits, direct_waits),
        up: ports.up,
    }
}

/// Builds the front half behind the entry.
pub(super) fn front<'a>(
    m: Module<'a>,
    sets: PathSets,
    queue_pairs: u32,
    entered: &Entered<'a>,
    ports: Ports<'a>,
    sweep: Sweep<'a>,
) -> Front<'a> {
    let qp_bits = queue_pairs.trailing_zeros();
    let set_bits = sets.set_bits();
    let planes = sets.planes();
    let advance = m.wire("front_advances", 1);
    let valid: Vec<Signal<'a>> = (1..=5)
        .map(|clock| m.reg(&format!("valid_{clock}"), 1).reset(0))
        .collect();
    let operations: Vec<Operation<'a>> = (1..=5)
        .map(|clock| Operation::regs(m, &format!("op_{clock}")))
        .collect();
    let queue_pair: Vec<QueuePair<'a>> = (2..=5)
        .map(|clock| QueuePair::regs(m, &format!("queue_pair_{clock}")))
        .collect();
    m.when(advance, || {
        valid[0].set(entered.enters);
        operations[0].set(&entered.operation);
        queue_pair[0].set(&entered.queue_pair);
        for clock in 1..5 {
            valid[clock].set(valid[clock - 1]);
            operations[clock].set(&operations[clock - 1]);
        }
        for clock in 1..4 {
            queue_pair[clock].set(&queue_pair[clock - 1]);
        }
    });
    let (op_4, op_5) = (operations[3], operations[4]);
    let (qp_2, qp_3, qp_4, qp_5) = (queue_pair[0], queue_pair[1], queue_pair[2], queue_pair[3]);
    for unread in [op_5.context, op_5.recycle, op_5.known, op_5.qpn, qp_5.open] {
        unread.ignore();
    }

    // Clock 2 to 4: the flags of the set.
    let flags_write = FlagsWrite::wires(m, sets);
    let memory = m
        .memory("set_flags", state_table::depth(sets.sets), planes * flag_bits(sets))
        .strobes(flag_bits(sets));
    let swept = sweep
        .index
        .part(0, set_bits.min(sweep.index.width()))
        .zero_extend(set_bits);
    memory.write_strobed(
        flags_write.write | sweep.active,
        sweep.active.mux(swept, flags_write.set),
        cat_lsb_first(&vec![flags_write.flags.gate(!sweep.active); planes as usize]),
        flags_write.planes | sweep.active.repeat(planes),
    );
    let read = memory.read(advance, qp_2.set.part(0, set_bits));
    let word_4 = m.reg("flags_4", read.width());
    let word_5 = m.reg("flags_5", read.width());
    m.when(advance, || {
        word_4.set(read);
        word_5.set(word_4);
    });
    let (flags_4, flags_5) = (flags(sets, word_4), flags(sets, word_5));

    // Clock 2 to 4: the ring of the queue pair.
    let ring_table = state_table(
        m,
        "ring",
        (queue_pairs, recycled::width()),
        Stages {
            valid: [1, 2, 3].map(|clock| valid[clock]),
            index: [1, 2, 3].map(|clock: usize| operations[clock].qpn.part(0, qp_bits)),
            advance,
        },
        sweep,
    );
    let reps = qp_4.open & is(qp_4.policy, SprayPolicy::Reps);
    let of_set = op_4.set.eq(qp_4.set) & qp_4.has_set;
    let (ring, taken) = recycled::step(
        m,
        &Ring::unpack(ring_table.word),
        &Use {
            clear: op_4.context & op_4.known,
            push: op_4.recycle & op_4.known & reps & of_set,
            place: op_4.place,
            take: op_4.packet & op_4.known & reps & qp_4.has_set & flags_4.any.any(),
            frozen: flags_4.some_bad,
        },
    );
    ring_table.next.set(ring.pack());
    let (ring_any, ring_place) = (m.reg("recycled_any", 1), m.reg("recycled_place", 8));

    // What stands for the queue pair in policy `single`: three steps of the random numbers from its number.
    let op_3 = operations[2];
    let seed = cat_lsb_first(&[op_3.qpn, m.lit(1, 8)]);
    let hash = next_random(next_random(next_random(seed)));
    let hash_4 = m.reg("hash_4", 32);
    let hash_5 = m.reg("hash_5", 16).doc("fraction of policy single");

    // Clock 4 to 5: what may be chosen, from the operation that comes or from the one that waits.
    let port_bits = sets.port_bits();
    let full = |bits: Signal<'a>| bits.zero_extend(planes);
    let up_now = full(ports.up).delayed("port_up_now");
    let room_now = full(ports.room).delayed("port_room_now");
    let hash_port_4 = hash_4.part(0, port_bits);
    let hash_port_5 = m.reg("hash_port_5", port_bits);
    if planes == 1 {
        hash_port_5.ignore();
    }
    m.when(advance, || {
        ring_any.set(taken.any);
        ring_place.set(taken.place);
        hash_4.set(hash);
        hash_5.set(hash_4.part(16, 16));
        hash_port_5.set(hash_port_4);
    });
    let now = Ports {
        up: up_now,
        room: room_now,
    };
    let open_4 = QueuePair {
        open: qp_4.open & op_4.known,
        ..qp_4
    };
    let source = |four: Signal<'a>, five: Signal<'a>| advance.mux(four, five);
    let known_5 = m.reg("known_5", 1);
    m.when(advance, || known_5.set(op_4.known & qp_4.open));
    let of = choices(
        &Flags {
            good: source(flags_4.good, flags_5.good),
            any: source(flags_4.any, flags_5.any),
            some_bad: flags_4.some_bad,
            counts: vec![],
        },
        &QueuePair {
            open: source(open_4.open, known_5),
            sprays: source(qp_4.sprays, qp_5.sprays),
            has_set: source(qp_4.has_set, qp_5.has_set),
            policy: source(qp_4.policy, qp_5.policy),
            ..qp_4
        },
        source(op_4.packet, op_5.packet),
        source(hash_port_4, hash_port_5),
        &now,
    );
    let choice = |signal: Signal<'a>, name: &str| signal.delayed(&format!("choice_{name}"));
    let rotates = choice(of.rotates, "rotates");
    let no_path = choice(of.no_path, "no_path");
    let candidates = choice(of.candidates, "candidates");
    let single = choice(of.single, "single");
    let direct_port = choice(of.direct, "direct");
    let waits = choice(of.waits, "waits");
    let up = choice(of.up, "up");

    // Clock 5: the port.
    let valid_5 = valid[4];
    advance.set(!(valid_5 & waits));
    let leaves = (valid_5 & advance).named("leaves_front");
    let packet = (leaves & op_5.packet).named("packet_leaves_front");
    let sprays = known_5 & qp_5.sprays;
    let direct = (!sprays | no_path).named("packet_is_direct");
    let policy_is = |policy| is(qp_5.policy, policy);
    let is_random = policy_is(SprayPolicy::Random);
    let is_single = policy_is(SprayPolicy::Single);
    let random = m.reg("random", 32).reset(RANDOM_SEED).doc("random numbers: xorshift32");
    let random_now = next_random(random).named("random_now");
    m.when(packet & is_random & !direct, || random.set(random_now));
    let ring_port = sets.port_of(ring_place);
    let ring_open = ring_port.select(&candidates.to_bits());
    let from_ring = (rotates & ring_any & ring_open).named("port_of_recycled");
    let one_hot_to_port = |one_hot: Signal<'a>| encode(one_hot).resize(port_bits);
    let next_port_index = |clock: usize| {
        if clock == 3 {
            qp_3.set
        } else if clock == 4 {
            qp_4.set
        } else {
            qp_5.set
        }
        .part(0, set_bits)
    };
    let port = if planes == 1 {
        single.ignore();
        direct_port.ignore();
        is_single.ignore();
        m.lit(0, 1)
    } else {
        let table: StateTable<'a> = state_table(
            m,
            "next_port",
            (sets.sets, port_bits),
            Stages {
                valid: [2, 3, 4].map(|clock| valid[clock]),
                index: [3, 4, 5].map(next_port_index),
                advance,
            },
            sweep,
        );
        let first = is_random.mux(random_now.part(0, port_bits), table.word);
        let in_turn = one_hot_to_port(first_from(candidates, first));
        let chosen = is_single.mux(one_hot_to_port(single), in_turn);
        let chosen = from_ring.mux(ring_port, chosen).named("chosen_port");
        let moves = packet & !direct & !is_random & !is_single & !from_ring;
        table.next.set(moves.mux(chosen + chosen.lit(1), table.word));
        direct.mux(one_hot_to_port(direct_port), chosen)
    };
    let port = (op_5.packet).mux(port, sets.port_of(op_5.place)).named("port_5");
    let judges = policy_is(SprayPolicy::Adaptive) | policy_is(SprayPolicy::Reps);
    let in_turn = policy_is(SprayPolicy::RoundRobin) | judges;

    let chosen = Chosen::regs(m, "chosen");
    chosen.set(&Chosen {
        packet,
        skip: leaves & op_5.skip,
        change: leaves & op_5.change,
        set: op_5.packet.mux(qp_5.set, op_5.set),
        port: port.zero_extend(3),
        place: op_5.packet.mux(ring_place, op_5.place),
        good: op_5.good,
        bad: op_5.bad,
        own: !known_5,
        direct,
        rotates,
        recycled: from_ring,
        turn: in_turn & !rotates,
        fraction: is_random.mux(random_now.part(16, 16), hash_5),
        paths: port.select(&flags_5.counts).zero_extend(9),
        entropy: qp_5.entropy,
    });
    let valid_6 = m.reg("valid_6", 1).reset(0);
    valid_6.set(leaves);
    let port_is_up = port.select(&up.to_bits());
    let event = |signal: Signal<'a>, name: &str| signal.delayed(&format!("counts_{name}"));
    Front {
        advance,
        leaves,
        valid: valid_6,
        set: op_5.packet.mux(qp_5.set, op_5.set).part(0, set_bits),
        chosen,
        flags_write,
        last_resort: event(packet & judges & !rotates & !direct, "last_resort"),
        no_path: event(packet & no_path, "no_path"),
        port_down: event(packet & !port_is_up, "port_down"),
    }
}
