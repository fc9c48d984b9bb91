//! The rings of receive requests, and in mrc of immediates: which one an operation takes is known two clocks after it was issued.
//!
//! Clock 1: the pointers come out of their RAM. Clock 2: they are known, moved on and written back; both rings are read and written. Clock 3: what was
//! read comes out, and goes to clock 4. One operation a clock, also of one queue pair. Whether a request is carried out is not known here, and does not matter:
//! it takes its receive request in any case.

use super::operation::{self, ERROR, Operation, RECEIVES};
use crate::sweep;
use crate::table::{Access, Words};
use spraynic_config::{NicConfig, Profile};
use spraynic_rtl::{Bundle, Module, ReadDuringWrite, Signal, bundle, cat, cat_lsb_first};

/// State INIT of a queue pair, as an operation of kind context has it.
const INIT: u8 = 1;

bundle! {
    /// A receive request that was taken.
    pub(super) struct Taken {
        valid: 1, "there is one";
        length: 32, "bytes of the buffer";
        address: 64, "address of the buffer";
        cookie: 64, "its cookie";
    }
}

bundle! {
    /// mrc: what a WRITE with immediate left for the end of its message.
    pub(super) struct Immediate {
        valid: 1, "it came";
        solicited: 1, "BTH solicited event";
        length: 32, "bytes of the message";
        immediate: 32, "immediate data";
    }
}

bundle! {
    /// What is found out in clock 2, for those behind.
    pub(super) struct Found {
        in_table: 1, "the queue pair exists";
        receives: 1, "it receives";
        taken: 1, "a receive request was taken";
        gives_back: 1, "a receive request was posted in ERROR, and goes back";
        rqmsn_in_ring: 1, "mrc: the RQMSN is one of those that may be under way";
    }
}

/// What leaves this part.
pub(super) struct Rings<'a> {
    /// Clock 2: a context write begins to receive.
    pub(super) begins: Signal<'a>,
    /// Clock 2: a receive request is taken.
    pub(super) takes: Signal<'a>,
    /// Clock 3.
    pub(super) found: Found<'a>,
    /// Clock 3: out of the RAM, to be registered.
    pub(super) taken: Taken<'a>,
    /// Clock 3: out of the RAM, to be registered; mrc alone.
    pub(super) immediate: Option<Immediate<'a>>,
    /// Clock 2: a receive request is held now.
    pub(super) posted: Signal<'a>,
    /// Clock 2: a receive request was dropped: no queue pair, or RESET.
    pub(super) drop_closed: Signal<'a>,
    /// Clock 2: a receive request was dropped: no room.
    pub(super) drop_full: Signal<'a>,
}

/// The places of immediates are cleared before their queue pair receives.
pub(super) struct Sweep<'a> {
    pub(super) active: Signal<'a>,
    /// Queue pair, the low bits of its number.
    pub(super) queue_pair: Signal<'a>,
    /// Place in its ring.
    pub(super) place: Signal<'a>,
}

/// The operation in clocks 1 and 2.
pub(super) struct Stages<'a> {
    /// Where the pointers are read and written.
    pub(super) access: Access<'a>,
    pub(super) one: Operation<'a>,
    pub(super) valid_2: Signal<'a>,
    pub(super) two: Operation<'a>,
}

