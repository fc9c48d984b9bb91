//! Steps of contexts, of responses that come, and of what is heard from the network.

use super::engine::{Engine, Step};
use crate::counter::{Counter, count_when};
use crate::payload_writer::receives;
use spraynic_config::{NicConfig, Profile};
use spraynic_rtl::Signal;

/// Builds the steps.
pub(super) fn steps<'a>(e: &Engine<'a>, config: &NicConfig, at: &impl Fn(Step) -> Signal<'a>) {
    context(e, config, at);
    take(e, config, at);
    progress(e, at);
    clear(e, at);
    retire(e, at);
    resend(e, at);
    e.m.when(at(Step::Execute) & e.kind.due, || {
        e.q("listed").set_lit(0);
        e.go(Step::Wake);
    });
}

/// A context opens, changes or closes its queue pair.
fn context<'a>(e: &Engine<'a>, config: &NicConfig, at: &impl Fn(Step) -> Signal<'a>) {
    let solar = e.context.get("profile").eq_lit(Profile::Solar.code());
    let opens = receives(e.context.get("state")) & solar;
    let window = e.context.get("window");
    let window = window.any().mux(window, window.lit(1));
    let most = window.lit(config.send.window);
    e.m.when(at(Step::Execute) & e.kind.context, || {
        e.m.when(e.beyond, || e.go(Step::Choose))
            .else_when(!opens, || {
                e.q("receives").set_lit(0);
                e.go(Step::Store);
            })
            .otherwise(|| {
                e.q("receives").set_lit(1);
                e.q("class").set(e.context.get("class"));
                e.q("window").set(window.gt(most).mux(most, window));
                e.m.when(e.closed, || {
                    for name in ["base", "floor", "next", "end"] {
                        e.q(name).set(e.context.get("sent_response_psn"));
                    }
                    for name in ["head", "count", "sending", "given", "lost_words"] {
                        e.q(name).set_lit(0);
                    }
                });
                e.go(Step::Wake);
            });
    });
}

/// A response is kept, if need be in the place of the oldest one.
fn take<'a>(e: &Engine<'a>, config: &NicConfig, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    // Registered in each clock; what is loaded stands still from the step before on.
    let follows = e.taken.get("psn").eq(e.q("end")).delayed("message_follows");
    let full = e.q("count").eq_lit(config.send.reads).delayed("queue_is_full");
    let has_left = e.q("sending").any().delayed("oldest_has_left");
    let executes = at(Step::Execute) & e.kind.message;
    let judged = at(Step::TakeJudged);
    m.when(executes, || {
        e.go(Step::TakeJudged);
        m.when(e.closed, || e.go(Step::Choose));
    });
    m.when(judged, || {
        m.when(!follows | (full & !has_left), || e.go(Step::Choose))
            .else_when(full, || e.go(Step::TakeForget))
            .otherwise(|| e.go(Step::Choose));
    });
    // The peer asks for more only when it has an older response in full: it is acknowledged by that.
    let forgets = at(Step::TakeForget);
    m.when(forgets, || {
        e.forget_oldest();
        e.lost.clear_from(e.q("floor"));
        e.q("floor").set(e.message.get("psn") + e.message.get("packets"));
        e.go(Step::TakeStore);
        m.when(e.lost.any(), || e.go(Step::Clear));
    });
    let stores = at(Step::TakeStore) | (judged & follows & !full);
    m.when(at(Step::TakeStore), || e.go(Step::Choose));
    e.keep.set(stores);
    for (name, doc, event) in [
        ("responses", "responses taken", stores),
        (
            "implied",
            "responses forgotten, because the peer asked for one more than the queue pair holds",
            forgets,
        ),
        (
            "drop_queue_pair",
            "responses dropped: no such queue pair, or it does not receive",
            executes & e.closed,
        ),
        (
            "drop_sequence",
            "responses dropped: their first PSN does not follow the last response",
            judged & !follows,
        ),
        (
            "drop_full",
            "responses dropped: the queue pair holds as many as it can, and none has left",
            judged & follows & full & !has_left,
        ),
    ] {
        count_when(m, Counter(name, doc), event);
    }
}

