//! Clock 4: the request meets the state of its queue pair, and is judged; what is found is registered for clock 5, which changes the state.
//!
//! A SEND with invalidate stays here until `memory_regions` has said whether the key is dead; nothing is behind it then.

use super::operation::{self, Operation};
use super::receive_requests::{Found, Immediate, Taken};
use spraynic_config::descriptor::CompletionStatus;
use spraynic_config::{NicConfig, Profile};
use spraynic_rtl::{Bundle, Module, Signal, bundle};

bundle! {
    /// What is known of a queue pair's requests.
    pub(super) struct State {
        sending: 1, "a SEND is in progress";
        writing: 1, "a WRITE is in progress";
        failed: 1, "a request was refused";
        held: 1, "`cookie` is of a receive request in use";
        cookie: 64, "cookie of the receive request in use";
        address: 64, "where the next payload goes";
        left: 32, "bytes left of buffer or DMA length";
        received: 32, "bytes so far";
        msn: 24, "messages done";
    }
}

bundle! {
    /// What `memory_regions` said.
    pub(super) struct Translation {
        address: 64, "address in memory";
        refused: 1, "not allowed";
    }
}

bundle! {
    /// What was found of a request, one of them at most.
    pub(super) struct Verdict {
        accepted: 1, "to be carried out";
        retired: 1, "mrc: a message is done";
        again: 1, "a duplicate, to be executed again";
        drop_duplicate: 1, "a duplicate that is not allowed";
        refused_invalid_request: 1, "NAK invalid request";
        refused_remote_access: 1, "NAK remote access error";
        refused_operational: 1, "NAK remote operational error";
        drop_failed: 1, "behind a refusal";
        drop_closed: 1, "the queue pair does not receive";
    }
}

bundle! {
    /// What clock 5 reckons with.
    pub(super) struct Sums {
        address: 64, "where this payload goes, or what is reached";
        left: 32, "bytes left, this packet's among them";
        received: 32, "bytes of the message before this packet";
        status: 8, "status of a completion";
    }
}

/// An operation with all that was found for it.
#[derive(Clone, Copy)]
pub(super) struct Joined<'a> {
    pub(super) valid: Signal<'a>,
    pub(super) operation: Operation<'a>,
    pub(super) found: Found<'a>,
    pub(super) taken: Taken<'a>,
    pub(super) immediate: Option<Immediate<'a>>,
    pub(super) translation: Translation<'a>,
    pub(super) state: State<'a>,
}

impl<'a> Joined<'a> {
    /// Registers that follow it where `moves` is 1; `valid` is there in any case.
    pub(super) fn registered(&self, m: Module<'a>, clock: u32, moves: Signal<'a>, valid: Signal<'a>) -> Self {
        let name = |what: &str| format!("{what}_{clock}");
        let registers = Self {
            valid: m.reg(&name("valid"), 1).reset(0),
            operation: Operation::regs(m, &name("operation")),
            found: Found::regs(m, &name("found")),
            taken: Taken::regs(m, &name("taken")),
            immediate: self.immediate.map(|_| Immediate::regs(m, &name("immediate"))),
            translation: Translation::regs(m, &name("translation")),
            state: State::regs(m, &name("state")),
        };
        registers.valid.set(valid);
        m.when(moves, || {
            registers.operation.set(&self.operation);
            registers.found.set(&self.found);
            registers.taken.set(&self.taken);
            if let Some((register, immediate)) = registers.immediate.zip(self.immediate) {
                register.set(&immediate);
            }
            registers.translation.set(&self.translation);
            registers.state.set(&self.state);
        });
        // Not every field is needed to the end.
        registers.operation.signals().into_iter().for_each(Signal::ignore);
        registers.found.signals().into_iter().for_each(Signal::ignore);
        registers.taken.signals().into_iter().for_each(Signal::ignore);
        registers.state.signals().into_iter().for_each(Signal::ignore);
        registers.translation.signals().into_iter().for_each(Signal::ignore);
        if let Some(immediate) = registers.immediate {
            immediate.signals().into_iter().for_each(Signal::ignore);
        }
        registers
    }

    fn is(&self, kind: u8) -> Signal<'a> {
        self.valid & self.operation.kind.eq_lit(kind)
    }
}

/// What the judge says in clock 4.
pub(super) struct Judged<'a> {
    /// To be gated by the operation's passing on.
    pub(super) verdict: Verdict<'a>,
    pub(super) sums: Sums<'a>,
    /// All that can be checked without invalidating the key is right.
    pub(super) may_invalidate: Signal<'a>,
}

