//! Clock 6: whether the queue pair has failed decides on what was found, and its standing moves on. Clock 7: the write of the payload is described.
//!
//! A SEND with invalidate stays in clock 6 until `memory_regions` has said whether the key is dead; nothing is behind it then.

use super::judge::{Finding, Joined};
use super::operation;
use spraynic_config::descriptor::{CompletionStatus, PayloadWrite};
use spraynic_config::{NicConfig, Profile};
use spraynic_rtl::{Module, Signal, bundle};
use spraynic_wire::{NakCode, Syndrome};

use crate::fields::Fields;

bundle! {
    /// What becomes of a queue pair by its requests.
    pub(super) struct Standing {
        failed: 1, "a request was refused";
        held: 1, "`cookie` is of a receive request in use";
        cookie: 64, "cookie of the receive request in use";
        msn: 24, "messages done";
    }
}

bundle! {
    /// What is carried out of an operation: of the first nine one at most is 1.
    pub(super) struct Verdict {
        accepted: 1, "carried out";
        retired: 1, "mrc: a message is done";
        again: 1, "a duplicate, executed again";
        drop_duplicate: 1, "a duplicate that is not allowed";
        refused_invalid_request: 1, "NAK invalid request";
        refused_remote_access: 1, "NAK remote access error";
        refused_operational: 1, "NAK remote operational error";
        drop_failed: 1, "behind a refusal";
        drop_closed: 1, "the queue pair does not receive";
        refused: 1, "one of the refusals";
        gives_up: 1, "receive requests end with it";
        message_done: 1, "a message is done: the MSN steps";
        closes: 1, "the queue pair does not receive any more";
        held: 1, "a receive request was in use before";
        cookie: 64, "its cookie";
        msn: 24, "MSN behind it";
        status: 8, "status of a completion";
        address: 64, "where this payload goes, or what is reached";
        received: 32, "bytes of the message, with this packet";
    }
}

/// Clock 6: what is carried out, and the standing behind it. `key_stays` says that the key of a SEND with invalidate
/// could not be invalidated, `moves` that the operation goes on.
pub(super) fn settle<'a>(
    m: Module<'a>,
    config: &NicConfig,
    at: &Joined<'a>,
    found: &Finding<'a>,
    standing: &Standing<'a>,
    (key_stays, moves): (Signal<'a>, Signal<'a>),
) -> (Verdict<'a>, Standing<'a>) {
    let Joined {
        operation: request,
        taken,
        ..
    } = at;
    let failed = standing.failed;
    let mrc = of_profile(m, config, at, Profile::Mrc);
    // What it is where the queue pair has not failed.
    let accepted = found.accepted & !key_stays;
    let remote_access = found.refused_remote_access | (found.accepted & key_stays);
    let refused_if = (found.refused_invalid_request | found.refused_operational | remote_access).named("refused_if");
    let moves_data = request.send | request.write;
    let in_message_if = (accepted & moves_data & !mrc).named("in_message_if");
    let done_if = found.retired | (in_message_if & request.ends) | (accepted & !moves_data);
    let done_if = done_if.named("message_done_if");

    let message_done = (done_if & !failed).named("message_done");
    // The receive request in use ends first, one that was taken behind it stays for the next.
    let gives_up = (failed.mux(found.live & !request.duplicate, refused_if)).named("gives_up");
    let changes = (gives_up | (accepted & !failed)).named("receive_requests_change");
    let held_if = in_message_if & request.send & !request.ends;
    let keeps = gives_up.mux(standing.held & taken.valid, held_if);
    let stays = standing.held & !gives_up;
    let cookie = stays.mux(standing.cookie, taken.cookie);
    let next = Standing {
        failed: (failed | refused_if) & !found.closes,
        held: changes.mux(keeps, standing.held) & !found.closes,
        cookie: changes.mux(cookie, standing.cookie),
        msn: message_done
            .mux(standing.msn + standing.msn.lit(1), standing.msn)
            .gate(!found.closes),
    };
    let status = |status: CompletionStatus| m.lit(status as u8, 8);
    let flushed = !at.is(operation::PACKET) | failed;
    let status = flushed.mux(
        status(CompletionStatus::Flushed),
        key_stays.mux(status(CompletionStatus::RemoteAccess), found.status),
    );
    let goes = (!failed & moves).named("goes_on_not_failed");
    let verdict = Verdict {
        accepted: accepted & goes,
        retired: found.retired & goes,
        again: found.again & goes,
        drop_duplicate: found.drop_duplicate & goes,
        refused_invalid_request: found.refused_invalid_request & goes,
        refused_remote_access: remote_access & goes,
        refused_operational: found.refused_operational & goes,
        drop_failed: found.live & failed & moves,
        drop_closed: found.drop_closed & moves,
        refused: refused_if & goes,
        gives_up: gives_up & moves,
        message_done: done_if & goes,
        closes: found.closes & moves,
        held: standing.held,
        cookie: standing.cookie,
        msn: next.msn,
        status,
        address: found.address,
        received: found.received,
    };
    (verdict, next)
}

