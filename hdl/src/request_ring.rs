//! `request_ring`: work requests from rings in memory. A doorbell says how far a ring has been written; its entries are read in order and given on.
//!
//! It owns the rings' places and how far each has been read. It never looks into an entry but for the queue pair, which is that of the ring.
//! Writes, doorbells and turns are operations on one table, one each four clocks. Theory of operation: `docs/src/blocks/request_ring.md`.

mod entries;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Descriptor, Doorbell, PayloadRequest, RequestRing, RingProgress, WorkRequest};
use spraynic_rtl::{
    AxiStream, Bundle, Context, Definition, Module, ReadDuringWrite, Signal, Stream, bundle, cat_lsb_first,
};

use crate::counter::{Counter, count_when};
use crate::fields::Fields;
use crate::{stream_fifo, sweep};

/// Name of the block.
pub const NAME: &str = "request_ring";

/// Width of the bus to the rings: an entry takes eight beats.
pub const BUS_BITS: u32 = 64;

/// Reads that may be under way.
pub const READS: u32 = 4;

/// Bits of an address below those of an entry of 64 bytes.
const ENTRY_ADDRESS_BITS: u32 = 6;

/// Bits of the number of an entry, and of a producer index.
const INDEX_BITS: u32 = 16;

/// Bits of the largest number of entries of a ring, 2^15, and of what tells two indices apart.
const COUNT_BITS: u32 = INDEX_BITS + 1;

bundle! {
    /// What the table keeps of a ring.
    struct Ring {
        valid: 1, "there is a ring";
        base: 58, "address of entry 0, in units of 64 bytes";
        entries_log2: 4, "it has 2^entries_log2 entries";
        producer: 16, "entries written, as the last doorbell said";
        consumer: 16, "entries asked for";
        waits: 1, "the queue pair waits for its turn";
    }
}

bundle! {
    /// An operation, from the clock behind its beginning.
    struct Operation {
        writes: 1, "a ring is written";
        turn: 1, "a queue pair has its turn; neither: a doorbell";
        qpn: 24, "queue pair";
        valid: 1, "write: there is a ring";
        entries_log2: 4, "write: size";
        base: 64, "write: byte address of entry 0";
        producer: 16, "doorbell: entries written";
    }
}

