//! What follows from an opcode: its headers, and what it may carry. From the one table in `spraynic_wire::opcode`.

use super::PacketParser;
use spraynic_rtl::{Module, Signal};

/// What the table says of one opcode.
#[derive(Clone, Copy)]
pub(super) struct OpcodeFacts<'a> {
    /// A profile of the configuration has it.
    pub(super) known: Signal<'a>,
    /// Payload may follow.
    pub(super) has_payload: Signal<'a>,
    /// Request or response that takes a PSN.
    pub(super) takes_psn: Signal<'a>,
    /// Extension headers in units of 4 bytes.
    pub(super) extension_words: Signal<'a>,
}

impl<'a> OpcodeFacts<'a> {
    /// These where `chosen` is 1, otherwise the others.
    pub(super) fn or(&self, others: &Self, chosen: Signal<'a>) -> Self {
        Self {
            known: chosen.mux(self.known, others.known),
            has_payload: chosen.mux(self.has_payload, others.has_payload),
            takes_psn: chosen.mux(self.takes_psn, others.takes_psn),
            extension_words: chosen.mux(self.extension_words, others.extension_words),
        }
    }
}

/// Looks an opcode up; `timestamped`: BTH ts, which some opcodes have an extension header for.
pub(super) fn opcode_facts<'a>(
    m: Module<'a>,
    parser: &PacketParser,
    prefix: &str,
    opcode: Signal<'a>,
    timestamped: Signal<'a>,
) -> OpcodeFacts<'a> {
    let wire = |name: &str, width, doc| m.wire(&format!("{prefix}_{name}"), width).doc(doc);
    let known = wire("opcode_known", 1, "a profile of this NIC has the opcode");
    let has_payload = wire("opcode_has_payload", 1, "payload may follow");
    let takes_psn = wire("opcode_takes_psn", 1, "request or response that takes a PSN");
    let plain = wire("opcode_words", 4, "words of extension headers without TSETH");
    let stamped = wire(
        "opcode_words_timestamped",
        4,
        "the same with TSETH where the opcode can have one",
    );
    for signal in [known, has_payload, takes_psn, plain, stamped] {
        signal.set_lit(0);
    }
    m.switch(opcode, |switch| {
        for info in parser.opcodes.iter().filter_map(|opcode| opcode.info()) {
            switch.case(info.opcode.0, || {
                known.set_lit(1);
                has_payload.set_lit(u8::from(info.has_payload));
                let operation = info.operation;
                takes_psn.set_lit(u8::from(operation.is_request() || operation.is_response()));
                plain.set_lit(info.header_bytes(false) as u32 / 4);
                stamped.set_lit(info.header_bytes(true) as u32 / 4);
            });
        }
    });
    OpcodeFacts {
        known,
        has_payload,
        takes_psn,
        extension_words: timestamped.mux(stamped, plain),
    }
}