fn of_profile<'a>(m: Module<'a>, config: &NicConfig, at: &Joined<'a>, wanted: Profile) -> Signal<'a> {
    if config.has_profile(wanted) {
        at.operation.profile.eq_lit(wanted.code())
    } else {
        m.low()
    }
}

/// What clock 7 gives.
pub(super) struct Described<'a> {
    /// There is a PayloadWrite.
    pub(super) gives: Signal<'a>,
    pub(super) write: Signal<'a>,
    /// A receive request is given back as flushed.
    pub(super) flushed: Signal<'a>,
}

/// Clock 7: the write that says what is to be done with the payload, and afterwards.
pub(super) fn describe<'a>(m: Module<'a>, config: &NicConfig, at: &Joined<'a>, verdict: &Verdict<'a>) -> Described<'a> {
    let Joined {
        operation: request,
        taken,
        ..
    } = at;
    let (roce, mrc) = (
        of_profile(m, config, at, Profile::Roce),
        of_profile(m, config, at, Profile::Mrc),
    );
    let packet = at.is(operation::PACKET);
    let moves_data = request.send | request.write;
    let in_message = (verdict.accepted & moves_data & !mrc).named("in_message");
    let executes = ((verdict.accepted | verdict.again) & (request.read | request.atomic)).named("executes");
    let post = at.is(operation::RECEIVE_REQUEST);
    let gives_back = (post & at.found.gives_back)
        | (verdict.closes & request.state.any() & verdict.held)
        | (at.is(operation::FLUSH) & taken.valid);
    // A context write is done with itself, to ERROR with the flush that finds nothing left.
    let marks =
        (at.is(operation::CONTEXT) & request.state.ne_lit(operation::ERROR)) | (at.is(operation::FLUSH) & !taken.valid);
    let marks = marks.named("marks");
    let ends_request = (in_message & request.ends & (request.send | request.has_immediate))
        | (verdict.retired & request.needs_request);
    let ends_request = ends_request.named("receive_request_done");
    let given_up = verdict.gives_up & (verdict.held | taken.valid);
    let completion = (ends_request | given_up | gives_back).named("completion_due");
    let in_use = verdict.held.mux(verdict.cookie, taken.cookie);
    let payload = request.payload_length;

    let nak = |code: NakCode| m.lit(Syndrome::Nak(code).byte(), 8);
    let syndrome = verdict.refused_invalid_request.mux(
        nak(NakCode::InvalidRequest),
        verdict.refused_remote_access.mux(
            nak(NakCode::RemoteAccessError),
            verdict.refused_operational.mux(
                nak(NakCode::RemoteOperationalError),
                m.lit(Syndrome::ACK.byte(), 8).gate(packet),
            ),
        ),
    );
    let carried_out = verdict.accepted | verdict.retired | verdict.again;
    let acknowledges = (in_message & (request.ends | roce)) | verdict.retired;
    let reaches = executes | (verdict.accepted & payload.any());
    let has_immediate = ends_request & (request.has_immediate | request.invalidates | request.retired);
    let (retired_length, retired_immediate, solicited) = match at.immediate {
        Some(kept) => (
            request.retired.mux(kept.length, verdict.received),
            request.retired.mux(kept.immediate, request.immediate),
            (verdict.retired & request.needs_request).mux(kept.solicited, request.solicited),
        ),
        None => (verdict.received, request.immediate, request.solicited),
    };
    let fields = Fields::build::<PayloadWrite>(|name, width| match name {
        "qpn" => request.qpn,
        "opcode" => request.opcode,
        "address" => verdict.address.gate(reaches),
        "length" => payload,
        "discard" => !carried_out,
        "answer" => acknowledges | verdict.refused,
        "completion" => completion,
        "psn" => request.psn,
        "syndrome" => syndrome,
        "msn" => verdict.msn.gate(packet & at.found.receives),
        "profile" => request.profile,
        "silent" => in_message & roce & !request.ack_request,
        "execute" => executes,
        "duplicate" => verdict.again,
        "mtu" => request.mtu,
        "entropy" => request.entropy,
        "has_immediate" => has_immediate,
        "solicited" => solicited,
        "marker" => marks,
        "closed" => marks & request.state.ne_lit(operation::RECEIVES),
        "status" => verdict.status.gate(completion),
        "byte_count" => ends_request.mux(retired_length, request.length.gate(executes)),
        "immediate" => retired_immediate.gate(has_immediate),
        "cookie" => post.mux(request.swap_add, in_use).gate(completion),
        "compare" | "swap_add" => {
            let operand = if name == "compare" {
                request.compare
            } else {
                request.swap_add
            };
            operand.gate(executes & request.atomic)
        }
        _ => m.lit(0, width),
    });
    Described {
        gives: (packet | gives_back | marks).named("gives"),
        write: fields.pack(),
        flushed: gives_back | (given_up & verdict.drop_failed),
    }
}
