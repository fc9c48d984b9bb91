//! Clock 5: the state of the queue pair moves on, and the write of the payload is described.

use super::judge::{Joined, State, Sums, Verdict};
use super::operation;
use spraynic_config::descriptor::PayloadWrite;
use spraynic_config::{NicConfig, Profile};
use spraynic_rtl::{Module, Signal};
use spraynic_wire::{NakCode, Syndrome};

use crate::fields::Fields;

/// What clock 5 gives.
pub(super) struct Settled<'a> {
    /// The state is written.
    pub(super) moves: Signal<'a>,
    pub(super) next: State<'a>,
    /// There is a PayloadWrite.
    pub(super) gives: Signal<'a>,
    pub(super) write: Signal<'a>,
    /// A message is done.
    pub(super) message_done: Signal<'a>,
    /// A receive request is given back as flushed.
    pub(super) flushed: Signal<'a>,
}

/// Settles the operation in clock 5. `verdict` has one bit for a packet that is there, none otherwise.
pub(super) fn settle<'a>(
    m: Module<'a>,
    config: &NicConfig,
    at: &Joined<'a>,
    verdict: &Verdict<'a>,
    sums: &Sums<'a>,
) -> Settled<'a> {
    let Joined {
        operation: request,
        taken,
        state,
        ..
    } = at;
    let is = |kind: u8| at.valid & request.kind.eq_lit(kind);
    let of_profile = |wanted: Profile| {
        if config.has_profile(wanted) {
            request.profile.eq_lit(wanted.code())
        } else {
            m.low()
        }
    };
    let (roce, mrc) = (of_profile(Profile::Roce), of_profile(Profile::Mrc));
    let packet = is(operation::PACKET);
    let refused = (verdict.refused_invalid_request | verdict.refused_remote_access | verdict.refused_operational)
        .named("refused");
    let moves_data = request.send | request.write;
    let in_message = (verdict.accepted & moves_data & !mrc).named("in_message");
    let executes = ((verdict.accepted | verdict.again) & (request.read | request.atomic)).named("executes");
    let message_done =
        (verdict.retired | (in_message & request.ends) | (verdict.accepted & !moves_data)).named("message_done");

    // Receive requests: the one in use ends first, one that was taken behind it stays for the next.
    let gives_up = (refused | (verdict.drop_failed & !request.duplicate)).named("gives_up");
    let closes = is(operation::CONTEXT) & at.found.in_table & !request.state.eq_lit(2);
    let post = is(operation::RECEIVE_REQUEST);
    let gives_back = (post & at.found.gives_back)
        | (closes & request.state.any() & state.held)
        | (is(operation::FLUSH) & taken.valid);
    let ends_request = (in_message & request.ends & (request.send | request.has_immediate))
        | (verdict.retired & request.needs_request);
    let ends_request = ends_request.named("receive_request_done");
    let given_up = gives_up & (state.held | taken.valid);
    let completion = (ends_request | given_up | gives_back).named("completion_due");
    let in_use = state.held.mux(state.cookie, taken.cookie);

    let payload = request.payload_length;
    let received = (sums.received + payload.zero_extend(32)).named("received");
    let goes_on = in_message & !request.ends;
    let next = State {
        sending: goes_on & request.send,
        writing: goes_on & request.write,
        failed: state.failed | refused,
        held: (goes_on & request.send) | (gives_up & state.held & taken.valid),
        cookie: gives_up.mux(taken.cookie, in_use),
        address: sums.address + payload.zero_extend(64),
        left: sums.left - payload.zero_extend(32),
        received,
        msn: message_done.mux(state.msn + state.msn.lit(1), state.msn),
    };
    let closing = |signal: Signal<'a>| signal.gate(!closes);
    let next = State {
        sending: closing(next.sending),
        writing: closing(next.writing),
        failed: closing(next.failed),
        held: closing(next.held),
        msn: closing(next.msn),
        ..next
    };

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
            request.retired.mux(kept.length, received),
            request.retired.mux(kept.immediate, request.immediate),
            (verdict.retired & request.needs_request).mux(kept.solicited, request.solicited),
        ),
        None => (received, request.immediate, request.solicited),
    };
    let fields = Fields::build::<PayloadWrite>(|name, width| match name {
        "qpn" => request.qpn,
        "opcode" => request.opcode,
        "address" => sums.address.gate(reaches),
        "length" => payload,
        "discard" => !carried_out,
        "answer" => acknowledges | refused,
        "completion" => completion,
        "psn" => request.psn,
        "syndrome" => syndrome,
        "msn" => next.msn.gate(packet & at.found.receives),
        "profile" => request.profile,
        "silent" => in_message & roce & !request.ack_request,
        "execute" => executes,
        "duplicate" => verdict.again,
        "mtu" => request.mtu,
        "entropy" => request.entropy,
        "has_immediate" => has_immediate,
        "solicited" => solicited,
        "status" => sums.status.gate(completion),
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
    let changes = verdict.accepted | verdict.retired | gives_up;
    Settled {
        moves: (changes | closes).named("state_moves"),
        next,
        gives: (packet | gives_back).named("gives"),
        write: fields.pack(),
        message_done,
        flushed: gives_back | (given_up & verdict.drop_failed),
    }
}
