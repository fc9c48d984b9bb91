//! Probes of bad paths: a probe packet (MRC 1.0, PETH) by the path's entropy value, whose answer (a SACK with `pr`) names it.
//!
//! It follows `golden-model/src/spraynic_nic/probe.rs`.

use spraynic_config::NicConfig;
use spraynic_config::descriptor::{
    Descriptor, PacketContext, PacketDescriptor, PathEvent, PathEventKind, PathUpdate, ReceivedPacket, SendContext,
};
use spraynic_rtl::{Module, ReadDuringWrite, Signal, Stream, cat_lsb_first};
use spraynic_wire::Opcode;
use spraynic_wire::mrc::FTYPE_TIMESTAMP;

use super::merge::{filter, with_data};
use crate::extension::{Peth, extension};
use crate::fields::Fields;
use crate::skid_buffer;
use crate::sweep;

/// Probe ids with this bit ask for a path, the low 8 bits being its place; those without are `retransmit_engine`'s.
const PATH_PROBE: u32 = 0x4000;

/// The probe packets of the paths that `path_monitor` names.
pub(super) fn probes<'a>(m: Module<'a>, paths: Stream<'a>) -> Stream<'a> {
    let path = Fields::unpack::<PathUpdate>(paths.data);
    let zero = |width| m.lit(0, width);
    let peth = Peth {
        space: zero(4),
        next: zero(5),
        vendor: zero(8),
        probe_id: path.get("path").zero_extend(16) | m.lit(PATH_PROBE, 16),
        spdcid: zero(16),
        dpdcid: zero(16),
        tx_timestamp: zero(16),
        tsr: zero(1),
        ftype: m.lit(FTYPE_TIMESTAMP, 4),
    };
    let packet = Fields::build::<PacketDescriptor>(|name, width| match name {
        "qpn" => path.get("qpn"),
        "opcode" => m.lit(Opcode::PROBE.0, width),
        "mrc" => m.high(),
        "stamp" => m.lit(2, width),
        "extension_words" => m.lit(Peth::LENGTH / 4, width),
        "entropy" => path.get("entropy"),
        "port" => path.get("port"),
        "extension" => extension(&[peth.emit()]),
        _ => zero(width),
    });
    for unread in ["set", "state", "reserved_0", "reserved_1"] {
        path.get(unread).ignore();
    }
    with_data(m, "path_probe", paths, packet.pack())
}

/// The events of the SACKs that answer probes of paths. `contexts` tells the path set of each queue pair.
pub(super) fn answers<'a>(m: Module<'a>, config: &NicConfig, feedback: Stream<'a>, contexts: Stream<'a>) -> Stream<'a> {
    let packet = Fields::unpack::<ReceivedPacket>(feedback.data.part(0, ReceivedPacket::width()));
    feedback
        .data
        .part(ReceivedPacket::width(), PacketContext::width())
        .ignore();
    let byte = |number: u32| packet.get("extension").part(8 * number, 8);
    let answers = byte(1).bit(1);
    let of_path = byte(2).bit(PATH_PROBE.trailing_zeros() - 8);
    let is_answer = packet.get("opcode").eq_lit(Opcode::SACK.0) & answers & of_path;
    let seen = filter(m, "path_answer", feedback, is_answer);
    let named = cat_lsb_first(&[byte(3), packet.get("qpn")]);
    let told = skid_buffer::register(m, "u_path_answer", with_data(m, "path_answer_of", seen, named));

    // A queue pair's set, as written; before that, set 0.
    let bits = config.send_queue_pairs().trailing_zeros().max(1);
    let sweep = sweep::after_reset(m, bits);
    let context = Fields::unpack::<SendContext>(contexts.data);
    let sets = m
        .memory("path_sets", 1 << bits, context.get("path_set").width())
        .read_during_write(ReadDuringWrite::New);
    contexts.data.ignore();
    contexts.ready.set(!sweep.active);
    let (qpn, written) = (context.get("qpn"), contexts.valid);
    let inside = |qpn: Signal<'a>| !qpn.slice(23, bits).any();
    sets.write(
        sweep.active | written & inside(qpn),
        sweep.active.mux(sweep.index, qpn.part(0, bits)),
        context.get("path_set").gate(!sweep.active),
    );
    // The word of the answer that waits comes out of the RAM one clock later.
    let asked = told.data.part(8, 24);
    let is_read = m.reg("path_set_is_read", 1).reset(0);
    let set = sets.read(told.valid, asked.part(0, bits));
    let events = Stream::wires(m, "path_answer_event", PathEvent::width());
    is_read.set(told.valid & !told.fires());
    events.valid.set(told.valid & is_read);
    told.ready.set(is_read & events.ready);
    let event = Fields::build::<PathEvent>(|name, width| match name {
        "set" => set.gate(inside(asked)),
        "kind" => m.lit(PathEventKind::ProbeAnswered as u8, width),
        "path" => told.data.part(0, 8),
        "qpn" => asked,
        _ => m.lit(0, width),
    });
    events.data.set(event.pack());
    events
}
