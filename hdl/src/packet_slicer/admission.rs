//! Admission of work requests: context, checks, PSN, in four clocks that never stall.
//!
//! Clock 1: the request is registered and its context read. Clock 2: the context comes out of the RAM; the sequence numbers are
//! read. Clock 3: checks; the sequence numbers come out. Clock 4: the verdict; the sequence numbers of the next message are written back. A
//! request of the same queue pair one clock behind gets them by a bypass, two clocks behind by the RAM's own.
//! A context is written only while no request is between reading and writing back, so that the order of acceptance holds.

use super::Message;
use crate::counter::{Counter, count_when};
use crate::fields::Fields;
use crate::sweep;
use spraynic_config::descriptor::{SliceContext, WorkOpcode, WorkRequest};
use spraynic_config::{NicConfig, Operation, Profile};
use spraynic_rtl::{Module, ReadDuringWrite, Signal, Stream, cat, cat_lsb_first};

/// What leaves admission in each clock.
pub(super) struct Admission<'a> {
    /// A message was admitted.
    pub(super) admitted: Signal<'a>,
    /// A request was dropped.
    pub(super) dropped: Signal<'a>,
    /// The admitted message.
    pub(super) message: Message<'a>,
    /// Name, meaning and event of each drop counter.
    pub(super) drops: Vec<(&'static str, &'static str, Signal<'a>)>,
}

/// What a request is, decoded.
pub(crate) struct Decoded<'a> {
    pub(super) send: Signal<'a>,
    pub(super) invalidate: Signal<'a>,
    pub(super) write: Signal<'a>,
    pub(super) read: Signal<'a>,
    pub(super) compare_swap: Signal<'a>,
    pub(super) fetch_add: Signal<'a>,
    pub(super) immediate: Signal<'a>,
}

impl<'a> Decoded<'a> {
    pub(crate) fn new(request: &Fields<'a>) -> Self {
        let is = |opcode: WorkOpcode| request.get("opcode").eq_lit(opcode as u8);
        Self {
            send: is(WorkOpcode::Send),
            invalidate: is(WorkOpcode::SendInvalidate),
            write: is(WorkOpcode::Write),
            read: is(WorkOpcode::Read),
            compare_swap: is(WorkOpcode::CompareSwap),
            fetch_add: is(WorkOpcode::FetchAdd),
            immediate: request.get("inline_immediate"),
        }
    }

    fn atomic(&self) -> Signal<'a> {
        self.compare_swap | self.fetch_add
    }

    pub(crate) fn has_payload(&self) -> Signal<'a> {
        self.send | self.invalidate | self.write
    }

    /// The operations of the configuration that this request could be, each with its condition. A flag of immediate data where none can be
    /// is a later check's business.
    fn operations(&self) -> [(Operation, Signal<'a>); 7] {
        [
            (Operation::Send, self.send & !self.immediate),
            (Operation::SendImmediate, self.send & self.immediate),
            (Operation::SendInvalidate, self.invalidate),
            (Operation::Write, self.write & !self.immediate),
            (Operation::WriteImmediate, self.write & self.immediate),
            (Operation::Read, self.read),
            (Operation::Atomic, self.atomic()),
        ]
    }
}

fn any<'a>(m: Module<'a>, conditions: impl Iterator<Item = Signal<'a>>) -> Signal<'a> {
    conditions.fold(m.low(), |sum, condition| sum | condition)
}

