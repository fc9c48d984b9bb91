//! Slots: the list of those that are free, and the read-out, which reads packets of the pool at a beat a clock while others are written. It
//! never decides which packet leaves next: entries come in the order of the turns.

use super::bus::OnBus;
use super::entry::Entry;
use super::kept::{describe, keep_of, kept_bits, kept_field};
use super::port::Leaving;
use super::queue::{counted, queue, registered_queue};
use super::sizes::{GROUP_BITS, Sizes};
use crate::fields::Fields;
use crate::stream_fifo;
use spraynic_config::Profile;
use spraynic_config::descriptor::SequencedPacket;
use spraynic_rtl::{MemoryStyle, Module, Signal, Stream, cat, cat_lsb_first, index_width};
use spraynic_wire::Opcode;

/// Payload of the pool from which on it is meant for URAM, in bits: 32 of them.
const ULTRA_BITS: u64 = 32 * 288 * 1024;

/// The list of free slots: those that were never used first, then those that came back, in order.
pub(super) struct FreeSlots<'a> {
    /// The slot that the next packet takes, in clock 4.
    pub(super) offered: Signal<'a>,
    /// How many there are.
    pub(super) count: Signal<'a>,
}

/// Builds the list; `takes` in clock 4.
pub(super) fn free_slots<'a>(
    m: Module<'a>,
    sizes: &Sizes,
    takes: Signal<'a>,
    (returns, returned): (Signal<'a>, Signal<'a>),
) -> FreeSlots<'a> {
    let fresh = m
        .reg("fresh_slot", sizes.slot_bits + 1)
        .reset(0)
        .doc("slots from here on were never used");
    let has_fresh = !fresh.msb();
    let back = Stream::wires(m, "free_slot", sizes.slot_bits);
    back.valid.set(returns);
    back.data.set(returned);
    let list = stream_fifo::buffer(m, "u_free_slots", back, sizes.slots);
    m.assert("free_slots_have_room", !returns | back.ready);
    m.when(takes & has_fresh, || fresh.set(fresh + fresh.lit(1)));
    list.ready.set(takes & !has_fresh);
    m.assert("a_slot_is_there", !takes | has_fresh | list.valid);
    let count = m.reg("free_slot_count", sizes.slot_bits + 1).reset(sizes.slots);
    m.when(takes & !returns, || count.set(count - count.lit(1)))
        .else_when(returns & !takes, || count.set(count + count.lit(1)));
    FreeSlots {
        offered: has_fresh.mux(fresh.part(0, sizes.slot_bits), list.data),
        count,
    }
}

/// A beat of a packet on the bus that goes into a slot. A beat that is not there yet may be written: it is written again when it is.
pub(super) struct Storing<'a> {
    pub(super) stores: Signal<'a>,
    pub(super) slot: Signal<'a>,
    pub(super) beat: Signal<'a>,
    pub(super) data: Signal<'a>,
    /// What waits beside the payload.
    pub(super) kept: Signal<'a>,
}

impl Storing<'_> {
    /// Nobody stores.
    pub(super) fn ignore(&self) {
        [self.stores, self.slot, self.beat].into_iter().for_each(Signal::ignore);
    }
}

/// What the read-out tells the turns.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadOut<'a> {
    /// The read-out holds an entry.
    pub(super) busy: Signal<'a>,
    /// One has left; so of it: it is a mark, took a receive request, was the last one of its group, of its turn, which starved.
    pub(super) leaves: Signal<'a>,
    pub(super) mark: Signal<'a>,
    pub(super) needs: Signal<'a>,
    pub(super) ends_group: Signal<'a>,
    pub(super) ends: Signal<'a>,
    pub(super) starved: Signal<'a>,
    /// Its window and PSN.
    pub(super) index: Signal<'a>,
    pub(super) space: Signal<'a>,
    pub(super) psn: Signal<'a>,
    /// A slot has been read out.
    pub(super) returns: Signal<'a>,
    pub(super) returned: Signal<'a>,
    /// The end of a message of mrc was told.
    pub(super) retired: Signal<'a>,
}

impl<'a> ReadOut<'a> {
    /// Wires, for who is built before.
    pub(super) fn wires(m: Module<'a>, sizes: &Sizes) -> Self {
        let wire = |name: &str, width| m.wire(&format!("read_out_{name}"), width);
        Self {
            busy: wire("busy", 1),
            leaves: wire("leaves", 1),
            mark: wire("mark", 1),
            needs: wire("needs", 1),
            ends_group: wire("ends_group", 1),
            ends: wire("ends", 1),
            starved: wire("starved", 1),
            index: wire("index", sizes.qpn_bits),
            space: wire("space", 1),
            psn: wire("psn", 24),
            returns: wire("returns", 1),
            returned: wire("returned", sizes.slot_bits),
            retired: wire("retired", 1),
        }
    }

