//! What an opcode means in each profile, and the checks of a packet against the context of its queue pair.
//!
//! Both come from the table of opcodes in `spraynic-wire`, at elaboration: a configuration gets the logic of its profiles alone.

use super::any;
use super::contexts::{Entry, addresses};
use crate::fields::Fields;
use spraynic_config::descriptor::{QueuePairState, ReceivedPacket};
use spraynic_config::{NicConfig, Profile};
use spraynic_rtl::{Module, Signal};
use spraynic_wire::mrc::ENDPOINT_QPN;
use spraynic_wire::opcode::OPCODES;
use spraynic_wire::{OpcodeInfo, Operation};

/// What an opcode is in one profile: registers that stand beside the packet.
pub(super) struct Class<'a> {
    profile: Profile,
    /// The profile has it.
    known: Signal<'a>,
    /// Route 1.
    feedback: Signal<'a>,
    /// Route 2.
    probe: Signal<'a>,
    /// Route 0, in the sequence space of responses.
    responses: Signal<'a>,
}

/// What is known of a packet without its context: registers that stand beside the packet.
pub(super) struct Decoded<'a> {
    classes: Vec<Class<'a>>,
    /// The opcode is none, or an endpoint operation goes to another number than 2.
    wrong_opcode: Signal<'a>,
    /// An endpoint operation.
    pub(super) endpoint: Signal<'a>,
    /// The queue pair number is within the table.
    in_table: Signal<'a>,
    /// A packet of payload comes with it.
    pub(super) has_payload: Signal<'a>,
}

/// The opcodes that satisfy `wanted`, compared with `opcode`.
fn is_one<'a>(opcode: Signal<'a>, wanted: impl Fn(&OpcodeInfo) -> bool) -> Signal<'a> {
    let codes = OPCODES.iter().filter(|info| wanted(info)).map(|info| info.opcode.0);
    any(opcode.module(), codes.map(|code| opcode.eq_lit(code)))
}

/// Whether a packet answers own requests and takes no PSN of this side's sequence spaces.
fn is_feedback(operation: Operation, profile: Profile) -> bool {
    use Operation::*;
    match operation {
        Acknowledge | Cnp | Sack | Nack => true,
        ReadResponse | AtomicAcknowledge => profile != Profile::Solar,
        Send | Write | ReadRequest | CompareSwap | FetchAdd | Probe | EndpointRequest | EndpointResponse => false,
    }
}

fn is_endpoint(info: &OpcodeInfo) -> bool {
    matches!(info.operation, Operation::EndpointRequest | Operation::EndpointResponse)
}

fn has_opcode(profile: Profile, info: &OpcodeInfo) -> bool {
    info.is_in(match profile {
        Profile::Roce => spraynic_wire::Profile::Roce,
        Profile::Solar => spraynic_wire::Profile::Solar,
        Profile::Mrc => spraynic_wire::Profile::Mrc,
    })
}

/// Decodes a packet; what comes out is registered where `advance` is 1.
pub(super) fn decode<'a>(m: Module<'a>, config: &NicConfig, packet: Signal<'a>, advance: Signal<'a>) -> Decoded<'a> {
    let fields = Fields::unpack::<ReceivedPacket>(packet);
    let (opcode, qpn) = (fields.get("opcode"), fields.get("qpn"));
    let register = |name: &str, value: Signal<'a>| {
        let register = m.reg(name, 1);
        m.when(advance, || register.set(value));
        register
    };
    let mut classes = vec![];
    for profile in Profile::ALL
        .iter()
        .copied()
        .filter(|profile| config.has_profile(*profile))
    {
        let class = |name: &str, wanted: &dyn Fn(&OpcodeInfo) -> bool| {
            let has = is_one(opcode, |info| {
                has_opcode(profile, info) && !is_endpoint(info) && wanted(info)
            });
            register(&format!("{}_{name}_2", profile.name()), has)
        };
        classes.push(Class {
            profile,
            known: class("known", &|_| true),
            feedback: class("feedback", &|info| is_feedback(info.operation, profile)),
            probe: class("probe", &|info| info.operation == Operation::Probe),
            responses: class("responses", &|info| {
                profile == Profile::Solar && info.operation.is_response()
            }),
        });
    }
    let endpoint = is_one(opcode, is_endpoint);
    let wrong_number = endpoint & qpn.ne_lit(ENDPOINT_QPN);
    Decoded {
        classes,
        wrong_opcode: register("wrong_opcode_2", !is_one(opcode, |_| true) | wrong_number),
        endpoint: register("endpoint_2", endpoint),
        in_table: register("in_table_2", !(qpn >> config.qpn_bits()).any()),
        has_payload: register("has_payload_2", fields.get("payload_length").any()),
    }
}

