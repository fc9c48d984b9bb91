//! What enters the responder: a packet, a receive request or a context write, decoded to one kind of word, so that all are carried
//! out in the order in which they came. What a packet says by itself is found out here; nothing of a queue pair's state is looked at.

use crate::extension::big_endian;
use crate::fields::Fields;
use spraynic_config::descriptor::{
    MemoryAccess, QueuePairContext, QueuePairState, ReceiveRequest, RequestExtension, SequencedPacket,
};
use spraynic_config::{NicConfig, Profile};
use spraynic_rtl::{Bundle, Module, Signal, bundle};
use spraynic_wire::opcode::OPCODES;
use spraynic_wire::{AtomicEth, Header, HeaderKind, ImmDt, Meth, Opcode, OpcodeInfo, Operation as Asks, Reth, Tseth};

/// Kinds of operations: [`Operation::kind`].
pub(super) const PACKET: u8 = 0;
pub(super) const RECEIVE_REQUEST: u8 = 1;
pub(super) const CONTEXT: u8 = 2;
/// Gives back the oldest receive request; made inside.
pub(super) const FLUSH: u8 = 3;

/// States of a context write, as [`Operation::state`] has them: the queue pair receives, or is in ERROR.
pub(super) const RECEIVES: u8 = 2;
pub(super) const ERROR: u8 = 3;

/// Bytes an atomic works on.
const ATOMIC_BYTES: u32 = 8;

/// Rights of a [`MemoryAccess`].
const READ: u8 = 1;
const ATOMIC: u8 = 2;
const INVALIDATE: u8 = 3;

bundle! {
    /// An operation on a queue pair. What is not of its kind is 0.
    pub(super) struct Operation {
        kind: 2, "0 packet, 1 receive request, 2 context write, 3 flush";
        qpn: 24, "queue pair number";
        state: 2, "context write: 0 RESET, 1 INIT, 2 a state that receives, 3 ERROR";
        opcode: 8, "BTH opcode";
        psn: 24, "BTH PSN";
        profile: 2, "wire profile";
        duplicate: 1, "roce: to be answered again";
        ack_request: 1, "BTH AckReq";
        solicited: 1, "BTH solicited event";
        mtu: 3, "path MTU code";
        payload_length: 13, "bytes of payload";
        entropy: 20, "entropy value";
        send: 1, "SEND";
        write: 1, "WRITE";
        read: 1, "READ request";
        atomic: 1, "CmpSwap or FetchAdd";
        retired: 1, "mrc: the end of a message";
        begins: 1, "first or only packet of its message";
        ends: 1, "last or only packet of its message";
        has_immediate: 1, "it carries immediate data";
        invalidates: 1, "SEND with invalidate";
        asks: 1, "memory_regions has been asked";
        needs_request: 1, "it takes a receive request";
        permitted: 1, "the context allows it to the peer";
        well_formed: 1, "length of at most 2^31; atomic at a multiple of 8";
        fits_place: 1, "the payload has a length that its place in the message allows";
        protection_domain: 24, "protection domain";
        rqmsn: 16, "mrc: RQMSN";
        length: 32, "DMA length, 8 for an atomic; receive request: length of the buffer";
        immediate: 32, "immediate data, or the R_Key to invalidate";
        compare: 64, "compare operand; receive request: address of the buffer";
        swap_add: 64, "swap operand or addend; receive request: its cookie";
    }
}

bundle! {
    /// What has to be known of a packet before it can leave the entry.
    pub(super) struct Leaving {
        response: 1, "it goes to the requester";
        asks: 1, "it asks memory_regions";
        invalidates: 1, "SEND with invalidate";
        has_payload: 1, "it has payload";
    }
}

impl<'a> Leaving<'a> {
    /// Of a packet as it is offered.
    pub(super) fn new(m: Module<'a>, config: &NicConfig, packed: Signal<'a>) -> Self {
        let packet = Fields::unpack::<SequencedPacket>(packed);
        let class = Class::new(m, config, &packet);
        let response = packet.get("space");
        Self {
            response,
            asks: class.of(|info| is_request(info) && names_memory(info)),
            invalidates: class.of(|info| is_request(info) && info.has(HeaderKind::Ieth)) & !response,
            has_payload: packet.get("payload_length").any(),
        }
    }
}

fn is_request(info: &OpcodeInfo) -> bool {
    info.operation.is_request()
}

fn names_memory(info: &OpcodeInfo) -> bool {
    info.has(HeaderKind::Reth) || info.has(HeaderKind::AtomicEth)
}

/// One operation with every field 0 but those that `make` gives.
fn operation<'a>(m: Module<'a>, make: impl Fn(&'static str) -> Option<Signal<'a>>) -> Operation<'a> {
    let fields = Operation::fields();
    let signals: Vec<_> = fields
        .into_iter()
        .map(|(name, width, _)| make(name).unwrap_or_else(|| m.lit(0, width)))
        .collect();
    Operation::from_signals(&signals)
}

