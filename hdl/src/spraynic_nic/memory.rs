//! The way to memory: payload of requests and of responses by one AXI4 port of the width of the bus, atomics and rings of requests each by one
//! of 64 bits.
//!
//! Atomics have a port of their own because what is received may not wait for what is sent: a read for an atomic would stand behind payload
//! for a port that its peer pauses. Rings have one so that requests never wait for the payload of others.

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{AtomicWrite, MemoryWrite, PayloadRequest};
use spraynic_rtl::{AxiStream, InstanceHandle, Module, Signal, Stream, cat_lsb_first};

use crate::fields::Fields;
use crate::joints::{from, has_stream, into, join, join_axi};
use crate::stream_fifo::{self, stream_fifo};
use crate::stream_fork::fork;
use crate::write_data::WriteData;

/// Bits of an atomic.
pub(super) const ATOMIC_BITS: u32 = 64;

/// Atomics on their way to memory.
pub(super) const ATOMICS: u32 = 4;

/// Beats of data that wait before the port, of each source: so many that it is seen whether the next write has data.
const WAITING_BEATS: u32 = 16;

/// Passes the AXI4 ports of a block on: `m_axi_…` of the block as `prefix_…`.
pub(super) fn pass_axi<'a>(m: Module<'a>, block: InstanceHandle<'a>, prefix: &str) {
    for port in block.definition().ports() {
        let Some(name) = port.name.strip_prefix("m_axi_") else {
            continue;
        };
        let name = format!("{prefix}_{name}");
        if port.output {
            let _ = m.output_of(&name, block.output(&port.name)).doc(&port.doc);
        } else {
            block.connect(&port.name, m.input(&name, port.width).doc(&port.doc));
        }
    }
}

/// A source of writes: what a `payload_writer` gives, and what it is told.
struct Source<'a> {
    writes: Stream<'a>,
    data: Stream<'a>,
    /// Words of `data` inside its FIFO.
    waiting: Signal<'a>,
    written: Stream<'a>,
}

impl<'a> Source<'a> {
    fn of(m: Module<'a>, number: usize, block: InstanceHandle<'a>) -> Self {
        let data = WriteData::from_instance(block, "m_axis_write_data");
        let word = cat_lsb_first(&[data.pack(), data.last]);
        let words = Stream::wires(m, &format!("write_data_{number}"), word.width());
        words.data.set(word);
        words.valid.set(data.valid);
        data.ready.set(words.ready);
        let fifo = m.instance(
            &format!("u_write_data_{number}"),
            stream_fifo(m.context(), words.data.width(), WAITING_BEATS),
        );
        words.connect(into(fifo, "s_axis"));
        Self {
            writes: from(block, "m_axis_write"),
            data: from(fifo, "m_axis"),
            waiting: fifo.output("count"),
            written: into(block, "s_axis_written"),
        }
    }
}

