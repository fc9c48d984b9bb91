//! `reorder_buffer`: gives each packet of a sequence space once, and in PSN order where the profile wants it.
//!
//! Everything that touches a window is an operation of one pipeline that never stalls, one a clock: packets, credits, context writes, and what
//! moves a window on. Payload never waits in it: the decision sends it past the pool, into a slot or nowhere. It never looks into payload and
//! makes no answer. Theory of operation: `docs/src/blocks/reorder_buffer.md`.

mod bus;
mod context;
mod decide;
mod entry;
mod issue;
mod kept;
mod op;
mod port;
mod queue;
mod report;
mod sizes;
mod slots;
mod turn;

use crate::counter::{Counter, count_when};
use crate::fields::Fields;
use crate::skid_buffer;
use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    Descriptor, PacketContext, QueuePairContext, ReceivedPacket, SequenceOutcome, SequenceReport, SequencedPacket,
};
use spraynic_rtl::{AxiStream, Bundle, Context, Definition, Module, Signal, Stream, cat, cat_lsb_first};
use spraynic_wire::{HeaderKind, Opcode};

use bus::{OnBus, bus};
use context::{ContextWires, context_writer};
use decide::decide;
use entry::{Map, MapEntry, map_address};
use issue::{Requests, is_one_of, issue};
use kept::keep;
use port::port;
use queue::{counted, queue};
use report::{Findings, report};
use sizes::{Sizes, Sweep};
use slots::{ReadOut, free_slots, read_out};
use turn::{TurnWires, turns};

/// Clocks from the edge that takes a descriptor to the edge at which its report is offered, where nothing waits.
pub const REPORT_LATENCY: u64 = 8;
/// The same for a packet that passes by the pool, if its payload is there.
pub const PASS_LATENCY: u64 = 6;
/// Packets between their descriptor and their report.
const REPORTS: u32 = 16;
/// Free slots that suffice for the packets in the pipeline.
const SLOTS_IN_FLIGHT: u64 = 8;

/// Kinds of the events of `m_axis_event`.
pub mod observed {
    /// The next packet of `s_axis_descriptor` was decided.
    pub const PACKET: u8 = 0;
    /// The next write of `s_axis_context` took effect.
    pub const CONTEXT: u8 = 1;
    /// So many credits of the queue pair were added.
    pub const CREDIT: u8 = 2;
    /// The window moved on by so many PSNs.
    pub const RELEASE: u8 = 3;
}