/// Judges the operation in clock 4. `key_stays` says that the key of a SEND with invalidate could not be invalidated.
pub(super) fn judge<'a>(m: Module<'a>, config: &NicConfig, at: &Joined<'a>, key_stays: Signal<'a>) -> Judged<'a> {
    let Joined {
        operation: request,
        taken,
        translation,
        state,
        ..
    } = at;
    let mrc = if config.has_profile(Profile::Mrc) {
        request.profile.eq_lit(Profile::Mrc.code())
    } else {
        m.low()
    };
    let packet = at.is(operation::PACKET);
    let live = (packet & at.found.receives & !state.failed).named("live");

    // Lengths. Each of what may be left is compared by itself, and the result chosen: the comparison is what takes longest.
    let starts_send = request.send & request.begins;
    let names_length = request.write & request.asks;
    let choose = |named: Signal<'a>, buffer: Signal<'a>, left: Signal<'a>| {
        names_length.mux(named, starts_send.mux(buffer, left))
    };
    let payload = request.payload_length.zero_extend(32);
    let exact = choose(
        payload.eq(request.length),
        payload.eq(taken.length),
        payload.eq(state.left),
    );
    let below = choose(
        payload.lt(request.length),
        payload.lt(taken.length),
        payload.lt(state.left),
    );
    let (exact, below) = (
        exact.named("payload_is_all_that_is_left"),
        below.named("payload_is_less_than_left"),
    );
    let left = choose(request.length, taken.length, state.left);
    let may_be_exact = request.send | (request.write & request.ends);
    let may_be_below = request.send | (request.write & (!request.ends | (!request.begins & mrc)));
    let any_length = !(request.send | request.write);
    let length_fits = (any_length | (may_be_exact & exact) | (may_be_below & below)).named("length_fits");

    // Checks, in their order.
    let known = request.send | request.write | request.read | request.atomic;
    let right_place =
        state.sending.eq(request.send & !request.begins) & state.writing.eq(request.write & !request.begins & !mrc);
    let no_opcode = !(known & right_place & request.permitted);
    let no_request = request.needs_request & !taken.valid;
    let malformed = !(request.well_formed & request.fits_place);
    let immediate_astray = if config.has_profile(Profile::Mrc) {
        mrc & request.has_immediate & !at.found.rqmsn_in_ring
    } else {
        m.low()
    };
    let not_allowed = request.asks & translation.refused;
    let new = (live & !request.duplicate & !request.retired).named("new_request");
    // What can be said before the comparison is done, and what needs it.
    let invalid = malformed | immediate_astray;
    let ready = (new & !no_opcode & !no_request & !invalid).named("only_length_and_access_are_open");
    let refused_at_once = (new & (no_opcode | (!no_request & invalid))).named("refused_at_once");
    let denied = not_allowed | key_stays;
    let remote_access = ready & denied & length_fits;

    let again = (request.read | request.atomic) & request.permitted & !malformed & !not_allowed;
    let repeated = live & request.duplicate;
    let ends_message = live & request.retired & !request.duplicate;
    let immediate_missing = match at.immediate {
        Some(immediate) => request.needs_request & !immediate.valid,
        None => m.low(),
    };

    let verdict = Verdict {
        accepted: ready & !denied & length_fits,
        retired: ends_message & !no_request & !immediate_missing,
        again: repeated & again,
        drop_duplicate: repeated & !again,
        refused_invalid_request: refused_at_once
            | (ready & !length_fits)
            | (ends_message & !no_request & immediate_missing),
        refused_remote_access: remote_access,
        refused_operational: (new & !no_opcode & no_request) | (ends_message & no_request),
        drop_failed: packet & at.found.receives & state.failed,
        drop_closed: packet & !at.found.receives,
    };
    let status = |status: CompletionStatus| m.lit(status as u8, 8);
    let refused = (ready & request.send & !length_fits).mux(
        status(CompletionStatus::LocalLength),
        remote_access.mux(
            status(CompletionStatus::RemoteAccess),
            status(CompletionStatus::RemoteInvalidRequest),
        ),
    );
    let done = verdict.accepted | verdict.retired;
    let flushed = !packet | state.failed;
    let sums = Sums {
        address: starts_send.mux(taken.address, request.asks.mux(translation.address, state.address)),
        left,
        received: state.received.gate(!request.begins),
        status: flushed.mux(
            status(CompletionStatus::Flushed),
            done.mux(status(CompletionStatus::Success), refused),
        ),
    };
    Judged {
        verdict,
        sums,
        may_invalidate: ready & !not_allowed & length_fits,
    }
}