/// Two `payload_writer`s share an `axi_write_master`, write by write, in turn.
///
/// A write is begun only when its first beat of data is there: payload of both sources comes out of one `responder`, so that the data of the
/// one may stand before those of the other.
pub(super) fn share_writes<'a>(
    m: Module<'a>,
    config: &NicConfig,
    master: InstanceHandle<'a>,
    blocks: [InstanceHandle<'a>; 2],
) {
    let [first, second] = [0, 1].map(|number| Source::of(m, number, blocks[number]));
    let orders = Stream::wires(m, "write_order", 1);
    let in_write = m.reg("in_write", 1).reset(0).doc("data of a write are under way");
    let owner = m.reg("write_owner", 1).reset(0).doc("whose write it is, or was");

    let data = WriteData::into_instance(master, "s_axis_write_data");
    let word = owner.mux(second.data.data, first.data.data);
    let (bits, strobes) = (data.data.width(), data.strobe.width());
    data.data.set(word.part(0, bits));
    data.strobe.set(word.part(bits, strobes));
    data.last.set(word.msb());
    data.valid
        .set(in_write & owner.mux(second.data.valid, first.data.valid));
    let moves = data.fires().named("write_data_move");
    first.data.ready.set(in_write & !owner & data.ready);
    second.data.ready.set(in_write & owner & data.ready);

    let may_begin = (!in_write | (moves & word.msb())).named("write_may_begin");
    let has_data = |source: &Source<'a>, owned: Signal<'a>| {
        // The beat that leaves is still counted.
        let needed = m.lit(1, source.waiting.width()) + (moves & owned).zero_extend(source.waiting.width());
        source.writes.valid & source.waiting.ge(needed)
    };
    let candidates = [has_data(&first, !owner), has_data(&second, owner)];
    let next = owner.mux(!candidates[0], candidates[1]).named("next_write_owner");
    let any = (candidates[0] | candidates[1]).named("write_is_wanted");
    let writes = into(master, "s_axis_write");
    let begins = (may_begin & any & writes.ready & orders.ready).named("write_begins");
    writes.data.set(next.mux(second.writes.data, first.writes.data));
    writes.valid.set(may_begin & any & orders.ready);
    first.writes.ready.set(begins & !next);
    second.writes.ready.set(begins & next);
    m.when(begins, || owner.set(next));
    in_write.set(begins | (in_write & !(moves & word.msb())));

    // Responses come in the order of the writes.
    orders.data.set(next);
    orders.valid.set(begins);
    let order = stream_fifo::buffer(m, "u_write_orders", orders, config.receive.outstanding_writes * 2);
    let written = from(master, "m_axis_written");
    first.written.data.set(written.data);
    second.written.data.set(written.data);
    first.written.valid.set(written.valid & order.valid & !order.data);
    second.written.valid.set(written.valid & order.valid & order.data);
    let taken = order.data.mux(second.written.ready, first.written.ready);
    written.ready.set(order.valid & taken);
    order.ready.set(written.valid & taken);
}

/// Entries of request rings come by a master of their own.
pub(super) fn rings<'a>(rings: InstanceHandle<'a>, reader: InstanceHandle<'a>) {
    join(rings, "m_axis_ring_read", reader, "s_axis_payload_request");
    join_axi(reader, "m_axis_payload", rings, "s_axis_ring_data");
}

/// Reads and writes of atomics, of `receive`, by masters of their own.
pub(super) fn atomics<'a>(
    m: Module<'a>,
    receive: InstanceHandle<'a>,
    reader: InstanceHandle<'a>,
    writer: InstanceHandle<'a>,
) {
    assert!(
        has_stream(receive, "m_axis_atomic_read"),
        "without atomics there are no masters for them"
    );
    let reads = from(receive, "m_axis_atomic_read");
    let request = Fields::build::<PayloadRequest>(|name, width| match name {
        "address" => reads.data,
        "length" => m.lit(ATOMIC_BITS / 8, width),
        _ => m.lit(0, width),
    });
    let requests = into(reader, "s_axis_payload_request");
    requests.data.set(request.pack());
    requests.valid.set(reads.valid);
    reads.ready.set(requests.ready);

    // Where memory refuses the read, the answer is a byte longer or shorter: its first beat counts.
    let answer = AxiStream::from_instance(reader, "m_axis_payload");
    answer.keep.ignore();
    answer.user.ignore();
    let begins = m.reg("atomic_answer_begins", 1).reset(1);
    m.when(answer.fires(), || begins.set(answer.last));
    let data = into(receive, "s_axis_atomic_data");
    data.data.set(answer.data);
    data.valid.set(answer.valid & begins);
    answer.ready.set(data.ready | !begins);

    let copies = fork(
        m,
        from(receive, "m_axis_atomic_write"),
        &["atomic_write_address", "atomic_write_data"],
    );
    let fields = Fields::unpack::<AtomicWrite>(copies[0].data);
    let write = Fields::build::<MemoryWrite>(|name, width| match name {
        "address" => fields.get("address"),
        "length" => m.lit(ATOMIC_BITS / 8, width),
        _ => m.lit(0, width),
    });
    let writes = into(writer, "s_axis_write");
    writes.data.set(write.pack());
    writes.valid.set(copies[0].valid);
    copies[0].ready.set(writes.ready);
    let data = WriteData::into_instance(writer, "s_axis_write_data");
    data.data.set(Fields::unpack::<AtomicWrite>(copies[1].data).get("data"));
    data.strobe.set(m.high().repeat(data.strobe.width()));
    data.last.set_lit(1);
    data.valid.set(copies[1].valid);
    copies[1].ready.set(data.ready);
    from(writer, "m_axis_written").connect(into(receive, "s_axis_atomic_written"));
}
