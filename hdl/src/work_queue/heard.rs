//! Steps of what is heard from the network, and of what follows from it: requests that end, and queue pairs that fail.

use super::engine::{Engine, Step};
use super::slice::Part;
use crate::counter::{Counter, count_when};
use spraynic_config::Profile;
use spraynic_config::descriptor::CompletionStatus;
use spraynic_rtl::Signal;

/// Builds the steps.
pub(super) fn steps<'a>(e: &Engine<'a>, part: &Part<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let flush = Flush {
        named: e
            .m
            .reg("flush_named", 1)
            .doc("one request ends with another status than flushed"),
        place: e.m.reg("flush_place", e.sizes.place()),
        status: e.m.reg("flush_status", 8),
    };
    // A context fails its queue pair without naming a request.
    e.m.when(at(Step::Execute), || flush.named.set_lit(0));
    progress(e, at);
    clear_lost(e, at);
    resend(e, part, at);
    find(e, part, &flush, at);
    response(e, &flush, at);
    flush_steps(e, &flush, at);
}

/// Which request a failure names, and its status.
struct Flush<'a> {
    named: Signal<'a>,
    place: Signal<'a>,
    status: Signal<'a>,
}

fn heard<'a>(e: &Engine<'a>, at: &impl Fn(Step) -> Signal<'a>, kind: Signal<'a>, then: Step) {
    let sends = e.q("state").eq_lit(3) & !e.beyond;
    e.m.when(at(Step::Execute) & kind, || {
        e.m.when(sends, || e.go(then)).otherwise(|| e.go(Step::Choose));
    });
}

fn progress<'a>(e: &Engine<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    heard(e, at, e.kind.progress, Step::ProgressJudged);
    // The oldest request may end.
    m.when(at(Step::Execute) & e.kind.progress, || e.fetch_slot(e.q("head")));
    // Registered in each clock; what is loaded stands still from the step before on.
    let offset = |name: &str, psn: Signal<'a>| e.offset(psn).delayed(&format!("{name}_offset"));
    let sent = offset("sent", e.q("next_psn"));
    let base_now = offset("base_now", e.q("base"));
    let done_now = offset("done_now", e.q("done"));
    let cut = offset("cut", e.q("cut_psn"));
    let reached = |name: &str| {
        let at = offset(name, e.progress.get(name));
        let beyond = sent.lt(at);
        // What lags behind the oldest request counts as that.
        (at.gate(!beyond), !beyond | at.msb())
    };
    let ((base, base_good), (done, done_good)) = (reached("base"), reached("done"));
    let judged = at(Step::ProgressJudged);
    // PSNs of responses say nothing of requests: of theirs only a failure comes here.
    let own = !e.progress.get("space");
    let credible = (base_good & done_good).named("progress_credible");
    let good = own & credible;
    // What is done has been received.
    let to_now = base.lt(done).mux(done, base).named("progress_to_now");
    let to = to_now.delayed("progress_to");
    let done_2 = done.delayed("progress_done");
    let advances_now = good & (base_now.lt(base) | base_now.lt(done));
    let done_advances_now = good & done_now.lt(done);
    let advances = advances_now.delayed("base_advances");
    let done_advances = done_advances_now.delayed("done_advances");
    let cut_lags = cut.delayed("cut_offset_2");
    m.when(judged, || {
        e.slot_load.set_lit(1);
        e.go(Step::ProgressTaken);
    });
    m.when(at(Step::ProgressTaken), || {
        m.when(own, || e.q("waits").set(e.progress.get("wait")));
        m.when(done_advances, || e.q("done").set(e.q("head_psn") + done_2));
        m.when(advances, || {
            let base = e.q("head_psn") + to;
            e.q("base").set(base);
            m.when(cut_lags.lt(to), || e.q("cut_psn").set(base));
        });
    });
    count_when(
        m,
        Counter("drop_progress", "progress of what was not sent"),
        judged & own & !credible,
    );
    let reached = Reached {
        base: advances_now.mux(to_now, base_now).delayed("base_reached"),
        done: done_advances_now.mux(done, done_now).delayed("done_reached"),
        clears: advances & e.q("lost_words").any(),
    };
    retire(e, &reached, at);
    e.progress.get("reserved_0").ignore();
}

/// What the progress at hand says, counted from the oldest request.
struct Reached<'a> {
    base: Signal<'a>,
    done: Signal<'a>,
    /// Bits of lost packets are to be taken back first.
    clears: Signal<'a>,
}

