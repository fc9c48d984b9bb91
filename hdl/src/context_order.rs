//! Keeps the lives of a queue pair apart: what is left of the packets of before it was closed has gone when it is opened again.
//!
//! A context write goes to all blocks at once, but its way behind the packets before it is long: through memory, and behind READs. `responder` sends a marker that
//! way. Nothing here holds up packets but the wait for what `reorder_buffer` is just giving.

use spraynic_config::descriptor::QueuePairContext;
use spraynic_rtl::{Module, Signal, Stream};

use crate::fields::Fields;
use crate::payload_writer::receives;

/// Markers that may be under way.
const MARKER_BITS: u32 = 4;
/// Packets between `reorder_buffer` and their reports: more than it has.
const REPORT_BITS: u32 = 6;
/// Payloads between `qp_lookup` and the end of their packets, modulo a power of two.
const PAYLOAD_BITS: u32 = 8;
/// For so many clocks nothing must be seen of what `reorder_buffer` gives, as a power of two: more than it takes from beat to beat.
const QUIET_BITS: u32 = 5;

/// What passes: all but the first are a clock long.
pub(crate) struct Passing<'a> {
    /// `qp_lookup` offers a context to the blocks behind.
    pub(crate) offered: Signal<'a>,
    /// All have taken it: the last clock in which it is offered.
    pub(crate) passed_on: Signal<'a>,
    /// A marker has come out at the end.
    pub(crate) comes_out: Signal<'a>,
    /// A packet enters `reorder_buffer`, a report leaves it.
    pub(crate) enters: Signal<'a>,
    pub(crate) reported: Signal<'a>,
}

/// The context writes of the host as they may enter `qp_lookup`, in their order: one after which the queue pair receives when of all before it the markers
/// have come out and the reports of the packets before them have been taken.
pub(crate) fn admit<'a>(m: Module<'a>, contexts: Stream<'a>, passing: &Passing<'a>) -> Stream<'a> {
    let count = |name: &str, bits: u32, more: Signal<'a>, less: Signal<'a>| {
        let count = m.reg(name, bits).reset(0);
        count.set(count + more.zero_extend(bits) - less.zero_extend(bits));
        count
    };
    // A marker may come out before all blocks have taken the context.
    let stands = m.reg("context_stands", 1).reset(0).doc("a context was offered before");
    stands.set(passing.offered & !passing.passed_on);
    let first_offered = (passing.offered & !stands).named("context_first_offered");
    let markers = count("markers_under_way", MARKER_BITS, first_offered, passing.comes_out);
    let reports = count("reports_under_way", REPORT_BITS, passing.enters, passing.reported);
    let reported = passing.reported.zero_extend(REPORT_BITS);
    let before = m
        .reg("reports_before", REPORT_BITS)
        .reset(0)
        .doc("reports under way of packets before the last context write");
    m.when(passing.passed_on, || before.set(reports - reported))
        .else_when(before.any(), || before.set(before - reported));
    m.assert("no_packet_beside_a_context", !(passing.passed_on & passing.enters));

    let admitted = Stream::wires(m, "context_admitted", contexts.data.width());
    let looked_up = m
        .reg("context_is_looked_up", 1)
        .reset(0)
        .doc("a write is in qp_lookup, or has just been passed on");
    looked_up.set(admitted.fires() | (looked_up & !admitted.ready));
    let begins = receives(Fields::unpack::<QueuePairContext>(contexts.data).get("state"));
    let alone = !(markers.any() | before.any());
    let may_enter = (begins.mux(alone, !markers.all()) & !looked_up).named("context_may_enter");
    admitted.valid.set(contexts.valid & may_enter);
    admitted.data.set(contexts.data);
    contexts.ready.set(admitted.ready & may_enter);
    m.assert("every_marker_has_its_context", markers.any() | !passing.comes_out);
    admitted
}

/// The copy of a context write for `responder`: one after which the queue pair receives comes behind all that `reorder_buffer` has given before it took its
/// own (`taken`). `given` says that something of it is to be seen.
pub(crate) fn behind_given<'a>(m: Module<'a>, copy: Stream<'a>, taken: Signal<'a>, given: Signal<'a>) -> Stream<'a> {
    let begins = receives(Fields::unpack::<QueuePairContext>(copy.data).get("state"));
    let waits = m
        .reg("responder_context_waits", 1)
        .reset(0)
        .doc("reorder_buffer has the context, responder has not");
    let quiet = m.reg("given_quiet", QUIET_BITS).reset(0);
    let may_go = (!begins | (waits & quiet.all())).named("responder_context_may_go");
    let behind = Stream::wires(m, "responder_context", copy.data.width());
    behind.valid.set(copy.valid & may_go);
    behind.data.set(copy.data);
    copy.ready.set(behind.ready & may_go);
    m.when(taken & begins, || waits.set_lit(1))
        .else_when(behind.fires(), || waits.set_lit(0));
    m.when(!waits | given, || quiet.set_lit(0))
        .else_when(!quiet.all(), || quiet.set(quiet + quiet.lit(1)));
    behind
}

/// Whether `reorder_buffer` waits for payload: of a packet that `begins`, until a payload `ends`, which may be before.
pub(crate) fn payload_due<'a>(m: Module<'a>, begins: Signal<'a>, ends: Signal<'a>) -> Signal<'a> {
    let due = m.reg("payloads_due", PAYLOAD_BITS).reset(0);
    due.set(due + begins.zero_extend(PAYLOAD_BITS) - ends.zero_extend(PAYLOAD_BITS));
    due.any()
}