/// The block for this configuration.
#[must_use]
pub fn request_ring<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let count = config.send_queue_pairs();
    let index_bits = count.trailing_zeros();
    let m = context.module(&format!("{NAME}_qp{count}"));
    m.doc(&format!(
        "Reads work requests from rings in memory as far as doorbells say, queue pair by queue pair in turn, an entry a turn.\n\
         As many as {READS} reads are under way; an operation on the table takes four clocks."
    ));
    let rings = Stream::slave(m, "s_axis_ring", RequestRing::width(), "RequestRing: a ring is written");
    let doorbells = Stream::slave(
        m,
        "s_axis_doorbell",
        Doorbell::width(),
        "Doorbell: entries were written",
    );
    let reads = Stream::master(
        m,
        "m_axis_ring_read",
        PayloadRequest::width(),
        "PayloadRequest: an entry is to be read, 64 bytes within one burst",
    );
    let data = AxiStream::slave(
        m,
        "s_axis_ring_data",
        BUS_BITS,
        1,
        "a packet for each read, in order; tuser on the last beat, or another length than 64 bytes: memory refused it",
    );
    let requests = Stream::master(m, "m_axis", WorkRequest::width(), "WorkRequest: an entry");
    let progress = Stream::master(
        m,
        "m_axis_progress",
        RingProgress::width(),
        "event: RingProgress of the entry that leaves in this clock; tready is not looked at",
    );
    let turns = Stream::master(
        m,
        "m_axis_turn",
        24,
        "event: QPN of the turn that begins in this clock, for models that follow the order; tready is not looked at",
    );
    progress.ready.ignore();
    turns.ready.ignore();
    let sweep = sweep::after_reset(m, index_bits);

    // Clock 1 of an operation reads the RAM, clock 2 has the word in a register, clock 3 its distances; clock 3 also writes.
    let phase = |number: u32, doc: &str| m.reg(&format!("phase_{number}"), 1).reset(0).doc(doc);
    let phase_1 = phase(1, "the word of an operation comes out of the RAM");
    let phase_2 = phase(2, "an operation has its word");
    let phase_3 = phase(3, "an operation is judged, and its word written");
    let idle = !(phase_1 | phase_2 | phase_3 | sweep.active).named("table_is_busy");

    let waiting_in = Stream::wires(m, "waits", index_bits);
    let waiting = stream_fifo::buffer(m, "u_waiting", waiting_in, count.max(2));
    let in_flight = m
        .reg("reads_under_way", 3)
        .reset(0)
        .doc("turns whose entry has not left");
    let read_valid = m.reg("read_valid", 1).reset(0).doc("a read is offered");
    let turn_next = m
        .reg("turn_is_next", 1)
        .reset(0)
        .doc("a turn goes before a doorbell: the last operation was one");

    let write_begins = (idle & rings.valid & !in_flight.any()).named("write_begins");
    // While a write waits, no read begins that it would have to wait for.
    let may_turn = (waiting.valid & !in_flight.eq_lit(READS) & !read_valid & !rings.valid).named("turn_may_begin");
    let others = (idle & !write_begins).named("no_write_begins");
    let turn_begins = (others & may_turn & (turn_next | !doorbells.valid)).named("turn_begins");
    doorbells.ready.set(others & !(may_turn & turn_next));
    rings.ready.set(write_begins);
    waiting.ready.set(turn_begins);
    let begins = (write_begins | turn_begins | doorbells.fires()).named("operation_begins");
    phase_1.set(begins);
    phase_2.set(phase_1);
    phase_3.set(phase_2);
    m.when(begins, || turn_next.set(doorbells.fires()));
    turns.valid.set(turn_begins);
    turns.data.set(waiting.data.zero_extend(24));

    let ring = Fields::unpack::<RequestRing>(rings.data);
    let bell = Fields::unpack::<Doorbell>(doorbells.data);
    for unread in [ring.get("reserved_0"), bell.get("reserved_0"), bell.get("reserved_1")] {
        unread.ignore();
    }
    let operation = Operation::regs(m, "operation");
    let qpn = write_begins.mux(
        ring.get("qpn"),
        turn_begins.mux(waiting.data.zero_extend(24), bell.get("qpn")),
    );
    m.when(begins, || {
        operation.set(&Operation {
            writes: write_begins,
            turn: turn_begins,
            qpn,
            valid: ring.get("valid"),
            entries_log2: ring.get("entries_log2"),
            base: ring.get("base"),
            producer: bell.get("producer"),
        });
    });

    let table = m
        .memory("rings", count, Ring::packed_width())
        .read_during_write(ReadDuringWrite::DontCare);
    let word = m.reg("word", Ring::packed_width()).doc("the ring of the operation");
    word.set(table.read(begins, qpn.part(0, index_bits)));
    let judged = judge(m, &operation, Ring::unpack(word), index_bits);

    let index = operation.qpn.part(0, index_bits);
    table.write(
        sweep.active | (phase_3 & judged.keeps),
        sweep.active.mux(sweep.index, index),
        judged.next.pack().gate(!sweep.active),
    );
    let reads_entry = (phase_3 & judged.reads).named("entry_is_asked_for");
    let finds_nothing = (phase_3 & operation.turn & !judged.reads).named("turn_finds_nothing");
    waiting_in.valid.set(phase_3 & judged.joins);
    waiting_in.data.set(index);
    m.assert("there_is_room_for_all_who_wait", !waiting_in.valid | waiting_in.ready);
    waiting_in.ready.ignore();

    let request = m.reg("read_address", 64).doc("byte address of the entry to read");
    m.when(reads_entry, || request.set(judged.address));
    read_valid.set(reads_entry | (read_valid & !reads.ready));
    reads.valid.set(read_valid);
    let packed = Fields::build::<PayloadRequest>(|name, width| match name {
        "address" => request,
        "length" => m.lit(1u32 << ENTRY_ADDRESS_BITS, width),
        _ => m.lit(0, width),
    });
    reads.data.set(packed.pack());

    let orders = Stream::wires(m, "read_order", index_bits + INDEX_BITS);
    orders.valid.set(reads_entry);
    orders.data.set(cat_lsb_first(&[index, judged.consumer]));
    m.assert("there_is_room_for_all_reads", !orders.valid | orders.ready);
    orders.ready.ignore();
    let order = stream_fifo::buffer(m, "u_read_orders", orders, READS);
    let leaves = entries::entries(m, order, data, requests, progress);
    let fewer = (leaves | finds_nothing).named("read_ends");
    let both = (leaves & finds_nothing).named("two_reads_end");
    in_flight.set(in_flight + turn_begins.zero_extend(3) - fewer.zero_extend(3) - both.zero_extend(3));
    m.assert("reads_are_bounded", in_flight.le(in_flight.lit(READS)));

    for (name, doc, event) in judged.counters {
        count_when(m, Counter(name, doc), phase_3 & event);
    }
    m.finish()
}