/// Builds the pipeline and drives `ready` of both streams.
pub(super) fn admission<'a>(
    m: Module<'a>,
    config: &NicConfig,
    requests: Stream<'a>,
    contexts: Stream<'a>,
    has_place: Signal<'a>,
) -> Admission<'a> {
    let count = config.queue_pairs.count;
    let index_bits = config.qpn_bits();
    // After reset every context is closed, one a clock.
    let sweep = sweep::after_reset(m, index_bits);
    let (clearing, clear_index) = (sweep.active, sweep.index);

    // Clock 1: the request, registered.
    let valid_1 = m.reg("valid_1", 1).reset(0);
    let request_1 = m.reg("request_1", requests.data.width());
    requests.ready.set(has_place & !clearing & !contexts.valid);
    valid_1.set(requests.fires());
    m.when(requests.fires(), || request_1.set(requests.data));
    let qpn_of = |request: Signal<'a>| Fields::unpack::<WorkRequest>(request).get("qpn");

    let (valid_2, valid_3, valid_4) = (
        m.reg("valid_2", 1).reset(0),
        m.reg("valid_3", 1).reset(0),
        m.reg("valid_4", 1).reset(0),
    );
    valid_2.set(valid_1);
    valid_3.set(valid_2);
    valid_4.set(valid_3);
    let idle = !(valid_1 | valid_2 | valid_3 | valid_4);
    contexts.ready.set(idle.named("admission_idle") & !clearing);

    // The tables. The sequence numbers are apart, because each message writes them back.
    let context = Fields::unpack::<SliceContext>(contexts.data);
    let in_table = |qpn: Signal<'a>| !(qpn >> index_bits).any();
    let write_context = contexts.fires() & in_table(context.get("qpn"));
    let rights = cat_lsb_first(&["open", "profile", "mtu", "timestamps", "entropy"].map(|name| context.get(name)));
    let sequence = cat_lsb_first(&["psn", "msn", "rqmsn"].map(|name| context.get(name)));
    let context_index = context.get("qpn").part(0, index_bits);
    for name in ["reserved_0", "reserved_1"] {
        context.get(name).ignore();
    }

    let rights_ram = m.memory("contexts", count, rights.width());
    rights_ram.write(
        write_context | clearing,
        clearing.mux(clear_index, context_index),
        rights.gate(!clearing),
    );
    // Clock 2: the context comes out of the RAM, and only into a register.
    let rights_2 = rights_ram.read(valid_1, qpn_of(request_1).part(0, index_bits));
    let request_2 = request_1.delayed("request_2");

    let sequence_ram = m
        .memory("sequences", count, sequence.width())
        .read_during_write(ReadDuringWrite::New);
    let sequence_ram_3 = sequence_ram.read(valid_2, qpn_of(request_2).part(0, index_bits));

    // Clock 3: checks.
    let rights_3 = rights_2.delayed("rights_3");
    let request_3 = request_2.delayed("request_3");
    let checks = check(m, config, request_3, rights_3, in_table(qpn_of(request_3)));

    // Clock 4: verdict and write-back.
    let admitted = valid_4 & checks.good.delayed("good_4");
    let request_4 = request_3.delayed("request_4");
    let rights_4 = rights_3.delayed("rights_4");
    let psns_4 = checks.psns.delayed("psns_4");
    let (mrc_4, immediate_4) = (checks.mrc.delayed("mrc_4"), checks.immediate.delayed("immediate_4"));
    let sequence_4 = m.reg("sequence_4", sequence.width());
    let psn = sequence_4.part(0, 24).named("psn");
    let msn = sequence_4.part(24, 16).named("msn");
    let rqmsn = sequence_4.part(40, 16).named("rqmsn");
    let next_sequence = cat(&[
        rqmsn + (mrc_4 & immediate_4).zero_extend(16),
        msn + mrc_4.zero_extend(16),
        psn + psns_4,
    ])
    .named("next_sequence");
    let behind = (admitted & qpn_of(request_4).eq(qpn_of(request_3))).named("same_queue_pair_behind");
    sequence_4.set(behind.mux(next_sequence, sequence_ram_3));
    sequence_ram.write(
        write_context | admitted,
        admitted.mux(qpn_of(request_4).part(0, index_bits), context_index),
        admitted.mux(next_sequence, sequence),
    );
    m.assert("one_writer_of_sequences", !(write_context & admitted));

    let drops = checks
        .drops
        .into_iter()
        .map(|(name, doc, reason)| (name, doc, valid_4 & reason))
        .collect::<Vec<_>>();
    let beyond = contexts.fires() & !in_table(context.get("qpn"));
    count_when(
        m,
        Counter("drop_context", "context writes for a QPN beyond the table"),
        beyond,
    );

    let request = Fields::unpack::<WorkRequest>(request_4);
    for name in [
        "signalled",
        "fence",
        "reserved_flags",
        "reserved_0",
        "reserved_1",
        "cookie",
    ] {
        request.get(name).ignore();
    }
    let decoded = Decoded::new(&request);
    let message = Message {
        qpn: request.get("qpn"),
        mrc: mrc_4,
        send: decoded.send | decoded.invalidate,
        write: decoded.write,
        read: decoded.read,
        invalidate: decoded.invalidate,
        fetch_add: decoded.fetch_add,
        immediate_flag: immediate_4,
        // SE belongs to what completes a receive request (IBA 9.2): not to READ, atomics and plain WRITE.
        solicited: request.get("solicited") & (decoded.send | decoded.invalidate | (decoded.write & immediate_4)),
        timestamps: mrc_4 & rights_4.bit(6),
        mtu: rights_4.part(3, 3),
        entropy: rights_4.part(7, 32),
        psn,
        msn,
        rqmsn,
        local_address: request.get("local_address"),
        local_key: request.get("local_key"),
        length: request.get("length"),
        remote_address: request.get("remote_address"),
        remote_key: request.get("remote_key"),
        immediate: request.get("immediate"),
        compare: request.get("compare"),
        swap_add: request.get("swap_add"),
    };
    Admission {
        admitted,
        dropped: valid_4 & !admitted,
        message,
        drops,
    }
}