/// What was acknowledged meanwhile is not sent again: the bits from the old base to the new one are taken back, a word at a time.
fn clear_lost<'a>(e: &Engine<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let from = m.reg("clear_from", 24).doc("first PSN whose bit is to be taken back");
    m.when(at(Step::ProgressJudged), || from.set(e.q("base")));
    let left = (e.q("base") - from).named("clear_left");
    let bit = from.part(0, 6);
    let to_boundary = (m.lit(64, 7) - bit.zero_extend(7)).named("clear_to_boundary");
    let ends = left.le(to_boundary.zero_extend(24));
    let above = m.lit(u64::MAX, 64) << bit;
    let end = (bit.zero_extend(7) + left.part(0, 7)).named("clear_end");
    let below = end.bit(6).mux(m.lit(0, 64), m.lit(u64::MAX, 64) << end.part(0, 6));
    let mask = (above & !below.gate(ends)).named("clear_mask");
    let kept = e.lost.data & !mask;
    m.when(at(Step::ClearLost), || {
        e.lost.word.set(e.word_of(from));
        m.when(left.any(), || e.go(Step::ClearLostRead))
            .otherwise(|| e.go(Step::Retire));
    });
    m.when(at(Step::ClearLostRead), || {
        e.lost.read.set_lit(1);
        e.go(Step::ClearLostWrite);
    });
    m.when(at(Step::ClearLostWrite), || {
        e.lost.write.set_lit(1);
        e.lost.value.set(kept);
        // A word without its flag holds nothing, whatever stands in it.
        e.set_lost_flag(e.lost.word, e.lost_flag(e.lost.word) & kept.any());
        from.set(ends.mux(e.q("base"), from + to_boundary.zero_extend(24)));
        e.go(Step::ClearLost);
    });
}

fn resend<'a>(e: &Engine<'a>, part: &Part<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    heard(e, at, e.kind.resend, Step::ResendJudged);
    let psn = e.resend.get("psn");
    let wanted = e.offset(psn).delayed("resend_offset");
    let base = e.offset(e.q("base")).delayed("resend_base_offset");
    let sent = e.offset(e.q("next_psn")).delayed("resend_sent_offset");
    let cut = e.offset(e.q("cut_psn")).delayed("resend_cut_offset");
    let good = (base.le(wanted) & wanted.lt(sent)).named("resend_credible");
    let roce = e.q("profile").eq_lit(Profile::Roce.code());
    let judged = at(Step::ResendJudged);

    // The slot that the resend names is in the registers: is it that of the packet?
    let (place, in_ring) = e.place_of_slot(e.resend.get("slot"), e.q("tail"));
    let place = place.delayed("resend_place");
    let in_ring = in_ring.delayed("resend_slot_in_ring");
    let (index, within, ends) = e.in_slot(psn);
    let (within, ends) = (within.delayed("resend_in_slot"), ends.delayed("resend_ends_slot"));
    let index = index.delayed("resend_index");
    m.when(judged, || {
        e.q("waits").set_lit(0);
        e.go(Step::Wake);
        m.when(good & !roce, || {
            e.mark_lost(psn);
            e.lost.found.set(m.lit(1, 64) << psn.part(0, 6));
            part.lost_packet(psn, index, ends);
            e.walk.set(place);
            e.known.set(within & in_ring & !e.q("lost_words").any());
        });
        m.when(good & roce & wanted.lt(cut), || {
            e.walk.set(e.q("head"));
            e.go(Step::Find);
        });
    });
    m.when(at(Step::Execute), || e.known.set_lit(0));
    count_when(
        m,
        Counter("drop_resend", "PSNs to be sent again that are not outstanding"),
        judged & !good,
    );
    for name in ["rewind", "space", "reserved_0"] {
        e.resend.get(name).ignore();
    }
}

/// Looks for the request of a PSN, from `walk` on: of a resend of roce, a failure, or a lost packet.
fn find<'a>(e: &Engine<'a>, part: &Part<'a>, flush: &Flush<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let lost = m.reg("lost_psn", 24).doc("PSN that is sent again now");
    let psn = e
        .kind
        .resend
        .mux(e.resend.get("psn"), e.kind.slice.mux(lost, e.q("done")));
    let psn = psn.named("find_psn");
    let (index, within, ends) = e.in_slot(psn);
    let none = e.walk.eq(e.q("tail")).delayed("find_none");
    m.when(at(Step::Find), || e.read_slot(e.walk, Step::Found));
    m.when(at(Step::Found), || {
        m.when(!within & !none, || {
            e.read_slot(e.walk + e.walk.lit(1), Step::Found);
        })
        .otherwise(|| {
            m.when(e.kind.resend, || {
                e.q("cut").set(e.walk);
                e.q("cut_psn").set(psn);
                e.go(Step::Wake);
            })
            .else_when(e.kind.slice, || {
                part.lost_packet(psn, index, ends);
                e.go(Step::CutBytes);
            })
            .otherwise(|| {
                flush.named.set_lit(1);
                flush.place.set(none.mux(e.q("head"), e.walk));
                flush.status.set(e.progress.get("status"));
                e.go(Step::Flush);
            });
        });
    });
    // The scan of lost packets leaves its PSN here.
    m.when(at(Step::ScanLostFound), || lost.set(super::slice::scanned_psn(e)));
}

