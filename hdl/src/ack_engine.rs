//! `ack_engine`: makes the control packets that answer what arrived: ACK, NAK, SACK, NACK and CNP.
//!
//! Reports, probes, answers, context writes and expired timers take turns at one pipeline of three clocks that never stalls: whatever enters
//! has a place in the queue before the output. It decides neither what is accepted nor what a request means, and never
//! sends data. Theory of operation: `docs/src/blocks/ack_engine.md`.

mod entry;
mod judge;
mod output;
mod tables;
mod timer;

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    Answer, Descriptor, PacketContext, PacketDescriptor, QueuePairContext, ReceivedPacket, SequenceReport,
};
use spraynic_rtl::{Bundle, Context, Definition, Signal, Stream, bundle};

use crate::fields::Fields;
use crate::sweep;

/// Name of the block.
pub const NAME: &str = "ack_engine";

/// Bits of an event of `m_axis_event`; those not named in [`observed`] are 0. Bits 0 to 63 are the time of entry in nanoseconds, 64 to 87 the QPN.
pub const EVENT_BITS: u32 = 96;

/// Bits of an event of `m_axis_event`, beside time and QPN.
pub mod observed {
    /// Sequence space.
    pub const SPACE: u32 = 88;
    /// The next report took effect.
    pub const REPORT: u32 = 89;
    /// The next probe.
    pub const PROBE: u32 = 90;
    /// The next answer.
    pub const ANSWER: u32 = 91;
    /// The next context write.
    pub const CONTEXT: u32 = 92;
    /// The timer of the space gives a SACK.
    pub const TIMER: u32 = 93;
}

bundle! {
    /// What enters the pipeline, one a clock.
    pub(crate) struct Operation {
        report: 1, "a report of the reorder buffer";
        probe: 1, "a probe of the peer";
        answer: 1, "an answer of the responder";
        context: 1, "a context write: two operations, of space 0 and of space 1";
        timer: 1, "a space of the timer's ring";
        qpn: 24, "queue pair number";
        space: 1, "sequence space";
        psn: 24, "PSN of the packet or answer; of a context: the first PSN of the space";
        entropy: 20, "entropy value to answer with";
        time_stamp: 16, "time stamp to echo";
        now: 64, "time of entry";
        outcome: 4, "report: SequenceOutcome";
        far: 8, "report: place of the packet beyond the first gap, in units of 64 PSNs";
        near: 64, "report: the 64 PSNs behind the cumulative one";
        bitmap: 64, "report: the 64 PSNs among which the packet stands";
        cumulative: 24, "report: the PSN before the first gap";
        beyond_gap: 11, "report: packets beyond the first gap";
        length: 13, "report: bytes of payload";
        congested: 1, "report: the packet met congestion";
        asked: 1, "report: AckReq or a retransmission";
        with_data: 1, "report: a request that is answered with data";
        probe_id: 16, "probe: its id";
        no_space: 1, "probe: of a space that there is not";
        syndrome: 8, "answer: syndrome";
        silent: 1, "answer: no packet is due";
        msn: 24, "answer: message sequence number";
        receives: 1, "context: the queue pair receives";
        profile: 2, "context: wire profile";
        peer: 16, "context: low bits of the peer's queue pair number";
        rnr_timer: 5, "context: timer code of RNR NAKs";
        due: 1, "timer: the time of the space has come";
        epoch: 3, "timer: of the time that was looked at";
    }
}

bundle! {
    /// What an operation makes due: nothing, one packet or two.
    pub(crate) struct Due {
        sack: 1, "a SACK";
        nack: 1, "a NACK";
        aeth: 1, "an ACK or NAK";
        cnp: 1, "a CNP, behind what else there is";
        again: 1, "the last answer again, behind a SACK";
        mrc: 1, "profile mrc";
        marked: 1, "SACK: the packet met congestion";
        probe: 1, "SACK: answers a probe";
        qpn: 24, "queue pair number";
        space: 1, "sequence space";
        psn: 24, "PSN that a NACK, ACK or NAK names";
        offset: 16, "SACK: the packet's place against the gap, or the probe's id";
        entropy: 20, "entropy value";
        peer: 16, "low bits of the peer's queue pair number";
        time_stamp: 16, "time stamp to echo";
        cumulative: 24, "SACK: the PSN before the first gap";
        far: 8, "SACK: first PSN of the bitmap, in units of 64 PSNs";
        bitmap: 64, "SACK: bitmap";
        beyond_gap: 11, "SACK: packets beyond the first gap";
        received: 24, "SACK: bytes received, in units of 256";
        code: 8, "reason of a NACK, syndrome of an ACK or NAK";
        msn: 24, "message sequence number of an ACK or NAK";
    }
}