/// Result of the checks, in clock 3; `drops` in clock 4.
pub(crate) struct Checks<'a> {
    pub(crate) good: Signal<'a>,
    /// PSNs that the message takes.
    pub(crate) psns: Signal<'a>,
    pub(crate) mrc: Signal<'a>,
    immediate: Signal<'a>,
    pub(crate) drops: Vec<(&'static str, &'static str, Signal<'a>)>,
}

/// Checks a request of a queue pair with these rights: open, profile, MTU code from bit 0 on. The result is there in the same clock,
/// the reasons of a drop in the next one.
pub(crate) fn check<'a>(
    m: Module<'a>,
    config: &NicConfig,
    request: Signal<'a>,
    rights: Signal<'a>,
    in_table: Signal<'a>,
) -> Checks<'a> {
    let request = Fields::unpack::<WorkRequest>(request);
    let decoded = Decoded::new(&request);
    let (open, profile, mtu) = (rights.bit(0), rights.part(1, 2), rights.part(3, 3));
    let of_profile = |wanted: Profile| config.has_profile(wanted).then(|| profile.eq_lit(wanted.code()));
    let possible = Profile::ALL.iter().filter_map(|wanted| {
        let operations = decoded
            .operations()
            .into_iter()
            .filter(|(operation, _)| config.has_operation(*operation) && wanted.carries(*operation));
        of_profile(*wanted).map(|condition| condition & any(m, operations.map(|(_, condition)| condition)))
    });
    let possible = any(m, possible).named("operation_possible");
    let length = request.get("length");
    let over = length.bit(31) & length.part(0, 31).any();
    let mtu_good = any(m, (1..=config.max_mtu_code()).map(|code| mtu.eq_lit(code)));
    let reasons = [
        (
            "drop_queue_pair",
            "requests of a queue pair that is beyond the table or not open",
            !(in_table & open),
        ),
        (
            "drop_opcode",
            "requests of an operation that is unknown or not in profile and configuration",
            !possible,
        ),
        (
            "drop_segments",
            "requests of another number of segments than 1",
            request.get("segments").ne_lit(1),
        ),
        (
            "drop_immediate",
            "requests with immediate data where the operation has none",
            decoded.immediate & !(decoded.send | decoded.write),
        ),
        (
            "drop_length",
            "requests of more than 2^31 bytes, and atomics of other than 8",
            over | (decoded.atomic() & length.ne_lit(8)),
        ),
        (
            "drop_alignment",
            "atomics at an address that is no multiple of 8",
            decoded.atomic() & request.get("remote_address").part(0, 3).any(),
        ),
        (
            "drop_mtu",
            "requests of a queue pair whose MTU code is none or too large",
            !mtu_good,
        ),
    ];
    let mut good = m.high();
    let mut drops = vec![];
    for (name, doc, wrong) in reasons {
        drops.push((name, doc, (good & wrong).delayed(&format!("{name}_4"))));
        good = good & !wrong;
    }
    let roce = of_profile(Profile::Roce).unwrap_or_else(|| m.low());
    let many = decoded.has_payload() | (decoded.read & roce);
    let psns = many.mux(packets_of_length(length, mtu), m.lit(1, 24));
    Checks {
        good: good.named("request_good"),
        psns,
        mrc: of_profile(Profile::Mrc).unwrap_or_else(|| m.low()),
        immediate: decoded.immediate,
        drops,
    }
}

/// Packets of a message with payload: length / MTU rounded up, at least 1; 24 bits.
pub(crate) fn packets_of_length<'a>(length: Signal<'a>, mtu: Signal<'a>) -> Signal<'a> {
    let choices = (0..8u32).map(|code| {
        let shift = 7 + code.clamp(1, 5);
        let whole = (length >> shift).part(0, 24);
        let more = length.part(0, shift).any() | !whole.any();
        cat(&[whole, more])
    });
    let chosen = mtu.select(&choices.collect::<Vec<_>>());
    let packets = chosen.part(1, 24) + chosen.bit(0).zero_extend(24);
    packets.named("packets_of_length")
}
