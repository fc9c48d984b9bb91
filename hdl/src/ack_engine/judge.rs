//! Judgement: what an operation makes due, and what becomes of the words it concerns.
//!
//! Clock 1: the operation is registered, its words come out of the RAMs, and what depends on the operation alone is prepared. Clock 2: judgement,
//! and the words are written back. Clock 3: what is due is registered, with its counters. One operation a clock, also of one space.

use spraynic_config::descriptor::SequenceOutcome;
use spraynic_config::{NicConfig, Profile};
use spraynic_rtl::{Bundle, Module, Signal, Stream, cat_lsb_first};
use spraynic_wire::{NackReason, NakCode, Syndrome};

use super::entry::{Entered, is_any};
use super::tables::{LastAnswer, LastPacket, NextCnp, QueuePair, Space, Window};
use super::{Due, EVENT_BITS, Operation, Pacing};
use crate::counter::{Counter, count_when};
use crate::sweep::Sweep;
use crate::table::{Access, Stage, Table};

/// RNR NAK without its timer code \[IBA volume 1, table 44\].
const RNR_NAK: u8 = 0x20;

/// Reasons of NACKs by outcome.
const NACKS: [(SequenceOutcome, NackReason); 5] = [
    (SequenceOutcome::OutOfWindow, NackReason::PsnOutOfWindow),
    (SequenceOutcome::Trimmed, NackReason::Trimmed),
    (SequenceOutcome::TrimmedLastHop, NackReason::TrimmedLastHop),
    (SequenceOutcome::NoSlot, NackReason::NoPacketBuffer),
    (SequenceOutcome::NotReady, NackReason::NoResource),
];

/// What comes of an operation, in clock 3.
pub(super) struct Judged<'a> {
    /// There was an operation.
    pub(super) valid: Signal<'a>,
    /// What is due; its five kinds are 0 without an operation.
    pub(super) due: Due<'a>,
    /// The space of the operation.
    pub(super) space: Signal<'a>,
    /// The space goes into the ring of the timer.
    pub(super) joins_ring: Signal<'a>,
    /// Something began to be unreported, or all has been reported.
    pub(super) changes: Signal<'a>,
    /// What it is now.
    pub(super) unreported: Signal<'a>,
    /// When it must be reported.
    pub(super) deadline: Signal<'a>,
    /// Count of such times.
    pub(super) epoch: Signal<'a>,
}

/// What clock 1 prepares for clock 2.
struct Prepared<'a> {
    in_table: Signal<'a>,
    is_new: Signal<'a>,
    duplicate: Signal<'a>,
    ignored: Signal<'a>,
    nack: Signal<'a>,
    reason: Signal<'a>,
    not_ready: Signal<'a>,
    first_of_gap: Signal<'a>,
    /// The packet is near: its SACK reports all that is.
    is_near: Signal<'a>,
    /// It is new and near.
    coalesces: Signal<'a>,
    /// A SACK is due whatever was reported before.
    at_once: Signal<'a>,
    /// Packets, bytes that must be unreported before it for it to make a SACK due.
    packets_before: Signal<'a>,
    bytes_before: Signal<'a>,
    /// Bytes can make one due at all.
    bytes_may_do: Signal<'a>,
    /// None are needed before it.
    no_packets_before: Signal<'a>,
    no_bytes_before: Signal<'a>,
    /// The packet's place against the gap.
    offset: Signal<'a>,
    next_psn: Signal<'a>,
    psn_before: Signal<'a>,
    deadline: Signal<'a>,
    next_cnp: Signal<'a>,
    acknowledges: Signal<'a>,
}