/// The block for this configuration.
#[must_use]
pub fn reorder_buffer<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let sizes = Sizes::new(config);
    let m = context.module(&format!(
        "reorder_buffer_w{}_qp{}_win{}_s{}",
        8 * sizes.bus_bytes,
        sizes.queue_pairs,
        sizes.window,
        sizes.slots
    ));
    m.doc("Gives each packet of a sequence space once, in PSN order where the profile wants it (solar), from a pool of slots\nin block RAM; packets that are next pass by the pool. Reports each packet's fate and what its window looks like.");
    let descriptors = Stream::slave(
        m,
        "s_axis_descriptor",
        ReceivedPacket::width() + PacketContext::width(),
        "ReceivedPacket, PacketContext above it: see descriptors",
    );
    let bus_bits = 8 * sizes.bus_bytes;
    let payload = AxiStream::slave(
        m,
        "s_axis_payload",
        bus_bits,
        1,
        "payload, a packet for each descriptor that has some",
    );
    let contexts = Stream::slave(
        m,
        "s_axis_context",
        QueuePairContext::width(),
        "QueuePairContext: accepted when it is done",
    );
    let credits = Stream::slave(m, "s_axis_credit", 24, "QPN: one receive request more");
    let out = Stream::master(
        m,
        "m_axis",
        SequencedPacket::width(),
        "SequencedPacket: see descriptors",
    );
    let out_payload = AxiStream::master(
        m,
        "m_axis_payload",
        bus_bits,
        1,
        "payload, a packet for each descriptor that has some",
    );
    let reports = Stream::master(
        m,
        "m_axis_report",
        SequenceReport::width(),
        "SequenceReport: see descriptors",
    );

    let largest = sizes.windows().max(sizes.rows() * sizes.groups());
    let sweep = Sweep::new(m, largest);
    let credits = skid_buffer::register(m, "u_credit", credits);

    // Who may enter: what is on the bus, and what is to be reported, has its place.
    let arrival_done = m.wire("packet_done", 1);
    let packet_taken = m.wire("packet_enters", 1);
    let bus_full = counted(m, "packets_on_bus", packet_taken, arrival_done, bus::ARRIVALS);
    let reports_full = counted(m, "packets_to_report", packet_taken, reports.fires(), REPORTS);
    let slots_suffice = m.wire("slots_suffice", 1);
    let room = (!bus_full & !reports_full & slots_suffice).named("room");

    let context_wires = ContextWires::new(m, &sizes);
    let turn_wires = TurnWires::new(m, &sizes);
    let requests = Requests {
        context: context_wires.context,
        context_fields: context_wires.fields,
        advance: turn_wires.advance,
        advance_fields: turn_wires.fields,
        scan: turn_wires.scan,
        walk: context_wires.walk,
    };
    let issued = issue(m, &sizes, descriptors, credits, &requests, room, sweep.active);
    packet_taken.set(issued.packet);
    for field in ReceivedPacket::FIELDS {
        issued.received.get(field.name).ignore();
    }
    for field in PacketContext::FIELDS {
        issued.context.get(field.name).ignore();
    }
    let decision = decide(m, &sizes, issued.op, &sweep);
    let reported = report(m, &sizes, &decision, &sweep);

    // The report: facts of the packet, and what was found.
    let facts = facts_of(&issued.received, &issued.context).pack();
    let facts = queue(m, "facts", REPORTS, (issued.packet, facts), reports.fires());
    let found = queue(
        m,
        "findings",
        REPORTS,
        (reported.valid, reported.findings.pack()),
        reports.fires(),
    );
    let findings = Findings::unpack(found.word);
    m.assert("what_is_found_has_its_facts", !found.valid | facts.valid);
    reports.valid.set(found.valid);
    let report = [
        ("outcome", findings.outcome),
        ("cumulative", findings.cumulative),
        ("beyond_gap", findings.beyond_gap),
        ("far", findings.far),
        ("near", findings.near),
        ("bitmap", findings.bitmap),
    ];
    let facts = Fields::unpack::<SequenceReport>(facts.word);
    for (name, _) in report {
        facts.get(name).ignore();
    }
    let report = report
        .into_iter()
        .fold(facts, |report, (name, value)| report.with(name, value));
    reports.data.set(report.pack());

    // Turns, slots and the bus, which need each other.
    let kept = keep(&issued.received, &issued.context);
    let at_4 = decision.at_4;
    let of_slots = ReadOut::wires(m, &sizes);
    let returns = m.wire("slot_returns", 1);
    let returned = m.wire("slot_returned", sizes.slot_bits);
    let (slot_4, free_count) = if sizes.solar {
        let free = free_slots(m, &sizes, at_4.stored, (returns, returned));
        (free.offered.named("slot_4"), Some(free.count))
    } else {
        returns.ignore();
        returned.ignore();
        (m.lit(0, 1), None)
    };
    let bus = bus(m, &sizes, payload, (issued.packet, kept), &decision, slot_4);
    arrival_done.set(bus.done);
    let turns_idle = m.wire("no_turns", 1);
    let writer = context_writer(m, &sizes, contexts, &context_wires, &decision, turns_idle, sweep.active);
    let mut leaving = None;
    let mut walk_slot = m.lit(0, sizes.slot_bits);
    if sizes.has_rows() {
        let map = Map::new(m, &sizes);
        let op_4 = decision.op_4;
        let mrc = if sizes.mrc {
            decide::Window::unpack(at_4.window)
                .profile
                .eq_lit(spraynic_config::Profile::Mrc.code())
        } else {
            m.low()
        };
        let number = m
            .reg("packet_number", bus::NUMBER_BITS)
            .reset(0)
            .doc("number of the packet in clock 4");
        number.ignore();
        m.when(op_4.valid & op_4.packet, || number.set(number + number.lit(1)));
        let stored = MapEntry {
            special: op_4.needs,
            whole: mrc.mux(op_4.ends, op_4.has_payload),
            beats: op_4.beats,
            slot: slot_4,
            number,
        };
        map.write(
            at_4.keeps,
            map_address(&sizes, op_4.space, op_4.index, op_4.psn),
            stored.pack(&sizes),
        );
        let read = m.wire("map_read", 1);
        let address = m.wire("map_read_address", map.address_width());
        let reads = read.delayed("map_reads").reset(0);
        let word = map.read(reads, address.delayed("map_address"));
        let turns = turns(
            m,
            &sizes,
            &turn_wires,
            &decision,
            reported.reach,
            writer.hold,
            word,
            of_slots,
            arrival_done,
            &sweep,
        );
        let walks = writer.map_read;
        read.set(walks | turns.map_read);
        address.set(walks.mux(
            map_address(&sizes, writer.map_space, writer.map_index, writer.map_psn),
            map_address(&sizes, turns.map_space, turns.map_index, turns.map_psn),
        ));
        m.assert("one_reader_of_the_map", !(walks & turns.map_read));
        turns_idle.set(turns.idle);
        let on_bus = sizes
            .solar
            .then(|| OnBus::new(m, op_4.valid & op_4.packet, number, arrival_done));
        let entry = (turns.entry_valid, turns.entry, turns.entry_taken);
        let (out_of_slots, of_read_out) = read_out(m, &sizes, entry, on_bus, &bus.storing, turns.blocked);
        of_slots.set(&of_read_out);
        leaving = Some(out_of_slots);
        if sizes.solar {
            walk_slot = MapEntry::unpack(&sizes, word).slot;
        }
    } else {
        turn_wires.never(m);
        of_slots.never();
        bus.storing.ignore();
        turns_idle.set_lit(1);
        for unused in [
            writer.hold,
            writer.map_read,
            writer.map_space,
            writer.map_psn,
            writer.map_index,
        ] {
            unused.ignore();
        }
    }
    port(m, &sizes, (out, out_payload), bus.passing, leaving);
    // From registers; the account hears of these slots later still.
    returns.set((writer.frees | of_slots.returns).delayed("slot_returns_late").reset(0));
    let slot = writer.frees.mux(walk_slot, of_slots.returned);
    returned.set(slot.delayed("slot_returned_late"));
    if let Some(count) = free_count {
        let _ = m.output_of("free_slots", count).doc("slots that hold no packet");
    }
    let suffices = match free_count {
        Some(count) => !writer.account_ahead | count.ge(count.lit(SLOTS_IN_FLIGHT)),
        None => m.high(),
    };
    if free_count.is_none() {
        writer.account_ahead.ignore();
    }
    slots_suffice.set(suffices.delayed("slots_sufficed").reset(0));

    observe(m, &decision);
    count(m, &sizes, &decision, of_slots.retired, writer.frees);
    m.finish()
}

