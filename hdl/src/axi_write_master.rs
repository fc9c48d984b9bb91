//! `axi_write_master`: makes AXI4 bursts of memory writes; a W beat a clock, a burst a clock.
//!
//! A burst never crosses 4 KiB and has at most 256 beats. Data and order never change. Theory of operation:
//! `docs/src/blocks/axi_write_master.md`.

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Descriptor, MemoryWrite};
use spraynic_rtl::{Context, Definition, Module, Stream, cat_lsb_first};

use crate::axi_bursts::{self, LENGTH_BITS};
use crate::counter::{Counter, count_when};
use crate::fields::Fields;
use crate::stream_fifo;
use crate::write_data::WriteData;

/// Bursts whose addresses are out before their data: as many as distributed RAM holds.
const BURSTS_AHEAD: u32 = stream_fifo::MAX_DISTRIBUTED_DEPTH;

/// The block for this configuration.
#[must_use]
pub fn axi_write_master<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    // A write of one MTU, which is at most 4 KiB, crosses 4 KiB at most once.
    build(
        context,
        config.datapath.width_bits,
        config.receive.outstanding_writes * 2,
    )
}

/// The block for a bus of `width` bits, with as many as `outstanding` bursts that have not been answered.
///
/// # Panics
/// When `width` is not a power of two of at least 16 and at most 1,024, or `outstanding` less than 2.
#[must_use]
pub fn build(context: &Context, width: u32, outstanding: u32) -> Definition<'_> {
    assert!(width.is_power_of_two() && (16..=1024).contains(&width), "width {width}");
    let m = context.module(&format!("axi_write_master_w{width}_o{outstanding}"));
    m.doc(&format!(
        "Makes AXI4 bursts of memory writes: INCR, one ID, none crosses 4 KiB or has more than 256 beats.\n\
         As many as {outstanding} bursts wait for their responses. A write is reported when all of its bursts are answered."
    ));
    let writes = Stream::slave(
        m,
        "s_axis_write",
        MemoryWrite::width(),
        "MemoryWrite: where the next packet of data goes",
    );
    let data = WriteData::slave(m, "s_axis_write_data", width);
    let written = Stream::master(
        m,
        "m_axis_written",
        1,
        "a write is done, in the order of the writes; 1: memory refused it",
    );

    let bursts = Stream::wires(m, "burst", LENGTH_BITS + 1);
    let orders = Stream::wires(m, "order", 1);
    addresses(m, width, writes, bursts, orders);
    beats(m, width, data, stream_fifo::buffer(m, "u_bursts", bursts, BURSTS_AHEAD));
    responses(m, stream_fifo::buffer(m, "u_orders", orders, outstanding), written);
    m.finish()
}

/// Cuts writes into bursts, one a clock: to AW, to the data (`bursts`: AWLEN, and whether it is the write's last), to the responses
/// (`orders`: whether it is the write's last).
fn addresses<'a>(m: Module<'a>, width: u32, writes: Stream<'a>, bursts: Stream<'a>, orders: Stream<'a>) {
    let write = Fields::unpack::<MemoryWrite>(writes.data);
    write.get("reserved_0").ignore();
    let access = axi_bursts::Access {
        address: write.get("address"),
        length: write.get("length"),
        valid: writes.valid,
        ready: writes.ready,
    };
    let burst = axi_bursts::cut(m, "aw", width, access, bursts.ready & orders.ready);
    bursts.valid.set(burst.given);
    bursts.data.set(cat_lsb_first(&[burst.length, burst.ends]));
    orders.valid.set(burst.given);
    orders.data.set(burst.ends);
    count_when(
        m,
        Counter("writes", "writes whose bursts have all been given"),
        burst.given & burst.ends,
    );
    count_when(m, Counter("bursts", "bursts given"), burst.given);
}

/// Lets data through as far as bursts have been given, with WLAST at the end of each.
fn beats<'a>(m: Module<'a>, width: u32, data: WriteData<'a>, bursts: Stream<'a>) {
    let wready = m.input("m_axi_wready", 1);
    let valid = m.reg("w_valid", 1).reset(0);
    let (w_data, w_strobe) = (m.reg("w_data", width), m.reg("w_strobe", width / 8));
    let w_last = m.reg("w_last", 1);
    let index = m
        .reg("beat_index", LENGTH_BITS)
        .reset(0)
        .doc("place of the next beat in its burst");

    let burst_ends = index.eq(bursts.data.part(0, LENGTH_BITS)).named("beat_ends_burst");
    let ends_write = bursts.data.bit(LENGTH_BITS);
    let free = (!valid | wready).named("w_free");
    data.ready.set(bursts.valid & free);
    let takes = data.fires().named("takes_beat");
    bursts.ready.set(takes & burst_ends);
    m.when(takes, || {
        index.set((index + index.lit(1)).gate(!burst_ends));
        w_data.set(data.data);
        w_strobe.set(data.strobe);
        w_last.set(burst_ends);
        valid.set_lit(1);
    })
    .else_when(wready, || valid.set_lit(0));
    m.assert(
        "data_end_with_their_write",
        !takes | data.last.eq(burst_ends & ends_write),
    );

    m.output_of("m_axi_wvalid", valid);
    m.output_of("m_axi_wdata", w_data);
    m.output_of("m_axi_wstrb", w_strobe);
    m.output_of("m_axi_wlast", w_last);
}

/// Takes the responses of the bursts in order; the last one of a write reports it.
fn responses<'a>(m: Module<'a>, orders: Stream<'a>, written: Stream<'a>) {
    m.input("m_axi_bid", 1).ignore();
    let (response, bvalid) = (m.input("m_axi_bresp", 2), m.input("m_axi_bvalid", 1));
    let valid = m.reg("written_valid", 1).reset(0);
    let refused = m.reg("written_refused", 1);
    let before = m
        .reg("refused_before", 1)
        .reset(0)
        .doc("memory refused an earlier burst of this write");

    let last = orders.data;
    let ready = (orders.valid & (!last | !valid | written.ready)).named("b_ready");
    m.output_of("m_axi_bready", ready);
    let takes = (ready & bvalid).named("takes_response");
    orders.ready.set(takes);
    let error = response.bit(1).named("error");
    let any_error = before | error;
    m.when(takes, || before.set(any_error & !last));
    m.when(takes & last, || {
        valid.set_lit(1);
        refused.set(any_error);
    })
    .else_when(written.ready, || valid.set_lit(0));
    written.valid.set(valid);
    written.data.set(refused);
    count_when(
        m,
        Counter("slave_errors", "bursts that were answered by SLVERR"),
        takes & error & !response.bit(0),
    );
    count_when(
        m,
        Counter("decode_errors", "bursts that were answered by DECERR"),
        takes & error & response.bit(0),
    );
}
