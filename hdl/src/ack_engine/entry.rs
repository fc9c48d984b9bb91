//! Entry to the pipeline: contexts first, then reports, probes, answers and due timers in turn, one a clock.
//!
//! It turns each into an [`Operation`] and decides nothing about it. A context takes two clocks, one for each
//! sequence space, with nothing between them.

use spraynic_config::descriptor::{
    Answer, Descriptor, PacketContext, QueuePairContext, QueuePairState, ReceivedPacket, SequenceOutcome,
    SequenceReport,
};
use spraynic_rtl::{Bundle, Module, Signal, cat, cat_lsb_first};
use spraynic_wire::Opcode;

use super::timer::Request;
use super::{Inputs, Operation, ignore_others};
use crate::fields::Fields;

/// ECN field of a packet that met congestion \[RFC 3168\].
const CONGESTION_EXPERIENCED: u8 = 3;

/// What enters in this clock.
pub(super) struct Entered<'a> {
    /// An operation enters.
    pub(super) enters: Signal<'a>,
    /// The request of the timer's ring enters.
    pub(super) timer_taken: Signal<'a>,
    pub(super) operation: Operation<'a>,
}

fn fields_of<D: Descriptor>() -> Vec<&'static str> {
    D::FIELDS.iter().map(|field| field.name).collect()
}

/// For each value of `turn` the one of `requests` that it grants: the first one from it on.
fn round_robin<'a>(turn: Signal<'a>, requests: &[Signal<'a>; 4]) -> [Signal<'a>; 4] {
    let mut choices = vec![];
    for first in 0..4 {
        let mut grants = [requests[0]; 4];
        let mut before = turn.module().low();
        for step in 0..4 {
            let index = (first + step) % 4;
            grants[index] = requests[index] & !before;
            before = before | requests[index];
        }
        choices.push(cat_lsb_first(&grants));
    }
    let granted = turn.select(&choices).named("granted");
    [0, 1, 2, 3].map(|index| granted.bit(index))
}