/// What an operation makes of its ring, in its third clock.
struct Judged<'a> {
    next: Ring<'a>,
    /// There is such a ring: it is written.
    keeps: Signal<'a>,
    /// The queue pair is to wait for a turn, behind all others.
    joins: Signal<'a>,
    /// An entry is asked for, of this number and at this address.
    reads: Signal<'a>,
    consumer: Signal<'a>,
    address: Signal<'a>,
    counters: [(&'static str, &'static str, Signal<'a>); 4],
}

/// Forms distances in the second clock, and decides by them in the third. The word and the operation stand meanwhile.
fn judge<'a>(m: Module<'a>, operation: &Operation<'a>, word: Ring<'a>, index_bits: u32) -> Judged<'a> {
    let told = m.reg("told", INDEX_BITS).doc("entries told of and not asked for");
    let tells = m.reg("tells", INDEX_BITS).doc("what the doorbell makes of it");
    let room = m.reg("ring_entries", COUNT_BITS).doc("entries of the ring");
    let place = m.reg("place", INDEX_BITS).doc("place of the next entry in the ring");
    told.set(word.producer - word.consumer);
    tells.set(operation.producer - word.consumer);
    let sizes: Vec<Signal<'a>> = (0..INDEX_BITS).map(|log2| m.lit(1u32 << log2, COUNT_BITS)).collect();
    let size = word.entries_log2.select(&sizes).named("size");
    room.set(size);
    place.set(word.consumer & (size - size.lit(1)).part(0, INDEX_BITS));
    // The word of clock 2 for clock 3.
    let ring = Ring::unpack(word.pack().delayed("judged_word")).named("judged");

    let doorbell = !(operation.writes | operation.turn).named("is_no_doorbell");
    let in_table = !(operation.qpn >> index_bits).any().named("beyond_table");
    let aligned = !operation.base.part(0, ENTRY_ADDRESS_BITS).any();
    let backwards = tells.lt(told).named("producer_goes_back");
    let beyond = tells
        .zero_extend(COUNT_BITS)
        .gt(room)
        .named("producer_is_beyond_the_ring");
    let has_ring = (in_table & ring.valid).named("has_ring");
    let right = !(backwards | beyond);
    let accepted = (doorbell & has_ring & right).named("doorbell_is_accepted");
    let reads = (operation.turn & told.any()).named("turn_reads");
    let stays = (operation.turn & (told >> 1).any()).named("more_is_told_of");
    let joins = stays | (accepted & tells.any() & !ring.waits);

    let one_more = ring.consumer + reads.zero_extend(INDEX_BITS);
    let writes = operation.writes;
    let next = Ring {
        valid: writes.mux(operation.valid & aligned, ring.valid),
        base: writes.mux(operation.base.part(ENTRY_ADDRESS_BITS, 58), ring.base),
        entries_log2: writes.mux(operation.entries_log2, ring.entries_log2),
        producer: accepted.mux(operation.producer, ring.producer).gate(!writes),
        consumer: one_more.gate(!writes),
        waits: operation.turn.mux(stays, ring.waits | joins),
    };
    let entry = (ring.base + place.zero_extend(58)).named("entry");
    Judged {
        next,
        keeps: in_table,
        joins: joins.named("joins_those_who_wait"),
        reads,
        consumer: ring.consumer,
        address: cat_lsb_first(&[m.lit(0, ENTRY_ADDRESS_BITS), entry]),
        counters: [
            (
                "drop_ring",
                "ring writes refused: a queue pair beyond the table, or a base that is no multiple of 64",
                writes & (!in_table | (operation.valid & !aligned)),
            ),
            (
                "doorbells",
                "doorbells accepted, those that tell nothing new too",
                accepted,
            ),
            (
                "drop_queue_pair",
                "doorbells of a queue pair beyond the table or without a ring",
                doorbell & !has_ring,
            ),
            (
                "drop_producer",
                "doorbells that go back, or beyond what the ring holds",
                doorbell & has_ring & !right,
            ),
        ],
    }
}
