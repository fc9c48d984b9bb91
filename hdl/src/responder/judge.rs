//! Clocks 4 and 5: how far its message has come for a request, and what there is to say of it while its queue pair has not failed.
//!
//! Clock 4 moves the progress on as if every new request were carried out, so that the next one can follow at once: one that is refused fails
//! its queue pair, and of a failed one the progress is not looked at. Whether it has failed is known in clock 6 (`settle`).

use super::operation::{self, Operation, RECEIVES};
use super::receive_requests::{Found, Immediate, Taken};
use spraynic_config::descriptor::CompletionStatus;
use spraynic_config::{NicConfig, Profile};
use spraynic_rtl::{Bundle, Module, Signal, bundle};

bundle! {
    /// The message in progress of a queue pair.
    pub(super) struct Progress {
        sending: 1, "it is a SEND";
        writing: 1, "it is a WRITE";
        address: 64, "where its first byte goes";
        length: 32, "bytes of buffer or DMA length";
        received: 32, "bytes so far";
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
    /// What clock 4 finds, for clock 5.
    pub(super) struct Measured {
        sending: 1, "a SEND is in progress";
        writing: 1, "a WRITE is in progress";
        address: 64, "where the first byte of the message goes, or what is reached";
        length: 32, "bytes of buffer or DMA length";
        before: 32, "bytes of the message before this packet";
        received: 33, "and with it";
    }
}

bundle! {
    /// What clock 5 says of an operation: the first nine, of which one at most is 1, of a queue pair that has not failed.
    pub(super) struct Finding {
        accepted: 1, "to be carried out";
        retired: 1, "mrc: a message is done";
        again: 1, "a duplicate, to be executed again";
        drop_duplicate: 1, "a duplicate that is not allowed";
        refused_invalid_request: 1, "NAK invalid request";
        refused_remote_access: 1, "NAK remote access error";
        refused_operational: 1, "NAK remote operational error";
        drop_closed: 1, "the queue pair does not receive, failed or not";
        closes: 1, "a context write after which the queue pair does not receive";
        live: 1, "a packet, and its queue pair receives";
        status: 8, "status of its completion";
        address: 64, "where this payload goes, or what is reached";
        received: 32, "bytes of the message, with this packet";
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
        });
        // Not every field is needed to the end.
        registers.operation.signals().into_iter().for_each(Signal::ignore);
        registers.found.signals().into_iter().for_each(Signal::ignore);
        registers.taken.signals().into_iter().for_each(Signal::ignore);
        registers.translation.signals().into_iter().for_each(Signal::ignore);
        if let Some(immediate) = registers.immediate {
            immediate.signals().into_iter().for_each(Signal::ignore);
        }
        registers
    }

    /// Whether there is an operation of this kind.
    pub(super) fn is(&self, kind: u8) -> Signal<'a> {
        self.valid & self.operation.kind.eq_lit(kind)
    }
}

fn is_mrc<'a>(m: Module<'a>, config: &NicConfig, request: &Operation<'a>) -> Signal<'a> {
    if config.has_profile(Profile::Mrc) {
        request.profile.eq_lit(Profile::Mrc.code())
    } else {
        m.low()
    }
}

/// A context write after which the queue pair does not receive.
fn closes<'a>(at: &Joined<'a>) -> Signal<'a> {
    at.is(operation::CONTEXT) & at.found.in_table & !at.operation.state.eq_lit(RECEIVES)
}

