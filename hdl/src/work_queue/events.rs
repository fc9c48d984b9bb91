//! Steps of requests and contexts.

use super::engine::{Engine, Step};
use crate::counter::{Counter, count_when};
use crate::packet_slicer::admission;
use spraynic_config::NicConfig;
use spraynic_config::descriptor::{CompletionStatus, QueuePairState};
use spraynic_rtl::{Signal, cat_lsb_first};

/// Builds the steps.
pub(super) fn steps<'a>(e: &Engine<'a>, config: &NicConfig, at: &impl Fn(Step) -> Signal<'a>) {
    context(e, config, at);
    post(e, config, at);
    let execute = at(Step::Execute);
    e.m.when(execute & e.kind.due, || {
        e.q("listed").set_lit(0);
        e.go(Step::Wake);
    });
}

/// A context opens, changes, resets or fails its queue pair.
fn context<'a>(e: &Engine<'a>, config: &NicConfig, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let state = e.context.get("state");
    let is = |signal: Signal<'a>, wanted: QueuePairState| signal.eq_lit(wanted as u8);
    let unknown = state.gt(m.lit(QueuePairState::Error as u8, 3));
    let executes = (at(Step::Execute) & e.kind.context).named("context_executes");
    let refused = executes & (e.beyond | unknown);
    let sends = is(e.q("state"), QueuePairState::ReadyToSend);
    let opens = is(state, QueuePairState::ReadyToSend);
    let limit = |value: Signal<'a>, most: u32| {
        let most = value.lit(most);
        value.gt(most).mux(most, value)
    };
    m.when(executes, || {
        m.when(e.beyond | unknown, || e.go(Step::Choose)).otherwise(|| {
            e.q("state").set(state);
            e.go(Step::Choose);
            m.when(opens, || {
                for name in ["timestamps", "weight", "entropy"] {
                    e.q(name).set(e.context.get(name));
                }
                e.q("reads_allowed")
                    .set(limit(e.context.get("reads"), config.send.reads));
                let window = e.context.get("window");
                let window = window.any().mux(window, window.lit(1));
                e.q("window").set(limit(window, config.send.window));
                e.go(Step::Wake);
                m.when(!sends, || {
                    for name in ["profile", "mtu", "class"] {
                        e.q(name).set(e.context.get(name));
                    }
                    for name in ["head_psn", "base", "done", "cut_psn", "next_psn", "post_psn"] {
                        e.q(name).set(e.context.get("psn"));
                    }
                    for name in [
                        "head",
                        "cut",
                        "frontier",
                        "tail",
                        "msn",
                        "rqmsn",
                        "reads",
                        "lost_words",
                        "waits",
                        "refused",
                        "turn_over",
                    ] {
                        e.q(name).set_lit(0);
                    }
                    e.q("deficit").set(super::turns::nothing(m));
                });
            })
            .else_when(is(state, QueuePairState::Reset), || e.forget())
            .otherwise(|| e.go(Step::Flush));
        });
    });
    count_when(
        m,
        Counter(
            "drop_context",
            "context writes for a queue pair beyond the table, or of no known state",
        ),
        refused,
    );
}

/// A request is checked and takes a slot, or completes at once.
fn post<'a>(e: &Engine<'a>, config: &NicConfig, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let executes = (at(Step::Execute) & e.kind.post).named("post_executes");
    let state = e.q("state");
    let none = e.beyond | state.eq_lit(QueuePairState::Reset as u8);
    let sends = state.eq_lit(QueuePairState::ReadyToSend as u8);
    let full = (e.q("tail") - e.q("head")).msb();
    let rights = cat_lsb_first(&[m.high(), e.q("profile"), e.q("mtu")]);
    let checks = admission::check(m, config, e.request.pack(), rights, m.high());
    let responds = !admission::Decoded::new(&e.request).has_payload();
    // A READ or atomic that the peer cannot hold.
    let not_allowed = checks.good & responds & !e.q("reads_allowed").any();
    let checked = at(Step::PostChecked);
    let [good, psns, not_allowed_2] = [
        (checks.good & !not_allowed).delayed("request_good_2"),
        checks.psns.delayed("request_psns_2"),
        not_allowed.delayed("not_allowed_2"),
    ];
    let mrc = checks.mrc;
    m.when(executes, || {
        m.when(none, || e.go(Step::Choose))
            .else_when(sends & !full, || e.go(Step::PostChecked))
            .else_when(e.can_give, || {
                let status = sends.mux(
                    e.status(CompletionStatus::QueueFull),
                    e.status(CompletionStatus::Flushed),
                );
                e.complete(&e.request, status);
                e.go(Step::Choose);
            });
    });
    m.when(checked, || {
        e.slot_write[0].set_lit(1);
        e.slot_write[1].set(e.slot_of(e.q("tail")));
        let word = [
            e.request.pack(),
            e.q("post_psn"),
            psns.gate(good),
            e.q("msn"),
            e.q("rqmsn"),
            responds,
            !good,
        ];
        e.slot_write[2].set(cat_lsb_first(&word));
        e.responded_write[0].set_lit(1);
        e.responded_write[1].set(e.slot_of(e.q("tail")));
        e.q("tail").set(e.q("tail") + e.q("tail").lit(1));
        m.when(good, || {
            e.q("post_psn").set(e.q("post_psn") + psns);
            let immediate = e.request.get("inline_immediate");
            e.q("msn").set(e.q("msn") + mrc.zero_extend(16));
            e.q("rqmsn").set(e.q("rqmsn") + (mrc & immediate).zero_extend(16));
            e.go(Step::Wake);
        })
        // It may be the oldest.
        .otherwise(|| e.go(Step::Retire));
    });

    let count = |name, doc, event| count_when(m, Counter(name, doc), event);
    count("messages", "requests accepted", checked & good);
    count(
        "drop_queue_pair",
        "requests for a queue pair that is beyond the table or in RESET",
        executes & none,
    );
    let refused = executes & !none & sends & full & e.can_give;
    count("drop_full", "requests that found no slot", refused);
    for (name, doc, reason) in checks.drops {
        match name {
            "drop_queue_pair" => reason.ignore(),
            "drop_opcode" => count(name, doc, checked & (reason | not_allowed_2)),
            _ => count(name, doc, checked & reason),
        }
    }
}
