//! Where packets wait for their path, and where both leave together.
//!
//! Descriptors wait in one RAM from their entry on, paths in another from the end of the pipeline on; both are taken out in order, so no descriptor moves
//! through the pipeline.

use spraynic_config::descriptor::{Descriptor, PacketDescriptor, PacketOrigin, SentPacket};
use spraynic_rtl::{Bundle, MemoryStyle, Module, Signal, Stream, bundle, index_width};

use spraynic_wire::Opcode;

use super::PACKETS;
use crate::fields::Fields;

bundle! {
    /// The path of a packet.
    pub(super) struct Result {
        own: 1, "the packet keeps the entropy value of its descriptor";
        entropy: 32, "entropy value of the path";
        place: 8, "place of the path in its set";
        port: 3, "port";
    }
}

/// Packets between entry and exit.
pub(super) struct Queue<'a> {
    m: Module<'a>,
    packets: Stream<'a>,
    sent: Stream<'a>,
    /// One more packet may enter.
    pub(super) has_place: Signal<'a>,
    taken: Signal<'a>,
    enters: Signal<'a>,
    entering: Signal<'a>,
}

impl<'a> Queue<'a> {
    pub(super) fn new(m: Module<'a>, packets: Stream<'a>, sent: Stream<'a>) -> Self {
        let taken = m
            .reg("taken", index_width(u64::from(PACKETS) + 1))
            .reset(0)
            .doc("packets from entry to exit");
        Self {
            m,
            packets,
            sent,
            has_place: taken.ne_lit(PACKETS).named("has_place"),
            taken,
            enters: m.wire("packet_enters", 1),
            entering: m.wire("entering", PacketDescriptor::width() + PacketOrigin::width()),
        }
    }

    /// The packets that enter.
    pub(super) fn enter(&self, packets: Stream<'a>) {
        self.enters.set(packets.fires());
        self.entering.set(packets.data);
    }

    /// A packet has its path. Drives the exits; says when a packet leaves.
    pub(super) fn leave(&self, push: Signal<'a>, result: &Result<'a>) -> Signal<'a> {
        let m = self.m;
        let bits = index_width(u64::from(PACKETS));
        let pop = m.wire("pop", 1);
        let index = |name: &str, step: Signal<'a>| {
            let index = m.reg(name, bits).reset(0);
            m.when(step, || index.set(index + index.lit(1)));
            index
        };
        let ram = |name: &str, width: u32, write: Signal<'a>, data: Signal<'a>| {
            let memory = m.memory(name, PACKETS, width).style(MemoryStyle::Distributed);
            memory.write(write, index(&format!("{name}_tail"), write), data);
            memory
        };
        let descriptors = ram("waiting_packets", self.entering.width(), self.enters, self.entering);
        let results = ram("results", Result::packed_width(), push, result.pack());
        let head = index("head", pop);
        let ready = m
            .reg("results_ready", bits + 1)
            .reset(0)
            .doc("packets in the queue that have their path");
        m.when(push & !pop, || ready.set(ready + ready.lit(1)))
            .else_when(!push & pop, || ready.set(ready - ready.lit(1)));
        let one = |fires: Signal<'a>| fires.zero_extend(self.taken.width());
        self.taken.set(self.taken + one(self.enters) - one(pop));
        m.assert("every_path_has_its_packet", ready.le(self.taken.resize(bits + 1)));

        let word = descriptors.read_now(head);
        let packet = Fields::unpack::<PacketDescriptor>(word.part(0, PacketDescriptor::width()));
        let origin = Fields::unpack::<PacketOrigin>(word.part(PacketDescriptor::width(), PacketOrigin::width()));
        let result = Result::unpack(results.read_now(head));
        let entropy = result.own.mux(packet.get("entropy"), result.entropy);
        let opcode_is = |opcode: Opcode| packet.get("opcode").eq_lit(opcode.0);
        let with_data =
            opcode_is(Opcode::READ_REQUEST) | opcode_is(Opcode::COMPARE_SWAP) | opcode_is(Opcode::FETCH_ADD);
        let told = Fields::build::<SentPacket>(|name, width| match name {
            "qpn" | "psn" => packet.get(name),
            "path" => result.place,
            "port" => result.port,
            "response" => with_data,
            "entropy" => entropy.part(0, width),
            "reserved_0" => m.lit(0, width),
            _ => origin.get(name),
        });
        let valid = |name: &str| m.reg(name, 1).reset(0);
        let (packet_valid, sent_valid) = (valid("packet_valid"), valid("sent_valid"));
        let packet_data = m.reg("packet_given", PacketDescriptor::width());
        let sent_data = m.reg("sent_given", SentPacket::width());
        let free = (!packet_valid | self.packets.ready) & (!sent_valid | self.sent.ready);
        pop.set(ready.any() & free);
        m.when(self.packets.ready, || packet_valid.set_lit(0));
        m.when(self.sent.ready, || sent_valid.set_lit(0));
        origin.get("profile").ignore();
        m.when(pop, || {
            packet_valid.set_lit(1);
            sent_valid.set(origin.get("tracked"));
            packet_data.set(packet.clone().with("entropy", entropy).with("port", result.port).pack());
            sent_data.set(told.pack());
        });
        self.packets.valid.set(packet_valid);
        self.packets.data.set(packet_data);
        self.sent.valid.set(sent_valid);
        self.sent.data.set(sent_data);
        pop
    }
}