/// What the report says of the packet itself; the rest is zero.
fn facts_of<'a>(received: &Fields<'a>, context: &Fields<'a>) -> Fields<'a> {
    let opcode = received.get("opcode");
    let has_time_stamp = is_one_of(opcode, |opcode: Opcode| {
        opcode.info().is_some_and(|info| info.has(HeaderKind::Tseth))
    });
    let extension = received.get("extension");
    let stamp = cat(&[extension.part(32, 8), extension.part(40, 8)]);
    let stamped = has_time_stamp & received.get("timestamped") & received.get("extension_words").any();
    Fields::build::<SequenceReport>(|name, width| match name {
        "qpn" | "opcode" | "psn" | "payload_length" | "ecn" | "ack_request" | "retransmission" => received.get(name),
        "profile" | "space" => context.get(name),
        "entropy" => cat(&[received.get("flow_label").part(16, 4), received.get("udp_source_port")]),
        "time_stamp" => stamp.gate(stamped),
        _ => opcode.lit(0).resize(width.max(1)),
    })
}

/// Bits of an event: QPN 24, kind 2, space 1, count 6, zero up to 40.
pub const EVENT_BITS: u32 = 40;

/// The order of events, for a model that follows it: a stream that does not wait.
fn observe<'a>(m: Module<'a>, decision: &decide::Decision<'a>) {
    let events = Stream::master(
        m,
        "m_axis_event",
        EVENT_BITS,
        "what took effect, in order: QPN (24 bits), kind (2: 0 packet, 1 context write, 2 credits, 3 a window moved on), space (1), count of credits or PSNs (6); tready is not looked at",
    );
    let op = decision.op_4;
    let is_context = (op.open | op.close) & op.first;
    let releases = op.advance & op.amount.any();
    events
        .valid
        .set(op.valid & (op.packet | op.credit | is_context | releases));
    let kind = |code: u8, of: Signal<'a>| m.lit(code, 2).gate(of);
    let kind =
        kind(observed::CONTEXT, is_context) | kind(observed::CREDIT, op.credit) | kind(observed::RELEASE, op.advance);
    let count = op.advance.mux(op.amount, op.credits);
    let event = cat_lsb_first(&[op.index.zero_extend(24), kind, op.space, count]);
    events.data.set(event.zero_extend(EVENT_BITS));
    events.ready.ignore();
}