/// Clock 4: what is to be compared, and how far the message has come behind this operation.
pub(super) fn measure<'a>(
    m: Module<'a>,
    config: &NicConfig,
    at: &Joined<'a>,
    progress: &Progress<'a>,
) -> (Measured<'a>, Progress<'a>) {
    let Joined {
        operation: request,
        taken,
        translation,
        ..
    } = at;
    let mrc = is_mrc(m, config, request);
    let starts_send = request.send & request.begins;
    let names_length = request.write & request.asks;
    let address = starts_send.mux(taken.address, request.asks.mux(translation.address, progress.address));
    let length = names_length.mux(request.length, starts_send.mux(taken.length, progress.length));
    // In mrc each packet stands for itself.
    let before = progress.received.gate(!(request.begins | request.asks));
    let received = before.zero_extend(33) + request.payload_length.zero_extend(33);

    let closes = closes(at);
    let moves_data = request.send | request.write;
    let new = at.is(operation::PACKET) & at.found.receives & !request.duplicate & !request.retired;
    let moves = ((new & moves_data & !mrc) | closes).named("progress_moves");
    let goes_on = !request.ends & !closes;
    let next = Progress {
        sending: moves.mux(request.send & goes_on, progress.sending),
        writing: moves.mux(request.write & goes_on, progress.writing),
        address: moves.mux(address, progress.address),
        length: moves.mux(length, progress.length),
        received: moves.mux(received.part(0, 32), progress.received),
    };
    let measured = Measured {
        sending: progress.sending,
        writing: progress.writing,
        address,
        length,
        before,
        received,
    };
    (measured, next)
}

/// Clock 5: what there is to say of the operation, unless its queue pair has failed.
pub(super) fn judge<'a>(m: Module<'a>, config: &NicConfig, at: &Joined<'a>, measured: &Measured<'a>) -> Finding<'a> {
    let Joined {
        operation: request,
        taken,
        translation,
        ..
    } = at;
    let mrc = is_mrc(m, config, request);
    let packet = at.is(operation::PACKET);
    let live = (packet & at.found.receives).named("live");

    // Lengths.
    let length = measured.length.zero_extend(33);
    let exact = measured.received.eq(length).named("payload_is_all_that_is_left");
    let below = measured.received.lt(length).named("payload_is_less_than_left");
    let may_be_exact = request.send | (request.write & request.ends);
    let may_be_below = request.send | (request.write & (!request.ends | (!request.begins & mrc)));
    let any_length = !(request.send | request.write);
    let length_fits = (any_length | (may_be_exact & exact) | (may_be_below & below)).named("length_fits");

    // Checks, in their order.
    let known = request.send | request.write | request.read | request.atomic;
    let right_place = measured.sending.eq(request.send & !request.begins)
        & measured.writing.eq(request.write & !request.begins & !mrc);
    let no_opcode = !(known & right_place & request.permitted);
    let no_request = request.needs_request & !taken.valid;
    let malformed = !(request.well_formed & request.fits_place);
    let immediate_astray = if config.has_profile(Profile::Mrc) {
        mrc & request.has_immediate & !at.found.rqmsn_in_ring
    } else {
        m.low()
    };
    let denied = request.asks & translation.refused;
    let new = (live & !request.duplicate & !request.retired).named("new_request");
    // What can be said before the comparison is done, and what needs it.
    let invalid = malformed | immediate_astray;
    let ready = (new & !no_opcode & !no_request & !invalid).named("only_length_and_access_are_open");
    let refused_at_once = (new & (no_opcode | (!no_request & invalid))).named("refused_at_once");

    let again = (request.read | request.atomic) & request.permitted & !malformed & !denied;
    let repeated = live & request.duplicate;
    let ends_message = live & request.retired & !request.duplicate;
    let immediate_missing = match at.immediate {
        Some(immediate) => request.needs_request & !immediate.valid,
        None => m.low(),
    };
    let accepted = ready & !denied & length_fits;
    let retired = ends_message & !no_request & !immediate_missing;
    let status = |status: CompletionStatus| m.lit(status as u8, 8);
    Finding {
        accepted,
        retired,
        again: repeated & again,
        drop_duplicate: repeated & !again,
        refused_invalid_request: refused_at_once
            | (ready & !length_fits)
            | (ends_message & !no_request & immediate_missing),
        refused_remote_access: ready & denied & length_fits,
        refused_operational: (new & !no_opcode & no_request) | (ends_message & no_request),
        drop_closed: packet & !at.found.receives,
        closes: closes(at),
        live,
        status: (accepted | retired).mux(
            status(CompletionStatus::Success),
            (ready & request.send & !length_fits).mux(
                status(CompletionStatus::LocalLength),
                (ready & length_fits).mux(
                    status(CompletionStatus::RemoteAccess),
                    status(CompletionStatus::RemoteInvalidRequest),
                ),
            ),
        ),
        address: measured.address + measured.before.zero_extend(64),
        received: measured.received.part(0, 32),
    }
}
