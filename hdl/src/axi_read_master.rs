//! `axi_read_master`: reads payload from memory by AXI4 bursts and gives it as packets that begin at byte 0; an R beat a clock.
//!
//! A burst never crosses 4 KiB and has at most 256 beats. Packets come in the order of their requests. Theory of operation:
//! `docs/src/blocks/axi_read_master.md`.

mod realigner;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{Descriptor, PayloadRequest};
use spraynic_rtl::{AxiStream, Context, Definition, Module, Signal, Stream, cat_lsb_first};

use crate::axi_bursts;
use crate::counter::{Counter, count_when};
use crate::fields::Fields;
use crate::{skid_buffer, stream_fifo};

/// Name of the block.
pub const NAME: &str = "axi_read_master";

/// The block for this configuration.
#[must_use]
pub fn axi_read_master<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    build(
        context,
        config.datapath.width_bits,
        config.transmit.descriptor_fifo_depth,
    )
}

/// Where the bytes of a packet lie in the beats that memory gives.
#[derive(Debug, Clone, Copy)]
struct Order<'a> {
    /// Byte of the first beat at which it begins.
    offset: Signal<'a>,
    /// Byte of its own last beat at which it ends.
    end: Signal<'a>,
    /// It has as many beats as memory gives for it: the last of them does not fit below the one before.
    tail: Signal<'a>,
    /// Beats that memory gives for it, less one.
    last_beat: Signal<'a>,
}

impl<'a> Order<'a> {
    fn of(width: u32, address: Signal<'a>, length: Signal<'a>) -> Self {
        let bits = (width / 8).trailing_zeros();
        let offset = address.part(0, bits);
        let end = length.part(0, bits) - offset.lit(1);
        Self {
            offset,
            end,
            tail: !offset.add_wide(end).msb(),
            last_beat: axi_bursts::last_beat(width, address, length),
        }
    }

    fn pack(&self) -> Signal<'a> {
        cat_lsb_first(&[self.offset, self.end, self.tail, self.last_beat])
    }

    fn unpack(width: u32, word: Signal<'a>) -> Self {
        let bits = (width / 8).trailing_zeros();
        Self {
            offset: word.part(0, bits),
            end: word.part(bits, bits),
            tail: word.bit(2 * bits),
            last_beat: word.part(2 * bits + 1, axi_bursts::left_bits(width)),
        }
    }
}

/// The block for a bus of `width` bits, with as many as `outstanding` requests whose data have not all come.
///
/// # Panics
/// When `width` is not a power of two of at least 16 and at most 1,024, or `outstanding` less than 2.
#[must_use]
pub fn build(context: &Context, width: u32, outstanding: u32) -> Definition<'_> {
    assert!(width.is_power_of_two() && (16..=1024).contains(&width), "width {width}");
    let m = context.module(&format!("{NAME}_w{width}_o{outstanding}"));
    m.doc(&format!(
        "Reads payload by AXI4 bursts: INCR, one ID, none crosses 4 KiB or has more than 256 beats.\n\
         As many as {outstanding} requests wait for their data, which leave as packets that begin at byte 0."
    ));
    let requests = Stream::slave(
        m,
        "s_axis_payload_request",
        PayloadRequest::width(),
        "PayloadRequest: a read of memory",
    );
    let payload = AxiStream::master(
        m,
        "m_axis_payload",
        width,
        1,
        "one packet for each PayloadRequest, in order; tuser on the last beat: memory refused it, and its length is wrong by one byte",
    );

    // A request goes to the bursts and to the data, or to neither.
    let request = Fields::unpack::<PayloadRequest>(requests.data);
    request.get("reserved_0").ignore();
    request.get("local_key").ignore();
    let (address, length) = (request.get("address"), request.get("length"));
    let order = Order::of(width, address, length);
    let orders = Stream::wires(m, "order", order.pack().width());
    let cut_ready = m.wire("cut_ready", 1);
    let access = axi_bursts::Access {
        address,
        length,
        valid: requests.valid & orders.ready,
        ready: cut_ready,
    };
    let burst = axi_bursts::cut(m, "ar", width, access, m.high());
    burst.length.ignore();
    requests.ready.set(cut_ready & orders.ready);
    orders.valid.set(requests.valid & cut_ready);
    orders.data.set(order.pack());
    let orders = stream_fifo::buffer(m, "u_orders", orders, outstanding);

    let aligned = AxiStream::wires(m, "aligned", width, 1);
    let beats = beats(m, width, orders);
    let enable = realigner::realigner(m, width, &beats, aligned);
    beats.ready.set(enable);
    skid_buffer::register_axi(m, "u_payload_skid_buffer", aligned).connect(payload);

    count_when(
        m,
        Counter("requests", "requests whose bursts have all been given"),
        burst.given & burst.ends,
    );
    count_when(m, Counter("bursts", "bursts given"), burst.given);
    count_when(
        m,
        Counter("refused", "packets of which memory refused a part"),
        aligned.fires() & aligned.last & aligned.user,
    );
    m.finish()
}

/// Beats from memory with the order that they are of.
struct Beats<'a> {
    data: Signal<'a>,
    /// Memory refused it.
    error: Signal<'a>,
    order: Order<'a>,
    first: Signal<'a>,
    last: Signal<'a>,
    /// There is one.
    valid: Signal<'a>,
    /// A wire: the realigner takes a beat.
    ready: Signal<'a>,
}

/// The R channel: counts the beats of the oldest request.
fn beats<'a>(m: Module<'a>, width: u32, orders: Stream<'a>) -> Beats<'a> {
    m.input("m_axi_rid", 1).ignore();
    // Beats are counted; where a burst ends does not matter.
    m.input("m_axi_rlast", 1).ignore();
    let data = m.input("m_axi_rdata", width);
    let response = m.input("m_axi_rresp", 2);
    let valid = m.input("m_axi_rvalid", 1);
    let order = Order::unpack(width, orders.data);
    let index = m
        .reg("beat_index", order.last_beat.width())
        .reset(0)
        .doc("place of the next beat in its packet");
    let last = index.eq(order.last_beat).named("beat_is_last");

    let ready = m.wire("realigner_ready", 1);
    let rready = (orders.valid & ready).named("r_ready");
    m.output_of("m_axi_rready", rready);
    let takes = (valid & rready).named("takes_beat");
    orders.ready.set(takes & last);
    m.when(takes, || index.set((index + index.lit(1)).gate(!last)));
    let error = response.bit(1).named("error");
    count_when(
        m,
        Counter("slave_errors", "beats that were answered by SLVERR"),
        takes & error & !response.bit(0),
    );
    count_when(
        m,
        Counter("decode_errors", "beats that were answered by DECERR"),
        takes & error & response.bit(0),
    );
    Beats {
        data,
        error,
        order,
        first: !index.any(),
        last,
        valid: takes,
        ready,
    }
}
