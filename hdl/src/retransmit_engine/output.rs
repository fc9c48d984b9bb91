//! The output ports: a FIFO before each, so that the engine goes on while others are busy.
//!
//! It builds the descriptors of what the steps say, and tells whether the engine may go on.

use spraynic_config::descriptor::{PacketDescriptor, PathEvent, Resend, SendProgress};
use spraynic_rtl::{Signal, Stream, index_width};
use spraynic_wire::Opcode;
use spraynic_wire::mrc::FTYPE_TIMESTAMP;

use super::Ports;
use super::engine::Engine;
use crate::extension::{Peth, extension};
use crate::fields::Fields;
use crate::stream_fifo;

/// PathEvents that may wait.
const EVENTS: u32 = 32;
/// SendProgress that may wait.
const PROGRESS: u32 = 16;
/// Probes that may wait.
const PROBES: u32 = 4;

/// Room behind the engine.
pub(super) struct Room<'a> {
    /// For one of each.
    pub(super) any: Signal<'a>,
    /// For all Resends that one operation can give.
    pub(super) resends: Signal<'a>,
}

/// Builds the ports. The wires of [`super::registers::Outputs`] are read here.
pub(super) fn outputs<'a>(engine: &Engine<'a>, ports: Ports<'a>) -> Room<'a> {
    let (m, out, op, qp) = (engine.m, &engine.out, &engine.op, &engine.qp);
    let zero = |width: u32| m.lit(0, width);

    let event = Fields::build::<PathEvent>(|name, width| match name {
        "set" => qp.path_set,
        "kind" => out.event_kind,
        "path" => out.event_path,
        "qpn" => op.qpn,
        _ => zero(width),
    });
    let events = fifo(
        engine,
        "events",
        out.event & qp.spreads,
        event.pack(),
        EVENTS,
        ports.events,
    );

    let progress = Fields::build::<SendProgress>(|name, width| match name {
        "qpn" => op.qpn,
        "base" => engine.space.base,
        // A NAK may name a request behind a READ whose responses are missing.
        "done" => (engine.deed.failed & op.ack).mux(op.acknowledges(), engine.told_done()),
        "wait" => engine.space.rnr_wait,
        "space" => op.space,
        "failed" => engine.deed.failed,
        "status" => engine.deed.status,
        _ => zero(width),
    });
    let progress = fifo(
        engine,
        "progress",
        out.progress,
        progress.pack(),
        PROGRESS,
        ports.progress,
    );

    let peth = Peth {
        space: zero(4),
        next: zero(5),
        vendor: zero(8),
        probe_id: (engine.space.probes + m.lit(1, 14)).zero_extend(16),
        spdcid: op.qpn.part(0, 16),
        dpdcid: qp.peer,
        tx_timestamp: zero(16),
        tsr: zero(1),
        ftype: m.lit(FTYPE_TIMESTAMP, 4),
    };
    let probe = Fields::build::<PacketDescriptor>(|name, width| match name {
        "qpn" => op.qpn,
        "opcode" => m.lit(Opcode::PROBE.0, 8),
        "mrc" => m.high(),
        "stamp" => m.lit(2, 2),
        "extension_words" => m.lit(Peth::LENGTH / 4, 4),
        "entropy" => out.probe_entropy.zero_extend(32),
        "port" => out.probe_port,
        "extension" => extension(&[peth.emit()]),
        _ => zero(width),
    });
    let probes = fifo(engine, "probes", out.probe, probe.pack(), PROBES, ports.control);

    let resend = Fields::build::<Resend>(|name, width| match name {
        "qpn" => op.qpn,
        "psn" => out.resend_psn,
        "slot" => out.resend_slot,
        "rewind" => out.rewind,
        "space" => op.space,
        _ => zero(width),
    });
    // An operation begins only with room for all that it can give: a window.
    let depth = 2 * engine.sizes.window;
    let resends = resends_fifo(engine, out.resend, resend.pack(), depth, ports.resends);
    m.assert("resends_have_room", !out.resend | resends);
    let bits = index_width(u64::from(depth) + 1);
    let waiting = m.reg("resends_waiting", bits).reset(0).doc("Resends in their FIFO");
    let leaves = ports.resends.valid & ports.resends.ready;
    m.when(out.resend & !leaves, || waiting.set(waiting + m.lit(1, bits)))
        .else_when(leaves & !out.resend, || waiting.set(waiting - m.lit(1, bits)));

    let qpn = op.qpn.part(0, 23);
    ports.timeouts.valid.set(out.fired);
    ports.timeouts.data.set(spraynic_rtl::cat(&[op.now, qpn, op.space]));
    ports.timeouts.ready.ignore();

    Room {
        any: (events & progress & probes).named("outputs_have_room"),
        resends: waiting.le(m.lit(engine.sizes.window, bits)).named("resends_may_follow"),
    }
}

/// A FIFO before a port; gives whether it has room.
fn fifo<'a>(
    engine: &Engine<'a>,
    name: &str,
    valid: Signal<'a>,
    word: Signal<'a>,
    depth: u32,
    port: Stream<'a>,
) -> Signal<'a> {
    let input = Stream::wires(engine.m, &format!("{name}_in"), word.width());
    input.valid.set(valid);
    input.data.set(word);
    let buffered = stream_fifo::buffer(engine.m, &format!("u_{name}"), input, depth);
    port.valid.set(buffered.valid);
    port.data.set(buffered.data);
    buffered.ready.set(port.ready);
    input.ready
}

/// The FIFO of Resends: a register, so that no step reaches the port in its own clock, and a FIFO that adds no latency where it is empty.
fn resends_fifo<'a>(
    engine: &Engine<'a>,
    valid: Signal<'a>,
    word: Signal<'a>,
    depth: u32,
    port: Stream<'a>,
) -> Signal<'a> {
    let m = engine.m;
    let input = Stream::wires(m, "resends_in", word.width());
    let comes = m.reg("resend_comes", 1).reset(0);
    let held = m.reg("resend_word", word.width());
    comes.set(valid);
    held.set(word);
    input.valid.set(comes);
    input.data.set(held);
    let buffered = stream_fifo::falling_through(m, "u_resends", input, depth);
    port.valid.set(buffered.valid);
    port.data.set(buffered.data);
    buffered.ready.set(port.ready);
    input.ready
}
