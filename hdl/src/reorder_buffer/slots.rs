//! Slots and the bus: payload goes past the pool, into a slot or nowhere, as was decided for its packet; slots are read out at a beat a clock
//! while the next packets are written; both leave through one port, a packet at a time, in turn.

use super::decide::Decision;
use super::sizes::{GROUP_BITS, Sizes};
use super::turn::{Entry, queue};
use crate::fields::Fields;
use crate::stream_fifo;
use spraynic_config::Profile;
use spraynic_config::descriptor::{Descriptor, SequencedPacket};
use spraynic_rtl::{AxiStream, Bundle, MemoryStyle, Module, Signal, Stream, bundle, cat, cat_lsb_first, index_width};
use spraynic_wire::Opcode;

/// Packets between `s_axis_descriptor` and the end of their payload.
pub(super) const ARRIVALS: u32 = 16;
/// Payload of the pool from which on it is meant for URAM, in bits: 32 of them.
const ULTRA_BITS: u64 = 32 * 288 * 1024;

/// Fields of a `SequencedPacket` that come from the packet: what waits beside its payload.
const KEPT: [&str; 16] = [
    "qpn",
    "opcode",
    "psn",
    "profile",
    "space",
    "solicited",
    "ack_request",
    "timestamped",
    "protection_domain",
    "mtu",
    "remote_write",
    "remote_read",
    "remote_atomic",
    "payload_length",
    "entropy",
    "extension",
];

fn kept_width(name: &str) -> u32 {
    let field = SequencedPacket::FIELDS.iter().find(|field| field.name == name);
    field.map_or(0, |field| field.width)
}

/// Bits of what waits beside the payload.
fn kept_bits() -> u32 {
    KEPT.iter().map(|name| kept_width(name)).sum()
}

/// What of a packet waits beside its payload.
pub(super) fn keep<'a>(received: &Fields<'a>, context: &Fields<'a>) -> Signal<'a> {
    let fields = KEPT.map(|name| match name {
        "profile" | "space" | "protection_domain" | "mtu" | "remote_write" | "remote_read" | "remote_atomic" => {
            context.get(name)
        }
        "entropy" => cat(&[received.get("flow_label").part(16, 4), received.get("udp_source_port")]),
        "extension" => received.get("extension").part(0, kept_width("extension")),
        _ => received.get(name),
    });
    cat_lsb_first(&fields)
}

fn kept_field<'a>(kept: Signal<'a>, wanted: &str) -> Signal<'a> {
    let mut low = 0;
    for name in KEPT {
        if name == wanted {
            return kept.part(low, kept_width(name));
        }
        low += kept_width(name);
    }
    kept.module().lit(0, kept_width(wanted).max(1))
}

/// `tkeep` of a beat: all bytes but in the last one, where `last_byte` is the number of the last. In two parts, of few levels each.
fn keep_of<'a>(last_byte: Signal<'a>, last: Signal<'a>) -> Signal<'a> {
    let low_bits = last_byte.width() / 2;
    let (high, low) = (last_byte >> low_bits, last_byte.part(0, low_bits));
    let bytes: Vec<_> = (0..1u32 << last_byte.width())
        .map(|byte| {
            let (of_high, of_low) = (byte >> low_bits, byte & ((1 << low_bits) - 1));
            let beyond = !last | high.gt(high.lit(of_high));
            beyond | (high.eq(high.lit(of_high)) & low.ge(low.lit(of_low)))
        })
        .collect();
    cat_lsb_first(&bytes)
}

/// The descriptor as it is given.
fn describe<'a>(m: Module<'a>, kept: Signal<'a>, duplicate: Signal<'a>) -> Fields<'a> {
    Fields::build::<SequencedPacket>(|name, width| match name {
        "duplicate" => duplicate,
        _ if KEPT.contains(&name) => kept_field(kept, name),
        _ => m.lit(0, width),
    })
}

bundle! {
    /// What was decided of a packet that is on the bus.
    struct Disposition {
        passes: 1, "it is given from the bus";
        stores: 1, "it goes into a slot";
        duplicate: 1, "given as a duplicate";
    }
}

/// The list of free slots: those that were never used first, then those that came back, in order.
pub(super) struct FreeSlots<'a> {
    /// The slot that the next packet takes, in clock 3.
    pub(super) offered: Signal<'a>,
    /// How many there are.
    pub(super) count: Signal<'a>,
}

/// Builds the list; `takes` in clock 3.
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

/// What the bus and the slots give.
pub(super) struct Bus<'a> {
    /// The entry was taken; the read-out holds one.
    pub(super) takes: Signal<'a>,
    pub(super) busy: Signal<'a>,
    pub(super) leaves: Signal<'a>,
    pub(super) leaves_needs: Signal<'a>,
    pub(super) leaves_ends_group: Signal<'a>,
    pub(super) arrival_done: Signal<'a>,
    /// A slot has been read out.
    pub(super) returns: Signal<'a>,
    pub(super) returned: Signal<'a>,
    /// The end of a message of mrc was told.
    pub(super) retired: Signal<'a>,
}