    fn signals(&self) -> [Signal<'a>; 13] {
        [
            self.busy,
            self.leaves,
            self.mark,
            self.needs,
            self.ends_group,
            self.ends,
            self.starved,
            self.index,
            self.space,
            self.psn,
            self.returns,
            self.returned,
            self.retired,
        ]
    }

    /// Drives wires.
    pub(super) fn set(&self, facts: &Self) {
        for (wire, fact) in self.signals().into_iter().zip(facts.signals()) {
            wire.set(fact);
        }
    }

    /// Nothing is ever read out.
    pub(super) fn never(&self) {
        for wire in self.signals() {
            wire.set(wire.lit(0));
            wire.ignore();
        }
    }
}

/// Beats between the entry and the port: those that the RAMs give, and those that wait.
const READ: u32 = 16;

/// Builds the read-out of the entries: the entry until its payload is in its slot, the entry with the number of its beat, what the RAMs read of
/// it, registers behind them, and a queue. A beat is read only if the queue has room for it, so that from the RAMs on, which lie all over a
/// device, nothing waits and nothing needs an enable. `taken` is driven: the entry is taken.
pub(super) fn read_out<'a>(
    m: Module<'a>,
    sizes: &Sizes,
    (valid, entry, taken): (Signal<'a>, Entry<'a>, Signal<'a>),
    on_bus: Option<OnBus<'a>>,
    storing: &Storing<'a>,
    blocked: Signal<'a>,
) -> (Leaving<'a>, ReadOut<'a>) {
    let stage = |name: &str, ahead: Signal<'a>| {
        let valid = m.reg(&format!("{name}_valid"), 1).reset(0);
        let free = (!valid | ahead).named(&format!("{name}_free"));
        (valid, free)
    };
    let hold = |enable: Signal<'a>, signal: Signal<'a>, name: &str| {
        let register = m.reg(name, signal.width());
        m.when(enable, || register.set(signal));
        register
    };
    let fires = m.wire("read_out_fires", 1);
    let goes = m.wire("entry_goes", 1);
    let full = counted(m, "beats_read_out", goes, fires, READ);
    let last = m.reg("entry_last", 1).doc("its last beat");
    let (entry_valid, entry_free) = stage("entry", !full & last);
    goes.set(entry_valid & !full);
    let moves = m.wire("waiting_entry_moves", 1);
    let (waiting_valid, waiting_free) = stage("waiting_entry", moves);

    // Until its payload is in its slot. Another one stands behind it, so that the queue of entries need not know whether it moves on.
    let spare_valid = m.reg("spare_entry_valid", 1).reset(0);
    taken.set(valid & !spare_valid);
    let spare = hold(!spare_valid, entry.pack(sizes), "spare_entry");
    m.when(waiting_free, || waiting_valid.set(valid | spare_valid));
    spare_valid.set(!waiting_free & (valid | spare_valid));
    let next = spare_valid.mux(spare, entry.pack(sizes));
    let waiting = Entry::unpack(sizes, hold(waiting_free, next, "waiting_entry"));
    let waits = match on_bus {
        Some(on_bus) => on_bus.holds(waiting.map.number) & !waiting.retires & !waiting.mark,
        None => m.low(),
    };
    moves.set(entry_free & !waits);

    // A beat of it a clock.
    let first = m.reg("entry_first", 1);
    let beat = m.reg("entry_beat", sizes.beat_bits);
    let beats_left = m.reg("entry_beats_left", sizes.beat_bits);
    let has_payload = waiting.map.whole & !waiting.retires & !waiting.mark;
    let beats = waiting.map.beats.resize(sizes.beat_bits);
    m.when(entry_free, || {
        entry_valid.set(waiting_valid & !waits);
        first.set_lit(1);
        last.set(!has_payload | !beats.any());
        beat.set_lit(0);
        beats_left.set(beats);
    })
    .else_when(goes, || {
        first.set_lit(0);
        last.set(beats_left.eq_lit(1));
        beat.set(beat + beat.lit(1));
        beats_left.set(beats_left - beats_left.lit(1));
    });
    let has_payload = hold(entry_free, has_payload, "entry_has_payload");
    let packed = hold(entry_free, waiting.pack(sizes), "entry");
    let entry = Entry::unpack(sizes, packed);
    packed.ignore();

    // What is read, and the registers behind it.
    let follow = |signal: Signal<'a>, name: &str| {
        let reading = signal.delayed(&format!("reading_{name}"));
        reading.delayed(&format!("read_{name}"))
    };
    let reading_valid = goes.delayed("reading_valid").reset(0);
    let read_valid = reading_valid.delayed("read_valid").reset(0);
    let slot = entry.map.slot;
    let returns = (goes & last & !entry.retires & !entry.mark).named("read_to_its_end");
    let facts = [
        first,
        last,
        has_payload,
        entry.retires,
        entry.map.special,
        entry.map.special & !entry.retires & !entry.mark,
        entry.mark | (entry.retires & !entry.map.whole),
        entry.mark,
        entry.psn.part(0, GROUP_BITS).all(),
        entry.ends,
        entry.starved,
        entry.space,
        entry.psn,
        entry.index,
    ];
    let facts = follow(cat_lsb_first(&facts), "facts");
    let mut beats = vec![];
    let bus_bits = 8 * sizes.bus_bytes;
    if sizes.solar {
        let depth = sizes.slots * sizes.beats;
        let large = u64::from(depth) * u64::from(bus_bits) >= ULTRA_BITS;
        let style = if large { MemoryStyle::Ultra } else { MemoryStyle::Block };
        let pool = m.memory("pool", depth, bus_bits).style(style);
        // From registers: these RAMs lie all over a device. A packet is read two clocks behind its end on the bus at the earliest.
        let stores = storing.stores.delayed("stores_late").reset(0);
        let store_slot = storing.slot.delayed("store_slot");
        let store_place = cat(&[store_slot, storing.beat.delayed("store_beat")]);
        pool.write(stores, store_place, storing.data.delayed("store_data"));
        let data = pool.read(m.high(), cat(&[slot, beat])).delayed("read_data");
        // Beside the packet: the number of the last byte in its last beat.
        let byte_bits = index_width(sizes.bus_bytes.into());
        let length = kept_field(storing.kept, "payload_length").part(0, byte_bits);
        let packets = m.memory("packets", sizes.slots, kept_bits() + byte_bits);
        let word = cat(&[length - length.lit(1), storing.kept]).delayed("store_packet");
        packets.write(stores, store_slot, word);
        let word = packets.read(m.high(), slot).delayed("read_packet");
        let keep = keep_of(word.part(kept_bits(), byte_bits), facts.bit(1));
        beats = vec![word.part(0, kept_bits()), keep, data];
    } else {
        storing.ignore();
        beat.ignore();
    }
    // What chooses has a queue of its own, so that the address of the wide one, which goes to hundreds of RAMs, is in no path of a choice.
    let (read_there, read_first) = registered_queue(m, "read_facts", READ, (read_valid, facts), fires);
    let beats =
        (!beats.is_empty()).then(|| queue(m, "read_beats", READ, (read_valid, cat_lsb_first(&beats)), fires).word);

    // The port's choice.
    let mut low = 0;
    let mut next = |width: u32| {
        low += width;
        read_first.part(low - width, width)
    };
    let [first, last, has_payload, retires, special, needs, silent, mark] = [(); 8].map(|()| next(1));
    let [ends_group, ends, starved, space] = [(); 4].map(|()| next(1));
    let (psn, index) = (next(24), next(sizes.qpn_bits));
    let retired = {
        let opcode = special.mux(
            m.lit(Opcode::MRC_WRITE_LAST_IMMEDIATE.0, 8),
            m.lit(Opcode::MRC_WRITE_LAST.0, 8),
        );
        Fields::build::<SequencedPacket>(|name, width| match name {
            "qpn" => index.zero_extend(24),
            "opcode" => opcode,
            "psn" => psn,
            "profile" => m.lit(Profile::Mrc.code(), 2),
            "retired" => m.high(),
            _ => m.lit(0, width),
        })
        .pack()
    };
    let (descriptor, keep, data) = match beats {
        Some(beats) => {
            let given = describe(m, beats.part(0, kept_bits()), m.low()).pack();
            let keep = beats.part(kept_bits(), sizes.bus_bytes);
            let data = beats.part(kept_bits() + sizes.bus_bytes, bus_bits);
            (retires.mux(retired, given), keep, data)
        }
        None => (retired, m.lit(0, sizes.bus_bytes), m.lit(0, bus_bits)),
    };
    // A mark, and a packet of mrc that ends no message, leave without a trace.
    let may = (read_there & !blocked).named("read_out_may_leave");
    let leaving = Leaving {
        valid: may & !silent,
        first,
        last,
        has_payload,
        descriptor,
        data,
        keep,
        fires: m.wire("reading_fires", 1),
    };
    fires.set(leaving.fires | (may & silent));
    let facts = ReadOut {
        busy: spare_valid | waiting_valid | entry_valid | reading_valid | read_valid | read_there,
        leaves: fires & last,
        mark,
        needs,
        ends_group,
        ends,
        starved,
        index,
        space,
        psn,
        returns,
        returned: slot.resize(sizes.slot_bits),
        retired: leaving.fires & retires,
    };
    (leaving, facts)
}
