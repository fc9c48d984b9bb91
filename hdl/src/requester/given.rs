//! What a packet gives, in the clock behind its verdict: a PayloadWrite, and what becomes of its payload. Both wait in queues.

use super::expected::{Found, bytes_taken};
use super::judge::Verdict;
use super::operation::Operation;
use super::payload::{self, Decision};
use super::{AxiStream, Fields, Module, Signal, State, Stream};
use crate::counter::{Counter, count_when};
use crate::stream_fifo::buffer_counted;
use spraynic_config::Profile;
use spraynic_config::descriptor::{CompletionStatus, Descriptor, PayloadWrite};
use spraynic_rtl::Bundle;
use spraynic_wire::Syndrome;

/// Words of each queue.
const DEPTH: u32 = 16;

/// Operations that may come to a queue when it is said to have no room: those in the pipeline, and two for the time that this takes.
const UNDER_WAY: u32 = super::STAGES as u32 + 1 + 2;

/// The queues.
pub(super) struct Given<'a> {
    m: Module<'a>,
    writes: (Stream<'a>, Stream<'a>),
    decisions: (Stream<'a>, Stream<'a>),
    /// Another operation may enter.
    pub(super) room: Signal<'a>,
}

impl<'a> Given<'a> {
    pub(super) fn new(m: Module<'a>) -> Self {
        let queue = |name: &str, width: u32| {
            let input = Stream::wires(m, name, width);
            let (output, count) = buffer_counted(m, &format!("u_{name}s"), input, DEPTH);
            let room = m.reg(&format!("{name}s_have_room"), 1).reset(0);
            room.set(count.le(count.lit(DEPTH - UNDER_WAY)));
            m.assert(&format!("{name}_has_room"), !input.valid | input.ready);
            ((input, output), room)
        };
        let (writes, write_room) = queue("write", PayloadWrite::width());
        let (decisions, decision_room) = queue("decision", Decision::packed_width());
        Self {
            m,
            writes,
            decisions,
            room: write_room & decision_room,
        }
    }

    /// Gives what the operation in judgement has a right to.
    pub(super) fn give(
        &self,
        operation: &Operation<'a>,
        state: &State<'a>,
        found: &Found<'a>,
        verdict: &Verdict<'a>,
        writes: Stream<'a>,
    ) {
        let m = self.m;
        let hold = |signal: Signal<'a>, name: &str| signal.delayed(&format!("given_{name}"));
        let flag = |signal: Signal<'a>, name: &str| {
            let register = m.reg(&format!("given_{name}"), 1).reset(0);
            register.set(signal);
            register
        };
        for (name, doc, event) in &verdict.counters {
            count_when(m, Counter(name, doc), flag(*event, &format!("counts_{name}")));
        }
        let good = verdict.taken & verdict.right;
        let right = hold(verdict.right, "right");
        let roce = hold(operation.roce, "roce");
        let mtu = hold(state.mtu, "mtu");
        let before = hold(state.taken, "packets_before");
        let offsets: Vec<Signal<'a>> = (0..8u32)
            .map(|code| before.zero_extend(36) << (7 + code.clamp(1, 5)))
            .collect();
        let address = hold(found.address, "address") + mtu.select(&offsets).zero_extend(64);
        let length = hold(bytes_taken(m, operation, found.atomic).gate(verdict.right), "bytes");
        let ends = hold(verdict.ends, "ends");
        let (qpn, opcode, psn) = (
            hold(operation.qpn, "qpn"),
            hold(operation.opcode, "opcode"),
            hold(operation.psn, "psn"),
        );
        let slot = hold(found.slot, "slot");
        let write = Fields::build::<PayloadWrite>(|name, width| match name {
            "qpn" => qpn,
            "opcode" => opcode,
            "address" => address,
            "length" => length,
            "answer" => ends,
            "psn" => psn,
            "syndrome" => m.lit(Syndrome::ACK.byte(), width),
            "profile" => roce.mux(m.lit(Profile::Roce.code(), width), m.lit(Profile::Solar.code(), width)),
            "status" => right.mux(
                m.lit(CompletionStatus::Success as u8, width),
                m.lit(CompletionStatus::BadResponse as u8, width),
            ),
            "cookie" => slot.zero_extend(width),
            _ => m.lit(0, width),
        });
        let (into, from) = self.writes;
        into.valid.set(flag(verdict.taken, "write"));
        into.data.set(write.pack());
        into.ready.ignore();
        from.connect(writes);

        let immediate = good & found.atomic;
        let has_payload = verdict.is_response & operation.length().any();
        let (into, _) = self.decisions;
        into.valid.set(flag(has_payload | immediate, "decision"));
        into.data.set(
            Decision {
                roce,
                keep: hold(good, "keep"),
                immediate: hold(immediate, "immediate"),
                value: hold(operation.value, "value"),
            }
            .pack(),
        );
        into.ready.ignore();
    }

    /// Moves payload as it was decided.
    pub(super) fn payload(&self, sources: [AxiStream<'a>; 2], output: AxiStream<'a>) {
        payload::payload(self.m, sources, self.decisions.1, output);
    }
}
