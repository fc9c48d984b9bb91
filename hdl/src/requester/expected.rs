//! The READs and atomics that wait for their responses: a ring in RAM for each queue pair. An entry is written once; how far its response has come
//! stands with the queue pair's state.

use super::operation::{ATOMIC_BYTES, Operation};
use super::{Module, Signal, Stage, State};
use crate::response_packet::mtu_bytes;
use spraynic_rtl::{Bundle, MemoryHandle, bundle, cat};
use spraynic_wire::Opcode;

bundle! {
    /// A READ or an atomic that waits for its response.
    struct Expected {
        slot: 8, "place of the request in the send queue";
        atomic: 1, "an atomic";
        mtu: 3, "path MTU code";
        psn: 24, "roce: PSN of the first packet";
        last: 24, "number of the last packet, the first one being 0";
        last_length: 13, "bytes of the last packet";
        address: 64, "where the payload goes";
    }
}

bundle! {
    /// What a response packet has to do with the oldest entry, apart from how many packets have come before it.
    pub(super) struct Found {
        slot: 8, "place of the request in the send queue";
        atomic: 1, "an atomic";
        last: 24, "number of the last packet of the response";
        address: 64, "where the payload goes";
        psn_ahead: 24, "roce: the packet's number, by its PSN";
        begins: 1, "its opcode is first or only";
        right_before_last: 1, "opcode and length are right for any packet but the last";
        right_last: 1, "they are for the last one";
        right_atomic: 1, "they are for an atomic";
    }
}

/// The rings.
pub(super) struct Ring<'a> {
    m: Module<'a>,
    memory: MemoryHandle<'a>,
    place_bits: u32,
}

impl<'a> Ring<'a> {
    pub(super) fn new(m: Module<'a>, queue_pairs: u32, reads: u32) -> Self {
        Self {
            m,
            memory: m.memory("ring", queue_pairs * reads, Expected::packed_width()),
            place_bits: reads.trailing_zeros(),
        }
    }

    fn address(&self, index: Signal<'a>, place: Signal<'a>) -> Signal<'a> {
        if self.place_bits == 0 {
            place.ignore();
            index
        } else {
            cat(&[index, place.part(0, self.place_bits)])
        }
    }

    /// Reads the entry at `place` for the operation in stage 2, and compares it with `operation`, the same one in stage 4. The result is there in
    /// stage 5.
    pub(super) fn find(&self, second: &Stage<'a>, place: Signal<'a>, operation: &Operation<'a>) -> Found<'a> {
        let m = self.m;
        let read = self.memory.read(m.high(), self.address(second.index, place));
        let entry = Expected::regs(m, "entry");
        entry.set(&Expected::unpack(read));
        let has = |opcode: Opcode| operation.opcode.eq_lit(opcode.0);
        let length = operation.length();
        let (first, only) = (has(Opcode::READ_RESPONSE_FIRST), has(Opcode::READ_RESPONSE_ONLY));
        let before_last = first | has(Opcode::READ_RESPONSE_MIDDLE);
        let last = only | has(Opcode::READ_RESPONSE_LAST);
        let found = Found::regs(m, "found");
        found.set(&Found {
            slot: entry.slot,
            atomic: entry.atomic,
            last: entry.last,
            address: entry.address,
            psn_ahead: operation.psn - entry.psn,
            begins: first | only,
            right_before_last: !entry.atomic & before_last & length.eq(mtu_bytes(m, entry.mtu)),
            right_last: !entry.atomic & last & length.eq(entry.last_length),
            right_atomic: entry.atomic & has(Opcode::ATOMIC_ACKNOWLEDGE) & !length.any(),
        });
        found
    }

    /// Stores what the operation that is judged expects where `stores` is 1: in the clock behind.
    pub(super) fn store(&self, judged: &Stage<'a>, state: &State<'a>, stores: Signal<'a>) {
        let m = self.m;
        let operation = &judged.operation;
        let tail = (state.head + state.count.part(0, 4)).named("tail");
        let writes = m.reg("ring_writes", 1).reset(0);
        writes.set(stores);
        let address = self.address(judged.index, tail).delayed("ring_address");
        let hold = |signal: Signal<'a>, name: &str| signal.delayed(&format!("new_{name}"));
        let atomic = hold(operation.atomic, "atomic");
        let mtu = hold(state.mtu, "mtu");
        // An atomic has one packet. One less than the bytes of a READ, which may have none.
        let any = hold(operation.bytes.any() & !operation.atomic, "has_bytes");
        let less = hold(operation.bytes - operation.bytes.lit(1), "bytes_less_one");
        let last: Vec<Signal<'a>> = (0..8u32)
            .map(|code| (less >> (7 + code.clamp(1, 5))).part(0, 24))
            .collect();
        let within = less.part(0, 12) & (mtu_bytes(m, mtu) - m.lit(1, 13)).part(0, 12);
        let entry = Expected {
            slot: hold(operation.slot, "slot"),
            atomic,
            mtu,
            psn: hold(operation.psn, "psn"),
            last: mtu.select(&last).gate(any),
            last_length: (within.zero_extend(13) + m.lit(1, 13)).gate(any),
            address: hold(operation.value, "address"),
        };
        self.memory.write(writes, address, entry.pack());
    }
}

/// Bytes that a packet brings that was taken and right.
pub(super) fn bytes_taken<'a>(m: Module<'a>, operation: &Operation<'a>, atomic: Signal<'a>) -> Signal<'a> {
    atomic.mux(m.lit(ATOMIC_BYTES, 13), operation.length())
}
