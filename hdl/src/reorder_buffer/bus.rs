//! The bus: the payload of each packet goes past the pool to the port, into a slot or nowhere, as was decided for it. It decides nothing.

use super::decide::Decision;
use super::kept::describe;
use super::port::Leaving;
use super::queue::{queue, registered_queue};
use super::sizes::Sizes;
use super::slots::Storing;
use spraynic_rtl::{AxiStream, Bundle, MemoryHandle, MemoryStyle, Module, Signal, bundle, cat_lsb_first};

/// Packets between `s_axis_descriptor` and the end of their payload.
pub(super) const ARRIVALS: u32 = 16;

bundle! {
    /// What was decided of a packet that is on the bus.
    struct Disposition {
        passes: 1, "it is given from the bus";
        stores: 1, "it goes into a slot";
        duplicate: 1, "given as a duplicate";
        has_payload: 1, "it comes with payload";
    }
}

/// What comes of the bus.
pub(super) struct Bus<'a> {
    pub(super) passing: Leaving<'a>,
    pub(super) storing: Storing<'a>,
    /// A packet is done with.
    pub(super) done: Signal<'a>,
}

/// Which packets are on the bus, so that what is stored is not read before it is there.
///
/// Those on the bus differ in the low bits of their numbers; the high bits tell them from those of former rounds. A number that came around again
/// only waits for a packet that is done with soon.
pub(super) struct OnBus<'a> {
    bits: Signal<'a>,
    rounds: MemoryHandle<'a>,
}

/// Bits of a packet's number: so many that one seldom looks as if it were on the bus again.
pub(super) const NUMBER_BITS: u32 = 12;
/// The low ones of them.
const PLACE_BITS: u32 = ARRIVALS.ilog2();

impl<'a> OnBus<'a> {
    /// `arrives`: a packet of this number was decided; `done`: the oldest one is done with.
    pub(super) fn new(m: Module<'a>, arrives: Signal<'a>, number: Signal<'a>, done: Signal<'a>) -> Self {
        let rounds = m
            .memory("rounds", ARRIVALS, NUMBER_BITS - PLACE_BITS)
            .style(MemoryStyle::Distributed);
        let place = number.part(0, PLACE_BITS);
        rounds.write(arrives, place, number.part(PLACE_BITS, NUMBER_BITS - PLACE_BITS));
        let oldest = m.reg("oldest_on_bus", PLACE_BITS).reset(0);
        // A clock late, because who is done is known late; its place is taken again much later.
        let done = done.delayed("done_on_bus").reset(0);
        m.when(done, || oldest.set(oldest + oldest.lit(1)));
        let one_hot = |place: Signal<'a>| m.lit(1, ARRIVALS) << place;
        let bits = m
            .reg("on_bus", ARRIVALS)
            .reset(0)
            .doc("by the low bits of the number: the packet is on the bus");
        bits.set((bits & !one_hot(oldest).gate(done)) | one_hot(place).gate(arrives));
        Self { bits, rounds }
    }

    /// Whether it holds the packet of this number.
    pub(super) fn holds(&self, number: Signal<'a>) -> Signal<'a> {
        let place = number.part(0, PLACE_BITS);
        let same_round = self
            .rounds
            .read_now(place)
            .eq(number.part(PLACE_BITS, NUMBER_BITS - PLACE_BITS));
        (self.bits.bit_at(place) & same_round).named("entry_is_on_the_bus")
    }
}

/// Builds the bus. `taken`: a packet was taken, `kept` beside its payload; `slot_4` is the slot of a packet that is stored.
pub(super) fn bus<'a>(
    m: Module<'a>,
    sizes: &Sizes,
    payload: AxiStream<'a>,
    (taken, kept): (Signal<'a>, Signal<'a>),
    decision: &Decision<'a>,
    slot_4: Signal<'a>,
) -> Bus<'a> {
    payload.user.ignore();
    let done = m.wire("arrival_done", 1);
    // The packet, its decision and its payload meet here.
    let arrival = queue(m, "arrivals", ARRIVALS, (taken, kept), done);
    let (op_4, at_4) = (decision.op_4, decision.at_4);
    let decided = Disposition {
        passes: at_4.gives,
        stores: at_4.stored,
        duplicate: at_4.duplicate,
        has_payload: op_4.has_payload,
    };
    let word = cat_lsb_first(&[decided.pack(), slot_4]);
    let (is_decided, decided) = registered_queue(m, "dispositions", ARRIVALS, (op_4.valid & op_4.packet, word), done);
    let disposition = Disposition::unpack(decided.part(0, Disposition::packed_width()));
    let slot = decided.part(Disposition::packed_width(), slot_4.width());
    m.assert("what_is_decided_is_there", !is_decided | arrival.valid);
    let has_payload = disposition.has_payload;
    let beat_there = (is_decided & (!has_payload | payload.valid)).named("arrival_beat");
    let ends = !has_payload | payload.last;
    let beat_number = m.reg("arrival_beat_number", sizes.beat_bits).reset(0);
    beat_number.ignore();
    let begins = m
        .reg("arrival_begins", 1)
        .reset(1)
        .doc("the next beat is its packet's first");
    let passing = Leaving {
        valid: beat_there & disposition.passes,
        first: begins,
        last: ends,
        has_payload,
        descriptor: describe(m, arrival.word, disposition.duplicate).pack(),
        data: payload.data,
        keep: payload.keep,
        fires: m.wire("passing_fires", 1),
    };
    let elsewhere = (beat_there & !disposition.passes).named("arrival_not_given");
    let moves = (elsewhere | passing.fires).named("arrival_moves");
    done.set(moves & ends);
    payload.ready.set(moves & has_payload);
    m.when(moves, || {
        begins.set(ends);
        beat_number.set((beat_number + beat_number.lit(1)).gate(!ends));
    });
    Bus {
        passing,
        storing: Storing {
            stores: (is_decided & disposition.stores).named("stores"),
            slot,
            beat: beat_number,
            data: payload.data,
            kept: arrival.word,
        },
        done,
    }
}
