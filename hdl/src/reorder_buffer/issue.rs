//! Issue: chooses the operation of each clock. Packets go first; what the block wants for itself takes the clocks that they leave, and
//! one in five if they leave none. A context write stops everything until both of its windows are done.
//!
//! What the block wants is chosen a clock before and waits in a register, so that beside the packet only that register stands before the
//! tables' addresses.

use super::op::Op;
use super::sizes::Sizes;
use crate::fields::Fields;
use spraynic_config::Profile;
use spraynic_config::descriptor::{Descriptor, PacketContext, ReceivedPacket};
use spraynic_rtl::{Module, Signal, Stream};
use spraynic_wire::{HeaderKind, Opcode, Operation, opcode::OPCODES};

/// Clocks that packets may take while another operation waits.
const PATIENCE: u64 = 3;
/// Clocks behind a context write's operation in which none follows: its window cannot be taken over from it in flight.
const QUIET: u64 = 3;
/// Credits of one queue pair that one operation adds.
const MERGED_CREDITS: u64 = 15;

/// An operation that the block wants for itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) valid: Signal<'a>,
    /// It is taken in this clock, and issued in a later one before anything that is taken later: to be driven by `issue`.
    pub(super) issued: Signal<'a>,
    pub(super) space: Signal<'a>,
    pub(super) index: Signal<'a>,
    pub(super) psn: Signal<'a>,
}

impl<'a> Wanted<'a> {
    /// One of wires.
    pub(super) fn wires(m: Module<'a>, sizes: &Sizes, name: &str) -> Self {
        Self {
            valid: m.wire(&format!("{name}_wanted"), 1),
            issued: m.wire(&format!("{name}_issued"), 1),
            space: m.wire(&format!("{name}_space"), 1),
            index: m.wire(&format!("{name}_index"), sizes.qpn_bits),
            psn: m.wire(&format!("{name}_psn"), 24),
        }
    }
}

/// What `advance` says besides its window.
#[derive(Debug, Clone, Copy)]
pub(super) struct AdvanceFields<'a> {
    pub(super) amount: Signal<'a>,
    pub(super) credits: Signal<'a>,
    pub(super) last: Signal<'a>,
    pub(super) starved: Signal<'a>,
}

/// What a context write says besides its window.
#[derive(Debug, Clone, Copy)]
pub(super) struct ContextFields<'a> {
    pub(super) opens: Signal<'a>,
    pub(super) profile: Signal<'a>,
    pub(super) drop_credits: Signal<'a>,
    pub(super) first: Signal<'a>,
    /// Between its two operations: nothing else is issued.
    pub(super) exclusive: Signal<'a>,
}

/// All that asks for operations.
pub(super) struct Requests<'a> {
    pub(super) context: Wanted<'a>,
    pub(super) context_fields: ContextFields<'a>,
    pub(super) advance: Wanted<'a>,
    pub(super) advance_fields: AdvanceFields<'a>,
    pub(super) scan: Wanted<'a>,
    pub(super) walk: Wanted<'a>,
}

/// The operation of this clock and the packet that it is, if it is one.
pub(super) struct Issued<'a> {
    pub(super) op: Op<'a>,
    /// A packet is taken.
    pub(super) packet: Signal<'a>,
    pub(super) received: Fields<'a>,
    pub(super) context: Fields<'a>,
}

/// Whether an opcode is one of a list that is known when the block is generated.
pub(super) fn is_one_of<'a>(opcode: Signal<'a>, wanted: impl Fn(Opcode) -> bool) -> Signal<'a> {
    let mut found = opcode.module().low();
    for info in OPCODES {
        if wanted(info.opcode) {
            found = found | opcode.eq_lit(info.opcode.0);
        }
    }
    found
}

fn takes_receive_request(opcode: Opcode) -> bool {
    opcode.info().is_some_and(|info| match info.operation {
        Operation::Send => info.position.begins_message(),
        Operation::Write => info.has(HeaderKind::ImmDt),
        _ => false,
    })
}

