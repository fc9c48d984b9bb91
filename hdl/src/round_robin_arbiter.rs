//! `round_robin_arbiter`: one of several requesters, the next one after the last that was granted.
//!
//! It never grants who did not ask and never withholds a grant while someone asks. The grant follows the requests in the same
//! clock. Theory of operation: `docs/src/blocks/round_robin_arbiter.md`.

use spraynic_rtl::{Context, Definition, Module, Signal, cat_lsb_first};

/// Name of the block.
pub const NAME: &str = "round_robin_arbiter";

/// The arbiter among `requesters`. Ports: `request`, one bit each; `advance`, the grant is used in this clock, so the next one
/// is someone else's turn; `grant`, one-hot or 0; `granted`, there is a grant.
///
/// # Panics
/// When `requesters` is 0.
#[must_use]
pub fn round_robin_arbiter(context: &Context, requesters: u32) -> Definition<'_> {
    let m = context.module(&format!("{NAME}_n{requesters}"));
    m.doc(&format!(
        "Round robin among {requesters} requesters: the first that asks after the last one granted, else the first from 0."
    ));
    let request = m.input("request", requesters).doc("who asks");
    let advance = m.input("advance", 1).doc("the grant is used in this clock");
    let grant = m
        .output("grant", requesters)
        .doc("who is granted: one-hot, or 0 where nobody asks");
    let granted = m.output("granted", 1).doc("somebody is granted");
    granted.set(request.any());
    if requesters == 1 {
        grant.set(request);
        advance.ignore();
        return m.finish();
    }

    // Requester 0 is never behind the last one granted, so it has no bit.
    let behind = m
        .reg("behind_last", requesters - 1)
        .reset(0)
        .doc("requesters 1 and up: this one comes after the last one granted");
    let behind_last = cat_lsb_first(&[m.low(), behind]);
    let preferred = (request & behind_last).named("preferred");
    let any_preferred = preferred.any().named("any_preferred");

    // Groups of requesters, so that the long way (is anybody before this group?) runs beside the choice between
    // `preferred` and `request`, and both meet in the last level.
    let blocked = any_preferred
        .mux(any_below(any_of_groups(preferred)), any_below(any_of_groups(request)))
        .named("somebody_before_this_group");
    let candidates = any_preferred.mux(preferred, request).named("candidates");
    let below = groups_of(candidates)
        .zip(blocked.to_bits())
        .flat_map(|(group, blocked)| {
            (0..group.width()).map(move |index| {
                if index == 0 {
                    blocked
                } else {
                    blocked | group.part(0, index).any()
                }
            })
        })
        .collect::<Vec<_>>();
    let below = cat_lsb_first(&below).named("somebody_before");
    grant.set(candidates & !below);
    m.when(advance & granted, || behind.set(below.slice(requesters - 1, 1)));

    m.assert("grant_is_one_hot", (grant & (grant - grant.lit(1))).eq_lit(0));
    m.assert("only_who_asks_is_granted", (grant & !request).eq_lit(0));
    m.assert("who_asks_gets_a_grant", grant.any().eq(request.any()));
    m.finish()
}

/// Puts an arbiter named `name` among the bits of `request`; returns the one-hot grant. `advance`: the grant is used.
#[must_use]
#[track_caller]
pub fn arbitrate<'a>(m: Module<'a>, name: &str, request: Signal<'a>, advance: Signal<'a>) -> Signal<'a> {
    let instance = m
        .instance(name, round_robin_arbiter(m.context(), request.width()))
        .connect("request", request)
        .connect("advance", advance);
    instance.output("granted").ignore();
    instance.output("grant")
}

/// Requesters of a group: three, with their place behind the last one granted, are the inputs of one 6-input LUT.
const GROUP: u32 = 3;

/// The vector in groups, the last one perhaps smaller.
fn groups_of(vector: Signal<'_>) -> impl Iterator<Item = Signal<'_>> {
    let width = vector.width();
    (0..width)
        .step_by(GROUP as usize)
        .map(move |low| vector.part(low, GROUP.min(width - low)))
}

/// Whether any bit of each group is set.
fn any_of_groups(vector: Signal<'_>) -> Signal<'_> {
    cat_lsb_first(&groups_of(vector).map(Signal::any).collect::<Vec<_>>())
}

/// For each bit, whether any bit below it is set: groups, and the same again for what groups say.
fn any_below(vector: Signal<'_>) -> Signal<'_> {
    let outside = if vector.width() > GROUP {
        any_below(any_of_groups(vector)).to_bits()
    } else {
        vec![vector.module().low()]
    };
    let bits = groups_of(vector).zip(outside).flat_map(|(group, outside)| {
        (0..group.width()).map(move |index| {
            if index == 0 {
                outside
            } else {
                outside | group.part(0, index).any()
            }
        })
    });
    cat_lsb_first(&bits.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use spraynic_rtl::Evaluator;

    use super::*;

    #[test]
    fn the_next_after_the_last_granted_comes_first() {
        let context = Context::new();
        let mut sim = Evaluator::new(round_robin_arbiter(&context, 4));
        sim.reset();
        sim.set("advance", 1);
        for (request, grant) in [
            (0b1111, 0b0001),
            (0b1111, 0b0010),
            (0b1111, 0b0100),
            (0b1111, 0b1000),
            (0b0100, 0b0100),
            (0b0101, 0b0001),
            (0b0000, 0b0000),
            (0b0011, 0b0010),
            (0b0001, 0b0001),
        ] {
            sim.set("request", request);
            assert_eq!(sim.get_u64("grant"), grant, "request {request:#b}");
            assert_eq!(sim.get_u64("granted"), u64::from(grant != 0));
            sim.clock();
        }
    }

    #[test]
    fn a_grant_that_is_not_used_keeps_the_turn() {
        let context = Context::new();
        let mut sim = Evaluator::new(round_robin_arbiter(&context, 3));
        sim.reset();
        for (request, advance, grant) in [
            (0b110, 0, 0b010),
            (0b111, 0, 0b001),
            (0b110, 1, 0b010),
            (0b111, 1, 0b100),
        ] {
            sim.set("request", request);
            sim.set("advance", advance);
            assert_eq!(sim.get_u64("grant"), grant);
            sim.clock();
        }
    }

    #[test]
    fn everybody_asking_is_served_in_turn_at_any_number() {
        for requesters in [1u32, 2, 3, 5, 8, 13, 31, 32, 33, 63, 64] {
            let context = Context::new();
            let mut sim = Evaluator::new(round_robin_arbiter(&context, requesters));
            sim.reset();
            sim.set("request", u64::MAX >> (64 - requesters));
            sim.set("advance", 1);
            for clock in 0..2 * requesters {
                assert_eq!(
                    sim.get_u64("grant"),
                    1 << (clock % requesters),
                    "{requesters} requesters"
                );
                sim.clock();
            }
        }
    }
}
