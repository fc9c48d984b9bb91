//! What comes in as one kind of operation, and whose turn it is: context writes first, then what is to be expected, then response packets.

use super::{Fields, Module, Stream};
use spraynic_config::Profile;
use spraynic_config::descriptor::{
    Descriptor, ExpectedResponse, PacketContext, QueuePairState, ReceivedPacket, SendContext, SequencedPacket,
};
use spraynic_rtl::{Signal, bundle};
use spraynic_wire::Opcode;

/// Kind: a context write.
pub(super) const CONTEXT: u32 = 0;
/// Kind: something to expect.
pub(super) const EXPECTED: u32 = 1;
/// Kind: a response packet.
pub(super) const RESPONSE: u32 = 2;

/// Bytes of an atomic.
pub(super) const ATOMIC_BYTES: u32 = 8;

bundle! {
    /// An operation. The fields behind `qpn` mean something for their kind alone.
    pub(crate) struct Operation {
        kind: 2, "0 a context write, 1 something to expect, 2 a response packet";
        qpn: 24, "queue pair number";
        roce: 1, "context: the profile is roce. Packet: it is feedback";
        sends: 1, "context: the queue pair sends, and its profile has READs";
        mtu: 3, "context: MTU code";
        slot: 8, "expected: slot";
        atomic: 1, "expected: an atomic";
        value: 64, "expected: address. Packet: the value of an atomic, byte 0 in the low bits as memory gets it";
        bytes: 32, "expected: length. Packet: bytes of payload";
        opcode: 8, "packet: BTH opcode";
        psn: 24, "packet: BTH PSN; expected: first PSN";
    }
}

impl<'a> Operation<'a> {
    /// Bytes of a packet's payload.
    pub(super) fn length(&self) -> Signal<'a> {
        self.bytes.part(0, 13)
    }
}

/// All that comes in, but payload.
pub(super) struct Inputs<'a> {
    pub(super) contexts: Stream<'a>,
    pub(super) expected: Stream<'a>,
    pub(super) sequenced: Stream<'a>,
    pub(super) feedback: Stream<'a>,
}

/// The operation that is taken in this clock.
pub(super) struct Arrived<'a> {
    pub(super) valid: Signal<'a>,
    pub(super) operation: Operation<'a>,
}

/// Takes one operation where it `may_enter`. Packets of both profiles take turns.
pub(super) fn arrived<'a>(m: Module<'a>, inputs: &Inputs<'a>, may_enter: Signal<'a>) -> Arrived<'a> {
    let Inputs {
        contexts,
        expected,
        sequenced,
        feedback,
    } = inputs;
    let width = ReceivedPacket::width();
    let packet = feedback.data.part(0, width);
    feedback.data.part(width, PacketContext::width()).ignore();
    let received = ignored::<ReceivedPacket>(packet);
    let is_response = [
        Opcode::READ_RESPONSE_FIRST,
        Opcode::READ_RESPONSE_MIDDLE,
        Opcode::READ_RESPONSE_LAST,
        Opcode::READ_RESPONSE_ONLY,
        Opcode::ATOMIC_ACKNOWLEDGE,
    ]
    .into_iter()
    .fold(m.low(), |any, opcode| any | received.get("opcode").eq_lit(opcode.0))
    .named("feedback_is_response");

    let last_was_roce = m.reg("last_was_roce", 1).reset(0).doc("the last packet was feedback");
    let offered = (feedback.valid & is_response).named("feedback_offered");
    let packets = (may_enter & !contexts.valid & !expected.valid).named("packets_may_enter");
    let takes_roce = (packets & offered & !(sequenced.valid & last_was_roce)).named("takes_roce");
    let takes_solar = (packets & sequenced.valid & !takes_roce).named("takes_solar");
    m.when(takes_roce | takes_solar, || last_was_roce.set(takes_roce));
    contexts.ready.set(may_enter);
    expected.ready.set(may_enter & !contexts.valid);
    sequenced.ready.set(takes_solar);
    feedback.ready.set(!is_response | takes_roce);

    let takes_context = contexts.fires();
    let takes_expected = expected.fires();
    let context = ignored::<SendContext>(contexts.data);
    let wanted = ignored::<ExpectedResponse>(expected.data);
    let in_order = ignored::<SequencedPacket>(sequenced.data);
    let has_reads =
        context.get("profile").eq_lit(Profile::Roce.code()) | context.get("profile").eq_lit(Profile::Solar.code());
    let mtu = context.get("mtu");
    let mtu_known = mtu.any() & mtu.lt(mtu.lit(6));
    let either = |name: &str| takes_roce.mux(received.get(name), in_order.get(name));
    let original = takes_roce.mux(value_of(received.get("extension")), value_of(in_order.get("extension")));
    let kind = takes_context.mux(
        m.lit(CONTEXT, 2),
        takes_expected.mux(m.lit(EXPECTED, 2), m.lit(RESPONSE, 2)),
    );
    let operation = Operation {
        kind,
        qpn: takes_context.mux(context.get("qpn"), takes_expected.mux(wanted.get("qpn"), either("qpn"))),
        roce: takes_context.mux(context.get("profile").eq_lit(Profile::Roce.code()), takes_roce),
        sends: context.get("state").eq_lit(QueuePairState::ReadyToSend as u8) & has_reads & mtu_known,
        mtu,
        slot: wanted.get("slot"),
        atomic: wanted.get("atomic"),
        value: takes_expected.mux(wanted.get("address"), original),
        bytes: takes_expected.mux(wanted.get("length"), either("payload_length").zero_extend(32)),
        opcode: either("opcode"),
        psn: takes_expected.mux(wanted.get("psn"), either("psn")),
    };
    Arrived {
        valid: (takes_context | takes_expected | takes_solar | takes_roce).named("arrived"),
        operation,
    }
}

/// The fields of a descriptor of which some are not looked at.
fn ignored<'a, D: Descriptor>(packed: Signal<'a>) -> Fields<'a> {
    let fields = Fields::unpack::<D>(packed);
    for field in D::FIELDS {
        fields.get(field.name).ignore();
    }
    fields
}

/// The value of an AtomicAckETH, which stands behind an AETH of 4 bytes, most significant byte first; here byte 0 is the least one.
fn value_of(extension: Signal<'_>) -> Signal<'_> {
    let bytes: Vec<_> = (4..12).map(|place| extension.part(8 * place, 8)).collect();
    spraynic_rtl::cat(&bytes)
}