/// Builds the choice, drives `ready` of both streams and `issued` of all requests. `room`: a packet may be taken.
pub(super) fn issue<'a>(
    m: Module<'a>,
    sizes: &Sizes,
    descriptors: Stream<'a>,
    credits: Stream<'a>,
    requests: &Requests<'a>,
    room: Signal<'a>,
    sweeping: Signal<'a>,
) -> Issued<'a> {
    let Requests {
        context,
        context_fields,
        advance,
        advance_fields,
        scan,
        walk,
    } = requests;
    let qpn_of = |qpn: Signal<'a>| (qpn.part(0, sizes.qpn_bits), !(qpn >> sizes.qpn_bits).any());

    // Credits of one queue pair that come together are added together.
    let credit_issued = m.wire("credit_issued", 1);
    let credit_index = m.reg("credit_index", sizes.qpn_bits);
    let credit_count = m.reg("credit_count", 4).reset(0).doc("credits to add");
    let (index, exists) = qpn_of(credits.data);
    let empty = !credit_count.any();
    // Whether one can join does not depend on whether those before are issued in this clock.
    let joins = credit_index.eq(index) & credit_count.ne_lit(MERGED_CREDITS);
    credits.ready.set((!exists | empty | joins) & !sweeping);
    let counts = credits.fires() & exists;
    m.when(counts, || credit_index.set(index));
    credit_count.set(credit_count.gate(!credit_issued) + counts.zero_extend(4));

    // What the block wants for itself: one of them waits in a register.
    let waits = m
        .reg("internal_waits", 1)
        .reset(0)
        .doc("an operation of the block itself is to be issued");
    let others_may = !context_fields.exclusive;
    let others = (context.valid | ((advance.valid | scan.valid | walk.valid) & others_may)).named("others_wanted");
    let credit_was_last = m.reg("credit_was_last", 1).reset(0);
    let credit_first = (!empty & others_may & !(others & credit_was_last)).named("credit_first");
    let takes = (!waits & !sweeping).named("internal_taken");
    credit_issued.set(takes & credit_first);
    let mut free = !credit_first;
    let [context_next, advance_next, scan_next, walk_next] = [
        (context, m.high()),
        (advance, others_may),
        (scan, others_may),
        (walk, others_may),
    ]
    .map(|(wanted, may)| {
        let next = free & wanted.valid & may;
        free = free & !(wanted.valid & may);
        wanted.issued.set(takes & next);
        next
    });
    m.when(takes & (credit_first | others), || credit_was_last.set(credit_first));
    // One of them at most: what the others say is masked, so that no choice stands behind another.
    let choose = |pick: fn(&Wanted<'a>) -> Signal<'a>, otherwise: Signal<'a>| {
        [
            (walk, walk_next),
            (scan, scan_next),
            (advance, advance_next),
            (context, context_next),
        ]
        .into_iter()
        .fold(otherwise.gate(credit_first), |value, (wanted, next)| {
            value | pick(wanted).gate(next)
        })
    };
    let hold = |signal: Signal<'a>, name: &str| {
        let register = m.reg(&format!("internal_{name}"), signal.width());
        m.when(takes, || register.set(signal));
        register
    };
    let is_context = hold(context_next, "is_context");
    let opens = hold(context_fields.opens, "opens");
    let is_credit = hold(credit_first, "is_credit");
    let is_scan = hold(scan_next, "is_scan");
    let is_advance = hold(advance_next, "is_advance");
    let is_walk = hold(walk_next, "is_walk");
    let internal_space = hold(choose(|wanted| wanted.space, m.low()), "space");
    let internal_index = hold(choose(|wanted| wanted.index, credit_index), "index");
    let internal_psn = hold(choose(|wanted| wanted.psn, m.lit(0, 24)), "psn");
    let amount = hold(advance_fields.amount, "amount");
    let internal_credits = hold(
        credit_first.mux(credit_count.zero_extend(6), advance_fields.credits),
        "credits",
    );
    let last = hold(advance_fields.last, "last");
    let starved = hold(advance_fields.starved, "starved");
    let profile = hold(context_fields.profile, "profile");
    let drop_credits = hold(context_fields.drop_credits, "drop_credits");
    let first = hold(context_fields.first, "first");

    // Who is next: the packet, or that.
    let quiet = m.reg("quiet", 2).reset(0).doc("clocks in which nothing is issued");
    let may_issue = m
        .reg("may_issue", 1)
        .reset(0)
        .doc("`quiet` is 0, and tables are cleared");
    let waited = m.reg("waited", 2).reset(0).doc("packets that went before");
    let must_yield = m
        .reg("packets_must_yield", 1)
        .reset(0)
        .doc("so many packets went before that another operation is due");
    // Where an operation of a context write waits here, the write itself has stopped packets a clock later.
    let stopped = context_fields.exclusive.delayed("context_was_exclusive").reset(0);
    let stops_packets = stopped | (waits & is_context);
    let open_for_packets = (may_issue & room & !stops_packets & !must_yield).named("packet_may_go");
    descriptors.ready.set(open_for_packets);
    let packet = descriptors.fires().named("packet_taken");
    let goes = (may_issue & waits & !packet).named("internal_goes");
    waits.set((waits & !goes) | (takes & (credit_first | others)));
    m.when(goes, || waited.set_lit(0))
        .else_when(packet & waits & waited.ne_lit(PATIENCE), || {
            waited.set(waited + waited.lit(1));
        });
    let is_due = waited.eq_lit(PATIENCE) | (packet & waited.eq_lit(PATIENCE - 1));
    must_yield.set(waits & !goes & is_due);
    let quiets = goes & is_context;
    m.when(quiets, || quiet.set_lit(QUIET))
        .else_when(quiet.any(), || quiet.set(quiet - quiet.lit(1)));
    may_issue.set(!quiets & !quiet.msb() & !sweeping);

    // The operation.
    let fields = Fields::unpack::<ReceivedPacket>(descriptors.data.part(0, ReceivedPacket::width()));
    let looked_up =
        Fields::unpack::<PacketContext>(descriptors.data.part(ReceivedPacket::width(), PacketContext::width()));
    let (index, exists) = qpn_of(fields.get("qpn"));
    let wants_responses = looked_up.get("space");
    let has_responses = wants_responses & sizes.may_reorder(m, index);
    let opcode = fields.get("opcode");
    let is = |wanted: Operation| {
        is_one_of(opcode, |opcode| {
            opcode.info().is_some_and(|info| info.operation == wanted)
        })
    };
    let read = is(Operation::ReadRequest);
    let reth_length = |m: Module<'a>| {
        if sizes.roce {
            spraynic_rtl::cat(&[12, 13, 14, 15].map(|byte| fields.get("extension").part(8 * byte, 8)))
        } else {
            m.lit(0, 32)
        }
    };
    let beats =
        (fields.get("payload_length") - fields.get("payload_length").lit(1)) >> sizes.bus_bytes.trailing_zeros();
    let op = Op {
        valid: packet | goes,
        packet,
        credit: goes & is_credit,
        open: goes & is_context & opens,
        close: goes & is_context & !opens,
        scan: goes & is_scan,
        advance: goes & is_advance,
        walk: goes & is_walk,
        space: packet.mux(has_responses, internal_space),
        index: packet.mux(index, internal_index),
        in_table: !packet | (exists & wants_responses.eq(has_responses)),
        psn: packet.mux(fields.get("psn"), internal_psn),
        amount,
        credits: internal_credits,
        last,
        starved,
        profile,
        drop_credits,
        first,
        needs: is_one_of(opcode, takes_receive_request),
        answered: read | is(Operation::CompareSwap) | is(Operation::FetchAdd),
        trimmed: fields.get("trimmed"),
        ends: is_one_of(opcode, |opcode| {
            opcode
                .info()
                .is_some_and(|info| info.position.ends_message() && info.is_in(spraynic_wire::Profile::Mrc))
        }),
        has_payload: fields.get("payload_length").any(),
        beats: beats.part(0, sizes.beat_bits),
        read: read & m.lit(u32::from(sizes.roce), 1) & looked_up.get("profile").eq_lit(Profile::Roce.code()),
        length: reth_length(m),
        mtu: looked_up.get("mtu"),
    };
    Issued {
        op,
        packet,
        received: fields,
        context: looked_up,
    }
}
