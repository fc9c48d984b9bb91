//! Issue: chooses the operation of each clock. Packets go first; what the block wants for itself takes the clocks that they leave, and
//! every fourth one if they leave none. A context write stops everything until both of its windows are done.

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
    /// It is issued in this clock: to be driven by `issue`.
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
    let joins = credit_index.eq(index) & credit_count.ne_lit(MERGED_CREDITS);
    credits
        .ready
        .set((!exists | ((empty | joins) & !credit_issued) | (credit_issued & empty)) & !sweeping);
    m.when(credits.fires() & exists, || {
        credit_index.set(index);
        credit_count.set(credit_count + credit_count.lit(1));
    });
    m.when(credit_issued, || credit_count.set_lit(0));

    // Who is next.
    let quiet = m.reg("quiet", 2).reset(0).doc("clocks in which nothing is issued");
    let may_issue = (!quiet.any() & !sweeping).named("may_issue");
    let others = (context.valid | ((advance.valid | scan.valid | walk.valid) & !context_fields.exclusive))
        .named("others_wanted");
    let credit_was_last = m.reg("credit_was_last", 1).reset(0);
    let credit_first = (!empty & !context_fields.exclusive & !(others & credit_was_last)).named("credit_first");
    let internal = (credit_first | others).named("internal_wanted");
    let waited = m.reg("waited", 2).reset(0).doc("packets that went before");
    let must_yield = m
        .reg("packets_must_yield", 1)
        .reset(0)
        .doc("so many packets went before that another operation is due");
    let open_for_packets = (may_issue & room & !context_fields.exclusive & !must_yield).named("packet_may_go");
    descriptors.ready.set(open_for_packets);
    let packet = descriptors.fires().named("packet_taken");
    let goes = (may_issue & internal & !packet).named("internal_goes");
    credit_issued.set(goes & credit_first);
    // Whose turn it is among them does not depend on the packet: whether a packet goes is known late.
    let mut free = !credit_first;
    let others_may = !context_fields.exclusive;
    let [context_next, advance_next, scan_next, walk_next] = [
        (context, m.high()),
        (advance, others_may),
        (scan, others_may),
        (walk, others_may),
    ]
    .map(|(wanted, may)| {
        let next = free & wanted.valid & may;
        free = free & !(wanted.valid & may);
        wanted.issued.set(goes & next);
        next
    });
    m.when(goes, || {
        waited.set_lit(0);
        credit_was_last.set(credit_first);
    })
    .else_when(packet & internal & waited.ne_lit(PATIENCE), || {
        waited.set(waited + waited.lit(1));
    });
    let is_due = waited.eq_lit(PATIENCE) | (packet & waited.eq_lit(PATIENCE - 1));
    must_yield.set(internal & !goes & is_due);
    m.when(context.issued, || quiet.set_lit(QUIET))
        .else_when(quiet.any(), || quiet.set(quiet - quiet.lit(1)));

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
    let choose = |pick: fn(&Wanted<'a>) -> Signal<'a>, otherwise: Signal<'a>| {
        [
            (walk, walk_next),
            (scan, scan_next),
            (advance, advance_next),
            (context, context_next),
        ]
        .into_iter()
        .fold(otherwise, |value, (wanted, next)| next.mux(pick(wanted), value))
    };
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
        credit: credit_issued,
        open: context.issued & context_fields.opens,
        close: context.issued & !context_fields.opens,
        scan: scan.issued,
        advance: advance.issued,
        walk: walk.issued,
        space: packet.mux(has_responses, choose(|wanted| wanted.space, m.low())),
        index: packet.mux(index, choose(|wanted| wanted.index, credit_index)),
        in_table: !packet | (exists & wants_responses.eq(has_responses)),
        psn: packet.mux(fields.get("psn"), choose(|wanted| wanted.psn, m.lit(0, 24))),
        amount: advance_fields.amount,
        credits: credit_issued.mux(credit_count.zero_extend(6), advance_fields.credits),
        last: advance_fields.last,
        starved: advance_fields.starved,
        profile: context_fields.profile,
        drop_credits: context_fields.drop_credits,
        first: context_fields.first,
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