/// When to acknowledge: ports.
#[derive(Clone, Copy)]
struct Pacing<'a> {
    sack_every: Signal<'a>,
    sack_bytes: Signal<'a>,
    sack_timer_ns: Signal<'a>,
    cnp_interval_ns: Signal<'a>,
    time_ns: Signal<'a>,
}

/// What is taken.
#[derive(Clone, Copy)]
struct Inputs<'a> {
    reports: Stream<'a>,
    probes: Stream<'a>,
    answers: Stream<'a>,
    contexts: Stream<'a>,
}

/// Marks the fields of a descriptor that the block does not read.
fn ignore_others(fields: &Fields<'_>, all: &[&str], used: &[&str]) {
    for name in all.iter().filter(|name| !used.contains(name)) {
        fields.get(name).ignore();
    }
}

/// The block for this configuration.
#[must_use]
pub fn ack_engine<'a>(context: &'a Context, config: &NicConfig) -> Definition<'a> {
    let (count, window) = (config.queue_pairs.count, config.receive.window);
    let m = context.module(&format!("{NAME}_qp{count}_window{window}"));
    m.doc(
        "Answers what arrived: ACK, NAK, SACK, NACK and CNP, as descriptors for the transmit path. Owns what no SACK has reported\n\
         yet and the last answer of each queue pair.",
    );
    let inputs = Inputs {
        reports: Stream::slave(
            m,
            "s_axis_report",
            SequenceReport::width(),
            "SequenceReport: see descriptors",
        ),
        probes: Stream::slave(
            m,
            "s_axis_probe",
            ReceivedPacket::width() + PacketContext::width(),
            "ReceivedPacket with PacketContext above it: a reliability probe",
        ),
        answers: Stream::slave(m, "s_axis_answer", Answer::width(), "Answer: see descriptors"),
        contexts: Stream::slave(
            m,
            "s_axis_context",
            QueuePairContext::width(),
            "QueuePairContext as qp_lookup passes it on",
        ),
    };
    let pacing = Pacing {
        time_ns: m.input("time_ns", 64).doc("time in nanoseconds, from 0"),
        sack_every: m
            .input("sack_every", 8)
            .doc("a SACK after so many packets; 0 counts as 1"),
        sack_bytes: m
            .input("sack_bytes", 24)
            .doc("a SACK after so many bytes of payload; 0: bytes do not count"),
        sack_timer_ns: m
            .input("sack_timer_ns", 32)
            .doc("a SACK so long after the first packet that no SACK has reported"),
        cnp_interval_ns: m
            .input("cnp_interval_ns", 32)
            .doc("shortest time between two CNPs of a queue pair"),
    };
    let packets = Stream::master(
        m,
        "m_axis",
        PacketDescriptor::width(),
        "PacketDescriptor: a control packet to send",
    );

    let ring = timer::Request::wires(m, "ring");
    // Every space is cleared after reset.
    let sweep = sweep::after_reset(m, config.qpn_bits() + 1);
    // A register, so that nothing stands before the choice of who enters.
    let may_enter = m
        .reg("may_enter", 1)
        .reset(0)
        .doc("the tables are cleared, and there is a place in the queue");
    let entered = entry::entry(m, inputs, ring, pacing.time_ns, may_enter);
    let judged = judge::judge(m, config, &entered, pacing, sweep);
    ring.set(&timer::timer(m, config, &judged, pacing.time_ns, entered.timer_taken));
    let has_place = output::output(m, window, &judged, entered.enters, packets);
    may_enter.set(has_place & !sweep.active);
    m.finish()
}