fn count<'a>(m: Module<'a>, sizes: &Sizes, decision: &decide::Decision<'a>, retired: Signal<'a>, flushed: Signal<'a>) {
    use SequenceOutcome as O;
    let (op, at) = (decision.op_4, decision.at_4);
    let packet = op.valid & op.packet;
    let counted: [(&str, &str, &[O]); 9] = [
        ("passed", "packets given at once", &[O::Passed]),
        ("stored", "packets put into a slot", &[O::Stored]),
        ("duplicates", "packets received before", &[O::Duplicate]),
        (
            "drop_closed",
            "packets refused: the queue pair does not receive",
            &[O::Closed],
        ),
        (
            "drop_out_of_window",
            "packets refused: beyond the window",
            &[O::OutOfWindow],
        ),
        (
            "drop_trimmed",
            "packets refused: trimmed",
            &[O::Trimmed, O::TrimmedLastHop],
        ),
        (
            "drop_no_slot",
            "packets refused: no slot is free for the queue pair",
            &[O::NoSlot],
        ),
        (
            "drop_not_ready",
            "packets refused: no receive request, and nothing is kept",
            &[O::NotReady],
        ),
        (
            "drop_sequence",
            "roce: packets behind a gap",
            &[O::SequenceFirst, O::Sequence],
        ),
    ];
    for (name, doc, outcomes) in counted {
        let event = outcomes
            .iter()
            .fold(m.low(), |any, outcome| any | at.outcome.eq_lit(*outcome as u8));
        count_when(m, Counter(name, doc), packet & event);
    }
    let profile = decide::Window::unpack(at.window).profile;
    let solar = if sizes.solar {
        profile.eq_lit(spraynic_config::Profile::Solar.code())
    } else {
        m.low()
    };
    let released = m.reg("counted_released", 32).reset(0);
    let amount = op.amount.gate(op.valid & op.advance & solar).zero_extend(32);
    released.set(released + amount);
    let _ = m.output_of("count_released", released).doc("packets given from a slot");
    count_when(m, Counter("retired", "mrc: ends of messages told"), retired);
    count_when(
        m,
        Counter("flushed", "packets in slots whose queue pair was closed"),
        if sizes.solar { flushed } else { m.low() },
    );
    flushed.ignore();
}