/// A packet, or a beat of one, that wants to leave.
struct Leaving<'a> {
    valid: Signal<'a>,
    first: Signal<'a>,
    last: Signal<'a>,
    has_payload: Signal<'a>,
    descriptor: Signal<'a>,
    beat: Signal<'a>,
    fires: Signal<'a>,
}

/// Builds payload's ways. `taken`: a packet was taken, `kept` beside its payload; `slot_4` is the slot of a packet that is stored.
#[expect(clippy::too_many_arguments, reason = "each is another part of the block")]
pub(super) fn bus<'a>(
    m: Module<'a>,
    sizes: &Sizes,
    payload: AxiStream<'a>,
    (out, out_payload): (Stream<'a>, AxiStream<'a>),
    (taken, kept): (Signal<'a>, Signal<'a>),
    decision: &Decision<'a>,
    slot_4: Signal<'a>,
    entry: Option<Entry<'a>>,
    blocked: Signal<'a>,
) -> Bus<'a> {
    payload.user.ignore();
    let done = m.wire("arrival_done", 1);
    // The packet, its decision and its payload meet here.
    let waiting = Stream::wires(m, "arrival", kept_bits());
    waiting.valid.set(taken);
    waiting.data.set(kept);
    m.assert("arrivals_have_room", !taken | waiting.ready);
    let arrival = stream_fifo::buffer(m, "u_arrivals", waiting, ARRIVALS);
    let at_4 = &decision.at_4;
    let decided = Disposition {
        passes: at_4.gives,
        stores: at_4.stored,
        duplicate: at_4.duplicate,
    };
    let word = cat_lsb_first(&[decided.pack(), slot_4]);
    let push = decision.op_4.valid & decision.op_4.packet;
    let (is_decided, word) = queue(m, "dispositions", ARRIVALS, (push, word), done);
    let disposition = Disposition::unpack(word.part(0, Disposition::packed_width()));
    let slot = word.part(Disposition::packed_width(), slot_4.width());
    let there = (is_decided & arrival.valid).named("arrival_decided");
    let has_payload = kept_field(arrival.data, "payload_length").any();
    let beat_there = !has_payload | payload.valid;
    let ends = !has_payload | payload.last;
    let beat_number = m.reg("arrival_beat", sizes.beat_bits).reset(0);
    beat_number.ignore();
    let begins = m
        .reg("arrival_begins", 1)
        .reset(1)
        .doc("the next beat is its packet's first");

    let bus_bits = 8 * sizes.bus_bytes;
    let beat_of = |data: Signal<'a>, keep: Signal<'a>, last: Signal<'a>| cat_lsb_first(&[data, keep, last]);
    let passing = Leaving {
        valid: there & disposition.passes & beat_there,
        first: begins,
        last: ends,
        has_payload,
        descriptor: describe(m, arrival.data, disposition.duplicate).pack(),
        beat: beat_of(payload.data, payload.keep, payload.last),
        fires: m.wire("passing_fires", 1),
    };
    let elsewhere = (there & !disposition.passes & beat_there).named("arrival_not_given");
    let moves = (elsewhere | passing.fires).named("arrival_moves");
    done.set(moves & ends);
    payload.ready.set(moves & has_payload);
    arrival.ready.set(done);
    m.when(moves, || {
        begins.set(ends);
        beat_number.set((beat_number + beat_number.lit(1)).gate(!ends));
    });

    // The read-out.
    let (read, busy, bus) = match entry {
        None => {
            slot.ignore();
            blocked.ignore();
            let none = m.low();
            (None, none, None)
        }
        Some(entry) => {
            let stored = elsewhere & disposition.stores;
            let stores_beat = (stored & has_payload).named("stores_beat");
            stores_beat.ignore();
            let busy = m.reg("read_out_valid", 1).reset(0);
            let fires = m.wire("reading_fires", 1);
            let free = (!busy | fires).named("read_out_free");
            let beat = m.reg("read_beat", sizes.beat_bits).reset(0);
            let payload_follows = entry.map.whole & !entry.retires;
            let is_last = !payload_follows | beat.eq(entry.map.beats.resize(sizes.beat_bits));
            // Only the first beat waits: later ones hold the port, for which a packet on the bus may wait.
            let there = entry.valid & (beat.any() | !entry.on_bus);
            let goes = (there & free).named("read_out_goes");
            m.when(goes, || beat.set((beat + beat.lit(1)).gate(!is_last)));
            m.when(free, || busy.set(there));
            let held = |signal: Signal<'a>, name: &str| {
                let register = m.reg(name, signal.width());
                m.when(goes, || register.set(signal));
                register
            };
            let first = held(!beat.any(), "read_first");
            let last = held(is_last, "read_last");
            let has_payload = held(payload_follows, "read_has_payload");
            let retires = held(entry.retires, "read_retires");
            let special = held(entry.map.special, "read_special");
            let whole = held(entry.map.whole, "read_whole");
            let psn = held(entry.psn, "read_psn");
            let index = held(entry.index, "read_index");

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
            let (descriptor, beat) = if sizes.solar {
                let depth = sizes.slots * sizes.beats;
                let large = u64::from(depth) * u64::from(bus_bits) >= ULTRA_BITS;
                let style = if large { MemoryStyle::Ultra } else { MemoryStyle::Block };
                let pool = m.memory("pool", depth, bus_bits).style(style);
                let address = |slot: Signal<'a>, beat: Signal<'a>| cat(&[slot, beat]);
                pool.write(stores_beat, address(slot, beat_number), payload.data);
                let data = pool.read(goes & payload_follows, address(entry.map.slot, beat));
                // Beside the packet: the number of the last byte in its last beat.
                let byte_bits = index_width(sizes.bus_bytes.into());
                let length = kept_field(arrival.data, "payload_length").part(0, byte_bits);
                let packets = m.memory("packets", sizes.slots, kept_bits() + byte_bits);
                let word = cat(&[length - length.lit(1), arrival.data]);
                packets.write(stored & begins, slot, word);
                let word = packets.read(goes & !beat.any(), entry.map.slot);
                let kept = word.part(0, kept_bits());
                let last_byte = word.part(kept_bits(), byte_bits);
                let keep = keep_of(last_byte, last);
                let given = describe(m, kept, m.low()).pack();
                (retires.mux(retired, given), beat_of(data, keep, last))
            } else {
                slot.ignore();
                stored.ignore();
                (retired, m.lit(0, bus_bits + sizes.bus_bytes + 1))
            };
            // A packet of mrc that ends no message leaves without a trace.
            let silent = (busy & retires & !whole & !blocked).named("retires_silently");
            let leaving = Leaving {
                valid: busy & !(retires & !whole) & !blocked,
                first,
                last,
                has_payload,
                descriptor,
                beat,
                fires: m.wire("reading_gives", 1),
            };
            fires.set(leaving.fires | silent);
            let ends_group = psn.part(0, GROUP_BITS).all();
            let facts = (
                goes & is_last,
                fires & last,
                special,
                ends_group,
                goes & is_last & !entry.retires,
                entry.map.slot,
                leaving.fires & retires,
            );
            (Some(leaving), busy, Some(facts))
        }
    };

    // One port, a packet at a time, in turn.
    let out_valid = m.reg("out_valid", 1).reset(0);
    let out_word = m.reg("out_word", SequencedPacket::width());
    let beat_valid = m.reg("beat_valid", 1).reset(0);
    let beat_word = m.reg("beat_word", bus_bits + sizes.bus_bytes + 1);
    let word_free = (!out_valid | out.ready).named("out_free");
    let beat_free = (!beat_valid | out_payload.ready).named("beat_free");
    let can = |leaving: &Leaving<'a>| leaving.valid & (!leaving.first | word_free) & (!leaving.has_payload | beat_free);
    let (word, beat, begins_out, has_beat) = match &read {
        None => {
            passing.fires.set(can(&passing));
            (
                passing.descriptor,
                passing.beat,
                passing.fires & passing.first,
                passing.fires & passing.has_payload,
            )
        }
        Some(read) => {
            let inside = m.reg("inside_packet", 1).reset(0).doc("a packet has begun to leave");
            let reads = m
                .reg("reads", 1)
                .reset(0)
                .doc("it comes from a slot; or the last one did");
            // Whether the packet on the bus waited is a clock old, so that the read-out does not depend on its decision.
            let waited = m.wire("passing_waits", 1);
            let passing_waited = waited.delayed("passing_waited").reset(0);
            let read_turn = inside
                .mux(reads, read.valid & !(reads & passing_waited))
                .named("read_has_the_port");
            passing.fires.set(can(&passing) & !read_turn);
            read.fires.set(can(read) & read_turn);
            waited.set(passing.valid & !passing.fires);
            m.when(passing.fires, || {
                inside.set(!passing.last);
                reads.set_lit(0);
            })
            .else_when(read.fires, || {
                inside.set(!read.last);
                reads.set_lit(1);
            });
            (
                read_turn.mux(read.descriptor, passing.descriptor),
                read_turn.mux(read.beat, passing.beat),
                (passing.fires & passing.first) | (read.fires & read.first),
                (passing.fires & passing.has_payload) | (read.fires & read.has_payload),
            )
        }
    };
    m.when(word_free, || out_valid.set(begins_out));
    m.when(begins_out, || out_word.set(word));
    m.when(beat_free, || beat_valid.set(has_beat));
    m.when(has_beat, || beat_word.set(beat));
    out.valid.set(out_valid);
    out.data.set(out_word);
    out_payload.valid.set(beat_valid);
    out_payload.data.set(beat_word.part(0, bus_bits));
    out_payload.keep.set(beat_word.part(bus_bits, sizes.bus_bytes));
    out_payload.last.set(beat_word.msb());
    out_payload.user.set_lit(0);

    let none = || (m.low(), m.low(), m.low(), m.low(), m.low(), m.lit(0, 1), m.low());
    let (takes, leaves, leaves_needs, leaves_ends_group, returns, returned, retired) = bus.unwrap_or_else(none);
    Bus {
        takes,
        busy,
        leaves,
        leaves_needs,
        leaves_ends_group,
        arrival_done: done,
        returns,
        returned,
        retired,
    }
}