/// A receive request as an operation.
pub(super) fn receive_request<'a>(m: Module<'a>, packed: Signal<'a>) -> Operation<'a> {
    let request = Fields::unpack::<ReceiveRequest>(packed);
    for name in ["reserved_0", "reserved_1", "local_key"] {
        request.get(name).ignore();
    }
    operation(m, |name| match name {
        "kind" => Some(m.lit(RECEIVE_REQUEST, 2)),
        "qpn" | "length" => Some(request.get(name)),
        "compare" => Some(request.get("address")),
        "swap_add" => Some(request.get("cookie")),
        _ => None,
    })
}

/// A context write as an operation: its queue pair and state. A code that is no state counts as RESET.
pub(super) fn context_write<'a>(m: Module<'a>, packed: Signal<'a>) -> Operation<'a> {
    let context = Fields::unpack::<QueuePairContext>(packed);
    packed.ignore();
    let is = |state: QueuePairState| context.get("state").eq_lit(state as u8);
    let receives = is(QueuePairState::ReadyToReceive) | is(QueuePairState::ReadyToSend);
    let (init, error) = (is(QueuePairState::Init), is(QueuePairState::Error));
    let state = spraynic_rtl::cat(&[receives | error, init | error]);
    operation(m, |name| match name {
        "kind" => Some(m.lit(CONTEXT, 2)),
        "qpn" => Some(context.get("qpn")),
        "state" => Some(state),
        _ => None,
    })
}

/// A packet as an operation, and what it asks of `memory_regions` where `asks` is set.
pub(super) fn packet<'a>(m: Module<'a>, config: &NicConfig, packed: Signal<'a>) -> (Operation<'a>, Signal<'a>) {
    let packet = Fields::unpack::<SequencedPacket>(packed);
    for name in ["space", "reserved_0", "reserved_1", "reserved_2"] {
        packet.get(name).ignore();
    }
    let class = Class::new(m, config, &packet);
    let asks_for = |operation: Asks| class.of(move |info| info.operation == operation);
    let (send, write, read) = (asks_for(Asks::Send), asks_for(Asks::Write), asks_for(Asks::ReadRequest));
    let atomic = asks_for(Asks::CompareSwap) | asks_for(Asks::FetchAdd);
    let begins = class.of(|info| is_request(info) && info.position.begins_message());
    let ends = class.of(|info| is_request(info) && info.position.ends_message());
    let has = |kind: HeaderKind| class.of(move |info| is_request(info) && info.has(kind));
    let (has_reth, has_immediate, invalidates) = (has(HeaderKind::Reth), has(HeaderKind::ImmDt), has(HeaderKind::Ieth));
    let mrc = if config.has_profile(Profile::Mrc) {
        packet.get("profile").eq_lit(Profile::Mrc.code())
    } else {
        m.low()
    };
    let asks = class
        .of(|info| is_request(info) && names_memory(info))
        .named("names_memory");
    let ends_with_immediate = if config.has_profile(Profile::Mrc) {
        class.is(Opcode::MRC_WRITE_LAST_IMMEDIATE) | class.is(Opcode::MRC_WRITE_ONLY_IMMEDIATE)
    } else {
        m.low()
    };
    let needs_request = packet
        .get("retired")
        .mux(ends_with_immediate, (send & begins) | (write & has_immediate & !mrc));

    let headers = headers(m, config, &packet, mrc, has_reth);
    let length = atomic
        .mux(m.lit(ATOMIC_BYTES, 32), headers.length.gate(has_reth))
        .named("dma_length");
    let too_long = length.bit(31) & length.part(0, 31).any();
    let unaligned = atomic & headers.virtual_address.part(0, ATOMIC_BYTES.trailing_zeros()).any();
    let payload = packet.get("payload_length");
    let permitted = !((write & !packet.get("remote_write"))
        | (read & !packet.get("remote_read"))
        | (atomic & !packet.get("remote_atomic")));

    let decoded = operation(m, |name| match name {
        "send" => Some(send),
        "write" => Some(write),
        "read" => Some(read),
        "atomic" => Some(atomic),
        "begins" => Some(begins),
        "ends" => Some(ends),
        "has_immediate" => Some(has_immediate),
        "invalidates" => Some(invalidates),
        "asks" => Some(asks),
        "needs_request" => Some(needs_request & !packet.get("duplicate")),
        "permitted" => Some(permitted),
        "well_formed" => Some(!(too_long | unaligned)),
        "fits_place" => Some(fits_place(m, payload, packet.get("mtu"), begins, ends, read | atomic)),
        "rqmsn" => Some(headers.rqmsn),
        "length" => Some(length),
        "immediate" => Some(headers.immediate),
        "compare" => Some(headers.compare),
        "swap_add" => Some(headers.swap_add),
        "kind" | "state" => None,
        _ => Some(packet.get(name)),
    });
    let access = Fields::build::<MemoryAccess>(|name, width| match name {
        "key" => headers.remote_key,
        "protection_domain" => packet.get("protection_domain"),
        "right" => read.mux(m.lit(READ, 2), atomic.mux(m.lit(ATOMIC, 2), m.lit(0, 2))),
        "address" => headers.virtual_address,
        "length" => mrc.mux(payload.zero_extend(32), length),
        _ => m.lit(0, width),
    });
    (decoded, access.pack())
}