/// What becomes of a packet.
pub(super) struct Verdict<'a> {
    /// The port it leaves on, by the code of the route; none for a packet that is dropped.
    pub(super) routes: [Signal<'a>; 4],
    /// Its PSN is of the sequence space of responses.
    pub(super) responses: Signal<'a>,
    /// Name of the counter, meaning and condition of each reason to drop it.
    pub(super) drops: Vec<(&'static str, &'static str, Signal<'a>)>,
}

/// Whether a packet goes from the peer to this side, by the addresses of the context. A packet or context with IPv6 addresses where the
/// configuration has none is nobody's.
pub(super) fn same_peer<'a>(config: &NicConfig, packet: &Fields<'a>, of_context: Signal<'a>) -> Signal<'a> {
    let [ipv6, source, destination] = ["ipv6", "source_ip", "destination_ip"].map(|name| packet.get(name));
    let same = addresses(config, ipv6, source, destination).eq(of_context);
    let known = if config.wire.ipv6 {
        same
    } else {
        same & !of_context.msb()
    };
    known.named("same_peer")
}

/// Checks a packet against its context.
pub(super) fn check<'a>(
    m: Module<'a>,
    packet: &Fields<'a>,
    decoded: &Decoded<'a>,
    context: &Entry<'a>,
    same_peer: Signal<'a>,
) -> Verdict<'a> {
    let of_profile = |part: fn(&Class<'a>) -> Signal<'a>| {
        let classes = decoded.classes.iter();
        any(
            m,
            classes.map(|class| context.profile.eq_lit(class.profile.code()) & part(class)),
        )
    };
    let known = of_profile(|class| class.known).named("opcode_of_profile");
    let feedback = of_profile(|class| class.feedback).named("is_feedback");
    let probe = of_profile(|class| class.probe).named("is_probe");
    let responses = of_profile(|class| class.responses).named("is_response");
    let is_in = |state: QueuePairState| context.state.eq_lit(state as u8);

    let ready_to_send = is_in(QueuePairState::ReadyToSend);
    // What answers own requests comes only where requests can have been sent.
    let takes_it = ready_to_send | (is_in(QueuePairState::ReadyToReceive) & !(feedback | responses));
    let (one, other) = (packet.get("partition_key"), context.partition_key);
    let same_partition = one.part(0, 15).eq(other.part(0, 15)) & (one.bit(15) | other.bit(15));
    let in_use = decoded.in_table & !is_in(QueuePairState::Reset);
    let endpoint = decoded.endpoint;

    let checks = [
        (
            "drop_queue_pair",
            "packets of a queue pair that is beyond the table or in RESET",
            !in_use,
        ),
        (
            "drop_opcode",
            "packets of an opcode that the queue pair's profile does not have, and endpoint operations to another number than 2",
            !known,
        ),
        (
            "drop_state",
            "packets that the queue pair does not take in its state",
            !takes_it,
        ),
        (
            "drop_peer",
            "packets from or to another address than the context's",
            !same_peer,
        ),
        (
            "drop_partition",
            "packets whose P_Key does not match",
            !same_partition.named("same_partition"),
        ),
    ];
    let mut good = !(decoded.wrong_opcode | endpoint);
    let mut drops = vec![];
    for (name, doc, wrong) in checks {
        let dropped = good & wrong;
        // An opcode that is no queue pair's is wrong before anybody asks for the queue pair.
        let dropped = if name == "drop_opcode" {
            dropped | decoded.wrong_opcode
        } else {
            dropped
        };
        drops.push((name, doc, dropped));
        good = good & !wrong;
    }
    let good = good.named("packet_good");
    Verdict {
        routes: [
            good & !(feedback | probe),
            good & feedback,
            good & probe,
            endpoint & !decoded.wrong_opcode,
        ],
        responses,
        drops,
    }
}
