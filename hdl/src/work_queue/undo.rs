//! Steps of a refusal: a slice changes its queue pair when it is asked for; here that is taken back. What happened meanwhile stays: requests
//! that were posted. Nothing else happens to a queue pair whose slices are not settled.

use super::engine::{Engine, Step};
use spraynic_config::descriptor::QueuePairState;
use spraynic_rtl::Signal;

/// Builds the steps.
pub(super) fn steps<'a>(e: &Engine<'a>, at: &impl Fn(Step) -> Signal<'a>) {
    let m = e.m;
    let undo = |name: &str| e.asked.undo.get(name);
    m.when(at(Step::UndoLoad), || {
        e.lost.word.set(e.word_of(undo("psn")));
        e.go(Step::UndoLoaded);
    });
    m.when(at(Step::UndoLoaded), || {
        e.lost.read.set_lit(1);
        e.go(Step::Undo);
    });
    // Of slices that followed each other the first one says where the cut goes back to.
    let cut_undone = m.reg("cut_undone", 1).doc("the cut went back for a slice before");
    let next_undone = m
        .reg("next_undone", 1)
        .doc("what was never sent went back for a slice before");
    let follower = e.asked.follower;
    let (lost, new) = (undo("lost"), undo("new"));
    m.when(at(Step::Undo), || {
        e.asked.undone();
        e.known.set_lit(0);
        m.when(lost, || e.mark_lost(undo("psn")));
        m.when(!lost & !(follower & cut_undone), || {
            e.q("cut").set(undo("place"));
            e.q("cut_psn").set(undo("psn"));
        });
        m.when(new & !(follower & next_undone), || {
            e.q("frontier").set(undo("place"));
            e.q("next_psn").set(undo("psn"));
        });
        cut_undone.set(!lost | (follower & cut_undone));
        next_undone.set(new | (follower & next_undone));
        let responds = (new & undo("responds")).zero_extend(5);
        e.q("reads").set(e.q("reads") - responds);
        let cost = undo("cost").zero_extend(super::state::DEFICIT_BITS);
        e.q("deficit").set(e.q("deficit") + cost);
        e.q("turn_over").set_lit(0);
        e.turns.pay_back(e.q("class"), cost);
        m.when(!follower, || {
            m.when(e.asked.by_class, || e.turns.rest(e.q("class")))
                .otherwise(|| e.q("refused").set_lit(1));
        });
        e.go(Step::Wake);
    });
    let sends = e.q("state").eq_lit(QueuePairState::ReadyToSend as u8);
    m.assert("only_who_sends_is_refused", !at(Step::Undo) | sends);
}