/// The access that invalidates the key of a SEND with invalidate.
pub(super) fn invalidation<'a>(m: Module<'a>, operation: &Operation<'a>) -> Signal<'a> {
    let access = Fields::build::<MemoryAccess>(|name, width| match name {
        "key" => operation.immediate,
        "protection_domain" => operation.protection_domain,
        "right" => m.lit(INVALIDATE, 2),
        _ => m.lit(0, width),
    });
    access.pack()
}

/// Opcode and profile of a packet, to be asked for what the opcode is.
struct Class<'a, 'c> {
    m: Module<'a>,
    config: &'c NicConfig,
    opcode: Signal<'a>,
    profile: Signal<'a>,
    retired: Signal<'a>,
}

impl<'a, 'c> Class<'a, 'c> {
    fn new(m: Module<'a>, config: &'c NicConfig, packet: &Fields<'a>) -> Self {
        Self {
            m,
            config,
            opcode: packet.get("opcode"),
            profile: packet.get("profile"),
            retired: packet.get("retired"),
        }
    }

    fn is(&self, opcode: Opcode) -> Signal<'a> {
        self.opcode.eq_lit(opcode.0)
    }

    /// Whether it is a packet with one of these opcodes, of the profile that it has.
    fn of(&self, wanted: impl Fn(&OpcodeInfo) -> bool) -> Signal<'a> {
        let mut any = self.m.low();
        for profile in Profile::ALL.iter().filter(|profile| self.config.has_profile(**profile)) {
            let known = match profile {
                Profile::Roce => spraynic_wire::Profile::Roce,
                Profile::Solar => spraynic_wire::Profile::Solar,
                Profile::Mrc => spraynic_wire::Profile::Mrc,
            };
            let mut opcodes = self.m.low();
            for info in OPCODES.iter().filter(|info| info.is_in(known) && wanted(info)) {
                opcodes = opcodes | self.is(info.opcode);
            }
            any = any | (opcodes & self.profile.eq_lit(profile.code()));
        }
        any & !self.retired
    }
}

/// Fields of the extension headers; where a packet has no such header they are what stands there.
struct Headers<'a> {
    rqmsn: Signal<'a>,
    virtual_address: Signal<'a>,
    remote_key: Signal<'a>,
    length: Signal<'a>,
    immediate: Signal<'a>,
    swap_add: Signal<'a>,
    compare: Signal<'a>,
}

fn headers<'a>(
    m: Module<'a>,
    config: &NicConfig,
    packet: &Fields<'a>,
    mrc: Signal<'a>,
    has_reth: Signal<'a>,
) -> Headers<'a> {
    let extension = packet.get("extension");
    let total = RequestExtension::default().0.len();
    // The number in these bytes of the header at this byte.
    let number = |at: usize, field: std::ops::Range<usize>| {
        let (from, to) = (at + field.start, at + field.end);
        if to > total {
            return m.lit(0, (to - from) as u32 * 8);
        }
        big_endian(extension.part(from as u32 * 8, (to - from) as u32 * 8))
    };
    let (meth, tseth) = (Meth::LENGTH, Tseth::LENGTH);
    let timestamped = packet.get("timestamped");
    // Where the RETH stands: first, behind METH, behind METH and TSETH.
    let placed = |make: &dyn Fn(usize) -> Signal<'a>| {
        if config.has_profile(Profile::Mrc) {
            mrc.mux(timestamped.mux(make(meth + tseth), make(meth)), make(0))
        } else {
            make(0)
        }
    };
    if !config.has_profile(Profile::Mrc) {
        timestamped.ignore();
    }
    let behind_reth = placed(&|at| number(at + Reth::LENGTH, 0..ImmDt::LENGTH));
    let headers = Headers {
        rqmsn: number(0, 0..2),
        virtual_address: placed(&|at| number(at, 0..8)),
        remote_key: placed(&|at| number(at, 8..12)),
        length: placed(&|at| number(at, 12..16)),
        immediate: has_reth.mux(behind_reth, number(0, 0..ImmDt::LENGTH)),
        swap_add: number(0, 12..20),
        compare: number(0, 20..AtomicEth::LENGTH),
    };
    headers.immediate.ignore();
    headers
}

/// Whether the payload has a length that the packet's place in its message allows.
fn fits_place<'a>(
    m: Module<'a>,
    payload: Signal<'a>,
    mtu: Signal<'a>,
    begins: Signal<'a>,
    ends: Signal<'a>,
    no_payload: Signal<'a>,
) -> Signal<'a> {
    let sizes: Vec<_> = (0..8u32).map(|code| m.lit(128u32 << code.clamp(1, 5), 13)).collect();
    let bytes = mtu.select(&sizes);
    let within = payload.le(bytes) & (begins | payload.any());
    no_payload.mux(!payload.any(), ends.mux(within, payload.eq(bytes)))
}