fn response<'a>(e: &Engine<'a>, flush: &Flush<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let sends = e.q("state").eq_lit(3) & !e.beyond;
    let (place, sent) = e.place_of_slot(e.response.get("slot"), e.q("frontier"));
    let possible = sent.delayed("response_possible");
    m.when(at(Step::Execute) & e.kind.response, || {
        m.when(sends, || e.read_slot(place, Step::ResponseJudged))
            .otherwise(|| e.go(Step::Choose));
    });
    let good = possible & e.slot.get("responds") & !e.slot.get("wrong") & !e.responded;
    let failed = e.response.get("status").any();
    let judged = at(Step::ResponseJudged);
    m.when(judged, || {
        m.when(!good, || e.go(Step::Choose))
            .else_when(failed, || {
                flush.named.set_lit(1);
                flush.place.set(e.walk);
                flush.status.set(e.response.get("status"));
                e.go(Step::Flush);
            })
            .otherwise(|| {
                e.responded_write[0].set_lit(1);
                e.responded_write[1].set(e.slot_of(e.walk));
                e.responded_write[2].set_lit(1);
                e.q("reads").set(e.q("reads") - e.q("reads").lit(1));
                e.go(Step::Retire);
            });
    });
    count_when(
        m,
        Counter("drop_response", "responses of no outstanding READ or atomic"),
        judged & !good,
    );
}

/// Requests that have ended complete, the oldest first; the slot of the next one is read meanwhile. Progress finds the oldest one in the
/// registers.
fn retire<'a>(e: &Engine<'a>, progress: &Reached<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let (head, tail) = (e.q("head"), e.q("tail"));
    let none = head.eq(tail).named("no_request");
    let next = head + head.lit(1);
    m.when(at(Step::Retire), || {
        m.when(none, || after_retire(e))
            .otherwise(|| e.read_slot(head, Step::RetireJudged));
    });
    let taken = at(Step::ProgressTaken);
    let psns = e.slot.get("psns");
    let (wrong, responds) = (e.slot.get("wrong"), e.slot.get("responds"));
    let received = psns.le(taken.mux(progress.base, e.offset(e.q("base"))));
    let done = psns.le(taken.mux(progress.done, e.offset(e.q("done"))));
    let ends = (responds & !wrong)
        .mux(e.responded & received, done)
        .named("request_ends");
    let ended = m.reg("request_ended", 1);
    let done_lags = m.reg("done_lags", 1);
    m.when(taken | at(Step::RetireJudged), || {
        ended.set(ends);
        done_lags.set(!done);
        e.fetch_slot(next);
        e.go(Step::Retired);
    });
    m.when(taken, || {
        m.when(progress.clears, || e.go(Step::ClearLost))
            .else_when(none | !ends, || after_retire(e));
    });
    let request = e.slot_request();
    let wanted = wrong | request.get("signalled");
    m.when(at(Step::Retired), || {
        m.when(!ended, || after_retire(e)).else_when(!wanted | e.can_give, || {
            m.when(wanted, || {
                let status = e.status(CompletionStatus::LocalInvalidRequest).gate(wrong);
                e.complete(&request, status);
            });
            let head_psn = e.q("head_psn") + psns;
            e.q("head_psn").set(head_psn);
            // A READ can end before `done` has passed it.
            m.when(done_lags, || e.q("done").set(head_psn));
            for name in ["cut", "frontier"] {
                m.when(e.q(name).eq(head), || e.q(name).set(next));
            }
            head.set(next);
            e.slot_load.set_lit(1);
            m.when(next.eq(tail), || after_retire(e))
                .otherwise(|| e.go(Step::RetireJudged));
        });
    });
}

fn after_retire(e: &Engine<'_>) {
    let fails = e.kind.progress & e.progress.get("failed");
    e.m.when(fails, || {
        e.walk.set(e.q("head"));
        e.go(Step::Find);
    })
    .otherwise(|| e.go(Step::Wake));
}

/// All requests end: the one that is named with its status, the others flushed.
fn flush_steps<'a>(e: &Engine<'a>, flush: &Flush<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    m.when(at(Step::Flush), || {
        m.when(e.q("head").eq(e.q("tail")), || {
            e.forget();
            m.when(!e.kind.context, || e.q("state").set_lit(4));
            e.go(Step::Choose);
        })
        .otherwise(|| e.read_slot(e.q("head"), Step::FlushGive));
    });
    m.when(at(Step::FlushGive) & e.can_give, || {
        let named = flush.named & flush.place.eq(e.q("head"));
        let status = named.mux(flush.status, e.status(CompletionStatus::Flushed));
        e.complete(&e.slot_request(), status);
        e.q("head").set(e.q("head") + e.q("head").lit(1));
        e.go(Step::Flush);
    });
}