/// Builds the entry and drives `ready` of all inputs. Nothing enters unless `may_enter`.
pub(super) fn entry<'a>(
    m: Module<'a>,
    inputs: Inputs<'a>,
    ring: Request<'a>,
    time_ns: Signal<'a>,
    may_enter: Signal<'a>,
) -> Entered<'a> {
    let Inputs {
        reports,
        probes,
        answers,
        contexts,
    } = inputs;
    let context_second = m
        .reg("context_second", 1)
        .reset(0)
        .doc("the first half of a context write has entered");
    let context_enters = (contexts.valid & may_enter).named("context_enters");
    m.when(context_enters, || context_second.set(!context_second));
    contexts.ready.set(may_enter & context_second);

    // In turn, so that reports in every clock do not keep the others out.
    let open = (may_enter & !contexts.valid).named("open_to_others");
    let turn = m.reg("turn", 2).reset(0).doc("who is asked first");
    let requests = [reports.valid, probes.valid, answers.valid, ring.due];
    let granted = round_robin(turn, &requests);
    for (stream, grant) in [reports, probes, answers].into_iter().zip(granted) {
        stream.ready.set(open & grant);
    }
    let any_request = cat(&requests).any().named("any_request");
    m.when(open & any_request, || {
        turn.set(cat(&[granted[1] | granted[2], granted[0] | granted[2]]));
    });
    // A space that has nothing to report any more leaves the ring when there is nothing better to do.
    let leaves_ring = (ring.idle & !any_request & open).named("leaves_ring");
    let timer_taken = ((granted[3] & open) | leaves_ring).named("timer_taken");

    let report = Fields::unpack::<SequenceReport>(reports.data);
    ignore_others(
        &report,
        &fields_of::<SequenceReport>(),
        &[
            "qpn",
            "opcode",
            "psn",
            "space",
            "outcome",
            "entropy",
            "payload_length",
            "ecn",
            "ack_request",
            "retransmission",
            "beyond_gap",
            "time_stamp",
            "cumulative",
            "far",
            "near",
            "bitmap",
        ],
    );
    let packet = Fields::unpack::<ReceivedPacket>(probes.data.part(0, ReceivedPacket::width()));
    ignore_others(
        &packet,
        &fields_of::<ReceivedPacket>(),
        &["qpn", "udp_source_port", "flow_label", "extension"],
    );
    probes
        .data
        .part(ReceivedPacket::width(), PacketContext::width())
        .ignore();
    let answer = Fields::unpack::<Answer>(answers.data);
    ignore_others(
        &answer,
        &fields_of::<Answer>(),
        &["qpn", "syndrome", "psn", "silent", "msn", "entropy"],
    );
    let context = Fields::unpack::<QueuePairContext>(contexts.data);
    ignore_others(
        &context,
        &fields_of::<QueuePairContext>(),
        &[
            "qpn",
            "state",
            "profile",
            "rnr_timer",
            "psn",
            "response_psn",
            "peer_qpn",
        ],
    );

    // PETH as it stands on the wire: the space in the upper half of byte 0, the id in bytes 4 and 5, the time stamp in 12 and 13.
    let peth_byte = |index: u32| packet.get("extension").part(8 * index, 8);
    let probe_space = peth_byte(0).part(4, 4);
    let probe_entropy = cat(&[packet.get("flow_label").part(16, 4), packet.get("udp_source_port")]);
    let state_is = |state: QueuePairState| context.get("state").eq_lit(state as u8);
    let opcode_is = |opcode: Opcode| report.get("opcode").eq_lit(opcode.0);
    let peer = context.get("peer_qpn");
    peer.ignore();

    // Only what several kinds have needs a choice. A context goes first, whatever is granted.
    let is_context = contexts.valid;
    let [of_report, of_probe, of_answer, _] = granted;
    let timer_qpn = ring.space.part(1, ring.space.width() - 1).zero_extend(24);
    let qpn = is_context.mux(
        context.get("qpn"),
        of_report.mux(
            report.get("qpn"),
            of_probe.mux(packet.get("qpn"), of_answer.mux(answer.get("qpn"), timer_qpn)),
        ),
    );
    // An answer is one to a request.
    let space_of_others = of_probe.mux(probe_space.bit(0), ring.space.bit(0) & !of_answer);
    let space = is_context.mux(context_second, of_report.mux(report.get("space"), space_of_others));
    let first_psn = context_second.mux(context.get("response_psn"), context.get("psn"));
    let psn = is_context.mux(first_psn, of_report.mux(report.get("psn"), answer.get("psn")));
    let entropy = of_report.mux(
        report.get("entropy"),
        of_probe.mux(probe_entropy, answer.get("entropy")),
    );
    let time_stamp = of_report.mux(report.get("time_stamp"), cat(&[peth_byte(12), peth_byte(13)]));
    let operation = Operation {
        report: of_report & !is_context,
        probe: of_probe & !is_context,
        answer: of_answer & !is_context,
        context: is_context,
        timer: timer_taken,
        qpn,
        space,
        psn,
        entropy,
        time_stamp,
        now: time_ns,
        outcome: report.get("outcome"),
        far: report.get("far"),
        near: report.get("near"),
        bitmap: report.get("bitmap"),
        cumulative: report.get("cumulative"),
        beyond_gap: report.get("beyond_gap"),
        length: report.get("payload_length"),
        congested: report.get("ecn").eq_lit(CONGESTION_EXPERIENCED),
        asked: report.get("ack_request") | report.get("retransmission"),
        with_data: opcode_is(Opcode::READ_REQUEST) | opcode_is(Opcode::COMPARE_SWAP) | opcode_is(Opcode::FETCH_ADD),
        probe_id: cat(&[peth_byte(4), peth_byte(5)]),
        no_space: probe_space.part(1, 3).any(),
        syndrome: answer.get("syndrome"),
        silent: answer.get("silent"),
        msn: answer.get("msn"),
        receives: (state_is(QueuePairState::ReadyToReceive) | state_is(QueuePairState::ReadyToSend))
            & !context.get("profile").all(),
        profile: context.get("profile"),
        peer: peer.part(0, 16),
        rnr_timer: context.get("rnr_timer"),
        due: ring.due,
        epoch: ring.epoch,
    };
    let enters = (may_enter & (contexts.valid | any_request)) | leaves_ring;
    Entered {
        enters: enters.named("enters"),
        timer_taken,
        operation: operation.named("entry"),
    }
}

/// Whether a report has one of these outcomes.
pub(super) fn is_any<'a>(outcome: Signal<'a>, outcomes: &[SequenceOutcome]) -> Signal<'a> {
    outcomes.iter().fold(outcome.module().low(), |sum, wanted| {
        sum | outcome.eq_lit(*wanted as u8)
    })
}