/// Builds the rings. `clear` makes all pointers zero.
pub(super) fn rings<'a>(
    m: Module<'a>,
    config: &NicConfig,
    stages: &Stages<'a>,
    sweep: &Sweep<'a>,
    clear: sweep::Sweep<'a>,
) -> Rings<'a> {
    let depth = config.receive.receive_requests;
    let place_bits = depth.trailing_zeros();
    let pointer_bits = place_bits + 1;
    let index_bits = config.qpn_bits();
    let index = |operation: &Operation<'a>| operation.qpn.part(0, index_bits);
    let (one, two, valid) = (&stages.one, &stages.two, stages.valid_2);
    let is = |kind: u8| valid & two.kind.eq_lit(kind);

    // The pointers.
    let word_bits = 2 + 2 * pointer_bits + 16;
    let next_pointers = m.wire("next_pointers", word_bits);
    let count = config.queue_pairs.count;
    let pointers = Words::new(m, "pointers", count, stages.access, Some(clear), next_pointers).word();
    let state = pointers.part(0, 2).named("queue_pair_state");
    let head = pointers.part(2, pointer_bits).named("head");
    let tail = pointers.part(2 + pointer_bits, pointer_bits).named("tail");
    let rqmsn = pointers.part(2 + 2 * pointer_bits, 16).named("rqmsn");

    let in_table = (!(one.qpn >> index_bits).any()).delayed("in_table");
    let receives = (in_table & state.eq_lit(RECEIVES)).named("receives");
    let waiting = head.ne(tail).named("receive_request_waiting");
    let full = (head ^ tail).eq_lit(depth).named("receive_requests_full");
    let wanted = (is(operation::PACKET) & two.needs_request & receives) | (is(operation::FLUSH) & in_table);
    let taken = (wanted & waiting).named("takes_receive_request");
    let post = is(operation::RECEIVE_REQUEST);
    let holds = in_table & (state.eq_lit(INIT) | state.eq_lit(RECEIVES));
    let posted = (post & holds & !full).named("posted");
    let gives_back = post & in_table & state.eq_lit(ERROR);
    let context = is(operation::CONTEXT) & in_table;
    let begins = (context & two.state.eq_lit(RECEIVES) & !receives).named("begins_to_receive");
    let ends_message = is(operation::PACKET) & two.retired & two.needs_request & receives;

    let one_more = |pointer: Signal<'a>, more: Signal<'a>| pointer + more.zero_extend(pointer_bits);
    let forgets = context & !two.state.any();
    let next = cat_lsb_first(&[
        context.mux(two.state, state),
        forgets.mux(tail, one_more(head, taken)),
        one_more(tail, posted),
        (rqmsn + ends_message.zero_extend(16)).gate(!begins),
    ]);
    next_pointers.set(in_table.mux(next, pointers));

    // The ring of receive requests.
    let request = cat_lsb_first(&[two.length, two.compare, two.swap_add]);
    // Written a clock later, from registers: the ring is spread over many RAMs.
    let ring = m
        .memory("receive_requests", config.queue_pairs.count * depth, request.width())
        .read_during_write(ReadDuringWrite::New);
    let place = |pointer: Signal<'a>| cat(&[index(two), pointer.part(0, place_bits)]);
    ring.write(
        posted.delayed("posted_3").reset(0),
        place(tail).delayed("posted_place_3"),
        request.delayed("posted_request_3"),
    );
    let request = ring.read(m.high(), place(head));

    let rqmsn_in_ring = (!((two.rqmsn - rqmsn) >> place_bits).any()).named("rqmsn_in_ring");
    let immediate = config.has_profile(Profile::Mrc).then(|| {
        let write = is(operation::PACKET)
            & two.write
            & two.has_immediate
            & !two.duplicate
            & two.profile.eq_lit(Profile::Mrc.code())
            & receives
            & rqmsn_in_ring;
        let entry = cat_lsb_first(&[m.high(), two.solicited, two.length, two.immediate]);
        // Written a clock later, from registers, as the other ring.
        let ring = m
            .memory("immediates", config.queue_pairs.count * depth, entry.width())
            .read_during_write(ReadDuringWrite::New);
        let place = |rqmsn: Signal<'a>| cat(&[index(two), rqmsn.part(0, place_bits)]);
        let written = write.mux(place(two.rqmsn), place(rqmsn));
        ring.write(
            (write | ends_message | sweep.active)
                .delayed("immediate_written_3")
                .reset(0),
            sweep
                .active
                .mux(cat(&[sweep.queue_pair, sweep.place]), written)
                .delayed("immediate_place_3"),
            entry.gate(write).delayed("immediate_entry_3"),
        );
        Immediate::unpack(ring.read(m.high(), place(rqmsn)))
    });
    let found = Found {
        in_table,
        receives,
        taken,
        gives_back,
        rqmsn_in_ring,
    };
    let found_3 = Found::regs(m, "found_3");
    found_3.set(&found);
    Rings {
        begins,
        takes: taken,
        found: found_3,
        taken: Taken {
            valid: found_3.taken,
            length: request.part(0, 32),
            address: request.part(32, 64),
            cookie: request.part(96, 64),
        },
        immediate,
        posted,
        drop_closed: post & !(in_table & state.any()),
        drop_full: post & holds & full,
    }
}