fn prepare<'a>(m: Module<'a>, index_bits: u32, operation: &Operation<'a>, pacing: Pacing<'a>) -> Prepared<'a> {
    use SequenceOutcome as Outcome;
    let outcome = operation.outcome;
    let duplicate = is_any(outcome, &[Outcome::Duplicate]);
    let is_near = !operation.far.any();
    let reason = NACKS.iter().fold(m.lit(0, 8), |chosen, (wanted, reason)| {
        outcome.eq_lit(*wanted as u8).mux(m.lit(reason.code(), 8), chosen)
    });
    let known = Outcome::ALL.len() as u32;
    let after = |interval: Signal<'a>| operation.now + interval.zero_extend(64);
    let is_new = is_any(outcome, &[Outcome::Passed, Outcome::Stored]);
    let (every, length) = (pacing.sack_every, operation.length.zero_extend(24));
    // Without a count of bytes as many as there never are.
    let left = pacing
        .sack_bytes
        .gt(length)
        .mux(pacing.sack_bytes - length, m.lit(0, 24));
    let bytes_before = pacing.sack_bytes.any().mux(left, m.lit(0xFF_FFFF, 24));
    Prepared {
        in_table: (!(operation.qpn >> index_bits).any()).delayed("in_table_2"),
        is_new: is_new.delayed("is_new_2"),
        coalesces: (is_new & is_near).delayed("coalesces_2"),
        packets_before: (every - every.any().zero_extend(8)).delayed("packets_before_2"),
        no_packets_before: (!every.part(1, 7).any()).delayed("no_packets_before_2"),
        bytes_before: bytes_before.part(0, 21).delayed("bytes_before_2"),
        bytes_may_do: (!bytes_before.part(21, 3).any()).delayed("bytes_may_do_2"),
        no_bytes_before: (!bytes_before.any()).delayed("no_bytes_before_2"),
        offset: saturate(operation.psn, operation.cumulative).delayed("offset_2"),
        duplicate: duplicate.delayed("duplicate_2"),
        ignored: (is_any(outcome, &[Outcome::Closed]) | outcome.ge(m.lit(known, 4))).delayed("ignored_2"),
        nack: is_any(outcome, &NACKS.map(|(outcome, _)| outcome)).delayed("nack_2"),
        reason: reason.delayed("reason_2"),
        not_ready: is_any(outcome, &[Outcome::NotReady]).delayed("not_ready_2"),
        first_of_gap: is_any(outcome, &[Outcome::SequenceFirst]).delayed("first_of_gap_2"),
        is_near: is_near.delayed("is_near_2"),
        at_once: ((operation.asked | operation.congested | duplicate | !is_near) & (is_new | duplicate))
            .delayed("at_once_2"),
        next_psn: (operation.cumulative + m.lit(1, 24)).delayed("next_psn_2"),
        psn_before: (operation.psn - m.lit(1, 24)).delayed("psn_before_2"),
        deadline: after(pacing.sack_timer_ns).delayed("deadline_2"),
        next_cnp: after(pacing.cnp_interval_ns).delayed("next_cnp_2"),
        acknowledges: (!operation.syndrome.part(5, 3).any()).delayed("acknowledges_2"),
    }
}

/// `psn` minus `origin` as a number of 16 bits with sign, limited: a distance of 2^23 and more is negative.
fn saturate<'a>(psn: Signal<'a>, origin: Signal<'a>) -> Signal<'a> {
    let distance = psn - origin;
    let sign = distance.msb();
    let fits = distance.part(15, 9).eq(sign.repeat(9));
    fits.mux(distance.part(0, 16), spraynic_rtl::cat(&[sign, (!sign).repeat(15)]))
}

/// Keeps the fields of `old` but where `change` is 1.
fn change<'a, B: Bundle<'a>>(next: &B, change: Signal<'a>, old: &B, new: &B) {
    for ((next, old), new) in next.signals().into_iter().zip(old.signals()).zip(new.signals()) {
        next.set(change.mux(new, old));
    }
}