/// The peer has more.
fn progress<'a>(e: &Engine<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    m.when(at(Step::Execute) & e.kind.progress, || {
        e.go(Step::ProgressJudged);
        m.when(e.closed, || e.go(Step::Choose));
    });
    let base = e.progress.get("base");
    let ahead = (base - e.q("base")).delayed("progress_ahead");
    let given = (e.q("next") - e.q("base")).delayed("progress_given");
    let floor_ahead = (e.q("floor") - e.q("base")).delayed("floor_ahead");
    let beyond = given.lt(ahead).named("progress_beyond");
    let judged = at(Step::ProgressJudged);
    let advances = (!beyond).delayed("progress_advances");
    let raises = floor_ahead.lt(ahead).delayed("floor_rises");
    m.when(judged, || e.go(Step::ProgressTaken));
    m.when(at(Step::ProgressTaken), || {
        e.go(Step::Wake);
        m.when(e.progress.get("failed"), || {
            e.q("receives").set_lit(0);
            e.go(Step::Store);
        })
        .else_when(advances, || {
            e.q("base").set(base);
            m.when(raises, || {
                e.lost.clear_from(e.q("floor"));
                e.q("floor").set(base);
                e.go(Step::Retired);
                m.when(e.lost.any(), || e.go(Step::Clear));
            });
        });
    });
    // What lags is no news.
    count_when(
        m,
        Counter("drop_progress", "progress of what was not sent"),
        judged & beyond & !ahead.msb(),
    );
}

/// What the floor has passed is not given again: its bits are taken back, a word at a time.
fn clear<'a>(e: &Engine<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    m.when(at(Step::Clear), || {
        let done = e.lost.clear_next(e.q("floor"));
        e.go(Step::ClearRead);
        m.when(done, || {
            e.go(Step::RetireJudged);
            m.when(e.kind.message, || e.go(Step::TakeStore));
        });
    });
    m.when(at(Step::ClearRead), || {
        e.lost.fetch();
        e.go(Step::ClearWrite);
    });
    m.when(at(Step::ClearWrite), || {
        e.lost.clear_word(e.q("floor"));
        e.go(Step::Clear);
    });
}

/// Responses that the floor has passed are the peer's. The oldest one has been read; the next one is, while the one before is judged.
fn retire<'a>(e: &Engine<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    // The first time it is judged while the floor rises.
    let floor = at(Step::ProgressTaken).mux(e.progress.get("base"), e.q("floor"));
    let passed = (floor - e.message.get("psn")).ge(e.message.get("packets"));
    let ended = passed.delayed("response_ended");
    m.when(at(Step::RetireJudged), || e.go(Step::Retired));
    m.when(at(Step::Retired), || {
        e.go(Step::Wake);
        m.when(ended & e.q("count").any(), || {
            e.forget_oldest();
            e.go_to_next_message();
            e.go(Step::RetireJudged);
        });
    });
}

/// A packet is to be given again.
fn resend<'a>(e: &Engine<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let psn = e.resend.get("psn");
    let ahead = (psn - e.q("floor")).delayed("resend_ahead");
    let given = (e.q("next") - e.q("floor")).delayed("resend_given");
    let good = ahead.lt(given).named("resend_credible");
    let judged = at(Step::ResendJudged);
    m.when(at(Step::Execute) & e.kind.resend, || {
        e.lost.go_to(psn);
        e.go(Step::ResendJudged);
        m.when(e.closed, || e.go(Step::Choose));
    });
    m.when(judged, || {
        e.lost.fetch();
        e.go(Step::Choose);
        m.when(good, || e.go(Step::MarkWrite));
    });
    m.when(at(Step::MarkWrite), || {
        e.lost.mark(psn);
        e.go(Step::Wake);
    });
    count_when(
        m,
        Counter(
            "drop_resend",
            "PSNs to be given again that are acknowledged or were not given",
        ),
        judged & !good,
    );
}