/// Builds tables and judgement behind the entry.
pub(super) fn judge<'a>(
    m: Module<'a>,
    config: &NicConfig,
    entered: &Entered<'a>,
    pacing: Pacing<'a>,
    sweep: Sweep<'a>,
) -> Judged<'a> {
    let (count, index_bits) = (config.queue_pairs.count, config.qpn_bits());
    let valid_1 = m.reg("valid_1", 1).reset(0);
    let valid = m.reg("valid_2", 1).reset(0);
    valid_1.set(entered.enters);
    valid.set(valid_1);
    let ahead = Operation::regs(m, "ahead");
    ahead.set(&entered.operation);
    let operation = Operation::regs(m, "operation");
    operation.set(&ahead);
    // Their second copy is not needed: clock 1 made something else of them.
    for unread in [operation.outcome, operation.asked, operation.now, operation.qpn] {
        unread.ignore();
    }

    let queue_pair_of = |operation: &Operation<'a>| operation.qpn.part(0, index_bits);
    let space_of = |operation: &Operation<'a>| spraynic_rtl::cat(&[queue_pair_of(operation), operation.space]);
    let stages = [&entered.operation, &ahead, &operation];
    let stages_valid = [entered.enters, valid_1, valid];
    let staged = |word: &dyn Fn(&Operation<'a>) -> Signal<'a>| {
        let stage = |index: usize| Stage {
            valid: stages_valid[index],
            word: word(stages[index]),
        };
        [0, 1, 2].map(stage)
    };
    let of_queue_pair = Access::new(m, "of_queue_pair", &staged(&queue_pair_of));
    let of_space = Access::new(m, "of_space", &staged(&space_of));
    let queue_pairs = Table::<QueuePair<'_>>::new(m, "queue_pair", count, of_queue_pair, Some(sweep));
    let answers = Table::<LastAnswer<'_>>::new(m, "last_answer", count, of_queue_pair, None);
    let cnps = Table::<NextCnp<'_>>::new(m, "next_cnp", count, of_queue_pair, None);
    let spaces = Table::<Space<'_>>::new(m, "space", 2 * count, of_space, Some(sweep));
    let windows = Table::<Window<'_>>::new(m, "window", 2 * count, of_space, None);
    let lasts = Table::<LastPacket<'_>>::new(m, "last_packet", 2 * count, of_space, None);

    let ready = prepare(m, index_bits, &ahead, pacing);
    let queue_pair = queue_pairs.word;
    let is = |profile: Profile| queue_pair.profile.eq_lit(profile.code());
    let (roce, mrc) = (is(Profile::Roce).named("roce"), is(Profile::Mrc).named("mrc"));
    let receives = (queue_pair.receives & ready.in_table).named("queue_pair_receives");

    // Reports.
    let reported = (operation.report & receives & !ready.ignored).named("reported");
    let tracked = (reported & !roce).named("tracked");
    let coalesced = (tracked & ready.coalesces).named("coalesced");
    let space = spaces.word;
    let something_before = (!space.reported & space.packets.any()).named("something_before");
    // The comparisons are made before it is known whether the packet counts, so that no sum stands before them.
    let enough_packets = spaces.of_either(|space| {
        let some = space.packets.ge(ready.packets_before);
        space.reported.mux(ready.no_packets_before, some)
    });
    let enough_packets = enough_packets.named("enough_packets");
    let enough_bytes = spaces.of_either(|space| {
        let some = space.bytes.ge(ready.bytes_before) & ready.bytes_may_do;
        space.reported.mux(ready.no_bytes_before, some)
    });
    let enough_bytes = enough_bytes.named("enough_bytes");
    let report_sack =
        ((tracked & ready.at_once) | (coalesced & enough_packets) | (coalesced & enough_bytes)).named("report_sack");
    let nack = (tracked & ready.nack).named("nacks");

    // Probes and timers.
    let has_space = !roce & !operation.no_space & !(mrc & operation.space);
    let probed = (operation.probe & receives & has_space).named("probed");
    let expires =
        (operation.timer & operation.due & something_before & operation.epoch.eq(space.epoch)).named("expires");

    // A context write that changes whether the queue pair receives begins anew; the second half of it says so.
    let stays = operation.receives & queue_pair.receives;
    let written = (operation.context & ready.in_table).named("written");
    let begins = (written & !stays).named("begins_anew");

    // The comparison of bytes comes last.
    let at_once_near = tracked & ready.at_once & ready.is_near;
    let all_but_by_bytes =
        (at_once_near | (coalesced & enough_packets) | probed | expires | begins).named("all_but_by_bytes");
    let all_reported = (all_but_by_bytes | (coalesced & enough_bytes)).named("all_reported");
    let unreported = ((something_before | coalesced) & !all_reported).named("unreported");
    let still_in_ring = space.in_ring & !operation.timer;
    let starts = (unreported & !something_before).named("starts");
    let received = (tracked & ready.is_new).mux(space.received + operation.length.zero_extend(32), space.received);
    let received = received.gate(!begins).named("received_now");
    spaces.next.set(&Space {
        packets: space.packets.gate(!space.reported) + coalesced.zero_extend(8),
        bytes: space.bytes.gate(!space.reported) + operation.length.gate(coalesced).zero_extend(21),
        reported: all_reported,
        received,
        in_ring: still_in_ring | unreported,
        epoch: space.epoch + starts.zero_extend(3),
    });
    m.assert(
        "what_is_unreported_stands_in_the_ring",
        !(valid & something_before & !space.in_ring),
    );
    let noted = Window {
        cumulative: operation.context.mux(ready.psn_before, operation.cumulative),
        near: operation.near.gate(!operation.context),
        beyond_gap: operation.beyond_gap.gate(!operation.context),
    };
    change(&windows.next, tracked | begins, &windows.word, &noted);
    let last = LastPacket {
        psn: operation.psn,
        entropy: operation.entropy.gate(!operation.context),
        time_stamp: operation.time_stamp,
    };
    change(&lasts.next, coalesced | begins, &lasts.word, &last);

    // The words of the queue pair change with the second half.
    let second = operation.space;
    let fresh = QueuePair {
        receives: operation.receives,
        profile: operation.profile,
        peer: operation.peer,
        rnr_timer: operation.rnr_timer,
    };
    change(&queue_pairs.next, written & second & !stays, &queue_pair, &fresh);
    m.when(written & second & stays, || {
        queue_pairs.next.rnr_timer.set(operation.rnr_timer);
    });

    // Answers.
    let lit = |value: u8| m.lit(value, 8);
    let answered = (operation.answer & receives).named("answered");
    let last_answer = answers.word;
    let recorded = (answered & (ready.acknowledges | !roce)).named("recorded");
    let first_ack = (begins & !second).named("first_ack");
    answers.next.set(&LastAnswer {
        given: recorded.mux(m.high(), last_answer.given.gate(!begins)),
        psn: recorded.mux(operation.psn, first_ack.mux(ready.psn_before, last_answer.psn)),
        syndrome: recorded.mux(
            operation.syndrome,
            begins.mux(lit(Syndrome::ACK.byte()), last_answer.syndrome),
        ),
        msn: answered.mux(operation.msn, last_answer.msn.gate(!begins)),
    });

    // ACK and NAK.
    let sequence_nak = (reported & roce & ready.first_of_gap).named("sequence_nak");
    let rnr_nak = (reported & roce & ready.not_ready).named("rnr_nak");
    let repeats = (reported & roce & ready.duplicate & !operation.with_data).named("repeats");
    let gives_answer = (answered & !roce & !operation.silent).named("gives_answer");
    let aeth = sequence_nak | rnr_nak | repeats | gives_answer;
    let again = (probed & !operation.space & last_answer.given).named("again");

    // CNPs.
    let marked = reported & roce & operation.congested;
    let now = operation_time(m, &ahead);
    let may_cnp = cnps.of_either(|cnp| now.ge(cnp.from_ns)).named("cnp_interval_over");
    let cnp = (marked & may_cnp).named("gives_cnp");
    cnps.next
        .from_ns
        .set(cnp.mux(ready.next_cnp, cnps.word.from_ns.gate(!begins)));

    let rnr_syndrome = spraynic_rtl::cat(&[m.lit(RNR_NAK >> 5, 3), queue_pair.rnr_timer]);
    let nak = Syndrome::Nak(NakCode::PsnSequenceError);
    let syndrome = sequence_nak.mux(
        lit(nak.byte()),
        rnr_nak.mux(
            rnr_syndrome,
            operation.answer.mux(operation.syndrome, last_answer.syndrome),
        ),
    );
    let says_again = (repeats | operation.probe).named("says_again");
    let psn = sequence_nak.mux(ready.next_psn, says_again.mux(last_answer.psn, operation.psn));
    let offset = operation.probe.mux(
        operation.probe_id,
        operation
            .timer
            .mux(saturate(lasts.word.psn, windows.word.cumulative), ready.offset),
    );
    let stored = operation.probe | operation.timer;
    // In mrc the packet that ends a message need not be the one that completes it.
    let by_last = (operation.timer | (operation.answer & mrc)).named("by_path_of_last_packet");
    let due = Due {
        sack: report_sack | probed | expires,
        nack,
        aeth,
        cnp,
        again,
        mrc,
        marked: operation.congested & operation.report,
        probe: operation.probe,
        qpn: operation.qpn,
        space: operation.space,
        psn,
        offset,
        entropy: by_last.mux(lasts.word.entropy, operation.entropy),
        peer: queue_pair.peer,
        time_stamp: operation.timer.mux(lasts.word.time_stamp, operation.time_stamp),
        cumulative: stored.mux(windows.word.cumulative, operation.cumulative),
        far: operation.far.gate(operation.report),
        bitmap: stored.mux(windows.word.near, operation.bitmap),
        beyond_gap: stored.mux(windows.word.beyond_gap, operation.beyond_gap),
        received: received.part(8, 24),
        code: nack.mux(ready.reason, syndrome),
        msn: operation.answer.mux(operation.msn, last_answer.msn),
    };
    let registered = Due::regs(m, "due");
    registered.set(&due);
    let valid_3 = m.reg("valid_3", 1).reset(0);
    valid_3.set(valid);
    // Of an operation that is none, nothing is due.
    let kinds = [
        (registered.sack, due.sack),
        (registered.nack, due.nack),
        (registered.aeth, due.aeth),
        (registered.cnp, due.cnp),
        (registered.again, due.again),
    ];
    for (register, kind) in kinds {
        register.set(kind & valid);
    }

    // What takes effect, for a model that follows the order. Of a context, the second half is the whole.
    let context_done = operation.context & second;
    let kinds = cat_lsb_first(&[
        operation.report,
        operation.probe,
        operation.answer,
        context_done,
        operation.timer & expires,
    ]);
    observe(m, valid & kinds.any(), now, &operation, kinds);

    let event = |name: &str, event: Signal<'a>| (event & valid).delayed(name);
    let dropped = (operation.probe & !probed) | (operation.answer & !answered);
    count_when(
        m,
        Counter("timer_sacks", "SACKs of the timer"),
        event("timer_sack_3", expires),
    );
    count_when(
        m,
        Counter(
            "cnps_spared",
            "packets that met congestion within the interval of the last CNP",
        ),
        event("cnp_spared_3", marked & !may_cnp),
    );
    count_when(
        m,
        Counter(
            "drop_request",
            "probes and answers of a queue pair that does not receive, or of no space of it",
        ),
        event("drop_request_3", dropped),
    );
    let is_ack = !registered.code.part(5, 3).any();
    let given = |register: Signal<'a>| register & valid_3;
    count_when(
        m,
        Counter("acks", "ACKs given, repeated ones included"),
        given((registered.again | registered.aeth) & is_ack),
    );
    count_when(
        m,
        Counter("naks", "NAKs and RNR NAKs given, repeated ones included"),
        given((registered.again | registered.aeth) & !is_ack),
    );
    count_when(m, Counter("sacks", "SACKs given"), given(registered.sack));
    count_when(m, Counter("nacks", "NACKs given"), given(registered.nack));
    count_when(m, Counter("cnps", "CNPs given"), given(registered.cnp));

    Judged {
        valid: valid_3,
        due: registered,
        space: space_of(&operation).delayed("space_3"),
        joins_ring: event("joins_ring_3", unreported & !still_in_ring),
        changes: event("changes_3", starts | (something_before & !unreported)),
        unreported: unreported.delayed("unreported_3"),
        deadline: ready.deadline.delayed("deadline_3"),
        epoch: spaces.next.epoch.delayed("epoch_3"),
    }
}

/// The order of what takes effect, for a model that follows it: a stream that does not wait.
fn observe<'a>(m: Module<'a>, valid: Signal<'a>, now: Signal<'a>, operation: &Operation<'a>, kinds: Signal<'a>) {
    let events = Stream::master(
        m,
        "m_axis_event",
        EVENT_BITS,
        "what took effect, in order: time of entry (64 bits), QPN (24), space (1), then one bit each for a report, a probe, an answer, a context write, a timer's SACK; tready is not looked at",
    );
    let event = cat_lsb_first(&[now, operation.qpn, operation.space, kinds]);
    events.data.set(event.zero_extend(EVENT_BITS));
    events.valid.set(valid);
    events.ready.ignore();
}

/// The time at which the operation in judgement entered.
fn operation_time<'a>(m: Module<'a>, ahead: &Operation<'a>) -> Signal<'a> {
    let now = m.reg("now_2", 64);
    now.set(ahead.now);
    now
}
